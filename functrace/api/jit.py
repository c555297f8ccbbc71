"""``jit``: stage a function once per signature, then run generated code.

A signature is what the staged program depends on: the nest of the arguments, shape and dtype of every array, the Python
type of every number, the values of static arguments. A call with a known signature costs the check of it (about 0.5 us for
one array, 3 us for a nest of 20 that comes often: api/checks.py) and the generated code. On traced values the staged program
is applied as one operation (control/call.py), so `jit` composes with every other transform, inside and outside.

Note [What a staged program captures]
    Arrays that the function reads from its surroundings are copied when it is staged, and compared with the copies at every
    call (`functrace.tracing.capture.Reads`): those that were operands, and those that its names lead to, since Python may
    have computed with them. If one has changed, the function is staged again, and if all that differs in the program is
    constants, these are arguments of code that is compiled once. Traced values of an enclosing transform are operands of
    this one call: a program that captured any is not kept. A variable of the surroundings that is bound anew after a
    program was kept is not seen, whatever it holds then, a traced value too: it belongs among the arguments.

Floor: 7.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, final, overload

import numpy as np

from functrace.api.calls import ARRAYS, function_name
from functrace.api.checks import MOST_CHECKS, OFTEN, Check, written_check
from functrace.api.donating import Donation
from functrace.api.draws import watching
from functrace.api.eager import ENTERED, is_jit_disabled
from functrace.api.guards import MOST_BYTES, Fork, Guards, GuardsInfo, Missed, PathCache, Taken, Tree
from functrace.api.record import Recorded
from functrace.api.retracing import Described, Retraces
from functrace.api.signatures import NO_STATICS, BoxedArrays, Jit, Parameters, Signature
from functrace.api.surroundings import reads_of
from functrace.api.transformed import transformed
from functrace.caches import Bounded, Kept
from functrace.control.call import call_program
from functrace.errors import ArgumentError, ConcretizationError, entry
from functrace.executor.runner import compile_at_once, run_compiled
from functrace.ir.parts import closed_over
from functrace.ir.program import Program
from functrace.locks import cached_property
from functrace.numpy.number import DTYPES, TracedNumber
from functrace.passes import Own, Pass, rows_of
from functrace.source import hide_own_frames
from functrace.tracing.binding import BODY, renewed
from functrace.tracing.capture import Reads, held_array, own_constants
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten_seen, map_leaves, unflatten
from functrace.typing import P, R

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec


class CacheInfo(NamedTuple):
    """What ``f.cache_info()`` returns: calls that found a staged program, calls that did not, and the programs held."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)


class Jitted(Protocol[P, R_co]):
    """What `jit` returns: a function (or a method) like the one it was given, with a cache."""

    passes: tuple[Pass, ...]
    """The passes of the user's that its programs go through, and what leaves out those of the library's own."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the program for these arguments, which is staged first if they are the first of their kind."""
        ...

    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> Jitted[P, R_co]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Any, Q], R_co], instance: object, owner: type | None = None, /
    ) -> Jitted[Q, R_co]: ...

    def cache_info(self) -> CacheInfo | GuardsInfo:
        """Return how many programs are held, and how many calls found one."""
        ...

    def cache_clear(self) -> None:
        """Forget all programs."""
        ...

    def why_retraced(self) -> str:
        """Say of the last recordings in what their calls differed from those that there were programs for."""
        ...


