"""Every parity script logs on `functrace.torch` the lines recorded from PyTorch, which need not be
installed for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import functrace.torch
from tests.peers.torch.harness import differences, recorded, run, scripts


@pytest.mark.sampled(10)
@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_shim_logs_equal_the_recorded_ones(script: Path) -> None:
    different = differences(recorded(script), run(script, functrace.torch))
    assert not different, f"{script.name}\n{different}"
