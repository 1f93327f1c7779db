"""The differentiable neural computer as a memory (Graves et al. 2016, methods; Gemici et al. 2017, section 3.2).

One write head, which looks for a key or for a free slot; read heads, which look for a key or walk along the order of writing, forward or
backward. Each step writes and then reads.

Sizes: Z latent, C condition, H LSTM hidden, R read heads, W word width, N slots, B batch, T steps.

    lstm.weight_input [Z + C + R * W, 4H]   lstm.weight_hidden [H, 4H]   lstm.bias [4H]
    interface.weight [H, O]                 interface.bias [O]           O = R * W + 3 * W + 5 * R + 3

The controller is one LSTM, an LSTM in layers as in `stacked_lstm.py` (`lstm.layers.l.weight_input` and so on; for H in the interface and in the
context the H of all layers), or layers without a state, a tanh behind each (`lstm.layers.l.weight`, `lstm.layers.l.bias`).

The outputs of `interface`, in this order (head-major where there are several numbers a head):

    read keys [R, W]   read strengths [R] 1 + softplus   write key [W]   write strength [1] 1 + softplus
    erase [W] sigmoid   write vector [W]   free gates [R] sigmoid   allocation gate [1] sigmoid   write gate [1] sigmoid
    read modes [R, 3] softmax over (backward, content, forward)

Usage takes the write weights as constants: no gradient passes from one to the other. Allocation is differentiated at a fixed order of the
slots.
"""

from typing import Mapping, NamedTuple

import numpy as np

import stacked_lstm
from addressing import ascending, content_weights, context, controller_input, parts
from lstm import LstmState, initial_state as initial_lstm_state, lstm
from memory import MemoryContext, Previous
from numerics import clamp, linear, oneplus, sigmoid, softmax
from stacked_lstm import layer_parameters

USAGE_EPSILON = 1e-6
CELL_LIMIT = 20.0


class Sizes(NamedTuple):
    heads: int
    word: int
    slots: int
    controller: str = "lstm"  # or "stacked", "feed-forward"
    layers: int = 1


class Interface(NamedTuple):
    read_keys: np.ndarray  # [batch, R, W]
    read_strengths: np.ndarray  # [batch, R]
    write_key: np.ndarray  # [batch, 1, W]
    write_strength: np.ndarray  # [batch, 1]
    erase: np.ndarray  # [batch, 1, W]
    write_vector: np.ndarray  # [batch, 1, W]
    free_gates: np.ndarray  # [batch, R]
    allocation_gate: np.ndarray  # [batch, 1]
    write_gate: np.ndarray  # [batch, 1]
    read_modes: np.ndarray  # [batch, R, 3]


class DncState(NamedTuple):
    controller: LstmState | tuple[LstmState, ...]  # one a layer if there are layers
    memory: np.ndarray  # M [batch, N, W]
    usage: np.ndarray  # u [batch, N]
    allocation: np.ndarray  # a [batch, N]; not read by the next step
    write_weights: np.ndarray  # w^w [batch, N]
    precedence: np.ndarray  # p [batch, N]
    links: np.ndarray  # L [batch, N, N]; [i, j] is large when i was written just after j
    read_weights: np.ndarray  # w^r [batch, R, N]
    reads: np.ndarray  # [batch, R, W]


def initial_state(parameters: Mapping[str, np.ndarray], sizes: Sizes, batch: int) -> DncState:
    """Everything at zero."""
    heads, word, slots = sizes[:3]
    nowhere = np.zeros((batch, slots))
    return DncState(
        initial_controller(parameters, sizes, batch),
        memory=np.zeros((batch, slots, word)),
        usage=nowhere,
        allocation=nowhere,
        write_weights=nowhere,
        precedence=nowhere,
        links=np.zeros((batch, slots, slots)),
        read_weights=np.zeros((batch, heads, slots)),
        reads=np.zeros((batch, heads, word)),
    )


def initial_controller(parameters: Mapping[str, np.ndarray], sizes: Sizes, batch: int) -> LstmState | tuple[LstmState, ...]:
    if sizes.controller == "lstm":
        return initial_lstm_state(parameters, batch)
    if sizes.controller == "feed-forward":
        return ()
    zeros = np.zeros((batch, parameters["lstm.layers.0.weight_hidden"].shape[0]))
    return (LstmState(zeros, zeros),) * sizes.layers


