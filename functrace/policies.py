"""Residual policies, for ``functrace.checkpoint(f, policy=...)`` and ``with
functrace.residual_policy(...)``: save, recompute, compress or offload what a derivative needs.

A selection (`save`, `recompute`, `save_names`, `save_dots`, `save_by`, `recompute_elementwise`)
decides which values are saved; the others are recomputed from saved ones. A storage (`pack`,
`compress`, `offload`) saves every residual, in another form. They combine: ``p | q`` saves what
either saves, and the first policy that saves a value says in which form; ``p & q`` saves what both
save, first in the form of ``p``, then in that of ``q`` (`compose` does so with any number of
policies); ``~p`` saves what ``p`` does not save, as it is.

Operands of the function are kept in any case: as they are, unless the policy saves them in another
form. Policies are hashable; equal ones are equal terms of equal parts. `budget` chooses checkpoints
for a number of bytes, and `binomial` the carries that a loop keeps; they stand alone.

Layer: 8 (api).
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.api.control_flow.checkpoints import Binomial
from functrace.api.residuals.budget import Budget, parsed_budget
from functrace.control.policies import (
    DOTS,
    NOT_ELEMENTWISE,
    RECOMPUTE,
    SAVE,
    Candidate,
    Policy,
    PolicyTerm,
    SavePredicate,
    is_policy,
)
from functrace.control.storages import PackPolicy
from functrace.errors import ArgumentError
from functrace.lazy import lazy_attributes

if TYPE_CHECKING:
    from functrace.control.compression import CompressionError as CompressionError
    from functrace.control.compression import CompressionErrors as CompressionErrors
    from functrace.control.compression import CompressPolicy, recording_errors
    from functrace.control.offloading import OffloadPolicy

__all__ = [
    "Candidate", "CompressionError", "CompressionErrors", "binomial", "budget", "compose",
    "compress", "compression_errors", "offload", "pack", "recompute", "recompute_elementwise", "save",
    "save_by", "save_dots", "save_names",
]  # fmt: skip

save = PolicyTerm(SAVE)
"""Keep every residual unchanged."""

recompute = PolicyTerm(RECOMPUTE)
"""Keep only the operands of the function, and recompute everything else."""

save_dots = PolicyTerm(DOTS)
"""Keep the results of matrix products, ``einsum`` and convolutions; recompute everything else."""

recompute_elementwise = PolicyTerm(NOT_ELEMENTWISE)
"""Recompute what elementwise operations and views (reshapes, broadcasts, slices) compute; keep
everything else.
"""


def save_names(*names: str) -> PolicyTerm:
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
    return PolicyTerm((*RECOMPUTE, *names))


def pack(pack: Callable[[np.ndarray[Any, Any]], Any], unpack: Callable[[Any], Any]) -> PackPolicy:
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


def save_by(predicate: Callable[[Candidate], bool]) -> SavePredicate:
    """Keep the values for which a function returns True; recompute everything else.

    The function is called while the derivative is built, once per value and program: with the
    residuals first, then with the operands of each operation that will be run again. (A value with
    several names is described once per name, and kept if the function returns True for one of
    them.) It must depend on its argument only.

    Args:
        predicate: function of a `Candidate` (``name``, ``primitive``, ``aval``, ``nbytes``,
            ``flops``, ``source``, ``is_operand``, ``is_elementwise``, ``is_dot``).

    Returns:
        the policy. Two such policies are equal if their functions are.

    Raises:
        ArgumentError: if ``predicate`` is not a function; from the derivative, if it does not
            return a bool.

    Example:
        >>> import numpy as np, functrace as ft
        >>> costly = ft.policies.save_by(lambda value: value.flops > 10 * value.aval.size)
        >>> f = ft.checkpoint(lambda x: np.sum(np.sin(np.cos(x) @ x)), policy=costly)
        >>> [row.made for row in ft.saved_residuals(f)(np.ones((8, 8)))]
        ['argument x', 'result of matmul']

    Source:
        The policies of ``jax.checkpoint``.
    """
    if not callable(predicate):
        raise ArgumentError(
            f"policies.save_by: {predicate!r} is not a function",
            fix="save_by(lambda value: value.nbytes < 1_000_000)",
        )
    return SavePredicate(predicate)


def offload(directory: str | os.PathLike[str] | None = None) -> OffloadPolicy:
    """Keep every residual in a file, and read it back when it is needed.

    Files are in a private directory (mode 0700) that is created in ``directory``. Each is deleted
    as soon as its residual is freed: after its last use, or with the pullback that holds it. After
    an exception, or when Python ends, no file is left; those of a process that was killed are
    deleted by the next one that offloads into the same ``directory``. Values are bit for bit the
    same.

    Args:
        directory: an existing directory; by default the one for temporary files, which may be in
            memory (tmpfs).

    Returns:
        the policy.

    Raises:
        ArgumentError: if ``directory`` is not an existing directory.
        OffloadError: from the derivative, if a file cannot be written (a full disk, say), or if it
            is missing, truncated or changed when it is read (its size and its CRC-32 are verified:
            this is no protection against forgery).

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = lambda x: np.sum(np.sin(np.cos(x)))
        >>> g = ft.checkpoint(f, policy=ft.policies.offload())
        >>> bool(np.all(ft.grad(g)(np.ones(1000)) == ft.grad(f)(np.ones(1000))))
        True

    Cost:
        writing and reading each residual once, at the speed of the disk; 0.04 ms per file, and up
        to 3 ms for the directory of a derivative. Memory: the residuals that are being written or
        read.

    Source:
        ``torch.autograd.graph.save_on_cpu``.
    """
    from functrace.control.offloading import OffloadPolicy

    if directory is None:
        return OffloadPolicy(None)
    given: Any = directory
    if not isinstance(given, str | os.PathLike) or not os.path.isdir(directory):
        raise ArgumentError(
            f"policies.offload: {directory!r} is not an existing directory",
            fix="create it first (os.makedirs), or omit it",
        )
    return OffloadPolicy(os.path.abspath(os.fspath(directory)))


def compress(method: object) -> CompressPolicy:
    """Keep every residual compressed.

    ========  ========================================================================
    method    kept, and error of an element ``x``
    ========  ========================================================================
    float16   2 bytes, scaled by one power of two per array: at most
              ``max(abs(x) / 2**11, largest / 2**38)``, where ``largest`` is the largest
              magnitude in the array
    int8      1 byte, and one scale per 256 elements: at most ``largest / 254``, where
              ``largest`` is that of these elements, and the rounding of ``x``'s dtype; zeros
              and the largest are exact
    zlib      the bytes, shuffled, compressed by `zlib`, level 1: exact
    a codec   what its ``encode`` returns (any codec of ``numcodecs``)
    ========  ========================================================================

    Integers, bools, and arrays that have NaN or infinity stay exact under all methods: they are
    kept as they are where a method would change them. A complex number is two real ones.

    Args:
        method: "float16", "int8", "zlib", or an object with ``encode`` (from a contiguous array to
            bytes or an array) and ``decode`` (back). A codec for one dtype only compresses arrays
            of that dtype; an array that ``encode`` refuses (TypeError, ValueError) is kept as it is.

    Returns:
        the policy.

    Raises:
        ArgumentError: if ``method`` is none of these.
        DtypeError: from the derivative, if a codec restores another dtype or number of bytes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = lambda x: np.sum(np.tanh(x) ** 2)
        >>> x = np.linspace(-2.0, 2.0, 1000)
        >>> g = ft.checkpoint(f, policy=ft.policies.compress("int8"))
        >>> bool(np.max(np.abs(ft.grad(g)(x) - ft.grad(f)(x))) < 0.02)
        True

    Cost:
        for 8 MB, on one core: 0.02 s with "float16" and with "int8", 0.3 s with "zlib".

    Source:
        Chen et al., "ActNN: reducing training memory footprint via 2-bit activation compressed
        training", arXiv:2104.14129 (2021), on scales per block.
    """
    from functrace.control.compression import METHODS, CompressPolicy

    if not (method in METHODS if isinstance(method, str) else _is_codec(method)):
        raise ArgumentError(
            f"policies.compress: {method!r} is no method",
            fix=f"one of {', '.join(map(repr, METHODS))}, or a codec: an object with encode and "
            "decode, such as numcodecs.Zstd()",
        )
    return CompressPolicy(method)


def _is_codec(method: object) -> bool:
    return callable(getattr(method, "encode", None)) and callable(getattr(method, "decode", None))


def compression_errors() -> recording_errors:
    """Measure the error of every array that `compress` compresses in a ``with`` block.

    The block gives a `CompressionErrors`: rows with ``aval``, ``nbytes``, ``stored`` (bytes),
    ``worst`` (largest absolute error) and ``relative`` (as a fraction of the largest magnitude),
    and the same for all of them; it prints as a table. It applies to this thread and the tasks that
    it starts.

    Returns:
        a context manager.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = ft.checkpoint(lambda x: np.sum(np.sin(x)), policy=ft.policies.compress("float16"))
        >>> with ft.policies.compression_errors() as found:
        ...     gradient = ft.grad(f)(np.linspace(0.0, 1.0, 1000))
        >>> found.nbytes, found.stored, bool(0 < found.relative < 2.0**-11)
        (8000, 2000, True)

    Cost:
        every compressed array is restored once more.
    """
    from functrace.control.compression import recording_errors

    return recording_errors()


def compose(*policies: Policy) -> Policy:
    """Pass every value through several policies, in order.

    A value is saved if every policy saves it. A storage keeps what the one before returned:
    ``compose(save_dots, compress("zlib"), offload())`` saves results of products, compresses them,
    and writes the compressed bytes into files. Everything else is recomputed, from the saved values
    as they are restored: if a storage is lossy, values that are recomputed from them inherit the
    error. An operand of the function that a selection does not save is kept as it is.

    Args:
        policies: one or more policies; `offload` must be the last storage.

    Returns:
        the policy: ``first & second & …``.

    Raises:
        ArgumentError: if there is no policy, if one of them is no policy (`budget` cannot be
            composed), or if a storage follows `offload`.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = lambda x: np.sum(np.sin(np.cos(x) @ x))
        >>> dots = ft.policies.compose(ft.policies.save_dots, ft.policies.compress("zlib"))
        >>> dots == ft.policies.save_dots & ft.policies.compress("zlib")
        True
        >>> g = ft.checkpoint(f, policy=dots)
        >>> bool(np.all(ft.grad(g)(np.ones((8, 8))) == ft.grad(f)(np.ones((8, 8)))))
        True
    """
    given: tuple[Any, ...] = policies
    for policy in given:
        if not is_policy(policy):
            raise ArgumentError(
                f"policies.compose: {policy!r} cannot be composed",
                fix="compose selections (save_dots, save_names(...)) and storages (compress(...), "
                "offload())",
            )
    if not given:
        raise ArgumentError("policies.compose takes one or more policies", fix="name a policy")
    first, *rest = [PolicyTerm(p) if isinstance(p, tuple) else p for p in policies]
    for policy in rest:
        first = first & policy
    return first


def budget(size: int | str, *, cost: str = "flops") -> Budget:
    """Keep what fits into a number of bytes, and recompute as little as possible.

    It counts the arrays that the function and its reverse-mode derivative allocate, with arguments
    (un-jitted transforms hold copies of them) and results, as ``tracemalloc`` counts them, but not
    other memory of the process, or gaps between arrays: 2 % of a budget of up to 64 MiB, and 15 % of
    one from 256 MiB on, are left for these, if possible. A `while_loop` counts with ``max_steps``
    steps. The result of ``pack`` counts as the array that was packed. `functrace.plan` shows what is
    chosen.

    Under `vmap`, all examples count, inside or outside of the checkpoint, and of the derivative. With
    `jit` between the two, one example counts: ``vmap(jit(grad(checkpoint(f))))`` records ``f`` once
    for batches of any size.

    Args:
        size: a number of bytes, or a string such as ``"300 MB"`` or ``"1.5 GiB"``. ``"auto"``
            chooses the knee of the time-memory curve, at which less memory begins to cost much more
            time.
        cost: what recomputation costs: ``"flops"``, by count, or ``"time"``, which measures each
            operation, on arrays of ones, when the plan is made; plans then depend on the machine.

    Returns:
        the policy.

    Raises:
        ArgumentError: if ``size`` or ``cost`` is none of these; from the function, if its derivative
            needs more bytes (the message has the smallest possible budget), or keeps values of each
            step of a loop with an unbounded number of steps (a `while_loop` without ``max_steps``, a
            `fori_loop` with traced bounds).

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
        of the derivative: the least recomputation among the candidates that fit, at most a few runs
        of the function. Choosing takes 0.5 to 5 s, once per program and budget.

    Source:
        Beaumont et al., "Optimal checkpointing for heterogeneous chains", arXiv:1911.13214 (2019);
        Jain et al., "Checkmate", MLSys (2020); Zhao et al., "Rockmate", ICML (2023).
    """
    return parsed_budget(size, cost)


if not TYPE_CHECKING:  # so that type checkers report a misspelt name
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        __all__,
        dict.fromkeys(("CompressionError", "CompressionErrors"), "functrace.control.compression"),
    )
