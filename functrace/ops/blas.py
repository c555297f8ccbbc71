"""NumPy's BLAS: products with triangular matrices, triangular solves, and the number of threads.

NumPy has no API for BLAS's ``trsm`` and ``trmm``, but its linear algebra is linked with them: the
wheels' OpenBLAS, Apple's Accelerate, or a distribution's BLAS. SciPy's wheels contain a second
OpenBLAS, whose idle threads spin, like those of the first; so a program that alternates between
both oversubscribes the cores. See docs/decisions/0032.

Layer: 2.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, Literal, final

import numpy as np

from functrace.ir.primitive import WRITTEN_AS
from functrace.locks import Lock, after_fork
from functrace.typing import Array

Name = Literal["trsm", "trmm"]

SWITCH = "FUNCTRACE_NUMPY_BLAS"
"""Environment variable: 0 disables the look-up of symbols that NumPy does not document. Triangular
operations then use SciPy's BLAS or NumPy's functions, and BLAS keeps its number of threads."""

SPELLINGS = ("scipy_{0}_64_", "{0}_64_", "{0}$NEWLAPACK$ILP64", "{0}$NEWLAPACK", "{0}_")
"""Spellings of Fortran routines: NumPy's wheels, OpenBLAS and MKL with 64-bit integers, Accelerate,
others."""

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_FIELDS = 4  # the integers of a call: rows, columns, and the two leading dimensions


@functools.lru_cache(maxsize=1)
def _library() -> Any:
    """Return the library that NumPy's linear algebra is linked with, if accessible.

    A symbol lookup in a loaded library also searches its dependencies (except on Windows).
    """
    # Integers of 32 and 64 bits cannot be distinguished; in little-endian order, both read a 64-bit
    # one correctly.
    if (
        sys.byteorder != "little"
        or sys.platform in ("emscripten", "wasi")
        or os.environ.get(SWITCH) == "0"
    ):
        return None
    try:
        import ctypes

        from numpy.linalg import _umath_linalg

        return ctypes.CDLL(_umath_linalg.__file__)
    except (ImportError, OSError, AttributeError, TypeError):
        return None


def _symbol(library: Any, name: str) -> Any:
    """Look up a routine under any of its spellings."""
    for spelling in SPELLINGS:
        found = getattr(library, spelling.format(name), None)
        if found is not None:
            return found
    return None


@functools.lru_cache(maxsize=16)
def routine_address(name: str) -> int | None:
    """Return the address of a Fortran routine of NumPy's BLAS (``"dgemm"``), or ``None``.

    Integers are passed as 64-bit ones, and the hidden lengths of strings last.
    """
    library = _library()
    found = None if library is None else _symbol(library, name)
    if found is None:
        return None
    import ctypes

    return ctypes.cast(found, ctypes.c_void_p).value


@functools.lru_cache(maxsize=16)
def _numpys(name: Name, char: str) -> Callable[..., Array] | None:
    """Return a routine of NumPy's BLAS for a dtype, on stacks; ``None`` unless it passes a test."""
    library = _library()
    symbol = None if library is None else _symbol(library, _LETTERS[char] + name)
    if symbol is None:
        return None
    made = functools.partial(_called, symbol)
    a, b = np.array([[2, 0], [3, 4]], char), np.array([[1, 2, 3], [-1, 2, 0.5]], char)
    product = np.array([[2, 4, 6], [-1, 14, 11]], char)
    given, expected = (product, b) if name == "trsm" else (b, product)
    right = all(
        np.array_equal(made(x, given, True, False), expected) for x in (a, np.asfortranarray(a))
    )
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
    # a x = b is x^T a^T = b^T, and transposes of C-ordered arrays are Fortran-ordered: no copies.
    flags = (
        b"R",
        b"L" if lower == is_turned else b"U",
        b"T" if is_turned else b"N",
        b"U" if unit else b"N",
    )
    integers = (ctypes.c_int64 * _FIELDS)(k, n, leading, k)
    rows, columns, lda, ldb = [
        ctypes.c_void_p(ctypes.addressof(integers) + 8 * i) for i in range(_FIELDS)
    ]
    one = np.ones(1, out.dtype)
    factor = ctypes.c_void_p(one.ctypes.data)
    lengths = [ctypes.c_size_t(1)] * len(flags)  # hidden string lengths of the Fortran ABI
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
    """Return a routine of SciPy's BLAS for a dtype, on stacks; ``None`` without SciPy."""
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
    """Return the triangular solve (``trsm``) or product (``trmm``) for a dtype.

    Returns:
        A function of ``(a, b, lower, unit)``, stacks of matrices (..., n, n) and (..., n, k) of
        that dtype with at least one element each, which returns a new array in C order; ``None`` if
        no library has it, or for other dtypes. It is thread-safe.
    """
    if dtype.char not in _LETTERS:
        return None
    return _numpys(name, dtype.char) or _scipys(name, dtype.char)


