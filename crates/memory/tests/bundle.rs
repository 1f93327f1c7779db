//! Operations on the whole state of every memory: picking rows, cutting back-propagation.

mod common;

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Bool, Device, Gradients, Int, Tensor, TensorData},
};
use common::{CONDITION, LATENT, memories};
use mnemora_memory::{
    AnyCore, AnyMemory, AnyMemoryState, Bundle, Controller, Initializer, Memory, MemoryConfig,
    Previous, RecurrentCore,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const BATCH: usize = 3;

fn memory(config: &MemoryConfig, device: &Device) -> AnyMemory {
    let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(7), device.clone());
    config.init(&mut init).unwrap()
}

/// The input of step `step`, `[BATCH, width]`.
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
    let prepared = memory.prepare();
    let mut contexts = Vec::new();
    for step in steps {
        let previous = (step > 0).then(|| Previous {
            latent: pick(input(step, LATENT, device)),
            features: pick(input(step + 100, LATENT, device)),
        });
        let condition = pick(input(step + 200, CONDITION, device));
        let (context, next) = memory.step(&prepared, previous, Some(condition), state);
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

/// The batch is dimension 0 of every tensor: a state with some rows picked continues as those rows would.
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

/// Rows of several states, concatenated, continue as the same rows of one state.
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

/// Truncated back-propagation: a detached state continues after a backward pass with unchanged values. The
/// gradient of the second part is that from a constant state.
#[test]
fn a_detached_state_goes_on_after_a_backward_pass() {
    let device = Device::default().autodiff();
    let square = |contexts: Vec<Tensor<2>>| Tensor::cat(contexts, 1).powi_scalar(2).sum();
    for (name, config) in memories(5) {
        let memory = memory(&config, &device);
        let (contexts, state) = steps(
            &memory,
            memory.initial_state(BATCH, &device),
            0..4,
            None,
            &device,
        );
        let first = square(contexts).backward();
        assert!(controller_gradient(&memory, &first).is_some(), "{name}");

        let (contexts, _) = steps(&memory, state.clone().detach(), 4..8, None, &device);
        let after = values(Tensor::cat(contexts.clone(), 1));
        let gradient = controller_gradient(&memory, &square(contexts).backward()).unwrap();

        let constant = state.inner();
        let leaf = constant.clone().leaf();
        let (contexts, _) = steps(&memory, leaf.clone(), 4..8, None, &device);
        let gradients = square(contexts).backward();
        let expected = controller_gradient(&memory, &gradients).unwrap();
        assert!(values(expected.clone()).iter().any(|g| *g != 0.0), "{name}");
        assert_close(name, &values(gradient), &values(expected));

        // The gradients of the leaves depend on the state alone.
        let back = leaf.gradients(&gradients);
        assert!(leaf.dot(back.clone()).is_some(), "{name}");
        assert!(constant.clone().dot(back).is_none(), "{name}");

        let plain = memory.valid();
        let (contexts, _) = steps(&plain, constant, 4..8, None, &device.clone().inner());
        assert_close(name, &values(Tensor::cat(contexts, 1)), &after);
    }
}

/// A state carried over an update of the parameters continues with the new ones, because it holds none.
#[test]
fn a_state_goes_on_with_the_new_parameters() {
    let device = Device::default().autodiff();
    for (name, config) in memories(5) {
        let old = memory(&config, &device);
        let new = old.clone().map(&mut Halve);
        let (_, state) = steps(&old, old.initial_state(BATCH, &device), 0..4, None, &device);
        let after = |memory: &AnyMemory, state: AnyMemoryState| {
            let (contexts, _) = steps(memory, state, 4..6, None, &device);
            values(Tensor::cat(contexts, 1))
        };
        // A state with the same numbers that has never seen the old parameters.
        let numbers = state.clone().inner().leaf();
        let found = after(&new, state.clone());
        assert_eq!(found, after(&new, numbers), "{name}");
        assert_ne!(found, after(&old, state), "{name}");
    }
}

/// Halves all parameters.
struct Halve;

impl ModuleMapper for Halve {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::from_inner(param.val().inner() * 0.5))
    }
}

