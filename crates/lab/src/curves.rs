//! Curves over training, and the charts shared by families: the bound and the last frame's KL (gtmm, section 4), the
//! bit error of the copy task, the accuracy for classes and programs, the perplexity of texts, and the KL of each step
//! after training.

use crate::pictures::chart_figure;
use burn::tensor::Tensor;
use mnemora_figures::{
    chart::{self, Chart, Series, Shaded},
    page::Figure,
};
use mnemora_models::DiagonalGaussian;
use mnemora_training::{Measures, Row, arrays::host, measures::mean_and_stderr};
use std::ops::Range;

/// The logged numbers and evaluations of one model's runs, a list for each run.
pub(crate) struct Logged<'a> {
    pub label: &'a str,
    pub metrics: &'a [Vec<Row>],
    /// The machine's rows.
    pub machine: &'a [Vec<Row>],
    pub evaluations: &'a [Row],
    /// The evaluations at checkpoints.
    pub held_out: &'a [Vec<Row>],
}

/// The curves of compared runs, one series per model.
pub struct Curves<'a>(pub(crate) Vec<Logged<'a>>);

impl Curves<'_> {
    fn of(&self, curves: impl Fn(&Logged) -> Vec<Vec<(f64, f64)>>) -> Vec<Series> {
        let series = |model: &Logged| replica_series(model.label, &curves(model));
        self.0.iter().map(series).collect()
    }

    /// A number of training batches, smoothed over 1% of the rows.
    pub fn training(&self, key: &str) -> Vec<Series> {
        self.of(|model| training_curves(model.metrics, key))
    }

    /// A number of the evaluations at checkpoints.
    pub fn held_out(&self, key: &str) -> Vec<Series> {
        let curve = |rows: &Vec<Row>| held_out_series("", rows, key).points;
        self.of(|model| model.held_out.iter().map(curve).collect())
    }

    /// A number of the evaluations at checkpoints, over what the training batches counted until then.
    pub fn held_out_by(&self, key: &str, counted: &str) -> Vec<Series> {
        self.of(|model| held_out_over(model.held_out, key, model.metrics, counted))
    }

    /// A number of the evaluations at checkpoints, over the time since the start; and the unit of the time.
    pub fn held_out_by_time(&self, key: &str) -> (&'static str, Vec<Series>) {
        let of = |model: &Logged| held_out_over(model.held_out, key, model.machine, ELAPSED);
        in_one_unit(self.of(of))
    }

    /// The perplexity at checkpoints, computed from the bound that they keep.
    pub fn perplexity(&self) -> Vec<Series> {
        let curve = |rows: &Vec<Row>| perplexity_series("", rows).points;
        self.of(|model| model.held_out.iter().map(curve).collect())
    }

    /// A number of each step after training, with steps counted from 1.
    pub fn per_step(&self, path: &str) -> Vec<Series> {
        let curve = |row: &Row| kl_per_step_series("", row.measures.series(path)).points;
        self.of(|model| model.evaluations.iter().map(curve).collect())
    }
}

/// A number of training batches over updates, where it was logged.
pub fn training_series(metrics: &[Row], key: &str) -> Series {
    series("training batch", metrics, |measures| measures.number(key))
}

/// A number of checkpoints over updates, where it was measured.
pub fn held_out_series(label: &str, held_out: &[Row], key: &str) -> Series {
    series(label, held_out, |measures| measures.number(key))
}

/// The time since the start in the machine's rows, in seconds.
const ELAPSED: &str = "elapsed_seconds";

/// A curve over another number, which grows with the updates, in place of the updates themselves: zero at the start, as the
/// rows have it, and straight in between. What is later than all rows is left out.
pub fn over(series: Series, rows: &[Row], key: &str) -> Series {
    let mut grown = training_series(rows, key).points;
    if !grown.is_empty() {
        grown.insert(0, (0.0, 0.0));
    }
    let at = |step: f64| {
        let after = grown.iter().position(|(row, _)| *row >= step)?;
        let (end, high) = grown[after];
        let (begin, low) = grown[after.saturating_sub(1)];
        let share = (step - begin) / (end - begin).max(1.0);
        Some(low + share * (high - low))
    };
    let points = series.points.iter();
    Series {
        points: points
            .filter_map(|(step, value)| Some((at(*step)?, *value)))
            .collect(),
        ..series
    }
}

