"""Pytrees: nests of tuples, lists, dicts, namedtuples … with arrays as leaves. The work is optree's.

``None`` is an empty subtree, as in JAX. ``functrace.tree`` gives the functions one needs most under their usual names.

Floor: b (base).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import optree
from optree import PyTreeSpec, tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

from functrace.errors import ShapeError, TreeError
from functrace.typing import PyTree

__all__ = [
    "PyTreeSpec", "combine", "flatten", "flatten_like", "flatten_with_path", "leaves", "leaves_or_none", "map",
    "map_with_path", "partition", "paths", "prefix_leaves", "ravel", "reduce", "structure", "transpose", "tree_flatten",
    "tree_leaves", "tree_map", "tree_structure", "tree_unflatten", "unflatten",
]  # fmt: skip

if TYPE_CHECKING:  # optree's own types speak of a generic nest, which no nest of the user's is

    def leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]: ...
    def structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeSpec: ...
    def map(
        function: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: Callable[[Any], bool] | None = None
    ) -> Any: ...

else:
    leaves, structure, map = tree_leaves, tree_structure, tree_map


def flatten(tree: PyTree) -> tuple[list[Any], PyTreeSpec]:
    """Return the leaves of a nest, and its structure."""
    return tree_flatten(tree)


def unflatten(treedef: PyTreeSpec, values: Iterable[Any]) -> Any:
    """Put leaves back into a nest."""
    return tree_unflatten(treedef, values)


def paths(tree: PyTree) -> list[str]:
    """Name every leaf by how it is reached: ``['w'][0]``."""
    return ["".join(f"[{k!r}]" for k in path) for path in optree.tree_paths(tree)]


def flatten_with_path(tree: PyTree) -> tuple[list[tuple[tuple[Any, ...], Any]], PyTreeSpec]:
    """Return pairs of the keys that lead to a leaf, and the leaf; and the structure.

    Example:
        >>> flatten_with_path({"w": [1.0, 2.0]})[0]
        [(('w', 0), 1.0), (('w', 1), 2.0)]
    """
    keys, found, treedef = optree.tree_flatten_with_path(tree)
    return list(zip(keys, found, strict=True)), treedef


def map_with_path(function: Callable[..., Any], tree: PyTree, *rest: PyTree) -> Any:
    """Apply a function to the keys that lead to every leaf, and to the leaf (and those in the same place of other nests)."""
    return optree.tree_map_with_path(function, tree, *rest)


def reduce(function: Callable[[Any, Any], Any], tree: PyTree, *initial: PyTree) -> Any:
    """Fold the leaves with a function of two arguments, from the left; from ``initial``, if it is given.

    Example:
        >>> reduce(lambda total, x: total + x, {"a": 1.0, "b": [2.0, 3.0]})
        6.0
    """
    return functools.reduce(function, tree_leaves(tree), *initial)


def transpose(outer: PyTreeSpec, inner: PyTreeSpec, tree: PyTree) -> Any:
    """Turn a nest of nests inside out: ``inner`` in each leaf of ``outer`` becomes ``outer`` in each leaf of ``inner``."""
    return optree.tree_transpose(outer, inner, tree)


def partition(predicate: Callable[[Any], bool], tree: PyTree) -> tuple[Any, Any]:
    """Split a nest in two: the leaves of which a predicate holds, and the others; ``None`` in place of what is not there.

    So a nest of parameters that holds ints and words is differentiated by its arrays only; `combine` puts it together.

    Example:
        >>> import numpy as np, functrace as ft
        >>> layer = {"w": np.array([1.0, 2.0]), "steps": 3, "name": "dense"}
        >>> arrays, rest = partition(lambda leaf: isinstance(leaf, np.ndarray), layer)
        >>> def loss(arrays):
        ...     layer = combine(arrays, rest)
        ...     return np.sum(layer["w"] ** layer["steps"])
        >>> ft.grad(loss)(arrays)["w"]
        array([ 3., 12.])
    """
    found, treedef = tree_flatten(tree, none_is_leaf=True)
    chosen = [leaf is not None and predicate(leaf) for leaf in found]
    parts = ([leaf if flag is side else None for leaf, flag in zip(found, chosen, strict=True)] for side in (True, False))
    first, second = (tree_unflatten(treedef, part) for part in parts)
    return first, second


def combine(*trees: PyTree) -> Any:
    """Put together what `partition` has split: of every place the first leaf that is not ``None``.

    Raises:
        TreeError: if the nests have different structures.
    """
    flat = [tree_flatten(tree, none_is_leaf=True) for tree in trees]
    if not flat or any(treedef != flat[0][1] for _, treedef in flat):
        raise TreeError("combine takes parts of one nest", fix="pass what functrace.tree.partition returned")
    columns = zip(*[found for found, _ in flat], strict=True)
    return tree_unflatten(flat[0][1], [next((leaf for leaf in column if leaf is not None), None) for column in columns])


def ravel(tree: PyTree) -> tuple[Any, Callable[[Any], Any]]:
    """Return all elements of a nest of arrays as one vector, and the function that makes the nest of such a vector.

    The vector has the dtype that those of the leaves promote to; the nest has the leaves' own again.

    Example:
        >>> import numpy as np
        >>> vector, unravel = ravel({"a": np.ones((2, 2)), "b": 3.0})
        >>> vector
        array([1., 1., 1., 1., 3.])
        >>> unravel(vector * 2.0)["b"]
        np.float64(6.0)

    Source:
        ``jax.flatten_util.ravel_pytree``.
    """
    found, treedef = tree_flatten(tree)
    shapes = [np.shape(leaf) for leaf in found]
    dtypes = [np.result_type(leaf) if isinstance(leaf, bool | int | float | complex) else leaf.dtype for leaf in found]
    ends = np.cumsum([0, *[math.prod(shape) for shape in shapes]]).tolist()
    vector = np.concatenate([np.reshape(leaf, -1) for leaf in found]) if found else np.zeros(0)

    def unravel(flat: PyTree) -> Any:
        if np.shape(flat) != (ends[-1],):
            raise ShapeError(f"unravel: a vector of {np.shape(flat)} was given", fix=f"pass shape {(ends[-1],)}")
        parts = zip(ends[:-1], ends[1:], shapes, dtypes, strict=True)
        return tree_unflatten(treedef, [_typed(np.reshape(flat[a:b], shape), dtype) for a, b, shape, dtype in parts])

    return vector, unravel


def _typed(leaf: PyTree, dtype: np.dtype[Any]) -> Any:
    made = leaf.astype(dtype)
    return made[()] if isinstance(made, np.ndarray) and not made.ndim else made


def flatten_like(treedef: PyTreeSpec, tree: PyTree, what: str, of: str) -> list[Any]:
    """Flatten ``tree``, which must have the structure ``treedef``.

    Raises:
        TreeError: naming ``what`` was given, ``of`` what it must match, and both structures.
    """
    found, structure_found = tree_flatten(tree)
    if structure_found != treedef:
        raise TreeError(
            f"{what} have the structure {_show(structure_found)}, but {of} have {_show(treedef)}",
            fix=f"pass {what} in the same nest as {of}",
        )
    return found


def leaves_or_none(treedef: PyTreeSpec, tree: PyTree, what: str, of: str) -> list[Any]:
    """Flatten ``tree``, which must have the structure ``treedef``, or ``None`` in place of parts of it.

    ``None`` in place of the whole is refused: it is what a function without ``return`` returns.

    Returns:
        the leaves, ``None`` for each leaf of a part that is left out.

    Raises:
        TreeError: as `flatten_like`.
    """
    found, structure_found = tree_flatten(tree)
    if structure_found == treedef:
        return found
    result: list[Any] = []

    def walk(spec: PyTreeSpec, sub: PyTree) -> bool:
        if sub is None:
            result.extend([None] * spec.num_leaves)
            return True
        children, level = tree_flatten(sub, is_leaf=lambda x: x is not sub)
        if spec.is_leaf():
            result.append(sub)
            return level.is_leaf()
        return level == spec.one_level() and all(walk(*pair) for pair in zip(spec.children(), children, strict=True))

    if tree is None or not walk(treedef, tree):
        flatten_like(treedef, tree, what, of)  # raises
    return result


def prefix_leaves(prefix: PyTree, tree: PyTree, what: str) -> list[Any]:
    """Spread a prefix tree (``in_axes``) over the leaves of ``tree``; ``None`` in it is a leaf.

    Raises:
        TreeError: if ``prefix`` is not a prefix of ``tree``.
    """
    result: list[Any] = []
    pairs = [(prefix, tree)]
    while pairs:
        p, sub = pairs.pop()
        if p is None or isinstance(p, (int, np.integer)):  # (`A | B` would build a new type at every call)
            result += [p if p is None else int(p)] * len(tree_leaves(sub))
            continue
        children, metadata = _children(p), _children(sub)
        if children is None or metadata is None or children[1] != metadata[1]:
            raise TreeError(
                f"{what} {prefix!r} does not fit the nest {_show(tree_structure(tree))}",
                fix=f"{what} is an int, None, or a nest of them that is a prefix of the arguments",
            )
        pairs += reversed(list(zip(children[0], metadata[0], strict=True)))
    return result


def _children(tree: PyTree) -> tuple[list[Any], Any] | None:
    if isinstance(tree, dict):
        keys = sorted(tree, key=repr)
        return [tree[k] for k in keys], ("dict", tuple(keys))
    if isinstance(tree, (tuple, list)):
        return list(tree), ("sequence", len(tree))
    return None


def _show(treedef: PyTreeSpec) -> str:
    return str(treedef).removeprefix("PyTreeSpec(").removesuffix(")")


def map_leaves(function: Callable[[Any], Any], tree: PyTree) -> Any:
    """Apply a function to every leaf; no frame of optree stands between the caller and the function."""
    found, treedef = tree_flatten(tree)
    return tree_unflatten(treedef, [function(leaf) for leaf in found])


def __dir__() -> list[str]:
    """The public names."""
    return __all__
