"""docs/migration: every name that the tables give for another library is there, in the version that
is installed.
"""

from __future__ import annotations

import pytest

from tests.migration import resolved, rows


@pytest.mark.parametrize(
    ("library", "module"), [("jax", "jax"), ("autograd", "autograd"), ("pytorch", "torch")]
)
def test_names_of_the_peer_exist(library: str, module: str) -> None:
    pytest.importorskip(module)
    for row in rows(library):
        for name in row.theirs:
            resolved(name)
