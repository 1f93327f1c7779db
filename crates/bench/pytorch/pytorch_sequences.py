"""The stochastic recurrent networks of mnemora's benchmark in eager PyTorch: VRNN and SRNN at the sizes of Marino et al. 2018 (avf).

    VRNN (Chung et al. 2015)                          SRNN (Fraccaro et al. 2016, as avf has it)
    prior      from h_{t-1}                           d_t = LSTM(d_{t-1}, x_{t-1})
    posterior  from [X(x_t); h_{t-1}]                 prior      from [d_t; z_{t-1}]
    decoder    from [Z(z_t); h_{t-1}]                 posterior  from [x_t; d_t]
    h_t = LSTM(h_{t-1}, [X(x_t); Z(z_t)])             decoder    from [d_t; z_t]

A training step is forward, backward and Adam, with given noise and sequences. It uses the model's own posterior or, for avf, a network that improves the
prior with the gradient of each step's free energy and learns once from all steps.

Optimisations: everything that does not depend on the previous step is computed for all steps in one call, unless the form's name says otherwise;
parts of a first layer that read only observations are added inside the loop; Adam is the fused one. An LSTM takes one or two products
per step (both forms) or, if nothing is computed between its steps, one call of `nn.LSTM`.
"""

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_gtmm import LOG_STD_RANGE, Lstm, gaussian_kl
from work import Work

LEARNING_RATE = 1e-4
OBSERVED_LOG_STD = (-5.0, 5.0)
LOG_VARIANCE = (-15.0, 5.0)
BIN = 0.0018190742
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)

Gaussian = tuple[Tensor, Tensor]


def clipped_leaky_relu(u: Tensor) -> Tensor:
    return F.leaky_relu_(u, 1.0 / 3.0).clamp(-3.0, 3.0)


class Mlp(nn.Module):
    """Layers of hidden units, with `outputs` linear units at the end if there are any."""

    def __init__(self, inputs: int, layers: int, units: int, activation: Callable[[Tensor], Tensor], outputs: int = 0):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs if index == 0 else units, units) for index in range(layers))
        self.output = nn.Linear(units, outputs) if outputs else None
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.layers[0](x))

    def after(self, first: Tensor) -> Tensor:
        """The remaining layers, from the product of the first one."""
        x = self.activation(first)
        for layer in self.layers[1:]:
            x = self.activation(layer(x))
        return x if self.output is None else self.output(x)


def gaussian(parameters: Tensor) -> Gaussian:
    """Mean and log standard deviation, side by side in a map's output."""
    mean, log_std = parameters.chunk(2, dim=-1)
    return mean, log_std.clamp(*LOG_STD_RANGE)


def sample(q: Gaussian, noise: Tensor) -> Tensor:
    return torch.addcmul(q[0], q[1].exp(), noise)


def log_bernoulli(x: Tensor, logits: Tensor) -> Tensor:
    return -F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(dim=-1)


def log_bins(x: Tensor, parameters: Tensor, bin: float = BIN, squashed: bool = False) -> Tensor:
    """Log probability of the bins around `x`, summed over the last axis: the density times the width with the next term of its expansion if a bin
    is narrow, otherwise the difference of the tails. `squashed`: the mean is the sigmoid of its parameter."""
    mean, log_std = parameters.chunk(2, dim=-1)
    mean = mean.sigmoid() if squashed else mean
    log_std = log_std.clamp(*OBSERVED_LOG_STD)
    inverse = (-log_std).exp()
    z, width = (x - mean) * inverse, inverse * bin
    squares = z.square()
    bend = ((squares - 1.0) * width.square()).mul(1.0 / 24.0).clamp(-0.5, 0.5).log1p()
    density = torch.add(bend - log_std, squares, alpha=-0.5) + (math.log(bin) - HALF_LOG_TWO_PI)
    narrow = width < 0.05
    if bool(narrow.all()):
        return density.sum(dim=-1)
    half = 0.5 * torch.where(narrow, 0.05, width)
    z = z.abs()
    near, far = torch.special.log_ndtr(half - z), torch.special.log_ndtr(-half - z)
    tails = near + (-(far - near).clamp(max=-1e-6).exp()).log1p()
    return torch.where(narrow, density, tails).sum(dim=-1)


