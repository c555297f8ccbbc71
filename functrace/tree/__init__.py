"""Pytrees: tuples, lists, dicts, namedtuples, dataclasses … with arrays as leaves, by optree.

``None`` is an empty subtree, as in JAX. The functions have the names of ``jax.tree``;
`functrace.tree.nodes` describes which classes are pytree nodes.

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
from functrace.lazy import LazyModule, lazy_attributes
from functrace.tree.describing import described, difference
from functrace.tree.nodes import (
    LEAVES,
    NAMESPACE,
    check_depth,
    is_exact,
    register,
    see,
    shown,
    static,
)
from functrace.typing import PyTree

if TYPE_CHECKING:
    import optree
    from optree import PyTreeSpec
else:  # the import takes 10 ms, and derivatives by single arrays do not need it
    optree = LazyModule("optree", globals())

__all__ = [
    "PyTreeSpec", "all", "broadcast", "combine", "flatten", "flatten_like", "flatten_with_path",
    "leaves", "leaves_or_none",
    "leaves_with_path", "map", "map_with_path", "partition", "paths", "prefix_leaves", "ravel",
    "reduce",
    "reduce_associative", "register", "static", "structure", "transpose", "tree_flatten",
    "tree_leaves", "tree_map",
    "tree_structure", "tree_unflatten", "unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None
_each = builtins.map


def flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeSpec]:
    """Split a pytree into its leaves and its structure.

    Args:
        tree: the pytree.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        the list of leaves, and the structure, from which `unflatten` rebuilds the pytree.

    Raises:
        TreeError: if the pytree contains itself, or is deeper than optree supports.

    Example:
        >>> flatten({"w": [1.0, 2.0], "b": None})[0]
        [1.0, 2.0]
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
    """Flatten a pytree whose leaves are expected to be arrays and numbers; unregistered classes
    stay leaves.
    """
    try:
        return optree.tree_flatten(tree, namespace=NAMESPACE)
    except RecursionError:
        check_depth(tree)
        raise


def unflatten(treedef: PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """Build a pytree from a structure and leaves.

    Args:
        treedef: the structure, from `flatten` or `structure`.
        leaves: as many leaves as the structure has, in order.

    Returns:
        the pytree.

    Raises:
        ValueError: if the number of leaves differs from that of the structure.

    Example:
        >>> unflatten(structure({"w": [1.0, 2.0]}), [3.0, 4.0])
        {'w': [3.0, 4.0]}
    """
    return optree.tree_unflatten(treedef, leaves)


def leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """List the leaves of a pytree.

    Args:
        tree: the pytree.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        the leaves, in order; keys of dicts are sorted.

    Raises:
        TreeError: if the pytree contains itself, or is deeper than optree supports.

    Example:
        >>> leaves({"b": 1, "a": [2, 3]})
        [2, 3, 1]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: PyTree, is_leaf: IsLeaf = None) -> PyTreeSpec:
    """Compute the structure of a pytree: everything but its leaves.

    Args:
        tree: the pytree.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        the structure, which can be hashed and compared.

    Raises:
        TreeError: if the pytree contains itself, or is deeper than optree supports.

    Example:
        >>> structure({"w": [1, 2]}) == structure({"w": [3, 4]}), structure([1]) == structure((1,))
        (True, False)
    """
    return flatten(tree, is_leaf)[1]


def map(function: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to every leaf of a pytree, and to the corresponding leaves of other pytrees.

    Args:
        function: a function of one leaf of ``tree`` and one subtree of each of ``rest``.
        tree: the pytree.
        rest: pytrees of which ``tree`` is a prefix.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        a pytree like ``tree`` of the results.

    Raises:
        ArgumentError: if ``function`` is not a function, or the two first arguments are swapped.
        ValueError: if one of ``rest`` has another structure.

    Example:
        >>> map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
    """
    _check_order("map", function, tree)
    structure(tree, is_leaf)  # registers its classes
    return optree.tree_map(function, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def all(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Check that all leaves of a pytree are true.

    Args:
        tree: the pytree.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        True if every leaf is true, or there are none.

    Example:
        >>> all({"a": True, "b": [1, 2]}), all([0.0]), all([])
        (True, False, True)
    """
    return builtins.all(leaves(tree, is_leaf))


def broadcast(prefix: PyTree, tree: PyTree, is_leaf: IsLeaf = None) -> Any:
    """Extend a prefix to a whole pytree: each leaf of ``prefix`` is repeated for all leaves below
    its position in ``tree``.

    Args:
        prefix: a pytree that ends at or above the leaves of ``tree``.
        tree: a pytree with the structure of the result.
        is_leaf: predicate of subtrees: where it returns True, the subtree of the prefix is a leaf.

    Returns:
        a pytree like ``tree``, with leaves of ``prefix``.

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
            f"broadcast: {described(structure(prefix, is_leaf))} is not a prefix of "
            f"{described(treedef)}",
            fix="the prefix has the structure of the tree from the top, with leaves where it ends",
        ) from error


def paths(tree: PyTree) -> list[str]:
    """Name every leaf of a pytree by its access path, such as ``['w'][0].scale``.

    Args:
        tree: a pytree, or a structure.

    Returns:
        one string per leaf, in order.

    Example:
        >>> paths({"w": [1.0, 2.0], "b": 3.0})
        ["['b']", "['w'][0]", "['w'][1]"]
    """
    treedef = tree if isinstance(tree, optree.PyTreeSpec) else structure(tree)
    return ["".join(_each(shown, accessor)) for accessor in treedef.accessors()]


def flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], PyTreeSpec]:
    """Split a pytree into its leaves, each with the keys on the path to it, and its structure.

    Args:
        tree: the pytree.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        the list of pairs ``(keys, leaf)``, and the structure.

    Raises:
        TreeError: if the pytree contains itself, or is deeper than optree supports.

    Example:
        >>> flatten_with_path({"w": [1.0, 2.0]})[0]
        [(('w', 0), 1.0), (('w', 1), 2.0)]
    """
    found, treedef = flatten(tree, is_leaf)
    return list(zip(treedef.paths(), found, strict=True)), treedef


def leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """List the leaves of a pytree, each with the keys on the path to it.

    Args:
        tree: the pytree.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        the list of pairs ``(keys, leaf)``.

    Raises:
        TreeError: if the pytree contains itself, or is deeper than optree supports.

    Example:
        >>> leaves_with_path({"w": [1.0, 2.0]})
        [(('w', 0), 1.0), (('w', 1), 2.0)]
    """
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(
    function: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None
) -> Any:
    """Apply a function to every leaf of a pytree and the keys on the path to it.

    Args:
        function: a function of the tuple of keys, one leaf of ``tree`` and one subtree of each of
            ``rest``.
        tree: the pytree.
        rest: pytrees of which ``tree`` is a prefix.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        a pytree like ``tree`` of the results.

    Raises:
        ArgumentError: if ``function`` is not a function, or the two first arguments are swapped.
        ValueError: if one of ``rest`` has another structure.

    Example:
        >>> map_with_path(lambda keys, x: f"{keys[-1]}={x}", {"w": 1, "b": 2})
        {'w': 'w=1', 'b': 'b=2'}
    """
    _check_order("map_with_path", function, tree)
    structure(tree, is_leaf)
    return optree.tree_map_with_path(function, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def reduce(
    function: Callable[[Any, Any], Any], tree: PyTree, *initial: PyTree, is_leaf: IsLeaf = None
) -> Any:
    """Combine the leaves with a function of two arguments, from the left.

    Args:
        function: a function of the accumulated value and one leaf.
        tree: the pytree.
        initial: the value to start from; without it, the first leaf.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        the accumulated value.

    Raises:
        ArgumentError: if ``function`` is not a function, or the two first arguments are swapped.
        TypeError: if there are no leaves and no ``initial``.

    Example:
        >>> reduce(lambda total, x: total + x, {"a": 1.0, "b": [2.0, 3.0]})
        6.0
    """
    _check_order("reduce", function, tree)
    return functools.reduce(function, leaves(tree, is_leaf), *initial)


def reduce_associative(
    function: Callable[[Any, Any], Any],
    tree: PyTree,
    *,
    identity: PyTree = None,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves pairwise, neighbours first, with an associative function.

    Rounding errors grow with the logarithm of the number of leaves, instead of linearly.

    Args:
        function: an associative function of two leaves.
        tree: the pytree.
        identity: the result for a pytree without leaves.
        is_leaf: predicate of subtrees: where it returns True, the subtree is a leaf.

    Returns:
        the combination of all leaves.

    Raises:
        ArgumentError: if there is no leaf and no identity; if ``function`` is not a function.

    Example:
        >>> reduce_associative(lambda a, b: f"({a}+{b})", ["a", "b", "c"])
        '((a+b)+c)'
    """
    _check_order("reduce_associative", function, tree)
    found = leaves(tree, is_leaf)
    if not found:
        if identity is None:
            raise ArgumentError(
                "reduce_associative: the pytree has no leaves",
                fix="pass the result for that as identity=",
            )
        return identity
    while len(found) > 1:
        found = [
            function(*found[k : k + 2]) if k + 1 < len(found) else found[k]
            for k in range(0, len(found), 2)
        ]
    return found[0]


def transpose(outer: PyTreeSpec, inner: PyTreeSpec, tree: PyTree) -> Any:
    """Exchange the two levels of a pytree of pytrees.

    Args:
        outer: the structure of the outer level.
        inner: the structure of the inner level.
        tree: a pytree with the structure ``inner`` in place of each leaf of ``outer``.

    Returns:
        a pytree with the structure ``outer`` in place of each leaf of ``inner``.

    Raises:
        ValueError: if ``tree`` does not have this structure.

    Example:
        >>> transpose(structure([0, 0]), structure({"a": 0, "b": 0}), [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        {'a': [1, 3], 'b': [2, 4]}
    """
    structure(tree)
    return optree.tree_transpose(outer, inner, tree)


def partition(predicate: Callable[[Any], bool], tree: PyTree) -> tuple[Any, Any]:
    """Split a pytree in two: the leaves that satisfy a predicate, and the others.

    A pytree of parameters that also holds integers and strings can be differentiated by its arrays
    only; `combine` joins the parts again.

    Args:
        predicate: a function from a leaf to a bool.
        tree: the pytree.

    Returns:
        two pytrees like ``tree``, with ``None`` in place of the leaves of the other.

    Raises:
        ArgumentError: if ``predicate`` is not a function, or the arguments are swapped.

    Example:
        >>> import numpy as np, functrace as ft
        >>> layer = {"w": np.array([1.0, 2.0]), "steps": 3, "name": "dense"}
        >>> arrays, rest = partition(lambda leaf: isinstance(leaf, np.ndarray), layer)
        >>> def loss(arrays):
        ...     layer = combine(arrays, rest)
        ...     return np.sum(layer["w"] ** layer["steps"])
        >>> ft.grad(loss)(arrays)["w"]
        array([ 3., 12.])

    Source:
        ``equinox.partition``.
    """
    _check_order("partition", predicate, tree)
    found, treedef = _flatten_with_none(tree)
    chosen = [leaf is not None and predicate(leaf) for leaf in found]
    parts = (
        [leaf if flag is side else None for leaf, flag in zip(found, chosen, strict=True)]
        for side in (True, False)
    )
    first, second = (unflatten(treedef, part) for part in parts)
    return first, second


def combine(*trees: PyTree) -> Any:
    """Join parts of one pytree: each leaf is the first one in its position that is not ``None``.

    Args:
        trees: pytrees of the same structure, with ``None`` for missing leaves.

    Returns:
        the pytree.

    Raises:
        TreeError: if the pytrees have different structures, or there are none.

    Example:
        >>> combine({"a": 1, "b": None}, {"a": None, "b": 2})
        {'a': 1, 'b': 2}

    Source:
        ``equinox.combine``.
    """
    flat = [_flatten_with_none(tree) for tree in trees]
    if not flat or builtins.any(treedef != flat[0][1] for _, treedef in flat):
        raise TreeError(
            "combine takes parts of one pytree", fix="pass what functrace.tree.partition returned"
        )
    columns = zip(*[found for found, _ in flat], strict=True)
    return unflatten(
        flat[0][1],
        [next((leaf for leaf in column if leaf is not None), None) for column in columns],
    )


def _flatten_with_none(tree: PyTree) -> tuple[list[Any], PyTreeSpec]:
    structure(tree)  # registers its classes
    return optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)


def _check_order(name: str, function: object, tree: PyTree) -> None:
    """Check that the first argument is a function, and the second a pytree.

    Raises:
        ArgumentError: if not.
    """
    if not callable(function) or (
        isinstance(tree, types.FunctionType) and not isinstance(function, types.FunctionType)
    ):
        raise ArgumentError(
            f"{name}: the first argument is a {type(function).__name__}, not a function of leaves",
            fix=f"the function comes first: {name}(function, tree)",
        )


def ravel(tree: PyTree) -> tuple[Any, Callable[[Any], Any]]:
    """Concatenate all elements of a pytree of arrays to one vector.

    Args:
        tree: a pytree of arrays and numbers.

    Returns:
        the vector, with the dtype that the leaves' dtypes promote to; and a function from such a
        vector to a pytree like ``tree``, whose leaves have their own shapes and dtypes.

    Raises:
        DtypeError: if a leaf is neither an array nor a number.
        ShapeError: from the returned function, if the vector has another length.

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
    found, treedef = flatten(tree)
    for path, leaf in zip(paths(treedef), found, strict=True):
        if not (hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)):
            raise DtypeError(
                f"ravel: the leaf {path or 'itself'} is a {type(leaf).__name__}, not an array or a "
                "number",
                fix="separate other leaves with functrace.tree.partition, or declare them static "
                "(functrace.tree.static)",
            )
    shapes = [np.shape(leaf) for leaf in found]
    dtypes = [
        np.result_type(leaf) if isinstance(leaf, bool | int | float | complex) else leaf.dtype
        for leaf in found
    ]
    ends = np.cumsum([0, *[math.prod(shape) for shape in shapes]]).tolist()
    vector = np.concatenate([np.reshape(leaf, -1) for leaf in found]) if found else np.zeros(0)

    def unravel(flat: PyTree) -> Any:
        if np.shape(flat) != (ends[-1],):
            raise ShapeError(
                f"unravel: a vector of {np.shape(flat)} was given", fix=f"pass shape {(ends[-1],)}"
            )
        parts = zip(ends[:-1], ends[1:], shapes, dtypes, strict=True)
        return unflatten(
            treedef, [_typed(np.reshape(flat[a:b], shape), dtype) for a, b, shape, dtype in parts]
        )

    return vector, unravel


def _typed(leaf: PyTree, dtype: np.dtype[Any]) -> Any:
    made: Any = leaf.astype(dtype)
    one: object = made
    return made[()] if isinstance(one, np.ndarray) and not made.ndim else made


def flatten_like(treedef: PyTreeSpec, tree: PyTree, what: str, of: str) -> list[Any]:
    """Flatten a pytree that must have a given structure.

    Args:
        treedef: the structure.
        tree: the pytree.
        what: name of ``tree`` in messages, e.g. ``"cotangents"``.
        of: name of the object that has the structure, e.g. ``"the results"``.

    Returns:
        the leaves.

    Raises:
        TreeError: if the structure differs; the message shows the first difference.

    Example:
        >>> flatten_like(structure((0, 0)), (1, 2), "tangents", "the primals")
        [1, 2]
    """
    found, structure_found = flatten(tree)
    if structure_found != treedef:
        path, given, expected = difference(structure_found, treedef)
        place = f" at {path}" if path else ""
        raise TreeError(
            f"{what} have the structure of {given}{place}, but {of} have that of "
            f"{expected}{place and ' there'}",
            fix=f"pass {what} as a pytree with the same structure as {of}",
        )
    return found


def leaves_or_none(treedef: PyTreeSpec, tree: PyTree, what: str, of: str) -> list[Any]:
    """Flatten a pytree that must have a given structure, or ``None`` in place of subtrees.

    ``None`` for the whole pytree is an error: it is the result of a function that forgets
    ``return``.

    Args:
        treedef: the structure.
        tree: the pytree.
        what: name of ``tree`` in messages, e.g. ``"cotangents"``.
        of: name of the object that has the structure, e.g. ``"the results"``.

    Returns:
        the leaves, with ``None`` for each leaf of a missing subtree.

    Raises:
        TreeError: if the structure differs; the message shows the first difference.

    Example:
        >>> leaves_or_none(structure((0, [0, 0])), (1, None), "cotangents", "the results")
        [1, None, None]
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


def prefix_leaves(
    prefix: PyTree,
    treedef: PyTreeSpec,
    what: str,
    *,
    flags: bool = False,
    types: tuple[type, ...] = (),
) -> list[Any]:
    """Extend a prefix such as ``in_axes`` to one entry per leaf of a structure.

    Args:
        prefix: an int, ``None``, or a pytree of them with the structure from the top.
        treedef: the structure.
        what: name of ``prefix`` in messages.
        flags: True to accept bools, too.
        types: types of the entries, instead of ints.

    Returns:
        one int (or instance of ``types``) or ``None`` per leaf.

    Raises:
        TreeError: if ``prefix`` is not a prefix of the structure.

    Example:
        >>> prefix_leaves((0, None), structure(([1, 2], 3)), "in_axes")
        [0, 0, None]
    """
    result: list[Any] = []
    pairs = [(prefix, treedef)]
    while pairs:
        p, spec = pairs.pop()
        given: Any = p
        # (`A | B` would build a new type per call)
        if types and isinstance(p, types):
            result += [given] * spec.num_leaves
            continue
        if p is None or (
            not types and isinstance(p, (int, np.integer)) and (flags or not isinstance(p, bool))
        ):
            result += [p if p is None else int(given)] * spec.num_leaves
            continue
        children = _children_like(p, spec)
        if children is None:
            entry = types[0].__name__ if types else "int"
            raise TreeError(
                f"{what} {prefix!r} does not fit the arguments: it has {p!r} in place of "
                f"{described(spec)}",
                fix=f"{what} is {'a' if types else 'an'} {entry}, None, or a pytree of them that "
                "has the structure of the arguments from the top",
            )
        pairs += reversed(list(zip(children, spec.children(), strict=True)))
    return result


def _children_like(tree: PyTree, spec: PyTreeSpec) -> list[Any] | None:
    """Return the children of a pytree that matches the top level of a structure, up to the kind of
    sequence or dict."""
    kind = spec.type
    if kind is None:
        return None
    untyped: Any = tree
    if isinstance(tree, dict):
        keys: list[Any] = sorted(untyped, key=repr)
        entries = spec.entries()
        if not issubclass(kind, dict) or sorted(entries, key=repr) != keys:
            return None
        return [untyped[key] for key in entries]
    if isinstance(tree, (tuple, list)):
        fits = issubclass(kind, (tuple, list)) and len(untyped) == spec.num_children
        return list(untyped) if fits else None
    children, level = flatten(tree, lambda x: x is not tree)
    return children if level == spec.one_level() else None


def map_leaves(function: Callable[[Any], Any], tree: PyTree) -> Any:
    """Apply a function to every leaf, without frames of optree in the traceback."""
    found, treedef = flatten(tree)
    return unflatten(treedef, [function(leaf) for leaf in found])


tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten = (
    flatten,
    leaves,
    map,
    structure,
    unflatten,
)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, __all__, {"PyTreeSpec": "optree"})


def tree_key(tree: PyTreeSpec) -> Hashable:
    """Return a key for a structure that distinguishes keys of dicts such as 1 and True."""
    return tree if _is_exact(tree) else (tree, repr(tree))


def _is_exact(tree: PyTreeSpec) -> bool:
    """Return True if the structure's own equality is exact: dicts have string keys, and no node is
    foreign."""
    kind = tree.type
    if tree.is_leaf() or kind is type(None):
        return True
    known = kind is list or is_exact(kind) or (kind is not None and issubclass(kind, tuple))
    if not known and (
        kind is not dict or not builtins.all(type(entry) is str for entry in tree.entries())
    ):
        return False
    return builtins.all(_each(_is_exact, tree.children()))
