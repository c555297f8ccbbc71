"""The shapes in signatures of `functrace.scipy.optimize` and `integrate` are checked by beartype, on
traced and on plain values.

The import hook acts when a module is imported, so the checks run in a Python process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
from jaxtyping import TypeCheckError, install_import_hook

MODULES = [
    "boundary_values", "fitting", "initial_values", "minimizing", "odes", "quadrature", "roots", "sampled", "solving",
    "stepping",
]
with install_import_hook([f"functrace.scipy.{name}" for name in MODULES], "beartype.beartype"):
    from functrace.scipy import integrate, optimize
import numpy as np
import scipy.optimize
import scipy.sparse

import functrace as ft

rng = np.random.default_rng(0)
TALL, SQUARE = rng.normal(size=(4, 2)), np.eye(2)
V2, V3, V4, ONE = np.array([1.0, 2.0]), np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 4.0, 7.0]), np.float64(1.0)
Y4 = np.array([0.5, 2.0, 1.0, 3.0])
TIMES = np.array([0.0, 0.5, 1.0])
decay = lambda t, y: -y
circle = lambda t, y, a: a * np.stack([y[1], -y[0]])
away = lambda x, a: x - a
square = lambda x, a: x**2 - a
slope = lambda x, a: 2 * x
fourth = lambda x, a: np.sum((x - a) ** 2)

def bvp(a, x, y, **more):
    fun = lambda x, y: np.stack([y[1], 0.0 * y[0]])
    return integrate.solve_bvp(fun, lambda l, r: np.stack([l[0], r[0] - a]), x, y, **more)

def bvp_with_parameter(a, x, y, p):
    fun = lambda x, y, p: np.stack([y[1], p[0] + 0.0 * y[0]])
    return integrate.solve_bvp(fun, lambda l, r, p: np.stack([l[0], r[0] - a, l[1]]), x, y, p)

def bvp_singular(a, x, y):
    fun = lambda x, y: np.stack([y[1], -a * y[0]])
    ends = lambda l, r: np.stack([l[1], r[0] - a])
    return integrate.solve_bvp(fun, ends, x, y, S=np.array([[0.0, 0.0], [0.0, -2.0]]))

def bounds(f):
    return lambda a: f(a, (np.zeros(2), [3.0, 0.5]))

limits = lambda x, a: x @ x - a
line = lambda x, a, b: a * x + b
XS = np.linspace(0.0, 1.0, 5)
GUESS = np.zeros((2, 5))
within = [(0.0, None), (None, 0.5)]

def ivp(**how):
    return lambda a, y: integrate.solve_ivp(circle, (0.0, 1.0), y, t_eval=TIMES, args=(a,), **how).y

def at_end(**how):
    return lambda a, y: integrate.solve_ivp(circle, (0.0, a), y, args=(a,), **how).y[:, -1]

# name: (function, arguments, does it run under jit?)
CALLS = {
    "solve_ivp": [
        *[(ivp(method=method), (ONE, V2), True) for method in ("RK23", "DOP853", "Radau", "BDF", "LSODA")],
        (ivp(gradient="direct"), (ONE, V2), True), (ivp(gradient="direct", method="DOP853"), (ONE, V2), True),
        (ivp(vectorized=False, rtol=1e-6, atol=np.full(2, 1e-8)), (ONE, V2), True),
        (at_end(), (ONE, V2), False), (at_end(gradient="direct"), (ONE, V2), False),
        (lambda y: integrate.solve_ivp(decay, (1.0, 0.0), y, t_eval=[1.0, 0.5]).y, (V3,), True),
        (lambda y: integrate.solve_ivp(decay, (0.0, 1.0), y, dense_output=True).sol(TIMES), (V3,), True),
        (lambda y: integrate.solve_ivp(decay, (0.0, 1.0), y, dense_output=True, gradient="direct").sol(0.5), (V3,), True),
        (lambda y: integrate.solve_ivp(decay, (0.0, 9.0), y, events=[lambda t, y: y[0] - 0.5]).t_events[0], (V3,), False),
        (lambda y: integrate.solve_ivp(decay, (0.0, 1.0), y, t_eval=TIMES, method="BDF", jac=-np.eye(3)).y, (V3,), True),
    ],
    "odeint": [
        (lambda y: integrate.odeint(lambda y, t: -y, y, TIMES), (V3,), True),
        (lambda y: integrate.odeint(lambda y, t: -y, y, [0.0, 1.0]), (ONE,), True),
        (lambda a, y, t: integrate.odeint(circle, y, t, (a,), tfirst=True, Dfun=lambda t, y, a: a * np.array(
            [[0.0, 1.0], [-1.0, 0.0]])), (ONE, V2, TIMES), True),
    ],
    "solve_bvp": [
        (lambda a: bvp(a, XS, GUESS).y, (ONE,), False),
        (lambda a: bvp(a, XS.tolist(), GUESS.tolist()).sol(0.5), (ONE,), False),
        (lambda a: bvp_with_parameter(a, XS, GUESS, np.ones(1)).p, (ONE,), False),
        (lambda a: bvp_singular(a, XS, GUESS + 1.0).y, (ONE,), False),
    ],
    "quad": [
        (lambda a, b: integrate.quad(lambda x: np.sin(a * x), 0.0, b)[0], (ONE, ONE), True),
        (lambda a, b: integrate.quad(lambda x, a: a * x, 0, b, a, weight="cos", wvar=1.0)[0], (ONE, ONE), True),
        (lambda a: integrate.quad(lambda x: np.exp(-a * x), 0.0, np.inf, points=None)[0], (ONE,), True),
    ],
    "quad_vec": [(lambda a, b: integrate.quad_vec(lambda x: np.stack([a, x]), 0.0, b)[0], (ONE, ONE), True)],
    "fixed_quad": [(lambda a, b: integrate.fixed_quad(lambda x: a * x, 0.0, b, n=3)[0], (ONE, ONE), True)],
    **{name: [
        (lambda y, f=getattr(integrate, name): f(y), (V3,), True),
        (lambda y, x, f=getattr(integrate, name): f(y, x=x), (V4, V4), True),
        (lambda y, x, f=getattr(integrate, name): f(y, x=x, axis=0), (TALL, V4), True),
        (lambda y, x, f=getattr(integrate, name): f(y, x=x, axis=0), (TALL, TALL.cumsum(0) + 9 * V4[:, None]), True),
        (lambda y, f=getattr(integrate, name): f(y, dx=np.array([0.5])), (TALL,), True),
    ] for name in ("trapezoid", "simpson", "cumulative_trapezoid")},
    "cumulative_simpson": [
        (lambda y: integrate.cumulative_simpson(y), (V3,), True),
        (lambda y, x: integrate.cumulative_simpson(y, x=x, initial=0.0), (V4, V4), True),
        (lambda y: integrate.cumulative_simpson(y, dx=0.5, axis=0), (TALL,), True),
    ],
    "romb": [(integrate.romb, (V3,), True), (lambda y: integrate.romb(y, 0.5, 0), (rng.normal(size=(5, 2)),), True)],
    "minimize": [
        *[(lambda a, x, method=method: optimize.minimize(fourth, x, a, method).x, (V2, V2), True)
            for method in (None, "BFGS", "Nelder-Mead", "SLSQP", "L-BFGS-B")],
        (lambda a: optimize.minimize(fourth, 1.0, (a,)).x, (np.ones(1),), True),
        (lambda a: optimize.minimize(fourth, V2, (a,), bounds=within).x, (V2,), True),
        (lambda a: optimize.minimize(fourth, [1.0, 1.0], (a,), bounds=scipy.optimize.Bounds(0.0, 9.0)).x, (V2,), True),
        (lambda a: optimize.minimize(fourth, V2, (a,), constraints={"type": "eq", "fun": limits, "args": (2.0,)}).x, (V2,),
            True),
        (lambda a: optimize.minimize(fourth, V2, (a,), constraints=scipy.optimize.LinearConstraint(
            np.ones((1, 2)), 1.0, 1.0), method="SLSQP").x, (V2,), True),
    ],
    "minimize_scalar": [
        (lambda a: optimize.minimize_scalar(lambda x: (x - a) ** 2).x, (ONE,), True),
        (lambda a: optimize.minimize_scalar(lambda x, a: (x - a) ** 2, bounds=(0.0, 9.0), args=a).x, (ONE,), True),
        (lambda a: optimize.minimize_scalar(lambda x: (x - a) ** 2, (0.0, 3.0)).x, (ONE,), True),
    ],
    "least_squares": [
        (lambda a, x: optimize.least_squares(away, x, args=(a,)).x, (V2, V2), True),
        (lambda a: optimize.least_squares(away, 1.0, args=(a,)).x, (np.ones(1),), True),
        (lambda a: optimize.least_squares(away, V2, args=a, loss="soft_l1", f_scale=0.5).cost, (V2,), True),
        (bounds(lambda a, both: optimize.least_squares(away, [0.5, 0.25], bounds=both, args=(a,)).x), (V2,), True),
    ],
    "leastsq": [
        (lambda a, x: optimize.leastsq(away, x, (a,))[0], (V2, V2), True),
        (lambda a: optimize.leastsq(away, [1.0, 1.0], a, lambda x, a: np.eye(2), diag=(1.0, 1.0))[0], (V2,), True),
        (lambda a: optimize.leastsq(away, V2, a, full_output=True)[2]["fvec"], (V2,), False),
    ],
    "curve_fit": [
        (lambda x, y: optimize.curve_fit(line, x, y), (V4, Y4), True),
        (lambda y: optimize.curve_fit(line, V4, y, p0=[1, 1])[0], (Y4,), True),
        *[(lambda y, sigma=sigma: optimize.curve_fit(line, V4, y, V2, sigma)[0], (Y4,), True)
            for sigma in (2.0, V4, V4.tolist(), np.diag(V4))],
        (lambda y, sigma: optimize.curve_fit(line, V4, y, V2, sigma)[1], (Y4, V4), True),
        (lambda y: optimize.curve_fit(line, V4, y, bounds=(0.0, 9.0), absolute_sigma=True)[1], (Y4,), True),
        (lambda y: optimize.curve_fit(line, V4, y, sigma=V4, jac=lambda x, a, b: np.stack([x, 0 * x + 1], 1))[0],
            (Y4,), True),
        (lambda y: optimize.curve_fit(lambda x, p: p * x, V4, y, 2.0)[0], (Y4,), True),
    ],
    "nnls": [(optimize.nnls, (TALL, V4), True)],
    "lsq_linear": [
        (lambda a, b: optimize.lsq_linear(a, b).x, (TALL, V4), True),
        (lambda a, b: optimize.lsq_linear(a, b, (0.0, [9.0, 9.0])).fun, (TALL, V4), True),
    ],
    "root": [
        *[(lambda a, x, method=method: optimize.root(square, x, a, method).x, (V2, V2), True)
            for method in ("hybr", "lm", "krylov")],
        (lambda a: optimize.root(square, 1.0, a).x, (np.ones(1),), True),
        (lambda a: optimize.root(lambda x: np.concatenate([x - a, x + a]), V2, method="lm").x, (V2,), True),
    ],
    "fsolve": [
        (lambda a, x: optimize.fsolve(square, x, a), (V2, V2), True),
        (lambda a: optimize.fsolve(square, [1.0, 1.0], a, lambda x, a: np.diag(2 * x), diag=[1.0, 2.0]), (V2,), True),
        (lambda a: optimize.fsolve(square, V2, a, full_output=True)[1]["fvec"], (V2,), True),
    ],
    "root_scalar": [
        (lambda a, x: optimize.root_scalar(square, (a,), x0=x, method="newton").root, (ONE, ONE), True),
        (lambda a: optimize.root_scalar(square, a, bracket=[0, 5.0]).root, (ONE,), True),
        (lambda a: optimize.root_scalar(square, a, x0=1.0, x1=2.0).root, (ONE,), True),
    ],
    "newton": [
        (lambda a, x: optimize.newton(square, x, args=(a,)), (ONE, ONE), True),
        (lambda a, x: optimize.newton(square, x, slope, a), (V3, V3), True),
        (lambda a: optimize.newton(square, [1.0, 1.0], slope, a, full_output=True)[0], (V2,), True),
    ],
    "fixed_point": [
        (lambda a, x: optimize.fixed_point(lambda x: np.sqrt(a + 0 * x), x), (ONE, ONE), True),
        (lambda a, x: optimize.fixed_point(lambda x: np.sqrt(a + 0 * x), x), (V3, V3), True),
    ],
    **{name: [
        (lambda a, b, f=getattr(optimize, name): f(square, 0.0, b, a), (ONE, np.float64(3.0)), True),
        (lambda a, f=getattr(optimize, name): f(square, 0, 3, (a,), full_output=True)[0], (ONE,), True),
    ] for name in ("bisect", "brenth", "brentq", "ridder", "toms748")},
}
everything = {*integrate.__all__, *optimize.__all__}
assert set(CALLS) == everything, set(CALLS) ^ everything

def total(tree):
    return sum(np.sum(x) for x in ft.tree.leaves(tree) if isinstance(x, ft.Array) and x.dtype.kind == "f")

calls = 0
for name, rows in CALLS.items():
    for k, (f, args, runs_under_jit) in enumerate(rows):
        try:
            f(*args), ft.grad(lambda *args: total(f(*args)))(*args)
            ft.jvp(lambda *args: total(f(*args)), args, args)
            if runs_under_jit:
                ft.jit(f)(*args)
                ft.grad(ft.jit(lambda *args: total(f(*args))))(*args)
                ft.vmap(f)(*[np.stack([x, x]) for x in args])
        except Exception as error:
            raise AssertionError(f"{name} {k}") from error
        calls += 1

optimize.lsq_linear(scipy.sparse.csr_array(TALL), V4)
optimize.lsq_linear(scipy.sparse.linalg.aslinearoperator(TALL), V4)
optimize.nnls(TALL.tolist(), V4.tolist()), optimize.nnls(TALL, V4[:, None])

fit = lambda y, **more: optimize.curve_fit(line, V4, y, **more)
ZERO_D = np.array(1.0)  # (np.float64 is a float, too, and passes as a number)
wrong = [
    (optimize.nnls, (V4, V4)), (optimize.nnls, (TALL, V2)), (optimize.nnls, (TALL, ZERO_D)), (optimize.nnls, (TALL, SQUARE)),
    (optimize.lsq_linear, (V4, V4)), (optimize.lsq_linear, (TALL, V2)), (optimize.lsq_linear, (TALL, TALL)),
    *[(lambda x, f=f: f(away, x, args=(1.0,)), (TALL,)) for f in (
        optimize.root, optimize.fsolve, optimize.leastsq, optimize.least_squares, optimize.minimize)],
    (lambda d: optimize.fsolve(away, V2, (V2,), diag=d), (SQUARE,)),
    (lambda d: optimize.leastsq(away, V2, V2, diag=d), (V3,)),
    (lambda p: fit(V4, p0=p), (SQUARE,)), (lambda s: fit(V4, sigma=s), (TALL,)),
    *[(lambda a, f=getattr(optimize, name): f(square, a, 3.0, 1.0), (np.zeros(1),))
        for name in ("bisect", "brenth", "brentq", "ridder", "toms748")],
    *[(lambda a, f=f: f(lambda x: x, 0.0, a), (V2,)) for f in (integrate.quad, integrate.quad_vec)],
    (lambda y: integrate.solve_ivp(decay, (0.0, 1.0), y), (SQUARE,)),
    (lambda t: integrate.solve_ivp(decay, (0.0, 1.0), V2, t_eval=t), (SQUARE,)),
    (lambda t: integrate.solve_ivp(decay, (0.0, 1.0), V2, t_eval=t), (ZERO_D,)),
    (lambda y: integrate.odeint(decay, y, TIMES, tfirst=True), (SQUARE,)),
    (lambda t: integrate.odeint(decay, V2, t, tfirst=True), (SQUARE,)),
    (lambda y: bvp(1.0, XS, y), (GUESS[:, :4],)), (lambda y: bvp(1.0, XS, y), (V2,)),
    (lambda x: bvp(1.0, x, GUESS), (SQUARE,)), (lambda S: bvp(1.0, XS, GUESS, S=S), (np.eye(3),)),
    (lambda p: bvp_with_parameter(1.0, XS, GUESS, p), (ZERO_D,)),
]
only_traced = [
    (lambda x, f=f: f(V4, x=x), (TALL,)) for f in (
        integrate.trapezoid, integrate.simpson, integrate.cumulative_trapezoid, integrate.cumulative_simpson)
]
for k, (f, args) in enumerate([*wrong, *only_traced]):
    for call in [ft.jit(f), f] if k < len(wrong) else [ft.jit(f)]:
        try:
            call(*args)
        except TypeCheckError:
            continue
        raise AssertionError(f"case {k} passes the check")
print(calls, len(wrong) + len(only_traced))
"""


@pytest.mark.full
def test_signatures_have_the_shapes_of_calls() -> None:
    ignored = "ignore:random draws while"  # beartype checks a random item of a sequence
    command = [sys.executable, "-B", "-W", "error", "-W", ignored, "-c", SCRIPT]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "106 37\n", found.stdout + found.stderr
