"""SciPy's solvers on traced values: calls on plain values, implicit derivatives.

A `SolverCall` is one call of a solver. Its functions are recorded (`SolverCall.function`), which finds
their captured values; the solver itself (`SolverCall.run`) calls them on plain arrays: at once if all
values are concrete, otherwise when the program runs. A solution is then attached to the equations
that it solves (`SolverCall.defined`), like in `functrace.custom_root`.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

import numpy as np
from scipy.optimize import OptimizeResult

from functrace.api.batching.mapping import vmap
from functrace.api.capture.programs import stop_gradient
from functrace.api.capture.record import Operands, StagedFunction, stage
from functrace.api.custom_rules.implicit import root_of
from functrace.errors import ConcretizationError
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.keys import static_key
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.protocol.operands import arrayed
from functrace.ops.foreign import ForeignFunction, as_declared, callback_p
from functrace.ops.solutions import required, undifferentiated
from functrace.scipy.kinds import Found, Given, Numbers
from functrace.tracing.binding import BODY, bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value
from functrace.tree import flatten, unflatten
from functrace.typing import Array

Function: TypeAlias = Callable[..., Any]
"""A function that is called, with any arguments."""

if TYPE_CHECKING:
    from functrace import typing

    AnyFunction: TypeAlias = typing.Function[Any]
else:
    AnyFunction = Function
"""A function that is passed on, of any number of parameters: a checker gives those of a lambda
types."""
Solve: TypeAlias = Callable[[Sequence[Any], Sequence[Function]], Any]
"""A call of a solver, on operands and functions of plain values."""

NEAR, CLOSE = 1e-2, 1e-6
"""Maximum length of Newton's next step from a solution, relative to it, if the solver reports
success, and if not (for tolerances below rounding). Other results are no solutions, and have no
derivative."""


@final
class SolverFunction:
    """A user function that a solver calls.

    Args:
        what: the solver, for messages.
        f: function of arrays; it returns a pytree of arrays.
        examples: example arguments.
    """

    def __init__(self, what: str, f: AnyFunction, examples: Sequence[Any]) -> None:
        self.what = what
        self.f: Function = f
        leaves = tuple([np.asarray(x)[()] if not isinstance(x, Tracer) else x for x in examples])
        operands = Operands(leaves, {})
        self.staged: StagedFunction
        self.reads_values = False
        """True if it reads concrete values, so that it must run wherever the solver calls it."""
        try:
            self.staged = stage(
                f, operands.without_values(), f"{what}: the function {_name(f)}", _name(f)
            )
        except ConcretizationError:
            if any(concrete_value(x) is None for x in leaves):
                raise
            self.staged = stage(f, operands, f"{what}: the function {_name(f)}", _name(f))
            self.reads_values = True
        self.runner = Runner(self.staged.program)

    @property
    def captured(self) -> list[Any]:
        """Captured values."""
        return self.staged.captured

    def __call__(self, *xs: Numbers) -> Any:
        """Call it on values, some of which may be traced."""
        if self.reads_values:
            return self.f(*xs)
        avals = [self.staged.program.avals[i] for i in self.staged.program.input_ids[: len(xs)]]
        given = [_as(x, aval) for x, aval in zip(xs, avals, strict=True)]
        return unflatten(
            self.staged.out_tree, evaluate_program(self.staged.program, [*given, *self.captured])
        )

    def on(self, captured: Sequence[Any]) -> Function:
        """Return it as a function of plain arrays, for plain captured values."""
        if self.reads_values:
            return functools.partial(plainly, self.what, self.f)
        program, tree = self.staged.program, self.staged.out_tree
        avals = [
            program.avals[i] for i in program.input_ids[: len(program.input_ids) - len(captured)]
        ]
        run = self.runner

        def plain(*xs: Numbers) -> Any:
            return unflatten(
                tree,
                run([*[_as(np.asarray(x), a) for x, a in zip(xs, avals, strict=True)], *captured]),
            )

        return plain


def _as(x: Array | np.generic, aval: ShapeDtype) -> Any:
    """Cast an argument to a program's aval."""
    x = x if x.dtype == aval.dtype else x.astype(aval.dtype)
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    return x if shape_of(x) == aval.shape else np.reshape(x, aval.shape)


def plainly(what: str, f: AnyFunction, *xs: Numbers) -> Any:
    """Call a function on plain arrays; return the concrete values of its results and captures."""
    called: Function = f
    with ArrayRecording(what, scope=BODY):
        leaves, tree = flatten(called(*xs))
        values: list[Array | np.generic] = [
            leaf.ft_concrete() if isinstance(leaf, Tracer) else leaf for leaf in leaves
        ]
        return unflatten(
            tree, [np.array(x)[()] if isinstance(x, np.ndarray) else x for x in values]
        )


def tupled(args: object) -> tuple[Any, ...]:
    """Return extra arguments as a tuple: SciPy accepts a single one."""
    return cast("tuple[Any, ...]", args) if isinstance(args, tuple) else (args,)


def _name(f: Function) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


def named(f: AnyFunction, made: AnyFunction) -> Function:
    """Give a wrapper the name of the user's function."""
    made.__name__ = _name(f)
    return made


