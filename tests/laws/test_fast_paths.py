"""The inlined fast paths of recording record exactly what `bind` records, and raise what it raises.

The tests collect the inlined operators from the class of traced arrays, so that the law covers new
ones, too.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.numpy.arrays.arithmetic import repeats
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.arrays.traced_array import BINARY, TracedArray, record_one
from functrace.numpy.protocol.without_masks import is_masked, operands_without_masks
from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.naming import name_p
from functrace.ops.reductions import reduce_max_p, reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p
from functrace.tracing.binding import BODY, bind
from functrace.tracing.recording import Recording

AVALS = [
    ShapeDtype(shape, np.dtype(dtype))
    for shape in ((), (3,), (2, 3))
    for dtype in (bool, np.int8, np.uint64, np.int64, np.float32, np.float64, np.complex64)
]
PLAIN: list[Any] = [
    True, 0, -3, 300, 2**70, 1.5, -0.0, float("inf"), float("nan"), 1 - 2j, np.float32(2.5),
    np.int8(3), np.bool_(True),
    np.float64(0.1), np.arange(3.0), np.arange(3), np.array(2.0), np.ones((2, 3), np.float32),
    np.zeros((4,)), "text", None,
    [1.0, 2.0, 3.0], (1, 2, 3), np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
    np.ma.masked_array([1.0, 2.0, 3.0]), object(), np.array(["a"]), 1 << 63,
]  # fmt: skip


class Inline(NamedTuple):
    """An operator of traced arrays: its name, what it applies, and whether it is reflected."""

    name: str
    primitive: Primitive
    reflected: bool


def _inline_operators() -> Iterator[Inline]:
    for name, value in vars(TracedArray).items():
        code = getattr(value, "__code__", None)
        if code is not None and {"primitive", "reflected"} <= {*code.co_freevars}:
            held = {
                name: cell.cell_contents
                for name, cell in zip(code.co_freevars, value.__closure__, strict=True)
            }
            yield Inline(name, held["primitive"], held["reflected"])


INLINE = list(_inline_operators())


class Scene:
    """Recordings inside one another, the innermost of which may be a body; the same ones every time
    it is made.
    """

    def __init__(self, *, body: bool) -> None:
        self.outer = ArrayRecording("outer")
        self.inner = ArrayRecording("inner")
        self.body = ArrayRecording("body", scope=BODY) if body else None

    def __enter__(self) -> Scene:
        for recording in self.all:
            recording.__enter__()
        return self

    def __exit__(self, *rest: Any) -> None:
        for recording in reversed(self.all):
            recording.__exit__(None, None, None)

    @property
    def all(self) -> list[Recording]:
        return [r for r in (self.outer, self.inner, self.body) if r is not None]

    def operand(self, spec: Any) -> Any:
        """A new traced operand (``(name of the recording, aval)``), or the plain value itself."""
        if type(spec) is tuple and len(spec) == 2 and isinstance(spec[1], ShapeDtype):
            recording = getattr(self, spec[0])
            return (self.inner if recording is None else recording).new_input(spec[1])
        return spec

    def tapes(self) -> list[Any]:
        """Everything that has been recorded, in a form that can be compared."""
        found = []
        for r in self.all:
            ops = [(p.name, id(p), operands, params) for p, operands, params in r.ops]
            constants = [
                (
                    k,
                    (v.ft_recording.owner, v.ft_variable)
                    if isinstance(v, ft.Tracer)
                    else np.asarray(v).tobytes(),
                )
                for k, v in r.constants.items()
            ]
            lines = [p[0].co_filename for p in r.positions or () if isinstance(p, tuple)]
            numbers = [(type(x), repr(x)) for x in r.literals]
            found.append((ops, [str(a) for a in r.avals], numbers, constants, lines))
        return found


def outcome(apply: Callable[[Any, Any], Any], left: Any, right: Any, *, body: bool) -> Any:
    """The recorded operations of two applications (the first one takes the slow path), and their
    errors.
    """
    with Scene(body=body) as scene, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = scene.operand(left), scene.operand(right)
        seen: list[Any] = []
        for _ in range(2):
            try:
                result = apply(x, y)
                seen.append(
                    result
                    if result is NotImplemented
                    else (str(getattr(result, "aval", None)), type(result).__name__)
                )
            except Exception as error:
                seen.append((type(error), str(error).splitlines()[0]))
        return seen, scene.tapes()


def test_inlined_operators_are_found() -> None:
    assert {i.name for i in INLINE} >= {
        "__add__",
        "__rsub__",
        "__mul__",
        "__lt__",
        "__eq__",
        "__matmul__",
        "__and__",
    }


@pytest.mark.sampled(16)
@pytest.mark.parametrize("inline", INLINE, ids=lambda i: i.name)
def test_an_inlined_operator_records_what_bind_records(inline: Inline) -> None:
    operator = getattr(TracedArray, inline.name)

    def bound(x: Any, y: Any) -> Any:
        if (
            inline.primitive is ew.mul
            and type(y) in (list, tuple)
            and not x.aval.shape
            and repeats(x)
        ):
            return NotImplemented  # NumPy's scalars repeat a sequence, as Python's numbers do, where np.multiply does not
        pair = (y, x) if inline.reflected else (x, y)
        return bind(
            inline.primitive,
            operands_without_masks(inline.primitive, pair) if is_masked(type(y)) else pair,
        )

    traced = [(home, aval) for home in ("inner", "outer") for aval in AVALS[::3]]
    for left, right in itertools.chain(
        itertools.product([("inner", aval) for aval in AVALS], [*PLAIN, ("inner", AVALS[0])]),
        itertools.product(traced, [*traced, ("body", AVALS[5])]),
    ):
        if (
            right is None or type(right) is str
        ):  # no operator for these, and == and != say no at once
            continue
        for body in (False, True):
            fast, long = (outcome(f, left, right, body=body) for f in (operator, bound))
            assert fast == long, (inline.name, left, right, body)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("ufunc", list(BINARY), ids=lambda u: u.__name__)
def test_a_ufunc_of_two_operands_records_what_bind_records(ufunc: np.ufunc) -> None:
    def bound(x: Any, y: Any) -> Any:
        return bind(ew.UFUNCS[ufunc], (x, y))

    numbers = [True, 0, -3, 300, 2**70, 1.5, -0.0, float("nan"), 1 - 2j]
    traced = [(home, aval) for home in ("inner", "outer") for aval in AVALS[::4]]
    for left, right in itertools.chain(
        itertools.product(traced, [*traced, *numbers]),
        itertools.product(numbers, [("inner", AVALS[5]), ("outer", AVALS[8])]),
    ):
        for body in (False, True):
            fast, long = (outcome(f, left, right, body=body) for f in (ufunc, bound))
            assert fast == long, (ufunc, left, right, body)


UNARY = [
    p
    for p in Program.primitives.values()
    if isinstance(p, ew.Elementwise) and getattr(p.eval, "nin", 0) == 1
]
WITH_PARAMS: list[tuple[Primitive, tuple[Any, ...]]] = [
    (reduce_sum_p, ((0,),)), (reduce_max_p, ((0, 1),)), (reshape_p, ((3, 2),)), (permute_p, ((1,
    0),)),
    (broadcast_to_p, ((5, 2, 3),)), (name_p, ("y",)),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("primitive", [*UNARY, *[p for p, _ in WITH_PARAMS]], ids=lambda p: p.name)
def test_an_inlined_unary_operation_records_what_bind_records(primitive: Primitive) -> None:
    params = dict(WITH_PARAMS).get(primitive, ())
    for operand in [
        *[(home, aval) for home in ("inner", "outer", "body") for aval in AVALS],
        1.5,
        np.ones((2, 3)),
    ]:
        for body in (False, True):
            fast = outcome(lambda x, _: record_one(primitive, x, params), operand, None, body=body)
            long = outcome(lambda x, _: bind(primitive, (x,), params), operand, None, body=body)
            assert fast == long, (primitive, operand, body)
            if not params:
                called = outcome(lambda x, _: primitive(x), operand, None, body=body)  # type: ignore[operator]
                assert called == long, (primitive, operand, body)


@pytest.mark.parametrize("aval", AVALS[7:], ids=str)
def test_inlined_indexing_records_what_bind_records(aval: ShapeDtype) -> None:
    indices: list[Any] = [
        0,
        -1,
        2,
        5,
        slice(None),
        slice(1, None),
        slice(None, None, -1),
        slice(0, 0),
        slice(-2, 9, 2),
    ]
    for index in indices:
        form = index if type(index) is int else (index.start, index.stop, index.step)
        for body in (False, True):
            for home in ("inner", "outer"):
                fast = outcome(lambda x, _: x[index], (home, aval), None, body=body)
                long = outcome(lambda x, _: index_static(x, (form,)), (home, aval), None, body=body)
                if any(
                    type(seen[0]) is type and issubclass(seen[0], Exception) for seen in fast[0]
                ):
                    fast, long = ([seen[0] for seen in found[0]] for found in (fast, long))
                assert fast == long, (index, home, body)


def test_a_program_of_inlined_operators_equals_that_of_bind() -> None:
    def f(x: Any, y: Any) -> Any:
        return -((x * 2.0 + y[1:] / 3) ** 2) @ x - abs(y[0])

    def bound(x: Any, y: Any) -> Any:
        total = bind(
            ew.add, (bind(ew.mul, (x, 2.0)), bind(ew.div, (index_static(y, ((1, None, None),)), 3)))
        )
        square = bind(ew.square, (total,))
        return bind(
            ew.sub, (bind(ew.neg, (square,)) @ x, bind(ew.absolute, (index_static(y, (0,)),)))
        )

    x, y = np.ones(3), np.arange(4.0)
    assert ft.trace(f)(x, y) == ft.trace(bound)(x, y)
