//! Tighter bounds from many samples: importance weighting (Burda et al. 2016) and particle filters
//! (FIVO, Maddison et al. 2017), for every filtering model.
//!
//! `K` particles follow each sequence. At each step every particle is weighted by
//! `w_t = p(x_t | z_t, ..) p(z_t | ..) / q(z_t | ..)`; without resampling the bound is
//! `log 1/K sum_k prod_t w_t^k`; with resampling it is the sum of this expression over the stretches between
//! resamplings. A stochastic transition is drawn from its own distribution for each particle and does not appear
//! in a weight; steps that are not scored do not change the weights.

use crate::{
    DiagonalGaussian, Distribution, FilteringModel,
    filtering::{Inputs, StepNoise, time_major},
};
use burn::tensor::{Int, Tensor, TensorData};
use mnemora_memory::Bundle;

/// When particles are resampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resampling {
    /// Never: the importance-weighted bound.
    Never,
    /// When the effective sample size falls below this fraction of the number of particles.
    Below(f64),
}

/// The result of a particle filter.
#[derive(Clone, Debug)]
pub struct ParticleBound {
    /// The bound of each sequence in nats, `[batch]`.
    pub bound: Vec<f64>,
    /// Effective sample size before a possible resampling, for each step and sequence.
    pub effective: Vec<Vec<f64>>,
    /// How often the particles of each sequence were resampled.
    pub resampled: Vec<usize>,
}

/// The bound from several particles for each sequence.
///
/// `proposal(t, ..)` gives the proposal of `z_t` for all particles, from the observation's features, the context
/// and the observation: [`FilteringModel::posterior`] or a belief improved by inference. It is not called for
/// steps that are not scored.
/// `uniform(t)` gives a number in `[0, 1)` for each sequence, for the systematic resampling after
/// step `t`.
///
/// # Shapes
/// - `observations`: `[batch, time, pixels]`; in `[0, 1]` if the likelihood is of pixels
/// - `conditions`: `[batch, time, condition]`
/// - `noise`: standard normal, `[time, batch * particles, noise_size]`, with the particles of a sequence next
///   to each other
///
/// # Panics
/// If `time` or the number of particles is 0, or shapes do not fit the model.
pub fn particle_bound<M: FilteringModel>(
    model: &M,
    observations: Tensor<3>,
    conditions: Option<Tensor<3>>,
    noise: Tensor<3>,
    resampling: Resampling,
    mut proposal: impl FnMut(usize, &M::Features, &mut M::Context, &Tensor<2>) -> DiagonalGaussian,
    mut uniform: impl FnMut(usize) -> Vec<f64>,
) -> ParticleBound {
    let [batch, time, pixels] = observations.dims();
    let particles = noise.dims()[1] / batch;
    let device = observations.device();
    let repeat = |sources: Vec<usize>| {
        let sources: Vec<i32> = sources.into_iter().map(|row| row as i32).collect();
        let count = sources.len();
        Tensor::<1, Int>::from_data(TensorData::new(sources, [count]), &device)
    };
    let rows = repeat((0..batch * particles).map(|row| row / particles).collect());
    let observations = time_major(observations);
    let features = model.encode(observations.clone());
    let frames = observations.swap_dims(0, 1).reshape([time * batch, pixels]);
    let conditions = conditions.map(|c| c.select(0, rows.clone()));
    let features = features.into_iter().map(|of| of.select(&rows)).collect();
    let inputs = Inputs::of_steps(features, conditions, StepNoise::of(model, noise));

    let prepared = model.prepare();
    let mut state = model.initial_state(batch * particles);
    let unscored = model.scored_from(&state);
    // Of each particle, since its sequence was last resampled.
    let mut log_weights = vec![0.0_f64; batch * particles];
    let mut found = ParticleBound {
        bound: vec![0.0; batch],
        effective: Vec::with_capacity(time),
        resampled: vec![0; batch],
    };
    for (t, input) in inputs.into_iter().enumerate() {
        let x = frames.clone().narrow(0, t * batch, batch);
        let x = x.select(0, rows.clone());
        let mut context = model.predict(&prepared, input.condition, input.transition, state);
        let prior = (t >= unscored).then(|| model.prior(model.prior_input(&context)));
        let posterior = match prior {
            Some(_) => proposal(t, &input.features, &mut context, &x),
            None => model.posterior(&input.features, &mut context),
        };
        let z = posterior.sample(input.noise);
        let emission = model.emit(z.clone(), &context);
        if let Some(prior) = prior {
            let likelihood = model.decode(emission.clone());
            let log_weight = likelihood.log_probability(x) + prior.log_density(z.clone())
                - posterior.log_density(z.clone());
            let steps: Vec<f32> = log_weight
                .into_data()
                .try_into_vec()
                .expect("log weights are 32-bit floats");
            for (sum, step) in log_weights.iter_mut().zip(steps) {
                *sum += f64::from(step);
            }
        }
        state = model.update(&input.features, z, &emission, context);

        let sizes: Vec<f64> = log_weights.chunks(particles).map(effective_size).collect();
        if let Resampling::Below(share) = resampling
            && t + 1 < time
            && sizes.iter().any(|size| *size < share * particles as f64)
        {
            let offsets = uniform(t);
            let mut sources: Vec<usize> = (0..batch * particles).collect();
            for (sequence, size) in sizes.iter().enumerate() {
                if *size >= share * particles as f64 {
                    continue;
                }
                let own = sequence * particles..(sequence + 1) * particles;
                let weights = &mut log_weights[own.clone()];
                found.bound[sequence] += log_mean_exp(weights);
                let drawn = systematic(weights, offsets[sequence]);
                for (source, drawn) in sources[own.clone()].iter_mut().zip(drawn) {
                    *source = own.start + drawn;
                }
                weights.fill(0.0);
                found.resampled[sequence] += 1;
            }
            state = state.select(&repeat(sources));
        }
        found.effective.push(sizes);
    }
    for (bound, weights) in found.bound.iter_mut().zip(log_weights.chunks(particles)) {
        *bound += log_mean_exp(weights);
    }
    found
}

