"""A machine without llvmlite, with an older one, and with a newer one."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

USE = """
import sys, warnings
warnings.simplefilter("error")
{before}
import numpy as np
import functrace as ft
x = np.arange(4.0)
f = ft.jit(lambda x: np.sum(x * x))
for _ in range(2100):
    assert f(x) == 14.0
    if _ == 1050:
        from functrace.api.staging.background import COMPILER
        COMPILER.wait()
print(type(f.func).__name__)
try:
    print(ft.jit(lambda x: np.sum(x * x), backend="native")(x))
except ft.errors.UnsupportedFunctionError as error:
    print(error)
"""


def output(before: str) -> tuple[str, str]:
    """Return what the default backend calls, and what the native one gives."""
    run = subprocess.run(
        [sys.executable, "-c", USE.format(before=before)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    first, _, rest = run.stdout.partition("\n")
    return first, rest


def test_the_installed_version() -> None:
    assert output("") == ("builtin_function_or_method", "14.0\n")


def test_without_llvmlite() -> None:
    kind, message = output("sys.modules['llvmlite'] = None")
    assert kind == "function"
    assert "needs llvmlite" in message
    assert "pip install functrace-numpy[native]" in message


def test_an_older_version() -> None:
    kind, message = output("import llvmlite; llvmlite.__version__ = '0.46.1'")
    assert kind == "function"
    assert "needs llvmlite 0.47 or later, but 0.46.1 is installed" in message
    assert 'pip install "llvmlite>=0.47' in message


def test_a_newer_version_that_works() -> None:
    found = output("import llvmlite; llvmlite.__version__ = '1.3.0rc1'")
    assert found == ("builtin_function_or_method", "14.0\n")


def test_a_newer_version_without_an_option_of_llvm() -> None:
    kind, message = output(
        "import llvmlite; llvmlite.__version__ = '1.3.0'\n"
        "from functrace.native import llvm; llvm._OPTIONS = ('--no-such-option=false',)"
    )
    assert kind == "function"
    assert "does not work with llvmlite 1.3.0" in message
    assert "no option --no-such-option" in message
