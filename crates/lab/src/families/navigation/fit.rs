//! The affine map from a model's places to the true ones: what the model calls up, and how long its steps are, is free.

use crate::numeric::solve;

/// An affine map from places of `inputs` numbers to points on the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct AffineFit {
    /// For each coordinate, a weight per input and a constant.
    weights: [Vec<f64>; 2],
}

impl AffineFit {
    /// The map with the least squares of errors; `None` if the places do not determine it, all on a line for instance.
    ///
    /// # Shapes
    /// - `places`: `[count, inputs]`; `truth`: `[count]`
    pub fn of(places: &[f32], inputs: usize, truth: &[[f32; 2]]) -> Option<Self> {
        let width = inputs + 1;
        let mut normal = vec![0.0; width * width];
        let mut right = [vec![0.0; width], vec![0.0; width]];
        for (place, point) in places.chunks(inputs).zip(truth) {
            let row: Vec<f64> = place.iter().map(|x| f64::from(*x)).chain([1.0]).collect();
            for (index, value) in row.iter().enumerate() {
                for (other, factor) in row.iter().enumerate() {
                    normal[index * width + other] += value * factor;
                }
                for (right, coordinate) in right.iter_mut().zip(point) {
                    right[index] += value * f64::from(*coordinate);
                }
            }
        }
        let [x, y] = right;
        Some(Self {
            weights: [solve(normal.clone(), x)?, solve(normal, y)?],
        })
    }

    /// How much the first coordinate grows with the first number of a place.
    pub fn slope(&self) -> f64 {
        self.weights[0][0]
    }

    /// The point of a place, `[inputs]`.
    pub fn point(&self, place: &[f32]) -> [f64; 2] {
        [0, 1].map(|coordinate| {
            let weights = &self.weights[coordinate];
            let products = place.iter().zip(weights).map(|(x, w)| f64::from(*x) * w);
            products.sum::<f64>() + weights[place.len()]
        })
    }
}

/// Distance of two points.
pub fn distance(one: [f64; 2], other: [f64; 2]) -> f64 {
    (one[0] - other[0]).hypot(one[1] - other[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affine_map_is_found_again() {
        let places: Vec<f32> = (0..40).map(|i| ((i * 7 + 3) as f32).sin()).collect();
        let map = |p: &[f32]| [2.0 * p[0] - p[1] + 0.5, 0.3 * p[0] + 4.0 * p[1] - 1.0];
        let truth: Vec<[f32; 2]> = places.chunks(2).map(map).collect();
        let fit = AffineFit::of(&places, 2, &truth).unwrap();
        for (place, truth) in places.chunks(2).zip(&truth) {
            assert!(distance(fit.point(place), truth.map(f64::from)) < 1e-5);
        }
        // All on one line.
        let line: Vec<f32> = (0..20).flat_map(|i| [i as f32, 2.0 * i as f32]).collect();
        assert_eq!(AffineFit::of(&line, 2, &truth), None);
        assert_eq!(AffineFit::of(&[0.0; 40], 2, &truth), None);
    }
}
