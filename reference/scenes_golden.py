"""The golden files of the models of scenes."""

from types import ModuleType
from typing import Callable

import numpy as np

import cdna
import cgqn
import gqn
import gqn_original
import scenes_properties
from golden_parts import Arrays, Golden, as_stored, draw, draw_parameters, named_gradients
from scenes_networks import LOG_VARIANCE_CEILING, LOG_VARIANCE_FLOOR, Shapes, State

WEIGHT_STD = 0.25  # kernels of 5x5 add up many maps
SMALL = cgqn.Sizes(
    channels=3, query=2, steps=2, hidden=2, decoded=2, representation=(2, 3, 3, 2), encoded=2, latent=2, canvas=3
)
ORIGINAL = gqn_original.Sizes(channels=2, query=2, steps=2, hidden=2, latent=1, wide=3, narrow=2)
PIXELS = 16
VARIANCE = 0.5
STEP = 1e-7  # of finite differences: the slope of a ReLU changes at zero


def probed(run: Callable[[Arrays], Arrays], arguments: Arrays, random: np.random.Generator, names: tuple[str, ...]) -> Golden:
    """`run` gives the outputs; the objective is the sum of those called `names`, each times a probe of its shape."""
    outputs = run(arguments)
    probes = {f"probe.{name}": draw(random, outputs[name].shape) for name in names}

    def objective(at: Arrays) -> np.ndarray:
        found = run(at)
        return sum((found[name] * probes[f"probe.{name}"]).sum() for name in names)

    return Golden(arguments | outputs | probes | named_gradients(objective, arguments), objective, arguments, step=STEP)


def conv_draw_golden(seed: int, sizes: cgqn.Sizes, *, batch: int, side: int) -> Golden:
    """One step, neither the first nor the last: the states and z_{l-1} are given. LSTMs have maps of `side`."""
    random = np.random.default_rng(seed)
    shapes = cgqn.parameter_shapes(sizes)
    parameters = draw_parameters(random, {n: s for n, s in shapes.items() if n.startswith(("prior.", "posterior."))}, WEIGHT_STD)
    arguments = parameters | {
        name: draw(random, (batch, channels, pixels, pixels), std)
        for name, channels, pixels, std in (
            ("r_context", sizes.representation[-1], 2 * side, 1.0),
            ("r_targets", sizes.representation[-1], 2 * side, 1.0),
            ("latent", sizes.latent, side, 1.0),
            ("prior_hidden_before", sizes.hidden, side, 0.5),
            ("prior_cell_before", sizes.hidden, side, 1.0),
            ("posterior_hidden_before", sizes.hidden, side, 0.5),
            ("posterior_cell_before", sizes.hidden, side, 1.0),
        )
    }

    def run(at: Arrays) -> Arrays:
        before = {name: State(at[f"{name}_hidden_before"], at[f"{name}_cell_before"]) for name in ("prior", "posterior")}
        p, prior = cgqn.prior_step(at, at["r_context"], at["latent"], before["prior"])
        q, posterior = cgqn.posterior_step(
            at, at["r_context"], at["r_targets"], at["latent"], prior.hidden, before["posterior"]
        )
        outputs = {}
        for name, belief, state in (("prior", p, prior), ("posterior", q, posterior)):
            outputs |= {f"{name}_hidden": state.hidden, f"{name}_cell": state.cell}
            outputs |= {f"{name}_mean": belief.mean, f"{name}_log_variance": belief.log_variance}
        return outputs

    return probed(run, arguments, random, tuple(run(arguments)))


def renderer_golden(seed: int, sizes: cgqn.Sizes, *, batch: int, targets: int, side: int) -> Golden:
    random = np.random.default_rng(seed)
    arguments = draw_parameters(random, cgqn.renderer_shapes(sizes), WEIGHT_STD) | {
        "latents": draw(random, (sizes.steps, batch, sizes.latent, side, side)),
        "queries": draw(random, (batch, targets, sizes.query)),
    }

    def run(at: Arrays) -> Arrays:
        return {"frames": cgqn.render(at, sizes, at["latents"], at["queries"])}

    return probed(run, arguments, random, ("frames",))


