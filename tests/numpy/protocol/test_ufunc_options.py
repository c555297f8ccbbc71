"""``dtype=`` and ``casting=`` of every ufunc, against NumPy: as NumPy has it, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from tests.oracles import attempt

UFUNCS = sorted(
    {
        u
        for u in vars(np).values()
        if isinstance(u, np.ufunc) and u.signature is None and u.nout == 1 and u.nin < 3
    },
    key=lambda u: u.__name__,
)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_a_dtype_and_a_casting_rule_are_numpys(ufunc: np.ufunc) -> None:
    for kind in ("f8", "f4", "i8", "u1", "?", "c16"):
        x = np.array([1, 0, 1]).astype(kind)
        for other in (x.real.astype("f4"), 2, 2.0, True) if ufunc.nin == 2 else (None,):
            rest = () if other is None else (other,)
            for dtype in (None, "f8", "f4", "i8", "?"):
                for casting in ("no", "safe", "same_kind", "unsafe"):
                    options: dict[str, Any] = {
                        "casting": casting,
                        **({"dtype": dtype} if dtype else {}),
                    }
                    expected = attempt(lambda: ufunc(x, *rest, **options))
                    got = attempt(lambda: ft.vjp(lambda x: ufunc(x, *rest, **options), x)[0])
                    if isinstance(got, Exception):
                        assert isinstance(got, FunctraceError) or type(got) is type(expected), (
                            kind,
                            other,
                            options,
                            got,
                        )
                        continue
                    assert not isinstance(expected, Exception), (kind, other, options, expected)
                    assert got[0].dtype == expected[0].dtype, (kind, other, options)
                    np.testing.assert_allclose(
                        got[0], expected[0], rtol=1e-3, err_msg=str((kind, other, options))
                    )
