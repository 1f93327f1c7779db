"""What a memory is given and what it returns, whichever memory it is."""

from typing import NamedTuple

import numpy as np


class Previous(NamedTuple):
    """What step t-1 produced. The memory at t = 1 is given `None` instead."""

    latent: np.ndarray  # z_{t-1}, [batch, Z]
    features: np.ndarray | None = None  # features of x_{t-1}, [batch, F]; only the VRNN core reads them


class MemoryContext(NamedTuple):
    """What prior, posterior and likelihood of step t may know of the past."""

    psi: np.ndarray  # [batch, context size]
    read_weights: np.ndarray | None = None  # [batch, R, L]
