"""The introspection network: a first-in-first-out buffer of latents, read by position.

Gemici et al. 2017, "Generative Temporal Models with Memory", section 3.1, equations 9 to 12. The paper calls the context used for z_t
`Psi_{t-1}`, because it holds only what was in memory before step t; here it is `psi` of step t.

Sizes: Z latent, C condition, H LSTM hidden, A attention hidden, R read heads, L slots, B batch, T steps. R and L are implied by the shapes of
the parameters:

    lstm.weight_input [Z + C, 4H]   lstm.weight_hidden [H, 4H]   lstm.bias [4H]
    attention_hidden.weight [H, A]       attention_hidden.bias [A]
    attention_output.weight [A, R * L]   attention_output.bias [R * L]     head-major: [R, L]
    gate.weight [H, R * Z]               gate.bias [R * Z]                 head-major: [R, Z]
"""

from typing import Mapping, NamedTuple

import numpy as np

from lstm import LstmState, initial_state as initial_lstm_state, lstm
from memory import MemoryContext, Previous
from numerics import linear, relu, sigmoid, softplus

ATTENTION_FLOOR = 1e-6


class Sizes(NamedTuple):
    latent: int
    heads: int
    slots: int


class IntrospectionState(NamedTuple):
    controller: LstmState
    memory: np.ndarray  # M [batch, filled, Z], oldest row first; filled <= L


def sizes(parameters: Mapping[str, np.ndarray], latent: int) -> Sizes:
    heads = parameters["gate.bias"].size // latent
    return Sizes(latent, heads, parameters["attention_output.bias"].size // heads)


def initial_state(parameters: Mapping[str, np.ndarray], batch: int, latent: int) -> IntrospectionState:
    """Controller at zero, nothing in memory."""
    return IntrospectionState(initial_lstm_state(parameters, batch), np.zeros((batch, 0, latent)))


def write(memory: np.ndarray, latent: np.ndarray, slots: int) -> np.ndarray:
    """Append `latent [batch, Z]` as the newest row; beyond `slots` rows the oldest is dropped and the others move down by one."""
    return np.concatenate([memory, latent[:, None, :]], axis=1)[:, -slots:, :]


def attention(parameters: Mapping[str, np.ndarray], hidden: np.ndarray, filled: int, heads: int, slots: int) -> np.ndarray:
    """`w_t^r = k(h_t) / sum k(h_t)` over the filled slots (equation 10); `[batch, R, L]`, zero on slots that hold nothing."""
    activations = linear(relu(linear(hidden, parameters, "attention_hidden")), parameters, "attention_output")
    k = softplus(activations.reshape(-1, heads, slots)) + ATTENTION_FLOOR
    k = k * (np.arange(slots) < filled)
    return k / k.sum(axis=-1, keepdims=True) if filled > 0 else k


def read(weights: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """`phi_t^r = w_t^r . M` (equation 11); `[batch, R, Z]`, zero while nothing is in memory."""
    return weights[:, :, : memory.shape[1]] @ memory


def gate(parameters: Mapping[str, np.ndarray], hidden: np.ndarray, retrieved: np.ndarray) -> np.ndarray:
    """`Psi_t^r = phi_t^r * sigmoid(g^r)`, concatenated over heads (equation 12); `[batch, R * Z]`."""
    batch, heads, latent = retrieved.shape
    correction = linear(hidden, parameters, "gate").reshape(batch, heads, latent)
    return (retrieved * sigmoid(correction)).reshape(batch, heads * latent)


def step(
    parameters: Mapping[str, np.ndarray], previous: Previous | None, condition: np.ndarray | None, state: IntrospectionState
) -> tuple[MemoryContext, IntrospectionState]:
    """Step t: write z_{t-1}, update the controller (equation 9), read (equations 10 to 12).

    At t = 1 nothing is written and the controller takes a zero vector for z_0. `condition` is c_t `[batch, C]`.
    """
    batch, _, latent_size = state.memory.shape
    _, heads, slots = sizes(parameters, latent_size)

    memory = state.memory if previous is None else write(state.memory, previous.latent, slots)
    latent = np.zeros((batch, latent_size)) if previous is None else previous.latent
    x = latent if condition is None else np.concatenate([latent, condition], axis=-1)
    controller = lstm(parameters, x, state.controller)

    weights = attention(parameters, controller.hidden, memory.shape[1], heads, slots)
    psi = gate(parameters, controller.hidden, read(weights, memory))
    return MemoryContext(psi, weights), IntrospectionState(controller, memory)


def run(
    parameters: Mapping[str, np.ndarray], latents: np.ndarray, conditions: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """All steps with given latents `z_1 .. z_T`.

    `latents [T, B, Z]`, `conditions [T, B, C]`; returns `psi [T, B, R * Z]` and `read_weights [T, B, R, L]`.
    """
    steps, batch, latent_size = latents.shape
    state = initial_state(parameters, batch, latent_size)
    contexts = []
    for t in range(steps):
        previous = None if t == 0 else Previous(latents[t - 1])
        context, state = step(parameters, previous, None if conditions is None else conditions[t], state)
        contexts.append(context)
    return np.stack([c.psi for c in contexts]), np.stack([c.read_weights for c in contexts])


def parameter_shapes(latent: int, condition: int, hidden: int, attention_hidden: int, heads: int, slots: int) -> dict[str, tuple[int, ...]]:
    return {
        "lstm.weight_input": (latent + condition, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
        "attention_hidden.weight": (hidden, attention_hidden),
        "attention_hidden.bias": (attention_hidden,),
        "attention_output.weight": (attention_hidden, heads * slots),
        "attention_output.bias": (heads * slots,),
        "gate.weight": (hidden, heads * latent),
        "gate.bias": (heads * latent,),
    }
