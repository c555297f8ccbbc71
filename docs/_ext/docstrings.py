"""Docstrings are text with names in backticks and Google's sections; this makes reStructuredText of them."""

from __future__ import annotations

import re
from typing import Any

LITERAL = re.compile(r"(``.*?``|`[^`]*`)", re.DOTALL)
MARKUP = re.compile(r"(?<!\\)[*|]|(?<=\w)_(?=\W|$)")


def escape_markup(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Escape what is markup in reStructuredText and not in docstrings: ``*args``, ``|z|``, ``shape_``."""
    text = LITERAL.split("\n".join(lines))
    text[::2] = [MARKUP.sub(lambda found: "\\" + found[0], part) for part in text[::2]]
    lines[:] = "".join(text).split("\n")


def drop_layer(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Leave out the last line of a module's docstring, which names its layer."""
    lines[:] = [line for line in lines if what != "module" or not line.startswith("Layer: ")]


def skip_others(app: Any, what: str, name: str, obj: object, skip: bool, options: Any) -> bool | None:
    """Leave out what a module of functrace has from NumPy or SciPy unchanged."""
    module = getattr(obj, "__module__", None) or ""
    return True if what == "module" and not module.startswith("functrace") else None


def find_short_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Link `grad` and `ft.tree.map` to what `import functrace as ft` has under these names."""
    if node.get("refdomain") != "py" or not re.fullmatch(r"[\w.]+", node["reftarget"]):
        return None
    target = "functrace." + node["reftarget"].removeprefix("ft.")
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)


def setup(app: Any) -> dict[str, bool]:
    """Connect the functions; they act before napoleon, which acts at 500."""
    app.connect("autodoc-process-docstring", drop_layer, priority=300)
    app.connect("autodoc-process-docstring", escape_markup, priority=400)
    app.connect("autodoc-skip-member", skip_others)
    app.connect("missing-reference", find_short_name)
    return {"parallel_read_safe": True}
