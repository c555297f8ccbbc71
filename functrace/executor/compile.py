"""Straight-line Python over bound NumPy functions: the compiled form of a program.

One statement per equation; a variable's local name is reused or deleted at its last use, so that arrays die as early as
they can, or take up the result that replaces them (executor/reuse.py). Results are always fresh arrays: an output that is,
or may be a view of, an argument, a constant or another output is copied.

Floor: 6.
"""

from __future__ import annotations

import itertools
import linecache
import math
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from time import perf_counter
from typing import Any, final

import numpy as np

from functrace.control.call import inline
from functrace.control.cond import choose, cond_p, mapped_branch
from functrace.control.scan import run_scan, scan_p
from functrace.executor.cache import collector_paused, holds
from functrace.executor.kernels import KERNELS
from functrace.executor.reuse import Buffers
from functrace.ir.parts import output_avals
from functrace.ir.primitive import Primitive
from functrace.ir.program import Position, Program
from functrace.ir.tape import Op
from functrace.passes import compute_late, drop_unused, finished, fold_constants, folding
from functrace.source import GENERATED_FILES, hide_own_frames, printable
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.lines import (
    DEFAULT_MODES,
    GENERATED,
    LINES,
    NAMING_MODES,
    Now,
    current_modes,
    name_warnings,
    raised_in,
    reset_modes,
    set_modes,
    stop_naming,
)
from functrace.tracing.recording import Tracer
from functrace.transforms.given import without_given

LONGEST_COMPILED = 20_000
"""Programs with more equations than this stay with the evaluator: Python's compiler would take seconds."""

_numbers = itertools.count()


@final
class Runner:
    """Runs one program: interpreted, until the time that this takes has earned a compilation.

    Note [No call is slower than the first]
        Compiling takes 20 us per equation, the first call of a gradient 6. So it is done in steps of about 3 us per
        equation, at most one per call, and only while the seconds spent on it are fewer than those spent interpreting: a
        program costs at most twice what it would without compilation. Until the last step is done, calls interpret.

    Args:
        program: the program; its inputs are the arguments.
    """

    __slots__ = ("_compiled", "_compiling", "_flat", "_folded", "_interpreted", "_invested", "_turn", "program")

    def __init__(self, program: Program) -> None:
        self.program = without_given(program)
        self._compiled: Callable[..., Any] | None = None
        self._compiling: Generator[None, None, Callable[..., Any]] | None = None
        self._flat: Program | None = None
        self._folded: Program | None = None
        self._interpreted = self._invested = 0.0  # seconds
        self._turn = threading.Lock()

    @property
    def folded(self) -> Program:
        """The program with constants folded: what is recorded into an outer program, with its calls as they are."""
        folded = self._folded
        if folded is None:
            folded = self._folded = fold_constants(self.program)
        return folded

    @property
    def flat(self) -> Program:
        """The program with its calls in line: what runs."""
        flat = self._flat
        if flat is None:
            flat = self._flat = compute_late(drop_unused(inline(self.program, stands_for)))
        return flat

    def __reduce__(self) -> Any:
        """Copy and pickle as the program: what has been compiled is compiled again where it is needed."""
        return Runner, (self.program,)

    def __call__(self, arguments: Sequence[Any], lines: Sequence[Position] = ()) -> Sequence[Any]:
        """Run on flat arguments (arrays or traced values); returns the flat outputs, fresh arrays.

        Args:
            arguments: one per input.
            lines: positions of the recording that a cached program runs for; see Note [Positions in cached programs].
        """
        for value in arguments:
            if isinstance(value, Tracer):
                return _fresh_handles(evaluate_program(self.folded, arguments, lines))
        compiled = self._compiled
        if compiled is None:
            compiled = self._advanced() if self._interpreted > self._invested else None
            if compiled is None:
                begin = perf_counter()
                results = self._interpret(arguments, lines)
                self._interpreted += perf_counter() - begin
                return results
        return run_compiled(compiled, arguments, lines)

    def compile(self) -> Callable[..., tuple[Any, ...]]:
        """Compile now, at once; returns the function of the arguments."""
        if self._compiled is None:
            self._take(compile_program(fold_constants(self.flat)))
        return self._compiled  # type: ignore[return-value]

    def _advanced(self) -> Callable[..., Any] | None:
        """Take one step of the compilation; returns the function, if that was the last."""
        if not self._turn.acquire(blocking=False):
            return None  # another thread is at it
        begin = perf_counter()
        try:
            if self._compiling is None:
                self._compiling = compiling(self.flat)
            with collector_paused():
                next(self._compiling)
        except StopIteration as end:
            self._take(end.value)
        except BaseException:
            self._compiling = None
            raise
        finally:
            self._invested += perf_counter() - begin
            self._turn.release()
        return self._compiled

    def _take(self, compiled: Callable[..., Any]) -> None:
        self._compiled = compiled
        self._compiling = self._flat = self._folded = None  # made again if ever needed

    def _interpret(self, arguments: Sequence[Any], lines: Sequence[Position]) -> Sequence[Any]:
        program = self.flat
        results = evaluate_program(program, arguments, lines)
        return [
            value.copy("K") if shared and not isinstance(value, Tracer) else value
            for shared, value in zip(program.aliasing, results, strict=True)
        ]


