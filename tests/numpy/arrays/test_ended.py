"""Traced values after their transform has ended: uses return the right value, or raise
LeakedTracerError.

A leaked value that depends on no input stands for its concrete value, also in a later transform.
"""

from __future__ import annotations

import copy
import gc
import math
import operator
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ConcretizationError, LeakedTracerError, LostGradientError

X = np.array([[1.0, 2.0], [3.0, 0.5]])

TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "grad": ft.grad,
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: ft.vmap(f)(np.stack([x, x])),
    "jit": ft.jit,
    "jit with guards": lambda f: ft.jit(f, guards=True),
    "jit of grad": lambda f: ft.jit(ft.grad(f)),
    "vmap of grad": lambda f: lambda x: ft.vmap(ft.grad(f))(np.stack([x, x])),
    "hessian": ft.hessian,
    "grad of checkpoint": lambda f: ft.grad(ft.checkpoint(f)),
}

VALUES: dict[str, Callable[[Any], Any]] = {
    "argument": lambda x: x,
    "matrix": lambda x: x * 2.0,
    "scalar": lambda x: np.sum(x) * 2.0,
    "0-d array": lambda x: np.copy(np.sum(x)),
    "vector": lambda x: np.sum(x, axis=0),
    "view": lambda x: x[1:],
    "transposed": lambda x: (x * 3.0).T,
    "integer": np.argmax,
    "integers": lambda x: np.argsort(x),
    "bool": lambda x: np.any(x > 0),
    "complex": lambda x: x * 1j,
    "flat": lambda x: (x * 2.0).flat,
}

_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "take": (0,), "repeat": (2,), "reshape": (-1,), "astype": (np.float32,), "swapaxes": (0, 0),
    "searchsorted": (0.5,),
    "partition": (0,), "argpartition": (0,), "compress": ([True],), "choose": ([1.0],),
    "dot": (1.0,), "fill": (0.0,),
    "put": (0, 1.0), "itemset": (0, 1.0), "resize": ((1,),), "to_device": ("cpu",),
    "view": (np.int64,), "clip": (0.0, 1.0),
    "setfield": (0.0, np.float64), "getfield": (np.float64,), "setflags": (),
    "tofile": (os.devnull,),
    "dump": (os.devnull,),
    "byteswap": (), "__getitem__": (0,), "__setitem__": (0, 1.0), "__contains__": (1.0,),
    "__array__": (),
    "__array_ufunc__": (np.sin, "__call__"), "__array_function__": (np.sum, (), (), {}),
    "__format__": (".2f",),
    "__reduce_ex__": (2,), "__deepcopy__": ({},), "__pow__": (2.0,), "__round__": (),
    "__setattr__": ("shape", (-1,)),
}  # fmt: skip
_LEFT_OUT = frozenset({
    "__class__", "__delattr__", "__dir__", "__doc__", "__getattribute__", "__getstate__",
    "__init__", "__init_subclass__",
    "__module__", "__new__", "__slots__", "__subclasshook__", "__sizeof__", "__weakref__",
    "__repr__", "__str__",
    "__class_getitem__", "__setstate__", "__annotations__", "__abstractmethods__",
    "__array_ufunc__",
    "__array_function__", "__array_wrap__", "__array_finalize__", "__array_interface__",
    "__array_struct__",
    "__array_priority__", "__array_namespace__", "__ne__", "__eq__", "__dict__",
    "__static_attributes__",
    "__firstlineno__",
})  # fmt: skip

_OPERATORS: dict[str, Callable[[Any], Any]] = {
    **{
        f"{name}, {side}": (lambda k, f=getattr(operator, name): f(k, 2)) if side == "left"
        else (lambda k, f=getattr(operator, name): f(2, k))
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "ge", "eq",
        "ne")
        for side in ("left", "right")
    },
    **{name: lambda k, f=getattr(operator, name): f(k, 1) for name in ("iadd", "imul", "isub",
    "itruediv", "ipow")},
    **{name: getattr(operator, name) for name in ("neg", "pos", "abs", "invert", "index", "truth")},
    **{kind.__name__: kind for kind in (float, int, complex, bool, bytes, list, str, repr, hash,
    len, round, math.floor)},
    "in a dict": lambda k: k in {1.0: 2},
    "in a list": lambda k: k in [1.0],
    "set": lambda k: {k},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "iter": lambda k: next(iter(k)),
    "format": lambda k: f"{k:.3}",
    "np.asarray": np.asarray,
    "np.sin": np.sin,
    "np.sum": np.sum,
    "np.multiply": lambda k: np.multiply(2.0, k),
    "np.where": lambda k: np.where(k > 0, k, 0.0),
    "np.shape": np.shape,
    "np.ndim": np.ndim,
    "np.size": np.size,
    "np.zeros_like": np.zeros_like,
    "np.copyto": lambda k: np.copyto(k, 1.0),
    "index of a list": lambda k: [1, 2, 3][k],
    "index of an array": lambda k: np.arange(9)[k],
    "k[...]": lambda k: k[...],
    "k[None]": lambda k: k[None],
    "at": lambda k: k.at[0].set(1.0),
    "shape =": lambda k: setattr(k, "shape", (-1,)),
    "real =": lambda k: setattr(k, "real", 1.0),
    "imag =": lambda k: setattr(k, "imag", 1.0),
    "flat =": lambda k: setattr(k, "flat", 1.0),
    "memoryview": memoryview,
    "functrace.value": ft.value,
    "functrace.stop_gradient": ft.stop_gradient,
}  # fmt: skip


