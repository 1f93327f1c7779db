//! The gate of a highway layer (Srivastava et al. 2015).

use burn::tensor::{Tensor, activation};

/// Nonlinearity of the units that the gate lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// `f(u) = u`
    Linear,
    /// `f(u) = u`, or `e^u - 1` below zero.
    Elu,
}

/// First columns of the terms of a mixture in `[rows, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// First column of the carried term, if it is part of `all`.
    pub(crate) carried: Option<usize>,
    pub(crate) units: usize,
    pub(crate) gate: usize,
}

/// `sig(g) a + (1 - sig(g)) elu(u)` for `a`, `u` and `g` side by side.
///
/// # Shapes
/// `all`: `[rows, 3 * size]`; returns `[rows, size]`.
pub fn highway_packed(all: Tensor<2>) -> Tensor<2> {
    let size = all.dims()[1] / 3;
    let columns = Columns {
        carried: Some(0),
        units: size,
        gate: 2 * size,
    };
    mix(all.clone(), all.narrow(1, 0, size), columns, Units::Elu)
}

/// `sig(g) a + (1 - sig(g)) f(u)`, where `u` and `g` are side by side in `all`, starting at column `first`.
///
/// # Shapes
/// `all`: `[rows, width]`; `carried`, `a`: `[rows, size]`; returns `[rows, size]`.
///
/// # Panics
/// If `all` does not have `2 * size` columns from `first` on.
pub fn highway_at(all: Tensor<2>, carried: Tensor<2>, first: usize, units: Units) -> Tensor<2> {
    let columns = Columns {
        carried: None,
        units: first,
        gate: first + carried.dims()[1],
    };
    mix(all, carried, columns, units)
}

fn mix(all: Tensor<2>, carried: Tensor<2>, columns: Columns, units: Units) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::fused(&all.device()) {
        return fused(all, carried, columns, units);
    }
    plain(all, carried, columns, units)
}

#[cfg(feature = "flex")]
fn fused(all: Tensor<2>, carried: Tensor<2>, columns: Columns, units: Units) -> Tensor<2> {
    // If the carried term is part of `all`, its gradient goes there.
    let carried = match columns.carried {
        Some(_) => carried.detach(),
        None => carried,
    };
    crate::flex::highway(all, carried, columns, units)
}

fn plain(all: Tensor<2>, carried: Tensor<2>, columns: Columns, units: Units) -> Tensor<2> {
    let size = carried.dims()[1];
    let part = |first: usize| all.clone().narrow(1, first, size);
    let gate = activation::sigmoid(part(columns.gate));
    let new = match units {
        Units::Linear => part(columns.units),
        Units::Elu => activation::elu(part(columns.units), 1.0),
    };
    gate * (carried - new.clone()) + new
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::check::{
        Way, arranged, assert_close, assert_same, assert_spreads, differences, gradients, numbers,
    };

    const SHAPES: [[usize; 2]; 6] = [[1, 1], [7, 1], [2, 16], [5, 33], [40, 100], [300, 256]];

    /// Three parts side by side, and the carried term separately.
    fn inputs([rows, size]: [usize; 2]) -> Vec<Vec<f32>> {
        let all = numbers(rows * 4 * size, 1);
        let all = all.into_iter().map(|x| 4.0 * x).collect();
        vec![all, numbers(rows * size, 2)]
    }

    /// All layouts of the terms: the carried term among four parts, or separate.
    fn ways(size: usize) -> [(Columns, Units); 3] {
        let at = |carried: Option<usize>, units, gate| Columns {
            carried: carried.map(|part| part * size),
            units: units * size,
            gate: gate * size,
        };
        [
            (at(Some(0), 1, 2), Units::Elu),
            (at(None, 2, 3), Units::Linear),
            (at(None, 0, 1), Units::Elu),
        ]
    }

    type Mix = fn(Tensor<2>, Tensor<2>, Columns, Units) -> Tensor<2>;

    fn of(
        [rows, size]: [usize; 2],
        (columns, units): (Columns, Units),
        f: Mix,
    ) -> impl Fn(Vec<Tensor<1>>, Way) -> Tensor<2> {
        move |parts, way| {
            let [all, apart]: [_; 2] = parts.try_into().unwrap();
            let all = arranged(all, [rows, 4 * size], way);
            let apart = arranged(apart, [rows, size], way);
            let carried = match columns.carried {
                Some(first) => all.clone().narrow(1, first, size),
                None => apart.clone(),
            };
            // The added term gives all inputs a gradient, whichever is carried.
            f(all, carried, columns, units) + apart * 0.5
        }
    }

    fn definition(parts: &[Vec<f64>], size: usize, (columns, units): (Columns, Units)) -> Vec<f64> {
        let one = |place: usize| {
            let at = |first: usize| parts[0][place / size * 4 * size + first + place % size];
            let apart = parts[1][place];
            let carried = columns.carried.map_or(apart, at);
            let (u, gate) = (at(columns.units), 1.0 / (1.0 + (-at(columns.gate)).exp()));
            let new = if u > 0.0 || units == Units::Linear {
                u
            } else {
                u.exp_m1()
            };
            gate * carried + (1.0 - gate) * new + 0.5 * apart
        };
        (0..parts[1].len()).map(one).collect()
    }

    #[test]
    fn the_kernel_agrees_with_the_plain_composition() {
        for shape in SHAPES {
            for way in ways(shape[1]) {
                let kernel = of(shape, way, fused);
                let name = format!("{shape:?}, {way:?}");
                assert_same(&inputs(shape), 1e-5, &name, kernel, of(shape, way, plain));
            }
        }
    }

    #[test]
    fn the_kernel_agrees_with_the_definition() {
        for shape in [[1, 1], [2, 5], [3, 17]] {
            for way in ways(shape[1]) {
                let kernel = of(shape, way, fused);
                let found = gradients(&inputs(shape), &[], Way::Straight, kernel);
                let expected =
                    differences(&inputs(shape), |parts| definition(parts, shape[1], way));
                assert_close(&found, &expected, 1e-5, &format!("{shape:?}, {way:?}"));
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for shape in [[1, 1], [3, 17]] {
            for way in ways(shape[1]) {
                let kernel = of(shape, way, fused);
                let name = format!("{shape:?}, {way:?}");
                let plain = of(shape, way, plain);
                assert_spreads(&inputs(shape), &[f32::NAN], &name, kernel, plain);
            }
        }
    }
}
