"""The consistent GQN (Kumar et al. 2018): one latent for a whole scene, and a renderer that answers any number of queries from it.

    r_C = sum over the context of M(v_j, f_j)      r_T = the same over the targets that the posterior sees
    h_p, c_p, h_q, c_q = 0,  z_0 = 0;  for every target i  h_i, c_i = 0, u_i = 0
    for l = 1..L:
        h_p, c_p = ConvLSTM_p([encode_p(r_C), z_{l-1}])                 p_l = N(belief_p(h_p))
        h_q, c_q = ConvLSTM_q([encode_q([r_C; r_T]), z_{l-1}, h_p])     q_l = N(belief_q(h_q))
        z_l ~ q_l, or p_l to sample                                     one z_l for all targets
        for every target i:
            h_i, c_i = ConvLSTM_r([z_l, v_i, decode(u_i)])              u_i = u_i + canvas(h_i)
    f-hat_i = frame(u_i)
    bound = sum_i log N(f_i; f-hat_i, sigma^2) - sum_l KL(q_l || p_l)

The paper gives no formulas; these state its section 3 and appendix B. h_p is that of the same step, after its update. Encoding, decoding, the
canvas and the frame are linear. A query v is joined as constant maps: to the frame before M, to z_l in the renderer.

Choices (`Sizes`): the posterior does or does not see h_p; one set of weights for all steps or one for each step; the renderer gets z_l or, drawn
before, all of z_1..z_L at every step; a sigmoid on the frames. The renderer's LSTM does or does not see the context as well, behind z_l:

    s_i = see(r_C)      or, with A heads of attention (Kim et al. 2019),      s_i = see([r_i1; ..; r_iA])
    r_ia = sum over the context j of softmax_j(ask_a(v_i) . key_a(v_j) / sqrt(16)) M(v_j, f_j)

With `latents_look` prior and posterior are given [r_C; r_01; ..; r_0A] in place of r_C, with heads of their own that ask with a query of zeros, v_0,
so that what they ask for is their bias.

With `relative` the posterior tells how it differs from the prior (as in NVAE, Vahdat & Kautz 2020): what `belief_q` gives is added to the means and
the log-variances of p_l. Where it gives zeros, the divergence is zero.

With `single` a belief is one of Z numbers, the mean over the pixels of its convolution; what is called z_l above are the maps that `spread` makes of
the numbers that are drawn.

Sizes: C channels of a frame of S x S pixels, V numbers of a query, R of the representation (on S/4 x S/4), E encoded, H of the LSTMs (on S/8 x S/8),
Z of the latent of one step, U canvas (on S/4 x S/4), D decoded canvas, L steps; B batch, M views of the context, T targets. Parameters, with weights
as in `scenes_networks.py`, and a bias for each weight:

    representation.1, .2       [R_1, C + V, 2, 2], [R_2, R_1, 2, 2]     stride 2; the input is [frame; v]; ReLU between layers, none after the last
    representation.3, .4       [R_3, R_2, 3, 3], [R_4, R_3, 3, 3]       R = R_4
    prior.encode               [E, R, 2, 2]                             stride 2
    prior.lstm                 [4H, H + E + Z, 5, 5]                    input [h; encoded; z_{l-1}]
    prior.belief               [2Z, H, 5, 5]                            means, then log-variances
    posterior.encode           [E, 2R, 2, 2]                            stride 2; the input is [r_C; r_T]
    posterior.lstm             [4H, H + E + Z + H, 5, 5]                input [h; encoded; z_{l-1}; h_p]
    posterior.belief           [2Z, H, 5, 5]
    renderer.decode            [D, U, 2, 2]                             stride 2
    renderer.lstm              [4H, H + Z + V + D, 5, 5]                input [h; z; v; decoded]
    renderer.canvas            [H, U, 2, 2]                             transposed, stride 2
    renderer.frame             [U, C, 4, 4]                             transposed, stride 4; the only one of prior, posterior and renderer used once
    context.see                [E, R, 2, 2], with attention [E, AR, 2, 2]   stride 2; E more inputs of renderer.lstm, behind z
    context.ask, .key          [V, 16A]                                 the first 16 numbers are those of the first head
    spread                     [Z, ZS/8 S/8]                            no bias; the pixels of the first channel first
    latents.ask, .key          the same, those of prior and posterior, whose encode has AR more inputs, behind r_C

With weights for each step every parameter of `prior`, `posterior` and `renderer` but `renderer.frame` has a first axis over the L steps.

    python cgqn.py --count     numbers of parameters of the paper's sizes
"""