/// Curves over the time since the start, in one unit; and its name.
pub fn over_time(series: Vec<Series>, machine: &[Row]) -> (&'static str, Vec<Series>) {
    in_one_unit(
        series
            .into_iter()
            .map(|series| over(series, machine, ELAPSED))
            .collect(),
    )
}

/// Of each run, a number of its evaluations at checkpoints over a number of its rows.
fn held_out_over(
    held_out: &[Vec<Row>],
    key: &str,
    rows: &[Vec<Row>],
    counted: &str,
) -> Vec<Vec<(f64, f64)>> {
    let runs = held_out.iter().zip(rows);
    runs.map(|(held_out, rows)| over(held_out_series("", held_out, key), rows, counted).points)
        .collect()
}

/// Brings curves over seconds to a unit of which the longest has a good number; and its name.
fn in_one_unit(mut series: Vec<Series>) -> (&'static str, Vec<Series>) {
    let points = series.iter().flat_map(|series| &series.points);
    let (unit, seconds) = unit_of_time(points.map(|point| point.0).fold(0.0, f64::max));
    let points = series.iter_mut().flat_map(|series| &mut series.points);
    points.for_each(|(time, _)| *time /= seconds);
    (unit, series)
}

/// A unit for times up to this many seconds, and its seconds.
fn unit_of_time(longest: f64) -> (&'static str, f64) {
    match longest {
        0.0..300.0 => ("seconds", 1.0),
        300.0..18_000.0 => ("minutes", 60.0),
        _ => ("hours", 3600.0),
    }
}

/// The perplexity of checkpoints over updates, computed from the bound that they keep.
pub fn perplexity_series(label: &str, held_out: &[Row]) -> Series {
    series(label, held_out, |measures| {
        Some((-measures.number("bound")?).exp())
    })
}

fn series(label: &str, rows: &[Row], value: impl Fn(&Measures) -> Option<f64>) -> Series {
    Series {
        label: label.into(),
        points: rows
            .iter()
            .filter_map(|row| Some((row.step as f64, value(&row.measures)?)))
            .collect(),
        band: None,
    }
}

/// KL per step for a chart, with steps counted from 1.
pub fn kl_per_step_series(label: &str, kl: &[Option<f64>]) -> Series {
    let steps = (1..).map(f64::from).zip(kl);
    Series {
        label: label.into(),
        points: steps
            .filter_map(|(step, kl)| Some((step, (*kl)?)))
            .collect(),
        band: None,
    }
}

/// Means over blocks of steps, drawn at the middle of each block, with steps counted from 1.
pub fn series_by_block(label: &str, means: &[Option<f64>], block: usize) -> Series {
    let middle = |index: usize| (index * block) as f64 + (block as f64 + 1.0) / 2.0;
    let points = means.iter().enumerate();
    Series {
        label: label.into(),
        points: points
            .filter_map(|(index, mean)| Some((middle(index), (*mean)?)))
            .collect(),
        band: None,
    }
}

/// Bound over training, in `unit`.
pub fn bound_chart(unit: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: "Bound".into(),
        x_label: "update".into(),
        y_label: unit.into(),
        y_range: chart::settled_range(&series, 0.9),
        series,
        ..Chart::default()
    }
}

/// Free energy of recorded sequences over training.
pub fn free_energy_chart(series: Vec<Series>) -> Chart {
    let turned: Vec<Series> = series.iter().map(minus).collect();
    let range = chart::settled_range(&turned, 0.9);
    Chart {
        title: "Free energy".into(),
        x_label: "update".into(),
        y_label: "nats per step".into(),
        y_range: range.map(|(low, high)| (-high, -low)),
        series,
        ..Chart::default()
    }
}

