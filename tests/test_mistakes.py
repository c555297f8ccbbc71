"""First mistakes, a row each: what is written, under which transform, and what the error says of
it.

Every error names the user's line, what happened in the user's words, and a way out that works
there; its traceback ends in the user's code, shows none of functrace's frames, and is not chained
to another one.
"""

from __future__ import annotations

import bisect
import csv
import io
import json
import math
import pickle
import statistics
import struct
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from functrace.numpy.protocol.foreign_names import _NN, _RENAMED, _TRANSFORMS, in_numpy
from functrace.source import PACKAGE_PREFIX

X = np.array([1.0, 2.0, 3.0])


class Row(NamedTuple):
    """A mistake.

    Args:
        run: what is run.
        what: parts of the message that say what happened.
        fix: parts of the way out.
        absent: what would be no way out here.
    """

    run: Callable[[], Any]
    what: tuple[str, ...]
    fix: tuple[str, ...]
    absent: tuple[str, ...] = ()


def store(x: Any) -> Any:
    y = np.zeros(3)
    y[0] = x[0]
    return y.sum()


def store_in_loop(x: Any) -> Any:
    total = np.zeros(3)
    for k in range(3):
        total[k] += x[k]
    return total.sum()


def store_slice(x: Any) -> Any:
    y = np.zeros(3)
    y[:2] = x[:2]
    return y.sum()


def store_list(x: Any) -> Any:
    y = np.zeros(3)
    y[[0, 1]] = [x[0], x[1]]
    return y.sum()


def store_flat(x: Any) -> Any:
    y = np.zeros(3)
    y.flat[0] = x[0]
    return y.sum()


def store_all_flat(x: Any) -> Any:
    y = np.zeros(3)
    y.flat = x
    return y.sum()


def store_real(x: Any) -> Any:
    y = np.zeros(3, complex)
    y.real = x
    return y.real.sum()


def add_in_place(x: Any) -> Any:
    y = np.zeros(3)
    y += x
    return y.sum()


def store_in_attribute(x: Any) -> Any:
    class Model:
        weights = np.zeros(3)

    Model.weights[1] = x[1]
    return Model.weights.sum()


ROWS: dict[str, Row] = {}


def row(
    name: str,
    run: Callable[[], Any],
    what: str | tuple[str, ...],
    fix: str | tuple[str, ...],
    *absent: str,
) -> None:
    parts = [(part,) if isinstance(part, str) else part for part in (what, fix)]
    ROWS[name] = Row(run, parts[0], parts[1], absent)


TARGET = ("np.zeros_like(x)", "np.stack", "functrace.numpy.lift")
WRITE = "would write a traced value"
for name, transform in (("grad", ft.grad), ("jit", ft.jit)):
    for writer, target in {
        store: "assignment to y",
        store_in_loop: "assignment to total",
        store_slice: "assignment to y",
        store_list: "assignment to y",
        store_flat: "assignment to y.flat",
        store_all_flat: "assignment to y",
        store_real: "assignment to y",
        store_in_attribute: "assignment to Model.weights",
    }.items():
        row(
            f"{name}: {writer.__name__}",
            lambda t=transform, f=writer: t(f)(X),
            (target, WRITE),
            TARGET,
            "float(x)",
        )
    for call, word in {
        "np.put(np.zeros(3), [0], x[0])": "numpy.put",
        "np.copyto(np.zeros(3), x)": "numpy.copyto",
        "np.place(np.zeros(3), np.ones(3, bool), x)": "numpy.place",
        "np.putmask(np.zeros(3), np.ones(3, bool), x)": "numpy.putmask",
        "np.put_along_axis(np.zeros(3), np.array([0]), x[:1], 0)": "numpy.put_along_axis",
        "np.fill_diagonal(np.zeros((3, 3)), x)": "numpy.fill_diagonal",
        "np.add(x, 1.0, out=np.zeros(3))": "out=",
        "np.sum(x, axis=0, out=np.zeros(()))": "out=",
        "np.add.at(np.zeros(3), [0], x[0])": "numpy.add.at",
    }.items():
        row(
            f"{name}: {call}",
            lambda t=transform, c=call: t(eval(f"lambda x: {c}"))(X),
            (word, WRITE),
            "np.zeros_like(x)",
        )
    for written, function in {
        "fill": lambda x: np.zeros(3).fill(x[0]),
        "put": lambda x: np.zeros(3).put([0], x[0]),
        "__setitem__": lambda x: np.zeros(3).__setitem__(0, x[0]),
    }.items():
        row(
            f"{name}: {written}",
            lambda t=transform, f=function: t(f)(X),
            (f".{written}", WRITE),
            TARGET,
        )
    row(f"{name}: y += x", lambda t=transform: t(add_in_place)(X), WRITE, "np.zeros_like(x)")
    for function, fix in {
        math.sqrt: "np.sqrt", math.fsum: "np.sum", math.atan2: "np.arctan2",
        math.hypot: "np.hypot", math.pow: "np.power",
        math.lgamma: "scipy.special.gammaln", math.exp: "np.exp", math.acosh: "np.arccosh",
    }.items():  # fmt: skip
        arguments = {math.fsum: lambda x: (x,), math.atan2: lambda x: (x[0], x[1])}
        two = (math.hypot, math.pow, math.atan2)
        take = arguments.get(function) or (
            (lambda x: (x[0], x[1])) if function in two else lambda x: (x[0],)
        )
        row(
            f"{name}: math.{function.__name__}",
            lambda t=transform, f=function, take=take: t(lambda x: f(*take(x)))(X),
            (f"math.{function.__name__}(x)", "would lose the derivative"),
            f"use {fix}",
        )

