use super::*;
use crate::check::{
    NOT_FINITE, Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients,
    numbers, wide,
};

type Convolution = fn(Tensor<4>, Tensor<4>, Tensor<1>, usize, usize, Option<usize>) -> Tensor<4>;

#[derive(Clone, Copy, Debug)]
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

impl Case {
    fn image(&self) -> [usize; 4] {
        [self.images, self.channels, self.size[0], self.size[1]]
    }

    fn weight(&self) -> [usize; 4] {
        let [rows, columns] = self.kernel;
        match self.transposed {
            None => [self.outputs, self.channels, rows, columns],
            Some(_) => [self.channels, self.outputs, rows, columns],
        }
    }

    fn inputs(&self) -> Vec<Vec<f32>> {
        vec![
            numbers(self.image().iter().product(), 1),
            numbers(self.weight().iter().product(), 2),
            numbers(self.outputs, 3),
        ]
    }

    fn of(self, f: Convolution) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<4> {
        move |inputs, way| {
            let [input, weight, bias]: [_; 3] = inputs.try_into().unwrap();
            f(
                arranged(input, self.image(), way),
                arranged(weight, self.weight(), way),
                arranged(bias, [self.outputs], way),
                self.stride,
                self.padding,
                self.transposed,
            )
        }
    }

    /// The size of the output; `None` if there is no output.
    fn output(&self) -> Option<[usize; 2]> {
        let along = |axis: usize| {
            let (size, kernel) = (self.size[axis], self.kernel[axis]);
            match self.transposed {
                None => {
                    let room = (size + 2 * self.padding).checked_sub(kernel)?;
                    Some(room / self.stride + 1)
                }
                Some(added) => ((size - 1) * self.stride + kernel + added)
                    .checked_sub(2 * self.padding)
                    .filter(|size| *size > 0),
            }
        };
        Some([along(0)?, along(1)?])
    }

    /// Both kinds by definition: sums over every pair of pixels that a tap connects.
    fn definition(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let [image, weight, bias] = inputs else {
            unreachable!("three inputs")
        };
        let [rows, columns] = self.output().unwrap();
        let [height, width] = self.size;
        let mut output: Vec<f64> = (0..self.images * self.outputs * rows * columns)
            .map(|i| bias[i / (rows * columns) % self.outputs])
            .collect();
        let (fine, coarse) = match self.transposed {
            None => ([height, width], [rows, columns]),
            Some(_) => ([rows, columns], [height, width]),
        };
        // The pixel of the fine image that a tap of a coarse pixel reads.
        let meet = |coarse: usize, tap: usize, size: usize| {
            let place = (self.stride * coarse + tap).checked_sub(self.padding)?;
            (place < size).then_some(place)
        };
        for n in 0..self.images {
            for (c, o) in (0..self.channels).flat_map(|c| (0..self.outputs).map(move |o| (c, o))) {
                let pair = match self.transposed {
                    None => o * self.channels + c,
                    Some(_) => c * self.outputs + o,
                };
                for tap in 0..self.kernel[0] * self.kernel[1] {
                    let (k, l) = (tap / self.kernel[1], tap % self.kernel[1]);
                    let w = weight[pair * self.kernel[0] * self.kernel[1] + tap];
                    for i in 0..coarse[0] {
                        for j in 0..coarse[1] {
                            let at = (meet(i, k, fine[0]), meet(j, l, fine[1]));
                            let (Some(y), Some(x)) = at else {
                                continue;
                            };
                            let ((a, b), (d, e)) = match self.transposed {
                                None => ((y, x), (i, j)),
                                Some(_) => ((i, j), (y, x)),
                            };
                            let from = ((n * self.channels + c) * height + a) * width + b;
                            let to = ((n * self.outputs + o) * rows + d) * columns + e;
                            output[to] += w * image[from];
                        }
                    }
                }
            }
        }
        output
    }
}

