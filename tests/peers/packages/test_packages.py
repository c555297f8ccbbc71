"""docs/packages.md says what is so: derivatives of packages' functions are right, or an error says
what to do.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import functrace as ft
from functrace.errors import NotDifferentiableError
from tests.peers.packages.coverage import HEAD, PACKAGES, PAGE, names, pins, rows, section


def needs(name: str) -> None:
    """Skip a test unless a package is installed, without importing it."""
    if importlib.util.find_spec(PACKAGES[name].module) is None:
        pytest.skip(f"{name} is not installed")


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings(
    "ignore"
)  # of optional packages that are looked for, of syntax, about fits
@pytest.mark.parametrize("name", names())
def test_coverage_of_a_package_matches_the_page(name: str) -> None:
    needs(name)
    assert [defect for one in rows(name) for defect in one.defects] == []
    assert section(name) in PAGE.read_text(encoding="utf-8"), (
        "run `python -m tests.peers.packages.coverage`"
    )


def test_the_page_has_all_packages_and_nothing_else() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        f"{one} {pins()[one]}" for one in names()
    ]


def test_autoray_registers_once_and_has_value_functions() -> None:
    do = pytest.importorskip("autoray").do
    ft.compat.autoray.register()
    ft.compat.autoray.register()  # changes nothing
    x = np.arange(1.0, 7.0).reshape(2, 3)
    assert ft.grad(lambda x: np.sum(x * do("stop_gradient", x)))(x).tolist() == x.tolist()
    assert ft.grad(lambda x: np.sum(x * do("to_numpy", x)))(x).tolist() == x.tolist()
    assert ft.grad(lambda x: np.sum(x) * do("size", x))(x).tolist() == [[6.0] * 3] * 2
    assert [part.shape for part in ft.vjp(lambda x: do("linalg.svd", x), x)[0]] == [
        (2, 2),
        (2,),
        (2, 3),
    ]


def test_pot_is_registered_once_and_plain_arrays_stay_numpys() -> None:
    ot = pytest.importorskip("ot")
    weights, cost = np.ones(2) / 2, np.array([[0.1, 1.0], [0.7, 0.3]])
    plain = ot.sinkhorn2(weights, weights, cost, 1.0)
    ft.compat.pot.register()
    ft.compat.pot.register()  # changes nothing
    assert [one.__name__ for one in ot.backend.get_available_backend_implementations()].count(
        "FunctraceBackend"
    ) == 1
    assert (
        ot.backend.get_backend(cost).__name__ == "numpy"
        and ot.sinkhorn2(weights, weights, cost, 1.0) == plain
    )


def test_gradients_that_pot_sets_replace_those_of_the_value_and_have_none() -> None:
    ot = pytest.importorskip("ot")
    ft.compat.pot.register()
    x = np.array([1.0, 2.0])

    def f(x: ft.Array) -> ft.Array:
        return ot.backend.get_backend(x).set_gradients(np.sum(x**3), [x], [5.0 * x])

    assert ft.grad(f)(x).tolist() == ft.jit(ft.grad(f))(x).tolist() == [5.0, 10.0]
    assert ft.jvp(f, (x,), (x,)) == (9.0, 25.0)
    for second in (ft.hessian(f), ft.jacrev(ft.grad(f))):
        with pytest.raises(NotDifferentiableError, match="a plan that depends on the arguments"):
            second(x)


def test_tensorly_is_registered_once_and_used_where_it_is_chosen() -> None:
    tl = pytest.importorskip("tensorly")
    ft.compat.tensorly.register()
    ft.compat.tensorly.register()  # changes nothing
    with tl.backend_context("functrace"):
        assert (
            tl.get_backend() == "functrace" and tl.is_tensor(np.ones(2)) and not tl.is_tensor([1.0])
        )
    assert tl.get_backend() == "numpy"
