"""Backends by name, for `jit`.

Layer: 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from functrace.errors import ArgumentError

if TYPE_CHECKING:
    from functrace.executor.backend import Backend

BackendName: TypeAlias = Literal["numpy", "native"]
"""Name of a backend."""


def backend_named(name: str | None) -> Backend | None:
    """Return a backend; ``None`` for the default one, NumPy source.

    Raises:
        ArgumentError: if there is no backend of that name.
        UnsupportedFunctionError: if the backend needs a package that is not installed.
    """
    if name is None or name == "numpy":
        return None
    if name != "native":
        raise ArgumentError(
            f"jit: there is no backend {name!r}", fix='backend="numpy", or backend="native"'
        )
    from functrace.native.backend import NATIVE
    from functrace.native.llvm import machine

    machine()
    return NATIVE
