//! How parameters start.

use burn::{
    module::Param,
    nn::Linear,
    tensor::{Device, Tensor, TensorData},
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What every cell of an NTM or LRU memory holds before the first write.
pub(crate) const INITIAL_MEMORY: f64 = 1e-6;

/// Added to the biases of the read strengths: content that is found at all is found sharply enough
/// for the keys to learn from it.
pub(crate) const INITIAL_STRENGTH: f32 = 4.0;

/// Draws initial parameters from a stream of its own, in order of construction, so that equal
/// streams give equal models whatever else draws random numbers.
#[derive(Debug)]
pub struct Initializer {
    /// `None` for an outline.
    draws: Option<Draws>,
    device: Device,
}

impl Initializer {
    /// Parameters will be drawn from `stream` and placed on `device`.
    pub fn new(stream: ChaCha8Rng, device: Device) -> Self {
        Self {
            draws: Some(Draws::new(stream)),
            device,
        }
    }

    /// Parameters will have their shapes, but no numbers: whatever the shape, one zero stands for all of them.
    /// A module made of them says how large it would be, and is good for nothing else.
    ///
    /// `device` is one on the processor, where such a tensor takes no memory.
    pub fn outline(device: Device) -> Self {
        Self {
            draws: None,
            device,
        }
    }

    /// The device that parameters are placed on.
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

    /// A parameter whose elements, row-major, `values` draws; it is not asked for an
    /// [`outline`](Self::outline).
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

    /// An affine map, weight `[inputs, outputs]` normal with a standard deviation of
    /// `1 / sqrt(inputs)`, drawn again beyond two of them, bias zero.
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

    /// `maps` affine maps from one input side by side, each normal with the variance
    /// `2 / (inputs + outputs)` of Glorot and Bengio 2010, biases zero.
    pub fn xavier(&mut self, inputs: usize, outputs: usize, maps: usize) -> Linear {
        let std = (2.0 / (inputs + outputs) as f64).sqrt();
        Linear {
            weight: self.normal([inputs, maps * outputs], std),
            bias: Some(self.constant([maps * outputs], 0.0)),
        }
    }

    /// A parameter drawn from a normal distribution around zero.
    pub fn normal<const D: usize>(&mut self, shape: [usize; D], std: f64) -> Param<Tensor<D>> {
        self.parameter(shape, |draws| {
            let values =
                (0..shape.iter().product()).map(|_| (std * draws.standard_normal()) as f32);
            values.collect()
        })
    }
}

/// What an [`Initializer`] draws numbers from.
#[derive(Debug)]
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// Numbers will be drawn from `stream`.
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

    /// A draw from the standard normal distribution.
    fn standard_normal(&mut self) -> f64 {
        // Box and Muller; the first number of a pair is never zero.
        let (u, v): (f64, f64) = (1.0 - self.0.random::<f64>(), self.0.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::Module;

    /// An outline of any size has its shape at once and tells a parameter from what is none.
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
