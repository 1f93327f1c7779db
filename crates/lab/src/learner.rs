//! What a training drives, whatever is learned: the interface of a learner, and the update that
//! all learners make.

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients, take},
    checkpoint::HeldOut,
    config::Schedule,
    device::is_processor,
    memory_use::Planned,
    online::{Belief, OnlineFilter},
    present::Figures,
    run::Metrics,
    weights::{Arrays, host},
};
use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor},
};
use mnemora_figures::picture::Image;
use std::path::Path;

/// A model with its optimiser and its task. One that is only looked at needs no autodiff device
/// and makes no steps.
pub trait Learner: Send {
    /// Trainable numbers, whole model first, then its parts by name.
    fn parameters(&self) -> Vec<(String, usize)>;

    /// What a model of `experiment` on the learner's data would consist of, and how much memory it would take.
    fn planned(&self, experiment: &Experiment) -> Result<Planned, LabError>;

    /// Parameters and running statistics.
    fn weights(&self) -> Arrays;

    /// Moments of the optimiser.
    fn optimizer(&self) -> Arrays;

    /// Takes on what a checkpoint holds; `path` is its file of weights. Without moments the
    /// optimiser stays as it is.
    fn restore(
        &mut self,
        weights: Arrays,
        optimizer: Option<Arrays>,
        path: &Path,
    ) -> Result<(), LabError>;

    /// Makes update number `step` (from 1) on a batch of its own. See [`Updates`] for when a failure
    /// shows.
    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<(), StepFailure>;

    /// Makes the batch of update `step` and lets go of it.
    fn draw_batch(&self, experiment: &Experiment, step: u64) -> Result<(), LabError>;

    /// Whether [`metrics`](Self::metrics) waits for the device.
    fn deferred(&self) -> bool;

    /// Metrics of the last step, once it and all before it are looked at; `None` before the first.
    fn metrics(&mut self) -> Result<Option<Metrics>, StepFailure>;

    /// Scores the model, which has had `step` updates, on `batches` held-out batches of the stream
    /// `purpose`.
    fn evaluate(
        &self,
        experiment: &Experiment,
        step: u64,
        batches: u64,
        purpose: &str,
    ) -> Result<Evaluation, LabError>;

    /// What the model makes of held-out sequences. With `steps` the model makes so many steps of its
    /// own instead of those of the experiment.
    fn draw(
        &self,
        experiment: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<Drawn, LabError>;

    /// Draws the pictures of a run.
    fn figures(&self, shown: &Shown) -> Result<Figures, LabError>;

    /// The words of a language model, as [`to_tsv`](mnemora_worlds::Vocabulary::to_tsv) writes them; `None` for
    /// a model of anything else.
    fn vocabulary(&self) -> Option<String> {
        None
    }

    /// What there is to say about how the data were read, a line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// A held-out recording, by its number from 1, as a filter takes it, `[steps, numbers]`; `None` for a
    /// task that has no recordings.
    fn recording(&self, _number: usize) -> Option<Result<Vec<f32>, LabError>> {
        None
    }

    /// A picture of what came, what was expected and how surprising it was; `None` for what cannot be drawn.
    fn draw_filtered(&self, _sequence: &FilteredSequence) -> Option<Result<Image, LabError>> {
        None
    }

    /// The model as a filter that observations are given to as they come; `None` for one without latents.
    /// Its samples take draws of streams under `seed`.
    fn online(&self, _seed: u64) -> Option<Box<dyn OnlineFilter>> {
        None
    }
}

/// A sequence that a filter has gone through.
pub struct FilteredSequence {
    /// What came, `[steps, numbers]`; NaN at steps where nothing usable was observed.
    pub observations: Vec<f32>,
    /// What the filter said of each step.
    pub beliefs: Vec<Belief>,
}

/// What a model makes.
pub struct Drawn {
    /// To look at.
    pub picture: Image,
    /// Steps of its sequences.
    pub time: usize,
    /// To listen to: what a file's name ends in, and its bytes.
    pub files: Vec<(String, Vec<u8>)>,
}

/// What there is to be shown of a run beside the model.
pub struct Shown<'a> {
    /// As resolved.
    pub experiment: &'a Experiment,
    /// Of the model as it is.
    pub evaluation: &'a Evaluation,
    /// As logged.
    pub metrics: &'a [Metrics],
    /// The short evaluations at checkpoints.
    pub held_out: &'a [HeldOut],
    /// Folder for pictures.
    pub samples: &'a Path,
}

