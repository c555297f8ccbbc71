"""`TestCase`, contexts and switches of PyTorch's tests."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import numbers
import os
import random
import re
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from .decorators import (
    _TestParametrizer,  # noqa: F401
    instantiate_parametrized_tests,  # noqa: F401
    parametrize,
    skipped,
    subtest,  # noqa: F401
    unchanged,
)

GRADCHECK_NONDET_TOL = 0.0
MACOS_VERSION = -1
IS_LINUX = TEST_NUMPY = TEST_SCIPY = True
NATIVE_DEVICES = ("cpu",)
dtype2prec_DONTUSE = {torch.float32: 1e-5, torch.float64: 1e-5, torch.float16: 1e-2}
load_tests = None
scoped_load_inline = skipped("compiles C++")
decorateIf = serialTest = slowTest = markDynamoStrictTest = gcIfJetson = unchanged
TOLERANCES = {
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7),
}  # fmt: skip
"""By dtype, the relative and the absolute tolerance of `TestCase.assertEqual`."""


def __getattr__(name: str) -> Any:
    if name.startswith(("IS_", "TEST_", "BUILD_")):
        return False
    if name.startswith(("skipIf", "xfail", "expectedFailure", "unMark")):
        return unchanged
    raise AttributeError(name)


def run_tests(*_args: Any, **_keywords: Any) -> None:
    """Do nothing: the child runs the tests."""


def is_iterable(value: Any) -> bool:
    return hasattr(value, "__iter__")


def is_iterable_of_tensors(value: Any, include_empty: bool = False) -> bool:
    if isinstance(value, torch.Tensor) or not hasattr(value, "__len__"):
        return False
    return all(isinstance(x, torch.Tensor) for x in value) if len(value) else include_empty


def to_gpu(value: Any, _types: Any = None) -> Any:
    return value


def get_function_arglist(function: Callable[..., Any]) -> list[str]:
    return inspect.getfullargspec(function).args


def download_file(*_args: Any, **_keywords: Any) -> None:
    raise unittest.SkipTest("downloads a file")


@contextlib.contextmanager
def set_warn_always_context(value: bool = True) -> Iterator[None]:
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(value)
    try:
        yield
    finally:
        torch.set_warn_always(before)


@contextlib.contextmanager
def set_default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


@contextlib.contextmanager
def disable_gc() -> Iterator[None]:
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def suppress_warnings(test: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(test)
    def run(*args: Any, **keywords: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return test(*args, **keywords)

    return run


@contextlib.contextmanager
def TemporaryFileName(*_args: Any, **_keywords: Any) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "file")
        open(path, "wb").close()
        yield path


def TemporaryDirectoryName(suffix: str | None = None) -> Any:
    return tempfile.TemporaryDirectory(suffix=suffix)


def gradcheck(function: Callable[..., Any], inputs: Any, **keywords: Any) -> bool:
    return torch.autograd.gradcheck(function, inputs, **_quick(keywords))


def gradgradcheck(
    function: Callable[..., Any], inputs: Any, grad_outputs: Any = None, **keywords: Any
) -> bool:
    return torch.autograd.gradgradcheck(function, inputs, grad_outputs, **_quick(keywords))


def _quick(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords with PyTorch's defaults for its own tests."""
    given = {name: value for name, value in keywords.items() if value is not None}
    return {"check_batched_grad": True, "fast_mode": True, **given}


def _assertGradAndGradgradChecks(
    test: unittest.TestCase, function: Callable[..., Any], inputs: Any, **keywords: Any
) -> None:
    test.assertTrue(gradcheck(function, inputs, **keywords))
    test.assertTrue(gradgradcheck(function, inputs, **keywords))


