"""Compression of residuals: the documented error bounds, exact arrays, codecs, and the report."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import functrace as ft
from functrace.errors import DtypeError
from functrace.policies import compress
from tests.oracles import assert_same

RNG = np.random.default_rng(7)


def through(method: Any, x: Any) -> Any:
    """An array, compressed and restored."""
    policy = compress(method)
    given = np.asarray(x).copy("K")
    held = policy.store(x)
    assert_same(x, given)
    found = [policy.restore(held) for _ in range(2)]
    assert_same(found[0], found[1])
    assert found[0].shape == np.shape(x) and found[0].dtype == np.asarray(x).dtype
    return found[0]


def float16_bound(x: Any) -> Any:
    return np.maximum(np.abs(x) / 2**11, np.max(np.abs(x), initial=0.0) / 2**38)


def int8_bound(x: Any) -> Any:
    """The bound by the largest of each 256 elements, by a Python loop."""
    flat = np.abs(np.ravel(x))
    most = [np.max(flat[k : k + 256]) for k in range(0, flat.size, 256)]
    return np.repeat(most, 256)[: flat.size].reshape(np.shape(x)) / 254 * (1 + 1e-6)


BOUNDS = {"float16": float16_bound, "int8": int8_bound}
DTYPES = [np.float32, np.float64, np.longdouble]
MAGNITUDES = [1.0, 1e-30, 1e30, 2.0**-120]


@pytest.mark.parametrize("method", BOUNDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 255, 256, 257, 5000, 65536 * 2 + 3])
def test_errors_are_within_the_documented_bounds(method: str, dtype: Any, size: int) -> None:
    for magnitude in MAGNITUDES:
        x = (RNG.normal(size=size) ** 3 * magnitude).astype(dtype)
        found = through(method, x)
        assert np.all(np.abs(found - x) <= BOUNDS[method](x))
        assert np.any(found != x) or size < 3


@pytest.mark.draws
@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32]),
        st.integers(2, 600),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_errors_of_random_arrays_are_within_the_bounds(x: Any) -> None:
    for method, bound in BOUNDS.items():
        assert np.all(np.abs(through(method, x) - x) <= bound(x).astype(np.float64))
    assert_same(through("zlib", x), x)


@pytest.mark.parametrize("method", BOUNDS)
@pytest.mark.parametrize("dtype", [np.float16, *DTYPES])
def test_the_largest_and_smallest_numbers_of_a_dtype_stay_finite(method: str, dtype: Any) -> None:
    """Neither is infinity restored for a finite number, nor does the dtype's rounding add up."""
    numbers = np.finfo(dtype)
    for largest in (numbers.max, np.nextafter(numbers.max, dtype(0)), numbers.max / dtype(3)):
        x = np.linspace(-1.0, 1.0, 257).astype(dtype) * dtype(largest)
        x[::7] = numbers.smallest_subnormal
        found, exact = through(method, x).astype(np.longdouble), x.astype(np.longdouble)
        rounding = 0.5 * np.longdouble(numbers.eps) * np.abs(exact)
        assert np.isfinite(found).all()
        assert np.all(np.abs(found - exact) <= BOUNDS[method](exact) + rounding)


@pytest.mark.parametrize("method", BOUNDS)
def test_complex_numbers_are_two_real_ones(method: str) -> None:
    x = RNG.normal(size=300) + 1j * RNG.normal(size=300)
    found = through(method, x)
    pairs = np.stack([x.real, x.imag], axis=1)
    error = np.abs(np.stack([found.real, found.imag], axis=1) - pairs)
    assert np.all(error <= BOUNDS[method](pairs))


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7e-310, 5e-324, 1.7e308, -2.5])
def test_int8_keeps_constants_and_zeros(value: float) -> None:
    assert_same(through("int8", np.full(1000, value)), np.full(1000, value))
    x = np.where(np.arange(1000) % 3 == 0, 0.0, RNG.normal(size=1000))
    assert np.all((through("int8", x) == 0) >= (x == 0))


