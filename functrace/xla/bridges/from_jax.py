"""JAX functions as one operation: `jax_p`, whose rules are JAX's transforms of the function.

A derivative of the operation is the same operation, of another function of JAX: so it has
derivatives in turn, which are made when they are needed.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from functrace.caches import BoundedCache, CacheEntry
from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.primitive import (
    Flags,
    Operand,
    Primitive,
    RuleArgument,
    Tangents,
    Values,
    is_linear,
)
from functrace.tracing.binding import bind
from functrace.transforms.building import is_differentiable
from functrace.xla.lowering import Operation, Value, register

Kind: TypeAlias = Literal["user", "pushed", "pulled", "mapped"]


@final
@dataclass(frozen=True)
class JaxFunction:
    """A function of flat arrays to a tuple of arrays: hashable, as a param must be.

    Args:
        kind: the user's function; the tangents of the results of ``of``, from its operands and the
            tangents of active ones; the cotangents of linear operands, from the other operands and
            the cotangents of the results; or ``of`` mapped over examples.
        of: the user's function, or another `JaxFunction`.
        static: "user": structures of arguments and result. "pushed", "mapped": a flag per operand.
            "pulled": the avals of linear operands, ``None`` for the others.
        is_wide: True to compute in JAX's 64-bit mode.
    """

    kind: Kind
    of: Callable[..., Any]
    static: Hashable
    is_wide: bool

    def __repr__(self) -> str:
        name = getattr(self.of, "__name__", None) or repr(self.of)
        return name if self.kind == "user" else f"{self.kind}({name})"

    def __reduce__(self) -> Any:
        raise ProgramError(
            f"a program calls the JAX function {self!r}, so it cannot be pickled",
            fix="pickle the function, by its module-level name, and trace it again where it is "
            "needed",
        )

    def __call__(self, *values: Value) -> tuple[Any, ...]:
        """Compute with arrays of JAX."""
        static: Any = self.static
        if self.kind == "user":
            args, kwargs = jax.tree.unflatten(static[0], values)
            return tuple(jax.tree.leaves(self.of(*args, **kwargs)))
        if self.kind == "pushed":
            primals, moving = values[: len(static)], iter(values[len(static) :])
            function, active = _at(self.of, static, primals)
            return _smooth(jax.jvp(function, active, tuple(moving))[1])
        if self.kind == "pulled":
            return self._pulled(static, values)
        axes = [0 if flag else None for flag in static]
        return tuple(jax.vmap(lambda *xs: self.of(*xs), axes)(*values))

    def _pulled(
        self, static: Sequence[ShapeDtype | None], values: Sequence[Any]
    ) -> tuple[Any, ...]:
        rest = iter(values)
        operands = [None if aval is not None else next(rest) for aval in static]
        cts = tuple(rest)
        of: Any = self.of
        count = len(of.static) if of.kind == "pushed" else 0
        if of.kind == "pushed" and all(aval is None for aval in static[:count]):
            # the transpose of a jvp: the vjp, which also functions with a custom_vjp have
            flags = [aval is not None for aval in static[count:]]
            function, active = _at(of.of, of.static, operands[:count])
            found = jax.vjp(lambda *xs: _smooth(function(*xs)), *active)[1](cts)
            return tuple([ct for ct, flag in zip(found, flags, strict=True) if flag])
        function, shapes = _at(of, [aval is not None for aval in static], static, operands)
        like = tuple([jax.ShapeDtypeStruct(a.shape, a.dtype) for a in shapes])
        return tuple(jax.linear_transpose(function, *like)(cts))

    def avals(self, operands: Sequence[ShapeDtype]) -> tuple[ShapeDtype, ...]:
        """Return the avals of the results."""
        return self.entry().signature(tuple(operands))[0]

    def entry(self) -> _Compiled:
        """Return the jitted function, and what is known of it."""
        found = _compiled.get(self)
        if found is None:
            found = _Compiled(self)
            _compiled.add(self, found)
        return found

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Compute with arrays of NumPy, compiled."""
        entry = self.entry()
        with jax.enable_x64(self.is_wide):
            arrays = [jax.device_put(x, may_alias=True) for x in map(np.asarray, values)]
            return tuple([np.array(y)[()] for y in entry.run(*arrays)])


