"""The JSON form of a program: versioned, with arrays in base64 (ir/load.py reads it, and never
executes code).

Variables are numbered in the order inputs, constants, results of equations. JSON values represent
themselves (a list is a tuple); everything else is an object with one key that names its kind, e.g.
``{"dtype": "f32"}``. Files are named without their directories, or relative to a root, so that no
path of the machine is exposed.

Layer: 0.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from functrace.errors import ArgumentError, ProgramError
from functrace.ir.aval import Constant, ShapeDtype, aval_of, dtype_name
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.ir.program import Program, Static
from functrace.keys import exact_bytes
from functrace.source import printable

VERSION = 2
"""Version of the JSON form (2: constants may be broadcast, or in another file); 1 is read, too."""
MOST_INLINE = 16
"""Constants of at most this many elements are written in the text."""
DEEPEST = 50
"""Maximum nesting depth of programs and tuples, for writing and reading."""
LONGEST_NUMBER = 1000
"""Maximum digits of an integer: far more than any dtype has."""
_LARGEST = 10**LONGEST_NUMBER
_WRITABLE = (
    "use numbers, strings, None, ..., dtypes, avals, slices, ufuncs, programs, or tuples of them"
)


def program_to_json(program: Program, root: str | os.PathLike[str] | None = None) -> str:
    """Return a program as JSON text.

    Args:
        program: the program.
        root: a directory; names of files below it are relative to it; of others, and without a
            root, only the last part is written.

    Raises:
        ProgramError: if a param has no written form, or a constant is a traced value.
    """
    return _json(_Encoder(root).program(program, 0))


def save_program(
    program: Program, path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
) -> None:
    """Write a program as JSON, and its large constants to an ``.npz`` file; see `Program.save`."""
    path = text_path(path)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    text = _json(_Encoder(root, arrays).program(program, 0))
    if arrays:
        np.savez(path.with_suffix(".npz"), allow_pickle=False, **arrays)
    path.write_text(text + "\n", encoding="utf-8")


def _json(encoded: dict[str, Any]) -> str:
    return json.dumps({"functrace_program": VERSION, **encoded}, allow_nan=False)


def text_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a program's text.

    Raises:
        ArgumentError: if it is the path of the file with its constants.
    """
    found = Path(path)
    if found.suffix == ".npz":
        raise ArgumentError(
            f"{found.name} is the file of constants beside a program's text",
            fix="name the text, e.g. step.json",
        )
    return found


# -- pieces that the text form shares --------------------------------------------------------------


def constant_array(value: Constant, name: str) -> np.ndarray[Any, Any]:
    """Return a constant as an array.

    Raises:
        ProgramError: if it is a traced value, which has no concrete value to write.
    """
    if not isinstance(value, np.ndarray | np.generic):
        raise ProgramError(
            f"constant {name} is a {type(value).__name__}, which cannot be written: it is abstract "
            "here",
            fix="make it an argument of the function, or write the program outside the transform "
            "that made it",
        )
    return np.asarray(value)


def without_repeats(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the distinct elements of an array that broadcast to its shape, if it is large."""
    if array.size <= MOST_INLINE or all(array.strides):
        return array
    distinct = array[tuple([slice(0, 1 if step == 0 else None) for step in array.strides])]
    if distinct.size == array.size:
        return array
    while distinct.ndim and len(distinct) == 1:
        distinct = distinct[0, ...]
    return distinct


def digest(data: bytes) -> str:
    """Return a digest that distinguishes the bytes of constants."""
    return hashlib.sha256(data).hexdigest()[:16]


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Return the elements in row-major order and little-endian bytes."""
    return exact_bytes(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False))


def unwritable(value: object, what: str) -> ProgramError:
    """Return the error for a param without a written form."""
    return ProgramError(
        f"{what} is a {type(value).__name__}, which has no written form: {value!r}", fix=_WRITABLE
    )


def check_depth(depth: int) -> int:
    """Return the depth of the elements of something at a depth.

    Raises:
        ProgramError: if it could not be read back.
    """
    if depth >= DEEPEST:
        raise ProgramError(
            f"more than {DEEPEST} programs and tuples in each other", fix="reduce the nesting"
        )
    return depth + 1


def number_is_writable(value: complex) -> bool:
    """Return True if a number has few enough digits to be read back."""
    return not isinstance(value, int) or -_LARGEST < value < _LARGEST


def written_number(value: int | float | complex, what: str) -> int | float | complex:
    """Return a number that can be read back, as Python's own type.

    Raises:
        ProgramError: if it is an integer of very many digits.
    """
    if not number_is_writable(value):
        raise ProgramError(
            f"{what} is an integer of more than {LONGEST_NUMBER} digits", fix=_WRITABLE
        )
    return (
        int(value)
        if isinstance(value, int)
        else complex(value)
        if isinstance(value, complex)
        else float(value)
    )


