"""Pytree node classes: registered ones, those of optree and JAX, and dataclasses, registered on
first use.

optree flattens pytrees, in a namespace of this library. The class of each leaf that it finds is
then checked: a node class is registered, once, and the pytree is flattened again. So for arrays,
numbers, tuples and dicts, the only extra cost is this check of the leaves' classes.

Layer: b (base).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast, final, overload

import numpy as np

from functrace.errors import ArgumentError, TreeError
from functrace.keys import exact_key, has_hash
from functrace.lazy import LazyModule
from functrace.locks import Lock
from functrace.typing import PyTree

if TYPE_CHECKING:
    import optree
else:
    optree = LazyModule("optree", globals())

NAMESPACE = "functrace"
"""optree namespace of our registrations, which do not affect other users of optree."""

MOST_AT_SIGHT = 4096
"""Maximum number of classes kept that were registered on first use: a function may define one per
call."""

K = TypeVar("K", bound=type)
Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Any, Any], Any]

_lock = Lock()
_registered: set[type] = set()
_foreign: OrderedDict[type, None] = OrderedDict()
_at_sight: OrderedDict[type, None] = OrderedDict()
_fields: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}
LEAVES: set[type] = {
    np.ndarray,
    float,
    int,
    bool,
    complex,
    str,
    bytes,
    np.float64,
    np.float32,
    np.int64,
    np.bool_,
}
"""Classes that are always leaves."""


@final
class Static:
    """The static part of a pytree node. Equality is exact: 1 is not True, 0.0 is not -0.0.

    Args:
        kind: the class.
        names: of the fields.
        values: of the fields.

    Raises:
        TreeError: if a value is not hashable.
    """

    __slots__ = ("_key", "kind", "names", "values")

    def __init__(self, kind: type, names: tuple[str, ...], values: tuple[object, ...]) -> None:
        self.kind, self.names, self.values = kind, names, values
        self._key: Hashable = None
        try:
            hash(values)
        except TypeError:
            raise self._unhashable() from None

    def _unhashable(self) -> TreeError:
        name, value = next(
            pair for pair in zip(self.names, self.values, strict=True) if not has_hash(pair[1])
        )
        what = (
            f"{name} of {self.kind.__name__}"
            if name
            else f"the non-leaf data of {self.kind.__name__}"
        )
        return TreeError(
            f"{what} is static, and is a {type(value).__name__}, which cannot be hashed and "
            "compared",
            fix="use a tuple, a frozen dataclass, or another hashable object; an array is a leaf, "
            "and not static",
        )

    @property
    def key(self) -> Hashable:
        """The values as an exact key."""
        if self._key is None:
            self._key = exact_key(self.values)
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and (self.values is other.values or self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return ", ".join(
            f"{name}={value!r}" if name else repr(value)
            for name, value in zip(self.names, self.values)
        )

    def __reduce__(self) -> Any:
        return Static, (self.kind, self.names, self.values)


# -- registration ----------------------------------------------------------------------------------


@overload
def register(kind: K) -> K: ...
@overload
def register(kind: K, flatten: Flatten, unflatten: Unflatten) -> K: ...
def register(
    kind: type[PyTree], flatten: Flatten | None = None, unflatten: Unflatten | None = None
) -> Any:
    """Register a class as a pytree node: transforms split its objects into leaves, and rebuild
    them.

    Dataclasses are pytree nodes without it; registration also makes the object of a jitted method
    an argument. Other classes use their methods ``tree_flatten`` and ``tree_unflatten``, or two
    functions.

    Args:
        kind: a dataclass; or a class with the methods ``tree_flatten(self)``, which returns
            ``(children, static)``, and ``tree_unflatten(cls, static, children)``, a class method;
            or any class, with the two functions.
        flatten: from an object to ``(children, static)``: a sequence of pytrees, and the rest of
            the object, which can be hashed and compared.
        unflatten: from ``static`` and children to an object. Children may be placeholders: it
            should not read their shapes or values.

    Returns:
        the class, so that ``register`` can be a decorator.

    Raises:
        ArgumentError: if the class is registered already, is no class, or provides no way to
            flatten it.
        TreeError: when an object is flattened, if a field is missing, it has further attributes, or
            ``flatten`` returns no pair.

    Example:
        >>> import numpy as np, functrace as ft
        >>> @ft.tree.register
        ... class Line:
        ...     def __init__(self, slope, start):
        ...         self.slope, self.start = slope, start
        ...     def tree_flatten(self):
        ...         return (self.slope, self.start), None
        ...     @classmethod
        ...     def tree_unflatten(cls, static, children):
        ...         return cls(*children)
        >>> found = ft.grad(lambda line: np.sum(line.slope * np.arange(3.0) + line.start))(Line(2.0, 1.0))
        >>> found.slope, found.start
        (np.float64(3.0), np.float64(3.0))

    Source:
        ``jax.tree_util.register_pytree_node_class``, ``register_pytree_node`` and
        ``register_dataclass``.
    """
    if not isinstance(kind, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' code
        raise ArgumentError(
            f"register takes a class, not a {type(kind).__name__}",
            fix="register(Point), or @register above the class",
        )
    if (flatten is None) is not (unflatten is None):
        raise ArgumentError(
            f"register of {kind.__name__}: one of flatten and unflatten is given",
            fix="give both, or none",
        )
    with _lock.now:
        if kind in _registered:
            raise ArgumentError(
                f"{kind.__name__} is registered already", fix="register a class once"
            )
        if flatten is not None and unflatten is not None:
            taken = *_by_functions(kind, flatten, unflatten), optree.AutoEntry
        elif hasattr(kind, "tree_flatten") and hasattr(kind, "tree_unflatten"):
            taken = *_by_functions(kind, kind.tree_flatten, kind.tree_unflatten), optree.AutoEntry
        elif dataclasses.is_dataclass(kind):
            taken = *_by_fields(kind), optree.GetAttrEntry
        else:
            raise ArgumentError(
                f"{kind.__name__} is no dataclass, and has no methods tree_flatten and "
                "tree_unflatten",
                fix="make it a dataclass, write the methods, or give register(kind, flatten, "
                "unflatten)",
            )
        if kind in _at_sight or kind in _foreign:
            _forget(kind)
        LEAVES.discard(kind)
        try:
            _enter(kind, *taken)
        except ValueError:
            _fields.pop(kind, None)
            raise ArgumentError(
                f"{kind.__name__} is a pytree node already: optree flattens its objects",
                fix="omit register",
            ) from None
        _registered.add(kind)
    return kind


def static(
    *,
    default: object = dataclasses.MISSING,
    default_factory: object = dataclasses.MISSING,
    init: bool = True,
    repr: bool = True,
    hash: bool | None = None,
    compare: bool = True,
    metadata: Mapping[str, object] | None = None,
    kw_only: object = dataclasses.MISSING,
) -> Any:
    """Declare a field of a dataclass that is not a leaf: ``dataclasses.field`` with
    ``metadata={"static": True}``.

    Args:
        default, default_factory, init, repr, hash, compare, metadata, kw_only: arguments of
            ``dataclasses.field``.

    Returns:
        the field, for the body of a dataclass.

    Example:
        >>> import dataclasses, functrace as ft
        >>> @ft.tree.register
        ... @dataclasses.dataclass
        ... class Layer:
        ...     weight: float
        ...     name: str = static(default="dense")
        >>> ft.tree.leaves(Layer(2.0))
        [2.0]

    Source:
        ``jax.tree.static``.
    """
    given: dict[str, Any] = {
        "default": default,
        "default_factory": default_factory,
        "kw_only": kw_only,
    }
    metadata = {**(metadata or {}), "static": True}
    return dataclasses.field(
        **given, init=init, repr=repr, hash=hash, compare=compare, metadata=metadata
    )


def is_value(tree: object) -> bool:
    """Return True for an instance of an unregistered dataclass that is frozen and hashable."""
    kind = type(tree)
    if (
        kind in _registered
        or kind in _foreign
        or not dataclasses.is_dataclass(kind)
        or kind.__eq__ is object.__eq__
    ):
        return False
    return has_hash(tree)


def fields_of(kind: type | None) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names of the children and of the static fields of a dataclass that is flattened by
    its fields."""
    return None if kind is None else _fields.get(kind)


