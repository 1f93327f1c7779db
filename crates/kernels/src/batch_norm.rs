//! Batch norm over images with the statistics of the batch, then ReLU.

use burn::tensor::{Tensor, activation, module::batch_norm_train};

/// The result of [`batch_norm_relu`] and [`batch_norm_leaky_relu`].
#[derive(Clone, Debug)]
pub struct Normalised {
    /// `[images, channels, height, width]`
    pub output: Tensor<4>,
    /// Mean of each channel, without gradient.
    pub mean: Tensor<1>,
    /// Variance of each channel (divided by the count), without gradient.
    pub variance: Tensor<1>,
}

/// `relu(gamma (x - mean) / sqrt(variance + epsilon) + beta)` with each channel's mean and variance over all
/// images and pixels. Gradients flow through mean and variance.
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
    batch_norm_leaky_relu(x, gamma, beta, epsilon, 0.0)
}

/// Batch norm with a leaky ReLU, where `slope` is its slope below zero. With slope 1 it is batch norm alone.
pub fn batch_norm_leaky_relu(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    slope: f64,
) -> Normalised {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&x.device()) {
        let channels = x.dims()[1];
        let (output, moments) = fused(x, gamma, beta, [epsilon, slope]);
        return Normalised {
            output,
            mean: moments.clone().narrow(0, 0, channels),
            variance: moments.narrow(0, channels, channels),
        };
    }
    plain(x, gamma, beta, epsilon, slope)
}

/// The output, and means and variances of the channels, `[2 * channels]`; `numbers` are epsilon and slope.
#[cfg(feature = "flex")]
fn fused(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    numbers: [f64; 2],
) -> (Tensor<4>, Tensor<1>) {
    let device = x.device();
    let found = crate::flex::Found::default();
    let numbers = numbers.map(|number| number as f32);
    let output = crate::flex::batch_norm(x, gamma, beta, numbers, found.clone());
    (output, Tensor::from_floats(found.moments(), &device))
}

/// ReLU with a slope below zero.
pub fn leaky_relu(x: Tensor<4>, slope: f64) -> Tensor<4> {
    match slope {
        0.0 => activation::relu(x),
        1.0 => x,
        _ => activation::leaky_relu(x, slope),
    }
}

