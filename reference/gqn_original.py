"""The generative query network in its original form (Eslami et al. 2018), with the pool representation; one latent for every target.

    r = sum over the context of M(x_k, v_k)
    h_g, c_g, h_e, c_e = 0,  u_0 = 0
    for l = 1..L:
        pi_l = N(belief_g(h_g))
        h_e, c_e = ConvLSTM_e([frame_e(x_q), v_q, r, h_g, canvas_e(u_{l-1})])      q_l = N(belief_e(h_e))
        z_l ~ q_l, or pi_l to sample
        h_g, c_g = ConvLSTM_g([v_q, r, z_l])                                       u_l = u_{l-1} + canvas_g(h_g)
    x ~ N(frame_g(u_L), sigma^2)
    bound = log N(x_q; frame_g(u_L), sigma^2) - sum_l KL(q_l || pi_l)

pi_l and the input of ConvLSTM_e have h_g from before step l. v_q and r are joined as constant maps on S/4 x S/4. Log-variances are kept within
`[-8, 4]`, as in `cgqn.py`. The representation, with ReLU after every convolution and v as constant maps:

    a = 1(x);  b = 4(3(a)) + 2(a);  d = [b; v];  e = 7(6(d)) + 5(d);  r = mean over pixels of 8(e)

Sizes as in `cgqn.py`, with the LSTMs on S/4 x S/4 and U = H; W wide and N narrow layers of the representation. Parameters, with weights as in
`scenes_networks.py`, and a bias for each weight but where noted:

    representation.1, .2       [W, C, 2, 2], [W, W, 2, 2]               stride 2
    representation.3, .4       [N, W, 3, 3], [W, N, 2, 2]               stride 1 and 2
    representation.5           [W, W + V, 3, 3]
    representation.6, .7, .8   [N, W + V, 3, 3], [W, N, 3, 3], [W, W, 1, 1]
    inference.frame            [C, C, 4, 4]                             stride 4, no bias
    inference.canvas           [H, H, 4, 4]                             stride 4, no bias
    inference.lstm             [4H, H + C + V + W + 2H, 5, 5]           input [h_e; frame; v; r; h_g; canvas]
    inference.belief           [2Z, H, 5, 5]                            means, then log-variances
    generator.belief           [2Z, H, 5, 5]
    generator.lstm             [4H, H + V + W + Z, 5, 5]                input [h_g; v; r; z]
    generator.canvas           [H, H, 4, 4]                             transposed, stride 4, no bias
    generator.frame            [C, H, 1, 1]
"""

from typing import NamedTuple

import numpy as np

from cgqn import Scene, scores
from gqn import for_each_target
from numerics import relu
from scenes_networks import (
    Belief,
    Parameters,
    Shapes,
    belief,
    belief_shapes,
    conv_lstm_shapes,
    conv_lstm_step,
    convolution,
    convolution_shapes,
    initial_state,
    of_steps,
    planes,
    sum_of_views,
    transposed_convolution,
)


class Sizes(NamedTuple):
    channels: int
    query: int
    steps: int = 12
    hidden: int = 128
    latent: int = 3
    wide: int = 256
    narrow: int = 128