class swap:
    """One case for each way in which modules change their parameters."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(self: Any, *args: Any, swap: bool = False, **keywords: Any) -> Any:
            before = torch.__future__.get_swap_module_params_on_conversion()
            torch.__future__.set_swap_module_params_on_conversion(swap)
            try:
                return test(self, *args, **keywords)
            finally:
                torch.__future__.set_swap_module_params_on_conversion(before)

        return parametrize("swap", self.values)(run)


class TestCase(unittest.TestCase):
    """Assertions that know tensors."""

    precision = rel_tol = 0.0
    longMessage = True
    maxDiff = None

    def setUp(self) -> None:
        torch.manual_seed(1234)
        random.seed(1234)
        np.random.seed(1234)  # noqa: NPY002

    def assertEqual(
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None,
        rtol: float | None = None, equal_nan: bool = True, exact_dtype: bool = True,
        exact_stride: bool = False, **_exact: bool,
    ) -> None:  # fmt: skip
        message = msg if isinstance(msg, str) else None

        def compare(x: Any, y: Any) -> None:
            x, y = _plain(x), _plain(y)
            if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
                self._compare_tensors(
                    x, y, atol, rtol, equal_nan, exact_dtype, exact_stride, message
                )
            elif isinstance(x, Mapping) and isinstance(y, Mapping):
                unittest.TestCase.assertEqual(self, set(x), set(y), message)
                for key in x:
                    compare(x[key], y[key])
            elif isinstance(x, list | tuple) and isinstance(y, list | tuple):
                unittest.TestCase.assertEqual(self, len(x), len(y), message)
                for a, b in zip(x, y):
                    compare(a, b)
            elif _are_numbers(x, y):
                self._compare_numbers(x, y, atol, rtol, equal_nan, message)
            else:
                unittest.TestCase.assertEqual(self, x, y, message)

        compare(x, y)

    def _compare_tensors(
        self, x: Any, y: Any, atol: Any, rtol: Any, equal_nan: bool, exact_dtype: bool,
        exact_stride: bool, message: str | None,
    ) -> None:  # fmt: skip
        if not (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)):
            x, y, exact_dtype = torch.as_tensor(x), torch.as_tensor(y), False
        x, y = (t.detach().to_dense() if t.is_sparse else t.detach() for t in (x, y))
        if not exact_dtype and x.dim() != y.dim() and x.numel() == y.numel() == 1:
            x, y = x.reshape(()), y.reshape(())
        if exact_stride:
            unittest.TestCase.assertEqual(self, tuple(x.stride()), tuple(y.stride()))
        default = [max(pair) for pair in zip(*(TOLERANCES.get(t.dtype, (0, 0)) for t in (x, y)))]
        rtol, atol = (given if given is not None else d for given, d in zip((rtol, atol), default))
        torch.testing.assert_close(
            x, y, atol=max(atol, self.precision), rtol=max(rtol, self.rel_tol),
            equal_nan=equal_nan, check_dtype=exact_dtype, msg=message,
        )  # fmt: skip

    def _compare_numbers(
        self, x: Any, y: Any, atol: Any, rtol: Any, equal_nan: bool, message: str | None
    ) -> None:
        default = 1e-7 if any(isinstance(value, float | complex) for value in (x, y)) else 0
        atol, rtol = (
            max(default if t is None else t, p)
            for t, p in ((atol, self.precision), (rtol, self.rel_tol))
        )
        if x == y or (equal_nan and x != x and y != y) or abs(x - y) <= atol + rtol * abs(y):
            return
        raise AssertionError(f"{x!r} != {y!r} {message or ''}")

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, **keywords: Any) -> None:
        try:
            self.assertEqual(x, y, msg, **keywords)
        except AssertionError:
            return
        raise AssertionError(f"equal: {x!r}, {y!r}")

    def assertAlmostEqual(
        self, x: Any, y: Any, places: int | None = None, msg: Any = None, delta: Any = None
    ) -> None:
        atol = 10.0**-places if places is not None else delta
        self.assertEqual(x, y, msg, atol=atol, rtol=None if atol is None else 0)

    def assertEqualIgnoreType(self, *args: Any, **keywords: Any) -> None:
        self.assertEqual(*args, exact_dtype=False, **keywords)

    def assertEqualBroadcasting(self, x: Any, y: Any, *args: Any, **keywords: Any) -> None:
        self.assertEqual(x, torch.as_tensor(y).to(x.dtype).expand_as(x), *args, **keywords)

    def assertEqualTypeString(self, x: Any, y: Any) -> None:
        unittest.TestCase.assertEqual(self, (x.device, x.dtype), (y.device, y.dtype))

    def assertObjectIn(self, value: Any, values: Any) -> None:
        self.assertTrue(any(value is other for other in values))

    def assertExpectedInline(self, actual: Any, expect: str, skip: int = 0) -> None:
        unittest.TestCase.assertEqual(self, str(actual), expect)

    def assertExpected(self, *_args: Any, **_keywords: Any) -> None:
        raise unittest.SkipTest("compares with a file")

    def assertRaisesRegex(
        self, kind: Any, regex: Any, function: Any = None, *args: Any, **keywords: Any
    ) -> Any:
        context = super().assertRaisesRegex(kind, regex)
        if function is None:
            return context
        with context:
            function(*args, **keywords)
        return None

    def assertNotWarn(self, function: Callable[[], Any], msg: str = "") -> None:
        with warnings.catch_warnings(record=True) as found, set_warn_always_context():
            warnings.simplefilter("always")
            function()
        self.assertTrue(not found, f"{msg} {[str(warning.message) for warning in found]}")

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        with warnings.catch_warnings(record=True) as found, set_warn_always_context():
            warnings.simplefilter("always")
            yield
        kinds = [
            w
            for w in found
            if issubclass(w.category, category) and re.search(regex, str(w.message))
        ]
        self.assertTrue(kinds, "there was no warning")

    @staticmethod
    def runWithPytorchAPIUsageStderr(_code: str) -> None:
        raise unittest.SkipTest("reads what PyTorch logs of its use")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy()) if value.dtype.kind in "fiubc" else value
    return value.item() if isinstance(value, np.generic) else value


def _are_numbers(x: Any, y: Any) -> bool:
    are_bools = isinstance(x, bool) and isinstance(y, bool)
    return isinstance(x, numbers.Number) and isinstance(y, numbers.Number) and not are_bools
