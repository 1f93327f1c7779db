//! Splits each row into two halves, and clamps the second to bounds.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{Loop, chunks::for_rows, run},
    slice,
};

/// `max` and `min` would discard NaN.
#[inline(always)]
fn within(x: f32, [low, high]: [f32; 2]) -> f32 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// The gradients of both halves side by side; zero where the value was clamped.
struct Join<'a> {
    whole: &'a [f32],
    bounds: [f32; 2],
    parts: [Option<&'a [f32]>; 2],
    size: usize,
    output: &'a mut [f32],
}

impl Loop for Join<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.size;
        let rows = self.output.chunks_exact_mut(2 * size);
        let rows = rows.zip(self.whole.chunks_exact(2 * size)).enumerate();
        for (row, (output, whole)) in rows {
            let (first, second) = output.split_at_mut(size);
            if let Some(gradient) = self.parts[0] {
                first.copy_from_slice(&gradient[row * size..][..size]);
            }
            if let Some(gradient) = self.parts[1] {
                let gradient = &gradient[row * size..][..size];
                for ((out, x), gradient) in second.iter_mut().zip(&whole[size..]).zip(gradient) {
                    let outside = *x < self.bounds[0] || *x > self.bounds[1];
                    *out = if outside { 0.0 } else { *gradient };
                }
            }
        }
    }
}

fn split(whole: &Raw, bounds: [f32; 2]) -> [Raw; 2] {
    let [rows, width] = whole.layout().shape().dims();
    let size = width / 2;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    first.reserve_exact(rows * size);
    second.reserve_exact(rows * size);
    for row in slice(whole).chunks_exact(width.max(1)) {
        let (left, right) = row.split_at(size);
        first.extend_from_slice(left);
        second.extend(right.iter().map(|x| within(*x, bounds)));
    }
    [first, second].map(|half| raw(half, [rows, size]))
}

/// See [`crate::split::halves`].
pub(crate) struct Halves {
    /// Bounds of the second half.
    pub(crate) bounds: [f32; 2],
}

impl Fused<1> for Halves {
    type Outputs = [Raw; 2];
    /// The input and the bounds.
    type Saved = (Raw, [f32; 2]);

    fn forward(self, [whole]: [Raw; 1]) -> ([Raw; 2], Self::Saved) {
        let whole = contiguous(&whole);
        (split(&whole, self.bounds), (whole, self.bounds))
    }

    fn backward(
        (whole, bounds): Self::Saved,
        parts: [Option<Raw>; 2],
        _: [bool; 1],
    ) -> [Option<Raw>; 1] {
        let [rows, width] = whole.layout().shape().dims();
        let size = width / 2;
        let mut output = vec![0.0; rows * width];
        for_rows(&mut output, width, width, |first, output| {
            let count = output.len() / width;
            run(Join {
                whole: &slice(&whole)[first * width..][..output.len()],
                bounds,
                parts: parts.each_ref().map(|part| {
                    let part = part.as_ref()?;
                    Some(&slice(part)[first * size..][..count * size])
                }),
                size,
                output,
            });
        });
        [Some(raw(output, [rows, width]))]
    }
}
