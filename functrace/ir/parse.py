"""Parse a program from its listing (ir/text.py writes it).

See Note [Reading what anybody wrote] in ir/reading.py: every pattern matches in linear time.

Layer: 0.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from functrace.errors import FunctraceError, ParseError
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
from functrace.ir.serial import DEEPEST
from functrace.ir.tape import Builder
from functrace.ir.text import element_of

if TYPE_CHECKING:
    from functrace.typing import T, Ts

_MOST_DEFLATED = 1100
"""Upper bound for the bytes that one byte of zlib data expands to (1032, more for short data)."""
_MOST_AXES = 64
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|inf|nan)"
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r]+)|(?P<newline>\n)|(?P<comment>\#[^\n]*)
    |(?P<blob><\w+\[[\d,]*\][ ][^>\n]*>)|(?P<angle><\w+>)
    |(?P<complex>\([-+]?{_NUMBER}[-+]{_NUMBER}j\)|[-+]?{_NUMBER}j(?!\w))
    |(?P<number>[-+]?{_NUMBER}(?![\w.]))
    |(?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*")|(?P<name>[^\W\d]\w*(?:\.\w+)*)|(?P<dots>\.\.\.)|(?P<mark>[()\[\]{{}}:,=@])""",
    re.VERBOSE,
)
_WORDS = {"None": None, "True": True, "False": False}
_AS_WRITTEN = "write it as Program.text() does"


def parse_program(text: object, primitives: Mapping[str, Primitive]) -> Program:
    """Read a program back from its listing.

    Raises:
        ParseError: with the line that is invalid.
    """
    if not isinstance(text, str):
        raise ParseError(
            f"a {type(text).__name__} is not a text", fix="pass what Program.text() returned"
        )
    parser = _Parser(text, primitives)

    def whole() -> Program:
        parser.advance()
        parser.skip_lines()
        program = parser.program()
        parser.skip_lines()
        if parser.kind != "end":
            parser.fail(
                f"nothing can follow the program's closing brace, but {shortened(parser.token)} "
                "does"
            )
        return program

    return read(whole, _AS_WRITTEN)


