"""jit-research-…: programs of the kind that papers contain, compiled; warm.

Every work is written once, for NumPy's functions and JAX's, as those of ``jit-small``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from benchmarks.jit_small import Made, work_of


def elasticity(xp: Any, lib: Any, scan: Any) -> Made:
    """The Hessian of a neo-Hookean body's energy (800 triangles), times a vector."""
    side = 20
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, side + 1)] * 2, indexing="ij"), -1)
    points = grid.reshape(-1, 2)
    first = (np.arange(side)[:, None] * (side + 1) + np.arange(side)).reshape(-1)
    right, above = first + side + 1, first + 1
    triangles = np.concatenate(
        [np.stack([first, right, above], 1), np.stack([right + 1, above, right], 1)]
    )
    edges = points[triangles[:, 1:]] - points[triangles[:, :1]]  # (triangle, edge, axis)
    inverse, area = np.linalg.inv(edges), np.abs(np.linalg.det(edges)) / 2

    def energy(u: Any) -> Any:
        moved = (points + u)[triangles]
        deformation = inverse @ (moved[:, 1:] - moved[:, :1])
        volume = (
            deformation[:, 0, 0] * deformation[:, 1, 1]
            - deformation[:, 0, 1] * deformation[:, 1, 0]
        )
        growth = xp.log(volume)
        stretch = xp.sum(deformation * deformation, axis=(1, 2))
        return xp.sum(area * (0.5 * (stretch - 2.0) - growth + 0.75 * growth * growth))

    def product(u: Any, v: Any) -> Any:
        return lib.jvp(lib.grad(energy), (u,), (v,))[1]

    generator = np.random.default_rng(0)
    u, v = 0.005 * generator.normal(size=points.shape), generator.normal(size=points.shape)
    return product, (u, v)


def matrix_product_state(xp: Any, lib: Any, scan: Any) -> Made:
    """The energy of Ising's chain of 16 spins in a matrix product state, by its tensors."""
    sites, bond = 16, 8
    one, x, z = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([1.0, -1.0])
    operator = np.zeros((3, 3, 2, 2))
    operator[0, 0], operator[0, 1], operator[0, 2] = one, -z, -0.9 * x
    operator[1, 2], operator[2, 2] = z, one

    def energy(tensors: Any) -> Any:
        def turn(carry: Any, a: Any) -> Any:
            with_operator, plain = carry
            half = xp.einsum("awb,asc->wbsc", with_operator, a)
            half = xp.einsum("wbsc,wvst->vbtc", half, operator)
            with_operator = xp.einsum("vbtc,btd->cvd", half, a)
            plain = xp.einsum("ab,asc->bsc", plain, a)
            plain = xp.einsum("bsc,bsd->cd", plain, a)
            return (with_operator, plain), None

        begin = np.zeros((bond, 3, bond))
        begin[0, 0, 0] = 1.0
        (with_operator, plain), _ = scan(turn, (begin, np.eye(bond)[:, :1] * np.eye(bond)), tensors)
        return xp.sum(with_operator[:, 2]) / xp.sum(plain)

    tensors = np.random.default_rng(0).normal(size=(sites, bond, 2, bond)) / 4
    return lib.grad(energy), (tensors,)


