//! Agents at the sizes of Santoro et al. 2018 (rmc), appendix A.3: acting, learning, and both in turn.

use crate::{
    BenchError,
    benchmark::{Benchmark, Prepared, Spent},
    cost::Cost,
    relational::step_products,
};
use burn::tensor::Device;
use mnemora_lab::{
    LabError,
    families::agents::{AgentLearner, Choice},
    load_experiment,
};
use mnemora_memory::{AnyCore, RecurrentCore};
use mnemora_models::Agent;
use mnemora_training::Learner;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Environments.
const BATCH: usize = 32;
/// Steps of an unroll.
const UNROLL: usize = 40;
/// The most that the norm of the gradient may be.
const CLIP: f64 = 40.0;

/// What is timed.
#[derive(Clone, Copy)]
enum Part {
    /// A step of all environments: what is seen, the policy, the choice, and BoxWorld itself.
    Act,
    /// An update from an unroll.
    Learn,
    /// An unroll and an update from it.
    Loop,
}

pub(super) fn benchmarks() -> Vec<Benchmark> {
    let memories = ["lstm", "rmc"].into_iter();
    let parts = [
        ("agent-act", Part::Act),
        ("agent-learn", Part::Learn),
        ("agent-loop", Part::Loop),
    ];
    let all = memories.flat_map(|memory| parts.map(|(name, part)| benchmark(memory, name, part)));
    all.collect()
}

/// An agent in 32 environments of `boxworld-viewport`.
fn benchmark(memory: &'static str, name: &str, part: Part) -> Benchmark {
    Benchmark {
        name: format!("{name}/{memory}"),
        prepare: Box::new(move |device| prepare(memory, part, device)),
    }
}

fn prepare(memory: &str, part: Part, device: &Device) -> Result<Prepared, BenchError> {
    // The peer's optimiser and clip.
    let settings = [
        format!("model.memory={memory}"),
        format!("training.batch={BATCH}"),
        format!("agents.unroll={UNROLL}"),
        "training.optimiser=adam".to_owned(),
        format!("training.clip={CLIP}"),
    ];
    let experiment = load_experiment("boxworld-viewport", &settings)?;
    let mut learner = AgentLearner::new(&experiment, device)?;
    let agent = learner.policy();
    let sizes: BTreeMap<String, usize> = learner.sizes().into_iter().collect();
    let parameters = sizes["model"];
    let rows = match part {
        Part::Act => BATCH,
        Part::Learn | Part::Loop => (UNROLL + 1) * BATCH,
    };
    let forward = forward(&agent, &sizes, rows);
    let learning = forward.with_backward() + Cost::array(6 * parameters);
    let acting = forward + Cost::array(parameters);
    Ok(match part {
        Part::Act => {
            let mut actor = learner.actor()?;
            let prepared = agent.prepare();
            Prepared::of_model(acting, parameters, move || {
                let acted = actor.step(&agent, &prepared, Choice::Sampled);
                Ok(acted.map(drop).map_err(LabError::from)?)
            })
        }
        Part::Learn => {
            let unroll = learner.act(0)?;
            let mut updates = 0;
            Prepared::of_model(learning, parameters, move || {
                updates += 1;
                Ok(learner.learn(updates, &unroll)?)
            })
        }
        Part::Loop => {
            let spent = Spent::default();
            let parts = spent.clone();
            let mut updates = 0;
            let mut before = Duration::ZERO;
            let work = move || {
                let clock = Instant::now();
                let unroll = learner.act(updates)?;
                let acted = clock.elapsed();
                updates += 1;
                learner.learn(updates, &unroll)?;
                let learned = clock.elapsed() - acted;
                let environments = learner.in_environments().expect("the actor acts in turn");
                spent.add("environments", environments - before);
                spent.add("inference", acted - (environments - before));
                spent.add("learning", learned);
                before = environments;
                Ok(())
            };
            Prepared::of_model(learning + acting, parameters, work).with_parts(parts)
        }
    })
}

/// The products of the forward pass over so many observations. Maps outside the core count one multiplication and one
/// addition per parameter and row.
fn forward(agent: &Agent, sizes: &BTreeMap<String, usize>, rows: usize) -> Cost {
    let pixels = 5 * 5;
    let torso = Cost::convolution(6, 12, 2, pixels) + Cost::convolution(12, 24, 2, pixels);
    let heads = sizes["policy"] + sizes["value"];
    let core = match &agent.core {
        AnyCore::Rmc(core) => {
            let width = core.input.weight.shape()[1];
            let slots = core.output_size() / width;
            Cost::product(rows, core.input_size(), width) + step_products(rows, [slots, width], 1)
        }
        _ => Cost::product(rows, sizes["memory"], 1),
    };
    torso * rows as f64 + Cost::product(rows, heads, 1) + core
}
