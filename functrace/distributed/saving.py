"""Save and load pytrees of arrays, also those of which each process has a part.

Note [What a complete directory is]
    Without orbax, each process writes its parts, one ``.npy`` file per shard, and a list of them with
    their checksums. Each file is written under another name, flushed to the disk, and renamed. When
    all processes have done so, process 0 writes the manifest. A process that is killed before that
    leaves a directory without one, which `latest` ignores and the next `save` completes. Nothing is
    pickled, so a file from elsewhere runs no code.

Layer: 8.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

import numpy as np

from functrace.distributed.devices import _jax  # pyright: ignore[reportPrivateUsage]
from functrace.errors import ArgumentError, ParseError, UnsupportedFunctionError
from functrace.saving.files import digest, is_extended, npy, write_atomically
from functrace.tree import flatten, paths, unflatten
from functrace.typing import PyTree

MANIFEST: Final = "manifest.json"
"""The file that makes a directory complete."""
ORBAX: Final = "_CHECKPOINT_METADATA"
"""The file that makes a directory of orbax complete."""
VERSION: Final = 1
_EARLIER = (
    "load an earlier directory; remove this one, so that functrace.distributed.latest ignores it"
)
Leaf: TypeAlias = Any
"""A leaf of a pytree: an array of NumPy or JAX, its shape and dtype, or a Python number."""
Writer: TypeAlias = Literal["orbax", "npy"]
"""Names of the formats of files."""


def save(directory: str | os.PathLike[str], tree: PyTree, *, writer: Writer | None = None) -> None:
    """Save a pytree of arrays and numbers into a new directory, which all processes call.

    Args:
        directory: one that does not exist, or that a killed process left incomplete; on a disk
            that all processes see.
        tree: a pytree of ``jax.Array``, on any devices, NumPy's arrays and Python numbers.
        writer: "orbax", or "npy" for files of NumPy with a manifest; by default orbax where it is
            installed and can save all leaves.

    Raises:
        ArgumentError: if the directory is complete, if a leaf is no array or number or is none that
            the writer can save, if there is no such writer, or if the processes do not see each
            other's files.
        UnsupportedFunctionError: if JAX, or orbax for its writer, is not installed.

    Example:
        >>> import numpy as np, functrace as ft, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ft.distributed.save(f"{folder}/step_1", {"w": np.arange(3.0), "step": 1}, writer="npy")
        ...     place = ft.distributed.latest(folder)
        ...     found = ft.distributed.load(place, {"w": np.zeros(3), "step": 0})
        ...     place.name, found["w"], found["step"]
        ('step_1', array([0., 1., 2.]), 1)
    """
    jax = _jax()
    place = Path(directory).absolute()
    if writer not in (None, "orbax", "npy"):
        raise ArgumentError(
            f"save: there is no writer {writer!r}", fix='writer="orbax" or writer="npy"'
        )
    if _is_complete(place):
        raise ArgumentError(
            f"save: {place} has a complete checkpoint", fix="choose a new directory for each step"
        )
    leaves, _ = flatten(tree)
    names = paths(tree)
    for name, leaf in zip(names, leaves, strict=True):
        _check_leaf(name, leaf)
    for_orbax = [name for name, leaf in zip(names, leaves, strict=True) if _is_for_orbax(leaf)]
    if writer is None:
        is_usable = _has_orbax() and len(for_orbax) == len(names)
        writer = "orbax" if is_usable else "npy"
    if writer == "orbax" and len(for_orbax) < len(names):
        others = ", ".join([name or "itself" for name in names if name not in for_orbax])
        raise ArgumentError(
            f"save: orbax saves no empty arrays and no complex numbers of Python: {others}",
            fix='writer="npy"',
        )
    if writer == "orbax":
        _check_orbax(f"save: {place}")
        with jax.enable_x64(True):
            _save_by_orbax(place, dict(zip(_orbax_names(names), leaves, strict=True)))
    else:
        _save_files(place, names, leaves)


def load(directory: str | os.PathLike[str], like: PyTree) -> Any:
    """Load a pytree that `save` has written, also onto other devices.

    Args:
        directory: the directory.
        like: a pytree of the same structure. Its leaves say where values go: a ``jax.Array`` or a
            ``jax.ShapeDtypeStruct`` with a sharding, to the devices of that sharding; NumPy's array
            or `ShapeDtype`, to an array of NumPy; a Python number, to one. Each process reads the
            parts that its devices need.

    Returns:
        a pytree like ``like``, with the saved values, equal to the bit.

    Raises:
        ArgumentError: if there is no complete checkpoint, or if the structure, a shape or a dtype
            differs from that of ``like``.
        ParseError: if a file is damaged.
        UnsupportedFunctionError: if JAX, or the library that wrote the files, is not installed.

    Example:
        >>> import numpy as np, functrace as ft, tempfile
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> rows = NamedSharding(ft.distributed.mesh(1), PartitionSpec("data"))
        >>> x = ft.distributed.global_array(np.arange(3.0), rows)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ft.distributed.save(f"{folder}/x", x, writer="npy")
        ...     ft.distributed.load(f"{folder}/x", x).sharding == rows
        True
    """
    jax = _jax()
    place = Path(directory).absolute()
    leaves, treedef = flatten(like)
    names = paths(like)
    for name, leaf in zip(names, leaves, strict=True):
        _check_leaf(name, leaf, is_abstract=True)
    if (place / MANIFEST).exists():
        found = _load_files(place, names, leaves)
    elif (place / ORBAX).exists():
        with jax.enable_x64(True):
            found = _load_by_orbax(place, names, leaves)
    else:
        raise ArgumentError(
            f"load: {place} has no complete checkpoint",
            fix="functrace.distributed.latest(parent) finds the newest complete one",
        )
    return unflatten(treedef, found)


def latest(directory: str | os.PathLike[str]) -> Path | None:
    """Return the newest complete checkpoint among the subdirectories of a directory.

    The newest is the one with the largest last number in its name, such as 120 in ``step_120``.
    Directories without a number, and those that a killed process left incomplete, are ignored.

    Args:
        directory: the parent of the directories that `save` has written.

    Returns:
        the path; ``None`` if there is none.

    Example:
        >>> import functrace as ft
        >>> ft.distributed.latest("no/such/place") is None
        True
    """
    parent = Path(directory)
    if not parent.is_dir():
        return None
    found = [(number, x) for x in parent.iterdir() if (number := _number(x.name)) is not None]
    return max([(n, x) for n, x in found if _is_complete(x)], default=(0, None))[1]


def _number(name: str) -> int | None:
    """Return the number at the end of a name."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits.isascii() and digits else None


