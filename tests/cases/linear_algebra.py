"""Cases of products, einsum and numpy.linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops.contraction import dot_p
from functrace.tracing.binding import bind
from tests.cases.case import Case

Shape = tuple[int, ...]


def draw(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    """Normal numbers, complex if the dtype is."""
    rng = np.random.default_rng((seed, *shape))
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def regular(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    """Square matrices far from singular."""
    return (draw(*shape, seed=seed, dtype=dtype) + 3 * np.eye(shape[-1])).astype(dtype)


def positive(x: Any) -> Any:
    """A positive definite matrix with distinct eigenvalues, as a function of any square one."""
    n = x.shape[-1]
    return np.matmul(x, np.conj(np.swapaxes(x, -1, -2))) + np.diag(np.arange(1.0, n + 1)).astype(
        x.dtype
    )


def products(
    name: str, call: Callable[..., Any], *pairs: tuple[Shape, Shape], **more: Any
) -> list[Case]:
    """One case per pair of shapes, differentiated by both operands."""
    return [
        Case(
            f"{name}/{list(p)}{list(q)}",
            call,
            (draw(*p, seed=1), draw(*q, seed=2)),
            diff=(0, 1),
            **more,
        )
        for p, q in pairs
    ]


_complex = {"dtype": np.complex128}
_single = {"dtype": np.float32}

MATMUL = [
    *products(
        "matmul",
        lambda x, y: x @ y,
        ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((3,), (5, 3, 2)), ((5, 2,
        3), (3,)),
        ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)),
        ((1, 2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)), ((3,), (2, 5, 3, 2)), ((2, 5, 2, 3), (3,)), ((0, 3), (3, 2)),
        ((2, 0), (0, 3)), ((1, 1), (1, 1)),
    ),
    Case("matmul/function", lambda x, y: np.matmul(x, y), (draw(2, 3), draw(3, 2)), diff=(0, 1),
         edge=((draw(2, 3, **_single), draw(3, 2, **_single)), (draw(2, 3, **_single), draw(3, 2)),
               (draw(2, 3, **_complex), draw(3, 2)), (np.arange(6).reshape(2, 3), np.arange(3)),
               (np.ones((2, 2), bool), np.ones((2, 2), bool)), (draw(3, 2).T, draw(4, 3)[::-1].T),
               (np.full((2, 2), np.nan), np.ones((2, 2)))),
         raises=(((draw(2, 3), draw(2, 3)), ValueError), ((draw(2, 3), np.float64(2.0)),
         ValueError),
                 ((draw(2, 2, 3), draw(3, 3, 2)), ValueError))),
    Case("matmul/complex", lambda x, y: x @ y, (draw(2, 3, **_complex), draw(3, 2, **_complex)),
    diff=(0, 1)),
    Case("matmul/real and complex", lambda x, y: x @ y, (draw(2, 3), draw(3, 2, **_complex)),
    diff=(0, 1)),
    Case("matmul/right of an array", lambda x: np.ones((2, 3)) @ x, (draw(3, 2),)),
    Case("matmul/by dot", lambda x, y: bind(dot_p, (x, y)), (draw(2, 3), draw(3, 2)), diff=(0, 1)),
    Case("matmul/same", lambda x: x @ x.T, (draw(3, 2),)),
    Case("matmul/in place", lambda x, y: matmul_in_place(x, y), (draw(2, 2), draw(2, 2, seed=3)),
    diff=(0, 1), vmap=False),
    Case("linalg.matmul", lambda x, y: np.linalg.matmul(x, y), (draw(2, 3), draw(3, 2)), diff=(0,
    1)),
    Case("matvec", lambda a, v: np.matvec(a, v), (draw(4, 2, 3), draw(4, 3)), diff=(0, 1),
         raises=(((draw(3), draw(3)), ValueError), ((draw(2, 3), draw(2)), ValueError))),
    Case("vecmat", lambda v, a: np.vecmat(v, a), (draw(4, 3, **_complex), draw(3, 2)), diff=(0, 1)),
    Case("vecdot", lambda x, y: np.vecdot(x, y), (draw(4, 3, **_complex), draw(3, **_complex)),
    diff=(0, 1),
         raises=(((draw(4, 3), draw(4, 2)), ValueError),)),
    Case("vecdot/axis", lambda x, y: np.vecdot(x, y, axis=0), (draw(3, 4), draw(3, 4, seed=1)),
    diff=(0, 1)),
    Case("linalg.vecdot/axis", lambda x, y: np.linalg.vecdot(x, y, axis=0), (draw(3, 4), draw(3, 4,
    seed=1)), diff=(0, 1)),
]  # fmt: skip


def matmul_in_place(x: Any, y: Any) -> Any:
    """``x @= y`` on a copy."""
    x = x.copy()
    x @= y
    return x


PRODUCTS = [
    *products("dot", lambda x, y: np.dot(x, y), ((), (3,)), ((3,), (3,)), ((2, 3), (3,)), ((2, 3),
    (3, 2)),
              ((2, 3), (4, 3, 2)), ((2, 2, 3), (4, 3, 2)), ((2, 2, 3), (3,))),
    *products("inner", lambda x, y: np.inner(x, y), ((3,), ()), ((3,), (3,)), ((2, 3), (4, 3)),
    ((2, 3), (3,))),
    *products("outer", lambda x, y: np.outer(x, y), ((2,), (3,)), ((2, 2), (3,)), ((), (3,))),
    *products("kron", lambda x, y: np.kron(x, y), ((2,), (3,)), ((2, 2), (3, 1)), ((2,), (3, 2)),
    ((2, 2, 1), (2, 3))),
    *products("tensordot", lambda x, y: np.tensordot(x, y), ((2, 3, 4), (3, 4, 2)), ((3, 4), (3,
    4))),
    *products("tensordot/axes", lambda x, y: np.tensordot(x, y, axes=([0, -1], [1, 0])), ((2, 3,
    4), (4, 2, 5))),
    *products("tensordot/axes=0", lambda x, y: np.tensordot(x, y, axes=0), ((2,), (3,))),
    *products("cross", lambda x, y: np.cross(x, y), ((3,), (3,)), ((4, 3), (3,)), ((2, 1, 3), (4,
    3))),
    *products("cross/axes", lambda x, y: np.cross(x, y, axisa=0, axisb=1, axisc=0), ((3, 4), (4,
    3))),
    Case("vdot", lambda x, y: np.vdot(x, y), (draw(2, 3, **_complex), draw(2, 3, seed=1,
    **_complex)), diff=(0, 1)),
    Case("dot/bad", lambda x, y: np.dot(x, y), (draw(3), draw(3)), raises=(((draw(2, 3), draw(2,
    3)), ValueError),)),
    Case("inner/bad", lambda x, y: np.inner(x, y), (draw(3), draw(3)), raises=(((draw(2, 3),
    draw(2, 4)), ValueError),)),
    Case("tensordot/bad", lambda x, y: np.tensordot(x, y), (draw(2, 3), draw(2, 3)),
         raises=(((draw(2, 3), draw(3, 2)), ValueError), ((draw(3), draw(3)), ValueError))),
    Case("cross/bad", lambda x, y: np.cross(x, y), (draw(3), draw(3)), raises=(((draw(4), draw(4)),
    ValueError),)),
    Case("linalg.outer", lambda x, y: np.linalg.outer(x, y), (draw(2), draw(3)), diff=(0, 1),
         raises=(((draw(2, 2), draw(3)), ValueError),)),
    Case("linalg.cross", lambda x, y: np.linalg.cross(x, y, axis=0), (draw(3, 2), draw(3, 2,
    seed=1)), diff=(0, 1),
         raises=(((draw(2, 2), draw(2, 2)), ValueError),)),
    Case("linalg.tensordot", lambda x, y: np.linalg.tensordot(x, y, axes=1), (draw(2, 3), draw(3,
    2)), diff=(0, 1)),
]  # fmt: skip


def einsum_case(subscripts: str, *shapes: Shape, **more: Any) -> Case:
    """A case of einsum, differentiated by every operand."""
    args = tuple(draw(*s, seed=k) for k, s in enumerate(shapes))
    return Case(
        f"einsum/{subscripts} {shapes}",
        lambda *xs: np.einsum(subscripts, *xs),
        args,
        diff=tuple(range(len(args))),
        **more,
    )


EINSUM = [
    einsum_case("ij,jk->ik", (2, 3), (3, 4)),
    einsum_case("ij,jk", (2, 3), (3, 4)),
    einsum_case("ba", (2, 3)),
    einsum_case("ii", (3, 3)),
    einsum_case("ii->i", (3, 3)),
    einsum_case("iij->ji", (3, 3, 2)),
    einsum_case("iii->i", (2, 2, 2)),
    einsum_case("ij->", (2, 3)),
    einsum_case("ij->j", (2, 3)),
    einsum_case("i,j->", (2,), (3,)),
    einsum_case("ij,ij->i", (2, 3), (2, 3)),
    einsum_case("ii,ij->j", (3, 3), (3, 2)),
    einsum_case(",ij->ji", (), (2, 3)),
    einsum_case("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    einsum_case("...ij,...jk", (5, 2, 3), (6, 1, 3, 4)),
    einsum_case("i...,i...->...", (3, 2), (3, 4, 2)),
    einsum_case("...->...", (2, 3)),
    einsum_case("ij,jk->ik", (2, 1), (3, 4)),
    einsum_case("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    einsum_case("i,ij,j->", (2,), (2, 3), (3,)),
    einsum_case("ab,bc,cd,da->", (2, 3), (3, 2), (2, 4), (4, 2)),
    einsum_case("ij,jk->ik", (0, 3), (3, 4)),
    einsum_case("ij,jk->ik", (2, 0), (0, 4)),
    einsum_case("bij,bjk->bik", (2, 30, 30), (2, 30, 12), order=1),
    Case("einsum/lists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), (draw(2, 3), draw(3,
    4)), diff=(0, 1)),
    Case("einsum/lists implicit", lambda x, y: np.einsum(x, [30, 1], y, [1, 2]), (draw(2, 3),
    draw(3, 4)), diff=(0, 1)),
    Case("einsum/lists ellipsis", lambda x: np.einsum(x, [..., 0, 0], [..., 0]), (draw(2, 3, 3),)),
    Case("einsum/same", lambda x: np.einsum("ij,kj->ik", x, x), (draw(2, 3),)),
    Case("einsum/optimize", lambda x, y: np.einsum("ij,jk->ik", x, y, optimize=True), (draw(2, 3),
    draw(3, 4)), diff=(0, 1),
         edge=((draw(2, 3, **_single), draw(3, 4, **_single)), (draw(2, 3, **_complex), draw(3, 4)),
               (np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)), (np.ones((2, 3), bool),
               np.ones((3, 4), bool))),
         raises=(((draw(2, 3), draw(4, 4)), ValueError), ((draw(2, 3, 1), draw(3, 4)),
         ValueError))),
    Case("einsum/dtype", lambda x, y: np.einsum("i,i", x, y, dtype=np.float64), (draw(3), draw(3,
    seed=1)), diff=(0, 1)),
    Case("einsum/complex", lambda x, y: np.einsum("ij,ij", x, y), (draw(2, 3, **_complex), draw(2,
    3)), diff=(0, 1)),
    Case("einsum/square", lambda x: np.einsum("ii", x), (draw(3, 3),), raises=(((draw(2, 3),),
    ValueError),)),
]  # fmt: skip

SOLVE = [
    Case("linalg.solve/vector", lambda a, b: np.linalg.solve(a, b), (regular(3, 3), draw(3)),
    diff=(0, 1),
         edge=((regular(3, 3, **_single), draw(3, **_single)), (np.eye(2, dtype=int) * 2,
         np.arange(2)),
               (regular(3, 3, **_complex), draw(3)), (np.ones((0, 0)), np.ones(0)), (regular(1, 1),
               draw(1))),
         raises=(((draw(2, 3), draw(2)), ValueError), ((regular(3, 3), draw(2)), ValueError),
                 ((np.zeros((2, 2)), draw(2)), ValueError), ((draw(3), draw(3)), ValueError))),
    Case("linalg.solve/matrix", lambda a, b: np.linalg.solve(a, b), (regular(3, 3), draw(3, 2)),
    diff=(0, 1)),
    Case("linalg.solve/stack", lambda a, b: np.linalg.solve(a, b), (regular(4, 3, 3), draw(4, 3,
    2)), diff=(0, 1)),
    Case("linalg.solve/stack and vector", lambda a, b: np.linalg.solve(a, b), (regular(4, 3, 3),
    draw(3)), diff=(0, 1)),
    Case("linalg.solve/stack broadcast", lambda a, b: np.linalg.solve(a, b), (regular(3, 3),
    draw(4, 3, 2)), diff=(0, 1)),
    Case("linalg.solve/constant matrix", lambda b: np.linalg.solve(regular(3, 3), b), (draw(3),)),
    Case("linalg.solve/complex", lambda a, b: np.linalg.solve(a, b), (regular(2, 2, **_complex),
    draw(2)), diff=(0, 1)),
    Case("linalg.inv", lambda a: np.linalg.inv(a), (regular(3, 3),),
         edge=((regular(2, 2, **_single),), (np.diag([1, 2]),), (np.ones((0, 0)),), (np.ones((2, 0,
         0)),)),
         raises=(((draw(2, 3),), ValueError), ((np.zeros((2, 2)),), ValueError), ((draw(3),),
         ValueError))),
    Case("linalg.inv/stack", lambda a: np.linalg.inv(a), (regular(4, 2, 2),)),
    Case("linalg.inv/complex", lambda a: np.linalg.inv(a), (regular(2, 2, **_complex),)),
    Case("linalg.det", lambda a: np.linalg.det(a), (draw(3, 3),),
         edge=((draw(3, 3, **_single),), (np.diag([2, 3]),), (np.ones((0, 0)),), (draw(1, 1),)),
         raises=(((draw(2, 3),), ValueError),)),
    Case("linalg.det/1x1", lambda a: np.linalg.det(a), (draw(1, 1),)),
    Case("linalg.det/stack", lambda a: np.linalg.det(a), (draw(4, 2, 2),)),
    Case("linalg.det/complex", lambda a: np.linalg.det(a), (draw(3, 3, **_complex),)),
    Case("linalg.det/singular", lambda a: np.linalg.det(a), (np.arange(9.0).reshape(3, 3),)),
    Case("linalg.det/singular complex", lambda a: np.linalg.det(a), (np.outer(draw(3, **_complex),
    draw(3, seed=1)),)),
    Case("linalg.det/stack with singular", lambda a: np.linalg.det(a), (np.stack([np.zeros((3, 3)),
    draw(3, 3)]),)),
    Case("linalg.det/zero", lambda a: np.linalg.det(a), (np.diag([0.0, 2.0, 3.0]),)),
    Case("linalg.slogdet", lambda a: np.linalg.slogdet(a), (draw(3, 3),),
         edge=((draw(3, 3, **_single),), (np.ones((0, 0)),), (np.zeros((2, 2)),)),
         raises=(((draw(2, 3),), ValueError),)),
    Case("linalg.slogdet/name", lambda a: np.linalg.slogdet(a).logabsdet, (draw(4, 3, 3),)),
    Case("linalg.slogdet/complex", lambda a: np.linalg.slogdet(a), (draw(3, 3, **_complex),)),
]  # fmt: skip

FACTORS = [
    Case("linalg.cholesky", lambda x: np.linalg.cholesky(positive(x)), (draw(3, 3),)),
    Case("linalg.cholesky/upper", lambda x: np.linalg.cholesky(positive(x), upper=True), (draw(3,
    3),)),
    Case("linalg.cholesky/stack", lambda x: np.linalg.cholesky(positive(x)), (draw(2, 3, 3),)),
    Case("linalg.cholesky/complex", lambda x: np.linalg.cholesky(positive(x)), (draw(2, 2,
    **_complex),)),
    Case("linalg.cholesky/plain", lambda x: np.linalg.cholesky(x), (4 * np.eye(2),), diff=(),
         edge=((np.eye(3, dtype=np.float32),), (np.ones((0, 0)),), (np.ones((1, 1)),), (np.diag([1,
         4]),),
               (np.array([[2.0, 9.0], [1.0, 2.0]]),)),
         raises=(((-np.eye(2),), ValueError), ((draw(2, 3),), ValueError))),
    Case("linalg.eigvalsh", lambda x: np.linalg.eigvalsh(positive(x)), (draw(3, 3),)),
    Case("linalg.eigvalsh/complex", lambda x: np.linalg.eigvalsh(positive(x), "U"), (draw(3, 3,
    **_complex),)),
    Case("linalg.eigh", lambda x: np.linalg.eigh(positive(x)), (draw(3, 3),)),
    Case("linalg.eigh/U stack", lambda x: np.linalg.eigh(positive(x), UPLO="U"), (draw(2, 3, 3),)),
    Case("linalg.eigh/complex projector", lambda x: projector(positive(x)), (draw(3, 3,
    **_complex),)),
    Case("linalg.eigh/plain", lambda x: np.linalg.eigh(x), (np.diag([1.0, 2.0]),), diff=(),
         edge=((np.eye(2, dtype=np.float32),), (np.diag([1, 2]),)), raises=(((draw(2, 3),),
         ValueError),)),
    Case("linalg.svdvals", lambda x: np.linalg.svdvals(x), (draw(2, 3),), raises=(((draw(3),),
    ValueError),)),
    Case("linalg.svd/values", lambda x: np.linalg.svd(x, compute_uv=False), (draw(3, 2,
    **_complex),)),
    Case("linalg.svd/square", lambda x: np.linalg.svd(x), (draw(3, 3),)),
    Case("linalg.svd/tall", lambda x: np.linalg.svd(x, full_matrices=False), (draw(4, 2),)),
    Case("linalg.svd/wide", lambda x: np.linalg.svd(x, full_matrices=False), (draw(2, 4),)),
    Case("linalg.svd/stack", lambda x: np.linalg.svd(x, full_matrices=False).S, (draw(2, 3, 2),)),
    Case("linalg.svdvals/zero", lambda x: np.linalg.svdvals(x), (np.zeros((2, 3)),), order=0),
    Case("linalg.svd/full", lambda x: np.linalg.svd(x).S, (draw(3, 2),)),
    Case("linalg.svd/complex product", lambda x: svd_root(x), (draw(4, 3, **_complex),), tol=1e-4),
    Case("linalg.qr/square", lambda x: np.linalg.qr(x), (draw(3, 3),)),
    Case("linalg.qr/tall", lambda x: np.linalg.qr(x), (draw(4, 2),)),
    Case("linalg.qr/wide", lambda x: np.linalg.qr(x), (draw(2, 4),)),
    Case("linalg.qr/complex", lambda x: np.linalg.qr(x), (draw(4, 3, **_complex),)),
    Case("linalg.qr/r", lambda x: np.linalg.qr(x, mode="r"), (draw(2, 3, 2),)),
    Case("linalg.pinv/tall", lambda x: np.linalg.pinv(x), (draw(4, 2),)),
    Case("linalg.pinv/wide", lambda x: np.linalg.pinv(x, rcond=1e-10), (draw(2, 4),)),
    Case("linalg.pinv/rtol", lambda x: np.linalg.pinv(x, rtol=None), (draw(3, 3),)),
    Case("linalg.pinv/complex", lambda x: np.linalg.pinv(x), (draw(3, 2, **_complex),)),
    Case("linalg.pinv/stack", lambda x: np.linalg.pinv(x), (draw(2, 3, 2),)),
]  # fmt: skip


def projector(x: Any) -> Any:
    """The projector on the first eigenvector: does not depend on the vector's phase."""
    v = np.linalg.eigh(x).eigenvectors[:, :1]
    return v @ np.conj(v.T)


