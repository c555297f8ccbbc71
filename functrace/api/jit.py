"""``jit``: stage a function once per signature, then run generated code.

A signature is what the staged program depends on: the nest of the arguments, shape and dtype of every array, the Python
type of every number, the values of static arguments. A call with a known signature costs the check of it (about 0.5 us for
one array, 3 us for a nest of 20 that comes often: api/checks.py) and the generated code. On traced values the staged program
is applied as one operation (control/call.py), so `jit` composes with every other transform, inside and outside.

Note [What a staged program captures]
    Arrays that the function reads from its surroundings are copied when it is staged, and stay what they were then. Traced
    values of an enclosing transform are operands of this one call: a program that captured any is not kept. A variable of
    the surroundings that is bound anew after a program was kept is not seen, whatever it holds then, a traced value too:
    what changes between calls belongs among the arguments.

Floor: 7.
"""

from __future__ import annotations

import functools
import inspect
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, final, overload

import numpy as np

from functrace.api.calls import ARRAYS, NO_LEAF, argument_names, as_value, function_name
from functrace.api.checks import MOST_CHECKS, OFTEN, Check, written_check
from functrace.api.draws import watching
from functrace.api.guards import MOST_BYTES, Guards, GuardsInfo, Missed, PathCache, Taken, Tree
from functrace.api.record import Called, Recorded
from functrace.api.transformed import transformed
from functrace.caches import BYTES_PER_OP, Bounded, Kept
from functrace.control.call import call_program
from functrace.errors import ArgumentError, ConcretizationError
from functrace.executor.runner import compile_at_once, run_compiled
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import closed_over
from functrace.ir.program import Program
from functrace.keys import exact_key
from functrace.numpy.number import DTYPES, Numbers, TracedNumber
from functrace.source import hide_own_frames
from functrace.tracing.capture import held_array, own_constants
from functrace.tracing.recording import BODY, Recording, Tracer, renewed
from functrace.tree import PyTreeSpec, flatten, flatten_seen, map_leaves, tree_key, unflatten
from functrace.tree.nodes import is_value
from functrace.typing import P, R

_ONE_PROGRAM_PER_VALUE = "name the argument in static_argnums or static_argnames: there will be one program per value"
_NO_STATICS: frozenset[Any] = frozenset()


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


