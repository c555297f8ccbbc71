"""Colourings recover every element of random sparse matrices from the sums of their groups."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from functrace.transforms.sparsity import Colouring, Pattern, symmetric_colouring
from functrace.transforms.sparsity.colouring import (
    both_colouring,
    column_colouring,
    row_colouring,
)

SEEDS = st.integers(0, 10**6)


def recovered(matrix: Any, colouring: Colouring) -> Any:
    """The elements of a matrix in the order of its pattern, from one sum per group."""
    sums = [matrix[:, colouring.columns == k].sum(axis=1) for k in range(colouring.forward)]
    sums += [matrix[colouring.rows == k].sum(axis=0) for k in range(colouring.reverse)]
    places = zip(colouring.units, colouring.places, strict=True)
    return np.array([sums[unit][place] for unit, place in places])


def random_mask(seed: int, rows: int, columns: int) -> Any:
    """Random positions, often with a dense row or column."""
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, columns)) < 0.6 * rng.random()
    if seed % 2:
        mask[seed % rows] = True
    if seed % 3:
        mask[:, seed % columns] = True
    return mask


@pytest.mark.parametrize("colour", [column_colouring, row_colouring, both_colouring])
@given(SEEDS, st.integers(1, 12), st.integers(1, 12))
def test_elements_are_recovered(colour: Any, seed: int, rows: int, columns: int) -> None:
    mask = random_mask(seed, rows, columns)
    matrix = np.random.default_rng(seed).integers(1, 1000, (rows, columns)) * mask
    found = colour(Pattern.of(mask))
    np.testing.assert_array_equal(recovered(matrix, found), matrix[mask])
    assert (colour is not column_colouring) or not found.reverse
    assert (colour is not row_colouring) or not found.forward


@given(SEEDS, st.integers(1, 14))
def test_elements_of_symmetric_matrices_are_recovered(seed: int, size: int) -> None:
    mask = random_mask(seed, size, size)
    mask |= mask.T
    matrix = np.random.default_rng(seed).integers(1, 1000, (size, size))
    matrix = (matrix + matrix.T) * mask
    found = symmetric_colouring(Pattern.of(mask))
    np.testing.assert_array_equal(recovered(matrix, found), matrix[mask])
    assert found.sweeps <= column_colouring(Pattern.of(mask)).sweeps


def test_numbers_of_groups() -> None:
    def bands(width: int) -> Pattern:
        return Pattern.of(np.sum([np.eye(40, k=k) for k in range(-width, width + 1)], axis=0))

    arrow = np.eye(40)
    arrow[0] = arrow[:, 0] = 1
    for width in (0, 1, 2, 5):
        assert column_colouring(bands(width)).sweeps == 2 * width + 1
        assert row_colouring(bands(width)).sweeps == 2 * width + 1
    found = Pattern.of(arrow)
    assert column_colouring(found).sweeps == row_colouring(found).sweeps == 40
    assert symmetric_colouring(found).sweeps == 2
    assert both_colouring(found).sweeps == 3


def test_patterns_of_no_elements() -> None:
    for shape in ((0, 0), (3, 0), (0, 3), (3, 3)):
        nothing = Pattern.of(np.zeros(shape, bool))
        for colour in (column_colouring, row_colouring, both_colouring):
            assert len(colour(nothing).units) == 0
        if shape[0] == shape[1]:
            assert len(symmetric_colouring(nothing).units) == 0
