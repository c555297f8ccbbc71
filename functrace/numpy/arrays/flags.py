"""`Flags`: ``x.flags`` of a traced value.

The memory layout is the one that NumPy would have chosen (`functrace.numpy.arrays.layout`); reading
a flag raises where the layout is unknown.

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
    "C": "c_contiguous", "CONTIGUOUS": "c_contiguous", "F": "f_contiguous",
    "FORTRAN": "f_contiguous", "O": "owndata",
    "W": "writeable", "A": "aligned", "X": "writebackifcopy", "B": "behaved", "CA": "carray",
}  # fmt: skip
"""NumPy's one- and two-letter names of flags."""

_NAMES = frozenset({
    "c_contiguous", "f_contiguous", "owndata", "writeable", "aligned", "writebackifcopy",
    "contiguous", "fortran", "fnc",
    "forc", "behaved", "carray",
})  # fmt: skip


@final
class Flags:
    """Read-only flags of a traced value, as attributes or by key."""

    __slots__ = ("_x",)

    def __init__(self, x: Tracer) -> None:
        object.__setattr__(self, "_x", x)

    def _laid(self) -> tuple[bool, bool]:
        """Return the pair (C-contiguous, F-contiguous)."""
        layout = layout_of(self._x)
        if layout is None:
            raise UnsupportedFunctionError(
                f"unknown memory layout ({self._x.aval}): it depends on the layout of arguments",
                fix="read the flags of a copy, which has C order: x.copy().flags",
            )
        return layout.flags.c_contiguous, layout.flags.f_contiguous

    @property
    def c_contiguous(self) -> bool:
        """True if the array is contiguous in C order: the last axis varies fastest."""
        return self._laid()[0]

    @property
    def f_contiguous(self) -> bool:
        """True if the array is contiguous in Fortran order: the first axis varies fastest."""
        return self._laid()[1]

    @property
    def fnc(self) -> bool:
        """True if it is contiguous in Fortran order and not in C order (``numpy.isfortran``)."""
        return not is_row(self._x.aval.shape) and self.f_contiguous  # of one axis: both are equal

    @property
    def forc(self) -> bool:
        """True if it is contiguous in C or in Fortran order."""
        return any(self._laid())

    @property
    def owndata(self) -> bool:
        """Always raises: NumPy may return views even for results that share no memory."""
        raise UnsupportedFunctionError(
            f"unknown memory ownership of a traced value ({self._x.aval})", fix="use np.copy"
        )

    @property
    def writeable(self) -> bool:
        """True if in-place writes are allowed."""
        x: Any = self._x
        if not x.aval.shape and is_scalar(x):
            return False
        while x is not None and x.ft_view is not None:
            if isinstance(x.ft_view, ReadOnlyView):
                return False
            x = x.ft_view.base if isinstance(x.ft_view.base, Tracer) else None
        return True

    @property
    def aligned(self) -> bool:
        """Always true: every array that NumPy allocates is aligned."""
        return True

    @property
    def writebackifcopy(self) -> bool:
        """Always false: NumPy sets this flag on no array of its own."""
        return False

    contiguous, fortran = c_contiguous, f_contiguous

    @property
    def behaved(self) -> bool:
        """True if aligned and writeable."""
        return self.writeable

    @property
    def carray(self) -> bool:
        """True if behaved and contiguous in C order."""
        return self.writeable and self.c_contiguous

    def __getitem__(self, key: str) -> bool:
        name = _SHORT.get(key, key.lower()) if key.isupper() else ""
        if name not in _NAMES:
            raise KeyError("Unknown flag")
        return getattr(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        raise UnsupportedFunctionError(
            f"flags of a traced value cannot be set ({name})",
            fix="leave it out: a traced value has no memory to protect",
        )

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self, key, value)
