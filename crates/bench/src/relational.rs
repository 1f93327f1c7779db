//! Training steps of the Relational Memory Core at the sizes of Santoro et al. 2018 (rmc), appendix A.1.

use crate::{
    BenchError,
    benchmark::{Benchmark, Prepared},
    cost::Cost,
    draws::{initializer, numbers},
    sequences::LEARNING_RATE,
};
use burn::tensor::{Device, Tensor};
use mnemora_memory::{CoreConfig, RmcConfig};
use mnemora_models::ClassifierConfig;
use mnemora_training::{
    arrays::parameter_count,
    optimiser::{Optimiser, ParameterGradients, take},
};

/// Vectors per sequence, which is also the number of steps, labels and classes.
const VECTORS: usize = 8;
const DIMENSIONS: usize = 16;
const INPUTS: usize = DIMENSIONS + 3 * VECTORS;
const SLOTS: usize = 8;
const HEADS: usize = 8;
const HEAD_SIZE: usize = 32;
const WIDTH: usize = HEADS * HEAD_SIZE;
const HEAD_LAYERS: usize = 4;
const HEAD_HIDDEN: usize = 256;

pub(super) fn benchmarks() -> Vec<Benchmark> {
    [64, 1600].map(nth_farthest).into()
}

/// A training step (forward, backward, Adam) on the N-th farthest of eight vectors of 16 dimensions.
fn nth_farthest(batch: usize) -> Benchmark {
    Benchmark {
        name: format!("train-step/rmc-{batch}"),
        prepare: Box::new(move |device| {
            let config = ClassifierConfig {
                core: CoreConfig::Rmc(RmcConfig::new(INPUTS, SLOTS, HEADS, HEAD_SIZE)),
                head_layers: HEAD_LAYERS,
                head_hidden: HEAD_HIDDEN,
                classes: VECTORS,
            };
            prepare(&config, batch, device)
        }),
    }
}

fn prepare(
    config: &ClassifierConfig,
    batch: usize,
    device: &Device,
) -> Result<Prepared, BenchError> {
    let mut init = initializer(device);
    let mut model = config.init(&mut init)?;
    let parameters = parameter_count(&model);
    let inputs = numbers([VECTORS, batch, INPUTS], device);
    let classes: Vec<i32> = (0..batch as i32).map(|row| row % VECTORS as i32).collect();
    let targets = Tensor::<1, burn::tensor::Int>::from_ints(classes.as_slice(), device)
        .one_hot::<2>(VECTORS)
        .float();
    let mut adam = Optimiser::default();
    let mut updates = 0;
    Ok(Prepared::of_model(
        cost(batch, parameters),
        parameters,
        move || {
            let said = model.forward(inputs.clone());
            let loss = said.log_likelihood(targets.clone()).mean().neg();
            let gradients = ParameterGradients::of(&model, loss.backward());
            updates += 1;
            let before = take(&mut model);
            model = adam.step(before, gradients, 1.0, LEARNING_RATE, updates);
            Ok(())
        },
    ))
}

/// The products of a training step. Inputs are data.
fn cost(batch: usize, parameters: usize) -> Cost {
    let rows = VECTORS * batch;
    let inputs = Cost::product(rows, INPUTS, WIDTH).with_backward_to_weights();
    let head = Cost::product(batch, SLOTS * WIDTH, HEAD_HIDDEN)
        + Cost::product(batch, (HEAD_LAYERS - 1) * HEAD_HIDDEN, HEAD_HIDDEN)
        + Cost::product(batch, HEAD_HIDDEN, VECTORS);
    let steps = step_products(rows, [SLOTS, WIDTH], WIDTH);
    inputs + (steps + head).with_backward() + Cost::array(6 * parameters + rows * INPUTS)
}

/// The products of `steps` steps of an RMC after the projection of the input: projections of all rows, scores and reads
/// of the memory's rows, two layers of the MLP, and two gates of `gate` numbers for each slot.
pub(super) fn step_products(steps: usize, [slots, width]: [usize; 2], gate: usize) -> Cost {
    Cost::product(steps * (slots + 1), width, 3 * width)
        + Cost::product(steps * slots, slots + 1, 2 * width)
        + Cost::product(steps * slots, width, 2 * width)
        + Cost::product(steps * (slots + 1), width, 2 * gate)
}
