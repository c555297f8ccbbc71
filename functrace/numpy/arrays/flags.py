"""`Flags`: what ``x.flags`` of a traced value answers.

How an array lies in memory is worked out as NumPy would have laid it out (`functrace.numpy.arrays.layout`); where that is
not known, the question raises.

Layer: 3.
"""

from __future__ import annotations

from typing import Any, final

from functrace.errors import UnsupportedFunctionError
from functrace.numpy.arrays.layout import is_row, layout_of
from functrace.numpy.arrays.view_kinds import ReadOnlyView
from functrace.numpy.arrays.views import is_scalar
from functrace.tracing.tracer import Tracer

_SHORT = {
    "C": "c_contiguous", "CONTIGUOUS": "c_contiguous", "F": "f_contiguous", "FORTRAN": "f_contiguous", "O": "owndata",
    "W": "writeable", "A": "aligned", "X": "writebackifcopy", "B": "behaved", "CA": "carray",
}  # fmt: skip
"""NumPy's short names."""

_NAMES = frozenset({
    "c_contiguous", "f_contiguous", "owndata", "writeable", "aligned", "writebackifcopy", "contiguous", "fortran", "fnc",
    "forc", "behaved", "carray",
})  # fmt: skip


@final
class Flags:
    """The flags of a traced value, as attributes or by key, to be read only."""

    __slots__ = ("_x",)

    def __init__(self, x: Tracer) -> None:
        object.__setattr__(self, "_x", x)

    def _laid(self) -> tuple[bool, bool]:
        """Whether the array is contiguous in C order, and in Fortran's."""
        layout = layout_of(self._x)
        if layout is None:
            raise UnsupportedFunctionError(
                f"how a traced array ({self._x.aval}) lies in memory depends on how arguments do, which is not known here",
                fix="ask a copy, which is laid out in C order: x.copy().flags",
            )
        return layout.flags.c_contiguous, layout.flags.f_contiguous

    @property
    def c_contiguous(self) -> bool:
        """Whether the last axis runs fastest, without gaps."""
        return self._laid()[0]

    @property
    def f_contiguous(self) -> bool:
        """Whether the first axis runs fastest, without gaps."""
        return self._laid()[1]

    @property
    def fnc(self) -> bool:
        """Whether it is contiguous in Fortran's order and not in C order (``numpy.isfortran``)."""
        return not is_row(self._x.aval.shape) and self.f_contiguous  # with one axis, the one is the other

    @property
    def forc(self) -> bool:
        """Whether it is contiguous in one of the two orders."""
        return any(self._laid())

    @property
    def owndata(self) -> bool:
        """Refused: even results of NumPy's that share memory with nothing may be views."""
        raise UnsupportedFunctionError(
            f"a traced value ({self._x.aval}) does not know whether it owns its memory", fix="use np.copy, which makes sure"
        )

    @property
    def writeable(self) -> bool:
        """Whether it can be written in place."""
        x: Any = self._x
        if not x.aval.shape and is_scalar(x):
            return False
        while x is not None and x._view is not None:
            if isinstance(x._view, ReadOnlyView):
                return False
            x = x._view.base if isinstance(x._view.base, Tracer) else None
        return True

    @property
    def aligned(self) -> bool:
        """As every array that NumPy makes."""
        return True

    @property
    def writebackifcopy(self) -> bool:
        """As no array that NumPy makes by itself."""
        return False

    contiguous, fortran = c_contiguous, f_contiguous

    @property
    def behaved(self) -> bool:
        """Aligned and writeable."""
        return self.writeable

    @property
    def carray(self) -> bool:
        """Behaved, and contiguous in C order."""
        return self.writeable and self.c_contiguous

    def __getitem__(self, key: str) -> bool:
        name = _SHORT.get(key, key.lower()) if key.isupper() else ""
        if name not in _NAMES:
            raise KeyError("Unknown flag")
        return getattr(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        raise UnsupportedFunctionError(
            f"flags of a traced value cannot be set ({name})", fix="leave it out: a traced value has no memory to protect"
        )

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self, key, value)
