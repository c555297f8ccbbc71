"""``ft.show``: the data of a page is the program, its source and its residuals; the page is one file
that no text of a program can break."""

from __future__ import annotations

import json
import linecache
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, ConcretizationError, ShapeError
from functrace.ir.check import sub_programs_of
from functrace.stages import ProgramPage

X = np.linspace(0.1, 1.0, 6).reshape(2, 3)
W = np.linspace(-0.5, 0.5, 12).reshape(3, 4)


def network(w: Any, x: Any) -> Any:
    h = np.tanh(x @ w)
    return np.sum(h**2)


def scanned(w: Any, x: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        c = np.sin(c) * a
        return c, np.sum(c)

    c, sums = ft.scan(step, x, np.arange(5.0))
    return np.sum(c) + np.sum(sums) * np.sum(w)


def chosen(w: Any, x: Any) -> Any:
    return ft.cond(np.sum(x) > 0, lambda: np.sum(x @ w), lambda: np.sum(x))


def branching(w: Any, x: Any) -> Any:
    return np.sum(np.exp(x)) if np.sum(x) > 0 else np.sum(w)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plain": network,
    "grad": ft.grad(network),
    "grad of scan": ft.grad(scanned, argnums=(0, 1)),
    "cond": ft.value_and_grad(chosen),
    "checkpoint": ft.grad(ft.checkpoint(network)),
    "jit": ft.jit(ft.grad(network)),
    "vmap": lambda w, x: ft.vmap(ft.grad(network), in_axes=(None, 0))(w, x[:, None]),
    "hessian": ft.hessian(network),
    "python branch": ft.grad(branching),
}


