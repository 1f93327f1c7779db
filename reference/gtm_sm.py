"""The bound of the generative temporal model with spatial memory (Fraccaro et al. 2018, sections 3 and 4), one sample of each latent.

The state-space model, from `s_0 = 0`, `d_0 = 0`; the condition of the first step is zero:

    linear     d_t = A a_t                              s_t = s_{t-1} + d_t + r e_t
    walls      d_t = g(s_{t-1} + A a_t) A a_t           s_t = s_{t-1} + d_t + r e_t                    (equation 4)
    rotation   d_t = A a_t                              s_t = s_{t-1} + Rot(u) d_t + r e_t             (equation 5; u is the third number of s_{t-1})
    momentum   d_t = b tanh((A a_t + sig(c) d_{t-1}) / b)     s_t = s_{t-1} + Rot(u) d_t + r e_t     (in the paper the argument is not divided by b)

What is seen: `q(z_t | x_t)` from the encoder, `x_t ~ N(sigmoid(decoder(z_t)), std^2)`. Steps up to `tau` are memorised: under the features of the
place, `phi(s) = s`, or `B [s_1, s_2, cos s_3, sin s_3]` of a place with a heading (`B` may be missing), the mean and log standard deviation of `q(z_t | x_t)`.

At a later step the K entries nearest by `|phi(s_k) - phi(s_t)|` make the prior, with `w_k` proportional to `1 / (distance_k^2 + delta)`:

    mixture    sum_k w_k N(mean_k, std_k^2);  KL = -H(q) - log p(z) at the sample z, with the exact entropy
    mlp        e = MLP_e([phi(s_k) - phi(s_t), distance_k, mean_k, log std_k]_k),  [m, l] = MLP_p([e; phi(s_t)]),
               N(sum_k w_k mean_k + m, exp(l)^2);  KL in closed form

Sizes: X pixels, Z latent, H hidden, W of `g`, A actions, D place, F features, K neighbours, U of the prior. Parameters:

    encoder.hidden.layers.0, .1, encoder.output     X -> H -> H -> 2Z      decoder.hidden.layers.0, .1, decoder.output   Z -> H -> H -> X
    transition.moves [A, D]                         A, transposed          distance [F', F]                                  B, transposed
    transition.walls.hidden.layers.0, .1, .output   D -> W -> W -> 1       transition.log_speed [D], transition.glide [D]    log b, c
    prior.embedding.layers.0, .1                    K(F + 1 + 2Z) -> U -> U
    prior.map.hidden.layers.0, prior.map.output     U + F -> U -> 2Z
"""

from typing import Mapping

import numpy as np

from distributions import gaussian_kl, gaussian_log_likelihood
from gtmm_step import diagonal_gaussian
from heads import head, head_shapes, stack, stack_shapes
from numerics import relu, sigmoid


