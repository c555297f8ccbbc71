"""The typed listing of a program, which parses back to an equal program.

::

    loss(x: f64[3], w: f64[3]) {
      const k: f64[3] = [1.0, 2.0, 3.0]
      a: f64[3] = mul x 2.0                 # train.py:3
      (q: f64[3], r: f64[3]) = divmod a k   # train.py:4
      c: f64[] = reduce_sum q {axes=(0,)}   # train.py:5
      return c
    }

A constant of more than 16 elements is written compressed, ``<f64[784,64] zlib:…>``, or abbreviated to a digest,
``<f64[784,64] #1a2b3c4d>``. A param that is a program is an indented listing between braces of its own.

Floor: 0.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from textwrap import indent
from typing import Any, NoReturn

import numpy as np

from functrace.errors import FunctraceError, ParseError
from functrace.ir.aval import ShapeDtype, dtype_name, dtype_named
from functrace.ir.primitive import Primitive
from functrace.ir.program import Equation, Literal, Position, Program, Var, exact_bytes, position_at
from functrace.ir.serial import (
    array_bytes,
    array_from_bytes,
    aval_named,
    constant_array,
    named_primitive,
    named_ufunc,
    plain_number,
    unwritable,
)
from functrace.ir.tape import Builder

MOST_INLINE = 16
"""Constants of at most this many elements are written out."""
_WIDEST_ALIGNED = 72
"""Comments line up behind equations up to this width."""


# -- writing -------------------------------------------------------------------------------------------


def program_text(program: Program, *, full: bool) -> str:
    """Return the listing; with ``full``, large constants are written compressed instead of abbreviated.

    Raises:
        ProgramError: with ``full``, if a param has no written form or a constant is a traced value.
    """
    lines = [f"const {var!r} = {_constant_text(var, value, full)}" for var, value in program.constants.items()]
    equations = [(equation_text(equation, full=full), equation.source) for equation in program.equations]
    widths = [len(text) for text, source in equations if source is not None and "\n" not in text]
    width = max((n for n in widths if n <= _WIDEST_ALIGNED), default=0)
    lines += [text if source is None else f"{text:<{width}}  # {source.short}" for text, source in equations]
    lines.append(("return " + ", ".join(str(var.name) for var in program.outputs)).rstrip())
    inputs = ", ".join(map(repr, program.inputs))
    return f"{_listing_name(program.name)}({inputs}) {{\n" + indent("\n".join(lines), "  ") + "\n}"


def equation_text(equation: Equation, *, full: bool = False) -> str:
    """Return an equation as its line in the listing, without the comment."""
    outputs = ", ".join(map(repr, equation.outputs))
    if len(equation.outputs) != 1:
        outputs = f"({outputs})"
    inputs = [repr(x.value) if isinstance(x, Literal) else str(x.name) for x in equation.inputs]
    text = " ".join([f"{outputs} = {equation.primitive.name}", *inputs])
    params = ", ".join(f"{k}={_param_text(v, equation.primitive.name, full)}" for k, v in equation.params.items())
    return f"{text} {{{params}}}" if params else text


def inline_elements(array: np.ndarray[Any, Any]) -> list[str] | None:
    """Return the elements as text that reads back to the same bytes, or ``None`` if there is none or too much of it."""
    if array.size > MOST_INLINE:
        return None
    texts = [str(element) for element in array.ravel()]
    read = np.array([_element(text, array.dtype) for text in texts], array.dtype)
    return texts if exact_bytes(read) == exact_bytes(array) else None


def _listing_name(name: str) -> str:
    return name if re.fullmatch(r"<\w+>|[^\W\d]\w*", name) else re.sub(r"\W", "_", name).lstrip("0123456789") or "program"


def _constant_text(var: Var, value: Any, full: bool) -> str:
    if not full and not isinstance(value, np.ndarray | np.generic):
        return f"<{var.aval} traced>"
    array = np.ascontiguousarray(constant_array(value, str(var.name))).reshape(var.aval.shape)
    texts = inline_elements(array)
    if texts is not None:
        return _nested(iter(texts), array.shape)
    data = array_bytes(array)
    if full:
        return f"<{var.aval} zlib:{base64.b64encode(zlib.compress(data)).decode('ascii')}>"
    return f"<{var.aval} #{hashlib.sha256(data).hexdigest()[:8]}>"


def _nested(texts: Any, shape: tuple[int, ...]) -> str:
    if not shape:
        return next(texts)
    return "[" + ", ".join(_nested(texts, shape[1:]) for _ in range(shape[0])) + "]"


def _param_text(value: Any, owner: str, full: bool) -> str:
    value = plain_number(value)
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int | float | complex):
        return repr(value)
    if type(value) is tuple:
        inner = ", ".join(_param_text(v, owner, full) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, type) and issubclass(value, np.generic):
        return f"type {dtype_name(np.dtype(value))}"
    match value:
        case _ if value is Ellipsis:
            return "..."
        case np.dtype():
            return dtype_name(value)
        case ShapeDtype():
            return repr(value)
        case slice():
            return f"slice {_param_text((value.start, value.stop, value.step), owner, full)}"
        case bytes():
            return f"bytes {json.dumps(base64.b64encode(value).decode('ascii'))}"
        case Primitive():
            return f"@{value.name}"
        case Program():
            return "{\n" + indent(program_text(value, full=full), "  ") + "\n}"
        case np.ufunc() if getattr(np, value.__name__, None) is value:
            return f"np.{value.__name__}"
    if not full:
        return f"<{type(value).__name__}>"
    raise unwritable(value, f"a param of {owner}")


# -- reading -------------------------------------------------------------------------------------------

_NUMBER = r"(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf|nan)"
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r]+)|(?P<newline>\n)|(?P<comment>\#[^\n]*)
    |(?P<blob><\w+\[[\d,]*\][ ][^>\n]*>)|(?P<angle><\w+>)
    |(?P<complex>\([-+]?{_NUMBER}[-+]{_NUMBER}j\)|[-+]?{_NUMBER}j(?!\w))
    |(?P<number>[-+]?{_NUMBER}(?![\w.]))
    |(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<name>[^\W\d]\w*(?:\.\w+)*)|(?P<dots>\.\.\.)|(?P<mark>[()\[\]{{}}:,=@])""",
    re.VERBOSE,
)
_WORDS = {"None": None, "True": True, "False": False}


