"""What must hold of the memories whatever their parameters, as sentences about where it does not.

Sums and order of weights, links and allocation of the DNC, and that no slots are so nearly equally used that float32 could put them in another
order. Of the filtering passes and the inference network: what is meant to be beyond a limit is, and passes no gradient. Everything is computed
in float64.
"""

from typing import NamedTuple

import numpy as np

import dnc
import lru
import rmc
import spatial
from lstm import LstmState
from memory import Previous

ROUNDING = 1e-12
USAGE_MARGIN = 1e-4
DISTANCE_MARGIN = 1e-3
FIRST_WRITE_MARGIN = 1e-7  # see `usage_margin_errors`

Arrays = dict[str, np.ndarray]


def weight_errors(weights: np.ndarray, low: float, high: float) -> list[str]:
    """Every weight is at least zero and every sum over the last axis lies within `[low, high]`."""
    sums = weights.sum(axis=-1)
    wrong = []
    if weights.min() < 0.0:
        wrong.append(f"a weight is {weights.min():.3g}")
    if sums.min() < low - ROUNDING or sums.max() > high + ROUNDING:
        wrong.append(f"weights sum to between {sums.min():.15g} and {sums.max():.15g}, not [{low}, {high}]")
    return wrong


def usage_margin_errors(usage: np.ndarray, first: int, after_first_write: bool) -> list[str]:
    """Among the `first + 1` least used of `usage [B, N]`, neighbours are equal in float32 or further apart than `USAGE_MARGIN`.

    After the very first write of a DNC the slots that were not allocated differ by eps^j: the second slot stands about 1e-6 above the rest,
    and the rest are equal in float32. There, and only there, the smaller margin will do.
    """
    ordered = np.sort(usage, axis=-1)[:, : first + 1]
    gaps = np.diff(ordered, axis=-1)[np.diff(ordered.astype(np.float32), axis=-1) != 0]
    margin = FIRST_WRITE_MARGIN if after_first_write else USAGE_MARGIN
    return [f"two slots differ in usage by only {gap:.3g}" for gap in gaps if gap < margin]


def ntm_errors(outputs: Arrays) -> list[str]:
    return weight_errors(outputs["read_weights"], 1.0, 1.0) + weight_errors(outputs["write_weights"], 1.0, 1.0)


def lru_errors(outputs: Arrays, sizes: lru.Sizes) -> list[str]:
    """Also that usage is what its weights add up to, and that a slot written by its own head is the one that was least used."""
    wrong = weight_errors(outputs["read_weights"], 1.0, 1.0) + weight_errors(outputs["write_weights"], 1.0, 1.0)
    usage = lru.initial_usage(sizes, outputs["usage"].shape[1])
    reading = np.repeat(usage[:, None], sizes.heads, axis=1)
    for t, after in enumerate(outputs["usage"]):
        wrong += usage_margin_errors(usage, sizes.heads, after_first_write=False)
        written = outputs["write_weights"][t]
        for b, j in np.ndindex(len(usage), sizes.heads):
            slot = sorted(range(sizes.slots), key=lambda i: (np.float32(usage[b, i]), i))[j]
            others = np.delete(np.arange(sizes.slots), slot)
            share = written[b, j, others].sum() / reading[b, j, others].sum() if reading[b, j, others].sum() > 0 else None
            if share is not None and not np.allclose(written[b, j, others], share * reading[b, j, others], atol=ROUNDING):
                wrong.append(f"step {t + 1}: head {j} writes elsewhere than where it read and to its free slot {slot}")
        usage = lru.USAGE_DECAY * usage + outputs["read_weights"][t].sum(axis=1) + written.sum(axis=1)
        if not np.allclose(usage, after, rtol=0.0, atol=ROUNDING):
            wrong.append(f"step {t + 1}: usage is not the decayed sum of the weights")
        reading = outputs["read_weights"][t]
    return wrong


def dnc_errors(outputs: Arrays, parameters: Arrays, sizes: dnc.Sizes, latents: np.ndarray, conditions: np.ndarray | None) -> list[str]:
    wrong = weight_errors(outputs["read_weights"], 0.0, 1.0) + weight_errors(outputs["write_weights"], 0.0, 1.0)
    wrong += weight_errors(outputs["allocation"], 0.0, 1.0)
    for t, usage in enumerate(outputs["usage"]):
        wrong += [f"step {t + 1}: {line}" for line in usage_margin_errors(usage, sizes.slots, after_first_write=t == 1)]

    start = outputs["allocation"][0, :, 0]
    if np.any(outputs["usage"][0] != 0.0) or np.any(start[:, 0] != 1.0 - dnc.USAGE_EPSILON):
        wrong.append("the first allocation is not 1 - eps at the first slot of an unused memory")

    state = dnc.initial_state(parameters, sizes, latents.shape[1])
    for t in range(len(latents)):
        previous = None if t == 0 else Previous(latents[t - 1])
        _, state = dnc.step(parameters, sizes, previous, None if conditions is None else conditions[t], state)
        wrong += [f"links of step {t + 1}: {line}" for line in link_errors(state.links)]
    return wrong


