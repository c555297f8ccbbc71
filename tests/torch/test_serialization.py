"""`torch.save` and `torch.load`: what is stored comes back, and no file runs code or fills memory."""

from __future__ import annotations

import contextlib
import io
import pickle
import random
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.files.writing import Writer

UnpicklingError = pickle.UnpicklingError


def stored(obj: Any) -> io.BytesIO:
    """Return the file of an object."""
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return file


def archive(pickled: bytes, **entries: bytes) -> io.BytesIO:
    """Return an archive of a pickle and other entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", pickled)
        for name, data in entries.items():
            made.writestr(f"archive/data/{name.removeprefix('s')}", data)
    file.seek(0)
    return file


# -- round trips -----------------------------------------------------------------------------------


def test_containers_and_numbers_come_back() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    given = {
        "none": None, "bools": [True, False], "ints": [0, 255, 256, 65536, -1, 2**40, -(2**70)],
        "floats": [1.5, float("inf")], "complex": 1j, "text": "äöü\ud800", "bytes": b"\x00\xff",
        "bytearray": bytearray(b"x"), "tuples": ((), (1,), (1, (2, 3))), "set": {1, "a"},
        "ordered": OrderedDict(b=1, a=2), "counter": Counter("abca"), 3: {(1, "k"): "v"},
        "dtype": torch.float32, "size": torch.Size([1, 2]), "device": torch.device("cpu"),
        "layout": torch.strided,
    }  # fmt: skip
    found = torch.load(stored(given))
    assert found == given
    assert [type(x) for x in found.values()] == [type(x) for x in given.values()]
    found = torch.load(stored(loop))
    assert found[1] is found


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "int64", "int32", "int16", "int8",
                                  "uint8", "bool", "complex64", "complex128"])  # fmt: skip
def test_tensors_of_every_dtype_come_back(name: str) -> None:
    dtype = getattr(torch, name)
    base = torch.arange(24).reshape(2, 3, 4).to(dtype)
    given = [base, base[:, 1:], base.mT, base[1, 2, 3], base[0:0], base[:, :1].expand(2, 5, 4)]
    for x, y in zip(given, torch.load(stored(given)), strict=True):
        assert y.dtype is dtype and y.shape == x.shape and y.tolist() == x.tolist()
        assert not y.numel() or y.stride() == x.stride()


def test_shared_memory_is_shared() -> None:
    x = torch.arange(6.0)
    file = stored({"whole": x, "part": x[2:4], "turned": x.view(2, 3).t(), "again": x})
    assert len([n for n in zipfile.ZipFile(file).namelist() if "/data/" in n]) == 1
    file.seek(0)
    found = torch.load(file)
    assert found["again"] is found["whole"]
    found["whole"][2] = 9.0
    assert found["part"][0] == 9.0 and found["turned"][2, 0] == 9.0
    again = torch.load(stored(found))
    again["part"][0] = 7.0
    assert again["whole"][2] == 7.0 and again["part"].storage_offset() == 2


def test_parameters_and_attributes_come_back() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    p.note = "mine"
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    leaf = torch.ones(2, requires_grad=True)
    computed = (leaf * 2).sum()
    a, b, c, d, e = torch.load(stored([p, frozen, leaf, computed, torch.nn.Buffer(torch.ones(1))]))
    assert type(a) is torch.nn.Parameter and a.requires_grad and a.note == "mine"
    assert type(b) is torch.nn.Parameter and not b.requires_grad
    assert c.requires_grad and d.requires_grad and d.grad_fn is None
    assert isinstance(e, torch.nn.Buffer)


def test_states_of_modules_and_optimizers_come_back() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    found = torch.load(stored({"net": net.state_dict(), "optimizer": optimizer.state_dict()}))
    assert found["net"]._metadata == net.state_dict()._metadata
    other = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)
    )
    other.load_state_dict(found["net"])
    resumed = torch.optim.Adam(other.parameters())
    resumed.load_state_dict(found["optimizer"])
    x = torch.randn(5, 3)
    for model, steps in ((net, optimizer), (other, resumed)):
        steps.zero_grad()
        model(x).sum().backward()
        steps.step()
    torch.testing.assert_close(other.state_dict(), net.state_dict(), rtol=0, atol=0)


def test_paths_and_mapped_memory(tmp_path: Path) -> None:
    path = tmp_path / "a model.pt"
    torch.save({"x": torch.arange(1000.0), "y": torch.ones(3, dtype=torch.int8)}, path)
    assert zipfile.ZipFile(path).namelist()[0] == "a model/data.pkl"
    for mmap in (False, True):
        found = torch.load(str(path), mmap=mmap, map_location="cpu", weights_only=True)
        assert found["x"].sum() == 499500.0 and found["y"].tolist() == [1, 1, 1]
        found["x"].zero_()
    assert torch.load(path)["x"].sum() == 499500.0
    with pytest.raises(ValueError, match="f must be a file path"):
        torch.load(stored(1), mmap=True)
    for info in zipfile.ZipFile(path).infolist():
        start = info.header_offset + 30 + len(info.filename) + len(info.extra)
        assert start % 64 == 0


def test_memory_is_viewed_as_other_dtypes(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, 2.0]])
    bits = x.view(torch.int32)
    assert bits.tolist() == [[1065353216, 1073741824]] and not bits.requires_grad
    bits[0, 0] = 0
    assert x.tolist() == [[0.0, 2.0]] and x._version == 1
    assert x.view(torch.uint8).shape == (1, 8) and x.view(dtype=torch.float64).shape == (1, 1)
    assert x.view(size=(2, 1)).shape == (2, 1)
    for tensor, dtype, match in (
        (torch.ones(3), torch.float64, r"self.size\(-1\) must be divisible by 2"),
        (torch.ones(2, 3).t(), torch.uint8, r"self.stride\(-1\) must be 1 .* but got 3"),
        (torch.tensor(1.0), torch.uint8, r"self.dim\(\) cannot be 0"),
        (torch.ones(4)[1:3], torch.float64, r"self.storage_offset\(\) must be divisible by 2"),
    ):
        with pytest.raises(RuntimeError, match=match):
            tensor.view(dtype)
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    storage = torch.UntypedStorage.from_file(str(path), False, 16)
    part = torch.asarray(storage[4:8], dtype=torch.uint8)
    part[0] = 99
    assert storage[4] == 99 and path.read_bytes()[4] == 4 and len(storage[4:8]) == 4


def test_whole_modules_and_other_objects_are_refused() -> None:
    for obj, fix in (
        (torch.nn.Linear(1, 1), "state_dict"),
        (np.ones(2), "from_numpy"),
        (np.float64(1), "item"),
        (defaultdict(list), "dict"),
        (test_paths_and_mapped_memory, "dict of tensors"),
        (torch.ones(2).as_subclass(type("Own", (torch.Tensor,), {})), "as_subclass"),
    ):
        with pytest.raises(TypeError, match=f"fix: .*{fix}"):
            torch.save([obj], io.BytesIO())
    with pytest.raises(AttributeError, match="'write' attribute"):
        torch.save(1, 3)  # type: ignore[arg-type]


# -- devices ---------------------------------------------------------------------------------------


def test_storages_of_other_devices_need_map_location() -> None:
    pickled = Writer().write(torch.ones(2)).replace(b"cpu", b"cuda:0").replace(b"\x03\0\0\0cuda",
                                                                               b"\x06\0\0\0cuda")  # fmt: skip
    data = {"s0": np.ones(2, np.float32).tobytes()}
    with pytest.raises(RuntimeError, match=r"map_location=torch\.device"):
        torch.load(archive(pickled, **data))
    seen: list[str] = []

    def place(storage: Any, location: str) -> Any:
        seen.append(location)
        return storage

    for map_location in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, place):
        assert torch.load(archive(pickled, **data), map_location).tolist() == [1.0, 1.0]
    assert seen == ["cuda:0"]
    for map_location in ("cuda", {"cpu": "cpu"}, lambda storage, location: None):
        with pytest.raises(RuntimeError, match="map_location"):
            torch.load(archive(pickled, **data), map_location)


# -- hostile files ---------------------------------------------------------------------------------


class Command:
    """Pickled as a call of a function with effects."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_functions_are_not_called(tmp_path: Path, protocol: int) -> None:
    import os

    target = tmp_path / "made"
    for call in ((os.mkdir, str(target)), (eval, f"open({str(target)!r}, 'w')")):
        pickled = pickle.dumps([1, Command(*call)], protocol)
        with pytest.raises(UnpicklingError, match="Weights only load failed: the file refers to"):
            torch.load(archive(pickled))
        with pytest.raises(UnpicklingError):
            torch.load(archive(pickled), weights_only=False)
    assert not target.exists()


