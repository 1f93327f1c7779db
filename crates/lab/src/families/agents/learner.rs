//! The learner of agents: it acts for an unroll, then learns from it.

use super::{
    actor::{Actor, Choice},
    environments::{environment, environment_seed, environments},
    evaluate::evaluate,
    figures,
    fleet::Fleet,
    play::Watched,
    random_frames::random_frames,
    recent::Recent,
    settings::{AgentSettings, Mode},
    unroll::Unroll,
};
use crate::{
    Experiment, LabError,
    experiment::gallery::{Drawn, Gallery, Shown, Walker},
    families::image_shape,
    pictures::Figures,
};
use burn::{module::Module, tensor::Device};
use mnemora_memory::{AnyCoreState, Bundle, Count, Initializer};
use mnemora_models::{Agent, Transitions, objective};
use mnemora_training::{
    Error, Learner, Purpose, Row, Snapshot, StepFailure,
    arrays::{Arrays, collect, parameters_of, restore},
    device::outline,
    memory_use::{Parts, Planned, Work, in_words},
    optimiser::ParameterGradients,
    updates::Updates,
};
use mnemora_worlds::{Environment, Spec, Stream};
use std::path::Path;
use std::time::Duration;

/// An agent that learns.
///
/// Update s takes a new unroll if one is due, and then learns from it. In the synchronous mode the agent acts and learns
/// in turn, and a run that was killed goes on bit for bit: a checkpoint holds the environments, the agent's state in
/// them, and an unroll that is learned from again. In the asynchronous mode a checkpoint holds none of that, and new episodes begin.
pub struct AgentLearner {
    experiment: Experiment,
    settings: AgentSettings,
    spec: Spec,
    /// On an autodiff device for training.
    model: Agent,
    updates: Updates,
    acting: Acting,
    unroll: Option<Unroll>,
    /// Steps in each environment that were learned from.
    steps: u64,
    recent: Recent,
    /// Updates made since the agent acted.
    lag: u64,
    device: Device,
}

/// Who acts.
enum Acting {
    /// The learner itself, in turn with learning.
    InTurn(Box<Actor>),
    /// Actors on threads, from the first update on.
    Apart(Option<Fleet>),
}

/// The agent of an experiment, for an environment.
fn model_of(
    experiment: &Experiment,
    settings: &AgentSettings,
    environment: &dyn Environment,
    init: &mut Initializer,
) -> Result<Agent, LabError> {
    let spec = environment.spec();
    let sees = image_shape(spec.frame);
    let core = |input| experiment.core_config(input);
    let model = settings.model.init(sees, spec.actions.len(), core, init);
    // The keys of the agent are those of its table.
    model.map_err(|error| {
        let text = error.to_string();
        LabError::Configuration(text.replace("model.", "agents.model."))
    })
}

/// The actor of a training that acts and learns in turn, in the first episodes.
fn first_actor(
    experiment: &Experiment,
    settings: &AgentSettings,
    policy: &Agent,
) -> Result<Actor, LabError> {
    let (seed, count) = (experiment.seed, experiment.training.batch);
    let environments = environments(experiment, settings, count, seed)?;
    let draws = Stream::new(seed, "actions");
    Ok(Actor::new(environments, policy, draws))
}

/// Trainable numbers, starting with the whole model.
fn parts(model: &Agent) -> Parts {
    vec![
        ("model".into(), parameters_of(model)),
        ("torso".into(), parameters_of(&model.torso)),
        ("memory".into(), parameters_of(&model.core)),
        ("policy".into(), parameters_of(&model.policy)),
        ("value".into(), parameters_of(&model.value)),
    ]
}

/// The parts of the model, and how much memory its training takes.
pub(super) fn planned(experiment: &Experiment) -> Result<Planned, LabError> {
    let settings: AgentSettings = experiment.own_settings()?;
    let environment = environment(experiment, &settings)?;
    let model = model_of(experiment, &settings, &*environment, &mut outline()?)?;
    let frame = environment.spec().frame.size();
    let (training, evaluation) = (&experiment.training, &experiment.evaluation);
    let steps = Count::product(&[settings.unroll + 1, training.batch]);
    let work = Work {
        learning: (model.kept() + 2 * frame) * steps,
        looking: (model.kept() + 2 * frame) * evaluation.batch,
        batches: steps * Count::from(2 * frame + 8) * Count::from(settings.waiting()),
        ..Work::default()
    };
    Ok(Planned::new(parts(&model), work))
}

/// Checkpoint counters and arrays.
const STEPS: &str = "steps of each environment";
const LAG: &str = "updates since the agent acted";
const RECENT_EPISODES: &str = "recent episodes";

