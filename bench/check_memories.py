"""Checks that the peer's memories are those of `../reference`: the same parameters give the same contexts. Needs PyTorch and NumPy."""

import sys
from pathlib import Path

import numpy as np
import torch

from pytorch_gtmm import Dnc, Introspection, Lstm, Vrnn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import dnc
import introspection
import vrnn

STEPS, BATCH, LATENT, FEATURES, HEADS, SLOTS, HIDDEN = 9, 3, 4, 6, 2, 7, 10


def parameters(shapes: dict[str, tuple[int, ...]], generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: 0.7 * generator.standard_normal(shape) for name, shape in shapes.items()}


def set_lstm(cell: Lstm, given: dict[str, np.ndarray], features: torch.nn.Linear | None = None) -> None:
    """The reference's gates come as i, f, g, o, the peer's as i, f, o, g; `features` takes the first rows of the input's weights."""

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
    # The reference: read keys, read strengths, write key, write strength, erase, write, free, allocation and write gate, modes.
    ends = np.cumsum([HEADS * width, HEADS, width, 1, width, width, HEADS + 2])
    keys, strengths, key, strength, erase, write, gates, modes = np.split(np.arange(given["interface.bias"].size), ends)
    order = np.concatenate([keys, key, strengths, strength, erase, gates, write, modes])
    set_linear(memory.interface, given["interface.weight"][:, order], given["interface.bias"][order])
    check("dnc", contexts(memory, latents, features), dnc.run(given, sizes, latents, None)["psi"])

    given = parameters(vrnn.parameter_shapes(FEATURES, LATENT, 0, HIDDEN), generator)
    memory = Vrnn(LATENT, FEATURES, SLOTS, hidden=HIDDEN)
    set_lstm(memory.lstm, given, memory.features)
    check("vrnn", contexts(memory, latents, features), vrnn.run(given, features, latents, None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
