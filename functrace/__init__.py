"""functrace: functional transforms for plain NumPy.

User functions written in ordinary NumPy are recorded as explicit programs; ``grad``, ``vjp``,
``vmap`` and related transforms work on those programs::

    import numpy as np, functrace as ft
    ft.grad(lambda x: np.sum(np.sin(x) ** 2))(np.arange(3.0))
"""

import typing as _typing

from functrace import ir, numpy, transforms, tree
from functrace.api.batching.mapping import vmap
from functrace.api.capture.programs import (
    eval_shape,
    evaluate,
    is_traced,
    stop_gradient,
    trace,
    value,
)
from functrace.api.differentiation.gradients import grad, jvp, linearize, value_and_grad, vjp
from functrace.api.staging.jitted import jit
from functrace.caches import clear_caches
from functrace.executor.config import CONFIG as config
from functrace.ir import Program, ShapeDtype
from functrace.lazy import homes_of as _homes_of
from functrace.lazy import lazy_attributes as _lazy_attributes
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

__version__ = "0.2.0"

__all__ = [
    "Array", "Program", "ShapeDtype", "Tracer", "associative_scan", "checkpoint",
    "checkpoint_name", "clear_caches",
    "closure_convert", "cond", "config", "custom_jvp", "custom_linear_solve", "custom_root",
    "custom_vjp",
    "custom_vmap", "disable_jit", "elementwise_grad", "eval_shape", "evaluate", "export",
    "fori_loop", "from_jax", "grad", "hessian", "hvp",
    "ir", "is_traced", "jacfwd", "jacrev", "jet", "jit", "jvp", "laplacian",
    "linear_transpose", "linearize", "load", "map", "memory_plan",
    "numpy", "plan", "policies",
    "primitive", "pure_callback", "residual_policy", "save", "saved_residuals", "scan", "show",
    "sparse_hessian",
    "sparse_jacobian", "stop_gradient", "strong_zero", "switch", "taylor", "to_jax",
    "to_torch", "trace",
    "transforms", "tree",
    "value", "value_and_grad", "vjp", "vmap", "while_loop",
]  # fmt: skip

_FILES = {
    "api.bridges.jax_functions": "from_jax to_jax",
    "api.bridges.torch_functions": "to_torch",
    "api.control_flow.associative": "associative_scan",
    "api.control_flow.branches": "cond switch",
    "api.control_flow.loops": "fori_loop map scan while_loop",
    "api.custom_rules.batching": "custom_vmap",
    "api.custom_rules.derivatives": "custom_jvp custom_vjp",
    "api.custom_rules.foreign": "primitive pure_callback",
    "api.custom_rules.implicit": "closure_convert custom_linear_solve custom_root",
    "api.differentiation.jacobians": "elementwise_grad hessian hvp jacfwd jacrev",
    "api.differentiation.linear": "linear_transpose",
    "api.differentiation.strong_zeros": "strong_zero",
    "api.differentiation.taylor": "jet laplacian taylor",
    "api.residuals.checkpointing": "checkpoint checkpoint_name",
    "api.residuals.listing": "saved_residuals",
    "api.residuals.context": "residual_policy",
    "api.residuals.memory": "memory_plan",
    "api.residuals.plans": "plan",
    "api.staging.disabling": "disable_jit",
    "api.staging.exporting": "export",
    "saving.trees": "load save",
    "scipy.sparse.derivatives": "sparse_hessian sparse_jacobian",
    "viz.show": "show",
    **dict.fromkeys(
        (
            "compat", "custom_derivatives", "debug", "distributed", "nn", "optim", "policies", "random",
            "scipy", "stages", "testing", "torch",
        ),
        "",
    ),
}  # fmt: skip
"""Submodules that are imported at first use, and the functions that each defines."""


if _typing.TYPE_CHECKING:  # so that type checkers report a misspelt name
    from functrace import compat as compat
    from functrace import custom_derivatives as custom_derivatives
    from functrace import debug as debug
    from functrace import distributed as distributed
    from functrace import nn as nn
    from functrace import optim as optim
    from functrace import policies as policies
    from functrace import random as random
    from functrace import scipy as scipy
    from functrace import stages as stages
    from functrace import testing as testing
    from functrace import torch as torch
    from functrace.api.bridges.jax_functions import from_jax as from_jax
    from functrace.api.bridges.jax_functions import to_jax as to_jax
    from functrace.api.bridges.torch_functions import to_torch as to_torch
    from functrace.api.control_flow.associative import associative_scan as associative_scan
    from functrace.api.control_flow.branches import cond as cond
    from functrace.api.control_flow.branches import switch as switch
    from functrace.api.control_flow.loops import fori_loop as fori_loop
    from functrace.api.control_flow.loops import map as map
    from functrace.api.control_flow.loops import scan as scan
    from functrace.api.control_flow.loops import while_loop as while_loop
    from functrace.api.custom_rules.batching import custom_vmap as custom_vmap
    from functrace.api.custom_rules.derivatives import custom_jvp as custom_jvp
    from functrace.api.custom_rules.derivatives import custom_vjp as custom_vjp
    from functrace.api.custom_rules.foreign import primitive as primitive
    from functrace.api.custom_rules.foreign import pure_callback as pure_callback
    from functrace.api.custom_rules.implicit import closure_convert as closure_convert
    from functrace.api.custom_rules.implicit import custom_linear_solve as custom_linear_solve
    from functrace.api.custom_rules.implicit import custom_root as custom_root
    from functrace.api.differentiation.jacobians import elementwise_grad as elementwise_grad
    from functrace.api.differentiation.jacobians import hessian as hessian
    from functrace.api.differentiation.jacobians import hvp as hvp
    from functrace.api.differentiation.jacobians import jacfwd as jacfwd
    from functrace.api.differentiation.jacobians import jacrev as jacrev
    from functrace.api.differentiation.linear import linear_transpose as linear_transpose
    from functrace.api.differentiation.strong_zeros import strong_zero as strong_zero
    from functrace.api.differentiation.taylor import jet as jet
    from functrace.api.differentiation.taylor import laplacian as laplacian
    from functrace.api.differentiation.taylor import taylor as taylor
    from functrace.api.residuals.checkpointing import checkpoint as checkpoint
    from functrace.api.residuals.checkpointing import checkpoint_name as checkpoint_name
    from functrace.api.residuals.context import residual_policy as residual_policy
    from functrace.api.residuals.listing import saved_residuals as saved_residuals
    from functrace.api.residuals.memory import memory_plan as memory_plan
    from functrace.api.residuals.plans import plan as plan
    from functrace.api.staging.disabling import disable_jit as disable_jit
    from functrace.api.staging.exporting import export as export
    from functrace.saving.trees import load as load
    from functrace.saving.trees import save as save
    from functrace.scipy.sparse.derivatives import sparse_hessian as sparse_hessian
    from functrace.scipy.sparse.derivatives import sparse_jacobian as sparse_jacobian
    from functrace.viz.show import show as show
else:
    __getattr__, __dir__ = _lazy_attributes(
        "functrace", (*__all__, "__version__", "errors"), _homes_of(_FILES)
    )
