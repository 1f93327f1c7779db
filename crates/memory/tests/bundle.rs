//! What is done to the state of every memory as a whole: rows are picked, back-propagation is cut.

mod common;

use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use common::{CONDITION, LATENT, memories};
use mnemora_memory::{
    AnyMemory, AnyMemoryState, Bundle, Initializer, Memory, MemoryConfig, Previous,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const BATCH: usize = 3;

fn memory(config: &MemoryConfig, device: &Device) -> AnyMemory {
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(7), device.clone());
    config.init(&mut init).unwrap()
}

/// `[BATCH, width]` of step `step`.
fn input(step: usize, width: usize, device: &Device) -> Tensor<2> {
    let values = (0..BATCH * width).map(|i| ((i + 31 * step) as f32 * 0.7).sin());
    let values = TensorData::new(values.collect::<Vec<_>>(), [BATCH, width]);
    Tensor::from_data(values, device)
}

/// Contexts of the steps, and the state after them.
fn steps(
    memory: &AnyMemory,
    mut state: AnyMemoryState,
    steps: std::ops::Range<usize>,
    rows: Option<&Tensor<1, burn::tensor::Int>>,
    device: &Device,
) -> (Vec<Tensor<2>>, AnyMemoryState) {
    let pick = |tensor: Tensor<2>| match rows {
        None => tensor,
        Some(rows) => tensor.select(0, rows.clone()),
    };
    let mut contexts = Vec::new();
    for step in steps {
        let previous = (step > 0).then(|| Previous {
            latent: pick(input(step, LATENT, device)),
            features: pick(input(step + 100, LATENT, device)),
        });
        let condition = pick(input(step + 200, CONDITION, device));
        let (context, next) = memory.step(previous, Some(condition), state);
        contexts.push(context.psi);
        state = next;
    }
    (contexts, state)
}

fn values(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().unwrap()
}

fn assert_close(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-5 * expected.abs().max(1.0),
            "{name}: {found} {expected}"
        );
    }
}

/// The batch is dimension 0 of every tensor: a state with rows picked goes on as those rows would.
#[test]
fn rows_are_sequences() {
    let device = Device::default();
    let rows = Tensor::from_ints([2, 0, 2], &device);
    for slots in [4, 20] {
        for (name, config) in memories(slots) {
            let memory = memory(&config, &device);
            let state = memory.initial_state(BATCH, &device);
            let (_, state) = steps(&memory, state, 0..6, None, &device);
            let (picked, _) = steps(
                &memory,
                state.clone().select(&rows),
                6..9,
                Some(&rows),
                &device,
            );
            let (all, _) = steps(&memory, state, 6..9, None, &device);
            for (picked, all) in picked.into_iter().zip(all) {
                let expected = values(all.select(0, rows.clone()));
                assert_close(name, &values(picked), &expected);
            }
        }
    }
}

/// Rows of several states, put one after the other, go on as the same rows of one.
#[test]
fn rows_can_be_put_together() {
    let device = Device::default();
    let all = Tensor::from_ints([2, 0, 2], &device);
    let parts = [
        Tensor::from_ints([2], &device),
        Tensor::from_ints([0, 2], &device),
    ];
    for (name, config) in memories(5) {
        let memory = memory(&config, &device);
        let state = memory.initial_state(BATCH, &device);
        let (_, state) = steps(&memory, state, 0..3, None, &device);
        let rows = parts.iter().map(|rows| state.clone().select(rows));
        let together = Bundle::concatenate(rows.collect());
        let (found, _) = steps(&memory, together, 3..5, Some(&all), &device);
        let (expected, _) = steps(&memory, state.select(&all), 3..5, Some(&all), &device);
        for (found, expected) in found.into_iter().zip(expected) {
            assert_close(name, &values(found), &values(expected));
        }
    }
}

/// Truncated back-propagation: a detached state goes on after a backward pass, values do not
/// change, and the gradient of the second part is that from a constant state.
#[test]
fn a_detached_state_goes_on_after_a_backward_pass() {
    let device = Device::default().autodiff();
    let square = |contexts: Vec<Tensor<2>>| Tensor::cat(contexts, 1).powi_scalar(2).sum();
    for (name, config) in memories(5) {
        let memory = memory(&config, &device);
        let weight = controller_weight(&memory);
        let (contexts, state) = steps(
            &memory,
            memory.initial_state(BATCH, &device),
            0..4,
            None,
            &device,
        );
        let first = square(contexts).backward();
        assert!(weight.grad(&first).is_some(), "{name}");

        let (contexts, _) = steps(&memory, state.clone().detach(), 4..8, None, &device);
        let after = values(Tensor::cat(contexts.clone(), 1));
        let gradient = weight.grad(&square(contexts).backward()).unwrap();

        let constant = state.inner();
        let leaf = constant.clone().leaf();
        let (contexts, _) = steps(&memory, leaf.clone(), 4..8, None, &device);
        let gradients = square(contexts).backward();
        let expected = weight.grad(&gradients).unwrap();
        assert!(values(expected.clone()).iter().any(|g| *g != 0.0), "{name}");
        assert_close(name, &values(gradient), &values(expected));

        // What the leaves' gradients go on with depends on the state alone.
        let back = leaf.gradients(&gradients);
        assert!(leaf.dot(back.clone()).is_some(), "{name}");
        assert!(constant.clone().dot(back).is_none(), "{name}");

        let plain = memory.valid();
        let (contexts, _) = steps(&plain, constant, 4..8, None, &device.clone().inner());
        assert_close(name, &values(Tensor::cat(contexts, 1)), &after);
    }
}

/// The hidden-to-hidden weights of a memory's LSTM.
fn controller_weight(memory: &AnyMemory) -> Tensor<2> {
    use mnemora_memory::AnyCore;
    let lstm = match memory {
        AnyMemory::Vrnn(memory) => &memory.lstm,
        AnyMemory::Introspection(memory) => &memory.lstm,
        AnyMemory::Hybrid(memory) => &memory.lstm,
        AnyMemory::Core(memory) => match &memory.core {
            AnyCore::Lstm(lstm) => lstm,
            AnyCore::Ntm(core) => &core.lstm,
            AnyCore::Lru(core) => &core.lstm,
            AnyCore::Dnc(core) => &core.lstm,
        },
    };
    lstm.weight_hidden.val()
}
