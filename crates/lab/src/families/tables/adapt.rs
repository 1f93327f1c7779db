//! A model that goes on learning while it filters: every few rows an update of its parameters on windows of the last rows,
//! within a budget of time.

use crate::{
    LabError,
    families::trainer::{FILTERED_TERMS, filtered_terms},
};
use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use mnemora_models::{FilteringModel, filter};
use mnemora_training::{
    Error, StepFailure,
    arrays::{Array, Arrays, collect, restore},
    optimiser::ParameterGradients,
    settings::{Schedule, TrainingSettings},
    strategy::noise,
    updates::Updates,
};
use mnemora_worlds::Stream;
use std::{
    collections::VecDeque,
    path::Path,
    time::{Duration, Instant},
};

/// How a filter adapts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptation {
    /// Rows from one update to the next.
    pub every: usize,
    /// The learning rate.
    pub rate: f64,
    /// Time for each row, on average over all rows so far.
    pub budget: Duration,
}

/// What adapting has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Adapted {
    /// Rows that it has seen.
    pub rows: u64,
    /// Updates made.
    pub updates: u64,
    /// Updates left out for the budget.
    pub left_out: u64,
    /// Updates dropped because a number in them was not finite.
    pub dropped: u64,
    /// Time that all updates took.
    pub taken: Duration,
}

/// Windows of an update: the last one, and others that are drawn from the rows before.
const WINDOWS: usize = 8;
/// Rows that are kept, in windows.
const KEPT: usize = 16;
/// Steps that a window must have.
const SHORTEST: usize = 4;

/// A model and the rows that it learns from.
pub struct Adapter<M> {
    how: Adaptation,
    model: M,
    updates: Updates,
    draws: Stream,
    device: Device,
    window: usize,
    /// Numbers of an observation, and those of them that are shown and not told in advance.
    sizes: [usize; 2],
    rows: VecDeque<Vec<f32>>,
    since: usize,
    /// Rows since this process began, for the budget.
    budgeted: u64,
    /// Time of the last update.
    last: Duration,
    done: Adapted,
}

impl<M: FilteringModel + Module> Adapter<M> {
    /// Before the first row. `window` is the most steps of a window, `sizes` the numbers of an observation and those of them
    /// that are shown, not told of the step that follows.
    pub fn new(how: Adaptation, model: &M, window: usize, sizes: [usize; 2], seed: u64) -> Self {
        let model = model.clone().train();
        let device = model.devices().remove(0).autodiff();
        let settings = TrainingSettings {
            learning_rate: how.rate,
            schedule: Schedule::Constant,
            clip: 1.0,
            ..TrainingSettings::default()
        };
        Self {
            updates: Updates::new(&settings, &device),
            draws: Stream::new(seed, "adapting"),
            model,
            device,
            window,
            sizes,
            rows: VecDeque::new(),
            since: 0,
            budgeted: 0,
            last: Duration::ZERO,
            done: Adapted::default(),
            how,
        }
    }

    /// What was done so far.
    pub fn done(&self) -> Adapted {
        self.done
    }

    /// Takes in the observation of a row or of a missing one; after enough of them, makes an update if the budget allows.
    /// Returns the new model.
    pub fn see(&mut self, observation: &[f32]) -> Option<M> {
        if !observation.iter().all(|number| number.is_finite()) {
            return None;
        }
        self.rows.push_back(observation.to_vec());
        if self.rows.len() > KEPT * self.window + 1 {
            self.rows.pop_front();
        }
        self.done.rows += 1;
        self.budgeted += 1;
        self.since += 1;
        if self.since < self.how.every || self.rows.len() <= SHORTEST {
            return None;
        }
        self.since = 0;
        let allowed = self.how.budget.as_secs_f64() * self.budgeted as f64;
        if (self.done.taken + self.last).as_secs_f64() > allowed {
            self.done.left_out += 1;
            return None;
        }
        let begun = Instant::now();
        let made = self.update();
        self.last = begun.elapsed();
        self.done.taken += self.last;
        match made {
            Ok(()) => {
                self.done.updates += 1;
                Some(self.model.valid())
            }
            Err(_) => {
                self.done.dropped += 1;
                None
            }
        }
    }

    /// Windows of rows, `[windows, steps + 1, observation]`: the first step of each tells of the one that follows, and shows
    /// nothing.
    fn batch(&self, step: u64) -> (Vec<f32>, [usize; 3]) {
        let [size, shown] = self.sizes;
        let time = (self.window + 1).min(self.rows.len());
        let places = self.rows.len() - time + 1;
        let drawn = self.draws.uniform_values(2 * step, WINDOWS - 1);
        let drawn = drawn.into_iter().map(|u| (u * places as f64) as usize);
        let mut values = Vec::with_capacity(WINDOWS * time * size);
        for place in std::iter::once(places - 1).chain(drawn) {
            let begun = values.len();
            for row in self.rows.range(place.min(places - 1)..).take(time) {
                values.extend_from_slice(row);
            }
            values[begun..][..shown].fill(0.0);
        }
        (values, [WINDOWS, time, size])
    }

