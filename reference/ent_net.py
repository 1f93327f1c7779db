"""The recurrent entity network's memory (Henaff et al. 2017, section 2), its cells summed to an output (Santoro et al. 2018, appendix A.2).

Sizes: I input, D width of a cell, M cells, B batch, T steps.

    encode.weight [I, D]   encode.bias [D]      s_t, what a step brings
    keys [M, D]                                 w_j; each cell starts as its key
    from_cell [D, D]       U                    from_key [D, D]   V        from_input [D, D]   W
    bias [D]                                    slope [D]         of the PReLU below zero
"""

from typing import Mapping

import numpy as np

from numerics import linear, sigmoid

SMALLEST_NORM = 1e-8


def prelu(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(np.real(x) > 0, x, slope * x)


def normalise(x: np.ndarray) -> np.ndarray:
    """Each cell divided by its length."""
    squares = (x * x).sum(axis=-1, keepdims=True)
    return x / np.sqrt(np.where(np.real(squares) > SMALLEST_NORM**2, squares, SMALLEST_NORM**2))


def run(parameters: Mapping[str, np.ndarray], inputs: np.ndarray) -> dict[str, np.ndarray]:
    """All steps with given inputs `[T, B, I]`: `outputs [T, B, D]`, `gates [T, B, 1, M]`."""
    keys = parameters["keys"]
    cells = np.broadcast_to(keys, (inputs.shape[1], *keys.shape))
    outputs: dict[str, list[np.ndarray]] = {"outputs": [], "gates": []}
    for given in inputs:
        sentence = linear(given, parameters, "encode")[:, None]
        gates = sigmoid((sentence * cells).sum(axis=-1, keepdims=True) + (sentence * keys).sum(axis=-1, keepdims=True))
        before = cells @ parameters["from_cell"] + keys @ parameters["from_key"] + sentence @ parameters["from_input"] + parameters["bias"]
        cells = normalise(cells + gates * prelu(before, parameters["slope"]))
        outputs["outputs"].append(cells.sum(axis=1))
        outputs["gates"].append(np.swapaxes(gates, -1, -2))
    return {name: np.stack(values) for name, values in outputs.items()}


def parameter_shapes(inputs: int, width: int, cells: int) -> dict[str, tuple[int, ...]]:
    return {
        "encode.weight": (inputs, width),
        "encode.bias": (width,),
        "keys": (cells, width),
        "from_cell": (width, width),
        "from_key": (width, width),
        "from_input": (width, width),
        "bias": (width,),
        "slope": (width,),
    }
