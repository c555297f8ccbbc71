"""Colourings: groups of columns (or rows) of a sparse matrix that one sweep computes together.

Note [Direct recovery]
    A sweep over a group of columns gives the sum of the group's columns. An element is recovered
    from it directly if no other column of the group has an element in its row. In a symmetric
    matrix, the element at (i, j) can be recovered from the group of column j or, as the one at
    (j, i), from the group of column i; one of them suffices. Every colouring here is checked: the
    place of recovery of every element is computed from the pattern and the groups alone.

    Source: A. R. Curtis, M. J. D. Powell, J. K. Reid, On the estimation of sparse Jacobian matrices
    (1974); T. F. Coleman, J. J. Moré, Estimation of sparse Hessian matrices and graph coloring
    problems (1984); A. H. Gebremedhin, F. Manne, A. Pothen, What color is your Jacobian? (2005),
    sections 6 (star colouring) and 7 (rows and columns).

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from functrace.transforms.sparsity.patterns import Pattern
from functrace.typing import Array

PERIODS = 24
"""Number of periods tried: groups ``k % period`` suit bands, and grids in C order."""

DISTANCES = 24
"""Maximum number of distances between columns of a row for which a pattern may be that of a grid."""


class Colouring(NamedTuple):
    """Groups of columns for forward sweeps, and of rows for reverse ones.

    Args:
        columns: group of every column, or -1; shape (columns,).
        rows: group of every row, or -1; shape (rows,).
        forward, reverse: number of groups of columns, and of rows.
        units: for each position of the pattern, the group whose sweep has its element; groups of
            rows are counted after those of columns.
        places: for each position of the pattern, the index of the element in that sweep's result: a
            row, or a column for a reverse sweep.
    """

    columns: Array
    rows: Array
    forward: int
    reverse: int
    units: Array
    places: Array

    @property
    def sweeps(self) -> int:
        """Number of sweeps."""
        return self.forward + self.reverse


def column_colouring(pattern: Pattern) -> Colouring:
    """Group the columns of a matrix, for forward sweeps only."""
    groups = _fewest_groups(pattern)
    count = int(groups.max(initial=-1)) + 1
    none = np.full(pattern.shape[0], -1)
    return Colouring(groups, none, count, 0, groups[pattern.columns], pattern.rows)


def row_colouring(pattern: Pattern) -> Colouring:
    """Group the rows of a matrix, for reverse sweeps only."""
    groups = _fewest_groups(pattern.transposed())
    count = int(groups.max(initial=-1)) + 1
    none = np.full(pattern.shape[1], -1)
    return Colouring(none, groups, 0, count, groups[pattern.rows], pattern.columns)


def both_colouring(pattern: Pattern) -> Colouring:
    """Group columns and rows: the densest rows get reverse sweeps, or the densest columns forward
    ones, whichever takes fewer sweeps.
    """
    best = min((column_colouring(pattern), row_colouring(pattern)), key=lambda c: c.sweeps)
    for flipped in (False, True):
        lines = pattern.transposed() if flipped else pattern
        counts = np.bincount(lines.rows, minlength=lines.shape[0])
        for limit in _limits(counts, best.sweeps):
            is_dense = counts > limit
            made = _split(lines, is_dense, flipped)
            if made.sweeps < best.sweeps:
                best = made
    return best


def _limits(counts: Array, most: int) -> Iterable[int]:
    """Yield numbers of elements beyond which a row may be dense: few rows have more."""
    ordered = np.unique(counts)[::-1]
    for limit in ordered[1:9]:
        if (counts > limit).sum() < most:
            yield int(limit)


def _split(pattern: Pattern, is_dense: Array, flipped: bool) -> Colouring:
    """Colour the dense rows as rows, and the columns of the others."""
    chosen = is_dense[pattern.rows]
    others = Pattern(pattern.rows[~chosen], pattern.columns[~chosen], pattern.shape)
    dense = Pattern(pattern.rows[chosen], pattern.columns[chosen], pattern.shape).transposed()
    columns, rows = _fewest_groups(others), np.where(is_dense, _fewest_groups(dense), -1)
    needed = np.zeros(pattern.shape[1], np.bool_)
    needed[others.columns] = True
    columns = np.where(needed, columns, -1)
    forward, reverse = int(columns.max(initial=-1)) + 1, int(rows.max(initial=-1)) + 1
    if not flipped:
        units = np.where(chosen, forward + rows[pattern.rows], columns[pattern.columns])
        places = np.where(chosen, pattern.columns, pattern.rows)
        return Colouring(columns, rows, forward, reverse, units, places)
    units = np.where(chosen, rows[pattern.rows], reverse + columns[pattern.columns])
    places = np.where(chosen, pattern.columns, pattern.rows)
    order = np.lexsort((pattern.rows, pattern.columns))  # of the matrix, not its transpose
    return Colouring(rows, columns, reverse, forward, units[order], places[order])


def symmetric_colouring(pattern: Pattern) -> Colouring:
    """Group the columns of a symmetric matrix, by a star colouring.

    Args:
        pattern: a symmetric pattern.

    Returns:
        the groups, with the place where the element at each position is recovered, or that of the
        mirrored one.

    Cost:
        about 20 us per column of a grid.
    """
    counts = np.bincount(pattern.rows, minlength=pattern.shape[0])
    most = int(counts.max(initial=0))
    best: Colouring | None = None
    for groups in _candidates(pattern, max(min(most, 2), 1), pattern.shape[1], _star_groups):
        if best is None or int(groups.max(initial=-1)) + 1 < best.forward:
            best = _recovered(pattern, groups) or best
    if best is None or most < best.forward:  # columns alone may need fewer
        alone = column_colouring(pattern)
        best = alone if best is None or alone.forward < best.forward else best
    return best


def _recovered(pattern: Pattern, groups: Array) -> Colouring | None:
    """Return where each element of a symmetric matrix is recovered; ``None`` if one is nowhere."""
    count = int(groups.max(initial=-1)) + 1
    rows, columns = pattern.rows, pattern.columns
    both = np.concatenate([rows * count + groups[columns], columns * count + groups[rows]])
    own, mirrored = np.split(_occurrences(both) == 2, 2)  # the pattern is symmetric: twice each
    if not (own | mirrored).all():
        return None
    units = np.where(own, groups[columns], groups[rows])
    none = np.full(pattern.shape[0], -1)
    return Colouring(groups, none, count, 0, units, np.where(own, rows, columns))


def coloured(pattern: Pattern) -> Array | None:
    """Group the columns so that no two of a group have a common row.

    Returns:
        the group of every column, int; ``None`` if there are more than half as many groups as
        columns.
    """
    size = pattern.shape[1]
    counts = np.bincount(pattern.rows, minlength=pattern.shape[0])
    if int(counts.max(initial=0)) > size // 2 or not len(counts):
        return None
    groups = _fewest_groups(pattern)
    return groups if int(groups.max(initial=0)) < size // 2 else None


def independent_groups(pattern: Pattern) -> Array | None:
    """Group the columns of a symmetric matrix so that it has no element between two of a group.

    A vector of ones at a group's places then has, as v' H v, the sum of the group's diagonal
    elements: the trace of a matrix takes one product per group.

    Args:
        pattern: a symmetric pattern.

    Returns:
        the group of every column, int; ``None`` if there are more than half as many groups as
        columns.
    """
    size = pattern.shape[1]
    above = pattern.rows < pattern.columns
    first, second = pattern.rows[above], pattern.columns[above]
    if 4 * len(first) > size * size:  # more than half of all pairs
        return None
    edges = np.repeat(np.arange(len(first)), 2)
    ends = np.stack([first, second], axis=1).reshape(-1)
    return coloured(Pattern(edges, ends, (max(len(first), 1), size)))


def _fewest_groups(pattern: Pattern) -> Array:
    """Group the columns so that no two of a group have a common row: the fewest of several tries."""
    counts = np.bincount(pattern.rows, minlength=pattern.shape[0])
    lower = max(int(counts.max(initial=0)), 1)
    best: Array | None = None
    for groups in _candidates(pattern, lower, pattern.shape[1] + 1, _greedy_groups):
        is_fewer = best is None or groups.max(initial=0) < best.max(initial=0)
        if is_fewer and _is_direct(pattern, groups):
            best = groups
        if best is not None and int(best.max(initial=0)) + 1 <= lower:
            break
    assert best is not None  # a greedy one is always valid
    return best


def _is_direct(pattern: Pattern, groups: Array) -> bool:
    """Return True if no two columns of a group have a common row."""
    count = int(groups.max(initial=-1)) + 1
    return int(_occurrences(pattern.rows * count + groups[pattern.columns]).max(initial=1)) == 1


def _occurrences(keys: Array) -> Array:
    """Return how often each of some numbers occurs among them."""
    if int(keys.max(initial=0)) <= 4 * len(keys):
        return np.bincount(keys)[keys] if len(keys) else keys
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    counts = np.diff(starts, append=len(keys))
    found = np.empty_like(keys)
    found[order] = np.repeat(counts, counts)
    return found


def _candidates(
    pattern: Pattern, lower: int, most: int, greedy: Callable[[Pattern, Sequence[int]], Array]
) -> Iterable[Array]:
    """Yield groups: periodic ones, greedy ones in the order of columns and by falling degree."""
    size = pattern.shape[1]
    units = np.arange(size)
    if lower <= size:
        yield units % lower
    made = [greedy(pattern, range(size))]
    yield made[0]
    degrees = np.bincount(pattern.columns, minlength=size)
    if degrees.max(initial=0) > 2.0 * degrees.sum() / max(size, 1):  # a few are dense
        made.append(greedy(pattern, np.argsort(-degrees, kind="stable").tolist()))
        yield made[1]
    fewest = min(int(groups.max(initial=0)) + 1 for groups in made)
    for period in range(lower + 1, min(fewest, most, lower + PERIODS)):
        yield units % period
    for period in range(max(lower, 3), min(fewest, most, lower + 3)):
        for stride in _strides(pattern):
            for step in range(2, period):  # diagonals of a grid, as (2 i + j) % 5
                yield (units // stride * step + units % stride) % period


def _strides(pattern: Pattern) -> list[int]:
    """Return distances of columns that many rows share: one is the length of a grid's lines."""
    first = pattern.columns[np.minimum(pattern.starts()[:-1], max(len(pattern.columns) - 1, 0))]
    distances = pattern.columns - first[pattern.rows]
    found, counts = np.unique(distances[distances > 1], return_counts=True)
    if len(found) > DISTANCES:
        return []
    return [int(d) for d in found[np.argsort(-counts, kind="stable")][:5]]


