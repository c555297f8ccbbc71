"""`add_at` is `numpy.add.at`, bit for bit, and with its errors."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from functrace.ops import scattering
from functrace.ops.scattering import add_at

DTYPES = (np.float64, np.float32, np.float16, np.complex64, np.int64, np.int8, np.uint8)


@pytest.fixture(
    params=[(0, 3, 8), (0, 1000, 50), (0, 1000, 1 << 14), (2048, 256, 1 << 14)], autouse=True
)
def sizes(request: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(scattering, "FEWEST", request.param[0])
    monkeypatch.setattr(scattering, "LONG", request.param[1])
    monkeypatch.setattr(scattering, "TOGETHER", request.param[2])


@st.composite
def works(draw: Any) -> Any:
    """An array to add to, an index, and what to add."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    both = tuple(draw(st.lists(st.integers(0, 6), max_size=2)))
    index: list[Any] = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(
            st.sampled_from(["whole", "array", "array", "number", "part", "row", "mask", "outside"])
        )
        index.append(
            {
                "whole": slice(None),
                "array": rng.integers(-n, n, both),
                "number": int(rng.integers(-n, n)),
                "part": slice(0, n, 2),
                "row": rng.integers(0, n, both[-1:]).astype(np.int16),
                "mask": rng.integers(0, 2, n).astype(bool),
                "outside": np.array([n]) if draw(st.integers(0, 5)) == 0 else slice(None),
            }[kind]
        )
    return shape, tuple(index), draw(st.sampled_from(DTYPES)), rng


@given(works())
def test_add_at_equals_numpy(work: Any) -> None:
    shape, index, dtype, rng = work
    expected, found = np.zeros(shape, dtype), np.zeros(shape, dtype)
    try:
        read = expected[index].shape
    except IndexError as error:
        with pytest.raises(IndexError) as raised:
            add_at(found, index, np.ones((), dtype))
        assert type(raised.value) is type(error)
        return
    values = (10 * rng.standard_normal(max(1, math.prod(read)))).astype(dtype)
    for x in (values[: math.prod(read)].reshape(read), values[:1].reshape(())):
        np.add.at(expected, index, x)
        add_at(found, index, x)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("order", "CF")
def test_in_any_order_of_memory(order: Any) -> None:
    expected, found = np.zeros((30, 40), order=order), np.zeros((30, 40), order=order)
    rows = np.arange(90) % 30
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((90, 40)))
    np.add.at(expected, rows, x)
    add_at(found, (rows,), x)
    assert found.tobytes() == expected.tobytes()
    with pytest.raises(IndexError):
        add_at(found, (rows + 1,), x)


def test_index_dtype_too_narrow_for_the_size() -> None:
    expected, found = np.zeros((300, 10)), np.zeros((300, 10))
    rows = np.arange(-128, 128).astype(np.int8)
    np.add.at(expected, rows, np.ones((256, 10)))
    add_at(found, (rows,), np.ones((256, 10)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("shape", "index", "turn"),
    [
        ((300, 40, 300), (slice(None), np.array([[3, 1], [3, 2]])), (3, 2, 1, 0)),
        ((50, 300), (np.array([[3, 1, 3], [4, 2, 3]] * 100),), (2, 1, 0)),
    ],
)
def test_operands_in_another_order_of_memory_are_not_copied(
    shape: Any, index: Any, turn: Any
) -> None:
    out, expected = np.zeros(shape), np.zeros(shape)
    x = np.random.default_rng(1).normal(size=out[index].shape)
    x = np.ascontiguousarray(x.transpose(turn)).transpose(np.argsort(turn))
    np.add.at(expected, index, x)
    add_at(out, index, x)  # (imports, caches)
    out[...] = 0.0
    tracemalloc.start()
    try:
        add_at(out, index, x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(out, expected)
    assert peak < x.nbytes / 4 or scattering.LONG > shape[-1]


@pytest.mark.parametrize("turn", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2)])
def test_many_short_blocks(turn: Any) -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(-7, 7, 5)
    x = rng.standard_normal((70, 90, 5, 3))
    x = np.ascontiguousarray(x.transpose(turn)).transpose(np.argsort(turn))
    found, expected = np.ones((2, 70, 90, 7, 3))
    index: Any = (slice(None), slice(None), rows)
    add_at(found, index, x)
    np.add.at(expected, index, x)
    assert found.tobytes() == expected.tobytes()