/// Why a step was not made. The model is as it was before that step; an inference network is only where its own
/// gradient was at fault.
#[derive(Debug)]
pub enum StepFailure {
    /// The named term or parameter is not finite.
    NonFinite {
        /// The step's number.
        step: u64,
        /// The name.
        what: String,
    },
    /// There is no batch.
    Batch(LabError),
}

/// What an update was.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Its number, from 1.
    pub step: u64,
    /// The terms as numbers.
    pub terms: Vec<f32>,
    /// Euclidean norm of the gradient before clipping.
    pub gradient_norm: f32,
    /// Adam's rate.
    pub learning_rate: f64,
}

/// The updates of a model: the gradient of a loss, clipped by its global norm, and Adam. A step
/// whose terms or gradient are not finite changes nothing, and training ends there.
///
/// On the processor each step is looked at before its update. On any other device looking means to
/// wait for all work in its queue, so the device itself decides: an update is taken over only if
/// this and all earlier steps were finite, and the numbers are looked at when they are asked for.
/// Parameters are then those before the first step that was not finite.
pub struct Updates {
    /// The moments.
    pub adam: Adam,
    /// Whether steps are looked at later.
    deferred: bool,
    /// Whether all steps so far were finite, `[1]` on the device.
    finite: Option<Tensor<1, Bool>>,
    /// Steps not looked at yet.
    pending: Vec<Pending>,
    last: Option<Update>,
}

/// A step whose numbers are on the device.
struct Pending {
    step: u64,
    learning_rate: f64,
    /// Names of the terms, then of the parameters.
    terms: &'static [&'static str],
    parameters: Vec<String>,
    /// The terms, the norm of the gradient, and the squared norm of each parameter's.
    numbers: Tensor<1>,
}

/// Steps that may wait for a look at them.
const MOST_PENDING: usize = 64;

impl Updates {
    /// The updates of a model on `device`.
    pub fn new(adam: Adam, device: &Device) -> Self {
        Self {
            adam,
            deferred: !is_processor(device),
            finite: None,
            pending: Vec::new(),
            last: None,
        }
    }

    /// Whether [`last`](Self::last) waits for the device.
    pub fn deferred(&self) -> bool {
        self.deferred
    }

    /// Whether all steps so far were finite, `[1]` on the device: what a step changes beside the model is to be
    /// taken over only if so. `None` where each step is looked at before its update.
    pub fn finite(&self) -> Option<Tensor<1, Bool>> {
        self.finite.clone()
    }

    /// On any device as on one that is slow to ask.
    #[cfg(test)]
    pub fn defer(&mut self) {
        self.deferred = true;
    }