def log_normal(x: Tensor, parameters: Tensor) -> Tensor:
    """The density itself, for the comparison with `reference/`."""
    mean, log_std = parameters.chunk(2, dim=-1)
    log_std = log_std.clamp(*OBSERVED_LOG_STD)
    return (-0.5 * ((x - mean) * (-log_std).exp()).square() - log_std - HALF_LOG_TWO_PI).sum(dim=-1)


def log_columns(x: Tensor, parameters: Tensor) -> Tensor:
    """Student's t of each column that was observed: `x` has values and then 1 or 0 for each, `parameters` places, log scales and logarithms of the
    degrees of freedom beyond two."""
    value, observed = x.chunk(2, dim=-1)
    place, log_scale, log_freedom = parameters.chunk(3, dim=-1)
    log_scale = log_scale.clamp(-7.0, 5.0)
    freedom = log_freedom.clamp(-5.0, 8.0).exp() + 2.01
    half = 0.5 * freedom
    standard = (value - place) * (-log_scale).exp()
    log_p = (
        torch.lgamma(half + 0.5)
        - torch.lgamma(half)
        - 0.5 * (math.pi * freedom).log()
        - log_scale
        - (half + 0.5) * (standard.square() / freedom).log1p()
    )
    return (log_p * observed).sum(dim=-1)


