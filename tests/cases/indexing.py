"""Indexing: what stands between the brackets, reading and writing, and the functions about indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cases.case import Case


def _x(*shape: int) -> Any:
    return np.random.default_rng(7).normal(size=shape)


def _with(x: Any, *others: Any) -> Any:
    """A copy of ``x`` that is traced if one of the others is: a plain array could not take what is
    written.
    """
    for other in others:
        if not isinstance(other, int | float | slice):
            x = x + 0.0 * np.sum(other)
    return x + 0.0


def _write(x: Any, index: Any, value: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    y = _with(
        x,
        value,
        *(k for k in parts if k is not None and k is not Ellipsis and not isinstance(k, list)),
    )
    y[index] = value
    return y


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` changes its first argument; the case returns the changed copy."""

    def call(x: Any, *rest: Any) -> Any:
        y = _with(x, *rest)
        function(y, *rest)
        return y * 2.0

    return call


_I = np.array([2, 0, 2, -1])
_J = np.array([[1, 0], [2, 2]])
_MASK = np.array([True, False, True, True])
_GRID = np.array([[True, False, True], [False, False, True]])

_READS: dict[str, tuple[tuple[int, ...], Any]] = {
    "int": ((4, 3), 1),
    "negative_int": ((4, 3), -1),
    "scalar": ((4,), 2),
    "numpy_int": ((4, 3), np.int64(2)),
    "zero_d_array": ((4, 3), np.array(2)),
    "slice": ((5,), slice(1, 4)),
    "negative_step": ((5,), slice(None, None, -2)),
    "empty_slice": ((5,), slice(3, 1)),
    "ellipsis": ((2, 3, 4), (..., 1)),
    "ellipsis_scalar": ((4,), (..., 1)),
    "none": ((2, 3), (None, slice(None), None, 1)),
    "everything": ((2, 3), ()),
    "mix": ((3, 4, 2), (slice(None, None, -1), 1, ..., None)),
    "list": ((4,), [0, 0, 3]),
    "empty_list": ((4,), []),
    "array": ((4, 3), _I),
    "array_2d": ((4, 3), _J),
    "array_second": ((2, 4), (slice(None), _I)),
    "arrays_together": ((2, 4, 3, 2), (slice(None), _I, _I % 3)),
    "arrays_apart": ((4, 2, 3), (_I, slice(None), _I % 3)),
    "array_and_int": ((2, 4, 3), (slice(None), 1, _I % 3)),
    "int_then_slice_then_array": ((4, 2, 3), (1, slice(None), _J)),
    "array_and_empty_ellipsis": ((5, 2, 3), (slice(None), 0, ..., _J)),
    "array_and_none": ((4, 3), (_I, None, 1)),
    "broadcast_arrays": ((4, 3), (_I[:, None], np.array([0, 2]))),
    "mask": ((4,), _MASK),
    "mask_rows": ((4, 2), _MASK),
    "mask_2d": ((2, 3, 2), _GRID),
    "mask_columns": ((2, 4), (slice(None), _MASK)),
    "mask_and_array": ((4, 3), (_MASK, np.array([0, 1, 0]))),
    "mask_list": ((4,), [True, False, False, True]),
}

CASES = [
    Case(f"getitem/{name}", lambda x, k=index: x[k], (_x(*shape),))
    for name, (shape, index) in _READS.items()
]
CASES += [
    Case(
        f"setitem/{name}",
        lambda x, v, k=index: _write(x, k, v),
        (_x(*shape), _x(*np.shape(_x(*shape)[index])) + 1),
        (0, 1),
    )
    for name, (shape, index) in _READS.items()
]
CASES += [
    Case(f"setitem/{name}/number", lambda x, k=index: _write(x, k, 2.5), (_x(*shape),))
    for name, (shape, index) in _READS.items()
]

