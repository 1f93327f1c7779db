"""The Relational Memory Core of mnemora's benchmark in eager PyTorch, at the sizes of Santoro et al. 2018 (rmc) for the N-th farthest task.

    x~ = W_in x + b                                    [i f] = x~ W_g + tanh(M) U_g + b
    [q k v] = LN([M; x~] W_qkv + b), head by head      M' = sig(i) tanh(M~) + sig(f + 1) M
    M~ = LN(X + MLP(X)),  X = LN(M + softmax(q k' / sqrt(size)) v)

A training step is forward, backward and Adam. Optimisations: inputs and their part of the gates are projected for all steps in one call; query, key and value
come from one product; only the memory's rows have queries and are carried on; attention is written out or PyTorch's own; Adam is the fused one.
"""

import functools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_sequences import adam, count
from work import Work

VECTORS, DIMENSIONS = 8, 16
INPUTS = DIMENSIONS + 3 * VECTORS
FORGET_BIAS = 1.0


class Rmc(nn.Module):
    """`forward` returns the memory after the last step, `[B, slots * width]`, for `x [T, B, inputs]`."""

    def __init__(self, inputs: int, slots: int, heads: int, head_size: int, attention: str, gate_width: int = 0):
        """`gate_width`: of each of a slot's two gates; 0 for one number for each of the slot's."""
        super().__init__()
        width = heads * head_size
        gates = 2 * (gate_width or width)
        self.slots, self.heads, self.size, self.attention = slots, heads, head_size, attention
        self.input = nn.Linear(inputs, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.qkv_norm = nn.LayerNorm(3 * width)
        self.attention_norm = nn.LayerNorm(width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.gate_input = nn.Linear(width, gates)
        self.gate_memory = nn.Linear(width, gates)

    def read(self, rows: Tensor) -> Tensor:
        """The read of each slot from `rows [B, slots + 1, width]`."""
        batch, count, width = rows.shape
        projected = self.qkv_norm(self.qkv(rows)).view(batch, count, self.heads, 3 * self.size).transpose(1, 2)
        q, k, v = projected.split(self.size, dim=3)
        q = q[:, :, : self.slots]
        if self.attention == "torch":
            read = F.scaled_dot_product_attention(q, k, v)
        else:
            read = torch.softmax(q @ k.transpose(2, 3) * (1.0 / math.sqrt(self.size)), dim=3) @ v
        return read.transpose(1, 2).reshape(batch, self.slots, width)

    def step(self, x: Tensor, gates: Tensor, memory: Tensor) -> Tensor:
        rows = self.attention_norm(memory + self.read(torch.cat([memory, x.unsqueeze(1)], dim=1)))
        rows = self.mlp_norm(rows + self.mlp[1](F.relu_(self.mlp[0](rows))))
        i, f = (self.gate_memory(memory.tanh()) + gates.unsqueeze(1)).chunk(2, dim=2)
        return torch.addcmul(i.sigmoid() * rows.tanh(), (f + FORGET_BIAS).sigmoid(), memory)

    def forward(self, x: Tensor) -> Tensor:
        x = self.input(x)
        gates = self.gate_input(x)
        memory = torch.eye(self.slots, x.shape[2]).expand(x.shape[1], -1, -1)
        for one, given in zip(x.unbind(0), gates.unbind(0)):
            memory = self.step(one, given, memory)
        return memory.flatten(1)


class Classifier(nn.Module):
    def __init__(self, attention: str):
        super().__init__()
        self.core = Rmc(INPUTS, 8, 8, 32, attention)
        sizes = [8 * 256, 256, 256, 256, 256]
        hidden = [layer for pair in zip(sizes, sizes[1:]) for layer in (nn.Linear(*pair), nn.ReLU(inplace=True))]
        self.head = nn.Sequential(*hidden, nn.Linear(256, VECTORS))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.core(x))


def nth_farthest(batch: int) -> Work:
    x, targets = torch.randn(VECTORS, batch, INPUTS), torch.arange(batch) % VECTORS
    models = {"written out": Classifier("written out"), "scaled_dot_product_attention": Classifier("torch")}

    def step(model: nn.Module, optimizer: torch.optim.Adam) -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), targets).backward()
        optimizer.step()

    forms = {name: functools.partial(step, model, adam(model)) for name, model in models.items()}
    return Work(forms=forms, parameters=count(models["written out"]))


WORKS = {f"train-step/rmc-{batch}": functools.partial(nth_farthest, batch) for batch in (64, 1600)}
