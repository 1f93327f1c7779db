"""The relational memory core (Santoro et al. 2018, section 3, in the formulation of its public implementation).

The rows of the memory and the projected input attend to each other, each row then goes through an MLP, and gates decide how much of the
result a row takes over. There is no hidden state beside the memory.

Sizes: I input row, J rows of an input, N slots, H heads, V head size, K key size, F = H * V memory width, G gate width (F for 'unit', 1 for
'memory', no gates for 'none'), A gates (2; 3 with an output gate), B batch, T steps.

    input.weight [I, F]                             input.bias [F]
    blocks.b.qkv.weight [F, H * (2K + V)]           blocks.b.qkv.bias            head by head: query, key, value
    blocks.b.qkv_norm.gamma, .beta [H * (2K + V)]   over all heads of a row together
    blocks.b.attention_norm.gamma, .beta [F]        blocks.b.mlp_norm.gamma, .beta [F]
    mlp.l.weight [F, F]                             mlp.l.bias [F]               one a layer, the same in all blocks
    gate_input.weight [J * F, A * G]                gate_input.bias [A * G]      input gate, forget gate, output gate
    gate_memory.weight [F, A * G]                   gate_memory.bias [A * G]
"""

from typing import Mapping, NamedTuple

import numpy as np

from numerics import linear, relu, sigmoid, softmax

NORM_EPSILON = 1e-5
FORGET_BIAS = 1.0
INPUT_BIAS = 0.0


class Sizes(NamedTuple):
    slots: int
    heads: int
    head: int
    key: int
    blocks: int = 1
    layers: int = 2
    rows: int = 1
    gates: str = "unit"
    output_gate: bool = False

    @property
    def width(self) -> int:
        return self.heads * self.head

    @property
    def gate_width(self) -> int:
        return {"unit": self.width, "memory": 1, "none": 0}[self.gates]


def initial_memory(sizes: Sizes, batch: int) -> np.ndarray:
    """The identity, cut off or filled up with zeros to the width of a row; `[batch, N, F]`."""
    return np.broadcast_to(np.eye(sizes.slots, sizes.width), (batch, sizes.slots, sizes.width))


def layer_norm(x: np.ndarray, parameters: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Each row for itself, over its features."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + NORM_EPSILON) * parameters[f"{name}.gamma"] + parameters[f"{name}.beta"]


def mlp(parameters: Mapping[str, np.ndarray], layers: int, x: np.ndarray) -> np.ndarray:
    for layer in range(layers):
        x = linear(x, parameters, f"mlp.{layer}")
        if layer < layers - 1:
            x = relu(x)
    return x


def attend(parameters: Mapping[str, np.ndarray], sizes: Sizes, block: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each row of `x [batch, rows, F]` reads off all rows, and its weights `[batch, H, rows, rows]`."""
    name = f"blocks.{block}"
    projected = layer_norm(linear(x, parameters, f"{name}.qkv"), parameters, f"{name}.qkv_norm")
    read, weights = [], []
    for of_head in np.split(projected, sizes.heads, axis=-1):
        query, key, value = np.split(of_head, [sizes.key, 2 * sizes.key], axis=-1)
        weights.append(softmax(query / np.sqrt(sizes.key) @ np.swapaxes(key, -1, -2)))
        read.append(weights[-1] @ value)
    return np.concatenate(read, axis=-1), np.stack(weights, axis=1)


def step(
    parameters: Mapping[str, np.ndarray], sizes: Sizes, given: np.ndarray, memory: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`given [batch, J * I]`: the output `[batch, N * F]`, weights of the last block `[batch, H, N, N + J]`, and the new memory."""
    batch = len(given)
    rows = linear(given.reshape(batch, sizes.rows, -1), parameters, "input")
    x = np.concatenate([memory, rows], axis=1)
    for block in range(sizes.blocks):
        read, weights = attend(parameters, sizes, block, x)
        x = layer_norm(x + read, parameters, f"blocks.{block}.attention_norm")
        x = layer_norm(x + mlp(parameters, sizes.layers, x), parameters, f"blocks.{block}.mlp_norm")
    candidate = x[:, : sizes.slots]
    weights = weights[:, :, : sizes.slots]
    if sizes.gates == "none":
        return candidate.reshape(batch, -1), weights, candidate

    from_input = linear(rows.reshape(batch, -1), parameters, "gate_input")
    gates = from_input[:, None] + linear(np.tanh(memory), parameters, "gate_memory")
    input_gate, forget_gate, *output_gate = np.split(gates, 3 if sizes.output_gate else 2, axis=-1)
    kept = sigmoid(forget_gate + FORGET_BIAS) * memory
    memory = sigmoid(input_gate + INPUT_BIAS) * np.tanh(candidate) + kept
    output = sigmoid(output_gate[0]) * np.tanh(memory) if sizes.output_gate else memory
    return output.reshape(batch, -1), weights, memory


def run(parameters: Mapping[str, np.ndarray], sizes: Sizes, inputs: np.ndarray) -> dict[str, np.ndarray]:
    """All steps with given inputs `[T, B, J * I]`: `outputs [T, B, N * F]`, `attention [T, B, H, N, N + J]`."""
    memory = initial_memory(sizes, inputs.shape[1])
    outputs: dict[str, list[np.ndarray]] = {"outputs": [], "attention": []}
    for given in inputs:
        output, weights, memory = step(parameters, sizes, given, memory)
        outputs["outputs"].append(output)
        outputs["attention"].append(weights)
    return {name: np.stack(values) for name, values in outputs.items()}


def parameter_shapes(sizes: Sizes, row: int) -> dict[str, tuple[int, ...]]:
    width = sizes.width
    projected = sizes.heads * (2 * sizes.key + sizes.head)
    shapes = {"input.weight": (row, width), "input.bias": (width,)}
    for block in range(sizes.blocks):
        shapes |= {
            f"blocks.{block}.qkv.weight": (width, projected),
            f"blocks.{block}.qkv.bias": (projected,),
            f"blocks.{block}.qkv_norm.gamma": (projected,),
            f"blocks.{block}.qkv_norm.beta": (projected,),
        }
        for norm in ("attention_norm", "mlp_norm"):
            shapes |= {f"blocks.{block}.{norm}.gamma": (width,), f"blocks.{block}.{norm}.beta": (width,)}
    for layer in range(sizes.layers):
        shapes |= {f"mlp.{layer}.weight": (width, width), f"mlp.{layer}.bias": (width,)}
    if sizes.gates != "none":
        gates = (3 if sizes.output_gate else 2) * sizes.gate_width
        shapes |= {
            "gate_input.weight": (sizes.rows * width, gates),
            "gate_input.bias": (gates,),
            "gate_memory.weight": (width, gates),
            "gate_memory.bias": (gates,),
        }
    return shapes
