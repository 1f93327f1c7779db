//! Layers shared by the convolutional networks.

use burn::{
    module::{Module, Param},
    nn::{BatchNorm, BatchNormConfig},
    tensor::Tensor,
};
use mnemora_kernels::{
    batch_norm::{batch_norm_leaky_relu, leaky_relu},
    conv::{conv2d, transposed_conv2d},
};
use mnemora_memory::{Count, Initializer};

/// Standard deviation of the initial weights of DCGANs (Radford et al. 2016), and of the initial scales of
/// their batch norms around 1.
pub(crate) const WEIGHT_STD: f64 = 0.02;
/// Slope of the leaky ReLUs below zero.
const SLOPE: f64 = 0.2;

/// Batch norm and a leaky ReLU. In training mode it uses the statistics of the batch and updates the running
/// ones; a model that is frozen or not in training mode uses the running ones.
pub(super) fn normalise(norm: &BatchNorm, maps: Tensor<4>, slope: f64) -> Tensor<4> {
    if !(maps.device().is_autodiff() && norm.training.is_enabled()) {
        // Without this, a running value lags one update behind until the newest is requested, and numbers
        // would depend on when a checkpoint was last written.
        norm.running_mean.value_sync();
        norm.running_var.value_sync();
        return leaky_relu(norm.forward(maps), slope);
    }
    let (gamma, beta) = (norm.gamma.val(), norm.beta.val());
    let found = batch_norm_leaky_relu(maps, gamma, beta, norm.epsilon, slope);
    for (running, fresh) in [
        (&norm.running_mean, found.mean),
        (&norm.running_var, found.variance),
    ] {
        let kept = running.value_sync().mul_scalar(1.0 - norm.momentum);
        running.update((kept + fresh.mul_scalar(norm.momentum)).detach());
    }
    found.output
}

/// Size, stride and padding of a square kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) size: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
}

impl Kernel {
    pub(crate) const fn new(size: usize, stride: usize, padding: usize) -> Self {
        Self {
            size,
            stride,
            padding,
        }
    }

    /// Of an odd size, with maps that stay as large as they are.
    pub(crate) const fn same(size: usize) -> Self {
        Self::new(size, 1, size / 2)
    }

    /// As large as its stride: each input pixel is used once.
    pub(crate) const fn patches(size: usize) -> Self {
        Self::new(size, size, 0)
    }
}

/// Weights uniform within it have a variance of `1 / products`.
pub(crate) fn unit_bound(products: f64) -> f64 {
    (3.0 / products).sqrt()
}

/// Weights uniform within it have a variance of `2 / products`, which keeps the scale of what a ReLU follows (He et al. 2015).
pub(crate) fn before_relu_bound(products: f64) -> f64 {
    (6.0 / products).sqrt()
}

/// A convolution or transposed convolution with bias, whose stride and padding are given with each call.
#[derive(Module, Debug)]
pub struct Filter {
    /// `[outputs, inputs, k, k]`; if transposed, `[inputs, outputs, k, k]`.
    pub weight: Param<Tensor<4>>,
    /// `[outputs]`
    pub bias: Param<Tensor<1>>,
}

impl Filter {
    /// Weights for a ReLU after it (He et al. 2015); biases are zero.
    pub(crate) fn before_relu(
        [inputs, outputs]: [usize; 2],
        of: Kernel,
        init: &mut Initializer,
    ) -> Self {
        let fan_in = inputs * of.size * of.size;
        Self {
            weight: init.uniform(
                [outputs, inputs, of.size, of.size],
                before_relu_bound(fan_in as f64),
            ),
            bias: init.constant([outputs], 0.0),
        }
    }

    /// The same for the transposed convolution, of which each output pixel adds up `(k / stride)^2` products per input.
    pub(crate) fn transposed_before_relu(
        [inputs, outputs]: [usize; 2],
        of: Kernel,
        init: &mut Initializer,
    ) -> Self {
        let fan_in = (inputs * of.size * of.size) as f64 / (of.stride * of.stride) as f64;
        Self {
            weight: init.uniform(
                [inputs, outputs, of.size, of.size],
                before_relu_bound(fan_in),
            ),
            bias: init.constant([outputs], 0.0),
        }
    }

