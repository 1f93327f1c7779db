//! The loss of an agent.

use super::returns::{Returns, Trajectories, generalised_advantages, v_trace};
use burn::tensor::{Tensor, TensorData, activation::log_softmax};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the policy learns from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// The policy gradient with the advantages of V-trace (Espeholt et al. 2018).
    VTrace,
    /// The clipped objective of PPO (Schulman et al. 2017) with generalised advantages, which are brought to a mean of 0
    /// and a deviation of 1 over the unroll.
    Ppo {
        /// How far the ratio of the two policies may be from 1.
        clip: f64,
        /// Of the generalised advantages.
        lambda: f64,
    },
}

/// The weights of the other terms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Of half the squared error of the values.
    pub value: f64,
    /// Of the policy's entropy.
    pub entropy: f64,
}

impl Default for Costs {
    /// Espeholt et al. 2018, and Santoro et al. 2018, appendix A.3.
    fn default() -> Self {
        Self {
            value: 0.5,
            entropy: 0.005,
        }
    }
}

/// Transitions of `batch` environments over a number of steps; all arrays are `[time, batch]`.
#[derive(Clone, Copy, Debug)]
pub struct Transitions<'a> {
    /// Environments.
    pub batch: usize,
    /// The actions, by their numbers.
    pub actions: &'a [usize],
    /// `log mu(a | x)` of the policy that acted.
    pub log_probabilities: &'a [f32],
    /// The reward of each action.
    pub rewards: &'a [f32],
    /// The discount after each action: `gamma`, or 0 where the action ended the episode.
    pub discounts: &'a [f32],
}

/// A loss with its terms.
#[derive(Clone, Debug)]
pub struct AgentLoss {
    /// `[1]`: what is minimised.
    pub loss: Tensor<1>,
    /// Without gradient, `[3]`: the policy's term, the mean squared error of the values, the mean entropy in nats.
    pub terms: Tensor<1>,
}

/// The loss of an unroll, a mean over its steps and environments (IMPALA has the sum):
///
/// ```text
/// V-trace:  - log pi(a_t | x_t) advantage_t
/// PPO:      - min(ratio_t advantage_t, clip(ratio_t, 1 - clip, 1 + clip) advantage_t),   ratio_t = pi / mu
/// + c_V / 2 (vs_t - V_t)^2 - c_H H(pi(. | x_t))
/// ```
///
/// `logits`, `[time * batch, actions]`, and `values`, `[(time + 1) * batch]`, are those of the policy that learns. Targets
/// and advantages carry no gradient. They come from the present values: PPO computes them again in each pass over an unroll
/// (Andrychowicz et al. 2021).
pub fn objective(
    objective: Objective,
    costs: Costs,
    logits: Tensor<2>,
    values: Tensor<1>,
    taken: &Transitions,
) -> AgentLoss {
    let [steps, actions] = logits.dims();
    let device = logits.device();
    let upload = |values: &[f32]| -> Tensor<1> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &device)
    };
    let all = log_softmax(logits, 1);
    let mut chosen = vec![0.0; steps * actions];
    for (row, action) in taken.actions.iter().enumerate() {
        chosen[row * actions + action] = 1.0;
    }
    let chosen = Tensor::<2>::from_data(TensorData::new(chosen, [steps, actions]), &device);
    let log_pi: Tensor<1> = (all.clone() * chosen).sum_dim(1).squeeze_dim(1);
    let log_ratios = log_pi.clone() - upload(taken.log_probabilities);
    let entropy = (all.clone().exp() * all).sum_dim(1).neg().mean();

    let known = host(Tensor::cat(
        vec![values.clone().inner(), log_ratios.clone().inner()],
        0,
    ));
    let (known_values, known_ratios) = known.split_at(steps + taken.batch);
    let trajectories = Trajectories {
        batch: taken.batch,
        rewards: taken.rewards,
        discounts: taken.discounts,
        values: known_values,
    };
    let (returns, policy) = match objective {
        Objective::VTrace => {
            let returns = v_trace(&trajectories, known_ratios);
            let policy = (log_pi * upload(&returns.advantages)).neg().mean();
            (returns, policy)
        }
        Objective::Ppo { clip, lambda } => {
            let Returns {
                targets,
                mut advantages,
            } = generalised_advantages(&trajectories, lambda as f32);
            standardise(&mut advantages);
            let advantage = upload(&advantages);
            let ratio = log_ratios.exp();
            let clipped = ratio.clone().clamp(1.0 - clip, 1.0 + clip);
            let least = (ratio * advantage.clone()).min_pair(clipped * advantage);
            let returns = Returns {
                targets,
                advantages,
            };
            (returns, least.neg().mean())
        }
    };
    let error = values.narrow(0, 0, steps) - upload(&returns.targets);
    let squared = error.square().mean();
    let loss =
        policy.clone() + squared.clone() * (0.5 * costs.value) - entropy.clone() * costs.entropy;
    let terms = [policy, squared, entropy].map(Tensor::inner);
    AgentLoss {
        loss,
        terms: Tensor::cat(terms.into(), 0),
    }
}

/// The deviation below which advantages are all the same.
const ALL_THE_SAME: f64 = 1e-8;

/// Brings numbers to a mean of 0 and a deviation of 1.
fn standardise(numbers: &mut [f32]) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let squares = numbers.iter().map(|x| (f64::from(*x) - mean).powi(2));
    let deviation = (squares.sum::<f64>() / count).sqrt() + ALL_THE_SAME;
    for number in numbers {
        *number = ((f64::from(*number) - mean) / deviation) as f32;
    }
}

fn host(tensor: Tensor<1>) -> Vec<f32> {
    tensor
        .into_data()
        .try_into_vec()
        .expect("numbers of the backend are f32")
}
