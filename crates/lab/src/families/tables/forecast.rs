//! Forecasts: samples of the steps that follow, from the beliefs that filtering left.

use super::{
    backtest::{Origin, origins, spreads, widen},
    charts::charts,
    coding::{Coding, number_words},
    filter::RowAsk,
    past::Past,
    settings::OwnTable,
    source::Source,
};
use crate::{LabError, numeric::quantile};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_figures::chart::Chart;
use mnemora_memory::Bundle;
use mnemora_models::{FilteringModel, follow, generate};
use mnemora_training::{arrays::host, strategy::Inference, strategy::noise};
use mnemora_worlds::{
    Part, Stream,
    series::{Clock, ColumnKind, SeriesData},
};
use serde::Serialize;
use std::path::PathBuf;

/// Rows of a batch of trajectories.
const ROWS: usize = 4096;

/// The most numbers of a forecast, samples counted: a gigabyte.
const MOST_NUMBERS: usize = 1 << 27;

/// What to forecast.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Steps ahead.
    pub steps: usize,
    /// Samples.
    pub samples: usize,
    /// Shares of samples that lie below the numbers asked for, in increasing order.
    pub quantiles: Vec<f64>,
    /// Of the samples.
    pub seed: u64,
    /// Another table to forecast from; `None` for the run's.
    pub past: Option<PathBuf>,
    /// A table of what is known in advance of the steps ahead.
    pub future: Option<PathBuf>,
    /// The state of a filter to forecast from.
    pub state: Option<PathBuf>,
    /// The sequence that the state belongs to; needed if there are several.
    pub sequence: Option<String>,
}

/// The forecast of one value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Value {
    /// The sequence; empty if there is only one.
    pub sequence: String,
    /// When.
    pub time: String,
    /// The column; of a category also its name, after an equals sign.
    pub column: String,
    /// Its mean; of a category its probability.
    pub mean: f64,
    /// One for each share asked for; none for a category.
    pub quantiles: Vec<f64>,
}

/// A forecast.
pub struct Forecast {
    /// By sequence, step and column.
    pub values: Vec<Value>,
    /// A chart for each numeric column of the first sequences: the past, and the future with its bands.
    pub charts: Vec<Chart>,
    /// What a reader should know, one line each.
    pub notes: Vec<String>,
}

/// The samples of the steps after one origin.
pub struct Samples {
    samples: usize,
    columns: usize,
    /// `[steps, columns, samples]`
    values: Vec<f64>,
}

impl Samples {
    /// Multiplies the distances of each column's samples from their median by its factor.
    pub fn widen(&mut self, factors: &[f64], coding: &Coding) {
        for (place, samples) in self.values.chunks_mut(self.samples).enumerate() {
            let which = place % self.columns;
            if factors[which] != 1.0 {
                widen(samples, factors[which], coding.modelled[which].form);
            }
        }
    }

    /// Those of a step and a column.
    pub fn of(&self, step: usize, column: usize) -> &[f64] {
        &self.values[(step * self.columns + column) * self.samples..][..self.samples]
    }

