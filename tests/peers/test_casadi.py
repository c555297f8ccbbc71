"""C that `functrace.export` writes, against C that CasADi generates for the same derivative."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import exported

pytest.importorskip("casadi")
if shutil.which("cc") is None:
    pytest.skip("there is no C compiler", allow_module_level=True)


@pytest.mark.parametrize("work", ["rosen", "cart-pole"])
def test_exported_derivatives_equal_those_of_casadi(work: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    size, shape = (10, (10,)) if work == "rosen" else (5, (4, 5))
    points = generator.normal(size=(20, size)) * 2.0
    found = {}
    for system in exported.SOURCES:
        folder = tmp_path / system
        folder.mkdir()
        repeat = exported.compiled(system, work, folder)
        results = np.empty((20, *shape))
        for x, result in zip(points, results, strict=True):
            repeat(*[ctypes.c_void_p(array.ctypes.data) for array in (x, result)])
        found[system] = results
    scale = np.abs(found["casadi"]).max()
    np.testing.assert_allclose(found["functrace"], found["casadi"], rtol=1e-13, atol=1e-14 * scale)


@pytest.mark.parametrize("work", ["rosen", "cart-pole"])
def test_exported_code_is_not_longer(work: str, tmp_path: Path) -> None:
    lines = {}
    for system, write in exported.SOURCES.items():
        folder = tmp_path / system
        folder.mkdir()
        path, _ = write(folder, work)
        lines[system] = len(path.read_text().splitlines())
    assert lines["functrace"] <= lines["casadi"]