impl AgentLearner {
    /// A fresh learner with its model on `device`, initialised from the experiment's seed.
    pub fn new(experiment: &Experiment, device: &Device) -> Result<Self, LabError> {
        let settings: AgentSettings = experiment.own_settings()?;
        let mut init = experiment.initializer(device);
        let one = environment(experiment, &settings)?;
        let mut model = model_of(experiment, &settings, &*one, &mut init)?;
        if model.torso.standard.is_some() {
            let frames = random_frames(experiment, &settings, device)?;
            model.torso.standardise(frames);
        }
        let acting = match settings.mode {
            Mode::Synchronous => {
                let actor = first_actor(experiment, &settings, &model.valid())?;
                Acting::InTurn(Box::new(actor))
            }
            Mode::Asynchronous => Acting::Apart(None),
        };
        Ok(Self {
            spec: one.spec(),
            acting,
            steps: 0,
            updates: Updates::new(&experiment.training, device),
            unroll: None,
            recent: Recent::new(),
            lag: 0,
            experiment: experiment.clone(),
            settings,
            model,
            device: device.clone(),
        })
    }

    /// The agent as it acts, off the autodiff device.
    pub fn policy(&self) -> Agent {
        self.model.valid()
    }

    /// An actor in the first episodes of a training.
    ///
    /// # Errors
    /// An environment cannot begin.
    pub fn actor(&self) -> Result<Actor, LabError> {
        first_actor(&self.experiment, &self.settings, &self.policy())
    }

    /// Actors in the first episodes of their environments. Those of a run that goes on begin other episodes than before.
    fn fleet(&self, updates: u64) -> Result<Fleet, Error> {
        let (experiment, settings) = (&self.experiment, &self.settings);
        let agent = self.policy();
        let actors = (0..settings.actors).map(|number| {
            let name = |what: &str| format!("{what} of actor {number} after {updates} updates");
            let stream = |what: &str| Stream::new(experiment.seed, &name(what));
            let seed = environment_seed(&stream("episodes"));
            let all = environments(experiment, settings, experiment.training.batch, seed)?;
            Ok::<_, Error>(Actor::new(all, &agent, stream("actions")))
        });
        let actors = actors.collect::<Result<_, _>>()?;
        Fleet::start(actors, agent.clone(), updates, settings.unroll)
    }

    /// Time spent in the environments; `None` if actors on threads step them.
    pub fn in_environments(&self) -> Option<Duration> {
        match &self.acting {
            Acting::InTurn(actor) => Some(actor.in_environments),
            Acting::Apart(_) => None,
        }
    }

    /// A new unroll after a number of updates.
    ///
    /// # Errors
    /// An environment or a thread of an actor failed.
    pub fn act(&mut self, updates: u64) -> Result<Unroll, Error> {
        if matches!(self.acting, Acting::Apart(None)) {
            self.acting = Acting::Apart(Some(self.fleet(updates)?));
        }
        let agent = self.policy();
        let (unroll, finished, acted) = match &mut self.acting {
            Acting::InTurn(actor) => {
                let unroll = actor.unroll(&agent, self.settings.unroll)?;
                (unroll, actor.finished(), updates)
            }
            Acting::Apart(Some(fleet)) => {
                fleet.publish(updates, agent);
                let sent = fleet.take()?;
                (sent.unroll, sent.finished, sent.policy)
            }
            Acting::Apart(None) => return Err(Error::Thread("actor")),
        };
        self.lag = updates - acted;
        self.steps += self.settings.unroll as u64;
        for episode in &finished {
            self.recent.add(episode);
        }
        Ok(unroll)
    }

    /// Makes update number `step` (from 1) from an unroll.
    ///
    /// # Errors
    /// A term or a gradient is not finite.
    pub fn learn(&mut self, step: u64, unroll: &Unroll) -> Result<(), StepFailure> {
        let device = &self.device;
        let observed = unroll.observed(&self.spec, device);
        let start = unroll.start.clone().lift();
        let answers = self.model.unroll(observed, &unroll.resets(device), start);
        let steps = unroll.actions.len();
        let discounts = unroll.discounts(self.settings.discount);
        let taken = Transitions {
            batch: unroll.batch,
            actions: &unroll.actions,
            log_probabilities: &unroll.log_probabilities,
            rewards: &unroll.rewards,
            discounts: &discounts,
        };
        let logits = answers.logits.narrow(0, 0, steps);
        let (kind, costs) = (self.settings.objective(), self.settings.costs);
        let found = objective(kind, costs, logits, answers.values, &taken);
        let gradients = ParameterGradients::of(&self.model, found.loss.backward());
        let names = ["policy term", "error of the values", "entropy"];
        self.updates
            .make(&mut self.model, step, gradients, &names, found.terms)
    }

