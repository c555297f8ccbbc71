"""import-time: ``import functrace`` in a fresh process, NumPy included."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from benchmarks.machine import environment
from benchmarks.work import Target, Work


def importing(module: str):
    """Return a system that measures the seconds of one import in a fresh process."""

    def prepare():
        if importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        code = f"import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"

        def run() -> float:
            command = [sys.executable, "-c", code]
            return float(
                subprocess.run(
                    command, capture_output=True, text=True, check=True, env=environment()
                ).stdout
            )

        run()  # writes the byte code
        return run

    return prepare


WORKS = (
    Work(
        "import-time",
        "import in a fresh process",
        {name: importing(name) for name in ("functrace", "numpy", "jax", "torch", "autograd")},
        (Target(1.0, "numpy", plus=0.06),),
        measures=True,
        rounds=5,
    ),
)
