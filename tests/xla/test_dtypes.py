"""NumPy's functions of arrays under XLA, for every dtype that NumPy takes, at special values too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is not installed")

import jax

import functrace as ft
from functrace.ops import PRIMITIVES
from functrace.tracing.binding import bind
from functrace.xla.lowering import Options, lower
from tests.xla.agreement import MOST_ROUNDING

UFUNCS = sorted(
    [
        p.name
        for p in dict(PRIMITIVES).values()
        if isinstance(p.eval, np.ufunc) and p.eval is not np.matmul and p.eval.nin < 3
    ]
)
DTYPES = [np.dtype(c) for c in "?bBhHiIlLefdFD"]
INTEGERS = [0, 1, 2, 3, 7, 100]
FLOATS = [0.0, -0.0, 0.3, -0.5, 1.0, -1.0, 1.5, 2.0, -2.5, 3.0, 17.25, np.inf, -np.inf, np.nan]
COMPLEX = [0.5 + 0.25j, -0.3 + 2j, 1 - 1j, -1.5 - 0.5j, 2.0 + 0j, 3.5j]
REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(np, name)
    for name in (
        "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "var", "mean", "cumsum",
        "cumprod", "sort", "argsort",
    )
}  # fmt: skip


def values(dtype: np.dtype[Any]) -> Any:
    """Return special values of a dtype."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        negative = [-1, -5] if dtype.kind == "i" else []
        return np.array([*INTEGERS, *negative, limits.max, limits.min], dtype)
    return np.array(COMPLEX if dtype.kind == "c" else FLOATS).astype(dtype)


def results(f: Callable[..., Any], args: Any) -> Any:
    """Return NumPy's results as a list; None if it does not take the dtypes."""
    try:
        found = f(*args)
    except (TypeError, ValueError, np.exceptions.AxisError):
        return None
    return [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]


def assert_all_agree(name: str, calls: list[tuple[Callable[..., Any], list[Any]]]) -> None:
    """Compute many calls in one program, and compare each with NumPy's, element by element;
    dtypes without a form in XLA run on the host.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = [results(f, args) for f, args in calls]
        calls = [call for call, y in zip(calls, wanted, strict=True) if y is not None]
        assert calls

        def everything(*args: Any) -> Any:
            given = iter(args)
            return [f(*[next(given) for _ in mine]) for f, mine in calls]

        flat = [x for _, args in calls for x in args]
        program = ft.trace(lambda *xs: tuple(ft.tree.leaves(everything(*xs))))(*flat)
        function, errors = lower(program, Options(host_callbacks=frozenset([name])))
        with jax.enable_x64(True):
            level = {"xla_backend_optimization_level": 0}
            found, numbers = jax.jit(function, compiler_options=level)(*flat)
        errors.check(*numbers or (0,))
        rest = iter(found)
        bad = []
        for (_, args), ys in zip(calls, [y for y in wanted if y is not None], strict=True):
            for y in ys:
                x = np.asarray(next(rest))
                problem = difference(x, y)
                if problem is not None:
                    bad.append(f"{[str(a.dtype) for a in args]}: {problem}")
    assert bad == [], "\n".join(bad)


def difference(x: Any, y: Any) -> str | None:
    """Describe the first element in which results differ; None if they agree."""
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return f"{x.dtype}{x.shape}, NumPy's {y.dtype}{y.shape}"
    if y.dtype.kind in "fc":
        limits = np.finfo(y.dtype)
        near = MOST_ROUNDING * (float(limits.eps) * np.abs(y) + float(limits.tiny))
        is_same = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= near)
    else:
        is_same = x == y
    places = np.argwhere(~is_same)
    if not len(places):
        return None
    first = tuple(places[0])
    return f"{len(places)} of {y.size}, at {first} {x[first]}, NumPy's {y[first]}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", UFUNCS)
def test_elementwise_functions_of_every_dtype(name: str) -> None:
    primitive = PRIMITIVES[name]
    operands = primitive.eval.nin  # type: ignore[attr-defined]

    def called(*args: Any) -> Any:
        return bind(primitive, args)

    calls: list[tuple[Callable[..., Any], list[Any]]] = []
    for dtype in DTYPES:
        x = values(dtype)
        calls.append((called, [x] if operands == 1 else [x[:, None], x]))
    assert_all_agree(name, calls)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_every_dtype(name: str) -> None:
    f = REDUCTIONS[name]
    calls: list[tuple[Callable[..., Any], list[Any]]] = []
    for dtype in DTYPES:
        x = values(dtype)
        finite = x[np.isfinite(x) & ~((x == 0) & np.signbit(x.real))]  # (no two equal elements)
        calls += (
            [(f, [finite]), (f, [np.stack([finite[:4], finite[-4:]])])]
            if len(finite) > 3
            else [(f, [x])]
        )
        if dtype.kind == "f" and name not in ("var", "argsort", "cumprod"):
            calls.append((f, [x]))
    assert_all_agree(name, calls)
