"""Print loop IR as C99, to be read and to be compiled alone.

A scalar that is used once becomes part of the expression that uses it; any other is a ``const``
variable. Arguments without axes are passed by value, other buffers by ``restrict`` pointers;
temporaries are local arrays, or members of a workspace that the caller provides. Signed integers
wrap, as NumPy's do, so they are added as unsigned ones. The elementary functions are those of
`functrace.native.kernels`, printed from the same IR; they need ``fma`` and few more of ``libm``.

Layer: 7.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

import numpy as np

from functrace.native.c_words import RESERVED, kernel_name, number_text, short_name, type_name
from functrace.native.kernels import KERNELS, LARGEST_ANGLE, ULP
from functrace.native.loop_ir import (
    Affine,
    Assign,
    Atom,
    Buffer,
    Builder,
    Const,
    Declare,
    DType,
    Fail,
    For,
    Get,
    If,
    Let,
    Load,
    MatrixProduct,
    Scalar,
    Statement,
    Store,
    While,
    atoms_of,
    indices_of,
    walk,
)
from functrace.native.lowering import NoNativeForm

WIDTH: Final = 100
"""Columns of a line."""
INLINED: Final = 64
"""Characters up to which an expression becomes part of another one."""


class Text(NamedTuple):
    """An expression.

    Args:
        text: its text.
        rank: rank of its outermost operator, from `_RANKS`; higher binds tighter.
        reads: names of the buffers and of the mutable scalars that it reads.
    """

    text: str
    rank: int
    reads: frozenset[str] = frozenset()

    def within(self, rank: int) -> str:
        """Return the text as an operand of an operator of a rank, in parentheses where needed."""
        return self.text if self.rank >= rank else f"({self.text})"


_PRIMARY, _UNARY, _PRODUCT, _SUM, _ORDER, _LOGIC, _CHOICE = 9, 8, 7, 6, 5, 3, 1
"""Ranks. Shifts and bitwise operators are `_LOGIC`: their operands are always in parentheses."""

_COMPARISONS: Final = {
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}  # fmt: skip
_ARITHMETIC: Final = {
    "add": ("+", _SUM), "add_any_order": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT),
}  # fmt: skip
_BITS: Final = {"and": "&", "or": "|", "xor": "^"}
_LOGICAL: Final = {"and": "&&", "or": "||", "xor": "!="}
_LIBRARY: Final = frozenset(
    ("sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign", "fma")
)  # fmt: skip
"""Ops that are functions of ``libm``."""


@final
class Printer:
    """Printer of the body of one function.

    Args:
        names: names of the buffers, by buffer name of the IR.
        taken: other names that variables must not have.
        by_value: names of the buffers that are scalars passed by value.
    """

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        taken: Iterable[str] = (),
        by_value: Iterable[str] = (),
    ) -> None:
        self._names = dict(names or {})
        self._taken = {*taken, *self._names.values(), *RESERVED}
        self._by_value = frozenset(by_value)
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}
        """Small functions that are called, by name."""
        self.calls: set[tuple[str, str]] = set()
        """Kernels that are called: op and dtype."""
        self._scalars: dict[str, Text] = {}
        """Text of the scalars that are visible."""
        self._pending: dict[str, tuple[DType, Text]] = {}
        """Scalars that are to become part of the expression that uses them."""
        self._uses: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._depth = 0

    # -- names --

    def parameter(self, name: str, text: str) -> None:
        """Name a scalar that is a parameter."""
        self._scalars[name] = Text(text, _PRIMARY)

    def _new(self, letter: str) -> str:
        while True:
            name = f"{letter}{self._counts[letter]}"
            self._counts[letter] += 1
            if name not in self._taken:
                return name

    def _counter_name(self) -> str:
        letters = [x for x in "ijkmnpq" if x not in self._taken]
        return letters[self._depth] if self._depth < len(letters) else self._new("i")

    # -- lines --

    def _add(self, line: str) -> None:
        indent = "    " * (self._depth + 1)
        while len(indent) + len(line) > WIDTH:
            place = _break(line, WIDTH - len(indent))
            if place < 0:
                break
            self.lines.append(indent + line[:place])
            line = "    " + line[place + 1 :]
        self.lines.append(indent + line)

    def _define(self, name: str, dtype: DType, text: Text) -> None:
        """Write a variable for a scalar."""
        made = self._new("v")
        self._add(f"const {type_name(dtype)} {made} = {text.text};")
        self._scalars[name] = Text(made, _PRIMARY)

    def _keep(self, name: str, dtype: DType, text: Text) -> None:
        """Remember a scalar that a statement computes, or write a variable for it."""
        if not self._uses[name]:
            return
        if self._uses[name] == 1 and len(text.text) <= INLINED:
            self._pending[name] = dtype, text
        else:
            self._define(name, dtype, text)

    def _flush(self, written: str | None = None) -> None:
        """Write variables for pending scalars: those that read a name, or all."""
        for name, (dtype, text) in list(self._pending.items()):
            if written is None or written in text.reads:
                del self._pending[name]
                self._define(name, dtype, text)

    def atom(self, atom: Atom) -> Text:
        """Return the text of an operand."""
        if type(atom) is Const:
            text = number_text(atom.value, atom.dtype)
            return Text(text, _UNARY if text.startswith("-") else _PRIMARY)
        if atom.name in self._pending:
            return self._pending.pop(atom.name)[1]
        return self._scalars[atom.name]

    def _index(self, index: Affine) -> str:
        parts: list[str] = []
        for name, factor in index.terms:
            text = self._scalars[name].text
            sign = "-" if factor < 0 else "+"
            term = text if abs(factor) == 1 else f"{abs(factor)}*{text}"
            parts.append(f" {sign} {term}")
        if index.offset or not parts:
            parts.append(f" {'-' if index.offset < 0 else '+'} {abs(index.offset)}")
        parts.sort(key=lambda part: part.startswith(" -"))
        text = "".join(parts)
        return text[3:] if text.startswith(" + ") else f"-{text[3:]}"

    def element(self, buffer: Buffer, index: Affine) -> str:
        """Return the text of an element of a buffer."""
        name = self._names[buffer.name]
        return name if buffer.name in self._by_value else f"{name}[{self._index(index)}]"

    def _address(self, buffer: Buffer, index: Affine) -> str:
        name = self._names[buffer.name]
        if buffer.name in self._by_value:
            return f"&{name}"
        return f"{name} + {self._index(index)}" if index != Affine() else name

    # -- statements --

    def function(self, body: Sequence[Statement], result: Atom | None = None) -> None:
        """Print a whole function, whose result is a scalar or the status 0."""
        self._uses = uses(body, result)
        self.block(body)
        if result is None:
            self._add("return 0;")
        else:
            self._add(f"return {self.atom(result).text};")

    def block(self, statements: Sequence[Statement]) -> None:
        """Print a block."""
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Let(name, dtype):
                if self._uses[name]:
                    self._keep(name, dtype, self._operation(statement))
            case Load(name, dtype, buffer, index):
                constant = buffer.role in ("argument", "constant")
                reads = frozenset(() if constant else (buffer.name,))
                self._keep(name, dtype, Text(self.element(buffer, index), _PRIMARY, reads))
            case Get(name, dtype, variable):
                text = self._scalars[variable].text
                self._keep(name, dtype, Text(text, _PRIMARY, frozenset((variable,))))
            case Store(buffer, index, value):
                text = self.atom(value)
                self._flush(buffer.name)
                self._add(f"{self.element(buffer, index)} = {text.text};")
            case Declare(name, dtype, value):
                text, made = self.atom(value), self._new("s")
                self._add(f"{type_name(dtype)} {made} = {text.text};")
                self._scalars[name] = Text(made, _PRIMARY)
            case Assign(variable, value):
                text = self.atom(value)
                self._flush(variable)
                self._assign(self._scalars[variable].text, text.text)
            case Fail(value, code):
                self._add(f"if ({self.atom(value).text}) return {code};")
            case For():
                self._for(statement)
            case While():
                self._while(statement)
            case If(value, then, otherwise):
                text = self.atom(value)
                self._flush()
                self._add(f"if ({text.text}) {{" if then else f"if (!{text.within(_UNARY)}) {{")
                self._inner(then or otherwise)
                if then and otherwise:
                    self._add("} else {")
                    self._inner(otherwise)
                self._add("}")
            case MatrixProduct():
                self._flush()
                self._product(statement)

    def _assign(self, name: str, text: str) -> None:
        if text != name:
            self._add(f"{name} = {text};")

    def _inner(self, block: Sequence[Statement]) -> None:
        self._depth += 1
        self.block(block)
        self._flush()
        self._depth -= 1

    def _for(self, loop: For) -> None:
        count = self.atom(loop.count).text
        self._flush()
        name = self._counter_name()
        self._scalars[loop.counter] = Text(name, _PRIMARY)
        if loop.reverse:
            head = f"for (int64_t {name} = {count}; {name}-- > 0;)"
        else:
            head = f"for (int64_t {name} = 0; {name} < {count}; ++{name})"
        place = len(self.lines)
        self._inner(loop.body)
        if len(self.lines) == place + 1 and not self.lines[place].lstrip().startswith("const "):
            self._add(f"{head} {self.lines.pop().lstrip()}")
            return
        self.lines.insert(place, f"{'    ' * (self._depth + 1)}{head} {{")
        self._add("}")

    def _while(self, loop: While) -> None:
        self._flush()
        place = len(self.lines)
        self._depth += 1
        self.block(loop.condition)
        value = self.atom(loop.value)
        self._flush()
        is_plain = len(self.lines) == place
        if not is_plain:
            self._add(f"if (!{value.within(_UNARY)}) break;")
        self._depth -= 1
        indent = "    " * (self._depth + 1)
        self.lines.insert(place, f"{indent}while ({value.text if is_plain else 'true'}) {{")
        self._inner(loop.body)
        self._add("}")

    def _product(self, product: MatrixProduct) -> None:
        (a, a_at, a_lead, a_turned), (b, b_at, b_lead, b_turned) = product.a, product.b
        c, c_at, c_lead = product.c
        name = f"ft_matrix_product_{short_name(c.dtype)}"
        self.helpers[name] = _PRODUCT_TEXT.replace("NAME", name).replace("TYPE", type_name(c.dtype))
        given = [
            *map(str, product.sizes),
            self._address(a, a_at), *map(str, (1, a_lead) if a_turned else (a_lead, 1)),
            self._address(b, b_at), *map(str, (1, b_lead) if b_turned else (b_lead, 1)),
            self._address(c, c_at), str(c_lead),
        ]  # fmt: skip
        self._add(f"{name}({', '.join(given)});")

    # -- expressions --

    def _operation(self, let: Let) -> Text:
        given = [self.atom(x) for x in let.operands]
        reads: frozenset[str] = frozenset[str]().union(*[x.reads for x in given])
        made = self._expression(let.op, let.operands[0].dtype, let.dtype, given, let.operands)
        return Text(made.text, made.rank, reads)

    def _expression(
        self, op: str, source: DType, dtype: DType, x: Sequence[Text], operands: Sequence[Atom]
    ) -> Text:
        is_float = source.kind == "f"
        if op in _ARITHMETIC:
            return self._arithmetic(op, source, x, operands)
        if op in _COMPARISONS:
            return _binary(_COMPARISONS[op], _ORDER, x)
        if op == "div" or (op == "rest" and not is_float):
            return _narrowed(_binary("/" if op == "div" else "%", _PRODUCT, x), source)
        if op == "rest":
            return self._library("fmod", source, x)
        if op == "neg":
            if is_float:
                return Text(f"-{x[0].within(_PRIMARY)}", _UNARY)
            zero = Const(0, source)
            return self._arithmetic("sub", source, (self.atom(zero), x[0]), (zero, *operands))
        if op == "select":
            condition, first, second = (one.within(_CHOICE + 1) for one in x)
            return Text(f"{condition} ? {first} : {second}", _CHOICE)
        if op in _BITS:
            words = _LOGICAL if source.kind == "b" else _BITS
            return _binary(words[op], _LOGIC, [Text(one.within(_UNARY), _PRIMARY) for one in x])
        if op in ("shift_left", "shift_right"):
            count = operands[1]
            by = str(int(count.value)) if type(count) is Const else x[1].within(_UNARY)
            if op == "shift_right":
                return Text(f"{x[0].within(_UNARY)} >> {by}", _LOGIC)
            value = _as_unsigned(x[0], source).within(_UNARY)
            return _cast_back(Text(f"{value} << {by}", _LOGIC), source)
        if op == "not":
            if source.kind == "b":
                return Text(f"!{x[0].within(_UNARY)}", _UNARY)
            return _narrowed(Text(f"~{x[0].within(_UNARY)}", _UNARY), source)
        if op == "is_nan":
            return Text(f"isnan({x[0].text})", _PRIMARY)
        if op == "bits":
            return self._reinterpreted(source, dtype, x[0])
        if op == "convert":
            return _converted(source, dtype, x[0])
        if op in _LIBRARY:
            return self._library(op, source, x)
        if op in ("absolute", "count_bits"):
            return self._helper(op, source, x[0])
        if op in ("maximum", "minimum"):
            return self._extreme(op, source, x)
        if op not in KERNELS:
            raise NoNativeForm(f"{op} in C")
        self.calls.add((op, source.str[1:]))
        return Text(f"{kernel_name(op, source)}({', '.join(one.text for one in x)})", _PRIMARY)

    def _arithmetic(
        self, op: str, dtype: DType, x: Sequence[Text], operands: Sequence[Atom]
    ) -> Text:
        word, rank = _ARITHMETIC[op]
        if dtype.str[1:] in ("i8", "i4", "u2"):
            x = [_as_unsigned(one, dtype, atom) for one, atom in zip(x, operands, strict=True)]
            return _cast_back(_binary(word, rank, x), dtype)
        return _narrowed(_binary(word, rank, x), dtype)

    def _library(self, op: str, dtype: DType, x: Sequence[Text]) -> Text:
        suffix = "f" if dtype.itemsize == 4 else ""
        return Text(f"{op}{suffix}({', '.join(one.text for one in x)})", _PRIMARY)

    def _reinterpreted(self, source: DType, dtype: DType, x: Text) -> Text:
        if "f" not in (source.kind, dtype.kind):
            return _as_unsigned(x, source) if dtype.kind == "u" else _cast_back(x, dtype)
        if source.kind == dtype.kind:
            return x
        name = f"ft_{short_name(dtype)}_of_{short_name(source)}"
        self.helpers[name] = (
            f"/* Return the {type_name(dtype)} that has the same bits. */\n"
            f"static inline {type_name(dtype)} {name}({type_name(source)} x)\n{{\n"
            f"    {type_name(dtype)} y;\n    memcpy(&y, &x, sizeof y);\n    return y;\n}}\n"
        )
        return Text(f"{name}({x.text})", _PRIMARY)

    def _extreme(self, op: str, dtype: DType, x: Sequence[Text]) -> Text:
        name, kind = kernel_name(op, dtype), type_name(dtype)
        word = ">=" if op == "maximum" else "<="
        self.helpers[name] = (
            f"/* Return the {op}; NaN if an operand is NaN. */\n"
            f"static inline {kind} {name}({kind} x, {kind} y)\n{{\n"
            f"    return x {word} y || isnan(x) ? x : y;\n}}\n"
        )
        return Text(f"{name}({x[0].text}, {x[1].text})", _PRIMARY)

    def _helper(self, op: str, dtype: DType, x: Text) -> Text:
        name, kind = f"ft_{op}_{short_name(dtype)}", type_name(dtype)
        wide = f"uint{8 * dtype.itemsize}_t"
        if op == "absolute":
            body = f"    return x < 0 ? ({kind})(0u - ({wide})x) : x;\n"
            comment = "Return the absolute value; the smallest integer is its own."
        else:
            body = (
                f"    uint64_t left = ({wide})x;\n    {kind} count = 0;\n"
                "    for (; left; left &= left - 1) ++count;\n    return count;\n"
            )
            comment = "Return the number of bits that are set."
        self.helpers[name] = (
            f"/* {comment} */\nstatic inline {kind} {name}({kind} x)\n{{\n{body}}}\n"
        )
        return Text(f"{name}({x.text})", _PRIMARY)


def _binary(word: str, rank: int, x: Sequence[Text]) -> Text:
    """Return a binary operation; operators group to the left."""
    left = x[0].within(rank if rank in (_SUM, _PRODUCT) else rank + 1)
    return Text(f"{left} {word} {x[1].within(rank + 1)}", rank)


def _break(line: str, width: int) -> int:
    """Return where to break a line: after a comma or before an operator, outside of parentheses."""
    depth, found = 0, (math.inf, -1)
    for place, c in enumerate(line[: width + 1]):
        depth += (c in "([{") - (c in ")]}")
        is_break = c == " " and (line[place - 1] == "," or line[place + 1] in "+-*/<>?:=&|^!")
        if is_break and place > 40 and depth <= found[0] and line[place + 1 : place + 3] != "= ":
            found = depth, place
    return found[1]


def _as_unsigned(x: Text, dtype: DType, atom: Atom | None = None) -> Text:
    """Convert an integer to the unsigned one of its size, or of 32 bits."""
    if dtype.str[1:] in ("u8", "u4"):
        return x
    unsigned = np.dtype(f"u{max(4, dtype.itemsize)}")
    if type(atom) is Const:
        value = int(atom.value) % (1 << (8 * unsigned.itemsize))
        if atom.value >= 0:
            return Text(number_text(value, unsigned), _PRIMARY)
    kind = type_name(unsigned)
    back = f"({type_name(dtype)})"
    if x.rank == _UNARY and x.text.startswith(f"{back}(({kind})") and dtype.itemsize >= 4:
        return Text(x.text[len(back) + 1 : -1], _LOGIC)
    return Text(f"({kind}){x.within(_UNARY)}", _UNARY)


def _cast_back(x: Text, dtype: DType) -> Text:
    """Convert an unsigned integer to a dtype."""
    if dtype.str[1:] in ("u8", "u4"):
        return x
    return Text(f"({type_name(dtype)}){x.within(_UNARY)}", _UNARY)


def _narrowed(x: Text, dtype: DType) -> Text:
    """Convert a result that C has computed as an ``int`` back to a narrower integer."""
    if dtype.kind not in "iu" or dtype.itemsize >= 4:
        return x
    return Text(f"({type_name(dtype)}){x.within(_UNARY)}", _UNARY)


def _converted(source: DType, dtype: DType, x: Text) -> Text:
    if source == dtype:
        return x
    if dtype.kind == "b":
        return Text(f"{x.within(_ORDER + 1)} != 0", _ORDER)
    return Text(f"({type_name(dtype)}){x.within(_UNARY)}", _UNARY)


def uses(body: Sequence[Statement], result: Atom | None = None) -> Counter[str]:
    """Count how often each scalar is used by statements whose own result is used. An index counts
    twice, so that it is a variable.
    """
    dead: set[str] = set()
    while True:
        found: Counter[str] = Counter([result.name] if type(result) is Scalar else [])
        for statement in walk(body):
            if isinstance(statement, Let | Load | Get) and statement.name in dead:
                continue
            found.update(atom.name for atom in atoms_of(statement) if type(atom) is Scalar)
            for index in indices_of(statement):
                found.update({name: 2 for name, _ in index.terms})
        now = {s.name for s in walk(body) if isinstance(s, Let | Load | Get) and not found[s.name]}
        if now == dead:
            return found
        dead = now


_PRODUCT_TEXT: Final = """\
/* c = a b: matrices of n x inner and inner x m elements, with the distances between rows, and between
 * columns, of a and b. */
