"""Every function of the coverage page, on arrays of every dtype that NumPy takes: NumPy's values,
dtypes and shapes, and no concretization where shapes and dtypes suffice."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ConcretizationError
from functrace.numpy.arrays.masked import NeedsConcreteValues
from functrace.tree import leaves
from tests.numpy.coverage import UNREACHED, cases

v = np.array([0.31, 0.72, 1.18, 0.57])
r = np.array([[0.5, 0.61, 0.17, 0.9], [0.42, 0.8, 0.14, 0.3], [0.35, 0.26, 0.7, 0.2]])

BESIDES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "bartlett": (lambda x: np.bartlett(x.shape[0]) * x, (v,)),
    "blackman": (lambda x: np.blackman(x.size) * x, (v,)),
    "hamming": (lambda x: np.hamming(len(x)) * x, (v,)),
    "hanning": (lambda x: np.hanning(np.size(x)) * x, (v,)),
    "diag_indices": (lambda x: x[np.diag_indices(x.shape[0])], (r[:, :3],)),
    "empty_like": (lambda x: np.empty_like(x).shape, (r,)),
    "empty": (lambda x: np.empty(x.shape, like=x).shape, (r,)),
    "zeros": (lambda x: np.zeros(x.shape, x.dtype, like=x), (r,)),
    "ones": (lambda x: np.ones(x.shape, x.dtype, like=x), (r,)),
    "eye": (lambda x: np.eye(*x.shape, like=x), (r,)),
    "identity": (lambda x: np.identity(x.ndim, like=x), (r,)),
    "tri": (lambda x: np.tri(x.ndim, like=x), (r,)),
    "indices": (lambda x: np.indices(x.shape) * x, (r,)),
    "mask_indices": (lambda x: x[np.mask_indices(x.shape[0], np.triu)], (r[:, :3],)),
    "tril_indices": (lambda x: x[np.tril_indices(x.shape[0])], (r[:, :3],)),
    "triu_indices": (lambda x: x[np.triu_indices(x.shape[0])], (r[:, :3],)),
    "fft.fftfreq": (lambda x: np.fft.fftfreq(x.size) * x, (v,)),
    "fft.fftfreq of a traced distance": (lambda x: np.fft.fftfreq(4, x[0]), (v,)),
    "fft.rfftfreq": (lambda x: np.fft.rfftfreq(x.size, x[1]), (v,)),
    "isdtype": (lambda x: np.isdtype(x.dtype, "real floating"), (v,)),
    "issubdtype": (lambda x: np.issubdtype(x.dtype, np.floating), (v,)),
    "promote_types": (lambda x: np.promote_types(x.dtype, np.int8).name, (v,)),
    "typename": (lambda x: np.typename(x.dtype.char), (v,)),
    "mintypecode": (lambda x: np.mintypecode([x.dtype.char]), (v,)),
    "result_type": (lambda x: np.result_type(x, 1.0, np.float32).name, (v,)),
    "common_type": (lambda x: np.common_type(x, np.ones(1)).__name__, (v,)),
    "min_scalar_type": (lambda x: np.min_scalar_type(x).name, (v,)),
    "ndindex": (lambda x: list(np.ndindex(x.shape)), (r,)),
    "broadcast_shapes": (lambda x, y: np.broadcast_shapes(x.shape, y.shape), (r, r[0])),
    "einsum_path": (lambda x, y: np.einsum_path("ij,jk", x, y)[0], (r, r.T)),
    "unique of one": (lambda x: np.unique(x[:1], True, True, True), (v,)),
    "unique of none": (lambda x: np.unique(x[:0]), (v,)),
    "unique along an axis": (lambda x: np.unique(x[:0], axis=0), (r,)),
    "unique_all of one": (lambda x: np.unique_all(x[:1]), (v,)),
    "trim_zeros of none": (lambda x: np.trim_zeros(x[:0]), (v,)),
    "roots of one": (lambda x: np.roots(x[:1]), (v,)),
    "roots of none": (lambda x: np.roots(x[:0]), (v,)),
    "setdiff1d of none": (lambda x: np.setdiff1d(x[:0], v), (v,)),
    "nonzero of none": (lambda x: np.nonzero(x[:0]), (r,)),
    "nonzero": (lambda x: np.nonzero(np.ones(x.shape)), (r,)),
    "repeat of integers": (lambda x: np.repeat(x, [1, 2, 0, 1]), (v,)),
    "outer of integers": (lambda x: np.outer(x, x), (v,)),
    "trace": (lambda x: np.trace(x), (r,)),
    "x.sum": (lambda x: x.sum(0), (r,)),
    "x.trace": (lambda x: x.trace(), (r,)),
    "x.argsort": (lambda x: x.argsort(), (r,)),
    "x.nonzero of none": (lambda x: x[:0].nonzero(), (r,)),
}
"""Calls that are not on the coverage page, because they do not depend on values."""

DEPENDS_ON_VALUES = {
    "argwhere", "bincount", "compress", "extract", "flatnonzero", "intersect1d", "nonzero",
    "setdiff1d", "setxor1d",
    "trim_zeros", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
    "poly", "polydiv", "polymul", "roots", "real_if_close",
    "linalg.eig", "linalg.eigvals", "linalg.lstsq",
}  # fmt: skip
"""Functions whose result has a shape or a dtype that depends on values."""

CASES = {
    name: (function, arguments)
    for name, function, arguments in cases()
    if name not in UNREACHED
    and not name.startswith("functrace.")
    and not name.endswith("under lift")
} | {f"{name}, of shapes": case for name, case in BESIDES.items()}

DTYPES: dict[str, Callable[[Any], Any]] = {
    "as they are": lambda a: a,
    "i8": lambda a: np.round(np.real(a) * 3 + 1).astype(np.int64),
    "u1": lambda a: (np.round(np.abs(a) * 3) + 1).astype(np.uint8),
    "?": lambda a: np.real(a) > 0.5,
    "f4": lambda a: np.real(a).astype(np.float32),
    "c8": lambda a: (a * (1 + 0.3j)).astype(np.complex64),
}


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray | np.generic | ft.Tracer)


def _arrays(arguments: tuple[Any, ...]) -> tuple[list[Any], Callable[..., tuple[Any, ...]]]:
    """The numeric arrays among arguments, and how arguments are made of others."""
    found, structure = ft.tree.flatten(arguments)
    places = [k for k, leaf in enumerate(found) if _is_array(leaf) and leaf.dtype.kind in "biufc"]

    def filled(*values: Any) -> tuple[Any, ...]:
        return ft.tree.unflatten(
            structure, [values[places.index(k)] if k in places else x for k, x in enumerate(found)]
        )

    return [np.asarray(found[k]) for k in places], filled


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "name", [name for name, (_, arguments) in CASES.items() if _arrays(arguments)[0]]
)
def test_values_dtypes_and_shapes_are_numpys(name: str) -> None:
    function, arguments = CASES[name]
    plain, filled = _arrays(arguments)
    taken = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for convert in DTYPES.values():
            taken += _compare(
                name, function, filled, [convert(x) if x.dtype.kind in "fc" else x for x in plain]
            )
    assert taken


def _compare(name: str, function: Any, filled: Any, values: list[Any]) -> bool:
    """Compare, if NumPy takes arrays of this dtype; return whether it does."""
    facts: list[list[Any]] = []

    def call(*given: Any) -> list[Any]:
        found = leaves(function(*filled(*given)))
        for leaf in found:
            if isinstance(leaf, NeedsConcreteValues):
                raise leaf.refuse()
        facts.append([leaf for leaf in found if not _is_array(leaf) and not isinstance(leaf, bool)])
        return [leaf for leaf in found if _is_array(leaf) or isinstance(leaf, bool)]

    try:
        expected = call(*values)
    except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):
        return False
    batches = [np.stack([x, x]) for x in values]
    for transform in (
        lambda: ft.vjp(call, *values)[0],
        lambda: ft.jit(call)(*values),
        lambda: [leaf[1] for leaf in ft.vmap(call)(*batches)],
    ):
        try:
            found = transform()
        except ConcretizationError as error:
            assert name in DEPENDS_ON_VALUES, error
            assert "a value is needed" not in str(error)
            continue
        assert facts[-1] == facts[0]
        assert [(x.dtype, x.shape) for x in map(np.asarray, found)] == [
            (x.dtype, x.shape) for x in map(np.asarray, expected)
        ]
        for one, other in zip(map(np.asarray, found), expected, strict=True):
            rtol = 1e-4 if one.dtype.itemsize <= (8 if one.dtype.kind == "c" else 4) else 1e-9
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
    return True


def test_value_dependent_functions_are_on_the_page() -> None:
    assert DEPENDS_ON_VALUES <= CASES.keys()


@pytest.mark.parametrize(
    "base", [np.bool_, np.int8, np.int64, np.float16, np.float32, np.complex64]
)
@pytest.mark.parametrize("shape", [(2,), ()])
def test_powers_have_the_dtype_of_the_installed_numpy(base: type, shape: tuple[int, ...]) -> None:
    """NumPy 2.3 changed promotion for exponents that are Python numbers, scalars or 0-d arrays."""
    values = (
        0.0,
        0.5,
        1.0,
        2,
        2.0,
        3,
        3.0,
        np.int8(2),
        np.int64(2),
        np.int64(3),
        np.float32(2.0),
        np.array(2),
        np.array(2.0),
    )
    x = np.ones(shape, base)
    for n in (*values, *map(np.float64, (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0))):
        found = ft.trace(lambda x, n=n: x**n)(x).outputs[0].aval.dtype
        assert found == (x**n).dtype, repr(n)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["linear", "weibull", "hazen", "inverted_cdf", "lower"])
@pytest.mark.parametrize("function", [np.quantile, np.nanquantile, np.percentile, np.nanpercentile])
def test_quantiles_are_those_of_the_installed_numpy(function: Any, method: str) -> None:
    """In dtypes, and in NaN between infinities: NumPy's rules for these moved in 2.4.0 and in
    2.4.2.
    """
    scale = 100 if "percentile" in function.__name__ else 1
    floats = (
        0.0,
        1.0,
        0.25,
        np.float16(0.5),
        np.float32(0.5),
        np.float64(0.5),
        np.array(0.5),
        np.array([0.5], np.float32),
    )
    integers = (0, 1, np.int8(1), np.int64(1), np.array([0, 1]), [0, 1])
    rows = ([0, 1, 2, 3], [0, 0, -2]), ([0.0, 1.0, 3.0], [np.inf, 1.0], [-np.inf, -np.inf, 1.0])
    data = [np.array(row, t) for row in rows[0] for t in (np.int8, np.int64)]
    data += [np.array(row, t) for row in rows[1] for t in (np.float16, np.float32, np.float64)]
    for x, q in itertools.product(data, floats + integers):
        order = (
            [k * scale for k in q]
            if isinstance(q, list)
            else (q * scale)
            if not isinstance(q, np.generic)
            else type(q)(q * scale)
        )
        with np.errstate(invalid="ignore"):
            found, expected = (
                ft.evaluate(ft.trace(lambda x, q=order: function(x, q, method=method))(x), x),
                function(x, order, method=method),
            )
        assert found.dtype == expected.dtype, (x, order)
        np.testing.assert_allclose(found, expected, rtol=1e-2, err_msg=f"{x} {order}")
