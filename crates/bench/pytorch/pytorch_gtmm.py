"""The paper-size GTMMs in eager PyTorch: the peers of mnemora's training steps and of its encoder's convolution blocks.

Gemici et al. 2017, sections 2 and 3 and appendix B.1, with the sizes that reproduce the parameter counts of table 1: z 32, five read heads;
Introspection with LSTM 336, attention 336-256-R*L, gate 336-160; DNC with LSTM 116 (Graves et al. 2016); VRNN with LSTM 244.

    python pytorch_gtmm.py                 time training steps on perfect recall, l = 15, k = 5
    python pytorch_gtmm.py --self-check    parameter counts, shapes, gradients, a rising bound

Optimisations, all in plain eager PyTorch: frames of all steps are encoded in one call before the time loop and decoded in one call
after it; prior and KL are computed for all steps after it; batch norm and ReLU of the four parallel streams run once on their concatenation,
which is the same function; recurrence, heads and memory are a few large operations; images and convolution weights are in channels-last or channels-first layout, both timed;
stride-1 deconvolutions are convolutions (the same linear maps up to a flip of the kernel); Adam is the fused one. ../README.md says what else was
tried.
"""

import argparse
import functools
import math
import statistics
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from work import Work, milliseconds

STREAM_KERNELS = (1, 3, 5, 7)
ATTENTION_FLOOR = 1e-6
LOG_STD_RANGE = (math.log(1e-4), 5.0)
BATCH_NORM_MOMENTUM = 0.01  # running averages keep 0.99


