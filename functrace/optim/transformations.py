"""Gradient transformations: pairs ``(init, update)``, and what combines and applies them.

Layer: 8 (api).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrace.api.capture.arguments import as_value
from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.optim.leaves import typed
from functrace.tree import broadcast, flatten, flatten_like, unflatten
from functrace.typing import PyTree


class GradientTransformation(NamedTuple):
    """A pair of pure functions that turn gradients into updates of parameters.

    Transformations of optax have the same form, and both kinds can be mixed in `chain`; in
    ``optax.chain`` where arrays are not traced by JAX.

    Args:
        init: from parameters to a state.
        update: from ``(updates, state, params=None)`` to new updates and the new state; further
            keywords if it has ``**extra_args``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> tx = ft.optim.GradientTransformation(lambda params: (), lambda g, state, params=None: (-g, state))
        >>> tx.update(np.ones(2), tx.init(np.ones(2)))[0]
        array([-1., -1.])
    """

    init: Callable[[PyTree], PyTree]
    update: Callable[..., tuple[PyTree, PyTree]]


class EmptyState(NamedTuple):
    """The state of a transformation that keeps nothing."""


class MaskedNode(NamedTuple):
    """A node without leaves, in place of a leaf that `masked` leaves out."""


class MaskedState(NamedTuple):
    """The state of `masked`."""

    inner_state: PyTree


def stateless(function: Callable[[PyTree, PyTree], PyTree]) -> GradientTransformation:
    """Make a transformation of a function of updates and parameters."""

    def init(params: PyTree) -> EmptyState:
        return EmptyState()

    def update(
        updates: PyTree, state: EmptyState, params: PyTree = None
    ) -> tuple[PyTree, EmptyState]:
        return function(updates, params), state

    return GradientTransformation(init, update)


def identity() -> GradientTransformation:
    """Make a transformation that returns its updates.

    Returns:
        the transformation.

    Example:
        >>> tx = identity()
        >>> tx.update([1.0], tx.init([0.0]))
        ([1.0], EmptyState())
    """
    return stateless(lambda updates, params: updates)


def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """Apply transformations one after the other.

    Args:
        transformations: of functrace or of optax.

    Returns:
        a transformation whose state is the tuple of theirs. It forwards keywords to those that take
        any.

    Raises:
        ArgumentError: if an argument is not a transformation; from ``update``, if the state has
            another number of entries.

    Example:
        >>> import numpy as np, functrace as ft
        >>> tx = chain(ft.optim.clip(1.0), ft.optim.scale(-0.1))
        >>> tx.update(np.array([0.5, 3.0]), tx.init(np.zeros(2)))[0]
        array([-0.05, -0.1 ])
    """
    for k, tx in enumerate(transformations):
        check_transformation(tx, f"argument {k} of chain")
    parts = [(tx.init, tx.update, _takes_keywords(tx.update)) for tx in transformations]

    def init(params: PyTree) -> tuple[PyTree, ...]:
        return tuple([start(params) for start, _, _ in parts])

    def update(
        updates: PyTree, state: tuple[PyTree, ...], params: PyTree = None, **extra_args: object
    ) -> tuple[PyTree, tuple[PyTree, ...]]:
        if not isinstance(state, tuple) or len(state) != len(parts):
            raise _other_state(f"chain of {len(parts)} transformations", state)
        states: list[PyTree] = []
        for (_, step, has_keywords), old in zip(parts, state, strict=True):
            updates, new = step(updates, old, params, **(extra_args if has_keywords else {}))
            states.append(new)
        return updates, tuple(states)

    return GradientTransformation(init, update)


def check_state(name: str, state: PyTree, kind: type[tuple[PyTree, ...]]) -> None:
    """Check that a state has the fields of a class, which may be optax's of the same name.

    Raises:
        ArgumentError: if not.
    """
    if getattr(type(state), "_fields", None) != getattr(kind, "_fields", None):
        raise _other_state(name, state)


def _other_state(name: str, state: PyTree) -> ArgumentError:
    return ArgumentError(
        f"{name}: the state is a {type(state).__name__} of another form than that of init",
        fix="call init(params) of this transformation first, and pass what it returns",
    )


def check_transformation(tx: object, what: str) -> None:
    """Check that an object has the functions of a transformation.

    Raises:
        ArgumentError: if not.
    """
    if callable(getattr(tx, "init", None)) and callable(getattr(tx, "update", None)):
        return
    name = getattr(tx, "__name__", type(tx).__name__)
    raise ArgumentError(
        f"{what} is {name}, not a pair (init, update)",
        fix="call the function that makes it, as in functrace.optim.adam(1e-3)"
        if callable(tx)
        else "pass a transformation, as functrace.optim.adam(1e-3) returns it",
    )


def _takes_keywords(function: Callable[..., object]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is p.VAR_KEYWORD for p in parameters)


def masked(
    inner: GradientTransformation, mask: PyTree | Callable[[PyTree], PyTree]
) -> GradientTransformation:
    """Apply a transformation to some leaves, and leave the updates of the others as they are.

    Args:
        inner: the transformation.
        mask: a pytree of bools, which may end above the leaves of the parameters, or a function
            from parameters to it.

    Returns:
        the transformation; its state has arrays for the chosen leaves only.

    Raises:
        TreeError: from its functions, if the mask does not fit the parameters.
        ArgumentError: from its functions, if the mask has other values than bools.

    Example:
        >>> import functrace as ft
        >>> tx = masked(ft.optim.scale(10.0), {"w": True, "b": False})
        >>> params = {"w": 1.0, "b": 1.0}
        >>> tx.update(params, tx.init(params))[0]
        {'w': np.float64(10.0), 'b': 1.0}
    """
    check_transformation(inner, "the first argument of masked")
    has_keywords = _takes_keywords(inner.update)

    def chosen(tree: PyTree) -> list[bool]:
        made = mask(tree) if callable(mask) else mask
        flags = flatten(broadcast(made, tree))[0]
        for flag in flags:
            if not (isinstance(flag, bool | np.bool_ | np.ndarray) and np.shape(flag) == ()):
                raise ArgumentError(
                    f"masked: the mask has a {type(flag).__name__} where a bool is expected",
                    fix="pass True where the transformation applies, and False elsewhere",
                )
        return [bool(flag) for flag in flags]

    def without(tree: PyTree, flags: list[bool]) -> PyTree:
        found, treedef = flatten(tree)
        pairs = zip(found, flags, strict=True)
        return unflatten(treedef, [x if flag else MaskedNode() for x, flag in pairs])

    def init(params: PyTree) -> MaskedState:
        return MaskedState(inner.init(without(params, chosen(params))))

    def update(
        updates: PyTree, state: MaskedState, params: PyTree = None, **extra_args: object
    ) -> tuple[PyTree, MaskedState]:
        check_state("masked", state, MaskedState)
        flags = chosen(updates)
        old, treedef = flatten(updates)
        new, inner_state = inner.update(
            without(updates, flags),
            state.inner_state,
            None if params is None else without(params, flags),
            **(extra_args if has_keywords else {}),
        )
        found = flatten(new, is_leaf=lambda x: isinstance(x, MaskedNode))[0]
        rows = zip(flags, found, old, strict=True)
        merged = unflatten(treedef, [x if flag else y for flag, x, y in rows])
        return merged, MaskedState(inner_state)

    return GradientTransformation(init, update)


def apply_updates(params: PyTree, updates: PyTree) -> Any:
    """Add updates to parameters.

    Args:
        params: a pytree of arrays.
        updates: a pytree of the same structure.

    Returns:
        new parameters, with the dtypes of ``params``. No argument is changed.

    Raises:
        TreeError: if the structures differ.
        ShapeError: if a shape differs.
        DtypeError: if parameters of integers would round the sum, or real ones drop its imaginary part.

    Example:
        >>> import numpy as np
        >>> apply_updates({"w": np.ones(2, np.float32)}, {"w": np.array([0.5, -0.5])})
        {'w': array([1.5, 0.5], dtype=float32)}
    """
    found, treedef = flatten(params)
    changes = flatten_like(treedef, updates, "the updates", "the parameters")
    pairs = zip(found, changes, strict=True)
    return unflatten(treedef, [_sum(p, u) for p, u in pairs])


def _sum(p: PyTree, u: PyTree) -> Any:
    old, change = as_value(p, "a parameter"), as_value(u, "an update")
    if change.shape != old.shape:
        raise ShapeError(
            f"apply_updates: an update of shape {change.shape} for a parameter of shape {old.shape}",
            fix="updates have the shapes of the parameters",
        )
    if not np.can_cast(change.dtype, old.dtype, "same_kind"):
        raise DtypeError(
            f"apply_updates: an update of {change.dtype} for a parameter of {old.dtype}",
            fix="update floats by floats: functrace.tree.partition splits a pytree",
        )
    return typed(np.add(old, change), old.dtype)


def need_params(params: PyTree, name: str) -> None:
    """Check that parameters were passed to ``update``.

    Raises:
        ArgumentError: if not.
    """
    if params is None:
        raise ArgumentError(
            f"{name}: update needs the parameters", fix="call tx.update(grads, state, params)"
        )