def _at(
    of: Callable[..., Any],
    active: Sequence[bool],
    operands: Sequence[Any],
    fixed: Sequence[Any] | None = None,
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of the active operands, at the others, and those.

    Args:
        of: a function of all operands.
        active: a flag per operand.
        operands: the operands.
        fixed: where the inactive ones stand; by default there, too.
    """
    others = operands if fixed is None else fixed

    def function(*values: Value) -> Any:
        rest = iter(values)
        return of(*[next(rest) if flag else x for flag, x in zip(active, others, strict=True)])

    return function, tuple([x for x, flag in zip(operands, active, strict=True) if flag])


def _smooth(results: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results that have derivatives, without those of integers."""
    return tuple([y for y in results if jnp.issubdtype(jnp.result_type(y), jnp.inexact)])


@final
class _Compiled(CacheEntry):
    """A function of JAX, jitted, and its results by avals of the operands.

    Args:
        function: the function.
    """

    __slots__ = ("_known", "function", "run")

    def __init__(self, function: JaxFunction) -> None:
        super().__init__()
        self.function = function
        self.run = jax.jit(lambda *values: function(*values))
        self._known: dict[tuple[ShapeDtype, ...], tuple[tuple[ShapeDtype, ...], Any]] = {}

    def signature(self, operands: tuple[ShapeDtype, ...]) -> tuple[tuple[ShapeDtype, ...], Any]:
        """Return the avals of the results; and their structure, of the user's function."""
        found = self._known.get(operands)
        if found is None:
            if len(self._known) >= MOST_SIGNATURES:
                self._known.clear()
            found = self._known[operands] = self._traced(operands)
        return found

    def _traced(self, operands: Sequence[ShapeDtype]) -> tuple[tuple[ShapeDtype, ...], Any]:
        function, shapes = self.function, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in operands]
        static: Any = function.static

        def run(*values: Value) -> Any:
            if function.kind != "user":
                return function(*values)
            args, kwargs = jax.tree.unflatten(static[0], values)
            return function.of(*args, **kwargs)

        with jax.enable_x64(function.is_wide):
            leaves, tree = jax.tree.flatten(jax.eval_shape(run, *shapes))
        return tuple([ShapeDtype(a.shape, a.dtype) for a in leaves]), tree


MOST_SIGNATURES: Final = 256
"""Number of signatures of a function that are kept."""

_compiled: BoundedCache[_Compiled] = BoundedCache("functions of JAX", 64 << 20, 512)


# -- the operation ---------------------------------------------------------------------------------


def _eval(*rest: RuleArgument) -> tuple[Any, ...]:
    *values, function = rest
    return function.run(values)


def _aval(*rest: RuleArgument) -> tuple[ShapeDtype, ...]:
    *operands, function = rest
    if type(function) is not JaxFunction:  # a text can name a ufunc here
        raise ProgramError(f"{function!r} is no function of JAX", fix="use functrace.from_jax")
    return function.avals(operands)


def _jvp(primals: Values, outputs: Values, tangents: Tangents, function: JaxFunction) -> list[Any]:
    active = tuple([t is not None for t in tangents])
    pushed = JaxFunction("pushed", function, active, function.is_wide)
    moving = [t for t in tangents if t is not None]
    found = iter(bind(jax_p, (*primals, *moving), (pushed,)))
    return [next(found) if is_differentiable(aval_of(y)) else None for y in outputs]


def _transpose(cts: Tangents, *rest: RuleArgument) -> list[Any]:
    *operands, function = rest
    given: list[Operand] = operands
    linear = tuple([x.aval if is_linear(x) else None for x in given])
    avals = function.avals([x.aval if is_linear(x) else aval_of(x) for x in given])
    filled = [
        np.zeros(a.shape, a.dtype)[()] if ct is None else ct
        for ct, a in zip(cts, avals, strict=True)
    ]
    pulled = JaxFunction("pulled", function, linear, function.is_wide)
    known = [x for x in given if not is_linear(x)]
    found = iter(bind(jax_p, (*known, *filled), (pulled,)))
    return [next(found) if aval is not None else None for aval in linear]


def _batch(operands: Values, is_batched: Flags, function: JaxFunction) -> Any:
    mapped = JaxFunction("mapped", function, tuple(is_batched), function.is_wide)
    return bind(jax_p, operands, (mapped,))


jax_p = Primitive(
    "jax",
    eval=_eval,
    aval=_aval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    params=("function",),
    many=True,
)
"""``jax x {function=…}``: the results of a function of JAX."""


@register(jax_p)
def _spliced(op: Operation, *rest: Value) -> Any:
    """Under XLA the function is a part of the program: nothing is called."""
    *values, function = rest
    with jax.enable_x64(function.is_wide and bool(jax.config.jax_enable_x64)):
        return function(*map(jnp.asarray, values))


def applied(
    g: Callable[..., Any], leaves: Sequence[Any], treedef: Hashable, is_wide: bool
) -> tuple[list[Any], Any]:
    """Apply a function of JAX to arrays, also traced ones.

    Args:
        g: the function.
        leaves: the arrays.
        treedef: structure of ``(args, kwargs)``, of JAX.
        is_wide: True to compute in 64 bits.

    Returns:
        the leaves of the result, and its structure.
    """
    function = JaxFunction("user", g, (treedef,), is_wide)
    tree = function.entry().signature(tuple(map(aval_of, leaves)))[1]
    return list(bind(jax_p, tuple(leaves), (function,))), tree
