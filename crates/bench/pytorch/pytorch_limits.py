"""Limits of the machine, measured with PyTorch: operations per second and bytes per second."""

import torch

from work import Work

SIDE = 1024
ELEMENTS = 1 << 25


def matrix_product() -> Work:
    """A product of square matrices in float32."""
    a, b, out = (torch.rand(SIDE, SIDE) for _ in range(3))
    return Work(forms={"torch.mm": lambda: torch.mm(a, b, out=out)})


def triad() -> Work:
    """`a = b + 3 c` over arrays of 128 MiB."""
    b, c, out = (torch.rand(ELEMENTS) for _ in range(3))
    return Work(forms={"torch.add": lambda: torch.add(b, c, alpha=3.0, out=out)})


WORKS = {"limit/matrix-product-1024": matrix_product, "limit/triad-384-mib": triad}
