"""`use`: packages of an installed PyTorch, from its own Python files, on functrace.torch.

A finder before that of `stand_in` serves imports of the chosen packages from the files of the
installed PyTorch, which is found and never imported. All other names of ``torch`` are those of
functrace.torch. A package comes from one side as a whole: its modules are never searched on the
other side, and `use` raises if functrace.torch's own package of that name is in use already.

Layer: 9.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, final

from functrace.errors import FunctraceError
from functrace.source import user_source
from functrace.torch.backends import mha
from functrace.torch.standing_in import HERE, NAME, stand_in
from functrace.torch.torch_version import VERSION

__all__ = ["PACKAGES", "Originals", "OriginalsError", "use"]

PACKAGES = ("torch.nn", "torch.utils.data", "torch.distributions", "torch.optim")
"""The packages that PyTorch's files can replace, in the order in which they are loaded."""
WITH = {"torch.nn": ("torch.optim",)}
"""Packages that are replaced too: functrace.torch's own have subclasses of its own ``nn.Module``."""


class OriginalsError(FunctraceError, ImportError):
    """PyTorch's own files cannot be loaded, or would be mixed with functrace.torch's."""

    def __str__(self) -> str:
        return str(self.args[0])  # (an ImportError shows its first message, also after `amend`)


def _is_of(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _own(name: str) -> str:
    """Return the name of functrace.torch's module for a name of PyTorch's."""
    return HERE + name[len(NAME) :]


def _directory() -> Path:
    """Return the directory of the installed PyTorch.

    Raises:
        OriginalsError: if there is none, or one of another version.
    """
    spec = PathFinder.find_spec(NAME)
    if spec is None or spec.origin is None:
        raise OriginalsError(
            "no PyTorch is installed: its files cannot be loaded",
            fix=f"install PyTorch {VERSION}, or do without use(): its packages are in functrace.torch, "
            "too",
        )
    directory = Path(spec.origin).parent
    found = _version(directory / "version.py")
    if found.split(".")[:2] != VERSION.split(".")[:2]:
        raise OriginalsError(
            f"the installed PyTorch is {found}: functrace.torch has the compiled side of {VERSION}",
            fix=f"install PyTorch {VERSION}, or do without use()",
        )
    return directory


def _version(file: Path) -> str:
    """Return the ``__version__`` that a file assigns, without running it."""
    tree = ast.parse(file.read_text() if file.exists() else "")
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            targets = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if "__version__" in targets:
                return str(node.value.value)
    return "of an unknown version"


@final
class _Loader(SourceFileLoader):
    """Loader of a file of PyTorch's; names that functrace.torch does not have are errors of ours."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the file.

        Raises:
            OriginalsError: if it needs a name that functrace.torch does not have.
        """
        if module.__name__ in PACKAGES:
            _STATE.bind(module)
        try:
            super().exec_module(module)
        except OriginalsError:
            raise
        except (AttributeError, ImportError) as error:
            missing = _missing(error)
            if missing is None:
                raise
            package = next(p for p in PACKAGES if _is_of(module.__name__, p))
            raise OriginalsError(
                f"PyTorch's {module.__name__} needs {missing}, which functrace.torch does not have",
                fix=f"use functrace.torch's own {package}: leave it out of originals.use()",
            ) from error


def _missing(error: AttributeError | ImportError) -> str | None:
    """Return the full name of what was not found, or None if it is no name of ``torch``."""
    if isinstance(error, AttributeError):
        owner = error.obj
        if owner is None:  # raised by a function of functrace's
            place = str(error).partition("module '")[2].partition("'")[0]
        elif isinstance(owner, ModuleType):
            place = owner.__name__
        elif isinstance(owner, type):
            place = f"{owner.__module__}.{owner.__qualname__}"
        else:
            place = f"{type(owner).__module__}.{type(owner).__qualname__}"
        name = f"{place}.{error.name}"
    elif isinstance(error, ModuleNotFoundError):
        name = error.name or ""
    else:
        wanted = getattr(error, "name_from", None) or str(error).partition("name '")[2]
        name = f"{error.name}.{wanted.partition(chr(39))[0]}"
    if _is_of(name, HERE):
        return NAME + name[len(HERE) :]
    return name if _is_of(name, NAME) else None


@final
class _Finder(MetaPathFinder):
    """Finder of the modules of the packages in use, in the installed PyTorch."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a file of PyTorch's; None for modules of other packages.

        Raises:
            ModuleNotFoundError: if PyTorch has no such module in a package in use.
        """
        if not any(_is_of(fullname, package) for package in _STATE.counts):
            return None
        place = _STATE.directory.joinpath(*fullname.split(".")[1:])
        is_package = (place / "__init__.py").exists()
        file = place / "__init__.py" if is_package else place.with_suffix(".py")
        if not file.exists():
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return importlib.util.spec_from_file_location(
            fullname,
            file,
            loader=_Loader(fullname, str(file)),
            submodule_search_locations=[str(place)] if is_package else None,
        )


@final
class _State:
    """The packages in use: how often each, and what they have replaced."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.counts: Counter[str] = Counter()
        self.replaced: dict[str, ModuleType] = {}
        self.was_fast = True
        self.directory = Path()
        self.finder = _Finder()

    def enter(self, packages: Sequence[str]) -> None:
        """Load packages that are not in use yet."""
        with self.lock:
            new = [package for package in packages if not self.counts[package]]
            try:
                if new:
                    self._load(new)
            finally:
                self.counts.update(packages)
                if sys.exc_info()[1] is not None:
                    self.leave(packages)

    def _load(self, packages: Sequence[str]) -> None:
        self.directory = _directory()
        for package in packages:
            _refuse_mixture(package)
        for package in packages:
            self.replaced[package] = importlib.import_module(_own(package))
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        sys.meta_path.insert(0, self.finder)
        self.counts.update(packages)
        try:
            for package in packages:
                importlib.import_module(package)
        finally:
            self.counts.subtract(packages)
        if "torch.nn" in packages:  # whose fast path is a kernel of the compiled side
            self.was_fast = mha.get_fastpath_enabled()
            mha.set_fastpath_enabled(False)

    def bind(self, module: ModuleType) -> None:
        """Make a package an attribute of its parent, in the place of functrace.torch's."""
        parent, _, leaf = module.__name__.rpartition(".")
        setattr(sys.modules[_own(parent)], leaf, module)

    def leave(self, packages: Sequence[str]) -> None:
        """End one use of packages; the last one puts functrace.torch's own back."""
        with self.lock:
            self.counts.subtract(packages)
            self.counts = +self.counts
            for package in packages:
                if self.counts[package] or package not in self.replaced:
                    continue
                for name in [name for name in sys.modules if _is_of(name, package)]:
                    del sys.modules[name]
                parent, _, leaf = package.rpartition(".")
                setattr(sys.modules[_own(parent)], leaf, self.replaced.pop(package))
                if package == "torch.nn":
                    mha.set_fastpath_enabled(self.was_fast)
            self.counts = +self.counts
            if not self.counts and self.finder in sys.meta_path:
                sys.meta_path.remove(self.finder)


def _refuse_mixture(package: str) -> None:
    """Raise if functrace.torch's own package is in use under the name of PyTorch's.

    Raises:
        OriginalsError: if it was imported by that name, or a module outside of functrace has a
            class or function of it.
    """
    own = _own(package)
    holders = {name for name in sys.modules if _is_of(name, package)}
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or _is_of(name, "functrace"):
            continue
        if name in (NAME, "__mp_main__"):  # functrace.torch, and the same as __main__
            continue
        if any(_comes_from(value, own) for value in list(vars(module).values())):
            holders.add(name)
    if holders:
        raise OriginalsError(
            f"functrace.torch's own {package} is in use already by {', '.join(sorted(holders)[:3])}:"
            " its classes would be mixed with those of PyTorch's files",
            fix="call functrace.torch.originals.use() before other packages import torch",
        )


def _comes_from(value: object, package: str) -> bool:
    """Return True for a module of a package, and for a class or function that it defines."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    is_definition = isinstance(value, (ModuleType, type)) or callable(value)
    return is_definition and isinstance(name, str) and _is_of(name, package)


_STATE = _State()


@final
class Originals:
    """Packages of PyTorch's files in use, as a context: see `use`."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages
        self._stand_in: Any = None
        self._begin()

    def _begin(self) -> None:
        if self._stand_in is None:
            standing = stand_in()
            try:
                _STATE.enter(self._packages)
            except BaseException as error:
                standing.__exit__()
                if isinstance(error, OriginalsError):
                    error.at = user_source()  # the call of `use`, in place of an import in a file
                    error.amend()
                raise
            self._stand_in = standing

    def __enter__(self) -> ModuleType:
        self._begin()
        return sys.modules[HERE]

    def __exit__(self, *_exception: object) -> None:
        if self._stand_in is not None:
            standing, self._stand_in = self._stand_in, None
            _STATE.leave(self._packages)
            standing.__exit__()


def use(*packages: str) -> Originals:
    """Load packages of ``torch`` from the Python files of an installed PyTorch, on functrace.torch.

    The call has effect at once, until the process ends; as a context, until the context ends. It is
    a `stand_in`, too: all of the rest of ``torch`` is functrace.torch. ``torch.nn`` comes with
    ``torch.optim``, of which functrace.torch's own has subclasses of its own ``nn.Module``.

    Args:
        packages: some of `PACKAGES`, by name.

    Returns:
        the context, which gives functrace.torch.

    Raises:
        OriginalsError: if no PyTorch 2.13 is installed, if functrace.torch's own package of that
            name is in use already, or if a file needs a name that functrace.torch does not have.
        StandInError: if PyTorch is imported already.
        ValueError: for other packages.

    Example:
        >>> from functrace.torch import originals
        >>> with originals.use("torch.optim") as torch:  # doctest: +SKIP
        ...     print(torch.optim.Adam.__module__, torch.Tensor.__module__)
        torch.optim.adam functrace.torch.tensors.tensor
    """
    unknown = [package for package in packages if package not in PACKAGES]
    if unknown or not packages:
        given = ", ".join(unknown) or "no package"
        raise ValueError(f"{given} cannot be loaded from PyTorch's files, only {list(PACKAGES)}")
    wanted = {*packages, *(other for package in packages for other in WITH.get(package, ()))}
    return Originals([package for package in PACKAGES if package in wanted])
