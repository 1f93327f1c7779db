"""The networks for frames of 3-D environments (Gemici et al. 2017, appendix B.2): a global and a local pathway, for 32x32 frames.

    global     C@32 -> W@10 -> 2W@4 -> 2W@1      kernels 5, 4, 4; strides 3, 2, 1; no padding
    local      C@32 -> 16@16 -> 8@8              kernels 4; strides 2; padding 1
    features   linear([global; local])

The decoder is the transpose: a linear layer to the last maps of both pathways, then transposed convolutions; the outputs of the pathways are
added. ReLU between layers. Frames in `[0, 1]` are scaled to `[-1, 1]` before the encoder. Parameters:

    whole.0, .1, .2    local.0, .1        weights `[outputs, inputs, K, K]`; of the decoder, from coarse to fine, `[inputs, outputs, K, K]`
    features [2W + 512, F]                of the encoder; rows by channel, then by row and column of the map
    top [I, 2W + 512]                     of the decoder
"""

from typing import Mapping

import numpy as np

from numerics import relu
from svg import convolution, transposed_convolution

GLOBAL = [(5, 3, 0), (4, 2, 0), (4, 1, 0)]  # size, stride, padding
LOCAL = [(4, 2, 1), (4, 2, 1)]


def encode(parameters: Mapping[str, np.ndarray], frames: np.ndarray) -> np.ndarray:
    """Features `[rows, F]` of `frames [rows, C, 32, 32]`."""

    def follow(name: str, layers: list[tuple[int, int, int]]) -> np.ndarray:
        maps = 2.0 * frames - 1.0
        for place, (_, stride, padding) in enumerate(layers):
            maps = relu(convolution(maps, parameters, f"{name}.{place}", stride, padding))
        return maps.reshape(len(frames), -1)

    both = np.concatenate([follow("whole", GLOBAL), follow("local", LOCAL)], axis=1)
    return both @ parameters["features.weight"] + parameters["features.bias"]


def decode(parameters: Mapping[str, np.ndarray], inputs: np.ndarray) -> np.ndarray:
    """Outputs `[rows, C, 32, 32]` of `inputs [rows, I]`."""

    def follow(maps: np.ndarray, name: str, layers: list[tuple[int, int, int]]) -> np.ndarray:
        for place, (_, stride, padding) in enumerate(reversed(layers)):
            maps = transposed_convolution(relu(maps), parameters, f"{name}.{place}", stride, padding)
        return maps

    top = inputs @ parameters["top.weight"] + parameters["top.bias"]
    whole = parameters["whole.0.weight"].shape[0]
    return follow(top[:, :whole, None, None], "whole", GLOBAL) + follow(top[:, whole:].reshape(-1, 8, 8, 8), "local", LOCAL)


def parameter_shapes(decoder: bool, *, frame: int, width: int, numbers: int) -> dict[str, tuple[int, ...]]:
    """`numbers` are the features of the encoder or the inputs of the decoder."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, channels, layers in (("whole", [frame, width, 2 * width, 2 * width], GLOBAL), ("local", [frame, 16, 8], LOCAL)):
        pairs = list(zip(channels, channels[1:], layers))
        for place, (before, after, (size, _, _)) in enumerate(reversed(pairs) if decoder else pairs):
            shapes[f"{name}.{place}.weight"] = (after, before, size, size)
            shapes[f"{name}.{place}.bias"] = (before if decoder else after,)
    last = 2 * width + 8 * 8 * 8
    if decoder:
        return shapes | {"top.weight": (numbers, last), "top.bias": (last,)}
    return shapes | {"features.weight": (last, numbers), "features.bias": (numbers,)}