@overload
def jit(
    f: Callable[P, R],
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ...,
    maxsize: int = ...,
    guards: bool = ...,
    max_paths: int = ...,
) -> Jitted[P, R]: ...
@overload
def jit(
    f: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ...,
    maxsize: int = ...,
    guards: bool = ...,
    max_paths: int = ...,
) -> Jitted[..., Any]: ...
@overload
def jit(
    f: None = None,
    *,
    static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ...,
    maxsize: int = ...,
    guards: bool = ...,
    max_paths: int = ...,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    maxsize: int = 256,
    guards: bool = False,
    max_paths: int = 64,
) -> Any:
    """Return a function that computes ``f`` by generated code, made once per signature.

    Args:
        f: a function of arrays, numbers and pytrees of them. It runs when a signature is new, on traced values without
            values. Left out, ``jit`` is a decorator with arguments.
        static_argnums: positions of arguments that are no arrays: ``f`` gets them as they are, and is staged once per value.
            They must be hashable.
        static_argnames: the same by name. A parameter named either way is static however it is passed.
        maxsize: how many programs are kept; the least recently used go first.
        guards: whether ``f`` may ask for values (``if x > 0``, ``while``, ``range(n)``, ``x[mask]``). It then runs, on
            values, when a call takes a path through it that is new; what it asks is checked at every call, as it comes,
            and leads to the programs of that path (docs/python_control_flow.md).
        max_paths: with guards, how many paths of one signature are kept; the least recently used go first.

    Returns:
        a function with the results of ``f``, as fresh arrays (a Python number comes back as a NumPy scalar). It has
        ``cache_info()``, which counts paths where there are guards, and ``cache_clear()``. As a method it needs an
        object that is a pytree, or a value: one that is hashable and compared by what it holds, as a frozen dataclass
        without arrays that is not registered (`functrace.tree.register`), and then static.

    Raises:
        ConcretizationError: if ``f`` asks for the value of an argument (``if x > 0``, ``range(n)``) without guards.
        ArgumentError: if a static argument cannot be hashed, or an argument is neither static nor numeric; if a method's
            object could change unseen.

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
    options |= {"guards": guards, "max_paths": max_paths}
    if f is None:
        return functools.partial(jit, **options)
    name = function_name(f)
    statics = Statics(f, static_argnums, static_argnames)
    if guards:
        return _guarded(f, name, statics, PathCache(name, maxsize, max_paths), options)
    cache = ProgramCache(name, maxsize)
    entries, tick = cache.kept.entries, cache.kept.tick
    often = cache.often
    is_static = statics.any

    others: dict[object, Callable[..., Any]] = {}

    def again(key: object, of_arrays: Callable[..., Any]) -> Callable[..., Any]:
        found = others.get(key)
        if found is None:
            found = others[key] = jit(of_arrays, **options)
        return found

    @transformed("jit", f)
    def jitted(*args: object, **kwargs: object) -> Any:
        try:
            if not kwargs and not is_static:  # arrays and floats by position: `_Signature`, in line
                parts: list[Any] = []
                values: Sequence[Any] = args
                for x in args:
                    if type(x) is np.ndarray and (shape := x.shape):  # (of no axes, it stands for a scalar)
                        parts += (shape, x.dtype)
                    elif type(x) is float:
                        parts.append(float)
                        values = ()
                    else:
                        break
                else:
                    staged = entries.get(tuple(parts))
                    if staged is not None:
                        staged.used = tick()
                        return _run(staged, values or [np.float64(x) if type(x) is float else x for x in args])
            for check, kept in often:  # what else comes often
                found = check(args, kwargs)
                if found is not None and (staged := kept()) is not None:
                    staged.used = tick()
                    return _run(staged, found)
            try:
                signature = _Signature(statics, args, kwargs, name, jitted)
            except BoxedArrays as found:
                return found.run(again, f, args, kwargs)
            staged = entries.get(signature.key)
            if staged is None:
                return _first_call(cache, signature, f, name)
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
    return jitted


def _guarded(
    f: Callable[..., Any], name: str, statics: Statics, cache: PathCache, options: dict[str, Any]
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
            tree = signature = None
            leaves: Sequence[Any] = ()
            if not statics.any:
                leaves, structure = flatten_seen((args, kwargs))
                if all(type(leaf) is np.ndarray and leaf.ndim for leaf in leaves):
                    tree = cache.kept.get((structure, _NO_STATICS, *[(leaf.shape, leaf.dtype) for leaf in leaves]))
            if tree is None:
                try:
                    signature = _Signature(statics, args, kwargs, name, jitted)
                except BoxedArrays as found:
                    return found.run(again, f, args, kwargs)
                if signature.is_traced:
                    return _inline(f, signature)
                leaves, tree = signature.values, cache.tree(signature.whole_key)
            found = tree.run(leaves)
            if isinstance(found, Missed):
                signature = _Signature(statics, args, kwargs, name, jitted) if signature is None else signature
                return _new_path(f, name, cache, tree, signature, found)
            cache.hit()
            leaf, results = found
            return results[0] if leaf.is_leaf else unflatten(leaf.out_tree, results)
        except BaseException as error:
            hide_own_frames(error)
            raise

    jitted.cache_info = cache.info  # type: ignore[attr-defined]
    jitted.cache_clear = cache.clear  # type: ignore[attr-defined]
    return jitted


def _new_path(f: Callable[..., Any], name: str, cache: PathCache, tree: Tree, signature: _Signature, missed: Missed) -> Any:
    """Record a path that is new, with the values of a call; returns the results of the call."""
    cache.miss(has_paths=tree.root is not None)
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
    if captured is not None:
        results = call_program(closed.interned(), [*signature.values, *captured])
    else:
        if not guards.is_faulty:
            tree.add(Taken(closed, list(guards.questions.items()), call.out_tree))
            cache.kept.resize(tree, tree.nbytes)
        results = [x.copy("K") if isinstance(x, np.ndarray) else x for x in results]
    return results[0] if call.out_tree.is_leaf() else unflatten(call.out_tree, results)


def _inline(f: Callable[..., Any], signature: _Signature) -> Any:
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


def _first_call(cache: ProgramCache, signature: _Signature, f: Callable[..., Any], name: str) -> Any:
    signature.values = [held_array(value) for value in signature.values]  # f may write to them
    staged, captured = _stage(f, signature, f"jit of {name}", name)
    cache.misses += 1
    if captured is None:
        cache.add(signature.key, staged)
    return _applied(staged, signature, captured)


def _applied(staged: Compiled, signature: _Signature, captured: list[Any] | None) -> Any:
    """Run a staged program on the arguments of a call; as one operation, if a traced value is among its operands."""
    values = signature.values
    if captured is not None:
        results: Sequence[Any] = call_program(staged.program.interned(), [*values, *captured])
    elif signature.is_traced:
        program, constants = staged.closed
        results = call_program(program, [*values, *constants])
    else:
        return _run(staged, values)
    return results[0] if staged.is_leaf else unflatten(staged.out_tree, results)


def _run(staged: Compiled, values: Sequence[Any]) -> Any:
    """Run a staged program on arrays; warnings and exceptions name the user's line."""
    results = run_compiled(staged.run, values)
    return results[0] if staged.is_leaf else unflatten(staged.out_tree, results)


