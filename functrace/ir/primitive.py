"""Primitives: the operations of equations, with all rules of each in one frozen record.

A primitive has five required rules, always in this order:

* ``eval(*values, *params)`` computes the result from NumPy arrays (a tuple, if there are several
  results).
* ``aval(*operands, *params)`` predicts the avals of the results. An operand is an aval or, for a
  Python number, its type; returns one `ShapeDtype` or a tuple.
* ``jvp(primals, outputs, tangents, *params)`` returns the tangents of the outputs. Tangents of
  inactive operands are ``None``, and the rule is not called if all of them are. `LINEAR` stands for
  "the same primitive on the tangent", `ZERO` for "no derivative: the output is piecewise constant".
  A primitive with sub-programs has a `ReplacingJvp` rule.
* ``transpose(cotangent, *operands, *params)`` returns one cotangent (or ``None``) per operand.
Linear operands
  are passed as `LinearOperand`, the others as values.
* ``batch(operands, is_batched, *params)`` applies the primitive to operands of which some have one
  more axis, at position 0; all results have the batch axis at 0 (but see ``mapped``).

A rule that cannot exist is declared with `absent`; leaving one out is an error at import.
Parameters are static, hashable and positional: ``params`` names them, every rule takes them last.

Layer: 0.
"""

from __future__ import annotations

import importlib
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, TypeAlias, final

import numpy as np

from functrace.caches import shared
from functrace.errors import NotDifferentiableError, ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.typing import Array

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.program import Program
    from functrace.ir.structures import Lowering
    from functrace.ir.tape import Spec
    from functrace.typing import Field, Function, Function2

Rule = Callable[..., Any]
Values: TypeAlias = tuple[Array, ...]
"""Operands or results passed to a rule: arrays, or traced values."""
Tangents: TypeAlias = tuple[Array | None, ...]
"""Tangents of the operands passed to a jvp rule: ``None`` for an inactive operand."""
Flags: TypeAlias = tuple[bool, ...]
"""Which operands have a batch axis."""
RuleArgument: TypeAlias = Any
"""An argument of a rule: an operand, or a static parameter."""
Params: TypeAlias = tuple[Any, ...]
"""Static parameters of an operation: hashable; each primitive defines its own."""

if TYPE_CHECKING:
    # The params come last; each primitive defines its own.
    AvalRule = Callable[..., ShapeDtype | tuple[ShapeDtype, ...]]
    JvpRule = Callable[Concatenate[Values, Values, Any, ...], Any]
    Jvps = (
        Callable[[Values, Values, Any], Any]
        | Callable[[Values, Values, Any, Any], Any]
        | Callable[[Values, Values, Any, Any, Any], Any]
        | Callable[[Values, Values, Any, Any, Any, Any], Any]
        | Callable[[Values, Values, Any, Any, Any, Any, Any], Any]
        | Callable[[Values, Values, Any, Any, Any, Any, Any, Any], Any]
        | Callable[[Values, Values, Any, Any, Any, Any, Any, Any, Any], Any]
        | Callable[[Values, Values, Any, Any, Any, Any, Any, Any, Any, Any], Any]
        | Callable[[Values, Values, Any, Any, Any, Any, Any, Any, Any, Any, Any], Any]
    )
    JointRule = Callable[Concatenate[Values, Tangents, ...], Any]
    TransposeRule = Callable[Concatenate[Any, ...], Any]
    OntoRule = Callable[Concatenate[Any, Sequence[Array | None] | None, ...], Any]
    BatchRule = Callable[Concatenate[Values, Flags, ...], Any]
    Written = Callable[Concatenate[SourceWriter, Sequence[Spec], ...], Spelling]
    Runs = Sequence[Sequence[tuple[int, Program]]]

WRITTEN_AS = "functrace_written_as"
"""Attribute of an eval function: a simpler function that replaces it in generated source."""


@final
@dataclass(frozen=True, slots=True)
class NoRule:
    """A rule that cannot exist; calling it raises with the declared reason and fix."""

    because: str
    instead: str

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        """Raise with the declared reason."""
        raise NotDifferentiableError(self.because, fix=self.instead)


def absent(*, because: str, instead: str) -> NoRule:
    """Declare that a rule of a primitive cannot exist.

    Args:
        because: the reason; a clause with the function's public name as its subject.
        instead: the fix, as an instruction.

    Returns:
        a marker to put in place of the rule. Using the rule raises `NotDifferentiableError` with
        both texts.

    Example:
        >>> import functrace as ft
        >>> ft.ir.absent(because="rounding has no derivative", instead="use functrace.stop_gradient").because
        'rounding has no derivative'
    """
    return NoRule(because, instead)


