"""``autograd.extend``: primitives, functions of plain values with custom derivatives.

Note [Rules run on values]
    A primitive's function is called during tracing, with plain values. Its rules, ``vjpmaker(ans,
    *args)(g)`` and ``jvpmaker(g, ans, *args)``, are called when the derivative's program runs, with
    plain values, too: so a rule may call any primitive on ``g``, as rules for autograd do. Higher
    derivatives differentiate the call of the rule in the same way
    (`functrace.api.custom_rules.external_values.eagerly`). A mode without a rule is the transpose
    of the other one.

Layer: 10.
"""

from __future__ import annotations

import functools
import itertools
import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, final

import numpy as np

from functrace.api.capture.arguments import function_name
from functrace.api.capture.programs import stop_gradient
from functrace.api.custom_rules.external_values import attached, eagerly
from functrace.api.custom_rules.foreign import call_foreign
from functrace.api.differentiation.gradients import vjp as pullback_of
from functrace.compat.autograd.boxes import Box, notrace_primitive
from functrace.compat.autograd.vspaces import VSpace, vspace
from functrace.compat.kinds import Given, Values
from functrace.errors import (
    ArgumentError,
    DtypeError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedFunctionError,
)
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.keys import static_key
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.tracing.tracer import Tracer
from functrace.transforms import is_differentiable
from functrace.tree import flatten, map_leaves, tree_key, unflatten

__all__ = [
    "Box", "JVPNode", "SparseObject", "VJPNode", "VSpace", "def_linear", "defjvp", "defjvp_argnum",
    "defjvp_argnums",
    "defvjp", "defvjp_argnum", "defvjp_argnums", "notrace_primitive", "primitive",
    "register_notrace", "vspace",
]  # fmt: skip

Maker = Callable[..., Any]
_ARRAYS = (Tracer, np.ndarray, np.generic)


