"""Environment of the benchmark processes, and the description of the machine in the header."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import functrace

DISTURBING = (
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONMALLOC",
    "PYTHONDEVMODE",
)
"""Environment variables that disturb measurements, removed in processes of benchmarks."""

LIMITING = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "XLA_FLAGS",
    "MALLOC_ARENA_MAX",
)
"""Variables that are passed on to processes that a benchmark starts; the header reports them."""

PACKAGES = ("numpy", "jax", "torch", "autograd", "scipy")


def environment() -> dict[str, str]:
    """Return the environment for processes that a benchmark starts."""
    return {name: value for name, value in os.environ.items() if name not in DISTURBING}


def machine() -> dict[str, Any]:
    """Describe the machine, its load, and the versions of everything measured."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = models[0] if models else model
    versions = {"python": platform.python_version(), "functrace": functrace.__version__}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": model,
        "cores": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "versions": versions,
        "disturbing": {name: os.environ[name] for name in DISTURBING if name in os.environ},
        "limiting": {name: os.environ[name] for name in LIMITING if name in os.environ},
    }


def header(about: dict[str, Any]) -> str:
    """Lay out what `machine` found."""
    cores = f"{about['cores']} cores" + (
        f", {about['usable']} of them usable" if about["usable"] != about["cores"] else ""
    )
    lines = [
        f"{about['date']}: {about['cpu']}, {cores}, load {about['load']}, {about['system']}",
        ", ".join(f"{name} {version}" for name, version in about["versions"].items()),
    ]
    for key, what in (("disturbing", "taken from children"), ("limiting", "in force")):
        if about[key]:
            lines.append(
                f"environment, {what}: "
                + ", ".join(f"{name}={value}" for name, value in about[key].items())
            )
    return "\n".join(lines)


def resident() -> int:
    """Return the resident bytes of this process (the peak, if there is no ``/proc``)."""
    if Path("/proc/self/status").exists():
        return _status("VmRSS")
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def peak() -> int:
    """Return the peak of the resident bytes of this process since `forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Let `peak` count from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")
