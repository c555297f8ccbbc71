"""Every parity script logs the same lines on the real PyTorch and on `functrace.torch`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.peers.torch.harness import VERSION, differences, recorded, run, scripts

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_shim_logs_equal_pytorchs(script: Path) -> None:
    expected = run(script, torch)
    different = differences(expected, run(script, importlib.import_module("functrace.torch")))
    assert not different, f"{script.name}\n{different}"


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_recorded_lines_are_those_of_pytorch(script: Path) -> None:
    different = differences(run(script, torch), recorded(script))
    assert not different, (
        f"run `python -m tests.peers.torch.harness record {script.stem}`\n{different}"
    )
