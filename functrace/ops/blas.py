"""Triangles times matrices, and their inverses, by the BLAS that NumPy is linked with; else by SciPy's.

NumPy has no name for BLAS's ``trsm`` and ``trmm``, but its linear algebra brings them along: the wheels' OpenBLAS, Apple's
Accelerate, or what a distribution has put there. SciPy's wheels bring a second OpenBLAS, whose threads wait for work by
spinning, as those of the first do; so a program that goes to and fro between both takes the cores away from itself. See
docs/decisions/0032.

Floor: 2.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from functrace.ir.primitive import WRITTEN_AS
from functrace.typing import Array

Name = Literal["trsm", "trmm"]

SPELLINGS = ("scipy_{0}_64_", "{0}_64_", "{0}$NEWLAPACK$ILP64", "{0}$NEWLAPACK", "{0}_")
"""How libraries call Fortran's routines: NumPy's wheels, OpenBLAS and MKL with long integers, Accelerate, all others."""

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_FIELDS = 4  # the integers of a call: rows, columns, and the two leading dimensions


@functools.lru_cache(maxsize=1)
def _library() -> Any:
    """What NumPy's linear algebra is linked with; ``None`` where that cannot be asked.

    A symbol that is looked for in a loaded library is looked for in those that it needs, too (but on Windows).
    """
    # Short and long integers are told apart by nothing; where low bytes come first, both read a long one right.
    if sys.byteorder != "little" or sys.platform in ("emscripten", "wasi"):
        return None
    try:
        import ctypes

        from numpy.linalg import _umath_linalg

        return ctypes.CDLL(_umath_linalg.__file__)
    except (ImportError, OSError, AttributeError, TypeError):
        return None


def _symbol(library: Any, name: str) -> Any:
    """Find a routine under any of its spellings."""
    for spelling in SPELLINGS:
        found = getattr(library, spelling.format(name), None)
        if found is not None:
            return found
    return None


@functools.lru_cache(maxsize=16)
def _numpys(name: Name, char: str) -> Callable[..., Array] | None:
    """A routine of NumPy's library for a dtype, of stacks; ``None`` where there is none that computes a known result."""
    library = _library()
    symbol = None if library is None else _symbol(library, _LETTERS[char] + name)
    if symbol is None:
        return None
    made = functools.partial(_called, symbol)
    a, b = np.array([[2, 0], [3, 4]], char), np.array([[1, 2, 3], [-1, 2, 0.5]], char)
    product = np.array([[2, 4, 6], [-1, 14, 11]], char)
    given, expected = (product, b) if name == "trsm" else (b, product)
    right = all(np.array_equal(made(x, given, True, False), expected) for x in (a, np.asfortranarray(a)))
    return made if right else None


def _called(symbol: Any, a: Array, b: Array, lower: bool, unit: bool) -> Array:
    """Call a routine for all matrices of two stacks."""
    import ctypes

    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    n, k = b.shape[-2], b.shape[-1]
    out = np.empty((*stack, n, k), b.dtype)
    out[...] = b
    size = out.itemsize
    across, down = a.strides[-1], a.strides[-2]
    if across == size and down >= n * size and down % size == 0 and a.flags.aligned:
        leading, is_turned = down // size, False
    elif down == size and across >= n * size and across % size == 0 and a.flags.aligned:
        leading, is_turned = across // size, True
    else:
        a, leading, is_turned = np.ascontiguousarray(a), n, False
    # a x = b is x^T a^T = b^T, and the transposes of arrays in C order are arrays as Fortran has them: nothing is copied.
    flags = (b"R", b"L" if lower == is_turned else b"U", b"T" if is_turned else b"N", b"U" if unit else b"N")
    integers = (ctypes.c_int64 * _FIELDS)(k, n, leading, k)
    rows, columns, lda, ldb = [ctypes.c_void_p(ctypes.addressof(integers) + 8 * i) for i in range(_FIELDS)]
    one = np.ones(1, out.dtype)
    factor = ctypes.c_void_p(one.ctypes.data)
    lengths = [ctypes.c_size_t(1)] * len(flags)  # of the texts, as Fortran's compilers hand them over
    if stack:
        a = np.broadcast_to(a, stack + a.shape[-2:])
    start, target = a.__array_interface__["data"][0], out.ctypes.data
    for place, index in enumerate(np.ndindex(stack)):
        at = start + sum(i * stride for i, stride in zip(index, a.strides, strict=False))
        to = ctypes.c_void_p(target + place * n * k * size)
        symbol(*flags, rows, columns, factor, ctypes.c_void_p(at), lda, to, ldb, *lengths)
    return out


@functools.lru_cache(maxsize=16)
def _scipys(name: Name, char: str) -> Callable[..., Array] | None:
    """A routine of SciPy's BLAS for a dtype, of stacks; ``None`` without SciPy."""
    try:
        from scipy.linalg import blas
    except ImportError:
        return None
    return functools.partial(_one_by_one, getattr(blas, _LETTERS[char] + name))


def _one_by_one(routine: Callable[..., Any], a: Array, b: Array, lower: bool, unit: bool) -> Array:
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, stack + a.shape[-2:]), np.broadcast_to(b, stack + b.shape[-2:])
    out = np.empty(b.shape, b.dtype)
    for k in np.ndindex(stack):
        x, y = a[k], b[k].T
        if x.flags.f_contiguous and not x.flags.c_contiguous:
            out[k] = routine(1.0, x, y, side=1, lower=lower, trans_a=1, diag=unit).T
        else:
            out[k] = routine(1.0, x.T, y, side=1, lower=not lower, diag=unit).T
    return out


def triangular(name: Name, dtype: np.dtype[Any]) -> Callable[..., Array] | None:
    """Find what solves triangular systems (``trsm``), or multiplies by triangles (``trmm``), for a dtype.

    Returns:
        A function of ``(a, b, lower, unit)``, stacks of matrices (..., n, n) and (..., n, k) of that dtype with at least
        one element each, which makes a new array in C order; ``None`` where no library has it, or for other dtypes.
        Several threads may call it at once.
    """
    if dtype.char not in _LETTERS:
        return None
    return _numpys(name, dtype.char) or _scipys(name, dtype.char)


def no_routine(_name: Name, _dtype: np.dtype[Any]) -> None:
    """Stand for `triangular` where there is NumPy alone."""


vars(triangular)[WRITTEN_AS] = no_routine  # source that is written has NumPy alone: there, triangles are general matrices
