"""The command that runs PyTorch's own test files: `tests.peers.torch.suite`, on a made-up file."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.peers.torch.suite.__main__ import differences, run

FILE = """
    import unittest
    import torch
    from torch import absent_everywhere_but_in_pytorch as absent
    from torch.testing._internal.common_device_type import (
        dtypes, instantiate_device_type_tests, onlyCUDA, skipCUDAIf, skipMeta,
    )
    from torch.testing._internal.common_dtype import floating_types_and
    from torch.testing._internal.common_utils import (
        TEST_CUDA, TestCase, gradcheck, instantiate_parametrized_tests, parametrize, subtest,
    )

    class TestOne(TestCase):
        def test_equal(self):
            self.assertEqual(torch.ones(2), torch.ones(2) + 1e-9)
            self.assertNotEqual(torch.ones(2), torch.ones(2) + 1e-3)
            with self.assertRaises(AssertionError):
                self.assertEqual(torch.ones(2), torch.ones(2, dtype=torch.float64))

        @parametrize("n", [1, subtest(2, name="two")])
        @parametrize("a,b", [(1, torch.float32)])
        def test_cases(self, n, a, b):
            self.assertEqual((n + 1) // 2, a)

        def test_gradient(self):
            self.assertTrue(gradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True)))

        def test_is_pytorch(self):
            self.assertEqual(torch.Tensor.__module__, "torch")

        def test_absent(self):
            absent()

        def test_saved(self):
            import io
            file = io.BytesIO()
            torch.save(torch.nn.Linear(1, 1), file)
            file.seek(0)
            self.assertIsInstance(torch.load(file, weights_only=False), torch.nn.Linear)

        @unittest.skipIf(not TEST_CUDA, "no GPU")
        def test_skipped(self):
            raise AssertionError

    class TestDevice(TestCase):
        @skipMeta
        @skipCUDAIf(True, "")
        @dtypes(*floating_types_and(torch.float16), (torch.float32, torch.int64))
        def test_dtype(self, device, dtype=None, dtypes=None):
            self.assertEqual(device, self.device_type)
            torch.ones(2, device=device, dtype=dtype or dtypes[1])

        @onlyCUDA
        def test_gpu(self, device):
            raise AssertionError

    instantiate_parametrized_tests(TestOne)
    instantiate_device_type_tests(TestDevice, globals())
"""


def test_the_results_of_both_sides(tmp_path: Path) -> None:
    text = textwrap.dedent(FILE)
    on_pytorch = text.replace(
        "from torch import absent_everywhere_but_in_pytorch as absent", "absent = int"
    )
    (tmp_path / "theirs.py").write_text(on_pytorch)
    (tmp_path / "ours.py").write_text(text)
    theirs, ours = run("pytorch", tmp_path, "theirs.py"), run("here", tmp_path, "ours.py")
    assert list(theirs) == list(ours)
    assert {name: kind for name, (kind, _) in theirs.items()} == {
        "TestOne.test_absent": "passed",
        "TestOne.test_cases_n_1_a_1_b_float32": "passed",
        "TestOne.test_cases_two_a_1_b_float32": "passed",
        "TestOne.test_equal": "passed",
        "TestOne.test_gradient": "passed",
        "TestOne.test_is_pytorch": "passed",
        "TestOne.test_saved": "passed",
        "TestOne.test_skipped": "skipped",
        "TestDeviceCPU.test_dtype_cpu_float16": "passed",
        "TestDeviceCPU.test_dtype_cpu_float32": "passed",
        "TestDeviceCPU.test_dtype_cpu_float32_int64": "passed",
        "TestDeviceCPU.test_dtype_cpu_float64": "passed",
        "TestDeviceCPU.test_gpu_cpu": "skipped",
    }
    counted, different = differences(theirs, ours)
    assert counted == 11
    assert sorted(name for names in different.values() for name in names) == [
        "TestOne.test_absent", "TestOne.test_is_pytorch",
    ]  # fmt: skip
    assert "missing: torch.absent_everywhere_but_in_pytorch" in ours["TestOne.test_absent"][1]


def test_a_file_that_cannot_be_imported_is_reported(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run("here", tmp_path, "broken.py")
