//! The output of CDNA and SV2P: the frame before, moved by kernels and put together by masks.

use crate::visual::{Filter, Kernel};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{
        Tensor,
        activation::{relu, sigmoid, softmax},
    },
};
use mnemora_kernels::{
    conv::conv2d_same,
    linear::{Activation, linear},
};
use mnemora_memory::{Count, Initializer};

/// The smallest number of a kernel before it is normalised.
const RELU_SHIFT: f64 = 1e-12;
/// From maps to masks and to the generated frame.
const POINT: Kernel = Kernel::same(1);

/// Kernels that sum to one: `kernel / sum of kernel` with `kernel = relu(raw - s) + s`, `s = 1e-12`.
///
/// # Shapes
/// `[rows, kernels, size * size]` to the same
pub fn normalised(raw: Tensor<3>) -> Tensor<3> {
    let kernels = relu(raw.sub_scalar(RELU_SHIFT)).add_scalar(RELU_SHIFT);
    kernels.clone() / kernels.sum_dim(2)
}

/// The `size * size` pixels around each pixel, zeros outside the frame: `[rows, channels, size * size, pixels]` of frames
/// `[rows, channels, height, width]`, row by row of the square.
fn surroundings(frames: Tensor<4>, size: usize) -> Tensor<4> {
    let [rows, channels, height, width] = frames.dims();
    let device = frames.device();
    let places = size * size;
    // A convolution with one kernel for each place copies the pixel at that place.
    let copies = Tensor::<2>::eye(places, &device).reshape([places, 1, size, size]);
    let nothing = Tensor::zeros([places], &device);
    let planes = frames.reshape([rows * channels, 1, height, width]);
    let around = conv2d_same(planes, copies, nothing);
    around.reshape([rows, channels, places, height * width])
}

/// The next frame:
///
/// ```text
/// moved_k[i, j] = sum_{a, b} kernel_k[a, b] previous[i + a - p, j + b - p],  p = size / 2, zeros outside; all channels alike
/// frame = masks_0 previous + masks_1 generated + sum_{k = 1..} masks_{k+1} moved_k
/// ```
///
/// There is one mask more than there are kernels, for two images more than kernels, and both public releases pair masks and
/// images one by one until the masks end: the last kernel is not used.
///
/// Both sums over kernels and places are exchanged: masks and kernels first give one kernel for each pixel, so that no moved
/// frame is made.
///
/// # Shapes
/// - `previous`, `generated`: `[rows, channels, height, width]`
/// - `kernels`: `[rows, kernels, size * size]`, [normalised]
/// - `masks`: `[rows, kernels + 1, height, width]`, of each pixel they sum to one
///
/// Finn et al. 2016, section 3.2.
pub fn put_together(
    previous: Tensor<4>,
    generated: Tensor<4>,
    kernels: Tensor<3>,
    masks: Tensor<4>,
) -> Tensor<4> {
    let [rows, channels, height, width] = previous.dims();
    let [_, count, places] = kernels.dims();
    let (size, used, pixels) = (places.isqrt(), count - 1, height * width);
    let stays = masks.clone().narrow(1, 0, 1) * previous.clone();
    let new = masks.clone().narrow(1, 1, 1) * generated;
    if used == 0 {
        return stays + new;
    }
    let shares = masks.narrow(1, 2, used).reshape([rows, used, pixels]);
    let of_pixels = kernels.narrow(1, 0, used).swap_dims(1, 2).matmul(shares);
    let around = surroundings(previous, size);
    let moved = around * of_pixels.reshape([rows, 1, places, pixels]);
    stays + new + moved.sum_dim(2).reshape([rows, channels, height, width])
}

/// The layers between a predictor's maps and its frame.
#[derive(Module, Debug)]
pub struct Movement {
    /// From the flattened coarsest maps to all kernels.
    pub kernels: Linear,
    /// From the finest maps to the masks.
    pub masks: Filter,
    /// From the finest maps to the generated frame.
    pub generated: Filter,
    count: usize,
}

impl Movement {
    /// `coarse` are numbers of the coarsest maps, `fine` channels of the finest.
    pub(super) fn new(
        [coarse, fine, channels]: [usize; 3],
        [count, size]: [usize; 2],
        init: &mut Initializer,
    ) -> Self {
        Self {
            kernels: init.linear(coarse, count * size * size),
            masks: Filter::new([fine, count + 1], POINT, init),
            generated: Filter::new([fine, channels], POINT, init),
            count,
        }
    }

    /// Numbers kept for a frame of `pixels` pixels.
    pub(super) fn kept(&self, pixels: usize) -> Count {
        let channels = self.generated.bias.shape()[0];
        let places = self.kernels.weight.dims()[1] / self.count;
        let of_pixel = 2 * channels * places + places + 4 * (self.count + 1) + 6 * channels;
        Count::product(&[of_pixel, pixels]) + 4 * self.count * places
    }

