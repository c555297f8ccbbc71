"""Anomaly mode: report the forward call whose backward fails, and gradients that are NaN.

While the mode is on, every node records in its ``metadata`` the stack of the call that made it
(``"traceback_"``) and, inside a backward pass, the node that was running (``"parent_"``). A
backward pass that fails warns with these stacks. With ``check_nan``, a NaN in a gradient is an
error.

While the mode is off, it costs one flag test per new node and per backward pass.

Layer: 9.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, final

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.running import current_node
from functrace.torch.errors.warnings import warn

if TYPE_CHECKING:
    from functrace.torch.autograd.graph import GraphNode
    from functrace.torch.tensors.tensor import Tensor

__all__ = ["detect_anomaly", "set_detect_anomaly"]


@final
class AnomalyState:
    """State of the mode, for all threads."""

    enabled = False
    check_nan = True

    def switch(self, enabled: bool, check_nan: bool) -> None:
        """Switch the mode."""
        self.enabled, self.check_nan = enabled, check_nan


ANOMALY = AnomalyState()


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off in all threads; see `set_detect_anomaly`."""
    for place, (name, value) in enumerate((("enabled", enabled), ("check_nan", check_nan))):
        if not isinstance(value, bool):
            raise TypeError(errors.anomaly_flag(name, place + 1, type(value).__name__))
    ANOMALY.switch(enabled, check_nan)


def is_anomaly_enabled() -> bool:
    """Return True if anomaly mode is on."""
    return ANOMALY.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return True if anomaly mode checks for NaN while it is on."""
    return ANOMALY.check_nan


class set_detect_anomaly:
    """Switch anomaly mode on or off immediately; as a context manager, until the block ends.

    Args:
        mode: True to switch it on.
        check_nan: True to raise for gradients that are NaN.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.autograd.set_detect_anomaly(True):
        ...     torch.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = ANOMALY.enabled, ANOMALY.check_nan
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        set_anomaly_enabled(*self.prev)


class detect_anomaly:
    """Find the forward call whose backward fails, or returns NaN.

    The forward pass must run in the context, too. It costs about 0.1 ms per operation.

    Args:
        check_nan: True to raise for gradients that are NaN.

    Example:
        >>> import warnings
        >>> import functrace.torch as torch
        >>> x = torch.zeros(2, requires_grad=True)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     with torch.autograd.detect_anomaly():
        ...         (x.sqrt() * 0).sum().backward()
        Traceback (most recent call last):
        RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = ANOMALY.enabled, ANOMALY.check_nan
        self.check_nan = check_nan
        warn(errors.ANOMALY_ENABLED)

    def __enter__(self) -> None:
        set_anomaly_enabled(True, self.check_nan)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        set_anomaly_enabled(*self.prev)


# -- recording the origin of nodes, and reporting failures -----------------------------------------


def note_origin(node: GraphNode) -> None:
    """Record the stack of the call that makes a node, and the node that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("functrace."):
        frame = frame.f_back
    stack = traceback.StackSummary.extract(traceback.walk_stack(frame))
    stack.reverse()
    node.metadata["traceback_"] = stack.format()
    parent = current_node()
    if parent is not None:
        node.metadata["parent_"] = parent


def report(node: GraphNode) -> None:
    """Warn with the stacks of a node that failed, and of the nodes that were running when it was
    made.
    """
    place: GraphNode | None = node
    while place is not None:
        stack = place.metadata.get("traceback_")
        name = place.name()
        if stack is None:
            text = errors.no_forward_information(name)
        else:
            text = errors.forward_traceback(name, "".join(stack), is_parent=place is not node)
        try:
            warn(text)
        except Warning as error:  # an error is already being raised
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        place = place.metadata.get("parent_")


def refuse_nan(node: GraphNode, gradients: Sequence[Tensor | None]) -> None:
    """Raise if a node has computed NaN.

    Raises:
        RuntimeError: if there is one.
    """
    for k, gradient in enumerate(gradients):
        if gradient is not None:
            array = gradient._array
            if (
                isinstance(array, np.ndarray)
                and array.dtype.kind in "fcV"
                and np.isnan(array).any()
            ):
                raise RuntimeError(errors.nan_gradient(node.name(), k))
