//! What a training drives, whatever is learned: the interface of a learner, and the update that
//! all learners make.

use crate::{
    Evaluation, Experiment, LabError,
    adam::{Adam, ParameterGradients},
    checkpoint::HeldOut,
    config::Schedule,
    picture::Image,
    present::Figures,
    run::Metrics,
    weights::{Arrays, host},
};
use burn::{module::Module, tensor::Tensor};
use std::path::Path;

/// A model with its optimiser and its task. One that is only looked at needs no autodiff device
/// and makes no steps.
pub trait Learner: Send {
    /// Trainable numbers, whole model first, then its parts by name.
    fn parameters(&self) -> Vec<(String, usize)>;

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

    /// Makes update number `step` (from 1) on a batch of its own and gives its metrics.
    fn step(&mut self, experiment: &Experiment, step: u64) -> Result<Metrics, StepFailure>;

    /// Scores the model, which has had `step` updates, on `batches` held-out batches of the stream
    /// `purpose`.
    fn evaluate(
        &self,
        experiment: &Experiment,
        step: u64,
        batches: u64,
        purpose: &str,
    ) -> Result<Evaluation, LabError>;

    /// A picture of what the model makes of held-out sequences, and the steps that these have. With
    /// `steps` the model makes so many steps of its own instead of those of the experiment.
    fn draw(
        &self,
        experiment: &Experiment,
        sequences: usize,
        seed: u64,
        steps: Option<usize>,
    ) -> Result<(Image, usize), LabError>;

    /// Draws the pictures of a run.
    fn figures(&self, shown: &Shown) -> Result<Figures, LabError>;
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

/// Why a step was not made. The model is as it was.
#[derive(Debug)]
pub enum StepFailure {
    /// The named term or parameter is not finite.
    NonFinite(String),
    /// There is no batch.
    Batch(LabError),
}

/// What an update was.
pub struct Update {
    /// The terms as numbers.
    pub terms: Vec<f32>,
    /// Euclidean norm of the gradient before clipping.
    pub gradient_norm: f32,
    /// Adam's rate.
    pub learning_rate: f64,
}

/// Makes update number `step` (from 1) of a model: the gradient of the loss, clipped by its global
/// norm, and Adam. Nothing changes if one of `terms`, or the gradient, is not finite.
///
/// `terms`, `[names]`, are the loss's parts, without gradient.
pub fn update<M: Module>(
    model: &mut M,
    adam: &mut Adam,
    experiment: &Experiment,
    step: u64,
    gradients: ParameterGradients,
    names: &[&str],
    terms: Tensor<1>,
) -> Result<Update, StepFailure> {
    let gradient_norm = gradients.global_norm();
    let terms = host(terms.into_data());
    let term = names.iter().zip(&terms).find(|(_, term)| !term.is_finite());
    if let Some((name, _)) = term {
        return Err(StepFailure::NonFinite(format!("the {name}")));
    }
    if !gradient_norm.is_finite() {
        return Err(StepFailure::NonFinite(match gradients.non_finite() {
            Some(name) => format!("the gradient of '{name}'"),
            None => "the norm of the gradient".into(),
        }));
    }

    let norm = f64::from(gradient_norm);
    let scale = match experiment.training.clip {
        clip if clip > 0.0 && norm > clip => clip / norm,
        _ => 1.0,
    };
    let learning_rate = learning_rate(experiment, step);
    // A module is moved through its update; a clone of the handles stands in meanwhile.
    *model = adam.step(model.clone(), gradients, scale, learning_rate, step);
    Ok(Update {
        terms,
        gradient_norm,
        learning_rate,
    })
}

/// Adam's rate at a step.
fn learning_rate(experiment: &Experiment, step: u64) -> f64 {
    let settings = &experiment.training;
    let (first, last) = (settings.learning_rate, settings.final_learning_rate);
    let done = (step - 1) as f64 / (settings.steps.max(2) - 1) as f64;
    match settings.schedule {
        Schedule::Constant => first,
        Schedule::Linear => first + (last - first) * done,
        Schedule::Cosine => {
            last + (first - last) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
