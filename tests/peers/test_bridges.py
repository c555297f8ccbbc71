"""Bridges: functions of functrace in JAX and PyTorch, functions of JAX in functrace, saved modules."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.errors import (
    ArgumentError,
    ConcretizationError,
    DtypeError,
    NotDifferentiableError,
    ProgramError,
    TreeError,
    UnsupportedFunctionError,
)
from tests.cases.case import Case
from tests.sampling import first_of_each
from tests.test_cases import CASES, arguments_of

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = pytest.importorskip("jax.numpy")

RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(4, 4)), RNG.normal(size=4)
XS = np.stack([X, 2.0 * X, -X])


@pytest.fixture(scope="module", autouse=True)
def _default_mode() -> Iterator[None]:
    """JAX's mode of 32 bits: importing tensorly or pymanopt turns the other one on."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def wide() -> Iterator[None]:
    """JAX's 64-bit mode."""
    with jax.enable_x64(True):
        yield


def network(xp: Any) -> Callable[..., Any]:
    """Return one function in NumPy or in JAX."""
    return lambda w, x: (
        xp.sum(xp.tanh(w @ x) ** 2) + xp.max(x) * xp.sum(xp.where(x > 0, x, 0.1 * x))
    )


def around(lib: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a composite of a library's functions with another function inside."""
    return lambda w, x: lib.sin(f(w * 2.0, lib.exp(x))) * lib.sum(x)


def close(found: Any, wanted: Any, rtol: float = 1e-9) -> None:
    """Assert that two pytrees of arrays have the same structure and, up to rounding, values."""
    first, tree = jax.tree.flatten(found)
    second, other = jax.tree.flatten(wanted)
    assert tree == other
    for x, y in zip(first, second, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=rtol)


# -- to_jax ----------------------------------------------------------------------------------------

TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "value": lambda f: f(W, X),
    "jit": lambda f: jax.jit(f)(W, X),
    "grad": lambda f: jax.grad(f, (0, 1))(W, X),
    "jit(value_and_grad)": lambda f: jax.jit(jax.value_and_grad(f))(W, X),
    "jvp": lambda f: jax.jvp(f, (W, X), (W + 1.0, X - 1.0)),
    "vmap(grad)": lambda f: jax.vmap(jax.grad(f, 1), (None, 0))(W, XS),
    "jit(vmap)": lambda f: jax.jit(jax.vmap(f, (None, 0)))(W, XS),
    "hessian": lambda f: jax.hessian(f, 1)(W, X),
    "grad of grad": lambda f: jax.grad(lambda x: jnp.sum(jax.grad(f, 1)(W, x) ** 2))(X),
    "third order": lambda f: jax.jacfwd(jax.jacrev(jax.grad(lambda x: f(W, x))))(X),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f), 1)(W, X),
    "scan": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (c * 0.9 + 0.1 * f(W, c), c), x, None, 3)[0].sum()
    )(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_jax_transforms_a_function_of_functrace(name: str, wide: None) -> None:
    run = TRANSFORMS[name]
    close(run(around(jnp, ft.to_jax(network(np)))), run(around(jnp, network(jnp))))


@ft.custom_vjp
def clipped(x: Any) -> Any:
    """Sum of squares, with a gradient that is clipped."""
    return np.sum(x * x)


clipped.defvjp(lambda x: (np.sum(x * x), x), lambda x, ct: (np.clip(2.0 * x * ct, -1.0, 1.0),))


@ft.custom_vjp
def doubled_back(x: Any) -> Any:
    """A sine whose reverse-mode derivative is twice the true one, linear in the cotangent."""
    return np.sin(x)


doubled_back.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (2.0 * np.cos(x) * ct,))


@ft.custom_jvp
def tripled(x: Any) -> Any:
    """A sine whose tangent is three times the true one."""
    return np.sin(x)


tripled.defjvp(
    lambda primals, tangents: (tripled(*primals), 3.0 * np.cos(primals[0]) * tangents[0])
)


@ft.primitive
def foreign(x: Any) -> Any:
    """A traced call of code that JAX does not see."""
    return np.cumsum(x)


