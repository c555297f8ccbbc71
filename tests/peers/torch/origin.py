"""PyTorch's own Python files, unmodified, on the floor that `functrace.torch` gives them.

    torch = origin.install()             # in a process of its own, which has not imported the real
    torch

`install` puts a ``torch`` into ``sys.modules``. The files of `ORIGINALS` are executed from an
installed PyTorch, which is found and not imported, under their real names. Every other ``torch.…``
is a facade: its names are those of `functrace.torch` and, where that has none, those of `STUBS`:
what is of the compiled, CUDA, TorchScript or FX side.

    python -m tests.peers.torch.origin list                    # what is stubbed, and why
    python -m tests.peers.torch.origin diff function_basics    # parity scripts there, beside what
    PyTorch logged
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import json
import operator
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from functrace.ops import elementwise as ew
from functrace.torch import func
from functrace.torch.autograd.custom import FunctionBase
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils._python_dispatch import _get_current_dispatch_mode
from functrace.torch.utils.checkpoint_debug import LoggingTensorMode
from functrace.tracing import Tracer
from tests.peers.torch.harness import Log, differences, recorded, run, scripts

ORIGINALS = (
    "torch._tensor",
    "torch.autograd",
    "torch.autograd.anomaly_mode",
    "torch.autograd.forward_ad",
    "torch.autograd.function",
    "torch.autograd.functional",
    "torch.autograd.grad_mode",
    "torch.autograd.gradcheck",
    "torch.autograd.graph",
    "torch.autograd.variable",
    "torch.nn.modules.module",
    "torch.overrides",
    "torch.utils._contextlib",
    "torch.utils._dtype_abbrs",
    "torch.utils._pytree",
    "torch.utils._python_dispatch",
    "torch.utils.checkpoint",
    "torch.utils.hooks",
)
"""The files of PyTorch's that stand in the place of ours."""
HELPERS = (
    "torch._functorch.predispatch",
    "torch._functorch.utils",
    "torch._vendor",
    "torch._vendor.packaging",
    "torch._vendor.packaging._structures",
    "torch._vendor.packaging.version",
    "torch.testing._creation",
    "torch.torch_version",
    "torch.types",
    "torch.utils._exposed_in",
    "torch.version",
)
"""PyTorch's Python modules that they import, and that need nothing of the compiled half."""
FROM_ORIGINALS = {
    "torch.nn": {
        "Module": "torch.nn.modules.module",
        "Buffer": "torch.nn.parameter",
        "Parameter": "torch.nn.parameter",
    },
    "torch.testing": {"make_tensor": "torch.testing._creation"},
    "torch": dict.fromkeys(
        ("enable_grad", "inference_mode", "no_grad", "set_grad_enabled"), "torch.autograd"
    ),
}
"""Names that PyTorch's packages take from these files."""
METHODS = ("backward", "register_hook", "register_post_accumulate_grad_hook")
"""Methods of tensors that are those of PyTorch's ``_tensor.py``, put in the place of ours."""


# -- stubs -----------------------------------------------------------------------------------------


def _off(*_args: object, **_kwargs: object) -> bool:
    return False


def _on() -> bool:
    return True


def _zero() -> int:
    return 0


def _nothing(*_args: object, **_kwargs: object) -> None:
    """Do nothing."""


def _same(value: Any, *_args: object, **_kwargs: object) -> Any:
    return value


def _undecorated(function: Any = None, recursive: bool = True) -> Any:
    return function


def _kind(name: str) -> type:
    return type(name, (), {"__module__": "torch"})


def _no_context(*_args: object, **_kwargs: object) -> AbstractContextManager[None]:
    return nullcontext()


class _Traces:
    """The lines that led to operations, as PyTorch's traces have them."""

    def __init__(self, mode: LoggingTensorMode) -> None:
        self.mode = mode

    def __iter__(self) -> Iterator[list[dict[str, str]]]:
        for lines in self.mode.traces:
            parts = [line.rsplit(":", 2) for line in lines]
            yield [
                {"name": "__torch_dispatch__"},
                *({"filename": f, "line": n, "name": name} for f, n, name in parts),
            ]


@contextmanager
def _capture_logs(*_settings: object, **_options: object) -> Iterator[Any]:
    mode = _get_current_dispatch_mode()
    yield mode.logs, _Traces(mode)


