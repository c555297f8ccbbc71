"""Loops that can be recorded: ``scan``, ``while_loop``, ``fori_loop`` and ``map``.

A body is recorded once, whatever the number of steps. If nothing is traced, Python runs the loop,
with the same checks of the carry.

Layer: 8.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, final

import numpy as np

from functrace.api.batching.mapping import vmap
from functrace.api.capture.arguments import as_value, as_values, function_name
from functrace.api.capture.results import guard_results
from functrace.api.control_flow.branches import predicate, takes, with_dtypes
from functrace.api.control_flow.checkpoints import Checkpoint, online_schedule_of, schedule_of
from functrace.api.control_flow.eager_loops import (
    Carry,
    ClosesOverTraced,
    is_traced,
    scan_eagerly,
    scan_on_plain_values,
    while_eagerly,
    while_on_plain_values,
)
from functrace.api.staging.disabling import ENTERED, is_diagnosing, is_jit_disabled
from functrace.control.call import call_program
from functrace.control.checkpointed_loop import checkpointed_loop
from functrace.control.checkpointed_steps import CheckpointedLoop
from functrace.control.scan import scan_program
from functrace.control.unrolling import repeated
from functrace.control.while_loop import while_program
from functrace.control.while_trips import Trip
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError, entry
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.parts import reordered, with_inputs
from functrace.ir.program import Program
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.arrays.traced_number import TracedNumber, as_number
from functrace.numpy.arrays.views import guard
from functrace.numpy.protocol.sparse_operands import as_nodes
from functrace.ops.shaping import convert
from functrace.tracing.capture import held_array
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value
from functrace.tree import flatten, paths, unflatten
from functrace.tree.describing import described
from functrace.typing import Array, PyTree, R, T

if TYPE_CHECKING:
    from functrace.control.schedules import Schedule
    from functrace.tree import PyTreeSpec


@entry
def scan(
    f: Callable[[Any, Any], tuple[R, Any]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint: Checkpoint | None = None,
) -> tuple[R, PyTree]:
    """Loop over the first axis of arrays with a carry, by a body of type ``(c, a) -> (c, b)``.

    The type of ``scan`` is ``((c, a) -> (c, b), c, [a]) -> (c, [b])``. It computes::

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack(ys)

    ``f`` is recorded once, whatever the number of steps. Where nothing is traced, it is called at
    each step.

    Args:
        f: the body. Its first result has the structure, shapes and dtypes of the carry; its second
            one, ``y``, is any pytree of arrays, or ``None``. It may close over traced values.
        init: the carry before the first step. Python numbers in it take the dtype that the body
            gives them; the first step then runs twice. (Start with ``np.float64(0.0)`` to avoid
            this.)
        xs: arrays (a pytree of them) with the same first axis; ``None`` if the body needs no input.
        length: number of steps; needed only without ``xs``.
        reverse: True to loop from the last slice to the first. Each ``y`` is stored where its slice
            was.
        unroll: number of steps per iteration of the recorded loop; ``True`` for all of them.
            Results do not depend on it.
        checkpoint: what the reverse pass keeps, instead of the residuals of every step; see
            `functrace.policies.binomial`. An int ``k``: the carry of every ``k``-th step, and the
            residuals of ``k`` steps at a time; ``"sqrt"``: the same with ``k`` near the square root
            of the number of steps; ``policies.binomial(slots)``: ``slots`` carries, with the least
            number of steps run again; a schedule of the package ``checkpoint-schedules``,
            whose carries on disk are in files, as by `functrace.policies.offload`.

    Returns:
        the final carry, and the ``y`` of all steps, stacked along a first axis.

    Raises:
        ArgumentError: if the number of steps cannot be determined, is negative, or ``unroll`` is
            less than 1.
        ShapeError: if first axes differ; if the carry changes its shape (the message names the leaf
            and both types).
        DtypeError: if the carry changes its dtype.
        TreeError: if the carry changes its structure, or ``f`` returns no pair.
        ConcretizationError: if a value is traced, and ``f`` reads a concrete value (``if carry >
            0``).
        CapturedArrayError: if ``f`` writes into its arguments, or into a value that it closes over;
            if the final carry shares memory with a traced initial one, and either is written later.

    Example:
        >>> import numpy as np
        >>> scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
        (np.float64(6.0), array([0., 1., 3.]))

    Cost:
        ``length`` times the body. Its derivative keeps the residuals of every step; with the body
        in `functrace.checkpoint`, it keeps the carries only; with ``checkpoint``, few of them. Then
        the reverse pass runs every step once more, or several times with `policies.binomial`. A
        reverse pass of a reverse pass has no schedule: it keeps the residuals of every step.
        Derivatives of every order have the bits of those of the loop without ``checkpoint``, with
        two exceptions: ``jit`` computes products of all steps of plain loops at once, which rounds
        otherwise; and a reverse pass of a reverse pass sums cotangents in another order (a few
        units in the last place of each sum) where a loop with ``checkpoint`` is in the body of
        another loop, or in a function that is jitted inside of both.

    Source:
        ``jax.lax.scan``.
    """
    name = function_name(f)
    owner = f"scan of {name}"
    arrays, arrays_tree = flatten(xs)
    arrays = as_values(arrays, owner, lambda: [f"xs{path}" for path in paths(arrays_tree)])
    steps = _length(arrays, xs, length, owner)
    block = _unrolled(unroll, steps, owner)
    schedule = None if checkpoint is None else schedule_of(checkpoint, steps, owner)
    if schedule is not None and block > 1:
        raise ArgumentError(f"{owner}: unroll with checkpoint", fix="pass one of them")
    if schedule is not None and is_diagnosing():
        schedule = None
    carry = Carry(init, owner)
    if steps and carry.is_plain and not is_traced(arrays):
        try:
            return scan_on_plain_values(f, carry, arrays, arrays_tree, steps, reverse)
        except ClosesOverTraced:
            carry = Carry(init, owner)
    if steps and ENTERED and is_jit_disabled():
        return scan_eagerly(f, carry, arrays, arrays_tree, steps, reverse)
    arrays = [held_array(x) for x in arrays]
    slices = [ShapeDtype(x.shape[1:], x.dtype) for x in arrays]
    body = _RecordedBody(f, carry, slices, arrays_tree, name, [*flatten(xs)[0], *carry.given])
    results = _scanned(body, carry, arrays, steps, reverse, block, schedule)
    for k, (result, origin) in enumerate(
        zip(results[: body.carries], body.staged.origins, strict=False)
    ):
        if origin.place is None or origin.place != k or origin.views:
            everything = [*carry.values, *arrays]
            guard_results([result], [origin], everything, owner, others=everything, plain=False)
        else:
            guard(result, [carry.values[k]], owner)
    final_carry, stacked = unflatten(body.tree, results)
    return final_carry, stacked


@entry
def while_loop(
    cond_fun: Callable[[T], Any],
    body_fun: Callable[[T], T],
    init_val: T,
    *,
    max_steps: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> T:
    """Repeat ``val = body_fun(val)`` while ``cond_fun(val)`` is true.

    Both functions are recorded once. Where nothing is traced, they are called as by Python's
    ``while``. Unlike in JAX, a ``while_loop`` has a reverse-mode derivative. Under ``vmap`` every
    example stops after its own number of steps, and steps that it did not take contribute nothing
    to its derivative.

    Args:
        cond_fun: from ``val`` to one bool or number. It may close over traced values.
        body_fun: from ``val`` to a new ``val`` of the same structure, shapes and dtypes. It may
            close over traced values.
        init_val: a pytree of arrays and numbers. Python numbers in it take the dtype that the body
            gives them; the first step then runs twice. (Start with ``np.float64(0.0)`` to avoid
            this.)
        max_steps: largest number of steps, for loops that may not end; ``None`` for no limit. It
            takes no memory.
        checkpoint: ``policies.binomial(slots)``: the reverse pass keeps ``slots`` values of
            ``val``, instead of the residuals of every step. They are chosen while the loop runs,
            since its number of steps is unknown. With ``max_steps``, also an int ``k`` or
            ``"sqrt"``: one slot for every ``k``-th of ``max_steps`` steps, ``k`` near the square root.

    Returns:
        the final ``val``.

    Raises:
        ArgumentError: if ``max_steps`` is not a number of steps; when the loop runs, if it takes
            more than ``max_steps`` steps.
        ShapeError: if ``val`` changes its shape (the message names the leaf and both types), or the
            condition is not a scalar.
        DtypeError: if ``val`` changes its dtype.
        TreeError: if ``val`` changes its structure.
        ConcretizationError: if a value is traced, and a function reads a concrete value (``if val >
            0``).
        CapturedArrayError: if a function writes into its arguments, or into a value that it closes
            over; if the result shares memory with a traced initial value, and either is written
            later.

    Example:
        >>> import numpy as np
        >>> while_loop(lambda x: x > 1.0, lambda x: x / 2.0, 100.0)
        np.float64(0.78125)

    Cost:
        body and condition, once per step. The reverse-mode derivative keeps the body's residuals of
        each step. Where loop and derivative run separately (`vjp`, `checkpoint`), or examples under
        `vmap` take different numbers of steps, the derivative runs the loop once more.

    Source:
        ``jax.lax.while_loop``.
    """
    name = function_name(body_fun)
    owner = f"while_loop of {name}"
    most = None if max_steps is None else _count(max_steps, owner, "max_steps")
    schedule = None if checkpoint is None else online_schedule_of(checkpoint, most, owner)
    if schedule is not None and is_diagnosing():
        schedule = None
    carry = Carry(init_val, owner)
    if carry.is_plain:
        try:
            return while_on_plain_values(cond_fun, body_fun, carry, most)
        except ClosesOverTraced:
            carry = Carry(init_val, owner)
    if ENTERED and is_jit_disabled():
        is_concrete, val = while_eagerly(cond_fun, body_fun, carry, most)
        if is_concrete:
            return val
        carry = Carry(init_val, owner)
    body = _RecordedBody(
        lambda val, _: (body_fun(val), None), carry, [], flatten(None)[1], name, carry.given
    )
    described = f"the condition {function_name(cond_fun)} of {owner}"

    def goes_on(val: PyTree) -> Any:
        return predicate(cond_fun(val), described, "compute one bool from it, e.g. with np.any")

    condition = carry.stage(
        goes_on,
        described,
        carry.given,
    )
    count = body.carries
    step = _constants_first(with_inputs(body.program, count, (), condition.captured), count)
    cond = _constants_first(with_inputs(condition.program, count, body.staged.captured, ()), count)
    captured = [*body.staged.captured, *condition.captured]
    if schedule is None or not step.output_ids:
        trip = Trip(cond, (step,), (count,), (False,), len(captured), 0, most)
        results = while_program(trip, [*captured, *carry.values])
    else:
        loop = CheckpointedLoop(step, cond, None, False, len(captured), count, most, schedule, ())
        results = checkpointed_loop(loop, [*captured, *carry.values])
    guard_results(
        results, body.staged.origins, carry.values, owner, others=carry.values, plain=False
    )
    return unflatten(carry.tree, results)


@entry
def fori_loop(
    lower: int | Array | np.generic | Tracer,
    upper: int | Array | np.generic | Tracer,
    body_fun: Callable[[Any, T], T],
    init_val: T,
    *,
    unroll: int | bool | None = None,
    checkpoint: Checkpoint | None = None,
) -> T:
    """Repeat ``val = body_fun(i, val)`` for every ``i`` from ``lower`` to ``upper - 1``.

    With concrete bounds it is a `scan`, otherwise a `while_loop`; both have all derivatives.

    Args:
        lower: the first step: an integer, plain or traced.
        upper: the end, which is excluded; there are no steps if ``upper <= lower``.
        body_fun: from ``i`` and ``val`` to a new ``val`` of the same structure, shapes and dtypes.
            ``i`` is a Python int if both bounds are. Otherwise it has the dtype that NumPy promotes
            the bounds to, where a Python int counts as int64; uint64 with a signed dtype gives
            uint64 if ``lower`` has it, else int64.
        init_val: a pytree of arrays and numbers.
        unroll: number of steps per iteration of the recorded loop; for concrete bounds only.
        checkpoint: what the reverse pass keeps, instead of the residuals of every step: the carry
            of every ``k``-th step (an int), or ``"sqrt"``, or `functrace.policies.binomial`, which
            is the only one for traced bounds.

    Returns:
        the final ``val``.

    Raises:
        DtypeError: if a bound is not an integer, or ``val`` changes its dtype.
        ShapeError: if a bound is not a scalar, or ``val`` changes its shape (the message names the
            leaf and both types).
        TreeError: if ``val`` changes its structure.
        ArgumentError: if ``unroll`` is given and a bound is abstract.
        ConcretizationError: if a value is traced, and ``body_fun`` reads a concrete value (``if val
            > 0``).
        CapturedArrayError: if ``body_fun`` writes into its arguments, or into a value that it
            closes over.

    Example:
        >>> fori_loop(1, 6, lambda i, product: product * i, 1)
        np.int64(120)

    Cost:
        the body, once per step; the reverse-mode derivative keeps the body's residuals of every
        step, or what ``checkpoint`` says.

    Source:
        ``jax.lax.fori_loop``.
    """
    bounds = [_bound(x, word, body_fun) for x, word in ((lower, "lower"), (upper, "upper"))]
    is_python = [
        isinstance(x, int) or (isinstance(x, TracedNumber) and x.kind is int)
        for x in (lower, upper)
    ]
    kind = int if all(is_python) else None

    def number(i: Array | np.integer[Any] | TracedArray) -> Any:
        """Return the index of a step for the body: a Python number, with a weak dtype, if both
        bounds are."""
        return i if kind is None else as_number(i, kind) if isinstance(i, TracedArray) else int(i)

    dtype = _counter_dtype(*[aval_of(x).dtype for x in bounds])
    known = [concrete_value(x) for x in bounds]
    if all(x is not None for x in known):
        first, last = int(known[0]), int(known[1])

        def step(val: T, i: Array) -> tuple[T, None]:
            return body_fun(number(i), val), None

        step.__name__ = function_name(body_fun)
        if checkpoint is not None:  # a counter among the carries, instead of all numbers in memory

            def counted(state: tuple[Any, T], _: None) -> tuple[tuple[Any, T], None]:
                i, val = state
                return (i + 1, body_fun(number(i), val)), None

            counted.__name__ = step.__name__
            start, steps = dtype.type(first), max(last - first, 0)
            return scan(
                counted, (start, init_val), length=steps, unroll=unroll or 1, checkpoint=checkpoint
            )[0][1]
        numbers = np.arange(first, last, dtype=dtype) if last > first else np.empty(0, dtype)
        return scan(step, init_val, numbers, unroll=unroll or 1, checkpoint=checkpoint)[0]
    if unroll not in (None, 1, False):
        raise ArgumentError(
            f"fori_loop of {function_name(body_fun)}: unroll={unroll}, but the number of steps is "
            "abstract",
            fix="omit unroll, or pass bounds as Python integers",
        )

    def body(state: tuple[Any, T]) -> tuple[Any, T]:
        i, val = state
        return i + 1, body_fun(number(i), val)

    body.__name__ = function_name(body_fun)
    return while_loop(
        lambda state: state[0] < bounds[1],
        body,
        (convert(bounds[0], dtype), init_val),
        checkpoint=checkpoint,
    )[1]


def _counter_dtype(lower: np.dtype[Any], upper: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that holds every number from a lower bound to an upper one, both
    included."""
    dtype = np.result_type(lower, upper)
    if dtype.kind != "f":
        return dtype
    # uint64 and a signed dtype: the numbers between the bounds are in both int64 and uint64, and
    # `less` compares exactly.
    return np.dtype(np.uint64 if lower.kind == "u" else np.int64)


