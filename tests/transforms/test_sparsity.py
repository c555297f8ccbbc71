"""Jacobians from fewer tangents: the pattern misses nothing, and elements are what they are with a
tangent each.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functrace as ft
import tests.cases
from functrace.errors import FunctraceError
from functrace.passes.inlining import inline_calls
from functrace.transforms.sparsity import Pattern, coloured, compressed, dependence
from tests.oracles import restricted


@contextmanager
def always_sought(found: bool) -> Iterator[None]:
    """Jacobians from fewer tangents wherever there is a pattern; or never."""
    fewest = compressed.FEWEST
    compressed.FEWEST = 2 if found else 1 << 60
    ft.clear_caches()
    try:
        yield
    finally:
        compressed.FEWEST = fewest
        ft.clear_caches()


def jacobians(transform: Any, f: Any, args: Any) -> list[tuple[Any, Any]]:
    """Leaf by leaf: from fewer tangents, and from all."""
    made = []
    for found in (True, False):
        with always_sought(found):
            made.append(ft.tree.leaves(transform(f, argnums=tuple(range(len(args))))(*args)))
    return list(zip(*made, strict=True))


MODULES = [
    m.name
    for m in pkgutil.iter_modules(tests.cases.__path__, "tests.cases.")
    if m.name != "tests.cases.case"
]


def small_cases(
    module: str,
) -> Iterator[tuple[str, Callable[..., Any], list[np.ndarray[Any, Any]]]]:
    """The differentiable cases of a module on few numbers: names, functions of just these, and the
    numbers.
    """
    for case in importlib.import_module(module).CASES:
        args = [np.asarray(case.args[k]) for k in case.diff]
        if (
            case.diff
            and case.order >= 1
            and all(a.dtype == np.float64 and a.size <= 64 for a in args)
        ):
            yield case.name, restricted(case.call, case.args, case.diff), args


@pytest.mark.sampled(19)
@pytest.mark.parametrize("module", MODULES)
def test_patterns_include_all_nonzero_elements(module: str) -> None:
    seen = 0
    for name, f, args in small_cases(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with always_sought(False):
                    dense = ft.tree.leaves(ft.jacfwd(f, argnums=tuple(range(len(args))))(*args))
                program = inline_calls(ft.trace(f)(*args))
            except FunctraceError:  # has no forward derivative, or reads concrete values
                continue
            sizes = [program.avals[i].size for i in program.output_ids]
            pattern = dependence(program, [True] * len(args), len(sizes))
            assert pattern is not None, name
            columns = np.split(pattern.dense().T, np.cumsum([a.size for a in args])[:-1])
            start = 0
            for k, size in enumerate(sizes):
                for j, argument in enumerate(args):
                    jacobian = np.asarray(dense[k * len(args) + j]).reshape(size, argument.size)
                    reached = columns[j][:, start : start + size].T
                    assert not jacobian[~reached].any(), name
                start += size
        seen += 1
    assert seen or module.rpartition(".")[2] in (
        "counting",
        "sets",
        "edges",
        "distributions",
        "emath",
    )


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


def nested(outer: Any, inner: Any) -> Any:
    return lambda f, argnums: outer(inner(f, argnums), argnums)


TRANSFORMS: dict[str, Any] = {
    "jacfwd": ft.jacfwd,
    "jacrev": ft.jacrev,
    "jacfwd of jacfwd": nested(ft.jacfwd, ft.jacfwd),
    "jacfwd of jacrev": nested(ft.jacfwd, ft.jacrev),
    "jacrev of jacfwd": nested(ft.jacrev, ft.jacfwd),
    "jacrev of jacrev": nested(ft.jacrev, ft.jacrev),
    "jit of jacrev": lambda f, argnums: ft.jit(ft.jacrev(f, argnums)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_compressed_jacobians_equal_dense_ones(name: str, transform: Any) -> None:
    for sparse, dense in jacobians(transform, FUNCTIONS[name], (bands(10),)):
        np.testing.assert_array_equal(sparse, dense)
        assert sparse.flags.c_contiguous or not dense.flags.c_contiguous


@pytest.mark.parametrize("jitted", [False, True])
def test_a_banded_hessian_takes_as_many_tangents_as_it_has_bands(jitted: bool) -> None:
    def rosenbrock(x: Any) -> Any:
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x = bands(50)
    for sparse, dense in jacobians(
        lambda f, argnums: ft.jit(ft.hessian(f)) if jitted else ft.hessian(f), rosenbrock, (x,)
    ):
        np.testing.assert_array_equal(sparse, dense)
    batches = {
        shape[0]
        for aval in ft.trace(ft.hessian(rosenbrock))(x).avals
        if len(shape := aval.shape) == 2 and shape[1] == 49
    }
    assert batches == {3}


def forward_rule(x: Any) -> Any:
    @ft.custom_jvp
    def f(x: Any) -> Any:
        return x * 2.0

    f.defjvp(lambda primals, tangents: (f(*primals), np.roll(tangents[0], 1) * 3.0))
    return f(x)


def reverse_rule(x: Any) -> Any:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return x * 2.0

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (np.roll(ct, 1) * 3.0,))
    return f(x)


@pytest.mark.parametrize(
    "wrapped", [lambda f: f, ft.jit, ft.checkpoint], ids=["plain", "jit", "checkpoint"]
)
@pytest.mark.parametrize(
    ("jac", "rule"),
    [(ft.jacfwd, forward_rule), (ft.jacrev, forward_rule), (ft.jacrev, reverse_rule)],
)
def test_custom_rules_determine_the_sparsity_pattern(jac: Any, rule: Any, wrapped: Any) -> None:
    x = bands(20)
    found = jac(wrapped(lambda x: np.sin(rule(x)) * x))(x)
    # Row k of sin(y) * x, where y[k] moves with x[k - 1], or x[k + 1] as the cotangent goes the
    # other way.
    expected = np.diag(np.sin(2.0 * x))
    for k in range(20):
        expected[k, (k - 1 if rule is forward_rule else k + 1) % 20] += (
            3.0 * np.cos(2.0 * x[k]) * x[k]
        )
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.sampled(19)
@pytest.mark.parametrize("module", MODULES)
def test_rows_are_pullbacks_of_unit_vectors(module: str) -> None:
    for name, f, args in small_cases(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                out, pullback = ft.vjp(f, *args)
                if not all(np.asarray(leaf).dtype == np.float64 for leaf in ft.tree.leaves(out)):
                    continue
                flat, treedef = ft.tree.flatten(out)
                rows = []
                for k, leaf in enumerate(flat):
                    for place in range(np.size(leaf)):
                        units = [np.zeros_like(other) for other in flat]
                        units[k] = np.asarray(units[k])
                        units[k].flat[place] = 1.0
                        rows.append(
                            np.concatenate(
                                [np.ravel(ct) for ct in pullback(ft.tree.unflatten(treedef, units))]
                            )
                        )
                with always_sought(True):
                    found = ft.tree.leaves(ft.jacrev(f, argnums=tuple(range(len(args))))(*args))
            except FunctraceError:  # has no reverse derivative, or reads concrete values
                continue
        given = iter(found)
        made = [
            np.hstack([np.reshape(next(given), (np.size(leaf), a.size)) for a in args])
            for leaf in flat
        ]
        for row, expected in zip([row for block in made for row in block], rows, strict=True):
            finite = np.isfinite(expected)
            np.testing.assert_allclose(
                row[finite], expected[finite], rtol=1e-12, atol=1e-14, err_msg=name
            )


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: np.tanh(x) * x, 1),
        (lambda x: x[:-2] * x[1:-1] ** 2 - np.sin(x[2:]), 3),
        (np.cumsum, 50),
    ],
)
def test_a_banded_jacobian_takes_as_many_cotangents_as_it_has_bands(f: Any, count: int) -> None:
    x = bands(50)
    program = ft.trace(ft.jacrev(f))(x)
    assert {
        aval.shape[0]
        for aval in program.avals
        if len(aval.shape) == 2 and aval.shape != (len(f(x)), 50)
    } <= {count}
    np.testing.assert_array_equal(ft.evaluate(program, x), ft.jacfwd(f)(x))


def test_elements_outside_the_pattern_are_zero() -> None:
    x = np.linspace(0.0, 1.0, 20)  # the root has an infinite derivative at 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f in (np.sqrt, lambda x: np.sqrt(x[:-1]) * x[1:], lambda x: np.log(x) * 0.0):
            found = ft.jacrev(f)(x)
            assert not np.isfinite(found[0, 0])
            assert not found[0, 2:].any()
            assert np.isfinite(found[1:, 1:]).all()


def test_small_empty_and_complex_results_are_pulled_one_by_one() -> None:
    assert ft.jacrev(lambda x: x[:0])(bands(20)).shape == (0, 20)
    assert ft.jacrev(lambda x: x * 2.0)(np.zeros(0)).shape == (0, 0)
    z = bands(20) * (1 + 2j)
    np.testing.assert_array_equal(ft.jacrev(lambda z: z**2, holomorphic=True)(z), np.diag(2 * z))
    np.testing.assert_array_equal(
        ft.jacrev(lambda z: np.real(z * 2.0))(z), np.diag(np.full(20, 2 + 0j))
    )
    with pytest.raises(ft.errors.DtypeError):
        ft.jacrev(lambda x: np.floor(x).astype(int))(bands(20))


def test_results_of_several_types() -> None:
    def f(x: Any, y: Any) -> Any:
        return [x * y, (x.astype(np.float32) * 3, {"c": y[0] * 2.0})]

    x, y = bands(20), bands(20).astype(np.float32)
    for found, expected in jacobians(ft.jacrev, f, (x, y)):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("jac", [ft.jacfwd, ft.jacrev])
def test_under_other_transforms(jac: Any) -> None:
    f = FUNCTIONS["neighbours"]
    x = bands(20)
    for of in (
        lambda x: ft.grad(lambda x: np.sum(jac(f)(x) ** 2))(x),
        lambda x: ft.vmap(jac(f))(np.stack([x, 2 * x])),
        lambda x: ft.jvp(ft.jit(jac(f)), (x,), (x,))[1],
    ):
        with always_sought(True):
            found = of(x)
        with always_sought(False):
            np.testing.assert_array_equal(found, of(x))


@pytest.mark.parametrize("jac", [ft.jacfwd, ft.jacrev])
def test_auxiliary_data_and_several_arguments(jac: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return x[1:] * y, {"aux": np.sum(x) * y}

    for argnums in (0, 1, (0, 1), (1, 0)):
        made = []
        for found in (True, False):
            with always_sought(found):
                made.append(ft.tree.leaves(jac(f, argnums, has_aux=True)(bands(8), np.arange(7.0))))
        for a, b in zip(*made, strict=True):
            np.testing.assert_array_equal(a, b)


@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(0.0, 0.5))
def test_no_two_of_a_group_reach_the_same_element(seed: int, size: int, density: float) -> None:
    pattern = np.random.default_rng(seed).random((size, size + 3)) < density
    groups = coloured(Pattern.of(pattern.T))
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
    "switch": lambda x: at(
        x, ft.switch(x[2].astype(int), [lambda: np.arange(6), lambda: np.arange(6)[::-1] * 1])
    ),
    "scan": lambda x: at(x, ft.scan(lambda c, _: (c + 1, None), 0, x)[0] - 3),
    "while_loop": lambda x: at(x, ft.while_loop(lambda i: i < x[3], lambda i: i + 1, 0)),
    "beside": lambda x: at(
        x, ft.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * x), (0, x))[0]
    ),
    "argsort": lambda x: at(x, np.argsort(-x)),
    "argmax": lambda x: at(x, np.argmax(x)),
    "count": lambda x: at(np.cumsum(x), np.sum(x > 1.0)),
    "write": lambda x: written_at(x, x.astype(int) % 6),
    "call": lambda x: ft.jit(lambda a, b: at(b, a % 6))(x.astype(int), x),
}


FORWARD_ONLY = ("while_loop", "beside")


@pytest.mark.parametrize(
    ("name", "jac"),
    [
        (name, jac)
        for name in POSITIONS
        for jac in (ft.jacfwd, ft.jacrev)
        if jac is ft.jacfwd or name not in FORWARD_ONLY
    ],
)
def test_positions_that_are_computed_of_the_arguments(name: str, jac: Any) -> None:
    x = np.linspace(0.1, 3.9, 6)
    for found, expected in jacobians(lambda f, argnums: ft.jit(jac(f)), POSITIONS[name], (x,)):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