def _attributes(kind: type) -> dict[str, Callable[[Any], Any]]:
    """Every attribute, and every method called with arguments that suit it."""
    found: dict[str, Callable[[Any], Any]] = dict(_OPERATORS)
    for name in sorted({*dir(np.ndarray), *dir(kind)} - _LEFT_OUT):
        if name.startswith(("_", "ft_")) and not name.startswith("__"):
            continue

        def use(k: Any, name: str = name) -> Any:
            member = getattr(k, name)
            binary = name.startswith("__") and name.strip("_").removeprefix("r").removeprefix("i") in (
                "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor",
                "lshift", "rshift", "divmod",
                "matmul", "lt", "le", "gt", "ge", "shift",
            )  # fmt: skip
            return (
                member(*_ARGUMENTS.get(name, (1,) if binary else ()))
                if callable(member)
                else member
            )

        found[name] = use
    return found


def _outcome(use: Callable[[Any], Any], k: Any) -> Any:
    try:
        return use(k)
    except Exception as error:
        return error


def _is_refused(outcome: Any) -> bool:
    return isinstance(outcome, Exception) or outcome is NotImplemented


_SAME_AS_EVER = (AttributeError, TypeError, ValueError, IndexError)
_NOT_AFTERWARDS = (LostGradientError, ConcretizationError, LeakedTracerError)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "jit", "jit with guards"])
def test_every_use_of_an_ended_tracer_is_right_or_raises(transform: str, kind: str) -> None:
    kept: list[Any] = []
    live: dict[str, Any] = {}

    def f(x: Any) -> Any:
        kept.append(VALUES[kind](x * 1.0 if kind != "argument" else x))
        return np.sum(x)

    TRANSFORMS[transform](f)(X)
    k = kept[0]
    uses = _attributes(type(k))

    def looks(x: Any) -> Any:
        for name, use in uses.items():
            live[name] = _outcome(use, VALUES[kind](x * 1.0 if kind != "argument" else np.copy(x)))
        return np.sum(x)

    ft.grad(looks)(X)
    problems = []
    for name, use in uses.items():
        got, before = _outcome(use, k), live[name]
        if isinstance(got, LeakedTracerError):
            continue
        if isinstance(got, Exception):
            same = (
                isinstance(before, _SAME_AS_EVER)
                and not isinstance(before, _NOT_AFTERWARDS)
                and type(got) is type(before)
            )
            if not same or (type(got).__module__ == "builtins" and str(got) != str(before)):
                problems.append(
                    f"{name}: {type(got).__name__}: {str(got).splitlines()[0]} (before: {before!r:.60})"
                )
        elif isinstance(got, ft.Tracer):
            problems.append(f"{name}: {got!r}")
        elif name not in ("repr", "str", "__hash__") and not isinstance(got, type(before)):
            problems.append(f"{name}: {got!r} instead of {before!r:.60}")
    assert not problems, "\n".join(problems)


_NUMBERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "float": (lambda k: k, 2.5),
    "int": (lambda k: k, 2),
    "computed": (lambda k: k * 2 + 1, 1.5),
    "complex": (lambda k: k, 1.0 + 2.0j),
    "by math": (lambda k: math.sqrt(np.asarray(k)), 2.5),
    "by float()": (lambda k: float(np.asarray(k)), 2.5),
}


@pytest.mark.parametrize("kind", _NUMBERS)
def test_every_use_of_an_ended_traced_number_is_right_or_raises(kind: str) -> None:
    make, given = _NUMBERS[kind]
    kept: list[Any] = []
    ft.jit(ft.numpy.lift(lambda k: (kept.append(make(k)), k)[1]))(given)
    (k,) = kept
    plain = make(given)
    assert k.is_number
    for name, use in _attributes(type(k)).items():
        if not hasattr(plain, name) and name not in _OPERATORS:
            continue
        got, expected = _outcome(use, k), _outcome(use, plain)
        if isinstance(got, LeakedTracerError) or (
            isinstance(got, Exception) and _is_refused(expected)
        ):
            continue
        assert not isinstance(got, (Exception, ft.Tracer)), (name, got, expected)
        assert name in ("repr", "str", "__hash__", "functrace.stop_gradient") or got == expected, (
            name,
            got,
            expected,
        )


