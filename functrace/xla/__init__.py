"""Programs under XLA: on CPUs, GPUs and TPUs, on one machine or many, through JAX.

A program is lowered by rows, one per primitive (`functrace.xla.rows`), to calls of ``jax.lax``; JAX
compiles and runs them. JAX is imported when the first program is lowered.

Layer: 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functrace.xla.lowering import Operation, register

__all__ = ["Operation", "register"]


if not TYPE_CHECKING:  # so that type checkers report a misspelt name

    def __getattr__(name: str) -> object:
        """Import the lowering, and with it JAX, when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module 'functrace.xla' has no attribute {name!r}")
        from functrace.xla import lowering

        return getattr(lowering, name)
