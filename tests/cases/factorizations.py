"""Cases of numpy.linalg that came later: general eigenvalues, every mode of QR, least squares,
ranks, equal values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case
from tests.cases.linear_algebra import draw, positive, regular

_complex: dict[str, Any] = {"dtype": np.complex128}
_single: dict[str, Any] = {"dtype": np.float32}


def spread(x: Any) -> Any:
    """A matrix with distinct real eigenvalues."""
    n = x.shape[-1]
    return 0.2 * x + np.diag(np.arange(1.0, n + 1)).astype(x.dtype)


def rotation(angle: Any) -> Any:
    """A plane rotation: its eigenvectors have two elements of the same size."""
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, -s]), np.stack([s, c])])


EIG = [
    Case("linalg.eig", lambda x: np.linalg.eig(x), (draw(3, 3, **_complex),),
         edge=((draw(3, 3, dtype=np.complex64),), (np.ones((0, 0), complex),), (np.diag([1j,
         2.0]),)),
         raises=(((draw(2, 3, **_complex),), ValueError), ((draw(3, **_complex),), ValueError),
                 ((np.array([[np.nan + 0j]]),), ValueError))),
    Case("linalg.eig/real, complex values", lambda x: np.linalg.eig(x),
    (rotation(0.7) + 0.1 * draw(2, 2),), vmap=False),
    Case("linalg.eig/real, real values", lambda x: np.linalg.eig(spread(x)), (draw(3, 3),),
    vmap=False,
         edge=((draw(3, 3, **_single),), (np.arange(4).reshape(2, 2),), (np.zeros((2, 2)),))),
    Case("linalg.eig/as complex", lambda x: np.linalg.eig(x.astype(complex)), (draw(4, 4),)),
    Case("linalg.eig/stack", lambda x: np.linalg.eig(x).eigenvectors, (draw(2, 3, 3, **_complex),)),
    Case("linalg.eig/rotation", lambda a: np.linalg.eig(rotation(a).astype(complex)).eigenvalues,
    (np.float64(0.4),)),
    Case("linalg.eigvals", lambda x: np.linalg.eigvals(x), (draw(3, 3, **_complex),),
         edge=((draw(3, 3, dtype=np.complex64),), (np.ones((0, 0), complex),)), raises=(((draw(2,
         3),), ValueError),)),
    Case("linalg.eigvals/real, real values", lambda x: np.linalg.eigvals(spread(x)), (draw(3, 3),),
    vmap=False),
    Case("linalg.eigvals/real, complex values", lambda x: np.linalg.eigvals(x), (rotation(0.7),),
    vmap=False),
    Case("linalg.eigvals/as complex, stack", lambda x: np.linalg.eigvals(x + 0j), (draw(2, 4, 4),)),
    Case("linalg.eigvals/equal", lambda x: np.sum(np.linalg.eigvals(x + 0j) ** 2), (np.eye(3),),
    order=1),
    Case("linalg.eigh/complex L", lambda x: np.linalg.eigh(positive(x)), (draw(3, 3, **_complex),)),
    Case("linalg.eigh/complex U", lambda x: np.linalg.eigh(positive(x), "U"), (draw(2, 3, 3,
    **_complex),)),
    Case("linalg.eigvalsh/equal", lambda x: np.sum(np.linalg.eigvalsh(symmetric(x)) ** 3),
    (np.eye(3),), order=1),
    Case("linalg.eigh/equal values",
    lambda x: np.sum(np.exp(np.linalg.eigh(symmetric(x)).eigenvalues)),
         (2 * np.eye(3),), order=1),
]  # fmt: skip


def symmetric(x: Any) -> Any:
    """The symmetric part."""
    return (x + np.swapaxes(x, -1, -2)) / 2


QR = [
    *(
        Case(f"linalg.qr/{mode} {'x'.join(map(str, shape))} {np.dtype(dtype)}", lambda x,
        mode=mode: np.linalg.qr(x, mode),
             (draw(*shape, seed=3, dtype=dtype),))
        for mode in ("complete", "raw")
        for dtype in (np.float64, np.complex128)
        for shape in ((4, 2), (3, 3), (2, 4), (2, 3, 1), (1, 1), (4, 3))
    ),
    Case("linalg.qr/complete, edges", lambda x: np.linalg.qr(x, "complete"), (draw(3, 2),),
         edge=((draw(3, 2, **_single),), (np.arange(6).reshape(3, 2),), (np.ones((0, 0)),),
         (np.ones((2, 0)),)),
         raises=(((draw(3),), ValueError),)),
    Case("linalg.qr/raw, edges", lambda x: np.linalg.qr(x, "raw"), (draw(3, 2),),
         edge=((draw(3, 2, **_single),), (np.arange(6).reshape(3, 2),), (draw(2, 3, 2).T,))),
    Case("linalg.qr/bad mode", lambda x: np.linalg.qr(x, "half" if x.ndim > 2 else "r"), (draw(3,
    2),),
         raises=(((draw(1, 2, 2),), ValueError),)),
]  # fmt: skip

LSTSQ = [
    Case("linalg.lstsq/tall", lambda a, b: np.linalg.lstsq(a, b), (draw(5, 3), draw(5)), diff=(0,
    1), vmap=False,
         edge=((draw(5, 3, **_single), draw(5, **_single)), (np.arange(6).reshape(3, 2),
         np.arange(3)),
               (draw(5, 3, **_complex), draw(5)), (np.ones((4, 2)), np.arange(4.0)), (np.ones((3,
               2)), np.ones((3, 0)))),
         raises=(((draw(5, 3), draw(4)), ValueError), ((draw(5), draw(5)), ValueError),
                 ((draw(2, 5, 3), draw(2, 5)), ValueError))),
    Case("linalg.lstsq/solution", lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0], (draw(5, 3),
    draw(5, 2)), diff=(0, 1)),
    Case("linalg.lstsq/wide", lambda a, b: np.linalg.lstsq(a, b), (draw(3, 5), draw(3, 2)),
    diff=(0, 1)),
    Case("linalg.lstsq/square", lambda a, b: np.linalg.lstsq(a, b), (draw(3, 3), draw(3)), diff=(0,
    1)),
    Case("linalg.lstsq/complex", lambda a, b: np.linalg.lstsq(a, b)[0], (draw(4, 2, **_complex),
    draw(4, **_complex)),
         diff=(0, 1)),
    Case("linalg.lstsq/cut off", lambda a, b: np.linalg.lstsq(a, b, rcond=0.5)[0], (draw(4, 3),
    draw(4)), diff=(0, 1)),
    Case("linalg.lstsq/cut off by little", lambda a, b: np.linalg.lstsq(a, b, rcond=1e-12)[0],
    (draw(4, 3), draw(4)),
         diff=(0, 1)),
    Case("linalg.lstsq/of less rank", lambda a, b: np.linalg.lstsq(a[:, None] * a[:3], b)[0],
    (draw(5), draw(5)),
         diff=(0, 1)),
    Case("linalg.pinv/rcond per matrix", lambda x, r: np.linalg.pinv(x, r), (draw(2, 3, 2),
    np.array([1e-3, 0.9])),
         edge=((draw(2, 3, 2), 1e-8), (np.ones((0, 3)), 1e-15)),
         raises=(((np.ones((2, 2)), np.array([1e-15, 1e-3])), ValueError),)),
    Case("linalg.pinv/hermitian", lambda x: np.linalg.pinv(symmetric(x), hermitian=True), (draw(3,
    3),)),
    Case("linalg.pinv/rtol per matrix", lambda x: np.linalg.pinv(x, rtol=np.array([1e-3, 0.9])),
    (draw(2, 3, 2),)),
    *(Case(f"linalg.pinv/cut off {list(shape)} {np.dtype(dtype)}", lambda x: np.linalg.pinv(x,
    0.6), (draw(*shape, dtype=dtype),))
      for shape in ((4, 3), (3, 3), (2, 4)) for dtype in (np.float64, np.complex128)),
    Case("linalg.pinv/cut off hermitian", lambda x: np.linalg.pinv(symmetric(x), 0.6, True),
    (draw(3, 3),)),
    Case("linalg.pinv/of less rank", lambda v: np.linalg.pinv(v[:, None] * v[:2]), (draw(3),)),
]  # fmt: skip

RANKS = [
    *(
        Case(f"linalg.matrix_rank/{name}", lambda x, o=options: np.linalg.matrix_rank(x, **o),
        (draw(2, 3, 3),), diff=(),
             edge=((np.ones((3, 3)),), (np.zeros((2, 2)),)))
        for name, options in {
            "": {}, "tol": {"tol": 0.5}, "rtol": {"rtol": 0.1}, "hermitian": {"hermitian": True},
            "tol per matrix": {"tol": np.array([0.5, 5.0])},
        }.items()
    ),
    Case("linalg.matrix_rank/vector", lambda x: np.linalg.matrix_rank(x), (draw(3),), diff=(),
    edge=((np.zeros(2),),)),
    *(Case(f"linalg.cond/{p}", lambda x, p=p: np.linalg.cond(x, p), (regular(2, 3, 3),),
    edge=((np.diag([1, 2]),),
           *(() if p == "nuc" else ((np.zeros((2, 2)),), (np.array([[1.0, 2.0], [2.0, 4.0]]),)))))
      for p in (None, 2, 1, -1, np.inf, -np.inf, "nuc")),
    Case("linalg.svd/hermitian", lambda x: np.linalg.svd(symmetric(x), hermitian=True), (draw(3,
    3),)),
    Case("linalg.svd/hermitian values", lambda x: np.linalg.svd(symmetric(x), compute_uv=False,
    hermitian=True),
         (draw(2, 3, 3),)),
    Case("linalg.norm/inf with ties", lambda x: np.linalg.norm(x, np.inf), (np.array([1.0, -3.0,
    2.0]),)),
]  # fmt: skip

CASES: list[Case] = [*EIG, *QR, *LSTSQ, *RANKS]
