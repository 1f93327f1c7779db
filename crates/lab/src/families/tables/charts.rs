//! Charts of tables and forecasts.

use super::{
    backtest::Origin,
    coding::Coded,
    filter::{Expected, FilteredRow, NextRow},
    forecast::Samples,
    source::Source,
};
use crate::numeric::quantile;
use mnemora_figures::chart::{Chart, Series as Line, Shaded};
use mnemora_worlds::series::Clock;

/// Steps of the past in a picture, for each step of the forecast.
const PAST: usize = 4;

/// The most charts of a forecast.
const MOST_CHARTS: usize = 12;

/// The past and the forecast of each column, for the first sequences.
pub fn charts(source: &Source, origins: &[Origin], drawn: &[Samples], steps: usize) -> Vec<Chart> {
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
            Chart {
                x_label: last_step(&series.clock, past.len()),
                ..chart(&title, coded, &past, drawn, which, steps, &[])
            }
        })
    });
    all.take(MOST_CHARTS).collect()
}

/// The label of an axis of steps: when the last known one was.
fn last_step(clock: &Clock, known: usize) -> String {
    match clock {
        Clock::Order(_) => "step".to_owned(),
        clock if known == 0 || known > clock.steps() => "step".to_owned(),
        clock => format!("step; {known} is {}", clock.text(known - 1)),
    }
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

/// Filtered rows: of each numeric column what was observed beside what was expected of it a row before, and how surprising the
/// rows were.
pub fn filtered(rows: &[FilteredRow]) -> Vec<Chart> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let x_label = match first.time == first.t.to_string() {
        true => "step".to_owned(),
        false => format!("step; {} is {}", first.t, first.time),
    };
    let mut charts = Vec::new();
    for (which, name) in first.names.iter().enumerate() {
        let expected = |row: &FilteredRow| match row.next.as_ref()?.columns.get(name)? {
            Expected::Number {
                mean, quantiles, ..
            } => Some((*mean, [*quantiles.first()?, *quantiles.last()?])),
            Expected::Shares(_) => None,
        };
        let observed = rows.iter().map(|row| (row.t as f64, row.observed[which]));
        let truths = { observed.clone() }.all(|(_, y)| y == 0.0 || y == 1.0 || y.is_nan());
        let numeric = rows.iter().filter_map(|row| row.next.as_ref());
        let categorical =
            |next: &NextRow| matches!(next.columns.get(name), Some(Expected::Shares(_)));
        if { numeric }.any(categorical) {
            continue;
        }
        // What was expected of the row after; nothing is where rows are missing.
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for row in rows {
            let (mean, [low, high]) = expected(row).unwrap_or((f64::NAN, [f64::NAN; 2]));
            points.push(((row.t + 1) as f64, mean));
            band.push((low, high));
        }
        charts.push(Chart {
            title: name.clone(),
            x_label: x_label.clone(),
            series: vec![
                Line {
                    label: "observed".into(),
                    points: observed.collect(),
                    band: None,
                },
                Line {
                    label: "expected a step before".into(),
                    points,
                    // Of truth values it would be from 0 to 1.
                    band: (!truths).then_some(band),
                },
            ],
            ..Chart::default()
        });
    }
    let nats = |row: &FilteredRow| row.surprise.unwrap_or(f64::NAN);
    let alarms = rows.iter().filter(|row| row.alarm == Some(true));
    charts.push(Chart {
        title: "surprise".into(),
        x_label,
        y_label: "nats".into(),
        series: vec![
            Line {
                label: "surprise".into(),
                points: rows.iter().map(|row| (row.t as f64, nats(row))).collect(),
                band: None,
            },
            Line {
                label: if { alarms.clone() }.next().is_some() {
                    "alarms"
                } else {
                    ""
                }
                .into(),
                points: alarms
                    .flat_map(|row| {
                        let t = row.t as f64;
                        [(t - 0.4, nats(row)), (t + 0.4, nats(row)), (t, f64::NAN)]
                    })
                    .collect(),
                band: None,
            },
        ],
        ..Chart::default()
    });
    charts
}
