"""Residual policies, for ``functrace.checkpoint(f, policy=...)``: keep, recompute or pack what a
derivative needs.

Layer: 8 (api).
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.api.control_flow.checkpoints import Binomial
from functrace.api.residuals.budget import Budget, parsed_bytes
from functrace.control.residuals import RECOMPUTE, SAVE, PackPolicy, Policy
from functrace.errors import ArgumentError
from functrace.lazy import lazy_attributes

__all__ = ["binomial", "budget", "pack", "recompute", "save", "save_names"]

save: Policy = SAVE
"""Keep every residual unchanged."""

recompute: Policy = RECOMPUTE
"""Keep only the operands of the function, and recompute everything else."""


def save_names(*names: str) -> Policy:
    """Keep the values that `functrace.checkpoint_name` has given one of these names; recompute
    everything else.

    Args:
        names: the names, one or more.

    Returns:
        the policy.

    Raises:
        ArgumentError: if a name is not a string, or there is none.

    Example:
        >>> import numpy as np, functrace as ft
        >>> layer = lambda x: np.sum(np.sin(ft.checkpoint_name(np.cos(x), "hidden")))
        >>> kept = ft.saved_residuals(ft.checkpoint(layer, policy=ft.policies.save_names("hidden")))(np.ones(3))
        >>> [row.nbytes for row in kept]
        [24, 24]
    """
    given: tuple[Any, ...] = names
    if not given or not all(isinstance(name, str) for name in given):
        raise ArgumentError(
            f"save_names takes one or more names, not {names!r}",
            fix="save_names('hidden', 'scores')",
        )
    return (*RECOMPUTE, *names)


def pack(pack: Callable[[np.ndarray[Any, Any]], Any], unpack: Callable[[Any], Any]) -> Policy:
    """Pass every residual to ``pack`` when it is saved, and the packed object to ``unpack`` when it
    is needed.

    Args:
        pack: from an array to any object: an array of fewer bits, compressed bytes, the name of a
            file. The array is read-only.
        unpack: from that object to an array of the same shape and dtype.

    Returns:
        the policy.

    Raises:
        ArgumentError: if one of them is not a function.
        CapturedArrayError: from the derivative, if ``pack`` writes into its argument.
        ShapeError, DtypeError: from the derivative, if ``unpack`` returns an array of another shape
            or dtype.

    Example:
        >>> import numpy as np, functrace as ft
        >>> halved = ft.policies.pack(lambda x: x.astype(np.float32), lambda x: x.astype(np.float64))
        >>> ft.grad(ft.checkpoint(lambda x: np.sum(x * np.sin(x)), policy=halved))(np.zeros(2))
        array([0., 0.])

    Source:
        ``torch.autograd.graph.saved_tensors_hooks``.
    """
    for function in (pack, unpack):
        if not callable(function):
            raise ArgumentError(
                f"policies.pack: {function!r} is not a function", fix="pass two functions"
            )
    return PackPolicy(pack, unpack)


def binomial(slots: int) -> Binomial:
    """Keep a number of carries of a loop, and run the fewest steps again: the argument
    ``checkpoint`` of `functrace.scan`, `functrace.fori_loop` and `functrace.while_loop`.

    Args:
        slots: number of carries that are kept at a time, 1 or more, the initial one included.

    Returns:
        the schedule.

    Raises:
        ArgumentError: if ``slots`` is less than 1.

    Example:
        >>> import numpy as np, functrace as ft
        >>> def simulate(x, checkpoint=None):
        ...     return ft.fori_loop(0, 1000, lambda i, x: x + 1e-3 * np.sin(x), x, checkpoint=checkpoint)
        >>> by_ten = ft.grad(lambda x: np.sum(simulate(x, ft.policies.binomial(10))))(np.ones(2))
        >>> bool(np.all(by_ten == ft.grad(lambda x: np.sum(simulate(x)))(np.ones(2))))
        True

    Cost:
        memory: ``slots`` carries, that before the last step until the reverse pass starts, and
        what one step needs. Steps: with the least ``r`` for which ``C(slots + r, r)`` is at least
        the number of steps ``n``, the loop and its reverse pass run ``r n - C(slots + r, r - 1)``
        steps: 3,636 for 1,000 steps and 10 slots, 2,439 for 31 slots. That counts the forward sweep
        without its last step, which only the value of the loop needs, and not the run of each step
        in its own reverse. No schedule needs fewer.

    Source:
        Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000).
    """
    found = -1
    with contextlib.suppress(TypeError):
        found = -1 if isinstance(slots, bool) else operator.index(slots)
    if found < 1:
        raise ArgumentError(
            f"policies.binomial: slots={slots!r}", fix="pass the number of carries, 1 or more"
        )
    return Binomial(found)


def budget(size: int | str) -> Budget:
    """Keep what fits into a number of bytes, and recompute as little as possible.

    It counts the arrays that the function and its reverse-mode derivative allocate, with arguments
    (un-jitted transforms hold copies of them) and results, as ``tracemalloc`` counts them, but not
    other memory of the process, or gaps between arrays. Under ``vmap``, it counts the arrays of one
    example. A `while_loop` counts with ``max_steps`` steps. The result of ``pack`` counts as the
    array that was packed.

    Args:
        size: a number of bytes, or a string such as ``"300 MB"`` or ``"1.5 GiB"``.

    Returns:
        the policy.

    Raises:
        ArgumentError: if ``size`` is neither; from the function, if its derivative needs more
            bytes, or keeps values of each step of a loop with an unbounded number of steps (a
            `while_loop` without ``max_steps``, a `fori_loop` with traced bounds).

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
        up to one more run of the function in the derivative. Finding the plan takes several times
        as long as a first gradient.

    Source:
        Chen et al., "Training deep nets with sublinear memory cost", arXiv:1604.06174 (2016).
    """
    return Budget(parsed_bytes(size))


if not TYPE_CHECKING:  # so that type checkers report a misspelt name
    __getattr__, __dir__ = lazy_attributes(__name__, __all__)
