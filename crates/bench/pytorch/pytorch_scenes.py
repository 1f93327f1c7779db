"""The consistent GQN (Kumar et al. 2018, appendix B) in eager PyTorch: a training step, and samples of one sequence.

    r_C = sum over the context of M(v_j, f_j), r_T the same over the targets
    h_p, c_p = ConvLSTM([encode_p(r_C); z_{l-1}])                p_l = N(belief_p(h_p))
    h_q, c_q = ConvLSTM([encode_q([r_C; r_T]); z_{l-1}; h_p])    q_l = N(belief_q(h_q))
    for every target: h, c = ConvLSTM([z_l; v; decode(u)]),  u = u + canvas(h);  frame(u) at the end

A training step is forward, backward, global-norm clip and Adam, with given noise. Optimisations: views of context and targets are represented in one call;
all targets of all scenes are rendered in one call; what a convolutional LSTM reads at every step is convolved once (in one of the forms, the others have one
convolution of all inputs); three gates take one sigmoid; nothing is convolved with a state or a canvas that is zero, at the first step. Both layouts of
images are measured. Adam is fused, and clipping uses foreach. Samples are drawn without gradients, all in one call or ten at a time.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_sequences import count
from work import Work

BATCH, SAMPLES, SIDE = 16, 30, 64
VARIANCE = 0.5
LOG_VARIANCE = (-8.0, 4.0)
LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
# Numbers of a query, steps, channels of the LSTMs, views of the context, targets of a training step, views of a sample.
NARRATIVES = dict(query=1, steps=4, hidden=64), 6, 4, 20
DICE = dict(query=7, steps=6, hidden=128), 4, 3, 3


def joined(maps: list[Tensor]) -> Tensor:
    return maps[0] if len(maps) == 1 else torch.cat(maps, dim=1)


class ConvLstm(nn.Module):
    """Gates in the order i, f, o, g. The input is [given; h; moving]."""

    def __init__(self, hidden: int, given: int, moving: int, once: bool):
        super().__init__()
        self.hidden, self.given, self.once = hidden, given, once
        self.weight = nn.Parameter(0.02 * torch.randn(4 * hidden, given + hidden + moving, 5, 5))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))

    def begin(self, given: Tensor) -> "Steps":
        return Steps(self, given)


class Steps:
    """The steps of a ConvLstm with one given input."""

    def __init__(self, lstm: ConvLstm, given: Tensor):
        self.lstm, self.maps = lstm, given
        self.state: tuple[Tensor, Tensor] | None = None
        self.given = F.conv2d(given, lstm.weight[:, : lstm.given], lstm.bias, padding=2) if lstm.once else None

    def step(self, moving: list[Tensor]) -> Tensor:
        """`moving` are the last of the moving channels; those before them and, at the first step, the state are zero."""
        lstm = self.lstm
        state = [] if self.state is None else [self.state[0]]
        maps = state + moving
        channels = sum(m.shape[1] for m in maps)
        # A single row of what is given stands for all rows.
        rows = max(len(m) for m in [self.maps, *maps])
        maps = [m.expand(rows, -1, -1, -1) for m in maps]
        if self.given is None:
            first, maps = [lstm.weight[:, : lstm.given]], [self.maps.expand(rows, -1, -1, -1), *maps]
            whole = channels == lstm.weight.shape[1] - lstm.given
            weight = lstm.weight if whole else torch.cat([*first, lstm.weight[:, lstm.weight.shape[1] - channels :]], dim=1)
            gates = F.conv2d(joined(maps), weight, lstm.bias, padding=2)
        elif maps:
            gates = self.given + F.conv2d(joined(maps), lstm.weight[:, lstm.weight.shape[1] - channels :], padding=2)
        else:
            gates = self.given
        sigmoids = gates[:, : 3 * lstm.hidden].sigmoid()
        i, f, o = sigmoids.chunk(3, dim=1)
        g = gates[:, 3 * lstm.hidden :].tanh()
        cell = i * g if self.state is None else torch.addcmul(i * g, f, self.state[1])
        hidden = o * cell.tanh()
        self.state = hidden, cell
        return hidden


class Belief(nn.Module):
    """Prior or posterior: `inputs` besides z_{l-1}."""

    def __init__(self, representations: int, encoded: int, hidden: int, latent: int, inputs: int, once: bool):
        super().__init__()
        self.encode = nn.Conv2d(representations, encoded, 2, 2)
        self.lstm = ConvLstm(hidden, encoded, inputs + latent, once)
        self.belief = nn.Conv2d(hidden, 2 * latent, 5, padding=2)

    def of(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance."""
        mean, log_variance = self.belief(hidden).chunk(2, dim=1)
        return mean, log_variance.clamp(*LOG_VARIANCE)


