"""Coverage is counted by the names of the installed PyTorch, and this prints what the page says
that it prints.
"""

from __future__ import annotations

import pytest

from tests.peers.torch.harness import VERSION
from tests.peers.torch.surface import surface
from tests.torch.coverage import RECORD, record
from tests.torch.differences import DIFFERENCES, Difference
from tests.torch.test_coverage import printed

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the names are those of torch {VERSION}", allow_module_level=True)


def test_the_record_is_of_this_pytorch() -> None:
    assert record()[0] == VERSION
    assert RECORD.read_text(encoding="utf-8") == surface(torch), (
        "run `python -m tests.peers.torch.surface`"
    )


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.what)
def test_differences_are_differences(difference: Difference) -> None:
    assert printed(torch, difference) == difference.pytorch
