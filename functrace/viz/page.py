"""`ProgramPage`: a program as one HTML file.

The page is self-contained: its content security policy forbids all connections. Texts from programs
and source files are data for its script, which shows them as text, never as HTML.

Layer: 8 (api).
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, final

from functrace.ir.cost import shown
from functrace.ir.files import write_atomically
from functrace.ir.pictures import program_html, table
from functrace.ir.program import Program
from functrace.locks import cached_property
from functrace.source import printable
from functrace.viz.payload import program_data

if TYPE_CHECKING:
    from functrace.executor.profile import Profile

_SCRIPTS = ("dagre.min.js", "model.js", "layout.js", "graph.js", "panels.js", "viewer.js")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@final
class ProgramPage:
    """A page about a program, returned by `functrace.show`. Notebooks show a short form of it.

    Args:
        program: the program.
        title: of the page.
        profile: times of the program, if they were measured.

    Attributes:
        data: the data of the page, as `functrace.viz.payload` describes it; source files are read
            when the page is made.

    Example:
        >>> import numpy as np, functrace as ft
        >>> page = ft.show(ft.grad(lambda x: np.sum(np.sin(x))), np.ones(3))
        >>> page
        <ProgramPage: grad(<lambda>), 1 operations>
        >>> page.html.startswith("<!doctype html>")
        True
    """

    def __init__(self, program: Program, title: str, profile: Profile | None = None) -> None:
        self.program = program
        self.title = title
        self.profile = profile
        self.data: dict[str, Any] = program_data(program, title, profile)

    @cached_property
    def html(self) -> str:
        """The page: an HTML document without references to other files."""
        text = json.dumps(self.data, separators=(",", ":"), allow_nan=False, default=str)
        # No byte of the data can end the script element, or begin a comment.
        data = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        scripts = "\n".join([f"<script>{_asset(name)}</script>" for name in _SCRIPTS])
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(printable(self.title))}</title>\n"
            f"<!--\n{_license()}-->\n"
            f"<style>{_asset('viewer.css')}</style></head>\n<body>\n"
            f"{_asset('body.html')}\n"
            f'<script type="application/json" id="data">{data}</script>\n{scripts}\n'
            "</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Args:
            path: path of the file, e.g. ``"step.html"``. One that exists is replaced, at once.

        Raises:
            OSError: if it cannot be written.
        """
        write_atomically(path, self.html)

    def __repr__(self) -> str:
        count = self.data["totals"]["operations"]
        return f"<ProgramPage: {printable(self.title)}, {count} operations>"

    def _repr_html_(self) -> str:
        """Return the totals, costs by source line, residuals, and the listing."""
        totals = self.data["totals"]
        details = (
            f"{totals['operations']} operations, {shown(totals['flops'])}flop, "
            f"peak {shown(totals['peak'])}B, residuals {shown(totals['residuals'])}B"
        )
        parts = [
            f"<div><b>{html.escape(printable(self.title))}</b>: {html.escape(details)}</div>",
            table(["line", "forward", "reverse", "flops", "kept bytes", "source"],
                  list(self._lines()), right=(1, 2, 3, 4)),
        ]  # fmt: skip
        if self.data["residuals"]:
            rows = [
                (f"{r['bytes']:,}", r["name"], r["aval"], r["what"], r["why"])
                for r in self.data["residuals"]
            ]
            titles = ["bytes", "residual", "aval", "what it is", "kept for"]
            parts.append(_folded("residuals", table(titles, rows, right=(0,))))
        parts.append(_folded("listing", program_html(self.program)))
        return "\n".join(parts)

    def _lines(self) -> Iterator[tuple[str, ...]]:
        """Yield a row per source line, in the order of the operations: counts and costs, of one run
        of each sub-program."""
        sources, found = self.data["sources"], dict[int, list[int]]()
        for part in self.data["programs"]:
            for op in part["ops"]:
                row = found.setdefault(op["at"], [0, 0, 0, 0])
                row[op["role"] == "r"] += 1
                row[2] += 0 if "subs" in op else op["flops"]
        for residual in self.data["residuals"]:
            if residual["kept"] and residual["at"] in found:
                found[residual["at"]][3] += residual["bytes"]
        for at, (forward, reverse, flops, kept) in found.items():
            if at < 0:
                where = text = "?"
            else:
                file, line, _ = sources["places"][at]
                where = f"{sources['files'][file]['name']}:{line}"
                text = dict(sources["files"][file]["lines"])[line].strip()
            counts = [str(n) if n else "" for n in (forward, reverse)]
            yield where, *counts, shown(flops), f"{kept:,}" if kept else "", text


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{body}</details>"


@lru_cache(16)
def _asset(name: str) -> str:
    return files("functrace.viz").joinpath("assets", name).read_text(encoding="utf-8")


@lru_cache(16)
def _license() -> str:
    """Return the license of the layout library, which its distribution requires in every copy."""
    return f"@dagrejs/dagre {DAGRE}, MIT license.\n{_asset('dagre.LICENSE.txt')}"


DAGRE = "3.1.3"
"""Version of the layout library in ``assets``."""
