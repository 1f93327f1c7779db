"""What must hold of the models of scenes whatever their parameters, as sentences about where it does not."""

from typing import Callable, NamedTuple

import numpy as np

import cgqn
from scenes_networks import LOG_VARIANCE_CEILING, LOG_VARIANCE_FLOOR

ROUNDING = 1e-12

Arrays = dict[str, np.ndarray]


class Clamped(NamedTuple):
    """The log-variance of channel `channel` of the latent stands at `limit` in every step and pixel, so its bias has no gradient."""

    network: str
    channel: int
    limit: float


def close(value: np.ndarray, expected: np.ndarray) -> bool:
    return np.allclose(value, expected, rtol=1e-12, atol=ROUNDING)


def bound_errors(tensors: Arrays, clamped: tuple[Clamped, ...]) -> list[str]:
    """What is `clamped` stands at its limit, the rest of the log-variances inside; both bounds are the sums of their parts."""
    wrong = []
    for network in ("prior", "posterior"):
        limits = {c.channel: c.limit for c in clamped if c.network == network}
        log_variance = tensors[f"{network}_log_variance"]
        channels = log_variance.shape[-3]
        for channel in range(channels):
            values = log_variance[..., channel, :, :]
            if channel in limits:
                if np.any(values != limits[channel]):
                    wrong.append(f"the log-variance {channel} of the {network} is not always {limits[channel]}")
                if np.any(tensors[f"grad.{network}.belief.bias"][channels + channel] != 0.0):
                    wrong.append(f"the clamped log-variance {channel} of the {network} passes a gradient to its bias")
            elif values.min() <= LOG_VARIANCE_FLOOR or values.max() >= LOG_VARIANCE_CEILING:
                wrong.append(f"the log-variance {channel} of the {network} is at a limit")
    if tensors["kl"].min() < 0.0:
        wrong.append(f"a KL divergence is {tensors['kl'].min():.3g}")
    batch = len(tensors["target_frames"])
    for name in ("", "_without_constant"):
        expected = (tensors[f"reconstruction{name}"].sum() - tensors["kl"].sum()) / batch
        if not close(tensors[f"bound{name}"][0], expected):
            wrong.append(f"bound{name} is {tensors[f'bound{name}'][0]:.9g}, its parts give {expected:.9g}")
    error = ((tensors["frames"] - tensors["target_frames"]) ** 2)[0, 0].sum()
    variance = tensors["pixel_variance"][0]
    pixels = tensors["target_frames"][0, 0].size
    expected = -0.5 * (error / variance + pixels * np.log(2.0 * np.pi * variance))
    if not close(tensors["reconstruction"].reshape(-1)[0], expected):
        wrong.append(f"the first reconstruction is {tensors['reconstruction'].reshape(-1)[0]:.9g}, not {expected:.9g}")
    return wrong


def order_errors(run: Callable[[cgqn.Scene], Arrays], scene: cgqn.Scene, seen: int | None) -> list[str]:
    """Neither the order of the context nor, where the posterior sees all targets, theirs changes the bound."""
    turned = scene._replace(context_frames=scene.context_frames[:, ::-1], context_queries=scene.context_queries[:, ::-1])
    if seen is None:
        turned = turned._replace(target_frames=scene.target_frames[:, ::-1], target_queries=scene.target_queries[:, ::-1])
    before, after = run(scene)["bound"], run(turned)["bound"]
    return [] if close(after, before) else [f"in another order the bound is {after[0]:.12g}, not {before[0]:.12g}"]


def seen_errors(run: Callable[[cgqn.Scene], Arrays], scene: cgqn.Scene, seen: int | None) -> list[str]:
    """Another frame of a target changes the posterior if, and only if, the posterior sees this target; it never changes the prior's first step."""
    before, wrong = run(scene), []
    for target in range(scene.target_frames.shape[1]):
        frames = scene.target_frames.copy()
        frames[:, target] = 1.0 - frames[:, target]
        after = run(scene._replace(target_frames=frames))
        changes = not np.array_equal(after["posterior_mean"], before["posterior_mean"])
        if changes != (seen is None or target < seen):
            wrong.append(f"the frame of target {target} {'changes' if changes else 'does not change'} the posterior")
        if not np.array_equal(after["prior_mean"][0], before["prior_mean"][0]):
            wrong.append(f"the frame of target {target} changes the first prior")
    return wrong


def independence_errors(run: Callable[[cgqn.Scene], Arrays], scene: cgqn.Scene) -> list[str]:
    """Of a factored model: another frame of a target changes the KL of this target and of no other."""
    before, wrong = run(scene)["kl"], []
    for target in range(scene.target_frames.shape[1]):
        frames = scene.target_frames.copy()
        frames[:, target] = 1.0 - frames[:, target]
        after = run(scene._replace(target_frames=frames))["kl"]
        changed = [other for other in range(after.shape[2]) if not close(after[:, :, other], before[:, :, other])]
        if changed != [target]:
            wrong.append(f"the frame of target {target} changes the KL of the targets {changed}")
    return wrong


def cdna_errors(tensors: Arrays) -> list[str]:
    """Kernels and masks sum to one; the first three kernels of the first example leave, shift and blur; the last kernels have no gradient."""
    wrong = []
    kernels, moved, previous = tensors["kernels"], tensors["moved"], tensors["previous"]
    if not close(kernels.sum(axis=(-2, -1)), 1.0) or not close(tensors["masks"].sum(axis=1), 1.0):
        wrong.append("kernels or masks do not sum to one")
    shift = kernels.shape[-1] // 2
    if not np.allclose(moved[0, 0], previous[0], atol=1e-9):
        wrong.append("a kernel with its centre only changes the frame")
    if not np.allclose(moved[0, 1, :, shift:], previous[0, :, :-shift], atol=1e-9) or moved[0, 1, :, :shift].max() > 1e-9:
        wrong.append("a kernel with the middle of its first row does not shift the frame down")
    if not close(kernels[0, 2], 1.0 / kernels[0, 2].size):
        wrong.append("a kernel without a positive number is not uniform")
    used = [bool(np.any(tensors["grad.raw_kernels"][:, k] != 0.0)) for k in range(kernels.shape[1])]
    if used != [True] * (len(used) - 1) + [False]:
        wrong.append(f"kernels with a gradient: {used}")
    return wrong


def size_errors() -> list[str]:
    """The networks for dice, counted by hand from the table of the paper's appendix B."""
    expected = {
        "representation": (40 + 1) * 8 + (32 + 1) * 16 + (144 + 1) * 32 + (288 + 1) * 32,
        "prior": (128 + 1) * 128 + (25 * (128 + 128 + 3) + 1) * 512 + (25 * 128 + 1) * 6,
        "posterior": (256 + 1) * 128 + (25 * (128 + 128 + 3 + 128) + 1) * 512 + (25 * 128 + 1) * 6,
        "renderer": (512 + 1) * 128 + (25 * (128 + 3 + 7 + 128) + 1) * 512 + 512 * 128 + 128 + 16 * 128 * 3 + 3,
    }
    found = cgqn.counts(cgqn.DICE)
    return [f"the {name} for dice has {found[name]} parameters, not {count}" for name, count in expected.items() if found[name] != count]