def limited(state: LstmState) -> LstmState:
    return LstmState(state.hidden, clamp(state.cell, -CELL_LIMIT, CELL_LIMIT))


def update_controller(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, x: np.ndarray, state: LstmState | tuple[LstmState, ...]
) -> tuple[np.ndarray, LstmState | tuple[LstmState, ...]]:
    """What the controller says, and its state with cells within their limit."""
    if sizes.controller == "lstm":
        state = lstm(parameters, x, state)
        return state.hidden, limited(state)
    if sizes.controller == "feed-forward":
        for layer in range(sizes.layers):
            x = np.tanh(linear(x, parameters, f"lstm.layers.{layer}"))
        return x, ()
    layers: list[LstmState] = []
    own = {name.removeprefix("lstm."): value for name, value in parameters.items() if name.startswith("lstm.layers.")}
    for layer, before in enumerate(state):
        below = [layers[-1].hidden] if layers else []
        layers.append(lstm(layer_parameters(own, layer), np.concatenate([x, *below], axis=-1), before))
    return np.concatenate([layer.hidden for layer in layers], axis=-1), tuple(limited(layer) for layer in layers)


def first_weight(parameters: Mapping[str, np.ndarray], sizes: Sizes) -> dict[str, np.ndarray]:
    """That of the controller's first layer, under the name by which the width of its input is found."""
    name = {"lstm": "lstm.weight_input", "stacked": "lstm.layers.0.weight_input", "feed-forward": "lstm.layers.0.weight"}
    return {"lstm.weight_input": parameters[name[sizes.controller]]}


def interface(parameters: Mapping[str, np.ndarray], sizes: Sizes, hidden: np.ndarray) -> Interface:
    heads, word = sizes[:2]
    raw = Interface(
        *parts(
            linear(hidden, parameters, "interface"),
            (heads, word),
            (heads,),
            (1, word),
            (1,),
            (1, word),
            (1, word),
            (heads,),
            (1,),
            (1,),
            (heads, 3),
        )
    )
    return raw._replace(
        read_strengths=oneplus(raw.read_strengths),
        write_strength=oneplus(raw.write_strength),
        erase=sigmoid(raw.erase),
        free_gates=sigmoid(raw.free_gates),
        allocation_gate=sigmoid(raw.allocation_gate),
        write_gate=sigmoid(raw.write_gate),
        read_modes=softmax(raw.read_modes),
    )


def update_usage(usage: np.ndarray, written: np.ndarray, free_gates: np.ndarray, read_weights: np.ndarray) -> np.ndarray:
    """`u_t = (u + w - u * w) * prod_r (1 - f^r w^r)`, everything on the right of step t-1 except the free gates."""
    retention = np.prod(1.0 - free_gates[:, :, None] * read_weights, axis=1)
    return (usage + written - usage * written) * retention


def allocate(usage: np.ndarray) -> np.ndarray:
    """`a[phi_j] = (1 - u'[phi_j]) prod_{i<j} u'[phi_i]` along the free list `phi`, where `u' = eps + (1 - eps) u`; `[batch, N]`."""
    order = ascending(usage)
    taken = np.take_along_axis(USAGE_EPSILON + (1.0 - USAGE_EPSILON) * usage, order, axis=-1)
    before = np.cumprod(np.concatenate([np.ones_like(taken[:, :1]), taken[:, :-1]], axis=-1), axis=-1)
    return np.take_along_axis((1.0 - taken) * before, np.argsort(order, axis=-1), axis=-1)


