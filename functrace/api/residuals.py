"""What is kept for the derivative: ``checkpoint``, ``checkpoint_name``, ``saved_residuals``.

Floor: 7.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from functrace.api.calls import function_name
from functrace.api.programs import input_names
from functrace.api.staging import Operands, stage
from functrace.control.call import call_program, inline
from functrace.control.residuals import RECOMPUTE, SAVE, Pack, Policy, pack_p, unpack_p
from functrace.errors import ArgumentError
from functrace.executor.compile import stands_for
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.ops.naming import name_p, named
from functrace.source import Source
from functrace.tracing.recording import Tracer
from functrace.transforms import is_differentiable, linearize_program
from functrace.tree import map_leaves, unflatten
from functrace.typing import PyTree


def checkpoint(f: Callable[..., Any], *, policy: Policy = RECOMPUTE) -> Callable[..., Any]:
    """Return ``f`` with a policy for the values that its derivative would keep.

    By default they are computed again when the derivative needs them: ``f`` itself is called once, and what is replayed is
    the part of its recorded program that the derivative depends on. Values and derivatives are the same, bit for bit.

    Args:
        f: any function; it may close over traced values.
        policy: of `functrace.policies`: ``recompute`` (the default), ``save_names(...)``, ``pack(...)``.

    Returns:
        a function like ``f``, under any composition of transforms.

    Raises:
        ArgumentError: if ``policy`` is not one.

    Example:
        >>> import numpy as np, functrace as ft
        >>> layer = ft.checkpoint(lambda x: np.sin(np.cos(x)))
        >>> bool(ft.grad(layer)(1.0) == ft.grad(lambda x: np.sin(np.cos(x)))(1.0))
        True

    Cost:
        one more run of ``f`` in the derivative; its operands are kept, instead of a value or more per operation.

    Source:
        Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000), on trading recomputation for memory.
    """
    _check_policy(policy)
    name = function_name(f)

    @functools.wraps(f, updated=())
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        operands = Operands(args, kwargs)
        staged = stage(f, operands, f"checkpoint of {name}", name, with_values=True)
        return unflatten(
            staged.out_tree, call_program(staged.program.interned(), [*operands.values, *staged.captured], policy)
        )

    return checkpointed


def _check_policy(policy: Any) -> None:
    if isinstance(policy, Pack) or policy == SAVE:
        return
    is_tuple = isinstance(policy, tuple)
    if not (is_tuple and policy[0] == "recompute" and all(isinstance(word, str) for word in policy)):
        raise ArgumentError(
            f"checkpoint: policy is {repr(policy) if is_tuple else f'a {type(policy).__name__}'}",
            fix="pass functrace.policies.recompute, functrace.policies.save_names(...) or functrace.policies.pack(...)",
        )


def checkpoint_name(x: PyTree, name: str) -> PyTree:
    """Name traced values, for policies that choose by name (`functrace.policies.save_names`); returns ``x``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> layer = lambda x: np.sin(ft.checkpoint_name(np.cos(x), "hidden"))
        >>> ft.grad(ft.checkpoint(layer, policy=ft.policies.save_names("hidden")))(0.0)
        np.float64(-0.0)
    """
    if not isinstance(name, str):
        raise ArgumentError(f"checkpoint_name: the name is a {type(name).__name__}", fix="pass a string")
    return map_leaves(lambda leaf: named(leaf, name) if isinstance(leaf, Tracer) else leaf, x)


# -- listing ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Residual:
    """One value that is kept.

    Args:
        aval: its shape and dtype.
        made: what it is: ``argument x``, ``constant``, or the operation that computes it.
        why: the operation of the derivative that reads it first, and of what that is the derivative.
        source: the user's line that it comes from, if known.
    """

    aval: ShapeDtype
    made: str
    why: str
    source: Source | None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.aval.nbytes


@dataclass(frozen=True)
class Residuals:
    """Everything that is kept between a function and its derivative; prints as a table."""

    of: str
    kept: tuple[Residual, ...]

    @property
    def nbytes(self) -> int:
        """Total size in bytes."""
        return sum(r.nbytes for r in self.kept)

    def __iter__(self) -> Any:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def __str__(self) -> str:
        rows = [("bytes", "aval", "value", "kept for", "line")]
        for r in self.kept:
            line = "" if r.source is None else f"{r.source.short}  {r.source.expression}".rstrip()
            rows.append((f"{r.nbytes:,}", str(r.aval), r.made, r.why, line))
        rows.append((f"{self.nbytes:,}", f"total of {self.of}", "", "", ""))
        widths = [max(len(row[k]) for row in rows) for k in range(4)]
        lines = []
        for row in rows:
            cells = [row[0].rjust(widths[0]), *(c.ljust(w) for c, w in zip(row[1:4], widths[1:], strict=True)), row[4]]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


def saved_residuals(f: Callable[..., Any]) -> Callable[..., Residuals]:
    """Return a function of ``f``'s arguments that lists what its reverse-mode derivative keeps.

    Nothing is computed. Residuals of loops are listed as their stacks.

    Returns:
        a function that returns `Residuals`: an iterable of rows with ``nbytes``, ``aval``, ``made``, ``why`` and ``source``,
        whose ``nbytes`` is the total, and which prints as a table.

    Example:
        >>> import numpy as np, functrace as ft
        >>> kept = ft.saved_residuals(lambda x: np.sum(np.sin(x)))(np.ones(1000))
        >>> kept.nbytes
        8000
    """
    name = function_name(f)

    @functools.wraps(f, updated=())
    def listed(*args: Any, **kwargs: Any) -> Residuals:
        args, kwargs = map_leaves(lambda leaf: np.float64(leaf) if type(leaf) is float else leaf, (args, kwargs))
        operands = Operands(args, kwargs)
        owner = f"saved_residuals of {name}"
        names = input_names(f, args, kwargs)
        program = stage(f, operands, owner, name, with_values=True, input_names=[names[k] for k in operands.places]).program
        forward, linear = linearize_program(program, [is_differentiable(program.avals[i]) for i in program.input_ids])
        return residuals_of(program, forward, linear, name)

    return listed


def residuals_of(program: Program, forward: Program, linear: Program, name: str) -> Residuals:
    """List the residuals that `linearize_program` passes from ``forward`` to ``linear``."""
    count = len(program.output_ids)
    forward, linear = inline(forward, stands_for), inline(linear, stands_for)
    readers: dict[int, int] = {}
    for k, _ in linear.schedule:
        for i in linear.ops[k][1]:
            readers.setdefault(i, k)
    kept = {}
    for outer, inner in zip(forward.output_ids[count:], linear.input_ids, strict=False):
        reader = readers.get(inner)
        if reader is None:
            continue
        if linear.ops[reader][0] is unpack_p:
            reader = readers.get(reader, reader)
        kept.setdefault(outer, _row(forward, outer, linear.ops[reader][0].name, linear.source(reader)))
    return Residuals(name, tuple(kept.values()))


def _row(forward: Program, variable: int, reader: str, source: Source | None) -> Residual:
    aval, packed = forward.avals[variable], ""
    if forward.ops[variable][0] is pack_p:
        (variable,), packed = forward.ops[variable][1], "packed "
    first = variable
    while forward.ops[first][0] is RESULT:
        first -= 1
    primitive, _, params = forward.ops[first]
    if primitive is INPUT:
        made = f"argument {forward.variables[variable].name}"
    elif primitive is CONSTANT:
        made = "constant"
    elif primitive is name_p:
        made = f"named {params[0]!r}"
    else:
        made = f"result of {primitive.name}"
    return Residual(aval, packed + made, f"{reader}, in the derivative", forward.source(first) or source)
