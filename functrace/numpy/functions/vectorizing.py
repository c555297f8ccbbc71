"""``vectorize`` for functions with traced arguments, results or closures.

Layer: 3.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.protocol.operands import Operand, arrayed, cast_to, holds_tracer
from functrace.ops import joining
from functrace.ops.shaping import broadcast_to, reshape
from functrace.tracing.binding import running
from functrace.tracing.tracer import Tracer


class Vectorized(np.vectorize):
    """``numpy.vectorize`` for traced arrays too: traced elements, results joined by ``np.stack``.

    Cost:
        Python calls the function once per element, as NumPy does; `functrace.vmap` calls it once.
    """

    def __call__(self, *args: Operand, **kwargs: Operand) -> Any:
        """Call the function on every element."""
        if self.pyfunc is np._NoValue or not (  # type: ignore[attr-defined]
            holds_tracer(args) or holds_tracer(list(kwargs.values())) or running() is not None
        ):
            return super().__call__(*args, **kwargs)
        return self._mapped(args, kwargs)

    def _mapped(self, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> Any:
        excluded = self.excluded  # type: ignore[attr-defined]
        places: list[int | str] = [k for k in range(len(args)) if k not in excluded]
        places += [key for key in kwargs if key not in excluded]
        arrays = [arrayed(args[k] if isinstance(k, int) else kwargs[k]) for k in places]
        inner, outer = self._core(len(arrays))
        loop, parts = _broadcast(arrays, inner)
        results: list[Any] = []
        for index in itertools.product(*map(range, loop)):
            given: list[Any] = list(args)
            named: dict[str, Any] = dict(kwargs)
            for place, part, core in zip(places, parts, inner, strict=True):
                element = part[index]
                element = (
                    element.item() if not isinstance(element, Tracer) and not core else element
                )
                if isinstance(place, int):
                    given[place] = element
                else:
                    named[place] = element
            results.append(self.pyfunc(*given, **named))
        return self._joined(results, loop, outer)

    def _core(self, count: int) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]] | None]:
        """Return the core dimensions of each argument and each result."""
        if self.signature is None:  # type: ignore[attr-defined]
            return [()] * count, None
        inner, outer = self._in_and_out_core_dims  # type: ignore[attr-defined]
        if len(inner) != count:
            raise ShapeError(
                f"vectorize: wrong number of positional arguments: expected {len(inner)}, got "
                f"{count}",
                fix="pass as many as the signature has",
            )
        return inner, outer

    def _joined(
        self, results: list[Any], loop: tuple[int, ...], outer: list[tuple[str, ...]] | None
    ) -> Any:
        otypes = self.otypes  # type: ignore[attr-defined]
        if not results:
            if not otypes:
                raise ShapeError(
                    "cannot call `vectorize` on size 0 inputs unless `otypes` is set",
                    fix="pass otypes=",
                )
            if outer is not None and any(outer):
                raise ShapeError(
                    "cannot call `vectorize` with a signature on size 0 inputs",
                    fix="leave the signature out",
                )
            made = [np.empty(loop, kind) for kind in otypes]
            return made[0] if len(made) == 1 else tuple(made)
        several = isinstance(results[0], tuple) if outer is None else len(outer) > 1
        columns = list(zip(*results, strict=True)) if several else [results]
        made = []
        for k, column in enumerate(columns):
            found = [arrayed(value) for value in column]
            if outer is not None and len(shape_of(found[0])) != len(outer[k]):
                raise ShapeError(
                    f"vectorize: a result of shape {shape_of(found[0])} lacks the axes {outer[k]} "
                    "of the signature",
                    fix="return what the signature says",
                )
            kind = otypes[k] if otypes else found[0].dtype
            joined = joining.stack([cast_to(value, kind) for value in found], 0)
            made.append(reshape(joined, (*loop, *shape_of(found[0]))))
        return tuple(made) if several else made[0]


def _broadcast(
    arrays: list[Any], inner: list[tuple[str, ...]]
) -> tuple[tuple[int, ...], list[Any]]:
    """Return the loop shape, and every array broadcast to it, except its core dimensions."""
    sizes: dict[str, int] = {}
    for x, core in zip(arrays, inner, strict=True):
        shape = shape_of(x)
        if len(shape) < len(core):
            raise ShapeError(
                f"vectorize: an argument of shape {shape} lacks the axes {core} of the signature",
                fix="add an axis",
            )
        for name, size in zip(core, shape[len(shape) - len(core) :], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ShapeError(
                    f"inconsistent size for core dimension {name!r}: {size} vs {sizes[name]}",
                    fix="make them equal",
                )
    loops = [
        shape_of(x)[: len(shape_of(x)) - len(core)] for x, core in zip(arrays, inner, strict=True)
    ]
    loop = np.broadcast_shapes(*loops)
    kept = [shape_of(x)[len(own) :] for x, own in zip(arrays, loops, strict=True)]
    return loop, [broadcast_to(x, (*loop, *rest)) for x, rest in zip(arrays, kept, strict=True)]
