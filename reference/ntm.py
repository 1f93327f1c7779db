"""The neural Turing machine as a memory (Graves et al. 2014, section 3; Gemici et al. 2017, section 3.2).

Every head looks for a key, mixes what it finds with where it was, moves by at most one slot and sharpens. Each step writes and then reads.

Sizes: Z latent, C condition, H LSTM hidden, R read heads, V write heads, G = R + V heads (read heads first), W word width, N slots, B batch,
T steps.

    lstm.weight_input [Z + C + R * W, 4H]   lstm.weight_hidden [H, 4H]   lstm.bias [4H]
    interface.weight [H, O]                 interface.bias [O]           O = G * (W + 6) + 2 * V * W
    initial_weights [G, N]                  logits; their softmax is where a head is before the first step

The outputs of `interface`, in this order (head-major where there are several numbers a head):

    keys [G, W]   strengths [G] softplus   gates [G] sigmoid   shifts [G, 3] softmax over (-1, 0, +1)   sharpening [G] 1 + softplus
    erase [V, W] sigmoid   add [V, W]
"""

from typing import Mapping, NamedTuple

import numpy as np

from addressing import content_weights, context, controller_input, parts
from lstm import LstmState, initial_state as initial_lstm_state, lstm
from memory import MemoryContext, Previous
from numerics import linear, oneplus, sigmoid, softmax, softplus

MEMORY_START = 1e-6
SHARPENING_FLOOR = 1e-8


class Sizes(NamedTuple):
    read_heads: int
    write_heads: int
    word: int
    slots: int


class Interface(NamedTuple):
    keys: np.ndarray  # [batch, G, W]
    strengths: np.ndarray  # [batch, G]
    gates: np.ndarray  # [batch, G]
    shifts: np.ndarray  # [batch, G, 3]
    sharpening: np.ndarray  # [batch, G]
    erase: np.ndarray  # [batch, V, W]
    add: np.ndarray  # [batch, V, W]


class NtmState(NamedTuple):
    controller: LstmState
    memory: np.ndarray  # [batch, N, W]
    weights: np.ndarray  # [batch, G, N]
    reads: np.ndarray  # [batch, R, W]


def initial_state(parameters: Mapping[str, np.ndarray], sizes: Sizes, batch: int) -> NtmState:
    """Controller and reads at zero, memory constant, every head at its learned start."""
    weights = softmax(parameters["initial_weights"])
    return NtmState(
        initial_lstm_state(parameters, batch),
        np.full((batch, sizes.slots, sizes.word), MEMORY_START),
        np.broadcast_to(weights, (batch, *weights.shape)),
        np.zeros((batch, sizes.read_heads, sizes.word)),
    )


def interface(parameters: Mapping[str, np.ndarray], sizes: Sizes, hidden: np.ndarray) -> Interface:
    heads = sizes.read_heads + sizes.write_heads
    keys, strengths, gates, shifts, sharpening, erase, add = parts(
        linear(hidden, parameters, "interface"),
        (heads, sizes.word),
        (heads,),
        (heads,),
        (heads, 3),
        (heads,),
        (sizes.write_heads, sizes.word),
        (sizes.write_heads, sizes.word),
    )
    return Interface(keys, softplus(strengths), sigmoid(gates), softmax(shifts), oneplus(sharpening), sigmoid(erase), add)


def shift(weights: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """`w_s[i] = s(-1) w[i + 1] + s(0) w[i] + s(+1) w[i - 1]`, the slots in a ring."""
    return (
        shifts[:, :, 0:1] * np.roll(weights, -1, axis=-1)
        + shifts[:, :, 1:2] * weights
        + shifts[:, :, 2:3] * np.roll(weights, 1, axis=-1)
    )


def address(memory: np.ndarray, weights: np.ndarray, told: Interface, heads: slice) -> np.ndarray:
    """Weights of `heads` over `memory`, from where these heads were; `[batch, heads, N]`."""
    found = content_weights(memory, told.keys[:, heads], told.strengths[:, heads])
    gates = told.gates[:, heads, None]
    shifted = shift(gates * found + (1.0 - gates) * weights[:, heads], told.shifts[:, heads])
    return softmax(told.sharpening[:, heads, None] * np.log(shifted + SHARPENING_FLOOR))


def write(memory: np.ndarray, weights: np.ndarray, erase: np.ndarray, add: np.ndarray) -> np.ndarray:
    """`M[i] * prod_v (1 - w_v[i] e_v) + sum_v w_v[i] a_v`: all heads erase before any adds."""
    kept = np.prod(1.0 - weights[:, :, :, None] * erase[:, :, None, :], axis=1)
    return memory * kept + np.swapaxes(weights, -1, -2) @ add


def step(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, previous: Previous | None, condition: np.ndarray | None, state: NtmState
) -> tuple[MemoryContext, NtmState]:
    """Step t: update the controller, write at addresses found in M_{t-1}, read at addresses found in M_t."""
    controller = lstm(parameters, controller_input(parameters, previous, condition, state.reads), state.controller)
    told = interface(parameters, sizes, controller.hidden)

    reading, writing = slice(0, sizes.read_heads), slice(sizes.read_heads, None)
    write_weights = address(state.memory, state.weights, told, writing)
    memory = write(state.memory, write_weights, told.erase, told.add)
    read_weights = address(memory, state.weights, told, reading)
    reads = read_weights @ memory

    weights = np.concatenate([read_weights, write_weights], axis=1)
    return MemoryContext(context(reads, controller.hidden), read_weights), NtmState(controller, memory, weights, reads)


def run(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, latents: np.ndarray, conditions: np.ndarray | None
) -> dict[str, np.ndarray]:
    """All steps with given latents `[T, B, Z]` and conditions `[T, B, C]`.

    Returns `psi [T, B, R * W + H]`, `read_weights [T, B, R, N]` and `write_weights [T, B, V, N]`.
    """
    state = initial_state(parameters, sizes, latents.shape[1])
    outputs: dict[str, list[np.ndarray]] = {"psi": [], "read_weights": [], "write_weights": []}
    for t in range(len(latents)):
        previous = None if t == 0 else Previous(latents[t - 1])
        seen, state = step(parameters, sizes, previous, None if conditions is None else conditions[t], state)
        outputs["psi"].append(seen.psi)
        outputs["read_weights"].append(seen.read_weights)
        outputs["write_weights"].append(state.weights[:, sizes.read_heads :])
    return {name: np.stack(values) for name, values in outputs.items()}


def parameter_shapes(sizes: Sizes, latent: int, condition: int, hidden: int) -> dict[str, tuple[int, ...]]:
    heads = sizes.read_heads + sizes.write_heads
    outputs = heads * (sizes.word + 6) + 2 * sizes.write_heads * sizes.word
    return {
        "lstm.weight_input": (latent + condition + sizes.read_heads * sizes.word, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
        "interface.weight": (hidden, outputs),
        "interface.bias": (outputs,),
        "initial_weights": (heads, sizes.slots),
    }