class ParallelStreams(nn.Module):
    """Four same-size convolutions (k = 1, 3, 5, 7) side by side, 8 channels each, batch norm, ReLU, concatenated to 32 channels."""

    def __init__(self, channels: int):
        super().__init__()
        self.streams = nn.ModuleList(nn.Conv2d(channels, 8, k, padding=k // 2) for k in STREAM_KERNELS)
        self.norm = nn.BatchNorm2d(8 * len(STREAM_KERNELS), momentum=BATCH_NORM_MOMENTUM)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu_(self.norm(torch.cat([stream(x) for stream in self.streams], dim=1)))


class ConvolutionBlocks(nn.Sequential):
    """The encoder's two blocks: `[N, 1, 28, 28]` in [0, 1], on a canvas of 32 pixels, to `[N, 64, 8, 8]`."""

    def __init__(self, layout: torch.memory_format):
        super().__init__(
            ParallelStreams(1),
            nn.Conv2d(32, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32, momentum=BATCH_NORM_MOMENTUM),
            nn.ReLU(inplace=True),
            ParallelStreams(32),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
        )
        self.layout = layout
        self.to(memory_format=layout)

    def forward(self, frames: Tensor) -> Tensor:
        return super().forward((2.0 * F.pad(frames, (2, 2, 2, 2)) - 1.0).contiguous(memory_format=self.layout))


class Encoder(nn.Module):
    """Features of every frame: `[N, 1, 28, 28]` in [0, 1] to `[N, 64]`."""

    def __init__(self, features: int, layout: torch.memory_format):
        super().__init__()
        self.blocks = ConvolutionBlocks(layout)
        self.features = nn.Linear(64 * 8 * 8, features)

    def forward(self, frames: Tensor) -> Tensor:
        return self.features(self.blocks(frames).flatten(1))


class Decoder(nn.Module):
    """Bernoulli logits of every frame: `[N, Z + context]` to `[N, 1, 28, 28]`."""

    def __init__(self, inputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, 64 * 8 * 8),
            nn.Unflatten(1, (64, 8, 8)),
            nn.ConvTranspose2d(64, 32, 3, stride=2, padding=1, output_padding=1),
            nn.BatchNorm2d(32, momentum=BATCH_NORM_MOMENTUM),
            nn.ReLU(inplace=True),
            ParallelStreams(32),
            nn.ConvTranspose2d(32, 32, 3, stride=2, padding=1, output_padding=1),
            nn.BatchNorm2d(32, momentum=BATCH_NORM_MOMENTUM),
            nn.ReLU(inplace=True),
            ParallelStreams(32),
            nn.Conv2d(32, 1, 1),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)[:, :, 2:-2, 2:-2]


class Lstm(nn.Module):
    """An LSTM cell on inputs of several parts: one product for all of them and the hidden state."""

    def __init__(self, inputs: int, hidden: int, bias: bool = True):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Linear(inputs + hidden, 4 * hidden, bias=bias)

    def forward(self, inputs: list[Tensor], hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        return self.update(self.gates(torch.cat([*inputs, hidden], dim=1)), cell)

    def update(self, preactivations: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden and cell state from `[B, 4H]`."""
        gates, candidate = preactivations.split([3 * self.hidden, self.hidden], dim=1)
        input_gate, forget_gate, output_gate = gates.sigmoid().chunk(3, dim=1)
        cell = torch.addcmul(forget_gate * cell, input_gate, candidate.tanh())
        return output_gate * cell.tanh(), cell


class Introspection(nn.Module):
    """A FIFO of latents read by position (equations 9 to 12)."""

    def __init__(self, latent: int, features: int, slots: int, heads: int = 5, hidden: int = 336, attention_hidden: int = 256):
        super().__init__()
        self.latent, self.heads, self.slots = latent, heads, slots
        self.context = heads * latent
        self.lstm = Lstm(latent, hidden)
        # One product gives the attention's hidden layer and the gate: both are linear in h_t.
        self.attention_hidden_and_gate = nn.Linear(hidden, attention_hidden + heads * latent)
        self.attention_hidden = attention_hidden
        self.attention_output = nn.Linear(attention_hidden, heads * slots)

    def before_the_loop(self, features: Tensor) -> tuple[Tensor, ...]:
        """The part of `features [T, B, F]` that a step reads: nothing."""
        return features.unbind(0)

    def initial_state(self, batch: int) -> tuple:
        zeros = torch.zeros(batch, self.lstm.hidden)
        return zeros, zeros, []

    def forward(self, latent: Tensor | None, features: Tensor | None, state: tuple) -> tuple[Tensor, tuple]:
        """The context of step t, from the results of step t - 1 (None at t = 1)."""
        hidden, cell, memory = state
        batch = hidden.shape[0]
        memory = [*memory, latent][-self.slots :] if latent is not None else memory
        hidden, cell = self.lstm([latent if latent is not None else hidden.new_zeros(batch, self.latent)], hidden, cell)
        return self.read(hidden, memory), (hidden, cell, memory)

    def read(self, hidden: Tensor, memory: list[Tensor]) -> Tensor:
        """The context Psi `[B, R * Z]` from the filled slots `memory` (oldest first), each `[B, Z]`."""
        batch, filled = hidden.shape[0], len(memory)
        if filled == 0:
            return hidden.new_zeros(batch, self.context)
        attention_hidden, gate = self.attention_hidden_and_gate(hidden).split([self.attention_hidden, self.context], dim=1)
        activations = self.attention_output(attention_hidden.relu()).view(batch, self.heads, self.slots)[:, :, :filled]
        k = F.softplus(activations) + ATTENTION_FLOOR
        retrieved = torch.bmm(k / k.sum(dim=2, keepdim=True), torch.stack(memory, dim=1))
        return retrieved.view(batch, -1) * gate.sigmoid()


class Dnc(nn.Module):
    """The Differentiable Neural Computer, one write head; write, then read (Graves et al. 2016, Methods)."""

    def __init__(self, latent: int, features: int, slots: int, heads: int = 5, width: int = 32, hidden: int = 116):
        super().__init__()
        self.latent, self.heads, self.slots, self.width = latent, heads, slots, width
        self.context = heads * width + hidden
        self.lstm = Lstm(latent + heads * width, hidden)
        # Keys (write key last), their strengths, everything that goes through a sigmoid (erase, free, allocation and write gate), write vector, modes.
        self.parts = [(heads + 1) * width, heads + 1, width + heads + 2, width, 3 * heads]
        self.interface = nn.Linear(hidden, sum(self.parts))
        # Slot j comes before slot i if u_j - u_i is below this: ties go to the smaller index.
        self.register_buffer("tie", torch.ones(slots, slots).tril(-1) * torch.finfo(torch.float32).tiny, persistent=False)
        self.register_buffer("off_diagonal", 1.0 - torch.eye(slots), persistent=False)

    def before_the_loop(self, features: Tensor) -> tuple[Tensor, ...]:
        """The part of `features [T, B, F]` that a step reads: nothing."""
        return features.unbind(0)

    def initial_state(self, batch: int) -> tuple:
        hidden = torch.zeros(batch, self.lstm.hidden)
        reads = torch.zeros(batch, self.heads * self.width)
        memory = torch.zeros(batch, self.slots, self.width)
        slots = torch.zeros(batch, self.slots)
        links = torch.zeros(batch, self.slots, self.slots)
        read_weights = torch.zeros(batch, self.heads, self.slots)
        return hidden, hidden, reads, memory, memory, slots, slots, links, read_weights, slots

    def forward(self, latent: Tensor | None, features: Tensor | None, state: tuple) -> tuple[Tensor, tuple]:
        """The context of step t, from the results of step t - 1 (None at t = 1)."""
        hidden, cell, reads, *memory = state
        batch = hidden.shape[0]
        hidden, cell = self.lstm([latent if latent is not None else hidden.new_zeros(batch, self.latent), reads], hidden, cell)
        cell = cell.clamp(-20.0, 20.0)
        reads, memory = self.write_and_read(self.interface(hidden), memory)
        return torch.cat([reads, hidden], dim=1), (hidden, cell, reads, *memory)

    def write_and_read(self, interface: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        """The read vectors and the memory after a step, whose rows are also returned normalised."""
        memory, unit_rows, usage, precedence, links, read_weights, write_weights = state
        batch = interface.shape[0]
        keys, strengths, gates, written, modes = interface.split(self.parts, dim=1)
        keys = keys.view(batch, self.heads + 1, self.width)
        keys = keys * ((F.softplus(strengths) + 1.0).unsqueeze(2) * inverse_norm(keys))
        erased, free, allocation_gate, write_gate = gates.sigmoid().split([self.width, self.heads, 1, 1], dim=1)

        usage = self.usage(usage, write_weights.detach(), read_weights, free)
        content = torch.bmm(keys[:, self.heads :], unit_rows.mT).squeeze(1).softmax(dim=1)
        write_weights = torch.lerp(content, self.allocation(usage), allocation_gate) * write_gate
        rows = write_weights.unsqueeze(2)
        # M + w (v - M e)
        memory = torch.addcmul(memory, rows, torch.addcmul(written.unsqueeze(1), memory, erased.unsqueeze(1), value=-1.0))
        unit_rows = memory * inverse_norm(memory)

        # L + w_i (p_j - L) - w_j L, zero on the diagonal
        new = torch.addcmul(links, rows, precedence.unsqueeze(1) - links)
        links = torch.addcmul(new, write_weights.unsqueeze(1), links, value=-1.0) * self.off_diagonal
        precedence = torch.addcmul(precedence + write_weights, precedence, write_weights.sum(dim=1, keepdim=True), value=-1.0)

        content = torch.bmm(keys[:, : self.heads], unit_rows.mT).softmax(dim=2)
        backward_mode, content_mode, forward_mode = modes.view(batch, self.heads, 3).softmax(dim=2).split(1, dim=2)
        after, before = torch.bmm(read_weights, links.mT), torch.bmm(read_weights, links)
        read_weights = torch.addcmul(torch.addcmul(before * backward_mode, content, content_mode), after, forward_mode)
        reads = torch.bmm(read_weights, memory).view(batch, -1)
        return reads, (memory, unit_rows, usage, precedence, links, read_weights, write_weights)

    def usage(self, usage: Tensor, written: Tensor, read_weights: Tensor, free: Tensor) -> Tensor:
        """Usage: writing to a slot marks it as used, reading and freeing it marks it as free."""
        retained = torch.rsub(free.unsqueeze(2) * read_weights, 1.0).unbind(1)
        usage = torch.addcmul(usage + written, usage, written, value=-1.0)
        for head in retained:
            usage = usage * head
        return usage

    def allocation(self, usage: Tensor) -> Tensor:
        """Allocation, which prefers the freest slot, without a sort."""
        with torch.no_grad():
            before = (usage.unsqueeze(1) - usage.unsqueeze(2) < self.tie).float()
        usage = usage * (1.0 - 1e-6) + 1e-6
        product = torch.bmm(before, usage.log().unsqueeze(2)).squeeze(2).exp()
        return torch.addcmul(product, usage, product, value=-1.0)


def inverse_norm(rows: Tensor) -> Tensor:
    """The inverse norm of each row, finite for rows of zeros."""
    return (rows.square().sum(dim=-1, keepdim=True) + 1e-6).rsqrt()


class Vrnn(nn.Module):
    """An LSTM is the only memory: `h_t = LSTM(h_{t-1}, [features of x_t; z_t])`, the context of the next step."""

    def __init__(self, latent: int, features: int, slots: int, hidden: int = 244):
        super().__init__()
        self.context = hidden
        self.features = nn.Linear(features, 4 * hidden)
        self.lstm = Lstm(latent, hidden, bias=False)

    def before_the_loop(self, features: Tensor) -> tuple[Tensor, ...]:
        """The part of the gates that comes from the features; it depends on no other step."""
        return self.features(features.flatten(0, 1)).view(*features.shape[:2], -1).unbind(0)

    def initial_state(self, batch: int) -> tuple:
        zeros = torch.zeros(batch, self.context)
        return zeros, zeros

    def forward(self, latent: Tensor | None, features: Tensor | None, state: tuple) -> tuple[Tensor, tuple]:
        """The context of step t, from the results of step t - 1 (None at t = 1)."""
        if latent is not None:
            hidden, cell = state
            state = self.lstm.update(torch.addmm(features, torch.cat([latent, hidden], dim=1), self.lstm.gates.weight.t()), cell)
        return state[0], state


MEMORIES = {"introspection": Introspection, "dnc": Dnc, "vrnn": Vrnn}


class Gtmm(nn.Module):
    """A temporal VAE with a memory."""

    def __init__(self, memory: str, slots: int, layout: torch.memory_format, latent: int = 32):
        super().__init__()
        features = 2 * latent
        self.latent = latent
        self.encoder = Encoder(features, layout)
        self.memory = MEMORIES[memory](latent, features, slots)
        self.posterior_context = nn.Linear(self.memory.context, 2 * latent, bias=False)
        self.prior = nn.Linear(self.memory.context, 2 * latent)
        self.decoder = Decoder(latent + self.memory.context)
        self.to(memory_format=layout)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruction and KL in nats, each `[T, B]`, of `observations [T, B, 1, 28, 28]` in [0, 1]."""
        steps, batch = observations.shape[:2]
        features = self.encoder(observations.flatten(0, 1)).view(steps, batch, -1)
        memory_features = self.memory.before_the_loop(features)
        features = features.unbind(0)
        noise = torch.randn(steps, batch, self.latent).unbind(0)
        to_posterior = self.posterior_context.weight.t()

        state = self.memory.initial_state(batch)
        latent = None
        latents, contexts, means, log_stds = [], [], [], []
        for t in range(steps):
            psi, state = self.memory(latent, memory_features[t - 1] if t > 0 else None, state)
            mean, log_std = torch.addmm(features[t], psi, to_posterior).chunk(2, dim=1)
            log_std = log_std.clamp(*LOG_STD_RANGE)
            latent = torch.addcmul(mean, log_std.exp(), noise[t])
            latents.append(latent)
            contexts.append(psi)
            means.append(mean)
            log_stds.append(log_std)

        psi = torch.cat(contexts)
        prior_mean, prior_log_std = self.prior(psi).chunk(2, dim=1)
        kl = gaussian_kl(torch.cat(means), torch.cat(log_stds), prior_mean, prior_log_std.clamp(*LOG_STD_RANGE))
        logits = self.decoder(torch.cat([torch.cat(latents), psi], dim=1))
        pixels = F.binary_cross_entropy_with_logits(logits, observations.flatten(0, 1), reduction="none")
        return -pixels.sum(dim=(1, 2, 3)).view(steps, batch), kl.view(steps, batch)


def gaussian_kl(mean_q: Tensor, log_std_q: Tensor, mean_p: Tensor, log_std_p: Tensor) -> Tensor:
    """KL between diagonal Gaussians, summed over the last axis."""
    ratio = (2.0 * (log_std_q - log_std_p)).exp()
    distance = (mean_q - mean_p).square() * (-2.0 * log_std_p).exp()
    return (log_std_p - log_std_q + 0.5 * (ratio + distance - 1.0)).sum(dim=-1)


class Trainer:
    """A training step: forward, backward, global-norm clip at 10, Adam (1e-3, epsilon 1e-8)."""

    def __init__(self, memory: str, slots: int, layout: torch.memory_format = torch.channels_last):
        self.model = Gtmm(memory, slots, layout)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3, eps=1e-8, fused=True)

    def step(self, observations: Tensor) -> float:
        """One update; returns the bound before it, in nats per sequence."""
        self.optimizer.zero_grad(set_to_none=True)
        reconstruction, kl = self.model(observations)
        bound = (reconstruction - kl).sum(dim=0).mean()
        (-bound).backward()
        nn.utils.clip_grad_norm_(self.parameters, 10.0, foreach=True)
        self.optimizer.step()
        return bound.item()


def perfect_recall(batch: int, length: int = 15, recalled: int = 5) -> Tensor:
    """`length` random frames and the first `recalled` of them again: `[T, B, 1, 28, 28]`; random blobs stand in for digits."""
    coarse = torch.rand(length * batch, 1, 7, 7)
    frames = F.interpolate(coarse, size=28, mode="bilinear").mul(4.0).sub(2.0).clamp(0.0, 1.0).view(length, batch, 1, 28, 28)
    return torch.cat([frames, frames[:recalled]])


LAYOUTS = {"channels-last": torch.channels_last, "channels-first": torch.contiguous_format}


def training_step(memory: str) -> Work:
    """The training step of a model at paper size."""
    observations = perfect_recall(batch=10)
    trainers = {name: Trainer(memory, observations.shape[0], layout) for name, layout in LAYOUTS.items()}

    def compiled() -> Callable[[], float]:
        trainer = Trainer(memory, observations.shape[0])
        trainer.model = torch.compile(trainer.model)
        return lambda: trainer.step(observations)

    return Work(
        forms={name: functools.partial(trainer.step, observations) for name, trainer in trainers.items()},
        compiled=compiled,
        parameters=sum(p.numel() for p in trainers["channels-last"].parameters),
    )


def convolution_blocks() -> Work:
    """The encoder's blocks on 250 frames, forward and backward."""
    frames = torch.rand(250, 1, 28, 28)

    def run(layout: torch.memory_format, compiler: Callable = lambda blocks: blocks) -> Callable[[], None]:
        blocks = ConvolutionBlocks(layout)
        forward = compiler(blocks)
        ones = torch.ones(250, 64, 8, 8).contiguous(memory_format=layout)

        def step() -> None:
            blocks.zero_grad(set_to_none=True)
            forward(frames).backward(ones)

        return step

    return Work(
        forms={name: run(layout) for name, layout in LAYOUTS.items()},
        compiled=lambda: run(torch.channels_last, torch.compile),
    )


WORKS = {"conv-blocks/gtmm-b1": convolution_blocks} | {
    f"train-step/{memory}-paper": functools.partial(training_step, memory) for memory in MEMORIES
}


def self_check() -> None:
    """Fails with an assertion if a model is not the one described."""
    for memory, expected in {"introspection": 1_862_782, "dnc": 1_861_117, "vrnn": 1_882_161}.items():
        parameters = sum(p.numel() for p in Gtmm(memory, 25, torch.channels_last).parameters())
        assert parameters == expected, f"{memory}: {parameters:,} parameters with 25 slots, expected {expected:,}"
        observations = perfect_recall(batch=2)
        trainer = Trainer(memory, slots=observations.shape[0])
        reconstruction, kl = trainer.model(observations)
        assert reconstruction.shape == kl.shape == (20, 2)
        assert (kl >= 0).all()
        bounds = [trainer.step(observations) for _ in range(10)]
        assert bounds[-1] > bounds[0], f"{memory}: the bound did not rise: {bounds}"
        unused = [name for name, p in trainer.model.named_parameters() if p.grad is None]
        assert not unused, f"{memory}: parameters without gradient: {unused}"
        print(f"{memory}: {parameters:,} parameters with 25 slots; bound {bounds[0]:.1f} -> {bounds[-1]:.1f} nats in {len(bounds)} steps")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-check", action="store_true", help="check the models and stop")
    parser.add_argument("--steps", type=int, default=20, help="training steps to time (default 20)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default 2)")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    if arguments.self_check:
        self_check()
        return 0
    for memory in MEMORIES:
        for name, step in training_step(memory).forms.items():
            median = statistics.median(milliseconds(step, arguments.steps, warm_up=3))
            print(f"{memory}, {name}: median {median:.1f} ms per training step, PyTorch {torch.__version__}, {arguments.threads} threads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
