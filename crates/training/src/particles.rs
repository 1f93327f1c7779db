//! Tighter bounds on the log-likelihood of held-out sequences from many samples: importance-weighted and by particle
//! filter.

use crate::{
    Measures, Purpose,
    settings::EvaluationSettings,
    strategy::{Inference, noise},
};
use burn::{module::Module, tensor::Tensor};
use mnemora_models::{FilteringModel, Resampling, particle_bound};
use mnemora_worlds::Stream;

/// A filter resamples when the effective sample size falls below this fraction of the particles.
const RESAMPLE_BELOW: f64 = 0.5;

/// Sums over sequences.
#[derive(Default)]
pub struct Particles {
    particles: usize,
    /// Sequences so far; each uses its own random draws.
    sequences: u64,
    steps: usize,
    importance: f64,
    filter: f64,
    effective: f64,
    resampled: usize,
}

impl Particles {
    /// Uses as many particles per sequence as the settings say, which may be none. Checkpoints use none: only their
    /// bound is kept.
    pub fn new(settings: &EvaluationSettings, purpose: Purpose) -> Self {
        Self {
            particles: match purpose.is_short() {
                true => 0,
                false => settings.particles,
            },
            ..Self::default()
        }
    }

    /// The random stream of an evaluation's samples.
    pub fn stream(seed: u64, purpose: Purpose) -> Stream {
        Stream::new(seed, &format!("{} particles", purpose.stream()))
    }

    /// Adds the sequences of a batch, `[batch, time, numbers]` of the given `lengths`, with conditions `[batch, time,
    /// condition]`. The sequences are scored one after the other, each to its own end.
    pub fn add<M: FilteringModel + Module>(
        &mut self,
        inference: &Inference<M>,
        observations: &Tensor<3>,
        conditions: Option<&Tensor<3>>,
        lengths: &[usize],
        samples: &Stream,
    ) {
        if self.particles == 0 {
            return;
        }
        let model = inference.working_model();
        let device = model.devices().remove(0);
        for (row, steps) in lengths.iter().enumerate() {
            let own = |all: &Tensor<3>| {
                let own = all.clone().narrow(0, row, 1).narrow(1, 0, *steps);
                match device.is_autodiff() {
                    true => Tensor::from_inner(own),
                    false => own,
                }
            };
            let draw = self.sequences;
            let bound = |resampling| {
                let shape = [*steps, self.particles, model.noise_size()];
                particle_bound(
                    model,
                    own(observations),
                    conditions.map(own),
                    noise(samples, draw, shape, &device),
                    resampling,
                    |t, features, context, x| {
                        let draw = (draw << 20) + t as u64;
                        inference.belief(features, context, x, samples, draw)
                    },
                    |t| vec![samples.uniform((1 << 50) + (draw << 20) + t as u64)],
                )
            };
            let importance = bound(Resampling::Never);
            let filter = bound(Resampling::Below(RESAMPLE_BELOW));
            self.importance += importance.bound[0];
            self.filter += filter.bound[0];
            self.effective += filter.effective.iter().map(|sizes| sizes[0]).sum::<f64>();
            self.resampled += filter.resampled[0];
            self.steps += steps;
            self.sequences += 1;
        }
    }

    /// Means per step; empty if there were no particles.
    ///
    /// - `particles`: number per sequence
    /// - `importance_weighted`: minus the importance-weighted bound, in nats per step
    /// - `particle_filter`: minus the particle filter's bound (FIVO), in nats per step
    /// - `effective_particles`: mean effective sample size of the particle filter before resampling
    /// - `resampled`: fraction of steps after which the particles were resampled
    pub fn finish(self) -> Measures {
        let steps = self.steps as f64;
        match self.steps {
            0 => Measures::new(),
            _ => Measures::new()
                .with("particles", self.particles)
                .with("importance_weighted", -self.importance / steps)
                .with("particle_filter", -self.filter / steps)
                .with("effective_particles", self.effective / steps)
                .with("resampled", self.resampled as f64 / steps),
        }
    }
}
