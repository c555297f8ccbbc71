"""At kinks and ties, at 0, infinity and nan, functions have the values and derivatives that
PyTorch's have.

Each expression is evaluated on all pairs (or triples) of such numbers, with gradients and with
gradients of those; signs of zero count in values. What its derivative reads of the result is
compared too: derivatives of gradients by the result.
"""

from __future__ import annotations

import importlib
import itertools
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
_POINTS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -1.5, math.inf, -math.inf, math.nan]
_ROWS = [
    [1.0, 2.0, 2.0], [math.nan, 1.0, math.nan], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 3.0, 2.0],
    [math.inf, math.inf, 1.0],
    [-math.inf, -math.inf, -math.inf], [math.inf, -math.inf, 0.0], [-1.0, 1.0, -1.0], [math.nan,
    math.inf, 0.0],
    [-0.0, 0.0, 1.0], [5.0, 5.0, 5.0],
]  # fmt: skip

_NUMBERS = "0. -0. 1. -1. 2. -2.5 math.inf -math.inf math.nan 3 -3"
_OPERATORS = "% // + - * /"
_NAMES = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 neg reciprocal relu "
    "round rsqrt sgn sigmoid sign sin sinh sqrt square tan tanh trunc angle"
)
_PAIRS = "add sub mul div pow maximum minimum fmax fmin remainder fmod atan2 hypot logaddexp floor_divide"
OF_ONE = [
    *(f"torch.{name}(x)" for name in _NAMES.split()),
    *(f"x ** {p}" for p in (0, 1, 2, 3, -1, -2, 0.5, 1.5, 2.5, -0.5, -1.5, 0.0, 1.0)),
    *(f"({p}) ** x" for p in (0, 1, 2, 3, -1, -2, 0.5, 1.5, 2.5, -0.5, -1.5, 0.0, 1.0)),
    *(f"x {o} ({p})" for o in _OPERATORS.split() for p in _NUMBERS.split()),
    *(f"({p}) {o} x" for o in _OPERATORS.split() for p in _NUMBERS.split()),
    *(f.replace("?", p) for f in ("x.fmod(?)", "x.clamp(?)", "x.clamp(max=?)", "x.clamp(?, 1.)",
    "x.lerp(x * 2, ?)")
      for p in _NUMBERS.split()),
]  # fmt: skip
OF_TWO = [
    *(f"torch.{name}(x, y)" for name in _PAIRS.split()),
    "x.clamp(min=y)", "x.clamp(max=y)", "torch.where(x > y, x, y)", "x.max(y)", "x % y",
]  # fmt: skip
OF_THREE = ["x.clamp(y, z)", "torch.lerp(x, y, z)", "torch.addcmul(x, y, z)"]
REDUCTIONS = (
    "x.amax(0) x.amin(0) x.max(0)[0] x.min(0)[0] x.median(0)[0] x.nanmedian(0)[0] x.sort(0)[0] x.topk(2,0)[0] x.cumsum(0) "
    "x.logsumexp(0) x.softmax(0) x.log_softmax(0) x.var(0) x.std(0) x.std(0,unbiased=False) x.var(0,unbiased=False) "
    "x.norm(2,0) x.norm(1,0) x.norm(math.inf,0) x.norm(3,0) x.norm(-math.inf,0) x.norm(0.5,0) x.norm(1.5,0) x.norm(-1,0) "
    "x.nansum(0) x.mean(0) x.sum(0) x.var(0,correction=3) x.var(0,correction=2.5) x.var(0,correction=5) "
    "x.std(0,correction=3) x.std(0,correction=5) torch.var_mean(x,0)[0] torch.std_mean(x,dim=0)[0] x.max() x.min() x.amax() "
    "x.amin() x.median() x.nanmedian() x.norm() x.norm(1) x.norm(math.inf) x.norm(3) x.std() x.var() x.var(correction=3) "
    "x.std(correction=4) x.var(correction=5) x.nansum() x.var(unbiased=False) torch.dist(x,x) torch.dist(x,x,1) "
    "torch.var_mean(x,correction=4)[0]"
)