@overload
def jit(
    f: Callable[P, R],
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ...,
    donate_argnums: int | Sequence[int] = ...,
    donate_argnames: str | Sequence[str] = ...,
    maxsize: int = ...,
    guards: bool = ...,
    max_paths: int = ...,
    passes: Sequence[Own] = ...,
) -> Jitted[P, R]: ...
@overload
def jit(
    f: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ...,
    donate_argnums: int | Sequence[int] = ...,
    donate_argnames: str | Sequence[str] = ...,
    maxsize: int = ...,
    guards: bool = ...,
    max_paths: int = ...,
    passes: Sequence[Own] = ...,
) -> Jitted[..., Any]: ...
@overload
def jit(
    f: None = None,
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ...,
    donate_argnums: int | Sequence[int] = ...,
    donate_argnames: str | Sequence[str] = ...,
    maxsize: int = ...,
    guards: bool = ...,
    max_paths: int = ...,
    passes: Sequence[Own] = ...,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@entry
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    maxsize: int = 256,
    guards: bool = False,
    max_paths: int = 64,
    passes: Sequence[Own] = (),
) -> Any:
    """Return a function that computes ``f`` by generated code, made once per signature.

    Args:
        f: a function of arrays, numbers and pytrees of them. It runs when a signature is new, on traced values without
            values. Left out, ``jit`` is a decorator with arguments.
        static_argnums: positions of arguments that are no arrays: ``f`` gets them as they are, and is staged once per value.
            They must be hashable.
        static_argnames: the same by name. A parameter named either way is static however it is passed.
        donate_argnums: positions of arguments whose arrays are given away: their memory may become that of results. An array
            that has been given away cannot be used again (its dtype says so, and operations on it raise); it must own its
            memory, and be writeable. `docs/sharp_bits.md` says the rest.
        donate_argnames: the same by name.
        maxsize: how many programs are kept; the least recently used go first.
        guards: whether ``f`` may ask for values (``if x > 0``, ``while``, ``range(n)``, ``x[mask]``). It then runs, on
            values, when a call takes a path through it that is new; what it asks is checked at every call, as it comes,
            and leads to the programs of that path (docs/python_control_flow.md).
        max_paths: with guards, how many paths of one signature are kept; the least recently used go first.
        passes: functions from a program to an equal one, which are applied where this function is compiled: not inside of
            another transform, whose program is another one. See docs/own_transform.md, and `functrace.debug.passes`.

    Returns:
        a function with the results of ``f``, as fresh arrays (a Python number comes back as a NumPy scalar). It has
        ``cache_info()``, which counts paths where there are guards, ``cache_clear()``, and ``why_retraced()``, which says
        why the last calls that were recorded were not served by a program that was kept. As a method it needs an
        object that is a pytree, or a value: one that is hashable and compared by what it holds, as a frozen dataclass
        without arrays that is not registered (`functrace.tree.register`), and then static.

    Raises:
        ConcretizationError: if ``f`` asks for the value of an argument (``if x > 0``, ``range(n)``) without guards.
        ArgumentError: if a static argument cannot be hashed, or an argument is neither static nor numeric; if a method's
            object could change unseen; if a donated array is a view, read-only, or passed twice; for passes with guards.
        ProgramError: if a pass returns no program, or one with other inputs or outputs.

    Example:
        >>> import numpy as np
        >>> norm = jit(lambda x: np.sqrt(np.sum(x * x)))
        >>> norm(np.array([3.0, 4.0])), norm(np.array([5.0, 12.0]))
        (np.float64(5.0), np.float64(13.0))
        >>> norm.cache_info()
        CacheInfo(hits=1, misses=1, maxsize=256, currsize=1)
        >>> jit(lambda x: x if x > 0 else x * 0.1, guards=True)(-1.0)
        np.float64(-0.1)

    Cost:
        the first call with a signature records and compiles, about 30 us per operation. With guards, the first call of a
        path records, the second one compiles, and every guard costs about 2 us per call.
    """
    options: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames, "maxsize": maxsize}
    options |= {"guards": guards, "max_paths": max_paths, "passes": passes}
    rows = rows_of(passes, "jit")
    if rows and guards:
        raise ArgumentError(
            "jit: with guards, parts of a program are compiled, and passes=, which are given a whole one, have none",
            fix="leave out guards=True or passes=",
        )
    if f is None:
        return functools.partial(jit, **options, donate_argnums=donate_argnums, donate_argnames=donate_argnames)
    name = function_name(f)
    statics = Parameters(f, static_argnums, static_argnames, "static")
    donated = Parameters(f, donate_argnums, donate_argnames, "donate")
    if donated.any and (guards or donated.both(statics)):
        what = "jit with guards" if guards else "a static argument"
        raise ArgumentError(f"jit of {name}: {what} takes no donated arrays", fix="leave donate_argnums out there")
    if guards:
        return _guarded(f, name, statics, PathCache(name, maxsize, max_paths), options)
    cache = ProgramCache(name, maxsize, donated, rows)
    entries, tick = cache.kept.entries, cache.kept.tick
    often = cache.often
    is_static, ndarray = statics.any, np.ndarray

    others: dict[object, Callable[..., Any]] = {}

    def again(key: object, of_arrays: Callable[..., Any]) -> Callable[..., Any]:
        found = others.get(key)
        if found is None:
            found = others[key] = jit(of_arrays, **options)
        return found

    @transformed("jit", f)
    def jitted(*args: object, **kwargs: object) -> Any:
        try:
            if ENTERED and is_jit_disabled():
                return _plainly(f, statics, args, kwargs, name, jitted, again)
            if not kwargs and not is_static:  # arrays and floats by position: `Signature`, in line
                values: Sequence[Any] = args
                if len(args) == 1 and type(x := args[0]) is ndarray and (shape := x.shape):  # 0.1 us less than by the loop
                    staged = entries.get((shape, x.dtype))
                else:
                    parts: list[Any] = []
                    staged = None
                    for x in args:
                        if type(x) is ndarray and (shape := x.shape):  # (of no axes, it stands for a scalar)
                            parts += (shape, x.dtype)
                        elif type(x) is float:
                            parts.append(float)
                            values = ()
                        else:
                            break
                    else:
                        staged = entries.get(tuple(parts))
                if staged is not None and ((reads := staged.reads) is None or reads.changed() is None):
                    staged.used = tick()
                    if not values:
                        values = [np.float64(x) if type(x) is float else x for x in args]
                    if staged.donated or not staged.is_leaf:
                        return _run(staged, values)
                    return run_compiled(staged.run, values)[0]
            for check, kept in often:  # what else comes often
                found = check(args, kwargs)
                if found is not None and (staged := kept()) is not None:
                    if (reads := staged.reads) is not None and reads.changed() is not None:
                        break
                    staged.used = tick()
                    return _run(staged, found)
            try:
                signature = Signature(statics, args, kwargs, name, jitted)
            except BoxedArrays as found:
                return found.run(again, f, args, kwargs)
            staged = entries.get(signature.key)
            changed = None if staged is None or staged.reads is None else staged.reads.changed()
            if staged is None or changed is not None:
                return _first_call(cache, signature, f, name, staged, changed)
            staged.used = tick()
            if not signature.is_traced:
                staged.calls += 1
                if staged.calls == OFTEN and not signature.statics:
                    cache.write_check(signature, staged)
            return _applied(staged, signature, None)
        except BaseException as error:
            hide_own_frames(error)
            raise

    jitted.cache_info = cache.info  # type: ignore[attr-defined]
    jitted.cache_clear = cache.clear  # type: ignore[attr-defined]
    jitted.why_retraced = cache.retraces.text  # type: ignore[attr-defined]
    jitted.passes = tuple(rows)  # type: ignore[attr-defined]
    return jitted


