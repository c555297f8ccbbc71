"""Compile programs with XLA, and call them with NumPy's arrays or JAX's.

JAX computes in 64 bits inside of a scope only (``jax.enable_x64``): its global setting, which
changes the user's own code, stays as it is.

Layer: 7.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.executor.runner import WITH_OWN_LINES
from functrace.ir.parts import closed_over
from functrace.ir.program import Program
from functrace.passes import PIPELINE, Pass, optimized
from functrace.passes.derivative_links import without_links

if TYPE_CHECKING:
    from functrace.ir.aval import ShapeDtype
    from functrace.tree import PyTreeSpec

LARGE_CONSTANT: Final = 1 << 11
"""Bytes from which a constant of a program is an argument of its module, not a part of the code."""
LARGE_INDEX: Final = 1 << 20
"""Likewise for integers: constant indices in the code are checked once, when it is lowered."""
UNROLLED: Final = 500
"""Operations from which an unrolled program gives a warning: XLA compiles and runs it slowly."""

BEFORE_LOWERING = tuple(
    [
        x
        for x in PIPELINE
        if (x.stage == "early" and x.name != "inlining") or x.name == "softmax shifts"
    ]
)
"""Passes before lowering. Calls stay, since those that recompute need a barrier."""


def check_installed(what: str = 'backend="xla"') -> None:
    """Check that JAX is installed.

    Args:
        what: what needs it, for messages.

    Raises:
        UnsupportedFunctionError: if not.
    """
    if importlib.util.find_spec("jax") is None:
        raise UnsupportedFunctionError(f"{what} needs JAX", fix="pip install functrace-numpy[xla]")


@final
@dataclass(frozen=True)
class XlaBackend:
    """The choices of one jitted function.

    Args:
        in_shardings, out_shardings: shardings of JAX, as ``jax.jit`` takes them: pytrees that are
            prefixes of the arguments and of the result; None to leave them to XLA.
        keep_on_device: True to return arrays of JAX.
        host_callbacks: names of primitives that may run in NumPy on the host.
    """

    in_shardings: Any = None
    out_shardings: Any = None
    keep_on_device: bool = False
    host_callbacks: frozenset[str] = frozenset()

    @staticmethod
    def arrays() -> tuple[type, ...]:
        """Return the types of arrays on devices."""
        import jax

        return (jax.Array,)

    def compiled(
        self, program: Program, passes: Sequence[Pass], tree: PyTreeSpec, out_tree: PyTreeSpec
    ) -> XlaProgram:
        """Return a function of the leaves of the arguments.

        Args:
            program: the recorded program.
            passes: the user's passes.
            tree: structure of ``(args, kwargs)``.
            out_tree: structure of the result.
        """
        given = None if self.in_shardings is None else _of_leaves(self.in_shardings, tree)
        taken = None
        if self.out_shardings is not None:
            taken = _prefixed(self.out_shardings, out_tree, "out_shardings")
        if given is not None:  # (of a program with its constants as inputs, these have none)
            given += [None] * (len(program.input_ids) - len(given))
        return XlaProgram(program, passes, self, given, taken)


def _of_leaves(shardings: object, tree: PyTreeSpec) -> list[Any]:
    """Return the shardings of the leaves of positional arguments.

    As with ``jax.jit``, static arguments are left out of a tuple, or are None in it.

    Raises:
        ArgumentError: if there are keyword arguments.
    """
    placed, named = tree.children()
    if named.num_leaves:
        raise ArgumentError(
            "jit: in_shardings= are for positional arguments, but there are keyword arguments",
            fix="pass all arrays by position",
        )
    if isinstance(shardings, tuple | list) and len(shardings) != placed.num_children:
        dynamic = [x for x in placed.children() if x.num_leaves]
        if len(shardings) == len(dynamic):
            parts = iter(shardings)
            shardings = tuple([next(parts) if x.num_leaves else None for x in placed.children()])
    return _prefixed(shardings, placed, "in_shardings")


def _prefixed(shardings: object, tree: PyTreeSpec, what: str) -> list[Any]:
    """Return one sharding per leaf, from a prefix of the tree.

    Raises:
        TreeError: if it is no prefix.
    """
    import jax
    from jax.experimental.layout import Format

    from functrace.tree import prefix_leaves

    types = (jax.sharding.Sharding, jax.sharding.PartitionSpec, Format)
    return prefix_leaves(shardings, tree, what, types=types)


def is_argument(aval: ShapeDtype) -> bool:
    """Return True for a constant that is an argument of the module."""
    return aval.nbytes >= (LARGE_INDEX if aval.dtype.kind in "iu" else LARGE_CONSTANT)


def _warn_of_length(program: Program) -> None:
    """Give a warning for a long program that is no loop."""
    from functrace.passes.rerolling import evaluation_order, loops_in

    order = evaluation_order(program)
    if len(order) <= UNROLLED:
        return
    # (elementwise steps stay, but XLA makes one operation of them)
    count = len(order) - sum((x.steps - 1) * x.period for x in loops_in(program, order))
    if count > UNROLLED:
        warnings.warn(
            f"XLA compiles the {count:,} operations of {program.name} slowly, and may run them slower "
            "than a loop; write Python loops as functrace.scan or fori_loop",
            RuntimeWarning,
            stacklevel=2,
        )


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
        from functrace.xla.scope import on_devices, on_host_array, replicated, seen_once

        own = [row for row in passes if row.stage != "off"]  # (what can be off is for NumPy's plan)
        self.program = optimized(without_links(program), (*BEFORE_LOWERING, *own))
        closed, constants = closed_over(self.program, is_argument)
        _warn_of_length(closed)
        options = Options(backend.host_callbacks)
        run, self._errors = lower(closed, options)
        run.__name__ = run.__qualname__ = program.name
        shardings: dict[str, Any] = {}
        if in_shardings is not None:
            shardings["in_shardings"] = (*in_shardings, *[None] * len(constants))
        if out_shardings is not None:
            shardings["out_shardings"] = (tuple(out_shardings), None)
        self.function = run
        """The function of JAX arrays, large constants included, that was compiled."""
        self.jitted = jax.jit(run, **shardings)
        self._scope, self._settings = jax.enable_x64, jax.config
        self._in_shardings = in_shardings or ()
        self._is_shared = in_shardings is not None and jax.process_count() > 1
        everywhere = replicated((*self._in_shardings, *(out_shardings or ())))
        self.constants = [on_devices(x, everywhere) for x in constants]
        self._keeps = backend.keep_on_device
        self._seen_once, self._on_host = seen_once, on_host_array

    def __call__(self, *values: object) -> Sequence[Any]:
        """Run; raises the error that NumPy would raise first.

        Raises:
            ArgumentError: if processes have different parts of an argument, which is NumPy's.
        """
        if self._is_shared:
            self._check_parts(values)
        values = (
            *[self._seen_once(x) if isinstance(x, np.ndarray) else x for x in values],
            *self.constants,
        )
        if self._settings.jax_enable_x64:  # the scope costs 1.5 us
            results, numbers = self.jitted(*values)
        else:
            with self._scope(True):
                results, numbers = self.jitted(*values)
        if numbers:
            self._errors.check(*numbers)
        return results if self._keeps else [self._on_host(x) for x in results]

    def _check_parts(self, values: Sequence[Any]) -> None:
        """Check that arrays of NumPy are not to be divided between processes."""
        from functrace.xla.scope import is_divided_by_process

        for k, (x, sharding) in enumerate(zip(values, self._in_shardings, strict=True)):
            if isinstance(x, np.ndarray | np.generic) and is_divided_by_process(sharding):
                raise ArgumentError(
                    f"jit of {self.program.name}: argument {k} is NumPy's array, but its sharding "
                    f"{sharding} spans several processes",
                    fix="functrace.distributed.global_array(local_data, sharding) makes one array of "
                    "the parts that the processes have",
                )

    def staged(self) -> Any:
        """Return the module before XLA compiles it: ``jax.stages.Lowered``."""
        import jax

        avals = [self.program.avals[i] for i in self.program.input_ids]
        with self._scope(True):
            shapes = [jax.ShapeDtypeStruct(tuple(a.shape), a.dtype) for a in avals]
            return self.jitted.lower(*shapes, *self.constants)


WITH_OWN_LINES.add(XlaProgram)