class _Parser:
    """Tokenizer and parser; ``kind`` and ``token`` are the lookahead."""

    def __init__(self, text: str, primitives: Mapping[str, Primitive]) -> None:
        self.text, self.primitives = text, primitives
        self.at, self.line, self.depth = 0, 1, 0
        self.comment = (0, "")
        self.kind, self.token = "newline", ""

    def fail(self, what: str, fix: str = _AS_WRITTEN) -> NoReturn:
        """Raise with the current line."""
        lines = self.text.split("\n", self.line)
        shown = lines[self.line - 1].strip() if self.line <= len(lines) else "(end of the text)"
        shown = shown if len(shown) <= 120 else shown[:117] + "..."
        raise ParseError(f"line {self.line}: {what}\n    {shown}", fix=fix)

    def advance(self) -> str:
        """Consume the lookahead token and return it."""
        taken = self.token
        if self.kind == "newline" and taken:
            self.line += 1
        while True:
            if self.at >= len(self.text):
                self.kind, self.token = "end", ""
                return taken
            found = _TOKEN.match(self.text, self.at)
            if found is None:
                self.fail(f"{shortened(self.text[self.at])} cannot be read")
            self.at = found.end()
            if found.lastgroup == "comment":
                self.comment = self.line, found.group()
            elif found.lastgroup != "space":
                self.kind, self.token = str(found.lastgroup), found.group()
                return taken

    def skip_lines(self) -> None:
        """Skip newlines."""
        while self.kind == "newline":
            self.advance()

    def expect(self, mark: str) -> None:
        """Consume a required token."""
        if self.token != mark or self.kind == "end":
            self.fail(f"expected {mark!r}, found {self._shown()}")
        self.advance()

    def accept(self, mark: str) -> bool:
        """Consume a token if it is the lookahead."""
        if self.kind != "mark" or self.token != mark:
            return False
        self.advance()
        return True

    def name(self, what: str) -> str:
        """Consume a name."""
        if self.kind != "name":
            self.fail(f"expected {what}, found {self._shown()}")
        return self.advance()

    def _shown(self) -> str:
        return {"newline": "the end of the line", "end": "the end of the text"}.get(
            self.kind, shortened(self.token)
        )

    def deeper(self) -> None:
        """Enter a tuple or a program; the caller leaves it by ``depth -= 1``."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(
                f"more than {DEEPEST} programs and tuples in each other", fix="reduce the nesting"
            )

    def program(self) -> Program:
        """Parse ``name(inputs) { lines }``."""
        return _ParsedTape(self).read()

    def variable(self) -> tuple[str, ShapeDtype]:
        """Parse ``x: f64[3]``."""
        if self.kind == "name" and not is_name(self.token):
            self.fail(
                f"{shortened(self.token)} cannot be the name of a variable",
                fix="use a name that is no keyword, in NFKC",
            )
        name = self.name("the name of a variable")
        self.expect(":")
        return name, self.aval(self.name("a dtype"))

    def aval(self, dtype: str) -> ShapeDtype:
        """Parse ``[3,4]`` after a dtype."""
        self.expect("[")
        sizes: list[str] = []
        while not self.accept("]"):
            if self.kind != "number":
                self.fail(f"expected a size, found {self._shown()}")
            sizes.append(self.advance())
            if not self.accept(","):
                self.expect("]")
                break
        return self.lookup(aval_named, f"{dtype}[{','.join(sizes)}]")

    def number(self) -> Any:
        """Parse a Python number."""
        if self.kind == "complex":
            return complex(self.advance())
        token = self.token
        value = self.lookup(integer, token) if token.lstrip("+-").isdigit() else float(token)
        self.advance()
        return value

    def string(self) -> str:
        """Parse a string between double quotes."""
        if self.kind != "string":
            self.fail(f"expected a string, found {self._shown()}")
        try:
            value = json.loads(self.token)
        except json.JSONDecodeError as error:
            self.fail(f"the string cannot be read: {error.msg}")
        self.advance()
        return value

    def value(self) -> Any:
        """Parse a param."""
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
            return self.lookup(
                named_primitive, self.name("the name of a primitive"), self.primitives
            )
        if self.accept("{"):
            self.deeper()
            self.skip_lines()
            found = self.program()
            self.skip_lines()
            self.expect("}")
            self.depth -= 1
            return found
        return self.word(self.name("a value"))

    def word(self, word: str) -> Any:
        """Parse a value that begins with a word."""
        if word in _WORDS:
            return _WORDS[word]
        if word.startswith("np."):
            return self.lookup(named_ufunc, word.removeprefix("np."))
        if word == "slice":
            self.expect("(")
            parts = self.tuple()
            if len(parts) != 3:
                self.fail(
                    f"a slice has three parts, not {len(parts)}",
                    fix="write slice (start, stop, step)",
                )
            return slice(*parts)
        if word == "bytes":
            try:
                return base64.b64decode(self.string(), validate=True)
            except ValueError as error:
                self.fail(f"the bytes are not base64: {error}")
        if word == "type":
            return self.lookup(named_dtype, self.name("a dtype")).type
        return self.aval(word) if self.token == "[" else self.lookup(named_dtype, word)

    def tuple(self) -> tuple[Any, ...]:
        """Parse values up to the closing parenthesis."""
        values: list[Any] = []
        self.deeper()
        while not self.accept(")"):
            values.append(self.value())
            if not self.accept(","):
                self.expect(")")
                break
        self.depth -= 1
        return tuple(values)

    def lookup(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Call a look-up function, and add the line to its errors."""
        try:
            return function(*args)
        except FunctraceError as error:
            self.fail(error.what, fix=error.fix or _AS_WRITTEN)

    def constant(self, aval: ShapeDtype) -> Any:
        """Parse the value of a constant."""
        if self.kind == "name" and self.token == "broadcast":
            self.advance()
            distinct = self.aval(self.name("a dtype"))
            return self.lookup(repeated, self.constant(distinct), distinct, aval)
        if self.kind == "blob":
            return self.blob(aval)
        texts: list[str] = []
        if self.elements(texts) != aval.shape and aval.size:
            self.fail(f"the nested list of values does not have the shape of {aval}")
        if len(texts) != aval.size:
            self.fail(f"{len(texts)} values for {aval}")
        try:
            values = [element_of(text, aval.dtype) for text in texts]
            array = np.array(values, aval.dtype).reshape(aval.shape)
            array.setflags(write=False)
            return array[()]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            self.fail(f"the values do not fit {aval}: {error}")

    def elements(self, texts: list[str], depth: int = 0) -> tuple[int, ...]:
        """Collect the leaves of nested brackets; return the shape."""
        if depth > _MOST_AXES:
            self.fail(f"an array of more than {_MOST_AXES} axes")
        if self.kind in ("number", "complex") or self.token in ("True", "False"):
            texts.append(self.advance())
            return ()
        self.expect("[")
        shapes: list[tuple[int, ...]] = []
        while not self.accept("]"):
            shapes.append(self.elements(texts, depth + 1))
            if not self.accept(","):
                self.expect("]")
                break
        if len(set(shapes)) > 1:
            self.fail("the nested list of values is ragged")
        return (len(shapes), *(shapes[0] if shapes else ()))

    def blob(self, aval: ShapeDtype) -> Any:
        """Parse ``<f64[784,64] zlib:…>``."""
        stated, _, body = self.token[1:-1].partition(" ")
        if not body.startswith("zlib:"):
            self.fail(
                f"the constant {shortened(self.token)} is abbreviated, its values are not in the "
                "text",
                fix="parse program.text(), which holds all values, instead of str(program)",
            )
        if self.lookup(aval_named, stated) is not aval:
            self.fail(f"the value is {stated}, but the constant is {aval}")
        if aval.nbytes > _MOST_DEFLATED * len(body):
            self.fail(f"so short a text cannot hold {aval}", fix="do not edit encoded arrays")
        try:
            packed = base64.b64decode(body[5:], validate=True)
            # At most as many bytes as the aval has, whatever the compressed text claims.
            data = zlib.decompressobj().decompress(packed, aval.nbytes + 1)
            value = array_from_bytes(data, aval)
        except (binascii.Error, zlib.error, ValueError) as error:
            self.fail(
                f"the encoded constant is damaged: {getattr(error, 'what', error)}",
                fix="do not edit encoded arrays",
            )
        self.advance()
        return value


