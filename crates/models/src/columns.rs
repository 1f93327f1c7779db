//! The likelihood of a table's columns, each of its own kind, where some may not have been observed.
//!
//! An observation of `k` columns is one row of numbers:
//!
//! ```text
//! [ values of column 1; ..; values of column k;  observed_1 .. observed_k;  extras ]
//! ```
//!
//! A number, a count or a truth value is one value, a category is as many as it has names, one of them 1. `observed` is 1 or
//! 0; the values of a column that was not observed are 0. Extras are given to the model and have no likelihood: the
//! covariates of the step that follows.

use crate::distributions::uniform;
use burn::tensor::{Tensor, TensorData, activation};
use mnemora_kernels::split::halves;
use std::{f64::consts::PI, sync::Arc};

/// Bounds of the logarithms of a standard deviation, and of the numbers that rule the tails.
const LOG_STD: [f64; 2] = [-7.0, 5.0];
const LOG_SHAPE: [f64; 2] = [-5.0, 8.0];
/// Bounds of the logarithm of a rate, in addition to that of the mean count.
const LOG_RATE: [f64; 2] = [-12.0, 8.0];
/// Degrees of freedom that Student's distribution has at least: its variance is finite.
const LEAST_FREEDOM: f64 = 2.01;
/// `0.5 * ln(2 pi)`
const HALF_LOG_TWO_PI: f64 = crate::distributions::HALF_LOG_TWO_PI;
/// Counts of a larger mean are drawn by three moments.
const LARGE_COUNT: f64 = 500.0;
/// The largest count that is drawn.
const MOST: f64 = 1e7;

/// How an observation holds a count n: as `(ln(1 + n) - mean) / deviation`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountScale {
    /// Of `ln(1 + n)`.
    pub mean: f64,
    /// Of `ln(1 + n)`.
    pub deviation: f64,
}

impl CountScale {
    /// The number that stands for a count.
    pub fn apply(&self, count: f64) -> f64 {
        (count.ln_1p() - self.mean) / self.deviation
    }

    /// The count of a number, not rounded.
    pub fn undo(&self, number: f64) -> f64 {
        (number * self.deviation + self.mean).exp_m1().max(0.0)
    }
}

/// The likelihood of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnLikelihood {
    /// Gaussian: mean and log standard deviation.
    Normal,
    /// Student's t: place, log scale, and the logarithm of the degrees of freedom beyond two.
    StudentT,
    /// Poisson: the logarithm of the rate.
    Poisson(CountScale),
    /// Negative binomial: the logarithms of mean and size; the variance is `mean + mean^2 / size`.
    NegativeBinomial(CountScale),
    /// Bernoulli: the logit.
    Bernoulli,
    /// One of so many names: their logits.
    Categorical(usize),
}

impl ColumnLikelihood {
    /// Numbers in an observation.
    pub fn values(self) -> usize {
        match self {
            Self::Categorical(names) => names,
            _ => 1,
        }
    }

    /// Numbers that a decoder gives.
    pub fn outputs(self) -> usize {
        match self {
            Self::Poisson(_) | Self::Bernoulli => 1,
            Self::Normal | Self::NegativeBinomial(_) => 2,
            Self::StudentT => 3,
            Self::Categorical(names) => names,
        }
    }

    fn same_kind(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
            && !matches!(self, Self::Categorical(_))
    }
}

/// The columns of an observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// In the order of the observation. Those of one kind are computed together if they stand together.
    pub columns: Arc<[ColumnLikelihood]>,
    /// Numbers after the columns.
    pub extras: usize,
}

/// Columns of one kind that stand together.
struct Run<'a> {
    columns: &'a [ColumnLikelihood],
    /// The first of them, the first of their values, and of their outputs.
    first: [usize; 3],
}

impl Columns {
    /// Numbers of the values of all columns.
    pub fn values(&self) -> usize {
        self.columns.iter().map(|column| column.values()).sum()
    }

    /// Numbers of an observation.
    pub fn observation(&self) -> usize {
        self.values() + self.columns.len() + self.extras
    }