def _bound(value: object, word: str, f: Callable[..., Any]) -> Any:
    owner = f"fori_loop of {function_name(f)}: {word}"
    found = as_value(value, owner)
    if shape_of(found) != ():
        raise ShapeError(f"{owner} is {aval_of(found)}, not a scalar", fix="pass one integer")
    if aval_of(found).dtype.kind not in "iu":
        raise DtypeError(f"{owner} is {aval_of(found)}, not an integer", fix="pass an integer")
    return found


@entry
def map(f: Callable[[Any], R], xs: PyTree, *, batch_size: int | None = None) -> R:
    """Apply ``f`` to each slice along the first axis of ``xs``, one after the other, and stack the
    results.

    The results are those of `vmap`, with the memory of one slice.

    Args:
        f: a function of single examples, to a pytree of arrays.
        xs: arrays (a pytree of them) with the same first axis.
        batch_size: number of examples to compute at once, by `vmap`; by default one.

    Returns:
        the results, stacked along a first axis.

    Raises:
        ArgumentError: if ``batch_size`` is less than 1.
        ShapeError: if first axes differ.
        ConcretizationError: if a value is traced, and ``f`` reads a concrete value.

    Example:
        >>> import numpy as np
        >>> map(lambda x: x * x, np.arange(4.0))
        array([0., 1., 4., 9.])

    Cost:
        the body, once per example (or batch).

    Source:
        ``jax.lax.map``.
    """
    if batch_size is None:
        return scan(_without_carry(f), None, xs)[1]
    owner = f"map of {function_name(f)}"
    size = _count(batch_size, owner, "batch_size")
    if not size:
        raise ArgumentError(f"{owner}: batch_size=0", fix="pass 1 or more, or leave it out")
    leaves, tree = flatten(xs)
    leaves = as_values(leaves, owner, lambda: [f"xs{path}" for path in paths(tree)])
    total = _length(leaves, xs, None, owner)
    mapped = vmap(f)
    whole = total - total % size
    if not whole:
        return mapped(xs) if total else scan(_without_carry(f), None, xs)[1]
    blocks = [x[:whole].reshape((whole // size, size, *x.shape[1:])) for x in leaves]
    found, found_tree = flatten(scan(_without_carry(mapped), None, unflatten(tree, blocks))[1])
    found = [y.reshape((whole, *y.shape[2:])) for y in found]
    if whole < total:
        rest, _ = flatten(mapped(unflatten(tree, [x[whole:] for x in leaves])))
        found = [np.concatenate(pair) for pair in zip(found, rest, strict=True)]
    return unflatten(found_tree, found)


def _without_carry(f: Callable[[Any], Any]) -> Callable[[None, Any], tuple[None, Any]]:
    def step(_: None, x: PyTree) -> tuple[None, Any]:
        return None, f(x)

    step.__name__ = function_name(f)
    return step


def _count(value: SupportsIndex, owner: str, word: str) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        found = -1
    if found < 0 or isinstance(value, bool):
        raise ArgumentError(
            f"{owner}: {word}={value!r} is not a number of steps", fix="pass an int, 0 or more"
        )
    return found


def _unrolled(unroll: int | bool, steps: int, owner: str) -> int:
    """Return the number of steps per iteration."""
    if isinstance(unroll, bool):
        return steps if unroll else 1
    found = _count(unroll, owner, "unroll")
    if not found:
        raise ArgumentError(f"{owner}: unroll=0", fix="pass 1 or more, or True for all steps")
    return found


def _length(arrays: list[Any], xs: PyTree, length: int | None, owner: str) -> int:
    sizes = {
        f"xs{path}": shape_of(x)[0]
        for path, x in zip(paths(xs), arrays, strict=True)
        if shape_of(x)
    }
    if len(sizes) < len(arrays):
        raise ShapeError(
            f"{owner}: xs has a scalar, which has no axis to loop over", fix="close over it instead"
        )
    if length is not None:
        sizes["length"] = operator.index(length)
        if sizes["length"] < 0:
            raise ArgumentError(
                f"{owner}: length={length} is negative", fix="pass the number of steps, 0 or more"
            )
    if not sizes:
        raise ArgumentError(
            f"{owner}: the number of steps is undefined without xs", fix="pass length="
        )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ShapeError(
            f"{owner}: first axes differ in size: {listed}", fix="loop over axes of one size"
        )
    return next(iter(sizes.values()))


# -- recorded --------------------------------------------------------------------------------------


@final
class _RecordedBody:
    """The recorded body of a loop: from carry, slices and captured values to carry and results."""

    def __init__(
        self,
        f: Callable[[Any, Any], Any],
        carry: Carry,
        slices: list[ShapeDtype],
        slices_tree: PyTreeSpec,
        name: str,
        reads: Sequence[Any],
    ) -> None:
        def body(val: PyTree, leaves: Sequence[Any] = ()) -> Any:
            return as_nodes(f(val, unflatten(slices_tree, leaves)))

        body.__name__ = name
        while True:
            staged = carry.stage(body, carry.owner, reads, slices)
            tree = staged.out_tree
            if tree.type is not tuple or tree.num_children != 2:
                what = f"{carry.owner}: the body returned {described(tree)}, not a pair (carry, y)"
                raise TreeError(what, fix="return carry, y")
            carry.check_tree(tree.children()[0])
            if not carry.widen(staged.numbers, staged.out_avals):
                break
        dtypes = [aval.dtype for aval in staged.out_avals]
        for k, (start, number) in enumerate(zip(carry.values, staged.numbers, strict=False)):
            if takes(number, aval_of(start).dtype):  # the body returned a Python number
                dtypes[k] = aval_of(start).dtype
        self.staged, self.tree, self.carries = staged, tree, len(carry.values)
        self.program: Program = with_dtypes(staged.program, dtypes)
        avals = [
            ShapeDtype(aval.shape, dtype)
            for aval, dtype in zip(staged.out_avals, dtypes, strict=True)
        ]
        carry.check(avals[: self.carries])


def _constants_first(program: Program, explicit: int) -> Program:
    """Return a program with its captured values before its explicit inputs."""
    return reordered(program, [*range(explicit, len(program.input_ids)), *range(explicit)])


def _scanned(
    body: _RecordedBody,
    carry: Carry,
    arrays: list[Any],
    steps: int,
    reverse: bool,
    block: int,
    schedule: Schedule | None,
) -> list[Any]:
    """Apply a loop with ``block`` steps per iteration; remaining steps are inlined after it."""
    program, captured = (
        _constants_first(body.program, body.carries + len(arrays)),
        body.staged.captured,
    )
    sizes = (len(captured), body.carries)
    if schedule is not None and steps and program.output_ids:
        loop = CheckpointedLoop(program, None, steps, reverse, *sizes, None, schedule, ())
        return checkpointed_loop(loop, [*captured, *carry.values, *arrays])
    if block <= 1 or not steps:
        return scan_program(program, [*captured, *carry.values, *arrays], steps, reverse, *sizes)
    rest, turns = steps % block, steps // block
    begin, end = (rest, steps) if reverse else (0, steps - rest)
    state, stacks = carry.values, list[Any]()
    if turns:
        blocks = [x[begin:end].reshape((turns, block, *x.shape[1:])) for x in arrays]
        turn = repeated(program, block, reverse, *sizes)
        results = scan_program(turn, [*captured, *state, *blocks], turns, reverse, *sizes)
        state = results[: body.carries]
        stacks = [y.reshape((end - begin, *y.shape[2:])) for y in results[body.carries :]]
    if rest:
        others = [x[:begin] if reverse else x[end:] for x in arrays]
        last = repeated(program, rest, reverse, *sizes).interned()
        results = call_program(last, [*captured, *state, *others])
        state, more = results[: body.carries], results[body.carries :]
        both = zip(more, stacks, strict=True) if reverse else zip(stacks, more, strict=True)
        stacks = [np.concatenate(pair) for pair in both] if turns else more
    return [*state, *stacks]
