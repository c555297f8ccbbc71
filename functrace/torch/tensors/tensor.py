"""`Tensor`: an ndarray with a record of its computation.

This module has a tensor's state: its array, the version counter shared with its views and aliases,
its place in the graph, its gradient, its hooks. Operators and methods come from rows (rows.py).

Note [Version counters]
    A counter is a list: the count, and the newest functrace recording when the tensor was made,
    which identifies tensors from outside of a transform (`refuse_outside`). Views and ``detach()``
    share it; an in-place operation increments the count. A saved tensor stores the count at which
    it was saved, so that backward detects overwrites. Inference tensors have no count.

Note [Views and history]
    A view shares NumPy memory with its base, and stores the steps from the base to it (`View`).
    Writing into a view rewrites the base's history (views.py); the ``grad_fn`` of every view of
    that base is then out of date, which the version counter reveals on the next access.

Layer: 9.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, final

import numpy as np

from functrace.errors import LostGradientError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.arrays.layout import layout_of
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.errors.warnings import warn_once
from functrace.torch.tensors.aliases import detached, in_grad_mode, reassigned
from functrace.torch.tensors.device import CPU, device
from functrace.torch.tensors.dtypes import DTYPES, default_float, dtype
from functrace.torch.tensors.mirrors import (
    MIRRORS,
    Mirror,
    is_conjugate,
    is_negative,
    mirror_of,
    renewed,
)
from functrace.torch.tensors.orders import copied
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.steps import Step
from functrace.torch.tensors.storageless import KINDS, StoragelessArray
from functrace.torch.tensors.strides import Geometry, dense_strides, followed
from functrace.tracing import Tracer
from functrace.tracing.binding import STARTED, recording_serial
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.torch.autograd.graph import AccumulateGrad, GraphNode
    from functrace.torch.autograd.traced_hooks import Hooks
    from functrace.torch.dispatch.dual import Dual
    from functrace.torch.namespace import Methods
else:
    Methods = object

Operand: TypeAlias = "Tensor | Array | np.generic | complex"
"""Operands of functions: a tensor, a number, or, under functrace's transforms, a traced value or
an array.
"""
Value: TypeAlias = Any
"""Results of functions: a tensor, or, if no operand was a tensor, a traced value or an array."""

_new = object.__new__


@final
class NoVersion(list[int]):
    """The version counter of inference tensors: it cannot be read, so nothing can depend on it."""

    def __getitem__(self, place: Any) -> NoReturn:
        """Raise: a version is read to save the tensor for backward."""
        raise RuntimeError(errors.INFERENCE_SAVED)

    def __setitem__(self, place: Any, version: Any) -> NoReturn:
        """Raise."""
        raise RuntimeError(errors.INFERENCE_VERSION)


UNVERSIONED = NoVersion()
"""Version counter of all inference tensors, which are made in inference mode, and of their
views.
"""


RESIZED: weakref.WeakSet[GraphNode] = weakref.WeakSet()
"""Nodes whose tensors ``.data`` has given another shape or dtype: while there are any, passes
check their gradients.
"""


class View:
    """Derivation of a view from its base.

    Args:
        base: the tensor at the root of the chain, which is not a view itself.
        steps: ``(function, params, op)``, applied to the base's array in order; see `steps`.
        version: the count when the view's ``grad_fn`` was made; it is out of date if the count has
            changed.
        made: ``"no_grad"`` or ``"inference"`` if it was made without recording, or ``""``.
    """

    __slots__ = ("_moves", "_steps", "base", "made", "version")

    def __init__(self, base: Tensor, steps: tuple[Step, ...], made: str) -> None:
        self.base = base
        self._steps = steps
        self._moves = base._moves
        self.version = base._counter[0]
        self.made = made

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps from the base in its present shape to the view; they begin with the inverses
        in `_moves`, newest first.
        """
        moves = self.base._moves
        if self._moves is not moves:
            self._steps = (*reversed(moves[len(self._moves) :]), *self._steps)
            self._moves = moves
        return self._steps

    @steps.setter
    def steps(self, steps: tuple[Step, ...]) -> None:
        self._steps, self._moves = steps, self.base._moves


