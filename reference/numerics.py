"""Elementary functions that are analytic in their arguments, and gradients by the complex step.

Every function here takes real (`float64`) or complex (`complex128`) arrays. Where a function is only piecewise analytic (relu, clamp) the
piece is chosen by the real part, so that the imaginary part carries the derivative through.
"""

from typing import Callable, Mapping

import numpy as np

COMPLEX_STEP = 1e-30


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    """`log(1 + exp(x))`, without overflow."""
    positive = np.real(x) > 0
    magnitude = np.where(positive, x, -x)
    return np.where(positive, x, 0.0) + np.log1p(np.exp(-magnitude))


def oneplus(x: np.ndarray) -> np.ndarray:
    return 1.0 + softplus(x)


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    exponentials = np.exp(x - np.real(x).max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def relu(x: np.ndarray) -> np.ndarray:
    return np.where(np.real(x) > 0, x, 0.0)


def clamp(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """`x` kept within `[low, high]`; no gradient flows where it was outside."""
    return np.where(np.real(x) < low, low, np.where(np.real(x) > high, high, x))


def linear(x: np.ndarray, parameters: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """`x @ weight + bias` with the weight `[inputs, outputs]` and bias `[outputs]` called `name`."""
    return x @ parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def complex_step_gradients(
    objective: Callable[[dict[str, np.ndarray]], np.ndarray], arguments: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Gradients of a real scalar `objective(arguments)` with respect to every entry of every argument.

    `df/dx = Im f(x + i h) / h + O(h^2)`: there is no difference of nearby numbers, so with `h = 1e-30` the result is exact to rounding.
    """
    point = {name: value.astype(np.complex128) for name, value in arguments.items()}
    gradients = {name: np.zeros(value.shape) for name, value in arguments.items()}
    for name, value in point.items():
        for index in np.ndindex(value.shape):
            real = value[index]
            value[index] = real + 1j * COMPLEX_STEP
            gradients[name][index] = np.imag(objective(point)) / COMPLEX_STEP
            value[index] = real
    return gradients


def directional_derivative(
    objective: Callable[[dict[str, np.ndarray]], np.ndarray],
    arguments: Mapping[str, np.ndarray],
    direction: Mapping[str, np.ndarray],
    step: float = 1e-5,
) -> float:
    """Central finite difference of `objective` along `direction`: a check on the complex step that shares nothing with it."""
    ahead = objective({name: value + step * direction[name] for name, value in arguments.items()})
    behind = objective({name: value - step * direction[name] for name, value in arguments.items()})
    return float(ahead - behind) / (2.0 * step)