def looped(x: Any) -> Any:
    """Custom rules inside of a scan, a branch and a call."""

    def step(carry: Any, row: Any) -> Any:
        carry = ft.cond(row > 0.0, lambda c: tripled(c), lambda c: 0.5 * doubled_back(c), carry)
        return carry + 0.1 * clipped(row * carry), carry

    last, rows = ft.scan(step, x[0], x)
    return last + np.sum(ft.checkpoint(lambda r: tripled(r) ** 2)(rows))


def rooted(x: Any) -> Any:
    """The solution of y + sin(y) / 2 = x by iterations, with its implicit derivative."""

    def solve(residual: Any, guess: Any) -> Any:
        return ft.fori_loop(0, 60, lambda _, y: y - 0.5 * residual(y), guess)

    def tangent_solve(g: Any, y: Any) -> Any:
        return y / g(np.ones_like(y))

    found = ft.custom_root(lambda y: y + 0.5 * np.sin(y) - x, x, solve, tangent_solve)
    return np.sum(found**2)


def while_bounded(x: Any) -> Any:
    """A loop whose number of steps depends on values."""
    total = ft.while_loop(
        lambda c: np.sum(c * c) > 0.5, lambda c: c * 0.7 + 0.01 * np.sin(c), x, max_steps=40
    )
    return np.sum(total**3)


RULES: dict[str, Callable[[Any], Any]] = {
    "custom_vjp": lambda x: clipped(x) * 2.0,
    "custom_vjp, linear": lambda x: np.sum(doubled_back(x) ** 2),
    "custom_jvp": lambda x: np.sum(tripled(x) ** 2),
    "in loops": looped,
    "root": rooted,
    "while": while_bounded,
    "stop_gradient": lambda x: np.sum(x * ft.stop_gradient(np.sin(x))),
    "floor": lambda x: np.sum(x * np.floor(3.0 * x) + np.round(x)),
}
ORDERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "grad": (jax.grad, ft.grad),
    "jacrev(grad)": (lambda f: jax.jacrev(jax.grad(f)), lambda f: ft.jacrev(ft.grad(f))),
    "jacfwd(grad)": (lambda f: jax.jacfwd(jax.grad(f)), lambda f: ft.jacfwd(ft.grad(f))),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RULES)
def test_own_rules_are_kept(name: str, order: str, wide: None) -> None:
    f = RULES[name]
    in_jax, here = ORDERS[order]
    wanted = here(f)(X)
    close(in_jax(ft.to_jax(f))(X), wanted)
    close(jax.jit(jax.vmap(in_jax(ft.to_jax(f))))(XS), np.stack([here(f)(x) for x in XS]), 1e-8)


@pytest.mark.parametrize("name", RULES)
def test_own_rules_are_kept_in_32_bits(name: str) -> None:
    x = X.astype(np.float32)
    found = jax.jit(jax.grad(ft.to_jax(RULES[name])))(x)
    assert found.dtype == np.float32
    close(found, ft.grad(RULES[name])(X), 2e-4)


def differentiated_cases() -> list[Case]:
    """Return one case per function of NumPy that has a derivative."""
    found = [case for case in CASES if case.diff and case.order >= 1 and case.vmap]
    return first_of_each(found, lambda case: case.name.partition("/")[0], 1 << 30)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", differentiated_cases(), ids=lambda case: case.name)
def test_derivatives_in_jax_are_functraces(case: Case, wide: None) -> None:
    args = arguments_of(case)

    def f(*moving: Any) -> tuple[Any, ...]:
        whole = list(args)
        for place, x in zip(case.diff, moving, strict=True):
            whole[place] = x
        return tuple([y for y in ft.tree.leaves(case.call(*whole)) if is_smooth(y)])

    xs = [args[place] for place in case.diff]
    ys, pull = ft.vjp(f, *xs)
    rng = np.random.default_rng(0)
    cts = tuple([np.asarray(rng.normal(size=np.shape(y)), y.dtype)[()] for y in ys])
    try:
        bridge = ft.to_jax(f)
        found = jax.jit(lambda xs, cts: jax.vjp(bridge, *xs)[1](cts))(tuple(xs), cts)
    except UnsupportedFunctionError as error:
        pytest.skip(error.what)  # tests/xla lists what has no form
    for x, y in zip(found, pull(cts), strict=True):
        scale = 1.0 + np.max(np.abs(y), initial=0.0)
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-7, atol=1e-10 * scale)


