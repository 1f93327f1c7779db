//! Density, divergence and samples of diagonal Gaussians.

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
use crate::gaussian::HALF_LOG_TWO_PI;

const LANES: usize = 16;

/// Mean and log standard deviation of q, then of p.
type Four<'a> = [&'a [f32]; 4];

/// One element's contribution to twice the divergence, without the constant.
#[inline(always)]
fn term([mean_q, log_std_q, mean_p, log_std_p]: [f32; 4]) -> f32 {
    let log_ratio = log_std_q - log_std_p;
    let distance = (mean_q - mean_p) * math::exp(-log_std_p);
    math::exp(2.0 * log_ratio) + distance * distance - 2.0 * log_ratio
}

struct Divergence<'a> {
    /// Rows of all four.
    four: Four<'a>,
    size: usize,
    output: &'a mut [f32],
}

impl Loop for Divergence<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (row, output) in self.output.iter_mut().enumerate() {
            let four = self.four.map(|all| &all[row * self.size..][..self.size]);
            let [a, b, c, d] = four.map(|row| row.as_chunks::<LANES>());
            let mut sums = [0.0_f32; LANES];
            for (((a, b), c), d) in a.0.iter().zip(b.0).zip(c.0).zip(d.0) {
                for lane in 0..LANES {
                    sums[lane] += term([a[lane], b[lane], c[lane], d[lane]]);
                }
            }
            for (lane, (((a, b), c), d)) in a.1.iter().zip(b.1).zip(c.1).zip(d.1).enumerate() {
                sums[lane] += term([*a, *b, *c, *d]);
            }
            *output = 0.5 * (total(sums) - self.size as f32);
        }
    }
}

struct DivergenceGradient<'a> {
    four: Four<'a>,
    gradient: &'a [f32],
    size: usize,
    outputs: [&'a mut [f32]; 4],
}

impl Loop for DivergenceGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.size;
        let [mean_q_out, log_std_q_out, mean_p_out, log_std_p_out] = self.outputs;
        for (row, gradient) in self.gradient.iter().enumerate() {
            let range = row * size..(row + 1) * size;
            let [mean_q, log_std_q, mean_p, log_std_p] = self.four.map(|all| &all[range.clone()]);
            let mean_q_out = &mut mean_q_out[range.clone()];
            let log_std_q_out = &mut log_std_q_out[range.clone()];
            let mean_p_out = &mut mean_p_out[range.clone()];
            let log_std_p_out = &mut log_std_p_out[range];
            for i in 0..size {
                let precision = math::exp(-log_std_p[i]);
                let distance = (mean_q[i] - mean_p[i]) * precision;
                let ratio = math::exp(2.0 * (log_std_q[i] - log_std_p[i]));
                mean_q_out[i] = gradient * distance * precision;
                mean_p_out[i] = -mean_q_out[i];
                log_std_q_out[i] = gradient * (ratio - 1.0);
                log_std_p_out[i] = gradient * (1.0 - ratio - distance * distance);
            }
        }
    }
}

/// `[rows]` from four inputs `[rows, latent]`.
fn divergence(four: &[Raw; 4]) -> Raw {
    let [rows, size] = four[0].layout().shape().dims();
    let shapes = four
        .each_ref()
        .map(|tensor| tensor.layout().shape().dims::<2>());
    assert_eq!(
        shapes,
        [[rows, size]; 4],
        "shapes of means and log standard deviations"
    );
    let mut output = vec![0.0; rows];
    for_rows(&mut output, 1, size, |first, output| {
        let range = first * size..(first + output.len()) * size;
        run(Divergence {
            four: four.each_ref().map(|tensor| &slice(tensor)[range.clone()]),
            size,
            output,
        });
    });
    raw(output, [rows])
}

