"""Primitives that hold programs: call, cond, scan, custom rules, solvers; and the residual policies of a call.

Each has the five rules, made of the transforms of what it holds. Programs held are closed: what a user's function
captured is an operand.

Floor: 4.
"""

from functrace.control.call import call_p
from functrace.control.cond import cond_p
from functrace.control.custom import custom_batch_p, custom_derivative_p, custom_jvp_p, custom_vjp_p, pushforward_p
from functrace.control.linear_solve import linear_solve_p
from functrace.control.residuals import pack_p, unpack_p
from functrace.control.root import root_p
from functrace.control.scan import scan_p
from functrace.control.while_loop import while_p

PRIMITIVES = {
    p.name: p
    for p in (
        call_p,
        cond_p,
        custom_batch_p,
        custom_derivative_p,
        custom_jvp_p,
        custom_vjp_p,
        linear_solve_p,
        pack_p,
        pushforward_p,
        root_p,
        scan_p,
        unpack_p,
        while_p,
    )
}
"""Every primitive of this room by name."""

__all__ = [
    "PRIMITIVES", "call_p", "cond_p", "custom_batch_p", "custom_derivative_p", "custom_jvp_p", "custom_vjp_p",
    "linear_solve_p", "pack_p", "pushforward_p", "root_p", "scan_p", "unpack_p", "while_p",
]  # fmt: skip
