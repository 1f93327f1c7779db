//! The two halves of each row, the second within bounds.

use super::{Loop, Parts, Raw, contiguous, for_rows, raw, run, slice};
use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};

/// `max` and `min` would swallow NaN.
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

/// Gradients of both halves side by side; none where a bound took the value's place.
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

pub(super) fn forward(whole: &Raw, bounds: [f32; 2], parts: &Parts) -> Raw {
    parts.put(split(&contiguous(whole), bounds))
}

pub(super) fn tracked<C: CheckpointStrategy>(
    whole: FloatTensor<Autodiff<Flex, C>>,
    bounds: [f32; 2],
    parts: Parts,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Halves;

    impl Backward<Flex, 1> for Halves {
        type State = (Raw, [f32; 2], Parts);

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (whole, bounds, parts) = ops.state;
            // What each part registered says only that there was one.
            let _ = grads.consume::<Flex>(&ops.node);
            let [Some(node)] = ops.parents else {
                return;
            };
            let parts: [Option<Raw>; 2] = parts.gradients();
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
            grads.register::<Flex>(node.id, raw(output, [rows, width]));
        }
    }

    let (whole, guard) = whole.into_parts();
    let whole = contiguous(&whole);
    let output = forward(&whole, bounds, &parts);
    match Halves.prepare::<C>([guard]).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((whole, bounds, parts), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
