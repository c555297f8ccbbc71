"""Rearranging, joining, cutting, repeating and padding arrays; arrays from endpoints; sliding sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib import NumpyVersion

from functrace.errors import AxisError, DtypeError, ShapeError
from tests.cases.case import Case

_rng = np.random.default_rng(20)


def _draw(*shape: int) -> Any:
    return np.round(_rng.uniform(-2.0, 2.0, shape), 3)


V, W, M, N, T = _draw(5), _draw(3), _draw(3, 4), _draw(3, 4), _draw(2, 3, 4)
C = _draw(3, 4) + 1j * _draw(3, 4)
S = np.array(0.7)
_KINDS = (
    (M.astype(np.float32),),
    (C,),
    (np.arange(12).reshape(3, 4),),
    (M > 0,),
    (np.repeat(M, 2, 1)[::-1, ::2],),
)


def _unary(name: str, call: Any, *args: Any, **details: Any) -> Case:
    return Case(
        name, call, args, diff=tuple(range(len(args))), order=details.pop("order", 1), **details
    )


def _written_view(make: Any) -> Any:
    """Write into a view of a copy, and return both: whether writes are seen on either side."""

    def call(x: Any) -> Any:
        x = x * 1.0
        view = make(x)
        view[...] = view * view
        before = x * 1.0
        x[0] = 3.0 * x[1]
        return before, view * 1.0, x * 1.0

    return call


SHAPES = [
    _unary(
        "reshape/ints",
        lambda x: np.reshape(x, (2, 6)),
        M,
        edge=_KINDS,
        raises=(((_draw(3, 3),), ShapeError),),
    ),
    _unary("reshape/unknown size", lambda x: np.reshape(x, (2, -1, 3)), M, edge=_KINDS),
    _unary("reshape/int", lambda x: np.reshape(x, -1), M),
    _unary("reshape/order F", lambda x: np.reshape(x, (2, 6), order="F"), M, edge=_KINDS),
    _unary("reshape/method order F", lambda x: x.reshape((6, 2), order="F"), M),
    _unary("reshape/to scalar", lambda x: np.reshape(x[:1, :1], ()), M),
    _unary("ravel", np.ravel, M, edge=(*_KINDS, (S,))),
    _unary("ravel/order F", lambda x: np.ravel(x, "F"), T, edge=_KINDS),
    _unary("flatten/order F", lambda x: x.flatten("F"), M),
    _unary("transpose", np.transpose, T, edge=(*_KINDS, (V,), (S,))),
    _unary(
        "transpose/axes",
        lambda x: np.transpose(x, (1, -1, 0)),
        T,
        raises=(((M,), ShapeError), ((_draw(2, 2, 2, 2),), ShapeError)),
    ),
    _unary("permute_dims", lambda x: np.permute_dims(x, (1, 2, 0)), T),
    _unary("swapaxes", lambda x: np.swapaxes(x, 0, -1), T, raises=(((S,), AxisError),)),
    _unary("moveaxis", lambda x: np.moveaxis(x, 0, -1), T),
    _unary(
        "moveaxis/several",
        lambda x: np.moveaxis(x, [0, 1], [-1, 0]),
        T,
        raises=(((V,), AxisError),),
    ),
    _unary(
        "rollaxis", lambda x: (np.rollaxis(x, 2), np.rollaxis(x, 0, 3), np.rollaxis(x, -1, 1)), T
    ),
    _unary("matrix_transpose", np.matrix_transpose, T, raises=(((V,), ShapeError),)),
    _unary("matrix_transpose/linalg", np.linalg.matrix_transpose, T),
    _unary("squeeze", lambda x: np.squeeze(x[:, None, :, None]), M),
    _unary("squeeze/axis", lambda x: np.squeeze(x[:, None, :, None], axis=(1, -1)), M),
    _unary(
        "squeeze/wrong axis",
        lambda x: np.squeeze(x[..., :1], axis=-1),
        M,
        raises=(((S,), IndexError),),
    ),
    _unary(
        "squeeze/size not 1",
        lambda x: np.squeeze(x, axis=0),
        _draw(1, 3),
        raises=(((M,), ShapeError),),
    ),
    _unary("expand_dims", lambda x: np.expand_dims(x, 1), M),
    _unary("expand_dims/several", lambda x: np.expand_dims(x, (0, -1)), M, edge=_KINDS),
    _unary("expand_dims/twice", lambda x: np.expand_dims(x, 1), V, raises=(((S,), AxisError),)),
    _unary("atleast_1d", lambda x, y: np.atleast_1d(x, y), S, V),
    _unary("atleast_2d", lambda x, y: np.atleast_2d(x, y), S, V),
    _unary("atleast_3d", lambda x, y, z: np.atleast_3d(x, y, z), S, V, M),
    _unary(
        "broadcast_to",
        lambda x: np.broadcast_to(x, (2, 3, 4)),
        M,
        edge=_KINDS,
        raises=(((V,), ShapeError),),
    ),
    _unary("broadcast_to/new axes", lambda x: np.broadcast_to(x, (2, 3, 3)), W),
    _unary("broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y[:, None]), V, W),
    _unary("broadcast_arrays/constant", lambda x: np.broadcast_arrays(x, np.ones((2, 1)))[0], V),
    _unary("copy", np.copy, M),
    _unary("astype", lambda x: np.astype(x, np.result_type(x, np.float64)), M),
    _unary("flip", np.flip, T, edge=(*_KINDS, (S,))),
    _unary("flip/axes", lambda x: np.flip(x, (0, -1)), T, raises=(((S,), AxisError),)),
    _unary("fliplr", np.fliplr, M, raises=(((V,), ShapeError),)),
    _unary("flipud", np.flipud, M),
    *(_unary(f"rot90/{k}", lambda x, k=k: np.rot90(x, k), M) for k in (-1, 0, 1, 2, 3, 5)),
    _unary("rot90/axes", lambda x: np.rot90(x, 1, (2, 0)), T),
    _unary("roll", lambda x: np.roll(x, 2), M, edge=(*_KINDS, (np.zeros((0, 3)),), (S,))),
    _unary("roll/axis", lambda x: np.roll(x, -1, axis=1), M, raises=(((V,), AxisError),)),
    _unary("roll/several", lambda x: np.roll(x, (1, 7), axis=(0, 1)), M),
    _unary("roll/one shift", lambda x: np.roll(x, 1, axis=(0, 1)), M),
    _unary("roll/same axis twice", lambda x: np.roll(x, (1, 1), axis=(0, 0)), M),
    _unary("flip/view", _written_view(lambda x: np.flip(x, 0)), M),
    _unary("transpose/view", _written_view(np.transpose), M),
    _unary("reshape/view", _written_view(lambda x: np.reshape(x, (2, 6))), M),
    _unary(
        "reshape/copy of a transposed view", _written_view(lambda x: np.reshape(x.T, (2, 6))), M
    ),
    _unary("expand_dims/view", _written_view(lambda x: np.expand_dims(x.T, 1)), M),
    _unary("split/view", _written_view(lambda x: np.split(x, 2, axis=1)[1]), M),
    _unary("diagonal/read only", lambda x: np.diagonal(x), M),
]

JOINS = [
    _unary(
        "concatenate",
        lambda x, y: np.concatenate([x, y]),
        M,
        _draw(2, 4),
        order=2,
        edge=(
            (M.astype(np.float32), M),
            (C, M),
            (np.arange(4)[None], M.astype(np.float32)),
            (np.zeros((0, 4)), M),
        ),
        raises=(((M, V), ShapeError), ((M, _draw(2, 3)), ShapeError), ((S, S), ShapeError)),
    ),
    _unary(
        "concatenate/axis", lambda x, y: np.concatenate([x * y, x, y * y], axis=-1), M, N, order=2
    ),
    _unary("concatenate/axis None", lambda x, y: np.concatenate([x, y], axis=None), M, V),
    _unary(
        "concatenate/dtype", lambda x, y: np.concatenate([x, y], dtype=np.float32), V, W, tol=2e-3
    ),
    _unary("concatenate/constant", lambda x: np.concatenate([[1.0], x, np.ones(2)]), V),
    _unary(
        "concatenate/bad axis",
        lambda x: np.concatenate([x, x], axis=1),
        M,
        raises=(((V,), AxisError),),
    ),
    _unary(
        "concatenate/bad dtype",
        lambda x: np.concatenate([x, x], dtype=float),
        V,
        raises=(((V + 1j,), DtypeError),),
    ),
    _unary("concat", lambda x, y: np.concat((x, y)), V, W),
    _unary("stack", lambda x, y: np.stack([x, y]), M, N, order=2, raises=(((M, V), ShapeError),)),
    _unary(
        "stack/axis",
        lambda x, y: np.stack([x * y, y], axis=-1),
        M,
        N,
        edge=((M.astype(np.float32), M), (C, M)),
    ),
    _unary("stack/scalars", lambda x: np.stack([x[0] * x[1], 2.0, x[2]]), V),
    _unary("vstack", lambda x, y: np.vstack([x, y]), M, _draw(4), edge=((S, S), (V, V))),
    _unary("hstack", lambda x, y: np.hstack([x, y]), M, _draw(3, 1), edge=((S, S), (V, W))),
    _unary("dstack", lambda x, y: np.dstack([x, y]), M, N, edge=((S, S), (V, V))),
    _unary("column_stack", lambda x, y: np.column_stack([x, y]), M, W),
    _unary("block", lambda x, y: np.block([[x, y[:, None]], [np.ones((1, 4)), 2.0]]), M, W),
    _unary("block/vector", lambda x, y: np.block([x, y, 1.0]), V, W),
    _unary("block/single", lambda x: np.block(x), M),
    _unary("append", lambda x, y: np.append(x, y), M, V),
    _unary(
        "append/axis", lambda x, y: np.append(x, y, axis=0), M, N, raises=(((M, V), ShapeError),)
    ),
    _unary("ediff1d", lambda x: np.ediff1d(x), M),
    _unary("ediff1d/ends", lambda x, y: np.ediff1d(x, to_begin=y, to_end=[1.0, 2.0]), V, W),
    _unary("meshgrid", lambda x, y: np.meshgrid(x, y), V, W),
    _unary("meshgrid/ij", lambda x, y: np.meshgrid(x, y, S, indexing="ij"), V, W),
    _unary("meshgrid/sparse", lambda x, y: np.meshgrid(x, y, sparse=True), V, W),
]

CUTS = [
    _unary("split", lambda x: np.split(x, 2, axis=1), M, raises=(((_draw(3, 3),), ShapeError),)),
    _unary("split/indices", lambda x: np.split(x, [1, 3, 9]), V),
    _unary(
        "split/zero",
        lambda x: np.split(x, 0 if x.ndim == 2 else 1),
        V,
        raises=(((M,), ShapeError),),
    ),
    _unary("array_split", lambda x: np.array_split(x, 3), V),
    _unary("array_split/more than elements", lambda x: np.array_split(x, 7), V),
    _unary("hsplit", lambda x: np.hsplit(x, 2), M),
    _unary("vsplit", lambda x: np.vsplit(x, 3), M, raises=(((V,), ShapeError),)),
    _unary("dsplit", lambda x: np.dsplit(x, 2), T, raises=(((M,), ShapeError),)),
    _unary("unstack", lambda x: np.unstack(x, axis=1), M),
]

REPEATS = [
    _unary("tile", lambda x: np.tile(x, 2), M, edge=(*_KINDS, (S,))),
    _unary("tile/several", lambda x: np.tile(x, (2, 1, 3)), M),
    _unary("tile/fewer", lambda x: np.tile(x, (2,)), M),
    _unary("tile/zero", lambda x: np.tile(x, (0, 2)), M),
    _unary("repeat", lambda x: np.repeat(x, 2), M, edge=(*_KINDS, (S,))),
    _unary("repeat/axis", lambda x: np.repeat(x, 3, axis=1), M, raises=(((V,), AxisError),)),
    _unary(
        "repeat/counts",
        lambda x: np.repeat(x, [2, 0, 3], axis=0),
        M,
        raises=(((_draw(2, 2),), ShapeError),),
    ),
    _unary("repeat/one count", lambda x: np.repeat(x, [2], axis=1), M),
    _unary(
        "sliding_window_view",
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3),
        V,
        raises=(((W[:2],), ShapeError),),
    ),
    _unary(
        "sliding_window_view/axes", lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)), M
    ),
    _unary(
        "sliding_window_view/same axis",
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=-1),
        M,
    ),
    _unary("resize", lambda x: np.resize(x, (2, 3, 4)), M, edge=((V,), (np.zeros(0),))),
    _unary("resize/smaller", lambda x: np.resize(x, 5), M),
    _unary(
        "vander",
        lambda x: np.vander(x),
        W,
        order=2,
        edge=((W.astype(np.float32),), (np.arange(3),)),
    ),
    _unary(
        "vander/increasing",
        lambda x: np.vander(x, 5, increasing=True),
        W,
        raises=(((M,), ShapeError),),
    ),
]

DIAGONALS = [
    _unary(
        "diag/of vector",
        np.diag,
        V,
        edge=((np.zeros(0),), (V + 1j,)),
        raises=(((T,), ShapeError), ((S,), ShapeError)),
    ),
    _unary("diag/of vector, above", lambda x: np.diag(x, 2), V),
    _unary("diag/of vector, below", lambda x: np.diag(x, -1), V),
    *(
        _unary(f"diag/of matrix, {k}", lambda x, k=k: np.diag(x, k), M)
        for k in (-5, -2, -1, 0, 1, 3, 6)
    ),
    _unary("diagflat", lambda x: np.diagflat(x, 1), M),
    _unary("diagonal", np.diagonal, T, edge=_KINDS, raises=(((V,), ShapeError),)),
    _unary("diagonal/axes", lambda x: np.diagonal(x, 1, -1, 0), T, raises=(((M[0],), ShapeError),)),
    _unary(
        "diagonal/same axis",
        lambda x: np.diagonal(x, 0, 0, x.ndim - 1),
        M,
        raises=(((V,), ShapeError),),
    ),
    _unary("diagonal/linalg", lambda x: np.linalg.diagonal(x, offset=-1), T),
    _unary("trace", np.trace, M, edge=_KINDS, raises=(((V,), ShapeError),)),
    _unary("trace/offset", lambda x: np.trace(x, -1, 2, 1), T),
    _unary("trace/linalg", lambda x: np.linalg.trace(x, offset=1), T),
    _unary("tril", np.tril, M, edge=(*_KINDS, (V,), (np.full((2, 2), np.nan),))),
    _unary("tril/k", lambda x: np.tril(x, -1), T),
    _unary("triu", np.triu, M, edge=(*_KINDS, (V,), (np.full((2, 2), np.inf),))),
    _unary("triu/k", lambda x: np.triu(x, 2), T),
]

PADS = [
    _unary("pad", lambda x: np.pad(x, 1), M, edge=_KINDS, raises=()),
    _unary("pad/pairs", lambda x: np.pad(x, ((1, 2), (0, 3))), M, raises=(((T,), ShapeError),)),
    _unary("pad/values", lambda x: np.pad(x, 2, constant_values=((1.0, 2.0), (3.0, 4.0))), M),
    _unary("pad/nan", lambda x: np.pad(x, 2, constant_values=np.nan), M, order=0, edge=_KINDS[:2]),
    _unary("pad/traced value", lambda x, y: np.pad(x, (1, 2), constant_values=y), M, S, vmap=False),
    *(
        [_unary("pad/by axis", lambda x: np.pad(x, {-1: (1, 2)}), M)]
        if NumpyVersion(np.__version__) >= "2.4.0"
        else ()
    ),
    *(
        _unary(f"pad/{mode}", lambda x, mode=mode: np.pad(x, ((3, 2), (1, 7)), mode=mode), M)
        for mode in (
            "edge",
            "reflect",
            "symmetric",
            "wrap",
            "linear_ramp",
            "maximum",
            "minimum",
            "mean",
            "median",
        )
    ),
    _unary(
        "pad/linear_ramp, ends",
        lambda x: np.pad(x, 3, "linear_ramp", end_values=((1, 2), (3, 4))),
        M,
    ),
    _unary(
        "pad/linear_ramp, integers",
        lambda x: np.pad(x, 3, "linear_ramp"),
        M,
        edge=((np.arange(6).reshape(2, 3),),),
    ),
    _unary(
        "pad/mean, stat_length",
        lambda x: np.pad(x, 2, "mean", stat_length=2),
        M,
        edge=((np.arange(5),),),
    ),
    _unary("pad/reflect odd", lambda x: np.pad(x, (2, 1), "reflect", reflect_type="odd"), M),
    _unary("pad/symmetric odd", lambda x: np.pad(x, (2, 1), "symmetric", reflect_type="odd"), M),
    _unary("pad/nothing", lambda x: np.pad(x, 0), M),
    _unary(
        "pad/empty axis", lambda x: np.pad(x, 1, "edge"), V, raises=(((np.zeros(0),), ShapeError),)
    ),
    _unary(
        "pad/function",
        lambda x: np.pad(x, 1, np.sin) if x.ndim == 2 else x,
        V,
        raises=(((M,), TypeError),),
    ),
    _unary(
        "pad/negative",
        lambda x: np.pad(x, -1) if x.ndim == 2 else x,
        V,
        raises=(((M,), ShapeError),),
    ),
]

_XP, _FP = np.array([0.0, 1.0, 2.5, 4.0]), _draw(4)
_AT = np.array([-0.5, 0.3, 1.7, 3.9, 4.4])

CREATION = [
    _unary("zeros_like/written", lambda x: _filled_by(np.zeros_like(x), x), M),
    _unary("empty_like/written", lambda x: _filled_by(np.empty_like(x), x), M),
    _unary("ones_like", lambda x: np.ones_like(x) * x, M, edge=_KINDS),
    _unary("full_like", lambda x: np.full_like(x, 2.5) * x, M, edge=_KINDS),
    _unary("full_like/traced", lambda x, y: np.full_like(x, y) * x, M, S, vmap=False),
    _unary(
        "full_like/shape",
        lambda x: np.full_like(x, 2, shape=(2, 2), dtype=np.float32) * x[0, 0],
        M,
        tol=2e-3,
    ),
    _unary("zeros/like", lambda x: _filled_by(_zeros((3, 4), x), x), M),
    _unary("linspace", lambda a, b: np.linspace(a, b, 7), S, np.array(2.5), order=2),
    _unary(
        "linspace/no endpoint", lambda a, b: np.linspace(a, b, 5, endpoint=False), S, np.array(2.5)
    ),
    _unary("linspace/axis", lambda a, b: np.linspace(a, b, 5, axis=-1), W, _draw(3)),
    _unary("linspace/retstep", lambda a: np.linspace(a, 3.0, 5, retstep=True), S),
    _unary("linspace/one", lambda a: np.linspace(a, 3.0, 1), S, raises=()),
    _unary("linspace/none", lambda a: np.linspace(a, 3.0, 0), S),
    _unary("logspace", lambda a, b: np.logspace(a, b, 4), S, np.array(1.1), order=2),
    _unary("logspace/base", lambda a, b: np.logspace(a, 1.0, 4, base=b), S, np.array(2.5)),
    _unary(
        "geomspace",
        lambda a, b: np.geomspace(a, b, 5),
        S,
        np.array(20.0),
        edge=((-S, np.array(-3.0)),),
    ),
    _unary("geomspace/axis", lambda a: np.geomspace(a, 9.0, 5, axis=1), np.array([1.0, 2.0])),
    _unary(
        "geomspace/complex",
        lambda a, b: np.geomspace(a, b, 5),
        np.array(0.7 + 0.4j),
        np.array(-1.1 + 0.3j),
    ),
    _unary(
        "geomspace/one complex",
        lambda a, b: np.geomspace(a, b, 4, endpoint=False),
        np.array(0.7),
        np.array(1.2 - 2.0j),
    ),
    _unary("geomspace/dtype", lambda a: np.geomspace(a, -3.0, 4, dtype=complex).real, S),
    _unary(
        "geomspace/complex axis",
        lambda a: np.geomspace(a, 9.0, 5, axis=1),
        np.array([1.0 + 2.0j, -2.0j]),
    ),
    _unary("interp", np.interp, _AT, _XP, _FP, order=2),
    _unary("interp/sides", lambda x, y: np.interp(x, _XP, y, left=-3.0, right=5.0), _AT, _FP),
    _unary("interp/period", lambda x, y: np.interp(x, _XP, y, period=5.0), _AT, _FP),
    _unary("interp/scalar", lambda x: np.interp(x, _XP, _FP), S),
    _unary("interp/sizes", lambda y: np.interp(_AT, _XP, y), _FP, raises=(((W,), ShapeError),)),
    *(
        _unary(f"convolve/{m}", lambda x, y, m=m: np.convolve(x, y, m), V, W, order=2)
        for m in ("full", "same", "valid")
    ),
    _unary("convolve/longer second", lambda x, y: np.convolve(x, y, "same"), _draw(2), V),
    _unary(
        "convolve/complex",
        lambda x, y: np.convolve(x, y),
        V,
        W,
        edge=((V + 1j, W), (np.arange(5), np.arange(3))),
    ),
    _unary(
        "convolve/empty",
        lambda x: np.convolve(x, W),
        V,
        raises=(((V[:0],), ShapeError), ((M,), ShapeError)),
    ),
    *(
        _unary(
            f"correlate/{m}, {p} and {q}",
            lambda x, y, m=m: np.correlate(x, y, m),
            _draw(p),
            _draw(q),
        )
        for m in ("full", "same", "valid")
        for p, q in ((6, 3), (6, 4), (3, 6), (4, 6), (3, 8), (5, 5))
    ),
    _unary("correlate/complex", lambda x, y: np.correlate(x, y), V, W, edge=((V + 1j, W - 2j),)),
    _unary("gradient", np.gradient, V, order=2, raises=(((V[:1],), ShapeError),)),
    _unary("gradient/axes", lambda x: np.gradient(x), M),
    _unary("gradient/axis", lambda x: np.gradient(x, 0.5, axis=1), M),
    _unary("gradient/spacing", lambda x, h: np.gradient(x, h), V, S),
    _unary(
        "gradient/coordinates",
        lambda x, t: np.gradient(x, t),
        V,
        np.array([0.0, 0.4, 1.1, 1.3, 2.0]),
        order=2,
    ),
    _unary("gradient/second order", lambda x, h: np.gradient(x, h, edge_order=2), V, S),
    _unary(
        "gradient/second order, coordinates",
        lambda x, t: np.gradient(x, t, 0.3, edge_order=2),
        M,
        np.array([0.0, 0.4, 1.1]),
    ),
    _unary("cov", np.cov, M, order=2, edge=((C,), (V,))),
    _unary("cov/two", lambda x, y: np.cov(x, y, bias=True), V, _draw(5)),
    _unary("cov/columns", lambda x: np.cov(x, rowvar=False, ddof=0), M),
    _unary(
        "cov/weights",
        lambda x: np.cov(
            x, aweights=np.array([1.0, 2.0, 0.5, 1.5]), fweights=np.array([1, 2, 1, 3])
        ),
        M,
    ),
    _unary("corrcoef", np.corrcoef, M, order=2, edge=((V,),)),
]


def _filled_by(target: Any, x: Any) -> Any:
    target[1] = x[1] * x[0]
    return target[1] + 1.0


def _zeros(shape: Any, like: Any) -> Any:
    return np.zeros(shape, like.dtype, like=like)


CASES = SHAPES + JOINS + CUTS + REPEATS + DIAGONALS + PADS + CREATION
