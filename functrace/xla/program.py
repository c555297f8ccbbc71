"""Compile programs with XLA, and call them with NumPy's arrays or JAX's.

JAX computes in 64 bits inside of a scope only (``jax.enable_x64``): its global setting, which
changes the user's own code, stays as it is.

Layer: 7.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.ir.parts import closed_over
from functrace.ir.program import Program
from functrace.passes import PIPELINE, Pass, optimized

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

LARGE_CONSTANT: Final = 1 << 11
"""Bytes from which a constant of a program is an argument of its module, not a part of the code."""
UNROLLED: Final = 500
"""Operations from which an unrolled program gives a warning: XLA compiles and runs it slowly."""

EARLY = tuple([row for row in PIPELINE if row.stage == "early" and row.name != "inlining"])
"""Passes before lowering. Calls stay, since those that recompute need a barrier."""


def check_installed() -> None:
    """Check that JAX is installed.

    Raises:
        UnsupportedFunctionError: if not.
    """
    if importlib.util.find_spec("jax") is None:
        raise UnsupportedFunctionError(
            'backend="xla" needs JAX', fix="pip install functrace-numpy[xla]"
        )


@final
@dataclass(frozen=True)
class XlaBackend:
    """The choices of one jitted function.

    Args:
        in_shardings, out_shardings: shardings of JAX, as ``jax.jit`` takes them: pytrees that are
            prefixes of the arguments and of the result; None to leave them to XLA.
        keep_on_device: True to return arrays of JAX.
        host_callbacks: names of primitives that may run in NumPy on the host.
        most_steps: bound for the residuals of while loops without ``max_steps``.
    """

    in_shardings: Any = None
    out_shardings: Any = None
    keep_on_device: bool = False
    host_callbacks: frozenset[str] = frozenset()
    most_steps: int | None = None

    @staticmethod
    def arrays() -> tuple[type, ...]:
        """Return the types of arrays on devices."""
        import jax

        return (jax.Array,)

    def compiled(
        self, program: Program, passes: Sequence[Pass], tree: PyTreeSpec, out_tree: PyTreeSpec
    ) -> Callable[..., Sequence[Any]]:
        """Return a function of the leaves of the arguments.

        Args:
            program: the recorded program.
            passes: the user's passes.
            tree: structure of ``(args, kwargs)``.
            out_tree: structure of the result.
        """
        given = None if self.in_shardings is None else _of_leaves(self.in_shardings, tree)
        taken = None if self.out_shardings is None else _prefixed(self.out_shardings, out_tree)
        return XlaProgram(program, passes, self, given, taken)


def _of_leaves(shardings: object, tree: PyTreeSpec) -> list[Any]:
    """Return the shardings of the leaves of positional arguments; keyword arguments have none."""
    placed, named = tree.children()
    return [*_prefixed(shardings, placed), *[None] * named.num_leaves]


def _prefixed(shardings: object, tree: PyTreeSpec) -> list[Any]:
    """Return one sharding per leaf, from a prefix of the tree.

    Raises:
        ArgumentError: if it is no prefix.
    """
    from functrace.tree import unflatten

    count = tree.num_leaves
    found: list[Any] = [None] * count

    def place(part: object, numbers: object) -> None:
        is_one = not isinstance(part, tuple | list | dict) or hasattr(part, "device_set")
        if part is None or is_one:
            for k in _leaves(numbers):
                found[k] = part
        elif isinstance(part, dict) and isinstance(numbers, dict) and part.keys() == numbers.keys():
            for key in part:
                place(part[key], numbers[key])
        elif (
            isinstance(part, tuple | list)
            and isinstance(numbers, tuple | list)
            and len(part) == len(numbers)
        ):
            for one, other in zip(part, numbers, strict=True):
                place(one, other)
        else:
            raise ArgumentError(
                f"shardings {shardings!r} are no prefix of {tree}",
                fix="give one sharding, or a tuple, list or dict of them as the arguments are",
            )

    place(shardings, unflatten(tree, list(range(count))))
    return found


def _leaves(nest: object) -> Iterable[int]:
    from functrace.tree import flatten

    return flatten(nest)[0]


@final
class XlaProgram:
    """A program that XLA compiles at its first call.

    Args:
        program: the recorded program.
        passes: the user's passes.
        backend: the user's choices.
        in_shardings, out_shardings: one per argument and per result; None for all to leave them to
            XLA.
    """

    def __init__(
        self,
        program: Program,
        passes: Sequence[Pass],
        backend: XlaBackend,
        in_shardings: Sequence[Any] | None = None,
        out_shardings: Sequence[Any] | None = None,
    ) -> None:
        check_installed()
        import jax

        from functrace.xla.lowering import Options, lower

        self.program = optimized(program, (*EARLY, *[row for row in passes if row.stage != "off"]))
        closed, constants = closed_over(self.program, LARGE_CONSTANT)
        options = Options(backend.host_callbacks, backend.most_steps)
        run, self._errors = lower(closed, options)
        run.__name__ = run.__qualname__ = program.name
        shardings: dict[str, Any] = {}
        if in_shardings is not None:
            shardings["in_shardings"] = (*in_shardings, *[None] * len(constants))
        if out_shardings is not None:
            shardings["out_shardings"] = (*out_shardings, None)
        self.function = run
        """The function of JAX arrays, large constants included, that was compiled."""
        self.jitted = jax.jit(run, **shardings)
        self._scope = jax.enable_x64
        with self._scope(True):
            self.constants = [jax.device_put(x) for x in constants]
        self._keeps = backend.keep_on_device

    def __call__(self, *values: object) -> list[Any]:
        """Run; raises the error that NumPy would raise first."""
        with self._scope(True):
            *results, number = self.jitted(*values, *self.constants)
        if self._errors:
            self._errors.check(number)
        return results if self._keeps else [np.array(x)[()] for x in results]

    def staged(self) -> Any:
        """Return the module before XLA compiles it: ``jax.stages.Lowered``."""
        import jax

        avals = [self.program.avals[i] for i in self.program.input_ids]
        with self._scope(True):
            shapes = [jax.ShapeDtypeStruct(tuple(a.shape), a.dtype) for a in avals]
            return self.jitted.lower(*shapes, *self.constants)