def _guarded(
    f: Callable[..., Any], name: str, statics: Parameters, cache: PathCache, options: dict[str, Any]
) -> Callable[..., Any]:
    """Return what `jit` returns where there are guards."""
    others: dict[object, Callable[..., Any]] = {}

    def again(key: object, of_arrays: Callable[..., Any]) -> Callable[..., Any]:
        found = others.get(key)
        if found is None:
            found = others[key] = jit(of_arrays, **options)
        return found

    @transformed("jit", f)
    def jitted(*args: object, **kwargs: object) -> Any:
        try:
            if ENTERED and is_jit_disabled():
                return _plainly(f, statics, args, kwargs, name, jitted, again)
            tree = signature = None
            leaves: Sequence[Any] = ()
            if not statics.any:
                leaves, structure = flatten_seen((args, kwargs))
                if all(type(leaf) is np.ndarray and leaf.ndim for leaf in leaves):
                    tree = cache.kept.get((structure, NO_STATICS, *[(leaf.shape, leaf.dtype) for leaf in leaves]))
            if tree is None:
                try:
                    signature = Signature(statics, args, kwargs, name, jitted)
                except BoxedArrays as found:
                    return found.run(again, f, args, kwargs)
                if signature.is_traced:
                    return _inline(f, signature)
                leaves, tree = signature.values, cache.tree(signature.whole_key)
            changed = None if tree.reads is None else tree.reads.changed()
            if changed is not None:
                tree.clear()
            found = tree.run(leaves)
            if isinstance(found, Missed):
                signature = Signature(statics, args, kwargs, name, jitted) if signature is None else signature
                return _new_path(f, name, cache, tree, signature, found, changed)
            cache.hit()
            leaf, results = found
            return results[0] if leaf.is_leaf else unflatten(leaf.out_tree, results)
        except BaseException as error:
            hide_own_frames(error)
            raise

    jitted.cache_info = cache.info  # type: ignore[attr-defined]
    jitted.cache_clear = cache.clear  # type: ignore[attr-defined]
    jitted.why_retraced = cache.retraces.text  # type: ignore[attr-defined]
    jitted.passes = ()  # type: ignore[attr-defined]
    return jitted