    /// Numbers that a decoder gives.
    pub fn outputs(&self) -> usize {
        self.columns.iter().map(|column| column.outputs()).sum()
    }

    fn runs(&self) -> Vec<Run<'_>> {
        let mut first = [0; 3];
        let runs = self.columns.chunk_by(|a, b| a.same_kind(*b));
        runs.map(|columns| {
            let run = Run { columns, first };
            first[0] += columns.len();
            first[1] += columns.iter().map(|column| column.values()).sum::<usize>();
            first[2] += columns.iter().map(|column| column.outputs()).sum::<usize>();
            run
        })
        .collect()
    }
}

/// The distributions of the columns of each row.
#[derive(Clone, Debug)]
pub struct ColumnsLikelihood {
    /// Which columns.
    pub columns: Columns,
    /// Of a decoder, `[rows, outputs]`.
    pub output: Tensor<2>,
}

impl ColumnsLikelihood {
    /// `log p` in nats of each column, `[rows, columns]`, for observations `[rows, observation]`; 0 for a column that was not
    /// observed.
    pub fn log_probabilities(&self, x: Tensor<2>) -> Tensor<2> {
        let columns = &self.columns;
        let observed = x.clone().narrow(1, columns.values(), columns.columns.len());
        let all: Vec<Tensor<2>> = columns
            .runs()
            .iter()
            .map(|run| self.of_run(run, &x))
            .collect();
        Tensor::cat(all, 1) * observed
    }

    /// `log p` in nats, `[rows]`.
    pub fn log_probability(&self, x: Tensor<2>) -> Tensor<1> {
        self.log_probabilities(x).sum_dim(1).squeeze_dim(1)
    }

    /// The parameter number `which` of each column of a run, `[rows, columns]`.
    fn parameter(&self, run: &Run, which: usize) -> Tensor<2> {
        let count = run.columns.len();
        let first = run.first[2] + which * count;
        self.output.clone().narrow(1, first, count)
    }

    fn of_run(&self, run: &Run, x: &Tensor<2>) -> Tensor<2> {
        let values: usize = run.columns.iter().map(|column| column.values()).sum();
        let x = x.clone().narrow(1, run.first[1], values);
        match run.columns[0] {
            ColumnLikelihood::Normal => {
                let both = self
                    .output
                    .clone()
                    .narrow(1, run.first[2], 2 * run.columns.len());
                let (mean, log_std) = halves(both, LOG_STD);
                let standard = (x - mean) * log_std.clone().neg().exp();
                standard.square().mul_scalar(-0.5) - log_std - HALF_LOG_TWO_PI
            }
            ColumnLikelihood::StudentT => {
                let log_scale = self.parameter(run, 1).clamp(LOG_STD[0], LOG_STD[1]);
                let standard = (x - self.parameter(run, 0)) * log_scale.clone().neg().exp();
                let freedom = self.freedom(run);
                let half = freedom.clone() * 0.5;
                log_gamma(half.clone() + 0.5)
                    - log_gamma(half.clone())
                    - (freedom.clone() * PI).log() * 0.5
                    - log_scale
                    - (half + 0.5) * (standard.square() / freedom).log1p()
            }
            ColumnLikelihood::Poisson(_) => {
                let count = counts(run, x);
                let log_rate = self.log_mean(run);
                count.clone() * log_rate.clone() - log_rate.exp() - log_gamma(count + 1.0)
            }
            ColumnLikelihood::NegativeBinomial(_) => {
                let count = counts(run, x);
                let (log_mean, log_size) = (self.log_mean(run), self.log_size(run));
                let size = log_size.clone().exp();
                // ln(mean + size)
                let log_both = softplus(log_mean.clone() - log_size.clone()) + log_size.clone();
                log_gamma(count.clone() + size.clone())
                    - log_gamma(size.clone())
                    - log_gamma(count.clone() + 1.0)
                    + size * (log_size - log_both.clone())
                    + count * (log_mean - log_both)
            }
            ColumnLikelihood::Bernoulli => {
                let logit = self.parameter(run, 0);
                x * logit.clone() - softplus(logit)
            }
            ColumnLikelihood::Categorical(_) => {
                let logits = self.output.clone().narrow(1, run.first[2], values);
                (activation::log_softmax(logits, 1) * x).sum_dim(1)
            }
        }
    }

