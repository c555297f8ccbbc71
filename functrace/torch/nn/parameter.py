"""`Parameter`, `Buffer`, and their forms without a shape: tensors that a `Module` registers.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functrace.torch import errors
from functrace.torch.dispatch.overrides import disabled
from functrace.torch.dispatch.rows import TENSOR
from functrace.torch.functions import factories
from functrace.torch.tensors.copying import reduced
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Tensor, wrap

if TYPE_CHECKING:
    from functrace.torch.tensors.device import DeviceLike
    from functrace.torch.tensors.dtypes import dtype as Dtype
    from functrace.torch.tensors.size import Size


class _ParameterKind(type(Tensor)):
    """Class of `Parameter`: also tensors of other classes that are marked as parameters."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and "_is_param" in vars(instance)


class Parameter(Tensor, metaclass=_ParameterKind):
    """A leaf that a `Module` registers as its parameter when it is assigned as an attribute.

    Args:
        data: tensor whose memory the parameter shares; None: an empty one.
        requires_grad: whether gradients flow to it.

    Raises:
        RuntimeError: for integers that should require gradients.

    Example:
        >>> import functrace.torch as torch
        >>> torch.nn.Parameter(torch.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    _is_plain = True
    __torch_function__ = disabled

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        """Make a parameter; of a tensor's own subclass, the same tensor marked as one."""
        if data is None:
            data = factories.empty(0)
        if type(data) in (Tensor, Parameter):
            return Tensor._make_subclass(cls, data, requires_grad)
        made: Any = data.detach()
        if type(made) is not type(data) and type(data) is not Buffer:
            made = Tensor._make_subclass(type(data), made)
        made.requires_grad_(requires_grad)
        vars(made)["_is_param"] = True
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        made = memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return _restored, (reduced(self), dict(_own(self)))


def _own(tensor: Tensor) -> list[tuple[str, Any]]:
    """Attributes that a user has set on a tensor."""
    return [(k, v) for k, v in vars(tensor).items() if k not in _STATE]


_STATE = {
    "_array", "_counter", "_requires", "_node", "_output_nr", "_view", "_grad", "_accumulator", "_hooks", "_post_hooks",
    "_retains", "_traced_hooks", "_moves", "_home", "_laid", "_grad_dtype", "_dual", "_inside", "_mask", "_kept",
}  # fmt: skip


def _restored(made: tuple[Callable[..., Any], tuple[Any, ...]], state: dict[str, Any]) -> Any:
    """Return a pickled parameter, with the attributes that its user had set."""
    function, arguments = made
    tensor = function(*arguments)
    vars(tensor).update(state)
    return tensor


class _BufferKind(type(Tensor)):
    """Class of `Buffer`, whose instances are plain tensors that are marked as buffers."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and "_is_buffer" in vars(instance)


class Buffer(Tensor, metaclass=_BufferKind):
    """A tensor that a `Module` registers as a buffer when it is assigned as an attribute.

    Args:
        data: tensor whose memory the buffer shares; None: an empty one.
        persistent: whether ``state_dict`` has it.

    Example:
        >>> import functrace.torch as torch
        >>> torch.nn.Buffer(torch.ones(2), persistent=False).persistent
        False
    """

    persistent: bool
    _is_plain = True

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        """Return the tensor's alias, marked as a buffer."""
        made: Any = (
            (factories.empty(0) if data is None else data)
            .detach()
            .requires_grad_(data is not None and data.requires_grad)
        )
        made.persistent = persistent
        made._is_buffer = True
        return made