/// Sequences that are reset at different steps give the same results as sequences that begin there.
#[test]
fn resets_are_the_beginnings_of_sequences() {
    const TIME: usize = 6;
    let device = Device::default().autodiff();
    // Steps at which each sequence of the batch is reset.
    let starts: [&[usize]; BATCH] = [&[2], &[], &[0, 1, 5]];
    let mut resets = vec![false; TIME * BATCH];
    for (row, starts) in starts.iter().enumerate() {
        for start in *starts {
            resets[start * BATCH + row] = true;
        }
    }
    let resets = TensorData::new(resets, [TIME, BATCH]);
    let resets = Tensor::<2, Bool>::from_data(resets, &device);
    for (name, config) in memories(5) {
        let AnyMemory::Core(memory) = memory(&config, &device) else {
            continue;
        };
        let core = memory.core;
        let inputs = (0..TIME).map(|step| input(step, LATENT + CONDITION, &device));
        let inputs = Tensor::stack::<3>(inputs.collect(), 0);
        let first = input(50, LATENT + CONDITION, &device).unsqueeze_dim::<3>(0);
        let initial = core.initial_state(BATCH, &device);
        // A state that is not the initial one, so that a reset at the first step matters.
        let (_, state) = core.sequence(first, None, initial);
        let (whole, after) = core.sequence(inputs.clone(), Some(&resets), state.clone());
        for (row, starts) in starts.iter().enumerate() {
            let mut bounds = vec![0];
            bounds.extend(starts.iter().filter(|start| **start > 0));
            bounds.push(TIME);
            let mut own = state.clone().rows(row..row + 1);
            for (from, to) in bounds.iter().zip(&bounds[1..]) {
                if starts.contains(from) {
                    own = core.initial_state(1, &device);
                }
                let part = inputs.clone().narrow(0, *from, to - from).narrow(1, row, 1);
                let (expected, end) = core.sequence(part, None, own);
                own = end;
                for (step, expected) in (*from..*to).zip(expected) {
                    let found = whole[step].output.clone().narrow(0, row, 1);
                    assert_close(name, &values(found), &values(expected.output));
                }
            }
            let next = |state, batch: usize| {
                let input = input(60, LATENT + CONDITION, &device).narrow(0, 0, 1);
                let input = input.repeat_dim(0, batch);
                core.step(&core.prepare(), input, state).0.output
            };
            let found = next(after.clone(), BATCH).narrow(0, row, 1);
            assert_close(name, &values(found), &values(next(own, 1)));
        }
    }
}

/// The gradient of a weight that the state of each step depends on.
fn controller_gradient(memory: &AnyMemory, gradients: &Gradients) -> Option<Tensor<2>> {
    let lstm = match memory {
        AnyMemory::LstmMemory(memory) => &memory.lstm,
        AnyMemory::Introspection(memory) => &memory.lstm,
        AnyMemory::Hybrid(memory) => &memory.lstm,
        AnyMemory::Spatial(memory) => return memory.moves.val().grad(gradients),
        AnyMemory::Core(memory) => match &memory.core {
            AnyCore::Lstm(lstm) => lstm,
            AnyCore::Ntm(core) => &core.lstm,
            AnyCore::Lru(core) => &core.lstm,
            AnyCore::Dnc(core) => match &core.controller {
                Controller::Lstm(lstm) => lstm,
                Controller::StackedLstm(lstm) => &lstm.layers[1],
                Controller::FeedForward(network) => {
                    return network.layers[1].weight.val().grad(gradients);
                }
            },
            AnyCore::StackedLstm(core) => &core.layers[1],
            AnyCore::Rmc(core) => return core.blocks[0].qkv.weight.val().grad(gradients),
            AnyCore::EntNet(core) => return core.from_cell.val().grad(gradients),
            AnyCore::Memoryless(_) => panic!("no state and no gradient through one"),
            AnyCore::ConvLstm(core) => {
                let gradient = core.weight_hidden.val().grad(gradients);
                return gradient.map(|gradient| gradient.flatten(1, 3));
            }
        },
    };
    lstm.weight_hidden.val().grad(gradients)
}