EXACT = {
    "integers": np.arange(-500, 500),
    "bytes": np.arange(256, dtype=np.uint8),
    "bools": RNG.normal(size=1000) > 0,
    "nan": np.r_[np.nan, RNG.normal(size=999)],
    "infinity": np.r_[RNG.normal(size=999), -np.inf],
    "complex nan": np.r_[1j * np.nan, RNG.normal(size=999)],
    "number": np.asarray(0.1),
    "one element": np.asarray([[0.1]]),
    "none": np.zeros((0, 3)),
}


@pytest.mark.parametrize("method", ["float16", "int8", "zlib"])
@pytest.mark.parametrize("x", EXACT.values(), ids=EXACT)
def test_what_is_no_finite_float_stays_exact(method: str, x: Any) -> None:
    assert_same(through(method, x), x)


@pytest.mark.parametrize("method", ["float16", "int8", "zlib"])
def test_layouts_and_broadcast_arrays(method: str) -> None:
    x = RNG.normal(size=(6, 40, 50))
    for view in (x.T, x[::2, ::-1], np.broadcast_to(x[:, :1], (6, 9, 50)), x[:, 3, 4]):
        found = through(method, view)
        bound = BOUNDS.get(method)
        most = np.max(np.abs(view)) / 254 if bound else 0.0
        assert np.max(np.abs(found - view)) <= most * (1 + 1e-9)
    held = compress(method).store(np.broadcast_to(x[0, 0, :, None], (50, 100000)))
    assert np.asarray(held[0]).nbytes <= 50 * 8


def test_compression_ignores_the_error_state() -> None:
    x = np.r_[1.0, 1e-300, RNG.normal(size=600)]
    with np.errstate(all="raise"):
        for method in ("float16", "int8"):
            through(method, x)


class Rounds:
    """A codec that keeps float32."""

    dtype = np.dtype(np.float64)

    def encode(self, x: Any) -> Any:
        assert x.dtype == np.float64 and x.flags.c_contiguous
        return x.astype(np.float32).tobytes()

    def decode(self, data: Any) -> Any:
        return np.frombuffer(bytes(data), np.float32).astype(np.float64)


class Truncates(Rounds):
    def decode(self, data: Any) -> Any:
        return super().decode(data)[1:]


def test_own_codec() -> None:
    x = RNG.normal(size=(20, 30))
    assert_same(through(Rounds(), x), x.astype(np.float32).astype(np.float64))
    z = x + 1j * x[::-1]
    assert_same(through(Rounds(), z), z.astype(np.complex64).astype(np.complex128))
    for exact in (x.astype(np.float32), np.arange(9), np.r_[np.nan, 0.1], x > 0):
        assert_same(through(Rounds(), exact), exact)
    with pytest.raises(DtypeError, match="restored 4,792 bytes, but 4,800"):
        through(Truncates(), x)
    assert compress(Rounds()) != compress(Rounds())  # without a configuration: by identity


@pytest.mark.parametrize("name", ["Zstd", "Blosc", "LZ4", "Quantize", "BitRound", "Delta"])
def test_codecs_of_numcodecs(name: str) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    made = {
        "Quantize": lambda: numcodecs.Quantize(4, "f8"),
        "BitRound": lambda: numcodecs.BitRound(20),
        "Delta": lambda: numcodecs.Delta("i8"),
    }.get(name, lambda: getattr(numcodecs, name)())
    codec = made()
    policy = compress(codec)
    assert policy == compress(made()) and hash(policy) == hash(compress(made()))
    assert policy != compress("zlib")
    rtol = {"Quantize": 1e-4, "BitRound": 1e-5}.get(name, 0.0)
    x = np.sin(np.linspace(0.0, 3.0, 2000)).reshape(40, 50)
    for value in (x, x.T, x.astype(np.float32), x + 1j * x, np.arange(1000) % 7, x > 0.5):
        np.testing.assert_allclose(through(codec, value), value, rtol=rtol, atol=rtol)
    for exact in (np.arange(1000) % 7, x > 0.5, np.r_[np.nan, x[0]], np.asarray(0.0)):
        assert_same(through(codec, exact), exact)
    f = lambda x: np.sum(np.tanh(np.sin(x) * x))
    gradient = ft.grad(ft.checkpoint(f, policy=policy))
    assert_same(gradient(x), ft.grad(f)(x), atol=20 * rtol)