/// The valid cases of a grid over kernels, strides, paddings and both kinds, for each size.
fn cases(sizes: &[[usize; 2]], kernels: &[[usize; 2]]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        for kernel in kernels {
            for stride in [1, 2, 3] {
                for padding in [0, kernel[0].min(kernel[1]) / 2] {
                    for transposed in [None, Some(0), Some(1)] {
                        let case = Case {
                            images: 1 + index % 3,
                            channels: [1, 2, 7, 8, 9][index % 5],
                            outputs: [3, 8, 1, 11, 17][(index + stride) % 5],
                            size: *size,
                            kernel: *kernel,
                            stride,
                            padding,
                            transposed,
                        };
                        let sensible = transposed.is_none_or(|added| added < stride);
                        if sensible && case.output().is_some() {
                            cases.push(case);
                        }
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn kernels_agree_with_the_plain_composition() {
    let sizes = [
        [1, 1],
        [5, 7],
        [8, 8],
        [13, 16],
        [32, 32],
        [3, 40],
        [1, 67],
        [41, 1],
    ];
    for case in cases(&sizes, &[[1, 1], [3, 3], [7, 7], [2, 5], [4, 4]]) {
        let inputs = case.inputs();
        let found = gradients(&inputs, &[], Way::Straight, case.of(fused));
        let expected = gradients(&inputs, &[], Way::Straight, case.of(plain));
        assert_close(&found, &wide(&expected), 2e-5, &format!("{case:?}"));
    }
}

/// Enough channels for a convolution to be computed as a matrix product; the last case has enough images for
/// several products.
#[test]
fn many_channels_agree_with_the_plain_composition() {
    let several = Case {
        images: 19,
        channels: 1,
        outputs: 1,
        size: [13, 15],
        kernel: [4, 4],
        stride: 2,
        padding: 1,
        transposed: None,
    };
    // One coarse pixel whose kernel covers the whole fine image.
    let whole = [None, Some(0)].map(|transposed| Case {
        size: match transposed {
            None => [4, 3],
            Some(_) => [1, 1],
        },
        kernel: [4, 3],
        stride: 1,
        padding: 0,
        images: 40,
        transposed,
        ..several
    });
    // A tap that reads only padding, on either side.
    let beyond = [(None, [8, 2]), (Some(0), [4, 1])].map(|(transposed, size)| Case {
        images: 3,
        size,
        kernel: [7, 7],
        stride: 2,
        padding: 3,
        transposed,
        ..several
    });
    let small = cases(&[[1, 1], [5, 7], [8, 8]], &[[1, 1], [3, 3], [4, 4], [2, 5]]);
    // Enough small images to be interleaved.
    let short = [None, Some(0)].map(|transposed| Case {
        images: 11,
        size: [4, 5],
        kernel: [3, 3],
        stride: 1,
        transposed,
        ..several
    });
    let all = small.into_iter().chain([several]).chain(whole);
    for case in all.chain(beyond).chain(short) {
        let (fine, coarse) = (1024 / (case.kernel[0] * case.kernel[1]) + 4, 129);
        let (channels, outputs) = match case.transposed {
            None => (fine, coarse),
            Some(_) => (coarse, fine),
        };
        let case = Case {
            channels,
            outputs,
            ..case
        };
        let inputs = case.inputs();
        let found = gradients(&inputs, &[], Way::Straight, case.of(fused));
        let expected = gradients(&inputs, &[], Way::Straight, case.of(plain));
        assert_close(&found, &wide(&expected), 2e-5, &format!("{case:?}"));
    }
}

/// Kernels as large as their stride, with enough channels for matrix products; some images have rows and columns
/// that no kernel reads, or are larger than all kernels together.
#[test]
fn patches_agree_with_the_plain_composition() {
    for (size, channels, outputs) in [
        (2, 128, 64),
        (2, 33, 32),
        (4, 3, 128),
        (4, 1, 400),
        (3, 5, 103),
        (1, 64, 64),
    ] {
        for (images, [rows, columns]) in [(1, [1, 1]), (3, [2, 3]), (19, [8, 8]), (150, [1, 2])] {
            for (beyond, transposed) in [(0, None), (size - 1, None), (0, Some(0)), (0, Some(1))] {
                if transposed.is_some_and(|added| added >= size) {
                    continue;
                }
                let (fine, coarse) = (channels, outputs);
                let case = Case {
                    images,
                    channels: if transposed.is_none() { fine } else { coarse },
                    outputs: if transposed.is_none() { coarse } else { fine },
                    size: match transposed {
                        None => [rows, columns].map(|side| side * size + beyond),
                        Some(_) => [rows, columns],
                    },
                    kernel: [size; 2],
                    stride: size,
                    padding: 0,
                    transposed,
                };
                let inputs = case.inputs();
                let found = gradients(&inputs, &[], Way::Straight, case.of(fused));
                let expected = gradients(&inputs, &[], Way::Straight, case.of(plain));
                assert_close(&found, &wide(&expected), 2e-5, &format!("{case:?}"));
            }
        }
    }
}

/// Enough channels for 4x4 kernels of stride 2 to take fewer multiplications, for all kinds of image
/// margins; some cases have enough images for several blocks.
#[test]
fn doubling_and_halving_agree_with_the_plain_composition() {
    let mut cases = Vec::new();
    for (images, size) in [
        // Too few tiles for this method.
        (1, [8, 8]),
        (22, [8, 12]),
        (40, [5, 9]),
        (40, [10, 6]),
        // The last block has fewer images.
        (1025, [4, 4]),
        (9, [32, 16]),
        // One image has more tiles than a block.
        (1, [96, 96]),
    ] {
        for padding in [0, 1, 2, 3] {
            for transposed in [None, Some(0), Some(1)] {
                let (channels, outputs) = (35, 33);
                let case = Case {
                    images,
                    channels,
                    outputs,
                    size: match transposed {
                        None => size,
                        Some(_) => size.map(|side| side / 2),
                    },
                    kernel: [4, 4],
                    stride: 2,
                    padding,
                    transposed,
                };
                let small = images * size[0] * size[1] < 4000 || padding == 1;
                if small && case.output().is_some() {
                    cases.push(case);
                }
            }
        }
    }
    for case in cases {
        let inputs = case.inputs();
        let found = gradients(&inputs, &[], Way::Straight, case.of(fused));
        let expected = gradients(&inputs, &[], Way::Straight, case.of(plain));
        assert_close(&found, &wide(&expected), 2e-5, &format!("{case:?}"));
    }
}

#[test]
fn kernels_agree_however_their_arguments_lie() {
    for case in cases(&[[1, 1], [5, 7], [6, 17]], &[[1, 1], [3, 3], [2, 5]]) {
        let name = format!("{case:?}");
        assert_same(&case.inputs(), 2e-5, &name, case.of(fused), case.of(plain));
    }
}

#[test]
fn kernels_agree_with_the_definition() {
    for case in cases(&[[1, 1], [5, 3], [2, 7]], &[[1, 1], [3, 3], [2, 3]]) {
        let case = Case {
            channels: case.channels.min(2),
            outputs: case.outputs.min(3),
            ..case
        };
        let inputs = case.inputs();
        let found = gradients(&inputs, &[], Way::Straight, case.of(fused));
        let expected = differences(&inputs, |inputs| case.definition(inputs));
        assert_close(&found, &expected, 1e-5, &format!("{case:?}"));
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for case in cases(&[[1, 1], [5, 7], [6, 17]], &[[1, 1], [3, 3]]) {
        let name = format!("{case:?}");
        assert_spreads(
            &case.inputs(),
            &NOT_FINITE,
            &name,
            case.of(fused),
            case.of(plain),
        );
    }
}

/// Kernels of even and odd sizes; few channels, enough for matrix products, and large enough to use Fourier transforms.
#[test]
fn the_size_is_kept() {
    for size in 1..=7 {
        for (images, channels, outputs, [height, width]) in [
            (1, 2, 3, [1, 1]),
            (3, 9, 17, [5, 7]),
            (40, 33, 35, [5, 5]),
            (9, 32, 40, [16, 17]),
        ] {
            let image = [images, channels, height, width];
            let weight = [outputs, channels, size, size];
            let inputs = [
                numbers(image.iter().product(), 1),
                numbers(weight.iter().product(), 2),
                numbers(outputs, 3),
            ];
            let of = |f: fn(Tensor<4>, Tensor<4>, Tensor<1>) -> Tensor<4>| {
                move |inputs: Vec<Tensor<1>>, way: Way| {
                    let [input, kernel, bias]: [_; 3] = inputs.try_into().unwrap();
                    f(
                        arranged(input, image, way),
                        arranged(kernel, weight, way),
                        arranged(bias, [outputs], way),
                    )
                }
            };
            let name = format!("{image:?} by {weight:?}");
            assert_same(&inputs, 2e-5, &name, of(fused_same), of(plain_same));
        }
    }
}

/// The image, then weight and bias of each kernel.
fn bank_inputs(shape: [usize; 4], kernels: &[[usize; 2]]) -> Vec<Vec<f32>> {
    let mut inputs = vec![numbers(shape.iter().product(), 1)];
    for (&[outputs, size], seed) in kernels.iter().zip(2..) {
        inputs.push(numbers(outputs * shape[1] * size * size, seed));
        inputs.push(numbers(outputs, seed + 50));
    }
    inputs
}

fn bank(
    shape: [usize; 4],
    kernels: &[[usize; 2]],
    f: fn(Tensor<4>, Vec<(Tensor<4>, Tensor<1>)>) -> Tensor<4>,
) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<4> {
    move |inputs, way| {
        let layers = kernels.iter().zip(inputs[1..].chunks_exact(2));
        let layers = layers.map(|(&[outputs, size], layer)| {
            (
                arranged(layer[0].clone(), [outputs, shape[1], size, size], way),
                arranged(layer[1].clone(), [outputs], way),
            )
        });
        f(arranged(inputs[0].clone(), shape, way), layers.collect())
    }
}

#[test]
fn a_bank_agrees_with_its_convolutions() {
    for (shape, kernels) in [
        ([2, 3, 32, 32], vec![[8, 1], [8, 3], [8, 5], [8, 7]]),
        ([3, 2, 5, 7], vec![[3, 5], [9, 1], [1, 3]]),
        ([1, 9, 13, 16], vec![[17, 3]]),
        ([11, 1, 1, 37], vec![[1, 3], [5, 1]]),
        ([3, 4, 6, 5], vec![[3, 2], [9, 1], [2, 4]]),
        ([1, 1, 1, 1], vec![[1, 7], [2, 1]]),
        // Large enough to use Fourier transforms.
        ([17, 19, 16, 15], vec![[8, 1], [8, 3], [11, 5], [8, 7]]),
        ([5, 32, 32, 32], vec![[8, 1], [8, 3], [8, 5], [8, 7]]),
    ] {
        let (name, inputs) = (
            format!("{shape:?}, {kernels:?}"),
            bank_inputs(shape, &kernels),
        );
        let plain = bank(shape, &kernels, plain_bank);
        let kernel = bank(shape, &kernels, fused_bank);
        assert_same(&inputs, 2e-5, &name, kernel, plain);
    }
}

#[test]
fn a_bank_agrees_with_the_definition() {
    let (shape, kernels) = ([2, 2, 5, 7], [[3, 5], [9, 1], [1, 3]]);
    let inputs = bank_inputs(shape, &kernels);
    let found = gradients(
        &inputs,
        &[],
        Way::Straight,
        bank(shape, &kernels, fused_bank),
    );
    let expected = differences(&inputs, |inputs| {
        let outputs: Vec<Vec<f64>> = kernels
            .iter()
            .zip(inputs[1..].chunks_exact(2))
            .map(|(&[outputs, size], layer)| {
                let case = Case {
                    images: shape[0],
                    channels: shape[1],
                    outputs,
                    size: [shape[2], shape[3]],
                    kernel: [size; 2],
                    stride: 1,
                    padding: size / 2,
                    transposed: None,
                };
                case.definition(&[inputs[0].clone(), layer[0].clone(), layer[1].clone()])
            })
            .collect();
        let of_image = |n: usize| {
            outputs.iter().flat_map(move |output| {
                let share = output.len() / shape[0];
                output[n * share..][..share].to_vec()
            })
        };
        (0..shape[0]).flat_map(of_image).collect()
    });
    assert_close(&found, &expected, 1e-5, "a bank");
}
