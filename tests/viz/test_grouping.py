"""Groups of operations: they cover the program in order, and never cross from one pass to another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from functrace.viz.grouping import MOST_CHILDREN, Group, group_operations


def check(groups: list[Group], first: int, end: int) -> None:
    assert len(groups) <= MOST_CHILDREN
    place = first
    for group in groups:
        assert group.first == place < group.end
        place = group.end
        if group.children:
            check(group.children, group.first, group.end)
        else:
            assert group.kind == "line"
    assert place == end


@given(
    st.lists(st.tuples(st.sampled_from("fr"), st.integers(0, 3), st.integers(0, 2)), max_size=80)
)
def test_groups_cover_all_operations_in_order(keys: list[tuple[str, int, int]]) -> None:
    groups = group_operations(keys)
    check(groups, 0, len(keys))
    for group in groups:
        if group.kind != "section":
            assert len({role for role, _, _ in keys[group.first : group.end]}) == 1
    leaves = list(lines_in(groups))
    for leaf in leaves:
        assert len({key[:2] for key in keys[leaf.first : leaf.end]}) == 1
    assert [k for leaf in leaves for k in range(leaf.first, leaf.end)] == list(range(len(keys)))


def lines_in(groups: list[Group]) -> list[Group]:
    return [
        leaf
        for group in groups
        for leaf in (lines_in(group.children) if group.children else [group])
    ]


@given(st.integers(3, 40), st.integers(2, 6), st.integers(0, 3))
def test_unrolled_loops_are_one_box(count: int, period: int, before: int) -> None:
    body = [("f", 10 + n, n) for n in range(period)]
    keys = [("f", n, 50) for n in range(before)] + body * count + [("f", 90, 90)]
    groups = group_operations(keys)
    (repeat,) = [group for group in groups if group.kind == "repeat"]
    assert (repeat.first, repeat.end) == (before, before + period * count)
    assert len(groups) == before + 2
    check(groups, 0, len(keys))


def test_a_long_program_without_repetitions_is_divided() -> None:
    groups = group_operations([("f", n, 0) for n in range(5000)])
    assert len(groups) <= MOST_CHILDREN
    check(groups, 0, 5000)


def test_no_operations() -> None:
    assert group_operations([]) == []


def test_a_line_that_runs_again_is_another_step() -> None:
    body = [("f", 7, 0), ("f", 7, 2), ("f", 7, 2), ("f", 7, 4)]
    (repeat,) = group_operations(body * 5)
    assert repeat.kind == "repeat"
    assert [(step.first, step.end) for step in repeat.children] == [
        (n, n + 4) for n in range(0, 20, 4)
    ]
    (line,) = group_operations(body)
    assert (line.kind, line.first, line.end) == ("line", 0, 4)
