"""Programs as pictures: Graphviz text (``to_dot``) and HTML for notebooks (``_repr_html_``).

All text from the program (names, files, source lines) is escaped: untrusted programs are safe to
show.

Layer: 0.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from textwrap import indent
from typing import Any

from functrace.ir.check import sub_programs_of
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Equation, Program
from functrace.ir.text import equation_text, program_text
from functrace.source import printable

_LONGEST = 60
"""Characters of a line in a picture."""
_MOST_LINES = 500
"""Maximum number of equations in a notebook."""


# -- Graphviz --------------------------------------------------------------------------------------


def program_dot(program: Program) -> str:
    """Return a program as a Graphviz graph.

    Ellipses are inputs and outputs, boxes are equations with their params, constants are plain
    text; an edge is a variable with its aval. A sub-program is a cluster, linked by a dotted edge.
    """
    lines = [
        "digraph program {",
        "  compound=true;",
        "  node [shape=box, fontname=monospace]; edge [fontname=monospace, fontsize=10];",
    ]
    lines += ["  " + line for line in _Graph().cluster(program, "")]
    return "\n".join([*lines, "}"]) + "\n"


class _Graph:
    """Writes nodes with unique names: those of the n-th program begin with ``pn_``."""

    def __init__(self) -> None:
        self.count = 0

    def cluster(self, program: Program, title: str) -> list[str]:
        """Return the lines of one program."""
        own = f"p{self.count}"
        self.count += 1
        label = _quoted(f"{title}{program.name}")
        lines = [f"subgraph cluster_{own} {{", f"  label={label};"]
        lines += ["  " + line for line in self.nodes(program, own)]
        return [*lines, "}"]

    def nodes(self, program: Program, own: str) -> list[str]:
        """Return nodes, edges and the clusters of sub-programs."""
        lines: list[str] = []
        equations = iter(program.equations)
        maker: dict[int, str] = {}
        for i, (primitive, operands, _) in enumerate(program.ops):
            node = maker[i] = f"{own}_{i}"
            var = program.variables[i]
            if primitive is INPUT or i in program.input_ids:
                lines.append(f"{node} [shape=ellipse, label={_quoted(repr(var))}];")
            elif primitive is CONSTANT:
                lines.append(f"{node} [shape=plaintext, label={_quoted(f'const {var!r}')}];")
            elif primitive is RESULT:
                maker[i] = maker[operands[0]]
            else:
                lines += self.equation(program, next(equations), operands, node, maker)
        for k, i in enumerate(program.output_ids):
            lines.append(
                f"{own}_out{k} [shape=ellipse, style=bold, label={_quoted(f'output {k}')}];"
            )
            lines.append(
                f"{maker[i]} -> {own}_out{k} [label={_quoted(repr(program.variables[i]))}];"
            )
        return lines

    def equation(
        self,
        program: Program,
        equation: Equation,
        operands: tuple[int, ...],
        node: str,
        maker: dict[int, str],
    ) -> list[str]:
        """Return an equation's node, the edges to it, and its sub-programs' clusters."""
        held = [
            found
            for name, value in equation.params.items()
            for found in sub_programs_of(value, name)
        ]
        shown = {k: v for k, v in equation.params.items() if not list(sub_programs_of(v, k))}
        words = [equation.primitive.name, *[repr(program.literals[~i]) for i in operands if i < 0]]
        words += [f"{k}={_shortened(str(v))}" for k, v in shown.items()]
        where = "" if equation.source is None else f", tooltip={_quoted(equation.source.short)}"
        lines = [f"{node} [label={_quoted(' '.join(words))}{where}];"]
        for i in operands:
            if i >= 0:
                lines.append(f"{maker[i]} -> {node} [label={_quoted(repr(program.variables[i]))}];")
        for path, inner in held:
            first = f"p{self.count}"
            lines += self.cluster(inner, f"{path}: ")
            anchor = next((f"{first}_{i}" for i in (*inner.input_ids, *inner.output_ids)), None)
            if anchor is not None:
                lines.append(
                    f"{node} -> {anchor} [style=dotted, arrowhead=none, lhead=cluster_{first}];"
                )
        return lines


def _quoted(text: str) -> str:
    """Return a text as a Graphviz string; backslashes and unprintable characters are escaped."""
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# -- HTML ------------------------------------------------------------------------------------------


def program_html(program: Program) -> str:
    """Return a program's listing as HTML: each equation next to its source line."""
    listing = program_text(program, full=False).split("\n")
    constants = [f"  {line.strip()}" for line in listing[1 : 1 + len(program.constant_values)]]
    rows = [(listing[0], ""), *[(line, "") for line in constants]]
    for equation in program.equations[:_MOST_LINES]:
        where = (
            ""
            if equation.source is None
            else f"{equation.source.short}  {equation.source.expression}".rstrip()
        )
        first, *rest = indent(equation_text(equation), "  ").split("\n")
        rows.append((first, where))
        rows += _lines_inside(rest, _expressions(equation) if rest else {})
    if len(program.equations) > _MOST_LINES:
        rows.append((f"  … {len(program.equations) - _MOST_LINES} more equations", ""))
    rows += [(line, "") for line in listing[-2:]]
    return table([], rows)


def _lines_inside(lines: list[str], expressions: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield a row (text, comment) for each line of an equation's sub-programs."""
    for line in lines:
        text, comment, where = line.rpartition("  # ")
        if comment and where in expressions:
            yield text.rstrip(), f"{where}  {expressions[where]}".rstrip()
        else:
            yield line, ""


def _expressions(equation: Equation) -> dict[str, str]:
    """Return the source lines of all equations inside of one, by file and number."""
    found: dict[str, str] = {}
    todo = [equation]
    while todo:
        for value in todo.pop().params.values():
            for _, program in sub_programs_of(value, ""):
                for inner in program.equations:
                    todo.append(inner)
                    if inner.source is not None:
                        found[inner.source.short] = inner.source.expression
    return found


def table(titles: list[str], rows: list[tuple[Any, ...]], *, right: tuple[int, ...] = ()) -> str:
    """Return an HTML table of escaped texts.

    Args:
        titles: of the columns; none for a table without.
        rows: of texts.
        right: columns that are aligned to the right.
    """

    def cell(tag: str, k: int, text: str) -> str:
        side, text = "right" if k in right else "left", "\n".join(map(printable, text.split("\n")))
        style = f"text-align:{side};white-space:pre;font-family:monospace;vertical-align:top"
        return f'<{tag} style="{style}">{html.escape(text)}</{tag}>'

    lines = ["<table>"]
    for tag, row in [*([("th", tuple(titles))] if titles else []), *[("td", row) for row in rows]]:
        lines.append(f"<tr>{''.join([cell(tag, k, str(text)) for k, text in enumerate(row)])}</tr>")
    return "\n".join([*lines, "</table>"])