fn minus(series: &Series) -> Series {
    Series {
        label: series.label.clone(),
        points: series.points.iter().map(|(x, y)| (*x, -y)).collect(),
        band: None,
    }
}

/// Last frame's KL over training.
pub fn last_kl_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "KL of the last frame".into(),
        x_label: "update".into(),
        y_label: "nats".into(),
        series,
        ..Chart::default()
    }
}

/// Bit error over training.
pub fn bit_error_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Bit error".into(),
        x_label: "update".into(),
        y_label: "fraction of wrong bits".into(),
        y_range: Some((0.0, 0.5)),
        series,
        ..Chart::default()
    }
}

/// Accuracy over training, with the accuracy of guessing, `chance`.
pub fn accuracy_chart(series: Vec<Series>, chance: f64) -> Chart {
    Chart {
        title: "Accuracy".into(),
        x_label: "update".into(),
        y_label: "fraction of correct classes".into(),
        y_range: Some((0.0, 1.0)),
        series: with_chance(series, chance),
        ..Chart::default()
    }
}

/// Fraction of correct characters over training.
pub fn character_accuracy_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Accuracy".into(),
        x_label: "update".into(),
        y_label: "fraction of correct characters".into(),
        y_range: Some((0.0, 1.0)),
        series,
        ..Chart::default()
    }
}

/// Accuracy by the n that is asked for, after training.
pub fn accuracy_by_n_chart(series: Vec<Series>, chance: f64) -> Chart {
    Chart {
        title: "Accuracy by n".into(),
        x_label: "n".into(),
        ..accuracy_chart(series, chance)
    }
}

/// Perplexity over training.
pub fn perplexity_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Perplexity".into(),
        x_label: "update".into(),
        y_label: "perplexity per word".into(),
        y_log: true,
        series,
        ..Chart::default()
    }
}

/// Perplexity by the number of occurrences in the training part (Santoro et al. 2018, table 3).
pub fn frequency_chart(buckets: &[Measures]) -> Chart {
    let level = |(place, bucket): (f64, &Measures)| {
        let count = bucket.text("count").unwrap_or_default();
        let perplexity = bucket.number("perplexity").unwrap_or(f64::NAN);
        Series {
            label: format!("{count} times: {perplexity:.0}"),
            points: vec![(place, perplexity), (place + 0.8, perplexity)],
            band: None,
        }
    };
    Chart {
        title: "Perplexity by frequency".into(),
        x_label: "bucket, the most frequent words first".into(),
        y_label: "perplexity per word".into(),
        y_log: true,
        series: (1..).map(f64::from).zip(buckets).map(level).collect(),
        ..Chart::default()
    }
}

/// Perplexity by the number of words between resets of the state (Santoro et al. 2018, figure 12).
pub fn unroll_chart(unrolls: &[Measures]) -> Chart {
    let point = |unroll: &Measures| Some((unroll.number("length")?, unroll.number("increase")?));
    Chart {
        title: "Perplexity by unroll length".into(),
        x_label: "words".into(),
        y_label: "perplexity above that without a reset".into(),
        x_log: true,
        series: vec![Series {
            label: "held-out".into(),
            points: unrolls.iter().filter_map(point).collect(),
            band: None,
        }],
        ..Chart::default()
    }
}

/// Adds the level of guessing, as wide as the other series.
fn with_chance(mut series: Vec<Series>, chance: f64) -> Vec<Series> {
    let places = series.iter().flat_map(|s| s.points.iter().map(|p| p.0));
    let (first, last) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    if first <= last {
        series.push(Series {
            label: "chance".into(),
            points: vec![(first, chance), (last, chance)],
            band: None,
        });
    }
    series
}

/// The stage of a curriculum over training, of `count` stages.
pub fn admitted_chart(metrics: &[Row], y_label: &str, count: usize) -> Chart {
    Chart {
        title: "Curriculum".into(),
        x_label: "update".into(),
        y_label: y_label.into(),
        y_range: Some((0.0, count as f64 + 0.5)),
        series: vec![Series {
            label: "admitted".into(),
            ..held_out_series("", metrics, "admitted")
        }],
        ..Chart::default()
    }
}

