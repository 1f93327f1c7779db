//! A convolution that a time loop uses at every step.

use crate::conv::plain;
use burn::tensor::Tensor;

/// A convolution of stride 1 without bias, prepared for the steps of one sequence. The gradient of its weights is computed for
/// all steps together.
///
/// A backward pass uses it up. To continue the sequence after that, prepare it again.
#[derive(Clone, Debug)]
pub struct StepConv(Prepared);

// There is one value per sequence, so the size of the largest variant costs nothing that matters.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Prepared {
    Plain {
        weight: Tensor<4>,
        padding: usize,
    },
    #[cfg(feature = "flex")]
    Fused {
        node: Tensor<1>,
        uses: crate::flex::ConvUses,
        options: crate::flex::Options,
    },
}

impl StepConv {
    /// Prepares weights `[outputs, channels, rows, columns]`.
    pub fn new(weight: Tensor<4>, padding: usize) -> Self {
        #[cfg(feature = "flex")]
        if crate::flex::fused(&weight.device()) {
            let options = crate::flex::Options {
                kernels: vec![crate::conv::kernel(&weight, padding)],
                stride: 1,
                transposed: None,
            };
            let uses = crate::flex::ConvUses::default();
            let weight = weight.flatten::<1>(0, 3);
            let node = crate::flex::conv_weights(weight, uses.clone(), options.clone());
            return Self(Prepared::Fused {
                node,
                uses,
                options,
            });
        }
        Self(Prepared::Plain { weight, padding })
    }

    /// `[images, channels, height, width]` to `[images, outputs, ..]`, see [`conv2d`](crate::conv::conv2d).
    ///
    /// # Panics
    /// If channels do not agree or the kernel is larger than the padded image.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        match &self.0 {
            Prepared::Plain { weight, padding } => {
                let bias = Tensor::zeros([weight.dims()[0]], &weight.device());
                plain(input, weight.clone(), bias, 1, *padding, None)
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

    /// Images of two sizes, and steps that read what the step before gave; small convolutions, and some by Fourier transforms.
    #[test]
    fn steps_agree_with_the_plain_composition() {
        for (channels, kernel, sizes) in [
            (3, 3, [[5, 7], [4, 4]]),
            (20, 5, [[8, 8], [16, 16]]),
            (70, 5, [[8, 8], [6, 9]]),
            (9, 1, [[4, 4], [2, 3]]),
        ] {
            let count = |[height, width]: [usize; 2]| 2 * channels * height * width;
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
                    let steps = StepConv::new(weight.clone(), kernel / 2);
                    let step = |maps: Tensor<4>| match prepared {
                        true => steps.forward(maps),
                        false => {
                            let bias = Tensor::zeros([channels], &maps.device());
                            plain(maps, weight.clone(), bias, 1, kernel / 2, None)
                        }
                    };
                    let outputs = [(first, sizes[0]), (second, sizes[1])].map(|(maps, size)| {
                        let [height, width] = size;
                        let maps: Tensor<4> = arranged(maps, [2, channels, height, width], way);
                        let once = step(maps);
                        let twice = step(once.clone().tanh());
                        (once + twice).flatten::<1>(0, 3)
                    });
                    Tensor::cat(outputs.to_vec(), 0)
                }
            };
            let name = format!("{channels} channels, kernels of {kernel}");
            assert_same(&inputs, 2e-5, &name, of(true), of(false));
        }
    }
}