def run_compiled(
    compiled: Callable[..., Sequence[Any]], arguments: Sequence[Any], lines: Sequence[Position] = ()
) -> Sequence[Any]:
    """Run a compiled program; warnings and exceptions name the user's line (``lines``: see `Runner`)."""
    is_default = current_modes() is DEFAULT_MODES  # `name_warnings`, in line: 0.2 us of 4
    named = set_modes(NAMING_MODES) if is_default else name_warnings()
    try:
        return compiled(*arguments)
    except Exception as error:
        source = raised_in(error.__traceback__, lines)
        if source is not None:
            error.add_note(f"  recorded at {source}")
        hide_own_frames(error)
        raise
    finally:
        if is_default:
            reset_modes(named)
        else:
            stop_naming(named)


LINES.add(run_compiled.__code__)


def stands_for(op: Op) -> Program | None:
    """Choose what runs in line: calls, and functions that bring their derivative."""
    primitive, _, params = op
    return primitive.holds.stands_for(*params) if primitive.holds is not None and primitive.holds.stands_for else None


def _fresh_handles(results: list[Any]) -> list[Any]:
    """Give every traced result a handle of its own, so that in-place changes of one do not reach another."""
    return [r._recording.handle(r._id) if isinstance(r, Tracer) else np.copy(r) for r in results]


def compile_program(program: Program, *, size: int | None = None, fresh: bool = True) -> Callable[..., tuple[Any, ...]]:
    """Compile a program to a Python function of its inputs, which returns a tuple of outputs.

    Args:
        program: a program without calls.
        size: how many equations stand in one Python function; by default all.
        fresh: whether no output may share memory with an argument, a constant or another output.
    """
    return finished(_compiling_pieces(program, size or len(program.ops) + 1, fresh))


