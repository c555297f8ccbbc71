"""Random tensors for hypothesis: none, so that the tests that draw them are not applicable."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st


def tensor(**_keywords: Any) -> Any:
    return st.nothing()
