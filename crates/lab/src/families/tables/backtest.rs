//! Judging forecasts: from many steps of the test part, so many steps ahead, beside forecasts without a network.

use super::{
    baselines::{BASELINES, Baseline, Foreseen, filled},
    source::Source,
};
use crate::{experiment::Form, numeric::quantile};
use mnemora_worlds::Part;
use std::collections::BTreeMap;

/// The share of truths that should lie in the bands.
pub const BAND: f64 = 0.8;
/// A standard normal number below which nine tenths lie.
const NINTH: f64 = 1.281_551_565_544_600_4;

/// A step from which is forecast: a sequence, and how many of its steps are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The number of the sequence.
    pub series: usize,
    /// Steps before the first one that is forecast.
    pub known: usize,
}

/// The forecasts of one step of one column.
#[derive(Clone, Copy, Debug)]
struct Scored {
    crps: f64,
    absolute: f64,
    squared: f64,
    /// `None` for what is no number: its bands hold whole numbers, and so more than they should.
    covered: Option<bool>,
}

/// How well a forecaster does, over all origins, horizons and numeric columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Of whom.
    pub name: String,
    /// Continuous ranked probability score, of each column divided by the mean change from step to step in training.
    pub crps: f64,
    /// Its standard error over [blocks](Block), if there are two.
    pub crps_stderr: Option<f64>,
    /// Mean absolute error of the median, so divided.
    pub mase: f64,
    /// Root of the mean squared error of the mean, so divided.
    pub rmse: f64,
    /// The share of numbers in the bands of 80% with its standard error over blocks; `None` if no column holds numbers.
    pub coverage: Option<(f64, Option<f64>)>,
    /// Forecasts judged.
    pub count: usize,
}

/// At most `most` origins in a part, evenly spread, each with `horizon` steps of the part after it.
pub fn origins(source: &Source, part: Part, horizon: usize, most: usize) -> Vec<Origin> {
    let width = source.data.width();
    let all: Vec<Origin> = source
        .data
        .series
        .iter()
        .enumerate()
        .flat_map(|(number, series)| {
            let steps = series.part(part, width);
            let last = (steps.end + 1).saturating_sub(horizon);
            (steps.start.max(1)..last).map(move |known| Origin {
                series: number,
                known,
            })
        })
        .collect();
    if all.len() <= most {
        return all;
    }
    let every = all.len() as f64 / most as f64;
    (0..most)
        .map(|place| all[((place as f64 + 0.5) * every) as usize])
        .collect()
}

/// `E|X - y| - E|X - X'| / 2` of samples in increasing order.
fn crps_of_samples(sorted: &[f64], truth: f64) -> f64 {
    let count = sorted.len() as f64;
    let apart: f64 = sorted.iter().map(|x| (x - truth).abs()).sum::<f64>() / count;
    // The sum of |x_i - x_j| over pairs, by ranks; unbiased.
    let pairs: f64 = sorted
        .iter()
        .zip(0..)
        .map(|(x, rank)| x * (2.0 * f64::from(rank) + 1.0 - count))
        .sum();
    apart - pairs / (count * (count - 1.0))
}

/// That of a normal distribution.
fn crps_of_normal(Foreseen { mean, std }: Foreseen, truth: f64) -> f64 {
    let z = (truth - mean) / std;
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    std * (z * (2.0 * normal_below(z) - 1.0) + 2.0 * density - 1.0 / std::f64::consts::PI.sqrt())
}

/// The probability below a standard normal number, by its series or continued fraction.
fn normal_below(z: f64) -> f64 {
    let x = z.abs();
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let upper = if x < 3.0 {
        let (mut term, mut sum) = (x, x);
        for k in 1..60 {
            term *= x * x / (2.0 * f64::from(k) + 1.0);
            sum += term;
        }
        0.5 - density * sum
    } else {
        let fraction = (1..30).rev().fold(x, |below, k| x + f64::from(k) / below);
        density / fraction
    };
    if z > 0.0 { 1.0 - upper } else { upper }
}

fn of_samples(sorted: &[f64], truth: f64) -> Scored {
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    let [low, median, high] = band(sorted);
    Scored {
        crps: crps_of_samples(sorted, truth),
        absolute: (median - truth).abs(),
        squared: (mean - truth).powi(2),
        covered: Some((low..=high).contains(&truth)),
    }
}

fn of_normal(foreseen: Foreseen, truth: f64) -> Scored {
    Scored {
        crps: crps_of_normal(foreseen, truth),
        absolute: (foreseen.mean - truth).abs(),
        squared: (foreseen.mean - truth).powi(2),
        covered: Some((truth - foreseen.mean).abs() <= NINTH * foreseen.std),
    }
}

