"""Cases of the methods of ufuncs: reduce, accumulate, reduceat, outer and at of those that have no
function of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case
from tests.cases.linear_algebra import draw

X, P = draw(4, 3), np.abs(draw(4, 3)) + 0.5
I = np.arange(1, 13).reshape(4, 3)  # noqa: E741


def fold(name: str, x: Any, **more: Any) -> list[Case]:
    """Every way to fold an array by a ufunc."""
    u = getattr(np, name)
    made = {
        "reduce": lambda x: u.reduce(x), "reduce/axis": lambda x: u.reduce(x, axis=1,
        keepdims=True),
        "accumulate": lambda x: u.accumulate(x, axis=1), "reduceat": lambda x: u.reduceat(x, [0, 2,
        1]),
        "reduceat/axis": lambda x: u.reduceat(x, np.array([0, 1]), axis=1),
        "reduce/initial": lambda x: u.reduce(x, initial=2.0 if x.dtype.kind == "f" else 2),
    }  # fmt: skip
    if name in ("power", "arctan2"):  # NumPy itself leaves out elements
        made = {"accumulate": made["accumulate"]}
    return [Case(f"{name}.{way}, folded", call, (x,), **more) for way, call in made.items()]


FOLDS = [
    *(case for name in ("subtract", "divide", "hypot", "logaddexp", "fmax", "arctan2", "remainder",
    "copysign")
      for case in fold(name, P)),
    *(case for name in ("power", "float_power") for case in fold(name, P, tol=1e-4)),
    *(case for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "gcd", "lcm")
      for case in fold(name, I, diff=())),
    Case("subtract.reduce/where", lambda x: np.subtract.reduce(x, where=x > 0, initial=1.0), (X,)),
    Case("subtract.reduce/edges", lambda x: np.subtract.reduce(x), (X,),
    edge=((X.astype(np.float32),), (I,), (np.ones((1, 2)),)),
         raises=(((np.ones((0, 2)),), ValueError), ((np.ones(3, bool),), TypeError))),
    Case("subtract.reduce/axes", lambda x: np.subtract.reduce(x, axis=(0, 1)[: x.ndim]), (X[0],),
    raises=(((X,), ValueError),)),
    Case("bitwise_or.reduce/empty", lambda x: np.bitwise_or.reduce(x, axis=None), (I,), diff=(),
    edge=((np.zeros(0, int),),)),
    Case("divide.reduce/dtype", lambda x: np.divide.reduce(x, dtype=np.float64), (I,), diff=()),
]  # fmt: skip

REDUCEAT = [
    *(Case(f"{name}.reduceat", lambda x, u=getattr(np, name): u.reduceat(x, [0, 3, 1, 1, 2],
    axis=0), (X,),
           edge=((I,), (X.astype(np.float32),), (X + 1j,) if name in ("add", "multiply") else (X,),
           (np.ones((4, 0)),)),
           raises=(((X[:2],), IndexError),)) for name in ("add", "multiply", "maximum", "minimum")),
    Case("add.reduceat/axis and dtype", lambda x: np.add.reduceat(x, [1, 0], axis=-1,
    dtype=np.float64), (draw(2, 3, 4),),
         edge=((np.ones((2, 3, 4), np.int8),), (np.ones((2, 3, 4), bool),))),
    Case("add.reduceat/bools", lambda x: np.add.reduceat(x, [0, 2]), (np.array([True, True,
    False]),), diff=(),
         edge=((np.ones(3, np.int8),),)),
    Case("add.reduceat/none", lambda x: np.add.reduceat(x, np.zeros(0, int)), (X,)),
    Case("add.reduceat/traced indices", lambda x, i: np.add.reduceat(x, i), (X, np.array([0, 2])),
    vmap=False),
]  # fmt: skip

AT = [
    *(Case(f"{name}.at", lambda x, v, u=getattr(np, name): at(u, x, [0, 2, 0], v), (P[:, 0], P[:3,
    1]), diff=(0, 1))
      for name in ("fmax", "hypot", "logaddexp", "arctan2", "remainder")),
    *(Case(f"{name}.at", lambda x, u=getattr(np, name): at(u, x, [0, 2, 0], 3), (I[:, 0],), diff=())
      for name in ("bitwise_and", "floor_divide", "gcd")),
    Case("hypot.at/integers", lambda x: at(np.hypot, x, [0], 1), (P[0],), raises=(((I[0],),
    TypeError),)),
    Case("outer/dtype", lambda x: np.multiply.outer(x, [1, 2], dtype=np.float64), (X[0],)),
]  # fmt: skip


def at(ufunc: np.ufunc, x: Any, index: Any, values: Any) -> Any:
    """``ufunc.at`` on a copy."""
    x = x.copy()
    ufunc.at(x, index, values)
    return x


CASES: list[Case] = [*FOLDS, *REDUCEAT, *AT]