def is_smooth(y: Any) -> bool:
    """Return True for a result that has a derivative."""
    return getattr(y, "dtype", np.dtype(bool)).kind in "fc"


@pytest.mark.parametrize("name", ["custom_vjp, linear", "custom_jvp", "root", "stop_gradient"])
def test_forward_mode_keeps_rules(name: str, wide: None) -> None:
    f = RULES[name]
    close(jax.jvp(ft.to_jax(f), (X,), (XS[1],)), ft.jvp(f, (X,), (XS[1],)))


def test_both_rules_of_one_function_are_kept(wide: None) -> None:
    both = ft.primitive(
        lambda x: np.sin(x), vjp=lambda ct, y, x: (5.0 * ct,), jvp=lambda t, y, x: 7.0 * t[0],
        results=lambda x: x,
    )  # fmt: skip

    def f(x: Any) -> Any:
        return np.sum(both(x))

    bridge = ft.to_jax(f, host_callbacks=["callback"])
    close(jax.grad(bridge)(X), np.full(4, 5.0))
    close(jax.jvp(bridge, (X,), (np.ones(4),))[1], 28.0)
    close(jax.vmap(jax.grad(bridge))(XS), np.full((3, 4), 5.0))
    close(jax.grad(lambda xs: jnp.sum(jax.vmap(bridge)(xs)))(XS), np.full((3, 4), 5.0))
    close(jax.vmap(lambda x: jax.jvp(bridge, (x,), (x,))[1])(XS), 7.0 * XS.sum(axis=1))
    close(jax.jacfwd(jax.grad(lambda x: bridge(x) ** 2))(X), np.full((4, 4), 2.0 * 5.0 * 7.0))
    close(jax.jacrev(jax.grad(lambda x: bridge(x) ** 2))(X), np.full((4, 4), 2.0 * 5.0 * 5.0))
    close(jax.grad(lambda x: jax.jvp(lambda y: bridge(y) ** 2, (x,), (np.ones(4),))[1])(X),
          np.full(4, 2.0 * 28.0 * 5.0))  # fmt: skip


def test_a_rule_that_is_not_linear_has_no_forward_mode(wide: None) -> None:
    with pytest.raises(NotDifferentiableError, match="not linear"):
        jax.jvp(ft.to_jax(clipped), (X,), (X,))
    close(jax.grad(ft.to_jax(clipped))(X), ft.grad(clipped)(X))  # nothing is left behind


def test_to_jax_has_jaxs_precision() -> None:
    table = np.linspace(0.0, 1.0, 4)  # of 64 bits

    def f(x: Any) -> Any:
        return {"y": x * table, "n": np.argmax(x), "k": np.arange(3) + 1, "z": np.exp(1j * x)}

    found = ft.to_jax(f)(X.astype(np.float32))
    assert {k: v.dtype.name for k, v in found.items()} == {
        "y": "float32", "n": "int32", "k": "int32", "z": "complex64",
    }  # fmt: skip
    close(found["y"], X * table, 1e-6)
    gradient = jax.jit(jax.grad(ft.to_jax(lambda x: np.sum(tripled(x * table)))))(X)
    assert gradient.dtype == np.float32
    close(gradient, 3.0 * np.cos(X * table) * table, 1e-5)
    with jax.enable_x64(True):
        assert ft.to_jax(f)(X)["y"].dtype == np.float64
    assert not jax.config.jax_enable_x64
    with pytest.raises(DtypeError, match="does not fit"):
        ft.to_jax(lambda x: x + np.array([2**40, 1]))(np.ones(2, np.int32))


def test_draws_need_the_64_bit_mode() -> None:
    def f(x: Any, seed: Any) -> Any:
        return x + ft.random.uniform(ft.random.key(seed), (4,))

    with pytest.raises(UnsupportedFunctionError, match="64 bits"):
        ft.to_jax(f)(X, 3)
    with jax.enable_x64(True):
        close(ft.to_jax(f)(X, 3), f(X, 3))


