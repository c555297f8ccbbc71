"""Check static parameters of programs that come from outside of the library.

A param of the library's primitives is identified by its name: ``axes`` are axes of the first
operand, ``shape`` are sizes, for every primitive. While recording, the NumPy layer validates them;
but a text, or a program built by hand, may contain anything, and a rule that gets a string for an
axis, or an axis of -1, fails in any way, or predicts wrong avals.

Layer: 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import PRIMITIVES, Primitive
from functrace.ir.program import Param, Program
from functrace.ir.tape import Spec

if TYPE_CHECKING:
    from typing import TypeGuard

    from typing_extensions import TypeIs

Kind = tuple[str, Callable[[Any, Sequence[Spec]], bool]]
"""Description of a kind of param, and its test, which gets the operands too."""

_LARGEST_ORDER = 100
_SUBSCRIPTS = re.compile(r"[A-Za-z]*(?:,[A-Za-z]*)*->[A-Za-z]*")


def check_params(primitive: Primitive, specs: Sequence[Spec], params: Sequence[Any]) -> None:
    """Check the params of one of the library's primitives; ignore other primitives.

    Raises:
        ProgramError: with the param and its expected kind.
    """
    if PRIMITIVES.get(primitive.name) is not primitive:
        return
    for name, value in zip(primitive.params, params, strict=True):
        words, holds = KINDS.get(f"{primitive.name}.{name}") or KINDS[name]
        if not holds(value, specs):
            shown = repr(value) if len(repr(value)) < 100 else f"a {type(value).__name__}"
            raise ProgramError(
                f"{primitive}: {name} is {shown}, not {words}", fix=f"give it {words}"
            )


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_count(value: object, _: Sequence[Spec] = ()) -> bool:
    return _is_int(value) and value >= 0


def _rank(specs: Sequence[Spec]) -> int:
    return len(specs[0].shape) if specs and isinstance(specs[0], ShapeDtype) else 0


def _is_axis(value: object, specs: Sequence[Spec]) -> bool:
    return _is_int(value) and 0 <= value < _rank(specs)


def _are_integers(value: Param) -> TypeIs[tuple[int, ...]]:
    return type(value) is tuple and all(map(_is_int, value))


def _are_axes(value: Param, specs: Sequence[Spec]) -> bool:
    return (
        _are_integers(value)
        and all(0 <= k < _rank(specs) for k in value)
        and len(set(value)) == len(value)
    )


def _is_tuple_of(holds: Callable[[Any], bool]) -> Callable[[Any, Sequence[Spec]], bool]:
    def are(value: Param, _: Sequence[Spec]) -> bool:
        return type(value) is tuple and all(map(holds, value))

    return are


def _are_windows(value: tuple[int, ...]) -> bool:
    least = (1, 1, 0, 1, 0)
    return all(map(_is_count, value)) and (
        len(value) == 1 or (len(value) == 5 and all(map(int.__ge__, value, least)))
    )


def _is_part(value: Param) -> bool:
    if type(value) is tuple:
        return len(value) == 3 and all(k is None or _is_int(k) for k in value) and value[2] != 0
    return value is None or value is Ellipsis or _is_int(value)


def _is_one_of(*words: str | None) -> Kind:
    return f"one of {words}", lambda value, _: isinstance(value, str | None) and value in words


_AXES: Kind = ("a tuple of different axes of the operand, from 0", _are_axes)
_AXIS: Kind = ("an axis of the operand, from 0", _is_axis)
_COUNT: Kind = ("a number from 0", _is_count)
_FLAG: Kind = ("a bool", lambda value, _: isinstance(value, bool | np.bool_))
_INTEGER: Kind = ("an integer", lambda value, _: _is_int(value))
_NUMBER: Kind = ("a number", lambda value, _: isinstance(value, float) or _is_int(value))
_TEXT: Kind = ("a string", lambda value, _: isinstance(value, str))
_PROGRAM: Kind = ("a program", lambda value, _: isinstance(value, Program))
_STEPS: Kind = ("a tuple of numbers from 1", _is_tuple_of(lambda k: _is_int(k) and k >= 1))
_ANY: Kind = ("what the aval rule says", lambda value, _: True)

KINDS: dict[str, Kind] = {
    "above": _COUNT,
    "active": ("a tuple of bools", _is_tuple_of(lambda k: isinstance(k, bool))),
    "axes": _AXES,
    "axis": _AXIS,
    "backward": _ANY,
    "inner": ("a primitive", lambda value, _: isinstance(value, Primitive)),
    "inner_params": ("a tuple", lambda value, _: type(value) is tuple),
    "places": ("a tuple of numbers from 0", _is_tuple_of(_is_count)),
    "backwards": _FLAG,
    "batched": ("a tuple of bools", _is_tuple_of(lambda k: isinstance(k, bool))),
    "below": _COUNT,
    "bodies": (
        "a tuple of programs",
        lambda value, _: bool(value) and _is_tuple_of(_is_program)(value, ()),
    ),
    "body": _PROGRAM,
    "branches": (
        "a tuple of programs",
        lambda value, _: bool(value) and _is_tuple_of(_is_program)(value, ()),
    ),
    "captured": _COUNT,
    "carries": _COUNT,
    "columns": _COUNT,
    "constants": _COUNT,
    "cond": _PROGRAM,
    "correction": _NUMBER,
    "cuts": _FLAG,
    "decimals": _INTEGER,
    "draw.kind": _is_one_of("float64", "int64"),
    "dtype": ("a dtype", lambda value, _: isinstance(value, np.dtype) and value.kind in "biufc"),
    "equations": _PROGRAM,
    "dilation": _STEPS,
    "distribution": _TEXT,
    "explicit": _COUNT,
    "fix": _TEXT,
    "foreign": ("a Python function", lambda value, _: callable(value)),
    "forward": _ANY,
    "full": _FLAG,
    "groups": ("a number from 1", lambda value, _: _is_int(value) and value >= 1),
    "hermitian": _FLAG,
    "hidden": _COUNT,
    "how": ("a description of a matrix", lambda value, _: type(value) is tuple),
    "index": ("a basic index of ints, (start, stop, step), ... and None", _is_tuple_of(_is_part)),
    "is_permutation": _FLAG,
    "kernel": _STEPS,
    "kind": ("a string or None", lambda value, _: isinstance(value, str | None)),
    "linear_solve.forward": (
        "a pair of programs",
        lambda value, _: _is_tuple_of(_is_program)(value, ()) and len(value) == 2,
    ),
    "adjoint": _FLAG,
    "lower": _FLAG,
    "kth": (
        "an integer, or a tuple of them",
        lambda value, _: _is_int(value) or _is_tuple_of(_is_int)(value, ()),
    ),
    "lead": ("a tuple of sizes", _is_tuple_of(_is_count)),
    "length": _COUNT,
    "maps": ("a tuple of lengths and flags", lambda value, _: type(value) is tuple),
    "message": _TEXT,
    "method": _TEXT,
    "most": ("a number from 0, or None", lambda value, _: value is None or _is_count(value)),
    "n": ("a number from 1", lambda value, _: _is_int(value) and value >= 1),
    "name": _TEXT,
    "norm": _is_one_of("backward", "ortho", "forward"),
    "norm_order": _NUMBER,
    "offset": _INTEGER,
    "optimize": _FLAG,
    "order": (
        f"a number from 0 to {_LARGEST_ORDER}",
        lambda value, _: _is_count(value) and value <= _LARGEST_ORDER,
    ),
    "orders": (
        f"a tuple of numbers from 0 to {_LARGEST_ORDER}",
        _is_tuple_of(lambda k: _is_count(k) and k <= _LARGEST_ORDER),
    ),
    "owned": _FLAG,
    "padding": ("a tuple of numbers from 0", _is_tuple_of(_is_count)),
    "part": _is_one_of("full", "valid"),
    "policy": _ANY,
    "program": _PROGRAM,
    "rcond": ("a number", lambda value, _: isinstance(value, float) or _is_int(value)),
    "residuals": _COUNT,
    "results": ("a tuple of avals", _is_tuple_of(lambda k: isinstance(k, ShapeDtype))),
    "record": _PROGRAM,
    "reverse": _FLAG,
    "rows": _COUNT,
    "rule": _ANY,
    "schedule": ("a schedule", lambda value, _: _is_schedule(value)),
    "shape": ("a tuple of sizes", _is_tuple_of(_is_count)),
    "shift": _INTEGER,
    "side": _is_one_of("left", "right"),
    "solve": _PROGRAM,
    "stack": _COUNT,
    "stride": _STEPS,
    "stack.axis": (
        "a place for a new axis, from 0",
        lambda value, specs: _is_int(value) and 0 <= value <= _rank(specs),
    ),
    "shared": ("a tuple of numbers from 0", _is_tuple_of(_is_count)),
    "size": _COUNT,
    "sizes": ("a tuple of sizes", _is_tuple_of(_is_count)),
    "states": _COUNT,
    "subscripts": (
        "subscripts such as 'ab,bc->ac'",
        lambda value, _: isinstance(value, str) and _SUBSCRIPTS.fullmatch(value) is not None,
    ),
    "take_flat.axes": _COUNT,
    "tangent_solve": _PROGRAM,
    "template": (
        "an index of ints, (start, stop, step), ..., None and 'array'",
        _is_tuple_of(lambda k: _is_part(k) or k == "array"),
    ),
    "transposed": (
        "a pair of programs, or ()",
        lambda value, _: _is_tuple_of(_is_program)(value, ()) and len(value) in (0, 2),
    ),
    "unit": _FLAG,
    "while_loop.carries": ("a tuple of numbers from 0", _is_tuple_of(_is_count)),
    "while_loop.reverse": ("a tuple of bools", _is_tuple_of(lambda k: isinstance(k, bool))),
    "uplo": _is_one_of("L", "U"),
    "windows": (
        "a tuple of windows",
        _is_tuple_of(lambda k: _are_integers(k) and len(k) > 0 and _are_windows(k)),
    ),
}
_OF_LOOPS: Mapping[str, Kind] = {
    "cond": ("a program, or None", lambda value, _: value is None or _is_program(value)),
    "length": ("a number from 0, or None", lambda value, _: value is None or _is_count(value)),
}
KINDS.update({"checkpointed_reverse.adjoint": _PROGRAM, "checkpointed_reverse.results": _COUNT})
KINDS.update(
    (f"checkpointed_{name}.{param}", kind)
    for name in ("loop", "forward", "tangents", "reverse")
    for param, kind in _OF_LOOPS.items()
)
"""Kind of each param by name (a test checks that none is missing), or by primitive and name."""


def _is_schedule(value: Any) -> bool:
    return type(value) is tuple and len(value) > 1  # pyright: ignore[reportUnknownArgumentType]


def _is_program(value: object) -> bool:
    return isinstance(value, Program)
