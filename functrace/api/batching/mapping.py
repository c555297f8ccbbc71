"""``vmap``: map a function of single examples over a batch, without a loop.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.api.batching.divergent_paths import Leaf, PathResult, merged
from functrace.api.capture.arguments import argument_names, as_values, function_name
from functrace.api.capture.record import Called, RecordedCall
from functrace.api.capture.results import number_type
from functrace.api.capture.transformed import transformed
from functrace.errors import ArgumentError, AxisError, ShapeError, entry
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.shaping import moveaxis
from functrace.source import hide_own_frames
from functrace.tracing.binding import MAPPED
from functrace.tracing.capture import held_array
from functrace.tracing.recording import Recording
from functrace.tracing.release import AllHandles
from functrace.tracing.tracer import Tracer, Value
from functrace.transforms import vmap_program
from functrace.transforms.examples import ExampleGroup, Examples, TracePaths
from functrace.tree import flatten, prefix_leaves, unflatten
from functrace.typing import P, PyTree, R

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

OBSERVER: ContextVar[Callable[[Recording, int], None] | None] = ContextVar(
    "observer of mapped functions", default=None
)
"""Called with the recording of one example, and the number of examples, of each call of a mapped
function in this thread (`functrace.debug.explain_nan` names the example)."""


@entry
def vmap(
    f: Callable[P, R],
    in_axes: PyTree = 0,
    out_axes: PyTree = 0,
    axis_size: int | None = None,
    *,
    max_paths: int = 64,
) -> Callable[P, R]:
    """Make a function that maps ``f`` over an axis of its arguments.

    Python's own ``if`` and ``while`` may read values of the batch. Where examples differ, the batch
    is split: ``f`` runs once per path, and results come back in the order of the examples
    (docs/python_control_flow.md).

    Args:
        f: a function of single examples.
        in_axes: the axis of each argument to map over: an int, ``None`` (not mapped), or a pytree
            of them that is a prefix of the tuple of arguments. Keyword arguments are mapped along
            axis 0. Arrays that are not mapped stay concrete (``if``, ``int``); numbers and other
            objects are passed unchanged.
        out_axes: where the mapped axis goes in the results: an int, ``None`` for results that do
            not depend on mapped arguments, or a prefix pytree.
        axis_size: number of examples; needed only if nothing is mapped.
        max_paths: largest number of paths that the examples may take through ``f``. 1 requires all
            examples to take the same path, 0 forbids reading values.

    Returns:
        a function of batches. ``f`` runs on traced values of one example: once per path that
        examples take.

    Raises:
        ArgumentError: if ``max_paths`` is negative, ``in_axes`` does not match the arguments, or
            nothing is mapped.
        AxisError: if an argument lacks the axis to map, or a result the one of ``out_axes``.
        ShapeError: if mapped axes differ in size; the message names the arguments and sizes.
        ConcretizationError: if ``f`` reads a value that is abstract (under ``jit``, ``trace``, in
            the bodies of ``cond`` and ``scan``).
        TooManyPathsError: if there are more than ``max_paths`` paths; the message has their number
            and the branching line.
        TreeError, ShapeError, DtypeError: if paths return results that do not fit together; the
            message names the lines.

    Example:
        >>> import numpy as np
        >>> vmap(np.dot)(np.ones((2, 3)), np.ones((2, 3)))
        array([3., 3.])
        >>> vmap(lambda x: x if x > 0 else x * 0.1)(np.array([1.0, -1.0]))
        array([ 1. , -0.1])

    Cost:
        the array work of all examples, in one NumPy call per equation (or a few). With several
        paths: one recording per path, and the array work of each path for the examples on it.
    """
    name = function_name(f)
    owner = f"vmap of {name}"
    if max_paths < 0:
        raise ArgumentError(
            f"{owner}: max_paths={max_paths} is negative",
            fix="pass the number of paths that are allowed",
        )

    axes_kept: Any = in_axes
    is_listed = isinstance(in_axes, list)

    @transformed("vmap", f)
    def mapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            leaves, treedef = flatten((args, kwargs))
            axes_given: Any = tuple(axes_kept) if is_listed else axes_kept
            given: object = axes_given
            if isinstance(given, tuple) and len(axes_given) != len(args):
                raise ArgumentError(
                    f"{owner}: in_axes has {len(axes_given)} entries, but {len(args)} positional "
                    "arguments were given",
                    fix="give one entry per positional argument (None for those not mapped)",
                )
            if axes_given == 0 and type(axes_given) is int:
                axes: list[int | None] = [0] * len(leaves)
            else:
                of_args, of_kwargs = treedef.children()
                axes = prefix_leaves(axes_given, of_args, "in_axes") + [0] * of_kwargs.num_leaves
            values = as_values(
                leaves, owner, lambda: argument_names(treedef), [axis is not None for axis in axes]
            )
            places = [_place(axis, value) for axis, value in zip(axes, values, strict=True)]
            if -1 in places:
                raise _no_such_axis(places.index(-1), axes, values, treedef, owner)
            size = _batch_size(places, values, treedef, axis_size, owner)
            batched = [
                v if k is None else _to_front(v, k) for k, v in zip(places, values, strict=True)
            ]

            call = _MappedCall(f, owner, treedef, places, batched, size, out_axes)
            runs = TracePaths(owner, size, max_paths)
            while runs.waiting:
                call.run(runs, runs.take())
            results = [
                _from_front(r, k, owner)
                for r, k in zip(call.results(), call.out_places, strict=True)
            ]
            return unflatten(call.out_tree, results)
        except BaseException as error:
            hide_own_frames(error)
            raise

    return mapped


@final
class _MappedCall:
    """One call of a mapped function: runs the function of one example, once per trace path.

    Args:
        f: the function.
        owner: the transform and its function, for messages.
        tree: the structure of its arguments.
        places: the mapped axis of each leaf, or ``None``.
        values: of the leaves; mapped ones have the examples along their first axis.
        size: the number of examples.
        out_axes: of the results.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        owner: str,
        tree: PyTreeSpec,
        places: list[int | None],
        values: list[Any],
        size: int,
        out_axes: PyTree,
    ) -> None:
        self.f, self.owner, self.out_axes = f, owner, out_axes
        self.tree, self.places, self.values, self.size = tree, places, values, size
        self.out_tree = tree
        self.out_places: list[int | None] = []
        self.held: list[Any] = []
        """Snapshots of the arguments at the call: writes on one path do not affect another."""
        self.paths: list[PathResult] = []
        self.whole: list[Any] | None = None
        """The results, if the function concretized no value."""

    def run(self, paths: TracePaths, group: ExampleGroup) -> None:
        """Run the function for a group of examples, and keep the results of those that stay on this
        path."""
        examples = Examples(paths, group)
        try:
            self._run(examples, is_first=group.before is None)
        except Exception as error:
            if examples.forks:
                error.add_note(f"  in {self.owner}, on the path of {examples.described()}")
            raise

    def _run(self, examples: Examples, *, is_first: bool) -> None:
        numbers: list[type | None] = []

        def wanted(_recording: Recording, result: object) -> list[Any]:
            leaves, self.out_tree = flatten(result)
            numbers.extend(map(number_type, leaves))
            return leaves

        is_run = not any(isinstance(value, Tracer) for value in self.values)
        with ArrayRecording(self.owner, scope=MAPPED, is_run=is_run) as recording:
            recording.values.source = examples if examples.paths.most else None
            recording.handles = AllHandles()
            call = RecordedCall(recording, self.f, self._inputs, wanted=wanted, reads=())
            self.out_places = prefix_leaves(self.out_axes, self.out_tree, "out_axes")
            if is_first and not examples.has_outcome:
                self.whole = self._run_whole(call)
                return
            values = examples.results(recording, call.outputs)
            leaves = [
                Leaf(*value, recording.avals[i], number, recording.source(i))
                for value, i, number in zip(values, call.outputs, numbers, strict=True)
            ]
            self.paths.append(PathResult(examples.rows, examples.forks, leaves, self.out_tree))

    def _inputs(self, recording: Recording) -> Called:
        is_first = not self.held
        traced: list[Any] = []
        for n, (place, value) in enumerate(zip(self.places, self.values, strict=True)):
            if is_first:
                self.held.append(held_array(value) if _is_array(place, value) else value)
            elif _is_array(place, value):
                held_array(value)  # write-protect it while it is read
            traced.append(_input(recording, value, self.held[n], place is not None))
        # The function has copies of the caller's plain arrays; writes to outer traced values must
        # show outside.
        recording.arguments = tuple(
            [x for x, v in zip(traced, self.values, strict=True) if isinstance(v, Tracer)]
        )
        return unflatten(self.tree, traced)

    def _run_whole(self, call: RecordedCall) -> list[Any]:
        """Run the program for all examples, from the cache if possible."""
        recording, size = call.recording, self.size
        observe = OBSERVER.get()
        if observe is not None:
            observe(recording, size)
        flags = tuple([place is not None for place in self.out_places])
        mapped_inputs = tuple([i not in recording.values.known for i in recording.inputs])

        def build(program: Program) -> Runner:
            others = [False] * (len(program.input_ids) - len(mapped_inputs))
            return Runner(vmap_program(program, size, [*mapped_inputs, *others], flags))

        runner, arguments = call.transformed(("vmap", size, mapped_inputs, flags), build)
        return list(runner(arguments, call.lines))

    def results(self) -> list[Any]:
        """Return the leaves of the result, with the examples along their first axis."""
        return merged(self.paths, self.out_places, self.owner) if self.whole is None else self.whole


