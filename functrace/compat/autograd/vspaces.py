"""Vector spaces of arrays and containers: elements, a basis and products.

Layer: 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from functrace.compat.kinds import Given, Values
from functrace.errors import DtypeError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, unflatten

__all__ = ["ArrayVSpace", "ComplexArrayVSpace", "ContainerVSpace", "VSpace", "vspace"]

_ARRAYS = (Tracer, np.ndarray, np.inexact, float, complex)


class VSpace:
    """The vector space of a value; equal for equal structure, shapes and dtypes."""

    def __init__(self, value: Values) -> None:
        leaves, self.tree = flatten(value)
        self.avals: list[ShapeDtype] = [_aval(leaf, value) for leaf in leaves]

    @classmethod
    def register(cls, value_type: type, vspace_maker: object = None) -> NoReturn:
        """Raise: classes of values are pytrees here.

        Raises:
            UnsupportedFunctionError: always.
        """
        raise UnsupportedFunctionError(
            f"a {value_type.__name__} cannot be given a vector space of its own",
            fix=f"make it a pytree: functrace.tree.register({value_type.__name__}, …)",
        )

    @property
    def iscomplex(self) -> bool:
        """True if an element has complex numbers."""
        return any(aval.dtype.kind == "c" for aval in self.avals)

    @property
    def size(self) -> int:
        """The number of real dimensions."""
        return sum([aval.size * (2 if aval.dtype.kind == "c" else 1) for aval in self.avals])

    def zeros(self) -> Any:
        """Return the zero element."""
        return self._made([np.zeros(aval.shape, aval.dtype) for aval in self.avals])

    def ones(self) -> Any:
        """Return the element of ones, 1 + 1i for complex numbers."""
        return self._made(
            [
                np.full(aval.shape, 1 + 1j if aval.dtype.kind == "c" else 1, aval.dtype)
                for aval in self.avals
            ]
        )

    def randn(self) -> Any:
        """Return an element of standard normal numbers, from NumPy's global generator."""

        def draw(aval: ShapeDtype) -> Any:
            real = np.random.randn(*aval.shape)  # noqa: NPY002
            if aval.dtype.kind == "c":
                real = real + 1j * np.random.randn(*aval.shape)  # noqa: NPY002
            return np.asarray(real, aval.dtype)

        return self._made([draw(aval) for aval in self.avals])

    def standard_basis(self) -> Iterator[Any]:
        """Yield the elements that are 1 (or 1i) in one position and 0 elsewhere."""
        for k, aval in enumerate(self.avals):
            for place in np.ndindex(aval.shape):
                for unit in (1.0, 1j) if aval.dtype.kind == "c" else (1.0,):
                    made = [np.zeros(other.shape, other.dtype) for other in self.avals]
                    made[k][place] = unit
                    yield self._made(made)

    def add(self, x: Values, y: Values) -> Any:
        """Return ``x + y``."""
        return self._each(np.add, x, y)

    def mut_add(self, x: Values, y: Values) -> Any:
        """Return ``x + y``, where ``None`` is zero; neither is written to."""
        return y if x is None else self.add(x, y)

    def scalar_mul(self, x: Values, a: Values) -> Any:
        """Return ``a x``."""

        def scaled(leaf: Values) -> Any:
            return leaf * a

        return self._each(scaled, x)

    def inner_prod(self, x: Values, y: Values) -> Any:
        """Return the real inner product."""
        pairs = zip(flatten(x)[0], flatten(y)[0], strict=True)
        parts: list[Any] = [np.real(np.dot(np.conj(np.ravel(a)), np.ravel(b))) for a, b in pairs]
        return sum(parts)

    def covector(self, x: Values) -> Any:
        """Return the cotangent of the inner product with ``x``: its conjugate."""
        return self._each(np.conj, x)

    def _each(self, f: Given, *xs: Values) -> Any:
        return self._made([f(*leaves) for leaves in zip(*[flatten(x)[0] for x in xs], strict=True)])

    def _made(self, leaves: Sequence[Any]) -> Any:
        return unflatten(self.tree, leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VSpace) and self.tree == other.tree and self.avals == other.avals

    def __hash__(self) -> int:
        return hash(tuple(self.avals))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._made(self.avals)!r})"


class ArrayVSpace(VSpace):
    """The vector space of an array, or of a number."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its elements."""
        return self.avals[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        return self.avals[0].dtype

    @property
    def ndim(self) -> int:
        """The number of axes of its elements."""
        return len(self.shape)


class ComplexArrayVSpace(ArrayVSpace):
    """The vector space of a complex array."""


class ContainerVSpace(VSpace):
    """The vector space of a container of arrays; ``shape`` is the container of their spaces."""

    @property
    def shape(self) -> Any:
        """The container of the spaces of its parts."""
        return self._made([vspace(np.zeros(aval.shape, aval.dtype)) for aval in self.avals])


def vspace(value: Values) -> Any:
    """Return the vector space of a value.

    Raises:
        DtypeError: if it contains anything but floats, complex numbers and arrays.
    """
    given: object = value
    if isinstance(given, _ARRAYS):
        return (ComplexArrayVSpace if np.iscomplexobj(value) else ArrayVSpace)(value)
    return ContainerVSpace(value)


def _aval(leaf: Values, value: Values) -> ShapeDtype:
    if not isinstance(leaf, _ARRAYS):
        where = "" if leaf is value else f", in a {type(value).__name__}"
        raise DtypeError(
            f"{leaf!r} of type {type(leaf).__name__}{where} is in no vector space",
            fix="pass floats and arrays",
        )
    return array_aval(leaf)


def array_aval(x: Values) -> ShapeDtype:
    """Return the shape and dtype of an array or a number, traced or not."""
    return aval_of(x if isinstance(x, Tracer) else np.asarray(x))
