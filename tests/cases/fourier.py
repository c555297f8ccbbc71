"""Cases of numpy.fft: every function by length (odd, even, cut, padded), axis, norm and dtype."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.cases.case import Case
from tests.cases.linear_algebra import draw

_complex: dict[str, Any] = {"dtype": np.complex128}
_REAL_IN, _REAL_OUT = {"rfft", "ihfft"}, {"irfft", "hfft"}


def _args(name: str, *shape: int) -> tuple[Any]:
    return (
        draw(*shape) if name in _REAL_IN or name.startswith("rfft") else draw(*shape, **_complex),
    )


def _edges(name: str) -> tuple[Any, ...]:
    kinds = [np.float32, np.float64, np.int32, np.bool_, np.float16]
    if name not in _REAL_IN and not name.startswith("rfft"):
        kinds += [np.complex64, np.complex128]
    made = [(np.arange(1, 7).reshape(2, 3).astype(kind),) for kind in kinds]
    return (*made, (np.ones((0, 3)),), (np.array([[np.nan, 1.0, 2.0]]),), (draw(4, 6).T[::-1],))


def _bad(name: str) -> tuple[Any, ...]:
    return (
        ((np.float64(1.0),), IndexError),
        ((np.ones((2, 0)),), ValueError),
        *((((draw(3, **_complex),), TypeError),) if name in _REAL_IN else ()),
    )


def _one_axis(name: str) -> list[Case]:
    function = getattr(np.fft, name)
    made = [
        Case(
            f"fft.{name}",
            lambda x: function(x),
            _args(name, 2, 4),
            edge=_edges(name),
            raises=_bad(name),
        ),
        Case(f"fft.{name}/one point", lambda x: function(x, 1), _args(name, 3)),
        Case(
            f"fft.{name}/out",
            lambda x: function(x, n=4, out=_target(name, x)),
            _args(name, 4),
            vmap=False,
        ),
    ]
    if name not in _REAL_IN:
        made.append(Case(f"fft.{name}/of real numbers", lambda x: function(x), (draw(3, 5),)))
    for size, n, axis, norm in itertools.product(
        (3, 4), (None, 2, 3, 5, 6), (0, -1), (None, "ortho", "forward")
    ):
        if (axis == 0) != (n in (None, 5)) or (
            norm and n in (2, 3)
        ):  # each length along one of the axes
            continue
        shape = (size, 2) if axis == 0 else (2, size)
        made.append(
            Case(
                f"fft.{name}/{size} points, n={n}, axis={axis}, norm={norm}",
                lambda x, n=n, axis=axis, norm=norm: function(x, n, axis, norm),
                _args(name, *shape),
                order=1 if norm else 2,
            )
        )
    return made


def _target(name: str, x: Any) -> Any:
    size = 3 if name in _REAL_IN else 4
    return np.zeros_like(x, shape=(size,), dtype=np.float64 if name in _REAL_OUT else np.complex128)


_ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_SEVERAL: tuple[dict[str, Any], ...] = (
    {},
    {"norm": "ortho"},
    {"norm": "forward", "axes": (0, 2)},
    {"s": (3, 4), "axes": (1, 0)},
    {"s": (-1, 5), "axes": (0, 1)},
    {"axes": (-1,)},
    {"axes": (1, 1)},
)


def _several_axes(name: str) -> list[Case]:
    function = getattr(np.fft, name)
    made = []
    for k, options in enumerate(_SEVERAL):
        label = ", ".join(f"{key}={value}" for key, value in options.items())
        made.append(
            Case(
                f"fft.{name}/{label}",
                lambda x, options=options: function(x, **options),
                _args(name, 2, 3, 4),
                order=1 if k else 2,
                edge=() if k else tuple(e for e in _edges(name) if e[0].size),
            )
        )
    return made


FREQUENCIES = [
    *(
        Case(f"fft.{name}/axes={axes}", lambda x, f=getattr(np.fft, name), axes=axes: f(x, axes),
        (draw(3, 4),))
        for name in ("fftshift", "ifftshift")
        for axes in (None, 0, 1, (0, 1), (-1,), [0])
    ),
    Case("fft.fftshift/edges", lambda x: np.fft.fftshift(x), (draw(5),),
         edge=((np.arange(4),), (np.zeros(0),), (draw(2, 3, dtype=np.complex64),))),
    Case("fft.fftfreq", lambda d: np.fft.fftfreq(5, d) * np.fft.rfftfreq(8, 1 / d)[:5],
    (np.float64(0.3),)),
]  # fmt: skip

SOLVERS = [
    Case("fft/derivative by a spectrum", lambda x: np.fft.irfft(1j * np.arange(4) * np.fft.rfft(x),
    n=7), (draw(7),)),
    Case("fft/convolution", lambda x, y: np.real(np.fft.ifft(np.fft.fft(x, 6) * np.fft.fft(y, 6))),
    (draw(4), draw(3)),
         diff=(0, 1)),
    Case("fft/power", lambda x: np.sum(np.abs(np.fft.fft2(x)) ** 2, axis=0), (draw(3, 4),)),
]  # fmt: skip

CASES: list[Case] = [
    *(case for name in _ONE_AXIS for case in _one_axis(name)),
    *(case for name in ("fftn", "ifftn", "rfftn", "irfftn") for case in _several_axes(name)),
    *(
        Case(f"fft.{name}", lambda x, f=getattr(np.fft, name): f(x), _args(name, 2, 3, 4))
        for name in ("fft2", "ifft2", "rfft2", "irfft2")
    ),
    *FREQUENCIES,
    *SOLVERS,
]
