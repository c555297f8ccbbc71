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
from benchmarks.work import AUTO, NATIVE, NUMPY, XLA, Target, Work, jitted, xla

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


MACHINE_CODE = {
    "jit-rosen": (Target(0.08, "jax", system=NATIVE), Target(1.0, "casadi", system=NATIVE)),
    "jit-600": (Target(0.5, "jax", system=NATIVE),),
    "jit-elementwise": (Target(0.45, "torch.compile", system=NATIVE),),
    "jit-elementwise-f64": (Target(0.5, "torch.compile", system=NATIVE),),
    "jit-scan-small": (Target(0.5, "jax", system=NATIVE),),
    "jit-stencil": (Target(0.4, system=NATIVE),),
    "jit-small-kalman": (Target(0.05, "jax", system=NATIVE),),
    "jit-small-ilqr": (Target(0.1, "jax", system=NATIVE),),
    "jit-small-nbody": (Target(0.3, "jax", system=NATIVE),),
    "jit-small-runge-kutta": (Target(0.25, "jax", system=NATIVE),),
    "jit-small-hmm": (Target(0.5, "jax", system=NATIVE),),
    "jit-small-quantum": (Target(0.5, "jax", system=NATIVE),),
}
"""Targets of machine code, by work; the programs of `jit_research` have `RESEARCH`."""
RESEARCH = (Target(1.0, "jax", system=NATIVE),)
ANY_BACKEND = (Target(1.05, NUMPY, system=AUTO), Target(1.3, "jax", system=XLA))
"""Targets of every jitted work: "auto" is never slower than NumPy code."""


def _with_backends(work: Work) -> Work:
    """Add the backends of `jit` to the systems of a jitted work, and their targets."""
    if not work.id.startswith("jit-"):
        return work
    own = work.systems["functrace"]
    made = {name: jitted(own, name.split()[-1]) for name in (NATIVE, NUMPY, AUTO)}
    targets = MACHINE_CODE.get(work.id, RESEARCH if work.id.startswith("jit-research") else ())
    return replace(
        work,
        systems={**work.systems, **made, XLA: work.systems.get(XLA) or xla(own)},
        targets=(*work.targets, *targets, *ANY_BACKEND),
    )


WORKS: dict[str, Work] = {
    work.id: _with_backends(work) for module in MODULES for work in module.WORKS
}
