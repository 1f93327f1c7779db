"""The convolutional LSTM (Shi et al. 2015, without peepholes; Santoro et al. 2018, appendix A.3): an LSTM whose maps are convolutions.

Sizes: C channels of the state, I channels of the input, Y by X pixels, K kernel, B batch, T steps. Kernels are `[outputs, inputs, K, K]`, stride 1; the
image is padded with zeros to keep its size, an even kernel once more at the bottom and at the right than at the top and at the left.

    weight_input [4C, I, K, K]   weight_hidden [4C, C, K, K]   bias [4C]   gates in the order input, forget, candidate, output
"""

from typing import Mapping

import numpy as np

from numerics import sigmoid


def convolve(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """`[batch, inputs, Y, X]` with `[outputs, inputs, K, K]`; `[batch, outputs, Y, X]`."""
    size = kernel.shape[-1]
    before, after = (size - 1) // 2, size // 2
    height, width = image.shape[-2:]
    padded = np.pad(image, ((0, 0), (0, 0), (before, after), (before, after)))
    shifts = np.ndindex(size, size)
    return sum(np.einsum("oi,biyx->boyx", kernel[:, :, k, l], padded[:, :, k : k + height, l : l + width]) for k, l in shifts)


def update(gates: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden state and cell after `gates [batch, 4C, Y, X]`, from the cell before."""
    input_gate, forget_gate, candidate, output_gate = np.split(gates, 4, axis=1)
    cell = sigmoid(forget_gate) * cell + sigmoid(input_gate) * np.tanh(candidate)
    return sigmoid(output_gate) * np.tanh(cell), cell


def run(parameters: Mapping[str, np.ndarray], inputs: np.ndarray, pixels: tuple[int, int]) -> dict[str, np.ndarray]:
    """All steps with given images `[T, B, I * Y * X]`: `outputs [T, B, C * Y * X]`."""
    steps, batch = inputs.shape[:2]
    channels = parameters["weight_hidden"].shape[1]
    hidden = cell = np.zeros((batch, channels, *pixels))
    outputs = []
    for image in inputs.reshape(steps, batch, -1, *pixels):
        gates = convolve(image, parameters["weight_input"]) + convolve(hidden, parameters["weight_hidden"])
        hidden, cell = update(gates + parameters["bias"][:, None, None], cell)
        outputs.append(hidden.reshape(batch, -1))
    return {"outputs": np.stack(outputs)}


def parameter_shapes(inputs: int, channels: int, kernel: int) -> dict[str, tuple[int, ...]]:
    return {
        "weight_input": (4 * channels, inputs, kernel, kernel),
        "weight_hidden": (4 * channels, channels, kernel, kernel),
        "bias": (4 * channels,),
    }
