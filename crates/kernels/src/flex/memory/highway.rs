//! The gate of a highway layer, forward and backward in one pass each.

use crate::flex::{
    Raw, contiguous,
    graph::fused::Fused,
    raw,
    simd::{Loop, chunks::for_rows, math, run},
    slice,
};
use crate::highway::{Columns, Units};

/// Cost of an element relative to one addition.
const COST: usize = 4;

/// The inputs of a call. If the carried term is part of `all`, the matrix `carried` is not read.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// `[rows, width]`
    all: Raw,
    /// `[rows, size]`
    carried: Raw,
    columns: Columns,
    units: Units,
}

/// Some rows of the terms.
#[derive(Clone, Copy)]
struct Rows<'a> {
    all: &'a [f32],
    width: usize,
    carried: &'a [f32],
    size: usize,
    columns: Columns,
    units: Units,
}

impl Terms {
    fn sizes(&self) -> [usize; 3] {
        let [rows, width] = self.all.layout().shape().dims();
        let [carried, size] = self.carried.layout().shape().dims();
        assert_eq!(carried, rows, "number of rows of the carried term");
        let Columns {
            carried,
            units,
            gate,
        } = self.columns;
        let last = carried.unwrap_or(0).max(units).max(gate);
        assert!(
            last + size <= width,
            "a term is outside the columns of the matrix"
        );
        [rows, width, size]
    }

    fn rows(&self, first: usize, count: usize) -> Rows<'_> {
        let [_, width, size] = self.sizes();
        let carried = match self.columns.carried {
            None => &slice(&self.carried)[first * size..][..count * size],
            Some(_) => &[],
        };
        Rows {
            all: &slice(&self.all)[first * width..][..count * width],
            width,
            carried,
            size,
            columns: self.columns,
            units: self.units,
        }
    }
}

impl<'a> Rows<'a> {
    /// The carried term, the units and the gate of a row.
    #[inline(always)]
    fn row(&self, index: usize) -> [&'a [f32]; 3] {
        let all = &self.all[index * self.width..][..self.width];
        let carried = match self.columns.carried {
            None => &self.carried[index * self.size..][..self.size],
            Some(first) => &all[first..][..self.size],
        };
        let [units, gate] =
            [self.columns.units, self.columns.gate].map(|first| &all[first..][..self.size]);
        [carried, units, gate]
    }

    #[inline(always)]
    fn lets_in(&self, u: f32) -> f32 {
        match self.units == Units::Linear || u > 0.0 {
            true => u,
            false => math::exp(u) - 1.0,
        }
    }
}

struct Forward<'a> {
    rows: Rows<'a>,
    output: &'a mut [f32],
}

impl Loop for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let outputs = self.output.chunks_exact_mut(self.rows.size).enumerate();
        for (index, output) in outputs {
            let [carried, units, gate] = self.rows.row(index);
            for (j, output) in output.iter_mut().enumerate() {
                let new = self.rows.lets_in(units[j]);
                *output = math::sigmoid(gate[j]) * (carried[j] - new) + new;
            }
        }
    }
}

/// The gradient of the matrix `all`.
struct Gradient<'a> {
    rows: Rows<'a>,
    outer: &'a [f32],
    /// `[rows, width]`, initially zero.
    output: &'a mut [f32],
}

impl Loop for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Rows {
            size, width, units, ..
        } = self.rows;
        let outputs = self.output.chunks_exact_mut(width).enumerate();
        for ((index, output), outer) in outputs.zip(self.outer.chunks_exact(size)) {
            let terms = self.rows.row(index);
            match units {
                Units::Linear => gradient_of_row::<true>(terms, outer, self.rows.columns, output),
                Units::Elu => gradient_of_row::<false>(terms, outer, self.rows.columns, output),
            }
        }
    }
}