    /// Degrees of freedom of a run of Student's.
    fn freedom(&self, run: &Run) -> Tensor<2> {
        let [low, high] = LOG_SHAPE;
        self.parameter(run, 2).clamp(low, high).exp() + LEAST_FREEDOM
    }

    /// The logarithm of the mean of a run of counts: the decoder's number is added to that of the column's own mean.
    fn log_mean(&self, run: &Run) -> Tensor<2> {
        let means = run.columns.iter().map(|column| match column {
            ColumnLikelihood::Poisson(scale) | ColumnLikelihood::NegativeBinomial(scale) => {
                scale.undo(0.0).max(1e-3).ln() as f32
            }
            _ => 0.0,
        });
        let [low, high] = LOG_RATE;
        self.parameter(run, 0).clamp(low, high) + row(means, &self.output)
    }

    /// The logarithm of the size of a run of negative binomials.
    fn log_size(&self, run: &Run) -> Tensor<2> {
        let [low, high] = LOG_SHAPE;
        self.parameter(run, 1).clamp(low, high)
    }

    /// Expected observation, `[rows, observation]`: all columns observed, extras of 0. Of a count it is the number that
    /// stands for its mean, of a category the probabilities.
    pub fn mean(&self) -> Tensor<2> {
        let parts = self
            .columns
            .runs()
            .into_iter()
            .map(|run| match run.columns[0] {
                ColumnLikelihood::Normal | ColumnLikelihood::StudentT => self.parameter(&run, 0),
                ColumnLikelihood::Poisson(_) | ColumnLikelihood::NegativeBinomial(_) => {
                    let numbers = self.log_mean(&run).exp().log1p();
                    scaled(&run, numbers)
                }
                ColumnLikelihood::Bernoulli => activation::sigmoid(self.parameter(&run, 0)),
                ColumnLikelihood::Categorical(names) => {
                    let logits = self.output.clone().narrow(1, run.first[2], names);
                    activation::softmax(logits, 1)
                }
            });
        self.complete(parts.collect())
    }

    /// A drawn observation from standard normal `noise`, `[rows, observation]`, as [`mean`](Self::mean) has it. Counts and
    /// Student's numbers are computed on the host.
    pub fn sample(&self, noise: Tensor<2>) -> Tensor<2> {
        let parts = self.columns.runs().into_iter().map(|run| {
            let values: usize = run.columns.iter().map(|column| column.values()).sum();
            let noise = noise.clone().narrow(1, run.first[1], values);
            match run.columns[0] {
                ColumnLikelihood::Normal => {
                    let [low, high] = LOG_STD;
                    let std = self.parameter(&run, 1).clamp(low, high).exp();
                    self.parameter(&run, 0) + noise * std
                }
                ColumnLikelihood::StudentT => {
                    let [low, high] = LOG_STD;
                    let scale = self.parameter(&run, 1).clamp(low, high).exp();
                    let freedom = self.freedom(&run);
                    let drawn = on_host([noise, freedom], |[z, freedom]| {
                        student_quantile(f64::from(z), f64::from(freedom)) as f32
                    });
                    self.parameter(&run, 0) + drawn * scale
                }
                ColumnLikelihood::Poisson(_) => {
                    let mean = self.log_mean(&run).exp();
                    let drawn = on_host([noise.clone(), uniform(noise), mean], |[z, u, mean]| {
                        poisson_quantile([z, u, mean].map(f64::from)) as f32
                    });
                    scaled(&run, drawn.log1p())
                }
                ColumnLikelihood::NegativeBinomial(_) => {
                    let (mean, size) = (self.log_mean(&run).exp(), self.log_size(&run).exp());
                    let given = [noise.clone(), uniform(noise), mean, size];
                    let drawn = on_host(given, |[z, u, mean, size]| {
                        negative_binomial_quantile([z, u, mean, size].map(f64::from)) as f32
                    });
                    scaled(&run, drawn.log1p())
                }
                ColumnLikelihood::Bernoulli => {
                    let share = activation::sigmoid(self.parameter(&run, 0));
                    uniform(noise).lower(share).float()
                }
                ColumnLikelihood::Categorical(names) => {
                    let logits = self.output.clone().narrow(1, run.first[2], names);
                    // The largest of logits with Gumbel noise is a draw.
                    let uniform = uniform(noise).clamp(1e-7, 1.0 - 1e-7);
                    let gumbel = uniform.log().neg().log().neg();
                    (logits + gumbel)
                        .argmax(1)
                        .squeeze_dim::<1>(1)
                        .one_hot(names)
                        .float()
                }
            }
        });
        self.complete(parts.collect())
    }

