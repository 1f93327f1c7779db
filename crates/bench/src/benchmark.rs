//! A single benchmark, and how it is timed.

use crate::{BenchError, cost::Cost};
use burn::tensor::Device;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Shorter benchmarks are repeated within one measurement.
const SHORTEST_MS: f64 = 5.0;
const MOST_REPEATS: f64 = 1000.0;
/// Time for idle threads to fall asleep.
const SETTLE: Duration = Duration::from_millis(20);

/// Makes the inputs of a benchmark on an autodiff device.
type Prepare = dyn Fn(&Device) -> Result<Prepared, BenchError>;

/// A piece of work to time.
pub struct Benchmark {
    /// The name, which does not change between versions.
    pub name: String,
    /// Makes the inputs.
    pub prepare: Box<Prepare>,
}

/// The time spent in each part of a benchmark's work, which adds to it.
#[derive(Clone, Default)]
pub struct Spent(Rc<RefCell<BTreeMap<&'static str, Duration>>>);

impl Spent {
    /// Adds to the time of a part.
    pub fn add(&self, part: &'static str, time: Duration) {
        *self.0.borrow_mut().entry(part).or_default() += time;
    }

    /// The share of each part, warm-ups included.
    pub fn shares(&self) -> BTreeMap<String, f64> {
        let spent = self.0.borrow();
        let all: Duration = spent.values().sum();
        let shares = spent.iter();
        shares
            .map(|(part, time)| ((*part).to_owned(), time.div_duration_f64(all)))
            .collect()
    }
}

/// A benchmark with its inputs.
pub struct Prepared {
    /// Runs the work once.
    step: Box<dyn FnMut() -> Result<(), BenchError>>,
    /// Lower bound on its cost.
    pub cost: Cost,
    /// Number of parameters, for a model.
    pub parameters: Option<usize>,
    /// Time in the parts of the work, if it tells them apart.
    pub spent: Spent,
}

impl Prepared {
    /// Work that cannot fail.
    pub fn new(cost: Cost, mut step: impl FnMut() + 'static) -> Self {
        Self {
            step: Box::new(move || {
                step();
                Ok(())
            }),
            cost,
            parameters: None,
            spent: Spent::default(),
        }
    }

    /// Work of a model with the given number of `parameters`.
    pub fn of_model(
        cost: Cost,
        parameters: usize,
        step: impl FnMut() -> Result<(), BenchError> + 'static,
    ) -> Self {
        Self {
            step: Box::new(step),
            cost,
            parameters: Some(parameters),
            spent: Spent::default(),
        }
    }

    /// Work that adds the time of its parts to `spent`.
    pub fn with_parts(self, spent: Spent) -> Self {
        Self { spent, ..self }
    }

    /// Wall time in milliseconds of each repetition after a warm-up. A short benchmark is run many times per
    /// measurement.
    pub fn milliseconds(
        &mut self,
        device: &Device,
        repetitions: usize,
        warm_up: usize,
    ) -> Result<Vec<f64>, BenchError> {
        for _ in 0..warm_up {
            self.timed(device, 1)?;
        }
        let once = self.timed(device, 1)?;
        let repeats = (SHORTEST_MS / once).ceil().clamp(1.0, MOST_REPEATS) as usize;
        let times = (0..repetitions)
            .map(|_| self.timed(device, repeats))
            .collect();
        std::thread::sleep(SETTLE);
        times
    }

    /// Milliseconds per run, averaged over `repeats` runs.
    fn timed(&mut self, device: &Device, repeats: usize) -> Result<f64, BenchError> {
        let clock = Instant::now();
        for _ in 0..repeats {
            (self.step)()?;
        }
        // A GPU may still be working.
        device
            .sync()
            .map_err(|error| BenchError::Device(error.to_string()))?;
        Ok(clock.elapsed().as_secs_f64() * 1e3 / repeats as f64)
    }
}

/// The median of some times.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
