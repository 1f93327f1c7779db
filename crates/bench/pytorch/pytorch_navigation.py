"""GTM-SM on image navigation in eager PyTorch (Fraccaro et al. 2018, section 4.1), and a brute-force read of its dictionary.

    s_t = s_{t-1} + d_t g(s_{t-1} + d_t) + r eps_t,  d_t = A a_t       places of all steps
    z_t ~ q(z_t | x_t)                                                 one sample, the noise is given
    p(z_t | s_t, M) = sum_k w_k N(mu_k, sigma_k^2)                     K nearest of the entries stored in the first M steps
    x_t ~ N(decoder(z_t), 0.1^2)

A training step is forward, backward, global-norm clip and Adam, with given noise. The loss is the mean of KL minus log likelihood over the predicted
frames.

Optimisations: only the places need a loop over steps; displacements and their part of g's first layer are computed for all steps before it. Each
distinct frame that is read or predicted is encoded once, and steps refer to it by an index. All predicted steps of all sequences are read with one search, which needs no
gradient, and one gather of places and one of values; distances to the neighbours are computed again with gradients. Adam is the fused one, and
clipping uses foreach. A single read has several forms, of which some keep the keys by column or their squared norms.
"""

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_sequences import HALF_LOG_TWO_PI, Gaussian, Mlp, count, gaussian, sample
from work import Work

BATCH, MEMORISED, PREDICTED = 16, 256, 32
SIDE = 9  # places along each axis of the image
NEIGHBOURS = 5
DELTA = 1e-4
NOISE_STD = 1e-3
PIXEL_STD = 0.1
ENTRIES = [10**power for power in range(2, 7)]
MOVES = [(0, -1), (0, 1), (-1, 0), (1, 0), (0, 0)]  # up, down, left, right, stay
STAY = 4


def by_differences(queries: Tensor, keys: Tensor) -> Tensor:
    """Squared distances `[B, Q, N]` of `queries [B, Q, S]` and `keys [B, N, S]`."""
    return (queries.unsqueeze(2) - keys.unsqueeze(1)).square().sum(dim=3)


def by_cdist(queries: Tensor, keys: Tensor) -> Tensor:
    """Distances of the same; their order is all that the search needs."""
    return torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")


SEARCHES = {"differences": by_differences, "cdist": by_cdist}


