"""Placeholder for the missing types of ``scipy.fft._fftlog_backend``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
