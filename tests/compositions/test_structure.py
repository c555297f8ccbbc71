"""Jacobians from fewer tangents: the pattern misses nothing, and elements are what they are with a tangent each."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functrace as ft
import tests.cases
from functrace.errors import FunctraceError
from functrace.passes.inline import in_line
from functrace.transforms import sparsity
from functrace.transforms.sparsity import coloured, dependence
from tests.oracles import restricted


@contextmanager
def always_sought(found: bool) -> Iterator[None]:
    """Jacobians from fewer tangents wherever there is a pattern; or never."""
    fewest = sparsity.FEWEST
    sparsity.FEWEST = 2 if found else 1 << 60
    ft.clear_caches()
    try:
        yield
    finally:
        sparsity.FEWEST = fewest
        ft.clear_caches()


def jacobians(transform: Any, f: Any, args: Any) -> list[tuple[Any, Any]]:
    """Leaf by leaf: from fewer tangents, and from all."""
    made = []
    for found in (True, False):
        with always_sought(found):
            made.append(ft.tree.leaves(transform(f, argnums=tuple(range(len(args))))(*args)))
    return list(zip(*made, strict=True))


MODULES = [m.name for m in pkgutil.iter_modules(tests.cases.__path__, "tests.cases.") if m.name != "tests.cases.case"]


@pytest.mark.parametrize("module", MODULES)
def test_no_operation_depends_on_what_its_pattern_leaves_out(module: str) -> None:
    seen = 0
    for case in importlib.import_module(module).CASES:
        args = [np.asarray(case.args[k]) for k in case.diff]
        if not case.diff or case.order < 1 or any(a.dtype != np.float64 or a.size > 64 for a in args):
            continue
        f = restricted(case.call, case.args, case.diff)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with always_sought(False):
                    dense = ft.tree.leaves(ft.jacfwd(f, argnums=tuple(range(len(args))))(*args))
                program = in_line(ft.trace(f)(*args))
            except FunctraceError:  # has no forward derivative, or asks for values
                continue
            sizes = [program.avals[i].size for i in program.output_ids]
            pattern = dependence(program, [True] * len(args), len(sizes))
            assert pattern is not None, case.name
            columns = np.split(pattern, np.cumsum([a.size for a in args])[:-1])
            start = 0
            for k, size in enumerate(sizes):
                for j, argument in enumerate(args):
                    jacobian = np.asarray(dense[k * len(args) + j]).reshape(size, argument.size)
                    reached = columns[j][:, start : start + size].T
                    assert not jacobian[~reached].any(), case.name
                start += size
        seen += 1
    assert seen or module.rpartition(".")[2] in ("counting", "sets", "edges", "distributions", "emath")


def bands(n: int) -> Any:
    return np.linspace(-1.0, 1.0, n)


FUNCTIONS: dict[str, Any] = {
    "elementwise": lambda x: np.tanh(x) * x,
    "neighbours": lambda x: x[1:] * np.exp(x[:-1]),
    "rolled": lambda x: np.sin(np.roll(x, 1)) * x,
    "convolved by slices": lambda x: x[:-2] + 2 * x[1:-1] ** 2 - x[2:],
    "padded": lambda x: np.pad(x, 2)[1:] ** 2,
    "where": lambda x: np.where(x > 0, x**2, x[::-1]),
    "rows": lambda x: np.linalg.norm(np.reshape(x, (-1, 2)), axis=1),
    "products of rows": lambda x: np.reshape(x, (-1, 2)) @ np.array([[1.0, 2.0], [0.0, 3.0]]),
    "concatenated": lambda x: np.concatenate([x, x[:3] * 2, np.ones(2)]),
    "stacked": lambda x: np.stack([x, x[::-1]]),
    "gathered": lambda x: x[np.array([0, 3, 3, -1])] ** 2,
    "sorted": lambda x: np.sort(x),
    "of everything": lambda x: x / np.sum(x**2),
    "a constant": lambda x: np.zeros(3) + 0 * np.floor(x[:3]),
    "written in place": lambda x: written(x),
    "blocks": lambda x: np.linalg.inv(np.reshape(x[:8], (2, 2, 2)) + 3 * np.eye(2)),
    "a loop": lambda x: ft.scan(lambda c, y: (c, y**2), 0.0, x)[1],
    "two results": lambda x: {"a": x**2, "b": x[1:] * x[:-1]},
}


def written(x: Any) -> Any:
    y = x * 1.0
    y[2:] *= x[:-2]
    np.add.at(y, np.array([0, 0, 1]), x[:3])
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", [ft.jacfwd, lambda f, argnums: ft.jacfwd(ft.jacfwd(f, argnums), argnums)])
def test_elements_are_what_they_are_with_a_tangent_each(name: str, transform: Any) -> None:
    for sparse, dense in jacobians(transform, FUNCTIONS[name], (bands(10),)):
        np.testing.assert_array_equal(sparse, dense)
        assert sparse.flags.c_contiguous == dense.flags.c_contiguous


@pytest.mark.parametrize("jitted", [False, True])
def test_a_banded_hessian_takes_as_many_tangents_as_it_has_bands(jitted: bool) -> None:
    def rosenbrock(x: Any) -> Any:
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x = bands(50)
    for sparse, dense in jacobians(lambda f, argnums: ft.jit(ft.hessian(f)) if jitted else ft.hessian(f), rosenbrock, (x,)):
        np.testing.assert_array_equal(sparse, dense)
    batches = {
        shape[0] for aval in ft.trace(ft.hessian(rosenbrock))(x).avals if len(shape := aval.shape) == 2 and shape[1] == 49
    }
    assert batches == {3}


def test_under_other_transforms() -> None:
    f = FUNCTIONS["neighbours"]
    x = bands(20)
    for of in (
        lambda x: ft.grad(lambda x: np.sum(ft.jacfwd(f)(x) ** 2))(x),
        lambda x: ft.vmap(ft.jacfwd(f))(np.stack([x, 2 * x])),
        lambda x: ft.jvp(ft.jit(ft.jacfwd(f)), (x,), (x,))[1],
    ):
        with always_sought(True):
            found = of(x)
        with always_sought(False):
            np.testing.assert_array_equal(found, of(x))


def test_auxiliary_data_and_several_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return x[1:] * y, {"aux": np.sum(x) * y}

    for argnums in (0, 1, (0, 1), (1, 0)):
        made = []
        for found in (True, False):
            with always_sought(found):
                made.append(ft.tree.leaves(ft.jacfwd(f, argnums, has_aux=True)(bands(8), np.arange(7.0))))
        for a, b in zip(*made, strict=True):
            np.testing.assert_array_equal(a, b)


@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(0.0, 0.5))
def test_no_two_of_a_group_reach_the_same_element(seed: int, size: int, density: float) -> None:
    pattern = np.random.default_rng(seed).random((size, size + 3)) < density
    groups = coloured(pattern)
    if groups is not None:
        for group in range(groups.max() + 1):
            assert pattern[groups == group].sum(axis=0).max() <= 1


def written_at(x: Any, positions: Any) -> Any:
    y = x * 1.0
    y[positions] = 5.0
    return y


def at(x: Any, positions: Any) -> Any:
    return x * ft.numpy.take(x, positions)


POSITIONS: dict[str, Any] = {
    "converted": lambda x: at(x, x.astype(int) % 6),
    "an element": lambda x: at(x, x[0].astype(int)),
    "cond": lambda x: at(x, ft.cond(x[0] > 9.0, lambda: 1, lambda: x[1].astype(int) + 2)),
    "switch": lambda x: at(x, ft.switch(x[2].astype(int), [lambda: np.arange(6), lambda: np.arange(6)[::-1] * 1])),
    "scan": lambda x: at(x, ft.scan(lambda c, _: (c + 1, None), 0, x)[0] - 3),
    "while_loop": lambda x: at(x, ft.while_loop(lambda i: i < x[3], lambda i: i + 1, 0)),
    "beside": lambda x: at(x, ft.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * x), (0, x))[0]),
    "argsort": lambda x: at(x, np.argsort(-x)),
    "argmax": lambda x: at(x, np.argmax(x)),
    "count": lambda x: at(np.cumsum(x), np.sum(x > 1.0)),
    "write": lambda x: written_at(x, x.astype(int) % 6),
    "call": lambda x: ft.jit(lambda a, b: at(b, a % 6))(x.astype(int), x),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_that_are_computed_of_the_arguments(name: str) -> None:
    x = np.linspace(0.1, 3.9, 6)
    for found, expected in jacobians(lambda f, argnums: ft.jit(ft.jacfwd(f)), POSITIONS[name], (x,)):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
