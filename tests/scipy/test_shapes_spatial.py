"""The shapes in signatures of `functrace.scipy.spatial` are checked by beartype on traced values.

Plain values are SciPy's to check. The import hook acts when a package is imported, so the checks
run in a Python process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
from jaxtyping import TypeCheckError, install_import_hook

with install_import_hook("functrace.scipy.spatial", "beartype.beartype"):
    from functrace.scipy.spatial import distance
import numpy as np
import scipy.spatial.distance

import functrace as ft

rng = np.random.default_rng(0)
X, Y, ONE = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), np.ones((1, 3))
PAIRS = distance.pdist(X)
METRICS = [
    "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "mahalanobis", "minkowski",
    "seuclidean", "sqeuclidean", scipy.spatial.distance.cityblock, lambda u, v: np.sum(np.abs(u - v)),
]

def nested(x):
    return [nested(part) for part in x] if np.ndim(x) else x

def passes(f, shape, *args):
    assert np.shape(f(*args)) == ft.jit(f)(*args).shape == shape
    assert ft.jit(lambda *args: f(*map(nested, args)))(*args).shape == shape
    assert ft.vmap(f)(*[np.stack([x, x]) for x in args]).shape == (2, *shape)
    return 1

calls = 0
for metric in METRICS:
    cdist, pdist = lambda x, y: distance.cdist(x, y, metric), lambda x: distance.pdist(x, metric)
    calls += passes(cdist, (5, 4), X, Y) + passes(pdist, (10,), X)
    ft.grad(lambda x: np.sum(cdist(x, Y)))(X), ft.grad(lambda x: np.sum(pdist(x)))(X)
for dtype in (bool, np.int32, np.float32, np.longdouble):
    calls += passes(distance.cdist, (1, 4), ONE.astype(dtype), Y.astype(dtype))
calls += passes(lambda x: distance.cdist(x, Y, w=np.ones(3)), (5, 4), X)
ft.jit(lambda x, w: distance.cdist(x, Y, w=w))(X, np.ones(3))
calls += passes(lambda x, y: distance.cdist(x, y, lambda u, v: np.sum(u > v)), (5, 4), X, Y)
calls += passes(distance.squareform, (5, 5), PAIRS)
calls += passes(distance.squareform, (10,), distance.squareform(PAIRS))
calls += passes(distance.squareform, (1, 1), np.zeros(0))

wrong = [
    (distance.cdist, (X, Y[:, :2])), (distance.cdist, (X[0], Y)), (distance.cdist, (X, Y[0])), (distance.pdist, (X[0],)),
    (distance.pdist, (X[None],)), (distance.pdist, (np.float64(1.0),)), (distance.squareform, (X,)),
    (distance.squareform, (np.float64(1.0),)), (lambda x: distance.cdist("x", x), (X,)),
    (lambda x: distance.cdist(x, Y, lambda u, v: u - v), (X,)),
]
for k, (f, args) in enumerate(wrong):
    try:
        ft.jit(f)(*args)
    except TypeCheckError:
        continue
    raise AssertionError(f"case {k} passes the check")
print(calls, len(wrong))
"""


def test_signatures_have_the_shapes_of_calls() -> None:
    ignored = "ignore:random draws while"  # beartype checks a random item of a sequence
    command = [sys.executable, "-B", "-W", "error", "-W", ignored, "-c", SCRIPT]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "35 10\n", found.stdout + found.stderr


def test_shapes_cost_no_import() -> None:
    code = "import functrace.scipy.spatial.distance, sys; print('jaxtyping' in sys.modules)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "False\n", found.stdout + found.stderr
