//! A trained model as a filter that observations are given to as they come.

use crate::{
    LabError,
    run::write_atomically,
    strategy::AtWork,
    trainer::noise,
    weights::{Array, Arrays, from_safetensors, host, to_safetensors},
};
use burn::{
    module::Module,
    tensor::{Device, Int, Tensor, TensorData},
};
use mnemora_memory::{Bundle, TensorMapper};
use mnemora_models::{FilteringModel, expect_next, online_step};
use mnemora_worlds::{Scale, Stream};
use serde::Serialize;
use std::path::Path;

/// What a filter says of one observation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Belief {
    /// Number of the observation, from 1.
    pub t: u64,
    /// Mean of the belief about `z_t`.
    pub mean: Vec<f32>,
    /// Its standard deviation.
    pub std: Vec<f32>,
    /// The next observation as it is expected: its mean, where `z_{t+1}` is the mean of the prior.
    /// Absent for a model whose next step depends on a condition not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Vec<f32>>,
    /// Free energy of the step in nats, for one sample: how surprising the observation was.
    pub surprise: f32,
}

/// A filter that goes one observation at a time. A refused observation leaves its state unchanged.
pub trait OnlineFilter {
    /// Numbers of an observation.
    fn numbers(&self) -> usize;

    /// Numbers of a condition; 0 for a model without.
    fn conditions(&self) -> usize;

    /// Takes in the next observation.
    ///
    /// # Errors
    /// In words: it, or its condition, has another number of numbers, or one that is not finite.
    fn step(&mut self, x: &[f32], condition: Option<&[f32]>) -> Result<Belief, String>;

    /// Observations taken in so far.
    fn steps(&self) -> u64;

    /// The state, to go on from elsewhere.
    fn save(&self) -> Arrays;

    /// Goes on from a state that [`save`](Self::save) gave; `path` is its file.
    fn restore(&mut self, state: Arrays, path: &Path) -> Result<(), LabError>;
}

/// Writes the state of a filter to a file, whole or not at all.
pub fn save_filter_state(filter: &dyn OnlineFilter, path: &Path) -> Result<(), LabError> {
    write_atomically(path, &to_safetensors(&filter.save()))
}

/// Makes a filter go on from a state that [`save_filter_state`] wrote.
pub fn load_filter_state(filter: &mut dyn OnlineFilter, path: &Path) -> Result<(), LabError> {
    let bytes = std::fs::read(path).map_err(|error| LabError::read(path, error))?;
    filter.restore(from_safetensors(&bytes, path)?, path)
}

/// A model at work as a filter.
pub(crate) struct Online<M: FilteringModel> {
    at_work: AtWork<M>,
    numbers: usize,
    conditions: usize,
    scale: Scale,
    state: M::State,
    steps: u64,
    samples: Stream,
    seed: u64,
}

/// What a saved state calls the number of steps and the seed.
const STEPS: &str = "steps";

impl<M: FilteringModel + Module> Online<M> {
    /// At the start of a sequence. What a model sees of an observation has `scale` taken off.
    pub(crate) fn new(
        at_work: AtWork<M>,
        numbers: usize,
        conditions: usize,
        scale: Scale,
        seed: u64,
    ) -> Self {
        Self {
            state: at_work.working_model().initial_state(1),
            at_work,
            numbers,
            conditions,
            scale,
            steps: 0,
            samples: Stream::new(seed, "online samples"),
            seed,
        }
    }

    fn device(&self) -> Device {
        self.at_work.working_model().devices().remove(0)
    }

    fn scaled(&self, x: f32) -> f32 {
        (x - self.scale.mean) / self.scale.deviation
    }

