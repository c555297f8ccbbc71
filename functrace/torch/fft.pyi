# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch.fft`.

import builtins
from typing import Any

from functrace.torch.functions.factories import DeviceLike, Layout
from functrace.torch.tensors.dtypes import DtypeLike
from functrace.torch.tensors.tensor import Operand, Tensor, Value

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

def fft(
    input: Operand,
    n: builtins.int | None = None,
    dim: builtins.int = -1,
    norm: builtins.str | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the discrete Fourier transform along a dimension, cut or padded to ``n`` points."""

def fft2(input: Operand, s: Any = None, dim: Any = (-2, -1), norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the discrete Fourier transform along dimensions, cut or padded to ``s`` points."""

def fftfreq(
    n: builtins.int,
    d: builtins.float = 1.0,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return the frequencies of `fft`, for ``n`` points at distance ``d``."""

def fftn(input: Operand, s: Any = None, dim: Any = None, norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the discrete Fourier transform along dimensions, cut or padded to ``s`` points."""

def fftshift(input: Operand, dim: Any = None) -> Value:
    """Return the tensor with frequency 0 in the middle."""

def hfft(
    input: Operand,
    n: builtins.int | None = None,
    dim: builtins.int = -1,
    norm: builtins.str | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the Fourier transform of a Hermitian signal, of which half is given, along a dimension, cut or padded to ``n`` points."""

def hfft2(input: Operand, s: Any = None, dim: Any = (-2, -1), norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the Fourier transform of a Hermitian signal, of which half is given, along dimensions, cut or padded to ``s`` points."""

def hfftn(input: Operand, s: Any = None, dim: Any = None, norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the Fourier transform of a Hermitian signal, of which half is given, along dimensions, cut or padded to ``s`` points."""

def ifft(
    input: Operand,
    n: builtins.int | None = None,
    dim: builtins.int = -1,
    norm: builtins.str | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the inverse of `fft` along a dimension, cut or padded to ``n`` points."""

def ifft2(input: Operand, s: Any = None, dim: Any = (-2, -1), norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the inverse of `fft` along dimensions, cut or padded to ``s`` points."""

def ifftn(input: Operand, s: Any = None, dim: Any = None, norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the inverse of `fft` along dimensions, cut or padded to ``s`` points."""

def ifftshift(input: Operand, dim: Any = None) -> Value:
    """Return the tensor with frequency 0 first, the inverse of `fftshift`."""

def ihfft(
    input: Operand,
    n: builtins.int | None = None,
    dim: builtins.int = -1,
    norm: builtins.str | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the inverse of `hfft` along a dimension, cut or padded to ``n`` points."""

def ihfft2(
    input: Operand, s: Any = None, dim: Any = (-2, -1), norm: builtins.str | None = None, *, out: Any = None
) -> Value:
    """Return the inverse of `hfft` along dimensions, cut or padded to ``s`` points."""

def ihfftn(input: Operand, s: Any = None, dim: Any = None, norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the inverse of `hfft` along dimensions, cut or padded to ``s`` points."""

def irfft(
    input: Operand,
    n: builtins.int | None = None,
    dim: builtins.int = -1,
    norm: builtins.str | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the inverse of `rfft` along a dimension, cut or padded to ``n`` points."""

def irfft2(
    input: Operand, s: Any = None, dim: Any = (-2, -1), norm: builtins.str | None = None, *, out: Any = None
) -> Value:
    """Return the inverse of `rfft` along dimensions, cut or padded to ``s`` points."""

def irfftn(input: Operand, s: Any = None, dim: Any = None, norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the inverse of `rfft` along dimensions, cut or padded to ``s`` points."""

def rfft(
    input: Operand,
    n: builtins.int | None = None,
    dim: builtins.int = -1,
    norm: builtins.str | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the Fourier transform of real numbers, its half without negative frequencies, along a dimension, cut or padded to ``n`` points."""

def rfft2(input: Operand, s: Any = None, dim: Any = (-2, -1), norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the Fourier transform of real numbers, its half without negative frequencies, along dimensions, cut or padded to ``s`` points."""

def rfftfreq(
    n: builtins.int,
    d: builtins.float = 1.0,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return the frequencies of `rfft`, for ``n`` points at distance ``d``."""

def rfftn(input: Operand, s: Any = None, dim: Any = None, norm: builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the Fourier transform of real numbers, its half without negative frequencies, along dimensions, cut or padded to ``s`` points."""
