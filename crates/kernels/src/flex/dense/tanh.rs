//! Hyperbolic tangents.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{Loop, chunks::for_rows, math, run},
    slice,
};

/// Cost of a tangent relative to one addition.
const COST: usize = 4;

struct Tangents<'a>(&'a [f32], &'a mut [f32]);

impl Loop for Tangents<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (output, x) in self.1.iter_mut().zip(self.0) {
            *output = math::tanh(*x);
        }
    }
}

/// Tangents, and their gradient, which becomes that of the inputs.
struct Slopes<'a>(&'a [f32], &'a mut [f32]);

impl Loop for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (output, tangent) in self.1.iter_mut().zip(self.0) {
            *output *= 1.0 - tangent * tangent;
        }
    }
}

fn tanh(x: &Raw) -> Raw {
    let [rows, width] = x.layout().shape().dims();
    let mut output = vec![0.0; rows * width];
    for_rows(&mut output, width, width * COST, |first, output| {
        run(Tangents(&slice(x)[first * width..][..output.len()], output));
    });
    raw(output, [rows, width])
}

/// See [`crate::relation::tanh`].
pub(crate) struct Tanh;

impl Fused<1> for Tanh {
    type Outputs = Raw;
    /// The tangents.
    type Saved = Raw;

    fn forward(self, [x]: [Raw; 1]) -> (Raw, Raw) {
        let tangents = tanh(&contiguous(&x));
        (tangents.clone(), tangents)
    }

    fn backward(tangents: Raw, outer: Raw, _: [bool; 1]) -> [Option<Raw>; 1] {
        let outer = contiguous(&outer);
        let [rows, width] = tangents.layout().shape().dims();
        let mut output = slice(&outer).to_vec();
        for_rows(&mut output, width, width, |first, output| {
            run(Slopes(
                &slice(&tangents)[first * width..][..output.len()],
                output,
            ));
        });
        [Some(raw(output, [rows, width]))]
    }
}
