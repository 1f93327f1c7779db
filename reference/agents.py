"""What an agent learns from: V-trace (Espeholt et al. 2018, sections 4.1 and 4.2) and PPO (Schulman et al. 2017, with the generalised advantages of Schulman
et al. 2016).

    rho_t = c_t = min(1, pi(a_t | x_t) / mu(a_t | x_t))
    V-trace:  vs_t = V_t + sum over s >= t of (product over t <= i < s of gamma_i c_i) rho_s (r_s + gamma_s V_{s+1} - V_s)
              advantage_t = rho_t (r_t + gamma_t vs_{t+1} - V_t),   vs_T = V_T
              policy term: - log pi(a_t | x_t) advantage_t
    PPO:      advantage_t = sum over s >= t of (product over t <= i < s of gamma_i lambda) (r_s + gamma_s V_{s+1} - V_s)
              vs_t = V_t + advantage_t;  then the advantages get mean 0 and deviation 1 over the unroll
              policy term: - min(ratio advantage, clip(ratio, 1 - e, 1 + e) advantage),   ratio = pi / mu
    loss = mean over steps and environments of: policy term + c_V / 2 (vs_t - V_t)^2 - c_H entropy

vs and the advantages are constants. gamma_t is 0 where the action ended an episode. The sums are written out, not folded backwards.

T steps, B environments, A actions: `logits [T, B, A]`, `values [T + 1, B]`, `actions [T, B]`, `behaviour [T, B]` = log mu(a_t | x_t), `rewards [T, B]`,
`discounts [T, B]`.
"""

import numpy as np

from numerics import clamp

EPSILON = 1e-8


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - np.real(x).max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def chosen(log_pi: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(log_pi, actions[..., None].astype(int), axis=-1)[..., 0]


def sums(differences: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """`sum over s >= t of (product over t <= i < s of factors_i) differences_s`."""
    time = len(differences)
    return np.array(
        [sum(np.prod(factors[t:s], axis=0) * differences[s] for s in range(t, time)) for t in range(time)]
    )


def v_trace(ratios: np.ndarray, values: np.ndarray, rewards: np.ndarray, discounts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Targets and advantages."""
    cut = np.minimum(1.0, ratios)
    differences = cut * (rewards + discounts * values[1:] - values[:-1])
    targets = values[:-1] + sums(differences, discounts * cut)
    following = np.concatenate([targets[1:], values[-1:]])
    return targets, cut * (rewards + discounts * following - values[:-1])


def generalised(values: np.ndarray, rewards: np.ndarray, discounts: np.ndarray, decay: float) -> tuple[np.ndarray, np.ndarray]:
    """Targets and advantages."""
    differences = rewards + discounts * values[1:] - values[:-1]
    advantages = sums(differences, discounts * decay)
    return values[:-1] + advantages, advantages


def standardised(advantages: np.ndarray) -> np.ndarray:
    return (advantages - advantages.mean()) / (advantages.std() + EPSILON)


def loss(
    logits: np.ndarray,
    values: np.ndarray,
    actions: np.ndarray,
    behaviour: np.ndarray,
    targets: np.ndarray,
    advantages: np.ndarray,
    clip: float | None,
    value_cost: float,
    entropy_cost: float,
) -> dict[str, np.ndarray]:
    """With `clip` PPO's clipped objective, otherwise the policy gradient. `terms`: of the policy, of the values, entropy."""
    log_pi = log_softmax(logits)
    log_chosen = chosen(log_pi, actions)
    if clip is None:
        policy = -(log_chosen * advantages).mean()
    else:
        ratio = np.exp(log_chosen - behaviour)
        whole, cut = ratio * advantages, clamp(ratio, 1.0 - clip, 1.0 + clip) * advantages
        policy = -np.where(np.real(whole) <= np.real(cut), whole, cut).mean()
    squared = ((values[:-1] - targets) ** 2).mean()
    entropy = -(np.exp(log_pi) * log_pi).sum(axis=-1).mean()
    return {"loss": policy + 0.5 * value_cost * squared - entropy_cost * entropy, "terms": np.array([policy, squared, entropy])}
