"""The rows of the tables of packages, and the trials of one row: derivatives against differences,
`jit`, `vmap`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

import functrace as ft
from functrace.compat.autograd import replace_autograd
from functrace.errors import ConcretizationError, FunctraceError
from tests.oracles import differences

COLUMNS = ("gradient", "second", "jit", "vmap")


@dataclass(frozen=True)
class Row:
    """A function of a package.

    Args:
        function: what is called, as the package's documentation has it.
        call: a function of one array that returns a number; or, with ``expected``, of nothing.
        at: where it is differentiated, for comparison with differences.
        expected: what it returns, where there is nothing to differentiate.
        rtol: relative to the largest element.
    """

    function: str
    call: Callable[..., Any]
    at: Any = None
    expected: Callable[[], Any] | None = None
    rtol: float = 1e-6


@dataclass(frozen=True)
class Package:
    """A package, and its table.

    Args:
        name: its name in the package index.
        module: what is imported, and named in ``lift(modules=[...])``.
        rows: imports the package, and registers what there is to register.
        on: how it comes to run on functrace; "" if it knows NumPy only, which is tried plainly,
            then under `lift`.
    """

    name: str
    module: str
    rows: Callable[[], Sequence[Row]]
    on: Literal["", "a backend", "autograd's names"] = ""


@dataclass(frozen=True)
class Found:
    """The result of trying one row.

    Args:
        function: the row's.
        way: how it is called where its gradient is right; "raises" otherwise.
        marks: by column, what stands there: ✓, –, "reads values", "raises", or "wrong" and
            "breaks", which are defects.
        note: what errors said first.
    """

    function: str
    way: str
    marks: dict[str, str]
    note: str
    defects: list[str] = field(default_factory=list)


def found(package: Package, row: Row) -> Found:
    """Try a row in the ways that there are until its gradient is right, and then the other columns."""
    result = Found(row.function, "raises", {}, "")
    if row.expected is None:
        row.call(np.asarray(row.at, float))  # it has to run as it is
    for way, dressed in _ways(package):
        result = _tried(row, way, dressed(row.call))
        if result.marks["gradient"] != "raises":
            break
    return result


def _ways(package: Package) -> list[tuple[str, Callable[[Any], Any]]]:
    if package.on:
        return [(package.on, lambda f: f)]
    return [
        ("plainly", lambda f: f),
        ("`lift`", lambda f: ft.numpy.lift(f)),
        (
            f'`lift(modules=["{package.module}"])`',
            lambda f: ft.numpy.lift(f, modules=[package.module]),
        ),
    ]


def _tried(row: Row, way: str, f: Callable[..., Any]) -> Found:
    marks, notes, defects = {}, {}, []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for column, attempt in _attempts(row, f).items():
            try:
                marks[column] = attempt()
            except ConcretizationError:
                marks[column] = "reads values"
            except AssertionError as error:
                marks[column] = "wrong"
                defects.append(f"{column}: {error}")
            except FunctraceError as error:
                marks[column] = "raises"
                notes.setdefault(str(error).splitlines()[0].replace("|", "/"), []).append(column)
            except Exception as error:
                said = f"{type(error).__name__}: {error}".splitlines()[0]
                if _is_own(error):
                    marks[column] = "breaks"
                    defects.append(f"{column}: {said}")
                else:
                    marks[column] = "raises"
                    notes.setdefault(said.replace("|", "/"), []).append(column)
            if marks["gradient"] == "raises":
                marks = dict.fromkeys(COLUMNS, "–") | marks
                return Found(row.function, "raises", marks, next(iter(notes)), defects)
    return Found(
        row.function,
        way,
        marks,
        "; ".join(f"{', '.join(c)}: {note}" for note, c in notes.items()),
        defects,
    )


def _is_own(error: BaseException) -> bool:
    """Return if an exception that is none of functrace's comes from its code, not from the
    package's.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return (
        last is not None
        and last.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "functrace"
    )


def _attempts(row: Row, f: Callable[..., Any]) -> dict[str, Callable[[], str]]:
    if row.expected is not None:
        return {
            "gradient": lambda: _same(row.call(), row.expected(), row.rtol),
            **dict.fromkeys(COLUMNS[1:], lambda: "–"),
        }  # type: ignore[misc]
    x = np.asarray(row.at, float)
    direction = np.cos(np.arange(1.0, x.size + 1.0)).reshape(x.shape) * (0.5 + np.abs(x))
    gradient = ft.grad(f)

    def first() -> str:
        backward = gradient(x)  # first: where it raises, nothing else is computed
        (expected,) = differences(row.call, [x], [direction])
        _same(np.sum(backward * direction), expected, row.rtol)
        assert type(row.call(x)) is type(f(x))
        return _same(ft.jvp(f, (x,), (direction,))[1], expected, row.rtol)

    def second() -> str:
        (expected,) = differences(gradient, [x], [direction])
        found = ft.jvp(gradient, (x,), (direction,))[1]
        return _same(found, expected, 10.0 * row.rtol, atol=1e-8 * np.max(np.abs(gradient(x))))

    def staged() -> str:
        return _same(ft.jit(gradient)(x), gradient(x), 1e-9)

    def batch() -> str:
        points = np.stack([x, 1.01 * x])
        return _same(
            ft.vmap(gradient)(points), np.stack([gradient(point) for point in points]), 1e-9
        )

    return {"gradient": first, "second": second, "jit": staged, "vmap": batch}


def _same(found: Any, expected: Any, rtol: float, atol: float = 1e-300) -> str:
    found, expected = np.asarray(found), np.asarray(expected)
    scale = np.max(np.abs(expected), initial=0.0)
    assert found.shape == expected.shape, f"{found} instead of {expected}"
    assert np.all(np.abs(found - expected) <= rtol * scale + atol), f"{found} instead of {expected}"
    return "✓"


@contextmanager
def _set_aside(*packages: str) -> Iterator[None]:
    """Leave the modules of packages as they are found: what is imported in the block is not left
    behind.
    """
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    kept = {name: sys.modules.pop(name) for name in names}
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
            del sys.modules[name]
        sys.modules.update(kept)


def imported(
    *names: str, on: Literal["functrace", "autograd"] = "functrace", **environment: str
) -> Any:
    """Import modules anew, with autograd replaced or with HIPS autograd; returns the first.

    Args:
        names: dotted names; their packages, all that is named included, are imported anew, and not
            left behind.
        on: whose autograd they import.
        environment: variables that are set meanwhile.
    """
    packages = dict.fromkeys([name.partition(".")[0] for name in names])
    with pytest.MonkeyPatch.context() as patch, _set_aside(*packages):
        for key, value in environment.items():
            patch.setenv(key, value)
        with replace_autograd(*packages) if on == "functrace" else nullcontext():
            modules = [importlib.import_module(name) for name in names]
            return modules[0]
