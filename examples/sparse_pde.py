"""A sparse Hessian of a PDE constraint
=====================================

Optimal control of a nonlinear equation on a grid, by Newton's method on the whole system.

A source s heats a plate: -laplace(u) + u**3 = s, with u = 0 at the edge. The program looks for the
source that brings u close to a target, and is not too strong. The Lagrangian of the constrained
problem, whose unknowns are state, source and multipliers, is one NumPy function. Its Hessian is
sparse: `functrace.sparse_hessian` detects the pattern, colours it, and computes it by a handful of
Hessian-vector products instead of one per unknown. The linear system is solved by SciPy.

Next to this file the program leaves ``sparse_pde.png``.

::

    python examples/sparse_pde.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse.linalg
from jaxtyping import Float
from tqdm import tqdm

import functrace as ft

SIZE = 24
WEIGHT = 1e-4


def residual(u: Float[ft.Array, "n n"], s: Float[ft.Array, "n n"]) -> Float[ft.Array, "n n"]:
    """Return the residual of the equation on a grid with zeros around it."""
    v, h = np.pad(u, 1), 1.0 / (len(u) + 1)
    laplacian = (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4.0 * u) / h**2
    return -laplacian + u**3 - s


def lagrangian(
    z: Float[ft.Array, " unknowns"], target: Float[ft.Array, "n n"]
) -> Float[ft.Array, ""]:
    """Return the Lagrangian of state, source and multipliers."""
    u, s, multipliers = np.reshape(z, (3, *target.shape))
    misfit = 0.5 * np.sum((u - target) ** 2) + 0.5 * WEIGHT * np.sum(s**2)
    return misfit + np.sum(multipliers * residual(u, s))


def main(steps: int = 8) -> None:
    """Solve the problem, and check the solution and one Hessian-vector product."""
    x, y = np.meshgrid(*[np.linspace(0.0, 1.0, SIZE + 2)[1:-1]] * 2)
    target = np.where((abs(x - 0.5) < 0.25) & (abs(y - 0.5) < 0.25), 1.0, 0.0)
    gradient = ft.jit(ft.grad(lagrangian))
    hessian = ft.sparse_hessian(lagrangian, format="csc")
    z = np.zeros(3 * target.size)
    plan = hessian.plan(z, target)
    print(plan)
    norm = float(np.linalg.norm(gradient(z, target)))
    for _ in tqdm(range(steps), file=sys.stderr):
        if norm < 1e-9:
            break
        z = z - scipy.sparse.linalg.spsolve(hessian(z, target), gradient(z, target))
        norm = float(np.linalg.norm(gradient(z, target)))
    print(f"gradient after Newton's method: {norm:.1e}")
    v = np.linspace(-1.0, 1.0, len(z))
    expected = ft.hvp(lambda z: lagrangian(z, target), (z,), (v,))
    error = float(np.max(np.abs(hessian(z, target) @ v - expected)))
    if norm > 1e-8 or error > 1e-8 * float(np.max(np.abs(expected))):
        sys.exit(f"not a solution: gradient {norm:.1e}, error of the Hessian {error:.1e}")
    u, s, _ = z.reshape(3, *target.shape)
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.5))
    for axis, picture, title in zip(
        axes, (target, u, s), ("target", "state", "source"), strict=False
    ):
        axis.imshow(picture)
        axis.set_title(title)
    axes[3].spy(plan.pattern, markersize=0.3)
    axes[3].set_title(f"Hessian: {plan.sweeps} sweeps for {len(z)} columns")
    figure.tight_layout()
    figure.savefig(Path(__file__).with_suffix(".png"))
    plt.close(figure)


if __name__ == "__main__":
    main()