    /// The state after so many observations of zeros.
    fn state_after(&self, steps: u64) -> M::State {
        let model = self.at_work.working_model();
        let condition = (self.conditions > 0).then(|| self.row(&vec![0.0; self.conditions]));
        (0..steps).fold(model.initial_state(1), |state, _| {
            let noise = Tensor::zeros([1, model.latent_size()], &self.device());
            let made = online_step(
                model,
                state,
                self.row(&vec![0.0; self.numbers]),
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
}

/// Refuses values that do not fit.
fn check(what: &str, values: &[f32], wanted: usize) -> Result<(), String> {
    if values.len() != wanted {
        return Err(format!(
            "{what} has {} numbers, the model takes {wanted}",
            values.len()
        ));
    }
    match values.iter().position(|x| !x.is_finite()) {
        Some(place) => Err(format!("{what}: number {} is not finite", place + 1)),
        None => Ok(()),
    }
}

impl<M: FilteringModel + Module> OnlineFilter for Online<M> {
    fn numbers(&self) -> usize {
        self.numbers
    }

    fn conditions(&self) -> usize {
        self.conditions
    }

    fn step(&mut self, x: &[f32], condition: Option<&[f32]>) -> Result<Belief, String> {
        check("x", x, self.numbers)?;
        match condition {
            None if self.conditions > 0 => {
                return Err(format!(
                    "c is missing: the model takes a condition of {} numbers",
                    self.conditions
                ));
            }
            Some(_) if self.conditions == 0 => {
                return Err("c is given, but the model takes no condition".into());
            }
            Some(condition) => check("c", condition, self.conditions)?,
            None => {}
        }
        let model = self.at_work.working_model();
        let shape = [1, 1, model.latent_size()];
        let sample = noise(&self.samples, self.steps, shape, &self.device());
        let made = online_step(
            model,
            self.state.clone(),
            self.row(&x.iter().map(|x| self.scaled(*x)).collect::<Vec<_>>()),
            condition.map(|condition| self.row(condition)),
            sample.squeeze_dim::<2>(0),
            |features, context, x| {
                self.at_work
                    .belief(features, context, x, &self.samples, self.steps)
            },
        );
        let surprise = host(made.surprise().into_data())[0];
        let mean = host(made.posterior.mean.into_data());
        let std = host(made.posterior.log_std.exp().into_data());
        if !surprise.is_finite() || mean.iter().chain(&std).any(|v| !v.is_finite()) {
            return Err(
                "the belief is not finite: x lies too far from all the model has seen".into(),
            );
        }
        let state = made.state.detach();
        let prediction = (self.conditions == 0).then(|| {
            let expected = expect_next(model, state.clone(), None).mean();
            let Scale { mean, deviation } = self.scale;
            let expected = host(expected.into_data()).into_iter();
            expected.map(|x| x * deviation + mean).collect()
        });
        self.state = state;
        self.steps += 1;
        Ok(Belief {
            t: self.steps,
            mean,
            std,
            prediction,
            surprise,
        })
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

    fn restore(&mut self, mut state: Arrays, path: &Path) -> Result<(), LabError> {
        let wrong = |problem: String| LabError::WrongWeights {
            path: path.to_owned(),
            problem,
        };
        let counts = state
            .remove(STEPS)
            .filter(|counts| counts.values.len() == 8);
        let counts = counts.ok_or_else(|| wrong("it is no state of a filter".into()))?;
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
        // Some states have parts that are filled by the first two steps.
        let restored = self.state_after(steps.min(2)).map_tensors(&mut write);
        if let Some(problem) = write.problem {
            return Err(wrong(problem));
        }
        if write.next < write.arrays.len() {
            return Err(wrong("it is the state of another model".into()));
        }
        self.state = restored;
        self.steps = steps;
        self.seed = count(&counts.values[4..]);
        self.samples = Stream::new(self.seed, "online samples");
        Ok(())
    }
}

/// Collects the tensors of a state by their numbers.
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
        // Indices of slots: far below what an f32 counts exactly.
        let values = host(tensor.clone().float().into_data());
        let name = format!("{:03}", self.0.len());
        self.0.insert(name, Array { shape, values });
        tensor
    }
}

/// Puts arrays in the place of a state's tensors.
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

    /// The array as a tensor of as many dimensions, where what does not depend on the number of rows
    /// already stored agrees.
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
}
