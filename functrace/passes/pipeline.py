"""The pipeline: the passes of a program before it runs, in order. Each row is a pass and its
example.

The same rows apply to sub-programs (loop bodies, branches) when these are compiled. A pass takes a
program and returns an equal one: the same inputs, the same outputs bit for bit, effects in the same
order. To add one, write it in its own file and add a row here; tests/passes/test_pipeline.py runs
the rows' examples.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from functrace.errors import ArgumentError
from functrace.ir.program import Program
from functrace.ops.reductions import EXTREMES
from functrace.passes.algebraic_simplify import simplify, sink_broadcasts
from functrace.passes.constant_folding import fold_constants
from functrace.passes.cse import drop_names, merge_common_subexpressions
from functrace.passes.dce import drop_dead_results
from functrace.passes.inlining import inline_calls
from functrace.passes.rematerialize import rematerialize_values
from functrace.passes.sign_elimination import eliminate_signs
from functrace.passes.sink import sink_operations
from functrace.phases import phase

Stage: TypeAlias = Literal["early", "jit", "late", "last", "off"]


@final
@dataclass(frozen=True, slots=True)
class Pass:
    """A pass, with an example.

    Args:
        name: name of the row.
        run: from a program to an equal one.
        stage: time of application: "early" before the first run, "late" before compilation or
            recording into another program, "last" before compilation only. "jit" is between the
            first two, in `functrace.jit`, whose calls all run the same code. "off" marks a disabled
            pass.
        before: the example: the listing of a program.
        after: the listing of the result.
        exact: True if no bit of any result changes; if not, sums round in another order. Such a row
            is for "jit".
        tuned: True if its profitability depends on NumPy's costs; other backends select such passes
            by name (`functrace.executor.policy.Policy`).

    Example:
        >>> import functrace as ft
        >>> row = ft.passes.PIPELINE[0]
        >>> program = ft.Program.parse(row.before)
        >>> row.run(program) == ft.Program.parse(row.after)
        True
    """

    name: str
    run: Callable[[Program], Program]
    stage: Stage
    before: str
    after: str
    exact: bool = True
    tuned: bool = False


def _in_parts(program: Program) -> Program:
    """Divide loops; imports the pass with the first program that may have one."""
    if all(primitive.holds is None for primitive in program.kinds):
        return program
    from functrace.passes.loop_fission import fission_loops

    return fission_loops(program)


def _flat(program: Program) -> Program:
    """Flatten batched products; lazy import."""
    from functrace.passes.matmul_selection import flatten_stacks

    return flatten_stacks(program)


def _by_dot(program: Program) -> Program:
    """Choose ``dot``; lazy import."""
    from functrace.passes.matmul_selection import choose_dot

    return choose_dot(program)


def _divided(program: Program) -> Program:
    """Divide large products; lazy import."""
    from functrace.passes.matmul_selection import divide_products

    return divide_products(program)


def _joined(program: Program) -> Program:
    """Join parts of arrays; lazy import."""
    from functrace.passes.embed_sums import join_embeds

    return join_embeds(program)


def _unshifted(program: Program) -> Program:
    """Drop derivatives of shifts; lazy import."""
    if program.kinds.isdisjoint(EXTREMES):
        return program
    from functrace.passes.softmax_shift import drop_softmax_shifts

    return drop_softmax_shifts(program)


PIPELINE = (
    Pass(
        "inlining",
        inline_calls,
        stage="early",
        before="""
            program(x: f64[3]) {
              a: f64[3] = call x {program={
                program(x: f64[3]) {
                  a: f64[3] = sin x
                  return a
                }
              }, policy=()}
              return a
            }""",
        after="""
            program(x: f64[3]) {
              a: f64[3] = sin x
              return a
            }""",
    ),
    Pass(
        "dead results",
        drop_dead_results,
        stage="early",
        before="""
            program(h: f64[], x: f64[2]) {
              (a: f64[], b: f64[2], c: f64[2]) = scan h x {body={
                program(h: f64[], x: f64[]) {
                  a: f64[] = add h x
                  b: f64[] = exp h
                  c: f64[] = square h
                  return a, b, c
                }
              }, length=2, reverse=False, constants=0, carries=1}
              return c
            }""",
        after="""
            program(h: f64[], x: f64[2]) {
              (a: f64[], c: f64[2]) = scan h x {body={
                program(h: f64[], x: f64[]) {
                  a: f64[] = add h x
                  c: f64[] = square h
                  return a, c
                }
              }, length=2, reverse=False, constants=0, carries=1}
              return c
            }""",
    ),
    Pass(
        "sinking",
        sink_operations,
        stage="early",
        before="""
            program(x: f64[200000]) {
              a: f64[200000] = tanh x
              b: f64[200000] = square a
              c: f64[200000] = tanh a
              d: f64[200000] = mul c a
              e: f64[200000] = mul d b
              return e
            }""",
        after="""
            program(x: f64[200000]) {
              a: f64[200000] = tanh x
              c: f64[200000] = tanh a
              d: f64[200000] = mul c a
              b: f64[200000] = square a
              e: f64[200000] = mul d b
              return e
            }""",
        tuned=True,
    ),
    Pass(
        "rematerialization",
        rematerialize_values,
        stage="early",
        before="""
            program(x: f64[1000, 1000]) {
              a: f64[1000, 1000] = matmul x x
              b: f64[1000, 1000] = tanh a
              c: f64[1000, 1000] = matmul b x
              d: f64[1000, 1000] = matmul c c
              e: f64[1000, 1000] = mul d b
              f: f64[1000, 1000] = mul e a
              return f
            }""",
        after="""
            program(x: f64[1000, 1000]) {
              a: f64[1000, 1000] = matmul x x
              g: f64[1000, 1000] = tanh a
              c: f64[1000, 1000] = matmul g x
              d: f64[1000, 1000] = matmul c c
              b: f64[1000, 1000] = tanh a
              e: f64[1000, 1000] = mul d b
              f: f64[1000, 1000] = mul e a
              return f
            }""",
        tuned=True,
    ),
    Pass(
        "constant folding",
        fold_constants,
        stage="late",
        before="""
            program(x: f64[3]) {
              const k: f64[] = 2.0
              a: f64[] = exp k
              b: f64[] = mul a 0.5
              c: f64[3] = mul x b
              return c
            }""",
        after="""
            program(x: f64[3]) {
              const b: f64[] = 3.694528049465325
              c: f64[3] = mul x b
              return c
            }""",
    ),
    Pass(
        "broadcast sinking",
        sink_broadcasts,
        stage="last",
        before="""
            program(x: f64[2,3], y: f64[3]) {
              a: f64[2,3] = broadcast_to y {shape=(2, 3)}
              b: f64[2,3] = mul x a
              return b
            }""",
        after="""
            program(x: f64[2,3], y: f64[3]) {
              b: f64[2,3] = mul x y
              return b
            }""",
    ),
    Pass(
        "algebraic simplification",
        simplify,
        stage="last",
        before="""
            program(x: f64[3], y: f64[3]) {
              a: f64[3] = neg x
              b: f64[3] = add a y
              c: f64[3] = div b 1024
              return c
            }""",
        after="""
            program(x: f64[3], y: f64[3]) {
              b: f64[3] = sub y x
              c: f64[3] = mul b 0.0009765625
              return c
            }""",
    ),
    Pass(
        "sign elimination",
        eliminate_signs,
        stage="last",
        before="""
            program(x: f64[3], y: f64[3], z: f64[3]) {
              a: f64[3] = exp x
              b: f64[3] = neg a
              c: f64[3] = mul b y
              d: f64[3] = sub z c
              e: f64[3] = mul b 2.0
              f: f64[3] = add c e
              return d, e, f
            }""",
        after="""
            program(x: f64[3], y: f64[3], z: f64[3]) {
              a: f64[3] = exp x
              b: f64[3] = mul a y
              d: f64[3] = add z b
              e: f64[3] = mul a -2.0
              f: f64[3] = sub e b
              return d, e, f
            }""",
    ),
    Pass(
        "common subexpressions",
        merge_common_subexpressions,
        stage="last",
        before="""
            program(x: f64[3], y: f64[3]) {
              a: f64[2] = index x {index=((None, -1, None),)}
              b: f64[2] = index x {index=((None, -1, None),)}
              c: f64[3] = add x y
              d: f64[3] = add y x
              e: f64[2] = mul a b
              f: f64[3] = mul c d
              return e, f
            }""",
        after="""
            program(x: f64[3], y: f64[3]) {
              a: f64[2] = index x {index=((None, -1, None),)}
              c: f64[3] = add x y
              e: f64[2] = mul a a
              f: f64[3] = mul c c
              return e, f
            }""",
    ),
    Pass(
        "names",
        drop_names,
        stage="last",
        before="""
            program(x: f64[3]) {
              a: f64[3] = exp x
              b: f64[3] = name a {name="a"}
              c: f64[3] = sin b
              return c
            }""",
        after="""
            program(x: f64[3]) {
              a: f64[3] = exp x
              c: f64[3] = sin a
              return c
            }""",
    ),
)
"""The passes of every program, in order."""

REORDERING = (
    Pass(
        "softmax shifts",
        _unshifted,
        stage="jit",
        before="""
            program(x: f64[5,4], y: f64[5,4]) {
              a: f64[5] = reduce_max x {axes=(1,)}
              b: f64[5,1] = reshape a {shape=(5, 1)}
              c: f64[5,4] = sub x b
              d: f64[5,4] = exp c
              e: f64[5] = reduce_sum d {axes=(1,)}
              f: f64[5,1] = reshape e {shape=(5, 1)}
              g: f64[5] = reduce_sum y {axes=(1,)}
              h: f64[5,1] = reshape g {shape=(5, 1)}
              i: f64[5,1] = div h f
              j: f64[5,4] = mul i d
              k: f64[5,4] = sub y j
              l: f64[5] = reduce_sum k {axes=(1,)}
              m: f64[5,1] = reshape l {shape=(5, 1)}
              n: bool[5,4] = equal x b
              o: f64[5,4] = convert n {dtype=f64}
              p: f64[5,4] = mul o m
              q: f64[5,4] = add k p
              return q
            }""",
        after="""
            program(x: f64[5,4], y: f64[5,4]) {
              a: f64[5] = reduce_max x {axes=(1,)}
              b: f64[5,1] = reshape a {shape=(5, 1)}
              c: f64[5,4] = sub x b
              d: f64[5,4] = exp c
              e: f64[5] = reduce_sum d {axes=(1,)}
              f: f64[5,1] = reshape e {shape=(5, 1)}
              g: f64[5] = reduce_sum y {axes=(1,)}
              h: f64[5,1] = reshape g {shape=(5, 1)}
              i: f64[5,1] = div h f
              j: f64[5,4] = mul i d
              k: f64[5,4] = sub y j
              return k
            }""",
        exact=False,
    ),
    Pass(
        "loop fission",
        _in_parts,
        stage="jit",
        before="""
            program(w: f64[2,2], g: f64[2,2], h: f64[2], xs: f64[4,2]) {
              (a: f64[2,2], b: f64[2], c: f64[4,2]) = scan w g h xs {body={
                program(w: f64[2,2], g: f64[2,2], h: f64[2], x: f64[2]) {
                  a: f64[2] = exp x
                  b: f64[2] = mul h a
                  c: f64[2] = matmul b w
                  d: f64[2,1] = reshape b {shape=(2, 1)}
                  e: f64[2,2] = mul d x
                  f: f64[2,2] = add g e
                  i: f64[2] = square c
                  return f, c, i
                }
              }, length=4, reverse=False, constants=1, carries=2}
              return a, b, c
            }""",
        after="""
            program(w: f64[2,2], g: f64[2,2], h: f64[2], xs: f64[4,2]) {
              d: f64[4,2] = exp xs
              (b: f64[2], e: f64[4,2], f: f64[4,2]) = scan w h d {body={
                program(w: f64[2,2], h: f64[2], a: f64[2]) {
                  b: f64[2] = mul h a
                  c: f64[2] = matmul b w
                  return c, c, b
                }
              }, length=4, reverse=False, constants=1, carries=1}
              c: f64[4,2] = square e
              i: f64[2,4] = transpose f {axes=(1, 0)}
              j: f64[2,2] = matmul i xs
              a: f64[2,2] = add g j
              return a, b, c
            }""",
        exact=False,
        tuned=True,
    ),
    Pass(
        "sums of embeds",
        _joined,
        stage="jit",
        before="""
            program(x: f64[5,4], y: f64[5,2], z: f64[5,2]) {
              a: f64[5,2,4] = embed x {index=((None, None, None), 0), shape=(5, 2, 4)}
              b: f64[5,2,4] = embed x {index=((None, None, None), 1), shape=(5, 2, 4)}
              c: f64[5,2,4] = add b a
              d: f64[5,4] = embed y {index=((None, None, None), (0, 2, None)), shape=(5, 4)}
              e: f64[5,4] = embed z {index=((None, None, None), (2, 4, None)), shape=(5, 4)}
              f: f64[5,4] = add e d
              return c, f
            }""",
        after="""
            program(x: f64[5,4], y: f64[5,2], z: f64[5,2]) {
              c: f64[5,2,4] = stack x x {axis=1}
              f: f64[5,4] = concatenate y z {axis=1}
              return c, f
            }""",
        exact=False,
        tuned=True,
    ),
    Pass(
        "parallel matmul",
        _divided,
        stage="jit",
        before="""
            program(x: f64[16,64,128], y: f64[16,128,64]) {
              a: f64[16,64,64] = matmul x y
              return a
            }""",
        after="""
            program(x: f64[16,64,128], y: f64[16,128,64]) {
              a: f64[16,64,64] = matmul_in_parts x y
              return a
            }""",
        exact=False,
        tuned=True,
    ),
    Pass(
        "batched matmul",
        _flat,
        stage="jit",
        before="""
            program(x: f64[5,2,3], y: f64[3,4]) {
              a: f64[5,2,4] = matmul x y
              return a
            }""",
        after="""
            program(x: f64[5,2,3], y: f64[3,4]) {
              b: f64[10,3] = reshape x {shape=(10, 3)}
              c: f64[10,4] = matmul b y
              a: f64[5,2,4] = reshape c {shape=(5, 2, 4)}
              return a
            }""",
        exact=False,
        tuned=True,
    ),
    Pass(
        "small matmul",
        _by_dot,
        stage="jit",
        before="""
            program(x: f64[3,3], y: f64[3]) {
              a: f64[3] = matmul x y
              return a
            }""",
        after="""
            program(x: f64[3,3], y: f64[3]) {
              a: f64[3] = dot x y
              return a
            }""",
        exact=False,
        tuned=True,
    ),
)
"""Passes of `functrace.jit`, between the early and the late ones."""

EARLY = tuple([row for row in PIPELINE if row.stage == "early"])
LATE = tuple([row for row in PIPELINE if row.stage == "late"])
LAST = tuple([row for row in PIPELINE if row.stage == "last"])


def without(name: str) -> Pass:
    """Disable one of ``jit``'s own passes: ``jit(f, passes=[without("loop fission")])``.

    Args:
        name: name of a row of `REORDERING`.

    Returns:
        a marker for the list of passes.

    Raises:
        ArgumentError: if there is no pass of this name.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> from functrace.passes import without
        >>> total = lambda xs: ft.scan(lambda c, x: (c + x, None), 0.0, xs)[0]
        >>> ft.jit(total, passes=[without("loop fission")])(np.full(8, 0.1))  # added one by one
        np.float64(0.7999999999999999)
    """
    names = [row.name for row in REORDERING]
    if name not in names:
        raise ArgumentError(
            f"there is no optional pass {name!r}", fix=f"name one of {', '.join(names)}"
        )
    return Pass(name, lambda program: program, "off", "", "")


def applied(own: Sequence[Pass]) -> tuple[Pass, ...]:
    """List the passes that ``jit`` applies after inlining.

    Args:
        own: the user's passes, with markers from `without`.

    Returns:
        the user's passes, then ``jit``'s own (`REORDERING`) without those that the markers name.

    Example:
        >>> from functrace.passes import applied, without
        >>> "loop fission" in [row.name for row in applied([without("loop fission")])]
        False
    """
    off = {row.name for row in own if row.stage == "off"}
    return (
        *[row for row in own if row.stage != "off"],
        *[row for row in REORDERING if row.name not in off],
    )


def optimized(program: Program, passes: Sequence[Pass] = PIPELINE) -> Program:
    """Apply passes in order.

    Args:
        program: any program.
        passes: rows, in order.

    Returns:
        an equal program.

    Example:
        >>> import numpy as np, functrace as ft
        >>> ft.passes.optimized(ft.trace(lambda x: np.sin(x) / 2)(1.0)).equations[1].primitive
        mul
    """
    with phase("passes"):
        for row in passes:
            program = row.run(program)
    return program
