//! Number formatting for readers.

/// Formats a number for a reader: a given number of significant digits, grouped thousands, no trailing zeros.
///
/// `number(-1234.5678, 5)` is `-1,234.6`; `number(0.000012, 3)` is `1.2e-5`; whole numbers up to 10^9 keep all
/// their digits.
pub fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let digits = digits.clamp(1, 15);
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e9 {
        return grouped(value, 0);
    }
    let exponent = value.abs().log10().floor();
    if !(-4.0..9.0).contains(&exponent) {
        return scientific(value, digits - 1);
    }
    let decimals = (digits as f64 - 1.0 - exponent).clamp(0.0, 18.0);
    let written = grouped(value, decimals as usize);
    if written.contains('.') {
        written
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        written
    }
}

pub(crate) fn scientific(value: f64, decimals: usize) -> String {
    let written = format!("{value:.decimals$e}");
    match written.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            format!("{mantissa}e{exponent}")
        }
        _ => written,
    }
}

pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    let written = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = written.split_once('.').unwrap_or((&written, ""));
    let zero = written.bytes().all(|byte| byte == b'0' || byte == b'.');
    let mut grouped = String::from(if value < 0.0 && !zero { "-" } else { "" });
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, digits, expected) in [
            (-1234.5678, 5, "-1,234.6"),
            (-1200.0, 5, "-1,200"),
            (0.25, 3, "0.25"),
            (0.000_012, 3, "1.2e-5"),
            (1_234_567.0, 3, "1,234,567"),
            (99.996, 4, "100"),
            (-0.0, 3, "0"),
            (1e12, 3, "1e12"),
            (f64::NAN, 3, "NaN"),
        ] {
            assert_eq!(number(value, digits), expected);
        }
    }
}
