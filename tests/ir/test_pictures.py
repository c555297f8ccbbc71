"""Pictures of programs: Graphviz text that reads as such, HTML with nothing unescaped."""

from __future__ import annotations

import html.parser
import re

import numpy as np
import pytest

import functrace as ft
from functrace.ir.check import sub_programs_of
from functrace.ir.pictures import table
from tests.control.programs import WRITTEN, X

_STATEMENT = re.compile(
    r"""\s*(?:
    (?P<open>(?:subgraph\ \w+|digraph\ \w+)\ \{)|(?P<close>\})
    |(?P<edge>\w+\ ->\ \w+)(?P<edge_facts>\ \[.*\])?;|(?P<set>\w+=(?:\w+|"(?:[^"\\]|\\.)*");)
    |(?P<default>(?:node|edge)\ \[[^\]]*\];\ ?)+|(?P<node>\w+)\ (?P<facts>\[.*\]);)""",
    re.VERBOSE,
)
_FACTS = re.compile(r'\[(?:\w+=(?:\w+|"(?:[^"\\]|\\.)*")(?:, )?)*\]')


def graph(text: str) -> tuple[set[str], list[tuple[str, str]], int]:
    """Parse Graphviz text of the kind that we write: nodes, edges, and how many clusters."""
    nodes, edges, depth, clusters = set(), [], 0, 0
    for line in text.splitlines():
        found = _STATEMENT.fullmatch(line)
        assert found is not None, line
        depth += bool(found["open"]) - bool(found["close"])
        clusters += bool(found["open"] and "cluster" in found["open"])
        for facts in (found["facts"], (found["edge_facts"] or "").strip()):
            assert not facts or _FACTS.fullmatch(facts), line
        if found["node"]:
            assert found["node"] not in nodes
            nodes.add(found["node"])
        if found["edge"]:
            edges.append(tuple(found["edge"].split(" -> ")))
    assert depth == 0
    return nodes, edges, clusters


def count(program: ft.Program) -> tuple[int, int]:
    """Count nodes and programs, sub-programs included."""
    nodes = (
        len(program.inputs) + len(program.constants) + len(program.equations) + len(program.outputs)
    )
    programs = 1
    for equation in program.equations:
        for name, value in equation.params.items():
            for _, held in sub_programs_of(value, name):
                more = count(held)
                nodes, programs = nodes + more[0], programs + more[1]
    return nodes, programs


def loss(x):
    """Constants, two results, a string among the params."""
    q, r = np.divmod(np.sort(x * np.array([1.0, 2.0, 3.0]), kind="stable"), 0.5)
    return q @ r, r


@pytest.mark.parametrize(
    "f", [loss, lambda x: (), lambda x: (x, x), *WRITTEN.values()], ids=lambda f: f.__name__
)
def test_dot_has_a_node_for_everything_and_a_cluster_for_every_program(f):
    program = ft.trace(f)(X)
    nodes, edges, clusters = graph(program.to_dot())
    assert (len(nodes), clusters) == count(program)
    assert {end for edge in edges for end in edge} <= nodes


def test_dot_edges_connect_producers_to_consumers():
    program = ft.trace(lambda x: np.cos(np.sin(x)) * x)(X)
    _, edges, _ = graph(program.to_dot())
    assert edges == [
        ("p0_0", "p0_1"),
        ("p0_1", "p0_2"),
        ("p0_2", "p0_3"),
        ("p0_0", "p0_3"),
        ("p0_3", "p0_out0"),
    ]


EVIL = '"]; evil [label="<script>alert(1)</script>\\'


def evil():
    """A program whose strings try to get out."""
    program = ft.trace(lambda x: np.sin(ft.checkpoint_name(x, EVIL)))(X)
    vars(program)["name"] = EVIL + "\n}"
    return program


def test_dot_escapes_names_of_a_program():
    nodes, _, _ = graph(evil().to_dot())
    assert "evil" not in nodes and len(nodes) == 4


class _Tags(html.parser.HTMLParser):
    """Collects tags and cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.text = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_data(self, data):
        self.text.append(data)


def read(text: str) -> _Tags:
    """Parse HTML."""
    tags = _Tags()
    tags.feed(text)
    tags.close()
    return tags


@pytest.mark.parametrize("f", [loss, *WRITTEN.values()], ids=lambda f: f.__name__)
def test_html_shows_the_listing_and_the_lines(f):
    program = ft.trace(f)(X)
    found = read(program._repr_html_())
    assert found.tags == {"table", "tr", "td"}
    shown = re.sub(r"\s+", " ", "".join(found.text))
    for equation in program.equations:
        for line in str(equation).splitlines():
            assert re.sub(r"\s+", " ", line.partition("  # ")[0].strip()) in shown
        assert (
            equation.source.short in shown
            and re.sub(r"\s+", " ", equation.source.expression) in shown
        )
    assert program.text(full=False).splitlines()[-2].strip() in shown


def test_html_of_loops_has_a_row_per_line_with_its_source():
    def step(c, x):
        c = np.tanh(c + x)
        return c, c * 2.0

    def f(x):
        carry, ys = ft.scan(step, 0.0, np.sin(x))
        return carry + ys.sum()

    rows = ft.trace(f)(np.ones(3))._repr_html_().splitlines()[1:-1]
    assert all(
        row.startswith("<tr>") and row.endswith("</tr>") for row in rows
    )  # no cell has several lines
    inner = [row for row in rows if "tanh" in row.partition("</td>")[0]]
    assert (
        len(inner) == 1
        and "c = np.tanh(c + x)" in inner[0].partition("</td>")[2]
        and "# " not in inner[0]
    )
    outer = [row for row in rows if "= scan" in row]
    assert len(outer) == 1 and "carry, ys = ft.scan(step, 0.0, np.sin(x))" in outer[0]


def test_html_escapes_names_of_a_program():
    found = read(evil()._repr_html_())
    assert found.tags == {"table", "tr", "td"} and "alert(1)" in "".join(found.text)


def test_long_programs_are_shown_in_part():
    def f(x):
        for _ in range(600):
            x = np.sin(x)
        return x

    assert "100 more equations" in ft.trace(f)(X)._repr_html_()


def test_tables_of_residuals_are_shown_in_notebooks():
    kept = ft.saved_residuals(lambda x: np.sum(np.sin(x) * (x > 0.0)))(X)
    found = read(kept._repr_html_())
    assert found.tags == {"table", "tr", "th", "td"}
    words = str(kept).split()
    assert "".join("".join(found.text).split()) == "".join(words)
    assert read(table(["<b>"], [("<i>\u2028",)])).tags == {"table", "tr", "th", "td"}
