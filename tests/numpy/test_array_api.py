"""The functions of the array API standard (2024.12) under jit, vmap and vjp: whatever plain NumPy
passes, they pass.

Every function is called as the standard has it, on arrays of each of its dtypes and of many shapes,
those without axes and without elements among them; values, dtypes and shapes are compared with
plain NumPy.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ConcretizationError
from functrace.tree import leaves

GRID = [(dtype, (2, 3)) for dtype in ("?", "i1", "u2", "f4", "c8", "c16")]
GRID += [
    (dtype, shape)
    for dtype in ("i8", "f8")
    for shape in ((), (0,), (1,), (3,), (2, 0), (2, 3), (2, 1, 3))
]
"""Every dtype in one shape, and every shape in two dtypes."""

Call = Callable[..., Any]


def _unary(*names: str) -> dict[str, Call]:
    return {name: lambda xp, x, y, name=name: getattr(xp, name)(x) for name in names}


def _binary(*names: str) -> dict[str, Call]:
    return {name: lambda xp, x, y, name=name: getattr(xp, name)(x, y) for name in names}


def _reduced(*names: str) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    for name in names:
        calls[name] = lambda xp, x, y, name=name: getattr(xp, name)(x)
        calls[f"{name} along the last"] = lambda xp, x, y, name=name: getattr(xp, name)(
            x, axis=-1, keepdims=True
        )
        calls[f"{name} along two"] = lambda xp, x, y, name=name: getattr(xp, name)(x, axis=(0, 1))
        calls[f"{name} along none"] = lambda xp, x, y, name=name: getattr(xp, name)(x, axis=())
    return calls


CALLS: dict[str, Call] = {
    **_unary(
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj",
        "cos", "cosh", "exp",
        "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10",
        "logical_not", "negative",
        "positive", "real", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "square",
        "sqrt", "tan", "tanh",
        "trunc",
    ),
    **_binary(
        "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
        "bitwise_xor", "copysign",
        "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less",
        "less_equal", "logaddexp",
        "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter",
        "not_equal", "pow",
        "remainder", "subtract",
    ),
    **_reduced("max", "mean", "min", "prod", "std", "sum", "var", "all", "any", "count_nonzero"),
    "sum in a dtype": lambda xp, x, y: xp.sum(x, axis=0, dtype=xp.float64),
    "std, corrected": lambda xp, x, y: xp.std(x, axis=-1, correction=1.0),
    "var, corrected": lambda xp, x, y: xp.var(x, correction=0.5),
    "clip": lambda xp, x, y: xp.clip(x, min=y, max=None),
    "clip to numbers": lambda xp, x, y: xp.clip(x, 1, 3),
    "cumulative_sum": lambda xp, x, y: xp.cumulative_sum(x, axis=-1, include_initial=True),
    "cumulative_prod": lambda xp, x, y: xp.cumulative_prod(x, axis=0),
    "diff": lambda xp, x, y: xp.diff(x, axis=-1, n=2, prepend=y[..., :1]),
    "argmax": lambda xp, x, y: xp.argmax(x),
    "argmax along": lambda xp, x, y: xp.argmax(x, axis=-1, keepdims=True),
    "argmin": lambda xp, x, y: xp.argmin(x, axis=0),
    "nonzero": lambda xp, x, y: xp.nonzero(x),
    "searchsorted": lambda xp, x, y: xp.searchsorted(xp.sort(xp.reshape(x, (-1,))), y,
    side="right"),
    "searchsorted with a sorter": lambda xp, x, y: xp.searchsorted(
        xp.reshape(x, (-1,)), y, sorter=xp.argsort(xp.reshape(x, (-1,)))
    ),
    "where": lambda xp, x, y: xp.where(x > y, x, y),
    "where of a number": lambda xp, x, y: xp.where(x == y, x, 1),
    "sort": lambda xp, x, y: xp.sort(x, axis=-1, stable=True),
    "sort, descending": lambda xp, x, y: xp.flip(xp.sort(x, axis=0), axis=0),
    "argsort": lambda xp, x, y: xp.argsort(x, axis=-1, stable=True),
    "unique_all": lambda xp, x, y: xp.unique_all(x),
    "unique_counts": lambda xp, x, y: xp.unique_counts(x),
    "unique_inverse": lambda xp, x, y: xp.unique_inverse(x),
    "unique_values": lambda xp, x, y: xp.sort(xp.unique_values(x)),
    "astype": lambda xp, x, y: xp.astype(x, xp.complex128),
    "astype to bool": lambda xp, x, y: xp.astype(x, xp.bool),
    "broadcast_arrays": lambda xp, x, y: xp.broadcast_arrays(x, y[None]),
    "broadcast_to": lambda xp, x, y: xp.broadcast_to(x, (4, *x.shape)),
    "can_cast": lambda xp, x, y: xp.can_cast(x.dtype, xp.float64),
    "result_type": lambda xp, x, y: xp.result_type(x, y, 1.0).name,
    "isdtype": lambda xp, x, y: xp.isdtype(x.dtype, ("integral", "real floating")),
    "concat": lambda xp, x, y: xp.concat([x, y], axis=-1),
    "concat, flat": lambda xp, x, y: xp.concat([x, y], axis=None),
    "expand_dims": lambda xp, x, y: xp.expand_dims(x, axis=-1),
    "flip": lambda xp, x, y: xp.flip(x),
    "moveaxis": lambda xp, x, y: xp.moveaxis(x, 0, -1),
    "permute_dims": lambda xp, x, y: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "repeat": lambda xp, x, y: xp.repeat(x, 2, axis=-1),
    "repeat by counts": lambda xp, x, y: xp.repeat(x, xp.asarray([1, 2, 0]), axis=-1),
    "reshape": lambda xp, x, y: xp.reshape(x, (-1, 1)),
    "reshape, copied": lambda xp, x, y: xp.reshape(x, (x.size,), copy=True),
    "roll": lambda xp, x, y: xp.roll(x, 2),
    "roll along": lambda xp, x, y: xp.roll(x, (1, -1), axis=(0, -1)),
    "squeeze": lambda xp, x, y: xp.squeeze(x, axis=-2),
    "stack": lambda xp, x, y: xp.stack([x, y], axis=-1),
    "tile": lambda xp, x, y: xp.tile(x, (2, 1)),
    "unstack": lambda xp, x, y: xp.unstack(x, axis=-1),
    "take": lambda xp, x, y: xp.take(x, np.asarray([0, 2, 1]), axis=-1),
    "take_along_axis": lambda xp, x, y: xp.take_along_axis(x, xp.argsort(y, axis=-1), axis=-1),
    "matmul": lambda xp, x, y: xp.matmul(xp.matrix_transpose(x), y),
    "matrix_transpose": lambda xp, x, y: xp.matrix_transpose(x),
    "tensordot": lambda xp, x, y: xp.tensordot(x, y, axes=x.ndim),
    "tensordot of axes": lambda xp, x, y: xp.tensordot(x, y, axes=((-1,), (-1,))),
    "vecdot": lambda xp, x, y: xp.vecdot(x, y, axis=-1),
    "tril": lambda xp, x, y: xp.tril(x, k=-1),
    "triu": lambda xp, x, y: xp.triu(x, k=1),
    "meshgrid": lambda xp, x, y: xp.meshgrid(x, y, indexing="ij"),
    "zeros_like": lambda xp, x, y: xp.zeros_like(x),
    "ones_like": lambda xp, x, y: xp.ones_like(x, dtype=xp.float32),
    "full_like": lambda xp, x, y: xp.full_like(x, 1),
    "isin": lambda xp, x, y: xp.isin(x, y),
    "fft.fft": lambda xp, x, y: xp.fft.fft(x, norm="ortho"),
    "fft.ifft": lambda xp, x, y: xp.fft.ifft(x, n=4),
    "fft.rfft": lambda xp, x, y: xp.fft.rfft(x),
    "fft.irfft": lambda xp, x, y: xp.fft.irfft(x, n=3),
    "fft.hfft": lambda xp, x, y: xp.fft.hfft(x),
    "fft.ihfft": lambda xp, x, y: xp.fft.ihfft(x),
    "fft.fftn": lambda xp, x, y: xp.fft.fftn(x),
    "fft.rfftn": lambda xp, x, y: xp.fft.rfftn(x),
    "fft.irfftn": lambda xp, x, y: xp.fft.irfftn(x),
    "fft.fftshift": lambda xp, x, y: xp.fft.fftshift(x),
    "linalg.cholesky": lambda xp, x, y: xp.linalg.cholesky(_square(x), upper=True),
    "linalg.cross": lambda xp, x, y: xp.linalg.cross(x, y),
    "linalg.det": lambda xp, x, y: xp.linalg.det(_square(x)),
    "linalg.diagonal": lambda xp, x, y: xp.linalg.diagonal(x, offset=1),
    "linalg.eigvalsh": lambda xp, x, y: xp.linalg.eigvalsh(_square(x)),
    "linalg.inv": lambda xp, x, y: xp.linalg.inv(_square(x)),
    "linalg.matrix_norm": lambda xp, x, y: xp.linalg.matrix_norm(x, ord="nuc", keepdims=True),
    "linalg.matrix_power": lambda xp, x, y: xp.linalg.matrix_power(_square(x), 3),
    "linalg.matrix_rank": lambda xp, x, y: xp.linalg.matrix_rank(x),
    "linalg.outer": lambda xp, x, y: xp.linalg.outer(xp.reshape(x, (-1,)), xp.reshape(y, (-1,))),
    "linalg.pinv": lambda xp, x, y: xp.linalg.pinv(x),
    "linalg.qr": lambda xp, x, y: xp.linalg.qr(x),
    "linalg.slogdet": lambda xp, x, y: xp.linalg.slogdet(_square(x)),
    "linalg.solve": lambda xp, x, y: xp.linalg.solve(_square(x), y),
    "linalg.svdvals": lambda xp, x, y: xp.linalg.svdvals(x),
    "linalg.trace": lambda xp, x, y: xp.linalg.trace(x, offset=-1),
    "linalg.vector_norm": lambda xp, x, y: xp.linalg.vector_norm(x, axis=-1, ord=3),
    "linalg.vector_norm of all": lambda xp, x, y: xp.linalg.vector_norm(x, keepdims=True,
    ord=np.inf),
    # the array object
    "operators": lambda xp, x, y: [x + y, x * 2, 3 - x, x == y, x <= y, abs(x), +x],
    "division": lambda xp, x, y: [x / y, x // (y + 1), x % (y + 1)],
    "power": lambda xp, x, y: (x if x.dtype != bool else xp.astype(x, int)) ** 2,
    "bits": lambda xp, x, y: [x & y, x | 1, x ^ y, ~x],
    "matmul operator": lambda xp, x, y: x @ y.mT,
    "indices": lambda xp, x, y: [x[...], x[None], x[..., 0], x[..., -1:], x[..., ::-1]],
    "mask": lambda xp, x, y: xp.where(x > y, x, y)[...],
    "T": lambda xp, x, y: x.T,
    "facts": lambda xp, x, y: [x.ndim, x.shape, x.size, x.dtype.name, x.device],
    "to_device": lambda xp, x, y: x.to_device("cpu"),
}  # fmt: skip

DEPEND_ON_VALUES = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"}
"""Functions whose output shape depends on values."""


NO_AXES = {
    name: lambda x, axis, name=name: getattr(np, name)(x, axis=axis)
    for name in (
        "argsort", "sort", "cumsum", "cumprod", "nancumsum", "nancumprod", "argmax", "argmin",
        "sum", "mean", "max", "min",
        "prod", "std", "var", "median", "all", "any", "ptp", "nansum", "nanmax", "nanmin",
        "nanmean", "nanmedian",
        "nanargmax", "nanstd", "nanvar", "flip", "diff", "gradient", "unwrap", "trapezoid",
        "expand_dims", "squeeze",
        "count_nonzero", "average", "unique", "stack", "concatenate", "cumulative_sum",
        "cumulative_prod",
    )
} | {
    "repeat": lambda x, axis: np.repeat(x, 2, axis),
    "take": lambda x, axis: np.take(x, [0], axis),
    "compress": lambda x, axis: np.compress([True], x, axis),
    "delete": lambda x, axis: np.delete(x, 0, axis),
    "insert": lambda x, axis: np.insert(x, 0, 1.0, axis),
    "append": lambda x, axis: np.append(x, x, axis),
    "partition": lambda x, axis: np.partition(x, 0, axis),
    "argpartition": lambda x, axis: np.argpartition(x, 0, axis),
    "lexsort": lambda x, axis: np.lexsort((x,), axis),
    "roll": lambda x, axis: np.roll(x, 1, axis),
    "quantile": lambda x, axis: np.quantile(x, 0.5, axis),
    "norm": lambda x, axis: np.linalg.norm(x, axis=axis),
    "vector_norm": lambda x, axis: np.linalg.vector_norm(x, axis=axis),
    "fft": lambda x, axis: np.fft.fft(x, axis=axis),
    "add.reduce": lambda x, axis: np.add.reduce(x, axis),
    "add.accumulate": lambda x, axis: np.add.accumulate(x, axis),
    "maximum.accumulate": lambda x, axis: np.maximum.accumulate(x, axis),
    "hypot.accumulate": lambda x, axis: np.hypot.accumulate(x, axis),
    "x.cumsum": lambda x, axis: x.cumsum(axis),
    "x.argsort": lambda x, axis: x.argsort(axis),
    "x.repeat": lambda x, axis: x.repeat(2, axis),
    "x.argmax": lambda x, axis: x.argmax(axis),
    "unstack": lambda x, axis: np.unstack(x, axis=axis),
    "swapaxes": lambda x, axis: np.swapaxes(x, axis, axis),
}  # fmt: skip


@pytest.mark.sampled(10)
@pytest.mark.parametrize("axis", [0, -1, 1, None, ()])
@pytest.mark.parametrize("name", NO_AXES)
def test_axes_of_0d_arrays_are_as_in_numpy(name: str, axis: Any) -> None:
    x = np.array(1.5)
    call = lambda x: leaves(NO_AXES[name](x, axis))
    try:
        expected = [np.asarray(leaf) for leaf in call(x)]
    except (TypeError, ValueError, IndexError):
        with pytest.raises((TypeError, ValueError, IndexError)):
            ft.vjp(call, x)
        return
    for transform in (lambda: ft.vjp(call, x)[0], lambda: ft.jit(call)(x)):
        found = [np.asarray(leaf) for leaf in transform()]
        assert [(leaf.dtype, leaf.shape) for leaf in found] == [
            (leaf.dtype, leaf.shape) for leaf in expected
        ]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "shape", [(0,), (3,), (2, 0), (0, 2), (0, 0), (2, 3), (0, 2, 3), (2, 0, 3)]
)
def test_norms_of_no_elements_are_numpys(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    norms = (np.linalg.norm, np.linalg.vector_norm, np.linalg.matrix_norm)
    options: list[dict[str, Any]] = [
        {},
        {"axis": -1},
        {"axis": (0, 1)},
        {"axis": (-1, -2), "keepdims": True},
    ]
    passed = 0
    for norm, ord, given in itertools.product(
        norms, (None, "fro", "nuc", 0, 1, -1, 2, -2, 3, np.inf, -np.inf), options
    ):
        kwargs = {
            key: given[key] for key in given if norm is not np.linalg.matrix_norm or key != "axis"
        }
        call = lambda x, norm=norm, ord=ord, kwargs=kwargs: norm(x, ord=ord, **kwargs)
        with np.errstate(all="ignore"):
            try:
                expected = call(x)
            except Exception:
                with pytest.raises((ValueError, TypeError)):
                    ft.vjp(call, x)
                continue
            found = ft.vjp(call, x)[0]
        passed += 1
        assert type(found) is type(expected), (norm, ord, kwargs)
        np.testing.assert_array_equal(found, expected)
    assert passed


def _square(x: Any) -> Any:
    """Square matrices that can be inverted, in the dtype of ``x``."""
    return x[..., :, None] * x[..., None, :] + 5 * np.eye(x.shape[-1]).astype(x.dtype)


def _arrays(dtype: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    count = int(np.prod(shape))
    x, y = np.arange(count) % 3 + 1, (np.arange(count) * 5 + 2) % 4
    kind = np.dtype(dtype)
    if kind.kind in "fc":
        x, y = x * 0.7 - 0.9, y * 0.4 - 0.3
    if kind.kind == "c":
        x, y = x + 0.3j * y, y - 0.2j
    return x.astype(kind).reshape(shape), y.astype(kind).reshape(shape)


def _settled(result: Any) -> tuple[list[Any], list[Any]]:
    """Arrays, and what else there is."""
    found = leaves(result)
    are = [isinstance(leaf, np.ndarray | np.generic | ft.Tracer | int) for leaf in found]
    return [leaf for leaf, is_array in zip(found, are, strict=True) if is_array], [
        leaf for leaf, is_array in zip(found, are, strict=True) if not is_array
    ]


def _transforms(call: Any, x: Any, y: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "vjp", lambda: ft.vjp(call, x, y)[0]
    yield "jit", lambda: ft.jit(call)(x, y)
    yield "vmap", lambda: [leaf[1] for leaf in ft.vmap(call)(np.stack([x, x]), np.stack([y, y]))]
    if x.shape == (2, 3):
        yield (
            "vmap of one",
            lambda: [leaf[1] for leaf in ft.vmap(call, in_axes=(None, 0))(x, np.stack([y, y]))],
        )


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CALLS)
def test_functions_pass_under_transforms_if_numpy_passes(name: str) -> None:
    passed = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for dtype, shape in GRID:
            if (
                name != "fft.irfft" or 0 not in shape
            ):  # of no elements NumPy reads memory that nobody has written
                passed += _compare(name, *_arrays(dtype, shape))
    assert passed


def _compare(name: str, x: Any, y: Any) -> bool:
    facts: list[Any] = []

    def call(x: Any, y: Any) -> Any:
        arrays, others = _settled(CALLS[name](np, x, y))
        facts.append(others)
        return arrays

    try:
        expected = call(x, y)
    except Exception:
        return False
    where = f"{name} of {x.dtype}{x.shape}"
    for transform, run in _transforms(call, x, y):
        try:
            found = run()
        except ConcretizationError:
            assert name in DEPEND_ON_VALUES and transform != "vjp", f"{where} under {transform}"
            continue
        except Exception as error:
            raise AssertionError(f"{where} under {transform}: {error}") from error
        assert facts[-1] == facts[0], f"{where} under {transform}"
        for one, other in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
            message = f"{where} under {transform}"
            assert (one.dtype, one.shape) == (other.dtype, other.shape), message
            single = (
                one.dtype.itemsize <= (8 if one.dtype.kind == "c" else 4) or x.dtype.char in "fF"
            )
            rtol = 1e-4 if single else 1e-9
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol, err_msg=message)
    return True
