"""SciPy's solvers on traced values: they run on plain ones, and what they find is differentiated by what defines it.

A `Solving` is one call of a solver. Functions that it is given are recorded (`Solving.function`), so that all that they
close over is known; the solver itself (`Solving.run`) calls them on plain arrays: at once where values are known, else when
the program runs. A solution is then attached to the equations that it solves (`Solving.defined`), as
`functrace.custom_root` does.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import numpy as np
from scipy.optimize import OptimizeResult

from functrace.api.batching.mapping import vmap
from functrace.api.capture.programs import stop_gradient
from functrace.api.capture.record import Operands, Staged, stage
from functrace.api.custom_rules.implicit import root_of
from functrace.errors import ConcretizationError
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.keys import static_key
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.protocol.operands import arrayed
from functrace.ops.foreign import Foreign, as_declared, callback_p
from functrace.ops.solutions import required, undifferentiated
from functrace.scipy.kinds import Found, Given, Numbers
from functrace.tracing.binding import BODY, bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import known_value
from functrace.tree import flatten, unflatten

Function = Callable[..., Any]

NEAR, CLOSE = 1e-2, 1e-6
"""How long Newton's next step from a solution may be, relative to it: where the solver says that it has succeeded, and where
not (for tolerances that rounding does not let it reach). What is farther away is no solution, and has no derivative."""


@final
class Asked:
    """A function of the user's that a solver calls.

    Args:
        what: the solver, for messages.
        f: the function, of arrays; it returns a nest of arrays.
        examples: what it may be called with.
    """

    def __init__(self, what: str, f: Function, examples: Sequence[Any]) -> None:
        self.what, self.f = what, f
        leaves = tuple([np.asarray(x)[()] if not isinstance(x, Tracer) else x for x in examples])
        operands = Operands(leaves, {})
        self.staged: Staged
        self.asks = False
        """Whether it asks for values, so that it has to run wherever the solver calls it."""
        try:
            self.staged = stage(f, operands.without_values(), f"{what}: the function {_name(f)}", _name(f))
        except ConcretizationError:
            if any(known_value(x) is None for x in leaves):
                raise
            self.staged = stage(f, operands, f"{what}: the function {_name(f)}", _name(f))
            self.asks = True
        self.runner = Runner(self.staged.program)

    @property
    def captured(self) -> list[Any]:
        """What it closes over."""
        return self.staged.captured

    def __call__(self, *xs: Numbers) -> Any:
        """Call it on values some of which may be traced."""
        if self.asks:
            return self.f(*xs)
        avals = [self.staged.program.avals[i] for i in self.staged.program.input_ids[: len(xs)]]
        given = [_as(x, aval) for x, aval in zip(xs, avals, strict=True)]
        return unflatten(self.staged.out_tree, evaluate_program(self.staged.program, [*given, *self.captured]))

    def on(self, captured: Sequence[Any]) -> Function:
        """Return it as a function of plain arrays, for plain values of what it closes over."""
        if self.asks:
            return functools.partial(plainly, self.what, self.f)
        program, tree = self.staged.program, self.staged.out_tree
        avals = [program.avals[i] for i in program.input_ids[: len(program.input_ids) - len(captured)]]
        run = self.runner

        def plain(*xs: Numbers) -> Any:
            return unflatten(tree, run([*[_as(np.asarray(x), a) for x, a in zip(xs, avals, strict=True)], *captured]))

        return plain


def _as(x: Numbers, aval: ShapeDtype) -> Any:
    """An argument as a program takes it."""
    x = x if x.dtype == aval.dtype else x.astype(aval.dtype)
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    return x if shape_of(x) == aval.shape else np.reshape(x, aval.shape)


def plainly(what: str, f: Function, *xs: Numbers) -> Any:
    """Call a function on plain arrays, and return the values of what it makes of them and of what it closes over."""
    with ArrayRecording(what, scope=BODY):
        leaves, tree = flatten(f(*xs))
        values = [leaf._concrete() if isinstance(leaf, Tracer) else leaf for leaf in leaves]
        return unflatten(tree, [np.array(x)[()] if isinstance(x, np.ndarray) else x for x in values])


def _name(f: Function) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


def named(f: Function, made: Function) -> Function:
    """Let a function have the name of the one that it calls, which is the user's."""
    made.__name__ = _name(f)
    return made


