//! Tighter bounds of held-out sequences by many samples: importance-weighted, and by a particle filter.

use crate::{strategy::AtWork, trainer::noise};
use burn::{module::Module, tensor::Tensor};
use mnemora_models::{FilteringModel, Resampling, particle_bound};
use mnemora_worlds::Stream;
use serde::{Deserialize, Serialize};

/// Share of the particles below which the effective sample size makes a filter draw them anew.
const RESAMPLE_BELOW: f64 = 0.5;

/// Bounds of held-out sequences by several particles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParticleScore {
    /// Particles of a sequence.
    pub particles: usize,
    /// Minus the importance-weighted bound, in nats per step.
    pub importance_weighted: f64,
    /// Minus the particle filter's bound (FIVO), in nats per step.
    pub particle_filter: f64,
    /// Mean effective sample size of the particle filter before resampling.
    pub effective_particles: f64,
    /// Share of steps after which its particles were drawn anew.
    pub resampled: f64,
}

/// Sums over sequences.
#[derive(Default)]
pub(crate) struct Particles {
    particles: usize,
    /// Sequences so far: each takes draws of its own.
    sequences: u64,
    steps: usize,
    importance: f64,
    filter: f64,
    effective: f64,
    resampled: usize,
}

impl Particles {
    /// So many particles for each sequence; 0 for no bounds.
    pub(crate) fn new(particles: usize) -> Self {
        Self {
            particles,
            ..Self::default()
        }
    }

    /// Adds the sequences of a batch, `lengths` of `[batch, time, numbers]`, with conditions
    /// `[batch, time, condition]`. One after the other, so that each is scored to its own end.
    pub(crate) fn add<M: FilteringModel + Module>(
        &mut self,
        at_work: &AtWork<M>,
        observations: &Tensor<3>,
        conditions: Option<&Tensor<3>>,
        lengths: &[usize],
        samples: &Stream,
    ) {
        if self.particles == 0 {
            return;
        }
        let model = at_work.working_model();
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
                let shape = [*steps, self.particles, model.latent_size()];
                particle_bound(
                    model,
                    own(observations),
                    conditions.map(own),
                    noise(samples, draw, shape, &device),
                    resampling,
                    |t, features, context, x| {
                        let draw = (draw << 20) + t as u64;
                        at_work.belief(features, context, x, samples, draw)
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

    /// Means per step; `None` where there were no particles.
    pub(crate) fn finish(self) -> Option<ParticleScore> {
        let steps = self.steps as f64;
        (self.steps > 0).then_some(ParticleScore {
            particles: self.particles,
            importance_weighted: -self.importance / steps,
            particle_filter: -self.filter / steps,
            effective_particles: self.effective / steps,
            resampled: self.resampled as f64 / steps,
        })
    }
}
