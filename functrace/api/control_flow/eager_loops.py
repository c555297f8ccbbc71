"""Loops run by Python, on plain values and under `disable_jit`; and the carry of a loop.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.api.capture.arguments import as_value, as_values, function_name
from functrace.api.capture.record import Operands, StagedFunction, explain, stage
from functrace.api.capture.results import number_type
from functrace.api.control_flow.branches import predicate, takes
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.numpy.arrays.traced_number import NumberRecording
from functrace.numpy.protocol.sparse_operands import as_nodes
from functrace.ops.shaping import convert
from functrace.tracing.binding import renewed, running
from functrace.tracing.capture import held_array
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value
from functrace.tree import flatten, paths, unflatten
from functrace.tree.describing import described, difference
from functrace.typing import PyTree

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec


def is_traced(values: Iterable[Any]) -> bool:
    """Return True if a value is traced."""
    return any(isinstance(x, Tracer) for x in values)


@final
class Carry:
    """The carry of a loop.

    Args:
        init: a pytree of arrays and numbers.
        owner: the loop, for messages.
    """

    def __init__(self, init: PyTree, owner: str) -> None:
        self.owner = owner
        self.given, self.tree = flatten(as_nodes(init))
        """The leaves as they were passed, and their structure."""
        self.numbers = [number_type(leaf) for leaf in self.given]
        """The type of each leaf that is a Python number, else ``None``."""
        self.values: list[Any] = as_values(
            self.given, owner, lambda: [f"carry{path}" for path in paths(self.tree)]
        )

    @property
    def is_plain(self) -> bool:
        """True if nothing is traced: neither the carry nor, usually, closures."""
        return running() is None and not is_traced(self.values)

    def stage(
        self,
        f: Callable[..., Any],
        owner: str,
        reads: Sequence[Any],
        slices: Sequence[ShapeDtype] = (),
    ) -> StagedFunction:
        """Record a function of the carry, and of a list of slices if there are any."""
        weak: list[NumberRecording] = []
        self.values = [held_array(x) for x in self.values]
        operands = Operands((self.values, [np.empty(0)] * len(slices)), {})
        operands.avals = [*[aval_of(x) for x in self.values], *slices]

        def call(state: list[Any], leaves: list[Any]) -> Any:
            if any(self.numbers):
                weak.append(
                    NumberRecording(
                        state[0].ft_recording,
                        "use functrace.cond or np.where for a choice that depends on values",
                    )
                )
                state = [
                    x if kind is None else weak[0].wrap(x, kind)
                    for x, kind in zip(state, self.numbers, strict=True)
                ]
            return (
                f(unflatten(self.tree, state), leaves) if slices else f(unflatten(self.tree, state))
            )

        try:
            return stage(call, operands.without_values(), owner, function_name(f), reads=reads)
        finally:
            for w in weak:
                w.close()

    def check_tree(self, returned: PyTreeSpec) -> None:
        """Check the structure of a step's result."""
        if returned != self.tree:
            path, before, after = difference(self.tree, returned)
            raise TreeError(
                f"{self.owner}: {f'carry{path}' if path else 'the carry'} is {before} before and "
                f"{after} after a step",
                fix="return the carry with the structure that it has before",
            )

    def widen(self, numbers: Sequence[type | None], avals: Sequence[ShapeDtype]) -> bool:
        """Give Python numbers the type that a step returned; return True if that changes
        anything."""
        changed = False
        for k, (start, number) in enumerate(zip(self.values, self.numbers, strict=True)):
            returned, dtype = numbers[k], avals[k].dtype
            if number is not None and returned is not number and takes(number, dtype):
                self.values[k], self.numbers[k] = convert(start, dtype), returned
                changed = True
        return changed

    def check(self, avals: Sequence[ShapeDtype]) -> None:
        """Check the avals of a step's result."""
        names = paths(self.tree)
        for path, before, after in zip(
            names, [aval_of(x) for x in self.values], avals, strict=True
        ):
            if before is not after:
                what = f"{self.owner}: carry{path} is {before} before and {after} after a step"
                if before.dtype != after.dtype:
                    raise DtypeError(
                        what,
                        fix=f"convert it, e.g. with .astype(np.{before.dtype}), or start with "
                        f"np.{after.dtype}",
                    )
                raise ShapeError(what, fix="return it with its shape before the step")


