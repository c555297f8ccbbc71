"""Descriptions of pytrees for error messages: their structure, and their first difference.

Layer: b (base).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

MOST = 6
"""Maximum number of parts named."""


def described(tree: PyTreeSpec) -> str:
    """Describe the top level of a structure: ``"a tuple of 2 values"``."""
    if tree.is_leaf():
        return "one value"
    kind, children = tree.type, tree.children()
    if kind is type(None) or kind is None:
        return "None"
    if issubclass(kind, dict):
        keys = [repr(key) for key in tree.entries()]
        shown = ", ".join(keys[:MOST]) + (f", … ({len(keys)} in all)" if len(keys) > MOST else "")
        return (
            f"{_article(kind.__name__)} with the key{'s' if len(keys) > 1 else ''} {shown}"
            if keys
            else "an empty dict"
        )
    if not children:
        return f"an empty {kind.__name__}"
    if all(child.is_leaf() for child in children):
        return (
            f"{_article(kind.__name__)} of {len(children)} value{'s' if len(children) > 1 else ''}"
        )
    parts = [_kind(child) for child in children[:MOST]]
    return f"{_article(kind.__name__)} of {len(children)} ({', '.join(parts)}{', …' if len(children) > MOST else ''})"


def difference(first: PyTreeSpec, second: PyTreeSpec) -> tuple[str, str, str]:
    """Return the path (``"['w'][0]"``, empty for the root) of the first difference of two
    structures, and both parts there."""
    path = ""
    while True:
        pairs = list(zip(first.children(), second.children(), strict=False))
        names = steps(first)
        inner = [k for k, (a, b) in enumerate(pairs) if a != b]
        is_alike = (
            first.type is second.type
            and len(names) == len(pairs) == len(steps(second))
            and names == steps(second)
        )
        if first.is_leaf() or second.is_leaf() or not is_alike or not inner:
            break
        path += names[inner[0]]
        first, second = pairs[inner[0]]
    a, b = described(first), described(second)
    return (path, a, b) if a != b else (path, f"{a}{_static(first)}", f"{b}{_static(second)}")


def steps(tree: PyTreeSpec) -> list[str]:
    """Return the access steps to the children of a structure: ``"[0]"``, ``".weights"``."""
    kind, entries = tree.type, tree.entries()
    is_indexed = kind is not None and issubclass(kind, (tuple, list, dict))
    return [
        f"[{entry!r}]" if is_indexed or not isinstance(entry, str) else f".{entry}"
        for entry in entries
    ]


def _static(tree: PyTreeSpec) -> str:
    """Describe the static part of a node."""
    found = re.search(r"\((?:CustomTreeNode\()?\w+(\[.*\]), \[", str(tree.one_level()), re.DOTALL)
    return f" with {found[1][1:-1]}" if found else ""


def _kind(tree: PyTreeSpec) -> str:
    if tree.is_leaf():
        return "a value"
    return "None" if tree.type in (None, type(None)) else _article(tree.type.__name__)


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"
