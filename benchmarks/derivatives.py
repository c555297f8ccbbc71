"""Laplacians and sparse Jacobians, beside JAX, folx, asdex and CasADi: ``python -m benchmarks.derivatives``.

One thread; each row is the fastest of the calls in half a second, after the first.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np

import functrace as ft


def fastest(run, *arguments) -> float:
    """Return the seconds of the fastest call."""
    run(*arguments)
    best, end = float("inf"), time.perf_counter() + 0.5
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run(*arguments)
        best = min(best, time.perf_counter() - begin)
    return best


def network(np, x, weights):
    for w in weights:
        x = np.tanh(w @ x)
    return np.sum(x)


def siren(np, x, weights):
    for w in weights:
        x = np.sin(w @ x)
    return np.sum(x)


def chain(np, x, weights):
    for _ in weights:
        x = np.sin(x) * x
    return np.sum(x)


def orbitals(np, x, weights):
    """Logarithm of a determinant of orbitals of particles in space."""
    a, b, one = weights
    h = np.tanh(np.reshape(x, (-1, 3)) @ a)
    return np.linalg.slogdet(np.tanh(h @ b) + one)[1]


def laplacian_works():
    rng = np.random.default_rng(0)

    def square(n, count):
        return [rng.standard_normal((n, n)) / n**0.5 for _ in range(count)]

    yield "network, 64", network, 64, square(64, 3)
    yield "network, 512", network, 512, square(512, 3)
    yield "siren, 64", siren, 64, square(64, 2)
    yield "siren, 512", siren, 512, square(512, 2)
    yield "elementwise, 512", chain, 512, square(1, 5)
    yield "orbitals, 20 particles", orbitals, 60, [
        rng.standard_normal((3, 20)), *square(20, 1), np.eye(20)
    ]  # fmt: skip


def laplacians() -> None:
    import folx
    import jax
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    jax.config.update("jax_enable_x64", True)
    print(
        "| Laplacian, microseconds | NumPy's f | jit | native | nested jvp of grad, JAX | jet, JAX | folx |"
    )
    for name, f, n, weights in laplacian_works():
        x = np.linspace(-1.0, 1.0, n)
        lap = ft.laplacian(lambda x, w, f=f: f(np, x, w))
        rows = [fastest(f, np, x, weights)]
        for jitted in (ft.jit(lap), ft.jit(lap, backend="native")):
            rows.append(fastest(jitted, x, weights))
        there, theirs = jnp.asarray(x), [jnp.asarray(w) for w in weights]

        def nested(x, w, f=f, n=n):
            slope = jax.grad(lambda x: f(jnp, x, w))
            return jnp.sum(jax.vmap(lambda v: v @ jax.jvp(slope, (x,), (v,))[1])(jnp.eye(n)))

        def by_jet(x, w, f=f, n=n):
            def second(v):
                return jet(lambda x: f(jnp, x, w), (x,), ((v, 0 * v),))[1][1]

            return jnp.sum(jax.vmap(second)(jnp.eye(n)))

        def by_folx(x, w, f=f):
            return folx.ForwardLaplacianOperator(6)(lambda x: f(jnp, x, w))(x)[0]

        for run in (nested, by_jet, by_folx):
            jitted = jax.jit(run)
            try:
                rows.append(
                    fastest(lambda *xs, g=jitted: g(*xs).block_until_ready(), there, theirs)
                )
            except (NotImplementedError, jax.errors.JAXTypeError):
                rows.append(float("nan"))  # (jet has no rule for the determinant)
        print("|", name, "|", " | ".join(f"{row * 1e6:.0f}" for row in rows), "|", flush=True)


def brusselator(np, x):
    u, v = np.reshape(x, (2, -1))
    drift = 1.0 + u**2 * v - 4.0 * u
    return np.concatenate([
        drift + np.roll(u, 1) - 2.0 * u + np.roll(u, -1), 3.0 * u - u**2 * v
    ])  # fmt: skip


def grid(np, x):
    n = round(x.size**0.5)
    u = np.reshape(x, (n, n))
    v = np.pad(u, 1)
    diffusion = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4.0 * u
    return np.reshape(diffusion + u * (1.0 - u), (n * n,))


def sparse_jacobians() -> None:
    import asdex
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    print("| Jacobian of 10,000 unknowns | plan, ms | sweeps | call, us |")
    for name, f in (("brusselator", brusselator), ("grid", grid)):
        x = np.random.default_rng(0).uniform(0.4, 1.6, 10_000)
        jacobian = ft.sparse_jacobian(lambda x, f=f: f(np, x))
        begin = time.perf_counter()
        sweeps = jacobian.plan(x).sweeps
        plan = time.perf_counter() - begin
        jitted = ft.jit(jacobian)
        call = fastest(jitted, x)
        print(f"| {name}, functrace | {plan * 1e3:.0f} | {sweeps} | {call * 1e6:.0f} |", flush=True)
        there, theirs = jnp.asarray(x), lambda x, f=f: f(jnp, x)
        begin = time.perf_counter()
        colouring = asdex.jacobian_coloring(theirs, there)
        plan = time.perf_counter() - begin
        jitted = jax.jit(asdex.jacobian_from_coloring(theirs, colouring))
        call = fastest(lambda x, g=jitted: g(x).data.block_until_ready(), there)
        count = colouring.num_colors
        print(f"| {name}, asdex | {plan * 1e3:.0f} | {count} | {call * 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["laplacians", "sparse_jacobians"]
    for function in (laplacians, sparse_jacobians):
        if function.__name__ in chosen:
            function()
