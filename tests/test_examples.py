"""The examples run, on the real data, and their own checks pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_example_succeeds(example: str) -> None:
    pytest.importorskip("sklearn", reason='the extra "examples" is not installed')
    pytest.importorskip("tqdm", reason='the extra "examples" is not installed')
    pytest.importorskip("matplotlib", reason='the extra "examples" is not installed')
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
