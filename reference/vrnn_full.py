"""A filtering pass of the variational recurrent network (VRNN), feature maps and learned first state included.

Chung et al. 2015, section 3, with an LSTM:

    p(z_t | ..)  from h_{t-1}
    q(z_t | ..)  from [X(x_t) ; h_{t-1}]
    p(x_t | ..)  from [Z(z_t) ; h_{t-1}],  independent Gaussians
    h_t = LSTM(h_{t-1}, [X(x_t) ; Z(z_t)]),  h_0 and the first cell are parameters

All hidden units are ReLU; the last layers of the feature maps X and Z too.

Sizes: X observation, Z latent, H of the LSTM, A units of the feature map of x and of the decoder, U units of everything else, B batch, T steps.
Parameters:

    observations.layers.0, .1                            X -> A -> A
    latents.layers.0, .1                                 Z -> U -> U
    prior.hidden.layers.0, .1, prior.output              H -> U -> U -> 2Z
    posterior.hidden.layers.0, .1, posterior.output      A + H -> U -> U -> 2Z
    decoder.hidden.layers.0, .1, decoder.output          U + H -> A -> A -> 2X: all means, then all log standard deviations
    lstm.weight_input [A + U, 4H]   lstm.weight_hidden [H, 4H]   lstm.bias [4H]
    first_state [2H]                                     h_0, then the first cell
"""

from typing import Mapping

import numpy as np

from distributions import gaussian_kl, gaussian_log_likelihood
from gtmm_step import diagonal_gaussian
from heads import head, head_shapes, stack, stack_shapes, stacked_in_time
from lstm import LstmState, lstm
from numerics import clamp, relu

OUTPUT_LOG_STD_FLOOR = -5.0
OUTPUT_LOG_STD_CEILING = 5.0


def filter_sequence(parameters: Mapping[str, np.ndarray], observations: np.ndarray, noise: np.ndarray) -> dict[str, np.ndarray]:
    """The whole pass for `observations [T, B, X]` and `noise [T, B, Z]`.

    Returns per step, each `[T, B, ..]`: `latents`, `prior_mean`, `prior_log_std`, `posterior_mean`, `posterior_log_std`, `mean` and
    `log_std` of x_t, `reconstruction`, `kl`; and `bound [1]`.
    """
    steps, batch, _ = noise.shape
    hidden, cell = np.split(parameters["first_state"], 2)
    state = LstmState(np.tile(hidden, (batch, 1)), np.tile(cell, (batch, 1)))
    trajectory = []
    for t in range(steps):
        h = state.hidden  # h_{t-1}
        p = diagonal_gaussian(head(h, parameters, "prior", relu))
        x = stack(observations[t], parameters, "observations", relu)
        q = diagonal_gaussian(head(np.concatenate([x, h], axis=-1), parameters, "posterior", relu))
        latent = q.mean + np.exp(q.log_std) * noise[t]
        z = stack(latent, parameters, "latents", relu)
        mean, log_std = np.split(head(np.concatenate([z, h], axis=-1), parameters, "decoder", relu), 2, axis=-1)
        log_std = clamp(log_std, OUTPUT_LOG_STD_FLOOR, OUTPUT_LOG_STD_CEILING)
        trajectory.append(
            {
                "latents": latent,
                "prior_mean": p.mean,
                "prior_log_std": p.log_std,
                "posterior_mean": q.mean,
                "posterior_log_std": q.log_std,
                "mean": mean,
                "log_std": log_std,
                "reconstruction": gaussian_log_likelihood(observations[t], mean, np.exp(log_std)).sum(axis=-1),
                "kl": gaussian_kl(q.mean, q.log_std, p.mean, p.log_std),
            }
        )
        state = lstm(parameters, np.concatenate([x, z], axis=-1), state)
    return stacked_in_time(trajectory)


def parameter_shapes(observation: int, latent: int, hidden: int, wide: int, units: int) -> dict[str, tuple[int, ...]]:
    """`wide` is A, `units` is U."""
    return {
        **stack_shapes("observations", observation, [wide, wide]),
        **stack_shapes("latents", latent, [units, units]),
        **head_shapes("prior", hidden, [units, units], 2 * latent),
        **head_shapes("posterior", wide + hidden, [units, units], 2 * latent),
        **head_shapes("decoder", units + hidden, [wide, wide], 2 * observation),
        "lstm.weight_input": (wide + units, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
        "first_state": (2 * hidden,),
    }
