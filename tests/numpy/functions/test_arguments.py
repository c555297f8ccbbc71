"""Valid and invalid arguments of NumPy's functions: masks and their sizes, ``where=``, ``out=``,
bounds, orders, narrow floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import DtypeError, FunctraceError
from tests.oracles import attempt

Z = np.array([1.0, -2.0, 3.5, 4.0])


def check(f: Callable[[Any], Any], x: Any, what: object, *, rtol: float = 1e-12) -> None:
    """As NumPy under vjp, jit and vmap's own of one example: values, shapes and dtypes, or an
    exception of NumPy's class.
    """
    expected = attempt(lambda: f(x))
    for name, run in (("vjp", lambda: ft.vjp(f, x)[0]), ("jit", lambda: ft.jit(f)(x))):
        got = attempt(run)
        if isinstance(expected, Exception):
            assert isinstance(got, Exception), (what, name, got, expected)
            builtin = next(kind for kind in type(expected).__mro__ if kind.__module__ == "builtins")
            assert isinstance(got, (builtin, FunctraceError)), (what, name, got, expected)
            continue
        if isinstance(got, FunctraceError) and name == "jit":
            continue  # values may be needed
        assert not isinstance(got, Exception), (what, name, got, expected)
        for p, q in zip(got, expected, strict=True):
            assert (p.shape, p.dtype) == (q.shape, q.dtype), (what, name, p, q)
            np.testing.assert_allclose(p, q, rtol=rtol, err_msg=f"{what} {name}")


def written(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that writes into a copy of its argument, and returns that."""

    def of_copy(x: Any) -> Any:
        made = x.copy()
        f(made)
        return made

    return of_copy


# -- masks -----------------------------------------------------------------------------------------

MASKS: dict[str, Any] = {
    "True": True, "one": np.array([True]), "list": [True, False, True, False], "ints": [0, 1, 2, 0],
    "floats": [0.5, 0.0, 0.0, 1.0], "array": np.array([False, True, True, False]),
    "square": np.array([[False, True], [True, False]]), "short": [True, False], "long": [True] * 5,
    "float array": np.array([0.0, 1.0, 0.0, 2.0]), "0-d": np.array(True), "row": np.array([[True,
    False, True, True]]),
}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("values", [9.0, [9.0, 8.0], [], np.array([1, 2, 3, 4, 5])], ids=str)
def test_masks_have_the_size_of_the_array(mask: str, values: Any) -> None:
    m = MASKS[mask]
    check(written(lambda z: np.putmask(z, m, values)), Z, ("putmask", mask, values))
    check(written(lambda z: np.place(z, m, values)), Z, ("place", mask, values))
    check(lambda z: np.extract(m, z), Z, ("extract", mask))
    check(lambda z: np.compress(m, z), Z, ("compress", mask))
    check(lambda z: z.compress(m), Z, ("method compress", mask))
    check(written(lambda z: np.copyto(z, 7.0, where=m)), Z, ("copyto", mask))


_VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda z: z,
    "shifted": lambda z: z[1:],
    "reversed": lambda z: z[::-1],
    "first": lambda z: z[:3],
    "last": lambda z: z[3:],
    "even": lambda z: z[::2],
    "odd": lambda z: z[1::2],
    "odd, reversed": lambda z: z[::-2],
    "one": lambda z: z[2:3],
    "copy": lambda z: z.copy(),
    "rows": lambda z: z.reshape(2, 3).T.ravel(),
    "column": lambda z: z.reshape(2, 3)[:, 1],
}

_WRITERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "place": lambda t, m, v: np.place(t, m, v),
    "assignment": lambda t, m, v: t.__setitem__(m, v[: np.sum(m)]),
    "slice": lambda t, m, v: t.__setitem__(slice(None, len(v)), v[: len(t)]),
    "every second": lambda t, m, v: t.__setitem__(slice(None, None, 2), v[: (len(t) + 1) // 2]),
    "flat": lambda t, m, v: t.flat.__setitem__(slice(None, len(v)), v[: len(t)]),
    "flat =": lambda t, m, v: setattr(t, "flat", v),
    "fill_diagonal": lambda t, m, v: np.fill_diagonal(t[: len(t) // 2 * 2].reshape(2, -1), v[:2]),
    "concatenate": lambda t, m, v: np.concatenate(
        [np.ones(len(t) - len(v[: len(t)])), v[: len(t)]], out=t
    ),
    "stack": lambda t, m, v: np.stack(
        [v[:3], np.ones(len(v[:3]))], out=t[: 2 * len(v[:3])].reshape(2, -1)
    ),
    "putmask": lambda t, m, v: np.putmask(t, m, v),
    "put": lambda t, m, v: np.put(t, np.flatnonzero(m), v),
    "copyto": lambda t, m, v: np.copyto(
        t, np.resize(v, len(t)) if len(v) < len(t) else v[: len(t)], where=m
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", _VIEWS)
@pytest.mark.parametrize("name", _WRITERS)
def test_values_that_share_memory_with_the_array(name: str, target: str) -> None:
    z = np.array([1.0, -2.0, 3.5, 4.0, 0.25, 9.0])
    for source, bits in itertools.product(_VIEWS, (0b101101, 0b011010, 0b111111)):

        def f(z: Any, source: str = source, bits: int = bits) -> Any:
            t, v = _VIEWS[target](z), _VIEWS[source](z)
            _WRITERS[name](t, np.array([bool(bits >> k & 1) for k in range(len(t))]), v)
            return z, t

        expected, got = (
            attempt(lambda f=f: f(z.copy())),
            attempt(lambda f=f: ft.vjp(lambda x: f(x.copy()), z)[0]),
        )
        if isinstance(expected, Exception):
            assert isinstance(got, Exception), (source, got, expected)
        elif isinstance(got, FunctraceError):
            assert "share memory" in str(got)
            fresh = z.copy()
            t = _VIEWS[target](fresh)
            _WRITERS[name](
                t,
                np.array([bool(bits >> k & 1) for k in range(len(t))]),
                _VIEWS[source](fresh).copy(),
            )
            assert name in ("concatenate", "stack") or not np.array_equal(fresh, expected[0]), (
                source,
                got,
            )
            assert np.shares_memory(_VIEWS[target](z), _VIEWS[source](z)), (source, got)
        else:
            for p, q in zip(got, expected, strict=True):
                np.testing.assert_array_equal(p, q, err_msg=f"{name} {target} {source} {bits:b}")


def test_parts_of_an_array_share_memory_if_they_have_elements_in_common() -> None:
    z = np.array([1.0, -2.0, 3.5, 4.0, 0.25, 9.0])
    for f, one, other in itertools.product(
        (np.shares_memory, np.may_share_memory), _VIEWS.values(), _VIEWS.values()
    ):
        found: list[Any] = []
        ft.vjp(
            lambda z, f=f, p=one, q=other, found=found: (found.append(f(p(z), q(z))), z.sum())[1], z
        )
        assert found == [f(one(z), other(z))]


@pytest.mark.parametrize(
    "run", [lambda f, x: ft.vjp(f, x)[0], lambda f, x: ft.jit(f)(x)], ids=["vjp", "jit"]
)
def test_functional_updates_read_the_original_values(run: Callable[..., Any]) -> None:
    mask = np.array([True, False, True, True])
    got = run(lambda z: z.at[mask].set(z[::-1][:3]) + z.at[::2].set(z[:2]), Z)
    expected = [Z.copy(), Z.copy()]
    expected[0][mask], expected[1][::2] = Z[::-1][:3].copy(), Z[:2].copy()
    np.testing.assert_array_equal(got, sum(expected))


def test_writes_without_overlap_are_allowed() -> None:
    """Rows and columns of an array with the same root, and what has the same elements in the same
    places.
    """

    def f(x: Any) -> Any:
        a = x.copy()
        a[0][np.array([True, False, True])] = a[1, :2]
        a[:, 0] = a[0, :]
        a[2].flat[1:] = a[0, :2]
        a.flat[:3] = a[2]
        a[1:, 1:] = a[:2, :2]
        a[::2] = a[:2]
        np.concatenate([a[0], np.ones(3)], out=a[1:].reshape(-1))
        np.fill_diagonal(a[:2], a[2, :2])
        return a

    x = np.arange(9.0).reshape(3, 3) ** 2
    np.testing.assert_array_equal(ft.vjp(f, x)[0], f(x))
    np.testing.assert_array_equal(ft.jit(f)(x), f(x))


# -- where= and out= -------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: lambda z, w, name=name: getattr(np, name)(z, where=w)
        for name in (
            "sum",
            "prod",
            "mean",
            "var",
            "std",
            "any",
            "all",
            "nansum",
            "nanprod",
            "nanmean",
            "nanvar",
            "nanstd",
        )
    },
    **{
        name: lambda z, w, name=name: getattr(np, name)(z, where=w, initial=0.5)
        for name in ("max", "min", "nanmax", "nanmin")
    },
    "method sum": lambda z, w: z.sum(where=w),
    "method max": lambda z, w: z.max(where=w, initial=-9.0),
    "add.reduce": lambda z, w: np.add.reduce(z, where=w),
    "maximum.reduce": lambda z, w: np.maximum.reduce(z, where=w, initial=0.0),
    "logaddexp.reduce": lambda z, w: np.logaddexp.reduce(z, where=w),
    "hypot.reduce": lambda z, w: np.hypot.reduce(z, where=w),
    "exp": lambda z, w: np.exp(z, where=w, out=np.zeros_like(z)),
    "add": lambda z, w: np.add(z, 1.0, where=w, out=np.ones_like(z)),
}

WHERES: tuple[Any, ...] = (
    True, False, np.True_, 1, 0, 2.5, np.float64(1.0), np.int64(0), [True, False, True, True], [1,
    0, 2.5, 0], (1, 0, 1, 1),
    np.array([True, False, True, True]), np.array([1, 0, 1, 1]), np.array([1.0, 0.0, 1.0, 1.0]),
    np.array(1), np.array(1.0),
    np.array(True), np.array([True]), np.array([[True, False, True, True]]), [True, False],
)  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REDUCTIONS)
def test_where_is_an_array_of_bools_or_no_array(name: str) -> None:
    masks: list[Callable[[Any], Any]] = [
        *[lambda z, w=w: w for w in WHERES],
        lambda z: z,
        lambda z: z > 0,
        np.argsort,
        np.argmax,
    ]
    for make in (*masks, lambda z: np.sum(z) > 0):
        f = lambda z, make=make: REDUCTIONS[name](z, make(z))
        counts = np.ndim(make(Z)) == 0 or isinstance(make(Z), list | tuple)
        if (
            name in ("mean", "var", "std") and counts and not np.isin(make(Z), (0, 1)).all()
        ):  # NumPy counts 2.5 as two elements
            with pytest.raises(DtypeError, match="must be bools"):
                ft.vjp(f, Z)
        else:
            check(f, Z, (name, make(Z)))


_NO_ARRAYS: tuple[Any, ...] = (1.5, [0.0, 0.0, 0.0, 0.0], (0.0,), "text")


@pytest.mark.parametrize("out", _NO_ARRAYS, ids=str)
def test_out_is_an_array(out: Any) -> None:
    of_out: dict[str, Callable[[Any, Any, Any], Any]] = {
        "exp": lambda np, z, out: np.exp(z, out),
        "exp, out=": lambda np, z, out: np.exp(z, out=out),
        "add": lambda np, z, out: np.add(z, z, out),
        "isneginf": lambda np, z, out: np.isneginf(z, out),
        "fix": lambda np, z, out: np.fix(z, out),
        "sum": lambda np, z, out: np.sum(z, None, None, out),
        "cumsum": lambda np, z, out: np.cumsum(z, out=out),
        "clip": lambda np, z, out: np.clip(z, 0.0, 1.0, out),
        "mean": lambda np, z, out: np.mean(z, out=out),
        "round": lambda np, z, out: np.round(z, 1, out),
        "concatenate": lambda np, z, out: np.concatenate([z], out=out),
    }
    for name, f in of_out.items():
        for namespace in (np, ft.numpy):
            for given in (out, [Z[0], 0.0, 0.0, 0.0]):
                with pytest.raises(TypeError):
                    f(np, Z, given)

                def traced(
                    z: Any, f: Any = f, namespace: Any = namespace, given: Any = given
                ) -> Any:
                    return f(namespace, z, [z[0], 0.0, 0.0, 0.0] if given is not out else given)

                with pytest.raises(TypeError):
                    ft.vjp(traced, Z)
                with pytest.raises(TypeError):
                    ft.vjp(ft.numpy.lift(lambda z, f=f, given=given: f(np, [z[0], 1.0], given)), Z)
        assert name


# -- bounds, orders, kinds -------------------------------------------------------------------------

_CLIPS = """
    np.clip(z) np.clip(z,1.) np.clip(z,1.,None) np.clip(z,None,1.) np.clip(z,None,None) np.clip(z,0.,2.)
    np.clip(z,max=2.) np.clip(z,min=2.) np.clip(z,min=0.,max=2.) np.clip(z,a_min=2.) np.clip(z,a_max=2.)
    np.clip(z,a_min=0.,a_max=2.) np.clip(z,0.,max=2.) np.clip(z,0.,2.,min=1.) np.clip(z,0.,2.,max=1.) np.clip(z,None)
    np.clip(z,a_min=None) np.clip(z,0.,a_max=2.) z.clip() z.clip(2.) z.clip(0.,2.) z.clip(None,2.) z.clip(max=2.)
    z.clip(min=2.) z.clip(None,None) z.clip(0.,max=2.)
"""
CLIPS: dict[str, Callable[[Any], Any]] = {
    text: eval(f"lambda z: {text}", {"np": np}) for text in _CLIPS.split()
}


@pytest.mark.parametrize("text", CLIPS)
def test_clip_takes_both_bounds_or_names(text: str) -> None:
    check(CLIPS[text], Z, text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_orders_of_quantiles_have_at_most_two_axes(name: str) -> None:
    f: Any = getattr(np, name)
    scale = 100.0 if "percentile" in name else 1.0
    for q in (
        0.3,
        np.array(0.3),
        [0.2, 0.7],
        [[0.2, 0.7], [0.5, 1.0]],
        [[0.4]],
        [[[0.4]]],
        np.zeros((1, 1, 2)),
    ):
        order = np.asarray(q)[()] * scale
        for axis, keepdims in itertools.product((None, 0, (0, 1)), (False, True)):
            x = np.array([[3.0, 1.0, 2.0], [0.5, -1.0, 9.0]])
            check(
                lambda x, a=axis, k=keepdims, o=order: f(x, o, axis=a, keepdims=k),
                x,
                (name, q, axis, keepdims),
            )
            weighted = lambda x, a=axis, k=keepdims, o=order: f(
                x, o, axis=a, keepdims=k, method="inverted_cdf", weights=np.ones(x.shape)
            )
            check(weighted, x, (name, q, axis, keepdims, "weighted"))


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (1, 3), (2, 1, 2)], ids=str)
def test_polynomials_are_vectors(shape: tuple[int, ...]) -> None:
    p = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)[()]
    vector = np.array([1.0, 2.0])
    for name, f in {
        "polymul": lambda p: np.polymul(p, vector),
        "polymul, right": lambda p: np.polymul(vector, p),
        "polyadd": lambda p: np.polyadd(p, p),
        "polysub": lambda p: np.polysub(p, p),
        "polydiv": lambda p: np.polydiv(p, vector),
        "roots": np.roots,
    }.items():
        check(f, p, (name, shape), rtol=1e-9)
    for name, f in {
        "polyder": np.polyder,
        "polyint": np.polyint,
        "polyder 2": lambda p: np.polyder(p, 2),
    }.items():
        if len(shape) == 1:  # of other shapes NumPy raises, or broadcasts with the exponents
            check(f, p, (name, shape))
        else:
            with pytest.raises(FunctraceError):
                ft.vjp(f, p)


