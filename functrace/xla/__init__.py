"""Programs under XLA: on CPUs, GPUs and TPUs, on one machine or many, through JAX.

A program is lowered by rows, one per primitive (`functrace.xla.rows`), to calls of ``jax.lax``; JAX
compiles and runs them. JAX is imported when the first program is lowered.

Layer: 7.
"""

from functrace.xla.lowering import Operation, register

__all__ = ["Operation", "register"]
