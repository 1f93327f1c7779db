//! A trained run made small enough to give away: weights without the optimiser's state, numbers,
//! and a card that says what they are.

use crate::{
    Evaluation, Experiment, LabError,
    checkpoint::{self, Checkpoint},
    device::light_device,
    disk,
    open::{Trained, Which, open},
    present::numbers,
    run::{
        Draft, EVALUATION_FILE, METRICS_FILE, Origin, read_origin, write_atomically, write_json,
    },
    say::one_line,
    shell::without_folders,
    weights::Arrays,
};
use std::{fmt::Write, path::Path};

/// The card of an exported run.
pub const CARD_FILE: &str = "README.md";

/// Copies what is needed to look at a run into the new directory `out`, whole or not at all: `generate`, `eval`,
/// `report` and `compare` take it as any run; `resume` does not.
///
/// # Errors
/// If `run` is no run with a whole checkpoint, its held-out numbers are not finite, or `out` holds something.
pub fn export(run: &Path, which: Which, data: Option<&Path>, out: &Path) -> Result<(), LabError> {
    let trained = open(run, which, &[], data, &light_device()?)?;
    let draft = Draft::begin(out)?;
    let evaluation = trained.evaluate()?;
    evaluation.check_finite()?;
    let mut origin = read_origin(run)?;
    // Folders mean nothing on another machine.
    if !trained.experiment.data.directory.is_empty() {
        let set = origin.data.split(':').next().unwrap_or_default();
        origin.data = format!("{set}: a folder");
    }
    origin.command = without_folders(&origin.command);
    for change in &mut origin.changes {
        change.command = without_folders(&change.command);
    }
    let mut experiment = trained.experiment.clone();
    experiment.data.directory = String::new();

    let metrics = run.join(METRICS_FILE);
    let rows = disk::read(&metrics).map_err(|error| LabError::read(&metrics, error))?;
    write_atomically(&draft.path().join(METRICS_FILE), &rows)?;
    checkpoint::save(
        draft.path(),
        &Checkpoint {
            state: trained.state.clone(),
            weights: trained.ask(|learner| Ok(learner.weights()))?,
            optimizer: Arrays::new(),
            vocabulary: trained.ask(|learner| Ok(learner.vocabulary()))?,
        },
    )?;
    write_json(&draft.path().join(EVALUATION_FILE), &evaluation)?;
    let notes = trained.ask(|learner| Ok(learner.notes()))?;
    let card = card(&trained, &experiment, &origin, &evaluation, &notes);
    write_atomically(&draft.path().join(CARD_FILE), card.as_bytes())?;
    draft.finish(&experiment, origin).map(drop)
}

/// What the model is, in Markdown.
fn card(
    trained: &Trained,
    experiment: &Experiment,
    origin: &Origin,
    evaluation: &Evaluation,
    notes: &[String],
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
            "Went on after {} updates by {}.",
            change.after_step,
            code(&change.command)
        );
    }
    let _ = write!(
        card,
        "\nMeasured on {} held-out sequences:\n\n| number | value | unit | meaning |\n\
         | --- | --- | --- | --- |\n",
        evaluation.sequences,
    );
    for number in numbers(evaluation) {
        let columns = [number.name, number.value, number.unit, number.meaning];
        let _ = writeln!(card, "| {} |", columns.map(|c| text(&c)).join(" | "));
    }
    for note in notes {
        let _ = write!(card, "\nOf the data: {}.\n", text(note));
    }
    let _ = write!(
        card,
        "\nThe state of the optimiser is left out: it can be looked at (`mnemora generate`, \
         `report`, `eval`), not trained on.\n"
    );
    card
}

/// A text as Markdown that shows it: neither its marks nor HTML in it mean anything.
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

/// A text as code in Markdown, between more backticks than it has in a row.
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

/// The fingerprint of the data, where there is one.
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