def _new_path(
    f: Callable[..., Any],
    name: str,
    cache: PathCache,
    tree: Tree,
    signature: Signature,
    missed: Missed,
    changed: str | None,
) -> Any:
    """Record a path that is new, with the values of a call; returns the results of the call."""
    has_paths = tree.root is not None
    cache.miss(has_paths=has_paths)
    described = cache.retraces.describe(signature)
    signature.values = [held_array(value) for value in signature.values]  # f may write to them
    guards = Guards(signature.values, missed)
    try:
        with watching(f, name), Recording(f"jit of {name}", scope=BODY) as recording:
            recording.asked = guards
            call = Recorded(recording, f, signature.inputs, reads=signature.leaves)
            program = call.program(name, input_names=signature.names())
            if any(isinstance(value, Tracer) for value in program.constant_values.values()):
                closed, captured = closed_over(program)
            else:
                closed, captured = own_constants(program), None
                results = [guards.value(recording, i) for i in call.outputs]
    finally:
        if signature.numbers is not None:
            signature.numbers.close()
    trees = list(cache.kept.entries.values())
    reason = _array_changed(changed) if changed is not None else None
    if reason is None and has_paths:
        reason = _other_answer(guards, tree)
    cache.retraces.note(described, [one.described for one in trees if one is not tree], reason)
    if captured is not None:
        results = call_program(closed.interned(), [*signature.values, *captured])
    else:
        if not guards.is_faulty:
            tree.reads, tree.described = reads_of(f, name, call.watches, tree.reads), described
            tree.add(Taken(closed, list(guards.questions.items()), call.out_tree))
            cache.kept.changed(tree)
        results = [x.copy("K") if isinstance(x, np.ndarray) else x for x in results]
    return results[0] if call.out_tree.is_leaf() else unflatten(call.out_tree, results)


def _inline(f: Callable[..., Any], signature: Signature) -> Any:
    """Call a function with guards on traced values: whoever records them answers what it asks."""
    copies = [renewed(x) if isinstance(x, Tracer) and not x.is_number else held_array(x) for x in signature.leaves]
    args, kwargs = signature.arguments(copies)
    return map_leaves(_fresh, f(*args, **kwargs))


def _fresh(leaf: Any) -> Any:
    """Return a result that shares nothing with an argument."""
    if isinstance(leaf, TracedNumber):
        leaf = leaf.strong()
    if isinstance(leaf, Tracer):
        return renewed(leaf)
    return np.copy(leaf)[()] if isinstance(leaf, (*ARRAYS, *DTYPES)) else leaf


def _plainly(
    f: Callable[..., Any],
    statics: Parameters,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    jitted: object,
    again: Jit,
) -> Any:
    """Call a function as it is, on copies of its arguments; see `disable_jit`."""
    try:
        signature = Signature(statics, args, kwargs, name, jitted)
    except BoxedArrays as found:
        return found.run(again, f, args, kwargs)
    args, kwargs = signature.arguments([x if type(x) in DTYPES else _fresh(x) for x in signature.leaves])
    return map_leaves(_fresh, f(*args, **kwargs))


