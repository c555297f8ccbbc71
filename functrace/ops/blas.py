"""The BLAS that NumPy is linked with: triangles times matrices, and their inverses; and how many threads it has.

NumPy has no name for BLAS's ``trsm`` and ``trmm``, but its linear algebra brings them along: the wheels' OpenBLAS, Apple's
Accelerate, or what a distribution has put there. SciPy's wheels bring a second OpenBLAS, whose threads wait for work by
spinning, as those of the first do; so a program that goes to and fro between both takes the cores away from itself. See
docs/decisions/0032.

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
"""An environment variable: with the value 0, names that NumPy does not document are not looked up. Triangles then go to
SciPy's BLAS or to NumPy's functions, and BLAS keeps its own number of threads."""

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
    if sys.byteorder != "little" or sys.platform in ("emscripten", "wasi") or os.environ.get(SWITCH) == "0":
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


# -- threads ---------------------------------------------------------------------------------------------------------------

_OPENBLAS = ("scipy_openblas_{0}64_", "scipy_openblas_{0}", "openblas_{0}64_", "openblas_{0}")
_POSIX = 1  # what OpenBLAS answers if its threads are its own, and not OpenMP's


@final
class OneThread:
    """While it is entered, BLAS computes in the threads that call it; see docs/decisions/0036.

    The number of BLAS's threads is one for the process. It is what it was before once everybody has left, whichever
    threads they are, unless somebody else has set it meanwhile.

    Args:
        get, set: tell and set the number of BLAS's threads.
    """

    def __init__(self, get: Callable[[], int], set: Callable[[int], object]) -> None:
        self._get, self._set = get, set
        self._before = 1
        self.forget()

    def forget(self) -> None:
        """Begin anew: after a fork, who had entered is not there to leave."""
        self._lock, self._count = Lock(), 0
        if self._before > 1:
            self._set(self._before)
            self._before = 1

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
            self._restore()  # (a process that has been forked inside leaves what it has not entered)
            self._count = 0

    def _restore(self) -> None:
        """Set the number that was before, unless somebody else has set one meanwhile."""
        if self._before > 1 and self._get() == 1:
            self._set(self._before)
        self._before = 1


@functools.lru_cache(maxsize=1)
def one_thread() -> OneThread | None:
    """Return what keeps NumPy's BLAS to the threads that call it; ``None`` where it cannot be told (only OpenBLAS can).

    Cost:
        0.5 us to enter and to leave.
    """
    library = _library()
    if library is None:
        return None
    import ctypes

    number, known = ctypes.PYFUNCTYPE(ctypes.c_int), ctypes.PYFUNCTYPE(None, ctypes.c_int)  # they keep Python's lock
    wanted = ("get_parallel", "get_num_threads", "set_num_threads")
    spelled = [[spelling.format(name) for name in wanted] for spelling in _OPENBLAS]
    names = next((names for names in spelled if all(hasattr(library, name) for name in names)), None)
    if names is None or number((names[0], library))() != _POSIX:
        return None
    made = OneThread(number((names[1], library)), known((names[2], library)))
    after_fork(made.forget)
    return made
