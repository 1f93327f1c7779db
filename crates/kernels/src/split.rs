//! Splits a sequence into its steps, channels into parts, and a map's output into a Gaussian's parameters.

use burn::tensor::Tensor;
use std::ops::Range;

/// Splits the rows into `parts` equal parts, in order.
///
/// Burn's gradient of a slice is as large as the tensor it was cut from, so cutting each part off separately
/// would cost the square of their number in the backward pass. Here each row is handled once. Where there is no
/// kernel the tensor is halved repeatedly, and each row is handled once per halving.
///
/// # Shapes
/// `[parts * rows, ..]` to `parts` times `[rows, ..]`
///
/// # Panics
/// If the number of rows is not a multiple of `parts`.
pub fn split_rows<const D: usize>(whole: Tensor<D>, parts: usize) -> Vec<Tensor<D>> {
    let rows = whole.dims()[0];
    assert!(
        parts > 0 && rows.is_multiple_of(parts),
        "{rows} rows cannot be split into {parts} equal parts"
    );
    if parts == 1 {
        return vec![whole];
    }
    #[cfg(feature = "flex")]
    if crate::flex::fused(&whole.device()) {
        return crate::flex::split(whole, parts);
    }
    plain_split(whole, parts)
}

fn plain_split<const D: usize>(whole: Tensor<D>, parts: usize) -> Vec<Tensor<D>> {
    let mut split = Vec::with_capacity(parts);
    halve(whole, parts, &mut split);
    split
}

/// Splits the second index into parts: each has the channels of some ranges, in their order. As with [`split_rows`] the
/// gradients of all parts are written once.
///
/// # Shapes
/// `[rows, channels, ..]` to `[rows, channels of the part, ..]`
///
/// # Panics
/// If a part is empty, or a range is outside the channels.
pub fn split_channels<const D: usize>(
    whole: Tensor<D>,
    parts: &[Vec<Range<usize>>],
) -> Vec<Tensor<D>> {
    let channels = whole.dims()[1];
    for ranges in parts {
        let inside = |range: &Range<usize>| range.start < range.end && range.end <= channels;
        assert!(
            !ranges.is_empty() && ranges.iter().all(inside),
            "{ranges:?} are not channels of {channels}"
        );
    }
    #[cfg(feature = "flex")]
    if crate::flex::fused(&whole.device()) {
        return crate::flex::split_channels(whole, parts.to_vec());
    }
    plain_split_channels(whole, parts)
}

fn plain_split_channels<const D: usize>(
    whole: Tensor<D>,
    parts: &[Vec<Range<usize>>],
) -> Vec<Tensor<D>> {
    let range = |range: &Range<usize>| whole.clone().narrow(1, range.start, range.len());
    let part = |ranges: &Vec<Range<usize>>| match &ranges[..] {
        [only] => range(only),
        _ => Tensor::cat(ranges.iter().map(range).collect(), 1),
    };
    parts.iter().map(part).collect()
}

/// Mean and log standard deviation from a map's output: its first half, and its second half clamped to `bounds`.
///
/// # Shapes
/// `[rows, 2 * size]` to `[rows, size]` twice
///
/// # Panics
/// If the width is odd.
pub fn halves(whole: Tensor<2>, bounds: [f64; 2]) -> (Tensor<2>, Tensor<2>) {
    assert!(whole.dims()[1].is_multiple_of(2), "the width must be even");
    #[cfg(feature = "flex")]
    if crate::flex::fused(&whole.device()) {
        return crate::flex::halves(whole, bounds.map(|bound| bound as f32));
    }
    plain_halves(whole, bounds)
}

fn plain_halves(whole: Tensor<2>, [low, high]: [f64; 2]) -> (Tensor<2>, Tensor<2>) {
    let size = whole.dims()[1] / 2;
    let second = whole.clone().narrow(1, size, size).clamp(low, high);
    (whole.narrow(1, 0, size), second)
}

