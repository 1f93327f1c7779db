"""Writes the golden vectors: inputs, outputs and gradients of every reference module, as small safetensors files.

    python make_golden.py            write golden/*.safetensors
    python make_golden.py --check    recompute everything, compare with the files, test the gradients by finite differences
                                     and what is known to hold of the outputs

Inputs are rounded to float32 before anything is computed; all arithmetic is float64; results are stored as float32.
"""

import argparse
import sys
from pathlib import Path
from typing import Callable, Mapping

import numpy as np
from safetensors.numpy import load_file, save_file

import agents
import avf
import conv_lstm
import dnc
import ent_net
import gtm_sm
import gtmm_step
import hybrid
import introspection
import lru
import ntm
import pathways
import properties
import rmc
import spatial
import srnn
import stacked_lstm
import svg
import vrnn
import vrnn_full
from distributions import bernoulli_log_likelihood, gaussian_kl, gaussian_log_likelihood
from golden_parts import WEIGHT_STD, Arrays, Golden, as_stored, draw, draw_parameters, named_gradients
from numerics import directional_derivative
from scenes_golden import scenes_golden

GOLDEN = Path(__file__).parent / "golden"
ADDRESSED_WEIGHT_STD = 1.0  # of the memories addressed by content, so that gates and modes take sides


def introspection_golden(
    seed: int, *, latent: int, condition: int, hidden: int, attention_hidden: int, heads: int, slots: int, batch: int, steps: int
) -> Golden:
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, introspection.parameter_shapes(latent, condition, hidden, attention_hidden, heads, slots))
    inputs = {"latents": draw(random, (steps, batch, latent))}
    if condition > 0:
        inputs["conditions"] = draw(random, (steps, batch, condition))
    probe = draw(random, (steps, batch, heads * latent))
    arguments = parameters | inputs

    def objective(at: Arrays) -> np.ndarray:
        psi, _ = introspection.run(at, at["latents"], at.get("conditions"))
        return (psi * probe).sum()

    psi, read_weights = introspection.run(parameters, inputs["latents"], inputs.get("conditions"))
    outputs = {"psi": psi, "read_weights": read_weights, "probe": probe}
    return Golden(arguments | outputs | named_gradients(objective, arguments), objective, arguments)


def vrnn_golden(seed: int, *, features: int, latent: int, condition: int, hidden: int, batch: int, steps: int) -> Golden:
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, vrnn.parameter_shapes(features, latent, condition, hidden))
    inputs = {"features": draw(random, (steps, batch, features)), "latents": draw(random, (steps, batch, latent))}
    if condition > 0:
        inputs["conditions"] = draw(random, (steps, batch, condition))
    probe = draw(random, (steps, batch, hidden))
    arguments = parameters | inputs

    def objective(at: Arrays) -> np.ndarray:
        return (vrnn.run(at, at["features"], at["latents"], at.get("conditions")) * probe).sum()

    outputs = {"psi": vrnn.run(parameters, inputs["features"], inputs["latents"], inputs.get("conditions")), "probe": probe}
    return Golden(arguments | outputs | named_gradients(objective, arguments), objective, arguments)


def addressed_golden(
    seed: int,
    shapes: Mapping[str, tuple[int, ...]],
    run: Callable[[Arrays, np.ndarray, np.ndarray | None], Arrays],
    *,
    latent: int,
    condition: int,
    batch: int,
    steps: int,
) -> Golden:
    """A memory addressed by content; `run` takes parameters, latents and conditions and returns every output that is stored."""
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, shapes, ADDRESSED_WEIGHT_STD)
    inputs = {"latents": draw(random, (steps, batch, latent))}
    if condition > 0:
        inputs["conditions"] = draw(random, (steps, batch, condition))
    arguments = parameters | inputs
    outputs = run(parameters, inputs["latents"], inputs.get("conditions"))
    probe = draw(random, outputs["psi"].shape)

    def objective(at: Arrays) -> np.ndarray:
        return (run(at, at["latents"], at.get("conditions"))["psi"] * probe).sum()

    return Golden(arguments | outputs | {"probe": probe} | named_gradients(objective, arguments), objective, arguments)


def ntm_golden(seed: int, sizes: ntm.Sizes, *, latent: int, condition: int, hidden: int, batch: int, steps: int) -> Golden:
    def run(at: Arrays, latents: np.ndarray, conditions: np.ndarray | None) -> Arrays:
        return ntm.run(at, sizes, latents, conditions)

    shapes = ntm.parameter_shapes(sizes, latent, condition, hidden)
    golden = addressed_golden(seed, shapes, run, latent=latent, condition=condition, batch=batch, steps=steps)
    return golden._replace(properties=(lambda: properties.ntm_errors(golden.tensors),))


