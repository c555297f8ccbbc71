"""Backends by name, for `jit`.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from functrace.errors import ArgumentError
from functrace.executor.config import CONFIG
from functrace.executor.runner import HOT, OFTEN, VERY_OFTEN

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from functrace.executor.backend import Backend
    from functrace.ir.program import Program
    from functrace.xla.program import XlaBackend

BackendName: TypeAlias = Literal["numpy", "native", "auto", "xla"]
"""Name of a backend."""

Accuracy: TypeAlias = Literal["ulp", "numpy"]
"""Distance of the results of machine code from NumPy's: rounding ("ulp"), or none."""


class WhenHot(NamedTuple):
    """NumPy source first; machine code for programs that run often.

    Args:
        calls: calls after which a program is compiled.
        is_exact: True for programs whose results then equal NumPy's to the bit.
    """

    calls: int
    is_exact: bool


def compile_hot(
    program: Callable[[], Program], ready: Callable[[Any], None], is_exact: bool
) -> None:
    """Compile the program of an un-jitted transform to machine code, in the background.

    Args:
        program: makes the program.
        ready: called in another thread with the function of machine code.
        is_exact: True if results have to equal NumPy's to the bit.
    """
    from functrace.api.staging import background

    background.compile_hot(program, ready, is_exact)


HOT.append(compile_hot)


def is_for_xla(backend: object) -> TypeIs[XlaBackend]:
    """Return True if a backend compiles programs with XLA; imports nothing."""
    return hasattr(backend, "keep_on_device")


def check_accuracy(accuracy: str, owner: str) -> None:
    """Check the name of an accuracy.

    Raises:
        ArgumentError: if there is none of this name.
    """
    if accuracy not in ("ulp", "numpy"):
        raise ArgumentError(
            f"{owner}: there is no accuracy {accuracy!r}", fix='accuracy="ulp" or accuracy="numpy"'
        )


def chosen_backend(
    name: str | None, accuracy: str = "ulp", **on_device: object
) -> Backend | WhenHot | XlaBackend | None:
    """Return a backend; ``None`` for NumPy source.

    Args:
        name: its name; ``None`` for the default, see `functrace.config`.
        accuracy: distance of the results of machine code from NumPy's.
        on_device: the choices of `XlaBackend`, which have no meaning for the others.

    Raises:
        ArgumentError: if there is no backend or accuracy of that name, or if the backend has no
            choice.
        UnsupportedFunctionError: if the backend needs a package that is not installed.
    """
    check_accuracy(accuracy, "jit")
    is_exact = accuracy == "numpy"
    if name == "xla":
        from functrace.xla.program import XlaBackend, check_installed

        if is_exact:
            raise ArgumentError(
                'jit: XLA does not keep NumPy\'s bits: accuracy="numpy" with backend="xla"',
                fix='backend="native" or backend="numpy"',
            )
        check_installed()
        return XlaBackend(**on_device)  # type: ignore[arg-type]
    for word, value in on_device.items():
        if value is not None and value is not False and value != frozenset():
            raise ArgumentError(
                f'jit: {word}= is a choice of backend="xla", but backend={name!r}',
                fix='backend="xla"',
            )
    if name is None:
        setting = CONFIG.native
        if setting is False:
            return None
        return WhenHot(OFTEN, is_exact) if setting else WhenHot(VERY_OFTEN, is_exact=True)
    if name == "numpy":
        if is_exact:
            raise ArgumentError(
                'jit: accuracy="numpy" is a choice of machine code, but backend="numpy"',
                fix="omit accuracy; this backend always has NumPy's results",
            )
        return None
    if name not in ("native", "auto"):
        raise ArgumentError(
            f"jit: there is no backend {name!r}",
            fix='backend="numpy", backend="native", backend="auto" or backend="xla"',
        )
    from functrace.native.backend import EXACT, NATIVE
    from functrace.native.llvm import machine

    machine()
    if name == "auto":
        return WhenHot(OFTEN, is_exact)
    return EXACT if is_exact else NATIVE