    /// The same, in increasing order.
    pub fn sorted(&self, step: usize, column: usize) -> Vec<f64> {
        let mut sorted = self.of(step, column).to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// The values of each modelled column before a step.
fn pasts(source: &Source, origin: Origin) -> Vec<Past> {
    let series = &source.data.series[origin.series];
    let columns = source.coding.modelled.iter().enumerate();
    columns
        .map(|(which, coded)| {
            let column = source.column(series, which);
            let known = origin.known.min(column.len());
            Past::after(&column[..known], coded.shown().lag)
        })
        .collect()
}

/// Where a model stands in a sequence, and what it will be told.
pub struct Standing<S> {
    /// Its state.
    pub state: S,
    /// The last values of each modelled column.
    pub past: Vec<Past>,
    /// Mean and deviation of what is modelled of each.
    pub scales: Vec<[f64; 2]>,
    /// What the model is told with each of the steps ahead, of the step after it.
    pub told: Vec<Vec<f32>>,
}

/// The states of a model at origins, which are in order: its posterior has seen all steps before.
fn states<M: FilteringModel + Module>(
    model: &M,
    source: &Source,
    origins: &[Origin],
    seed: u64,
    device: &Device,
) -> Vec<M::State> {
    let size = source.coding.observation();
    let draws = Stream::new(seed, "filtering before a forecast");
    let mut states: Vec<M::State> = Vec::with_capacity(origins.len());
    let mut seen = (usize::MAX, 0);
    let mut state = None;
    for (index, origin) in origins.iter().enumerate() {
        if origin.series != seen.0 || origin.known + 1 < seen.1 {
            (seen, state) = ((origin.series, 0), None);
        }
        // The frame before the first step is one, too.
        let end = origin.known + 1;
        if end > seen.1 {
            let frames = &source.frames[origin.series].values[seen.1 * size..end * size];
            let time = end - seen.1;
            let x = Tensor::from_data(TensorData::new(frames.to_vec(), [1, time, size]), device);
            let shape = [time, 1, model.noise_size()];
            let noise = noise(&draws, index as u64, shape, device);
            state = Some(follow(model, x, None, noise, state));
            seen.1 = end;
        }
        states.extend(state.clone());
    }
    states
}

/// Samples of the `steps` after each origin.
pub fn samples<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    origins: &[Origin],
    [steps, count]: [usize; 2],
    seed: u64,
) -> Vec<Samples> {
    let model = inference.model();
    let device = model.devices().remove(0);
    let states = states(model, source, origins, seed, &device);
    let standings: Vec<Standing<M::State>> = states
        .into_iter()
        .zip(origins)
        .map(|(state, origin)| {
            let series = &source.data.series[origin.series];
            let ahead = origin.known + 1..=origin.known + steps;
            let told = ahead.map(|step| {
                source
                    .coding
                    .told_of(&source.data, &source.places, series, step)
            });
            Standing {
                state,
                past: pasts(source, *origin),
                scales: source.coding.scales(&source.data, &source.places, series),
                told: told.collect(),
            }
        })
        .collect();
    samples_from(model, &source.coding, &standings, [steps, count], seed)
}

/// Samples of the `steps` after each of the places where a model stands.
pub fn samples_from<M: FilteringModel + Module>(
    model: &M,
    coding: &Coding,
    standings: &[Standing<M::State>],
    [steps, count]: [usize; 2],
    seed: u64,
) -> Vec<Samples> {
    let device = model.devices().remove(0);
    let draws = Stream::new(seed, "forecast");
    let size = coding.observation();
    let extras = coding.extras();
    let columns = coding.modelled.len();
    let together = (ROWS / count).max(1);
    let mut all = Vec::with_capacity(standings.len());
    for (chunk, standings) in standings.chunks(together).enumerate() {
        let rows = standings.len() * count;
        let state = Bundle::concatenate(
            standings
                .iter()
                .flat_map(|standing| std::iter::repeat_n(standing.state.clone(), count))
                .collect(),
        );
        let index = chunk as u64;
        let latents = noise(
            &draws,
            2 * index,
            [steps, rows, model.generation_noise()],
            &device,
        );
        let observed = noise(&draws, 2 * index + 1, [steps, rows, size], &device);
        let generated = generate(model, state, None, latents, |step, likelihood| {
            let noise = observed.clone().narrow(0, step, 1).squeeze_dim::<2>(0);
            let drawn = likelihood.sample(noise);
            if extras == 0 {
                return drawn;
            }
            let told = standings
                .iter()
                .flat_map(|standing| std::iter::repeat_n(&standing.told[step], count));
            let told: Vec<f32> = told.flatten().copied().collect();
            let data = TensorData::new(told, [rows, extras]);
            let told = Tensor::from_data(data, &device);
            Tensor::cat(vec![drawn.narrow(1, 0, size - extras), told], 1)
        });
        let frames = host(generated.frames.into_data());
        for (place, standing) in standings.iter().enumerate() {
            let mut values = vec![0.0; steps * columns * count];
            for sample in 0..count {
                let rows = &frames[(place * count + sample) * steps * size..][..steps * size];
                for (step, frame) in rows.chunks(size).enumerate() {
                    let mut first = 0;
                    for (which, coded) in coding.modelled.iter().enumerate() {
                        let numbers = &frame[first..][..coded.numbers()];
                        let at = |step: usize| (step * columns + which) * count + sample;
                        let before = match step.checked_sub(coded.shown().lag) {
                            Some(drawn) => values[at(drawn)],
                            None => standing.past[which].base(step),
                        };
                        values[at(step)] = coded.decode(numbers, standing.scales[which], before);
                        first += coded.numbers();
                    }
                }
            }
            all.push(Samples {
                samples: count,
                columns,
                values,
            });
        }
    }
    all
}

/// As [`samples`], with bands as wide as the validation part asks for: see [`spreads`]. It was also used to choose the
/// checkpoint; the test part was not.
pub fn calibrated<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    factors: &[f64],
    origins: &[Origin],
    size: [usize; 2],
    seed: u64,
) -> Vec<Samples> {
    let mut all = samples(inference, source, origins, size, seed);
    for samples in &mut all {
        samples.widen(factors, &source.coding);
    }
    all
}

