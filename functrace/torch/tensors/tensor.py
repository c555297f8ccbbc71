"""`Tensor`: an ndarray that remembers how it was made.

What stands here is a tensor's state: its array, the version counter that it shares with its views and aliases, its place
in the graph, its gradient, its hooks. What one can compute with it stands in rows (rows.py), which give the class its
operators and methods.

Note [Version counters]
    A counter is a list: the count, and which recording of functrace's was the newest when the tensor was made, which tells
    tensors from outside of a transform (`refuse_outside`). Views and ``detach()`` share it; an in-place operation adds one
    to the count. A saved tensor remembers the count it was saved at, so that backward can tell when it was overwritten.
    Inference tensors have no count.

Note [Views and history]
    A view shares NumPy memory with its base, and knows the steps that lead from the base to it (`View`). Writing into a view
    rewrites the base's history (views.py); the ``grad_fn`` of every view of that base is then out of date, which it
    notices by the version counter when somebody reads it.

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
from functrace.torch.tensors.mirrors import MIRRORS, Mirror, mirror_of, renewed
from functrace.torch.tensors.orders import copied
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.steps import Step
from functrace.tracing import Tracer
from functrace.tracing.binding import STARTED, recorder
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.torch.autograd.graph import AccumulateGrad, GraphNode
    from functrace.torch.autograd.traced_hooks import Hooks
    from functrace.torch.dispatch.dual import Dual
    from functrace.torch.namespace import Methods
else:
    Methods = object

Operand: TypeAlias = "Tensor | Array | np.generic | complex"
"""What functions compute with: a tensor, a number, or, under functrace's transforms, a traced value or an array."""
Value: TypeAlias = Any
"""What functions return: a tensor, or, where no tensor was among the operands, a traced value or an array."""

_new = object.__new__


@final
class NoVersion(list[int]):
    """The version counter of inference tensors: there is nothing to read in it, so that nothing can rely on it."""

    def __getitem__(self, place: Any) -> NoReturn:
        """Raise: who reads a version is about to save the tensor for backward."""
        raise RuntimeError(errors.INFERENCE_SAVED)

    def __setitem__(self, place: Any, version: Any) -> NoReturn:
        """Raise."""
        raise RuntimeError(errors.INFERENCE_VERSION)


UNVERSIONED = NoVersion()
"""What inference tensors, which are made in inference mode, have in place of a version counter. Their views share it."""


RESIZED: weakref.WeakSet[GraphNode] = weakref.WeakSet()
"""Nodes whose tensor ``.data`` has given another shape or dtype: as long as there are, passes check their gradients."""


