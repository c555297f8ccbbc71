"""jit-small-…: gradients on tiny arrays, compiled, where the cost of an operation is all that
counts; warm.

Every work is written once, for NumPy's functions and JAX's, with the ``scan``, ``grad``, ``jacfwd``
and ``vmap`` of either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.work import UN_JITTED, System, Work

Made = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
"""A function to be jitted, and its arguments."""


def kalman(xp: Any, lib: Any, scan: Any) -> Made:
    """The log-likelihood of 50 observations of a point that moves in the plane, by its two
    noises.
    """
    step = np.kron(np.array([[1.0, 0.1], [0.0, 1.0]]), np.eye(2))
    drive = np.kron(np.array([[0.001 / 3, 0.005], [0.005, 0.1]]), np.eye(2))
    look = np.eye(2, 4)
    seen = np.cumsum(np.random.default_rng(0).normal(size=(50, 2)), axis=0) * 0.1

    def loss(noises: Any, seen: Any) -> Any:
        moves, looks = xp.exp(noises)

        def turn(carry: Any, y: Any) -> Any:
            mean, spread = carry
            mean, spread = step @ mean, step @ spread @ step.T + moves * drive
            off, wide = y - look @ mean, look @ spread @ look.T + looks * np.eye(2)
            gain = xp.linalg.solve(wide, look @ spread).T
            cost = off @ xp.linalg.solve(wide, off) + xp.log(xp.linalg.det(wide))
            return (mean + gain @ off, spread - gain @ look @ spread), cost

        _, costs = scan(turn, (np.zeros(4), np.eye(4)), seen)
        return xp.sum(costs)

    return lib.grad(loss), (np.array([-1.0, -2.0]), seen)


def ilqr(xp: Any, lib: Any, scan: Any) -> Made:
    """One iteration of iLQR on a pendulum: 30 steps, linearised, swept backwards, rolled
    out again.
    """
    weights, goal = np.diag([1.0, 0.1]), np.array([np.pi, 0.0])

    def dynamics(x: Any, u: Any) -> Any:
        angle, speed = x[0], x[1]
        speed = speed + 0.05 * (u[0] - 9.81 * xp.sin(angle) - 0.1 * speed)
        return xp.stack([angle + 0.05 * speed, speed])

    def iteration(start: Any, controls: Any) -> Any:
        _, before = scan(lambda x, u: (dynamics(x, u), x), start, controls)
        a = lib.vmap(lib.jacfwd(dynamics, argnums=0))(before, controls)
        b = lib.vmap(lib.jacfwd(dynamics, argnums=1))(before, controls)

        def sweep(carry: Any, at: Any) -> Any:
            slope, curve = carry
            a, b, x, u = at
            qx, qu = weights @ (x - goal) + a.T @ slope, 0.01 * u + b.T @ slope
            qxx, quu, qux = (
                weights + a.T @ curve @ a,
                0.01 * np.eye(1) + b.T @ curve @ b,
                b.T @ curve @ a,
            )
            short, gain = -xp.linalg.solve(quu, qu), -xp.linalg.solve(quu, qux)
            return (qx + gain.T @ qu, qxx + gain.T @ qux), (short, gain)

        _, (shorts, gains) = scan(
            sweep, (np.zeros(2), 10.0 * weights), (a, b, before, controls), reverse=True
        )

        def roll(x: Any, at: Any) -> Any:
            old, u, short, gain = at
            new = u + 0.5 * short + gain @ (x - old)
            return dynamics(x, new), new

        _, found = scan(roll, start, (before, controls, shorts, gains))
        return found

    return iteration, (np.array([0.1, 0.0]), np.full((30, 1), 0.1))


def nbody(xp: Any, lib: Any, scan: Any) -> Made:
    """Where five bodies are after 100 leapfrog steps, by their velocities."""
    generator = np.random.default_rng(0)
    masses = generator.uniform(0.5, 1.5, 5)

    def pull(x: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        return xp.sum(
            masses[None, :, None] * d / (xp.sum(d * d, axis=-1, keepdims=True) + 0.1) ** 1.5, axis=1
        )

    def loss(v: Any, x: Any) -> Any:
        def turn(carry: Any, _: Any) -> Any:
            x, v = carry
            v = v + 0.005 * pull(x)
            x = x + 0.01 * v
            return (x, v + 0.005 * pull(x)), None

        (x, v), _ = scan(turn, (x, v), np.zeros(100))
        return xp.sum(x * x)

    return lib.grad(loss), (0.1 * generator.normal(size=(5, 3)), generator.normal(size=(5, 3)))


def hmm(xp: Any, lib: Any, scan: Any) -> Made:
    """The log-likelihood of 100 symbols under a hidden Markov model of eight states, by
    its logits.
    """
    generator = np.random.default_rng(0)
    symbols = generator.integers(0, 4, 100)

    def log_softmax(x: Any) -> Any:
        return x - logsumexp(x, -1, True)

    def logsumexp(x: Any, axis: int, keepdims: bool = False) -> Any:
        most = xp.max(x, axis=axis, keepdims=True)
        total = xp.log(xp.sum(xp.exp(x - most), axis=axis, keepdims=True)) + most
        return total if keepdims else xp.squeeze(total, axis)

    def loss(moves: Any, emits: Any) -> Any:
        moves, seen = log_softmax(moves), log_softmax(emits).T[symbols]

        def turn(alpha: Any, e: Any) -> Any:
            return logsumexp(alpha[:, None] + moves, 0) + e, None

        alpha, _ = scan(turn, seen[0], seen[1:])
        return -logsumexp(alpha, 0)

    return lib.grad(loss, argnums=(0, 1)), (
        generator.normal(size=(8, 8)),
        generator.normal(size=(8, 4)),
    )


def quantum(xp: Any, lib: Any, scan: Any) -> Made:
    """The energy of four qubits after three layers of rotations and controlled flips, by the
    angles.
    """
    qubits, layers = 4, 3
    signs = 1.0 - 2.0 * (np.arange(2**qubits)[:, None] >> np.arange(qubits) & 1)

    def loss(angles: Any) -> Any:
        state = np.eye(1, 2**qubits, dtype=complex)[0].reshape((2,) * qubits)
        for layer in range(layers):
            for q in range(qubits):
                c, s = xp.cos(angles[layer, q, 0] / 2), xp.sin(angles[layer, q, 0] / 2)
                turn = xp.exp(-0.5j * angles[layer, q, 1])
                gate = xp.stack([xp.stack([c * turn, -s * turn]), xp.stack([s / turn, c / turn])])
                state = xp.moveaxis(xp.tensordot(gate, state, axes=((1,), (q,))), 0, q)
            for q in range(qubits - 1):
                halves = xp.moveaxis(state, (q, q + 1), (0, 1))
                flipped = xp.stack([halves[0], halves[1][::-1]])
                state = xp.moveaxis(flipped, (0, 1), (q, q + 1))
        amplitudes = xp.reshape(state, (-1,))
        chances = xp.real(amplitudes * xp.conj(amplitudes))
        return xp.sum(chances @ (signs[:, :-1] * signs[:, 1:])) + xp.sum(chances @ signs)

    return lib.grad(loss), (np.random.default_rng(0).uniform(0, np.pi, (layers, qubits, 2)),)


def runge_kutta(xp: Any, lib: Any, scan: Any) -> Made:
    """The Jacobian of 50 Runge-Kutta steps on Lorenz's equations, by start and parameters."""

    def slope(x: Any, p: Any) -> Any:
        return xp.stack(
            [p[0] * (x[1] - x[0]), x[0] * (p[1] - x[2]) - x[1], x[0] * x[1] - p[2] * x[2]]
        )

    def end(z: Any) -> Any:
        p = z[3:]

        def turn(x: Any, _: Any) -> Any:
            k1 = slope(x, p)
            k2 = slope(x + 0.005 * k1, p)
            k3 = slope(x + 0.005 * k2, p)
            k4 = slope(x + 0.01 * k3, p)
            return x + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        x, _ = scan(turn, z[:3], np.zeros(50))
        return x

    return lib.jacfwd(end), (np.array([1.0, 1.0, 1.0, 10.0, 28.0, 8.0 / 3.0]),)


