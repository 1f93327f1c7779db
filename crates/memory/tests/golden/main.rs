//! The memories against the NumPy implementations in `reference/`: values and gradients.

mod cores;
mod file;

use burn::{
    module::Param,
    nn::Linear,
    tensor::{Device, Gradients, Tensor},
};
use cores::{check_gradients, load};
use file::{Golden, assert_close};
use mnemora_memory::{
    ControllerKind, CoreMemory, DncConfig, HybridConfig, Initializer, IntrospectionConfig,
    LruConfig, Lstm, LstmMemoryConfig, Memory, MemoryContext, NtmConfig, Previous, SpatialConfig,
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

/// A `[time, batch, width]` input as one leaf per step.
fn leaves(golden: &Golden, name: &str, device: &Device) -> Vec<Tensor<2>> {
    let tensor: Tensor<3> = golden.tensor(name, device);
    let time = tensor.dims()[0];
    tensor
        .chunk(time, 0)
        .into_iter()
        .map(|step| step.squeeze_dim::<2>(0).detach().require_grad())
        .collect()
}

/// Contexts of all steps for given latents, features and conditions.
fn run<M: Memory>(
    memory: &M,
    latents: &[Tensor<2>],
    features: &[Tensor<2>],
    conditions: &[Tensor<2>],
    device: &Device,
) -> Vec<MemoryContext> {
    let mut state = memory.initial_state(latents[0].dims()[0], device);
    let prepared = memory.prepare();
    let mut previous = None;
    let mut contexts = Vec::new();
    for (step, latent) in latents.iter().enumerate() {
        let (context, next) =
            memory.step(&prepared, previous, conditions.get(step).cloned(), state);
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

/// Checks the gradients of inputs that are leaves. It is zero for one that no output depends on.
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
    let (latents, conditions) = inputs(&golden, &device);
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

    let (contexts, gradients) = check_run(&golden, &memory, &latents, &conditions, &device);
    check_attention(&golden, "read_weights", "read", &contexts);
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
    let (latents, conditions) = inputs(&golden, &device);
    let features = leaves(&golden, "features", &device);
    let config = LstmMemoryConfig {
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

/// Latents and conditions as leaves.
fn inputs(golden: &Golden, device: &Device) -> (Vec<Tensor<2>>, Vec<Tensor<2>>) {
    let latents = leaves(golden, "latents", device);
    let conditions = match golden.has("conditions") {
        true => leaves(golden, "conditions", device),
        false => Vec::new(),
    };
    (latents, conditions)
}

/// Compares the weights of all steps with `[time, batch, heads, slots]`; missing slots must be zero in the
/// reference.
fn check_attention(golden: &Golden, file: &str, name: &str, contexts: &[MemoryContext]) {
    let shape = golden.shape(file);
    let expected = golden.values(file);
    let size: usize = shape[1..].iter().product();
    for (step, context) in contexts.iter().enumerate() {
        let expected = &expected[step * size..(step + 1) * size];
        let found = context.attention.iter().find(|a| a.name == name);
        let Some(found) = found else {
            assert!(expected.iter().all(|w| *w == 0.0), "{file} at step {step}");
            continue;
        };
        let mut weights = found.weights();
        let [batch, heads, filled] = weights.dims();
        assert_eq!([batch, heads], [shape[1], shape[2]]);
        if filled < shape[3] {
            let padding = Tensor::zeros([batch, heads, shape[3] - filled], &weights.device());
            weights = Tensor::cat(vec![weights, padding], 2);
        }
        assert_close(&format!("{file} at step {step}"), expected, weights);
    }
}

/// Checks contexts, gradients of the given sequences and the number of parameters. Returns the gradients, for
/// checking the memory's own parameters.
fn check_run<M: Memory>(
    golden: &Golden,
    memory: &M,
    latents: &[Tensor<2>],
    conditions: &[Tensor<2>],
    device: &Device,
) -> (Vec<MemoryContext>, Gradients) {
    let contexts = run(memory, latents, &[], conditions, device);
    let gradients = backward(golden, &contexts, device);
    check_leaves(golden, "grad.latents", latents, &gradients);
    if !conditions.is_empty() {
        check_leaves(golden, "grad.conditions", conditions, &gradients);
    }
    assert_eq!(
        burn::module::Module::num_params(memory),
        golden.parameter_count()
    );
    (contexts, gradients)
}

fn ntm(file: &str) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let (latents, conditions) = inputs(&golden, &device);
    let latent = latents[0].dims()[1];
    let config = NtmConfig {
        input: latent + conditions.first().map_or(0, |c| c.dims()[1]),
        hidden: golden.shape("lstm.weight_hidden")[0],
        reads: golden.shape("read_weights")[2],
        writes: golden.shape("write_weights")[2],
        width: 4,
        slots: golden.shape("read_weights")[3],
    };
    let mut core = config.init(&mut initializer(&device)).unwrap();
    core.lstm = lstm(&golden, &device);
    core.interface = linear(&golden, "interface", &device);
    core.initial_weights = parameter(&golden, "initial_weights", &device);
    let memory = CoreMemory::new(core, latent);
    let (contexts, g) = check_run(&golden, &memory, &latents, &conditions, &device);
    check_attention(&golden, "read_weights", "read", &contexts);
    check_attention(&golden, "write_weights", "write", &contexts);
    check_lstm(&golden, &memory.core.lstm, &g);
    check_linear(&golden, "interface", &memory.core.interface, &g);
    check(&golden, "initial_weights", &memory.core.initial_weights, &g);
}

#[test]
fn ntm_step() {
    ntm("ntm");
}

#[test]
fn ntm_step_with_conditions_and_two_write_heads() {
    ntm("ntm_conditions");
}

fn lru(file: &str) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let (latents, conditions) = inputs(&golden, &device);
    let latent = latents[0].dims()[1];
    let config = LruConfig {
        input: latent + conditions.first().map_or(0, |c| c.dims()[1]),
        hidden: golden.shape("lstm.weight_hidden")[0],
        reads: golden.shape("read_weights")[2],
        width: 4,
        slots: golden.shape("read_weights")[3],
        nearest: 0,
    };
    let mut core = config.init(&mut initializer(&device)).unwrap();
    core.lstm = lstm(&golden, &device);
    core.interface = linear(&golden, "interface", &device);
    let memory = CoreMemory::new(core, latent);
    let (contexts, g) = check_run(&golden, &memory, &latents, &conditions, &device);
    check_attention(&golden, "read_weights", "read", &contexts);
    check_attention(&golden, "write_weights", "write", &contexts);
    check_lstm(&golden, &memory.core.lstm, &g);
    check_linear(&golden, "interface", &memory.core.interface, &g);
}

#[test]
fn lru_step() {
    lru("lru");
}

#[test]
fn lru_step_with_conditions() {
    lru("lru_conditions");
}

fn dnc(file: &str, hidden: usize, (controller, layers): (ControllerKind, usize)) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let (latents, conditions) = inputs(&golden, &device);
    let latent = latents[0].dims()[1];
    let config = DncConfig {
        input: latent + conditions.first().map_or(0, |c| c.dims()[1]),
        controller,
        layers,
        hidden,
        reads: golden.shape("read_weights")[2],
        width: 4,
        slots: golden.shape("read_weights")[3],
    };
    let core = config.init(&mut initializer(&device)).unwrap();
    let memory = CoreMemory::new(load(&golden, core), latent);
    let (contexts, g) = check_run(&golden, &memory, &latents, &conditions, &device);
    check_attention(&golden, "read_weights", "read", &contexts);
    check_attention(&golden, "write_weights", "write", &contexts);
    check_attention(&golden, "allocation", "allocation", &contexts);
    check_gradients(&golden, &memory.core, &g);
}

#[test]
fn dnc_step() {
    dnc("dnc", 5, (ControllerKind::Lstm, 1));
}

#[test]
fn dnc_step_with_conditions() {
    dnc("dnc_conditions", 5, (ControllerKind::Lstm, 1));
}

#[test]
fn dnc_step_with_a_controller_of_two_layers() {
    dnc("dnc_layers", 4, (ControllerKind::Lstm, 2));
}

#[test]
fn dnc_step_with_a_feed_forward_controller() {
    dnc("dnc_feed_forward", 5, (ControllerKind::FeedForward, 2));
}

fn hybrid(file: &str) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let (latents, conditions) = inputs(&golden, &device);
    let config = HybridConfig {
        latent: latents[0].dims()[1],
        condition: conditions.first().map_or(0, |c| c.dims()[1]),
        hidden: golden.shape("lstm.weight_hidden")[0],
        attention: golden.shape("attention_hidden.bias")[0],
        key: golden.shape("latent_key.bias")[0],
        reads: golden.shape("read_weights")[2],
        slots: golden.shape("read_weights")[3],
    };
    let mut memory = config.init(&mut initializer(&device)).unwrap();
    memory.lstm = lstm(&golden, &device);
    memory.attention_hidden = linear(&golden, "attention_hidden", &device);
    memory.attention_output = linear(&golden, "attention_output", &device);
    memory.latent_key = linear(&golden, "latent_key", &device);
    memory.place_key = linear(&golden, "place_key", &device);
    memory.interface = linear(&golden, "interface", &device);
    let (contexts, g) = check_run(&golden, &memory, &latents, &conditions, &device);
    check_attention(&golden, "read_weights", "read", &contexts);
    check_lstm(&golden, &memory.lstm, &g);
    for (name, map) in [
        ("attention_hidden", &memory.attention_hidden),
        ("attention_output", &memory.attention_output),
        ("latent_key", &memory.latent_key),
        ("place_key", &memory.place_key),
        ("interface", &memory.interface),
    ] {
        check_linear(&golden, name, map, &g);
    }
}

#[test]
fn hybrid_step() {
    hybrid("hybrid");
}

#[test]
fn hybrid_drops_its_oldest_row_when_full() {
    hybrid("hybrid_fifo");
}

fn spatial(file: &str, neighbours: usize, delta: f64) {
    let golden = Golden::open(file);
    let device = Device::default().autodiff();
    let (latents, conditions) = inputs(&golden, &device);
    let config = SpatialConfig {
        latent: latents[0].dims()[1],
        condition: conditions[0].dims()[1],
        place: golden.shape("moves")[1],
        neighbours,
        slots: golden.shape("read_weights")[3],
        delta,
        ..SpatialConfig::default()
    };
    let mut memory = config.init(&mut initializer(&device)).unwrap();
    memory.moves = parameter(&golden, "moves", &device);
    let (contexts, g) = check_run(&golden, &memory, &latents, &conditions, &device);
    check_attention(&golden, "read_weights", "read", &contexts);
    check(&golden, "moves", &memory.moves, &g);
}

#[test]
fn spatial_step() {
    spatial("spatial", 3, 1e-2);
}

#[test]
fn spatial_drops_its_oldest_entry_when_full() {
    spatial("spatial_fifo", 2, 1e-4);
}
