//! Matrix products without gradients.

use burn::tensor::Tensor;

/// `left right`, `[rows, depth]` times `[depth, columns]`; not on an autodiff device.
pub fn product(left: Tensor<2>, right: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&left.device()) {
        return crate::flex::product(left, right);
    }
    left.matmul(right)
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use crate::check::{tensor, values};
    use burn::tensor::Device;

    #[test]
    fn the_kernel_agrees_with_the_plain_product() {
        let device = Device::default();
        for [rows, depth, columns] in [[1, 1, 1], [3, 7, 5], [40, 20, 33]] {
            let left = tensor::<2>([rows, depth], 1, &device);
            let right = tensor::<2>([depth, columns], 2, &device);
            let wide = tensor::<2>([depth, columns + 3], 3, &device);
            let left_turned = tensor::<2>([depth, rows], 4, &device).transpose();
            let right_turned = tensor::<2>([columns, depth], 5, &device).transpose();
            for left in [left, left_turned] {
                let piece = wide.clone().narrow(1, 2, columns);
                for right in [right.clone(), right_turned.clone(), piece] {
                    let found = crate::flex::product(left.clone(), right.clone());
                    let expected = left.clone().matmul(right);
                    assert_eq!(found.dims(), [rows, columns]);
                    for (found, expected) in values(found).iter().zip(values(expected)) {
                        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
                    }
                }
            }
        }
    }
}
