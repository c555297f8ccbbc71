"""Closed functions: those that need not be called again, since their code shows that they would do the same.

An un-jitted transform calls the user's function every time, because a function may do anything: read a global, count its
calls, print. Recording that takes most of the time of a small gradient. But the code of many functions shows that they do
nothing of the kind. When such a function has come a few times, it is recorded once without values; if nobody asks for one,
and what is recorded is what it was with values, further calls are served by the program at once, as long as nothing has
changed of what the function reads.

Note [When a function is closed]
    Its code, and that of the functions that it calls, consists of `STEPS`: it reads arguments and constants, computes, keeps
    local variables, and decides. It names nothing but NumPy's functions that can be traced, a few of Python's (`BUILTINS`),
    functions that are closed, and constants: numbers, words, dtypes, ``None``. It asks objects for nothing but `ATTRIBUTES`.
    So there is nothing that it could change, or that could change it, besides (a) its arguments: arrays, which become inputs
    of the recording, and floats that are differentiated; (b) what its names stand for: these are looked up, and compared by
    identity, at every call (`Guard`; what is recorded is a function with these, since other threads may bind them anew
    meanwhile); (c) the values of its arguments: in a recording without values who asks for one gets an exception, and the
    function is called every time, as ever. And what was recorded of the call itself, with values, on plain arrays for what
    is not differentiated, are the same operations (`alike`): plain arrays differ from traced ones in what they refuse, warn
    of, and are.
    Names for arrays, lists, objects: not closed. Nor is what is not listed here; so a new version of Python, with steps of
    other names, has fewer closed functions and no wrong ones.

Note [Who sees that a function is not called]
    A debugger does: while one traces, and inside of `functrace.disable_jit`, functions are called. So it is inside of
    recordings.

Note [How a warning is noticed]
    What warns as it is recorded would warn once, and no more. `warnings.catch_warnings` is of all threads, and lets warnings
    be shown again that have been. So a filter stands first for a while, of a category that no warning has: it is asked for
    every warning that would be shown, and raises in the thread that records.

Floor: 7.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, final

import numpy as np

from functrace.api.checks import Check, written_check
from functrace.api.eager import ENTERED
from functrace.api.record import Recorded
from functrace.caches import BYTES_PER_OP, Bounded, Kept
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.ir.program import Position
from functrace.numpy.tables import FUNCTIONS, LIKE, METHODS, ROWS
from functrace.ops.elementwise import UFUNCS
from functrace.source import hide_own_frames
from functrace.tracing.binding import is_recording
from functrace.tracing.recording import Recording
from functrace.tree import flatten, unflatten
from functrace.typing import Scalar

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

STEPS = frozenset({
    "BINARY_OP", "BINARY_SLICE", "BINARY_SUBSCR", "BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_MAP", "BUILD_SLICE",
    "BUILD_TUPLE", "CACHE", "CALL", "CALL_FUNCTION_EX", "CALL_KW", "COMPARE_OP", "CONTAINS_OP", "COPY", "COPY_FREE_VARS",
    "DELETE_FAST", "END_FOR", "EXTENDED_ARG", "FOR_ITER", "GET_ITER", "IS_OP", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "KW_NAMES", "LIST_APPEND",
    "LIST_EXTEND", "LIST_TO_TUPLE", "LOAD_ASSERTION_ERROR", "LOAD_ATTR", "LOAD_CONST", "LOAD_CONST_IMMORTAL",
    "LOAD_CONST_MORTAL", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_BORROW",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_METHOD",
    "LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_ITER", "POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE",
    "POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_TRUE", "POP_TOP", "PRECALL", "PUSH_NULL", "RAISE_VARARGS", "RESUME",
    "RETURN_CONST", "RETURN_VALUE", "STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "STORE_SLICE",
    "STORE_SUBSCR", "SWAP", "TO_BOOL", "UNARY_INVERT", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_POSITIVE", "UNPACK_EX",
    "UNPACK_SEQUENCE",
})  # fmt: skip
"""What Python's instructions in a closed function may be, of all versions from 3.11 on."""

