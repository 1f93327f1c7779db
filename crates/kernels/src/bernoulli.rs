//! Bernoulli likelihood from logits.

use burn::tensor::{Tensor, activation};

/// `log p(x | logit l) = x l - softplus(l)`, summed over the last axis, in nats.
///
/// `x` may be any number in `[0, 1]` (soft targets).
///
/// # Shapes
/// `x`, `logits`: `[rows, size]`; returns `[rows]`. No gradient flows to `x`, which is data.
pub fn log_likelihood(x: Tensor<2>, logits: Tensor<2>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&logits.device()) {
        return crate::flex::bernoulli(x, logits);
    }
    plain(x, logits)
}

fn plain(x: Tensor<2>, logits: Tensor<2>) -> Tensor<1> {
    // -softplus(l) = log sig(-l)
    (x * logits.clone() + activation::log_sigmoid(logits.neg()))
        .sum_dim(1)
        .squeeze_dim(1)
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::check::{
        NOT_FINITE, Way, arranged, assert_close, assert_same, assert_spreads, differences,
        gradients, numbers,
    };

    fn logits([rows, size]: [usize; 2]) -> Vec<Vec<f32>> {
        let numbers = numbers(rows * size, 1);
        vec![numbers.iter().map(|x| 20.0 * x).collect()]
    }

    fn data([rows, size]: [usize; 2]) -> Vec<f32> {
        let numbers = numbers(rows * size, 2);
        numbers.into_iter().map(f32::abs).collect()
    }

    fn of(
        shape: [usize; 2],
        f: fn(Tensor<2>, Tensor<2>) -> Tensor<1>,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<1> {
        move |inputs, way| {
            let logits = arranged(inputs[0].clone(), shape, way);
            let x = Tensor::from_floats(data(shape).as_slice(), &logits.device());
            f(arranged(x, shape, way), logits)
        }
    }

    fn definition(x: &[f32], logits: &[f64], size: usize) -> Vec<f64> {
        let terms: Vec<f64> = x
            .iter()
            .zip(logits)
            .map(|(x, l)| f64::from(*x) * l - l.max(0.0) - (-l.abs()).exp().ln_1p())
            .collect();
        terms.chunks(size).map(|row| row.iter().sum()).collect()
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        for shape in [
            [1, 1],
            [7, 1],
            [1, 17],
            [3, 16],
            [5, 37],
            [31, 101],
            [200, 784],
        ] {
            let kernel = of(shape, crate::flex::bernoulli);
            let name = format!("{shape:?}");
            assert_same(&logits(shape), 3e-6, &name, kernel, of(shape, plain));
        }
    }

    #[test]
    fn the_kernel_agrees_with_the_definition() {
        for shape in [[1, 1], [7, 1], [1, 17], [3, 16], [5, 37]] {
            let logits = logits(shape);
            let kernel = of(shape, crate::flex::bernoulli);
            let found = gradients(&logits, &[], Way::Straight, kernel);
            let x = data(shape);
            let expected = differences(&logits, |l| definition(&x, &l[0], shape[1]));
            assert_close(&found, &expected, 2e-6, &format!("{shape:?}"));
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1], [3, 16], [2, 37]] {
            let kernel = of(shape, crate::flex::bernoulli);
            let name = format!("{shape:?}");
            assert_spreads(&logits(shape), &NOT_FINITE, &name, kernel, of(shape, plain));
        }
    }
}