class UninitializedTensorMixin:
    """Parameters and buffers of a lazy module, which get a shape at its first call.

    Functions and methods read ``_array``, which raises here; the methods that are allowed read
    ``_held``, an array without elements, whose dtype is that of the elements to come.
    """

    cls_to_become: type[Any] | None = None

    @property
    def _array(self) -> Any:
        """Raise: there are no elements yet."""
        raise ValueError(errors.uninitialized("a function"))

    @_array.setter
    def _array(self, array: Any) -> None:
        vars(self)["_array"] = array

    @property
    def _held(self) -> Any:
        return vars(self)["_array"]

    @property
    def dtype(self) -> Dtype:
        """Element type that it will have."""
        return DTYPES[self._held.dtype]

    @property
    def ndim(self) -> int:
        """1, the number of axes of the empty tensor."""
        return self._held.ndim

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._held.itemsize

    @property
    def nbytes(self) -> int:
        """0: there are no elements."""
        return self._held.nbytes

    @property
    def data(self) -> Any:
        """An empty tensor of the dtype."""
        return wrap(self._held)

    @data.setter
    def data(self, value: Tensor) -> None:
        self._array = value._array

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set whether gradients will flow to it.

        Raises:
            RuntimeError: for integers.
        """
        if requires_grad and self._held.dtype.kind not in "fcV":
            raise RuntimeError(errors.REQUIRES_GRAD_DTYPE)
        vars(self)["_requires"] = bool(requires_grad)
        return self

    def materialize(
        self, shape: object, device: DeviceLike | None = None, dtype: Dtype | None = None
    ) -> None:
        """Give the tensor a shape, in place, and make it an ordinary one.

        Args:
            shape: the sizes.
            device: the CPU.
            dtype: the element type; by default that with which it was made.
        """
        given: Any = self
        made = factories.empty(shape, device=device, dtype=dtype or self.dtype)
        given.__class__ = self.cls_to_become
        given.data = made

    @property
    def shape(self) -> Size:
        """Raise: there is no shape yet."""
        raise RuntimeError(errors.UNINITIALIZED_SHAPE)

    def share_memory_(self) -> Any:
        """Raise: there is no memory yet."""
        raise RuntimeError(errors.UNINITIALIZED_SHARED)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        given: Any = self
        return type(self), (given.requires_grad,)


_CONVERSIONS = (
    "half", "float", "double", "char", "short", "int", "long", "bfloat16", "cpu", "cuda", "to",
    "is_complex", "is_floating_point", "get_device", "copy_", "size",
)  # fmt: skip
"""Methods of tensors that compute on a tensor without elements."""
_ALLOWED = frozenset({
    "__hash__", "__repr__", "__deepcopy__", "__reduce_ex__", "__init_subclass__", "__class__",
    "__new__", "__init__", "__dir__", "__getstate__", "__setstate__", "share_memory_",
    "requires_grad_", *_CONVERSIONS,
})  # fmt: skip
"""Methods of tensors without a shape."""


@functools.lru_cache(maxsize=256)
def _refuse_operations() -> None:
    """Give tensors without a shape methods that raise, in place of `Tensor`'s operations."""
    from functrace.torch.dispatch.surface import ENTRIES

    names = [name for name, (_, method) in ENTRIES[TENSOR].items() if callable(method)]
    own = [name for name, method in vars(Tensor).items() if callable(method) and name[0] != "_"]
    for name in (*names, *own, "__len__", "__float__", "__int__", "__bool__"):
        if name not in _ALLOWED:
            setattr(
                UninitializedTensorMixin,
                name,
                _refusing(f"<method '{name}' of 'torch._C.TensorBase' objects>"),
            )
    for name in _CONVERSIONS:
        setattr(UninitializedTensorMixin, name, _converting(name))


def _converting(name: str) -> Callable[..., Any]:
    def convert(self: UninitializedTensorMixin, *arguments: Any, **keywords: object) -> Any:
        plain = self.data
        plain._requires = vars(self).get("_requires", False)
        given = [x.data if is_lazy(x) else x for x in arguments]
        found = getattr(plain, name)(*given, **keywords)
        return self if found is plain else found

    return convert


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*arguments: object, **keywords: object) -> Any:
        raise ValueError(errors.uninitialized(name))

    return refuse


def is_lazy(param: object) -> bool:
    """Return True for a parameter or buffer without a shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape.

    Args:
        requires_grad: whether gradients will flow to it.
        device: the CPU.
        dtype: element type once it has a shape.

    Example:
        >>> import functrace.torch as torch
        >>> p = torch.nn.UninitializedParameter()
        >>> p.materialize((2, 3)); p.shape
        torch.Size([2, 3])
    """

    cls_to_become = Parameter
    _is_plain = True

    def __new__(
        cls,
        requires_grad: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> Any:
        """Make an empty one."""
        _refuse_operations()
        data = factories.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data).requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, dtype=self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape.

    Args:
        requires_grad: whether gradients will flow to it.
        device: the CPU.
        dtype: element type once it has a shape.
        persistent: whether ``state_dict`` has it.

    Example:
        >>> import functrace.torch as torch
        >>> b = torch.nn.UninitializedBuffer()
        >>> b.materialize((2, 3)); b.shape
        torch.Size([2, 3])
    """

    cls_to_become = Tensor
    persistent: bool
    _is_plain = True

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
        persistent: bool = True,
    ) -> Any:
        """Make an empty one."""
        _refuse_operations()
        data = factories.empty(0, device=device, dtype=dtype)
        made = Tensor._make_subclass(cls, data).requires_grad_(requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made
