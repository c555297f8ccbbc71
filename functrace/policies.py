"""Residual policies, for ``functrace.checkpoint(f, policy=...)``: what becomes of the values that a derivative keeps.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.api.residuals.budget import Budget, parsed_bytes
from functrace.control.residuals import RECOMPUTE, SAVE, Pack, Policy
from functrace.errors import ArgumentError

__all__ = ["budget", "pack", "recompute", "save", "save_names"]

save: Policy = SAVE
"""Keep every residual as it is."""

recompute: Policy = RECOMPUTE
"""Keep the operands of the function only, and compute everything else again."""


def save_names(*names: str) -> Policy:
    """Keep the values that `functrace.checkpoint_name` has given one of these names; compute everything else again.

    Raises:
        ArgumentError: if a name is not a string, or there is none.
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"save_names takes one or more names, not {names!r}", fix="save_names('hidden', 'scores')")
    return (*RECOMPUTE, *names)


def pack(pack: Callable[[np.ndarray[Any, Any]], Any], unpack: Callable[[Any], Any]) -> Policy:
    """Hand every residual to ``pack`` as it is saved, and what that returned to ``unpack`` as it is fetched.

    Args:
        pack: from an array to anything: an array of fewer bits, compressed bytes, a file's name. The array is read-only.
        unpack: from that to an array of the same shape and dtype.

    Raises:
        ArgumentError: if one of them is not a function.
        CapturedArrayError: from the derivative, if ``pack`` writes into its argument.
        ShapeError, DtypeError: from the derivative, if ``unpack`` returns something else than an array of that kind.

    Example:
        >>> import numpy as np, functrace as ft
        >>> halved = ft.policies.pack(lambda x: x.astype(np.float32), lambda x: x.astype(np.float64))
        >>> ft.grad(ft.checkpoint(lambda x: np.sum(x * np.sin(x)), policy=halved))(np.zeros(2))
        array([0., 0.])
    """
    for function in (pack, unpack):
        if not callable(function):
            raise ArgumentError(f"policies.pack: {function!r} is not a function", fix="pass two functions")
    return Pack(pack, unpack)


def budget(size: int | str) -> Budget:
    """Keep what fits: the derivative needs at most so many bytes, and recomputes as little as it must.

    Counted are the arrays that the function and its reverse-mode derivative make, their arguments (of which un-jitted
    transforms hold copies) and results, as ``tracemalloc`` counts them; not what goes on around them, nor gaps between
    arrays in the process's memory. Under ``vmap``, what is counted are the arrays of one example. A `while_loop` is counted
    with ``max_steps`` steps. What ``pack`` returns is counted as the array that it was given.

    Args:
        size: a number of bytes, or words such as ``"300 MB"``, ``"1.5 GiB"``.

    Raises:
        ArgumentError: if ``size`` is neither; from the function, if its derivative needs more, or keeps values of each step
            of a loop whose number of steps nothing limits (a `while_loop` without ``max_steps``, a `fori_loop` with
            traced bounds).

    Example:
        >>> import numpy as np, functrace as ft
        >>> def f(x):
        ...     for _ in range(50):
        ...         x = np.sin(np.cumsum(x))
        ...     return np.sum(x)
        >>> x = np.linspace(0.0, 1e-3, 1000)
        >>> small = ft.grad(ft.checkpoint(f, policy=ft.policies.budget("300 KB")))
        >>> bool(np.all(small(x) == ft.grad(f)(x)))
        True

    Cost:
        up to one more run of the function in the derivative; to find the plan, some times what a first gradient takes.

    Source:
        Chen et al., "Training deep nets with sublinear memory cost", arXiv:1604.06174 (2016).
    """
    return Budget(parsed_bytes(size))


def __dir__() -> list[str]:
    """The public names."""
    return __all__


if not TYPE_CHECKING:  # so that a misspelt name is an error to type checkers

    def __getattr__(name: str) -> object:
        """Say what a name that is not here is called."""
        from functrace.names import unknown_name

        raise unknown_name(__name__, name, __all__)
