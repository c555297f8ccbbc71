"""Control flow that programs can hold: ``cond`` and ``scan``.

Floor: 7.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.api.calls import as_value, function_name
from functrace.api.record import Operands, Staged, stage
from functrace.api.results import guard_results, number_type
from functrace.control.cond import cond_program
from functrace.control.scan import scan_program
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.parts import Rewrite, reordered, with_inputs
from functrace.ir.program import Program
from functrace.numpy.number import Numbers, as_number
from functrace.numpy.views import guard
from functrace.ops.elementwise import not_equal
from functrace.ops.shaping import convert, convert_p
from functrace.tracing.capture import held_array
from functrace.tracing.recording import Tracer, known_value
from functrace.tree import PyTreeSpec, flatten, paths, unflatten
from functrace.typing import A, Array, B, PyTree, R, Scalar, Ts


def cond(
    pred: Scalar | Array | np.generic | Tracer, true_fun: Callable[[*Ts], A], false_fun: Callable[[*Ts], B], *operands: *Ts
) -> A | B:
    """Return ``true_fun(*operands)`` if ``pred`` is true, else ``false_fun(*operands)``.

    Where the predicate has a value (on plain values, and under ``grad``, ``vjp``, ``jvp`` …), the branch that it chooses is
    called, as by Python's ``if``. While staging (``jit``, ``vmap``, ``trace``) both are recorded, and one of them is
    run. Under ``vmap``, with a predicate that differs between examples, both are run, each example has its own result, and
    its derivative is that of its own branch.

    Args:
        pred: one number or bool, plain or traced.
        true_fun, false_fun: functions of ``operands`` (pytrees of arrays) that return the same nest, shapes and dtypes.
            They may close over traced values. While staging, a Python number takes the dtype that the other branch returns.
        operands: what they are called with.

    Raises:
        ShapeError, DtypeError: if ``pred`` is not a scalar, or results differ in shape or dtype; names the leaf.
        TreeError: if results differ in structure.
        CapturedArrayError: if a branch that is recorded writes into its arguments, or into what it closes over; if a result
            that shares memory with an operand, or that operand, is written later.

    Example:
        >>> import numpy as np
        >>> cond(True, lambda x: x + 1.0, lambda x: -x, np.ones(2))
        array([2., 2.])

    Cost:
        the branch that is taken (all branches that some example takes, under vmap).
    """
    which = _predicate(pred)
    known = known_value(which)
    if known is not None:
        return true_fun(*operands) if known else false_fun(*operands)
    call = Operands(operands, {})
    branches = []
    for word, f in (("false", false_fun), ("true", true_fun)):
        name = function_name(f)
        owner = f"cond ({word} branch {name})"
        branches.append(stage(f, call.without_values(), owner, name, is_certain=False, reads=call.leaves))
    other, taken = _agreeing(*branches)
    explicit = len(call.values)
    programs = [
        with_inputs(other.program, explicit, (), taken.captured),
        with_inputs(taken.program, explicit, other.captured, ()),
    ]
    results = cond_program(which, [*call.handed_on(), *other.captured, *taken.captured], programs)
    for branch in (other, taken):
        guard_results(results, branch.origins, call.values, "cond")
    numbers = [None if b is None else a for a, b in zip(taken.numbers, other.numbers, strict=True)]
    return unflatten(taken.out_tree, map(as_number, results, numbers))


def _predicate(pred: Scalar | Array | np.generic | Tracer) -> Any:
    value = as_value(pred, "the predicate of cond")
    if shape_of(value) != ():
        raise ShapeError(
            f"cond: the predicate is {aval_of(value)}, not a scalar",
            fix="reduce it (np.any, np.all), or choose per element with np.where, per example with functrace.vmap",
        )
    if aval_of(value).dtype.kind == "b":
        return value
    return not_equal(value, 0) if isinstance(value, Tracer) else np.bool_(value != 0)


def _agreeing(other: Staged, taken: Staged) -> tuple[Staged, Staged]:
    """Return the branches with Python numbers converted to the dtypes of the other branch, if all else agrees."""
    if other.out_tree != taken.out_tree:
        raise TreeError(
            f"cond: the true branch returns {taken.out_tree}, the false branch {other.out_tree}",
            fix="return the same nest from both",
        )
    names = paths(unflatten(taken.out_tree, [0] * taken.out_tree.num_leaves))
    dtypes = []
    both = zip(taken.out_avals, taken.numbers, other.out_avals, other.numbers, strict=True)
    for name, (a, number_a, b, number_b) in zip(names, both, strict=True):
        chosen = b.dtype if takes(number_a, b.dtype) else a.dtype
        if a.shape != b.shape or not (chosen == b.dtype or takes(number_b, chosen)):
            what = f"cond: result{name} is {a} in the true branch and {b} in the false branch"
            if a.shape == b.shape:
                raise DtypeError(what, fix=f"convert one of them, e.g. with .astype(np.{a.dtype})")
            raise ShapeError(what, fix="give both the same shape, e.g. with np.broadcast_to")
        dtypes.append(chosen)
    return (
        other._replace(program=with_dtypes(other.program, dtypes)),
        taken._replace(program=with_dtypes(taken.program, dtypes)),
    )


def scan(
    f: Callable[[Any, Any], tuple[R, Any]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[R, PyTree]:
    """Loop over the first axis of arrays, with a carry: ``carry, y = f(carry, x)`` for each ``x`` of ``xs``.

    ``f`` is recorded once, whatever the number of steps.

    Args:
        f: the body; ``carry`` keeps its nest, shapes and dtypes, ``y`` is any nest of arrays (or ``None``). It may close
            over traced values.
        init: the carry before the first step; Python numbers take the dtype that the body gives them (then it is recorded
            twice).
        xs: arrays (a nest of them) with the same first axis; ``None`` if the body needs no input.
        length: number of steps; needed only if there are no ``xs``.
        reverse: whether to walk from the last slice to the first; results stand where their slices stood.

    Returns:
        the final carry, and the ``y`` of all steps, stacked along a first axis.

    Raises:
        ShapeError: if first axes differ; if the carry changes its shape or dtype (names the leaf and both types).
        TreeError: if the carry changes its structure.
        ConcretizationError: if ``f`` asks for a value.
        CapturedArrayError: if ``f`` writes into its arguments, or into what it closes over; if the final carry shares memory
            with an initial one that is traced, and either is written later.

    Example:
        >>> import numpy as np
        >>> scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
        (np.float64(6.0), array([0., 1., 3.]))

    Cost:
        ``length`` times the body. Its derivative keeps the body's residuals of every step; wrap the body in
        ``functrace.checkpoint`` to keep the carries only.
    """
    name = function_name(f)
    owner = f"scan of {name}"
    arrays, arrays_tree = flatten(xs)
    arrays = [held_array(as_value(x, f"{owner}: xs")) for x in arrays]
    steps = _length(arrays, xs, length, owner)
    starts, carry_tree = flatten(init)
    numbers = [number_type(leaf) for leaf in starts]
    carry = [held_array(as_value(leaf, f"{owner}: the carry")) for leaf in starts]
    slices = [ShapeDtype(x.shape[1:], x.dtype) for x in arrays]

    reads = [*flatten(xs)[0], *starts]
    while True:
        staged = _stage_body(f, carry, numbers, carry_tree, slices, arrays_tree, owner, name, reads)
        count, tree = _check_body(staged, carry_tree, owner)
        if not _give_dtypes(carry, numbers, staged):
            break
    dtypes = [aval.dtype for aval in staged.out_avals]
    for k, (start, number) in enumerate(zip(carry, staged.numbers, strict=False)):
        if takes(number, aval_of(start).dtype):  # the body returned a Python number
            dtypes[k] = aval_of(start).dtype
    program = with_dtypes(staged.program, dtypes)
    avals = [ShapeDtype(aval.shape, dtype) for aval, dtype in zip(staged.out_avals, dtypes, strict=True)]
    _check_carry(unflatten(carry_tree, [aval_of(c) for c in carry]), carry, avals[:count], owner)
    total = len(program.input_ids)
    explicit = count + len(slices)
    body = reordered(program, [*range(explicit, total), *range(explicit)])
    results = scan_program(body, [*staged.captured, *carry, *arrays], steps, reverse, total - explicit, count)
    for k, (result, origin) in enumerate(zip(results[:count], staged.origins, strict=False)):
        if origin.place is None or origin.place != k or origin.views:
            guard_results([result], [origin], [*carry, *arrays], owner, others=[*carry, *arrays])
        else:
            guard(result, [carry[k]], owner)
    final, stacked = unflatten(tree, results)
    return final, stacked


def _stage_body(
    f: Callable[..., Any],
    carry: list[Any],
    numbers: list[type | None],
    carry_tree: PyTreeSpec,
    slices: list[ShapeDtype],
    arrays_tree: PyTreeSpec,
    owner: str,
    name: str,
    reads: list[Any],
) -> Staged:
    weak: list[Numbers] = []
    operands = Operands((carry, [np.empty(0)] * len(slices)), {})
    operands.avals = [*map(aval_of, carry), *slices]

    def body(state: list[Any], leaves: list[Any]) -> Any:
        if any(numbers):
            weak.append(Numbers(state[0]._recording, "use functrace.cond or np.where for a choice that depends on values"))
            state = [x if kind is None else weak[0].wrap(x, kind) for x, kind in zip(state, numbers, strict=True)]
        return f(unflatten(carry_tree, state), unflatten(arrays_tree, leaves))

    try:
        return stage(body, operands.without_values(), owner, name, reads=reads)
    finally:
        for w in weak:
            w.close()


def _length(arrays: list[Any], xs: PyTree, length: int | None, owner: str) -> int:
    sizes = {f"xs{path}": shape_of(x)[0] for path, x in zip(paths(xs), arrays, strict=True) if shape_of(x)}
    if len(sizes) < len(arrays):
        raise ShapeError(f"{owner}: xs holds a scalar, which has no axis to walk along", fix="close over it instead")
    if length is not None:
        sizes["length"] = operator.index(length)
        if sizes["length"] < 0:
            raise ArgumentError(f"{owner}: length={length} is negative", fix="pass the number of steps, 0 or more")
    if not sizes:
        raise ArgumentError(f"{owner}: there are no xs to count the steps by", fix="pass length=")
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ShapeError(f"{owner}: first axes differ in size: {listed}", fix="walk along axes of one size")
    return next(iter(sizes.values()))


def _check_body(staged: Staged, carry_tree: PyTreeSpec, owner: str) -> tuple[int, Any]:
    """Return the number of leaves of the carry, and the structure of the pair that the body returns."""
    tree = staged.out_tree
    if tree.type is not tuple or tree.num_children != 2:
        raise TreeError(f"{owner}: the body returned {tree}, not a pair (carry, y)", fix="return carry, y")
    returned = tree.children()[0]
    if returned != carry_tree:
        raise TreeError(
            f"{owner}: the carry is {carry_tree} before and {returned} after a step", fix="return it in the same nest"
        )
    return returned.num_leaves, tree


def _give_dtypes(carry: list[Any], numbers: list[type | None], staged: Staged) -> bool:
    """Give Python numbers of the carry, in place, the type that the body returned; returns whether that changes anything."""
    changed = False
    for k, (start, number) in enumerate(zip(carry, numbers, strict=True)):
        returned, dtype = staged.numbers[k], staged.out_avals[k].dtype
        if number is not None and returned is not number and takes(number, dtype):
            carry[k], numbers[k] = convert(start, dtype), returned
            changed = True
    return changed


def _check_carry(tree: PyTree, carry: list[Any], avals: list[ShapeDtype], owner: str) -> None:
    for path, before, after in zip(paths(tree), map(aval_of, carry), avals, strict=True):
        if before is not after:
            what = f"{owner}: carry{path} is {before} before and {after} after a step"
            if before.dtype != after.dtype:
                raise DtypeError(
                    what, fix=f"convert it, e.g. with .astype(np.{before.dtype}), or start with np.{after.dtype}"
                )
            raise ShapeError(what, fix="return it with the shape that it came with")


# -- what both need ---------------------------------------------------------------------------------------------------------


def takes(number: type | None, dtype: np.dtype[Any]) -> bool:
    """Whether something is a Python number that becomes ``dtype`` beside an array of it."""
    return number is not None and _KINDS.index(dtype.kind) >= _KINDS.index(np.dtype(number).kind)


_KINDS = "biufc"


def with_dtypes(program: Program, dtypes: Sequence[np.dtype[Any]]) -> Program:
    """Return the program with its outputs converted to dtypes."""
    if all(program.avals[i].dtype == dtype for i, dtype in zip(program.output_ids, dtypes, strict=True)):
        return program
    write = Rewrite(program)
    return write.finish(
        [
            i if write.avals[i].dtype == dtype else write.place(convert_p, (i,), (dtype,))
            for i, dtype in zip(write.keep_all(), dtypes, strict=True)
        ]
    )
