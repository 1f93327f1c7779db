"""One filtering pass of a temporal VAE over a memory, with small fully connected maps.

Gemici et al. 2017, equations 6 to 8: at each step the memory gives its context Psi, the prior (7) depends on Psi, the posterior (8) on Psi and
x_t, and the free energy of the step (6) is reconstruction minus KL. The noise is given, so the bound is a deterministic function of the
parameters.

Sizes: P pixels, F features, Z latent, K context (Psi), B batch, T steps. Parameters:

    encoder.hidden, encoder.features       P -> hidden -> F
    posterior.features, posterior.context  F -> hidden, K -> hidden (the context map has a weight only)
    posterior.output                       hidden -> 2Z
    prior.hidden, prior.output             K -> hidden -> 2Z
    decoder.hidden, decoder.output         Z + K -> hidden -> P
    memory.*                               of `introspection` or `vrnn`
"""

from typing import Mapping, NamedTuple

import numpy as np

import introspection
import lstm
import vrnn
from distributions import bernoulli_log_likelihood, gaussian_kl
from memory import Previous
from numerics import clamp, linear, relu

LOG_STD_FLOOR = np.log(1e-4)
LOG_STD_CEILING = 5.0

MEMORIES = {"introspection": introspection, "vrnn": vrnn}


class DiagonalGaussian(NamedTuple):
    mean: np.ndarray  # [batch, Z]
    log_std: np.ndarray  # [batch, Z]


def diagonal_gaussian(outputs: np.ndarray) -> DiagonalGaussian:
    """The halves of `outputs [batch, 2Z]`: mean, and log standard deviation kept within `[ln 1e-4, 5]`."""
    mean, log_std = np.split(outputs, 2, axis=-1)
    return DiagonalGaussian(mean, clamp(log_std, LOG_STD_FLOOR, LOG_STD_CEILING))


def encode(parameters: Mapping[str, np.ndarray], observation: np.ndarray) -> np.ndarray:
    """Features of x_t `[batch, P]`, pixels in [0, 1] mapped to (-1, 1); `[batch, F]`."""
    return linear(relu(linear(2.0 * observation - 1.0, parameters, "encoder.hidden")), parameters, "encoder.features")


def prior(parameters: Mapping[str, np.ndarray], psi: np.ndarray) -> DiagonalGaussian:
    """`p(z_t | z_<t, x_<t) = N(f_mu(Psi), f_sigma(Psi)^2)` (equation 7)."""
    return diagonal_gaussian(linear(relu(linear(psi, parameters, "prior.hidden")), parameters, "prior.output"))


def posterior(parameters: Mapping[str, np.ndarray], features: np.ndarray, psi: np.ndarray) -> DiagonalGaussian:
    """`q(z_t | z_<t, x_<=t) = N(g_mu(Psi, x_t), g_sigma(Psi, x_t)^2)` (equation 8)."""
    hidden = relu(linear(features, parameters, "posterior.features") + psi @ parameters["posterior.context.weight"])
    return diagonal_gaussian(linear(hidden, parameters, "posterior.output"))


def decode(parameters: Mapping[str, np.ndarray], latent: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """Logits of `p(x_t | z_<=t, x_<t)` from `[z_t ; Psi]`; `[batch, P]`."""
    inputs = np.concatenate([latent, psi], axis=-1)
    return linear(relu(linear(inputs, parameters, "decoder.hidden")), parameters, "decoder.output")


def filter_sequence(
    parameters: Mapping[str, np.ndarray], memory: str, observations: np.ndarray, noise: np.ndarray
) -> dict[str, np.ndarray]:
    """The whole pass for `observations [T, B, P]` and `noise [T, B, Z]`.

    Returns per step, each `[T, B, ..]`: `latents`, `psi`, `prior_mean`, `prior_log_std`, `posterior_mean`, `posterior_log_std`, `logits`,
    `reconstruction`, `kl`; and `bound [1]`, the mean over the batch of the sum over time of reconstruction minus KL.
    """
    core = MEMORIES[memory]
    memory_parameters = {name.removeprefix("memory."): value for name, value in parameters.items() if name.startswith("memory.")}
    steps, batch, latent_size = noise.shape
    state = (
        introspection.initial_state(memory_parameters, batch, latent_size)
        if memory == "introspection"
        else lstm.initial_state(memory_parameters, batch)
    )
    previous = None
    trajectory = []
    for t in range(steps):
        context, state = core.step(memory_parameters, previous, None, state)
        p = prior(parameters, context.psi)
        features = encode(parameters, observations[t])
        q = posterior(parameters, features, context.psi)
        latent = q.mean + np.exp(q.log_std) * noise[t]
        logits = decode(parameters, latent, context.psi)
        trajectory.append(
            {
                "latents": latent,
                "psi": context.psi,
                "prior_mean": p.mean,
                "prior_log_std": p.log_std,
                "posterior_mean": q.mean,
                "posterior_log_std": q.log_std,
                "logits": logits,
                "reconstruction": bernoulli_log_likelihood(observations[t], logits).sum(axis=-1),
                "kl": gaussian_kl(q.mean, q.log_std, p.mean, p.log_std),
            }
        )
        previous = Previous(latent, features)
    outputs = {name: np.stack([at_step[name] for at_step in trajectory]) for name in trajectory[0]}
    free_energies = outputs["reconstruction"] - outputs["kl"]
    outputs["bound"] = free_energies.sum(axis=0).mean(axis=0, keepdims=True)
    return outputs


def parameter_shapes(
    memory_shapes: Mapping[str, tuple[int, ...]], pixels: int, features: int, latent: int, context: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    """Shapes of all parameters; every fully connected map has `hidden` units in its hidden layer."""
    shapes = {f"memory.{name}": shape for name, shape in memory_shapes.items()}
    maps = {
        "encoder.hidden": (pixels, hidden),
        "encoder.features": (hidden, features),
        "posterior.features": (features, hidden),
        "posterior.context": (context, hidden),
        "posterior.output": (hidden, 2 * latent),
        "prior.hidden": (context, hidden),
        "prior.output": (hidden, 2 * latent),
        "decoder.hidden": (latent + context, hidden),
        "decoder.output": (hidden, pixels),
    }
    for name, (inputs, outputs) in maps.items():
        shapes[f"{name}.weight"] = (inputs, outputs)
        if name != "posterior.context":
            shapes[f"{name}.bias"] = (outputs,)
    return shapes