fn plain(x: Tensor<4>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64, slope: f64) -> Normalised {
    let normalised = batch_norm_train(x, gamma, beta, epsilon);
    Normalised {
        output: leaky_relu(normalised.output, slope),
        mean: normalised.mean.detach(),
        variance: normalised.variance.detach(),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::check::{
        NOT_FINITE, Way, arranged, assert_close, assert_same, assert_spreads, differences,
        gradients, numbers, values, wide,
    };
    use burn::tensor::Device;

    const EPSILON: f64 = 1e-3;
    const SLOPES: [f64; 3] = [0.0, 0.2, 1.0];

    type Shape = [usize; 4];

    fn inputs(shape: Shape) -> Vec<Vec<f32>> {
        let x = numbers(shape.iter().product(), 1);
        let gamma = numbers(shape[1], 2);
        vec![
            x.iter().map(|x| 2.0 * x + 5.0).collect(),
            gamma.iter().map(|x| x + 1.5).collect(),
            numbers(shape[1], 3),
        ]
    }

    fn arguments(
        inputs: Vec<Tensor<1>>,
        shape: Shape,
        way: Way,
    ) -> (Tensor<4>, Tensor<1>, Tensor<1>) {
        let [x, gamma, beta]: [Tensor<1>; 3] = inputs.try_into().unwrap();
        (
            arranged(x, shape, way),
            arranged(gamma, [shape[1]], way),
            arranged(beta, [shape[1]], way),
        )
    }

    fn kernel(shape: Shape, slope: f64) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<4> {
        move |inputs, way| {
            let (x, gamma, beta) = arguments(inputs, shape, way);
            fused(x, gamma, beta, [EPSILON, slope]).0
        }
    }

    fn composition(shape: Shape, slope: f64) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<4> {
        move |inputs, way| {
            let (x, gamma, beta) = arguments(inputs, shape, way);
            plain(x, gamma, beta, EPSILON, slope).output
        }
    }

    /// Means and variances.
    fn moments(x: &[f64], [images, channels, height, width]: Shape) -> [Vec<f64>; 2] {
        let pixels = height * width;
        let count = (images * pixels) as f64;
        let of = |channel: usize, f: &dyn Fn(f64) -> f64| {
            let planes = (0..images).map(|n| &x[(n * channels + channel) * pixels..][..pixels]);
            planes.flatten().map(|x| f(*x)).sum::<f64>() / count
        };
        let means: Vec<f64> = (0..channels).map(|c| of(c, &|x| x)).collect();
        let variances = (0..channels).map(|c| of(c, &|x| (x - means[c]).powi(2)));
        let variances = variances.collect();
        [means, variances]
    }

    fn definition(inputs: &[Vec<f64>], shape: Shape, slope: f64) -> Vec<f64> {
        let [x, gamma, beta] = inputs else {
            unreachable!("three inputs")
        };
        let [means, variances] = moments(x, shape);
        let value = |(index, x): (usize, &f64)| {
            let c = index / (shape[2] * shape[3]) % shape[1];
            let normal = (x - means[c]) / (variances[c] + EPSILON).sqrt();
            let y = gamma[c] * normal + beta[c];
            if y < 0.0 { slope * y } else { y }
        };
        x.iter().enumerate().map(value).collect()
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        for shape in [
            [1, 1, 1, 1],
            [2, 1, 1, 1],
            [7, 13, 1, 1],
            [1, 1, 1, 17],
            [1, 3, 5, 7],
            [5, 2, 31, 1],
            [3, 8, 16, 16],
            [20, 5, 3, 11],
            [2, 1, 37, 53],
        ] {
            for slope in SLOPES {
                let name = format!("{shape:?}, slope {slope}");
                let (kernel, plain) = (kernel(shape, slope), composition(shape, slope));
                assert_same(&inputs(shape), 3e-5, &name, kernel, plain);
            }
        }
    }

    #[test]
    fn the_kernel_agrees_with_the_definition() {
        for shape in [
            [2, 1, 1, 1],
            [1, 1, 1, 7],
            [1, 2, 1, 17],
            [3, 2, 5, 7],
            [2, 3, 4, 8],
            [11, 1, 1, 3],
        ] {
            let inputs = inputs(shape);
            for slope in SLOPES {
                let found = gradients(&inputs, &[], Way::Straight, kernel(shape, slope));
                let expected = differences(&inputs, |inputs| definition(inputs, shape, slope));
                assert_close(
                    &found,
                    &expected,
                    3e-5,
                    &format!("{shape:?}, slope {slope}"),
                );
            }
        }
    }

    #[test]
    fn moments_are_those_of_the_definition() {
        for shape in [[1, 1, 1, 1], [1, 3, 5, 7], [20, 5, 3, 11], [2, 1, 37, 53]] {
            let [x, gamma, beta]: [Vec<f32>; 3] = inputs(shape).try_into().unwrap();
            let device = Device::default();
            let vector = |values: &[f32]| Tensor::<1>::from_floats(values, &device);
            let (_, found) = fused(
                vector(&x).reshape(shape),
                vector(&gamma),
                vector(&beta),
                [EPSILON, 0.0],
            );
            let found: Vec<Vec<f32>> = values(found).chunks(shape[1]).map(Vec::from).collect();
            let expected = moments(&wide(&[x])[0], shape);
            assert_close(&found, &expected, 1e-6, &format!("{shape:?}"));
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1, 1, 1], [2, 2, 1, 3], [2, 3, 5, 7], [3, 1, 1, 33]] {
            for slope in SLOPES {
                let name = format!("{shape:?}, slope {slope}");
                let (kernel, plain) = (kernel(shape, slope), composition(shape, slope));
                assert_spreads(&inputs(shape), &NOT_FINITE, &name, kernel, plain);
            }
        }
    }
}
