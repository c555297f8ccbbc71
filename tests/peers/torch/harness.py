"""Run one script on the real PyTorch and on `functrace.torch`, and compare what they log.

A parity script is a file in ``scripts/`` with a docstring that says what it shows and one function:

    def run(torch, log):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        log("square", x * x)                         # values, dtype, shape, requires_grad, grad_fn
        log.error("twice", lambda: broken(x))        # the class and the message of the exception

It imports nothing of torch itself. Warnings are logged where they are raised. Lines are compared
word for word, numbers up to the tolerance of the precision that is logged.

The same lines are kept in ``tests/torch/recorded/``, so that the shim is also checked where PyTorch
isn't installed:

    python -m tests.peers.torch.harness record              # write what is missing or differs
    (needs torch 2.13.0) python -m tests.peers.torch.harness show function_ctx   # what the real
    PyTorch logs python -m tests.peers.torch.harness diff function_ctx   # PyTorch against the shim
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
RECORDED = Path(__file__).parents[2] / "torch" / "recorded"
VERSION = "2.13.0"
"""The PyTorch of record."""

DIGITS = 5
TOLERANCE = 2e-4
"""Relative difference at which two logged numbers are the same: a little over the last digit that
is logged.
"""

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.\d*(?:e[-+]?\d+)?(?![\w.])")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


class Log:
    """The log of a script: one line per call."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.lines: list[str] = []

    def __call__(self, *values: Any) -> None:
        """Log values on one line: strings as they are, the rest as `describe` shows it."""
        self.lines.append(
            " ".join(v if isinstance(v, str) else describe(self.torch, v) for v in values).replace(
                "\n", "\\n"
            )
        )

    def error(self, label: str, attempt: Callable[[], Any]) -> None:
        """Log the class and the message of the exception that ``attempt`` raises, or the value that
        it returns.
        """
        try:
            value = attempt()
        except Exception as error:
            self(f"{label}: {type(error).__name__}: {_plain(str(error))}")
        else:
            self(f"{label}: no error:", value)

    def warning(self, message: Warning | str, category: type[Warning], *_where: Any) -> None:
        """Log a warning; stands in for ``warnings.showwarning``."""
        text = str(message).split(" (Triggered internally at ")[0]
        self(f"warning {category.__name__}: {_plain(text)}")


def _plain(message: str) -> str:
    return _ADDRESS.sub("0x…", message)


def describe(torch: ModuleType, value: Any) -> str:
    """Return a value as text that both libraries agree on: tensors by value and metadata, nodes by
    name.
    """
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        if getattr(plain, "_is_zerotensor", bool)():
            plain = plain.clone()  # PyTorch's zeros without memory cannot be listed
        parts = [
            _numbers(plain.tolist()),
            str(value.dtype).removeprefix("torch."),
            str(tuple(value.shape)),
        ]
        if value.requires_grad:
            node = value.grad_fn
            parts.append(
                "leaf, requires_grad" if node is None else f"grad_fn={type(node).__name__}"
            )
        return f"tensor({', '.join(parts)})"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, torch.Size):
        return f"Size{tuple(value)}"
    if isinstance(value, bool | int | float | None):
        return _numbers(value)
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{describe(torch, k)}: {describe(torch, v)}" for k, v in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        body = ", ".join(describe(torch, v) for v in value)
        return f"[{body}]" if isinstance(value, list) else f"({body})"
    if isinstance(value, torch.dtype):
        return str(value)
    return f"<{type(value).__name__}>"


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_numbers(v) for v in value)}]"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        text = f"{value + 0.0:.{DIGITS}g}"  # + 0.0: minus zero is zero
        return text if "." in text else f"{text}." if "e" not in text else text.replace("e", ".e")
    return str(value)


def scripts(names: Sequence[str] = ()) -> list[Path]:
    """Return the scripts, or those of the given names."""
    found = sorted(p for p in SCRIPTS.glob("*.py") if p.name != "__init__.py")
    return [p for p in found if p.stem in names] if names else found


def run(script: Path, torch: ModuleType, log: Log | None = None) -> list[str]:
    """Return what a script logs on ``torch`` (the real one, or the shim); a log that is given has
    it also if it stops.
    """
    spec = importlib.util.spec_from_file_location(f"parity_{script.stem}", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    log = Log(torch) if log is None else log
    always = getattr(torch, "set_warn_always", None)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for message in (
            "`torch.jit",
            "Attempted to insert a get_attr Node",
        ):  # PyTorch's own affairs
            warnings.filterwarnings("ignore", message)
        warnings.showwarning = log.warning  # type: ignore[assignment]
        if always is not None:
            always(True)
        try:
            module.run(torch, log)
        except Exception as error:
            error.add_note(
                f"while running {script.name}, after these lines:\n  " + "\n  ".join(log.lines[-5:])
            )
            raise
        finally:
            if always is not None:
                always(False)
    return log.lines


def differences(expected: Sequence[str], found: Sequence[str]) -> str:
    """Return the lines that differ as readable text; empty if there are none."""
    report = []
    for k in range(max(len(expected), len(found))):
        wanted = expected[k] if k < len(expected) else "(nothing more)"
        got = found[k] if k < len(found) else "(nothing more)"
        if not _same(wanted, got):
            report.append(f"line {k + 1}\n    PyTorch    {wanted}\n    functrace  {got}")
    return "\n".join(report)


def _same(wanted: str, got: str) -> bool:
    if wanted == got:
        return True
    if _NUMBER.sub("#", wanted) != _NUMBER.sub("#", got):
        return False
    pairs = zip(_NUMBER.findall(wanted), _NUMBER.findall(got), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=1e-6) for a, b in pairs)


def recorded(script: Path) -> list[str]:
    """Return the lines that PyTorch of record logged for a script."""
    first, *lines = (RECORDED / f"{script.stem}.log").read_text().splitlines()
    assert first == _heading(), f"{script.stem}.log was made by another PyTorch: {first}"
    return lines


def _heading() -> str:
    return f"# torch {VERSION}"


def real_torch() -> ModuleType:
    """Return the real PyTorch, which must be the version of record."""
    torch = importlib.import_module("torch")
    found = torch.__version__.split("+")[0]
    if found != VERSION:
        raise RuntimeError(f"the lines are those of torch {VERSION}, and {found} is installed")
    return torch


def _record(names: Sequence[str]) -> None:
    torch = real_torch()
    for script in scripts(names):
        target = RECORDED / f"{script.stem}.log"
        lines = run(script, torch)
        if not target.exists() or differences(recorded(script), lines):
            target.write_text("\n".join([_heading(), *lines]) + "\n")
            print(f"{target.name}: {len(lines)} lines")


def main(arguments: Sequence[str]) -> None:
    """Run the command line: ``record``, ``show`` or ``diff``, then names of scripts."""
    command, *names = arguments
    if command == "record":
        _record(names)
        return
    for script in scripts(names):
        expected = run(script, real_torch())
        if command == "show":
            print("\n".join([f"== {script.stem}", *expected]))
        else:
            found = run(script, importlib.import_module("functrace.torch"))
            print(
                f"== {script.stem}\n{differences(expected, found) or f'{len(found)} lines, all the same'}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
