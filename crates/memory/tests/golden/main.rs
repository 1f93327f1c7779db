//! The memories against the NumPy statements in `reference/`: values and gradients.

mod file;

use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Device, Gradients, Tensor},
};
use file::{Golden, assert_close};
use mnemora_memory::{
    Initializer, IntrospectionConfig, Lstm, Memory, MemoryContext, Previous, VrnnConfig,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn initializer(device: &Device) -> Initializer {
    Initializer::new(ChaCha8Rng::seed_from_u64(0), device.clone())
}

fn parameter<const D: usize>(golden: &Golden, name: &str, device: &Device) -> Param<Tensor<D>> {
    Param::from_tensor(golden.tensor(name, device))
}

fn lstm(golden: &Golden, device: &Device) -> Lstm {
    Lstm {
        weight_input: parameter(golden, "lstm.weight_input", device),
        weight_hidden: parameter(golden, "lstm.weight_hidden", device),
        bias: parameter(golden, "lstm.bias", device),
    }
}

fn linear(golden: &Golden, name: &str, device: &Device) -> Linear {
    Linear {
        weight: parameter(golden, &format!("{name}.weight"), device),
        bias: Some(parameter(golden, &format!("{name}.bias"), device)),
    }
}

/// A `[time, batch, width]` input as leaves, one a step.
fn leaves(golden: &Golden, name: &str, device: &Device) -> Vec<Tensor<2>> {
    let tensor: Tensor<3> = golden.tensor(name, device);
    let time = tensor.dims()[0];
    tensor
        .chunk(time, 0)
        .into_iter()
        .map(|step| step.squeeze_dim::<2>(0).detach().require_grad())
        .collect()
}

/// Contexts of all steps, the memory fed with given latents, features and conditions.
fn run<M: Memory>(
    memory: &M,
    latents: &[Tensor<2>],
    features: &[Tensor<2>],
    conditions: &[Tensor<2>],
    device: &Device,
) -> Vec<MemoryContext> {
    let mut state = memory.initial_state(latents[0].dims()[0], device);
    let mut previous = None;
    let mut contexts = Vec::new();
    for (step, latent) in latents.iter().enumerate() {
        let (context, next) = memory.step(previous, conditions.get(step).cloned(), state);
        state = next;
        previous = Some(Previous {
            latent: latent.clone(),
            features: features.get(step).unwrap_or(latent).clone(),
        });
        contexts.push(context);
    }
    contexts
}

fn backward(golden: &Golden, contexts: &[MemoryContext], device: &Device) -> Gradients {
    let psi = Tensor::stack::<3>(contexts.iter().map(|c| c.psi.clone()).collect(), 0);
    assert_close("psi", &golden.values("psi"), psi.clone());
    (psi * golden.tensor::<3>("probe", device)).sum().backward()
}

/// The gradient of inputs that are leaves, zero for one that no output depends on.
fn check_leaves(golden: &Golden, name: &str, leaves: &[Tensor<2>], gradients: &Gradients) {
    let gradient = leaves
        .iter()
        .map(|leaf| match leaf.grad(gradients) {
            Some(gradient) => gradient,
            None => leaf.clone().inner().zeros_like(),
        })
        .collect();
    let gradient = Tensor::stack::<3>(gradient, 0);
    assert_close(name, &golden.values(name), gradient);
}

fn check<const D: usize>(golden: &Golden, name: &str, param: &Param<Tensor<D>>, g: &Gradients) {
    let gradient = param
        .val()
        .grad(g)
        .unwrap_or_else(|| panic!("{name}: no gradient"));
    let name = format!("grad.{name}");
    assert_close(&name, &golden.values(&name), gradient);
}

fn check_lstm(golden: &Golden, lstm: &Lstm, g: &Gradients) {
    check(golden, "lstm.weight_input", &lstm.weight_input, g);
    check(golden, "lstm.weight_hidden", &lstm.weight_hidden, g);
    check(golden, "lstm.bias", &lstm.bias, g);
}

fn check_linear(golden: &Golden, name: &str, linear: &Linear, g: &Gradients) {
    check(golden, &format!("{name}.weight"), &linear.weight, g);
    let bias = linear.bias.as_ref().expect("these maps have a bias");
    check(golden, &format!("{name}.bias"), bias, g);
}

fn introspection(file: &str) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let latents = leaves(&golden, "latents", &device);
    let conditions = match golden.has("conditions") {
        true => leaves(&golden, "conditions", &device),
        false => Vec::new(),
    };
    let read_weights = golden.shape("read_weights");
    let (heads, slots) = (read_weights[2], read_weights[3]);
    let config = IntrospectionConfig {
        latent: latents[0].dims()[1],
        condition: conditions.first().map_or(0, |c| c.dims()[1]),
        hidden: golden.shape("lstm.weight_hidden")[0],
        attention: golden.shape("attention_hidden.bias")[0],
        reads: heads,
        slots,
    };
    let mut memory = config.init(&mut initializer(&device)).unwrap();
    memory.lstm = lstm(&golden, &device);
    memory.attention_hidden = linear(&golden, "attention_hidden", &device);
    memory.attention_output = linear(&golden, "attention_output", &device);
    memory.gate = linear(&golden, "gate", &device);

    let contexts = run(&memory, &latents, &[], &conditions, &device);
    let batch = read_weights[1];
    for (step, context) in contexts.iter().enumerate() {
        let expected = &golden.values("read_weights")
            [step * batch * heads * slots..(step + 1) * batch * heads * slots];
        match context.attention.first() {
            None => assert!(expected.iter().all(|w| *w == 0.0)),
            Some(attention) => {
                let filled = attention.weights.dims()[2];
                assert_eq!(filled, step.min(slots));
                let padding = Tensor::zeros([batch, heads, slots - filled], &device);
                let weights = match filled == slots {
                    true => attention.weights.clone(),
                    false => Tensor::cat(vec![attention.weights.clone(), padding], 2),
                };
                assert_close("read_weights", expected, weights);
            }
        }
    }
    let gradients = backward(&golden, &contexts, &device);
    check_lstm(&golden, &memory.lstm, &gradients);
    check_linear(
        &golden,
        "attention_hidden",
        &memory.attention_hidden,
        &gradients,
    );
    check_linear(
        &golden,
        "attention_output",
        &memory.attention_output,
        &gradients,
    );
    check_linear(&golden, "gate", &memory.gate, &gradients);
    check_leaves(&golden, "grad.latents", &latents, &gradients);
    if !conditions.is_empty() {
        check_leaves(&golden, "grad.conditions", &conditions, &gradients);
    }
    assert_eq!(memory.num_params(), golden.parameter_count());
}

