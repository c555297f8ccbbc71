"""Views, copies and memory order are NumPy's, or an error: checked on every function, and on random
programs.

The oracle is NumPy on arrays that are laid out in the same way. `FunctraceError` is always an
allowed outcome here; its number over the random programs is bounded.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.api.capture.arguments import as_value
from functrace.api.capture.record import add_input
from functrace.errors import DtypeError, FunctraceError, ShapeError, UnsupportedFunctionError
from functrace.numpy.arrays.layout import layout_of
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.arrays.views import is_scalar
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from tests.cases.case import Case
from tests.numpy.memory_programs import LAYOUTS, draw, laid_out, run
from tests.test_cases import CASES

# ``x.at`` is not NumPy's, and what broadcast_arrays returns can be written with a warning.
# functrace.scipy's functions compute what SciPy's do, and lay it out otherwise: LAPACK's results
# are in Fortran order.
SCIPYS = ("scipy", "stats/", "special/", "signal.", "ndimage.", "interpolate.", "sparse")
NUMPYS = [case for case in CASES if not case.name.startswith(("at/", "broadcast_arrays", *SCIPYS))]
every = pytest.mark.parametrize("case", NUMPYS, ids=lambda case: case.name)
WAYS = [*LAYOUTS[:-1], "scalar"]


def _leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, tuple | list):
        for part in result:
            yield from _leaves(part)
    else:
        yield result


def _arranged(value: Any, way: str) -> Any:
    a = np.asarray(value)
    if not a.ndim:
        return a[()] if way == "scalar" else a.copy()
    return laid_out(a, "C" if way == "scalar" else way)


def _traced(recording: Recording, arrays: list[Any]) -> list[Any]:
    return [add_input(recording, as_value(a, "an argument"), a) for a in arrays]


def _expected(case: Case, arrays: list[Any]) -> list[Any] | None:
    """NumPy's results; ``None`` where it refuses (some cases are there for that)."""
    try:
        return list(_leaves(case.call(*arrays)))
    except (
        ValueError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
        np.linalg.LinAlgError,
    ):
        return None


def _steps(a: np.ndarray[Any, Any]) -> list[int]:
    return [s for s, n in zip(a.strides, a.shape, strict=True) if n != 1] if a.size else []


