"""functrace.scipy.sparse: SciPy's matrices with traced operands, matrices of traced elements,
systems of equations.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import functrace as ft
from functrace.errors import LostGradientError, ShapeError, UnsupportedFunctionError
from functrace.scipy import sparse
from tests.oracles import differences

rng = np.random.default_rng(35)
M = scipy.sparse.random_array((5, 4), density=0.5, rng=rng).tocsr()
D = M.toarray()
Q = (
    scipy.sparse.random_array((5, 5), density=0.4, rng=rng) + 4 * scipy.sparse.eye_array(5)
).tocsr()
H = (Q + Q.T).tocsr()
COLUMN, COLUMNS, ROW, ROWS, WHOLE = (
    rng.normal(size=s) for s in ((4,), (4, 3), (5,), (3, 5), (5, 4))
)
KINDS = [
    f"{kind}_{end}" for kind in ("csr", "csc", "coo", "bsr", "dia") for end in ("array", "matrix")
]


@pytest.mark.parametrize("kind", KINDS)
def test_scipys_matrices_take_traced_operands(kind: str) -> None:
    a = getattr(sparse, kind)(M)
    assert isinstance(a, getattr(scipy.sparse, kind))
    calls: list[tuple[Any, Any, Any]] = [
        (lambda x: a @ x, lambda x: D @ x, COLUMN), (lambda x: a @ x, lambda x: D @ x, COLUMNS), (lambda y: y @ a, lambda y: y @ D, ROW),  # noqa: E501
        (lambda y: y @ a, lambda y: y @ D, ROWS), (lambda y: a.T @ y, lambda y: D.T @ y, ROW), (lambda x: a.dot(x), lambda x: D @ x, COLUMN),  # noqa: E501
        (lambda w: a.multiply(w).toarray(), lambda w: D * w, WHOLE), (lambda w: a + w, lambda w: D + w, WHOLE), (lambda w: w + a, lambda w: D + w, WHOLE),  # noqa: E501
        (lambda w: a - w, lambda w: D - w, WHOLE), (lambda w: w - a, lambda w: w - D, WHOLE), (lambda w: (2.0 * a) @ w, lambda w: 2 * D @ w, COLUMN),  # noqa: E501
    ]  # fmt: skip
    if kind.endswith("array"):
        calls += [
            (lambda w: (a * w).toarray(), lambda w: D * w, WHOLE),
            (lambda w: (w * a).toarray(), lambda w: D * w, WHOLE),
        ]
    for call, dense, x in calls:
        np.testing.assert_allclose(ft.jit(call)(x), dense(x), rtol=1e-13, atol=1e-14)
        found, expected = (ft.grad(lambda x, f=f: np.sum(np.sin(f(x))))(x) for f in (call, dense))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_operands_are_scipys_business(kind: str) -> None:
    a, theirs = getattr(sparse, kind)(M), getattr(scipy.sparse, kind)(M)
    np.testing.assert_array_equal(a @ COLUMN, theirs @ COLUMN)
    np.testing.assert_array_equal(ROW @ a, ROW @ theirs)
    assert type(a.T).__module__.startswith("functrace")
    assert scipy.sparse.issparse(a.multiply(WHOLE))
    assert (a + a).nnz == (theirs + theirs).nnz


PLACES = {
    "csr": (np.array([0, 2, 2, 1]), np.array([0, 2, 3, 4])),
    "csc": (np.array([0, 1, 1, 2]), np.array([0, 1, 1, 3, 4])),
}
ELEMENTS = np.array([0.5, -1.5, 2.0, 0.75])
METHODS: dict[str, Any] = {
    "tocsr": lambda a: a.tocsr(), "tocsc": lambda a: a.tocsc(), "tocoo": lambda a: a.tocoo(),
    "copy": lambda a: a.copy(),
    "astype": lambda a: a.astype(np.float32), "power": lambda a: a.power(3), "abs": abs,
    "mean": lambda a: a.mean(),
    "columns": lambda a: a.mean(axis=0), "rows": lambda a: a.mean(axis=1),
    "sum": lambda a: a.sum(axis=-1),
    "times itself": lambda a: a.multiply(a), "times another": lambda a: a.multiply(OTHER),
    "by two": lambda a: a * 2.0,
    "transposed": lambda a: a.tocsc().T.multiply(a.T),
}  # fmt: skip
OTHER = scipy.sparse.csc_array(
    np.arange(12.0).reshape(3, 4) * (np.arange(12).reshape(3, 4) % 3 > 0)
)


def made(kind: str, data: Any, of: Any = sparse) -> Any:
    """A matrix of 3 rows and 4 columns; of the elements of csc two stand at one place. SciPy adds
    such, in place.
    """
    data = data.copy()
    if kind.startswith("coo"):
        return getattr(of, kind)(
            (data, (np.array([0, 2, 2, 1]), np.array([3, 1, 1, 0]))), shape=(3, 4)
        )
    return getattr(of, kind)((data, *[x.copy() for x in PLACES[kind[:3]]]), shape=(3, 4))


def plain(found: Any) -> Any:
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[:3] in ("csr", "csc", "coo")])
def test_methods_of_matrices_of_traced_elements_are_scipys(kind: str, method: str) -> None:
    call = METHODS[method]
    expected = plain(call(made(kind, ELEMENTS, scipy.sparse)))
    for transform in (
        ft.jit,
        lambda f: lambda d: ft.vmap(f)(np.stack([d, d]))[1],
        lambda f: lambda d: ft.vjp(f, d)[0],
    ):
        found = transform(lambda d: plain_traced(call(made(kind, d))))(ELEMENTS)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    if method != "astype":
        f = lambda d: np.sum(np.sin(plain_traced(call(made(kind, d)))))
        theirs = lambda d: np.sum(np.sin(plain(call(made(kind, d, scipy.sparse)))))
        along = np.array([0.3, -1.0, 0.6, 2.0])
        np.testing.assert_allclose(
            ft.grad(f)(ELEMENTS) @ along, differences(theirs, [ELEMENTS], [along])[0], rtol=1e-7
        )


def plain_traced(found: Any) -> Any:
    return found.toarray() if hasattr(found, "toarray") else found


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[:3] in ("csr", "csc", "coo")])
def test_times_and_power_are_those_of_arrays_or_of_matrices(kind: str) -> None:
    theirs = made(kind, ELEMENTS, scipy.sparse)
    x = COLUMN if kind.endswith("matrix") else WHOLE[:3]
    np.testing.assert_allclose(
        ft.jit(lambda d: plain_traced(made(kind, d) * x))(ELEMENTS), plain(theirs * x), rtol=1e-14
    )
    if kind.endswith("matrix"):
        np.testing.assert_allclose(
            ft.jit(lambda d: ROW[:3] * made(kind, d))(ELEMENTS), ROW[:3] * theirs, rtol=1e-14
        )
        with pytest.raises(UnsupportedFunctionError, match=r"A\.power\(n\)"):
            ft.grad(lambda d: (made(kind, d) ** 2).sum())(ELEMENTS)
        with pytest.raises(UnsupportedFunctionError, match=r"numpy\.matrix"):
            ft.grad(lambda d: made(kind, d).todense().sum())(ELEMENTS)
    else:
        np.testing.assert_allclose(
            ft.jit(lambda d: (made(kind, d) ** 2).toarray())(ELEMENTS), plain(theirs**2)
        )
        np.testing.assert_allclose(
            ft.jit(lambda d: made(kind, d).todense())(ELEMENTS), theirs.todense()
        )


def test_errors_suggest_a_fix() -> None:
    data = M.data
    with pytest.raises(ShapeError, match="dimension mismatch"):
        ft.grad(lambda x: np.sum(sparse.csr_array(M) @ x))(ROW)
    with pytest.raises(UnsupportedFunctionError, match=r"fix: apply one after the other"):
        ft.grad(lambda d: (sparse.csr_array((d, M.indices, M.indptr), shape=(5, 4)) @ M.T).sum())(
            data
        )
    a = lambda d: sparse.csr_array((d, M.indices, M.indptr), shape=(5, 4))
    for call, message in (
        (lambda a: a.max(), r"a matrix with traced elements has no max(.|\n)*fix: use A\.toarray"),
        (lambda a: a.tolil(), "has no tolil"),
        (lambda a: a.power(0), r"power of a sparse matrix by 0(.|\n)*toarray"),
        (lambda a: a.power(-1), "power of a sparse matrix by -1"),
    ):
        with pytest.raises(UnsupportedFunctionError, match=message):
            ft.grad(lambda d, call=call: call(a(d)).sum())(data)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ft.grad(lambda d: a(d).nothing)(data)
    assert ft.jit(lambda d: np.float64(hasattr(a(d), "max")))(data) == 0.0
    with pytest.raises(ShapeError, match="inconsistent shapes"):
        ft.grad(lambda d: a(d).multiply(M.T).sum())(data)
    with pytest.raises(UnsupportedFunctionError, match="a dia matrix cannot be made"):
        ft.grad(lambda d: sparse.dia_array((d, [0]), shape=(4, 4)).sum())(np.ones((1, 4)))
    with pytest.raises(UnsupportedFunctionError, match="takes matrices, not a"):
        operator = scipy.sparse.linalg.aslinearoperator(Q)
        ft.grad(lambda b: np.sum(sparse.linalg.cg(operator, b)[0]))(ROW)


REFUSED: dict[str, Any] = {
    "element": lambda a: a[0, 0], "row": lambda a: a[0], "rows": list, "in": lambda a: 1.0 in a,
    "==": lambda a: a == 1.0,
    "!=": lambda a: a != a, "<": lambda a: np.ones((5, 4)) < a, "<=": lambda a: a <= a,
    ">": lambda a: a > 1.0,
    ">=": lambda a: 1.0 >= a, "== of SciPy's": lambda a: M == a,
    "bool": lambda a: 1.0 if a else 2.0, "len": len,
    "round": round, "asarray": np.asarray, "dot": lambda a: np.dot(a, ROW[:4]),
    "SciPy's @": lambda a: M.T @ a,
    "set": lambda a: operator.setitem(a, (0, 0), 1.0), "delete": lambda a: operator.delitem(a, 0),
    "sin": np.sin, "matmul": lambda a: np.matmul(a, ROW[:4]), "multiply": lambda a: np.multiply(a,
    2.0), "max": np.max,
    "//": lambda a: a // 2, "// of it": lambda a: 2 // a, "%": lambda a: a % 2,
    "divmod": lambda a: divmod(a, 2),
    "/ of it": lambda a: 1.0 / a, "/ of it and an array": lambda a: np.ones((5, 4)) / a,
    "** of it": lambda a: 2.0**a,
    "+a": operator.pos, "~": operator.invert, "&": lambda a: a & a, "|": lambda a: a | a,
    "^": lambda a: a ^ a,
    "<<": lambda a: a << 1, ">>": lambda a: a >> 1, "float": float,
    "hypot": lambda a: np.hypot(np.ones((5, 4)), a),
    "out": lambda a: a.sum(out=1.0), "mean out": lambda a: a.mean(0, out=1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_operators_that_there_are_not_are_refused(name: str) -> None:
    def loss(data: Any) -> Any:
        REFUSED[name](sparse.csr_array((data, M.indices, M.indptr), shape=(5, 4)))
        return np.sum(data)

    for run in (ft.grad(loss), ft.jit(loss)):
        with pytest.raises(UnsupportedFunctionError, match=r"(?s)at test_sparse\.py:.*fix: "):
            run(M.data)


UFUNCS: dict[str, Any] = {
    "sin": np.sin, "sqrt": np.sqrt, "abs": np.abs, "add": lambda a: np.add(a, a),
    "2 *": lambda a: np.multiply(2, a),
    "* 2": lambda a: np.multiply(a, 2), "/ 2": lambda a: np.true_divide(a, 2),
    "x + a": lambda a: np.ones((5, 4)) + a,
    "x @ a": lambda a: np.ones(5) @ a, "x - a": lambda a: np.ones((5, 4)) - a, "max": np.max,
}  # fmt: skip


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_of_plain_matrices_are_those_of_scipy(name: str) -> None:
    own, theirs = UFUNCS[name](sparse.csr_array(M)), UFUNCS[name](scipy.sparse.csr_array(M))
    dense = [x.toarray() if scipy.sparse.issparse(x) else np.asarray(x) for x in (own, theirs)]
    np.testing.assert_array_equal(*dense, strict=True)


def test_sums_accept_arguments_that_numpy_forwards() -> None:
    a = lambda d: sparse.csr_array((d, M.indices, M.indptr), shape=(5, 4))
    for axis in (None, 0, 1, -1, -2):
        for sums in (np.sum, np.mean):
            found = ft.jit(lambda d, sums=sums, axis=axis: sums(a(d), axis=axis, dtype=np.float32))(
                M.data
            )
            expected = sums(M, axis=axis, dtype=np.float32)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            assert found.dtype == expected.dtype
    with pytest.raises(ValueError, match="axis=2"):
        ft.grad(lambda d: a(d).sum(2)[0])(M.data)


SOLVERS = ["cg", "minres", "cgs", "bicg", "bicgstab", "gmres", "lgmres", "qmr", "tfqmr", "gcrotmk"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SOLVERS)
def test_iterative_solvers(name: str) -> None:
    solver, theirs = getattr(sparse.linalg, name), getattr(scipy.sparse.linalg, name)
    for call in (lambda b: solver(H, b, rtol=1e-9), ft.jit(lambda b: solver(H, b, rtol=1e-9))):
        for found, expected in zip(call(ROW), theirs(H, ROW, rtol=1e-9), strict=True):
            np.testing.assert_array_equal(found, expected)

    def solved(scale: Any, b: Any) -> Any:
        data = H.data * scale
        return np.sum(
            np.sin(
                solver(sparse.csr_array((data, H.indices, H.indptr), shape=(5, 5)), b, rtol=1e-13)[
                    0
                ]
            )
        )

    def exact(scale: Any, b: Any) -> Any:
        return np.sum(np.sin(np.linalg.solve(H.toarray() * scale, b)))

    scale, b = np.array(1.3), ROW
    for order in (
        lambda f: f,
        lambda f: lambda *xs: ft.grad(f)(*xs),
        lambda f: lambda *xs: ft.grad(ft.grad(f))(*xs),
    ):
        np.testing.assert_allclose(order(solved)(scale, b), order(exact)(scale, b), rtol=1e-8)
    np.testing.assert_allclose(ft.grad(solved, 1)(scale, b), ft.grad(exact, 1)(scale, b), rtol=1e-8)
    stack = np.stack([b, 2 * b])
    np.testing.assert_allclose(
        ft.vmap(lambda b: solved(scale, b))(stack), [exact(scale, x) for x in stack], rtol=1e-8
    )
    (expected,) = differences(lambda s: exact(s, b), (scale,), (np.array(1.0),))
    np.testing.assert_allclose(
        ft.jvp(lambda s: solved(s, b), (scale,), (np.array(1.0),))[1], expected, rtol=1e-6
    )


def test_a_singular_matrix_warns_as_scipys() -> None:
    singular = scipy.sparse.csc_array(np.array([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.warns(scipy.sparse.linalg.MatrixRankWarning):
        found = ft.jit(lambda b: sparse.linalg.spsolve(singular, b))(np.ones(2))
    assert np.all(np.isnan(found))


def test_plain_systems_are_scipys() -> None:
    np.testing.assert_array_equal(
        sparse.linalg.spsolve(Q.tocsc(), ROW), scipy.sparse.linalg.spsolve(Q.tocsc(), ROW)
    )
    assert sparse.linalg.eigs is scipy.sparse.linalg.eigs
    assert sparse.eye_array is scipy.sparse.eye_array


PRODUCTS: dict[str, tuple[Any, Any, Any]] = {
    "A @ x": (lambda a, x: a @ x, lambda d, x: d @ x, COLUMN),
    "A @ X": (lambda a, x: a @ x, lambda d, x: d @ x, COLUMNS),
    "y @ A": (lambda a, y: y @ a, lambda d, y: y @ d, ROW),
    "Y @ A": (lambda a, y: y @ a, lambda d, y: y @ d, ROWS),
    "A.T @ y": (lambda a, y: a.T @ y, lambda d, y: d.T @ y, ROW),
    "A.dot(x)": (lambda a, x: a.dot(x), lambda d, x: d @ x, COLUMN),
    "A + W": (lambda a, w: a + w, lambda d, w: d + w, WHOLE),
    "W + A": (lambda a, w: w + a, lambda d, w: d + w, WHOLE),
    "A - W": (lambda a, w: a - w, lambda d, w: d - w, WHOLE),
    "W - A": (lambda a, w: w - a, lambda d, w: w - d, WHOLE),
    "s * A": (lambda a, s: s * a, lambda d, s: s * d, np.array(1.5)),
    "A * s": (lambda a, s: a * s, lambda d, s: s * d, np.array(1.5)),
    "A / s": (lambda a, s: a / s, lambda d, s: d / s, np.array(1.5)),
    "W * A": (lambda a, w: w * a, lambda d, w: w * d, WHOLE),
    "A * W": (lambda a, w: a * w, lambda d, w: w * d, WHOLE),
}
FORMATS = [
    f"{kind}_{end}"
    for kind in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
    for end in ("array", "matrix")
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("what", PRODUCTS)
def test_scipys_own_matrices_with_traced_operands(kind: str, what: str) -> None:
    call, dense, x = PRODUCTS[what]
    for whole in (D, np.rint(4 * D).astype(np.int64)):
        a = getattr(scipy.sparse, kind)(whole)

        def found(x: Any, a: Any = a) -> Any:
            result = call(a, x)
            return result.toarray() if isinstance(result, sparse.Sparse) else result

        if "matrix" in kind and what in ("A * W", "W * A"):  # their product of matrices
            with pytest.raises(ShapeError):
                ft.jit(found)(x)
            continue
        if "coo" in kind and "dot" in what:  # dispatches to no operand
            with pytest.raises(LostGradientError, match=r"functrace\.scipy\.sparse\.csr_array"):
                ft.jit(found)(x)
            continue
        for given in (x, np.rint(x).astype(np.int64)):
            expected = np.asarray(dense(whole, given))
            assert ft.jit(found)(given).dtype == expected.dtype
            np.testing.assert_allclose(ft.jit(found)(given), expected, rtol=1e-13, atol=1e-14)
        one, other = (
            ft.grad(lambda x, f=f: np.sum(np.sin(f(x))))(x)
            for f in (found, lambda x, d=whole: dense(d, x))
        )
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def test_methods_of_scipys_own_matrices_name_ours() -> None:
    for call, x in (
        (lambda x: M.multiply(x), COLUMN),
        (lambda x: M.maximum(x), WHOLE),
        (lambda s: M * s, 1.5),
    ):
        with pytest.raises(LostGradientError, match=r"functrace\.scipy\.sparse\.csr_array"):
            ft.jit(call)(x)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("form", ["array", "matrix"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, None])
def test_a_matrix_of_traced_elements_has_the_dtype_of_its_argument(
    kind: str, form: str, dtype: Any
) -> None:
    make = getattr(sparse, f"{kind}_{form}")
    theirs = getattr(scipy.sparse, f"{kind}_{form}")
    values = np.array([1.0, 2.0])
    parts: Any = (values, ([0, 1], [0, 1]))

    def ours(v: Any, *args: Any, **kwargs: Any) -> Any:
        made = make((v, parts[1]), *args, **kwargs)
        return made.toarray()

    for args, kwargs in (((), {"shape": (2, 2), "dtype": dtype}), (((2, 2), dtype), {})):
        expected = theirs(parts, *args, **kwargs).toarray()
        found = ft.jit(lambda v, a=args, k=kwargs: ours(v, *a, **k))(parts[0])
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