@final
class primitive:
    """Make an operation of a function of plain values, with derivatives given by `defvjp` and
    `defjvp`.

    Args:
        fun: a function of positional arguments, which may be differentiated, and keyword arguments.

    Raises:
        ConcretizationError: if it is called with abstract values (under `functrace.jit`,
            `functrace.vmap`).
        NotDifferentiableError: if it is differentiated by an argument without a rule.

    Example:
        >>> import math
        >>> from functrace.compat.autograd import grad
        >>> from functrace.compat.autograd.extend import defvjp
        >>> @primitive
        ... def sine(x):
        ...     return math.sin(x)
        >>> defvjp(sine, lambda ans, x: lambda g: g * math.cos(x))
        >>> grad(sine)(0.0)
        np.float64(1.0)

    Cost:
        about 0.2 ms per call under a transform, besides the function and its rules.

    Source:
        ``autograd.extend.primitive``.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.name = function_name(fun)
        self.vjps: Callable[[int], Maker | None] = lambda argnum: None
        self.jvps: Callable[[int], Maker | None] = lambda argnum: None
        functools.update_wrapper(self, fun, updated=())

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind as a method."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Given, **kwargs: Given) -> Any:
        """Call the function; on traced arguments, with its rules."""
        if not _holds_tracer(args):
            return self.fun(*args, **kwargs)  # keywords may be traced: the function handles them
        args, kwargs = map_leaves(
            lambda x: x.strong() if isinstance(x, TracedNumber) else x, (args, kwargs)
        )
        held, named = map_leaves(
            lambda x: stop_gradient(x) if isinstance(x, Tracer) else x, (args, kwargs)
        )
        return _Call(
            self, args, kwargs, call_foreign(self.fun, None, held, named, "sequential")
        ).attached()

    def defvjp(self, *_: object, **__: object) -> NoReturn:
        """Raise: autograd's old form is not supported.

        Raises:
            UnsupportedFunctionError: always.
        """
        raise UnsupportedFunctionError(
            f"{self.name}.defvjp is the form of autograd before 1.2",
            fix=f"from functrace.compat.autograd.extend import defvjp; defvjp({self.name}, lambda "
            "ans, *args: lambda g: …)",
        )

    defgrad = defvjp_is_zero = defvjp


def _holds_tracer(x: Values) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in flatten(x)[0])


_transposing: ContextVar[frozenset[Any]] = ContextVar(
    "the forward-mode rules that are being transposed", default=frozenset()
)


@final
class _Call:
    """One call of a primitive on traced values: the arguments of its rules."""

    def __init__(
        self, owner: primitive, args: tuple[Any, ...], kwargs: dict[str, Any], result: Values
    ) -> None:
        self.owner = owner
        leaves, self.tree = flatten((args, kwargs, result))
        self.leaves: list[Any] = leaves
        given: list[object] = leaves
        self.first_result = len(flatten((args, kwargs))[0])
        ends = list(itertools.accumulate([len(flatten(x)[0]) for x in args], initial=0))
        self.places = [range(*pair) for pair in itertools.pairwise(ends)]
        """Positions of the leaves, by argument."""
        self.avals: dict[int, ShapeDtype] = {
            k: aval_of(leaves[k]) for k, leaf in enumerate(given) if isinstance(leaf, _ARRAYS)
        }
        floats = [k for k, aval in self.avals.items() if is_differentiable(aval)]
        self.outputs = [k for k in floats if k >= self.first_result]
        self.operands = [k for k in self.avals if k not in self.outputs]
        self.moving = [k for k in self.operands if k in floats]
        self.fixed = [None if k in self.avals else leaf for k, leaf in enumerate(leaves)]
        statics = [static_key(leaf) for k, leaf in enumerate(leaves) if k not in self.avals]
        self.key = (
            owner,
            owner.vjps,
            owner.jvps,
            tree_key(self.tree),
            tuple(self.avals),
            tuple(statics),
        )

    def attached(self) -> Any:
        """Return the result as a function of the arguments, whose derivatives are those of the
        rules.
        """
        leaves, self.leaves = self.leaves, []  # rules outlive the recording
        if self.outputs:
            outputs, operands = (
                [leaves[k] for k in self.outputs],
                [leaves[k] for k in self.operands],
            )
            found = attached(self.owner.name, outputs, operands, self.key, self._pull, self._push)
            for k, value in zip(self.outputs, found, strict=False):
                leaves[k] = value
        return unflatten(self.tree, leaves)[2]

    # -- when a derivative is recorded --

    def _pull(
        self,
        outputs: Sequence[Any],
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        active = [k for k, flag in zip(self.operands, wanted, strict=True) if flag]
        key, name = (self.key, "vjp", tuple(active)), f"the vjp of {self.owner.name}"
        run = functools.partial(self._pulled, active, self._with_rules(active))
        avals = [self.avals[k] for k in active]
        found = dict(
            zip(
                active,
                eagerly(name, run, key, [*outputs, *operands, *cotangents], avals),
                strict=True,
            )
        )
        return [found.get(k) for k in self.moving]

    def _push(
        self, outputs: Sequence[Any], operands: Sequence[Any], tangents: Sequence[Any]
    ) -> list[Any]:
        active = [k for k, t in zip(self.operands, tangents, strict=True) if t is not None]
        key, name = (self.key, "jvp", tuple(active)), f"the jvp of {self.owner.name}"
        run = functools.partial(self._pushed, active, self._with_rules(active))
        dots = [t for t in tangents if t is not None]
        return eagerly(
            name, run, key, [*outputs, *operands, *dots], [self.avals[k] for k in self.outputs]
        )

    def _with_rules(self, active: Sequence[int]) -> list[int]:
        """Return the active arguments, after checking that each has a rule.

        Raises:
            NotDifferentiableError: if one has no rule.
        """
        argnums = [k for k, places in enumerate(self.places) if not set(places).isdisjoint(active)]
        others = set(active).difference(*[self.places[k] for k in argnums])
        missing = [k for k in argnums if self.owner.vjps(k) is None and self.owner.jvps(k) is None]
        if missing or others:
            what = f"argument {missing[0]}" if missing else "a keyword argument"
            raise NotDifferentiableError(
                f"{self.owner.name} has no rule for its derivative by {what}",
                fix=f"defvjp({self.owner.name}, …) gives it one; None in it stands for zero"
                if missing
                else "pass it by position, and give it a rule with defvjp",
            )
        return argnums

    # -- when its program runs --

    def _pulled(self, active: Sequence[int], argnums: Sequence[int], *values: Values) -> list[Any]:
        """Return cotangents of operands, from results, operands and cotangents."""
        called, cotangents = self._called_with(values)
        found: dict[int, Any] = {}
        for argnum in argnums:
            found.update(
                zip(self._moving(argnum), self._vjp(argnum, called, cotangents), strict=True)
            )
        return [found[k] for k in active]

    def _pushed(self, active: Sequence[int], argnums: Sequence[int], *values: Values) -> list[Any]:
        """Return tangents of the results, from results, operands and operands' tangents."""
        called, tangents = self._called_with(values)
        dots = {k: np.zeros(self.avals[k].shape, self.avals[k].dtype) for k in self.moving}
        dots.update(zip(active, tangents, strict=True))
        terms = [
            self._jvp(argnum, called, [dots[k] for k in self._moving(argnum)]) for argnum in argnums
        ]
        return [functools.reduce(np.add, parts) for parts in zip(*terms, strict=True)]

    def _vjp(self, argnum: int, called: tuple[Any, ...], cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the differentiable leaves of an argument."""
        maker = self.owner.vjps(argnum)
        if maker is None:
            whose = self.owner, argnum
            if whose in _transposing.get():
                raise NotDifferentiableError(
                    f"the jvp of {self.owner.name} for argument {argnum} applies {self.owner.name} "
                    "to the tangent, and the "
                    "transpose of that is not known",
                    fix=f"give it a reverse-mode rule: defvjp({self.owner.name}, …)",
                )
            token = _transposing.set(_transposing.get() | {whose})
            try:
                return self._transposed(
                    lambda dots: self._jvp(argnum, called, dots), self._moving(argnum), cotangents
                )
            finally:
                _transposing.reset(token)
        args, kwargs, result = called
        found = flatten(maker(result, *args, **kwargs)(self._filled(self.outputs, cotangents)[2]))[
            0
        ]
        return self._fitting(
            found,
            self.places[argnum],
            self._moving(argnum),
            f"the vjp of {self.owner.name}",
            f"argument {argnum}",
        )

    def _jvp(self, argnum: int, called: tuple[Any, ...], tangents: Sequence[Any]) -> list[Any]:
        """Return the tangents of the differentiable results, from those of an argument."""
        maker = self.owner.jvps(argnum)
        if maker is None:
            return self._transposed(
                lambda cts: self._vjp(argnum, called, cts), self.outputs, tangents
            )
        args, kwargs, result = called
        found = flatten(
            maker(self._filled(self._moving(argnum), tangents)[0][argnum], result, *args, **kwargs)
        )[0]
        results = range(self.first_result, len(self.fixed))
        return self._fitting(
            found,
            results,
            self.outputs,
            f"the jvp of {self.owner.name} for argument {argnum}",
            "the result",
        )

    def _transposed(
        self, linear: Callable[[Any], Any], places: Sequence[int], directions: Sequence[Any]
    ) -> list[Any]:
        zeros = [np.zeros(self.avals[k].shape, self.avals[k].dtype) for k in places]
        return pullback_of(linear, zeros)[1](list(directions))[0]

    def _moving(self, argnum: int) -> list[int]:
        return [k for k in self.places[argnum] if k in self.moving]

    def _called_with(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        """Return the arguments, the keywords and the result; and the directions that
        follow them.
        """
        leaves = list(self.fixed)
        places = [*self.outputs, *self.operands]
        for k, value in zip(places, values, strict=False):
            leaves[k] = value
        return unflatten(self.tree, leaves), list(values[len(places) :])

    def _filled(self, places: Sequence[int], values: Sequence[Any]) -> Any:
        """Return directions for the leaves of the call, zeros where there is none."""
        leaves = list(self.fixed)
        for k, aval in self.avals.items():
            leaves[k] = np.zeros(aval.shape, aval.dtype)
        for k, value in zip(places, values, strict=True):
            leaves[k] = value
        return unflatten(self.tree, leaves)

    def _fitting(
        self, found: list[Any], given: Sequence[int], wanted: Sequence[int], what: str, like: str
    ) -> list[Any]:
        """Check a rule's result; return directions of differentiable leaves in their dtypes."""
        if len(found) != len(given):
            raise ArgumentError(
                f"{what} returned {len(found)} arrays, {like} has {len(given)}",
                fix=f"return what is like {like}",
            )
        made: list[Any] = []
        for k, leaf in zip(given, found, strict=True):
            if k not in wanted:
                continue
            aval = self.avals[k]
            value: Any = leaf if isinstance(leaf, Tracer) else np.asarray(leaf)
            if value.shape != aval.shape:
                raise ShapeError(
                    f"{what} returned {aval_of(value)}, but {like} is {aval}",
                    fix="sum over axes that were broadcast, as unbroadcast_f of "
                    "autograd.numpy.numpy_vjps does",
                )
            if not np.can_cast(value.dtype, aval.dtype, "same_kind"):
                raise DtypeError(
                    f"{what} returned {aval_of(value)}, but {like} is {aval}",
                    fix="return np.real of it",
                )
            made.append(value if value.dtype == aval.dtype else value.astype(aval.dtype))
        return made


# -- rules -----------------------------------------------------------------------------------------


_RULED = ("solve_banded", "solve_sylvester", "solve_triangular", "sqrtm")
"""Functions of ``autograd.scipy.linalg`` with autograd's own rules."""


def _own(fun: Given, what: str) -> primitive:
    """Return the primitive to define rules for.

    Rules for a function that only functrace differentiates are dropped with a warning: packages add
    missing rules.
    """
    name, where = function_name(fun), getattr(getattr(fun, "of_scipy", None), "__module__", "")
    if where.startswith("scipy.linalg") and name not in _RULED:
        warnings.warn(
            f"{what}({name}, …) is without effect: functrace differentiates {name} itself",
            stacklevel=3,
        )
        return primitive(fun)
    if not isinstance(fun, primitive):
        raise UnsupportedFunctionError(
            f"{what}: {name} is no primitive that was made here, and has functrace's own rules",
            fix=f"make one: f = primitive({name}), and {what}(f, …)",
        )
    return fun


def _zero(argnum: int) -> Maker:
    def vjpmaker(_ans: Values, *args: Values, **_kwargs: Values) -> Callable[[Any], Any]:
        return lambda g: map_leaves(np.zeros_like, args[argnum])

    return vjpmaker


def _no_tangent(_g: Values, ans: Values, *_args: Values, **_kwargs: Values) -> Any:
    return map_leaves(np.zeros_like, ans)


def _same(fun: primitive, argnum: int) -> Maker:
    def jvpmaker(g: Values, _ans: Values, *args: Values, **kwargs: Values) -> Any:
        return fun(*[g if k == argnum else x for k, x in enumerate(args)], **kwargs)

    return jvpmaker


def _table(
    makers: Sequence[Any], argnums: Iterable[int] | None, made: Callable[[int, Any], Any], what: str
) -> Any:
    table: dict[int, Maker] = {}
    for argnum, maker in zip(
        itertools.count() if argnums is None else argnums, makers, strict=False
    ):
        table[argnum] = made(argnum, maker)
        if not callable(table[argnum]):
            raise ArgumentError(
                f"{what}: {maker!r} is no rule",
                fix="give a function, or None where the derivative is zero",
            )
    return table.get


def defvjp(fun: Given, *vjpmakers: Maker | None, argnums: Iterable[int] | None = None) -> None:
    """Give a primitive its reverse-mode rules, one per argument: ``vjpmaker(ans, *args)`` returns
    ``g ↦ cotangent``.

    Args:
        fun: the primitive.
        vjpmakers: the rules; ``None`` where the derivative is zero.
        argnums: their argument positions; the first ones by default.

    Raises:
        UnsupportedFunctionError: if ``fun`` is no `primitive`.
    """
    owner = _own(fun, "defvjp")
    owner.vjps = _table(
        vjpmakers, argnums, lambda k, maker: _zero(k) if maker is None else maker, "defvjp"
    )


def defvjp_argnums(fun: Given, vjpmaker: Maker) -> None:
    """Give a primitive one rule for all arguments: ``vjpmaker(argnums, ans, args, kwargs)`` returns
    ``g ↦ cotangents``.
    """

    def one(argnum: int) -> Maker:
        def of_one(ans: Values, *args: Values, **kwargs: Values) -> Callable[[Any], Any]:
            return lambda g: next(iter(vjpmaker((argnum,), ans, args, kwargs)(g)))

        return of_one

    _own(fun, "defvjp_argnums").vjps = one


def defvjp_argnum(fun: Given, vjpmaker: Maker) -> None:
    """Give a primitive one rule for each argument: ``vjpmaker(argnum, ans, args, kwargs)`` returns
    ``g ↦ cotangent``.
    """

    def one(argnum: int) -> Maker:
        def of_one(ans: Values, *args: Values, **kwargs: Values) -> Any:
            return vjpmaker(argnum, ans, args, kwargs)

        return of_one

    _own(fun, "defvjp_argnum").vjps = one


def defjvp(fun: Given, *jvpfuns: Maker | str | None, argnums: Iterable[int] | None = None) -> None:
    """Give a primitive its forward-mode rules, one per argument: ``jvpfun(g, ans, *args,
    **kwargs)`` returns the tangent.

    Args:
        fun: the primitive.
        jvpfuns: the rules; ``None`` where the derivative is zero, ``"same"`` where the function is
            linear.
        argnums: their argument positions; the first ones by default.

    Raises:
        UnsupportedFunctionError: if ``fun`` is no `primitive`.
    """
    owner = _own(fun, "defjvp")

    def made(argnum: int, jvpfun: Values) -> Any:
        if jvpfun is None:
            return _no_tangent
        return _same(owner, argnum) if isinstance(jvpfun, str) and jvpfun == "same" else jvpfun

    owner.jvps = _table(jvpfuns, argnums, made, "defjvp")


def defjvp_argnums(fun: Given, jvpmaker: Maker) -> None:
    """Give a primitive one rule for all arguments: ``jvpmaker(argnums, gs, ans, args, kwargs)``
    returns the tangent.
    """

    def one(argnum: int) -> Maker:
        def of_one(g: Values, ans: Values, *args: Values, **kwargs: Values) -> Any:
            return jvpmaker((argnum,), (g,), ans, args, kwargs)

        return of_one

    _own(fun, "defjvp_argnums").jvps = one


def defjvp_argnum(fun: Given, jvpmaker: Maker) -> None:
    """Give a primitive one rule for each argument: ``jvpmaker(argnum, g, ans, args, kwargs)``
    returns the tangent.
    """

    def one(argnum: int) -> Maker:
        def of_one(g: Values, ans: Values, *args: Values, **kwargs: Values) -> Any:
            return jvpmaker(argnum, g, ans, args, kwargs)

        return of_one

    _own(fun, "defjvp_argnum").jvps = one


def def_linear(fun: Given) -> None:
    """Declare a primitive linear in each argument."""
    owner = _own(fun, "def_linear")
    owner.jvps = lambda argnum: _same(owner, argnum)


# -- autograd's graph, which does not exist here ---------------------------------------------------


class _Absent:
    """A class of autograd's without counterpart: importing it works, using it raises."""

    def __init__(self, *_: object) -> None:
        raise UnsupportedFunctionError(
            f"autograd's {type(self).__name__} has no counterpart: functrace records programs, not "
            "a graph of nodes",
            fix="write the rule with arrays; functrace.trace(f)(x) is the program of a function",
        )


class SparseObject(_Absent):
    """A sparse gradient: return a dense array instead."""


class JVPNode(_Absent):
    """A node of autograd's forward mode."""


class VJPNode(_Absent):
    """A node of autograd's reverse mode."""


def register_notrace(trace_type: object, primitive_fun: object) -> NoReturn:
    """Raise: use `notrace_primitive` for functions without derivative.

    Raises:
        UnsupportedFunctionError: always.
    """
    raise UnsupportedFunctionError(
        "register_notrace has no counterpart", fix="make the function with notrace_primitive"
    )
