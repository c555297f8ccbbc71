"""export-*: C that `functrace.export` writes, and C that CasADi generates, for the same derivative;
compiled alike (``cc -O2``), called a thousand times by a loop in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.work import Target, Work

CALLS = 1000
POINT = np.linspace(-1.2, 1.1, 10)
START = np.array([0.3, 2.8, -0.5, 1.5, 0.7])
"""Position, angle, velocity, angular velocity, and force."""
GRAVITY, HALF_LENGTH, POLE, CART, STEP = 9.81, 0.5, 0.2, 1.0, 0.04

DRIVER = {
    "functrace": """
int {name}(const double *restrict, double *restrict);
void repeat(const double *x, double *y) {{
    for (int k = 0; k < {calls}; k++) {name}(x, y);
}}
""",
    "casadi": """
int {name}(const double **, double **, long long int *, double *, int);
void repeat(const double *x, double *y) {{
    long long int iw[{iw}];
    double w[{w}];
    const double *arg[{arg}] = {{x}};
    double *res[{res}] = {{y}};
    for (int k = 0; k < {calls}; k++) {name}(arg, res, iw, w, 0);
}}
""",
}


def rosenbrock(x: Any, total: Callable[[Any], Any]) -> Any:
    return total(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def cart_pole_step(x: Any, sin: Any, cos: Any, stack: Any) -> Any:
    """Return the state of a cart with a pole after one Runge-Kutta step."""

    def slope(state: Any) -> Any:
        angle, velocity, turning = state[1], state[2], state[3]
        sine, cosine, total = sin(angle), cos(angle), CART + POLE
        push = (x[4] + POLE * HALF_LENGTH * turning**2 * sine) / total
        bottom = HALF_LENGTH * (4.0 / 3.0 - POLE * cosine**2 / total)
        speeding = (GRAVITY * sine - cosine * push) / bottom
        return stack(
            [velocity, turning, push - POLE * HALF_LENGTH * speeding * cosine / total, speeding]
        )

    state = x[:4]
    k1 = slope(state)
    k2 = slope(state + 0.5 * STEP * k1)
    k3 = slope(state + 0.5 * STEP * k2)
    k4 = slope(state + STEP * k3)
    return state + STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def functrace_source(folder: Path, work: str) -> tuple[Path, str]:
    """Write the C of functrace; returns its path and that of a loop of calls."""
    import functrace as ft

    if work == "rosen":
        f, x = ft.grad(lambda x: rosenbrock(x, np.sum)), POINT
    else:
        f, x = ft.jacfwd(lambda x: cart_pole_step(x, np.sin, np.cos, np.stack)), START
    files = ft.export(f, x, directory=folder, name="derivative")
    return files[0], DRIVER["functrace"].format(name="derivative", calls=CALLS)


def casadi_source(folder: Path, work: str) -> tuple[Path, str]:
    """Write the C of CasADi; likewise. The Jacobian is by rows, as NumPy's."""
    import casadi as ca

    x = ca.SX.sym("x", len(POINT if work == "rosen" else START))
    if work == "rosen":
        n = len(POINT)
        value = sum(100.0 * (x[k + 1] - x[k] ** 2) ** 2 + (1.0 - x[k]) ** 2 for k in range(n - 1))
        derivative = ca.gradient(value, x)
    else:
        stepped = cart_pole_step(x, ca.sin, ca.cos, lambda parts: ca.vertcat(*parts))
        derivative = ca.densify(ca.jacobian(stepped, x).T)
    f = ca.Function("derivative", [x], [derivative])
    generator = ca.CodeGenerator("derivative.c")
    generator.add(f)
    generator.generate(f"{folder}/")
    sizes = {"arg": f.sz_arg(), "res": f.sz_res(), "iw": f.sz_iw() + 1, "w": f.sz_w() + 1}
    source = DRIVER["casadi"].format(name="derivative", calls=CALLS, **sizes)
    return folder / "derivative.c", source


SOURCES = {"functrace": functrace_source, "casadi": casadi_source}


def compiled(system: str, work: str, folder: Path) -> Callable[[Any, Any], None]:
    """Return the compiled loop of calls, a function of pointers to the argument and the result."""
    path, driver = SOURCES[system](folder, work)
    if shutil.which("cc") is None:
        raise ImportError("a C compiler", name="a C compiler")
    loop = folder / "loop.c"
    loop.write_text(driver)
    library = folder / "loop.so"
    command = ["cc", "-std=c99", "-O2", "-shared", "-fPIC", path, loop, "-o", library, "-lm"]
    subprocess.run(list(map(str, command)), check=True)
    return ctypes.CDLL(str(library)).repeat


def prepared(system: str, work: str) -> Callable[[], Any]:
    """Return a run of a thousand calls, which returns the derivative."""
    folder = Path(tempfile.mkdtemp())
    x = POINT if work == "rosen" else START
    result = np.empty(10 if work == "rosen" else (4, 5))
    try:
        repeat = compiled(system, work, folder)
    finally:
        shutil.rmtree(folder)  # (the library is loaded)
    given, taken = (ctypes.c_void_p(array.ctypes.data) for array in (x, result))

    def run() -> Any:
        repeat(given, taken)
        return result

    return run


def _work(name: str, about: str, *targets: Target) -> Work:
    return Work(
        f"export-{name}",
        f"{about}: exported C, 1,000 calls",
        {
            "functrace": lambda: prepared("functrace", name),
            "casadi": lambda: prepared("casadi", name),
        },
        targets,
        rtol=1e-12,
    )


WORKS = (
    _work("rosen", "gradient of Rosenbrock, n=10", Target(1.0, "casadi")),
    _work("cart-pole", "Jacobian of a Runge-Kutta step of a cart-pole"),
)
