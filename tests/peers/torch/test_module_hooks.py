"""PyTorch's own torch/utils/hooks.py, unmodified, stands the hooks of modules around functions on `functrace.torch`.

Its other files run in test_origin.py; this one also needs a Function of ``nn.Module``'s, which is not there.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import warnings
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
FILES = Path(torch.utils.__file__).parent


class BackwardHookFunction(SHIM.autograd.Function):
    """As in torch/nn/modules/_functions.py: tensors as they are, behind a node of their own."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        return args


class Beside:
    """The shim's module of a name, with parts beside it."""

    def __init__(self, module: Any, parts: dict[str, Any]) -> None:
        self._module = module
        inner: dict[str, dict[str, Any]] = {}
        for path, part in parts.items():
            name, _, rest = path.partition(".")
            if rest:
                inner.setdefault(name, {})[rest] = part
            else:
                setattr(self, name, part)
        for name, rests in inner.items():
            setattr(self, name, Beside(getattr(module, name, None), rests))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)


def theirs(name: str) -> ModuleType:
    """Execute one of PyTorch's files on the shim."""
    facade = Beside(SHIM, {"nn.modules._functions.BackwardHookFunction": BackwardHookFunction})
    plain = builtins.__import__

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if name.partition(".")[0] != "torch":
            return plain(name, globals, locals, fromlist, level)
        found: Any = facade
        for part in name.split(".")[1:] if fromlist else ():
            found = getattr(found, part)
        return found

    source = FILES / f"{name}.py"
    module = ModuleType(f"functrace.torch.utils.{name}")
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": imported}
    exec(compile(source.read_text(), str(source), "exec"), module.__dict__)
    return module


def module_hooks(torch: Any, hooks: Any) -> list[Any]:
    """Stand a module's hooks around a function, as ``nn.Module`` does; returns what they saw, and gradients."""
    seen: list[Any] = []

    def shown(grads: Any) -> list[Any]:
        return [None if g is None else g.tolist() for g in grads]

    def after(module: str, grad_input: Any, grad_output: Any) -> Any:
        seen.append((module, shown(grad_input), shown(grad_output)))
        return tuple(None if g is None else g * 2 for g in grad_input)

    def before(module: str, grad_output: Any) -> Any:
        seen.append(("before", shown(grad_output)))
        return tuple(g * 3 for g in grad_output)

    x, y = (torch.tensor(values, requires_grad=True) for values in ([0.5, 1.0], [2.0, 3.0]))
    constant = torch.tensor([1.0, 1.0])
    for pre in ([], [before]):
        x.grad = y.grad = None
        around = hooks.BackwardHook("module", [after], pre)
        a, number, b, c = around.setup_input_hook((x, 3, y, constant))
        made = around.setup_output_hook((a * b * number + c, a + b))
        (made[0].sum() + (made[1] * 2).sum()).backward()
        seen.append(shown([x.grad, y.grad]))
    one = hooks.BackwardHook("one", [after], [])
    one.setup_input_hook((x,))
    made = one.setup_output_hook(x * 2)
    made.sum().backward()
    registered: Any = OrderedDict()
    handle = hooks.RemovableHandle(registered)
    registered[handle.id] = after
    with hooks.RemovableHandle(registered) as other:
        registered[other.id] = before
        seen.append(len(registered))
    handle.remove()
    seen.append(len(registered))
    x.register_hook(lambda g: g)
    hooked = torch.ones(2, requires_grad=True)
    hooked.register_hook(hooks.unserializable_hook(lambda g: g))
    for tensor in (x, hooked):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hooks.warn_if_has_hooks(tensor)
        seen.append([str(w.message).split("<")[0] for w in caught])
    return seen


def test_their_hooks_do_here_what_they_do_there() -> None:
    """Hooks of modules, handles, warnings."""
    assert module_hooks(SHIM, theirs("hooks")) == module_hooks(torch, torch.utils.hooks)