def _is_array(place: int | None, value: object) -> bool:
    """Return True if an argument becomes an input; numbers and outer traced values are forwarded
    unchanged."""
    untyped: Any = value
    return place is not None or (
        isinstance(value, np.ndarray) and untyped.ndim > 0 and untyped.dtype.kind in "biufc"
    )


def _input(recording: Recording, value: Any, array: Any, is_mapped: bool) -> Any:
    """Add an input: abstract, for one example of a batch, or an unmapped array with its concrete
    value."""
    if not _is_array(0 if is_mapped else None, value):
        return value
    if is_mapped:
        tracer = recording.new_input(ShapeDtype(value.shape[1:], value.dtype))
    else:
        tracer = recording.new_input(aval_of(value), array)
    if isinstance(value, np.ndarray) and (is_mapped or not value.flags.c_contiguous):
        recording.views.layouts[tracer.ft_variable] = value.strides[is_mapped:]
    recording.values.batches[tracer.ft_variable] = array
    return tracer


def _place(axis: int | None, value: Value) -> int | None:
    """Return the mapped axis of a leaf, counted from the front; -1 if the leaf has no such axis."""
    if axis is None:
        return None
    rank = len(shape_of(value))
    return axis % rank if -rank <= axis < rank else -1


def _no_such_axis(
    k: int, axes: Sequence[int | None], values: Sequence[Any], treedef: PyTreeSpec, owner: str
) -> AxisError:
    name, aval = argument_names(treedef)[k], aval_of(values[k])
    rank = len(aval.shape)
    if rank == 0:
        what = f"{name} is {aval}, which has no axis to map"
        fix = "pass an array with the examples along an axis; in_axes=None for it gives the same to all examples"
    else:
        what = f"in_axes={axes[k]}, but {name} is {aval}"
        fix = (
            "use in_axes=0: it has one axis"
            if rank == 1
            else f"its axes are between {-rank} and {rank - 1}"
        )
    return AxisError(f"{owner}: {what}", fix=fix)


