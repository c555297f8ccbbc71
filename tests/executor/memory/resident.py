"""Peaks of calls, measured by the system: with memory that C and Fortran code takes from ``malloc``,
which ``tracemalloc`` does not see (LAPACK's copies and work arrays, for example).

`peak_of` must run in a process of its own, since it sets options of glibc's ``malloc`` and resets the
process's high-water mark; ``python -m tests.executor.memory.resident module:name`` prints what the
function ``name`` of a module returns, as JSON.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
MMAP_THRESHOLD = -3
"""Option of ``mallopt``, from malloc.h."""
OWN_MAPPING = 1 << 16
"""Bytes: larger blocks get a mapping of their own, which is returned as soon as it is freed."""


def is_possible() -> bool:
    """Return True if this system has a high-water mark that a process can reset, and glibc."""
    return sys.platform == "linux" and os.access("/proc/self/clear_refs", os.W_OK)


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def peak_of(call: Callable[[], Any]) -> int:
    """Return the most resident bytes during a call, beyond those before it, its results included."""
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, OWN_MAPPING)
    for _ in range(2):
        call()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    result = call()
    found = _status("VmHWM") - before
    del result
    return found


def in_own_process(module: str, name: str, *args: str) -> Any:
    """Return what a function of a module returns in a new process, on one core.

    Args:
        module: the module.
        name: the function, of strings, whose result can be written as JSON.
        args: its arguments.
    """
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-m", "tests.executor.memory.resident", f"{module}:{name}", *args],
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


if __name__ == "__main__":
    where, what = sys.argv[1].split(":")
    print(json.dumps(getattr(importlib.import_module(where), what)(*sys.argv[2:])))
