"""The word list: docstrings, comments, messages and pages use the field's words, and no other words
for the same things.

A word of the left column fails, with the word to use. ``python -m tests.test_words [PATH ...]``
lists the places and counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
CHECKED = (
    "functrace",
    "docs",
    "examples",
    "benchmarks",
    "tests",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
LEFT_OUT = (
    "docs/measured/",
    "docs/_build/",
    "docs/generated/",
    "docs/gallery/",
    "docs/_ext/",
    "tests/test_words.py",
    "tests/torch/recorded/",
    "tests/peers/torch/scripts/",
)
"""Figures, generated pages, this table of words, and the recorded parity scripts."""

WORDS: dict[str, str] = {
    r"(?<!/)\brooms?\b": "package",
    r"\bfloors\b|\bof the floor\b": "layer",
    r"(?<!loop )\bnests?\b": "pytree",
    r"\basks\b|\basked\b|\banswers?\b|\banswered\b|\bquestions?\b": "reads a concrete value, returns",
    r"\bvalues? (?:is|are) (?:not )?known\b": "concrete values",
    r"\bmet\b|\bcomes often\b": "traced, encountered; is hot",
    r"\bfirst sight\b|\bat sight\b": "baseline tier",
    r"\bclosed functions?\b": "replayed function",
    r"\bgiven values?\b": "precomputed value",
    r"\bheld (?:program|bod)|\bprograms? held\b": "sub-program",
    r"\bin line\b|\bwritten out\b": "inlined, generated code",
    r"\bloops? in parts\b": "loop fission",
    r"\blate values?\b": "sinking",
    r"\bcomputed again\b|\bcomputes again\b": "rematerialized, recomputed",
    r"\bcommon operations\b": "common subexpressions",
    r"\bnobody reads\b|\bsomebody reads\b": "dead, live",
    r"\blet go\b|\blets go\b|\bdies\b": "freed; last use",
    r"\blies\b|\blie in (?:order|memory)\b": "memory layout, strides",
    r"\bparted\b": "divergent",
    r"\bfacts\b": "properties, memo table",
    r"\bsentences?\b": "error message",
    r"\bhanded on\b|\bhands on\b|\blent\b": "forwarded, aliased",
    r"\b\w+'s face\b": "API layer, compatibility layer",
    r"\bsurroundings\b": "closure, globals",
    r"\bearned\b|\bpays\b|\bworth a thought\b": "amortized, profitable",
    r"\bdear\b|\bcheap calls?\b": "expensive, low overhead",
    r"\bkin\b": "related functions",
    r"\btakes? (?:a|one) (?:third|half|quarter|tenth)\b|\b(?:a third|half) of the time\b": "3x faster",
}
"""Word, and what it is called instead."""

NAMES = frozenset(
    [
        "answer",
        "answered",
        "answers",
        "ask",
        "asked",
        "asks",
        "fact",
        "facts",
        "kin",
        "lent",
        "parted",
        "question",
        "questions",
        "sentence",
        "sentences",
        "surroundings",
        "told",
    ]
)
"""Old words that are no names of variables, functions or attributes of the package."""

OPENINGS = re.compile(r"(?:What|Whether|Of|So many|Who|Whose|Those|How) \w")
"""How no docstring begins."""

_WORD = re.compile(
    "|".join(f"(?P<w{k}>{pattern})" for k, pattern in enumerate(WORDS)), re.IGNORECASE
)
_COMMENT = re.compile(
    r"""(?s:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3})"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>\#[^\n]*)"""
)
"""Strings, and comments outside of them: a tenth of the time of `tokenize`."""
_CODE = re.compile(r"```.*?```|``[^`]*``|`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>", re.DOTALL)


class Found(NamedTuple):
    """A place with a word that has another name."""

    file: str
    line: int
    word: str
    instead: str


