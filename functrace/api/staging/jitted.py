"""``jit``: stage a function once per signature, then run generated code.

Note [Signatures and the cache]
    A signature is what a staged program depends on: the structure of the arguments, shape and dtype
    of every array, the Python type of every number, the values of static arguments. A call with a
    cached signature costs the check of the signature (about 0.5 us for one array, 3 us for a hot
    pytree of 20 leaves: api/staging/signature_checks.py) and the generated code. ``cache_info()``
    counts hits, misses and cached programs; ``cache_clear()`` empties the cache; ``why_retraced()``
    reports how the last recorded calls differed from the cached ones. Beyond ``maxsize`` programs,
    the least recently used one is dropped.

Note [Jit inside of transforms]
    On traced values the staged program is applied as one operation (control/call.py), so `jit`
    composes with every other transform, inside and outside.

Note [Guards]
    With ``guards=True``, ``f`` may read concrete values (``if x > 0``, ``while``, ``range(n)``,
    ``x[mask]``). It then runs with concrete values whenever a call takes a new path through it.
    Each value that it reads becomes a guard, which is checked at every call in the order of
    evaluation, and selects the programs of that path. The first call of a path records, the second
    one compiles, and each guard costs about 2 us per call. ``max_paths`` bounds the number of paths
    per signature; ``cache_info()`` counts paths. Guards exclude ``passes`` and donation. See
    docs/python_control_flow.md.

Note [Methods]
    A jitted function in a class binds as a method. Its object is an argument, and must be a
    registered pytree (`functrace.tree.register`), or else a value: hashable and compared by its
    contents, as a frozen dataclass without arrays is. Such a value is a static argument. Any other
    object could change without a new signature, and is refused.

Note [Donation]
    A donated array gives its memory to the results. It cannot be used afterwards: its dtype shows
    this, and operations on it raise. It must own its memory and be writeable. See
    docs/sharp_bits.md.

Note [Passes of one's own]
    ``passes`` are functions from a program to an equal one. They are applied where this function is
    compiled, and not inside of another transform, which compiles another program. A pass receives
    the whole program, and enters the bodies of loops and branches by itself (`Rewrite.keep`). See
    docs/own_transform.md and `functrace.debug.passes`.

Note [Captured values of a staged program]
    Arrays that the function reads from its closure and globals are copied when it is staged, and
    compared with the copies at every call (`functrace.api.staging.guards.CapturedArraysGuard`): arrays that
    were operands, and arrays that its names lead to, since Python may have computed with them. If
    one has changed, the function is staged again. If the new program differs in constants only,
    these become arguments of code that is compiled once. Traced values of an enclosing transform
    are operands of this one call: a program that captured any is not kept. Rebinding a captured
    variable after a program was kept is not detected, whatever the new value is: pass it as an
    argument.

Layer: 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from functrace.api.capture.arguments import ARRAYS, function_name
from functrace.api.capture.programs import trace_concrete
from functrace.api.capture.transformed import transformed
from functrace.api.residuals.context import policy_in_force
from functrace.api.staging.backends import Accuracy, BackendName, chosen_backend, is_for_xla
from functrace.api.staging.disabling import ENTERED, is_diagnosing, is_jit_disabled
from functrace.api.staging.guards import CapturedArraysGuard
from functrace.api.staging.program_cache import (
    ArrayCall,
    CacheInfo,
    GuardsInfo,
    ProgramCache,
    StagedProgram,
)
from functrace.api.staging.signatures import BoxedArrays, Jit, Parameters, Signature
from functrace.errors import ArgumentError, entry
from functrace.executor.config import are_nans_checked
from functrace.executor.nan_checks import has_nan, nan_error
from functrace.executor.runner import WITH_OWN_LINES, run_compiled
from functrace.numpy.arrays.traced_number import DTYPES, TracedNumber
from functrace.passes import Pass, UserPass, as_passes
from functrace.source import hide_own_frames
from functrace.specialize import Miss, Node
from functrace.tracing.binding import renewed
from functrace.tracing.capture import held_array
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, map_leaves, unflatten
from functrace.typing import P, R

Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)


class Jitted(Protocol[P, R_co]):
    """Function (or method) that `jit` returns: like the one it was made from, with a cache.

    For annotations only; ``isinstance`` is not supported.

    Example:
        >>> import functrace as ft
        >>> from functrace.stages import Jitted
        >>> double: Jitted = ft.jit(lambda x: x * 2.0)
        >>> double(1.0), double.cache_info().currsize
        (np.float64(2.0), 1)
    """

    passes: tuple[Pass, ...]
    """The user's passes, and markers that disable the library's."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the program for these arguments, after staging it if their signature is new."""
        ...

    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> Jitted[P, R_co]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Any, Q], R_co], instance: object, owner: type | None = None, /
    ) -> Jitted[Q, R_co]: ...

    def cache_info(self) -> CacheInfo | GuardsInfo:
        """Return the number of cached programs, and of calls that found one."""
        ...

    def cache_clear(self) -> None:
        """Drop all cached programs."""
        ...

    def why_retraced(self) -> str:
        """Report how the last recorded calls differed from the cached signatures."""
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
    passes: Sequence[UserPass] = ...,
    backend: BackendName | None = ...,
    accuracy: Accuracy = ...,
    in_shardings: object = ...,
    out_shardings: object = ...,
    keep_on_device: bool = ...,
    host_callbacks: Sequence[str] = ...,
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
    passes: Sequence[UserPass] = ...,
    backend: BackendName | None = ...,
    accuracy: Accuracy = ...,
    in_shardings: object = ...,
    out_shardings: object = ...,
    keep_on_device: bool = ...,
    host_callbacks: Sequence[str] = ...,
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
    passes: Sequence[UserPass] = ...,
    backend: BackendName | None = ...,
    accuracy: Accuracy = ...,
    in_shardings: object = ...,
    out_shardings: object = ...,
    keep_on_device: bool = ...,
    host_callbacks: Sequence[str] = ...,
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
    passes: Sequence[UserPass] = (),
    backend: BackendName | None = None,
    accuracy: Accuracy = "ulp",
    in_shardings: object = None,
    out_shardings: object = None,
    keep_on_device: bool = False,
    host_callbacks: Sequence[str] = (),
) -> Any:
    """Make a function that computes ``f`` by generated code, compiled once per signature.

    The notes of the module `functrace.api.staging.jitted` describe caching, guards, methods,
    donation and captured values.

    Args:
        f: a function of arrays, numbers and pytrees of them. It runs when a signature is new, on
            abstract values. Left out, ``jit`` is a decorator with arguments.
        static_argnums: positions of arguments that are passed to ``f`` unchanged, and must be
            hashable. ``f`` is staged once per value of them.
        static_argnames: names of such arguments. A parameter given either way is static however it
            is passed.
        donate_argnums: positions of arguments whose memory may be reused for results. They cannot
            be used after the call.
        donate_argnames: names of such arguments.
        maxsize: number of programs to keep; the least recently used one is dropped first.
        guards: True to let ``f`` read concrete values (``if x > 0``, ``range(n)``); one program is
            kept per path through ``f``.
        max_paths: with guards, number of paths to keep per signature; the least recently used one
            is dropped first.
        passes: functions from a program to an equal one, which are applied before this function is
            compiled.
        backend: "xla" for a function that XLA compiles, through JAX (the extra ``xla``); "numpy" for
            generated NumPy code; "native" for machine code, which
            LLVM makes in 20 to 500 ms (the extra ``native``). Operations without a native form run
            in NumPy. Machine code returns NumPy's results up to rounding. "auto": NumPy code first,
            machine code once a program has been called 32 times; it is compiled in another thread,
            and has to be faster on the next calls where arrays are large or parts run in NumPy.
            By default likewise, but after 1,000 calls, and only programs whose
            results then equal NumPy's to the bit; `functrace.config.native` changes that.
        accuracy: "ulp" for elementary functions and small products that machine code computes
            itself, with errors of about one unit in the last place; "numpy" for results that equal
            NumPy's to the bit: these functions then run in NumPy, which splits the program. It
            is for ``backend="native"`` and "auto". `functrace.debug.explain` shows what runs in NumPy.
        in_shardings, out_shardings: with ``backend="xla"``, shardings of JAX for the arguments and the
            results: ``NamedSharding`` and the like, or pytrees of them that are prefixes of theirs.
        keep_on_device: with ``backend="xla"``, True to return JAX's arrays, which stay on their
            devices; they may be arguments in any case.
        host_callbacks: with ``backend="xla"``, names of primitives without a form in XLA that may run
            in NumPy, on the host.

    Returns:
        a function with the results of ``f``, as fresh arrays; a Python number becomes a NumPy
        scalar. It has the methods ``cache_info()``, ``cache_clear()`` and ``why_retraced()``.

    Raises:
        ConcretizationError: if ``f`` reads a concrete value (``if x > 0``, ``range(n)``) without
            guards.
        ArgumentError: if a static argument cannot be hashed, or an argument is neither static nor
            numeric; if a method's object could change unnoticed; if a donated array is a view,
            read-only, or passed twice; for guards together with passes or donation; for an
            unknown backend or accuracy, or an accuracy that the backend does not have.
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
        the first call with a signature records and compiles, about 30 us per operation. Later ones
        add about 0.5 us to the generated code.
    """
    options: dict[str, Any] = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "maxsize": maxsize,
    }
    options |= {"guards": guards, "max_paths": max_paths, "passes": passes, "backend": backend}
    options["accuracy"] = accuracy
    on_device = {
        "in_shardings": in_shardings,
        "out_shardings": out_shardings,
        "keep_on_device": keep_on_device,
        "host_callbacks": frozenset(host_callbacks),
    }
    options |= on_device
    rows = as_passes(passes, "jit")
    if rows and guards:
        raise ArgumentError(
            "jit: with guards=True, pieces of a program are compiled separately, but passes= need "
            "the whole program",
            fix="omit guards=True or passes=",
        )
    if f is None:
        return functools.partial(
            jit, **options, donate_argnums=donate_argnums, donate_argnames=donate_argnames
        )
    name = function_name(f)
    statics = Parameters(f, static_argnums, static_argnames, "static")
    donated = Parameters(f, donate_argnums, donate_argnames, "donate")
    if donated.any and (guards or donated.both(statics)):
        what = "jit with guards" if guards else "a static argument"
        raise ArgumentError(
            f"jit of {name}: {what} takes no donated arrays", fix="omit donate_argnums"
        )
    compiler = chosen_backend(backend, accuracy, **on_device)
    cache = ProgramCache(f, name, donated, rows, maxsize, max_paths if guards else None, compiler)
    device_arrays = compiler.arrays() if is_for_xla(compiler) else ()
    first, tick, often = cache.root.next, cache.tick, cache.often
    is_static, ndarray, on_devices = statics.any, np.ndarray, cache.device_arrays
    others: dict[object, Callable[..., Any]] = {}

    def again(key: object, of_arrays: Callable[..., Any]) -> Callable[..., Any]:
        found = others.get(key)
        if found is None:
            found = others[key] = jit(of_arrays, **options)
        return found

    @transformed("jit", f)
    def jitted(*args: object, **kwargs: object) -> Any:
        try:
            policy: Any = None
            if ENTERED:
                if is_jit_disabled() or is_diagnosing():
                    return _plainly(f, statics, args, kwargs, name, jitted, again)
                if are_nans_checked() and not _checking.get():
                    return _checked(f, statics, donated, args, kwargs, name, jitted, again)
                policy = policy_in_force()
            values: Any = args
            found: Any = None
            miss: Any = None
            call: Any = None
            if (
                not kwargs and not is_static and policy is None
            ):  # arrays and floats by position: inlined `Signature`
                if (
                    len(args) == 1 and type(x := args[0]) is ndarray and (shape := x.shape)
                ):  # 0.1 us faster
                    found = first.get((shape, x.dtype))
                else:
                    parts: list[Any] = []
                    for x in args:
                        if type(x) is ndarray and (
                            shape := x.shape
                        ):  # (a 0-d array has the signature of a scalar)
                            parts += (shape, x.dtype)
                        elif type(x) is float:
                            parts.append(float)
                            values = ()
                        elif type(x) in on_devices:
                            array: Any = x
                            parts += (array.shape, array.dtype)
                        else:
                            break
                    else:
                        found = first.get(tuple(parts))
                        if found is not None and not values:
                            values = [np.float64(x) if type(x) is float else x for x in args]
            if found is None and policy is None:
                for check, key in often:
                    checked = check(args, kwargs)
                    if checked is not None:
                        values, found = checked, first.get(key)
                        break
            if found is not None:
                if (
                    found.__class__ is Node
                    and (guard := found.guard).__class__ is CapturedArraysGuard
                ):  # inlined `Table.follow`
                    found = found.next.get(guard.outcome(None))
                if found.__class__ is StagedProgram:
                    found.used = tick()
                    run = found.run
                    results = (
                        run(*values)
                        if run.__class__ in WITH_OWN_LINES
                        else run_compiled(run, values)
                    )
                    return results[0] if found.is_leaf else unflatten(found.out_tree, results)
                if found is not None:
                    call = ArrayCall(values)
                    miss = cache.followed(found, call)
                    if miss.__class__ is not Miss:
                        return miss.applied(call)
            try:
                signature = Signature(statics, args, kwargs, name, jitted, device_arrays, policy)
            except BoxedArrays as boxed:
                return boxed.run(again, f, args, kwargs)
            if guards and signature.is_traced:
                return _inline(f, signature)
            if miss is None:
                found = cache.followed(cache.root, signature)
                if found.__class__ is not Miss:
                    cache.note_call(signature, found)
                    return found.applied(signature)
                miss = found
            else:
                signature.variables = call.variables
            return cache.first_call(signature, miss)
        except BaseException as error:
            hide_own_frames(error)
            raise

    cache.bind(jitted)
    jitted.cache_info = cache.info  # type: ignore[attr-defined]
    jitted.cache_clear = cache.clear  # type: ignore[attr-defined]
    jitted.why_retraced = cache.retraces.text  # type: ignore[attr-defined]
    jitted.passes = tuple(rows)  # type: ignore[attr-defined]
    jitted.backend = compiler  # type: ignore[attr-defined]
    jitted.device_arrays = device_arrays  # type: ignore[attr-defined]
    jitted.donated = donated  # type: ignore[attr-defined]
    return jitted