/// The mean change from step to step in the training part of a sequence's column, by which its errors are divided; the
/// deviation if it never changes there. `None` if nothing was observed.
fn unit(train: &[f64]) -> Option<f64> {
    let all = filled(train)?;
    let count = (all.len().saturating_sub(1)).max(1) as f64;
    let change = all
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs())
        .sum::<f64>()
        / count;
    (change > 0.0).then_some(change)
}

/// Bands are made this narrow and this wide at most.
const SPREADS: [f64; 2] = [0.5, 4.0];

/// With fewer truths than these a share of them says little about a width.
const ENOUGH: usize = 20;

/// For each modelled column the factor by which the distance of samples from their median is multiplied, so that the bands
/// of 80% hold 80% of the truths of these origins: the split conformal factor (Vovk et al. 2005), of all steps ahead
/// together. Of the test part they hold about 80%: the same origins chose form and checkpoint. Only numbers have a factor
/// other than 1, and only with enough truths. `samples` as in [`judge_samples`].
pub fn spreads(
    source: &Source,
    origins: &[Origin],
    horizon: usize,
    samples: impl Fn(usize, usize, usize) -> Vec<f64>,
) -> Vec<f64> {
    let of_column = |which: usize| {
        if !source.coding.modelled[which].is_number() {
            return 1.0;
        }
        let form = source.coding.modelled[which].form;
        let mut reaches = Vec::new();
        for (number, origin) in origins.iter().enumerate() {
            let all = source.column(&source.data.series[origin.series], which);
            for (step, truth) in all.iter().skip(origin.known).take(horizon).enumerate() {
                if !truth.is_nan() {
                    reaches.push(reach(&samples(number, step, which), *truth, form));
                }
            }
        }
        if reaches.len() < ENOUGH {
            return 1.0;
        }
        reaches.sort_by(f64::total_cmp);
        let rank = (BAND * (reaches.len() + 1) as f64).ceil() as usize;
        reaches[rank - 1].clamp(SPREADS[0], SPREADS[1])
    };
    (0..source.coding.modelled.len()).map(of_column).collect()
}

/// Multiplies the distances of samples from their median; those of growth, which multiplies, in logarithms.
pub fn widen(samples: &mut [f64], factor: f64, form: Form) {
    let logarithms = grow(form, samples);
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = quantile(&sorted, 0.5);
    for x in samples {
        *x = match logarithms {
            true => median * (*x / median).powf(factor),
            false => median + factor * (*x - median),
        };
    }
}

/// Whether distances of these numbers are those of their logarithms.
fn grow(form: Form, numbers: &[f64]) -> bool {
    form == Form::Growth && numbers.iter().all(|x| *x > 0.0)
}

/// The factor of the spread at which a truth lies on the edge of the band.
fn reach(sorted: &[f64], truth: f64, form: Form) -> f64 {
    let logarithms = grow(form, sorted) && truth > 0.0;
    let scale = |x: f64| if logarithms { x.ln() } else { x };
    let ([low, median, high], truth) = (band(sorted).map(scale), scale(truth));
    let (from_median, half) = match truth < median {
        true => (median - truth, median - low),
        false => (truth - median, high - median),
    };
    match from_median == 0.0 {
        true => 0.0,
        false => from_median / half,
    }
}

/// The band and the median between its edges.
fn band(sorted: &[f64]) -> [f64; 3] {
    [(1.0 - BAND) / 2.0, 0.5, (1.0 + BAND) / 2.0].map(|share| quantile(sorted, share))
}

/// A stretch of a sequence as long as a horizon: forecasts from inside it share most of their steps, and count as one where it is
/// asked how sure a mean is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    series: usize,
    place: usize,
}

impl Block {
    fn of(origin: Origin, horizon: usize) -> Self {
        Self {
            series: origin.series,
            place: origin.known / horizon,
        }
    }
}

/// Gathers scores, divided by their units.
#[derive(Default)]
struct Tally {
    scores: Vec<(Block, Scored)>,
}

impl Tally {
    fn add(&mut self, block: Block, scored: Scored, unit: f64, is_number: bool) {
        let scored = Scored {
            crps: scored.crps / unit,
            absolute: scored.absolute / unit,
            squared: scored.squared / (unit * unit),
            covered: scored.covered.filter(|_| is_number),
        };
        self.scores.push((block, scored));
    }

