//! The table of fused operations. Each row: inputs with their ranks, settings, ranks of the outputs, and the
//! operation.

use super::{
    conv::{
        Options,
        batch_norm::{BatchNorm, Found},
        steps::{ConvStep, ConvUses, ConvWeights},
    },
    dense::{
        adam::{step as adam_step, sum_of_squares as squares},
        linear::Linear,
        softmax::softmax as softmax_rows,
        tanh::Tanh,
        tensor_product::tensor_product,
    },
    graph::{
        fused::{Undifferentiated, apply},
        split::{Split, SplitChannels},
    },
    memory::{
        content::{ContentWeights, Cosine},
        dnc::DncStep,
        gated::GatedMemory,
        highway::Highway,
        norm::NormalisedSum,
        relation::Relate,
    },
    probability::{
        bernoulli::Bernoulli,
        bins::Bins,
        gaussian::{Draw, KlDivergence, LogDensity},
        halves::Halves,
    },
    recurrent::{
        gates::LstmGates,
        sequence::LstmSequence,
        step_map::{MapUses, MapWeights, StepMap},
        steps::{LstmStep, StepWeights, Uses},
        walk::Walk,
    },
};
use crate::{
    highway::{Columns, Units},
    linear::Activation,
    relation::Relation,
};
use burn::tensor::Tensor;
use std::ops::Range;

/// Turns each row into a function on tensors.
macro_rules! fused {
    ($(
        $(#[$doc:meta])*
        $name:ident($($input:ident: $rank:literal),+ $(; $($setting:ident: $type:ty),+)?)
            -> $($output:literal),+ by $operation:expr;
    )+) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, unused_parens)]
        pub(crate) fn $name(
            $($input: Tensor<$rank>,)+
            $($($setting: $type,)+)?
        ) -> ($(Tensor<$output>),+) {
            let outputs = apply($operation, [$($input.into_dispatch()),+]);
            let mut outputs = outputs.into_iter();
            ($({
                let output = outputs.next().expect("there are as many outputs as the row says");
                Tensor::<$output>::from_dispatch(output)
            }),+)
        }
    )+};
}

