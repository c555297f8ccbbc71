"""README.md tells the truth: its Python blocks run, in order and in one session, and print what is shown below them.

``PYTHONPATH=. python tests/test_readme.py`` writes what they print now into README.md.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def printed_by(code: str, session: dict[str, Any]) -> str:
    """Run a block as a reader would, from a file called readme.py, and return what it prints."""
    linecache.cache["readme.py"] = (len(code), None, code.splitlines(keepends=True), "readme.py")
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(code, "readme.py", "exec"), session)
    finally:
        del linecache.cache["readme.py"]
    return out.getvalue()


def test_readme_blocks_print_what_they_show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {"__name__": "readme"}
    blocks = list(BLOCK.finditer(README.read_text(encoding="utf-8")))
    assert any(block["shown"] for block in blocks)
    for block in blocks:
        assert printed_by(block["code"], session) == (block["shown"] or "")


def test_readme_commands_set_everything_up_themselves() -> None:
    text = README.read_text(encoding="utf-8")
    commands = [line for block in COMMANDS.findall(text) for line in block.splitlines() if not line.startswith("#")]
    main_job, tests = [line for line in commands if line]
    for command in (main_job, tests):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert main_job.endswith("examples/digits.py")
    assert "-m pytest" in tests


def write_outputs() -> None:
    """Replace the outputs that README.md shows by what its blocks print."""
    session: dict[str, Any] = {"__name__": "readme"}

    def renewed(block: re.Match[str]) -> str:
        printed = printed_by(block["code"], session)
        return f"```python\n{block['code']}```\n" + (f"\n```text\n{printed}```\n" if printed else "")

    README.write_text(BLOCK.sub(renewed, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write_outputs()
