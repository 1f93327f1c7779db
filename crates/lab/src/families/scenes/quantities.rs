//! What is measured of scenes.

use mnemora_training::{
    Quantity,
    measures::{Better, Claim, Format},
};
use mnemora_worlds::scenes::Part;

const MSE: &str = "mean squared error of a pixel";

/// The measurements of models of scenes.
pub static QUANTITIES: [Quantity; 36] = [
    Quantity::new("bound", "bound", "nats per scene")
        .meaning("of {targets} targets at the first test variance, without the Gaussian's constant, mean over {sequences} draws of held-out scenes and views, higher is better")
        .spread("bound_stderr", "draws")
        .better(Better::Higher)
        .column(2)
        .tracked()
        .finite()
        .progress("bound", Format::Digits)
        .checkpoint("bound", Format::Digits)
        .claims(&[Claim::new("bound", "nats per scene", 3)]),
    Quantity::new("kl", "KL", "nats per scene")
        .meaning("of the posterior from the prior; the posterior sees all targets, or as many as scenes.model.posterior_targets says")
        .better(Better::Lower)
        .tracked()
        .finite()
        .progress("KL", Format::Digits)
        .claims(&[Claim::new("KL", "nats per scene", 3)]),
    Quantity::new("reconstruction_error", "reconstruction", MSE)
        .meaning("of all targets, also of those that the posterior does not see")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .column(5)
        .tracked()
        .progress("error", Format::Digits)
        .claims(&[Claim::new("error of reconstructions", "mean squared error", 5)]),
    Quantity::new("kl_one", "KL, one target", "nats per scene")
        .meaning("the posterior sees one target that tells what is hidden; log {completions} nats are enough")
        .better(Better::Lower)
        .tracked()
        .claims(&[Claim::new("KL, one target", "nats per scene", 3)]),
    Quantity::new("kl_all", "KL, all targets", "nats per scene")
        .meaning("all targets tell what is hidden; the posterior sees them all, or as many as scenes.model.posterior_targets says")
        .better(Better::Lower)
        .tracked()
        .claims(&[Claim::new("KL, all targets", "nats per scene", 3)]),
    Quantity::new("kl_ratio", "KL of all targets over that of one", "ratio")
        .meaning("1 if all targets tell the same; with latents of their own it is the number of targets")
        .format(Format::Decimals(3))
        .claims(&[Claim::new("KL of all targets / of one", "ratio", 3)]),
    Quantity::new("kl_told", "KL, context that tells", "nats per scene")
        .meaning("the context tells what the targets tell; the ideal is 0")
        .better(Better::Lower)
        .claims(&[Claim::new("KL, context that tells", "nats per scene", 3)]),
    Quantity::new("hidden_bound", "bound of what is hidden", "nats per scene")
        .meaning("of targets that tell what the context hides, at the first test variance, without the constant")
        .better(Better::Higher)
        .claims(&[Claim::new("bound of what is hidden", "nats per scene", 3)]),
    Quantity::new("bound_at", "bound at a variance of {variance}", "nats per scene")
        .at("by_variance")
        .meaning("of any targets, without the constant")
        .better(Better::Higher)
        .claims(&[Claim::new("bound at a variance of {variance}", "nats per scene", 3)]),
    Quantity::new("hidden_bound_at", "bound of what is hidden at a variance of {variance}", "nats per scene")
        .at("hidden_by_variance")
        .meaning("of targets that tell what the context hides, without the constant")
        .better(Better::Higher)
        .claims(&[Claim::new("bound of what is hidden at a variance of {variance}", "nats per scene", 3)]),
    Quantity::new("read_right", "reconstructions read right", "% of targets")
        .meaning("of all ways to complete the scene, the true one is nearest to the reconstructed target")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .tracked()
        .checkpoint("read right", Format::Decimals(3))
        .claims(&[Claim::new("reconstructions read right", "share of targets", 4)]),
    Quantity::new("alike", "samples coherent", "% of samples")
        .meaning("what is nearest to all targets of a sample together is nearest to each of them")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .column(3)
        .tracked()
        .checkpoint("coherent", Format::Decimals(3))
        .claims(&[Claim::new("samples coherent", "share of samples", 4)]),
    Quantity::new("right_kind", "reconstructions read as the right kind", "% of targets")
        .meaning("what is nearest to the reconstructed target is of the true kind, such as another image of the same digit")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .tracked()
        .claims(&[Claim::new("reconstructions read as the right kind", "share of targets", 4)]),
    Quantity::new("same_kind", "samples of one kind", "% of samples")
        .meaning("what is nearest to each target of a sample is of the same kind, such as images of the same digit")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .tracked()
        .claims(&[Claim::new("samples of one kind", "share of samples", 4)]),
    Quantity::new("entropy", "entropy of what is drawn", "nats")
        .meaning("of the completions read off all samples; {entropy_most} if all are drawn alike")
        .better(Better::Higher)
        .tracked()
        .claims(&[Claim::new("entropy of what is drawn", "nats", 3)]),
    Quantity::new("valid", "completions that can be", "% of samples")
        .meaning("what is read off a sample is a completion that the context allows")
        .format(Format::Percent(1))
        .better(Better::Higher)
        .claims(&[Claim::new("completions that can be", "share of samples", 4)]),
    Quantity::new("min_mse", "best sample", MSE)
        .meaning("the smallest error of all samples of a scene ({samples}), mean over scenes")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .column(5)
        .tracked()
        .claims(&[Claim::new("error of the best sample", "mean squared error", 5)]),
    Quantity::new("mean_mse", "mean sample", MSE)
        .meaning("the mean error of all samples of a scene ({samples})")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of a sample", "mean squared error", 5)]),
    Quantity::new("nearest_mse", "nearest view of the context", MSE)
        .meaning("the frame of the context whose query is nearest, in place of the model")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of the nearest view", "mean squared error", 5)]),
    Quantity::new("average_mse", "mean of the context", MSE)
        .meaning("the mean of the context's frames, in place of the model")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of the context's mean", "mean squared error", 5)]),
    Quantity::new("guess_mse", "guess at what is hidden", MSE)
        .meaning("a completion drawn at random and rendered, in place of the model")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of a guess at what is hidden", "mean squared error", 5)]),
    Quantity::new("context_mse", "views of the context", MSE)
        .meaning("samples at the queries of the context")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error at views of the context", "mean squared error", 5)]),
    sample_of("beginning_mse", "sample, the beginning is seen").claims(&[Claim::new("error of a sample, the beginning is seen", "mean squared error", 5)]),
    copied_of("beginning_nearest_mse", "nearest view, the beginning is seen").claims(&[Claim::new("error of the nearest view, the beginning is seen", "mean squared error", 5)]),
    sample_of("middle_mse", "sample, the middle is seen").claims(&[Claim::new("error of a sample, the middle is seen", "mean squared error", 5)]),
    copied_of("middle_nearest_mse", "nearest view, the middle is seen").claims(&[Claim::new("error of the nearest view, the middle is seen", "mean squared error", 5)]),
    sample_of("end_mse", "sample, the end is seen").claims(&[Claim::new("error of a sample, the end is seen", "mean squared error", 5)]),
    copied_of("end_nearest_mse", "nearest view, the end is seen").claims(&[Claim::new("error of the nearest view, the end is seen", "mean squared error", 5)]),
    sample_of("ends_mse", "sample, both ends are seen").claims(&[Claim::new("error of a sample, both ends are seen", "mean squared error", 5)]),
    copied_of("ends_nearest_mse", "nearest view, both ends are seen").claims(&[Claim::new("error of the nearest view, both ends are seen", "mean squared error", 5)]),
    Quantity::new("story_min_mse", "best continuation", MSE)
        .meaning("the first frames of a story are seen: the smallest error of all samples ({samples}) of the frames that follow, mean over stories")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .column(5)
        .tracked()
        .checkpoint("best continuation", Format::Decimals(5))
        .claims(&[Claim::new("error of the best continuation", "mean squared error", 5)]),
    Quantity::new("story_mean_mse", "mean continuation", MSE)
        .meaning("the mean error of all samples ({samples}) of the frames that follow")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .tracked()
        .claims(&[Claim::new("error of a continuation", "mean squared error", 5)]),
    Quantity::new("story_all_min_mse", "best story", MSE)
        .meaning("the smallest error over all frames of a story, also those of the context. There the rendering of a model of views counts, of SV2P and CDNA the prediction from the true frame before; the sSSM copies them and has no error")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of the best story", "mean squared error", 5)]),
    Quantity::new("story_all_mean_mse", "mean story", MSE)
        .meaning("the mean error over all frames of a story")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of a story", "mean squared error", 5)]),
    Quantity::new("story_copied_mse", "last frame copied", MSE)
        .meaning("the last frame that is seen, in place of all that follow")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of the last frame copied", "mean squared error", 5)]),
    Quantity::new("story_average_mse", "mean of the first frames", MSE)
        .meaning("the mean of the frames that are seen, in place of all that follow")
        .format(Format::Decimals(5))
        .better(Better::Lower)
        .claims(&[Claim::new("error of the first frames' mean", "mean squared error", 5)]),
];

/// The names of the measurements when a part of a story is seen: the error of samples, and of the nearest view.
pub fn of_part(part: Part) -> [&'static str; 2] {
    match part {
        Part::Beginning => ["beginning_mse", "beginning_nearest_mse"],
        Part::Middle => ["middle_mse", "middle_nearest_mse"],
        Part::End => ["end_mse", "end_nearest_mse"],
        Part::Ends => ["ends_mse", "ends_nearest_mse"],
    }
}

const fn sample_of(key: &'static str, name: &'static str) -> Quantity {
    Quantity::new(key, name, MSE)
        .meaning("the mean error of samples of frames that are not seen")
        .format(Format::Decimals(5))
        .better(Better::Lower)
}

const fn copied_of(key: &'static str, name: &'static str) -> Quantity {
    Quantity::new(key, name, MSE)
        .meaning("the seen frame nearest in time, in place of the model")
        .format(Format::Decimals(5))
        .better(Better::Lower)
}
