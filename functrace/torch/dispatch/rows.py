"""Rows: the public interface of a function, declared once.

A row lists a function's forms. It generates the functions of ``torch`` and of other namespaces,
the methods, in-place forms and operators of `Tensor`, and the type stubs (stubs.py). A file of
functions has a table of rows, which namespace.py merges with the others. There are three ways to
write one::

    ROWS = FunctionTable()

    ROWS.op(
        "sinh", ew.sinh, SELF, floating, forms="function method in_place",
        doc="Return the hyperbolic sine.",
    )

    @ROWS.function("function method")  # composed of others, or of several ops
    def expand_as(input, other): ...

    @ROWS.family("function method in_place")  # `run` is `apply`, or `write` for the in-place form
    def pow(run):
        def pow(input, exponent):
            return run(POW_NUMBER if isinstance(exponent, int) else POW, (input, exponent))
        return pow

Each of them returns the plain function, for other functions to call.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, final

import numpy as np

from functrace.ops.elementwise import Elementwise
from functrace.torch.dispatch.applying import Op, apply, binary
from functrace.torch.dispatch.autocasting import casting
from functrace.torch.dispatch.numbers import number_of
from functrace.torch.dispatch.promotion import Promotion, arithmetic, of_tensors
from functrace.torch.dispatch.results import put_out, taking_out
from functrace.torch.dispatch.signatures import parameter_names
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.torch.tensors.views import write
from functrace.tracing import Tracer

F = TypeVar("F", bound=Callable[..., Any])

TORCH, TENSOR, FUNCTIONAL, NN, LINALG, SPECIAL, FFT = (
    "functrace.torch",
    "functrace.torch.Tensor",
    "functrace.torch.nn.functional",
    "functrace.torch._C._nn",
    "functrace.torch.linalg",
    "functrace.torch.special",
    "functrace.torch.fft",
)
PLACES = {
    "function": TORCH,
    "method": TENSOR,
    "property": TENSOR,
    "in_place": TENSOR,
    "nn.functional": FUNCTIONAL,
    "_C._nn": NN,
    "function_in_place": TORCH,
    "linalg": LINALG,
    "special": SPECIAL,
    "fft": FFT,
}
"""The namespace of each form of a function."""
_WITH_OUT = frozenset({"function", "linalg", "special", "fft"})
"""Forms of functions that may take ``out=``."""

_OF_TWO = frozenset({
    "add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift",
    "eq", "ne", "lt", "le", "gt", "ge",
})  # fmt: skip
"""Operators that return ``NotImplemented`` for unknown types, so that Python tries the other
operand.
"""


class Run(Protocol):
    """Application of an op: `apply` makes a new tensor, `write` overwrites the first operand."""

    def __call__(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...] = (), /) -> Any:
        """Apply the op."""
        ...


@dataclass(frozen=True, eq=False)
class FunctionSpec:
    """The public interface of one function.

    Args:
        name: name of the function.
        forms: its forms, of `PLACES`.
        function: the function, which is the method and property as well.
        in_place: its in-place form.
        aliases: further names, for every form.
        operators: Python's operators and special methods that it implements: ``"add radd iadd neg
            getitem repr"``.
        op: the op for the plain case of an operator of two operands.
        reflected: computes ``other + self``, as a function (or op) of ``(self, other)``; None: the
            function, swapped.
        out: True if the function (not the method) accepts ``out=``; functions of one op ignore it
            (see `FunctionTable.op`).
        method: the method, if it is not the function: one that accepts ``out=`` itself.
    """

    name: str
    forms: tuple[str, ...]
    function: Callable[..., Any]
    in_place: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    op: Op | None = None
    reflected: Op | Callable[..., Any] | None = None
    out: bool = False
    method: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not PLACES.keys() >= set(self.forms):
            unknown = next(form for form in self.forms if form not in PLACES)
            raise ValueError(
                f"{self.name}: there is no form {unknown!r}; there are {', '.join(PLACES)}"
            )
        if self.in_place is None and (
            any(form.endswith("in_place") for form in self.forms)
            or any(kind[:1] == "i" and kind[1:] in self.operators for kind in self.operators)
        ):
            raise ValueError(
                f"{self.name}: it has no in-place form: declare it with FunctionTable.op or FunctionTable.family"
            )

    def entries(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the place, the name and the object of every form."""
        function = self.function
        if not _WITH_OUT.isdisjoint(self.forms):
            function = with_other_names(taking_out(self.name, function) if self.out else function)
        method = (
            with_other_names(self.method or self.function, has_out=self.method is not None)
            if "method" in self.forms
            else None
        )
        for form in self.forms:
            for name in (self.name, *self.aliases):
                if form in _WITH_OUT:
                    yield PLACES[form], name, function
                elif form in ("in_place", "function_in_place"):
                    yield PLACES[form], f"{name}_", self.in_place
                elif form == "method":
                    yield TENSOR, name, method
                else:
                    yield (
                        PLACES[form],
                        name,
                        property(self.function) if form == "property" else self.function,
                    )
        for operator in self.operators:
            yield TENSOR, f"__{operator}__", self._operator(operator)

    def _operator(self, operator: str) -> Any:
        kind, plain = operator[0], operator[1:]
        if plain in self.operators and kind == "i":
            return self.in_place
        if plain in self.operators and kind == "r":
            computes = self.reflected or (lambda self_, other: self.function(other, self_))
        elif operator in _OF_TWO:
            computes = self.op or self.function
        else:
            return self.function
        operate = binary(computes) if isinstance(computes, Op) else guarded(computes)
        if operator in ("rtruediv", "rdiv"):
            return dividing_arrays_too(operate)
        return of_arrays_too(operate) if operator == "eq" else operate


