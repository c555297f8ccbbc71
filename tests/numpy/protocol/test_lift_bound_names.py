"""Names that modules have bound before, `math` and Python's numbers, under `functrace.numpy.lift`."""

from __future__ import annotations

import builtins
import importlib
import math
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from math import hypot as bound_hypot
from math import sqrt as bound_sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy import array as bound_array
from numpy import sin as bound_sin
from numpy import zeros as bound_zeros
from numpy.linalg import norm as bound_norm
from scipy.linalg import solve as bound_solve

import functrace as ft
from functrace.errors import ArgumentError, ConcretizationError, FunctraceError, LostGradientError
from functrace.numpy import lift
from functrace.numpy.protocol.readers import holds_traced
from tests.oracles import differences

X = np.array([0.7, 1.3, 2.1])
BEFORE = {name: globals()[name] for name in list(globals()) if name.startswith("bound_")}
LIBRARY = """
import math
from math import sqrt
from numpy import array, full, maximum, r_, zeros
from numpy.linalg import norm
from scipy.linalg import solve
import numpy as np

TABLE = {"zeros": zeros}

class Model:
    power = staticmethod(np.square)
    def __init__(self, x):
        self.state = zeros(2)
        self.state[0] = x[0]
    def total(self, x):
        return norm(array([self.state[0], x[1], 1.0])) + maximum.reduce(x) + np.sum(r_[x, x[0]] ** 2)

def solved(x):
    return np.sum(solve(array([[x[0], 1.0], [0.5, x[1]]]), full(2, x[2])))

def numbers(x):
    scale = float(x[0]) * math.cos(x[1]) + sqrt(x[2]) + float("1.5") + complex(x[0]).real
    assert isinstance(scale, float) and isinstance(1.0, (int, float)) and not isinstance("", float)
    return scale * np.ones(2, dtype=float).astype(float)[int(x[2]) - 1] + np.dtype(float).itemsize

def kept(x):
    made = TABLE["zeros"](2)
    made[0] = x[0]
    return np.sum(made)

def decorated(function):
    def call(*args):
        return function(*args)
    return call

wrapped = decorated(array)
no_longer = decorated(zeros)

def closed_over(x):
    return np.sum(wrapped([x[0], x[1] * x[2]]) ** 2)

def plain():
    assert zeros(2).dtype == float and type(zeros(2)) is np.ndarray and float("nan") != float(0)
    return {zeros(2, int)[0]: 1}[0] + hash(array(2)[()]) + len(memoryview(zeros(2))) + array([1, 2]).view("S8").size
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package with a module in it, as an installed one."""
    place = tmp_path / "site-packages" / "a_library"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    (place / "part.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(place.parent))
    module = importlib.import_module("a_library.part")
    before = dict(vars(module))
    yield module
    assert vars(module) == before and all(
        vars(module)[name] is value for name, value in before.items()
    )
    del sys.modules["a_library.part"], sys.modules["a_library"]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    assert all(globals()[name] is own for name, own in BEFORE.items())
    assert "float" not in globals() and "memoryview" not in globals()
    assert type(math) is type(sys) and math.sqrt is bound_sqrt and builtins.float is float


def own_names(x: Any) -> Any:
    z = bound_zeros(2)
    z[0] = bound_sin(x[0])
    solved = bound_solve(bound_array([[x[0], 1.0], [0.5, x[1]]]), bound_array([x[2], 1.0]))
    return (
        bound_norm([x[0], x[1]])
        + np.sum(z)
        + np.sum(solved)
        + bound_sqrt(x[0]) * bound_hypot(x[1], x[2])
    )


def check(f: Callable[[Any], Any], lifted: Callable[[Any], Any], *, by_jit: bool = True) -> None:
    direction = np.array([0.3, -0.8, 0.5])
    (expected,) = differences(f, [X], [direction])
    np.testing.assert_allclose(ft.grad(lifted)(X) @ direction, expected, rtol=1e-6)
    np.testing.assert_allclose(ft.jvp(lifted, (X,), (direction,))[1], expected, rtol=1e-6)
    (second,) = differences(ft.grad(lifted), [X], [direction])
    np.testing.assert_allclose(ft.hessian(lifted)(X) @ direction, second, rtol=1e-5, atol=1e-7)
    if by_jit:
        np.testing.assert_allclose(ft.jit(ft.grad(lifted))(X) @ direction, expected, rtol=1e-6)
        np.testing.assert_allclose(
            ft.vmap(ft.grad(lifted))(np.stack([X, X]))[1] @ direction, expected, rtol=1e-6
        )
    assert type(lifted(X)) is type(f(X)) and lifted(X) == f(X)


def test_names_of_the_functions_own_module() -> None:
    check(own_names, lift(own_names))
    check(own_names, lambda x: lift(own_names)(x))
    with pytest.raises(LostGradientError):
        ft.grad(own_names)(X)


_MADE = {
    "nothing imported": "def f(x): return (x * x).sum()",
    "names of numpy and float": "from numpy import array, sin\ndef f(x): return array([sin(float(x[0])), x[1]]).sum()",
    "a helper": "from numpy import array\nfrom math import cos\ndef g(a): return float(a) * cos(a)\n"
    "def f(x): return array([g(x[0]), x[1]]).sum()",
    "names of scipy": "from scipy.special import gammaln\ndef f(x): return gammaln(x).sum()",
    "a class": "import numpy\nclass K:\n    def of(self, x): return numpy.array([float(x[0]), 2.0]).sum()\n"
    "def f(x): return K().of(x)",
}


@pytest.mark.parametrize(
    "given",
    [{}, {"__name__": None}, {"__name__": "lambdifygenerated-1"}, {"__name__": "numpy"}],
    ids=str,
)
@pytest.mark.parametrize("source", _MADE)
def test_functions_that_were_made_by_exec(source: str, given: dict[str, Any]) -> None:
    namespace = dict(given)
    exec(_MADE[source], namespace)
    f, x = namespace["f"], np.array([1.2, 0.7])
    before, expected = dict(namespace), ft.grad(f)(x) if source == "nothing imported" else None
    for _ in range(2):  # the first call looks the names up, the second knows them
        for direction in np.eye(2):
            (difference,) = differences(f, [x], [direction])
            np.testing.assert_allclose(
                ft.grad(lift(f))(x) @ direction, difference, rtol=1e-6, atol=1e-9
            )
        assert expected is None or (ft.grad(lift(f))(x) == expected).all()
        assert namespace == before and all(namespace[key] is before[key] for key in before)


def test_a_lift_that_cannot_be_opened_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object, **_kwargs: object) -> Any:
        raise ZeroDivisionError

    own, kind = np.zeros, type(np)
    namespace: dict[str, Any] = {"__name__": "nowhere"}
    exec("from numpy import zeros\ndef f(x): return zeros(2).sum() + x", namespace)
    with monkeypatch.context() as patch:
        patch.setattr("functrace.numpy.protocol.bound_names._called_kinds", fails)
        with pytest.raises(ZeroDivisionError):
            lift(namespace["f"])(1.0)
    assert np.zeros is own and type(np) is kind and namespace["zeros"] is own
    assert ft.grad(lift(namespace["f"]))(1.0) == 1.0
    assert np.zeros is own and type(np) is kind and namespace["zeros"] is own


