"""`programs()`: random well-typed programs, drawn as plain NumPy calls on arrays or traced values.

A drawn program is a list of steps. A step names an operation, the values that it reads and its
static choices; `Recipe.__call__` runs the steps through NumPy's own functions, so the same recipe
is the oracle on ndarrays and the subject on traced values. Steps that hold programs (held.py) go
through functrace; `Recipe.plain` is the recipe without it, in NumPy and Python alone. Hypothesis
shrinks recipes by dropping steps, and a recipe prints as Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.laws.sub_programs import chains, choices, fits, loops

Shape = tuple[int, ...]

# Smooth everywhere, of moderate size and slope, so that differences are a fair oracle whatever the
# nesting.
UNARY: dict[str, Callable[[Any], Any]] = {
    "np.sin({0})": np.sin,
    "np.cos({0})": np.cos,
    "np.tanh({0})": np.tanh,
    "np.arctan({0})": np.arctan,
    "np.exp(-np.square({0}))": lambda x: np.exp(-np.square(x)),
    "np.log1p({0} ** 2)": lambda x: np.log1p(x**2),
    "np.sqrt({0} * {0} + 1.0)": lambda x: np.sqrt(x * x + 1.0),
    "1.0 / ({0} ** 2 + 2.0)": lambda x: 1.0 / (x**2 + 2.0),
    "-{0}": lambda x: -x,
    "0.5 * {0}": lambda x: 0.5 * x,
    "np.logaddexp({0}, 0.5)": lambda x: np.logaddexp(x, 0.5),
    # Python numbers of every kind, which NumPy promotes each in its own way.
    "np.where((np.cos({0}) < 2) & True, {0}, False)": lambda x: np.where(
        (np.cos(x) < 2) & True, x, False
    ),
    "np.where((np.sin({0}) > 2.0) | False, 7, np.sin({0}))": lambda x: np.where(
        (np.sin(x) > 2.0) | False, 7, np.sin(x)
    ),
    "np.real((0.5 + 2j) * {0} - (1 - 1j))": lambda x: np.real((0.5 + 2j) * x - (1 - 1j)),
    "True * np.sin({0}) - 2 * True": lambda x: True * np.sin(x) - 2 * True,
    "np.power(np.cos({0}) + 2, True)": lambda x: np.power(np.cos(x) + 2, True),
    "np.hypot(True, {0})": lambda x: np.hypot(True, x),
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "{0} + {1}": lambda x, y: x + y,
    "{0} - {1}": lambda x, y: x - y,
    "{0} * np.tanh({1})": lambda x, y: x * np.tanh(y),
    "{0} / (1.0 + {1} ** 2)": lambda x, y: x / (1.0 + y**2),
    "np.hypot({0}, np.cos({1}) + 2.0)": lambda x, y: np.hypot(x, np.cos(y) + 2.0),
    "np.where(np.cos({1}) > 2.0, {0}, np.sin({0}))": lambda x, y: np.where(
        np.cos(y) > 2.0, x, np.sin(x)
    ),
}


@dataclass(frozen=True)
class Step:
    """One line of a recipe: what it does, written with ``{0}``, ``{1}`` for the values at
    ``reads``.
    """

    written: str
    reads: tuple[int, ...]
    run: Callable[..., Any]
    shape: Shape
    plain: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Recipe:
    """A random program: input shapes, steps, and how many of the newest values it returns."""

    inputs: tuple[Shape, ...]
    steps: tuple[Step, ...]
    outputs: int

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return self._walk(arrays, plain=False)

    def plain(self, *arrays: Any) -> tuple[Any, ...]:
        """Run in NumPy and Python alone: the oracle."""
        return self._walk(arrays, plain=True)

    def _walk(self, arrays: Sequence[Any], *, plain: bool) -> tuple[Any, ...]:
        values = list(arrays)
        for step in self.steps:
            run = step.plain if plain and step.plain is not None else step.run
            values.append(run(*(values[k] for k in step.reads)))
        return tuple(values[-self.outputs :])

    def __repr__(self) -> str:
        count = len(self.inputs)
        lines = [f"def f({', '.join(f'v{k}' for k in range(count))}):  # shapes {self.inputs}"]
        for k, step in enumerate(self.steps, count):
            lines.append(f"    v{k} = " + step.written.format(*(f"v{i}" for i in step.reads)))
        total = count + len(self.steps)
        lines.append(
            f"    return {', '.join(f'v{k}' for k in range(total - self.outputs, total))},"
        )
        return "\n" + "\n".join(lines)

    def arguments(self, seed: int) -> list[Any]:
        """Draw arguments in [-1.5, 1.5]."""
        rng = np.random.default_rng(seed)
        return [np.asarray(rng.uniform(-1.5, 1.5, shape))[()] for shape in self.inputs]


def shapes(*, rank: int = 3, size: int = 3) -> st.SearchStrategy[Shape]:
    """Draw small shapes, 0-d and size-1 axes among them."""
    return st.lists(st.integers(1, size), max_size=rank).map(tuple)


def _elementwise(draw: st.DrawFn, known: list[Shape]) -> Step:
    i = draw(st.integers(0, len(known) - 1))
    partners = [k for k, shape in enumerate(known) if _broadcasts(known[i], shape)]
    if draw(st.booleans()):
        written, run = draw(st.sampled_from(sorted(UNARY.items())))
        return Step(written, (i,), run, known[i])
    j = draw(st.sampled_from(partners))
    written, binary = draw(st.sampled_from(sorted(BINARY.items())))
    return Step(written, (i, j), binary, np.broadcast_shapes(known[i], known[j]))


def _broadcasts(a: Shape, b: Shape) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(reversed(a), reversed(b), strict=False))


def _reduction(draw: st.DrawFn, known: list[Shape]) -> Step:
    i = draw(st.integers(0, len(known) - 1))
    rank = len(known[i])
    axis = draw(st.sampled_from([None, *range(-rank, rank)]))
    keepdims = draw(st.booleans())
    name = draw(st.sampled_from(["sum", "mean"]))
    function = getattr(np, name)
    shape = np.sum(np.zeros(known[i]), axis=axis, keepdims=keepdims).shape
    written = f"np.{name}({{0}}, axis={axis}, keepdims={keepdims})"
    return Step(written, (i,), lambda x: function(x, axis=axis, keepdims=keepdims), shape)


def _shaping(draw: st.DrawFn, known: list[Shape]) -> Step:
    i = draw(st.integers(0, len(known) - 1))
    shape = known[i]
    kind = draw(
        st.sampled_from(
            ["reshape", "transpose", "expand", "broadcast", "concatenate", "stack", "flip"]
        )
    )
    if kind == "transpose":
        axes = tuple(draw(st.permutations(range(len(shape)))))
        return Step(
            f"np.transpose({{0}}, {axes})",
            (i,),
            lambda x: np.transpose(x, axes),
            tuple(shape[k] for k in axes),
        )
    if kind == "expand" and len(shape) < 4:
        axis = draw(st.integers(0, len(shape)))
        return Step(
            f"np.expand_dims({{0}}, {axis})",
            (i,),
            lambda x: np.expand_dims(x, axis),
            (*shape[:axis], 1, *shape[axis:]),
        )
    if kind == "broadcast" and len(shape) < 4:
        made = (2, *shape)
        return Step(
            f"np.broadcast_to({{0}}, {made})", (i,), lambda x: np.broadcast_to(x, made), made
        )
    if kind == "concatenate" and shape:
        axis = draw(st.integers(0, len(shape) - 1))
        made = tuple(2 * n if k == axis else n for k, n in enumerate(shape))
        if max(made) <= 12:
            written = f"np.concatenate([{{0}}, 2.0 * {{0}}], axis={axis})"
            return Step(written, (i,), lambda x: np.concatenate([x, 2.0 * x], axis=axis), made)
    if kind == "stack" and len(shape) < 4:
        return Step(
            "np.stack([np.sin({0}), {0}])", (i,), lambda x: np.stack([np.sin(x), x]), (2, *shape)
        )
    if kind == "flip" and shape:
        return Step("np.flip({0}, 0)", (i,), lambda x: np.flip(x, 0), shape)
    flat = (int(np.prod(shape)),)
    return Step("np.reshape({0}, -1)", (i,), lambda x: np.reshape(x, -1), flat)


def _indexing(draw: st.DrawFn, known: list[Shape]) -> Step:
    candidates = [k for k, shape in enumerate(known) if shape]
    if not candidates:
        return _elementwise(draw, known)
    i = draw(st.sampled_from(candidates))
    n = known[i][0]
    index: Any
    kind = draw(st.sampled_from(["int", "slice", "array", "mask", "none", "ellipsis"]))
    if kind == "int":
        index = draw(st.integers(-n, n - 1))
    elif kind == "slice":
        index = slice(draw(st.integers(0, n - 1)), None, draw(st.sampled_from([1, 2])))
    elif kind == "array":
        index = draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=4))
    elif kind == "mask":
        index = [True, *draw(st.lists(st.booleans(), min_size=n - 1, max_size=n - 1))]
    elif kind == "none" and len(known[i]) < 4:
        index = None
    else:
        index = (Ellipsis, slice(None, None, -1))
    key = np.asarray(index) if isinstance(index, list) else index
    written = f"{{0}}[np.array({index})]" if isinstance(index, list) else f"{{0}}[{index}]"
    return Step(written, (i,), lambda x: x[key], np.zeros(known[i])[key].shape)


def _matmul(draw: st.DrawFn, known: list[Shape]) -> Step:
    pairs = [
        (i, j)
        for i, a in enumerate(known)
        for j, b in enumerate(known)
        if a and b and len(a) <= 2 and len(b) <= 2 and a[-1] == b[0 if len(b) == 1 else -2]
    ]
    if not pairs:
        return _elementwise(draw, known)
    i, j = draw(st.sampled_from(pairs))
    made = (np.zeros(known[i]) @ np.zeros(known[j])).shape
    return Step("{0} @ {1}", (i, j), lambda x, y: x @ y, made)


def _held(draw: st.DrawFn, known: list[Shape]) -> Step:
    """A step that holds a program."""
    i = draw(st.integers(0, len(known) - 1))
    partners = [k for k, shape in enumerate(known) if fits(shape, known[i])]
    others = tuple(draw(st.lists(st.sampled_from(partners), max_size=2)))
    walked = [k for k, shape in enumerate(known) if shape and fits(shape[1:], known[i])]
    if walked and draw(st.booleans()):
        j = draw(st.sampled_from(walked))
        loop = draw(loops(len(others)))
        written = re.sub(r"\bp(\d)\b", lambda found: f"{{{int(found[1]) + 2}}}", loop.written)
        shape = (known[j][0], *known[i]) if loop.stacks else known[i]
        return Step(written, (i, j, *others), loop.traced, shape, loop.plain)
    chain = draw(
        choices(len(others), depth=1) if draw(st.booleans()) else chains(len(others), depth=2)
    )
    written = f"(lambda h: {chain.written.replace('{h}', 'h')})({{0}})"
    written = re.sub(r"\bp(\d)\b", lambda found: f"{{{int(found[1]) + 1}}}", written)
    return Step(written, (i, *others), chain.traced, known[i], chain.plain)


@st.composite
def programs(draw: st.DrawFn, *, most_steps: int = 8, held: bool = True) -> Recipe:
    """Draw a random well-typed program; without ``held``, of operations that hold no programs."""
    inputs = tuple(draw(st.lists(shapes(rank=2), min_size=1, max_size=3)))
    known: list[Shape] = list(inputs)
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, most_steps))):
        kinds = [_elementwise, _held, _reduction, _shaping, _indexing, _matmul, _held]
        make = draw(
            st.sampled_from(kinds if held else [kind for kind in kinds if kind is not _held])
        )
        step = make(draw, known)
        if int(np.prod(step.shape)) <= 200:
            steps.append(step)
            known.append(step.shape)
    if not steps:
        steps.append(Step("np.sin({0})", (0,), np.sin, known[0]))
    return Recipe(inputs, tuple(steps), draw(st.integers(1, min(2, len(steps)))))


def seeds() -> st.SearchStrategy[int]:
    """Draw seeds of `Recipe.arguments`."""
    return st.integers(0, 1000)
