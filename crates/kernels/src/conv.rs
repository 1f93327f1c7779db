//! Convolutions and transposed convolutions of images.

use burn::tensor::{
    Tensor,
    module::{conv_transpose2d, conv2d as burn_conv2d},
    ops::{ConvOptions, ConvTransposeOptions},
};

/// A convolution with bias.
///
/// `y[n, o, i, j] = b[o] + sum_{c, k, l} w[o, c, k, l] x[n, c, s i + k - p, s j + l - p]`
///
/// # Shapes
/// - `input`: `[images, channels, height, width]`
/// - `weight`: `[outputs, channels, rows, columns]`, `bias`: `[outputs]`
/// - returns `[images, outputs, (height + 2 p - rows) / s + 1, ...]`
///
/// # Panics
/// If channels do not agree or the kernel is larger than the padded image.
pub fn conv2d(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&input.device()) {
        return fused(input, weight, bias, stride, padding, None);
    }
    plain(input, weight, bias, stride, padding, None)
}

/// A transposed convolution with bias: `x[n, c, i, j]` adds `w[c, o, k, l] x` to
/// `y[n, o, s i + k - p, s j + l - p]`.
///
/// # Shapes
/// - `input`: `[images, channels, height, width]`
/// - `weight`: `[channels, outputs, rows, columns]`, `bias`: `[outputs]`
/// - returns `[images, outputs, (height - 1) s + rows + added - 2 p, ...]`
///
/// # Panics
/// If channels do not agree.
pub fn transposed_conv2d(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
    added: usize,
) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&input.device()) {
        return fused(input, weight, bias, stride, padding, Some(added));
    }
    plain(input, weight, bias, stride, padding, Some(added))
}

/// Several convolutions of one input that keep its size, their outputs side by side: stride 1, kernels
/// square and odd, padded by half their size.
///
/// # Shapes
/// - `input`: `[images, channels, height, width]`
/// - each of `kernels`: weight `[outputs, channels, k, k]` and bias `[outputs]`
/// - returns `[images, sum of outputs, height, width]`
///
/// # Panics
/// If there is no kernel, one is not square and odd, or channels do not agree.
pub fn conv2d_bank(input: Tensor<4>, kernels: Vec<(Tensor<4>, Tensor<1>)>) -> Tensor<4> {
    for (weight, _) in &kernels {
        let [_, _, rows, columns] = weight.dims();
        assert!(rows == columns && rows % 2 == 1, "{rows}x{columns} kernel");
    }
    #[cfg(feature = "flex")]
    if crate::flex::fused(&input.device()) {
        let sizes = kernels.iter().map(|(weight, _)| {
            let half = weight.dims()[2] / 2;
            kernel(weight, half)
        });
        let options = crate::flex::Options {
            kernels: sizes.collect(),
            stride: 1,
            transposed: None,
        };
        let (weights, biases): (Vec<_>, Vec<_>) = kernels
            .into_iter()
            .map(|(weight, bias)| (weight.flatten::<1>(0, 3), bias))
            .unzip();
        return crate::flex::conv(
            input,
            Tensor::cat(weights, 0),
            Tensor::cat(biases, 0),
            options,
        );
    }
    plain_bank(input, kernels)
}

fn plain_bank(input: Tensor<4>, kernels: Vec<(Tensor<4>, Tensor<1>)>) -> Tensor<4> {
    let outputs = kernels.into_iter().map(|(weight, bias)| {
        let half = weight.dims()[2] / 2;
        plain(input.clone(), weight, bias, 1, half, None)
    });
    Tensor::cat(outputs.collect(), 1)
}

#[cfg(feature = "flex")]
fn kernel(weight: &Tensor<4>, padding: usize) -> crate::flex::Kernel {
    let [channels, _, rows, columns] = weight.dims();
    crate::flex::Kernel {
        channels,
        size: [rows, columns],
        padding,
    }
}

#[cfg(feature = "flex")]
fn fused(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
    transposed: Option<usize>,
) -> Tensor<4> {
    let options = crate::flex::Options {
        kernels: vec![kernel(&weight, padding)],
        stride,
        transposed,
    };
    crate::flex::conv(input, weight.flatten::<1>(0, 3), bias, options)
}