@final
@dataclass(frozen=True, slots=True)
class RuleMarker:
    """A rule that the transform implements (`LINEAR`, `ZERO`)."""

    word: str

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        """Raise: a marker is not a function."""
        raise AssertionError(f"the marker {self.word} is read, never called")


LINEAR = RuleMarker("LINEAR")
"""jvp rule of a primitive that is linear in the operand that carries derivatives."""

ZERO = RuleMarker("ZERO")
"""jvp rule of a primitive whose output is piecewise constant (``floor``, ``sign``, comparisons)."""


@final
@dataclass(frozen=True, slots=True)
class ReplacingJvp:
    """jvp rule of a primitive with sub-programs: new operations replace it in the derivative.

    Both functions are called as ``(primals, tangents, *params)``, with ``None`` for inactive
    tangents. They return the outputs, and the tangents of the outputs (or ``None``).

    Args:
        jvp: computes both together, on one tape.
        linearize: computes outputs from primals only, and tangents by an operation that is linear
            in them; the values passed from one to the other are residuals.
    """

    jvp: JointRule
    linearize: JointRule

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        """Raise: the transform calls one of the two functions."""
        raise AssertionError("a joint rule is read, never called")


@final
@dataclass(frozen=True, slots=True)
class AccumulatingTranspose:
    """transpose rule of a primitive with sub-programs: it adds to the existing cotangents.

    So cotangents are summed in the same order as without the primitive around the operations, with
    the same rounding.

    Args:
        rule: called as ``(cotangents, before, *operands, *params)``; ``before`` has a cotangent or
            ``None`` per operand, which the cotangent returned for a linear operand must include.
        merged: called as ``merged(operands, *params)``, with variables; returns operands without
            repeats, and the params for them. Without it, the cotangents of a repeated operand are
            summed by the walk.
    """

    rule: OntoRule
    merged: Callable[..., tuple[tuple[int, ...], Any]] | None = None

    def __call__(self, cts: Array | Tangents, *rest: Any) -> Any:
        """Transpose without existing cotangents."""
        return self.rule(cts, None, *rest)


@final
@dataclass(frozen=True, slots=True)
class SubPrograms:
    """Description of a primitive's sub-programs, for all code that walks programs.

    All functions get the params last. Sub-programs are params, or elements of tuples in params.

    Args:
        runs: called as ``runs(inputs, *params)``, with the avals of the operands; returns the
            alternatives of one run, of which the most expensive one counts. Each is a tuple of
            programs with their numbers of runs.
        called_program: called as ``called_program(*params)``; returns the program that may be
            inlined in place of the operation.
        kept: called as ``kept(read, *params)``, with the positions of the live results; returns the
            results that the operation must still have if the others are dropped from its
            sub-programs. Without it, all are kept.
        feeds: called as ``feeds(place, *params)``; returns the sub-program inputs that the operand
            at a position feeds.
        gives: called as ``gives(place, *params)``, for listings; returns the sub-program output in
            the result at a position, if it is that of many runs, with names for the program's
            inputs and for each of the runs.
        keeps: called as ``keeps(*params)``, for listings; returns the values that each step saves
            for later ones, as a program, the position of its output, names for the program's
            inputs, and the programs that read it, with the input's position.
        depends: called as ``depends(flags, *params)``, with one flag per operand; returns which
            results depend on a flagged one. Without it, all do.
        moving: called likewise; returns the sub-programs that run, each with one flag per input:
            True if it depends on a flagged operand at any step. Without it, the dependence is left
            to the jvp rule.
        lowers: called as ``lowers(specs, *params)``, with the arguments of ``aval``; returns a
            `functrace.ir.structures.Lowering`. Without it, the eval rule runs.
    """

    runs: Callable[Concatenate[Sequence[Spec], ...], Runs]
    called_program: Callable[..., Program] | None = None
    kept: Callable[Concatenate[Set[int], ...], list[int]] | None = None
    feeds: Callable[Concatenate[int, ...], Sequence[tuple[Program, int]]] | None = None
    gives: (
        Callable[Concatenate[int, ...], tuple[Program, int, Sequence[str], str] | None] | None
    ) = None
    keeps: (
        Callable[..., Sequence[tuple[Program, int, Sequence[str], Sequence[tuple[Program, int]]]]]
        | None
    ) = None
    depends: Callable[Concatenate[Sequence[bool], ...], Sequence[bool]] | None = None
    moving: (
        Callable[Concatenate[Sequence[bool], ...], Sequence[tuple[Program, Sequence[bool]]]] | None
    ) = None
    lowers: Callable[Concatenate[Sequence[Spec], ...], Lowering] | None = None