def generate(program: Program, *, fresh: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the source of the compiled form, and the values that its names are bound to."""
    writer = _Writer(program, len(program.ops) + 1)
    return finished(writer.piece(0, fresh)), writer.bound


FEWEST_IN_PIECE = 32
"""Equations: shorter programs are compiled in one piece."""


def compiling(program: Program) -> Generator[None, None, Callable[..., tuple[Any, ...]]]:
    """Fold and compile a program without calls, in steps; see Note [No call is slower than the first]."""
    count = _equations(program)
    folded = yield from folding(program, max(FEWEST_IN_PIECE, -(-count // 3)))
    yield
    return (yield from _compiling_pieces(folded, max(FEWEST_IN_PIECE, -(-count // 6)), fresh=True))


def _equations(program: Program) -> int:
    """How many equations a program has, those of loops and choices in it counted."""
    count = len(program.schedule)
    for k, _ in program.schedule:
        if program.ops[k][0] in NESTED:
            held = program.ops[k][2][0]
            count += sum(_equations(body) for body in (held if isinstance(held, tuple) else (held,)))
    return count


def _compiling_pieces(program: Program, size: int, fresh: bool) -> Generator[None, None, Callable[..., tuple[Any, ...]]]:
    """Compile a program in pieces of ``size`` equations, each a Python function of its own; yields between steps."""
    writer = _Writer(program, size)
    pieces = []
    for number in range(writer.count):
        source = yield from writer.piece(number, fresh)
        yield
        pieces.append(_defined(program.name, source, writer))
        if number + 1 < writer.count:
            yield
    if writer.count == 1:
        return pieces[0]
    *before, last = pieces
    width = len(program.input_ids)
    rest = [None] * (len(writer.places) - width)

    def run(*arguments: Any) -> tuple[Any, ...]:
        handed = [*arguments, *rest]
        for piece in before:
            piece(handed)
        return last(handed)

    return run


def _defined(name: str, source: str, writer: _Writer) -> Callable[..., Any]:
    """Return the function ``run`` that a source, the last one that was written, defines."""
    filename = f"{GENERATED_FILES}{printable(name)} {next(_numbers)}>"
    bound = writer.bound
    exec(compile(source, filename, "exec"), bound)
    function = bound.pop("run")
    bound.setdefault(GENERATED, {})[filename] = writer.operations
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)  # for tracebacks
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function


@final
class _Writer:
    """Writes a program as Python functions: one, or several pieces that hand values over in a list.

    Args:
        program: a program without calls.
        size: how many equations a piece has.
    """

    def __init__(self, program: Program, size: int) -> None:
        self.program = program
        self.size = size
        self.count = max(1, -(-len(program.schedule) // size))
        self.bound: dict[str, Any] = {}
        self._names_of_values: dict[int, str] = {}
        self._free: list[str] = []
        self._numbers = itertools.count()
        self._buffers = Buffers(program)
        self.operations: dict[int, Now] = {}
        """By line of the piece that was written last: what it carries out."""
        self._names = {i: f"x{i}" for i in program.input_ids}
        for i, value in program.constant_values.items():
            self._names[i] = self._bind_value(value)
        self.places: dict[int, int] = {i: k for k, i in enumerate(program.input_ids)}
        """By variable: where in the list it is handed over."""
        self._taken: list[dict[int, bool]] = [{} for _ in range(self.count)]
        """By piece: the variables that it takes from the list, and whether they die in it."""
        if self.count > 1:
            self._plan()

    def _plan(self) -> None:
        """Find out which variables are read in a later piece than that which computes them."""
        program, size, last = self.program, self.size, self.count - 1
        homes: dict[int, int] = dict.fromkeys(program.input_ids, -1)

        def read(i: int, number: int) -> None:
            if i in homes and homes[i] != number:
                self.places.setdefault(i, len(self.places))
                self._taken[number].setdefault(i, False)

        for place, (k, dying) in enumerate(program.schedule):
            number = place // size
            for i in program.ops[k][1]:
                read(i, number)
            for i in dying:
                if i in self._taken[number]:
                    self._taken[number][i] = True
            for j in range(program.result_count(k) if program.ops[k][0].many else 1):
                homes[k + j] = number
        for i in program.output_ids:
            read(i, last)

    def piece(self, number: int, fresh: bool) -> Generator[None, None, str]:
        """Write one piece; yields where an operation holds programs that have to be compiled."""
        program, names, single = self.program, self._names, self.count == 1
        taken = self._taken[number]
        self._free = []
        names.update({i: f"x{i}" for i in taken})
        lines = [f"def run({', '.join(names[i] for i in program.input_ids) if single else 'handed'}):"]
        lines += [f"    {names[i]} = handed[{self.places[i]}]" for i in taken]
        lines += [f"    handed[{self.places[i]}] = None" for i, dies in taken.items() if dies]
        first = number * self.size
        made: list[int] = []
        self.operations = {}
        for k, dying in program.schedule[first : first + self.size]:
            position = program.positions[k] if k < len(program.positions) else None
            self.operations[len(lines) + 1] = Now(program.ops[k][0], position)
            lines += yield from self._statements(k, dying)
            made.extend(range(k, k + program.result_count(k)) if program.ops[k][0].many else (k,))
        if number + 1 < self.count:
            lines += [f"    handed[{self.places[i]}] = {names[i]}" for i in made if i in self.places]
            if len(lines) == 1:
                lines.append("    pass")
        else:
            outs = [
                f"{names[i]}.copy('K')" if shared and fresh and not self._buffers.is_exclusive(i) else names[i]
                for i, shared in zip(program.output_ids, program.aliasing, strict=True)
            ]
            lines.append(f"    return ({', '.join(outs)}{',' if outs else ''})")
        return "\n".join(lines) + "\n"

    def _statements(self, k: int, dying: tuple[int, ...]) -> Generator[None, None, list[str]]:
        """Write one operation, and the end of what dies there."""
        program, names, bind_value = self.program, self._names, self._bind_value
        primitive, operands, params = program.ops[k]
        arguments = tuple([names[i] if i >= 0 else _literal(program, i, k, bind_value) for i in operands])
        kernel = KERNELS.get(primitive)
        nested = NESTED.get(primitive)
        target = self._buffers.step(k, dying, escapes=nested is not None or primitive.effects)
        if target is not None:
            word = "out=" if primitive.eval in (np.maximum, np.minimum) else ""  # 0.03 us dearer; these two insist on it
            arguments = (*arguments, word + names[target])
        if nested is not None:
            run = yield from nested(tuple([program.avals[i] for i in operands]), params, self.size)
            expression = f"{bind_value(run)}({', '.join(arguments)})"
        elif kernel is not None:
            expression = kernel(arguments, params, bind_value)
        else:
            static = tuple([bind_value(p) for p in params])
            expression = f"{bind_value(primitive.eval)}({', '.join((*arguments, *static))})"
        dead = [names[i] for i in dying if not names[i].startswith("k")]
        if target is not None:
            dead.remove(names[target])
        free = self._free
        free.extend(dead)
        results = range(k, k + program.result_count(k)) if primitive.many else (k,)
        for j in results:
            names[j] = names[target] if target is not None else free.pop() if free else f"v{next(self._numbers)}"
        made = [names[j] for j in results]
        left = ", ".join(made) + ("," if primitive.many else "")
        unused = [d for d in dead if d not in made]
        lines = [f"    {left} = {expression}"]
        if unused:
            lines.append(f"    del {', '.join(dict.fromkeys(unused))}")
        return lines

    def _bind_value(self, value: Any) -> str:
        found = self._names_of_values.get(id(value))
        if found is None:
            found = self._names_of_values[id(value)] = f"k{len(self.bound)}"
            self.bound[found] = value
        return found


# -- programs inside programs ----------------------------------------------------------------------------------------------


Compiling = Generator[None, None, Callable[..., Any]]


def _compiling_body(program: Program, size: int, *, fresh: bool) -> Compiling:
    folded = yield from folding(drop_unused(inline(program, stands_for)), size)
    return (yield from _compiling_pieces(folded, size, fresh))


def _scan(avals: tuple[Any, ...], params: tuple[Any, ...], size: int) -> Compiling:
    body, length, reverse, constants, carries = params
    step = yield from _compiling_body(body, size, fresh=False)
    outs = output_avals(body)
    return lambda *operands: run_scan(step, outs, operands, length, reverse, constants, carries)


def _cond(avals: tuple[Any, ...], params: tuple[Any, ...], size: int) -> Compiling:
    branches, batched = params
    mapped = branches if not batched else [mapped_branch(branch, avals[0].shape[0], batched) for branch in branches]
    runs = []
    for branch in mapped:
        runs.append((yield from _compiling_body(branch, size, fresh=not batched)))
    last = len(runs) - 1
    if not batched:
        return lambda which, *operands: runs[min(max(int(which), 0), last)](*operands)
    outs = output_avals(mapped[0])
    return lambda which, *operands: choose(which, operands, runs, outs)


NESTED: dict[Primitive, Callable[[tuple[Any, ...], tuple[Any, ...], int], Compiling]] = {cond_p: _cond, scan_p: _scan}
"""By primitive: from the operands' avals and the params, the function that runs what the operation holds, compiled."""


def _literal(program: Program, i: int, k: int, bind_value: Callable[[Any], str]) -> str:
    """Spell a Python number: as an array of the dtype that it takes on here, which NumPy handles faster.

    Measured on 3 elements: multiply(x, 1.01) 0.33 us, multiply(x, array(1.01)) 0.22 us.
    """
    value = program.literals[~i]
    kind = type(value)
    primitive, operands, _ = program.ops[k]
    ufunc = primitive.eval
    kinds = tuple([program.avals[j].dtype if j >= 0 else type(program.literals[~j]) for j in operands])
    if isinstance(ufunc, np.ufunc) and kind in (int, float) and bool not in kinds:
        wanted = ufunc.resolve_dtypes(kinds + (None,) * ufunc.nout)[operands.index(i)]
        if wanted.kind == "f" and holds(wanted, value):
            return bind_value(np.asarray(value, wanted))
    if kind is bool or (kind is int and abs(value) < 1 << 63) or (kind is float and math.isfinite(value)):
        return repr(value)
    return bind_value(value)  # the repr of 1-0j is 1+0j, inf is a name, and an int may be too long to be read
