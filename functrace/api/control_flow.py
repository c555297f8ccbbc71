"""Control flow that programs can hold: ``cond`` and ``scan``.

Floor: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.api.calls import as_value, function_name
from functrace.api.staging import Operands, Staged, stage, with_inputs
from functrace.control.cond import cond_program
from functrace.control.scan import scan_program
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.parts import reordered
from functrace.numpy.number import TracedNumber
from functrace.ops.elementwise import not_equal
from functrace.ops.shaping import convert
from functrace.tracing.recording import LITERALS, Tracer
from functrace.tree import flatten, paths, unflatten
from functrace.typing import PyTree


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: PyTree) -> PyTree:
    """Return ``true_fun(*operands)`` if ``pred`` is true, else ``false_fun(*operands)``.

    Both functions are recorded; one of them is run. Under ``vmap``, with a predicate that differs between examples, both are
    run, each example has its own result, and its derivative is that of its own branch.

    Args:
        pred: one number or bool, plain or traced.
        true_fun, false_fun: functions of ``operands`` (pytrees of arrays) that return the same nest, shapes and dtypes.
            They may close over traced values.
        operands: what they are called with.

    Raises:
        ShapeError: if ``pred`` is not a scalar, or results differ in shape or dtype; names the leaf.
        TreeError: if results differ in structure.

    Example:
        >>> import numpy as np
        >>> cond(True, lambda x: x + 1.0, lambda x: -x, np.ones(2))
        array([2., 2.])

    Cost:
        the branch that is taken (all branches that some example takes, under vmap).
    """
    which = _predicate(pred)
    call = Operands(operands, {})
    branches = [
        stage(f, call, f"cond ({word} branch {function_name(f)})", function_name(f), with_values=True)
        for word, f in (("false", false_fun), ("true", true_fun))
    ]
    _check_branches(*branches)
    other, taken = branches
    explicit = len(call.values)
    programs = [
        with_inputs(other.program, explicit, (), taken.captured),
        with_inputs(taken.program, explicit, other.captured, ()),
    ]
    results = cond_program(which, [*call.values, *other.captured, *taken.captured], programs)
    return unflatten(taken.out_tree, results)


def _predicate(pred: Any) -> Any:
    value = as_value(pred, "the predicate of cond")
    if shape_of(value) != ():
        raise ShapeError(
            f"cond: the predicate is {aval_of(value)}, not a scalar",
            fix="reduce it (np.any, np.all), or choose per element with np.where, per example with functrace.vmap",
        )
    if aval_of(value).dtype.kind == "b":
        return value
    return not_equal(value, 0) if isinstance(value, Tracer) else np.bool_(value != 0)


def _check_branches(other: Staged, taken: Staged) -> None:
    if other.out_tree != taken.out_tree:
        raise TreeError(
            f"cond: the true branch returns {taken.out_tree}, the false branch {other.out_tree}",
            fix="return the same nest from both",
        )
    names = paths(unflatten(taken.out_tree, [0] * taken.out_tree.num_leaves))
    for name, a, b in zip(names, taken.out_avals, other.out_avals, strict=True):
        if a is not b:
            raise ShapeError(
                f"cond: result{name} is {a} in the true branch and {b} in the false branch",
                fix=f"give both the same shape and dtype, e.g. with .astype(np.{a.dtype}) or np.broadcast_to",
            )


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[PyTree, PyTree]:
    """Loop over the first axis of arrays, with a carry: ``carry, y = f(carry, x)`` for each ``x`` of ``xs``.

    ``f`` is recorded once, whatever the number of steps.

    Args:
        f: the body; ``carry`` keeps its nest, shapes and dtypes, ``y`` is any nest of arrays (or ``None``). It may close
            over traced values.
        init: the carry before the first step; Python numbers take the dtype that the body gives them.
        xs: arrays (a nest of them) with the same first axis; ``None`` if the body needs no input.
        length: number of steps; needed only if there are no ``xs``.
        reverse: whether to walk from the last slice to the first; results stand where their slices stood.

    Returns:
        the final carry, and the ``y`` of all steps, stacked along a first axis.

    Raises:
        ShapeError: if first axes differ; if the carry changes its shape or dtype (names the leaf and both types).
        TreeError: if the carry changes its structure.
        ConcretizationError: if ``f`` asks for a value.

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
    arrays = [as_value(x, f"{owner}: xs") for x in arrays]
    steps = _length(arrays, xs, length, owner)
    starts, carry_tree = flatten(init)
    weak = [type(leaf) in LITERALS or isinstance(leaf, TracedNumber) for leaf in starts]
    carry = [as_value(leaf, f"{owner}: the carry") for leaf in starts]
    slices = [ShapeDtype(x.shape[1:], x.dtype) for x in arrays]

    while True:
        staged = _stage_body(f, carry, carry_tree, slices, arrays_tree, owner, name)
        count, tree = _check_body(staged, carry_tree, owner)
        changed = _weak_dtypes(carry, weak, staged.out_avals[:count])
        if changed is None:
            break
        carry, weak = changed, [False] * len(weak)
    _check_carry(unflatten(carry_tree, [aval_of(c) for c in carry]), carry, staged.out_avals[:count], owner)
    total = len(staged.program.input_ids)
    explicit = count + len(slices)
    body = reordered(staged.program, [*range(explicit, total), *range(explicit)])
    results = scan_program(body, [*staged.captured, *carry, *arrays], steps, reverse, total - explicit, count)
    final, stacked = unflatten(tree, results)
    return final, stacked