#[test]
fn introspection_step_without_conditions() {
    introspection("introspection");
}

#[test]
fn introspection_drops_its_oldest_row_when_full() {
    introspection("introspection_fifo");
}

fn vrnn(file: &str) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let latents = leaves(&golden, "latents", &device);
    let features = leaves(&golden, "features", &device);
    let conditions = match golden.has("conditions") {
        true => leaves(&golden, "conditions", &device),
        false => Vec::new(),
    };
    let config = VrnnConfig {
        latent: latents[0].dims()[1],
        features: features[0].dims()[1],
        condition: conditions.first().map_or(0, |c| c.dims()[1]),
        hidden: golden.shape("lstm.weight_hidden")[0],
    };
    let mut memory = config.init(&mut initializer(&device)).unwrap();
    memory.lstm = lstm(&golden, &device);
    let contexts = run(&memory, &latents, &features, &conditions, &device);
    let gradients = backward(&golden, &contexts, &device);
    check_lstm(&golden, &memory.lstm, &gradients);
    check_leaves(&golden, "grad.latents", &latents, &gradients);
    check_leaves(&golden, "grad.features", &features, &gradients);
    if !conditions.is_empty() {
        check_leaves(&golden, "grad.conditions", &conditions, &gradients);
    }
}

#[test]
fn vrnn_step() {
    vrnn("vrnn");
}

#[test]
fn vrnn_step_with_conditions() {
    vrnn("vrnn_conditions");
}