# -- plain values ----------------------------------------------------------------------------------


class CarryDtypeChanged(Exception):
    """A Python number of the carry must start with another dtype."""


class ClosesOverTraced(Exception):
    """A function closes over a traced value: the loop must be recorded."""


def _locked(carry: Carry) -> Any:
    """Return the initial carry with read-only views of the caller's arrays."""
    leaves: list[Any] = []
    for value, number in zip(carry.values, carry.numbers, strict=True):
        one: object = value
        if isinstance(one, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        leaves.append(value if number is None else number(value))
    return unflatten(carry.tree, leaves)


@final
class _CarryChecker:
    """Checks the results of steps against the carry, and converts Python numbers; fast if nothing
    changes."""

    def __init__(self, carry: Carry) -> None:
        self.carry = carry
        self.avals = [aval_of(x) for x in carry.values]
        self.kinds = [
            (np.ndarray if aval.shape else number or aval.dtype.type, aval.shape, aval.dtype)
            for aval, number in zip(self.avals, carry.numbers, strict=True)
        ]
        tree = carry.tree
        self.alone: Any = self.kinds[0] if tree.is_leaf() else (_CarryChecker, (), None)
        """Type, shape and dtype of a carry with one leaf."""
        self.is_flat = tree.type is tuple and all(child.is_leaf() for child in tree.children())

    def __call__(self, val: PyTree) -> Any:
        """Return the carry for the next step.

        Raises:
            Wider: if the loop must start again, with a number of another dtype.
        """
        if self.is_flat and tuple is type(val) and len(val) == len(self.kinds):
            for leaf, (kind, shape, dtype) in zip(val, self.kinds, strict=True):
                if kind is not type(leaf) or (
                    shape and (leaf.shape != shape or leaf.dtype != dtype)
                ):
                    break
            else:
                return val
        leaves, tree = flatten(val)
        if tree != self.carry.tree:
            leaves, tree = flatten(as_nodes(val))
        self.carry.check_tree(tree)
        same = True
        for k, (leaf, (kind, shape, dtype)) in enumerate(zip(leaves, self.kinds, strict=True)):
            if kind is not type(leaf) or (shape and (leaf.shape != shape or leaf.dtype != dtype)):
                leaves[k] = self._converted(k, leaf, leaves)
                same = False
        return val if same else unflatten(tree, leaves)

    def _converted(self, k: int, leaf: object, leaves: list[Any]) -> Any:
        carry, aval = self.carry, self.avals[k]
        if isinstance(leaf, Tracer):
            raise ClosesOverTraced
        what = f"{carry.owner}: the carry after a step"
        value = as_value(leaf, what)
        number = number_type(leaf)
        if (
            carry.numbers[k] is not None
            and number is not carry.numbers[k]
            and takes(carry.numbers[k], aval_of(value).dtype)
        ):
            values = [as_value(x, what) for x in leaves]
            if carry.widen([number_type(x) for x in leaves], [aval_of(x) for x in values]):
                raise CarryDtypeChanged
        if not aval.shape and takes(number, aval.dtype):
            return (carry.numbers[k] or aval.dtype.type)(leaf)
        if aval_of(value) is not aval:
            carry.check([aval_of(value) if j == k else a for j, a in enumerate(self.avals)])
        return value


def _finished(carry: Carry, val: PyTree) -> Any:
    """Return the final carry: fresh arrays, and NumPy scalars."""
    leaves, _ = flatten(as_nodes(val))
    return unflatten(
        carry.tree,
        [
            np.array(as_value(leaf, carry.owner), aval_of(x).dtype)[()]
            for leaf, x in zip(leaves, carry.values, strict=True)
        ],
    )


def while_on_plain_values(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], carry: Carry, most: int | None
) -> Any:
    """Run a loop on plain values.

    Raises:
        Traced: if a value is traced.
    """
    described = f"the condition {function_name(cond_fun)} of {carry.owner}"
    while True:
        checked, val, steps = _CarryChecker(carry), _locked(carry), 0
        kind, shape, dtype = checked.alone
        try:
            while True:
                goes_on = cond_fun(val)
                if type(goes_on) is not np.bool_ and type(goes_on) is not bool:
                    if isinstance(goes_on, Tracer):
                        raise ClosesOverTraced
                    goes_on = predicate(
                        goes_on, described, "compute one bool from it, e.g. with np.any"
                    )
                if not goes_on:
                    return _finished(carry, val)
                if steps == most:
                    raise ArgumentError(
                        f"{carry.owner} is not done after max_steps={most}", fix="allow more steps"
                    )
                val = body_fun(val)
                if kind is not type(val) or (shape and (val.shape != shape or val.dtype != dtype)):
                    val = checked(val)
                steps += 1
        except CarryDtypeChanged:
            continue
        except ValueError as error:
            explain(error, carry.owner)
            raise


