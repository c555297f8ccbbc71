"""``torch.utils._import_utils``: whether packages are installed.

Layer: 9.
"""

import functools
import importlib.util


@functools.lru_cache(maxsize=256)
def _check_module_exists(name: str) -> bool:
    """Return True if a module can be found."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def dill_available() -> bool:
    """Return True if dill can be imported."""
    return _check_module_exists("dill")


def import_dill() -> object:
    """Return dill, or None."""
    return importlib.import_module("dill") if dill_available() else None
