"""One iteration of the inference network of amortized variational filtering.

Marino et al. 2018, with the highway network and the gated output update of iterative amortized inference. The approximate posterior has mean m
and log-variance l; gm and gl are the gradients of the free energy of the step. All four are given: no gradient passes to them.

    e  = [LN(gm) ; LN(gl) ; LN(m) ; LN(l)]            and x at the end, as it is, where the observation is encoded
    h1 = g * (A e) + (1 - g) * elu(W1 e),             g  = sigmoid(G1 e)
    h2 = g2 * h1 + (1 - g2) * elu(W2 h1),             g2 = sigmoid(G2 h1)
    m' = u_m * m + (1 - u_m) * M h2,                  u_m = sigmoid(U_m h2)
    l' = clamp(u_l * l + (1 - u_l) * L h2, -15, 5),   u_l = sigmoid(U_l h2)

and m' is replaced by LN(m') where the new mean is normalised. Every linear map has a bias. `LN(u) = (u - mean(u)) / (std(u) + 1e-7)` over the
vector of one example, with n - 1 in the standard deviation, without gain or bias.

Sizes: Z latent, X observation, H hidden, B batch. Parameters, packed along the outputs:

    first   [4Z (+ X), 3H]   A | W1 | G1
    second  [H, 2H]          W2 | G2
    heads   [H, 4Z]          M | U_m | L | U_l
"""

from typing import Mapping, NamedTuple

import numpy as np

from numerics import clamp, linear, sigmoid

LOG_VARIANCE_FLOOR = -15.0
LOG_VARIANCE_CEILING = 5.0


class Belief(NamedTuple):
    mean: np.ndarray  # [batch, Z]
    log_variance: np.ndarray  # [batch, Z]


def layer_norm(u: np.ndarray) -> np.ndarray:
    centred = u - u.mean(axis=-1, keepdims=True)
    variance = (centred**2).sum(axis=-1, keepdims=True) / (u.shape[-1] - 1)
    return centred / (np.sqrt(variance) + 1e-7)


def elu(x: np.ndarray) -> np.ndarray:
    negative = np.real(x) < 0
    return np.where(negative, np.exp(np.where(negative, x, 0.0)) - 1.0, x)


def between(gate: np.ndarray, kept: np.ndarray, proposed: np.ndarray) -> np.ndarray:
    """`g * kept + (1 - g) * proposed` with `g = sigmoid(gate)`."""
    g = sigmoid(gate)
    return g * kept + (1.0 - g) * proposed


def iterate(
    parameters: Mapping[str, np.ndarray], belief: Belief, gradient: Belief, observation: np.ndarray | None, normalise_mean: bool
) -> Belief:
    """The belief after one update; `gradient` is that of the free energy, `observation [B, X]` or none."""
    inputs = [layer_norm(u) for u in (gradient.mean, gradient.log_variance, belief.mean, belief.log_variance)]
    if observation is not None:
        inputs.append(observation)
    embedded, proposed, gate = np.split(linear(np.concatenate(inputs, axis=-1), parameters, "first"), 3, axis=-1)
    hidden = between(gate, embedded, elu(proposed))
    proposed, gate = np.split(linear(hidden, parameters, "second"), 2, axis=-1)
    hidden = between(gate, hidden, elu(proposed))
    mean, mean_gate, log_variance, log_variance_gate = np.split(linear(hidden, parameters, "heads"), 4, axis=-1)
    new_mean = between(mean_gate, belief.mean, mean)
    if normalise_mean:
        new_mean = layer_norm(new_mean)
    new_log_variance = between(log_variance_gate, belief.log_variance, log_variance)
    return Belief(new_mean, clamp(new_log_variance, LOG_VARIANCE_FLOOR, LOG_VARIANCE_CEILING))


def parameter_shapes(latent: int, observation: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """`observation` is zero where it is not encoded."""
    shapes = {}
    for name, inputs, outputs in (
        ("first", 4 * latent + observation, 3 * hidden),
        ("second", hidden, 2 * hidden),
        ("heads", hidden, 4 * latent),
    ):
        shapes[f"{name}.weight"] = (inputs, outputs)
        shapes[f"{name}.bias"] = (outputs,)
    return shapes