# -- traced indices: the index is an argument, so that vmap maps over it too
CASES += [
    Case("getitem/traced_int", lambda x, i: _with(x, i)[i], (_x(4, 3), 2)),
    Case("getitem/traced_int_second", lambda x, i: _with(x, i)[:, i], (_x(2, 3), -1)),
    Case("getitem/traced_ints_apart", lambda x, i, j: _with(x, i, j)[i, :, j], (_x(4, 3, 2), 2, 1)),
    Case(
        "getitem/traced_ints_and_slice",
        lambda x, i, j: _with(x, i, j)[1:, i, ::-1, j],
        (_x(2, 4, 3, 2), 2, 1),
    ),
    Case("getitem/traced_array", lambda x, i: _with(x, i)[i], (_x(4, 3), _I)),
    Case("getitem/traced_array_second", lambda x, i: _with(x, i)[:, i], (_x(3, 4), _I)),
    Case(
        "getitem/traced_arrays_together",
        lambda x, i, j: _with(x, i, j)[1:, i, j],
        (_x(3, 4, 3, 2), _I, _I % 3),
    ),
    Case(
        "getitem/traced_arrays_apart",
        lambda x, i, j: _with(x, i, j)[i, :, j],
        (_x(4, 2, 3), _J, np.array([0, 1])),
    ),
    Case("getitem/traced_array_and_int", lambda x, i: _with(x, i)[:, 1, i], (_x(2, 4, 3), _J)),
    Case(
        "getitem/int_apart_from_traced_array", lambda x, i: _with(x, i)[1, :, i], (_x(2, 4, 3), _J)
    ),
    Case("getitem/traced_and_none", lambda x, i: _with(x, i)[..., i, None], (_x(2, 4), _I)),
    Case(
        "getitem/traced_and_plain_list", lambda x, i: _with(x, i)[[0, 1, 1, 0], i], (_x(2, 4), _I)
    ),
    Case("getitem/list_of_traced", lambda x, i, j: _with(x, i, j)[[i, j, 0]], (_x(4, 2), 2, 1)),
    Case("setitem/traced_int", lambda x, i, v: _write(x, i, v), (_x(4, 3), 2, _x(3)), (0, 2)),
    Case(
        "setitem/traced_int_broadcast",
        lambda x, i, v: _write(x, (slice(None), i), v),
        (_x(4, 3), 2, 1.5),
        (0, 2),
    ),
    Case(
        "setitem/traced_array",
        lambda x, i, v: _write(x, i, v),
        (_x(4, 3), _I, _x(4, 3) + 1),
        (0, 2),
    ),
    Case(
        "setitem/traced_array_row", lambda x, i, v: _write(x, i, v), (_x(4, 3), _I, _x(3)), (0, 2)
    ),
    Case(
        "setitem/traced_arrays_apart",
        lambda x, i, j, v: _write(x, (i, slice(None), j), v),
        (_x(4, 2, 3), _J, np.array([0, 1]), _x(2, 2, 2)),
        (0, 3),
    ),
    Case(
        "setitem/traced_arrays_apart_row",
        lambda x, i, j, v: _write(x, (i, slice(None), j), v),
        (_x(4, 2, 3), _J, np.array([0, 1]), _x(2)),
        (0, 3),
    ),
    Case(
        "setitem/traced_array_second",
        lambda x, i, v: _write(x, (slice(1, None), i), v),
        (_x(3, 4), _I, _x(2, 4)),
        (0, 2),
    ),
    Case(
        "setitem/value_only", lambda v: _write(np.sum(v) * 0 + v * 0, slice(1, 3), v[:2]), (_x(4),)
    ),
    Case("getitem/traced_mask", lambda x: x[x > 0], (_x(6),), vmap=False),
    Case("getitem/traced_mask_rows", lambda x: x[x[:, 0] > 0, 1], (_x(6, 2),), vmap=False),
    Case("getitem/zero_d_mask", lambda x: x[x > 0], (1.5,), vmap=False),
    Case("getitem/traced_slice", lambda x, n: x[n:], (_x(6), 2), vmap=False),
    Case("setitem/traced_mask", lambda x: _write(x, x > 0, 0.0), (_x(6),)),
    Case(
        "setitem/traced_mask_traced_value", lambda x, v: _write(x, x > 0, v), (_x(6), 1.5), (0, 1)
    ),
    Case(
        "setitem/traced_mask_rows",
        lambda x, v: _write(x, x[:, 0] > 0, v),
        (_x(6, 2), _x(2)),
        (0, 1),
    ),
    Case(
        "setitem/traced_mask_elements",
        lambda x: _write(x, x > 0, x[x > 0] ** 2),
        (_x(6),),
        vmap=False,
    ),
    Case("setitem/zero_d_mask", lambda x: _write(x * np.ones(1), x > 0, 3.0), (_x(1),)),
    Case(
        "masked/times",
        _in_place(lambda x: x.__setitem__(x > 0, x[x > 0] * 2.0)),
        (_x(6),),
        vmap=False,
    ),
]