def scan_on_plain_values(
    f: Callable[[Any, Any], Any],
    carry: Carry,
    arrays: list[Any],
    arrays_tree: PyTreeSpec,
    steps: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Run a scan on plain values; raises like `while_on_plain_values`."""
    arrays = [x.view() for x in arrays]
    for x in arrays:
        x.flags.writeable = False
    alone = arrays_tree.is_leaf()
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    while True:
        checked, val, results = (
            _CarryChecker(carry),
            _locked(carry),
            _StackedResults(carry.owner, steps),
        )
        kind, shape, dtype = checked.alone
        try:
            for t in order:
                x = arrays[0][t] if alone else unflatten(arrays_tree, [a[t] for a in arrays])
                pair = f(val, x)
                if tuple is not type(pair) or len(pair) != 2:
                    raise TreeError(
                        f"{carry.owner}: the body returned {described(flatten(pair)[1])}, not a "
                        "pair (carry, y)",
                        fix="return carry, y",
                    )
                val, y = pair
                if kind is not type(val) or (shape and (val.shape != shape or val.dtype != dtype)):
                    val = checked(val)
                if y is not None or results.stacks:
                    results.put(t, y)
            return _finished(carry, val), results.tree()
        except CarryDtypeChanged:
            continue
        except ValueError as error:
            explain(error, carry.owner)
            raise


@final
class _StackedResults:
    """The stacked results of a scan's steps."""

    def __init__(self, owner: str, steps: int) -> None:
        self.owner, self.steps = owner, steps
        self.stacks: list[Any] = []
        self._out_tree: PyTreeSpec | None = None
        self._avals: list[ShapeDtype] = []
        self._kinds: list[type] = []

    def put(self, t: int, y: PyTree) -> None:
        """Store the result of a step."""
        if (
            len(self._kinds) == 1 and type(y) is self._kinds[0]
        ):  # a single leaf again: no structure to compare
            leaves: Sequence[Any] = (y,)
        else:
            leaves, out_tree = flatten(y)
            if out_tree != self._out_tree:
                leaves, out_tree = flatten(as_nodes(y))
            if self._out_tree is None:
                self._out_tree = out_tree
                self._avals = [aval_of(as_value(leaf, self.owner)) for leaf in leaves]
                self._kinds = [type(leaf) for leaf in leaves] if out_tree.is_leaf() else []
                self.stacks = [np.empty((self.steps, *a.shape), a.dtype) for a in self._avals]
            elif out_tree != self._out_tree:
                raise _other_results(self.owner, out_tree, self._out_tree)
        for stack, leaf, aval in zip(self.stacks, leaves, self._avals, strict=True):
            if type(leaf) is not np.ndarray or leaf.shape != aval.shape or leaf.dtype != aval.dtype:
                if isinstance(leaf, Tracer):
                    raise ClosesOverTraced
                one: object = leaf
                found = aval_of(leaf if isinstance(one, np.generic) else as_value(leaf, self.owner))
                if found is not aval:
                    what = f"{self.owner}: a step returned y as {found}, another one as {aval}"
                    raise ShapeError(what, fix="return one type")
            stack[t] = leaf

    def tree(self) -> Any:
        """Return the stacked results."""
        return None if self._out_tree is None else unflatten(self._out_tree, self.stacks)


# -- traced values ---------------------------------------------------------------------------------


def while_eagerly(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], carry: Carry, most: int | None
) -> tuple[bool, Any]:
    """Run a loop on traced values, step by step; return whether all values are concrete, and the
    last carry."""
    described = f"the condition {function_name(cond_fun)} of {carry.owner}"
    while True:
        val, steps = _started(carry), 0
        try:
            while True:
                goes_on = concrete_value(
                    predicate(
                        cond_fun(val), described, "compute one bool from it, e.g. with np.any"
                    )
                )
                if goes_on is None:
                    return False, None
                if not goes_on:
                    return True, _ended(carry, val)
                if steps == most:
                    raise ArgumentError(
                        f"{carry.owner} is not done after max_steps={most}", fix="allow more steps"
                    )
                val = _next(carry, body_fun(val))
                steps += 1
        except CarryDtypeChanged:
            continue