def test_infinities_of_complex_numbers_have_no_sign() -> None:
    for f in (np.isneginf, np.isposinf):
        for x in (np.array([1j, np.inf]), np.array(1j), Z, np.array([-np.inf, np.inf, np.nan])):
            check(f, x, (f.__name__, x))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?"])
def test_index_grids_keep_the_dtype_of_empty_arrays(dtype: str) -> None:
    for x in (np.zeros(0, dtype), np.ones(2, dtype)):
        for f in (
            np.ix_,
            lambda x: np.ix_(x, [0, 1]),
            lambda x: np.ix_([], x),
            lambda x: np.ix_(np.zeros(0), x),
        ):
            expected = f(x)
            got: list[Any] = []
            ft.vjp(
                lambda y, f=f, x=x: (
                    got.append(f(x if x.dtype.kind in "b" else np.copy(y).astype(x.dtype))),
                    np.sum(y),
                )[1],
                x.astype(float),
            )
            assert [(np.shape(a), a.dtype) for a in got[0]] == [
                (a.shape, a.dtype) for a in expected
            ]


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name", ["mean", "var", "std", "nanmean", "nanvar", "nanstd", "sum", "average"]
)
def test_float16_overflows_where_numpy_does(name: str) -> None:
    rng = np.random.default_rng(0)
    f: Any = getattr(np, name)
    for scale, shape, axis in itertools.product(
        (1.0, 300.0, 20000.0), ((7,), (3, 5), (70000,)), (None, 0)
    ):
        x = (rng.standard_normal(shape) * scale).astype(np.float16)
        check(lambda x, a=axis: f(x, axis=a), x, (name, scale, shape, axis), rtol=2e-3)
        if name in ("var", "std"):
            check(
                lambda x, a=axis: f(x, axis=a, ddof=1),
                x,
                (name, scale, shape, axis, "ddof"),
                rtol=2e-3,
            )
            check(
                lambda x, a=axis: f(x, axis=a, dtype=np.float32),
                x,
                (name, scale, shape, axis, "float32"),
                rtol=1e-5,
            )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["i8", "u1", "?", "f2", "f8", "c16"])
