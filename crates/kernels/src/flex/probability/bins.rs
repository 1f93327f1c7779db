//! Log probability of binned numbers under Gaussians.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{
        Loop,
        chunks::{each, for_rows},
        lanes::total,
        math, run,
    },
    slice,
};
use crate::{
    bins::{FIT, NARROW},
    gaussian::HALF_LOG_TWO_PI,
};

const LANES: usize = 16;

/// Bound on the next term of the expansion for narrow bins. It is reached only far out in the tails.
const BEND: f32 = 0.5;

/// `log(1 + b)` for `|b| <= 0.5`.
#[inline(always)]
fn log_1p(b: f32) -> f32 {
    // 2 artanh(b / (2 + b)), with an argument of at most 1/3.
    let s = b / (2.0 + b);
    let q = s * s;
    let mut p = 1.0 / 15.0;
    p = p * q + 1.0 / 13.0;
    p = p * q + 1.0 / 11.0;
    p = p * q + 1.0 / 9.0;
    p = p * q + 1.0 / 7.0;
    p = p * q + 1.0 / 5.0;
    p = p * q + 1.0 / 3.0;
    p = p * q + 1.0;
    2.0 * s * p
}

/// For a narrow bin: density times width, and the width in standard deviations.
#[inline(always)]
fn narrow(x: f32, mean: f32, log_std: f32, bin: f32, constant: f32) -> (f32, f32) {
    let inverse = math::exp(-log_std);
    let z = (x - mean) * inverse;
    let width = inverse * bin;
    let bend = (z * z - 1.0) * (width * width) * (1.0 / 24.0);
    let value = -0.5 * (z * z) - log_std + log_1p(bend.clamp(-BEND, BEND)) + constant;
    (value, width)
}

/// The gradients of [`narrow`] with respect to mean and log standard deviation, and the width.
#[inline(always)]
fn narrow_slopes(x: f32, mean: f32, log_std: f32, bin: f32) -> ([f32; 2], f32) {
    let inverse = math::exp(-log_std);
    let z = (x - mean) * inverse;
    let width = inverse * bin;
    let square = width * width;
    let bend = (z * z - 1.0) * square * (1.0 / 24.0);
    let share = if bend.abs() < BEND {
        square * (1.0 / 12.0) / (1.0 + bend)
    } else {
        0.0
    };
    let to_mean = z * inverse * (1.0 - share);
    let to_log_std = z * z - 1.0 - share * (2.0 * (z * z) - 1.0);
    ([to_mean, to_log_std], width)
}

/// `log P(X > u)` of a standard normal variable for `u >= 0`; see [`crate::bins`].
fn log_upper_tail(u: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * std::f64::consts::FRAC_1_SQRT_2 * u);
    let fit = FIT[1..].iter().fold(FIT[0], |sum, c| sum * t + c);
    t.ln() - 0.5 * u * u + fit - std::f64::consts::LN_2
}

/// For a wide bin: the value, and the gradients with respect to mean and log standard deviation, from the
/// difference of the tails. Wide bins are few; each is computed separately, in `f64`.
#[inline(never)]
fn wide(x: f32, mean: f32, log_std: f32, bin: f32) -> (f32, [f32; 2]) {
    let inverse = (-f64::from(log_std)).exp();
    let signed = (f64::from(x) - f64::from(mean)) * inverse;
    let z = signed.abs();
    let width = f64::from(bin) * inverse;
    let (low, high) = (z - 0.5 * width, z + 0.5 * width);
    let high_tail = log_upper_tail(high);
    let value = match low < 0.0 {
        true => (-(high_tail.exp() + log_upper_tail(-low).exp())).ln_1p(),
        false => {
            let low_tail = log_upper_tail(low);
            low_tail + (-(high_tail - low_tail).exp()).ln_1p()
        }
    };
    // Densities at the edges divided by the probability.
    let share = |edge: f64| (-0.5 * edge * edge - HALF_LOG_TWO_PI - value).exp();
    let (low, high) = (share(low), share(high));
    let to_z = high - low;
    let to_width = 0.5 * (low + high);
    let to_mean = -to_z * signed.signum() * inverse;
    let to_log_std = -to_z * z - to_width * width;
    (value as f32, [to_mean as f32, to_log_std as f32])
}

/// Numbers, means and log standard deviations.
type Three<'a> = [&'a [f32]; 3];

struct Forward<'a> {
    three: Three<'a>,
    size: usize,
    bin: f32,
    constant: f32,
    output: &'a mut [f32],
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (bin, constant) = (self.bin, self.constant);
        for (row, output) in self.output.iter_mut().enumerate() {
            let [x, mean, log_std] = self.three.map(|all| &all[row * self.size..][..self.size]);
            let (x, x_rest) = x.as_chunks::<LANES>();
            let (mean, mean_rest) = mean.as_chunks::<LANES>();
            let (log_std, log_std_rest) = log_std.as_chunks::<LANES>();
            let mut sums = [0.0_f32; LANES];
            for ((x, mean), log_std) in x.iter().zip(mean).zip(log_std) {
                let mut values = [0.0; LANES];
                let mut widths = [0.0; LANES];
                for lane in 0..LANES {
                    let found = narrow(x[lane], mean[lane], log_std[lane], bin, constant);
                    (values[lane], widths[lane]) = found;
                }
                if !all_narrow(&widths) {
                    for lane in 0..LANES {
                        if is_wide(widths[lane]) {
                            values[lane] = wide(x[lane], mean[lane], log_std[lane], bin).0;
                        }
                    }
                }
                for lane in 0..LANES {
                    sums[lane] += values[lane];
                }
            }
            let rest = x_rest.iter().zip(mean_rest).zip(log_std_rest).enumerate();
            for (lane, ((x, mean), log_std)) in rest {
                let (value, width) = narrow(*x, *mean, *log_std, bin, constant);
                sums[lane] += match is_wide(width) {
                    true => wide(*x, *mean, *log_std, bin).0,
                    false => value,
                };
            }
            *output = total(sums);
        }
    }
}

