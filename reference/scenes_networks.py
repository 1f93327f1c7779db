"""The layers that the models of scenes share: convolutions, a convolutional LSTM in one convolution, Gaussian latents with pixels.

Maps are `[N, channels, Y, X]`. Weights of a convolution are `[outputs, inputs, k, k]`, of a transposed one `[inputs, outputs, k, k]`; a bias is
`[outputs]`. A layer called `name` has `name.weight` and, if it has a bias, `name.bias`.

The convolutional LSTM has one convolution, kernel 5, padding 2, of `[h; input]` to 4H maps. The order of its gates is that of `conv_lstm.py`:
input, forget, candidate, output; the candidate goes through tanh, the gates through a sigmoid. Its state is hidden and cell.
"""

from typing import Callable, Mapping, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import conv_lstm
from distributions import gaussian_kl
from numerics import clamp

LOG_VARIANCE_FLOOR = -8.0
LOG_VARIANCE_CEILING = 4.0

Parameters = Mapping[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]


class State(NamedTuple):
    hidden: np.ndarray  # [N, H, Y, X]
    cell: np.ndarray  # [N, H, Y, X]


class Belief(NamedTuple):
    """A diagonal Gaussian over the latent of one step."""

    mean: np.ndarray  # [N, Z, Y, X]; of single numbers Y = X = 1
    log_variance: np.ndarray  # [N, Z, Y, X]

    def sample(self, noise: np.ndarray) -> np.ndarray:
        return self.mean + np.exp(0.5 * self.log_variance) * noise


def bias_of(parameters: Parameters, name: str) -> np.ndarray:
    bias = parameters.get(f"{name}.bias")
    return np.zeros(1) if bias is None else bias[:, None, None]


def convolution(x: np.ndarray, parameters: Parameters, name: str, stride: int = 1) -> np.ndarray:
    """`y[n, o, i, j] = b[o] + sum_{c, k, l} w[o, c, k, l] x[n, c, stride i + k - p, stride j + l - p]`.

    With stride 1 zeros surround `x`, `p = size // 2` on each side, so that an odd kernel keeps the size; with a larger stride `p = 0`.
    """
    weight = parameters[f"{name}.weight"]
    size = weight.shape[-1]
    p = size // 2 if stride == 1 else 0
    count, channels, height, width = x.shape
    padded = np.zeros((count, channels, height + 2 * p, width + 2 * p), dtype=x.dtype)
    padded[:, :, p : p + height, p : p + width] = x
    patches = sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
    y = np.tensordot(patches, weight, axes=([1, 4, 5], [1, 2, 3]))  # [N, Y, X, outputs]
    return np.moveaxis(y, -1, 1) + bias_of(parameters, name)


def transposed_convolution(x: np.ndarray, parameters: Parameters, name: str) -> np.ndarray:
    """With a stride equal to the kernel's size s, so that nothing overlaps: `y[n, o, s i + k, s j + l] = b[o] + sum_c w[c, o, k, l] x[n, c, i, j]`."""
    weight = parameters[f"{name}.weight"]
    size = weight.shape[-1]
    count, _, height, width = x.shape
    blocks = np.tensordot(x, weight, axes=(1, 0))  # [N, Y, X, outputs, k, l]
    y = blocks.transpose(0, 3, 1, 4, 2, 5).reshape(count, -1, size * height, size * width)
    return y + bias_of(parameters, name)


def planes(numbers: np.ndarray, side: int) -> np.ndarray:
    """`[N, V]` as V constant maps: `[N, V, side, side]`."""
    return np.broadcast_to(numbers[:, :, None, None], (*numbers.shape, side, side))


def sum_of_views(represent: Callable[[np.ndarray, np.ndarray], np.ndarray], frames: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The sum of the representations of M views, `frames [B, M, C, S, S]` and `queries [B, M, V]`: `[B, ..]`; zero without a view."""
    batch, views = queries.shape[:2]
    each = represent(frames.reshape(batch * views, *frames.shape[2:]), queries.reshape(batch * views, queries.shape[-1]))
    return each.reshape(batch, views, *each.shape[1:]).sum(axis=1)


def conv_lstm_step(parameters: Parameters, name: str, inputs: list[np.ndarray], state: State) -> State:
    """One step on `inputs`, maps that stand behind the hidden state in the order given."""
    gates = convolution(np.concatenate([state.hidden, *inputs], axis=1), parameters, name)
    return State(*conv_lstm.update(gates, state.cell))


def initial_state(count: int, hidden: int, side: int) -> State:
    return State(*np.zeros((2, count, hidden, side, side)))


def belief(parameters: Parameters, name: str, hidden: np.ndarray, single: bool = False) -> Belief:
    """A convolution of `hidden`, if `single` its mean over the pixels, to the means and, behind them, the log-variances, which are kept within
    `[-8, 4]`."""
    both = convolution(hidden, parameters, name)
    if single:
        both = both.mean(axis=(2, 3), keepdims=True)
    mean, log_variance = np.split(both, 2, axis=1)
    return Belief(mean, clamp(log_variance, LOG_VARIANCE_FLOOR, LOG_VARIANCE_CEILING))


def kl(q: Belief, p: Belief) -> np.ndarray:
    """`KL[q || p]` in nats, summed over channels and pixels: `[N]`."""
    count = len(q.mean)
    flat = [values.reshape(count, -1) for values in (q.mean, 0.5 * q.log_variance, p.mean, 0.5 * p.log_variance)]
    return gaussian_kl(*flat)


def of_steps(latents: np.ndarray, priors: list[Belief], posteriors: list[Belief]) -> dict[str, np.ndarray]:
    """What a bound returns of each step: the latents, the beliefs that they were drawn from, and `kl`."""
    return {
        "latents": latents,
        "prior_mean": np.stack([p.mean for p in priors]),
        "prior_log_variance": np.stack([p.log_variance for p in priors]),
        "posterior_mean": np.stack([q.mean for q in posteriors]),
        "posterior_log_variance": np.stack([q.log_variance for q in posteriors]),
        "kl": np.stack([kl(q, p) for q, p in zip(posteriors, priors)]),
    }


def constant(frames: np.ndarray, variance: float) -> float:
    """The Gaussian's constant for one of `frames [.., C, S, S]`: what a perfect prediction scores, in nats."""
    return -0.5 * np.prod(frames.shape[-3:]) * np.log(2.0 * np.pi * variance)


def log_likelihood(frames: np.ndarray, predicted: np.ndarray, variance: float) -> np.ndarray:
    """`log N(f; f-hat, variance)` without its constant, summed over channels and pixels of `[.., C, S, S]`."""
    return -0.5 * ((frames - predicted) ** 2).sum(axis=(-3, -2, -1)) / variance


def convolution_shapes(name: str, inputs: int, outputs: int, size: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs, size, size), f"{name}.bias": (outputs,)}


def transposed_shapes(name: str, inputs: int, outputs: int, size: int) -> Shapes:
    return {f"{name}.weight": (inputs, outputs, size, size), f"{name}.bias": (outputs,)}


def conv_lstm_shapes(name: str, inputs: int, hidden: int) -> Shapes:
    return convolution_shapes(name, hidden + inputs, 4 * hidden, 5)


def belief_shapes(name: str, hidden: int, latent: int) -> Shapes:
    return convolution_shapes(name, hidden, 2 * latent, 5)
