"""Check that a program is well formed.

Tests call it after every transform and pass; call it on programs that you build by hand. It assumes
nothing: a malformed program would otherwise give wrong numbers, or fail far from the cause.
Layer: 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.ir.params import check_params
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Params, Primitive
from functrace.ir.program import Param, Program

_AROUND = 2
"""Number of equations before and after the bad one in a message."""
_NUMBERS = (bool, int, float, complex)


def check_program(program: Program) -> None:
    """Check a program: wiring, avals, params and constants.

    Raises:
        ProgramError: showing the neighbouring equations, with the bad one marked.
    """
    _check_frame(program)
    for k, (primitive, operands, params) in enumerate(program.ops):
        if primitive is INPUT or primitive is CONSTANT:
            _check_entry(program, k)
            continue
        _check_operands(program, k, primitive, operands)
        if primitive is RESULT:
            _check_result(program, k, operands, params)
        else:
            _check_params(program, k, primitive, params)
            _check_avals(program, k, primitive, operands, params)
    for position, i in enumerate(program.output_ids):
        if not (type(i) is int and 0 <= i < len(program.ops)):
            raise ProgramError(
                f"output {position} of {program.name} is variable {i}, but there are "
                f"{len(program.ops)} variables",
                fix="return variables of this program",
            )


def _check_frame(program: Program) -> None:
    """Check that tape, avals, inputs and constants are consistent."""
    if len(program.avals) != len(program.ops):
        raise ProgramError(
            f"{program.name} has {len(program.ops)} variables, but {len(program.avals)} avals",
            fix="append to ops and avals together, as Builder does",
        )
    # A transform may turn a constant into an input (a residual) and leave its entry unchanged.
    inputs, constants = program.input_ids, tuple(program.constant_values)
    on_tape = [k for k, op in enumerate(program.ops) if op[0] is INPUT or op[0] is CONSTANT]
    if sorted((*inputs, *constants)) != on_tape:
        raise ProgramError(
            f"{program.name} lists the variables {sorted(inputs)} as its inputs and "
            f"{sorted(constants)} as its constants, "
            f"but its tape has entries for {on_tape}",
            fix="list every entry of this kind exactly once, as an input or as a constant",
        )
    for k in constants:
        if program.ops[k][0] is not CONSTANT:
            raise ProgramError(
                f"constant {k} of {program.name} is an input on the tape",
                fix="use Builder.constant",
            )
    for value in program.literals:
        if type(value) not in _NUMBERS:
            raise ProgramError(
                f"the literal {value!r} of {program.name} is a {type(value).__name__}, not a "
                "Python number",
                fix="make arrays and NumPy scalars constants: they have a dtype of their own",
            )


def _check_entry(program: Program, k: int) -> None:
    """Check that an input's or constant's entry, aval and value match."""
    primitive, operands, params = program.ops[k]
    if operands or params != (program.avals[k],):
        _fail(
            program,
            k,
            f"the entry of this {primitive} is ({operands}, {params})",
            "write it with Builder",
        )
    if k in program.constant_values:
        value = program.constant_values[k]
        found = (
            ShapeDtype(value.shape, value.dtype)
            if isinstance(value, np.ndarray | np.generic)
            else None
        )
        found = getattr(value, "aval", None) if found is None else found
        if found is not program.avals[k]:
            shown = found or f"a {type(value).__name__}"
            _fail(
                program,
                k,
                f"the value of this constant is {shown}, not {program.avals[k]}",
                "convert the value",
            )


def _check_operands(
    program: Program, k: int, primitive: Primitive, operands: tuple[int, ...]
) -> None:
    for i in operands:
        if type(i) is not int:
            _fail(
                program,
                k,
                f"{primitive} has the operand {i!r}, which is not an int",
                "use variables and literals",
            )
        if i >= k:
            _fail(
                program,
                k,
                f"{primitive} uses variable {i} before it is written",
                "list it in an earlier equation",
            )
        if i < 0 and ~i >= len(program.literals):
            _fail(
                program,
                k,
                f"{primitive} uses literal {~i}, but the program has {len(program.literals)}",
                "add it with Builder.literal",
            )


def _check_result(program: Program, k: int, operands: tuple[int, ...], params: Params) -> None:
    """Check that a further result directly follows its operation, in order."""
    first = k
    while first > 0 and program.ops[first][0] is RESULT:
        first -= 1
    if operands != (first,) or params != (k - first,):
        _fail(
            program,
            k,
            f"result {params} of variable {operands} stands {k - first} behind {first}",
            "use Builder",
        )
    if not program.ops[first][0].many:
        _fail(
            program,
            k,
            f"{program.ops[first][0]} has one result, not {program.result_count(first)}",
            "use Builder",
        )


def _check_params(program: Program, k: int, primitive: Primitive, params: Params) -> None:
    if len(params) != len(primitive.params):
        _fail(
            program,
            k,
            f"{primitive} takes {len(primitive.params)} params {primitive.params}, but has "
            f"{len(params)}",
            "give every declared param, in order",
        )
    for name, value in zip(primitive.params, params, strict=True):
        for path, held in sub_programs_of(value, name):  # required by the hash of programs
            _check_sub_program(program, k, f"param {path} of {primitive}", held)
        try:
            hash(value)
        except TypeError:
            _fail(
                program,
                k,
                f"param {name} of {primitive} cannot be hashed: {value!r}",
                "use tuples and numbers",
            )
    try:
        check_params(primitive, tuple(map(program.spec, program.ops[k][1])), params)
    except ProgramError as error:
        _fail(program, k, error.what, error.fix or "correct the param")


def _check_sub_program(program: Program, k: int, what: str, held: Program) -> None:
    """Check a sub-program; the message shows the error's place in both programs."""
    traced = [
        name
        for name, value in held.constant_values.items()
        if not isinstance(value, np.ndarray | np.generic)
    ]
    if traced:
        _fail(
            program,
            k,
            f"{what} has a traced value as constant {traced[0]}",
            "make it an operand of the equation",
        )
    try:
        check_program(held)
    except ProgramError as error:
        _fail(
            program,
            k,
            f"{what} is not well formed: {error.what}",
            error.fix or "correct the program that it holds",
        )