def _batch_size(
    places: list[int | None],
    values: list[Any],
    treedef: PyTreeSpec,
    axis_size: int | None,
    owner: str,
) -> int:
    found = {
        value.shape[place] for place, value in zip(places, values, strict=True) if place is not None
    }
    if axis_size is not None:
        found.add(axis_size)
    if not found:
        raise ArgumentError(
            f"{owner}: nothing is mapped", fix="give an axis in in_axes, or axis_size="
        )
    if len(found) > 1:
        names = argument_names(treedef)
        named = [
            (name, value.shape[k])
            for name, k, value in zip(names, places, values, strict=True)
            if k is not None
        ]
        named += [] if axis_size is None else [("axis_size", axis_size)]
        listed = ", ".join(f"{name} has {n}" for name, n in named)
        raise ShapeError(
            f"{owner}: mapped axes differ in size: {listed}", fix="map over axes of one size"
        )
    return found.pop()


def _to_front(value: Value, axis: int) -> Any:
    return value if axis == 0 else moveaxis(value, axis, 0)


def _from_front(value: Value, axis: int | None, owner: str) -> Any:
    if axis is None or axis == 0:
        return value
    rank = len(shape_of(value))
    if not -rank <= axis < rank:
        raise AxisError(
            f"{owner}: out_axes={axis}, but the result has {rank} axes with the batch axis",
            fix="use 0",
        )
    moved = moveaxis(value, 0, axis % rank)
    return np.ascontiguousarray(moved) if isinstance(moved, np.ndarray) else moved
