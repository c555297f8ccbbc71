"""Branches that can be recorded: ``cond`` and ``switch``.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from functrace.api.capture.arguments import as_value, function_name
from functrace.api.capture.record import Operands, StagedFunction, stage
from functrace.api.capture.results import guard_results
from functrace.control.cond import cond_program
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError, entry
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.parts import Rewrite, with_inputs
from functrace.ir.program import Program
from functrace.numpy.arrays.traced_number import as_number
from functrace.ops.elementwise import not_equal
from functrace.ops.shaping import convert_p
from functrace.tracing.tracer import Tracer, Value
from functrace.tracing.values import concrete_value
from functrace.tree import paths, unflatten
from functrace.tree.describing import difference
from functrace.typing import A, Array, B, Scalar, Ts


@entry
def cond(
    pred: Scalar | Array | np.generic | Tracer,
    true_fun: Callable[[*Ts], A],
    false_fun: Callable[[*Ts], B],
    *operands: *Ts,
) -> A | B:
    """Apply ``true_fun`` to ``operands`` if ``pred`` is true, else ``false_fun``.

    With a concrete predicate (plain values, and under ``grad``, ``vjp``, ``jvp`` …), only the
    chosen branch is called, as by Python's ``if``. While staging (``jit``, ``vmap``, ``trace``)
    both branches are recorded, and one of them runs. Under ``vmap``, with a predicate that differs
    between examples, both run, each example gets the result of its own branch, and its derivative.

    Args:
        pred: one number or bool, plain or traced.
        true_fun: a function of ``operands``. It may close over traced values.
        false_fun: a function of ``operands`` that returns the same pytree, shapes and dtypes as
            ``true_fun``. While staging, a Python number takes the dtype that the other branch
            returns.
        operands: arguments of both: pytrees of arrays.

    Returns:
        the result of the chosen branch.

    Raises:
        ShapeError: if ``pred`` is not a scalar, or results differ in shape; the message names the
            leaf.
        DtypeError: if results differ in dtype; the message names the leaf.
        TreeError: if results differ in structure.
        CapturedArrayError: if a recorded branch writes into its arguments, or into a value that it
            closes over; if a result that shares memory with an operand, or that operand, is written
            later.

    Example:
        >>> import numpy as np, functrace as ft
        >>> cond(True, lambda x: x + 1.0, lambda x: -x, np.ones(2))
        array([2., 2.])
        >>> ft.jit(lambda x: cond(x > 0, np.sqrt, np.negative, x))(-4.0)
        np.float64(4.0)

    Cost:
        the chosen branch; under ``vmap``, all branches that some example takes.

    Source:
        ``jax.lax.cond``.
    """
    which = predicate(
        pred, "the predicate of cond",
        "reduce it (np.any, np.all), or choose per element with np.where, per example with "
        "functrace.vmap",
    )  # fmt: skip
    known = concrete_value(which)
    if known is not None:
        return true_fun(*operands) if known else false_fun(*operands)
    return _staged(which, operands, "cond", {"false": false_fun, "true": true_fun})


@entry
def switch(
    index: int | Array | np.generic | Tracer, branches: Sequence[Callable[[*Ts], A]], *operands: *Ts
) -> A:
    """Apply one of several functions to ``operands``: ``branches[index](*operands)``.

    With a concrete index, only the chosen branch is called. While staging (``jit``, ``vmap``,
    ``trace``) all branches are recorded, and one of them runs. Under ``vmap``, with an index that
    differs between examples, each example gets the result of its own branch, and its derivative.

    Args:
        index: one integer, plain or traced. It is clipped to the range of branches: unlike in a
            list, -1 is not the last.
        branches: functions of ``operands`` that return the same pytree, shapes and dtypes. They may
            close over traced values. While staging, a Python number takes the dtype that the other
            branches return.
        operands: arguments of the branches: pytrees of arrays.

    Returns:
        the result of the chosen branch.

    Raises:
        ArgumentError: if there are no branches.
        ShapeError: if ``index`` is not a scalar, or results differ in shape; the message names the
            leaf.
        DtypeError: if ``index`` is not an integer, or results differ in dtype; the message names
            the leaf.
        TreeError: if results differ in structure.
        CapturedArrayError: if a recorded branch writes into its arguments, or into a value that it
            closes over; if a result that shares memory with an operand, or that operand, is written
            later.

    Example:
        >>> import numpy as np
        >>> switch(7, [np.sin, np.cos, np.negative], np.ones(2))
        array([-1., -1.])

    Cost:
        the chosen branch; under ``vmap``, all branches that some example takes.

    Source:
        ``jax.lax.switch``.
    """
    if not len(branches):
        raise ArgumentError(
            "switch: there are no branches", fix="pass a list of functions, at least one"
        )
    which = as_value(index, "the index of switch")
    if shape_of(which) != ():
        raise ShapeError(
            f"switch: the index is {aval_of(which)}, not a scalar",
            fix="choose per example with functrace.vmap",
        )
    if aval_of(which).dtype.kind not in "iu":
        raise DtypeError(
            f"switch: the index is {aval_of(which)}, not an integer",
            fix="convert it, or use functrace.cond for a bool",
        )
    known = concrete_value(which)
    if known is not None or len(branches) == 1:
        return branches[0 if known is None else min(max(int(known), 0), len(branches) - 1)](
            *operands
        )
    return _staged(which, operands, "switch", {str(n): f for n, f in enumerate(branches)})


def _staged(
    which: Value, operands: tuple[Any, ...], owner: str, functions: dict[str, Callable[..., Any]]
) -> Any:
    """Record all branches, keyed by their names in messages, and apply the choice."""
    call = Operands(operands, {})
    branches: list[StagedFunction] = []
    for word, f in functions.items():
        name = function_name(f)
        what = f"{owner} ({_branch(word)} {name})"
        branches.append(
            stage(f, call.without_values(), what, name, is_certain=False, reads=call.leaves)
        )
    branches, numbers = _agreeing(owner, dict(zip(functions, branches, strict=True)))
    captured = [branch.captured for branch in branches]
    programs = [
        with_inputs(
            branch.program, len(call.values), [*chain(*captured[:k])], [*chain(*captured[k + 1 :])]
        )
        for k, branch in enumerate(branches)
    ]
    results = cond_program(which, [*call.forwarded(), *chain(*captured)], programs)
    for branch in branches:
        guard_results(results, branch.origins, call.given, owner)
    return unflatten(branches[0].out_tree, map(as_number, results, numbers))


def _branch(word: str) -> str:
    return f"branch {word}" if word.isdigit() else f"{word} branch"


def predicate(pred: Scalar | Array | np.generic | Tracer, what: str, fix: str) -> Any:
    """Return a condition as one bool, plain or traced.

    Args:
        pred: one number or bool.
        what: its name, for messages.
        fix: the fix if it is not a scalar.
    """
    value = as_value(pred, what)
    if shape_of(value) != ():
        raise ShapeError(f"{what} is {aval_of(value)}, not a scalar", fix=fix)
    if aval_of(value).dtype.kind == "b":
        return value
    return not_equal(value, 0) if isinstance(value, Tracer) else np.bool_(value != 0)


def _agreeing(
    owner: str, branches: dict[str, StagedFunction]
) -> tuple[list[StagedFunction], list[type | None]]:
    """Check that branches return the same avals; convert Python numbers to the dtypes of other
    branches.

    Returns:
        the branches, and the types of results that are Python numbers in all of them.
    """
    (word, first), *others = reversed(branches.items())
    for other, branch in others:
        if branch.out_tree != first.out_tree:
            path, one, another = difference(first.out_tree, branch.out_tree)
            place = f"as result{path} " if path else ""
            raise TreeError(
                f"{owner}: the {_branch(word)} returns {place}{one}, the {_branch(other)} "
                f"{another}",
                fix="return pytrees with the same structure from all branches",
            )
    names = paths(first.out_tree)
    dtypes: list[np.dtype[Any]] = []
    numbers: list[type | None] = []
    for k, name in enumerate(names):
        kinds = {w: (b.out_avals[k], b.numbers[k]) for w, b in branches.items()}
        word, (aval, number) = min(reversed(kinds.items()), key=lambda item: _rank(*item[1]))
        for other, (found, kind) in kinds.items():
            if found.shape != aval.shape or not (
                found.dtype == aval.dtype or takes(kind, aval.dtype)
            ):
                what = f"{owner}: result{name} is {aval} in the {_branch(word)} and {found} in the {_branch(other)}"
                if found.shape == aval.shape:
                    raise DtypeError(
                        what, fix=f"convert one of them, e.g. with .astype(np.{aval.dtype})"
                    )
                raise ShapeError(what, fix="give both the same shape, e.g. with np.broadcast_to")
        dtypes.append(aval.dtype)
        numbers.append(number)
    return [b._replace(program=with_dtypes(b.program, dtypes)) for b in branches.values()], numbers


def _rank(aval: ShapeDtype, number: type | None) -> int:
    """Rank a result for the choice of the dtype: arrays first, then the widest kind of number."""
    return -len(_KINDS) if number is None else -_KINDS.index(aval.dtype.kind)


# -- numbers without a width -----------------------------------------------------------------------


def takes(number: type | None, dtype: np.dtype[Any]) -> bool:
    """Return True for a Python number that NumPy promotes to ``dtype`` next to an array of it."""
    return number is not None and _KINDS.index(dtype.kind) >= _KINDS.index(np.dtype(number).kind)


_KINDS = "biufc"


def with_dtypes(program: Program, dtypes: Sequence[np.dtype[Any]]) -> Program:
    """Convert the outputs of a program to dtypes."""
    if all(
        program.avals[i].dtype == dtype for i, dtype in zip(program.output_ids, dtypes, strict=True)
    ):
        return program
    write = Rewrite(program)
    return write.finish(
        [
            i if write.avals[i].dtype == dtype else write.place(convert_p, (i,), (dtype,))
            for i, dtype in zip(write.keep_all(), dtypes, strict=True)
        ]
    )
