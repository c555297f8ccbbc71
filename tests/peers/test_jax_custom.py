"""Differential tests against JAX in double precision: checkpoint, custom_vjp and custom_jvp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.compositions.ruled_programs import AROUND, HOLDERS, Library, random_program
from tests.compositions.test_custom_programs import ALONG, WAYS, derivative

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
ad_checkpoint = pytest.importorskip("jax.ad_checkpoint")

TOL = {"rtol": 1e-9, "atol": 1e-10}
X = np.array([0.3, -0.7, 1.1])
V = np.array([0.9, 0.2, -0.4])
W = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5], [-0.25, 0.5, 1.0]])
BATCH = np.stack([X, X + 0.15, X[::-1] + 0.05, -X])


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def assert_close(found: Any, expected: Any) -> None:
    found, expected = ft.tree.tree_leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOL)
        assert np.asarray(a).dtype == np.asarray(b).dtype


# Each takes the library (functrace or JAX) and its NumPy, and returns a function of a vector to a
# vector.


def checkpointed(lib: Any, xp: Any) -> Any:
    inner = lib.checkpoint(lambda x: xp.sin(W @ x) * x)
    return lib.checkpoint(lambda x: xp.tanh(inner(xp.cos(x)) * xp.exp(-x * x)))


def checkpoint_in_scan(lib: Any, xp: Any) -> Any:
    scan = ft.scan if lib is ft else jax.lax.scan

    def f(x: Any) -> Any:
        body = lib.checkpoint(lambda c, w: (xp.tanh(w * c + x), xp.sin(c)))
        carry, ys = scan(body, x, xp.asarray(W))
        return carry + xp.sum(ys, 0)

    return f


def custom_vjp_with_residuals(lib: Any, xp: Any) -> Any:
    @lib.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return xp.sin(x) * w

    f.defvjp(
        lambda x, w: (f(x, w), (xp.cos(x), xp.sin(x), w)),
        lambda kept, ct: (3.0 * kept[0] * kept[2] * ct, 2.0 * kept[1] * ct),
    )
    return lambda x: f(x, xp.exp(x)) * x


def custom_vjp_of_nests(lib: Any, xp: Any) -> Any:
    @lib.custom_vjp
    def f(p: Any) -> Any:
        return {"a": p["x"] * p["y"], "b": xp.sum(p["x"])}

    def backward(kept: Any, ct: Any) -> Any:
        x, y = kept
        return ({"x": ct["a"] * y * 2.0 + ct["b"], "y": ct["a"] * x},)

    f.defvjp(lambda p: (f(p), (p["x"], p["y"])), backward)

    def g(x: Any) -> Any:
        made = f({"x": xp.sin(x), "y": x * x})
        return made["a"] + made["b"]

    return g


def custom_vjp_with_static_argument(lib: Any, xp: Any) -> Any:
    @partial(lib.custom_vjp, nondiff_argnums=(0,))
    def power(n: int, x: Any) -> Any:
        return x**n

    power.defvjp(lambda n, x: (x**n, x), lambda n, x, ct: (ct * n * x ** (n - 1) * 1.5,))
    return lambda x: power(3, xp.cos(x))


def custom_vjp_that_is_not_linear(lib: Any, xp: Any) -> Any:
    @lib.custom_vjp
    def clip(x: Any) -> Any:
        return x * 1.0

    clip.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (xp.clip(ct, -0.5, 0.5),))
    return lambda x: clip(xp.sin(x)) * xp.exp(x)


def custom_jvp_with_factor(lib: Any, xp: Any) -> Any:
    @lib.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return xp.sin(x) * y

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (x_dot, y_dot) = primals, tangents
        return f(x, y), 3.0 * xp.cos(x) * x_dot * y + xp.sin(x) * y_dot * 2.0

    return lambda x: f(x, W @ x)


def custom_jvp_per_argument(lib: Any, xp: Any) -> Any:
    @lib.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return xp.log1p(xp.exp(x)) * y

    f.defjvps(lambda t, out, x, y: t * y / (1.0 + xp.exp(-x)), None)
    return lambda x: f(x, xp.cos(x))


REVERSE_ONLY = [
    custom_vjp_with_residuals,
    custom_vjp_of_nests,
    custom_vjp_with_static_argument,
    custom_vjp_that_is_not_linear,
]
BOTH_MODES = [checkpointed, checkpoint_in_scan, custom_jvp_with_factor, custom_jvp_per_argument]


def pulled(lib: Any, f: Any) -> Any:
    y, pullback = lib.vjp(f, X)
    return y, pullback(y * 0.0 + V)


def second(lib: Any, f: Any) -> Any:
    return lib.grad(lambda x: (lib.grad(lambda x: f(x).sum())(x) * V).sum())(X)


REVERSE: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda lib, f: f(X),
    "vjp": pulled,
    "grad": lambda lib, f: lib.grad(lambda x: f(x).sum())(X),
    "jacrev": lambda lib, f: lib.jacrev(f)(X),
    "grad of grad": second,
    "vmap of grad": lambda lib, f: lib.vmap(lib.grad(lambda x: f(x).sum()))(BATCH),
    "grad of vmap": lambda lib, f: lib.grad(lambda b: (lib.vmap(f)(b) ** 2).sum())(BATCH),
    "jit of grad": lambda lib, f: lib.jit(lib.grad(lambda x: f(x).sum()))(X),
    "grad of checkpoint": lambda lib, f: lib.grad(lambda x: lib.checkpoint(f)(x).sum())(X),
}
FORWARD: dict[str, Callable[[Any, Any], Any]] = {
    "jvp": lambda lib, f: lib.jvp(f, (X,), (V,)),
    "linearize": lambda lib, f: lib.linearize(f, X)[1](V),
    "jacfwd": lambda lib, f: lib.jacfwd(f)(X),
    "hessian": lambda lib, f: lib.hessian(lambda x: f(x).sum())(X),
    "vmap of jvp": lambda lib, f: lib.vmap(lambda x: lib.jvp(f, (x,), (V,)))(BATCH),
    "jvp of vmap": lambda lib, f: lib.jvp(lib.vmap(f), (BATCH,), (BATCH[::-1] * 1.0,)),
    "jacfwd of jacrev": lambda lib, f: lib.jacfwd(lib.jacrev(f))(X),
    "jacrev of jacfwd": lambda lib, f: lib.jacrev(lib.jacfwd(f))(X),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transform", REVERSE)
@pytest.mark.parametrize("make", [*BOTH_MODES, *REVERSE_ONLY], ids=lambda f: f.__name__)
def test_reverse_mode(make: Any, transform: str) -> None:
    apply = REVERSE[transform]
    expected = apply(jax, make(jax, jnp))
    for _ in range(2):
        assert_close(apply(ft, make(ft, np)), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transform", FORWARD)
@pytest.mark.parametrize("make", BOTH_MODES, ids=lambda f: f.__name__)
def test_forward_mode(make: Any, transform: str) -> None:
    apply = FORWARD[transform]
    assert_close(apply(ft, make(ft, np)), apply(jax, make(jax, jnp)))


@pytest.mark.parametrize("make", REVERSE_ONLY[:3], ids=lambda f: f.__name__)
def test_forward_mode_of_custom_vjp_that_jax_refuses_is_the_transpose(make: Any) -> None:
    with pytest.raises(TypeError):
        jax.jvp(make(jax, jnp), (X,), (V,))
    jacobian = jax.jacrev(make(jax, jnp))(X)
    np.testing.assert_allclose(ft.jvp(make(ft, np), (X,), (V,))[1], jacobian @ V, **TOL)
    np.testing.assert_allclose(ft.jacfwd(make(ft, np))(X), jacobian, **TOL)


@pytest.mark.parametrize("names", [(), ("a",), ("b",), ("a", "b")])
def test_named_values(names: tuple[str, ...]) -> None:
    def f(lib: Any, xp: Any) -> Any:
        name = ft.checkpoint_name if lib is ft else ad_checkpoint.checkpoint_name

        def run(x: Any) -> Any:
            a = name(xp.sin(W @ x), "a")
            return xp.sum(xp.tanh(name(xp.exp(a), "b") * a))

        return run

    saved = jax.checkpoint_policies.save_only_these_names(*names)
    expected = jax.grad(jax.checkpoint(f(jax, jnp), policy=saved))(X)
    policy = ft.policies.save_names(*names) if names else ft.policies.recompute
    found = ft.checkpoint(f(ft, np), policy=policy)
    assert_close(ft.grad(found)(X), expected)
    assert_close(ft.hessian(found)(X), jax.hessian(f(jax, jnp))(X))


def test_vmap_in_axes_of_custom_rules() -> None:
    for make in (custom_vjp_with_residuals, custom_jvp_with_factor):
        found, expected = make(ft, np), make(jax, jnp)
        for axis in (0, 1):
            batch = BATCH if axis == 0 else BATCH.T
            assert_close(
                ft.grad(lambda b, f=found, a=axis: np.sum(ft.vmap(f, a)(b) ** 2))(batch),
                jax.grad(lambda b, f=expected, a=axis: jnp.sum(jax.vmap(f, a)(b) ** 2))(batch),
            )


# -- custom_vmap, symbolic zeros, parameters by name -----------------------------------------------


def mapped_by_rule(lib: Any, xp: Any) -> Any:
    """A rule that computes something else than the function, so that one sees where it is used."""
    made = ft.custom_vmap if lib is ft else jax.custom_batching.custom_vmap

    @made
    def f(x: Any, p: Any) -> Any:
        return {"a": xp.sin(x) * p["w"], "b": xp.sum(x)}

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any, p: Any) -> Any:
        assert (batched[0], batched[1]["w"]) in ((True, False), (False, True), (True, True))
        w = p["w"] if batched[1]["w"] else p["w"][None]
        a = xp.cos(x if batched[0] else x[None]) * w * (2.0 if batched[0] else 3.0)
        b = xp.sum(x * 5.0, axis=-1)
        return {"a": a, "b": b}, {"a": True, "b": batched[0]}

    return f


MAPS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda lib, f: f(X, {"w": V}),
    "both": lambda lib, f: lib.vmap(f)(BATCH, {"w": BATCH}),
    "first": lambda lib, f: lib.vmap(f, (0, None))(BATCH, {"w": V}),
    "second": lambda lib, f: lib.vmap(f, (None, 0))(X, {"w": BATCH}),
    "jit": lambda lib, f: lib.jit(lib.vmap(f))(BATCH, {"w": BATCH}),
    "of jit": lambda lib, f: lib.vmap(lib.jit(f))(BATCH, {"w": BATCH}),
    "another axis": lambda lib, f: lib.vmap(f, (1, 0))(BATCH.T, {"w": BATCH}),
    "twice": lambda lib, f: lib.vmap(lib.vmap(f), (0, None))(
        np.stack([BATCH, -BATCH]), {"w": BATCH}
    ),
    "jvp of map": lambda lib, f: lib.jvp(
        lambda x: lib.vmap(f)(x, {"w": BATCH}), (BATCH,), (BATCH + 1.0,)
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_custom_vmap(name: str) -> None:
    assert_close(MAPS[name](ft, mapped_by_rule(ft, np)), MAPS[name](jax, mapped_by_rule(jax, jnp)))


def symbolic_jvp(lib: Any, xp: Any, seen: list[Any]) -> Any:
    zero = ft.custom_derivatives.SymbolicZero if lib is ft else jax.custom_derivatives.SymbolicZero

    @lib.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return xp.sin(x) * y

    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (x_dot, y_dot) = primals, tangents
        seen.append((type(x_dot) is zero, type(y_dot) is zero))
        moved = 0.0 * x * y
        if type(x_dot) is not zero:
            moved = moved + 2.0 * xp.cos(x) * y * x_dot
        if type(y_dot) is not zero:
            moved = moved + 3.0 * xp.sin(x) * y_dot
        return f(x, y), moved

    f.defjvp(rule, symbolic_zeros=True)
    return f


def symbolic_vjp(lib: Any, xp: Any, seen: list[Any]) -> Any:
    @lib.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return xp.sin(x) * y

    def forward(x: Any, y: Any) -> Any:
        seen.append((not x.perturbed, not y.perturbed))
        return f(x.value, y.value), (x.value, y.value)

    f.defvjp(
        forward,
        lambda k, ct: (2.0 * ct * xp.cos(k[0]) * k[1], 3.0 * ct * xp.sin(k[0])),
        symbolic_zeros=True,
    )
    return f


SYMBOLIC: dict[str, Callable[[Any, Any], Any]] = {
    "first": lambda lib, f: lib.grad(lambda x: f(x, V).sum())(X),
    "second": lambda lib, f: lib.grad(lambda y: f(X, y).sum())(X),
    "both": lambda lib, f: lib.grad(lambda x, y: f(x, y).sum(), (0, 1))(X, V),
    "jit": lambda lib, f: lib.jit(lib.grad(lambda x: f(x, V).sum()))(X),
    "of jit": lambda lib, f: lib.grad(lambda x: lib.jit(f)(x, V).sum())(X),
    "map": lambda lib, f: lib.vmap(lib.grad(lambda x, y: f(x, y).sum()))(BATCH, BATCH),
}


@pytest.mark.parametrize("make", [symbolic_jvp, symbolic_vjp])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_zeros(name: str, make: Any) -> None:
    ours: list[Any] = []
    theirs: list[Any] = []
    assert_close(
        SYMBOLIC[name](ft, make(ft, np, ours)), SYMBOLIC[name](jax, make(jax, jnp, theirs))
    )
    assert ours[-1] in theirs


def test_parameters_without_derivative_by_name() -> None:
    def make(lib: Any) -> Any:
        f = lib.custom_vjp(lambda way, x: way(x) * x, nondiff_argnames=("way",))
        f.defvjp(lambda way, x: (f(way, x), x), lambda way, x, ct: (ct * way(x) * 7.0,))
        return lib.grad(lambda x: f(lambda y: y * 2.0, x).sum())(X)

    assert_close(make(ft), make(jax))


# -- random programs -------------------------------------------------------------------------------


def derivative_in_jax(f: Any, way: str, directions: Any) -> Any:
    for mode, v in zip(reversed(way), directions, strict=False):
        f = pushed_in_jax(f, v) if mode == "P" else pulled_in_jax(f, v)
    return f


def pushed_in_jax(f: Any, v: Any) -> Any:
    return lambda x: jax.jvp(f, (x,), (jnp.asarray(v),))[1]


def pulled_in_jax(f: Any, v: Any) -> Any:
    return lambda x: jnp.sum(jax.grad(f)(x) * v)


def test_derivatives_of_random_rules_are_as_in_jax() -> None:
    """JAX runs the programs without their sub-programs: it loses rules in loops (a ``custom_jvp``
    under ``lax.map``).
    """
    wrong = []
    for seed in range(30):
        rng = Random(f"jax:{seed}")
        style = rng.choice(("vjp", "jvp"))
        program = random_program(rng, styles=(style,), holders=list(HOLDERS), arounds=list(AROUND))
        way = rng.choice(
            [way for way in WAYS if style == "jvp" or "P" not in way]
        )  # JAX pushes through no custom_vjp
        itself = rng.random() < 0.5
        ours = Library(ft, np, ft, calls_itself=itself)
        theirs = Library(jax, jnp, jax.lax, calls_itself=itself, flat=True)
        wanted = derivative_in_jax(lambda x: jnp.sum(program.run(theirs, x)), way, ALONG)(
            jnp.asarray(X)
        )
        found = derivative(lambda x: np.sum(program.run(ours, x)), way)(X)
        if not np.allclose(found, wanted, rtol=1e-9, atol=1e-10):
            wrong.append(f"{way}: {found}, not {wanted}, of {program}")
    assert not wrong, "\n".join(wrong)
