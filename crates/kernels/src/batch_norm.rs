//! Batch norm over images with the statistics of the batch, then ReLU.

use burn::tensor::{Tensor, activation, module::batch_norm_train};

/// What [`batch_norm_relu`] gives.
#[derive(Clone, Debug)]
pub struct Normalised {
    /// `[images, channels, height, width]`
    pub output: Tensor<4>,
    /// Mean of each channel, without gradient.
    pub mean: Tensor<1>,
    /// Variance of each channel (divided by the count), without gradient.
    pub variance: Tensor<1>,
}

/// `relu(gamma (x - mean) / sqrt(variance + epsilon) + beta)` with each channel's mean and variance
/// over all images and pixels, through which gradients flow.
///
/// # Shapes
/// - `x`: `[images, channels, height, width]`
/// - `gamma`, `beta`: `[channels]`
///
/// Ioffe and Szegedy 2015, Algorithm 1.
pub fn batch_norm_relu(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
) -> Normalised {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&x.device()) {
        let channels = x.dims()[1];
        let (output, moments) = crate::flex::batch_norm(x, gamma, beta, epsilon as f32);
        return Normalised {
            output,
            mean: moments.clone().narrow(0, 0, channels),
            variance: moments.narrow(0, channels, channels),
        };
    }
    plain(x, gamma, beta, epsilon)
}

fn plain(x: Tensor<4>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64) -> Normalised {
    let normalised = batch_norm_train(x, gamma, beta, epsilon);
    Normalised {
        output: activation::relu(normalised.output),
        mean: normalised.mean.detach(),
        variance: normalised.variance.detach(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        let device = Device::default().autodiff();
        for shape in [[2, 1, 1, 1], [1, 3, 5, 7], [3, 8, 16, 16], [20, 5, 3, 11]] {
            let channels = shape[1];
            let tensor = |count: usize, factor: f32| {
                let values: Vec<f32> = (0..count)
                    .map(|i| (i as f32 * factor).sin() * 2.0)
                    .collect();
                Tensor::<1>::from_data(TensorData::new(values, [count]), &device)
            };
            let run = |f: fn(Tensor<4>, Tensor<1>, Tensor<1>, f64) -> Normalised| {
                let count = shape.iter().product();
                let x = (tensor(count, 1.3) + 5.0)
                    .reshape(shape)
                    .detach()
                    .require_grad();
                let gamma = (tensor(channels, 0.7) + 1.5).detach().require_grad();
                let beta = tensor(channels, 0.9).detach().require_grad();
                let found = f(x.clone(), gamma.clone(), beta.clone(), 1e-5);
                let probe = tensor(count, 0.37).reshape(shape);
                let gradients = (found.output.clone() * probe).sum().backward();
                let flat = |t: Tensor<4>| t.reshape([count]);
                Tensor::cat(
                    vec![
                        flat(found.output.inner()),
                        found.mean.inner(),
                        found.variance.inner(),
                        flat(x.grad(&gradients).unwrap()),
                        gamma.grad(&gradients).unwrap(),
                        beta.grad(&gradients).unwrap(),
                    ],
                    0,
                )
            };
            let (found, expected) = (run(batch_norm_relu), run(plain));
            let scale: f32 = expected.clone().abs().max().into_scalar();
            let error: f32 = (found - expected).abs().max().into_scalar();
            assert!(
                error <= 2e-5 * scale.max(1.0),
                "{shape:?}: {error} of {scale}"
            );
        }
    }
}