@final
class FunctionTable:
    """A table of rows."""

    def __init__(self) -> None:
        self._rows: list[FunctionSpec] = []

    def __iter__(self) -> Iterator[FunctionSpec]:
        return iter(self._rows)

    def add(self, row: FunctionSpec) -> None:
        """Add a row as it is."""
        self._rows.append(row)

    def op(
        self,
        name: str,
        computes: Callable[..., Any],
        saves: tuple[tuple[str, int], ...] = (),
        promote: Promotion | None = None,
        *,
        doc: str,
        forms: str = "function method",
        node: str = "",
        aliases: str = "",
        operators: str = "",
        commutes: bool = False,
        keeps: tuple[str, ...] = (),
        edges: tuple[int | None, ...] | None = None,
        gradient: Op | None = None,
        reflected: Callable[..., Any] | None = None,
        out: bool = True,
    ) -> Callable[..., Any]:
        """Add a function of one or two operands that is one op.

        Args:
            name: name of the function.
            computes: computes it from arrays or traced values: a primitive, or a function of them.
            saves: tensors that PyTorch saves; see `Op`.
            promote: dtype promotion of the operands.
            doc: its docstring.
            forms: see `FunctionSpec`, for ``aliases``, ``operators`` and ``reflected`` too.
            node: PyTorch's name of the node; by default ``SinhBackward0`` for ``sinh``.
            keeps: see `Op`, for ``edges`` and ``gradient`` too.
            commutes: True if the op itself computes ``other + self``.
            out: True if it accepts ``out=``.
        """
        count = _operand_count(computes)
        if count == 1:
            promote = (promote or arithmetic).checked(of_tensors(name, "input"))
        called = node or f"{name.title().replace('_', '')}Backward0"
        made = Op(called, computes, saves, promote, edges, keeps, gradient=gradient, called=name)
        maker = _of_operands[count]

        def named(function: Callable[..., Any], called: str, says: str) -> Callable[..., Any]:
            function.__name__ = function.__qualname__ = called
            function.__doc__ = says
            return function

        method = named(_plain(made, count), name, doc)
        function = named(maker(made, apply), name, doc) if out else method
        writes = (
            named(maker(made, write), f"{name}_", f"`{name}`, in place.")
            if "in_place" in forms.split()
            else None
        )
        turned = made if commutes else reflected
        return self._add(
            name, forms, function, writes, aliases, operators, made, turned, method=method
        )

    def function(
        self,
        forms: str = "function method",
        *,
        name: str = "",
        aliases: str = "",
        operators: str = "",
        out: bool = False,
    ) -> Callable[[F], F]:
        """Add the decorated function as it is; see `FunctionSpec`."""

        def add(function: F) -> F:
            return self._add(
                name or function.__name__,
                forms,
                function,
                None,
                aliases,
                operators,
                None,
                None,
                out,
            )

        return add

    def family(
        self,
        forms: str = "function method in_place",
        *,
        aliases: str = "",
        operators: str = "",
        op: Op | None = None,
        reflected: Op | Callable[..., Any] | None = None,
        out: bool = False,
    ) -> Callable[[Callable[[Run], F]], F]:
        """Add a function and its in-place form: the decorated function makes either, from `apply`
        or `write`; see `FunctionSpec`.

        The results get the name and the docstring of the decorated function.
        """

        def add(make: Callable[[Run], F]) -> F:
            function, writes = make(apply), make(write)
            for made, called in ((function, make.__name__), (writes, f"{make.__name__}_")):
                made.__name__ = made.__qualname__ = called
            function.__doc__, writes.__doc__ = make.__doc__, f"`{make.__name__}`, in place."
            return self._add(
                make.__name__, forms, function, writes, aliases, operators, op, reflected, out
            )

        return add

    def _add(
        self,
        name: str,
        forms: str,
        function: F,
        in_place: Callable[..., Any] | None,
        aliases: str,
        operators: str,
        op: Op | None,
        reflected: Op | Callable[..., Any] | None,
        out: bool = False,
        method: Callable[..., Any] | None = None,
    ) -> F:
        function = cast("F", casting(name, function))
        words = (
            tuple(forms.split()),
            function,
            in_place,
            tuple(aliases.split()),
            tuple(operators.split()),
        )
        self._rows.append(FunctionSpec(name, *words, op, reflected, out, method))
        return function


