//! Forecasts without a network, fitted on the training part: persistence as a random walk, the season before, also with the
//! change since then, and an autoregression. Each is a normal distribution at every step ahead, from its own residuals.

use crate::numeric::least_squares;

/// A normal forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foreseen {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub std: f64,
}

/// The name of each forecast without a network, and the keys of its measurements.
pub const BASELINES: [[&str; 4]; 5] = [
    [
        "random walk",
        "random_walk",
        "random_walk_coverage",
        "random_walk_mase",
    ],
    [
        "season before",
        "season_before",
        "season_before_coverage",
        "season_before_mase",
    ],
    [
        "season before and change",
        "season_change",
        "season_change_coverage",
        "season_change_mase",
    ],
    [
        "autoregression",
        "autoregression",
        "autoregression_coverage",
        "autoregression_mase",
    ],
    [
        "autoregression of changes",
        "of_changes",
        "of_changes_coverage",
        "of_changes_mase",
    ],
];

/// The most lags of an autoregression, and for each lag so many steps to fit it.
const MOST_LAGS: usize = 24;
const STEPS_PER_LAG: usize = 5;
/// Added to the diagonal of the normal equations, relative to its mean.
pub(super) const RIDGE: f64 = 1e-8;

/// Fills what was not observed by straight lines; before the first and after the last value by that value. `None` if
/// nothing was observed.
pub fn filled(values: &[f64]) -> Option<Vec<f64>> {
    let known: Vec<usize> = (0..values.len()).filter(|t| !values[*t].is_nan()).collect();
    let (first, last) = (*known.first()?, *known.last()?);
    let mut all = values.to_vec();
    all[..first].fill(values[first]);
    all[last..].fill(values[last]);
    for pair in known.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let rise = (values[to] - values[from]) / (to - from) as f64;
        for (value, steps) in all[from + 1..to].iter_mut().zip(1..) {
            *value = values[from] + f64::from(steps) * rise;
        }
    }
    Some(all)
}

/// The changes from step to step.
fn changes(values: &[f64]) -> Vec<f64> {
    values.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// A forecaster of one column of one sequence.
#[derive(Clone, Debug)]
pub enum Baseline {
    /// The last value, with the deviation of changes growing with the root of time.
    RandomWalk {
        /// Of the changes.
        std: f64,
    },
    /// The value a season ago.
    Seasonal {
        /// Steps of a season.
        season: usize,
        /// Of the changes over a season.
        std: f64,
    },
    /// The value a season ago and the change of the last value since its own season before: a season on a trend.
    SeasonalChange {
        /// Steps of a season.
        season: usize,
        /// Of the errors 1, 2, ... steps ahead, at most a season.
        stds: Vec<f64>,
    },
    /// A linear map of the last values.
    Autoregression(Autoregression),
    /// A linear map of the last changes.
    OfChanges(Autoregression),
}

fn std_of(residuals: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = residuals.fold((0.0, 0.0), |(sum, count), r| (sum + r * r, count + 1.0));
    (sum / f64::max(count, 1.0)).sqrt().max(1e-12)
}

impl Baseline {
    /// The name in tables.
    pub fn name(&self) -> &'static str {
        let place = match self {
            Self::RandomWalk { .. } => 0,
            Self::Seasonal { .. } => 1,
            Self::SeasonalChange { .. } => 2,
            Self::Autoregression(_) => 3,
            Self::OfChanges(_) => 4,
        };
        BASELINES[place][0]
    }

    /// Persistence, fitted on filled values.
    pub fn random_walk(train: &[f64]) -> Self {
        Self::RandomWalk {
            std: std_of(train.windows(2).map(|pair| pair[1] - pair[0])),
        }
    }

    /// The value a season ago; `None` with fewer than two seasons to fit it.
    pub fn seasonal(train: &[f64], season: usize) -> Option<Self> {
        (season >= 1 && train.len() >= 2 * season).then(|| Self::Seasonal {
            season,
            std: std_of((season..train.len()).map(|t| train[t] - train[t - season])),
        })
    }

    /// The value a season ago and the change since then, for forecasts of at most `horizon` steps; `None` with fewer than two
    /// seasons, and as many steps as a forecast has, to fit it.
    pub fn seasonal_change(train: &[f64], season: usize, horizon: usize) -> Option<Self> {
        let most = season.min(horizon);
        if season == 0 || train.len() < 2 * season + most {
            return None;
        }
        let over: Vec<f64> = (season..train.len())
            .map(|t| train[t] - train[t - season])
            .collect();
        let ahead = |steps| {
            over.windows(steps + 1)
                .map(move |w: &[f64]| w[steps] - w[0])
        };
        Some(Self::SeasonalChange {
            season,
            stds: (1..=most).map(|steps| std_of(ahead(steps))).collect(),
        })
    }

    /// An autoregression of the order that Akaike's criterion prefers; `None` with too few steps.
    pub fn autoregression(train: &[f64]) -> Option<Self> {
        Autoregression::fit(train).map(Self::Autoregression)
    }

    /// An autoregression of the changes from step to step.
    pub fn of_changes(train: &[f64]) -> Option<Self> {
        Autoregression::fit(&changes(train)).map(Self::OfChanges)
    }

    /// Forecasts of the `horizon` steps that follow filled values.
    pub fn forecast(&self, past: &[f64], horizon: usize) -> Vec<Foreseen> {
        let last = past.last().copied().unwrap_or(0.0);
        match self {
            Self::RandomWalk { std } => (1..=horizon)
                .map(|ahead| Foreseen {
                    mean: last,
                    std: std * (ahead as f64).sqrt(),
                })
                .collect(),
            Self::Seasonal { season, std } => (0..horizon)
                .map(|ahead| {
                    let back = season - ahead % season;
                    let seasons = (ahead / season + 1) as f64;
                    Foreseen {
                        mean: past
                            .get(past.len().wrapping_sub(back))
                            .copied()
                            .unwrap_or(last),
                        std: std * seasons.sqrt(),
                    }
                })
                .collect(),
            Self::SeasonalChange { season, stds } => {
                let before = |back: usize| past.get(past.len().wrapping_sub(back)).copied();
                let change = last - before(season + 1).unwrap_or(last);
                let mut means: Vec<f64> = Vec::with_capacity(horizon);
                for ahead in 0..horizon {
                    let ago = match ahead.checked_sub(*season) {
                        Some(earlier) => means[earlier],
                        None => before(season - ahead).unwrap_or(last),
                    };
                    means.push(ago + change);
                }
                // The errors of later seasons add up.
                let seasons = |ahead: usize| (ahead / season + 1) as f64;
                let std = |ahead: usize| stds[ahead % season] * seasons(ahead).sqrt();
                let of_step = |(ahead, mean)| Foreseen {
                    mean,
                    std: std(ahead),
                };
                means.into_iter().enumerate().map(of_step).collect()
            }
            Self::Autoregression(model) => model.forecast(past, horizon),
            Self::OfChanges(model) => {
                let (mut sum, mut response, mut variance) = (last, 0.0, 0.0);
                let ahead = model.forecast(&changes(past), horizon);
                let of_one = model.response(horizon);
                let steps = ahead.iter().zip(of_one);
                steps
                    .map(|(change, one)| {
                        sum += change.mean;
                        response += one;
                        variance += response * response;
                        Foreseen {
                            mean: sum,
                            std: model.std * f64::sqrt(variance),
                        }
                    })
                    .collect()
            }
        }
    }
}

