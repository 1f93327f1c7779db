"""SV2P (Babaeizadeh et al. 2018) at the sizes of its release, without actions, in eager PyTorch: a training step.

    e0 = relu(norm(conv(x_t)))                   h2 = norm(LSTM(norm(LSTM(e0))))      e1 = relu(conv(h2))
    h4 = norm(LSTM(norm(LSTM(e1))))              e2 = relu(conv(h4))                  e3 = relu(conv([e2; z]))
    h5 = norm(LSTM(e3))                          h6 = norm(LSTM(relu(up(h5))))        h7 = norm(LSTM(relu(up([h6; e1]))))
    fine = relu(norm(up([h7; e0])))              masks = softmax(conv(fine))          generated = sigmoid(conv(fine))
    kernel_k = max(raw_k, 1e-12) over its sum, raw = linear(h5)                       moved_k = kernel_k * x_t, k = 1 .. 9
    x_{t+1} = masks_0 x_t + masks_1 generated + sum_k masks_{k+1} moved_k
    q(z) = N(tower(x_1 .. x_n)), log-variance relu(conv) - 5
    loss = mean squared error of x_{m+1} .. x_n + weight KL(q(z) || N(0, I))

A training step is forward, backward, global-norm clip and Adam, with given noise, in the last stage of training: the frames after the context are the
model's own predictions, and the KL has its whole weight. Optimisations: layer by layer, all frames of the context go through in one call, except for what an
LSTM does with its state; of the context, only the last frame is followed by a prediction in the loss, and the others are not drawn; nothing is convolved
with a state that is zero, at the first step; three gates take one sigmoid; a norm is one call of `group_norm` with one group; one convolution makes masks
and generated frame, another one mean and log-variance; masks and kernels first make one kernel for each pixel, so that no moved frame is made (in the
fastest form a grouped convolution of the frame, or a product of kernels and unfolded frame, was no faster). Both layouts of images are measured, each with
two convolutions in an LSTM, of its input and its state, and with one of both together after the context. Adam is fused, and clipping uses foreach. Under
`torch.compile`, `advance` is compiled: once for the context, once for a single frame.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_sequences import count
from work import Work

BATCH, SIDE, MOMENTS, CONTEXT = 4, 64, 20, 6
CHANNELS, WIDTH, GRID = 3, 32, 8
KERNELS, SIZE = 10, 5
KL_WEIGHT = 1e-3
EPSILON = 1e-6
LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}

State = tuple[Tensor, Tensor]


class Norm(nn.Module):
    """Over channels and pixels of a row, with a scale and a shift for each channel."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, maps: Tensor) -> Tensor:
        return F.group_norm(maps, 1, self.weight, self.bias, EPSILON)


class ConvLstm(nn.Module):
    """A convolutional LSTM with normalised outputs. Gates in the order i, f, o, g, on [h; input]."""

    def __init__(self, inputs: int, hidden: int, together: bool):
        super().__init__()
        self.hidden, self.together = hidden, together
        self.weight = nn.Parameter(0.02 * torch.randn(4 * hidden, hidden + inputs, 5, 5))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        with torch.no_grad():
            self.bias[hidden : 2 * hidden] = 1.0
        self.norm = Norm(hidden)

    def cell(self, gates: Tensor, state: State | None) -> State:
        i, f, o = gates[:, : 3 * self.hidden].sigmoid().chunk(3, dim=1)
        g = gates[:, 3 * self.hidden :].tanh()
        cell = i * g if state is None else torch.addcmul(i * g, f, state[1])
        return o * cell.tanh(), cell

    def forward(self, inputs: Tensor, moments: int, state: State | None) -> tuple[Tensor, State]:
        """Outputs of `moments` moments in a row, `[moments * rows, ..]`, and the state after them."""
        if moments == 1 and state is not None and self.together:
            state = self.cell(F.conv2d(torch.cat([state[0], inputs], dim=1), self.weight, self.bias, padding=2), state)
            return self.norm(state[0]), state
        outputs = []
        of_state, of_inputs = self.weight[:, : self.hidden], self.weight[:, self.hidden :]
        for gates in F.conv2d(inputs, of_inputs, self.bias, padding=2).chunk(moments):
            if state is not None:
                gates = gates + F.conv2d(state[0], of_state, padding=2)
            state = self.cell(gates, state)
            outputs.append(state[0])
        return self.norm(outputs[0] if moments == 1 else torch.cat(outputs)), state