def represent(parameters: Parameters, frames: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """`M(x, v)` of `frames [N, C, S, S]` and `queries [N, V]`: `[N, W]`."""

    def layer(maps: np.ndarray, place: int, stride: int = 1) -> np.ndarray:
        return relu(convolution(maps, parameters, f"representation.{place}", stride))

    maps = layer(frames, 1, stride=2)
    maps = layer(layer(maps, 3), 4, stride=2) + layer(maps, 2, stride=2)
    maps = np.concatenate([maps, planes(queries, maps.shape[-1])], axis=1)
    maps = layer(layer(maps, 6), 7) + layer(maps, 5)
    return layer(maps, 8).mean(axis=(2, 3))


def known(parameters: Parameters, frames: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """r of `frames [B, M, C, S, S]` and `queries [B, M, V]`: `[B, W]`."""
    return sum_of_views(lambda x, v: represent(parameters, x, v), frames, queries)


def run(
    parameters: Parameters, sizes: Sizes, r: np.ndarray, queries: np.ndarray, targets: np.ndarray | None, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[Belief], list[Belief]]:
    """Frames `[B, C, S, S]`, latents `[L, B, Z, S/4, S/4]`, the beliefs pi and the beliefs q.

    For `r [B, W]`, `queries [B, V]`, `targets [B, C, S, S]` and `noise` of the latents' shape. Without targets there is no q, and the latents are
    drawn from pi.
    """
    steps, batch, _, side, _ = noise.shape
    query, scene = planes(queries, side), planes(r, side)
    generator = inference = initial_state(batch, sizes.hidden, side)
    canvas = np.zeros((batch, sizes.hidden, 4 * side, 4 * side))
    seen = None if targets is None else convolution(targets, parameters, "inference.frame", stride=4)
    latents, priors, posteriors = [], [], []
    for l in range(steps):
        pi = belief(parameters, "generator.belief", generator.hidden)
        priors.append(pi)
        if seen is None:
            latent = pi.sample(noise[l])
        else:
            drawn = convolution(canvas, parameters, "inference.canvas", stride=4)
            inference = conv_lstm_step(parameters, "inference.lstm", [seen, query, scene, generator.hidden, drawn], inference)
            q = belief(parameters, "inference.belief", inference.hidden)
            posteriors.append(q)
            latent = q.sample(noise[l])
        latents.append(latent)
        generator = conv_lstm_step(parameters, "generator.lstm", [query, scene, latent], generator)
        canvas = canvas + transposed_convolution(generator.hidden, parameters, "generator.canvas")
    return convolution(canvas, parameters, "generator.frame"), np.stack(latents), priors, posteriors


def bound(parameters: Parameters, sizes: Sizes, scene: Scene, noise: np.ndarray, variance: float) -> dict[str, np.ndarray]:
    """As `gqn.bound`, with `noise [L, B, T, Z, S/4, S/4]`."""

    def of_one(alone: Scene, its_noise: np.ndarray) -> dict[str, np.ndarray]:
        r = known(parameters, alone.context_frames, alone.context_queries)
        frames, latents, priors, posteriors = run(
            parameters, sizes, r, alone.target_queries[:, 0], alone.target_frames[:, 0], its_noise
        )
        outputs = of_steps(latents, priors, posteriors) | {"frames": frames[:, None]}
        return outputs | scores(alone.target_frames, outputs["frames"], outputs["kl"].sum(axis=0), variance)

    return for_each_target(of_one, scene, noise)


def sample(parameters: Parameters, sizes: Sizes, scene: Scene, noise: np.ndarray) -> dict[str, np.ndarray]:
    """As `gqn.sample`, with `noise [L, B, T, Z, S/4, S/4]`."""

    def of_one(alone: Scene, its_noise: np.ndarray) -> dict[str, np.ndarray]:
        r = known(parameters, alone.context_frames, alone.context_queries)
        frames, latents, _, _ = run(parameters, sizes, r, alone.target_queries[:, 0], None, its_noise)
        return {"sampled_latents": latents, "sampled_frames": frames[:, None]}

    return for_each_target(of_one, scene, noise)


def parameter_shapes(sizes: Sizes) -> Shapes:
    wide, narrow, hidden = sizes.wide, sizes.narrow, sizes.hidden
    layers = (
        (sizes.channels, wide, 2),
        (wide, wide, 2),
        (wide, narrow, 3),
        (narrow, wide, 2),
        (wide + sizes.query, wide, 3),
        (wide + sizes.query, narrow, 3),
        (narrow, wide, 3),
        (wide, wide, 1),
    )
    shapes: Shapes = {}
    for place, (inputs, outputs, size) in enumerate(layers, start=1):
        shapes |= convolution_shapes(f"representation.{place}", inputs, outputs, size)
    shapes["inference.frame.weight"] = (sizes.channels, sizes.channels, 4, 4)
    shapes["inference.canvas.weight"] = (hidden, hidden, 4, 4)
    shapes |= conv_lstm_shapes("inference.lstm", sizes.channels + sizes.query + wide + 2 * hidden, hidden)
    shapes |= belief_shapes("inference.belief", hidden, sizes.latent)
    shapes |= belief_shapes("generator.belief", hidden, sizes.latent)
    shapes |= conv_lstm_shapes("generator.lstm", sizes.query + wide + sizes.latent, hidden)
    shapes["generator.canvas.weight"] = (hidden, hidden, 4, 4)
    return shapes | convolution_shapes("generator.frame", hidden, sizes.channels, 1)