fn plain(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
    transposed: Option<usize>,
) -> Tensor<4> {
    let [stride, padding, dilation] = [[stride; 2], [padding; 2], [1; 2]];
    match transposed {
        None => {
            let options = ConvOptions::new(stride, padding, dilation, 1);
            burn_conv2d(input, weight, Some(bias), options)
        }
        Some(added) => {
            let options = ConvTransposeOptions::new(stride, padding, [added; 2], dilation, 1);
            conv_transpose2d(input, weight, Some(bias), options)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    /// Numbers between -1 and 1 without a pattern.
    fn tensor<const D: usize>(shape: [usize; D], seed: u32, device: &Device) -> Tensor<D> {
        let mut state = seed;
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    type Convolution =
        fn(Tensor<4>, Tensor<4>, Tensor<1>, usize, usize, Option<usize>) -> Tensor<4>;

    fn kernel(
        input: Tensor<4>,
        weight: Tensor<4>,
        bias: Tensor<1>,
        stride: usize,
        padding: usize,
        transposed: Option<usize>,
    ) -> Tensor<4> {
        match transposed {
            None => conv2d(input, weight, bias, stride, padding),
            Some(added) => transposed_conv2d(input, weight, bias, stride, padding, added),
        }
    }

    struct Case {
        images: usize,
        channels: usize,
        outputs: usize,
        size: [usize; 2],
        kernel: [usize; 2],
        stride: usize,
        padding: usize,
        transposed: Option<usize>,
    }

    /// Output and gradients for input, weight and bias.
    fn run(case: &Case, convolution: Convolution) -> [Vec<f32>; 4] {
        let device = Device::default().autodiff();
        let [rows, columns] = case.kernel;
        let [height, width] = case.size;
        let between = match case.transposed {
            None => [case.outputs, case.channels],
            Some(_) => [case.channels, case.outputs],
        };
        let image = [case.images, case.channels, height, width];
        let input = tensor(image, 1, &device).require_grad();
        let weight = tensor([between[0], between[1], rows, columns], 2, &device).require_grad();
        let bias = tensor([case.outputs], 3, &device).require_grad();
        let output = convolution(
            input.clone(),
            weight.clone(),
            bias.clone(),
            case.stride,
            case.padding,
            case.transposed,
        );
        let probe = tensor(output.dims(), 4, &device);
        let gradients = (output.clone() * probe).sum().backward();
        let values = |data: TensorData| data.try_into_vec::<f32>().unwrap();
        [
            values(output.into_data()),
            values(input.grad(&gradients).unwrap().into_data()),
            values(weight.grad(&gradients).unwrap().into_data()),
            values(bias.grad(&gradients).unwrap().into_data()),
        ]
    }

    fn check(case: Case) {
        let (found, expected) = (run(&case, kernel), run(&case, plain));
        let names = ["output", "input", "weight", "bias"];
        for ((found, expected), name) in found.iter().zip(&expected).zip(names) {
            assert_eq!(found.len(), expected.len());
            let scale = expected.iter().fold(1.0_f32, |m, e| m.max(e.abs()));
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() <= 2e-5 * scale,
                    "{} images, {} to {} channels, {:?} by {:?}, stride {}, padding {}, {:?}, {name}: {found} {expected}",
                    case.images,
                    case.channels,
                    case.outputs,
                    case.size,
                    case.kernel,
                    case.stride,
                    case.padding,
                    case.transposed,
                );
            }
        }
    }

    #[test]
    fn kernels_agree_with_the_plain_composition() {
        let sizes = [[1, 1], [5, 7], [8, 8], [13, 16], [32, 32], [3, 40]];
        for (index, size) in sizes.into_iter().enumerate() {
            for kernel in [[1, 1], [3, 3], [7, 7], [2, 5], [4, 4]] {
                for stride in [1, 2, 3] {
                    for padding in [0, kernel[0].min(kernel[1]) / 2] {
                        let fits = (0..2).all(|a| size[a] + 2 * padding >= kernel[a]);
                        let channels = [1, 2, 7, 8, 9][index % 5];
                        let outputs = [3, 8, 1, 11, 17][(index + stride) % 5];
                        let case = |transposed| Case {
                            images: 1 + index % 3,
                            channels,
                            outputs,
                            size,
                            kernel,
                            stride,
                            padding,
                            transposed,
                        };
                        if fits {
                            check(case(None));
                        }
                        for added in 0..stride.min(2) {
                            let out = |a: usize| (size[a] - 1) * stride + kernel[a] + added;
                            if (0..2).all(|a| out(a) > 2 * padding) {
                                check(case(Some(added)));
                            }
                        }
                    }
                }
            }
        }
    }

    /// Output, then gradients for the input and each kernel's weight and bias.
    fn run_bank(
        [images, channels, height, width]: [usize; 4],
        kernels: &[[usize; 2]],
        bank: fn(Tensor<4>, Vec<(Tensor<4>, Tensor<1>)>) -> Tensor<4>,
    ) -> Vec<Vec<f32>> {
        let device = Device::default().autodiff();
        let input = tensor([images, channels, height, width], 1, &device).require_grad();
        let layers: Vec<_> = kernels
            .iter()
            .zip(2..)
            .map(|(&[outputs, size], seed)| {
                let weight = tensor([outputs, channels, size, size], seed, &device);
                let bias = tensor([outputs], seed + 50, &device);
                (weight.require_grad(), bias.require_grad())
            })
            .collect();
        let output = bank(input.clone(), layers.clone());
        let probe = tensor(output.dims(), 100, &device);
        let gradients = (output.clone() * probe).sum().backward();
        let values = |data: TensorData| data.try_into_vec::<f32>().unwrap();
        let mut all = vec![
            values(output.into_data()),
            values(input.grad(&gradients).unwrap().into_data()),
        ];
        for (weight, bias) in layers {
            all.push(values(weight.grad(&gradients).unwrap().into_data()));
            all.push(values(bias.grad(&gradients).unwrap().into_data()));
        }
        all
    }

    #[test]
    fn a_bank_agrees_with_its_convolutions() {
        for (shape, kernels) in [
            ([2, 3, 32, 32], vec![[8, 1], [8, 3], [8, 5], [8, 7]]),
            ([3, 2, 5, 7], vec![[3, 5], [9, 1], [1, 3]]),
            ([1, 9, 13, 16], vec![[17, 3]]),
            ([1, 1, 1, 1], vec![[1, 7], [2, 1]]),
        ] {
            let found = run_bank(shape, &kernels, conv2d_bank);
            let expected = run_bank(shape, &kernels, plain_bank);
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found.len(), expected.len());
                let scale = expected.iter().fold(1.0_f32, |m, e| m.max(e.abs()));
                for (found, expected) in found.iter().zip(expected) {
                    let error = (found - expected).abs();
                    assert!(
                        error <= 2e-5 * scale,
                        "{shape:?}, {kernels:?}, result {index}: {found} {expected}"
                    );
                }
            }
        }
    }
}