class Tensor(Methods):
    """A tensor: PyTorch's, over a NumPy array.

    Make one with `functrace.torch.tensor` and the other factories, or `wrap` an array.
    """

    # Class-level defaults: a new tensor sets only attributes that differ, at least `_array` and
    # `_counter`.
    _array: Any
    _counter: list[int]
    _requires: bool = False
    _node: GraphNode | None = None
    _output_nr: int = 0
    _view: View | None = None
    _grad: Tensor | None = None
    _accumulator: weakref.ref[AccumulateGrad] | None = None
    _hooks: dict[int, Callable[..., Any]] | None = None
    _post_hooks: dict[int, Callable[..., Any]] | None = None
    _retains: bool = False
    _traced_hooks: Hooks | None = None
    _moves: tuple[Step, ...] = ()
    """For a base that in-place views have reshaped: the inverse of each; its older views start
    there.
    """
    _home: Array | None = None
    """For an alias of a view: the array whose memory is the storage, if that is not its own."""
    _grad_dtype: Any = ...
    """The dtype of a leaf's gradients, None for any; `...` for the leaf's own."""
    _laid: tuple[Any, Any] | None = None
    """For a copy of a tensor without elements, and for an alias: its shape and strides, which NumPy
    does not keep.
    """
    _dual: Dual | None = None
    """Its tangent, in forward mode."""
    _inside: int = -1
    """For a leaf made by a Function's code while it was traced: the newest recording then;
    otherwise -1.
    """
    _mask: tuple[Tensor, int] | None = None
    """For the positions of a mask index: the mask, and its axis."""

    __functrace_call__: ClassVar[Callable[..., Any]]
    __functrace_jit__: ClassVar[Callable[..., Any]]
    """Treatment of tensors by `functrace.jit`: see func/calls.py."""

    __torch_function__: ClassVar[Any]
    """Handling of calls on subclasses: see dispatch/overrides.py."""
    _make_wrapper_subclass: ClassVar[Callable[..., Any]]
    """Makes a tensor of a subclass without data; set by dispatch/wrapping.py."""
    _prepare: ClassVar[Callable[[type[Any]], None]] = staticmethod(lambda kind: None)
    """Prepares a new subclass; set by dispatch/surface.py."""
    _is_plain: ClassVar[bool] = True
    """True in this library's own classes, on which calls are not overridden."""

    __array_priority__ = 1000.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Tensor._prepare(cls)

    def __new__(cls, *data: Any, **unused: Any) -> Any:  # (subclasses have arguments of their own)
        """Make a tensor of sizes or of data, as the older constructor does."""
        if cls is not Tensor:
            _check_dispatch(cls)
        self = _new(cls)
        first = data[0] if data else ()
        if isinstance(first, Tensor):
            vars(self).update(vars(first[...]))  # a view of it
        elif isinstance(first, Size) or is_size(first):  # sizes; anything else is data
            self._array = np.zeros(first if isinstance(first, Size) else data, default_float())
            self._counter = new_counter()
        elif isinstance(first, np.ndarray) and first.dtype == default_float():
            self._array, self._counter = first, new_counter()
        elif isinstance(first, (float, complex, np.generic)) or first is None:
            raise TypeError(errors.legacy_data(first))
        else:
            self._array, self._counter = copied(np.asarray(first), default_float()), new_counter()
        return self

    @staticmethod
    def _make_subclass(kind: type[Any], data: Tensor, require_grad: bool = False) -> Any:
        """Return a leaf of a subclass that shares a tensor's memory and version counter.

        Args:
            kind: the subclass.
            data: the tensor; gradients do not flow to it.
            require_grad: whether the leaf requires gradients.

        Raises:
            TypeError: if ``kind`` is no subclass of `Tensor`, or ``data`` is no tensor.
            NotImplementedError: if it has a ``__torch_dispatch__``.
            RuntimeError: if integers should require gradients.
        """
        _check_subclass(kind)
        if not isinstance(data, Tensor):
            raise TypeError(errors.make_subclass_data(type(data).__name__))
        if require_grad and data._array.dtype.kind not in "fcV":
            raise RuntimeError(errors.MADE_WITH_GRAD_DTYPE)
        made = _new(kind)
        vars(made).update(vars(data._alias()))
        return Tensor.requires_grad_(made) if require_grad else made  # (no call of the subclass's)

    def as_subclass(self, cls: type[Any]) -> Any:
        """Return this tensor as one of a subclass, with the same memory, history and place in the
        graph.

        Args:
            cls: the subclass of `Tensor`.

        Raises:
            TypeError: if ``cls`` is no subclass of `Tensor`.
            NotImplementedError: if it has a ``__torch_dispatch__``.
        """
        _check_subclass(cls)
        made = _new(cls)
        vars(made).update(vars(self[...]))
        return made

    # -- its place in the graph ----------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow to this tensor."""
        view = self._view
        return (
            self._requires
            or self._node is not None
            or (view is not None and view.base.requires_grad)
        )

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(errors.REQUIRES_GRAD_TYPE)
        self.requires_grad_(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError(errors.REQUIRES_GRAD_TYPE)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether this leaf requires gradients.

        Raises:
            RuntimeError: for a non-leaf tensor, or one whose dtype has no derivatives.
        """
        if self._node is not None:
            if requires_grad:
                return self
            raise RuntimeError(errors.REQUIRES_GRAD_OFF_NON_LEAF)
        if MODES.functional:
            raise RuntimeError(errors.REQUIRES_GRAD_IN_FUNC)
        if requires_grad and self._array.dtype.kind not in "fcV":
            raise RuntimeError(errors.REQUIRES_GRAD_DTYPE)
        if requires_grad and self._counter is UNVERSIONED and MODES.recording is not None:
            raise RuntimeError(errors.INFERENCE_REQUIRES_GRAD)
        self._requires = bool(requires_grad)
        if MODES.floor >= 0:
            self._inside = MODES.floor
        return self

    @property
    def is_leaf(self) -> bool:
        """True if no node computed this tensor."""
        return (self._node if self._view is None else self.grad_fn) is None

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the outputs of its node."""
        return self._output_nr

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward has accumulated here."""
        if self._grad is None and not self._retains and self._node is not None:
            warnings.warn(errors.GRAD_OF_NON_LEAF, UserWarning, stacklevel=2)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            check_gradient(self, value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def grad_dtype(self) -> dtype | None:
        """The dtype of the gradient of a leaf: by default its own; None allows any.

        Raises:
            RuntimeError: for a tensor that is no leaf; when set, also if ``.grad`` has another
                dtype, or the value is no dtype.
        """
        if self._node is not None:
            raise RuntimeError(errors.grad_dtype_of_no_leaf("accessed"))
        return self.dtype if self._grad_dtype is ... else self._grad_dtype

    @grad_dtype.setter
    def grad_dtype(self, value: dtype | None) -> None:
        if not isinstance(value, dtype | None):
            raise RuntimeError(errors.grad_dtype_type(type(value).__name__))
        gradient = self.grad  # warns for a tensor that is no leaf
        if self._node is not None:
            raise RuntimeError(errors.grad_dtype_of_no_leaf("set"))
        if value is not None and gradient is not None and gradient.dtype is not value:
            raise RuntimeError(errors.grad_dtype_of_gradient(value, gradient.dtype))
        self._grad_dtype = value

    @property
    def volatile(self) -> bool:
        """Always False: replaced by ``no_grad``."""
        warnings.warn(errors.VOLATILE, UserWarning, stacklevel=2)
        return False

    @property
    def retains_grad(self) -> bool:
        """True if ``retain_grad()`` was called on this non-leaf tensor."""
        return self._retains

    @property
    def _backward_hooks(self) -> Any:
        """Hooks by number. Those assigned to a computed tensor become its node's by
        `GraphNode._register_hook_dict`.
        """
        node = self.grad_fn
        if self._hooks is not None or node is None or not node._tensor_hooks:
            return self._hooks
        return node._tensor_hooks.get(self._output_nr)

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Any) -> None:
        self._hooks = hooks

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError(errors.DELETED_HOOKS)

    @property
    def _grad_fn(self) -> GraphNode | None:
        """``grad_fn``; setting it to None detaches the tensor in place."""
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: None) -> None:
        if value is not None:
            raise RuntimeError(errors.ASSIGNED_GRAD_FN)
        self.detach_()

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError(errors.DELETED_GRAD_FN)

    @property
    def _post_accumulate_grad_hooks(self) -> Any:
        """Hooks of a leaf that run after a gradient was added to ``.grad``, by number."""
        return self._post_hooks

    @_post_accumulate_grad_hooks.setter
    def _post_accumulate_grad_hooks(self, hooks: Any) -> None:
        self._post_hooks = hooks

    @property
    def _version(self) -> int:
        if self._counter is UNVERSIONED:
            raise RuntimeError(errors.INFERENCE_VERSION)
        return self._counter[0]

    @property
    def _cdata(self) -> int:
        """Identity of the state, which another object has after `torch.utils.swap_tensors`."""
        return id(self.__dict__)

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None

    # -- shape, dtype and memory ---------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """Sizes by axis."""
        return Size(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one axis."""
        return Size(self._array.shape) if dim is None else self._array.shape[dim]

    @property
    def dtype(self) -> dtype:
        """Element type."""
        return DTYPES[self._array.dtype]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._array.ndim

    def dim(self) -> int:
        """Return the number of axes."""
        return self._array.ndim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._array.size

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self._array.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def device(self) -> device:
        """The device: always the CPU."""
        return CPU

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides, in elements."""
        array = self._array
        shape = array.shape
        if 0 in shape or (1 in shape and (self._view is not None or self._laid is not None)):
            strides = followed_geometry(self)[1]
        else:
            size = array.itemsize
            strides = tuple([n // size for n in array.strides])
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return True if the elements are in C order without gaps (with channels last in such a
        memory format); True for a traced value of unknown layout.
        """
        known = self._array
        if isinstance(known, Tracer):
            found = layout_of(known)
            if found is None:
                return True
            known = found
        if memory_format is not None and repr(memory_format).startswith("torch.channels_last"):
            rank = 5 if repr(memory_format).endswith("3d") else 4
            order = (0, *range(2, rank), 1)
            return known.ndim == rank and known.transpose(order).flags.c_contiguous
        return known.flags.c_contiguous

    def is_floating_point(self) -> bool:
        """Return True if the elements are floats."""
        return self._array.dtype.kind in "fV"

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._array.__array_interface__["data"][0]

    # -- values --------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Any:
        """Return the array itself: memory is shared, and backward does not detect writes to it.

        Raises:
            RuntimeError: if gradients flow to this tensor (unless ``force``, or in ``no_grad``).
        """
        if MODES.recording and self.requires_grad and not force:
            raise RuntimeError(errors.NUMPY_OF_REQUIRES_GRAD)
        if KINDS and type(self._array) is StoragelessArray:
            raise RuntimeError(".numpy() is not supported for tensor subclasses.")
        refuse_narrow(self._array)
        if MIRRORS and (mirror := mirror_of(self._array)) is not None:
            if not force:
                refuse_mirrored(self._array, mirror)
            return self._array.copy()
        return self._array if MODES.dispatch is None else MODES.dispatch.detach(self)._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if MODES.recording and self.requires_grad:
            raise RuntimeError(errors.NUMPY_OF_REQUIRES_GRAD)
        refuse_narrow(self._array)
        if MIRRORS and (mirror := mirror_of(self._array)) is not None:
            refuse_mirrored(self._array, mirror)
        return np.array(self._array, dtype, copy=copy)

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: bool = False
    ) -> Tensor:
        return fresh(array.astype(np.uint8) if array.dtype == np.bool_ else array)

    def item(self) -> Any:
        """Return the one element as a Python number.

        Raises:
            RuntimeError: if there is not exactly one element.
        """
        if self._array.size != 1:
            raise RuntimeError(errors.item_of_many(self._array.size))
        return self._array.item() if MODES.dispatch is None else self._read()

    def _read(self) -> Any:
        """Return the one element; dispatch modes get this read as an operation."""
        if MODES.dispatch is None:
            return self._array.item()
        return MODES.dispatch.make("_local_scalar_dense", (self,), {}, self._array.item)

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return self._array.tolist()

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise RuntimeError(errors.AMBIGUOUS_BOOL if self._array.size else errors.EMPTY_BOOL)
        return bool(self._array.reshape(()) if MODES.dispatch is None else self._read())

    def _number(self, kind: str) -> Any:
        if self._array.size != 1:
            raise ValueError(errors.ONE_ELEMENT)
        value = self._read()
        if isinstance(value, complex) and value.imag:
            raise RuntimeError(errors.number_overflow(kind))
        return value.real

    def __int__(self) -> int:
        return int(self._number("int64"))

    def __float__(self) -> float:
        if self.requires_grad and MODES.recording:
            warn_once(errors.SCALAR_OF_REQUIRES_GRAD)
        return float(self._number("float64"))

    def __complex__(self) -> complex:
        if self.requires_grad and MODES.recording:
            warn_once(errors.SCALAR_OF_REQUIRES_GRAD)
        if self._array.size != 1:
            raise ValueError(errors.ONE_ELEMENT)
        return complex(self._read())

    def __format__(self, spec: str) -> str:
        return (
            object.__format__(self, spec) if self._array.ndim else format(self._array.item(), spec)
        )

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._array.reshape(()))

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError(errors.LEN_OF_SCALAR)
        return self._array.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._array.ndim:
            raise TypeError(errors.ITERATION_OVER_SCALAR)
        return iter(self.unbind(0))

    def __hash__(self) -> int:
        return id(self)

    # -- aliases -------------------------------------------------------------------------------

    def detach(self) -> Tensor:
        """Return an alias without history: memory and version counter are shared."""
        if MODES.dispatch is not None:
            return MODES.dispatch.detach(self)
        return self._alias()

    def _alias(self) -> Tensor:
        """Return an alias without history, hidden from dispatch modes."""
        if KINDS and type(self._array) is StoragelessArray:
            return self._array.handling.detach(self)
        array = constant(self._array)
        made = _new(class_for(array))
        made._array, made._counter = array, self._counter
        if self._view is not None or self._home is not None:
            made._home = home_of(self)
        if 0 in array.shape or (1 in array.shape and self._view is not None):
            made._laid = array.shape, self.stride()
        return made

    @property
    def data(self) -> Tensor:
        """An alias without history, and with its own version counter: writes through it go
        undetected.
        """
        array = constant(self._array)
        made = _new(class_for(array))
        made._array, made._counter = array, [0, STARTED.newest]
        made._home = home_of(self)
        if self._counter is UNVERSIONED:
            made._counter = UNVERSIONED
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(errors.data_type(type(value).__name__))
        old, new = self._array, value._array
        if new.dtype.kind not in "fcV" and self.requires_grad:
            raise RuntimeError(errors.DATA_DTYPE)
        if isinstance(new, Tracer) and not isinstance(old, Tracer):
            refuse_outside(self, new)
        if old.shape != new.shape or old.dtype != new.dtype:
            self._note_resized()
        self._array = (
            reassigned(old, new) if isinstance(old, Tracer) or isinstance(new, Tracer) else new
        )
        self._home, self._laid = home_of(value), value._laid

    @data.deleter
    def data(self) -> None:
        raise RuntimeError(errors.DELETED_DATA)

    def _note_resized(self) -> None:
        """Make passes check the gradients of this tensor: a graph may have it in its present
        shape.
        """
        if self._node is not None:
            RESIZED.add(self._node)
            return
        accumulator = None if self._accumulator is None else self._accumulator()
        if accumulator is not None:
            if accumulator._former is None:
                accumulator._former = ShapeDtype(self._array.shape, self._array.dtype)
            RESIZED.add(accumulator)


