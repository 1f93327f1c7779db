//! What is measured of models of tables.

use mnemora_training::{
    Quantity,
    measures::{Better, Claim, Format},
};

/// The measurements of models of tables. The best checkpoint has the lowest free energy on the validation part.
pub static QUANTITIES: [Quantity; 11] = [
    Quantity::new("free_energy", "free energy", "nats per step")
        .meaning("minus the bound on the log density of what was observed, in the coding of the model; over {scored_steps} steps of the {scored_part} part, lower is better")
        .format(Format::Decimals(4))
        .better(Better::Lower)
        .column(3)
        .tracked()
        .finite()
        .progress("free energy", Format::Decimals(3))
        .checkpoint("free energy", Format::Decimals(3))
        .claims(&[Claim::new("free energy", "nats per step", 3)]),
    Quantity::new("kl", "KL", "nats per step")
        .meaning("what the latents of a step tell beyond what was expected")
        .format(Format::Decimals(4))
        .tracked(),
    Quantity::new("crps", "CRPS", "changes")
        .meaning("continuous ranked probability score of the forecasts, in units of the mean change from step to step in training; {horizon} steps ahead from {origins} steps of the {scored_part} part")
        .format(Format::Decimals(4))
        .better(Better::Lower)
        .spread("crps_stderr", "stretches as long as a forecast")
        .column(3)
        .claims(&[Claim::new("CRPS", "mean changes in training", 4)]),
    Quantity::new("coverage", "coverage", "")
        .meaning("share of the truths of columns of numbers in the bands that should hold 80%")
        .format(Format::Decimals(3))
        .spread("coverage_stderr", "stretches as long as a forecast")
        .column(3)
        .claims(&[Claim::new("coverage of 80% bands", "", 4)]),
    Quantity::new("mase", "MASE", "changes")
        .meaning("mean absolute error of the median, in the same units")
        .format(Format::Decimals(4))
        .better(Better::Lower)
        .column(3)
        .claims(&[Claim::new("MASE", "mean changes in training", 4)]),
    Quantity::new("rmse", "RMSE", "changes")
        .meaning("root of the mean squared error of the mean, in the same units")
        .format(Format::Decimals(4))
        .better(Better::Lower)
        .claims(&[Claim::new("RMSE", "mean changes in training", 4)]),
    baseline("random_walk", "CRPS of the random walk")
        .claims(&[Claim::new("CRPS of the random walk", UNIT, 4)]),
    baseline("season_before", "CRPS of the season before")
        .claims(&[Claim::new("CRPS of the season before", UNIT, 4)]),
    baseline("season_change", "CRPS of the season before and the change since")
        .claims(&[Claim::new("CRPS of the season before and the change since", UNIT, 4)]),
    baseline("autoregression", "CRPS of the autoregression")
        .claims(&[Claim::new("CRPS of the autoregression", UNIT, 4)]),
    baseline("of_changes", "CRPS of the autoregression of changes")
        .claims(&[Claim::new("CRPS of the autoregression of changes", UNIT, 4)]),
];

/// What errors are divided by.
const UNIT: &str = "mean changes in training";

/// The score of a forecast without a network.
const fn baseline(key: &'static str, name: &'static str) -> Quantity {
    Quantity::new(key, name, "changes")
        .meaning("the same forecasts without a network, fitted on the training part")
        .format(Format::Decimals(4))
        .better(Better::Lower)
}
