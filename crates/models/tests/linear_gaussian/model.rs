//! A linear-Gaussian model with given parameters, and random numbers for its tests.

use burn::tensor::{Device, Tensor, TensorData};
use mnemora_memory::Attention;
use mnemora_models::{DiagonalGaussian, FilteringModel, Likelihood};

/// The model with given parameters, all matrices diagonal.
pub struct LinearGaussian {
    pub latent: usize,
    /// Diagonals of `A` and `C`.
    pub transition: f64,
    /// See `transition`.
    pub emission: f64,
    /// `Q`, `R`, `P1`
    pub variances: [f64; 3],
    /// Device of all tensors.
    pub device: Device,
}

impl LinearGaussian {
    /// The scalar example of the derivations.
    pub fn example(latent: usize, device: &Device) -> Self {
        Self {
            latent,
            transition: 0.9,
            emission: 1.0,
            variances: [0.2, 0.5, 1.0],
            device: device.clone(),
        }
    }
}

impl FilteringModel for LinearGaussian {
    /// `z_{t-1}`
    type State = Option<Tensor<2>>;
    type Prepared = ();
    /// `x_t`
    type Features = Tensor<2>;
    /// Prior mean, and twice the log of its standard deviation.
    type Context = Tensor<2>;
    type Emission = Tensor<2>;
    type Prior = DiagonalGaussian;

    fn latent_size(&self) -> usize {
        self.latent
    }

    fn initial_state(&self, _: usize) -> Self::State {
        None
    }

    fn encode(&self, observations: Tensor<3>) -> Vec<Tensor<2>> {
        let time = observations.dims()[1];
        let frames = observations.chunk(time, 1).into_iter();
        frames.map(|frame| frame.squeeze_dim(1)).collect()
    }

    fn prepare(&self) {}

    fn predict(
        &self,
        _: &(),
        condition: Option<Tensor<2>>,
        _: Option<Tensor<2>>,
        state: Self::State,
    ) -> Tensor<2> {
        // The condition carries only the batch size.
        let batch = condition.expect("the tests give one").dims()[0];
        let [q, _, p1] = self.variances;
        let (mean, variance) = match state {
            None => (Tensor::zeros([batch, self.latent], &self.device), p1),
            Some(z) => (z * self.transition, q),
        };
        let log_std = mean.zeros_like() + 0.5 * variance.ln();
        Tensor::cat(vec![mean, log_std], 1)
    }

    fn prior_input(&self, context: &Tensor<2>) -> Tensor<2> {
        context.clone()
    }

    fn prior(&self, input: Tensor<2>) -> DiagonalGaussian {
        DiagonalGaussian::from_parameters(input)
    }

    /// The exact posterior of one step.
    fn posterior(&self, features: &Tensor<2>, context: &mut Tensor<2>) -> DiagonalGaussian {
        let prior = self.prior(context.clone());
        let r = self.variances[1];
        let precision = prior.log_std.clone().mul_scalar(-2.0).exp();
        let sum = precision.clone() + self.emission * self.emission / r;
        let mean = (precision * prior.mean + features.clone() * (self.emission / r)) / sum.clone();
        DiagonalGaussian {
            mean,
            log_std: sum.log().mul_scalar(-0.5),
        }
    }

    fn emit(&self, z: Tensor<2>, _: &Tensor<2>) -> Tensor<2> {
        z * self.emission
    }

    fn decode(&self, emissions: Tensor<2>) -> Likelihood {
        Likelihood::Gaussian {
            mean: emissions,
            std: self.variances[1].sqrt(),
        }
    }

    fn update(&self, _: &Tensor<2>, z: Tensor<2>, _: &Tensor<2>, _: Tensor<2>) -> Self::State {
        Some(z)
    }

    fn attention<'a>(&self, _: &'a Tensor<2>) -> &'a [Attention] {
        &[]
    }
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Standard normal numbers from equidistributed ones, by the Box-Muller transform.
pub fn normal(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let numbers = (0..count).map(|_| {
        let (u, v) = (uniform(), uniform());
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    });
    numbers.collect()
}

pub fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Samples whose mean is zero and whose covariance is one, so that expectations of squares are exact:
/// `+-sqrt(latent)` along each axis.
pub fn inner(time: usize, batch: usize, latent: usize, device: &Device) -> Tensor<4> {
    let samples = 2 * latent;
    let mut values = Vec::new();
    for sample in 0..samples {
        let size = (latent as f32).sqrt() * if sample % 2 == 0 { 1.0 } else { -1.0 };
        let row: Vec<f32> = (0..latent)
            .map(|axis| if axis == sample / 2 { size } else { 0.0 })
            .collect();
        values.extend(row.repeat(time * batch));
    }
    tensor(values, [samples, time, batch, latent], device)
}