    /// An observation of these values.
    fn complete(&self, mut parts: Vec<Tensor<2>>) -> Tensor<2> {
        let rows = self.output.dims()[0];
        let device = self.output.device();
        parts.push(Tensor::ones([rows, self.columns.columns.len()], &device));
        if self.columns.extras > 0 {
            parts.push(Tensor::zeros([rows, self.columns.extras], &device));
        }
        Tensor::cat(parts, 1)
    }
}

/// A row of constants like a tensor's.
fn row(values: impl Iterator<Item = f32>, like: &Tensor<2>) -> Tensor<2> {
    let values: Vec<f32> = values.collect();
    let shape = [1, values.len()];
    Tensor::from_data(TensorData::new(values, shape), &like.device())
}

/// The scales of a run of counts as rows: means and deviations.
fn scales(run: &Run, like: &Tensor<2>) -> [Tensor<2>; 2] {
    let of = |part: fn(CountScale) -> f64| {
        let numbers = run.columns.iter().map(move |column| match column {
            ColumnLikelihood::Poisson(scale) | ColumnLikelihood::NegativeBinomial(scale) => {
                part(*scale) as f32
            }
            _ => 1.0,
        });
        row(numbers, like)
    };
    [of(|scale| scale.mean), of(|scale| scale.deviation)]
}

/// The counts that stand in observations `[rows, columns]`.
fn counts(run: &Run, x: Tensor<2>) -> Tensor<2> {
    let [mean, deviation] = scales(run, &x);
    ((x * deviation + mean).exp() - 1.0).round().clamp_min(0.0)
}

/// The numbers that stand for counts whose `ln(1 + n)` is given.
fn scaled(run: &Run, logarithms: Tensor<2>) -> Tensor<2> {
    let [mean, deviation] = scales(run, &logarithms);
    (logarithms - mean) / deviation
}

/// `ln(1 + exp(x))`
fn softplus(x: Tensor<2>) -> Tensor<2> {
    activation::softplus(x, 1.0)
}

/// `ln Gamma(x)` for positive numbers: Stirling's series at `x + 6`.
fn log_gamma(x: Tensor<2>) -> Tensor<2> {
    let shifted = (1..6).fold(x.clone(), |product, k| product * (x.clone() + f64::from(k)));
    let y = x + 6.0;
    let inverse = y.clone().recip();
    let square = inverse.clone().square();
    let series = inverse * ((square.clone() / 1260.0 - 1.0 / 360.0) * square + 1.0 / 12.0);
    (y.clone() - 0.5) * y.clone().log() - y + HALF_LOG_TWO_PI + series - shifted.log()
}

/// A function of the numbers at one place of several tensors of one shape.
fn on_host<const N: usize>(
    tensors: [Tensor<2>; N],
    function: impl Fn([f32; N]) -> f32,
) -> Tensor<2> {
    let (shape, device) = (tensors[0].dims(), tensors[0].device());
    let all = tensors.map(|tensor| {
        let data = tensor.into_data().convert::<f32>();
        data.try_into_vec::<f32>().expect("these are 32-bit floats")
    });
    let values: Vec<f32> = (0..shape[0] * shape[1])
        .map(|place| function(std::array::from_fn(|which| all[which][place])))
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &device)
}