# -- staged programs -----------------------------------------------------------------------------------------------------


@final
class Compiled(Kept):
    """A staged program, and what it was compiled to.

    Args:
        program: its inputs are the leaves of the arguments that are not static.
        out_tree: structure of the result.
    """

    def __init__(self, program: Program, out_tree: PyTreeSpec) -> None:
        constants = sum(program.avals[i].nbytes for i in program.constant_values)
        super().__init__(BYTES_PER_OP * (len(program.ops) + 4) + constants)
        self.program = program
        self.out_tree = out_tree
        self.is_leaf = out_tree.is_leaf()
        self.calls = 0
        """Those that took the long way to it."""

    @functools.cached_property
    def run(self) -> Callable[..., Sequence[Any]]:
        """The generated code, a function of arrays; made when it is first asked for."""
        return compile_at_once(self.program)

    @functools.cached_property
    def closed(self) -> tuple[Program, list[Any]]:
        """The program with its constants as further inputs, and their values."""
        program, constants = closed_over(self.program)
        return program.interned(), constants


@final
class ProgramCache:
    """Staged programs by signature, and counts of calls."""

    def __init__(self, name: str, maxsize: int) -> None:
        if maxsize < 1:
            raise ArgumentError(f"jit: maxsize={maxsize} keeps no program", fix="give 1 or more")
        self.kept: Bounded[Compiled] = Bounded(f"programs of jit of {name}", MOST_BYTES, maxsize)
        self.misses = 0
        self.often: list[tuple[Check, weakref.ref[Compiled]]] = []
        """Written checks of signatures that come often, and what is found by them as long as it is kept."""
        self._others = 0  # ticks of the clock that are no hits

    def add(self, key: object, staged: Compiled) -> None:
        """Keep a program; the least recently used ones go."""
        self._others += 1
        self.kept.add(key, staged)

    def write_check(self, signature: _Signature, staged: Compiled) -> None:
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


def _stage(f: Callable[..., Any], signature: _Signature, owner: str, name: str) -> tuple[Compiled, list[Any] | None]:
    """Record the function; returns the program and, if it captured traced values, all that it captured, as operands."""
    try:
        with watching(f, name), Recording(owner, scope=BODY) as recording:
            call = Recorded(recording, f, signature.inputs, reads=signature.leaves)
            program = call.program(name, input_names=signature.names())
            if any(isinstance(value, Tracer) for value in program.constant_values.values()):
                closed, captured = closed_over(program)
                return Compiled(closed, call.out_tree), captured
            return Compiled(own_constants(program), call.out_tree), None
    except ConcretizationError as error:
        raise _with_way_out(error) from error
    finally:
        if signature.numbers is not None:
            signature.numbers.close()


def _with_way_out(error: ConcretizationError) -> ConcretizationError:
    """Name the way out that only `jit` has."""
    if error.fix is not None and ("static_arg" in error.fix or "functrace.jit" in error.fix):
        return error
    fix = f"{error.fix}; an argument that is no array can be named in static_argnums or static_argnames of jit"
    return ConcretizationError(error.what, at=error.at, made=error.made, equation=error.equation, fix=fix)


# -- signatures ----------------------------------------------------------------------------------------------------------


