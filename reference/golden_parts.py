"""What the golden files have in common: their parts, and inputs that float32 holds exactly."""

from typing import Callable, Mapping, NamedTuple

import numpy as np

from numerics import complex_step_gradients

WEIGHT_STD = 0.4

Arrays = dict[str, np.ndarray]


class Golden(NamedTuple):
    """One file: `tensors` are written; `objective` is the scalar whose gradients with respect to `arguments` are among them.

    `properties` are what is known to hold of the outputs; each returns one sentence for everything that does not. `step` is that of the finite
    differences.
    """

    tensors: Arrays
    objective: Callable[[Arrays], np.ndarray] | None = None
    arguments: Arrays | None = None
    properties: tuple[Callable[[], list[str]], ...] = ()
    step: float = 1e-5


def as_stored(values: np.ndarray) -> np.ndarray:
    """Rounded to what the float32 file will hold."""
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def draw(random: np.random.Generator, shape: tuple[int, ...], std: float = 1.0) -> np.ndarray:
    return as_stored(std * random.standard_normal(shape))


def draw_parameters(random: np.random.Generator, shapes: Mapping[str, tuple[int, ...]], std: float = WEIGHT_STD) -> Arrays:
    return {name: draw(random, shape, std) for name, shape in shapes.items()}


def named_gradients(objective: Callable[[Arrays], np.ndarray], arguments: Arrays) -> Arrays:
    return {f"grad.{name}": gradient for name, gradient in complex_step_gradients(objective, arguments).items()}