/// Replaced rows continue as those of the state they were taken from, and the others as if nothing had happened.
#[test]
fn replaced_rows_go_on_as_those_of_the_other_state() {
    let device = Device::default();
    let rows = Tensor::<1, Int>::from_ints([1, 0, 2], &device);
    let mask = Tensor::<1, Bool>::from_bool([false, true, false], &device);
    for (name, config) in memories(20) {
        let memory = memory(&config, &device);
        let initial = memory.initial_state(BATCH, &device);
        let (_, one) = steps(&memory, initial.clone(), 0..4, None, &device);
        let (_, other) = steps(&memory, initial, 0..4, Some(&rows), &device);
        let after = |state| {
            let (contexts, _) = steps(&memory, state, 4..7, None, &device);
            values(Tensor::cat(contexts, 1))
        };
        let mixed = after(one.clone().replace(&mask, other.clone()));
        let (one, other) = (after(one), after(other));
        let width = one.len() / BATCH;
        let expected = [&one[..width], &other[width..2 * width], &one[2 * width..]].concat();
        assert_close(name, &mixed, &expected);
        assert_ne!(one, other, "{name}");
    }
}

/// The remaining rows of a batch continue as if the others were still there.
#[test]
fn rows_that_are_left_go_on_as_before() {
    let device = Device::default();
    let rows = Tensor::<1, Int>::from_ints([1, 2], &device);
    for (name, config) in memories(20) {
        let memory = memory(&config, &device);
        let initial = memory.initial_state(BATCH, &device);
        let (_, state) = steps(&memory, initial, 0..4, None, &device);
        let after = |state, rows| {
            let (contexts, _) = steps(&memory, state, 4..7, rows, &device);
            values(Tensor::cat(contexts, 1))
        };
        let whole = after(state.clone(), None);
        let left = after(state.rows(1..3), Some(&rows));
        assert_close(name, &left, &whole[whole.len() / BATCH..]);
    }
}

/// An episode that ends is reset to the initial state, and no gradient passes to earlier steps. A sequence that
/// is over keeps its state, whatever the padding.
#[test]
fn episodes_start_again_and_padding_changes_nothing() {
    let device = Device::default().autodiff();
    for (name, config) in memories(5) {
        let AnyMemory::Core(memory) = memory(&config, &device) else {
            continue;
        };
        let core = memory.core;
        let input = |step| input(step, LATENT + CONDITION, &device);
        let prepared = core.prepare();
        let initial = core.initial_state(BATCH, &device);
        let ended = |rows: [bool; 3]| Tensor::<1, Bool>::from_bool(rows, &device);
        let first = input(0).require_grad();
        let (_, before) = core.step(&prepared, first.clone(), initial.clone());

        let again = before
            .clone()
            .replace(&ended([false, true, false]), initial.clone());
        let (output, _) = core.step(&prepared, input(1), again);
        let (fresh, _) = core.step(&prepared, input(1), initial);
        let row = |output: &Tensor<2>| output.clone().narrow(0, 1, 1);
        assert_close(
            name,
            &values(row(&output.output)),
            &values(row(&fresh.output)),
        );
        let square = output.output.powi_scalar(2).sum();
        let gradient = values(first.grad(&square.backward()).unwrap());
        let width = gradient.len() / BATCH;
        for (row, gradient) in gradient.chunks(width).enumerate() {
            assert_eq!(
                gradient.iter().all(|g| *g == 0.0),
                row == 1,
                "{name} row {row}"
            );
        }

        // The backward pass used up the prepared weights.
        let prepared = core.prepare();
        let before = before.detach();
        let (_, next) = core.step(&prepared, input(1) * 1e3, before.clone());
        let kept = next.replace(&ended([true, true, true]), before.clone());
        let after = |state| values(core.step(&prepared, input(2), state).0.output);
        assert_eq!(after(kept.detach()), after(before), "{name}");
    }
}