def parse_program(text: str, primitives: Mapping[str, Primitive]) -> Program:
    """Read a program back from its listing.

    Raises:
        ParseError: with the line that could not be read.
    """
    parser = _Parser(text, primitives)
    parser.skip_lines()
    program = parser.program()
    parser.skip_lines()
    if parser.kind != "end":
        parser.fail(f"nothing can follow the program's closing brace, but {parser.token!r} does")
    return program


def _element(text: str, dtype: np.dtype[Any]) -> Any:
    """Read one element of a constant in the precision of its dtype."""
    if dtype.kind == "b":
        return {"True": True, "False": False}[text]
    if dtype.kind in "iu":
        return int(text)
    return dtype.type(text) if dtype.kind == "f" else complex(text)


class _Parser:
    """Reads tokens one by one; ``kind`` and ``token`` are the next one."""

    def __init__(self, text: str, primitives: Mapping[str, Primitive]) -> None:
        self.text, self.primitives = text, primitives
        self.at, self.line, self.comment = 0, 1, ""
        self.kind, self.token = "newline", ""
        self.advance()

    def fail(self, what: str, fix: str = "write it as Program.text() does") -> NoReturn:
        """Raise with the line that is being read."""
        lines = self.text.splitlines()
        shown = lines[self.line - 1].strip() if self.line <= len(lines) else "(end of the text)"
        shown = shown if len(shown) <= 120 else shown[:117] + "..."
        raise ParseError(f"line {self.line}: {what}\n    {shown}", fix=fix)

    def advance(self) -> str:
        """Take the next token; returns the one before it."""
        taken = self.token
        if self.kind == "newline" and taken:
            self.line += 1
        while True:
            if self.at >= len(self.text):
                self.kind, self.token = "end", ""
                return taken
            found = _TOKEN.match(self.text, self.at)
            if found is None:
                self.fail(f"{self.text[self.at]!r} cannot be read")
            self.at = found.end()
            if found.lastgroup == "comment":
                self.comment = found.group()
            elif found.lastgroup != "space":
                self.kind, self.token = str(found.lastgroup), found.group()
                return taken

    def skip_lines(self) -> None:
        """Skip ends of lines, where they mean nothing."""
        while self.kind == "newline":
            self.advance()

    def expect(self, mark: str) -> None:
        """Take a given mark."""
        if self.token != mark or self.kind == "end":
            self.fail(f"expected {mark!r}, found {self._shown()}")
        self.advance()

    def accept(self, mark: str) -> bool:
        """Take a mark if it comes next."""
        if self.kind != "mark" or self.token != mark:
            return False
        self.advance()
        return True

    def name(self, what: str) -> str:
        """Take a name."""
        if self.kind != "name":
            self.fail(f"expected {what}, found {self._shown()}")
        return self.advance()

    def _shown(self) -> str:
        return {"newline": "the end of the line", "end": "the end of the text"}.get(self.kind, repr(self.token))

    def program(self) -> Program:
        """``name(inputs) { lines }``."""
        return _Listing(self).read()

    def variable(self) -> tuple[str, ShapeDtype]:
        """``x: f64[3]``."""
        name = self.name("the name of a variable")
        self.expect(":")
        return name, self.aval(self.name("a dtype"))

    def aval(self, dtype: str) -> ShapeDtype:
        """``[3,4]`` after a dtype."""
        self.expect("[")
        sizes = []
        while not self.accept("]"):
            if self.kind != "number" or not self.token.isdigit():
                self.fail(f"expected a size, found {self._shown()}")
            sizes.append(self.advance())
            if not self.accept(","):
                self.expect("]")
                break
        try:
            return aval_named(f"{dtype}[{','.join(sizes)}]")
        except ParseError as error:
            self.fail(error.what, fix="write dtype and sizes, e.g. f64[3,4]")

    def number(self) -> Any:
        """A Python number."""
        if self.kind == "complex":
            return complex(self.advance())
        token = self.advance()
        return int(token) if token.lstrip("+-").isdigit() else float(token)

    def string(self) -> str:
        """A string between double quotes."""
        if self.kind != "string":
            self.fail(f"expected a string, found {self._shown()}")
        try:
            return json.loads(self.token)
        except json.JSONDecodeError as error:
            self.fail(f"the string cannot be read: {error.msg}")
        finally:
            self.advance()

    def value(self) -> Any:
        """A param."""
        if self.kind in ("number", "complex"):
            return self.number()
        if self.kind == "string":
            return self.string()
        if self.kind == "dots":
            self.advance()
            return Ellipsis
        if self.accept("("):
            return self.tuple()
        if self.accept("@"):
            return self.lookup(named_primitive, self.name("the name of a primitive"), self.primitives)
        if self.accept("{"):
            self.skip_lines()
            found = self.program()
            self.skip_lines()
            self.expect("}")
            return found
        word = self.name("a value")
        if word in _WORDS:
            return _WORDS[word]
        if word.startswith("np."):
            return self.lookup(named_ufunc, word.removeprefix("np."))
        if word == "slice":
            self.expect("(")
            return slice(*self.tuple())
        if word == "bytes":
            return base64.b64decode(self.string())
        if word == "type":
            return self.lookup(self._dtype, self.name("a dtype")).type
        return self.aval(word) if self.token == "[" else self.lookup(self._dtype, word)

    def tuple(self) -> tuple[Any, ...]:
        """Values up to the closing parenthesis."""
        values = []
        while not self.accept(")"):
            values.append(self.value())
            if not self.accept(","):
                self.expect(")")
                break
        return tuple(values)

    def lookup(self, function: Any, *args: Any) -> Any:
        """Call a look-up whose errors do not know the line."""
        try:
            return function(*args)
        except FunctraceError as error:
            self.fail(error.what, fix=error.fix or "write it as Program.text() does")

    @staticmethod
    def _dtype(name: str) -> np.dtype[Any]:
        try:
            return dtype_named(name)
        except KeyError:
            raise ParseError(f"{name!r} is not a value or a dtype", fix="write dtypes as f64, f32, i64, bool …") from None

    def constant(self, aval: ShapeDtype) -> Any:
        """The value of a constant."""
        if self.kind == "blob":
            return self.blob(aval)
        texts: list[str] = []
        if self.elements(texts) != aval.shape and aval.size:
            self.fail(f"the nest of values does not have the shape of {aval}")
        try:
            values = [_element(text, aval.dtype) for text in texts]
            return np.array(values, aval.dtype).reshape(aval.shape)[()]
        except (KeyError, ValueError, OverflowError) as error:
            self.fail(f"the values do not fit {aval}: {error}")

    def elements(self, texts: list[str]) -> tuple[int, ...]:
        """Collect the leaves of nested brackets; returns the shape of the nest."""
        if self.kind in ("number", "complex") or self.token in ("True", "False"):
            texts.append(self.advance())
            return ()
        self.expect("[")
        shapes = []
        while not self.accept("]"):
            shapes.append(self.elements(texts))
            if not self.accept(","):
                self.expect("]")
                break
        if len(set(shapes)) > 1:
            self.fail("the nest of values is ragged")
        return (len(shapes), *(shapes[0] if shapes else ()))

    def blob(self, aval: ShapeDtype) -> Any:
        """``<f64[784,64] zlib:…>``."""
        stated, _, body = self.token[1:-1].partition(" ")
        if not body.startswith("zlib:"):
            self.fail(
                f"the constant {self.token} is abbreviated, its values are not in the text",
                fix="parse program.text(), which holds all values, instead of str(program)",
            )
        if self.lookup(aval_named, stated) is not aval:
            self.fail(f"the value is {stated}, but the constant is {aval}")
        try:
            # Never more bytes than the aval says, whatever the compressed text claims.
            data = zlib.decompressobj().decompress(base64.b64decode(body[5:], validate=True), aval.nbytes + 1)
            value = array_from_bytes(data, aval)
        except (binascii.Error, zlib.error, ParseError) as error:
            self.fail(f"the encoded constant is damaged: {getattr(error, 'what', error)}", fix="do not edit encoded arrays")
        self.advance()
        return value


