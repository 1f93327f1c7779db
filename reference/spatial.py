"""A place that actions move, and a dictionary of what was seen there. Ours, of a part of Fraccaro et al. 2018 (sections 3.1 and 4.1).

From the place `s_0 = 0` and nothing stored, step t

    s_t = s_{t-1} + A c_t
    stores z_{t-1} under the key s_{t-1} (from t = 2 on); with more than L entries the oldest is dropped
    reads the K entries nearest to s_t, with weights w_k proportional to 1 / (distance_k^2 + delta)
    psi_t = [sum_k w_k z_k; log(1 + 1 / (distance_1^2 + delta))], distance_1 being the smallest; zero while nothing is stored

Sizes: Z latent, C condition, D place, K neighbours, L slots, B batch, T steps. The one parameter is `moves [C, D]`, which is A transposed.
"""

from typing import Mapping, NamedTuple

import numpy as np

from memory import MemoryContext, Previous


class Sizes(NamedTuple):
    latent: int
    place: int
    neighbours: int
    slots: int
    delta: float


class SpatialState(NamedTuple):
    place: np.ndarray  # s [batch, D]
    keys: np.ndarray  # [batch, filled, D], oldest first; filled <= L
    values: np.ndarray  # [batch, filled, Z]


def initial_state(sizes: Sizes, batch: int) -> SpatialState:
    """At the origin, with nothing stored."""
    return SpatialState(np.zeros((batch, sizes.place)), np.zeros((batch, 0, sizes.place)), np.zeros((batch, 0, sizes.latent)))


def stored(rows: np.ndarray, row: np.ndarray, slots: int) -> np.ndarray:
    """`rows [batch, filled, width]` and `row [batch, width]` behind them; the last `slots` of them."""
    return np.concatenate([rows, row[:, None]], axis=1)[:, -slots:]


def squares(keys: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Squared distances of `keys [batch, filled, D]` to `place [batch, D]`; `[batch, filled]`."""
    return ((keys - place[:, None]) ** 2).sum(axis=-1)


def step(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, previous: Previous | None, condition: np.ndarray, state: SpatialState
) -> tuple[MemoryContext, SpatialState]:
    """Step t: move by c_t `[batch, C]`, store what was seen before the move, read where the move led."""
    keys, values = state.keys, state.values
    if previous is not None:
        keys = stored(keys, state.place, sizes.slots)
        values = stored(values, previous.latent, sizes.slots)
    place = state.place + condition @ parameters["moves"]

    batch, filled, _ = keys.shape
    weights = np.zeros((batch, sizes.slots), dtype=place.dtype)
    psi = np.zeros((batch, sizes.latent + 1), dtype=np.result_type(place, values))
    apart = squares(keys, place)
    for b in range(batch if filled > 0 else 0):
        nearest = np.argsort(np.real(apart[b]), kind="stable")[: sizes.neighbours]
        kernel = 1.0 / (apart[b, nearest] + sizes.delta)
        weights[b, nearest] = kernel / kernel.sum()
        psi[b, :-1] = weights[b, nearest] @ values[b, nearest]
        psi[b, -1] = np.log(1.0 + kernel[0])
    return MemoryContext(psi, weights[:, None]), SpatialState(place, keys, values)


def run(parameters: Mapping[str, np.ndarray], sizes: Sizes, latents: np.ndarray, conditions: np.ndarray) -> dict[str, np.ndarray]:
    """All steps with given latents `[T, B, Z]` and conditions `[T, B, C]`.

    Returns `psi [T, B, Z + 1]` and `read_weights [T, B, 1, L]`, zero on slots that hold nothing or are not read.
    """
    state = initial_state(sizes, latents.shape[1])
    contexts = []
    for t in range(len(latents)):
        previous = None if t == 0 else Previous(latents[t - 1])
        seen, state = step(parameters, sizes, previous, conditions[t], state)
        contexts.append(seen)
    return {"psi": np.stack([c.psi for c in contexts]), "read_weights": np.stack([c.read_weights for c in contexts])}


def parameter_shapes(sizes: Sizes, condition: int) -> dict[str, tuple[int, ...]]:
    return {"moves": (condition, sizes.place)}
