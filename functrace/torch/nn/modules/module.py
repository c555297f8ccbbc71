"""`Module`: the base of all layers and models.

A module has parameters, buffers and other modules, which are attributes and have dotted names
(``"encoder.0.weight"``). See state.py for ``state_dict`` and its hooks, hooking.py for the hooks
around ``forward``.

Layer: 9.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from functrace.torch import namespace as torch
from functrace.torch.__future__ import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.autograd.handles import RemovableHandle
from functrace.torch.functions.constants import typename
from functrace.torch.nn.modules import hooking
from functrace.torch.nn.modules.converting import parse_to
from functrace.torch.nn.modules.hooking import Hook, Hooks, OfAll, call_with_hooks
from functrace.torch.nn.modules.state import State, _IncompatibleKeys
from functrace.torch.nn.parameter import Buffer, Parameter, is_lazy
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils.swapping import swap_tensors

__all__ = [
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

COMPLEX = (
    "Complex modules are a new feature under active development whose design may change, and some "
    "modules might not work as expected when using complex tensors as parameters or buffers. "
    "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
    "if a complex module does not work as expected."
)
Self = TypeVar("Self", bound="Module")
_DICTS = (
    "_parameters", "_buffers", "_backward_pre_hooks", "_backward_hooks", "_forward_hooks",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_modules",
)  # fmt: skip
_PLAIN = frozenset({"_parameters", "_buffers", "_modules"})
"""The plain dicts among them."""

_global_forward_hooks: Hooks = OrderedDict()
_global_forward_pre_hooks: Hooks = OrderedDict()
_global_backward_hooks: Hooks = OrderedDict()
_global_backward_pre_hooks: Hooks = OrderedDict()
"""Hooks of all modules. Users assign these variables to remove them, so they are read by name."""
_global_forward_hooks_with_kwargs: Hooks = OrderedDict()
_global_forward_hooks_always_called: Hooks = OrderedDict()
"""Numbers of the hooks of all modules that take keywords, and that run after an exception."""
_global_is_full_backward_hook: bool | None = None
"""True if the backward hooks of all modules are full, False if of the older kind; None: none yet."""
_global_parameter_registration_hooks: Hooks = OrderedDict()
_global_buffer_registration_hooks: Hooks = OrderedDict()
_global_module_registration_hooks: Hooks = OrderedDict()
"""Hooks that see, and may replace, each parameter, buffer or module that is registered."""


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after each forward of every module.

    Args:
        hook: the hook; a result replaces the output.
        with_kwargs: True to call ``hook(module, args, kwargs, output)``.
        always_call: True to call it also if forward raises.
    """
    return hooking.add(
        _global_forward_hooks,
        hook,
        kwargs=_global_forward_hooks_with_kwargs if with_kwargs else None,
        always=_global_forward_hooks_always_called if always_call else None,
    )


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before each forward of every module."""
    return hooking.add(_global_forward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` in the backward of every module."""
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is False:
        raise RuntimeError(hooking.MIXED_GLOBAL)
    _global_is_full_backward_hook = True
    return hooking.add(_global_backward_hooks, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Call a hook of the older kind, with the gradients of the last node of every module."""
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is True:
        raise RuntimeError(hooking.MIXED_GLOBAL)
    _global_is_full_backward_hook = False
    return hooking.add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the backward of every module."""
    return hooking.add(_global_backward_pre_hooks, hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` for each parameter that is registered."""
    return hooking.add(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` for each buffer that is registered."""
    return hooking.add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` for each module that is registered."""
    return hooking.add(_global_module_registration_hooks, hook)


def _no_forward(self: object, *args: object) -> Any:
    """Raise: a module defines what it computes."""
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class Module(State):
    """Base of layers and models: subclasses define ``forward``.

    Example:
        >>> import functrace.torch as torch
        >>> class Scale(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = torch.nn.Parameter(torch.tensor(3.0))
        ...     def forward(self, x):
        ...         return self.factor * x
        >>> scale = Scale()
        >>> scale(torch.tensor(2.0)), [name for name, _ in scale.named_parameters()]
        (tensor(6., grad_fn=<MulBackward0>), ['factor'])
    """

    dump_patches: ClassVar[bool] = False
    call_super_init: ClassVar[bool] = False
    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _is_full_backward_hook: bool | None
    _forward_hooks: Hooks
    _forward_pre_hooks: Hooks
    _backward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _forward_hooks_with_kwargs: Hooks
    _forward_hooks_always_called: Hooks
    _forward_pre_hooks_with_kwargs: Hooks

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Make a module without parameters."""
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                    f"'{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but "
                    f"{len(args) + 1} were given"
                )
        own = self.__dict__
        own["training"] = True
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for name in _DICTS:
            own[name] = {} if name in _PLAIN else OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _no_forward

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run ``forward``, and the hooks."""
        if (
            self._forward_hooks or self._forward_pre_hooks or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks or _global_forward_pre_hooks
            or _global_backward_hooks or _global_backward_pre_hooks
        ):  # fmt: skip
            of_all = OfAll(
                _global_forward_hooks, _global_forward_pre_hooks,
                _global_backward_hooks, _global_backward_pre_hooks,
                _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called,
                _global_is_full_backward_hook,
            )  # fmt: skip
            return call_with_hooks(self, args, kwargs, of_all)
        return self.forward(*args, **kwargs)

    # -- attributes ----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for place in ("_parameters", "_buffers", "_modules"):
            held = own.get(place)
            if held is not None and name in held:
                return held[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        parameters = own.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, own, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                _refuse(value, "as parameter", name, "torch.nn.Parameter or None expected")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if own.get("_modules") is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, own, self._parameters, self._buffers)
            self._modules[name] = hooking.replaced(
                _global_module_registration_hooks, self, name, value
            )
        elif name in own.get("_modules", ()):
            if value is not None:
                _refuse(value, "as child module", name, "torch.nn.Module or None expected")
            self._modules[name] = hooking.replaced(
                _global_module_registration_hooks, self, name, value
            )
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            if own.get("_buffers") is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            if not _is_buffer(value):
                _refuse(value, "as buffer", name, "torch.nn.Buffer, torch.Tensor or None expected")
            if isinstance(value, Buffer):
                persistent = value.persistent
            else:
                persistent = name not in self._non_persistent_buffers_set
            self._set_buffer(name, value, persistent)
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Any, persistent: bool) -> None:
        """Register a buffer by ``register_buffer``, which older subclasses define without its last
        parameter.

        Raises:
            RuntimeError: if such a subclass has a buffer that is not persistent.
        """
        register: Any = self.register_buffer
        is_own = getattr(register, "__func__", None) is not Module.register_buffer
        if not is_own or "persistent" in inspect.signature(register).parameters:
            register(name, value, persistent)
        elif persistent:
            register(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )

    def _forget(self, name: str, *places: dict[str, Any]) -> None:
        """Remove an attribute from where it was."""
        for place in places:
            place.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        found = [
            *dir(type(self)),
            *self.__dict__,
            *self._parameters,
            *self._modules,
            *self._buffers,
        ]
        return sorted(name for name in found if not name[0].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)
        for name in _DICTS:
            own.setdefault(name, OrderedDict())

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Register a parameter under a name; it becomes an attribute.

        Raises:
            KeyError: for a name with a dot, an empty one, or that of another attribute.
            TypeError: if the name is no string, or ``param`` no `Parameter`.
            ValueError: if ``param`` was computed from others.
        """
        self._check_new("parameter", name, "_parameters")
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            _refuse(param, "object to parameter", name, "torch.nn.Parameter or None required")
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = hooking.replaced(
            _global_parameter_registration_hooks, self, name, param
        )

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is part of the state, but no parameter.

        Args:
            name: its name.
            tensor: the tensor.
            persistent: whether ``state_dict`` has it.

        Raises:
            KeyError: for a name with a dot, an empty one, or that of another attribute.
            TypeError: if the name is no string, or ``tensor`` no tensor.
        """
        self._check_new("buffer", name, "_buffers")
        if not _is_buffer(tensor):
            _refuse(tensor, "object to buffer", name, "torch Tensor or None required")
        self._buffers[name] = hooking.replaced(
            _global_buffer_registration_hooks, self, name, tensor
        )
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def _check_new(self, kind: str, name: str, place: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        _check_name(kind, name)
        if hasattr(self, name) and name not in self.__dict__[place]:
            raise KeyError(f"attribute '{name}' already exists")

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a module under a name; it becomes an attribute.

        Raises:
            KeyError: for a name with a dot, an empty one, or that of another attribute.
            TypeError: if the name is no string, or ``module`` no module.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        _check_name("module", name)
        self._modules[name] = hooking.replaced(
            _global_module_registration_hooks, self, name, module
        )

    def register_module(self, name: str, module: Module | None) -> None:
        """Register a module: another name of ``add_module``."""
        self.add_module(name, module)

    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted name; the module itself for an empty one.

        Raises:
            AttributeError: if there is none.
        """
        found = self
        for part in target.split(".") if target else ():
            if not hasattr(found, part):
                raise AttributeError(f"{type(found).__name__} has no attribute `{part}`")
            found = getattr(found, part)
            if not isinstance(found, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted name.

        Args:
            target: the name.
            module: the module.
            strict: True to refuse a name that the parent does not have yet.

        Raises:
            ValueError: for an empty name, or if ``module`` is no module.
            AttributeError: if the way to it, or with ``strict`` the place, does not exist.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Any:
        """Return the parameter at a dotted name.

        Raises:
            AttributeError: if there is none.
        """
        return self._member(
            target, lambda owner, name, x: isinstance(x, Parameter), "an nn.Parameter"
        )

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted name.

        Raises:
            AttributeError: if there is none.
        """
        return self._member(target, lambda owner, name, x: name in owner._buffers, "a buffer")

    def _member(self, target: str, accepts: Callable[..., bool], kind: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        found = getattr(owner, name)
        if not accepts(owner, name, found):
            raise AttributeError(f"`{name}` is not {kind}")
        return found

    # -- all of them ---------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield names and modules: this one, and all inner ones.

        Args:
            memo: modules to leave out.
            prefix: put before every name.
            remove_duplicate: whether a module that occurs twice is yielded once.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, _joined(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all inner ones."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield names and modules that are attributes of this one."""
        memo: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield modules that are attributes of this one."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        members: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        memo: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, member in members(module):
                if member is None or id(member) in memo:
                    continue
                if remove_duplicate:
                    memo.add(id(member))
                yield _joined(path, name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield names and parameters.

        Args:
            prefix: put before every name.
            recurse: whether those of inner modules are yielded, too.
            remove_duplicate: whether a parameter that occurs twice is yielded once.
        """
        yield from self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Yield parameters; those of inner modules, too, if ``recurse``."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield names and buffers.

        Args:
            prefix: put before every name.
            recurse: whether those of inner modules are yielded, too.
            remove_duplicate: whether a buffer that occurs twice is yielded once.
        """
        yield from self._named_members(
            lambda m: m._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield buffers; those of inner modules, too, if ``recurse``."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # -- changes of all tensors ----------------------------------------------------------------

    def apply(self: Self, fn: Callable[[Module], object]) -> Self:
        """Call a function with every inner module, then with this one; returns the module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: Self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace each tensor by a function of it; parameters stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with no_grad():
                found = fn(parameter)
            if get_swap_module_params_on_conversion():
                self._swap_parameter(name, parameter, found, fn)
                continue
            replaced = parameter
            if get_overwrite_module_params_on_conversion():
                replaced = Parameter(found, parameter.requires_grad)
                self._parameters[name] = replaced
            elif found is not parameter:
                parameter.data = found
            before = parameter.grad
            if before is not None:
                with no_grad():
                    changed = fn(before)
                if replaced is not parameter:
                    replaced.grad = changed.requires_grad_(before.requires_grad)
                elif changed is not before:
                    before.data = changed
        for name, buffer in self._buffers.items():
            if buffer is None:
                continue
            found = fn(buffer)
            if is_lazy(buffer) and not is_lazy(found):
                found = type(buffer)(dtype=found.dtype, persistent=buffer.persistent)
            self._buffers[name] = found
        return self

    def _swap_parameter(
        self, name: str, parameter: Any, found: Any, fn: Callable[[Any], Any]
    ) -> None:
        """Swap a parameter, and its gradient, with what a conversion has made of them.

        Args:
            name: name of the parameter.
            parameter: the parameter.
            found: what the conversion has made of it.
            fn: the conversion.

        Raises:
            RuntimeError: if they cannot be swapped.
        """
        before = parameter.grad
        parameter.grad = None  # which is a reference to the gradient
        try:
            swap_tensors(parameter, Parameter(found, parameter.requires_grad))
        except Exception as error:
            parameter.grad = before
            raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}") from error
        if before is None:
            return
        with no_grad():
            changed = fn(before)
        changed.requires_grad_(before.requires_grad)
        try:
            swap_tensors(before, changed)
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}.grad") from error
        parameter.grad = before

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating tensors to a dtype, in place; ``to(dtype)``, ``to(tensor)``,
        ``to(device, dtype)``.

        Args:
            args: as of ``Tensor.to``.
            kwargs: as of ``Tensor.to``.

        Raises:
            TypeError: for a dtype of integers.
        """
        device, wanted, non_blocking, memory_format = parse_to(*args, **kwargs)
        if wanted is not None and not (wanted.is_floating_point or wanted.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={wanted}"
            )
        if wanted is not None and wanted.is_complex:
            warnings.warn(COMPLEX, stacklevel=2)

        def convert(t: Tensor) -> Tensor:
            dtype = wanted if _is_inexact(t) else None
            if memory_format is None or t.dim() not in (4, 5):
                return t.to(device, dtype, non_blocking)
            return t.to(device, dtype, non_blocking, memory_format=memory_format)

        return self._apply(convert)

    def to_empty(self: Self, *, device: DeviceLike | None = None, recurse: bool = True) -> Self:
        """Give every tensor new memory without values.

        Args:
            device: the CPU.
            recurse: whether inner modules are changed, too.
        """
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse)

    def type(self: Self, dst_type: Dtype | str) -> Self:
        """Convert all tensors to a type."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self: Self) -> Self:
        """Return the module: its tensors are on the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: DeviceLike | None = None) -> Self:
        """Raise as a build for the CPU does, if there are tensors."""
        return self._apply(lambda t: t.cuda(device))

    def float(self: Self) -> Self:
        """Convert floating tensors to float32."""
        return self._cast("float32")

    def double(self: Self) -> Self:
        """Convert floating tensors to float64."""
        return self._cast("float64")

    def half(self: Self) -> Self:
        """Convert floating tensors to float16."""
        return self._cast("float16")

    def bfloat16(self: Self) -> Self:
        """Convert floating tensors to bfloat16."""
        return self._cast("bfloat16")

    def _cast(self: Self, name: str) -> Self:
        wanted: Any = getattr(torch, name)
        return self._apply(lambda t: t.to(wanted) if t.is_floating_point() else t)

    def share_memory(self: Self) -> Self:
        """Return the module: threads share its memory."""
        tensors: Any = (*self.parameters(), *self.buffers())
        for tensor in tensors:
            if is_lazy(tensor):
                tensor.share_memory_()
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Set whether this module and all inner ones are in training mode.

        Raises:
            ValueError: if ``mode`` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Leave training mode, in this module and all inner ones."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set whether the parameters require gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of the parameters.

        Args:
            set_to_none: False to overwrite them by zeros.
        """
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                if parameter.grad.grad_fn is not None:
                    parameter.grad.detach_()
                else:
                    parameter.grad.requires_grad_(False)
                parameter.grad.zero_()

    def _replicate_for_data_parallel(self: Self) -> Self:
        """Return a copy without parameters, for another device: it gets tensors of their names, that
        are computed from them.
        """
        made = self.__new__(type(self))
        own = made.__dict__ = self.__dict__.copy()
        own["_parameters"] = {}
        own["_buffers"], own["_modules"] = self._buffers.copy(), self._modules.copy()
        own["_is_replica"] = True
        return made

    def compile(self, *args: object, **kwargs: object) -> None:
        """Do nothing: a module runs as it is."""

    # -- hooks ---------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before forward.

        Args:
            hook: a result replaces the arguments.
            prepend: True to call it before those that are there.
            with_kwargs: True to call ``hook(module, args, kwargs)``, which returns both.
        """
        kwargs = self._forward_pre_hooks_with_kwargs if with_kwargs else None
        return hooking.add(self._forward_pre_hooks, hook, prepend=prepend, kwargs=kwargs)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after forward.

        Args:
            hook: a result replaces the output.
            prepend: True to call it before those that are there.
            with_kwargs: True to call ``hook(module, args, kwargs, output)``.
            always_call: True to call it also if forward raises.
        """
        return hooking.add(
            self._forward_hooks,
            hook,
            prepend=prepend,
            kwargs=self._forward_hooks_with_kwargs if with_kwargs else None,
            always=self._forward_hooks_always_called if always_call else None,
        )

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the gradients of the inputs are computed.

        Args:
            hook: a result replaces the gradients of the outputs.
            prepend: True to call it before those that are there.
        """
        return hooking.add(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` after the gradients of the inputs.

        Args:
            hook: a result replaces the gradients of the inputs.
            prepend: True to call it before those that are there.

        Raises:
            RuntimeError: if the module has hooks of the older kind.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(hooking.MIXED)
        self._is_full_backward_hook = True
        return hooking.add(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook of the older kind, with the gradients of the module's last node.

        Raises:
            RuntimeError: if the module has full backward hooks.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(hooking.MIXED)
        self._is_full_backward_hook = False
        return hooking.add(self._backward_hooks, hook)

    # -- text ----------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return the arguments that ``repr`` shows."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        inner = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        return _listed(self._get_name(), lines, inner)


def _is_buffer(value: object) -> bool:
    """Return True for a tensor, an object that handles PyTorch's functions, and None."""
    return value is None or isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def _listed(name: str, lines: list[str], inner: list[str]) -> str:
    """Return the text of a module: on one line if it has no inner modules and one line itself."""
    if not inner and len(lines) < 2:
        return f"{name}({''.join(lines)})"
    return f"{name}(\n  " + "\n  ".join([*lines, *inner]) + "\n)"


def _check_name(kind: str, name: str) -> None:
    if "." in name:
        shown = f", got: {name}" if kind == "module" else ""
        raise KeyError(f'{kind} name can\'t contain "."{shown}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _refuse(value: object, place: str, name: str, expected: str) -> None:
    """Raise for an attribute of the wrong class."""
    kind = typename(value)
    first = f"'{kind}' {place}" if place.startswith(("as ", "object ")) else place
    raise TypeError(f"cannot assign {first} '{name}' ({expected})")


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