fn divergence_gradients(four: &[Raw; 4], outer: &Raw) -> [Raw; 4] {
    /// Rows that are processed together.
    const ROWS: usize = 256;
    let outer = contiguous(outer);
    let [rows, size] = four[0].layout().shape().dims();
    let mut outputs = [(); 4].map(|()| vec![0.0; rows * size]);
    let mut chunks = outputs
        .each_mut()
        .map(|output| output.chunks_mut((ROWS * size).max(1)));
    let blocks: Vec<[&mut [f32]; 4]> = (0..rows.div_ceil(ROWS))
        .filter_map(|_| {
            let [a, b, c, d] = chunks.each_mut().map(Iterator::next);
            Some([a?, b?, c?, d?])
        })
        .collect();
    each(blocks, 4 * rows * size, |index, outputs| {
        let first = index * ROWS;
        let last = rows.min(first + ROWS);
        run(DivergenceGradient {
            four: four
                .each_ref()
                .map(|tensor| &slice(tensor)[first * size..last * size]),
            gradient: &slice(&outer)[first..last],
            size,
            outputs,
        });
    });
    outputs.map(|output| raw(output, [rows, size]))
}

/// See [`crate::gaussian::kl_divergence`].
pub(crate) struct KlDivergence;

impl Fused<4> for KlDivergence {
    type Outputs = Raw;
    /// The inputs.
    type Saved = [Raw; 4];

    fn forward(self, inputs: [Raw; 4]) -> (Raw, Self::Saved) {
        let four = inputs.each_ref().map(contiguous);
        (divergence(&four), four)
    }

    fn backward(four: Self::Saved, outer: Raw, _: [bool; 4]) -> [Option<Raw>; 4] {
        divergence_gradients(&four, &outer).map(Some)
    }
}

/// Numbers, means and log standard deviations.
type Three<'a> = [&'a [f32]; 3];

struct Density<'a> {
    three: Three<'a>,
    size: usize,
    output: &'a mut [f32],
}

impl Loop for Density<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let term = |x: f32, mean: f32, log_std: f32| {
            let z = (x - mean) * math::exp(-log_std);
            -0.5 * (z * z) - log_std
        };
        let constant = (self.size as f64 * HALF_LOG_TWO_PI) as f32;
        for (row, output) in self.output.iter_mut().enumerate() {
            let three = self.three.map(|all| &all[row * self.size..][..self.size]);
            let [x, mean, log_std] = three.map(|row| row.as_chunks::<LANES>());
            let mut sums = [0.0_f32; LANES];
            for ((x, mean), log_std) in x.0.iter().zip(mean.0).zip(log_std.0) {
                for lane in 0..LANES {
                    sums[lane] += term(x[lane], mean[lane], log_std[lane]);
                }
            }
            let rest = x.1.iter().zip(mean.1).zip(log_std.1);
            for (lane, ((x, mean), log_std)) in rest.enumerate() {
                sums[lane] += term(*x, *mean, *log_std);
            }
            *output = total(sums) - constant;
        }
    }
}

struct DensityGradient<'a> {
    three: Three<'a>,
    size: usize,
    gradient: &'a [f32],
    /// Gradients of means and log standard deviations.
    outputs: [&'a mut [f32]; 2],
}

impl Loop for DensityGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.size;
        let [mean_out, log_std_out] = self.outputs;
        for (row, gradient) in self.gradient.iter().enumerate() {
            let range = row * size..(row + 1) * size;
            let [x, mean, log_std] = self.three.map(|all| &all[range.clone()]);
            let mean_out = &mut mean_out[range.clone()];
            let log_std_out = &mut log_std_out[range];
            for i in 0..size {
                let inverse = math::exp(-log_std[i]);
                let z = (x[i] - mean[i]) * inverse;
                mean_out[i] = gradient * (z * inverse);
                log_std_out[i] = gradient * (z * z - 1.0);
            }
        }
    }
}

/// `[rows]` from three inputs `[rows, size]`.
fn density(three: &[Raw; 3]) -> Raw {
    let [rows, size] = three[0].layout().shape().dims();
    let shapes = three
        .each_ref()
        .map(|tensor| tensor.layout().shape().dims::<2>());
    assert_eq!(
        shapes,
        [[rows, size]; 3],
        "shapes of numbers, means and log standard deviations"
    );
    let mut output = vec![0.0; rows];
    for_rows(&mut output, 1, 2 * size, |first, output| {
        let range = first * size..(first + output.len()) * size;
        run(Density {
            three: three.each_ref().map(|tensor| &slice(tensor)[range.clone()]),
            size,
            output,
        });
    });
    raw(output, [rows])
}

