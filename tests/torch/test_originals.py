"""`originals.use`: which packages come from PyTorch's files, and what it refuses.

A made-up PyTorch of a few files takes the place of the installed one; each program runs in a process
of its own. What PyTorch's own files compute: tests/peers/torch/test_originals.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from functrace.torch import originals

ROOT = Path(__file__).parents[2]
FILES = {
    "__init__.py": "raise AssertionError('PyTorch itself is imported')",
    "version.py": "__version__ = '2.13.1+cpu'\ndebug = False",
    "optim/__init__.py": (
        "import torch\nfrom torch.optim.sgd import SGD\n"
        "class Optimizer: pass\nassert torch.optim.sgd.SGD is SGD"
    ),
    "optim/sgd.py": (
        "import torch\nfrom torch import Tensor\nfrom torch.nn import Parameter\n"
        "class SGD:\n    tensor, parameter = Tensor, Parameter"
    ),
    "nn/__init__.py": "from torch.nn.modules import Module\nfrom torch.nn.parameter import Parameter",
    "nn/modules.py": "import torch\nimport torch.nn.functional as F\nclass Module: relu = F.relu",
    "nn/parameter.py": "import torch\nclass Parameter(torch.Tensor): pass",
    "nn/functional.py": "import torch\nrelu = torch.relu\ndefault = torch.bfloat16",
    "distributions/__init__.py": "from torch._C import _no_such_kernel",
    "utils/data/__init__.py": "import torch\ntorch._no_such_function",
}
"""Files of the made-up PyTorch."""


@pytest.fixture
def pytorch(tmp_path: Path) -> Path:
    """The directory with the made-up PyTorch."""
    for name, text in FILES.items():
        file = tmp_path / "torch" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return tmp_path


def run(program: str, place: Path | None) -> str:
    """Return the output of a program, or the last line of its exception.

    Args:
        program: the program.
        place: the directory of the PyTorch that it finds; None if it finds none.
    """
    start = "import sys, types\nimport functrace.torch\nfrom functrace.torch import originals\n"
    if place is None:
        start += "originals.PathFinder = types.SimpleNamespace(find_spec=lambda name: None)\n"
    else:
        start += f"sys.path.insert(0, {str(place)!r})\n"
    command = [sys.executable, "-c", start + program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout if not done.returncode else done.stderr


def test_a_package_is_loaded_from_the_files(pytorch: Path) -> None:
    program = """
with originals.use("torch.optim") as torch:
    import torch as named
    assert torch is named is functrace.torch
    print(torch.optim.__file__, torch.optim.SGD.__module__)
    print(torch.optim.SGD.tensor is functrace.torch.Tensor, torch.optim.SGD.parameter.__module__)
    import torch.optim.lr_scheduler
"""
    found = run(program, pytorch)
    assert found.strip().endswith("No module named 'torch.optim.lr_scheduler'")
    found = run(program.replace("    import torch.optim.lr_scheduler\n", ""), pytorch)
    assert found.splitlines() == [
        f"{pytorch}/torch/optim/__init__.py torch.optim.sgd", "True functrace.torch.nn.parameter",
    ]  # fmt: skip


def test_nn_comes_with_optim(pytorch: Path) -> None:
    program = """
with originals.use("torch.nn") as torch:
    print(torch.nn.Module.__module__, torch.optim.SGD.parameter.__module__)
    print(torch.nn.Module.relu(torch.tensor([-1.0, 2.0])).tolist())
    print(torch.backends.mha.get_fastpath_enabled())
"""
    lines = run(program, pytorch).splitlines()
    assert lines == ["torch.nn.modules torch.nn.parameter", "[0.0, 2.0]", "False"]


def test_a_context_ends(pytorch: Path) -> None:
    program = """
own = functrace.torch.nn, functrace.torch.optim
with originals.use("torch.nn"), originals.use("torch.optim"):
    assert functrace.torch.optim is not own[1]
assert (functrace.torch.nn, functrace.torch.optim) == own
assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
assert functrace.torch.backends.mha.get_fastpath_enabled()
outer = originals.use("torch.optim")
with originals.use("torch.optim"):
    pass
assert functrace.torch.optim is not own[1]
outer.__exit__()
assert functrace.torch.optim is own[1]
assert functrace.torch.optim.SGD.__module__ == "functrace.torch.optim.sgd"
print("done")
"""
    assert run(program, pytorch) == "done\n"


def test_other_packages_are_those_of_functrace(pytorch: Path) -> None:
    program = """
with originals.use("torch.optim"):
    import torch.nn.functional, torch.utils.data
    print(torch.nn.functional.__name__, torch.utils.data.__name__)
"""
    assert run(program, pytorch) == "functrace.torch.nn.functional functrace.torch.utils.data\n"


@pytest.mark.parametrize(
    ("package", "importer", "missing"),
    [
        ("torch.distributions", "torch.distributions", "torch._C._no_such_kernel"),
        ("torch.utils.data", "torch.utils.data", "torch._no_such_function"),
    ],
)
def test_a_missing_name_is_named(pytorch: Path, package: str, importer: str, missing: str) -> None:
    program = f"""
try:
    originals.use({package!r})
except originals.OriginalsError as error:
    print(error.what, error.fix, sep="\\n")
assert functrace.torch.utils.data.__name__ == "functrace.torch.utils.data"
assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
"""
    assert run(program, pytorch).splitlines() == [
        f"PyTorch's {importer} needs {missing}, which functrace.torch does not have",
        f"use functrace.torch's own {package}: leave it out of originals.use()",
    ]


@pytest.mark.parametrize(
    "start",
    [
        "functrace.torch.stand_in(); import torch.optim",
        "user = sys.modules['user'] = types.ModuleType('user'); user.SGD = functrace.torch.optim.SGD",
    ],
)
def test_packages_are_not_mixed(pytorch: Path, start: str) -> None:
    found = run(f"{start}\noriginals.use('torch.optim')", pytorch)
    assert "functrace.torch's own torch.optim is in use already by" in found
    assert "call functrace.torch.originals.use() before" in found


def test_another_version_is_refused(pytorch: Path) -> None:
    (pytorch / "torch" / "version.py").write_text("__version__ = '2.12.0'")
    found = run("originals.use('torch.optim')", pytorch)
    assert "the installed PyTorch is 2.12.0: functrace.torch has the compiled side of 2.13" in found


def test_no_pytorch_is_refused() -> None:
    found = run("originals.use('torch.optim')", None)
    assert "OriginalsError: no PyTorch is installed" in found


@pytest.mark.parametrize("packages", [(), ("torch.autograd",), ("torch.nn", "optim")])
def test_other_names_are_refused(packages: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="cannot be loaded from PyTorch's files"):
        originals.use(*packages)
