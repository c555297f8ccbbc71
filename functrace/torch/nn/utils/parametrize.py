"""``torch.nn.utils.parametrize``: parameters that are functions of other ones.

A parametrized tensor is a property of a class made for the module; what it is computed from is in
``module.parametrizations``.

Layer: 9.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from functrace.torch.__future__ import get_swap_module_params_on_conversion
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.nn.modules.container import ModuleDict, ModuleList
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.parameter import Parameter
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils.swapping import swap_tensors

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_UNLESS = "unless `unsafe` flag is enabled."
_UNLESS_THE = "unless the `unsafe` flag is enabled."
_RETURNS = "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)."


class _Cache:
    """The tensors that were computed inside `cached`, and how many contexts are open."""

    def __init__(self) -> None:
        self.open = 0
        self.tensors: dict[tuple[int, str], Tensor] = {}


_CACHE = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once, until the context ends.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.nn.utils import parametrizations, parametrize
        >>> layer = parametrizations.weight_norm(torch.nn.Linear(2, 2))
        >>> with parametrize.cached():
        ...     layer.weight is layer.weight
        True
    """
    _CACHE.open += 1
    try:
        yield
    finally:
        _CACHE.open -= 1
        if not _CACHE.open:
            _CACHE.tensors = {}


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence)


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set(before: Tensor, after: Tensor) -> None:
    """Give a tensor the values of another one: swap the two, if conversions do so."""
    if not get_swap_module_params_on_conversion():
        before.data = after.data
        return
    if isinstance(before, Parameter) and not isinstance(after, Parameter):
        after = Parameter(after, requires_grad=before.requires_grad)
    swap_tensors(before, after)


def _same(message: str, names: tuple[str, str], before: Tensor, after: Tensor, unless: str) -> None:
    """Refuse a tensor of another dtype or shape."""
    for kind in ("dtype", "shape"):
        first, second = getattr(before, kind), getattr(after, kind)
        if first != second:
            raise ValueError(
                f"{message.format(kind)}, {unless}\n{names[0].format(kind)}: {first}\n"
                f"{names[1].format(kind)}: {second}"
            )


class ParametrizationList(ModuleList):
    """The functions that compute a tensor, and the tensors that they compute it from.

    Args:
        modules: the functions, the first one first.
        original: the tensor before.
        unsafe: whether dtype and shape may change.
    """

    original: Any

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not len(modules):
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        dtype, shape = original.dtype, original.shape
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not _is_sequence(new):
            raise ValueError(f"{_RETURNS} Got {type(new).__name__}")
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            if new is not original:
                _set(original, new)
            _register(self, "original", original)
        else:
            for k, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"{_RETURNS} Got element {k} of the sequence with type "
                        f"{type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                part.requires_grad_(original.requires_grad)
                _register(self, f"original{k}", part)
        if not unsafe:
            found = self()
            if not isinstance(found, Tensor):
                raise ValueError(
                    f"A parametrization must return a tensor. Got {type(found).__name__}."
                )
            for kind, before in (("dtype", dtype), ("shape", shape)):
                after = getattr(found, kind)
                if after != before:
                    raise ValueError(
                        f"Registering a parametrization may not change the {kind} of the tensor, "
                        f"{_UNLESS}\nunparametrized {kind}: {before}\nparametrized {kind}: {after}"
                    )

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{k}") for k in range(self.ntensors)]

    def right_inverse(self, value: object) -> None:
        """Set the original tensors to those from which a value is computed.

        Args:
            value: the value.

        Raises:
            RuntimeError: if a function has no ``right_inverse``.
            ValueError: if it does not return tensors as they were.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                    )
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while "
                        f"`original` has dtype {self.original.dtype}"
                    )
                value = [value]
            elif not isinstance(value, Sequence):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors. Got "
                    f"{type(value).__name__}."
                )
            elif len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            for k, (original, part) in enumerate(zip(self._originals(), value)):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {k} of "
                        f"type {type(part).__name__}"
                    )
                if part.dtype != original.dtype:
                    raise ValueError(
                        f"Tensor {k} returned by `right_inverse` has dtype {part.dtype} while "
                        f"`original{k}` has dtype {original.dtype}"
                    )
                _set(original, part)

    def forward(self) -> Any:
        """Return the tensor."""
        first, *rest = self
        found = first(*self._originals())
        for module in rest:
            found = module(found)
        return found


def _no_pickle(self: object) -> None:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(self: object, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    made = memo[id(self)] = self.__new__(type(self))
    made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return made


def _make_class(module: Module) -> None:
    """Give a module a class of its own, for properties."""
    kind = type(module)
    members: dict[str, Any] = {"__getstate__": _no_pickle, "__module__": __name__}
    if not hasattr(kind, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _make_property(module: Module, name: str) -> None:
    """Make a tensor of a module a property of its class."""

    def compute(self: Any) -> Any:
        found = self.parametrizations[name]
        if not _CACHE.open:
            return found()
        key = (id(self), name)
        if key not in _CACHE.tensors:
            _CACHE.tensors[key] = found()
        return _CACHE.tensors[key]

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(compute, assign))


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """Compute a parameter or buffer by a module; returns the module that has it.

    Args:
        module: the module, which is changed.
        tensor_name: name of the parameter or buffer.
        parametrization: computes it from what it was; ``right_inverse``, if it has one, computes
            what it was.
        unsafe: whether dtype and shape may change.

    Raises:
        ValueError: for an unknown name, and for another dtype or shape, unless ``unsafe``.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _make_class(module)
            module.parametrizations = ModuleDict()
        _make_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_further(module: Module, name: str, parametrization: Any) -> None:
    """Refuse a further function that changes dtype or shape."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    own = f"module.{name}.{{}}"
    _same(
        "Registering a parametrization may not change the {} of the tensor",
        (own, f"parametrization(module.{name}).{{}}"),
        before,
        after,
        _UNLESS_THE,
    )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    _same(
        f"The tensor returned by parametrization.right_inverse must have the same {{}} as "
        f"module.{name}",
        (own, "returned {}"),
        before,
        back,
        _UNLESS_THE,
    )


def is_parametrized(module: object, tensor_name: str | None = None) -> bool:
    """Return True if a module has a parametrization, or one of a given name."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a tensor a parameter or buffer again; returns the module.

    Args:
        module: the module, which is changed.
        tensor_name: name of the tensor.
        leave_parametrized: whether it keeps its value; it is what it was before otherwise.

    Raises:
        ValueError: if there is no parametrization, or what it was are several tensors.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found = module.parametrizations[tensor_name]
    if found.is_tensor:
        original = found.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: object) -> type[Any]:
    """Return the class of a module before it had parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Give a module the parametrizations and original tensors of another one; returns it.

    Args:
        from_module: the other one.
        to_module: the module, which is changed.
        tensor_name: name of a tensor; None for all.
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        found = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for function in found:
            register_parametrization(to_module, name, function, unsafe=found.unsafe)
        for part in found._parameters.keys() | found._buffers.keys():
            setattr(to_module.parametrizations[name], part, getattr(found, part))
    return to_module