class _ParsedTape:
    """Tape of one program that is being parsed, and its names of variables."""

    def __init__(self, parser: _Parser) -> None:
        self.parser, self.builder = parser, Builder()
        self.ids: dict[str, int] = {}
        self.positions: dict[int, Position] = {}

    def read(self) -> Program:
        """Parse up to the closing brace."""
        parser = self.parser
        name = parser.advance() if parser.kind == "angle" else parser.name("the program's name")
        if "." in name:
            parser.fail(
                f"{shortened(name)} cannot be the name of a program", fix="use a name without dots"
            )
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
        """Parse a constant, an equation or ``return``; return the outputs of the latter."""
        parser = self.parser
        if parser.accept("("):
            written = [parser.variable()]
            while parser.accept(","):
                written.append(parser.variable())
            parser.expect(")")
            self.equation(written)
            return None
        if parser.kind == "name" and parser.token == "return":
            parser.advance()
            return self.returned()
        if parser.kind == "name" and parser.token == "const":
            parser.advance()
            name, aval = parser.variable()
            parser.expect("=")
            self.write(name, self.builder.constant(parser.constant(aval), aval))
            return None
        if parser.kind != "name":
            parser.name("an equation, `const` or `return`")
        self.equation([parser.variable()])
        return None

    def returned(self) -> list[int]:
        """Parse the outputs."""
        outputs: list[int] = []
        while self.parser.kind == "name":
            outputs.append(self.variable())
            if not self.parser.accept(","):
                break
        return outputs

    def equation(self, written: list[tuple[str, ShapeDtype]]) -> None:
        """Parse ``= primitive operands {params}``."""
        parser = self.parser
        parser.expect("=")
        primitive = parser.lookup(
            named_primitive, parser.name("the name of a primitive"), parser.primitives
        )
        operands: list[int] = []
        while parser.kind in ("name", "number", "complex"):
            if parser.kind == "name" and parser.token not in _WORDS:
                operands.append(self.variable())
            else:
                value = _WORDS[parser.advance()] if parser.kind == "name" else parser.number()
                if value is None:
                    parser.fail("None cannot be an operand", fix="write a number, or a variable")
                operands.append(self.builder.literal(value))
        given = self.params()
        if set(given) != set(primitive.params):
            parser.fail(f"{primitive.name} takes the params {primitive.params}, not {tuple(given)}")
        params = tuple(given[name] for name in primitive.params)
        first = parser.lookup(append, self.builder, primitive, tuple(operands), params)
        inferred = self.builder.avals[first:]
        if inferred != [aval for _, aval in written]:
            shown = ", ".join(map(repr, inferred))
            parser.fail(
                f"{primitive.name} gives {shown} here",
                fix="correct the avals before the equals sign",
            )
        for k, (name, _) in enumerate(written):
            self.write(name, first + k)
        if parser.kind not in ("newline", "end") and parser.token != "}":
            parser.fail(f"expected the end of the line, found {shortened(parser.token)}")
        self.position(first)

    def position(self, variable: int) -> None:
        """Parse the position in the comment of this line, if it is one."""
        line, comment = self.parser.comment
        file, _, number = comment.removeprefix("#").strip().rpartition(":")
        if line == self.parser.line and file and number.isascii() and number.isdigit():
            self.positions[variable] = (
                self.parser.lookup(place, file, self.parser.lookup(integer, number)),
                0,
            )

    def params(self) -> dict[str, Any]:
        """Parse the params, if there are any."""
        parser, given = self.parser, dict[str, Any]()
        if not parser.accept("{"):
            return given
        while not parser.accept("}"):
            parser.skip_lines()
            name = parser.name("the name of a param")
            if name in given:
                parser.fail(f"param {name} is given twice", fix="give every param once")
            parser.expect("=")
            given[name] = parser.value()
            parser.skip_lines()
            if not parser.accept(","):
                parser.expect("}")
                break
        return given

    def variable(self) -> int:
        """Consume the name of a defined variable."""
        name = self.parser.token
        if name not in self.ids:
            self.parser.fail(
                f"variable {shortened(name)} is used before it is written",
                fix="write it in an earlier line",
            )
        self.parser.advance()
        return self.ids[name]

    def write(self, name: str, variable: int) -> None:
        """Name a variable."""
        if name in self.ids:
            self.parser.fail(
                f"variable {name} is written twice", fix="give every equation new names"
            )
        self.ids[name] = variable
