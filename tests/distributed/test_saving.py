"""Checkpoints of one process: damaged, incomplete and foreign files. Several processes are in
tests/xla/test_two_processes.py, several devices in tests/xla/eight_devices.py.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.distributed import saving
from functrace.errors import ArgumentError, ParseError

jax = pytest.importorskip("jax", reason="jax is not installed")


def tree() -> dict[str, Any]:
    """Return a pytree of arrays and numbers."""
    rng = np.random.default_rng(0)
    return {
        "w": rng.normal(size=(6, 4)),
        "more": [np.arange(5, dtype=np.int16), (np.float32(2.5), True), 3 + 1j],
        "empty": np.zeros((0, 3)),
        "name/with slash": np.array([True, False]),
    }


def same(one: Any, other: Any) -> None:
    """Assert that two pytrees are equal to the bit."""
    (a, left), (b, right) = ft.tree.flatten(one), ft.tree.flatten(other)
    assert left == right
    for x, y in zip(a, b, strict=True):
        assert type(x) is type(y) and np.asarray(x).dtype == np.asarray(y).dtype
        assert np.asarray(x).shape == np.asarray(y).shape
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.mark.parametrize("writer", ["npy", "orbax"])
def test_values_come_back_to_the_bit(tmp_path: Path, writer: Any) -> None:
    if writer == "orbax":
        pytest.importorskip("orbax.checkpoint", reason="orbax is not installed")
    wanted = tree()
    if writer == "orbax":
        with pytest.raises(ArgumentError, match="empty"):
            ft.distributed.save(tmp_path / "step_1", wanted, writer="orbax")
        del wanted["empty"], wanted["more"][2]
    ft.distributed.save(tmp_path / "step_1", wanted, writer=writer)
    zeros = ft.tree.map(
        lambda x: np.zeros_like(x)[()] if hasattr(x, "dtype") else type(x)(0), wanted
    )
    same(ft.distributed.load(tmp_path / "step_1", zeros), wanted)


def test_dtypes_that_numpy_does_not_have(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(1).normal(size=(3, 4))
    for k, name in enumerate(("bfloat16", "float8_e4m3fn", "float8_e5m2")):
        wanted = {"x": x.astype(getattr(ml_dtypes, name)), "y": jax.numpy.asarray(x, name)}
        ft.distributed.save(tmp_path / f"step_{k}", wanted, writer="npy")
        found = ft.distributed.load(tmp_path / f"step_{k}", wanted)
        assert all(np.asarray(v).dtype.name == name for v in found.values())
        assert all(np.asarray(found[v]).tobytes() == np.asarray(wanted[v]).tobytes() for v in found)
        with pytest.raises(ArgumentError, match=name):
            ft.distributed.load(tmp_path / f"step_{k}", {"x": x.astype(np.float16), "y": x})


def test_latest_is_the_newest_complete_one(tmp_path: Path) -> None:
    assert ft.distributed.latest(tmp_path) is None
    for k in (2, 10, 9):
        ft.distributed.save(tmp_path / f"step_{k}", {"k": k}, writer="npy")
    (tmp_path / "step_11").mkdir()
    (tmp_path / "step_12").mkdir()
    (tmp_path / "step_12" / "manifest.json.part").write_text("{}")
    (tmp_path / "notes").mkdir()
    assert ft.distributed.latest(tmp_path) == tmp_path / "step_10"
    (tmp_path / "step_10" / "manifest.json").unlink()
    assert ft.distributed.latest(tmp_path) == tmp_path / "step_9"


FILES = ["00003.0_0.npy", "manifest.json", "process_00000.json"]
DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda file: file.write_bytes(_flipped(file.read_bytes())),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-5]),
    "emptied": lambda file: file.write_bytes(b""),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b" "),
    "pickled": lambda file: file.write_bytes(pickle.dumps(print)),
    "removed": lambda file: file.unlink(),
}


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_raise(tmp_path: Path, name: str, damage: str) -> None:
    place = tmp_path / "step_1"
    wanted = {"a": 1, "b": 2.0, "c": np.ones(2), "d": np.ones((6, 4))}
    ft.distributed.save(place, wanted, writer="npy")
    DAMAGES[damage](place / name)
    if name == "manifest.json" and damage == "longer":
        same(ft.distributed.load(place, wanted), wanted)  # (a space means nothing in JSON)
        return
    expected = ArgumentError if (name, damage) == ("manifest.json", "removed") else ParseError
    with pytest.raises(expected, match="step_1") as raised:
        ft.distributed.load(place, wanted)
    assert "fix" in str(raised.value) and "latest" in str(raised.value)


def test_every_flipped_bit_of_a_manifest_raises_or_means_nothing(tmp_path: Path) -> None:
    place = tmp_path / "step_1"
    wanted = {"x": np.arange(4.0), "k": 3}
    ft.distributed.save(place, wanted, writer="npy")
    content = (place / "manifest.json").read_bytes()
    for k in range(len(content)):
        (place / "manifest.json").write_bytes(
            content[:k] + bytes([content[k] ^ (1 << k % 7)]) + content[k + 1 :]
        )
        try:
            found = ft.distributed.load(place, wanted)
        except (ParseError, ArgumentError):
            continue
        same(found, wanted)


def test_files_of_objects_are_not_unpickled(tmp_path: Path) -> None:
    """A file with a right checksum, from whoever wrote the directory."""
    place = tmp_path / "step_1"
    ft.distributed.save(place, {"x": np.ones(1)}, writer="npy")
    np.save(place / "00000.0.npy", np.array([print], object), allow_pickle=True)
    rows = json.loads((place / "process_00000.json").read_bytes())
    rows[0][4] = saving.digest((place / "00000.0.npy").read_bytes())
    (place / "process_00000.json").write_text(json.dumps(rows))
    manifest = json.loads((place / "manifest.json").read_bytes())
    del manifest["digest"]
    manifest["lists"]["process_00000.json"] = saving.digest(json.dumps(rows).encode())
    manifest["digest"] = saving.digest(json.dumps(manifest).encode())
    (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ParseError, match="damaged"):
        ft.distributed.load(place, {"x": np.ones(1)})


@pytest.mark.parametrize("count", range(7))
def test_a_write_that_fails_leaves_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The disk is full after some files; the same directory can be saved again."""
    ft.distributed.save(tmp_path / "step_1", tree(), writer="npy")
    write, left = saving.write_atomically, [count]

    def limited(path: Path, content: bytes) -> None:
        if not left[0]:
            path.with_name(path.name + ".part").write_bytes(content[:10])
            raise OSError("no space left")
        left[0] -= 1
        write(path, content)

    monkeypatch.setattr(saving, "write_atomically", limited)
    with pytest.raises(OSError, match="no space"):
        ft.distributed.save(tmp_path / "step_2", tree(), writer="npy")
    assert ft.distributed.latest(tmp_path) == tmp_path / "step_1"
    monkeypatch.setattr(saving, "write_atomically", write)
    ft.distributed.save(tmp_path / "step_2", tree(), writer="npy")
    same(ft.distributed.load(ft.distributed.latest(tmp_path) or "", tree()), tree())


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    place = tmp_path / "step_1"
    dates, records = np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", "f8")])
    wrong = (
        "text",
        np.array([None]),
        jax.random.key(0),
        ft.ShapeDtype((2,)),
        dates,
        records,
        2**70,
    )
    for leaf in (*wrong, np.array(["ab"])):
        with pytest.raises(ArgumentError, match="leaf"):
            ft.distributed.save(place, {"x": leaf})
    with pytest.raises(ArgumentError, match="writer"):
        ft.distributed.save(place, {"x": 1.0}, writer="zip")  # type: ignore[arg-type]
    assert not place.exists()


def test_abstract_leaves(tmp_path: Path) -> None:
    x = np.random.default_rng(2).normal(size=(3, 2))
    ft.distributed.save(tmp_path / "step_1", [x], writer="npy")
    (found,) = ft.distributed.load(tmp_path / "step_1", [ft.ShapeDtype((3, 2))])
    assert type(found) is np.ndarray and np.array_equal(found, x)
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = jax.ShapeDtypeStruct((3, 2), np.float64, sharding=device)
    (found,) = ft.distributed.load(tmp_path / "step_1", [like])
    assert isinstance(found, jax.Array) and found.dtype == np.float64
    assert np.array_equal(found, x)