def lru_golden(seed: int, sizes: lru.Sizes, *, latent: int, condition: int, hidden: int, batch: int, steps: int) -> Golden:
    def run(at: Arrays, latents: np.ndarray, conditions: np.ndarray | None) -> Arrays:
        return lru.run(at, sizes, latents, conditions)

    shapes = lru.parameter_shapes(sizes, latent, condition, hidden)
    golden = addressed_golden(seed, shapes, run, latent=latent, condition=condition, batch=batch, steps=steps)
    return golden._replace(properties=(lambda: properties.lru_errors(golden.tensors, sizes),))


def dnc_golden(seed: int, sizes: dnc.Sizes, *, latent: int, condition: int, hidden: int, batch: int, steps: int) -> Golden:
    """Finite differences get an objective whose usage sees the write weights of the unvaried arguments: no gradient passes there."""

    def run(at: Arrays, latents: np.ndarray, conditions: np.ndarray | None) -> Arrays:
        return dnc.run(at, sizes, latents, conditions)

    shapes = dnc.parameter_shapes(sizes, latent, condition, hidden)
    golden = addressed_golden(seed, shapes, run, latent=latent, condition=condition, batch=batch, steps=steps)
    tensors = golden.tensors

    def objective(at: Arrays) -> np.ndarray:
        outputs = dnc.run(at, sizes, at["latents"], at.get("conditions"), tensors["write_weights"])
        return (outputs["psi"] * tensors["probe"]).sum()

    return golden._replace(
        objective=objective,
        properties=(
            lambda: properties.dnc_errors(tensors, golden.arguments, sizes, tensors["latents"], tensors.get("conditions")),
            properties.pure_allocation_errors,
            properties.cell_limit_errors,
        ),
    )


def hybrid_golden(
    seed: int, sizes: hybrid.Sizes, *, condition: int, hidden: int, attention_hidden: int, batch: int, steps: int
) -> Golden:
    def run(at: Arrays, latents: np.ndarray, conditions: np.ndarray | None) -> Arrays:
        return hybrid.run(at, sizes, latents, conditions)

    shapes = hybrid.parameter_shapes(sizes, attention_hidden, condition, hidden)
    golden = addressed_golden(seed, shapes, run, latent=sizes.latent, condition=condition, batch=batch, steps=steps)
    return golden._replace(properties=(lambda: properties.hybrid_errors(golden.tensors),))


def spatial_golden(seed: int, sizes: spatial.Sizes, *, condition: int, batch: int, steps: int) -> Golden:
    def run(at: Arrays, latents: np.ndarray, conditions: np.ndarray | None) -> Arrays:
        return spatial.run(at, sizes, latents, conditions)

    shapes = spatial.parameter_shapes(sizes, condition)
    golden = addressed_golden(seed, shapes, run, latent=sizes.latent, condition=condition, batch=batch, steps=steps)
    at = golden.arguments
    return golden._replace(properties=(lambda: properties.spatial_errors(golden.tensors, sizes, at["moves"], at["conditions"]),))


def core_golden(
    seed: int,
    shapes: Mapping[str, tuple[int, ...]],
    run: Callable[[Arrays, np.ndarray], Arrays],
    *,
    inputs: int,
    batch: int,
    steps: int,
    std: float = WEIGHT_STD,
) -> Golden:
    """A recurrent core by itself; `run` takes parameters and inputs and returns every output that is stored."""
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, shapes, std)
    for name in parameters:
        if name.endswith(".gamma"):  # of a normalisation
            parameters[name] = as_stored(1.0 + parameters[name])
    arguments = parameters | {"inputs": draw(random, (steps, batch, inputs))}
    outputs = run(parameters, arguments["inputs"])
    probe = draw(random, outputs["outputs"].shape)

    def objective(at: Arrays) -> np.ndarray:
        return (run(at, at["inputs"])["outputs"] * probe).sum()

    return Golden(arguments | outputs | {"probe": probe} | named_gradients(objective, arguments), objective, arguments)


def rmc_golden(seed: int, sizes: rmc.Sizes, *, row: int, batch: int, steps: int) -> Golden:
    def run(at: Arrays, inputs: np.ndarray) -> Arrays:
        return rmc.run(at, sizes, inputs)

    golden = core_golden(seed, rmc.parameter_shapes(sizes, row), run, inputs=sizes.rows * row, batch=batch, steps=steps)
    return golden._replace(properties=(lambda: properties.rmc_errors(golden.tensors, sizes), properties.rmc_size_errors))