def _inline(f: Callable[..., Any], signature: Signature) -> Any:
    """Call a function with guards on traced values: the enclosing recording provides the values
    that it reads.
    """
    copies = [
        renewed(x) if isinstance(x, Tracer) and not x.is_number else held_array(x)
        for x in signature.leaves
    ]
    args, kwargs = signature.arguments(copies)
    return map_leaves(_fresh, f(*args, **kwargs))


def _fresh(leaf: Any) -> Any:
    """Copy a result, so that it shares no memory with an argument."""
    if isinstance(leaf, TracedNumber):
        leaf = leaf.strong()
    if isinstance(leaf, Tracer):
        return renewed(leaf)
    return np.copy(leaf)[()] if isinstance(leaf, (*ARRAYS, *DTYPES)) else leaf


_checking: ContextVar[bool] = ContextVar("whether results are searched for NaN", default=False)


def _checked(
    f: Callable[..., Any],
    statics: Parameters,
    donated: Parameters,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    jitted: Callable[..., Any],
    again: Jit,
) -> Any:
    """Call a jitted function, and raise if its result has NaN; see ``config.check_nans``."""
    try:
        signature = Signature(statics, args, kwargs, name, jitted, jitted.device_arrays)  # type: ignore[attr-defined]
    except BoxedArrays as found:
        return found.run(again, f, args, kwargs)
    leaves: list[Any] = list(signature.leaves)
    if donated.any and not signature.is_traced:
        leaves = [np.copy(x) if type(x) is np.ndarray else x for x in leaves]
    token = _checking.set(True)
    try:
        result = jitted(*args, **kwargs)
    finally:
        _checking.reset(token)
    if signature.is_traced or not has_nan(flatten(result)[0]):
        return result
    values: list[Any] = [x if type(x) in DTYPES else np.asarray(x) for x in leaves]

    def called(*leaves: Any) -> Any:
        args, kwargs = signature.arguments(leaves)
        return f(*args, **kwargs)

    from functrace.diagnostics.report import explain_program

    program, inputs = trace_concrete(called, tuple(values), {}, f"jit of {name}")
    raise nan_error(explain_program(program, inputs), name)


def _plainly(
    f: Callable[..., Any],
    statics: Parameters,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    jitted: object,
    again: Jit,
) -> Any:
    """Call a function without staging, on copies of its arguments; see `disable_jit`."""
    try:
        signature = Signature(statics, args, kwargs, name, jitted)
    except BoxedArrays as found:
        return found.run(again, f, args, kwargs)
    args, kwargs = signature.arguments(
        [x if type(x) in DTYPES else _fresh(x) for x in signature.leaves]
    )
    return map_leaves(_fresh, f(*args, **kwargs))
