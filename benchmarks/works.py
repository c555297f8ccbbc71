"""All works, in the order of the table."""

from __future__ import annotations

from dataclasses import replace

from benchmarks import (
    cold_600,
    eager_loop,
    eager_nested,
    eager_rosen,
    eager_scalar,
    exported,
    import_time,
    jit_600,
    jit_attention,
    jit_elementwise,
    jit_gp,
    jit_hessian,
    jit_mlp,
    jit_research,
    jit_rnn,
    jit_rosen,
    jit_rowwise,
    jit_scan_small,
    jit_small,
    jit_stencil,
    shim,
    train,
    vmap_pergrad,
)
from benchmarks.work import NATIVE, Work, native

MODULES = (
    eager_rosen,
    eager_scalar,
    eager_loop,
    eager_nested,
    cold_600,
    jit_rosen,
    jit_600,
    jit_elementwise,
    jit_rowwise,
    jit_mlp,
    jit_attention,
    jit_gp,
    jit_rnn,
    jit_scan_small,
    jit_hessian,
    jit_stencil,
    jit_small,
    jit_research,
    exported,
    vmap_pergrad,
    shim,
    train,
    import_time,
)


def _with_native(work: Work) -> Work:
    """Add machine code to the systems of a jitted work."""
    if not work.id.startswith("jit-"):
        return work
    made = native(work.systems["functrace"])
    return replace(work, systems={**work.systems, NATIVE: made})


WORKS: dict[str, Work] = {
    work.id: _with_native(work) for module in MODULES for work in module.WORKS
}
