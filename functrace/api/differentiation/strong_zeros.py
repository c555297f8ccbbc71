"""``strong_zero``: zero cotangents stay zero, whatever the local derivatives are.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.api.capture.arguments import function_name
from functrace.api.capture.record import Operands, stage
from functrace.api.capture.results import whole_result
from functrace.api.capture.transformed import transformed
from functrace.control.strong_zero import strong_program
from functrace.errors import entry
from functrace.numpy.arrays.traced_number import as_number
from functrace.tree import unflatten
from functrace.typing import P, R


@entry
def strong_zero(f: Callable[P, R]) -> Callable[P, R]:
    """Make a function with the values of ``f``, in whose derivatives a tangent or cotangent that is
    exactly zero stays zero where it is multiplied by an infinite or undefined derivative.

    ``np.where(x > 0, np.sqrt(x), 0.0)`` has the gradient NaN at 0: the cotangent of the root is 0,
    the derivative of the root infinite, and their product NaN. Under ``strong_zero`` it is 0, the
    derivative of the side that is selected, without a second ``np.where`` on the operand. Products,
    quotients and products of matrices are concerned, in reverse and forward mode, to every order
    and under every transform, in bodies of loops, too. A function's own rule (`custom_vjp`,
    `custom_jvp`) is used as it is. Derivatives without such a product do not change.

    Args:
        f: a function of arrays (pytrees of them). It is recorded as by `checkpoint`, so Python's
            branches may read concrete values where these are known.

    Returns:
        the function. A derivative that is infinite where the cotangent is not zero stays so:
        ``strong_zero`` hides no NaN that reaches the result. In a sum of products of matrices, such
        terms count with their sign; for complex numbers, and `einsum` of more than two operands,
        they give NaN.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> def f(x):
        ...     return np.sum(np.where(x > 0, np.sqrt(np.abs(x)), 0.0))
        >>> with np.errstate(divide="ignore"):
        ...     ft.grad(ft.strong_zero(f))(np.array([4.0, 0.0]))
        array([0.25, 0.  ])

    Cost:
        a comparison and a selection for each product of the derivative: up to three times the time
        of an elementwise derivative; three products of matrices instead of one.

    Source:
        the strong zero of Enzyme (``strong_zero=True``); the trick with two ``where`` in JAX's
        documentation is what it replaces.
    """
    name = function_name(f)

    @transformed("strong_zero", f)
    @entry
    def strong(*args: object, **kwargs: object) -> Any:
        operands = Operands(args, kwargs).if_traced()
        staged = stage(f, operands, f"strong_zero of {name}", name, computed_only=True)
        program = staged.program.interned()
        computed = (
            strong_program(program, [*operands.forwarded(), *staged.captured])
            if program.output_ids or program.keeps
            else []
        )
        results = whole_result(staged.origins, computed, operands.given, program.name)
        return unflatten(staged.out_tree, map(as_number, results, staged.numbers))

    return strong
