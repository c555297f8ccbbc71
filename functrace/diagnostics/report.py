"""`NanReport`: the operation that made the first NaN or infinity, as data and as text.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.diagnostics.frames import Frame, Step, evaluate_frame
from functrace.diagnostics.origins import (
    Ancestry,
    Kind,
    Origin,
    any_origin,
    first_origin,
    mask_of,
    results_mask,
    root_of,
    trace_back,
)
from functrace.diagnostics.reasons import local_derivative, number, remedy
from functrace.ir.check import sub_programs_of
from functrace.ir.program import Position, Program
from functrace.ir.text import equation_text
from functrace.ops.broadcasting import Elementwise
from functrace.source import Source
from functrace.tracing.recording import Recording

MOST_SHOWN = 6
"""Lines of the way to the result that a report shows."""


@final
@dataclass(frozen=True, slots=True)
class OperandValues:
    """Values of an operand.

    Args:
        name: of the variable, or the number itself.
        aval: shape and dtype, as text; empty for a number.
        at: the value from which the offending element was made, if that is one.
        low, high: least and greatest finite value; ``None`` if there is none, or if it is complex.
        nans, infs: how many elements are NaN, and infinite.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> report = ft.debug.explain_nan(np.log)(np.array([2.0, -1.0]))
        >>> print(report.nan.operands[0])
        x: f64[2] = -1 there, between -1 and 2
    """

    name: str
    aval: str
    at: Any
    low: float | None
    high: float | None
    nans: int
    infs: int

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.aval}" if self.aval else f"{self.name}"]
        if self.at is not None and self.aval:
            parts.append(f"= {number(self.at)} there")
        if self.low is not None and self.high is not None and self.low != self.high:
            parts.append(f"between {number(self.low)} and {number(self.high)}")
        counted = [f"{n} {word}" for n, word in ((self.nans, "nan"), (self.infs, "inf")) if n]
        return ", ".join([" ".join(parts[:2]), *parts[2:], *counted])


@final
@dataclass(frozen=True, slots=True)
class NonfiniteOrigin:
    """One operation that made a NaN or an infinity from other values.

    Args:
        kind: ``"nan"`` or ``"inf"``.
        operation: the equation, as in listings.
        primitive: name of its primitive.
        source: the user's line; ``None`` if it is not known.
        index: index of the first such element of the result.
        count: number of such elements.
        size: number of elements of the result.
        operands: values of the operands.
        steps: steps of loops, and branches, the outermost first.
        examples: indices of the example under `functrace.vmap`, the outermost first.
        derivative: the derivative that the operation computes, e.g. ``"d sqrt(x)/dx at x = 0 is
            inf"``; empty if none is known.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> origin = ft.debug.explain_nan(np.log)(np.array([2.0, -1.0])).nan
        >>> origin.primitive, origin.index, origin.count
        ('log', (1,), 1)
    """

    kind: Kind
    operation: str
    primitive: str
    source: Source | None
    index: tuple[int, ...]
    count: int
    size: int
    operands: tuple[OperandValues, ...]
    steps: tuple[Step, ...]
    examples: tuple[int, ...]
    derivative: str

    @property
    def where(self) -> str:
        """The user's line, the example, the steps of loops."""
        parts = [str(self.source) if self.source is not None else "a line that is not known"]
        parts += [f"example {n} of vmap" for n in self.examples]
        parts += [str(step) for step in self.steps]
        return "\n    ".join(parts)

    def __str__(self) -> str:
        lines = [f"  at {self.where}", f"    {self.operation}"]
        place = f" at {list(self.index)}" if self.index else ""
        count = f" ({self.count} of {self.size} elements)" if self.size > 1 else ""
        lines.append(f"    its result is {self.kind}{place}{count}")
        lines += [f"    {operand}" for operand in self.operands]
        if self.derivative:
            lines.append(f"    {self.derivative}")
        elif self.kind == "nan" and self.primitive in _SIGNS:
            values = [x.at for x in self.operands if x.at is not None]
            if len(values) == 2 and any_infinite(tuple(values)):
                lines.append(
                    f"    {number(values[0])} {_SIGNS[self.primitive]} {number(values[1])} is nan"
                )
        return "\n".join(lines)


_SIGNS = {"mul": "times", "sub": "minus", "add": "plus", "div": "divided by"}


