"""README.md and the pages in docs/ tell the truth: their Python blocks run, in order and in one
session per page, and print what is shown below them; and what they link to is there.

``python -m tests.test_readme`` writes what they print now into the pages. A page whose blocks add
to functrace's tables runs in a process of its own: ``python -m tests.test_readme
docs/architecture.md`` checks one.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
ARCHITECTURE = DOCS / "architecture.md"
BACKENDS = (
    DOCS / "backends.md"
)  # needs packages of the extra `bench`: tests/peers/packages checks it
ELSEWHERE = {
    ARCHITECTURE,  # in a process of its own, below
    BACKENDS,
    DOCS / "own_transform.md",  # tests/test_interpreter.py uses what it defines
    DOCS
    / "torch_coverage.md",  # written from functrace/torch/differences.py, whose examples tests run on both sides
}
WRITTEN = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
PAGES = [
    README,
    *(
        page
        for page in WRITTEN
        if page not in ELSEWHERE and "```python" in page.read_text(encoding="utf-8")
    ),
]
LINKED = [
    README,
    *[ROOT / f"{name}.md" for name in ("CONTRIBUTING", "CHANGELOG", "RELEASING", "SECURITY")],
    *WRITTEN,
]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def printed_by(code: str, session: dict[str, Any]) -> str:
    """Run a block as a reader would, from a file called like the page, and return what it prints."""
    name = f"{session['__name__']}.py"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(code, name, "exec", dont_inherit=True), session)
    finally:
        del linecache.cache[name]
    return out.getvalue()


def session_of(page: Path) -> dict[str, Any]:
    return {"__name__": page.stem.lower()}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_print_the_shown_output(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if re.search(r"^(?:from|import) jax\b", page.read_text(encoding="utf-8"), re.MULTILINE):
        pytest.importorskip("jax", reason="jax is not installed")
    monkeypatch.chdir(tmp_path)
    check_blocks(page)


def check_blocks(page: Path) -> None:
    session = session_of(page)
    blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))
    assert any(block["shown"] for block in blocks)
    for block in blocks:
        assert printed_by(block["code"], session) == (block["shown"] or "")


def test_examples_of_the_architecture_page_run() -> None:
    command = [sys.executable, "-m", "tests.test_readme", str(ARCHITECTURE)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def names_in(path: Path) -> Iterator[str]:
    """The names that a file defines: functions, classes, their methods, and assigned names."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            )
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                name.id
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            )


@pytest.mark.parametrize("page", sorted(set(LINKED)), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for label, target in re.findall(
        r"\[`?([^\]`]+)`?\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")
    ):
        if "://" in target:
            continue
        path = (page.parent / target).resolve()
        if path.parent == DOCS / "gallery":  # the site makes its pages of the examples
            path = (
                ROOT
                / "examples"
                / ("GALLERY_HEADER.rst" if path.stem == "index" else f"{path.stem}.py")
            )
            label = path.name
        assert path.exists(), f"{page.name} links to {target}"
        if path.suffix == ".py" and not label.endswith(".py"):
            assert label in names_in(path), f"{page.name}: {label} is not in {target}"


def test_readme_commands_set_everything_up_themselves() -> None:
    text = README.read_text(encoding="utf-8")
    commands = [
        line
        for block in COMMANDS.findall(text)
        for line in block.splitlines()
        if not line.startswith("#")
    ]
    main_job, tests = [line for line in commands if line]
    for command in (main_job, tests):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert main_job.endswith("examples/digits.py")
    assert "-m pytest" in tests


def write_outputs(page: Path) -> None:
    """Replace the outputs that a page shows by what its blocks print."""
    session = session_of(page)

    def renewed(block: re.Match[str]) -> str:
        printed = printed_by(block["code"], session)
        return f"```python\n{block['code']}```\n" + (
            f"\n```text\n{printed}```\n" if printed else ""
        )

    page.write_text(BLOCK.sub(renewed, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for named in sys.argv[1:]:
        check_blocks(Path(named))
    for page in [] if sys.argv[1:] else [*PAGES, ARCHITECTURE, BACKENDS]:
        write_outputs(page)