GLOBALS, CELLS = "LOAD_GLOBAL", "LOAD_DEREF"
_ASKING = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

BUILTINS = frozenset({
    abs, all, any, bool, complex, dict, divmod, enumerate, float, int, len, list, max, min, pow, range, reversed, round,
    slice, sorted, sum, tuple, zip,
})  # fmt: skip
"""Python's functions that a closed function may call."""

ATTRIBUTES = frozenset({
    *METHODS, "T", "accumulate", "append", "at", "copy", "dtype", "extend", "get", "imag", "index", "insert", "item",
    "items", "itemsize", "keys", "kind", "mT", "ndim", "outer", "pop", "real", "reduce", "reverse", "shape", "size",
    "tolist", "values",
})  # fmt: skip
"""What a closed function may ask objects for: of arrays, ufuncs, lists and dicts, which it has made itself."""

LEFT_OUT = frozenset({
    np.empty, np.empty_like, np.may_share_memory, np.shares_memory,
    np.cross, np.fft.fftn, np.fft.ifftn, np.fft.irfftn, np.fft.rfftn, np.histogram, np.histogram2d, np.histogram_bin_edges,
    np.histogramdd, np.linalg.qr, np.polyfit,
    np.array2string, np.array_repr, np.array_str,
})  # fmt: skip
"""NumPy's functions that tell what memory holds, or shares; those that may warn as they are recorded, every time; those that
write as `numpy.set_printoptions` says."""