@final
@dataclass(frozen=True, slots=True)
class NanReport:
    """Report of `functrace.debug.explain_nan`; prints as text, and is true if it found something.

    Args:
        first: the operation that made the first infinity that became a NaN, or the first NaN, or,
            in a result without NaN, the first infinity; ``None`` if there is none.
        nan: the operation that made the first NaN; ``None`` if there is none.
        given: for results that are NaN, or infinite, since an argument or a constant is: which.
        unused: True if no result depends on the elements that are NaN, or infinite.
        path: the user's lines from there to the results.
        results: number of NaN and infinite elements of each result.
        remedy: what to do; empty if no remedy is known.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> report = ft.debug.explain_nan(ft.grad(lambda x: np.sum(np.sqrt(x) * 0.0)))(np.zeros(2))
        >>> report.first.derivative, report.nan.primitive
        ('d sqrt(x)/dx at x = 0 is inf', 'mul')
        >>> bool(ft.debug.explain_nan(np.sin)(np.zeros(2)))
        False
    """

    first: NonfiniteOrigin | None
    nan: NonfiniteOrigin | None
    given: str
    unused: bool
    path: tuple[Source, ...]
    results: tuple[tuple[int, int], ...]
    remedy: str

    def __bool__(self) -> bool:
        return self.first is not None or bool(self.given)

    def __str__(self) -> str:
        if self.first is None:
            if self.given:
                return f"no operation made a NaN or an infinity: {self.given}"
            return "no result is NaN or infinite, and no operation made a NaN or an infinity"
        lines = [f"the first {self.first.kind}:", str(self.first)]
        if self.nan is not None and self.nan is not self.first:
            lines += ["it becomes nan:", str(self.nan)]
        if self.unused:
            lines.append("no result depends on it: all are finite")
        else:
            counted = [
                f"result {n}: {nans} nan, {infs} inf"
                if len(self.results) > 1
                else f"{nans} nan, {infs} inf in the result"
                for n, (nans, infs) in enumerate(self.results)
                if nans or infs
            ]
            if self.path:
                lines.append("on its way to the result:")
                lines += [f"  {source}" for source in self.path[:MOST_SHOWN]]
                if len(self.path) > MOST_SHOWN:
                    lines.append(f"  and {len(self.path) - MOST_SHOWN} more lines")
            lines += counted
        if self.remedy:
            lines.append(f"fix: {self.remedy}")
        return "\n".join(lines)


@final
@dataclass(frozen=True, slots=True)
class MappedLines:
    """The operations that a call of `functrace.vmap` recorded.

    Args:
        size: number of examples.
        shapes: by position in the user's code, the shapes of one example's results.
    """

    size: int
    shapes: Mapping[tuple[Any, int], frozenset[tuple[int, ...]]]


def mapped_lines(recording: Recording, size: int) -> MappedLines:
    """Return the operations that a call of `functrace.vmap` recorded, those of sub-programs too.

    Args:
        recording: of one example.
        size: number of examples.
    """
    shapes: dict[Any, set[tuple[int, ...]]] = {}
    programs: dict[Program, None] = {}
    for i, position in enumerate(recording.positions or ()):
        if isinstance(position, tuple):
            shapes.setdefault(position, set()).add(recording.avals[i].shape)
    left: list[Sequence[Any]] = list(recording.params)
    while left:
        for param in left.pop():
            for _, program in sub_programs_of(param, ""):
                if program in programs:
                    continue
                programs[program] = None
                for k, (_, _, params) in enumerate(program.ops):
                    position = program.position(k)
                    if position is not None:
                        shapes.setdefault(position, set()).add(program.avals[k].shape)
                    left.append(params)
    return MappedLines(size, {k: frozenset(v) for k, v in shapes.items()})


def explain_program(
    program: Program,
    arguments: Sequence[Any],
    lines: Sequence[Position] = (),
    mapped: Sequence[MappedLines] = (),
) -> NanReport:
    """Evaluate a program, and report the operation that made the first NaN or infinity.

    Args:
        program: the program.
        arguments: plain values, one per input.
        lines: positions of the recording, for a cached program.
        mapped: calls of `functrace.vmap`, the innermost first.
    """
    frame = evaluate_frame(program, arguments, lines)
    results = tuple([_counts(frame.values[i]) for i in program.output_ids])
    kinds: tuple[Kind, ...] = ("nan", "inf")
    for kind in kinds:
        start = results_mask(frame, kind)
        if not start:
            continue
        ancestry = trace_back(frame, start, kind)
        origin = first_origin(frame, ancestry, kind)
        if origin is None:
            given = _given(frame, ancestry, kind)
            return NanReport(None, None, given, False, (), results, "")
        k = min(ancestry.origins)
        return _report(origin, results, mapped, path=_path(frame, k, ancestry))
    return _unused(frame, results, mapped)


def _unused(
    frame: Frame, results: tuple[tuple[int, int], ...], mapped: Sequence[MappedLines]
) -> NanReport:
    """Report the first NaN, or else infinity, that an operation made, although no result has it."""
    kinds: tuple[Kind, ...] = ("nan", "inf")
    for kind in kinds:
        origin = any_origin(frame, kind)
        if origin is not None:
            return _report(origin, results, mapped, unused=True)
    return NanReport(None, None, "", False, (), results, "")


def _report(
    origin: Origin,
    results: tuple[tuple[int, int], ...],
    mapped: Sequence[MappedLines],
    *,
    path: tuple[Source, ...] = (),
    unused: bool = False,
) -> NanReport:
    root = root_of(origin)
    nan = described(origin, mapped) if origin.kind == "nan" else None
    if root is None:
        first, chosen = nan if nan is not None else described(origin, mapped), origin
    else:
        first, chosen = described(root, mapped), root
    derivative = local_derivative(chosen)
    text = remedy(chosen, derivative, values_at(chosen))
    if text is None and chosen is not origin:
        text = remedy(origin, local_derivative(origin), values_at(origin))
    return NanReport(first, nan, "", unused, path, results, text or "")


