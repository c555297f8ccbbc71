"""The examples run, on the real data, and their own checks pass; beartype checks the shapes in their
signatures.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SLOW = {
    "black_scholes", "characters", "digits", "digits_distributed", "digits_torch", "fluid",
    "long_simulation", "resume", "variational",
}  # fmt: skip
"""Examples that take more than five seconds."""
EXAMPLES = [
    pytest.param(path, marks=pytest.mark.full if path.stem in SLOW else (), id=path.name)
    for path in sorted((ROOT / "examples").glob("*.py"))
]
CHECKED = """
import importlib, sys
from jaxtyping import install_import_hook
name = sys.argv.pop(1)
with install_import_hook(name, "beartype.beartype"):
    example = importlib.import_module(name)
example.main()
"""
"""Run an example, whose name is the first argument."""


@pytest.mark.sampled(13)
@pytest.mark.parametrize("path", EXAMPLES)
def test_example_succeeds(path: Path) -> None:
    pytest.importorskip("sklearn", reason='the extra "examples" is not installed')
    pytest.importorskip("tqdm", reason='the extra "examples" is not installed')
    pytest.importorskip("matplotlib", reason='the extra "examples" is not installed')
    found = os.pathsep.join([str(ROOT), str(path.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", CHECKED, path.stem],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": found, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