    /// Makes update number `step` (from 1) of a model along the gradients of its loss.
    ///
    /// `terms`, `[names]`, are the loss's parts, without gradient.
    pub fn make<M: Module>(
        &mut self,
        model: &mut M,
        experiment: &Experiment,
        step: u64,
        gradients: ParameterGradients,
        names: &'static [&'static str],
        terms: Tensor<1>,
    ) -> Result<(), StepFailure> {
        let rate = learning_rate(experiment, step);
        let clip = experiment.training.clip;
        *model = match self.deferred {
            false => {
                let update = look(step, rate, &gradients, names, terms)?;
                let norm = f64::from(update.gradient_norm);
                let scale = match clip > 0.0 && norm > clip {
                    true => clip / norm,
                    false => 1.0,
                };
                self.last = Some(update);
                self.adam.step(take(model), gradients, scale, rate, step)
            }
            true => {
                let pending = Pending {
                    step,
                    learning_rate: rate,
                    terms: names,
                    parameters: gradients.names(),
                    numbers: terms,
                };
                let (norm, finite) = self.queue(pending, &gradients)?;
                let scale = match clip > 0.0 {
                    true => norm.recip().mul_scalar(clip).clamp_max(1.0),
                    false => norm.ones_like(),
                };
                self.adam
                    .step_if(finite, take(model), gradients, scale, rate, step)
            }
        };
        Ok(())
    }

    /// Queues a step, of which `pending` has the terms. Gives the norm of the gradient, and whether
    /// this and all earlier steps are finite, both `[1]`.
    fn queue(
        &mut self,
        mut pending: Pending,
        gradients: &ParameterGradients,
    ) -> Result<(Tensor<1>, Tensor<1, Bool>), StepFailure> {
        if self.pending.len() >= MOST_PENDING {
            self.settle()?;
        }
        let squares = gradients
            .squares()
            .unwrap_or_else(|| pending.numbers.zeros_like());
        let norm = squares.clone().sum().sqrt();
        pending.numbers = Tensor::cat(vec![pending.numbers, norm.clone(), squares], 0);
        let here = pending.numbers.clone().is_finite().all();
        let finite = match self.finite.take() {
            None => here,
            Some(before) => before.bool_and(here),
        };
        self.finite = Some(finite.clone());
        self.pending.push(pending);
        Ok((norm, finite))
    }

    /// What the last update was, once it and all before it are looked at; `None` before the first.
    pub fn last(&mut self) -> Result<Option<&Update>, StepFailure> {
        self.settle()?;
        Ok(self.last.as_ref())
    }

    /// Looks at all steps that wait for it.
    fn settle(&mut self) -> Result<(), StepFailure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let steps = std::mem::take(&mut self.pending);
        let numbers = steps.iter().map(|step| step.numbers.clone()).collect();
        let numbers = host(Tensor::cat(numbers, 0).into_data());
        let mut rest = numbers.as_slice();
        for pending in steps {
            let (here, after) = rest.split_at(pending.numbers.dims()[0]);
            rest = after;
            let (terms, norms) = here.split_at(pending.terms.len());
            check_terms(pending.step, pending.terms, terms)?;
            let (norm, squares) = (norms[0], &norms[1..]);
            if !norm.is_finite() {
                let mut named = pending.parameters.iter().zip(squares);
                let found = named.find(|(_, square)| !square.is_finite());
                return Err(gradient_failure(pending.step, found.map(|(name, _)| name)));
            }
            self.last = Some(Update {
                step: pending.step,
                terms: terms.to_vec(),
                gradient_norm: norm,
                learning_rate: pending.learning_rate,
            });
        }
        Ok(())
    }
}

/// Reads the numbers of a step.
fn look(
    step: u64,
    learning_rate: f64,
    gradients: &ParameterGradients,
    names: &[&str],
    terms: Tensor<1>,
) -> Result<Update, StepFailure> {
    let gradient_norm = gradients.global_norm();
    let terms = host(terms.into_data());
    check_terms(step, names, &terms)?;
    if !gradient_norm.is_finite() {
        return Err(gradient_failure(step, gradients.non_finite().as_ref()));
    }
    Ok(Update {
        step,
        terms,
        gradient_norm,
        learning_rate,
    })
}

fn check_terms(step: u64, names: &[&str], terms: &[f32]) -> Result<(), StepFailure> {
    let term = names.iter().zip(terms).find(|(_, term)| !term.is_finite());
    match term {
        None => Ok(()),
        Some((name, _)) => Err(StepFailure::NonFinite {
            step,
            what: format!("the {name}"),
        }),
    }
}

fn gradient_failure(step: u64, parameter: Option<&String>) -> StepFailure {
    StepFailure::NonFinite {
        step,
        what: match parameter {
            Some(name) => format!("the gradient of '{name}'"),
            None => "the norm of the gradient".into(),
        },
    }
}

