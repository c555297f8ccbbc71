"""docs/backends.md: its blocks print what they show."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.test_readme import BACKENDS, ROOT


def test_examples_of_the_page_run() -> None:
    for package in ("lifelines", "ot", "quimb", "tensorly"):
        pytest.importorskip(package)
    command = [
        sys.executable,
        "-m",
        "tests.test_readme",
        str(BACKENDS),
    ]  # what it registers stays in its process
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
