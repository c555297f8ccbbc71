"""Opaque user functions, called on plain arrays: NumPy, SciPy, numba or compiled code.

Note [Foreign functions]
    A `ForeignFunction` function gets arrays of its own, which it may write into and keep; its results are
    checked against the declaration, and copied, since a function may return a buffer that it
    reuses. It is declared pure, so a call with dead results is dropped; like other operations that
    may raise, it is called during recording if its operands have concrete values.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.errors import DtypeError, NotDifferentiableError, ProgramError, ShapeError, TreeError
from functrace.ir.aval import ShapeDtype, aval_of, check_plain, shape_of
from functrace.ir.primitive import Flags, Primitive, Tangents, Values, absent, always
from functrace.ir.tape import Spec
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.tree import flatten
from functrace.tree.describing import difference
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.tree import PyTreeSpec

METHODS = ("sequential", "expand_dims", "broadcast_all")
"""Mapping of a foreign function: one call per example; one call on arrays whose missing batch axes
have size 1; one call on arrays that all have the batch axis."""

Maps = tuple[tuple[int, tuple[bool, ...]], ...]
"""Batch axes of a call, from the first mapped one on: size, and which operands have it."""

_made: ContextVar[tuple[ForeignFunction, list[Any]] | None] = ContextVar(
    "what a foreign function has just returned", default=None
)


@final
class ForeignFunction:
    """A user function as a param of an operation.

    Args:
        function: function of the operands' values; returns a pytree.
        key: equality key of the param.
        name: name in messages.
        tree: pytree structure of the result.
    """

    __slots__ = ("function", "key", "name", "tree")

    def __init__(
        self, function: Callable[..., Any], key: Hashable, name: str, tree: PyTreeSpec
    ) -> None:
        self.function, self.key, self.name, self.tree = function, key, name, tree

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ForeignFunction) and self.key == other.key and self.tree == other.tree
        )

    def __reduce__(self) -> Any:
        raise ProgramError(
            f"a program calls the Python function {self.name}, so it cannot be pickled",
            fix="pickle the function, by its module-level name, and trace it again where it is "
            "needed",
        )

    def __call__(self, values: Sequence[Any], wanted: Sequence[ShapeDtype]) -> list[Any]:
        """Call the function on unshared arrays; return its results, also unshared."""
        made = _made.get()
        if made is not None and made[0] is self:
            return made[1]
        return self.checked(self.function(*map(_own, values)), wanted)

    def checked(self, result: object, wanted: Sequence[ShapeDtype]) -> list[Any]:
        """Return the leaves of a result, checked against the declaration.

        Raises:
            TreeError, ShapeError, DtypeError: with the leaf.
        """
        leaves, tree = flatten(result)
        if tree != self.tree:
            path, returned, declared = difference(tree, self.tree)
            place = f" as result{path}" if path else ""
            what = f"{self.name} returned {returned}{place}, but {declared} was declared"
            raise TreeError(what, fix="declare what it returns (results=)")
        several = len(leaves) > 1
        return [
            _checked(
                leaf,
                aval,
                f"result {k} of {self.name}" if several else f"the result of {self.name}",
            )
            for k, (leaf, aval) in enumerate(zip(leaves, wanted, strict=True))
        ]


@contextmanager
def returning(foreign: ForeignFunction, results: list[Any]) -> Generator[None]:
    """Context in which a foreign function that was just called returns the same results again."""
    token = _made.set((foreign, results))
    try:
        yield
    finally:
        _made.reset(token)


def as_declared(results: Iterable[Any], avals: Sequence[ShapeDtype]) -> list[Any]:
    """Cast a solver's results to the declared dtypes, within a kind: it may use wider ones."""
    arrays = map(np.asarray, results)
    return [
        array.astype(aval.dtype) if np.can_cast(array.dtype, aval.dtype, "same_kind") else array
        for array, aval in zip(arrays, avals, strict=True)
    ]


def _own(value: Any) -> Any:
    one: object = value
    return np.array(value) if isinstance(one, np.ndarray) else value