def link_errors(links: np.ndarray) -> list[str]:
    wrong = weight_errors(links, 0.0, 1.0) + weight_errors(np.swapaxes(links, -1, -2), 0.0, 1.0)
    if np.any(np.diagonal(links, axis1=-2, axis2=-1) != 0.0):
        wrong.append("a slot is linked to itself")
    return wrong


def pure_allocation_errors(slots: int = 6) -> list[str]:
    """A DNC that only allocates and frees nothing: N writes go to N slots, and the links walk through them in the order of writing."""
    sizes = dnc.Sizes(heads=1, word=2, slots=slots)
    parameters = {name: np.zeros(shape) for name, shape in dnc.parameter_shapes(sizes, latent=1, condition=0, hidden=2).items()}
    bias = parameters["interface.bias"]
    free_gate = sizes.heads * (sizes.word + 1) + 3 * sizes.word + 1
    bias[free_gate] = -100.0
    bias[free_gate + 1 : free_gate + 3] = 100.0  # allocation gate and write gate
    latents = np.zeros((slots, 1, 1))

    state = dnc.initial_state(parameters, sizes, 1)
    order, wrong = [], []
    for t in range(slots):
        _, state = dnc.step(parameters, sizes, None if t == 0 else Previous(latents[t - 1]), None, state)
        order.append(int(state.write_weights[0].argmax()))
        if state.write_weights[0].max() < 1.0 - 1e-3:
            wrong.append(f"write {t + 1} of pure allocation has weight {state.write_weights[0].max():.6g} at most")
    if sorted(order) != list(range(slots)) or order[0] != 0:
        wrong.append(f"pure allocation writes to the slots {order}")
    for earlier, later in zip(order, order[1:]):
        forward, backward = state.links[0] @ np.eye(slots)[earlier], state.links[0].T @ np.eye(slots)[later]
        if forward.argmax() != later or abs(forward[later] - 1.0) > 1e-3 or backward.argmax() != earlier:
            wrong.append(f"pure allocation: the link from slot {earlier} to {later} is {forward[later]:.6g}")
    return wrong


def cell_limit_errors() -> list[str]:
    """A DNC controller far outside the limit: the state it keeps is inside, and the hidden output is that of the cell before."""
    sizes = dnc.Sizes(heads=1, word=2, slots=3)
    parameters = {name: np.zeros(shape) for name, shape in dnc.parameter_shapes(sizes, latent=1, condition=0, hidden=2).items()}
    parameters["lstm.bias"][2:4] = 100.0  # nothing is forgotten
    state = dnc.initial_state(parameters, sizes, 1)
    state = state._replace(controller=LstmState(state.controller.hidden, np.array([[50.0, -50.0]])))
    seen, state = dnc.step(parameters, sizes, None, None, state)
    expected = 0.5 * np.tanh([50.0, -50.0])
    held = np.array_equal(state.controller.cell, [[20.0, -20.0]]) and np.allclose(seen.psi[0, -2:], expected)
    return [] if held else ["the cell of the DNC controller is not kept within its limit"]


def hybrid_errors(outputs: Arrays) -> list[str]:
    """Weights sum to one from two filled slots on; with one, the share of the successor is missing; with none, they are zero."""
    weights = outputs["read_weights"]
    wrong = weight_errors(weights[1], 0.0, 1.0) + weight_errors(weights[2:], 1.0, 1.0)
    slots = weights.shape[-1]
    for t, of_step in enumerate(weights):
        if np.any(of_step[:, :, min(t, slots) :] != 0.0):
            wrong.append(f"step {t + 1}: an empty slot is read")
        if np.any(of_step[:, :, : min(t, slots)] == 0.0):
            wrong.append(f"step {t + 1}: a filled slot has no weight at all")
    return wrong


def spatial_errors(outputs: Arrays, sizes: spatial.Sizes, moves: np.ndarray, conditions: np.ndarray) -> list[str]:
    """Weights sum to one once something is stored, K entries have weight (all, if there are fewer), the nearest has the most, and the entries
    around the last one read differ in distance by more than float32 could confuse. Places are the sums of all moves so far.
    """
    weights = outputs["read_weights"]
    wrong = weight_errors(weights[1:], 1.0, 1.0)
    if np.any(weights[0] != 0.0) or np.any(outputs["psi"][0] != 0.0):
        wrong.append("something is read before anything is stored")
    places = np.cumsum(conditions @ moves, axis=0)
    for t, b in np.ndindex(weights.shape[:2]):
        first = max(0, t - sizes.slots)
        apart = ((places[first:t, b] - places[t, b]) ** 2).sum(axis=-1)
        read, count = weights[t, b, 0], min(t, sizes.neighbours)
        if np.count_nonzero(read) != count:
            wrong.append(f"step {t + 1}: {np.count_nonzero(read)} entries are read, not {count}")
        if count > 0 and (np.argmax(read) != np.argmin(apart) or np.any(read[np.argsort(apart)[:count]] == 0.0)):
            wrong.append(f"step {t + 1}: others are read than the nearest")
        gaps = np.diff(np.sort(apart))
        if gaps.size > 0 and gaps.min() < DISTANCE_MARGIN:
            wrong.append(f"step {t + 1}: two entries differ in squared distance by only {gaps.min():.3g}")
    return wrong


