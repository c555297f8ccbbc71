"""Programs: frozen, first-order descriptions of a computation.

A program can be printed and parsed back, saved, checked, costed, emitted as NumPy source,
evaluated, and transformed into another program. It owns its constants. It is stored as a tape (see
Note [The tape] in ir/tape.py); ``inputs``, ``equations`` and ``outputs`` are views of it for
reading and for custom passes::

    for equation in program.equations:
        print(equation.primitive, equation.inputs, equation.params, equation.source)

Note [Forms are imported when they are called]
    Text, JSON, NumPy source, pictures, check and cost are a module each, which imports this one,
    since it reads or makes programs. The methods of `Program` import that module when they are
    called: a program that is only recorded and run needs none of them, and importing functrace
    stays fast. Only here may two modules import each other
    (tests/test_import_layers.py).

Layer: 0.
"""

from __future__ import annotations

import bisect
import itertools
import keyword
import os
import re
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, EllipsisType, MappingProxyType
from typing import Any, ClassVar, NoReturn, TypeAlias, cast, final

import numpy as np

from functrace.errors import ProgramError
from functrace.ir.aval import Constant, ShapeDtype, aval_of
from functrace.ir.primitive import CONSTANT, INPUT, PRIMITIVES, RESULT, Primitive
from functrace.ir.tape import Builder, Columns, Op, Spec
from functrace.ir.walk import Schedule, aliasing_outputs, reachable
from functrace.keys import exact_bytes
from functrace.locks import Lock, cached_property
from functrace.source import Source, SourceLine, printable
from functrace.typing import Scalar

Position = tuple[CodeType | SourceLine, int] | int | None
"""Code and offset of one instruction; in cached programs the number of a variable, resolved by the
caller that runs them (see Note [Positions in cached programs] in tracing/lines.py).

Note [Positions of the reverse pass]
    An operation of a reverse pass has the position of the operation that it differentiates, marked:
    with an odd offset (those of instructions are even), or with ``~k`` in place of a variable ``k``.
    So the mark survives all transforms, passes and caches, as positions do, and costs nothing while
    recording. `resolved` reads positions of cached programs, `reverse_position` marks one,
    `is_reverse_position` reads the mark, `plain_position` removes it; `Source` ignores it.
"""

_Plain: TypeAlias = (
    Scalar | str | bytes | slice | EllipsisType | np.generic | np.dtype[Any] | np.ufunc | None
)
Param: TypeAlias = "_Plain | ShapeDtype | Primitive | Program | tuple[Param, ...]"
"""A static parameter, or part of one, with a written form that can be read back."""
Static: TypeAlias = "Param | type[np.generic] | type[Scalar]"
"""The same, and types: NumPy's scalar types have a written form, Python's have none."""

_interned: weakref.WeakValueDictionary[Any, Program] = weakref.WeakValueDictionary()
_interning = Lock()

_RESERVED = frozenset({*keyword.kwlist, "np", "inf", "nan", "infj", "nanj", "const"})
"""Words reserved by listings: never names of variables."""


def reverse_position(position: Position) -> Position:
    """Mark a position as one of a reverse pass; see Note [Positions of the reverse pass]."""
    if isinstance(position, tuple):
        return position[0], position[1] | 1
    return position if position is None or position < 0 else ~position


def is_reverse_position(position: Position) -> bool:
    """Return True if a position is marked as one of a reverse pass."""
    if isinstance(position, int):
        return position < 0
    return position is not None and position[1] % 2 == 1


def plain_position(position: tuple[CodeType | SourceLine, int]) -> tuple[Any, int]:
    """Return code and offset of an instruction, without the mark of the reverse pass."""
    return position[0], position[1] & ~1


def resolved(position: Position, lines: Sequence[Position]) -> Position:
    """Replace the number of a variable, in a cached program, by the variable's position.

    Args:
        position: a position.
        lines: the positions of the current recording, by variable.

    Returns:
        the position, ``None`` if there is none.
    """
    if not isinstance(position, int):
        return position
    place = position if position >= 0 else ~position
    found = lines[place] if place < len(lines) else None
    if not isinstance(found, tuple):
        return None
    return found if position >= 0 else reverse_position(found)


def is_name(word: str) -> bool:
    """Return True if listings may show a variable under this name.

    Python reads names in their NFKC form, in which ``ﬁ`` is ``fi``: a name that is not in that form
    could collide with another one, and is not shown. Executed source has ASCII names only
    (`functrace.ir.numpy_source`).
    """
    if word in _RESERVED or _WORD.fullmatch(word) is None:
        return False
    if word.isascii():
        return True
    import unicodedata

    return word.isidentifier() and unicodedata.is_normalized("NFKC", word)


