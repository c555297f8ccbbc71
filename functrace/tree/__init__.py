"""Pytrees: nests of tuples, lists, dicts, namedtuples, dataclasses … with arrays as leaves. The work is optree's.

``None`` is an empty subtree, as in JAX. ``functrace.tree`` gives the functions one needs most under their usual names;
which classes are nests is said in `functrace.tree.nodes`.

Layer: b (base).
"""

from __future__ import annotations

import builtins
import functools
import math
import types
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from functrace.later import LaterModule
from functrace.tree.describing import described, difference
from functrace.tree.nodes import LEAVES, NAMESPACE, check_depth, is_exact, register, see, shown, static
from functrace.typing import PyTree

if TYPE_CHECKING:
    import optree
    from optree import PyTreeSpec
else:  # it takes 10 ms, and derivatives by single arrays need none of it
    optree = LaterModule("optree", globals())

__all__ = [
    "PyTreeSpec", "all", "broadcast", "combine", "flatten", "flatten_like", "flatten_with_path", "leaves", "leaves_or_none",
    "leaves_with_path", "map", "map_with_path", "partition", "paths", "prefix_leaves", "ravel", "reduce",
    "reduce_associative", "register", "static", "structure", "transpose", "tree_flatten", "tree_leaves", "tree_map",
    "tree_structure", "tree_unflatten", "unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None
_each = builtins.map


def flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeSpec]:
    """Return the leaves of a nest, and its structure.

    Args:
        tree: the nest.
        is_leaf: says of what is met on the way whether it counts as a leaf.

    Raises:
        TreeError: if the nest contains itself, or is deeper than optree goes.
    """
    try:
        found, treedef = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)  # type: ignore[arg-type]
        while not LEAVES.issuperset(_each(type, found)) and see(found, is_leaf):
            found, treedef = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)  # type: ignore[arg-type]
    except RecursionError:
        check_depth(tree, is_leaf)
        raise
    return found, treedef


def flatten_seen(tree: PyTree) -> tuple[list[Any], PyTreeSpec]:
    """Return what `flatten` does if all leaves are arrays and numbers: for who does not go on otherwise."""
    try:
        return optree.tree_flatten(tree, namespace=NAMESPACE)
    except RecursionError:
        check_depth(tree)
        raise


