"""The factored GQN: the networks of the consistent GQN (`cgqn.py`), but a latent of its own for every target.

    bound = sum_i bound_i,  where bound_i is that of a consistent GQN whose only target is i:
    p(z^i | r_C),  q(z^i | r_C, r_i),  f-hat_i from z^i and v_i

So targets are independent given the context, and KL divergences add up. It is the baseline that Kumar et al. 2018 (section 4) compare with, here
with equal networks. Its parameters are those of `cgqn.py`.
"""

from typing import Callable

import numpy as np

import cgqn
from cgqn import Scene, Sizes
from scenes_networks import Parameters

OF_TARGETS = ("frames", "reconstruction", "reconstruction_without_constant", "sampled_frames")  # `[B, T, ..]`; bounds apart, the rest is `[L, B, ..]`


def scenes_of_one(scene: Scene) -> Scene:
    """B * T scenes with one target each, those of the first scene first."""
    batch, targets = scene.target_queries.shape[:2]

    def alone(values: np.ndarray) -> np.ndarray:
        return values.reshape(batch * targets, 1, *values.shape[2:])

    return Scene(
        np.repeat(scene.context_frames, targets, axis=0),
        np.repeat(scene.context_queries, targets, axis=0),
        alone(scene.target_frames),
        alone(scene.target_queries),
    )


def for_each_target(run: Callable[[Scene, np.ndarray], dict[str, np.ndarray]], scene: Scene, noise: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of `run` on every target by itself, with `noise [L, B, T, ..]`.

    Outputs for each step are `[L, B, T, ..]`, those for each target `[B, T, ..]`. A bound `[1]`, a mean over scenes of one target, becomes the
    sum over the targets.
    """
    steps, batch, targets = noise.shape[:3]
    outputs = run(scenes_of_one(scene), noise.reshape(steps, batch * targets, *noise.shape[3:]))

    def together(name: str, values: np.ndarray) -> np.ndarray:
        if name.startswith("bound"):
            return targets * values
        if name in OF_TARGETS:
            return values.reshape(batch, targets, *values.shape[2:])
        return values.reshape(steps, batch, targets, *values.shape[2:])

    return {name: together(name, values) for name, values in outputs.items()}


def bound(parameters: Parameters, sizes: Sizes, scene: Scene, noise: np.ndarray, variance: float) -> dict[str, np.ndarray]:
    """As `cgqn.bound`, with `noise [L, B, T, Z, S/8, S/8]`; what is per step is `[L, B, T, ..]`, `kl` too."""
    return for_each_target(lambda alone, its_noise: cgqn.bound(parameters, sizes, alone, its_noise, variance), scene, noise)


def sample(parameters: Parameters, sizes: Sizes, scene: Scene, noise: np.ndarray) -> dict[str, np.ndarray]:
    """As `cgqn.sample`, every target from a draw of its own."""
    return for_each_target(lambda alone, its_noise: cgqn.sample(parameters, sizes, alone, its_noise), scene, noise)