/// The factors by which the bands of each column are widened, from forecasts of the validation part.
pub fn factors<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    settings: &OwnTable,
    seed: u64,
) -> Vec<f64> {
    let width = source.data.width();
    let series = source.data.series.iter();
    let longest = series
        .map(|series| series.part(Part::Valid, width).len())
        .max();
    let horizon = settings.horizon.min(longest.unwrap_or(0) / 2).max(1);
    let origins = origins(source, Part::Valid, horizon, settings.origins);
    let size = [horizon, settings.samples];
    let drawn = samples(inference, source, &origins, size, seed);
    spreads(source, &origins, horizon, |origin, step, column| {
        drawn[origin].sorted(step, column)
    })
}

/// The forecast of the steps after the end of each sequence.
///
/// # Errors
/// A sequence has no pace, or the table of the future does not fit.
pub fn forecast<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    factors: &[f64],
    ask: &Ask,
    future: Option<&SeriesData>,
) -> Result<Forecast, LabError> {
    ask.check(&source.coding, source.data.series.len())?;
    let mut notes = Vec::new();
    let extended = source.extended(ask.steps, future, &mut notes)?;
    notes.extend(source.short());
    let width = source.data.width();
    let ends: Vec<Origin> = (0..source.data.series.len())
        .map(|series| Origin {
            series,
            known: source.data.series[series].steps(width),
        })
        .collect();
    let size = [ask.steps, ask.samples];
    let drawn = calibrated(inference, &extended, factors, &ends, size, ask.seed);
    let values = ends.iter().zip(&drawn).flat_map(|(origin, drawn)| {
        let series = &extended.data.series[origin.series];
        let when = |step| series.clock.text(origin.known + step);
        values(&source.coding, drawn, ask, &series.name, when)
    });
    Ok(Forecast {
        values: values.collect(),
        charts: charts(source, &ends, &drawn, ask.steps),
        notes,
    })
}

impl Ask {
    /// The filter whose state is forecast from.
    pub fn rows(&self) -> RowAsk {
        RowAsk {
            seed: self.seed,
            sequence: self.sequence.clone(),
            fresh: true,
            samples: self.samples,
            quantiles: Vec::new(),
            alarms: None,
            adaptation: None,
        }
    }

    /// Returns an error if it would not fit into memory.
    pub fn check(&self, coding: &Coding, sequences: usize) -> Result<(), LabError> {
        let numbers = [self.steps, self.samples, coding.modelled.len(), sequences];
        let numbers = numbers
            .iter()
            .fold(1_usize, |product, n| product.saturating_mul(*n));
        if numbers > MOST_NUMBERS {
            return Err(LabError::Configuration(format!(
                "{} steps and {} samples of every column and sequence are {numbers} numbers, at most {MOST_NUMBERS} are held: \
                 ask for fewer with --steps or --samples",
                self.steps, self.samples
            )));
        }
        Ok(())
    }
}

/// Samples in numbers, by step and column.
pub fn values(
    coding: &Coding,
    drawn: &Samples,
    ask: &Ask,
    sequence: &str,
    when: impl Fn(usize) -> String,
) -> Vec<Value> {
    let mut values = Vec::new();
    for step in 0..ask.steps {
        let time = when(step);
        for (which, coded) in coding.modelled.iter().enumerate() {
            let mut push = |column: String, mean: f64, quantiles: Vec<f64>| {
                values.push(Value {
                    sequence: sequence.to_owned(),
                    time: time.clone(),
                    column,
                    mean,
                    quantiles,
                });
            };
            let all = drawn.of(step, which);
            match coded.is_numeric() {
                true => {
                    let sorted = drawn.sorted(step, which);
                    let mean = all.iter().sum::<f64>() / all.len() as f64;
                    let shares = ask.quantiles.iter();
                    let quantiles = shares.map(|share| quantile(&sorted, *share)).collect();
                    push(coded.name.clone(), mean, quantiles);
                }
                false => {
                    for (place, name) in coded.names.iter().enumerate() {
                        let there = all.iter().filter(|value| **value == place as f64);
                        let share = there.count() as f64 / all.len() as f64;
                        push(format!("{}={name}", coded.name), share, Vec::new());
                    }
                }
            }
        }
    }
    values
}

