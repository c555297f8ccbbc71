"""PyTorch's own nn, optim, distributions and utils.data compute on functrace.torch what they compute
in PyTorch: `functrace.torch.originals.use`.

The programs stand in loaded.py; each side runs in a process of its own.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.peers.torch import loaded
from tests.peers.torch.harness import VERSION, recorded, scripts
from tests.peers.torch.harness import differences as line_differences

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the files are those of torch {VERSION}", allow_module_level=True)

NEEDS_BFLOAT16 = "Muon"
"""The optimizer whose steps are rounded to bfloat16, which is an extra of functrace's."""
OF_LOGITS = "CTCLoss"
"""The loss whose gradient PyTorch takes by the logits of its argument, in place of the argument."""

KNOWN = {
    "nn_layers": (1, "the message of lstm_cell for a cell state of another size"),
    "nn_module_parts": (
        2,
        "methods of plain tensors do not call the __torch_function__ of other arguments (decision 51)",
    ),
    "nn_module_tracking": (
        100,
        "utils.module_tracker registers hooks for the modules of functrace.torch, not for PyTorch's",
    ),
    "nn_swapped_tensors": (
        1,
        "the script compares with Tensor.module_load; PyTorch's files pass an equal function, not that one",
    ),
    "nn_utils": (1, "skip_init makes parameters on the meta device, which is not here"),
}
"""By script: how many lines may differ, and why."""


@functools.cache
def results(side: str, job: str) -> dict[str, Any]:
    """Return the results of a program by label."""
    return dict(loaded.results(side, job))


def is_close(a: Any, b: Any, relative: float, absolute: float) -> bool:
    """Return whether two results are the same up to rounding."""
    if isinstance(a, list) and isinstance(b, list):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(is_close(x, y, relative, absolute) for x, y in pairs)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and is_close(
            list(a.values()), list(b.values()), relative, absolute
        )
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        is_same_kind = a.shape == b.shape and a.dtype == b.dtype
        return is_same_kind and np.allclose(a, b, relative, absolute, equal_nan=True)
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, relative, absolute))
    return type(a) is type(b) and bool(a == b)


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Return the labels of results that differ. Those of distributions are in float32."""
    assert list(ours) == list(theirs)
    tolerances = {True: (1e-3, 1e-4), False: (1e-7, 1e-9)}
    return [
        label
        for label, value in theirs.items()
        if not is_close(ours[label], value, *tolerances[label.startswith(loaded.SINGLE)])
    ]


def test_packages_of_pytorch_compute_the_same() -> None:
    theirs, ours = results("pytorch", "everything"), results("here", "everything")
    different = [d for d in differences(ours, theirs) if not d.startswith(NEEDS_BFLOAT16)]
    assert different == []
    assert len(theirs) > 900


def test_nothing_is_left_out() -> None:
    found = results("pytorch", "everything")
    assert found["schedules without a program"] == []
    assert found["distributions without a program"] == []
    computed = [x for x in found.values() if not (isinstance(x, str) and x.startswith("raised"))]
    assert len(computed) > 700
    for label in ("small network", "LSTM", "transformer", "LBFGS", "gradients per sample"):
        assert label in found


def test_optimizers_of_pytorch_train_layers_of_functrace() -> None:
    theirs, ours = results("pytorch", "everything"), results("here", "optimizers")
    chosen = {label: theirs[label] for label in ours if not label.startswith(NEEDS_BFLOAT16)}
    assert differences({label: ours[label] for label in chosen}, chosen) == []


@pytest.mark.parametrize(
    "interval",
    [pytest.param(1000, marks=pytest.mark.full), pytest.param(1, marks=pytest.mark.release)],
)
def test_the_table_of_modules_of_pytorch(interval: int) -> None:
    given = loaded.results("pytorch", "samples", interval)
    theirs, ours = (dict(loaded.results(side, "modules", given)) for side in ("pytorch", "here"))
    assert len({label.split()[0] for label in theirs}) > 110
    different = differences(ours, theirs)
    assert [label for label in different if OF_LOGITS not in label] == []
    for label in different:
        assert is_close(ours[label][0], theirs[label][0], 1e-7, 1e-9)


def test_scripts_log_the_same_on_the_files_of_nn() -> None:
    found = results("here", "logs")
    assert len(found) >= 6
    for script in scripts():
        if script.stem in found:
            different = line_differences(recorded(script), found[script.stem])
            most, because = KNOWN.get(script.stem, (0, "no line differs"))
            assert different.count("\n    PyTorch") <= most, f"{because}\n{different}"
