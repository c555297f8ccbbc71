"""``linear_transpose``: the transpose of a linear function.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.api.capture.arguments import as_value, function_name
from functrace.api.capture.record import Called, RecordedCall
from functrace.api.differentiation.tangents import COTANGENTS, check_like
from functrace.errors import ConcretizationError, NotDifferentiableError, entry
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import closed_over
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.tracing.capture import own_constants
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms import is_differentiable
from functrace.transforms.linear_part import transposed_part
from functrace.tree import flatten, unflatten
from functrace.typing import PyTree

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec


@entry
def linear_transpose(
    f: Callable[..., Any], *primals: object, **kwargs: object
) -> Callable[[Any], Any]:
    """Transpose a linear function.

    Args:
        f: a function that is linear in all its arguments; integer arguments are allowed.
        primals: arrays or `ShapeDtype` with the shapes and dtypes of the arguments; their values
            are not used.
        kwargs: keyword arguments of ``f``, which are constants.

    Returns:
        a function from a cotangent like the result to a tuple of cotangents, one per argument.
        ``None`` within the cotangent means zeros.

    Raises:
        NotDifferentiableError: if ``f`` is not linear; ``x + 1`` is not.
        TreeError, ShapeError, DtypeError: from the returned function, if the cotangent does not fit
            the result.

    Example:
        >>> import numpy as np, functrace as ft
        >>> transposed = ft.linear_transpose(lambda x: 2.0 * x[:2], np.ones(3))
        >>> transposed(np.array([1.0, 5.0]))
        (array([ 2., 10.,  0.]),)

    Cost:
        one run of ``f`` at zero, where its result must be zero.

    Source:
        ``jax.linear_transpose``.
    """
    owner = f"linear_transpose of {function_name(f)}"
    leaves, in_tree = flatten(primals)
    avals = [
        leaf if isinstance(leaf, ShapeDtype) else aval_of(as_value(leaf, owner)) for leaf in leaves
    ]

    def inputs(recording: Recording) -> Called:
        return unflatten(in_tree, [recording.new_input(aval) for aval in avals]), kwargs

    with ArrayRecording(owner) as recording:
        call = RecordedCall(recording, f, inputs)
        program = own_constants(call.program(function_name(f)))
        count, made, captured = len(program.input_ids), program, list[Any]()
        if any(isinstance(value, Tracer) for value in program.constant_values.values()):
            made, captured = closed_over(program)  # the runner must hold no traced values
        runner = Runner(transposed_part(made, [True] * count + [False] * len(captured)))
        _check_zero_at_zero(program, owner)
        return LinearTranspose(owner, runner, in_tree, call.out_tree, call.out_avals, captured)


@final
class LinearTranspose:
    """Linear map from a cotangent of the result to cotangents of the arguments, returned by
    `linear_transpose`."""

    __slots__ = ("captured", "in_tree", "out_avals", "out_tree", "owner", "runner")

    def __init__(
        self,
        owner: str,
        runner: Runner,
        in_tree: PyTreeSpec,
        out_tree: PyTreeSpec,
        out_avals: Sequence[ShapeDtype],
        captured: Sequence[Any],
    ) -> None:
        self.owner = owner
        self.runner = runner
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.out_avals = out_avals
        self.captured = captured

    @entry
    def __call__(self, cotangent: PyTree) -> Any:
        """Return one cotangent per argument."""
        what = f"the results of {self.owner}"
        given = check_like(cotangent, self.out_tree, self.out_avals, COTANGENTS, what, linear=True)
        return unflatten(self.in_tree, self.runner([*self.captured, *given]))

    def __repr__(self) -> str:
        return f"<{self.owner}: ({', '.join(map(repr, self.out_avals))}) -> cotangents of its arguments>"


def _check_zero_at_zero(program: Program, owner: str) -> None:
    """Check that a function with a transpose is linear: it is affine, so it must map zero to zero.

    Raises:
        NotDifferentiableError: if it is only affine.
    """
    constants = program.constant_values
    unknown = [
        i for i, value in constants.items() if isinstance(value, Tracer) and not _is_concrete(value)
    ]
    zeros = [
        np.zeros(program.avals[i].shape, program.avals[i].dtype)[()] for i in program.input_ids
    ]
    for number in (0, 1):
        values = {
            i: value.ft_concrete()
            for i, value in constants.items()
            if isinstance(value, Tracer) and i not in unknown
        }
        values |= {i: _plausible(program.avals[i], number) for i in unknown}
        known = Program(
            program.ops,
            program.avals,
            program.literals,
            program.input_ids,
            {**constants, **values},
            program.output_ids,
        )
        try:
            with np.errstate(all="ignore"):
                results = evaluate_program(known, zeros)
        except IndexError:
            if (
                number
            ):  # an abstract integer is an index into one element: as a term, it would not raise
                break
            raise
        for result, i in zip(results, program.output_ids, strict=True):
            wrong = result[(result != 0) & (result == result)]
            if wrong.size:
                raise NotDifferentiableError(
                    f"{owner}: the function is not linear: at zero it is {wrong[0]}, not zero",
                    made=program.source(i),
                    fix="omit constant terms; functrace.vjp transposes the derivative of a "
                    "function that is not linear",
                )
        if all(is_differentiable(program.avals[i]) for i in unknown):
            break


def _is_concrete(value: Tracer) -> bool:
    """Return True if a traced value is concrete."""
    try:
        value.ft_concrete()
    except ConcretizationError:
        return False
    return True


def _plausible(aval: ShapeDtype, number: int) -> Any:
    """Return a placeholder for an abstract captured value: ``number`` for integers, else an
    invertible value with a root."""
    if not is_differentiable(aval):
        return np.full(aval.shape, number, aval.dtype)[()]
    value = np.ones(aval.shape, aval.dtype)
    if aval.ndim > 1:
        value += 10 * aval.shape[-1] * np.eye(*aval.shape[-2:], dtype=aval.dtype)
    return value[()]
