"""Fully connected stacks, heads on top of them, and what a filtering pass over given noise returns.

A stack `name` has layers `name.layers.0`, `name.layers.1`, ..; a head `name` is the stack `name.hidden` and the linear map `name.output`.
Weights are `[inputs, outputs]`.
"""

from typing import Callable, Mapping, Sequence

import numpy as np

from numerics import clamp, linear

Activation = Callable[[np.ndarray], np.ndarray]


def clipped_leaky_relu(x: np.ndarray) -> np.ndarray:
    """Slope 1/3 below zero, the result kept within `[-3, 3]` (Fraccaro et al. 2016)."""
    return clamp(np.where(np.real(x) > 0, x, x / 3.0), -3.0, 3.0)


def stack(x: np.ndarray, parameters: Mapping[str, np.ndarray], name: str, activation: Activation) -> np.ndarray:
    """Every layer is linear, then `activation`; the last one too."""
    layer = 0
    while f"{name}.layers.{layer}.weight" in parameters:
        x = activation(linear(x, parameters, f"{name}.layers.{layer}"))
        layer += 1
    return x


def head(x: np.ndarray, parameters: Mapping[str, np.ndarray], name: str, activation: Activation) -> np.ndarray:
    return linear(stack(x, parameters, f"{name}.hidden", activation), parameters, f"{name}.output")


def stack_shapes(name: str, inputs: int, widths: Sequence[int]) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for layer, outputs in enumerate(widths):
        shapes[f"{name}.layers.{layer}.weight"] = (inputs, outputs)
        shapes[f"{name}.layers.{layer}.bias"] = (outputs,)
        inputs = outputs
    return shapes


def head_shapes(name: str, inputs: int, widths: Sequence[int], outputs: int) -> dict[str, tuple[int, ...]]:
    return stack_shapes(f"{name}.hidden", inputs, widths) | {
        f"{name}.output.weight": (widths[-1], outputs),
        f"{name}.output.bias": (outputs,),
    }


def stacked_in_time(trajectory: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Each output `[T, B, ..]`; and `bound [1]`, the mean over the batch of the sum over time of reconstruction minus KL."""
    outputs = {name: np.stack([at_step[name] for at_step in trajectory]) for name in trajectory[0]}
    free_energies = outputs["reconstruction"] - outputs["kl"]
    outputs["bound"] = free_energies.sum(axis=0).mean(axis=0, keepdims=True)
    return outputs
