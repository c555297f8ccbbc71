"""jit of ufuncs and of their methods on zeros of both signs, NaN, infinities and nothing: what
NumPy gives, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops.elementwise import UFUNCS
from tests.oracles import is_same

Array = np.ndarray[Any, Any]
KINDS = ("bool", "int64", "uint8", "float16", "float32", "float64", "complex128")
NUMBERS = (True, 0, -1, 1, 2, -0.0, 0.5)
SCIPYS = {ufunc for ufunc in UFUNCS if not hasattr(np, ufunc.__name__)}
NUMPYS = sorted(
    [u for u in UFUNCS if u.signature is None and u not in SCIPYS], key=lambda u: u.__name__
)


def sample(kind: str) -> Array:
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        return np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan], dtype)
    if dtype.kind == "c":
        parts = (0.0, -0.0, 1.5, -np.inf, np.nan)
        return np.array([complex(a, b) for a in parts for b in (0.0, -0.0, -1.0)], dtype)
    return np.array([True, False]) if dtype.kind == "b" else np.array([0, 1, 2, 3, 5], dtype)


def calls(ufunc: np.ufunc, kind: str) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return ways to call a ufunc on the sample and on parts of it."""
    if ufunc.nin == 1:
        return [
            ("call", ufunc),
            ("empty", lambda x: ufunc(x[:0])),
            ("no rows", lambda x: ufunc(x[:0, None])),
        ]
    x = sample(kind)
    found: list[tuple[str, Callable[[Any], Any]]] = [
        ("call", lambda x: ufunc(x[:, None], x)),
        ("turned", lambda x: ufunc(x, x[::-1])),
        ("empty", lambda x: ufunc(x[:0], x[:0])),
    ]
    for number in NUMBERS:
        found += [
            (f"beside {number!r}", lambda x, n=number: ufunc(x, n)),
            (f"{number!r} beside", lambda x, n=number: ufunc(n, x)),
            (f"empty beside {number!r}", lambda x, n=number: ufunc(x[:0], n)),
        ]
    if ufunc.nout == 1:
        for name in ("reduce", "accumulate"):
            method = getattr(ufunc, name)
            for size in (0, 1, 2, len(x)):
                found.append((f"{name} of {size}", lambda x, m=method, n=size: m(x[:n])))
            found.append((f"{name} of no rows", lambda x, m=method: m(x[:0, None])))
            found.append(
                (f"{name} of empty rows", lambda x, m=method: m(x[:, None][:, :0], axis=1))
            )
        found.append(("reduceat", lambda x: ufunc.reduceat(x, [1, 0, 1])))
        found.append(("outer", lambda x: ufunc.outer(x, x)))
    return found


DIFFERS = {
    "logaddexp": ("reduce",), "logaddexp2": ("reduce",), "hypot": ("reduce",), "power": ("reduce",),
    "arctan2": ("reduce", "accumulate"), "ldexp": ("reduce",),
    **dict.fromkeys(("fmax", "fmin", "maximum", "minimum"), ("reduce", "accumulate")),
}  # fmt: skip
"""Methods that differ by design: reductions with operations of their own, and those that are wrong,
or refused, or round (or choose one of two zeros) as the instructions of the machine do, in NumPy
itself."""


def results(f: Callable[[Any], Any], x: Array) -> list[Any] | None:
    """Return what a function gives; ``None`` where it raises."""
    try:
        return ft.tree.leaves(f(x))
    except (TypeError, ValueError, ArithmeticError):
        return None


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_ufuncs_and_their_methods(kind: str) -> None:
    x = sample(kind)
    wrong: list[str] = []
    checked = 0
    with np.errstate(all="ignore"):
        for ufunc in NUMPYS:
            chosen = [
                (name, call, expected)
                for name, call in calls(ufunc, kind)
                if not name.startswith(DIFFERS.get(ufunc.__name__, ("nothing",)))
                and (expected := results(call, x)) is not None
            ]
            found = (
                results(ft.jit(lambda x, chosen=chosen: [call(x) for _, call, _ in chosen]), x)
                if chosen
                else None
            )
            flat = None if found is None else iter(found)
            for name, call, expected in chosen:
                checked += 1
                here = results(ft.jit(call), x) if flat is None else [next(flat) for _ in expected]
                if here is None or not all(map(is_same, here, expected)):
                    wrong.append(f"{ufunc.__name__}, {name}: {here}, not {expected}")
    assert not wrong, "\n".join([f"{len(wrong)} of {checked}", *wrong[:60]])
    assert checked > 300


