//! What is timed, in the order of the table.

use super::{
    count::{self, Parameters},
    language, relational, sequences,
    work::{Prepared, Work},
};
use crate::{
    LabError,
    experiments::load_experiment,
    learner::StepFailure,
    trainer::{Model, Trainer, model, task},
    weights::parameter_count,
};
use burn::tensor::{Device, Tensor, TensorData};
use mnemora_kernels::{split::split_rows, works as kernels};
use mnemora_memory::{Initializer, Lstm, Memory};
use mnemora_models::{FilteringModel, FrameShape, visual::InceptionEncoder};
use mnemora_worlds::{Mnist, Split, Stream};
use std::sync::Arc;

/// The works whose ratio to PyTorch is what this project must show.
pub const MUST_SHOW: [&str; 6] = [
    "conv-blocks/gtmm-b1",
    "lstm-step/512",
    "lstm-step/128",
    "train-step/introspection-paper",
    "train-step/dnc-paper",
    "train-step/vrnn-paper",
];

/// All works but those of the limits.
pub fn works() -> Vec<Work> {
    let mut works = vec![
        convolution_blocks(),
        lstm("lstm-step", 512),
        lstm("lstm-step", 128),
    ];
    works.extend(["introspection", "dnc", "vrnn", "ntm", "lru", "hybrid"].map(training_step));
    works.extend(sequences::works());
    works.extend(relational::works());
    works.push(language::work());
    works.push(lstm("lstm-sequence", 512));
    works.push(lstm("lstm-sequence", 128));
    works.extend(kernels::works().into_iter().map(kernel));
    works
}

fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = Stream::new(1, "benchmark").standard_normal(0, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn initializer(device: &Device) -> Initializer {
    Initializer::new(Stream::new(1, "parameters").at(0), device.clone())
}

/// The encoder of gtmm, B.1, without its last linear map, on 250 frames.
fn convolution_blocks() -> Work {
    const FRAMES: usize = 250;
    let frame = FrameShape {
        channels: 1,
        height: 28,
        width: 28,
    };
    Work {
        name: "conv-blocks/gtmm-b1".into(),
        prepare: Box::new(move |device| {
            let encoder = InceptionEncoder::new(frame, 64, &mut initializer(device))?;
            let frames = numbers([FRAMES, frame.size()], device).clamp(0.0, 1.0);
            Ok(Prepared::new(
                count::convolution_blocks(FRAMES),
                move || {
                    encoder.maps(frames.clone()).backward();
                },
            ))
        }),
    }
}

/// An LSTM of 25 steps of ten sequences, one step at a time, with the gradients of weights and
/// inputs.
fn lstm(name: &str, hidden: usize) -> Work {
    const TIME: usize = 25;
    const BATCH: usize = 10;
    const INPUTS: usize = 32;
    Work {
        name: format!("{name}/{hidden}"),
        prepare: Box::new(move |device| {
            let lstm = Lstm::new(INPUTS, hidden, &mut initializer(device));
            let inputs = numbers([TIME * BATCH, INPUTS], device).require_grad();
            let device = device.clone();
            let cost = count::lstm([TIME, BATCH, INPUTS, hidden]);
            Ok(Prepared::new(cost, move || {
                let mut state = lstm.initial_state(BATCH, &device);
                let mut outputs = Vec::with_capacity(TIME);
                for input in split_rows(inputs.clone(), TIME) {
                    state = lstm.step(input, state);
                    outputs.push(state.hidden.clone());
                }
                Tensor::cat(outputs, 0).backward();
            }))
        }),
    }
}

/// A training step (forward, backward, clipping, Adam) at paper size on perfect recall, l = 15,
/// k = 5, batch 10.
fn training_step(memory: &'static str) -> Work {
    Work {
        name: format!("train-step/{memory}-paper"),
        prepare: Box::new(move |device| {
            let overrides = [format!("model.memory={memory}")];
            let experiment = load_experiment("perfect-recall", &overrides)?;
            let task = task(&experiment, Arc::new(Mnist::bundled()?))?;
            let model = model(&experiment, task.as_ref(), device)?;
            let data = Stream::new(experiment.seed, "data");
            let batch = task.batch(Split::Train, &data, 1, experiment.training.batch);
            let cost = count::training_step(&parameters(&model), batch.batch * batch.time);
            let parameters = parameter_count(&model);
            let mut trainer = Trainer::new(&experiment, model, task.as_ref(), device.clone())?;
            let mut step = 0;
            Ok(Prepared::of_model(cost, parameters, move || {
                step += 1;
                match trainer.step(&experiment, step, batch.clone()) {
                    Ok(_) => Ok(()),
                    Err(StepFailure::Batch(error)) => Err(error),
                    Err(StepFailure::NonFinite { what, .. }) => Err(LabError::Configuration(
                        format!("the benchmark's {what} is not finite"),
                    )),
                }
            }))
        }),
    }
}

fn parameters(model: &Model) -> Parameters {
    Parameters {
        model: parameter_count(model),
        recurrent: parameter_count(&model.memory)
            + parameter_count(&model.prior)
            + parameter_count(&model.posterior),
        decoder_inputs: model.latent_size() + model.memory.context_size(),
        features: 2 * model.latent_size(),
    }
}

fn kernel(work: kernels::KernelWork) -> Work {
    Work {
        name: format!("kernel/{}", work.name),
        prepare: Box::new(move |device| Ok(Prepared::new(work.cost, (work.prepare)(device)))),
    }
}
