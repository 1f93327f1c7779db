//! `mnemora keys`: what the keys of an experiment mean.

use crate::output::{say, to_json};
use mnemora_lab::{Key, LabError, keys, load_experiment};
use std::fmt::Write as _;

/// Columns of a line when output goes to a file, and the most in a terminal.
const WIDTH: usize = 100;

/// A key, what it means, and the names that it may have.
fn words(key: &Key, width: usize) -> String {
    let mut text = format!("{} = {}\n", key.name, key.value);
    let mut paragraph = |words: &str, first: &str, indent: &str| {
        let options = textwrap::Options::new(width)
            .initial_indent(first)
            .subsequent_indent(indent)
            .break_words(false);
        for line in textwrap::wrap(words, options) {
            let _ = writeln!(text, "{line}");
        }
    };
    paragraph(&key.about, "    ", "    ");
    for choice in &key.choices {
        let words = match choice.about.as_str() {
            "" => choice.name.clone(),
            about => format!("{}: {about}", choice.name),
        };
        paragraph(&words, "    - ", "      ");
    }
    text
}

/// Runs the command.
pub fn run(prefix: &str, of: Option<&str>, json: bool) -> Result<u8, LabError> {
    let experiment = of.map(|name| load_experiment(name, &[])).transpose()?;
    let found = keys(prefix, experiment.as_ref())?;
    let width = textwrap::termwidth().min(WIDTH);
    for key in &found {
        let text = match json {
            true => {
                let choices = key.choices.iter().map(|choice| choice.name.as_str());
                to_json(&serde_json::json!({
                    "key": key.name, "value": key.value, "about": key.about,
                    "choices": choices.collect::<Vec<_>>(),
                }))
            }
            false => words(key, width),
        };
        say(text.trim_end())?;
    }
    Ok(0)
}
