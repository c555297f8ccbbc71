"""README.md tells the truth: its Python blocks run, in order and in one session, and print what is shown below them."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, int]]:
    """Return language, text and first line number of every fenced block."""
    text = README.read_text(encoding="utf-8")
    return [(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in BLOCK.finditer(text)]


def test_readme_blocks_print_what_they_show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found, session, shown = blocks(), {"__name__": "readme"}, 0
    for k, (language, source, line) in enumerate(found):
        if language != "python":
            continue
        # The lines of the block, where the listing of a program looks for them.
        filename = "readme.py"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, filename, "exec"), session)
        follows = found[k + 1] if k + 1 < len(found) else ("", "", 0)
        expected = follows[1] if follows[0] == "text" else ""
        assert printed.getvalue().rstrip() == expected.rstrip(), f"the block at README.md:{line} prints something else"
        shown += bool(expected)
    linecache.cache.pop("readme.py", None)
    assert shown, "README.md shows no example with its output"


def test_readme_commands_set_everything_up_themselves() -> None:
    commands = [line for language, text, _ in blocks() if language == "bash" for line in text.splitlines()]
    venvs = [line for line in commands if line.startswith("python3 -m venv ")]
    assert len(venvs) == 2
    assert "examples/digits.py" in venvs[0]
    assert "-m pytest" in venvs[1]
