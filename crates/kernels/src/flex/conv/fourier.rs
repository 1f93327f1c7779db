//! Discrete Fourier transforms of short signals, a vector of signals at a time.
//!
//! `X[k] = sum_n x[n] exp(-2 pi i k n / N)` in two stages for `N = A B`, with `n = B a + b` and
//! `k = k1 + A k2`:
//!
//! `X[k] = sum_b exp(-2 pi i b k2 / B) exp(-2 pi i b k1 / N) sum_a x[B a + b] exp(-2 pi i a k1 / A)`
//!
//! The inverse (without division by `N`) is the same transform with real and imaginary parts exchanged before
//! and after.

use pulp::{NullaryFnOnce, Simd};
use std::f64::consts::TAU;

/// Real and imaginary parts of a vector of numbers.
pub(crate) type Complex<S> = [<S as Simd>::f32s; 2];

/// The available lengths, as pairs of factors.
const LENGTHS: [[usize; 2]; 10] = [
    [2, 3],
    [2, 4],
    [2, 5],
    [3, 4],
    [4, 4],
    [3, 6],
    [4, 5],
    [4, 6],
    [5, 6],
    [6, 6],
];

/// The transform of one length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fourier {
    factors: [usize; 2],
    /// `exp(-2 pi i k / N)`
    roots: Vec<[f32; 2]>,
}

/// A signal in memory: elements `first + n * step` for `n < count`. When it is read, elements beyond are zero;
/// when it is written, elements beyond are discarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided {
    pub(crate) first: usize,
    pub(crate) step: usize,
    pub(crate) count: usize,
}

impl Fourier {
    /// The shortest transform of at least `length`; `None` if there is none that long.
    pub(crate) fn at_least(length: usize) -> Option<Self> {
        let factors = *LENGTHS.iter().find(|[a, b]| a * b >= length)?;
        let length = factors[0] * factors[1];
        let roots = (0..length).map(|k| {
            let (sin, cos) = (TAU * k as f64 / length as f64).sin_cos();
            [cos as f32, -sin as f32]
        });
        Some(Self {
            factors,
            roots: roots.collect(),
        })
    }

    /// `N`
    pub(crate) fn length(&self) -> usize {
        self.roots.len()
    }

    /// The number of frequencies that determine the spectrum of a real signal: 0 to `N / 2`.
    pub(crate) fn half(&self) -> usize {
        self.length() / 2 + 1
    }

    /// `exp(-2 pi i k n / N)`
    pub(crate) fn root(&self, k: usize, n: isize) -> [f32; 2] {
        let n = n.rem_euclid(self.length() as isize) as usize;
        self.roots[k * n % self.length()]
    }

    /// Transforms a signal or, with `INVERSE`, a spectrum.
    ///
    /// Calls a function that is compiled once for each instruction set: every length in every place that transforms would
    /// take the compiler long.
    #[inline(always)]
    pub(crate) fn transform<S: Simd, const INVERSE: bool>(
        &self,
        simd: S,
        input: (&[Complex<S>], Strided),
        output: (&mut [Complex<S>], Strided),
    ) {
        simd.vectorize(Transform::<S, INVERSE> {
            simd,
            fourier: self,
            input,
            output,
        });
    }
}

/// See [`Fourier::transform`].
struct Transform<'a, S: Simd, const INVERSE: bool> {
    simd: S,
    fourier: &'a Fourier,
    input: (&'a [Complex<S>], Strided),
    output: (&'a mut [Complex<S>], Strided),
}

impl<S: Simd, const INVERSE: bool> NullaryFnOnce for Transform<'_, S, INVERSE> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Fourier { factors, roots } = self.fourier;
        let (simd, x, y) = (self.simd, self.input, self.output);
        match factors {
            [2, 3] => stages::<S, 2, 3, INVERSE>(simd, roots, x, y),
            [2, 4] => stages::<S, 2, 4, INVERSE>(simd, roots, x, y),
            [2, 5] => stages::<S, 2, 5, INVERSE>(simd, roots, x, y),
            [3, 4] => stages::<S, 3, 4, INVERSE>(simd, roots, x, y),
            [4, 4] => stages::<S, 4, 4, INVERSE>(simd, roots, x, y),
            [3, 6] => stages::<S, 3, 6, INVERSE>(simd, roots, x, y),
            [4, 5] => stages::<S, 4, 5, INVERSE>(simd, roots, x, y),
            [4, 6] => stages::<S, 4, 6, INVERSE>(simd, roots, x, y),
            [5, 6] => stages::<S, 5, 6, INVERSE>(simd, roots, x, y),
            [6, 6] => stages::<S, 6, 6, INVERSE>(simd, roots, x, y),
            other => unreachable!("{other:?} is not one of the lengths"),
        }
    }
}

