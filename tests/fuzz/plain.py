"""Reference versions of functrace's functions in Python and NumPy alone: the oracle of random
programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

import functrace as ft


@final
class Plain:
    """``ft`` as a random program sees it when it is the oracle."""

    @staticmethod
    def jit(f: Callable[..., Any]) -> Callable[..., Any]:
        """Call the function on copies, for new arrays: see "Who may write where" on the page of
        sharp bits.
        """
        return lambda *args: copied(f(*copied(args)))

    @staticmethod
    def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
        """Call the function."""
        return f

    @staticmethod
    def custom_vjp(f: Callable[..., Any]) -> Callable[..., Any]:
        """Call the function; its rules are taken and not used."""
        return _Ruled(f)

    custom_jvp = custom_vjp

    @staticmethod
    def stop_gradient(x: Any) -> Any:
        """Return a copy."""
        return copied(x)

    @staticmethod
    def cond(
        pred: Any, taken: Callable[..., Any], other: Callable[..., Any], *operands: Any
    ) -> Any:
        """Call one of the functions."""
        return taken(*operands) if pred else other(*operands)

    @staticmethod
    def scan(
        f: Callable[..., Any], carry: Any, xs: Any, length: int | None = None, reverse: bool = False
    ) -> Any:
        """Loop; results are stacked."""
        count = len(xs) if length is None else length
        found: list[Any] = [None] * count
        for t in reversed(range(count)) if reverse else range(count):
            carry, found[t] = f(carry, None if xs is None else xs[t])
        return copied(carry), stacked(found)

    @staticmethod
    def vmap(f: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
        """Loop over the first axes; results are stacked."""

        def mapped(*args: Any) -> Any:
            axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
            size = next(len(x) for x, axis in zip(args, axes) if axis is not None)
            rows = [
                [x if axis is None else np.array(x[t]) for x, axis in zip(args, axes)]
                for t in range(size)
            ]
            return stacked([f(*row) for row in rows])

        return mapped


@final
class _Ruled:
    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, *args: Any) -> Any:
        return self.f(*args)

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Take the rules."""

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """Take the rule."""


def copied(tree: Any) -> Any:
    """Copy the arrays of a pytree."""
    return ft.tree.map_leaves(
        lambda leaf: np.array(leaf) if isinstance(leaf, np.ndarray) else leaf, tree
    )


def stacked(results: list[Any]) -> Any:
    """Stack pytrees of results, leaf by leaf; return ``None`` without results."""
    if not results or results[0] is None:
        return None
    leaves, treedef = ft.tree.flatten(results[0])
    columns = [ft.tree.flatten(result)[0] for result in results]
    return ft.tree.unflatten(
        treedef, [np.stack([column[k] for column in columns]) for k in range(len(leaves))]
    )
