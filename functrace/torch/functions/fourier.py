"""The rows of Fourier transforms: ``torch.fft``, ``stft`` and ``istft``.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.indexing import ARRAY, scatter_add
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import picking, shaping
from functrace.torch.functions.arithmetic import conj_physical
from functrace.torch.functions.arranging import unfold
from functrace.torch.functions.elementwise import dimension, dtype_of, shape_of
from functrace.torch.functions.factories import Made, Options, add_factory
from functrace.torch.functions.padding import pad
from functrace.torch.tensors.dtypes import DTYPES, default_float, is_half
from functrace.torch.tensors.pairs import ROWS as PAIR_ROWS
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.typing import Array

ROWS = FunctionTable()
_VIEW_AS_REAL = next(row.function for row in PAIR_ROWS if row.name == "view_as_real")
_SCALES: dict[str | None, int] = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
"""PyTorch's number of a normalization: by nothing, by the root of the points, by the points. (That
of the inverse transforms is turned around.)"""
Sizes = tuple[int, ...]


def _norm_of(scale: int, forward: bool) -> Any:
    """Return NumPy's word for a normalization."""
    return ("backward", "ortho", "forward")[scale if forward else 2 - scale]


def _c2c(x: Array, axes: Sizes, scale: int, forward: bool) -> Any:
    transform, norm = np.fft.fft if forward else np.fft.ifft, _norm_of(scale, forward)
    found: Any = x
    for axis in reversed(axes):
        found = transform(found, None, axis, norm)
    return found


def _r2c(x: Array, axes: Sizes, scale: int, one_sided: bool) -> Any:
    if not one_sided:
        return _c2c(x, axes, scale, True)
    return _c2c(np.fft.rfft(x, None, axes[-1], _norm_of(scale, True)), axes[:-1], scale, True)


def _c2r(x: Array, axes: Sizes, scale: int, size: int) -> Any:
    found: Any = x
    for axis in axes[:-1]:
        found = np.fft.ifft(found, None, axis, _norm_of(scale, False))
    return np.fft.irfft(found, size, axes[-1], _norm_of(scale, False))


def _op(node: str, function: Any, called: str, last: str) -> Op:
    names = ("dim", "normalization", last)
    return Op(
        node,
        function,
        details=lambda specs, params: dict(zip(names, params, strict=True)),
        in_rows=True,
        called=called,
    )


R2C = _op("FftR2CBackward0", _r2c, "_fft_r2c", "onesided")
C2C = _op("FftC2CBackward0", _c2c, "_fft_c2c", "forward")
C2R = _op("FftC2RBackward0", _c2r, "_fft_c2r", "last_dim_size")


def _scale(norm: str | None) -> int:
    if norm not in _SCALES:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return _SCALES[norm]


def _operand(name: str, input: Operand, kind: str) -> Any:
    """Return the operand of a transform, as floats or complex numbers."""
    f.tensors_only(f"fft_{name}", input=input)
    found = dtype_of(input)
    real = kind in ("rfft", "ihfft")
    if real and found.kind == "c":
        printed = DTYPES[found].printed
        if name == kind:
            raise RuntimeError(f"{name} expects a real input tensor, but got {printed}")
        if kind == "ihfft":
            raise RuntimeError(f"Only supports floating-point dtypes, but found: {printed}")
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {printed}")
    if is_half(found):
        raise RuntimeError(f"Unsupported dtype {DTYPES[found].printed}")
    given: Any = f.to(input, default_float()) if found.kind in "bui" else input
    if kind in ("irfft", "hfft") and dtype_of(given).kind != "c":
        wide = np.complex64 if dtype_of(given) == np.float32 else np.complex128
        given = f.to(given, np.dtype(wide))
    return given


