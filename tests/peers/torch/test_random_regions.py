"""Randomly nested checkpoints, hooks, Functions and inner gradients do the same things in the same
order as in PyTorch.

Each program is run on both libraries, and everything that can be observed on the way is compared:
every operation that runs (again), every call of a hook with the values it gets, saved attributes,
gradients.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.peers.torch.harness import VERSION, Log, differences

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

Step = tuple[Any, ...]

OPERATIONS: dict[str, Callable[..., Any]] = {
    "sin": lambda torch, x, weights: x.sin(),
    "exp": lambda torch, x, weights: (x * 0.1).exp(),
    "tanh": lambda torch, x, weights: x.tanh(),
    "weigh": lambda torch, x, weights: x * weights[0],
    "square": lambda torch, x, weights: x * x,
    "shift": lambda torch, x, weights: x + weights[0],
    "divide": lambda torch, x, weights: x / (weights[1] * weights[1] + 1.0),
    "sum": lambda torch, x, weights: x.sum() * x,
    "half": lambda torch, x, weights: x * 0.5,
    "in_place": lambda torch, x, weights: x.sin().mul_(1.5),
}
FINISHES = ("backward", "retained", "pruned", "double", "attributes")


def program(rng: random.Random, depth: int, inner_gradients: bool = True) -> list[Step]:
    """Return random steps: a name, and what belongs to it.

    Under hooks no gradient is taken with create_graph: the order in which the formulas of PyTorch's
    own backward functions save their operands is not the core's.
    """
    steps: list[Step] = []
    for _ in range(rng.randint(1, 4)):
        choice = rng.random() if depth else 1.0
        if choice < 0.35:
            body = program(rng, depth - 1)
            steps.append(
                (
                    "checkpoint",
                    body,
                    rng.choice(["argument", "closure", "container"]),
                    rng.random() < 0.5,
                )
            )
        elif choice < 0.45:
            steps.append(("hooks", program(rng, depth - 1, inner_gradients=False)))
        elif choice < 0.5 and inner_gradients:
            steps.append(("gradient", program(rng, depth - 1)))
        elif rng.random() < 0.15:
            steps.append(("function",))
        else:
            steps.append((rng.choice(list(OPERATIONS)),))
    return steps


class Interpreter:
    """Runs a program on one of the libraries."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.log = log = Log(torch)
        self.x = self.leaf(0.3, 0.7)
        self.weights = [self.leaf(1.1, 0.9), self.leaf(0.8)]
        self.pairs = 0

        class Weighed(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, weight: Any) -> Any:
                log("forward")
                y = x * weight
                ctx.save_for_backward(x, weight, y)
                return y

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                log("backward")
                x, weight, y = ctx.saved_tensors
                log("saved", x.requires_grad, y.requires_grad)
                return gradient * weight, (gradient * x).sum().reshape(1)

        self.function = Weighed

    def leaf(self, *values: float) -> Any:
        return self.torch.tensor(values, dtype=self.torch.float64, requires_grad=True)

    def hooks(self) -> Any:
        """Return hooks that log their calls."""
        self.pairs += 1
        number = self.pairs

        def pack(tensor: Any) -> Any:
            self.log("pack", number, tensor.detach())
            return tensor.detach()

        def unpack(tensor: Any) -> Any:
            self.log("unpack", number)
            return tensor

        return self.torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    def run(self, steps: list[Step], x: Any) -> Any:
        """Run steps one after the other."""
        for name, *rest in steps:
            self.log(name, x.detach())
            if name == "checkpoint":
                x = self.checkpoint(x, *rest)
            elif name == "hooks":
                with self.hooks():
                    x = self.run(rest[0], x)
            elif name == "gradient":
                y = self.run(rest[0], x)
                (g,) = self.torch.autograd.grad(y.sum(), x, create_graph=True, allow_unused=True)
                x = y + g * 0.1
            elif name == "function":
                x = self.function.apply(x, self.weights[1])
            else:
                x = OPERATIONS[name](self.torch, x, self.weights)
        return x

    def checkpoint(self, x: Any, body: list[Step], form: str, early_stop: bool) -> Any:
        """Run steps as a checkpoint that gets its input in one of three ways."""
        call = self.torch.utils.checkpoint.checkpoint
        options = {"use_reentrant": False, "early_stop": early_stop}
        if form == "argument":
            return call(lambda x: self.run(body, x), x, **options)
        if form == "container":
            return call(lambda given: self.run(body, given["x"]), {"x": x}, **options)
        return call(lambda: self.run(body, x), **options)

    def finish(self, y: Any, how: str) -> None:
        """Differentiate, or look at the graph."""
        self.log(how, y)
        grad = self.torch.autograd.grad
        leaves = [self.x, *self.weights]
        if how == "backward":
            y.sum().backward()
        elif how == "retained":
            y.sum().backward(retain_graph=True)
            self.log("again")
            y.sum().backward()
        elif how == "pruned":
            self.log(*grad(y.sum(), leaves[::2], allow_unused=True, retain_graph=True))
            self.log("again")
            self.log(*grad(y.sum(), leaves[1], allow_unused=True))
        elif how == "double":
            found = grad(y.sum(), leaves, allow_unused=True, create_graph=True)
            found = [g for g in found if g is not None and g.requires_grad]
            self.log(*[g.detach() for g in found])
            for g in found:
                g.sum().backward(retain_graph=True)
        else:
            self.attributes(y.grad_fn)
        self.log(*[leaf.grad for leaf in leaves])

    def attributes(self, node: Any) -> None:
        """Read what the nodes on the first path to a leaf have saved."""
        while node is not None:
            self.log(node.name())
            for name in ("_saved_self", "_saved_other", "_saved_result"):
                if name in dir(node):
                    value = getattr(node, name)
                    self.log(name, None if value is None else value.detach())
            node = node.next_functions[0][0] if node.next_functions else None


def observed(torch: Any, steps: list[Step], how: str) -> list[str]:
    """Return what a program logs."""
    interpreter = Interpreter(torch)
    interpreter.finish(interpreter.run(steps, interpreter.x), how)
    return interpreter.log.lines


@pytest.mark.parametrize("how", FINISHES)
@pytest.mark.parametrize("seed", range(12))
def test_random_regions_do_the_same_in_the_same_order(seed: int, how: str) -> None:
    steps = program(random.Random(f"{seed} {how}"), 3)
    expected = observed(torch, steps, how)
    different = differences(
        expected, observed(importlib.import_module("functrace.torch"), steps, how)
    )
    assert not different, f"{steps}\n{different[:2000]}"