    fn finish(self, name: &str) -> Option<Judged> {
        let count = self.scores.len();
        let mean = |of: fn(&Scored) -> f64| {
            let sum = self.scores.iter().map(|(_, score)| of(score)).sum::<f64>();
            sum / count as f64
        };
        let covered = self.scores.iter().filter_map(|(block, score)| {
            let covered = score.covered?;
            Some((*block, f64::from(u8::from(covered))))
        });
        let crps = self
            .scores
            .iter()
            .map(|(block, score)| (*block, score.crps));
        (count > 0).then(|| Judged {
            name: name.to_owned(),
            crps: mean(|score| score.crps),
            crps_stderr: over_blocks(crps).and_then(|(_, stderr)| stderr),
            mase: mean(|score| score.absolute),
            rmse: mean(|score| score.squared).sqrt(),
            coverage: over_blocks(covered),
            count,
        })
    }
}

/// The mean of all numbers, and its standard error with each block as one draw: `sqrt(B / (B - 1) sum_b (sum of b - n_b mean)^2) / n`.
/// `None` without numbers; no standard error of less than two blocks.
fn over_blocks(numbers: impl Iterator<Item = (Block, f64)>) -> Option<(f64, Option<f64>)> {
    let mut blocks = BTreeMap::<Block, (f64, f64)>::new();
    for (block, number) in numbers {
        let (sum, count) = blocks.entry(block).or_default();
        *sum += number;
        *count += 1.0;
    }
    let all = blocks.values().map(|(_, count)| count).sum::<f64>();
    if all == 0.0 {
        return None;
    }
    let mean = blocks.values().map(|(sum, _)| sum).sum::<f64>() / all;
    let squares = blocks
        .values()
        .map(|(sum, count)| (sum - count * mean).powi(2));
    let (squares, draws) = (squares.sum::<f64>(), blocks.len() as f64);
    let stderr = (draws > 1.0).then(|| (squares * draws / (draws - 1.0)).sqrt() / all);
    Some((mean, stderr))
}

/// The numeric columns, and for each sequence their units.
fn units(source: &Source) -> Vec<(usize, Vec<Option<f64>>)> {
    let width = source.data.width();
    let numeric = (0..source.coding.modelled.len())
        .filter(|which| source.coding.modelled[*which].is_numeric());
    numeric
        .map(|which| {
            let units = source.data.series.iter().map(|series| {
                let train = series.part(Part::Train, width);
                // A sequence that is wholly held out has no training part; all that is known of it stands in.
                let all = source.column(series, which);
                let known = if train.is_empty() {
                    &all[..]
                } else {
                    &all[train]
                };
                unit(known)
            });
            (which, units.collect())
        })
        .collect()
}

/// The model, by its samples: those of each origin, step and modelled column, `samples(origin, step, column)` in increasing
/// order.
pub fn judge_samples(
    source: &Source,
    origins: &[Origin],
    horizon: usize,
    samples: impl Fn(usize, usize, usize) -> Vec<f64>,
) -> Option<Judged> {
    let mut tally = Tally::default();
    for (which, units) in units(source) {
        let is_number = source.coding.modelled[which].is_number();
        for (number, origin) in origins.iter().enumerate() {
            let Some(unit) = units[origin.series] else {
                continue;
            };
            let truth = source.column(&source.data.series[origin.series], which);
            for step in 0..horizon {
                let truth = truth.get(origin.known + step).copied().unwrap_or(f64::NAN);
                if !truth.is_nan() {
                    let sorted = samples(number, step, which);
                    let block = Block::of(*origin, horizon);
                    tally.add(block, of_samples(&sorted, truth), unit, is_number);
                }
            }
        }
    }
    tally.finish("model")
}

