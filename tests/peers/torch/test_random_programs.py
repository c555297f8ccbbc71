"""Random programs of tensor operations do, step by step, what they do in PyTorch.

A program is a list of steps on a pool of tensors: operations, views, in-place operations,
aliases and other memory layouts, results written into given tensors, hooks, detached and retained
tensors, Functions, backward passes and gradients of gradients. Each step runs on both libraries and
everything observable is compared: values, dtypes, nodes, versions, gradients, calls of hooks,
warnings, and errors with their messages.

    python -m tests.peers.torch.test_random_programs --seed 0 --count 5000

runs more of them, and prints the shortest program that differs. ``FUNCTRACE_RANDOM_PROGRAMS`` is
the count for pytest.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.peers.torch.harness import VERSION, Log, differences

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

Step = tuple[str, tuple[int, ...]]

SENTENCES = bool(os.environ.get("FUNCTRACE_RANDOM_SENTENCES"))
"""True if error messages are compared, too."""
_ERROR = re.compile(r"  [A-Z]\w*Error: |end \d+ [A-Z]\w*Error: ")

SHAPES = ((3,), (2, 3), (1, 3), (2, 1), (), (2, 2), (3, 2), (2, 3, 2))
UNARY: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.sin(), lambda x: x.tanh(), lambda x: x.sigmoid(), lambda x: x.relu(), lambda x: -x,
    lambda x: x * 0.5,
    lambda x: x + 1, lambda x: 1 - x, lambda x: x.abs(), lambda x: x**2, lambda x: x.clone(),
    lambda x: x.clamp(-0.5, 0.75),
    lambda x: (x * 0.1).exp(), lambda x: x.cos(), lambda x: x.double(), lambda x: x.float(),
    lambda x: x.softmax(0),
    lambda x: x.contiguous(), lambda x: 2 / (x * x + 1), lambda x: x.log_softmax(-1),
)  # fmt: skip
BINARY: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda t, x, y: x + y, lambda t, x, y: x - y, lambda t, x, y: x * y, lambda t, x,
    y: x / (y * y + 1),
    lambda t, x, y: t.maximum(x, y), lambda t, x, y: t.where(x > y, x, y),
    lambda t, x, y: x @ y if x.ndim < 3 and y.ndim < 3 else -y,
    lambda t, x, y: t.cat([x, y]), lambda t, x, y: t.stack([x, y], -1), lambda t, x,
    y: t.minimum(x, y),
    lambda t, x, y: t.lerp(x, y, 0.25), lambda t, x, y: t.addcmul(x, y, x), lambda t, x,
    y: t.rsub(x, y),
    lambda t, x, y: t.where(y > 0, x, 1.0),
)  # fmt: skip
# Not prod: PyTorch's derivative of it reads the product, the core's the factors, so that gradients
# by the product differ.
REDUCTIONS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.sum(), lambda x: x.mean(), lambda x: x.max(), lambda x: x.sum(0),
    lambda x: x.mean(-1, keepdim=True),
    lambda x: x.max(0).values, lambda x: x.logsumexp(0), lambda x: x.min(-1)[0], lambda x: x.var(0),
)  # fmt: skip
VIEWS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda t, x: x[0], lambda t, x: x[1:], lambda t, x: x[..., -1], lambda t, x: x[:, 1], lambda t,
    x: x.t(),
    lambda t, x: x.reshape(-1), lambda t, x: x.unsqueeze(0), lambda t, x: x.expand(2, *x.shape),
    lambda t, x: x.squeeze(),
    lambda t, x: x.view(x.shape), lambda t, x: x[None], lambda t, x: x.transpose(0, -1), lambda t,
    x: x[::2],
    lambda t, x: x.flatten(), lambda t, x: x[:], lambda t, x: t.as_strided(x, (2,), (1,)),
    lambda t, x: x.as_strided((), (), 0), lambda t, x: x.unsafe_chunk(2)[-1],
)  # fmt: skip
SHARED: tuple[Callable[[Any, Any], Any], ...] = (
    lambda t, x: x.contiguous().view(-1), lambda t, x: x.ravel(), lambda t, x: x.movedim(0, -1),
    lambda t, x: x.diagonal(),
    lambda t, x: x.unsafe_split(1)[-1], lambda t, x: x.mT, lambda t, x: x.T,
    lambda t, x: x.tensor_split(2)[0], lambda t, x: x.unflatten(0, (1, -1)), lambda t,
    x: x.swapaxes(0, -1).reshape(-1),
    lambda t, x: t.einsum("...i->i...", x), lambda t, x: t.broadcast_tensors(x, x)[0], lambda t,
    x: x.expand_as(x),
    lambda t, x: t.asarray(x), lambda t, x: t.as_tensor(x, dtype=t.float64), lambda t,
    x: x.to(x.dtype),
    lambda t, x: x.view_as(x), lambda t, x: x.narrow(0, 0, 1), lambda t, x: x.select(-1, 0),
    lambda t, x: x.t().ravel(),
    lambda t, x: t.from_numpy(x.detach().numpy()), lambda t, x: t.Tensor(x.detach().numpy()),
    lambda t, x: t.real(x),
    lambda t, x: t.zeros_like(x).flatten(), lambda t, x: t.asarray(x, copy=True), lambda t,
    x: x.flip(0).reshape(-1),
    lambda t, x: x.cumsum(0).ravel(), lambda t, x: x.roll(1, 0).flatten(), lambda t,
    x: x.tril().ravel(),
    lambda t, x: x.softmax(-1).reshape(-1), lambda t, x: (2**x).ravel(), lambda t,
    x: x.masked_fill(x > 0, 1.0).ravel(),
    lambda t, x: x.sort(0).values.reshape(-1), lambda t, x: x.amax(-1).ravel(), lambda t,
    x: x.double().ravel(),
    lambda t, x: x.repeat(1, 2).ravel(), lambda t, x: x.index_select(0, t.tensor([0])).flatten(),
    lambda t, x: t.complex(x.double(), x.double()).conj().resolve_conj().real,
)  # fmt: skip
"""Made of a tensor: views, the tensor itself, and copies that lie so that what follows is a view.
"""
OUT: tuple[Callable[[Any, Any, Any, Any], Any], ...] = (
    lambda t, x, y, o: t.add(x, y, out=o), lambda t, x, y, o: t.sin(x, out=o), lambda t, x, y,
    o: t.mul(x, 0.5, out=o),
    lambda t, x, y, o: t.maximum(x, y, out=o), lambda t, x, y, o: t.sub(x, y, alpha=2, out=o),
    lambda t, x, y, o: t.where(x > 0, x, y, out=o), lambda t, x, y, o: t.clamp(x, -0.5, 0.5, out=o),
    lambda t, x, y, o: t.neg(x, out=o.detach()),
)  # fmt: skip
PICKS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda t, x: x[t.tensor([0, 0])], lambda t, x: x[x > 0], lambda t, x: x[[1, 0]], lambda t,
    x: x[t.tensor([True, False])],
    lambda t, x: x[:, t.tensor([1, 1, 0])], lambda t, x: x[..., [0, 1]], lambda t,
    x: x[t.tensor([[0, 1], [1, 0]]).t()],
    lambda t, x: t.var_mean(x, 0)[1], lambda t, x: t.std_mean(x, -1)[0], lambda t, x: t.var_mean(x),
    lambda t, x: x.gather(0, t.zeros(x.shape, dtype=t.int64)),
)  # fmt: skip
IN_PLACE: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda t, x, y: x.mul_(0.5), lambda t, x, y: x.add_(1), lambda t, x, y: x.add_(y), lambda t, x,
    y: x.mul_(y),
    lambda t, x, y: x.copy_(y), lambda t, x, y: x.zero_(), lambda t, x, y: x.fill_(0.25), lambda t,
    x, y: x.relu_(),
    lambda t, x, y: x.tanh_(), lambda t, x, y: x.neg_(), lambda t, x, y: x.sigmoid_(), lambda t, x,
    y: x.sub_(y, alpha=2),
    lambda t, x, y: x.__setitem__(0, 0.5), lambda t, x, y: x.__setitem__(0, y), lambda t, x,
    y: x.__setitem__(x > 0.5, 0.1),
    lambda t, x, y: x.__setitem__(slice(1, None), y), lambda t, x, y: x.__setitem__(t.tensor([0,
    0]), y),
    lambda t, x, y: x.__setitem__(..., y), lambda t, x, y: x.pow_(2), lambda t, x,
    y: x.div_(y * y + 1),
    lambda t, x, y: x.fill_(y.sum()), lambda t, x, y: x.clamp_(-0.5, 0.5), lambda t, x,
    y: x[0].add_(y),
)  # fmt: skip
IN_PLACE_VIEWS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.t_(), lambda x: x.transpose_(0, -1), lambda x: x.squeeze_(),
    lambda x: x.squeeze_(0),
    lambda x: x.unsqueeze_(-1), lambda x: x.as_strided_((2,), (1,)), lambda x: x.squeeze_((0, -1)),
)  # fmt: skip
KINDS = {
    "leaf": 3, "unary": 10, "binary": 8, "reduction": 3, "view": 8, "pick": 2, "in_place": 8,
    "in_place_view": 2,
    "detach": 1, "detach_": 1,
    "shared": 4, "out": 2, "requires_grad_": 1, "retain_grad": 2, "hook": 3, "node_hook": 2,
    "post_hook": 1,
    "function": 3, "backward": 4, "grad": 4, "second": 3, "no_grad": 2, "packed": 2, "data": 1,
    "seeded": 2, "clear": 1,
    "again": 1,
}  # fmt: skip


def program(rng: random.Random) -> list[Step]:
    """Return random steps: what to do, and numbers to choose operands by."""
    names = rng.choices(list(KINDS), list(KINDS.values()), k=rng.randint(3, 16))
    steps = [(name, tuple(rng.randrange(1000) for _ in range(4))) for name in names]
    return [("leaf", (rng.randrange(1000), 1, 0, 1)), *steps]


class Interpreter:
    """Runs a program on one of the libraries."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.log = log = Log(torch)
        self.pool: list[Any] = []
        self.hooks = 0

        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any, form: int) -> Any:
                ctx.form = form
                ctx.set_materialize_grads(form % 2 == 0)
                if form == 3:
                    ctx.mark_dirty(x)
                    return x.mul_(2)
                result = x * 2
                ctx.save_for_backward(x, y, result)
                return (result, y * 3) if form < 2 else x if form == 4 else result

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                log("  in backward", *[g if g is None else g.detach() for g in grads])
                if ctx.form == 3:
                    return grads[0] * 2, None, None
                x, y, result = ctx.saved_tensors
                log("  saved", x.requires_grad, y.requires_grad, result.requires_grad)
                first = None if grads[0] is None else grads[0] * 2
                return (
                    first,
                    grads[1] * 3 if len(grads) > 1 and grads[1] is not None else None,
                    None,
                )

        self.scaled = Scaled

    def run(self, steps: list[Step]) -> list[str]:
        """Run the steps; what a step raises is logged, and the next one runs."""
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = self.log.warning  # type: ignore[assignment]
            for name, numbers in steps:
                self.log(f"{name} {numbers}")
                try:
                    made = getattr(self, name)(*numbers)
                    for value in made if isinstance(made, tuple) else (made,):
                        if isinstance(value, self.torch.Tensor):
                            self.pool.append(value)
                            self.log(" ", value, value._version, value._is_view(), steps_of(value))
                except Exception as error:
                    self.log(f"  {type(error).__name__}: {error}")
            for k, value in enumerate(self.pool):
                try:
                    self.log(
                        f"end {k}",
                        value,
                        value._version,
                        value.grad if value.is_leaf or value.retains_grad else None,
                    )
                except Exception as error:
                    self.log(f"end {k} {type(error).__name__}: {error}")
        return self.log.lines

    def at(self, number: int) -> Any:
        return self.pool[number % len(self.pool)]

    def leaf(self, a: int, b: int, c: int, d: int) -> Any:
        torch = self.torch
        shape = SHAPES[a % len(SHAPES)]
        count = 1
        for n in shape:
            count *= n
        values = [((a + 7 * k + 3 * b) % 17 - 8) / 8 for k in range(count)]
        made = (
            torch.tensor(values, dtype=torch.float32 if c % 4 == 3 else torch.float64)
            .reshape(shape)
            .clone()
        )
        return made.requires_grad_(d % 4 != 0)

    def unary(self, a: int, b: int, c: int, d: int) -> Any:
        return UNARY[b % len(UNARY)](self.at(a))

    def binary(self, a: int, b: int, c: int, d: int) -> Any:
        return BINARY[b % len(BINARY)](self.torch, self.at(a), self.at(c))

    def reduction(self, a: int, b: int, c: int, d: int) -> Any:
        return REDUCTIONS[b % len(REDUCTIONS)](self.at(a))

    def view(self, a: int, b: int, c: int, d: int) -> Any:
        return VIEWS[b % len(VIEWS)](self.torch, self.at(a))

    def shared(self, a: int, b: int, c: int, d: int) -> Any:
        return SHARED[b % len(SHARED)](self.torch, self.at(a))

    def out(self, a: int, b: int, c: int, d: int) -> Any:
        x, y, o = self.at(a), self.at(c), self.at(d)
        reach = [
            sum((n - 1) * k for n, k in zip(z.shape, z.stride(), strict=True)) for z in (x, y, o)
        ]
        spans = [
            (z.data_ptr(), z.data_ptr() + (n + 1) * z.element_size())
            for z, n in zip((x, y, o), reach, strict=True)
        ]
        for z, (begin, end) in zip((x, y), spans, strict=False):
            if z is not o and z.numel() and o.numel() and begin < spans[2][1] and spans[2][0] < end:
                return  # what is not refused there is not defined
        resized = [z for z in (x, self.torch.add(x.detach(), y.detach())) if z.shape != o.shape]
        if any(o.requires_grad or z.dtype != o.dtype or z.numel() > o.numel() for z in resized):
            return  # gradients would have its former shape; a storage that others hold grows in PyTorch alone
        with self.torch.no_grad():
            OUT[b % len(OUT)](self.torch, x, y, o)
        self.log("  now", o, o._version, o.is_contiguous())

    def pick(self, a: int, b: int, c: int, d: int) -> Any:
        return PICKS[b % len(PICKS)](self.torch, self.at(a))

    def in_place(self, a: int, b: int, c: int, d: int) -> Any:
        x, y = self.at(a), self.at(c)
        if x.numel() and any(
            step == 0 and n > 1 for step, n in zip(x.stride(), x.shape, strict=True)
        ):
            return  # what may be written to expanded memory stands in scripts/in_place_refused.py
        if x is not y and (x if x._base is None else x._base) is (
            y if y._base is None else y._base
        ):
            return  # in what order PyTorch reads and writes memory is not defined, where it does not refuse
        IN_PLACE[b % len(IN_PLACE)](self.torch, x, y)
        self.log("  now", x, x._version)

    def in_place_view(self, a: int, b: int, c: int, d: int) -> Any:
        x = self.at(a)
        IN_PLACE_VIEWS[b % len(IN_PLACE_VIEWS)](x)
        self.log("  now", x, x._version, x.is_contiguous())

    def no_grad(self, a: int, b: int, c: int, d: int) -> Any:
        with self.torch.no_grad():
            if (
                d % 11 == 0 and not self.at(a).requires_grad
            ):  # the shim refuses what belongs to a graph
                return self.in_place_view(a, b, c, d)
            return (self.unary, self.view, self.in_place, self.binary)[d % 4](a, b, c, d)

    def packed(self, a: int, b: int, c: int, d: int) -> Any:
        if self.is_bare_view(a) or self.is_bare_view(c):
            return None

        def pack(x: Any) -> Any:
            self.log("  pack", x.detach(), x.is_leaf)
            return x.detach() if d % 2 else x

        def unpack(x: Any) -> Any:
            self.log("  unpack", x.detach())
            return x

        count = len(self.log.lines)
        try:
            with self.torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                return (self.unary if d % 3 else self.binary)(a, b, c, d)
        except Exception:
            del self.log.lines[count:]  # PyTorch may pack before it refuses
            raise

    def detach(self, a: int, b: int, c: int, d: int) -> Any:
        return self.at(a).detach()

    def data(self, a: int, b: int, c: int, d: int) -> Any:
        return self.at(a).data

    def detach_(self, a: int, b: int, c: int, d: int) -> Any:
        self.at(a).detach_()

    def requires_grad_(self, a: int, b: int, c: int, d: int) -> Any:
        self.at(a).requires_grad_(d % 3 != 0)

    def retain_grad(self, a: int, b: int, c: int, d: int) -> Any:
        self.at(a).retain_grad()

    def clear(self, a: int, b: int, c: int, d: int) -> Any:
        self.at(a).grad = None

    def hook(self, a: int, b: int, c: int, d: int) -> Any:
        self.hooks += 1
        number = self.hooks

        def hook(gradient: Any) -> Any:
            self.log(f"  hook {number}", gradient if gradient is None else gradient.detach())
            return gradient * 2 if d % 3 == 0 and gradient is not None else None

        if not self.is_bare_view(a):
            self.at(a).register_hook(hook)

    def node_hook(self, a: int, b: int, c: int, d: int) -> Any:
        self.hooks += 1
        number = self.hooks
        node = self.at(a).grad_fn

        def shown(grads: Any) -> Any:
            return [g if g is None else g.detach() for g in grads]

        if node is None:
            return
        if d % 2:
            node.register_prehook(lambda given: self.log(f"  prehook {number}", *shown(given)))
        else:
            node.register_hook(
                lambda made, given: self.log(f"  node hook {number}", *shown(made), *shown(given))
            )

    def post_hook(self, a: int, b: int, c: int, d: int) -> Any:
        self.hooks += 1
        number = self.hooks
        if not self.is_bare_view(a):
            self.at(a).register_post_accumulate_grad_hook(
                lambda x: self.log(f"  post {number}", x.grad)
            )

    def is_bare_view(self, number: int) -> bool:
        """Return True if a tensor is a view without a node, whose base requires gradients: PyTorch
        crashes on hooks of it.
        """
        x = self.at(number)
        return x._is_view() and x.grad_fn is None

    def function(self, a: int, b: int, c: int, d: int) -> Any:
        return self.scaled.apply(self.at(a), self.at(c), b % 6)

    def backward(self, a: int, b: int, c: int, d: int) -> Any:
        root = self.at(a)
        options = {} if b % 3 else {"inputs": [self.at(c)]}
        (root if root.numel() == 1 else root.sum()).backward(retain_graph=d % 3 != 0, **options)

    def seeded(self, a: int, b: int, c: int, d: int) -> Any:
        root = self.at(a)
        dtype = (self.torch.float64, self.torch.float32, self.torch.int64, root.dtype)[b % 4]
        root.backward(self.torch.ones_like(root.detach()).to(dtype), retain_graph=True)

    def grad(self, a: int, b: int, c: int, d: int) -> Any:
        root = self.at(a)
        inputs = [self.at(c)] if b % 2 else [self.at(c), self.at(d)]
        options = {"create_graph": b % 3 == 0, "retain_graph": True, "allow_unused": b % 5 > 0}
        made = self.torch.autograd.grad(root.sum(), inputs, **options)
        self.log("  found", *[g if g is None else g.detach() for g in made])
        return tuple(g.detach().contiguous().clone() for g in made if g is not None and d % 7 == 0)

    def second(self, a: int, b: int, c: int, d: int) -> Any:
        root, x = self.at(a), self.at(c)
        if not root.numel():
            return
        (g,) = self.torch.autograd.grad((root * root).sum(), x, create_graph=True)
        self.log("  first", g.detach())
        found = self.torch.autograd.grad(
            (g * g).sum(), [x, self.at(d)], allow_unused=True, materialize_grads=True
        )
        self.log("  second", *[h.detach() + 0.0 for h in found])

    def again(self, a: int, b: int, c: int, d: int) -> Any:
        root = self.at(a)
        for _ in range(2):
            root.sum().backward(retain_graph=d % 2 == 0)


