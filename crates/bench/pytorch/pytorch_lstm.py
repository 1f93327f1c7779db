"""An LSTM over 25 steps of ten sequences, in eager PyTorch: step by step, as for a core that reads a memory between steps, and as one `nn.LSTM` call."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from work import Work

STEPS, BATCH, INPUTS = 25, 10, 32
Step = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def cell_update(preactivations: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell state from `[B, 4H]`."""
    hidden = cell.shape[1]
    gates, candidate = preactivations.split([3 * hidden, hidden], dim=1)
    input_gate, forget_gate, output_gate = gates.sigmoid().chunk(3, dim=1)
    cell = torch.addcmul(forget_gate * cell, input_gate, candidate.tanh())
    return output_gate * cell.tanh(), cell


def module_cell(hidden: int) -> tuple[nn.Module, Step]:
    """`nn.LSTMCell`."""
    cell = nn.LSTMCell(INPUTS, hidden)
    return cell, lambda x, h, c: cell(x, (h, c))


def function_cell(hidden: int) -> tuple[nn.Module, Step]:
    """`torch.lstm_cell` with one bias."""
    weights = nn.ParameterList([torch.randn(4 * hidden, INPUTS) * 0.05, torch.randn(4 * hidden, hidden) * 0.05, torch.zeros(4 * hidden)])
    return weights, lambda x, h, c: torch.lstm_cell(x, (h, c), weights[0], weights[1], weights[2])


def joined_product(hidden: int) -> tuple[nn.Module, Step]:
    """One product for input and hidden state, three gates through one sigmoid."""
    gates = nn.Linear(INPUTS + hidden, 4 * hidden)
    return gates, lambda x, h, c: cell_update(gates(torch.cat([x, h], dim=1)), c)


def two_products(hidden: int) -> tuple[nn.Module, Step]:
    """The second product adds to the first, three gates through one sigmoid."""
    weights = nn.ParameterList([torch.randn(4 * hidden, INPUTS) * 0.05, torch.randn(4 * hidden, hidden) * 0.05, torch.zeros(4 * hidden)])
    return weights, lambda x, h, c: cell_update(torch.addmm(F.linear(x, weights[0], weights[2]), h, weights[1].t()), c)


def run(module: nn.Module, forward: Callable[[Tensor], Tensor], hidden: int) -> Callable[[], None]:
    """Forward and backward, with the gradients of weights and inputs."""
    inputs = torch.randn(STEPS, BATCH, INPUTS, requires_grad=True)
    ones = torch.ones(STEPS, BATCH, hidden)

    def step() -> None:
        module.zero_grad(set_to_none=True)
        inputs.grad = None
        forward(inputs).backward(ones)

    return step


def steps(step: Step, hidden: int) -> Callable[[Tensor], Tensor]:
    """The hidden states `[T, B, H]` of a loop over `[T, B, I]`."""

    def forward(inputs: Tensor) -> Tensor:
        h = c = torch.zeros(BATCH, hidden)
        outputs = []
        for x in inputs.unbind(0):
            h, c = step(x, h, c)
            outputs.append(h)
        return torch.stack(outputs)

    return forward


def step_by_step(hidden: int) -> Work:
    """A loop over cells in several forms."""

    def form(build: Callable[[int], tuple[nn.Module, Step]], compiler: Callable) -> Callable[[], None]:
        module, step = build(hidden)
        return run(module, compiler(steps(step, hidden)), hidden)

    forms = {"nn.LSTMCell": module_cell, "torch.lstm_cell": function_cell, "joined product": joined_product, "two products": two_products}
    return Work(
        forms={name: form(build, lambda forward: forward) for name, build in forms.items()},
        compiled=lambda: form(joined_product, torch.compile),
    )


def sequence(hidden: int) -> Work:
    """`nn.LSTM` over all steps at once, for a core that reads no memory between steps."""
    module = nn.LSTM(INPUTS, hidden)
    return Work(forms={"nn.LSTM": run(module, lambda inputs: module(inputs)[0], hidden)})


WORKS = {f"lstm-step/{hidden}": functools.partial(step_by_step, hidden) for hidden in (512, 128)} | {
    f"lstm-sequence/{hidden}": functools.partial(sequence, hidden) for hidden in (512, 128)
}
