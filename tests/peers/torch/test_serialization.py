"""Files of tensors are read by the other library: `torch.save` here, ``torch.load`` there, and back."""

from __future__ import annotations

import collections
import importlib
import io
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the files are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
          "complex128")  # fmt: skip


def objects(library: ModuleType) -> dict[str, Any]:
    """Return objects that files may hold."""
    library.manual_seed(0)
    x = library.arange(12.0).reshape(3, 4)
    parameter = library.nn.Parameter(library.ones(2))
    parameter.note = 3
    tagged = library.ones(3)
    tagged.tag = "x"
    net = library.nn.Sequential(library.nn.Linear(2, 3), library.nn.BatchNorm1d(3))
    optimizer = library.optim.Adam(net.parameters())
    net(library.randn(4, 2)).sum().backward()
    optimizer.step()
    schedule = library.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3])
    return {
        "whole": x, "part": x[1:3, ::2], "turned": x.t(), "parameter": parameter, "tagged": tagged,
        "buffer": library.nn.Buffer(library.ones(1)), "conj": library.tensor([1 + 2j]).conj(),
        "dtype": library.float32, "size": library.Size([1, 2]), "device": library.device("cpu"),
        "layout": library.strided, "set": {1, 2}, "bytes": b"a\xffb", "bytearray": bytearray(b"q"),
        "ints": [0, -5, 2**15, 2**31, 2**70, -(2**40)], "floats": [1.5, float("inf")], "none": None,
        "tuple": (1, (), (2,)), "ordered": collections.OrderedDict(a=1), 7: {("a", 1): [True]},
        "counter": collections.Counter("abca"), "complex": 1j, "text": "äöü",
        "net": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
        "empty": library.empty(0, 3), "scalar": library.tensor(3), "frozen": library.nn.Parameter(x, False),
        "expanded": library.ones(1).expand(5), "leaf": library.ones(2, requires_grad=True),
        **{name: library.arange(3).to(getattr(library, name)) for name in DTYPES},
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Return an object without tensors."""
    if isinstance(value, dict):
        return (
            type(value).__name__,
            {k: plain(v) for k, v in value.items()},
            plain(getattr(value, "_metadata", None)),
        )
    if hasattr(value, "requires_grad"):
        kind = [isinstance(value, x) for x in (torch.nn.Parameter, SHIM.nn.Parameter)]
        buffer = [isinstance(value, x) for x in (torch.nn.Buffer, SHIM.nn.Buffer)]
        return (any(kind), any(buffer), value.tolist(), str(value.dtype), value.requires_grad,
                value.numel() and value.stride(), value.storage_offset() if not value.is_conj() else 0,
                getattr(value, "note", None),
                getattr(value, "tag", None))  # fmt: skip
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return repr(value)


def through(obj: Any, writer: ModuleType, reader: ModuleType, **options: Any) -> Any:
    """Return an object that one library has written and the other has read."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.save(obj, file, **options)
        file.seek(0)
        return reader.load(file)


def test_each_library_reads_the_files_of_the_other() -> None:
    for writer, reader in ((torch, SHIM), (SHIM, SHIM), (SHIM, torch)):
        expected = plain(objects(writer))
        found = plain(through(objects(writer), writer, reader))
        for key, value in expected[1].items():
            assert found[1][key] == value, (writer.__name__, reader.__name__, key)


def test_the_older_format_of_pytorch_is_read() -> None:
    expected = plain(through(objects(torch), torch, torch))[1]
    found = plain(through(objects(torch), torch, SHIM, _use_new_zipfile_serialization=False))[1]
    for key, value in expected.items():
        assert found[key] == value, key


def test_memory_is_shared_in_either_direction() -> None:
    for writer, reader in ((torch, SHIM), (SHIM, torch), (SHIM, SHIM)):
        x = writer.arange(6.0)
        found = through([x, x[2:4], x.view(2, 3).t()], writer, reader)
        found[0][2] = 9.0
        assert found[1][0] == 9.0 and found[2][2, 0] == 9.0, (writer.__name__, reader.__name__)


def test_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    for writer, reader in ((torch, SHIM), (SHIM, torch)):
        writer.save({"x": writer.arange(1000.0), "y": writer.ones(3, dtype=writer.int8)}, path)
        found = reader.load(path, mmap=True, weights_only=True)
        assert found["x"].sum().item() == 499500.0 and found["y"].tolist() == [1, 1, 1]


def test_other_dtypes_are_refused() -> None:
    for dtype in (torch.uint16, torch.float8_e5m2):
        file = io.BytesIO()
        torch.save(torch.ones(2).to(dtype), file)
        file.seek(0)
        if hasattr(SHIM, str(dtype).removeprefix("torch.")):
            continue
        with pytest.raises(Exception, match=r"refers to|does not have"):
            SHIM.load(file)


def test_whole_modules_are_refused_as_by_weights_only() -> None:
    file = io.BytesIO()
    torch.save(torch.nn.Linear(1, 1), file)
    for library in (torch, SHIM):
        file.seek(0)
        with pytest.raises(Exception, match="Weights only load failed") as caught:
            library.load(file)
        assert caught.type.__name__ == "UnpicklingError"


def test_devices_of_map_location() -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    for map_location in ("cuda", "cuda:0", {"cpu": "cuda:0"}, 3, "cpu", torch.device("cpu"), {}):
        results = []
        for library in (torch, SHIM):
            file.seek(0)
            try:
                given: Any = map_location
                if isinstance(map_location, torch.device):
                    given = library.device("cpu")
                results.append(library.load(file, map_location=given).tolist())
            except (RuntimeError, TypeError) as error:
                results.append((type(error).__name__, str(error)))
        assert results[1] == results[0], map_location


def test_random_containers() -> None:
    rng = np.random.default_rng(0)

    def made(library: ModuleType, numbers: Any, depth: int) -> Any:
        choice = int(numbers.integers(10 if depth else 7))
        if choice < 2:
            shape = tuple(int(n) for n in numbers.integers(0, 4, int(numbers.integers(4))))
            dtype = getattr(library, DTYPES[int(numbers.integers(len(DTYPES)))])
            x = library.arange(int(np.prod(shape))).reshape(shape).to(dtype)
            return x.mT if x.dim() > 1 and choice else x
        if choice < 7:
            return [
                int(numbers.integers(-(2**40), 2**40)),
                float(numbers.normal()),
                None,
                "t" * choice,
                (1,),
            ][choice - 2]
        items = [made(library, numbers, depth - 1) for _ in range(int(numbers.integers(5)))]
        return [items, tuple(items), {str(k): v for k, v in enumerate(items)}][choice - 7]

    for _ in range(60):
        seed = int(rng.integers(2**31))
        for writer, reader in ((torch, SHIM), (SHIM, torch)):
            given = made(writer, np.random.default_rng(seed), 3)
            assert plain(through(given, writer, reader)) == plain(given), (writer, seed)
