//! A trained model as an online filter: one observation at a time.

use crate::{
    Error,
    arrays::{Array, Arrays, from_safetensors, host, to_safetensors},
    disk,
    disk::digest,
    run::write_atomically,
    strategy::{Inference, noise},
};
use burn::{
    module::Module,
    tensor::{Device, Int, Tensor, TensorData},
};
use mnemora_memory::{Bundle, TensorMapper};
use mnemora_models::{
    DiagonalGaussian, Distribution, FilteringModel, ForeseenBy, Likelihood, OnlineStep, ScoredStep,
    foresee, online_step, step_and_foresee, unobserved_step,
};
use mnemora_worlds::{FrameShape, Scale, Stream};
use serde::Serialize;
use std::path::Path;

/// The filter's output for one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FilteredStep {
    /// Number of the step, from 1.
    pub t: u64,
    /// Mean of the belief about `z_t`; if nothing was observed, of the prior.
    pub mean: Vec<f32>,
    /// Its standard deviation.
    pub std: Vec<f32>,
    /// The predicted next observation: its mean, with `z_{t+1}` at the mean of the prior. Absent if the model's next
    /// step depends on a condition not known yet, or if the model still memorises its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Vec<f32>>,
    /// Free energy of the step in nats, from one sample: how surprising the observation was. Absent if nothing was
    /// observed, or if the model only memorises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surprise: Option<f32>,
}

/// The kind of numbers in an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Notes, on or off: 0 or 1.
    Notes,
    /// Samples of sound in `[-1, 1]`. Values up to twice that are accepted: resampled recordings overshoot.
    Sound,
    /// Intensities in `[0, 1]`; in files they may be bytes.
    Pixels,
    /// Any number between 0 and 1.
    Shares,
    /// Any number.
    Any,
}

impl Numbers {
    /// The problem of a number, if it has one.
    fn refuse(self, x: f32) -> Option<&'static str> {
        if !x.is_finite() {
            return Some("not finite");
        }
        let (fits, wanted) = match self {
            Self::Notes => (x == 0.0 || x == 1.0, "notes are 0 or 1"),
            Self::Sound => (x.abs() <= 2.0, "samples of sound lie in [-1, 1]"),
            Self::Pixels => ((0.0..=1.0).contains(&x), "pixels lie in [0, 1]"),
            Self::Shares => (
                (0.0..=1.0).contains(&x),
                "the numbers of this model lie in [0, 1]",
            ),
            Self::Any => (true, ""),
        };
        (!fits).then_some(wanted)
    }
}

/// The input of a filter.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Dimensions of an observation.
    pub frame: FrameShape,
    /// The kind of its numbers.
    pub numbers: Numbers,
    /// How they are normalised before the model sees them.
    pub scale: Scale,
    /// Numbers of a condition; 0 if the model takes none.
    pub conditions: usize,
}

/// A filter whose state can be kept in a file.
pub trait FilterState: Send {
    /// SHA-256 of the model's parameters.
    fn model(&self) -> &str;

    /// Steps processed so far.
    fn steps(&self) -> u64;

    /// The state, from which [`restore`](Self::restore) continues.
    fn save(&self) -> Arrays;

    /// Continues from a state returned by [`save`](Self::save); `path` is its file.
    fn restore(&mut self, state: Arrays, path: &Path) -> Result<(), Error>;
}

/// A filter that takes one observation at a time. A refused observation leaves its state unchanged.
pub trait OnlineFilter: FilterState {
    /// The input it takes.
    fn observed(&self) -> Observed;

    /// Processes the next observation.
    ///
    /// # Errors
    /// As text: the observation or its condition has the wrong length or an invalid number.
    fn step(&mut self, x: &[f32], condition: Option<&[f32]>) -> Result<FilteredStep, String>;

    /// Advances by a step without a usable observation: the model uses its own prediction instead. A model without
    /// conditions ignores the one given.
    ///
    /// # Errors
    /// As text: the condition is missing or invalid, or the model still memorises. The state is unchanged.
    fn skip(&mut self, condition: Option<&[f32]>) -> Result<FilteredStep, String>;
}