def moved(previous: Tensor, kernels: Tensor, masks: Tensor) -> Tensor:
    """The sum over k of masks `[R, K, ..]` times `previous [R, C, ..]` moved by `kernels [R, K, SIZE * SIZE]`."""
    rows, channels, *size = previous.shape
    of_pixels = kernels.transpose(1, 2) @ masks.flatten(2)
    around = F.unfold(previous.reshape(rows * channels, 1, *size), SIZE, padding=SIZE // 2)
    return (around.unflatten(0, (rows, channels)) * of_pixels[:, None]).sum(dim=2).view_as(previous)


class Sv2p(nn.Module):
    def __init__(self, layout=torch.contiguous_format, together=False):
        super().__init__()
        self.layout = layout
        w = WIDTH
        self.first, self.first_norm = nn.Conv2d(CHANNELS, w, 5, 2, 2), Norm(w)
        sizes = [(w, w), (w, w), (w, 2 * w), (2 * w, 2 * w), (2 * w, 4 * w), (4 * w, 2 * w), (3 * w, w)]
        self.lstms = nn.ModuleList(ConvLstm(*size, together) for size in sizes)
        self.down = nn.ModuleList(nn.Conv2d(channels, channels, 3, 2, 1) for channels in (w, 2 * w))
        self.bottom = nn.Conv2d(2 * w + 1, 2 * w, 1)
        self.up = nn.ModuleList(nn.ConvTranspose2d(channels, channels, 3, 2, 1, 1) for channels in (4 * w, 3 * w, 2 * w))
        self.last_norm = Norm(2 * w)
        self.kernels = nn.Linear(4 * w * GRID * GRID, KERNELS * SIZE * SIZE)
        self.shown = nn.Conv2d(2 * w, KERNELS + 1 + CHANNELS, 1)
        self.tower = nn.Sequential(
            nn.Conv2d(MOMENTS * CHANNELS, 32, 3, 2, 1),
            Norm(32),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 3, 2, 1),
            Norm(64),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 64, 3, 1, 1),
            Norm(64),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 2, 3, 2, 1),
        )
        self.to(memory_format=layout)

    def advance(self, frames: Tensor, latent: Tensor, states: list[State | None], moments: int) -> tuple[Tensor, list[State]]:
        """The prediction after the last of `moments` frames in a row, `[moments * B, ..]`, and the state after it."""
        rows = len(latent)
        after: list[State] = []

        def lstm(maps: Tensor) -> Tensor:
            level = len(after)
            maps, state = self.lstms[level](maps, moments, states[level])
            after.append(state)
            return maps

        e0 = F.relu_(self.first_norm(self.first(frames)))
        h2 = lstm(lstm(e0))
        e1 = F.relu_(self.down[0](h2))
        h4 = lstm(lstm(e1))
        e2 = F.relu_(self.down[1](h4))
        e3 = F.relu_(self.bottom(torch.cat([e2, latent.repeat(moments, 1, 1, 1)], dim=1)))
        h5 = lstm(e3)
        h6 = lstm(F.relu_(self.up[0](h5)))
        h7 = lstm(F.relu_(self.up[1](torch.cat([h6, e1], dim=1))))
        # Only the last moment is drawn.
        h5, h7, e0, previous = h5[-rows:], h7[-rows:], e0[-rows:], frames[-rows:]
        fine = F.relu_(self.last_norm(self.up[2](torch.cat([h7, e0], dim=1))))
        kernels = self.kernels(h5.flatten(1)).view(rows, KERNELS, SIZE * SIZE)[:, : KERNELS - 1].clamp_min(1e-12)
        kernels = kernels / kernels.sum(dim=2, keepdim=True)
        masks, generated = self.shown(fine).split([KERNELS + 1, CHANNELS], dim=1)
        masks = masks.softmax(dim=1)
        stays, new, of_kernels = masks.split([1, 1, KERNELS - 1], dim=1)
        frame = torch.addcmul(stays * previous, new, generated.sigmoid()) + moved(previous, kernels, of_kernels)
        return frame, after

    def loss(self, story: Tensor, noise: Tensor) -> Tensor:
        """Of stories `[B, MOMENTS, CHANNELS, SIDE, SIDE]`, with noise `[B, 1, GRID, GRID]`."""
        mean, above = self.tower(story.flatten(1, 2).contiguous(memory_format=self.layout)).chunk(2, dim=1)
        log_variance = (above.relu() - 5.0).clamp_max(10.0)
        latent = torch.addcmul(mean, (0.5 * log_variance).exp(), noise)
        divergence = 0.5 * (log_variance.exp() + mean.square() - 1.0 - log_variance).sum(dim=(1, 2, 3))
        by_time = story.transpose(0, 1)
        known = by_time[:CONTEXT].flatten(0, 1).contiguous(memory_format=self.layout)
        frame, states = self.advance(known, latent, [None] * len(self.lstms), CONTEXT)
        predicted = [frame]
        for _ in range(MOMENTS - CONTEXT - 1):
            frame, states = self.advance(frame, latent, states, 1)
            predicted.append(frame)
        error = F.mse_loss(torch.stack(predicted), by_time[CONTEXT:])
        return error + KL_WEIGHT * divergence.mean()


class Training:
    """A training step: forward, backward, global-norm clip, Adam (5e-4, epsilon 1e-8)."""

    def __init__(self, model: Sv2p, inputs: tuple[Tensor, Tensor]):
        self.model, self.inputs = model, inputs
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=5e-4, eps=1e-8, fused=True)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.model.loss(*self.inputs).backward()
        nn.utils.clip_grad_norm_(self.parameters, 1e4, foreach=True)
        self.optimizer.step()


def training_step() -> Work:
    inputs = torch.rand(BATCH, MOMENTS, CHANNELS, SIDE, SIDE), torch.randn(BATCH, 1, GRID, GRID)
    convolutions = {"two convolutions": False, "one convolution": True}
    trainings = {
        f"{layout}, {form}": Training(Sv2p(LAYOUTS[layout], together), inputs)
        for layout in LAYOUTS
        for form, together in convolutions.items()
    }

    def compiled() -> Callable[[], None]:
        model = Sv2p()
        model.advance = torch.compile(model.advance)
        return Training(model, inputs).step

    forms = {name: training.step for name, training in trainings.items()}
    return Work(forms=forms, compiled=compiled, parameters=count(next(iter(trainings.values())).model))


WORKS = {"train-step/sv2p": training_step}
