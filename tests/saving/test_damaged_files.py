"""`functrace.load` of damaged and crafted files: it raises, in time and memory of the file's size."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import random
import struct
import tracemalloc
import zipfile
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import ArgumentError, ParseError, TreeError, UnsupportedFunctionError
from tests.sampling import scaled

FORMATS = ["npz", "safetensors"]


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


# -- crafted files, whose checksums are right ------------------------------------------------------

FIELDS = {"npz": b"functrace-sha256:", "safetensors": b'"functrace":"'}


def signed(content: bytes, form: str) -> bytes:
    """The file with the checksum that it should have."""
    at = (content.rfind if form == "npz" else content.find)(FIELDS[form]) + len(FIELDS[form])
    empty = content[:at] + b"0" * 64 + content[at + 64 :]
    return empty[:at] + hashlib.sha256(empty).hexdigest().encode() + empty[at + 64 :]


def archive(members: list[tuple[str, bytes]]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in members:
            file.writestr(name, content)
        file.comment = FIELDS["npz"] + b"0" * 64
    return signed(made.getvalue(), "npz")


def npy(x: Any) -> bytes:
    made = io.BytesIO()
    np.save(made, x)
    return made.getvalue()


def text(tree: Any, names: list[str]) -> str:
    return json.dumps({"version": 1, "tree": tree, "arrays": names})


def one(x: Any, tree: Any, names: list[str], form: str) -> bytes:
    """A file with one stored array, and a structure of one's own."""
    if form == "npz":
        content = x if isinstance(x, bytes) else npy(x)
        return archive([("a.npy", content), ("functrace.json", text(tree, names).encode())])
    from safetensors.numpy import save

    return signed(save({"a": x}, {"functrace": "0" * 64 + text(tree, names)}), form)


