"""Rows of special functions: SciPy's ufunc, and a derivative for each of its arguments.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.primitive import NoRule, Rule, Tangents, Values, absent
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import ELEMENTWISE, Elementwise
from functrace.ops.shaping import convert
from functrace.tracing.tracer import Value
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.typing import Function

Partial = Callable[..., Any] | str | None
"""The derivative by one argument, from operands and output; a string names an argument without
one."""

TABLE: dict[str, SpecialFunction] = {}
"""Every special function by name."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpecialFunction(Elementwise):
    """A ufunc of ``scipy.special``."""

    def __reduce__(self) -> Any:
        return special_function, (self.name,)


def special_function(name: str) -> SpecialFunction:
    """Look up a special function by its name."""
    return TABLE[name]


def special(
    ufunc: np.ufunc,
    *deriv: Function[Any] | str | None,
    source: str,
    named: str = "",
    jvp: Function[Any] | None = None,
) -> SpecialFunction:
    """Make the primitive of a SciPy ufunc, and add it to the table.

    Args:
        ufunc: SciPy's function.
        deriv: per operand, the partial derivative ``(*operands, output) -> factor``; or the
            argument's name, if it has none: then a derivative raises, instead of being 0.
        source: source of the formula: a DLMF number, or what it follows from.
        named: name in listings, if it is not the ufunc's.
        jvp: the rule itself, for functions with several results.
    """
    name = named or ufunc.__name__
    made = SpecialFunction(
        name,
        eval=ufunc,
        aval=ew.ufunc_aval(name, ufunc),
        jvp=_in_loop_dtypes(ufunc, jvp if jvp is not None else _jvp_of(name, ufunc, deriv)),
        transpose=absent(
            because=f"scipy.special.{name} is not linear",
            instead="differentiate with functrace.vjp or functrace.grad instead",
        ),
        batch=ELEMENTWISE,
        many=ufunc.nout > 1,
        source=source,
    )
    assert name not in TABLE, f"two rows for {name}"
    TABLE[name] = made
    ew.UFUNCS[ufunc] = made
    return made


def no_derivative(function: str, argument: str) -> NoRule:
    """Return the rule of an argument without derivative."""
    return absent(
        because=f"scipy.special.{function} has no derivative by its argument {argument} here",
        instead=f"hold {argument} constant with functrace.stop_gradient, or give the function a "
        "derivative by it with "
        "functrace.custom_jvp",
    )


def _jvp_of(name: str, ufunc: np.ufunc, deriv: tuple[Partial, ...]) -> Rule:
    assert len(deriv) == ufunc.nin, name
    partials = [no_derivative(name, d) if isinstance(d, str) else d for d in deriv]
    counts = [all(loop[k] == "l" for loop in ufunc.types) for k in range(ufunc.nin)]

    def jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
        output, total = outputs[0], None
        operands = [
            x if integer else typed(x, output) for x, integer in zip(primals, counts, strict=True)
        ]
        for tangent, partial in zip(tangents, partials, strict=True):
            if tangent is not None and partial is not None:
                total = ew.plus(total, ew.mul(tangent, partial(*operands, output)))
        return total

    return jvp


def _in_loop_dtypes(ufunc: np.ufunc, rule: Rule) -> Rule:
    """Return the rule with operands, and tangents to be added, in the dtypes of the ufunc's
    loop."""

    def jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
        operands = ew.in_loop_dtypes(ufunc, primals, outputs[0])
        if operands is not primals:
            tangents = tuple(
                [
                    t if t is None else convert(t, x.dtype)
                    for t, x in zip(tangents, operands, strict=True)
                ]
            )
        return rule(operands, outputs, tangents)

    return jvp


def typed(x: Value, output: Array) -> Any:
    """Cast a Python number to the output's precision, for computations with it alone."""
    if x.__class__ is not float and x.__class__ is not int:
        return x
    kind: Any = output.dtype.type(0)
    return kind.real.dtype.type(x)


def whole(n: Value) -> Any:
    """Return an order given as a float as an integer: SciPy truncates it with a warning."""
    return ew.trunc(n) if getattr(n, "dtype", np.dtype(int)).kind == "f" else n


def real_only(name: str, x: Array) -> None:
    """Raise for a derivative of a function by complex numbers.

    Raises:
        NotDifferentiableError: if the operand is complex.
    """
    if x.dtype.kind == "c":
        raise NotDifferentiableError(
            f"scipy.special.{name} has no derivative of complex numbers here",
            fix="pass real numbers, or give the function a derivative with functrace.custom_jvp",
        )


def kept(condition: Array, x: Value, instead: float) -> Any:
    """Select the operand where a formula is valid, elsewhere a safe number."""
    return ew.where(condition, x, instead)