@pytest.mark.sampled(20)
@every
def test_layouts_are_numpys_or_unknown(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for args in (case.args, *case.edge):
            for way in WAYS:
                arrays = [_arranged(a, way) for a in args]
                expected = _expected(case, arrays)
                if expected is not None:
                    with ArrayRecording("test") as recording:
                        _check_layouts(case, expected, _traced(recording, arrays), way)


def _check_layouts(case: Case, expected: list[Any], traced: list[Any], way: str) -> None:
    try:
        found = list(_leaves(case.call(*traced)))
    except FunctraceError:
        return
    for e, x in zip(expected, found, strict=True):
        if not isinstance(x, Tracer) or x.shape != np.shape(e):
            continue
        if not x.ndim:
            assert is_scalar(x) is not isinstance(e, np.ndarray), way
            continue
        operations = [lambda a: a] if e.dtype.kind == "b" else [lambda a: a, np.negative]
        for operation in operations:
            layout, wanted = layout_of(operation(x)), operation(e)
            assert layout is None or _steps(layout) == _steps(wanted), (
                way,
                layout.strides,
                wanted.strides,
            )


@pytest.mark.sampled(48)
@every
def test_writes_reach_the_same_elements_as_in_numpy(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for args in (case.args, *case.edge):
            for way in ("C", "F", "stepped", "scalar"):

                def make(args: Any = args, way: str = way) -> list[Any]:
                    return [_arranged(a, way) for a in args]

                expected = _expected(case, make())
                for k in range(-1, len(expected)) if expected is not None else ():
                    _check_aliasing(case, make, k)


def _check_aliasing(case: Case, make: Callable[[], list[Any]], k: int) -> None:
    """Write into the k-th result, or into all arguments (-1), and compare all arguments and
    results.
    """
    arrays = make()
    expected = list(_leaves(case.call(*arrays)))
    with ArrayRecording("test") as recording:
        traced = _traced(recording, make())
        try:
            found = list(_leaves(case.call(*traced)))
        except FunctraceError:
            return
        both = list(zip(arrays, traced, strict=True)) if k < 0 else [(expected[k], found[k])]
        pairs: list[Any] = [
            (a, t) for a, t in both if isinstance(a, np.ndarray) and isinstance(t, Tracer)
        ]
        try:
            for a, _ in pairs:
                a[...] = 3
        except ValueError:  # read-only
            return
        try:
            for _, t in pairs:
                t[...] = 3
            values = [x.ft_concrete() if isinstance(x, Tracer) else x for x in (*traced, *found)]
        except FunctraceError:
            return
    for value, wanted in zip(values, (*arrays, *expected), strict=True):
        np.testing.assert_allclose(np.asarray(value), np.asarray(wanted), rtol=1e-4, atol=1e-6)


# -- random programs -------------------------------------------------------------------------------


def _base(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = [np.float64, np.float32, np.complex128, np.int64, np.bool_][rng.integers(0, 5)]
    shape = [(2, 3), (3, 3), (4,), (2, 1, 3), (), (0, 3), (2, 2, 2), (1,), (3, 2)][
        rng.integers(0, 9)
    ]
    base = np.asarray(rng.integers(0, 3, size=shape)).astype(dtype)
    return (
        np.asarray(base + 1j * rng.integers(0, 3, size=shape)) if dtype is np.complex128 else base
    )


def _ways(
    f: Callable[..., Any], make: Callable[[], Any], layout: str
) -> dict[str, Callable[[], Any]]:
    def mapped() -> Any:
        one = make()
        batch = np.stack([one, one])
        if layout == "F":
            axes = (0, *range(1, batch.ndim)[::-1])
            batch = np.array(batch.transpose(axes), order="C").transpose(axes)
        return [result[1] for result in ft.vmap(f)(batch)]

    ways = {
        "vjp": lambda: ft.vjp(f, make())[0],
        "jit": lambda: ft.jit(f)(make()),
        "trace": lambda: ft.evaluate(ft.trace(f)(make()), make()),
        "checkpoint": lambda: ft.vjp(ft.checkpoint(f), make())[0],
    }
    if layout in "CF" and not (isinstance(make(), np.ndarray) and not make().ndim):
        ways["vmap"] = mapped
    return ways


def check_program(seed: int) -> Counter[str]:
    """Check one random program in every way; returns how often each ran, and how often it raised
    one of our errors.
    """
    rng = np.random.default_rng(seed)
    base, layout, scalar = _base(rng), LAYOUTS[rng.integers(0, len(LAYOUTS))], rng.random() < 0.5

    def make() -> Any:
        return base[()] if scalar and not base.ndim else laid_out(base, layout)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = draw(rng, lambda: [make()], int(rng.integers(3, 12)))
        expected = [np.array(x) for x in run(steps, [make()])]
        seen: Counter[str] = Counter()
        for way, call in _ways(lambda x: tuple(run(steps, [x])), make, layout).items():
            try:
                found = call()
            except FunctraceError:
                seen[f"{way} raised"] += 1
                continue
            seen[way] += 1
            found = found if isinstance(found, tuple | list) else (found,)
            for k, (x, wanted) in enumerate(zip(found, expected, strict=True)):
                assert np.asarray(x).dtype == wanted.dtype, (seed, way, k)
                np.testing.assert_array_equal(x, wanted, err_msg=f"seed {seed}, {way}, value {k}")
    return seen


@pytest.mark.sampled(5)
@pytest.mark.parametrize("block", range(10))
def test_random_programs_equal_numpy_or_raise(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(20 * block, 20 * block + 20):
        seen += check_program(seed)
    assert seen["vjp raised"] <= 0.15 * seen["vjp"], seen
    assert seen["jit raised"] <= seen["jit"], seen


# -- the snippets that found it --------------------------------------------------------------------


def _f_view_of_an_element(x: Any) -> Any:
    v, w = x[0, 0, ...], x[..., 1, 2]
    v += 10.0
    w[...] = 7.0
    s = np.squeeze(x[1:, :1])
    s += 1.0
    x[:1, :1].reshape(())[()] = 2.0
    return x


def _f_einsum(x: Any) -> Any:
    d = np.einsum("ii->i", x[:, :2])
    d *= 5.0
    np.einsum("ij->ji", x)[0] = 3.0
    return x * 1.0


def _f_reshape_of_f_order(x: Any) -> Any:
    y = fnp.asfortranarray(x * 2.0)
    y.ravel()[0] = 100.0
    y.ravel("F")[1] = 50.0
    y.reshape(-1, order="F")[2] = 25.0
    y.reshape(3, 2)[0, 0] = 12.0
    return y


def _f_orders(x: Any) -> Any:
    parts = [
        x.ravel("K"),
        x.T.ravel("K"),
        x.T.ravel("A"),
        x[:, ::-1].T.ravel("K"),
        x.T.reshape(-1, order="A"),
    ]
    parts += [
        (x.T + 1.0).flatten("K"),
        np.copy(x.T).ravel("A"),
        x.T.copy().ravel("A"),
        np.zeros_like(x.T).ravel("K") + x.T.ravel(),
    ]
    return np.stack(parts)


def _f_strided_ravel_is_a_copy(x: Any) -> Any:
    y = x[:, ::2].ravel()
    y += 1.0
    z = x[0, ::2].ravel()
    z += 1.0
    x[0, ::2].reshape(2, 1)[0] = 9.0
    return x + y[0] + z[0]


def _f_fancy_results(x: Any) -> Any:
    y = x[:, [0, 2]]
    y.reshape(-1)[1] = 50.0
    y.ravel("F")[0] = 20.0
    return y


def _f_scalars_and_arrays(x: Any) -> Any:
    total = np.sum(x)
    best = total
    total += 1.0
    total **= 2
    array = np.zeros_like(best)
    alias = array
    alias += 3.0
    chosen = np.where(best > 0, best, -best)
    other = chosen
    other *= 2.0
    return np.stack([total, best, array, alias, chosen, other])


def _f_traced_integer(x: Any) -> Any:
    row = x[np.argmax(x[:, 0])]
    row += 100.0
    x[np.argmin(x[:, 0]), 1:] *= 2.0
    return x


def _f_copyto(x: Any) -> Any:
    np.copyto(x[0], np.ones((1, 1, 3)))
    np.copyto(x[1], x[0] * 2.0, where=np.array([True, False, True]))
    np.copyto(x, 4.0, where=[[False], [True]])
    return x


def _f_delete_nothing(x: Any) -> Any:
    y = np.delete(x, [], 0)
    y[0] = 1.0
    return x + y


def _f_axis_of_a_number(x: Any) -> Any:
    s = x[0, 0]
    return np.stack([np.sum(s, axis=0), np.max(s, axis=-1), s.prod(axis=0), np.min(s, axis=())])


SNIPPETS = [f for name, f in list(globals().items()) if name.startswith("_f_")]
_X = np.array([[0.5, -1.25, 2.0], [3.0, 0.25, -0.75]])


@pytest.mark.parametrize("layout", ["C", "F", "stepped", "reversed", "moved"])
@pytest.mark.parametrize("f", SNIPPETS, ids=lambda f: f.__name__[3:])
def test_snippets_equal_numpy(f: Callable[[Any], Any], layout: str) -> None:
    expected = f(laid_out(_X, layout))
    x = laid_out(_X, layout)
    kept = x.copy()
    np.testing.assert_array_equal(ft.vjp(f, x)[0], expected)
    np.testing.assert_array_equal(ft.evaluate(ft.trace(f)(x), x), expected)
    np.testing.assert_array_equal(x, kept)


def test_a_vmapped_function_receives_a_slice_of_the_batch() -> None:
    def f(x: Any) -> Any:
        x.ravel()[0] = 100.0
        return x

    batch = np.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_array_equal(ft.vmap(f)(batch), [f(x.copy()) for x in batch])
    turned = np.moveaxis(
        np.arange(12.0).reshape(2, 3, 2), 2, 0
    )  # its slices are not contiguous: ravel() copies
    np.testing.assert_array_equal(ft.vmap(f)(turned), turned)


def test_an_unknown_layout_raises_only_where_it_matters() -> None:
    @ft.jit
    def unseen(x: Any) -> Any:
        flat = x.ravel()
        flat[0] = 5.0
        return flat

    np.testing.assert_array_equal(unseen(np.zeros((2, 2))), [5.0, 0.0, 0.0, 0.0])

    @ft.jit
    def seen(x: Any) -> Any:
        x.ravel()[0] = 5.0
        return x

    with pytest.raises(UnsupportedFunctionError, match="may share memory"):
        seen(np.zeros((2, 2)))

    @ft.jit
    def copied(x: Any) -> Any:
        x = x.copy()
        x.ravel()[0] = 5.0
        return x

    np.testing.assert_array_equal(copied(np.zeros((2, 2))), [[5.0, 0.0], [0.0, 0.0]])

    @ft.jit
    def orders(x: Any) -> Any:
        return x.ravel("K")

    with pytest.raises(UnsupportedFunctionError, match="depends on the memory layout"):
        orders(np.zeros((2, 2)))


def test_a_staged_number_may_be_a_scalar_or_an_array() -> None:
    @ft.jit
    def accumulated(total: Any, x: Any) -> Any:
        total += np.sum(x)
        return total

    assert accumulated(np.float64(1.0), np.ones(3)) == 4.0

    @ft.jit
    def kept(total: Any) -> Any:
        before = total
        total += 1.0
        return total - before

    with pytest.raises(UnsupportedFunctionError, match="scalar"):
        kept(np.float64(1.0))


def test_0d_arguments_are_what_was_passed() -> None:
    def f(x: Any) -> Any:
        y = x
        y += 1.0
        return x * 10.0

    for x in (2.0, np.float64(2.0)):
        assert ft.vjp(f, x)[0] == 20.0
        assert ft.grad(f)(x) == 10.0
    array = np.array(2.0)
    assert ft.vjp(f, array)[0] == 30.0
    assert array == 2.0


def test_writes_to_scalars_raise() -> None:
    def f(x: Any) -> Any:
        s = np.sum(x)
        s[...] = 1.0
        return s

    with pytest.raises(DtypeError, match="never changes"):
        ft.vjp(f, np.ones(3))


def test_writes_into_read_only_views_raise() -> None:
    for view in (
        lambda x: np.broadcast_to(x, (2, 2, 2)),
        np.diagonal,
        lambda x: np.broadcast_to(x, (2, 2, 2)).reshape(2, 4)[0],
    ):

        def f(x: Any, view: Any = view) -> Any:
            view(x)[0] = 1.0
            return x

        with pytest.raises(ShapeError, match="read-only"):
            ft.vjp(f, np.ones((2, 2)))


def test_masked_selections_change_in_place_while_staging() -> None:
    def f(y: Any) -> Any:
        mask = y > 0
        z = y[mask]
        other = z
        z[...] = 0.0
        z += 2.0
        y[mask] = other
        return y

    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(ft.jit(f)(x), f(x.copy()))
    np.testing.assert_array_equal(ft.jit(lambda y: (y[y > 0].__setitem__(..., 0.0), y)[1])(x), x)


def test_a_write_to_a_row_that_a_body_returns_raises() -> None:
    def f(x: Any) -> Any:
        row = ft.checkpoint(lambda y: y[np.argmax(y[:, 0])])(x)
        return row, x

    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(ft.vjp(f, x)[0][0], x[2])

    def writes(x: Any) -> Any:
        row, x = f(x)
        row += 1.0
        return x

    with pytest.raises(FunctraceError, match="shares memory"):
        ft.vjp(writes, x)


def test_results_of_transforms_are_fresh() -> None:
    x = np.ones((2, 3))
    for result in (
        ft.jit(lambda y: y.T)(x),
        ft.vjp(lambda y: y[...], x)[0],
        ft.vmap(lambda y: y)(x),
        ft.vjp(np.ravel, x)[0],
    ):
        result[...] = 7.0
        assert np.all(x == 1.0)


def test_a_layout_that_depends_on_itself_is_unknown():
    def f(y):
        v = np.divmod(y, y)[1]
        np.copyto(v, y)  # v names y's variable now, laid out as the remainder of y is
        return v.reshape(1, -1)

    y = 2.0 + np.arange(9.0).reshape(3, 3)
    expected = f(y)
    for transformed in (
        ft.jit(f),
        lambda y: ft.vjp(f, y)[0],
        lambda y: ft.vmap(ft.checkpoint(f))(np.stack([y, y]))[0],
    ):
        np.testing.assert_array_equal(transformed(y), expected)


@pytest.mark.parametrize(
    "read",
    [
        np.array,
        np.asarray,
        np.ascontiguousarray,
        np.sum,
        lambda x: x.tolist(),
        lambda x: x.tobytes(),
        lambda x: x.item(0),
    ],
    ids=["array", "asarray", "ascontiguousarray", "sum", "tolist", "tobytes", "item"],
)
def test_reads_after_a_write_to_possibly_shared_memory_raise(read: Any) -> None:
    def f(x: Any) -> Any:
        x.reshape(-1)[0] = 1.5
        return np.sum(read(x))

    with pytest.raises(UnsupportedFunctionError, match="may share memory"):
        ft.jit(f)(np.zeros((2, 2)))
