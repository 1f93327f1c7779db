//! Kernels for the CPU backend: fused operations with hand-written gradients.
//!
//! Each takes the place of a plain composition in this crate where its tensors are on `flex`;
//! `MNEMORA_KERNELS=plain` in the environment switches all of them off. Loops are plain Rust over
//! slices, compiled for several instruction sets of which the best is chosen at run time (`pulp`).

mod adam;
mod batch_norm;
mod bernoulli;
mod bins;
mod chunks;
mod content;
mod conv;
mod correlate;
mod dnc;
mod fourier;
mod gated;
mod gaussian;
mod halves;
mod highway;
mod linear;
mod lowered;
mod lstm;
mod math;
mod norm;
mod panels;
mod parts;
mod product;
mod relation;
mod sequence;
mod softmax;
mod spectral;
mod split;
mod step_map;
mod steps;
mod transpose;
mod winograd;

pub(crate) use conv::{Kernel, Options};
pub(crate) use parts::Parts;
pub(crate) use step_map::MapUses;
pub(crate) use steps::Uses;

use crate::{
    dnc::{DncMemory, DncStep},
    highway::{Columns, Units},
    linear::Activation,
    relation::Relation,
};
use burn::{
    backend::{
        Autodiff, Backend, Dispatch, Flex, autodiff::checkpoint::strategy::CheckpointStrategy,
        backend_extension, ops::FloatTensorOps, tensor::FloatTensor,
    },
    tensor::{Device, Shape, Tensor, TensorData},
};
use product::Matrix;
use pulp::{Arch, Simd, WithSimd};
use std::sync::OnceLock;