_WORD = re.compile(r"[^\W\d]\w*")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """Variable of a program, written once: by an equation, an input or a constant.

    Args:
        aval: its shape and dtype.
        name: its name, if it has one.

    Example:
        >>> import numpy as np, functrace as ft
        >>> ft.trace(lambda x: x * 2.0)(np.ones(3)).inputs
        (x: f64[3],)
    """

    aval: ShapeDtype
    name: str | None = None

    def __repr__(self) -> str:
        return f"{self.name or '_'}: {self.aval}"


@final
@dataclass(frozen=True, slots=True)
class Literal:
    """Python number in an equation; its dtype follows the other operands (NEP 50).

    Args:
        value: the number.

    Example:
        >>> import functrace as ft
        >>> ft.trace(lambda x: x * 2.0)(1.0).equations[0].inputs
        (x: f64[], 2.0)
    """

    value: bool | int | float | complex

    def __repr__(self) -> str:
        return repr(self.value)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """One application of a primitive.

    Args:
        primitive: the primitive.
        inputs: operands: variables and literals.
        outputs: variables that it writes; always a tuple.
        params: static parameters by name.
        source: the user's line that it came from, if known.

    Example:
        >>> import numpy as np, functrace as ft
        >>> equation = ft.trace(lambda x: np.sum(x))(np.ones(3)).equations[0]
        >>> equation.primitive, equation.inputs, dict(equation.params)
        (reduce_sum, (x: f64[3],), {'axes': (0,)})
    """

    primitive: Primitive
    inputs: tuple[Var | Literal, ...]
    outputs: tuple[Var, ...]
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    source: Source | None = None

    def __repr__(self) -> str:
        from functrace.ir.text import equation_text

        return equation_text(self)


