//! How well an agent does in held-out episodes.

use super::{
    actor::{Actor, Choice},
    environments::{environment_seed, environments},
    settings::AgentSettings,
};
use crate::{Experiment, families::held_out::batches};
use mnemora_models::Agent;
use mnemora_training::{Error, Measures, Purpose, measures::mean_and_stderr};
use mnemora_worlds::{Finished, Stream};

/// What an agent did in a number of episodes.
struct Episodes {
    totals: Vec<f64>,
    lengths: Vec<f64>,
    outcomes: Vec<f64>,
    /// What the environment counts.
    name: Option<&'static str>,
}

/// Plays the first `each` episodes of `evaluation.batch` environments to their ends. All are played, so that long episodes
/// count as much as short ones.
fn play(
    experiment: &Experiment,
    settings: &AgentSettings,
    agent: &Agent,
    purpose: Purpose,
    choice: Choice,
) -> Result<Episodes, Error> {
    let each = batches(experiment, purpose) as usize;
    let count = experiment.evaluation.batch;
    let stream = |what: &str| {
        let name = format!("{} {what}", purpose.stream());
        Stream::new(purpose.seed(experiment.seed), &name)
    };
    let seed = environment_seed(&stream("episodes"));
    let environments = environments(experiment, settings, count, seed)?;
    let mut actor = Actor::new(environments, agent, stream("actions"));
    let prepared = agent.prepare();
    let mut ended = vec![0; count];
    let mut found = Episodes {
        totals: Vec::new(),
        lengths: Vec::new(),
        outcomes: Vec::new(),
        name: None,
    };
    while ended.iter().any(|episodes| *episodes < each) {
        actor.step(agent, &prepared, choice)?;
        for Finished {
            index,
            total,
            length,
            score,
            ..
        } in actor.finished()
        {
            if ended[index] == each {
                continue;
            }
            ended[index] += 1;
            found.totals.push(total);
            found.lengths.push(length as f64);
            if let Some((name, score)) = score {
                found.name = Some(name);
                found.outcomes.push(score);
            }
        }
    }
    Ok(found)
}

/// Plays held-out episodes.
///
/// # Errors
/// An environment cannot begin, or panicked.
pub fn evaluate(
    experiment: &Experiment,
    settings: &AgentSettings,
    agent: &Agent,
    purpose: Purpose,
) -> Result<Measures, Error> {
    let drawn = play(experiment, settings, agent, purpose, Choice::Sampled)?;
    let (total, total_stderr) = mean_and_stderr(&drawn.totals);
    let (length, _) = mean_and_stderr(&drawn.lengths);
    let mut measures = Measures::new()
        .with("sequences", drawn.totals.len())
        .with("return", total)
        .with("return_stderr", total_stderr)
        .with("length", length);
    if let Some(name) = drawn.name {
        let (outcome, stderr) = mean_and_stderr(&drawn.outcomes);
        measures = measures
            .with("outcome_name", name.to_owned())
            .with("outcome", outcome)
            .with("outcome_stderr", stderr);
    }
    if purpose.is_short() {
        return Ok(measures);
    }
    let greedy = play(experiment, settings, agent, purpose, Choice::Greedy)?;
    let (total, stderr) = mean_and_stderr(&greedy.totals);
    measures = measures
        .with("greedy_return", total)
        .with("greedy_return_stderr", stderr);
    if greedy.name.is_some() {
        let (outcome, stderr) = mean_and_stderr(&greedy.outcomes);
        measures = measures
            .with("greedy_outcome", outcome)
            .with("greedy_outcome_stderr", stderr);
    }
    Ok(measures)
}
