"""Compares the peer's memories, stochastic recurrent networks, inference network, GTM-SM, consistent GQN and agents with `reference/`: the same
parameters (and noise) must give the same contexts, bounds, beliefs and losses. Needs PyTorch and NumPy."""

import sys
from pathlib import Path

import numpy as np
import torch

import pytorch_agents as agents
import pytorch_navigation as navigation
import pytorch_scenes as scenes
import pytorch_sequences as sequences
from pytorch_gtmm import Dnc, Introspection, Lstm, Vrnn

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "reference"))

import agents as agents_reference
import avf
import cgqn
import dnc
import gtm_sm
import introspection
import lstm
import rmc
import srnn
import vrnn
import vrnn_full

STEPS, BATCH, LATENT, FEATURES, HEADS, SLOTS, HIDDEN = 9, 3, 4, 6, 2, 7, 10


def parameters(shapes: dict[str, tuple[int, ...]], generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: 0.7 * generator.standard_normal(shape) for name, shape in shapes.items()}


def set_lstm(cell: Lstm, given: dict[str, np.ndarray], features: torch.nn.Linear | None = None) -> None:
    """Reorders the reference's gates, i, f, g, o, to the peer's, i, f, o, g. `features` takes the first rows of the input weights."""

    def reorder(array: np.ndarray) -> torch.Tensor:
        i, f, g, o = np.split(array, 4, axis=-1)
        return torch.tensor(np.concatenate([i, f, o, g], axis=-1), dtype=torch.float32)

    inputs, bias = reorder(given["lstm.weight_input"]), reorder(given["lstm.bias"])
    first = features.in_features if features is not None else 0
    if features is not None:
        features.weight.data = inputs[:first].T.contiguous()
        features.bias.data = bias
    else:
        cell.gates.bias.data = bias
    cell.gates.weight.data = torch.cat([inputs[first:], reorder(given["lstm.weight_hidden"])]).T.contiguous()


def set_linear(layer: torch.nn.Linear, weight: np.ndarray, bias: np.ndarray) -> None:
    layer.weight.data = torch.tensor(weight.T, dtype=torch.float32).contiguous()
    layer.bias.data = torch.tensor(bias, dtype=torch.float32)


def contexts(memory: torch.nn.Module, latents: np.ndarray, features: np.ndarray) -> np.ndarray:
    latents, features = (torch.tensor(array, dtype=torch.float32) for array in (latents, features))
    seen = memory.before_the_loop(features)
    state, psis = memory.initial_state(BATCH), []
    for t in range(STEPS):
        psi, state = memory(latents[t - 1] if t else None, seen[t - 1] if t else None, state)
        psis.append(psi)
    return torch.stack(psis).detach().numpy()


