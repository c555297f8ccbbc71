"""What each file here is made of: rows that say which function of a package is differentiated, how, and at what."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

import functrace as ft
from functrace.compat.autograd import replace_autograd
from tests.oracles import differences


@dataclass(frozen=True)
class Row:
    """A function of a package.

    Args:
        package: its name in the package index.
        function: what is called, as the package's documentation has it.
        how: ``"plain"``; under ``"lift"``; with functrace as a ``"backend"``; imported with ``"autograd"`` replaced.
        call: a function of one array that returns a number; or, with ``expected``, of nothing.
        at: where it is differentiated, for comparison with differences.
        expected: what it returns.
        rtol: relative to the largest element.
    """

    package: str
    function: str
    how: Literal["plain", "lift", "backend", "autograd"]
    call: Callable[..., Any]
    at: Any = None
    expected: Callable[[], Any] | None = None
    rtol: float = 1e-6


def failures(rows: Sequence[Row]) -> list[str]:
    """Return what is wrong, a line per row."""
    return [f"{row.package} {row.function}: {found}" for row in rows if (found := _wrong(row))]


def _wrong(row: Row) -> str:
    if row.expected is not None:
        return _differs(row.call(), row.expected(), row.rtol)
    x = np.asarray(row.at)
    direction = np.cos(np.arange(1.0, x.size + 1.0)).reshape(x.shape) * (0.5 + np.abs(x))
    (expected,) = differences(row.call, [x], [direction])
    f = ft.numpy.lift(row.call) if row.how == "lift" else row.call
    backward = np.sum(ft.grad(f)(x) * direction)
    forward = ft.jvp(f, (x,), (direction,))[1]
    return _differs(backward, expected, row.rtol) or _differs(forward, expected, row.rtol)


def _differs(found: Any, expected: Any, rtol: float) -> str:
    found, expected = np.asarray(found), np.asarray(expected)
    scale = np.max(np.abs(expected), initial=1e-300)
    if found.shape == expected.shape and np.all(np.abs(found - expected) <= rtol * scale):
        return ""
    return f"{found} instead of {expected}"


def needs(package: str) -> None:
    """Skip a file unless a package is installed, without importing it."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)


@contextmanager
def _set_aside(*packages: str) -> Iterator[None]:
    """Leave the modules of packages as they are found: what is imported in the block is not left behind."""
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    kept = {name: sys.modules.pop(name) for name in names}
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
            del sys.modules[name]
        sys.modules.update(kept)


def imported(*names: str, on: Literal["functrace", "autograd"] = "functrace", **environment: str) -> Any:
    """Import modules anew, with autograd replaced or with HIPS autograd; returns the first.

    Args:
        names: dotted names; their packages, all that is named included, are imported anew, and not left behind.
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