impl Source {
    /// That sequences are too short for a change over a season, a line each.
    fn short(&self) -> Vec<String> {
        let width = self.data.width();
        let longest = self.coding.modelled.iter().max_by_key(|coded| coded.season);
        let short = self.data.series.iter().filter_map(|series| {
            let (coded, steps) = (longest?, series.steps(width));
            (steps < coded.season).then(|| {
                let whose = match series.name.as_str() {
                    "" => "the table".to_owned(),
                    name => format!("sequence {name}"),
                };
                format!(
                    "{whose} has {steps} steps, fewer than the {} over which {} changes: its last values stand in for those \
                     that are not known",
                    coded.season, coded.name
                )
            })
        });
        short.collect()
    }

    /// The same sequences, each with `steps` more of which nothing is observed, but what is known in advance of them.
    ///
    /// # Errors
    /// A sequence has no pace, or the table of the future ends early.
    fn extended(
        &self,
        steps: usize,
        future: Option<&SeriesData>,
        notes: &mut Vec<String>,
    ) -> Result<Source, LabError> {
        let width = self.data.width();
        let mut data = self.data.clone();
        let known: Vec<usize> = self
            .coding
            .known
            .iter()
            .filter(|coded| !coded.fixed)
            .filter_map(|coded| data.columns.iter().position(|c| c.name == coded.name))
            .collect();
        if !known.is_empty() && future.is_none() {
            let names: Vec<&str> = known
                .iter()
                .map(|place| data.columns[*place].name.as_str())
                .collect();
            return Err(LabError::Configuration(format!(
                "table.known has {}: give their values of the steps ahead with --future FILE.csv",
                names.join(", ")
            )));
        }
        if known.is_empty() && future.is_some() {
            return Err(LabError::Configuration(
                "--future: the model knows no column in advance (table.known), so there is nothing to tell it".into(),
            ));
        }
        for series in &mut data.series {
            let end = series.steps(width);
            series.clock = match series.clock.continued(steps) {
                Some(clock) => clock,
                None => {
                    notes.push(format!(
                        "{}the times are not regular, so the steps ahead are numbered",
                        match series.name.as_str() {
                            "" => String::new(),
                            name => format!("sequence {name}: "),
                        }
                    ));
                    Clock::Order(end + steps)
                }
            };
            series.values.extend(vec![f64::NAN; steps * width]);
            let Some(future) = future.filter(|_| !known.is_empty()) else {
                continue;
            };
            let ahead = future.series.iter().find(|other| other.name == series.name);
            let ahead = ahead.ok_or_else(|| {
                LabError::Configuration(format!("--future has no sequence {}", series.name))
            })?;
            let other_width = future.width();
            let given = ahead.steps(other_width);
            if given < steps {
                return Err(LabError::Configuration(format!(
                    "--future ends after {given} steps, and the forecast has {steps}"
                )));
            }
            if series.clock.has_dates() && ahead.clock.has_dates() {
                for step in 0..steps {
                    let [there, wanted] = [ahead.clock.text(step), series.clock.text(end + step)];
                    if there != wanted {
                        return Err(LabError::Configuration(format!(
                            "--future: row {} is of {there}, and that step of the forecast is {wanted}",
                            step + 1
                        )));
                    }
                }
            }
            for place in &known {
                let name = &data.columns[*place].name;
                let there = future.columns.iter().position(|c| c.name == *name);
                let there = there.ok_or_else(|| {
                    LabError::Configuration(format!("--future has no column {name}"))
                })?;
                for step in 0..steps {
                    let mut value = ahead.values[step * other_width + there];
                    // The same category by this table's number.
                    if let (ColumnKind::Category(own), ColumnKind::Category(others)) =
                        (&data.columns[*place].kind, &future.columns[there].kind)
                        && !value.is_nan()
                    {
                        let name = &others[value as usize];
                        let number = own.iter().position(|other| other == name);
                        value = number.map(|number| number as f64).ok_or_else(|| {
                            LabError::Configuration(format!(
                                "--future, column {}: '{name}' was never seen",
                                data.columns[*place].name
                            ))
                        })?;
                    }
                    let coded = self.coding.known.iter().find(|coded| coded.name == *name);
                    if let Some(wrong) = coded.and_then(|coded| coded.refuse(value)) {
                        return Err(LabError::Configuration(format!(
                            "--future, row {}, column {name}: {} is {wrong}",
                            step + 1,
                            number_words(value)
                        )));
                    }
                    series.values[(end + step) * width + place] = value;
                }
            }
        }
        self.with(data)
    }
}