/// The first words of a filter's state file.
const MAGIC: &str = "mnemora filter state";

/// Writes the state of a filter to a file, completely or not at all: a line with the digests of the model and of the
/// rest of the file, then a safetensors file.
pub fn save_filter_state(filter: &dyn FilterState, path: &Path) -> Result<(), Error> {
    let state = to_safetensors(&filter.save());
    let mut bytes = format!("{MAGIC} {} {}\n", filter.model(), digest(&state)).into_bytes();
    bytes.extend(state);
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| Error::write(path, error))?;
    }
    write_atomically(path, &bytes)
}

/// Makes a filter continue from a state that [`save_filter_state`] wrote.
///
/// # Errors
/// If the file is damaged, or is the state of a model with other parameters.
pub fn load_filter_state(filter: &mut dyn FilterState, path: &Path) -> Result<(), Error> {
    let bytes = disk::read(path).map_err(|error| Error::read(path, error))?;
    let damaged = |problem: &str| Error::DamagedFile {
        path: path.to_owned(),
        problem: problem.to_owned(),
    };
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (head, state) = bytes.split_at(end.map_or(0, |end| end + 1));
    let head = std::str::from_utf8(head).unwrap_or_default();
    let sums = head.strip_prefix(MAGIC).map(str::split_whitespace);
    let mut sums = sums.ok_or_else(|| damaged("it is not the state of a filter"))?;
    let (model, sum) = (sums.next(), sums.next());
    if sum != Some(&digest(state)) {
        return Err(damaged("its checksum is wrong"));
    }
    if model != Some(filter.model()) {
        return Err(Error::WrongWeights {
            path: path.to_owned(),
            problem: "it is the state of a model with other parameters".into(),
        });
    }
    filter.restore(from_safetensors(state, path)?, path)
}

/// The belief about the latents of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Belief {
    /// Its mean.
    pub mean: Vec<f32>,
    /// Its standard deviation.
    pub std: Vec<f32>,
    /// Free energy of the step in nats; `None` if it is not scored.
    pub surprise: Option<f32>,
}

/// What a filter makes of an observation.
pub struct Passed<P> {
    /// The belief about its latents.
    pub belief: Belief,
    /// What it was scored by; `None` if it is not scored.
    pub scored: Option<ScoredStep<P>>,
}

/// A model used as a filter.
pub struct Online<M: FilteringModel> {
    inference: Inference<M>,
    prepared: M::Prepared,
    observed: Observed,
    model: String,
    state: M::State,
    /// Prior and context of the step after `state`, if it was predicted.
    foreseen: Option<ForeseenBy<M>>,
    steps: u64,
    samples: Stream,
    seed: u64,
}

/// Names of the step counter and the seed in a saved state.
const STEPS: &str = "steps";

impl<M: FilteringModel + Module> Online<M> {
    /// At the start of a sequence; `weights` are all parameters, from which the model's digest is computed.
    pub fn new(inference: Inference<M>, observed: Observed, weights: &Arrays, seed: u64) -> Self {
        let model = inference.working_model();
        Self {
            state: model.initial_state(1),
            prepared: model.prepare(),
            inference,
            observed,
            model: digest(&to_safetensors(weights)),
            foreseen: None,
            steps: 0,
            samples: Stream::new(seed, "online samples"),
            seed,
        }
    }

    /// The model.
    pub fn inference(&self) -> &Inference<M> {
        &self.inference
    }

    /// Its state after the last step.
    pub fn state(&self) -> &M::State {
        &self.state
    }

    /// Goes on with other parameters of the same model. Its digest stays that of the first ones.
    pub fn learned(&mut self, inference: Inference<M>) {
        self.prepared = inference.working_model().prepare();
        self.inference = inference;
        self.foreseen = None;
    }

    /// Goes on from a state of the model after so many steps.
    pub fn begin_after(&mut self, state: M::State, steps: u64) {
        self.state = state;
        self.foreseen = None;
        self.steps = steps;
    }

    /// Filters an observation that is scaled and checked; the model must have stopped memorising.
    ///
    /// # Errors
    /// As text: the belief is not finite. The state is unchanged.
    pub fn pass(&mut self, x: &[f32]) -> Result<Passed<M::Prior>, String> {
        self.passed(x, None)
    }

