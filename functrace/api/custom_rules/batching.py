"""Functions with their own rule for `vmap`: ``custom_vmap``.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from functrace.api.capture.arguments import function_name, is_pair
from functrace.api.capture.record import Operands, RecordedCall, StagedFunction
from functrace.api.capture.results import guard_results
from functrace.api.custom_rules.derivatives import Custom, check_like
from functrace.control.custom import DeferredBatchRule, custom_batch_program
from functrace.errors import ArgumentError, TreeError, entry
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import with_inputs
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.tracing.binding import BODY
from functrace.tracing.capture import own_constants
from functrace.tracing.tracer import Tracer
from functrace.tree import prefix_leaves, unflatten
from functrace.typing import P, R


@final
class custom_vmap(Custom[P, R]):
    """Give a function its own rule for `vmap`.

    Set the rule with ``def_vmap(rule)``: ``rule(axis_size, in_batched, *args)`` returns ``(result,
    out_batched)``. Mapped arguments have the batch axis in front. ``in_batched`` is a list with a
    pytree of bools per argument, which marks the mapped leaves; ``out_batched`` (a pytree of bools,
    or one bool for a subtree) marks those of the result.

    The rule is recorded when the function is mapped. Under a second `vmap` the rule itself is
    mapped, and functions that it calls use their own rules. Derivatives are those of the function,
    in both modes and under `vmap`, which then maps the derivative. Differentiating a mapped
    function differentiates the rule. To give a derivative its own rule as well, wrap the function
    in `custom_vjp` or `custom_jvp`.

    Args:
        f: a function of arrays (pytrees of them).

    Raises:
        ArgumentError: when it is mapped, if there is no rule; if ``f`` closes over a mapped value,
            or its rule over a traced one.
        TreeError, ShapeError, DtypeError: when it is mapped, if the rule returns another structure,
            shape or dtype than the function has.

    Example:
        >>> import numpy as np, functrace as ft
        >>> @ft.custom_vmap
        ... def solve(a, b):
        ...     return np.linalg.solve(a, b)
        >>> @solve.def_vmap
        ... def solve_all(axis_size, in_batched, a, b):
        ...     if in_batched[0]:
        ...         b = b if in_batched[1] else np.broadcast_to(b, (axis_size, *b.shape))
        ...         return np.linalg.solve(a, b[..., None])[..., 0], True
        ...     return np.linalg.solve(a, b.T).T, True  # one matrix: factorized once
        >>> ft.vmap(solve, (None, 0))(2.0 * np.eye(2), np.ones((3, 2))).shape
        (3, 2)

    Source:
        ``jax.custom_batching.custom_vmap``.
    """

    def __init__(self, f: Callable[P, R]) -> None:
        super().__init__(f)
        self.rule: Callable[..., Any] | None = None

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule, and return it, so that this is a decorator.

        Args:
            rule: ``rule(axis_size, in_batched, *args)`` returns ``(result, out_batched)``.
        """
        self.rule = rule
        return rule

    @entry
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; on traced values, as one operation with the rule."""
        given = self.positional(args, kwargs)
        is_plain, result = self.plain_result(given)
        if is_plain:
            return result
        operands = Operands(given, {})
        run = self.staged(self.f, operands)
        explicit = len(operands.values)
        still = operands.without_values()

        def record(size: int, is_batched: tuple[bool, ...]) -> Program:
            if any(is_batched[explicit:]):
                raise ArgumentError(
                    f"{self.name} has a rule for vmap, and closes over a mapped value",
                    fix="pass it as an argument",
                )
            return with_inputs(
                self._recorded(still, run, size, is_batched[:explicit]), explicit, run.captured, ()
            )

        results = custom_batch_program(
            run.program, DeferredBatchRule(record), [*operands.forwarded(), *run.captured]
        )
        guard_results(results, run.origins, operands.given, self.name)
        return unflatten(run.out_tree, results)

    def _recorded(
        self, operands: Operands, run: StagedFunction, size: int, is_batched: tuple[bool, ...]
    ) -> Program:
        """Record the rule; return the program of its results, all with the batch axis."""
        rule = self.rule
        if rule is None:
            raise ArgumentError(
                f"custom_vmap: {self.name} has no rule yet", fix=f"call {self.name}.def_vmap(rule)"
            )
        what = f"the vmap rule of {self.name}"
        mapped = operands.without_values()
        mapped.avals = [
            _with_axis(a, size) if flag else a
            for a, flag in zip(operands.avals, is_batched, strict=True)
        ]
        flags = dict(zip(operands.places, is_batched, strict=True))
        (in_batched, _) = unflatten(
            operands.tree, [flags.get(k, False) for k in range(len(operands.leaves))]
        )

        def called(*args: object) -> list[Any]:
            found = rule(size, list(in_batched), *args)
            if not is_pair(found):
                raise TreeError(
                    f"{what} returned a {type(found).__name__}, not a pair",
                    fix="return result, out_batched",
                )
            out, out_batched = found
            marks = prefix_leaves(out_batched, run.out_tree, f"out_batched of {what}", flags=True)
            avals = [
                _with_axis(a, size) if mark else a
                for a, mark in zip(run.out_avals, marks, strict=True)
            ]
            leaves = check_like(out, run.out_tree, avals, f"the result of {what}", self.name)
            pairs = zip(leaves, marks, run.out_avals, strict=True)
            return [
                x if mark else np.broadcast_to(x, (size, *aval.shape)) for x, mark, aval in pairs
            ]

        with ArrayRecording(what, scope=BODY) as recording:
            made = RecordedCall(recording, called, mapped.inputs).program(
                f"vmap_of_{function_name(self.f)}"
            )
        if any(isinstance(value, Tracer) for value in made.constant_values.values()):
            raise ArgumentError(
                f"{what} closes over a traced value, or a Python number among the arguments of jit "
                "is passed to it",
                fix=f"pass the value to {self.name} as an argument, and the number as an array",
            )
        return own_constants(made)


def _with_axis(aval: ShapeDtype, size: int) -> ShapeDtype:
    return ShapeDtype((size, *aval.shape), aval.dtype)
