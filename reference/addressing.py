"""What the memories that are addressed by content share.

Sizes: R read heads, W word width, N slots, H LSTM hidden.
"""

from typing import Mapping

import numpy as np

from memory import Previous
from numerics import softmax

COSINE_EPSILON = 1e-6


def cosine(memory: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """`k . m / (sqrt(|k|^2 + eps) sqrt(|m|^2 + eps))` of every key `[batch, heads, W]` and row `[batch, N, W]`; `[batch, heads, N]`.

    A row of zeros is at cosine 0 from every key.
    """
    rows = np.sqrt((memory * memory).sum(axis=-1) + COSINE_EPSILON)
    lengths = np.sqrt((keys * keys).sum(axis=-1) + COSINE_EPSILON)
    return (keys @ np.swapaxes(memory, -1, -2)) / (lengths[:, :, None] * rows[:, None, :])


def content_weights(memory: np.ndarray, keys: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """`C(M, k, beta) = softmax_i beta cos(k, M[i])`; strengths `[batch, heads]`; `[batch, heads, N]`."""
    return softmax(strengths[:, :, None] * cosine(memory, keys))


def ascending(usage: np.ndarray) -> np.ndarray:
    """Slots from the least to the most used, equals by smaller index; `[batch, N]`.

    Compared as float32 holds them: slots that differ by less than that (1e-12 after the first write of a DNC) count as equal.
    """
    return np.argsort(np.real(usage).astype(np.float32), axis=-1, kind="stable")


def controller_input(
    parameters: Mapping[str, np.ndarray], previous: Previous | None, condition: np.ndarray | None, reads: np.ndarray
) -> np.ndarray:
    """`[z_{t-1} ; c_t ; read_{t-1}]`, the reads `[batch, R, W]` head-major; z_0 = 0."""
    batch = reads.shape[0]
    others = ([] if condition is None else [condition]) + [reads.reshape(batch, -1)]
    latent_size = parameters["lstm.weight_input"].shape[0] - sum(part.shape[-1] for part in others)
    latent = np.zeros((batch, latent_size)) if previous is None else previous.latent
    return np.concatenate([latent] + others, axis=-1)


def parts(interface: np.ndarray, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Cuts `interface [batch, outputs]` into consecutive parts and gives each its shape, `[batch, *shape]`."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    assert ends[-1] == interface.shape[-1]
    cut = np.split(interface, ends[:-1], axis=-1)
    return [part.reshape(-1, *shape) for part, shape in zip(cut, shapes)]


def context(reads: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """`[r_1 ; ... ; r_R ; h_t]`."""
    return np.concatenate([reads.reshape(len(reads), -1), hidden], axis=-1)