def _functrace(make: Callable[..., Made], *, jitted: bool) -> System:
    def prepare():
        import functrace as ft

        f, arguments = make(np, ft, ft.scan)
        run = ft.jit(f) if jitted else f
        return lambda: run(*arguments)

    return prepare


def _jax(make: Callable[..., Made]) -> System:
    def prepare():
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        f, arguments = make(jnp, jax, jax.lax.scan)
        run, arguments = jax.jit(f), [jnp.asarray(x) for x in arguments]
        return lambda: jax.block_until_ready(run(*arguments))

    return prepare


def work_of(family: str, name: str, make: Callable[..., Made]) -> Work:
    """Return the work ``jit-<family>-<name>``; its description is the docstring's first line."""
    systems = {
        "functrace": _functrace(make, jitted=True),
        UN_JITTED: _functrace(make, jitted=False),
        "jax": _jax(make),
    }
    about = (make.__doc__ or "").strip().rstrip(".")
    return Work(
        f"jit-{family}-{name}", f"jitted: {about[0].lower()}{about[1:]}", systems, rtol=1e-8
    )


WORKS = tuple(
    work_of("small", name, make)
    for name, make in {
        "kalman": kalman,
        "ilqr": ilqr,
        "nbody": nbody,
        "hmm": hmm,
        "quantum": quantum,
        "runge-kutta": runge_kutta,
    }.items()
)
