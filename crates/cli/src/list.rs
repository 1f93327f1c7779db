//! `mnemora list`: the experiments that come with mnemora, and the names that settings take.

use crate::output::{say, to_json};
use mnemora_lab::{Experiment, LabError, MemoryName, StrategyName, families, shipped};
use std::{collections::BTreeSet, io::IsTerminal as _};

/// Width of the names of tasks, in characters.
const TASK_NAMES: usize = 22;
/// Minimum and maximum width of a line in a terminal, in characters.
const MIN_WIDTH: usize = 60;
const MAX_WIDTH: usize = 120;

/// Width of a line: that of the terminal; without one a line is not broken.
fn line_width() -> usize {
    match std::io::stdout().is_terminal() {
        true => textwrap::termwidth().clamp(MIN_WIDTH, MAX_WIDTH),
        false => usize::MAX,
    }
}

/// Whether an experiment can only be trained with data that do not come with the program.
fn needs_data(experiment: &Experiment) -> bool {
    let mut tasks = experiment.family().tasks().into_iter();
    tasks.any(|task| task.name == experiment.task.name.as_str() && task.needs_data)
}

/// A count with commas between its thousands.
fn with_thousands_separators(count: u64) -> String {
    let digits = count.to_string();
    let places = digits.char_indices().map(|(place, digit)| {
        let comma = place > 0 && (digits.len() - place).is_multiple_of(3);
        if comma {
            format!(",{digit}")
        } else {
            digit.to_string()
        }
    });
    places.collect()
}

/// Runs the command.
pub fn run(json: bool) -> Result<u8, LabError> {
    let experiments: Vec<Experiment> = shipped()
        .iter()
        .map(|shipped| shipped.experiment(&[]))
        .collect::<Result<_, _>>()?;
    if json {
        let rows: Vec<_> = experiments
            .iter()
            .map(|e| {
                serde_json::json!({
                    "name": e.name, "task": e.task.name, "description": e.description,
                    "updates": e.training.steps, "needs_data": needs_data(e),
                })
            })
            .collect();
        let memories: Vec<_> = MemoryName::ALL
            .iter()
            .map(|memory| memory.as_str())
            .collect();
        let models: BTreeSet<_> = families()
            .into_iter()
            .flat_map(|family| family.models())
            .map(|name| name.as_str())
            .collect();
        let strategies: Vec<_> = StrategyName::ALL.iter().map(|name| name.as_str()).collect();
        let all = serde_json::json!({
            "experiments": rows, "memories": memories, "models": models, "strategies": strategies,
        });
        say(to_json(&all))?;
        return Ok(0);
    }
    let names = experiments.iter().map(|e| e.name.len()).max().unwrap_or(0);
    let row = |name: &str, names: usize, words: &str| {
        let indent = " ".repeat(names + 4);
        let options = textwrap::Options::new(line_width())
            .initial_indent("")
            .subsequent_indent(&indent)
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        say(textwrap::fill(
            &format!("  {name:names$}  {words}"),
            options,
        ))
    };
    for family in families() {
        say(format_args!("experiments with {}", family.name()))?;
        let own = |e: &&Experiment| e.family().name() == family.name();
        for experiment in experiments.iter().filter(own) {
            let updates = with_thousands_separators(experiment.training.steps);
            let data = if needs_data(experiment) {
                "; needs data"
            } else {
                ""
            };
            let words = format!("{} ({updates} updates{data})", experiment.description);
            row(&experiment.name, names, &words)?;
        }
        say("")?;
    }
    say("memories (--memory NAME)")?;
    for family in families() {
        let names = family.memories().iter().map(|memory| memory.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        if !names.is_empty() {
            say(format_args!("  of {:10} {names}", family.name()))?;
        }
    }
    say("\nmodels (--set model.name=NAME)")?;
    for family in families() {
        let names: Vec<_> = family.models().iter().map(|name| name.as_str()).collect();
        if names.len() > 1 {
            say(format_args!(
                "  of {:10} {}",
                family.name(),
                names.join(", ")
            ))?;
        }
    }
    for family in families() {
        let plays = match family.name() {
            "agents" => ", the environments of `mnemora play NAME`",
            _ => "",
        };
        say(format_args!("\ntasks of {}{plays}", family.name()))?;
        for task in family.tasks() {
            let data = if task.needs_data { " (needs data)" } else { "" };
            row(task.name, TASK_NAMES, &format!("{}{data}", task.about))?;
        }
    }
    say("")?;
    let strategies: Vec<_> = StrategyName::ALL.iter().map(|name| name.as_str()).collect();
    say(format_args!(
        "ways to filter, for models with latents (--set filtering.strategy=NAME)\n  {}",
        strategies.join(", ")
    ))?;
    Ok(0)
}