/// Also true for NaN.
#[inline(always)]
fn is_wide(width: f32) -> bool {
    width >= NARROW as f32 || width.is_nan()
}

#[inline(always)]
fn all_narrow(widths: &[f32; LANES]) -> bool {
    let mut wide = 0_u32;
    for width in widths {
        wide |= u32::from(is_wide(*width));
    }
    wide == 0
}

struct Gradient<'a> {
    three: Three<'a>,
    size: usize,
    bin: f32,
    gradient: &'a [f32],
    /// Gradients of means and log standard deviations.
    outputs: [&'a mut [f32]; 2],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (size, bin) = (self.size, self.bin);
        let [mean_out, log_std_out] = self.outputs;
        for (row, gradient) in self.gradient.iter().enumerate() {
            let range = row * size..(row + 1) * size;
            let [x, mean, log_std] = self.three.map(|all| &all[range.clone()]);
            let mean_out = &mut mean_out[range.clone()];
            let log_std_out = &mut log_std_out[range];
            let mut any = 0_u32;
            for i in 0..size {
                let (slopes, width) = narrow_slopes(x[i], mean[i], log_std[i], bin);
                mean_out[i] = gradient * slopes[0];
                log_std_out[i] = gradient * slopes[1];
                any |= u32::from(is_wide(width));
            }
            if any == 0 {
                continue;
            }
            for i in 0..size {
                if is_wide(math::exp(-log_std[i]) * bin) {
                    let slopes = wide(x[i], mean[i], log_std[i], bin).1;
                    mean_out[i] = gradient * slopes[0];
                    log_std_out[i] = gradient * slopes[1];
                }
            }
        }
    }
}

/// `[rows]` from three inputs `[rows, size]`.
fn log_probability(three: &[Raw; 3], bin: f32) -> Raw {
    let [rows, size] = three[0].layout().shape().dims();
    let shapes = three
        .each_ref()
        .map(|tensor| tensor.layout().shape().dims::<2>());
    assert_eq!(
        shapes,
        [[rows, size]; 3],
        "shapes of numbers, means and log standard deviations"
    );
    let constant = (f64::from(bin).ln() - HALF_LOG_TWO_PI) as f32;
    let mut output = vec![0.0; rows];
    for_rows(&mut output, 1, 4 * size, |first, output| {
        let range = first * size..(first + output.len()) * size;
        run(Forward {
            three: three.each_ref().map(|tensor| &slice(tensor)[range.clone()]),
            size,
            bin,
            constant,
            output,
        });
    });
    raw(output, [rows])
}

fn gradients(three: &[Raw; 3], bin: f32, outer: &Raw) -> [Raw; 2] {
    /// Rows that are processed together.
    const ROWS: usize = 64;
    let outer = contiguous(outer);
    let [rows, size] = three[0].layout().shape().dims();
    let mut outputs = [(); 2].map(|()| vec![0.0; rows * size]);
    let [means, log_stds] = outputs.each_mut();
    let means = means.chunks_mut((ROWS * size).max(1));
    let blocks: Vec<[&mut [f32]; 2]> = means
        .zip(log_stds.chunks_mut((ROWS * size).max(1)))
        .map(|(mean, log_std)| [mean, log_std])
        .collect();
    each(blocks, 4 * rows * size, |index, outputs| {
        let first = index * ROWS;
        let last = rows.min(first + ROWS);
        run(Gradient {
            three: three
                .each_ref()
                .map(|tensor| &slice(tensor)[first * size..last * size]),
            size,
            bin,
            gradient: &slice(&outer)[first..last],
            outputs,
        });
    });
    outputs.map(|output| raw(output, [rows, size]))
}

/// See [`crate::bins::log_probability`].
pub(crate) struct Bins {
    /// The width of a bin.
    pub(crate) bin: f32,
}

impl Fused<3> for Bins {
    type Outputs = Raw;
    /// Numbers, means and log standard deviations; the width of a bin.
    type Saved = ([Raw; 3], f32);

    const DATA: &'static [usize] = &[0];

    fn forward(self, inputs: [Raw; 3]) -> (Raw, Self::Saved) {
        let three = inputs.each_ref().map(contiguous);
        (log_probability(&three, self.bin), (three, self.bin))
    }

    fn backward((three, bin): Self::Saved, outer: Raw, _: [bool; 3]) -> [Option<Raw>; 3] {
        let [to_mean, to_log_std] = gradients(&three, bin, &outer);
        [None, Some(to_mean), Some(to_log_std)]
    }
}
