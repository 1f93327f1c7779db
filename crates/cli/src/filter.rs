//! `mnemora filter`: reads observations from standard input and writes one belief per line to standard output.

use crate::{
    arguments::Filter,
    rows,
    signals::{StopSignal, exit_code},
    standard_input::{BYTE_ORDER_MARK, NPY, PATIENCE, Tally, lines_of_standard_input},
};
use mnemora_lab::{
    FilteredSequence, FilteredStep, LabError, Numbers, Observed, OnlineFilter, check_target,
    find_device, load_filter_state, note, npy, open, open_to_filter, pictures::check_png_name,
    save_filter_state,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use std::{
    io::{ErrorKind, Write},
    sync::mpsc::RecvTimeoutError,
};

/// A line of standard input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record<X, C> {
    x: Vec<X>,
    c: Option<C>,
}

/// A parsed line of standard input.
enum Line {
    /// An observation with its condition.
    Observation(Vec<f32>, Option<Vec<f32>>),
    /// An observation with values that are not 32-bit numbers: the condition, if that can be read, and the
    /// problem.
    Unreadable(Option<Vec<f32>>, String),
    /// Not an observation, with the problem.
    Other(String),
}

impl Line {
    fn parse(line: &[u8]) -> Self {
        let problem = match serde_json::from_slice::<Record<f32, Vec<f32>>>(line) {
            Ok(Record { x, c }) => return Self::Observation(x, c),
            Err(error) => {
                let problem = error.to_string();
                let problem = problem.split(" at line").next().unwrap_or_default();
                format!("{problem}; a line is {{\"x\": [..]}}, or {{\"x\": [..], \"c\": [..]}}")
            }
        };
        if let Ok(Record { c, .. }) = serde_json::from_slice::<Record<IgnoredAny, Vec<f32>>>(line) {
            return Self::Unreadable(c, problem);
        }
        match serde_json::from_slice::<Record<IgnoredAny, IgnoredAny>>(line) {
            Ok(_) => Self::Unreadable(None, problem),
            Err(_) => Self::Other(problem),
        }
    }
}

/// The filter's answer to a line.
enum Answer {
    Belief(FilteredStep),
    /// The problem, and the step that the model took without an observation, if it took one.
    Refusal(String, Option<FilteredStep>),
}

/// The record that replaces a belief for a refused observation.
#[derive(Serialize)]
struct Refusal<'a> {
    /// The number of the step, or of the next one if no step was taken.
    t: u64,
    error: &'a str,
    /// Whether the filter took a step, with its own prediction in place of the observation.
    advanced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    std: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<&'a [f32]>,
}

/// The first bytes of a ZIP archive, such as a `.npz` file.
const ZIP: &[u8] = b"PK\x03\x04";

/// Runs the filter until its input ends or a signal arrives.
pub fn run(arguments: &Filter) -> Result<u8, LabError> {
    if let Some(path) = &arguments.draw {
        check_png_name(path)?;
    }
    // Checked before the filtering, which may take hours.
    for path in arguments.draw.iter().chain(&arguments.state) {
        check_target(path)?;
    }
    let device = find_device(arguments.on.device)?;
    let data = arguments.data.data.as_deref();
    let (run, checkpoint) = (&arguments.run, arguments.checkpoint.which);
    let trained = match arguments.recording {
        Some(_) => open(run, checkpoint, &[], data, &device)?,
        None => open_to_filter(run, checkpoint, data, &device)?,
    };
    let asked = rows::asked(arguments)?;
    if let Some(filter) = trained.rows(&asked)? {
        return rows::run(arguments, &trained, filter);
    }
    let of_tables = [
        ("--sequence", arguments.sequence.is_some()),
        ("--fresh", arguments.fresh),
        ("--anomalies", arguments.anomalies.is_some()),
    ];
    if let Some((name, _)) = of_tables.iter().find(|(_, given)| *given) {
        return Err(LabError::Configuration(format!(
            "{name} is for models of tables, and this one is of the task {}",
            trained.experiment.task.name.as_str()
        )));
    }
    let mut filter = trained.online(arguments.seed)?;
    if let Some(path) = arguments.state.as_deref().filter(|path| path.exists()) {
        load_filter_state(filter.as_mut(), path)?;
        note(format_args!(
            "mnemora: continuing after step {}",
            filter.steps()
        ));
    }
    let signal = StopSignal::listen()?;
    let mut session = Session {
        filter: filter.as_mut(),
        passed: FilteredSequence {
            observations: Vec::new(),
            beliefs: Vec::new(),
        },
        keeps: arguments.draw.is_some(),
        tally: Tally::default(),
        signal: &signal,
    };
    match arguments.recording {
        Some(number) => session.rows(&trained.recording(number)?)?,
        None => session.standard_input()?,
    }
    let Session { passed, tally, .. } = session;
    if let Some(path) = &arguments.state {
        save_filter_state(filter.as_ref(), path)?;
    }
    tally.report();
    if let Some(path) = &arguments.draw {
        trained.draw_filtered(&passed, path)?;
        note(path.display());
    }
    Ok(signal.received().map_or(0, exit_code))
}

