"""Shared parts of both readers: look up names, append equations to a tape, reject invalid input.

Note [Reading what anybody wrote]
    A text or JSON document is data: reading it runs no code from it, imports nothing, opens no
    file, and takes time and memory in proportion to its length (a compressed constant: to its
    expanded size, at most about a thousand times its length; a broadcast constant: to the elements
    before broadcasting, until it is used). Only `Program.load` opens a second file, whose name is
    derived from the text's own, and reads arrays from it without unpickling.
    Every defect raises a ParseError. The result is well formed (`functrace.ir.check`), so all code
    that handles programs may rely on that; and nothing in it becomes source unescaped (Note [What a
    program may bring into source] in ir/numpy_source.py).

Layer: 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from functrace.errors import FunctraceError, ParseError
from functrace.ir.aval import DTYPES, ShapeDtype
from functrace.ir.check import check_program
from functrace.ir.params import check_params
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.serial import LONGEST_NUMBER
from functrace.ir.tape import Builder, infer
from functrace.source import SourceLine

_LARGEST_LINE = 2**31
_AVAL = re.compile(r"([a-z]+[0-9]*)\[((?:[0-9]{1,19}(?:,[0-9]{1,19}){0,63})?)\]")
_UFUNCS = {name: found for name, found in vars(np).items() if isinstance(found, np.ufunc)}


def read(parse: Callable[[], Program], fix: str) -> Program:
    """Call a reader on a whole document; return its program, checked.

    Raises:
        ParseError: for any defect of the document.
    """
    try:
        program = parse()
        check_program(program)
    except ParseError:
        raise
    except FunctraceError as error:
        raise ParseError(error.what, fix=error.fix or fix) from None
    except RecursionError:
        raise ParseError("the text is nested too deeply", fix=fix) from None
    return program


def append(
    builder: Builder, primitive: Primitive, operands: tuple[int, ...], params: tuple[Any, ...]
) -> int:
    """Append an operation to a tape; return the variable of its first result.

    Raises:
        ParseError: if the primitive does not take these operands and params.
    """
    specs = tuple(map(builder.spec, operands))
    try:
        check_params(primitive, specs, params)
        avals = infer(primitive, specs, params)
    except FunctraceError as error:
        raise ParseError(error.what, fix=error.fix or "correct the operands") from None
    except Exception as error:  # rules may raise anything for invalid operands
        what = (
            f"{primitive} does not take these operands and params: {type(error).__name__}: {error}"
        )
        raise ParseError(what, fix="correct the operands and params") from error
    if not avals:
        raise ParseError(
            f"{primitive} has no results here",
            fix="leave the equation out: nothing can depend on it",
        )
    for aval in avals:
        if type(aval) is not ShapeDtype:
            raise ParseError(
                f"{primitive} does not take these operands: it needs arrays",
                fix="correct the operands",
            )
        check_size(aval)
    return builder.append(primitive, operands, specs, params)


def check_size(aval: ShapeDtype) -> None:
    """Reject avals that no NumPy array can have.

    Raises:
        ParseError: with the aval.
    """
    size = aval.dtype.itemsize
    for n in aval.shape:
        size *= max(n, 1)
    if len(aval.shape) > 64 or size >= 2**63:
        raise ParseError(f"there can be no array {aval}", fix="use at most 64 axes and 2**63 bytes")


def aval_named(text: object) -> ShapeDtype:
    """Parse an aval as listings write it, ``f64[3,4]``."""
    found = _AVAL.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[1] not in DTYPES:
        raise ParseError(
            f"{shortened(text)} is not an aval", fix="write dtype and sizes, e.g. f64[3,4]"
        )
    aval = ShapeDtype(tuple([int(n) for n in found[2].split(",") if n]), DTYPES[found[1]])
    check_size(aval)
    return aval


def array_from_bytes(data: bytes, aval: ShapeDtype) -> Any:
    """Return the constant whose bytes are ``data``: an array, or a NumPy scalar for shape
    ``()``.
    """
    if len(data) != aval.nbytes:
        raise ParseError(
            f"{aval} needs {aval.nbytes} bytes, but {len(data)} are given",
            fix="do not edit encoded arrays",
        )
    array = np.frombuffer(data, aval.dtype.newbyteorder("<")).astype(aval.dtype).reshape(aval.shape)
    array.setflags(write=False)
    return array[()]


def repeated(
    value: np.ndarray[Any, Any] | np.generic, distinct: ShapeDtype, aval: ShapeDtype
) -> Any:
    """Return a constant that broadcasts a smaller one: a view, which takes no memory."""
    if distinct.dtype != aval.dtype:
        raise ParseError(
            f"{distinct} is broadcast, but the constant is {aval}", fix="do not edit constants"
        )
    try:
        return np.broadcast_to(value, aval.shape)[()]
    except ValueError:
        raise ParseError(
            f"{distinct} cannot be broadcast to {aval}", fix="do not edit constants"
        ) from None


def named_dtype(name: object) -> np.dtype[Any]:
    """Look a dtype up by its short name."""
    if not isinstance(name, str) or name not in DTYPES:
        what = f"{shortened(name)} is not a value or a dtype"
        raise ParseError(what, fix="write dtypes as f64, f32, i64, bool …")
    return DTYPES[name]


def named_primitive(name: object, primitives: Mapping[str, Primitive]) -> Primitive:
    """Look a primitive up by its name in listings."""
    try:
        if isinstance(name, str):
            return primitives[name]
    except KeyError:
        pass
    raise ParseError(
        f"there is no primitive named {shortened(name)}",
        fix="check the spelling, or pass your own primitives: primitives={name: ...}",
    )


def named_ufunc(name: object) -> np.ufunc:
    """Look a ufunc up by its name; nothing else of NumPy is accessible."""
    if not isinstance(name, str) or name not in _UFUNCS:
        raise ParseError(f"NumPy has no ufunc named {shortened(name)}", fix="check the spelling")
    return _UFUNCS[name]


def integer(digits: str) -> int:
    """Parse an integer."""
    if len(digits) > LONGEST_NUMBER:
        raise ParseError(
            f"an integer of {len(digits)} digits", fix=f"use at most {LONGEST_NUMBER} digits"
        )
    return int(digits)


def place(
    file: object, line: object, function: object = "<program>", root: str | None = None
) -> SourceLine:
    """Read a position: files below a root keep their paths, others only their last part."""
    if not (
        isinstance(file, str)
        and isinstance(function, str)
        and type(line) is int
        and 0 <= line < _LARGEST_LINE
    ):
        what = f"({shortened(file)}, {shortened(line)}, {shortened(function)}) is not a position"
        raise ParseError(
            what, fix="write file, line and function, e.g. ('train.py', 14, 'predict')"
        )
    if not (file + function).isprintable():
        raise ParseError(
            f"the position {shortened(file)} is not printable",
            fix="escape it as Program.to_json() does",
        )
    if root is not None:
        path = os.path.normpath(os.path.join(root, file))
        if path.startswith(root.rstrip(os.sep) + os.sep):
            return SourceLine(path, line, function)
    return SourceLine(PurePath(file).name or file, line, function)


def shortened(value: object) -> str:
    """Return a shortened text of any value that was read."""
    if isinstance(value, str):
        return ascii(value if len(value) <= 60 else value[:57] + "...")
    return (
        repr(value)
        if value is None or isinstance(value, bool | float)
        else f"a {type(value).__name__}"
    )
