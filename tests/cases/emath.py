"""Cases of numpy.emath: real inside of the real domain, complex outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case

_INSIDE: dict[str, Any] = {
    **dict.fromkeys(("sqrt", "log", "log2", "log10"), np.array([0.4, 1.3, 2.2])),
    **dict.fromkeys(("arccos", "arcsin", "arctanh"), np.array([0.4, -0.3, 0.8])),
}
_OUTSIDE = np.array([0.4, -1.3, 2.2])


def _edges(inside: Any) -> tuple[tuple[Any, ...], ...]:
    return ((inside.astype(np.float32),), (_OUTSIDE.astype(np.float32),), (np.array([1, 0]),),
    (np.array([-2, 3], np.int8),),
            (np.float64(-2.0),), (_OUTSIDE + 1j,))  # fmt: skip


CASES: list[Case] = [
    *(
        Case(f"emath.{name}/{where}", lambda x, f=getattr(np.emath, name): f(x), (x,), vmap=False,
             edge=_edges(inside) if where == "inside" else ())
        for name, inside in _INSIDE.items() for where, x in (("inside", inside), ("outside",
        _OUTSIDE))
    ),
    *(Case(f"emath.{name}/complex", lambda x, f=getattr(np.emath, name): f(x),
    (_OUTSIDE + 0.3j,)) for name in _INSIDE),
    Case("emath.logn", lambda n, x: np.emath.logn(n, x), (np.float64(3.0), _OUTSIDE), diff=(0, 1),
    vmap=False),
    Case("emath.power", lambda x, p: np.emath.power(x, p), (_OUTSIDE, np.array([2.0, 0.5, -1.5])),
    diff=(0, 1), vmap=False,
         edge=((np.array([2, 4]), np.array([-2, 1])), (np.array([2, -4]), np.array([2, 3])))),
]  # fmt: skip