/// The number of Student's distribution that has as much probability below it as a standard normal number `z` (Hill 1970,
/// algorithm 396 of the ACM).
fn student_quantile(z: f64, freedom: f64) -> f64 {
    let n = freedom;
    let two_tails = erfc(z.abs() / std::f64::consts::SQRT_2);
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let mut c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * PI / 2.0).sqrt() * n;
    let mut y = (d * two_tails).powf(2.0 / n);
    if y > 0.05 + a {
        // The algorithm has the lower tail.
        let x = -z.abs();
        y = x * x;
        if n < 5.0 {
            c += 0.3 * (n - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = (a * y * y).exp_m1();
    } else {
        y = ((1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0)
            + 0.5 / (n + 4.0))
            * y
            - 1.0)
            * (n + 1.0)
            / (n + 2.0)
            + 1.0 / y;
    }
    (n * y).sqrt().copysign(z)
}

/// `1 - erf(x)` for `x >= 0`, with a relative error below 1.2e-7 (Numerical Recipes, section 6.2).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x);
    let coefficients = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let sum = coefficients.iter().rev().fold(0.0, |sum, c| sum * t + c);
    t * (sum - x * x).exp()
}

/// By three moments (Cornish and Fisher): for counts of a large mean, where the distribution is nearly normal.
fn by_moments(z: f64, mean: f64, variance: f64, skew: f64) -> f64 {
    let number = mean + variance.sqrt() * (z + (z * z - 1.0) * skew / 6.0);
    number.round().clamp(0.0, MOST)
}

/// The smallest count whose probabilities up to it reach `u`, from the probability of 0 and the ratios of neighbours.
fn smallest(u: f64, zero: f64, ratio: impl Fn(f64) -> f64) -> f64 {
    let (mut count, mut here, mut below) = (0.0, zero, zero);
    while below < u && count < MOST && here > 0.0 {
        here *= ratio(count);
        count += 1.0;
        below += here;
        if here < 1e-12 * below && below > 0.5 {
            break;
        }
    }
    count
}

/// A Poisson count from a normal number and its probability.
fn poisson_quantile([z, u, mean]: [f64; 3]) -> f64 {
    if mean > LARGE_COUNT {
        return by_moments(z, mean, mean, 1.0 / mean.sqrt());
    }
    smallest(u, (-mean).exp(), |count| mean / (count + 1.0))
}

