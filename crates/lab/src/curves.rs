//! Curves over training: the bound and the last frame's KL (gtmm, section 4), the bit error of the
//! copy task, the accuracy where classes are named or programs executed, the perplexity of words; and the KL of each step
//! after training.

use crate::{FrequencyScore, UnrollScore, checkpoint::HeldOut, run::Metrics};
use mnemora_figures::chart::{self, Chart, Series, Shaded};
use std::ops::Range;

/// A number of training batches over updates, where it was logged.
pub(crate) fn training_series(
    metrics: &[Metrics],
    value: impl Fn(&Metrics) -> Option<f32>,
) -> Series {
    let rows = metrics.iter();
    Series {
        label: "training batch".into(),
        points: rows
            .filter_map(|row| Some((row.step as f64, f64::from(value(row)?))))
            .collect(),
        band: None,
    }
}

/// A number of checkpoints over updates, where it was measured.
pub(crate) fn held_out_series(
    label: &str,
    held_out: &[HeldOut],
    value: impl Fn(&HeldOut) -> Option<f64>,
) -> Series {
    let rows = held_out.iter();
    Series {
        label: label.into(),
        points: rows
            .filter_map(|row| Some((row.step as f64, value(row)?)))
            .collect(),
        band: None,
    }
}

/// KL per step for a chart, steps counted from 1.
pub(crate) fn kl_per_step_series(label: &str, kl: &[f64]) -> Series {
    Series {
        label: label.into(),
        points: (1..).map(f64::from).zip(kl.iter().copied()).collect(),
        band: None,
    }
}

/// Bound over training.
pub(crate) fn bound_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Bound".into(),
        x_label: "update".into(),
        y_label: "nats per sequence".into(),
        y_range: chart::settled_range(&series, 0.9),
        series,
        ..Chart::default()
    }
}

/// Free energy of recorded sequences over training.
pub(crate) fn free_energy_chart(series: Vec<Series>) -> Chart {
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
pub(crate) fn last_kl_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "KL of the last frame".into(),
        x_label: "update".into(),
        y_label: "nats".into(),
        series,
        ..Chart::default()
    }
}

/// Bit error over training.
pub(crate) fn bit_error_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Bit error".into(),
        x_label: "update".into(),
        y_label: "share of wrong bits".into(),
        y_range: Some((0.0, 0.5)),
        series,
        ..Chart::default()
    }
}

/// Accuracy over training; `chance` is that of guessing.
pub(crate) fn accuracy_chart(series: Vec<Series>, chance: f64) -> Chart {
    Chart {
        title: "Accuracy".into(),
        x_label: "update".into(),
        y_label: "share of right classes".into(),
        y_range: Some((0.0, 1.0)),
        series: with_chance(series, chance),
        ..Chart::default()
    }
}

/// Share of right characters over training.
pub(crate) fn character_accuracy_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Accuracy".into(),
        x_label: "update".into(),
        y_label: "share of right characters".into(),
        y_range: Some((0.0, 1.0)),
        series,
        ..Chart::default()
    }
}

/// Accuracy by the n that is asked for, after training.
pub(crate) fn accuracy_by_n_chart(series: Vec<Series>, chance: f64) -> Chart {
    Chart {
        title: "Accuracy by n".into(),
        x_label: "n".into(),
        ..accuracy_chart(series, chance)
    }
}

/// Perplexity over training.
pub(crate) fn perplexity_chart(series: Vec<Series>) -> Chart {
    Chart {
        title: "Perplexity".into(),
        x_label: "update".into(),
        y_label: "exp of nats per word".into(),
        y_log: true,
        series,
        ..Chart::default()
    }
}

/// Perplexity by how often the training part has a word (Santoro et al. 2018, table 3).
pub(crate) fn frequency_chart(buckets: &[FrequencyScore]) -> Chart {
    let level = |(place, bucket): (f64, &FrequencyScore)| Series {
        label: format!("{} times: {:.0}", bucket.count, bucket.perplexity),
        points: vec![(place, bucket.perplexity), (place + 0.8, bucket.perplexity)],
        band: None,
    };
    Chart {
        title: "Perplexity by frequency".into(),
        x_label: "bucket, the most frequent words first".into(),
        y_label: "exp of nats per word".into(),
        y_log: true,
        series: (1..).map(f64::from).zip(buckets).map(level).collect(),
        ..Chart::default()
    }
}

/// Perplexity by the words after which the state starts anew (Santoro et al. 2018, figure 12).
pub(crate) fn unroll_chart(unrolls: &[UnrollScore]) -> Chart {
    let points = unrolls.iter();
    Chart {
        title: "Perplexity by unroll length".into(),
        x_label: "words".into(),
        y_label: "perplexity above that without a break".into(),
        x_log: true,
        series: vec![Series {
            label: "held-out".into(),
            points: points.map(|u| (u.length as f64, u.increase)).collect(),
            band: None,
        }],
        ..Chart::default()
    }
}

/// Adds the level of guessing, over all that the others go over.
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

/// What a curriculum admits of `count` stages, over training.
pub(crate) fn admitted_chart(metrics: &[Metrics], y_label: &str, count: usize) -> Chart {
    let points = metrics.iter();
    let points = points.filter_map(|row| Some((row.step as f64, row.admitted? as f64)));
    Chart {
        title: "Curriculum".into(),
        x_label: "update".into(),
        y_label: y_label.into(),
        y_range: Some((0.0, count as f64 + 0.5)),
        series: vec![Series {
            label: "admitted".into(),
            points: points.collect(),
            band: None,
        }],
        ..Chart::default()
    }
}

/// KL per step after training; `recall` are the steps at which memory is put to the test.
pub(crate) fn kl_per_step_chart(series: Vec<Series>, recall: Option<Range<usize>>) -> Chart {
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
