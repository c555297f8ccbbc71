"""Read a program back from JSON (ir/serial.py writes it).

The reader validates the type of every entry, and rejects what it does not recognize. See Note
[Reading what anybody wrote] in ir/reading.py.

Layer: 0.
"""

from __future__ import annotations

import base64
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from functrace.errors import ParseError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Position, Program, is_name
from functrace.ir.reading import (
    append,
    array_from_bytes,
    aval_named,
    integer,
    named_dtype,
    named_primitive,
    named_ufunc,
    place,
    read,
    repeated,
    shortened,
)
from functrace.ir.serial import DEEPEST, VERSION, digest, text_path
from functrace.ir.tape import Builder

_UNCHANGED = "pass what Program.to_json() returned, unchanged"
_TOGETHER = "keep the two files that Program.save wrote together"
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A JSON value."""


Arrays: TypeAlias = Callable[[str, ShapeDtype], bytes]
"""Returns the bytes of an array with the given name and aval."""


def load_program(
    path: str | os.PathLike[str],
    primitives: Mapping[str, Primitive],
    root: str | os.PathLike[str] | None = None,
) -> Program:
    """Read a program, and its large constants from its ``.npz`` file; see `Program.load`."""
    path = text_path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        what = f"byte {error.start} of {path.name} is not UTF-8: {error.reason}"
        raise ParseError(what, fix="pass a file that Program.save has written") from None
    return program_from_json(
        text, primitives, root, partial(_array_beside, path.with_suffix(".npz"))
    )


def _array_beside(path: Path, name: str, aval: ShapeDtype) -> bytes:
    """Return the bytes of an uncompressed array in an ``.npz`` file, after checking its aval.

    So memory use is bounded by the file size, and nothing is unpickled.
    """
    what = f"array {shortened(name)} of {path.name}"
    unfit = ParseError(f"{what} is not one of {aval}", fix=_TOGETHER)
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            if archive.getinfo(f"{name}.npy").compress_type != zipfile.ZIP_STORED:
                raise unfit
            if np.lib.format.read_magic(file) != (1, 0):
                raise unfit
            shape, is_turned, dtype = np.lib.format.read_array_header_1_0(file)
            if (
                shape != aval.shape
                or dtype != aval.dtype.newbyteorder("<")
                or (is_turned and len(shape) > 1)
            ):
                raise unfit
            return file.read(aval.nbytes + 1)
    except FileNotFoundError:
        raise ParseError(f"{path.name} is missing, which holds {what}", fix=_TOGETHER) from None
    except (KeyError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        if error is unfit:
            raise
        raise ParseError(f"{what} cannot be read: {error}", fix=_TOGETHER) from None


def program_from_json(
    text: str,
    primitives: Mapping[str, Primitive],
    root: str | os.PathLike[str] | None = None,
    arrays: Arrays | None = None,
) -> Program:
    """Read a program back from JSON text.

    Args:
        text: what `functrace.ir.serial.program_to_json` returned.
        primitives: by name.
        root: the directory that file names are relative to, if there is one.
        arrays: finds constants that are not in the text.

    Raises:
        ParseError: if the text is not a program, or its version is unknown.
    """

    def whole() -> Program:
        data = _Decoder.loaded(text)
        if not isinstance(data, dict) or "functrace_program" not in data:
            raise ParseError(
                "the JSON text is not a program", fix="pass what Program.to_json() returned"
            )
        version = data.pop("functrace_program")
        if type(version) is not int or not 1 <= version <= VERSION:
            raise ParseError(
                "the program has version "
                f"{version if type(version) is int else shortened(version)}, "
                f"but this functrace reads versions up to {VERSION}",
                fix="write the program again with this functrace, or read it with the one that "
                "wrote it",
            )
        return _Decoder(primitives, root, arrays).program(data, 0)

    return read(whole, _UNCHANGED)


def _object(value: Json, what: str) -> dict[str, Json]:
    if type(value) is not dict:
        raise ParseError(f"{what} is {shortened(value)}, not an object", fix=_UNCHANGED)
    return value


def _list(value: Json, what: str) -> list[Json]:
    if type(value) is not list:
        raise ParseError(f"{what} is {shortened(value)}, not a list", fix=_UNCHANGED)
    return value


def _text(value: object, what: str) -> str:
    if type(value) is not str:
        raise ParseError(f"{what} is {shortened(value)}, not a string", fix=_UNCHANGED)
    return value


def _record(value: Json, keys: tuple[str, ...], what: str) -> list[Json]:
    """Return the values of an object with exactly these keys."""
    data = _object(value, what)
    if set(data) != set(keys):
        raise ParseError(
            f"{what} has the keys {shortened(', '.join(data))}, not {', '.join(keys)}",
            fix=_UNCHANGED,
        )
    return [data[key] for key in keys]


class _Decoder:
    """Programs and static values from JSON data."""

    def __init__(
        self,
        primitives: Mapping[str, Primitive],
        root: str | os.PathLike[str] | None,
        arrays: Arrays | None = None,
    ) -> None:
        self.primitives = primitives
        self.arrays = arrays
        self.root: str | None = None if root is None else os.path.abspath(os.fspath(root))

    @staticmethod
    def loaded(text: object) -> Json:
        """Parse JSON text, strictly."""

        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                raise ParseError("an object has a key twice", fix=_UNCHANGED)
            return found

        def refused(word: str) -> Any:
            raise ParseError(f"{word} is not JSON", fix=_UNCHANGED)

        text = _text(text, "the document")
        try:
            return json.loads(
                text, object_pairs_hook=unique, parse_int=integer, parse_constant=refused
            )
        except json.JSONDecodeError as error:
            what = f"line {error.lineno} is not JSON: {error.msg}"
            raise ParseError(what, fix="pass what Program.to_json() returned") from None

    def program(self, data: Json, depth: int) -> Program:
        """Read a program at nesting depth ``depth``."""
        name, inputs, constants, equations, outputs = _record(
            data, ("name", "inputs", "constants", "equations", "outputs"), "the program"
        )
        if not _text(name, "the program's name").isprintable():
            raise ParseError(
                f"the program's name is {shortened(name)}", fix="use printable characters"
            )
        tape = _LoadedTape()
        for entry in _list(inputs, "the inputs"):
            var, aval = _record(entry, ("name", "aval"), "an input")
            tape.write(tape.builder.input(aval_named(aval)), var)
        for entry in _list(constants, "the constants"):
            var, aval, value = self.constant(entry)
            tape.write(tape.builder.constant(value, aval), var)
        for entry in _list(equations, "the equations"):
            self.equation(tape, entry, depth)
        return Program.from_builder(
            tape.builder,
            [tape.variable(k) for k in _list(outputs, "the outputs")],
            name=name,
            names=tape.names,
            positions=[tape.positions.get(i) for i in range(len(tape.builder.ops))],
        )

    def constant(self, entry: Json) -> tuple[Json, ShapeDtype, Any]:
        """Return the name, the aval and the value of a constant."""
        data = dict(_object(entry, "a constant"))
        written = data.pop("broadcast", None)
        is_beside = "array" in data
        var, name, *rest = _record(
            data, ("name", "aval", *(("array", "sha256") if is_beside else ("data",))), "a constant"
        )
        aval = aval_named(name)
        distinct = aval if written is None else aval_named(written)
        read = (
            self.beside(rest[0], rest[1], distinct)
            if is_beside
            else _from_base64(rest[0], f"constant {shortened(var)}")
        )
        value = array_from_bytes(read, distinct)
        return var, aval, value if written is None else repeated(value, distinct, aval)

    def beside(self, name: Json, stated: Json, aval: ShapeDtype) -> bytes:
        """Return the bytes of a constant that is stored in the ``.npz`` file."""
        what = f"array {shortened(name)}"
        if self.arrays is None:
            raise ParseError(
                f"{what} stands in another file",
                fix="read it with Program.load, from where Program.save wrote it",
            )
        data = self.arrays(_text(name, "the name of an array"), aval)
        if digest(data) != stated:
            raise ParseError(f"{what} is not the one that was saved", fix=_TOGETHER)
        return data

    def equation(self, tape: _LoadedTape, entry: Json, depth: int) -> None:
        """Read an equation onto the tape."""
        data = dict(_object(entry, "an equation"))
        source = data.pop("source", None)
        word, inputs, given, outputs = _record(
            data, ("primitive", "inputs", "params", "outputs"), "an equation"
        )
        primitive = named_primitive(word, self.primitives)
        operands = tuple(
            [self.operand(tape, x) for x in _list(inputs, "the inputs of an equation")]
        )
        named = _object(given, "the params")
        if set(named) != set(primitive.params):
            what = f"{primitive} takes the params {primitive.params}, not {shortened(', '.join(named))}"
            raise ParseError(what, fix="write the program again with this functrace")
        params = tuple([self.value(named[name], depth) for name in primitive.params])
        first = append(tape.builder, primitive, operands, params)
        written = [
            _record(out, ("name", "aval"), "a result") for out in _list(outputs, "the outputs")
        ]
        inferred, stated = tape.builder.avals[first:], [aval_named(aval) for _, aval in written]
        if inferred != stated:
            raise ParseError(
                f"{primitive} gives {inferred}, but the text says {stated}", fix="correct the avals"
            )
        for k, (name, _) in enumerate(written):
            tape.write(first + k, name)
        if source is not None:
            tape.positions[first] = self.position(source), 0

    def operand(self, tape: _LoadedTape, data: Json) -> int:
        """Read an operand: a variable's number, or a literal."""
        if type(data) is not dict:
            return tape.variable(data)
        (literal,) = _record(data, ("literal",), "an operand")
        value = self.value(literal, 0)
        if type(value) not in (bool, int, float, complex):
            raise ParseError(
                f"the literal {shortened(value)} is not a number", fix="make arrays constants"
            )
        return tape.builder.literal(value)

    def position(self, data: Json) -> Any:
        """Read a position; its file is relative to the root, if there is one."""
        parts = _list(data, "a source")
        if len(parts) != 3:
            raise ParseError(
                f"a source has {len(parts)} parts", fix="write file, line and function"
            )
        return place(*parts, root=self.root)

    def value(self, data: Json, depth: int) -> Any:
        """Read a static value."""
        if type(data) is list:
            return tuple([self.value(v, _deeper(depth)) for v in data])
        if type(data) is not dict:
            return data
        if len(data) != 1:
            raise ParseError(
                f"a value has the keys {shortened(', '.join(data))}, not one", fix=_UNCHANGED
            )
        ((kind, value),) = data.items()
        match kind:
            case "float" | "complex":
                return _number(kind, value)
            case "dtype":
                return named_dtype(value)
            case "dtype_type":
                return named_dtype(value).type
            case "ellipsis":
                return Ellipsis
            case "slice":
                parts = self.value(_list(value, "a slice"), depth)
                if len(parts) == 3:
                    return slice(*parts)
                raise ParseError(f"a slice has three parts, not {len(parts)}", fix=_UNCHANGED)
            case "bytes":
                return _from_base64(value, "a param")
            case "aval":
                return aval_named(value)
            case "program":
                return self.program(value, _deeper(depth))
            case "primitive":
                return named_primitive(value, self.primitives)
            case "ufunc":
                return named_ufunc(value)
            case _:
                what = f"{shortened(kind)} is not a kind of value"
                raise ParseError(what, fix="write the program again with this functrace")