class Mirrored(Tensor):
    """A tensor in the memory of a conjugate, recomputed on access: see mirrors.py."""

    _is_plain = True

    @property
    def _array(self) -> Any:
        return renewed(self._kept)

    @_array.setter
    def _array(self, array: Any) -> None:
        self._kept = array


Mirrored.__name__ = Mirrored.__qualname__ = "Tensor"


def _check_subclass(kind: Any) -> None:
    if not isinstance(kind, type):
        raise TypeError(f"cls must be a type (got {type(kind).__name__})")
    if not issubclass(kind, Tensor):
        raise TypeError(errors.NO_SUBCLASS)
    _check_dispatch(kind)


def _check_dispatch(kind: type[Any]) -> None:
    """Raise for a subclass that handles operations below autograd: its handler would not run."""
    if hasattr(kind, "__torch_dispatch__"):
        raise NotImplementedError(errors.subclass_dispatch(kind.__name__))


def class_for(array: Any) -> type[Tensor]:
    """Return the class of a tensor over an array: `Mirrored` in the memory of conjugates."""
    return Mirrored if MIRRORS and mirror_of(array) is not None else Tensor


def refuse_mirrored(array: Array, mirror: Mirror) -> NoReturn:
    """Refuse to give NumPy the memory of a conjugate or negation, or (unlike PyTorch) of the
    conjugate of a part of one.
    """
    if is_conjugate(array):
        raise RuntimeError(errors.NUMPY_OF_CONJUGATE)
    if is_negative(array):
        raise RuntimeError(errors.NUMPY_OF_NEGATIVE)
    if mirror.is_conjugate or mirror.is_negative:  # the real parts of a conjugate
        raise UnsupportedFunctionError(
            "a part of a conjugate has its own memory here",
            fix="take numpy() of the same part of its source, or clone() it first",
        )
    raise UnsupportedFunctionError(
        "the conjugate of a part of a conjugate has its own memory here",
        fix="take numpy() of the same part of its source, or clone() it first",
    )