def conv_lstm_golden(
    seed: int, *, inputs: int, channels: int, kernel: int, pixels: tuple[int, int], batch: int, steps: int
) -> Golden:
    def run(at: Arrays, images: np.ndarray) -> Arrays:
        return conv_lstm.run(at, images, pixels)

    shapes = conv_lstm.parameter_shapes(inputs, channels, kernel)
    return core_golden(seed, shapes, run, inputs=inputs * pixels[0] * pixels[1], batch=batch, steps=steps)


def gtmm_golden(
    seed: int,
    memory: str,
    memory_shapes: Mapping[str, tuple[int, ...]],
    *,
    context: int,
    features: int,
    latent: int,
    batch: int,
    steps: int,
    clamped: bool,
) -> Golden:
    """`clamped` puts the first latent beyond the limits of log std in every step: the posterior below the floor, the prior above the ceiling."""
    pixels, hidden = 12, 7
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, gtmm_step.parameter_shapes(memory_shapes, pixels, features, latent, context, hidden))
    if clamped:
        parameters["posterior.output.bias"][latent] = -14.0
        parameters["prior.output.bias"][latent] = 8.0
    observations = as_stored(np.clip(random.uniform(-0.25, 1.25, (steps, batch, pixels)), 0.0, 1.0))
    noise = draw(random, (steps, batch, latent))

    def objective(at: Arrays) -> np.ndarray:
        return gtmm_step.filter_sequence(at, memory, observations, noise)["bound"][0]

    outputs = gtmm_step.filter_sequence(parameters, memory, observations, noise)
    tensors = parameters | {"observations": observations, "noise": noise} | outputs | named_gradients(objective, parameters)
    return Golden(tensors, objective, parameters)


def gtmm_introspection_golden(seed: int) -> Golden:
    latent, heads, slots = 3, 2, 5
    shapes = introspection.parameter_shapes(latent, 0, hidden=6, attention_hidden=5, heads=heads, slots=slots)
    return gtmm_golden(seed, "introspection", shapes, context=heads * latent, features=4, latent=latent, batch=2, steps=5, clamped=False)


def gtmm_vrnn_golden(seed: int) -> Golden:
    latent, features, hidden = 3, 4, 6
    shapes = vrnn.parameter_shapes(features, latent, 0, hidden)
    return gtmm_golden(seed, "vrnn", shapes, context=hidden, features=features, latent=latent, batch=2, steps=5, clamped=True)


def filtering_golden(
    parameters: Arrays,
    run: Callable[[Arrays, np.ndarray, np.ndarray], Arrays],
    observations: np.ndarray,
    noise: np.ndarray,
    clamped: tuple[properties.Clamped, ...],
) -> Golden:
    """A filtering pass; `run` takes parameters, observations and noise and returns every output that is stored."""

    def objective(at: Arrays) -> np.ndarray:
        return run(at, observations, noise)["bound"][0]

    outputs = run(parameters, observations, noise)
    tensors = parameters | {"observations": observations, "noise": noise} | outputs | named_gradients(objective, parameters)
    return Golden(tensors, objective, parameters, (lambda: properties.filtering_errors(tensors, clamped),))


def srnn_golden(seed: int, *, observation: int, latent: int, hidden: int, units: int, batch: int, steps: int) -> Golden:
    """Beyond their limits: log std of the first latent in the posterior and of the last in the prior; one hidden unit of the prior above 3 and
    one of the decoder's last layer below -3. One hidden unit of the posterior would be below -3 if it were not divided by 3 first.
    """
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, srnn.parameter_shapes(observation, latent, hidden, units))
    parameters["posterior.output.bias"][latent] = -14.0
    parameters["prior.output.bias"][-1] = 8.0
    parameters["prior.hidden.layers.0.bias"][0] = 10.0
    parameters["posterior.hidden.layers.0.bias"][2] = -6.0
    parameters["decoder.hidden.layers.1.bias"][1] = -16.0
    observations = as_stored(np.clip(random.uniform(-0.25, 1.25, (steps, batch, observation)), 0.0, 1.0))
    noise = draw(random, (steps, batch, latent))
    clamped = (
        properties.Clamped("posterior_log_std", 0, gtmm_step.LOG_STD_FLOOR, "posterior.output.bias", latent),
        properties.Clamped("prior_log_std", latent - 1, gtmm_step.LOG_STD_CEILING, "prior.output.bias", 2 * latent - 1),
    )
    golden = filtering_golden(parameters, srnn.filter_sequence, observations, noise, clamped)
    return golden._replace(properties=golden.properties + (lambda: properties.srnn_clip_errors(golden.tensors),))


def srnn_smoothing_golden(seed: int, *, observation: int, latent: int, hidden: int, units: int, batch: int, steps: int) -> Golden:
    """Nothing is at a limit."""
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, srnn.parameter_shapes(observation, latent, hidden, units, smoothing=True))
    observations = as_stored(np.clip(random.uniform(-0.25, 1.25, (steps, batch, observation)), 0.0, 1.0))
    return filtering_golden(parameters, srnn.filter_sequence, observations, draw(random, (steps, batch, latent)), ())


