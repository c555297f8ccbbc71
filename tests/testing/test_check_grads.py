"""`check_grads` passes what is right, and says of what is wrong which element, which equation and
which line it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, CheckError
from functrace.testing import check_grads

X = np.linspace(0.1, 1.0, 4)
W = np.linspace(-1.0, 1.0, 12).reshape(3, 4)

RIGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "two arguments": (lambda w, x: np.tanh(w @ x), (W, X)),
    "nests, integers and words": (
        lambda p, k: {"a": np.sin(p["x"][0]) * k, "n": np.argmax(p["x"][0]), "b": p["x"][1] ** 2},
        ({"x": (X, 2.0), "name": "layer"}, 3),
    ),
    "complex": (lambda z: np.abs(z) ** 2 + np.real(z * z), (X + 1j,)),
    "real to complex": (lambda x: np.exp(1j * x), (X,)),
    "single precision": (lambda x: np.cumsum(np.sin(x)), (X.astype(np.float32),)),
    "half precision": (lambda x: x * x, (X.astype(np.float16),)),
    "linear algebra": (np.linalg.inv, (np.eye(3) + 0.3,)),
    "no axes": (lambda x: x**3, (2.0,)),
    "empty": (lambda x: x * 2.0, (np.zeros(0),)),
    "control flow of Python": (lambda x: x * 2.0 if x[0] > 0 else x, (X,)),
    "scan": (lambda x: ft.scan(lambda c, s: (c * s, np.sin(c)), 1.0, x), (X,)),
    "large": (lambda x: np.sum(np.sin(x)), (np.linspace(0.0, 9.0, 3000),)),
    "jit and vmap": (ft.jit(ft.vmap(lambda x: x * np.exp(x))), (X,)),
}


@pytest.mark.parametrize("case", RIGHT)
@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev")], ids=str)
def test_right_derivatives_pass(case: str, modes: Any) -> None:
    f, args = RIGHT[case]
    check_grads(f, args, order=2, modes=modes)


def wrong_vjp(factor: Any) -> Any:
    @ft.custom_vjp
    def sine(x: Any) -> Any:
        return np.sin(x)

    sine.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (ct * np.cos(x) * factor,))
    return sine


def wrong_jvp(factor: Any) -> Any:
    @ft.custom_jvp
    def sine(x: Any) -> Any:
        return np.sin(x)

    sine.defjvps(lambda t, y, x: factor * t * np.cos(x))
    return sine


def wrong_foreign(factor: Any) -> Any:
    return ft.primitive(
        lambda x: np.sin(x), vjp=lambda ct, y, x: (ct * np.cos(x) * factor,), results=lambda x: x
    )


FACTOR = np.array([1.0, 1.0, 1.5, 1.0])
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "custom_vjp": (wrong_vjp(FACTOR), "custom_vjp"),
    "custom_jvp": (wrong_jvp(FACTOR), "custom_jvp"),
    "primitive": (wrong_foreign(FACTOR), "custom_vjp"),
    "in jit": (ft.jit(wrong_jvp(FACTOR)), "custom_jvp"),
    "in checkpoint": (ft.checkpoint(wrong_vjp(FACTOR)), "custom_vjp"),
    "behind a choice": (lambda x: wrong_jvp(FACTOR)(x) if x[0] > 0 else x, "custom_jvp"),
    "stop_gradient": (
        lambda x: x * np.where(np.arange(4) == 2, ft.stop_gradient(x), 1.0),
        "stop_gradient",
    ),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_wrong_derivatives_are_found(case: str, mode: str) -> None:
    f, primitive = WRONG[case]

    def loss(p: Any) -> Any:
        return np.exp(f(p["x"]) * 2.0)

    with pytest.raises(CheckError) as caught:
        check_grads(loss, ({"x": X, "y": 1.0},), order=1, modes=mode)
    text = str(caught.value)
    assert isinstance(caught.value, AssertionError)
    assert "of result[2] by args[0]['x'][2] is" in text
    assert re.search(rf"in equation \d+ of \w+: .* = {primitive}", text)
    assert f"at {__file__.rsplit('/', 1)[-1]}" in text
    found, expected = (
        float(word) for word in re.findall(r"is ([-\d.e]+), but .* gives? ([-\d.e]+)\n", text)[0]
    )
    truth = ft.jacfwd(lambda x: np.exp(np.sin(x) * 2.0))(X)[2, 2]
    if case != "stop_gradient":
        assert expected == pytest.approx(truth, rel=1e-6)
        assert found == pytest.approx(truth * 1.5, rel=1e-6)


def test_the_body_of_a_loop_is_looked_into() -> None:
    wrong = wrong_jvp(2.0)

    def loop(x: Any) -> Any:
        return ft.scan(lambda c, s: (np.cos(c) + wrong(s), c * s), 0.0, x)

    with pytest.raises(CheckError, match=r"in equation 1 of \w+: .* = custom_jvp of sine"):
        check_grads(loop, (X,))


def test_a_wrong_second_derivative_is_found_by_the_second_order_only() -> None:
    cosine = ft.custom_jvp(lambda x: np.cos(x))
    cosine.defjvps(lambda t, y, x: 0.5 * t)
    sine = ft.custom_jvp(lambda x: np.sin(x))
    sine.defjvps(lambda t, y, x: t * cosine(x))
    check_grads(sine, (X,), order=1)
    with pytest.raises(
        CheckError,
        match=r"forward mode of the jvp of .*the derivative of the tangent of result\[\d\] by args\[0\]",
    ):
        check_grads(sine, (X,), order=2)
    with pytest.raises(CheckError, match="reverse mode of the vjp of"):
        check_grads(sine, (X,), order=2, modes="rev")


def test_rules_that_do_not_agree_with_each_other() -> None:
    """Both are as near to differences as they should be, and not as near to each other."""
    f = ft.custom_vjp(lambda x: np.real(x * 3.0))
    f.defvjp(lambda x: (np.real(x * 3.0), None), lambda _, ct: (ct * 3.0,))
    f.defjvp(lambda primals, tangents: (np.real(primals[0] * 3.0), tangents[0] * (3.0 + 2e-6)))
    with pytest.raises(CheckError, match=r"forward and reverse mode of .* disagree"):
        check_grads(f, (X,), order=1, complex_step=False)


def test_complex_elements_and_the_imaginary_direction() -> None:
    f = ft.custom_jvp(lambda z: np.imag(z))
    f.defjvps(lambda t, y, z: np.imag(t) * 2.0)
    with pytest.raises(
        CheckError, match=r"result\[1\] by args\[0\]\[1\] is 2, but differences give 1"
    ):
        check_grads(
            lambda z: f(z) * np.array([0.0, 1.0]),
            (np.array([1.0 + 2j, 3.0 - 1j]),),
            order=1,
            modes="fwd",
        )


def test_complex_steps_are_exact() -> None:
    slightly = wrong_jvp(1.0 + 1e-6)
    check_grads(slightly, (X,), order=1, complex_step=False)
    with pytest.raises(CheckError, match="a complex step gives"):
        check_grads(slightly, (X,), order=1)
    with pytest.raises(ArgumentError, match="does not take complex numbers"):
        check_grads(np.linalg.norm, (X,), order=1, complex_step=True)


def test_integers_lose_a_derivative_openly() -> None:
    with pytest.raises(CheckError, match="fix: every equation agrees by itself"):
        check_grads(lambda x: x * np.round(x * 1e7), (X,), order=1, eps=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_grads(np.sin, X), "not a tuple"),
        (lambda: check_grads(np.sin, (1,)), "no argument of sin is a float"),
        (lambda: check_grads(np.argmax, (X,)), "nothing that has a derivative"),
        (lambda: check_grads(np.sin, (X,), modes="back"), "choose 'fwd', 'rev' or both"),
        (lambda: ft.grad(lambda x: (check_grads(np.sin, (x,)), x)[1])(1.0), "is traced"),
    ],
)
def test_bad_calls(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_nan_agrees_with_nan_of_differences() -> None:
    check_grads(lambda x: x * np.nan, (X,), order=1)
    with pytest.raises(CheckError, match=r"is 1, but .* gives? nan"):
        check_grads(
            lambda x: x * np.array([1.0, 0.0, 1.0, 1.0]) + ft.stop_gradient(x) * np.nan,
            (X,),
            order=1,
            modes="fwd",
        )


def test_arguments_stay_as_they_are() -> None:
    x = X.copy()

    def writes(v: Any) -> Any:
        v *= 2.0
        return v

    check_grads(writes, (x,))
    np.testing.assert_array_equal(x, X)