SIGN_OF_ZERO = "clamp relu lerp torch.fm amin cumsum"
"""Parts of expressions whose zeros have the sign that the instructions of the CPU give them."""
SQUARE_ROOTS = ("x ** 0.5", "x ** -0.5", "x ** 1.5")
"""PyTorch takes square roots there, which differ at -0. and -inf."""


def facts(
    library: ModuleType, expression: str, arrays: dict[str, np.ndarray[Any, Any]]
) -> dict[str, Any]:
    """Return the value, the gradients, and the gradients of those, as lists."""
    given = {
        name: library.from_numpy(array.copy()).requires_grad_() for name, array in arrays.items()
    }
    value = eval(expression, {"torch": library, "math": math, **given})
    found: dict[str, Any] = {"value": value.detach().tolist()}
    if not value.requires_grad:
        return found
    tensors = list(given.values())
    try:
        first = library.autograd.grad(value.sum(), tensors, create_graph=True, allow_unused=True)
    except RuntimeError as error:
        return found | {"refused": str(error)}
    for k, gradient in enumerate(first):
        found[f"gradient {k}"] = None if gradient is None else gradient.detach().clone().tolist()
        if gradient is None or not gradient.requires_grad:
            continue
        second = library.autograd.grad(
            gradient.sum(), tensors, allow_unused=True, retain_graph=True
        )
        for j, again in enumerate(second):
            found[f"second {k} {j}"] = (
                np.zeros(0).tolist() if again is None else again.detach().clone().tolist()
            )
    return found


def same(a: Any, b: Any, *, signs: bool = False) -> bool:
    """Return whether two lists of numbers are the same up to rounding; an empty one stands for
    zeros.
    """
    if a is None or b is None or isinstance(a, str) or isinstance(b, str):
        return a == b
    x, y = np.asarray(a, float), np.asarray(b, float)
    if 0 in (x.size, y.size):
        return not x.any() and not y.any()
    equal = np.isclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True)
    return bool(np.all(equal & ((np.signbit(x) == np.signbit(y)) | np.isnan(x) | (not signs))))


