//! Elementary functions without branches or calls, so that loops over them become SIMD code.
//!
//! Relative errors are below 4e-7, which `f32` arithmetic around them loses anyway. Numbers never turn into NaN,
//! and NaN stays NaN. `exp`, and the functions built on it, stay within `[1.6e-38, 1.7e38]`.

use std::f32::consts::{LN_2, LOG2_E};

/// Adding this rounds to a whole number, which is then in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 as a sum. The first part has few bits, so its multiples are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = LN_2 - LN_2_HIGH;

/// `e^x` for `x` clamped to `[-87, 88]`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.0, 88.0);
    let rounded = x * LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // Taylor series for |r| <= ln(2) / 2.
    let mut p = 1.0 / 5_040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    // 2^n, built from its exponent bits.
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23));
    p * power
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `tanh x`
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let e = exp(-2.0 * x.abs());
    let far = ((1.0 - e) / (1.0 + e)).copysign(x);
    // Near zero the difference above cancels: an odd polynomial instead (Cephes).
    let s = x * x;
    let mut p = -5.704_988_7e-3_f32;
    p = p * s + 2.063_908_8e-2;
    p = p * s - 5.373_971_5e-2;
    p = p * s + 1.333_144_2e-1;
    p = p * s - 3.333_328e-1;
    let near = x + x * s * p;
    if x.abs() < 0.625 { near } else { far }
}

/// `log(1 + e^x)`
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    let u = exp(-x.abs());
    // log(1 + u) = 2 artanh(u / (2 + u)), with an argument of at most 1/3.
    let s = u / (2.0 + u);
    let q = s * s;
    let mut p = 1.0 / 15.0;
    p = p * q + 1.0 / 13.0;
    p = p * q + 1.0 / 11.0;
    p = p * q + 1.0 / 9.0;
    p = p * q + 1.0 / 7.0;
    p = p * q + 1.0 / 5.0;
    p = p * q + 1.0 / 3.0;
    p = p * q + 1.0;
    // `max` would discard NaN.
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + 2.0 * s * p
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> impl Iterator<Item = f32> {
        let fine = (-200_000..=200_000).map(|i| i as f32 * 5e-4);
        let tiny = (-40..=40).map(|e| 2.0_f32.powi(e));
        fine.chain(tiny.clone()).chain(tiny.map(|x| -x))
    }

    fn check(name: &str, found: fn(f32) -> f32, exact: fn(f64) -> f64) {
        for x in arguments() {
            let (found, exact) = (f64::from(found(x)), exact(f64::from(x)));
            let error = (found - exact).abs() / exact.abs().max(1e-30);
            let allowed = if exact.abs() < 1.2e-37 { 1.0 } else { 4e-7 };
            assert!(error <= allowed, "{name}({x}): {found}, exactly {exact}");
        }
    }

    #[test]
    fn functions_are_exact_to_rounding() {
        check("exp", exp, |x| x.clamp(-87.0, 88.0).exp());
        check("sigmoid", sigmoid, |x| {
            1.0 / (1.0 + (-x.clamp(-88.0, 87.0)).exp())
        });
        check("tanh", tanh, f64::tanh);
        check("softplus", softplus, |x| {
            x.max(0.0) + (-x.abs().min(87.0)).exp().ln_1p()
        });
    }

    #[test]
    fn what_is_no_number_stays_none_and_infinities_have_limits() {
        for f in [exp, sigmoid, tanh, softplus] {
            assert!(f(f32::NAN).is_nan());
        }
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert!(sigmoid(f32::NEG_INFINITY) < 1e-37);
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert_eq!(softplus(f32::INFINITY), f32::INFINITY);
        assert!(softplus(f32::NEG_INFINITY) < 1e-37);
    }
}
