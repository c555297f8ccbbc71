"""PyTorch's own torch/utils/checkpoint.py and hooks.py, unmodified, on `functrace.torch`: they do what they do on PyTorch.

A file is executed with ``torch`` standing for the shim. What it asks of PyTorch's compilers, of other devices and of
autocasting, which there are not here, is answered by `absent_parts`.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from functrace.torch.utils import checkpoint as ours
from functrace.torch.utils.checkpoint_debug import LoggingTensorMode
from functrace.tree import map_leaves
from tests.peers.torch.harness import VERSION, differences, real_torch, run, scripts

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
FILES = Path(torch.utils.__file__).parent


def unchanged(function: Callable[..., Any], recursive: bool = True) -> Callable[..., Any]:
    """Stand for decorators that keep a compiler out."""
    return function


class Nothing:
    """Stands for a class that nothing here is an instance of."""


class Traces:
    """The lines that led to the operations of a run, as PyTorch's traces have them."""

    def __init__(self, mode: LoggingTensorMode) -> None:
        self._mode = mode

    def __iter__(self) -> Iterator[list[dict[str, str]]]:
        for lines in self._mode.traces:
            parts = [line.rsplit(":", 2) for line in lines]
            yield [{"name": "__torch_dispatch__"}, *({"filename": f, "line": n, "name": name} for f, n, name in parts)]


class BackwardHookFunction(SHIM.autograd.Function):
    """As in torch/nn/modules/_functions.py: tensors as they are, behind a node of their own."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        return args


def absent_parts() -> dict[str, Any]:
    """Return what there is in PyTorch and not in the shim, as it answers on a machine without it."""
    nothing = contextlib.nullcontext

    @contextlib.contextmanager
    def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "") -> Iterator[None]:
        state = SHIM.get_rng_state() if enabled else None
        try:
            yield
        finally:
            if state is not None:
                SHIM.set_rng_state(state)

    @contextlib.contextmanager
    def capture_logs(*settings: Any, **options: Any) -> Iterator[Any]:
        mode = SHIM.utils._python_dispatch._get_current_dispatch_mode()
        yield mode.logs, Traces(mode)

    return {
        "_disable_dynamo": unchanged,
        "_dynamo": SimpleNamespace(disable=unchanged, config=SimpleNamespace(error_on_nested_fx_trace=False)),
        "accelerator": SimpleNamespace(current_accelerator=lambda check: None),
        "amp": SimpleNamespace(is_autocast_available=lambda kind: False, autocast=lambda *kind, **options: nothing()),
        "compiler": SimpleNamespace(_is_non_strict_tracing=lambda: False),
        "cpu": SimpleNamespace(),
        "fx.traceback": SimpleNamespace(),
        "get_autocast_dtype": lambda kind: None,
        "is_autocast_cache_enabled": lambda: False,
        "is_autocast_enabled": lambda kind: False,
        "nn.Sequential": Nothing,
        "nn.modules._functions.BackwardHookFunction": BackwardHookFunction,
        "overrides._get_current_function_mode_stack": list,
        "random.fork_rng": fork_rng,
        "testing._internal.logging_tensor": SimpleNamespace(capture_logs=capture_logs, LoggingTensorMode=LoggingTensorMode),
        "utils._device.DeviceContext": Nothing,
        "utils._pytree.tree_map": map_leaves,
        "_C.DispatchKey": SimpleNamespace(ADInplaceOrView=None),
        "_C._SetExcludeDispatchKeyGuard": lambda key, excluded: nothing(),
        "_C._TorchDispatchModeKey": SimpleNamespace(PROXY=None),
        "_C._get_dispatch_mode": lambda key: None,
        "_higher_order_ops.wrap": SimpleNamespace(_resolve_inductor_callable=None, inductor_compiled_code=object()),
        "_subclasses.functional_tensor.FunctionalTensor": SimpleNamespace(metadata_fns=[]),
    }


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
    facade = Beside(SHIM, absent_parts())
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


@pytest.mark.parametrize("script", [p for p in scripts() if p.stem.startswith("checkpoint_")], ids=lambda p: p.stem)
def test_their_file_does_here_what_it_does_there(script: Path) -> None:
    """Word for word."""
    module = theirs("checkpoint")
    assert module.checkpoint is not ours.checkpoint
    found = run(script, Beside(SHIM, {"utils.checkpoint": module}))  # type: ignore[arg-type]
    assert not differences(run(script, real_torch()), found)


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