/// The forecasts without a network, on the same origins.
pub fn judge_baselines(source: &Source, origins: &[Origin], horizon: usize) -> Vec<Judged> {
    let width = source.data.width();
    let mut tallies = BASELINES.map(|[name, ..]| (name, Tally::default()));
    for (which, units) in units(source) {
        let is_number = source.coding.modelled[which].is_number();
        for (number, series) in source.data.series.iter().enumerate() {
            let Some(unit) = units[number] else {
                continue;
            };
            let all = source.column(series, which);
            let here: Vec<&Origin> = origins.iter().filter(|o| o.series == number).collect();
            let Some(first) = here.first() else {
                continue;
            };
            // Fitted before the first forecast at the latest.
            let train = series.part(Part::Train, width).end;
            let fitted = if train == 0 { first.known } else { train };
            let Some(known) = filled(&all[..fitted]) else {
                continue;
            };
            let season = series.clock.cycles(fitted / 2).first().copied();
            let models = [
                Some(Baseline::random_walk(&known)),
                season.and_then(|season| Baseline::seasonal(&known, season)),
                season.and_then(|season| Baseline::seasonal_change(&known, season, horizon)),
                Baseline::autoregression(&known),
                Baseline::of_changes(&known),
            ];
            for model in models.into_iter().flatten() {
                let tally = tallies.iter_mut().find(|(name, _)| *name == model.name());
                let Some((_, tally)) = tally else { continue };
                for origin in &here {
                    let Some(past) = filled(&all[..origin.known]) else {
                        continue;
                    };
                    for (step, foreseen) in model.forecast(&past, horizon).into_iter().enumerate() {
                        let truth = all.get(origin.known + step).copied();
                        if let Some(truth) = truth.filter(|truth| !truth.is_nan()) {
                            let block = Block::of(**origin, horizon);
                            tally.add(block, of_normal(foreseen, truth), unit, is_number);
                        }
                    }
                }
            }
        }
    }
    let finished = tallies.into_iter();
    finished
        .filter_map(|(name, tally)| tally.finish(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::Stream;

    #[test]
    fn samples_of_a_normal_distribution_score_as_it_does() {
        let noise = Stream::new(3, "noise").standard_normal(0, 20_000);
        let mut samples: Vec<f64> = noise
            .into_iter()
            .map(|z| 1.5 + 2.0 * f64::from(z))
            .collect();
        samples.sort_by(f64::total_cmp);
        let foreseen = Foreseen {
            mean: 1.5,
            std: 2.0,
        };
        for truth in [-6.0, 1.5, 2.0, 9.0] {
            let [one, other] = [of_samples(&samples, truth), of_normal(foreseen, truth)];
            assert!((one.crps - other.crps).abs() < 0.03, "{one:?} {other:?}");
            assert!((one.absolute - other.absolute).abs() < 0.05);
            assert_eq!(one.covered, other.covered);
        }
        // The score of a normal distribution at its mean.
        let expected = 2.0 * (2.0f64.sqrt() - 1.0) / std::f64::consts::PI.sqrt();
        assert!((crps_of_normal(foreseen, 1.5) - expected).abs() < 1e-9);
    }

    #[test]
    fn probabilities_below_normal_numbers() {
        for (z, below) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (NINTH, 0.9),
            (-3.5, 2.326_290_790_355_25e-4),
            (2.9, 0.998_134_186_699_616),
        ] {
            assert!(
                (normal_below(z) - below).abs() < 1e-9,
                "{z} {}",
                normal_below(z)
            );
        }
    }

    /// Multiplied by its reach, the band ends at the truth.
    #[test]
    fn a_truth_is_on_the_edge_of_the_band_of_its_reach() {
        // The edges and the median are samples.
        let samples: Vec<f64> = (0..11).map(|k| f64::from(k * k) + 0.5).collect();
        for form in [Form::Level, Form::Growth] {
            for truth in [0.1, 20.0, 25.5, 30.0, 400.0] {
                let [_, median, _] = band(&samples);
                let mut widened = samples.clone();
                widen(&mut widened, reach(&samples, truth, form), form);
                let [low, _, high] = band(&widened);
                let edge = if truth < median { low } else { high };
                assert!((edge - truth).abs() < 1e-9, "{edge}, not {truth}");
            }
        }
        // A band without width holds its median only.
        assert_eq!(reach(&[2.0; 5], 2.0, Form::Level), 0.0);
        assert_eq!(reach(&[2.0; 5], 3.0, Form::Level), f64::INFINITY);
    }

    #[test]
    fn a_block_of_forecasts_counts_as_one_draw() {
        let block = |series, known| Block::of(Origin { series, known }, 4);
        // Within a block all are alike: as sure as the four means 1, 0, 1, 0.
        let numbers = [(0, 0), (0, 4), (1, 0), (1, 4)].into_iter();
        let numbers = numbers.flat_map(|(series, known)| {
            let number = f64::from(u8::from(known == 0));
            (known..known + 4).map(move |known| (block(series, known), number))
        });
        let (mean, stderr) = over_blocks(numbers).expect("there are numbers");
        assert_eq!(mean, 0.5);
        let (_, of_means) = mnemora_training::measures::mean_and_stderr(&[1.0, 0.0, 1.0, 0.0]);
        assert!((stderr.expect("of four blocks") - of_means).abs() < 1e-12);

        let alone = over_blocks([(block(0, 1), 3.0), (block(0, 2), 5.0)].into_iter());
        assert_eq!(alone, Some((4.0, None)));
        assert_eq!(over_blocks(std::iter::empty()), None);
    }
}