@final
class Program:
    """A frozen program: typed equations in order of evaluation, with inputs, constants and outputs.

    Make one with `functrace.trace`, `Program.parse`, `Program.build` or a transform. The
    constructor takes a tape (Note [The tape] in ir/tape.py), where variables are numbered in order
    and literals have negative numbers.

    Args:
        ops: one entry per variable: primitive, numbers of the operands, params.
        avals: shape and dtype by variable.
        literals: Python numbers that operands refer to.
        inputs: variables that are inputs.
        constants: values by variable.
        outputs: variables that are outputs.
        positions: position in the user's code, by variable.
        name: name of the program.
        input_names: names of the inputs, where known.
        names: names of other variables.
        lines: positions that numbers in ``positions`` refer to, while making a program that is to
            be cached.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sum(np.sin(x)))(ft.ShapeDtype((3,)))
        >>> program
        <Program program: (f64[3]) -> (f64[]), 2 equations>
        >>> program == ft.Program.from_json(program.to_json())
        True
        >>> ft.evaluate(program, np.zeros(3))
        np.float64(0.0)
    """

    ops: tuple[Op, ...] = cast("Any", cached_property(lambda self: tuple(self.columns)))
    """The tape: one entry per variable; see Note [The tape] in ir/tape.py."""
    columns: Columns = cast("Any", cached_property(lambda self: Columns.of(self.ops)))
    """The tape by columns; see Note [Columns] in ir/tape.py."""
    avals: tuple[ShapeDtype, ...]
    literals: tuple[Scalar, ...]
    input_ids: tuple[int, ...]
    constant_values: Mapping[int, Constant]
    output_ids: tuple[int, ...]
    positions: tuple[Position, ...]
    lines: Sequence[Position]
    """Positions that numbers in ``positions`` refer to, while making a program to be cached."""
    derived: dict[Any, Any]
    """Results of transforms of this program, if it is a sub-program (transforms/linearize.py)."""
    name: str
    input_names: tuple[str | None, ...]
    names: Mapping[int, str | None]

    primitives: ClassVar[Mapping[str, Primitive]] = MappingProxyType(PRIMITIVES)
    """Primitives that `parse` and `from_json` find by name."""

    def __init__(
        self,
        ops: Sequence[Op],
        avals: Sequence[ShapeDtype],
        literals: Sequence[Scalar],
        inputs: Sequence[int],
        constants: Mapping[int, Constant],
        outputs: Sequence[int],
        *,
        positions: Sequence[Position] = (),
        name: str = "program",
        input_names: Sequence[str | None] = (),
        names: Mapping[int, str | None] | None = None,
        lines: Sequence[Position] = (),
    ) -> None:
        if isinstance(ops, Columns):
            self.__dict__["columns"] = Columns(
                tuple(ops.primitives), tuple(ops.operands), tuple(ops.params)
            )
        else:
            self.__dict__["ops"] = tuple(ops)
        self.__dict__.update(
            avals=tuple(avals),
            literals=tuple(literals),
            input_ids=tuple(inputs),
            constant_values=MappingProxyType(dict(constants)),
            output_ids=tuple(outputs),
            positions=tuple(positions),
            lines=lines,
            derived={},
            name=name,
            input_names=tuple(input_names),
            names=MappingProxyType(dict(names or {})),
        )

    def with_same_flow(
        self, ops: Sequence[Op], avals: Sequence[ShapeDtype], literals: Sequence[Scalar]
    ) -> Program:
        """Replace parameters, avals and literals; the operands of each operation and last uses stay
        the same.

        Args:
            ops: the new tape.
            avals: shape and dtype by variable.
            literals: Python numbers that operands refer to.

        Returns:
            the new program.
        """
        made = object.__new__(Program)
        made.__dict__.update(
            self.__dict__, ops=tuple(ops), avals=tuple(avals), literals=tuple(literals), derived={}
        )
        for view in ("columns", "kinds", "variables", "equations", "_structure", "_hash"):
            made.__dict__.pop(view, None)
        return made

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise: programs are shared by caches, equations and threads."""
        raise ProgramError(
            f"a program is frozen: its {name} cannot be set",
            fix="make another one: Program.build, or write a pass",
        )

    def __delattr__(self, name: str) -> NoReturn:
        """Raise, like `__setattr__`."""
        raise ProgramError(
            f"a program is frozen: its {name} cannot be deleted", fix="make another one"
        )

    # -- construction --------------------------------------------------------------------------

    @classmethod
    def from_builder(cls, builder: Builder, outputs: Sequence[int], **details: Any) -> Program:
        """Freeze the tape of a builder.

        Args:
            builder: the builder.
            outputs: variables that are outputs.
            details: further arguments of the constructor.

        Returns:
            the program.
        """
        return cls(
            builder.ops,
            builder.avals,
            builder.literals,
            builder.inputs,
            builder.constants,
            outputs,
            **details,
        )

    @classmethod
    def build(
        cls,
        inputs: Iterable[Var],
        equations: Iterable[Equation],
        outputs: Iterable[Var | Literal],
        constants: Mapping[Var, Constant] | None = None,
        *,
        name: str = "program",
    ) -> Program:
        """Make a program from variables and equations, for custom passes and transforms.

        Args:
            inputs: variables that are inputs.
            equations: the equations, in order of evaluation.
            outputs: variables or literals that are outputs.
            constants: values by variable.
            name: name of the program.

        Returns:
            the program.

        Raises:
            ProgramError: if a variable is used before it is written, or written twice; if the
                number of an equation's outputs differs from its primitive's number of results.

        Example:
            >>> import numpy as np, functrace as ft
            >>> program = ft.trace(lambda x: np.sin(np.cos(x)))(1.0)
            >>> first = program.equations[0]
            >>> ft.Program.build(program.inputs, [first], first.outputs)
            <Program program: (f64[]) -> (f64[]), 1 equations>
        """
        builder = Builder()
        ids: dict[Var, int] = {}
        positions: dict[int, Position] = {}

        def write(var: Var, variable: int) -> None:
            if var in ids:
                raise ProgramError(
                    f"variable {var!r} is written twice",
                    fix="give every equation new output variables",
                )
            ids[var] = variable

        def read(operand: Var | Literal, where: str) -> int:
            if isinstance(operand, Literal):
                return builder.literal(operand.value)
            if operand not in ids:
                raise ProgramError(
                    f"variable {operand!r} is used by {where} before it is written",
                    fix="list equations in the order of evaluation, and every free variable as an "
                    "input or constant",
                )
            return ids[operand]

        inputs = tuple(inputs)
        for var in inputs:
            write(var, builder.input(var.aval))
        for var, value in (constants or {}).items():
            write(var, builder.constant(value, var.aval))
        for equation in equations:
            operands = tuple(read(x, equation.primitive.name) for x in equation.inputs)
            params = tuple(equation.params[name] for name in equation.primitive.params)
            first = builder.append(
                equation.primitive, operands, tuple(map(builder.spec, operands)), params
            )
            if len(builder.primitives) - first != len(equation.outputs):
                raise ProgramError(
                    f"{equation.primitive} has {len(builder.primitives) - first} results here, "
                    f"but its equation writes {len(equation.outputs)} variables",
                    fix="give the equation one output variable per result",
                )
            for k, var in enumerate(equation.outputs):
                write(var, first + k)
            if equation.source is not None and equation.outputs:
                positions[first] = (equation.source.code, equation.source.offset)
        outs: list[int] = []
        for out in outputs:
            if isinstance(out, Literal):
                value = np.asarray(out.value)
                outs.append(builder.constant(value, aval_of(value)))
            else:
                outs.append(read(out, "the outputs"))
        return cls.from_builder(
            builder,
            outs,
            name=name,
            input_names=[v.name for v in inputs],
            names={i: var.name for var, i in ids.items() if var.name is not None},
            positions=[positions.get(i) for i in range(len(builder.primitives))],
        )

    # -- views ---------------------------------------------------------------------------------

    @cached_property
    def kinds(self) -> frozenset[Primitive]:
        """The primitives of its equations, not including sub-programs."""
        return frozenset(
            self.columns.primitives if "columns" in self.__dict__ else [op[0] for op in self.ops]
        )

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """Every variable, by its position on the tape, with the name that listings use."""
        return tuple(Var(aval, name) for aval, name in zip(self.avals, self._names(), strict=True))

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The input variables."""
        return tuple(self.variables[i] for i in self.input_ids)

    @property
    def outputs(self) -> tuple[Var, ...]:
        """The output variables."""
        return tuple(self.variables[i] for i in self.output_ids)

    @property
    def constants(self) -> dict[Var, Any]:
        """The values that the program owns, by variable."""
        return {self.variables[i]: value for i, value in self.constant_values.items()}

    @cached_property
    def equations(self) -> tuple[Equation, ...]:
        """The equations, in order of evaluation."""
        variables = self.variables
        made: list[Equation] = []
        for i, (primitive, operands, params) in enumerate(self.ops):
            if primitive is INPUT or primitive is CONSTANT or primitive is RESULT:
                continue
            inputs = tuple(variables[k] if k >= 0 else Literal(self.literals[~k]) for k in operands)
            made.append(
                Equation(
                    primitive,
                    inputs,
                    tuple(variables[i : i + self.result_count(i)]),
                    dict(zip(primitive.params, params, strict=True)),
                    self.source(i),
                )
            )
        return tuple(made)

    @cached_property
    def equation_ids(self) -> tuple[int, ...]:
        """The variable of the first result of each of `equations`, by its number."""
        return tuple([i for i, op in enumerate(self.ops) if op[0] not in (INPUT, CONSTANT, RESULT)])

    def equation(self, k: int) -> Equation:
        """Return one of `equations`.

        Args:
            k: the variable of its first result, one of `equation_ids`.

        Example:
            >>> import numpy as np, functrace as ft
            >>> program = ft.trace(lambda x: np.sin(x) * 2.0)(1.0)
            >>> program.equation(program.equation_ids[1]).primitive
            mul
        """
        return self.equations[bisect.bisect_left(self.equation_ids, k)]

    @cached_property
    def schedule(self) -> Schedule:
        """The live operations, each with the variables whose last use it is."""
        return reachable(self.ops, self.output_ids)

    @cached_property
    def keeps(self) -> bool:
        """True if operations in it, at any depth, run for their side effects."""
        return any(primitive.kept is not None for primitive in self.kinds) and any(
            primitive.kept is not None and primitive.kept(*params)
            for primitive, _, params in self.ops
        )

    @cached_property
    def has_rules(self) -> bool:
        """True if an operation in it, at any depth, is replaced by its rule when differentiated."""
        return any(
            primitive.by_rule or primitive.holds is not None for primitive in self.kinds
        ) and any(goes_by_rule(primitive, params) for primitive, _, params in self.ops)

    @cached_property
    def aliasing(self) -> tuple[bool, ...]:
        """Flags of the outputs that may share memory with arguments, constants or other outputs."""
        return aliasing_outputs(self.ops, self.output_ids)

    def result_count(self, variable: int) -> int:
        """Number of results of an operation.

        Args:
            variable: its first result.

        Returns:
            the number.
        """
        count = 1
        while variable + count < len(self.ops) and self.ops[variable + count][0] is RESULT:
            count += 1
        return count

    def source(self, variable: int, lines: Sequence[Position] = ()) -> Source | None:
        """Return the user's line that a variable came from.

        Args:
            variable: number of the variable.
            lines: positions that numbers in ``positions`` refer to, for a program that is cached.

        Returns:
            the line, or ``None`` if it is unknown.
        """
        position = self.position(variable, lines)
        return None if position is None else Source(*plain_position(position))

    def is_reverse(self, variable: int, lines: Sequence[Position] = ()) -> bool:
        """Return True if a variable was made by a reverse pass, as far as is known: parsed and
        loaded programs do not tell.

        Args:
            variable: number of the variable.
            lines: positions that numbers in ``positions`` refer to, for a program that is cached.

        Returns:
            True if it was.

        Example:
            >>> import numpy as np, functrace as ft
            >>> program = ft.trace(ft.grad(lambda x: np.sum(np.sin(x) * x)))(np.ones(3))
            >>> [e.primitive.name for e, k in zip(program.equations, program.equation_ids)
            ...  if program.is_reverse(k)]
            ['mul', 'add']
        """
        return is_reverse_position(self.position(variable, lines))

    def position(
        self, variable: int, lines: Sequence[Position] = ()
    ) -> tuple[CodeType | SourceLine, int] | None:
        """Return the position in the user's code that a variable came from.

        Args:
            variable: number of the variable.
            lines: positions that numbers in ``positions`` refer to, for a program that is cached.

        Returns:
            the position, or ``None`` if it is unknown.
        """
        position = self.positions[variable] if variable < len(self.positions) else None
        if isinstance(position, int):
            position = resolved(position, lines or self.lines)
        return position if isinstance(position, tuple) else None

    def spec(self, operand: int) -> Spec:
        """Return the argument of an aval rule for an operand.

        Args:
            operand: a variable, or the negative number of a literal.

        Returns:
            the aval of a variable, the type of a literal.
        """
        return self.avals[operand] if operand >= 0 else self.literals[~operand].__class__

    def _names(self) -> list[str]:
        given = {
            i: name
            for i, name in zip(self.input_ids, self.input_names, strict=False)
            if name is not None
        }
        given = {**self._assigned_names(), **given, **self.names}
        wanted = set(given.values())
        names: list[str] = []
        taken: set[str] = set()
        letters = (letter for letter in _letters() if letter not in wanted)
        for i in range(len(self.avals)):
            name = given.get(i)
            if name is None or name in taken or not is_name(name):
                name = next(letters)
            taken.add(name)
            names.append(name)
        return names

    def _assigned_names(self) -> dict[int, str]:
        """Return the user's variables: of one line's operations, the last one is stored."""
        runs: dict[tuple[CodeType | SourceLine, int], list[int]] = {}
        before = -1
        for i, position in enumerate(self.positions[: len(self.avals)]):
            if self.ops[i][0] is CONSTANT or self.ops[i][0] is RESULT or i in self.input_ids:
                continue
            # A later run with the same position is another iteration of a loop, or a derivative.
            if isinstance(position, tuple):
                run = runs.setdefault(plain_position(position), [i])
                if run[-1] == before:
                    run.append(i)
            before = i
        found: dict[int, str] = {}
        for position, run in runs.items():
            names, last = Source(*position).assigned, run[-1]
            if len(names) == 1:
                stored: Sequence[int] = [last]
            elif len(names) == self.result_count(last):  # q, r = np.linalg.qr(a)
                stored = range(last, last + len(names))
            else:  # x, y = a
                stored = run if len(run) == len(names) else ()
            found.update(
                {i: name for i, name in zip(stored, names, strict=False) if name is not None}
            )
        return found

    # -- serialized forms: see Note [Forms are imported when they are called] --------------------

    def text(self, *, full: bool = True) -> str:
        """Return the typed listing, which `parse` reads back.

        Args:
            full: False to show large constants by a digest only.

        Returns:
            the text.

        Example:
            >>> import functrace as ft
            >>> program = ft.trace(lambda x: x * 2.0)(1.0)
            >>> ft.Program.parse(program.text()) == program
            True
        """
        from functrace.ir.text import program_text

        return program_text(self, full=full)

    def __str__(self) -> str:
        return self.text(full=False)

    def __repr__(self) -> str:
        ins, outs = (
            ", ".join(map(str, (v.aval for v in vs))) for vs in (self.inputs, self.outputs)
        )
        return f"<Program {printable(self.name)}: ({ins}) -> ({outs}), {len(self.equations)} equations>"

    @classmethod
    def _known(cls, own: Mapping[str, Primitive] | None) -> Mapping[str, Primitive]:
        """Return the library's primitives, after loading them, overridden by the user's own."""
        return ChainMap(dict(own or {}), PRIMITIVES)

    @classmethod
    def parse(cls, text: str, primitives: Mapping[str, Primitive] | None = None) -> Program:
        """Read a program back from its text, without executing code.

        Args:
            text: a listing, from `text`.
            primitives: the user's own primitives by name, in addition to the library's.

        Returns:
            the program.

        Raises:
            ParseError: if the text is not a program; with the line that could not be read.

        Example:
            >>> import functrace as ft
            >>> ft.Program.parse('''program(x: f64[]) {
            ...   a: f64[] = mul x 2.0
            ...   return a
            ... }''')
            <Program program: (f64[]) -> (f64[]), 1 equations>
        """
        from functrace.ir.parse import parse_program

        return parse_program(text, cls._known(primitives))

    def to_json(self, *, root: str | os.PathLike[str] | None = None) -> str:
        """Return the program as JSON text (versioned; arrays in base64).

        Args:
            root: a directory. Names of source files below it are relative to it. For other files,
                only the last part of the path is written: the text contains no directory of this
                machine.

        Returns:
            the text.

        Raises:
            ProgramError: if a param has no written form, or a constant is a traced value.
        """
        from functrace.ir.serial import program_to_json

        return program_to_json(self, root)

    @classmethod
    def from_json(
        cls,
        text: str,
        primitives: Mapping[str, Primitive] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
    ) -> Program:
        """Read a program back from JSON, without executing code.

        Args:
            text: a text from `to_json`.
            primitives: the user's own primitives by name, in addition to the library's.
            root: directory of the files that ``to_json(root=)`` named; messages show their lines.

        Returns:
            the program.

        Raises:
            ParseError: if the text is not a program, or its version is unknown.
        """
        from functrace.ir.load import program_from_json

        return program_from_json(text, cls._known(primitives), root)

    def save(
        self, path: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None
    ) -> None:
        """Write the program to a file, as JSON, and its constants of more than 16 elements to an
        ``.npz`` file next to it.

        The ``.npz`` file has the same name with its own suffix, and is written only if there are
        such constants. Elements that are repeated in memory (a broadcast number) are written once.

        Args:
            path: path of the JSON text, e.g. ``"step.json"``.
            root: a directory. Names of source files below it are relative to it.

        Raises:
            ProgramError: if a param has no written form, or a constant is a traced value.
            ArgumentError: if the path ends in ``.npz``.
            OSError: if a file cannot be written.

        Example:
            >>> import os, tempfile, functrace as ft
            >>> program = ft.trace(lambda x: np.ones((40, 50)) @ x)(np.ones(50))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = os.path.join(folder, "step.json")
            ...     program.save(path)
            ...     print(sorted(os.listdir(folder)), ft.Program.load(path) == program)
            ['step.json', 'step.npz'] True
        """
        from functrace.ir.serial import save_program

        save_program(self, path, root)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        primitives: Mapping[str, Primitive] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
    ) -> Program:
        """Read a program back from the files of `save`, without executing code or unpickling.

        Args:
            path: path of the JSON text.
            primitives: the user's own primitives by name, in addition to the library's.
            root: directory of the files that ``save(root=)`` named; messages show their lines.

        Returns:
            the program.

        Raises:
            ParseError: if the text is not a program, or the ``.npz`` file is not the one that was
                saved with it.
            OSError: if the text cannot be read.
        """
        from functrace.ir.load import load_program

        return load_program(path, cls._known(primitives), root)

    def as_python(self, name: str | None = None) -> str:
        """Return NumPy source that runs on its own and computes the same numbers.

        Args:
            name: name of the function; by default that of the program.

        Returns:
            the source.

        Example:
            >>> import functrace as ft
            >>> scope = {}
            >>> exec(ft.trace(lambda x: x * 2.0)(1.0).as_python("double"), scope)
            >>> scope["double"](3.0)
            np.float64(6.0)
        """
        from functrace.ir.numpy_source import program_source

        return program_source(self, name)

    def to_stablehlo(self, platforms: Sequence[str] = ("cpu",)) -> Any:
        """Return the program as a module for other machines, through ``jax.export``.

        Args:
            platforms: machines that the module runs on: some of ``"cpu"``, ``"cuda"``, ``"rocm"`` and
                ``"tpu"``. They need not be present.

        Returns:
            bytes, which ``jax.export.deserialize`` reads; called in JAX's 64-bit mode, they take one
            array per input, and return the list of outputs. Their method ``mlir_module()`` returns the
            text of the module. Where NumPy would raise, floats are NaN. Both name the user's source
            files, with their directories.

        Raises:
            UnsupportedFunctionError: if JAX or flatbuffers (the extra ``xla``) is not installed; if an
                operation would run in Python; if the program checks values, and a result is no float.
            ArgumentError: for an unknown platform.

        Example:
            >>> import jax, numpy as np, functrace as ft
            >>> saved = ft.trace(lambda x: np.sum(np.sin(x)))(np.ones(3)).to_stablehlo(["cpu", "tpu"])
            >>> with jax.enable_x64(True):
            ...     jax.export.deserialize(bytearray(saved)).call(np.zeros(3))
            [Array(0., dtype=float64)]
            >>> "stablehlo.sine" in saved.mlir_module()
            True

        Cost:
            JAX traces the program; XLA compiles it where it is loaded.
        """
        from importlib import import_module

        # a string: the package is of a higher layer, and is loaded for this method only
        import_module("functrace.xla.program").check_installed()
        return import_module("functrace.xla.bridges.stablehlo").to_stablehlo(self, platforms)

    def to_dot(self) -> str:
        """Return the program as a Graphviz graph, for ``dot -Tsvg``; sub-programs are clusters."""
        from functrace.ir.pictures import program_dot

        return program_dot(self)

    def _repr_html_(self) -> str:
        """Return the listing next to its source lines, as HTML for notebooks."""
        from functrace.ir.pictures import program_html

        return program_html(self)

    def check(self) -> Program:
        """Check that the program is well formed; returns it.

        Raises:
            ProgramError: with the neighbouring equations.
        """
        from functrace.ir.check import check_program

        check_program(self)
        return self

    def cost(self) -> Any:
        """Count flops and bytes, per equation and in total (see `functrace.ir.cost.Cost`)."""
        from functrace.ir.cost import program_cost

        return program_cost(self)

    # -- copies and pickles ----------------------------------------------------------------------

    def __copy__(self) -> Program:
        return _restored(
            *self._parts(
                self.positions, self.lines, self.constant_values, self.names, self.input_names
            )
        )

    def with_constants(self, values: Mapping[int, Constant]) -> Program:
        """Replace the values of constants.

        Args:
            values: new values, by variable.

        Returns:
            the new program.
        """
        return _restored(
            *self._parts(self.positions, self.lines, values, self.names, self.input_names)
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        """Copy, with copies of the constants; all other parts are immutable."""
        return self.with_constants(self._written_constants(lambda array: np.copy(array)[()]))

    def __reduce__(self) -> Any:
        """Pickle without derived data; positions become lines (`functrace.source.SourceLine`).

        Raises:
            ProgramError: if a constant is a traced value, or a param exists in this process only.
        """
        names = {i: str(var.name) for i, var in enumerate(self.variables)}
        return _restored, self._parts(
            placed(self.positions),
            placed(self.lines),
            self._written_constants(_distinct),
            names,
            (),
        )

    def _written_constants(self, change: Callable[[Any], Any]) -> dict[int, Any]:
        from functrace.ir.serial import constant_array

        values = self.constant_values
        return {
            i: change(constant_array(value, str(self.variables[i].name)))
            for i, value in values.items()
        }

    def _parts(
        self,
        positions: Sequence[Position],
        lines: Sequence[Position],
        constants: Mapping[int, Constant],
        names: Mapping[int, str | None],
        input_names: Sequence[str | None],
    ) -> tuple[Any, ...]:
        """Return the arguments of `_restored`."""
        tape = (
            self.ops,
            self.avals,
            self.literals,
            self.input_ids,
            dict(constants),
            self.output_ids,
        )
        return *tape, positions, lines, self.name, input_names, dict(names)

    # -- equality ------------------------------------------------------------------------------

    @cached_property
    def _structure(self) -> tuple[Any, ...]:
        """Return the renumbered tape (inputs, constants, operations) with comparable values."""
        order = [*self.input_ids, *self.constant_values]
        seen = set(order)
        order += [i for i in range(len(self.avals)) if i not in seen]
        number = {i: k for k, i in enumerate(order)}

        def operand(k: int) -> Any:
            return number[k] if k >= 0 else _comparable(self.literals[~k])

        # Inputs and constants only by their avals: a residual is an input whose entry is a
        # constant's.
        entries = tuple(self.avals[i] for i in order[: len(seen)])
        ops = tuple(
            (self.ops[i][0], tuple(map(operand, self.ops[i][1])), _comparable(self.ops[i][2]))
            for i in order[len(seen) :]
        )
        values = tuple(map(_comparable_array, self.constant_values.values()))
        return len(self.input_ids), entries, ops, values, tuple(number[i] for i in self.output_ids)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Program) and self._structure == other._structure)

    @cached_property
    def _hash(self) -> int:
        return hash(self._structure)

    def __hash__(self) -> int:
        return self._hash

    def interned(self) -> Program:
        """Return the canonical object for equal programs from the same lines.

        Programs that are params of equations are interned, since every recording makes new ones.
        """
        key = (self._structure, self._places)
        with _interning.now:
            return _interned.setdefault(key, self)

    def is_copy_of(self, other: Program) -> bool:
        """Check that two programs are equal, and come from the same lines.

        Args:
            other: a program.

        Returns:
            True if they are.
        """
        return self is other or (self == other and self._places == other._places)

    @cached_property
    def _places(self) -> tuple[Any, ...]:
        # By identity of code, which distinguishes equal functions of two files; hashing it is slow.
        return tuple([(id(p[0]), p[1]) if isinstance(p, tuple) else p for p in self.positions])