def test_errors_are_raised_by_plain_calls_and_nan_under_transforms(wide: None) -> None:
    from jax.experimental import checkify

    def f(x: Any) -> Any:
        return np.sum(np.linalg.inv(x))

    bridge, singular = ft.to_jax(f), np.zeros((2, 2))
    with pytest.raises(np.linalg.LinAlgError):
        bridge(singular)
    assert np.isnan(jax.jit(bridge)(singular))
    error, _ = checkify.checkify(jax.jit(bridge), errors=checkify.user_checks)(singular)
    assert "Singular" in (error.get() or "")
    close(bridge(np.eye(2)), 2.0)


class Point(NamedTuple):
    """A pytree of both libraries."""

    x: Any
    y: Any


def test_pytrees_of_jax(wide: None) -> None:
    import dataclasses

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        weight: Any
        bias: Any

    @dataclasses.dataclass
    class Unknown:
        weight: Any

    def f(p: Any, *, scale: Any) -> Any:
        return {
            "layer": Layer(p["a"].weight * scale, p["a"].bias),
            "point": Point(*p["b"]),
            "no": None,
        }

    found = ft.to_jax(f)({"a": Layer(W, X), "b": (X, 1.0)}, scale=2.0)
    close(found["layer"].weight, W * 2.0)
    assert isinstance(found["point"], Point)
    with pytest.raises(TreeError, match=r"Unknown.*\n.*\n?.*register_dataclass"):
        ft.to_jax(lambda x: Unknown(x))(X)
    with pytest.raises(DtypeError, match=r"Unknown.*\n.*\n?.*register_dataclass"):
        ft.to_jax(lambda p: p.weight)(Unknown(X))


def test_mistakes_leave_nothing_behind(wide: None) -> None:
    def reads(x: Any) -> Any:
        return x if x[0] > 0 else -x

    with pytest.raises(ConcretizationError):
        jax.jit(ft.to_jax(reads))(X)
    with pytest.raises(ArgumentError, match="closes over"):
        ft.grad(lambda w: ft.to_jax(lambda x: np.sum(x * w))(jnp.ones(4)))(X)
    with pytest.raises(UnsupportedFunctionError, match="host_callbacks"):
        ft.to_jax(lambda x: ft.pure_callback(np.sin, ft.ShapeDtype((4,)), x))(X)
    close(ft.grad(lambda x: ft.to_jax(clipped)(x))(X), ft.grad(clipped)(X))  # f itself
    close(jax.grad(ft.to_jax(network(np)), 1)(W, X), jax.grad(network(jnp), 1)(W, X))


def test_a_training_loop_of_jax_with_optax() -> None:
    optax = pytest.importorskip("optax", reason="optax is not installed")

    def loss(params: Any, x: Any, y: Any) -> Any:
        hidden = np.tanh(x @ params["w"] + params["b"])
        return np.mean((hidden @ params["v"] - y) ** 2)

    bridge, rng = ft.to_jax(loss), np.random.default_rng(1)
    x = rng.normal(size=(32, 3)).astype(np.float32)
    y = np.sin(x).sum(axis=1)
    params = {k: jnp.asarray(0.5 * rng.normal(size=s), jnp.float32)
              for k, s in {"w": (3, 8), "b": (8,), "v": (8,)}.items()}  # fmt: skip
    optimizer = optax.adam(0.03)

    @jax.jit
    def update(params: Any, state: Any) -> Any:
        value, gradient = jax.value_and_grad(bridge)(params, x, y)
        change, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, change), state, value

    state, values = optimizer.init(params), []
    for _ in range(120):
        params, state, value = update(params, state)
        values.append(float(value))
    assert values[-1] < 0.1 * values[0]
    assert {v.dtype.name for v in params.values()} == {"float32"}


# -- from_jax --------------------------------------------------------------------------------------

HERE: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "value": lambda f: f(W, X),
    "grad": lambda f: ft.grad(f, (0, 1))(W, X),
    "jvp": lambda f: ft.jvp(f, (W, X), (W + 1.0, X - 1.0)),
    "vmap": lambda f: ft.vmap(f, (None, 0))(W, XS),
    "vmap(grad)": lambda f: ft.vmap(ft.grad(f, 1), (None, 0))(W, XS),
    "hessian": lambda f: ft.hessian(f, 1)(W, X),
    "grad of grad": lambda f: ft.grad(lambda x: np.sum(ft.grad(f, 1)(W, x) ** 2))(X),
    "vmap(hessian)": lambda f: ft.vmap(ft.hessian(f, 1), (None, 0))(W, XS),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f), 1)(W, X),
    "scan": lambda f: ft.grad(
        lambda x: np.sum(ft.scan(lambda c, _: (c * 0.9 + 0.1 * f(W, c), c), x, None, 3)[0])
    )(X),
}


