//! Initial values of parameters.

use burn::{
    module::Param,
    nn::Linear,
    tensor::{Device, Tensor, TensorData},
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Initial value of every cell of an NTM or LRU memory.
pub(crate) const INITIAL_MEMORY: f64 = 1e-6;

/// Initial bias of the read strengths. It makes content reads sharp enough for the keys to learn from them.
pub(crate) const INITIAL_STRENGTH: f32 = 4.0;

/// Draws initial parameters from its own random stream, in order of construction. Equal streams therefore give
/// equal models, whatever else draws random numbers.
#[derive(Debug)]
pub struct Initializer {
    /// `None` for an outline.
    draws: Option<Draws>,
    device: Device,
}

impl Initializer {
    /// An initializer that draws parameters from `stream` and places them on `device`.
    pub fn new(stream: ChaCha8Rng, device: Device) -> Self {
        Self {
            draws: Some(Draws::new(stream)),
            device,
        }
    }

    /// An initializer whose parameters have shapes but no values: a single zero stands for all elements,
    /// whatever the shape. A module built this way only tells how large it would be.
    ///
    /// `device` must be the CPU, where such a tensor takes no memory.
    pub fn outline(device: Device) -> Self {
        Self {
            draws: None,
            device,
        }
    }

    /// The device on which parameters are placed.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A parameter drawn uniformly from `[-bound, bound)`.
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        self.parameter(shape, |draws| draws.uniform(shape.iter().product(), bound))
    }

    /// A parameter all of whose elements are `value`.
    pub fn constant<const D: usize>(&mut self, shape: [usize; D], value: f32) -> Param<Tensor<D>> {
        self.parameter(shape, |_| vec![value; shape.iter().product()])
    }

    /// A parameter whose elements, in row-major order, come from `values`. For an [`outline`](Self::outline)
    /// `values` is not called.
    pub fn parameter<const D: usize>(
        &mut self,
        shape: [usize; D],
        values: impl FnOnce(&mut Draws) -> Vec<f32>,
    ) -> Param<Tensor<D>> {
        Param::from_tensor(match &mut self.draws {
            Some(draws) => {
                let values = values(draws);
                Tensor::from_data(TensorData::new(values, shape), &self.device)
            }
            None => Tensor::<D>::zeros([1; D], &self.device).expand(shape),
        })
    }

    /// An affine map, weight `[inputs, outputs]` and bias uniform within `1 / sqrt(inputs)`.
    pub fn linear(&mut self, inputs: usize, outputs: usize) -> Linear {
        let bound = 1.0 / (inputs as f64).sqrt();
        Linear {
            weight: self.uniform([inputs, outputs], bound),
            bias: Some(self.uniform([outputs], bound)),
        }
    }

    /// As [`linear`](Self::linear), with `offset` added to the biases of the outputs in `range`.
    pub fn linear_with_offset(
        &mut self,
        inputs: usize,
        outputs: usize,
        range: std::ops::Range<usize>,
        offset: f32,
    ) -> Linear {
        let bound = 1.0 / (inputs as f64).sqrt();
        Linear {
            weight: self.uniform([inputs, outputs], bound),
            bias: Some(self.parameter([outputs], |draws| {
                let mut bias = draws.uniform(outputs, bound);
                for bias in bias.iter_mut().skip(range.start).take(range.len()) {
                    *bias += offset;
                }
                bias
            })),
        }
    }

    /// A linear map without bias, weight `[inputs, outputs]` uniform within `1 / sqrt(inputs)`.
    pub fn linear_without_bias(&mut self, inputs: usize, outputs: usize) -> Linear {
        let bound = 1.0 / (inputs as f64).sqrt();
        Linear {
            weight: self.uniform([inputs, outputs], bound),
            bias: None,
        }
    }

    /// An affine map with weight `[inputs, outputs]`. Weights are normal with a standard deviation of `1 /
    /// sqrt(inputs)`; draws beyond two standard deviations are repeated. The bias is zero.
    pub fn truncated_normal_linear(&mut self, inputs: usize, outputs: usize) -> Linear {
        let std = 1.0 / (inputs as f64).sqrt();
        let weight = self.parameter([inputs, outputs], |draws| {
            let mut values = Vec::with_capacity(inputs * outputs);
            while values.len() < inputs * outputs {
                let value = draws.standard_normal();
                if value.abs() <= 2.0 {
                    values.push((std * value) as f32);
                }
            }
            values
        });
        Linear {
            weight,
            bias: Some(self.constant([outputs], 0.0)),
        }
    }

    /// `maps` affine maps of the same input, side by side. Weights of each are normal with the variance `2 /
    /// (inputs + outputs)` of Glorot and Bengio 2010; biases are zero.
    pub fn xavier(&mut self, inputs: usize, outputs: usize, maps: usize) -> Linear {
        let std = (2.0 / (inputs + outputs) as f64).sqrt();
        Linear {
            weight: self.normal([inputs, maps * outputs], std),
            bias: Some(self.constant([maps * outputs], 0.0)),
        }
    }

    /// A parameter drawn from a normal distribution with mean zero.
    pub fn normal<const D: usize>(&mut self, shape: [usize; D], std: f64) -> Param<Tensor<D>> {
        self.parameter(shape, |draws| {
            let values =
                (0..shape.iter().product()).map(|_| (std * draws.standard_normal()) as f32);
            values.collect()
        })
    }
}

/// The random numbers of an [`Initializer`].
#[derive(Debug)]
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// Draws from `stream`.
    pub fn new(stream: ChaCha8Rng) -> Self {
        Self(stream)
    }

    /// Numbers drawn uniformly from `[-bound, bound)`.
    pub fn uniform(&mut self, count: usize, bound: f64) -> Vec<f32> {
        let bound = bound as f32;
        (0..count)
            .map(|_| self.0.random_range(-bound..bound))
            .collect()
    }

    /// A direction, uniform over those in a space of `size` dimensions: numbers whose squares sum to one.
    pub fn direction(&mut self, size: usize) -> Vec<f32> {
        let numbers: Vec<f64> = (0..size).map(|_| self.standard_normal()).collect();
        let length = numbers.iter().map(|number| number * number).sum::<f64>();
        let length = length.sqrt().max(f64::MIN_POSITIVE);
        numbers
            .into_iter()
            .map(|number| (number / length) as f32)
            .collect()
    }

    /// A draw from the standard normal distribution.
    fn standard_normal(&mut self) -> f64 {
        // Box-Muller transform; the first number of a pair is never zero.
        let (u, v): (f64, f64) = (1.0 - self.0.random::<f64>(), self.0.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::Module;

    /// An outline of any size is built at once, and parameters are still told apart from other tensors.
    #[test]
    fn an_outline_has_shapes_and_no_numbers() {
        let mut init = Initializer::outline(Device::default().autodiff());
        let side = 1 << 24;
        let linear = init.truncated_normal_linear(side, side);
        assert_eq!(linear.weight.shape().as_slice(), [side, side]);
        assert_eq!(linear.num_params(), side * side + side);
        assert!(linear.weight.is_require_grad());
        let offset = init.linear_with_offset(side, side, 0..side, 1.0);
        assert_eq!(offset.bias.unwrap().shape().as_slice(), [side]);
    }
}