def _stage_body(
    f: Any, carry: list[Any], carry_tree: Any, slices: list[ShapeDtype], arrays_tree: Any, owner: str, name: str
) -> Staged:
    operands = Operands((carry, [np.empty(0)] * len(slices)), {})
    operands.avals = [*map(aval_of, carry), *slices]

    def body(state: list[Any], leaves: list[Any]) -> Any:
        return f(unflatten(carry_tree, state), unflatten(arrays_tree, leaves))

    return stage(body, operands, owner, name, with_values=False)


def _length(arrays: list[Any], xs: PyTree, length: int | None, owner: str) -> int:
    sizes = {f"xs{path}": shape_of(x)[0] for path, x in zip(paths(xs), arrays, strict=True) if shape_of(x)}
    if len(sizes) < len(arrays):
        raise ShapeError(f"{owner}: xs holds a scalar, which has no axis to walk along", fix="close over it instead")
    if length is not None:
        sizes["length"] = length
    if not sizes:
        raise ArgumentError(f"{owner}: there are no xs to count the steps by", fix="pass length=")
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ShapeError(f"{owner}: first axes differ in size: {listed}", fix="walk along axes of one size")
    return next(iter(sizes.values()))


def _check_body(staged: Staged, carry_tree: Any, owner: str) -> tuple[int, Any]:
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


def _weak_dtypes(carry: list[Any], weak: list[bool], avals: list[ShapeDtype]) -> list[Any] | None:
    """The carry with Python numbers in the dtype that the body gives them, or ``None`` if nothing changes."""
    made = [
        convert(c, aval.dtype) if flag and _is_wider("biufc", aval.dtype, aval_of(c).dtype) else c
        for c, flag, aval in zip(carry, weak, avals, strict=True)
    ]
    return made if any(a is not b for a, b in zip(made, carry, strict=True)) else None


def _is_wider(kinds: str, to: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether a Python number of ``dtype`` may become ``to`` (NEP 50: it has a kind, no width)."""
    return to != dtype and kinds.index(to.kind) >= kinds.index(dtype.kind)


def _check_carry(tree: PyTree, carry: list[Any], avals: list[ShapeDtype], owner: str) -> None:
    for path, before, after in zip(paths(tree), map(aval_of, carry), avals, strict=True):
        if before is not after:
            what = f"{owner}: carry{path} is {before} before and {after} after a step"
            if before.dtype != after.dtype:
                raise DtypeError(
                    what, fix=f"convert it, e.g. with .astype(np.{before.dtype}), or start with np.{after.dtype}"
                )
            raise ShapeError(what, fix="return it with the shape that it came with")