class GtmSm(nn.Module):
    """`forward` returns log p(x_t | z_t) and the KL estimate of each predicted step, `[T - M, B]`."""

    def __init__(
        self, pixels=192, latent=16, layers=2, hidden=256, gate_hidden=32, memorised=MEMORISED, neighbours=NEIGHBOURS, search="differences"
    ):
        super().__init__()
        self.memorised, self.neighbours, self.search = memorised, neighbours, SEARCHES[search]
        self.A = nn.Parameter(0.5 * torch.tensor(MOVES, dtype=torch.float32))
        self.g = Mlp(2, 2, gate_hidden, F.relu_, 1)
        self.encoder = Mlp(pixels, layers, hidden, F.relu_, 2 * latent)
        self.decoder = Mlp(latent, layers, hidden, F.relu_, pixels)

    def forward(self, frames: Tensor, seen: Tensor, conditions: Tensor, noise: Tensor, transition_noise: Tensor) -> tuple[Tensor, Tensor]:
        """Takes the distinct frames `[D, P]`, which of them is seen at each step `[T, B]`, `conditions [T, B, 5]`, `noise [T - M, B, Z]` and
        `transition_noise [T, B, 2]`."""
        states = self.roll(conditions, transition_noise)
        predicted = seen[self.memorised :].flatten()
        log_weights, read = self.read(states, seen)
        used, rows = torch.unique(torch.cat([predicted, read]), return_inverse=True)
        encoded = self.encoder(frames.index_select(0, used)).index_select(0, rows)
        shape = (*noise.shape[:2], -1)
        q = gaussian(encoded[: len(predicted)].view(shape))
        components = gaussian(encoded[len(predicted) :].view(*log_weights.shape, -1))
        z = sample(q, noise)
        kl = expected_log_density(q) - mixture_log_density(z, log_weights, components)
        difference = frames.index_select(0, predicted).view(shape) - self.decoder(z).sigmoid_()
        constant = frames.shape[1] * (math.log(PIXEL_STD) + HALF_LOG_TWO_PI)
        return difference.square().sum(dim=2) * (-0.5 / PIXEL_STD**2) - constant, kl

    def roll(self, conditions: Tensor, transition_noise: Tensor) -> Tensor:
        """The place of each step, `[T, B, 2]`."""
        steps, batch, _ = conditions.shape
        displacements = conditions.flatten(0, 1) @ self.A
        first, second, output = *self.g.layers, self.g.output
        given = first(displacements).view(steps, batch, -1).unbind(0)
        from_state, from_first, from_second = first.weight.t(), second.weight.t(), output.weight.t()
        noise = (NOISE_STD * transition_noise).unbind(0)
        state = torch.zeros(batch, 2)
        states = []
        for t, d in enumerate(displacements.view(steps, batch, 2).unbind(0)):
            hidden = torch.addmm(given[t], state, from_state).relu_()
            hidden = torch.addmm(second.bias, hidden, from_first).relu_()
            gate = torch.addmm(output.bias, hidden, from_second).sigmoid_()
            state = torch.addcmul(state + noise[t], d, gate)
            states.append(state)
        return torch.stack(states)

    def read(self, states: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Log weights `[T - M, B, K]` of the prior's components at each predicted step, and which frames these are, `[(T - M) * B * K]`."""
        batch = states.shape[1]
        queries = states[self.memorised :]
        with torch.no_grad():
            distances = self.search(queries.transpose(0, 1), states[: self.memorised].transpose(0, 1))
            nearest = distances.topk(self.neighbours, dim=2, largest=False).indices
            # Step t of sequence b is row t * batch + b.
            rows = (nearest * batch + torch.arange(batch).view(-1, 1, 1)).transpose(0, 1).flatten()
            values = seen.flatten().index_select(0, rows)
        keys = states.flatten(0, 1).index_select(0, rows).view(*queries.shape[:2], self.neighbours, -1)
        squared = (keys - queries.unsqueeze(2)).square().sum(dim=3)
        return F.log_softmax(-(squared + DELTA).log(), dim=2), values


def expected_log_density(q: Gaussian) -> Tensor:
    """E_q log q in closed form."""
    return -q[1].sum(dim=-1) - q[1].shape[-1] * (0.5 + HALF_LOG_TWO_PI)


def mixture_log_density(z: Tensor, log_weights: Tensor, components: Gaussian) -> Tensor:
    mean, log_std = components
    terms = ((z.unsqueeze(2) - mean) * (-log_std).exp()).square().mul(-0.5).sub(log_std).sum(dim=3)
    return torch.logsumexp(log_weights + terms, dim=2) - z.shape[2] * HALF_LOG_TWO_PI


class Trainer:
    """A training step: forward, backward, global-norm clip at 10, Adam (1e-3, epsilon 1e-8)."""

    def __init__(self, model: nn.Module, inputs: tuple[Tensor, ...]):
        self.model, self.inputs = model, inputs
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3, eps=1e-8, fused=True)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        reconstruction, kl = self.model(*self.inputs)
        (kl - reconstruction).mean().backward()
        nn.utils.clip_grad_norm_(self.parameters, 10.0, foreach=True)
        self.optimizer.step()


def walk(steps: int) -> tuple[list[tuple[int, int]], list[int | None]]:
    """The place at each step, from the middle on, and the attempted action that led to it, none at the first step.

    A random direction that is free at first is repeated as often as a Poisson distribution with mean 2 says; at the border the agent stays where
    it is. For zero times it stays for one step.
    """
    x = y = SIDE // 2
    places, actions = [(x, y)], [None]
    while len(places) < steps:
        repeats = int(torch.poisson(torch.tensor(2.0)))
        free = [action for action, (dx, dy) in enumerate(MOVES[:STAY]) if 0 <= x + dx < SIDE and 0 <= y + dy < SIDE]
        action = free[int(torch.randint(len(free), ()))] if repeats else STAY
        for _ in range(max(1, repeats)):
            dx, dy = MOVES[action]
            x, y = min(max(x + dx, 0), SIDE - 1), min(max(y + dy, 0), SIDE - 1)
            places.append((x, y))
            actions.append(action)
    return places[:steps], actions[:steps]


