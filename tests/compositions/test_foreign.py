"""Foreign code inside of every transform: `pure_callback`, and `primitive` with rules of every
kind, against NumPy.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import (
    ArgumentError,
    ConcretizationError,
    DtypeError,
    LostGradientError,
    NotDifferentiableError,
    ProgramError,
    ShapeError,
    TreeError,
    UnsupportedFunctionError,
)

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 1.5, 3)
BATCH = RNG.uniform(0.5, 1.5, (4, 3))
F64 = ft.ShapeDtype((), "float64")


def like(*args: Any) -> Any:
    return args[0]


def plain(x: Any) -> Any:
    """Assert that foreign code receives a fresh writable array or a NumPy scalar."""
    assert type(x) is np.ndarray or isinstance(x, np.generic)
    if isinstance(x, np.ndarray):
        assert x.flags.writeable and x.flags.owndata
    return x


# -- primitives, and the same in NumPy -------------------------------------------------------------


def sine(rules: str) -> Any:
    """A function whose rule needs another one, whose rule needs the first."""
    sin = ft.primitive(lambda x: np.sin(plain(x)), results=like)
    cos = ft.primitive(lambda x: np.cos(plain(x)), results=like)
    if "vjp" in rules:
        sin.defvjp(lambda ct, y, x: (ct * cos(x),))
        cos.defvjp(lambda ct, y, x: (-ct * sin(x),))
    if "jvp" in rules:
        sin.defjvp(lambda t, y, x: t[0] * cos(x))
        cos.defjvp(lambda t, y, x: -t[0] * sin(x))
    return lambda x: np.sum(sin(x) * x)


def exponential(rules: str) -> Any:
    """A rule that reads the result."""
    exp = ft.primitive(lambda x: np.exp(plain(x)), results=like, vmap="broadcast_all")
    if "vjp" in rules:
        exp.defvjp(lambda ct, y, x: (ct * y,))
    if "jvp" in rules:
        exp.defjvp(lambda t, y, x: t[0] * y)
    return lambda x: np.sum(exp(x * x))


def solution(rules: str) -> Any:
    """Two arguments; a rule that calls the function itself, with other arguments."""
    solve = ft.primitive(lambda a, b: np.linalg.solve(plain(a), plain(b)), results=lambda a, b: b)
    if "vjp" in rules:

        @solve.defvjp
        def pulled(ct: Any, y: Any, a: Any, b: Any) -> Any:
            moved = solve(a.T, ct)
            return -np.outer(moved, y), moved

    if "jvp" in rules:
        solve.defjvp(lambda t, y, a, b: solve(a, t[1] - t[0] @ y))

    return lambda x: np.sum(solve(np.outer(x, x) + 2.0 * np.eye(3), np.sin(x)) * x)


def convolution(rules: str) -> Any:
    """A linear function, which has to be transposed."""
    kernel = np.array([0.2, 0.5, 0.3])
    smooth = ft.primitive(lambda x: np.convolve(plain(x), kernel, "same"), results=like)
    rough = ft.primitive(lambda x: np.convolve(plain(x), kernel[::-1], "same"), results=like)
    if "vjp" in rules:
        smooth.defvjp(lambda ct, y, x: (rough(ct),))
        rough.defvjp(lambda ct, y, x: (smooth(ct),))
    if "jvp" in rules:
        smooth.defjvp(lambda t, y, x: smooth(t[0]))
        rough.defjvp(lambda t, y, x: rough(t[0]))
    return lambda x: np.sum(smooth(x * x) * np.cos(x))


def nests(rules: str) -> Any:
    """Pytrees of arguments and results, and arguments that are not arrays."""

    def f(pair: Any, k: int, word: str = "twice") -> Any:
        assert word == "twice" and type(k) is int
        return {
            "product": k * plain(pair["x"]) * pair["y"],
            "rest": [np.sum(pair["x"] ** 2), len(pair["x"])],
        }

    results = lambda pair, k, word: {"product": pair["x"], "rest": [F64, ft.ShapeDtype((), int)]}
    p = ft.primitive(f, results=results)
    if "vjp" in rules:

        @p.defvjp
        def pulled(ct: Any, out: Any, pair: Any, k: int, word: str) -> Any:
            x, y = pair["x"], pair["y"]
            return (
                {"x": k * ct["product"] * y + 2 * x * ct["rest"][0], "y": k * ct["product"] * x},
                None,
                None,
            )

    if "jvp" in rules:

        @p.defjvp
        def pushed(t: Any, out: Any, pair: Any, k: int, word: str) -> Any:
            x, y, dx, dy = pair["x"], pair["y"], t[0]["x"], t[0]["y"]
            return {
                "product": k * (dx * y + x * dy),
                "rest": [np.sum(2 * x * dx), np.zeros_like(out["rest"][1])],
            }

    def whole(x: Any) -> Any:
        out = p({"x": x, "y": np.sin(x)}, 2)
        return np.sum(out["product"]) * out["rest"][0] + out["rest"][1]

    return whole


PLAIN: dict[Callable[[str], Any], Callable[[Any], Any]] = {
    sine: lambda x: np.sum(np.sin(x) * x),
    exponential: lambda x: np.sum(np.exp(x * x)),
    solution: lambda x: np.sum(np.linalg.solve(np.outer(x, x) + 2.0 * np.eye(3), np.sin(x)) * x),
    convolution: lambda x: np.sum(
        np.convolve(x * x, np.array([0.2, 0.5, 0.3]), "same") * np.cos(x)
    ),
    nests: lambda x: np.sum(2 * x * np.sin(x)) * np.sum(x**2) + 3,
}


def pushed(f: Any) -> Any:
    return lambda x: ft.jvp(f, (x,), (np.cos(X),))[1]


def compiled(f: Any) -> Any:
    return ft.jit(f)


def dotted(f: Any) -> Any:
    return lambda x: np.dot(ft.grad(f)(x), np.sin(X))


def looped(f: Any) -> Any:
    return lambda x: ft.scan(lambda c, _: (c * 0.9 + 0.01 * f(c), None), x, None, length=2)[0]


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda f: f(X),
    "jit": lambda f: compiled(f)(X),
    "vmap": lambda f: ft.vmap(f)(BATCH),
    "grad": lambda f: ft.grad(f)(X),
    "jvp": lambda f: pushed(f)(X),
    "linearize": lambda f: ft.linearize(f, X)[1](np.cos(X)),
    "hessian": lambda f: ft.hessian(f)(X),
    "reverse over reverse": lambda f: ft.grad(dotted(f))(X),
    "jvp of jvp": lambda f: pushed(pushed(f))(X),
    "grad of jvp": lambda f: ft.grad(pushed(f))(X),
    "third": lambda f: pushed(ft.grad(dotted(f)))(X),
    "jit grad": lambda f: ft.jit(ft.grad(f))(X),
    "jit vmap grad": lambda f: ft.jit(ft.vmap(ft.grad(f)))(BATCH),
    "grad vmap": lambda f: ft.grad(lambda b: np.sum(ft.vmap(f)(b) ** 2))(BATCH),
    "jit vmap hessian": lambda f: ft.jit(ft.vmap(ft.hessian(f)))(BATCH),
    "vmap vmap grad": lambda f: ft.vmap(ft.vmap(ft.grad(f)))(np.stack([BATCH, 0.5 * BATCH])),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f))(X),
    "jit checkpoint": lambda f: ft.jit(ft.grad(dotted(ft.checkpoint(f))))(X),
    "scan": lambda f: ft.jacrev(looped(f))(X),
    "cond": lambda f: ft.jit(ft.grad(lambda x: ft.cond(x[0] > 0, f, np.sum, x)))(X),
    "custom_vjp": lambda f: ft.grad(_around(f))(X),
}


def _around(f: Any) -> Any:
    g = ft.custom_vjp(f)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * ft.grad(f)(x),))
    return g


@pytest.mark.sampled(48)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("rules", ["vjp", "jvp", "vjp and jvp"])
@pytest.mark.parametrize("make", PLAIN, ids=lambda make: make.__name__)
def test_primitives(make: Callable[[str], Any], rules: str, transform: str) -> None:
    forward = ("itself", "jit", "vmap", "jvp", "linearize", "jvp of jvp")
    if rules == "jvp" and make in (solution, convolution) and transform not in forward:
        with pytest.raises(NotDifferentiableError, match="applies foreign code to a tangent"):
            TRANSFORMS[transform](
                make(rules)
            )  # foreign code is applied to a tangent, and nobody knows its transpose
        return
    expected = TRANSFORMS[transform](PLAIN[make])
    for _ in range(2):
        np.testing.assert_allclose(
            TRANSFORMS[transform](make(rules)), expected, rtol=1e-9, atol=1e-10
        )


def test_gradients_are_those_of_differences() -> None:
    for make in PLAIN:
        f = make("vjp")
        differences = [(f(X + 1e-6 * e) - f(X - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
        np.testing.assert_allclose(ft.grad(f)(X), differences, rtol=1e-7)


def test_a_filter_of_scipy() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    smooth = ft.primitive(lambda x: ndimage.gaussian_filter(x, 1.0), results=like)
    smooth.defvjp(lambda ct, y, x: (smooth(ct),))
    f = lambda x: np.sum(np.sin(smooth(x)) * x)
    matrix = np.stack([ndimage.gaussian_filter(e, 1.0) for e in np.eye(5)])  # it is symmetric
    g = lambda x: np.sum(np.sin(matrix @ x) * x)
    x = RNG.normal(size=(3, 5))
    for transform in (ft.hessian, lambda f: ft.jit(ft.hessian(f)), ft.grad):
        np.testing.assert_allclose(transform(f)(x[0]), transform(g)(x[0]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        ft.jit(ft.vmap(ft.hessian(f)))(x), ft.vmap(ft.hessian(g))(x), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize(
    "name",
    ["sqrtm", "expm", "inv", "det", "lu", "cosm", "cholesky", "eig", "schur", "svd", "hessenberg"],
)
def test_code_that_refuses_traced_values_is_named_with_the_ways_out(name: str) -> None:
    function = getattr(pytest.importorskip("scipy.linalg"), name)
    call = lambda x: function(np.outer(x, x) + np.eye(3))
    for f in (call, ft.numpy.lift(call)):
        for transform in (lambda f: ft.vjp(f, X), lambda f: ft.jit(f)(X)):
            with pytest.raises(
                (UnsupportedFunctionError, LostGradientError, ConcretizationError)
            ) as caught:
                transform(f)
            assert caught.value.at is not None and caught.value.at.file == __file__
            if not isinstance(caught.value, ConcretizationError):
                assert (
                    caught.match(r"functrace\.scipy")
                    and caught.match("pure_callback")
                    and caught.match("primitive")
                )


def test_unrelated_type_errors_are_unchanged() -> None:
    with pytest.raises(TypeError, match="unsupported operand") as plain:
        ft.grad(lambda x: x + "1")(X)
    assert not isinstance(plain.value, UnsupportedFunctionError)


# -- how it is called ------------------------------------------------------------------------------


def test_called_once_per_gradient() -> None:
    calls: list[Any] = []
    exp = ft.primitive(
        lambda x: calls.append(x) or math.exp(x), vjp=lambda ct, y, x: (ct * y,), results=F64
    )
    for transform in (
        ft.grad,
        ft.value_and_grad,
        lambda f: lambda x: ft.jvp(f, (x,), (1.0,)),
        lambda f: ft.grad(ft.grad(f)),
    ):
        for _ in range(3):
            calls.clear()
            transform(exp)(0.5)
            assert calls == [0.5]
    compiled = ft.jit(ft.grad(exp))
    compiled(0.5)
    calls.clear()
    compiled(0.25)
    assert calls == [0.25]
    calls.clear()
    ft.vmap(exp)(X)
    assert calls == list(X)


def test_exceptions_of_the_callback_raise_at_the_users_line() -> None:
    def f(x: Any) -> Any:
        try:
            return ft.pure_callback(math.sqrt, F64, ft.stop_gradient(x) - 5.0) * x
        except ValueError:
            return 3.0 * x

    assert ft.grad(f)(1.0) == 3.0
    assert ft.grad(f)(14.0) == 3.0
    with pytest.raises(ValueError, match="math domain"):
        ft.jit(lambda x: ft.pure_callback(math.sqrt, F64, x))(-1.0)


def test_callback_may_write_into_its_arguments_and_reuse_a_buffer() -> None:
    buffer = np.empty(3)

    def f(x: Any) -> Any:
        np.multiply(x, 2.0, out=buffer)
        x[:] = -1.0
        return buffer

    g = lambda x: ft.pure_callback(f, x, x) * ft.pure_callback(f, x, x + 1.0) + x
    for run in (
        g,
        ft.jit(g),
        lambda x: ft.vmap(g)(np.stack([x, x]))[1],
        lambda x: ft.evaluate(ft.trace(g)(x), x),
    ):
        x = X.copy()
        np.testing.assert_allclose(run(x), 4 * X * (X + 1) + X, rtol=1e-14)
        np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_vmap_methods_of_the_callback(method: str) -> None:
    shapes: list[Any] = []

    def f(x: Any, y: Any) -> Any:
        shapes.append((np.shape(x), np.shape(y)))
        return np.asarray(x)[..., None] * y if np.ndim(y) else x * y

    g = lambda x, y: ft.pure_callback(f, ft.ShapeDtype((3,), float), x, y, vmap=method)
    xs, ys = np.arange(2.0), np.arange(4.0)[:, None] + X
    np.testing.assert_array_equal(ft.vmap(g, (0, None))(xs, X), xs[:, None] * X)
    expected = {
        "sequential": [((), (3,))] * 2,
        "expand_dims": [((2,), (1, 3))],
        "broadcast_all": [((2,), (2, 3))],
    }
    assert shapes == expected[method]
    shapes.clear()
    np.testing.assert_array_equal(
        ft.jit(ft.vmap(ft.vmap(g, (None, 0)), (0, None)))(xs, ys), xs[:, None, None] * ys
    )
    expected = {
        "sequential": [((), (3,))] * 8,
        "expand_dims": [((2, 1), (1, 4, 3))],
        "broadcast_all": [((2, 4), (2, 4, 3))],
    }
    assert shapes == expected[method]
    np.testing.assert_array_equal(ft.vmap(g, (None, 0))(2.0, ys), 2.0 * ys)
    np.testing.assert_array_equal(ft.vmap(g, (0, None))(xs[:0], X), np.zeros((0, 3)))


@pytest.mark.parametrize("declared", [
    lambda x: x, ft.ShapeDtype((3,), np.float32), np.zeros(3, np.float32),
    lambda x: ft.ShapeDtype(x.shape, np.float32)
])  # fmt: skip
def test_forms_of_result_declarations(declared: Any) -> None:
    x = X.astype(np.float32)
    for run in (
        lambda f: f(x),
        lambda f: compiled(f)(x),
        lambda f: ft.vjp(lambda x: f(ft.stop_gradient(x)), x)[0],
    ):
        found: Any = run(lambda x: ft.pure_callback(np.sin, declared, x))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.sin(x))
        with pytest.raises(DtypeError, match=r"is f64\[3\], but f32\[3\] was declared"):
            run(lambda x: ft.pure_callback(lambda x: np.sin(x.astype(np.float64)), declared, x))


@pytest.mark.parametrize("returns, declared, error, says", [
    (lambda x: x[:2], lambda x: x, ShapeError,
    r"the result of <lambda> is f64\[2\], but f64\[3\] was declared"),
    (lambda x: x + 1j, lambda x: x, DtypeError, r"is c128\[3\], but f64\[3\] was declared"),
    (lambda x: x, ft.ShapeDtype((3,), int), DtypeError, r"is f64\[3\], but i64\[3\] was declared"),
    (lambda x: (x, x[0]), lambda x: (x, x), ShapeError, r"result 1 of <lambda> is f64\[\]"),
    (lambda x: (x, x), lambda x: x, TreeError,
    "returned a tuple of 2 values, but one value was declared"),
    (lambda x: "word", lambda x: x, DtypeError, "is a str"),
    (lambda x: None, lambda x: x, TreeError, "returned None, but one value was declared"),
])  # fmt: skip
def test_results_are_checked(
    returns: Any, declared: Any, error: type[Exception], says: str
) -> None:
    f = lambda x: ft.pure_callback(returns, declared, x)
    for run in (
        f,
        ft.jit(f),
        lambda x: ft.vmap(f)(np.stack([x])),
        lambda x: ft.grad(lambda x: f(ft.stop_gradient(x)))(x),
    ):
        with pytest.raises(error, match=says):
            run(X)


def test_integers_have_no_derivative() -> None:
    f = lambda x: x[ft.pure_callback(np.argmax, ft.ShapeDtype((), np.intp), x)] ** 2
    np.testing.assert_array_equal(ft.grad(f)(X), 2 * X * (X == X.max()))
    np.testing.assert_array_equal(
        ft.vmap(ft.grad(f))(BATCH), ft.vmap(ft.grad(lambda x: np.max(x) ** 2))(BATCH)
    )


def test_results_that_are_not_declared() -> None:
    cumulated = ft.primitive(
        lambda x: np.add.accumulate(x)[x > 0.7], vjp=lambda ct, y, x: (ct.sum() * np.ones(3),)
    )
    assert ft.grad(lambda x: np.sum(cumulated(x)))(X).shape == (3,)
    with pytest.raises(ConcretizationError, match=r"cannot infer the output shape(.|\n)*results="):
        ft.jit(cumulated)(X)


def test_methods_and_keywords() -> None:
    class Model:
        power = 3

        @ft.primitive
        def forward(self, x: Any, scale: float = 2.0) -> Any:
            return scale * x**self.power

        @forward.defvjp
        def pulled(ct: Any, y: Any, self: Any, x: Any, scale: float) -> Any:
            return None, scale * ct * self.power * x ** (self.power - 1), None

    model = Model()
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(model.forward(x)))(X), 6 * X**2, rtol=1e-12)  # type: ignore[arg-type]
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(model.forward(x, scale=1.0)))(X), 3 * X**2, rtol=1e-12
    )  # type: ignore[arg-type]
    assert ft.jit(lambda x: ft.pure_callback(sorted, [F64] * 3, list(x), reverse=True))(
        X
    ) == sorted(X, reverse=True)
    assert ft.jit(lambda k: ft.pure_callback(math.factorial, ft.ShapeDtype((), int), k))(4) == 24


def test_second_call_transforms_nothing() -> None:
    from functrace.executor.cache import CACHE

    for make in PLAIN:
        f = make("vjp and jvp")
        _ = ft.hessian(f)(X), ft.vmap(ft.grad(f))(BATCH)
        count = len(CACHE)
        for k in range(3):
            _ = ft.hessian(f)(X + k / 9), ft.vmap(ft.grad(f))(BATCH + k / 9)
        assert len(CACHE) == count


# -- what is refused -------------------------------------------------------------------------------


def test_no_derivative_without_a_rule() -> None:
    callback = lambda x: np.sum(ft.pure_callback(np.sin, x, x))
    for f in (callback, lambda x: np.sum(ft.primitive(np.sin, results=like)(x))):
        for transform in (
            ft.grad(f),
            lambda x: ft.jvp(f, (x,), (x,)),
            ft.jit(ft.grad(f)),
            ft.hessian(f),
            ft.vmap(ft.grad(f)),
        ):
            with pytest.raises(
                NotDifferentiableError,
                match=r"sin is foreign code(.|\n)*test_foreign(.|\n)*functrace.primitive",
            ):
                transform(BATCH if transform is not None else X)
    linear = lambda x: ft.pure_callback(np.negative, x, x)
    with pytest.raises(NotDifferentiableError, match="foreign code is not linear"):
        ft.linear_transpose(linear, X)(X)


def test_rules_are_checked() -> None:
    for vjp, says in (
        (lambda ct, y, x: ct, "returned a TracedArray, but <lambda> takes 1 argument"),
        (lambda ct, y, x: (ct, ct), "returned 2 values, but <lambda> takes 1 argument"),
        (lambda ct, y, x: (ct[:2],), r"f64\[2\]"),
    ):
        f = ft.primitive(lambda x: np.sin(x), vjp=vjp, results=like)
        with pytest.raises((TreeError, ShapeError), match=says):
            ft.grad(lambda x, f=f: np.sum(f(x)))(X)
    square = ft.primitive(lambda x: x**2, vjp=lambda ct, y, x: (2 * ct * x,), results=like)
    wrong = ft.primitive(np.sin, vjp=lambda ct, y, x: (square(ct),), results=like)
    with pytest.raises(NotDifferentiableError, match="its backward rule depends on its arguments"):
        ft.jvp(wrong, (X,), (X,))


def test_other_refusals() -> None:
    with pytest.raises(
        ArgumentError, match=r"vmap='parallel'(.|\n)*'sequential', 'expand_dims', 'broadcast_all'"
    ):
        ft.pure_callback(np.sin, X, X, vmap="parallel")
    with pytest.raises(ArgumentError, match="vmap=None"):
        ft.primitive(np.sin, vmap=None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="takes a function, not a ndarray"):
        ft.pure_callback(X, X, X)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a str does not declare a shape and a dtype"):
        ft.pure_callback(np.sin, "float64", X)
    program = ft.trace(lambda x: ft.pure_callback(np.sin, x, x))(X)
    assert "callback" in str(program)
    np.testing.assert_array_equal(ft.evaluate(program, BATCH[0]), np.sin(BATCH[0]))
    for write in (program.as_python, program.to_json, lambda: pickle.dumps(program)):
        with pytest.raises(ProgramError):
            write()
    with pytest.raises(LostGradientError, match=r"functrace.primitive or functrace.pure_callback"):
        ft.grad(lambda x: np.asarray(x)[0])(X)
