"""Agents of mnemora's benchmark in eager PyTorch, at the sizes of Santoro et al. 2018 (rmc), appendix A.3: a window of 5 x 5 cells with six planes,
four actions, 32 environments, unrolls of 40 steps.

    x_t = [relu(conv(relu(conv(frame)))); where a pixel is; last action; last reward]        h_t = core(x_t, h_{t-1}), from the start where an episode begins
    logits, value = heads of 256 ReLUs of h_t
    V-trace:  loss = mean of -log pi(a) advantage + c_V / 2 (vs - V)^2 - c_H H(pi)

Acting is a step of all environments without gradients: what is seen lies in memory and costs nothing, the environments are not stepped, an action is drawn.
Learning is an update from an unroll in memory: forward, V-trace, backward, clipping by the global norm, Adam. The loop is an unroll and an update.

Optimisations: the torso, the heads and all products of the input are computed for all steps in one call; an LSTM takes one or two products a step; V-trace
is computed without gradients; Adam is the fused one, and so is the norm.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytorch_lstm import cell_update
from pytorch_relational import Rmc
from pytorch_sequences import adam, count
from work import Work

BATCH, UNROLL, ACTIONS = 32, 40, 4
PLANES, SIDE = 6, 5
CHANNELS = (12, 24)
INPUTS = SIDE * SIDE * (CHANNELS[1] + 2) + ACTIONS + 1
HEAD = 256
DISCOUNT, VALUE_COST, ENTROPY_COST, CLIP = 0.99, 0.5, 0.005, 40.0


class LstmCore(nn.Module):
    """`form`: whether a step takes `torch.lstm_cell` or one product and a sum with that of the input."""

    def __init__(self, form: str, hidden: int = 248):
        super().__init__()
        self.output, self.form = hidden, form
        self.input = nn.Linear(INPUTS, 4 * hidden)
        self.recurrent = nn.Linear(hidden, 4 * hidden, bias=False)

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        return torch.zeros(batch, self.output), torch.zeros(batch, self.output)

    def before_the_loop(self, x: Tensor) -> tuple:
        """What a step computes of `x [T, B, I]` alone."""
        return x.unbind(0) if self.form == "torch.lstm_cell" else self.input(x).unbind(0)

    def step(self, given: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        hidden, cell = state
        if self.form == "torch.lstm_cell":
            hidden, cell = torch.lstm_cell(given, (hidden, cell), self.input.weight, self.recurrent.weight, self.input.bias)
        else:
            hidden, cell = cell_update(torch.addmm(given, hidden, self.recurrent.weight.t()), cell)
        return hidden, (hidden, cell)


class RmcCore(nn.Module):
    def __init__(self, form: str, slots: int = 4, heads: int = 4, head_size: int = 64):
        super().__init__()
        self.output = slots * heads * head_size
        self.rmc = Rmc(INPUTS, slots, heads, head_size, form, gate_width=1)

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        return (torch.eye(self.rmc.slots, self.output // self.rmc.slots).expand(batch, -1, -1),)

    def before_the_loop(self, x: Tensor) -> tuple:
        x = self.rmc.input(x)
        return tuple(zip(x.unbind(0), self.rmc.gate_input(x).unbind(0)))

    def step(self, given: tuple[Tensor, Tensor], state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        memory = self.rmc.step(*given, state[0])
        return memory.flatten(1), (memory,)


CORES = {"lstm": (LstmCore, ("joined product", "torch.lstm_cell")), "rmc": (RmcCore, ("written out", "torch"))}


class Agent(nn.Module):
    def __init__(self, core: nn.Module):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(*pair, 2) for pair in zip((PLANES, *CHANNELS), CHANNELS))
        self.core = core
        self.policy = nn.Sequential(nn.Linear(core.output, HEAD), nn.ReLU(inplace=True), nn.Linear(HEAD, ACTIONS))
        self.value = nn.Sequential(nn.Linear(core.output, HEAD), nn.ReLU(inplace=True), nn.Linear(HEAD, 1))
        place = torch.linspace(-1.0, 1.0, SIDE)
        self.register_buffer("places", torch.stack(torch.meshgrid(place, place, indexing="ij")).flatten())

    def see(self, frames: Tensor, last: Tensor) -> Tensor:
        """`[rows, inputs]` of the core, from `frames [rows, planes, side, side]` and `last [rows, actions + 1]`."""
        for convolution in self.convolutions:
            frames = F.relu_(convolution(F.pad(frames, (0, 1, 0, 1))))
        return torch.cat([frames.flatten(1), self.places.expand(len(frames), -1), last], dim=1)

    def act(self, frames: Tensor, last: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Actions, their log probabilities, and the state after the step."""
        (given,) = self.core.before_the_loop(self.see(frames, last).unsqueeze(0))
        output, state = self.core.step(given, state)
        log_policy = F.log_softmax(self.policy(output), dim=1)
        actions = torch.multinomial(log_policy.exp(), 1)
        return actions.squeeze(1), log_policy.gather(1, actions).squeeze(1), state

    def unroll(self, frames: Tensor, last: Tensor, going_on: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Logits and values `[T + 1, B, ..]`; `going_on [T + 1, B, 1]` is 0 where an episode begins, after which the state is the initial one."""
        time, batch = going_on.shape[:2]
        x = self.see(frames.flatten(0, 1), last.flatten(0, 1)).view(time, batch, -1)
        initial = self.core.initial_state(batch)
        outputs = []
        for given, same in zip(self.core.before_the_loop(x), going_on.unbind(0)):
            state = tuple(torch.where(same.view(batch, *(1,) * (part.dim() - 1)), part, first) for part, first in zip(state, initial))
            output, state = self.core.step(given, state)
            outputs.append(output)
        outputs = torch.stack(outputs)
        return self.policy(outputs), self.value(outputs).squeeze(2)


@torch.no_grad()
def v_trace(log_ratios: Tensor, rewards: Tensor, discounts: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Targets of the values and advantages, `[T, B]`; `values [T + 1, B]`."""
    ratios = log_ratios.exp().clamp_(max=1.0)
    deltas = (ratios * (rewards + discounts * values[1:] - values[:-1])).unbind(0)
    carried = (discounts * ratios).unbind(0)
    beyond, all_beyond = torch.zeros(values.shape[1]), []
    for delta, factor in zip(reversed(deltas), reversed(carried)):
        beyond = torch.addcmul(delta, factor, beyond)
        all_beyond.append(beyond)
    targets = values[:-1] + torch.stack(all_beyond[::-1])
    following = torch.cat([targets[1:], values[-1:]])
    return targets, ratios * (rewards + discounts * following - values[:-1])


class Unroll:
    """Observations, actions and rewards in memory, with the ends of some episodes."""

    def __init__(self):
        self.frames = torch.rand(UNROLL + 1, BATCH, PLANES, SIDE, SIDE)
        self.last = torch.zeros(UNROLL + 1, BATCH, ACTIONS + 1)
        self.going_on = torch.rand(UNROLL + 1, BATCH, 1) > 0.01
        self.actions = torch.randint(ACTIONS, (UNROLL, BATCH))
        self.log_probabilities = torch.full((UNROLL, BATCH), -1.4)
        self.rewards = torch.zeros(UNROLL, BATCH)
        self.discounts = DISCOUNT * self.going_on[1:, :, 0].float()


def loss(logits: Tensor, values: Tensor, taken: Unroll) -> Tensor:
    """Of `logits [T, B, actions]` and `values [T + 1, B]`."""
    log_policy = F.log_softmax(logits, dim=2)
    chosen = log_policy.gather(2, taken.actions.unsqueeze(2)).squeeze(2)
    targets, advantages = v_trace(chosen.detach() - taken.log_probabilities, taken.rewards, taken.discounts, values.detach())
    entropy = -(log_policy.exp() * log_policy).sum(2).mean()
    return -(chosen * advantages).mean() + 0.5 * VALUE_COST * F.mse_loss(values[:-1], targets) - ENTROPY_COST * entropy


def learning(agent: Agent, taken: Unroll) -> Callable[[], None]:
    """An update from an unroll."""
    optimizer = adam(agent)
    parameters = list(agent.parameters())
    state = agent.core.initial_state(BATCH)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits, values = agent.unroll(taken.frames, taken.last, taken.going_on, state)
        loss(logits[:-1], values, taken).backward()
        nn.utils.clip_grad_norm_(parameters, CLIP, foreach=True)
        optimizer.step()

    return step


def acting(agent: Agent, taken: Unroll) -> Callable[[], None]:
    """A step of all environments."""
    state = agent.core.initial_state(BATCH)
    time = 0

    @torch.inference_mode()
    def step() -> None:
        nonlocal state, time
        time = (time + 1) % UNROLL
        _, _, state = agent.act(taken.frames[time], taken.last[time], state)

    return step


def loop(agent: Agent, taken: Unroll) -> Callable[[], None]:
    """An unroll and an update."""
    act, learn = acting(agent, taken), learning(agent, taken)

    def step() -> None:
        for _ in range(UNROLL):
            act()
        learn()

    return step


def work(memory: str, part: Callable[[Agent, Unroll], Callable[[], None]]) -> Work:
    core, forms = CORES[memory]
    agents = {form: Agent(core(form)) for form in forms}
    taken = Unroll()
    return Work(forms={form: part(agent, taken) for form, agent in agents.items()}, parameters=count(agents[forms[0]]))


PARTS = {"agent-act": acting, "agent-learn": learning, "agent-loop": loop}
WORKS = {f"{name}/{memory}": functools.partial(work, memory, part) for memory in CORES for name, part in PARTS.items()}