def drawn_scene(
    random: np.random.Generator, sizes: cgqn.Sizes | gqn_original.Sizes, *, batch: int, views: int, targets: int, pixels: int
) -> cgqn.Scene:
    frame = (sizes.channels, pixels, pixels)
    return cgqn.Scene(
        context_frames=as_stored(random.uniform(0.0, 1.0, (batch, views, *frame))),
        context_queries=draw(random, (batch, views, sizes.query)),
        target_frames=as_stored(random.uniform(0.0, 1.0, (batch, targets, *frame))),
        target_queries=draw(random, (batch, targets, sizes.query)),
    )


def bound_golden(
    parameters: Arrays,
    scene: cgqn.Scene,
    noise: np.ndarray,
    bound: Callable[[Arrays, cgqn.Scene], Arrays],
    sample: Callable[[Arrays, cgqn.Scene], Arrays],
    clamped: tuple[scenes_properties.Clamped, ...] = (),
) -> Golden:
    """The objective is the bound; a draw from the prior with the same noise is stored beside it."""

    def objective(at: Arrays) -> np.ndarray:
        return bound(at, scene)["bound"][0]

    given = {name: value for name, value in scene._asdict().items() if value.size > 0}
    given |= {"noise": noise, "pixel_variance": np.array([VARIANCE])}
    outputs = bound(parameters, scene) | sample(parameters, scene)
    tensors = parameters | given | outputs | named_gradients(objective, parameters)
    return Golden(tensors, objective, parameters, (lambda: scenes_properties.bound_errors(tensors, clamped),), step=STEP)


def cgqn_golden(
    seed: int, sizes: cgqn.Sizes, *, views: int = 2, seen: int | None = None, clamped: bool = False, batch: int = 2, targets: int = 3
) -> Golden:
    """`seen` targets are shown to the posterior. `clamped` puts the log-variance of the first latent below its floor in the posterior, and that
    of the last above its ceiling in the prior."""
    random = np.random.default_rng(seed)
    parameters = draw_parameters(random, cgqn.parameter_shapes(sizes), WEIGHT_STD)
    limits = ()
    if clamped:
        parameters["posterior.belief.bias"][sizes.latent] = -14.0
        parameters["prior.belief.bias"][-1] = 9.0
        limits = (
            scenes_properties.Clamped("posterior", 0, LOG_VARIANCE_FLOOR),
            scenes_properties.Clamped("prior", sizes.latent - 1, LOG_VARIANCE_CEILING),
        )
    scene = drawn_scene(random, sizes, batch=batch, views=views, targets=targets, pixels=PIXELS)
    side = 1 if sizes.single else PIXELS // 8
    noise = draw(random, (sizes.steps, batch, sizes.latent, side, side))

    def bound(at: Arrays, scene: cgqn.Scene) -> Arrays:
        return cgqn.bound(at, sizes, scene, noise, VARIANCE, seen)

    def sample(at: Arrays, scene: cgqn.Scene) -> Arrays:
        return cgqn.sample(at, sizes, scene, noise)

    golden = bound_golden(parameters, scene, noise, bound, sample, limits)
    errors = (
        lambda: scenes_properties.order_errors(lambda changed: bound(parameters, changed), scene, seen),
        lambda: scenes_properties.seen_errors(lambda changed: bound(parameters, changed), scene, seen),
        scenes_properties.size_errors,
    )
    return golden._replace(properties=golden.properties + errors)


