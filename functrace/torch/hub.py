"""``torch.hub``: models of a local directory, and parameters from files that are downloaded.

Code is never downloaded.

Layer: 9.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from functrace.errors import UnsupportedFunctionError
from functrace.torch import serialization

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

_DIRECTORY: dict[str, str] = {}
_HASH = re.compile(r"-([a-f0-9]*)\.")
_BLOCK = 1 << 16


def get_dir() -> str:
    """Return the directory of downloaded files: that of `set_dir`, of ``$TORCH_HOME``, or
    ``~/.cache/torch``.
    """
    if "dir" in _DIRECTORY:
        return _DIRECTORY["dir"]
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    home = os.getenv("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the directory of downloaded files."""
    _DIRECTORY["dir"] = os.path.expanduser(os.fspath(d))


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download a file.

    Args:
        url: its address, with ``http``, ``https`` or ``file``.
        dst: where to put it.
        hash_prefix: how its SHA-256 must begin.
        progress: ignored.

    Raises:
        ValueError: for other kinds of addresses.
        RuntimeError: if the hash differs; the file is then removed.
    """
    if urlparse(url).scheme not in ("http", "https", "file"):
        raise ValueError(f"{url!r} is no address with http, https or file")
    target = Path(dst).expanduser()
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        try:
            with urllib.request.urlopen(url) as response:
                while block := response.read(_BLOCK):
                    file.write(block)
                    digest.update(block)
            found = digest.hexdigest()
            if hash_prefix is not None and not found.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            file.close()
            os.replace(file.name, target)
        finally:
            if os.path.exists(file.name):
                os.remove(file.name)


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike[str] | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Return the object of a file that ``torch.save`` wrote, downloaded unless it is there.

    Args:
        url: its address.
        model_dir: directory of the file; by default ``checkpoints`` in that of `get_dir`.
        map_location: see ``torch.load``.
        progress: ignored.
        check_hash: True if the file's name has the beginning of its hash: ``name-<hash>.pth``.
        file_name: name of the file.
        weights_only: ignored: files are always read without running code.
    """
    folder = Path(get_dir(), "checkpoints") if model_dir is None else Path(model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.exists():
        found = _HASH.search(path.name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    return serialization.load(path, map_location=map_location)


def _entry_points(repo_or_dir: str, source: str) -> ModuleType:
    """Import ``hubconf.py`` of a directory.

    Raises:
        UnsupportedFunctionError: for a repository.
    """
    if source != "local":
        raise UnsupportedFunctionError(
            f"torch.hub would download and run the code of {repo_or_dir!r}",
            fix='clone it, and pass its directory with source="local"',
        )
    path = Path(repo_or_dir, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"there is no {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _entry(module: ModuleType, model: str) -> Any:
    found = vars(module).get(model)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def list(
    github: str, force_reload: bool = False, *, source: str = "local", **_options: Any
) -> Sequence[str]:
    """Return the names of the models that a directory has.

    Args:
        github: the directory.
        force_reload: ignored.
        source: ``"local"``.
    """
    found = vars(_entry_points(github, source))
    return [name for name, x in found.items() if callable(x) and not name.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, *, source: str = "local", **_options: Any
) -> str | None:
    """Return the docstring of a model.

    Args:
        github: the directory.
        model: name of the model.
        force_reload: ignored.
        source: ``"local"``.
    """
    return _entry(_entry_points(github, source), model).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Return a model that ``hubconf.py`` of a directory makes.

    Args:
        repo_or_dir: the directory.
        model: name of the model.
        args: its arguments.
        source: ``"local"``.
        trust_repo: ignored, as are the others.
        kwargs: its keyword arguments.

    Raises:
        UnsupportedFunctionError: for a repository.
    """
    return _entry(_entry_points(repo_or_dir, source), model)(*args, **kwargs)