def no_routine(_name: Name, _dtype: np.dtype[Any]) -> None:
    """Replace `triangular` in generated source that uses NumPy alone."""


vars(triangular)[WRITTEN_AS] = no_routine  # generated source uses NumPy's general solve


# -- threads ---------------------------------------------------------------------------------------

_OPENBLAS = ("scipy_openblas_{0}64_", "scipy_openblas_{0}", "openblas_{0}64_", "openblas_{0}")
_POSIX = 1  # OpenBLAS's code for its own threads, not OpenMP


@final
class SingleThreadedBLAS:
    """Context that limits BLAS to the calling thread; see docs/decisions/0036.

    BLAS has one number of threads per process. It is restored once all threads have left the
    context, unless other code has changed it meanwhile.

    Args:
        get, set: read and write the number of BLAS's threads.
    """

    def __init__(self, get: Callable[[], int], set: Callable[[int], object]) -> None:
        self._get, self._set = get, set
        self._before = 1
        self.forget()

    def forget(self) -> None:
        """Reset after a fork: threads that had entered do not exist in the child process."""
        self._lock, self._count = Lock(), 0
        if self._before > 1:
            self._set(self._before)
            self._before = 1

    def resize(self, count: int) -> None:
        """Set the number of BLAS's threads outside of this context."""
        with self._lock.now:
            if self._count:
                self._before = count
            else:
                self._set(count)

    def __enter__(self) -> None:
        with self._lock.now:
            try:
                if not self._count:
                    now = self._get()
                    if now > 1:
                        self._before = now
                        self._set(1)
                self._count += 1
            except BaseException:  # a signal's handler has raised
                if not self._count:
                    self._restore()
                raise

    def __exit__(self, *_raised: object) -> None:
        with self._lock.now:
            if self._count > 1:
                self._count -= 1
                return
            self._restore()  # (a child forked inside leaves without having entered)
            self._count = 0

    def _restore(self) -> None:
        """Restore the previous number, unless other code has changed it meanwhile."""
        if self._before > 1 and self._get() == 1:
            self._set(self._before)
        self._before = 1


@functools.lru_cache(maxsize=1)
def one_thread() -> SingleThreadedBLAS | None:
    """Return the context that limits NumPy's BLAS to the calling thread; ``None`` unless OpenBLAS.

    Cost:
        0.5 us to enter and to leave.
    """
    library = _library()
    if library is None:
        return None
    import ctypes

    number, known = (
        ctypes.PYFUNCTYPE(ctypes.c_int),
        ctypes.PYFUNCTYPE(None, ctypes.c_int),
    )  # they hold the GIL
    wanted = ("get_parallel", "get_num_threads", "set_num_threads")
    spelled = [[spelling.format(name) for name in wanted] for spelling in _OPENBLAS]
    names = next(
        (names for names in spelled if all(hasattr(library, name) for name in names)), None
    )
    if names is None or number((names[0], library))() != _POSIX:
        return None
    made = SingleThreadedBLAS(number((names[1], library)), known((names[2], library)))
    after_fork(made.forget)
    return made