/// `y_t = constant + sum_k weights_k y_{t-k} + noise`, on numbers from which the mean is taken.
#[derive(Clone, Debug)]
pub struct Autoregression {
    mean: f64,
    constant: f64,
    weights: Vec<f64>,
    std: f64,
}

impl Autoregression {
    /// Least squares for each order up to the largest, all on the same steps; the best by Akaike's criterion.
    pub fn fit(train: &[f64]) -> Option<Self> {
        let most = MOST_LAGS.min(train.len() / STEPS_PER_LAG);
        let mean = train.iter().sum::<f64>() / train.len().max(1) as f64;
        let centred: Vec<f64> = train.iter().map(|y| y - mean).collect();
        let count = centred.len().saturating_sub(most) as f64;
        (1..=most)
            .filter_map(|lags| {
                let fitted = Self::of_order(&centred, lags, most, mean)?;
                let criterion = count * (fitted.std * fitted.std).ln() + 2.0 * (lags + 2) as f64;
                Some((criterion, fitted))
            })
            .min_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, fitted)| fitted)
    }

    /// Least squares with `lags` lags, on the steps after the first `most`.
    fn of_order(centred: &[f64], lags: usize, most: usize, mean: f64) -> Option<Self> {
        let size = lags + 1;
        let row = |t: usize| {
            let mut row = vec![1.0];
            row.extend((1..=lags).map(|lag| centred[t - lag]));
            row
        };
        let rows = (most..centred.len()).map(|t| (row(t), centred[t]));
        let solution = least_squares(rows, RIDGE)?;
        let residuals = (most..centred.len()).map(|t| {
            let told: f64 = row(t).iter().zip(&solution).map(|(a, w)| a * w).sum();
            centred[t] - told
        });
        let count = (centred.len() - most) as f64;
        let raw = std_of(residuals);
        Some(Self {
            mean,
            constant: solution[0],
            weights: solution[1..].to_vec(),
            std: raw * (count / (count - size as f64).max(1.0)).sqrt(),
        })
    }

    /// What a single disturbance of 1 adds to the steps from its own on.
    fn response(&self, horizon: usize) -> Vec<f64> {
        let mut response: Vec<f64> = Vec::with_capacity(horizon);
        for ahead in 0..horizon {
            let carried = self.weights.iter().zip(response.iter().rev());
            let carried: f64 = carried.map(|(weight, before)| weight * before).sum();
            response.push(if ahead == 0 { 1.0 } else { carried });
        }
        response
    }

    /// Means step by step, and deviations from the response to a single disturbance.
    pub fn forecast(&self, past: &[f64], horizon: usize) -> Vec<Foreseen> {
        let lags = self.weights.len();
        let mut all: Vec<f64> = past
            .iter()
            .skip(past.len().saturating_sub(lags))
            .map(|y| y - self.mean)
            .collect();
        // With fewer values than lags, the mean stands for those before.
        let mut padded = vec![0.0; lags.saturating_sub(all.len())];
        padded.append(&mut all);
        let mut variance = 0.0;
        self.response(horizon)
            .into_iter()
            .map(|here| {
                let end = padded.len();
                let told: f64 = self
                    .weights
                    .iter()
                    .enumerate()
                    .map(|(k, weight)| weight * padded[end - 1 - k])
                    .sum();
                padded.push(self.constant + told);
                variance += here * here;
                Foreseen {
                    mean: self.mean + padded[end],
                    std: self.std * f64::sqrt(variance).min(1e12),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::Stream;

    #[test]
    fn gaps_are_filled_by_straight_lines() {
        let nan = f64::NAN;
        assert_eq!(
            filled(&[nan, 1.0, nan, nan, 4.0, nan]).unwrap(),
            [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]
        );
        assert_eq!(filled(&[nan, nan]), None);
    }

    #[test]
    fn an_autoregression_finds_its_own_weights_and_bands() {
        let noise = Stream::new(1, "noise").standard_normal(0, 4000);
        let mut y = vec![0.0, 0.0];
        for e in noise {
            let t = y.len();
            y.push(0.3 + 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.7 * f64::from(e));
        }
        let Some(Baseline::Autoregression(model)) = Baseline::autoregression(&y) else {
            panic!("it is fitted");
        };
        assert!((model.weights[0] - 1.2).abs() < 0.05, "{model:?}");
        assert!((model.weights[1] + 0.5).abs() < 0.05, "{model:?}");
        assert!((model.std - 0.7).abs() < 0.02, "{model:?}");
        let far = model.forecast(&y, 500);
        // The mean and the deviation of the process.
        let variance = 0.49 * (1.0 + 0.5) / ((1.0 - 0.5) * ((1.0 + 0.5f64).powi(2) - 1.44));
        assert!((far[499].mean - 1.0).abs() < 0.15, "{:?}", far[499]);
        assert!(
            (far[499].std - variance.sqrt()).abs() < 0.1,
            "{:?}",
            far[499]
        );
        assert!((far[0].std - model.std).abs() < 1e-12);
    }

    #[test]
    fn an_autoregression_of_changes_follows_a_trend_and_widens_like_a_walk() {
        let noise = Stream::new(2, "noise").standard_normal(0, 4000);
        let mut y = vec![0.0];
        for e in noise {
            y.push(y[y.len() - 1] + 2.0 + 0.5 * f64::from(e));
        }
        let foreseen = Baseline::of_changes(&y).unwrap().forecast(&y, 25);
        let last = y[y.len() - 1];
        assert!(
            (foreseen[24].mean - last - 50.0).abs() < 2.0,
            "{:?}",
            foreseen[24]
        );
        assert!((foreseen[24].std - 2.5).abs() < 0.3, "{:?}", foreseen[24]);
    }

    #[test]
    fn a_season_on_a_trend_goes_on() {
        let noise = Stream::new(3, "noise").standard_normal(0, 4000);
        let level = |t: usize| f64::from((t % 4) as u32) + 0.5 * t as f64;
        let y: Vec<f64> = noise
            .iter()
            .enumerate()
            .map(|(t, e)| level(t) + 0.3 * f64::from(*e))
            .collect();
        let model = Baseline::seasonal_change(&y, 4, 6).unwrap();
        let without: Vec<f64> = (0..40).map(level).collect();
        let foreseen = model.forecast(&without, 6);
        for (ahead, foreseen) in foreseen.iter().enumerate() {
            assert!(
                (foreseen.mean - level(40 + ahead)).abs() < 1e-9,
                "{foreseen:?}"
            );
        }
        // Four independent errors, but for a whole season ahead, where one of them counts twice.
        let found: Vec<f64> = foreseen.iter().map(|f| f.std).collect();
        let expected = [
            2.0,
            2.0,
            2.0,
            f64::sqrt(6.0),
            2.0 * f64::sqrt(2.0),
            2.0 * f64::sqrt(2.0),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - 0.3 * expected).abs() < 0.03, "{found} {expected}");
        }
        assert!(Baseline::seasonal_change(&y[..13], 4, 6).is_some());
        assert!(Baseline::seasonal_change(&y[..11], 4, 6).is_none());
    }

    #[test]
    fn the_season_before_comes_back() {
        let y: Vec<f64> = (0..24).map(|t| f64::from(t % 4)).collect();
        let seasonal = Baseline::seasonal(&y, 4).unwrap();
        let means: Vec<f64> = seasonal.forecast(&y, 6).iter().map(|f| f.mean).collect();
        assert_eq!(means, [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]);
        assert!(Baseline::seasonal(&y, 13).is_none());
        let walk = Baseline::random_walk(&[0.0, 1.0, 0.0, 1.0]).forecast(&[5.0], 4);
        assert_eq!(
            walk[3],
            Foreseen {
                mean: 5.0,
                std: 2.0
            }
        );
    }
}
