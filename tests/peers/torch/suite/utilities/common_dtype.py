"""Groups of dtypes."""

from __future__ import annotations

from typing import Any

import torch

Dtypes = tuple[Any, ...]
FLOATS: Dtypes = (torch.float32, torch.float64)
COMPLEX: Dtypes = (torch.complex64, torch.complex128)
INTEGERS: Dtypes = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def floating_types() -> Dtypes:
    return FLOATS


def floating_types_and(*more: Any) -> Dtypes:
    return FLOATS + more


def complex_types() -> Dtypes:
    return COMPLEX


def double_types() -> Dtypes:
    return (torch.float64, torch.complex128)


def floating_and_complex_types() -> Dtypes:
    return FLOATS + COMPLEX


def floating_and_complex_types_and(*more: Any) -> Dtypes:
    return FLOATS + COMPLEX + more


def integral_types() -> Dtypes:
    return INTEGERS


def integral_types_and(*more: Any) -> Dtypes:
    return INTEGERS + more


def all_types() -> Dtypes:
    return FLOATS + INTEGERS


def all_types_and(*more: Any) -> Dtypes:
    return FLOATS + INTEGERS + more


def all_types_and_complex() -> Dtypes:
    return FLOATS + INTEGERS + COMPLEX


def all_types_and_complex_and(*more: Any) -> Dtypes:
    return FLOATS + INTEGERS + COMPLEX + more


def get_all_math_dtypes(_device: str) -> Dtypes:
    return (*all_types(), torch.float16, torch.complex64, torch.complex128)


def get_all_dtypes(**_keywords: bool) -> Dtypes:
    return all_types_and_complex_and(torch.bool, torch.float16, torch.bfloat16)
