"""The paper-size introspective GTMM in eager PyTorch: the peer that mnemora's training step is timed against.

Gemici et al. 2017, section 3.1 and appendix B.1, with the sizes that reproduce the parameter count of table 1: z 32, five read heads,
LSTM 336, attention 336-256-R*L, gate 336-160. With L = 25 slots the model has 1,862,782 parameters.

    python pytorch_gtmm.py                 time training steps on perfect recall, l = 15, k = 5
    python pytorch_gtmm.py --self-check    parameter count, shapes, a falling loss

What is done for speed, all of it plain eager PyTorch: frames of all steps are encoded in one call before the time loop and decoded in one call
after it; prior and KL are computed for all steps after it; batch norm and ReLU of the four parallel streams run once on their concatenation,
which is the same function; attention, gate and recurrence are few, fat operations; images and convolution weights are in channels-last
layout; stride-1 deconvolutions are convolutions (the same linear maps up to a flip of the kernel); Adam is the fused one. README.md says what
else was tried.
"""

import argparse
import math
import statistics
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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


class Encoder(nn.Module):
    """Features of every frame: `[N, 1, 28, 28]` in [0, 1] to `[N, 64]`."""

    def __init__(self, features: int):
        super().__init__()
        self.layers = nn.Sequential(
            ParallelStreams(1),
            nn.Conv2d(32, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32, momentum=BATCH_NORM_MOMENTUM),
            nn.ReLU(inplace=True),
            ParallelStreams(32),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.Flatten(),
            nn.Linear(64 * 8 * 8, features),
        )

    def forward(self, frames: Tensor) -> Tensor:
        return self.layers((2.0 * F.pad(frames, (2, 2, 2, 2)) - 1.0).contiguous(memory_format=torch.channels_last))


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


class Introspection(nn.Module):
    """A FIFO of latents read by position (equations 9 to 12)."""

    def __init__(self, latent: int, heads: int, slots: int, hidden: int = 336, attention_hidden: int = 256):
        super().__init__()
        self.latent, self.heads, self.slots, self.hidden = latent, heads, slots, hidden
        self.lstm = nn.Linear(latent + hidden, 4 * hidden)
        # One product gives the attention's hidden layer and the gate: both are linear in h_t.
        self.attention_hidden_and_gate = nn.Linear(hidden, attention_hidden + heads * latent)
        self.attention_hidden = attention_hidden
        self.attention_output = nn.Linear(attention_hidden, heads * slots)

    def controller(self, latent: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """One LSTM update on z_{t-1}."""
        gates, candidate = self.lstm(torch.cat([latent, hidden], dim=1)).split([3 * self.hidden, self.hidden], dim=1)
        input_gate, forget_gate, output_gate = gates.sigmoid().chunk(3, dim=1)
        cell = torch.addcmul(forget_gate * cell, input_gate, candidate.tanh())
        return output_gate * cell.tanh(), cell

    def read(self, hidden: Tensor, memory: list[Tensor]) -> Tensor:
        """The context Psi `[B, R * Z]` from the filled slots `memory` (oldest first), each `[B, Z]`."""
        batch, filled = hidden.shape[0], len(memory)
        if filled == 0:
            return hidden.new_zeros(batch, self.heads * self.latent)
        attention_hidden, gate = self.attention_hidden_and_gate(hidden).split([self.attention_hidden, self.heads * self.latent], dim=1)
        activations = self.attention_output(attention_hidden.relu()).view(batch, self.heads, self.slots)[:, :, :filled]
        k = F.softplus(activations) + ATTENTION_FLOOR
        retrieved = torch.bmm(k / k.sum(dim=2, keepdim=True), torch.stack(memory, dim=1))
        return retrieved.view(batch, -1) * gate.sigmoid()


class IntrospectiveGtmm(nn.Module):
    """Temporal VAE over an introspection memory."""

    def __init__(self, slots: int, latent: int = 32, heads: int = 5):
        super().__init__()
        context = heads * latent
        self.latent = latent
        self.encoder = Encoder(2 * latent)
        self.posterior_context = nn.Linear(context, 2 * latent, bias=False)
        self.prior = nn.Linear(context, 2 * latent)
        self.memory = Introspection(latent, heads, slots)
        self.decoder = Decoder(latent + context)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruction and KL in nats, each `[T, B]`, of `observations [T, B, 1, 28, 28]` in [0, 1]."""
        steps, batch = observations.shape[:2]
        features = self.encoder(observations.flatten(0, 1)).view(steps, batch, -1).unbind(0)
        noise = torch.randn(steps, batch, self.latent).unbind(0)

        hidden = cell = observations.new_zeros(batch, self.memory.hidden)
        latent = observations.new_zeros(batch, self.latent)
        latents, contexts, means, log_stds = [], [], [], []
        for t in range(steps):
            hidden, cell = self.memory.controller(latent, hidden, cell)
            psi = self.memory.read(hidden, latents[-self.memory.slots :])
            mean, log_std = torch.addmm(features[t], psi, self.posterior_context.weight.t()).chunk(2, dim=1)
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

    def __init__(self, slots: int):
        self.model = IntrospectiveGtmm(slots).to(memory_format=torch.channels_last)
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


def time_steps(trainer: Trainer, observations: Tensor, steps: int) -> list[float]:
    """Milliseconds of each of `steps` training steps."""
    milliseconds = []
    for _ in range(steps):
        start = time.perf_counter()
        trainer.step(observations)
        milliseconds.append(1e3 * (time.perf_counter() - start))
    return milliseconds


def self_check() -> None:
    """Fails with an assertion when the model is not the one described."""
    parameters = sum(p.numel() for p in IntrospectiveGtmm(slots=25).parameters())
    assert parameters == 1_862_782, f"{parameters:,} parameters with 25 slots, expected 1,862,782"
    observations = perfect_recall(batch=2)
    trainer = Trainer(slots=observations.shape[0])
    reconstruction, kl = trainer.model(observations)
    assert reconstruction.shape == kl.shape == (20, 2)
    assert (kl >= 0).all()
    bounds = [trainer.step(observations) for _ in range(10)]
    assert bounds[-1] > bounds[0], f"the bound did not rise: {bounds}"
    unused = [name for name, p in trainer.model.named_parameters() if p.grad is None]
    assert not unused, f"parameters without gradient: {unused}"
    print(f"{parameters:,} parameters with 25 slots; bound {bounds[0]:.1f} -> {bounds[-1]:.1f} nats in {len(bounds)} steps")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-check", action="store_true", help="check the model and stop")
    parser.add_argument("--steps", type=int, default=20, help="training steps to time (default 20)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default 2)")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    if arguments.self_check:
        self_check()
        return 0
    observations = perfect_recall(batch=10)
    trainer = Trainer(slots=observations.shape[0])
    time_steps(trainer, observations, 3)
    milliseconds = time_steps(trainer, observations, arguments.steps)
    print(f"PyTorch {torch.__version__}, {arguments.threads} threads: median {statistics.median(milliseconds):.1f} ms per training step")
    return 0


if __name__ == "__main__":
    sys.exit(main())