# -- the report ------------------------------------------------------------------------------------


class OfBits:
    """A codec for bools that takes the bytes of any array."""

    def encode(self, x: Any) -> Any:
        return np.packbits(x.reshape(-1).view(np.bool_))

    def decode(self, data: Any) -> Any:
        return np.unpackbits(np.asarray(data)).view(np.bool_)


class OfPairs:
    """A codec that refuses arrays of odd size."""

    def encode(self, x: Any) -> bytes:
        if x.size % 2:
            raise ValueError("pairs only")
        return x.tobytes()

    def decode(self, data: Any) -> Any:
        return np.frombuffer(data, np.uint8)


def test_codecs_of_other_dtypes_change_nothing_silently() -> None:
    with pytest.raises(DtypeError, match="restored bool, but float32 was compressed"):
        through(OfBits(), np.linspace(0.0, 1.0, 6, dtype=np.float32))
    flags = RNG.random(16) < 0.5
    assert_same(through(OfBits(), flags), flags)
    for size in (4, 5):  # the second one is kept as it is
        assert_same(through(OfPairs(), np.linspace(0.0, 1.0, size)), np.linspace(0.0, 1.0, size))


def test_errors_are_those_of_the_arrays() -> None:
    x = RNG.normal(size=1000)
    f = ft.checkpoint(lambda x: np.sum(np.sin(x)), policy=compress("int8"))
    with ft.policies.compression_errors() as found:
        gradient = ft.grad(f)(x)
    (row,) = found
    assert row.worst == found.worst == np.max(np.abs(gradient - np.cos(x)))
    assert row.largest == np.max(np.abs(np.cos(x)))
    assert found.relative == row.worst / row.largest
    assert (found.nbytes, found.stored, row.aval) == (8000, 1000 + 4 * 8, ft.ShapeDtype((1000,)))
    assert len(str(found).splitlines()) == 2 and "int8" in str(found)
    ft.grad(f)(x)
    assert len(found) == 1, "the block has ended"


@pytest.mark.parametrize("transform", ["grad", "jit", "vmap", "scan"])
def test_errors_are_reported_under_transforms_and_for_chains(transform: str) -> None:
    policy = ft.policies.compose(compress("float16"), ft.policies.offload())
    f = ft.checkpoint(np.sin, policy=policy)
    g: Any = {
        "grad": ft.grad(lambda x: np.sum(f(x))),
        "jit": ft.jit(ft.grad(lambda x: np.sum(f(x)))),
        "vmap": ft.vmap(ft.grad(lambda x: np.sum(f(x)))),
        "scan": ft.grad(lambda x: np.sum(ft.scan(lambda c, y: (f(c + y), None), x[0], x)[0])),
    }[transform]
    x = RNG.normal(size=(5, 40))
    for _ in range(2):
        with ft.policies.compression_errors() as outer, ft.policies.compression_errors() as inner:
            g(x)
        assert len(inner) == len(outer) == (5 if transform == "scan" else 1)
        assert 0 < inner.worst <= 2.0**-11


def test_exact_arrays_have_no_error() -> None:
    policy = compress("int8")
    with ft.policies.compression_errors() as found:
        for x in (np.arange(9), np.r_[np.nan, 1.0], np.zeros(1000), np.zeros(0)):
            policy.store(x)
    assert len(found) == 4 and found.worst == found.relative == 0.0


def test_errors_belong_to_the_thread() -> None:
    policy = compress("int8")
    counts: list[int] = []

    def run(context: Any) -> None:
        context.run(policy.store, np.ones(1000))

    with ft.policies.compression_errors() as found:
        for context in (contextvars.Context(), contextvars.copy_context()):
            thread = threading.Thread(target=run, args=(context,))
            thread.start()
            thread.join()
            counts.append(len(found))
    assert counts == [0, 1]


def test_errors_stop_after_an_exception() -> None:
    with pytest.raises(KeyError), ft.policies.compression_errors() as found:
        raise KeyError
    compress("int8").store(np.ones(1000))
    assert len(found) == 0