/// `log 1/K sum_k exp(l_k)`
fn log_mean_exp(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        return largest;
    }
    let sum: f64 = logs.iter().map(|log| (log - largest).exp()).sum();
    largest + (sum / logs.len() as f64).ln()
}

/// `(sum w)^2 / sum w^2`
fn effective_size(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logs.iter().map(|log| (log - largest).exp());
    let (sum, squares) = weights.fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    sum * sum / squares
}

/// The particle that fills each place: the unit interval is divided into `K` parts, and one point is taken
/// from each, at `offset` into the part.
fn systematic(logs: &[f64], offset: f64) -> Vec<usize> {
    let count = logs.len();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut chosen = Vec::with_capacity(count);
    let (mut particle, mut reached) = (0, weights[0]);
    for place in 0..count {
        let point = (place as f64 + offset) / count as f64 * total;
        while reached <= point && particle + 1 < count {
            particle += 1;
            reached += weights[particle];
        }
        chosen.push(particle);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_anew_keeps_to_the_weights() {
        let weights: [f64; 4] = [0.1, 0.0, 0.6, 0.3];
        let logs = weights.map(f64::ln);
        let mut counts = [0; 4];
        for step in 0..1000 {
            for chosen in systematic(&logs, f64::from(step) / 1000.0) {
                counts[chosen] += 1;
            }
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            assert!(
                (f64::from(count) / 4000.0 - weight).abs() < 1e-3,
                "{counts:?}"
            );
        }
    }

    #[test]
    fn sizes_and_means_are_those_of_the_weights() {
        let logs = [1.0_f64, 2.0, 4.0].map(|w| w.ln() + 1000.0);
        assert!((effective_size(&logs) - 49.0 / 21.0).abs() < 1e-9);
        assert!((log_mean_exp(&logs) - 1000.0 - (7.0_f64 / 3.0).ln()).abs() < 1e-9);
    }
}