OF_UFUNCS = frozenset({"accumulate", "at", "outer", "reduce"})
"""What functions of NumPy's may be asked for: whatever else they have, somebody has given them."""

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis)})
_SCALARS = frozenset({np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG"})
_FUNCTIONS = frozenset({BuiltinFunctionType, FunctionType, type, type(np.sum)})

FEWEST_CALLS = 3
"""Of functions that come less often nothing is looked at."""

LARGE = 1 << 17
"""Bytes per operation: with so many a recording takes a small part of the time."""

LARGEST = 1 << 20
"""Bytes of an argument: with so many nothing is looked at."""

MOST_KNOWN = 4
"""Programs of one function and transform, for arguments of so many shapes."""

MOST_TRIES = 6
"""Recordings without values of one function and transform."""

MOST_MISSES = 64
"""Calls, one after the other, that are not like those that are known: then these are forgotten."""

_ABSENT = object()


class Read(NamedTuple):
    """A name in a function's code: where it stands, and what is asked of it at once, one after the other."""

    kind: str
    name: str
    words: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def reads_in(code: CodeType) -> tuple[Read, ...] | None:
    """Return what names a function's code reads, if it consists of nothing but `STEPS` and asks for `ATTRIBUTES`.

    Cost:
        5 us per instruction, once.
    """
    found: dict[Read, None] = {}
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    k = 0
    while k < len(steps):
        name, word = steps[k].opname, steps[k].argval
        k += 1
        if name not in STEPS or (name in _ASKING and word not in ATTRIBUTES):
            return None
        if name in (GLOBALS, CELLS):
            words: list[str] = []
            while k < len(steps) and steps[k].opname in _ASKING and not steps[k].is_jump_target:
                words.append(steps[k].argval)
                k += 1
            found[Read(name, word, tuple(words))] = None
    return tuple(found)


@final
class Guard:
    """What a closed function reads of its surroundings.

    Args:
        defaults: of its parameters.
        names: globals, with what they stand for.
        cells: what it closes over, by place.
        attributes: words that modules are asked for: the module's dict, the word, and what it stands for.
        functions: closed functions that it calls: by name, or by place where it closes over them, each with code and guard.
    """

    __slots__ = ("_attributes", "_cells", "_defaults", "_functions", "_names")

    def __init__(
        self,
        defaults: tuple[Any, ...] | None,
        names: Sequence[tuple[str, Any]],
        cells: Sequence[tuple[int, Any]],
        attributes: Sequence[tuple[dict[str, Any], str, Any]],
        functions: Sequence[tuple[str | int, CodeType, Guard]],
    ) -> None:
        self._defaults, self._names, self._cells = defaults, tuple(names), tuple(cells)
        self._attributes, self._functions = tuple(attributes), tuple(functions)

    def holds(self, f: FunctionType) -> bool:
        """Whether a function of the same code would read the same.

        Cost:
            50 ns per name.
        """
        if f.__defaults__ is not self._defaults or f.__kwdefaults__:
            return False
        namespace, closure = f.__globals__, f.__closure__
        if namespace.__class__ is not dict or f.__builtins__ is not builtins.__dict__:  # type: ignore[attr-defined]
            return False
        for name, expected in self._names:
            if namespace.get(name, _ABSENT) is not expected:
                return False
        for held, word, expected in self._attributes:
            if held.get(word, _ABSENT) is not expected:
                return False
        try:
            for place, expected in self._cells:
                if closure[place].cell_contents is not expected:  # type: ignore[index]
                    return False
            for name, code, guard in self._functions:
                g: Any = namespace.get(name) if type(name) is str else closure[name].cell_contents  # type: ignore[index]
                if g.__class__ is not FunctionType or g.__code__ is not code or not guard.holds(g):
                    return False
        except ValueError:  # a cell that is empty: the function will raise
            return False
        return True

    def frozen(self, code: CodeType) -> FunctionType:
        """Return a function of some code that reads what this knows, whatever other threads do to its surroundings."""
        namespace: dict[str, Any] = {"__builtins__": builtins}
        namespace.update([(name, value) for name, value in self._names if value is not _ABSENT])
        cells = [CellType() for _ in code.co_freevars]
        for place, value in self._cells:
            cells[place] = CellType(value)
        for name, inner, guard in self._functions:
            made = guard.frozen(inner)
            if type(name) is str:
                namespace[name] = made
            else:
                cells[name] = CellType(made)  # type: ignore[index]
        return FunctionType(code, namespace, code.co_name, self._defaults, tuple(cells))


def guard_of(f: FunctionType, inside: tuple[CodeType, ...] = ()) -> Guard | None:
    """Return the guard of a function; ``None`` if it is not closed.

    Args:
        f: the function.
        inside: the code of the functions that call it.
    """
    code = f.__code__
    reads = None if code in inside else reads_in(code)
    if reads is None or f.__kwdefaults__ or not all(map(_is_known, f.__defaults__ or ())):
        return None
    if f.__builtins__ is not builtins.__dict__ or type(f.__globals__) is not dict:  # type: ignore[attr-defined]
        return None
    names: list[tuple[str, Any]] = []
    cells: list[tuple[int, Any]] = []
    attributes: list[tuple[dict[str, Any], str, Any]] = []
    functions: list[tuple[str | int, CodeType, Guard]] = []
    for kind, name, words in reads:
        place: str | int = name
        if kind == CELLS:
            if name not in code.co_freevars:  # a variable of its own, which functions in it share
                return None
            place = code.co_freevars.index(name)
            try:
                value: Any = (f.__closure__ or ())[place].cell_contents
            except ValueError:
                return None
        else:
            value = f.__globals__.get(name, _ABSENT)
        if type(value) is FunctionType and not (words or _is_numpys(value)):
            guard = None if value.__dict__ else guard_of(value, (*inside, code))
            if guard is None:
                return None
            functions.append((place, value.__code__, guard))
            continue
        if type(place) is int:
            cells.append((place, value))
        else:
            names.append((name, value))
        if value is _ABSENT:
            attributes.append((builtins.__dict__, name, builtins.__dict__.get(name, _ABSENT)))
            value = attributes[-1][-1]
        waiting = list(words)
        while waiting and _is_listed(value):
            attributes.append((value.__dict__, waiting[0], value.__dict__.get(waiting.pop(0), _ABSENT)))
            value = attributes[-1][-1]
        allowed = ATTRIBUTES if _is_constant(value) else OF_UFUNCS
        if not (allowed.issuperset(waiting) and _is_known(value)):
            return None
    return Guard(f.__defaults__, names, cells, attributes, functions)


def _is_listed(value: object) -> TypeGuard[ModuleType]:
    """Whether something is a module that is kept anyway."""
    return type(value) is ModuleType and sys.modules.get(value.__dict__.get("__name__", "")) is value


def _is_constant(value: object) -> bool:
    parts: Any = value
    if type(value) is tuple:
        return all(map(_is_constant, parts))
    return type(value) in _PLAIN or type(value) in _SCALARS or isinstance(value, np.dtype)


def _is_known(value: object) -> bool:
    """Whether something never changes: a constant, or a function of NumPy's or Python's that a closed function may call."""
    if isinstance(value, np.ufunc):
        return value in UFUNCS and _has_nothing_to_ask_for(value)
    if _is_constant(value):
        return True
    if type(value) not in _FUNCTIONS or value in LEFT_OUT:
        return False
    return value in BUILTINS or value in _SCALARS or (_is_numpys(value) and _has_nothing_to_ask_for(value))


def _has_nothing_to_ask_for(function: object) -> bool:
    """Whether nobody has given a function `ATTRIBUTES`, which it may be asked for by another name."""
    return ATTRIBUTES.isdisjoint(getattr(function, "__dict__", ()))


def _is_numpys(value: object) -> bool:
    """Whether something is a function of NumPy's that can be traced, and has been."""
    return any(dict.__contains__(table, value) for table in (FUNCTIONS, ROWS, LIKE))


# -- calls -----------------------------------------------------------------------------------------------------------------


Take = Callable[[tuple[Any, ...]], list[Any] | None]
"""Returns the leaves of a call's arguments as values, if these are like those of another call."""

_FLOAT = ShapeDtype((), np.dtype(float))


@final
class Like:
    """What the arguments of a call are like, so that others are served as they are.

    Arrays are of the same shape, dtype and order in memory. Those that are differentiated may stand in tuples, lists and
    dicts, whose keys come in the same order: the function gets new ones with tracers, and may do with them what it likes.

    Args:
        args: the arguments.
        chosen: places of those that are differentiated.
    """

    __slots__ = ("_chosen", "_leaves", "count", "order", "specs", "take", "tree", "treedef")
    take: Take | None
    """``None`` if the function is to be called whatever it is."""

    def __init__(self, args: tuple[Any, ...], chosen: Sequence[int]) -> None:
        self.take = None
        others = [k for k in range(len(args)) if k not in chosen]
        if any(type(args[k]) is not np.ndarray for k in others):  # nobody has looked into those so far
            return
        self._leaves, self.tree = flatten(args)
        parts = [flatten(x)[0] for x in args]
        first = [sum(map(len, parts[:k])) for k in range(len(args))]
        places = [range(first[k], first[k] + len(parts[k])) for k in range(len(args))]
        self._chosen = frozenset([i for k in chosen for i in places[k]])
        self.order = [i for k in (*chosen, *others) for i in places[k]]
        """The places of the leaves, as inputs."""
        self.count = len(self._chosen)
        """How many of them are differentiated."""
        self.treedef = None
        """Of what is differentiated; ``None`` where that is leaves."""
        self.specs: list[ShapeDtype] = []
        if not all(map(self._add, range(len(self._leaves)))):
            return
        if len(args) == len(self._leaves) and all(map(operator.is_, args, self._leaves)):
            self.take = _of_leaves([(spec.shape, spec.dtype) for spec in self.specs])
        elif _is_plain(self.tree):
            self.treedef = flatten(tuple([args[k] for k in chosen]))[1]
            check = written_check(flatten((args, {}))[1], self._leaves, (args, {}))
            self.take = None if check is None else _of_nest(check)

    @property
    def leaves(self) -> list[Any]:
        """Of the arguments, as inputs."""
        return [self._leaves[i] for i in self.order]

    def _add(self, i: int) -> bool:
        """Note what a leaf is like; whether such are served."""
        x, is_chosen = self._leaves[i], i in self._chosen
        if type(x) is float and is_chosen:
            self.specs.append(_FLOAT)
        elif type(x) is np.ndarray and x.ndim and x.flags.c_contiguous and x.dtype.kind in ("f" if is_chosen else "biufc"):
            self.specs.append(aval_of(x))
        else:
            return False
        return True


def _of_leaves(specs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> Take:
    def take(args: tuple[Any, ...]) -> list[Any] | None:
        if len(args) != len(specs):
            return None
        values: list[Any] = []
        for x, (shape, dtype) in zip(args, specs, strict=True):
            if x.__class__ is np.ndarray:
                if x.dtype != dtype or x.shape != shape or not shape or not x.flags.c_contiguous:
                    return None
                values.append(x)
            elif x.__class__ is float and not shape:
                values.append(np.float64(x))
            else:
                return None
        return values

    return take


def _of_nest(check: Check) -> Take:
    def take(args: tuple[Any, ...]) -> list[Any] | None:
        values = check(args, {})
        return values if values is not None and all(x.flags.c_contiguous for x in values) else None

    return take


def _is_plain(tree: PyTreeSpec) -> bool:
    """Whether a nest consists of tuples, lists and dicts, and no classes of the user's."""
    return tree.is_leaf() or (tree.type in (tuple, list, dict, type(None)) and all(map(_is_plain, tree.children())))


class _Warning(Exception):
    """Raised in place of warnings."""

    @staticmethod
    @contextmanager
    def raised() -> Iterator[None]:
        """Raise where a warning would be shown; see Note [How a warning is noticed]."""
        thread: int | None = threading.get_ident()

        class Asked(type):
            def __subclasscheck__(cls, category: type) -> bool:
                if threading.get_ident() == thread:
                    raise _Warning
                return False

        entry: Any = ("ignore", None, Asked("Never", (Warning,), {}), None, 0)
        filters: Any = warnings.filters
        filters.insert(0, entry)
        try:
            yield
        finally:
            thread = None  # whoever has copied the filters meanwhile keeps one that asks nobody
            if entry in filters:  # nobody has emptied it
                filters.remove(entry)


def recorded_without_values(
    recording: Recording, f: FunctionType, like: Like, wanted: Callable[[Recording, Any], Sequence[Any]]
) -> Recorded | None:
    """Record a call of a closed function on inputs without values.

    Returns:
        ``None`` where the function is to be called every time: if it asks for values, or raises; if an operation may fail on
        values, since that is then told where it stands; for operations that hold programs; if it writes into an argument
        that is not differentiated, which it may not where that is large; for large arrays.
    """
    inputs = {i: recording.new_input(like.specs[i]) for i in like.order}
    args = unflatten(like.tree, [inputs[i] for i in sorted(inputs)])
    try:
        with np.errstate(all="raise"), _Warning.raised():  # of what is computed without inputs, which warns every time
            call = Recorded(recording, f, lambda _: (args, {}), wanted=wanted)
    except Exception:  # whatever it is, the call that follows will raise it if it is due
        return None
    if [inputs[i]._id for i in like.order[like.count :]] != recording.inputs[like.count :]:
        return None
    if sum([aval.nbytes for aval in recording.avals]) > LARGE * len(recording.avals):
        return None
    for primitive, operands, params in recording.columns:
        if primitive.holds is not None or primitive.kept is not None:
            return None
        if primitive.fails is not None and primitive.fails(*map(recording.spec, operands), *params):
            return None
    return call


def alike(recorded: Recorded, called: Recorded, plain: dict[int, Any]) -> bool:
    """Whether a call without values, and one as it is otherwise, were recorded as the same operations on the same values.

    Args:
        recorded: the call without values.
        called: the other one; its inputs are the first ones of ``recorded``.
        plain: the values of all other inputs of ``recorded``; those of views of them are added.
    """
    a, b = recorded.recording, called.recording
    if any(x.held or x.inner or x.lent or x.answers for x in (a, b)):
        return False
    if not (plain or a.constants or b.constants):  # the common case, quickly
        tapes = [(x.primitives, x.operands, x.params, x.avals) for x in (a, b)]
        return tapes[0] == tapes[1] and recorded.outputs == called.outputs and all(map(_is_number, a.literals, b.literals))
    for k, (primitive, operands, params) in enumerate(a.columns):
        read = [i for i in operands if i >= 0 and i not in a.constants]
        if primitive in (INPUT, CONSTANT) or (read and not plain.keys() >= set(read)):
            continue
        if not (read and primitive.view and len(operands) == 1):
            return False
        plain[k] = primitive.eval(plain[operands[0]], *params)
    values = {**a.constants, **plain}
    rows = [k for k, primitive in enumerate(a.primitives) if primitive not in (INPUT, CONSTANT) and k not in plain]
    same = dict(zip(b.inputs, a.inputs, strict=False))

    def is_same(i: int, k: int) -> bool:
        if i < 0 or k < 0:
            return i < 0 and k < 0 and _is_number(a.literals[~i], b.literals[~k])
        return i in values and _is_equal(values[i], b.constants[k]) if k in b.constants else same.get(k) == i

    others = [k for k, primitive in enumerate(b.primitives) if primitive not in (INPUT, CONSTANT)]
    if len(rows) != len(others):
        return False
    for i, k in zip(rows, others, strict=True):
        if a.primitives[i] is not b.primitives[k] or a.params[i] != b.params[k] or a.avals[i] != b.avals[k]:
            return False
        if len(a.operands[i]) != len(b.operands[k]) or not all(map(is_same, a.operands[i], b.operands[k])):
            return False
        same[k] = i
    return all(map(is_same, recorded.outputs, called.outputs))


def _is_number(x: Scalar, y: Scalar) -> bool:
    return x is y or (type(x) is type(y) and _is_equal(x, y))


def _is_equal(x: object, y: object) -> bool:
    a, b = np.asarray(x), np.asarray(y)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@final
class Known:
    """What serves the calls of a closed function whose arguments are like some.

    Args:
        guard: of the function.
        like: what the arguments are like.
        run: what runs.
        more: its further arguments.
        lines: the user's lines.
    """

    __slots__ = ("_guard", "_lines", "_more", "_order", "_run", "_take", "treedef")

    def __init__(
        self,
        guard: Guard,
        like: Like,
        run: Callable[[Sequence[Any], Sequence[Position]], Sequence[Any]],
        more: Sequence[Any],
        lines: Sequence[Position],
    ) -> None:
        assert like.take is not None
        self._guard, self._take, self.treedef = guard, like.take, like.treedef
        self._order = None if like.order == sorted(like.order) else tuple(like.order)
        self._run, self._more, self._lines = run, tuple(more), tuple(lines)

    @property
    def nbytes(self) -> int:
        """Estimated bytes held, if nobody else holds the program."""
        return BYTES_PER_OP * len(self._lines) + sum([x.nbytes for x in self._more if isinstance(x, np.ndarray)])

    def run(self, f: FunctionType, args: tuple[Any, ...]) -> Sequence[Any] | None:
        """Return the results for a call; ``None`` if it is not like those."""
        values = self._take(args)
        if values is None or not self._guard.holds(f):
            return None
        if self._order is not None:
            values = [values[i] for i in self._order]
        try:
            return self._run([*values, *self._more], self._lines)
        except BaseException as error:
            hide_own_frames(error)
            raise


Proof = tuple[Known, bool] | None
"""What would serve calls, and whether it is what a call that was recorded has run; ``None`` if calls cannot be served."""


@final
class Seen(Kept):
    """A function's code under a transform: how often it was called, and what serves its calls if it is closed.

    Args:
        code: the function's.
    """

    __slots__ = ("_calls", "_candidate", "_code", "_known", "_missed", "_tries")

    def __init__(self, code: CodeType) -> None:
        super().__init__(BYTES_PER_OP)
        self._code = code
        self._calls = self._tries = self._missed = 0
        self._known: tuple[Known, ...] = ()
        self._candidate: Known | None = None
        """What is to prove itself on the next call."""

    def results(self, f: FunctionType, args: tuple[Any, ...]) -> tuple[Sequence[Any], PyTreeSpec | None] | None:
        """Return the results of a call, if it need not be recorded, and the structure of what is differentiated."""
        if not self._known or self._code is not f.__code__:
            return None
        for known in self._known:
            results = known.run(f, args)
            if results is not None:
                self._missed = 0
                return results, known.treedef
        self._missed += 1
        if self._missed == MOST_MISSES:
            self._known, self._missed = (), 0
            SEEN.resize(self, BYTES_PER_OP)
        return None

    def came(self, f: FunctionType, args: tuple[Any, ...], results: Sequence[Any], record: Callable[[Guard], Proof]) -> None:
        """Take note of a call that was recorded; if it is the third one, see whether such calls can be served.

        What would serve them, and is not what has run, gives the same results for the next call, or is not kept. (For the
        next one, since no call is to take longer than the first.)

        Args:
            f: the function.
            args: its arguments.
            results: of what has run.
            record: records the call without values.
        """
        if self._code is not f.__code__:
            return
        if self._candidate is not None:
            self._prove(self._candidate, f, args, results)
            return
        self._calls += 1
        if self._calls < FEWEST_CALLS or self._tries == MOST_TRIES or len(self._known) == MOST_KNOWN:
            return
        if any(type(x) is np.ndarray and x.nbytes >= LARGEST for x in args):
            return
        self._calls, self._tries = 0, self._tries + 1
        guard = guard_of(f)
        found = None if guard is None else record(guard)
        if found is None:
            return
        known, has_run = found
        if has_run:
            self._keep(known)
        else:
            self._candidate = known

    def _prove(self, known: Known, f: FunctionType, args: tuple[Any, ...], results: Sequence[Any]) -> None:
        try:
            with np.errstate(all="ignore"), _Warning.raised():  # what there is to warn of has been said
                again = known.run(f, args)
        except Exception:  # it is not what a call is
            self._candidate = None
            return
        if again is not None:
            self._candidate = None
            if all(map(_are_the_same, results, again)):
                self._keep(known)

    def _keep(self, known: Known) -> None:
        self._known = (*self._known, known)
        SEEN.resize(self, self.nbytes + known.nbytes)


def _are_the_same(a: Any, b: Any) -> bool:
    x, y = ((type(z), z.dtype, z.shape, z.strides, z.tobytes("A")) for z in (a, b))
    return x == y


SEEN: Bounded[Seen] = Bounded("calls of functions that need not be recorded", 32 << 20, 1 << 14)
"""By identity of their code, and by transform."""


def seen(f: FunctionType, *transform: Hashable) -> Seen | None:
    """Return what is known of a function's calls under a transform; ``None`` where somebody looks at them."""
    if is_looked_at():
        return None
    key = (id(f.__code__), *transform)
    found = SEEN.entries.get(key)
    if found is None:
        found = Seen(f.__code__)
        SEEN.add(key, found)
    else:
        found.used = SEEN.tick()
    return found


def is_looked_at() -> bool:
    """Whether functions are to be called whatever is known of them; see Note [Who sees that a function is not called]."""
    return bool(ENTERED) or bool(_debugger()) or is_recording()


def _debuggers() -> Callable[[], object]:
    """Python's debuggers ask to be called at every line; from 3.12 on there are others, too."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return sys.gettrace
    return lambda: sys.gettrace() or monitoring.get_tool(monitoring.DEBUGGER_ID)


_debugger = _debuggers()
