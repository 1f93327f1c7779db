"""The language model of mnemora's benchmark in eager PyTorch: an LSTM with tied input and output embeddings.

    x_t = E[w_{t-1}];  h_t = LSTM(x_t, h_{t-1});  l_t = E (W h_t + c) + b

A training step is forward, the loss with the full softmax, backward and Adam, on windows of contiguous words with the state carried over, no dropout.
Optimisations: all steps are one call of `nn.LSTM`, projection and logits are one product each, Adam is the fused one.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_sequences import adam, count
from work import Work

VOCABULARY, EMBEDDING, HIDDEN = 33_278, 192, 1050
BATCH, WINDOW = 20, 35


class LanguageModel(nn.Module):
    """`forward` returns the logits `[T * B, words]` for `words [T, B]`, and the state after them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(VOCABULARY, EMBEDDING).uniform_(-0.1, 0.1))
        self.lstm = nn.LSTM(EMBEDDING, HIDDEN)
        self.lstm.bias_hh_l0.requires_grad_(False).zero_()
        self.projection = nn.Linear(HIDDEN, EMBEDDING)
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, words: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, state = self.lstm(F.embedding(words, self.embedding), state)
        return F.linear(self.projection(outputs.flatten(0, 1)), self.embedding, self.bias), state


def language() -> Work:
    words, targets = (torch.randint(VOCABULARY, (WINDOW, BATCH)) for _ in range(2))
    model = LanguageModel()
    optimizer = adam(model)
    carried = [torch.zeros(1, BATCH, HIDDEN)] * 2

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits, state = model(words, tuple(carried))
        F.cross_entropy(logits, targets.flatten()).backward()
        optimizer.step()
        carried[:] = [part.detach() for part in state]

    return Work(forms={"nn.LSTM": step}, parameters=count(model))


WORKS = {"train-step/lstm-language": language}