@pytest.mark.parametrize("backend", [None, "numpy", "xla"])
@pytest.mark.parametrize("name", HERE)
def test_functrace_transforms_a_function_of_jax(name: str, backend: Any) -> None:
    run = HERE[name]
    bridge = around(np, ft.from_jax(network(jnp)))

    def found(f: Callable[..., Any]) -> Any:
        return run(f) if backend is None else ft.jit(lambda: run(f), backend=backend)()

    close(found(bridge), run(around(np, network(np))), 1e-8)
    assert not jax.config.jax_enable_x64


def test_under_xla_a_function_of_jax_is_spliced() -> None:
    from functrace.xla.program import XlaBackend

    bridge = ft.from_jax(network(jnp))
    program = ft.trace(ft.grad(bridge, 1))(W, X)
    structure = ft.tree.structure(((0.0, 0.0), {}))
    made: Any = XlaBackend().compiled(program, (), structure, ft.tree.structure(0.0))
    assert "callback" not in made.staged().as_text()


def test_custom_rules_of_jax_are_kept() -> None:
    @jax.custom_vjp
    def g(x: Any) -> Any:
        return jnp.sum(x * x)

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (jnp.clip(2.0 * x * ct, -1.0, 1.0),))
    close(ft.grad(ft.from_jax(g))(X), ft.grad(clipped)(X))
    close(ft.vmap(ft.grad(ft.from_jax(g)))(XS), ft.vmap(ft.grad(clipped))(XS))
    with pytest.raises(TypeError, match="custom_vjp"):
        ft.jvp(ft.from_jax(g), (X,), (X,))


def test_complex_and_integer_arguments() -> None:
    def g(xp: Any) -> Callable[..., Any]:
        return lambda z, n: (xp.exp(z * n) * z, n + 1)

    z, n = X + 1j * X[::-1], np.array([1, 2, 3, 1])
    (found, count), pull = ft.vjp(lambda z: ft.from_jax(g(jnp))(z, n), z)
    (wanted, _), other = ft.vjp(lambda z: g(np)(z, n), z)
    close((found, count), (wanted, n + 1))
    close(
        pull((XS[1] + 1j * X, np.zeros(4, np.int64))),
        other((XS[1] + 1j * X, np.zeros(4, np.int64))),
    )


def test_precision_of_from_jax() -> None:
    def g(x: Any, scale: Any = 1.0) -> Any:
        return x * scale + jnp.zeros(4)

    narrow = X.astype(np.float32)
    assert ft.from_jax(g)(X).dtype == np.float64
    assert ft.from_jax(g)(narrow, 0.5).dtype == np.float32  # as in JAX's default mode
    assert ft.from_jax(g, x64=True)(narrow).dtype == np.float64
    assert ft.grad(lambda x: np.sum(ft.from_jax(g)(x)))(narrow).dtype == np.float32
    with pytest.raises(DtypeError, match="x64=False"):
        ft.from_jax(g, x64=False)(X)


def test_mistakes_with_a_function_of_jax() -> None:
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.from_jax(3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="incompatible shapes"):
        ft.grad(ft.from_jax(lambda x: jnp.sum(x + jnp.ones(3))))(X)
    with pytest.raises(DtypeError, match="str"):
        ft.from_jax(lambda x: x)("a")
    with pytest.raises(ProgramError, match="cannot be pickled"):
        pickle.dumps(ft.trace(ft.from_jax(jnp.sin))(X))
    close(ft.grad(lambda x: np.sum(ft.from_jax(jnp.sin)(x)))(X), np.cos(X))
    close(
        jax.grad(lambda x: jnp.sum(ft.from_jax(jnp.sin)(x)))(jnp.ones(2)), np.cos(np.ones(2)), 1e-6
    )
    with jax.enable_x64(True):  # and back again
        close(jax.grad(ft.to_jax(lambda x: np.sum(ft.from_jax(jnp.sin)(x))))(X), np.cos(X))


