"""A buffer of latents read by position, by content, and by what followed the content. No paper: this one is ours.

Each step stores the last latent as it is, first in first out as in the introspection network, and beside it two keys: one made of the latent,
one made of the controller's output at the step of that latent. A read head mixes three ways of addressing: softplus attention over positions
(`introspection.attention`), likeness to the keys, and the slot after the likeness, which is what came next the last time things were like now.

Sizes: Z latent, C condition, H LSTM hidden, A attention hidden, K key, R read heads, L slots, B batch, T steps.

    lstm.weight_input [Z + C, 4H]        lstm.weight_hidden [H, 4H]        lstm.bias [4H]
    attention_hidden.weight [H, A]       attention_hidden.bias [A]
    attention_output.weight [A, R * L]   attention_output.bias [R * L]     head-major: [R, L]
    latent_key.weight [Z, K]             latent_key.bias [K]
    place_key.weight [H, K]              place_key.bias [K]
    interface.weight [H, R * (Z + 5)]    interface.bias [R * (Z + 5)]

The outputs of `interface`, in this order (head-major where there are several numbers a head):

    gates [R, Z] sigmoid   latent strengths [R] softplus   place strengths [R] softplus
    modes [R, 3] softmax over (position, content, successor)
"""

from typing import Mapping, NamedTuple

import numpy as np

from addressing import context, cosine, parts
from introspection import attention, write
from lstm import LstmState, initial_state as initial_lstm_state, lstm
from memory import MemoryContext, Previous
from numerics import linear, sigmoid, softmax, softplus


class Sizes(NamedTuple):
    latent: int
    key: int
    heads: int
    slots: int


class HybridState(NamedTuple):
    controller: LstmState
    latents: np.ndarray  # [batch, filled, Z], oldest row first; filled <= L
    latent_keys: np.ndarray  # [batch, filled, K]
    place_keys: np.ndarray  # [batch, filled, K]


def initial_state(parameters: Mapping[str, np.ndarray], sizes: Sizes, batch: int) -> HybridState:
    """Controller at zero, nothing in memory."""
    nothing = np.zeros((batch, 0, sizes.key))
    return HybridState(initial_lstm_state(parameters, batch), np.zeros((batch, 0, sizes.latent)), nothing, nothing)


def store(parameters: Mapping[str, np.ndarray], sizes: Sizes, latent: np.ndarray, state: HybridState) -> HybridState:
    """Appends z_{t-1} with its keys; the place is where the controller was at step t-1."""
    return HybridState(
        state.controller,
        write(state.latents, latent, sizes.slots),
        write(state.latent_keys, linear(latent, parameters, "latent_key"), sizes.slots),
        write(state.place_keys, linear(state.controller.hidden, parameters, "place_key"), sizes.slots),
    )


def content(scores: np.ndarray) -> np.ndarray:
    """Softmax over the filled slots; `[batch, R, n]`."""
    return softmax(scores)


def successor(scores: np.ndarray) -> np.ndarray:
    """Softmax over all filled slots but the newest, each weight moved to the next newer slot; zero with one filled slot; `[batch, R, n]`."""
    first = np.zeros_like(scores[:, :, :1])
    return first if scores.shape[-1] == 1 else np.concatenate([first, softmax(scores[:, :, :-1])], axis=-1)


def step(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, previous: Previous | None, condition: np.ndarray | None, state: HybridState
) -> tuple[MemoryContext, HybridState]:
    """Step t: store z_{t-1}, update the controller, read.

    At t = 1 nothing is stored and the controller takes a zero vector for z_0. `condition` is c_t `[batch, C]`.
    """
    latent_size, _, heads, slots = sizes
    batch = len(state.latents)
    latent = np.zeros((batch, latent_size)) if previous is None else previous.latent
    held = state if previous is None else store(parameters, sizes, latent, state)
    filled = held.latents.shape[1]

    x = latent if condition is None else np.concatenate([latent, condition], axis=-1)
    controller = lstm(parameters, x, state.controller)
    hidden = controller.hidden
    told = linear(hidden, parameters, "interface")
    gates, latent_strengths, place_strengths, modes = parts(told, (heads, latent_size), (heads,), (heads,), (heads, 3))

    weights = attention(parameters, hidden, filled, heads, slots)[:, :, :filled]
    if filled > 0:
        alike = cosine(held.latent_keys, linear(latent, parameters, "latent_key")[:, None])
        near = cosine(held.place_keys, linear(hidden, parameters, "place_key")[:, None])
        scores = softplus(latent_strengths)[:, :, None] * alike + softplus(place_strengths)[:, :, None] * near
        modes = softmax(modes)
        weights = modes[:, :, 0:1] * weights + modes[:, :, 1:2] * content(scores) + modes[:, :, 2:3] * successor(scores)

    retrieved = weights @ held.latents
    padded = np.concatenate([weights, np.zeros((batch, heads, slots - filled))], axis=-1)
    return MemoryContext(context(retrieved * sigmoid(gates), hidden), padded), held._replace(controller=controller)


def run(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, latents: np.ndarray, conditions: np.ndarray | None
) -> dict[str, np.ndarray]:
    """All steps with given latents `[T, B, Z]` and conditions `[T, B, C]`.

    Returns `psi [T, B, R * Z + H]` and `read_weights [T, B, R, L]`, zero on slots that hold nothing.
    """
    state = initial_state(parameters, sizes, latents.shape[1])
    contexts = []
    for t in range(len(latents)):
        previous = None if t == 0 else Previous(latents[t - 1])
        seen, state = step(parameters, sizes, previous, None if conditions is None else conditions[t], state)
        contexts.append(seen)
    return {"psi": np.stack([c.psi for c in contexts]), "read_weights": np.stack([c.read_weights for c in contexts])}


def parameter_shapes(sizes: Sizes, attention_hidden: int, condition: int, hidden: int) -> dict[str, tuple[int, ...]]:
    latent, key, heads, slots = sizes
    return {
        "lstm.weight_input": (latent + condition, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
        "attention_hidden.weight": (hidden, attention_hidden),
        "attention_hidden.bias": (attention_hidden,),
        "attention_output.weight": (attention_hidden, heads * slots),
        "attention_output.bias": (heads * slots,),
        "latent_key.weight": (latent, key),
        "latent_key.bias": (key,),
        "place_key.weight": (hidden, key),
        "place_key.bias": (key,),
        "interface.weight": (hidden, heads * (latent + 5)),
        "interface.bias": (heads * (latent + 5),),
    }