def _checked(leaf: Any, aval: ShapeDtype, what: str) -> Any:
    one: object = leaf
    if isinstance(one, np.ndarray) and type(leaf) is not np.ndarray:
        try:
            check_plain(leaf)
        except DtypeError as error:
            raise DtypeError(f"{what}: {error.what}", fix=error.fix) from None
    array: Array = np.asarray(leaf)
    if array.dtype.kind not in "biufc":
        shown = (
            f"an array of {array.dtype}"
            if isinstance(one, np.ndarray)
            else f"a {type(leaf).__name__}"
        )
        raise DtypeError(
            f"{what} is {shown}, but {aval} was declared", fix="return arrays and numbers"
        )
    if array.shape != aval.shape:
        raise ShapeError(
            f"{what} is {aval_of(array)}, but {aval} was declared",
            fix=f"declare the shape {array.shape}",
        )
    # A Python number takes the declared dtype if NumPy's arithmetic would keep it; arrays must have
    # it.
    found = (
        np.result_type(leaf, aval.dtype)
        if type(leaf) in (bool, int, float, complex)
        else array.dtype.newbyteorder("=")
    )
    if found != aval.dtype:
        raise DtypeError(
            f"{what} is {aval_of(array)}, but {aval} was declared",
            fix=f"declare the dtype {array.dtype}, or return it with .astype(np.{aval.dtype})",
        )
    return np.array(leaf, aval.dtype)[()]


# -- the operation ---------------------------------------------------------------------------------


def _aval(*rest: Any) -> tuple[ShapeDtype, ...]:
    *_, foreign, results, maps, _method = rest
    if type(foreign) is not ForeignFunction:  # a text can name a ufunc, which is callable, too
        raise ProgramError(f"{foreign!r} is no foreign function", fix="use functrace.pure_callback")
    sizes = tuple([size for size, _ in reversed(maps)])
    return tuple([ShapeDtype((*sizes, *aval.shape), aval.dtype) for aval in results])


def _eval(*rest: Any) -> tuple[Any, ...]:
    *values, foreign, results, maps, method = rest
    if method == "sequential" or not maps:
        return tuple(_sequential(foreign, values, results, maps))
    arrays = [
        _with_axes(x, k, maps, broadcast=method == "broadcast_all") for k, x in enumerate(values)
    ]
    return tuple(foreign(arrays, _aval(foreign, results, maps, method)))


def _sequential(
    foreign: ForeignFunction, values: Sequence[Any], results: Sequence[ShapeDtype], maps: Maps
) -> list[Any]:
    """Call the function once per example, along the last mapped axis first."""
    if not maps:
        return foreign(values, results)
    size, flags = maps[-1]
    rows = [
        _sequential(
            foreign,
            [x[i] if flag else x for x, flag in zip(values, flags, strict=True)],
            results,
            maps[:-1],
        )
        for i in range(size)
    ]
    avals = _aval(foreign, results, maps, "")
    return (
        [np.stack(column) for column in zip(*rows, strict=True)]
        if rows
        else [np.zeros(a.shape, a.dtype) for a in avals]
    )


def _with_axes(value: Any, place: int, maps: Maps, *, broadcast: bool) -> Any:
    """Return an operand with an axis for every batch axis, the last mapped one in front."""
    array = np.asarray(value)
    index = tuple([slice(None) if flags[place] else None for _, flags in reversed(maps)])
    array = array[index]
    if not broadcast:
        return array
    return np.broadcast_to(
        array, (*[size for size, _ in reversed(maps)], *array.shape[len(maps) :])
    )


def _jvp(
    primals: Values, outputs: Values, tangents: Tangents, foreign: ForeignFunction, *_: Any
) -> Any:
    if not any(y.dtype.kind in "fc" for y in outputs):
        return [None] * len(outputs)
    raise NotDifferentiableError(
        f"{foreign.name} is foreign code, which has no derivative of its own",
        fix=f"give it one, functrace.primitive({foreign.name}, vjp=…) or jvp=…, or "
        "functrace.custom_vjp around the call; "
        "or pass it functrace.stop_gradient(x)",
    )


def _batch(
    operands: Values,
    is_batched: Flags,
    foreign: ForeignFunction,
    results: tuple[ShapeDtype, ...],
    maps: Maps,
    method: str,
) -> Any:
    size = _size(operands, is_batched)
    return bind(
        callback_p, operands, (foreign, results, (*maps, (size, tuple(is_batched))), method)
    )


