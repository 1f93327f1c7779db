"""A filtering pass of a stochastic recurrent network (SRNN), in the filtering form used by amortized variational filtering.

Fraccaro et al. 2016 with an LSTM, as in Marino et al. 2018: the deterministic layer sees the observations before, the stochastic layer stands
on top of it,

    d_t = LSTM(d_{t-1}, x_{t-1}),  x_0 = 0,  d_0 and the first cell are zero
    p(z_t | ..)  from [d_t ; z_{t-1}],  z_0 a parameter
    q(z_t | ..)  from [x_t ; d_t]                          (it does not see z_{t-1}, and its mean is no residual)
    p(x_t | ..)  from [d_t ; z_t],  independent Bernoulli variables

Sizes: X observation, Z latent, H of the LSTM, U hidden units of every head, B batch, T steps. Parameters:

    lstm.weight_input [X, 4H]   lstm.weight_hidden [H, 4H]   lstm.bias [4H]
    prior.hidden.layers.0, prior.output                  H + Z -> U -> 2Z
    posterior.hidden.layers.0, posterior.output          X + H -> U -> 2Z
    decoder.hidden.layers.0, .1, decoder.output          H + Z -> U -> U -> X
    first_latent [Z]                                     z_0

In its smoothing form (Fraccaro et al. 2016, with the residual mean "Res_q") the posterior sees all observations, through a second LSTM that goes
from the last step to the first,

    a_t = LSTM(a_{t+1}, [d_t ; x_t])
    q(z_t | ..)  from [a_t ; z_{t-1}], its mean added to that of the prior

    backward.weight_input [H + X, 4H]   backward.weight_hidden [H, 4H]   backward.bias [4H]
    posterior.hidden.layers.0, posterior.output          H + Z -> U -> 2Z
"""

from typing import Mapping

import numpy as np

import lstm
from distributions import bernoulli_log_likelihood, gaussian_kl
from gtmm_step import diagonal_gaussian
from heads import clipped_leaky_relu, head, head_shapes, stacked_in_time


def filter_sequence(parameters: Mapping[str, np.ndarray], observations: np.ndarray, noise: np.ndarray) -> dict[str, np.ndarray]:
    """The whole pass for `observations [T, B, X]` and `noise [T, B, Z]`.

    Returns per step, each `[T, B, ..]`: `latents`, `prior_mean`, `prior_log_std`, `posterior_mean`, `posterior_log_std`, `logits`,
    `reconstruction`, `kl`; and `bound [1]`.
    """
    steps, batch, _ = noise.shape
    before = np.concatenate([np.zeros_like(observations[:1]), observations[:-1]])  # x_{t-1}
    deterministic = through_time(parameters, before)
    smoothing = "backward.bias" in parameters
    if smoothing:
        backward = {f"lstm.{name}": parameters[f"backward.{name}"] for name in ("weight_input", "weight_hidden", "bias")}
        seen = np.concatenate([deterministic, observations], axis=-1)
        ahead = through_time(backward, seen[::-1])[::-1]
    latent = np.tile(parameters["first_latent"], (batch, 1))  # z_{t-1}
    trajectory = []
    for t in range(steps):
        observation, d = observations[t], deterministic[t]
        p = diagonal_gaussian(head(np.concatenate([d, latent], axis=-1), parameters, "prior", clipped_leaky_relu))
        given = [ahead[t], latent] if smoothing else [observation, d]
        q = diagonal_gaussian(head(np.concatenate(given, axis=-1), parameters, "posterior", clipped_leaky_relu))
        if smoothing:
            q = q._replace(mean=p.mean + q.mean)
        latent = q.mean + np.exp(q.log_std) * noise[t]
        logits = head(np.concatenate([d, latent], axis=-1), parameters, "decoder", clipped_leaky_relu)
        trajectory.append(
            {
                "latents": latent,
                "prior_mean": p.mean,
                "prior_log_std": p.log_std,
                "posterior_mean": q.mean,
                "posterior_log_std": q.log_std,
                "logits": logits,
                "reconstruction": bernoulli_log_likelihood(observation, logits).sum(axis=-1),
                "kl": gaussian_kl(q.mean, q.log_std, p.mean, p.log_std),
            }
        )
    return stacked_in_time(trajectory)


def through_time(parameters: Mapping[str, np.ndarray], inputs: np.ndarray) -> np.ndarray:
    """The hidden states of an LSTM on `inputs [T, B, I]`, from zero on: `[T, B, H]`."""
    state = lstm.initial_state(parameters, inputs.shape[1])
    hidden = []
    for x in inputs:
        state = lstm.lstm(parameters, x, state)
        hidden.append(state.hidden)
    return np.stack(hidden)


def parameter_shapes(observation: int, latent: int, hidden: int, units: int, smoothing: bool = False) -> dict[str, tuple[int, ...]]:
    backward = {
        "backward.weight_input": (hidden + observation, 4 * hidden),
        "backward.weight_hidden": (hidden, 4 * hidden),
        "backward.bias": (4 * hidden,),
    }
    return {
        "lstm.weight_input": (observation, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
        **head_shapes("prior", hidden + latent, [units], 2 * latent),
        **(backward if smoothing else {}),
        **head_shapes("posterior", hidden + latent if smoothing else observation + hidden, [units], 2 * latent),
        **head_shapes("decoder", hidden + latent, [units, units], observation),
        "first_latent": (latent,),
    }
