"""Random keys: creation from a seed, splitting, and folding in of a number.

Layer: 8.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Bool, Integer, UInt64

from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.ir.aval import aval_of
from functrace.numpy.protocol.operands import arrayed
from functrace.ops.random import fold_key_p, sample, seed_key_p, split_key_p
from functrace.ops.shaping import convert
from functrace.random.arguments import X, sizes
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

_WORDS = np.dtype(np.uint64)
_ARRAYS: tuple[type[Any], ...] = (Tracer, np.ndarray)
_MAKE = "make one of a seed, key = functrace.random.key(0), and pass it first"


def one_key(key: object, name: str) -> Any:
    """Check and return one key.

    Args:
        key: the user's argument.
        name: the called function, for messages.

    Raises:
        DtypeError: if it is not an array of uint64.
        ShapeError: if it is several keys, or not two words.
    """
    if not isinstance(key, _ARRAYS):
        shown = (
            repr(key) if key is None or isinstance(key, int | float) else f"a {type(key).__name__}"
        )
        raise DtypeError(f"random.{name}: the key is {shown}", fix=_MAKE)
    given: Any = key
    aval = aval_of(given)
    if aval.dtype != _WORDS:
        raise DtypeError(f"random.{name}: the key is {aval}, not two uint64", fix=_MAKE)
    if aval.shape != (2,):
        if len(aval.shape) > 1 and aval.shape[-1] == 2:
            raise ShapeError(
                f"random.{name}: the key is {aval}, several keys",
                fix="draw with each of them: functrace.vmap(lambda key: "
                f"functrace.random.{name}(key, …))(keys)",
            )
        raise ShapeError(f"random.{name}: the key is {aval}, not two uint64", fix=_MAKE)
    return given


def key(seed: int | np.integer[Any] | Integer[X, ""]) -> UInt64[Array, "2"]:
    """Make a key from a seed.

    Args:
        seed: an integer from 0 on, of any size; it may be traced.

    Returns:
        the key, uint64 of shape (2,): that of ``numpy.random.Philox(seed)``.

    Raises:
        DtypeError: if it is not an integer.
        ShapeError: if it is not a scalar.
        ArgumentError: if it is negative.

    Example:
        >>> key(7)
        array([16920295385781661272,   610735763742393210], dtype=uint64)

    Cost:
        5 us.

    Source:
        NumPy's ``SeedSequence``, which mixes neighbouring seeds well; ``jax.random.key``.
    """
    if isinstance(seed, Tracer):
        aval = aval_of(seed)
        if aval.dtype.kind not in "iu":
            raise DtypeError(
                f"random.key: the seed is {aval}, not an integer", fix="pass an integer"
            )
        if aval.shape:
            raise ShapeError(
                f"random.key: the seed is {aval}, not one integer",
                fix="map over seeds with functrace.vmap",
            )
        return bind(seed_key_p, (seed,))
    if isinstance(seed, np.ndarray) and seed.ndim:
        raise ShapeError(
            f"random.key: the seed is {aval_of(seed)}, not one integer",
            fix="map over seeds with functrace.vmap",
        )
    try:
        number = operator.index(seed)
    except TypeError:
        raise DtypeError(
            f"random.key: the seed is {seed!r}, not an integer", fix="pass an integer"
        ) from None
    if number < 0:
        raise ArgumentError(
            f"random.key: the seed {number} is negative", fix="pass an integer from 0 on"
        )
    return np.random.SeedSequence(number).generate_state(2, np.uint64)


def split(
    key: UInt64[X, "2"], num: SupportsIndex | Sequence[SupportsIndex] = 2
) -> UInt64[Array, "*num 2"]:
    """Make several keys from one, independent of each other, and of the key's own draws.

    Args:
        key: uint64, shape (2,).
        num: number of keys, or a shape. The first keys do not depend on it.

    Returns:
        uint64, shape (num, 2), or (*num, 2).

    Raises:
        DtypeError, ShapeError: if it is not a key.

    Example:
        >>> import functrace as ft
        >>> first, second, third = split(ft.random.key(0), 3)

    Cost:
        3 us, and 3 ns per key.

    Source:
        ``jax.random.split``.
    """
    return sample(split_key_p, one_key(key, "split"), (*sizes(num, "split"), 2), _WORDS)


def fold_in(
    key: UInt64[X, "2"], data: int | np.integer[Any] | np.bool_ | Integer[X, ""] | Bool[X, ""]
) -> UInt64[Array, "2"]:
    """Derive a key from a key and a number, such as the index of a step, an example or a layer.

    Args:
        key: uint64, shape (2,).
        data: one integer, which may be traced; -1 is the same as 2**64 - 1.

    Returns:
        a key: uint64, shape (2,).

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, or ``data`` not one integer.
        ArgumentError: if ``data`` has more than 64 bits.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> key = ft.random.key(0)
        >>> noise = ft.vmap(lambda i: ft.random.normal(ft.random.fold_in(key, i)))(np.arange(3))
        >>> float(noise[1]) == float(ft.random.normal(fold_in(key, 1)))
        True

    Cost:
        3 us per key.

    Source:
        ``jax.random.fold_in``.
    """
    key = one_key(key, "fold_in")
    if isinstance(data, int):
        if not -(2**63) <= data < 2**64:
            raise ArgumentError(
                f"random.fold_in: {data} has more than 64 bits", fix="fold it in in parts"
            )
        number: Any = np.uint64(data % 2**64)
    else:
        number = arrayed(data)
        if number.dtype.kind not in "biu":
            raise DtypeError(
                f"random.fold_in: data is {aval_of(number)}, not an integer", fix="pass an integer"
            )
        if number.shape:
            raise ShapeError(
                f"random.fold_in: data is {aval_of(number)}, not one integer",
                fix="map over them: functrace.vmap(functrace.random.fold_in, in_axes=(None, "
                "0))(key, data)",
            )
        number = convert(number, _WORDS)
    return bind(fold_key_p, (key, number))
