//! The update of all learners: gradients, clipping by their global norm, an optimiser's step, and the check that all numbers are
//! finite.

use crate::{
    Error, Measures, Row, StepFailure,
    arrays::{Arrays, host},
    device::is_processor,
    optimiser::{Optimiser, ParameterGradients, take},
    settings::TrainingSettings,
};
use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor},
};
use std::path::Path;

/// The numbers of an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Its number, from 1.
    pub step: u64,
    /// The values of the loss terms.
    pub terms: Vec<f32>,
    /// Euclidean norm of the gradient before clipping.
    pub gradient_norm: f32,
    /// The learning rate.
    pub learning_rate: f64,
}

/// The updates of a model: the gradient of a loss, clipped by its global norm, and an optimiser. A step whose terms or gradient
/// are not finite changes nothing, and training ends there.
///
/// On the processor each step is checked before its update. On any other device a check would wait for all queued work,
/// so the device itself decides: it applies an update only if this and all earlier steps were finite, and the numbers
/// are read when they are asked for. The parameters are then those before the first step that was not finite.
pub struct Updates {
    /// The optimiser and its moments.
    pub optimiser: Optimiser,
    settings: TrainingSettings,
    /// Without gradients.
    device: Device,
    /// Whether steps are checked later.
    deferred: bool,
    /// Whether all steps so far were finite, `[1]` on the device.
    finite: Option<Tensor<1, Bool>>,
    /// Steps not checked yet.
    pending: Vec<Pending>,
    last: Option<Update>,
}

/// A step whose numbers are still on the device.
struct Pending {
    step: u64,
    learning_rate: f64,
    /// Names of the terms, then of the parameters.
    terms: Vec<&'static str>,
    parameters: Vec<String>,
    /// The terms, the norm of the gradient, and the squared norm of each parameter's gradient.
    numbers: Tensor<1>,
}

/// The most steps that may be unchecked.
const MOST_PENDING: usize = 64;

impl Updates {
    /// The updates of a model on `device`.
    pub fn new(settings: &TrainingSettings, device: &Device) -> Self {
        Self {
            optimiser: Optimiser::new(settings),
            settings: settings.clone(),
            device: device.clone().inner(),
            deferred: !is_processor(device),
            finite: None,
            pending: Vec::new(),
            last: None,
        }
    }

    /// Puts back the optimiser's moments from a checkpoint. Without arrays they stay as they are.
    ///
    /// # Errors
    /// If a moment is missing. `path` is the file that they come from.
    pub fn restore(&mut self, moments: Arrays, path: &Path) -> Result<(), Error> {
        if moments.is_empty() {
            return Ok(());
        }
        self.optimiser.restore(moments, &self.device, path)
    }

    /// Whether [`last`](Self::last) waits for the device.
    pub fn deferred(&self) -> bool {
        self.deferred
    }

    /// Whether all steps so far were finite, `[1]` on the device. Other state that a step changes must be replaced only
    /// if this is true. `None` if each step is checked before its update.
    pub fn finite(&self) -> Option<Tensor<1, Bool>> {
        self.finite.clone()
    }

    /// Defers checks, as on a device that is slow to read from.
    pub fn defer(&mut self) {
        self.deferred = true;
    }

    /// Makes update number `step` (from 1) of a model along the gradients of its loss.
    ///
    /// `terms`, `[names]`, are the loss's parts, without gradient.
    pub fn make<M: Module>(
        &mut self,
        model: &mut M,
        step: u64,
        gradients: ParameterGradients,
        names: &[&'static str],
        terms: Tensor<1>,
    ) -> Result<(), StepFailure> {
        let rate = self.settings.rate(step);
        let clip = self.settings.clip;
        *model = match self.deferred {
            false => {
                let update = look(step, rate, &gradients, names, terms)?;
                let norm = f64::from(update.gradient_norm);
                let scale = match clip > 0.0 && norm > clip {
                    true => clip / norm,
                    false => 1.0,
                };
                self.last = Some(update);
                self.optimiser
                    .step(take(model), gradients, scale, rate, step)
            }
            true => {
                let pending = Pending {
                    step,
                    learning_rate: rate,
                    terms: names.to_vec(),
                    parameters: gradients.names(),
                    numbers: terms,
                };
                let (norm, finite) = self.queue(pending, &gradients)?;
                let scale = match clip > 0.0 {
                    true => norm.recip().mul_scalar(clip).clamp_max(1.0),
                    false => norm.ones_like(),
                };
                self.optimiser
                    .step_if(finite, take(model), gradients, scale, rate, step)
            }
        };
        Ok(())
    }

    /// Queues a step with the terms in `pending`. Returns the norm of the gradient, and whether this and all earlier
    /// steps are finite, both `[1]`.
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

    /// The last update, after it and all earlier ones were checked; `None` before the first.
    pub fn last(&mut self) -> Result<Option<&Update>, StepFailure> {
        self.settle()?;
        Ok(self.last.as_ref())
    }

    /// The measurements of the last update: `measures` of its terms, then the norm of the gradient and the learning
    /// rate.
    ///
    /// # Errors
    /// As [`last`](Self::last).
    pub fn measured(
        &mut self,
        measures: impl FnOnce(&[f32]) -> Measures,
    ) -> Result<Option<Row>, StepFailure> {
        Ok(self.last()?.map(|made| Row {
            step: made.step,
            measures: measures(&made.terms)
                .with("gradient_norm", made.gradient_norm)
                .with("learning_rate", made.learning_rate),
        }))
    }

    /// Checks all queued steps.
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
            check_terms(pending.step, &pending.terms, terms)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::collect;
    use burn::{module::Param, nn::Linear};

    /// A linear map of two numbers, with its optimiser.
    struct Small {
        model: Linear,
        updates: Updates,
        device: Device,
    }

    impl Small {
        fn new(deferred: bool) -> Self {
            let device = Device::default().autodiff();
            let weight = Tensor::from_floats([[0.5], [-1.0]], &device);
            let settings = TrainingSettings {
                clip: 1.0,
                learning_rate: 0.1,
                ..TrainingSettings::default()
            };
            Self {
                model: Linear {
                    weight: Param::from_tensor(weight),
                    bias: Some(Param::from_tensor(Tensor::from_floats([0.25], &device))),
                },
                updates: Updates {
                    deferred,
                    ..Updates::new(&settings, &device)
                },
                device,
            }
        }

        /// A step that pulls the linear map towards 1 at `x`; the loss is the square root of a sum of squares, times
        /// `factor`.
        fn step(&mut self, step: u64, x: [f32; 2], factor: f64) -> Result<(), StepFailure> {
            let x = Tensor::<2>::from_floats([x], &self.device);
            let error = self.model.forward(x) - 1.0;
            let loss = (error * factor).powi_scalar(2).sum().sqrt();
            let terms = loss.clone().inner();
            let gradients = ParameterGradients::of(&self.model, loss.backward());
            self.updates
                .make(&mut self.model, step, gradients, &["loss"], terms)
        }

        fn state(&self) -> String {
            let (weights, moments) = (collect(&self.model), self.updates.optimiser.collect());
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
            // Some norms are clipped, others not.
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

    /// The failure reported for a third step that is not finite; with deferred checks, further steps follow it.
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
            // The loss, a square root of zero, is finite; its gradient is not.
            let failed = third_step_fails(deferred, [1.0, 1.0], 0.0);
            assert_eq!(failed, "the gradient of 'bias'");
        }
    }
}
