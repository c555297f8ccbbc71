"""The checks of each random program, and their expected results: the variants.

A variant calls `Case.check` for every call through functrace, with what plain NumPy gives. A
difference, or an exception that is neither NumPy's nor functrace's own, raises `Failed`; errors of
functrace are counted.
"""

from __future__ import annotations

import linecache
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

import functrace as ft
from functrace.errors import FunctraceError
from tests.fuzz.generate import Program, evaluated
from tests.fuzz.plain import Plain, copied, stacked

Result = Any


class Failed(Exception):
    """A difference, or an exception that should not be."""

    def __init__(self, what: str, label: str, detail: str) -> None:
        super().__init__(f"{what} [{label}]: {detail}")
        self.what, self.label = what, label
        self.detail = detail

    @property
    def head(self) -> str:
        """The key that groups equal failures."""
        return (
            f"{self.what}: {self.detail[:60]}"
            if self.what.startswith(("raw", "numpy"))
            else self.what
        )


@final
class Raised:
    """An exception as a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def message_head(error: BaseException) -> str:
    """The first words of a message, without what differs from program to program."""
    first = str(error).split("\n")[0]
    first = re.sub(r"\b[a-z]+\d*\[[^\]]*\]", "aval", first)
    first = re.sub(r"\b[vpfi]\d+\b", "v", re.sub(r"-?\b\d+\b", "#", first))
    return f"{type(error).__name__}: {first[:90]}"


PICKING = re.compile(r"m(in|ax)|clip|sort|median|quantile|percentile|partition|unique")
"""Functions that select among their operands: NumPy does not specify the choice between 0.0 and
-0.0 (it depends on their place in memory).
"""


def program_text(source: str) -> str:
    """The function alone."""
    return source[source.index("    def f(") :]


@final
class Case:
    """A program, compiled, with its oracle and the counts of what happened."""

    def __init__(self, program: Program, counts: Counter[str]) -> None:
        self.program, self.counts = program, counts
        source = program.source()
        name = f"<program {program.kind} {program.seed}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        self.file = name
        namespace: dict[str, Any] = {}
        exec(compile(source, name, "exec"), namespace)
        self.make: Callable[..., Callable[..., Any]] = namespace["make"]
        self.picks = bool(PICKING.search(program_text(source)))
        self._known: dict[Any, Any] = {}

    def close(self) -> None:
        linecache.cache.pop(self.file, None)

    # -- what a program is called with -----------------------------------------------------------

    def args(self, k: int) -> list[Any]:
        """New arrays of a set of values."""
        return [evaluated(text) for text in self.program.arrays[k]]

    def closed(self, k: int) -> list[Any]:
        return [evaluated(text) for text in self.program.closed[k]]

    def literals(self, k: int) -> list[Any]:
        return [evaluated(text) for text in self.program.literals[k]]

    def traced(self, k: int, literals: int | None = None) -> Callable[..., Any]:
        """The program through functrace, as a function of its arrays."""
        f, numbers = (
            self.make(np, ft, self.closed(k)),
            self.literals(k if literals is None else literals),
        )
        return lambda *args: f(*args, numbers)

    def plain(self, k: int, literals: int | None = None) -> Callable[..., Any]:
        """The program in plain NumPy."""
        f, numbers = (
            self.make(np, Plain(), self.closed(k)),
            self.literals(k if literals is None else literals),
        )
        return lambda *args: f(*args, numbers)

    def expected(self, k: int, literals: int | None = None) -> Result:
        """The result of plain NumPy; `Raised` if it raises."""
        key = (k, k if literals is None else literals)
        if key not in self._known:
            self._known[key] = attempted(lambda: copied(self.plain(*key)(*self.args(k))))
        return self._known[key]

    # -- checks ----------------------------------------------------------------------------------

    def check(
        self, label: str, run: Callable[[], Any], expected: Result, args: Sequence[Any] = (), *,
        rtol: float = 1e-9, atol: float = 0.0, exact: bool = True,
    ) -> Any:  # fmt: skip
        """Compare a call with what is expected; ``args`` must be as before, and must not be shared
        with results.
        """
        before = [
            (x.tobytes(), x.flags.writeable, x.strides) for x in args if isinstance(x, np.ndarray)
        ]
        got = attempted(run)
        self.counts["variants"] += 1
        if [
            (x.tobytes(), x.flags.writeable, x.strides) for x in args if isinstance(x, np.ndarray)
        ] != before:
            raise Failed("caller's array changed", label, "an argument is not as it was")
        if isinstance(got, Raised):
            return self._raised(label, got.error, expected)
        if isinstance(expected, Raised):
            self.counts["lenient"] += 1
            self.counts["lenient: " + message_head(expected.error)] += 1
            if isinstance(
                expected.error, ValueError | TypeError | IndexError | np.linalg.LinAlgError
            ):
                raise Failed("numpy raises, functrace does not", label, repr(expected.error)[:200])
            return got
        exact = exact and not self.picks
        problem = difference(got, expected, rtol=rtol, atol=atol, exact=exact)
        if problem:
            raise Failed("different", label, problem)
        leaves = [leaf for leaf in ft.tree.flatten(got)[0] if isinstance(leaf, np.ndarray)]
        for leaf in leaves:
            if any(
                isinstance(x, np.ndarray)
                and np.may_share_memory(leaf, x)
                and np.shares_memory(leaf, x)
                for x in args
            ):
                raise Failed("result aliases an argument", label, "")
        self.counts["equal"] += 1
        return got

    def _raised(self, label: str, error: BaseException, expected: Result) -> None:
        if isinstance(error, FunctraceError):
            if isinstance(expected, Raised):
                self.counts["equal"] += 1
                return
            self.counts["raised"] += 1
            self.counts["raised: " + message_head(error)] += 1
            return
        if isinstance(expected, Raised) and isinstance(error, type(expected.error)):
            self.counts["equal"] += 1
            return
        if not _inside(error):
            self.counts["raised"] += 1
            self.counts["raised: " + message_head(error)] += 1
            return
        text = f"{type(error).__name__}: {str(error)[:300]} at {_place(error)}"
        raise Failed("raw exception", label, text) from error


def _frames(error: BaseException) -> list[Any]:
    found, traceback = [], error.__traceback__
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def _inside(error: BaseException) -> bool:
    """Return True if an exception's innermost frame is functrace's, not the program's."""
    return not _frames(error)[-1].tb_frame.f_code.co_filename.startswith("<program")


