"""Straight-line Python over bound NumPy functions: the compiled form of a program.

One statement per equation; a variable's local name is reused or deleted at its last use, so that arrays die as early as
they can, or take up the result that replaces them (executor/reuse.py). Results are always fresh arrays: an output that is,
or may be a view of, an argument, a constant or another output is copied.

Floor: 6.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from functrace.control.call import call_p, inline
from functrace.control.cond import choose, cond_p, mapped_branch
from functrace.control.custom import custom_jvp_p, custom_vjp_p
from functrace.control.scan import run_scan, scan_p
from functrace.executor.kernels import KERNELS
from functrace.executor.reuse import Buffers
from functrace.ir.parts import output_avals
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.passes import compute_late, drop_unused, fold_constants
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.recording import Tracer

LONGEST_COMPILED = 20_000
"""Programs with more equations than this stay with the evaluator: Python's compiler would take seconds."""

_numbers = itertools.count()


@final
class Runner:
    """Runs one program: interprets the first call, compiles at the second.

    Args:
        program: the program; its inputs are the arguments.
    """

    __slots__ = ("_calls", "_compiled", "_flat", "_folded", "program")

    def __init__(self, program: Program) -> None:
        self.program = program
        self._calls = 0
        self._compiled: Callable[..., Any] | None = None
        self._flat: Program | None = None
        self._folded: Program | None = None

    @property
    def folded(self) -> Program:
        """The program with constants folded: what is recorded into an outer program, with its calls as they are."""
        if self._folded is None:
            self._folded = fold_constants(self.program)
        return self._folded

    @property
    def flat(self) -> Program:
        """The program with its calls in line: what runs."""
        if self._flat is None:
            self._flat = compute_late(drop_unused(inline(self.program, stands_for)))
        return self._flat

    def __call__(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run on flat arguments (arrays or traced values); returns the flat outputs, fresh arrays."""
        for value in arguments:
            if isinstance(value, Tracer):
                return _fresh_handles(evaluate_program(self.folded, arguments))
        compiled = self._compiled
        if compiled is None:
            self._calls += 1
            if self._calls == 1 or len(self.flat.schedule) > LONGEST_COMPILED:
                return self._interpret(arguments)
            compiled = self.compile()
        try:
            return compiled(*arguments)
        except Exception as error:
            explain(error)
            raise

    def compile(self) -> Callable[..., tuple[Any, ...]]:
        """Compile now, not at the second call; returns the function of the arguments."""
        if self._compiled is None:
            self._compiled = compile_program(fold_constants(self.flat))
            self._flat = self._folded = None  # made again if ever needed
        return self._compiled

    def _interpret(self, arguments: Sequence[Any]) -> Sequence[Any]:
        program = self.flat
        results = evaluate_program(program, arguments)
        return [
            value.copy("K") if shared and not isinstance(value, Tracer) else value
            for shared, value in zip(program.aliasing, results, strict=True)
        ]


_IN_LINE = (call_p, custom_jvp_p, custom_vjp_p)


def stands_for(op: Op) -> Program | None:
    """Choose what runs in line: calls, and functions that bring their derivative."""
    return op[2][0] if op[0] in _IN_LINE else None


def _fresh_handles(results: list[Any]) -> list[Any]:
    """Give every traced result a handle of its own, so that in-place changes of one do not reach another."""
    return [r._recording.handle(r._id) if isinstance(r, Tracer) else np.copy(r) for r in results]


def compile_program(program: Program, *, fresh: bool = True) -> Callable[..., tuple[Any, ...]]:
    """Compile a program to a Python function of its inputs, which returns a tuple of outputs.

    Args:
        program: a program without calls.
        fresh: whether no output may share memory with an argument, a constant or another output.
    """
    source, bound = generate(program, fresh=fresh)
    filename = f"<functrace {program.name} {next(_numbers)}>"
    exec(compile(source, filename, "exec"), bound)
    function = bound["run"]
    # Tracebacks and warnings show the generated line, which ends in the user's position.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function


def generate(program: Program, *, fresh: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the source of the compiled form, and the values that its names are bound to."""
    bound: dict[str, Any] = {}
    names_of_values: dict[int, str] = {}

    def bind_value(value: Any) -> str:
        found = names_of_values.get(id(value))
        if found is None:
            found = names_of_values[id(value)] = f"k{len(bound)}"
            bound[found] = value
        return found

    free: list[str] = []
    count = itertools.count()
    names: dict[int, str] = {}
    for i in program.input_ids:
        names[i] = f"x{i}"
    for i, value in program.constant_values.items():
        names[i] = bind_value(value)
    lines = [f"def run({', '.join(names[i] for i in program.input_ids)}):"]

    def operand(i: int, k: int) -> str:
        if i >= 0:
            return names[i]
        return _literal(program, i, k, bind_value)

    buffers = Buffers(program)
    for k, dying in program.schedule:
        primitive, operands, params = program.ops[k]
        arguments = tuple(operand(i, k) for i in operands)
        kernel = KERNELS.get(primitive.name)
        nested = NESTED.get(primitive)
        target = buffers.step(k, dying, escapes=nested is not None or primitive.effects)
        if target is not None:
            word = "out=" if primitive.eval in (np.maximum, np.minimum) else ""  # 0.03 us dearer; these two insist on it
            arguments = (*arguments, word + names[target])
        if nested is not None:
            run = nested(tuple([program.avals[i] for i in operands]), params)
            expression = f"{bind_value(run)}({', '.join(arguments)})"
        elif kernel is not None:
            expression = kernel(arguments, params, bind_value)
        else:
            static = tuple(bind_value(p) for p in params)
            expression = f"{bind_value(primitive.eval)}({', '.join((*arguments, *static))})"
        dead = [names[i] for i in dying if not names[i].startswith("k")]
        if target is not None:
            dead.remove(names[target])
        free.extend(dead)
        results = range(k, k + program.result_count(k)) if primitive.many else range(k, k + 1)
        for j in results:
            names[j] = names[target] if target is not None else free.pop() if free else f"v{next(count)}"
        left = ", ".join(names[j] for j in results) + ("," if primitive.many else "")
        unused = [d for d in dead if d not in {names[j] for j in results}]
        source = program.source(k)
        comment = f"  # {source.short}" if source is not None else ""
        lines.append(f"    {left} = {expression}{comment}")
        if unused:
            lines.append(f"    del {', '.join(dict.fromkeys(unused))}")
    outs = [
        f"{names[i]}.copy('K')" if shared and fresh and not buffers.is_exclusive(i) else names[i]
        for i, shared in zip(program.output_ids, program.aliasing, strict=True)
    ]
    lines.append(f"    return ({', '.join(outs)}{',' if outs else ''})")
    return "\n".join(lines) + "\n", bound


# -- programs inside programs ----------------------------------------------------------------------------------------------


def _compiled(program: Program, *, fresh: bool) -> Callable[..., tuple[Any, ...]]:
    return compile_program(fold_constants(drop_unused(inline(program, stands_for))), fresh=fresh)


def _scan(avals: tuple[Any, ...], params: tuple[Any, ...]) -> Callable[..., Any]:
    body, length, reverse, constants, carries = params
    step, outs = _compiled(body, fresh=False), output_avals(body)
    return lambda *operands: run_scan(step, outs, operands, length, reverse, constants, carries)


def _cond(avals: tuple[Any, ...], params: tuple[Any, ...]) -> Callable[..., Any]:
    branches, batched = params
    if not batched:
        runs = [_compiled(branch, fresh=True) for branch in branches]
        last = len(runs) - 1
        return lambda which, *operands: runs[min(max(int(which), 0), last)](*operands)
    (size,) = avals[0].shape
    mapped = [mapped_branch(branch, size, batched) for branch in branches]
    runs = [_compiled(program, fresh=False) for program in mapped]
    outs = output_avals(mapped[0])
    return lambda which, *operands: choose(which, operands, runs, outs)


NESTED: dict[Primitive, Callable[[tuple[Any, ...], tuple[Any, ...]], Callable[..., Any]]] = {cond_p: _cond, scan_p: _scan}
"""By primitive: from the operands' avals and the params, the function that runs what the operation holds, compiled."""


def _literal(program: Program, i: int, k: int, bind_value: Callable[[Any], str]) -> str:
    """Spell a Python number: as an array of the dtype that it takes on here, which NumPy handles faster.

    Measured on 3 elements: multiply(x, 1.01) 0.33 us, multiply(x, array(1.01)) 0.22 us.
    """
    value = program.literals[~i]
    primitive, operands, _ = program.ops[k]
    ufunc = primitive.eval
    if isinstance(ufunc, np.ufunc) and type(value) in (int, float):
        kinds = tuple(program.avals[j].dtype if j >= 0 else type(program.literals[~j]) for j in operands)
        wanted = ufunc.resolve_dtypes(kinds + (None,) * ufunc.nout)[operands.index(i)]
        if wanted.kind == "f":
            return bind_value(np.asarray(value, wanted))
    if type(value) is float and not np.isfinite(value):
        return bind_value(value)
    return repr(value)


def explain(error: BaseException) -> None:
    """Add to an exception that compiled code raised the user's line of the equation that raised it."""
    traceback, found = error.__traceback__, ""
    while traceback is not None:  # the last one is the equation in the innermost of nested programs
        filename = traceback.tb_frame.f_code.co_filename
        if filename.startswith("<functrace "):
            _, mark, line = linecache.getline(filename, traceback.tb_lineno).rpartition("  # ")
            found = line.strip() if mark else found
        traceback = traceback.tb_next
    if found:
        error.add_note(f"  recorded at {found}")
