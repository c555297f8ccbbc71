"""Random programs in JAX: the same text with ``jax.numpy`` for ``np`` and JAX's transforms for
``ft``. 64-bit, not jitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import functrace as ft
from functrace.api.differentiation.jacobians import HESSIAN_MODES
from tests.fuzz.gradients import _directions, _finite, _plain_scalar, _same, scalar, setting
from tests.fuzz.variants import Case, Raised, _partial, attempted


class _Jax:
    """``ft`` as a random program sees it under JAX."""

    jit = staticmethod(jax.jit)
    checkpoint = staticmethod(jax.checkpoint)
    custom_vjp = staticmethod(jax.custom_vjp)
    custom_jvp = staticmethod(jax.custom_jvp)
    stop_gradient = staticmethod(jax.lax.stop_gradient)
    scan = staticmethod(jax.lax.scan)
    vmap = staticmethod(jax.vmap)

    @staticmethod
    def cond(
        pred: Any, taken: Callable[..., Any], other: Callable[..., Any], *operands: Any
    ) -> Any:
        return jax.lax.cond(jnp.asarray(pred), taken, other, *operands)


def _in_jax(case: Case, k: int) -> Callable[..., Any]:
    f, numbers = case.make(jnp, _Jax, [jnp.asarray(c) for c in case.closed(k)]), case.literals(k)
    return lambda *args: f(*args, numbers)


def _scalar_in_jax(f: Callable[..., Any], weights: list[Any]) -> Callable[..., Any]:
    def h(*xs: Any) -> Any:
        leaves = jax.tree.leaves(f(*xs))
        return sum(
            (jnp.sum(jnp.real(leaf) * w) for leaf, w in zip(leaves, weights) if w is not None),
            jnp.zeros(()),
        )

    return h


def against_jax(case: Case) -> None:
    """Values, gradients and second derivatives along a direction, of the first set of values; JAX's
    errors end the variant.
    """
    # primitive by primitive: what is compiled for one program serves others
    with jax.enable_x64(True), jax.disable_jit():
        _compare(case)


def _compare(case: Case) -> None:
    for k in (0, 1):
        given = setting(case, k)
        if given is None:
            return
        _, xs, weights = given
        f, g = (
            scalar(_partial(case, k, k, list(range(len(xs)))), weights),
            _scalar_in_jax(_in_jax(case, k), weights),
        )
        nums = tuple(range(len(xs)))
        found = attempted(lambda: jax.value_and_grad(g, nums)(*[jnp.asarray(x) for x in xs]))
        if isinstance(found, Raised):
            case.counts["not in JAX"] += 1
            return
        value, expected = float(found[0]), [np.asarray(x) for x in found[1]]
        if not np.isfinite(value) or not _finite(expected):
            return
        if not np.isclose(
            value,
            float(_plain_scalar(case, k, list(range(len(xs))), weights)(*xs)),
            rtol=1e-8,
            atol=1e-8,
        ):
            case.counts["JAX is not NumPy"] += (
                1  # where NumPy and JAX differ, NumPy is right, and variants.py compares with it
            )
            return
        case.counts["against JAX"] += 1
        _same(
            case,
            f"value by JAX {k}",
            lambda: [np.asarray(ft.vjp(f, *xs)[0], float)],
            [np.asarray(value)],
            xs,
        )
        _same(case, f"grad by JAX {k}", lambda: ft.grad(f, nums)(*xs), expected, xs)
        if k:
            continue
        _same(case, "jit of grad by JAX", lambda: ft.jit(ft.grad(f, nums))(*xs), expected, xs)
        _same(
            case,
            "grad of checkpoint by JAX",
            lambda: ft.grad(ft.checkpoint(f), nums)(*xs),
            expected,
            xs,
        )
        batch = [np.stack([x, x]) for x in xs]
        _same(
            case,
            "vmap of grad by JAX",
            lambda: [b[1] for b in ft.vmap(ft.grad(f, nums))(*batch)],
            expected,
            xs,
        )
        vs = _directions(xs, 3)
        second = attempted(
            lambda: jax.jvp(
                jax.grad(g, nums), tuple(map(jnp.asarray, xs)), tuple(map(jnp.asarray, vs))
            )[1]
        )
        if isinstance(second, Raised) or not _finite([np.asarray(x) for x in second]):
            continue
        case.counts["against JAX"] += 1
        curved = [np.asarray(x) for x in second]
        _same(
            case,
            "jvp of grad by JAX",
            lambda: ft.jvp(ft.grad(f, nums), tuple(xs), tuple(vs))[1],
            curved,
            xs,
            1e-7,
        )
        along = lambda *d: sum(np.sum(a * v) for a, v in zip(ft.grad(f, nums)(*d), vs))
        _same(case, "grad of grad by JAX", lambda: ft.grad(along, nums)(*xs), curved, xs, 1e-7)
        for mode in HESSIAN_MODES:
            _same(
                case,
                f"hessian {mode} by JAX",
                lambda mode=mode: _times(ft.hessian(f, nums, mode=mode)(*xs), vs),
                curved,
                xs,
                1e-7,
            )


def _times(hessian: Any, vs: list[Any]) -> list[Any]:
    """Return the product of a Hessian, by rows of blocks, with directions."""
    return [
        sum([np.tensordot(block, v, np.ndim(v)) for block, v in zip(row, vs)]) for row in hessian
    ]


JAX: dict[str, Callable[[Case], None]] = {"against_jax": against_jax}