#[inline(always)]
fn stages<S: Simd, const A: usize, const B: usize, const INVERSE: bool>(
    simd: S,
    roots: &[[f32; 2]],
    (input, from): (&[Complex<S>], Strided),
    (output, to): (&mut [Complex<S>], Strided),
) {
    let zero = [simd.splat_f32s(0.0); 2];
    let mut middle = [[zero; A]; B];
    for (b, middle) in middle.iter_mut().enumerate() {
        let mut x = [zero; A];
        for (a, x) in x.iter_mut().enumerate() {
            let n = B * a + b;
            if n < from.count {
                *x = exchanged::<S, INVERSE>(input[from.first + n * from.step]);
            }
        }
        short(simd, &mut x);
        if b > 0 {
            for (k, x) in x.iter_mut().enumerate().skip(1) {
                *x = rotate(simd, *x, roots[b * k]);
            }
        }
        *middle = x;
    }
    for k1 in 0..A {
        let mut x = [zero; B];
        for (x, middle) in x.iter_mut().zip(&middle) {
            *x = middle[k1];
        }
        short(simd, &mut x);
        for (k2, x) in x.into_iter().enumerate() {
            let k = k1 + A * k2;
            if k < to.count {
                output[to.first + k * to.step] = exchanged::<S, INVERSE>(x);
            }
        }
    }
}

#[inline(always)]
fn exchanged<S: Simd, const EXCHANGE: bool>([re, im]: Complex<S>) -> Complex<S> {
    if EXCHANGE { [im, re] } else { [re, im] }
}

/// `x * root`
#[inline(always)]
fn rotate<S: Simd>(simd: S, [re, im]: Complex<S>, root: [f32; 2]) -> Complex<S> {
    let [cos, sin] = [simd.splat_f32s(root[0]), simd.splat_f32s(root[1])];
    [
        simd.negate_mul_add_f32s(im, sin, simd.mul_f32s(re, cos)),
        simd.mul_add_f32s(re, sin, simd.mul_f32s(im, cos)),
    ]
}

#[inline(always)]
fn add<S: Simd>(simd: S, a: Complex<S>, b: Complex<S>) -> Complex<S> {
    [simd.add_f32s(a[0], b[0]), simd.add_f32s(a[1], b[1])]
}

#[inline(always)]
fn sub<S: Simd>(simd: S, a: Complex<S>, b: Complex<S>) -> Complex<S> {
    [simd.sub_f32s(a[0], b[0]), simd.sub_f32s(a[1], b[1])]
}

/// `a + factor * b`
#[inline(always)]
fn add_scaled<S: Simd>(simd: S, a: Complex<S>, factor: f32, b: Complex<S>) -> Complex<S> {
    let factor = simd.splat_f32s(factor);
    [
        simd.mul_add_f32s(factor, b[0], a[0]),
        simd.mul_add_f32s(factor, b[1], a[1]),
    ]
}

/// `a + factors[0] * x[0] + factors[1] * x[1]`
#[inline(always)]
fn combined<S: Simd>(simd: S, a: Complex<S>, factors: [f32; 2], x: [Complex<S>; 2]) -> Complex<S> {
    let first = add_scaled(simd, a, factors[0], x[0]);
    add_scaled(simd, first, factors[1], x[1])
}

/// `a - i b` and `a + i b`
#[inline(always)]
fn turned<S: Simd>(simd: S, a: Complex<S>, b: Complex<S>) -> [Complex<S>; 2] {
    [
        [simd.add_f32s(a[0], b[1]), simd.sub_f32s(a[1], b[0])],
        [simd.sub_f32s(a[0], b[1]), simd.add_f32s(a[1], b[0])],
    ]
}

/// The transform whose length is one factor, in place.
#[inline(always)]
fn short<S: Simd, const R: usize>(simd: S, x: &mut [Complex<S>; R]) {
    let x = &mut x[..];
    match R {
        2 => {
            let y = [add(simd, x[0], x[1]), sub(simd, x[0], x[1])];
            x.copy_from_slice(&y);
        }
        3 => {
            let y = three(simd, [x[0], x[1], x[2]]);
            x.copy_from_slice(&y);
        }
        4 => {
            let [even, odd] = [add(simd, x[0], x[2]), sub(simd, x[0], x[2])];
            let [sum, difference] = [add(simd, x[1], x[3]), sub(simd, x[1], x[3])];
            let [first, last] = turned(simd, odd, difference);
            x.copy_from_slice(&[add(simd, even, sum), first, sub(simd, even, sum), last]);
        }
        5 => {
            let y = five(simd, [x[0], x[1], x[2], x[3], x[4]]);
            x.copy_from_slice(&y);
        }
        // Good-Thomas algorithm: two and three have no common factor, so no rotation is needed.
        6 => {
            let even = three(simd, [x[0], x[2], x[4]]);
            let odd = three(simd, [x[3], x[5], x[1]]);
            for (k, place) in [(0, [0, 3]), (1, [4, 1]), (2, [2, 5])] {
                x[place[0]] = add(simd, even[k], odd[k]);
                x[place[1]] = sub(simd, even[k], odd[k]);
            }
        }
        other => unreachable!("{other} is not a factor of a length"),
    }
}