def sample(belief: tuple[Tensor, Tensor], noise: Tensor) -> Tensor:
    return torch.addcmul(belief[0], (0.5 * belief[1]).exp(), noise)


def kl(q: tuple[Tensor, Tensor], p: tuple[Tensor, Tensor]) -> Tensor:
    difference = q[1] - p[1]
    terms = difference.exp() + (q[0] - p[0]).square() * (-p[1]).exp() - difference
    return 0.5 * (terms.sum(dim=(1, 2, 3)) - terms[0].numel())


class Cgqn(nn.Module):
    def __init__(
        self,
        query: int,
        steps: int,
        hidden: int,
        channels=3,
        representation=(8, 16, 32, 32),
        encoded=128,
        latent=3,
        canvas=128,
        decoded: int | None = None,
        layout=torch.contiguous_format,
        once=True,
    ):
        super().__init__()
        self.steps, self.latent, self.layout = steps, latent, layout
        decoded = decoded or hidden
        first, second, third, top = representation
        self.representation = nn.ModuleList(
            [
                nn.Conv2d(channels + query, first, 2, 2),
                nn.Conv2d(first, second, 2, 2),
                nn.Conv2d(second, third, 3, padding=1),
                nn.Conv2d(third, top, 3, padding=1),
            ]
        )
        self.prior = Belief(top, encoded, hidden, latent, 0, once)
        self.posterior = Belief(2 * top, encoded, hidden, latent, hidden, once)
        self.decode = nn.Conv2d(canvas, decoded, 2, 2)
        self.lstm = ConvLstm(hidden, query, latent + decoded, once)
        self.canvas = nn.ConvTranspose2d(hidden, canvas, 2, 2)
        self.frame = nn.ConvTranspose2d(canvas, channels, 4, 4)
        self.to(memory_format=layout)

    def represent(self, frames: Tensor, queries: Tensor) -> Tensor:
        planes = queries[:, :, None, None].expand(-1, -1, *frames.shape[2:])
        maps = torch.cat([frames, planes], dim=1).contiguous(memory_format=self.layout)
        first, second, third, top = self.representation
        return top(F.relu_(third(F.relu_(second(F.relu_(first(maps)))))))

    def render(self, latents: list[Tensor], queries: Tensor) -> Tensor:
        """Frames of `queries [B * T, V]`, those of one scene after those of another."""
        rows, each = len(queries), len(queries) // len(latents[0])
        size = latents[0].shape[2:]
        steps = self.lstm.begin(queries[:, :, None, None].expand(-1, -1, *size).contiguous(memory_format=self.layout))
        # The canvas before the first step is zero.
        decoded = self.decode.bias[None, :, None, None].expand(rows, -1, *size)
        u = None
        for z in latents:
            hidden = steps.step([z.repeat_interleave(each, dim=0), decoded])
            added = self.canvas(hidden)
            u = added if u is None else u + added
            if z is not latents[-1]:
                decoded = self.decode(u)
        return self.frame(u)

    def bound(self, context: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
        """Squared error and KL of each scene; context and targets are frames and queries `[B, M, ..]`, noise `[L, B, Z, 8, 8]`."""
        scenes, seen = context[1].shape[:2]
        frames, queries = (torch.cat([a.flatten(0, 1), b.flatten(0, 1)]) for a, b in zip(context, targets))
        r = self.represent(frames, queries)
        r_context = r[: scenes * seen].unflatten(0, (scenes, seen)).sum(dim=1)
        r_targets = r[scenes * seen :].unflatten(0, (scenes, -1)).sum(dim=1)
        prior = self.prior.lstm.begin(self.prior.encode(r_context))
        posterior = self.posterior.lstm.begin(self.posterior.encode(torch.cat([r_context, r_targets], dim=1)))
        latents, divergence = [], 0.0
        for l in range(self.steps):
            p_hidden = prior.step(latents[-1:])
            # The last of the posterior's inputs is the prior's state.
            q_hidden = posterior.step([*latents[-1:], p_hidden])
            p, q = self.prior.of(p_hidden), self.posterior.of(q_hidden)
            latents.append(sample(q, noise[l]))
            divergence = divergence + kl(q, p)
        rendered = self.render(latents, targets[1].flatten(0, 1))
        error = (rendered - targets[0].flatten(0, 1)).square_().flatten(1).sum(dim=1)
        return error.view(scenes, -1).sum(dim=1), divergence

    def draw(self, context: tuple[Tensor, Tensor], queries: Tensor, noise: Tensor) -> Tensor:
        """Frames of `queries [T, V]` of one scene in samples with `noise [L, N, Z, 8, 8]`."""
        samples = noise.shape[1]
        known = self.represent(*context).sum(dim=0, keepdim=True)
        prior = self.prior.lstm.begin(self.prior.encode(known))
        latents = []
        for l in range(self.steps):
            latents.append(sample(self.prior.of(prior.step(latents[-1:])), noise[l]))
        return self.render(latents, queries.repeat(samples, 1))


class Training:
    """A training step: forward, backward, global-norm clip, Adam (5e-4, epsilon 1e-8)."""

    def __init__(self, model: Cgqn, inputs: tuple):
        self.model, self.inputs = model, inputs
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=5e-4, eps=1e-8, fused=True)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        error, divergence = self.model.bound(*self.inputs)
        (0.5 / VARIANCE * error + divergence).mean().backward()
        nn.utils.clip_grad_norm_(self.parameters, 1e4, foreach=True)
        self.optimizer.step()


