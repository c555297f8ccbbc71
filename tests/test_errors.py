"""The errors, each as a user meets it: the class and NumPy's own, the user's line, the way out;
then the next call works.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace import errors
from functrace.ir import Primitive, absent
from functrace.ir.aval import ShapeDtype
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording

HERE = os.path.basename(__file__)

opened: list[weakref.ref[Recording]] = []
"""The recordings that the running test has started."""


@pytest.fixture(autouse=True)
def watched_recordings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    original = Recording.__init__

    def started(self: Recording, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        opened.append(weakref.ref(self))

    monkeypatch.setattr(Recording, "__init__", started)
    yield
    opened.clear()


def assert_next_call_works() -> None:
    """No user's recording is open, nothing is locked: the next transforms give right results."""
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(np.sin(x)))(np.arange(3.0)), np.cos(np.arange(3.0))
    )
    np.testing.assert_allclose(ft.vmap(lambda x: x * 2.0)(np.arange(3.0)), np.arange(3.0) * 2)
    alive = [r for r in (reference() for reference in opened) if r is not None and not r.closed]
    assert [r.owner for r in alive if r.positions is not None] == [], (
        "a recording of user's code was left open"
    )


@contextmanager
def raises(cls: type[Exception], builtin: type[Exception], *words: str) -> Iterator[None]:
    """Expect a functrace error that is NumPy's own class as well, names this file's line and says
    what to do.
    """
    with pytest.raises(cls) as caught:
        yield
    error, text = caught.value, str(caught.value)
    assert isinstance(error, errors.FunctraceError)
    assert isinstance(error, builtin)
    assert HERE in text, f"the user's line is not named:\n{text}"
    assert "\nfix: " in text, f"no way out is named:\n{text}"
    for word in words:
        assert word in text, f"{word!r} is not in the message:\n{text}"
    del caught, error
    assert_next_call_works()


ones = np.ones(3)
TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "grad": lambda f: ft.grad(lambda x: np.sum(f(x)))(np.ones(3)),
    "jvp": lambda f: ft.jvp(f, (np.ones(3),), (np.ones(3),)),
    "vjp": lambda f: ft.vjp(f, np.ones(3)),
    "vmap": lambda f: ft.vmap(f)(np.ones((2, 3))),
    "trace": lambda f: ft.trace(f)(np.ones(3)),
    "grad of grad": lambda f: ft.grad(
        lambda y: ft.grad(lambda x: np.sum(f(x) * y))(np.ones(3)).sum()
    )(2.0),
    "grad of vmap": lambda f: ft.grad(lambda x: ft.vmap(f)(x).sum())(np.ones((2, 3))),
}
STAGING: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "trace": TRANSFORMS["trace"],
    "jit": lambda f: ft.jit(f)(np.ones(3)),
    "jit of vmap": lambda f: ft.jit(ft.vmap(f))(np.ones((2, 3))),
    "vmap of jit": lambda f: ft.vmap(ft.jit(f))(np.ones((2, 3))),
    "jit of grad of vmap": lambda f: ft.jit(ft.grad(lambda x: ft.vmap(f)(x).sum()))(
        np.ones((2, 3))
    ),
    "vmap without questions": lambda f: ft.vmap(f, max_paths=0)(np.ones((2, 3))),
}
everywhere = pytest.mark.parametrize("apply", TRANSFORMS.values(), ids=TRANSFORMS)
staging = pytest.mark.parametrize("apply", STAGING.values(), ids=STAGING)


# -- what grad takes and returns -------------------------------------------------------------------


def test_grad_of_non_scalar() -> None:
    with raises(errors.ShapeError, ValueError, "f64[3]", "scalar", "jacrev"):
        ft.grad(lambda x: np.sin(x))(ones)


@pytest.mark.parametrize(
    "argument", [np.arange(3), 3, np.array([True, False]), True, np.int32(1)], ids=repr
)
def test_grad_of_integer_or_bool_input(argument: Any) -> None:
    with raises(errors.DtypeError, TypeError, "float"):
        ft.grad(lambda x: np.sum(x * 1.0))(argument)


@pytest.mark.parametrize(
    "result",
    [None, "a string", object(), [1.0, 2.0], {"loss": 1.0}],
    ids=lambda r: type(r).__name__,
)
def test_grad_of_function_returning_no_number(result: Any) -> None:
    with raises(errors.DtypeError, TypeError, type(result).__name__):
        ft.grad(lambda x: result)(ones)


