"""The output of CDNA and SV2P: the previous frame moved by predicted kernels and put together by masks (Finn et al. 2016; Babaeizadeh et al. 2018).

    m_k = kernel_k / sum of kernel_k,   kernel_k = relu(raw_k - s) + s,   s = 1e-12           K kernels
    moved_k[i, j] = sum_{a, b} m_k[a, b] previous[i + a - p, j + b - p],   p = size // 2       zeros around; every channel alike
    masks = softmax over the K + 1 mask logits of each pixel
    frame = masks_0 previous + masks_1 generated + sum_{k = 1..K-1} masks_{k+1} moved_k,   generated = sigmoid(its logits)

There are K + 1 masks for K + 2 images, and both public releases pair them one by one until the masks end: the last kernel is not used. It is
normalised and applied like the others, and gets no gradient.

Sizes: K kernels of k x k (10 of 5x5), C channels, Y by X pixels, B batch. No parameters: the raw numbers are outputs of layers.
"""

import numpy as np

from numerics import relu, sigmoid, softmax

RELU_SHIFT = 1e-12


def normalised(raw_kernels: np.ndarray) -> np.ndarray:
    """Kernels that sum to one, of `raw_kernels [B, K, k, k]`; one with no positive number becomes uniform."""
    kernels = relu(raw_kernels - RELU_SHIFT) + RELU_SHIFT
    return kernels / kernels.sum(axis=(-2, -1), keepdims=True)


def move(previous: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    """`previous [B, C, Y, X]` under each of `kernels [B, K, k, k]`: `[B, K, C, Y, X]`."""
    size = kernels.shape[-1]
    p = size // 2
    height, width = previous.shape[-2:]
    padded = np.pad(previous, ((0, 0), (0, 0), (p, p), (p, p)))
    return sum(
        kernels[:, :, None, a, b, None, None] * padded[:, None, :, a : a + height, b : b + width] for a, b in np.ndindex(size, size)
    )


def transform(
    raw_kernels: np.ndarray, mask_logits: np.ndarray, generated_logits: np.ndarray, previous: np.ndarray
) -> dict[str, np.ndarray]:
    """For `raw_kernels [B, K, k, k]`, `mask_logits [B, K + 1, Y, X]`, `generated_logits` and `previous [B, C, Y, X]`.

    Returns `kernels`, `masks`, `generated`, `moved [B, K, C, Y, X]` and `frame [B, C, Y, X]`.
    """
    kernels = normalised(raw_kernels)
    masks = np.moveaxis(softmax(np.moveaxis(mask_logits, 1, -1)), -1, 1)
    generated = sigmoid(generated_logits)
    moved = move(previous, kernels)
    used = moved[:, : masks.shape[1] - 2]
    frame = masks[:, :1] * previous + masks[:, 1:2] * generated + (masks[:, 2:, None] * used).sum(axis=1)
    return {"kernels": kernels, "masks": masks, "generated": generated, "moved": moved, "frame": frame}
