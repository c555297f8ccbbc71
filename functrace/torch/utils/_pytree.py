"""``torch.utils._pytree``: pytrees of lists, tuples, dicts and registered classes.

None is a leaf, and dicts keep their order, unlike in `functrace.tree`.

Layer: 9.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
Context = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Iterable[Any], Context], Any]


class NodeDef(NamedTuple):
    """Functions that take an instance of a class apart, and put it together."""

    type: type[Any]
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc


SUPPORTED_NODES: dict[type[Any], NodeDef] = {}


def register_pytree_node(
    cls: type[Any], flatten_fn: FlattenFunc, unflatten_fn: UnflattenFunc, **_options: object
) -> None:
    """Register a class whose instances are nodes.

    Args:
        cls: the class.
        flatten_fn: returns the children of an instance as a list, and the rest of it.
        unflatten_fn: makes an instance of children and the rest.

    Raises:
        ValueError: if the class is registered.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def _register(cls: type[Any], flatten: FlattenFunc, unflatten: UnflattenFunc) -> None:
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten)


def _keyed(d: Any) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


_register(list, lambda x: (x, None), lambda values, _: list(values))
_register(tuple, lambda x: (list(x), None), lambda values, _: tuple(values))
_register(dict, _keyed, lambda values, keys: dict(zip(keys, values, strict=True)))
_register(OrderedDict, _keyed, lambda values, keys: OrderedDict(zip(keys, values, strict=True)))
_register(
    defaultdict,
    lambda d: (list(d.values()), [d.default_factory, list(d)]),
    lambda values, given: defaultdict(given[0], zip(given[1], values, strict=True)),
)
_register(deque, lambda d: (list(d), d.maxlen), lambda values, most: deque(values, maxlen=most))
_NAMED = NodeDef(tuple, lambda x: (list(x), type(x)), lambda values, kind: kind(*values))


def _is_namedtuple(tree: object) -> bool:
    return isinstance(tree, tuple) and hasattr(type(tree), "_fields")


def _node_of(tree: object) -> NodeDef | None:
    found = SUPPORTED_NODES.get(type(tree))
    return _NAMED if found is None and _is_namedtuple(tree) else found


@dataclass
class TreeSpec:
    """The structure of a pytree, without its leaves.

    Args:
        type: class of the node; None for a leaf.
        context: the rest of the node, besides its children.
        children_specs: structures of the children.
    """

    type: Any
    context: Context
    children_specs: list[TreeSpec]
    num_nodes: int = field(init=False)
    num_leaves: int = field(init=False)
    num_children: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_children = len(self.children_specs)
        self.num_nodes = 1 + sum(c.num_nodes for c in self.children_specs)
        is_leaf = self.type is None
        self.num_leaves = 1 if is_leaf else sum(c.num_leaves for c in self.children_specs)

    def is_leaf(self) -> bool:
        """Return True for a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Return the structures of the children."""
        return list(self.children_specs)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the pytree of this structure with some leaves.

        Raises:
            ValueError: if their number differs.
        """
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers "
                f"to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._made(iter(given))

    def _made(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        children = [c._made(leaves) for c in self.children_specs]
        if self.type is _NAMED:
            return _NAMED.unflatten_fn(children, self.context)
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: object) -> list[Any]:
        """Return the parts of a pytree where this structure has leaves.

        Raises:
            ValueError: if its structure differs above the leaves.
        """
        if self.type is None:
            return [tree]
        node = _node_of(tree)
        kind = None if node is None else (_NAMED if node is _NAMED else node.type)
        if node is None or kind is not self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = node.flatten_fn(tree)
        if isinstance(tree, dict):
            keys = self.context[1] if kind is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError("Node keys mismatch")
            children = [tree[key] for key in keys]
        elif context != self.context:
            raise ValueError(f"Node context mismatch: {context!r} != {self.context!r}")
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        pairs = zip(self.children_specs, children, strict=True)
        return [leaf for spec, child in pairs for leaf in spec.flatten_up_to(child)]

    def __repr__(self) -> str:
        return self._shown(0)

    def _shown(self, indent: int) -> str:
        if self.type is None:
            return "*"
        name = "namedtuple" if self.type is _NAMED else self.type.__name__
        parts = [c._shown(indent + 2) for c in self.children_specs]
        body = (",\n" + " " * (indent + 2)).join(parts)
        return f"TreeSpec({name}, {self.context}, [{body}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF = LeafSpec()
IsLeaf = Callable[[Any], bool] | None


def _flatten(tree: object, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    specs = [_flatten(child, leaves, is_leaf) for child in children]
    return TreeSpec(_NAMED if node is _NAMED else node.type, context, specs)


def tree_flatten(tree: object, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a pytree, and its structure.

    Args:
        tree: the pytree.
        is_leaf: returns True for nodes that are to be leaves.

    Example:
        >>> leaves, spec = tree_flatten({"a": [1, None], "b": (2,)})
        >>> leaves
        [1, None, 2]
        >>> tree_unflatten([3, 4, 5], spec)
        {'a': [3, 4], 'b': (5,)}
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the pytree of a structure with some leaves."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: object, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a pytree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: object, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves of a pytree."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree: object, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a pytree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_is_leaf(tree: object, is_leaf: IsLeaf = None) -> bool:
    """Return True for a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


def tree_map(func: Callable[..., Any], tree: object, *rests: object, is_leaf: IsLeaf = None) -> Any:
    """Return a pytree of a function's results for every leaf.

    Args:
        func: takes a leaf, and the parts of the further pytrees at its place.
        tree: the pytree.
        rests: further pytrees of the same structure.
        is_leaf: returns True for nodes that are to be leaves.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    given = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(map(func, *given))


def tree_map_(
    func: Callable[..., Any], tree: object, *rests: object, is_leaf: IsLeaf = None
) -> Any:
    """Call a function for every leaf; returns the pytree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


Kinds = Any


def map_only(kinds: Kinds, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator of functions that leave values of other classes as they are."""
    is_class = isinstance(kinds, (type, tuple))

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def called(x: object) -> Any:
            return func(x) if (isinstance(x, kinds) if is_class else kinds(x)) else x

        return called

    return decorate


def tree_map_only(
    kinds: Kinds, /, func: Callable[[Any], Any], tree: object, is_leaf: IsLeaf = None
) -> Any:
    """Return a pytree of a function's results for the leaves of some classes; others stay.

    Args:
        kinds: a class, a tuple of them, or a predicate.
        func: the function.
        tree: the pytree.
        is_leaf: returns True for nodes that are to be leaves.
    """
    return tree_map(map_only(kinds)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    kinds: Kinds, /, func: Callable[[Any], Any], tree: object, is_leaf: IsLeaf = None
) -> Any:
    """Call a function for the leaves of some classes; returns the pytree."""
    tree_map_only(kinds, func, tree, is_leaf=is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: object, is_leaf: IsLeaf = None) -> bool:
    """Return True if a predicate holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: object, is_leaf: IsLeaf = None) -> bool:
    """Return True if a predicate holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))