class _LoadedTape:
    """Tape of one program that is being read: variables are numbered in order of definition."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.ids: list[int] = []
        self.names: dict[int, str] = {}
        self.positions: dict[int, Position] = {}

    def write(self, variable: int, name: object) -> None:
        """Number and name a variable."""
        if not (isinstance(name, str) and is_name(name)):
            what = f"{shortened(name)} cannot be the name of a variable"
            raise ParseError(what, fix="use another name, in NFKC")
        self.ids.append(variable)
        self.names[variable] = name

    def variable(self, number: object) -> int:
        """Return the variable with a number."""
        if type(number) is not int or not 0 <= number < len(self.ids):
            shown = number if type(number) is int else shortened(number)
            what = f"variable {shown} is used before it is written"
            raise ParseError(what, fix="list equations in the order of evaluation")
        return self.ids[number]


def _deeper(depth: int) -> int:
    if depth >= DEEPEST:
        raise ParseError(
            f"more than {DEEPEST} programs and tuples in each other", fix="reduce the nesting"
        )
    return depth + 1


def _from_base64(data: object, what: str) -> bytes:
    try:
        return base64.b64decode(_text(data, what), validate=True)
    except ParseError:
        raise
    except ValueError as error:  # binascii.Error, or ValueError for non-ASCII letters
        raise ParseError(f"{what} is not base64: {error}", fix="do not edit arrays") from None


def _number(kind: str, value: object) -> Any:
    try:
        return {"float": float, "complex": complex}[kind](_text(value, f"a {kind}"))
    except ParseError:
        raise
    except ValueError:
        raise ParseError(f"{shortened(value)} is not a {kind}", fix=_UNCHANGED) from None
