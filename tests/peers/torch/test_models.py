"""Scripts of models print the same on functrace as on PyTorch: only the import differs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]
MODELS = sorted((Path(__file__).parent / "models").glob("*.py"))
ON_FUNCTRACE = """
import runpy, sys
import functrace.torch
functrace.torch.stand_in()
runpy.run_path(sys.argv[1], run_name="__main__")
assert sys.modules["torch"].__name__ == "functrace.torch"
"""
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")


def printed(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_there_are_thirty_models() -> None:
    assert len(MODELS) >= 30


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_model_prints_the_same(path: Path) -> None:
    ours, theirs = printed("-c", ON_FUNCTRACE, str(path)), printed(str(path))
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True):
        # Orders of float32 sums differ: the last digit may.
        assert abs(float(a) - float(b)) <= 1.01 * 10.0 ** -len(
            a.partition("e")[0].partition(".")[2]
        ) * (10.0 ** int(a.partition("e")[2] or 0)), (a, b)