def rmc_errors(outputs: Arrays, sizes: rmc.Sizes) -> list[str]:
    """Weights sum to one; gates between old and new keep a memory that starts as the identity bounded by the number of steps."""
    wrong = weight_errors(outputs["attention"], 1.0, 1.0)
    bound = 1.0 + len(outputs["outputs"])
    if sizes.gates != "none" and np.abs(outputs["outputs"]).max() > bound:
        wrong.append(f"an output is {np.abs(outputs['outputs']).max():.6g}, gates allow {bound}")
    return wrong


def rmc_size_errors() -> list[str]:
    """The cell for the N-th farthest vector: 40 inputs, 8 slots, 8 heads of 32."""
    shapes = rmc.parameter_shapes(rmc.Sizes(slots=8, heads=8, head=32, key=32), 40)
    count = sum(int(np.prod(shape)) for shape in shapes.values())
    return [] if count == 605_184 else [f"the cell for the N-th farthest has {count} parameters, not 605184"]


class Clamped(NamedTuple):
    """Element `index` of the last axis of `output` stands at `limit` in every step, so element `bias_index` of `bias` has no gradient."""

    output: str
    index: int
    limit: float
    bias: str
    bias_index: int


def filtering_errors(tensors: Arrays, clamped: tuple[Clamped, ...]) -> list[str]:
    """What is `clamped` stands at its limit, the rest of these outputs inside (-5, 5), where no limit is; the bound is the sum of its parts."""
    wrong = []
    for output in {c.output for c in clamped}:
        limits = {c.index: c.limit for c in clamped if c.output == output}
        for index in range(tensors[output].shape[-1]):
            values = tensors[output][..., index]
            if index in limits and np.any(values != limits[index]):
                wrong.append(f"{output} {index} is not always {limits[index]:.6g}")
            if index not in limits and np.abs(values).max() >= 5.0:
                wrong.append(f"{output} {index} is as far out as {np.abs(values).max():.6g}")
    for c in clamped:
        if tensors[f"grad.{c.bias}"][c.bias_index] != 0.0:
            wrong.append(f"a clamped {c.output} passes a gradient to {c.bias}")
    if tensors["kl"].min() < 0.0:
        wrong.append(f"a KL divergence is {tensors['kl'].min():.3g}")
    bound = (tensors["reconstruction"] - tensors["kl"]).sum() / tensors["kl"].shape[1]
    if abs(bound - tensors["bound"][0]) > ROUNDING * abs(bound):
        wrong.append(f"the bound is {tensors['bound'][0]:.9g}, its parts give {bound:.9g}")
    return wrong


def srnn_clip_errors(tensors: Arrays) -> list[str]:
    """The hidden units pushed beyond [-3, 3] pass no gradient; the one that the slope keeps inside does."""
    wrong = []
    for bias, unit, passes in (
        ("prior.hidden.layers.0.bias", 0, False),
        ("decoder.hidden.layers.1.bias", 1, False),
        ("posterior.hidden.layers.0.bias", 2, True),
    ):
        gradient = tensors[f"grad.{bias}"][unit]
        if (gradient != 0.0) != passes:
            wrong.append(f"the gradient of {bias} {unit} is {gradient:.3g}")
    return wrong


def avf_errors(tensors: Arrays, limit: float, normalise_mean: bool) -> list[str]:
    """One log-variance stands at `limit`: that of the second latent of the first example; a normalised mean has mean zero and deviation one."""
    wrong = []
    at_limit = np.argwhere(tensors["new_log_variance"] == limit).tolist()
    if at_limit != [[0, 1]]:
        wrong.append(f"at the limit are {at_limit}, not the one element")
    if tensors["new_log_variance"].min() < -15.0 or tensors["new_log_variance"].max() > 5.0:
        wrong.append("a log-variance is outside its limits")
    mean = tensors["new_mean"]
    normal = np.allclose(mean.mean(axis=-1), 0.0, atol=1e-9) and np.allclose(mean.std(axis=-1, ddof=1), 1.0, rtol=1e-5)
    if normal != normalise_mean:
        wrong.append(f"the new mean is {'' if normal else 'not '}normalised")
    return wrong
