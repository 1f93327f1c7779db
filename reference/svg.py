"""A filtering pass of stochastic video generation (SVG), with DCGAN networks.

Denton and Fergus 2018, with a Gaussian likelihood as in Marino et al. 2018:

    h_t, skips_t = encoder(x_t - 1/2),  h_0 and skips_0 are zero
    p(z_t | ..)  from the prior LSTM over h_0 .. h_{t-1}   (or N(0, I), if there are no parameters `prior`)
    q(z_t | ..)  from the posterior LSTM over h_1 .. h_t
    g_t = tanh(linear(predictor LSTMs over [h_{t-1} ; z_t]))
    p(x_t | ..)  from decoder(g_t, skips_{t-1}),  independent Gaussians, the mean through a sigmoid

A linear map (`embedding`) stands before each stack of LSTMs. The encoder is called once on all frames and the decoder once on all steps, so
that batch norm, always with the statistics of the call, sees batch and time.

Every level of the encoder halves the side by a 4x4 convolution (stride 2, padding 1), down to 4x4; one more 4x4 convolution makes h. The
decoder starts with a transposed 4x4 convolution of g to 4x4; each level is a transposed convolution (4x4, stride 2, padding 1) of the
maps before it with the skips of the same side behind them. All but the last have batch norm and a leaky ReLU of slope 0.2 after them, h
batch norm and tanh.

Sizes: C channels of a frame, K of the levels from the finest on, F of h, Z latent, H of the LSTMs, B batch, T steps, S side. Parameters:

    encoder.levels.i.convolution.weight [K_i, K_{i-1}, 4, 4] (K_{-1} = C), .bias [K_i], .norm.gamma, .norm.beta [K_i]
    encoder.top the same, onto F
    decoder.top, decoder.levels.i the same (from the coarsest on), with weights [inputs, outputs, 4, 4]
    decoder.output.weight [2 K_0, 2C, 4, 4], .bias [2C]     means of all channels, then log standard deviations of all
    predictor.embedding F + Z -> H, predictor.layers.i (LSTMs), predictor.output H -> F
    posterior.embedding F -> H, posterior.layers.i, posterior.output H -> 2Z;  prior the same
"""

from typing import Mapping, Sequence

import numpy as np

from distributions import gaussian_kl, gaussian_log_likelihood
from gtmm_step import DiagonalGaussian, diagonal_gaussian
from heads import stacked_in_time
from lstm import LstmState, lstm
from numerics import clamp, linear, sigmoid

EPSILON = 1e-5  # of batch norm
SLOPE = 0.2
OUTPUT_LOG_STD_FLOOR = -5.0
OUTPUT_LOG_STD_CEILING = 5.0

Parameters = Mapping[str, np.ndarray]


def convolution(x: np.ndarray, parameters: Parameters, name: str, stride: int, padding: int) -> np.ndarray:
    """`y[n, o, i, j] = b[o] + sum_{c, k, l} w[o, c, k, l] x[n, c, stride i + k - padding, stride j + l - padding]`."""
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    size = weight.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    side = (padded.shape[2] - size) // stride + 1
    y = np.zeros((x.shape[0], weight.shape[0], side, side), dtype=np.result_type(x, weight))
    for k in range(size):
        for l in range(size):
            seen = padded[:, :, k : k + stride * side : stride, l : l + stride * side : stride]
            y += np.einsum("ncij,oc->noij", seen, weight[:, :, k, l])
    return y + bias[:, None, None]


def transposed_convolution(x: np.ndarray, parameters: Parameters, name: str, stride: int, padding: int) -> np.ndarray:
    """`x[n, c, i, j]` adds `w[c, o, k, l] x` to `y[n, o, stride i + k - padding, stride j + l - padding]`."""
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    side, size = x.shape[2], weight.shape[2]
    whole = (side - 1) * stride + size
    y = np.zeros((x.shape[0], weight.shape[1], whole, whole), dtype=np.result_type(x, weight))
    for k in range(size):
        for l in range(size):
            y[:, :, k : k + stride * side : stride, l : l + stride * side : stride] += np.einsum("ncij,co->noij", x, weight[:, :, k, l])
    return y[:, :, padding : whole - padding, padding : whole - padding] + bias[:, None, None]