def test_grad_of_function_returning_integer() -> None:
    with raises(errors.DtypeError, TypeError, "i64"):
        ft.grad(lambda x: np.argmax(x))(ones)


def test_grad_of_complex_result() -> None:
    with raises(errors.DtypeError, TypeError, "holomorphic"):
        ft.grad(lambda x: np.sum(x * 1j))(ones)


def test_grad_holomorphic_with_real_argument() -> None:
    with raises(errors.DtypeError, TypeError, "complex"):
        ft.grad(lambda x: np.sum(x), holomorphic=True)(ones)


def test_grad_of_strings_and_objects() -> None:
    with raises(errors.DtypeError, TypeError):
        ft.grad(lambda x: 0.0)(np.array(["a", "b"]))
    with raises(errors.DtypeError, TypeError):
        ft.grad(lambda x: 0.0)(np.array([1.0, None], dtype=object))


def test_argnums_out_of_range() -> None:
    with raises(errors.ArgumentError, ValueError, "argnums"):
        ft.grad(lambda x: np.sum(x), argnums=1)(ones)


def test_has_aux_without_pair() -> None:
    with raises(errors.ArgumentError, ValueError, "aux"):
        ft.grad(lambda x: np.sum(x), has_aux=True)(ones)


# -- shapes and dtypes -----------------------------------------------------------------------------


@everywhere
def test_elementwise_shape_mismatch(apply: Any) -> None:
    with raises(errors.ShapeError, ValueError):
        apply(lambda x: x + np.ones(4))


@everywhere
def test_matmul_shape_mismatch(apply: Any) -> None:
    with raises(errors.ShapeError, ValueError):
        apply(lambda x: np.ones((2, 5)) @ x)


@everywhere
def test_reshape_mismatch(apply: Any) -> None:
    with raises(errors.ShapeError, ValueError):
        apply(lambda x: x.reshape(2, 2))


@everywhere
def test_axis_out_of_bounds(apply: Any) -> None:
    with raises(errors.AxisError, IndexError, "1"):
        apply(lambda x: np.sum(x, axis=1))


@everywhere
def test_index_out_of_bounds(apply: Any) -> None:
    with raises(errors.FunctraceError, IndexError):
        apply(lambda x: x[3] * 1.0)


@everywhere
def test_too_many_indices(apply: Any) -> None:
    with raises(errors.FunctraceError, IndexError):
        apply(lambda x: x[0, 1] * 1.0)


@everywhere
def test_concatenate_mismatch(apply: Any) -> None:
    with raises(errors.ShapeError, ValueError):
        apply(lambda x: np.concatenate([x, np.ones((2, 2))]))


@everywhere
def test_dtype_without_meaning(apply: Any) -> None:
    with raises(errors.DtypeError, TypeError):
        apply(lambda x: x & 1)


def test_in_place_dtype_that_numpy_refuses() -> None:
    def f(x: Any) -> Any:
        n = np.zeros_like(x, dtype=int)
        n += x
        return np.sum(n)

    with raises(errors.DtypeError, TypeError, "cast"):
        ft.grad(f)(ones)


# -- functions that are not supported --------------------------------------------------------------


@everywhere
def test_unsupported_function_is_named(apply: Any) -> None:
    with raises(errors.UnsupportedFunctionError, TypeError, "numpy.packbits"):
        apply(lambda x: np.packbits(x.astype(bool)))


@everywhere
def test_unsupported_function_in_a_submodule_is_named(apply: Any) -> None:
    with raises(errors.UnsupportedFunctionError, TypeError, "numpy.save"):
        apply(lambda x: np.savetxt(os.devnull, x))


@everywhere
def test_unsupported_ufunc_method_is_named(apply: Any) -> None:
    with raises(errors.UnsupportedFunctionError, TypeError, "reduceat"):
        apply(lambda x: np.arctan2.reduceat(x, [0, 1]))


@everywhere
def test_no_object_arrays(apply: Any) -> None:
    with pytest.raises((errors.FunctraceError, TypeError)):
        apply(lambda x: np.multiply(x, None))
    with pytest.raises(errors.FunctraceError):
        apply(lambda x: np.multiply(x, np.array([1.0, None, "a"], dtype=object)))
    assert_next_call_works()


# -- values needed while staging -------------------------------------------------------------------