def static_values(node: PyTree) -> list[tuple[str, object]]:
    """Return the static values of an object, each with the name of its field, empty for those of a
    registered class.
    """
    tree: Any = node
    held: object = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)[1]
    return list(zip(held.names, held.values, strict=True)) if isinstance(held, Static) else []


def is_exact(kind: type | None) -> bool:
    """Return True if the equality of a class's nodes is exact, see `Static`."""
    return kind in _registered or kind in _at_sight


# -- classes registered on first use ---------------------------------------------------------------


def see(leaves: Iterable[object], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Register the classes of leaves that are pytree nodes; return True if there are any.

    Args:
        leaves: the leaves that optree found.
        is_leaf: predicate of objects that are leaves whatever their class.
    """
    found = False
    for leaf in leaves:
        kind = type(leaf)
        if kind not in LEAVES and not (is_leaf is not None and is_leaf(leaf)):
            found |= _see(kind, leaf)
    return found


def _see(kind: type, leaf: object) -> bool:
    if str(kind.__module__).partition(".")[0] in ("functrace", "numpy", "builtins"):
        LEAVES.add(kind)
        return False
    if _is_jax_node(leaf):
        table = _foreign
    elif dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__:
        table = _at_sight
    else:
        return False
    with _lock.now:
        if kind in table or kind in _registered:  # another thread has registered it meanwhile
            return True
        if table is _foreign:
            _enter(kind, _flatten_by_jax, _unflatten_by_jax)
        else:
            _enter(kind, *_by_fields(kind), optree.GetAttrEntry)
        table[kind] = None
        while len(table) > MOST_AT_SIGHT:
            _forget(next(iter(table)))
    return True


def _enter(
    kind: type,
    flatten: Callable[[Any], Any],
    unflatten: Callable[[Any, Any], Any],
    entry: type[optree.PyTreeEntry] | None = None,
) -> None:
    cast("Any", optree).register_pytree_node(
        kind, flatten, unflatten, path_entry_type=entry or optree.AutoEntry, namespace=NAMESPACE
    )


def _forget(kind: type) -> None:
    cast("Any", optree).unregister_pytree_node(kind, namespace=NAMESPACE)
    for table in (_at_sight, _foreign, _fields):
        table.pop(kind, None)


# -- flattening ------------------------------------------------------------------------------------


def _by_fields(kind: type[object]) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    """Return functions that flatten a dataclass, and rebuild it without running its
    ``__init__``."""
    fields = dataclasses.fields(cast("Any", kind))
    leaves = tuple([field.name for field in fields if not field.metadata.get("static", False)])
    fixed = tuple([field.name for field in fields if field.metadata.get("static", False)])
    _fields[kind] = leaves, fixed
    known = frozenset([*leaves, *fixed])

    def flatten(tree: PyTree) -> tuple[list[Any], Static | None, tuple[str, ...]]:
        held = getattr(tree, "__dict__", None)
        if held is not None and len(held) > len(known):
            _check_attributes(tree, held, known)
        try:
            children = [getattr(tree, name) for name in leaves]
            return (
                children,
                Static(kind, fixed, tuple([getattr(tree, name) for name in fixed]))
                if fixed
                else None,
                leaves,
            )
        except AttributeError as error:
            raise TreeError(
                f"a {kind.__name__} has no value for one of its fields: {error}",
                fix="give every field a value",
            ) from error

    def unflatten(held: Static | None, children: Iterable[PyTree]) -> Any:
        made = object.__new__(kind)
        for name, child in zip(leaves, children, strict=True):
            object.__setattr__(made, name, child)
        if held is not None:
            for name, value in zip(fixed, held.values, strict=True):
                object.__setattr__(made, name, value)
        return made

    return flatten, unflatten


def _check_attributes(tree: object, held: dict[str, Any], known: frozenset[str]) -> None:
    """Refuse attributes that would be lost or stale. Cached properties may be lost."""
    kind = type(tree)
    for name in held:
        cached = isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
        if name not in known and not cached and not name.startswith("__"):
            raise TreeError(
                f"a {kind.__name__} has the attribute {name!r}, which is not a field of the "
                "dataclass",
                fix=f"declare it: as a field, which is a leaf, or as {name}: ... = "
                "functrace.tree.static(init=False); "
                "or make it a property; or register the class with functions of your own "
                "(functrace.tree.register)",
            )


def _by_functions(
    kind: type, flatten: Callable[[Any], object], unflatten: Unflatten
) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    """Return functions that flatten and rebuild objects of a class by the user's functions."""

    def apart(tree: PyTree) -> tuple[Iterable[Any], Static | None]:
        returned = flatten(tree)
        pair: Any = returned
        if not (isinstance(returned, tuple) and len(pair) == 2):
            raise TreeError(
                f"flatten of {kind.__name__} returned a {type(pair).__name__}, not a pair "
                "(children, static)",
                fix="return children, static, where static is None if there is nothing besides the "
                "children",
            )
        children, held = pair
        return tuple(children), None if held is None else Static(kind, ("",), (held,))

    def together(held: Static | None, children: Iterable[PyTree]) -> Any:
        return unflatten(None if held is None else held.values[0], tuple(children))

    return apart, together


def check_depth(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> None:
    """Check that a pytree, which optree could not traverse, is finite.

    Raises:
        TreeError: if it contains itself, or is deeper than optree supports; the message names the
            place.
    """
    waiting: list[tuple[PyTree, tuple[Any, ...], dict[int, str]]] = [(tree, (), {})]
    while waiting:
        node, path, above = waiting.pop()
        name = "".join(path[:6]) + ("..." if len(path) > 6 else "")
        kind = type(node).__name__
        if id(node) in above:
            raise TreeError(
                f"a {kind} contains itself: the object at {name} is the {kind} "
                f"{above[id(node)] or 'itself'}",
                fix="remove the reference to the container, or register its class with functions "
                "that omit it "
                "(functrace.tree.register)",
            )
        if len(path) >= optree.MAX_RECURSION_DEPTH:
            raise TreeError(
                f"a pytree is {optree.MAX_RECURSION_DEPTH} levels deep, at {name}",
                fix="make it flatter: a list instead of a linked chain",
            )
        if is_leaf is not None and is_leaf(node):
            continue
        is_inner = iter([False])  # optree calls is_leaf on the node itself first

        def is_below(_: object, inner: Iterator[bool] = is_inner) -> bool:
            return next(inner, True)

        children, spec = optree.tree_flatten(node, is_below, namespace=NAMESPACE)
        if not spec.is_leaf():
            here = {**above, id(node): f"at {name}" if name else ""}
            steps = [shown(accessor[0]) for accessor in spec.accessors()]
            waiting += [
                (child, (*path, step), here) for child, step in zip(children, steps, strict=True)
            ]


def shown(entry: optree.PyTreeEntry) -> str:
    """Format one access step into a pytree."""
    return f".{entry.entry}" if type(entry) is optree.GetAttrEntry else f"[{entry.entry!r}]"


def _is_jax_node(leaf: object) -> bool:
    """Return True if JAX is loaded and flattens an object. JAX is never imported for that."""
    jax = sys.modules.get("jax.tree_util")
    return isinstance(jax, types.ModuleType) and not jax.all_leaves([leaf])


def _flatten_by_jax(tree: PyTree) -> tuple[list[Any], Any]:
    def is_below(part: object) -> bool:
        return part is not tree

    return sys.modules["jax.tree_util"].tree_flatten(tree, is_leaf=is_below)


def _unflatten_by_jax(treedef: PyTree, children: Iterable[PyTree]) -> Any:
    return sys.modules["jax.tree_util"].tree_unflatten(treedef, list(children))
