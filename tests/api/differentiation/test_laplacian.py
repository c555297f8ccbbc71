"""Laplacians equal sums of second directional derivatives, under every transform and backend."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.control.taylor import laplacian_program, taylor_program
from functrace.errors import DtypeError
from functrace.transforms import is_differentiable
from tests.api.differentiation.test_taylor import FUNCTIONS, square_of
from tests.laws.programs import Recipe, programs, seeds
from tests.oracles import assert_same, outputs_of, random_like

pytest.importorskip("scipy.special")


def expected(f: Any, x: Any) -> list[Any]:
    """Sum of second derivatives along every coordinate, by nested jvps; one array per leaf."""
    total: list[Any] = []
    for k in range(x.size):
        unit = np.zeros(x.size)
        unit[k] = 1.0
        direction = unit.reshape(x.shape)

        def slope(x: Any, direction: Any = direction) -> Any:
            return ft.jvp(f, (x,), (direction,))[1]

        second = ft.tree.leaves(ft.jvp(slope, (x,), (direction,))[1])
        total = second if not total else [a + b for a, b in zip(total, second, strict=True)]
    return total


MORE: dict[str, Any] = {
    "scan of results": lambda x: ft.scan(
        lambda c, y: (c * np.sin(y) + x[0], {"a": c * y, "b": x * c}), 1.0, x**2
    ),
    "scan over matrices": lambda x: ft.scan(
        lambda c, a: (np.tanh(a @ c), np.sum(c)), x[:2] * 1.0, np.reshape(np.outer(x, x), (4, 2, 2))
    ),
    "reversed scan": lambda x: ft.scan(lambda c, y: (c * y, c + y**2), x[1], x, reverse=True)[1],
    "loop of loops": lambda x: ft.fori_loop(
        0, 2, lambda i, u: ft.fori_loop(0, 2, lambda j, v: v * np.cos(u), u), x
    ),
    "while with results": lambda x: ft.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1]) * x, s[2] + s[1][0] * x), (0, x, x)
    ),
    "gradient of a bounded while loop": ft.grad(
        lambda x: np.sum(
            ft.while_loop(
                lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1]) * x), (0, x), max_steps=4
            )[1]
        )
    ),
    "cond per example, several operands": lambda x: ft.vmap(
        lambda y, z: ft.cond(y > 0.5, lambda y, z: y * z * x[0], lambda y, z: z**3 + y, y, z)
    )(x, x[::-1] ** 2),
    "hypot": lambda x: np.hypot(x, x[0]),
    "power of two": lambda x: np.power(x, x[::-1]),
    "stacks of matrices": lambda x: (
        np.reshape(np.outer(x, x), (4, 2, 2)) @ np.reshape(np.sin(np.outer(x, x)), (4, 2, 2))
    ),
    "matrix and vector": lambda x: square_of(x) @ x[:2] + x[2:] @ square_of(x**2),
    "dot": lambda x: np.dot(x, np.sin(x)),
    "einsum of three": lambda x: np.einsum("i,ij,j->i", x, np.outer(x, x), np.exp(x)),
    "correlate": lambda x: np.correlate(x, x**2, "full"),
    "slogdet": lambda x: np.linalg.slogdet(square_of(x) @ square_of(x).T)[1],
    "inverse of a product": lambda x: np.linalg.inv(square_of(x)) @ x[:2],
    "softmax of scores": lambda x: ft.scipy.special.softmax(np.outer(x, x), axis=1) @ x,
    "variance": np.var,
    "logsumexp": lambda x: ft.scipy.special.logsumexp(x),
    "complex": lambda x: np.abs(np.exp(1j * x) * x) ** 2 + np.real(x * np.exp(1j * x[0])),
    "complex result": lambda x: np.exp(1j * x) * x[0],
    "fft": lambda x: np.abs(np.fft.rfft(x**2)) ** 2,
    "integers too": lambda x: {"n": np.argmax(x), "y": x[np.argmax(x)] ** 2},
    "scalar with an array": lambda x: np.sum(x) * np.exp(x) / x[0],
    "mixed dtypes": lambda x: np.sin(x).astype(np.float32) * x,
    "floor": lambda x: np.floor(3 * x) * x**2,
    "maximum": lambda x: np.maximum(x**2, 0.3) * np.where(x > 0.5, x, x**3),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *MORE])
def test_laplacians_are_sums_of_second_derivatives(name: str) -> None:
    f = FUNCTIONS.get(name) or MORE[name]
    x = np.random.default_rng(3).uniform(0.2, 0.8, 4)
    value, found = ft.laplacian(f, has_value=True)(x)
    tolerance = 1e-5 if name == "mixed dtypes" else 1e-9
    for a, b in zip(ft.tree.leaves(found), expected(f, x), strict=True):
        if np.asarray(b).dtype.kind in "fc":  # (a tangent of integers is float0 or zeros)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    for a, b in zip(ft.tree.leaves(value), ft.tree.leaves(f(x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
        assert np.asarray(a).dtype == np.asarray(b).dtype


WEIGHTS = [np.random.default_rng(n).standard_normal((6, n)) / n for n in (2, 6)]


def fields(x: Any) -> Any:
    """A network at each of many points: coordinates of different points are independent."""
    for weights in WEIGHTS:
        x = np.tanh(x @ weights.T)
    return np.sum(x, axis=1)


GROUPED: dict[str, tuple[Any, tuple[int, ...]]] = {
    "separable": (lambda x: np.sum(np.sin(x) * np.exp(x)), (20,)),
    "elementwise": (lambda x: np.sin(x) * x, (4, 5)),
    "neighbours": (lambda x: np.sum(x[1:] * x[:-1] ** 2), (20,)),
    "network at points": (fields, (12, 2)),
    "arrow": (lambda x: np.sum(x[0] * x[1:] ** 3), (24,)),
    "linear": (lambda x: np.sum(3.0 * x), (18,)),
    "dense": (lambda x: np.log(np.sum(np.exp(x))), (17,)),
    "opposite results": (lambda x: (x[0] * x[1:], -x[0] * x[1:]), (20,)),
    "products that cancel": (lambda x: x[0] * x[1] - x[1] * x[0] + np.sum(x**3), (20,)),
    "positions of values": (lambda x: x[np.argsort(x)] * x, (20,)),
    "loop": (lambda x: ft.fori_loop(0, 3, lambda i, u: u * np.cos(x), x), (20,)),
    "while": (
        lambda x: ft.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1]) * x), (0, x)),
        (20,),
    ),
    "branch": (lambda x: ft.cond(x[0] > 0, lambda x: x**3, lambda x: x * x[0], x), (20,)),
}


@pytest.mark.parametrize("name", GROUPED)
def test_independent_coordinates_share_a_direction(name: str) -> None:
    f, shape = GROUPED[name]
    x = np.random.default_rng(5).uniform(0.2, 0.8, shape)
    for g in (ft.laplacian(f), ft.jit(ft.laplacian(f))):
        for a, b in zip(ft.tree.leaves(g(x)), expected(f, x), strict=True):
            if np.asarray(b).dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def largest(f: Any, *shape: int) -> int:
    """Return the number of elements of the largest array of a Laplacian's program."""
    program = ft.trace(ft.laplacian(f))(np.full(shape, 0.5))
    return max(aval.size for aval in program.avals)