@staging
def test_if_while_staging(apply: Any) -> None:
    def f(x: Any) -> Any:
        y = np.sum(x)
        if y > 0:
            return y
        return -y

    with raises(errors.ConcretizationError, TypeError, "np.where", "if y > 0"):
        apply(f)


@staging
def test_bool_while_staging(apply: Any) -> None:
    with raises(errors.ConcretizationError, TypeError):
        apply(lambda x: x * 1.0 if bool(np.any(x)) else x)


@staging
def test_int_while_staging(apply: Any) -> None:
    with raises(errors.ConcretizationError, TypeError):
        apply(lambda x: x * int(np.argmax(x)))


@staging
def test_shape_from_data_while_staging(apply: Any) -> None:
    with raises(errors.ConcretizationError, TypeError):
        apply(lambda x: np.sum(x[x > 0]))
    with raises(errors.ConcretizationError, TypeError):
        apply(lambda x: x * np.zeros(np.argmax(x)).size)


@staging
def test_value_while_staging(apply: Any) -> None:
    with raises(errors.ConcretizationError, TypeError):
        apply(lambda x: x * np.sum(ft.value(x)))


# -- no gradient is lost in silence ----------------------------------------------------------------


@everywhere
def test_float_would_lose_the_derivative(apply: Any) -> None:
    has_values = apply is not TRANSFORMS["trace"]
    with raises(
        errors.LostGradientError,
        TypeError,
        "functrace.value" if has_values else "functrace.debug.callback",
    ):
        apply(lambda x: x * float(x[0]))


@everywhere
def test_math_function_would_lose_the_derivative(apply: Any) -> None:
    with raises(errors.LostGradientError, TypeError, "np.sin"):
        apply(lambda x: x * math.sin(x[0]))


@everywhere
def test_item_and_tolist_would_lose_the_derivative(apply: Any) -> None:
    with raises(errors.LostGradientError, TypeError):
        apply(lambda x: x * x[0].item())
    with raises(errors.LostGradientError, TypeError):
        apply(lambda x: x * np.asarray(x.tolist()))


@everywhere
def test_int_and_complex_would_lose_the_derivative(apply: Any) -> None:
    with raises(errors.LostGradientError, TypeError):
        apply(lambda x: x * int(x[0]))
    with raises(errors.LostGradientError, TypeError):
        apply(lambda x: x * complex(x[0]).real)


@everywhere
def test_array_of_traced_values_would_lose_the_derivative(apply: Any) -> None:
    with raises(errors.LostGradientError, TypeError, "np.stack"):
        apply(lambda x: np.array([x[0], 1.0]))
    with raises(errors.LostGradientError, TypeError):
        apply(lambda x: np.asarray(x))


@everywhere
def test_storing_into_ndarray_would_lose_the_derivative(apply: Any) -> None:
    target = np.zeros(3)

    def element(x: Any) -> Any:
        target[0] = x[0]
        return x

    def everything(x: Any) -> Any:
        target[:] = x
        return x

    with raises(errors.LostGradientError, TypeError, "np.zeros_like(x)"):
        apply(element)
    with raises(errors.LostGradientError, TypeError, "np.zeros_like(x)"):
        apply(everything)
    np.testing.assert_array_equal(target, np.zeros(3))


@everywhere
def test_adding_to_ndarray_in_place_would_lose_the_derivative(apply: Any) -> None:
    target = np.zeros(3)

    def f(x: Any) -> Any:
        total = target
        total += x
        return total

    with raises(errors.LostGradientError, TypeError):
        apply(f)
    np.testing.assert_array_equal(target, np.zeros(3))


@everywhere
@pytest.mark.parametrize("function", [np.sin, np.exp], ids=["sin", "exp"])
def test_out_ndarray_would_lose_the_derivative(apply: Any, function: Any) -> None:
    target = np.zeros(3)
    with raises(errors.LostGradientError, TypeError, "out"):
        apply(lambda x: function(x, out=target))
    np.testing.assert_array_equal(target, np.zeros(3))


@everywhere
def test_ufunc_at_on_ndarray_would_lose_the_derivative(apply: Any) -> None:
    target = np.zeros(3)
    with raises(errors.LostGradientError, TypeError, "add.at"):
        apply(lambda x: np.add.at(target, [0, 0, 1], x))
    np.testing.assert_array_equal(target, np.zeros(3))


# -- leaked tracers --------------------------------------------------------------------------------


