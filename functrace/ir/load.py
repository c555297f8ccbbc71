"""Reading a program back from JSON (ir/serial.py writes it).

Nothing is taken for granted: every entry's type is asked for, and what is not known is refused. See Note [Reading what
anybody wrote] in ir/reading.py.

Floor: 0.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from typing import Any, TypeVar

from functrace.errors import ParseError
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
    shortened,
)
from functrace.ir.serial import DEEPEST, VERSION
from functrace.ir.tape import Builder

_UNCHANGED = "pass what Program.to_json() returned, unchanged"
_Kind = TypeVar("_Kind")


def program_from_json(text: str, primitives: Mapping[str, Primitive], root: str | os.PathLike[str] | None = None) -> Program:
    """Read a program back from JSON text.

    Args:
        text: what `functrace.ir.serial.program_to_json` returned.
        primitives: by name.
        root: the directory that names of files are relative to, if it is known.

    Raises:
        ParseError: if the text is not a program, or of a version that is not known.
    """

    def whole() -> Program:
        data = _Decoder.loaded(text)
        if not isinstance(data, dict) or "functrace_program" not in data:
            raise ParseError("the JSON text is not a program", fix="pass what Program.to_json() returned")
        version = data.pop("functrace_program")
        if type(version) is not int or version != VERSION:
            raise ParseError(
                f"the program has version {version if type(version) is int else shortened(version)}, "
                f"but this functrace reads version {VERSION}",
                fix="write the program again with this functrace, or read it with the one that wrote it",
            )
        return _Decoder(primitives, root).program(data, 0)

    return read(whole, _UNCHANGED)


def _of_type(kind: type[_Kind], value: object, what: str) -> _Kind:
    if type(value) is not kind:
        words = {dict: "an object", list: "a list", str: "a string"}
        raise ParseError(f"{what} is {shortened(value)}, not {words[kind]}", fix=_UNCHANGED)
    return value


def _record(value: object, keys: tuple[str, ...], what: str) -> list[Any]:
    """Return the values of an object with exactly these keys."""
    data = _of_type(dict, value, what)
    if set(data) != set(keys):
        raise ParseError(f"{what} has the keys {shortened(', '.join(data))}, not {', '.join(keys)}", fix=_UNCHANGED)
    return [data[key] for key in keys]


class _Decoder:
    """Programs and static values from JSON data."""

    def __init__(self, primitives: Mapping[str, Primitive], root: str | os.PathLike[str] | None) -> None:
        self.primitives = primitives
        self.root = None if root is None else os.path.abspath(os.fspath(root))

    @staticmethod
    def loaded(text: object) -> Any:
        """Read JSON's own values."""

        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                raise ParseError("an object has a key twice", fix=_UNCHANGED)
            return found

        def refused(word: str) -> Any:
            raise ParseError(f"{word} is not JSON", fix=_UNCHANGED)

        text = _of_type(str, text, "the document")
        try:
            return json.loads(text, object_pairs_hook=unique, parse_int=integer, parse_constant=refused)
        except json.JSONDecodeError as error:
            what = f"line {error.lineno} is not JSON: {error.msg}"
            raise ParseError(what, fix="pass what Program.to_json() returned") from None

    def program(self, data: object, depth: int) -> Program:
        """Read a program that ``depth`` programs and tuples hold."""
        name, inputs, constants, equations, outputs = _record(
            data, ("name", "inputs", "constants", "equations", "outputs"), "the program"
        )
        if not _of_type(str, name, "the program's name").isprintable():
            raise ParseError(f"the program's name is {shortened(name)}", fix="use printable characters")
        tape = _Tape()
        for entry in _of_type(list, inputs, "the inputs"):
            var, aval = _record(entry, ("name", "aval"), "an input")
            tape.write(tape.builder.input(aval_named(aval)), var)
        for entry in _of_type(list, constants, "the constants"):
            var, aval, encoded = _record(entry, ("name", "aval", "data"), "a constant")
            aval = aval_named(aval)
            value = array_from_bytes(_from_base64(encoded, f"constant {shortened(var)}"), aval)
            tape.write(tape.builder.constant(value, aval), var)
        for entry in _of_type(list, equations, "the equations"):
            self.equation(tape, entry, depth)
        return Program.from_builder(
            tape.builder,
            [tape.variable(k) for k in _of_type(list, outputs, "the outputs")],
            name=name,
            names=tape.names,
            positions=[tape.positions.get(i) for i in range(len(tape.builder.ops))],
        )

    def equation(self, tape: _Tape, entry: object, depth: int) -> None:
        """Read an equation onto the tape."""
        data = dict(_of_type(dict, entry, "an equation"))
        source = data.pop("source", None)
        word, inputs, given, outputs = _record(data, ("primitive", "inputs", "params", "outputs"), "an equation")
        primitive = named_primitive(word, self.primitives)
        operands = tuple([self.operand(tape, x) for x in _of_type(list, inputs, "the inputs of an equation")])
        if set(_of_type(dict, given, "the params")) != set(primitive.params):
            what = f"{primitive} takes the params {primitive.params}, not {shortened(', '.join(given))}"
            raise ParseError(what, fix="write the program again with this functrace")
        values = [given[name] for name in primitive.params]
        params = tuple([self.value(v, depth) for v in values])
        first = append(tape.builder, primitive, operands, params)
        written = [_record(out, ("name", "aval"), "a result") for out in _of_type(list, outputs, "the outputs")]
        inferred, stated = tape.builder.avals[first:], [aval_named(aval) for _, aval in written]
        if inferred != stated:
            raise ParseError(f"{primitive} gives {inferred}, but the text says {stated}", fix="correct the avals")
        for k, (name, _) in enumerate(written):
            tape.write(first + k, name)
        if source is not None:
            tape.positions[first] = self.position(source), 0

    def operand(self, tape: _Tape, data: object) -> int:
        """Read an operand: a variable's number, or a literal."""
        if type(data) is not dict:
            return tape.variable(data)
        (literal,) = _record(data, ("literal",), "an operand")
        value = self.value(literal, 0)
        if type(value) not in (bool, int, float, complex):
            raise ParseError(f"the literal {shortened(value)} is not a number", fix="make arrays constants")
        return tape.builder.literal(value)

    def position(self, data: object) -> Any:
        """Read a position; its file is below the root, if there is one."""
        parts = _of_type(list, data, "a source")
        if len(parts) != 3:
            raise ParseError(f"a source has {len(parts)} parts", fix="write file, line and function")
        return place(*parts, root=self.root)

    def value(self, data: object, depth: int) -> Any:
        """Read a static value."""
        if type(data) is list:
            return tuple([self.value(v, _deeper(depth)) for v in data])
        if type(data) is not dict:
            return data
        if len(data) != 1:
            raise ParseError(f"a value has the keys {shortened(', '.join(data))}, not one", fix=_UNCHANGED)
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
                parts = self.value(_of_type(list, value, "a slice"), depth)
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
        raise ParseError(f"{shortened(kind)} is not a kind of value", fix="write the program again with this functrace")


class _Tape:
    """One program that is being read: variables are numbered in the order in which they are written."""

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
        """Return the variable of a number."""
        if type(number) is not int or not 0 <= number < len(self.ids):
            shown = number if type(number) is int else shortened(number)
            what = f"variable {shown} is used before it is written"
            raise ParseError(what, fix="list equations in the order of evaluation")
        return self.ids[number]


def _deeper(depth: int) -> int:
    if depth >= DEEPEST:
        raise ParseError(f"more than {DEEPEST} programs and tuples in each other", fix="nest less deeply")
    return depth + 1


def _from_base64(data: object, what: str) -> bytes:
    try:
        return base64.b64decode(_of_type(str, data, what), validate=True)
    except ParseError:
        raise
    except ValueError as error:  # binascii.Error is one; letters that are not ASCII give a plain one
        raise ParseError(f"{what} is not base64: {error}", fix="do not edit arrays") from None


def _number(kind: str, value: object) -> Any:
    try:
        return {"float": float, "complex": complex}[kind](_of_type(str, value, f"a {kind}"))
    except ParseError:
        raise
    except ValueError:
        raise ParseError(f"{shortened(value)} is not a {kind}", fix=_UNCHANGED) from None