#[inline(always)]
fn three<S: Simd>(simd: S, [a, b, c]: [Complex<S>; 3]) -> [Complex<S>; 3] {
    const SIN: f32 = 0.866_025_4;
    let sum = add(simd, b, c);
    let zero = [simd.splat_f32s(0.0); 2];
    let slope = add_scaled(simd, zero, SIN, sub(simd, b, c));
    let [first, second] = turned(simd, add_scaled(simd, a, -0.5, sum), slope);
    [add(simd, a, sum), first, second]
}

#[inline(always)]
fn five<S: Simd>(simd: S, [a, b, c, d, e]: [Complex<S>; 5]) -> [Complex<S>; 5] {
    const COS: [f32; 2] = [0.309_017, -0.809_017];
    const SIN: [f32; 2] = [0.951_056_5, 0.587_785_25];
    let zero = [simd.splat_f32s(0.0); 2];
    let [outer, inner] = [add(simd, b, e), add(simd, c, d)];
    let [far, near] = [sub(simd, b, e), sub(simd, c, d)];
    let [one, four] = turned(
        simd,
        combined(simd, a, COS, [outer, inner]),
        combined(simd, zero, SIN, [far, near]),
    );
    let [two, three] = turned(
        simd,
        combined(simd, a, [COS[1], COS[0]], [outer, inner]),
        combined(simd, zero, [SIN[1], -SIN[0]], [far, near]),
    );
    let sum = add(simd, a, add(simd, outer, inner));
    [sum, one, two, three, four]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;
    use pulp::{Arch, Scalar, WithSimd};

    /// Checks each length against the definition in `f64`, in both directions, with zeros after the signal.
    struct Check;

    impl WithSimd for Check {
        type Output = ();

        fn with_simd<S: Simd>(self, simd: S) {
            for [a, b] in LENGTHS {
                let fourier = Fourier::at_least(a * b - 1).unwrap();
                assert_eq!(fourier.length(), a * b);
                for count in [1, a * b - 1, a * b] {
                    check::<S, false>(simd, &fourier, count);
                    check::<S, true>(simd, &fourier, count);
                }
            }
        }
    }

    fn check<S: Simd, const INVERSE: bool>(simd: S, fourier: &Fourier, count: usize) {
        let length = fourier.length();
        let values = numbers(2 * 2 * S::F32_LANES * count, 3);
        let (input, _) = S::as_simd_f32s(&values).0.as_chunks::<2>();
        let mut found = vec![f32::NAN; 3 * length * 2 * S::F32_LANES];
        let output = S::as_mut_simd_f32s(&mut found).0.as_chunks_mut::<2>().0;
        let from = Strided {
            first: 1,
            step: 2,
            count,
        };
        let to = Strided {
            first: 2,
            step: 3,
            count: length,
        };
        fourier.transform::<S, INVERSE>(simd, (input, from), (output, to));
        let part = |n: usize, part: usize, lane: usize| {
            f64::from(values[((1 + 2 * n) * 2 + part) * S::F32_LANES + lane])
        };
        let sign = if INVERSE { 1.0 } else { -1.0 };
        for (k, lane) in (0..length).flat_map(|k| (0..S::F32_LANES).map(move |l| (k, l))) {
            let (mut re, mut im) = (0.0, 0.0);
            for n in 0..count {
                let (sin, cos) = (sign * TAU * (k * n) as f64 / length as f64).sin_cos();
                let (x, y) = (part(n, 0, lane), part(n, 1, lane));
                re += x * cos - y * sin;
                im += x * sin + y * cos;
            }
            for (part, expected) in [re, im].into_iter().enumerate() {
                let found = f64::from(found[((2 + 3 * k) * 2 + part) * S::F32_LANES + lane]);
                assert!(
                    (found - expected).abs() < 1e-5,
                    "length {length}, {count} numbers, frequency {k}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn transforms_are_the_sums_that_define_them() {
        Arch::new().dispatch(Check);
        Check.with_simd(Scalar);
    }

    #[test]
    fn lengths_ascend_to_the_longest() {
        let lengths = LENGTHS.map(|[a, b]| a * b);
        assert!(lengths.is_sorted());
        assert_eq!(Fourier::at_least(17).unwrap().length(), 18);
        assert_eq!(Fourier::at_least(19).unwrap().length(), 20);
        assert_eq!(Fourier::at_least(37), None);
    }
}