class View:
    """How a view comes from its base.

    Args:
        base: the tensor at the root of the chain, which is not a view itself.
        steps: ``(function, params, op)``, to be applied to the base's array one after the other; see `steps`.
        version: the counter when the view's ``grad_fn`` was made; later, it is out of date.
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
        """What leads from the base, as it lies now, to the view: first back through what `_moves` undoes, newest first."""
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

    Make one with `functrace.torch.tensor` and its kin, or `wrap` an array.
    """

    # Class-level defaults: a new tensor sets only what is particular to it, `_array` and `_counter` at least.
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
    """Of a base that in-place views have given another shape: what undoes each; its older views start there."""
    _home: Array | None = None
    """Of an alias of a view: the array whose memory is the storage, where that is not its own."""
    _dual: Dual | None = None
    """Its tangent, in forward mode."""
    _inside: int = -1
    """Of a leaf that a Function's code made while it was traced: the newest recording then; otherwise -1."""
    _mask: tuple[Tensor, int] | None = None
    """Of positions that index with a mask: the mask, and along which axis of it they count."""

    __functrace_call__: ClassVar[Callable[..., Any]]
    __functrace_jit__: ClassVar[Callable[..., Any]]
    """How `functrace.jit` takes tensors: see func/calls.py."""

    __array_priority__ = 1000.0

    def __init__(self, *data: Any) -> None:
        first = data[0] if data else ()
        if isinstance(first, Tensor):
            vars(self).update(vars(first[...]))  # a view of it
        elif isinstance(first, Size) or is_size(first):  # sizes; anything else is what it holds
            self._array = np.zeros(first if isinstance(first, Size) else data, default_float())
            self._counter = new_counter()
        elif isinstance(first, np.ndarray) and first.dtype == default_float():
            self._array, self._counter = first, new_counter()
        elif isinstance(first, (float, complex, np.generic)) or first is None:
            raise TypeError(errors.legacy_data(first))
        else:
            self._array, self._counter = copied(np.asarray(first), default_float()), new_counter()

    # -- its place in the graph ----------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        view = self._view
        return self._requires or self._node is not None or (view is not None and view.base.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for gradients of this leaf, or no longer.

        Raises:
            RuntimeError: for a tensor that was computed, or whose dtype has no derivatives.
        """
        if self._node is not None:
            if requires_grad:
                return self
            raise RuntimeError(errors.REQUIRES_GRAD_OFF_NON_LEAF)
        if MODES.functional:
            raise RuntimeError(errors.REQUIRES_GRAD_IN_FUNC)
        if requires_grad and self._array.dtype.kind not in "fc":
            raise RuntimeError(errors.REQUIRES_GRAD_DTYPE)
        if requires_grad and self._counter is UNVERSIONED and MODES.recording is not None:
            raise RuntimeError(errors.INFERENCE_REQUIRES_GRAD)
        self._requires = bool(requires_grad)
        if MODES.floor >= 0:
            self._inside = MODES.floor
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no node computed this tensor. (A view is not asked whether its base was overwritten: see ``grad_fn``.)"""
        return self._node is None

    @property
    def output_nr(self) -> int:
        """Which output of its node this tensor is."""
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
    def volatile(self) -> bool:
        """What ``no_grad`` has replaced: always False."""
        warnings.warn(errors.VOLATILE, UserWarning, stacklevel=2)
        return False

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad()`` was called on this computed tensor."""
        return self._retains

    @property
    def _backward_hooks(self) -> Any:
        """Hooks by number. Those assigned to a computed tensor become its node's by `GraphNode._register_hook_dict`."""
        node = self.grad_fn
        if self._hooks is not None or node is None or not node._tensor_hooks:
            return self._hooks
        return node._tensor_hooks.get(self._output_nr)

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Any) -> None:
        self._hooks = hooks

    @property
    def _post_accumulate_grad_hooks(self) -> Any:
        """Of a leaf: what is called after a gradient was added to ``.grad``, by number."""
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
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None

    # -- what it looks like --------------------------------------------------------------------

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
        """Where it lives: always the CPU."""
        return CPU

    def stride(self, dim: int | None = None) -> Any:
        """Return the steps between neighbours along each axis, in elements."""
        array = self._array
        strides = tuple(n // array.itemsize for n in array.strides) if array.size else dense_strides(array.shape)
        return strides if dim is None else strides[dim]

    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps; a traced value does if nobody knows."""
        if isinstance(self._array, Tracer):
            known = layout_of(self._array)
            return known is None or known.flags.c_contiguous
        return self._array.flags.c_contiguous

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self._array.dtype.kind == "f"

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._array.__array_interface__["data"][0]

    # -- values --------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Any:
        """Return the array itself: memory is shared, and writing to it is not noticed by backward.

        Raises:
            RuntimeError: if gradients flow to this tensor (unless ``force``, or in ``no_grad``).
        """
        if MODES.recording and self.requires_grad and not force:
            raise RuntimeError(errors.NUMPY_OF_REQUIRES_GRAD)
        if MIRRORS and (mirror := mirror_of(self._array)) is not None:
            if not force:
                refuse_mirrored(mirror)
            return self._array.copy()
        return self._array if MODES.dispatch is None else MODES.dispatch.detach(self)._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if MODES.recording and self.requires_grad:
            raise RuntimeError(errors.NUMPY_OF_REQUIRES_GRAD)
        if MIRRORS and (mirror := mirror_of(self._array)) is not None:
            refuse_mirrored(mirror)
        return np.array(self._array, dtype, copy=copy)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
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
        """Return the one element, which dispatch modes see being read."""
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
        if self.requires_grad:
            warn_once(errors.SCALAR_OF_REQUIRES_GRAD)
        return float(self._number("float64"))

    def __complex__(self) -> complex:
        if self.requires_grad:
            warn_once(errors.SCALAR_OF_REQUIRES_GRAD)
        if self._array.size != 1:
            raise ValueError(errors.ONE_ELEMENT)
        return complex(self._read())

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec) if self._array.ndim else format(self._array.item(), spec)

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
        """Return an alias without history, which no dispatch mode sees made."""
        array = constant(self._array)
        made = _new(class_for(array))
        made._array, made._counter = array, self._counter
        if self._view is not None or self._home is not None:
            made._home = home_of(self)
        return made

    @property
    def data(self) -> Tensor:
        """An alias without history, and with a version counter of its own: what is written through it goes unnoticed."""
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
        if new.dtype.kind not in "fc" and self.requires_grad:
            raise RuntimeError(errors.DATA_DTYPE)
        if isinstance(new, Tracer) and not isinstance(old, Tracer):
            refuse_outside(self, new)
        if old.shape != new.shape or old.dtype != new.dtype:
            self._note_resized()
        self._array = reassigned(old, new) if isinstance(old, Tracer) or isinstance(new, Tracer) else new
        self._home = home_of(value)

    def _note_resized(self) -> None:
        """Let passes check the gradients of this tensor: there may be a graph in which it has its present shape."""
        if self._node is not None:
            RESIZED.add(self._node)
            return
        accumulator = None if self._accumulator is None else self._accumulator()
        if accumulator is not None:
            if accumulator._former is None:
                accumulator._former = ShapeDtype(self._array.shape, self._array.dtype)
            RESIZED.add(accumulator)


class Mirrored(Tensor):
    """A tensor in the memory of a conjugate, which is computed anew when somebody looks: see mirrors.py."""

    @property
    def _array(self) -> Any:
        return renewed(self._kept)

    @_array.setter
    def _array(self, array: Any) -> None:
        self._kept = array


Mirrored.__name__ = Mirrored.__qualname__ = "Tensor"


def class_for(array: Any) -> type[Tensor]:
    """Return the class of a tensor in some memory: those in the memory of conjugates look at what these are of."""
    return Mirrored if MIRRORS and mirror_of(array) is not None else Tensor


def refuse_mirrored(mirror: Mirror) -> NoReturn:
    """Refuse to show NumPy the memory of a conjugate, or (other than PyTorch) of the conjugate of a part of one."""
    if mirror.is_conjugate:
        raise RuntimeError(errors.NUMPY_OF_CONJUGATE)
    raise UnsupportedFunctionError(
        "the conjugate of a part of a conjugate has memory of its own here",
        fix="take numpy() of the same part of what it is a conjugate of, or clone() it first",
    )


def is_size(value: object) -> bool:
    """Whether the older constructors take a value for a size: an integer, or an array that is one."""
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
    """Whether elements share memory, as those of something expanded do."""
    return 0 in array.strides and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of what lies in C order without gaps."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def constant(array: Any) -> Any:
    """Return an array as what no gradient flows through: of a traced one, an alias that does not depend on anything."""
    return detached(array) if isinstance(array, Tracer) else array


def array_of(tensor: Tensor) -> Any:
    """Return the array of a tensor among traced ones: where ``torch.func`` is at work, gradients may flow to it."""
    if isinstance(tensor._array, Tracer):
        return in_grad_mode(tensor._array)
    return MODES.lift(tensor) if MODES.lift is not None and MODES.recording and tensor.requires_grad else tensor._array


def wrap(array: Any) -> Tensor:
    """Return a tensor of an array or a traced array, which it shares; a NumPy scalar becomes a 0-d array."""
    made = _new(Tensor)
    made._array = array if type(array) is np.ndarray or isinstance(array, Tracer) else np.asarray(array)
    made._counter = [0, STARTED.newest]
    return made


def new_counter() -> list[int]:
    """Return the version counter of a new tensor, or what inference tensors have in its place."""
    return UNVERSIONED if MODES.recording is None else [0, STARTED.newest]


def fresh(array: Any) -> Tensor:
    """Return a new tensor of an array that a user gets; an inference tensor, in inference mode. See `wrap`."""
    made = wrap(array)
    if MODES.recording is None:
        made._counter = UNVERSIONED
    return made


def count_write(tensor: Tensor) -> None:
    """Count a tensor's version up, before it is overwritten; see `before_write`."""
    before_write(tensor)[0] += 1


def before_write(tensor: Tensor) -> list[int]:
    """Ask whether a tensor may be overwritten, and tell those who want to know; returns the counter to count up.

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
    """Refuse to write a traced value into a tensor that was made before what traces it began.

    Raises:
        LostGradientError: it would still be there when that has ended.
    """
    counter, began = tensor._counter, recorder(value)
    if MODES.begun is not None:
        began = min(began, MODES.begun)
    if counter is not UNVERSIONED and counter[1] < began:
        raise LostGradientError(
            f"a traced value is written into a tensor of {tensor._array.dtype} and shape {tuple(tensor._array.shape)} from "
            f"outside of {value._recording.owner}",
            fix="return the value (has_aux=True carries further results) and write it outside; or pass the tensor as an "
            "argument, or write into a clone of it",
        )


def view_of(source: Tensor, array: Any, step: Step) -> Tensor:
    """Return a tensor that is a view of another one: its memory and counter are shared.

    Args:
        source: what it is a view of.
        array: the NumPy view.
        step: ``(function, params, op)`` that leads from the source's array to it.
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
    """Check what is assigned to ``tensor.grad``.

    Raises:
        TypeError: if it is not a tensor.
        RuntimeError: if shape or dtype differ.
    """
    if not isinstance(gradient, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(gradient).__name__}")
    if gradient is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    if gradient._array.dtype != tensor._array.dtype:
        raise RuntimeError(errors.assigned_gradient_dtype(gradient.dtype, tensor.dtype))
    if gradient._array.shape != tensor._array.shape:
        raise RuntimeError(errors.assigned_gradient_shape(gradient._array.shape, tensor._array.shape))


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor."""
    return isinstance(value, Tensor)
