"""Traced numbers and scalars against Python's: what a number has, and what NumPy makes of it, by a
grid of expressions.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from tests.oracles import attempt

X = np.array([1.5, 2.0, -3.0])

OF_PYTHON = """
k.real  k.imag  k.conjugate()  k.numerator  k.denominator  k.bit_length()  k.is_integer()  k.as_integer_ratio()  k.hex()
k.__round__()  (k+1).real  (k*2).imag  k.real*x  k.imag*x  k.real>0  k.conjugate()*x  k[0]  k[...]  k[()]  k[None]  len(k)
list(k)  k|in|x  x|in|[k]  k@x  x@k  divmod(k,2)  divmod(7,k)  divmod(x,k)  round(k)  round(k,1)  round(k,-1)  math.floor(k)
math.ceil(k)  math.trunc(k)  math.sqrt(k)  abs(k)  -k  +k  ~k  k>0  k<1.0  k>=2  k<=2  k==1  k!=1  k>x  x>k  k==x  k&1  k|1
k^3  k<<1  k>>1  1<<k  k//2  k%2  k/2  7//k  7%k  k**2  2.0**k  k**0.5  k**-1  k**x  x**k  pow(k,2)  pow(k,2,5)  k+True
True+k  k*1j  1j*k  k-0.5  copy.copy(k)  copy.deepcopy(k)  hash(k)  bool(k)  not|k  max(k,1)  min(k,2)  sum([k,k])
complex(k)  float(k)  int(k)  [1,2,3][k]  range(k)  x[k]  x*k  np.isscalar(k)
"""
OF_NUMPY = """
np.full(3,k)  np.full_like(x,k)  np.where(x>0,k,0)  np.where(k>1,x,0)  np.where(k,x,0)  np.array([k,1.0])  np.stack([k,k])
np.asarray(k)  np.float64(k)  np.sum(k)  np.sqrt(k)  np.abs(k)  np.sign(k)  np.maximum(k,1)  np.isnan(k)  np.real(k)
np.imag(k)  np.conj(k)  np.angle(k)  np.shape(k)  np.ndim(k)  np.size(k)  np.iscomplexobj(k)  np.linspace(0,k,3)  np.ones(k)
np.add(x,k)  np.power(x,k)  np.append(x,k)  np.insert(x,0,k)  np.clip(x,0,k)  np.roll(x,k)  np.dot(x,k)  np.dot(k,x)
np.outer(x,k)  np.interp(k,x,x)  np.broadcast_to(k,(2,))  np.atleast_1d(k)  np.reshape(k,(1,1))  np.round(k)  np.round(k,1)
np.copysign(k,-1)  np.isclose(k,1)  np.select([x>0],[x],k)  np.polyval([1,2],k)  np.diff([k,1,2])  np.cumsum([k,1])
np.pad(x,1,constant_values=k)  np.tile(k,2)  np.repeat(k,2)  np.max([k,1])  np.concatenate([x,[k]])  np.hstack([x,k])
np.nan_to_num(k)  np.percentile(x,k)  np.quantile(x,k)  np.zeros_like(k)  np.full(2,k,dtype=int)  np.linalg.norm([k,1])
np.take(x,k)  np.float32(2)*k  x.astype(np.float32)*k  np.array(3)*k  np.ldexp(x,k)  np.logical_not(k)  np.floor(k)
np.add(k,1,dtype=np.float32)  np.add.reduce([k,k])  np.multiply.outer(x,k)  np.sort([k,1,2])  np.einsum(",i",k,x)
np.kron(k,x)  np.vdot(k,2)  np.inner(k,x)  np.average([k,1])  np.convolve([k,1],[1,2])  np.meshgrid(k,x)  np.array_equal(k,1)
np.allclose(k,1)  np.fmod(k,2)  np.hypot(k,1)  np.float_power(k,2)  np.gcd(k,4)  np.bitwise_and(k,1)  np.divmod(k,2)
np.divmod(x.astype(np.float32),k)  np.matmul(k,x)
"""
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "x[0] = k": lambda k, x: x.__setitem__(0, k),
    "x[x > 0] = k": lambda k, x: x.__setitem__(x > 0, k),
    "x.fill(k)": lambda k, x: x.fill(k),
    "x += k": lambda k, x: x.__iadd__(k),
    "np.put": lambda k, x: np.put(x, [0], k),
    "np.copyto": lambda k, x: np.copyto(x, k),
    "np.putmask": lambda k, x: np.putmask(x, x > 0, k),
    "np.add(out=)": lambda k, x: np.add(x, k, out=x),
}


def _expressions(text: str) -> list[str]:
    return [
        expression.replace("|in|", " in ").replace("not|", "not ") for expression in text.split()
    ]


def _function(expression: str) -> Callable[[Any, Any], Any]:
    return eval(f"lambda k, x: {expression}", {"np": np, "math": math, "copy": copy})


def _problem(expected: Any, got: Any) -> str:
    """Describe a wrong result; empty if it is right, or raises as it should."""
    if isinstance(got, Exception):
        fine = isinstance(got, FunctraceError | AttributeError) or type(got) is type(expected)
        return "" if fine else f"raw {type(got).__name__}: {got}"
    if isinstance(expected, Exception):
        return f"NumPy raises {expected!r}, functrace gives {got}"
    same = len(got) == len(expected) and all(
        p.shape == q.shape and p.dtype == q.dtype and np.allclose(p, q, equal_nan=True, rtol=1e-5)
        for p, q in zip(expected, got, strict=True)
    )
    return "" if same else f"{got} instead of {expected}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("guards", [False, True], ids=["", "guards"])
@pytest.mark.parametrize("k", [3, 2.5, -0.5, True, 1 + 2j, -2], ids=repr)
def test_a_jitted_number_behaves_as_in_python_and_numpy(k: Any, guards: bool) -> None:
    problems = []
    for expression in _expressions(OF_PYTHON + OF_NUMPY):
        if (
            expression == "k**0.5" and type(k) is not complex and k < 0
        ):  # as NumPy, with its warning: nan
            continue
        if (
            expression == "np.ones(k)" and k is True
        ):  # NumPy refuses a bool as a size, but a traced one is converted by `__index__`
            continue
        f = _function(expression)
        problem = _problem(
            attempt(lambda: f(k, X.copy())), attempt(lambda: ft.jit(f, guards=guards)(k, X.copy()))
        )
        problems += [f"{expression}: {problem}"] if problem else []
    assert not problems, "\n".join(problems)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("name", WRITES)
def test_numbers_are_assigned_as_by_numpy(name: str, dtype: str) -> None:
    def written(k: Any, x: Any) -> Any:
        x = x + 0 if dtype != "bool" else x | False
        WRITES[name](k, x)
        return x

    x = np.array([1, 0, 3]).astype(dtype)
    for k in (2, 2.5, True, 1j, 300, -1, 1e30, -0.5, np.nan, -np.inf, 2**63 - 1):
        problem = _problem(attempt(lambda: written(k, x)), attempt(lambda: ft.jit(written)(k, x)))
        assert not problem, f"{k}: {problem}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "value",
    [
        np.float64(2.5),
        np.int64(3),
        np.bool_(True),
        np.complex128(1 + 2j),
        np.array(2.5),
        np.array(3),
        np.array(True),
    ],
    ids=lambda v: f"{type(v).__name__} {v.dtype}",
)
def test_traced_scalars_and_0d_arrays_are_distinguished(value: Any) -> None:
    asked = {
        "hash(k)",
        "np.isscalar(k)",
    }  # what Python and NumPy ask by type: see docs/sharp_bits.md
    problems = []
    for expression in _expressions(OF_PYTHON + OF_NUMPY):
        if expression in asked or (
            value.ndim == 0 and type(value) is np.ndarray and expression in ("math.trunc(k)",)
        ):
            continue
        f = _function(expression)
        expected = attempt(
            lambda: f(np.copy(value) if type(value) is np.ndarray else value, X.copy())
        )
        runs = {
            "vjp": lambda: ft.vjp(f, value, X.copy())[0],
            "jit": lambda: ft.jit(f)(value, X.copy()),
        }
        for transform, run in runs.items():
            if transform == "jit" and expression.startswith(
                "round(k,"
            ):  # jit cannot tell a scalar from a 0-d array
                continue
            problem = _problem(expected, attempt(run))
            problems += [f"{transform} {expression}: {problem}"] if problem else []
    assert not problems, "\n".join(problems)


UFUNCS = sorted(
    {u for u in vars(np).values() if isinstance(u, np.ufunc) and u.nin <= 2},
    key=lambda u: u.__name__,
)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_ufuncs_take_jitted_numbers_as_weak(ufunc: np.ufunc) -> None:
    """Every ufunc of an array and a number, either way: values and dtypes as NumPy has them for the
    number itself.
    """
    forms: list[Callable[[Any, Any], Any]] = [lambda x, k: ufunc(k)]
    if ufunc.nin == 2:
        forms = [lambda x, k: ufunc(x, k), lambda x, k: ufunc(k, x)]
    problems = []
    for dtype in ("float32", "float16", "int8", "uint8", "bool", "complex64", "float64", "int64"):
        x = np.array([1, 2, 3]).astype(dtype)
        for k in (2, 1.5, True, 1j, -3):
            for place, f in enumerate(forms):
                problem = _problem(attempt(lambda: f(x, k)), attempt(lambda: ft.jit(f)(x, k)))
                problems += [f"{dtype} {k} {place}: {problem}"] if problem else []
    assert not problems, "\n".join(problems)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "expression",
    [
        "k + m",
        "k - m",
        "k * m",
        "-k",
        "abs(k)",
        "k**2",
        "k**3",
        "k << m % 70",
        "m << 3",
        "k - m - m",
    ],
)
def test_integers_that_leave_64_bits_raise(expression: str) -> None:
    f = eval(f"lambda k, m: {expression}")
    values = [
        0,
        1,
        -1,
        3,
        2**31,
        2**32 + 1,
        -(2**40),
        2**62,
        2**63 - 1,
        -(2**63),
        3037000499,
        3037000500,
        2097151,
        2097152,
    ]
    for k in values:
        for m in (0, 1, -1, 2**62, -(2**63), 2**40, 3037000500):
            expected = attempt(lambda: f(k, m))
            got = attempt(lambda: ft.jit(f)(k, m))
            if isinstance(got, OverflowError | FunctraceError):
                assert isinstance(expected, Exception) or abs(f(k, m)) >= 2**63 - 4096, (k, m)
            else:
                assert not _problem(expected, got), (k, m)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "int64", "complex64"])
def test_numbers_that_bodies_return_stay_weak(dtype: str) -> None:
    x = np.array([1, 2, 3]).astype(dtype)
    bodies: dict[str, Callable[[Any, Any], Any]] = {
        "checkpoint": lambda k, x: ft.checkpoint(lambda k: k + 1)(k) * x,
        "checkpoint of two": lambda k, x: ft.checkpoint(lambda k: (k * 2, -k))(k)[0] * x,
        "closure": lambda k, x: ft.checkpoint(lambda: k + 1)() * x,
        "cond": lambda k, x: ft.cond(x[0].real > 0, lambda k: k, lambda k: k + k, k) * x,
        "cond of literals": lambda k, x: ft.cond(x[0].real > 0, lambda: 2, lambda: 3) * x,
    }
    for name, f in bodies.items():
        for k in (2, 2.0, 200):
            problem = _problem(attempt(lambda: f(k, x)), attempt(lambda: ft.jit(f)(k, x)))
            assert not problem, (name, k, problem)
            mapped = attempt(lambda: ft.vmap(lambda x: f(k, x), in_axes=0)(x[None]))
            assert (
                isinstance(mapped, FunctraceError | OverflowError)
                or mapped[0].dtype == f(k, x).dtype
            ), (name, k)


def test_comparisons_of_integers_with_floats_are_exact_or_raise() -> None:
    for n in (0, 3, 2**53 - 2, 2**53 + 1, -(2**53) - 1, 2**62):
        for x in (3.0, 2.0**53, -(2.0**53), 0.5):
            for f in (lambda n, x: n == x, lambda n, x: n > x, lambda n, x: x >= n):
                problem = _problem(attempt(lambda: f(n, x)), attempt(lambda: ft.jit(f)(n, x)))
                assert not problem or (abs(n) >= 2**53 and "OverflowError" in problem), (
                    n,
                    x,
                    problem,
                )


def test_numbers_that_bodies_return_leave_transforms_as_arrays() -> None:
    def f(x: Any) -> Any:
        chosen = ft.cond(np.sum(x) > 0, lambda: 2.0, lambda: 3.0)
        return chosen * np.sum(x), (chosen, {"again": chosen})

    x = np.array([1.0, 2.0])
    rows = np.stack([x, -x])
    np.testing.assert_array_equal(ft.vmap(lambda x: f(x)[1][0])(rows), [2.0, 3.0])
    gradient, (chosen, nest) = ft.vmap(ft.grad(f, has_aux=True))(rows)
    np.testing.assert_array_equal(gradient, [[2.0, 2.0], [3.0, 3.0]])
    np.testing.assert_array_equal(chosen, nest["again"])
    np.testing.assert_array_equal(ft.jit(lambda x: f(x)[1][0])(x), 2.0)
    np.testing.assert_array_equal(ft.vmap(lambda x: ft.vjp(f, x)[0][1][0])(rows), [2.0, 3.0])
    np.testing.assert_array_equal(
        ft.vmap(lambda x: ft.jacfwd(lambda x: f(x)[1][0] * x)(x))(rows)[1], 3.0 * np.eye(2)
    )
    np.testing.assert_array_equal(
        ft.vmap(lambda x: ft.scan(lambda c, _: (c + f(x)[1][0], None), 0.0, None, 2)[0])(rows),
        [4.0, 6.0],
    )


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64", "bool", "complex64"])
def test_numbers_among_the_choices_of_choose_are_weak(dtype: str) -> None:
    x, places = np.array([1, 0, 1]).astype(dtype), np.array([0, 1, 0])
    for k in (2, 300, -1, 2.5, True, 1j, 2**31):
        for f in (lambda k, x: np.choose(places, [k, x]), lambda k, x: np.choose(places, [x, k])):
            problem = _problem(attempt(lambda: f(k, x)), attempt(lambda: ft.jit(f)(k, x)))
            assert not problem, (k, problem)


@pytest.mark.parametrize(
    "n", [2**53, 2**53 + 1, 2**60, -(2**53) - 1, 2**62 + 1, 10**400, -(10**400), 3]
)
def test_a_float_is_compared_with_a_plain_integer_exactly_or_not_at_all(n: int) -> None:
    problems = []
    for compare in (operator.eq, operator.ne, operator.lt, operator.ge):
        for x in (2.0**53, -(2.0**53), 2.0**60, 3.0, math.inf, math.nan):
            for f in (lambda x: compare(x, n), lambda x: compare(n, x)):
                problem = _problem(attempt(lambda: f(x)), attempt(lambda: ft.jit(f)(x)))
                if problem:
                    problems.append(f"{compare.__name__}({x}, {n}): {problem}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("k", [3, 300, -1, True, 2.5])
def test_a_number_that_select_takes_as_default_is_cut_as_numpy_cuts_it(k: Any) -> None:
    x = np.array([1, 2, 3], np.uint8)
    f = _function("np.select([x > 1], [x], k)")
    assert not _problem(attempt(lambda: f(k, x)), attempt(lambda: ft.jit(f)(k, x)))
    assert len(attempt(lambda: ft.jit(f)(k, x))) == 1


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "bool"])
def test_numbers_between_which_is_clipped_are_weak(dtype: str) -> None:
    x = np.array([1, 2, 3]).astype(dtype)
    for k in (1, 2.5, True):
        for text in (
            "np.clip(x, k, 5)",
            "np.clip(x, 0, k)",
            "np.clip(x, k, None)",
            "np.clip(x, k, k)",
        ):
            f = _function(text)
            problem = _problem(attempt(lambda: f(k, x)), attempt(lambda: ft.jit(f)(k, x)))
            assert not problem, (text, k, problem)


@pytest.mark.parametrize("n", [7, -7, True, 7.5, -(2**63)])
def test_divmod_of_a_number_is_pythons(n: Any) -> None:
    by: list[Any] = [0, 2, -1, True, 2.0, 0.5]
    one = np.ones(1, np.float32)
    problems = []
    for m in by:
        for f in (
            lambda n: divmod(n, m),
            lambda n: divmod(n, m)[0] * 100 + 100,
            lambda n: divmod(n, m)[0] * one,
            lambda n: divmod(m, n)[1] + 200,
        ):
            expected = attempt(lambda: f(n))
            got = attempt(lambda: ft.jit(f)(n))
            if isinstance(expected, ZeroDivisionError) and isinstance(n, float):
                continue  # Python raises, NumPy warns
            if isinstance(expected, list) and any(leaf.dtype == object for leaf in expected):
                continue  # an integer of more than 64 bits
            if isinstance(got, OverflowError) and abs(n) > 2**60:
                continue  # near the limit of 64 bits numbers raise rather than be wrong
            problem = _problem(expected, got)
            problems += [f"{n} {m}: {problem}"] if problem else []
    assert not problems, "\n".join(problems)
