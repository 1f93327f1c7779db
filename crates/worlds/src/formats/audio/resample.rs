//! Resampling by windowed-sinc interpolation.
//!
//! Output sample `m` lies at `t = m * from / to` input samples and is
//! `y[m] = sum_n x[n] * h(t - n)`, `h(u) = cutoff * sinc(cutoff * u) * kaiser(u / half_width)`, with
//! weights that sum to one for each of the `to / gcd` positions of `t` between two inputs.
//! The cutoff is below half of the lower rate.
//!
//! Source: J. O. Smith, "Digital Audio Resampling".

use std::f64::consts::PI;

/// Zero crossings of the sinc on each side.
const CROSSINGS: f64 = 64.0;
/// Cutoff, relative to half of the lower rate: the filter falls from 0.9 to 1 of it.
const ROLL_OFF: f64 = 0.95;
/// Shape of the Kaiser window, for side lobes at -100 dB.
const BETA: f64 = 10.0;

/// From one rate to another.
pub(crate) struct Resampler {
    /// Rates without their common divisor.
    from: usize,
    to: usize,
    /// `[to]`, each `[2 * reach]`: weights of the inputs around a position, computed when first needed. Rates with
    /// a small common divisor have many positions, but a short recording needs only a few of them.
    weights: Vec<Option<Box<[f32]>>>,
    cutoff: f64,
    half_width: f64,
    /// Number of inputs on each side.
    reach: usize,
}

impl Resampler {
    /// Both rates in samples per second, not 0.
    pub fn new(from: u32, to: u32) -> Resampler {
        let divisor = greatest_common_divisor(from, to);
        let (from, to) = ((from / divisor) as usize, (to / divisor) as usize);
        let ratio = (to as f64 / from as f64).min(1.0);
        let cutoff = ROLL_OFF * ratio;
        let half_width = CROSSINGS / ratio;
        let reach = half_width.ceil() as usize;
        Resampler {
            from,
            to,
            weights: vec![None; to],
            cutoff,
            half_width,
            reach,
        }
    }

    /// Weights of the inputs around output positions `position / to`.
    fn weights_at(&self, position: usize) -> Box<[f32]> {
        let fraction = position as f64 / self.to as f64;
        let row: Vec<f64> = (0..2 * self.reach)
            .map(|tap| {
                let distance = fraction + self.reach as f64 - 1.0 - tap as f64;
                sinc(self.cutoff * distance) * kaiser(distance / self.half_width)
            })
            .collect();
        let sum: f64 = row.iter().sum();
        row.into_iter()
            .map(|weight| (weight / sum) as f32)
            .collect()
    }

    /// Number of samples that [`Resampler::run`] returns for `samples` input samples.
    pub fn length(&self, samples: usize) -> usize {
        (samples * self.to).div_ceil(self.from)
    }

    /// `samples` at the new rate; silence is assumed before and after them.
    pub fn run(&mut self, samples: &[f32]) -> Vec<f32> {
        let length = self.length(samples.len());
        let taps = 2 * self.reach;
        let mut padded = vec![0.0; self.reach - 1];
        padded.extend(samples);
        padded.resize(padded.len() + self.reach + 1, 0.0);
        (0..length)
            .map(|place| {
                let (whole, position) = (place * self.from / self.to, place * self.from % self.to);
                if self.weights[position].is_none() {
                    self.weights[position] = Some(self.weights_at(position));
                }
                let weights = self.weights[position].as_deref().unwrap_or_default();
                let inputs = &padded[whole..][..taps];
                weights
                    .iter()
                    .zip(inputs)
                    .map(|(weight, input)| weight * input)
                    .sum()
            })
            .collect()
    }
}

fn greatest_common_divisor(left: u32, right: u32) -> u32 {
    if right == 0 {
        left
    } else {
        greatest_common_divisor(right, left % right)
    }
}

fn sinc(value: f64) -> f64 {
    if value == 0.0 {
        1.0
    } else {
        (PI * value).sin() / (PI * value)
    }
}

/// The Kaiser window over [-1, 1], not normalised.
fn kaiser(place: f64) -> f64 {
    let inside = 1.0 - place * place;
    if inside < 0.0 {
        0.0
    } else {
        bessel(BETA * inside.sqrt())
    }
}

/// The modified Bessel function of the first kind and order 0, by its power series.
fn bessel(value: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for order in 1..60 {
        term *= (value / (2.0 * f64::from(order))).powi(2);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(frequency: f64, rate: u32, count: usize) -> Vec<f32> {
        (0..count)
            .map(|place| (2.0 * PI * frequency * place as f64 / f64::from(rate)).sin() as f32)
            .collect()
    }

    /// Largest difference away from the ends, which are affected by the silence around.
    fn difference(left: &[f32], right: &[f32]) -> f32 {
        assert_eq!(left.len(), right.len());
        let margin = 200;
        let pairs = left.iter().zip(right);
        let pairs = pairs.skip(margin).take(left.len() - 2 * margin);
        pairs
            .map(|(left, right)| (left - right).abs())
            .fold(0.0, f32::max)
    }

    #[test]
    fn tones_below_the_cutoff_stay_as_they_are() {
        for rate in [8_000, 11_025, 22_050, 44_100, 48_000] {
            let mut resampler = Resampler::new(rate, 16_000);
            let highest = 0.9 * f64::from(rate.min(16_000)) / 2.0;
            for frequency in [100.0, 1_000.0, highest] {
                let found = resampler.run(&tone(frequency, rate, rate as usize));
                let error = difference(&found, &tone(frequency, 16_000, 16_000));
                assert!(error < 2e-4, "{rate} Hz, a tone of {frequency} Hz: {error}");
            }
        }
    }

    #[test]
    fn tones_that_the_new_rate_cannot_carry_vanish() {
        let mut resampler = Resampler::new(44_100, 16_000);
        for frequency in [8_000.0, 10_000.0, 20_000.0] {
            let found = resampler.run(&tone(frequency, 44_100, 44_100));
            let error = difference(&found, &vec![0.0; found.len()]);
            assert!(error < 2e-4, "a tone of {frequency} Hz: {error}");
        }
    }

    #[test]
    fn lengths_follow_the_rates() {
        assert_eq!(Resampler::new(8_000, 16_000).run(&[0.5]).len(), 2);
        assert_eq!(Resampler::new(16_000, 8_000).run(&[0.5; 3]).len(), 2);
        assert!(Resampler::new(8_000, 16_000).run(&[]).is_empty());
        let constant = Resampler::new(44_100, 16_000).run(&[0.5; 44_100]);
        assert!(
            constant[500..15_000]
                .iter()
                .all(|value| (value - 0.5).abs() < 1e-5)
        );
    }
}