UNKNOWN = "but jit of <lambda> records without values"
row(
    "jit: max",
    lambda: ft.jit(lambda x: max(x[0], x[1]))(X),
    ("max: ", UNKNOWN),
    "np.maximum(x, y)",
    "static",
)
row("jit: min", lambda: ft.jit(lambda x: min(x))(X), ("min: ", UNKNOWN), "np.min(x)", "static")
row(
    "jit: sorted",
    lambda: ft.jit(lambda x: sorted(x)[0])(X),
    ("sorted: ", UNKNOWN),
    "np.sort(x)",
    "static",
)
row("jit: any", lambda: ft.jit(lambda x: any(x))(X), ("any: ", UNKNOWN), "np.any(x)", "static")
row("jit: all", lambda: ft.jit(lambda x: all(x > 0))(X), ("all: ", UNKNOWN), "np.all(x)", "static")
row(
    "jit: round",
    lambda: ft.jit(lambda x: round(x[0]))(X),
    ("round: ", UNKNOWN),
    "np.round(x)",
    "static",
)
row("grad: round", lambda: ft.grad(lambda x: round(x))(X), "round() takes numbers", "np.round(x)")
row(
    "jit: bisect",
    lambda: ft.jit(lambda x: bisect.bisect(x, 2.0))(X),
    ("bisect.bisect: ", UNKNOWN),
    "np.searchsorted",
    "static",
)
row(
    "jit: format",
    lambda: ft.jit(lambda x: f"{x[0]:.3f}")(X),
    ("formatting", UNKNOWN),
    "functrace.debug.print",
)
row(
    "jit: percent",
    lambda: ft.jit(lambda x: "%f" % x[0])(X),  # noqa: UP031
    "formatting x",
    "functrace.debug.print",
)
row(
    "jit: if",
    lambda: ft.jit(lambda x: x if x[0] > 0 else -x)(X),
    ("a value is needed", UNKNOWN),
    "np.where",
)
row(
    "grad: int",
    lambda: ft.grad(lambda x: x[0] * int(x[1]))(X),
    "int(x) would lose",
    ("np.round(x)", "functrace.value(x)"),
)
row(
    "jit: float",
    lambda: ft.jit(lambda x: float(x[0]))(X),
    "float(x) would lose",
    "debug.callback",
    "functrace.value(x)",
)
row(
    "jit: tolist",
    lambda: ft.jit(lambda x: x.tolist())(X),
    "x.tolist() would lose",
    "debug.callback",
    "functrace.value(x)",
)
row(
    "grad: mean",
    lambda: ft.grad(lambda x: statistics.mean(x))(X),
    "statistics.mean takes plain arrays only",
    "use np.mean",
)

SAVED = ("save what the call returns", "functrace.debug.callback")
for save, function in {
    "numpy.save ": lambda x: np.save(io.BytesIO(), x),
    "numpy.savez ": lambda x: np.savez(io.BytesIO(), a=x),
    "numpy.savez_compressed ": lambda x: np.savez_compressed(io.BytesIO(), a=x),
    "numpy.savetxt ": lambda x: np.savetxt(io.StringIO(), x),
    "json.dumps ": lambda x: json.dumps(list(x)),
    "struct.pack": lambda x: struct.pack("d", x[0]),
}.items():
    row(f"jit: {save}", lambda f=function: ft.jit(f)(X), save, SAVED, "functrace.value")
row(
    "jit: pickle",
    lambda: ft.jit(lambda x: pickle.dumps(x))(X),
    "cannot be pickled",
    "return it",
    "functrace.value",
)

row(
    "grad of an int",
    lambda: ft.grad(lambda x: x**2)(3),
    "args[0] is the int 3",
    "pass a float (3.0)",
    "nest",
)
row("grad of a vector", lambda: ft.grad(np.sin)(X), "only a scalar has a gradient", "functrace.vjp")
row(
    "in_axes too large",
    lambda: ft.vmap(np.sin, in_axes=2)(X),
    ("in_axes=2", "args[0] is f64[3]"),
    "in_axes=0",
    "None",
)
row(
    "in_axes of a matrix",
    lambda: ft.vmap(np.sin, in_axes=-3)(np.ones((2, 2))),
    "f64[2,2]",
    "between -2 and 1",
    "None",
)
row(
    "vmap of a scalar",
    lambda: ft.vmap(np.sin)(2.0),
    "args[0] is f64[], which has no axis to map",
    "in_axes=None for it",
)
for wrong, right in {"argnum": "argnums", "has_auxx": "has_aux"}.items():
    options: dict[str, Any] = {wrong: 0}
    row(
        f"grad: {wrong}=",
        lambda o=options: ft.grad(np.sin, **o),
        f"{wrong!r}. Did you mean {right!r}?",
        "argnums, has_aux",
    )
