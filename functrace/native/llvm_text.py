"""Print loop IR as LLVM IR.

A scalar is a value of the same name; a bool is an ``i1``, and a byte in memory. Mutable scalars are
stack slots, which LLVM turns into registers. Buffers do not overlap. The functions that a program
calls (`functrace.native.kernels`) are written in the same IR, and printed as functions of scalars:
LLVM inlines them where there are few calls, and vectorizes loops that contain them.

Layer: 7.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final, final

import numpy as np

from functrace.native.kernels import KERNELS
from functrace.native.loop_ir import (
    INT64,
    ZERO,
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
    Function,
    Get,
    If,
    Let,
    Load,
    MatrixProduct,
    Scalar,
    Statement,
    Store,
    While,
    at,
    atoms_of,
    buffers_of,
    walk,
    work_of,
)
from functrace.native.packs import Pack, Packs, packs_in
from functrace.native.repeated import CalledLoop, Repeats, repeats_in

_TYPES: Final = {"f8": "double", "f4": "float", "b1": "i1", "c16": "double", "c8": "float"}


def type_of(dtype: DType) -> str:
    """Return the LLVM type of a scalar."""
    name = dtype.str[1:]
    return _TYPES.get(name) or f"i{8 * dtype.itemsize}"


def vector_type(dtype: DType, lanes: int) -> str:
    """Return the LLVM type of a vector, or of a scalar if there is one lane."""
    return type_of(dtype) if lanes == 1 else f"<{lanes} x {type_of(dtype)}>"


def stored_type(dtype: DType) -> str:
    """Return the LLVM type of an element in memory, or of a part of a complex number."""
    return "i8" if dtype.kind == "b" else type_of(dtype)


def constant_text(value: complex, dtype: DType) -> str:
    """Return the text of a number."""
    assert dtype.kind in "fiub", dtype  # complex numbers have been split
    if dtype.kind == "f":
        number = float(dtype.type(value))
        return "0x" + struct.pack(">d", number).hex().upper()
    if dtype.kind == "b":
        return "true" if value else "false"
    return str(int(dtype.type(value)))


_COMPARISONS: Final = {
    "equal": ("oeq", "eq", "eq"),
    "not_equal": ("une", "ne", "ne"),
    "less": ("olt", "slt", "ult"),
    "less_equal": ("ole", "sle", "ule"),
    "greater": ("ogt", "sgt", "ugt"),
    "greater_equal": ("oge", "sge", "uge"),
}
_ARITHMETIC: Final = {
    "add": ("fadd", "add"),
    "sub": ("fsub", "sub"),
    "mul": ("fmul", "mul"),
}
_BITS: Final = {"and": "and", "or": "or", "xor": "xor", "shift_left": "shl"}
_INTRINSICS: Final = {
    "sqrt": 1, "fabs": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "copysign": 2, "fma": 3,
}  # fmt: skip
"""Ops that are intrinsics of LLVM, and how many operands each has."""

_HIDDEN: Final[Mapping[str, tuple[int, ...]]] = {
    "select": (1, 2), "div": (0,), "rest": (0,), "fmod": (0,), "remainder": (0,),
    "floor_divide": (0,),
}  # fmt: skip
"""By op, the operands that are hidden if they are constants; see `Printer`."""
MINUS_ZEROS: Final = """@functrace_minus_zero_double = global double -0.0
@functrace_minus_zero_float = global float -0.0
"""
"""Other modules might change these variables, so LLVM does not know their values."""

INTRINSIC_NAMES: Final = {"ctpop": 1, "smax": 2, "smin": 2, "umax": 2, "umin": 2, "abs": 2}


@final
class Printer:
    """Printer of the body of one function.

    Args:
        lanes: elements of a vector that stands for each scalar; 1 for scalars.
        attribute: returns the attributes of a call of a kernel, by op and dtype.
        keeps_flags: True to hide constants from LLVM where it would compute with them, which raises
            no floating-point flags: numerators, the choices of a select, and bools and integers as floats. A sum
            with a -0.0 that LLVM does not know leaves a number as it is.
    """

    def __init__(
        self,
        lanes: int = 1,
        attribute: Callable[[str, DType], str] = lambda _op, _dtype: "",
        *,
        keeps_flags: bool = False,
    ) -> None:
        self._lanes, self._attribute, self._keeps_flags = lanes, attribute, keeps_flags
        self._hiding: set[str] = set()
        self.lines: list[str] = []
        self.entry: list[str] = []
        """Statements at the entry: stack slots, and constants that are hidden."""
        self.declarations: dict[str, str] = {}
        """Intrinsics that are used: name to declaration."""
        self.calls: set[tuple[str, str]] = set()
        """Kernels that are called: name and dtype."""
        self.metadata: list[str] = []
        """Metadata of loops."""
        self._numbers: Iterator[int] = itertools.count()
        self._block = "entry"
        self._slots: dict[str, DType] = {}
        self.vector_calls: set[int] = set()
        """Lanes of the vector forms of kernels that are called."""
        self._lane = ""
        """Counter of the loop whose steps are lanes, while its body is printed as vectors."""
        self._vectors: set[str] = set()
        self._spread: dict[str, str] = {}
        """Vectors all of whose lanes are a scalar, by scalar."""
        self._is_vectorized = False
        """True in loops that LLVM may vectorize: it knows the vector forms of single kernels."""
        self._paired: set[str] = set()
        """Values that are computed together with others."""
        self._repeats = Repeats({}, {})
        self._packs = Packs()
        self._rows: set[str] = set()
        """Names of the memory of several variables."""
        self._vectors_of: dict[tuple[str, ...], str] = {}
        """By names of scalars, or texts of numbers, the vector of them."""
        self._symbol = ""
        self.functions: dict[Hashable, tuple[str, str]] = {}
        """Names and definitions of the functions of repeated loop nests, by key."""

    # -- functions --

    def body(self, statements: Sequence[Statement], symbol: str, packs: Packs) -> None:
        """Print the body of a function; loop nests that occur more than once are functions, too.

        Args:
            statements: the body.
            symbol: with which the names of these functions begin.
            packs: statements that are vectors.
        """
        self._repeats, self._symbol, self._packs = repeats_in(statements), symbol, packs
        self.block(statements)

    def _call(self, nest: CalledLoop) -> None:
        """Print a call of the function of a loop nest."""
        given = [f"ptr %{buffer.name}" for buffer in nest.buffers]
        given += [f"{type_of(x.dtype)} {self.atom(x)}" for x in nest.scalars]
        if nest.key not in self.functions:
            self.functions[nest.key] = self._function_of(nest)
        name, _ = self.functions[nest.key]
        status = self._value(f"call i32 @{name}({', '.join(given)})")
        first = self._repeats.firsts[nest.key]
        if any(type(inner) is Fail or _looks_for_signals(inner) for inner in walk((first,))):
            self._return_if(self._value(f"icmp ne i32 {status}, 0"), status)

    def _function_of(self, nest: CalledLoop) -> tuple[str, str]:
        """Return the name and the definition of the function of a loop nest."""
        first = self._repeats.firsts[nest.key]
        own = self._repeats.calls[id(first)]
        name = f"{self._symbol}_nest{len(self.functions)}"
        self.functions[nest.key] = name, ""
        inner = Printer(1, self._attribute, keeps_flags=self._keeps_flags)
        inner._repeats, inner._symbol, inner.functions = self._repeats, self._symbol, self.functions
        inner.declarations, inner.calls, inner._packs = self.declarations, self.calls, self._packs
        inner.metadata, inner.vector_calls = self.metadata, self.vector_calls
        inner._for(first)
        given = [f"ptr noalias %{buffer.name}" for buffer in own.buffers]
        given += [f"{type_of(x.dtype)} %{x.name}" for x in own.scalars]
        text = [
            f"define internal i32 @{name}({', '.join(given)}) #0 {{",
            "entry:",
            *inner.entry,
            *inner.lines,
            "  ret i32 0",
            "}",
        ]
        return name, "\n".join(text)

    # -- text --

    def _new(self) -> str:
        return f"%x{next(self._numbers)}"

    def _add(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def _value(self, text: str) -> str:
        name = self._new()
        self._add(f"{name} = {text}")
        return name

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self._block = name

    def atom(self, atom: Atom) -> str:
        """Return the text of an operand."""
        if type(atom) is not Const:
            if not self._lane or atom.name in self._vectors:
                return f"%{atom.name}"
            if atom.name == self._lane:
                return f"<{', '.join(f'i64 {k}' for k in range(self._lanes))}>"
            return self._splat(f"%{atom.name}", type_of(atom.dtype))
        text = constant_text(atom.value, atom.dtype)
        return text if self._lanes == 1 else f"splat ({type_of(atom.dtype)} {text})"

    def _hidden(self, text: str, dtype: DType) -> str:
        """Return an operation whose result LLVM does not know, the number itself."""
        kind = type_of(dtype)
        if kind not in self._hiding:
            self._hiding.add(kind)
            self.entry.append(
                f"  %minus_zero_{kind} = load {kind}, ptr @functrace_minus_zero_{kind}"
            )
        zero = f"%minus_zero_{kind}"
        return f"fadd {self.kind(dtype)} {text}, {self._splat(zero, kind) if self._lane else zero}"

    def _splat(self, scalar: str, kind: str) -> str:
        """Return the vector whose lanes are a scalar."""
        found = self._spread.get(scalar)
        if found is None:
            many = f"<{self._lanes} x {kind}>"
            one = self._value(f"insertelement {many} poison, {kind} {scalar}, i64 0")
            found = self._value(
                f"shufflevector {many} {one}, {many} poison, <{self._lanes} x i32> zeroinitializer"
            )
            self._spread[scalar] = found
        return found

    def _operands(self, let: Let) -> list[str]:
        """Return the texts of the operands, some hidden; see `Printer`."""
        x = [self.atom(atom) for atom in let.operands]
        if not self._keeps_flags or let.dtype.kind != "f":
            return x
        places = _HIDDEN.get(let.op, ())
        for k, atom in enumerate(let.operands):
            if k in places and type(atom) is Const:
                x[k] = self._value(self._hidden(x[k], atom.dtype))
        return x

    def kind(self, dtype: DType) -> str:
        """Return the LLVM type of an operand."""
        return vector_type(dtype, self._lanes)

    def _index(self, index: Affine) -> str:
        total = ""
        for name, factor in index.terms:
            term = f"%{name}" if factor == 1 else self._value(f"mul nsw i64 %{name}, {factor}")
            total = term if not total else self._value(f"add nsw i64 {total}, {term}")
        if not total:
            return str(index.offset)
        return self._value(f"add nsw i64 {total}, {index.offset}") if index.offset else total

    def address(self, buffer: Buffer, index: Affine) -> str:
        """Return the address of an element."""
        place = self._index(index)
        kind = stored_type(buffer.dtype)
        return self._value(f"getelementptr inbounds {kind}, ptr %{buffer.name}, i64 {place}")

    def intrinsic(self, name: str, kinds: Sequence[str], result: str) -> str:
        """Declare an intrinsic; returns its name."""
        full = f"@llvm.{name}.{_suffix(kinds[0])}"
        shown = [*kinds[:1], "i1"] if name == "abs" else kinds
        self.declarations[full] = f"declare {result} {full}({', '.join(shown)})"
        return full

    # -- statements --

    def block(self, statements: Sequence[Statement]) -> None:
        """Print a block."""
        ordered = self._packs.blocks.get(id(statements), statements)
        pairs = {} if self._is_vectorized else _pairs_in(ordered)
        known, self._vectors_of = self._vectors_of, {**self._vectors_of}
        for statement in ordered:
            match statement:
                case Pack():
                    self._pack(statement)
                case Let() if id(statement) in pairs:
                    self._let_pair(pairs[id(statement)])
                case Let() if f"%{statement.name}" in self._paired:
                    pass
                case Let():
                    self._let(statement)
                case Load() if self._lane:
                    self._load_lanes(statement)
                case Store() if self._lane:
                    self._store_lanes(statement)
                case Load(name, dtype, buffer, index):
                    where = self.address(buffer, index)
                    if dtype.kind == "b":
                        byte = self._value(f"load i8, ptr {where}")
                        self._add(f"%{name} = icmp ne i8 {byte}, 0")
                    else:
                        self._add(f"%{name} = load {type_of(dtype)}, ptr {where}")
                case Store(buffer, index, value):
                    text = self.atom(value)
                    if buffer.dtype.kind == "b":
                        text = self._value(f"zext i1 {text} to i8")
                    where = self.address(buffer, index)
                    self._add(f"store {stored_type(buffer.dtype)} {text}, ptr {where}")
                case Declare(name, dtype, value):
                    self._declare(name, dtype)
                    self._add(f"store {type_of(dtype)} {self.atom(value)}, ptr %{name}")
                case Get(name, dtype, variable):
                    self._add(f"%{name} = load {type_of(dtype)}, ptr %{variable}")
                case Assign(variable, value):
                    kind = type_of(self._slots[variable])
                    self._add(f"store {kind} {self.atom(value)}, ptr %{variable}")
                case For():
                    nest = self._repeats.calls.get(id(statement))
                    if nest is None:
                        self._for(statement)
                    else:
                        self._call(nest)
                case While(condition, value, body):
                    head, inside, end = (f"{word}{next(self._numbers)}" for word in "WBE")
                    self._add(f"br label %{head}")
                    self._label(head)
                    self.block(condition)
                    self._add(f"br i1 {self.atom(value)}, label %{inside}, label %{end}")
                    self._label(inside)
                    self.block(body)
                    self._signals_sometimes(body)
                    self._add(f"br label %{head}")
                    self._label(end)
                case If(value, then, otherwise):
                    first, second, end = (f"{word}{next(self._numbers)}" for word in "TFE")
                    self._add(f"br i1 {self.atom(value)}, label %{first}, label %{second}")
                    self._label(first)
                    self.block(then)
                    self._add(f"br label %{end}")
                    self._label(second)
                    self.block(otherwise)
                    self._add(f"br label %{end}")
                    self._label(end)
                case Fail(value, code):
                    text = self.atom(value)
                    if self._lane:
                        kind = self.kind(value.dtype)
                        name = self.intrinsic("vector.reduce.or", [kind], "i1")
                        text = self._value(f"call i1 {name}({kind} {text})")
                    self._fail(text, code)
                case MatrixProduct():
                    self._product(statement)
        self._vectors_of = known

    def _declare(self, name: str, dtype: DType) -> None:
        """Make the stack slot of a variable, or its place in that of several ones."""
        self._slots[name] = dtype
        place = self._packs.variables.get(name)
        if place is None:
            self.entry.append(f"  %{name} = alloca {type_of(dtype)}")
            return
        if place.memory not in self._rows:
            self._rows.add(place.memory)
            kind = vector_type(dtype, place.lanes)
            self.entry.append(f"  %{place.memory} = alloca {kind}")
        self.entry.append(
            f"  %{name} = getelementptr {type_of(dtype)}, ptr %{place.memory}, i64 {place.lane}"
        )

    def _pack(self, pack: Pack) -> None:
        """Print one instruction on vectors, and its lanes that are read as scalars."""
        first = pack.statements[0]
        operands = [self._vector(operand.lanes) for operand in pack.operands]
        if isinstance(first, Assign):
            kind = vector_type(self._slots[first.variable], pack.lanes)
            self._add(f"store {kind} {operands[0]}, ptr %{pack.memory}")
            return
        kind = vector_type(first.dtype, pack.lanes)
        if isinstance(first, Get):
            text = f"load {kind}, ptr %{pack.memory}"
        elif first.op == "neg":
            text = f"fneg {kind} {operands[0]}"
        elif first.op == "fma":
            name = self.intrinsic("fma", [kind] * 3, kind)
            text = f"call {kind} {name}({', '.join(f'{kind} {x}' for x in operands)})"
        else:
            text = f"{_ARITHMETIC[first.op][0]} {kind} {operands[0]}, {operands[1]}"
        vector = self._vectors_of[pack.names] = self._value(text)
        for lane, name in enumerate(pack.names):
            if name in self._packs.taken_out:
                self._add(f"%{name} = extractelement {kind} {vector}, i64 {lane}")

    def _vector(self, lanes: Sequence[Atom]) -> str:
        """Return the vector of an operand of a pack."""
        count, element = len(lanes), type_of(lanes[0].dtype)
        if all(type(atom) is Const for atom in lanes):
            return f"<{', '.join(f'{element} {self.atom(atom)}' for atom in lanes)}>"
        key = tuple([self.atom(atom) for atom in lanes])
        found = self._vectors_of.get(tuple([text[1:] for text in key]))
        if found is not None:
            return found
        kind = f"<{count} x {element}>"
        is_splat = len(set(key)) == 1
        found = "poison"
        for lane, text in enumerate(key[:1] if is_splat else key):
            found = self._value(f"insertelement {kind} {found}, {element} {text}, i64 {lane}")
        if is_splat:
            found = self._value(
                f"shufflevector {kind} {found}, {kind} poison, <{count} x i32> zeroinitializer"
            )
        self._vectors_of[tuple([text[1:] for text in key])] = found
        return found

    def _fail(self, text: str, code: int) -> None:
        self._return_if(text, str(code))

    def _return_if(self, text: str, code: str) -> None:
        bad, good = (f"{word}{next(self._numbers)}" for word in "XG")
        self._add(f"br i1 {text}, label %{bad}, label %{good}")
        self._label(bad)
        self._add(f"ret i32 {code}")
        self._label(good)

    def _signals(self) -> None:
        """Look for signals; return the status of an exception if Python has set one."""
        found = self._value("call i32 @functrace_signals()")
        self._fail(self._value(f"icmp ne i32 {found}, 0"), RAISED)

    def _signals_sometimes(self, body: Sequence[Statement]) -> None:
        """Count the steps of a loop, and look for signals now and then."""
        slot = self._new()
        self.entry += [f"  {slot} = alloca i64", f"  store i64 0, ptr {slot}"]
        steps = self._value(f"add i64 {self._value(f'load i64, ptr {slot}')}, 1")
        self._add(f"store i64 {steps}, ptr {slot}")
        self._look(steps, body)

    def _look(self, steps: str, body: Sequence[Statement]) -> None:
        """Look for signals once in about a millisecond: more often, other threads would starve."""
        work = work_of(body)
        between = 1 << int(BETWEEN_SIGNALS / max(work, 1)).bit_length()
        every = self._value(f"and i64 {steps}, {between - 1}")
        look = self._value(f"icmp eq i64 {every}, {between - 1}")
        yes, no = (f"{word}{next(self._numbers)}" for word in "SN")
        self._add(f"br i1 {look}, label %{yes}, label %{no}")
        self._label(yes)
        self._signals()
        self._add(f"br label %{no}")
        self._label(no)

    def _in_lanes(self, loop: For) -> None:
        """Print the steps of a loop as the lanes of vectors."""
        assert type(loop.count) is Const
        self._lanes, self._lane = loop.count.value, loop.counter
        self._vectors, self._spread = set(), {}
        self.vector_calls.add(self._lanes)
        self.block(loop.body)
        self._lanes, self._lane = 1, ""

    def _load_lanes(self, load: Load) -> None:
        kind, stored = type_of(load.dtype), stored_type(load.dtype)
        stride, index = _without(load.index, self._lane)
        where = self.address(load.buffer, index)
        if not stride:
            text = self._value(f"load {stored}, ptr {where}")
            if kind != stored:
                text = self._value(f"icmp ne {stored} {text}, 0")
            self._spread[f"%{load.name}"] = self._splat(text, kind)
            return
        many = f"<{self._lanes} x {stored}>"
        if stride == 1:
            text = self._value(f"load {many}, ptr {where}, align {load.dtype.itemsize}")
        else:
            text = "poison"
            for k in range(self._lanes):
                place = self._value(
                    f"getelementptr inbounds {stored}, ptr {where}, i64 {k * stride}"
                )
                one = self._value(f"load {stored}, ptr {place}")
                text = self._value(f"insertelement {many} {text}, {stored} {one}, i64 {k}")
        if kind != stored:
            text = self._value(f"icmp ne {many} {text}, zeroinitializer")
        self._spread[f"%{load.name}"] = text

    def _store_lanes(self, store: Store) -> None:
        text = self.atom(store.value)
        many = f"<{self._lanes} x {stored_type(store.buffer.dtype)}>"
        if store.buffer.dtype.kind == "b":
            text = self._value(f"zext {self.kind(store.value.dtype)} {text} to {many}")
        _, index = _without(store.index, self._lane)
        where = self.address(store.buffer, index)
        self._add(f"store {many} {text}, ptr {where}, align {store.buffer.dtype.itemsize}")

    def _for(self, loop: For) -> None:
        if self._lanes == 1 and _fits_in_lanes(loop):
            if loop.lanes:
                self._in_lanes(loop)
                return
            lanes = _lanes_of(loop)
            if lanes:
                for part in _in_vectors(loop, lanes):
                    self._for(part)
                return
        head, end = f"L{loop.counter}", f"E{loop.counter}"
        steps = f"%{loop.counter}.steps" if loop.reverse else f"%{loop.counter}"
        count = self.atom(loop.count)
        before = self._block
        if type(loop.count) is not Const or loop.count.value < 1:
            some = self._value(f"icmp sgt i64 {count}, 0")
            self._add(f"br i1 {some}, label %{head}, label %{end}")
        else:
            self._add(f"br label %{head}")
        self._label(head)
        place = len(self.lines)
        self.lines.append("")
        if loop.reverse:
            last = self._value(f"sub nsw i64 {count}, 1")
            self._add(f"%{loop.counter} = sub nsw i64 {last}, {steps}")
        outer = self._is_vectorized
        self._is_vectorized = loop.independent and not any(type(s) is For for s in loop.body)
        self.block(loop.body)
        self._is_vectorized = outer
        if _looks_for_signals(loop):
            self._look(steps, loop.body)
        self._add(f"{steps}.next = add nuw nsw i64 {steps}, 1")
        self._add(f"{steps}.done = icmp eq i64 {steps}.next, {count}")
        self._add(f"br i1 {steps}.done, label %{end}, label %{head}{self._loop_metadata(loop)}")
        self.lines[place] = f"  {steps} = phi i64 [0, %{before}], [{steps}.next, %{self._block}]"
        self._label(end)

    def _loop_metadata(self, loop: For) -> str:
        """Forbid LLVM to vectorize a short loop: it would compute on lanes that do not exist, which
        may set floating-point flags.
        """
        count = loop.count.value if type(loop.count) is Const else FEWEST_VECTORIZED
        has_lanes = any(type(inner) is For and inner.lanes for inner in walk(loop.body))
        if not has_lanes and (count >= FEWEST_VECTORIZED or not count % LANES):
            return ""
        if not self.metadata:
            self.metadata.append('!0 = !{!"llvm.loop.vectorize.enable", i1 false}')
        number = len(self.metadata)
        self.metadata.append(f"!{number} = distinct !{{!{number}, !0}}")
        return f", !llvm.loop !{number}"

    def _product(self, product: MatrixProduct) -> None:
        (a, a_at, a_lead, a_turned), (b, b_at, b_lead, b_turned) = product.a, product.b
        c, c_at, c_lead = product.c
        rows, columns, inner = product.sizes
        kind = type_of(c.dtype)
        one, zero = constant_text(1, c.dtype), constant_text(0, c.dtype)
        # The transpose of a row-major matrix is column-major: c^T = b^T a^T.
        operands = [
            self._slot("i8", str(ord("T" if b_turned else "N"))),
            self._slot("i8", str(ord("T" if a_turned else "N"))),
            *[self._slot("i64", str(n)) for n in (columns, rows, inner)],
            self._slot(kind, one),
            self.address(b, b_at), self._slot("i64", str(b_lead)),
            self.address(a, a_at), self._slot("i64", str(a_lead)),
            self._slot(kind, zero),
            self.address(c, c_at), self._slot("i64", str(c_lead)),
        ]  # fmt: skip
        symbol = self._value(f"load ptr, ptr @functrace_{'d' if kind == 'double' else 's'}gemm")
        self._add(f"call void {symbol}({', '.join(f'ptr {x}' for x in operands)}, i64 1, i64 1)")

    def _slot(self, kind: str, text: str) -> str:
        name = self._new()
        self.entry.append(f"  {name} = alloca {kind}")
        self._add(f"store {kind} {text}, ptr {name}")
        return name

    def _let(self, let: Let) -> None:
        text = self._operation(let)
        is_number = let.op == "convert" and let.dtype.kind == "f"
        if is_number and self._keeps_flags and let.operands[0].dtype.kind != "f":
            text = self._hidden(self._value(text), let.dtype)
        self._add(f"%{let.name} = {text}")
        if self._lane:
            self._vectors.add(let.name)

    def _let_pair(self, lets: Sequence[Let]) -> None:
        """Print a call that computes several functions of the same operands."""
        first = lets[0]
        x = [f"{self.kind(a.dtype)} {self.atom(a)}" for a in first.operands]
        op = "+".join(let.op for let in lets)
        dtype = first.operands[0].dtype
        self.calls.add((op, dtype.str[1:]))
        name = kernel_name(op, dtype) + ("" if self._lanes == 1 else f"_v{self._lanes}")
        kind = f"{{ {', '.join(self.kind(let.dtype) for let in lets)} }}"
        both = self._value(f"call {kind} @{name}({', '.join(x)})")
        for place, let in enumerate(lets):
            self._add(f"%{let.name} = extractvalue {kind} {both}, {place}")
            self._paired.add(f"%{let.name}")
            if self._lane:
                self._vectors.add(let.name)

    def _operation(self, let: Let) -> str:
        op, operands, dtype = let.op, let.operands, let.dtype
        x = self._operands(let)
        source = operands[0].dtype
        kind, is_float = self.kind(source), source.kind == "f"
        if op in _ARITHMETIC:
            return f"{_ARITHMETIC[op][not is_float]} {kind} {x[0]}, {x[1]}"
        if op == "add_any_order":
            return (
                f"fadd reassoc {kind} {x[0]}, {x[1]}" if is_float else f"add {kind} {x[0]}, {x[1]}"
            )
        if op in _COMPARISONS:
            words = _COMPARISONS[op]
            if is_float:
                return f"fcmp {words[0]} {kind} {x[0]}, {x[1]}"
            return f"icmp {words[1 if source.kind == 'i' else 2]} {kind} {x[0]}, {x[1]}"
        if op == "div":
            word = "fdiv" if is_float else "sdiv" if source.kind == "i" else "udiv"
            return f"{word} {kind} {x[0]}, {x[1]}"
        if op == "rest":  # of a division that rounds towards zero
            word = "frem" if is_float else "srem" if source.kind == "i" else "urem"
            return f"{word} {kind} {x[0]}, {x[1]}"
        if op == "neg":
            zero = self.atom(Const(0, source))
            return f"fneg {kind} {x[0]}" if is_float else f"sub {kind} {zero}, {x[0]}"
        if op == "select":
            kind = self.kind(dtype)
            return f"select {self.kind(source)} {x[0]}, {kind} {x[1]}, {kind} {x[2]}"
        if op in _BITS:
            return f"{_BITS[op]} {kind} {x[0]}, {x[1]}"
        if op == "shift_right":
            return f"{'ashr' if source.kind == 'i' else 'lshr'} {kind} {x[0]}, {x[1]}"
        if op == "not":
            all_ones = np.invert(np.zeros((), source)).item()
            ones = self.atom(Const(all_ones, source))
            return f"xor {kind} {x[0]}, {ones}"
        if op in ("maximum", "minimum"):  # of floats; nan if one is nan
            name = self.intrinsic(op, [kind, kind], kind)
            return f"call {kind} {name}({kind} {x[0]}, {kind} {x[1]})"
        if op == "is_nan":
            return f"fcmp uno {kind} {x[0]}, {x[0]}"
        if op == "bits":
            return f"bitcast {kind} {x[0]} to {self.kind(dtype)}"
        if op == "convert":
            return self._conversion(source, dtype, x[0])
        if op in _INTRINSICS:
            name = self.intrinsic(op, [kind] * _INTRINSICS[op], kind)
            return f"call {kind} {name}({', '.join(f'{kind} {one}' for one in x)})"
        if op == "absolute":
            name = self.intrinsic("abs", [kind], kind)
            return f"call {kind} {name}({kind} {x[0]}, i1 false)"
        if op == "count_bits":
            name = self.intrinsic("ctpop", [kind], kind)
            return f"call {kind} {name}({kind} {x[0]})"
        self.calls.add((op, source.str[1:]))
        given = ", ".join(
            f"{self.kind(atom.dtype)} {one}" for atom, one in zip(operands, x, strict=True)
        )
        name = kernel_name(op, source) + ("" if self._lanes == 1 else f"_v{self._lanes}")
        attribute = "" if self._lane else self._attribute(op, source)
        return f"call {self.kind(dtype)} @{name}({given}){attribute}"

    def _conversion(self, source: DType, dtype: DType, text: str) -> str:
        a, b = self.kind(source), self.kind(dtype)
        zero = self.atom(Const(0, source))
        if source == dtype:
            return f"select i1 true, {a} {text}, {a} {text}"
        if dtype.kind == "b":
            word = "fcmp une" if source.kind == "f" else "icmp ne"
            return f"{word} {a} {text}, {zero}"
        if source.kind == "f":
            if dtype.kind == "f":
                word = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
                return f"{word} {a} {text} to {b}"
            return f"{'fptosi' if dtype.kind == 'i' else 'fptoui'} {a} {text} to {b}"
        if dtype.kind == "f":
            return f"{'sitofp' if source.kind == 'i' else 'uitofp'} {a} {text} to {b}"
        if a == b:
            return f"add {a} {text}, {zero}"
        if dtype.itemsize < source.itemsize and source.kind != "b":
            return f"trunc {a} {text} to {b}"
        return f"{'sext' if source.kind == 'i' else 'zext'} {a} {text} to {b}"


TOGETHER: Final = ("cos", "sin")
"""Kernels that compute nearly the same: of the same operand, one call computes both."""


def _pairs_in(block: Sequence[Statement | Pack]) -> dict[int, list[Let]]:
    """Return the kernels of a block that are computed together, by id of the first one of each group."""
    groups: dict[tuple[Atom, ...], list[Let]] = {}
    for statement in block:
        if type(statement) is Let and statement.op in TOGETHER:
            groups.setdefault(statement.operands, []).append(statement)
    return {
        id(lets[0]): sorted(lets, key=lambda let: let.op)
        for lets in groups.values()
        if len({let.op for let in lets}) == len(lets) == len(TOGETHER)
    }


def _looks_for_signals(statement: Statement) -> bool:
    """Return True if the code of a loop looks for signals."""
    if type(statement) is While:
        return True
    if type(statement) is not For or statement.independent:
        return False
    return work_of([statement]) >= 2 * BETWEEN_SIGNALS


def _without(index: Affine, counter: str) -> tuple[int, Affine]:
    """Return the factor of a counter in an index, and the index without it."""
    factor = dict(index.terms).get(counter, 0)
    return factor, Affine(tuple(t for t in index.terms if t[0] != counter), index.offset)


def _fits_in_lanes(loop: For) -> bool:
    """Return True if all steps of a loop can be printed as lanes of vectors."""
    made = {s.name for s in loop.body if isinstance(s, Let | Load)}
    for statement in loop.body:
        if not isinstance(statement, Let | Load | Store | Fail):
            return False
        if isinstance(statement, Load | Store):
            if any(name in made for name, _ in statement.index.terms):
                return False
            if type(statement) is Store and _without(statement.index, loop.counter)[0] != 1:
                return False
    return True


def _lanes_of(loop: For) -> int:
    """Return the lanes of the vectors that a loop over elements is printed as; 0 to leave it to LLVM.

    LLVM unrolls a short loop before it vectorizes loops; in a long one with several kernels, its
    vectors wait for one kernel after the other.
    """
    lets = [s for s in loop.body if type(s) is Let]
    accesses = [s for s in loop.body if isinstance(s, Load | Store)]
    stored = {s.buffer.name: s.index for s in accesses if type(s) is Store}
    names = [x.name for s in loop.body for x in atoms_of(s) if type(x) is Scalar]
    if (
        type(loop.count) is not Const
        or not loop.independent
        or loop.reverse
        or loop.counter in names
        or not stored
        or any(stored.get(s.buffer.name, s.index) != s.index for s in accesses)
    ):
        return 0
    sizes = [s.dtype.itemsize for s in lets if s.dtype.kind == "f"]
    sizes += [s.buffer.dtype.itemsize for s in accesses if s.buffer.dtype.kind == "f"]
    if not sizes:
        return 0
    count, most = loop.count.value, VECTORS * WIDEST // max(sizes)
    if not count & (count - 1) and count * min(sizes) >= 16 and count <= most:
        return count
    if sum(let.op in KERNELS for let in lets) < 2:
        return 0
    return next((lanes for lanes in (most, WIDEST // max(sizes)) if lanes <= count), 0)


def _in_vectors(loop: For, lanes: int) -> list[For]:
    """Return a loop over elements as loops over lanes. The last vector overlaps the one before, unless
    the loop overwrites what it reads.
    """
    assert type(loop.count) is Const
    many, rest = divmod(loop.count.value, lanes)
    lane, block = f"{loop.counter}.lane", f"{loop.counter}.block"

    def part(first: Affine, name: str, count: int, *, is_vector: bool) -> For:
        body = _moved(loop, first.plus(Affine(((name, 1),))), name)
        return For(name, Const(count, INT64), False, body, True, is_vector)

    inner = part(Affine(((block, lanes),)) if many > 1 else ZERO, lane, lanes, is_vector=True)
    found = [inner] if many == 1 else [For(block, Const(many, INT64), False, [inner], True)]
    written = {s.buffer.name for s in loop.body if type(s) is Store}
    is_repeatable = not any(type(s) is Load and s.buffer.name in written for s in loop.body)
    if rest and is_repeatable:
        last = at(loop.count.value - lanes)
        found.append(part(last, f"{loop.counter}.last", lanes, is_vector=True))
    elif rest:
        found.append(part(at(many * lanes), f"{loop.counter}.rest", rest, is_vector=False))
    return found


def _moved(loop: For, position: Affine, suffix: str) -> list[Statement]:
    """Return the body of a loop at another position, with new names."""
    own = {s.name for s in loop.body if isinstance(s, Let | Load)}

    def atom(x: Atom) -> Atom:
        return Scalar(f"{x.name}.{suffix}", x.dtype) if type(x) is Scalar and x.name in own else x

    def index(x: Affine) -> Affine:
        factor, rest = _without(x, loop.counter)
        return rest.plus(position, factor)

    found: list[Statement] = []
    for s in loop.body:
        match s:
            case Let(name, dtype, op, operands):
                found.append(Let(f"{name}.{suffix}", dtype, op, tuple(map(atom, operands))))
            case Load(name, dtype, buffer, place):
                found.append(Load(f"{name}.{suffix}", dtype, buffer, index(place)))
            case Store(buffer, place, value):
                found.append(Store(buffer, index(place), atom(value)))
            case Fail(value, code):
                found.append(Fail(atom(value), code))
            case _:
                raise AssertionError(s)
    return found


WIDEST: Final = 64
"""Bytes of a vector."""
VECTORS: Final = 4
"""Vectors that are computed together: a kernel waits for its own results."""
FEWEST_VECTORIZED: Final = 16
"""Steps below which LLVM vectorizes a loop with masks, unless they are a multiple of the lanes."""
LANES: Final = 8
"""Lanes of the widest vectors of float64."""
RAISED: Final = 2
"""Status of a function during which Python has raised an exception."""
BETWEEN_SIGNALS: Final = 1 << 22
"""Instructions of a loop between two looks for signals."""


def kernel_name(op: str, dtype: DType) -> str:
    """Return the name of the function of a kernel."""
    return f"functrace_{op.replace('+', '_')}_{dtype.str[1:]}"


def _suffix(kind: str) -> str:
    if kind.startswith("<"):
        lanes, _, element = kind[1:-1].partition(" x ")
        return f"v{lanes}{_suffix(element)}"
    return {"double": "f64", "float": "f32"}.get(kind, kind)


Kernel = Callable[..., Atom]


def function_text(printer: Printer, function: Function, symbol: str) -> str:
    """Return the definition of a function: ``i32 symbol(ptr buffer, …)``, which returns a status.

    Its parameters are the arguments, the results, the temporaries that are not on the stack, and
    the constants that are not in the code.

    Args:
        printer: collects declarations and calls.
        function: the function.
        symbol: its name.
    """
    printer.body(function.body, symbol, packs_in(function))
    arguments = {buffer.name for buffer, _ in function.arguments}
    offsets, _ = workspace(function)
    passed = [buffer.name for buffer in passed_constants(function)]
    given = [
        f"ptr noalias{' readonly' if name in arguments or name in passed else ''} %{name}"
        for name in (*[buffer.name for buffer in parameters(function)], *offsets, *passed)
    ]
    lines = [
        f"  %{name} = getelementptr i8, ptr %{first}, i64 0"
        for name, first in shared_memory(function).items()
        if name != first
    ]
    for buffer in function.buffers:
        if buffer.role == "temporary" and bytes_of(buffer) <= ON_STACK:
            size = buffer.size * (2 if buffer.dtype.kind == "c" else 1)
            kind = f"[{size} x {stored_type(buffer.dtype)}]"
            lines.append(f"  %{buffer.name} = alloca {kind}, align 64")
        elif buffer.role == "constant" and buffer.name not in passed:
            lines.append(f"  %{buffer.name} = getelementptr i8, ptr @{symbol}_{buffer.name}, i64 0")
    text = [
        f"define internal i32 @{symbol}({', '.join(given)}) #0 {{",
        "entry:",
        *printer.entry,
        *lines,
        *printer.lines,
        "  ret i32 0",
        "}",
    ]
    constants = [
        f"@{symbol}_{b.name} = internal constant {_array_text(b)}, align 64"
        for b in function.buffers
        if b.role == "constant" and b.name not in passed
    ]
    nests = [text for _, text in printer.functions.values()]
    return "\n".join([*constants, *nests, *text])


def parameters(function: Function) -> list[Buffer]:
    """Return the buffers that are parameters: arguments, then results."""
    return [buffer for buffer, _ in (*function.arguments, *function.results)]


IN_CODE: Final = 2048
"""Bytes up to which a constant is in the code: LLVM reads it as text."""


def passed_constants(function: Function) -> list[Buffer]:
    """Return the constants that are passed to the function, in order."""
    return [
        b for b in function.buffers if b.role == "constant" and b.size * b.dtype.itemsize > IN_CODE
    ]


ON_STACK: Final = 4096
"""Bytes up to which a temporary is on the stack."""


def workspace(function: Function) -> tuple[Mapping[str, int], int]:
    """Return the offsets of the temporaries that are not on the stack, and their bytes in all.

    Temporaries that share memory are there once, with the first one's name; see `shared_memory`.
    """
    offsets: dict[str, int] = {}
    total = 0
    shared = shared_memory(function)
    for buffer in function.buffers:
        if shared.get(buffer.name) == buffer.name:
            offsets[buffer.name] = total
            total += -(-bytes_of(buffer) // 64) * 64
    return offsets, total


def block_bytes(function: Function) -> int:
    """Return the bytes that a call allocates for temporaries."""
    _, total = workspace(function)
    return total + 64 if total else 0


def bytes_of(buffer: Buffer) -> int:
    """Return the bytes of a buffer."""
    return buffer.size * buffer.dtype.itemsize


def shared_memory(function: Function) -> Mapping[str, str]:
    """Return, for each temporary that is not on the stack, the first one that has the same memory.

    A temporary gets the memory of one of the same number of bytes whose last use is in an earlier
    statement of the function.
    """
    large = {
        b.name: b for b in function.buffers if b.role == "temporary" and bytes_of(b) > ON_STACK
    }
    spans: dict[str, tuple[int, int]] = {}
    for place, statement in enumerate(function.body):
        for inner in walk((statement,)):
            for buffer in buffers_of(inner):
                if buffer.name in large:
                    first, _ = spans.get(buffer.name, (place, place))
                    spans[buffer.name] = first, place
    found: dict[str, str] = {}
    free: dict[int, list[str]] = {}
    last_uses = sorted((last, name) for name, (_, last) in spans.items())
    done = 0
    for name, (first, _) in sorted(spans.items(), key=lambda item: item[1][0]):
        while last_uses[done][0] < first:
            before = last_uses[done][1]
            free.setdefault(bytes_of(large[before]), []).append(found[before])
            done += 1
        own = free.get(bytes_of(large[name]))
        found[name] = own.pop() if own else name
    return found


def _array_text(buffer: Buffer) -> str:
    assert buffer.value is not None
    data = np.ascontiguousarray(buffer.value).tobytes()
    shown = "".join(f"\\{byte:02X}" for byte in data)
    return f'[{len(data)} x i8] c"{shown}"'


INLINED: Final = 12
"""Calls of kernels in a function up to which they are inlined: LLVM takes long for more."""


def kernels_text(
    printer: Printer, kernels: Mapping[str, Kernel], widths: Sequence[int] = ()
) -> str:
    """Return the definitions of the kernels that a printer's function calls.

    Args:
        printer: a printer after `function_text`; it gets the declarations of the kernels.
        kernels: by op, the function that writes its body; see `functrace.native.kernels`.
        widths: bytes of the vectors for which there are vector forms, so that LLVM can vectorize
            loops that call kernels; without any, kernels are inlined.
    """
    done: set[tuple[str, str]] = set()
    texts: list[str] = []
    kept: list[str] = []
    while left := printer.calls - done:
        for op, code in sorted(left):
            done.add((op, code))
            dtype = np.dtype(code)
            builder = Builder()
            own = [kernels[one] for one in op.split("+")]
            names = [Scalar(f"a{k}", dtype) for k in range(operand_count(own[0]))]
            results = [kernel(builder, *names) for kernel in own]
            wanted = {1, *printer.vector_calls, *[width // dtype.itemsize for width in widths]}
            for lanes in sorted(wanted):
                inner = Printer(lanes)
                inner.block(builder.body)
                printer.calls |= inner.calls
                printer.declarations |= inner.declarations
                shown = ", ".join(f"{inner.kind(dtype)} %{name.name}" for name in names)
                kinds = [inner.kind(result.dtype) for result in results]
                kind = kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}"
                symbol = kernel_name(op, dtype) + ("" if lanes == 1 else f"_v{lanes}")
                kept += [symbol] if widths else []
                number = 2 if widths else 1
                value = inner.atom(results[0])
                if len(kinds) > 1:
                    value = "poison"
                    for place, result in enumerate(results):
                        one = f"{kinds[place]} {inner.atom(result)}"
                        inner.lines.append(
                            f"  %r{place} = insertvalue {kind} {value}, {one}, {place}"
                        )
                        value = f"%r{place}"
                texts.append(
                    f"define internal {kind} @{symbol}({shown}) #{number} {{\nentry:\n"
                    + "\n".join([*inner.lines, f"  ret {kind} {value}", "}"])
                )
    if kept:
        texts.append(
            f"@llvm.compiler.used = appending global [{len(kept)} x ptr] "
            f'[{", ".join(f"ptr @{name}" for name in kept)}], section "llvm.metadata"'
        )
    return "\n".join(texts)


def variants(widths: Sequence[int], kernels: Mapping[str, Kernel]) -> Callable[[str, DType], str]:
    """Return the function that names the vector forms of a kernel at its calls.

    The names are those of LLVM's vector function ABI.
    """
    counts = {op: operand_count(kernel) for op, kernel in kernels.items()}

    def attribute(op: str, dtype: DType) -> str:
        symbol = kernel_name(op, dtype)
        forms: list[str] = []
        for lanes in [width // dtype.itemsize for width in widths]:
            parameters = "v" * counts[op]
            forms.append(f"_ZGV_LLVM_N{lanes}{parameters}_{symbol}({symbol}_v{lanes})")
        return f' "vector-function-abi-variant"="{",".join(forms)}"'

    return attribute


def operand_count(kernel: Kernel) -> int:
    """Return how many operands a kernel has besides the builder."""
    return kernel.__code__.co_argcount - 1
