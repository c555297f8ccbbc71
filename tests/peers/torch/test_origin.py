"""PyTorch's own Python files do their job on the shim's floor: the same event logs, the same
verdicts of gradcheck.

What runs there, and what is stubbed, stands in origin.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.peers.torch import origin
from tests.peers.torch.expressions import EXPRESSIONS
from tests.peers.torch.harness import VERSION, differences, recorded, scripts

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the files are those of torch {VERSION}", allow_module_level=True)

KNOWN: Mapping[str, tuple[int, str]] = {
    "modules_called": (
        2,
        "hooks of nodes are registered by the nodes: their handles are of our class, not of that of hooks.py",
    ),
    "func_graphs": (
        380,
        "the script ends where torch.func.linearize meets PyTorch's own checkpoint.py, whose saved-tensor hooks are refused",
    ),
    "graph_settings": (
        1,
        "what _vmap_internals.py says of a wrong in_dim: it is stubbed by torch.func.vmap, which says -0",
    ),
}
"""By script: how many lines differ, and why."""
SCRIPTS = [script for script in scripts() if not script.stem.startswith("nn_")]
"""Scripts of autograd; those of ``torch.nn`` run on all of its files, in test_originals.py."""


@functools.cache
def answers() -> dict[str, Any]:
    """Return what the parity scripts log on PyTorch's files over the shim, and what was loaded and
    read for that.
    """
    return origin.ask("logs", [script.stem for script in SCRIPTS])


def test_the_files_are_pytorchs() -> None:
    root = Path(torch.__file__).parent
    files = answers()["files"]
    assert sorted(files) == sorted(origin.ORIGINALS)
    for name, file in files.items():
        place = root.joinpath(*name.split(".")[1:])
        assert file in (f"{place}.py", f"{place}/__init__.py"), name
    assert answers()["compiled"] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_log_the_same(script: Path) -> None:
    different = differences(recorded(script), answers()["logs"][script.stem])
    count, because = KNOWN.get(script.stem, (0, ""))
    assert different.count("\n    PyTorch") == count, (
        f"{script.stem}: {because or 'no line differs'}\n{different}"
    )


def test_module_hooks_behave_as_in_pytorch() -> None:
    assert origin.ask("modules") == origin.module(torch)


def test_every_stub_is_needed() -> None:
    assert origin.ask("needless") == []
    assert sorted(set(origin.STUBS) - set(answers()["read"])) == []


@pytest.mark.release
def test_gradcheck_has_the_verdicts_of_pytorch() -> None:
    sample = EXPRESSIONS[::3]
    found = origin.ask("verdicts", sample)
    expected = [origin.verdict(torch, expression) for expression in sample]
    different = [(e, a, b) for e, a, b in zip(sample, expected, found, strict=True) if a != b]
    assert not different, different
    assert found.count("True") > len(sample) // 2


def test_gradcheck_finds_a_wrong_derivative() -> None:
    said = origin.ask("wrong_rule")
    assert all("Jacobian" in sentence and "mismatch" in sentence for sentence in said.values()), (
        said
    )