/// KL per step after training; `recall` are the steps that test the memory.
pub fn kl_per_step_chart(series: Vec<Series>, recall: Option<Range<usize>>) -> Chart {
    let top = series
        .iter()
        .flat_map(|s| s.points.iter().map(|p| p.1))
        .fold(1.0, f64::max);
    Chart {
        title: "KL per step after training".into(),
        x_label: "step".into(),
        y_label: "nats".into(),
        y_range: Some((0.0, 1.1 * top)),
        shaded: recall.map(|range| Shaded {
            from: range.start as f64 + 0.5,
            to: range.end as f64 + 0.5,
            caption: "recall interval".into(),
        }),
        series,
        ..Chart::default()
    }
}

/// The information in each latent dimension, the largest first: which of them the model uses.
///
/// - `posteriors`: rows of all steps
/// - `priors`: of the scored steps, which are the last ones
pub fn units_figure(posteriors: &DiagonalGaussian, priors: &DiagonalGaussian) -> Figure {
    let [rows, latent] = priors.mean.dims();
    let first = posteriors.mean.dims()[0] - rows;
    let last = |all: &Tensor<2>| all.clone().narrow(0, first, rows);
    let scored = DiagonalGaussian {
        mean: last(&posteriors.mean),
        log_std: last(&posteriors.log_std),
    };
    let each = scored.kl_by_dimension(priors).mean_dim(0);
    let mut each: Vec<f64> = host(each.into_data()).into_iter().map(f64::from).collect();
    each.sort_by(|a, b| b.total_cmp(a));
    let active = each.iter().filter(|kl| **kl > ACTIVE).count();
    let chart = Chart {
        title: "KL of each latent dimension".into(),
        x_label: "dimension, the largest first".into(),
        y_label: "nats per step".into(),
        series: vec![Series {
            points: (1..).map(f64::from).zip(each).collect(),
            ..Series::default()
        }],
        ..Chart::default()
    };
    let caption = format!(
        "{active} of {latent} dimensions are active: the KL divergence of the posterior from the prior is above {ACTIVE} nats \
         per step."
    );
    chart_figure(chart, &caption)
}

/// A latent dimension with a larger KL divergence is active, in nats per step.
const ACTIVE: f64 = 0.01;

/// The replicas' curves, each smoothed over 1% of its rows so that models can be told apart.
fn training_curves(metrics: &[Vec<Row>], key: &str) -> Vec<Vec<(f64, f64)>> {
    // The same smoothing width for all, so that the points of the replicas are of the same updates.
    let longest = metrics.iter().map(Vec::len).max().unwrap_or(0);
    let width = (longest / 100).max(1);
    metrics
        .iter()
        .map(|rows| {
            rows.chunks(width)
                .filter_map(|chunk| {
                    let values = chunk.iter().map(|row| row.measures.number(key));
                    let values: Option<Vec<f64>> = values.collect();
                    let sum: f64 = values?.into_iter().sum();
                    Some((chunk.last()?.step as f64, sum / chunk.len() as f64))
                })
                .collect()
        })
        .collect()
}

/// Mean of the curves at the points that all of them have, with a band of one standard error.
fn replica_series(label: &str, curves: &[Vec<(f64, f64)>]) -> Series {
    let length = curves.iter().map(Vec::len).min().unwrap_or(0);
    let mut points = Vec::with_capacity(length);
    let mut band = Vec::with_capacity(length);
    for index in 0..length {
        let here = || curves.iter().map(|curve| curve[index]);
        let (mean, stderr) = mean_and_stderr(&here().map(|(_, y)| y).collect::<Vec<f64>>());
        // Replicas need different times for the same updates.
        let (x, _) = mean_and_stderr(&here().map(|(x, _)| x).collect::<Vec<f64>>());
        points.push((x, mean));
        band.push((mean - stderr, mean + stderr));
    }
    let (label, band) = match curves.len() {
        0 | 1 => (label.to_owned(), None),
        seeds => (
            format!("{label} ({seeds} seeds, ± standard error)"),
            Some(band),
        ),
    };
    Series {
        label,
        points,
        band,
    }
}

