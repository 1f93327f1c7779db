//! Every memory under inputs that training would never produce: all values and gradients must stay finite, and
//! all weights in range.

mod common;

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Device, Gradients, Tensor, TensorData},
};
use common::{CONDITION, LATENT, memories};
use mnemora_memory::{AnyMemory, Initializer, Memory, Previous};
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rand_distr::StandardNormal;

/// A sequence of `[batch, width]`. The kind of input depends on the row: ordinary, zero, equal at all steps,
/// large, tiny, or a mixture of these.
fn sequence(rng: &mut ChaCha8Rng, time: usize, batch: usize, width: usize) -> Vec<Vec<f32>> {
    let constant: Vec<f32> = (0..batch * width)
        .map(|_| rng.sample(StandardNormal))
        .collect();
    (0..time)
        .map(|_| {
            (0..batch * width)
                .map(|index| {
                    let normal: f32 = rng.sample(StandardNormal);
                    let kind = match index / width % 6 {
                        5 => rng.random_range(0..5),
                        kind => kind,
                    };
                    match kind {
                        0 => normal,
                        1 => 0.0,
                        2 => constant[index],
                        3 => normal * 1e4,
                        _ => normal * 1e-12,
                    }
                })
                .collect()
        })
        .collect()
}

struct Finite<'a> {
    gradients: &'a Gradients,
    name: &'a str,
    seen: usize,
}

impl ModuleVisitor for Finite<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.val().grad(self.gradients) {
            assert_finite(self.name, "a gradient", gradient);
            self.seen += 1;
        }
    }
}

fn assert_finite<const D: usize>(name: &str, what: &str, tensor: Tensor<D>) {
    let values = tensor.into_data().try_into_vec::<f32>().unwrap();
    assert!(
        values.iter().all(|value| value.is_finite()),
        "{name}: {what} is not finite"
    );
}

#[test]
fn ten_thousand_inputs_stay_finite_forward_and_backward() {
    let device = Device::default().autodiff();
    let (rounds, batch, time) = (10, 50, 20);
    for (name, config) in memories(7) {
        for round in 0..rounds {
            let mut rng = ChaCha8Rng::seed_from_u64(round);
            // From ordinary weights to weights that saturate every gate.
            let mut init = Initializer::new(rng.clone(), device.clone());
            let memory = Scale(3.0_f64.powi(round as i32 % 5)).of(config.init(&mut init).unwrap());
            let tensor = |values: &Vec<f32>, width| {
                Tensor::<2>::from_data(TensorData::new(values.clone(), [batch, width]), &device)
            };
            let latents = sequence(&mut rng, time, batch, LATENT);
            let conditions = sequence(&mut rng, time, batch, CONDITION);
            let mut state = memory.initial_state(batch, &device);
            let mut previous = None;
            let prepared = memory.prepare();
            let mut contexts = Vec::new();
            for (latent, condition) in latents.iter().zip(&conditions) {
                let (context, next) = memory.step(
                    &prepared,
                    previous,
                    Some(tensor(condition, CONDITION)),
                    state,
                );
                state = next;
                let latent = tensor(latent, LATENT);
                previous = Some(Previous {
                    features: latent.clone(),
                    latent,
                });
                contexts.push(context.psi);
            }
            let psi = Tensor::cat(contexts, 1);
            assert_finite(name, "the context", psi.clone());
            let gradients = (psi.clone() * psi).mean().backward();
            let mut finite = Finite {
                gradients: &gradients,
                name,
                seen: 0,
            };
            memory.visit(&mut finite);
            assert!(finite.seen > 0, "{name}: no gradient was checked");
        }
    }
}

/// Multiplies all parameters by a factor.
struct Scale(f64);

impl Scale {
    fn of(mut self, memory: AnyMemory) -> AnyMemory {
        memory.map(&mut self)
    }
}

impl burn::module::ModuleMapper for Scale {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::from_inner(param.val().inner() * self.0))
    }
}

/// A state that is out of range causes a panic with the memory's name.
mod range_checks {
    use super::*;
    use mnemora_memory::{
        AnyCoreState, AnyMemoryState, lru::ReadWeights, range_checks, set_range_checks,
    };

    fn step_from(name: &str, spoil: impl Fn(&mut AnyMemoryState)) -> String {
        let device = Device::default();
        let (_, config) = memories(7).into_iter().find(|(n, _)| *n == name).unwrap();
        let mut init = Initializer::new(ChaCha8Rng::seed_from_u64(1), device.clone());
        let memory = config.init(&mut init).unwrap();
        let mut state = memory.initial_state(2, &device);
        spoil(&mut state);
        let step = || {
            let condition = Tensor::zeros([2, CONDITION], &device);
            memory.step(&memory.prepare(), None, Some(condition), state);
        };
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step))
            .expect_err("the state must be rejected");
        panic.downcast_ref::<String>().unwrap().clone()
    }

    fn core(state: &mut AnyMemoryState) -> &mut AnyCoreState {
        let AnyMemoryState::Core(state) = state else {
            unreachable!()
        };
        &mut state.core
    }

    /// `.cargo/config.toml` switches the checks on; a later decision is refused.
    #[test]
    fn checks_are_on_in_tests_and_stay_so() {
        assert!(
            range_checks(),
            "run the tests with cargo, inside the repository"
        );
        assert!(!set_range_checks(false), "the first decision stays");
        assert!(set_range_checks(true) && range_checks());
    }

    #[test]
    fn usage_links_and_weights_out_of_range_are_named() {
        let message = step_from("dnc", |state| {
            let AnyCoreState::Dnc(dnc) = core(state) else {
                unreachable!()
            };
            dnc.usage = dnc.usage.clone() + 5.0;
        });
        assert!(message.starts_with("dnc: usage out of range"), "{message}");
        let message = step_from("dnc", |state| {
            let AnyCoreState::Dnc(dnc) = core(state) else {
                unreachable!()
            };
            dnc.links = dnc.links.clone() + 5.0;
        });
        assert!(message.starts_with("dnc: links"), "{message}");
        let message = step_from("ntm", |state| {
            let AnyCoreState::Ntm(ntm) = core(state) else {
                unreachable!()
            };
            ntm.write_weights = ntm.write_weights.clone() * 0.0 - 9.0;
        });
        assert!(message.contains("ntm"), "{message}");
        let message = step_from("lru", |state| {
            let AnyCoreState::Lru(lru) = core(state) else {
                unreachable!()
            };
            let ReadWeights::Dense(weights) = lru.read_weights.clone() else {
                unreachable!()
            };
            lru.read_weights = ReadWeights::Dense(weights * 9.0);
        });
        assert!(message.starts_with("lru: write weights"), "{message}");
        let message = step_from("lru", |state| {
            let AnyCoreState::Lru(lru) = core(state) else {
                unreachable!()
            };
            lru.usage = lru.usage.clone() - 9.0;
        });
        assert!(message.starts_with("lru: usage"), "{message}");
    }
}