def walks(steps: int, batch: int) -> tuple[Tensor, Tensor, int]:
    """Which distinct frame is seen `[T, B]`, `conditions [T, B, 5]`, and the number of distinct frames."""
    seen, conditions = torch.zeros(steps, batch, dtype=torch.long), torch.zeros(steps, batch, len(MOVES))
    distinct: dict[tuple[int, tuple[int, int]], int] = {}
    for b in range(batch):
        for t, (place, action) in enumerate(zip(*walk(steps))):
            seen[t, b] = distinct.setdefault((b, place), len(distinct))
            if action is not None:
                conditions[t, b, action] = 1.0
    return seen, conditions, len(distinct)


def training_step() -> Work:
    """At paper sizes: 16 sequences, 256 steps memorised, 32 predicted, frames 3x8x8."""
    steps = MEMORISED + PREDICTED
    seen, conditions, distinct = walks(steps, BATCH)
    inputs = torch.rand(distinct, 192), seen, conditions, torch.randn(PREDICTED, BATCH, 16), torch.randn(steps, BATCH, 2)
    trainers = {search: Trainer(GtmSm(search=search), inputs) for search in SEARCHES}

    def compiled() -> Callable[[], None]:
        return Trainer(torch.compile(GtmSm()), inputs).step

    forms = {search: trainer.step for search, trainer in trainers.items()}
    return Work(forms=forms, compiled=compiled, parameters=count(trainers["differences"].model))


class Reader:
    """Weights and values of the five nearest of `entries` places, for one query, without gradients; each method is a form of the same read."""

    def __init__(self, entries: int):
        self.keys, self.values, self.query = torch.rand(entries, 2), torch.randn(entries, 16), torch.rand(1, 2)
        self.columns, self.norms = self.keys.t().contiguous().unbind(0), self.keys.square().sum(dim=1)

    def weigh(self, squared: Tensor, nearest: Tensor) -> tuple[Tensor, Tensor]:
        inverse = (squared + DELTA).reciprocal_()
        return inverse / inverse.sum(), self.values.index_select(0, nearest)

    def differences(self) -> tuple[Tensor, Tensor]:
        return self.weigh(*(self.keys - self.query).square_().sum(dim=1).topk(NEIGHBOURS, largest=False))

    def by_column(self) -> tuple[Tensor, Tensor]:
        x, y = (column - part for column, part in zip(self.columns, self.query.unbind(1)))
        return self.weigh(*x.square_().addcmul_(y, y).topk(NEIGHBOURS, largest=False))

    def cdist(self) -> tuple[Tensor, Tensor]:
        distances, nearest = by_cdist(self.query[None], self.keys[None]).flatten().topk(NEIGHBOURS, largest=False)
        return self.weigh(distances.square(), nearest)

    def norms_and_product(self) -> tuple[Tensor, Tensor]:
        """`|k|^2 - 2 k q` finds the neighbours. It loses digits, so their distances are computed again."""
        nearest = torch.addmv(self.norms, self.keys, self.query[0], alpha=-2.0).topk(NEIGHBOURS, largest=False).indices
        return self.weigh((self.keys.index_select(0, nearest) - self.query).square_().sum(dim=1), nearest)


def dictionary_read(entries: int) -> Work:
    reader = Reader(entries)
    forms = [reader.differences, reader.by_column, reader.cdist, reader.norms_and_product]
    return Work(forms={form.__name__.replace("_", " "): form for form in forms})


WORKS = {"train-step/gtm-sm-paper": training_step} | {f"dictionary-read/{n}": functools.partial(dictionary_read, n) for n in ENTRIES}