    fn passed(&mut self, x: &[f32], condition: Option<&[f32]>) -> Result<Passed<M::Prior>, String> {
        self.foreseen = None;
        let made = online_step(
            self.inference.working_model(),
            &self.prepared,
            self.state.clone(),
            self.row(x),
            condition.map(|condition| self.row(condition)),
            self.sample_noise(),
            |features, context, x| self.belief(features, context, x),
        );
        self.take(made)
    }

    /// Filters an observation and predicts the next one, both scaled; only if the model's predictions can be reused.
    fn pass_and_predict(&mut self, x: &[f32]) -> Result<(Belief, Vec<f32>), String> {
        let model = self.inference.working_model();
        let kept = self.foreseen.take();
        let foreseen =
            kept.unwrap_or_else(|| foresee(model, &self.prepared, self.state.clone(), None));
        let (made, next, prediction) = step_and_foresee(
            model,
            &self.prepared,
            foreseen,
            self.row(x),
            self.sample_noise(),
            |features, context, x| self.belief(features, context, x),
        );
        let Passed { belief, .. } = self.take(made)?;
        self.foreseen = Some(next);
        Ok((belief, self.unscaled(&prediction)))
    }

    /// Noise of a sample of this step's belief, `[1, noise_size]`.
    fn sample_noise(&self) -> Tensor<2> {
        let size = self.inference.working_model().noise_size();
        let sample = noise(&self.samples, self.steps, [1, 1, size], &self.device());
        sample.squeeze_dim(0)
    }

    /// The belief about this step.
    fn belief(
        &self,
        features: &M::Features,
        context: &mut M::Context,
        x: &Tensor<2>,
    ) -> DiagonalGaussian {
        self.inference
            .belief(features, context, x, &self.samples, self.steps)
    }

    /// Goes on to the state after a step, if the belief is finite.
    fn take(&mut self, made: OnlineStep<M::State, M::Prior>) -> Result<Passed<M::Prior>, String> {
        let surprise = made.scored.as_ref().map(ScoredStep::surprise);
        let surprise = surprise.map(|surprise| host(surprise.into_data())[0]);
        let belief = Belief {
            mean: host(made.posterior.mean.into_data()),
            std: host(made.posterior.log_std.exp().into_data()),
            surprise,
        };
        let mut numbers = belief.mean.iter().chain(&belief.std).chain(&surprise);
        if numbers.any(|number| !number.is_finite()) {
            return Err(
                "the belief is not finite: what was observed is too far from everything the model has seen".into(),
            );
        }
        // No parameter is tracked and the belief is a constant, so the state belongs to no graph.
        self.state = made.state;
        self.steps += 1;
        Ok(Passed {
            belief,
            scored: made.scored,
        })
    }

    fn device(&self) -> Device {
        self.inference.working_model().devices().remove(0)
    }

    fn scaled(&self, x: f32) -> f32 {
        let Scale { mean, deviation } = self.observed.scale;
        (x - mean) / deviation
    }

    /// The state after `steps` observations of zeros.
    fn state_after(&self, steps: u64) -> M::State {
        let model = self.inference.working_model();
        let Observed {
            frame, conditions, ..
        } = self.observed;
        let condition = (conditions > 0).then(|| self.row(&vec![0.0; conditions]));
        (0..steps).fold(model.initial_state(1), |state, _| {
            let noise = Tensor::zeros([1, model.noise_size()], &self.device());
            let made = online_step(
                model,
                &self.prepared,
                state,
                self.row(&vec![0.0; frame.size()]),
                condition.clone(),
                noise,
                |features, context, _| model.posterior(features, context),
            );
            made.state
        })
    }

    fn row(&self, values: &[f32]) -> Tensor<2> {
        let data = TensorData::new(values.to_vec(), [1, values.len()]);
        Tensor::from_data(data, &self.device())
    }