def _masked(update: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        y = x * 1.0
        mask = x > 0
        y[mask] = update(y[mask])
        return y

    return call


def _masked_in_place(x: Any, v: Any) -> Any:
    y = _with(x, v)
    mask = x > 0
    y[mask] *= v
    y[mask] += 1.0
    y[~mask] = -y[~mask]
    return y


CASES += [
    Case("masked/in_place", _masked_in_place, (_x(6), 1.5), (0, 1)),
    Case("masked/sqrt", _masked(np.sqrt), (_x(6) + 0.5 * np.sign(_x(6)),)),
    Case("masked/log", _masked(lambda s: np.log(s) / s + 2.0), (_x(6) + 0.5 * np.sign(_x(6)),)),
    Case("masked/power", _masked(lambda s: 1.0 - s**1.5), (_x(6) + 0.5 * np.sign(_x(6)),)),
    # -- at
    Case(
        "at/set", lambda x, v: _at(_with(x, v), (slice(None), 1)).set(v), (_x(3, 2), _x(3)), (0, 1)
    ),
    Case("at/get", lambda x: _at(x, _I).get(), (_x(4, 2),)),
    Case("at/add", lambda x, v: _at(_with(x, v), _I).add(v), (_x(4, 2), _x(4, 2)), (0, 1)),
    Case("at/add_number", lambda x: _at(x, slice(1, 3)).add(2.0), (_x(4, 2),)),
    Case("at/subtract", lambda x, v: _at(_with(x, v), _I).subtract(v), (_x(4, 2), 1.5), (0, 1)),
    Case(
        "at/multiply", lambda x, v: _at(_with(x, v), _I).multiply(v), (_x(4, 2), _x(4, 2)), (0, 1)
    ),
    Case(
        "at/multiply_traced",
        lambda x, i, v: _at(_with(x, i, v), i).multiply(v),
        (_x(4, 2), _I, _x(4, 2)),
        (0, 2),
    ),
    Case("at/divide", lambda x: _at(x, 1).divide(3.0), (_x(4, 2),)),
    Case("at/power", lambda x: _at(x, [0, 1]).power(2), (_x(4, 2),)),
    Case("at/max", lambda x, v: _at(_with(x, v), _I).max(v), (_x(4), _x(4) + 0.1), (0, 1)),
    Case("at/min", lambda x, v: _at(_with(x, v), _I).min(v), (_x(4), _x(4) + 0.1), (0, 1)),
    Case("at/add_at", _in_place(lambda x, v: np.add.at(x, _I, v)), (_x(4), _x(4)), (0, 1)),
    Case(
        "at/multiply_at", _in_place(lambda x, v: np.multiply.at(x, _I, v)), (_x(4), _x(4)), (0, 1)
    ),
    # -- functions
    Case("take", lambda x: np.take(x, [0, 0, 3]), (_x(2, 3),)),
    Case("take/axis", lambda x: np.take(x, _J, axis=1), (_x(2, 3),)),
    Case(
        "take/traced",
        lambda x, i: np.take(_with(x, i), i, axis=-1),
        (_x(2, 3), np.array([1, 2, 1])),
    ),
    Case(
        "take/wrap",
        lambda x, i: np.take(_with(x, i), i, mode="wrap"),
        (_x(3), np.array([5, -4, 1])),
    ),
    Case(
        "take/clip",
        lambda x, i: np.take(_with(x, i), i, mode="clip"),
        (_x(3), np.array([5, -4, 1])),
    ),
    Case(
        "take_along_axis",
        lambda x, i: np.take_along_axis(x, i, 1),
        (_x(2, 3), np.array([[0, 0], [2, 1]])),
    ),
    Case(
        "take_along_axis/none",
        lambda x, i: np.take_along_axis(x, i, None),
        (_x(2, 3), np.array([0, 5, 5])),
    ),
    Case("compress", lambda x: np.compress([True, False, True], x, axis=1), (_x(2, 3),)),
    Case("extract", lambda x: np.extract(_GRID, x), (_x(2, 3),)),
    Case(
        "choose",
        lambda i, x, y: np.choose(i, [x, y, 0.0]),
        (np.array([0, 1, 2, 1]), _x(4), 1.5),
        (1, 2),
        vmap=False,
    ),
    Case(
        "choose/wrap",
        lambda i, x, y: np.choose(i, [x, y], mode="wrap"),
        (np.array([0, 1, 2, 5]), _x(4), _x(1)),
        (1, 2),
    ),
    Case("delete", lambda x: np.delete(x, [0, -1], axis=1), (_x(2, 4),)),
    Case("delete/slice", lambda x: np.delete(x, slice(1, 3)), (_x(2, 4),)),
    Case("insert", lambda x, v: np.insert(x, [3, 1, 1], v), (_x(4), _x(3)), (0, 1)),
    Case("insert/scalar", lambda x, v: np.insert(x, 1, v, axis=1), (_x(2, 3), _x(2)), (0, 1)),
    Case("insert/negative", lambda x, v: np.insert(x, -1, v, axis=0), (_x(2, 3), _x(3)), (0, 1)),
    Case("insert/several_at_one", lambda x, v: np.insert(x, 2, v), (_x(4), _x(3)), (0, 1)),
    Case("nonzero", lambda x: np.nonzero(x > 0), (_x(5),), (), vmap=False),
    Case("argwhere", lambda x: np.argwhere(x > 0), (_x(2, 3),), (), vmap=False),
    Case("flatnonzero", lambda x: np.flatnonzero(x > 0), (_x(5),), (), vmap=False),
    Case("put", _in_place(lambda x, v: np.put(x, [0, -1, 0], v)), (_x(2, 3), _x(2)), (0, 1)),
    Case("putmask", _in_place(lambda x, v: np.putmask(x, x > 0, v)), (_x(2, 3), _x(2)), (0, 1)),
    Case("place", _in_place(lambda x, v: np.place(x, _GRID, v)), (_x(2, 3), _x(2)), (0, 1)),
    Case("copyto", _in_place(lambda x, v: np.copyto(x, v, where=_GRID)), (_x(2, 3), _x(3)), (0, 1)),
    Case("fill_diagonal", _in_place(lambda x, v: np.fill_diagonal(x, v)), (_x(3, 3), 2.0), (0, 1)),
    Case(
        "put_along_axis",
        _in_place(lambda x, i, v: np.put_along_axis(x, i, v, 1)),
        (_x(2, 3), np.array([[0], [2]]), _x(2, 1)),
        (0, 2),
    ),
    Case("ix_", lambda x, i: _with(x, i)[np.ix_(i, [0, 1, 1])], (_x(4, 3), np.array([2, 0]))),
    Case("triu_indices_from", lambda x: x[np.triu_indices_from(x, 1)], (_x(3, 3),)),
    Case("tril_indices_from", lambda x: x[np.tril_indices_from(x)], (_x(3, 4),)),
    Case("diag_indices_from", lambda x: x[np.diag_indices_from(x)], (_x(3, 3),)),
    Case(
        "unravel_index",
        lambda x, i: _with(x, i)[np.unravel_index(i, (2, 3))],
        (_x(2, 3), np.array([4, 0, 4])),
    ),
    Case(
        "unravel_index/F",
        lambda x, i: _with(x, i)[np.unravel_index(i, (2, 3), order="F")],
        (_x(2, 3), np.array([4, 0, 3])),
    ),
    Case(
        "ravel_multi_index/F",
        lambda x, i: _with(x, i)[np.ravel_multi_index((i, 2 - i), (2, 3), mode="clip", order="F")],
        (_x(6), np.array([1, 0, 1])),
    ),
    Case(
        "ravel_multi_index",
        lambda x, i: _with(x, i)[np.ravel_multi_index((i, 1), (2, 3))],
        (_x(6), np.array([1, 0, 1])),
    ),
    # -- bad input
    Case(
        "getitem/out_of_bounds",
        lambda x, k: x[int(k)],
        (_x(3), 1),
        vmap=False,
        order=1,
        raises=(((_x(3), 3), IndexError), ((_x(3), -4), IndexError)),
    ),
    Case(
        "getitem/array_out_of_bounds",
        lambda x: x[[2]] + (x[[3]] if x.shape == (3,) else 0.0),
        (_x(5),),
        raises=(((_x(3),), IndexError),),
    ),
    Case(
        "getitem/too_many", lambda x: x[0] + x[0, 0], (_x(3, 3),), raises=(((_x(3),), IndexError),)
    ),
    Case(
        "getitem/float",
        lambda x: x[0] if x.size > 1 else x[1.0],
        (_x(3),),
        raises=(((_x(1),), IndexError),),
    ),
    Case(
        "setitem/does_not_broadcast",
        lambda x: _write(x, slice(0, 2), x),
        (_x(2),),
        raises=(((_x(3),), ValueError),),
    ),
]


class _NumPyAt:
    """The oracle of ``x.at[index]``: ``numpy.ufunc.at``."""

    def __init__(self, x: Any, index: Any) -> None:
        self.x, self.index = x.copy(), index

    def get(self) -> Any:
        return self.x[self.index]

    def set(self, v: Any) -> Any:
        self.x[self.index] = v
        return self.x

    def _at(self, ufunc: Any, v: Any) -> Any:
        ufunc.at(self.x, self.index, v)
        return self.x

    def add(self, v: Any) -> Any:
        return self._at(np.add, v)

    def subtract(self, v: Any) -> Any:
        return self._at(np.subtract, v)

    def multiply(self, v: Any) -> Any:
        return self._at(np.multiply, v)

    def divide(self, v: Any) -> Any:
        return self._at(np.divide, v)

    def power(self, v: Any) -> Any:
        return self._at(np.power, v)

    def max(self, v: Any) -> Any:
        return self._at(np.maximum, v)

    def min(self, v: Any) -> Any:
        return self._at(np.minimum, v)


def _at(x: Any, index: Any) -> Any:
    return _NumPyAt(x, index) if isinstance(x, np.ndarray) else x.at[index]