@everywhere
def test_leaked_tracer(apply: Any) -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    apply(f)
    leaked = kept[0]
    for use in (
        lambda: leaked + 1.0,
        lambda: 1.0 - leaked,
        lambda: np.sin(leaked),
        lambda: np.sum(leaked),
        lambda: leaked[0],
        lambda: leaked @ np.ones(3),
        lambda: bool(leaked[0] > 0),
        lambda: ft.grad(lambda y: np.sum(y * leaked))(np.ones(3)),
        lambda: ft.vmap(lambda y: y * leaked)(np.ones((2, 3))),
    ):
        with raises(errors.LeakedTracerError, RuntimeError, "ended"):
            use()
    repr(leaked)


# -- vmap, and the structure of tangents and cotangents --------------------------------------------


def test_vmap_sizes_differ() -> None:
    with raises(errors.ShapeError, ValueError, "args[0] has 3", "args[1] has 4"):
        ft.vmap(lambda x, y: x * y)(np.ones(3), np.ones(4))
    with raises(errors.ShapeError, ValueError, "['w']", "3", "4"):
        ft.vmap(lambda p, y: p["w"] * y)({"w": np.ones((3, 2))}, np.ones(4))


def test_vmap_in_axes_that_do_not_fit() -> None:
    with raises(errors.ArgumentError, ValueError, "in_axes"):
        ft.vmap(lambda x, y: x * y, in_axes=(0,))(np.ones(3), np.ones(3))
    with raises(errors.AxisError, IndexError, "in_axes"):
        ft.vmap(lambda x: x, in_axes=1)(np.ones(3))
    with raises(errors.ArgumentError, ValueError, "mapped"):
        ft.vmap(lambda x: x, in_axes=None)(np.ones(3))
    with raises(errors.TreeError, ValueError, "in_axes"):
        ft.vmap(lambda x: x["a"], in_axes=({"b": 0},))({"a": np.ones(3)})


def test_vmap_of_scalar_argument() -> None:
    with raises(errors.AxisError, IndexError):
        ft.vmap(lambda x: x)(2.0)


def test_vmap_out_axes_none_for_mapped_result() -> None:
    with raises(errors.ShapeError, ValueError, "out_axes"):
        ft.vmap(lambda x: x * 2.0, out_axes=None)(np.ones(3))


def test_cotangents_of_another_structure() -> None:
    _, pullback = ft.vjp(lambda x: {"a": x, "b": x * 2.0}, ones)
    with raises(errors.TreeError, ValueError, "cotangents"):
        pullback(ones)
    with raises(errors.TreeError, TypeError, "cotangents"):
        pullback((ones, ones))
    with raises(errors.ShapeError, ValueError, "cotangents"):
        pullback({"a": np.ones(4), "b": ones})
    np.testing.assert_array_equal(pullback({"a": ones, "b": ones})[0], 3 * ones)


def test_tangents_of_another_structure() -> None:
    with raises(errors.TreeError, ValueError, "tangents"):
        ft.jvp(lambda x: x, (ones,), ([ones],))
    with raises(errors.TreeError, ValueError, "tangents"):
        ft.jvp(lambda x: x, (ones,), (ones, ones))
    with raises(errors.ShapeError, ValueError, "tangents"):
        ft.jvp(lambda x: x, (ones,), (np.ones(2),))
    _, f_jvp = ft.linearize(lambda x: x * x, ones)
    with raises(errors.TreeError, ValueError, "tangents"):
        f_jvp(ones, ones)


def test_evaluate_with_other_arguments() -> None:
    program = ft.trace(lambda x: x * 2.0)(ones)
    with raises(errors.ShapeError, ValueError):
        ft.evaluate(program, np.ones(4))
    with raises(errors.ShapeError, ValueError):
        ft.evaluate(program, ones, ones)


# -- declared absence ------------------------------------------------------------------------------

one_way_p = Primitive(
    "one_way",
    eval=lambda x: x * 2.0,
    aval=lambda x: x,
    jvp=absent(
        because="one_way has no derivative: it was declared so", instead="use np.sin, which has one"
    ),
    transpose=absent(because="one_way is not linear", instead="use np.sin"),
    batch=absent(because="one_way works on single examples", instead="map it in a loop"),
)


def test_derivative_through_absent_rule() -> None:
    for transform in ("grad", "jvp", "vjp", "grad of grad"):
        with raises(
            errors.NotDifferentiableError, NotImplementedError, "declared so", "use np.sin"
        ):
            TRANSFORMS[transform](lambda x: bind(one_way_p, (x,)))


