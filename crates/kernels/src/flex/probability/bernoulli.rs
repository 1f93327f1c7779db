//! Bernoulli log likelihood from logits.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{Loop, chunks::for_rows, math, run},
    slice,
};

/// Partial sums of a row, in a fixed order for every instruction set.
const LANES: usize = 16;

struct Forward<'a> {
    x: &'a [f32],
    logits: &'a [f32],
    size: usize,
    output: &'a mut [f32],
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self.x.chunks_exact(self.size);
        let rows = rows.zip(self.logits.chunks_exact(self.size));
        for ((x, logits), output) in rows.zip(self.output) {
            let mut sums = [0.0_f32; LANES];
            let (x_lanes, x_rest) = x.as_chunks::<LANES>();
            let (logit_lanes, logit_rest) = logits.as_chunks::<LANES>();
            for (x, logits) in x_lanes.iter().zip(logit_lanes) {
                for lane in 0..LANES {
                    sums[lane] += x[lane] * logits[lane] - math::softplus(logits[lane]);
                }
            }
            for (lane, (x, logit)) in x_rest.iter().zip(logit_rest).enumerate() {
                sums[lane] += x * logit - math::softplus(*logit);
            }
            *output = sums.iter().sum();
        }
    }
}

struct Gradient<'a> {
    x: &'a [f32],
    logits: &'a [f32],
    size: usize,
    gradient: &'a [f32],
    output: &'a mut [f32],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self.x.chunks_exact(self.size);
        let rows = rows.zip(self.logits.chunks_exact(self.size));
        let outputs = self.output.chunks_exact_mut(self.size);
        for (((x, logits), output), gradient) in rows.zip(outputs).zip(self.gradient) {
            for ((output, x), logit) in output.iter_mut().zip(x).zip(logits) {
                *output = gradient * (x - math::sigmoid(*logit));
            }
        }
    }
}

/// `sum_i x_i l_i - softplus(l_i)`, `[rows]`.
fn log_likelihood(x: &Raw, logits: &Raw) -> Raw {
    let [rows, size] = logits.layout().shape().dims();
    assert_eq!(
        x.layout().shape().dims(),
        [rows, size],
        "shapes of x and logits"
    );
    let (x, logits) = (slice(x), slice(logits));
    let mut output = vec![0.0; rows];
    for_rows(&mut output, 1, size, |first, output| {
        let range = first * size..(first + output.len()) * size;
        run(Forward {
            x: &x[range.clone()],
            logits: &logits[range],
            size,
            output,
        });
    });
    raw(output, [rows])
}

/// `g (x - sig(l))`, the gradient with respect to the logits.
fn gradient(x: &Raw, logits: &Raw, gradient: &Raw) -> Raw {
    let gradient = contiguous(gradient);
    let [rows, size] = logits.layout().shape().dims();
    let (x, logits, gradient) = (slice(x), slice(logits), slice(&gradient));
    let mut output = vec![0.0; rows * size];
    for_rows(&mut output, size, size, |first, output| {
        let last = first + output.len() / size;
        run(Gradient {
            x: &x[first * size..last * size],
            logits: &logits[first * size..last * size],
            size,
            gradient: &gradient[first..last],
            output,
        });
    });
    raw(output, [rows, size])
}

/// See [`crate::bernoulli::log_likelihood`].
pub(crate) struct Bernoulli;

impl Fused<2> for Bernoulli {
    type Outputs = Raw;
    /// The data and the logits.
    type Saved = [Raw; 2];

    const DATA: &'static [usize] = &[0];

    fn forward(self, inputs: [Raw; 2]) -> (Raw, Self::Saved) {
        let [x, logits] = inputs.each_ref().map(contiguous);
        (log_likelihood(&x, &logits), [x, logits])
    }

    fn backward([x, logits]: Self::Saved, outer: Raw, _: [bool; 2]) -> [Option<Raw>; 2] {
        [None, Some(gradient(&x, &logits, &outer))]
    }
}