def rotated(displacement: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """`Rot(angle) d`, `[batch, 3]`: the third number, a turn, is added as it is."""
    forward, sideways, turn = displacement.T
    return np.stack([np.cos(angle) * forward - np.sin(angle) * sideways, np.sin(angle) * forward + np.cos(angle) * sideways, turn], axis=-1)


def roll(parameters: Mapping[str, np.ndarray], kind: str, actions: np.ndarray, noise: np.ndarray, r: float) -> tuple[np.ndarray, np.ndarray]:
    """Places and displacements `[B, T, D]`, for `actions [B, T, A]` and `noise [B, T, D]`."""
    batch, steps, _ = actions.shape
    place = np.zeros((batch, noise.shape[-1]))
    displacement = np.zeros_like(place)
    places, displacements = [], []
    for t in range(steps):
        push = actions[:, t] @ parameters["transition.moves"]
        if kind == "walls":
            displacement = push * sigmoid(head(place + push, parameters, "transition.walls", relu))
        elif kind == "momentum":
            speed = np.exp(parameters["transition.log_speed"])
            displacement = speed * np.tanh((push + sigmoid(parameters["transition.glide"]) * displacement) / speed)
        else:
            displacement = push
        moved = rotated(displacement, place[:, 2]) if kind in ("rotation", "momentum") else displacement
        place = place + moved + r * noise[:, t]
        places.append(place)
        displacements.append(displacement)
    return np.stack(places, axis=1), np.stack(displacements, axis=1)


def features(place: np.ndarray) -> np.ndarray:
    """`phi(s)` over the last axis."""
    if place.shape[-1] != 3:
        return place
    heading = place[..., 2:]
    return np.concatenate([place[..., :2], np.cos(heading), np.sin(heading)], axis=-1)


def bound(
    parameters: Mapping[str, np.ndarray],
    kind: str,
    observations: np.ndarray,
    actions: np.ndarray,
    place_noise: np.ndarray,
    latent_noise: np.ndarray,
    *,
    tau: int,
    neighbours: int,
    r: float,
    delta: float,
    std: float,
) -> dict[str, np.ndarray]:
    """For `observations [B, T, X]`, `actions [B, T, A]`, `place_noise [B, T, D]` and `latent_noise [B, T - tau, Z]`.

    Returns `places`, `displacements` `[B, T, D]`; `reconstruction`, `kl` `[B, T - tau]`; `positions`, `weights` `[B, T - tau, K]`.
    """
    batch, steps, _ = observations.shape
    places, displacements = roll(parameters, kind, actions, place_noise, r)
    where = features(places) @ parameters["distance"] if "distance" in parameters else features(places)
    q = diagonal_gaussian(head(observations, parameters, "encoder", relu))
    reconstruction, kl, positions, all_weights = [], [], [], []
    for b in range(batch):
        for t in range(tau, steps):
            offsets = where[b, :tau] - where[b, t]
            squares = (offsets**2).sum(axis=-1)
            nearest = np.argsort(np.real(squares), kind="stable")[:neighbours]
            kernel = 1.0 / (squares[nearest] + delta)
            weights = kernel / kernel.sum()
            means, log_stds = q.mean[b, nearest], q.log_std[b, nearest]
            mean, log_std = q.mean[b, t], q.log_std[b, t]
            z = mean + np.exp(log_std) * latent_noise[b, t - tau]
            if "prior.map.output.bias" in parameters:
                distances = np.sqrt(squares[nearest])[:, None]
                entries = np.concatenate([offsets[nearest], distances, means, log_stds], axis=-1).reshape(-1)
                embedded = stack(entries, parameters, "prior.embedding", relu)
                own = diagonal_gaussian(head(np.concatenate([embedded, where[b, t]]), parameters, "prior.map", relu))
                kl.append(gaussian_kl(mean, log_std, weights @ means + own.mean, own.log_std))
            else:
                densities = gaussian_log_likelihood(z, means, np.exp(log_stds)).sum(axis=-1)
                entropy = (log_std + 0.5 * (1.0 + np.log(2.0 * np.pi))).sum()
                kl.append(-entropy - np.log((weights * np.exp(densities)).sum()))
            frame = sigmoid(head(z, parameters, "decoder", relu))
            reconstruction.append(gaussian_log_likelihood(observations[b, t], frame, np.asarray(std)).sum())
            positions.append(nearest)
            all_weights.append(weights)
    shape = (batch, steps - tau)
    return {
        "places": places,
        "displacements": displacements,
        "reconstruction": np.array(reconstruction).reshape(shape),
        "kl": np.array(kl).reshape(shape),
        "positions": np.array(positions, dtype=np.float64).reshape(*shape, neighbours),
        "weights": np.array(all_weights).reshape(*shape, neighbours),
    }


def parameter_shapes(
    kind: str, *, pixels: int, latent: int, hidden: int, wide: int, actions: int, place: int, neighbours: int, units: int, distance: int = 0
) -> dict[str, tuple[int, ...]]:
    """`units` 0 is the mixture prior; `distance` 0 is no `B`."""
    raw = 4 if place == 3 else place
    width = distance or raw
    walls = head_shapes("transition.walls", place, [wide, wide], 1)
    momentum = {"transition.log_speed": (place,), "transition.glide": (place,)}
    network = stack_shapes("prior.embedding", neighbours * (width + 1 + 2 * latent), [units, units]) | head_shapes(
        "prior.map", units + width, [units], 2 * latent
    )
    return {
        **head_shapes("encoder", pixels, [hidden, hidden], 2 * latent),
        **head_shapes("decoder", latent, [hidden, hidden], pixels),
        "transition.moves": (actions, place),
        **(walls if kind == "walls" else {}),
        **(momentum if kind == "momentum" else {}),
        **({"distance": (raw, distance)} if distance else {}),
        **(network if units > 0 else {}),
    }
