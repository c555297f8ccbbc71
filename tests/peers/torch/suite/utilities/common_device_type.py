"""Tests of devices: the CPU."""

from __future__ import annotations

import re
from collections import namedtuple
from typing import Any

from .decorators import bound, expanded, skipped, unchanged

tol = namedtuple("tol", ["atol", "rtol"])
TEST_WITH_ROCM = TEST_SKIP_NOARCH = False

onlyCUDA = onlyCUDAAndPRIVATEUSE1 = onlyMPS = deviceCountAtLeast = skipped("needs a GPU")
largeTensorTest = skipped("needs much memory")
dtypesIfCUDA = dtypesIfMPS = precisionOverride = toleranceOverride = unchanged
disablecuDNN = disableMkldnn = onlyCPU = onlyNativeDeviceTypes = onlyNativeDeviceTypesAnd = (
    unchanged
)


def __getattr__(name: str) -> Any:
    if name.startswith(("skip", "expectedFailure")):
        return unchanged
    raise AttributeError(name)


def onlyOn(devices: Any) -> Any:
    return unchanged if "cpu" in devices else skipped("needs a GPU")


def get_all_device_types() -> list[str]:
    return ["cpu"]


class dtypes:
    """One case for each dtype, or for each tuple of them."""

    def __init__(self, *values: Any, device_type: str = "all") -> None:
        self.values, self.device_type = values, device_type

    def __call__(self, test: Any) -> Any:
        if self.device_type in ("all", "cpu"):
            test.__dict__["dtypes"] = self.values
        return test


dtypesIfCPU = dtypes


def instantiate_device_type_tests(
    case: type, scope: dict[str, Any], *_: Any, **_keywords: Any
) -> None:
    """Replace a class of tests by that of the CPU."""
    del scope[case.__name__]
    tests: dict[str, Any] = {}
    for name in dir(case):
        if not name.startswith("test"):
            continue
        test = getattr(case, name)
        tests[name] = None
        for full, arguments, decorators in expanded(test, case):
            for dtype in getattr(test, "dtypes", [None]):
                given, end = dict(arguments), f"{full}_cpu"
                if dtype is not None:
                    given["dtypes" if isinstance(dtype, list | tuple) else "dtype"] = dtype
                    words = str(dtype).replace("torch.", "")
                    end += "_" + re.sub(r"[^a-z0-9]+", "_", words).strip("_")
                tests[end] = bound(test, given, decorators, "cpu")
    tests["device_type"] = "cpu"
    scope[f"{case.__name__}CPU"] = type(
        f"{case.__name__}CPU", (case,), {**tests, "__module__": case.__module__}
    )
