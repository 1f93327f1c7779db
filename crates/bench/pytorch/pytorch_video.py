"""SVG with a learned prior (Denton and Fergus 2018) of mnemora's benchmark in eager PyTorch: DCGAN networks at 64x64, Gaussian pixels in bins of 1/256.

    h_t, skips_t = encoder(x_t)                      z_t ~ N(LSTM_psi(h_{t-1})), q(z_t) = N(LSTM_phi(h_t))
    g_t = tanh(linear(LSTM_theta([h_{t-1}; z_t])))   x_t ~ N(decoder(g_t, skips_{t-1}))

A training step is forward, backward and Adam. Optimisations: the encoder runs on all frames before the time loop, the decoder on all steps after it, in both
layouts of images. No LSTM depends on another one at the same step: posterior and prior read only frames, the predictor also the posterior's samples. Each
therefore runs through all steps in one call of `nn.LSTM`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_gtmm import gaussian_kl
from pytorch_sequences import adam, count, gaussian, log_bins, sample
from work import Work

SIDE, WIDTH, FEATURES, LATENT, HIDDEN = 64, 64, 128, 24, 256
CHANNELS = [WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH]
BATCH, STEPS = 10, 20
BIN = 1.0 / 256.0


class Block(nn.Module):
    """A convolution and batch norm."""

    def __init__(self, convolution: nn.Module, slope: float | None = 0.2):
        super().__init__()
        self.convolution, self.norm, self.slope = convolution, nn.BatchNorm2d(convolution.out_channels), slope

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.norm(self.convolution(maps))
        return torch.tanh(maps) if self.slope is None else F.leaky_relu_(maps, self.slope)


def halving(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 4, 2, 1)


def doubling(inputs: int, outputs: int) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(inputs, outputs, 4, 2, 1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList(Block(halving(*pair)) for pair in zip([1, *CHANNELS], CHANNELS))
        self.top = Block(nn.Conv2d(CHANNELS[-1], FEATURES, 4), slope=None)

    def forward(self, frames: Tensor) -> tuple[Tensor, list[Tensor]]:
        skips = []
        for level in self.levels:
            frames = level(frames)
            skips.append(frames)
        return self.top(frames).flatten(1), skips


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.top = Block(nn.ConvTranspose2d(FEATURES, CHANNELS[-1], 4))
        pairs = list(zip(CHANNELS, CHANNELS[1:]))[::-1]
        self.levels = nn.ModuleList(Block(doubling(2 * coarse, fine)) for fine, coarse in pairs)
        self.output = doubling(2 * CHANNELS[0], 2)

    def forward(self, features: Tensor, skips: list[Tensor]) -> Tensor:
        maps = self.top(features[:, :, None, None])
        for level, skip in zip([*self.levels, self.output], reversed(skips)):
            maps = level(torch.cat([maps, skip], dim=1))
        return maps


class Recurrent(nn.Module):
    """A linear map, LSTMs, and a linear map, over all steps."""

    def __init__(self, inputs: int, outputs: int, layers: int):
        super().__init__()
        self.embedding = nn.Linear(inputs, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, layers)
        for name, bias in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                bias.requires_grad_(False).zero_()
        self.output = nn.Linear(HIDDEN, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.lstm(self.embedding(x))[0])


def before(steps: Tensor) -> Tensor:
    """The values of the previous step; zeros at the first."""
    return torch.cat([torch.zeros_like(steps[:1]), steps[:-1]])


class Svg(nn.Module):
    """`forward` returns log p(x_t | ..) and KL of each step, `[T, B]`, for `x [T, B, 1, 64, 64]` and `noise [T, B, Z]`."""

    def __init__(self, layout: torch.memory_format):
        super().__init__()
        self.layout = layout
        self.encoder, self.decoder = Encoder(), Decoder()
        self.predictor = Recurrent(FEATURES + LATENT, FEATURES, 2)
        self.posterior = Recurrent(FEATURES, 2 * LATENT, 1)
        self.prior = Recurrent(FEATURES, 2 * LATENT, 1)
        self.to(memory_format=layout)

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        steps, batch = x.shape[:2]
        h, skips = self.encoder((x.flatten(0, 1) - 0.5).contiguous(memory_format=self.layout))
        h = h.view(steps, batch, -1)
        # Frames are stored step after step, so the previous frames are the same maps shifted by one batch.
        skips = [torch.cat([torch.zeros_like(maps[:batch]), maps[:-batch]]) for maps in skips]
        q, p = gaussian(self.posterior(h)), gaussian(self.prior(before(h)))
        g = self.predictor(torch.cat([before(h), sample(q, noise)], dim=2)).tanh()
        output = self.decoder(g.flatten(0, 1), skips).flatten(1)
        score = log_bins(x.reshape(steps * batch, -1), output, BIN, squashed=True)
        return score.view(steps, batch), gaussian_kl(*q, *p)


class Training:
    def __init__(self, model: Svg, x: Tensor, noise: Tensor):
        self.model, self.x, self.noise, self.optimizer = model, x, noise, adam(model)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        reconstruction, kl = self.model(self.x, self.noise)
        (kl - reconstruction).sum(dim=0).mean().backward()
        self.optimizer.step()


def svg() -> Work:
    x, noise = torch.randn(STEPS, BATCH, 1, SIDE, SIDE).clamp(0.0, 1.0), torch.randn(STEPS, BATCH, LATENT)
    layouts = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
    forms = {name: Training(Svg(layout), x, noise) for name, layout in layouts.items()}
    return Work(forms={name: form.step for name, form in forms.items()}, parameters=count(forms["channels first"].model))


WORKS = {"train-step/svg-dcgan": svg}
