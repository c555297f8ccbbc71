"""Type stubs of the shim, generated from its rows: ``python -m tests.torch.stubs``.

The functions of ``torch`` and the methods of `Tensor` go to namespace.pyi, those of
``torch.nn.functional`` to nn/functional.pyi, and packages that import their names at first access
get an __init__.pyi with these. Parameters are those of the functions, as their source
annotates them; a `Value` that a method returns is a `Tensor`, since it was given one. With
``--check`` the files are only compared.

Layer: 9.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from functrace.torch.dispatch.rows import FFT, FUNCTIONAL, LINALG, NN, SPECIAL, TENSOR, TORCH
from functrace.torch.dispatch.surface import ENTRIES
from functrace.torch.tensors.dtypes import ABSENT, NAMES, dtype
from functrace.torch.tensors.tensor import Tensor

PACKAGE = Path(__file__).parents[2] / "functrace" / "torch"
_WIDTH = 125
_HOMES = (Tensor.__module__, dtype.__module__)
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Stub:
    """The text of a stub file, and the names that it imports."""

    def __init__(self, doc: str) -> None:
        self.doc = doc
        self.imports: dict[str, str] = {}
        self._meant: dict[str, Any] = {}
        self.parts: list[str] = []

    def text(self) -> str:
        """Return the whole file."""
        sections: tuple[dict[str, list[str]], ...] = ({}, {}, {})
        for line in sorted(self.imports.values(), key=lambda line: (line.startswith("from"), line)):
            begin, _, name = line.rpartition(" import ")
            section = sections[2 if " functrace" in line else int(" numpy" in line)]
            section.setdefault(begin, []).append(name or line)
        lines = ["import builtins"]
        for k, section in enumerate(sections):
            lines += [""] * (k > 0 and bool(section))
            lines += [
                f"{begin} import {', '.join(names)}" if begin else names[0]
                for begin, names in section.items()
            ]
        head = f"# Written by `python -m tests.torch.stubs` from the rows: {self.doc}\n"
        return "\n".join([head, *lines, "", *self.parts]).rstrip() + "\n"

    def define(self, name: str, value: Any, indent: str = "") -> None:
        """Add a function, or a method or property where it is indented."""
        function: Any = value.fget if isinstance(value, property) else value
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        if indent:
            parameters = [_SELF, *parameters[1:]]
            if name in ("__eq__", "__ne__"):  # as `object` declares them
                parameters[1:] = [p.replace(annotation="object") for p in parameters[1:]]
        shown = [self._parameter(p, function) for p in parameters]
        kinds = [p.kind for p in parameters]
        if _SELF.KEYWORD_ONLY in kinds and _SELF.VAR_POSITIONAL not in kinds:
            shown.insert(kinds.index(_SELF.KEYWORD_ONLY), "*")
        returns = "Any" if name in ("__eq__", "__ne__") else signature.return_annotation
        result = self._annotation("Tensor" if indent and returns == "Value" else returns, function)
        lines = [f"{indent}@property"] if isinstance(value, property) else []
        lines += _wrapped(f"{indent}def {name}(", shown, f") -> {result}:")
        doc = inspect.getdoc(function)
        if doc is None:
            lines[-1] += " ..."
        else:
            lines.append(f'{indent}    """{" ".join(doc.partition(chr(10) * 2)[0].split())}"""')
        self.parts += [*lines, ""] if doc is not None else lines

    def _parameter(self, parameter: inspect.Parameter, function: Callable[..., Any]) -> str:
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = stars + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {self._annotation(parameter.annotation, function)}"
        if parameter.default is not parameter.empty:
            default = "..." if parameter.default is ... else repr(parameter.default)
            text += f" = {default}".replace("'", '"')
        return text

    def import_(self, name: str, value: Any, module: str) -> None:
        """Import what an annotation names: a class from where it is defined, an alias from where it
        stands.
        """
        assert self._meant.setdefault(name, value) is value, f"{name} means two things in one stub"
        if isinstance(value, ModuleType):
            self.imports[name] = f"import {value.__name__} as {name}"
            return
        homes = (home for home in _HOMES if vars(sys.modules[home]).get(name) is value)
        home = value.__module__ if getattr(value, "__name__", "") == name else next(homes, module)
        self.imports[name] = f"from {home} import {name}"

    def _annotation(self, annotation: str, function: Callable[..., Any]) -> str:
        """Return an annotation as it is right in the stub: builtins by their full names, everything
        else imported.
        """
        tree = ast.parse(annotation, mode="eval")
        return ast.unparse(_Names(self, inspect.unwrap(function).__globals__).visit(tree))


class _Names(ast.NodeTransformer):
    def __init__(self, stub: Stub, scope: dict[str, Any]) -> None:
        self.stub, self.scope = stub, scope

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.scope:
            return (
                ast.Attribute(ast.Name("builtins"), node.id) if hasattr(builtins, node.id) else node
            )
        self.stub.import_(node.id, self.scope[node.id], self.scope["__name__"])
        return node


def _wrapped(begin: str, parameters: Sequence[str], end: str) -> list[str]:
    """Return a signature on one line, or its parameters on the next, or one by one."""
    joined = ", ".join(parameters)
    if len(begin) + len(joined) + len(end) <= _WIDTH:
        return [begin + joined + end]
    inner = begin[: len(begin) - len(begin.lstrip())]
    if len(inner) + 4 + len(joined) <= _WIDTH:
        return [begin, f"{inner}    {joined}", inner + end]
    return [begin, *(f"{inner}    {parameter}," for parameter in parameters), inner + end]


def _all(names: Iterable[str]) -> list[str]:
    return ["__all__ = [", *(f'    "{name}",' for name in sorted(names)), "]", ""]


LAZY_PACKAGES = ("nn", "nn.modules", "nn.utils", "optim", "utils")
"""Packages that import their names at first access."""


def package_stub(name: str) -> str:
    """Return the stub of a package: an import of each of its names."""
    package = importlib.import_module(f"functrace.torch.{name}")
    imports: list[str] = []
    for word in dir(package):
        value = getattr(package, word)
        home = package.__name__
        if not isinstance(value, ModuleType):
            home = value.__module__
            assert home.startswith(f"{package.__name__}."), (home, word)
        imports.append(f"from {home} import {word} as {word}")
    head = f"# Written by `python -m tests.torch.stubs`: the names of `torch.{name}`.\n"
    return "\n".join([head, *sorted(imports), "", *_all(package.__all__)]).rstrip() + "\n"


def stubs() -> dict[Path, str]:
    """Return the text of each stub file."""
    torch = Stub("the functions of `torch`, and the methods of `Tensor`.")
    torch.import_("dtype", dtype, dtype.__module__)
    torch.parts += _all([*ENTRIES[TORCH], *NAMES, *ABSENT])
    torch.parts += [f"{name}: dtype" for name in (*NAMES, *ABSENT)] + [""]
    for name, (_, function) in sorted(ENTRIES[TORCH].items()):
        torch.define(name, function)
    torch.parts += ["class Methods:", '    """What the rows give to `Tensor`."""', ""]
    for name, (_, method) in sorted(ENTRIES[TENSOR].items()):
        torch.define(name, method, "    ")
    functional = Stub("the functions of `torch.nn.functional`.")
    functional.parts += _all(ENTRIES[FUNCTIONAL])
    for name, (_, function) in sorted(ENTRIES[FUNCTIONAL].items()):
        functional.define(name, function)
    inner = Stub("the functions of `torch._C._nn`.")
    inner.parts += _all(ENTRIES[NN])
    for name, (_, function) in sorted(ENTRIES[NN].items()):
        inner.define(name, function)
    found = {}
    for name, place in (("linalg", LINALG), ("special", SPECIAL), ("fft", FFT)):
        found[name] = Stub(f"the functions of `torch.{name}`.")
        found[name].parts += _all(ENTRIES[place])
        if name == "linalg":
            text = "from functrace.torch.errors.algebra import LinAlgError as LinAlgError"
            found[name].imports["LinAlgError"] = text
        for function_name, (_, function) in sorted(ENTRIES[place].items()):
            found[name].define(function_name, function)
    return {
        **{
            PACKAGE.joinpath(*name.split("."), "__init__.pyi"): package_stub(name)
            for name in LAZY_PACKAGES
        },
        **{PACKAGE / f"{name}.pyi": stub.text() for name, stub in found.items()},
        PACKAGE / "namespace.pyi": torch.text(),
        PACKAGE / "_C" / "_nn.pyi": inner.text(),
        PACKAGE / "nn" / "functional.pyi": functional.text(),
    }


def main(arguments: Sequence[str]) -> int:
    """Write the stubs, or compare them with what is there; returns 1 if a file differs."""
    different = 0
    for path, text in stubs().items():
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            different = 1
            print(f"{path} is not what the rows say: run `python -m tests.torch.stubs`")
    return different


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
