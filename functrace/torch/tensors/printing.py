"""Printing of tensors, in PyTorch's format.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.overrides import has_overrides
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.tensors.dtypes import DTYPES, default_complex, default_float
from functrace.torch.tensors.tensor import Tensor
from functrace.tracing import Tracer

ROWS = FunctionTable()


@final
@dataclass(slots=True)
class PrintOptions:
    """The format of printed tensors; see `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = PrintOptions()
"""The options of the process."""
_PROFILES = {"default": (4, 1000, 3), "short": (2, 1000, 2), "full": (4, math.inf, 3)}


@ROWS.function("function")
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    Args:
        precision: digits after the point.
        threshold: the number of elements above which only the first and last ones are shown.
        edgeitems: how many of these.
        linewidth: characters of a line.
        profile: ``"default"``, ``"short"`` or ``"full"``, which the other options change.
        sci_mode: True or False for numbers with or without exponent; None to decide by their size.
    """
    if profile is not None:
        OPTIONS.precision, OPTIONS.threshold, OPTIONS.edgeitems = _PROFILES[profile]
        OPTIONS.linewidth = 80
    if precision is not None:
        OPTIONS.precision = precision
    if threshold is not None:
        OPTIONS.threshold = threshold
    if edgeitems is not None:
        OPTIONS.edgeitems = edgeitems
    if linewidth is not None:
        OPTIONS.linewidth = linewidth
    OPTIONS.sci_mode = sci_mode


@ROWS.function("", operators="repr")
def text_of(tensor: Tensor) -> str:
    """Return ``tensor([1., 2.], grad_fn=<MulBackward0>)``."""
    array = tensor._array
    if isinstance(array, Tracer):
        return f"tensor({array!r})"
    parts = []
    is_plain = array.dtype in (default_float(), default_complex())
    if not is_plain and not (array.size and array.dtype in (np.int64, np.bool_)):
        parts.append(f"dtype={DTYPES[array.dtype]!r}")
    if not array.size and array.shape != (0,):
        parts.insert(0, f"size={array.shape}")
    is_invalid, node = False, None
    try:
        node = tensor.grad_fn
    except RuntimeError:  # the base of a view made without recording was overwritten
        is_invalid = True
    if is_invalid:
        parts.append("grad_fn=<Invalid>")
    elif node is not None:
        name = type(node).__name__
        parts.append(f"grad_fn=<{node.name().split('::')[-1] if name == 'CppFunction' else name}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    tangent = None if DUALS.level is None else DUALS.level.tangent_of(tensor)
    if tangent is not None:
        parts.append(f"tangent={tangent}")
    kind = type(tensor)
    opening = f"{kind.__name__}(" if has_overrides(kind) else "tensor("
    body = _elements(array, len(opening))
    text = opening + body
    column = len(text) - text.rfind("\n") + 1  # PyTorch counts two more, but only at first
    for part in parts:
        if column + 2 + len(part) > OPTIONS.linewidth:
            text += ",\n" + " " * len(opening)
            column = len(opening)
        else:
            text += ", "
            column += 2
        text += part
        column += len(part)
    return text + ")"


def _elements(array: Any, indent: int) -> str:
    if not array.size:
        return "[]"
    shortened = array.size > OPTIONS.threshold
    shown = _ends(array) if shortened else array
    show = _formatter(shown)
    return _nested(array, indent, show, shortened)


def _ends(array: Any) -> Any:
    for axis, n in enumerate(array.shape):
        if n > 2 * OPTIONS.edgeitems:
            array = np.take(
                array, [*range(OPTIONS.edgeitems), *range(n - OPTIONS.edgeitems, n)], axis
            )
    return array


def _nested(array: Any, indent: int, show: Callable[[Any], str], shortened: bool) -> str:
    if not array.ndim:
        return show(array[()])
    if array.ndim == 1:
        parts = [
            show(v)
            for v in (
                array
                if not (shortened and len(array) > 2 * OPTIONS.edgeitems)
                else array[: OPTIONS.edgeitems]
            )
        ]
        if shortened and len(array) > 2 * OPTIONS.edgeitems:
            parts += [" ...", *(show(v) for v in array[-OPTIONS.edgeitems :])]
        width = max(
            1,
            (OPTIONS.linewidth - indent) // (max(map(len, (p for p in parts if p != " ..."))) + 2),
        )
        lines = [", ".join(parts[k : k + width]) for k in range(0, len(parts), width)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    if shortened and len(array) > 2 * OPTIONS.edgeitems:
        rows = [_nested(a, indent + 1, show, shortened) for a in array[: OPTIONS.edgeitems]]
        rows += ["..."] + [
            _nested(a, indent + 1, show, shortened) for a in array[-OPTIONS.edgeitems :]
        ]
    else:
        rows = [_nested(a, indent + 1, show, shortened) for a in array]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def _formatter(array: Any) -> Callable[[Any], str]:
    """Return the function that formats elements of an array: one width for all, by PyTorch's
    choice of notation.
    """
    if array.dtype.kind == "c":
        real, imag = _formatter(array.real), _formatter(np.abs(array.imag))

        def both(v: Any) -> str:
            sign = "-" if np.signbit(v.imag) and not np.isnan(v.imag) else "+"
            return f"{real(v.real)}{sign}{imag(abs(v.imag)).strip()}j"

        return both
    if array.dtype.kind not in "fV":
        texts = [str(v) for v in array.flat]
        width = max(map(len, texts))
        return lambda v: str(v).rjust(width)
    values = array[np.isfinite(array) & (array != 0)].astype(np.float64)
    if not values.size:
        return _plain  # as PyTorch, which aligns only what stands beside finite numbers
    sizes = np.abs(values)
    low, high = float(sizes.min()), float(sizes.max())
    scientific = high / low > 1000.0 or high > 1.0e8
    small = low < 1.0e-4
    if OPTIONS.sci_mode is not None:
        scientific = small = OPTIONS.sci_mode
    if np.all(values == np.ceil(values)):
        form = f"{{:.{OPTIONS.precision}e}}" if scientific else "{:.0f}."
    else:
        form = (
            f"{{:.{OPTIONS.precision}e}}" if scientific or small else f"{{:.{OPTIONS.precision}f}}"
        )

    def write(v: Any) -> str:
        x = float(v)
        if not math.isfinite(x):
            return _plain(x)
        return form.format(x)

    width = max(
        len(write(v)) for v in values
    )  # as PyTorch: infinities and nan do not widen the others
    return lambda v: write(v).rjust(width)


def _plain(value: Any) -> str:
    x = float(value)
    return f"{x:.0f}." if math.isfinite(x) else str(x)
