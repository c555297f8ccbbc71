"""`LazyModuleMixin`: layers whose parameters get a shape at the first call.

Layer: 9.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.nn.parameter import is_lazy


class LazyModuleMixin:
    """The part of a lazy layer that gives its parameters a shape at the first call.

    A layer inherits it first, and defines ``initialize_parameters``; after the first call its
    class is ``cls_to_become``.
    """

    cls_to_become: ClassVar[type[Any] | None] = None

    def __init__(self: Any, *args: object, **kwargs: object) -> None:
        """Make the layer, and the hooks that serve its first call."""
        super().__init__(*args, **kwargs)  # pyright: ignore[reportCallIssue]
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._saved().items():
            kept = tensor if is_lazy(tensor) or keep_vars else tensor.detach()
            destination[prefix + name] = kept

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *unused: object) -> None:
        """Give parameters the shapes of those that are loaded, if these have one."""
        for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if tensor is not None and is_lazy(tensor) and given is not None and not is_lazy(given):
                with no_grad():
                    tensor.materialize(given.shape)

    def initialize_parameters(self: object, *args: object, **kwargs: object) -> None:
        """Give the parameters the shapes that an input needs; defined by a subclass."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Return True if a parameter or buffer has no shape yet."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self: object) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )
