"""`config.check_nans`: calls whose results have NaN raise at the user's line."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api.staging.disabling import ENTERED
from functrace.errors import ArgumentError, NanError
from functrace.executor.config import CHECKED, DISPATCH, NATIVE

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def masked_root(x: Any) -> Any:
    root = np.sqrt(x)
    return np.sum(np.where(x > 0, root, 0.0))


X = np.array([1.0, 0.0])


def jit_with(backend: str) -> Any:
    def transform(f: Any) -> Any:
        pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
        return ft.jit(ft.grad(f), backend=backend)  # type: ignore[call-overload]

    return transform


TRANSFORMS: dict[str, Any] = {
    "grad": ft.grad,
    "value_and_grad": ft.value_and_grad,
    "hessian": ft.hessian,
    "jacfwd": lambda f: ft.jacfwd(ft.grad(f)),
    "jacrev": ft.jacrev,
    "vjp": lambda f: lambda x: ft.vjp(f, x)[1](1.0),
    "jvp": lambda f: lambda x: ft.jvp(ft.grad(f), (x,), (np.ones(2),)),
    "vmap": lambda f: lambda x: ft.vmap(ft.grad(f))(np.stack([x + 1.0, x])),
    "jit": jit_with("numpy"),
    "native": jit_with("native"),
    "xla": jit_with("xla"),
    "static": lambda f: (
        lambda x: ft.jit(lambda x, n: ft.grad(f)(x) * n, static_argnames="n")(x, n=2.0)
    ),
    "donated": lambda f: lambda x: ft.jit(ft.grad(f), donate_argnums=0)(x.copy()),
    "guards": lambda f: ft.jit(lambda x: ft.grad(f)(x) if x[0] > 0 else x, guards=True),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_call_raises_at_the_line(name: str) -> None:
    call = TRANSFORMS[name](masked_root)
    assert np.isnan(np.concatenate([np.ravel(x) for x in ft.tree.leaves(call(X))])).any()
    with ft.config(check_nans=True), pytest.raises(NanError) as found:
        call(X)
    assert isinstance(found.value, FloatingPointError)
    assert found.value.at is not None
    assert found.value.at.expression == "root = np.sqrt(x)"
    assert "fix:" in str(found.value)
    call(X)  # the setting is off again


@pytest.mark.parametrize("name", TRANSFORMS)
def test_finite_results_are_returned(name: str) -> None:
    call = TRANSFORMS[name](masked_root)
    expected = call(X + 1.0)
    with ft.config(check_nans=True):
        found = call(X + 1.0)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


def test_it_is_off_by_default_and_leaves_nothing() -> None:
    def is_clean() -> bool:
        return not ft.config.check_nans and not ENTERED and DISPATCH[0] is NATIVE[0]

    assert is_clean()
    with ft.config(check_nans=True), ft.config(check_nans=True):
        assert ft.config.check_nans and len(ENTERED) == 1
        assert DISPATCH[0] is CHECKED
        with ft.config(native=False):
            assert DISPATCH[0] is CHECKED
    assert is_clean()
    with pytest.raises(ZeroDivisionError), ft.config(check_nans=True):
        raise ZeroDivisionError
    with pytest.raises(ArgumentError), ft.config(check_nans=True, threads=0):
        pass
    with pytest.raises(ArgumentError), ft.config(check_nans=1):  # type: ignore[arg-type]
        pass
    assert is_clean()


def test_it_may_be_set_without_a_block() -> None:
    ft.config.check_nans = True
    try:
        with pytest.raises(NanError):
            ft.vmap(np.sqrt)(np.array([-1.0]))
        with ft.config(check_nans=False):
            assert np.isnan(ft.vmap(np.sqrt)(np.array([-1.0])))
            ft.config.check_nans = True
            assert ft.config.check_nans
            ft.config.check_nans = False
        assert ft.config.check_nans
    finally:
        ft.config.check_nans = False


def test_a_block_restores_only_what_it_sets() -> None:
    with ft.config(threads=1):
        ft.config.check_nans = True
    try:
        assert ft.config.check_nans
    finally:
        ft.config.check_nans = False


@pytest.mark.parametrize("wrap", [ft.grad, lambda f: ft.jit(ft.grad(f))])
def test_a_block_holds_for_its_thread(wrap: Any) -> None:
    """Another thread runs the same functions meanwhile, and two blocks end in the order in which
    they began."""
    gradient, entered, left = wrap(masked_root), threading.Event(), threading.Event()
    found: list[object] = []

    def other() -> None:
        with ft.config(check_nans=True):
            entered.set()
            assert left.wait(30)
            try:
                gradient(X)
            except NanError as error:
                found.append(error)
            found.append(ft.config.check_nans)
        found.append(gradient(X))

    def unchecked() -> None:
        found.append(gradient(X))

    with ft.config(check_nans=True):
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(30)
        without = threading.Thread(target=unchecked)
        without.start()
        without.join()
    assert np.isnan(found.pop()).any()  # type: ignore[call-overload]
    assert not ft.config.check_nans
    gradient(X)
    left.set()
    thread.join()
    assert isinstance(found[0], NanError) and found[1] is True and np.isnan(found[2]).any()  # type: ignore[call-overload]
    assert not ENTERED and DISPATCH[0] is NATIVE[0]


def test_tasks_of_asyncio_have_their_own() -> None:
    async def checked() -> bool:
        with ft.config(check_nans=True):
            await asyncio.sleep(0)
            with pytest.raises(NanError):
                ft.grad(masked_root)(X)
        return True

    async def unchecked() -> bool:
        await asyncio.sleep(0)
        return bool(np.isnan(ft.grad(masked_root)(X)).any())

    async def both() -> tuple[bool, bool]:
        checks, without = await asyncio.gather(checked(), unchecked())
        return checks, without

    assert asyncio.run(both()) == (True, True)


def test_a_nan_of_an_argument_is_named() -> None:
    with ft.config(check_nans=True), pytest.raises(NanError, match=r"argument \w+ is nan at \[1\]"):
        ft.jit(lambda x: x * 2.0)(np.array([1.0, np.nan]))


def test_a_nan_that_no_result_has_does_not_raise() -> None:
    x = np.array([1.0, -1.0])
    with ft.config(check_nans=True):
        assert ft.jit(masked_root)(x) == 1.0
        np.testing.assert_array_equal(ft.vmap(masked_root)(x[:, None]), [1.0, 0.0])


def test_the_error_has_the_report_and_can_be_pickled() -> None:
    with ft.config(check_nans=True), pytest.raises(NanError) as found:
        ft.jit(lambda x: np.log(x))(np.array([-1.0]))
    assert found.value.report.nan.primitive == "log"
    again = pickle.loads(pickle.dumps(found.value))
    assert str(again) == str(found.value)


def test_other_values_are_refused() -> None:
    with pytest.raises(ArgumentError):
        ft.config.check_nans = 1  # type: ignore[assignment]


def test_the_step_of_a_loop_is_in_the_message() -> None:
    @ft.jit
    def f(x: Any) -> Any:
        return ft.scan(lambda c, t: (np.log(c) * t, None), x, np.ones(5))[0]

    with ft.config(check_nans=True), pytest.raises(NanError, match="in step 2 of 5 of scan"):
        f(2.0)