@final
class SolverCall:
    """One call of a SciPy solver.

    Args:
        what: the solver's full name.
        operands: array arguments, which may be traced.
        static: all other arguments.
    """

    def __init__(self, what: str, operands: Sequence[Any], static: Sequence[Any] = ()) -> None:
        self.what, self.static = what, list(static)
        self.operands = [x if isinstance(x, Tracer) else arrayed(x) for x in operands]
        self.functions: list[SolverFunction] = []
        self.ok: Any = True
        self.message = ""

    def function(self, f: AnyFunction, *examples: Numbers) -> SolverFunction:
        """Record a function that the solver will call, on examples of its arguments."""
        self.functions.append(SolverFunction(self.what, f, examples))
        return self.functions[-1]

    @property
    def values(self) -> list[Any]:
        """All inputs of the solution: operands, then captured values of functions."""
        return [*self.operands, *[value for f in self.functions for value in f.captured]]

    @property
    def traced(self) -> list[Any]:
        """The traced values among them."""
        return [value for value in self.values if isinstance(value, Tracer)]

    @property
    def is_concrete(self) -> bool:
        """True if all values are concrete."""
        return all(concrete_value(value) is not None for value in self.traced)

    def _given(self, values: Sequence[Any]) -> tuple[list[Any], list[Function]]:
        """Return operands and functions, for plain values of all inputs."""
        at = len(self.operands)
        functions: list[Function] = []
        for f in self.functions:
            functions.append(f.on(values[at : at + len(f.captured)]))
            at += len(f.captured)
        return list(values[: len(self.operands)]), functions

    def at_once(self, solve: Solve) -> Any:
        """Run the solver on concrete values; ``solve(operands, functions)``."""
        operands, functions = self._given([_plain(value) for value in self.values])
        return solve(operands, functions)

    def run(self, solve: Solve, results: Sequence[ShapeDtype]) -> list[Any]:
        """Run the solver when the program runs; ``solve(operands, functions)`` returns arrays.

        The results have no derivative.
        """

        def called(*values: Numbers) -> Any:
            return as_declared(solve(*self._given(values)), results)

        programs = tuple([f.staged.program.interned() for f in self.functions])
        key: Hashable = (self.what, programs, tuple(map(static_key, self.static)), tuple(results))
        foreign = ForeignFunction(called, key, self.what, flatten([0.0] * len(results))[1])
        held = [stop_gradient(x) if isinstance(x, Tracer) else x for x in self.values]
        return list(bind(callback_p, tuple(held), (foreign, tuple(results), (), "sequential")))

    def defined(
        self,
        solution: Numbers,
        equations: Callable[[Any], Any],
        *,
        at_solution: bool,
        elementwise: bool = False,
    ) -> Any:
        """Return a solution that is defined by equations, which are zero there.

        Args:
            solution: the value; an array.
            equations: function from an array like the solution to residuals.
            at_solution: True if all values are concrete.
            elementwise: True if each equation depends on one element.
        """

        off = equations(solution)
        near = np.where(self.ok, NEAR, CLOSE) * (1.0 + np.max(np.abs(solution), initial=0.0))

        def unchanged(f: Function, x: Numbers) -> Any:
            return x

        def solve(push: Function, right: Numbers) -> Any:
            way = _by_element if elementwise else _dense
            step = way(push, off)
            return required(
                way(push, right), np.max(np.abs(step), initial=0.0) <= near, *self.refusal
            )

        return root_of(equations, solution, unchanged, solve, False, at_solution=at_solution)

    @property
    def refusal(self) -> tuple[str, str]:
        """Return message and fix of the error for differentiating a result that is no solution."""
        because = f": {self.message}" if self.message else ""
        return (
            (
                f"what {self.what} returned is no solution of the equations that define it, and has no "
                f"derivative{because}"
            ),
            (
                "look at result.success, and give the solver another start, a smaller tolerance or "
                "another method"
            ),
        )

    def result(self, raw: OptimizeResult, derived: dict[str, Any]) -> Solution:
        """Return SciPy's result with differentiable fields; others raise if differentiated.

        Args:
            raw: SciPy's result, on plain values.
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
                made[name] = (
                    self.undifferentiated(name, array[()]) if array.dtype.kind in "fc" else value
                )
        return made

    def undifferentiated(self, name: str, value: Found) -> Any:
        """Return a field of a result without derivative: differentiating it raises."""
        return undifferentiated(
            value,
            self.traced,
            f"{name} of {self.what} has no derivative: it tells how the solver went",
            "pass it through functrace.stop_gradient, or compute it from the solution: "
            f"{_WAYS.get(name, 'result.x')}",
        )


@final
class Solution(OptimizeResult):
    """A result of a SciPy solver, some of whose fields may be traced."""

    def __init__(self, whose: str, **fields: Given) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "_whose", whose)

    def __getattr__(self, name: str) -> Any:
        """Raise with the reason why a field is missing."""
        if name in self:
            return self[name]
        raise AttributeError(
            f"{name} of {self._whose} is not there on traced values; there are {', '.join(self)}"
        )


_WAYS = {
    "jac": "functrace.grad(fun)(result.x)",
    "hess": "functrace.hessian(fun)(result.x)",
    "hess_inv": "np.linalg.inv(functrace.hessian(fun)(result.x))",
    "fjac": "functrace.jacfwd(fun)(result.x)",
}


def _plain(value: Found) -> Any:
    return concrete_value(value) if isinstance(value, Tracer) else value


def _by_element(push: Function, right: Numbers) -> Any:
    """Solve equations that depend on one element each."""
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