def test_names_of_torch_outside_of_the_table_are_refused() -> None:
    for name in (b"torch\nload", b"torch.hub\nload", b"functrace.torch\nload", b"torch\n__dict__",
                 b"torch.nn.modules.linear\nLinear", b"builtins\ngetattr", b"__builtin__\neval",
                 b"collections\nnamedtuple", b"torch\nTensor.add_"):  # fmt: skip
        with pytest.raises(UnpicklingError, match="refers to"):
            torch.load(archive(b"\x80\x02c" + name + b"\n)R."))


def test_attributes_and_calls_of_data_are_refused() -> None:
    ordered = b"ccollections\nOrderedDict\n"
    for body in (
        ordered + b")R}X\x05\0\0\0itemsK\x01sb.",  # an attribute that hides a method
        ordered + b"}X\x01\0\0\0aK\x01sb.",  # of the class
        b"ctorch\nSize\n}X\x01\0\0\0aK\x01sb.",  # of a function
        b"ctorch\nfloat32\n)R.",  # calls a dtype
        b"X\x01\0\0\0a)R.",  # calls a string
        b"K\x01K\x02a.",  # appends to a number
        b"c_codecs\nencode\nX\x01\0\0\0aX\x03\0\0\0rot\x86R.",  # another codec
        b"}]K\x01s.",  # a list as a key
        b"\x8b\xff\xff\xff\x7f.",  # an integer of 2 GB
    ):
        with pytest.raises(UnpicklingError):
            torch.load(archive(b"\x80\x02" + body))


