"""The LSTM cell that every controller uses (Hochreiter and Schmidhuber 1997, with forget gate)."""

from typing import Mapping, NamedTuple

import numpy as np

from numerics import sigmoid


class LstmState(NamedTuple):
    hidden: np.ndarray  # [batch, H]
    cell: np.ndarray  # [batch, H]


def initial_state(parameters: Mapping[str, np.ndarray], batch: int) -> LstmState:
    zeros = np.zeros((batch, parameters["lstm.weight_hidden"].shape[0]))
    return LstmState(hidden=zeros, cell=zeros)


def lstm(parameters: Mapping[str, np.ndarray], x: np.ndarray, state: LstmState) -> LstmState:
    """One update, `h_t = f_rnn(h_{t-1}, x)`.

    `lstm.weight_input [inputs, 4H]`, `lstm.weight_hidden [H, 4H]`, `lstm.bias [4H]`; gates along the last axis in the order input, forget,
    candidate, output; `x [batch, inputs]`.
    """
    gates = x @ parameters["lstm.weight_input"] + state.hidden @ parameters["lstm.weight_hidden"] + parameters["lstm.bias"]
    input_gate, forget_gate, candidate, output_gate = np.split(gates, 4, axis=-1)
    cell = sigmoid(forget_gate) * state.cell + sigmoid(input_gate) * np.tanh(candidate)
    hidden = sigmoid(output_gate) * np.tanh(cell)
    return LstmState(hidden, cell)