def check(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    error = float(np.abs(found - expected).max())
    assert error < 1e-4, f"{name}: a context differs by {error} from the reference"
    print(f"{name}: contexts of {STEPS} steps differ by at most {error:.1e}")


def set_mlp(mlp: sequences.Mlp, given: dict[str, np.ndarray], name: str) -> None:
    hidden = name if mlp.output is None else f"{name}.hidden"
    for index, layer in enumerate(mlp.layers):
        set_linear(layer, given[f"{hidden}.layers.{index}.weight"], given[f"{hidden}.layers.{index}.bias"])
    if mlp.output is not None:
        set_linear(mlp.output, given[f"{name}.output.weight"], given[f"{name}.output.bias"])


def set_gates(gates: torch.nn.Linear, given: dict[str, np.ndarray], order: list[int]) -> None:
    """Puts the reference's gates i, f, g, o into another order."""
    weight = np.concatenate([given["lstm.weight_input"], given["lstm.weight_hidden"]])
    weight, bias = (np.concatenate([np.split(a, 4, axis=-1)[i] for i in order], axis=-1) for a in (weight, given["lstm.bias"]))
    set_linear(gates, weight, bias)


def check_terms(name: str, model: torch.nn.Module, expected: dict[str, np.ndarray], x: np.ndarray, noise: np.ndarray) -> None:
    reconstruction, kl = model(*(torch.tensor(array, dtype=torch.float32) for array in (x, noise)))
    for what, found in ("reconstruction", reconstruction), ("kl", kl):
        error = np.abs(found.detach().numpy() - expected[what]) / np.maximum(1.0, np.abs(expected[what]))
        assert error.max() < 1e-4, f"{name}: {what} differs by {error.max()} from the reference"
    print(f"{name}: reconstruction and KL of {STEPS} steps agree with the reference")


def check_sequences(generator: np.random.Generator) -> None:
    """Checks the stochastic recurrent networks in all their forms, and the inference network."""
    observation, wide, units = 5, 8, 7
    in_order, joined = [0, 1, 2, 3], [0, 1, 3, 2]
    noise = generator.standard_normal((STEPS, BATCH, LATENT))

    given = parameters(vrnn_full.parameter_shapes(observation, LATENT, HIDDEN, wide, units), generator)
    x = generator.standard_normal((STEPS, BATCH, observation))
    expected = vrnn_full.filter_sequence(given, x, noise)
    for cell, order in ("joined product", joined), ("torch.lstm_cell", in_order):
        model = sequences.Vrnn(observation, LATENT, HIDDEN, 2, wide, units, score=sequences.log_normal, cell=cell)
        for name in "observations", "latents", "prior", "posterior", "decoder":
            set_mlp(getattr(model, name), given, name)
        set_gates(model.lstm.gates, given, order)
        model.first_state.data = torch.tensor(given["first_state"], dtype=torch.float32)
        check_terms(f"VRNN, {cell}", model, expected, x, noise)

    given = parameters(srnn.parameter_shapes(observation, LATENT, HIDDEN, units), generator)
    x = (x > 0.5).astype(float)
    expected = srnn.filter_sequence(given, x, noise)
    sizes = {"observation": observation, "latent": LATENT, "hidden": HIDDEN, "units": units, "layers": 1}
    for form in *sequences.LSTMS, "step by step":
        model = sequences.LoopedSrnn(**sizes) if form == "step by step" else sequences.Srnn(**sizes, lstm=form)
        for name in "prior", "posterior", "decoder":
            set_mlp(getattr(model, name), given, name)
        if form == "nn.LSTM":
            for own, name in ("weight_ih_l0", "weight_input"), ("weight_hh_l0", "weight_hidden"), ("bias_ih_l0", "bias"):
                getattr(model.lstm, own).data = torch.tensor(given[f"lstm.{name}"].T, dtype=torch.float32).contiguous()
        else:
            set_gates(model.lstm.gates, given, in_order if form == "torch.lstm_cell" else joined)
        model.first_latent.data = torch.tensor(given["first_latent"], dtype=torch.float32)
        check_terms(f"SRNN, {form}", model, expected, x, noise)

    given = parameters(avf.parameter_shapes(LATENT, 0, HIDDEN), generator)
    belief, gradient = (avf.Belief(*generator.standard_normal((2, BATCH, LATENT))) for _ in range(2))
    expected = avf.iterate(given, belief, gradient, None, False)
    net = sequences.InferenceNet(LATENT, HIDDEN)
    for name in "first", "second", "heads":
        set_linear(getattr(net, name), given[f"{name}.weight"], given[f"{name}.bias"])
    tensors = (tuple(torch.tensor(array, dtype=torch.float32) for array in pair) for pair in (belief, gradient))
    for found, part in zip(net(*tensors), expected):
        error = float(np.abs(found.detach().numpy() - part).max())
        assert error < 1e-4, f"inference network: a belief differs by {error} from the reference"
    print("inference network: beliefs agree with the reference")

    # Compares the log probabilities of bins with their definition in double precision.
    log_std = torch.tensor([-4.9, -4.0, -3.0, 0.0, 1.0], dtype=torch.float64)
    for offset in 0.0, 0.001, 0.02, -0.3, 1.0:
        low, high = ((offset + side * sequences.BIN / 2) * (-log_std).exp() for side in (-1, 1))
        near, far = (torch.special.log_ndtr(-u) for u in ((low, high) if offset >= 0 else (-high, -low)))
        expected = near + (-(far - near).exp()).log1p()
        output = torch.cat([torch.zeros(5, 1), log_std.float().unsqueeze(1)], dim=1)
        found = sequences.log_bins(torch.full((5, 1), offset), output)
        one_by_one = torch.cat([sequences.log_bins(torch.full((1, 1), offset), row.unsqueeze(0)) for row in output])
        for one in found, one_by_one:
            error = ((one - expected).abs() / expected.abs().clamp(min=1.0)).max()
            assert error < 1e-4, f"bins: {offset} has {one}, by definition {expected}"
    print("bins: log probabilities agree with the definition")


def check_navigation(generator: np.random.Generator) -> None:
    """Checks GTM-SM with either search, and that all forms of a single read agree."""
    pixels, units, actions, neighbours, predicted = 6, 5, len(navigation.MOVES), 3, 3
    memorised = STEPS - predicted
    sizes = {"pixels": pixels, "latent": LATENT, "hidden": units, "wide": units, "actions": actions, "place": 2, "neighbours": neighbours, "units": 0}
    given = parameters(gtm_sm.parameter_shapes("walls", **sizes), generator)
    frames = generator.random((BATCH, STEPS, pixels))
    conditions = np.eye(actions)[generator.integers(actions, size=(BATCH, STEPS))]
    noise, transition_noise = generator.standard_normal((BATCH, predicted, LATENT)), generator.standard_normal((BATCH, STEPS, 2))
    constants = {"r": navigation.NOISE_STD, "delta": navigation.DELTA, "std": navigation.PIXEL_STD}
    expected = gtm_sm.bound(given, "walls", frames, conditions, transition_noise, noise, tau=memorised, neighbours=neighbours, **constants)
    # The peer has the time first.
    seen = torch.arange(BATCH * STEPS).view(BATCH, STEPS).t()
    distinct, *others = (torch.tensor(array, dtype=torch.float32) for array in (frames.reshape(-1, pixels), conditions, noise, transition_noise))
    others = [array.transpose(0, 1).contiguous() for array in others]
    for search in navigation.SEARCHES:
        model = navigation.GtmSm(pixels, LATENT, hidden=units, gate_hidden=units, memorised=memorised, neighbours=neighbours, search=search)
        for name, own in ("transition.walls", model.g), ("encoder", model.encoder), ("decoder", model.decoder):
            set_mlp(own, given, name)
        model.A.data = torch.tensor(given["transition.moves"], dtype=torch.float32)
        for what, found in zip(("reconstruction", "kl"), model(distinct, seen, *others)):
            error = np.abs(found.detach().numpy().T - expected[what]) / np.maximum(1.0, np.abs(expected[what]))
            assert error.max() < 1e-4, f"GTM-SM, {search}: {what} differs by {error.max()} from the reference"
        print(f"GTM-SM, {search}: reconstruction and KL of {predicted} steps agree with the reference")

    forms = navigation.dictionary_read(1000).forms
    weights, values = forms["differences"]()
    for name, form in forms.items():
        other_weights, other_values = form()
        error = float((other_weights - weights).abs().max())
        assert error < 1e-3 and torch.equal(other_values, values), f"read, {name}: weights differ by {error}"
    print("reads: all forms agree")


def check_scenes(generator: np.random.Generator) -> None:
    """Checks the consistent GQN in both layouts and both forms of its LSTMs: squared error and KL of a batch, and samples."""
    pixels, views, targets, samples = 16, 2, 3, 4
    sizes = {"query": 2, "steps": 3, "hidden": 4}
    further = {"representation": (3, 4, 5, 4), "encoded": 6, "latent": 2, "canvas": 5, "decoded": 3}
    reference = cgqn.Sizes(channels=3, **sizes, **further)
    given = {name: 0.3 * generator.standard_normal(shape) for name, shape in cgqn.parameter_shapes(reference).items()}

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        return generator.random((BATCH, count, 3, pixels, pixels)), generator.standard_normal((BATCH, count, 2))

    context, asked = drawn(views), drawn(targets)
    scene = cgqn.Scene(*context, *asked)
    side = pixels // 8
    noise = generator.standard_normal((sizes["steps"], BATCH, further["latent"], side, side))
    sampled = generator.standard_normal((sizes["steps"], samples, further["latent"], side, side))
    expected = cgqn.bound(given, reference, scene, noise, 0.5)
    # All samples are of the first scene.
    one = cgqn.Scene(*(np.repeat(part[:1], samples, axis=0) for part in scene))
    frames = cgqn.sample(given, reference, one, sampled)["sampled_frames"]

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.float32)

    def set_layer(layer: torch.nn.Module, name: str) -> None:
        layer.weight.data, layer.bias.data = tensor(given[f"{name}.weight"]), tensor(given[f"{name}.bias"])

    def set_lstm_maps(lstm: scenes.ConvLstm, name: str, channels: list[int]) -> None:
        """`channels` are those of h, of what stands before the given part, and of the given part. Gates become i, f, o, g."""
        hidden, before, own = channels
        parts = np.split(given[f"{name}.weight"], np.cumsum([hidden, before, own]), axis=1)
        weight = np.concatenate([parts[2], parts[0], parts[1], parts[3]], axis=1)
        lstm.weight.data, lstm.bias.data = (
            tensor(np.concatenate([np.split(array, 4)[i] for i in (0, 1, 3, 2)])) for array in (weight, given[f"{name}.bias"])
        )

    for layout in scenes.LAYOUTS:
        for once in True, False:
            model = scenes.Cgqn(**sizes, **further, layout=scenes.LAYOUTS[layout], once=once)
            for place, layer in enumerate(model.representation, start=1):
                set_layer(layer, f"representation.{place}")
            for name, net in ("prior", model.prior), ("posterior", model.posterior):
                set_layer(net.encode, f"{name}.encode")
                set_layer(net.belief, f"{name}.belief")
                set_lstm_maps(net.lstm, f"{name}.lstm", [sizes["hidden"], 0, further["encoded"]])
            for name in "decode", "canvas", "frame":
                set_layer(getattr(model, name), f"renderer.{name}")
            set_lstm_maps(model.lstm, "renderer.lstm", [sizes["hidden"], further["latent"], sizes["query"]])
            error, divergence = model.bound(*(tuple(map(tensor, pair)) for pair in (context, asked)), tensor(noise))
            drawn_frames = model.draw((tensor(context[0][0]), tensor(context[1][0])), tensor(asked[1][0]), tensor(sampled))
            for what, found, right in (
                ("likelihood", -error, expected["reconstruction_without_constant"].sum(axis=1)),
                ("kl", divergence, expected["kl"].sum(axis=0)),
                ("samples", drawn_frames, frames.reshape(-1, *frames.shape[2:])),
            ):
                apart = np.abs(found.detach().numpy() - right) / np.maximum(1.0, np.abs(right))
                assert apart.max() < 1e-4, f"consistent GQN, {layout}: {what} differs by {apart.max()} from the reference"
            print(f"consistent GQN, {layout}, given part convolved {'once' if once else 'at every step'}: bound and samples agree with the reference")