/// The bound over training, in `unit`: of training batches and at checkpoints.
pub fn bound_figure(unit: &str, metrics: &[Row], held_out: &[Row]) -> Figure {
    let training = training_series(metrics, "bound");
    let held_out = held_out_series("held-out", held_out, "bound");
    let chart = bound_chart(unit, vec![training, held_out]);
    chart_figure(chart, "Bound over training.")
}

/// Curves of the optimiser and of the machine, as far as they were logged.
pub fn training_figures(metrics: &[Row], machine: &[Row]) -> Vec<Figure> {
    let line = |title: &str, y_label: &str, series: Series| Chart {
        title: title.into(),
        x_label: "update".into(),
        y_label: y_label.into(),
        series: vec![Series {
            label: String::new(),
            ..series
        }],
        ..Chart::default()
    };
    let logged = |key| training_series(metrics, key);
    let measured = |key| training_series(machine, key);
    let mut time = measured(ELAPSED);
    let longest = time.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let (unit, seconds) = unit_of_time(longest);
    for (_, value) in &mut time.points {
        *value /= seconds;
    }
    let figures = [
        (
            Chart {
                y_log: true,
                ..line("Gradient norm", "norm", logged("gradient_norm"))
            },
            "Norm of the whole gradient before it is clipped.",
        ),
        (
            line("Learning rate", "rate", logged("learning_rate")),
            "The optimiser's learning rate.",
        ),
        (
            line(
                "Speed",
                "updates per second",
                measured("updates_per_second"),
            ),
            "Updates per second since the row before, without evaluations and checkpoints.",
        ),
        (
            line("Time", unit, time),
            "Time since the start, with evaluations and checkpoints.",
        ),
        (
            line("Memory", "MiB", measured("memory_mib")),
            "Memory of the process.",
        ),
    ];
    figures
        .into_iter()
        .filter(|(chart, _)| !chart.series[0].points.is_empty())
        .map(|(chart, caption)| chart_figure(chart, caption))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: u64, key: &'static str, value: f64) -> Row {
        Row {
            step,
            measures: Measures::new().with(key, value),
        }
    }

    fn points(points: &[(f64, f64)]) -> Series {
        Series {
            label: "run".into(),
            points: points.to_vec(),
            band: None,
        }
    }

    #[test]
    fn a_curve_over_what_was_counted_is_straight_between_rows() {
        let rows = [row(10, "frames", 200.0), row(20, "frames", 600.0)];
        let curve = points(&[
            (0.0, 1.0),
            (5.0, 2.0),
            (10.0, 3.0),
            (15.0, 4.0),
            (25.0, 5.0),
        ]);
        let expected = [(0.0, 1.0), (100.0, 2.0), (200.0, 3.0), (400.0, 4.0)];
        assert_eq!(over(curve.clone(), &rows, "frames").points, expected);
        assert!(over(curve, &[], "frames").points.is_empty());
    }

    #[test]
    fn times_have_a_unit_by_the_longest() {
        let machine = [row(4, ELAPSED, 1200.0)];
        let both = vec![points(&[(2.0, 1.0)]), points(&[(4.0, 7.0)])];
        let (unit, curves) = over_time(both, &machine);
        assert_eq!(unit, "minutes");
        assert_eq!(curves[0].points, [(10.0, 1.0)]);
        assert_eq!(curves[1].points, [(20.0, 7.0)]);
        let (unit, _) = over_time(vec![points(&[(1.0, 1.0)])], &[row(1, ELAPSED, 200.0)]);
        assert_eq!(unit, "seconds");
    }

    #[test]
    fn replicas_are_drawn_at_their_mean_time() {
        let curves = [vec![(1.0, 2.0), (2.0, 4.0)], vec![(3.0, 4.0), (6.0, 4.0)]];
        let series = replica_series("rmc", &curves);
        assert_eq!(series.points, [(2.0, 3.0), (4.0, 4.0)]);
        assert_eq!(series.band, Some(vec![(2.0, 4.0), (4.0, 4.0)]));
    }
}
