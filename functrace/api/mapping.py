"""``vmap``: map a function of single examples over a batch, without a loop.

Floor: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.api.calls import as_value, function_name
from functrace.api.record import Called, Recorded
from functrace.api.transformed import transformed
from functrace.errors import ArgumentError, AxisError, ShapeError
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.program import Program
from functrace.ops.shaping import moveaxis
from functrace.tracing.capture import held_array
from functrace.tracing.recording import MAPPED, Recording, Tracer, Value
from functrace.transforms import vmap_program
from functrace.tree import flatten, paths, prefix_leaves, unflatten
from functrace.typing import P, PyTree, R


def vmap(f: Callable[P, R], in_axes: PyTree = 0, out_axes: PyTree = 0, axis_size: int | None = None) -> Callable[P, R]:
    """Return a function that maps ``f`` over an axis of its arguments.

    Args:
        f: a function of single examples.
        in_axes: which axis of each argument to map over: an int, ``None`` (not mapped), or a nest of them that is a prefix
            of the tuple of arguments. Keyword arguments are mapped along axis 0. Arrays that are not mapped keep
            their values (``if``, ``int``), numbers and other objects are passed as they are.
        out_axes: where the mapped axis goes in the results: an int, ``None`` for results that do not depend on mapped
            arguments, or a prefix nest.
        axis_size: number of examples; needed only if nothing is mapped.

    Returns:
        a function of batches. ``f`` runs once, on traced values without values.

    Raises:
        ShapeError: if mapped axes differ in size; names the arguments and sizes.
        ConcretizationError: if ``f`` asks for a value.

    Example:
        >>> import numpy as np
        >>> vmap(np.dot)(np.ones((2, 3)), np.ones((2, 3)))
        array([3., 3.])

    Cost:
        the array work of all examples, in one NumPy call per equation (or a few).
    """
    name = function_name(f)
    owner = f"vmap of {name}"

    @transformed("vmap", f)
    def mapped(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, treedef = flatten((args, kwargs))
        if isinstance(in_axes, list):
            axes_given: Any = tuple(in_axes)
        else:
            axes_given = in_axes
        if isinstance(axes_given, tuple) and len(axes_given) != len(args):
            raise ArgumentError(
                f"{owner}: in_axes has {len(axes_given)} entries, but {len(args)} positional arguments were given",
                fix="give one entry per positional argument (None for those not mapped)",
            )
        axes = prefix_leaves(axes_given, args, "in_axes") + [0] * len(flatten(kwargs)[0])
        values = [as_value(leaf, f"an argument of {name}") if axis is not None else leaf
                  for leaf, axis in zip(leaves, axes, strict=True)]  # fmt: skip
        places = [_normalize(axis, value, owner) for axis, value in zip(axes, values, strict=True)]
        size = _batch_size(places, values, args, kwargs, axis_size, owner)
        batched = [v if k is None else _to_front(v, k) for k, v in zip(places, values, strict=True)]

        def inputs(recording: Recording) -> Called:
            traced = [_input(recording, v, k is not None) for k, v in zip(places, batched, strict=True)]
            # Of the caller's plain arrays the function has copies; what is traced outside would have to change there.
            recording.arguments = tuple([x for x, v in zip(traced, batched, strict=True) if isinstance(v, Tracer)])
            return unflatten(treedef, traced)

        with Recording(owner, scope=MAPPED) as recording:
            call = Recorded(recording, f, inputs, reads=())
            out_places = prefix_leaves(out_axes, unflatten(call.out_tree, call.outputs), "out_axes")
            flags = tuple(place is not None for place in out_places)
            mapped_inputs = tuple([i not in recording.values for i in recording.inputs])

            def build(program: Program) -> Runner:
                others = [False] * (len(program.input_ids) - len(mapped_inputs))
                return Runner(vmap_program(program, size, [*mapped_inputs, *others], flags))

            runner, arguments = call.transformed(("vmap", size, mapped_inputs, flags), build)
            results = runner(arguments, call.lines)
        moved = [_from_front(r, k, owner) for r, k in zip(results, out_places, strict=True)]
        return unflatten(call.out_tree, moved)

    return mapped


def _input(recording: Recording, value: Any, is_mapped: bool) -> Any:
    """Add an input: of one example, to run on the whole batch, or an array that is not mapped, whose value is known.

    What is neither (a number, an outer traced value, any other object) goes to the function as it is.
    """
    if not is_mapped and not (isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "biufc"):
        return value
    array = held_array(value)
    if is_mapped:
        tracer = recording.new_input(ShapeDtype(value.shape[1:], value.dtype))
    else:
        tracer = recording.new_input(aval_of(value), array)
    if isinstance(value, np.ndarray) and (is_mapped or not value.flags.c_contiguous):
        recording.layouts[tracer._id] = value.strides[is_mapped:]
    recording.batches[tracer._id] = array
    return tracer


def _normalize(axis: int | None, value: Value, owner: str) -> int | None:
    if axis is None:
        return None
    rank = len(shape_of(value))
    if not -rank <= axis < rank:
        raise AxisError(
            f"{owner}: in_axes={axis}, but the argument is {aval_of(value)}", fix="use None for arguments not mapped"
        )
    return axis % rank


def _batch_size(
    places: list[int | None], values: list[Any], args: PyTree, kwargs: PyTree, axis_size: int | None, owner: str
) -> int:
    sizes = {}
    names = [f"args{p}" for p in paths(args)] + [f"kwargs{p}" for p in paths(kwargs)]
    for name, place, value in zip(names, places, values, strict=True):
        if place is not None:
            sizes[name] = value.shape[place]
    if axis_size is not None:
        sizes["axis_size"] = axis_size
    if not sizes:
        raise ArgumentError(f"{owner}: nothing is mapped", fix="give an axis in in_axes, or axis_size=")
    found = set(sizes.values())
    if len(found) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ShapeError(f"{owner}: mapped axes differ in size: {listed}", fix="map over axes of one size")
    return found.pop()


def _to_front(value: Value, axis: int) -> Any:
    return value if axis == 0 else moveaxis(value, axis, 0)


def _from_front(value: Value, axis: int | None, owner: str) -> Any:
    if axis is None or axis == 0:
        return value
    rank = len(shape_of(value))
    if not -rank <= axis < rank:
        raise AxisError(f"{owner}: out_axes={axis}, but the result has {rank} axes with the batch axis", fix="use 0")
    moved = moveaxis(value, 0, axis % rank)
    return np.ascontiguousarray(moved) if isinstance(moved, np.ndarray) else moved