/// What Burn dispatches to our kernels.
#[backend_extension(Flex, Autodiff)]
pub(crate) trait FusedOps: Backend {
    /// `[rows, size]` twice; returns `[rows]`.
    fn bernoulli(x: FloatTensor<Self>, logits: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `[rows, size]` three times: numbers, means, log standard deviations; returns `[rows]`.
    fn bins(
        x: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        log_std: FloatTensor<Self>,
        bin: f32,
    ) -> FloatTensor<Self>;

    /// `[rows, inputs]`, `[inputs, outputs]` and `[outputs]`; returns `[rows, outputs]`.
    fn linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// `[inputs, outputs]` and `[outputs]` for a time loop; the value that is returned stands for them.
    fn map_weights(
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        uses: MapUses,
    ) -> FloatTensor<Self>;

    /// `[rows, inputs]` and what stands for a map; returns `[rows, outputs]`.
    fn step_map(
        x: FloatTensor<Self>,
        map: FloatTensor<Self>,
        uses: MapUses,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// `[inputs, outputs]`, `[hidden, outputs]` and `[outputs]` for a time loop; the value that is
    /// returned stands for them.
    fn step_weights(
        input: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        uses: Uses,
    ) -> FloatTensor<Self>;

    /// Input, state and step weights; `parts` are hidden state and cell.
    fn lstm_step(
        x: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        cell: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        uses: Uses,
        parts: Parts,
    ) -> FloatTensor<Self>;

    /// Inputs of all steps, state and cell, weights of inputs and state, bias; `parts` are the hidden states of
    /// all steps, then the last of them and its cell.
    fn lstm_sequence(
        x: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        cell: FloatTensor<Self>,
        weight_input: FloatTensor<Self>,
        weight_hidden: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        parts: Parts,
    ) -> FloatTensor<Self>;

    /// `[batch, heads, width]` and `[batch, slots, width]`; returns `[batch, heads, slots]`.
    fn cosine(keys: FloatTensor<Self>, memory: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Also strengths, `[batch, heads]`.
    fn content(
        keys: FloatTensor<Self>,
        strengths: FloatTensor<Self>,
        memory: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Interface and memory of [`crate::dnc::DncMemory`]; `parts` are what a step gives.
    #[allow(clippy::too_many_arguments)]
    fn dnc_step(
        interface: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        usage: FloatTensor<Self>,
        precedence: FloatTensor<Self>,
        links: FloatTensor<Self>,
        read_weights: FloatTensor<Self>,
        write_weights: FloatTensor<Self>,
        parts: Parts,
    ) -> FloatTensor<Self>;

    /// Projections `[batch * rows, width]`, scale and shift `[width]`; `parts` are reads and weights.
    fn relate(
        projected: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
        sizes: Relation,
        parts: Parts,
    ) -> FloatTensor<Self>;

    /// `[rows, width]` twice, then scale and shift, `[width]`.
    fn normalised_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self>;

    /// Terms of the gates, `[batch * slots, 2 * gate]` and `[batch, 2 * gate]`, candidate and memory,
    /// `[batch * slots, width]`.
    fn gated_memory(
        from_memory: FloatTensor<Self>,
        from_input: FloatTensor<Self>,
        candidate: FloatTensor<Self>,
        memory: FloatTensor<Self>,
        biases: [f32; 2],
    ) -> FloatTensor<Self>;

    /// Terms of [`crate::highway`]: all that lie together, `[rows, width]`, and what is carried, `[rows, size]`.
    fn highway(
        all: FloatTensor<Self>,
        carried: FloatTensor<Self>,
        columns: Columns,
        units: Units,
    ) -> FloatTensor<Self>;

    /// `[rows, width]`
    fn tanh(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `[rows, latent]` four times: means and log standard deviations of q, then of p; returns `[rows]`.
    fn kl(
        mean_q: FloatTensor<Self>,
        log_std_q: FloatTensor<Self>,
        mean_p: FloatTensor<Self>,
        log_std_p: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// `[rows, latent]` three times.
    fn sample(
        mean: FloatTensor<Self>,
        log_std: FloatTensor<Self>,
        noise: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// `[rows, 2 * size]`, bounds of the second half.
    fn halves(whole: FloatTensor<Self>, bounds: [f32; 2], parts: Parts) -> FloatTensor<Self>;

    /// Its rows in so many equal parts.
    fn split(whole: FloatTensor<Self>, count: usize, parts: Parts) -> FloatTensor<Self>;

    /// One of the outputs of the operation whose node is `whole`.
    fn part(whole: FloatTensor<Self>, parts: Parts, index: usize) -> FloatTensor<Self>;

    /// Images `[images, channels, height, width]`, scale, shift; epsilon and slope.
    fn batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        numbers: [f32; 2],
        found: batch_norm::Found,
    ) -> FloatTensor<Self>;

    /// Image `[images, channels, height, width]`, the weights of all kernels one after the other, bias.
    fn convolution(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        options: conv::Options,
    ) -> FloatTensor<Self>;

    /// Any shape; returns `[1]`.
    fn sum_of_squares(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `[rows, depth]` and `[depth, columns]`; returns `[rows, columns]`.
    fn product(left: FloatTensor<Self>, right: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `[rows, columns]` and `[columns]`; returns probabilities and log normalisers, `[rows]`.
    fn softmax(
        logits: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Value, gradient, moments, all of one length; returns value and moments.
    #[allow(clippy::too_many_arguments)]
    fn adam(
        value: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        scale: f32,
        rate: f32,
        correction: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

impl FusedOps for Flex {
    fn bernoulli(x: Raw, logits: Raw) -> Raw {
        bernoulli::forward(&x, &logits)
    }

    fn bins(x: Raw, mean: Raw, log_std: Raw, bin: f32) -> Raw {
        bins::forward([&x, &mean, &log_std], bin)
    }

    fn linear(x: Raw, weight: Raw, bias: Raw, activation: Activation) -> Raw {
        linear::forward(&x, &weight, &bias, activation)
    }

    fn map_weights(weight: Raw, bias: Raw, uses: MapUses) -> Raw {
        step_map::prepare(&weight, &bias, &uses)
    }

    fn step_map(x: Raw, _: Raw, uses: MapUses, activation: Activation) -> Raw {
        step_map::forward(&x, &uses, activation)
    }

    fn step_weights(input: Raw, hidden: Raw, bias: Raw, uses: Uses) -> Raw {
        steps::pack(&input, &hidden, &bias, &uses)
    }

    fn lstm_step(x: Raw, hidden: Raw, cell: Raw, _: Raw, uses: Uses, parts: Parts) -> Raw {
        steps::forward(&x, &hidden, &cell, uses, parts)
    }

    fn lstm_sequence(
        x: Raw,
        hidden: Raw,
        cell: Raw,
        weight_input: Raw,
        weight_hidden: Raw,
        bias: Raw,
        parts: Parts,
    ) -> Raw {
        let all = [&x, &hidden, &cell, &weight_input, &weight_hidden, &bias];
        sequence::forward(all, parts)
    }

    fn cosine(keys: Raw, memory: Raw) -> Raw {
        content::forward(&keys, None, &memory).0
    }

    fn content(keys: Raw, strengths: Raw, memory: Raw) -> Raw {
        content::forward(&keys, Some(&strengths), &memory).0
    }

    fn dnc_step(
        interface: Raw,
        rows: Raw,
        usage: Raw,
        precedence: Raw,
        links: Raw,
        read_weights: Raw,
        write_weights: Raw,
        parts: Parts,
    ) -> Raw {
        let before = [
            &interface,
            &rows,
            &usage,
            &precedence,
            &links,
            &read_weights,
            &write_weights,
        ];
        dnc::forward(before, &parts)
    }

    fn relate(
        projected: Raw,
        gamma: Raw,
        beta: Raw,
        epsilon: f32,
        sizes: Relation,
        parts: Parts,
    ) -> Raw {
        relation::forward([&projected, &gamma, &beta], sizes, epsilon, parts)
    }

    fn normalised_sum(a: Raw, b: Raw, gamma: Raw, beta: Raw, epsilon: f32) -> Raw {
        norm::forward([&a, &b, &gamma, &beta], epsilon)
    }

    fn gated_memory(
        from_memory: Raw,
        from_input: Raw,
        candidate: Raw,
        memory: Raw,
        biases: [f32; 2],
    ) -> Raw {
        gated::forward([&from_memory, &from_input, &candidate, &memory], biases)
    }

    fn highway(all: Raw, carried: Raw, columns: Columns, units: Units) -> Raw {
        highway::forward(&all, &carried, columns, units)
    }

    fn tanh(x: Raw) -> Raw {
        gated::tanh(&x)
    }

    fn kl(mean_q: Raw, log_std_q: Raw, mean_p: Raw, log_std_p: Raw) -> Raw {
        gaussian::kl([&mean_q, &log_std_q, &mean_p, &log_std_p])
    }

    fn sample(mean: Raw, log_std: Raw, noise: Raw) -> Raw {
        gaussian::sample(&mean, &log_std, &noise)
    }

    fn halves(whole: Raw, bounds: [f32; 2], parts: Parts) -> Raw {
        halves::forward(&whole, bounds, &parts)
    }

    fn split(whole: Raw, count: usize, parts: Parts) -> Raw {
        split::forward(&whole, count, &parts)
    }

    fn part(_: Raw, parts: Parts, index: usize) -> Raw {
        parts.take(index)
    }

    fn batch_norm(
        x: Raw,
        gamma: Raw,
        beta: Raw,
        numbers: [f32; 2],
        found: batch_norm::Found,
    ) -> Raw {
        batch_norm::forward(&x, &gamma, &beta, numbers, &found)
    }

    fn convolution(input: Raw, weight: Raw, bias: Raw, options: conv::Options) -> Raw {
        conv::forward(&input, &weight, &bias, &options)
    }

    fn sum_of_squares(x: Raw) -> Raw {
        adam::sum_of_squares(&x)
    }

    fn product(left: Raw, right: Raw) -> Raw {
        tensor_product(left, right)
    }

    fn softmax(logits: Raw, bias: Raw) -> (Raw, Raw) {
        softmax::softmax(logits, &bias)
    }

    fn adam(
        value: Raw,
        gradient: Raw,
        first: Raw,
        second: Raw,
        scale: f32,
        rate: f32,
        correction: f32,
    ) -> (Raw, Raw, Raw) {
        adam::step(value, gradient, first, second, [scale, rate, correction])
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn bernoulli(x: FloatTensor<Self>, logits: FloatTensor<Self>) -> FloatTensor<Self> {
        bernoulli::tracked::<C>(x, logits)
    }

    fn bins(
        x: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        log_std: FloatTensor<Self>,
        bin: f32,
    ) -> FloatTensor<Self> {
        bins::tracked::<C>(x, mean, log_std, bin)
    }

    fn linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        linear::tracked::<C>(x, weight, bias, activation)
    }

    fn map_weights(
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        uses: MapUses,
    ) -> FloatTensor<Self> {
        step_map::tracked_map::<C>(weight, bias, uses)
    }

    fn step_map(
        x: FloatTensor<Self>,
        map: FloatTensor<Self>,
        uses: MapUses,
        activation: Activation,
    ) -> FloatTensor<Self> {
        step_map::tracked_use::<C>(x, map, uses, activation)
    }

    fn step_weights(
        input: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        uses: Uses,
    ) -> FloatTensor<Self> {
        steps::tracked_weights::<C>(input, hidden, bias, uses)
    }

    fn lstm_step(
        x: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        cell: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        uses: Uses,
        parts: Parts,
    ) -> FloatTensor<Self> {
        steps::tracked_step::<C>(x, hidden, cell, weights, uses, parts)
    }

    fn lstm_sequence(
        x: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        cell: FloatTensor<Self>,
        weight_input: FloatTensor<Self>,
        weight_hidden: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        parts: Parts,
    ) -> FloatTensor<Self> {
        let all = [x, hidden, cell, weight_input, weight_hidden, bias];
        sequence::tracked::<C>(all, parts)
    }

    fn cosine(keys: FloatTensor<Self>, memory: FloatTensor<Self>) -> FloatTensor<Self> {
        content::tracked_cosine::<C>(keys, memory)
    }

    fn content(
        keys: FloatTensor<Self>,
        strengths: FloatTensor<Self>,
        memory: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        content::tracked_weights::<C>(keys, strengths, memory)
    }

    fn dnc_step(
        interface: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        usage: FloatTensor<Self>,
        precedence: FloatTensor<Self>,
        links: FloatTensor<Self>,
        read_weights: FloatTensor<Self>,
        write_weights: FloatTensor<Self>,
        parts: Parts,
    ) -> FloatTensor<Self> {
        let before = [
            interface,
            rows,
            usage,
            precedence,
            links,
            read_weights,
            write_weights,
        ];
        dnc::tracked::<C>(before, parts)
    }

    fn relate(
        projected: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
        sizes: Relation,
        parts: Parts,
    ) -> FloatTensor<Self> {
        relation::tracked::<C>([projected, gamma, beta], sizes, epsilon, parts)
    }

    fn normalised_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self> {
        norm::tracked::<C>([a, b, gamma, beta], epsilon)
    }

    fn gated_memory(
        from_memory: FloatTensor<Self>,
        from_input: FloatTensor<Self>,
        candidate: FloatTensor<Self>,
        memory: FloatTensor<Self>,
        biases: [f32; 2],
    ) -> FloatTensor<Self> {
        gated::tracked::<C>([from_memory, from_input, candidate, memory], biases)
    }

    fn highway(
        all: FloatTensor<Self>,
        carried: FloatTensor<Self>,
        columns: Columns,
        units: Units,
    ) -> FloatTensor<Self> {
        highway::tracked::<C>(all, carried, columns, units)
    }

    fn tanh(x: FloatTensor<Self>) -> FloatTensor<Self> {
        gated::tracked_tanh::<C>(x)
    }

    fn kl(
        mean_q: FloatTensor<Self>,
        log_std_q: FloatTensor<Self>,
        mean_p: FloatTensor<Self>,
        log_std_p: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        gaussian::tracked_kl::<C>([mean_q, log_std_q, mean_p, log_std_p])
    }

    fn sample(
        mean: FloatTensor<Self>,
        log_std: FloatTensor<Self>,
        noise: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        gaussian::tracked_sample::<C>(mean, log_std, noise)
    }

    fn halves(whole: FloatTensor<Self>, bounds: [f32; 2], parts: Parts) -> FloatTensor<Self> {
        halves::tracked::<C>(whole, bounds, parts)
    }

    fn split(whole: FloatTensor<Self>, count: usize, parts: Parts) -> FloatTensor<Self> {
        split::tracked::<C>(whole, count, parts)
    }

    fn part(whole: FloatTensor<Self>, parts: Parts, index: usize) -> FloatTensor<Self> {
        parts::tracked::<C>(whole, parts, index)
    }

    fn batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        numbers: [f32; 2],
        found: batch_norm::Found,
    ) -> FloatTensor<Self> {
        batch_norm::tracked::<C>(x, gamma, beta, numbers, found)
    }

    fn convolution(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        options: conv::Options,
    ) -> FloatTensor<Self> {
        conv::tracked::<C>(input, weight, bias, options)
    }

    fn sum_of_squares(_: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("the norm of a gradient is not differentiated")
    }

    fn product(_: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("a product that is differentiated is Burn's")
    }

    fn softmax(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("the gradient through a softmax with its normaliser is written by hand")
    }

    fn adam(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: f32,
        _: f32,
        _: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("an update of parameters is not differentiated")
    }
}

/// A tensor of the CPU backend.
pub(crate) type Raw = FloatTensor<Flex>;

/// Whether kernels take the place of plain compositions for tensors on `device`.
pub(crate) fn fused(device: &Device) -> bool {
    crate::kernels_enabled() && device.clone().inner() == Device::flex()
}

/// [`crate::bernoulli::log_likelihood`]
pub(crate) fn bernoulli(x: Tensor<2>, logits: Tensor<2>) -> Tensor<1> {
    let output = <Dispatch as FusedOps>::bernoulli(x.into_dispatch(), logits.into_dispatch());
    Tensor::from_dispatch(output)
}

/// [`crate::bins::log_probability`]
pub(crate) fn bins(x: Tensor<2>, mean: Tensor<2>, log_std: Tensor<2>, bin: f32) -> Tensor<1> {
    let output = <Dispatch as FusedOps>::bins(
        x.into_dispatch(),
        mean.into_dispatch(),
        log_std.into_dispatch(),
        bin,
    );
    Tensor::from_dispatch(output)
}

/// [`crate::linear::linear`]
pub(crate) fn linear(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    activation: Activation,
) -> Tensor<2> {
    let output = <Dispatch as FusedOps>::linear(
        x.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        activation,
    );
    Tensor::from_dispatch(output)
}

/// [`crate::linear::StepMap::new`]
pub(crate) fn map_weights(weight: Tensor<2>, bias: Tensor<1>, uses: MapUses) -> Tensor<1> {
    let output =
        <Dispatch as FusedOps>::map_weights(weight.into_dispatch(), bias.into_dispatch(), uses);
    Tensor::from_dispatch(output)
}

/// [`crate::linear::StepMap::forward`]
pub(crate) fn step_map(
    x: Tensor<2>,
    map: Tensor<1>,
    uses: MapUses,
    activation: Activation,
) -> Tensor<2> {
    let output =
        <Dispatch as FusedOps>::step_map(x.into_dispatch(), map.into_dispatch(), uses, activation);
    Tensor::from_dispatch(output)
}

/// [`crate::lstm::LstmWeights`]
pub(crate) fn step_weights(
    input: Tensor<2>,
    hidden: Tensor<2>,
    bias: Tensor<1>,
    uses: Uses,
) -> Tensor<1> {
    let output = <Dispatch as FusedOps>::step_weights(
        input.into_dispatch(),
        hidden.into_dispatch(),
        bias.into_dispatch(),
        uses,
    );
    Tensor::from_dispatch(output)
}

/// [`crate::lstm::lstm_step`]
pub(crate) fn lstm_step(
    x: Tensor<2>,
    hidden: Tensor<2>,
    cell: Tensor<2>,
    weights: Tensor<1>,
    uses: Uses,
) -> (Tensor<2>, Tensor<2>) {
    let parts = Parts::default();
    let whole = <Dispatch as FusedOps>::lstm_step(
        x.into_dispatch(),
        hidden.into_dispatch(),
        cell.into_dispatch(),
        weights.into_dispatch(),
        uses,
        parts.clone(),
    );
    let whole = Tensor::from_dispatch(whole);
    (part(&whole, &parts, 0), part(&whole, &parts, 1))
}

/// [`crate::lstm::lstm_sequence`]
pub(crate) fn lstm_sequence(
    x: Tensor<2>,
    state: [Tensor<2>; 2],
    weights: [Tensor<2>; 2],
    bias: Tensor<1>,
) -> [Tensor<2>; 3] {
    let parts = Parts::default();
    let [hidden, cell] = state.map(Tensor::into_dispatch);
    let [input, recurrent] = weights.map(Tensor::into_dispatch);
    let whole = <Dispatch as FusedOps>::lstm_sequence(
        x.into_dispatch(),
        hidden,
        cell,
        input,
        recurrent,
        bias.into_dispatch(),
        parts.clone(),
    );
    let whole = Tensor::from_dispatch(whole);
    [0, 1, 2].map(|index| part(&whole, &parts, index))
}

/// [`crate::content::cosine_similarity`]
pub(crate) fn cosine(keys: Tensor<3>, memory: Tensor<3>) -> Tensor<3> {
    let output = <Dispatch as FusedOps>::cosine(keys.into_dispatch(), memory.into_dispatch());
    Tensor::from_dispatch(output)
}

/// [`crate::content::content_weights`]
pub(crate) fn content(keys: Tensor<3>, strengths: Tensor<2>, memory: Tensor<3>) -> Tensor<3> {
    let output = <Dispatch as FusedOps>::content(
        keys.into_dispatch(),
        strengths.into_dispatch(),
        memory.into_dispatch(),
    );
    Tensor::from_dispatch(output)
}

/// [`crate::dnc::dnc_step`]
pub(crate) fn dnc_step(interface: Tensor<2>, memory: DncMemory) -> DncStep {
    let parts = Parts::default();
    let whole = <Dispatch as FusedOps>::dnc_step(
        interface.into_dispatch(),
        memory.rows.into_dispatch(),
        memory.usage.into_dispatch(),
        memory.precedence.into_dispatch(),
        memory.links.into_dispatch(),
        memory.read_weights.into_dispatch(),
        memory.write_weights.into_dispatch(),
        parts.clone(),
    );
    let whole = Tensor::from_dispatch(whole);
    DncStep {
        memory: DncMemory {
            rows: part(&whole, &parts, 0),
            usage: part(&whole, &parts, 1),
            precedence: part(&whole, &parts, 2),
            links: part(&whole, &parts, 3),
            read_weights: part(&whole, &parts, 4),
            write_weights: part(&whole, &parts, 5),
        },
        allocation: part(&whole, &parts, 6),
        read_vectors: part(&whole, &parts, 7),
    }
}

/// [`crate::relation::relate`]
pub(crate) fn relate(
    projected: Tensor<2>,
    [gamma, beta]: [Tensor<1>; 2],
    epsilon: f32,
    sizes: Relation,
) -> (Tensor<2>, Tensor<4>) {
    let parts = Parts::default();
    let whole = <Dispatch as FusedOps>::relate(
        projected.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        epsilon,
        sizes,
        parts.clone(),
    );
    let whole = Tensor::from_dispatch(whole);
    (part(&whole, &parts, 0), part(&whole, &parts, 1))
}

/// [`crate::relation::normalised_sum`]
pub(crate) fn normalised_sum(
    a: Tensor<2>,
    b: Tensor<2>,
    [gamma, beta]: [Tensor<1>; 2],
    epsilon: f32,
) -> Tensor<2> {
    let output = <Dispatch as FusedOps>::normalised_sum(
        a.into_dispatch(),
        b.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        epsilon,
    );
    Tensor::from_dispatch(output)
}

/// [`crate::relation::gated_memory`]
pub(crate) fn gated_memory(all: [Tensor<2>; 4], biases: [f32; 2]) -> Tensor<2> {
    let [from_memory, from_input, candidate, memory] = all.map(Tensor::into_dispatch);
    let output =
        <Dispatch as FusedOps>::gated_memory(from_memory, from_input, candidate, memory, biases);
    Tensor::from_dispatch(output)
}

/// [`crate::highway`]
pub(crate) fn highway(
    all: Tensor<2>,
    carried: Tensor<2>,
    columns: Columns,
    units: Units,
) -> Tensor<2> {
    // Its gradient goes to where it lies.
    let carried = match columns.carried {
        Some(_) => carried.detach(),
        None => carried,
    };
    let (all, carried) = (all.into_dispatch(), carried.into_dispatch());
    Tensor::from_dispatch(<Dispatch as FusedOps>::highway(
        all, carried, columns, units,
    ))
}

/// [`crate::relation::tanh`]
pub(crate) fn tanh(x: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as FusedOps>::tanh(x.into_dispatch()))
}

/// An output of an operation with several, once.
fn part<const D: usize>(whole: &Tensor<1>, parts: &Parts, index: usize) -> Tensor<D> {
    let whole = whole.clone().into_dispatch();
    let output = <Dispatch as FusedOps>::part(whole, parts.clone(), index);
    Tensor::from_dispatch(output)
}

/// [`crate::split::halves`]
pub(crate) fn halves(whole: Tensor<2>, bounds: [f32; 2]) -> (Tensor<2>, Tensor<2>) {
    let parts = Parts::default();
    let whole = <Dispatch as FusedOps>::halves(whole.into_dispatch(), bounds, parts.clone());
    let whole = Tensor::from_dispatch(whole);
    (part(&whole, &parts, 0), part(&whole, &parts, 1))
}

/// [`crate::split::split_rows`]
pub(crate) fn split<const D: usize>(whole: Tensor<D>, count: usize) -> Vec<Tensor<D>> {
    let parts = Parts::default();
    let whole = <Dispatch as FusedOps>::split(whole.into_dispatch(), count, parts.clone());
    let whole = Tensor::from_dispatch(whole);
    (0..count)
        .map(|index| part(&whole, &parts, index))
        .collect()
}

/// [`crate::gaussian::kl_divergence`]
pub(crate) fn kl(
    mean_q: Tensor<2>,
    log_std_q: Tensor<2>,
    mean_p: Tensor<2>,
    log_std_p: Tensor<2>,
) -> Tensor<1> {
    let output = <Dispatch as FusedOps>::kl(
        mean_q.into_dispatch(),
        log_std_q.into_dispatch(),
        mean_p.into_dispatch(),
        log_std_p.into_dispatch(),
    );
    Tensor::from_dispatch(output)
}

/// [`crate::gaussian::sample`]
pub(crate) fn sample(mean: Tensor<2>, log_std: Tensor<2>, noise: Tensor<2>) -> Tensor<2> {
    let output = <Dispatch as FusedOps>::sample(
        mean.into_dispatch(),
        log_std.into_dispatch(),
        noise.into_dispatch(),
    );
    Tensor::from_dispatch(output)
}

/// [`crate::batch_norm::batch_norm_leaky_relu`], `numbers` epsilon and slope; also means and variances of the channels.
pub(crate) fn batch_norm(
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    numbers: [f32; 2],
) -> (Tensor<4>, Tensor<1>) {
    let device = x.device();
    let found = batch_norm::Found::default();
    let output = <Dispatch as FusedOps>::batch_norm(
        x.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        numbers,
        found.clone(),
    );
    let moments = Tensor::from_floats(found.moments(), &device);
    (Tensor::from_dispatch(output), moments)
}

/// [`crate::conv`]; weights of all kernels one after the other.
pub(crate) fn conv(
    input: Tensor<4>,
    weight: Tensor<1>,
    bias: Tensor<1>,
    options: conv::Options,
) -> Tensor<4> {
    let output = <Dispatch as FusedOps>::convolution(
        input.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        options,
    );
    Tensor::from_dispatch(output)
}

/// [`crate::adam::sum_of_squares`]
pub(crate) fn sum_of_squares(x: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(<Dispatch as FusedOps>::sum_of_squares(x.into_dispatch()))
}

/// [`crate::product::product`]
pub(crate) fn product(left: Tensor<2>, right: Tensor<2>) -> Tensor<2> {
    let product = <Dispatch as FusedOps>::product(left.into_dispatch(), right.into_dispatch());
    Tensor::from_dispatch(product)
}

/// [`crate::softmax::softmax`]
pub(crate) fn softmax(logits: Tensor<2>, bias: Tensor<1>) -> (Tensor<2>, Tensor<1>) {
    let (probabilities, normaliser) =
        <Dispatch as FusedOps>::softmax(logits.into_dispatch(), bias.into_dispatch());
    (
        Tensor::from_dispatch(probabilities),
        Tensor::from_dispatch(normaliser),
    )
}

/// [`crate::adam::step`]
pub(crate) fn adam(
    value: Tensor<1>,
    gradient: Tensor<1>,
    first: Tensor<1>,
    second: Tensor<1>,
    [scale, rate, correction]: [f32; 3],
) -> [Tensor<1>; 3] {
    let (value, first, second) = <Dispatch as FusedOps>::adam(
        value.into_dispatch(),
        gradient.into_dispatch(),
        first.into_dispatch(),
        second.into_dispatch(),
        scale,
        rate,
        correction,
    );
    [value, first, second].map(Tensor::from_dispatch)
}

/// The elements of a tensor in order; a copy where they do not lie so.
fn contiguous(tensor: &Raw) -> Raw {
    match tensor.as_slice::<f32>() {
        Some(_) => tensor.clone(),
        None => tensor.to_contiguous(),
    }
}

fn slice(tensor: &Raw) -> &[f32] {
    tensor
        .as_slice()
        .expect("the tensor was made contiguous and holds 32-bit floats")
}

/// A tensor whose storage holds its elements in order and nothing else.
fn exact(tensor: Raw) -> Raw {
    let elements = tensor.layout().num_elements();
    let whole = tensor.as_slice::<f32>().is_some() && tensor.storage::<f32>().len() == elements;
    match whole {
        true => tensor,
        false => tensor.to_contiguous(),
    }
}

fn raw(values: Vec<f32>, shape: impl Into<Shape>) -> Raw {
    Raw::from_data(TensorData::new(values, shape))
}

/// `left right`, `[rows of left, columns of right]`.
///
/// # Panics
/// If the matrices do not fit together.
fn matrix_product(left: Matrix<'_>, right: Matrix<'_>) -> Raw {
    raw(
        product::numbers(left, right),
        [left.rows(), right.columns()],
    )
}

/// The same of tensors; the transpose of what lies in order is read as it lies.
fn tensor_product(left: Raw, right: Raw) -> Raw {
    let lie = |tensor: Raw| {
        let turned = Flex::float_transpose(tensor.clone());
        match tensor.as_slice::<f32>().is_none() && turned.as_slice::<f32>().is_some() {
            true => (turned, true),
            false => (contiguous(&tensor), false),
        }
    };
    let (left, right) = (lie(left), lie(right));
    fn matrix((tensor, turned): &(Raw, bool)) -> Matrix<'_> {
        let matrix = Matrix::new(slice(tensor), tensor.layout().shape().dims());
        match turned {
            true => matrix.turned(),
            false => matrix,
        }
    }
    matrix_product(matrix(&left), matrix(&right))
}

/// A loop to be compiled for each instruction set.
trait Loop {
    type Output;
    /// Must be `inline(always)`, as all that it calls.
    fn run(self) -> Self::Output;
}

struct Vectorised<L>(L);

impl<L: Loop> WithSimd for Vectorised<L> {
    type Output = L::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> L::Output {
        self.0.run()
    }
}

/// Runs a loop with the best instructions that this machine has.
fn run<L: Loop>(work: L) -> L::Output {
    simd(Vectorised(work))
}

/// The same for work that names its vectors.
fn simd<W: WithSimd>(work: W) -> W::Output {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    ARCH.get_or_init(Arch::new).dispatch(work)
}

/// Runs `work` on equal shares of rows, in parallel where there is enough to do. How rows are
/// shared out changes no result: each row is worked on alone.
fn for_rows(
    output: &mut [f32],
    width: usize,
    cost: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    use rayon::prelude::*;
    /// Elements under which a second thread costs more than it saves.
    const SERIAL: usize = 1 << 16;
    let rows = output.len() / width.max(1);
    let threads = rayon::current_num_threads();
    if threads == 1 || rows * cost < SERIAL {
        return work(0, output);
    }
    let share = rows.div_ceil(threads);
    output
        .par_chunks_mut(share * width)
        .enumerate()
        .for_each(|(index, rows)| work(index * share, rows));
}
