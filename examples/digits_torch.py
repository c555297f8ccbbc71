"""Handwritten digits, ported from PyTorch
=======================================

The digits network of ``digits.py``, ported line by line from PyTorch: only the import has changed.

PyTorch code runs unchanged: an ``autograd.Function`` for the linear layer, saved-tensor hooks that
halve the memory of the graph (float16 instead of float32), a checkpointed hidden layer,
``backward()``, and an Adam step in place under ``no_grad``. The program ends with an error if the
held-out accuracy is below 97 %, if the hooks do not halve the saved memory, or if the same Function
gives other gradients inside ``functrace.grad``.

::

    python examples/digits_torch.py            # functrace.torch
    python examples/digits_torch.py --pytorch  # the same lines on PyTorch, if it is installed
"""

from __future__ import annotations

import sys
import time

import numpy as np
from jaxtyping import Float, Int
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

if "--pytorch" in sys.argv:
    import torch
    from torch.autograd.graph import saved_tensors_hooks
    from torch.utils.checkpoint import checkpoint
else:
    import functrace.torch as torch
    from functrace.torch.autograd.graph import saved_tensors_hooks
    from functrace.torch.utils.checkpoint import checkpoint

EPOCHS, BATCH, HIDDEN, RATE, DECAY, SMOOTH = 60, 64, 128, 3e-3, 1e-4, 0.05
WANTED = 0.97


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(input, weight, bias=None):
        output = input.mm(weight.t())
        if bias is not None:
            output = output + bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weight, bias = inputs
        ctx.save_for_backward(input, weight, bias)

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


def hidden_layer(
    images: Float[torch.Tensor, "n pixels"],
    weight: Float[torch.Tensor, "hidden pixels"],
    bias: Float[torch.Tensor, "hidden"],
) -> Float[torch.Tensor, "n hidden"]:
    return torch.tanh(LinearFunction.apply(images, weight, bias))


def predict(params, images: Float[torch.Tensor, "n pixels"]) -> Float[torch.Tensor, "n classes"]:
    """Return the score of every class, one row per image."""
    hidden = checkpoint(hidden_layer, images, params[0], params[1], use_reentrant=False)
    return LinearFunction.apply(hidden, params[2], params[3])


def loss(
    params, images: Float[torch.Tensor, "n pixels"], labels: Int[torch.Tensor, "n"]
) -> Float[torch.Tensor, ""]:
    """Return the smoothed cross entropy, and a small penalty on the weights."""
    scores = torch.nn.functional.log_softmax(predict(params, images), dim=1)
    hit = torch.nn.functional.nll_loss(scores, labels)
    spread = -scores.mean()
    penalty = (params[0] ** 2).sum() + (params[2] ** 2).sum()
    return (1 - SMOOTH) * hit + SMOOTH * spread + DECAY * penalty


def accuracy(params, images, labels):
    with torch.no_grad():
        return (predict(params, images).argmax(dim=1) == labels).float().mean().item()


class HalvedMemory(saved_tensors_hooks):
    """Keep saved float32 tensors as float16, and count the bytes before and after."""

    def __init__(self):
        self.before = self.after = 0

        def pack(x):
            packed = x.detach().to(torch.float16) if x.dtype == torch.float32 else x.detach()
            self.before += x.numel() * x.element_size()
            self.after += packed.numel() * packed.element_size()
            return x.dtype, packed

        def unpack(pair):
            dtype, packed = pair
            return packed.to(dtype)

        super().__init__(pack, unpack)


class Adam:
    """Kingma & Ba 2015, algorithm 1, in place."""

    def __init__(self, params, b1=0.9, b2=0.999, eps=1e-8):
        self.params, self.b1, self.b2, self.eps = params, b1, b2, eps
        self.mean = [torch.zeros_like(p) for p in params]
        self.square = [torch.zeros_like(p) for p in params]
        self.steps = 0

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self, rate):
        self.steps += 1
        size = rate * (1 - self.b2**self.steps) ** 0.5 / (1 - self.b1**self.steps)
        with torch.no_grad():
            for p, m, v in zip(self.params, self.mean, self.square, strict=True):
                m.mul_(self.b1).add_(p.grad, alpha=1 - self.b1)
                v.mul_(self.b2).add_(p.grad * p.grad, alpha=1 - self.b2)
                p.sub_(size * m / (v.sqrt() + self.eps))


def initial_params(rng, pixels, classes):
    params = []
    for n, m in ((pixels, HIDDEN), (HIDDEN, classes)):
        params.append(
            torch.tensor(
                rng.normal(size=(m, n)) / np.sqrt(n), dtype=torch.float32, requires_grad=True
            )
        )
        params.append(torch.zeros(m, requires_grad=True))
    return params


def train(rng, params, images, labels, held_images, held_labels):
    """Train in place; returns the hooks of the last batch, and the held-out accuracy."""
    optimizer = Adam(params)
    epochs = tqdm(range(EPOCHS), desc="digits, ported", unit="epoch", mininterval=0.5)
    for epoch in epochs:
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        for batch in np.array_split(rng.permutation(len(images)), len(images) // BATCH):
            rows = torch.from_numpy(batch)
            optimizer.zero_grad()
            hooks = HalvedMemory()
            with hooks:
                value = loss(params, images[rows], labels[rows])
            value.backward()
            optimizer.step(float(rate))
        held = accuracy(params, held_images, held_labels)
        epochs.set_postfix(loss=f"{value.item():.4f}", held_out=f"{held:.2%}", refresh=False)
    return hooks, held


def functional_gradient_differs(params, images):
    """Return True if `functrace.grad` and ``backward()`` disagree on the Function's gradient."""
    import functrace as ft

    weight, bias = params[0].detach().clone().requires_grad_(), params[1].detach()
    (LinearFunction.apply(images, weight, bias) ** 2).sum().backward()
    found = ft.grad(lambda w: (LinearFunction.apply(images.numpy(), w, bias.numpy()) ** 2).sum())(
        weight.detach().numpy()
    )
    print(
        "LinearFunction inside functrace.grad: largest difference "
        f"{np.abs(found - weight.grad.numpy()).max():.1e}"
    )
    return not np.allclose(found, weight.grad.numpy(), rtol=1e-5, atol=1e-4)


def main() -> int:
    rng = np.random.default_rng(0)
    pixels, numbers = load_digits(return_X_y=True)
    pixels, held_pixels, numbers, held_numbers = train_test_split(
        pixels / 16.0, numbers, test_size=0.2, stratify=numbers, random_state=0
    )
    images, held_images = (torch.tensor(x, dtype=torch.float32) for x in (pixels, held_pixels))
    labels, held_labels = torch.tensor(numbers), torch.tensor(held_numbers)
    params = initial_params(rng, pixels.shape[1], int(numbers.max()) + 1)
    begin = time.perf_counter()
    hooks, held = train(rng, params, images, labels, held_images, held_labels)
    seconds = time.perf_counter() - begin
    steps = EPOCHS * (len(images) // BATCH)
    print(f"held-out accuracy {held:.2%} after {steps} steps in {seconds:.1f} s")
    print(f"saved for backward, last batch: {hooks.before:,} bytes, kept as {hooks.after:,}")
    failed = held < WANTED or hooks.after > 0.51 * hooks.before
    if "--pytorch" not in sys.argv:
        failed |= functional_gradient_differs(params, images[:64])
    if failed:
        print(f"expected {WANTED:.0%}, half the bytes and equal gradients", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