@pytest.mark.parametrize("name", ["solved", "numbers", "Model", "closed_over"])
def test_names_of_a_package(library: Any, name: str) -> None:
    f = {"Model": lambda x: library.Model(x).total(x)}.get(name) or getattr(library, name)
    check(f, lift(f, modules=["a_library"]), by_jit=name != "numbers")
    check(f, lift(f, modules="a_library.part"), by_jit=name != "numbers")
    with lift(modules=["a_library"]):
        ft.grad(f)(X)
    with pytest.raises(LostGradientError):
        ft.grad(lift(lambda x: f(x)))(X)


def test_names_out_of_reach_of_lift_raise(library: Any) -> None:
    with pytest.raises(LostGradientError, match=r"part\.py"):
        ft.grad(lift(library.kept, modules=["a_library"]))(X)


def test_a_package_without_tracers_behaves_as_outside_lift(library: Any) -> None:
    f = lift(lambda x: np.sum(x) * library.plain(), modules=["a_library"])
    np.testing.assert_array_equal(ft.grad(f)(X), np.full(3, float(library.plain())))


def test_names_are_put_back(library: Any) -> None:
    own = library.zeros
    cell = library.wrapped.__closure__[0]

    def fails(x: Any) -> Any:
        assert library.zeros is not own and library.zeros == own
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ft.grad(lift(fails, modules=["a_library"]))(X)
    assert library.zeros is own and cell.cell_contents is BEFORE["bound_array"]
    with lift(modules=["a_library"]):
        with lift(modules=["a_library"]):
            assert pickle.loads(pickle.dumps(library.zeros)) is own
        assert library.zeros is not own and cell.cell_contents is not BEFORE["bound_array"]
        library.norm = own  # somebody else's
    assert library.zeros is own and library.norm is own
    library.norm = np.linalg.norm
    running = (lambda: (yield library.zeros))()

    @lift
    def generate() -> Iterator[Any]:
        yield bound_zeros

    running = generate()
    assert next(running) is not BEFORE["bound_zeros"]
    running.close()
    assert bound_zeros is BEFORE["bound_zeros"]