def _is_complete(place: Path) -> bool:
    return (place / MANIFEST).exists() or (place / ORBAX).exists()


def _check_leaf(name: str, leaf: Leaf, is_abstract: bool = False) -> None:
    """Check that a leaf has a shape and a dtype of numbers."""
    if isinstance(leaf, bool | int | float | complex):
        dtype = np.asarray(leaf).dtype
        is_array = True
    else:
        dtype = getattr(leaf, "dtype", None)
        is_array = hasattr(leaf, "shape") and (is_abstract or hasattr(leaf, "__array__"))
    if is_array and isinstance(dtype, np.dtype) and (dtype.kind in "biufc" or is_extended(dtype)):
        return
    raise ArgumentError(
        f"{'load' if is_abstract else 'save'}: the leaf {name or 'itself'} is a "
        f"{type(leaf).__name__}{f' of dtype {dtype}' if dtype is not None else ''}, not an array of "
        "numbers",
        fix="keys of jax.random are saved as jax.random.key_data(key); leave out the rest",
    )


def _is_for_orbax(leaf: Leaf) -> bool:
    """Return True if orbax can save a leaf: no empty array, and no complex number of Python."""
    return not isinstance(leaf, complex) and 0 not in getattr(leaf, "shape", ())


# -- files of NumPy --------------------------------------------------------------------------------


