"""Least recently used access as a memory (Santoro et al. 2016, section 3.2; Gemici et al. 2017, section 3.2).

Every head writes either where it last read or to a slot that has hardly been used, and reads by content alone. Each step writes and then
reads.

Sizes: Z latent, C condition, H LSTM hidden, R heads (each writes once and reads once a step; R <= N), W word width, N slots, B batch, T steps.

    lstm.weight_input [Z + C + R * W, 4H]   lstm.weight_hidden [H, 4H]   lstm.bias [4H]
    interface.weight [H, O]                 interface.bias [O]           O = 2 * R * (W + 1)

The outputs of `interface`, in this order (head-major where there are several numbers a head):

    keys [R, W] tanh   adds [R, W] tanh   alpha [R] sigmoid   strengths [R] 1 + softplus

No gradient passes through usage, nor through the choice of slots made from it.
"""

from typing import Mapping, NamedTuple

import numpy as np

from addressing import ascending, content_weights, context, controller_input, parts
from lstm import LstmState, initial_state as initial_lstm_state, lstm
from memory import MemoryContext, Previous
from numerics import linear, oneplus, sigmoid

MEMORY_START = 1e-6
USAGE_DECAY = 0.99


class Sizes(NamedTuple):
    heads: int
    word: int
    slots: int


class LruState(NamedTuple):
    controller: LstmState
    memory: np.ndarray  # [batch, N, W]
    usage: np.ndarray  # [batch, N], real
    read_weights: np.ndarray  # [batch, R, N]
    write_weights: np.ndarray  # [batch, R, N]; not read by the next step
    reads: np.ndarray  # [batch, R, W]


def initial_usage(sizes: Sizes, batch: int) -> np.ndarray:
    """One on the first slot; `[batch, N]`."""
    return np.broadcast_to(np.eye(sizes.slots)[0], (batch, sizes.slots))


def initial_state(parameters: Mapping[str, np.ndarray], sizes: Sizes, batch: int) -> LruState:
    """Controller and reads at zero, memory constant, usage and the reading of every head on the first slot."""
    heads, word, slots = sizes
    assert heads <= slots
    usage = initial_usage(sizes, batch)
    return LruState(
        initial_lstm_state(parameters, batch),
        np.full((batch, slots, word), MEMORY_START),
        usage,
        np.broadcast_to(usage[:, None, :], (batch, heads, slots)),
        np.zeros((batch, heads, slots)),
        np.zeros((batch, heads, word)),
    )


def least_used(usage: np.ndarray, heads: int) -> np.ndarray:
    """`w_lu^j`, one on the j-th least used slot; `[batch, R, N]`."""
    return np.eye(usage.shape[-1])[ascending(usage)[:, :heads]]


def write(memory: np.ndarray, weights: np.ndarray, adds: np.ndarray, emptied: np.ndarray) -> np.ndarray:
    """Clears the slot at which `emptied [batch, N]` is one, then adds `sum_j w_w^j[i] a^j`."""
    return memory * (1.0 - emptied)[:, :, None] + np.swapaxes(weights, -1, -2) @ adds


def step(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, previous: Previous | None, condition: np.ndarray | None, state: LruState
) -> tuple[MemoryContext, LruState]:
    """Step t: update the controller, write by w_r and w_u of step t-1, read from M_t, count both in usage."""
    heads, word, _ = sizes
    controller = lstm(parameters, controller_input(parameters, previous, condition, state.reads), state.controller)
    told = linear(controller.hidden, parameters, "interface")
    keys, adds, alpha, strengths = parts(told, (heads, word), (heads, word), (heads,), (heads,))

    free = least_used(state.usage, heads)
    again = sigmoid(alpha)[:, :, None]
    write_weights = again * state.read_weights + (1.0 - again) * free
    memory = write(state.memory, write_weights, np.tanh(adds), free[:, 0])

    read_weights = content_weights(memory, np.tanh(keys), oneplus(strengths))
    reads = read_weights @ memory
    usage = USAGE_DECAY * state.usage + np.real(read_weights.sum(axis=1)) + np.real(write_weights.sum(axis=1))
    return (
        MemoryContext(context(reads, controller.hidden), read_weights),
        LruState(controller, memory, usage, read_weights, write_weights, reads),
    )


def run(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, latents: np.ndarray, conditions: np.ndarray | None
) -> dict[str, np.ndarray]:
    """All steps with given latents `[T, B, Z]` and conditions `[T, B, C]`.

    Returns `psi [T, B, R * W + H]`, `read_weights` and `write_weights [T, B, R, N]`, and `usage [T, B, N]` as it stands after each step.
    """
    state = initial_state(parameters, sizes, latents.shape[1])
    outputs: dict[str, list[np.ndarray]] = {"psi": [], "read_weights": [], "write_weights": [], "usage": []}
    for t in range(len(latents)):
        previous = None if t == 0 else Previous(latents[t - 1])
        seen, state = step(parameters, sizes, previous, None if conditions is None else conditions[t], state)
        outputs["psi"].append(seen.psi)
        outputs["read_weights"].append(seen.read_weights)
        outputs["write_weights"].append(state.write_weights)
        outputs["usage"].append(state.usage)
    return {name: np.stack(values) for name, values in outputs.items()}


def parameter_shapes(sizes: Sizes, latent: int, condition: int, hidden: int) -> dict[str, tuple[int, ...]]:
    heads, word, _ = sizes
    outputs = 2 * heads * (word + 1)
    return {
        "lstm.weight_input": (latent + condition + heads * word, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
        "interface.weight": (hidden, outputs),
        "interface.bias": (outputs,),
    }
