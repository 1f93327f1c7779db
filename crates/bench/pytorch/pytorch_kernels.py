"""mnemora's kernels one by one in eager PyTorch, forward and backward, at the sizes of perfect recall, l = 15, k = 5, batch 10."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from pytorch_gtmm import ATTENTION_FLOOR, Dnc, gaussian_kl, inverse_norm
from work import Work

FRAMES = 200
BATCH, HEADS, SLOTS, WIDTH = 10, 5, 20, 32


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape).requires_grad_()


def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> Callable[[], None]:
    """Runs `function` forward, then backward to all inputs that need a gradient."""
    ones = torch.ones_like(function(*inputs))
    wanted = [tensor for tensor in inputs if tensor.requires_grad]

    def step() -> None:
        for tensor in wanted:
            tensor.grad = None
        function(*inputs).backward(ones)

    return step


def work(function: Callable[..., Tensor], *inputs: Tensor) -> Work:
    """One form, eager and compiled."""
    return Work(
        forms={"eager": gradients(function, *inputs)},
        compiled=lambda: gradients(torch.compile(function), *inputs),
    )


def in_both_layouts(function: Callable[..., Tensor], images: Tensor, *others: Tensor) -> Work:
    """A function of images (and weights of four axes), channels last and channels first."""

    def last(tensor: Tensor) -> Tensor:
        if tensor.dim() != 4:
            return tensor
        return tensor.detach().contiguous(memory_format=torch.channels_last).requires_grad_(tensor.requires_grad)

    inputs = [images, *others]
    relaid = [last(tensor) for tensor in inputs]
    return Work(
        forms={"channels-last": gradients(function, *relaid), "channels-first": gradients(function, *inputs)},
        compiled=lambda: gradients(torch.compile(function), *relaid),
    )


def convolution(inputs: int, outputs: int, kernel: int, stride: int, side: int, wants_image: bool) -> Work:
    images = torch.randn(FRAMES, inputs, side, side, requires_grad=wants_image)
    function = functools.partial(F.conv2d, stride=stride, padding=0 if kernel == stride else kernel // 2)
    return in_both_layouts(function, images, leaf(outputs, inputs, kernel, kernel), leaf(outputs))


def transposed_convolution(inputs: int, outputs: int, side: int) -> Work:
    function = functools.partial(F.conv_transpose2d, stride=2, padding=1, output_padding=1)
    return in_both_layouts(function, leaf(FRAMES, inputs, side, side), leaf(inputs, outputs, 3, 3), leaf(outputs))


def transposed_patches(inputs: int, outputs: int, size: int, side: int) -> Work:
    function = functools.partial(F.conv_transpose2d, stride=size)
    return in_both_layouts(function, leaf(FRAMES, inputs, side, side), leaf(inputs, outputs, size, size), leaf(outputs))


def batch_norm_relu() -> Work:
    def function(images: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return F.relu_(F.batch_norm(images, None, None, gamma, beta, training=True))

    return in_both_layouts(function, leaf(FRAMES, 32, 32, 32), leaf(32), leaf(32))


def content_weights() -> Work:
    def function(keys: Tensor, strengths: Tensor, memory: Tensor) -> Tensor:
        keys = keys * (strengths.unsqueeze(2) * inverse_norm(keys))
        return torch.bmm(keys, (memory * inverse_norm(memory)).mT).softmax(dim=2)

    return work(function, leaf(BATCH, HEADS, WIDTH), leaf(BATCH, HEADS), leaf(BATCH, SLOTS, WIDTH))


def attention_read() -> Work:
    def function(preactivations: Tensor, memory: Tensor) -> Tensor:
        k = F.softplus(preactivations) + ATTENTION_FLOOR
        return torch.bmm(k / k.sum(dim=2, keepdim=True), memory)

    return work(function, leaf(BATCH, HEADS, SLOTS), leaf(BATCH, SLOTS, WIDTH))


def dnc_step() -> Work:
    core = Dnc(WIDTH, 2 * WIDTH, SLOTS, HEADS, WIDTH)

    def function(interface: Tensor, memory: Tensor, *others: Tensor) -> Tensor:
        return core.write_and_read(interface, (memory, memory * inverse_norm(memory), *others))[0]

    def share(*shape: int) -> Tensor:
        return (torch.rand(*shape) / SLOTS).requires_grad_()

    interface = leaf(BATCH, sum(core.parts))
    usage = torch.rand(BATCH, SLOTS).requires_grad_()
    others = usage, share(BATCH, SLOTS), share(BATCH, SLOTS, SLOTS), share(BATCH, HEADS, SLOTS), share(BATCH, SLOTS)
    return work(function, interface, leaf(BATCH, SLOTS, WIDTH), *others)


def relation() -> Work:
    sequences, rows, queries, heads, size = 64, 9, 8, 8, 32
    width = 3 * heads * size

    def projections(projected: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        normal = F.layer_norm(projected, (width,), gamma, beta).view(sequences, rows, heads, 3 * size).transpose(1, 2)
        q, k, v = normal.split(size, dim=3)
        return q[:, :, :queries], k, v

    def joined(read: Tensor) -> Tensor:
        return read.transpose(1, 2).reshape(sequences * queries, heads * size)

    def written_out(*leaves: Tensor) -> Tensor:
        q, k, v = projections(*leaves)
        return joined(torch.softmax(q @ k.transpose(2, 3) * size**-0.5, dim=3) @ v)

    def torch_attention(*leaves: Tensor) -> Tensor:
        return joined(F.scaled_dot_product_attention(*projections(*leaves)))

    leaves = leaf(sequences * rows, width), leaf(width), leaf(width)
    works = {"written out": work(written_out, *leaves), "scaled_dot_product_attention": work(torch_attention, *leaves)}
    return Work(forms={name: next(iter(one.forms.values())) for name, one in works.items()})


def bernoulli() -> Work:
    def function(x: Tensor, logits: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(dim=1)

    return work(function, torch.rand(FRAMES, 784), leaf(FRAMES, 784))


def kl_divergence() -> Work:
    return work(gaussian_kl, *(leaf(FRAMES, WIDTH) for _ in range(4)))


def gaussian_sample() -> Work:
    noise = torch.randn(BATCH, WIDTH)
    return work(lambda mean, log_std: torch.addcmul(mean, log_std.exp(), noise), leaf(BATCH, WIDTH), leaf(BATCH, WIDTH))


def adam() -> Work:
    value = leaf(2_000_000)
    value.grad = torch.randn(2_000_000)
    return Work(forms={"fused": torch.optim.Adam([value], eps=1e-8, fused=True).step})


def split() -> Work:
    return work(lambda rows: torch.cat(rows.view(20, BATCH, 64).unbind(0)), leaf(FRAMES, 64))


WORKS = {
    "kernel/conv/1-to-8-k7-32px": functools.partial(convolution, 1, 8, 7, 1, 32, False),
    "kernel/conv/32-to-8-k5-16px": functools.partial(convolution, 32, 8, 5, 1, 16, True),
    "kernel/conv/32-to-64-k3-stride-2-16px": functools.partial(convolution, 32, 64, 3, 2, 16, True),
    "kernel/conv/131-to-256-k5-8px": functools.partial(convolution, 131, 256, 5, 1, 8, True),
    "kernel/conv/64-to-64-k3-8px": functools.partial(convolution, 64, 64, 3, 1, 8, True),
    "kernel/conv/64-to-256-k2-9px": functools.partial(convolution, 64, 256, 2, 1, 9, True),
    "kernel/conv/128-to-64-patches-2-16px": functools.partial(convolution, 128, 64, 2, 2, 16, True),
    "kernel/transposed-conv/64-to-32-k3-stride-2-8px": functools.partial(transposed_convolution, 64, 32, 8),
    "kernel/transposed-conv/64-to-128-patches-2-8px": functools.partial(transposed_patches, 64, 128, 2, 8),
    "kernel/transposed-conv/128-to-3-patches-4-16px": functools.partial(transposed_patches, 128, 3, 4, 16),
    "kernel/batch-norm-relu/32-channels-32px": batch_norm_relu,
    "kernel/content-weights/5-heads-20-slots": content_weights,
    "kernel/attention-read/5-heads-20-slots": attention_read,
    "kernel/dnc-step/5-heads-20-slots": dnc_step,
    "kernel/relation/8-heads-8-slots-batch-64": relation,
    "kernel/bernoulli/200x784": bernoulli,
    "kernel/gaussian-kl/200x32": kl_divergence,
    "kernel/gaussian-sample/10x32": gaussian_sample,
    "kernel/adam/2000000": adam,
    "kernel/split/20-steps": split,
}
