"""Duck arrays beside traced values: whose an operation is, NumPy says; what a class cannot do
raises and names it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import DtypeError, FunctraceError, LostGradientError

X = np.array([1.0, 2.0])
HELD = np.array([3.0, 0.5])


class Duck:
    """Holds an array, and says who made it."""

    def __init__(self, held: Any, by: str = "user") -> None:
        self.held, self.by = held, by

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.held, dtype, copy=copy)


def _held(x: Any) -> Any:
    return x.held if isinstance(x, Duck) else x


def _ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    kwargs.pop("out", None)
    return type(self)(
        getattr(ufunc, method)(*map(_held, inputs), **kwargs), f"ufunc {ufunc.__name__}"
    )


def _function(self: Any, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
    args = [[_held(part) for part in x] if isinstance(x, list) else _held(x) for x in args]
    return type(self)(function(*args, **kwargs), f"function {function.__name__}")


def _operators(*names: str) -> dict[str, Any]:
    def method(name: str) -> Any:
        apply = getattr(
            operator,
            name.replace("__r", "__").strip("_")
            + ("_" if name.strip("_") in ("and", "or") else ""),
        )
        if name.startswith("__r") and name != "__rshift__":
            return lambda self, other: type(self)(apply(_held(other), self.held), name)
        return lambda self, other: type(self)(apply(self.held, _held(other)), name)

    return {f"__{name}__": method(f"__{name}__") for name in names}


def _declines(*_args: object, **_kwargs: object) -> Any:
    return NotImplemented


def _wrap(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    return type(self)(array, "wrap")


_BOTH = _operators(
    "mul",
    "rmul",
    "add",
    "radd",
    "sub",
    "rsub",
    "truediv",
    "rtruediv",
    "pow",
    "rpow",
    "matmul",
    "rmatmul",
)
_RIGHT = _operators("rmul", "radd", "rsub", "rtruediv", "rpow", "rmatmul")
_ORDERS = _operators("lt", "le", "gt", "ge", "eq", "ne")
_LIMITED = dict.fromkeys((*_BOTH, *_ORDERS), _declines)

CLASSES: dict[str, dict[str, Any]] = {
    "only __array__": {},
    "operators without a priority": {**_BOTH, **_ORDERS},
    "ufuncs": {"__array_ufunc__": _ufunc},
    "ufuncs and operators": {"__array_ufunc__": _ufunc, **_BOTH, **_ORDERS},
    "ufuncs that decline": {"__array_ufunc__": _declines, **_LIMITED},
    "no ufuncs": {"__array_ufunc__": None, **_BOTH, **_ORDERS},
    "no ufuncs, on the right": {"__array_ufunc__": None, **_RIGHT},
    "no ufuncs, no operators": {"__array_ufunc__": None},
    "priority": {"__array_priority__": 10.0, **_BOTH, **_ORDERS},
    "priority, on the right": {"__array_priority__": 10.0, **_RIGHT},
    "priority, no operators": {"__array_priority__": 10.0},
    "priority that declines": {"__array_priority__": 10.0, **_LIMITED},
    "priority below arrays'": {"__array_priority__": -1.0, **_BOTH, **_ORDERS},
    "priority and wrap": {"__array_priority__": 10.0, "__array_wrap__": _wrap, **_RIGHT},
    "wrap": {"__array_wrap__": _wrap},
    "priority below arrays' and wrap": {"__array_priority__": -1.0, "__array_wrap__": _wrap},
    "functions": {"__array_function__": _function},
    "functions that decline": {"__array_function__": _declines},
    "all": {"__array_ufunc__": _ufunc, "__array_function__": _function, **_BOTH},
}

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: getattr(operator, name)
        for name in ("add", "sub", "mul", "truediv", "pow", "matmul", "lt", "ge", "eq", "ne")
    },
    **{name: getattr(operator, name) for name in ("iadd", "imul", "ipow")},
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "np.multiply": np.multiply,
    "np.arctan2": np.arctan2,
    "np.matmul": np.matmul,
    "np.less": np.less,
    "np.multiply with dtype": lambda x, q: np.multiply(x, q, dtype="f8"),
    "np.multiply.outer": np.multiply.outer,
    "np.where": lambda x, q: np.where(np.array([True, False]), x, q),
    "np.concatenate": lambda x, q: np.concatenate([x, q]),
    "np.stack": lambda x, q: np.stack([x, q]),
    "np.dot": np.dot,
    "np.interp": lambda x, q: np.interp(x, np.array([0.0, 4.0]), q),
    "np.clip": lambda x, q: np.clip(x, q, 9.0),
    "np.isclose": np.isclose,
    "np.linalg.solve": lambda x, q: np.linalg.solve(x * np.eye(2), q),
}


def _ducks() -> Iterator[tuple[str, Any]]:
    for name, members in CLASSES.items():
        yield name, type("Duck_" + "".join(filter(str.isalpha, name)), (Duck,), dict(members))


def _shown(result: Any) -> Any:
    """Describe a result: the class that made it, and its values, traced or not."""
    if isinstance(result, Duck):
        return type(result).__name__, result.by, _shown(result.held)
    plain = np.asarray(ft.value(result))
    return plain.dtype, plain.shape, plain.tolist()


def _outcome(f: Callable[[Any], Any], x: Any) -> Any:
    try:
        return _shown(f(x))
    except (TypeError, ValueError) as error:
        return error


def _traced_outcome(f: Callable[[Any], Any], x: Any) -> Any:
    found: list[Any] = []

    def recorded(x: Any) -> Any:
        found.append(_outcome(f, x))
        return np.sum(x)

    ft.grad(recorded)(x)
    return found[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [kind for _, kind in _ducks()], ids=[name for name, _ in _ducks()])
@pytest.mark.parametrize("value", [X, np.float64(2.0)], ids=["array", "scalar"])
def test_operations_are_whose_they_are_in_numpy(kind: Any, value: Any) -> None:
    problems = []
    for name, f in {**OPERATORS, **CALLS}.items():
        for side in ("right", "left"):
            if side == "left" and name in ("iadd", "imul", "ipow", "np.clip", "np.interp"):
                continue
            run = lambda x, f=f, side=side: (
                f(x, kind(HELD.copy())) if side == "right" else f(kind(HELD.copy()), x)
            )
            copied = (lambda x, run=run: run(x.copy())) if name in ("iadd", "imul", "ipow") else run
            expected, got = _outcome(copied, value), _traced_outcome(copied, value)
            if isinstance(got, FunctraceError) or (
                isinstance(expected, Exception) and isinstance(got, Exception)
            ):
                continue
            if str(got) != str(expected):
                problems.append(f"{name}, {side}: {got} instead of {expected}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "name", ["only __array__", "ufuncs", "ufuncs and operators", "no ufuncs", "priority", "all"]
)
def test_supported_operations_of_foreign_classes_keep_the_derivative(name: str) -> None:
    kind: Any = dict(_ducks())[name]
    q = kind(HELD)
    for f in (lambda x: x * q, lambda x: q * x, lambda x: x[0] * q):
        g = lambda x, f=f: np.sum(_held(f(x)) ** 2)
        step = np.array([1e-6, 0.0])
        np.testing.assert_allclose(
            ft.grad(g)(X)[0], (g(X + step) - g(X - step))[()] / 2e-6, rtol=1e-6
        )
        np.testing.assert_allclose(ft.jit(g)(X), g(X))
        np.testing.assert_allclose(ft.vmap(g)(np.stack([X, 2 * X])), [g(X), g(2 * X)])


def test_namespace_and_lift_dispatch_to_the_same_classes() -> None:
    kind: Any = dict(_ducks())["functions"]
    f = lambda x: np.concatenate([x, kind(HELD)])
    ours = lambda x: ft.numpy.concatenate([x, kind(HELD)])
    assert (
        str(_outcome(f, X))
        == str(_traced_outcome(ours, X))
        == str(_traced_outcome(ft.numpy.lift(f), X))
    )


def test_a_jitted_number_defers_to_reflected_operators_as_python_numbers_do() -> None:
    for kind in ("operators without a priority", "no ufuncs", "ufuncs and operators", "priority"):
        q: Any = dict(_ducks())[kind](HELD)
        assert ft.jit(lambda k, q=q: (k * q).held * 1.0)(2.0).tolist() == (2.0 * q).held.tolist()
        assert (2.0 * q).by == "__rmul__"
    with pytest.raises(DtypeError, match=r"no multiply|no mul"):
        ft.jit(lambda k: k * [1.0, 2.0])(2.0)
    assert ft.jit(lambda k: k * [1.0, 2.0], guards=True)(2) == [1.0, 2.0, 1.0, 2.0]


def test_a_scalar_times_a_list_repeats_it_or_raises_as_in_numpy() -> None:
    for f in (
        lambda x: np.argmax(x) * [1.0, 2.0],
        lambda x: [1.0, 2.0] * np.argmax(x),
        lambda x: np.argmin(x) * (1.0,),
    ):
        assert ft.vjp(f, X)[0] == f(X)
    for f in (
        lambda x: np.sum(x) * [1.0, 2.0],
        lambda x: (1.0, 2.0) * np.sum(x),
        lambda x: np.any(x) * [1.0],
    ):
        with pytest.raises(TypeError, match="can't multiply sequence"):
            f(X)
        with pytest.raises(
            DtypeError, match=r"can't multiply sequence(.|\n)*fix: make an array of the list"
        ):
            ft.vjp(f, X)
    array = lambda x: np.array(2.0, like=x) * [1.0, 2.0]
    assert ft.vjp(array, X)[0].tolist() == [2.0, 4.0]


def test_errors_name_the_class_and_the_way_out() -> None:
    for name in ("ufuncs that decline", "priority that declines", "priority and wrap"):
        kind: Any = dict(_ducks())[name]
        with pytest.raises(
            DtypeError,
            match=rf"{kind.__name__}(.|\n)*test_foreign_operands.py(.|\n)*np.asarray\(q\)",
        ):
            ft.grad(lambda x, kind=kind: np.sum(np.multiply(x, kind(HELD))) * kind(HELD))(X)
    q: Any = dict(_ducks())["ufuncs"](HELD)
    np.testing.assert_array_equal(
        ft.grad(lambda x: np.sum(x * np.asarray(q)))(X), HELD
    )  # the way out


def test_pandas_objects_raise_in_operators_and_are_values_to_some_functions() -> None:
    pd = pytest.importorskip("pandas")
    for q in (
        pd.Series(HELD, index=[1, 0]),
        pd.Index(HELD),
        pd.DataFrame({"a": HELD, "b": HELD}),
        pd.array(HELD),
    ):
        for f in (lambda x, q: x * q, lambda x, q: q - x, np.add, lambda x, q: np.clip(x, q, 9.0)):
            with pytest.raises(
                (DtypeError, LostGradientError),
                match=r"pandas(.|\n)*fix: pass (its|the) values alone",
            ):
                ft.vjp(lambda x, f=f, q=q: f(x, q), X)
    q = pd.Series(HELD, index=[1, 0])
    for f in (
        np.dot,
        lambda x, q: np.sum(np.where(q > 1.0, x, q)),
        lambda x, q: np.sum(np.interp(x, q, HELD)),
    ):
        assert ft.value_and_grad(lambda x, f=f: f(x, q))(X)[0] == f(X, q)


@pytest.mark.full
def test_arrays_of_other_libraries_raise_in_operators() -> None:
    for package, make in {"torch": "tensor", "jax.numpy": "asarray"}.items():
        module = pytest.importorskip(package)
        q: Any = getattr(module, make)(HELD)
        for f in (lambda x, q=q: x * q, lambda x, q=q: q * x, lambda x, q=q: x == q):
            with pytest.raises(DtypeError, match=r"(torch.Tensor|ArrayImpl)(.|\n)*np.asarray\(q\)"):
                ft.grad(lambda x, f=f: np.sum(f(x)))(X)
        assert (
            ft.grad(lambda x, q=q: np.sum(x * np.asarray(q)))(X).tolist() == np.asarray(q).tolist()
        )
