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

With landmarks (appendix D) what is seen corrects the place. Of the L memorised steps before t whose codes (means of `q(z | x)`) are nearest, with
distances `delta_k` and beliefs `N(mu_k, sigma_k^2)`, and with `N(mu_p, r^2)` of the transition,

    mu_q = mu_p + sum_k alpha_k (mu_k - mu_p)     sigma_q^2 = r^2 + sum_k beta_k (sigma_k^2 - r^2)     s_t = mu_q + sigma_q e_t

`alpha` and `beta` are softmaxes over L + 1 logits, the last for staying, from networks of `log(delta_k + 1e-3)`. The first L steps have no landmarks.
Keys are then the features of `mu_q`, and the bound loses `KL(N(mu_q, sigma_q^2) || N(mu_p, r^2))` of the predicted steps.

Sizes: X pixels, Z latent, H hidden, W of `g`, A actions, D place, F features, K neighbours, U of the prior. Parameters:

    encoder.hidden.layers.0, .1, encoder.output     X -> H -> H -> 2Z      decoder.hidden.layers.0, .1, decoder.output   Z -> H -> H -> X
    transition.moves [A, D]                         A, transposed          distance [F', F]                                  B, transposed
    transition.walls.hidden.layers.0, .1, .output   D -> W -> W -> 1       transition.log_speed [D], transition.glide [D]    log b, c
    prior.embedding.layers.0, .1                    K(F + 1 + 2Z) -> U -> U
    prior.map.hidden.layers.0, prior.map.output     U + F -> U -> 2Z
    landmarks.alpha.hidden.layers.0, .1, .output    L -> 32 -> 32 -> L + 1         landmarks.beta the same
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


def roll_step(
    parameters: Mapping[str, np.ndarray], kind: str, action: np.ndarray, place: np.ndarray, displacement: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where actions `[B, A]` lead from places `[B, D]`, without noise, and the displacements."""
    push = action @ parameters["transition.moves"]
    if kind == "walls":
        displacement = push * sigmoid(head(place + push, parameters, "transition.walls", relu))
    elif kind == "momentum":
        speed = np.exp(parameters["transition.log_speed"])
        displacement = speed * np.tanh((push + sigmoid(parameters["transition.glide"]) * displacement) / speed)
    else:
        displacement = push
    return place + (rotated(displacement, place[:, 2]) if kind in ("rotation", "momentum") else displacement), displacement


def roll(parameters: Mapping[str, np.ndarray], kind: str, actions: np.ndarray, noise: np.ndarray, r: float) -> tuple[np.ndarray, np.ndarray]:
    """Places and displacements `[B, T, D]`, for `actions [B, T, A]` and `noise [B, T, D]`."""
    batch, steps, _ = actions.shape
    place = np.zeros((batch, noise.shape[-1]))
    displacement = np.zeros_like(place)
    places, displacements = [], []
    for t in range(steps):
        mean, displacement = roll_step(parameters, kind, actions[:, t], place, displacement)
        place = mean + r * noise[:, t]
        places.append(place)
        displacements.append(displacement)
    return np.stack(places, axis=1), np.stack(displacements, axis=1)


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - np.real(logits).max())
    return exponentials / exponentials.sum()


def located(
    parameters: Mapping[str, np.ndarray],
    kind: str,
    actions: np.ndarray,
    codes: np.ndarray,
    noise: np.ndarray,
    r: float,
    tau: int,
    count: int,
) -> dict[str, np.ndarray]:
    """Places, displacements and means of beliefs `[B, T, D]`, KL `[B, T]`, for `actions [B, T, A]`, `codes [B, T, Z]`, `noise [B, T, D]`."""
    batch, steps, _ = actions.shape
    size = noise.shape[-1]
    results: dict[str, list] = {"places": [], "displacements": [], "means": [], "kl": []}
    for b in range(batch):
        place = np.zeros(size)
        displacement = np.zeros(size)
        means, variances = [], []
        rows: dict[str, list] = {name: [] for name in results}
        for t in range(steps):
            led, displacement = moved(parameters, kind, actions[b, t], place, displacement)
            mean, variance = led, np.full(size, r**2)
            if t >= count:
                earlier = min(t, tau)
                squares = ((codes[b, :earlier] - codes[b, t]) ** 2).sum(axis=-1)
                nearest = np.argsort(np.real(squares), kind="stable")[:count]
                inputs = np.log(np.sqrt(squares[nearest] + 1e-12) + 1e-3)
                alpha, beta = (softmax(head(inputs, parameters, f"landmarks.{name}", relu)) for name in ("alpha", "beta"))
                for share, wider, k in zip(alpha[:-1], beta[:-1], nearest):
                    mean = mean + share * (means[k] - led)
                    variance = variance + wider * (variances[k] - r**2)
            means.append(mean)
            variances.append(variance)
            place = mean + np.sqrt(variance) * noise[b, t]
            kl = (np.log(r) - 0.5 * np.log(variance) + (variance + (mean - led) ** 2) / (2 * r**2) - 0.5).sum()
            for name, value in (("places", place), ("displacements", displacement), ("means", mean), ("kl", kl)):
                rows[name].append(value)
        for name, row in rows.items():
            results[name].append(np.stack(row))
    return {name: np.stack(value) for name, value in results.items()}


def moved(
    parameters: Mapping[str, np.ndarray], kind: str, action: np.ndarray, place: np.ndarray, displacement: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where the action `[A]` leads from a place `[D]`, and the displacement."""
    step, displaced = roll_step(parameters, kind, action[None], place[None], displacement[None])
    return step[0], displaced[0]


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

    Returns `places`, `displacements` `[B, T, D]`; `reconstruction`, `kl` `[B, T - tau]`; `positions`, `weights` `[B, T - tau, K]`; with
    landmarks `place_kl [B, T - tau]`.
    """
    batch, steps, _ = observations.shape
    q = diagonal_gaussian(head(observations, parameters, "encoder", relu))
    landmarks = "landmarks.alpha.output.bias" in parameters
    if landmarks:
        count = parameters["landmarks.alpha.output.bias"].shape[0] - 1
        found = located(parameters, kind, actions, q.mean, place_noise, r, tau, count)
        places, displacements = found["places"], found["displacements"]
        stored = found["means"]
    else:
        places, displacements = roll(parameters, kind, actions, place_noise, r)
        stored = places

    def mapped(place: np.ndarray) -> np.ndarray:
        return features(place) @ parameters["distance"] if "distance" in parameters else features(place)

    where, keys = mapped(places), mapped(stored)
    reconstruction, kl, positions, all_weights = [], [], [], []
    for b in range(batch):
        for t in range(tau, steps):
            offsets = keys[b, :tau] - where[b, t]
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
        **({"place_kl": found["kl"][:, tau:]} if landmarks else {}),
    }


def parameter_shapes(
    kind: str, *, pixels: int, latent: int, hidden: int, wide: int, actions: int, place: int, neighbours: int, units: int, distance: int = 0, landmarks: int = 0
) -> dict[str, tuple[int, ...]]:
    """`units` 0 is the mixture prior; `distance` 0 is no `B`, `landmarks` 0 no landmarks."""
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
        **(
            {
                name: shape
                for network in ("alpha", "beta")
                for name, shape in head_shapes(f"landmarks.{network}", landmarks, [32, 32], landmarks + 1).items()
            }
            if landmarks
            else {}
        ),
        **({"distance": (raw, distance)} if distance else {}),
        **(network if units > 0 else {}),
    }
