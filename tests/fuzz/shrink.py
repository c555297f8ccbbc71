"""Shrinking a failing program: statements go, as long as the same failure remains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.generate import Program
from tests.fuzz.variants import Failed


def shrunk(program: Program, failed: Failed, run: Callable[[Program], Failed | None]) -> Program:
    """Return a smaller program that fails in the same way; greedy, at most a few hundred runs."""
    budget = 150
    again = True
    while again:
        again = False
        for nodes in _smaller(program.nodes):
            candidate = replace(program, nodes=nodes)
            budget -= 1
            if budget < 0:
                return program
            try:
                found = run(candidate)
            except Exception:
                continue
            if (
                found is not None
                and found.what == failed.what
                and "not defined" not in found.detail
                and "cannot access" not in found.detail
            ):
                program, again = candidate, True
                break
    return program


def _smaller(nodes: list[Any]) -> Iterator[list[Any]]:
    """The lists of nodes with one node less, or one line simpler; last ones first."""
    for k in reversed(range(len(nodes))):
        node = nodes[k]
        if not (isinstance(node, str) and node.startswith("return")):
            yield nodes[:k] + nodes[k + 1 :]
        if isinstance(node, tuple):
            if not node[0].startswith("def") and not node[0].startswith(("try", "except")):
                yield nodes[:k] + node[1] + nodes[k + 1 :]
            for inner in _smaller(node[1]):
                yield [*nodes[:k], (node[0], inner), *nodes[k + 1 :]]
        elif node.startswith("return ") and any(c in node for c in "([{,"):
            for part in _parts(node.removeprefix("return ")):
                yield [*nodes[:k], f"return {part}", *nodes[k + 1 :]]


def _parts(text: str) -> list[str]:
    import ast

    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.Tuple | ast.List):
        return [ast.unparse(part) for part in tree.elts]
    if isinstance(tree, ast.Dict):
        return [ast.unparse(part) for part in tree.values]
    return []