def unflatten(treedef: PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """Put leaves back into a nest."""
    return optree.tree_unflatten(treedef, leaves)


def leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a nest."""
    return flatten(tree, is_leaf)[0]


def structure(tree: PyTree, is_leaf: IsLeaf = None) -> PyTreeSpec:
    """Return the structure of a nest: what it is without its leaves."""
    return flatten(tree, is_leaf)[1]


def map(function: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to every leaf of a nest, and to what stands in the same place of other nests.

    Example:
        >>> map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
    """
    _check_order("map", function, tree)
    structure(tree, is_leaf)  # so that its classes are known
    return optree.tree_map(function, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def all(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Say whether all leaves of a nest are true.

    Example:
        >>> all({"a": True, "b": [1, 2]}), all([0.0]), all([])
        (True, False, True)
    """
    return builtins.all(leaves(tree, is_leaf))


def broadcast(prefix: PyTree, tree: PyTree, is_leaf: IsLeaf = None) -> Any:
    """Return a nest like ``tree`` whose leaves are those of a prefix of it, each repeated for all below its place.

    Args:
        prefix: a nest that ends at or above the leaves of ``tree``.
        tree: the nest that is wanted.
        is_leaf: says what counts as a leaf of the prefix.

    Raises:
        TreeError: if ``prefix`` is not a prefix of ``tree``.

    Example:
        >>> broadcast({"w": 0.1, "b": 0.2}, {"w": [1, 2], "b": 3})
        {'w': [0.1, 0.1], 'b': 0.2}
    """
    _, treedef = flatten(tree, is_leaf)
    structure(prefix, is_leaf)
    try:
        return optree.tree_broadcast_prefix(prefix, tree, is_leaf=is_leaf, namespace=NAMESPACE)  # type: ignore[type-var]
    except ValueError as error:
        raise TreeError(
            f"broadcast: {described(structure(prefix, is_leaf))} is not a prefix of {described(treedef)}",
            fix="the prefix has the structure of the tree from the top, with leaves where it ends",
        ) from error


def paths(tree: PyTree) -> list[str]:
    """Name every leaf of a nest, or of a structure, by how it is reached: ``['w'][0].scale``."""
    treedef = tree if isinstance(tree, optree.PyTreeSpec) else structure(tree)
    return ["".join(_each(shown, accessor)) for accessor in treedef.accessors()]


def flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple[Any, ...], Any]], PyTreeSpec]:
    """Return pairs of the keys that lead to a leaf, and the leaf; and the structure.

    Example:
        >>> flatten_with_path({"w": [1.0, 2.0]})[0]
        [(('w', 0), 1.0), (('w', 1), 2.0)]
    """
    found, treedef = flatten(tree, is_leaf)
    return list(zip(treedef.paths(), found, strict=True)), treedef


def leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs of the keys that lead to a leaf, and the leaf."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(function: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to the keys that lead to every leaf, and to the leaf (and those in the same place of other nests)."""
    _check_order("map_with_path", function, tree)
    structure(tree, is_leaf)
    return optree.tree_map_with_path(function, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def reduce(function: Callable[[Any, Any], Any], tree: PyTree, *initial: PyTree, is_leaf: IsLeaf = None) -> Any:
    """Fold the leaves with a function of two arguments, from the left; from ``initial``, if it is given.

    Example:
        >>> reduce(lambda total, x: total + x, {"a": 1.0, "b": [2.0, 3.0]})
        6.0
    """
    _check_order("reduce", function, tree)
    return functools.reduce(function, leaves(tree, is_leaf), *initial)


def reduce_associative(
    function: Callable[[Any, Any], Any], tree: PyTree, *, identity: PyTree = None, is_leaf: IsLeaf = None
) -> Any:
    """Fold the leaves pair by pair, neighbours first, with an associative function: rounding errors grow by the logarithm.

    Args:
        function: of two leaves.
        tree: the nest.
        identity: the result for a nest without leaves.
        is_leaf: says what counts as a leaf.

    Raises:
        ArgumentError: if there is no leaf and no identity.

    Example:
        >>> reduce_associative(lambda a, b: f"({a}+{b})", ["a", "b", "c"])
        '((a+b)+c)'
    """
    _check_order("reduce_associative", function, tree)
    found = leaves(tree, is_leaf)
    if not found:
        if identity is None:
            raise ArgumentError("reduce_associative: the nest has no leaves", fix="give the result for that as identity=")
        return identity
    while len(found) > 1:
        found = [function(*found[k : k + 2]) if k + 1 < len(found) else found[k] for k in range(0, len(found), 2)]
    return found[0]


def transpose(outer: PyTreeSpec, inner: PyTreeSpec, tree: PyTree) -> Any:
    """Turn a nest of nests inside out: ``inner`` in each leaf of ``outer`` becomes ``outer`` in each leaf of ``inner``."""
    structure(tree)
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

    Raises:
        ArgumentError: if the first argument is no function, as where the two are swapped.
    """
    _check_order("partition", predicate, tree)
    found, treedef = _flatten_with_none(tree)
    chosen = [leaf is not None and predicate(leaf) for leaf in found]
    parts = ([leaf if flag is side else None for leaf, flag in zip(found, chosen, strict=True)] for side in (True, False))
    first, second = (unflatten(treedef, part) for part in parts)
    return first, second


def combine(*trees: PyTree) -> Any:
    """Put together what `partition` has split: of every place the first leaf that is not ``None``.

    Raises:
        TreeError: if the nests have different structures.
    """
    flat = [_flatten_with_none(tree) for tree in trees]
    if not flat or builtins.any(treedef != flat[0][1] for _, treedef in flat):
        raise TreeError("combine takes parts of one nest", fix="pass what functrace.tree.partition returned")
    columns = zip(*[found for found, _ in flat], strict=True)
    return unflatten(flat[0][1], [next((leaf for leaf in column if leaf is not None), None) for column in columns])


def _flatten_with_none(tree: PyTree) -> tuple[list[Any], PyTreeSpec]:
    structure(tree)  # so that its classes are known
    return optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)


def _check_order(name: str, function: object, tree: PyTree) -> None:
    """Check that a function comes first, and then a nest.

    Raises:
        ArgumentError: if not.
    """
    if not callable(function) or (isinstance(tree, types.FunctionType) and not isinstance(function, types.FunctionType)):
        raise ArgumentError(
            f"{name}: the first argument is a {type(function).__name__}, not a function of leaves",
            fix=f"the function comes first: {name}(function, tree)",
        )


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

    Raises:
        DtypeError: if a leaf is no array and no number.

    Source:
        ``jax.flatten_util.ravel_pytree``.
    """
    found, treedef = flatten(tree)
    for path, leaf in zip(paths(treedef), found, strict=True):
        if not (hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)):
            raise DtypeError(
                f"ravel: the leaf {path or 'itself'} is a {type(leaf).__name__}, not an array or a number",
                fix="split off what is no array by functrace.tree.partition, or declare it static (functrace.tree.static)",
            )
    shapes = [np.shape(leaf) for leaf in found]
    dtypes = [np.result_type(leaf) if isinstance(leaf, bool | int | float | complex) else leaf.dtype for leaf in found]
    ends = np.cumsum([0, *[math.prod(shape) for shape in shapes]]).tolist()
    vector = np.concatenate([np.reshape(leaf, -1) for leaf in found]) if found else np.zeros(0)

    def unravel(flat: PyTree) -> Any:
        if np.shape(flat) != (ends[-1],):
            raise ShapeError(f"unravel: a vector of {np.shape(flat)} was given", fix=f"pass shape {(ends[-1],)}")
        parts = zip(ends[:-1], ends[1:], shapes, dtypes, strict=True)
        return unflatten(treedef, [_typed(np.reshape(flat[a:b], shape), dtype) for a, b, shape, dtype in parts])

    return vector, unravel


def _typed(leaf: PyTree, dtype: np.dtype[Any]) -> Any:
    made = leaf.astype(dtype)
    return made[()] if isinstance(made, np.ndarray) and not made.ndim else made


def flatten_like(treedef: PyTreeSpec, tree: PyTree, what: str, of: str) -> list[Any]:
    """Flatten ``tree``, which must have the structure ``treedef``.

    Raises:
        TreeError: naming ``what`` was given, ``of`` what it must match, and both structures.
    """
    found, structure_found = flatten(tree)
    if structure_found != treedef:
        path, given, expected = difference(structure_found, treedef)
        place = f" at {path}" if path else ""
        raise TreeError(
            f"{what} have the structure of {given}{place}, but {of} that of {expected}{place and ' there'}",
            fix=f"pass {what} as a pytree with the same structure as {of}",
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
    found, structure_found = flatten(tree)
    if structure_found == treedef:
        return found
    result: list[Any] = []

    def walk(spec: PyTreeSpec, sub: PyTree) -> bool:
        if sub is None:
            result.extend([None] * spec.num_leaves)
            return True
        children, level = flatten(sub, lambda x: x is not sub)
        if spec.is_leaf():
            result.append(sub)
            return level.is_leaf()
        return level == spec.one_level() and builtins.all(
            walk(*pair) for pair in zip(spec.children(), children, strict=True)
        )

    if tree is None or not walk(treedef, tree):
        flatten_like(treedef, tree, what, of)  # raises
    return result


def prefix_leaves(prefix: PyTree, treedef: PyTreeSpec, what: str, *, flags: bool = False) -> list[Any]:
    """Spread a prefix nest (``in_axes``) over the leaves of a structure; ``None`` in it is a leaf, and bools if ``flags``.

    Raises:
        TreeError: if ``prefix`` is not a prefix of it.
    """
    result: list[Any] = []
    pairs = [(prefix, treedef)]
    while pairs:
        p, spec = pairs.pop()
        # (`A | B` would build a new type at every call)
        if p is None or (isinstance(p, (int, np.integer)) and (flags or not isinstance(p, bool))):
            result += [p if p is None else int(p)] * spec.num_leaves
            continue
        children = _children_like(p, spec)
        if children is None:
            raise TreeError(
                f"{what} {prefix!r} does not fit the arguments: {p!r} stands where there is {described(spec)}",
                fix=f"{what} is an int, None, or a pytree of them that has the structure of the arguments from the top",
            )
        pairs += reversed(list(zip(children, spec.children(), strict=True)))
    return result


def _children_like(tree: PyTree, spec: PyTreeSpec) -> list[Any] | None:
    """The children of a nest, if at the top it is what a structure is; lists and tuples, and kinds of dicts, are alike."""
    kind = spec.type
    if kind is None:
        return None
    if isinstance(tree, dict):
        keys = sorted(tree, key=repr)
        entries = spec.entries()
        if not issubclass(kind, dict) or sorted(entries, key=repr) != keys:
            return None
        return [tree[key] for key in entries]
    if isinstance(tree, (tuple, list)):
        return list(tree) if issubclass(kind, (tuple, list)) and len(tree) == spec.num_children else None
    children, level = flatten(tree, lambda x: x is not tree)
    return children if level == spec.one_level() else None


def map_leaves(function: Callable[[Any], Any], tree: PyTree) -> Any:
    """Apply a function to every leaf; no frame of optree stands between the caller and the function."""
    found, treedef = flatten(tree)
    return unflatten(treedef, [function(leaf) for leaf in found])


tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten = flatten, leaves, map, structure, unflatten


def __dir__() -> list[str]:
    """The public names."""
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "PyTreeSpec":
            return optree.PyTreeSpec
        from functrace.names import unknown_name

        raise unknown_name(__name__, name, __all__)


def tree_key(tree: PyTreeSpec) -> Hashable:
    """Return a key for the structure of a nest, in which keys of dicts like 1 and True are not the same."""
    return tree if _is_exact(tree) else (tree, repr(tree))


def _is_exact(tree: PyTreeSpec) -> bool:
    """Whether the structure's own equality overlooks nothing: dicts have words as keys, and no node is another library's."""
    kind = tree.type
    if tree.is_leaf() or kind is type(None):
        return True
    known = kind is list or is_exact(kind) or (kind is not None and issubclass(kind, tuple))
    if not known and (kind is not dict or not builtins.all(type(entry) is str for entry in tree.entries())):
        return False
    return builtins.all(_each(_is_exact, tree.children()))