def batch_norm(x: np.ndarray, parameters: Parameters, name: str) -> np.ndarray:
    """With mean and variance (divided by the count) of each channel over images and pixels."""
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=(0, 2, 3), keepdims=True)
    gamma, beta = parameters[f"{name}.gamma"], parameters[f"{name}.beta"]
    return gamma[:, None, None] * (x - mean) / np.sqrt(variance + EPSILON) + beta[:, None, None]


def leaky_relu(x: np.ndarray) -> np.ndarray:
    return np.where(np.real(x) > 0, x, SLOPE * x)


def levels(parameters: Parameters, name: str) -> list[str]:
    found = []
    while f"{name}.levels.{len(found)}.convolution.weight" in parameters:
        found.append(f"{name}.levels.{len(found)}")
    return found


def encode(parameters: Parameters, frames: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """`frames [N, C, S, S]` to `h [N, F]` and skips, from the finest on."""
    maps, skips = frames - 0.5, []
    for level in levels(parameters, "encoder"):
        maps = leaky_relu(batch_norm(convolution(maps, parameters, f"{level}.convolution", 2, 1), parameters, f"{level}.norm"))
        skips.append(maps)
    top = batch_norm(convolution(maps, parameters, "encoder.top.convolution", 1, 0), parameters, "encoder.top.norm")
    return np.tanh(top)[:, :, 0, 0], skips


def decode(parameters: Parameters, g: np.ndarray, skips: Sequence[np.ndarray]) -> np.ndarray:
    """`g [N, F]` and skips, from the finest on, to `[N, 2C, S, S]`."""
    top = transposed_convolution(g[:, :, None, None], parameters, "decoder.top.convolution", 1, 0)
    maps = leaky_relu(batch_norm(top, parameters, "decoder.top.norm"))
    coarse_first = list(reversed(skips))
    for level, skip in zip(levels(parameters, "decoder"), coarse_first):
        both = np.concatenate([maps, skip], axis=1)
        maps = leaky_relu(batch_norm(transposed_convolution(both, parameters, f"{level}.convolution", 2, 1), parameters, f"{level}.norm"))
    return transposed_convolution(np.concatenate([maps, coarse_first[-1]], axis=1), parameters, "decoder.output", 2, 1)


class Recurrent:
    """A stack of LSTMs with its state: linear map, LSTMs, linear map."""

    def __init__(self, parameters: Parameters, name: str, batch: int):
        self.parameters, self.name, self.layers = parameters, name, []
        while f"{name}.layers.{len(self.layers)}.bias" in parameters:
            weights = {f"lstm.{of}": parameters[f"{name}.layers.{len(self.layers)}.{of}"] for of in ("weight_input", "weight_hidden", "bias")}
            self.layers.append(weights)
        self.states = []
        for weights in self.layers:
            zeros = np.zeros((batch, weights["lstm.weight_hidden"].shape[0]))
            self.states.append(LstmState(zeros, zeros))

    def step(self, x: np.ndarray) -> np.ndarray:
        x = linear(x, self.parameters, f"{self.name}.embedding")
        for layer, weights in enumerate(self.layers):
            self.states[layer] = lstm(weights, x, self.states[layer])
            x = self.states[layer].hidden
        return linear(x, self.parameters, f"{self.name}.output")


def filter_sequence(parameters: Parameters, observations: np.ndarray, noise: np.ndarray, side: int) -> dict[str, np.ndarray]:
    """The whole pass for `observations [T, B, C S S]` and `noise [T, B, Z]`.

    Returns per step, each `[T, B, ..]`: `latents`, `prior_mean`, `prior_log_std`, `posterior_mean`, `posterior_log_std`, `mean` and
    `log_std` of x_t, `reconstruction`, `kl`; and `bound [1]`.
    """
    steps, batch, pixels = observations.shape
    frames = observations.reshape(steps * batch, -1, side, side)
    h, skips = encode(parameters, frames)
    h = h.reshape(steps, batch, -1)
    zeros = np.zeros_like(h[0])

    predictor = Recurrent(parameters, "predictor", batch)
    posterior = Recurrent(parameters, "posterior", batch)
    prior = Recurrent(parameters, "prior", batch) if "prior.output.bias" in parameters else None
    trajectory, predicted = [], []
    for t in range(steps):
        before = h[t - 1] if t > 0 else zeros
        p = diagonal_gaussian(prior.step(before)) if prior else DiagonalGaussian(np.zeros_like(noise[t]), np.zeros_like(noise[t]))
        q = diagonal_gaussian(posterior.step(h[t]))
        latent = q.mean + np.exp(q.log_std) * noise[t]
        predicted.append(np.tanh(predictor.step(np.concatenate([before, latent], axis=-1))))
        trajectory.append(
            {
                "latents": latent,
                "prior_mean": p.mean,
                "prior_log_std": p.log_std,
                "posterior_mean": q.mean,
                "posterior_log_std": q.log_std,
                "kl": gaussian_kl(q.mean, q.log_std, p.mean, p.log_std),
            }
        )

    # Step t is given the skips of frame t - 1.
    given = [np.concatenate([np.zeros_like(maps[:batch]), maps[:-batch]]) for maps in skips]
    output = decode(parameters, np.concatenate(predicted), given).reshape(steps, batch, 2, pixels)
    mean = sigmoid(output[:, :, 0])
    log_std = clamp(output[:, :, 1], OUTPUT_LOG_STD_FLOOR, OUTPUT_LOG_STD_CEILING)
    for t, at_step in enumerate(trajectory):
        at_step["mean"], at_step["log_std"] = mean[t], log_std[t]
        at_step["reconstruction"] = gaussian_log_likelihood(observations[t], mean[t], np.exp(log_std[t])).sum(axis=-1)
    return stacked_in_time(trajectory)


def block_shapes(name: str, inputs: int, outputs: int, transposed: bool) -> dict[str, tuple[int, ...]]:
    return {
        f"{name}.convolution.weight": (inputs, outputs, 4, 4) if transposed else (outputs, inputs, 4, 4),
        f"{name}.convolution.bias": (outputs,),
        f"{name}.norm.gamma": (outputs,),
        f"{name}.norm.beta": (outputs,),
    }


def recurrent_shapes(name: str, inputs: int, hidden: int, layers: int, outputs: int) -> dict[str, tuple[int, ...]]:
    shapes = {f"{name}.embedding.weight": (inputs, hidden), f"{name}.embedding.bias": (hidden,)}
    for layer in range(layers):
        shapes[f"{name}.layers.{layer}.weight_input"] = (hidden, 4 * hidden)
        shapes[f"{name}.layers.{layer}.weight_hidden"] = (hidden, 4 * hidden)
        shapes[f"{name}.layers.{layer}.bias"] = (4 * hidden,)
    return shapes | {f"{name}.output.weight": (hidden, outputs), f"{name}.output.bias": (outputs,)}


def parameter_shapes(
    frame: int, channels: Sequence[int], features: int, latent: int, hidden: int, layers: int, learned_prior: bool
) -> dict[str, tuple[int, ...]]:
    """`layers` is the number of LSTMs of the predictor; prior and posterior have one."""
    shapes = {}
    for level, (inputs, outputs) in enumerate(zip([frame, *channels], channels)):
        shapes |= block_shapes(f"encoder.levels.{level}", inputs, outputs, transposed=False)
    shapes |= block_shapes("encoder.top", channels[-1], features, transposed=False)
    shapes |= block_shapes("decoder.top", features, channels[-1], transposed=True)
    for level, (inputs, outputs) in enumerate(zip(reversed(channels[1:]), reversed(channels[:-1]))):
        shapes |= block_shapes(f"decoder.levels.{level}", 2 * inputs, outputs, transposed=True)
    shapes["decoder.output.weight"] = (2 * channels[0], 2 * frame, 4, 4)
    shapes["decoder.output.bias"] = (2 * frame,)
    shapes |= recurrent_shapes("predictor", features + latent, hidden, layers, features)
    shapes |= recurrent_shapes("posterior", features, hidden, 1, 2 * latent)
    if learned_prior:
        shapes |= recurrent_shapes("prior", features, hidden, 1, 2 * latent)
    return shapes