@final
class SavedLeaf(NamedTuple):
    """The entry of a leaf in the manifest.

    Args:
        name: its path in the pytree.
        shape: its shape.
        dtype: the name of its dtype.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


@final
class SavedPart(NamedTuple):
    """The entry of a shard in the list of a process.

    Args:
        leaf: the number of the leaf.
        start: its first index along each axis.
        shape: its shape.
        file: the name of its file.
        digest: the SHA-256 of that file.
    """

    leaf: int
    start: tuple[int, ...]
    shape: tuple[int, ...]
    file: str
    digest: str


def _save_files(place: Path, names: Sequence[str], leaves: Sequence[Any]) -> None:
    """Write the parts that this process has; process 0 then writes the manifest."""
    jax = _jax()
    rank, count = jax.process_index(), jax.process_count()
    place.mkdir(parents=True, exist_ok=True)
    own = place / _list_name(rank)
    own.unlink(missing_ok=True)  # of an earlier attempt
    _wait_for_all(f"save {place}")
    parts: list[SavedPart] = []
    for number, leaf in enumerate(leaves):
        for start, data in _parts_here(leaf, rank):
            file = f"{number:05d}.{'_'.join(map(str, start)) or '0'}.npy"
            content = npy(data)
            write_atomically(place / file, content)
            parts.append(SavedPart(number, start, data.shape, file, digest(content)))
    write_atomically(own, json.dumps(parts).encode())
    _wait_for_all(f"written {place}")
    if rank == 0:
        lists: dict[str, str] = {}
        for k in range(count):
            name = _list_name(k)
            if not (place / name).exists():
                raise ArgumentError(
                    f"save: process 0 does not see {name} of process {k} in {place}",
                    fix="save to a disk that all processes share",
                )
            lists[name] = digest((place / name).read_bytes())
        described = [SavedLeaf(n, *_described(x)) for n, x in zip(names, leaves, strict=True)]
        manifest = {"version": VERSION, "leaves": described, "lists": lists}
        manifest["digest"] = digest(json.dumps(manifest).encode())
        write_atomically(place / MANIFEST, json.dumps(manifest).encode())
    _wait_for_all(f"saved {place}")


def _list_name(rank: int) -> str:
    return f"process_{rank:05d}.json"


def _described(leaf: Leaf) -> tuple[tuple[int, ...], str]:
    """Return the shape of a leaf, and the name of its dtype."""
    if isinstance(leaf, bool | int | float | complex):
        return (), np.asarray(leaf).dtype.name
    return tuple(leaf.shape), np.dtype(leaf.dtype).name


def _parts_here(leaf: Leaf, rank: int) -> list[tuple[tuple[int, ...], np.ndarray[Any, Any]]]:
    """Return the parts of a leaf that this process writes, each with its first indices."""
    shards = getattr(leaf, "addressable_shards", None)
    if shards is None:
        array = np.asarray(leaf)
        return [((0,) * array.ndim, array)] if rank == 0 else []
    return [
        (tuple([i.start or 0 for i in shard.index]), np.asarray(shard.data))
        for shard in shards
        if shard.replica_id == 0
    ]


def _wait_for_all(what: str) -> None:
    """Wait until all processes are here."""
    if _jax().process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(what)


def _load_files(place: Path, names: Sequence[str], leaves: Sequence[Any]) -> list[Any]:
    """Load the parts of each leaf that this process needs."""
    saved, parts = _manifest(place)
    _check_fits(place, [x.name for x in saved], names)
    found: list[Any] = []
    for number, (leaf, entry) in enumerate(zip(leaves, saved, strict=True)):
        _check_same(place, entry, leaf)
        own = [part for part in parts if part.leaf == number]
        found.append(_loaded(leaf, _Parts(place, entry, own)))
    return found


def _manifest(place: Path) -> tuple[list[SavedLeaf], list[SavedPart]]:
    """Read the manifest and the lists that it names.

    Raises:
        ParseError: if one of them is damaged.
    """
    try:
        manifest = json.loads((place / MANIFEST).read_bytes())
        wanted = manifest.pop("digest")
        if wanted != digest(json.dumps(manifest).encode()):
            raise ValueError("its checksum differs")
        if manifest["version"] != VERSION:
            raise ValueError(f"its version is {manifest['version']}, not {VERSION}")
        saved = [SavedLeaf(n, tuple(shape), dtype) for n, shape, dtype in manifest["leaves"]]
        parts: list[SavedPart] = []
        for name, wanted in manifest["lists"].items():
            rows = json.loads(_read(place / name, wanted))
            parts += [SavedPart(k, tuple(i), tuple(s), file, d) for k, i, s, file, d in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError(f"load: {place / MANIFEST} is damaged: {error}", fix=_EARLIER) from error
    return saved, parts


def _read(path: Path, wanted: str) -> bytes:
    """Read a file.

    Raises:
        ParseError: if it is missing, or its checksum differs.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ParseError(f"load: {path} cannot be read: {error}", fix=_EARLIER) from error
    if digest(content) != wanted:
        raise ParseError(f"load: {path} is damaged: its checksum differs", fix=_EARLIER)
    return content


