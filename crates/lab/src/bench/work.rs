//! A piece of work, and the clock.

use crate::LabError;
use burn::tensor::Device;
use mnemora_kernels::cost::Cost;
use std::time::{Duration, Instant};

/// What is shorter is repeated within one measurement.
const SHORTEST_MS: f64 = 5.0;
const MOST_REPEATS: f64 = 1000.0;
/// Time that idle threads need to fall asleep.
const SETTLE: Duration = Duration::from_millis(20);

/// Makes the inputs of a work on an autodiff device.
type Prepare = dyn Fn(&Device) -> Result<Prepared, LabError>;

/// A piece of work.
pub struct Work {
    /// Its stable name.
    pub name: String,
    /// Makes its inputs.
    pub prepare: Box<Prepare>,
}

/// A piece of work with its inputs.
pub struct Prepared {
    /// Does it once.
    step: Box<dyn FnMut() -> Result<(), LabError>>,
    /// What it costs at least.
    pub cost: Cost,
    /// Parameters, if it is a model's.
    pub parameters: Option<usize>,
}

impl Prepared {
    /// From work that cannot fail.
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

    /// From a model's work.
    pub fn of_model(
        cost: Cost,
        parameters: usize,
        step: impl FnMut() -> Result<(), LabError> + 'static,
    ) -> Self {
        Self {
            step: Box::new(step),
            cost,
            parameters: Some(parameters),
        }
    }

    /// Wall times in milliseconds of so many repetitions after a warm-up; a short work is done many
    /// times for one number.
    pub fn milliseconds(
        &mut self,
        device: &Device,
        repetitions: usize,
        warm_up: usize,
    ) -> Result<Vec<f64>, LabError> {
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

    /// Milliseconds of one of `repeats`.
    fn timed(&mut self, device: &Device, repeats: usize) -> Result<f64, LabError> {
        let clock = Instant::now();
        for _ in 0..repeats {
            (self.step)()?;
        }
        // A GPU may still be at it.
        device
            .sync()
            .map_err(|error| LabError::Configuration(format!("the device failed: {error}")))?;
        Ok(clock.elapsed().as_secs_f64() * 1e3 / repeats as f64)
    }
}

/// The middle of some times.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