    /// Checks a condition: it must be there if the model takes one, and valid.
    fn check_condition(&self, condition: Option<&[f32]>) -> Result<(), String> {
        match (condition, self.observed.conditions) {
            (None, 0) => Ok(()),
            (None, conditions) => Err(format!(
                "c is missing: the model takes a condition of {conditions} numbers"
            )),
            (Some(_), 0) => Err("c is given, but the model takes no condition".into()),
            (Some(condition), conditions) => check("c", condition, conditions, Numbers::Any),
        }
    }

    /// Whether the next observation can be predicted: it depends on no condition, and the model memorises no more.
    fn predicts(&self) -> bool {
        let model = self.inference.working_model();
        self.observed.conditions == 0 && model.scored_from(&self.state) == 0
    }

    /// The mean of the predicted next observation. Prior and context are kept for that observation.
    fn predict_next(&mut self) -> Option<Vec<f32>> {
        if !self.predicts() {
            return None;
        }
        let model = self.inference.working_model();
        let foreseen = foresee(model, &self.prepared, self.state.clone(), None);
        let prediction = self.unscaled(&foreseen.observation(model));
        self.foreseen = model.reuses_predictions().then_some(foreseen);
        Some(prediction)
    }

    /// The mean of an observation as it was before it was normalised.
    fn unscaled(&self, likelihood: &Likelihood) -> Vec<f32> {
        let Scale { mean, deviation } = self.observed.scale;
        let expected = host(likelihood.mean().into_data()).into_iter();
        expected.map(|x| x * deviation + mean).collect()
    }
}

/// Checks the length and the values.
fn check(what: &str, values: &[f32], wanted: usize, numbers: Numbers) -> Result<(), String> {
    if values.len() != wanted {
        return Err(format!(
            "{what} has {} numbers, the model takes {wanted}",
            values.len()
        ));
    }
    let refused = values.iter().enumerate().find_map(|(place, x)| {
        let why = numbers.refuse(*x)?;
        Some((place + 1, *x, why))
    });
    match refused {
        Some((place, x, why)) => Err(format!("{what}: number {place} is {x}: {why}")),
        None => Ok(()),
    }
}

impl<M: FilteringModel + Module> OnlineFilter for Online<M> {
    fn observed(&self) -> Observed {
        self.observed
    }

    fn step(&mut self, x: &[f32], condition: Option<&[f32]>) -> Result<FilteredStep, String> {
        let Observed { frame, numbers, .. } = self.observed;
        check("x", x, frame.size(), numbers)?;
        self.check_condition(condition)?;
        let scaled: Vec<f32> = x.iter().map(|x| self.scaled(*x)).collect();
        let model = self.inference.working_model();
        let (belief, prediction) = match self.predicts() && model.reuses_predictions() {
            true => {
                let (belief, prediction) = self.pass_and_predict(&scaled)?;
                (belief, Some(prediction))
            }
            false => {
                let Passed { belief, .. } = self.passed(&scaled, condition)?;
                (belief, self.predict_next())
            }
        };
        Ok(FilteredStep {
            t: self.steps,
            prediction,
            mean: belief.mean,
            std: belief.std,
            surprise: belief.surprise,
        })
    }

    fn skip(&mut self, condition: Option<&[f32]>) -> Result<FilteredStep, String> {
        let condition = condition.filter(|_| self.observed.conditions > 0);
        self.check_condition(condition)?;
        let model = self.inference.working_model();
        let condition = condition.map(|condition| self.row(condition));
        if model.scored_from(&self.state) > 0 {
            return Err(
                "the model is still memorising its input: it cannot predict this step".into(),
            );
        }
        let (prior, state) = unobserved_step(model, &self.prepared, self.state.clone(), condition);
        let prior = prior.gaussian();
        let mean = host(prior.mean.into_data());
        let std = host(prior.log_std.exp().into_data());
        if mean.iter().chain(&std).any(|v| !v.is_finite()) {
            return Err("the prediction is not finite".into());
        }
        self.state = state;
        self.steps += 1;
        let prediction = self.predict_next();
        Ok(FilteredStep {
            t: self.steps,
            mean,
            std,
            prediction,
            surprise: None,
        })
    }
}

