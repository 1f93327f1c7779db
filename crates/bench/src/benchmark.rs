//! A single benchmark, and how it is timed.

use crate::{BenchError, cost::Cost};
use burn::tensor::Device;
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

/// A benchmark with its inputs.
pub struct Prepared {
    /// Runs the work once.
    step: Box<dyn FnMut() -> Result<(), BenchError>>,
    /// Lower bound on its cost.
    pub cost: Cost,
    /// Number of parameters, for a model.
    pub parameters: Option<usize>,
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
        }
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
