"""What ``import functrace.torch`` does not do until somebody needs it."""

from __future__ import annotations

import gc
import inspect
import json
import subprocess
import sys

import functrace.torch as torch
from functrace.torch.autograd.graph import NODE_CLASSES
from functrace.torch.dispatch.rows import FUNCTIONAL, LINALG, TORCH
from functrace.torch.dispatch.signatures import LateSignature, parameter_names
from functrace.torch.dispatch.surface import ENTRIES

LATE = {
    "optree", "scipy", "numpy.random", "pathlib", "tempfile", "random", "difflib", "hashlib",
    "functrace.torch.nn.modules.module", "functrace.torch.nn.modules.linear",
    "functrace.torch.optim", "functrace.torch.optim.sgd", "functrace.torch.utils.data",
    "functrace.torch.utils.checkpoint", "functrace.torch.autograd.functional",
    "functrace.torch.distributions", "functrace.torch.serialization", "functrace.torch.check",
}  # fmt: skip


def loaded(program: str) -> set[str]:
    """Return the modules that a program has loaded, in another process."""
    code = f"import json, sys\n{program}\nprint(json.dumps(list(sys.modules)))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(made.stdout))


def test_modules_that_few_programs_use_are_not_imported() -> None:
    assert not LATE & loaded("import functrace.torch")


def test_an_optimizer_does_not_import_the_others() -> None:
    found = loaded("import functrace.torch as torch\ntorch.optim.SGD")
    assert "functrace.torch.optim.sgd" in found
    others = {"functrace.torch.optim.lbfgs", "functrace.torch.optim.lr_scheduler", "difflib"}
    assert not others & found


def test_late_modules_are_attributes_and_listed() -> None:
    for module, name in (
        (torch.utils, "checkpoint"),
        (torch.autograd, "functional"),
        (torch.optim, "lbfgs"),
        (torch.optim, "LBFGS"),
        (torch.optim, "lr_scheduler"),
    ):
        assert name in dir(module) and getattr(module, name) is not None


def test_node_classes_are_made_when_a_node_is() -> None:
    program = (
        "import functrace.torch as torch\n"
        "from functrace.torch.autograd.graph import NODE_CLASSES as made\n"
        "assert len(made) < 20, sorted(made)\n"
        "kind = torch._C._functions.SinBackward0\n"
        "assert type(torch.ones(2, requires_grad=True).sin().grad_fn) is kind"
    )
    loaded(program)
    assert type(torch.ones(2, requires_grad=True).cos().grad_fn) is NODE_CLASSES["CosBackward0"]


def test_imports_leave_the_collector_of_garbage_as_it_was() -> None:
    loaded("import gc, functrace.torch\nassert gc.isenabled()")
    loaded("import gc\ngc.disable()\nimport functrace.torch\nassert not gc.isenabled()")
    assert gc.isenabled()


def test_signatures_are_made_at_their_first_use() -> None:
    made = LateSignature(("x", "out"), lambda: inspect.signature(lambda x, out=None: x))
    assert made._made is None and str(made) == "(x, out=None)"
    assert made == inspect.signature(lambda x, out=None: x)
    assert list(made.bind(1).arguments) == ["x"]
    for place in (TORCH, FUNCTIONAL, LINALG):
        for name, (_, function) in ENTRIES[place].items():
            assert set(parameter_names(function)) == set(inspect.signature(function).parameters), (
                name
            )
