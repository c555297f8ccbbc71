"""Backends by name, for `jit`.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from functrace.errors import ArgumentError
from functrace.executor.config import CONFIG
from functrace.executor.runner import HOT

if TYPE_CHECKING:
    from functrace.executor.backend import Backend
    from functrace.ir.program import Program

BackendName: TypeAlias = Literal["numpy", "native", "auto"]
"""Name of a backend."""

Accuracy: TypeAlias = Literal["ulp", "numpy"]
"""Distance of the results of machine code from NumPy's: rounding ("ulp"), or none."""


AUTO: Final[Literal["auto"]] = "auto"
"""NumPy source first; machine code for programs that run often."""


def compile_hot(program: Callable[[], Program], ready: Callable[[Any], None]) -> None:
    """Compile the program of an un-jitted transform to machine code, in the background.

    Args:
        program: makes the program.
        ready: called in another thread with the function of machine code.
    """
    from functrace.api.staging import background

    background.compile_hot(program, ready)


HOT.append(compile_hot)


def check_accuracy(accuracy: str, owner: str) -> None:
    """Check the name of an accuracy.

    Raises:
        ArgumentError: if there is none of this name.
    """
    if accuracy not in ("ulp", "numpy"):
        raise ArgumentError(
            f"{owner}: there is no accuracy {accuracy!r}", fix='accuracy="ulp" or accuracy="numpy"'
        )


def exact_backend(accuracy: str, backend: str | None) -> Backend | None:
    """Return the backend of machine code with NumPy's results; ``None`` where rounding may differ.

    Args:
        accuracy: distance of the results from NumPy's.
        backend: name of the backend that `jit` was called with.

    Raises:
        ArgumentError: if there is no such accuracy, or if the backend has no choice.
        UnsupportedFunctionError: if llvmlite is not installed.
    """
    check_accuracy(accuracy, "jit")
    if accuracy == "ulp":
        return None
    if backend != "native":
        raise ArgumentError(
            f'jit: accuracy="numpy" is a choice of backend="native", but backend={backend!r}',
            fix='backend="native"; the backend "numpy" always has NumPy\'s results',
        )
    from functrace.native.backend import EXACT
    from functrace.native.llvm import machine

    machine()
    return EXACT


def backend_named(name: str | None) -> Backend | Literal["auto"] | None:
    """Return a backend; ``None`` for NumPy source.

    Args:
        name: its name; ``None`` for the default, see `functrace.config`.

    Raises:
        ArgumentError: if there is no backend of that name.
        UnsupportedFunctionError: if the backend needs a package that is not installed.
    """
    if name is None:
        name = AUTO if CONFIG.native else "numpy"
    if name == "numpy":
        return None
    if name not in ("native", AUTO):
        raise ArgumentError(
            f"jit: there is no backend {name!r}",
            fix='backend="numpy", backend="native" or backend="auto"',
        )
    from functrace.native.backend import NATIVE
    from functrace.native.llvm import machine

    machine()
    return AUTO if name == AUTO else NATIVE