def gtm_sm_golden(seed: int, kind: str, *, place: int, units: int, distance: int = 0, landmarks: int = 0) -> Golden:
    """The objective is the sum of the bound, and of the displacements times a probe. Places lie far apart, so that no choice of neighbours and no
    unit is near a switch."""
    random = np.random.default_rng(seed)
    pixels, latent, hidden, wide, actions, neighbours, tau, batch, steps = 6, 2, 5, 3, 4, 3, 5, 2, 8
    shapes = gtm_sm.parameter_shapes(
        kind,
        pixels=pixels,
        latent=latent,
        hidden=hidden,
        wide=wide,
        actions=actions,
        place=place,
        neighbours=neighbours,
        units=units,
        distance=distance,
        landmarks=landmarks,
    )
    parameters = draw_parameters(random, shapes, 0.8)
    for name, value in parameters.items():
        if name.startswith("landmarks."):
            parameters[name] = as_stored(0.3 * value)
    observations = as_stored(random.uniform(0.0, 1.0, (batch, steps, pixels)))
    chosen = random.integers(0, actions, (batch, steps))
    taken = np.eye(actions)[chosen]
    taken[:, 0] = 0.0
    place_noise = draw(random, (batch, steps, place))
    latent_noise = draw(random, (batch, steps - tau, latent))
    probe = draw(random, (batch, steps, place))
    constants = {"r": as_stored(np.array([0.3])), "delta": as_stored(np.array([0.1])), "std": as_stored(np.array([0.5]))}
    numbers = {name: float(value[0]) for name, value in constants.items()}

    def run(at: Arrays) -> Arrays:
        return gtm_sm.bound(at, kind, observations, taken, place_noise, latent_noise, tau=tau, neighbours=neighbours, **numbers)

    def objective(at: Arrays) -> np.ndarray:
        outputs = run(at)
        bound = outputs["reconstruction"] - outputs["kl"] - outputs.get("place_kl", 0.0)
        return bound.sum() + (outputs["displacements"] * probe).sum()

    inputs = {
        "observations": observations,
        "actions": taken,
        "place_noise": place_noise,
        "latent_noise": latent_noise,
        "probe": probe,
    }
    return Golden(parameters | inputs | constants | run(parameters) | named_gradients(objective, parameters), objective, parameters)


def pathways_golden(seed: int, *, decoder: bool, frame: int, width: int, numbers: int, rows: int) -> Golden:
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, pathways.parameter_shapes(decoder, frame=frame, width=width, numbers=numbers), 0.2)
    inputs = draw(random, (rows, numbers)) if decoder else as_stored(random.uniform(0.0, 1.0, (rows, frame, 32, 32)))
    run = pathways.decode if decoder else pathways.encode
    outputs = run(parameters, inputs)
    probe = draw(random, outputs.shape)

    def objective(at: Arrays) -> np.ndarray:
        return (run(at, inputs) * probe).sum()

    # A small step: the slopes of the ReLU change at zero.
    tensors = parameters | {"inputs": inputs, "outputs": outputs, "probe": probe} | named_gradients(objective, parameters)
    return Golden(tensors, objective, parameters)._replace(step=1e-7)


def vrnn_full_golden(seed: int, *, observation: int, latent: int, hidden: int, wide: int, units: int, batch: int, steps: int) -> Golden:
    """Beyond their limits: log std of the first latent in the posterior, of the last in the prior, of the first observed number (below) and of
    the last (above). Where the standard deviation is exp(-5) the mean is a constant near what is observed, so that the bound stays moderate;
    it curves strongly there, so finite differences take a smaller step.
    """
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, vrnn_full.parameter_shapes(observation, latent, hidden, wide, units))
    parameters["posterior.output.bias"][latent] = -14.0
    parameters["prior.output.bias"][-1] = 8.0
    parameters["decoder.output.weight"][:, 0] = 0.0
    parameters["decoder.output.bias"][0] = 0.75
    parameters["decoder.output.bias"][observation] = -14.0
    parameters["decoder.output.bias"][-1] = 14.0
    observations = draw(random, (steps, batch, observation))
    observations[:, :, 0] = as_stored(0.75 + 3e-4 * observations[:, :, 0])
    noise = draw(random, (steps, batch, latent))
    clamped = (
        properties.Clamped("posterior_log_std", 0, gtmm_step.LOG_STD_FLOOR, "posterior.output.bias", latent),
        properties.Clamped("prior_log_std", latent - 1, gtmm_step.LOG_STD_CEILING, "prior.output.bias", 2 * latent - 1),
        properties.Clamped("log_std", 0, vrnn_full.OUTPUT_LOG_STD_FLOOR, "decoder.output.bias", observation),
        properties.Clamped("log_std", observation - 1, vrnn_full.OUTPUT_LOG_STD_CEILING, "decoder.output.bias", 2 * observation - 1),
    )
    return filtering_golden(parameters, vrnn_full.filter_sequence, observations, noise, clamped)._replace(step=1e-6)