def test_keys_nested_deeply_are_refused() -> None:
    deep = b"K\x01" + b"\x85" * 200_000
    with pytest.raises(UnpicklingError, match="key"):
        torch.load(archive(b"\x80\x02}" + deep + b"K\x01s."))


def tensor_of(size: Any, stride: Any, offset: Any = 0, count: int = 4, key: str = "0") -> bytes:
    """Return the pickle of a tensor with a geometry in a storage of ``count`` floats."""

    def text(x: str) -> bytes:
        return b"X" + struct.pack("<I", len(x)) + x.encode()

    def value(x: Any) -> bytes:
        return pickle.dumps(x, 2)[2:-1]

    reference = (
        b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + value(count)
        + b"tQ"
    )  # fmt: skip
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + reference + value(offset) + value(size)
        + value(stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def test_tensors_stay_in_their_storage() -> None:
    data = {"s0": np.arange(4, dtype=np.float32).tobytes()}
    assert torch.load(archive(tensor_of((2, 2), (1, 2)), **data)).tolist() == [[0, 2], [1, 3]]
    for size, stride, offset in (
        ((5,), (1,), 0), ((2,), (1,), 3), ((2,), (4,), 0), ((2**40,), (1,), 0), ((2**80,), (0,), 0),
        ((2**40, 2**40), (0, 0), 0), ((2,), (-1,), 1), ((-1,), (1,), 0), ((2,), (1,), -1),
        ((2,), (1, 1), 0), ((2.0,), (1,), 0), (("a",), (1,), 0), ((1,), (2**70,), 0),
    ):  # fmt: skip
        with pytest.raises(UnpicklingError):
            torch.load(archive(tensor_of(size, stride, offset), **data))


def test_storages_have_the_size_that_the_file_has() -> None:
    data = {"s0": np.arange(4, dtype=np.float32).tobytes()}
    for count in (3, 5, 2**40, -1):
        with pytest.raises(UnpicklingError, match="should have"):
            torch.load(archive(tensor_of((1,), (1,), 0, count), **data))
    for key in ("1", "../0", "/etc/passwd", "0/../0"):
        with pytest.raises(UnpicklingError, match=r"no entry|storage named"):
            torch.load(archive(tensor_of((1,), (1,), key=key), **data))


def test_compressed_and_overlapping_entries_are_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("archive/data.pkl", tensor_of((1,), (1,), 0, 2**22))
        made.writestr("archive/data/0", bytes(2**24))
    assert len(file.getvalue()) < 100_000
    file.seek(0)
    with pytest.raises(UnpicklingError, match="compressed"):
        torch.load(file)
    data = bytearray(stored([torch.zeros(1000)]).getvalue())
    struct.pack_into("<II", data, data.index(b"PK\x01\x02") + 20, 2**31, 2**31)
    with pytest.raises((UnpicklingError, RuntimeError)):
        torch.load(io.BytesIO(bytes(data)))


def test_damaged_files_raise() -> None:
    whole = stored({"a": torch.arange(100.0), "b": [torch.ones(3), "text"]}).getvalue()
    for end in range(0, len(whole), 97):
        with pytest.raises((RuntimeError, UnpicklingError, EOFError)):
            torch.load(io.BytesIO(whole[:end]))
    numbers = random.Random(0)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(3):
            data[numbers.randrange(len(data))] = numbers.randrange(256)
        with contextlib.suppress(RuntimeError, UnpicklingError, EOFError):
            torch.load(io.BytesIO(bytes(data)))
    with pytest.raises(UnpicklingError):
        torch.load(io.BytesIO(b"hello world"))
    with pytest.raises(FileNotFoundError):
        torch.load("/nonexistent/file.pt")


def test_damaged_pickles_raise() -> None:
    whole = Writer().write({"a": [1, 2.5, "x", (1, 2)], "b": OrderedDict(c={1, 2}), 3: b"yz"})
    numbers = random.Random(1)
    for k in range(2000):
        data = bytearray(whole)
        for _ in range(1 + k % 3):
            data[numbers.randrange(len(data))] = numbers.randrange(256)
        with contextlib.suppress(UnpicklingError):
            torch.load(archive(bytes(data)))


def test_files_of_scripts_are_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("model/data.pkl", b"\x80\x02N.")
        made.writestr("model/constants.pkl", b"\x80\x02N.")
    file.seek(0)
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(file)


class Point:
    """A class that a user declares safe."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_classes_declared_safe_are_made() -> None:
    file = archive(pickle.dumps(Point(3), 2))
    with pytest.raises(UnpicklingError, match="add_safe_globals"):
        torch.load(file)
    with torch.serialization.safe_globals([Point]):
        assert torch.load(archive(pickle.dumps(Point(3), 2))).x == 3
        assert torch.serialization.get_safe_globals() == [Point]
    assert not torch.serialization.get_safe_globals()


# -- the older format ------------------------------------------------------------------------------


def old_file(pickled: bytes, keys: list[str], *storages: np.ndarray[Any, Any]) -> bytes:
    """Return a file of the format from before PyTorch 1.6."""
    head = [pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    data = [struct.pack("<q", x.size) + x.tobytes() for x in storages]
    return b"".join([*head, pickled, pickle.dumps(keys, 2), *data])


def test_files_of_the_older_format_are_read() -> None:
    pickled = tensor_of((2, 2), (2, 1)).replace(b"tQ", b"NtQ")
    values = np.arange(4, dtype=np.float32)
    found = torch.load(io.BytesIO(old_file(pickled, ["0"], values)))
    assert found.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(RuntimeError, match="unexpected EOF, expected 4 more bytes"):
        torch.load(io.BytesIO(old_file(pickled, ["0"], values)[:-4]))
    with pytest.raises(UnpicklingError, match="longer than the file"):
        huge = tensor_of((2,), (1,), 0, 2**40).replace(b"tQ", b"NtQ")
        torch.load(io.BytesIO(old_file(huge, ["0"], values)))
    with pytest.raises(UnpicklingError, match="other storages"):
        torch.load(io.BytesIO(old_file(pickled, ["1"], values)))
    with pytest.raises(TypeError, match="only the zip format"):
        torch.save(1, io.BytesIO(), _use_new_zipfile_serialization=False)