    fn update(&mut self) -> Result<(), StepFailure> {
        let step = self.done.updates + self.done.dropped + 1;
        let (values, shape) = self.batch(step);
        let [windows, time, _] = shape;
        let x = Tensor::from_data(TensorData::new(values, shape), &self.device);
        let shape = [time, windows, self.model.noise_size()];
        let noise = noise(&self.draws, 2 * step + 1, shape, &self.device);
        let filtered = filter(&self.model, x, None, noise, None);
        let terms = filtered_terms(&filtered);
        let loss = filtered.bound(1.0).mean().neg() / (time - 1) as f64;
        let gradients = ParameterGradients::of(&self.model, loss.backward());
        self.updates
            .make(&mut self.model, step, gradients, &FILTERED_TERMS, terms)
    }
}

/// What stands before the names of a saved model's parameters, and of the optimiser's moments.
const MODEL: &str = "adapted model ";
const MOMENTS: &str = "adapted moments ";
/// The rows and the counters.
const ROWS: &str = "adapted rows";
const COUNTS: &str = "adapted counts";

/// The arrays whose names begin so, without that beginning.
fn taken(state: &mut Arrays, prefix: &str) -> Arrays {
    let names: Vec<String> = state
        .keys()
        .filter(|n| n.starts_with(prefix))
        .cloned()
        .collect();
    let found = names.into_iter().filter_map(|name| {
        let array = state.remove(&name)?;
        Some((name[prefix.len()..].to_owned(), array))
    });
    found.collect()
}

/// Counts as pairs of numbers that 32 bits hold exactly.
fn counts(counts: [u64; 5]) -> Array {
    const PART: u64 = 1 << 20;
    let parts = counts
        .iter()
        .flat_map(|n| [(n % PART) as f32, (n / PART) as f32]);
    Array {
        shape: vec![counts.len(), 2],
        values: parts.collect(),
    }
}

/// What a saved filter has of an adapted model.
pub struct Saved {
    model: Arrays,
    moments: Arrays,
    rows: Option<Array>,
    counts: Option<Array>,
}

impl Saved {
    /// Takes it out of a filter's state; `None` if the model was never adapted.
    pub fn take(state: &mut Arrays) -> Option<Self> {
        let model = taken(state, MODEL);
        let moments = taken(state, MOMENTS);
        let (rows, counts) = (state.remove(ROWS), state.remove(COUNTS));
        (!model.is_empty()).then_some(Self {
            model,
            moments,
            rows,
            counts,
        })
    }

    /// The adapted model.
    ///
    /// # Errors
    /// It is another model. `path` is the state's file.
    pub fn model<M: Module>(&self, model: M, path: &Path) -> Result<M, Error> {
        restore(model, self.model.clone(), path)
    }

    /// The arrays of a state, for one that goes on without adapting.
    pub fn keep(&self, arrays: &mut Arrays) {
        let named = |prefix: &'static str, from: &Arrays| {
            let from = from.clone().into_iter();
            from.map(move |(name, array)| (format!("{prefix}{name}"), array))
        };
        arrays.extend(named(MODEL, &self.model));
        arrays.extend(named(MOMENTS, &self.moments));
        let others = [(ROWS, &self.rows), (COUNTS, &self.counts)];
        for (name, array) in others {
            if let Some(array) = array {
                arrays.insert(name.into(), array.clone());
            }
        }
    }
}

impl<M: FilteringModel + Module> Adapter<M> {
    /// The model, its optimiser, the rows and the counters. The time taken is not saved: a budget begins anew.
    pub fn save(&self) -> Saved {
        let rows: Vec<f32> = self.rows.iter().flatten().copied().collect();
        let done = self.done;
        Saved {
            model: collect(&self.model),
            moments: self.updates.optimiser.collect(),
            rows: Some(Array {
                shape: vec![self.rows.len(), self.sizes[0]],
                values: rows,
            }),
            counts: Some(counts([
                done.rows,
                done.updates,
                done.left_out,
                done.dropped,
                self.since as u64,
            ])),
        }
    }

    /// Goes on from what was saved.
    ///
    /// # Errors
    /// It is another model. `path` is the state's file.
    pub fn restore(&mut self, saved: &Saved, path: &Path) -> Result<(), Error> {
        self.model = restore(self.model.clone(), saved.model.clone(), path)?;
        self.updates.restore(saved.moments.clone(), path)?;
        if let Some(rows) = &saved.rows {
            let rows = rows.values.chunks(self.sizes[0]);
            self.rows = rows.map(<[f32]>::to_vec).collect();
        }
        if let Some(counts) = &saved.counts {
            let mut counts = counts.values.chunks(2);
            let mut next = || {
                let parts = counts.next().unwrap_or_default();
                let part = |place: usize| parts.get(place).map_or(0, |part| *part as u64);
                part(0) + (part(1) << 20)
            };
            self.done.rows = next();
            self.done.updates = next();
            self.done.left_out = next();
            self.done.dropped = next();
            self.since = next() as usize;
        }
        Ok(())
    }
}

impl Adaptation {
    /// Checks it.
    ///
    /// # Errors
    /// A number is out of range.
    pub fn check(&self) -> Result<(), LabError> {
        let refuse = |problem: String| Err(LabError::Configuration(problem));
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return refuse(format!(
                "--adapt-rate {}: the learning rate must be above 0 and at most 1, such as 1e-3",
                self.rate
            ));
        }
        if self.budget.is_zero() {
            return refuse("--adapt-budget 0: no update would ever be made".into());
        }
        Ok(())
    }
}