def svg_golden(
    seed: int,
    *,
    frame: int,
    side: int,
    channels: list[int],
    features: int,
    latent: int,
    hidden: int,
    layers: int,
    learned_prior: bool,
    batch: int,
    steps: int,
) -> Golden:
    """Scales of batch norm lie around one, so that its outputs lie on both sides of the leaky ReLU; the last convolution is weak, so that no
    standard deviation is far from one and the bound moderate.
    """
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, svg.parameter_shapes(frame, channels, features, latent, hidden, layers, learned_prior))
    for name, value in parameters.items():
        if name.endswith(".gamma"):
            parameters[name] = as_stored(1.0 + value)
    parameters["decoder.output.weight"] = as_stored(0.2 * parameters["decoder.output.weight"])
    observations = as_stored(random.uniform(0.0, 1.0, (steps, batch, frame * side * side)))
    noise = draw(random, (steps, batch, latent))

    def run(at: Arrays, observations: np.ndarray, noise: np.ndarray) -> Arrays:
        return svg.filter_sequence(at, observations, noise, side)

    # A small step: the slopes of the leaky ReLU change at zero.
    return filtering_golden(parameters, run, observations, noise, ())._replace(step=1e-7)


def avf_golden(seed: int, *, latent: int, observation: int, hidden: int, batch: int, normalise_mean: bool, limit: float) -> Golden:
    """One new log-variance, that of the second latent in the first example, is beyond `limit`; in the other examples it is not."""
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, avf.parameter_shapes(latent, observation, hidden))
    inputs = {
        "mean": draw(random, (batch, latent)),
        "log_variance": draw(random, (batch, latent)),
        "gradient_mean": draw(random, (batch, latent), 2.0),
        "gradient_log_variance": draw(random, (batch, latent), 0.1),
    }
    if observation > 0:
        inputs["x"] = draw(random, (batch, observation))
    inputs["log_variance"][0, 1] = as_stored(0.98 * limit)
    parameters["heads.bias"][2 * latent + 1] = as_stored(1.4 * limit)
    probes = {"probe_mean": draw(random, (batch, latent)), "probe_log_variance": draw(random, (batch, latent))}

    def run(at: Arrays) -> avf.Belief:
        belief = avf.Belief(inputs["mean"], inputs["log_variance"])
        gradient = avf.Belief(inputs["gradient_mean"], inputs["gradient_log_variance"])
        return avf.iterate(at, belief, gradient, inputs.get("x"), normalise_mean)

    def objective(at: Arrays) -> np.ndarray:
        new = run(at)
        return (new.mean * probes["probe_mean"]).sum() + (new.log_variance * probes["probe_log_variance"]).sum()

    new = run(parameters)
    outputs = {"new_mean": new.mean, "new_log_variance": new.log_variance}
    tensors = parameters | inputs | outputs | probes | named_gradients(objective, parameters)
    return Golden(tensors, objective, parameters, (lambda: properties.avf_errors(tensors, limit, normalise_mean),))