def hartree_fock(xp: Any, lib: Any, scan: Any) -> Made:
    """The forces on four hydrogen atoms in Hartree-Fock's approximation: STO-3G, 12
    iterations.
    """
    exponents = np.array([3.425250914, 0.6239137298, 0.168855404])
    weights = np.array([0.1543289673, 0.5353281423, 0.4446345422])
    weights = weights * (2 * exponents / np.pi) ** 0.75
    each, shares = np.tile(exponents, 4), np.tile(weights, 4)
    atoms, owner = 4, np.repeat(np.arange(4), 3)
    gather = np.eye(atoms)[owner] * shares[:, None]  # (primitive, atom)
    p = each[:, None] + each
    share = each[:, None] * each / p
    pairs = np.triu_indices(atoms, 1)

    def contracted(m: Any) -> Any:
        return gather.T @ m @ gather

    def boys(t: Any) -> Any:
        """Return the integral of exp(-t s^2) for s from 0 to 1."""
        special: Any = lib.scipy.special if lib.__name__ == "jax" else scipy.special
        safe = xp.where(t < 1e-6, 1.0, t)
        root = xp.sqrt(safe)
        return xp.where(t < 1e-6, 1.0 - t / 3.0, 0.5 * np.sqrt(np.pi) * special.erf(root) / root)

    def energy(places: Any) -> Any:
        at = places[owner]
        apart = xp.sum((at[:, None] - at[None]) ** 2, axis=-1)
        overlap = (np.pi / p) ** 1.5 * xp.exp(-share * apart)
        kinetic = share * (3.0 - 2.0 * share * apart) * overlap
        middle = (each[:, None, None] * at[:, None] + each[None, :, None] * at[None]) / p[..., None]
        to_nuclei = xp.sum((middle[:, :, None] - places) ** 2, axis=-1)
        pull = (
            overlap[..., None]
            * boys(p[..., None] * to_nuclei)
            * (-2.0 * np.sqrt(p / np.pi)[..., None])
        )
        core = contracted(kinetic + xp.sum(pull, axis=-1))
        s = contracted(overlap)
        q = p[:, :, None, None] * p / (p[:, :, None, None] + p)
        between = xp.sum((middle[:, :, None, None] - middle) ** 2, axis=-1)
        repulsion = (
            2.0 * np.sqrt(q / np.pi) * boys(q * between) * overlap[:, :, None, None] * overlap
        )
        repulsion = xp.einsum("ijkl,ia,jb,kc,ld->abcd", repulsion, gather, gather, gather, gather)
        sizes, vectors = xp.linalg.eigh(s)
        turn = (vectors / xp.sqrt(sizes)) @ vectors.T

        def fock(density: Any) -> Any:
            coulomb = xp.einsum("abcd,cd->ab", repulsion, density)
            exchange = xp.einsum("acbd,cd->ab", repulsion, density)
            return core + coulomb - 0.5 * exchange

        def iterate(density: Any, _: Any) -> Any:
            _, orbitals = xp.linalg.eigh(turn.T @ fock(density) @ turn)
            orbitals = (turn @ orbitals)[:, :2]
            return 0.5 * density + orbitals @ orbitals.T, None

        density, _ = scan(iterate, np.zeros((atoms, atoms)), np.zeros(12))
        gaps = xp.sqrt(xp.sum((places[pairs[0]] - places[pairs[1]]) ** 2, axis=-1))
        return 0.5 * xp.sum(density * (core + fock(density))) + xp.sum(1.0 / gaps)

    places = np.array([[0.0, 0.0, 0.0], [0.1, 0.2, 1.4], [0.9, -0.3, 2.9], [0.2, 0.7, 4.6]])
    return lib.grad(energy), (places,)


def predictive_control(xp: Any, lib: Any, scan: Any) -> Made:
    """Model predictive control: 20 gradient steps on the 25 forces that swing up a cart-pole."""
    goal, weights = np.array([0.0, np.pi, 0.0, 0.0]), np.array([1.0, 5.0, 0.1, 0.1])

    def dynamics(x: Any, u: Any) -> Any:
        s, c = xp.sin(x[1]), xp.cos(x[1])
        mass = 1.0 + 0.1 * s * s
        push = (u + 0.1 * s * (0.5 * x[3] * x[3] + 9.81 * c)) / mass
        turn = (-u * c - 0.05 * x[3] * x[3] * c * s - 1.1 * 9.81 * s) / (0.5 * mass)
        return x + 0.04 * xp.stack([x[2], x[3], push, turn])

    def cost(controls: Any, start: Any) -> Any:
        def turn(x: Any, u: Any) -> Any:
            x = dynamics(x, u)
            return x, xp.sum(weights * (x - goal) ** 2) + 0.001 * u * u

        end, costs = scan(turn, start, controls)
        return xp.sum(costs) + 10.0 * xp.sum((end - goal) ** 2)

    def plan(controls: Any, start: Any) -> Any:
        def improve(controls: Any, _: Any) -> Any:
            return controls - 0.01 * lib.grad(cost)(controls, start), None

        controls, _ = scan(improve, controls, np.zeros(20))
        return controls

    return plan, (np.zeros(25), np.array([0.0, 0.3, 0.0, 0.0]))


WORKS = tuple(
    work_of("research", name, make)
    for name, make in {
        "elasticity": elasticity,
        "mps": matrix_product_state,
        "hartree-fock": hartree_fock,
        "mpc": predictive_control,
    }.items()
)
