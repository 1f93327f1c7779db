"""The VRNN core seen as a memory: all that is known of the past is the hidden state of an LSTM.

Chung et al. 2015; the baseline of Gemici et al. 2017, section 2: `h_t = LSTM(h_{t-1}, [features(x_t) ; z_t])`, with prior, posterior and
likelihood of step t conditioned on h_{t-1}. In the convention of a memory, step t first takes in what step t-1 produced, so `psi` of step t
is the paper's h_{t-1}.

    lstm.weight_input [F + Z + C, 4H]   lstm.weight_hidden [H, 4H]   lstm.bias [4H]
"""

from typing import Mapping

import numpy as np

from lstm import LstmState, initial_state, lstm
from memory import MemoryContext, Previous


def step(
    parameters: Mapping[str, np.ndarray], previous: Previous | None, condition: np.ndarray | None, state: LstmState
) -> tuple[MemoryContext, LstmState]:
    """Step t: `psi_t = h_t = LSTM(h_{t-1}, [features_{t-1} ; z_{t-1} ; c_t])`; at t = 1 `psi` is the initial hidden state, zero.

    `condition` is c_t `[batch, C]`; that of the first step is not read.
    """
    if previous is None:
        return MemoryContext(state.hidden), state
    taken_in = [previous.features, previous.latent] + ([] if condition is None else [condition])
    state = lstm(parameters, np.concatenate(taken_in, axis=-1), state)
    return MemoryContext(state.hidden), state


def run(
    parameters: Mapping[str, np.ndarray], features: np.ndarray, latents: np.ndarray, conditions: np.ndarray | None
) -> np.ndarray:
    """All steps with given features `[T, B, F]`, latents `[T, B, Z]` and conditions `[T, B, C]`; returns `psi [T, B, H]`."""
    steps, batch, _ = latents.shape
    state = initial_state(parameters, batch)
    psi = []
    for t in range(steps):
        previous = None if t == 0 else Previous(latents[t - 1], features[t - 1])
        context, state = step(parameters, previous, None if conditions is None else conditions[t], state)
        psi.append(context.psi)
    return np.stack(psi)


def parameter_shapes(features: int, latent: int, condition: int, hidden: int) -> dict[str, tuple[int, ...]]:
    return {
        "lstm.weight_input": (features + latent + condition, 4 * hidden),
        "lstm.weight_hidden": (hidden, 4 * hidden),
        "lstm.bias": (4 * hidden,),
    }
