"""The JSON form of a program: versioned, with arrays in base64; reading it never executes code.

Variables are numbered in the order inputs, constants, results of equations. JSON's own values stand for themselves
(a list is a tuple); everything else is an object with one key that names its kind, e.g. ``{"dtype": "f32"}``.

Floor: 0.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from functrace.errors import FunctraceError, ParseError, ProgramError
from functrace.ir.aval import ShapeDtype, dtype_name, dtype_named
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.ir.program import Position, Program, exact_bytes, position_at
from functrace.ir.tape import Builder

VERSION = 1
_WRITABLE = "use numbers, strings, None, ..., dtypes, avals, slices, ufuncs, programs, or tuples of them"


def program_to_json(program: Program) -> str:
    """Return a program as JSON text.

    Raises:
        ProgramError: if a param has no written form, or a constant is a traced value.
    """
    return json.dumps({"functrace_program": VERSION, **_encode_program(program)}, allow_nan=False)


def program_from_json(text: str, primitives: Mapping[str, Primitive]) -> Program:
    """Read a program back from JSON text.

    Raises:
        ParseError: if the text is not a program, or of a version that is not known.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(
            f"line {error.lineno} is not JSON: {error.msg}", fix="pass what Program.to_json() returned"
        ) from None
    if not isinstance(data, dict) or "functrace_program" not in data:
        raise ParseError("the JSON text is not a program", fix="pass what Program.to_json() returned")
    if data["functrace_program"] != VERSION:
        raise ParseError(
            f"the program has version {data['functrace_program']!r}, but this functrace reads version {VERSION}",
            fix="write the program again with this functrace, or read it with the one that wrote it",
        )
    try:
        return _decode_program(data, primitives)
    except FunctraceError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ParseError(
            f"the JSON text is not a well-formed program: {type(error).__name__}: {error}",
            fix="pass what Program.to_json() returned, unchanged",
        ) from error


# -- pieces that the text form shares ------------------------------------------------------------------


def constant_array(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Return a constant as an array.

    Raises:
        ProgramError: if it is a traced value, which has no value to write.
    """
    if not isinstance(value, np.ndarray | np.generic):
        raise ProgramError(
            f"constant {name} is a {type(value).__name__}, which cannot be written: its value is not known here",
            fix="make it an argument of the function, or write the program outside the transform that made it",
        )
    return np.asarray(value)


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Return the elements in row-major order and little-endian bytes."""
    return exact_bytes(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False))


def array_from_bytes(data: bytes, aval: ShapeDtype) -> Any:
    """Return the constant whose bytes are ``data``: an array, or a NumPy scalar for shape ``()``."""
    if len(data) != aval.nbytes:
        raise ParseError(f"{aval} needs {aval.nbytes} bytes, but {len(data)} are given", fix="do not edit encoded arrays")
    array = np.frombuffer(data, aval.dtype.newbyteorder("<")).astype(aval.dtype).reshape(aval.shape)
    return array[()]


def aval_named(text: str) -> ShapeDtype:
    """Read an aval as listings write it, ``f64[3,4]``."""
    name, bracket, sizes = text.partition("[")
    try:
        if not bracket or not sizes.endswith("]"):
            raise KeyError(text)
        return ShapeDtype(tuple(int(n) for n in sizes[:-1].split(",") if n), dtype_named(name))
    except (KeyError, ValueError):
        raise ParseError(f"{text!r} is not an aval", fix="write dtype and sizes, e.g. f64[3,4]") from None


def named_primitive(name: str, primitives: Mapping[str, Primitive]) -> Primitive:
    """Look a primitive up by the word that listings show."""
    if name not in primitives:
        raise ParseError(
            f"there is no primitive named {name!r}",
            fix="check the spelling, or pass your own primitives: primitives={'" + name + "': ...}",
        )
    return primitives[name]


def named_ufunc(name: str) -> np.ufunc:
    """Look a ufunc up by its name; nothing else of NumPy can be reached."""
    found = getattr(np, name, None)
    if not isinstance(found, np.ufunc):
        raise ParseError(f"NumPy has no ufunc named {name!r}", fix="check the spelling")
    return found


def unwritable(value: Any, what: str) -> ProgramError:
    """The error for a param without a written form."""
    return ProgramError(f"{what} is a {type(value).__name__}, which has no written form: {value!r}", fix=_WRITABLE)


def plain_number(value: Any) -> Any:
    """Return a NumPy scalar that stands in params as the Python number that it equals."""
    return value.item() if isinstance(value, np.bool_ | np.integer | np.floating | np.complexfloating) else value


# -- writing -------------------------------------------------------------------------------------------


