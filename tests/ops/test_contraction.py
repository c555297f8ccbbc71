"""Contractions of two operands: every arrangement of axes against NumPy's ``einsum``, products of
matrices as ``matmul``.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops.contraction import contract

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5}


def subscripts_of(rank: int) -> list[str]:
    """All contractions of two operands of ``rank`` axes, no letter twice in one, with each result
    of ``rank`` letters.
    """
    made = []
    for y in itertools.permutations("abcd", rank):
        x = "abc"[:rank]
        for out in itertools.permutations(sorted({*x, *y}), rank):
            made.append(f"{x},{''.join(y)}->{''.join(out)}")
    return made


def draw(term: str, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=[SIZES[a] for a in term])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_every_arrangement_of_axes_is_numpys(rank: int) -> None:
    products = 0
    for subscripts in subscripts_of(rank):
        left, _, right = subscripts.partition("->")[0].partition(",")
        x, y = draw(left, 0), draw(right, 1)
        expected = np.einsum(subscripts, x, y)
        np.testing.assert_allclose(
            contract(subscripts, x, y), expected, rtol=1e-13, atol=1e-13, err_msg=subscripts
        )
        program = ft.trace(lambda x, y, s=subscripts: np.einsum(s, x, y))(x, y)
        products += any(equation.primitive.name == "matmul" for equation in program.equations)
        weights = np.cos(np.arange(expected.size).reshape(expected.shape))
        by_x, by_y = ft.grad(
            lambda x, y, s=subscripts, w=weights: np.sum(w * np.einsum(s, x, y)), argnums=(0, 1)
        )(x, y)
        out = subscripts.partition("->")[2]
        if set(left) <= {*right, *out}:
            reference = np.einsum(f"{out},{right}->{left}", weights, y)
            np.testing.assert_allclose(by_x, reference, rtol=1e-13, atol=1e-13, err_msg=subscripts)
        if set(right) <= {*left, *out}:
            reference = np.einsum(f"{out},{left}->{right}", weights, x)
            np.testing.assert_allclose(by_y, reference, rtol=1e-13, atol=1e-13, err_msg=subscripts)
    # the shared letter is one of two, y and the result have two orders each; of rank 2 the new
    # letter is one of two, too
    assert products == {1: 0, 2: 16, 3: 8}[rank]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float16, np.float32, np.complex64])
def test_products_of_matrices_of_every_dtype_are_numpys(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in ((7, 2, 3), (0, 2, 3), (7, 0, 3), (7, 2, 0)):
        x, y = (
            rng.integers(-3, 4, size).astype(dtype) for size in (shape, (shape[0], shape[2], 5))
        )
        for other in (y, y.astype(np.result_type(dtype, np.float64))):
            expected = np.einsum("abc,acd->abd", x, other)
            for found in (
                ft.jit(lambda x, y: np.einsum("abc,acd->abd", x, y))(x, other),
                contract("abc,acd->abd", x, other),
            ):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


def test_long_stacks_of_short_rows_use_blas() -> None:
    x, y = np.ones((722, 2, 2)), np.ones((722, 2, 2))
    (equation,) = ft.trace(lambda x, y: np.einsum("abc,adc->bd", x, y))(x, y).equations
    assert equation.params["optimize"]
    (equation,) = ft.trace(lambda x, y: np.einsum("abc,abc->a", x, y))(x, y).equations
    assert not equation.params["optimize"] and math.prod(x.shape) < 2**14