    /// Weights of variance `1 / n`, where n is the number of products in an output, so that maps keep their scale through
    /// many layers (LeCun et al. 1998); biases are zero.
    pub(crate) fn new([inputs, outputs]: [usize; 2], of: Kernel, init: &mut Initializer) -> Self {
        let products = inputs * of.size * of.size;
        Self {
            weight: init.uniform(
                [outputs, inputs, of.size, of.size],
                unit_bound(products as f64),
            ),
            bias: init.constant([outputs], 0.0),
        }
    }

    /// The same for the transposed convolution.
    pub(crate) fn transposed(
        [inputs, outputs]: [usize; 2],
        of: Kernel,
        init: &mut Initializer,
    ) -> Self {
        let products = (inputs * of.size * of.size) as f64 / (of.stride * of.stride) as f64;
        Self {
            weight: init.uniform([inputs, outputs, of.size, of.size], unit_bound(products)),
            bias: init.constant([outputs], 0.0),
        }
    }

    pub(crate) fn forward(&self, maps: Tensor<4>, of: Kernel) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        conv2d(maps, weight, bias, of.stride, of.padding)
    }

    pub(crate) fn back(&self, maps: Tensor<4>, of: Kernel) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        transposed_conv2d(maps, weight, bias, of.stride, of.padding, 0)
    }
}

/// A convolution or transposed convolution, with bias.
#[derive(Module, Debug)]
pub struct Convolution {
    /// `[outputs, inputs, k, k]`; if transposed, `[inputs, outputs, k, k]`.
    pub weight: Param<Tensor<4>>,
    /// `[outputs]`
    pub bias: Param<Tensor<1>>,
    stride: usize,
    padding: usize,
    transposed: bool,
}

impl Convolution {
    pub(super) fn new([inputs, outputs]: [usize; 2], of: Kernel, init: &mut Initializer) -> Self {
        Self::of_shape([outputs, inputs, of.size, of.size], outputs, of, init)
    }

    pub(super) fn transposed(
        [inputs, outputs]: [usize; 2],
        of: Kernel,
        init: &mut Initializer,
    ) -> Self {
        Self {
            transposed: true,
            ..Self::of_shape([inputs, outputs, of.size, of.size], outputs, of, init)
        }
    }

    fn of_shape(shape: [usize; 4], outputs: usize, of: Kernel, init: &mut Initializer) -> Self {
        Self {
            weight: init.normal(shape, WEIGHT_STD),
            bias: init.constant([outputs], 0.0),
            stride: of.stride,
            padding: of.padding,
            transposed: false,
        }
    }

    /// From `[images, inputs, height, width]` to `[images, outputs, ..]`.
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        match self.transposed {
            false => conv2d(maps, weight, bias, self.stride, self.padding),
            true => transposed_conv2d(maps, weight, bias, self.stride, self.padding, 0),
        }
    }
}

/// A convolution, then batch norm.
#[derive(Module, Debug)]
pub struct Block {
    /// Batch norm removes its bias again; the original has one, too.
    pub convolution: Convolution,
    /// Over the images and pixels of a call.
    pub norm: BatchNorm,
}

impl Block {
    pub(super) fn new(convolution: Convolution, init: &mut Initializer) -> Self {
        let channels = convolution.bias.dims()[0];
        let mut norm = BatchNormConfig::new(channels).init(init.device());
        let spread = init.normal([channels], WEIGHT_STD).val();
        norm.gamma = Param::from_tensor((spread + 1.0).detach());
        Self { convolution, norm }
    }

    /// Numbers kept per image, with sides of `side` pixels after the convolution: the maps before and after
    /// batch norm.
    pub(super) fn kept(&self, side: usize) -> Count {
        Count::product(&[2, self.convolution.bias.shape()[0], side, side])
    }

    /// With a leaky ReLU at the end.
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        normalise(&self.norm, self.convolution.forward(maps), SLOPE)
    }

    /// With a hyperbolic tangent at the end.
    pub fn forward_tanh(&self, maps: Tensor<4>) -> Tensor<4> {
        normalise(&self.norm, self.convolution.forward(maps), 1.0).tanh()
    }
}
