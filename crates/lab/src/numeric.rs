//! Numerics that several families use.

/// The number below which a share of sorted samples lies, between neighbours by a straight line.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (place - low as f64) * (sorted[high] - sorted[low])
}

/// Solves a symmetric system by elimination with pivots; `None` if it is singular to working precision.
pub(crate) fn solve(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let size = right.len();
    let largest = matrix.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| {
            let [a, b] = [a, b].map(|row| matrix[row * size + column].abs());
            a.total_cmp(&b)
        })?;
        let found = matrix[pivot * size + column].abs();
        if found.is_nan() || found <= 1e-12 * largest {
            return None;
        }
        for other in 0..size {
            matrix.swap(pivot * size + other, column * size + other);
        }
        right.swap(pivot, column);
        for row in column + 1..size {
            let factor = matrix[row * size + column] / matrix[column * size + column];
            for other in column..size {
                matrix[row * size + other] -= factor * matrix[column * size + other];
            }
            right[row] -= factor * right[column];
        }
    }
    for column in (0..size).rev() {
        let known: f64 = (column + 1..size)
            .map(|other| matrix[column * size + other] * right[other])
            .sum();
        right[column] = (right[column] - known) / matrix[column * size + column];
    }
    Some(right)
}

/// The weights of the numbers in `rows`, all of one length, whose sum is nearest to the targets in squares. `ridge` is added
/// to the diagonal of the normal equations, relative to its mean. `None` without rows, or if they are singular.
pub(crate) fn least_squares(
    rows: impl Iterator<Item = (Vec<f64>, f64)>,
    ridge: f64,
) -> Option<Vec<f64>> {
    let (mut normal, mut right) = (Vec::new(), Vec::new());
    let mut size = 0;
    for (row, target) in rows {
        size = row.len();
        normal.resize(size * size, 0.0);
        right.resize(size, 0.0);
        for (i, a) in row.iter().enumerate() {
            right[i] += a * target;
            for (j, b) in row.iter().enumerate() {
                normal[i * size + j] += a * b;
            }
        }
    }
    let trace: f64 = (0..size).map(|i| normal[i * size + i]).sum();
    for i in 0..size {
        normal[i * size + i] += ridge * trace / size as f64;
    }
    (size > 0).then(|| solve(normal, right)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_is_found_by_least_squares() {
        let row = |t: usize| vec![1.0, t as f64, (t * t) as f64];
        let target = |t: usize| 2.0 - 0.5 * t as f64 + 0.25 * (t * t) as f64;
        let rows = (0..9).map(|t| (row(t), target(t)));
        let weights = least_squares(rows, 0.0).unwrap();
        for (found, expected) in weights.iter().zip([2.0, -0.5, 0.25]) {
            assert!((found - expected).abs() < 1e-9, "{weights:?}");
        }
        assert_eq!(least_squares(std::iter::empty(), 0.0), None);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [0.0, 1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), 2.0);
        assert_eq!(quantile(&sorted, 0.1), 0.4);
        assert_eq!(quantile(&sorted, 1.0), 4.0);
    }
}
