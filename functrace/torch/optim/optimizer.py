"""`Optimizer`: parameters in groups, their settings, and their state.

Layer: 9.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar, TypeAlias

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import MODES, restore, state, switch
from functrace.torch.autograd.handles import RemovableHandle
from functrace.torch.functions.constants import typename
from functrace.torch.optim import errors
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.dtypes import float32, float64, get_default_dtype
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

ParamsT: TypeAlias = "Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]"
"""Parameters, groups of them (dicts with ``"params"`` and settings), or parameters with names."""
StateDict: TypeAlias = dict[str, Any]
Closure: TypeAlias = "Callable[[], Any] | None"
"""Computes the loss and its gradients."""

_global_optimizer_pre_hooks: dict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: dict[int, Callable[..., Any]] = OrderedDict()


class _RequiredParameter:
    """Default of a setting that every group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook before every step of every optimizer.

    Args:
        hook: called with the optimizer, and the arguments of ``step`` as a tuple and a dict; it may
            return both anew.

    Returns:
        a handle, whose ``remove()`` removes the hook.

    Example:
        >>> import functrace.torch as torch
        >>> hook = lambda optimizer, args, kwargs: print(type(optimizer).__name__)
        >>> handle = torch.optim.optimizer.register_optimizer_step_pre_hook(hook)
        >>> torch.optim.SGD([torch.ones(2)]).step()
        SGD
        >>> handle.remove()
    """
    return _registered(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook after every step of every optimizer.

    Args:
        hook: called with the optimizer, and the arguments of ``step`` as a tuple and a dict.

    Returns:
        a handle, whose ``remove()`` removes the hook.

    Example:
        >>> import functrace.torch as torch
        >>> hook = lambda optimizer, args, kwargs: print(type(optimizer).__name__)
        >>> handle = torch.optim.optimizer.register_optimizer_step_post_hook(hook)
        >>> torch.optim.SGD([torch.ones(2)]).step()
        SGD
        >>> handle.remove()
    """
    return _registered(_global_optimizer_post_hooks, hook)


def _registered(
    hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any], prepend: bool = False
) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)  # type: ignore[attr-defined]
    return handle


def _use_grad_for_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``step``: operations are recorded only in an optimizer with ``differentiable``."""

    @functools.wraps(function)
    def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = state()
        try:
            switch(self.defaults["differentiable"])
            return function(self, *args, **kwargs)
        finally:
            restore(before)

    return stepping


def without_recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``step``: no operations are recorded."""

    @functools.wraps(function)
    def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = state()
        try:
            switch(False)
            return function(self, *args, **kwargs)
        finally:
            restore(before)

    return stepping


def loss_of(closure: Closure) -> Any:
    """Call a closure with recording on; None without one."""
    if closure is None:
        return None
    before = state()
    try:
        switch(True)
        return closure()
    finally:
        restore(before)


def _get_value(x: object) -> Any:
    """Return a tensor's one element as a number; numbers are returned as they are."""
    return x.item() if isinstance(x, Tensor) else x


def _get_scalar_dtype(is_fused: bool | None = None) -> Dtype:
    """Return the dtype of step counts: float64 if that is the default dtype, otherwise float32."""
    return float64 if get_default_dtype() is float64 and not is_fused else float32


def _to_scalar(x: object) -> Any:
    """Return a tensor with one element as a 0-d one; anything else is returned as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _view_as_real(params: list[Tensor], *others: list[Tensor]) -> None:
    """Replace complex tensors in lists by views of their real and imaginary parts."""
    for k, p in enumerate(params):
        if p.is_complex():
            for several in (params, *others):
                several[k] = torch.view_as_real(several[k])


def check_tensor_lr(lr: object) -> None:
    """Refuse a learning rate with more than one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(errors.LR_ELEMENTS)


def check_at_least_zero(label: str, value: float | Tensor) -> None:
    """Refuse a negative setting.

    Args:
        label: the message before the value.
        value: the setting.
    """
    if not value >= 0.0:
        raise ValueError(f"{label}: {value}")


def check_betas(betas: Sequence[float | Tensor]) -> None:
    """Refuse decay rates outside of [0, 1)."""
    for k in range(2):
        if not 0.0 <= betas[k] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")