def svd_root(x: Any) -> Any:
    """U sqrt(S) V^H: does not depend on the vectors' phases."""
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * np.sqrt(s)) @ vh


def norm_case(*shape: int, name: str = "", **options: Any) -> Case:
    """A case of norm with options."""
    label = ", ".join(f"{k}={v}" for k, v in options.items())
    return Case(
        f"linalg.norm/{list(shape)} {label}{name}",
        lambda x: np.linalg.norm(x, **options),
        (draw(*shape, seed=5),),
    )


NORMS = [
    *(norm_case(4, ord=p) for p in (None, 0, 1, 2, 3, 0.5, -1, -2, 2.5, np.inf, -np.inf)),
    *(norm_case(3, 2, ord=p) for p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)),
    *(norm_case(2, 3, 4, ord=p, axis=(2, 0)) for p in (None, "fro", "nuc", 1, -1, 2, np.inf)),
    norm_case(2, 3, 4),
    norm_case(2, 3, axis=0),
    norm_case(2, 3, axis=-1, ord=1, keepdims=True),
    norm_case(2, 3, 4, axis=(0, -1), keepdims=True),
    norm_case(2, 3, 4, axis=(0, 1), ord=2, keepdims=True),
    norm_case(2, 3, keepdims=True),
    Case("linalg.norm/edges", lambda x: np.linalg.norm(x), (draw(3),),
         edge=((draw(3, **_single),), (draw(3, **_complex),), (np.arange(3),), (np.zeros(3),),
         (np.zeros(0),),
               (np.array(-2.0),), (np.array([np.inf, 1.0]),), (np.array([True, True]),))),
    Case("linalg.norm/complex", lambda x: np.linalg.norm(x), (draw(3, **_complex),)),
    Case("linalg.norm/complex ord=3", lambda x: np.linalg.norm(x, 3), (draw(3, **_complex),)),
    Case("linalg.norm/complex nuc", lambda x: np.linalg.norm(x, "nuc"), (draw(3, 2, **_complex),)),
    Case("linalg.norm/bad ord", lambda x: np.linalg.norm(x, "fro"), (draw(2, 2),),
         raises=(((draw(3),), ValueError), ((draw(2, 2, 2),), ValueError))),
    Case("linalg.norm/bad matrix ord", lambda x: np.linalg.norm(x, 3), (draw(2),),
    raises=(((draw(2, 2),), ValueError),)),
    Case("linalg.vector_norm", lambda x: np.linalg.vector_norm(x, axis=(0, 2), keepdims=True),
    (draw(2, 3, 4),)),
    Case("linalg.vector_norm/ord", lambda x: np.linalg.vector_norm(x, ord=3), (draw(2, 3),)),
    Case("linalg.vector_norm/axes and ord", lambda x: np.linalg.vector_norm(x, axis=(2, 0), ord=1),
    (draw(2, 3, 4),)),
    Case("linalg.matrix_norm", lambda x: np.linalg.matrix_norm(x, ord="nuc"), (draw(2, 3, 4),)),
    Case("linalg.cond", lambda x: np.linalg.cond(x), (regular(3, 3),), raises=(((np.ones((0, 0)),),
    ValueError),)),
    Case("linalg.cond/-2", lambda x: np.linalg.cond(x, -2), (regular(2, 3, 3),)),
    Case("linalg.cond/fro", lambda x: np.linalg.cond(x, "fro"), (regular(3, 3),)),
]  # fmt: skip