def _array_changed(name: str) -> str:
    return f"{name or 'an array'}, which it reads from its surroundings, has been changed in place"


def _other_answer(guards: Guards, tree: Tree) -> str | None:
    """Say which question of a path that is new parts it from those that were kept."""
    node = tree.root
    for variable, answer in guards.questions.items():
        if not isinstance(node, Fork):
            break
        if answer not in node.next:
            source = node.piece.program.source(variable)
            return f"what is asked{'' if source is None else f' at {source}'} has an answer that no path that is kept has"
        node = node.next[answer]
    return None


def _first_call(
    cache: ProgramCache, signature: Signature, f: Callable[..., Any], name: str, before: Compiled | None, changed: str | None
) -> Any:
    """Stage a function for a call, and carry it out.

    Args:
        cache: of the function.
        signature: of the call.
        f: the function.
        name: what messages call it.
        before: what was staged for the signature, if an array that the function reads has changed since.
        changed: the name of that array.
    """
    given = signature.values
    places = signature.leaves_of(cache.donated) if cache.donated.any and not signature.is_traced else ()
    donation = Donation([signature.leaves[k] for k in places], signature.leaves, name) if places else None
    described = cache.retraces.describe(signature)
    signature.values = [held_array(value) for value in given]  # f may write to them
    staged, captured = _stage(f, signature, f"jit of {name}", name)
    staged.described, staged.donated, staged.passes = described, places, cache.passes
    cache.misses += 1
    kept = [one.described for one in reversed(list(cache.kept.entries.values())) if one is not before]
    cache.retraces.note(described, kept, None if changed is None else _array_changed(changed))
    if captured is None:
        if before is not None:
            staged.follow(before)
        cache.add(signature.key, staged)
    if donation is not None:
        donation.claim()
    try:
        return _applied(staged, signature, captured, is_donating=False)
    finally:
        if donation is not None:
            donation.end()


def _applied(staged: Compiled, signature: Signature, captured: list[Any] | None, *, is_donating: bool = True) -> Any:
    """Run a staged program on the arguments of a call; as one operation, if a traced value is among its operands."""
    values = signature.values
    if captured is not None:
        results: Sequence[Any] = call_program(staged.program.interned(), [*values, *captured])
    elif signature.is_traced:
        program, constants = staged.closed
        if staged.reads is not None:
            staged.reads.note()
        results = call_program(program, [*values, *constants])
    elif is_donating and staged.donated:
        results = _run_donating(staged, values, signature.leaves)
    else:
        results = run_compiled(staged.run, values)
    return results[0] if staged.is_leaf else unflatten(staged.out_tree, results)


def _run(staged: Compiled, values: Sequence[Any]) -> Any:
    """Run a staged program on arrays; warnings and exceptions name the user's line."""
    if staged.donated:
        results = _run_donating(staged, values, values)
    else:
        results = run_compiled(staged.run, values)
    return results[0] if staged.is_leaf else unflatten(staged.out_tree, results)


def _run_donating(staged: Compiled, values: Sequence[Any], leaves: Sequence[Any]) -> Sequence[Any]:
    """Run a staged program on arrays of which some, as they were passed, are given away."""
    donation = Donation([leaves[k] for k in staged.donated], leaves, staged.program.name)
    donation.claim()
    try:
        results = run_compiled(staged.donating if donation.is_usable else staged.run, values)
        return donation.taken(results)
    finally:
        donation.end()


# -- staged programs -----------------------------------------------------------------------------------------------------


