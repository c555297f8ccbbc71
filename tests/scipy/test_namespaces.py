"""Every public name of every namespace that has SciPy's or NumPy's names: the same kind of thing,
and callable alike.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.stats

import functrace as ft
import functrace.scipy

X = np.array([0.3, 0.6, 0.9])
ARGUMENTS: list[tuple[Any, ...]] = [
    (),
    (X,),
    (2,),
    (X, X),
    (2, X),
    (np.eye(3) + 0.1,),
    (np.eye(3) + 0.1, X),
    (X, X, X),
    (2, 2, X),
    (X, X, X, X),
]
"""Argument lists to call functions with; those that a function accepts are compared."""

NOT_CALLED = {"test", "info", "show_config", "show_runtime", "empty", "empty_like"}
SETTERS = ("set_", "seterr", "setbuf", "save", "register_", "printoptions", "errstate", "reset_")
"""Not called: test runners, what prints pages, what returns memory as it is, and what changes
settings or files.
"""


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Namespaces of functrace, each with the module whose names it has."""
    for name in ft.scipy.__all__:
        yield (
            f"scipy.{name}",
            importlib.import_module(f"functrace.scipy.{name}"),
            importlib.import_module(f"scipy.{name}"),
        )
    yield "numpy", ft.numpy, np
    yield "numpy.linalg", ft.numpy.linalg, np.linalg
    yield "numpy.fft", ft.numpy.fft, np.fft


def public(module: Any) -> list[str]:
    return [
        name
        for name in getattr(module, "__all__", dir(module))
        if not name.startswith("_") and hasattr(module, name)
    ]


def kind(found: Any) -> str:
    if isinstance(found, types.ModuleType) or type(found).__name__ == "Namespace":
        return "module"
    return "class" if inspect.isclass(found) else "callable" if callable(found) else "value"


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return function(*copy.deepcopy(args))  # some write into what they are given
    except Exception as error:
        return type(error)


def is_same(a: Any, b: Any) -> bool:
    if inspect.isclass(a) or inspect.isclass(b):
        return inspect.isclass(a) and inspect.isclass(b)  # both raise
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(is_same, a, b))
    if not isinstance(a, np.ndarray | np.generic | int | float | complex):
        return callable(getattr(a, "rvs", None)) or type(a) is type(
            b
        )  # a frozen distribution is of a class of its own
    return np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "own", "theirs"), [pytest.param(*pair, id=pair[0]) for pair in pairs()]
)
def test_every_public_name_matches_scipys(name: str, own: Any, theirs: Any) -> None:
    wrong: list[str] = []
    called = 0
    for word in public(theirs):
        if not hasattr(own, word):
            wrong.append(f"{name}.{word} is missing")
            continue
        here, there = getattr(own, word), getattr(theirs, word)
        if kind(here) != kind(there) and kind(there) != "class":
            wrong.append(f"{name}.{word} is a {kind(here)}, not a {kind(there)}")
        elif (
            kind(there) == "callable"
            and here is not there
            and word not in NOT_CALLED
            and not word.startswith(SETTERS)
        ):
            for args in ARGUMENTS:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    expected = outcome(there, args)
                    found = outcome(here, args)
                called += 1
                if not is_same(found, expected):
                    wrong.append(f"{name}.{word} of {args} is {found!r}, not {expected!r}")
    assert not wrong, "\n".join(wrong)
    assert called or name in ("scipy.sparse",)


@pytest.mark.parametrize(
    ("distribution", "at", "parameters"),
    [
        (
            "multivariate_normal",
            np.array([0.2, 0.3]),
            (np.array([0.1, 0.4]), np.array([[1.5, 0.2], [0.2, 0.7]])),
        ),
        ("dirichlet", np.array([0.2, 0.8]), (np.array([1.3, 2.1]),)),
        ("wishart", np.array([[1.5, 0.2], [0.2, 0.7]]), (3.0, np.array([[1.0, 0.1], [0.1, 2.0]]))),
    ],
)
def test_distributions_of_vectors_freeze_traced_parameters(
    distribution: str, at: Any, parameters: tuple[Any, ...]
) -> None:
    own, scipys = getattr(ft.scipy.stats, distribution), getattr(scipy.stats, distribution)
    last = len(parameters) - 1
    for method in ("logpdf", "pdf"):

        def density(
            scale: Any,
            call: Callable[..., Any] = own,
            method: str = method,
            at: Any = at,
            parameters: Any = parameters,
        ) -> Any:
            return getattr(call(*parameters[:-1], parameters[-1] * scale), method)(at)

        expected = (density(1 + 1e-6, scipys) - density(1 - 1e-6, scipys)) / 2e-6
        np.testing.assert_allclose(ft.grad(density)(1.0), expected, rtol=1e-6)
        np.testing.assert_allclose(ft.jit(density)(1.0), density(1.0, scipys), rtol=1e-12)
    sampled = ft.jvp(
        lambda p: own(*parameters[:last], p).rvs(random_state=3),
        parameters[last:],
        parameters[last:],
    )[0]
    again = ft.jvp(
        lambda p: own.rvs(*parameters[:last], p, random_state=3),
        parameters[last:],
        parameters[last:],
    )[0]
    np.testing.assert_array_equal(sampled, again)
    seeded = ft.jvp(
        lambda p: own(*parameters[:last], p, seed=3).rvs(), parameters[last:], parameters[last:]
    )[0]
    np.testing.assert_array_equal(sampled, seeded)
