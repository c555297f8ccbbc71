"""`functrace.save` and `functrace.load`: values to the bit, damaged files, killed and parallel
writers.
"""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import ArgumentError, ParseError, TreeError

FORMATS = ["npz", "safetensors"]


@pytest.fixture(params=FORMATS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of each format."""
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"tree.{request.param}"


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any = None
    name: str = ft.tree.static(default="dense")


@ft.tree.register
@dataclasses.dataclass(frozen=True)
class Pair:
    one: Any
    other: Any


def same(one: Any, other: Any) -> None:
    """Assert that two pytrees are equal to the bit, types included."""
    assert type(one) is type(other), (one, other)
    if isinstance(one, dict):
        assert [*one] == [*other]
        for k in one:
            same(one[k], other[k])
    elif isinstance(one, list | tuple | deque):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray | np.generic):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes()
        assert not isinstance(other, np.ndarray) or other.flags.writeable
    elif isinstance(one, float):
        assert np.float64(one).tobytes() == np.float64(other).tobytes()
    else:
        assert one == other


def everything() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "w": rng.normal(size=(3, 4)),
        "layers": [{"w": np.arange(5, dtype=np.int16)}, (np.float32(2.5), np.bool_(True))],
        "numbers": [True, False, 0, -(10**30), 1.5, float("inf"), -0.0, 3 + 1j, None, "text\n\u2207", b"\x00x"],
        "empty": [np.zeros((0, 3)), {}, [], (), np.float64(0.0)],
        "zero dimensions": np.array(3.5, np.float32),
        "kinds": [np.array(["a", "bcd"]), np.array([b"x"]), np.array(["2020-01-01"], "M8[D]"),
                  np.array([3], "m8[s]"), np.array([1 + 2j], np.complex64), np.array([True])],
        "order": [np.asfortranarray(rng.normal(size=(2, 3))), np.arange(6.0)[::2], np.arange(3, dtype=">i4")],
        "key": ft.random.key(7),
        "keys": ft.random.split(ft.random.key(7), 3),
        "../../escape": np.ones(1),
        "a/b\x00c": np.ones(2),
        "x" * 300: np.ones(1),
        "functrace.json": np.ones(3),
        "__metadata__": np.ones(3),
        3: np.ones(1), (1, "a"): np.ones(1), None: 1, True: 2, 2.5: 4,
        "ordered": OrderedDict([("z", 1), ("a", np.ones(1))]),
        "queue": deque([1, np.ones(1)], maxlen=4),
    }  # fmt: skip


def test_values_come_back_to_the_bit(file: Path) -> None:
    wanted = everything()
    del wanted[True]  # (optree compares keys of a dict, and does not order these)
    for k in (3, (1, "a"), None, 2.5):
        del wanted[k]
    ft.save(file, wanted)
    same(wanted, ft.load(file))
    same(wanted, ft.load(file, like=wanted))
    content = file.read_bytes()
    ft.save(file, wanted)
    assert file.read_bytes() == content and [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("key", [3, (1, "a"), None, True, 2.5, b"x", ""])
def test_keys_of_dicts(file: Path, key: Any) -> None:
    wanted = {key: np.ones(2)}
    ft.save(file, wanted)
    found = ft.load(file)
    same(wanted, found)
    assert type(next(iter(found))) is type(key)


@pytest.mark.parametrize("tree", [None, 1, 2.5, "x", np.ones(2), np.int8(3), [], {}])
def test_a_leaf_or_an_empty_container_is_a_pytree(file: Path, tree: Any) -> None:
    ft.save(file, tree)
    same(tree, ft.load(file))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0), (1, 2, 3)])
@pytest.mark.parametrize(
    "dtype", ["u1", "i1", "?", "u2", ">i8", "f2", "f4", ">f8", "c8", "c16", "S3", "U2", "M8[ns]"]
)
def test_every_dtype_in_every_shape(file: Path, dtype: str, shape: tuple[int, ...]) -> None:
    kind = np.dtype(dtype)
    count = int(np.prod(shape)) * kind.itemsize
    x = np.frombuffer(bytes([k % 2 for k in range(count)]), kind).reshape(shape)
    wanted = {
        "x": x,
        "turned": x.T,
        "fortran": np.asfortranarray(x),
        "strided": x[..., ::2] if shape else x,
    }
    ft.save(file, wanted)
    found = ft.load(file)
    for name, y in wanted.items():
        assert found[name].dtype == kind and found[name].shape == y.shape
        assert found[name].tobytes() == y.tobytes()


def test_strings_and_integers_that_json_does_not_have(file: Path) -> None:
    pair = "\ud83d\ude00"
    wanted = {
        "text": [pair, pair[0], "\U0001f600", "a\0"],
        "number": [10**5000, -(3**9999)],
        "keys": {pair: 1, "\U0001f600": 2},
    }
    ft.save(file, wanted)
    assert ft.load(file) == wanted
    for x in (np.str_("a\0"), np.bytes_(b"a\0")):
        with pytest.raises(ArgumentError, match="ends in zeros"):
            ft.save(file, [x])


def test_compressed_or_longer_arrays_raise() -> None:
    from functrace.saving import trees

    def content(shape: tuple[int, ...], method: int) -> io.BytesIO:
        made = io.BytesIO()
        header = np.lib.format.header_data_from_array_1_0(np.zeros(3))
        text = io.BytesIO()
        np.lib.format.write_array_header_1_0(text, {**header, "shape": shape})
        with zipfile.ZipFile(made, "w", method) as archive:
            archive.writestr("0.npy", text.getvalue() + bytes(24))
            archive.writestr(trees._STRUCTURE, "{}")
        return made

    _, stored = trees._read_npz(content((3,), zipfile.ZIP_STORED))
    np.testing.assert_array_equal(stored("0"), np.zeros(3))
    _, stored = trees._read_npz(content((2**50,), zipfile.ZIP_STORED))
    with pytest.raises(ValueError, match="longer than the file"):
        stored("0")
    with pytest.raises(ValueError, match="compressed"):
        trees._read_npz(content((3,), zipfile.ZIP_DEFLATED))


def test_all_bits_of_nan(file: Path) -> None:
    odd = np.array([0x7FF8000000000123, 0xFFF0000000000001], np.uint64).view(np.float64)
    wanted = [odd, float(odd[0]), complex(float(odd[0]), 1.0)]
    ft.save(file, wanted)
    found = ft.load(file)
    same(wanted[:2], found[:2])
    assert np.complex128(wanted[2]).tobytes() == np.complex128(found[2]).tobytes()


def test_classes_need_like(file: Path) -> None:
    wanted = {
        "point": Point(np.ones(2), 3),
        "layer": Layer(np.ones((2, 2)), None, "first"),
        "pair": Pair([1.0], np.float32(2.0)),
        "default": defaultdict(list, a=np.ones(1)),
    }
    ft.save(file, wanted)
    with pytest.raises(ArgumentError, match="is a Point"):
        ft.load(file)
    zeros = {
        "point": Point(np.zeros(2), 0),
        "layer": Layer(np.zeros((2, 2)), None, "first"),
        "pair": Pair([0.0], np.float32(0.0)),
        "default": defaultdict(list, a=np.zeros(1)),
    }
    found = ft.load(file, like=zeros)
    same(wanted, found)
    assert found["default"].default_factory is list
    with pytest.raises(ArgumentError, match="static"):
        ft.load(file, like={**zeros, "layer": Layer(np.zeros((2, 2)), None, "second")})
    with pytest.raises(ArgumentError, match="point"):
        ft.load(file, like={**zeros, "point": Pair(np.zeros(2), 0)})


def test_states_of_optimizers(file: Path) -> None:
    params = {"w": np.ones((2, 3), np.float32), "b": np.zeros(3)}
    tx = ft.optim.chain(
        ft.optim.clip_by_global_norm(1.0), ft.optim.adamw(1e-3, mask={"w": True, "b": False})
    )
    for rule in (tx, ft.optim.lbfgs(), ft.optim.sgd(0.1, 0.9)):
        state = rule.init(params)
        ft.save(file, (params, state))
        same((params, state), ft.load(file, like=(params, state)))
        shapes = ft.tree.map(
            lambda x: ft.ShapeDtype(np.shape(x), np.asarray(x).dtype), (params, state)
        )
        same((params, state), ft.load(file, like=shapes))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
def test_dtypes_that_numpy_does_not_have(file: Path, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    wanted = [
        np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name)),
        getattr(ml_dtypes, name)(3),
    ]
    ft.save(file, wanted)
    same(wanted, ft.load(file))


def test_other_libraries_read_the_files(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(size=(2, 3))
    tree = {"layers": [{"w": w}], "n": 3}
    ft.save(tmp_path / "a.npz", tree)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        same(found["layers.0.w"], w)
    safetensors = pytest.importorskip("safetensors.numpy")
    ft.save(tmp_path / "a.safetensors", tree)
    np.testing.assert_array_equal(
        safetensors.load_file(tmp_path / "a.safetensors")["layers.0.w"], w
    )


def test_arrays_of_jax_are_arrays(file: Path) -> None:
    jax = pytest.importorskip("jax")
    ft.save(file, {"x": jax.numpy.arange(3.0)})
    same(ft.load(file), {"x": np.arange(3.0, dtype=jax.numpy.arange(3.0).dtype)})
    with pytest.raises(ArgumentError, match="key_data"):
        ft.save(file, jax.random.key(0))


class Unknown:
    pass


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "object": (lambda: {"a": [Unknown()]}, r"\['a'\]\[0\] is a Unknown"),
    "function": (lambda: {"f": print}, "builtin_function"),
    "objects": (lambda: np.array([{}, None]), "dtype object"),
    "structured": (lambda: np.zeros(2, [("a", float)]), "dtype"),
    "masked": (lambda: np.ma.masked_array([1.0], [True]), "MaskedArray"),
    "key": (lambda: {frozenset(): 1}, "frozenset"),
    "set": (lambda: {1, 2}, "set"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_saved_is_refused(file: Path, name: str) -> None:
    make, words = REFUSED[name]
    ft.save(file, 1)
    with pytest.raises(ArgumentError, match=words) as raised:
        ft.save(file, make())
    assert "fix:" in str(raised.value)
    assert ft.load(file) == 1 and [p.name for p in file.parent.iterdir()] == [file.name]


def test_traced_values_and_cycles_are_refused(file: Path) -> None:
    with pytest.raises(ArgumentError, match="leaf"):
        ft.jit(lambda x: ft.save(file, x))(np.ones(2))
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(TreeError):
        ft.save(file, cycle)
    assert not list(file.parent.iterdir())


LIKES: dict[str, tuple[Any, str]] = {
    "shape": ({"w": np.ones((3, 2)), "b": [1, 2.0]}, r"\['w'\] is float64\[2, 3\]"),
    "dtype": ({"w": np.ones((2, 3), "f4"), "b": [1, 2.0]}, "float32"),
    "leaf": ({"w": None, "b": [1, 2.0]}, r"\['w'\]"),
    "missing": ({"w": np.ones((2, 3))}, "has"),
    "more": ({"w": np.ones((2, 3)), "b": [1, 2.0], "c": 1}, "has"),
    "length": ({"w": np.ones((2, 3)), "b": [1]}, r"\['b'\] has 2, but has 1"),
    "sequence": ({"w": np.ones((2, 3)), "b": (1, 2.0)}, "tuple"),
    "number": ({"w": np.ones((2, 3)), "b": [1, 2]}, r"\['b'\]\[1\] is a float, but is a int"),
    "root": ([1], "is a dict, but is a list"),
}


@pytest.mark.parametrize("name", LIKES)
def test_another_structure_is_refused(file: Path, name: str) -> None:
    like, words = LIKES[name]
    ft.save(file, {"w": np.ones((2, 3)), "b": [1, 2.0]})
    with pytest.raises(ArgumentError, match=words) as raised:
        ft.load(file, like=like)
    assert "fix:" in str(raised.value)


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.draws
@given(st.data())
def test_every_flipped_bit_raises(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    name = data.draw(st.sampled_from(FORMATS))
    if name == "safetensors":
        pytest.importorskip("safetensors")
    file = tmp_path_factory.mktemp("flips") / f"x.{name}"
    ft.save(file, {"w": np.arange(4.0), "k": [3, None, "text"]})
    content = bytearray(file.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    with pytest.raises(ParseError, match="damaged") as raised:
        ft.load(file)
    assert "fix:" in str(raised.value)


@pytest.mark.draws
@given(st.data())
def test_every_shorter_or_longer_file_raises(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    name = data.draw(st.sampled_from(FORMATS))
    if name == "safetensors":
        pytest.importorskip("safetensors")
    file = tmp_path_factory.mktemp("cuts") / f"x.{name}"
    ft.save(file, {"w": np.arange(4.0), "k": [3, None, "text"]})
    content = file.read_bytes()
    size = data.draw(st.integers(0, len(content) - 1))
    more = data.draw(st.binary(min_size=1, max_size=9))
    for damaged in (content[:size], content + more):
        file.write_bytes(damaged)
        with pytest.raises(ParseError, match="damaged"):
            ft.load(file)


def test_other_files_raise(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", x=np.ones(2))
    np.save(tmp_path / "plain.npy", np.ones(2))
    (tmp_path / "pickle").write_bytes(pickle.dumps({"x": print}))
    (tmp_path / "text").write_text("{}")
    for file in tmp_path.iterdir():
        with pytest.raises(ParseError, match=file.name):
            ft.load(file)
    with pytest.raises(FileNotFoundError):
        ft.load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        ft.save(tmp_path / "no folder" / "x.npz", 1)


# -- killed and parallel writers -------------------------------------------------------------------


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("place", ["replace", "fsync"])
def test_a_writer_killed_before_the_rename_leaves_the_old_file(file: Path, place: str) -> None:
    ft.save(file, {"x": np.zeros(3)})
    killed = start(
        """
        import os, signal, sys
        import numpy as np, functrace as ft
        setattr(os, sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        ft.save(sys.argv[1], {"x": np.ones(3)})
        """,
        file, place,
    )  # fmt: skip
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    same(ft.load(file), {"x": np.zeros(3)})
    assert len(list(file.parent.iterdir())) == 2  # the part
    ft.save(file, {"x": np.full(3, 2.0)})  # removes it
    assert [p.name for p in file.parent.iterdir()] == [file.name]
    same(ft.load(file), {"x": np.full(3, 2.0)})


def test_a_failing_writer_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ft.save(file, 1)

    def fails(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="no space"):
            ft.save(file, 2)
    assert ft.load(file) == 1 and [p.name for p in file.parent.iterdir()] == [file.name]


def test_parallel_writers(file: Path) -> None:
    """Each reader sees a whole file of one of the writers, and no part is left."""
    ft.save(file, {"x": np.full(1000, -1.0)})
    code = """
        import sys
        import numpy as np, functrace as ft
        for _ in range(15):
            ft.save(sys.argv[1], {"x": np.full(1000, float(sys.argv[2]))})
        """
    writers = [start(code, file, k) for k in range(3)]
    found = set()
    while any(writer.poll() is None for writer in writers):
        x = ft.load(file)["x"]
        assert x.shape == (1000,) and np.all(x == x[0])
        found.add(float(x[0]))
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors
    assert found <= {-1.0, 0.0, 1.0, 2.0}
    assert [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_the_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.npz"
    link.symlink_to(tmp_path / "real" / "x.npz")
    ft.save(link, 5)
    assert link.is_symlink() and ft.load(tmp_path / "real" / "x.npz") == 5
    mask = os.umask(0o022)
    os.umask(mask)
    assert (tmp_path / "real" / "x.npz").stat().st_mode & 0o777 == 0o666 & ~mask