def test_other_threads_get_the_own_functions(library: Any) -> None:
    seen: list[Any] = []

    def look() -> None:
        seen.append(
            (
                type(library.zeros(2)),
                library.sqrt(4.0),
                library.numbers(X) == expected,
                library.array([1.0]).dtype,
            )
        )

    expected = library.numbers(X)
    with lift(modules=["a_library"]):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(np.ndarray, 2.0, True, np.dtype(float))]


@pytest.mark.parametrize("name", ["numpy", "scipy.linalg", "functrace", "no_such_module", 3])
def test_other_modules_are_refused(name: Any) -> None:
    with pytest.raises(ArgumentError), lift(modules=[name]):
        pass


# -- math and Python's numbers ---------------------------------------------------------------------

ONE: dict[str, Callable[[Any], Any]] = {
    **{
        name: eval(f"lambda x: math.{name}(0.3 * x)")
        for name in [
            "sqrt",
            "exp",
            "log",
            "log2",
            "log10",
            "log1p",
            "expm1",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "atanh",
            "fabs",
            "degrees",
            "radians",
            "erf",
            "erfc",
            "gamma",
            "lgamma",
            "cbrt",
        ]
        if hasattr(math, name)
    },
    "acosh": lambda x: math.acosh(1.5 + x),
    "log to a base": lambda x: math.log(x, 3) + math.log(8, x + 2),
    "atan2": lambda x: math.atan2(x, 0.3) + math.atan2(2, x),
    "pow": lambda x: math.pow(x, 1.5) + math.pow(2, x),
    "hypot": lambda x: math.hypot(x, 2.0, x**2) + math.hypot(x),
    "fmod": lambda x: math.fmod(x, 0.4) + math.remainder(x, 0.4) + math.copysign(x, -1.0),
    "sums": lambda x: (
        math.fsum([x, x**2, 1.0]) + math.prod([x, 3, x]) + math.dist([x, 1.0], [0.0, x])
    ),
    "rounded": lambda x: (
        x * (math.floor(x) + math.ceil(x) + math.trunc(x)) + math.modf(x)[0] + math.ldexp(x, 3)
    ),
    "float": lambda x: float(x) ** 2 * float(3) + complex(x).real + int(x) * x,
    "choice": lambda x: (
        x
        if math.isclose(x, 2.0)
        else float(x) ** 2
        if math.isfinite(x) and not math.isnan(x)
        else 0.0
    ),
    "conditions": lambda x: (
        math.sqrt(x) * x if float(x) > 0.5 and math.sqrt(x) < 10 and float(x) else x
    ),
}


def slope(f: Callable[[Any], Any], at: Any) -> Any:
    return (f(at - 2e-3) - 8 * f(at - 1e-3) + 8 * f(at + 1e-3) - f(at + 2e-3)) / 12e-3


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_math(name: str) -> None:
    f = ONE[name]
    for at in (np.float64(0.7), np.float64(2.3)):
        expected = slope(f, at)
        lifted = lift(f)
        np.testing.assert_allclose(ft.grad(lifted)(at), expected, rtol=1e-6)
        np.testing.assert_allclose(
            ft.grad(lambda x: lifted(x[0]))(np.array([at]))[0], expected, rtol=1e-6
        )
        np.testing.assert_allclose(
            ft.jvp(lifted, (at,), (np.float64(1.0),)), (f(at), expected), rtol=1e-6
        )
        second = slope(ft.grad(lifted), at)
        np.testing.assert_allclose(ft.grad(ft.grad(lifted))(at), second, rtol=1e-5, atol=1e-7)
        assert lifted(at) == f(at)
        if name not in ("choice", "conditions"):
            np.testing.assert_allclose(ft.jit(ft.grad(lifted))(at), expected, rtol=1e-6)
            np.testing.assert_allclose(ft.vmap(lifted)(np.array([at, at]))[1], f(at), rtol=1e-14)