def refuse_narrow(array: Any) -> None:
    """Refuse bfloat16, which NumPy does not have."""
    if array.dtype.kind == "V":
        raise TypeError("Got unsupported ScalarType BFloat16")


def is_size(value: object) -> bool:
    """Return True if the older constructors take a value as a size: an integer, or an array with
    one integer.
    """
    if isinstance(value, np.ndarray):
        return not value.ndim and value.dtype.kind in "iu"
    return isinstance(value, (int, np.integer))


def home_of(tensor: Tensor) -> Array | None:
    """Return the array whose memory is a tensor's storage; None if it is the tensor's own."""
    view = tensor._view
    if view is None:
        return tensor._home
    base = view.base
    array = base._array if base._home is None else base._home
    if not isinstance(array, np.ndarray):
        return None
    while base._moves and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def is_expanded(array: Array) -> bool:
    """Return True if elements share memory, as in an expanded array."""
    return 0 in array.strides and any(
        s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)
    )


def followed_geometry(tensor: Tensor) -> Geometry:
    """Return sizes, strides and offset of a tensor as PyTorch computes them from those of its
    base: NumPy does not keep them for arrays without elements, nor strides along dimensions of
    size 1. The offset is from the base.
    """
    array, view = tensor._array, tensor._view
    if view is not None:
        base = view.base
        found = followed((base._array.shape, strides_in(base), 0), view.steps)
        if found is not None and found[0] == array.shape:
            return found
    return array.shape, strides_in(tensor), 0