def scan_eagerly(
    f: Callable[[Any, Any], Any],
    carry: Carry,
    arrays: list[Any],
    arrays_tree: PyTreeSpec,
    steps: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Run a scan on traced values, step by step."""
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    arrays = [_read_only(x) for x in arrays]
    while True:
        val, ys, out_tree = _started(carry), list[list[Any]](), flatten(None)[1]
        try:
            for t in order:
                pair = f(val, unflatten(arrays_tree, [x[t] for x in arrays]))
                if tuple is not type(pair) or len(pair) != 2:
                    raise TreeError(
                        f"{carry.owner}: the body returned {described(flatten(pair)[1])}, not a "
                        "pair (carry, y)",
                        fix="return carry, y",
                    )
                val = _next(carry, pair[0])
                leaves, found = flatten(as_nodes(pair[1]))
                if ys and found != out_tree:
                    raise _other_results(carry.owner, found, out_tree)
                out_tree = found
                ys.append([as_value(leaf, carry.owner) for leaf in leaves])
                if [aval_of(y) for y in ys[-1]] != [aval_of(y) for y in ys[0]]:
                    raise ShapeError(
                        f"{carry.owner}: steps returned y of several types", fix="return one type"
                    )
        except CarryDtypeChanged:
            continue
        placed = ys[::-1] if reverse else ys
        return _ended(carry, val), unflatten(
            out_tree, [np.stack(list(column)) for column in zip(*placed, strict=True)]
        )


def _read_only(value: object) -> Any:
    """Return a read-only view of an array, or another value unchanged."""
    untyped: Any = value
    if isinstance(value, np.ndarray):
        untyped = untyped.view()
        untyped.flags.writeable = False
    return untyped


def _started(carry: Carry) -> Any:
    """Return the initial carry, copied: the caller does not see writes."""
    leaves: list[Any] = []
    for given, value, number in zip(carry.given, carry.values, carry.numbers, strict=True):
        if number is not None:
            leaves.append(
                given
                if number is number_type(given)
                else number(value)
                if not isinstance(value, Tracer)
                else value
            )
        else:
            leaves.append(renewed(value) if isinstance(value, Tracer) else _read_only(value))
    return unflatten(carry.tree, leaves)


def _next(carry: Carry, val: PyTree) -> Any:
    """Check and convert the result of a step to the carry for the next step."""
    leaves, tree = flatten(as_nodes(val))
    carry.check_tree(tree)
    values = [as_value(leaf, f"{carry.owner}: the carry after a step") for leaf in leaves]
    numbers = [number_type(leaf) for leaf in leaves]
    if carry.widen(numbers, [aval_of(x) for x in values]):
        raise CarryDtypeChanged
    for k, (start, number) in enumerate(zip(carry.values, numbers, strict=True)):
        if takes(number, aval_of(start).dtype):
            values[k] = convert(values[k], aval_of(start).dtype)
    carry.check([aval_of(x) for x in values])
    weak = [
        kind is not None and kind is number
        for kind, number in zip(carry.numbers, numbers, strict=True)
    ]
    return unflatten(
        tree, [leaf if flag else x for leaf, flag, x in zip(leaves, weak, values, strict=True)]
    )


def _ended(carry: Carry, val: PyTree) -> Any:
    leaves = [as_value(leaf, carry.owner) for leaf in flatten(as_nodes(val))[0]]
    return unflatten(
        carry.tree, [renewed(x) if isinstance(x, Tracer) else np.array(x)[()] for x in leaves]
    )


def _other_results(owner: str, found: PyTreeSpec, before: PyTreeSpec) -> TreeError:
    """Return the error for steps with results of different structures."""
    path, one, another = difference(found, before)
    what = f"{owner}: a step returned y{path} as {one}, another one as {another}"
    return TreeError(what, fix="return the same structure at every step")
