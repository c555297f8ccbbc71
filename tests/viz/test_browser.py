"""The page in headless Chromium: it draws the program without errors, opens boxes, and stays usable
for programs of thousands of operations. Without Chromium, these tests are skipped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.stages import ProgramPage

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1400,900", "--virtual-time-budget=60000", "--dump-dom",
)  # fmt: skip

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.full,
]

BEFORE = """
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => problems.push("blocked " + event.violatedDirective));
"""
AFTER = """
const answer = document.createElement("pre");
answer.id = "answer";
try { answer.textContent = JSON.stringify({ value: (() => { %s })(), problems }); }
catch (error) { answer.textContent = JSON.stringify({ value: null, problems: [...problems, String(error)] }); }
document.body.append(answer);
"""


def run(page: ProgramPage, folder: Path, code: str) -> Any:
    """Return what JavaScript code returns on a page, which must have no errors."""
    assert CHROMIUM is not None
    html = page.html
    start = html.index("<style>")
    html = f"{html[:start]}<script>{BEFORE}</script>{html[start:]}"
    end = html.rindex("</body>")
    html = f"{html[:end]}<script>{AFTER % code}</script>{html[end:]}"
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", path.as_uri()],
        capture_output=True,
        timeout=300,
        check=True,
    )
    found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert found is not None, done.stderr.decode()[-2000:]
    answer = json.loads(unescape(found[1]))
    assert answer["problems"] == []
    return answer["value"]


X, W = np.linspace(0.1, 1.0, 6).reshape(2, 3), np.linspace(-0.5, 0.5, 12).reshape(3, 4)


def network(w: Any, x: Any) -> Any:
    h = np.tanh(x @ w)
    return np.sum(h**2)


def scanned(x: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        c = np.sin(c) * a
        return c, np.sum(c)

    c, sums = ft.scan(step, x, np.arange(5.0))
    return np.sum(c) + np.sum(sums)


def test_every_operation_can_be_seen(tmp_path: Path) -> None:
    page = ft.show(ft.value_and_grad(scanned), X, profile=True, seconds=0.0)
    shown = run(
        page,
        tmp_path,
        """
        const first = document.body.dataset.ready;
        FT.expandAll();
        const ops = FT.graph.boxes.filter(({ item }) => item.kind === "op").map(({ item }) => item.key);
        const sizes = FT.graph.boxes.map(({ node }) => node.getBoundingClientRect());
        const tabs = Object.keys(FT.tabs).map((name) => {
          FT.showTab(name);
          return document.getElementById("panel").textContent;
        });
        return { first, ops, tabs, finite: sizes.every(({ width, height }) => width > 0 && height > 0),
          title: document.getElementById("title").textContent };
        """,
    )
    expected = [
        f"o{n}:{k}" for n, part in enumerate(page.data["programs"]) for k in range(len(part["ops"]))
    ]
    assert shown["first"] == "1" and shown["finite"]
    assert sorted(shown["ops"]) == sorted(expected)
    assert shown["title"] == page.title
    details, residuals, profile, policies, listing = shown["tabs"]
    for op in page.data["programs"][0]["ops"]:
        assert op["text"] in listing
    for residual in page.data["residuals"]:
        assert residual["why"] in residuals
    assert "per run of jit" in profile and "No residual policy" in policies and details


def test_boxes_and_source_lines_light_each_other(tmp_path: Path) -> None:
    page = ft.show(ft.grad(network), W, X)
    found = run(
        page,
        tmp_path,
        """
        FT.expandAll();
        const { item, node } = FT.graph.boxes.find(({ item }) => item.kind === "op" && item.op.p === "tanh");
        const lit = () => [...FT.rows.values()].filter((row) => row.classList.contains("lit")).map((row) => row.textContent);
        node.dispatchEvent(new MouseEvent("mouseenter", { clientX: 9, clientY: 9 }));
        const lines = lit();
        const tip = document.getElementById("tip").textContent;
        node.dispatchEvent(new MouseEvent("mouseleave"));
        const none = lit();
        const row = FT.rows.get(FT.lineKey(item.op.at));
        row.dispatchEvent(new MouseEvent("mouseenter"));
        const boxes = FT.graph.boxes.filter(({ node }) => node.classList.contains("lit")).map(({ item }) => item.key);
        row.dispatchEvent(new MouseEvent("mouseleave"));
        node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        return { lines, none, tip, boxes, panel: document.getElementById("panel").textContent };
        """,
    )
    (line,) = found["lines"]
    assert "h = np.tanh(x @ w)" in line
    assert found["none"] == []
    (program,) = page.data["programs"]
    tanh = next(op for op in program["ops"] if op["p"] == "tanh")
    assert found["tip"].startswith(tanh["text"]) and tanh["text"] in found["panel"]
    assert sorted(found["boxes"]) == sorted(
        f"o0:{k}" for k, op in enumerate(program["ops"]) if op["at"] == tanh["at"]
    )


def test_opening_closing_and_searching(tmp_path: Path) -> None:
    page = ft.show(ft.grad(scanned), X)
    found = run(
        page,
        tmp_path,
        """
        document.getElementById("collapse").click();
        const closed = FT.graph.boxes.length;
        const { node, item } = FT.graph.boxes.find(({ item }) => item.opens);
        node.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
        const open = FT.graph.boxes.length;
        const again = FT.graph.boxes.find(({ item: other }) => other.key === item.key);
        again.node.querySelector("text.open").dispatchEvent(new MouseEvent("click", { bubbles: true }));
        const closedAgain = FT.graph.boxes.length;
        const field = document.getElementById("search");
        field.value = "sin";
        field.dispatchEvent(new Event("input"));
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        const { scale } = FT.graph.view;
        const wheel = new WheelEvent("wheel", { deltaY: -200, clientX: 600, clientY: 300 });
        document.getElementById("graph").dispatchEvent(wheel);
        return { closed, open, closedAgain, selected: FT.selected.op.text, zoom: FT.graph.view.scale / scale };
        """,
    )
    assert found["open"] > found["closed"] == found["closedAgain"]
    assert " sin " in found["selected"]
    assert 1.3 < found["zoom"] < 1.4


def test_a_program_of_two_thousand_operations(tmp_path: Path) -> None:
    def unrolled(x: Any) -> Any:
        for _ in range(400):
            h = np.tanh(x)
            x = np.exp(-h) * x
        return np.sum(x)

    page = ft.show(ft.grad(unrolled), np.ones(4))
    count = page.data["totals"]["operations"]
    assert count > 2000
    found = run(
        page,
        tmp_path,
        f"""
        const boxes = FT.graph.boxes.length;
        FT.select(FT.reveal(0, {count // 2}));
        const opened = FT.graph.boxes.length;
        FT.expandAll();
        return {{ boxes, opened, expanded: FT.graph.boxes.length, key: FT.selected.key }};
        """,
    )
    assert found["boxes"] <= 80
    assert found["opened"] <= 400
    assert found["expanded"] <= 1000
    assert found["key"] == f"o0:{count // 2}"


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    from tests.viz.test_show import HOSTILE, function_from

    file = str(tmp_path / "x<b>.py")
    f = function_from(f"def f(x):\n    return np.sin(x) * x  # {HOSTILE}\n", file)
    f.__name__ = f.__qualname__ = HOSTILE
    page = ft.show(ft.grad(f), X[0, 0])
    found = run(
        page,
        tmp_path,
        """
        FT.expandAll();
        for (const name of Object.keys(FT.tabs)) FT.showTab(name);
        const bold = document.querySelectorAll("h2 b").length;
        return { scripts: document.scripts.length, images: document.images.length, bold,
          source: document.getElementById("source").textContent };
        """,
    )
    assert (found["scripts"], found["images"], found["bold"]) == (9, 0, 0)
    assert "</script><script>alert(1)</script>" in found["source"]


def test_an_empty_program(tmp_path: Path) -> None:
    page = ft.show(lambda x: x, 1.0)
    assert run(page, tmp_path, "return FT.graph.boxes.length") == 2