def gqn_golden(seed: int, model: ModuleType, sizes: cgqn.Sizes | gqn_original.Sizes, shapes: Shapes, *, targets: int, side: int) -> Golden:
    """Of `gqn` or `gqn_original`, whose latents have maps of `side`."""
    random = np.random.default_rng(seed)
    batch = 2
    parameters = draw_parameters(random, shapes, WEIGHT_STD)
    scene = drawn_scene(random, sizes, batch=batch, views=2, targets=targets, pixels=PIXELS)
    noise = draw(random, (sizes.steps, batch, targets, sizes.latent, side, side))

    def bound(at: Arrays, scene: cgqn.Scene) -> Arrays:
        return model.bound(at, sizes, scene, noise, VARIANCE)

    def sample(at: Arrays, scene: cgqn.Scene) -> Arrays:
        return model.sample(at, sizes, scene, noise)

    golden = bound_golden(parameters, scene, noise, bound, sample)
    return golden._replace(
        properties=golden.properties
        + (lambda: scenes_properties.independence_errors(lambda changed: bound(parameters, changed), scene),)
    )


def cdna_golden(seed: int, *, kernels: int, size: int, channels: int, pixels: tuple[int, int], batch: int) -> Golden:
    """In the first example kernel 1 has its centre only, kernel 2 the middle of its first row, and kernel 3 no positive number."""
    random = np.random.default_rng(seed)
    arguments = {
        "raw_kernels": draw(random, (batch, kernels, size, size)),
        "mask_logits": draw(random, (batch, kernels + 1, *pixels)),
        "generated_logits": draw(random, (batch, channels, *pixels)),
        "previous": as_stored(random.uniform(0.0, 1.0, (batch, channels, *pixels))),
    }
    raw = arguments["raw_kernels"]
    raw[0, :3] = -np.abs(raw[0, :3])
    raw[0, 0, size // 2, size // 2] = 0.5
    raw[0, 1, 0, size // 2] = 2.0

    def run(at: Arrays) -> Arrays:
        return cdna.transform(at["raw_kernels"], at["mask_logits"], at["generated_logits"], at["previous"])

    golden = probed(run, arguments, random, ("frame",))
    return golden._replace(properties=(lambda: scenes_properties.cdna_errors(golden.tensors),))


def scenes_golden() -> dict[str, Golden]:
    return {
        "conv_draw": conv_draw_golden(201, SMALL, batch=2, side=3),
        "renderer": renderer_golden(202, SMALL, batch=2, targets=2, side=3),
        "cgqn": cgqn_golden(203, SMALL),
        "cgqn_no_context": cgqn_golden(204, SMALL, views=0),
        "cgqn_subset": cgqn_golden(205, SMALL, seen=2, clamped=True),
        "cgqn_own_weights": cgqn_golden(206, SMALL._replace(shared=False, latent=1), batch=1, targets=2),
        "cgqn_choices": cgqn_golden(
            207, SMALL._replace(posterior_sees_prior=False, all_latents=True, sigmoid=True), batch=1, targets=2
        ),
        "cgqn_sees_context": cgqn_golden(213, SMALL._replace(sees_context=True, latent=1), batch=1, targets=2),
        "cgqn_attention": cgqn_golden(
            212, SMALL._replace(sees_context=True, heads=2, shared=False, latent=1), views=3, batch=2, targets=2
        ),
        "cgqn_latents_look": cgqn_golden(
            214, SMALL._replace(sees_context=True, heads=2, latents_look=True, latent=1), views=3, batch=2, targets=2
        ),
        "cgqn_single_latents": cgqn_golden(215, SMALL._replace(single=True, pixels=(PIXELS // 8) ** 2), batch=2, targets=2),
        "cgqn_relative": cgqn_golden(216, SMALL._replace(relative=True), batch=2, targets=2),
        "gqn": gqn_golden(208, gqn, SMALL, cgqn.parameter_shapes(SMALL), targets=3, side=PIXELS // 8),
        "gqn_original": gqn_golden(
            209, gqn_original, ORIGINAL, gqn_original.parameter_shapes(ORIGINAL), targets=1, side=PIXELS // 4
        ),
        "cdna": cdna_golden(210, kernels=10, size=5, channels=2, pixels=(6, 7), batch=2),
    }
