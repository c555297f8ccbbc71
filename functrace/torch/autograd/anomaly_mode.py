"""Anomaly mode: where the forward call stood whose backward fails, and whether gradients are NaN.

While it is on, every node notes in its ``metadata`` the stack of the call that made it (``"traceback_"``), and, if that was
within a backward pass, the node that ran there (``"parent_"``). A backward pass that fails then warns with these stacks.
With ``check_nan``, gradients are looked through, and a NaN is a failure.

While the mode is off nothing is looked at but one flag, per node that is made and per backward pass.

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
class Anomaly:
    """Whether the mode is on; in all threads."""

    enabled = False
    check_nan = True

    def switch(self, enabled: bool, check_nan: bool) -> None:
        """Switch the mode."""
        self.enabled, self.check_nan = enabled, check_nan


ANOMALY = Anomaly()


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off, in all threads; see `set_detect_anomaly`."""
    for place, (name, value) in enumerate((("enabled", enabled), ("check_nan", check_nan))):
        if not isinstance(value, bool):
            raise TypeError(errors.anomaly_flag(name, place + 1, type(value).__name__))
    ANOMALY.switch(enabled, check_nan)


def is_anomaly_enabled() -> bool:
    """Return True if anomaly mode is on."""
    return ANOMALY.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return True if anomaly mode, while it is on, checks for NaN."""
    return ANOMALY.check_nan


class set_detect_anomaly:
    """Switch anomaly mode on or off, at once; as a context manager, until it ends.

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
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        set_anomaly_enabled(*self.prev)


class detect_anomaly:
    """Find the forward call whose backward fails, or returns NaN.

    The calls of the forward pass must be made in the context, too. It costs about 0.1 ms per operation.

    Args:
        check_nan: whether gradients that are NaN are an error.

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
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        set_anomaly_enabled(*self.prev)


# -- what nodes note, and what is said when they fail ------------------------------------------------------------


def note_origin(node: GraphNode) -> None:
    """Note the stack of the call that makes a node, and the node that runs."""
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
    """Warn with the stacks of a node that failed, and of the nodes that were running when it was made."""
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
        except Warning as error:  # an error is on its way already
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        place = place.metadata.get("parent_")


def refuse_nan(node: GraphNode, gradients: Sequence[Tensor | None]) -> None:
    """Look for NaN in what a node has computed.

    Raises:
        RuntimeError: if there is one.
    """
    for k, gradient in enumerate(gradients):
        if gradient is not None:
            array = gradient._array
            if isinstance(array, np.ndarray) and array.dtype.kind in "fc" and np.isnan(array).any():
                raise RuntimeError(errors.nan_gradient(node.name(), k))
