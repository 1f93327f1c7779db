//! A convolution that a time loop uses at every step.

use crate::conv::plain_same;
use burn::tensor::Tensor;

/// A convolution without bias that keeps the size of its images ([`conv2d_same`](crate::conv::conv2d_same)), prepared for the
/// steps of one sequence. The gradient of its weights is computed for all steps together.
///
/// A backward pass uses it up. To continue the sequence after that, prepare it again.
#[derive(Clone, Debug)]
pub struct StepConv(Prepared);

// There is one value per sequence, so the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Prepared {
    Plain(Tensor<4>),
    #[cfg(feature = "flex")]
    Fused {
        node: Tensor<1>,
        uses: crate::flex::ConvUses,
        options: crate::flex::Options,
    },
}

impl StepConv {
    /// Prepares weights `[outputs, channels, k, k]`.
    ///
    /// # Panics
    /// If the kernel is not square.
    pub fn new(weight: Tensor<4>) -> Self {
        #[cfg(feature = "flex")]
        if crate::flex::fused(&weight.device()) {
            let options = crate::conv::keeping_size([&weight]);
            let uses = crate::flex::ConvUses::default();
            let weight = weight.flatten::<1>(0, 3);
            let node = crate::flex::conv_weights(weight, uses.clone(), options.clone());
            return Self(Prepared::Fused {
                node,
                uses,
                options,
            });
        }
        Self(Prepared::Plain(weight))
    }

    /// `[images, channels, height, width]` to `[images, outputs, height, width]`.
    ///
    /// # Panics
    /// If channels do not agree.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        match &self.0 {
            Prepared::Plain(weight) => {
                let bias = Tensor::zeros([weight.dims()[0]], &weight.device());
                plain_same(input, weight.clone(), bias)
            }
            #[cfg(feature = "flex")]
            Prepared::Fused {
                node,
                uses,
                options,
            } => crate::flex::conv_step(input, node.clone(), uses.clone(), options.clone()),
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::check::{Way, arranged, assert_same, numbers};

    /// Images of two sizes, and steps that read what the step before gave; small convolutions, some by Fourier transforms, and
    /// some by tiles.
    #[test]
    fn steps_agree_with_the_plain_composition() {
        for (images, channels, kernel, sizes) in [
            (2, 3, 3, [[5, 7], [4, 4]]),
            (2, 20, 5, [[8, 8], [16, 16]]),
            (2, 70, 5, [[8, 8], [6, 9]]),
            (2, 9, 1, [[4, 4], [2, 3]]),
            (2, 33, 2, [[5, 5], [8, 10]]),
            (2, 5, 4, [[5, 7], [1, 2]]),
            (13, 33, 2, [[5, 5], [9, 10]]),
            (13, 33, 3, [[4, 4], [8, 7]]),
        ] {
            let count = |[height, width]: [usize; 2]| images * channels * height * width;
            let weights = channels * channels * kernel * kernel;
            let scale = 1.0 / (channels * kernel * kernel) as f32;
            let weights = numbers(weights, 3).into_iter().map(|w| scale * w);
            let inputs = vec![
                numbers(count(sizes[0]), 1),
                numbers(count(sizes[1]), 2),
                weights.collect(),
            ];
            let of = |prepared: bool| {
                move |all: Vec<Tensor<1>>, way: Way| {
                    let [first, second, weight]: [_; 3] = all.try_into().unwrap();
                    let weight = arranged(weight, [channels, channels, kernel, kernel], way);
                    let steps = StepConv::new(weight.clone());
                    let step = |maps: Tensor<4>| match prepared {
                        true => steps.forward(maps),
                        false => {
                            let bias = Tensor::zeros([channels], &maps.device());
                            plain_same(maps, weight.clone(), bias)
                        }
                    };
                    let outputs = [(first, sizes[0]), (second, sizes[1])].map(|(maps, size)| {
                        let [height, width] = size;
                        let maps: Tensor<4> =
                            arranged(maps, [images, channels, height, width], way);
                        let once = step(maps);
                        let twice = step(once.clone().tanh());
                        (once + twice).flatten::<1>(0, 3)
                    });
                    Tensor::cat(outputs.to_vec(), 0)
                }
            };
            let name = format!("{images} images, {channels} channels, kernels of {kernel}");
            assert_same(&inputs, 2e-5, &name, of(true), of(false));
        }
    }
}
