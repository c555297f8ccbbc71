"""The page of coverage says what the code says; every reason in it is one for something that is so."""

from __future__ import annotations

import contextlib
import io
import threading
import traceback
import warnings
from types import ModuleType

import pytest

import functrace.torch
from tests.torch.coverage import PAGE, coverage, main, reasons, record
from tests.torch.differences import ABSENT, DIFFERENCES, Difference

UPDATE = "then run `python -m tests.torch.coverage`"


def printed(torch: ModuleType, difference: Difference) -> str:
    """Run an example in a thread of its own, which has modes of its own, and return what it prints."""
    out = io.StringIO()

    def run() -> None:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's are about itself
            try:
                exec(difference.example, {"torch": torch})
            except Exception:
                traceback.print_exc(file=out)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return out.getvalue().strip()


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.what)
def test_differences_print_the_output_of_the_page(difference: Difference) -> None:
    assert printed(functrace.torch, difference) == difference.here
    assert difference.here != difference.pytorch


def test_differences_concern_names_that_are_here() -> None:
    here = {f"{area}.{name}" for area, found in coverage().items() for name in found.here}
    assert not {name for difference in DIFFERENCES for name in difference.names} - here


def test_exactly_the_absent_names_have_a_reason() -> None:
    absent = {f"{area}.{name}" for area, found in coverage().items() for name in found.absent}
    assert not absent - set(reasons()), (
        f"say why in ABSENT of functrace/torch/differences.py, {UPDATE}"
    )
    assert not set(reasons()) - absent, f"they are here now: take them out of ABSENT, {UPDATE}"
    assert len(reasons()) == sum(len(names) for names in ABSENT.values())


def test_the_record_is_read_whole() -> None:
    _, areas = record()
    for area, names in areas.items():
        found = coverage()[area]
        assert {*found.here, *found.absent} >= set(names)
        assert not set(found.here) & set(found.absent)
    assert "save_for_backward" in areas["ctx"]
    assert "backward" in coverage()["torch.autograd"].here


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_every_block_of_the_page_runs_as_it_stands() -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    assert len(blocks) == len(DIFFERENCES)
    assert all(block.startswith("from functrace import torch\n") for block in blocks)