def outputs(score, observation: int) -> int:
    """Numbers that a decoder gives."""
    return {log_bernoulli: observation, log_columns: observation // 2 * 3}.get(score, 2 * observation)


class Vrnn(nn.Module):
    """`forward` returns log p(x_t | ..) and KL of each step, `[T, B]`, for `x [T, B, X]` and `noise [T, B, Z]`."""

    def __init__(self, observation=200, latent=200, hidden=2000, layers=4, wide=600, units=500, score=log_bins, cell="joined product"):
        super().__init__()
        self.hidden, self.wide, self.score, self.cell = hidden, wide, score, cell
        self.observations = Mlp(observation, layers, wide, F.relu_)
        self.latents = Mlp(latent, layers, units, F.relu_)
        self.prior = Mlp(hidden, layers, units, F.relu_, 2 * latent)
        self.posterior = Mlp(wide + hidden, layers, units, F.relu_, 2 * latent)
        self.decoder = Mlp(units + hidden, layers, wide, F.relu_, outputs(score, observation))
        # Gates of [X(x_t); Z(z_t); h_{t-1}] in the order i, f, o, g; of torch.lstm_cell i, f, g, o.
        self.lstm = Lstm(wide + units, hidden)
        self.first_state = nn.Parameter(torch.zeros(2 * hidden))

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        steps, batch = x.shape[:2]
        hidden, cell = (part.expand(batch, -1) for part in self.first_state.split(self.hidden))
        seen = self.observations(x.flatten(0, 1))
        first, gates = self.posterior.layers[0], self.lstm.gates
        from_seen, from_hidden = first.weight.split([self.wide, self.hidden], dim=1)
        projected = F.linear(seen, from_seen, first.bias).view(steps, batch, -1).unbind(0)
        to_posterior = from_hidden.t()
        in_loop = gates.in_features - self.wide
        if self.cell == "joined product":
            # The part of the gates that comes from x_t, for all steps; [Z(z_t); h_{t-1}] in the loop.
            given_weight, weight = gates.weight.split([self.wide, in_loop], dim=1)
            given = F.linear(seen, given_weight, gates.bias).view(steps, batch, -1).unbind(0)
            weight = weight.t()
        else:
            given = seen.view(steps, batch, -1).unbind(0)
            weight_input, weight_hidden = gates.weight.split([gates.in_features - self.hidden, self.hidden], dim=1)
        hiddens, latents, means, log_stds = [], [], [], []
        for t, drawn in enumerate(noise.unbind(0)):
            hiddens.append(hidden)
            mean, log_std = gaussian(self.posterior.after(torch.addmm(projected[t], hidden, to_posterior)))
            latent = self.latents(torch.addcmul(mean, log_std.exp(), drawn))
            latents.append(latent)
            means.append(mean)
            log_stds.append(log_std)
            if t + 1 == steps:
                break
            if self.cell == "joined product":
                gates = torch.addmm(given[t], torch.cat([latent, hidden], dim=1), weight)
                hidden, cell = self.lstm.update(gates, cell)
            else:
                both = torch.cat([given[t], latent], dim=1)
                hidden, cell = torch.lstm_cell(both, (hidden, cell), weight_input, weight_hidden, self.lstm.gates.bias)
        hiddens = torch.cat(hiddens)
        kl = gaussian_kl(torch.cat(means), torch.cat(log_stds), *gaussian(self.prior(hiddens)))
        output = self.decoder(torch.cat([torch.cat(latents), hiddens], dim=1))
        return self.score(x.flatten(0, 1), output).view(steps, batch), kl.view(steps, batch)


class Srnn(nn.Module):
    """`forward` is as in the VRNN; `lstm` names the form in which the deterministic layer runs through the steps."""

    def __init__(self, observation, latent, hidden, units, layers, decoder_layers=2, score=log_bernoulli, lstm="nn.LSTM"):
        super().__init__()
        self.hidden, self.score, self.form = hidden, score, lstm
        if lstm == "nn.LSTM":
            self.lstm = nn.LSTM(observation, hidden)
            self.lstm.bias_hh_l0.requires_grad_(False).zero_()
        else:
            self.lstm = Lstm(observation, hidden)
        self.prior = Mlp(hidden + latent, layers, units, clipped_leaky_relu, 2 * latent)
        self.posterior = Mlp(observation + hidden, layers, units, clipped_leaky_relu, 2 * latent)
        self.decoder = Mlp(hidden + latent, decoder_layers, units, clipped_leaky_relu, outputs(score, observation))
        self.first_latent = nn.Parameter(torch.zeros(latent))

    def deterministic(self, x: Tensor) -> Tensor:
        """d_t of all steps, `[T, B, H]`, from x_{t-1}."""
        steps, batch, _ = x.shape
        before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        if self.form == "nn.LSTM":
            return self.lstm(before)[0]
        hidden = cell = torch.zeros(batch, self.hidden)
        gates = self.lstm.gates
        from_before, from_hidden = gates.weight.split([x.shape[2], self.hidden], dim=1)
        hiddens = []
        if self.form == "torch.lstm_cell":
            for one in before.unbind(0):
                hidden, cell = torch.lstm_cell(one, (hidden, cell), from_before, from_hidden, gates.bias)
                hiddens.append(hidden)
            return torch.stack(hiddens)
        given = F.linear(before, from_before, gates.bias).unbind(0)
        from_hidden = from_hidden.t()
        for t in range(steps):
            hidden, cell = self.lstm.update(torch.addmm(given[t], hidden, from_hidden), cell)
            hiddens.append(hidden)
        return torch.stack(hiddens)

    def first(self, batch: int) -> Tensor:
        return self.first_latent.expand(batch, -1)

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        d = self.deterministic(x)
        q = gaussian(self.posterior(torch.cat([x, d], dim=2)))
        return self.given(x, d, q, sample(q, noise))

    def given(self, x: Tensor, d: Tensor, q: Gaussian, latents: Tensor) -> tuple[Tensor, Tensor]:
        """The same for given beliefs and samples."""
        before = torch.cat([self.first(x.shape[1]).unsqueeze(0), latents[:-1]])
        p = gaussian(self.prior(torch.cat([d, before], dim=2)))
        return self.score(x, self.decoder(torch.cat([d, latents], dim=2))), gaussian_kl(*q, *p)


class LoopedSrnn(Srnn):
    """The same step by step, in a loop that works for every model: posterior and sample inside, prior and decoder after it."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named, lstm="joined product")

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        steps, batch, _ = x.shape
        hidden = cell = torch.zeros(batch, self.hidden)
        before = torch.zeros_like(x[0])
        hiddens, latents, means, log_stds = [], [], [], []
        for one, drawn in zip(x.unbind(0), noise.unbind(0)):
            hidden, cell = self.lstm([before], hidden, cell)
            q = gaussian(self.posterior(torch.cat([one, hidden], dim=1)))
            hiddens.append(hidden)
            latents.append(sample(q, drawn))
            means.append(q[0])
            log_stds.append(q[1])
            before = one
        d, q = torch.stack(hiddens), (torch.stack(means), torch.stack(log_stds))
        return self.given(x, d, q, torch.stack(latents))


def normalised(u: Tensor) -> Tensor:
    """Each row minus its mean, divided by its standard deviation."""
    std, mean = torch.std_mean(u, dim=1, keepdim=True)
    return (u - mean) / (std + 1e-7)


class InferenceNet(nn.Module):
    """The inference network of avf: two highway layers and gated updates of mean and log-variance."""

    def __init__(self, latent: int, hidden: int):
        super().__init__()
        self.first = nn.Linear(4 * latent, 3 * hidden)
        self.second = nn.Linear(hidden, 2 * hidden)
        self.heads = nn.Linear(hidden, 4 * latent)

    def forward(self, belief: Gaussian, gradient: Gaussian) -> Gaussian:
        """The belief updated from its mean and log-variance and the gradients of both, each `[B, Z]`."""
        embedded, units, gate = self.first(torch.cat([normalised(u) for u in (*gradient, *belief)], dim=1)).chunk(3, dim=1)
        h = torch.lerp(F.elu(units), embedded, gate.sigmoid())
        units, gate = self.second(h).chunk(2, dim=1)
        h = torch.lerp(F.elu(units), h, gate.sigmoid())
        mean, mean_gate, log_variance, gate = self.heads(h).chunk(4, dim=1)
        mean = torch.lerp(mean, belief[0], mean_gate.sigmoid())
        return mean, torch.lerp(log_variance, belief[1], gate.sigmoid()).clamp(*LOG_VARIANCE)


def adam(module: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=LEARNING_RATE, eps=1e-8, fused=True)


def count(*modules: nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters() if p.requires_grad)


class Direct:
    """A training step with the model's own posterior."""

    def __init__(self, model: nn.Module, x: Tensor, noise: Tensor):
        self.model, self.x, self.noise = model, x, noise
        self.optimizer = adam(model)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        reconstruction, kl = self.model(self.x, self.noise)
        (kl - reconstruction).sum(dim=0).mean().backward()
        self.optimizer.step()


class Variational:
    """A training step by variational filtering with one iteration; the inference network learns once."""

    def __init__(self, model: Srnn, net: InferenceNet, x: Tensor, noise: Tensor, together: bool):
        """`noise [3, T, B, Z]`: for the free energies of the prior and of the belief, and for the sample that is carried on.

        `together`: the network learns from all time steps in one call; otherwise its gradients are added up step by step.
        """
        self.model, self.net, self.x, self.noise, self.together = model, net, x, noise, together
        self.optimizer, self.net_optimizer = adam(model), adam(net)
        self.learned = list(net.parameters())

    def infer(self, d: Tensor) -> tuple[Gaussian, Tensor]:
        """Beliefs and their samples, `[T, B, Z]`, for `d [T, B, H]`, a constant; the network learns."""
        model, net = self.model, self.net
        batch = self.x.shape[1]
        latent = model.first(batch).detach()
        latents, means, log_stds, asked, outcomes = [], [], [], [], []
        self.net_optimizer.zero_grad(set_to_none=True)
        for x, d, drawn in zip(self.x.unbind(0), d.unbind(0), self.noise.unbind(1)):
            with torch.no_grad():
                p = gaussian(model.prior(torch.cat([d, latent], dim=1)))

            def energy(mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
                q = mean, 0.5 * log_variance
                logits = model.decoder(torch.cat([d, sample(q, noise)], dim=1))
                return (gaussian_kl(*q, *p) - model.score(x, logits)).sum()

            belief = p[0].requires_grad_(), (2.0 * p[1]).requires_grad_()
            gradient = torch.autograd.grad(energy(*belief, drawn[0]), belief)
            belief = tuple(part.detach() for part in belief)
            if self.together:
                with torch.no_grad():
                    better = net(belief, gradient)
                better = tuple(part.requires_grad_() for part in better)
                asked.append((*belief, *gradient))
                outcomes.append(torch.autograd.grad(energy(*better, drawn[1]), better))
            else:
                better = net(belief, gradient)
                energy(*better, drawn[1]).backward(inputs=self.learned)
            mean, log_std = better[0].detach(), 0.5 * better[1].detach()
            latent = sample((mean, log_std), drawn[2])
            latents.append(latent)
            means.append(mean)
            log_stds.append(log_std)
        if self.together:
            mean, log_variance, *gradient = (torch.cat(part) for part in zip(*asked))
            found = net((mean, log_variance), tuple(gradient))
            outcomes = (torch.cat(part) for part in zip(*outcomes))
            sum((part * outcome).sum() for part, outcome in zip(found, outcomes)).backward()
        for parameter in self.learned:
            parameter.grad /= batch * len(latents)
        self.net_optimizer.step()
        return (torch.stack(means), torch.stack(log_stds)), torch.stack(latents)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        d = self.model.deterministic(self.x)
        q, latents = self.infer(d.detach())
        reconstruction, kl = self.model.given(self.x, d, q, latents)
        (kl - reconstruction).sum(dim=0).mean().backward()
        self.optimizer.step()


def direct(models: dict[str, Callable[[], nn.Module]], x: Tensor, latent: int) -> Work:
    noise = torch.randn(*x.shape[:2], latent)
    built = {name: model() for name, model in models.items()}
    forms = {name: Direct(model, x, noise).step for name, model in built.items()}
    return Work(forms=forms, parameters=count(next(iter(built.values()))))


def notes(steps: int, batch: int) -> Tensor:
    return (torch.randn(steps, batch, 88) > 1.15).float()


MUSIC = {"observation": 88, "latent": 100, "hidden": 300, "units": 500, "layers": 1}
SPEECH = {"observation": 200, "latent": 256, "hidden": 1024, "units": 512, "layers": 2, "score": log_bins}
# Users' own data.
SRNN_SPECTRUM = {"observation": 513, "latent": 16, "hidden": 128, "units": 256, "layers": 1, "decoder_layers": 1, "score": log_normal}
VRNN_SPECTRUM = {"observation": 513, "latent": 16, "hidden": 128, "layers": 1, "wide": 256, "units": 128, "score": log_normal}
SRNN_TABLE = {"observation": 16, "latent": 4, "hidden": 32, "units": 32, "layers": 1, "decoder_layers": 1, "score": log_columns}
VRNN_TABLE = {"observation": 16, "latent": 4, "hidden": 32, "layers": 1, "wide": 32, "units": 32, "score": log_columns}
LSTMS = ("nn.LSTM", "torch.lstm_cell", "joined product")


def spectrum() -> Tensor:
    return torch.randn(50, 128, 513)


def table() -> Tensor:
    values = torch.randn(65, 16, 8)
    return torch.cat([values, torch.ones_like(values)], dim=2)


def vrnn(sizes: dict, x: Callable[[], Tensor]) -> Work:
    models = {cell: functools.partial(Vrnn, **sizes, cell=cell) for cell in ("joined product", "torch.lstm_cell")}
    return direct(models, x(), sizes["latent"])


def srnn(sizes: dict, x: Callable[[], Tensor]) -> Work:
    models = {lstm: functools.partial(Srnn, **sizes, lstm=lstm) for lstm in LSTMS}
    return direct(models | {"step by step": functools.partial(LoopedSrnn, **sizes)}, x(), sizes["latent"])


def variational_music() -> Work:
    x, noise = notes(25, 16), torch.randn(3, 25, 16, MUSIC["latent"])

    def build(lstm: str, together: bool) -> Variational:
        return Variational(Srnn(**MUSIC, lstm=lstm), InferenceNet(MUSIC["latent"], 1024), x, noise, together)

    steps = {lstm: build(lstm, together=True) for lstm in LSTMS} | {"nn.LSTM, gradients by step": build("nn.LSTM", together=False)}
    first = steps["nn.LSTM"]
    return Work(forms={name: one.step for name, one in steps.items()}, parameters=count(first.model, first.net))


WORKS = {
    "train-step/vrnn-speech": functools.partial(vrnn, {"latent": 200}, lambda: torch.randn(40, 64, 200)),
    "train-step/srnn-speech": functools.partial(srnn, SPEECH, lambda: torch.randn(40, 64, 200)),
    "train-step/srnn-music": functools.partial(srnn, MUSIC, lambda: notes(25, 16)),
    "train-step/srnn-spectrum": functools.partial(srnn, SRNN_SPECTRUM, spectrum),
    "train-step/vrnn-spectrum": functools.partial(vrnn, VRNN_SPECTRUM, spectrum),
    "train-step/srnn-table": functools.partial(srnn, SRNN_TABLE, table),
    "train-step/vrnn-table": functools.partial(vrnn, VRNN_TABLE, table),
    "avf-step/srnn-music": variational_music,
}