/// Adam's rate at a step.
pub(crate) fn learning_rate(experiment: &Experiment, step: u64) -> f64 {
    let settings = &experiment.training;
    let (first, last) = (settings.learning_rate, settings.final_learning_rate);
    let done = (step - 1) as f64 / (settings.steps.max(2) - 1) as f64;
    match settings.schedule {
        Schedule::Constant => first,
        Schedule::Exponential => first * (last / first).powf(done),
        Schedule::Linear => first + (last - first) * done,
        Schedule::Cosine => {
            last + (first - last) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::collect;
    use burn::{module::Param, nn::Linear};

    /// A linear map of two numbers and its optimiser.
    struct Small {
        model: Linear,
        updates: Updates,
        experiment: Experiment,
        device: Device,
    }

    impl Small {
        fn new(deferred: bool) -> Self {
            let device = Device::default().autodiff();
            let weight = Tensor::from_floats([[0.5], [-1.0]], &device);
            let mut experiment = Experiment::default();
            experiment.training.clip = 1.0;
            experiment.training.learning_rate = 0.1;
            Self {
                model: Linear {
                    weight: Param::from_tensor(weight),
                    bias: Some(Param::from_tensor(Tensor::from_floats([0.25], &device))),
                },
                updates: Updates {
                    deferred,
                    ..Updates::new(Adam::default(), &device)
                },
                experiment,
                device,
            }
        }

        /// A step towards the linear map giving 1 for `x`, all times `factor`, the root of which
        /// is taken of a sum of squares.
        fn step(&mut self, step: u64, x: [f32; 2], factor: f64) -> Result<(), StepFailure> {
            let x = Tensor::<2>::from_floats([x], &self.device);
            let error = self.model.forward(x) - 1.0;
            let loss = (error * factor).powi_scalar(2).sum().sqrt();
            let terms = loss.clone().inner();
            let gradients = ParameterGradients::of(&self.model, loss.backward());
            self.updates.make(
                &mut self.model,
                &self.experiment,
                step,
                gradients,
                &["loss"],
                terms,
            )
        }

        fn state(&self) -> String {
            let (weights, moments) = (collect(&self.model), self.updates.adam.collect());
            format!("{weights:?} {moments:?}")
        }
    }

    fn input(step: u64) -> [f32; 2] {
        [(step as f32).sin(), (step as f32).cos()]
    }

    #[test]
    fn looking_later_changes_nothing() {
        let (mut now, mut later) = (Small::new(false), Small::new(true));
        let steps = 2 * MOST_PENDING as u64 + 3;
        for step in 1..=steps {
            // Norms on both sides of the one that is clipped.
            let factor = f64::from((step % 7) as u32) + 0.1;
            now.step(step, input(step), factor).unwrap();
            later.step(step, input(step), factor).unwrap();
            if step == 2 {
                assert_eq!(later.updates.pending.len(), 2);
            }
        }
        let (one, other) = (now.updates.last().unwrap(), later.updates.last().unwrap());
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!((one.step, other.step), (steps, steps));
        assert!((one.gradient_norm - other.gradient_norm).abs() < 1e-4);
        let (one, other) = (collect(&now.model), collect(&later.model));
        for (name, one) in one {
            for (one, other) in one.values.iter().zip(&other[&name].values) {
                assert!((one - other).abs() < 1e-4, "{name}: {one} {other}");
            }
        }
    }

    /// What is said of a third step that is not finite, after further ones if looked at later.
    fn third_step_fails(deferred: bool, x: [f32; 2], factor: f64) -> String {
        let mut small = Small::new(deferred);
        small.step(1, input(1), 1.0).unwrap();
        small.step(2, input(2), 1.0).unwrap();
        let before = small.state();
        let failed = match deferred {
            false => small.step(3, x, factor),
            true => {
                small.step(3, x, factor).unwrap();
                small.step(4, input(4), 1.0).unwrap();
                small.step(5, input(5), 1.0).unwrap();
                small.updates.last().map(|_| ())
            }
        };
        assert_eq!(small.state(), before);
        match failed {
            Err(StepFailure::NonFinite { step: 3, what }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_step_that_is_not_finite_is_the_last_and_is_not_made() {
        for deferred in [false, true] {
            let failed = third_step_fails(deferred, [f32::NAN, 1.0], 1.0);
            assert_eq!(failed, "the loss");
            // A finite loss, the root of zero, whose gradient is not.
            let failed = third_step_fails(deferred, [1.0, 1.0], 0.0);
            assert_eq!(failed, "the gradient of 'bias'");
        }
    }

    #[test]
    fn schedules_start_and_end_where_they_say() {
        let mut experiment = Experiment::default();
        experiment.training.steps = 101;
        experiment.training.final_learning_rate = 1e-4;
        for (schedule, middle, last) in [
            (Schedule::Constant, 1e-3, 1e-3),
            (Schedule::Linear, 5.5e-4, 1e-4),
            (Schedule::Cosine, 5.5e-4, 1e-4),
        ] {
            experiment.training.schedule = schedule;
            for (step, expected) in [(1, 1e-3), (51, middle), (101, last)] {
                assert!((learning_rate(&experiment, step) - expected).abs() < 1e-12);
            }
        }
    }
}