def sub_programs_of(value: Param, path: str) -> Iterator[tuple[str, Program]]:
    """Yield the sub-programs in a param, each with its path: ``body``, ``branches[1]``."""
    if isinstance(value, Program):
        yield path, value
    elif type(value) is tuple:
        for n, part in enumerate(value):
            yield from sub_programs_of(part, f"{path}[{n}]")


def _check_avals(
    program: Program, k: int, primitive: Primitive, operands: tuple[int, ...], params: Params
) -> None:
    """Check that the avals on the tape are those that the primitive's aval rule computes."""
    try:
        made = primitive.aval(*map(program.spec, operands), *params)
    except Exception as error:  # rules may raise anything for invalid operands
        _fail(
            program,
            k,
            f"{primitive} refuses its operands: {getattr(error, 'what', error)}",
            "correct the operands",
        )
    expected = made if isinstance(made, tuple) else (made,)
    stated = program.avals[k : k + program.result_count(k)]
    if stated != expected:
        shown = [", ".join(map(repr, avals)) for avals in (expected, stated)]
        _fail(
            program,
            k,
            f"{primitive} gives {shown[0]}, but the program says {shown[1]}",
            "take the avals from the rule",
        )


# -- messages --------------------------------------------------------------------------------------


def _fail(program: Program, k: int, what: str, fix: str) -> NoReturn:
    marked = [i for i in range(len(program.ops)) if program.ops[i][0] is not RESULT or i == k]
    at = marked.index(k)
    names = [str(var.name) for var in program.variables]
    lines: list[str] = []
    for i in marked[max(0, at - _AROUND) : at + _AROUND + 1]:
        lines.append(f"  {'>' if i == k else ' '} {_raw_line(program, names, i)}")
    raise ProgramError(
        "\n".join([f"{what} (in {program.name})", *lines]), at=program.source(k), fix=fix
    )


def _raw_line(program: Program, names: list[str], k: int) -> str:
    """Return one entry of the tape as text, even if it is malformed."""
    primitive, operands, params = program.ops[k]
    shown: list[str] = []
    for i in operands:
        if type(i) is int and 0 <= i < len(names):
            shown.append(names[i])
        elif type(i) is int and i < 0 and ~i < len(program.literals):
            shown.append(repr(program.literals[~i]))
        else:
            shown.append(f"?{i}")
    text = f"{names[k]}: {program.avals[k]} = {' '.join([primitive.name, *shown])}"
    if params and primitive not in (INPUT, CONSTANT):
        text += " {" + ", ".join(map(_shown, params)) + "}"
    return text


def _shown(param: Param) -> str:
    """Return a param as text; for a program only its name, which is always valid."""
    if type(param) is tuple:
        return f"({', '.join(map(_shown, param))}{',' if len(param) == 1 else ''})"
    return f"{{{param.name}}}" if isinstance(param, Program) else repr(param)
