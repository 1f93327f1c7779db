//! Forecasts: samples of the steps that follow, from the beliefs that filtering left.

use super::{
    backtest::{Origin, origins, quantile, spreads},
    coding::Coded,
    settings::OwnTable,
    source::Source,
};
use crate::LabError;
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_figures::chart::{Chart, Series as Line, Shaded};
use mnemora_memory::Bundle;
use mnemora_models::{FilteringModel, follow, generate};
use mnemora_training::{arrays::host, strategy::Inference, strategy::noise};
use mnemora_worlds::{
    Part, Stream,
    series::{ColumnKind, SeriesData},
};
use serde::Serialize;
use std::path::PathBuf;

/// Rows of a batch of trajectories.
const ROWS: usize = 4096;
/// Steps of the past in a picture, for each step of the forecast.
const PAST: usize = 4;

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
    fn widen(&mut self, factors: &[f64]) {
        for (place, samples) in self.values.chunks_mut(self.samples).enumerate() {
            let factor = factors[place % self.columns];
            if factor == 1.0 {
                continue;
            }
            let mut sorted = samples.to_vec();
            sorted.sort_by(f64::total_cmp);
            let median = quantile(&sorted, 0.5);
            for x in samples {
                *x = median + factor * (*x - median);
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

/// The last observed value of each modelled column before a step; 0 if there is none.
fn last_values(source: &Source, origin: Origin) -> Vec<f64> {
    let series = &source.data.series[origin.series];
    (0..source.coding.modelled.len())
        .map(|which| {
            let column = source.column(series, which);
            let known = column[..origin.known.min(column.len())].iter().rev();
            known.copied().find(|value| !value.is_nan()).unwrap_or(0.0)
        })
        .collect()
}

/// The scales of the modelled columns of an origin's sequence.
fn scales(source: &Source, origin: Origin) -> Vec<[f64; 2]> {
    let series = &source.data.series[origin.series];
    let train = series.part(Part::Train, source.data.width());
    let columns = source.coding.modelled.iter().enumerate();
    columns
        .map(|(which, coded)| coded.scale_of(&source.column(series, which), train.clone()))
        .collect()
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
///
/// # Errors
/// The table does not fit the model.
pub fn samples<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    origins: &[Origin],
    steps: usize,
    count: usize,
    seed: u64,
) -> Result<Vec<Samples>, LabError> {
    let model = inference.model();
    let device = model.devices().remove(0);
    let states = states(model, source, origins, seed, &device);
    let draws = Stream::new(seed, "forecast");
    let size = source.coding.observation();
    let extras = source.coding.extras();
    let columns = source.coding.modelled.len();
    let together = (ROWS / count).max(1);
    let mut all = Vec::with_capacity(origins.len());
    for (chunk, (origins, states)) in origins
        .chunks(together)
        .zip(states.chunks(together))
        .enumerate()
    {
        let rows = origins.len() * count;
        let state = Bundle::concatenate(
            states
                .iter()
                .flat_map(|state| std::iter::repeat_n(state.clone(), count))
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
        let mut told = Vec::with_capacity(steps);
        for step in 0..steps {
            let mut row = Vec::with_capacity(rows * extras);
            for origin in origins {
                let series = &source.data.series[origin.series];
                let one = source
                    .coding
                    .told(&source.data, series, origin.known + step + 1)?;
                row.extend(std::iter::repeat_n(one, count).flatten());
            }
            told.push(row);
        }
        let generated = generate(model, state, None, latents, |step, likelihood| {
            let noise = observed.clone().narrow(0, step, 1).squeeze_dim::<2>(0);
            let drawn = likelihood.sample(noise);
            if extras == 0 {
                return drawn;
            }
            let data = TensorData::new(told[step].clone(), [rows, extras]);
            let told = Tensor::from_data(data, &device);
            Tensor::cat(vec![drawn.narrow(1, 0, size - extras), told], 1)
        });
        let frames = host(generated.frames.into_data());
        for (place, origin) in origins.iter().enumerate() {
            let before = last_values(source, *origin);
            let scales = scales(source, *origin);
            let mut values = vec![0.0; steps * columns * count];
            for sample in 0..count {
                let rows = &frames[(place * count + sample) * steps * size..][..steps * size];
                let mut before = before.clone();
                for (step, frame) in rows.chunks(size).enumerate() {
                    let mut first = 0;
                    for (which, coded) in source.coding.modelled.iter().enumerate() {
                        let numbers = &frame[first..][..coded.numbers()];
                        let value = coded.decode(numbers, scales[which], before[which]);
                        before[which] = value;
                        values[(step * columns + which) * count + sample] = value;
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
    Ok(all)
}

/// As [`samples`], with bands as wide as the validation part asks for: see [`spreads`]. It was also used to choose the
/// checkpoint; the test part was not.
pub fn calibrated<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    factors: &[f64],
    origins: &[Origin],
    [steps, count]: [usize; 2],
    seed: u64,
) -> Result<Vec<Samples>, LabError> {
    let mut all = samples(inference, source, origins, steps, count, seed)?;
    for samples in &mut all {
        samples.widen(factors);
    }
    Ok(all)
}

/// The factors by which the bands of each column are widened, from forecasts of the validation part.
pub fn factors<M: FilteringModel + Module>(
    inference: &Inference<M>,
    source: &Source,
    settings: &OwnTable,
    seed: u64,
) -> Result<Vec<f64>, LabError> {
    let width = source.data.width();
    let series = source.data.series.iter();
    let longest = series
        .map(|series| series.part(Part::Valid, width).len())
        .max();
    let horizon = settings.horizon.min(longest.unwrap_or(0) / 2).max(1);
    let origins = origins(source, Part::Valid, horizon, settings.origins);
    let drawn = samples(inference, source, &origins, horizon, settings.samples, seed)?;
    Ok(spreads(
        source,
        &origins,
        horizon,
        |origin, step, column| drawn[origin].sorted(step, column),
    ))
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
    let numbers = [
        ask.steps,
        ask.samples,
        source.coding.modelled.len(),
        source.data.series.len(),
    ];
    let numbers = numbers
        .iter()
        .fold(1_usize, |product, n| product.saturating_mul(*n));
    if numbers > MOST_NUMBERS {
        return Err(LabError::Configuration(format!(
            "{} steps and {} samples of every column and sequence are {numbers} numbers, at most {MOST_NUMBERS} are held: ask \
             for fewer with --steps or --samples",
            ask.steps, ask.samples
        )));
    }
    let mut notes = Vec::new();
    let extended = source.extended(ask.steps, future, &mut notes)?;
    let width = source.data.width();
    let ends: Vec<Origin> = (0..source.data.series.len())
        .map(|series| Origin {
            series,
            known: source.data.series[series].steps(width),
        })
        .collect();
    let size = [ask.steps, ask.samples];
    let drawn = calibrated(inference, &extended, factors, &ends, size, ask.seed)?;
    let mut values = Vec::new();
    for (origin, drawn) in ends.iter().zip(&drawn) {
        let series = &extended.data.series[origin.series];
        for step in 0..ask.steps {
            let time = series.clock.text(origin.known + step);
            for (which, coded) in source.coding.modelled.iter().enumerate() {
                let mut push = |column: String, mean: f64, quantiles: Vec<f64>| {
                    values.push(Value {
                        sequence: series.name.clone(),
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
    }
    let charts = charts(source, &ends, &drawn, ask);
    Ok(Forecast {
        values,
        charts,
        notes,
    })
}

/// The most charts of a forecast.
const MOST_CHARTS: usize = 12;

/// The past and the forecast of each column, for the first sequences.
fn charts(source: &Source, origins: &[Origin], drawn: &[Samples], ask: &Ask) -> Vec<Chart> {
    let pairs = origins.iter().zip(drawn);
    let all = pairs.flat_map(|(origin, drawn)| {
        let columns = 0..source.coding.modelled.len();
        columns.map(move |which| {
            let series = &source.data.series[origin.series];
            let past = source.column(series, which);
            let coded = &source.coding.modelled[which];
            let title = match series.name.as_str() {
                "" => coded.name.clone(),
                name => format!("{name}: {}", coded.name),
            };
            chart(&title, coded, &past, drawn, which, ask.steps, &[])
        })
    });
    all.take(MOST_CHARTS).collect()
}

/// The chart of a column: of numbers the past and a band, of categories how probable each is.
pub fn chart(
    title: &str,
    coded: &Coded,
    past: &[f64],
    drawn: &Samples,
    which: usize,
    steps: usize,
    happened: &[f64],
) -> Chart {
    match coded.is_numeric() {
        true => fan(title, past, drawn, which, steps, happened),
        false => shares(title, coded, past.len(), drawn, which, steps),
    }
}

/// The most categories in a chart.
const MOST_NAMES: usize = 7;

/// A chart of the probability of each category at the steps ahead.
fn shares(
    title: &str,
    coded: &Coded,
    past: usize,
    drawn: &Samples,
    column: usize,
    steps: usize,
) -> Chart {
    let names = coded.names.iter().take(MOST_NAMES).enumerate();
    let series = names.map(|(place, name)| Line {
        label: name.clone(),
        points: (0..steps)
            .map(|step| {
                let all = drawn.of(step, column);
                let there = all.iter().filter(|value| **value == place as f64).count();
                ((past + step + 1) as f64, there as f64 / all.len() as f64)
            })
            .collect(),
        band: None,
    });
    Chart {
        title: title.into(),
        x_label: "step".into(),
        y_label: "probability".into(),
        series: series.collect(),
        ..Chart::default()
    }
}

/// A chart of the last steps of the past, the samples' median with a band of 80%, and what happened, if it is known.
fn fan(
    title: &str,
    past: &[f64],
    drawn: &Samples,
    column: usize,
    steps: usize,
    happened: &[f64],
) -> Chart {
    let from = past.len().saturating_sub(PAST * steps);
    let at = |step: usize| (past.len() + step + 1) as f64;
    let observed = |values: &[f64], first: usize| -> Vec<(f64, f64)> {
        let numbered = values.iter().zip(first..);
        numbered
            .map(|(value, t)| ((t + 1) as f64, *value))
            .collect()
    };
    let sorted: Vec<Vec<f64>> = (0..steps).map(|step| drawn.sorted(step, column)).collect();
    // Bands of a truth value say nothing.
    let binary = sorted
        .iter()
        .flatten()
        .all(|value| *value == 0.0 || *value == 1.0);
    let band = |label: &str, share: f64| {
        let low = (1.0 - share) / 2.0;
        let points = sorted.iter().zip(0..);
        Line {
            label: label.into(),
            points: points
                .map(|(sorted, step)| (at(step), quantile(sorted, 0.5)))
                .collect(),
            band: Some(
                sorted
                    .iter()
                    .map(|sorted| (quantile(sorted, low), quantile(sorted, 1.0 - low)))
                    .collect(),
            ),
        }
    };
    let mut series = vec![Line {
        label: "observed".into(),
        points: observed(&past[from..], from),
        band: None,
    }];
    match binary {
        true => series.push(Line {
            label: "probability".into(),
            points: sorted
                .iter()
                .zip(0..)
                .map(|(sorted, step)| (at(step), sorted.iter().sum::<f64>() / sorted.len() as f64))
                .collect(),
            band: None,
        }),
        false => series.push(band("median, band of 80%", 0.8)),
    }
    if !happened.is_empty() {
        series.push(Line {
            label: "what happened".into(),
            points: observed(happened, past.len()),
            band: None,
        });
    }
    Chart {
        title: title.into(),
        x_label: "step".into(),
        y_label: String::new(),
        series,
        shaded: Some(Shaded {
            from: past.len() as f64 + 0.5,
            to: (past.len() + steps) as f64 + 0.5,
            caption: "forecast".into(),
        }),
        ..Chart::default()
    }
}

impl Source {
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
            .filter_map(|coded| data.columns.iter().position(|c| c.name == coded.name))
            .collect();
        if !known.is_empty() && future.is_none() {
            return Err(LabError::Configuration(format!(
                "table.known has {}: give their values of the steps ahead with --future FILE.csv",
                self.coding
                    .known
                    .iter()
                    .map(|coded| coded.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
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
                    mnemora_worlds::series::Clock::Order(end + steps)
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
                    series.values[(end + step) * width + place] = value;
                }
            }
        }
        self.with(data)
    }
}
