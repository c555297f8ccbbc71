"""Where the routines for triangles come from: NumPy's BLAS, SciPy's, or nowhere, as if the others
were not installed.
"""

from __future__ import annotations

import sys

import pytest

from functrace.ops import blas

LIBRARIES = ("numpy's", "scipy's", "none")


def use_library(name: str, patch: pytest.MonkeyPatch) -> None:
    """Let one library be all that there is, for a test; skips it where that is not installed."""
    if name == "numpy's":
        if blas._numpys("trsm", "d") is None:
            assert sys.platform != "linux", (
                "the library that NumPy's wheels bring has not been found"
            )
            pytest.skip("what NumPy is linked with has no symbols to find")
    elif name == "scipy's":
        pytest.importorskip("scipy")
        patch.setattr(blas, "_numpys", lambda *_: None)
    else:
        patch.setattr(blas, "_numpys", lambda *_: None)
        patch.setattr(blas, "_scipys", lambda *_: None)