def goes_by_rule(primitive: Primitive, params: Sequence[Any]) -> bool:
    """Return True if an operation, or a nested one, is replaced by its rule when differentiated."""
    return primitive.by_rule or (primitive.holds is not None and any(map(_has_rules, params)))


def _has_rules(param: object) -> bool:
    parts: Any = param
    return (
        any(map(_has_rules, parts))
        if type(param) is tuple
        else isinstance(param, Program) and param.has_rules
    )


def placed(positions: Sequence[Position]) -> tuple[Position, ...]:
    """Return positions in a form that can be pickled: code objects become source lines."""
    places: dict[tuple[int, int], Position] = {}  # by identity: hashing a code object is slow
    found: list[Position] = []
    for position in positions:
        if isinstance(position, tuple):
            key = (id(position[0]), position[1])
            if key not in places:
                source = Source(*position)
                line = SourceLine(source.file, source.line, source.function)
                places[key] = (line, position[1] & 1)
            position = places[key]
        found.append(position)
    return tuple(found)


def _restored(
    ops: Sequence[Op],
    avals: Sequence[ShapeDtype],
    literals: Sequence[Scalar],
    inputs: Sequence[int],
    constants: Mapping[int, Any],
    outputs: Sequence[int],
    positions: Sequence[Position],
    lines: Sequence[Position],
    name: str,
    input_names: Sequence[str | None],
    names: Mapping[int, str | None],
) -> Program:
    """Make a copied or pickled program."""
    values = {i: _whole(value) for i, value in constants.items()}
    return Program(
        ops, avals, literals, inputs, values, outputs,
        positions=positions, name=name, input_names=input_names, names=names, lines=lines,
    )  # fmt: skip


