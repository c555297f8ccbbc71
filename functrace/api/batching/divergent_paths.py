"""Results of a mapped function whose examples took divergent paths, merged into one batch.

Results are merged in the order of the examples. All paths must return one structure, and the same
shape and dtype leaf by leaf; the error for a mismatch names the line of each, and the branch
condition at which the paths diverge. A Python number takes the dtype of the arrays that other
paths return in its place, by NumPy's promotion (NEP 50).

Layer: 8.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from functrace.errors import DtypeError, ShapeError, TreeError
from functrace.ir.aval import ShapeDtype
from functrace.ops.indexing import ARRAY, gather
from functrace.ops.joining import concatenate
from functrace.ops.shaping import broadcast_to, convert
from functrace.source import Source
from functrace.tracing.tracer import Tracer, Value
from functrace.transforms.examples import Divergence, Rows
from functrace.tree.describing import difference

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec


class Leaf(NamedTuple):
    """A leaf of the result of a path.

    Args:
        value: for all examples of the path, along its first axis if it is mapped.
        is_mapped: whether it differs between examples.
        aval: of one example.
        number: the Python type, if it is a number; ``None`` for arrays.
        source: the line that created it.
    """

    value: Any
    is_mapped: bool
    aval: ShapeDtype
    number: type | None
    source: Source | None


class PathResult(NamedTuple):
    """The result of a function for the examples of one path.

    Args:
        rows: the examples.
        forks: the branch conditions that separate them from others.
        leaves: of the result.
        tree: its structure.
    """

    rows: Rows
    forks: tuple[Divergence, ...]
    leaves: list[Leaf]
    tree: PyTreeSpec


def merged(paths: Sequence[PathResult], places: Sequence[int | None], owner: str) -> list[Any]:
    """Return the leaves for all examples, in their order; fresh arrays, with the examples along the
    first axis.

    Args:
        paths: the paths; each example is on one.
        places: ``None`` for each leaf that must be equal for all examples, as ``out_axes`` says.
        owner: for messages.

    Raises:
        TreeError, ShapeError, DtypeError: if the results of paths do not fit together.
        ShapeError: if a leaf that must be equal for all examples is not.
    """
    first = paths[0]
    for path in paths[1:]:
        if path.tree != first.tree:
            place, one, another = difference(first.tree, path.tree)
            raise TreeError(
                f"{owner}: one path returns {f'as result{place} ' if place else ''}{one}, another "
                f"{another}; "
                f"{_divergence(first, path)}",
                fix="return pytrees with the same structure on every path",
            )
    results: list[Any] = []
    for k, place in enumerate(places):
        leaves = [path.leaves[k] for path in paths]
        dtype = _common(paths, leaves, owner)
        results.append(
            _shared(paths, leaves, owner) if place is None else _batch(paths, leaves, dtype)
        )
    return results


def _common(paths: Sequence[PathResult], leaves: Sequence[Leaf], owner: str) -> np.dtype[Any]:
    """Check that a leaf has one shape and one dtype on all paths; return the dtype."""
    arrays = [k for k, leaf in enumerate(leaves) if leaf.number is None]
    numbers = [
        np.zeros((), leaf.aval.dtype)[()].item() for leaf in leaves if leaf.number is not None
    ]
    chosen = arrays[0] if arrays else 0
    aval = leaves[chosen].aval
    for k, leaf in enumerate(leaves):
        if leaf.aval.shape != aval.shape or (leaf.number is None and leaf.aval.dtype != aval.dtype):
            kind = ShapeError if leaf.aval.shape != aval.shape else DtypeError
            raise kind(
                f"{owner}: one path returns {aval}, another {leaf.aval}; "
                f"{_divergence(paths[chosen], paths[k])}",
                at=leaf.source,
                made=leaves[chosen].source,
                fix="return the same shape and dtype on every path",
            )
    if not arrays:
        return np.result_type(*[leaf.aval.dtype for leaf in leaves])
    dtype = np.result_type(aval.dtype, *numbers)
    if dtype != aval.dtype:
        k = next(k for k, leaf in enumerate(leaves) if leaf.number is not None)
        raise DtypeError(
            f"{owner}: one path returns {aval}, another a Python "
            f"{getattr(leaves[k].number, '__name__', 'number')}; "
            f"{_divergence(paths[chosen], paths[k])}",
            made=leaves[chosen].source,
            fix="return the same dtype on every path",
        )
    return dtype


def _divergence(one: PathResult, other: PathResult) -> str:
    """Describe where two paths diverge."""
    for a, b in zip(one.forks, other.forks, strict=False):
        if a != b:
            return f"they diverge at {a.source} (values {a.outcome} and {b.outcome})"
    return "the traces agree on every branch condition"


def _batch(paths: Sequence[PathResult], leaves: Sequence[Leaf], dtype: np.dtype[Any]) -> Any:
    """Return a leaf for all examples."""
    size, shape = sum([len(path.rows) for path in paths]), leaves[0].aval.shape
    if not any(isinstance(leaf.value, Tracer) for leaf in leaves):
        if len(leaves) == 1 and leaves[0].is_mapped:
            return np.array(leaves[0].value)
        whole = np.empty((size, *shape), dtype)
        for path, leaf in zip(paths, leaves, strict=True):
            whole[path.rows] = leaf.value
        return whole
    parts: list[Any] = []
    for path, leaf in zip(paths, leaves, strict=True):
        value = leaf.value if leaf.is_mapped else broadcast_to(leaf.value, (len(path.rows), *shape))
        parts.append(value if leaf.aval.dtype == dtype else convert(value, dtype))
    if len(parts) == 1:
        return _fresh(parts[0])
    rows = np.concatenate([path.rows for path in paths])
    joined = concatenate(parts, 0)
    if (rows[:-1] < rows[1:]).all():
        return joined
    return gather(joined, (ARRAY,), (np.argsort(rows),))


def _shared(paths: Sequence[PathResult], leaves: Sequence[Leaf], owner: str) -> Any:
    """Return a leaf that is equal for all examples."""
    first = leaves[0]
    for path, leaf in zip(paths, leaves, strict=True):
        if leaf.is_mapped:
            raise ShapeError(
                "vmap: an output with out_axes=None depends on the mapped inputs",
                made=leaf.source,
                fix="give it an axis in out_axes, or reduce it over the mapped axis first",
            )
        if leaf.aval != first.aval or not _is_same(leaf.value, first.value):
            raise ShapeError(
                f"{owner}: an output with out_axes=None depends on the path that an example takes; "
                f"{_divergence(paths[0], path)}",
                at=leaf.source,
                made=first.source,
                fix="give it an axis in out_axes",
            )
    return _fresh(first.value)


def _is_same(a: Value, b: Value) -> bool:
    """Return True if two values are equal; traced ones, if they are one variable."""
    if isinstance(a, Tracer) or isinstance(b, Tracer):
        return (
            isinstance(a, Tracer)
            and isinstance(b, Tracer)
            and a.ft_recording is b.ft_recording
            and a.ft_variable == b.ft_variable
        )
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _fresh(value: Value) -> Any:
    return (
        value.ft_recording.handle(value.ft_variable)
        if isinstance(value, Tracer)
        else np.array(value)[()]
    )