fn halve<const D: usize>(whole: Tensor<D>, parts: usize, split: &mut Vec<Tensor<D>>) {
    if parts == 1 {
        return split.push(whole);
    }
    let part = whole.dims()[0] / parts;
    let first = parts / 2;
    halve(whole.clone().narrow(0, 0, first * part), first, split);
    let rest = parts - first;
    halve(whole.narrow(0, first * part, rest * part), rest, split);
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn parts_are_in_order_and_gradients_come_back_to_their_rows() {
        let device = Device::default().autodiff();
        for (parts, rows) in [
            (1, 1),
            (1, 3),
            (2, 1),
            (5, 2),
            (8, 1),
            (13, 3),
            (31, 17),
            (101, 1),
        ] {
            let count = parts * rows;
            let values: Vec<f32> = (0..2 * count).map(|value| value as f32).collect();
            let whole = Tensor::<1>::from_floats(values.as_slice(), &device)
                .reshape([count, 2])
                .detach()
                .require_grad();
            let split = split_rows(whole.clone(), parts);
            assert_eq!(split.len(), parts);
            let again = Tensor::cat(split.clone(), 0).into_data();
            assert_eq!(again.try_into_vec::<f32>().unwrap(), values);
            let weighted = split.into_iter().enumerate();
            let weighted = weighted.map(|(part, rows)| rows.mul_scalar(part as f32 + 1.0).sum());
            let gradients = Tensor::cat(weighted.collect(), 0).sum().backward();
            let gradient = whole.grad(&gradients).unwrap().into_data();
            let gradient = gradient.try_into_vec::<f32>().unwrap();
            for (index, gradient) in gradient.into_iter().enumerate() {
                assert_eq!(gradient, (index / (2 * rows)) as f32 + 1.0);
            }
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod kernel {
    use super::*;
    use crate::check::{Way, arranged, assert_same, assert_spreads, numbers};

    const BOUNDS: [f64; 2] = [-0.5, 0.75];

    /// Both halves, or one of them, as one output.
    fn of(
        [rows, size]: [usize; 2],
        which: usize,
        f: impl Fn(Tensor<2>) -> (Tensor<2>, Tensor<2>),
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |inputs, way| {
            let whole = arranged(inputs[0].clone(), [rows, 2 * size], way);
            let (first, second) = f(whole);
            match which {
                0 => first,
                1 => second,
                _ => Tensor::cat(vec![first * 2.0, second], 1),
            }
        }
    }

    /// Parts of three indices each. Parts that are not used have no gradient.
    #[test]
    fn parts_agree_with_the_plain_composition() {
        for (parts, rows, used) in [(2, 1, 0b11), (5, 3, 0b01101), (4, 2, 0b0010), (8, 1, 0xff)] {
            let shape = [parts * rows, 3, 2];
            let inputs = [numbers(shape.iter().product(), 1)];
            let of = |f: fn(Tensor<3>, usize) -> Vec<Tensor<3>>| {
                move |inputs: Vec<Tensor<1>>, way| {
                    let split = f(arranged(inputs[0].clone(), shape, way), parts);
                    let split = split.into_iter().enumerate();
                    let used = split.filter(|(part, _)| used >> part & 1 == 1);
                    let used = used.map(|(part, rows)| rows * (part as f32 + 1.0));
                    Tensor::cat(used.collect(), 0)
                }
            };
            let name = format!("{parts} parts of {rows}");
            let (kernel, plain) = (of(crate::flex::split), of(plain_split));
            assert_same(&inputs, 1e-6, &name, kernel, plain);
        }
    }

    type Channels = fn(Tensor<3>, &[Vec<Range<usize>>]) -> Vec<Tensor<3>>;

    /// Parts of several ranges, parts that share channels, channels and parts that are not used.
    #[test]
    fn channels_agree_with_the_plain_composition() {
        for (shape, parts, used) in [
            ([2, 3, 4], vec![vec![0..1, 2..3], vec![1..2]], 0b11),
            ([5, 7, 9], vec![vec![3..5], vec![0..2, 1..6]], 0b11),
            (
                [4, 6, 1],
                vec![vec![5..6, 0..1], vec![1..4], vec![4..5]],
                0b101,
            ),
            ([1, 17, 3], vec![vec![0..17]], 0b1),
        ] {
            let inputs = [numbers(shape.iter().product(), 1)];
            let of = |f: Channels| {
                let parts = parts.clone();
                move |inputs: Vec<Tensor<1>>, way| {
                    let split = f(arranged(inputs[0].clone(), shape, way), &parts);
                    let split = split.into_iter().enumerate();
                    let used = split.filter(|(part, _)| used >> part & 1 == 1);
                    let used = used.map(|(part, channels)| channels * (part as f32 + 1.0));
                    Tensor::cat(used.collect(), 1)
                }
            };
            let name = format!("{shape:?}, {parts:?}");
            assert_same(
                &inputs,
                1e-6,
                &name,
                of(split_channels),
                of(plain_split_channels),
            );
        }
    }

    #[test]
    fn halves_agree_with_the_plain_composition() {
        for shape in [[1, 1], [7, 1], [1, 17], [5, 16], [31, 37], [300, 200]] {
            for which in 0..3 {
                let inputs = [numbers(2 * shape[0] * shape[1], 1)];
                let name = format!("{shape:?}, {which}");
                let kernel = |whole| crate::flex::halves(whole, BOUNDS.map(|bound| bound as f32));
                let kernel = of(shape, which, kernel);
                let plain = of(shape, which, |whole| plain_halves(whole, BOUNDS));
                assert_same(&inputs, 1e-6, &name, &kernel, &plain);
                assert_spreads(&inputs, &[f32::NAN], &name, kernel, plain);
            }
        }
    }
}