def closed_forms_golden() -> Golden:
    """Divergences and log likelihoods with known answers, extreme arguments included."""
    floor, ceiling = gtmm_step.LOG_STD_FLOOR, gtmm_step.LOG_STD_CEILING
    rows = np.array(
        [  # (mean_q, log_std_q, mean_p, log_std_p), each over D = 3
            [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
            [[1, -2, 3], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
            [[0, 0, 0], [-1, 0, 1], [0, 0, 0], [0, 0, 0]],
            [[0, 0, 0], [0, 0, 0], [0, 0, 0], [-1, 0, 1]],
            [[0.5, -1.5, 2], [-0.7, 0.3, -2], [0.25, -1, -1], [0.2, -0.4, -1]],
            [[0.5, 0.5, 0.5], [floor, floor, floor], [0, 0, 0], [0, 0, 0]],
            [[1, 2, 3], [floor, 0, ceiling], [1, 2, 3], [floor, 0, ceiling]],
            [[1, 2, 3], [ceiling, ceiling, ceiling], [-1, -2, -3], [0, 0, 0]],
            [[1, 2, 3], [0, 0, 0], [-1, -2, -3], [ceiling, ceiling, ceiling]],
            [[1e-3, 0, 0], [floor, -1, -1], [0, 0, 0], [floor, -1, -1]],
            [[100, -100, 0], [0, 0, 0], [-100, 100, 0], [1, 1, 1]],
        ]
    )
    mean_q, log_std_q, mean_p, log_std_p = (as_stored(rows[:, i]) for i in range(4))

    logits, x = (
        as_stored(grid.ravel())
        for grid in np.meshgrid([-100, -50, -20, -5, -0.5, 0, 0.5, 5, 20, 50, 100], [0, 0.25, 0.5, 1], indexing="ij")
    )
    mean, std, point = (
        as_stored(grid.ravel()) for grid in np.meshgrid([-3, 0, 0.5], [1e-4, 0.1, 1, 10], [-3, 0.25, 100], indexing="ij")
    )
    return Golden(
        {
            "kl.mean_q": mean_q,
            "kl.log_std_q": log_std_q,
            "kl.mean_p": mean_p,
            "kl.log_std_p": log_std_p,
            "kl.value": gaussian_kl(mean_q, log_std_q, mean_p, log_std_p),
            "bernoulli.logits": logits,
            "bernoulli.x": x,
            "bernoulli.value": bernoulli_log_likelihood(x, logits),
            "gaussian.mean": mean,
            "gaussian.std": std,
            "gaussian.x": point,
            "gaussian.value": gaussian_log_likelihood(point, mean, std),
        }
    )


def agent_golden(seed: int, *, clip: float | None, time: int, batch: int, actions: int) -> Golden:
    """The policy that acted differs from the one that learns so much that ratios are cut on both sides. The second action of the first environment ends an episode."""
    random = np.random.default_rng(seed)
    arguments = {"logits": draw(random, (time, batch, actions)), "values": draw(random, (time + 1, batch))}
    taken = random.integers(actions, size=(time, batch))
    acting = agents.log_softmax(arguments["logits"] + 0.6 * random.standard_normal((time, batch, actions)))
    behaviour = as_stored(agents.chosen(acting, taken))
    rewards = draw(random, (time, batch))
    discounts = as_stored(np.full((time, batch), 0.9))
    discounts[1, 0] = 0.0
    ratios = np.exp(agents.chosen(agents.log_softmax(arguments["logits"]), taken) - behaviour)
    if clip is None:
        targets, advantages = agents.v_trace(ratios, arguments["values"], rewards, discounts)
    else:
        targets, advantages = agents.generalised(arguments["values"], rewards, discounts, 0.95)
        advantages = agents.standardised(advantages)

    def run(at: Arrays) -> Arrays:
        return agents.loss(at["logits"], at["values"], taken, behaviour, targets, advantages, clip, 0.5, 0.01)

    def cut_on_both_sides() -> list[str]:
        edge = 0.0 if clip is None else clip
        both = (ratios < 1.0 - edge).any() and (ratios > 1.0 + edge).any()
        return [] if both else ["the ratios are not cut on both sides"]

    given = {"actions": taken, "behaviour": behaviour, "rewards": rewards, "discounts": discounts}
    judged = {"targets": targets, "advantages": advantages}

    def objective(at: Arrays) -> np.ndarray:
        return run(at)["loss"]

    outputs = run(arguments) | {"loss": np.array([run(arguments)["loss"]])}
    tensors = arguments | given | judged | outputs | named_gradients(objective, arguments)
    return Golden(tensors, objective, arguments, (cut_on_both_sides,))


def all_golden() -> dict[str, Golden]:
    return {
        "introspection": introspection_golden(
            11, latent=3, condition=0, hidden=5, attention_hidden=6, heads=2, slots=6, batch=2, steps=5
        ),
        "introspection_fifo": introspection_golden(
            2, latent=3, condition=2, hidden=4, attention_hidden=5, heads=2, slots=3, batch=3, steps=7
        ),
        "vrnn": vrnn_golden(3, features=4, latent=3, condition=0, hidden=5, batch=2, steps=5),
        "vrnn_conditions": vrnn_golden(4, features=4, latent=3, condition=2, hidden=5, batch=3, steps=4),
        "ntm": ntm_golden(
            21, ntm.Sizes(read_heads=2, write_heads=1, word=4, slots=6), latent=3, condition=0, hidden=5, batch=2, steps=6
        ),
        "ntm_conditions": ntm_golden(
            22, ntm.Sizes(read_heads=2, write_heads=2, word=4, slots=5), latent=3, condition=2, hidden=5, batch=2, steps=7
        ),
        "lru": lru_golden(28, lru.Sizes(heads=2, word=4, slots=9), latent=3, condition=0, hidden=5, batch=2, steps=6),
        "lru_conditions": lru_golden(44, lru.Sizes(heads=2, word=4, slots=5), latent=3, condition=2, hidden=5, batch=2, steps=7),
        "dnc": dnc_golden(581, dnc.Sizes(heads=2, word=4, slots=6), latent=3, condition=0, hidden=5, batch=2, steps=6),
        "dnc_conditions": dnc_golden(40, dnc.Sizes(heads=2, word=4, slots=5), latent=3, condition=2, hidden=5, batch=2, steps=7),
        "dnc_layers": dnc_golden(
            1, dnc.Sizes(heads=2, word=4, slots=5, controller="stacked", layers=2), latent=3, condition=2, hidden=4, batch=2, steps=6
        ),
        "dnc_feed_forward": dnc_golden(
            1, dnc.Sizes(heads=2, word=4, slots=5, controller="feed-forward", layers=2), latent=3, condition=2, hidden=5, batch=2, steps=6
        ),
        "hybrid": hybrid_golden(
            42, hybrid.Sizes(latent=3, key=4, heads=2, slots=7), condition=0, hidden=5, attention_hidden=6, batch=2, steps=6
        ),
        "hybrid_fifo": hybrid_golden(
            60, hybrid.Sizes(latent=3, key=4, heads=2, slots=4), condition=2, hidden=5, attention_hidden=6, batch=2, steps=8
        ),
        "spatial": spatial_golden(
            111, spatial.Sizes(latent=3, place=2, neighbours=3, slots=8, delta=1e-2), condition=4, batch=2, steps=7
        ),
        "spatial_fifo": spatial_golden(
            112, spatial.Sizes(latent=2, place=3, neighbours=2, slots=4, delta=1e-4), condition=2, batch=3, steps=9
        ),
        "rmc": rmc_golden(81, rmc.Sizes(slots=4, heads=2, head=3, key=3), row=5, batch=2, steps=6),
        "rmc_blocks": rmc_golden(82, rmc.Sizes(slots=4, heads=2, head=3, key=3, blocks=2, layers=3), row=4, batch=2, steps=5),
        "rmc_memory_gates": rmc_golden(83, rmc.Sizes(slots=1, heads=2, head=3, key=3, gates="memory"), row=5, batch=3, steps=6),
        "rmc_no_gates": rmc_golden(
            84, rmc.Sizes(slots=4, heads=1, head=3, key=3, blocks=2, layers=1, gates="none"), row=5, batch=2, steps=5
        ),
        "rmc_rows": rmc_golden(
            85, rmc.Sizes(slots=4, heads=2, head=3, key=2, blocks=2, rows=3, gates="memory"), row=4, batch=2, steps=5
        ),
        "rmc_output_gate": rmc_golden(86, rmc.Sizes(slots=1, heads=3, head=2, key=2, output_gate=True), row=5, batch=2, steps=6),
        "stacked_lstm": core_golden(
            87, stacked_lstm.parameter_shapes(3, 4, layers=3), stacked_lstm.run, inputs=3, batch=2, steps=5
        ),
        "ent_net": core_golden(88, ent_net.parameter_shapes(5, 4, cells=3), ent_net.run, inputs=5, batch=2, steps=6),
        "conv_lstm": conv_lstm_golden(89, inputs=2, channels=3, kernel=2, pixels=(4, 3), batch=2, steps=5),
        "conv_lstm_odd": conv_lstm_golden(90, inputs=1, channels=2, kernel=3, pixels=(3, 4), batch=2, steps=4),
        "v_trace": agent_golden(121, clip=None, time=5, batch=3, actions=4),
        "ppo": agent_golden(122, clip=0.2, time=5, batch=3, actions=4),
        "gtmm_introspection": gtmm_introspection_golden(5),
        "gtmm_vrnn": gtmm_vrnn_golden(6),
        "srnn": srnn_golden(71, observation=9, latent=3, hidden=7, units=4, batch=2, steps=5),
        "srnn_smoothing": srnn_smoothing_golden(91, observation=6, latent=3, hidden=5, units=4, batch=2, steps=5),
        "vrnn_full": vrnn_full_golden(33, observation=5, latent=3, hidden=9, wide=7, units=8, batch=2, steps=4),
        "svg": svg_golden(
            81, frame=1, side=16, channels=[2, 4], features=3, latent=2, hidden=4, layers=2, learned_prior=True, batch=2, steps=3
        ),
        "svg_fixed": svg_golden(
            82, frame=3, side=8, channels=[3], features=4, latent=2, hidden=3, layers=1, learned_prior=False, batch=3, steps=2
        ),
        "avf": avf_golden(73, latent=5, observation=0, hidden=7, batch=3, normalise_mean=False, limit=avf.LOG_VARIANCE_CEILING),
        "avf_observation": avf_golden(
            74, latent=3, observation=4, hidden=5, batch=2, normalise_mean=True, limit=avf.LOG_VARIANCE_FLOOR
        ),
        "gtm_sm_linear": gtm_sm_golden(101, "linear", place=2, units=0),
        "gtm_sm_walls": gtm_sm_golden(102, "walls", place=2, units=0),
        "gtm_sm_rotation": gtm_sm_golden(103, "rotation", place=3, units=0),
        "gtm_sm_momentum": gtm_sm_golden(104, "momentum", place=3, units=4, distance=5),
        "gtm_sm_mlp": gtm_sm_golden(105, "walls", place=2, units=4),
        "gtm_sm_landmarks": gtm_sm_golden(110, "walls", place=2, units=0, landmarks=2),
        "pathways_encoder": pathways_golden(106, decoder=False, frame=2, width=1, numbers=3, rows=2),
        "pathways_decoder": pathways_golden(107, decoder=True, frame=2, width=1, numbers=2, rows=2),
        "closed_forms": closed_forms_golden(),
    } | scenes_golden()


def print_closed_forms(tensors: Arrays) -> None:
    print("KL[q || p] of diagonal Gaussians, nats")
    for row in zip(*(tensors[f"kl.{name}"] for name in ("mean_q", "log_std_q", "mean_p", "log_std_p", "value"))):
        print("  q {} log_std {}  p {} log_std {}  KL {:.9g}".format(*row))
    print("Bernoulli log likelihood, nats")
    for row in zip(*(tensors[f"bernoulli.{name}"] for name in ("x", "logits", "value"))):
        print("  x {:g} logit {:g}  {:.9g}".format(*row))
    print("Gaussian log likelihood, nats")
    for row in zip(*(tensors[f"gaussian.{name}"] for name in ("x", "mean", "std", "value"))):
        print("  x {:g} mean {:g} std {:g}  {:.9g}".format(*row))


def write(name: str, golden: Golden) -> None:
    tensors = {key: np.ascontiguousarray(value, dtype=np.float32) for key, value in golden.tensors.items()}
    path = GOLDEN / f"{name}.safetensors"
    save_file(tensors, path, metadata={"written_by": "reference/make_golden.py"})
    print(f"{path.name}: {len(tensors)} tensors, {sum(v.size for v in tensors.values())} numbers")


def disagreements(name: str, golden: Golden) -> list[str]:
    """What is wrong with the file called `name`, one sentence each."""
    path = GOLDEN / f"{name}.safetensors"
    if not path.exists():
        return [f"{path.name}: missing"]
    stored = load_file(path)
    wrong = []
    if stored.keys() != golden.tensors.keys():
        wrong.append(f"{path.name}: other tensor names: {sorted(stored.keys() ^ golden.tensors.keys())}")
    for key in stored.keys() & golden.tensors.keys():
        expected = golden.tensors[key]
        if stored[key].shape != expected.shape:
            wrong.append(f"{path.name}: {key} has shape {stored[key].shape}, expected {expected.shape}")
        elif not np.allclose(stored[key], expected, rtol=1e-6, atol=1e-9):
            wrong.append(f"{path.name}: {key} differs by up to {np.abs(stored[key] - expected).max():.3g}")
    return wrong


def finite_difference_errors(name: str, golden: Golden, directions: int = 4) -> list[str]:
    """Compares the stored gradients with central differences of the objective along random directions."""
    if golden.objective is None:
        return []
    random = np.random.default_rng(0)
    wrong = []
    for _ in range(directions):
        direction = {key: random.standard_normal(value.shape) for key, value in golden.arguments.items()}
        expected = directional_derivative(golden.objective, golden.arguments, direction, golden.step)
        along = sum((golden.tensors[f"grad.{key}"] * value).sum() for key, value in direction.items())
        if abs(along - expected) > 1e-6 * max(1.0, abs(expected)):
            wrong.append(f"{name}: gradient along a direction is {along:.9g}, finite difference {expected:.9g}")
    return wrong


def property_errors(name: str, golden: Golden) -> list[str]:
    return [f"{name}: {line}" for errors in golden.properties for line in errors()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    arguments = parser.parse_args()

    golden = all_golden()
    if arguments.check:
        wrong = []
        for name, g in golden.items():
            wrong += disagreements(name, g) + finite_difference_errors(name, g) + property_errors(name, g)
        for line in wrong:
            print(line, file=sys.stderr)
        print(f"{len(golden)} files checked, {len(wrong)} disagreements")
        return 1 if wrong else 0

    GOLDEN.mkdir(exist_ok=True)
    print_closed_forms(golden["closed_forms"].tensors)
    for name, g in golden.items():
        write(name, g)
    return 0


if __name__ == "__main__":
    sys.exit(main())
