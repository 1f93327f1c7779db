//! Exports a trained run for sharing: weights without the optimiser's state, numbers, and a model card.

use crate::{
    Experiment, LabError, Trained,
    kept::{keep_as, kept},
    open::{Which, open},
};
use mnemora_training::{
    Error, Row, Snapshot,
    checkpoint::{self, Checkpoint},
    device::light_device,
    disk,
    run::{
        Draft, EVALUATION_FILE, METRICS_FILE, Origin, read_origin, write_atomically, write_json,
    },
    say::{note, one_line},
    shell::without_folders,
};
use std::{fmt::Write, path::Path};

/// The model card of an exported run.
pub const CARD_FILE: &str = "README.md";

/// Copies everything needed to look at a run into the new directory `out`, completely or not at all. `generate`,
/// `eval`, `report` and `compare` accept it like any run; `resume` does not. The copy of a table that a run keeps comes
/// along if it is asked for.
///
/// # Errors
/// If `run` is not a run with an intact checkpoint, if its held-out numbers are not finite, if it keeps no copy that is
/// asked for, or if `out` is not empty.
pub fn export(
    run: &Path,
    which: Which,
    data: Option<&Path>,
    with_data: bool,
    out: &Path,
) -> Result<(), LabError> {
    let trained = open(run, which, &[], data, &light_device()?)?;
    let copy = kept(run, &trained.experiment);
    if with_data && copy.is_none() {
        return Err(LabError::Configuration(format!(
            "--with-data: {} keeps no copy of its data",
            run.display()
        )));
    }
    let draft = Draft::begin(out).map_err(|error| match error {
        // A copy cannot be continued.
        Error::RunExists(directory) => LabError::Configuration(format!(
            "{} already exists; choose another --out",
            directory.display()
        )),
        error => error.into(),
    })?;
    let evaluation = trained.evaluate()?;
    trained.check_finite(&evaluation)?;
    let mut origin = read_origin(run)?;
    // Folder names mean nothing on another machine.
    if !trained.experiment.data.directory.is_empty() {
        let set = origin.data.split(':').next().unwrap_or_default();
        let kind = match copy.is_some() || Path::new(&trained.experiment.data.directory).is_file() {
            true => "a file",
            false => "a folder",
        };
        origin.data = format!("{set}: {kind}");
    }
    origin.command = without_folders(&origin.command);
    for change in &mut origin.changes {
        change.command = without_folders(&change.command);
    }
    let mut experiment = trained.experiment.clone();
    experiment.data.directory = String::new();
    if let Some((copy, name)) = copy
        .as_deref()
        .filter(|_| with_data)
        .and_then(|copy| Some((copy, copy.file_name()?)))
    {
        let bytes = disk::read(copy).map_err(|error| LabError::read(copy, error))?;
        keep_as(draft.path(), name, &bytes)?;
        experiment.data.directory = name.to_string_lossy().into_owned();
    }

    let metrics = run.join(METRICS_FILE);
    let rows = disk::read(&metrics).map_err(|error| LabError::read(&metrics, error))?;
    write_atomically(&draft.path().join(METRICS_FILE), &rows)?;
    let Snapshot {
        model, counters, ..
    } = trained.ask(|learner| Ok(learner.snapshot()))?;
    checkpoint::save(
        draft.path(),
        &Checkpoint {
            state: trained.state.clone(),
            snapshot: Snapshot {
                model,
                // The stage of a training can decide which parts of the model are used.
                counters,
                vocabulary: trained.ask(|learner| Ok(learner.vocabulary()))?,
                ..Snapshot::default()
            },
        },
    )?;
    write_json(&draft.path().join(EVALUATION_FILE), &evaluation)?;
    let notes = trained.ask(|learner| Ok(learner.notes()))?;
    let without_table = copy.is_some() && !with_data;
    if without_table {
        note(
            "mnemora: the table is not in the export, and forecasts and filters need it; --with-data takes it along",
        );
    }
    let card = card(
        &trained,
        &experiment,
        &origin,
        &evaluation,
        &notes,
        without_table,
    );
    write_atomically(&draft.path().join(CARD_FILE), card.as_bytes())?;
    draft.finish(&experiment.to_toml()?, origin)?;
    Ok(())
}

