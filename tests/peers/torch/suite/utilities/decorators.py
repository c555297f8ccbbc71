"""Decorators of tests: parameters, and what does not apply to a CPU build."""

from __future__ import annotations

import functools
import itertools
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch

Test = Callable[..., Any]
Case = tuple[str, dict[str, Any], list[Callable[[Test], Test]]]
"""The end of a test's name, its arguments, and further decorators."""


def unchanged(*args: Any, **_keywords: Any) -> Any:
    """Leave a test as it is: a decorator, or a function that returns one."""
    if len(args) == 1 and callable(args[0]):
        return args[0]
    return lambda test: test


def skipped(reason: str) -> Callable[..., Any]:
    """Return a decorator, with or without arguments, that skips a test."""

    def decorate(*args: Any, **_keywords: Any) -> Any:
        if not args or not callable(args[0]):
            return decorate
        test = args[0]

        @functools.wraps(test)
        def skip(*_args: Any, **_keywords: Any) -> None:
            raise unittest.SkipTest(reason)

        return skip

    return decorate


class subtest:
    """Arguments of a case, with its name."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Sequence[Any] = ()):
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators)


class _Parametrizer:
    """A decorator that lists cases; `expanded` makes the tests."""

    test: Test
    case: type | None

    def __call__(self, test: Test) -> Test:
        test.__dict__.setdefault("parametrizers", []).append(self)
        return test

    def cases(self) -> Iterator[Case]:
        """Return the cases, as PyTorch's own subclasses list them."""
        device = SimpleNamespace(device_type="cpu")
        for _, name, arguments, decorators in self._parametrize_test(self.test, self.case, device):
            yield name, arguments, list(decorators(arguments))

    def _parametrize_test(self, test: Test, case: type | None, device: Any) -> Iterable[Any]:
        raise NotImplementedError


_TestParametrizer = _Parametrizer


class parametrize(_Parametrizer):
    """One case for each of some values."""

    def __init__(
        self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None
    ) -> None:
        self.names = [name.strip() for name in arg_str.split(",")]
        self.values, self.name_fn = arg_values, name_fn

    def cases(self) -> Iterator[Case]:
        for value in self.values:
            name, decorators = None, []
            if isinstance(value, subtest):
                name, decorators, value = value.name, value.decorators, value.arg_values
            values = tuple(value) if len(self.names) > 1 else (value,)
            if name is None and self.name_fn is not None:
                name = self.name_fn(*values)
            if name is None:
                name = "_".join(f"{n}_{shown(v)}" for n, v in zip(self.names, values))
            yield name, dict(zip(self.names, values)), decorators


def shown(value: Any) -> str:
    """Return a value as a part of a name: the same in every process."""
    if isinstance(value, functools.partial):
        return shown(value.func)
    if isinstance(value, torch.dtype | torch.memory_format):
        return str(value).rpartition(".")[2]
    if value is None or isinstance(value, int | float | str):
        return str(value)
    return getattr(value, "__name__", type(value).__name__)


def expanded(test: Test, case: type | None = None) -> Iterator[Case]:
    """Return all combinations of the cases of a test's decorators."""
    parametrizers = getattr(test, "parametrizers", [])
    for parametrizer in parametrizers:
        parametrizer.test, parametrizer.case = test, case
    for combination in itertools.product(*(list(p.cases()) for p in reversed(parametrizers))):
        arguments = {name: value for _, some, _ in combination for name, value in some.items()}
        decorators = [decorator for _, _, some in combination for decorator in some]
        names = [name for name, _, _ in combination if name]
        yield "_".join([test.__name__, *names]), arguments, decorators


def bound(test: Test, arguments: dict[str, Any], decorators: Iterable[Any], *first: Any) -> Test:
    """Return a test with its arguments, decorated."""

    @functools.wraps(test)
    def run(self: Any, *args: Any, **keywords: Any) -> Any:
        return test(self, *first, *args, **arguments, **keywords)

    for name in ("parametrizers", "dtypes"):
        run.__dict__.pop(name, None)
    del run.__wrapped__
    for decorator in decorators:
        run = decorator(run)
    return run


def instantiate_parametrized_tests(case: type) -> type:
    """Replace each test with parameters by its cases."""
    for name, test in list(vars(case).items()):
        if not name.startswith("test") or not getattr(test, "parametrizers", None):
            continue
        delattr(case, name)
        for full, arguments, decorators in expanded(test, case):
            while hasattr(case, full):
                full += "_"
            setattr(case, full, bound(test, arguments, decorators))
    return case
