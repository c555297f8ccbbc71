"""Primitives with sub-programs: call, cond, scan, custom rules, solvers; and the residual policies
of a call.

Each has the five rules, built from transforms of its sub-programs. Sub-programs are closed: values
that a user's function captures are operands. A file is imported when one of its primitives is first
accessed.

Layer: 5.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from functrace.ir.primitive import Primitive, add_primitives
from functrace.lazy import LazyTable

if TYPE_CHECKING:
    from functrace.control.call import call_p as call_p
    from functrace.control.checkpointed_forward import (
        checkpointed_forward_p as checkpointed_forward_p,
    )
    from functrace.control.checkpointed_loop import (
        checkpointed_loop_p as checkpointed_loop_p,
    )
    from functrace.control.checkpointed_loop import (
        checkpointed_tangents_p as checkpointed_tangents_p,
    )
    from functrace.control.checkpointed_reverse import (
        checkpointed_reverse_p as checkpointed_reverse_p,
    )
    from functrace.control.cond import cond_p as cond_p
    from functrace.control.custom import custom_batch_p as custom_batch_p
    from functrace.control.custom import custom_derivative_p as custom_derivative_p
    from functrace.control.custom import custom_jvp_p as custom_jvp_p
    from functrace.control.custom import custom_vjp_p as custom_vjp_p
    from functrace.control.custom import pushforward_p as pushforward_p
    from functrace.control.linear_solve import linear_solve_p as linear_solve_p
    from functrace.control.residuals import pack_p as pack_p
    from functrace.control.residuals import unpack_p as unpack_p
    from functrace.control.root import root_p as root_p
    from functrace.control.scan import scan_p as scan_p
    from functrace.control.strong_products import strong_both as strong_both
    from functrace.control.strong_products import strong_contraction_p as strong_contraction_p
    from functrace.control.strong_products import strong_div as strong_div
    from functrace.control.strong_products import strong_mul as strong_mul
    from functrace.control.strong_zero import strong_zero_p as strong_zero_p
    from functrace.control.while_loop import while_p as while_p

_FILES = {  # (the file that has to be imported: checkpointed_loop imports those of its parts)
    "call_p": "call",
    "checkpointed_forward_p": "checkpointed_loop",
    "checkpointed_loop_p": "checkpointed_loop",
    "checkpointed_reverse_p": "checkpointed_loop",
    "checkpointed_tangents_p": "checkpointed_loop",
    "cond_p": "cond",
    "custom_batch_p": "custom",
    "custom_derivative_p": "custom",
    "custom_jvp_p": "custom",
    "custom_vjp_p": "custom",
    "linear_solve_p": "linear_solve",
    "pack_p": "residuals",
    "pushforward_p": "custom",
    "root_p": "root",
    "scan_p": "scan",
    "strong_both": "strong_products",
    "strong_contraction_p": "strong_products",
    "strong_div": "strong_products",
    "strong_mul": "strong_products",
    "strong_zero_p": "strong_zero",
    "unpack_p": "residuals",
    "while_p": "while_loop",
}


def _collect() -> None:
    for name in _FILES:
        primitive = __getattr__(name)
        PRIMITIVES[primitive.name] = primitive


PRIMITIVES: LazyTable[str, Primitive] = LazyTable(_collect)
"""Every primitive of this package by name."""

add_primitives(PRIMITIVES)

__all__ = ["PRIMITIVES", *_FILES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Primitive:
    if name not in _FILES:
        raise AttributeError(f"functrace.control has no {name}")
    return getattr(importlib.import_module(f"functrace.control.{_FILES[name]}"), name)