/// The gradient of some columns of a row.
#[inline(always)]
fn gradient_of_row<const LINEAR: bool>(
    terms: [&[f32]; 3],
    outer: &[f32],
    columns: Columns,
    output: &mut [f32],
) {
    const BLOCK: usize = 64;
    for first in (0..outer.len()).step_by(BLOCK) {
        let count = BLOCK.min(outer.len() - first);
        let [carried, units, gate] = terms.map(|term| &term[first..][..count]);
        let outer = &outer[first..][..count];
        let [mut s, mut new, mut slope] = [[0.0; BLOCK]; 3];
        for (s, gate) in s.iter_mut().zip(gate) {
            *s = math::sigmoid(*gate);
        }
        for ((new, slope), u) in new.iter_mut().zip(&mut slope).zip(units) {
            let e = math::exp(*u);
            let straight = LINEAR || *u > 0.0;
            *new = if straight { *u } else { e - 1.0 };
            *slope = if straight { 1.0 } else { e };
        }
        let to = &mut output[columns.units + first..][..count];
        for (((to, outer), s), slope) in to.iter_mut().zip(outer).zip(&s).zip(&slope) {
            *to = outer * (1.0 - s) * slope;
        }
        let to = &mut output[columns.gate + first..][..count];
        let terms = outer.iter().zip(carried).zip(&s).zip(&new);
        for (to, (((outer, carried), s), new)) in to.iter_mut().zip(terms) {
            *to = outer * (carried - new) * s * (1.0 - s);
        }
        if let Some(carried) = columns.carried {
            let to = &mut output[carried + first..][..count];
            for ((to, outer), s) in to.iter_mut().zip(outer).zip(&s) {
                *to = outer * s;
            }
        }
    }
}

/// The gradient of the carried term if it is separate.
struct ToCarried<'a> {
    rows: Rows<'a>,
    outer: &'a [f32],
    output: &'a mut [f32],
}

impl Loop for ToCarried<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.rows.size;
        let outputs = self.output.chunks_exact_mut(size).enumerate();
        for ((index, output), outer) in outputs.zip(self.outer.chunks_exact(size)) {
            let [_, _, gate] = self.rows.row(index);
            for j in 0..size {
                output[j] = outer[j] * math::sigmoid(gate[j]);
            }
        }
    }
}

fn forward_of(terms: &Terms) -> Raw {
    let [rows, _, size] = terms.sizes();
    let mut output = vec![0.0; rows * size];
    for_rows(&mut output, size, COST * size, |first, output| {
        let rows = terms.rows(first, output.len() / size);
        run(Forward { rows, output });
    });
    raw(output, [rows, size])
}

/// The gradient of the matrix `all`.
fn gradient(terms: &Terms, outer: &Raw) -> Raw {
    let [rows, width, size] = terms.sizes();
    let mut output = vec![0.0; rows * width];
    for_rows(&mut output, width, COST * size, |first, output| {
        let count = output.len() / width;
        run(Gradient {
            rows: terms.rows(first, count),
            outer: &slice(outer)[first * size..][..count * size],
            output,
        });
    });
    raw(output, [rows, width])
}

/// The gradient of the separate carried term.
fn to_carried(terms: &Terms, outer: &Raw) -> Raw {
    let [rows, _, size] = terms.sizes();
    let mut output = vec![0.0; rows * size];
    for_rows(&mut output, size, COST * size, |first, output| {
        let count = output.len() / size;
        run(ToCarried {
            rows: terms.rows(first, count),
            outer: &slice(outer)[first * size..][..count * size],
            output,
        });
    });
    raw(output, [rows, size])
}

fn terms(all: &Raw, carried: &Raw, columns: Columns, units: Units) -> Terms {
    // If the carried term is part of `all`, only the size of `carried` is used.
    let carried = match columns.carried {
        None => contiguous(carried),
        Some(_) => carried.clone(),
    };
    Terms {
        all: contiguous(all),
        carried,
        columns,
        units,
    }
}

/// See [`crate::highway`]. Inputs: the matrix `all`, and the carried term. If the carried term is part of `all`,
/// its gradient goes there, and `carried` must not be tracked.
pub(crate) struct Highway {
    pub(crate) columns: Columns,
    pub(crate) units: Units,
}

impl Fused<2> for Highway {
    type Outputs = Raw;
    type Saved = Terms;

    fn forward(self, [all, carried]: [Raw; 2]) -> (Raw, Terms) {
        let terms = terms(&all, &carried, self.columns, self.units);
        (forward_of(&terms), terms)
    }

    fn backward(terms: Terms, outer: Raw, wanted: [bool; 2]) -> [Option<Raw>; 2] {
        let outer = contiguous(&outer);
        let [to_all, to_apart] = wanted;
        [
            to_all.then(|| gradient(&terms, &outer)),
            to_apart.then(|| to_carried(&terms, &outer)),
        ]
    }
}