def texts_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """The prose of a file: line, text, and whether it is a docstring."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, source, False
        return
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.lineno, node.value.value, True
        elif isinstance(node, ast.Raise) and node.exc is not None:
            for part in ast.walk(node.exc):
                if (
                    isinstance(part, ast.Constant)
                    and isinstance(part.value, str)
                    and " " in part.value
                ):
                    yield part.lineno, part.value, False
    for match in _COMMENT.finditer(source):
        if match["comment"]:
            yield source.count("\n", 0, match.start()) + 1, match["comment"], False


def blank(match: re.Match[str]) -> str:
    """Code is no prose: the same number of lines without words."""
    return "`" + "\n" * match[0].count("\n")


def found_in(path: Path) -> Iterator[Found]:
    """The places of a file."""
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    for line, text, is_docstring in texts_of(path):
        prose = _CODE.sub(blank, text)
        prose = "\n".join(
            "" if part.lstrip().startswith((">>>", "...")) else part for part in prose.split("\n")
        )
        if is_docstring and OPENINGS.match(text):
            yield Found(name, line, text.split("\n")[0][:60], "an imperative, or a noun phrase")
        for match in _WORD.finditer(prose):
            instead = list(WORDS.values())[int(match.lastgroup[1:])] if match.lastgroup else ""
            yield Found(name, line + prose.count("\n", 0, match.start()), match[0], instead)


def files(places: tuple[str, ...] = CHECKED) -> list[Path]:
    """The files that are checked."""
    chosen: list[Path] = []
    for place in places:
        path = ROOT / place
        chosen += (
            [path] if path.is_file() else [p for p in path.rglob("*") if p.suffix in (".py", ".md")]
        )
    return sorted(
        p
        for p in chosen
        if not str(p.relative_to(ROOT)).startswith(LEFT_OUT) and "__pycache__" not in p.parts
    )


@pytest.mark.parametrize("place", CHECKED)
def test_words_are_the_fields(place: str) -> None:
    found = [x for path in files((place,)) for x in found_in(path)]
    assert not found, "\n".join(f"{x.file}:{x.line}: {x.word!r}: {x.instead}" for x in found)


def test_the_check_finds_words(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A nest of arrays.\n`nest` and a loop nest\n```\nnest\n```\n", encoding="utf-8")
    assert [(x.line, x.word, x.instead) for x in found_in(page)] == [(1, "nest", "pytree")]
    module = tmp_path / "module.py"
    module.write_text(
        '"""Whether it lies."""\n# comes often\nraise ValueError("what nobody reads")\n',
        encoding="utf-8",
    )
    assert [x.word for x in found_in(module)] == [
        "Whether it lies.",
        "lies",
        "nobody reads",
        "comes often",
    ]


def main(arguments: list[str]) -> int:
    """List the places, and count the words."""
    chosen = [Path(a).resolve() for a in arguments]
    listed = [x for path in chosen or [None] for x in _listed(path)]
    for x in listed:
        print(f"{x.file}:{x.line}: {x.word!r}: {x.instead}")
    for word, count in Counter(
        x.word.lower() if " " not in x.word or len(x.word) < 25 else "(opening)" for x in listed
    ).most_common():
        print(f"{count:6} {word}")
    return 1 if listed else 0


def _listed(path: Path | None) -> list[Found]:
    if path is None:
        return [x for p in files() for x in found_in(p)]
    if path.is_file():
        return [*found_in(path)]
    return [
        x
        for p in sorted(path.rglob("*"))
        if p.suffix in (".py", ".md") and "__pycache__" not in p.parts
        for x in found_in(p)
    ]


def test_names_are_the_fields() -> None:
    found = []
    for path in sorted((ROOT / "functrace").rglob("*.py")):
        code = _COMMENT.sub(blank, path.read_text(encoding="utf-8"))
        for match in re.finditer(r"\w+", code):
            if match[0].strip("_") in NAMES:
                line = code.count("\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {match[0]}")
    assert not found, "\n".join(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
