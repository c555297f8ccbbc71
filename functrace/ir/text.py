"""The typed listing of a program, which parses back to an equal program.

::

    loss(x: f64[3], w: f64[3]) {
      const k: f64[3] = [1.0, 2.0, 3.0]
      a: f64[3] = mul x 2.0                 # train.py:3
      (q: f64[3], r: f64[3]) = divmod a k   # train.py:4
      c: f64[] = reduce_sum q {axes=(0,)}   # train.py:5
      return c
    }

A constant of more than 16 elements is written compressed, ``<f64[784,64] zlib:…>``, or abbreviated
to a digest, ``<f64[784,64] #1a2b3c4d>``. A constant with elements repeated in memory is written
without the repeats, ``broadcast f64[] 0.1``. A sub-program in a param is an indented listing in
braces. A variable is shown under the user's name in any script, unless Python could confuse it with
another (`functrace.ir.program.is_name`).

Layer: 0.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from textwrap import indent
from typing import Any

import numpy as np

from functrace.ir.aval import Constant, ShapeDtype, aval_of, dtype_name
from functrace.ir.primitive import Primitive
from functrace.ir.program import Equation, Literal, Program, Static, Var
from functrace.ir.serial import (
    MOST_INLINE,
    array_bytes,
    check_depth,
    constant_array,
    number_is_writable,
    plain_number,
    unwritable,
    without_repeats,
    written_number,
)
from functrace.keys import exact_bytes

_WIDEST_ALIGNED = 72
"""Comments are aligned after equations up to this width."""


# -- writing ---------------------------------------------------------------------------------------


def program_text(program: Program, *, full: bool, depth: int = 0) -> str:
    """Return the listing; with ``full``, large constants are written compressed instead of
    abbreviated.

    ``depth`` is the nesting depth of programs and tuples.

    Raises:
        ProgramError: with ``full``, if a param has no written form or a constant is a traced value.
    """
    lines = [
        f"const {var!r} = {_constant_text(var, value, full)}"
        for var, value in program.constants.items()
    ]
    equations = [
        (equation_text(equation, full=full, depth=depth), equation.source)
        for equation in program.equations
    ]
    widths = [len(text) for text, source in equations if source is not None and "\n" not in text]
    width = max((n for n in widths if n <= _WIDEST_ALIGNED), default=0)
    lines += [
        text if source is None else f"{text:<{width}}  # {source.short}"
        for text, source in equations
    ]
    lines.append(("return " + ", ".join(str(var.name) for var in program.outputs)).rstrip())
    inputs = ", ".join(map(repr, program.inputs))
    return f"{_listing_name(program.name)}({inputs}) {{\n" + indent("\n".join(lines), "  ") + "\n}"


def equation_text(equation: Equation, *, full: bool = False, depth: int = 0) -> str:
    """Return an equation as its line in the listing, without the comment."""
    outputs = ", ".join(map(repr, equation.outputs))
    if len(equation.outputs) != 1:
        outputs = f"({outputs})"
    owner = equation.primitive.name
    inputs = [
        _param_text(x.value, owner, full) if isinstance(x, Literal) else str(x.name)
        for x in equation.inputs
    ]
    text = " ".join([f"{outputs} = {owner}", *inputs])
    params = ", ".join(
        f"{k}={_param_text(v, owner, full, depth)}" for k, v in equation.params.items()
    )
    return f"{text} {{{params}}}" if params else text


def inline_elements(array: np.ndarray[Any, Any]) -> list[str] | None:
    """Return elements as text that reads back to the same bytes, or ``None`` if too long."""
    if array.size > MOST_INLINE:
        return None
    texts = [str(element) for element in array.ravel()]
    read = np.array([element_of(text, array.dtype) for text in texts], array.dtype)
    return texts if exact_bytes(read) == exact_bytes(array) else None


def _listing_name(name: str) -> str:
    return (
        name
        if re.fullmatch(r"<\w+>|[^\W\d]\w*", name)
        else re.sub(r"\W", "_", name).lstrip("0123456789") or "program"
    )


def _constant_text(var: Var, value: Constant, full: bool) -> str:
    if not full and not isinstance(value, np.ndarray | np.generic):
        return f"<{var.aval} traced>"
    whole = constant_array(value, str(var.name))
    array = without_repeats(whole)
    if array.shape != whole.shape:
        distinct = Var(aval_of(array), var.name)
        return f"broadcast {distinct.aval} {_constant_text(distinct, array, full)}"
    array = np.ascontiguousarray(whole).reshape(var.aval.shape)
    texts = inline_elements(array)
    if texts is not None:
        return _nested(iter(texts), array.shape)
    data = array_bytes(array)
    if full:
        return f"<{var.aval} zlib:{base64.b64encode(zlib.compress(data)).decode('ascii')}>"
    return f"<{var.aval} #{hashlib.sha256(data).hexdigest()[:8]}>"


def _nested(texts: Iterator[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return next(texts)
    return "[" + ", ".join(_nested(texts, shape[1:]) for _ in range(shape[0])) + "]"


def _param_text(value: Static, owner: str, full: bool, depth: int = 0) -> str:
    value = plain_number(value)
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int | float | complex):
        if full or number_is_writable(value):
            return repr(written_number(value, f"a number of {owner}"))
        return "<int>"
    if isinstance(value, type):
        return (
            f"type {dtype_name(np.dtype(value))}"
            if issubclass(value, np.generic)
            else _formless(value, owner, full)
        )
    if type(value) is tuple:
        deeper = check_depth(depth) if full else depth
        inner = ", ".join(_param_text(v, owner, full, deeper) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if value is ...:
        return "..."
    match value:
        case np.dtype():
            return dtype_name(value)
        case ShapeDtype():
            return repr(value)
        case slice():
            return f"slice {_param_text((value.start, value.stop, value.step), owner, full, depth)}"
        case bytes():
            return f"bytes {json.dumps(base64.b64encode(value).decode('ascii'))}"
        case Primitive():
            return f"@{value.name}"
        case Program():
            deeper = check_depth(depth) if full else depth + 1
            return "{\n" + indent(program_text(value, full=full, depth=deeper), "  ") + "\n}"
        case np.ufunc() if getattr(np, value.__name__, None) is value:
            return f"np.{value.__name__}"
        case _:
            return _formless(value, owner, full)


def _formless(value: object, owner: str, full: bool) -> str:
    if not full:
        return f"<{type(value).__name__}>"
    raise unwritable(value, f"a param of {owner}")


def element_of(text: str, dtype: np.dtype[Any]) -> Any:
    """Parse one element of a constant in the precision of its dtype."""
    if dtype.kind == "b":
        return {"True": True, "False": False}[text]
    if dtype.kind in "iu":
        return int(text)
    return dtype.type(text) if dtype.kind == "f" else complex(text)
