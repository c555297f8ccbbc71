"""A sample of the random programs of `python -m tests.fuzz.programs`; the long runs are made by
hand, with other seeds.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.generate import generate
from tests.fuzz.programs import NUMPY_KINDS, run_one
from tests.sampling import scaled

COUNT = scaled(30)


@pytest.mark.draws
@pytest.mark.parametrize("kind", NUMPY_KINDS)
def test_random_programs_are_numpys_or_raise(kind: str) -> None:
    counts: Counter[str] = Counter()
    found = [text for k in range(COUNT) for text in run_one(f"sample:{k}", kind, counts, most=2)]
    assert not found, "\n".join(found)
    assert counts["equal"] > 2 * COUNT, counts  # (of about 6: wild bodies are often refused)
    assert counts["raised"] < counts["equal"], counts


def test_programs_are_reproducible_from_a_seed() -> None:
    first, again = generate("ci:1", "bodies"), generate("ci:1", "bodies")
    assert first == again
    assert first != generate("ci:2", "bodies")
