//! A trained run made small enough to give away: weights without the optimiser's state, numbers,
//! and a card that says what they are.

use crate::{
    Experiment, LabError,
    checkpoint::{self, Checkpoint},
    device::light_device,
    open::{Which, open},
    present::numbers,
    run::{EVALUATION_FILE, METRICS_FILE, Run, read_origin, write_atomically, write_json},
    weights::Arrays,
};
use std::{fmt::Write, path::Path};

/// The card of an exported run.
pub const CARD_FILE: &str = "README.md";

/// Copies what is needed to look at a run into the new directory `out`: `generate`, `eval`, `report`
/// and `compare` take it as any run; `resume` does not.
///
/// # Errors
/// If `run` is no run with a whole checkpoint, or `out` holds something.
pub fn export(run: &Path, which: Which, data: Option<&Path>, out: &Path) -> Result<(), LabError> {
    let trained = open(run, which, &[], data, &light_device()?)?;
    let target = Run::create(out)?;
    let evaluation = trained.evaluate()?;
    let mut origin = read_origin(run)?;
    // Folders mean nothing on another machine.
    if !trained.experiment.data.directory.is_empty() {
        let set = origin.data.split(':').next().unwrap_or_default();
        origin.data = format!("{set}: a folder");
    }
    origin.command = without_data(&origin.command);

    let mut experiment = trained.experiment.clone();
    experiment.data.directory = String::new();
    target.describe(&experiment, &origin)?;
    let metrics = run.join(METRICS_FILE);
    let rows = std::fs::read(&metrics).map_err(|error| LabError::read(&metrics, error))?;
    write_atomically(&out.join(METRICS_FILE), &rows)?;
    checkpoint::save(
        out,
        &Checkpoint {
            state: trained.state.clone(),
            weights: trained.learner.weights(),
            optimizer: Arrays::new(),
        },
    )?;
    write_json(&out.join(EVALUATION_FILE), &evaluation)?;

    let mut card = format!("# {}, {}\n\n", experiment.name, experiment.label());
    if !experiment.description.is_empty() {
        let _ = write!(card, "{}.\n\n", experiment.description);
    }
    let _ = write!(
        card,
        "Weights after {} updates, seed {}, {} parameters. Data: {}{}.\n\
         Trained by `{}`, mnemora {} at commit {}, in {:.0} s on {}.\n\n\
         Measured on {} held-out sequences:\n\n| number | value | unit | meaning |\n\
         | --- | --- | --- | --- |\n",
        evaluation.step,
        experiment.seed,
        origin.parameters,
        origin.data,
        fingerprint(&experiment),
        origin.command,
        origin.version,
        origin.commit,
        trained.state.elapsed_seconds,
        origin.machine_and_device(),
        evaluation.sequences,
    );
    for number in numbers(&evaluation) {
        let _ = writeln!(
            card,
            "| {} | {} | {} | {} |",
            number.name, number.value, number.unit, number.meaning
        );
    }
    for note in trained.learner.notes() {
        let _ = write!(card, "\nOf the data: {note}.\n");
    }
    let _ = write!(
        card,
        "\nThe state of the optimiser is left out: it can be looked at (`mnemora generate`, \
         `report`, `eval`), not trained on.\n"
    );
    write_atomically(&out.join(CARD_FILE), card.as_bytes())
}

/// The fingerprint of the data, where there is one.
fn fingerprint(experiment: &Experiment) -> String {
    match experiment.data.fingerprint.get(..12) {
        Some(short) => format!(" (fingerprint of the data {short})"),
        None => String::new(),
    }
}

/// A command with the folder after `--data` left out.
fn without_data(command: &str) -> String {
    let mut words = Vec::new();
    let mut folder = false;
    for word in command.split(' ') {
        if std::mem::take(&mut folder) {
            words.push("DIR");
        } else if word.starts_with("--data=") {
            words.push("--data=DIR");
        } else {
            folder = word == "--data";
            words.push(word);
        }
    }
    words.join(" ")
}