def test_assigned_plain_numbers_fit_the_dtype_or_raise(dtype: str) -> None:
    numbers: tuple[Any, ...] = (np.nan, -1, 300, 1e300, 1j, 0j, 2.5, np.inf)
    writes: dict[str, Callable[[Any, Any], Any]] = {
        "one": lambda y, v: y.__setitem__(0, v),
        "all": lambda y, v: y.__setitem__(..., v),
        "slice": lambda y, v: y.__setitem__(slice(1, 3), v),
        "mask": lambda y, v: y.__setitem__(np.array([True, False, True, False]), v),
        "fill": lambda y, v: y.fill(v),
        "flat": lambda y, v: setattr(y, "flat", v),
        "copyto": np.copyto,
        "putmask": lambda y, v: np.putmask(y, np.array([True, False, True, False]), v),
        "place": lambda y, v: np.place(y, np.array([True, False, True, False]), v),
        "put": lambda y, v: np.put(y, [1], v),
        "fill_diagonal": lambda y, v: np.fill_diagonal(y.reshape(2, 2), v),
    }
    for (name, write), v in itertools.product(writes.items(), numbers):

        def f(x: Any, write: Any = write, v: Any = v) -> Any:
            y = np.abs(x).astype(dtype)
            write(y, v)
            return y

        check(f, Z, (name, v))
