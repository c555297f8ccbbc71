"""The pipeline: which passes a program goes through before it runs, in which order. Each row is a pass and its example.

The same rows are applied to programs that operations hold (bodies of loops, branches of choices) when these are compiled.
A pass takes a program and returns an equal one: the same inputs, the same outputs bit for bit, effects in the same order.
To add one, write it in a file of its own and add a row here; tests/passes/test_pipeline.py runs the rows' examples.

Floor: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from functrace.ir.program import Program
from functrace.passes.again import compute_again
from functrace.passes.algebra import simplifying, sink_broadcasts
from functrace.passes.common import drop_names, merging
from functrace.passes.fold import folding
from functrace.passes.inline import in_line
from functrace.passes.late import computing_late
from functrace.passes.unused import drop_unused
from functrace.steps import finished

Stage: TypeAlias = Literal["early", "late", "last"]


@final
@dataclass(frozen=True, slots=True)
class Pass:
    """A pass, and what it does to an example.

    Args:
        name: for people.
        steps: called as ``steps(program, size)``: a generator that yields after about ``size`` equations of work, and
            returns the program.
        stage: when it is worth its time: "early" before the program has run at all, "late" before it is compiled or recorded
            into another program, "last" before it is compiled: what it makes is only run, and derived no more.
        before: an example: the listing of a program.
        after: what becomes of it.
    """

    name: str
    steps: Callable[[Program, int], Generator[None, None, Program]]
    stage: Stage
    before: str
    after: str


def at_once(run: Callable[[Program], Program]) -> Callable[[Program, int], Generator[None, None, Program]]:
    """Make steps of a pass that is so fast that it needs none."""

    def steps(program: Program, size: int) -> Generator[None, None, Program]:
        return run(program)
        yield

    return steps


PIPELINE = (
    Pass(
        "in line",
        at_once(in_line),
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
        "unused results",
        at_once(drop_unused),
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
        "late values",
        computing_late,
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
    ),
    Pass(
        "values computed again",
        at_once(compute_again),
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
    ),
    Pass(
        "constants",
        folding,
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
        "broadcasts",
        at_once(sink_broadcasts),
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
        "signs and powers of two",
        simplifying,
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
        "common operations",
        merging,
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
        at_once(drop_names),
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
"""All passes, in their order."""

EARLY = tuple([row for row in PIPELINE if row.stage == "early"])
LATE = tuple([row for row in PIPELINE if row.stage == "late"])
LAST = tuple([row for row in PIPELINE if row.stage == "last"])


def optimizing(program: Program, size: int, passes: Sequence[Pass] = PIPELINE) -> Generator[None, None, Program]:
    """Apply passes in steps of about ``size`` equations."""
    for row in passes:
        program = yield from row.steps(program, size)
    return program


def optimized(program: Program, passes: Sequence[Pass] = PIPELINE) -> Program:
    """Apply passes at once."""
    return finished(optimizing(program, len(program.ops) + 1, passes))