def _written(
    write: SourceWriter, specs: Sequence[Spec], foreign: ForeignFunction, *_: Any
) -> Spelling:
    raise ProgramError(
        f"the program calls the Python function {foreign.name}, whose source is not at hand",
        fix="run the program with functrace.evaluate; or leave the call out of what is written",
    )


callback_p = Primitive(
    "callback",
    eval=_eval,
    aval=_aval,
    jvp=_jvp,
    transpose=absent(
        because="foreign code is not linear, for all that is known",
        instead="give it a jvp that is linear",
    ),
    batch=_batch,
    params=("foreign", "results", "maps", "method"),
    many=True,
    written=_written,
    effects=True,
    fails=always,
)
"""``callback x {foreign=…, results=(f64[3],), maps=(), method="sequential"}``: call a Python
function on plain arrays.
"""


def _observed_batch(
    operands: Values,
    is_batched: Flags,
    foreign: ForeignFunction,
    results: tuple[ShapeDtype, ...],
    maps: Maps,
    method: str,
) -> Any:
    *given, token = operands
    if any(is_batched[:-1]):
        return bind(
            observe_p,
            operands,
            (foreign, results, (*maps, (_size(operands, is_batched), tuple(is_batched))), method),
        )
    made = bind(
        observe_p, (*given, token[0] if is_batched[-1] else token), (foreign, results, maps, method)
    )
    size = _size(operands, is_batched)
    return tuple([broadcast_to(y, (size, *shape_of(y))) for y in made])


def _size(operands: Values, is_batched: Flags) -> int:
    return next(shape_of(x)[0] for x, flag in zip(operands, is_batched, strict=True) if flag)


def _no_tangents(
    _primals: Values, outputs: Values, _tangents: Tangents, *_params: object
) -> list[None]:
    return [None] * len(outputs)


observe_p = Primitive(
    "observe",
    eval=_eval,
    aval=_aval,
    jvp=_no_tangents,
    transpose=absent(
        because="to observe a value has no derivative", instead="this is a bug in functrace"
    ),
    batch=_observed_batch,
    params=("foreign", "results", "maps", "method"),
    many=True,
    written=_written,
    effects=True,
    kept=always,
)
"""``observe x t {foreign=…, results=(bool[],), maps=(), method="sequential"}``: a ``callback`` for
its side effect, once in every run. The last operand is unused: any value of the same recording."""


# -- its result, as an operand of custom derivatives -----------------------------------------------


def unknown_transpose() -> NotDifferentiableError:
    """Return the error for transposing foreign code, without a vjp, on a tangent."""
    return NotDifferentiableError(
        "a jvp rule applies foreign code to a tangent, whose transpose is not known",
        fix="give that code a vjp: functrace.primitive(f, vjp=…), beside its jvp",
    )


def _returned_jvp(*_: Any) -> Any:
    raise unknown_transpose()


def _returned_batch(operands: Values, is_batched: Flags) -> Any:
    return bind(returned_p, (with_axis(operands, is_batched), *operands[1:]))


def with_axis(operands: Values, is_batched: Flags) -> Any:
    """Return the first operand, with the batch axis of the others."""
    if is_batched[0]:
        return operands[0]
    size = next(shape_of(x)[0] for x, flag in zip(operands, is_batched, strict=True) if flag)
    return broadcast_to(operands[0], (size, *shape_of(operands[0])))


def first_copied(x: Array, *_rest: object) -> Any:
    """Return a copy of the first operand."""
    return np.copy(x)[()]


def first_aval(x: ShapeDtype, *_rest: object) -> ShapeDtype:
    """Return the aval of the first operand."""
    return x


returned_p = Primitive(
    "returned",
    eval=first_copied,
    aval=first_aval,
    jvp=_returned_jvp,
    transpose=absent(
        because="foreign code is not linear, for all that is known", instead="give it a vjp"
    ),
    batch=_returned_batch,
    written="np.copy({0})[()]",
)
"""``returned y x``: a copy of ``y``, the foreign result for ``x``; derivatives treat it as the
call."""


def returned(y: Value, args: Sequence[Value]) -> Any:
    """Return a copy of a foreign result that depends on the arguments."""
    return bind(returned_p, (y, *args))