impl<M: FilteringModel + Module> FilterState for Online<M> {
    fn model(&self) -> &str {
        &self.model
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn save(&self) -> Arrays {
        let mut read = Read(Arrays::new());
        self.state.clone().map_tensors(&mut read);
        let counts = [self.steps, self.seed].map(|count| {
            let part = |shift: u32| ((count >> shift) & 0xffff) as f32;
            [part(0), part(16), part(32), part(48)]
        });
        let counts = Array {
            shape: vec![2, 4],
            values: counts.concat(),
        };
        read.0.insert(STEPS.into(), counts);
        read.0
    }

    fn restore(&mut self, mut state: Arrays, path: &Path) -> Result<(), Error> {
        let wrong = |problem: String| Error::WrongWeights {
            path: path.to_owned(),
            problem,
        };
        let counts = state
            .remove(STEPS)
            .filter(|counts| counts.values.len() == 8);
        let counts = counts.ok_or_else(|| wrong("it is not the state of a filter".into()))?;
        let count = |parts: &[f32]| {
            let shifted = parts.iter().zip([0, 16, 32, 48]);
            shifted
                .map(|(part, shift)| (*part as u64) << shift)
                .sum::<u64>()
        };
        let steps = count(&counts.values[..4]);
        let mut write = Write {
            arrays: state,
            next: 0,
            problem: None,
        };
        // Some parts of a state only appear in the first two steps.
        let restored = self.state_after(steps.min(2)).map_tensors(&mut write);
        if let Some(problem) = write.problem {
            return Err(wrong(problem));
        }
        if write.next < write.arrays.len() {
            return Err(wrong("it is the state of another model".into()));
        }
        self.state = restored;
        self.foreseen = None;
        self.steps = steps;
        self.seed = count(&counts.values[4..]);
        self.samples = Stream::new(self.seed, "online samples");
        Ok(())
    }
}

/// Collects the tensors of a state, numbered.
struct Read(Arrays);

impl TensorMapper for Read {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let shape = tensor.dims().to_vec();
        let values = host(tensor.clone().into_data());
        let name = format!("{:03}", self.0.len());
        self.0.insert(name, Array { shape, values });
        tensor
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        let shape = tensor.dims().to_vec();
        // Slot indices: far smaller than the integers that f32 represents exactly.
        let values = host(tensor.clone().float().into_data());
        let name = format!("{:03}", self.0.len());
        self.0.insert(name, Array { shape, values });
        tensor
    }
}

/// Replaces a state's tensors by arrays.
struct Write {
    arrays: Arrays,
    next: usize,
    problem: Option<String>,
}

impl Write {
    fn take(&mut self) -> Option<Array> {
        let name = format!("{:03}", self.next);
        self.next += 1;
        let found = self.arrays.get(&name).cloned();
        if found.is_none() {
            self.problem = Some("it is the state of another model".into());
        }
        found
    }

    /// The array as a tensor of `D` dimensions, if all sizes agree that do not depend on the number of stored rows.
    fn fit<const D: usize>(&mut self, array: Array, dims: [usize; D]) -> Option<TensorData> {
        let fits = array.shape.len() == D
            && array.shape.first() == Some(&1)
            && (D < 2 || array.shape[D - 1] == dims[D - 1] || D == 2 || dims[D - 1] == 0);
        if !fits {
            self.problem = Some("it is the state of another model".into());
            return None;
        }
        Some(TensorData::new(array.values, array.shape))
    }
}

impl TensorMapper for Write {
    fn float<const D: usize>(&mut self, tensor: Tensor<D>) -> Tensor<D> {
        let found = self.take().and_then(|array| self.fit(array, tensor.dims()));
        match found {
            Some(data) => Tensor::from_data(data, &tensor.device()),
            None => tensor,
        }
    }

    fn int<const D: usize>(&mut self, tensor: Tensor<D, Int>) -> Tensor<D, Int> {
        let found = self.take().and_then(|array| self.fit(array, tensor.dims()));
        match found {
            Some(data) => Tensor::<D>::from_data(data, &tensor.device()).int(),
            None => tensor,
        }
    }

    fn refuse(&mut self, problem: &str) {
        // An array that was refused before is the reason.
        self.problem.get_or_insert_with(|| problem.to_owned());
    }
}
