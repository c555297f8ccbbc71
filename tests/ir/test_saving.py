"""Programs in files: constants that are repeated are written once, large ones stand beside the
text.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ParseError
from functrace.keys import exact_bytes
from functrace.tracing.evaluate import evaluate_program

LONG = np.linspace(0.0, 1.0, 700)
DTYPES = (
    "bool",
    "int8",
    "uint64",
    "float16",
    "float32",
    "float64",
    "longdouble",
    "complex64",
    "complex128",
)


def of_constant(constant: Any) -> ft.Program:
    return ft.trace(lambda x: x * constant)(
        np.zeros(np.shape(constant), np.asarray(constant).dtype)
    )


def run(program: ft.Program, x: Any) -> Any:
    return evaluate_program(program, [x])[0]


def constants() -> list[Any]:
    """Arrays with memory for fewer elements than they have, in every pattern, and others."""
    made: list[Any] = []
    for dtype in DTYPES:
        base = np.arange(24).reshape(4, 6).astype(dtype)
        made += [
            np.broadcast_to(base[1, 1], (50, 40)), np.broadcast_to(base[0], (30, 6)),
            np.broadcast_to(base[:, :1], (4, 300)),
            np.broadcast_to(base[:, None, :], (4, 70, 6)), np.broadcast_to(base[::-1, ::2].T[:, :,
            None], (3, 4, 9)),
            np.broadcast_to(base[0, 0], (3, 3)), np.broadcast_to(base, (1, 4, 6)), base.repeat(20,
            axis=1), base[::2],
        ]  # fmt: skip
    special = np.array([np.nan, -0.0, np.inf])
    return [
        *made,
        *[np.broadcast_to(x, (9, 9)) for x in special],
        np.broadcast_to(special, (9, 3)),
        np.zeros((0, 50)),
    ]


def test_every_form_gives_the_program_back(tmp_path: Path) -> None:
    wrong: list[str] = []
    for k, constant in enumerate(constants()):
        program = of_constant(constant)
        path = tmp_path / f"{k}.json"
        program.save(path)
        namespace: dict[str, Any] = {}
        exec(program.as_python("again"), namespace)
        x = np.ones(np.shape(constant), np.asarray(constant).dtype)
        with np.errstate(all="ignore"):
            same = exact_bytes(namespace["again"](x)) == exact_bytes(run(program, x))
        forms = {
            "text": ft.Program.parse(program.text()),
            "JSON": ft.Program.from_json(program.to_json()),
            "files": ft.Program.load(path), "pickle": pickle.loads(pickle.dumps(program)),
        }  # fmt: skip
        wrong += [f"{name} of {constant!r}" for name, found in forms.items() if found != program]
        wrong += [f"source of {constant!r}"] * (not same)
    assert wrong == []


def test_broadcast_constants_are_saved_as_a_number(tmp_path: Path) -> None:
    gradient = ft.grad(lambda w: 0.1 * np.sum(w**2))
    program = ft.trace(gradient)(np.ones((300, 400)))
    assert "const b: f64[300,400] = broadcast f64[] 0.1" in program.text()
    assert str(program) == program.text()
    for text in (program.text(), program.to_json(), program.as_python()):
        assert len(text) < 1000
    assert len(pickle.dumps(program)) < 10_000
    again = ft.Program.parse(program.text())
    (value,) = again.constants.values()
    assert value.strides == (0, 0)
    assert not value.flags.writeable
    program.save(tmp_path / "small.json")
    assert [path.name for path in tmp_path.iterdir()] == ["small.json"]
    w = np.linspace(-1.0, 1.0, 300 * 400).reshape(300, 400)
    assert run(again, w).tobytes() == gradient(w).tobytes()


def test_large_constants_are_saved_in_a_separate_file(tmp_path: Path) -> None:
    matrix, row = np.linspace(0.0, 1.0, 40 * 50).reshape(40, 50), np.arange(50.0)

    def f(x: Any) -> Any:
        return (
            ft.cond(x[0] > 0, lambda v: matrix @ v, lambda v: (matrix * 2.0) @ v, x)
            + np.broadcast_to(row, (40, 50)) @ x
        )

    program = ft.trace(f)(np.ones(50))
    program.save(tmp_path / "step.json")
    assert (tmp_path / "step.json").stat().st_size < 6000
    with np.load(tmp_path / "step.npz", allow_pickle=False) as arrays:
        kept = [arrays[name] for name in arrays]
    assert any(np.array_equal(array, matrix) for array in kept)
    assert sum(array.nbytes for array in kept) < 3 * matrix.nbytes
    again = ft.Program.load(tmp_path / "step.json")
    assert again == program
    x = np.linspace(-1.0, 1.0, 50)
    assert run(again, x).tobytes() == run(program, x).tobytes()
    with pytest.raises(ft.errors.ArgumentError, match="name the text"):
        program.save(tmp_path / "step.npz")
    with pytest.raises(ft.errors.ParseError, match=r"use Program\.load|Program\.load"):
        ft.Program.from_json((tmp_path / "step.json").read_text())


def test_another_file_of_constants_is_refused(tmp_path: Path) -> None:
    path, beside = tmp_path / "step.json", tmp_path / "step.npz"
    of_constant(LONG).save(path)
    good = beside.read_bytes()

    def files(**members: bytes) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in members.items():
                archive.writestr(f"{name}.npy", data)
        return buffer.getvalue()

    def npz(save: Any = np.savez, **arrays: Any) -> bytes:
        buffer = io.BytesIO()
        save(buffer, **arrays)
        return buffer.getvalue()

    class Harmful:
        def __reduce__(self) -> Any:
            return (exec, ("raise SystemExit('code was executed')",))

    bad = {
        "missing": None, "empty": b"", "cut": good[: len(good) // 2], "no zip": b"PK" + bytes(100),
        "other values": npz(constant0=LONG + 1.0), "other name": npz(other=LONG),
        "shape": npz(constant0=LONG[:-1]),
        "dtype": npz(constant0=LONG.astype(np.float32)),
        "pickled": npz(constant0=np.array([Harmful()] * 700, object)),
        "compressed": npz(np.savez_compressed, constant0=LONG),
        "no array": files(constant0=b"words"),
        "huge": files(constant0=npz(constant0=np.zeros(3))[:200]),
        "empty member": files(constant0=b""),
    }  # fmt: skip
    accepted: list[str] = []
    for name, data in bad.items():
        beside.unlink(missing_ok=True)
        if data is not None:
            beside.write_bytes(data)
        try:
            ft.Program.load(path)
            accepted.append(name)
        except ft.errors.ParseError:
            pass
    assert accepted == []
    beside.write_bytes(good)
    assert ft.Program.load(path) == of_constant(LONG)


def test_texts_with_invalid_broadcasts_raise() -> None:
    listing = of_constant(np.broadcast_to(np.arange(3.0), (20, 3))).text()
    old = "broadcast f64[3] [0.0, 1.0, 2.0]"
    assert old in listing
    for new in (
        "broadcast f32[3] [0.0, 1.0, 2.0]", "broadcast f64[4] [0.0, 1.0, 2.0, 3.0]",
        "broadcast f64[3] [0.0, 1.0]",
        "broadcast [0.0, 1.0, 2.0]", "broadcast f64[20,3,1] 0.0", "broadcast",
        "broadcast f64[3] broadcast f64[] x",
    ):  # fmt: skip
        with pytest.raises(ft.errors.ParseError, match="line"):
            ft.Program.parse(listing.replace(old, new))
    data = json.loads(of_constant(np.broadcast_to(np.arange(3.0), (20, 3))).to_json())
    for value in ("f64[4]", "f32[3]", 3, ["f64[3]"], "f64[21,3]"):
        data["constants"][0]["broadcast"] = value
        with pytest.raises(ft.errors.ParseError):
            ft.Program.from_json(json.dumps(data))


def test_older_versions_of_the_format_are_read() -> None:
    program = of_constant(LONG[:3])
    data = json.loads(program.to_json())
    assert data["functrace_program"] == 2
    data["functrace_program"] = 1
    assert ft.Program.from_json(json.dumps(data)) == program


def test_source_of_large_constants_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import textwrap

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("textwrap.wrap takes quadratic time for one long word")

    monkeypatch.setattr(textwrap, "wrap", refuse)
    source = of_constant(LONG).as_python()
    assert max(map(len, source.splitlines())) < 125
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    np.testing.assert_array_equal(namespace["program"](np.ones(700)), LONG)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.json"
    ft.trace(np.sin)(1.0).save(path)
    text = path.read_bytes()
    for k in (0, len(text) // 2, len(text) - 1):
        path.write_bytes(text[:k] + b"\xff" + text[k + 1 :])
        with pytest.raises(ParseError, match="is not UTF-8"):
            ft.Program.load(path)
