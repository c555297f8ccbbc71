"""Arguments of image functions: modes, axes, origins, and output; see `functrace.scipy.ndimage`.

Layer: 9.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from functrace.errors import AxisError, DtypeError, ShapeError
from functrace.numpy.protocol.operands import arrayed, axis_tuple, stored
from functrace.ops.grids import convolve_grids
from functrace.scipy.operands import Axis, Operand
from functrace.typing import Array

T = TypeVar("T")
Output: TypeAlias = npt.DTypeLike | Operand
Modes: TypeAlias = str | Sequence[str]
PADS: dict[str, Any] = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant",
    "grid-constant": "constant",
    "nearest": "edge", "mirror": "reflect", "wrap": "wrap", "grid-wrap": "wrap",
}  # fmt: skip
"""NumPy's names of the filter modes."""


def image(name: str, x: Operand, *, real: bool = False) -> Any:
    """Return an image as an array in double precision."""
    made: Any = arrayed(x)
    if real and made.dtype.kind == "c":
        raise DtypeError(
            f"scipy.ndimage.{name}: complex type not supported", fix="pass real and imaginary parts"
        )
    return made.astype(np.complex128 if made.dtype.kind == "c" else np.float64)


def each(name: str, given: T | Sequence[T], count: int) -> list[Any]:
    """Return one value per axis, from one for all or several."""
    is_one = isinstance(given, str) or not isinstance(given, Sequence | np.ndarray)
    if is_one or (isinstance(given, np.ndarray) and not given.ndim):
        return [given] * count
    values: list[Any] = list(cast("Sequence[Any]", given))
    if len(values) != count:
        raise ShapeError(
            f"scipy.ndimage.{name}: sequence argument must have length equal to input rank, "
            f"{count}, not {len(values)}",
            fix="give one per axis",
        )
    return values


def places(name: str, axes: Axis, ndim: int) -> tuple[int, ...]:
    """Return the axes to filter."""
    if axes is None:
        return tuple(range(ndim))
    try:
        return axis_tuple(axes, ndim)
    except AxisError as error:
        raise AxisError(f"scipy.ndimage.{name}: {error.what}", fix=error.fix) from error


def finished(
    name: str, result: Array, like: Operand, output: Output | None, *, whole: bool = False
) -> Any:
    """Return a result in the dtype of the input, or of ``output``.

    Args:
        name: SciPy's function.
        result: the result in double precision.
        like: the input.
        output: a dtype, or a traced array to write into.
        whole: True to round non-integers and clip them to the dtype's range, like interpolation;
            False to truncate, like filters. Bools are always truncated: 0.7 is False.
    """
    given: Any = arrayed(like)
    target: Any = None
    kind: Any
    if output is None:
        kind = (
            np.result_type(given.dtype, np.complex64) if result.dtype.kind == "c" else given.dtype
        )
    elif isinstance(output, type | np.dtype | str):
        kind = np.dtype(output)
        if (result.dtype.kind == "c") != (kind.kind == "c"):
            if kind.kind == "c":
                raise DtypeError(
                    f"scipy.ndimage.{name}: a complex output of real input",
                    fix="make the input complex",
                )
            raise DtypeError(
                f"scipy.ndimage.{name}: output must have complex dtype", fix="pass output=complex"
            )
    else:
        target = output
        if target.shape != result.shape:
            raise ShapeError(
                f"scipy.ndimage.{name}: output shape not correct",
                fix=f"pass an array of shape {result.shape}",
            )
        kind = target.dtype
    if kind.kind in "iu" and whole:
        result = np.where(result > 0, np.floor(result + 0.5), np.ceil(result - 0.5))
        limits: Any = np.iinfo(kind)
        result = np.maximum(result, float(limits.min))
        result = np.minimum(result, float(limits.max)) if kind.itemsize < 8 else result
    elif kind.kind == "b" and result.dtype.kind == "f":
        result = np.trunc(result)
    made = result.astype(kind)
    return made if target is None else stored(made, target, f"ndimage.{name}")


def padded(
    name: str, x: Array, rooms: dict[int, tuple[int, int]], modes: dict[int, str], cval: Operand
) -> Any:
    """Pad an image beyond its edges by numbers of elements per axis, by its mode."""
    for axis, (low, high) in rooms.items():
        mode = modes[axis]
        if mode not in PADS:
            raise ShapeError(
                f"scipy.ndimage.{name}: boundary mode {mode!r} not supported",
                fix=f"pass one of {tuple(PADS)}",
            )
        if low <= 0 and high <= 0:
            continue
        room = [(0, 0)] * x.ndim
        room[axis] = (low, high)
        given = {"constant_values": _value(name, cval, x)} if PADS[mode] == "constant" else {}
        x = np.pad(x, room, mode=PADS[mode], **given)
    return x


def _value(name: str, cval: Operand, x: Array) -> Any:
    made: Any = arrayed(cval)
    if made.ndim:
        raise ShapeError(
            f"scipy.ndimage.{name}: cval must be one number, got shape {made.shape}",
            fix="pass a number",
        )
    if made.dtype.kind == "c" and x.dtype.kind != "c":
        raise DtypeError(
            f"scipy.ndimage.{name}: a complex cval of a real input", fix="make the input complex"
        )
    return made.astype(x.dtype)


def reach(name: str, size: int, origin: int) -> tuple[int, int]:
    """Return how many elements a filter reads before and after the one that it computes."""
    origin = operator.index(origin)
    if size < 1:
        raise ShapeError(f"scipy.ndimage.{name}: no filter weights given", fix="pass at least one")
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ShapeError(
            f"scipy.ndimage.{name}: invalid origin {origin}; it must satisfy -(size // 2) <= "
            "origin <= (size - 1) // 2",
            fix=f"pass one between {-(size // 2)} and {(size - 1) // 2}",
        )
    return size // 2 + origin, size - size // 2 - 1 - origin


def slid(
    name: str,
    x: Array,
    weights: Array,
    origins: Sequence[int],
    modes: dict[int, str],
    cval: Operand,
) -> Any:
    """Correlate an image with weights of the same rank, in double precision."""
    reached = [reach(name, n, at) for n, at in zip(weights.shape, origins, strict=True)]
    rooms = {k: room for k, room in enumerate(reached) if weights.shape[k] > 1 or k in modes}
    turned = weights[(slice(None, None, -1),) * weights.ndim]
    return convolve_grids(padded(name, x, rooms, modes, cval), turned, 0, "valid")