    /// Episodes below each other, at most `steps` steps of each.
    pub(super) fn episodes(
        &self,
        count: usize,
        seed: u64,
        steps: Option<usize>,
        choice: Choice,
    ) -> Result<Drawn, LabError> {
        let (experiment, settings) = (&self.experiment, &self.settings);
        figures::drawn(
            experiment,
            settings,
            &self.policy(),
            count,
            seed,
            steps,
            choice,
        )
    }

    /// The state of the core in a fresh episode, off the autodiff device.
    fn fresh(&self) -> AnyCoreState {
        self.policy().initial_state(self.experiment.training.batch)
    }
}

impl Learner for AgentLearner {
    fn sizes(&self) -> Vec<(String, usize)> {
        in_words(parts(&self.model))
    }

    fn update(&mut self, step: u64) -> Result<(), StepFailure> {
        let due = (step - 1).is_multiple_of(self.settings.passes);
        let unroll = match self.unroll.take() {
            Some(unroll) if !due => {
                self.lag += 1;
                unroll
            }
            _ => self.act(step - 1)?,
        };
        let made = self.learn(step, &unroll);
        let again = !step.is_multiple_of(self.settings.passes);
        // What an update failed on is kept.
        self.unroll = (again || made.is_err()).then_some(unroll);
        made
    }

    fn deferred(&self) -> bool {
        self.updates.deferred()
    }

    fn measured(&mut self) -> Result<Option<Row>, StepFailure> {
        let recent = self.recent.measured();
        let frames = self.steps * self.experiment.training.batch as u64;
        let lag = self.lag;
        self.updates.measured(|terms| {
            recent
                .with("entropy", terms[2])
                .with("value_error", terms[1])
                .with("lag", lag)
                .with("frames", frames)
        })
    }

    fn evaluate(&self, purpose: Purpose, step: u64) -> Result<Row, Error> {
        let measures = evaluate(&self.experiment, &self.settings, &self.policy(), purpose)?;
        Ok(Row { step, measures })
    }

    fn snapshot(&self) -> Snapshot {
        let mut carried = Arrays::new();
        if let Acting::InTurn(actor) = &self.acting {
            carried.extend(actor.save());
            if let Some(unroll) = &self.unroll {
                carried.extend(unroll.save());
            }
        }
        carried.insert(RECENT_EPISODES.into(), self.recent.save());
        let counters = [(STEPS, self.steps), (LAG, self.lag)];
        Snapshot {
            model: collect(&self.model),
            optimiser: self.updates.optimiser.collect(),
            carried,
            counters: counters
                .map(|(name, count)| (name.to_owned(), count as f64))
                .into(),
            ..Snapshot::default()
        }
    }

    fn restore(&mut self, mut from: Snapshot, path: &Path) -> Result<(), Error> {
        if from.optimiser.is_empty() && from.carried.is_empty() {
            self.model = restore(self.model.clone(), from.model, path)?;
            return Ok(());
        }
        let count = |name: &str| Ok::<_, Error>(from.counter(name, path)? as u64);
        let (steps, lag) = (count(STEPS)?, count(LAG)?);
        self.model = restore(self.model.clone(), from.model, path)?;
        self.updates.restore(from.optimiser, path)?;
        let carried = &mut from.carried;
        let fresh = self.fresh();
        if let Acting::InTurn(actor) = &mut self.acting {
            actor.restore(carried, steps, path)?;
            let size = [self.settings.unroll, self.experiment.training.batch];
            self.unroll = Unroll::load(carried, size, &self.spec, fresh, path)?;
        }
        (self.steps, self.lag) = (steps, lag);
        self.recent = Recent::restored(carried.remove(RECENT_EPISODES));
        Ok(())
    }
}

impl Gallery for AgentLearner {
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError> {
        planned(experiment)
    }

    fn draw_batch(&self, step: u64) -> Result<(), LabError> {
        let count = self.experiment.training.batch;
        let mut all = environments(&self.experiment, &self.settings, count, step)?;
        Ok(all.step(&vec![0; count])?)
    }

    /// With `steps`, an episode shows at most that many.
    fn draw(&self, sequences: usize, seed: u64, steps: Option<usize>) -> Result<Drawn, LabError> {
        self.episodes(sequences, seed, steps, Choice::Sampled)
    }

    /// The agent plays, and a person watches.
    fn walker(
        &self,
        seed: u64,
        picture: Option<&Path>,
    ) -> Option<Result<Box<dyn Walker>, LabError>> {
        if let Some(file) = picture {
            return Some(Err(LabError::Configuration(format!(
                "--image {}: an agent acts in its environment, not in a picture",
                file.display()
            ))));
        }
        let watched = Watched::new(&self.experiment, &self.settings, self.policy(), seed);
        Some(watched.map(|watched| Box::new(watched) as Box<dyn Walker>))
    }

    fn figures(&self, shown: &Shown) -> Result<Figures, LabError> {
        figures::figures(&self.settings, &self.policy(), shown)
    }
}

#[cfg(test)]
mod tests;