def _resized(x: Any, sizes: Sizes, axes: Sizes) -> Any:
    """Cut axes, or pad them with zeros."""
    shape = shape_of(x)
    padding = [0] * (2 * len(shape))
    for n, axis in zip(sizes, axes, strict=True):
        if n < shape[axis]:
            x = shaping.narrow(x, axis, 0, n)
        elif n > shape[axis]:
            padding[2 * (len(shape) - axis) - 1] = n - shape[axis]
    return pad(x, padding) if any(padding) else x


def _applied(given: Any, kind: str, points: Sizes, axes: Sizes, scale: int) -> Value:
    """Apply a transform in PyTorch's steps.

    Args:
        kind: of NumPy's transforms.
        points: numbers of points along the axes.
        scale: number of the normalization, as of a transform that is not inverse.
    """
    for n in points:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
    if kind in ("irfft", "ifft", "ihfft"):
        scale = 2 - scale
    to_real = kind in ("irfft", "hfft")
    sizes = (*points[:-1], points[-1] // 2 + 1) if to_real else points
    x: Any = _resized(given, sizes, axes)
    if kind in ("fft", "ifft"):
        if dtype_of(x).kind == "c":
            return apply(C2C, (x,), (axes, scale, kind == "fft"))
        found = apply(R2C, (x,), (axes, scale, False))
        return f.conj(found) if kind == "ifft" else found
    if kind == "rfft":
        return apply(R2C, (x,), (axes, scale, True))
    if kind == "ihfft":
        found = apply(R2C, (x,), (axes[-1:], scale, True))
        if len(axes) == 1:
            return f.conj(found)
        return apply(C2C, (conj_physical(found),), (axes[:-1], scale, False))
    if kind == "hfft":
        if len(axes) > 1:
            x = apply(C2C, (x,), (axes[:-1], scale, True))
        x, axes = f.conj(x), axes[-1:]
    return apply(C2R, (x,), (axes, scale, points[-1]))


def _one(kind: str, says: str) -> None:
    def function(
        input: Operand, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Value:
        given = _operand(kind, input, kind)
        shape = shape_of(given)
        if not shape:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        axis = dimension(dim, len(shape))
        size = 2 * (shape[axis] - 1) if kind in ("irfft", "hfft") else shape[axis]
        return _applied(given, kind, (size if n is None else int(n),), (axis,), _scale(norm))

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"Return the {says} along a dimension, cut or padded to ``n`` points."
    ROWS.function("fft", out=True)(function)


def _axes(name: str, shape: Sizes, s: Any, dim: Any, kind: str) -> tuple[Sizes, Sizes]:
    """Return the numbers of points and the axes of a transform of several dimensions."""
    ndim = len(shape)
    sizes = None if s is None else [int(n) for n in ((s,) if isinstance(s, int) else s)]
    if dim is None:
        if sizes is not None and len(sizes) > ndim:
            raise RuntimeError(
                f"Got shape with {len(sizes)} values but input tensor only has {ndim} dimensions."
            )
        axes = tuple(range(ndim)) if sizes is None else tuple(range(ndim - len(sizes), ndim))
    else:
        listed = (dim,) if isinstance(dim, int) else tuple(dim)
        if listed and not ndim:
            raise IndexError(f"Dimension specified as {listed[0]} but tensor has no dimensions")
        axes = tuple(dimension(k, ndim) for k in listed)
        if len(set(axes)) != len(axes):
            raise RuntimeError("FFT dims must be unique")
        if sizes is not None and len(sizes) != len(axes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    if not axes and kind not in ("fft", "ifft"):
        raise RuntimeError(f"{name} must transform at least one axis")
    points = [shape[k] for k in axes]
    if axes and kind in ("irfft", "hfft"):
        points[-1] = 2 * (points[-1] - 1)
    if sizes is not None:
        points = [n if m == -1 else m for n, m in zip(points, sizes, strict=True)]
    return tuple(points), axes


def _several(name: str, kind: str, default: Any, says: str) -> None:
    def function(
        input: Operand, s: Any = None, dim: Any = default, norm: str | None = None
    ) -> Value:
        f.tensors_only(f"fft_{name}", input=input)
        if kind not in ("rfft", "ihfft") or dtype_of(input).kind != "c":
            points, axes = _axes(name, shape_of(input), s, dim, kind)
        given = _operand(name, input, kind)
        points, axes = _axes(name, shape_of(given), s, dim, kind)
        if kind in ("fft", "ifft") and dtype_of(given).kind != "c":
            wide = np.complex64 if dtype_of(given).itemsize == 4 else np.complex128
            given = f.to(given, np.dtype(wide))
            if not axes:
                return given
        elif not axes:
            return f.clone(given)
        return _applied(given, kind, points, axes, _scale(norm))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the {says} along dimensions, cut or padded to ``s`` points."
    ROWS.function("fft", out=True)(function)


for _kind, _says in (
    ("fft", "discrete Fourier transform"),
    ("ifft", "inverse of `fft`"),
    ("rfft", "Fourier transform of real numbers, its half without negative frequencies,"),
    ("irfft", "inverse of `rfft`"),
    ("hfft", "Fourier transform of a Hermitian signal, of which half is given,"),
    ("ihfft", "inverse of `hfft`"),
):
    _one(_kind, _says)
    _several(f"{_kind}2", _kind, (-2, -1), _says)
    _several(f"{_kind}n", _kind, None, _says)


def _shifting(name: str, sign: int) -> None:
    def function(input: Operand, dim: Any = None) -> Value:
        shape = shape_of(input)
        listed = (
            tuple(range(len(shape))) if dim is None else (dim,) if isinstance(dim, int) else dim
        )
        axes = tuple(dimension(k, len(shape)) for k in listed)
        moves = [(shape[k] + (sign < 0)) // 2 for k in axes]
        return picking.roll(input, moves, list(axes))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        "Return the tensor with frequency 0 in the middle."
        if sign > 0
        else "Return the tensor with frequency 0 first, the inverse of `fftshift`."
    )
    ROWS.function("fft")(function)


_shifting("fftshift", 1)
_shifting("ifftshift", -1)


def _check_frequencies(name: str, options: Options) -> np.dtype[Any]:
    kind = options.kind()
    if kind.kind not in "fcV":
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    return kind


@add_factory("fft", "out", table=ROWS, called="fft_fftfreq")
def fftfreq(options: Options, n: int, d: float = 1.0) -> Made:
    """Return the frequencies of `fft`, for ``n`` points at distance ``d``."""
    kind = _check_frequencies("fftfreq", options)

    def compute() -> Array:
        places = np.arange(n, dtype=kind)
        places[(n + 1) // 2 :] -= n
        return places * kind.type(1.0 / (n * d)) if n else places

    return (n, d), compute


@add_factory("fft", "out", table=ROWS, called="fft_rfftfreq")
def rfftfreq(options: Options, n: int, d: float = 1.0) -> Made:
    """Return the frequencies of `rfft`, for ``n`` points at distance ``d``."""
    kind = _check_frequencies("rfftfreq", options)
    return (n, d), lambda: np.arange(n // 2 + 1, dtype=kind) * kind.type(1.0 / (n * d))


# -- transforms of short pieces --------------------------------------------------------------------


def _shown(name: str, x: Any, words: dict[str, Any], window: Any) -> str:
    printed = DTYPES[dtype_of(x)].printed
    kind = f"torch.{printed}Tensor" if name == "stft" else f"CPU{printed}Type"
    parts = []
    for key, value in words.items():
        if key == "window":
            given = (
                "None"
                if window is None
                else (f"torch.{DTYPES[dtype_of(window)].printed}Tensor{{{list(shape_of(window))}}}")
            )
            parts.append(f"window={given}")
        else:
            shown = int(value) if isinstance(value, bool) else value
            parts.append(f"{key}={shown}")
    return f"{name}({kind}{list(shape_of(x))}, {', '.join(parts)})"


def _window(window: Any, win_length: int, n_fft: int, kind: np.dtype[Any]) -> Any:
    """Return the window, in the middle of ``n_fft`` points; None for ones."""
    if window is None:
        if win_length == n_fft:
            return None
        window = wrap(np.ones(win_length, kind))
    if win_length == n_fft:
        return window
    left = (n_fft - win_length) // 2
    return pad(window, [left, n_fft - win_length - left])


@ROWS.function()
def stft(
    input: Operand,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Operand | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Value:
    """Return the Fourier transforms of overlapping pieces of a signal.

    Args:
        input: shape (t,) or (b, t).
        n_fft: the number of points of a transform.
        hop_length: the distance of pieces; a quarter of ``n_fft`` by default.
        win_length: the length of the window; ``n_fft`` by default.
        window: factors of the points of a piece, shape (win_length,); ones by default.
        center: True for pieces centred at multiples of ``hop_length``: the signal is padded.
        pad_mode: how it is padded; see ``nn.functional.pad``.
        normalized: True to divide by ``sqrt(n_fft)``.
        onesided: False for negative frequencies, too; True by default for a real signal.
        return_complex: must be given for a real signal; False returns pairs of real numbers.
        align_to_window: refused together with ``center``.

    Returns:
        Shape (b, frequencies, pieces).
    """
    f.tensors_only("stft", input=input)
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    x: Any = input
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        shape = shape_of(x)
        extended = shaping.view(x, (1,) * (3 - len(shape)) + shape) if len(shape) < 3 else x
        padded = pad(extended, [n_fft // 2, n_fft // 2], pad_mode)
        x = shaping.view(padded, shape_of(padded)[3 - len(shape) :]) if len(shape) < 3 else padded
    is_complex = dtype_of(x).kind == "c" or (window is not None and dtype_of(window).kind == "c")
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further "
            "require that return_complex=True in a future PyTorch release."
        )
    words = {
        "n_fft": n_fft, "hop_length": hop, "win_length": length, "window": None,
        "normalized": bool(normalized), "onesided": onesided, "return_complex": return_complex,
        "align_to_window": align_to_window,
    }  # fmt: skip

    def refuse(why: str) -> RuntimeError:
        return RuntimeError(f"{_shown('stft', x, words, window)} : {why}")

    if dtype_of(x).kind not in "fcV":
        raise refuse("expected a tensor of floating point or complex values")
    shape = shape_of(x)
    if not 1 <= len(shape) <= 2:
        raise refuse("expected a 1D or 2D tensor")
    size = shape[-1]
    if not 0 < n_fft <= size:
        raise refuse(f"expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    if hop <= 0:
        raise refuse(f"expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise refuse(f"expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and shape_of(window) != (length,):
        raise refuse(
            f"expected a 1D window tensor of size equal to win_length={length}, but got window "
            f"with size {list(shape_of(window))}"
        )
    if return_complex is False:
        warn_once(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error."
            "\nNote: you can still call torch.view_as_real on the complex output to recover the old "
            "return format."
        )
    factors = _window(window, length, n_fft, dtype_of(x))
    pieces: Any = unfold(x, -1, n_fft, hop)
    if factors is not None:
        pieces = f.mul(pieces, factors)
    half = (not is_complex) if onesided is None else onesided
    norm = int(normalized)
    kind = "rfft" if half and dtype_of(pieces).kind != "c" else "fft"
    if kind == "fft" and half and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    axis = len(shape_of(pieces)) - 1
    found: Any = _applied(pieces, kind, (n_fft,), (axis,), norm)
    found = shaping.transpose(found, -2, -1)
    return found if return_complex is not False else _VIEW_AS_REAL(f.resolve_conj(found))


def _overlapped(pieces: Array, hop: int, length: int) -> Any:
    """Add pieces, the last two axes (pieces, points), at multiples of a distance."""
    count, size = pieces.shape[-2:]
    places = np.arange(count)[:, None] * hop + np.arange(size)
    stack = pieces.shape[:-2]
    template = (*((None, None, None),) * len(stack), ARRAY)
    return scatter_add(pieces, template, (places,), (*stack, length))


OVERLAP = Op("UnfoldBackwardBackward0", _overlapped, called="unfold_backward", in_rows=True)


@ROWS.function()
def istft(
    input: Operand,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Operand | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Value:
    """Return the signal of Fourier transforms of overlapping pieces, by least squares: the inverse
    of `stft`.

    Args:
        input: complex, shape (frequencies, pieces) or (b, frequencies, pieces).
        n_fft, hop_length, win_length, window, center, normalized, onesided: as for `stft`.
        length: the length of the signal, which is cut or padded.
        return_complex: True for a complex signal.
    """
    f.tensors_only("istft", input=input)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    words = {
        "n_fft": n_fft, "hop_length": hop, "win_length": width, "window": None,
        "center": bool(center), "normalized": bool(normalized), "onesided": onesided,
        "length": length, "return_complex": bool(return_complex),
    }  # fmt: skip

    def refuse(why: str, sign: str = " : ") -> RuntimeError:
        return RuntimeError(f"{_shown('istft', input, words, window)}{sign}{why}")

    if dtype_of(input).kind != "c":
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    shape = shape_of(input)
    if 0 in shape:
        raise refuse("input tensor cannot be empty.")
    if len(shape) not in (2, 3):
        raise refuse(
            "expected a tensor with 3 dimensions or 2 dimensions (2 for complex inputs), but got "
            f"{len(shape)}"
        )
    bins = shape[-2]
    half = bins != n_fft if onesided is None else onesided
    if half and n_fft // 2 + 1 != bins:
        raise refuse(
            "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft "
            f"/ 2 + 1 when onesided=True, but got {bins}"
        )
    if not half and n_fft != bins:
        raise refuse(
            "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft "
            f"when onesided=False, but got {bins}"
        )
    if not 0 < hop <= width:
        raise refuse("expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise refuse("expected 0 < win_length <= n_fft")
    if window is not None and shape_of(window) != (width,):
        raise refuse(
            f"Invalid window shape. window has to be 1D and length of `win_length`={width}"
        )
    real = np.dtype(np.float32 if dtype_of(input) == np.complex64 else np.float64)
    factors = _window(window, width, n_fft, real)
    if factors is None:
        factors = wrap(np.ones(n_fft, real))
    turned = shaping.transpose(input, -2, -1)
    norm = int(normalized)
    axis = len(shape) - 1
    if return_complex:
        if half:
            raise RuntimeError("cannot have onesided output if window or input is complex")
        pieces: Any = _applied(turned, "ifft", (n_fft,), (axis,), norm)
    elif half:
        pieces = _applied(turned, "irfft", (n_fft,), (axis,), norm)
    else:
        part = shaping.narrow(turned, -1, 0, n_fft // 2 + 1)
        pieces = _applied(part, "irfft", (n_fft,), (axis,), norm)
    count = shape[-1]
    total = n_fft + hop * (count - 1)
    signal: Any = apply(OVERLAP, (f.mul(pieces, factors),), (hop, total))
    squares = shaping.expand(f.mul(factors, factors), (count, n_fft))
    envelope: Any = apply(OVERLAP, (squares,), (hop, total))
    start = n_fft // 2 if center else 0
    if length is not None:
        end = start + length
    else:
        end = total - n_fft // 2 if center else total
    inside = min(end, total)
    signal = shaping.narrow(signal, -1, start, inside - start)
    envelope = shaping.narrow(envelope, -1, start, inside - start)
    known = envelope._array if isinstance(envelope, Tensor) else envelope
    if isinstance(known, np.ndarray):
        least = float(np.abs(known).min())
        if not least > 1e-11:
            raise RuntimeError(f"{_shown('istft', input, words, window)} window overlap add min: 1")
    found: Any = f.div(signal, envelope)
    if end > total:
        warn_once(
            "The length of signal is shorter than the length parameter. Result is being padded with "
            "zeros in the tail. Please check your center and hop_length settings."
        )
        found = pad(found, [0, end - total])
    return found
