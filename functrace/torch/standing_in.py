"""`stand_in`: functrace.torch under the name ``torch``, for packages that import PyTorch.

A finder serves every import of ``torch`` and of its submodules with the module of functrace.torch
of the same name, the very object: there is one `Tensor`, one ``nn.Module``, however it was
imported. The finder never returns a module of an installed PyTorch, and `stand_in` raises if one
is loaded already, so that the two are not mixed in one process.

Layer: 9.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, final

from functrace.errors import FunctraceError

__all__ = ["StandIn", "StandInError", "stand_in"]

NAME = "torch"
HERE = "functrace.torch"


class StandInError(FunctraceError, ImportError):
    """PyTorch and functrace.torch would be mixed in one process."""


def _is_of(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@final
class _Alias(Loader):
    """Loader whose module is a module of functrace.torch, unchanged."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module of functrace.torch."""
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import system has replaced, and name the
        submodules that are hidden by a function, such as ``torch.autograd.gradcheck``: the import
        system would set the module in place of the function.
        """
        module.__spec__ = self.spec
        for name, value in list(vars(module).items()):
            hidden = sys.modules.get(f"{self.name}.{name}")
            if hidden is not None and hidden is not value:
                sys.modules.setdefault(f"{NAME}{self.name[len(HERE) :]}.{name}", hidden)


@final
class _Finder(MetaPathFinder):
    """Finder of ``torch`` and its submodules; when no stand-in is active, it only refuses mixtures."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an alias; None for other modules, and for names that functrace.torch
        does not have.

        Raises:
            StandInError: if a package that was imported under a stand-in imports PyTorch after it
                has ended.
        """
        if not _is_of(fullname, NAME):
            return None
        if not _STATE.count:
            _STATE.check_importer(sys._getframe(1))
            return None
        name = HERE + fullname[len(NAME) :]
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        spec = ModuleSpec(fullname, _Alias(name), origin=found.origin, is_package=is_package)
        if is_package:
            spec.submodule_search_locations = list(found.submodule_search_locations or ())
        return spec


@final
class _State:
    """The stand-ins of the process: how many are active, and what was imported under them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.count = 0
        self.blocked: list[str] = []
        self.before: set[str] = set()
        self.bound: set[str] = set()
        self.finder = _Finder()

    def enter(self) -> None:
        """Install the finder.

        Raises:
            StandInError: if PyTorch is imported already.
        """
        with self.lock:
            if not self.count:
                self._install()
            self.count += 1

    def _install(self) -> None:
        own = sys.modules[HERE]
        names = [name for name in sys.modules if _is_of(name, NAME)]
        for name in names:
            module = sys.modules[name]
            if module is not None and module is not own:
                raise StandInError(
                    f"{name} of PyTorch is imported already: its modules and functrace.torch's "
                    "would be mixed",
                    fix="call functrace.torch.stand_in() before anything imports torch (packages "
                    "such as torchmetrics import it too), or use a process of its own",
                )
        self.blocked = [name for name in names if sys.modules[name] is None]
        for name in self.blocked:
            del sys.modules[name]
        self.before = set(sys.modules)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        sys.meta_path.insert(0, self.finder)

    def leave(self) -> None:
        """End one stand-in; the last one removes the names."""
        with self.lock:
            self.count -= 1
            if self.count:
                return
            for name in list(sys.modules):
                if _is_of(name, NAME):
                    del sys.modules[name]
            sys.modules.update(dict.fromkeys(self.blocked))  # type: ignore[arg-type]
            for name in set(sys.modules) - self.before:
                if not _is_of(name, "functrace") and _uses_stand_in(sys.modules[name]):
                    self.bound.add(name.partition(".")[0])

    def check_importer(self, frame: FrameType | None) -> None:
        """Raise if the module that imports PyTorch uses functrace.torch.

        Args:
            frame: the caller of the finder.
        """
        while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib"):
            frame = frame.f_back
        importer = "" if frame is None else str(frame.f_globals.get("__name__", ""))
        if importer.partition(".")[0] in self.bound:
            raise StandInError(
                f"{importer} was imported under functrace.torch.stand_in(), and imports torch "
                "after its end: PyTorch's tensors would be mixed with functrace.torch's",
                fix="use it inside of the with statement, or call stand_in() without one",
            )


def _uses_stand_in(module: ModuleType | None) -> bool:
    """Return True if a module has imported functrace.torch, or a class or function of it."""
    for value in list(vars(module).values()) if isinstance(module, ModuleType) else ():
        if isinstance(value, ModuleType):
            name = vars(value).get("__name__")
        else:
            name = getattr(value, "__module__", None) if isinstance(value, type) else None
        if isinstance(name, str) and _is_of(name, HERE):
            return True
    return False


_STATE = _State()


@final
class StandIn:
    """An active stand-in, as a context: see `stand_in`."""

    def __init__(self) -> None:
        self._is_active = False
        self._begin()

    def _begin(self) -> None:
        if not self._is_active:
            _STATE.enter()
            self._is_active = True

    def __enter__(self) -> ModuleType:
        self._begin()
        return sys.modules[HERE]

    def __exit__(self, *_exception: object) -> None:
        if self._is_active:
            self._is_active = False
            _STATE.leave()


def stand_in() -> StandIn:
    """Put functrace.torch under the name ``torch``: packages that import PyTorch then use it.

    The call has effect at once, until the process ends; as a context, until the context ends.
    Contexts may be entered several times and in several threads: the names are removed with the
    last one. They are names of the process, so that other threads see them too. Packages imported
    inside of a context go on working after it with the modules that they have imported.

    Returns:
        the context, which gives functrace.torch.

    Raises:
        StandInError: if PyTorch is imported already.

    Example:
        >>> import functrace.torch
        >>> with functrace.torch.stand_in():  # doctest: +SKIP
        ...     import torchdiffeq
        ...     import torch
        ...     print(torchdiffeq.odeint(lambda t, y: -y, torch.ones(1), torch.tensor([0.0, 1.0]))[-1])
        tensor([0.3679])
    """
    return StandIn()