/// A negative binomial count from a normal number and its probability.
fn negative_binomial_quantile([z, u, mean, size]: [f64; 4]) -> f64 {
    let share = mean / (mean + size);
    let log_zero = size * (1.0 - share).ln();
    if log_zero < -700.0 {
        let variance = mean + mean * mean / size;
        let skew = (1.0 + share) / (share * size).sqrt();
        return by_moments(z, mean, variance, skew);
    }
    smallest(u, log_zero.exp(), |count| {
        share * (count + size) / (count + 1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    const SCALE: CountScale = CountScale {
        mean: 1.2,
        deviation: 0.7,
    };

    /// A row for each of `outputs`, of one column.
    fn one(column: ColumnLikelihood, outputs: &[&[f32]]) -> ColumnsLikelihood {
        let width = outputs[0].len();
        let values: Vec<f32> = outputs.concat();
        let data = TensorData::new(values, [outputs.len(), width]);
        ColumnsLikelihood {
            columns: Columns {
                columns: [column].into(),
                extras: 0,
            },
            output: Tensor::from_data(data, &Device::default()),
        }
    }

    fn read(tensor: Tensor<2>) -> Vec<f64> {
        let data = tensor.into_data().convert::<f32>();
        let values: Vec<f32> = data.try_into_vec().unwrap();
        values.into_iter().map(f64::from).collect()
    }

    /// `log p` of values of the only column.
    fn log_p(column: ColumnLikelihood, output: &[f32], values: &[f32]) -> Vec<f64> {
        let likelihood = one(column, &vec![output; values.len()]);
        let rows: Vec<f32> = values.iter().flat_map(|value| [*value, 1.0]).collect();
        let x = Tensor::from_data(TensorData::new(rows, [values.len(), 2]), &Device::default());
        read(likelihood.log_probabilities(x))
    }

    fn counts_of(scale: CountScale, counts: impl Iterator<Item = usize>) -> Vec<f32> {
        counts.map(|n| scale.apply(n as f64) as f32).collect()
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found - expected).abs() <= tolerance * expected.abs().max(1.0),
            "{found} {expected}"
        );
    }

    #[test]
    fn log_gamma_is_that_of_factorials_and_halves() {
        let numbers = [0.5_f32, 1.0, 1.5, 2.0, 5.0, 11.0, 101.0];
        let x = Tensor::from_data(
            TensorData::new(numbers.to_vec(), [1, 7]),
            &Device::default(),
        );
        let factorial = |n: u32| (1..=n).map(|k| f64::from(k).ln()).sum::<f64>();
        let expected = [
            PI.sqrt().ln(),
            0.0,
            (PI.sqrt() / 2.0).ln(),
            0.0,
            factorial(4),
            factorial(10),
            factorial(100),
        ];
        for (found, expected) in read(log_gamma(x)).into_iter().zip(expected) {
            close(found, expected, 3e-6);
        }
    }

    #[test]
    fn probabilities_of_counts_and_names_sum_to_one_and_have_the_stated_moments() {
        let sums = |column, output: &[f32], most: usize| {
            let logs = log_p(column, output, &counts_of(SCALE, 0..most));
            let p: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
            let mean: f64 = p.iter().zip(0..).map(|(p, n)| p * f64::from(n)).sum();
            let square: f64 = p.iter().zip(0..).map(|(p, n)| p * f64::from(n * n)).sum();
            [p.iter().sum::<f64>(), mean, square - mean * mean]
        };
        // The decoder's number is added to the logarithm of the count in the middle.
        let middle = SCALE.undo(0.0);
        let [sum, mean, variance] = sums(ColumnLikelihood::Poisson(SCALE), &[0.4], 80);
        let rate = middle * 0.4_f64.exp();
        close(sum, 1.0, 1e-4);
        close(mean, rate, 1e-3);
        close(variance, rate, 1e-3);
        let column = ColumnLikelihood::NegativeBinomial(SCALE);
        let [sum, mean, variance] = sums(column, &[0.4, 1.1], 300);
        close(sum, 1.0, 1e-4);
        close(mean, rate, 1e-3);
        close(variance, rate + rate * rate / 1.1_f64.exp(), 2e-3);
        let logs = log_p(ColumnLikelihood::Bernoulli, &[0.3], &[0.0, 1.0]);
        close(logs.iter().map(|log| log.exp()).sum(), 1.0, 1e-6);
        close(logs[1].exp(), 1.0 / (1.0 + (-0.3_f64).exp()), 1e-6);
    }

    #[test]
    fn densities_are_those_of_the_formulas() {
        let [log_std, mean] = [-0.3_f64, 0.8];
        for x in [-2.0_f64, 0.8, 3.0] {
            let found = log_p(ColumnLikelihood::Normal, &[0.8, -0.3], &[x as f32])[0];
            let z = (x - mean) / log_std.exp();
            close(found, -0.5 * z * z - log_std - HALF_LOG_TWO_PI, 1e-5);
        }
        // Student's with 3.01 degrees of freedom integrates to one.
        let points: Vec<f32> = (-40_000..=40_000).map(|i| i as f32 * 0.01).collect();
        let p = log_p(ColumnLikelihood::StudentT, &[0.8, -0.3, 0.0], &points);
        close(p.iter().map(|log| log.exp() * 0.01).sum(), 1.0, 1e-4);
    }

    #[test]
    fn what_was_not_observed_and_extras_count_nothing() {
        let device = Device::default();
        let columns = Columns {
            columns: [
                ColumnLikelihood::Normal,
                ColumnLikelihood::Normal,
                ColumnLikelihood::Categorical(3),
                ColumnLikelihood::Bernoulli,
            ]
            .into(),
            extras: 2,
        };
        assert_eq!(
            [columns.values(), columns.observation(), columns.outputs()],
            [6, 12, 8]
        );
        let output =
            Tensor::<2>::from_floats([[0.1, -0.2, 0.3, 0.0, 1.0, 0.0, -1.0, 0.7]], &device);
        let likelihood = ColumnsLikelihood { columns, output };
        let x = |observed: [f32; 4], extras: [f32; 2]| {
            let values = [0.5, -0.5, 0.0, 1.0, 0.0, 1.0];
            let row = [&values[..], &observed, &extras].concat();
            Tensor::from_data(TensorData::new(row, [1, 12]), &device)
        };
        let all = read(likelihood.log_probabilities(x([1.0; 4], [0.0; 2])));
        let some = read(likelihood.log_probabilities(x([1.0, 0.0, 1.0, 0.0], [9.0, -9.0])));
        assert_eq!(some, [all[0], 0.0, all[2], 0.0]);
        let names = [1.0_f64, 0.0, -1.0].map(f64::exp);
        close(all[2], (names[1] / names.iter().sum::<f64>()).ln(), 1e-6);
        let mean = read(likelihood.mean());
        close(mean[2], names[0] / names.iter().sum::<f64>(), 1e-6);
        assert_eq!(mean[6..], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    }

    /// Quantiles against the probabilities of the same distribution.
    #[test]
    fn draws_follow_their_distributions() {
        const DRAWS: usize = 20_000;
        let noise = |width: usize| {
            // Evenly spread normal numbers in the first column.
            let mut rows = Vec::with_capacity(DRAWS * width);
            for place in 0..DRAWS {
                let u = (place as f64 + 0.5) / DRAWS as f64;
                // A normal quantile by Student's with many degrees of freedom, inverted by bisection.
                let (mut low, mut high) = (-8.0, 8.0);
                for _ in 0..60 {
                    let middle = 0.5 * (low + high);
                    let below = match middle < 0.0 {
                        true => 0.5 * erfc(-middle / 2.0_f64.sqrt()),
                        false => 1.0 - 0.5 * erfc(middle / 2.0_f64.sqrt()),
                    };
                    if below < u {
                        low = middle
                    } else {
                        high = middle
                    }
                }
                rows.push(low as f32);
                rows.extend(vec![0.0; width - 1]);
            }
            Tensor::from_data(TensorData::new(rows, [DRAWS, width]), &Device::default())
        };
        let drawn = |column: ColumnLikelihood, output: &[f32]| {
            let likelihood = one(column, &vec![output; DRAWS]);
            let all = read(likelihood.sample(noise(2)));
            all.chunks(2).map(|row| row[0]).collect::<Vec<f64>>()
        };
        for (column, output) in [
            (ColumnLikelihood::Poisson(SCALE), vec![0.4_f32]),
            (ColumnLikelihood::NegativeBinomial(SCALE), vec![0.4, 0.2]),
        ] {
            let p = log_p(column, &output, &counts_of(SCALE, 0..60));
            let counts: Vec<f64> = drawn(column, &output)
                .into_iter()
                .map(|number| SCALE.undo(number).round())
                .collect();
            for (n, log) in p.iter().enumerate().take(12) {
                let share = counts.iter().filter(|count| **count == n as f64).count();
                close(share as f64 / DRAWS as f64, log.exp(), 3e-4);
            }
        }
        // Student's: the share below a number against the integral of the density.
        let output = [0.0_f32, 0.0, 0.5];
        let numbers = drawn(ColumnLikelihood::StudentT, &output);
        let points: Vec<f32> = (-60_000..0).map(|i| i as f32 * 0.005 + 0.0025).collect();
        let p = log_p(ColumnLikelihood::StudentT, &output, &points);
        for limit in [-4.0_f64, -2.0, -1.0, -0.3] {
            let below = points
                .iter()
                .zip(&p)
                .filter(|(point, _)| f64::from(**point) < limit)
                .map(|(_, log)| log.exp() * 0.005)
                .sum::<f64>();
            let share = numbers.iter().filter(|number| **number < limit).count();
            close(share as f64 / DRAWS as f64, below, 1e-3);
        }
        // A large count by its moments.
        let large = CountScale {
            mean: 9.0,
            deviation: 1.0,
        };
        let counts: Vec<f64> = drawn(ColumnLikelihood::Poisson(large), &[0.0])
            .into_iter()
            .map(|number| large.undo(number))
            .collect();
        let mean = counts.iter().sum::<f64>() / DRAWS as f64;
        close(mean / large.undo(0.0), 1.0, 1e-3);
    }
}
