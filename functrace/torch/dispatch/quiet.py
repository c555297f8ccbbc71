"""Computation without NumPy's warnings: PyTorch is silent about ``log(0)``.

Layer: 9.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import numpy as np


class WarningsOff(threading.local):
    """Runs functions with NumPy's warnings off. One context per thread.

    Measured: 0.06 us, against 0.7 us for ``numpy.errstate``.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run: Callable[..., Any] = context.run


QUIET = WarningsOff()


def run_quietly(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function with NumPy's warnings off."""
    try:
        return QUIET.run(function, *arguments)
    except RuntimeError as error:
        if "already entered" not in str(error):
            raise
    with np.errstate(
        all="ignore"
    ):  # a finalizer that the garbage collector runs inside another operation
        return function(*arguments)
