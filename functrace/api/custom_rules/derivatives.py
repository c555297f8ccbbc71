"""Functions with their own derivative: ``custom_vjp`` and ``custom_jvp``.

Function and rules are recorded together, at every call on traced values, and become one operation
of the enclosing program. On plain arrays only the function is called. So a rule never depends on
outdated Python state, recorded rules can be printed and compared, and every transform applies.

Layer: 8.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, final, overload

import numpy as np

from functrace.api.capture.arguments import ARRAYS, check_argnums, function_name, is_pair
from functrace.api.capture.record import Operands, StagedFunction, stage
from functrace.api.capture.results import guard_results, whole_result
from functrace.api.capture.transformed import SignatureOfWrapped
from functrace.api.custom_rules.recursion import (
    RecordedRule,
    RecursiveRule,
    rules_inside,
    with_avals,
    with_constants,
)
from functrace.api.custom_rules.rules import (
    CustomVJPPrimal,
    SymbolicZero,
    record_jvp,
    record_vjp,
    with_captured,
)
from functrace.api.differentiation.tangents import is_float0
from functrace.control.custom import (
    Rule,
    SymbolicZerosRule,
    custom_derivative_program,
    custom_jvp_program,
    custom_vjp_program,
)
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError, entry
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import with_inputs
from functrace.ir.program import Program
from functrace.keys import static_key
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.ops.shaping import convert
from functrace.tracing.binding import is_recording
from functrace.tracing.tracer import Tracer, as_array
from functrace.transforms import is_differentiable
from functrace.tree import flatten, leaves_or_none, paths, tree_key, unflatten
from functrace.tree.describing import difference
from functrace.typing import P, PyTree, R

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

Q = ParamSpec("Q")


class Custom(Generic[P, R]):
    """Common base of `custom_vjp` and `custom_jvp`: binds arguments, and separates those without
    derivative.
    """

    __signature__ = SignatureOfWrapped()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        raise NotImplementedError

    def __init__(
        self,
        f: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        self.f: Callable[..., Any] = f
        self.name = function_name(f)
        numbers = check_argnums(nondiff_argnums, type(self).__name__, "nondiff_argnums")
        self.nondiff_argnums = (*numbers, *_places(f, self.name, nondiff_argnames))
        self.symbolic_zeros = False
        functools.update_wrapper(self, f, updated=())  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<functrace {type(self).__name__}({self.name})>"

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Custom[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Callable[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind as a method."""
        return self if instance is None else functools.partial(self, instance)  # type: ignore[arg-type]

    def positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments by position, with defaults: rules take positional arguments only."""
        return positional(self.f, self.name, args, kwargs)

    def split(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the arguments without derivative, and the others.

        Raises:
            ArgumentError: if one without derivative is traced.
        """
        for k in self.nondiff_argnums:
            if not -len(args) <= k < len(args):
                raise ArgumentError(
                    f"{self.name}: nondiff_argnums={self.nondiff_argnums}, but it has {len(args)} "
                    "arguments",
                    fix="name positions of its parameters",
                )
        chosen = {k % len(args) for k in self.nondiff_argnums}
        fixed = [args[k] for k in sorted(chosen)]
        for leaf in flatten(fixed)[0]:
            if isinstance(leaf, Tracer):
                raise ArgumentError(
                    f"{self.name}: an argument in nondiff_argnums is traced",
                    fix="remove it from nondiff_argnums",
                )
        return fixed, tuple([a for k, a in enumerate(args) if k not in chosen])

    def plain_result(self, args: tuple[Any, ...]) -> tuple[bool, Any]:
        """Call the function on plain arguments; return whether nothing was traced, and the
        result."""
        if any(isinstance(leaf, Tracer) for leaf in flatten(args)[0]):
            return False, None
        if not is_recording():
            return True, self.f(*args)
        run = self.staged(lambda: self.f(*args), Operands((), {}), computed_only=True)
        if any(
            isinstance(x, Tracer) for x in (*run.captured, *[origin.root for origin in run.origins])
        ):
            return False, None
        return True, unflatten(run.out_tree, whole_result(run.origins, (), (), self.name))

    def staged(
        self, f: Callable[..., Any], operands: Operands, *, computed_only: bool = False
    ) -> StagedFunction:
        """Record the function itself."""
        owner = f"{type(self).__name__} {self.name}"
        return stage(f, operands, owner, self.name, computed_only=computed_only)

    def made(
        self,
        rules: tuple[object, ...],
        fixed: Sequence[Any],
        operands: Operands,
        run: StagedFunction,
        record: Callable[[Operands], RecordedRule],
    ) -> RecordedRule:
        """Record the rules of a call, unless they are being recorded: see
        `functrace.api.custom_rules.recursion`.

        Args:
            rules: the user's functions, one per program.
            fixed: arguments without derivative.
            operands: of the call.
            run: the recorded function.
            record: records the rules on operands.
        """
        chosen = set(operands.places)
        static = tuple(
            [
                static_key(x)
                for x in (*fixed, *[x for k, x in enumerate(operands.leaves) if k not in chosen])
            ]
        )
        results = tree_key(run.out_tree), tuple(run.out_avals)
        key = rules, tree_key(operands.tree), tuple(operands.avals), static, *results
        explicit = len(operands.avals)
        still = operands.without_values()
        if self.symbolic_zeros:
            return self._symbolic(len(rules), operands, run, record)

        def recorded(with_values: bool) -> RecordedRule:
            return record(operands if with_values else still)

        between = tuple(map(aval_of, run.captured))
        deferred = rules_inside(self, key, explicit, between, len(rules), lambda: record(still))
        if deferred is not None:
            return RecordedRule(deferred, [], False)
        made = RecursiveRule(self, key, explicit, recorded).recorded()
        return made._replace(programs=with_avals(made.programs, explicit, between))

    def _symbolic(
        self,
        count: int,
        operands: Operands,
        run: StagedFunction,
        record: Callable[[Operands], RecordedRule],
    ) -> RecordedRule:
        """Return placeholders for rules that receive symbolic zeros."""
        explicit, between = len(operands.avals), tuple(map(aval_of, run.captured))
        still = operands.without_values()

        def recorded(active: tuple[bool, ...]) -> tuple[Rule, ...]:
            still.active = active
            made = record(still)
            if any(isinstance(value, Tracer) for value in made.captured):
                raise ArgumentError(
                    f"a rule of {self.name} has symbolic_zeros=True and closes over a traced "
                    "value, or over a Python number "
                    "among the arguments of jit",
                    fix="pass the value as an argument, and the number as an array",
                )
            programs = [
                with_constants(p, explicit, made.captured)
                if k != 1 and isinstance(p, Program)
                else p
                for k, p in enumerate(made.programs)
            ]
            return with_avals(tuple(programs), explicit, between)

        return RecordedRule((SymbolicZerosRule(recorded),) * count, [], False)

    def whole(self, fixed: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """Merge both kinds of arguments in order."""
        total = len(fixed) + len(others)
        chosen = sorted(k % total for k in self.nondiff_argnums)
        args = list(others)
        for k, value in zip(chosen, fixed, strict=True):
            args.insert(k, value)
        return args


@final
class custom_vjp(Custom[P, R]):
    """Give a function its own reverse-mode derivative.

    Set the rules with ``defvjp(fwd, bwd)``: ``fwd(*args)`` returns ``(result, residuals)``;
    ``bwd(*nondiff, residuals, cotangent)`` returns a tuple with one cotangent per other argument,
    with ``None`` for zero. Forward mode is the transpose of ``bwd``, or a rule of its own, set with
    ``defjvp(rule)``, where ``rule(*nondiff, primals, tangents)`` returns ``(result, tangent)``.

    Args:
        f: the function.
        nondiff_argnums: positions of arguments that are not arrays. They are passed to the rules
            unchanged.
        nondiff_argnames: names of such arguments.

    Raises:
        ArgumentError: if it is called on traced values before ``defvjp``; if an argument in
            ``nondiff_argnums`` is traced.
        TreeError, ShapeError, DtypeError: when it is differentiated, if a rule returns another
            structure, shape or dtype than the function has.

    Example:
        >>> import numpy as np, functrace as ft
        >>> @ft.custom_vjp
        ... def clipped(x):
        ...     return x * 1.0
        >>> clipped.defvjp(lambda x: (clipped(x), None), lambda _, y_bar: (np.clip(y_bar, -1.0, 1.0),))
        >>> ft.grad(lambda x: 5.0 * clipped(x))(2.0)
        np.float64(1.0)

    Source:
        ``jax.custom_vjp``.
    """

    def __init__(
        self,
        f: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        super().__init__(f, nondiff_argnums, nondiff_argnames)
        self.rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self.rule: Callable[..., Any] | None = None

    def defvjp(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False
    ) -> None:
        """Set the rules.

        Args:
            fwd: from the arguments to the result and residuals.
            bwd: from residuals and the result's cotangent to the arguments' cotangents.
            symbolic_zeros: True to pass ``fwd`` a `functrace.custom_derivatives.CustomVJPPrimal`
                for each leaf, which says whether its derivative is needed, and ``bwd`` a
                `functrace.custom_derivatives.SymbolicZero` for cotangents of results without
                derivative. Such rules are recorded when the function is differentiated, and may not
                close over traced values.
        """
        self.rules = (fwd, bwd)
        self.symbolic_zeros = symbolic_zeros

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set a rule for forward mode, and return it, so that this is a decorator.

        Args:
            rule: ``rule(*nondiff, primals, tangents)`` returns ``(result, tangent)``, linear in the
                tangents.
        """
        self.rule = rule
        return rule

    @entry
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; on traced values, with its rules."""
        given = self.positional(args, kwargs)
        is_plain, result = self.plain_result(given)
        if is_plain:
            return result
        if self.rules is None:
            raise ArgumentError(
                f"custom_vjp: {self.name} has no rules yet",
                fix=f"call {self.name}.defvjp(fwd, bwd)",
            )
        fwd, bwd = self.rules
        fixed, others = self.split(given)
        operands = Operands(others, {})
        run = self.staged(lambda *xs: self.f(*self.whole(fixed, xs)), operands)

        def forward(*xs: object) -> tuple[Any, Any]:
            result = fwd(
                *self.whole(fixed, _primals(xs, operands, active) if self.symbolic_zeros else xs)
            )
            if not is_pair(result):
                raise TreeError(
                    f"fwd of {self.name} returned a {type(result).__name__}, not a pair",
                    fix="return result, residuals",
                )
            check_like(
                result[0],
                run.out_tree,
                run.out_avals,
                f"the result of fwd of {self.name}",
                self.name,
            )
            return result

        def backward(residuals: object, cotangent: PyTree) -> Any:
            if self.symbolic_zeros:
                pairs = zip(flatten(cotangent)[0], run.out_avals, strict=True)
                known = [
                    ct if is_differentiable(aval) else SymbolicZero(aval) for ct, aval in pairs
                ]
                cotangent = unflatten(run.out_tree, known)
            return _check_cotangents(bwd(*fixed, residuals, cotangent), others, self.name)

        active: tuple[bool, ...] = ()

        def record(on: Operands) -> RecordedRule:
            nonlocal active
            active = on.active
            rule = record_vjp(forward, backward, on, self.name)
            kept = (
                len(rule.forward.output_ids) - len(run.out_avals)
                if isinstance(rule.forward, Program)
                else 0
            )
            if self.rule is None:
                return RecordedRule(
                    (rule.forward, rule.backward), rule.captured, rule.reads_values, kept
                )
            (push,), captured, reads_values, _ = _recorded_jvp(self.rule, self.name, fixed, on, run)
            whole = rule.forward
            if isinstance(whole, Program):
                whole = with_inputs(whole, len(on.avals), (), captured)
            push = with_captured(push, len(on.avals), rule.captured)
            return RecordedRule(
                (whole, rule.backward, push),
                [*rule.captured, *captured],
                rule.reads_values or reads_values,
                kept,
            )

        rules = self.rules if self.rule is None else (*self.rules, self.rule)
        rule = self.made(rules, fixed, operands, run, record)
        explicit = len(operands.values)
        program = with_inputs(run.program, explicit, (), rule.captured)
        values = [*operands.forwarded(), *run.captured, *rule.captured]
        apply: Callable[..., list[Any]] = (
            custom_vjp_program if self.rule is None else custom_derivative_program
        )
        results = apply(program, *rule.programs, values, explicit)
        guard_results(results, run.origins, operands.given, self.name)
        return unflatten(run.out_tree, results)


def positional(
    f: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of a call by position, with defaults.

    Raises:
        ArgumentError: if the call passes a keyword-only argument.
    """
    if isinstance(f, np.ufunc) and not kwargs:
        return args  # without out and where
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except ValueError:  # a builtin without signature
        return args
    if bound.kwargs:
        raise ArgumentError(
            f"{name}: keyword-only arguments {list(bound.kwargs)} cannot be passed to its rules",
            fix="take them by position",
        )
    bound.apply_defaults()
    return bound.args


def _places(f: Callable[..., Any], name: str, names: str | Sequence[str]) -> list[int]:
    """Return the positions of parameters, by name."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        return []
    known = [
        p.name
        for p in inspect.signature(f).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    missing = [word for word in wanted if word not in known]
    if missing:
        raise ArgumentError(
            f"{name}: nondiff_argnames={names!r}, but it has no parameter {', '.join(missing)}",
            fix=f"name one of {known}",
        )
    return [known.index(word) for word in wanted]


def _is_symbolic(leaf: object) -> bool:
    return isinstance(leaf, SymbolicZero)


def _zeros(aval: ShapeDtype) -> Any:
    return np.zeros(aval.shape, aval.dtype)[()]


def _primals(args: Sequence[Any], operands: Operands, active: Sequence[bool]) -> tuple[Any, ...]:
    """Wrap the leaves of arguments, with the flag whether they are differentiated."""
    leaves, tree = flatten(args)
    known = dict(zip(operands.places, active, strict=True))
    differentiable = dict(zip(operands.places, map(is_differentiable, operands.avals), strict=True))
    made = [
        CustomVJPPrimal(x, known.get(k, False) and differentiable[k]) for k, x in enumerate(leaves)
    ]
    return unflatten(tree, made)


def _check_cotangents(found: PyTree, args: tuple[Any, ...], name: str) -> list[Any]:
    """Check the result of ``bwd`` against the arguments; return a cotangent or ``None`` per
    operand."""
    what = f"bwd of {name}"
    given: object = found
    if not isinstance(given, tuple | list) or len(found) != len(args):
        shown = (
            f"{len(found)} values"
            if isinstance(given, tuple | list)
            else f"a {type(found).__name__}"
        )
        raise TreeError(
            f"{what} returned {shown}, but {name} takes {len(args)} arguments",
            fix="return a tuple with one cotangent per argument, None for zero",
        )
    flat: list[Any] = []
    for place, (ct, arg) in enumerate(zip(found, args, strict=True)):
        leaves, tree = flatten(arg)
        is_operand = [
            type(leaf) is not TracedNumber and isinstance(leaf, ARRAYS) for leaf in leaves
        ]
        if ct is None:
            flat += [None] * sum(is_operand)
            continue
        avals = [
            aval_of(leaf) if flag else None for leaf, flag in zip(leaves, is_operand, strict=True)
        ]
        values = check_like(
            ct, tree, avals, f"cotangent {place} of {what}", f"argument {place}", partial=True
        )
        flat += [v for v, flag in zip(values, is_operand, strict=True) if flag]
    return flat


def check_like(
    tree: PyTree,
    treedef: PyTreeSpec,
    avals: Sequence[ShapeDtype | None],
    what: str,
    of: str,
    *,
    partial: bool = False,
) -> list[Any]:
    """Flatten and check the result of a rule; return the leaves, cast to the expected dtypes where
    that is safe.

    Args:
        tree: the result.
        treedef, avals: the expected structure and avals.
        what, of: for messages.
        partial: whether to accept ``None`` for subtrees, JAX's zeros of float0 and `SymbolicZero`
            as zeros, and return them as ``None``.

    Raises:
        TreeError, ShapeError, DtypeError: naming the leaf.
    """
    leaves, found = flatten(tree)
    if found != treedef:
        try:
            leaves = leaves_or_none(treedef, tree, what, of) if partial else None
        except TreeError:
            leaves = None
        if leaves is None:
            path, returned, expected = difference(found, treedef)
            place = f" at {path}" if path else ""
            fix = "return a pytree with the same structure"
            raise TreeError(
                f"{what} has the structure of {returned}{place}, but {of} that of {expected}",
                fix=fix,
            )
    values: list[Any] = []
    for path, leaf, aval in zip(paths(treedef), leaves, avals, strict=True):
        if partial and (leaf is None or _is_symbolic(leaf) or is_float0(leaf)):
            values.append(None)
            continue
        value = leaf if isinstance(leaf, Tracer) else as_array(leaf)
        given = aval_of(value)
        if aval is not None and given is not aval and is_differentiable(aval):
            if given.shape != aval.shape:
                raise ShapeError(
                    f"{what}{path} is {given}, but {of}{path} is {aval}",
                    fix=f"return shape {aval.shape}",
                )
            if not np.can_cast(given.dtype, aval.dtype, "same_kind"):
                raise DtypeError(
                    f"{what}{path} is {given}, but {of}{path} is {aval}", fix=f"return {aval.dtype}"
                )
            value = convert(value, aval.dtype)
        values.append(value)
    return values


# -- custom_jvp ------------------------------------------------------------------------------------


@final
class custom_jvp(Custom[P, R]):
    """Give a function its own forward-mode derivative; reverse mode is its transpose.

    Set the rule with ``defjvp(rule)``: ``rule(*nondiff, primals, tangents)`` returns ``(result,
    tangent)``, linear in the tangents; or with ``defjvps(*rules)``, one per argument:
    ``rule(tangent, result, *args)`` or ``None``.

    Args:
        f: the function.
        nondiff_argnums: positions of arguments that are not arrays. They are passed to the rule
            unchanged.
        nondiff_argnames: names of such arguments.

    Raises:
        ArgumentError: if it is called on traced values before ``defjvp``; if an argument in
            ``nondiff_argnums`` is traced.
        TreeError, ShapeError, DtypeError: when it is differentiated, if the rule returns another
            structure, shape or dtype than the function has.

    Example:
        >>> import numpy as np, functrace as ft
        >>> @ft.custom_jvp
        ... def log1pexp(x):
        ...     return np.log1p(np.exp(x))
        >>> log1pexp.defjvps(lambda x_dot, y, x: (1.0 - 1.0 / (1.0 + np.exp(x))) * x_dot)
        >>> with np.errstate(over="ignore"):
        ...     ft.grad(log1pexp)(1000.0)
        np.float64(1.0)

    Source:
        ``jax.custom_jvp``.
    """

    def __init__(
        self,
        f: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        super().__init__(f, nondiff_argnums, nondiff_argnames)
        self.rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule, and return it, so that this is a decorator.

        Args:
            rule: from primals and tangents to the result and its tangent.
            symbolic_zeros: True to pass a `functrace.custom_derivatives.SymbolicZero` for each
                tangent that is known to be zero; the rule may return some. It is recorded when the
                function is differentiated, and may not close over traced values.
        """
        self.rule = rule
        self.symbolic_zeros = symbolic_zeros
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set one rule per argument, each linear in its tangent.

        Args:
            rules: ``rule(tangent, result, *args)`` returns the tangent of the result; ``None`` for
                arguments without derivative.

        Raises:
            ArgumentError: for a function with ``nondiff_argnums``; when it is differentiated, if
                there is not one rule per argument.
        """
        if self.nondiff_argnums:
            raise ArgumentError(
                f"defjvps of {self.name} does not go with nondiff_argnums", fix="use defjvp"
            )

        function: Callable[..., Any] = self.__call__

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            if len(rules) != len(primals):
                raise ArgumentError(
                    f"defjvps of {self.name}: {len(rules)} rules for {len(primals)} arguments",
                    fix="give one each",
                )
            result = function(*primals)
            total: Any = None
            for one, tangent in zip(rules, tangents, strict=True):
                if one is not None:
                    term = one(tangent, result, *primals)
                    total = term if total is None else total + term
            return result, np.zeros_like(result) if total is None else total

        self.rule = rule

    @entry
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; on traced values, with its rule."""
        given = self.positional(args, kwargs)
        is_plain, result = self.plain_result(given)
        if is_plain:
            return result
        if self.rule is None:
            raise ArgumentError(
                f"custom_jvp: {self.name} has no rule yet", fix=f"call {self.name}.defjvp(rule)"
            )
        fixed, others = self.split(given)
        operands = Operands(others, {})
        run = self.staged(lambda *xs: self.f(*self.whole(fixed, xs)), operands)
        function = self.rule
        rule = self.made(
            (function,),
            fixed,
            operands,
            run,
            lambda on: _recorded_jvp(function, self.name, fixed, on, run),
        )
        explicit = len(operands.values)
        program = with_inputs(run.program, explicit, (), rule.captured)
        results = custom_jvp_program(
            program,
            rule.programs[0],
            [*operands.forwarded(), *run.captured, *rule.captured],
            explicit,
        )
        guard_results(results, run.origins, operands.given, self.name)
        return unflatten(run.out_tree, results)


def _recorded_jvp(
    function: Callable[..., Any],
    name: str,
    fixed: list[Any],
    operands: Operands,
    run: StagedFunction,
) -> RecordedRule:
    """Record a jvp rule."""
    what = f"the jvp rule of {name}"

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        result = function(*fixed, primals, tangents)
        if not is_pair(result):
            raise TreeError(
                f"{what} returned a {type(result).__name__}, not a pair",
                fix="return result, tangent",
            )
        return (
            check_like(result[0], run.out_tree, run.out_avals, f"the result of {what}", name),
            [
                _zeros(aval) if t is None else t
                for t, aval in zip(tangents_of(result[1]), run.out_avals, strict=True)
            ],
        )

    def tangents_of(found: PyTree) -> list[Any]:
        return check_like(
            found, run.out_tree, run.out_avals, f"the tangent of {what}", name, partial=True
        )

    made = record_jvp(rule, operands, name, run.out_avals, operands.active or None)
    return RecordedRule((made.program,), made.captured, made.reads_values)
