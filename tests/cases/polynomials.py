"""Cases of polynomials by coefficients: poly, roots, polyval, polyfit, arithmetic, poly1d."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case
from tests.cases.linear_algebra import draw

_complex: dict[str, Any] = {"dtype": np.complex128}
X, Y, W = np.linspace(0.1, 1.3, 7), draw(7), np.linspace(0.5, 2.0, 7)

ROOTS = [
    Case("poly", lambda z: np.poly(z), (draw(4),),
         edge=((np.arange(3),), (draw(3, dtype=np.float32),), (np.zeros(0),), (np.array([1j,
         -1j]),),
               (np.array([1j, 2.0, 3.0]),), (np.array([[1, 2], [3, 4]]),), (draw(2, 2,
               dtype=np.float32),)),
         raises=(((draw(2, 3),), ValueError),)),
    Case("poly/complex", lambda z: np.poly(z), (draw(3, **_complex),), vmap=False),
    Case("poly/matrix", lambda a: np.poly(a), (draw(3, 3),)),
    Case("poly/complex matrix", lambda a: np.poly(a), (draw(3, 3, **_complex),), vmap=False),
    Case("roots", lambda p: np.roots(p), (np.array([1.0, -6.0, 11.0, -6.0]),), vmap=False,
         edge=((np.array([0, 0, 2, 4, 0]),), (np.zeros(3),), (np.array([0.0, 3.0, 0.0]),),
               (np.array([1.0, 0.0, 1.0]),), (np.array([1, -3, 2], np.float32),), (draw(3,
               **_complex),), (np.zeros(0),)),
         raises=(((draw(2, 3),), ValueError),)),
    Case("roots/complex", lambda p: np.roots(p), (draw(4, **_complex),), vmap=False),
    Case("roots/in pairs", lambda p: np.roots(p), (np.array([1.0, 0.3, 2.0, 0.5]),), vmap=False),
]  # fmt: skip

ARITHMETIC = [
    Case("polyval", lambda p, x: np.polyval(p, x), (draw(4), draw(2, 3)), diff=(0, 1),
         edge=((np.arange(3), np.arange(4)), (draw(3, dtype=np.float32), 2.0), (draw(3),
         np.arange(2)), (np.zeros(0), draw(2)),
               (draw(3, **_complex), draw(2)))),
    Case("polyval/constant points", lambda p: np.polyval(p, [1.0, 2.0]), (draw(3),)),
    Case("polyval/constant polynomial", lambda x: np.polyval([1, 2, 3], x), (draw(3),)),
    Case("polyval/of a polynomial", lambda p: np.polyval(p, np.poly1d([1.0, 2.0])).coeffs,
    (draw(3),), vmap=False),
    *(
        Case(f"{name}/{m} and {n}", lambda a, b, f=getattr(np, name): f(a, b), (draw(m, seed=1),
        draw(n, seed=2)), diff=(0, 1),
             vmap=name != "polymul")
        for name in ("polyadd", "polysub", "polymul") for m, n in ((3, 3), (2, 4), (4, 1))
    ),
    *(
        Case(f"{name}/edges", lambda a, b, f=getattr(np, name): f(a, b), (draw(3), draw(2)),
        diff=(), vmap=name != "polymul",
             edge=((np.arange(3), np.arange(2)), (np.float64(2.0), draw(3)), (draw(3,
             dtype=np.float32), np.arange(4)),
                   (np.array([0.0, 0.0, 1.0]), draw(2)), (np.zeros(2), draw(2))))
        for name in ("polyadd", "polysub", "polymul")
    ),
    Case("polyadd/of a polynomial", lambda a: np.polyadd(a, np.poly1d([1.0, 2.0])).coeffs,
    (draw(3),), vmap=False),
    Case("polydiv", lambda u, v: np.polydiv(u, v), (draw(5), draw(3)), diff=(0, 1), vmap=False,
         edge=((draw(2), draw(3)), (np.arange(1, 4), np.arange(1, 3)), (np.array([1.0, -1.0]),
         np.array([1.0, -1.0])),
               (draw(3, dtype=np.float32), draw(2, dtype=np.float32)))),
    Case("polydiv/quotient", lambda u, v: np.polydiv(u, v)[0], (draw(5), draw(3)), diff=(0, 1)),
    *(Case(f"polyder/{m}", lambda p, m=m: np.polyder(p, m), (draw(4),), edge=((np.arange(4),),
    (draw(4, dtype=np.float32),)))
      for m in (0, 1, 2, 4)),
    Case("polyder/bad", lambda p: np.polyder(p, -len(p)), (draw(0),), diff=(), raises=(((draw(2),),
    ValueError),)),
    *(Case(f"polyint/{m}", lambda p, m=m: np.polyint(p, m), (draw(4),), edge=((np.arange(4),),
    (draw(4, dtype=np.float32),)))
      for m in (0, 1, 3)),
    Case("polyint/k", lambda p, k: np.polyint(p, 2, k), (draw(3), draw(2)), diff=(0, 1)),
    Case("polyint/one k", lambda p, k: np.polyint(p, 2, k), (draw(3), np.float64(0.4)), diff=(0,
    1)),
    Case("polyint/bad", lambda p, k: np.polyint(p, 3, k), (draw(3), draw(3)), raises=(((draw(3),
    draw(2)), ValueError),)),
    Case("poly1d", lambda p: np.poly1d(p)(0.7) + np.poly1d(p).deriv()(0.3), (draw(4),), vmap=False),
    Case("poly1d/product", lambda p: (np.poly1d(p) * np.poly1d([1.0, 2.0]) - 3.0).integ().coeffs,
    (draw(3),), vmap=False),
    Case("poly1d/at", lambda x: np.poly1d([1.0, -2.0, 0.5])(x), (draw(3),)),
]  # fmt: skip

FIT = [
    Case("polyfit", lambda x, y: np.polyfit(x, y, 2), (X, Y), diff=(0, 1),
         edge=((np.arange(5), np.arange(5) ** 2), (X.astype(np.float32), Y.astype(np.float32)), (X,
         Y + 1j)),
         raises=(((X, Y[1:]), TypeError), ((X[None], Y), TypeError), ((X[:0], Y[:0]), TypeError))),
    Case("polyfit/w", lambda x, y, w: np.polyfit(x, y, 2, w=w), (X, Y, W), diff=(0, 1, 2)),
    Case("polyfit/several", lambda x, y, w: np.polyfit(x, y, 1, w=w), (X, draw(7, 2), W), diff=(0,
    1, 2)),
    Case("polyfit/full", lambda x, y: np.polyfit(x, y, 2, full=True)[:4], (X, Y), diff=(0, 1),
    vmap=False),
    Case("polyfit/cov", lambda x, y, w: np.polyfit(x, y, 1, w=w, cov=True), (X, Y, W), diff=(0, 1,
    2)),
    Case("polyfit/cov of several", lambda x, y: np.polyfit(x, y, 1, cov=True), (X, draw(7, 2)),
    diff=(0, 1)),
    Case("polyfit/cov unscaled", lambda x, y: np.polyfit(x, y, 3, cov="unscaled"), (X, Y), diff=(0,
    1)),
    Case("polyfit/rcond", lambda x, y: np.polyfit(x, y, 1, rcond=1e-12), (X, Y), diff=(0, 1)),
]  # fmt: skip

CASES: list[Case] = [*ROOTS, *ARITHMETIC, *FIT]
