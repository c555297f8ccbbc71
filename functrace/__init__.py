"""functrace: functional transforms for plain NumPy.

User functions written in ordinary NumPy are recorded as explicit programs; ``grad``, ``vjp``, ``vmap`` and their kin
are transforms of those programs::

    import numpy as np, functrace as ft
    ft.grad(lambda x: np.sum(np.sin(x) ** 2))(np.arange(3.0))
"""

import typing as _typing

from functrace import ir, numpy, transforms, tree
from functrace.api.differentiate import grad, jvp, linearize, value_and_grad, vjp
from functrace.api.jit import Jitted, jit
from functrace.api.mapping import vmap
from functrace.api.programs import eval_shape, evaluate, is_traced, stop_gradient, trace, value
from functrace.caches import clear_caches
from functrace.executor.config import CONFIG as config
from functrace.ir import Program, ShapeDtype
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

__version__ = "0.2.0"

__all__ = [
    "Array", "CustomVJPPrimal", "Jitted", "Program", "ShapeDtype", "SymbolicZero", "Tracer", "associative_scan",
    "checkpoint", "checkpoint_name", "clear_caches", "closure_convert", "cond", "config", "custom_jvp",
    "custom_linear_solve", "custom_root", "custom_vjp", "custom_vmap", "disable_jit", "elementwise_grad", "eval_shape",
    "evaluate", "fori_loop", "grad", "hessian", "hvp", "ir", "is_traced", "jacfwd", "jacrev", "jit", "jvp",
    "linear_transpose", "linearize", "map", "numpy", "policies", "primitive", "pure_callback", "saved_residuals",
    "scan", "stop_gradient", "switch", "trace", "transforms", "tree", "value", "value_and_grad", "vjp", "vmap",
    "while_loop",
]  # fmt: skip

_LATER = ("compat", "debug", "nn", "policies", "random", "scipy", "testing", "torch")

_FILES = {
    "associative": ("associative_scan",),
    "batching": ("custom_vmap",),
    "control_flow": ("cond", "switch"),
    "custom": ("custom_jvp", "custom_vjp"),
    "rules": ("CustomVJPPrimal", "SymbolicZero"),
    "eager": ("disable_jit",),
    "foreign": ("primitive", "pure_callback"),
    "implicit": ("closure_convert", "custom_linear_solve", "custom_root"),
    "jacobians": ("elementwise_grad", "hessian", "hvp", "jacfwd", "jacrev"),
    "linear": ("linear_transpose",),
    "loops": ("fori_loop", "map", "scan", "while_loop"),
    "residuals": ("checkpoint", "checkpoint_name", "saved_residuals"),
}
_HOMES = {name: file for file, names in _FILES.items() for name in names}


if _typing.TYPE_CHECKING:  # so that a misspelt name is an error to type checkers
    from functrace import compat as compat
    from functrace import debug as debug
    from functrace import nn as nn
    from functrace import policies as policies
    from functrace import random as random
    from functrace import scipy as scipy
    from functrace import testing as testing
    from functrace import torch as torch
    from functrace.api.associative import associative_scan as associative_scan
    from functrace.api.batching import custom_vmap as custom_vmap
    from functrace.api.control_flow import cond as cond
    from functrace.api.control_flow import switch as switch
    from functrace.api.custom import custom_jvp as custom_jvp
    from functrace.api.custom import custom_vjp as custom_vjp
    from functrace.api.eager import disable_jit as disable_jit
    from functrace.api.foreign import primitive as primitive
    from functrace.api.foreign import pure_callback as pure_callback
    from functrace.api.implicit import closure_convert as closure_convert
    from functrace.api.implicit import custom_linear_solve as custom_linear_solve
    from functrace.api.implicit import custom_root as custom_root
    from functrace.api.jacobians import elementwise_grad as elementwise_grad
    from functrace.api.jacobians import hessian as hessian
    from functrace.api.jacobians import hvp as hvp
    from functrace.api.jacobians import jacfwd as jacfwd
    from functrace.api.jacobians import jacrev as jacrev
    from functrace.api.linear import linear_transpose as linear_transpose
    from functrace.api.loops import fori_loop as fori_loop
    from functrace.api.loops import map as map
    from functrace.api.loops import scan as scan
    from functrace.api.loops import while_loop as while_loop
    from functrace.api.residuals import checkpoint as checkpoint
    from functrace.api.residuals import checkpoint_name as checkpoint_name
    from functrace.api.residuals import saved_residuals as saved_residuals
    from functrace.api.rules import CustomVJPPrimal as CustomVJPPrimal
    from functrace.api.rules import SymbolicZero as SymbolicZero
else:

    def __getattr__(name: str) -> object:
        """Import what many programs do without, when it is first asked for."""
        import importlib

        if name in _HOMES:
            found = globals()[name] = getattr(importlib.import_module(f"functrace.api.{_HOMES[name]}"), name)
            return found
        if name in _LATER:
            return importlib.import_module(f"functrace.{name}")
        from functrace.names import unknown_name

        raise unknown_name("functrace", name, __dir__())


def __dir__() -> list[str]:
    """The public names."""
    return sorted({*__all__, "__version__", "errors", *_LATER})
