"""Coverage of PyTorch's autograd surface, determined from the code: ``python -m
tests.torch.coverage``.

PyTorch's names, and the parameters of its Python functions, were recorded from an installed PyTorch
into coverage.json (by ``python -m tests.peers.torch.surface``). Each is looked for in the shim; the
page docs/torch_coverage.md says of every name whether it is there, and of each that is not, or
behaves otherwise, why (differences.py). With ``--check`` the page is only compared.

Layer: 9.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import operator
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import EnumType
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, final

from tests.torch.differences import ABSENT, DIFFERENCES

RECORD = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[2] / "docs" / "torch_coverage.md"
AREAS = (
    "torch.autograd", "torch.autograd.function", "torch.autograd.graph",
    "torch.autograd.functional",
    "torch.autograd.gradcheck", "torch.autograd.forward_ad", "torch.autograd.grad_mode",
    "torch.autograd.anomaly_mode",
    "torch.utils.checkpoint", "torch.utils.hooks", "torch.func", "ctx", "node",
    "node of a Function",
    "torch.Tensor", "torch", "torch._C", "torch._C._autograd", "torch._C._functions",
)  # fmt: skip
"""In the order of the page; those that are no module are made by `place`."""

Parameters: TypeAlias = Sequence[str] | None
Surface: TypeAlias = Mapping[str, Mapping[str, Parameters]]
"""By area and name the names of the parameters, None where Python cannot say."""


def place(torch: ModuleType, area: str) -> object:
    """Return the object with the names of an area, of PyTorch or of the shim; None without one."""
    if area == "node":
        return torch.ones(2, requires_grad=True).exp().grad_fn
    if area in ("ctx", "node of a Function"):
        return _function_node(torch)
    if area == "torch.Tensor":
        return torch.ones(2, 2, requires_grad=True)
    path = area.removeprefix("torch").removeprefix(".")
    try:  # a module may stand behind a function of its name, and a namespace may be no module
        return importlib.import_module(f"{torch.__name__}.{path}".removesuffix("."))
    except ModuleNotFoundError:
        try:
            return operator.attrgetter(path)(torch)
        except AttributeError:
            return None


def _function_node(torch: ModuleType) -> object:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

    return Doubled.apply(torch.ones(2, requires_grad=True)).grad_fn


def has(owner: object, name: str) -> bool:
    """Return True if an object has an attribute."""
    if owner is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return name in dir(owner) or hasattr(owner, name)


def parameters(owner: object, name: str) -> Parameters:
    """Return the names of the parameters of a function or class; None where Python does not know
    them.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = getattr(owner, name)
            if not callable(value) or isinstance(value, EnumType):
                return None
            signature = inspect.signature(value)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None
    found = signature.parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in found if p.kind in named]


@final
@dataclass(frozen=True)
class Found:
    """The coverage of an area: names that are here, names that are not, keyword arguments that are
    not.
    """

    here: tuple[str, ...]
    absent: tuple[str, ...]


@functools.lru_cache(maxsize=1)
def record() -> tuple[str, Surface]:
    """Return the version of PyTorch that was inspected, and its names."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    return found["version"], found["areas"]


@functools.lru_cache(maxsize=1)
def coverage() -> Mapping[str, Found]:
    """Return by area what is here, and what is not; a keyword argument is called
    ``name(argument=)``.
    """
    torch, result = importlib.import_module("functrace.torch"), {}
    for area, names in record()[1].items():
        owner, here, absent = place(torch, area), [], []
        for name, wanted in names.items():
            if not has(owner, name):
                absent.append(name)
                continue
            here.append(name)
            taken = parameters(owner, name)
            if wanted is not None and taken is not None:
                absent += [f"{name}({p}=)" for p in wanted if p not in taken]
        result[area] = Found(tuple(here), tuple(absent))
    return result


def reasons() -> Mapping[str, str]:
    """Return by full name (``area.name``) why it is not here."""
    return {name: because for because, names in ABSENT.items() for name in names}


def page() -> str:
    """Return the text of the page."""
    version, _ = record()
    count = sum(len(found.here) for found in coverage().values())
    missing = sum(len([n for n in found.absent if "(" not in n]) for found in coverage().values())
    numbers: dict[str, list[int]] = {}
    for k, difference in enumerate(DIFFERENCES, 1):
        for name in difference.names:
            numbers.setdefault(name, []).append(k)
    lines = [
        "# PyTorch coverage",
        "",
        "<!-- Written by `python -m tests.torch.coverage`; tests compare it with the code. -->",
        "",
        f"The names are those of PyTorch {version}: what its modules for automatic differentiation export, what its own",
        "Python files ask of its compiled half, and the methods and functions that code about gradients is written with.",
        "Private helpers are listed where other code reaches for them; `name(argument=)` is a parameter of a name.",
        "",
        f"Of {count + missing} names {count} are here. Numbers in brackets lead to the differences below.",
    ]
    for area, found in coverage().items():
        lines += ["", f"## {area}", ""]
        lines += _wrapped(
            [
                f"`{name}`" + "".join(f" ({k})" for k in numbers.get(f"{area}.{name}", ()))
                for name in found.here
            ]
        )
        if found.absent:
            lines += ["", "| not here | because |", "|---|---|"]
            because = reasons()
            lines += [
                f"| `{name}` | {because.get(f'{area}.{name}', 'no reason is given')} |"
                for name in found.absent
            ]
    lines += [
        "",
        "## What is different",
        "",
        "Both outputs of each example are compared by tests (PyTorch's with `import torch`).",
        "",
    ]
    for k, difference in enumerate(DIFFERENCES, 1):
        example = difference.example.strip().splitlines()
        lines += [
            f"### {k}. {difference.what}",
            "",
            *_paragraph(difference.because),
            "",
            "```python",
        ]
        lines += [
            "from functrace import torch",
            "",
            *([""] if example[0].startswith(("class ", "def ", "@")) else []),
            *example,
            "```",
            "",
            "```text",
            "PyTorch:",
        ]
        lines += [
            *difference.pytorch.strip().splitlines(),
            "here:",
            *difference.here.strip().splitlines(),
            "```",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(words: Sequence[str], width: int = 140) -> list[str]:
    """Return words on lines, none of them cut."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _paragraph(text: str) -> list[str]:
    return _wrapped(text.split())


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it with what is there; returns 1 if it differs."""
    if "--check" not in arguments:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print(f"{PAGE} is not what the code says: run `python -m tests.torch.coverage`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