@final
class Statics:
    """Which parameters of a function are static, by position and by name.

    Raises:
        ArgumentError: if the function has no such parameter.
    """

    def __init__(self, f: Callable[..., Any], argnums: int | Sequence[int], argnames: str | Sequence[str]) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        self.any = bool(numbers or names)
        self.positions: frozenset[int] = frozenset()
        self.names: frozenset[str] = frozenset(names)
        if not self.any:
            return
        try:
            parameters = list(inspect.signature(f).parameters.values())
        except (TypeError, ValueError):
            if any(k < 0 for k in numbers):
                raise ArgumentError(f"jit of {function_name(f)}: its parameters are not known", fix="count from 0") from None
            self.positions = frozenset(numbers)
            return
        placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        if not many and any(not -len(placed) <= k < len(placed) for k in numbers):
            raise ArgumentError(
                f"jit of {function_name(f)}: static_argnums={argnums!r}, but it has {len(placed)} positional parameters",
                fix="count from 0; a keyword-only parameter goes into static_argnames",
            )
        known = {p.name for p in parameters}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters) and not known.issuperset(names):
            missing = ", ".join(sorted(set(names) - known))
            raise ArgumentError(
                f"jit of {function_name(f)}: it has no parameter {missing}", fix=f"name one of {', '.join(sorted(known))}"
            )
        positions = {k % len(placed) if k < 0 else k for k in numbers}
        positions |= {k for k, p in enumerate(placed) if p.name in names and p.kind is not p.POSITIONAL_ONLY}
        self.positions = frozenset(positions)
        self.names |= {placed[k].name for k in positions if k < len(placed)}


Jit: TypeAlias = Callable[[object, Callable[..., Any]], Callable[..., Any]]
"""Returns a function of arrays, jitted with the same options: the one that it returned before for the same key."""


class BoxedArrays(Exception):
    """An argument stands for an array; its class says by ``__functrace_jit__`` how a function of such arguments is jitted.

    Args:
        run: ``(jit, f, args, kwargs) -> result``, see `Jit`.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run


@final
class _Signature:
    """One call: its arguments, and the key of what it needs."""

    __slots__ = ("is_traced", "key", "leaves", "named", "numbers", "placed", "specs", "static", "statics", "tree", "values")

    def __init__(self, statics: Statics, args: tuple[Any, ...], kwargs: dict[str, Any], name: str, jitted: object) -> None:
        self.static: dict[int | str, Any] = {}
        if statics.any:
            self.static.update({k: args[k] for k in statics.positions if k < len(args)})
            self.static.update({key: value for key, value in kwargs.items() if key in statics.names})
        keys = [(k, _static_key(value, k, name)) for k, value in self.static.items()]
        if args and 0 not in self.static and _is_method_of(args[0], name, jitted):
            _check_value(args[0], name)
            self.static[0] = args[0]
            keys.append((0, _static_key(args[0], 0, name)))
        self.placed = tuple([None if k in self.static else x for k, x in enumerate(args)])
        self.named = {key: x for key, x in kwargs.items() if key not in self.static}
        self.leaves, self.tree = flatten((self.placed, self.named))
        self.is_traced = False
        self.numbers: Numbers | None = None
        self.specs: list[Any] = []
        self.values: list[Any] = []
        for k, leaf in enumerate(self.leaves):
            self._add(k, leaf, name)
        self.statics = keys
        self.key = self._key(args, keys)

    def _key(self, args: tuple[Any, ...], keys: list[Any]) -> Any:
        if not (keys or self.named) and len(self.leaves) == len(args) and all(map(operator.is_, self.leaves, args)):
            parts: list[Any] = []  # leaves only, as the fast path has it
            for spec in self.specs:
                if isinstance(spec, type):
                    parts.append(spec)
                else:
                    parts += spec
            return tuple(parts)
        return (tree_key(self.tree), frozenset(keys), *self.specs)

    def _add(self, k: int, leaf: Any, name: str) -> None:
        kind = type(leaf)
        if kind in DTYPES:
            self.specs.append(kind)
            self.values.append(DTYPES[kind].type(leaf) if kind is not int else _int64(leaf, name))
        elif isinstance(leaf, TracedNumber):
            self.is_traced = True
            self.specs.append(leaf.kind)
            self.values.append(leaf.strong())
        elif isinstance(leaf, Tracer):
            self.is_traced = True
            self.specs.append((leaf.shape, leaf.dtype))
            self.values.append(leaf)
        elif isinstance(leaf, ARRAYS):
            value = as_value(leaf, f"an argument of {name}")
            self.specs.append((value.shape, value.dtype))
            self.values.append(value)
        elif hasattr(kind, "__functrace_jit__"):
            raise BoxedArrays(kind.__functrace_jit__)
        else:
            raise ArgumentError(
                f"jit of {name}: {argument_names(self.tree)[k]} is a {kind.__name__}, not an array or a number",
                fix="name it in static_argnums or static_argnames if it is hashable; None and nests of arrays are fine; "
                + NO_LEAF,
            )

    @property
    def whole_key(self) -> Any:
        """The key with the structure in any case."""
        return (tree_key(self.tree), frozenset(self.statics), *self.specs)

    def arguments(self, leaves: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return args and kwargs with other leaves."""
        placed, named = unflatten(self.tree, leaves)
        static = self.static
        return tuple([static.get(k, x) for k, x in enumerate(placed)]), {
            **named, **{key: value for key, value in static.items() if isinstance(key, str)}
        }  # fmt: skip

    def inputs(self, recording: Recording) -> Called:
        """Make the leaves inputs of a recording, without values; returns args and kwargs."""
        self.numbers = numbers = Numbers(recording, _ONE_PROGRAM_PER_VALUE)
        leaves = [
            numbers.number(spec) if isinstance(spec, type) else recording.new_input(ShapeDtype(*spec)) for spec in self.specs
        ]
        return self.arguments(leaves)

    def names(self) -> list[str | None]:
        """Name the leaves for listings, where keywords do."""
        placed = len(flatten(self.placed)[0])
        found: list[str | None] = [None] * placed
        for key in sorted(self.named):
            count = len(flatten(self.named[key])[0])
            found += [key if count == 1 else None] * count
        return found


