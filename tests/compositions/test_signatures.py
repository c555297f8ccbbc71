"""Edge cases of options and pytree arguments of every transform: their meaning, or the error that
they raise.

Expected values are literals, or come from differences. ``tests/peers/test_jax_signatures.py``
compares with JAX.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import functrace as ft
from functrace.errors import (
    ArgumentError,
    ConcretizationError,
    DtypeError,
    NotDifferentiableError,
    ShapeError,
    TreeError,
)
from functrace.tree import leaves
from tests.oracles import assert_same

X, Y = np.array([1.0, 2.0]), np.array([0.5, -3.0])
Z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
N = np.array([3, 4])


def same(found: Any, expected: Any) -> None:
    assert optree.tree_structure(found) == optree.tree_structure(expected)
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        if isinstance(b, str):
            assert a == b
        else:
            assert isinstance(a, np.ndarray | np.generic | int)
            assert_same(a, b, rtol=1e-12, atol=1e-14)


# -- argnums ---------------------------------------------------------------------------------------

SINGLE = {"grad": ft.grad, "jacfwd": ft.jacfwd, "jacrev": ft.jacrev, "hessian": ft.hessian}
single = pytest.mark.parametrize("transform", SINGLE.values(), ids=SINGLE)


@single
@pytest.mark.parametrize("argnums", [(0, 0), (0, -2), (1, -1), [1, 0, 1]])
def test_an_argument_has_one_derivative(transform: Any, argnums: Any) -> None:
    with pytest.raises(ArgumentError, match="names an argument twice"):
        transform(lambda x, y: np.sum(x * y), argnums)(X, Y)


@single
@pytest.mark.parametrize("argnums", ["0", 0.0, None, (0, "1"), {0: 1}, np.array([0, 1])])
def test_argnums_are_positions(transform: Any, argnums: Any) -> None:
    with pytest.raises(ArgumentError, match="argnums"):
        transform(lambda x, y: np.sum(x * y), argnums)(X, Y)


def test_argnums_of_every_kind() -> None:
    f = lambda x, y: np.sum(x * x * y)
    by_x, by_y = 2 * X * Y, X * X
    for argnums in (0, -2, np.int64(0)):
        same(ft.grad(f, argnums)(X, Y), by_x)
        same(ft.jacrev(f, argnums)(X, Y), by_x)
        same(ft.jacfwd(f, argnums)(X, Y), by_x)
    for argnums in ((1, 0), [1, 0], (-1, -2), range(1, -1, -1)):
        same(ft.grad(f, argnums)(X, Y), (by_y, by_x))
        same(ft.jacrev(f, argnums)(X, Y), (by_y, by_x))
        same(ft.jacfwd(f, argnums)(X, Y), (by_y, by_x))
    same(ft.grad(f, ())(X, Y), ())
    same(ft.jacrev(f, ())(X, Y), ())
    same(ft.jacfwd(f, ())(X, Y), ())
    same(ft.grad(f, (0,))(X, Y), (by_x,))


# -- has_aux ---------------------------------------------------------------------------------------


def with_aux(x: Any) -> Any:
    """A result, and aux of everything that a leaf can be."""
    return np.sum(x**3), {
        "word": "text",
        "none": None,
        "input": x,
        "made": x * 2.0,
        "number": 3,
        "array": N,
        "element": x[0],
    }


AUX = {
    "word": "text",
    "none": None,
    "input": X,
    "made": 2.0 * X,
    "number": 3,
    "array": N,
    "element": np.float64(1.0),
}
WITH_AUX: dict[str, Any] = {
    "grad": lambda f: ft.grad(f, has_aux=True)(X)[-1],
    "value_and_grad": lambda f: ft.value_and_grad(f, has_aux=True)(X)[0][-1],
    "vjp": lambda f: ft.vjp(f, X, has_aux=True)[-1],
    "jvp": lambda f: ft.jvp(f, (X,), (Y,), has_aux=True)[-1],
    "linearize": lambda f: ft.linearize(f, X, has_aux=True)[-1],
    "jacfwd": lambda f: ft.jacfwd(f, has_aux=True)(X)[-1],
    "jacrev": lambda f: ft.jacrev(f, has_aux=True)(X)[-1],
    "hessian": lambda f: ft.hessian(f, has_aux=True)(X)[-1],
    "jacrev of jacfwd": lambda f: ft.jacrev(ft.jacfwd(f, has_aux=True), has_aux=True)(X)[-1],
    "jacfwd of grad": lambda f: ft.jacfwd(ft.grad(f, has_aux=True), has_aux=True)(X)[-1],
    "vjp of jvp": lambda f: ft.vjp(
        lambda x: ft.jvp(f, (x,), (Y,), has_aux=True)[1:], X, has_aux=True
    )[-1],
    "jvp of vjp": lambda f: ft.jvp(
        lambda x: ft.vjp(f, x, has_aux=True)[::2], (X,), (Y,), has_aux=True
    )[-1],
    "linearize of linearize": lambda f: ft.linearize(
        lambda x: ft.linearize(f, x, has_aux=True)[::2], X, has_aux=True
    )[-1],
}
auxiliary = pytest.mark.parametrize("aux_of", WITH_AUX.values(), ids=WITH_AUX)


@auxiliary
def test_aux_contains_no_leaked_tracers(aux_of: Any) -> None:
    for _ in range(2):
        found = aux_of(with_aux)
        same(found, AUX)
        same(np.sin(found["made"]), np.sin(2.0 * X))


@auxiliary
def test_aux_of_outer_values(aux_of: Any) -> None:
    """Tracers of an outer transform in aux stay differentiable by that transform."""

    def outer(s: Any) -> Any:
        aux = aux_of(lambda x: (np.sum(x * s), (s, s * 2.0, x * s, "text")))
        return np.sum(aux[0] + aux[1] ** 2 + np.sin(aux[2])), aux

    gradient, aux = ft.grad(outer, has_aux=True)(3.0)
    same(aux, (np.float64(3.0), np.float64(6.0), 3.0 * X, "text"))
    same(gradient, np.float64(2.0 * (1.0 + 8.0 * 3.0) + np.sum(np.cos(3.0 * X) * X)))


@auxiliary
def test_aux_of_abstract_size_raises(aux_of: Any) -> None:
    def jitted(v: Any) -> Any:
        return aux_of(lambda x: (np.sum(x * v), (x * v)[v > 0.0]))

    with pytest.raises(ConcretizationError):
        ft.jit(jitted)(X)


@auxiliary
@pytest.mark.parametrize(
    "result",
    [lambda x: np.sum(x), lambda x: (np.sum(x),), lambda x: [np.sum(x), 1], lambda x: None],
)
def test_aux_without_a_pair_raises(aux_of: Any, result: Any) -> None:
    with pytest.raises(ArgumentError, match="pair"):
        aux_of(result)


def test_operations_only_for_aux_are_not_differentiated() -> None:
    @ft.custom_vjp
    def opaque(x: Any) -> Any:
        return x * 2.0

    def refused(*_: Any) -> Any:
        raise AssertionError("differentiated")

    opaque.defvjp(refused, refused)
    f = lambda x: (np.sum(x * x), (opaque(x), np.exp(x)))
    for aux_of in (
        WITH_AUX[name]
        for name in ("grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev")
    ):
        same(aux_of(f), (2.0 * X, np.exp(X)))
    (_, linear) = ft.transforms.linearize_program(ft.trace(f)(X), None, 1)
    assert len(linear.check().output_ids) == 1
    assert len(linear.input_ids) == 2, "x and its tangent: no residual of aux"


# -- complex ---------------------------------------------------------------------------------------


@single
@pytest.mark.parametrize(
    "f", [lambda z: np.sum(np.real(z)), lambda z: 1.0, lambda z: np.sum(np.abs(z)), lambda z: 2]
)
def test_holomorphic_functions_have_complex_results(transform: Any, f: Any) -> None:
    with pytest.raises(DtypeError, match="holomorphic=True needs complex results"):
        transform(f, holomorphic=True)(Z)


@single
def test_holomorphic_functions_have_complex_arguments(transform: Any) -> None:
    with pytest.raises(DtypeError, match="holomorphic=True needs complex arguments"):
        transform(lambda z: np.sum(z * 1j), holomorphic=True)(X)


def test_jacobians_between_real_and_complex() -> None:
    same(ft.jacfwd(lambda x: x * (1.0 + 2.0j))(X), np.diag([1.0 + 2.0j] * 2))
    same(ft.jacrev(lambda z: np.real(z * z))(Z), np.diag(2.0 * Z))
    same(ft.jacrev(lambda z: np.imag(z))(Z), np.diag([-1.0j] * 2))
    same(ft.grad(lambda z: np.imag(z[0]))(Z), np.array([-1.0j, 0.0]))
    for holomorphic in (ft.jacfwd, ft.jacrev):
        same(holomorphic(lambda z: z**3, holomorphic=True)(Z), np.diag(3.0 * Z**2))
        with pytest.raises(DtypeError, match="c128"):
            holomorphic(lambda z: z * z)(Z)
    with pytest.raises(DtypeError, match=r"returned c128\[2\]"):
        ft.jacrev(lambda x: x * 1j)(X)
    with pytest.raises(DtypeError, match=r"args\[0\] is c128\[2\]"):
        ft.jacfwd(np.real)(Z)
    same(ft.hessian(lambda z: np.sum(z**3), holomorphic=True)(Z), np.diag(6.0 * Z))


# -- integers --------------------------------------------------------------------------------------

FLOAT0 = np.zeros(2, np.dtype([("float0", "V")]))
PUSHED: dict[str, Any] = {
    "jvp": lambda f, primals, tangents: ft.jvp(f, primals, tangents)[1],
    "linearize": lambda f, primals, tangents: ft.linearize(f, *primals)[1](*tangents),
    "jvp of jvp": lambda f, primals, tangents: ft.jvp(
        lambda *xs: ft.jvp(f, xs, tangents)[0], primals, tangents
    )[1],
    "in jit": lambda f, primals, tangents: ft.jit(
        lambda x: ft.jvp(f, (x, primals[1]), tangents)[1]
    )(primals[0]),
}
pushed = pytest.mark.parametrize("push", PUSHED.values(), ids=PUSHED)


@pushed
@pytest.mark.parametrize(
    "zero", [None, 0 * N, 0.0 * N, FLOAT0, N > 9], ids=["None", "int", "float", "float0", "bool"]
)
def test_integers_do_not_change(push: Any, zero: Any) -> None:
    same(push(lambda x, n: x * n, (X, N), (Y, zero)), Y * N)


@pushed
@pytest.mark.parametrize(
    "change", [N, 1.0 * N, np.array([0, 1]), N > 3], ids=["int", "float", "one", "bool"]
)
def test_tangents_of_integers_that_are_not_zero_raise(push: Any, change: Any) -> None:
    with pytest.raises(DtypeError, match="integers and bools have no derivative"):
        push(lambda x, n: x * n, (X, N), (Y, change))


def test_traced_tangents_of_integers_raise() -> None:
    with pytest.raises(DtypeError, match="not known to be zero"):
        ft.vmap(lambda n: ft.jvp(lambda x, n: x * n, (1.0, 2), (1.0, n)))(N)
    same(ft.vmap(lambda n: ft.jvp(lambda x, n: x * n, (2.0, n), (1.0, None))[1])(N), 1.0 * N)
    with pytest.raises(DtypeError, match="integers and bools have no derivative"):
        ft.hvp(lambda x, n: np.sum(x**3 * n), (X, N), (Y, N))


def test_integer_results_have_zeros_and_take_any_cotangent() -> None:
    f = lambda x: (x * 2.0, np.argmax(x))
    same(ft.jvp(f, (X,), (Y,))[1], (2.0 * Y, np.int64(0)))
    _, pullback = ft.vjp(f, X)
    for ct in (None, 0, 1, 1.5, FLOAT0[:1].reshape(())):
        same(pullback((Y, ct)), (2.0 * Y,))
    same(ft.jacfwd(f)(X)[1], np.zeros(2, int))
    with pytest.raises(DtypeError, match="carries no derivative"):
        ft.jacrev(f)(X)
    with pytest.raises(ShapeError):
        pullback((Y, N))


def test_integer_arguments_have_no_cotangent() -> None:
    same(ft.vjp(lambda x, n: x * n, X, N)[1](Y), (Y * N, None))
    same(ft.vjp(lambda n: n * 2, N)[1](N), (None,))


# -- pytrees ---------------------------------------------------------------------------------------


def test_none_within_tangents_and_cotangents_stands_for_zeros() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"a": p["w"] * x, "b": [p["b"] * 2.0, (x, p["w"])]}

    p = {"w": X, "b": 3.0}
    zero, zeros = np.float64(0.0), np.zeros(2)
    push = ft.linearize(f, p, X)[1]
    for tangents in (({"w": Y, "b": None}, None), ({"w": Y, "b": 0.0}, zeros)):
        for found in (ft.jvp(f, (p, X), tangents)[1], push(*tangents)):
            same(found, {"a": Y * X, "b": [zero, (zeros, Y)]})
    same(push(None, Y), {"a": X * Y, "b": [zero, (Y, zeros)]})
    same(push(None, None), {"a": zeros, "b": [zero, (zeros, zeros)]})
    _, pullback = ft.vjp(f, p, X)
    expected = ({"w": X * Y, "b": zero}, X * Y)
    same(pullback({"a": Y, "b": None}), expected)
    same(pullback({"a": Y, "b": [None, None]}), expected)
    same(pullback({"a": Y, "b": [0.0, (None, zeros)]}), expected)
    same(pullback({"a": None, "b": None}), ({"w": zeros, "b": zero}, zeros))
    (mapped,) = ft.vmap(lambda ct: (pullback({"a": ct, "b": None})[1],))(np.stack([Y, X]))
    same(mapped, np.stack([X * Y, X * X]))


@pytest.mark.parametrize(
    "ct",
    [
        None,
        {"a": Y},
        {"a": Y, "b": None, "c": None},
        {"a": None, "b": (None, None)},
        [Y, None],
        {"a": [Y], "b": None},
        Y,
    ],
)
def test_other_structures_of_cotangents_raise(ct: Any) -> None:
    _, pullback = ft.vjp(lambda x: {"a": x * 2.0, "b": [x[0], x]}, X)
    with pytest.raises(TreeError, match="cotangents have the structure"):
        pullback(ct)


def test_other_structures_of_tangents_raise() -> None:
    for tangents in ((), (X,), (X, Y, None), (X, (Y,)), ([X], Y)):
        with pytest.raises(TreeError, match="tangents have the structure"):
            ft.jvp(np.multiply, (X, Y), tangents)
        with pytest.raises(TreeError, match="tangents have the structure"):
            ft.linearize(np.multiply, X, Y)[1](*tangents)


class Pair(NamedTuple):
    first: Any
    second: Any


@optree.dataclasses.dataclass(namespace=vars(optree.registry)["__GLOBAL_NAMESPACE"])
class Weights:
    w: Any
    b: Any
    name: str = optree.dataclasses.field(pytree_node=False, default="layer")


NESTS: dict[str, Any] = {
    "dict": {"b": X, "a": Y},
    "ordered dict": OrderedDict([("b", X), ("a", Y)]),
    "namedtuple": Pair(X, Y),
    "list": [X, Y],
    "nest": {"p": Pair(X, [Y, None]), "q": ({}, ())},
    "dataclass": Weights(X, Y),
    "scalars": (1.0, {"n": np.float64(2.0)}),
    "empty": {"a": [], "b": None},
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_pytree_structures_are_preserved(nest: Any) -> None:
    def f(p: Any) -> Any:
        return sum((np.sum(np.sin(x)) for x in leaves(p)), np.float64(0.0))

    expected = optree.tree_map(np.cos, nest)
    same(ft.grad(f)(nest), expected)
    same(ft.vjp(f, nest)[1](1.0)[0], expected)
    same(ft.jit(ft.grad(f))(nest), expected)
    same(ft.jacrev(f)(nest), expected)
    same(ft.jacfwd(f)(nest), expected)
    mapped = ft.tree.map(np.sin, nest)
    same(ft.jvp(lambda p: ft.tree.map(np.sin, p), (nest,), (nest,))[0], mapped)
    same(ft.checkpoint(lambda p: ft.tree.map(np.sin, p))(nest), mapped)
    diagonal = ft.jacrev(lambda p: ft.tree.map(np.sin, p))(nest)
    assert optree.tree_structure(ft.tree.map(lambda _: nest, nest)) == optree.tree_structure(
        diagonal
    )


def test_nothing_at_all() -> None:
    same(ft.jvp(lambda: 2.0, (), ()), (np.float64(2.0), np.float64(0.0)))
    y, pullback = ft.vjp(lambda: np.ones(2))
    same((y, pullback(X)), (np.ones(2), ()))
    y, push = ft.linearize(lambda: (X, None))
    same((y, push()), ((X, None), (np.zeros(2), None)))
    same(ft.jvp(lambda x: (), (X,), (Y,)), ((), ()))
    same(ft.vjp(lambda x: None, X)[1](None), (np.zeros(2),))
    same(ft.jacrev(lambda x: {})(X), {})
    same(ft.jacfwd(lambda x: {})(X), {})
    same(ft.grad(lambda p, x: np.sum(x))({}, X), {})
    same(ft.hessian(lambda p, x: np.sum(x))([], X), [])
    for transform in (ft.grad, ft.jacfwd, ft.jacrev, ft.hessian):
        with pytest.raises(ArgumentError, match="0 positional arguments"):
            transform(lambda: 1.0)()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_arrays_without_elements(shape: Any) -> None:
    empty = np.zeros(shape)
    same(ft.grad(lambda x: np.sum(x * 2.0))(empty), empty)
    same(ft.jvp(np.sin, (empty,), (empty,)), (empty, empty))
    same(ft.jacrev(np.sin)(empty), np.zeros(shape + shape))
    same(ft.jacfwd(np.sin)(empty), np.zeros(shape + shape))
    same(ft.jacfwd(lambda x: np.sum(x))(empty), empty)
    same(ft.hessian(lambda x: np.sum(x**2))(empty), np.zeros(shape + shape))
    same(ft.vmap(np.sin)(empty), np.sin(empty))
    same(ft.vmap(ft.grad(lambda x: np.sum(x**2)))(np.zeros((0, 2))), np.zeros((0, 2)))
    same(ft.scan(lambda c, x: (c + x, c), 1.0, np.zeros(0)), (np.float64(1.0), np.zeros(0)))


def test_results_that_do_not_depend_on_anything() -> None:
    f = lambda x: (1, 2.5, 3j, True, x, X, None, np.float32(1.0))
    values = (
        np.int64(1),
        np.float64(2.5),
        np.complex128(3j),
        np.True_,
        X,
        X,
        None,
        np.float32(1.0),
    )
    zeros = (
        np.int64(0),
        np.float64(0.0),
        np.complex128(0.0),
        np.False_,
        Y,
        np.zeros(2),
        None,
        np.float32(0.0),
    )
    same(ft.jvp(f, (X,), (Y,)), (values, zeros))
    same(ft.linearize(f, X)[1](Y), zeros)
    y, pullback = ft.vjp(f, X)
    same(y, values)
    same(pullback((None, 1.0, 1.0, None, Y, Y, None, 1.0)), (Y,))
    found = ft.jvp(f, (X,), (Y,))[0]
    assert found[4] is not X and not np.shares_memory(found[4], X), "results are fresh arrays"
    assert not np.shares_memory(found[5], X)
    same(ft.grad(lambda x: 3.0)(X), np.zeros(2))
    same(ft.grad(lambda x: x)(2.0), np.float64(1.0))


# -- linear_transpose ------------------------------------------------------------------------------

LINEAR: dict[str, Any] = {
    "scaled": lambda x: 3.0 * x,
    "sum and differences": lambda x: (np.sum(x), np.diff(x), x[::-1]),
    "where": lambda x: np.where(np.array([True, False]), x, 0.0),
    "padded": lambda x: np.pad(x, 1),
    "embedded": lambda x: np.concatenate([x, np.zeros(2), -x]),
    "matmul": lambda x: np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]) @ x,
    "jitted": ft.jit(lambda x: 2.0 * x - np.mean(x)),
    "scan": lambda x: ft.scan(lambda c, v: (c + v, c - v), 0.0, x),
    "cond": lambda x: ft.cond(True, lambda x: 2.0 * x, lambda x: -x, x),
    "infinite": lambda x: x * np.array([np.inf, 1.0]),
    "nothing": lambda x: (),
}
AFFINE: dict[str, Any] = {
    "x + 1": lambda x: x + 1.0,
    "1 - x": lambda x: 1.0 - x,
    "constant": lambda x: np.ones(2),
    "second result": lambda x: (x, x - 2.0),
    "where": lambda x: np.where(np.array([True, False]), x, 1.0),
    "concatenated": lambda x: np.concatenate([x, np.ones(1)]),
    "set": lambda x: x.at[0].set(5.0),
    "jitted": ft.jit(lambda x: x + 1.0),
    "scan": lambda x: ft.scan(lambda c, v: (c + v, c), 1.0, x),
    "cond": lambda x: ft.cond(True, lambda x: x + 1.0, lambda x: x, x),
}


@pytest.mark.parametrize("f", LINEAR.values(), ids=LINEAR)
def test_transpose_is_the_pullback_of_a_linear_function(f: Any) -> None:
    y, pullback = ft.vjp(f, X)
    bars = ft.tree.map(lambda v: np.cos(np.arange(np.size(v)) + 1.0).reshape(np.shape(v))[()], y)
    same(ft.linear_transpose(f, X)(bars), pullback(bars))


@pytest.mark.parametrize("f", AFFINE.values(), ids=AFFINE)
def test_affine_functions_have_no_transpose(f: Any) -> None:
    with pytest.raises(NotDifferentiableError, match="not linear: at zero it is"):
        ft.linear_transpose(f, X)


@pytest.mark.parametrize("around", [lambda f: f(X), lambda f: ft.grad(f)(X),
lambda f: ft.vmap(f)(np.stack([X, Y])),
                                    lambda f: ft.jit(f)(X)], ids=["plain", "grad", "vmap",
                                    "jit"])  # fmt: skip
def test_affine_functions_of_outer_values(around: Any) -> None:
    scaled = lambda a: np.sum(ft.linear_transpose(lambda x: x * a, X)(Y)[0])
    around(scaled)
    inverse = lambda a: np.linalg.inv(np.outer(a, a) + np.eye(2))
    around(lambda a: np.sum(ft.linear_transpose(lambda x: np.linalg.solve(inverse(a), x), X)(Y)[0]))
    for affine in (
        lambda x, a: x + a,
        lambda x, a: np.concatenate([x, a]),
        ft.jit(lambda x, a: x - np.sum(a)),
    ):
        with pytest.raises(NotDifferentiableError, match="not linear: at zero it is"):
            around(lambda a, g=affine: np.sum(ft.linear_transpose(lambda x: g(x, a), X)(Y)[0]))


def test_abstract_integers_may_be_indices_but_not_summands() -> None:
    transposed = ft.vmap(lambda n: ft.linear_transpose(lambda x: x[n] * 2.0, X)(1.0)[0])
    same(transposed(np.array([0, 1])), 2.0 * np.eye(2))
    with pytest.raises(NotDifferentiableError, match="not linear: at zero it is"):
        ft.vmap(lambda n: ft.linear_transpose(lambda x: x + n, X)(X)[0])(N)


def test_linear_transpose_of_other_kinds_of_numbers() -> None:
    same(ft.linear_transpose(lambda z: z * (1.0 + 2.0j), Z)(Z), (Z * (1.0 + 2.0j),))
    same(ft.linear_transpose(np.conj, Z)(Z), (np.conj(Z),))
    same(ft.linear_transpose(np.real, Z)(X), (X + 0.0j,))
    same(ft.linear_transpose(lambda x: x * 1j, X)(Z), (np.real(Z * 1j),))
    same(ft.linear_transpose(lambda n: 2 * n, N)(N), (2 * N,))
    with pytest.raises(DtypeError, match="cotangents are f64"):
        ft.linear_transpose(lambda n: 2 * n, N)(X)
    same(ft.linear_transpose(lambda x: (x, 2.0 * x), ft.ShapeDtype((2,)))((Y, None)), (Y,))


# -- what a function can be ------------------------------------------------------------------------


class Model:
    """A function with a state."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, x: Any, power: int = 2) -> Any:
        return np.sum(self.scale * x**power)

    def method(self, x: Any, *, shift: float = 0.0) -> Any:
        return np.sum(self.scale * (x + shift) ** 2)

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return np.sum(2.0 * x**2)

    @staticmethod
    def static(x: Any) -> Any:
        return np.sum(2.0 * x**2)


