"""An LSTM in layers with skip connections (Santoro et al. 2018, appendix A.2; Pascanu et al. 2013): every layer reads the input and the layer
below it, and the output is that of all layers side by side.

Sizes: I input, H hidden, L layers, B batch, T steps. `layers.l.weight_input [I, 4H]` for the first layer, `[I + H, 4H]` for the others,
`layers.l.weight_hidden [H, 4H]`, `layers.l.bias [4H]`; gates as in `lstm.py`.
"""

from typing import Mapping

import numpy as np

from lstm import LstmState, lstm


def layer_parameters(parameters: Mapping[str, np.ndarray], layer: int) -> dict[str, np.ndarray]:
    return {f"lstm.{name}": parameters[f"layers.{layer}.{name}"] for name in ("weight_input", "weight_hidden", "bias")}


def run(parameters: Mapping[str, np.ndarray], inputs: np.ndarray) -> dict[str, np.ndarray]:
    """All steps with given inputs `[T, B, I]`: `outputs [T, B, L * H]`."""
    layers = sum(name.endswith(".bias") for name in parameters if name.startswith("layers."))
    zeros = np.zeros((inputs.shape[1], parameters["layers.0.weight_hidden"].shape[0]))
    states = [LstmState(zeros, zeros) for _ in range(layers)]
    outputs = []
    for given in inputs:
        for layer in range(layers):
            below = [] if layer == 0 else [states[layer - 1].hidden]
            states[layer] = lstm(layer_parameters(parameters, layer), np.concatenate([given, *below], axis=-1), states[layer])
        outputs.append(np.concatenate([state.hidden for state in states], axis=-1))
    return {"outputs": np.stack(outputs)}


def parameter_shapes(inputs: int, hidden: int, layers: int) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for layer in range(layers):
        shapes |= {
            f"layers.{layer}.weight_input": (inputs + (hidden if layer > 0 else 0), 4 * hidden),
            f"layers.{layer}.weight_hidden": (hidden, 4 * hidden),
            f"layers.{layer}.bias": (4 * hidden,),
        }
    return shapes