def described(origin: Origin, mapped: Sequence[MappedLines] = ()) -> NonfiniteOrigin:
    """Return an origin as data."""
    frame, k = origin.frame, origin.k
    program = frame.program
    primitive, operands, _ = program.ops[k]
    equation = program.equation(k)
    at = values_at(origin)
    shown: list[OperandValues] = []
    for n, i in enumerate(operands):
        if i in operands[:n]:
            continue
        value = frame.operand(i)
        name = str(program.variables[i].name) if i >= 0 else f"{value}"
        shown.append(
            _operand(name, "" if i < 0 else f"{program.avals[i]}", value, at[n] if at else None)
        )
    derivative = None if any_infinite(at) else local_derivative(origin)
    return NonfiniteOrigin(
        origin.kind,
        one_line(equation_text(equation)),
        primitive.name,
        frame.source(k),
        origin.index,
        int(np.count_nonzero(origin.mask)),
        origin.mask.size,
        tuple(shown),
        frame.steps,
        _examples(origin, mapped),
        "" if derivative is None else str(derivative),
    )


def any_infinite(values: tuple[Any, ...]) -> bool:
    """Return True if one of the values is infinite: then it explains a NaN by itself."""
    return any(mask_of(x, "inf") is not None for x in values)


def values_at(origin: Origin) -> tuple[Any, ...]:
    """Return the values of the operands from which an element was made; () if those are many."""
    primitive, operands, _ = origin.frame.program.ops[origin.k]
    if not isinstance(primitive, Elementwise):
        return ()
    shape = origin.mask.shape
    values = [origin.frame.operand(i) for i in operands]
    return tuple([np.broadcast_to(x, shape)[origin.index] for x in values])


def _operand(name: str, aval: str, value: object, at: object) -> OperandValues:
    nans, infs = _counts(value)
    low = high = None
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iuf" and value.size:
        finite = np.asarray(value)[np.isfinite(value)]
        if finite.size:
            low, high = float(finite.min()), float(finite.max())
    return OperandValues(name, aval, at, low, high, nans, infs)


def _counts(value: object) -> tuple[int, int]:
    kinds: tuple[Kind, ...] = ("nan", "inf")
    masks = [mask_of(value, kind) for kind in kinds]
    nans, infs = [0 if mask is None else int(np.count_nonzero(mask)) for mask in masks]
    return nans, infs


def one_line(text: str) -> str:
    """Return the first line of a text."""
    first, newline, _ = text.partition("\n")
    return f"{first} …" if newline else first


def _examples(origin: Origin, mapped: Sequence[MappedLines]) -> tuple[int, ...]:
    """Return the examples that an element belongs to, where its leading axes are those of vmap."""
    frame: Frame | None = origin.frame
    while frame is not None:
        if frame.takers is not None and origin.mask.shape[:1] == frame.takers.shape:
            return origin.index[:1]
        frame = None if frame.outer is None else frame.outer[0]
    position: Any = origin.frame.instruction(origin.k)
    shape, sizes = origin.mask.shape, list[int]()
    shapes: frozenset[tuple[int, ...]] = frozenset()
    for region in mapped:
        here = region.shapes.get(position)
        if here is None:
            continue
        sizes.insert(0, region.size)
        shapes = shapes or here
    while sizes:
        whole = {(*sizes, *s) for s in shapes}
        if shape in whole and shape not in shapes:
            return origin.index[: len(sizes)]
        sizes.pop(0)
    return ()


def _given(frame: Frame, ancestry: Ancestry, kind: Kind) -> str:
    program, names = frame.program, list[str]()
    for i, mask in ancestry.given.items():
        if i < 0:
            source = frame.source(~i)
            names.append(f"a number is {kind}" + (f" at {source}" if source is not None else ""))
            continue
        index = [int(n) for n in np.argwhere(mask)[0]] if mask.ndim else []
        word = "argument" if i in program.input_ids else "constant"
        names.append(
            f"{word} {program.variables[i].name} is {kind}" + (f" at {index}" if index else "")
        )
    return "; ".join(names) or f"a value is {kind}"


def _path(frame: Frame, k: int, ancestry: Ancestry) -> tuple[Source, ...]:
    """Return the user's lines from an operation to the outputs, each once."""
    found: list[Source] = []
    seen = {str(frame.source(k))}
    current: int | None = k
    while current is not None:
        readers = [ancestry.readers[j] for j in frame.results(current) if j in ancestry.readers]
        current = readers[0] if readers else None
        source = None if current is None else frame.source(current)
        if source is not None and str(source) not in seen:
            seen.add(str(source))
            found.append(source)
    return tuple(found)
