"""The shapes in signatures of `functrace.random` are checked by beartype, on arrays and on traced
values.

The import hook acts when a package is imported, so the checks run in a Python process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
from jaxtyping import TypeCheckError, install_import_hook

with install_import_hook("functrace.random", "beartype.beartype"):
    import functrace.random as rnd
import numpy as np

import functrace as ft

KEY = rnd.key(0)
HALF, MANY, ALPHA = 0.5, np.full((4, 3), 0.5), np.array([1.0, 2.0, 3.0])
PLAIN = ["cauchy", "exponential", "gumbel", "laplace", "logistic", "maxwell", "normal", "uniform"]  # of key and shape
WHOLE = ["bits", "rademacher"]
ONE = [
    "chisquare", "gamma", "generalized_normal", "geometric", "loggamma", "lognormal", "pareto", "poisson", "rayleigh", "t",
    "wald",
]
TWO = ["beta", "binomial", "double_sided_maxwell", "f", "truncated_normal", "weibull_min"]
OTHERS = [
    "ball", "bernoulli", "categorical", "choice", "dirichlet", "fold_in", "key", "multinomial", "multivariate_normal",
    "orthogonal", "permutation", "randint", "split", "triangular",
]
assert {*PLAIN, *WHOLE, *ONE, *TWO, *OTHERS} == set(rnd.__all__)

def passes(draw, shape, *parameters):
    assert draw(KEY, *parameters).shape == shape
    assert ft.jit(draw)(KEY, *parameters).shape == shape
    assert ft.vmap(draw, in_axes=(0, *[None] * len(parameters)))(rnd.split(KEY, 5), *parameters).shape == (5, *shape)

for name in [*PLAIN, *WHOLE]:
    for shape in [(), 3, (2, 3), [2], (0,)]:
        passes(lambda key: getattr(rnd, name)(key, shape), np.zeros(shape).shape)
for name in PLAIN:
    for dtype in ("float16", np.float32, np.dtype("longdouble")):
        assert getattr(rnd, name)(KEY, (2,), dtype).dtype == dtype
for dtype in ("complex64", np.clongdouble):
    assert rnd.normal(KEY, (2,), dtype).dtype == dtype
for dtype in ("uint8", np.uint16):
    assert rnd.bits(KEY, (2,), dtype).dtype == dtype
for names, parameters in [(ONE, (MANY,)), (TWO, (MANY, 2 * MANY[0]))]:
    for name in names:
        f = getattr(rnd, name)
        passes(lambda key, *p: f(key, *p, shape=(5, 4, 3)), (5, 4, 3), *parameters)
        if name == "generalized_normal":  # whose shape is () by default
            passes(f, (), HALF)
            continue
        passes(f, (4, 3), *parameters)
        passes(f, (3,), *[x.ravel()[:3].tolist() for x in parameters])
        passes(f, (), *[HALF] * len(parameters))
        if name not in ("binomial", "geometric", "poisson"):
            assert ft.grad(lambda p: np.sum(f(KEY, p, *parameters[1:])))(MANY).shape == (4, 3)
            if name in ("truncated_normal", "wald"):  # SciPy's and NumPy's are in double precision
                continue
            assert f(KEY, *parameters, shape=(4, 3), dtype=np.longdouble).dtype == np.longdouble

passes(rnd.bernoulli, (4, 3), MANY)
passes(lambda key, p: rnd.bernoulli(key, p, (2, 3)), (2, 3), ALPHA / 3)
passes(rnd.triangular, (3,), 0.0, ALPHA, [4.0, 4.0, 5])
passes(lambda key, low: rnd.uniform(key, (4, 3), None, low, 9.0), (4, 3), ALPHA)
passes(lambda key: rnd.ball(key, 3, 2.0, (2,)), (2, 3))
passes(lambda key: rnd.ball(key, np.int64(3), np.float64(2.0)), (3,))
passes(lambda key: rnd.orthogonal(key, 3, (2,)), (2, 3, 3))
passes(lambda key: rnd.orthogonal(key, 2, (), complex, 3), (2, 3))
passes(rnd.dirichlet, (3,), ALPHA)
passes(lambda key, a: rnd.dirichlet(key, a, (5, 4)), (5, 4, 3), MANY)
passes(rnd.multinomial, (3,), 10, ALPHA)
passes(rnd.multinomial, (4, 3), np.arange(4), MANY)
passes(rnd.multivariate_normal, (3,), ALPHA, np.eye(3))
passes(lambda key, m, c: rnd.multivariate_normal(key, m, c, (5, 4)), (5, 4, 3), MANY, np.eye(3))
passes(lambda key, m: rnd.multivariate_normal(key, m, [[2.0, 0.0], [0.0, 1.0]]), (2,), [0.0, 1.0])
passes(rnd.categorical, (), ALPHA)
passes(lambda key, p: rnd.categorical(key, p, 0, (6, 3)), (6, 3), MANY)
passes(lambda key, p: rnd.categorical(key, p, shape=(2, 4), replace=False), (2, 4), MANY)
passes(lambda key: rnd.permutation(key, 5), (5,))
passes(lambda key: rnd.permutation(key, np.int64(5)), (5,))
passes(rnd.permutation, (4, 3), MANY)
passes(lambda key, x: rnd.permutation(key, x, 1, True), (4, 3), MANY > 0)
passes(lambda key: rnd.choice(key, 5, (2, 3)), (2, 3))
passes(lambda key, x, p: rnd.choice(key, x, (2,), p=p), (2, 3), MANY, np.ones(4))
passes(lambda key, x: rnd.choice(key, x, (2,), False, [0.2, 0.3, 0.5], 1), (4, 2), MANY)
passes(lambda key, most: rnd.randint(key, (4, 3), 0, most), (4, 3), np.arange(1, 4))
passes(lambda key: rnd.randint(key, (), 0, 2**63, "uint64"), ())
assert rnd.randint(KEY, (2,), np.int32(0), 9, np.int8).dtype == np.int8
assert ft.vmap(rnd.key)(np.arange(3)).shape == rnd.split(KEY, 3).shape == (3, 2)
passes(lambda key: rnd.split(key), (2, 2))
passes(lambda key: rnd.split(key, (3, 4)), (3, 4, 2))
passes(rnd.fold_in, (2,), 3)
for number in (np.uint8(3), np.array(3), True, np.True_):
    passes(lambda key: rnd.fold_in(key, number), (2,))

wrong = [
    lambda: rnd.normal(0, (3,)), lambda: rnd.normal(KEY.astype(float), (3,)), lambda: rnd.normal(rnd.split(KEY), (3,)),
    lambda: rnd.normal(KEY, "three"), lambda: rnd.normal((3,), KEY), lambda: rnd.key(KEY), lambda: rnd.key(0.5),
    lambda: rnd.fold_in(KEY, np.arange(3)), lambda: rnd.fold_in(KEY, 1.5), lambda: rnd.split(KEY[:1]),
    lambda: rnd.beta(KEY, np.ones(3), np.ones(2)), lambda: rnd.gamma(KEY, np.ones(2) * 1j),
    lambda: rnd.ball(KEY, 3, ALPHA), lambda: rnd.dirichlet(KEY, np.array(1.0)),
    lambda: rnd.multinomial(KEY, 3, np.array(1.0)),
    lambda: rnd.multinomial(KEY, np.arange(5), MANY), lambda: rnd.multivariate_normal(KEY, np.zeros(2), np.eye(3)),
    lambda: rnd.multivariate_normal(KEY, np.zeros(3), np.ones(3)), lambda: rnd.randint(KEY, (), np.zeros(2), 3),
    lambda: rnd.choice(KEY, 3, (2,), p=np.ones((3, 1))),
    lambda: ft.grad(lambda a: np.sum(rnd.beta(KEY, a, np.ones(2))))(np.ones(3)),
    lambda: ft.jit(rnd.normal)(np.zeros(3, np.uint64)), lambda: ft.vmap(rnd.normal)(np.zeros((3, 2))),
]
for k, call in enumerate(wrong):
    try:
        call()
    except TypeCheckError:
        continue
    raise AssertionError(f"case {k} passes the check")
print(len(wrong))
"""


def test_signatures_have_the_shapes_of_calls() -> None:
    ignored = "ignore:random draws while"  # beartype checks a random item of a sequence
    command = [sys.executable, "-B", "-W", "error", "-W", ignored, "-c", SCRIPT]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "23\n", found.stdout + found.stderr
