"""A structural primitive of one's own, in one place: everything that walks programs learns from its
record what it holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functrace as ft
from functrace.control.call import evaluate_fresh
from functrace.control.scan import scan_p
from functrace.executor import Runner
from functrace.executor.plan.planner import plan
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import output_avals
from functrace.ir.primitive import Primitive, ReplacingJvp, SubPrograms
from functrace.ir.program import Program
from functrace.ir.structures import HostCall, Lowering
from functrace.ops.indexing import index_static
from functrace.passes.dce import drop_dead_results
from functrace.tracing.binding import bind
from functrace.transforms.vmap import vmap_program

# -- the primitive: a body that runs a number of times, from a carry to the next, and whose last further results are returned


def _eval(*rest: Any) -> tuple[Any, ...]:
    *carry, body, length, carries = rest
    return _repeated(lambda *values: evaluate_fresh(body, values), carry, length, carries)


def _repeated(run: Any, carry: Any, length: int, carries: int) -> tuple[Any, ...]:
    results: tuple[Any, ...] = ()
    for _ in range(length):
        results = run(*carry)
        carry = results[:carries]
    return results


def _lowers(avals: Any, body: Program, length: int, carries: int) -> Lowering:
    # A loop that gives what its last step returns is none of the structures that are described, so
    # it is a host call.
    call = HostCall(lambda runs: lambda *carry: _repeated(runs[0], carry, length, carries))
    return Lowering((body,), call, fresh=True)


def _as_scan(
    rule: Any, primals: Any, tangents: Any, body: Program, length: int, carries: int
) -> Any:
    """Differentiate as the loop that keeps what every step returns; the last of it counts."""
    outputs, dots = rule(primals, tangents, body, length, False, 0, carries)

    def last(k: int, x: Any) -> Any:
        return x if x is None or k < carries else index_static(x, (-1,))

    return tuple([last(k, x) for k, x in enumerate(outputs)]), tuple(
        [last(k, x) for k, x in enumerate(dots)]
    )


def _batch(operands: Any, is_batched: Any, body: Program, length: int, carries: int) -> Any:
    size = next(x.shape[0] for x, flag in zip(operands, is_batched, strict=True) if flag)
    operands = [
        x if flag else np.broadcast_to(x, (size, *x.shape))
        for x, flag in zip(operands, is_batched, strict=True)
    ]
    return bind(times_p, tuple(operands), (vmap_program(body, size).interned(), length, carries))


def _aval(*rest: Any) -> tuple[ShapeDtype, ...]:
    return output_avals(rest[-3])


times_p = Primitive(
    "times",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(
        jvp=lambda *rest: _as_scan(scan_p.jvp.jvp, *rest),  # type: ignore[union-attr]
        linearize=lambda *rest: _as_scan(scan_p.jvp.linearize, *rest),  # type: ignore[union-attr]
    ),
    transpose=lambda cts, *rest: None,  # never called: `linearize` leaves operations of scan
    batch=_batch,
    params=("body", "length", "carries"),
    many=True,
    holds=SubPrograms(
        lambda inputs, body, length, carries: (((length, body),),),
        kept=lambda read, body, length, carries: sorted(read.union(range(carries))),
        feeds=lambda place, body, *_: ((body, place),),
        lowers=_lowers,
    ),
)


# -- and what comes of it


def times(f: Any, x: Any, length: int) -> tuple[Any, Any]:
    """``x = f(x)[0]``, again and again; returns that and the last of ``f(x)[1]``."""
    body = ft.trace(f)(np.zeros(x.shape)).interned()
    return bind(times_p, (x,), (body, length, 1))


X = np.array([0.3, -0.7, 1.1])


def step(x: Any) -> tuple[Any, Any]:
    return np.sin(x) * 1.5, np.exp(x)


def own(x: Any) -> Any:
    after, last = times(step, x, 4)
    return np.sum(after * last)


def unrolled(x: Any) -> Any:
    last: Any = None
    for _ in range(4):
        x, last = step(x)
    return np.sum(x * last)


def test_it_is_printed_and_parsed_and_checked_and_costed() -> None:
    program = ft.trace(own)(X).check()
    text = str(program)
    assert "times" in text and "length=4" in text and "sin" in text
    primitives = {"times": times_p}
    again = Program.parse(text, primitives)
    assert again == program
    assert Program.from_json(program.to_json(), primitives) == program
    np.testing.assert_allclose(ft.evaluate(again, X), unrolled(X))
    held = next(cost for cost in program.cost().equations if cost.held)
    assert held.flops == 4 * 9 and held.held[0][0] == 4


def test_it_is_pruned() -> None:
    program = ft.trace(lambda x: np.sum(times(step, x, 4)[0]))(X)
    pruned = drop_dead_results(program)
    (body,) = [params[0] for primitive, _, params in pruned.ops if primitive is times_p]
    assert len(body.output_ids) == 1 and not any(op[0].name == "exp" for op in body.ops)
    np.testing.assert_array_equal(Runner(pruned).compile()(X)[0], ft.evaluate(program, X))


def test_it_is_compiled_differentiated_and_mapped() -> None:
    expected = ft.grad(unrolled)(X)
    np.testing.assert_allclose(ft.jit(own)(X), unrolled(X))
    assert [len(step.bodies) for step in plan(ft.trace(own)(X)).steps].count(1) == 1
    for _ in range(3):
        np.testing.assert_allclose(ft.grad(own)(X), expected)
    np.testing.assert_allclose(ft.jit(ft.grad(own))(X), expected)
    np.testing.assert_allclose(ft.jvp(own, (X,), (X,))[1], expected @ X)
    np.testing.assert_allclose(ft.jacfwd(ft.grad(own))(X), ft.hessian(unrolled)(X))
    np.testing.assert_allclose(ft.grad(ft.checkpoint(own))(X), expected)
    rows = np.stack([X, 2 * X])
    np.testing.assert_allclose(ft.vmap(own)(rows), [unrolled(X), unrolled(2 * X)])
    np.testing.assert_allclose(
        ft.jit(ft.vmap(ft.grad(own)))(rows), [expected, ft.grad(unrolled)(2 * X)]
    )
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(ft.vmap(own)(np.stack([x, 2 * x]))))(X),
        expected + 2 * ft.grad(unrolled)(2 * X),
    )
    assert "each of 4 steps" in str(ft.saved_residuals(own)(X))