def outputs(core: agents.LstmCore | agents.RmcCore, inputs: np.ndarray) -> np.ndarray:
    state, all_outputs = core.initial_state(BATCH), []
    for given in core.before_the_loop(torch.tensor(inputs, dtype=torch.float32)):
        output, state = core.step(given, state)
        all_outputs.append(output)
    return torch.stack(all_outputs).detach().numpy()


def check_agents(generator: np.random.Generator) -> None:
    """The cores and the loss of agents."""
    inputs = 0.1 * generator.standard_normal((STEPS, BATCH, agents.INPUTS))

    shapes = {"lstm.weight_input": (agents.INPUTS, 4 * HIDDEN), "lstm.weight_hidden": (HIDDEN, 4 * HIDDEN), "lstm.bias": (4 * HIDDEN,)}
    given = parameters(shapes, generator)
    state, expected = lstm.initial_state(given, BATCH), []
    for x in inputs:
        state = lstm.lstm(given, x, state)
        expected.append(state.hidden)
    for form in agents.CORES["lstm"][1]:
        # The reference has i, f, g, o, as `torch.lstm_cell`.
        order = [0, 1, 2, 3] if form == "torch.lstm_cell" else [0, 1, 3, 2]
        columns = np.concatenate([np.arange(gate * HIDDEN, (gate + 1) * HIDDEN) for gate in order])
        core = agents.LstmCore(form, HIDDEN)
        set_linear(core.input, given["lstm.weight_input"][:, columns], given["lstm.bias"][columns])
        core.recurrent.weight.data = torch.tensor(given["lstm.weight_hidden"][:, columns].T, dtype=torch.float32).contiguous()
        check(f"LSTM of agents, {form}", outputs(core, inputs), np.stack(expected))

    sizes = rmc.Sizes(slots=3, heads=2, head=5, key=5, gates="memory")
    given = parameters(rmc.parameter_shapes(sizes, agents.INPUTS), generator)
    expected = rmc.run(given, sizes, inputs)["outputs"]
    for form in agents.CORES["rmc"][1]:
        core = agents.RmcCore(form, sizes.slots, sizes.heads, sizes.head)
        layers = {"input": core.rmc.input, "blocks.0.qkv": core.rmc.qkv, "gate_input": core.rmc.gate_input, "gate_memory": core.rmc.gate_memory}
        for name, layer in (layers | {f"mlp.{number}": layer for number, layer in enumerate(core.rmc.mlp)}).items():
            set_linear(layer, given[f"{name}.weight"], given[f"{name}.bias"])
        for name in ("qkv_norm", "attention_norm", "mlp_norm"):
            layer = getattr(core.rmc, name)
            layer.weight.data, layer.bias.data = (torch.tensor(given[f"blocks.0.{name}.{part}"], dtype=torch.float32) for part in ("gamma", "beta"))
        check(f"RMC of agents, {form}", outputs(core, inputs), expected)

    taken = agents.Unroll()
    shape = (agents.UNROLL, agents.BATCH)
    taken.rewards = torch.tensor(generator.standard_normal(shape), dtype=torch.float32)
    taken.log_probabilities = torch.tensor(-0.5 - generator.random(shape), dtype=torch.float32)
    logits, values = generator.standard_normal((*shape, agents.ACTIONS)), generator.standard_normal((agents.UNROLL + 1, agents.BATCH))
    actions, behaviour, rewards, discounts = (part.numpy().astype(np.float64) for part in (taken.actions, taken.log_probabilities, taken.rewards, taken.discounts))
    ratios = np.exp(agents_reference.chosen(agents_reference.log_softmax(logits), actions) - behaviour)
    targets, advantages = agents_reference.v_trace(ratios, values, rewards, discounts)
    costs = (None, agents.VALUE_COST, agents.ENTROPY_COST)
    expected = agents_reference.loss(logits, values, actions, behaviour, targets, advantages, *costs)["loss"]
    found = agents.loss(torch.tensor(logits), torch.tensor(values), taken).item()
    assert abs(found - expected) < 1e-4, f"agents: a loss of {found} differs from the reference, {expected}"
    print("agents: the loss agrees with the reference")