class _Listing:
    """One program that is being read: the tape, and which names stand for which variables."""

    def __init__(self, parser: _Parser) -> None:
        self.parser, self.builder = parser, Builder()
        self.ids: dict[str, int] = {}
        self.positions: dict[int, Position] = {}

    def read(self) -> Program:
        """Read up to the closing brace."""
        parser = self.parser
        name = parser.advance() if parser.kind == "angle" else parser.name("the program's name")
        parser.expect("(")
        parser.skip_lines()
        while not parser.accept(")"):
            var, aval = parser.variable()
            self.write(var, self.builder.input(aval))
            parser.skip_lines()
            if not parser.accept(","):
                parser.expect(")")
                break
            parser.skip_lines()
        parser.expect("{")
        outputs = None
        while outputs is None:
            parser.skip_lines()
            outputs = self.statement()
        parser.skip_lines()
        parser.expect("}")
        return Program.from_builder(
            self.builder,
            outputs,
            name=name,
            names={i: name for name, i in self.ids.items()},
            positions=[self.positions.get(i) for i in range(len(self.builder.ops))],
        )

    def statement(self) -> list[int] | None:
        """Read one constant, equation or ``return``; returns the outputs if it was the latter."""
        parser = self.parser
        if parser.accept("("):
            written = [parser.variable()]
            while parser.accept(","):
                written.append(parser.variable())
            parser.expect(")")
            self.equation(written)
            return None
        word = parser.name("an equation, `const` or `return`")
        if word == "return":
            return self.returned()
        if word == "const" and parser.token != ":":
            name, aval = parser.variable()
            parser.expect("=")
            self.write(name, self.builder.constant(parser.constant(aval), aval))
            return None
        parser.expect(":")
        self.equation([(word, parser.aval(parser.name("a dtype")))])
        return None

    def returned(self) -> list[int]:
        outputs: list[int] = []
        while self.parser.kind == "name":
            outputs.append(self.variable())
            if not self.parser.accept(","):
                break
        return outputs

    def equation(self, written: list[tuple[str, ShapeDtype]]) -> None:
        """Read ``= primitive operands {params}``."""
        parser = self.parser
        parser.expect("=")
        primitive = parser.lookup(named_primitive, parser.name("the name of a primitive"), parser.primitives)
        operands = []
        while parser.kind in ("name", "number", "complex"):
            if parser.kind == "name" and parser.token not in _WORDS:
                operands.append(self.variable())
            else:
                value = _WORDS[parser.advance()] if parser.kind == "name" else parser.number()
                operands.append(self.builder.literal(value))
        given = self.params()
        if set(given) != set(primitive.params):
            parser.fail(f"{primitive.name} takes the params {primitive.params}, not {tuple(given)}")
        params = tuple(given[name] for name in primitive.params)
        first = self.append(primitive, tuple(operands), params)
        inferred = self.builder.avals[first:]
        if inferred != [aval for _, aval in written]:
            shown = ", ".join(map(repr, inferred))
            parser.fail(f"{primitive.name} gives {shown} here", fix="correct the avals before the equals sign")
        for k, (name, _) in enumerate(written):
            self.write(name, first + k)
        parser.comment = ""
        if parser.kind not in ("newline", "end") and parser.token != "}":
            parser.fail(f"expected the end of the line, found {parser.token!r}")

    def append(self, primitive: Primitive, operands: tuple[int, ...], params: tuple[Any, ...]) -> int:
        source = re.fullmatch(r"#\s*(.+):(\d+)\s*", self.parser.comment)
        try:
            first = self.builder.append(primitive, operands, tuple(map(self.builder.spec, operands)), params)
        except FunctraceError as error:
            self.parser.fail(error.what, fix=error.fix or "correct the operands")
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            self.parser.fail(f"{primitive.name} does not take these operands: {error}", fix="correct the operands")
        if source is not None:
            self.positions[first] = position_at(source[1], int(source[2]))
        return first

    def params(self) -> dict[str, Any]:
        parser, given = self.parser, {}
        if not parser.accept("{"):
            return given
        while not parser.accept("}"):
            parser.skip_lines()
            name = parser.name("the name of a param")
            parser.expect("=")
            given[name] = parser.value()
            parser.skip_lines()
            if not parser.accept(","):
                parser.expect("}")
                break
        return given

    def variable(self) -> int:
        name = self.parser.token
        if name not in self.ids:
            self.parser.fail(f"variable {name} is used before it is written", fix="write it in an earlier line")
        self.parser.advance()
        return self.ids[name]

    def write(self, name: str, variable: int) -> None:
        if name in self.ids:
            self.parser.fail(f"variable {name} is written twice", fix="give every equation new names")
        self.ids[name] = variable
