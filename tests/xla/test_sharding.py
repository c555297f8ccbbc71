"""Functions on eight devices of one process: gradients, products, checkpoints, shardings of results.

The devices are parts of one CPU. No GPU has run these checks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.xla import eight_devices

pytest.importorskip("jax", reason="jax is not installed")

NEEDS = {
    "check_optax_takes_the_results": "optax",
    "check_orbax_saves_and_loads": "orbax.checkpoint",
    "check_own_checkpoints_of_orbax_take_the_results": "orbax.checkpoint",
}


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def test_functions_on_eight_devices() -> None:
    """In one test and one process: JAX starts with a fixed number of devices."""
    names = [name for name in vars(eight_devices) if name.startswith("check_")]
    names = [name for name in names if name not in NEEDS or _is_installed(NEEDS[name])]
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={eight_devices.DEVICES}"}
    done = subprocess.run(
        [sys.executable, "-m", eight_devices.__name__, *names],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **flags},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert list(found) == names
    failed = {name: trace for name, trace in found.items() if trace}
    assert not failed, "\n".join(f"{name}:\n{trace}" for name, trace in failed.items())