def test_batching_through_absent_rule() -> None:
    with raises(errors.NotDifferentiableError, NotImplementedError, "single examples", "in a loop"):
        TRANSFORMS["vmap"](lambda x: bind(one_way_p, (x,)))


def test_absent_rule_off_the_derivative_path_is_fine() -> None:
    gradient = ft.grad(lambda x: np.sum(x * bind(one_way_p, (ft.stop_gradient(x),))))(ones)
    np.testing.assert_array_equal(gradient, 2 * ones)


def test_transpose_of_nonlinear_function() -> None:
    with raises(errors.NotDifferentiableError, NotImplementedError):
        ft.linear_transpose(np.sin, ShapeDtype((3,)))(ones)


# -- checkpoint, policies and functions that bring their derivative --------------------------------


def test_policy_that_is_none_names_the_ones_there_are() -> None:
    for policy in (None, "recompute", ("keep",)):
        with raises(
            errors.ArgumentError,
            ValueError,
            "checkpoint: policy is",
            "functrace.policies.recompute",
        ):
            ft.checkpoint(np.sin, policy=policy)  # type: ignore[arg-type]


@everywhere
def test_concretization_inside_checkpoint(apply: Any) -> None:
    f = ft.checkpoint(lambda x: x * 2.0 if x[0] > 0 else x)
    if apply is not TRANSFORMS["trace"]:
        apply(f)
    else:
        with raises(errors.ConcretizationError, TypeError, "records without values"):
            apply(f)


def test_wrong_shape_of_unpack_reports_the_packed_shape() -> None:
    policy = ft.policies.pack(lambda x: x, lambda x: x[:2])
    with raises(errors.ShapeError, ValueError, "unpack returned f64[2], but f64[3] was packed"):
        ft.grad(ft.checkpoint(lambda x: np.sum(np.sin(x)), policy=policy))(ones)


@pytest.mark.parametrize("word", ["pack", "unpack"])
def test_exceptions_of_pack_and_unpack_pass(word: str) -> None:
    def fail(_: Any) -> Any:
        raise OwnError(word)

    functions = {"pack": lambda x: x, "unpack": lambda x: x, word: fail}
    f = ft.checkpoint(np.sin, policy=ft.policies.pack(functions["pack"], functions["unpack"]))
    for transform in ("grad", "vjp", "grad of vmap"):
        if (word, transform) == ("unpack", "vjp"):
            continue  # nothing is fetched before the pullback is called
        with pytest.raises(OwnError, match=word) as caught:
            TRANSFORMS[transform](f)
        caught.value.__traceback__ = None
        del caught
        assert_next_call_works()


def own_rule(forward: Any = None, backward: Any = None) -> Any:
    f = ft.custom_vjp(np.sin)
    f.defvjp(forward or (lambda x: (np.sin(x), x)), backward or (lambda x, ct: (ct * np.cos(x),)))
    return f


def test_custom_vjp_without_rules() -> None:
    with raises(errors.ArgumentError, ValueError, "sin has no rules yet", "sin.defvjp(fwd, bwd)"):
        ft.grad(lambda x: np.sum(ft.custom_vjp(np.sin)(x)))(ones)
    with raises(errors.ArgumentError, ValueError, "sin has no rule yet", "sin.defjvp(rule)"):
        ft.grad(lambda x: np.sum(ft.custom_jvp(np.sin)(x)))(ones)


@pytest.mark.parametrize("transform", ["grad", "jvp", "vjp", "grad of grad", "grad of vmap"])
def test_wrong_rules_of_custom_vjp(transform: str) -> None:
    apply = TRANSFORMS[transform]
    with raises(errors.TreeError, ValueError, "fwd of sin returned a TracedArray, not a pair"):
        apply(own_rule(forward=lambda x: np.sin(x)))
    with raises(errors.ShapeError, ValueError, "the result of fwd of sin is f64[]", "f64[3]"):
        apply(own_rule(forward=lambda x: (np.sum(x), x)))
    with raises(
        errors.TreeError, TypeError, "bwd of sin returned a TracedArray, but sin takes 1 arguments"
    ):
        apply(own_rule(backward=lambda x, ct: ct))
    with raises(
        errors.ShapeError,
        ValueError,
        "cotangent 0 of bwd of sin is f64[2], but argument 0 is f64[3]",
    ):
        apply(own_rule(backward=lambda x, ct: (ct[:2],)))
    with raises(
        errors.DtypeError,
        TypeError,
        "cotangent 0 of bwd of sin is c128[3], but argument 0 is f64[3]",
    ):
        apply(own_rule(backward=lambda x, ct: (ct * 1j,)))