def test_directions_are_as_few_as_second_derivatives_allow() -> None:
    assert largest(GROUPED["separable"][0], 200) == 200  # one direction
    assert largest(GROUPED["neighbours"][0], 200) == 2 * 199
    assert largest(fields, 100, 2) == 2 * 100 * 6  # (2, points, hidden)
    assert largest(GROUPED["arrow"][0], 200) == 2 * 199
    assert largest(GROUPED["dense"][0], 200) == 200**2


@pytest.mark.parametrize("dense", [True, False])
def test_many_coordinates(dense: bool) -> None:
    rng = np.random.default_rng(1)
    mixing = rng.standard_normal((3, 300)) if dense else np.zeros((3, 300))

    def f(p: Any) -> Any:
        x = np.concatenate([p["a"], p["b"]]) if dense else p["a"]
        first = np.sum(np.sin(p["a"]) * p["a"]) + np.sum(p["b"] ** 3)
        return first + np.sum(np.tanh(mixing[:, : x.size] @ x) ** 2) * dense

    p = {"a": rng.uniform(0.2, 0.8, 200), "b": rng.uniform(0.2, 0.8, 100)}
    a, b = p["a"], p["b"]
    expected = np.sum(2 * np.cos(a) - a * np.sin(a)) + np.sum(6 * b)
    if dense:
        t = np.tanh(mixing @ np.concatenate([a, b]))
        curvature = 2 * (1 - t**2) * (1 - 3 * t**2)
        expected += curvature @ np.sum(mixing**2, axis=1)
    np.testing.assert_allclose(ft.laplacian(f)(p), expected, rtol=1e-11)
    assert ft.laplacian(lambda x: np.sum(np.sin(x)))(np.ones(100_000)) < 0  # one direction


def test_second_order_coefficients_have_no_axis_of_directions() -> None:
    weights = np.random.default_rng(0).standard_normal((32, 32))

    def f(x: Any) -> Any:
        return np.sum(np.tanh(weights @ np.tanh(weights @ x)))

    program = ft.trace(ft.laplacian(f))(np.ones(32))
    products = [
        program.avals[k].shape for k, _ in program.schedule if program.ops[k][0].name == "matmul"
    ]
    assert sorted(products) == [(32,)] * 3 + [(32, 32)]  # the first Jacobian is the matrix itself


