"""Docstrings are text with names in backticks and Google's sections; this makes reStructuredText of
them.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import sys
from types import ModuleType
from typing import Any

LITERAL = re.compile(r"(``.*?``|`[^`]*`)", re.DOTALL)
PAGE = re.compile(r"\bdocs/([\w/-]+)\.md")
MARKUP = re.compile(r"(?<!\\)[*|]|(?<=\w)_(?=\W|$)")
DOCTEST = re.compile(r"(?=^ *>>> )", re.MULTILINE)
BLANK = re.compile(r"(\n(?: *\n)+)")


def escape_markup(
    app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Escape what is markup in reStructuredText and not in docstrings (``*args``, ``|z|``,
    ``shape_``); link pages.
    """
    block: int | None = None  # the indentation of the text to which a literal block belongs
    pieces = BLANK.split("\n".join(lines))
    for k, paragraph in enumerate(pieces[::2]):
        indentation = len(paragraph) - len(paragraph.lstrip(" "))
        if block is None or indentation <= block:
            text, *example = DOCTEST.split(paragraph, maxsplit=1)
            pieces[2 * k] = "".join([escaped(text), *example])
            block = indentation if text.rstrip().endswith("::") and not example else None
    lines[:] = "".join(pieces).split("\n")


def escaped(text: str) -> str:
    """Escape markup outside of literals."""
    pieces = LITERAL.split(text)
    pieces[::2] = [
        PAGE.sub(r":doc:`/\1`", MARKUP.sub(lambda found: "\\" + found[0], piece))
        for piece in pieces[::2]
    ]
    return "".join(pieces)


def drop_layer(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Leave out the last line of a module's docstring, which names its layer."""
    lines[:] = [line for line in lines if what != "module" or not line.startswith("Layer: ")]


def import_names(
    app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Import what an example names without a module, so that it runs when it is pasted."""
    examples = doctest.DocTestParser().get_examples("\n".join(lines))
    module = module_of(name)
    found = names_without_module("".join(example.source for example in examples))
    own = {name.split(".")[-1], getattr(obj, "__name__", "")}  # may hide a builtin: `map`
    names = sorted(
        used
        for used in found - {"np"}
        if hasattr(module, used) and (used in own or not hasattr(builtins, used))
    )
    imports = ["import numpy as np"] * ("np" in found)
    imports += [f"from {module.__name__} import {', '.join(names)}"] * bool(names)
    if not imports:
        return
    at = next(k for k, line in enumerate(lines) if re.match(r" *>>> (?!import |from )", line))
    indentation = lines[at][: lines[at].index(">>>")]
    lines[at:at] = [f"{indentation}>>> {line}" for line in imports]


def module_of(name: str) -> ModuleType:
    """Return the module in the full name of an object: `functrace.tree` of
    ``functrace.tree.map``.
    """
    while name not in sys.modules:
        name = name.rpartition(".")[0]
    return sys.modules[name]


def names_without_module(source: str) -> set[str]:
    """Return the names that a piece of code reads and does not bind."""
    nodes = list(ast.walk(ast.parse(source)))
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {
        alias.asname or alias.name.split(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return read - bound


def skip_others(
    app: Any, what: str, name: str, obj: object, skip: bool, options: Any
) -> bool | None:
    """Leave out what a module of functrace has from NumPy or SciPy unchanged."""
    module = getattr(obj, "__module__", None) or ""
    return True if what == "module" and not module.startswith("functrace") else None


def find_short_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Link `grad` and `ft.tree.map` to what ``import functrace as ft`` has under these names."""
    if node.get("refdomain") != "py" or not re.fullmatch(r"[\w.]+", node["reftarget"]):
        return None
    target = "functrace." + node["reftarget"].removeprefix("ft.")
    return env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, "obj", target, node, content
    )


def setup(app: Any) -> dict[str, bool]:
    """Connect the functions; they act before napoleon, which acts at 500."""
    app.connect("autodoc-process-docstring", import_names, priority=200)
    app.connect("autodoc-process-docstring", drop_layer, priority=300)
    app.connect("autodoc-process-docstring", escape_markup, priority=400)
    app.connect("autodoc-skip-member", skip_others)
    app.connect("missing-reference", find_short_name)
    return {"parallel_read_safe": True}