def test_numbers_are_weak_and_floats() -> None:
    @lift
    def f(x: Any) -> Any:
        half = np.ones(2, np.float32)
        assert (half * math.sqrt(x[0])).dtype == (half * float(x[0])).dtype == np.float32
        assert (half * math.floor(x[0])).dtype == (half * int(x[0])).dtype == np.float32
        assert isinstance(math.sqrt(x[0]), float) and isinstance(float(x[0]), float)
        assert [1, 2, 3][int(x[2])] == 3
        return np.sum(half * math.sqrt(x[0]) * float(x[1]))

    np.testing.assert_allclose(
        ft.grad(f)(X.astype(np.float32)), [X[1] / np.sqrt(X[0]), 2 * np.sqrt(X[0]), 0], rtol=1e-6
    )


def test_errors_of_math_on_concrete_values() -> None:
    cases: list[tuple[Callable[[Any], Any], type[Exception]]] = [
        (lambda x: math.sqrt(-x), ValueError),
        (lambda x: math.log(x - x), ValueError),
        (lambda x: math.exp(x * 1e4), OverflowError),
        (lambda x: math.pow(-x, 0.5), ValueError),
        (lambda x: math.acos(x + 1), ValueError),
        (lambda x: math.sin(np.stack([x, x])), TypeError),
        (lambda x: float(np.stack([x, x])), TypeError),
        (lambda x: math.sin(x, x), TypeError),
    ]
    for f, error in cases:
        with pytest.raises(error):
            f(X[0])
        with pytest.raises(error):
            ft.grad(lift(f))(X[0])
    with np.errstate(invalid="ignore"):
        assert np.isnan(ft.jit(lift(cases[0][0]))(X[0]))


def test_outside_of_a_lift_numbers_raise() -> None:
    kept: list[Any] = []
    with lift():
        kept.append(math.sqrt)
    assert (
        kept[0](4.0) == 2.0
        and kept[0] == math.sqrt
        and pickle.loads(pickle.dumps(kept[0])) is math.sqrt
    )
    for f in (lambda x: float(x), lambda x: math.sqrt(x), lambda x: kept[0](x), lambda x: int(x)):
        with pytest.raises(LostGradientError):
            ft.grad(f)(X[0])


def test_no_derivative_is_lost_in_a_number() -> None:
    @lift
    def f(x: Any) -> Any:
        number = float(x)
        for lose in (np.float64, hash, np.random.seed, np.random.default_rng(0).normal):
            with pytest.raises((FunctraceError, TypeError)):
                lose(number)
        return number

    ft.grad(f)(X[0])
    with pytest.raises(ConcretizationError):
        ft.jit(lift(lambda x: x if float(x) > 0 else -x))(X[0])


def test_scipys_own_are_back() -> None:
    assert scipy.linalg.solve is bound_solve


def by_cond(x: Any) -> Any:
    return ft.cond(x[0] > 0, lambda v: math.sqrt(v[0]) * v[1], lambda v: v[2] * float(v[0]), x)


def by_scan(x: Any) -> Any:
    last, parts = ft.scan(lambda c, v: (c * math.cos(float(v)) + v, math.exp(v) * c), x[0], x)
    return last + np.sum(parts)


def by_loop(x: Any) -> Any:
    return ft.fori_loop(0, 3, lambda k, c: c * math.sin(c) + float(x[1]), x[0])


def by_checkpoint(x: Any) -> Any:
    return ft.checkpoint(lambda v: math.exp(float(v[0])) * np.sum(v))(x)


def written(x: Any) -> Any:
    z = np.zeros(4)
    z[0] = float(x[0])
    z[1:3] = [math.sqrt(x[1]), float(x[2])]
    z[3] += math.hypot(*x)
    return np.sum(z**2) + sum([float(v) for v in x])


def compared(x: Any) -> Any:
    return (
        x[0] * float(x[1])
        if math.sqrt(x[0]) < math.sqrt(x[1]) <= float(x[2])
        else max(x[1], math.sin(x[0]))
    )


