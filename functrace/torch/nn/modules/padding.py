"""Layers that pad.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.nn.modules.utils import Sizes, per_axis
from functrace.torch.tensors.tensor import Tensor


class _Pad(Module):
    """Pad the last axes.

    Args:
        padding: elements on every side; or those of each side, last axis first.
    """

    _axes: ClassVar[int] = 0
    _mode: ClassVar[str] = ""
    __constants__ = ("padding",)
    padding: Any

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = per_axis(padding, 2 * self._axes)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class _CircularPadNd(_Pad):
    """Pad by the elements of the other end."""

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        n = self._axes
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, self._mode)


class CircularPad1d(_CircularPadNd):
    """Pad one axis by the elements of its other end."""

    _axes = 1


class CircularPad2d(_CircularPadNd):
    """Pad two axes by the elements of their other ends."""

    _axes = 2


class CircularPad3d(_CircularPadNd):
    """Pad three axes by the elements of their other ends."""

    _axes = 3


class _ConstantPadNd(_Pad):
    """Pad by a number."""

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return padding and value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad one axis by a number."""

    _axes = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad two axes by a number."""

    _axes = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad three axes by a number."""

    _axes = 3


class _ZeroPad(_ConstantPadNd):
    """Pad by zeros."""

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pad one axis by zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pad two axes by zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pad three axes by zeros."""


class _ReflectionPadNd(_Pad):
    """Pad by mirror images."""

    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pad one axis by its mirror image."""

    _axes = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pad two axes by their mirror images."""

    _axes = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pad three axes by their mirror images."""

    _axes = 3


class _ReplicationPadNd(_Pad):
    """Pad by the first and last elements."""

    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pad one axis by its first and last element."""

    _axes = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pad two axes by their first and last elements."""

    _axes = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pad three axes by their first and last elements."""

    _axes = 3