def plain_number(value: Static) -> Static:
    """Return a NumPy scalar in params as the equal Python number."""
    return (
        value.item()
        if isinstance(value, np.bool_ | np.integer | np.floating | np.complexfloating)
        else value
    )


# -- writing ---------------------------------------------------------------------------------------


class _Encoder:
    """Encoder of programs and static values as JSON data."""

    def __init__(
        self,
        root: str | os.PathLike[str] | None,
        arrays: dict[str, np.ndarray[Any, Any]] | None = None,
    ) -> None:
        self.root: str | None = None if root is None else os.path.abspath(os.fspath(root))
        self.arrays = arrays
        """Large constants by name, if they are not written into the text."""

    def constant(self, var: dict[str, Any], value: Constant) -> dict[str, Any]:
        """Return a constant: its elements, or where they are stored; repeated ones once."""
        whole = constant_array(value, str(var["name"]))
        array = without_repeats(whole)
        entry = (
            dict(var) if array.shape == whole.shape else {**var, "broadcast": repr(aval_of(array))}
        )
        data = array_bytes(array)
        if self.arrays is None or array.size <= MOST_INLINE:
            return {**entry, "data": base64.b64encode(data).decode("ascii")}
        name = f"constant{len(self.arrays)}"
        self.arrays[name] = np.frombuffer(data, array.dtype.newbyteorder("<")).reshape(array.shape)
        return {**entry, "array": name, "sha256": digest(data)}

    def program(self, program: Program, depth: int) -> dict[str, Any]:
        """Return a program at nesting depth ``depth``."""
        order = [*program.input_ids, *program.constant_values]
        order += [
            i for i, op in enumerate(program.ops) if op[0] is not INPUT and op[0] is not CONSTANT
        ]
        number = {i: k for k, i in enumerate(order)}
        variables = [{"name": var.name, "aval": repr(var.aval)} for var in program.variables]
        equations = [
            self.equation(program, i, number, variables, depth)
            for i in order
            if _is_equation(program, i)
        ]
        constants = [
            self.constant(variables[i], value) for i, value in program.constant_values.items()
        ]
        return {
            "name": printable(program.name),
            "inputs": [variables[i] for i in program.input_ids],
            "constants": constants,
            "equations": equations,
            "outputs": [number[i] for i in program.output_ids],
        }

    def equation(
        self,
        program: Program,
        i: int,
        number: dict[int, int],
        variables: list[dict[str, Any]],
        depth: int,
    ) -> dict[str, Any]:
        """Return the equation whose first result is variable ``i``."""
        primitive, operands, params = program.ops[i]
        what = f"a param of {primitive.name}"
        literals = program.literals
        equation: dict[str, Any] = {
            "primitive": primitive.name,
            "inputs": [
                number[k] if k >= 0 else {"literal": self.value(literals[~k], what, depth)}
                for k in operands
            ],
            "params": {
                name: self.value(p, what, depth)
                for name, p in zip(primitive.params, params, strict=True)
            },
            "outputs": variables[i : i + program.result_count(i)],
        }
        source = program.source(i)
        if source is not None:
            equation["source"] = [self.file(source.file), source.line, printable(source.function)]
        return equation

    def file(self, file: str) -> str:
        """Return the written name of a file."""
        path = PurePath(file)
        if self.root is not None and path.is_absolute() and path.is_relative_to(self.root):
            return printable(path.relative_to(self.root).as_posix())
        return printable(path.name or file)

    def value(self, value: Static, what: str, depth: int) -> Any:
        """Return a static value."""
        value = plain_number(value)
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | float | complex):
            value = written_number(value, what)
            if isinstance(value, complex):
                return {"complex": repr(value)}
            return (
                value if isinstance(value, int) or math.isfinite(value) else {"float": repr(value)}
            )
        if isinstance(value, type):
            if not issubclass(value, np.generic):
                raise unwritable(value, what)
            return {"dtype_type": dtype_name(np.dtype(value))}
        if type(value) is tuple:
            return [self.value(v, what, check_depth(depth)) for v in value]
        if value is ...:
            return {"ellipsis": True}
        match value:
            case np.dtype():
                return {"dtype": dtype_name(value)}
            case slice():
                return {
                    "slice": [
                        self.value(v, what, check_depth(depth))
                        for v in (value.start, value.stop, value.step)
                    ]
                }
            case bytes():
                return {"bytes": base64.b64encode(value).decode("ascii")}
            case ShapeDtype():
                return {"aval": repr(value)}
            case Program():
                return {"program": self.program(value, check_depth(depth))}
            case Primitive():
                return {"primitive": value.name}
            case np.ufunc() if getattr(np, value.__name__, None) is value:
                return {"ufunc": value.__name__}
            case _:
                raise unwritable(value, what)


def _is_equation(program: Program, i: int) -> bool:
    return program.ops[i][0] not in (INPUT, CONSTANT, RESULT)
