"""Programs that worker processes evaluate: they are pickled, and give the same results there."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import functrace as ft

JITTED: dict[bytes, Any] = {}


def loss(w: Any, x: Any, y: Any) -> Any:
    """Return a sum over rows, so that parts of a batch add up."""
    return np.sum((np.tanh(x @ w["hidden"]) @ w["out"] - y) ** 2)


def flat_step(w: Any, x: Any, y: Any) -> Any:
    """Return the loss and all gradients as one vector."""
    value, slope = ft.value_and_grad(loss)(w, x, y)
    return value, ft.tree.ravel(slope)[0]


def newton(x: Any) -> Any:
    """Return a root, by a loop."""
    return ft.while_loop(
        lambda c: np.abs(c[0] ** 3 - x) > 1e-12,
        lambda c: (c[0] - (c[0] ** 3 - x) / (3 * c[0] ** 2),),
        (x,),
    )[0]


@ft.custom_jvp
def soft(x: Any) -> Any:
    """Return a function with a rule of its own."""
    return np.log1p(np.exp(x))


soft.defjvp(lambda primals, tangents: (soft(*primals), tangents[0] / (1 + np.exp(-primals[0]))))


def scanned(x: Any) -> Any:
    """Return a sum over the steps of a scan."""
    return np.sum(ft.scan(lambda c, v: (np.sin(c) * v, c), x[0], x)[1])


TABLE = np.random.default_rng(7).normal(size=(40, 3))
X = np.random.default_rng(8).normal(size=3)
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "gradient": (ft.grad(scanned), (X,)),
    "hessian": (ft.hessian(scanned), (X,)),
    "rule": (ft.grad(lambda x: np.sum(soft(x))), (X,)),
    "loop": (ft.jacfwd(newton), (2.0,)),
    "constants": (ft.value_and_grad(lambda x: np.sum((TABLE @ x) ** 2)), (X,)),
    "per example": (ft.vmap(ft.grad(lambda x, t: (x @ t) ** 2), in_axes=(None, 0)), (X, TABLE)),
    "random": (lambda x: x * ft.random.normal(ft.random.key(3), (3,)), (X,)),
    "complex": (lambda x: np.abs(np.fft.fft(x)) ** 2, (X,)),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Two processes that share nothing with this one."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        yield workers


def evaluated(blob: bytes, *args: Any) -> tuple[int, list[Any]]:
    """In a worker: compile a program at its first call there. Returns the leaves of the result."""
    if blob not in JITTED:
        program = pickle.loads(blob)
        JITTED[blob] = ft.jit(lambda *args: ft.evaluate(program, *args))
    return os.getpid(), ft.tree.leaves(JITTED[blob](*args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_a_worker(pool: ProcessPoolExecutor, name: str) -> None:
    f, args = PROGRAMS[name]
    program = ft.trace(f)(*args)
    process, found = pool.submit(evaluated, pickle.dumps(program), *args).result()
    assert process != os.getpid()
    plain = pool.submit(ft.evaluate, program, *args).result()
    wanted = ft.tree.leaves(f(*args))
    for results in (found, ft.tree.leaves(plain)):
        for x, y in zip(results, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


def data() -> tuple[Any, Any, Any]:
    """Return parameters and a batch."""
    rng = np.random.default_rng(0)
    w = {"hidden": rng.normal(size=(8, 16)), "out": rng.normal(size=(16, 2))}
    return w, rng.normal(size=(64, 8)), rng.normal(size=(64, 2))


def test_gradients_of_parts_add_up(pool: ProcessPoolExecutor) -> None:
    """Flat gradients and one sum, as with an Allreduce."""
    w, x, y = data()
    program = ft.trace(lambda *leaves: flat_step(ft.tree.unflatten(tree, leaves[:2]), *leaves[2:]))
    leaves, tree = ft.tree.flatten(w)
    blob = pickle.dumps(program(*leaves, x[:32], y[:32]))
    assert len(blob) < 5000
    parts = [pool.submit(evaluated, blob, *leaves, x[k::2], y[k::2]) for k in range(2)]
    found = [part.result()[1] for part in parts]
    value, slope = flat_step(w, x, y)
    np.testing.assert_allclose(found[0][0] + found[1][0], value, rtol=1e-13)
    np.testing.assert_allclose(found[0][1] + found[1][1], slope, rtol=1e-10)


def test_joblib(pool: ProcessPoolExecutor) -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    _, x, _ = data()
    program = ft.trace(ft.grad(scanned))(x[0])
    run = joblib.Parallel(n_jobs=2)
    found = run(joblib.delayed(ft.evaluate)(program, row) for row in x[:6])
    for row, slope in zip(x, found, strict=False):
        np.testing.assert_allclose(slope, ft.grad(scanned)(row), rtol=1e-12)


def test_what_cannot_go_to_a_worker() -> None:
    """A callback to a function of this process only."""
    program = ft.trace(lambda x: ft.pure_callback(lambda v: v * 2, x, x))(1.0)
    with pytest.raises(ft.errors.ProgramError, match="pickle"):
        pickle.dumps(program)
