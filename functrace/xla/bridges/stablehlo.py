"""Programs as modules of StableHLO, through ``jax.export``.

Layer: 7.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import final

import jax
from jax import export

from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.ir.program import Program
from functrace.passes import optimized
from functrace.xla import program as xla_program
from functrace.xla.bridges.own_rules import without_failed
from functrace.xla.checks import CheckedErrors, Failures
from functrace.xla.lowering import PLAIN, Value, walk

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""Platforms of JAX."""


@final
class StableHLO(bytes):
    """A program for other machines: the bytes that ``jax.export.deserialize`` reads."""

    def mlir_module(self) -> str:
        """Return the module as text of MLIR."""
        return str(export.deserialize(bytearray(self)).mlir_module())


def to_stablehlo(program: Program, platforms: Sequence[str]) -> StableHLO:
    """Export a program; see `Program.to_stablehlo`."""
    unknown = [word for word in platforms if word not in PLATFORMS]
    if unknown or isinstance(platforms, str) or not platforms:
        raise ArgumentError(
            f"to_stablehlo: platforms={platforms!r}", fix=f"a list of some of {list(PLATFORMS)}"
        )
    if importlib.util.find_spec("flatbuffers") is None:
        raise UnsupportedFunctionError(
            "to_stablehlo needs the package flatbuffers", fix="pip install functrace-numpy[xla]"
        )
    ready = optimized(program, xla_program.BEFORE_LOWERING)

    def run(*values: Value) -> list[object]:
        failures = Failures(CheckedErrors())
        try:
            results = walk(ready, values, failures, PLAIN)
        except UnsupportedFunctionError as error:
            if "host_callbacks=" in (error.fix or ""):
                error.amend(
                    fix="a module for other machines cannot call Python: leave that operation out"
                )
            raise
        if not failures.is_empty and any(y.dtype.kind not in "fc" for y in results):
            raise UnsupportedFunctionError(
                f"{program.name} checks its values, and a module cannot raise: it returns NaN, which "
                "its results that are no floats do not have",
                fix="return floats only, or check the values before",
            )
        return without_failed(results, failures, reported=False)

    run.__name__ = run.__qualname__ = program.name
    avals = [ready.avals[i] for i in ready.input_ids]
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct(tuple(a.shape), a.dtype) for a in avals]
        made = export.export(jax.jit(run), platforms=list(platforms))(*shapes)
    return StableHLO(bytes(made.serialize()))
