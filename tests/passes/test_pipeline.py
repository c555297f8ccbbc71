"""The rows of the pipeline and of the rewrites do what their examples say, and change no value."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import functrace as ft
from functrace.ir.primitive import Primitive
from functrace.passes import PIPELINE, REORDERING, Pass, algebraic_simplify, optimized
from functrace.passes.algebraic_simplify import SAVINGS, RuleEffect, simplify
from functrace.passes.cse import drop_names
from functrace.passes.peephole import ROWS, IdentityRule
from functrace.passes.rewrite_rules import rules_by_root
from functrace.tracing.evaluate import evaluate_program
from tests.laws.programs import Recipe, programs

pytestmark = pytest.mark.bits


def parsed(listing: str) -> ft.Program:
    return ft.Program.parse(textwrap.dedent(listing).strip())


def arguments(program: ft.Program) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 2.0, program.avals[i].shape) for i in program.input_ids]


def assert_becomes(before: str, after: str, made: ft.Program) -> None:
    source = parsed(before).check()
    assert str(made.check()) == str(parsed(after)), made
    assert str(source) != str(made)
    given = arguments(source)
    for found, expected in zip(
        evaluate_program(made, given), evaluate_program(source, given), strict=True
    ):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("row", PIPELINE, ids=lambda row: row.name)
def test_a_pass_transforms_its_example(row: Pass) -> None:
    assert_becomes(row.before, row.after, drop_names(row.run(parsed(row.before))))
    assert_becomes(row.before, row.after, optimized(parsed(row.before)))


@pytest.mark.parametrize("row", REORDERING, ids=lambda row: row.name)
def test_an_inexact_pass_is_marked_and_transforms_its_example(row: Pass) -> None:
    source, made = parsed(row.before).check(), row.run(parsed(row.before)).check()
    assert not row.exact and row.stage == "jit"
    assert str(made) == str(parsed(row.after))
    given = arguments(source)
    for found, expected in zip(
        evaluate_program(made, given), evaluate_program(source, given), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_default_passes_are_exact() -> None:
    assert all(row.exact and row.stage in ("early", "late", "last") for row in PIPELINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.primitive.name)
def test_a_rewrite_transforms_its_example(row: IdentityRule) -> None:
    assert isinstance(row.primitive, Primitive)
    assert_becomes(row.before, row.after, optimized(parsed(row.before)))


@pytest.mark.parametrize("row", SAVINGS, ids=lambda row: row.name)
def test_a_simplification_transforms_its_example(row: RuleEffect) -> None:
    assert_becomes(row.before, row.after, simplify(parsed(row.before)))
    assert_becomes(row.before, row.after, optimized(parsed(row.before)))


def test_passes_run_in_the_order_of_the_rows() -> None:
    stages = [("early", "late", "last").index(row.stage) for row in PIPELINE]
    assert stages == sorted(stages)


@settings(max_examples=40)
@given(programs(most_steps=8, held=False))
def test_rules_are_skipped_only_where_they_cannot_apply(recipe: Recipe) -> None:
    def total(*xs: Any) -> Any:
        return sum(np.sum(y * y) for y in recipe(*xs))

    program = ft.trace(ft.grad(total))(*recipe.arguments(0))
    everywhere = [replace(row, reads=()) for row in SAVINGS]
    with pytest.MonkeyPatch.context() as patch:
        made = simplify(program)
        patch.setattr(algebraic_simplify, "SAVINGS", everywhere)
        assert str(simplify(program)) == str(made)


@pytest.mark.parametrize("row", SAVINGS, ids=lambda row: row.name)
def test_a_rule_reads_what_its_example_has(row: RuleEffect) -> None:
    assert {row.primitive, *row.reads} <= parsed(row.before).kinds
    assert rules_by_root([row], frozenset({row.primitive, *row.reads})) == {
        row.primitive: (row.rule,)
    }
    for one in {row.primitive, *row.reads}:
        assert rules_by_root([row], frozenset({row.primitive, *row.reads} - {one})) == {}