/// The model card, in Markdown.
fn card(
    trained: &Trained,
    experiment: &Experiment,
    origin: &Origin,
    evaluation: &Row,
    notes: &[String],
    without_table: bool,
) -> String {
    let mut card = format!(
        "# {}, {}\n\n",
        text(&experiment.name),
        text(&experiment.label())
    );
    if !experiment.description.is_empty() {
        let _ = write!(card, "{}.\n\n", text(&experiment.description));
    }
    let _ = write!(
        card,
        "Weights after {} updates, seed {}, {} parameters. Data: {}{}.\n\
         Trained by {}, mnemora {} at commit {}, in {:.0} s on {}.\n",
        evaluation.step,
        experiment.seed,
        origin.parameters,
        text(&origin.data),
        fingerprint(experiment),
        code(&origin.command),
        text(&origin.version),
        text(&origin.commit),
        trained.state.elapsed_seconds,
        text(&origin.machine_and_device()),
    );
    for change in &origin.changes {
        let _ = writeln!(
            card,
            "Continued after {} updates by {}.",
            change.after_step,
            code(&change.command)
        );
    }
    let _ = write!(
        card,
        "\nMeasured on {} held-out sequences:\n\n| number | value | unit | meaning |\n\
         | --- | --- | --- | --- |\n",
        evaluation.measures.count("sequences").unwrap_or(0),
    );
    for number in trained.numbers(evaluation) {
        let columns = [number.name, number.value, number.unit, number.meaning];
        let _ = writeln!(card, "| {} |", columns.map(|c| text(&c)).join(" | "));
    }
    for note in notes {
        let _ = write!(card, "\nNote on the data: {}.\n", text(note));
    }
    let _ = write!(
        card,
        "\nThe optimiser's state is not included: the model can be evaluated, drawn and \
         used, but not trained further.\n"
    );
    if without_table {
        let _ = write!(
            card,
            "\nThe table is not included. Forecasts and filters need it; `mnemora export RUN --with-data` takes it along.\n"
        );
    }
    card
}

/// Escapes a text for Markdown, so that neither its marks nor HTML in it have any effect.
fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => {
                shown.push('\\');
                shown.push(c);
            }
            c => shown.push(c),
        }
    }
    shown
}

/// The text as inline code, between more backticks than it has in a row.
fn code(text: &str) -> String {
    let text = one_line(text);
    let mut longest = 0;
    for run in text.split(|c| c != '`') {
        longest = longest.max(run.len());
    }
    let fence = "`".repeat(longest + 1);
    let space = match text.starts_with('`') || text.ends_with('`') {
        true => " ",
        false => "",
    };
    format!("{fence}{space}{text}{space}{fence}")
}

/// The fingerprint of the data, if there is one.
fn fingerprint(experiment: &Experiment) -> String {
    match experiment.data.fingerprint.get(..12) {
        Some(short) => format!(" (fingerprint of the data {short})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_shows_what_a_text_says() {
        assert_eq!(text("bound, ± 3.1 (of 5)"), "bound, ± 3.1 (of 5)");
        assert_eq!(
            text("<b>[a](b)|*c*_d_`e`\n# f"),
            "&lt;b&gt;\\[a\\](b)\\|\\*c\\*\\_d\\_\\`e\\`\\\\n\\# f"
        );
        assert_eq!(code("mnemora train x"), "`mnemora train x`");
        assert_eq!(code("a `b` ``c"), "```a `b` ``c```");
        assert_eq!(code("`a"), "`` `a ``");
    }
}