def check(expression: str, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Compare both libraries."""
    expected, found = facts(torch, expression, arrays), facts(SHIM, expression, arrays)
    for name in {*expected, *found}:
        if name.startswith("second") and not (name in expected and name in found):
            assert same(expected.get(name, []), found.get(name, [])), name
            continue
        if (
            name.startswith("second") and "atan2" in expression
        ):  # at the origin 0, as the first ones are: there nan
            away = (arrays["x"] != 0) | (arrays["y"] != 0)
            expected[name], found[name] = (
                np.asarray(given)[away].tolist() for given in (expected[name], found[name])
            )
        signs = name == "value" and not any(part in expression for part in SIGN_OF_ZERO.split())
        assert same(expected[name], found[name], signs=signs), (
            expression,
            name,
            arrays,
            expected[name],
            found[name],
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [e for e in OF_ONE if e not in SQUARE_ROOTS])
def test_functions_of_one(expression: str) -> None:
    check(expression, {"x": np.array([*_POINTS, 0.25, 3.0, 700.0, -700.0])})


@pytest.mark.parametrize("expression", OF_TWO)
def test_functions_of_two(expression: str) -> None:
    check(
        expression, dict(zip("xy", (a.ravel() for a in np.meshgrid(_POINTS, _POINTS)), strict=True))
    )


@pytest.mark.parametrize("expression", OF_THREE)
def test_functions_of_three(expression: str) -> None:
    check(
        expression,
        dict(zip("xyz", (a.ravel() for a in np.meshgrid(_POINTS, _POINTS, _POINTS)), strict=True)),
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", REDUCTIONS.split())
def test_reductions(expression: str) -> None:
    for row in _ROWS:
        check(expression, {"x": np.array(row)})


_SEEDS = [1.0, math.nan, math.inf, 0.0, -math.inf, 2.0]
SEEDED = """
x.sin() x.exp() x.log() x.sqrt() x.rsqrt() x.abs() x.relu() x.sigmoid() x.tanh() x.square() x.sign() x.floor() x.round()
x.reciprocal() x.clamp(0,1) x.clamp(min=0) x.clamp(max=1) x**0 x**1 x**2 x**3 x**0.5 x*0 2/x x.fmod(1) x%1 x.expm1() x.atan()
x.tan() x.cumsum(0) x.softmax(0) x.log_softmax(0) x.flip(0) x.roll(1,0) x.tril() x.repeat(2,1) x.expand(2,3,3) x[0] x[:,1]
x[[0,0]] x[x>0] x.masked_fill(x>0,0.) x.index_select(0,i) x.gather(0,j) x.scatter(0,j,1.) x.index_add(0,i,x[:2])
x.index_copy(0,i,x[:2]) x.index_fill(0,i,0.) x.sum(0) x.mean() x.max() x.min() x.amax() x.amin(0) x.max(0)[0] x.min(1)[0]
x.median() x.nanmedian() x.median(0)[0] x.sort(0)[0] x.topk(2)[0] x.var() x.var(0) x.std() x.std(0) x.norm() x.norm(1)
x.norm(2,0) x.norm(math.inf) x.norm(3) x.logsumexp(0) x@y x+y x*y x/y x**y torch.maximum(x,y) torch.fmin(x,y)
torch.where(x>0,x,y) torch.atan2(x,y) torch.hypot(x,y) torch.logaddexp(x,y) x.lerp(y,0.3) torch.addcmul(x,y,y)
torch.addcdiv(x,y,y) torch.cat([x,y]) torch.stack([x,y]) x.diagonal() torch.trace(x) x.remainder(y) x.clamp(y,y+1)
torch.nn.functional.mse_loss(x,y) torch.outer(x[0],y[0]) torch.dist(x,y) x.masked_select(x>0) x.take(i)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", SEEDED.split())
def test_infinite_and_nan_cotangents(expression: str) -> None:
    plain = np.array([[0.5, -1.0, 2.0], [2.0, 0.0, -0.5], [1.5, 2.0, -1.0]])
    odd = plain.copy()
    odd[0, 0], odd[1, 1] = math.nan, math.inf
    for array, turn in itertools.product((plain, odd), range(3)):
        found = []
        for library in (torch, SHIM):
            x = library.tensor(array, requires_grad=True)
            y = library.tensor(
                [[1.0, 2.0, -1.0], [2.0, 0.5, 0.0], [-2.0, 1.0, 3.0]],
                dtype=x.dtype,
                requires_grad=True,
            )
            names = {"i": library.tensor([2, 0]), "j": library.tensor([[0, 1, 1], [2, 0, 0]])}
            result = eval(expression, {"torch": library, "math": math, "x": x, "y": y, **names})
            seed = library.tensor(np.resize(np.roll(_SEEDS, -turn), tuple(result.shape)))
            grads = library.autograd.grad(result, [x, y], seed, allow_unused=True)
            found.append([None if g is None else g.tolist() for g in grads])
        for a, b in zip(*found, strict=True):
            assert same(a, b), (array, turn, a, b)


_COMPLEX_POINTS = [
    0j,
    complex(-0.0, 0.0),
    complex(0.0, -0.0),
    1 + 0j,
    -1 + 0j,
    1j,
    -0.5 - 2j,
    3 + 0.1j,
]
_COMPLEX_POWERS = "0 1 2 3 4 -1 -2 -3 .5 -.5 1.5 0j (1+0j) 2j (1+1j) (-1+0j)"
_COMPLEX_NAMES = "exp log sqrt rsqrt reciprocal sgn square angle abs sin tanh"
_COMPLEX_FORMS = "x ** {}", "({}) ** x", "torch.pow(x, torch.tensor({}))", "(x + 0).pow_({})"
OF_COMPLEX = [
    *(f"torch.{name}(x)" for name in _COMPLEX_NAMES.split()),
    *(form.format(p) for p in _COMPLEX_POWERS.split() for form in _COMPLEX_FORMS),
    "x ** True", "x.detach() ** False", "x ** y", "torch.pow(x, y)", "x / y", "x ** torch.real(y)",
    "torch.real(x) ** y",
    "(x + 0).pow_(y)",
]  # fmt: skip
POLES = "log sqrt rsqrt reciprocal ** pow /"
"""Parts of expressions whose derivatives have poles: neither library has a number there."""


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("expression", OF_COMPLEX)
def test_complex_functions(expression: str, kind: type[Any]) -> None:
    points = np.array(np.meshgrid(_COMPLEX_POINTS, _COMPLEX_POINTS)).reshape(2, -1).astype(kind)
    found: list[list[np.ndarray[Any, Any]]] = []
    for library in (torch, SHIM):
        x, y = (library.from_numpy(array.copy()).requires_grad_() for array in points)
        value = eval(expression, {"torch": library, "x": x, "y": y})
        first = [None, None]
        if value.requires_grad:
            first = library.autograd.grad(
                value, [x, y], library.ones_like(value), allow_unused=True
            )
        found.append(
            [
                np.zeros(0) if a is None else a.detach().resolve_conj().numpy()
                for a in (value, *first)
            ]
        )
    close = 1e-9 if kind is np.complex128 else 1e-4
    for k, (a, b) in enumerate(zip(*found, strict=True)):
        if k and any(part in expression for part in POLES.split()):
            assert np.array_equal(np.isfinite(a), np.isfinite(b))
            a, b = a[np.isfinite(a)], b[np.isfinite(a)]
        assert a.dtype == b.dtype
        for part in (np.real, np.imag):
            np.testing.assert_allclose(part(b), part(a), rtol=close, atol=close)


READING_RESULTS = """
x.exp() x.exp2() x.expm1() x.tanh() x.sigmoid() x.sqrt() x.rsqrt() x.reciprocal() x.tan() x.relu() x.abs() x.log() x.sin()
x.square() x.softmax(1) x.log_softmax(1) x.logsumexp(1) x.logsumexp((0,1)) x.logsumexp(0,True) x.cumsum(1) x.norm() x.norm(1)
x.norm(3) x.norm(2,1) x.norm(math.inf) x.norm(1.5,0) x.norm(1.5,1,True) x.norm(0.5) x.norm(-1) x.norm(3,1) x.std() x.std(1)
x.std(1,keepdim=True) x.std(1,correction=0) x.var() torch.std_mean(x,1)[0] torch.std_mean(x)[0] x.amax() x.amax(1) x.amin(1)
x.max() x.min() x.median() x.nanmedian() x.max(1)[0] x.sort(1)[0] torch.hypot(x,y) torch.pow(x,y) x**2 x**2.5 x**-1 2**x
torch.atan2(x,y) torch.logaddexp(x,y) x/y x*y x%y torch.fmod(x,y) torch.maximum(x,y) torch.fmax(x,y) x.clamp(0.5,1) x.sgn()
torch.lerp(x,y,0.3) torch.addcdiv(x,x,y) x.scatter_reduce(1,i,y,'amax') x.scatter_reduce(1,i,y,'mean') x.asinh() x.atanh()
torch.dist(x,y) x.mean() x.sum() torch.nn.functional.mse_loss(x,y) x.norm(3,(0,1),True)
"""
"""Expressions whose derivatives PyTorch writes with the result, and others."""


@pytest.mark.parametrize("expression", READING_RESULTS.split())
def test_derivatives_read_the_results_that_pytorchs_read(expression: str) -> None:
    results = []
    for library in (torch, SHIM):
        x = library.tensor(
            [[0.5, 0.8, 0.3], [0.7, 0.2, 0.9]], dtype=library.float64, requires_grad=True
        )
        y = library.tensor(
            [[0.6, 0.4, 0.35], [0.75, 0.25, 0.1]], dtype=library.float64, requires_grad=True
        )
        i = library.tensor([[0, 0, 2], [1, 1, 2]])
        result = eval(expression, {"torch": library, "math": math, "x": x, "y": y, "i": i})
        weights = library.arange(1.0, result.numel() + 1, dtype=library.float64).reshape(
            result.shape
        )
        first = library.autograd.grad(result, [x, y], weights, create_graph=True, allow_unused=True)
        facts = []
        for gradient in first:
            if gradient is None or not gradient.requires_grad:
                facts.append(None)
                continue
            ones = library.ones_like(gradient)
            (by,) = library.autograd.grad(
                gradient, result, ones, allow_unused=True, retain_graph=True
            )
            facts.append(None if by is None else by.detach().clone().tolist())
        results.append(facts)
    for expected, found in zip(*results, strict=True):
        assert same(expected, found), (expected, found)