def _whole(pickled: object) -> Any:
    """Return a constant from the result of `_distinct`."""
    if type(pickled) is not tuple:
        return pickled
    distinct, shape = cast("tuple[Any, Any]", pickled)
    return np.broadcast_to(distinct, shape)


def _distinct(array: np.ndarray[Any, Any]) -> Any:
    """Return a constant's pickled form: if broadcast, its distinct elements and the shape."""
    from functrace.ir.serial import without_repeats

    distinct = without_repeats(array)
    return array[()] if distinct.shape == array.shape else (distinct[()], array.shape)


def _comparable(value: Param) -> Any:
    """Return a param or literal as a key that distinguishes 1, 1.0 and True; nan equals nan."""
    if type(value) is tuple:
        return tuple(map(_comparable, value))
    return (
        (type(value).__name__, repr(value))
        if isinstance(value, bool | int | float | complex)
        else value
    )


def _comparable_array(value: Constant) -> Any:
    """Return a constant's key: its bytes, or the identity of a traced value."""
    return exact_bytes(value) if isinstance(value, np.ndarray | np.generic) else id(value)


def _letters() -> Iterator[str]:
    """Yield a, b … z, aa, ab …, without the reserved words."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for length in itertools.count(1):
        for letters in itertools.product(alphabet, repeat=length):
            name = "".join(letters)
            if name not in _RESERVED:
                yield name