@final
class Solving:
    """One call of one of SciPy's solvers.

    Args:
        what: the solver's full name.
        operands: arrays that it is given, which may be traced.
        static: whatever else it is given.
    """

    def __init__(self, what: str, operands: Sequence[Any], static: Sequence[Any] = ()) -> None:
        self.what, self.static = what, list(static)
        self.operands = [x if isinstance(x, Tracer) else arrayed(x) for x in operands]
        self.functions: list[Asked] = []
        self.ok: Any = True
        self.message = ""

    def function(self, f: Function, *examples: Numbers) -> Asked:
        """Record a function that the solver will call, on examples of its arguments."""
        self.functions.append(Asked(self.what, f, examples))
        return self.functions[-1]

    @property
    def values(self) -> list[Any]:
        """All that the solution depends on: operands, then what functions close over."""
        return [*self.operands, *[value for f in self.functions for value in f.captured]]

    @property
    def traced(self) -> list[Any]:
        """What of it is traced."""
        return [value for value in self.values if isinstance(value, Tracer)]

    @property
    def is_known(self) -> bool:
        """Whether all values are known."""
        return all(known_value(value) is not None for value in self.traced)

    def _given(self, values: Sequence[Any]) -> tuple[list[Any], list[Function]]:
        """Operands and functions, for plain values of everything."""
        at = len(self.operands)
        functions = []
        for f in self.functions:
            functions.append(f.on(values[at : at + len(f.captured)]))
            at += len(f.captured)
        return list(values[: len(self.operands)]), functions

    def at_once(self, solve: Function) -> Any:
        """Run the solver on the values that are known; ``solve(operands, functions)``."""
        operands, functions = self._given([_plain(value) for value in self.values])
        return solve(operands, functions)

    def run(self, solve: Function, results: Sequence[ShapeDtype]) -> list[Any]:
        """Run the solver when values are there; ``solve(operands, functions)`` returns arrays of these avals.

        What it returns carries no derivative.
        """

        def called(*values: Numbers) -> Any:
            return as_declared(solve(*self._given(values)), results)

        programs = tuple([f.staged.program.interned() for f in self.functions])
        key: Hashable = (self.what, programs, tuple(map(static_key, self.static)), tuple(results))
        foreign = Foreign(called, key, self.what, flatten([0.0] * len(results))[1])
        held = [stop_gradient(x) if isinstance(x, Tracer) else x for x in self.values]
        return list(bind(callback_p, tuple(held), (foreign, tuple(results), (), "sequential")))

    def defined(self, solution: Numbers, equations: Function, *, at_solution: bool, elementwise: bool = False) -> Any:
        """Return a solution as what equations define, which are to be zero there.

        Args:
            solution: the value; an array.
            equations: of what is like the solution, to what is like it.
            at_solution: whether values are known.
            elementwise: whether each equation is of one element.
        """

        off = equations(solution)
        near = np.where(self.ok, NEAR, CLOSE) * (1.0 + np.max(np.abs(solution), initial=0.0))

        def solve(push: Function, right: Numbers) -> Any:
            way = _by_element if elementwise else _dense
            step = way(push, off)
            return required(way(push, right), np.max(np.abs(step), initial=0.0) <= near, *self.refusal)

        return root_of(equations, solution, lambda f, x: x, solve, False, at_solution=at_solution)

    @property
    def refusal(self) -> tuple[str, str]:
        """What a derivative of something that is no solution raises."""
        because = f": {self.message}" if self.message else ""
        return (
            f"what {self.what} returned is no solution of the equations that define it, and has no derivative{because}",
            "look at result.success, and give the solver another start, a smaller tolerance or another method",
        )

    def result(self, raw: OptimizeResult, derived: dict[str, Any]) -> Solution:
        """Return SciPy's result with those fields that have derivatives, and others made such that have none.

        Args:
            raw: SciPy's result, of plain values.
            derived: fields by name.
        """
        made = Solution(self.what)
        for name, value in raw.items():
            if name in derived:
                made[name] = derived[name]
            elif isinstance(value, bool | int | str | np.bool_ | np.integer) or value is None:
                made[name] = value
            elif isinstance(value, float | complex | np.ndarray | np.generic):
                array = np.asarray(value)
                made[name] = self.undifferentiated(name, array[()]) if array.dtype.kind in "fc" else value
        return made

    def undifferentiated(self, name: str, value: Found) -> Any:
        """Return a field of a result that has no derivative: to ask for it raises."""
        return undifferentiated(
            value,
            self.traced,
            f"{name} of {self.what} has no derivative: it tells how the solver went",
            f"pass it through functrace.stop_gradient, or compute it from the solution: {_WAYS.get(name, 'result.x')}",
        )


@final
class Solution(OptimizeResult):
    """A result of one of SciPy's solvers, of which some fields may be traced."""

    def __init__(self, whose: str, **fields: Given) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "_whose", whose)

    def __getattr__(self, name: str) -> Any:
        """Say why a field is missing."""
        if name in self:
            return self[name]
        raise AttributeError(f"{name} of {self._whose} is not there on traced values; there are {', '.join(self)}")


_WAYS = {
    "jac": "functrace.grad(fun)(result.x)",
    "hess": "functrace.hessian(fun)(result.x)",
    "hess_inv": "np.linalg.inv(functrace.hessian(fun)(result.x))",
    "fjac": "functrace.jacfwd(fun)(result.x)",
}


def _plain(value: Found) -> Any:
    return known_value(value) if isinstance(value, Tracer) else value


def _by_element(push: Function, right: Numbers) -> Any:
    """Solve equations that are of one element each."""
    return right / push(np.ones(shape_of(right), right.dtype)[()])


def _dense(push: Function, right: Numbers) -> Any:
    """Solve linear equations by their matrix; numbers by division."""
    if not shape_of(right):
        return right / push(np.ones((), right.dtype)[()])
    size = int(np.prod(shape_of(right)))
    if not size:
        return right
    columns = vmap(push)(np.reshape(np.eye(size, dtype=right.dtype), (size, *shape_of(right))))
    matrix = np.reshape(columns, (size, size)).T
    return np.reshape(np.linalg.solve(matrix, np.reshape(right, (size,))), shape_of(right))