COMPOSED = [
    *(
        Case(f"linalg.matrix_power/{n}", lambda x, n=n: np.linalg.matrix_power(x, n), (regular(3,
        3),))
        for n in (1, 2, 5, -1, -3)
    ),
    Case("linalg.matrix_power/0", lambda x: np.linalg.matrix_power(x, 0), (regular(2, 3, 3),),
    diff=(),
         edge=((np.eye(2, dtype=int),),), raises=(((draw(2, 3),), ValueError),)),
    Case("linalg.multi_dot", lambda *xs: np.linalg.multi_dot(xs), (draw(2, 5), draw(5, 3), draw(3,
    4)), diff=(0, 1, 2),
         raises=(((draw(2, 5), draw(4, 3), draw(3, 4)), ValueError), ((draw(2, 5), draw(5), draw(3,
         4)), ValueError))),
    Case("linalg.multi_dot/vectors", lambda *xs: np.linalg.multi_dot(xs), (draw(5), draw(5, 3),
    draw(3, 4), draw(4)),
         diff=(0, 1, 2, 3)),
    Case("linalg.multi_dot/two", lambda *xs: np.linalg.multi_dot(xs), (draw(2, 5), draw(5, 3)),
    diff=(0, 1)),
    Case("linalg.tensorinv", lambda x: np.linalg.tensorinv(x), (regular(6, 6).reshape(2, 3, 6),)),
    Case("linalg.tensorsolve", lambda a, b: np.linalg.tensorsolve(a, b), (regular(6, 6).reshape(2,
    3, 6), draw(2, 3)),
         diff=(0, 1), raises=(((draw(2, 3, 5), draw(2, 3)), ValueError),)),
    Case("linalg.tensorsolve/axes", lambda a, b: np.linalg.tensorsolve(a, b, axes=(0, 2)),
         (regular(6, 6).reshape(2, 3, 6).transpose(1, 2, 0), draw(6)), diff=(0, 1)),
    Case("linalg.matrix_rank", lambda x: np.linalg.matrix_rank(x) * np.sum(x), (draw(3, 2),),
    vmap=False),
]  # fmt: skip

CASES: list[Case] = [*MATMUL, *PRODUCTS, *EINSUM, *SOLVE, *FACTORS, *NORMS, *COMPOSED]