def _int64(value: int, name: str) -> np.int64:
    try:
        return np.int64(value)
    except OverflowError:
        raise ArgumentError(
            f"jit of {name}: the integer {value} does not fit into 64 bits", fix="name the argument in static_argnums"
        ) from None


def _static_key(value: object, place: int | str, name: str) -> Any:
    """Return a static value as a key."""
    try:
        return exact_key(value)
    except TypeError:
        way = "a tuple" if isinstance(value, list) else "an object that can be hashed, such as a frozen dataclass"
        if isinstance(value, (Tracer, np.ndarray)):
            way = "arrays without static_argnums"
        raise ArgumentError(
            f"jit of {name}: the static argument {place!r} is a {type(value).__name__}, which cannot be hashed",
            fix=f"pass {way}",
        ) from None


def _check_value(owner: object, name: str) -> None:
    """Check that the object of a jitted method is a value: equal by what it holds, so that a change of it is seen.

    Raises:
        ArgumentError: if it is equal by identity only; the staged program would go on with what its attributes were.
    """
    kind = type(owner)
    if kind.__eq__ is object.__eq__ or kind.__hash__ is object.__hash__:
        raise ArgumentError(
            f"jit of {name}: it is a method of a {kind.__name__}, whose attributes would be frozen as they are now; a later "
            "change of them would not be seen",
            fix="jit a function that takes the arrays as arguments; or make the class a dataclass, or register it "
            "(functrace.tree.register), so that its arrays are arguments; static_argnums=0 declares that the object never "
            "changes",
        )


_NO_OBJECTS = (*ARRAYS, tuple, list, dict, type(None))


def _is_method_of(owner: object, name: str, jitted: object) -> bool:
    """Whether a first argument is the object whose class has the jitted function as a method, and no pytree or number.

    A dataclass that has a hash, and holds no array, is a value rather than a pytree, unless it is registered.
    """
    if type(owner) in DTYPES or isinstance(owner, _NO_OBJECTS):
        return False
    if inspect.getattr_static(type(owner), name, None) is not jitted:
        return False
    leaves, tree = flatten(owner)
    if tree.is_leaf():
        return True
    return is_value(owner) and not any(isinstance(leaf, ARRAYS) for leaf in leaves)