TRANSFORMED = {
    "network": lambda x: np.sum(np.tanh(np.reshape(np.arange(12.0), (3, 4)) @ x * 0.1) ** 2),
    "determinant": lambda x: np.linalg.slogdet(square_of(x))[1],
    "loop": lambda x: ft.scan(lambda c, y: (np.sin(c) * y, c * y), x[0], x)[0],
    "ratio": lambda x: x[0] * x[1] / (1.0 + np.sum(x**2)) + np.arctan2(x[2], x[3]),
}
BACKENDS = ["numpy", "native", "xla"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_under_other_transforms(name: str, backend: Any) -> None:
    pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
    f, x = TRANSFORMED[name], np.linspace(0.2, 0.8, 4)
    g = ft.laplacian(f)

    def trace(x: Any) -> Any:
        return np.trace(ft.hessian(f)(x))

    batch = np.stack([x, 0.9 * x, x[::-1]])
    close: Any = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(ft.jit(g, backend=backend)(x), trace(x), **close)
    rows = np.array([trace(row) for row in batch])
    np.testing.assert_allclose(ft.jit(ft.vmap(g), backend=backend)(batch), rows, **close)
    slope = ft.jit(ft.grad(g), backend=backend)(x)
    np.testing.assert_allclose(slope, ft.grad(trace)(x), **close)
    step = 1e-5 * np.cos(np.arange(4.0))
    difference = (g(x + step) - g(x - step)) / 2
    np.testing.assert_allclose(slope @ step, difference, rtol=1e-6, atol=1e-12)
    _, tangent = ft.jvp(ft.vmap(g), (batch,), (np.ones_like(batch),))
    np.testing.assert_allclose(tangent, [np.sum(ft.grad(trace)(row)) for row in batch], **close)
    both = ft.jit(ft.laplacian(g), backend=backend)(x)
    np.testing.assert_allclose(both, np.trace(ft.hessian(trace)(x)), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ft.checkpoint(g)(x), trace(x), **close)


def test_dtypes() -> None:
    x = np.linspace(0.2, 0.8, 5, dtype=np.float32)
    value, found = ft.laplacian(lambda x: np.sum(np.sin(x) * x[0]), has_value=True)(x)
    assert value.dtype == found.dtype == np.float32
    wide = ft.laplacian(lambda x: np.sum(np.sin(x) * x[0]))(x.astype(np.float64))
    np.testing.assert_allclose(found, wide, rtol=1e-5)
    with pytest.raises(DtypeError, match="complex"):
        ft.laplacian(np.sum)(np.ones(3, complex))


def test_pytrees_and_no_elements() -> None:
    def f(p: Any) -> Any:
        return np.sum(p["a"] ** 2 * p["b"])

    p = {"a": np.arange(1.0, 4.0), "b": 2.0, "c": np.zeros(0)}
    np.testing.assert_allclose(ft.laplacian(f)(p), 12.0)
    assert ft.laplacian(np.sum)(np.zeros(0)) == 0.0


@given(st.integers(0, 10**6))
def test_quadratic_forms_have_the_trace_of_their_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    matrix = rng.standard_normal((n, n)) * (rng.random((n, n)) < rng.random())
    found = ft.laplacian(lambda x: x @ (matrix @ x))(rng.standard_normal(n))
    np.testing.assert_allclose(found, 2 * np.trace(matrix), rtol=1e-11, atol=1e-11)
    rows, columns = np.nonzero(matrix)  # the same as a sum over the elements that are not zero
    data = matrix[rows, columns]
    sparse = ft.laplacian(lambda x: np.sum(data * x[rows] * x[columns]))
    np.testing.assert_allclose(
        sparse(rng.standard_normal(n)), 2 * np.trace(matrix), rtol=1e-11, atol=1e-11
    )


@given(programs(), seeds())
def test_random_programs(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    rng = np.random.default_rng(seed)
    program = ft.trace(recipe)(*arguments).check()
    flags = [is_differentiable(program.avals[i]) for i in program.input_ids]
    moving = [x for x, flag in zip(arguments, flags, strict=True) if flag]
    directions = [[random_like(rng, x) for _ in range(3)] for x in moving]
    made = laplacian_program(program, 3, flags).check()
    found = outputs_of(ft.evaluate(made, *arguments, *map(np.stack, directions)))
    along = taylor_program(program, 2, flags, None, [(True, False)] * len(moving))
    count = len(program.output_ids)
    assert len(found) == 2 * count
    results = [
        outputs_of(ft.evaluate(along, *arguments, *[d[k] for d in directions])) for k in range(3)
    ]
    for n in range(count):
        assert_same(found[n], results[0][n], rtol=1e-12, atol=1e-12)
        total = sum([r[count + 2 * n + 1] for r in results])
        assert_same(found[count + n], total, rtol=1e-8, atol=1e-8)
