"""Programs that hold programs: listing, JSON, NumPy source, check and cost of them, and of what
transforms make of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control import cond_p, scan_p
from functrace.errors import ParseError, ProgramError
from functrace.ir.parts import output_avals
from functrace.ir.program import Literal, Program
from functrace.transforms import jvp_program, linearize_program, transpose_program, vmap_program
from tests.control.programs import (
    FUNCTIONS,
    WRITTEN,
    X,
    choice,
    choice_in_loop,
    functions,
    loop_in_loop,
    recurrence,
    rules_that_call_themselves,
)
from tests.oracles import assert_same, emitted, outputs_of


def derived(f: Any) -> dict[str, Program]:
    """The program of a function, and what every transform makes of it."""
    program = ft.trace(f)(X)
    forward, linear = linearize_program(program)
    residuals = len(linear.inputs) - 1
    backward = transpose_program(linear, [False] * residuals + [True])
    made = {
        "plain": program,
        "jvp": jvp_program(program),
        "forward": forward,
        "linear": linear,
        "backward": backward,
        "vmap": vmap_program(program, 3),
        "vmap of jvp": vmap_program(jvp_program(program), 2),
        "jvp of vmap": jvp_program(vmap_program(program, 2)),
        "vmap of backward": vmap_program(backward, 2),
    }
    forward, linear = linearize_program(made["vmap"])
    made["backward of vmap"] = transpose_program(
        linear, [False] * (len(linear.inputs) - 1) + [True]
    )
    return made


def arguments_of(program: Program) -> list[Any]:
    """Draw arguments for the inputs of a program."""
    rng = np.random.default_rng(7)
    made = []
    for var in program.inputs:
        drawn = rng.uniform(-1.0, 1.0, var.aval.shape)
        made.append(
            (drawn > 0.0 if var.aval.dtype.kind in "biu" else drawn).astype(var.aval.dtype)[()]
        )
    return made


@functions
def test_transforms_give_programs_that_check(f: Any) -> None:
    for program in derived(f).values():
        program.check()


written = pytest.mark.parametrize("f", WRITTEN.values(), ids=WRITTEN)


@pytest.mark.sampled(2)
@written
def test_listing_parses_back(f: Any) -> None:
    for name, program in derived(f).items():
        read = Program.parse(program.text())
        assert read == program, name
        assert read.text() == program.text(), name
        assert hash(read) == hash(program), name


@pytest.mark.sampled(3)
@written
def test_json_reads_back(f: Any) -> None:
    for name, program in derived(f).items():
        assert Program.from_json(program.to_json()) == program, name


@pytest.mark.sampled(6)
@functions
def test_source_runs_on_its_own_and_gives_the_same_bits(f: Any) -> None:
    for name, program in derived(f).items():
        arguments = arguments_of(program)
        assert "functrace" not in program.as_python(), name
        found = outputs_of(emitted(program)(*arguments))
        for a, b in zip(found, outputs_of(ft.evaluate(program, *arguments)), strict=True):
            assert_same(a, b, what=name)


def test_source_of_a_loop_is_a_for_statement() -> None:
    source = ft.trace(recurrence)(X).as_python()
    assert "def step(" in source
    assert "for t in range(3):" in source
    reverse = ft.trace(lambda x: ft.scan(lambda c, xt: (c + xt, c), 0.0, x, reverse=True))(
        X
    ).as_python()
    assert "for t in reversed(range(3)):" in reverse


def test_source_of_a_choice_is_a_conditional_expression() -> None:
    source = ft.trace(choice)(X).as_python()
    assert "def when_true(" in source and "def when_false(" in source
    assert "when_true(x, weights) if" in source
    number = ft.trace(lambda n, x: cond_of_three(n, x))(np.int64(1), X)
    assert "[min(max(int(n), 0), 2)]" in number.as_python("f")
    for n in (-4, 0, 1, 2, 9):
        assert_same(emitted(number)(np.int64(n), X), X * (min(max(n, 0), 2) + 1.0))


@pytest.mark.parametrize("which", [True, False, 0, 1])
def test_source_of_a_choice_by_a_number_in_the_program(which: bool | int) -> None:
    program = ft.trace(lambda which, x: ft.cond(which, np.sin, np.cos, x))(True, 1.0)
    (equation,) = program.equations
    chosen = replace(equation, inputs=(Literal(which), program.inputs[1]))
    made = Program.build([program.inputs[1]], [chosen], equation.outputs).check()
    for found in (emitted(made)(1.0), ft.evaluate(made, 1.0)):
        assert_same(found, np.sin(1.0) if which else np.cos(1.0))


def cond_of_three(n: Any, x: Any) -> Any:
    from functrace.control.cond import cond_program

    branches = [ft.trace(lambda x, k=k: x * (k + 1.0))(X) for k in range(3)]
    return cond_program(n, [x], branches)[0]


def test_source_names_avoid_nested_functions_and_loop_variables() -> None:
    def f(t: Any, step: Any) -> Any:
        h, ys = ft.scan(lambda h, x: (h * step + x, h), 1.0, t)
        return h * np.sum(ys) * t[0]

    program = ft.trace(f)(X, np.float64(0.5))
    assert_same(emitted(program)(X, np.float64(0.5)), ft.evaluate(program, X, np.float64(0.5)))


def test_a_rule_that_calls_its_own_function_cannot_be_serialized() -> None:
    program = ft.trace(rules_that_call_themselves)(X)
    for write in (program.text, program.to_json):
        with pytest.raises(ProgramError, match="has no written form"):
            write()
    assert "custom_vjp" in str(program)  # the listing for people


def test_large_constants_in_sub_programs_round_trip() -> None:
    table = np.arange(40.0)
    program = ft.trace(lambda x: ft.scan(lambda c, xt: (c + np.sum(table * xt), None), 0.0, x)[0])(
        X
    )
    body = ft.trace(lambda c, xt: c + np.sum(table * xt))(np.float64(0.0), np.float64(0.0))
    with_constant = scan_of(body)
    for made in (program, with_constant):
        made.check()
        assert Program.parse(made.text()) == made
        assert Program.from_json(made.to_json()) == made
        assert_same(emitted(made)(X), ft.evaluate(made, X))


def scan_of(body: Program) -> Program:
    """A loop over X of a body from a number and an element to a number; the body keeps its own
    constants.
    """
    from functrace.control.scan import scan_program

    return ft.trace(lambda x: scan_program(body, [np.float64(0.0), x], 3, False, 0, 1)[0])(X)


def test_an_abbreviated_constant_in_a_sub_program_cannot_be_parsed() -> None:
    body = ft.trace(lambda c, xt: c + np.sum(xt * np.arange(40.0)))(
        np.float64(0.0), np.float64(0.0)
    )
    with pytest.raises(ParseError, match="abbreviated"):
        Program.parse(str(scan_of(body)))


# -- check -----------------------------------------------------------------------------------------


def broken(program: Program, **changed: Any) -> Program:
    """The program with some of its fields exchanged."""
    fields = {
        "ops": program.ops, "avals": program.avals, "literals": program.literals,
        "inputs": program.input_ids,
        "constants": program.constant_values, "outputs": program.output_ids,
        "positions": program.positions,
        "name": program.name,
    }  # fmt: skip
    return Program(**{**fields, **changed})


def holding(program: Program, primitive: Any, change: Any) -> Program:
    """The program with the params of its first equation of a primitive changed."""
    k = next(k for k, op in enumerate(program.ops) if op[0] is primitive)
    op, operands, params = program.ops[k]
    named = dict(zip(op.params, params, strict=True))
    named.update(change(named))
    ops = list(program.ops)
    ops[k] = (op, operands, tuple(named.values()))
    return broken(program, ops=ops)


def test_check_reports_the_equation_of_a_sub_program_and_its_parent() -> None:
    def damage(params: Any) -> Any:
        body = params["body"]
        k = next(k for k, op in enumerate(body.ops) if op[0].name == "tanh")
        ops = list(body.ops)
        ops[k] = (ops[k][0], (len(ops) - 1,), ())
        return {"body": broken(body, ops=ops)}

    with pytest.raises(ProgramError) as caught:
        holding(ft.trace(recurrence)(X), scan_p, damage).check()
    message = str(caught.value)
    assert "param body of scan is not well formed: tanh uses variable" in message
    assert "(in step)" in message and "> h: f64[] = tanh" in message  # the equation of the body
    assert "(in recurrence)" in message and "= scan" in message  # the equation that holds it


def test_check_walks_into_tuples_of_programs() -> None:
    def damage(params: Any) -> Any:
        first, second = params["branches"]
        return {"branches": (first, broken(second, outputs=(99,)))}

    with pytest.raises(
        ProgramError, match=r"param branches\[1\] of cond is not well formed: output 0"
    ):
        holding(ft.trace(choice)(X), cond_p, damage).check()


def test_check_refuses_branches_that_take_other_operands() -> None:
    def swap(params: Any) -> Any:
        other = ft.trace(lambda x, w: np.sum(x) + w)(X, np.float64(1.0))
        return {"branches": (params["branches"][0], other)}

    with pytest.raises(ProgramError, match=r"operand 1 is f64\[3\], but the program takes f64\[\]"):
        holding(ft.trace(choice)(X), cond_p, swap).check()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"length": 4}, r"scan of 4 steps cannot walk along f64\[3\]"),
        ({"constants": 2}, "operands for|cannot walk along|operand .* is"),
        ({"carries": 2}, "a carry is|cannot walk|operand .* is"),
    ],
)
def test_check_refuses_a_loop_that_its_operands_do_not_fit(change: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        holding(ft.trace(recurrence)(X), scan_p, lambda _: change).check()


@pytest.mark.parametrize("which", [np.float64(1.0), np.array([True, False])])
def test_check_refuses_invalid_branch_indices(which: Any) -> None:
    program = ft.trace(lambda p, x: ft.cond(p, np.sin, np.cos, x))(np.True_, X)
    avals = (ft.ShapeDtype(which.shape, which.dtype), *program.avals[1:])
    ops = ((program.ops[0][0], (), (avals[0],)), *program.ops[1:])
    with pytest.raises(ProgramError, match="the branch index is"):
        broken(program, ops=ops, avals=avals).check()


@pytest.mark.parametrize(
    "name, param", [("custom_jvp", "rule"), ("custom_vjp", "forward"), ("custom_vjp", "backward")]
)
def test_check_refuses_custom_rules_that_do_not_fit(name: str, param: str) -> None:
    program = ft.trace(FUNCTIONS["custom_rules"])(X)
    primitive = ft.Program.primitives[name]

    def damage(params: Any) -> Any:
        rule = params[param]
        return (
            {
                param: broken(
                    rule, outputs=rule.input_ids[:1] * len(rule.output_ids), inputs=rule.input_ids
                )
            }
            if (param != "backward")
            else {param: broken(rule, outputs=rule.output_ids[:1])}
        )

    bad = holding(program, primitive, damage)
    if param == "backward":
        with pytest.raises(
            ProgramError, match=r"the backward rule of custom_vjp: .* returns \(f64\[3\]\), not"
        ):
            bad.check()
    else:
        bad.check()  # of the right avals, if not the right numbers
        with pytest.raises(ProgramError, match=r"rule of custom_.* returns \(\), not"):
            holding(
                program, primitive, lambda params: {param: broken(params[param], outputs=())}
            ).check()


# -- cost ------------------------------------------------------------------------------------------


def test_cost_of_a_loop_is_its_length_times_its_body() -> None:
    def f(x: Any) -> Any:
        return ft.scan(lambda c, xt: (c * xt + 1.0, None), 0.0, x)[0]  # two flops a step

    for n in (1, 10, 1000):
        assert ft.trace(f)(np.ones(n)).cost().flops == 2 * n
    cost = ft.trace(loop_in_loop)(X).cost()
    # 3 x (3 x (sin, add, mul) + sum of 3); then the sum of 3, the product, and x[2], which moves
    # only
    assert cost.flops == 3 * (3 * 3 + 3) + 3 + 1


def test_cost_of_a_choice_is_its_most_expensive_branch() -> None:
    def f(p: Any, x: Any) -> Any:
        return ft.cond(p, lambda x: np.sin(np.cos(np.exp(x))), lambda x: x * 2.0, x)

    single = ft.trace(f)(np.True_, np.ones(10)).cost()
    assert single.flops == 30
    mapped = ft.trace(ft.vmap(f))(np.array([True, False]), np.ones((2, 10))).cost()
    assert mapped.flops == 2 * 30 + 2 * 10  # both branches on both examples
    shared = ft.trace(ft.vmap(f, in_axes=(None, 0)))(np.True_, np.ones((2, 10))).cost()
    assert shared.flops == 60


def test_cost_of_a_function_with_a_rule_is_that_of_the_function() -> None:
    @ft.custom_jvp
    def f(x: Any) -> Any:
        return np.sin(x)

    f.defjvp(
        lambda primals, tangents: (f(*primals), np.cos(np.exp(np.exp(primals[0]))) * tangents[0])
    )
    assert ft.trace(f)(np.ones(10)).cost().flops == 10


def test_cost_lists_the_equations_of_sub_programs() -> None:
    shown = str(ft.trace(choice_in_loop)(X).cost())
    lines = shown.splitlines()
    at = next(k for k, line in enumerate(lines) if "= scan" in line)
    assert lines[at + 1].endswith("    3 times:")
    assert (
        "= greater" in lines[at + 2] and "= cond" in lines[at + 3] and "= mul" in lines[at + 4]
    )  # the dearer branch


def test_output_avals_of_a_loop_follow_its_body() -> None:
    program = ft.trace(recurrence)(X)
    k = next(k for k, op in enumerate(program.ops) if op[0] is scan_p)
    body = program.ops[k][2][0]
    carry, stack = output_avals(body)
    assert program.avals[k] is carry and program.avals[k + 1].shape == (3, *stack.shape)