@final
class LinearOperand:
    """Placeholder for a linear operand of a transpose rule, which must return its cotangent.

    Args:
        aval: shape and dtype of the operand.

    Example:
        >>> import functrace as ft
        >>> operand = ft.ir.LinearOperand(ft.ShapeDtype((3,)))
        >>> operand.shape, ft.ir.is_linear(operand)
        ((3,), True)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapeDtype) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the operand."""
        return self.aval.shape


Operand: TypeAlias = Array | LinearOperand
"""Operand passed to a transpose rule."""


def is_linear(operand: object) -> TypeIs[LinearOperand]:
    """Return True if a transpose rule must return a cotangent for an operand.

    Args:
        operand: an operand of a transpose rule.

    Returns:
        True if it is a `LinearOperand`.

    Example:
        >>> import functrace as ft
        >>> is_linear(ft.ir.LinearOperand(ft.ShapeDtype((3,)))), is_linear(2.0)
        (True, False)
    """
    return type(operand) is LinearOperand


def always(*_specs_and_params: object) -> bool:
    """Return True: the ``fails`` rule of a primitive whose ``eval`` may raise on any values."""
    return True


if TYPE_CHECKING:
    NotCalledJvp = RuleMarker | ReplacingJvp | NoRule


@shared
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Primitive:
    """A primitive and its rules; the docstring of the module describes the arguments of each rule.

    Args:
        name: name in listings.
        eval: computes the result from plain values.
        aval: computes shapes and dtypes of the results.
        jvp: the derivative: tangents of the result from primals and tangents.
        transpose: cotangents of linear operands from the cotangent of the result.
        batch: applies the primitive to operands with a batch axis.
        params: names of the static parameters, in order.
        many: True if the primitive has a tuple of results; ``eval`` and `bind` then return a tuple.
        view: True if ``eval`` may return a view of its first operand.
        writable: True if such a view of a writable array is writable.
        fresh: called with the aval of the result; returns True if ``eval`` allocates its result, in
            C order.
        flops: called as ``flops(inputs, outputs, params)``, with avals and the params by name;
            returns the number of floating-point operations, by the conventions of
            `functrace.ir.cost`. By default one per element of the result.
        written: its spelling in NumPy source, e.g. ``"np.sum({0}, axis={axes})"``; by default a
            call of ``eval`` (a NumPy function by its name, another one with its source). For a
            primitive with sub-programs, a function from `functrace.ir.numpy_source.Spelling` to
            source.
        effects: True if ``eval`` calls the user's code, so that it may not be carried out before
            the program runs.
        kept: called with the params; returns True if the operation runs once in every run, in
            order, though its results are unused.
        fails: called with the arguments of ``aval``; returns True if ``eval`` may raise on values
            of valid operands (`always`). Such an operation is evaluated when it is recorded on
            concrete values, so that it raises in the user's line.
        check: raises as ``eval`` would, where few operands decide that; called as ``check(value,
            *specs, *params)``. ``value(place)`` is the value of an operand, or ``None`` where it is
            abstract.
        holds: for a primitive with sub-programs among its params, the description of them.
        by_rule: True if its ``jvp`` computes the results in another way than ``eval``, with other
            derivatives.
        mapped: called as ``mapped(is_batched, *params)``; returns which of several results
            ``batch`` gives a batch axis, all of them by default. A sub-program computes values that
            are the same for all examples once.
        blind: True if the jvp rule never reads the value of a Python number among the operands, but
            forwards it; see Note [Numbers that rules look at] in transforms/templates.py.
        warns: name in warnings, if it is not ``name``.
        scratch: memory that ``eval`` needs besides operands and results: as a multiple of its
            (first) result, or called as ``scratch(inputs, outputs, params)`` like ``flops``, which
            returns bytes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.tracing.binding import bind
        >>> double_p = ft.ir.Primitive(
        ...     "double",
        ...     eval=lambda x: 2.0 * x,
        ...     aval=lambda x: x,
        ...     jvp=ft.ir.LINEAR,
        ...     transpose=lambda ct, x: [bind(double_p, (ct,), ())],
        ...     batch=lambda operands, flags: bind(double_p, operands, ()),
        ... )
        >>> ft.grad(lambda x: np.sum(bind(double_p, (x,), ())))(np.ones(2))
        array([2., 2.])
    """

    name: str
    eval: Field[Rule, Function[Any]]
    aval: Field[AvalRule, Function[ShapeDtype | tuple[ShapeDtype, ...]]]
    jvp: Field[JvpRule | NotCalledJvp, Jvps | NotCalledJvp]
    transpose: Field[
        TransposeRule | AccumulatingTranspose | NoRule,
        Function[Any] | AccumulatingTranspose | NoRule,
    ]
    batch: Field[BatchRule | NoRule, Function2[Values, Flags, Any] | NoRule]
    params: tuple[str, ...] = ()
    many: bool = False
    view: bool = False
    writable: bool = False
    fresh: Callable[[ShapeDtype], bool] | None = None
    flops: (
        Callable[[tuple[ShapeDtype, ...], tuple[ShapeDtype, ...], Mapping[str, Any]], float] | None
    ) = None
    written: str | Written | None = None
    effects: bool = False
    kept: Callable[..., bool] | None = None
    fails: Callable[..., bool] | None = None
    check: Callable[Concatenate[Callable[[int], Any], ...], None] | None = None
    holds: SubPrograms | None = None
    by_rule: bool = False
    mapped: Callable[Concatenate[Sequence[bool], ...], Sequence[bool]] | None = None
    scratch: (
        float | Callable[[tuple[ShapeDtype, ...], tuple[ShapeDtype, ...], Mapping[str, Any]], float]
    ) = 0.0
    blind: bool = False
    warns: str | None = None

    def __repr__(self) -> str:
        return self.name

    def work_bytes(
        self, specs: Sequence[Spec], outputs: Sequence[ShapeDtype], params: Params
    ) -> int:
        """Return the bytes that ``eval`` needs besides operands and results; see ``scratch``.

        Args:
            specs: avals of the operands, or types of numbers.
            outputs: avals of the results.
            params: static parameters.
        """
        scratch = self.scratch
        if not callable(scratch):
            return int(scratch * outputs[0].nbytes)
        inputs = tuple([s if isinstance(s, ShapeDtype) else ShapeDtype((), s) for s in specs])
        return int(scratch(inputs, tuple(outputs), dict(zip(self.params, params, strict=False))))

    @property
    def is_ufunc(self) -> bool:
        """True if ``eval`` is an elementwise NumPy ufunc, which takes its target as a last
        argument.
        """
        return isinstance(self.eval, np.ufunc) and self.eval.signature is None

    def __copy__(self) -> Primitive:
        return self

    def __deepcopy__(self, _memo: object) -> Primitive:
        return self

    def __reduce__(self) -> Any:
        """Pickle by reference: as a module-level name in the module that defines its rules.

        Raises:
            ProgramError: if it has no such name.
        """
        for rule in (self.eval, self.aval, self.jvp, self.batch, type(self)):
            module = getattr(rule, "__module__", None) or ""
            for name, value in vars(sys.modules[module]).items() if module in sys.modules else ():
                if value is self:
                    return _named, (module, name)
        raise ProgramError(
            f"the primitive {self.name} cannot be pickled: it is not a module-level name where its "
            "rules stand",
            fix="assign it to a name of the module that defines its aval rule",
        )


def _named(module: str, name: str) -> Any:
    """Find a primitive again."""
    return getattr(importlib.import_module(module), name)


PRIMITIVES: ChainMap[str, Primitive] = ChainMap()
"""The library's primitives by name; each package of primitives adds its own at import."""


def add_primitives(table: dict[str, Primitive]) -> None:
    """Add a package's primitives to the registry; they are looked up before those registered
    earlier.
    """
    PRIMITIVES.maps.insert(0, table)


def _marker(name: str) -> Primitive:
    rule = absent(because=f"{name} is not an operation", instead="this is a bug in functrace")
    return Primitive(name, eval=rule, aval=rule, jvp=rule, transpose=rule, batch=rule)


INPUT = _marker("input")
"""Entry of a tape for an input; its parameter is its aval."""
CONSTANT = _marker("constant")
"""Entry of a tape for a captured value; its parameter is its aval."""
RESULT = _marker("result")
"""Entry of a tape for the second, third … result of the operation before it."""