static void NAME(
    int64_t n, int64_t m, int64_t inner, const TYPE *a, int64_t a_row, int64_t a_column,
    const TYPE *b, int64_t b_row, int64_t b_column, TYPE *restrict c, int64_t c_row)
{
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < m; ++j) c[i*c_row + j] = 0;
        for (int64_t k = 0; k < inner; ++k) {
            const TYPE factor = a[i*a_row + k*a_column];
            for (int64_t j = 0; j < m; ++j) c[i*c_row + j] += factor * b[k*b_row + j*b_column];
        }
    }
}
"""


def kernel_text(op: str, dtype: DType) -> tuple[str, Printer]:
    """Return the definition of a kernel, and the printer with what it calls."""
    kernel = KERNELS[op]
    builder = Builder()
    letters = "xyz"[: kernel.__code__.co_argcount - 1]
    given = [Scalar(f"a{k}", dtype) for k in range(len(letters))]
    result = kernel(builder, *given)
    printer = Printer(taken=letters)
    for scalar, letter in zip(given, letters, strict=True):
        printer.parameter(scalar.name, letter)
    printer.function(builder.body, result)
    error = ULP[op][dtype.itemsize == 4]
    given_text = ", ".join(f"{type_name(dtype)} {letter}" for letter in letters)
    lines = [
        f"/* {op}({', '.join(letters)}): error below {error} units in the last place. */",
        f"static inline {type_name(result.dtype)} {kernel_name(op, dtype)}({given_text})",
        "{",
    ]
    if op in ("sin", "cos", "tan"):
        suffix = "f" if dtype.itemsize == 4 else ""
        limit = f"0x1p{int(math.log2(LARGEST_ANGLE))}{suffix}"
        lines.append(f"    if (!(fabs{suffix}(x) < {limit})) return {op}{suffix}(x);")
    return "\n".join([*lines, *printer.lines, "}", ""]), printer


def kernels_text(printer: Printer) -> Iterator[str]:
    """Yield the definitions of helpers and kernels that a printer's function calls, callees first."""
    helpers = dict(printer.helpers)
    done: dict[tuple[str, str], str] = {}
    left = set(printer.calls)
    while left:
        op, code = key = min(left)
        text, inner = kernel_text(op, np.dtype(code))
        done[key] = text
        helpers |= inner.helpers
        left |= inner.calls
        left -= done.keys()
    yield from (helpers[name] for name in sorted(helpers))
    yield from (done[key] for key in sorted(done))
