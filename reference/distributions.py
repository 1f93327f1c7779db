"""Log densities and divergences in nats."""

import numpy as np

from numerics import softplus


def gaussian_kl(mean_q: np.ndarray, log_std_q: np.ndarray, mean_p: np.ndarray, log_std_p: np.ndarray) -> np.ndarray:
    """`KL[q || p]` between diagonal Gaussians, summed over the last axis: the second term of equation 6."""
    ratio = np.exp(2.0 * (log_std_q - log_std_p))
    distance = (mean_q - mean_p) ** 2 * np.exp(-2.0 * log_std_p)
    return (log_std_p - log_std_q + 0.5 * (ratio + distance - 1.0)).sum(axis=-1)


def bernoulli_log_likelihood(x: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """`log p(x) = x logit - softplus(logit)` per element, for `x` in [0, 1], in a form that does not cancel for large logits."""
    return -x * softplus(-logits) - (1.0 - x) * softplus(logits)


def gaussian_log_likelihood(x: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """`log N(x | mean, std^2)` per element."""
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