fn density_gradients(three: &[Raw; 3], outer: &Raw) -> [Raw; 2] {
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
    each(blocks, 2 * rows * size, |index, outputs| {
        let first = index * ROWS;
        let last = rows.min(first + ROWS);
        run(DensityGradient {
            three: three
                .each_ref()
                .map(|tensor| &slice(tensor)[first * size..last * size]),
            size,
            gradient: &slice(&outer)[first..last],
            outputs,
        });
    });
    outputs.map(|output| raw(output, [rows, size]))
}

/// See [`crate::gaussian::log_probability`].
pub(crate) struct LogDensity;

impl Fused<3> for LogDensity {
    type Outputs = Raw;
    /// Numbers, means and log standard deviations.
    type Saved = [Raw; 3];

    const DATA: &'static [usize] = &[0];

    fn forward(self, inputs: [Raw; 3]) -> (Raw, Self::Saved) {
        let three = inputs.each_ref().map(contiguous);
        (density(&three), three)
    }

    fn backward(three: Self::Saved, outer: Raw, _: [bool; 3]) -> [Option<Raw>; 3] {
        let [to_mean, to_log_std] = density_gradients(&three, &outer);
        [None, Some(to_mean), Some(to_log_std)]
    }
}

struct Sample<'a> {
    mean: &'a [f32],
    log_std: &'a [f32],
    noise: &'a [f32],
    output: &'a mut [f32],
}

impl Loop for Sample<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let inputs = self.mean.iter().zip(self.log_std).zip(self.noise);
        for (output, ((mean, log_std), noise)) in self.output.iter_mut().zip(inputs) {
            *output = mean + math::exp(*log_std) * noise;
        }
    }
}

struct SampleGradient<'a> {
    log_std: &'a [f32],
    noise: &'a [f32],
    gradient: &'a [f32],
    output: &'a mut [f32],
}

impl Loop for SampleGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let inputs = self.log_std.iter().zip(self.noise).zip(self.gradient);
        for (output, ((log_std, noise), gradient)) in self.output.iter_mut().zip(inputs) {
            *output = gradient * (math::exp(*log_std) * noise);
        }
    }
}

/// `mean + exp(log_std) * noise`; all have the shape `[rows, latent]`.
fn sample([mean, log_std, noise]: [&Raw; 3]) -> Raw {
    let shape: [usize; 2] = mean.layout().shape().dims();
    assert_eq!(
        log_std.layout().shape().dims(),
        shape,
        "shape of the log standard deviations"
    );
    assert_eq!(noise.layout().shape().dims(), shape, "shape of the noise");
    let mut output = vec![0.0; shape.iter().product()];
    run(Sample {
        mean: slice(mean),
        log_std: slice(log_std),
        noise: slice(noise),
        output: &mut output,
    });
    raw(output, shape)
}

/// The gradient of the log standard deviations.
fn to_log_std(log_std: &Raw, noise: &Raw, outer: &Raw) -> Raw {
    let shape: [usize; 2] = outer.layout().shape().dims();
    let mut output = vec![0.0; shape.iter().product()];
    run(SampleGradient {
        log_std: slice(log_std),
        noise: slice(noise),
        gradient: slice(outer),
        output: &mut output,
    });
    raw(output, shape)
}

/// See [`crate::gaussian::sample`].
pub(crate) struct Draw;

impl Fused<3> for Draw {
    type Outputs = Raw;
    /// Log standard deviations and noise.
    type Saved = [Raw; 2];

    const DATA: &'static [usize] = &[2];

    fn forward(self, inputs: [Raw; 3]) -> (Raw, Self::Saved) {
        let [mean, log_std, noise] = inputs.each_ref().map(contiguous);
        (sample([&mean, &log_std, &noise]), [log_std, noise])
    }

    fn backward([log_std, noise]: Self::Saved, outer: Raw, wanted: [bool; 3]) -> [Option<Raw>; 3] {
        let outer = contiguous(&outer);
        let to_log_std = wanted[1].then(|| to_log_std(&log_std, &noise, &outer));
        [Some(outer), to_log_std, None]
    }
}