@final
class Compiled(Kept):
    """A staged program, and what it was compiled to.

    Args:
        program: its inputs are the leaves of the arguments that are not static.
        out_tree: structure of the result.
    """

    described: Described | None = None
    """The signature, as messages tell of it."""
    donated: tuple[int, ...] = ()
    """Which inputs are given away."""
    passes: Sequence[Pass] = ()
    """Those of the user's."""

    def __init__(self, program: Program, out_tree: PyTreeSpec, reads: Reads | None = None) -> None:
        super().__init__(sum(program.avals[i].nbytes for i in program.constant_values))
        self.program = program
        self.out_tree = out_tree
        self.is_leaf = out_tree.is_leaf()
        self.reads = reads
        self.calls = 0
        """Those that took the long way to it."""

    @cached_property
    def run(self) -> Callable[..., Sequence[Any]]:
        """The generated code, a function of arrays; made when it is first asked for."""
        return compile_at_once(self.program, passes=self.passes)

    @cached_property
    def donating(self) -> Callable[..., Sequence[Any]]:
        """The same, which may write into what is given away, and takes arrays in C order."""
        return compile_at_once(self.program, self.donated, self.passes)

    @cached_property
    def open(self) -> Callable[..., Sequence[Any]]:
        """The same, which takes the constants as further arguments."""
        return compile_at_once(self.closed[0], passes=self.passes)

    def follow(self, before: Compiled) -> None:
        """Take the place of a program of which arrays have changed: if nothing else did, its code serves this one, too."""
        program, constants = self.closed
        if constants and program is before.closed[0]:
            run = self.open = before.open
            self.run = lambda *arguments: run(*arguments, *constants)

    @cached_property
    def closed(self) -> tuple[Program, list[Any]]:
        """The program with its constants as further inputs, and their values."""
        program, constants = closed_over(self.program)
        return program.interned(), constants


@final
class ProgramCache:
    """Staged programs by signature, and counts of calls."""

    def __init__(self, name: str, maxsize: int, donated: Parameters, passes: Sequence[Pass]) -> None:
        if maxsize < 1:
            raise ArgumentError(f"jit: maxsize={maxsize} keeps no program", fix="give 1 or more")
        self.kept: Bounded[Compiled] = Bounded(f"programs of jit of {name}", MOST_BYTES, maxsize)
        self.donated, self.passes = donated, passes
        self.retraces = Retraces(name)
        self.misses = 0
        self.often: list[tuple[Check, weakref.ref[Compiled]]] = []
        """Written checks of signatures that come often, and what is found by them as long as it is kept."""
        self._others = 0  # ticks of the clock that are no hits

    def add(self, key: object, staged: Compiled) -> None:
        """Keep a program; the least recently used ones go."""
        self._others += 1
        self.kept.add(key, staged)

    def write_check(self, signature: Signature, staged: Compiled) -> None:
        """From now on find a program by lines that are written for its signature."""
        check = written_check(signature.tree, signature.leaves)
        if check is not None:
            self.often[:] = [(check, weakref.ref(staged)), *[pair for pair in self.often if pair[1]() is not None]][
                :MOST_CHECKS
            ]

    def info(self) -> CacheInfo:
        """Say how often a program was found, how often not, and how many are kept."""
        self._others += 1
        return CacheInfo(self.kept.tick() - self._others, self.misses, self.kept.most, len(self.kept))

    def clear(self) -> None:
        """Forget all programs and counts."""
        self.kept.clear()
        self._others = self.kept.tick()
        self.misses = 0
        self.retraces.clear()


def _stage(f: Callable[..., Any], signature: Signature, owner: str, name: str) -> tuple[Compiled, list[Any] | None]:
    """Record the function; returns the program and, if it captured traced values, all that it captured, as operands."""
    try:
        with watching(f, name), Recording(owner, scope=BODY) as recording:
            call = Recorded(recording, f, signature.inputs, reads=signature.leaves)
            program = call.program(name, input_names=signature.names())
            if any(isinstance(value, Tracer) for value in program.constant_values.values()):
                closed, captured = closed_over(program)
                return Compiled(closed, call.out_tree), captured
            staged = own_constants(program), call.out_tree
        return Compiled(*staged, reads_of(f, name, call.watches)), None
    except ConcretizationError as error:
        _add_way_out(error)
        raise
    finally:
        if signature.numbers is not None:
            signature.numbers.close()


def _add_way_out(error: ConcretizationError) -> None:
    """Name the way out that only `jit` has."""
    fix = error.fix or ""
    if "static_arg" not in fix and "functrace.jit" not in fix and not fix.startswith(("use np.", "leave ")):
        error.amend(fix=f"{fix}; an argument that is no array can be named in static_argnums or static_argnames of jit")