BIG = np.zeros(1 << 14)
ROW = ["<f8", [1 << 14]]
HEADER = b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000)
CRAFTED: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "one array many times": (
        "read twice", lambda form: one(BIG, {"list": [{"array": [0, *ROW]}] * 900}, ["a"], form)
    ),
    "one name many times": (
        "one name",
        lambda form: one(
            BIG, {"list": [{"array": [k, *ROW]} for k in range(900)]}, ["a"] * 900, form
        ),
    ),
    "array from the end": ("order", lambda form: one(BIG, {"array": [-1, *ROW]}, ["a"], form)),
    "another size": ("bytes|not int16", lambda form: one(BIG, {"array": [0, "<i2", [1]]}, ["a"], form)),
    "negative size": ("not", lambda form: one(BIG, {"array": [0, "<f8", [-1]]}, ["a"], form)),
    "a key twice": ("twice", lambda form: one(BIG, {"dict": [["a", 1], ["a", 2]]}, [], form)),
    "a list as a key": ("damaged", lambda form: one(BIG, {"dict": [[{"list": []}, 1]]}, [], form)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_structures_raise(tmp_path: Path, name: str, form: str) -> None:
    if form == "safetensors":
        pytest.importorskip("safetensors")
    words, make = CRAFTED[name]
    file = tmp_path / f"x.{form}"
    file.write_bytes(make(form))
    tracemalloc.start()
    with pytest.raises(ParseError, match=words):
        ft.load(file)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10 * file.stat().st_size + (1 << 20)


@pytest.mark.parametrize("brackets", [b"(", b"[", b"-", b"{1:"])
def test_crafted_headers_of_arrays_raise(tmp_path: Path, brackets: bytes) -> None:
    header = HEADER + (brackets * 9000)[:8999] + b"\n"
    (tmp_path / "x.npz").write_bytes(one(header, {"array": [0, "<f8", [1]]}, ["a"], "npz"))
    with pytest.raises(ParseError, match="header"):
        ft.load(tmp_path / "x.npz")


def test_crafted_archives_raise(tmp_path: Path) -> None:
    """Members that overlap, and members before the file's start."""
    file = tmp_path / "x.npz"
    content = archive([("a0.npy", npy(BIG)), ("functrace.json", text(1, []).encode())])
    start = content.find(b"PK\x01\x02")  # the directory, whose first entry is repeated
    end = content.find(b"PK\x05\x06")
    entry = content[start : content.find(b"PK\x01\x02", start + 4)]
    count, size = 2 + 500, end - start + 500 * len(entry)
    tail = content[end : end + 8] + struct.pack("<HHL", count, count, size) + content[end + 16 :]
    file.write_bytes(signed(content[:start] + entry * 500 + content[start:end] + tail, "npz"))
    with pytest.raises(ParseError, match="overlap"):
        ft.load(file)
    moved = bytearray(content)
    moved[end + 16 : end + 20] = struct.pack("<L", start + 10_000)  # the offset of the directory
    file.write_bytes(signed(bytes(moved), "npz"))
    with pytest.raises(ParseError, match="damaged"):
        ft.load(file)


@pytest.mark.parametrize("form", FORMATS)
def test_crafted_nesting_raises(tmp_path: Path, form: str) -> None:
    if form == "safetensors":
        pytest.importorskip("safetensors")
    tree: Any = 1
    for _ in range(300):
        tree = {"list": [tree]}
    content = one(BIG, tree, [], form)
    file = tmp_path / f"x.{form}"
    file.write_bytes(content)
    assert ft.tree.leaves(ft.load(file)) == [1]
    deep = '{"list":[' * 100_000 + "]}" * 100_000
    if form == "npz":
        whole = text(0, []).replace('"tree": 0', f'"tree": {deep}')
        file.write_bytes(archive([("functrace.json", whole.encode())]))
    else:
        from safetensors.numpy import save

        whole = text(0, []).replace('"tree": 0', f'"tree": {deep}')
        file.write_bytes(signed(save({"a": BIG}, {"functrace": "0" * 64 + whole}), form))
    with pytest.raises(TreeError, match="nested"):
        ft.load(file)


PIECES = [b"0", b"9", b"-", b"[", b"]", b"{", b'"', b",", b"999999999999", b"null", b"\x00", b"\xff",
          b"[[[[[[", b"(", b"'O'", b"'|V8'", b"<U4", b"<f4", b"S0", b"dict", b"scalar", b"class"]  # fmt: skip


def mutated(content: bytes, rng: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at, piece = rng.randrange(len(made)), rng.choice(PIECES)
        kind = rng.randrange(5)
        if kind == 0:
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            made[at : at + len(piece)] = piece
        elif kind == 2:
            made[at:at] = piece
        elif kind == 3:
            del made[at : at + rng.choice([1, 4, 30])]
        else:
            other = rng.randrange(len(made))
            made[at : at + 30] = made[other : other + 30]
        made = made or bytearray(b"0")
    return bytes(made)


@pytest.mark.draws
@pytest.mark.parametrize("part", ["file", "member"])
@pytest.mark.parametrize("form", FORMATS)
def test_mutations_with_a_right_checksum(tmp_path: Path, form: str, part: str) -> None:
    """Any bytes of a file, or of a member of an archive, and the checksum of the result."""
    if form == "safetensors":
        pytest.importorskip("safetensors")
    file, rng = tmp_path / f"x.{form}", random.Random(7)
    ft.save(
        file,
        {
            "w": np.arange(6.0).reshape(2, 3), "i": np.arange(3, dtype="i2"), "s": np.float32(2),
            "u": np.array(["ab", "c"]), "d": np.array(["2020-01-01"], "M8[D]"),
            "n": [1, 2.5, None, True, "t", b"q", 3 + 1j, 10**4000, "\ud800"], "q": deque([1], 3),
            "o": OrderedDict(a=np.ones(1)), "z": np.zeros((0, 2)), "t": (np.bool_(True),),
        },
    )  # fmt: skip
    content = file.read_bytes()
    for _ in range(scaled(300)):
        if form == "npz" and part == "member":
            with zipfile.ZipFile(io.BytesIO(content)) as old:
                members = [(name, old.read(name)) for name in old.namelist()]
            chosen = rng.choice([len(members) - 1, rng.randrange(len(members))])
            name, data = members[chosen]
            members[chosen] = (name, mutated(data, rng))
            damaged = archive(members)
        else:
            size = struct.unpack("<Q", content[:8])[0] if form == "safetensors" else 0
            damaged = mutated(content, rng)
            if part == "member":
                header = mutated(content[8 : 8 + size], rng)
                damaged = struct.pack("<Q", len(header)) + header + content[8 + size :]
            if FIELDS[form] not in damaged:
                continue
            damaged = signed(damaged, form)
        file.write_bytes(damaged)
        try:
            found = ft.load(file)
        except (ParseError, ArgumentError, TreeError, UnsupportedFunctionError):
            continue
        for leaf in ft.tree.leaves(found):  # values that NumPy can use
            if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind != "U":
                assert repr(leaf)  # (NumPy itself does not check the characters of strings)
