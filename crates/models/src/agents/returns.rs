//! Targets of the values and advantages of the actions, from trajectories. They carry no gradient.

/// What happened in `batch` environments over a number of steps. All arrays have the time first, `[time, batch]`.
#[derive(Clone, Copy, Debug)]
pub struct Trajectories<'a> {
    /// Environments.
    pub batch: usize,
    /// The reward of each action.
    pub rewards: &'a [f32],
    /// The discount after each action: `gamma`, or 0 where the action ended the episode.
    pub discounts: &'a [f32],
    /// The values before each action, and after the last one: `[time + 1, batch]`.
    pub values: &'a [f32],
}

/// Targets of the values, and advantages of the actions.
#[derive(Clone, Debug, PartialEq)]
pub struct Returns {
    /// Of the values, `[time, batch]`.
    pub targets: Vec<f32>,
    /// How much better each action was than expected, `[time, batch]`.
    pub advantages: Vec<f32>,
}

impl Trajectories<'_> {
    fn check(&self) -> usize {
        let steps = self.rewards.len();
        assert!(
            self.batch > 0 && steps.is_multiple_of(self.batch),
            "{steps} rewards of {} environments",
            self.batch
        );
        assert_eq!(self.discounts.len(), steps, "one discount for each reward");
        assert_eq!(self.values.len(), steps + self.batch, "one value more");
        steps / self.batch
    }
}

/// V-trace (Espeholt et al. 2018, section 4.1), with the ratios cut at 1. `log_ratios`, `[time, batch]`, are
/// `log pi(a | x) - log mu(a | x)`: of the policy that learns, and of the one that acted.
///
/// ```text
/// rho_t = c_t = min(1, pi(a_t | x_t) / mu(a_t | x_t))
/// delta_t = rho_t (r_t + gamma_t V_{t+1} - V_t)
/// vs_t - V_t = delta_t + gamma_t c_t (vs_{t+1} - V_{t+1})
/// advantage_t = rho_t (r_t + gamma_t vs_{t+1} - V_t)
/// ```
///
/// Where both policies are the same, `vs_t` is the n-step return.
///
/// # Panics
/// If the arrays do not fit.
pub fn v_trace(trajectories: &Trajectories, log_ratios: &[f32]) -> Returns {
    let time = trajectories.check();
    let batch = trajectories.batch;
    assert_eq!(log_ratios.len(), time * batch, "one ratio for each reward");
    let mut targets = vec![0.0; time * batch];
    let mut advantages = vec![0.0; time * batch];
    for row in 0..batch {
        let mut next = trajectories.values[time * batch + row];
        let mut correction = 0.0;
        for t in (0..time).rev() {
            let at = t * batch + row;
            let (reward, discount) = (trajectories.rewards[at], trajectories.discounts[at]);
            let (value, after) = (trajectories.values[at], trajectories.values[at + batch]);
            let ratio = log_ratios[at].exp().min(1.0);
            let delta = ratio * (reward + discount * after - value);
            advantages[at] = ratio * (reward + discount * next - value);
            correction = delta + discount * ratio * correction;
            next = value + correction;
            targets[at] = next;
        }
    }
    Returns {
        targets,
        advantages,
    }
}

/// Generalised advantages (Schulman et al. 2016), as PPO uses them:
///
/// ```text
/// delta_t = r_t + gamma_t V_{t+1} - V_t
/// advantage_t = delta_t + gamma_t lambda advantage_{t+1}
/// target_t = V_t + advantage_t
/// ```
///
/// # Panics
/// If the arrays do not fit.
pub fn generalised_advantages(trajectories: &Trajectories, lambda: f32) -> Returns {
    let time = trajectories.check();
    let batch = trajectories.batch;
    let mut targets = vec![0.0; time * batch];
    let mut advantages = vec![0.0; time * batch];
    for row in 0..batch {
        let mut after = 0.0;
        for t in (0..time).rev() {
            let at = t * batch + row;
            let (value, next) = (trajectories.values[at], trajectories.values[at + batch]);
            let delta = trajectories.rewards[at] + trajectories.discounts[at] * next - value;
            after = delta + trajectories.discounts[at] * lambda * after;
            advantages[at] = after;
            targets[at] = value + after;
        }
    }
    Returns {
        targets,
        advantages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{found:?} {expected:?}");
        }
    }

    const REWARDS: [f32; 3] = [1.0, 0.0, 2.0];
    const VALUES: [f32; 4] = [0.5, 1.0, -0.5, 2.0];

    fn one<'a>(discounts: &'a [f32]) -> Trajectories<'a> {
        Trajectories {
            batch: 1,
            rewards: &REWARDS,
            discounts,
            values: &VALUES,
        }
    }

    /// The vector of the supplement, section 6.1.
    #[test]
    fn v_trace_by_hand() {
        let two = 2.0_f32.ln();
        let returns = v_trace(&one(&[0.9; 3]), &[0.0, two, -two]);
        near(&returns.targets, &[2.3365, 1.485, 1.65]);
        near(&returns.advantages, &[1.8365, 0.485, 2.15]);
    }

    #[test]
    fn on_policy_targets_are_returns() {
        let returns = v_trace(&one(&[0.9; 3]), &[0.0; 3]);
        let last = 2.0 + 0.9 * 2.0;
        near(
            &returns.targets,
            &[1.0 + 0.9 * 0.9 * last, 0.9 * last, last],
        );
        // The same as generalised advantages with lambda 1.
        assert_eq!(returns, generalised_advantages(&one(&[0.9; 3]), 1.0));
    }

    #[test]
    fn nothing_passes_the_end_of_an_episode() {
        // The second action ends an episode: what follows does not change what comes before.
        let discounts = [0.9, 0.0, 0.9];
        let returns = v_trace(&one(&discounts), &[0.0; 3]);
        near(&returns.targets, &[1.0, 0.0, 2.0 + 0.9 * 2.0]);
        near(&returns.advantages[..2], &[0.5, -1.0]);
        let returns = generalised_advantages(&one(&discounts), 0.95);
        near(&returns.advantages[1..2], &[-1.0]);
    }

    #[test]
    fn environments_do_not_mix() {
        let double = |values: &[f32]| -> Vec<f32> {
            values
                .iter()
                .flat_map(|value| [*value, 10.0 - value])
                .collect()
        };
        let (rewards, values) = (double(&REWARDS), double(&VALUES));
        let both = Trajectories {
            batch: 2,
            rewards: &rewards,
            discounts: &[0.9; 6],
            values: &values,
        };
        let alone = v_trace(&one(&[0.9; 3]), &[0.1, -0.2, 0.3]);
        let returns = v_trace(&both, &[0.1, 0.0, -0.2, 0.0, 0.3, 0.0]);
        let first = |values: &[f32]| -> Vec<f32> { values.iter().step_by(2).copied().collect() };
        near(&first(&returns.targets), &alone.targets);
        near(&first(&returns.advantages), &alone.advantages);
    }
}