def main() -> int:
    generator = np.random.default_rng(1)
    latents = generator.standard_normal((STEPS, BATCH, LATENT))
    features = generator.standard_normal((STEPS, BATCH, FEATURES))

    given = parameters(introspection.parameter_shapes(LATENT, 0, HIDDEN, 8, HEADS, SLOTS), generator)
    memory = Introspection(LATENT, FEATURES, SLOTS, heads=HEADS, hidden=HIDDEN, attention_hidden=8)
    set_lstm(memory.lstm, given)
    weight = np.concatenate([given["attention_hidden.weight"], given["gate.weight"]], axis=1)
    set_linear(memory.attention_hidden_and_gate, weight, np.concatenate([given["attention_hidden.bias"], given["gate.bias"]]))
    set_linear(memory.attention_output, given["attention_output.weight"], given["attention_output.bias"])
    check("introspection", contexts(memory, latents, features), introspection.run(given, latents, None)[0])

    width = 5
    sizes = dnc.Sizes(HEADS, width, SLOTS)
    given = parameters(dnc.parameter_shapes(sizes, LATENT, 0, HIDDEN), generator)
    memory = Dnc(LATENT, FEATURES, SLOTS, heads=HEADS, width=width, hidden=HIDDEN)
    set_lstm(memory.lstm, given)
    # Order in the reference: read keys, read strengths, write key, write strength, erase, write, free, allocation and write gate, modes.
    ends = np.cumsum([HEADS * width, HEADS, width, 1, width, width, HEADS + 2])
    keys, strengths, key, strength, erase, write, gates, modes = np.split(np.arange(given["interface.bias"].size), ends)
    order = np.concatenate([keys, key, strengths, strength, erase, gates, write, modes])
    set_linear(memory.interface, given["interface.weight"][:, order], given["interface.bias"][order])
    check("dnc", contexts(memory, latents, features), dnc.run(given, sizes, latents, None)["psi"])

    given = parameters(vrnn.parameter_shapes(FEATURES, LATENT, 0, HIDDEN), generator)
    memory = Vrnn(LATENT, FEATURES, SLOTS, hidden=HIDDEN)
    set_lstm(memory.lstm, given, memory.features)
    check("vrnn", contexts(memory, latents, features), vrnn.run(given, features, latents, None))

    check_sequences(generator)
    check_navigation(generator)
    check_scenes(generator)
    check_agents(generator)
    return 0


if __name__ == "__main__":
    sys.exit(main())