def test_rule_that_is_not_linear() -> None:
    with raises(errors.NotDifferentiableError, NotImplementedError, "not linear"):
        ft.jvp(own_rule(backward=lambda x, ct: (ct * ct,)), (ones,), (ones,))
    f = ft.custom_jvp(np.sin)
    f.defjvps(lambda t, y, x: t * t)
    with raises(errors.NotDifferentiableError, NotImplementedError, "not linear"):
        TRANSFORMS["grad"](f)


@pytest.mark.parametrize("transform", ["grad", "vjp", "jvp", "grad of vmap"])
def test_exceptions_of_rules_pass(transform: str) -> None:
    def fail(*_: Any) -> Any:
        raise OwnError("mine")

    for f in (own_rule(forward=fail), own_rule(backward=fail)):
        with pytest.raises(OwnError, match="mine") as caught:
            TRANSFORMS[transform](f)
        caught.value.__traceback__ = None
        del caught, f
        assert_next_call_works()


# -- the user's own exceptions ---------------------------------------------------------------------


class OwnError(Exception):
    """A user's exception with a state of its own."""


@everywhere
@pytest.mark.parametrize(
    "error",
    [OwnError("mine"), ValueError("mine"), KeyboardInterrupt()],
    ids=["own", "value", "stop"],
)
def test_own_exception_passes_unchanged(apply: Any, error: BaseException) -> None:
    def f(x: Any) -> Any:
        np.sin(x)
        raise error

    with pytest.raises(type(error)) as caught:
        apply(f)
    assert caught.value is error
    error.__traceback__ = None
    del caught
    assert_next_call_works()


def test_numpy_error_at_run_time_names_the_recorded_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x))

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as caught:
        ft.grad(f)(np.zeros(3))
    assert any(HERE in note for note in getattr(caught.value, "__notes__", ()))
    caught.value.__traceback__ = None
    del caught
    assert_next_call_works()


# -- captured arrays that are overwritten ----------------------------------------------------------


def test_small_captured_buffer_may_be_reused() -> None:
    def f(x: Any) -> Any:
        buffer, total = np.zeros(3), 0.0
        for k in range(4):
            buffer[:] = k
            total = total + np.sum(x * buffer)
        return total

    for _ in range(3):
        np.testing.assert_array_equal(ft.grad(f)(ones), np.full(3, 6.0))


def test_small_argument_may_be_overwritten_after_vjp() -> None:
    x, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    _, pullback = ft.vjp(lambda x: x * x * w, x)
    x[:] = 100.0
    w[:] = 100.0
    np.testing.assert_array_equal(pullback(np.ones(2))[0], [6.0, 16.0])


def test_large_argument_may_be_overwritten_after_vjp() -> None:
    x = np.full(1 << 18, 2.0)
    _, pullback = ft.vjp(lambda x: x * x, x)
    x[:] = 100.0
    np.testing.assert_array_equal(pullback(np.ones_like(x))[0][:2], [4.0, 4.0])


def test_errors_while_capturing_leave_no_large_array_locked() -> None:
    big, kept = np.ones(1 << 18), []
    ft.grad(lambda x: (kept.append(x), np.sum(x))[1])(2.0)
    with pytest.raises(errors.LeakedTracerError):
        kept[0] * big
    assert big.flags.writeable
    words = np.full(1 << 17, "word", dtype=object)
    with pytest.raises(errors.DtypeError):
        ft.grad(lambda x: np.sum(x * words))(2.0)
    assert words.flags.writeable


def test_exceptions_of_the_user_are_not_replaced() -> None:
    def translated(x: Any) -> Any:
        try:
            math.sin(x[0])
        except TypeError as error:
            raise ValueError("mine") from error

    def own(x: Any) -> Any:
        raise ValueError("the file is read-only")

    for transform in (ft.grad, ft.vmap, ft.jit, ft.trace, lambda f: lambda x: ft.vjp(f, x)):
        with pytest.raises(ValueError, match="the file is read-only") as raised:
            transform(own)(np.ones((2, 2)))
        assert type(raised.value) is ValueError
    with pytest.raises(ValueError, match="mine") as raised:
        ft.jit(translated)(np.ones((2, 2)))
    assert type(raised.value) is ValueError