def _encode_program(program: Program) -> dict[str, Any]:
    variables = program.variables
    order = [*program.input_ids, *program.constant_values]
    order += [i for i, op in enumerate(program.ops) if op[0] is not INPUT and op[0] is not CONSTANT]
    number = {i: k for k, i in enumerate(order)}

    def variable(i: int) -> dict[str, Any]:
        return {"name": variables[i].name, "aval": repr(variables[i].aval)}

    equations = []
    for i in order:
        primitive, operands, params = program.ops[i]
        if primitive is INPUT or primitive is CONSTANT or primitive is RESULT:
            continue
        what = f"a param of {primitive.name}"
        equation: dict[str, Any] = {
            "primitive": primitive.name,
            "inputs": [number[k] if k >= 0 else {"literal": encode(program.literals[~k], what)} for k in operands],
            "params": {name: encode(p, what) for name, p in zip(primitive.params, params, strict=True)},
            "outputs": [variable(i + k) for k in range(program.result_count(i))],
        }
        source = program.source(i)
        if source is not None:
            equation["source"] = [source.file, source.line, source.function]
        equations.append(equation)
    constants = []
    for i, value in program.constant_values.items():
        data = array_bytes(constant_array(value, str(variables[i].name)))
        constants.append({**variable(i), "data": base64.b64encode(data).decode("ascii")})
    return {
        "name": program.name,
        "inputs": [variable(i) for i in program.input_ids],
        "constants": constants,
        "equations": equations,
        "outputs": [number[i] for i in program.output_ids],
    }


def encode(value: Any, what: str) -> Any:
    """Return a static value as JSON data."""
    value = plain_number(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": float.__repr__(value)}
    if isinstance(value, complex):
        return {"complex": complex.__repr__(value)}
    if type(value) is tuple:
        return [encode(v, what) for v in value]
    if isinstance(value, np.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"dtype_type": dtype_name(np.dtype(value))}
    match value:
        case _ if value is Ellipsis:
            return {"ellipsis": True}
        case slice():
            return {"slice": [encode(v, what) for v in (value.start, value.stop, value.step)]}
        case bytes():
            return {"bytes": base64.b64encode(value).decode("ascii")}
        case ShapeDtype():
            return {"aval": repr(value)}
        case Program():
            return {"program": _encode_program(value)}
        case Primitive():
            return {"primitive": value.name}
        case np.ufunc() if getattr(np, value.__name__, None) is value:
            return {"ufunc": value.__name__}
    raise unwritable(value, what)


# -- reading -------------------------------------------------------------------------------------------


def _decode_program(data: Mapping[str, Any], primitives: Mapping[str, Primitive]) -> Program:
    builder = Builder()
    ids: list[int] = []
    names: dict[int, str] = {}
    positions: dict[int, Position] = {}

    def written(variable: int, entry: Mapping[str, Any]) -> None:
        ids.append(variable)
        if isinstance(entry["name"], str):
            names[variable] = entry["name"]

    for entry in data["inputs"]:
        written(builder.input(aval_named(entry["aval"])), entry)
    for entry in data["constants"]:
        aval = aval_named(entry["aval"])
        try:
            raw = base64.b64decode(entry["data"], validate=True)
        except binascii.Error as error:
            raise ParseError(f"constant {entry['name']} is not base64: {error}", fix="do not edit arrays") from None
        written(builder.constant(array_from_bytes(raw, aval), aval), entry)
    for entry in data["equations"]:
        primitive = named_primitive(entry["primitive"], primitives)
        operands = tuple(
            builder.literal(decode(x["literal"], primitives)) if isinstance(x, dict) else _known(ids, x)
            for x in entry["inputs"]
        )
        if set(entry["params"]) != set(primitive.params):
            raise ParseError(
                f"{primitive.name} takes the params {primitive.params}, not {tuple(entry['params'])}",
                fix="write the program again with this functrace",
            )
        params = tuple(decode(entry["params"][name], primitives) for name in primitive.params)
        first = builder.append(primitive, operands, tuple(map(builder.spec, operands)), params)
        inferred = builder.avals[first:]
        stated = [aval_named(out["aval"]) for out in entry["outputs"]]
        if inferred != stated:
            raise ParseError(f"{primitive.name} gives {inferred}, but the text says {stated}", fix="correct the avals")
        for k, out in enumerate(entry["outputs"]):
            written(first + k, out)
        if stated and entry.get("source") is not None:
            file, line, function = entry["source"]
            positions[first] = position_at(str(file), int(line), str(function))
    return Program.from_builder(
        builder,
        [_known(ids, k) for k in data["outputs"]],
        name=str(data["name"]),
        names=names,
        positions=[positions.get(i) for i in range(len(builder.ops))],
    )


def _known(ids: list[int], k: Any) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < len(ids):
        raise ParseError(f"variable {k!r} is used before it is written", fix="list equations in the order of evaluation")
    return ids[k]


def decode(data: Any, primitives: Mapping[str, Primitive]) -> Any:
    """Return the static value that JSON data stands for."""
    if isinstance(data, list):
        return tuple(decode(v, primitives) for v in data)
    if not isinstance(data, dict):
        return data
    ((kind, value),) = data.items()
    match kind:
        case "float" | "complex":
            return {"float": float, "complex": complex}[kind](value)
        case "dtype":
            return dtype_named(value)
        case "dtype_type":
            return dtype_named(value).type
        case "ellipsis":
            return Ellipsis
        case "slice":
            return slice(*decode(value, primitives))
        case "bytes":
            return base64.b64decode(value, validate=True)
        case "aval":
            return aval_named(value)
        case "program":
            return _decode_program(value, primitives)
        case "primitive":
            return named_primitive(value, primitives)
        case "ufunc":
            return named_ufunc(value)
    raise ParseError(f"{kind!r} is not a kind of value", fix="write the program again with this functrace")
