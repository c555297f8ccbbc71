"""A sample of the grid of Python numbers; ``python -m tests.fuzz.literals`` runs all of it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.literals import AS_ARGUMENT, NUMBERS, OPERATIONS, Column, columns, run


@pytest.mark.sampled(5)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", list(columns(every=17)), ids=lambda column: ", ".join(column))
def test_results_are_numpys_whichever_numbers_came_before(column: Column) -> None:
    counts: Counter[str] = Counter()
    assert run(column, counts) == []
    if column.transform != "grad":
        assert counts["calls"] == 2 * len(NUMBERS)


def test_only_integers_beyond_64_bits_are_refused() -> None:
    counts: Counter[str] = Counter()
    for operation in list(OPERATIONS)[::5]:
        assert run(Column(operation, "float64", AS_ARGUMENT), counts) == []
        assert run(Column(operation, "float64", "jit"), counts) == []
    assert counts["refused"] <= 2 * sum(
        type(n) is int and not -(2**63) <= n < 2**63 for n in NUMBERS
    ) * len(OPERATIONS)
    assert counts["values"] > counts["refused"] * 5
