"""A sample of the mutated texts (`python -m tests.fuzz.texts` makes many), and that it would see
what it looks for.
"""

from __future__ import annotations

import json

import pytest

import functrace as ft
from functrace import source
from functrace.errors import ParseError
from functrace.ir import load
from functrace.source import SourceLine
from tests.fuzz import texts

pytestmark = pytest.mark.full  # the texts are of the programs of all cases


@pytest.mark.parametrize("part", range(4))
def test_mutated_texts_are_refused_or_keep_every_promise(part):
    shown: list[str] = []
    counts, failed = texts.run(7, range(part * 100, part * 100 + 100), shown.append)
    assert not failed, shown
    assert counts["run"] > 2 and counts["refused"] > 20


def test_unchanged_texts_are_read():
    for program in texts.corpus()[:: len(texts.corpus()) // 40]:
        assert texts.outcome(ft.Program.parse, program.text()) in ("read", "run")
        assert texts.outcome(ft.Program.from_json, program.to_json()) in ("read", "run")


def test_injected_code_would_be_detected(monkeypatch):
    text = next(t for t in texts.documents() if '"source": ["' in t)
    data = json.loads(text)
    next(e for e in data["equations"] if "source" in e)["source"][0] = f"a\n    {texts.CODE} #"
    text = json.dumps(data)
    assert texts.outcome(ft.Program.from_json, text) == "refused"
    monkeypatch.setattr(load, "place", lambda *parts, root: SourceLine(*parts))
    assert texts.outcome(ft.Program.from_json, text) in (
        "read",
        "run",
    )  # the writers escape it, too
    monkeypatch.setattr(source, "printable", lambda text: text)
    with pytest.raises((AssertionError, ParseError)):
        texts.outcome(ft.Program.from_json, text)