def steps_of(x: Any) -> list[int]:
    """Return the steps between the elements of a tensor in memory, along axes that have several."""
    return [step for n, step in zip(x.shape, x.stride(), strict=True) if n > 1] if x.numel() else []


def observed(torch: Any, steps: list[Step]) -> list[str]:
    """Return what a program logs."""
    return Interpreter(torch).run(steps)


class Runs:
    """Notes what runs, in a file that outlives the process: PyTorch's engine crashes on one program
    in a few thousand.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.seed = 0

    def append(self, library: str) -> None:
        """Note that a library runs the program."""
        if self.path is not None:
            self.path.write_text(f"{self.seed} {library}")


RUNS = Runs()


def compared(steps: list[Step]) -> str:
    """Return how a program differs between the libraries; empty if it does not."""
    for library in (torch, shim):
        library.set_warn_always(True)
    try:
        RUNS.append("torch")
        expected = observed(torch, steps)
        RUNS.append("shim")
        found = observed(shim, steps)
        if any("INTERNAL ASSERT" in line for line in expected):
            return ""  # a defect of PyTorch's
        if not SENTENCES:  # of several reasons to refuse, either library may name its own
            found = [
                a if _ERROR.match(a) and _ERROR.match(b) else b
                for a, b in zip_longest(expected, found, fillvalue="")
            ]
        return differences(expected, found)
    finally:
        for library in (torch, shim):
            library.set_warn_always(False)


shim: Any = importlib.import_module("functrace.torch")


def shortest(steps: list[Step]) -> list[Step]:
    """Return the program without the steps that it differs without."""
    k = len(steps) - 1
    while k > 0:
        fewer = steps[:k] + steps[k + 1 :]
        if compared(fewer):
            steps = fewer
        k -= 1
    return steps


@pytest.mark.parametrize("part", range(4))
def test_random_programs_do_the_same(part: int) -> None:
    count = int(os.environ.get("FUNCTRACE_RANDOM_PROGRAMS", "200"))
    for seed in range(part, count, 4):
        steps = program(random.Random(seed))
        if compared(steps):
            steps = shortest(steps)
            pytest.fail(f"seed {seed}: {steps}\n{compared(steps)[:3000]}")


def main() -> int:
    """Run programs, and print those that differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--most", type=int, default=5)
    parser.add_argument("--notes", type=Path, help="run in this process, and note there what runs")
    given = parser.parse_args()
    if given.notes is None:
        return in_processes(given.seed, given.count, given.most)
    RUNS.path = given.notes
    found = 0
    for seed in range(given.seed, given.seed + given.count):
        RUNS.seed = seed
        steps = program(random.Random(seed))
        if compared(steps):
            found += 1
            steps = shortest(steps)
            print(f"seed {seed}: {steps}\n{compared(steps)[:1500]}\n")
            if found == given.most:
                break
    return found


def in_processes(seed: int, count: int, most: int) -> int:
    """Run programs in other processes, anew behind each on which PyTorch crashes; a crash of ours
    is a failure.
    """
    first, end, found, crashes = seed, seed + count, 0, 0
    with tempfile.TemporaryDirectory() as directory:
        notes = Path(directory, "notes")
        while seed < end and found < most:
            part = min(2000, end - seed)
            command = [
                sys.executable,
                "-m",
                __spec__.name,
                "--seed",
                str(seed),
                "--count",
                str(part),
            ]
            ended = subprocess.run(
                [*command, "--most", str(most - found), "--notes", str(notes)], check=False
            )
            if ended.returncode >= 0:
                found += ended.returncode
                seed += part
                continue
            last, library = notes.read_text().split()
            crashes += library == "torch"
            if library != "torch":
                found += 1
                print(f"seed {last}: functrace crashes (signal {-ended.returncode})")
            seed = int(last) + 1
    print(f"{seed - first} programs, {found} differ; PyTorch crashed on {crashes} others")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
