"""`linearize_program` and `split_program`: a forward program with residuals, and one that is
linear.
"""

from __future__ import annotations

import numpy as np

import functrace as ft
from functrace.transforms import jvp_program, linearize_program
from functrace.transforms.derivatives import as_differentiated, split_program
from tests.transforms.programs import Example, X, assert_close, every, rules_and_templates


@every
@rules_and_templates
def test_both_halves_are_the_jvp(example: Example, by_rules: bool) -> None:
    forward, linear = linearize_program(example.program, example.active, by_rules=by_rules)
    forward.check()
    linear.check()
    count = len(example.program.output_ids)
    pushed = jvp_program(example.program, example.active)
    results = ft.evaluate(forward, *example.args)
    results = results if isinstance(results, tuple) else (results,)
    for seed in (0, 1):
        directions = example.directions(seed)
        expected = ft.evaluate(pushed, *example.args, *directions)
        assert_close(results[:count], expected[:count])
        assert_close(ft.evaluate(linear, *results[count:], *directions), expected[count:])


@every
def test_the_linear_half_is_linear(example: Example) -> None:
    forward, linear = linearize_program(example.program, example.active)
    results = ft.evaluate(forward, *example.args)
    residuals = results[len(example.program.output_ids) :] if isinstance(results, tuple) else ()
    one, other = example.directions(0), example.directions(1)
    mixed = [2.0 * a - 0.5 * b for a, b in zip(one, other, strict=True)]
    found, first, second = (ft.evaluate(linear, *residuals, *v) for v in (mixed, one, other))
    pairs = zip(ft.tree.leaves(first), ft.tree.leaves(second), strict=True)
    assert_close(ft.tree.leaves(found), [np.asarray(2.0 * a - 0.5 * b)[()] for a, b in pairs])


def test_forwarded_inputs_are_no_residuals() -> None:
    split = split_program(ft.trace(lambda a, x: (a * x, np.exp(x)))(2.0, X), [False, True])
    assert [word for word, _ in split.sources] == ["input", "output"]
    assert split.active == (True, True)
    assert len(split.forward.output_ids) == 2


def test_outputs_that_do_not_move_have_no_tangent_unless_one_is_needed() -> None:
    program = ft.trace(lambda a, x: (np.sin(a), x * a))(2.0, X)
    assert split_program(program, [False, True]).active == (False, True)
    needed = split_program(program, [False, True], [True, True])
    assert needed.active == (True, True)


def test_a_program_as_it_is_differentiated_has_the_values_of_its_rules() -> None:
    @ft.custom_jvp
    def f(x: float) -> float:
        return x * 2.0

    f.defjvp(lambda x, x_dot: (x[0] * 3.0, x_dot[0]))
    program = ft.trace(f)(1.0)
    assert_close(ft.evaluate(program, 1.0), 2.0)
    assert_close(ft.evaluate(as_differentiated(program, [True]), 1.0), 3.0)
    plain = ft.trace(lambda x: np.sin(x))(1.0)
    assert as_differentiated(plain, [True]) is plain
