"""``torch.utils.module_tracker``: names of the modules whose forward or backward runs.

Layer: 9.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

from functrace.torch._C import _current_graph_task_id
from functrace.torch.autograd.graph import register_multi_grad_hook
from functrace.torch.autograd.handles import RemovableHandle
from functrace.torch.autograd.variable import Variable
from functrace.torch.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]

_LOG = logging.getLogger(__name__)
_ALL = "Global"


class ModuleTracker:
    """Context that knows which modules run: ``parents`` has their names, as far as the outermost
    module, and ``"Global"``.

    A module's backward runs from the gradients of its outputs to those of its inputs.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.utils.module_tracker import ModuleTracker
        >>> class Show(torch.nn.Module):
        ...     def forward(self, x):
        ...         print(sorted(tracker.parents))
        ...         return x
        >>> with ModuleTracker() as tracker:
        ...     _ = torch.nn.Sequential(Show())(torch.ones(1))
        ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {_ALL}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._named: weakref.WeakSet[Module] = weakref.WeakSet()
        self._will_end = False
        self._handles: list[RemovableHandle] = []
        self._hooks: list[RemovableHandle] = []

    @property
    def is_bw(self) -> bool:
        """True in a backward pass."""
        return _current_graph_task_id() != -1

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *_exception: object) -> None:
        for handle in (*self._handles, *self._hooks):
            handle.remove()
        self._handles, self._hooks = [], []

    def _name(self, module: Module) -> str:
        """Return a module's name; name its inner modules."""
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._named:
            for part, inner in module.named_children():
                self._names[inner] = f"{name}.{part}"
                self._name(inner)
            self._named.add(module)
        return name

    def _before(self, module: Module, args: object) -> None:
        name = self._name(module)
        self._enter(name)
        self._watch(args, lambda *_: self._leave(name))

    def _after(self, module: Module, args: object, output: object) -> None:
        name = self._name(module)
        self._leave(name)
        self._watch(output, lambda *_: self._enter(name))

    def _watch(self, values: object, call: Callable[..., None]) -> None:
        """Call a function when the gradients of the tensors among some values are there."""
        tensors: list[Any] = [
            x for x in tree_leaves(values) if isinstance(x, Tensor) and x.requires_grad
        ]
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, call))

    def _enter(self, name: str) -> None:
        if self.is_bw and not self._will_end:
            engine: Any = Variable._execution_engine
            engine.queue_callback(self._end_pass)
            self._will_end = True
        if name in self.parents:
            _LOG.info("%s is entered, although it runs already", name)
        self.parents.add(name)

    def _leave(self, name: str) -> None:
        if name not in self.parents:
            _LOG.info("%s is left, although it does not run", name)
        self.parents.discard(name)

    def _end_pass(self) -> None:
        """Forget the modules at the end of a backward pass."""
        self.parents, self._will_end = {_ALL}, False
