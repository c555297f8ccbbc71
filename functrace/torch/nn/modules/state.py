"""``state_dict`` and ``load_state_dict``, and their hooks: a part of `Module`.

Layer: 9.
"""

from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

from functrace.torch.__future__ import get_swap_module_params_on_conversion
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.autograd.handles import RemovableHandle
from functrace.torch.dispatch.overrides import call_override, overriding
from functrace.torch.nn.modules import hooking
from functrace.torch.nn.modules.hooking import Hook, Hooks
from functrace.torch.nn.parameter import Parameter, is_lazy
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils.swapping import swap_tensors

EXTRA = "_extra_state"
"""Name, in a ``state_dict``, of what `get_extra_state` returns."""
Names: TypeAlias = list[str]


class _Keys(NamedTuple):
    missing_keys: Names
    unexpected_keys: Names


class _IncompatibleKeys(_Keys):
    """Names that a state dict has not, and names that only it has."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class State:
    """The part of `Module` that saves and loads its tensors."""

    _version: ClassVar[int] = 1
    """Version of a class in the metadata of ``state_dict``."""
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Hooks
    _state_dict_pre_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    def get_extra_state(self) -> Any:
        """Return what ``state_dict`` has besides tensors; defined by a subclass."""
        raise RuntimeError(_undefined_extra("get"))

    def set_extra_state(self, state: object) -> None:
        """Take what `get_extra_state` returned; defined by a subclass."""
        raise RuntimeError(_undefined_extra("set"))

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Return all parameters and persistent buffers by name.

        Args:
            args: the same as the keywords, deprecated.
            destination: a dict that takes them.
            prefix: put before every name.
            keep_vars: True for the tensors themselves, to which gradients flow; they are detached
                otherwise, and share memory with the module's.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            first: Any = (destination, prefix, keep_vars)
            given: Any = (*args, *first[len(args) :])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            found = hook(self, destination, prefix, metadata)
            if found is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = found
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own tensors into a dict; inner modules are saved by themselves."""
        for name, tensor in self._saved().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if _has_extra(self, "get_extra_state"):
            destination[prefix + EXTRA] = self.get_extra_state()

    def _saved(self) -> dict[str, Any]:
        """Return parameters and persistent buffers."""
        transient = self._non_persistent_buffers_set
        kept = [item for item in self._buffers.items() if item[0] not in transient]
        found = itertools.chain(self._parameters.items(), kept)
        return {name: tensor for name, tensor in found if tensor is not None}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy tensors by name into parameters and buffers.

        Args:
            state_dict: the tensors, as ``state_dict`` returns them.
            strict: False to accept missing and unexpected names.
            assign: True to put the tensors themselves in the place of parameters and buffers.

        Returns:
            names that are missing, and names that are unexpected.

        Raises:
            TypeError: if ``state_dict`` is no mapping.
            RuntimeError: if names or shapes differ.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata: Any = getattr(state_dict, "_metadata", None)
        keys = _IncompatibleKeys([], [])
        messages: Names = []
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata
        _load(self, state, metadata, "", assign, keys, messages)
        if strict:
            for k, (kind, names) in enumerate(
                [("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys)]
            ):
                if names:
                    listed = ", ".join([f'"{name}"' for name in names])
                    place = k if k and keys.missing_keys else 0
                    messages.insert(place, f"{kind} key(s) in state_dict: {listed}. ")
        if messages:
            lines = "\n\t".join(messages)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}"
            )
        return keys

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: Names,
        unexpected_keys: Names,
        error_msgs: Names,
    ) -> None:
        """Load this module's own tensors; inner modules are loaded by themselves."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )  # fmt: skip
        assign = local_metadata.get("assign_to_params_buffers", False)
        saved = self._saved()
        for name, tensor in saved.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            message = self._load_one(name, key, tensor, state_dict[key], assign)
            if message:
                error_msgs.append(message)
        extra = prefix + EXTRA
        if _has_extra(self, "set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if not strict:
            return
        for key in state_dict:
            if not key.startswith(prefix) or key == extra:
                continue
            first, dot, _ = key[len(prefix) :].partition(".")
            if first not in (self._modules if dot else saved):
                unexpected_keys.append(key)

    def _load_one(
        self, name: str, key: str, tensor: Tensor, given: Any, assign: bool
    ) -> str | None:
        """Load one tensor; returns a message if it cannot be."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(given)}"
            )
        lazy = is_lazy(tensor)
        if not lazy and tensor.ndim == 0 and given.shape == (1,):
            given = given[0]  # scalars had one axis in old files
        if not lazy and given.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        swap = get_swap_module_params_on_conversion()
        try:
            with no_grad():
                if not (assign or swap):
                    tensor.copy_(given)
                    return None
                loaded = _loaded_to_swap(tensor, given, assign) if swap else given
                if isinstance(tensor, Parameter):
                    if isinstance(loaded, Parameter):
                        loaded.requires_grad_(tensor.requires_grad)
                    else:
                        loaded = Parameter(loaded, requires_grad=tensor.requires_grad)
                if swap:
                    swap_tensors(tensor, loaded)
                else:
                    setattr(self, name, loaded)
        except Exception as error:
            action = "swapping" if swap else "copying"
            return (
                f'While {action} the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.size()} and whose dimensions in the checkpoint are {given.size()}, an "
                f"exception occurred : {error.args}."
            )
        return None

    # -- hooks ---------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict``."""
        return hooking.add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, metadata)`` after ``state_dict``; it changes the
        dict in place.
        """
        hook._from_public_api = True
        return hooking.add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Any) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return hooking.add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, metadata, strict, missing, unexpected,
        messages)`` before this module's tensors are loaded.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        wrapped = _WithModule(hook, self if with_module else None)
        return hooking.add(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after this module and its inner ones were
        loaded; it changes the lists in place.
        """
        return hooking.add(self._load_state_dict_post_hooks, hook)


class _WithModule:
    """A hook, whose first argument is a module if there is one: the module has the hook, so this
    has a weak reference to it. `copy.deepcopy` copies both.
    """

    def __init__(self, hook: Hook, module: Any) -> None:
        self.hook = hook
        self.module = None if module is None else weakref.ref(module)
        functools.update_wrapper(self, hook, updated=())

    def __call__(self, *args: object) -> Any:
        if self.module is None:
            return self.hook(*args)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args)

    def __reduce__(self) -> tuple[Any, ...]:
        module = None if self.module is None else self.module()
        if self.module is not None and module is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        return _WithModule, (self.hook, module)


def _loaded_to_swap(tensor: Tensor, given: Tensor, assign: bool) -> Tensor:
    """Return the tensor that is swapped with a parameter or buffer: a new object.

    Raises:
        RuntimeError: if ``module_load`` of a subclass returns one of the two.
    """
    found = overriding((tensor, given))
    loaded = (
        call_override(Tensor.module_load, found, (tensor, given), {"assign": assign})
        if found
        else tensor.module_load(given, assign=assign)
    )
    if loaded is given or loaded is tensor:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    return loaded


def _load(
    module: Any,
    state: Any,
    metadata: Any,
    prefix: str,
    assign: bool,
    keys: _IncompatibleKeys,
    messages: Names,
) -> None:
    """Load a module, then its inner ones, then call its hooks."""
    own = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        own["assign_to_params_buffers"] = assign
    module._load_from_state_dict(
        state, prefix, own, True, keys.missing_keys, keys.unexpected_keys, messages
    )
    for name, inner in module._modules.items():
        if inner is not None:
            path = f"{prefix}{name}."
            part = {k: v for k, v in state.items() if k.startswith(path)}
            _load(inner, part, metadata, path, assign, keys, messages)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


def _has_extra(module: object, method: str) -> bool:
    return getattr(type(module), method) is not getattr(State, method)


def _undefined_extra(verb: str) -> str:
    return (
        f"Reached a code path in Module.{verb}_extra_state() that should never be called. Please "
        "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to "
        "report this bug."
    )