import argparse
from typing import NamedTuple

import numpy as np

from numerics import relu, sigmoid, softmax
from scenes_networks import (
    Belief,
    Parameters,
    Shapes,
    State,
    belief,
    belief_shapes,
    constant,
    conv_lstm_shapes,
    conv_lstm_step,
    convolution,
    convolution_shapes,
    initial_state,
    log_likelihood,
    of_steps,
    planes,
    sum_of_views,
    transposed_convolution,
    transposed_shapes,
)

KEY = 16  # numbers of a head's keys

NETWORKS = ("representation", "prior", "posterior", "renderer")


class Sizes(NamedTuple):
    channels: int
    query: int
    steps: int
    hidden: int
    decoded: int
    representation: tuple[int, int, int, int] = (8, 16, 32, 32)
    encoded: int = 128
    latent: int = 3
    canvas: int = 128
    posterior_sees_prior: bool = True
    shared: bool = True
    all_latents: bool = False
    sigmoid: bool = False
    sees_context: bool = False
    heads: int = 0
    latents_look: bool = False
    relative: bool = False
    single: bool = False
    pixels: int = 0  # of the LSTMs' maps, for `single`


TRAVELLING_SALESMAN = Sizes(channels=3, query=1, steps=4, hidden=64, decoded=64)
DICE = Sizes(channels=3, query=7, steps=6, hidden=128, decoded=128)


class Scene(NamedTuple):
    context_frames: np.ndarray  # [B, M, C, S, S]; M may be 0
    context_queries: np.ndarray  # [B, M, V]
    target_frames: np.ndarray  # [B, T, C, S, S]
    target_queries: np.ndarray  # [B, T, V]


def of_step(parameters: Parameters, sizes: Sizes, step: int) -> Parameters:
    """The parameters that step `step`, from 0, uses."""
    if sizes.shared:
        return parameters
    return {name: value[step] if is_of_step(name) else value for name, value in parameters.items()}


def is_of_step(name: str) -> bool:
    return not name.startswith(("representation.", "renderer.frame.", "context.", "latents.", "spread."))


