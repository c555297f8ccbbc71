"""The hooks of modules: those of one module, those of all, and a call with hooks.

Layer: 9.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from functrace.torch.autograd.handles import RemovableHandle
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils.hooks import BackwardHook

Hook: TypeAlias = Callable[..., Any]
Hooks: TypeAlias = "OrderedDict[int, Any]"


class OfAll(NamedTuple):
    """The hooks of all modules, which `module` has as variables.

    Args:
        forward: hooks after forward.
        forward_pre: hooks before forward.
        backward: hooks of the backward pass.
        backward_pre: hooks before it.
        with_kwargs: numbers of forward hooks that take keywords.
        always_called: numbers of forward hooks that run after an exception, too.
        is_full: True for full backward hooks, False for those of the older kind.
    """

    forward: Hooks
    forward_pre: Hooks
    backward: Hooks
    backward_pre: Hooks
    with_kwargs: Hooks
    always_called: Hooks
    is_full: bool | None


MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use "
    "only one of them."
)
MIXED_GLOBAL = MIXED.replace("on a single Module", "as a global Module hook")


def add(hooks: Hooks, hook: Hook, *, prepend: bool = False, **flags: Hooks | None) -> Any:
    """Register a hook; returns its handle.

    Args:
        hooks: the dict of hooks.
        hook: the hook.
        prepend: True to call it before those that are there.
        flags: further dicts, in which the hook is marked; None for those in which it is not.
    """
    marks = [mark for mark in flags.values() if mark is not None]
    handle = RemovableHandle(hooks, extra_dict=marks)
    hooks[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def replaced(hooks: Hooks, owner: object, name: str, value: Any) -> Any:
    """Return what is registered after the hooks of all modules have seen it."""
    for hook in hooks.values():
        found = hook(owner, name, value)
        if found is not None:
            value = found
    return value


class _Call:
    """One call of a module that has hooks."""

    def __init__(self, module: Any, of_all: OfAll) -> None:
        self.module = module
        self.of_all = of_all
        self.ran: set[int] = set()
        self.result: Any = None

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run hooks, forward, hooks."""
        try:
            return self._run(args, kwargs)
        except Exception:
            self._after_error(args, kwargs)
            raise

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module, of_all = self.module, self.of_all
        pre = [*of_all.backward_pre.values(), *module._backward_pre_hooks.values()]
        full = list(of_all.backward.values()) if of_all.is_full is True else []
        older = list(of_all.backward.values()) if of_all.is_full is False else []
        (full if module._is_full_backward_hook is True else older).extend(
            module._backward_hooks.values()
        )
        args, kwargs = self._before(args, kwargs)
        around = BackwardHook(module, full, pre) if full or pre else None
        if around is not None:
            args = around.setup_input_hook(args)
        self.result = module.forward(*args, **kwargs)
        for number, hook, takes_kwargs, always in self._forward_hooks():
            if always:
                self.ran.add(number)
            self._apply(hook, takes_kwargs, args, kwargs)
        if around is not None:
            if not isinstance(self.result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(self.result)}",
                    stacklevel=5,
                )
            self.result = around.setup_output_hook(self.result)
        if older:
            self._hook_last_node(older, args)
        return self.result

    def _before(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments after the hooks that run before forward."""
        module = self.module
        takes_kwargs = module._forward_pre_hooks_with_kwargs
        for number, hook in (*self.of_all.forward_pre.items(), *module._forward_pre_hooks.items()):
            if number in takes_kwargs:
                found = hook(module, args, kwargs)
                if found is None:
                    continue
                if not (isinstance(found, tuple) and len(found) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {found}."
                    )
                args, kwargs = found
            else:
                found = hook(module, args)
                if found is not None:
                    args = found if isinstance(found, tuple) else (found,)
        return args, kwargs

    def _forward_hooks(self) -> Iterator[tuple[int, Hook, bool, bool]]:
        own, of_all = self.module, self.of_all
        for number, hook in list(of_all.forward.items()):
            yield number, hook, number in of_all.with_kwargs, number in of_all.always_called
        always = own._forward_hooks_always_called
        for number, hook in list(own._forward_hooks.items()):
            yield number, hook, number in own._forward_hooks_with_kwargs, number in always

    def _apply(self, hook: Hook, takes_kwargs: bool, args: object, kwargs: object) -> None:
        given = (args, kwargs, self.result) if takes_kwargs else (args, self.result)
        found = hook(self.module, *given)
        if found is not None:
            self.result = found

    def _after_error(self, args: object, kwargs: object) -> None:
        """Call the hooks that are always called; their own exceptions become warnings."""
        for number, hook, takes_kwargs, always in self._forward_hooks():
            if not always or number in self.ran:
                continue
            try:
                self._apply(hook, takes_kwargs, args, kwargs)
            except Exception as error:
                scope = "global module" if number in self.of_all.forward else "module"
                warnings.warn(
                    f"{scope} forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=5,
                )

    def _hook_last_node(self, hooks: Iterable[Hook], args: object) -> None:
        """Register hooks of the older kind on the node of the first output."""
        first: Any = self.result
        while not isinstance(first, Tensor):
            first = (
                next(v for v in first.values() if isinstance(v, Tensor))
                if isinstance(first, dict)
                else first[0]
            )
        if first.grad_fn is not None:
            for hook in hooks:
                first.grad_fn.register_hook(functools.partial(hook, self.module))
            self._warn_of_missing_gradients(args, first.grad_fn)

    def _warn_of_missing_gradients(self, args: Any, node: Any) -> None:
        """Warn that hooks of the older kind see the gradients of one node only."""
        results = self.result if isinstance(self.result, tuple) else (self.result,)
        documented = "Please use register_full_backward_hook to get the documented behavior."
        if not all(isinstance(x, Tensor) for x in results):
            reason, part = (
                "on a Module that does not return a single Tensor or a tuple of Tensors",
                "of the grad_output",
            )
        elif not all(isinstance(x, Tensor) for x in args):
            reason, part = (
                "on a Module that does not take as input a single Tensor or a tuple of Tensors",
                "of the grad_input",
            )
        elif len({x.grad_fn for x in results if x.grad_fn is not None}) > 1:
            reason, part = "when outputs are generated by different autograd Nodes", "grad_output"
        else:
            before = {edge[0] for edge in node.next_functions}
            if {x.grad_fn for x in args if x.grad_fn is not None} == before:
                return
            reason, part = "when the forward contains multiple autograd Nodes", "grad_input"
        hook = "non-full backward hooks" if part.startswith("of") else "a non-full backward hook"
        warnings.warn(
            f"Using {hook} {reason} is deprecated and will be removed in future versions. This "
            f"hook will be missing some {part}. {documented}",
            FutureWarning,
            stacklevel=6,
        )


def call_with_hooks(
    module: object, args: tuple[Any, ...], kwargs: dict[str, Any], of_all: OfAll
) -> Any:
    """Run forward with the hooks of a module, and those of all modules.

    Args:
        module: the module.
        args: its arguments.
        kwargs: its keyword arguments.
        of_all: the hooks of all modules.
    """
    return _Call(module, of_all).run(args, kwargs)