def test_a_training_loop_of_functrace_around_a_flax_module() -> None:
    nn = pytest.importorskip("flax.linen", reason="flax is not installed")

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(1)(nn.tanh(nn.Dense(8)(x)))[:, 0]

    rng = np.random.default_rng(1)
    x = rng.normal(size=(32, 3)).astype(np.float32)
    y = np.sin(x).sum(axis=1)
    net = Net()
    params = jax.tree.map(np.asarray, net.init(jax.random.key(0), x))
    apply = ft.from_jax(net.apply)
    step = ft.jit(ft.value_and_grad(lambda params: np.mean((apply(params, x) - y) ** 2)))
    values = []
    for _ in range(150):
        value, gradient = step(params)
        params = ft.tree.map(lambda p, g: p - np.float32(0.1) * g, params, gradient)
        values.append(value)
    assert values[-1] < 0.2 * values[0]
    assert {leaf.dtype.name for leaf in ft.tree.leaves(params)} == {"float32"}


# -- memory ----------------------------------------------------------------------------------------


def aligned(count: int, offset: int = 0) -> np.ndarray[Any, Any]:
    """Return floats whose memory begins ``offset`` bytes after a multiple of 64."""
    raw = np.zeros(8 * count + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + 8 * count].view(np.float64)


def test_memory_is_shared_where_alignment_allows(wide: None) -> None:
    result = ft.to_jax(lambda x: x + 1.0)(np.zeros(1000))
    seen = np.asarray(result)
    assert seen.ctypes.data == result.unsafe_buffer_pointer()
    assert not seen.flags.writeable
    x, other = aligned(1000), aligned(1000, 8)
    assert jax.device_put(x, may_alias=True).unsafe_buffer_pointer() == x.ctypes.data
    assert jax.device_put(other, may_alias=True).unsafe_buffer_pointer() != other.ctypes.data


def test_results_of_from_jax_are_the_callers() -> None:
    x = aligned(1000)
    found = ft.from_jax(lambda x: (x, x, x * 2.0))(x)
    for y in found:
        y += 1.0
    assert not x.any()
    assert not np.shares_memory(found[0], found[1])
    close(found, (np.ones(1000),) * 3)


# -- to_torch --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_pytorchs_checks_of_gradients() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    f = ft.to_torch(lambda w, x: np.sum(np.tanh(w @ x) ** 2) + looped(x))
    w, x = (torch.tensor(a, requires_grad=True) for a in (W, X))

    def smooth(w: Any, x: Any) -> Any:
        return torch.sin(ft.to_torch(lambda w, x: np.tanh(w @ x) ** 2)(w * 2.0, torch.exp(x)))

    assert torch.autograd.gradcheck(smooth, (w, x), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(smooth, (w, x), check_fwd_over_rev=True)
    z = torch.tensor(X + 1j * X[::-1], requires_grad=True)
    holomorphic = ft.to_torch(lambda z: z * np.exp(z) + z**2)
    assert torch.autograd.gradcheck(holomorphic, (z,))
    assert torch.autograd.gradgradcheck(holomorphic, (z,))
    (found,) = torch.autograd.grad(f(w, x), x)
    close(found.numpy(), ft.grad(lambda x: np.sum(np.tanh(W @ x) ** 2) + looped(x))(X))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_pytorch_transforms_a_function_of_functrace() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    func = torch.func
    w, x, xs = (torch.tensor(a) for a in (W, X, XS))
    have = around(torch, ft.to_torch(network(np)))
    want = around(torch, network(torch))
    for run in (
        lambda f: func.grad(f, (0, 1))(w, x),
        lambda f: func.vmap(f, (None, 0))(w, xs),
        lambda f: func.vmap(func.grad(f, 1), (None, 0))(w, xs),
        lambda f: func.hessian(f, 1)(w, x),
        lambda f: func.vmap(func.hessian(f, 1), (None, 0))(w, xs),
        lambda f: func.jvp(f, (w, x), (w + 1.0, x - 1.0)),
        lambda f: func.vmap(f, (2, 1))(torch.stack([w, 2 * w, w], 2), xs.T),
    ):
        for a, b in zip(jax.tree.leaves(run(have)), jax.tree.leaves(run(want)), strict=True):
            close(a.numpy(), b.numpy())


def test_trees_and_other_arguments_in_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def f(d: Any, k: Any, *, flag: bool) -> Any:
        return {"a": d["x"] * k if flag else d["x"], "n": np.argmax(d["x"])}

    bridge, x = ft.to_torch(f), torch.tensor(X, requires_grad=True)
    found = bridge({"x": x}, 3.0, flag=True)
    found["a"].sum().backward()
    close(x.grad.numpy(), np.full(4, 3.0))
    assert int(found["n"]) == int(np.argmax(X))
    assert not found["n"].requires_grad
    close(bridge({"x": x}, 3.0, flag=False)["a"].detach().numpy(), X)
    close(bridge({"x": x}, torch.tensor(2.0), flag=True)["a"].detach().numpy(), X * 2.0)


def test_tensors_share_memory_with_arrays() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from functrace.api.bridges.torch_functions import _to_array, _to_tensor

    x = torch.zeros(1000, dtype=torch.float64)
    array = _to_array(x, "test")
    assert array.ctypes.data == x.data_ptr()
    assert _to_tensor(array).data_ptr() == x.data_ptr()
    found = ft.to_torch(lambda x: x)(x)
    found += 1.0
    assert not x.any()  # a result is the caller's own


def test_mistakes_with_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    bridge = ft.to_torch(network(np))
    w, x = torch.tensor(W), torch.tensor(X, requires_grad=True)
    with pytest.raises(UnsupportedFunctionError, match=r"meta[\s\S]*x\.cpu\(\)"):
        bridge(w.to("meta"), x)
    with pytest.raises(DtypeError, match=r"bfloat16[\s\S]*x\.float\(\)"):
        bridge(w, x.to(torch.bfloat16))
    with pytest.raises(UnsupportedFunctionError, match="to_dense"):
        bridge(w.to_sparse(), x)
    with pytest.raises(TreeError, match="a str, not an array"):
        ft.to_torch(lambda x: "a")(x)
    with pytest.raises(NotDifferentiableError):
        ft.to_torch(lambda x: np.sum(ft.pure_callback(np.sin, ft.ShapeDtype((4,)), x)))(
            x
        ).backward()
    bridge(w, x).backward()
    close(x.grad.numpy(), ft.grad(network(np), 1)(W, X))


# -- StableHLO -------------------------------------------------------------------------------------


def test_modules_are_read_back() -> None:
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    f = ft.value_and_grad(lambda x: network(np)(W, x) + looped(x))
    saved = ft.trace(f)(X).to_stablehlo(["cpu", "cuda", "rocm", "tpu"])
    made = jax.export.deserialize(bytearray(saved))
    assert made.platforms == ("cpu", "cuda", "rocm", "tpu")
    with jax.enable_x64(True):
        value, gradient = made.call(X)
    close((np.asarray(value), np.asarray(gradient)), f(X))
    assert "stablehlo.tanh" in saved.mlir_module()
    assert "func.func public @main" in pickle.loads(pickle.dumps(saved)).mlir_module()


def test_modules_of_programs_that_check_values() -> None:
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    saved = ft.trace(np.linalg.inv)(np.eye(2)).to_stablehlo()
    with jax.enable_x64(True):
        (found,) = jax.export.deserialize(bytearray(saved)).call(np.zeros((2, 2)))
    assert np.isnan(found).all()
    with pytest.raises(UnsupportedFunctionError, match="checks its values"):
        ft.trace(lambda x: (np.linalg.inv(x), np.argmax(x)))(np.eye(2)).to_stablehlo()


def test_mistakes_with_modules() -> None:
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    program = ft.trace(lambda x: ft.pure_callback(np.sin, ft.ShapeDtype((4,)), x) * 2.0)(X)
    with pytest.raises(UnsupportedFunctionError, match="cannot call Python"):
        program.to_stablehlo()
    for platforms in (["gpu"], [], "cpu"):
        with pytest.raises(ArgumentError, match="platforms="):
            ft.trace(np.sin)(X).to_stablehlo(platforms)
    assert not jax.config.jax_enable_x64
