"""Pytrees: nests of tuples, lists, dicts, namedtuples … with arrays as leaves. The work is optree's.

``None`` is an empty subtree, as in JAX. ``functrace.tree`` gives the functions one needs most under their usual names.

Floor: b (base).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import optree
from optree import PyTreeSpec, tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

from functrace.errors import TreeError
from functrace.typing import PyTree

__all__ = [
    "PyTreeSpec", "flatten", "flatten_like", "leaves", "leaves_or_none", "map", "paths", "prefix_leaves", "structure",
    "tree_flatten", "tree_leaves", "tree_map", "tree_structure", "tree_unflatten", "unflatten",
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