@final
class _Parts:
    """The saved parts of one leaf; each file is read once.

    Args:
        place: the directory.
        entry: the leaf.
        parts: its parts.
    """

    def __init__(self, place: Path, entry: SavedLeaf, parts: Sequence[SavedPart]) -> None:
        self.place, self.entry, self.parts = place, entry, parts
        self.contents: dict[str, np.ndarray[Any, Any]] = {}

    def _content(self, part: SavedPart, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        found = self.contents.get(part.file)
        if found is None:
            path = self.place / part.file
            content = io.BytesIO(_read(path, part.digest))
            try:
                found = np.lib.format.read_array(content, allow_pickle=False)
                found = found.view(dtype).reshape(part.shape) if is_extended(dtype) else found
            except ValueError as error:
                raise ParseError(f"load: {path} is damaged: {error}", fix=_EARLIER) from error
            if found.shape != part.shape or found.dtype != dtype:
                raise ParseError(f"load: {path} has another shape or dtype", fix=_EARLIER)
            self.contents[part.file] = found
        return found

    def read(self, index: Sequence[slice], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return a part of the array, which may be in several files.

        Raises:
            ParseError: if a file is damaged, or if the files do not have all of it.
        """
        bounds = [i.indices(n)[:2] for i, n in zip(index, self.entry.shape, strict=True)]
        result = np.empty([stop - start for start, stop in bounds], dtype)
        left = result.size
        for part in self.parts:
            low = [max(a, s) for (a, _), s in zip(bounds, part.start, strict=True)]
            ends = zip(bounds, part.start, part.shape, strict=True)
            high = [min(b, s + n) for (_, b), s, n in ends]
            if any(a >= b for a, b in zip(low, high, strict=True)):
                continue
            starts = [a for a, _ in bounds]
            into = tuple([slice(a - o, b - o) for a, b, o in zip(low, high, starts, strict=True)])
            of = tuple([slice(a - o, b - o) for a, b, o in zip(low, high, part.start, strict=True)])
            result[into] = self._content(part, dtype)[of]
            left -= result[into].size
        if left:
            raise ParseError(
                f"load: the files of {self.entry.name or 'the array'} in {self.place} do not have all "
                "of it",
                fix=_EARLIER,
            )
        return result


def _loaded(leaf: Leaf, parts: _Parts) -> Any:
    """Return the value of a leaf, where ``leaf`` is."""
    whole = tuple([slice(0, n) for n in parts.entry.shape])
    if isinstance(leaf, bool | int | float | complex):
        return type(leaf)(parts.read(whole, np.asarray(leaf).dtype)[()].item())
    dtype = np.dtype(leaf.dtype)
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:
        array = parts.read(whole, dtype)
        return array[()] if isinstance(leaf, np.generic) else array
    from functrace.xla.scope import from_callback

    return from_callback(parts.entry.shape, dtype, sharding, lambda index: parts.read(index, dtype))


def _check_fits(place: Path, saved: Sequence[str], names: Sequence[str]) -> None:
    """Check that two pytrees have the same leaves."""
    if list(saved) == list(names):
        return
    missing = [x or "itself" for x in saved if x not in names]
    new = [x or "itself" for x in names if x not in saved]
    raise ArgumentError(
        f"load: {place} has another structure: saved, but not in like: {', '.join(missing) or '-'}; "
        f"in like, but not saved: {', '.join(new) or '-'}",
        fix="pass a pytree with the structure of the saved one",
    )


def _check_same(place: Path, entry: SavedLeaf, leaf: Leaf) -> None:
    """Check that a leaf has the saved shape and dtype."""
    shape, dtype = _described(leaf)
    if (entry.shape, entry.dtype) != (shape, dtype):
        raise ArgumentError(
            f"load: {entry.name or 'the array'} in {place} is {entry.dtype}{list(entry.shape)}, but "
            f"{dtype}{list(shape)} in like",
            fix="pass a pytree with the shapes and dtypes of the saved one",
        )


# -- orbax -----------------------------------------------------------------------------------------


def _has_orbax() -> bool:
    """Return True if orbax-checkpoint is installed."""
    try:
        return importlib.util.find_spec("orbax.checkpoint") is not None
    except ModuleNotFoundError:  # (of orbax itself)
        return False


def _check_orbax(what: str) -> None:
    """Check that orbax-checkpoint is installed."""
    if not _has_orbax():
        raise UnsupportedFunctionError(
            f"{what}: orbax is not installed", fix="pip install orbax-checkpoint"
        )


def _orbax_names(names: Sequence[str]) -> list[str]:
    """Return keys of a flat dict, since orbax does not know functrace's pytrees."""
    return [f"{k:05d} {name}".replace("/", "|") for k, name in enumerate(names)]


def _save_by_orbax(place: Path, leaves: dict[str, Any]) -> None:
    """Save a dict of leaves."""
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(place, {"leaves": leaves})


def _load_by_orbax(place: Path, names: Sequence[str], leaves: Sequence[Any]) -> list[Any]:
    """Load a dict of leaves.

    Raises:
        ArgumentError: if its structure, a shape or a dtype differs.
        ParseError: if it cannot be read.
        UnsupportedFunctionError: if orbax is not installed.
    """
    _check_orbax(f"load: {place} was written by orbax")
    import jax
    import orbax.checkpoint as ocp

    def abstract(leaf: Leaf) -> Any:
        if isinstance(leaf, bool | int | float | complex):
            return leaf
        sharding = getattr(leaf, "sharding", None)
        if sharding is None:
            return np.empty(leaf.shape, leaf.dtype)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    keys = _orbax_names(names)
    with ocp.StandardCheckpointer() as checkpointer:
        try:
            saved: Any = checkpointer.metadata(place).item_metadata
            saved = saved["leaves"]
            _check_fits(place, [x[6:] for x in saved], [x[6:] for x in keys])
            for key, leaf in zip(keys, leaves, strict=True):
                shape, dtype = tuple(getattr(saved[key], "shape", ())), saved[key].dtype
                _check_same(place, SavedLeaf(key[6:], shape, np.dtype(dtype).name), leaf)
            wanted = {"leaves": dict(zip(keys, map(abstract, leaves), strict=True))}
            found = checkpointer.restore(place, wanted)["leaves"]
        except ArgumentError:
            raise
        except Exception as error:  # (orbax raises whatever its parts raise)
            raise ParseError(f"load: orbax cannot read {place}: {error}", fix=_EARLIER) from error
    return [_checked(place, key, found[key], leaf) for key, leaf in zip(keys, leaves, strict=True)]


def _checked(place: Path, key: str, value: Leaf, leaf: Leaf) -> Any:
    """Return a value that orbax has read, of the type of ``leaf``."""
    _check_same(place, SavedLeaf(key[6:], *_described(value)), leaf)
    if isinstance(leaf, bool | int | float | complex):
        return type(leaf)(value)
    return value[()] if isinstance(leaf, np.generic) else value