    /// The next frames, `[rows, channels, height, width]`.
    ///
    /// # Shapes
    /// - `coarse`: `[rows, coarse]`
    /// - `fine`: `[rows, fine, height, width]`
    /// - `previous`: `[rows, channels, height, width]`
    pub fn forward(&self, coarse: Tensor<2>, fine: Tensor<4>, previous: Tensor<4>) -> Tensor<4> {
        let rows = coarse.dims()[0];
        let weight = self.kernels.weight.val();
        let places = weight.dims()[1] / self.count;
        let bias = self.kernels.bias.as_ref().expect("kernels have a bias");
        let raw = linear(coarse, weight, bias.val(), Activation::Identity);
        let kernels = normalised(raw.reshape([rows, self.count, places]));
        let masks = softmax(self.masks.forward(fine.clone(), POINT), 1);
        let generated = sigmoid(self.generated.forward(fine, POINT));
        put_together(previous, generated, kernels, masks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{numbers, values};
    use burn::tensor::Device;

    /// Masks of one image alone, `[rows, count, height, width]`.
    fn only(image: usize, [rows, count, height, width]: [usize; 4]) -> Tensor<4> {
        let device = Device::default();
        let one = Tensor::<2>::eye(count, &device).narrow(0, image, 1);
        one.reshape([1, count, 1, 1])
            .expand([rows, count, height, width])
    }

    #[test]
    fn kernels_sum_to_one() {
        let raw = numbers([2, 3, 25], 0.2, &Device::default());
        let nothing = Tensor::<3>::ones([2, 1, 25], &Device::default()).neg();
        let kernels = normalised(Tensor::cat(vec![raw, nothing], 1));
        let kernels = values(kernels);
        assert!(kernels.iter().all(|weight| *weight >= 0.0));
        for kernel in kernels.chunks(25) {
            assert!((kernel.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
        // Without a positive number a kernel is uniform.
        assert!(kernels[75..100].iter().all(|w| (w - 0.04).abs() < 1e-6));
    }

    /// A kernel whose middle is 1 gives the frame before; one whose first number is 1 moves it by two pixels each way.
    #[test]
    fn a_kernel_of_one_place_moves_the_frame() {
        let (previous, generated) = (
            numbers([1, 2, 6, 5], 0.0, &Device::default()),
            numbers([1, 2, 6, 5], 0.5, &Device::default()),
        );
        let place = |place| Tensor::<2>::eye(25, &Device::default()).narrow(0, place, 1);
        let kernels = Tensor::cat(vec![place(12), place(0), place(3)], 0).reshape([1, 3, 25]);
        let masked = |image| {
            let masks = only(image, [1, 4, 6, 5]);
            let found = put_together(previous.clone(), generated.clone(), kernels.clone(), masks);
            values(found)
        };
        assert_eq!(masked(0), values(previous.clone()));
        assert_eq!(masked(1), values(generated.clone()));
        assert_eq!(masked(2), values(previous.clone()));
        let (moved, before) = (masked(3), values(previous.clone()));
        for (place, value) in moved.iter().enumerate() {
            let (channel, row, column) = (place / 30, place / 5 % 6, place % 5);
            let expected = match (row.checked_sub(2), column.checked_sub(2)) {
                (Some(row), Some(column)) => before[channel * 30 + row * 5 + column],
                _ => 0.0,
            };
            assert_eq!(*value, expected, "{channel} {row} {column}");
        }
    }

    /// What the exchanged sums give is what moving frame by frame gives.
    #[test]
    fn sums_may_be_exchanged() {
        let [rows, channels, height, width] = [2, 3, 5, 4];
        let previous = numbers([rows, channels, height, width], 0.1, &Device::default());
        let generated = numbers([rows, channels, height, width], 0.6, &Device::default());
        let kernels = normalised(numbers([rows, 4, 9], 0.3, &Device::default()));
        let masks = softmax(
            numbers([rows, 5, height, width], 0.4, &Device::default()),
            1,
        );
        let whole = values(put_together(
            previous.clone(),
            generated.clone(),
            kernels.clone(),
            masks.clone(),
        ));
        let parts = (0..5).map(|image| {
            let alone = only(image, [rows, 5, height, width]);
            let image_alone =
                put_together(previous.clone(), generated.clone(), kernels.clone(), alone);
            masks.clone().narrow(1, image, 1) * image_alone
        });
        let sum = values(parts.reduce(|sum, part| sum + part).unwrap());
        for (a, b) in whole.iter().zip(sum) {
            assert!((a - b).abs() < 1e-5);
        }
    }
}
