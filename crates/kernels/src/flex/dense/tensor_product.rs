//! Matrix products whose result, and for some also the arguments, are tensors.

use super::product::{Matrix, numbers};
use crate::flex::{Raw, contiguous, raw, slice};
use burn::backend::{Flex, ops::FloatTensorOps};

/// `left right`, `[rows of left, columns of right]`.
///
/// # Panics
/// If the inner sizes differ.
pub(crate) fn matrix_product(left: Matrix<'_>, right: Matrix<'_>) -> Raw {
    raw(numbers(left, right), [left.rows(), right.columns()])
}

/// The same for tensors; the transpose of a contiguous tensor is read without a copy.
pub(crate) fn tensor_product([left, right]: [Raw; 2]) -> Raw {
    let lie = |tensor: Raw| {
        let turned = Flex::float_transpose(tensor.clone());
        match tensor.as_slice::<f32>().is_none() && turned.as_slice::<f32>().is_some() {
            true => (turned, true),
            false => (contiguous(&tensor), false),
        }
    };
    let (left, right) = (lie(left), lie(right));
    fn matrix((tensor, turned): &(Raw, bool)) -> Matrix<'_> {
        let matrix = Matrix::new(slice(tensor), tensor.layout().shape().dims());
        match turned {
            true => matrix.turned(),
            false => matrix,
        }
    }
    matrix_product(matrix(&left), matrix(&right))
}
