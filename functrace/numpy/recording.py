"""`ArrayRecording`: a recording whose tracers are `TracedArray`s, with NumPy's operators and methods.

Users' functions and derivative rules apply NumPy to what they are given, so every transform and every call of user code is
recorded by one. `Recording`, which it is made of, knows tracers as handles to variables.

Note [What outlives its transform]
    A traced value that is used after its transform has ended raises. But what plain code makes of plain numbers may be kept
    by it: a table that it memoizes. So where arrays of the namespace were made (`Recording.makes_arrays`), a recording
    keeps its tape for as long as somebody holds one of its values, and becomes an `Ended` one: what depends on no input
    stands for its plain value there, and operations on it give plain results, in whatever is recorded then, or outside.

Layer: 3.
"""

# A tracer's own fields are underscored for users; the library's packages read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, final

from functrace.ir.primitive import Primitive
from functrace.numpy.array import TracedArray
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, leaked
from functrace.tracing.values import evaluated, is_constant


class ArrayRecording(Recording):
    """A tape that is being written by running NumPy code; see `Recording` for its arguments."""

    __slots__ = ()
    tracer_class = TracedArray

    def blank(self, owner: str) -> ArrayRecording:
        """Return an empty recording of the same kind, without source positions."""
        return ArrayRecording(owner, keeps_source=False)

    def outlive(self) -> None:
        """Become an `Ended` recording."""
        super().outlive()
        self.__class__ = Ended  # pyright: ignore[reportAttributeAccessIssue]


@final
class Ended(ArrayRecording):
    """A recording that has ended, but in which arrays were made; see Note [What outlives its transform]."""

    __slots__ = ()

    def record(self, primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
        """Apply a primitive to plain values in place of its own.

        Raises:
            LeakedTracerError: if one of them depends on an input.
        """
        plain = [x._concrete() if isinstance(x, Tracer) and x._recording.closed else x for x in operands]
        return bind(primitive, tuple(plain), params)

    def value(self, variable: int) -> Any:
        """Return the plain value of a variable that depends on no input."""
        tracer = self.handle(variable)
        if not is_constant(tracer):
            raise leaked(tracer)
        self._values = None
        return evaluated(self, variable)