def entries(tables: Iterable[FunctionTable]) -> dict[str, dict[str, tuple[FunctionSpec, Any]]]:
    """Return the rows of each namespace: by name, the row and the object.

    Raises:
        ValueError: if two rows claim one name.
    """
    found: dict[str, dict[str, tuple[FunctionSpec, Any]]] = {place: {} for place in PLACES.values()}
    for row in (row for table in tables for row in table):
        for place, name, value in row.entries():
            if name in found[place]:
                raise ValueError(f"{place}.{name} is claimed by two rows")
            found[place][name] = (row, value)
    return found


_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim"}
"""NumPy's names of arguments, which PyTorch accepts as well."""


def with_other_names(function: Callable[..., Any], *, has_out: bool = True) -> Callable[..., Any]:
    """Return a function that accepts NumPy's names of its arguments, if it has a dimension.

    Args:
        function: the function.
        has_out: False for methods, to which NumPy's functions also pass ``out=``: it is refused.
    """
    try:
        names = parameter_names(function)
    except (TypeError, ValueError):
        return function
    if "dim" not in names or "axis" in names:
        return function

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not _OTHER_NAMES.keys().isdisjoint(kwargs):
            if "out" in kwargs and not has_out:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument 'axis'")
            kwargs = {_OTHER_NAMES.get(name, name): value for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return renamed


# -- functions of ops ------------------------------------------------------------------------------


def _plain(op: Op, count: int) -> Callable[..., Any]:
    def function(input: Operand) -> Value:
        return apply(op, (input,))

    def of_two(input: Operand, other: Operand) -> Value:
        return apply(op, (input, other))

    return function if count == 1 else of_two


def _unary(op: Op, run: Run) -> Callable[..., Any]:
    def function(input: Operand, *, out: Tensor | None = None) -> Value:
        return (
            apply(op, (input,))
            if out is None
            else put_out(out, function.__name__, (input,), lambda: apply(op, (input,)))
        )

    def in_place(input: Operand) -> Value:
        return run(op, (input,))

    return function if run is apply else in_place


def _binary(op: Op, run: Run) -> Callable[..., Any]:
    def function(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
        given = input, other
        return (
            apply(op, given)
            if out is None
            else put_out(out, function.__name__, given, lambda: apply(op, given))
        )

    def in_place(input: Operand, other: Operand) -> Value:
        return run(op, (input, other))

    return function if run is apply else in_place


_of_operands = {1: _unary, 2: _binary}


def _operand_count(computes: Callable[..., Any]) -> int:
    plain: Any = computes.eval if isinstance(computes, Elementwise) else computes
    return plain.nin if isinstance(plain, np.ufunc) else plain.__code__.co_argcount


def guarded(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the operator of a function, which returns ``NotImplemented`` unless the operand is a
    tensor or a number.
    """

    def operate(self: Tensor, other: Operand) -> Value:
        if isinstance(other, (Tensor, bool, int, float, complex, np.generic, Tracer)):
            return function(self, number_of(other) if isinstance(other, np.generic) else other)
        return NotImplemented

    return operate


def of_arrays_too(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator that accepts a NumPy array as a tensor, as ``==`` does."""

    def operate_on_arrays(self: Tensor, other: Any) -> Any:
        found = operate(self, other)
        if found is NotImplemented and isinstance(other, np.ndarray) and other.dtype in DTYPES:
            return operate(self, wrap(other))
        return found

    return operate_on_arrays


def dividing_arrays_too(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return ``other / self``, which multiplies a NumPy array by the reciprocal, as in PyTorch."""

    def divide(self: Tensor, other: Any) -> Any:
        return self.reciprocal() * other if isinstance(other, np.ndarray) else operate(self, other)

    return divide