fused! {
    /// [`crate::bernoulli::log_likelihood`]
    bernoulli(x: 2, logits: 2) -> 1 by Bernoulli;
    /// [`crate::gaussian::log_probability`]
    density(x: 2, mean: 2, log_std: 2) -> 1 by LogDensity;
    /// [`crate::bins::log_probability`]
    bins(x: 2, mean: 2, log_std: 2; bin: f32) -> 1 by Bins { bin };
    /// [`crate::gaussian::kl_divergence`]
    kl(mean_q: 2, log_std_q: 2, mean_p: 2, log_std_p: 2) -> 1 by KlDivergence;
    /// [`crate::gaussian::sample`]
    sample(mean: 2, log_std: 2, noise: 2) -> 2 by Draw;
    /// [`crate::split::halves`]
    halves(whole: 2; bounds: [f32; 2]) -> 2, 2 by Halves { bounds };

    /// [`crate::linear::linear`]
    linear(x: 2, weight: 2, bias: 1; activation: Activation) -> 2 by Linear { activation };
    /// [`crate::step_conv::StepConv::new`]; the output represents the weights.
    conv_weights(weight: 1; uses: ConvUses, options: Options) -> 1
        by ConvWeights { uses, options };
    /// [`crate::step_conv::StepConv::forward`]
    conv_step(x: 4, weights: 1; uses: ConvUses, options: Options) -> 4
        by ConvStep { uses, options };
    /// [`crate::linear::StepMap::new`]; the output represents the map.
    map_weights(weight: 2, bias: 1; uses: MapUses) -> 1 by MapWeights { uses };
    /// [`crate::linear::StepMap::forward`]
    step_map(x: 2, map: 1; uses: MapUses, activation: Activation) -> 2
        by StepMap { uses, activation };
    /// [`crate::relation::tanh`]
    tanh(x: 2) -> 2 by Tanh;
    /// [`crate::product::product`]
    product(left: 2, right: 2) -> 2 by Undifferentiated(tensor_product);
    /// [`crate::softmax::softmax`]
    softmax(logits: 2, bias: 1) -> 2, 1 by Undifferentiated(softmax_rows);
    /// [`crate::adam::sum_of_squares`]
    sum_of_squares(x: 1) -> 1 by Undifferentiated(squares);
    /// [`crate::adam::step`]; `rates` are scale, rate and correction.
    adam(value: 1, gradient: 1, first: 1, second: 1; rates: [f32; 3]) -> 1, 1, 1
        by Undifferentiated(move |inputs| adam_step(inputs, rates));

    /// [`crate::lstm::LstmWeights::new`]; the output represents the weights.
    step_weights(input: 2, hidden: 2, bias: 1; uses: Uses) -> 1 by StepWeights { uses };
    /// [`crate::lstm::lstm_step`]
    lstm_step(x: 2, hidden: 2, cell: 2, weights: 1; uses: Uses) -> 2, 2 by LstmStep { uses };
    /// [`crate::lstm::lstm_gates`]
    lstm_gates(gates: 2, cell: 2) -> 2, 2 by LstmGates;
    /// [`crate::lstm::lstm_sequence`]
    lstm_sequence(
        x: 2, hidden: 2, cell: 2, input: 2, recurrent: 2, bias: 1; resets: Option<Vec<bool>>
    ) -> 2, 2, 2 by LstmSequence { resets };
    /// [`crate::walls::fused_walk`]
    walk(pushes: 2, noise: 2, start: 2, w1: 2, b1: 1, w2: 2, b2: 1, w3: 2, b3: 1) -> 2, 2 by Walk;

    /// [`crate::content::cosine_similarity`]
    cosine(keys: 3, memory: 3) -> 3 by Cosine;
    /// [`crate::content::content_weights`]
    content(keys: 3, strengths: 2, memory: 3) -> 3 by ContentWeights;
    /// [`crate::dnc::fused_step`]; the memory's tensors are in the order of its fields.
    dnc_step(
        interface: 2, rows: 3, usage: 2, precedence: 2, links: 3, read_weights: 3, write_weights: 2
    ) -> 3, 2, 2, 3, 3, 2, 2, 2 by DncStep;
    /// [`crate::relation::relate`]
    relate(projected: 2, gamma: 1, beta: 1; epsilon: f32, sizes: Relation) -> 2, 4
        by Relate { sizes, epsilon };
    /// [`crate::relation::normalised_sum`]
    normalised_sum(a: 2, b: 2, gamma: 1, beta: 1; epsilon: f32) -> 2 by NormalisedSum { epsilon };
    /// [`crate::relation::gated_memory`]
    gated_memory(from_memory: 2, from_input: 2, candidate: 2, memory: 2; biases: [f32; 2]) -> 2
        by GatedMemory { biases };
    /// [`crate::highway`]
    highway(all: 2, carried: 2; columns: Columns, units: Units) -> 2 by Highway { columns, units };

    /// [`crate::conv`]; the weights of all kernels come one after the other.
    conv(input: 4, weight: 1, bias: 1; options: Options) -> 4 by options;
    /// [`crate::batch_norm::batch_norm_leaky_relu`]; `numbers` are epsilon and slope, and `found` receives the
    /// moments.
    batch_norm(x: 4, gamma: 1, beta: 1; numbers: [f32; 2], found: Found) -> 4
        by BatchNorm { numbers, found };
}

/// [`crate::split::split_channels`], with one output per part.
pub(crate) fn split_channels<const D: usize>(
    whole: Tensor<D>,
    parts: Vec<Vec<Range<usize>>>,
) -> Vec<Tensor<D>> {
    let parts = apply(SplitChannels { parts }, [whole.into_dispatch()]);
    parts.into_iter().map(Tensor::from_dispatch).collect()
}

/// [`crate::split::split_rows`], with one output per part.
pub(crate) fn split<const D: usize>(whole: Tensor<D>, count: usize) -> Vec<Tensor<D>> {
    let parts = apply(Split { count }, [whole.into_dispatch()]);
    parts.into_iter().map(Tensor::from_dispatch).collect()
}