class _Word:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


def _with_lists_of_its_own(function: Any) -> Any:
    """Return a function that appends to copies of the lists that it closes over: our vmap runs it
    again for a graph.
    """
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    cells = tuple([CellType(list(value) if isinstance(value, list) else value) for value in held])
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )


def _vmap(
    function: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Any:
    runs = iter([function])

    def plain(*args: Any) -> Any:
        before, MODES.functional = MODES.functional, False  # this is no transform of torch.func
        try:
            return next(runs, again)(*args)
        finally:
            MODES.functional = before

    again = _with_lists_of_its_own(function)

    plain.__name__ = function.__name__
    return func.vmap(plain, in_dims, out_dims)


def _apply(function: type[FunctionBase], *args: Any, **kwargs: Any) -> Any:
    return FunctionBase.apply.__func__(function, *args, **kwargs)


PROFILER = (
    "_KinetoEvent", "_ProfilerResult", "_add_metadata_json", "_disable_profiler",
    "_disable_profiler_legacy",
    "_enable_profiler", "_enable_profiler_legacy", "_enable_record_function", "_is_kineto_stopped",
    "_kineto_step",
    "_prepare_profiler", "_profiler_enabled", "_record_function_with_args_enter",
    "_record_function_with_args_exit",
    "_set_empty_test_observer", "_supported_activities", "_toggle_collection_dynamic",
    "DeviceType", "ProfilerEvent",
    "kineto_available",
)  # fmt: skip

DISPATCH_KEY = enum.Enum("DispatchKey", "ADInplaceOrView PreDispatch")
INTERPRETERS = (
    "_add_batch_dim", "_jvp_decrement_nesting", "_jvp_increment_nesting", "_remove_batch_dim",
    "_unwrap_for_grad",
    "_vmap_decrement_nesting", "_vmap_increment_nesting",
)  # fmt: skip

STUBBED: dict[str, dict[str, Any]] = {
    "the compiler, and graphs that are traced for it": {
        "torch._C._dynamo.guards.set_is_in_mode_without_ignore_compile_internals": _nothing,
        "torch._higher_order_ops.wrap._resolve_inductor_callable": _nothing,
        "torch._higher_order_ops.wrap.inductor_compiled_code": _kind("inductor_compiled_code"),
        "torch._subclasses.functional_tensor.FunctionalTensorMode": _kind("FunctionalTensorMode"),
        "torch._subclasses.schema_check_mode.SchemaCheckMode": _kind("SchemaCheckMode"),
        "torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode": _kind(
            "ProxyTorchDispatchMode"
        ),
        "torch._subclasses.functional_tensor.FunctionalTensor": type(
            "FunctionalTensor", (), {"metadata_fns": ()}
        ),
        "torch.compiler._is_non_strict_tracing": _off,
        "torch._export.utils._maybe_find_pre_dispatch_tf_mode_for_export": _nothing,
    },
    "CUDA": {
        "torch._C._set_override_stale_capture_stream": _nothing,
        "torch._C._set_warn_on_accumulate_grad_stream_mismatch": _nothing,
        "torch.cuda": ModuleType("torch.cuda"),
    },
    "other devices, and autocasting for them": {
        "torch.cpu": ModuleType("torch.cpu"),
        "torch.utils._device.DeviceContext": _kind("DeviceContext"),
    },
    "tracebacks of the C++ side: here those of our own log of operations": {
        "torch.testing._internal.logging_tensor.LoggingTensorMode": LoggingTensorMode,
        "torch.testing._internal.logging_tensor.capture_logs": _capture_logs,
    },
    "the profiler": {
        **{f"torch._C._autograd.{name}": _nothing for name in PROFILER},
        **{
            f"torch._C._profiler.{name}": _nothing
            for name in ("ProfilerActivity", "ProfilerConfig", "ProfilerState")
        },
        "torch.autograd.profiler": ModuleType("torch.autograd.profiler"),
    },
    "what PyTorch's C++ side does when it is loaded": {
        "torch._C._autograd_init": _on,
    },
    "the stack of interpreters of torch.func: here functrace's transforms are what a Function is applied in": {
        **{f"torch._C._functorch.{name}": _nothing for name in INTERPRETERS},
        "torch._C._functorch.get_single_level_autograd_function_allowed": _off,
        "torch._C._functorch.set_single_level_autograd_function_allowed": _nothing,
        "torch._C._functorch.unwrap_if_dead": _same,
        "torch._functorch.autograd_function.custom_function_call": _apply,
    },
    "threads of the C++ engine": {
        "torch._C._remove_obj_from_tls": _nothing,
        "torch._C._stash_obj_in_tls": _nothing,
    },
    "FX": {
        "torch.fx.traceback": ModuleType("torch.fx.traceback"),
    },
    "TorchScript": {
        "torch._decomp.decompositions_for_jvp": None,
    },
    "functions overridden by subclasses of Tensor (__torch_function__, __torch_dispatch__)": {
        "torch._C._disabled_torch_dispatch_impl": _same,
        "torch._C._get_function_stack_at": _nothing,
        "torch._C._has_torch_function": _off,
        "torch._C._has_torch_function_unary": _off,
        "torch._C._has_torch_function_variadic": _off,
        "torch._C._is_torch_function_mode_enabled": _off,
        "torch._C._len_torch_function_stack": _off,
        "torch._C._pop_torch_function_stack": _nothing,
        "torch._C._push_on_torch_function_stack": _nothing,
    },
    "sizes that are symbols": {
        "torch.fx.experimental.symbolic_shapes.expect_true": _same,
        "torch.fx.experimental.symbolic_shapes.sym_eq": operator.eq,
    },
    "sparse, quantized and nested tensors": {
        "torch._mkldnn": _Word("_mkldnn"),
        "torch.nested._internal.nested_tensor.NestedTensor": _kind("NestedTensor"),
    },
    "exchange of tensors with other libraries in C": {
        "torch._C._dlpack_exchange_api": _nothing,
    },
    "the dispatcher of the C++ side": {
        "torch.DispatchKey": DISPATCH_KEY,
        "torch._C.DispatchKey": DISPATCH_KEY,
        "torch._C._SetExcludeDispatchKeyGuard": _no_context,
        "torch._C._TorchDispatchModeKey": enum.Enum(
            "_TorchDispatchModeKey", "FAKE FUNCTIONAL PROXY"
        ),
        "torch._C._get_dispatch_mode": _nothing,
        "torch._ops._len_torch_dispatch_stack_pre_dispatch": _zero,
        "torch._ops._pop_mode_from_pre_dispatch": _nothing,
        "torch.qscheme": _kind("qscheme"),
    },
}
"""Stand-ins for names that the shim does not provide, by reason."""


class Stub(NamedTuple):
    """The stand-in of a name, and the reason that the shim has none."""

    value: Any
    because: str


STUBS = {
    name: Stub(value, because)
    for because, names in STUBBED.items()
    for name, value in names.items()
}
"""By full name."""
READ: set[str] = set()
"""The stubs that were read."""


# -- modules ---------------------------------------------------------------------------------------


def shim(name: str) -> ModuleType | None:
    """Return the module of the shim's that has the name of a module of PyTorch's."""
    try:
        return importlib.import_module(f"functrace.{name}")
    except ModuleNotFoundError as error:
        if error.name is not None and f"functrace.{name}".startswith(error.name):
            return None
        raise


def is_module(name: str) -> bool:
    """Return whether a name is one of an original file, of a module of the shim's, or of what holds
    such or stubs.
    """
    if name in STUBS:
        return isinstance(STUBS[name].value, ModuleType)
    known = (*ORIGINALS, *HELPERS, *STUBS)
    return name in known or any(k.startswith(f"{name}.") for k in known) or shim(name) is not None


class Facade(ModuleType):
    """A module of PyTorch's with the names of the shim's, and with stubs."""

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if name.startswith("__"):
            raise AttributeError(name)
        source = FROM_ORIGINALS.get(self.__name__, {}).get(name)
        if source is not None:
            return getattr(importlib.import_module(source), name)
        module = shim(self.__name__)
        value = getattr(module, name, None)
        if (value is None or isinstance(value, ModuleType)) and is_module(full):
            return importlib.import_module(full)
        if hasattr(module, name):
            return value
        if full in STUBS:
            READ.add(full)
            return STUBS[full].value
        raise AttributeError(f"neither the shim nor the stubs have {full}", name=name, obj=self)


class Finder(MetaPathFinder, Loader):
    """Finds ``torch`` and all below it.

    Args:
        root: the directory of the installed PyTorch.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return where a module comes from."""
        if fullname.partition(".")[0] != "torch":
            return None
        if fullname in ORIGINALS or fullname in HELPERS:
            file = self.root.joinpath(*fullname.split(".")[1:])
            places = [str(file)] if file.is_dir() else None
            file = file / "__init__.py" if places else file.with_suffix(".py")
            return importlib.util.spec_from_file_location(
                fullname, file, submodule_search_locations=places
            )
        if fullname == "torch" or is_module(fullname):
            return ModuleSpec(fullname, self, is_package=True)
        raise ModuleNotFoundError(f"neither the shim nor the stubs have {fullname}", name=fullname)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a facade, or the module that stands for one."""
        if spec.name in STUBS:
            READ.add(spec.name)
            return STUBS[spec.name].value
        return Facade(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a facade looks names up on attribute access."""


def install() -> ModuleType:
    """Return a ``torch`` made of PyTorch's files over the shim, which is ``torch`` in this process
    from now on.
    """
    assert "torch" not in sys.modules, "a torch is imported already"
    spec = PathFinder.find_spec("torch")
    assert spec is not None and spec.submodule_search_locations, (
        "there is no PyTorch to take files from"
    )
    sys.meta_path.insert(0, Finder(Path(spec.submodule_search_locations[0])))
    older: Any = shim("torch._vmap_internals")
    older._vmap = older.vmap = _vmap  # for functions that append to lists of their own
    torch = importlib.import_module("torch")
    for name in ORIGINALS:
        importlib.import_module(name)
    for name in METHODS:
        setattr(
            Tensor, name, _of_plain_tensors(vars(torch._tensor.Tensor)[name], vars(Tensor)[name])
        )
    return torch


def _of_plain_tensors(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyTorch's method; among traced values ours, since there a transform takes the place of
    the graph.
    """

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return (ours if isinstance(self._array, Tracer) else theirs)(self, *args, **kwargs)

    return method


# -- entry points for a separate process -----------------------------------------------------------


def logs(names: Sequence[str]) -> dict[str, Any]:
    """Return what parity scripts log, with a last line that says why one stopped; and what was
    loaded and read for them.
    """
    torch = install()
    found = {}
    for script in scripts(names):
        log = Log(torch)
        try:
            run(script, torch, log)
        except Exception as error:
            log(f"stopped: {type(error).__name__}: {error}")
        found[script.stem] = log.lines
    files = {name: getattr(sys.modules[name], "__file__", None) for name in ORIGINALS}
    compiled = [
        name
        for name in sys.modules
        if name.partition(".")[0] == "torch" and _is_compiled(sys.modules[name])
    ]
    return {"logs": found, "files": files, "compiled": compiled, "read": sorted(READ)}


def _is_compiled(module: ModuleType) -> bool:
    return not (getattr(module, "__file__", None) or "x.py").endswith(".py")


def needless() -> list[str]:
    """Return the stubs of names that the shim has."""
    install()
    return [
        name
        for name in STUBS
        if not is_module(name) and hasattr(shim(name.rpartition(".")[0]), name.rpartition(".")[2])
    ]


def verdicts(expressions: Sequence[str]) -> list[str]:
    """Return what PyTorch's ``gradcheck`` says of expressions: True, or the exception."""
    torch = install()
    return [verdict(torch, expression) for expression in expressions]


def verdict(torch: ModuleType, expression: str) -> str:
    """Return what a library's ``gradcheck`` says of one expression of the tensors m, v, p, z and t."""
    rng = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {"m": (2, 3), "v": (3,), "p": (2,), "z": (), "t": (4,)}
    tensors = {
        name: torch.from_numpy(rng.uniform(0.6, 0.9, n)).requires_grad_()
        for name, n in shapes.items()
    }
    others = {"i": torch.tensor([1, 0]), "ij": torch.tensor([[1, 2]])}
    code = compile(expression, "<expression>", "eval")

    def function(*given: Any) -> Any:
        return eval(code, {"torch": torch, **others, **dict(zip(tensors, given, strict=True))})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(
                torch.autograd.gradcheck(function, tuple(tensors.values()), check_batched_grad=True)
            )
        except Exception as error:
            return f"{type(error).__name__}: {error}".partition("\n")[0]


def wrong_rule() -> dict[str, str]:
    """Return what PyTorch's ``gradcheck`` says of an operation of the shim's with the derivative of
    another function.
    """
    torch = install()
    wrong = Op("SinBackward0", ew.sin, (("self", 0),), derived=ew.sinh)
    x = torch.tensor([0.3, 1.2], dtype=torch.float64, requires_grad=True)
    said = {}
    for label, settings in {
        "slow": {},
        "fast": {"fast_mode": True},
        "batched": {"check_batched_grad": True},
    }.items():
        try:
            said[label] = str(
                torch.autograd.gradcheck(lambda y: apply(wrong, (y,)), (x,), **settings)
            )
        except Exception as error:
            said[label] = f"{type(error).__name__}: {error}"
    return said


def modules() -> list[Any]:
    """Return what a module of PyTorch's ``nn.Module`` computes, and what its hooks see."""
    return module(install())


def module(torch: ModuleType) -> list[Any]:
    """Return what a module with hooks of every kind computes on a library, itself and by
    ``functional_call``.
    """
    seen: list[Any] = []

    def shown(values: Any) -> Any:
        if isinstance(values, tuple | list):
            return [shown(value) for value in values]
        return values.tolist() if isinstance(values, torch.Tensor) else values

    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
            self.register_buffer("offset", torch.ones(2))

        def forward(self, x: Any) -> Any:
            return self.weight * x + self.offset

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Scale()

        def forward(self, x: Any, power: int = 1) -> Any:
            return self.inner(x) ** power, x * 2

    net = Net()
    x = torch.tensor([0.5, -1.0], requires_grad=True)
    net.register_forward_pre_hook(lambda _, args: seen.append(["before", shown(args)]))
    net.inner.register_forward_hook(lambda _, args, result: result * 10)
    net.register_full_backward_pre_hook(lambda _, grads: tuple(g * 3 for g in grads))
    handle = net.inner.register_full_backward_hook(
        lambda _, before, after: seen.append([shown(before), shown(after)])
    )
    net.register_full_backward_hook(lambda _, before, after: tuple(g + 1 for g in before))
    others = {"inner.weight": torch.tensor([1.0, -1.0]), "inner.offset": torch.zeros(2)}
    for call in (net, lambda x: torch.func.functional_call(net, others, (x,), {"power": 2})):
        found = call(x)
        (found[0].sum() + found[1].sum()).backward()
        seen.append([shown(found), shown(x.grad), shown(net.inner.weight.grad)])
    handle.remove()
    stacked, buffers = torch.func.stack_module_state([net.inner, Scale()])
    seen.append(
        [
            [name, shown(value), value.requires_grad]
            for name, value in (*stacked.items(), *buffers.items())
        ]
    )
    plain = Scale()
    ensemble = torch.func.vmap(lambda p, b: torch.func.functional_call(plain, (p, b), x.detach()))(
        stacked, buffers
    )
    seen.append(shown(ensemble))
    seen.append(sorted(net.state_dict()))
    return seen


JOBS: dict[str, Callable[..., Any]] = {
    job.__name__: job for job in (logs, modules, needless, verdicts, wrong_rule)
}


def ask(job: str, *arguments: Any) -> Any:
    """Return what a job returns, done in a process of its own."""
    command = [sys.executable, "-m", "tests.peers.torch.origin", "job", job, json.dumps(arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False
    )
    assert not done.returncode, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: Sequence[str]) -> None:
    """Run the command line: ``list``, ``diff`` and names of scripts, or ``job``, its name and its
    arguments.
    """
    command, *rest = arguments
    if command == "list":
        for because, names in STUBBED.items():
            print(f"{because}:\n    " + "\n    ".join(names))
    elif command == "diff":
        found = logs(rest)["logs"]
        for script in scripts(rest):
            lines = found[script.stem]
            print(
                f"== {script.stem}\n{differences(recorded(script), lines) or f'{len(lines)} lines, all the same'}"
            )
    else:
        print(json.dumps(JOBS[rest[0]](*json.loads(rest[1]))))


if __name__ == "__main__":
    main(sys.argv[1:])