def _place(error: BaseException) -> str:
    last = [t for t in _frames(error) if "functrace/" in t.tb_frame.f_code.co_filename][-1:]
    return " ".join(
        f"{t.tb_frame.f_code.co_filename.split('functrace/')[-1]}:{t.tb_lineno}" for t in last
    )


def attempted(run: Callable[[], Any]) -> Any:
    """The result, or the exception that it ended with."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return run()
    except Exception as error:
        return Raised(error)


COARSE = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4}
"""Tolerances of dtypes with few digits."""


def difference(got: Any, expected: Any, *, rtol: float, atol: float, exact: bool) -> str:
    """Describe the first difference between two pytrees; empty if there is none."""
    leaves, treedef = ft.tree.flatten(got)
    others, tree = ft.tree.flatten(expected)
    if treedef != tree:
        return f"nest {treedef} instead of {tree}"
    for k, (a, b) in enumerate(zip(leaves, others)):
        if type(a).__module__.startswith("functrace"):
            return f"leaf {k} is a dead {type(a).__name__}"
        x, y = np.asarray(a), np.asarray(b)
        if x.shape != y.shape:
            return f"leaf {k}: shape {x.shape} instead of {y.shape}"
        if x.dtype != y.dtype:
            return f"leaf {k}: dtype {x.dtype} instead of {y.dtype}"
        if x.dtype.kind in "fc":
            tolerance = max(rtol, COARSE.get(x.dtype.name, 0.0))
            with np.errstate(all="ignore"):
                scale = float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0))
                scale = scale if np.isfinite(scale) else 0.0
                close = np.isclose(
                    x, y, rtol=tolerance, atol=tolerance * min(scale, 1e6) + atol, equal_nan=True
                )
            if not np.all(close):
                return f"leaf {k}: {a!r} instead of {b!r}"
            if exact and np.any((x == 0) & (y == 0) & (_signs(x) != _signs(y))):
                return f"leaf {k}: sign of zero: {a!r} instead of {b!r}"
        elif not np.array_equal(x, y):
            return f"leaf {k}: {a!r} instead of {b!r}"
    return ""


def _signs(x: np.ndarray[Any, Any]) -> Any:
    return np.signbit(x.real) + 2 * np.signbit(x.imag) if x.dtype.kind == "c" else np.signbit(x)


# -- values ----------------------------------------------------------------------------------------


def _spoil(tree: Any) -> None:
    """Overwrite results: they belong to the caller, and no later call may see it."""
    for leaf in ft.tree.flatten(tree)[0]:
        if isinstance(leaf, np.ndarray) and leaf.flags.writeable:
            leaf[...] = 1


ORDER = ((0, 0), (0, 0), (1, 1), (0, 2), (2, 0))
"""Sets of values and literals by call: the same again, all others, others of each."""


def _differentiable(case: Case, k: int) -> list[int]:
    return [i for i, x in enumerate(case.args(k)) if x.dtype.kind in "fc"]


def _partial(case: Case, k: int, literals: int, wrt: list[int]) -> Callable[..., Any]:
    """The program as a function of some arguments; the others are plain arrays."""
    f = case.traced(k, literals)

    def partial(*some: Any) -> Any:
        whole = case.args(k)
        for i, x in zip(wrt, some):
            whole[i] = x
        return f(*whole)

    return partial


def _chosen(case: Case, k: int) -> tuple[list[int], list[Any]]:
    wrt = _differentiable(case, k)
    args = case.args(k)
    return wrt, [args[i] for i in wrt]


def vjp_value(case: Case) -> None:
    for k, j in ORDER:
        wrt, xs = _chosen(case, k)
        if wrt:
            _spoil(
                case.check(
                    f"vjp {k}{j}",
                    lambda: ft.vjp(_partial(case, k, j, wrt), *xs)[0],
                    case.expected(k, j),
                    xs,
                )
            )


def jvp_value(case: Case) -> None:
    for k, j in ORDER:
        wrt, xs = _chosen(case, k)
        if wrt:
            run = lambda: ft.jvp(
                _partial(case, k, j, wrt), tuple(xs), tuple(np.ones_like(x) for x in xs)
            )[0]
            _spoil(case.check(f"jvp {k}{j}", run, case.expected(k, j), xs))


def linearize_value(case: Case) -> None:
    for k, j in ORDER[:3]:
        wrt, xs = _chosen(case, k)
        if wrt:
            _spoil(
                case.check(
                    f"linearize {k}{j}",
                    lambda: ft.linearize(_partial(case, k, j, wrt), *xs)[0],
                    case.expected(k, j),
                    xs,
                )
            )


def jit_value(case: Case) -> None:
    """Staged once per set of literals, called again and again with other values."""
    for j in range(2):
        jitted = ft.jit(case.traced(0, j))
        for k in (0, 0, 1, 2):
            if case.program.closed[k] != case.program.closed[0]:
                continue
            args = case.args(k)
            _spoil(case.check(f"jit {k}{j}", lambda: jitted(*args), case.expected(k, j), args))


def jit_arguments(case: Case) -> None:
    """Literals and what is closed over as arguments of a jitted function."""
    jitted = ft.jit(lambda args, closed, numbers: case.make(np, ft, closed)(*args, numbers))
    for k, j in ORDER:
        args, closed = case.args(k), case.closed(k)
        expected = case.expected(k, j)
        if any(not isinstance(n, int | float | complex | np.generic) for n in case.literals(j)):
            continue
        if any(isinstance(n, int) and abs(n) > 2**62 for n in case.literals(j)):
            continue
        _spoil(
            case.check(
                f"jit of all {k}{j}", lambda: jitted(args, closed, case.literals(j)), expected, args
            )
        )


def trace_value(case: Case) -> None:
    for k in (0, 1):
        args = case.args(k)
        program: list[Any] = []
        f = case.traced(k)

        def run() -> Any:
            program[:] = [ft.trace(f)(*args)]
            return ft.evaluate(program[0], *args)

        expected = _flat(case.expected(k))
        case.check(f"trace {k}", run, expected, args)
        if not program:
            continue
        for times in range(2):
            case.check(
                f"evaluate again {times}", lambda: ft.evaluate(program[0], *args), expected, args
            )
        if k == 0:
            case.check(
                "parsed",
                lambda: ft.evaluate(ft.Program.parse(str(program[0])), *args),
                expected,
                args,
            )
            case.check(
                "json",
                lambda: ft.evaluate(ft.Program.from_json(program[0].to_json()), *args),
                expected,
                args,
            )
        case.check("as_python", lambda: copied(_as_python(program[0], args)), expected, args)


def _as_python(program: Any, args: list[Any]) -> Any:
    namespace: dict[str, Any] = {}
    exec(program.as_python(), namespace)
    return namespace["program"](*args)


def _flat(expected: Result) -> Result:
    if isinstance(expected, Raised):
        return expected
    leaves = [np.asarray(leaf) for leaf in ft.tree.flatten(expected)[0]]
    return leaves[0] if len(leaves) == 1 else tuple(leaves)


def checkpoint_value(case: Case) -> None:
    for k, j in ORDER[:4]:
        wrt, xs = _chosen(case, k)
        if wrt:
            run = lambda: ft.vjp(ft.checkpoint(_partial(case, k, j, wrt)), *xs)[0]
            _spoil(case.check(f"vjp of checkpoint {k}{j}", run, case.expected(k, j), xs))


def jit_of_checkpoint(case: Case) -> None:
    jitted = ft.jit(ft.checkpoint(case.traced(0)))
    for _ in range(2):
        args = case.args(0)
        _spoil(case.check("jit of checkpoint", lambda: jitted(*args), case.expected(0), args))


def vjp_of_jit(case: Case) -> None:
    for k, j in ORDER[:3]:
        wrt, xs = _chosen(case, k)
        if wrt:
            _spoil(
                case.check(
                    f"vjp of jit {k}{j}",
                    lambda: ft.vjp(ft.jit(_partial(case, k, j, wrt)), *xs)[0],
                    case.expected(k, j),
                    xs,
                )
            )


def cond_value(case: Case) -> None:
    wrt, xs = _chosen(case, 0)
    if not wrt:
        return
    f = _partial(case, 0, 0, wrt)
    for name, wrap in (("vjp", lambda g: ft.vjp(g, *xs)[0]), ("jit", lambda g: ft.jit(g)(*xs))):
        run = lambda wrap=wrap: wrap(lambda *d: ft.cond(np.sum(d[0]).real > -1e300, f, f, *d))
        _spoil(case.check(f"{name} of cond", run, case.expected(0), xs))


def outer_values(case: Case) -> None:
    """Some arguments belong to an outer transform, and are closed over by an inner one."""
    wrt, xs = _chosen(case, 0)
    if len(wrt) < 2:
        return
    f, expected = _partial(case, 0, 0, wrt), case.expected(0)
    inner = {
        "jit": lambda x, rest: ft.jit(lambda t: f(t, *rest))(x),
        "checkpoint": lambda x, rest: ft.checkpoint(lambda t: f(t, *rest))(x),
        "vjp": lambda x, rest: ft.vjp(lambda t: f(t, *rest), x)[0],
        "jvp": lambda x, rest: ft.jvp(lambda t: f(t, *rest), (x,), (np.ones_like(x),))[0],
        "vmap": lambda x, rest: ft.tree.map_leaves(
            lambda t: t[0], ft.vmap(lambda t: f(t, *rest))(np.stack([x, x]))
        ),
    }
    solid = all(
        x.ndim for x in xs
    )  # an example of a batch with one axis is a scalar, and no 0-d array
    for name, call in inner.items():
        if name == "vmap" and not solid:
            continue
        _spoil(case.check(f"vjp of inner {name}", lambda call=call: ft.vjp(lambda x, *rest: call(x,
        rest), *xs)[0], expected, xs,
                          exact=name != "vmap"))  # fmt: skip
    _spoil(
        case.check(
            "jit of inner checkpoint",
            lambda: ft.jit(lambda x, *rest: inner["checkpoint"](x, rest))(*xs),
            expected,
            xs,
        )
    )
    if not solid:
        return
    _spoil(case.check("vmap of inner vjp", lambda: ft.tree.map_leaves(lambda t: t[1],
    ft.vmap(lambda x, *rest: inner["vjp"](x, rest))(
        *[np.stack([x, x]) for x in xs])), expected, xs, exact=False))  # fmt: skip


def _batches(case: Case, axes: Sequence[int | None]) -> tuple[list[Any], list[list[Any]]]:
    """Arguments for vmap, and by example: slices, as a loop over the batch takes them."""
    sets = [case.args(k) for k in range(3)]
    args = [
        sets[0][i] if axis is None else np.stack([s[i] for s in sets], axis)
        for i, axis in enumerate(axes)
    ]
    rows = [
        [
            x if axis is None else np.moveaxis(np.array(args[i]), axis, 0)[t]
            for i, (x, axis) in enumerate(zip(case.args(0), axes))
        ]
        for t in range(3)
    ]
    return args, rows


def _mapped(case: Case, axes: Sequence[int | None]) -> Result:
    _, rows = _batches(case, axes)
    return attempted(lambda: stacked([copied(case.plain(0)(*row)) for row in rows]))


def _axes(case: Case) -> list[tuple[int | None, ...]]:
    count = len(case.program.names)
    found: list[tuple[int | None, ...]] = [(0,) * count]
    if count > 1:
        found += [(0, *(None,) * (count - 1)), (*(None,) * (count - 1), 0)]
    found.append(tuple(min(1, x.ndim) for x in case.args(0)))
    return found


def vmap_value(case: Case) -> None:
    for axes in _axes(case):
        expected = _mapped(case, axes)
        for times in range(2):
            f, args = case.traced(0), _batches(case, axes)[0]
            mapped = [
                x for x, axis in zip(args, axes) if axis is not None
            ]  # the others are plain arrays in f, which may write
            run = lambda f=f, args=args: ft.vmap(f, in_axes=axes)(*args)
            _spoil(
                case.check(f"vmap {axes} {times}", run, expected, mapped, exact=False, atol=1e-12)
            )


def jit_of_vmap(case: Case) -> None:
    axes = _axes(case)[0]
    args, _ = _batches(case, axes)
    expected = _mapped(case, axes)
    for name, f in (("jit of vmap", ft.jit(ft.vmap(case.traced(0)))), ("vmap of jit",
    ft.vmap(ft.jit(case.traced(0)))),
                    ("vmap of checkpoint", ft.vmap(ft.checkpoint(case.traced(0))))):  # fmt: skip
        _spoil(case.check(name, lambda f=f: f(*args), expected, args, exact=False, atol=1e-12))


def vmap_of_vmap(case: Case) -> None:
    axes = _axes(case)[0]
    args, _ = _batches(case, axes)
    expected = _mapped(case, axes)
    if isinstance(expected, Raised):
        return
    twice = [np.stack([x, x], 1) for x in args]
    run = lambda: ft.tree.map_leaves(lambda t: t[:, 1], ft.vmap(ft.vmap(case.traced(0)))(*twice))
    case.check("vmap of vmap", run, expected, args, exact=False, atol=1e-12)


VALUES: dict[str, Callable[[Case], None]] = {
    f.__name__: f
    for f in (
        vjp_value, jvp_value, linearize_value, jit_value, jit_arguments, trace_value,
        checkpoint_value, jit_of_checkpoint,
        vjp_of_jit, cond_value, outer_values, vmap_value, jit_of_vmap, vmap_of_vmap,
    )
}  # fmt: skip
