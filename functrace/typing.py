"""Types for annotations: ``Array`` and the types of arguments.

``ft.Array`` is an abstract type: ``numpy.ndarray`` is registered with it, and so are
traced values, so that ``Float[ft.Array, "n d"]`` (jaxtyping) checks a user's function on
arrays and under every transform alike. Static type checkers see it as an ndarray.

Layer: b (base).
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, TypeVarTuple

import numpy as np

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:

    class Array(ABC):  # noqa: B024 (membership is by registration)
        """Abstract array: an ndarray, a NumPy scalar or a traced value. For annotations and
        ``isinstance``.

        Example:
            >>> import numpy as np, functrace as ft
            >>> isinstance(np.ones(2), ft.Array), isinstance([1.0, 2.0], ft.Array)
            (True, False)
            >>> ft.grad(lambda x: x * isinstance(x, ft.Array))(2.0)
            np.float64(1.0)
        """

    Array.register(np.ndarray)
    Array.register(np.generic)

Scalar: TypeAlias = bool | int | float | complex
ArrayLike: TypeAlias = (
    Array | np.generic | bool | int | float | complex | list[Any] | tuple[Any, ...]
)
PyTree: TypeAlias = Any
"""A pytree: tuples, lists, dicts … with arrays as leaves (see ``optree``)."""

# Parts of a function's type that transforms keep: all parameters, the first ones, the result,
# auxiliary data, positional arguments.
P = ParamSpec("P")
A = TypeVar("A", bound=Any)  # the bound lets a lambda compute with it: `grad(lambda x: x**2)`
B = TypeVar("B", bound=Any)
R = TypeVar("R")
Aux = TypeVar("Aux")
Ts = TypeVarTuple("Ts")
T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable

    # A checker gives the parameters of a lambda types only if the expected type has as many: so
    # what takes a function of any number of parameters names each number. `A` and `B` are the
    # types of the first ones.
    Function: TypeAlias = (
        Callable[[], R]
        | Callable[[Any], R]
        | Callable[[Any, Any], R]
        | Callable[[Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any, Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any], R]
        | Callable[[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any], R]
    )
    Function2: TypeAlias = (
        Callable[[A, B], R]
        | Callable[[A, B, Any], R]
        | Callable[[A, B, Any, Any], R]
        | Callable[[A, B, Any, Any, Any], R]
        | Callable[[A, B, Any, Any, Any, Any], R]
        | Callable[[A, B, Any, Any, Any, Any, Any], R]
        | Callable[[A, B, Any, Any, Any, Any, Any, Any], R]
        | Callable[[A, B, Any, Any, Any, Any, Any, Any, Any], R]
        | Callable[[A, B, Any, Any, Any, Any, Any, Any, Any, Any], R]
        | Callable[[A, B, Any, Any, Any, Any, Any, Any, Any, Any, Any], R]
    )

    Read = TypeVar("Read", covariant=True)
    Taken = TypeVar("Taken", contravariant=True)

    class Field(Generic[Read, Taken]):
        """A field of a dataclass that is read as one type, e.g. ``Callable[..., Any]``, and takes
        a union that is more precise, e.g. ``Function[Any]``."""

        def __get__(self, instance: object, owner: object = None) -> Read: ...
        def __set__(self, instance: object, value: Taken) -> None: ...