def looked_up(x: Any) -> Any:
    table = np.linspace(0, 1, 5)
    return table[int(x[2])] * x[0] + float(table[2]) * x[1]


def python_operators(x: Any) -> Any:
    a, b, c = float(x[0]), float(x[1]), float(x[2])
    return (
        -a // 0.3 * x[1]
        + a % 0.3
        + b**c
        + 2**a
        + divmod(c, 0.5)[1]
        + abs(complex(a) + 1j)
        + math.fsum(v * v for v in x)
    )


def rotated(x: Any) -> Any:
    c, s = math.cos(x[0]), math.sin(x[0])
    return np.array([[c, -s], [s, c]])[0] @ x[1:] + np.array([c, 1, s]) @ x


@pytest.mark.parametrize(
    "f",
    [
        by_cond,
        by_scan,
        by_loop,
        by_checkpoint,
        written,
        compared,
        looked_up,
        python_operators,
        rotated,
    ],
)
def test_numbers_work_under_all_transforms(f: Callable[[Any], Any]) -> None:
    lifted, e, h = lift(f), np.eye(3), 1e-6
    expected = np.array([(lifted(X + h * d) - lifted(X - h * d)) / (2 * h) for d in e])
    gradient = ft.grad(lifted)
    second = np.array([(gradient(X + h * d) - gradient(X - h * d)) / (2 * h) for d in e])
    np.testing.assert_allclose(gradient(X), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        [ft.jvp(lifted, (X,), (d,))[1] for d in e], expected, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        ft.vmap(gradient)(np.stack([X, X]))[1], expected, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(ft.hessian(lifted)(X), second, rtol=1e-5, atol=1e-6)
    if f is compared:
        with pytest.raises(ConcretizationError):
            ft.jit(gradient)(X)
    else:
        np.testing.assert_allclose(ft.jit(gradient)(X), expected, rtol=1e-6, atol=1e-8)


def test_c_takes_no_number_without_its_derivative_under_vmap() -> None:
    f = lift(lambda x: x[0] * np.random.default_rng(0).normal(float(x[1])))
    for run in (ft.grad(f), lambda x: ft.vmap(ft.grad(f))(np.stack([x, x]))):
        with pytest.raises(LostGradientError):
            run(X)


def test_numba_functions_are_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    (tmp_path / "with_numba.py").write_text(
        "import math\nfrom math import sqrt\nfrom numpy import array, zeros\nimport numba\n"
        "@numba.njit\ndef fast(x):\n    return sqrt(x) + len(zeros(2))\n"
        "def f(x):\n    return float(x[0]) * fast(4.0) + array([x[1], 1.0]).sum()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("with_numba")
    try:
        np.testing.assert_allclose(
            ft.grad(lift(module.f, modules=["with_numba"]))(X), [4.0, 1.0, 0.0]
        )
    finally:
        del sys.modules["with_numba"]


def test_lazy_values_of_a_module_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_lazy.py").write_text(
        "from numpy import array\n"
        "class Lazy:\n"
        "    def __getattribute__(self, name):\n"
        "        if name == '__class__':\n            return Lazy\n"
        "        raise ImportError(name)\n"
        "class Slotted:\n"
        "    __slots__ = ('__x',)\n"
        "    def __init__(self, x): self.__x = x\n"
        "    def total(self): return array([self.__x[0], 1.0]).sum()\n"
        "missing = Lazy()\n"
        "def f(x, lazy=missing):\n    return Slotted(x).total() * array([x[1], 1.0])[0]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("with_lazy")
    try:
        np.testing.assert_allclose(
            ft.grad(lift(module.f, modules=["with_lazy"]))(X), [X[1], X[0] + 1.0, 0.0]
        )
    finally:
        del sys.modules["with_lazy"]


def test_arguments_of_libraries_are_searched_without_running_their_code() -> None:
    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            if name == "__class__":
                return Proxy
            raise ImportError(name)

    class Private:
        __slots__ = ("__x",)

        def __init__(self, x: Any) -> None:
            self.__x = x

    found = []

    def f(x: Any) -> Any:
        found.append((holds_traced([Private(x)]), holds_traced([object.__new__(Proxy)])))
        return x[0]

    ft.grad(lift(f))(X)
    assert found == [(True, False)]