class Optimizer:
    """Base class of optimizers.

    Args:
        params: tensors; dicts with ``"params"`` and settings of their own; or pairs of names and
            tensors.
        defaults: settings of groups that do not give them.

    Raises:
        TypeError: for a tensor in place of a list of them, or other things among the parameters.
        ValueError: without parameters; for a parameter that is no leaf, or in two groups.

    Example:
        >>> import functrace.torch as torch
        >>> class Descent(torch.optim.Optimizer):
        ...     def __init__(self, params, lr):
        ...         super().__init__(params, {"lr": lr})
        ...     @torch.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p.sub_(p.grad, alpha=group["lr"])
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> x.square().sum().backward()
        >>> Descent([x], lr=0.25).step()
        >>> x
        tensor([0.5000, 1.0000], requires_grad=True)
    """

    OptimizerPreHook: TypeAlias = Callable[..., Any]
    OptimizerPostHook: TypeAlias = Callable[..., None]

    _HOOKS = (
        "_optimizer_step_pre_hooks",
        "_optimizer_step_post_hooks",
        "_optimizer_state_dict_pre_hooks",
        "_optimizer_state_dict_post_hooks",
        "_optimizer_load_state_dict_pre_hooks",
        "_optimizer_load_state_dict_post_hooks",
    )
    _optimizer_step_pre_hooks: dict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: dict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: dict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: dict[int, Callable[..., Any]]

    _ADDED: ClassVar[dict[str, Any]] = {}
    """Settings that groups of older checkpoints lack, with their values."""
    _NUMBERS: ClassVar[tuple[str, ...]] = ()
    """Names of the state that is one number in a tensor; a plain number in older checkpoints."""

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for name in self._HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(errors.params_type(typename(params)))
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(errors.NO_PARAMS)
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for name in self._HOOKS:
            if name not in vars(self):
                setattr(self, name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self._ADDED.items():
                group.setdefault(name, value)
            for p in group["params"]:
                own: Any = self.state.get(p)
                for name in self._NUMBERS if own else ():
                    if name in own and not isinstance(own[name], Tensor):
                        own[name] = number_tensor(float(own[name]), group.get("fused"))

    def __repr__(self) -> str:
        blocks = []
        for k, group in enumerate(self.param_groups):
            blocks.append(f"\nParameter Group {k}\n")
            blocks += [f"    {x}: {group[x]}\n" for x in sorted(group) if x != "params"]
        return f"{type(self).__name__} (" + "".join(blocks) + ")"

    def _accelerator_graph_capture_health_check(self) -> None:
        """Do nothing: a CPU captures no graphs."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: list[list[Any]], with_indices: bool = False
    ) -> dict[Any, Any]:
        """Return parallel lists by the device and dtype of the first one's tensors.

        Args:
            tensorlistlist: lists of tensors, or None, of one length.
            with_indices: whether the positions in the lists are returned, too.
        """
        places: dict[Any, list[int]] = {}
        for k, tensor in enumerate(tensorlistlist[0]):
            places.setdefault((tensor.device, tensor.dtype), []).append(k)
        return {
            kind: (
                [[x[k] for k in at] if x else [] for x in tensorlistlist],
                at if with_indices else [],
            )
            for kind, at in places.items()
        }

    # -- hooks around step ---------------------------------------------------------------------

    def _optimizer_step_code(self) -> None:
        """Do nothing, at the end of a step: profilers look for this call."""

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``step`` with the hooks around it."""

        @functools.wraps(func)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            if _global_optimizer_pre_hooks or self._optimizer_step_pre_hooks:
                for hook in chain(
                    _global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()
                ):
                    found = hook(self, args, kwargs)
                    if found is None:
                        continue
                    if not (isinstance(found, tuple) and len(found) == 2):
                        raise RuntimeError(errors.step_hook_result(func, found))
                    args, kwargs = found
            profile = MODES.dispatch
            if profile is None or not profile.is_passive:
                result = func(*args, **kwargs)
            else:
                with profile.range(f"Optimizer.step#{type(self).__name__}.step"):
                    result = func(*args, **kwargs)
            self._optimizer_step_code()
            if _global_optimizer_post_hooks or self._optimizer_step_post_hooks:
                for hook in chain(
                    self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()
                ):
                    hook(self, args, kwargs)
            return result

        return hooked

    def _patch_step_function(self) -> None:
        """Put the hooks around the class's ``step``, once."""
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        kind: Any = type(self)
        if not getattr(kind.step, "hooked", None):
            kind.step = self.profile_hook_step(kind.step)
            kind.step.hooked = True

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before every step.

        Args:
            hook: called with the optimizer, and the arguments of ``step`` as a tuple and a dict; it
                may return both anew.
        """
        return _registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook after every step.

        Args:
            hook: called with the optimizer, and the arguments of ``step`` as a tuple and a dict.
        """
        return _registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call a hook with the optimizer before ``state_dict``.

        Args:
            hook: the hook.
            prepend: whether it runs before the hooks registered so far.
        """
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call a hook with the optimizer and the dict that ``state_dict`` made; it may return
        another one.

        Args:
            hook: the hook.
            prepend: whether it runs before the hooks registered so far.
        """
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call a hook with the optimizer and a copy of the dict to load; it may return another one.

        Args:
            hook: the hook.
            prepend: whether it runs before the hooks registered so far.
        """
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call a hook with the optimizer after ``load_state_dict``.

        Args:
            hook: the hook.
            prepend: whether it runs before the hooks registered so far.
        """
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # -- saving and loading --------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """Return settings and state, with positions in place of parameters.

        Returns:
            ``"state"``, a dict from positions to the states of parameters, whose tensors are the
            optimizer's own; and ``"param_groups"``, where ``"params"`` are positions.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        positions: dict[int, int] = {}
        packed: list[dict[str, Any]] = []
        start = 0
        for group in self.param_groups:
            for k, p in enumerate(group["params"], start):
                positions.setdefault(id(p), k)
            start += len(group["params"])
            settings = {name: value for name, value in group.items() if name != "params"}
            packed.append(settings | {"params": [positions[id(p)] for p in group["params"]]})
        made: StateDict = {
            "state": {
                positions[id(key)] if isinstance(key, Tensor) else key: value
                for key, value in self.state.items()
            },
            "param_groups": packed,
        }
        for hook in self._optimizer_state_dict_post_hooks.values():
            found = hook(self, made)
            made = made if found is None else found
        return made

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor,
        value: Tensor,
        param_id: int,
        param_groups: list[dict[Any, Any]],
        key: Any = None,
    ) -> Tensor:
        """Return loaded state in the dtype of its parameter; a step count keeps its own."""
        if key == "step":
            for group in param_groups:
                if param_id in group["params"] and (group.get("fused") or group.get("capturable")):
                    return value.to(float32)
            return value
        return value.to(param.dtype) if param.is_floating_point() else value

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load settings and state, in the parameters' dtypes.

        Args:
            state_dict: made by `state_dict` of an optimizer with as many parameters in each group.

        Raises:
            ValueError: if the numbers of groups, or of their parameters, differ.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            found = hook(self, state_dict)
            state_dict = state_dict if found is None else found
        groups, saved = self.param_groups, copy.deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError(errors.LOADED_GROUPS)
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
            raise ValueError(errors.LOADED_PARAMS)
        params = dict(
            zip(
                chain.from_iterable(s["params"] for s in saved),
                chain.from_iterable(g["params"] for g in groups),
                strict=True,
            )
        )
        loaded: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                p = params[key]
                loaded[p] = self._cast(p, value, key, state_dict["param_groups"])
            else:
                loaded[key] = value
        for group, new in zip(groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": loaded, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _cast(
        self,
        param: Tensor,
        value: Any,
        position: int,
        groups: list[dict[Any, Any]],
        key: Any = None,
    ) -> Any:
        """Return a copy of loaded state, with its tensors in the dtype of the parameter."""
        if isinstance(value, Tensor):
            return self._process_value_according_to_param_policy(
                param, value, position, groups, key
            )
        if isinstance(value, dict):
            return {k: self._cast(param, v, position, groups, k) for k, v in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            kind: Any = type(value)
            return kind(self._cast(param, v, position, groups) for v in value)
        return value

    # -- parameters ----------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: whether ``grad`` becomes None; otherwise it is filled with zeros.
        """
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p._grad = None
                elif (grad := p.grad) is not None:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()

    def step(self, closure: Closure = None) -> Any:
        """Update the parameters.

        Args:
            closure: computes the loss and its gradients; optional for most optimizers.

        Returns:
            the closure's loss, or None.
        """
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, with settings of its own.

        Args:
            param_group: ``"params"``, and settings; it becomes the group.

        Raises:
            TypeError: for a set of parameters, or one that is no tensor.
            ValueError: for a parameter that is no leaf, or in another group already; names for
                some parameters only; a setting without default that is not given.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(errors.PARAMS_SET)
        given = [given] if isinstance(given, Tensor) else list(given)
        names = [p[0] for p in given if isinstance(p, tuple)]
        params = [p[1] if isinstance(p, tuple) else p for p in given]
        param_group["params"] = params
        if names and len(names) != len(params):
            raise ValueError(errors.PARAM_NAMES)
        if names:
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(errors.param_type(typename(p)))
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError(errors.PARAM_NON_LEAF)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(errors.required_setting(name))
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn(errors.DUPLICATE_PARAMS, stacklevel=3)
        before: set[Any] = set()
        for group in self.param_groups:
            before.update(group["params"])
            if ("param_names" in param_group) != ("param_names" in group):
                raise ValueError(errors.group_names("param_names" in param_group))
        if not before.isdisjoint(params):
            raise ValueError(errors.PARAM_IN_TWO_GROUPS)
        self.param_groups.append(param_group)


def number_tensor(value: float, fused: bool | None = None) -> Tensor:
    """Return a 0-d tensor for a count or coefficient in the state."""
    return torch.tensor(value, dtype=_get_scalar_dtype(fused))


# -- names that other packages import --------------------------------------------------------------

_params_doc = "params: parameters, groups of them, or parameters with names"
_foreach_doc = "foreach (bool, optional): no effect"
_fused_doc = "fused (bool, optional): no effect, but for the dtype of step counts"
_capturable_doc = "capturable (bool, optional): refused by ``step``, as on every CPU"
_differentiable_doc = "differentiable (bool, optional): whether gradients flow through the step"
_maximize_doc = "maximize (bool, optional): whether the objective grows"


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return whether to use the fused and the foreach forms: there are none."""
    return False, False


def _stack_if_compiling(x: object) -> Any:
    """Return the value: nothing is compiled."""
    return x


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., object] | None = None,
) -> Callable[[Any], Any]:
    """Return a decorator that changes nothing."""
    return lambda function: function


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the devices on which a step could be captured."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]