def strides_in(tensor: Tensor) -> tuple[int, ...]:
    """Return the strides of a tensor's array in elements; of an array without elements, those of C
    order, if the tensor is no copy of another one.
    """
    array, laid = tensor._array, tensor._laid
    if laid is not None and laid[0] == array.shape:
        return laid[1]
    if 0 in array.shape:
        return dense_strides(array.shape)
    size = array.itemsize
    return tuple([n // size for n in array.strides])


def constant(array: Any) -> Any:
    """Return an array without gradient; a traced one as an alias without dependencies."""
    return detached(array) if isinstance(array, Tracer) else array


def array_of(tensor: Tensor) -> Any:
    """Return the array of a tensor as an operand of traced ones: under ``torch.func``, gradients
    may flow to it.
    """
    if isinstance(tensor._array, Tracer):
        return in_grad_mode(tensor._array)
    return (
        MODES.lift(tensor)
        if MODES.lift is not None and MODES.recording and tensor.requires_grad
        else tensor._array
    )


def wrap(array: Any) -> Tensor:
    """Return a tensor that shares an array or a traced array; a NumPy scalar becomes a 0-d
    array.
    """
    made = _new(Tensor)
    made._array = (
        array if type(array) is np.ndarray or isinstance(array, Tracer) else np.asarray(array)
    )
    made._counter = [0, STARTED.newest]
    return made


def new_counter() -> list[int]:
    """Return the version counter of a new tensor; `UNVERSIONED` in inference mode."""
    return UNVERSIONED if MODES.recording is None else [0, STARTED.newest]


def fresh(array: Any) -> Tensor:
    """Return a new tensor for the user; an inference tensor in inference mode. See `wrap`."""
    made = wrap(array)
    if MODES.recording is None:
        made._counter = UNVERSIONED
    return made


def count_write(tensor: Tensor) -> None:
    """Increment a tensor's version before it is overwritten; see `before_write`."""
    before_write(tensor)[0] += 1


def before_write(tensor: Tensor) -> list[int]:
    """Check that a tensor may be overwritten, and call the watches; returns the counter to
    increment.

    Raises:
        RuntimeError: for an inference tensor, outside inference mode.
    """
    if tensor._counter is UNVERSIONED:
        if MODES.recording is not None:
            raise RuntimeError(errors.INFERENCE_IN_PLACE)
        return [0, STARTED.newest]
    for watch in MODES.watches:
        watch(tensor)
    return tensor._counter


def refuse_outside(tensor: Tensor, value: Tracer) -> None:
    """Refuse to write a traced value into a tensor made before its recording began.

    Raises:
        LostGradientError: the tensor would keep the traced value after the recording has ended.
    """
    counter, began = tensor._counter, recording_serial(value)
    if MODES.begun is not None:
        began = min(began, MODES.begun)
    if counter is not UNVERSIONED and counter[1] < began:
        raise LostGradientError(
            f"a traced value is written into a tensor of {tensor._array.dtype} and shape "
            f"{tuple(tensor._array.shape)} from "
            f"outside of {value.ft_recording.owner}",
            fix="return the value (has_aux=True carries further results) and write it outside; or "
            "pass the tensor as an "
            "argument, or write into a clone of it",
        )


def view_of(source: Tensor, array: Any, step: Step) -> Tensor:
    """Return a tensor that is a view of another one: its memory and counter are shared.

    Args:
        source: the tensor to view.
        array: the NumPy view.
        step: ``(function, params, op)``, the step from the source's array to it.
    """
    made = _new(class_for(array) if MIRRORS else Tensor)
    made._array = array
    counter = made._counter = source._counter
    if counter is UNVERSIONED:
        return made
    before = source._view
    recording = MODES.recording
    grad = "" if recording else "inference" if recording is None else "no_grad"
    if before is None:
        made._view = View(source, (step,), grad)
    else:
        made._view = View(before.base, (*before.steps, step), grad or before.made)
    return made


def check_gradient(tensor: Tensor, gradient: Any) -> None:
    """Check a value assigned to ``tensor.grad``.

    Raises:
        TypeError: if it is not a tensor.
        RuntimeError: if shape or dtype differ.
    """
    if not isinstance(gradient, Tensor):
        raise TypeError(
            "assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(gradient).__name__}"
        )
    if gradient is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    wanted = tensor.dtype if tensor._grad_dtype is ... else tensor._grad_dtype
    if wanted is not None and gradient.dtype is not wanted:
        raise RuntimeError(errors.assigned_gradient_dtype(gradient.dtype, wanted))
    if gradient._array.shape != tensor._array.shape:
        raise RuntimeError(
            errors.assigned_gradient_shape(gradient._array.shape, tensor._array.shape)
        )


def is_tensor(value: Any) -> bool:
    """Return True if a value is a tensor."""
    return isinstance(value, Tensor)