/// A running filter.
struct Session<'a> {
    filter: &'a mut dyn OnlineFilter,
    /// The observations and beliefs so far, kept for the picture.
    passed: FilteredSequence,
    keeps: bool,
    tally: Tally,
    signal: &'a StopSignal,
}

impl Session<'_> {
    /// Filters standard input until it ends or a signal arrives.
    fn standard_input(&mut self) -> Result<(), LabError> {
        let lines = lines_of_standard_input();
        let mut first = true;
        while self.signal.received().is_none() {
            let line = match lines.recv_timeout(PATIENCE) {
                Ok(line) => line?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let line = match std::mem::take(&mut first) {
                true if line.starts_with(NPY) => return self.array(&line),
                true if line.starts_with(ZIP) => {
                    return Err(LabError::Configuration(
                        "standard input is an archive; send lines or a single .npy array".into(),
                    ));
                }
                // Some programs start a text with a mark of its encoding.
                true => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line).to_vec(),
                false => line,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let answer = match Line::parse(&line) {
                Line::Observation(x, c) => self.step(&x, c.as_deref()),
                Line::Unreadable(c, problem) => self.skip(c.as_deref(), problem),
                Line::Other(problem) => Answer::Refusal(problem, None),
            };
            if !self.say(answer)? {
                break;
            }
        }
        Ok(())
    }

    /// Filters an array `[steps, ..]`.
    fn array(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        let wrong = |problem: String| LabError::Configuration(format!("standard input: {problem}"));
        let npy::Array { shape, numbers } = npy::Array::decode(bytes).map_err(wrong)?;
        let Observed {
            frame,
            numbers: wanted,
            ..
        } = self.filter.observed();
        let values = match numbers {
            npy::Numbers::Floats(values) => values,
            npy::Numbers::Bytes(bytes) => {
                let most = if wanted == Numbers::Pixels {
                    255.0
                } else {
                    1.0
                };
                bytes.iter().map(|b| f32::from(*b) / most).collect()
            }
        };
        let (size, sides) = (frame.size(), [frame.height, frame.width]);
        let fits = match shape.get(1..) {
            Some([]) => size == 1,
            Some([numbers]) => *numbers == size,
            Some([height, width]) => frame.channels == 1 && [*height, *width] == sides,
            Some([channels, height, width]) => {
                *channels == frame.channels && [*height, *width] == sides
            }
            _ => false,
        };
        if !fits {
            let frames = match sides {
                [1, _] | [_, 1] => String::new(),
                [height, width] => format!(" or [steps, {}, {height}, {width}]", frame.channels),
            };
            return Err(wrong(format!(
                "the array has shape {shape:?}, but the model takes [steps, {size}]{frames}"
            )));
        }
        self.rows(&values)
    }

    /// Filters observations one after the other.
    fn rows(&mut self, values: &[f32]) -> Result<(), LabError> {
        for row in values.chunks(self.filter.observed().frame.size()) {
            if self.signal.received().is_some() {
                break;
            }
            let answer = self.step(row, None);
            if !self.say(answer)? {
                break;
            }
        }
        Ok(())
    }

    fn step(&mut self, x: &[f32], condition: Option<&[f32]>) -> Answer {
        let belief = match self.tally.timed(|| self.filter.step(x, condition)) {
            Ok(belief) => belief,
            Err(problem) => return self.skip(condition, problem),
        };
        if self.keeps {
            self.passed.observations.extend(x);
            self.passed.beliefs.push(belief.clone());
        }
        Answer::Belief(belief)
    }

    /// Takes a step without an observation, because `problem` makes it unusable.
    fn skip(&mut self, condition: Option<&[f32]>, problem: String) -> Answer {
        let belief = match self.filter.skip(condition) {
            Ok(belief) => belief,
            Err(why) if why == problem => return Answer::Refusal(problem, None),
            Err(why) => return Answer::Refusal(format!("{problem}; no step: {why}"), None),
        };
        if self.keeps {
            let unknown = vec![f32::NAN; self.filter.observed().frame.size()];
            self.passed.observations.extend(unknown);
            self.passed.beliefs.push(belief.clone());
        }
        Answer::Refusal(problem, Some(belief))
    }

    /// Writes a line; returns `false` if the reader has gone.
    fn say(&mut self, answer: Answer) -> Result<bool, LabError> {
        let text = match &answer {
            Answer::Belief(belief) => serde_json::to_string(belief),
            Answer::Refusal(error, belief) => {
                self.tally.refused += 1;
                let belief = belief.as_ref();
                serde_json::to_string(&Refusal {
                    t: belief.map_or(self.filter.steps() + 1, |belief| belief.t),
                    error,
                    advanced: belief.is_some(),
                    mean: belief.map(|belief| belief.mean.as_slice()),
                    std: belief.map(|belief| belief.std.as_slice()),
                    prediction: belief.and_then(|belief| belief.prediction.as_deref()),
                })
            }
        };
        let text = text.expect("beliefs hold only numbers, texts and lists");
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(LabError::write("standard output", error)),
            Ok(()) => Ok(true),
        }
    }
}