row(
    "scan: carry",
    lambda: ft.scan(lambda c, x: ((c, c), x), 0.0, X),
    "the carry is one value before and a tuple of 2",
    "before",
)
row(
    "scan: part of the carry",
    lambda: ft.scan(lambda c, x: ({"a": c["a"], "b": [x]}, x), {"a": X, "b": (1.0,)}, X),
    "carry['b'] is a tuple of 1 value before and a list of 1 value after a step",
    "with the structure that it has before",
)
row(
    "while_loop: carry",
    lambda: ft.while_loop(lambda c: c < 3, lambda c: [c], 0.0),
    "and a list of 1 value after",
    "structure",
)
row(
    "fori_loop: carry",
    lambda: ft.fori_loop(0, 3, lambda i, c: {"c": c}, 0.0),
    "a dict with the key 'c' after",
    "structure",
)
row(
    "cond",
    lambda: ft.jit(lambda p: ft.cond(p, lambda: (1.0, 2.0), lambda: 1.0))(True),
    "the true branch returns a tuple of 2 values, the false branch one value",
    "with the same structure from all branches",
)
row(
    "scan: no pair",
    lambda: ft.scan(lambda c, x: c, 0.0, X),
    "the body returned one value, not a pair",
    "return carry, y",
)
row(
    "pullback",
    lambda: ft.vjp(np.sin, X)[1]((X, X)),
    "have the structure of a tuple of 2 values",
    "the same structure",
)
row(
    "in_axes of a dict",
    lambda: ft.vmap(np.sin, in_axes=({"b": 0},))(X),
    "in place of one value",
    "from the top",
)
row("vmap: in_axis=", lambda: ft.vmap(np.sin, in_axis=0), "Did you mean 'in_axes'?", "out_axes")  # type: ignore[call-arg]
row("scan: len=", lambda: ft.scan(np.add, 0.0, lenght=3), "Did you mean 'length'?", "reverse")  # type: ignore[call-arg]


def described(error: BaseException) -> list[str]:
    """Return what is wrong with how an error shows itself."""
    wrong = []
    if error.__cause__ is not None or (
        error.__context__ is not None and not error.__suppress_context__
    ):
        wrong.append("it is chained to another one")
    if error.__context__ is not None and error.__context__.__traceback__ is not None:
        wrong.append(f"it holds {error.__context__!r}")
    own = [
        f"{f.filename}:{f.lineno}"
        for f in traceback.extract_tb(error.__traceback__)
        if f.filename.startswith(PACKAGE_PREFIX)
    ]
    return wrong + ([f"it shows {own}"] if own else [])


@pytest.mark.parametrize("name", ROWS)
def test_first_mistakes_are_explained(name: str) -> None:
    run, what, fix, absent = ROWS[name]
    with pytest.raises(FunctraceError) as caught:
        run()
    error = caught.value
    assert error.at is not None and error.at.file.endswith(("test_mistakes.py", "<string>")), (
        error.at
    )
    for part in what:
        assert part in error.what, str(error)
    for part in fix:
        assert error.fix is not None and part in error.fix, str(error)
    for part in absent:
        assert part not in str(error).replace(error.at.expression, ""), str(error)
    assert "PyTreeSpec" not in str(error)
    assert not described(error), described(error)


def test_formatting_and_csv_of_tracers_work() -> None:
    assert ft.grad(lambda x: x * len(f"{x:.3f}"))(2.0) == 5.0
    assert ft.grad(lambda x: max(x[0], x[1]))(X).tolist() == [0.0, 1.0, 0.0]
    ft.grad(lambda x: csv.writer(io.StringIO()).writerow([x]) * x)(2.0)


def test_a_handled_refusal_does_not_hide_a_later_error() -> None:
    def f(x: Any) -> Any:
        for value in (x, "no number"):
            try:
                float(value)
            except TypeError:
                continue
        return x

    with pytest.raises(ValueError, match="no number") as caught:
        ft.grad(lambda x: f(x) * float("none"))(1.0) if f else None
    assert type(caught.value) is ValueError


def test_names_of_other_libraries_exist_here() -> None:
    for name in _TRANSFORMS:
        assert callable(getattr(ft, name))
    for name in _NN:
        assert callable(getattr(ft.nn, name))
    words = [
        *_RENAMED.values(),
        *[in_numpy(f"math.{name}").split()[1].rstrip(",") for name in dir(math) if name[0] != "_"],
    ]
    import scipy.special

    spaces = {"np": np, "scipy": scipy}
    for word in words:
        root, *path = word.split(".")
        found: Any = spaces[root]
        missing = [part for part in path if (found := getattr(found, part, None)) is None]
        assert not missing or path[-1] in _ONLY_IN_MATH, word


_ONLY_IN_MATH = {
    "comb",
    "perm",
    "factorial",
    "isqrt",
    "ulp",
    "sumprod",
    "fma",
    "remainder",
    "tau",
    "inf",
}
