"""Packed residuals: values that the forward part of a call keeps for its derivative in another
form, by a storage (control/storages.py).

Note [Packed values]
    To every transform, ``pack`` and ``unpack`` are the identity on an array. When the program runs,
    ``pack`` returns a `PackedArray`, which has the array's shape and dtype and holds the result of the
    storage (the user's function, say). A loop stacks them (`PackedStack`); all other readers convert it to an array,
    which unpacks it, so that every composition of transforms is correct. The unpacked array has the
    strides of the original: BLAS and NumPy's loops sum in an order that depends on them, and a
    lossless policy must not change a bit, on any CPU.

Layer: 5.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.control.policies import RECOMPUTE, SAVE, Policy, is_policy
from functrace.control.storages import PackPolicy, Storage
from functrace.errors import ArgumentError, CapturedArrayError, DtypeError, ShapeError
from functrace.ir.aval import ShapeDtype, aval_of, check_plain
from functrace.ir.check import sub_programs_of
from functrace.ir.primitive import (
    Flags,
    Primitive,
    RuleArgument,
    Tangents,
    Values,
)
from functrace.ir.program import Program
from functrace.numpy.arrays.layout import VIEWS, unmoved
from functrace.source import source_of_traceback
from functrace.tracing.binding import bind
from functrace.typing import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "PACKING",
    "RECOMPUTE",
    "SAVE",
    "PackPolicy",
    "PackedArray",
    "PackedStack",
    "PackedTranspose",
    "Policy",
    "Storage",
    "is_policy",
    "pack_p",
    "packed",
    "packs",
    "unpack_p",
    "with_strides",
]  # fmt: skip


class PackedArray:
    """An array packed by ``pack``; see Note [Packed values]."""

    __slots__ = ("aval", "held", "policy", "strides")

    def __init__(
        self, held: Any, aval: ShapeDtype, policy: Storage, strides: tuple[int, ...] = ()
    ) -> None:
        self.held = held
        self.aval = aval
        self.policy = policy
        self.strides = strides

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes of the array."""
        return len(self.aval.shape)

    def copy(self, order: str = "C") -> PackedArray:
        """Return itself: it is never written to."""
        return self

    def unpack(self) -> Any:
        """Return the result of ``unpack``, with the strides of the array that was packed.

        Raises:
            ShapeError: if its shape or dtype differs from the packed array's.
            DtypeError: if it is not a plain array of numbers (for example, a masked array).
        """
        value: Any = self.policy.restore(self.held)
        is_shared = (
            self.policy.calls_user
            and value is not self.held
            and _is_shared(value, sys.getrefcount(value))
        )
        array = _checked(value)
        if aval_of(array) is not self.aval:
            raise ShapeError(
                f"unpack returned {aval_of(array)}, but {self.aval} was packed",
                fix="return the same shape and dtype",
            )
        if not array.ndim:
            return array[()]
        made = with_strides(array, self.strides)
        return made.copy("K") if is_shared and made is array else made

    def transpose(self, axes: tuple[int, ...]) -> PackedArray:
        """Permute the axes of the array, lazily."""
        return PackedTranspose(self, axes)

    def reshape(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Unpack the array in another shape."""
        return np.asarray(self).reshape(shape)

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        return np.array(self.unpack(), dtype, copy=copy)

    def __getitem__(self, index: int | slice | tuple[Any, ...]) -> Any:
        return np.asarray(self)[index]


def _checked(value: Any) -> Array:
    """Convert the result of ``unpack`` to an array.

    Raises:
        DtypeError: if it is not a plain array of numbers.
    """
    if type(value) is not np.ndarray:
        try:
            check_plain(value)
        except DtypeError as error:
            raise DtypeError(
                f"unpack returned an unusable value: {error.what}", fix=error.fix
            ) from None
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        shown = f"a {type(value).__name__} of dtype {array.dtype}"
        raise DtypeError(
            f"unpack returned {shown}, not an array of numbers", fix="return an array or a number"
        )
    return array


def _is_shared(value: object, references: int) -> bool:
    """Return True if other code may write into an array that a function has returned, such as a
    reused buffer.

    Args:
        value: the returned value.
        references: its reference count, while one variable holds it.
    """
    if not isinstance(value, np.ndarray):
        return False
    return references > _ALONE if value.flags.owndata else not isinstance(value.base, bytes)


def _references_to_new() -> int:
    value = np.empty(1)
    return sys.getrefcount(value)


_ALONE = _references_to_new()
"""The reference count of a new array in a variable."""


@final
class PackedStack(PackedArray):
    """Packed values of the steps of a loop, along a first axis; arrays for steps in a branch that
    packs nothing.

    Args:
        steps: one value per step; at least one is packed.
        aval: of each.
    """

    __slots__ = ()

    def __init__(self, steps: Sequence[PackedArray | Array], aval: ShapeDtype) -> None:
        policy = next(step.policy for step in steps if isinstance(step, PackedArray))
        super().__init__(tuple(steps), ShapeDtype((len(steps), *aval.shape), aval.dtype), policy)

    def unpack(self) -> Any:
        """Return the array, with every step unpacked."""
        return np.stack([_unpack(step) for step in self.held])

    def __getitem__(self, index: int | slice | tuple[Any, ...]) -> Any:
        return self.held[index] if isinstance(index, int) else np.asarray(self)[index]


@final
class PackedTranspose(PackedArray):
    """A packed value with permuted axes: vmap of a loop moves its batch axis back and forth."""

    __slots__ = ()

    def __init__(self, of: PackedArray, axes: tuple[int, ...]) -> None:
        super().__init__(
            (of, axes), ShapeDtype(tuple([of.shape[k] for k in axes]), of.dtype), of.policy
        )

    def unpack(self) -> Any:
        """Return the array with its axes permuted."""
        of, axes = self.held
        return np.transpose(of.unpack(), axes)

    def transpose(self, axes: tuple[int, ...]) -> PackedArray:
        """Permute the axes again; the inverse permutation returns the original value."""
        of, before = self.held
        chosen = tuple([before[k] for k in axes])
        return of if chosen == tuple(range(of.ndim)) else PackedTranspose(of, chosen)


def _unpack(x: Array | PackedArray) -> Any:
    return x.unpack() if isinstance(x, PackedArray) else x


def packed(x: Array | PackedArray, policy: Storage) -> PackedArray:
    """Store an array by a policy; an array that an inner call has packed stays packed."""
    if isinstance(x, PackedArray):
        return x
    array = np.asarray(x)
    shown = array.view()
    shown.flags.writeable = False  # the program reads the array after `pack`
    try:
        held = policy.store(shown)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise CapturedArrayError(
            "pack writes into the residual that it receives, which the program still reads",
            at=source_of_traceback(error.__traceback__),
            fix="write into a copy: x = x.copy()",
        ) from error
    return PackedArray(held, aval_of(x), policy, array.strides)


def with_strides(array: np.ndarray[Any, Any], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return an equal array with given strides, also along axes of one element, in no more memory
    than they span.

    Axes of stride 0, and overlapping windows, must hold equal numbers, as in the array from which
    the strides come.
    """
    if array.strides == strides or not array.size:
        return array
    reach = [(n - 1) * s for n, s in zip(array.shape, strides, strict=True)]
    before = -sum([r for r in reach if r < 0])
    span = before + sum([r for r in reach if r > 0]) + array.itemsize
    made: np.ndarray[Any, Any] = np.ndarray(
        array.shape, array.dtype, np.empty(span, np.uint8), before, strides
    )
    made[...] = array
    return made


def _pack_aval(x: ShapeDtype, policy: object) -> ShapeDtype:
    if not isinstance(policy, Storage):
        raise ArgumentError("pack: the policy stores nothing", fix="use functrace.policies.pack")
    return x


def _unpack_aval(x: ShapeDtype) -> ShapeDtype:
    return x


def _same_tangent(_primals: Values, _outputs: Values, tangents: Tangents, *_policy: object) -> Any:
    return tangents[0]


def _same_cotangent(ct: RuleArgument, *_rest: object) -> tuple[Any]:
    return (ct,)


def _pack_batch(operands: Values, _is_batched: Flags, *policy: object) -> Any:
    return bind(pack_p, operands, policy)


pack_p = Primitive(
    "pack",
    eval=packed,
    aval=_pack_aval,
    jvp=_same_tangent,
    transpose=_same_cotangent,
    batch=_pack_batch,
    params=("policy",),
    effects=True,
)
"""``pack x``: pass a residual to the user's function."""


def _unpack_batch(operands: Values, _is_batched: Flags, *_params: object) -> Any:
    return bind(unpack_p, operands)


unpack_p = Primitive(
    "unpack",
    eval=_unpack,
    aval=_unpack_aval,
    jvp=_same_tangent,
    transpose=_same_cotangent,
    batch=_unpack_batch,
    effects=True,
    view=True,
    written="{0}",  # source cannot contain the user's functions, so nothing is packed there
)
"""``unpack x``: restore a residual by the user's function."""

VIEWS[pack_p] = VIEWS[unpack_p] = unmoved


PACKING: dict[Primitive, Callable[..., bool]] = {pack_p: lambda *_params: True}
"""By primitive, a function of its params: True if a result may be packed. Modules of primitives add
to it.
"""


def packs(program: Program) -> bool:
    """Return True if a program or a sub-program packs values, so that its outputs may not be
    arrays.
    """
    for primitive, _, params in program.ops:
        packing = PACKING.get(primitive)
        if (packing is not None and packing(*params)) or any(
            packs(held) for param in params for _, held in sub_programs_of(param, "")
        ):
            return True
    return False
