"""`ArrayRecording`: a recording whose tracers are `TracedArray`s, with NumPy's operators and
methods.

Users' functions and derivative rules apply NumPy to their arguments, so every transform and every
call of user code is recorded by one. For its base class `Recording`, tracers are only handles to
variables.

Note [What outlives its transform]
    Using a traced value after its transform has ended raises. But user code may keep arrays that it
    computed from plain numbers, such as a memoized table. So a recording in which arrays were
    created (`Recording.makes_arrays`) keeps its tape while any of its tracers is referenced, and
    becomes an `EndedRecording` recording: tracers that depend on no input act as their concrete values, and
    operations on them give concrete results, inside later recordings and outside of all.

Layer: 3.
"""

# Tracer fields have a leading underscore to hide them from users; the library's packages read them.

from __future__ import annotations

from typing import Any, final

from functrace.ir.primitive import Primitive
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, leaked
from functrace.tracing.values import evaluated, is_constant


class ArrayRecording(Recording):
    """Tape recorded by running NumPy code; see `Recording` for its arguments."""

    __slots__ = ()
    tracer_class = TracedArray

    def blank(self, owner: str) -> ArrayRecording:
        """Return an empty recording of the same kind, without source positions."""
        return ArrayRecording(owner, keeps_source=False)

    def outlive(self) -> None:
        """Become an `EndedRecording` recording."""
        super().outlive()
        self.__class__ = EndedRecording  # pyright: ignore[reportAttributeAccessIssue]


@final
class EndedRecording(ArrayRecording):
    """Ended recording in which arrays were created; see Note [What outlives its transform]."""

    __slots__ = ()

    def record(
        self, primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()
    ) -> Any:
        """Apply a primitive to concrete values in place of this recording's tracers.

        Raises:
            LeakedTracerError: if a tracer depends on an input.
        """
        plain = [
            x.ft_concrete() if isinstance(x, Tracer) and x.ft_recording.closed else x
            for x in operands
        ]
        return bind(primitive, tuple(plain), params)

    def value(self, variable: int) -> Any:
        """Return the concrete value of a variable that depends on no input."""
        tracer = self.handle(variable)
        if not is_constant(tracer):
            raise leaked(tracer)
        self._values = None
        return evaluated(self, variable)