def update_links(links: np.ndarray, precedence: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`L_t[i, j] = (1 - w[i] - w[j]) L[i, j] + w[i] p[j]`, zero on the diagonal; `p` is that of step t-1."""
    onto, out_of = weights[:, :, None], weights[:, None, :]
    return ((1.0 - onto - out_of) * links + onto * precedence[:, None, :]) * (1.0 - np.eye(weights.shape[-1]))


def step(
    parameters: Mapping[str, np.ndarray],
    sizes: Sizes,
    previous: Previous | None,
    condition: np.ndarray | None,
    state: DncState,
    written: np.ndarray | None = None,
) -> tuple[MemoryContext, DncState]:
    """Step t: update the controller, write at addresses found in M_{t-1}, read at addresses found in M_t.

    `written [batch, N]` stands in for w^w_{t-1} in usage, for finite differences that must not see how it varies.
    """
    x = controller_input(first_weight(parameters, sizes), previous, condition, state.reads)
    hidden, controller = update_controller(parameters, sizes, x, state.controller)
    told = interface(parameters, sizes, hidden)

    written = np.real(state.write_weights) if written is None else written
    usage = update_usage(state.usage, written, told.free_gates, state.read_weights)
    allocation = allocate(usage)
    found = content_weights(state.memory, told.write_key, told.write_strength)[:, 0]
    weights = told.write_gate * (told.allocation_gate * allocation + (1.0 - told.allocation_gate) * found)

    memory = state.memory * (1.0 - weights[:, :, None] * told.erase) + weights[:, :, None] * told.write_vector
    links = update_links(state.links, state.precedence, weights)
    precedence = (1.0 - weights.sum(axis=-1, keepdims=True)) * state.precedence + weights

    backward = state.read_weights @ links  # sum_i w^r[i] L[i, j]
    forward = state.read_weights @ np.swapaxes(links, -1, -2)  # sum_j L[i, j] w^r[j]
    content = content_weights(memory, told.read_keys, told.read_strengths)
    modes = told.read_modes
    read_weights = modes[:, :, 0:1] * backward + modes[:, :, 1:2] * content + modes[:, :, 2:3] * forward
    reads = read_weights @ memory

    return (
        MemoryContext(context(reads, hidden), read_weights),
        DncState(controller, memory, usage, allocation, weights, precedence, links, read_weights, reads),
    )


def run(
    parameters: Mapping[str, np.ndarray],
    sizes: Sizes,
    latents: np.ndarray,
    conditions: np.ndarray | None,
    written: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """All steps with given latents `[T, B, Z]` and conditions `[T, B, C]`.

    Returns `psi [T, B, R * W + H]`, `read_weights [T, B, R, N]`, `write_weights` and `allocation [T, B, 1, N]`, and `usage [T, B, N]`, from
    which the allocation of the same step was made. `written`, like `write_weights`, stands in for them in usage (see `step`).
    """
    state = initial_state(parameters, sizes, latents.shape[1])
    outputs: dict[str, list[np.ndarray]] = {"psi": [], "read_weights": [], "write_weights": [], "allocation": [], "usage": []}
    for t in range(len(latents)):
        previous = None if t == 0 else Previous(latents[t - 1])
        stand_in = None if t == 0 or written is None else written[t - 1, :, 0]
        seen, state = step(parameters, sizes, previous, None if conditions is None else conditions[t], state, stand_in)
        outputs["psi"].append(seen.psi)
        outputs["read_weights"].append(seen.read_weights)
        outputs["write_weights"].append(state.write_weights[:, None])
        outputs["allocation"].append(state.allocation[:, None])
        outputs["usage"].append(state.usage)
    return {name: np.stack(values) for name, values in outputs.items()}


def parameter_shapes(sizes: Sizes, latent: int, condition: int, hidden: int) -> dict[str, tuple[int, ...]]:
    heads, word = sizes[:2]
    outputs = heads * word + 3 * word + 5 * heads + 3
    inputs = latent + condition + heads * word
    if sizes.controller == "stacked":
        shapes = {f"lstm.{name}": shape for name, shape in stacked_lstm.parameter_shapes(inputs, hidden, sizes.layers).items()}
        return shapes | {"interface.weight": (sizes.layers * hidden, outputs), "interface.bias": (outputs,)}
    if sizes.controller == "feed-forward":
        shapes = {}
        for layer in range(sizes.layers):
            shapes[f"lstm.layers.{layer}.weight"] = (inputs if layer == 0 else hidden, hidden)
            shapes[f"lstm.layers.{layer}.bias"] = (hidden,)
        return shapes | {"interface.weight": (hidden, outputs), "interface.bias": (outputs,)}
    return {
        "lstm.weight_input": (inputs, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
        "interface.weight": (hidden, outputs),
        "interface.bias": (outputs,),
    }