Z = np.array([0.0, -0.0, 0.5, -0.5, np.nan, np.inf, -np.inf])
C = sample("complex128")
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        f"clip {low} {high} {kind}": (
            lambda x, low=low, high=high: np.clip(x, low, high),
            (Z.astype(kind),),
        )
        for low in (0.0, -0.0, None, -1, np.float32(-0.0))
        for high in (0.0, -0.0, None, 1, 0.25)
        for kind in ("float16", "float32", "float64")
        if (low is None) != (high is None) or low is not None
    },
    "clip by arrays": (np.clip, (Z, np.array([-0.0] * 7), np.array([0.0] * 7))),
    "clip by arrays, turned": (np.clip, (Z, np.array([0.0] * 7), np.array([-0.0] * 7))),
    "clip of nothing": (lambda x: np.clip(x[:0], 0.0, 1.0), (Z,)),
    **{f"complex ** {n!r}": (lambda x, n=n: x**n, (C,)) for n in (0, 1, 2, 3, 0.5, 1.0, 2.0)},
    "nan_to_num": (np.nan_to_num, (Z,)),
    "complex nan_to_num": (np.nan_to_num, (C,)),
    "complex nan_to_num, single": (np.nan_to_num, (C.astype(np.complex64),)),
    "nan_to_num of nothing": (lambda x: np.nan_to_num(x[:0]), (C,)),
    "write the imaginary part": (lambda x, y: written(x, "imag", y), (C, -0.0)),
    "write infinity into the imaginary part": (lambda x, y: written(x, "imag", y), (C, np.inf)),
    "write the real part": (lambda x, y: written(x, "real", y), (C, -0.0)),
    **{
        f"empty ** {n!r}": (lambda x, n=n: x[:0] ** n, (np.arange(3),))
        for n in (-1, -2, 2, -1.0, True)
    },
    "2 ** empty": (lambda x: 2 ** x[:0], (np.arange(3),)),
    **{
        f"add.reduceat of {kind} along {axis}": (
            lambda x, axis=axis: np.add.reduceat(x, [0, 1, 30, 2], axis=axis),
            (np.random.default_rng(0).normal(size=(40, 40)).astype(kind),),
        )
        for kind in ("float16", "float32", "float64", "complex64", "int8", "bool")
        for axis in (0, 1)
    },
    "add.reduceat of zeros": (lambda x: np.add.reduceat(x, [1]), (np.array([0.0, -0.0]),)),
}


def written(x: Any, part: str, value: Any) -> Any:
    made = x.copy()
    setattr(made, part, value)
    return made


@pytest.mark.filterwarnings("ignore")
def test_functions() -> None:
    wrong: list[str] = []
    with np.errstate(all="ignore"):
        for name, (f, args) in FUNCTIONS.items():
            expected = f(*args)
            for way, g in (
                ("jit", ft.jit(f)),
                ("vjp", lambda *args, f=f: ft.evaluate(ft.trace(f)(*args), *args)),
            ):
                found = g(*args)
                if not is_same(found, expected):
                    wrong.append(f"{name}, {way}: {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_sums_of_segments_differentiate() -> None:
    x = np.random.default_rng(1).normal(size=(8, 3))
    for starts in ([0, 5, 2, 7], [3], [7, 0]):
        f = lambda v, starts=starts: np.add.reduceat(v, starts, axis=0)
        ft.testing.check_grads(f, (x,))
        np.testing.assert_array_equal(ft.vmap(f)(np.stack([x, 2 * x])), np.stack([f(x), f(2 * x)]))
        np.testing.assert_array_equal(
            ft.vmap(f, in_axes=1, out_axes=1)(x[:, :, None]), f(x)[:, :, None]
        )
    program = ft.trace(lambda v: np.add.reduceat(v, [0, 5, 2, 7], axis=1))(x.T.copy())
    assert ft.Program.parse(program.text()) == program


def test_clip_differentiates_as_its_bounds_one_after_the_other() -> None:
    x, low, high = np.meshgrid([-1.0, -0.2, 0.0, 0.3, 2.0], [-0.2, 0.0, 1.0], [-0.2, 0.0, 0.7])
    one = ft.vjp(np.clip, x, low, high)[1](np.ones(x.shape))
    other = ft.vjp(lambda x, low, high: np.clip(np.clip(x, low, None), None, high), x, low, high)[
        1
    ](np.ones(x.shape))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_complex_numbers_of_parts_differentiate() -> None:
    z = np.array([1.0 + 2.0j, -0.5 + 0.3j])
    ft.testing.check_grads(lambda y: np.abs(np.nan_to_num(z * y)) ** 2, (np.array([0.7, -1.2]),))
    ft.testing.check_grads(
        lambda y: np.abs(written(z * y[0], "imag", y)) ** 2, (np.array([0.7, -1.2]),)
    )