def represent(parameters: Parameters, frames: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """`M(v, f)` of `frames [N, C, S, S]` and `queries [N, V]`: `[N, R, S/4, S/4]`."""
    maps = np.concatenate([frames, planes(queries, frames.shape[-1])], axis=1)
    maps = relu(convolution(maps, parameters, "representation.1", stride=2))
    maps = relu(convolution(maps, parameters, "representation.2", stride=2))
    maps = relu(convolution(maps, parameters, "representation.3"))
    return convolution(maps, parameters, "representation.4")


def known(parameters: Parameters, frames: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """r of `frames [B, M, C, S, S]` and `queries [B, M, V]`: `[B, R, S/4, S/4]`."""
    return sum_of_views(lambda f, v: represent(parameters, f, v), frames, queries)


def prior_step(parameters: Parameters, r_context: np.ndarray, latent: np.ndarray, state: State) -> tuple[Belief, State]:
    """`p_l` from r_C and z_{l-1}."""
    encoded = convolution(r_context, parameters, "prior.encode", stride=2)
    state = conv_lstm_step(parameters, "prior.lstm", [encoded, latent], state)
    return belief(parameters, "prior.belief", state.hidden, single="spread.weight" in parameters), state


def posterior_step(
    parameters: Parameters,
    r_context: np.ndarray,
    r_targets: np.ndarray,
    latent: np.ndarray,
    prior_hidden: np.ndarray | None,
    state: State,
) -> tuple[Belief, State]:
    """`q_l` from r_C, r_T, z_{l-1} and, where the posterior sees the prior, h_p of the same step."""
    encoded = convolution(np.concatenate([r_context, r_targets], axis=1), parameters, "posterior.encode", stride=2)
    inputs = [encoded, latent] + ([] if prior_hidden is None else [prior_hidden])
    state = conv_lstm_step(parameters, "posterior.lstm", inputs, state)
    return belief(parameters, "posterior.belief", state.hidden, single="spread.weight" in parameters), state


def draw(
    parameters: Parameters, sizes: Sizes, r_context: np.ndarray, r_targets: np.ndarray | None, noise: np.ndarray
) -> tuple[np.ndarray, list[Belief], list[Belief]]:
    """Latents `[L, B, Z, S/8, S/8]` from `noise` of the same shape, `[L, B, Z, 1, 1]` for `single`, and the priors and posteriors that they were drawn from.

    Without `r_targets` there is no posterior and the latents are drawn from the prior.
    """
    steps, batch = noise.shape[:2]
    side = r_context.shape[-1] // 2
    prior_state = posterior_state = initial_state(batch, sizes.hidden, side)
    latent = np.zeros((batch, sizes.latent, side, side))
    latents, priors, posteriors = [], [], []
    for l in range(steps):
        at = of_step(parameters, sizes, l)
        p, prior_state = prior_step(at, r_context, latent, prior_state)
        priors.append(p)
        if r_targets is not None:
            seen = prior_state.hidden if sizes.posterior_sees_prior else None
            q, posterior_state = posterior_step(at, r_context, r_targets, latent, seen, posterior_state)
            if sizes.relative:
                q = Belief(p.mean + q.mean, p.log_variance + q.log_variance)
            posteriors.append(q)
        latent = (p if r_targets is None else q).sample(noise[l])
        if sizes.single:
            latent = (latent[:, :, 0, 0] @ parameters["spread.weight"]).reshape(batch, sizes.latent, side, side)
        latents.append(latent)
    return np.stack(latents), priors, posteriors


def attended(parameters: Parameters, sizes: Sizes, scene: Scene, heads: str, queries: np.ndarray) -> np.ndarray:
    """What `heads`, `context` or `latents`, show of the context to each of `queries [B, T, V]`: `[B, T, A R, S/4, S/4]`; zero without a view."""
    batch, views = scene.context_queries.shape[:2]
    targets, side = queries.shape[1], scene.target_frames.shape[-1] // 4
    top = sizes.representation[-1]
    if views == 0:
        return np.zeros((batch, targets, sizes.heads * top, side, side))
    frames = scene.context_frames.reshape(batch * views, *scene.context_frames.shape[2:])
    maps = represent(parameters, frames, scene.context_queries.reshape(batch * views, -1)).reshape(batch, views, top, side, side)
    asked, keys = (
        (given @ parameters[f"{heads}.{name}.weight"] + parameters[f"{heads}.{name}.bias"]).reshape(batch, -1, sizes.heads, KEY)
        for name, given in (("ask", queries), ("key", scene.context_queries))
    )
    weights = softmax(np.einsum("btak,bvak->btav", asked, keys) / np.sqrt(KEY))
    return np.einsum("btav,bvrij->btarij", weights, maps).reshape(batch, targets, -1, side, side)


def known_to_latents(parameters: Parameters, sizes: Sizes, scene: Scene) -> np.ndarray:
    """What prior and posterior are given of the context, `[B, R, S/4, S/4]`, with `latents_look` `[B, (1 + A) R, S/4, S/4]`."""
    r_context = known(parameters, scene.context_frames, scene.context_queries)
    if not sizes.latents_look:
        return r_context
    batch, _, width = scene.target_queries.shape
    found = attended(parameters, sizes, scene, "latents", np.zeros((batch, 1, width)))
    return np.concatenate([r_context, found[:, 0]], axis=1)


def seen_context(parameters: Parameters, sizes: Sizes, scene: Scene) -> np.ndarray | None:
    """What the renderer sees of the context for each target, `[B T, E, S/8, S/8]`; `None` if it sees nothing of it."""
    if not sizes.sees_context:
        return None
    targets = scene.target_queries.shape[1]
    if sizes.heads > 0:
        of_targets = attended(parameters, sizes, scene, "context", scene.target_queries)
    else:
        r_context = known(parameters, scene.context_frames, scene.context_queries)
        of_targets = np.repeat(r_context[:, None], targets, axis=1)
    return convolution(of_targets.reshape(-1, *of_targets.shape[2:]), parameters, "context.see", stride=2)


def render(
    parameters: Parameters, sizes: Sizes, latents: np.ndarray, queries: np.ndarray, context: np.ndarray | None = None
) -> np.ndarray:
    """Frames `[B, T, C, S, S]` of `queries [B, T, V]`, all from the same `latents [L, B, Z, S/8, S/8]`; `context` is that of `seen_context`."""
    steps, batch, channels, side, _ = latents.shape
    targets = queries.shape[1]
    count = batch * targets  # the targets of the first scene first
    if sizes.all_latents:
        everything = np.moveaxis(latents, 0, 1).reshape(batch, steps * channels, side, side)  # z_1 first
        latents = np.broadcast_to(everything, (steps, *everything.shape))
    latents = np.repeat(latents, targets, axis=1)
    query = planes(queries.reshape(count, -1), side)
    state = initial_state(count, sizes.hidden, side)
    canvas = np.zeros((count, sizes.canvas, 2 * side, 2 * side))
    for l in range(steps):
        at = of_step(parameters, sizes, l)
        decoded = convolution(canvas, at, "renderer.decode", stride=2)
        inputs = [latents[l]] + ([] if context is None else [context]) + [query, decoded]
        state = conv_lstm_step(at, "renderer.lstm", inputs, state)
        canvas = canvas + transposed_convolution(state.hidden, at, "renderer.canvas")
    frames = transposed_convolution(canvas, parameters, "renderer.frame")
    frames = sigmoid(frames) if sizes.sigmoid else frames
    return frames.reshape(batch, targets, *frames.shape[1:])


def bound(
    parameters: Parameters, sizes: Sizes, scene: Scene, noise: np.ndarray, variance: float, seen: int | None = None
) -> dict[str, np.ndarray]:
    """The evidence lower bound with the `noise` of `draw` and the pixel variance `variance`, in nats for a scene.

    The posterior sees the first `seen` targets, or all; all are scored. Returns per step, `[L, B, ..]`: `latents`, `prior_mean`,
    `prior_log_variance`, `posterior_mean`, `posterior_log_variance`, `kl`; per target, `[B, T, ..]`: `frames`, `reconstruction` and
    `reconstruction_without_constant`, which leaves out the Gaussian's constant; and `bound [1]` and `bound_without_constant [1]`, means over
    the batch.
    """
    r_context = known_to_latents(parameters, sizes, scene)
    r_targets = known(parameters, scene.target_frames[:, :seen], scene.target_queries[:, :seen])
    latents, priors, posteriors = draw(parameters, sizes, r_context, r_targets, noise)
    context = seen_context(parameters, sizes, scene)
    frames = render(parameters, sizes, latents, scene.target_queries, context)
    outputs = of_steps(latents, priors, posteriors) | {"frames": frames}
    return outputs | scores(scene.target_frames, frames, outputs["kl"].sum(axis=0), variance)


def scores(targets: np.ndarray, frames: np.ndarray, divergence: np.ndarray, variance: float) -> dict[str, np.ndarray]:
    """Reconstruction of `targets` by `frames`, both `[B, T, C, S, S]`, and the bounds with the KL divergence `[B]` of each scene."""
    without = log_likelihood(targets, frames, variance)
    outputs = {"reconstruction": without + constant(targets, variance), "reconstruction_without_constant": without}
    for name in ("", "_without_constant"):
        of_scene = outputs[f"reconstruction{name}"].sum(axis=1) - divergence
        outputs[f"bound{name}"] = of_scene.mean(axis=0, keepdims=True)
    return outputs


def sample(parameters: Parameters, sizes: Sizes, scene: Scene, noise: np.ndarray) -> dict[str, np.ndarray]:
    """`sampled_latents [L, B, Z, S/8, S/8]` from the prior and `sampled_frames [B, T, C, S, S]`; the target frames are not read."""
    r_context = known_to_latents(parameters, sizes, scene)
    latents, _, _ = draw(parameters, sizes, r_context, None, noise)
    context = seen_context(parameters, sizes, scene)
    return {"sampled_latents": latents, "sampled_frames": render(parameters, sizes, latents, scene.target_queries, context)}


def parameter_shapes(sizes: Sizes) -> Shapes:
    first, second, third, top = sizes.representation
    shapes = convolution_shapes("representation.1", sizes.channels + sizes.query, first, 2)
    shapes |= convolution_shapes("representation.2", first, second, 2)
    shapes |= convolution_shapes("representation.3", second, third, 3)
    shapes |= convolution_shapes("representation.4", third, top, 3)
    seen = (1 + sizes.heads) * top if sizes.latents_look else top
    shapes |= convolution_shapes("prior.encode", seen, sizes.encoded, 2)
    shapes |= conv_lstm_shapes("prior.lstm", sizes.encoded + sizes.latent, sizes.hidden)
    shapes |= belief_shapes("prior.belief", sizes.hidden, sizes.latent)
    shapes |= convolution_shapes("posterior.encode", seen + top, sizes.encoded, 2)
    from_prior = sizes.hidden if sizes.posterior_sees_prior else 0
    shapes |= conv_lstm_shapes("posterior.lstm", sizes.encoded + sizes.latent + from_prior, sizes.hidden)
    shapes |= belief_shapes("posterior.belief", sizes.hidden, sizes.latent)
    shapes |= renderer_shapes(sizes)
    if sizes.single:
        shapes |= {"spread.weight": (sizes.latent, sizes.latent * sizes.pixels)}
    if sizes.sees_context:
        shapes |= convolution_shapes("context.see", max(sizes.heads, 1) * top, sizes.encoded, 2)
    for heads in (["context"] if sizes.heads > 0 else []) + (["latents"] if sizes.latents_look else []):
        for name in ("ask", "key"):
            shapes |= {f"{heads}.{name}.weight": (sizes.query, sizes.heads * KEY), f"{heads}.{name}.bias": (sizes.heads * KEY,)}
    if sizes.shared:
        return shapes
    return {name: (sizes.steps, *shape) if is_of_step(name) else shape for name, shape in shapes.items()}


def renderer_shapes(sizes: Sizes) -> Shapes:
    """Those of the renderer, with one set of weights for all steps."""
    latent = sizes.steps * sizes.latent if sizes.all_latents else sizes.latent
    shapes = convolution_shapes("renderer.decode", sizes.canvas, sizes.decoded, 2)
    context = sizes.encoded if sizes.sees_context else 0
    shapes |= conv_lstm_shapes("renderer.lstm", latent + context + sizes.query + sizes.decoded, sizes.hidden)
    shapes |= transposed_shapes("renderer.canvas", sizes.hidden, sizes.canvas, 2)
    return shapes | transposed_shapes("renderer.frame", sizes.canvas, sizes.channels, 4)


def counts(sizes: Sizes) -> dict[str, int]:
    """How many parameters each network has, and `all`. The factored GQN has the same networks."""
    shapes = parameter_shapes(sizes)
    of_network = {
        network: sum(int(np.prod(shape)) for name, shape in shapes.items() if name.startswith(f"{network}.")) for network in NETWORKS
    }
    return of_network | {"all": sum(of_network.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description="The consistent GQN, in NumPy.")
    parser.add_argument("--count", action="store_true", required=True, help="print the numbers of parameters of the paper's sizes")
    parser.parse_args()
    print(f"{'cgqn, and the factored gqn':28}" + "".join(f"{name:>16}" for name in (*NETWORKS, "all")))
    for task, sizes in (("travelling salesman", TRAVELLING_SALESMAN), ("dice", DICE)):
        print(f"{task:28}" + "".join(f"{count:>16,}" for count in counts(sizes).values()))


if __name__ == "__main__":
    main()
