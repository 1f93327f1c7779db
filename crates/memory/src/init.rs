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
    stream: ChaCha8Rng,
    device: Device,
}

impl Initializer {
    /// Parameters will be drawn from `stream` and placed on `device`.
    pub fn new(stream: ChaCha8Rng, device: Device) -> Self {
        Self { stream, device }
    }

    /// The device that parameters are placed on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A parameter drawn uniformly from `[-bound, bound)`.
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        let values = self.uniform_values(shape.iter().product(), bound);
        self.parameter(values, shape)
    }

    /// Numbers drawn uniformly from `[-bound, bound)`.
    pub fn uniform_values(&mut self, count: usize, bound: f64) -> Vec<f32> {
        let bound = bound as f32;
        (0..count)
            .map(|_| self.stream.random_range(-bound..bound))
            .collect()
    }

    /// A parameter with given elements, row-major.
    pub fn parameter<const D: usize>(
        &mut self,
        values: Vec<f32>,
        shape: [usize; D],
    ) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::from_data(
            TensorData::new(values, shape),
            &self.device,
        ))
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
        let weight = self.uniform([inputs, outputs], bound);
        let mut bias = self.uniform_values(outputs, bound);
        for bias in bias.iter_mut().skip(range.start).take(range.len()) {
            *bias += offset;
        }
        Linear {
            weight,
            bias: Some(self.parameter(bias, [outputs])),
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
        let mut values = Vec::with_capacity(inputs * outputs);
        while values.len() < inputs * outputs {
            let value = self.standard_normal();
            if value.abs() <= 2.0 {
                values.push((std * value) as f32);
            }
        }
        Linear {
            weight: self.parameter(values, [inputs, outputs]),
            bias: Some(self.parameter(vec![0.0; outputs], [outputs])),
        }
    }

    /// `maps` affine maps from one input side by side, each normal with the variance
    /// `2 / (inputs + outputs)` of Glorot and Bengio 2010, biases zero.
    pub fn xavier(&mut self, inputs: usize, outputs: usize, maps: usize) -> Linear {
        let std = (2.0 / (inputs + outputs) as f64).sqrt();
        Linear {
            weight: self.normal([inputs, maps * outputs], std),
            bias: Some(self.parameter(vec![0.0; maps * outputs], [maps * outputs])),
        }
    }

    /// A parameter drawn from a normal distribution around zero.
    pub fn normal<const D: usize>(&mut self, shape: [usize; D], std: f64) -> Param<Tensor<D>> {
        let count = shape.iter().product();
        let values = (0..count).map(|_| (std * self.standard_normal()) as f32);
        let values = values.collect();
        self.parameter(values, shape)
    }

    /// A draw from the standard normal distribution.
    fn standard_normal(&mut self) -> f64 {
        // Box and Muller; the first number of a pair is never zero.
        let (u, v): (f64, f64) = (1.0 - self.stream.random::<f64>(), self.stream.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}
