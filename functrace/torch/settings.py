"""Switches of ``torch`` that are kept and have no effect here, since results are deterministic and
products are computed in the dtype of their operands.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]

_PRECISIONS = ("highest", "high", "medium")
_MODES = ("default", "warn", "error")
_STATE: dict[str, Any] = {"precision": "highest", "mode": 0, "threads": 1}


def get_float32_matmul_precision() -> str:
    """Return the setting: ``"highest"`` unless another was set."""
    return _STATE["precision"]


def set_float32_matmul_precision(precision: str, /) -> None:
    """Set how products of float32 may be computed; they always have the highest precision.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``.
    """
    if precision in _PRECISIONS:
        _STATE["precision"] = precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Set whether algorithms must be deterministic; they always are.

    Args:
        mode: the setting.
        warn_only: True for a warning instead of an error.
    """
    _STATE["mode"] = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Return the setting."""
    return _STATE["mode"] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return True if the setting is a warning."""
    return _STATE["mode"] == 1


def get_deterministic_debug_mode() -> int:
    """Return the setting as a number: 0 for off, 1 for a warning, 2 for an error."""
    return _STATE["mode"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set whether algorithms must be deterministic.

    Args:
        debug_mode: 0, 1, 2, or ``"default"``, ``"warn"``, ``"error"``.

    Raises:
        RuntimeError: for anything else.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    _STATE["mode"] = debug_mode


def set_flush_denormal(mode: bool, /) -> bool:
    """Return False: the processor's mode is left as it is."""
    return False


def get_num_interop_threads() -> int:
    """Return the setting."""
    return _STATE["threads"]


def set_num_interop_threads(count: int, /) -> None:
    """Set the number of threads between operations, which has no effect."""
    _STATE["threads"] = count
