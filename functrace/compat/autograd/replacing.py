"""`replace_autograd`: run packages that import autograd, unmodified, on functrace.

Layer: 10.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Generator
from types import ModuleType

__all__ = ["replace_autograd"]

_HERE = __name__.rpartition(".")[0]


@contextlib.contextmanager
def replace_autograd(*packages: str) -> Generator[None]:
    """Make ``import autograd`` import this package inside of a ``with`` block, in the whole
    process.

    Modules that are imported in the block keep their imports. HIPS autograd need not be installed.
    If it is imported already, its modules are hidden, and restored afterwards, so that the two
    never mix. A function that imports autograd when it is called needs a block around the call.

    Args:
        packages: packages that the block imports; raises if they have been imported with HIPS
            autograd before.

    Returns:
        a context manager.

    Raises:
        ImportError: if one of ``packages`` uses HIPS autograd already, since importing it again
            would change nothing.

    Example:
        >>> with replace_autograd():
        ...     from autograd import grad
        ...     import autograd.numpy as anp
        >>> grad, anp.__name__  # doctest: +ELLIPSIS
        (<function grad at ...>, 'functrace.compat.autograd.numpy')
    """
    for package in packages:
        holders = sorted([name for name in _modules(package) if _uses_hips(sys.modules[name])])
        if holders:
            raise ImportError(
                f"{package} was imported on HIPS autograd before ({holders[0]} uses it): import it "
                "in a fresh process, "
                "inside of replace_autograd first"
            )
    ours = _ours()
    aside = {name: sys.modules.pop(name) for name in _modules("autograd")}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name in _modules("autograd"):
            del sys.modules[name]
        sys.modules.update(aside)


def _modules(package: str) -> list[str]:
    """Return the imported modules of a package."""
    return [name for name in sys.modules if name == package or name.startswith(f"{package}.")]


def _ours() -> dict[str, ModuleType]:
    """Return all modules of this package by autograd's names; SciPy's if installed."""
    package = importlib.import_module(_HERE)
    found = {"autograd": package}
    has_scipy = importlib.util.find_spec("scipy") is not None
    for info in pkgutil.walk_packages(package.__path__, f"{_HERE}."):
        if has_scipy or ".scipy" not in info.name:
            found[info.name.replace(_HERE, "autograd", 1)] = importlib.import_module(info.name)
    return found


def _uses_hips(module: ModuleType) -> bool:
    """Return True if a module refers to an object of HIPS autograd."""
    for value in list(vars(module).values()):
        name = (
            value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        )
        if isinstance(name, str) and (name == "autograd" or name.startswith("autograd.")):
            return True
    return False