class Elements(HTMLParser):
    """Collects the elements of a page, and the text of each script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.comments: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def parsed(page: ProgramPage) -> Elements:
    elements = Elements()
    elements.feed(page.html)
    elements.close()
    return elements


def data_in(page: ProgramPage) -> Any:
    (text,) = [
        text
        for text, (_, attributes) in zip(
            parsed(page).scripts, [t for t in parsed(page).tags if t[0] == "script"], strict=True
        )
        if attributes.get("type") == "application/json"
    ]
    return json.loads(text)


def programs_in(program: ft.Program) -> list[ft.Program]:
    """The program and its sub-programs, in the order of the data."""
    found = [program]
    for equation in program.equations:
        for name, value in equation.params.items():
            for _, inner in sub_programs_of(value, name):
                found += programs_in(inner)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_data_of_the_page_is_the_program(name: str) -> None:
    page = ft.show(FUNCTIONS[name], W, X)
    page.program.check()
    data = data_in(page)
    programs = programs_in(page.program)
    assert len(data["programs"]) == len(programs)
    for shown, program in zip(data["programs"], programs, strict=True):
        assert shown["name"] == program.name
        assert shown["vars"] == [
            [var.name, str(var.aval), var.aval.nbytes] for var in program.variables
        ]
        assert shown["inputs"] == list(program.input_ids)
        assert shown["outputs"] == list(program.output_ids)
        assert [k for k, _ in shown["constants"]] == list(program.constant_values)
        ids = {id(var): i for i, var in enumerate(program.variables)}
        assert len(shown["ops"]) == len(program.equations)
        costs = program.cost().equations
        for op, equation, cost in zip(shown["ops"], program.equations, costs, strict=True):
            assert op["p"] == equation.primitive.name
            assert op["in"] == [ids[id(x)] for x in equation.inputs if id(x) in ids]
            assert op["out"] == [ids[id(x)] for x in equation.outputs]
            assert (op["flops"], op["bytes"]) == (cost.flops, cost.bytes)
            place = data["sources"]["places"][op["at"]] if op["at"] >= 0 else None
            if equation.source is None:
                assert place is None
            else:
                assert place is not None
                file = data["sources"]["files"][place[0]]
                assert file["name"] == os.path.basename(equation.source.file)
                assert place[1] == equation.source.line
                text = dict(file["lines"])[place[1]]
                assert text.strip() == equation.source.expression
    assert data["totals"]["flops"] == page.program.cost().flops


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_program_computes_the_function(name: str) -> None:
    f = FUNCTIONS[name]
    page = ft.show(f, W, X)
    found = ft.evaluate(page.program, W, X)
    for a, b in zip(ft.tree.flatten(found)[0], ft.tree.flatten(f(W, X))[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_page_refers_to_nothing_outside() -> None:
    page = ft.show(ft.grad(network), W, X)
    elements = parsed(page)
    for tag, attributes in elements.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attributes and "href" not in attributes
    (policy,) = [
        a["content"] for _, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None and policy.startswith("default-src 'none'")
    urls = set(re.findall(r"https?://[^\s\"'`)]+", page.html))
    assert urls <= {"http://www.w3.org/2000/svg"}
    assert any("Chris Pettitt" in comment and "MIT" in comment for comment in elements.comments)


def test_residuals_are_the_forward_values_that_the_reverse_pass_reads() -> None:
    page = ft.show(ft.grad(network), W, X)
    (program,) = page.data["programs"]
    makers = {i: op for op in program["ops"] for i in op["out"]}
    read: dict[int, set[int]] = {}
    for k, op in enumerate(program["ops"]):
        if op["role"] == "r":
            for i in op["in"]:
                if i not in makers or makers[i]["role"] != "r":
                    read.setdefault(i, set()).add(k)
    found = {r["var"]: r for r in page.data["residuals"]}
    assert {i: set(r["readers"]) for i, r in found.items()} == read
    kept = [r for r in found.values() if r["kept"]]
    assert {r["bytes"] for r in kept} == {2 * 4 * 8}
    assert [r["what"] for r in found.values() if not r["kept"]] == ["argument x"]
    # the library's own list, from another route: `linearize`, which saves the input's transpose too
    listed = ft.saved_residuals(network)(W, X)
    assert page.data["totals"]["residuals"] == sum(
        r.nbytes for r in listed if not r.made.startswith("argument")
    )
    assert all(re.fullmatch(r"derivative of .+ at test_show.py:\d+", r["why"]) for r in kept)


def test_the_memory_timeline_is_that_of_running_it_operation_by_operation() -> None:
    page = ft.show(ft.grad(network), W, X)
    program = page.program
    uses = {i: k for k, (_, operands, _) in enumerate(program.ops) for i in operands if i >= 0}
    makers = program.equation_ids
    expected = []
    for k in makers:
        alive = [
            i
            for i in makers
            if i <= k
            and (i in program.output_ids or uses[i] >= k or i == k)
            and not program.ops[i][0].view
        ]
        expected.append(sum(program.avals[i].nbytes for i in alive))
    memory = page.data["memory"]
    assert memory["during"] == expected
    assert memory["peak"] == max(expected)


def test_bytes_of_residuals_are_held_from_their_operation_to_their_last_reader() -> None:
    def loss(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(x) * np.exp(x)
        return np.sum(x)

    data = ft.show(ft.grad(loss), np.ones(5)).data
    residuals = [r for r in data["residuals"] if r["kept"]]
    assert len(residuals) >= 6
    place = {op: n for n, op in enumerate(data["memory"]["ops"])}
    ops = data["programs"][0]["ops"]
    expected = [0] * len(place)
    for r in residuals:
        readers = [k for k, op in enumerate(ops) if r["var"] in op["in"]]
        for n in range(place[r["made"]], max(place[k] for k in readers) + 1):
            expected[n] += r["bytes"]
    assert data["memory"]["kept"] == expected


def test_memory_of_a_loop_has_the_peak_of_its_body() -> None:
    x = np.ones(1000)

    def body(c: Any, _: Any) -> Any:
        return np.sum(np.outer(c, c), 1) * 1e-3, None

    page = ft.show(lambda x: ft.scan(body, x, np.zeros(3))[0], x)
    assert page.data["memory"]["peak"] > 8_000_000
    assert page.data["programs"][1]["runs"] == 3


def test_policies_are_listed() -> None:
    def loss(w: Any, x: Any) -> Any:
        return np.sum(np.sin(ft.checkpoint_name(x @ w, "hidden")))

    named = ft.policies.save_names("hidden")
    page = ft.show(ft.checkpoint(loss, policy=named), W, X)
    assert [row["text"] for row in page.data["policies"]] == [
        "save_names('hidden')", "name 'hidden'",
    ]  # fmt: skip
    halved = ft.policies.pack(lambda x: x.astype(np.float32), lambda x: x.astype(np.float64))
    packed = ft.show(ft.checkpoint(loss, policy=halved), W, X)
    assert packed.data["policies"][0]["text"].startswith("pack(")
    gradient = ft.show(ft.grad(ft.checkpoint(loss)), W, X)
    assert "recompute" in {row["text"] for row in gradient.data["policies"]}
    assert "c" in {op["role"] for part in gradient.data["programs"] for op in part["ops"]}


# -- arguments -------------------------------------------------------------------------------------


def test_shapes_and_programs() -> None:
    shapes = [ft.ShapeDtype(a.shape) for a in (W, X)]
    page = ft.show(ft.grad(network), *shapes)
    assert page.program == ft.show(ft.grad(network), W, X).program
    assert ft.show(page.program).program is page.program
    assert ft.show(page.program, W, X, profile=True, seconds=0.0).profile is not None


def test_keyword_arguments_and_pytrees() -> None:
    page = ft.show(lambda p, *, x: np.sum(p["w"] @ x.T), {"w": np.ones((2, 3))}, x=X)
    assert [page.program.variables[i].name for i in page.program.input_ids] == ["p_w", "x"]


def test_wrong_arguments() -> None:
    program = ft.trace(network)(W, X)
    with pytest.raises(ShapeError, match="2 inputs, but 1"):
        ft.show(program, W)
    with pytest.raises(ShapeError, match="argument x"):
        ft.show(program, W, W)
    with pytest.raises(ArgumentError, match="keyword"):
        ft.show(program, x=X)
    with pytest.raises(ArgumentError, match="needs arrays"):
        ft.show(program, profile=True)
    with pytest.raises(ArgumentError, match="needs arrays"):
        ft.show(network, ft.ShapeDtype((3, 4)), X, profile=True)
    with pytest.raises(ArgumentError, match="is traced"):
        ft.grad(lambda x: (ft.show(np.sin, x), np.sum(x))[1])(X)
    with pytest.raises(ConcretizationError):
        ft.show(branching, ft.ShapeDtype((3, 4)), ft.ShapeDtype((2, 3)))
    assert ft.grad(network)(W, X).shape == W.shape  # nothing is left open


def test_a_profile_has_times_by_line_and_operation() -> None:
    page = ft.show(ft.grad(network), W, X, profile=True, seconds=0.0)
    assert page.profile is not None
    data = page.data["profile"]
    assert [row["text"] for row in data["rows"]] == [row.text for row in page.profile.rows]
    assert {line[0] for line in data["lines"]} == {line.place for line in page.profile.lines}


# -- files -----------------------------------------------------------------------------------------


def test_saving(tmp_path: Path) -> None:
    path = tmp_path / "step.html"
    page = ft.show(ft.grad(network), W, X, path=path)
    assert path.read_text(encoding="utf-8") == page.html
    path.write_text("old")
    page.save(path)
    assert path.read_text(encoding="utf-8") == page.html
    assert os.listdir(tmp_path) == ["step.html"]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "step.html"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        ft.show(network, W, X, path=path)
    assert os.listdir(tmp_path) == ["step.html"]
    assert path.read_text() == "old"
    with pytest.raises(OSError, match="No such file"):
        ft.show(network, W, X, path=tmp_path / "none" / "step.html")


# -- untrusted text --------------------------------------------------------------------------------

HOSTILE = (
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \u2028 \u202e'\"`${x}"
)


def function_from(text: str, file: str, *, cached: bool = True) -> Callable[..., Any]:
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), scope)
    if cached:
        lines = [line + "\n" for line in text.split("\n")]
        linecache.cache[file] = (len(text), None, lines, file)
    return scope["f"]


def test_hostile_names_and_source_lines(tmp_path: Path) -> None:
    file = str(tmp_path / "x<!--<script>.py")
    f = function_from(f"def f(x):\n    return np.sin(x)  # {HOSTILE}\n", file)
    f.__name__ = f.__qualname__ = HOSTILE
    try:
        page = ft.show(f, 1.0)
    finally:
        linecache.cache.pop(file, None)
    plain = parsed(ft.show(network, W, X))
    elements = parsed(page)
    assert [t for t, _ in elements.tags] == [t for t, _ in plain.tags]
    assert len(elements.comments) == len(plain.comments)
    assert not any("onerror" in attributes for _, attributes in elements.tags)
    data = data_in(page)
    line = dict(data["sources"]["files"][0]["lines"])[2]
    assert "</script><script>alert(1)</script>" in line
    assert "\u202e" not in line and "\u2028" not in page.html and "\u202e" not in page.html
    assert data["sources"]["files"][0]["name"] == "x<!--<script>.py"
    small = Elements()
    small.feed(page._repr_html_())
    assert not {"script", "img"} & {tag for tag, _ in small.tags}


def test_unicode_names() -> None:
    def größe(ψ: Any) -> Any:
        λ = np.sin(ψ) * 2.0
        return np.sum(λ)

    page = ft.show(ft.grad(größe), X)
    data = data_in(page)
    assert "größe" in data["title"]
    assert any("λ = np.sin(ψ)" in text for _, text in data["sources"]["files"][0]["lines"])


def test_source_that_is_missing() -> None:
    text = "def f(x):\n    return np.sin(x) * np.exp(x)\n"
    f = function_from(text, "<ipython-input-1>", cached=False)
    page = ft.show(ft.grad(f), 1.0)
    (file,) = data_in(page)["sources"]["files"]
    assert file["name"] == "<ipython-input-1>"
    assert all(text == "" for _, text in file["lines"])
    reasons = [r["why"] for r in page.data["residuals"]]
    assert reasons and all(why.endswith(" at <ipython-input-1>:2") for why in reasons)


def test_programs_without_positions_and_from_text(tmp_path: Path) -> None:
    program = ft.trace(network)(W, X)
    page = ft.show(ft.Program.parse(program.text()))
    (file,) = data_in(page)["sources"]["files"]
    assert all(text == "" for _, text in file["lines"])  # the name has no directory: not opened
    secret = tmp_path / "secret.py"
    secret.write_text("one = 1\ntwo = 2\nthree = 3\n")
    text = "p(x: f64[]) {\n  a: f64[] = sin x  # secret.py:2\n  return a\n}"
    loaded = ft.Program.from_json(ft.Program.parse(text).to_json(), root=str(tmp_path))
    lines = [line for f in ft.show(loaded).data["sources"]["files"] for line in f["lines"]]
    assert all(n == 2 for n, _ in lines)  # only the line itself, nothing around it


def test_constants_are_not_written_out() -> None:
    big = np.arange(1_000_000.0)
    page = ft.show(lambda x: x * big + np.array([1.5, 2.5])[0] + np.nan * np.inf, np.float64(1.0))
    assert len(page.html) < 250_000
    values = [text for part in page.data["programs"] for _, text in part["constants"]]
    assert "…" in values
    index = np.arange(5000)
    page = ft.show(lambda x: x[index % 7], np.ones(7))
    assert len(page.html) < 250_000


def test_infinite_numbers_are_valid_json() -> None:
    page = ft.show(lambda x: x * np.inf + np.array([np.nan, -np.inf]), np.ones(2))
    data_in(page)


def test_an_empty_program() -> None:
    page = ft.show(lambda x: x, 1.0)
    data = data_in(page)
    assert data["programs"][0]["ops"] == [] and data["memory"]["during"] == []
    assert page._repr_html_()


def test_operations_without_a_result_are_marked() -> None:
    def f(x: Any) -> Any:
        np.cos(x)
        return np.sin(x)

    ops = {op["p"]: op for op in ft.show(f, 1.0).data["programs"][0]["ops"]}
    assert ops["cos"]["unused"] and "unused" not in ops["sin"]


def test_the_small_form() -> None:
    page = ft.show(ft.grad(network), W, X)
    small = Elements()
    small.feed(page._repr_html_())
    assert "script" not in {tag for tag, _ in small.tags}
    assert "h = np.tanh(x @ w)" in page._repr_html_()
    assert "ProgramPage" in repr(page)


def test_a_large_program_is_collapsed() -> None:
    def unrolled(x: Any) -> Any:
        for _ in range(400):
            h = np.tanh(x)
            x = np.exp(-h) * x
        return np.sum(x)

    page = ft.show(ft.grad(unrolled), np.ones(4))
    assert page.data["totals"]["operations"] > 2000
    assert len(page.data["programs"][0]["groups"]) <= 20


def test_a_page_has_no_links_between_values_and_recomputed_ones() -> None:
    step = ft.checkpoint(lambda c: np.sin(c) * np.exp(c))
    f = lambda x: np.sum(ft.scan(lambda c, _: (step(c), None), x, None, length=3)[0] + step(x))
    assert "derivative_only" in str(ft.trace(ft.grad(f))(np.ones(3)))
    data = ft.show(ft.grad(f), np.ones(3)).data
    names = {op["p"] for part in data["programs"] for op in part["ops"]}
    assert "call" in names and names.isdisjoint({"derivative_only", "with_derivative"})
    assert not any("broadcast_to" in row["what"] for row in data["residuals"])