def _greedy_groups(pattern: Pattern, order: Sequence[int]) -> Array:
    """Give each column, in order, the first group that none of its rows has.

    Each row keeps its groups as the bits of an int.
    """
    by_column = pattern.transposed()
    starts: list[int] = by_column.starts().tolist()
    rows: list[int] = by_column.columns.tolist()
    taken = [0] * pattern.shape[0]
    groups = [0] * pattern.shape[1]
    for k in order:
        reached = rows[starts[k] : starts[k + 1]]
        used = 0
        for i in reached:
            used |= taken[i]
        bit = ~used & (used + 1)
        groups[k] = bit.bit_length() - 1
        for i in reached:
            taken[i] |= bit
    return np.array(groups, np.int64)


def _star_groups(pattern: Pattern, order: Sequence[int]) -> Array:
    """Colour the graph of a symmetric matrix so that no path of four vertices has two colours.

    So any two colours induce stars: single edges, or a hub with spokes.

    Cost:
        proportional to the edges, times the number of colours next to a vertex.

    Source: A. H. Gebremedhin, A. Tarafdar, F. Manne, A. Pothen, New acyclic and star coloring
    algorithms with application to computing Hessians (2007), Algorithm 4.1.
    """
    starts: list[int] = pattern.starts().tolist()
    columns: list[int] = pattern.columns.tolist()
    size = pattern.shape[0]
    colours, forbidden, treated = [-1] * size, [-1] * (size + 1), [-1] * size
    first: list[tuple[int, int]] = [(-1, -1)] * (size + 1)
    seen: list[dict[int, int]] = [{} for _ in range(size)]  # by colour, a neighbour that has it
    hubs: list[set[int]] = [set() for _ in range(size)]  # of the stars in which a vertex is a spoke
    for v in order:
        near = [w for w in columns[starts[v] : starts[v + 1]] if colours[w] >= 0 and w != v]
        for w in near:
            colour = colours[w]
            forbidden[colour] = v
            p, q = first[colour]
            if p == v:  # two neighbours of v have this colour: v becomes the hub of their star
                for spoke in (q, w):
                    if treated[spoke] != v:
                        treated[spoke] = v
                        for other in seen[spoke]:
                            forbidden[other] = v
            else:
                first[colour] = (v, w)
                for hub in hubs[w]:  # w is a spoke: v would make a path of four
                    forbidden[colours[hub]] = v
        colour = 0
        while forbidden[colour] == v:
            colour += 1
        colours[v] = colour
        for w in near:
            x = seen[w].get(colour)
            _, q = first[colours[w]]
            if x is not None:
                hubs[x].add(w)
                hubs[v].add(w)
            elif q != w:
                hubs[q].add(v)
                hubs[w].add(v)
        for w in near:
            seen[w].setdefault(colour, v)
            seen[v].setdefault(colours[w], w)
        for w in columns[starts[v] : starts[v + 1]]:
            if colours[w] < 0:
                seen[w].setdefault(colour, v)
    return np.array(colours, np.int64)