# -- what depends on no input, kept by plain code from one transform to the next -------------------

MAKERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda k: np.array([k + 1]).sum(),
    "array of it": lambda k: np.array(k) + 1,
    "asarray": lambda k: np.asarray([k + 1.0, k])[0],
    "full": lambda k: np.full(3, k + 1)[1],
    "full of the old one": lambda k: np.full((), k)[()] + 1,
    "linspace": lambda k: np.linspace(k, k + 1, 5)[-1],
    "arange": lambda k: np.arange(k, k + 2)[1],
    "zeros, written": lambda k: _written(k),
    "ones": lambda k: np.ones(3).sum() - 2 + k,
    "stack": lambda k: np.stack([np.array([k]), np.array([1])]).sum(),
    "where": lambda k: np.where(np.array([True]), k + 1, k)[0],
    "math": lambda k: math.sqrt(np.array(k + 1) ** 2),
    "math of a number": lambda k: math.floor(math.hypot(np.array(k + 1), 0.0) + 0.5),
    "float": lambda k: float(np.array([k]).sum()) + 1.0,
    "float of the old one": lambda k: np.array(float(k) + int(k) - int(k)) + 1.0,
    "inner function": lambda k: ft.checkpoint(lambda v: np.array([v + 1]).sum())(k),
    "in a jitted function": lambda k: ft.jit(lambda v: np.array([k + 1]).sum() + 0 * v)(1.0),
    "what an inner transform leaves": lambda k: _left_inside(k),
}


def _written(k: Any) -> Any:
    made = np.zeros(2)
    made[0] = k + 1
    return made[0]


def _left_inside(k: Any) -> Any:
    left: list[Any] = []
    table = np.array([k, 1])
    ft.jit(lambda v: (left.append(table.sum()), v * 1.0)[1])(1.0)
    return left[0]


USES: dict[str, Callable[[Any], Any]] = {
    "+": lambda k: k + 1,
    "r+": lambda k: 1 + k,
    "hash": lambda k: (hash(float(k)), hash(k))[1],
    "float": float,
    "==": lambda k: bool(k == 3.0),
    "in a dict": lambda k: k in {3: 1},
    "np.array": lambda k: np.array(k) + 1,
    "np.sin": np.sin,
    "np.sum": np.sum,
    "[...]": lambda k: np.asarray(k)[...],
    "T": lambda k: k.T,
    "strides": lambda k: k.strides,
    "deepcopy": lambda k: copy.deepcopy(k) + 0,
    "pickle": lambda k: pickle.loads(pickle.dumps(k)),
    "item": lambda k: k.item(),
    "astype": lambda k: k.astype(int),
    "index": lambda k: np.arange(9)[int(k)],
    "format": lambda k: f"{float(k)}",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("maker", MAKERS)
def test_leaked_constants_continue_as_concrete_values(maker: str, transform: str) -> None:
    kept: list[Any] = [0]

    def f(x: Any) -> Any:
        kept[0] = MAKERS[maker](kept[0])
        return np.sum(x**2)

    counts = []
    for n in (2, 3, 4):
        TRANSFORMS[transform](ft.numpy.lift(f))(np.ones((2, n)))
        counts.append(float(kept[0]))
    plain = [0]
    for _ in range(round(counts[-1])):
        plain[0] = MAKERS[maker](plain[0])
    assert (
        counts[0] >= 1 and counts == sorted(set(counts)) and counts[-1] == plain[0]
    )  # one more by every call of f
    for name, use in USES.items():
        expected, got = use(np.asarray(counts[-1])[()]), use(kept[0])
        assert got == expected and not isinstance(np.asarray(got).dtype, np.dtypes.ObjectDType), (
            name
        )
    x = np.ones((2, 2))
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(x * kept[0]))(x), counts[-1] * x
    )  # in later transforms, too


def test_comparing_and_dropping_ended_tracers_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As chaospy's: arrays of an earlier transform are keys and entries, compared and dropped in
    later ones.
    """
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    seen: dict[Any, Any] = {}

    def f(x: Any) -> Any:
        key = np.array([1.0, 2.0]).sum() + len(seen)
        seen[key] = np.linspace(0.0, 1.0, 3) * key
        for other in list(seen):
            assert (other == key) == (float(other) == float(key))
        if len(seen) > 3:
            del seen[next(iter(seen))]
        return np.sum(x * seen[key][1])

    for n in range(2, 9):
        for transform in (ft.grad, ft.jit):
            transform(ft.numpy.lift(f))(np.ones(n))
    seen.clear()
    gc.collect()
    assert not unraisable