def models(sizes: dict[str, int]) -> dict[str, Cgqn]:
    forms = {"given once": True, "one convolution": False}
    return {
        f"{layout}, {form}": Cgqn(**sizes, layout=LAYOUTS[layout], once=once) for layout in LAYOUTS for form, once in forms.items()
    }


def views(scenes: int, each: int, query: int) -> tuple[Tensor, Tensor]:
    return torch.rand(scenes, each, 3, SIDE, SIDE), torch.randn(scenes, each, query)


def training_step(world: tuple) -> Work:
    sizes, context, targets, _ = world
    inputs = views(BATCH, context, sizes["query"]), views(BATCH, targets, sizes["query"]), torch.randn(sizes["steps"], BATCH, 3, 8, 8)
    trainings = {name: Training(model, inputs) for name, model in models(sizes).items()}

    def compiled() -> Callable[[], None]:
        model = Cgqn(**sizes)
        model.bound = torch.compile(model.bound)
        return Training(model, inputs).step

    forms = {name: training.step for name, training in trainings.items()}
    return Work(forms=forms, compiled=compiled, parameters=count(next(iter(trainings.values())).model))


def samples(world: tuple) -> Work:
    sizes, context, _, asked = world
    frames, queries = views(1, context, sizes["query"])
    seen, asked_for = (frames[0], queries[0]), torch.randn(asked, sizes["query"])
    noise = torch.randn(sizes["steps"], SAMPLES, 3, 8, 8)

    def drawn(model: Cgqn, together: int) -> Callable[[], None]:
        def draw() -> None:
            with torch.inference_mode():
                for part in noise.split(together, dim=1):
                    model.draw(seen, asked_for, part)

        return draw

    forms = {
        f"{name}, {together} together": drawn(model, together)
        for name, model in models(sizes).items()
        for together in (SAMPLES, SAMPLES // 3)
    }
    return Work(forms=forms, parameters=count(Cgqn(**sizes)))


WORKS = {
    f"{kind}/cgqn-{name}": functools.partial(work, world)
    for kind, work in (("train-step", training_step), ("samples", samples))
    for name, world in (("narratives", NARRATIVES), ("dice", DICE))
}