MODEL = Model(2.0)
CALLABLES: dict[str, Any] = {
    "callable object": MODEL,
    "bound method": MODEL.method,
    "class method": Model.of_class,
    "static method": Model.static,
    "partial": functools.partial(MODEL.method, shift=0.0),
    "partial of positions": functools.partial(lambda s, x: np.sum(s * x**2), 2.0),
    "partial of partial": functools.partial(
        functools.partial(lambda s, x, p: np.sum(s * x**p), 2.0), p=2
    ),
    "generator inside": lambda x: np.sum(np.stack([2.0 * v**2 for v in x])),
    "sum over a generator": lambda x: sum(2.0 * v * v for v in x),
    "jitted": ft.jit(lambda x, p: np.sum(2.0 * x**p), static_argnums=1),
    "default": lambda x, p=2: np.sum(2.0 * x**p),
    "star": lambda *args: np.sum(2.0 * args[0] ** 2),
    "cached": functools.wraps(Model.static)(lambda *args, **kwargs: Model.static(*args, **kwargs)),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_functions_of_every_kind(name: str) -> None:
    f = CALLABLES[name]
    args = (X, 2) if name == "jitted" else (X,)
    same(ft.grad(f)(*args), 4.0 * X)
    same(ft.value_and_grad(f)(*args), (np.float64(10.0), 4.0 * X))
    same(ft.jacrev(f)(*args), 4.0 * X)
    same(ft.jacfwd(f)(*args), 4.0 * X)
    same(ft.hessian(f)(*args), 4.0 * np.eye(2))
    g = f if len(args) == 1 else lambda x: f(x, 2)
    same(ft.jvp(g, (X,), (Y,))[1], np.sum(4.0 * X * Y))
    same(ft.vmap(ft.grad(g))(np.stack([X, Y])), 4.0 * np.stack([X, Y]))
    same(ft.jit(ft.grad(g))(X), 4.0 * X)
    same(ft.grad(ft.checkpoint(g))(X), 4.0 * X)


def test_keyword_arguments_are_passed_and_not_differentiated() -> None:
    same(ft.grad(MODEL)(X, power=3), 6.0 * X**2)
    same(ft.grad(MODEL.method)(X, shift=1.0), 4.0 * (X + 1.0))
    same(ft.jacfwd(MODEL)(X, power=3), 6.0 * X**2)
    same(ft.hessian(MODEL)(X, power=3), np.diag(12.0 * X))
    same(ft.hvp(MODEL, (X,), (Y,), power=3), 12.0 * X * Y)
    same(ft.vjp(MODEL, X, power=3)[1](1.0), (6.0 * X**2,))
    same(ft.jvp(MODEL, (X,), (Y,), power=3)[1], np.sum(6.0 * X**2 * Y))
    same(ft.linearize(MODEL, X, power=3)[1](Y), np.sum(6.0 * X**2 * Y))
    same(ft.elementwise_grad(lambda x, p=2: x**p)(X, p=3), 3.0 * X**2)
    with pytest.raises(ArgumentError, match="keyword arguments are not differentiated"):
        ft.grad(MODEL)(x=X)


NEST = {"w": np.ones((2, 3)), "b": (np.zeros(3), 2.0), "n": 4}
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "shape": (
        NEST | {"b": (np.zeros(2), 1.0)},
        ShapeError,
        r"at \[0\]\['b'\]\[0\] have the shape \[2\] where .* have f64\[3\]",
    ),
    "complex": (
        NEST | {"b": (np.zeros(3), 1j)},
        DtypeError,
        r"at \[0\]\['b'\]\[1\] are c128\[\] where .* are f64",
    ),
    "integer": (NEST | {"n": 1}, DtypeError, r"at \[0\]\['n'\] are not known to be zero"),
    "word": (NEST | {"n": None, "w": "w"}, DtypeError, r"at \[0\]\['w'\] are a str, not an array"),
    "nest": (NEST | {"b": [np.zeros(3), 1.0]}, TreeError, "have the structure"),
    "missing": ({"w": NEST["w"]}, TreeError, "have the structure"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_direction_that_does_not_fit_is_named(name: str) -> None:
    tangents, error, message = WRONG[name]
    f = lambda p: np.sum(p["w"] @ p["b"][0]) * p["b"][1]
    for call in (
        lambda: ft.jvp(f, (NEST,), (tangents,)),
        lambda: ft.linearize(f, NEST)[1](tangents),
    ):
        with pytest.raises(error, match=message):
            call()
    if name not in ("integer", "missing"):
        with pytest.raises(error, match=message.replace(r"\[0\]\[", r"\[", 1)):
            ft.vjp(lambda p: p, NEST)[1](tangents)


def test_number_of_tangents_matches_primals() -> None:
    f = lambda x, y=1.0: x * y
    for primals, tangents in (((1.0, 2.0), (1.0,)), ((1.0,), (1.0, 2.0))):
        with pytest.raises(TreeError, match="tangents have the structure"):
            ft.jvp(f, primals, tangents)
    for given in ((np.ones(2), (1.0,)), ((1.0,), np.ones(1)), ({"x": 1.0}, (1.0,))):
        with pytest.raises(ArgumentError, match="not a tuple with one entry per argument"):
            ft.jvp(f, *given)
