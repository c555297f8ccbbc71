"""Derivatives of random programs: against differences, against each other, in compositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrace as ft
from tests.fuzz.generate import KINDS
from tests.fuzz.variants import Case, Failed, Raised, _chosen, _partial, _spoil, attempted

STEP = 1e-5


def _directions(xs: list[Any], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for x in xs:
        v = rng.normal(size=x.shape)
        found.append(
            (v + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else v).astype(x.dtype)
        )
    return [np.asarray(v) for v in found]


def _weights(expected: Any, seed: int) -> list[Any]:
    """A weight for every leaf of the results with derivatives; ``None`` for the others."""
    rng = np.random.default_rng(seed)
    weights: list[Any] = []
    for leaf in ft.tree.flatten(expected)[0]:
        y = np.asarray(leaf)
        weights.append(
            rng.normal(size=y.shape).astype(y.real.dtype) if y.dtype.kind in "fc" else None
        )
    return weights


def scalar(f: Callable[..., Any], weights: list[Any]) -> Callable[..., Any]:
    """The weighted sum of the real parts of the results."""

    def h(*xs: Any) -> Any:
        total: Any = 0.0
        for leaf, w in zip(ft.tree.flatten(f(*xs))[0], weights):
            if w is not None:
                total = total + np.sum(np.real(leaf) * w)
        return total

    return h


def _plain_scalar(case: Case, k: int, wrt: list[int], weights: list[Any]) -> Callable[..., Any]:
    f = case.plain(k)

    def run(*some: Any) -> Any:
        whole = case.args(k)
        for i, x in zip(wrt, some):
            whole[i] = np.array(x)
        return f(*whole)

    return scalar(run, weights)


def slope(h: Callable[..., Any], xs: list[Any], vs: list[Any]) -> tuple[float, float] | None:
    """The derivative of ``h`` along ``vs`` by differences, and how far off it may be; ``None``
    where it is not smooth enough to tell.
    """
    if any(x.dtype not in (np.float64, np.complex128) for x in xs):
        return None

    def at(t: float) -> Any:
        return attempted(lambda: float(h(*[np.asarray(x + t * v) for x, v in zip(xs, vs)])))

    values = [at(t) for t in (-STEP, 0.0, STEP, STEP / 2, -STEP / 2)]
    if any(isinstance(v, Raised) or not np.isfinite(v) for v in values):
        return None
    low, middle, high, half, half_low = values
    backward, forward, central, finer = (
        (middle - low) / STEP,
        (high - middle) / STEP,
        (high - low) / (2 * STEP),
        (half - half_low) / STEP,
    )
    size = 1.0 + abs(central)
    if size > 1e4 or abs(forward - backward) > 1e-3 * size or abs(central - finer) > 1e-6 * size:
        return None
    return finer, 1e-5 * size + 5.0 * abs(forward - backward)


def _dot(a: list[Any], b: list[Any]) -> float:
    return float(sum(np.sum(np.real(np.asarray(x) * np.asarray(y))) for x, y in zip(a, b)))


def _finite(trees: Any) -> bool:
    return all(
        np.all(np.isfinite(x)) and np.max(np.abs(x), initial=0.0) < 1e6
        for x in ft.tree.flatten(trees)[0]
        if np.asarray(x).dtype.kind in "fc"
    )


def setting(case: Case, k: int) -> Any:
    """The inputs of a derivative check: places and values of arguments, weights; ``None`` if there
    is nothing to differentiate.
    """
    expected = case.expected(k)
    wrt, xs = _chosen(case, k)
    if isinstance(expected, Raised) or not wrt or not _finite(expected) or not _finite(xs):
        return None
    weights = _weights(expected, 7)
    return (wrt, xs, weights) if any(w is not None for w in weights) else None


def reference(case: Case, k: int) -> Any:
    """The gradient by un-jitted ``vjp``, checked against differences; ``None`` if it raises or
    there is none.
    """
    key = ("gradient", k)
    if key in case._known:
        return case._known[key]
    case._known[key] = None
    given = setting(case, k)
    if given is None:
        return None
    wrt, xs, weights = given
    f = _partial(case, k, k, wrt)

    def run() -> Any:
        value, pullback = ft.vjp(scalar(f, weights), *xs)
        return [np.asarray(x) for x in pullback(np.asarray(1.0, np.asarray(value).dtype)[()])]

    gradient = attempted(run)
    if isinstance(gradient, Raised):
        case.counts["variants"] += 1
        case._raised("gradient", gradient.error, None)
        return None
    if not _finite(gradient):
        return None
    vs = _directions(xs, 11)
    by_differences = (
        slope(_plain_scalar(case, k, wrt, weights), xs, vs)
        if KINDS[case.program.kind].smooth
        else None
    )
    case.counts["variants"] += 1
    if by_differences is not None:
        found = _dot(gradient, vs)
        if abs(found - by_differences[0]) > by_differences[1]:
            raise Failed(
                "different",
                f"vjp against differences {k}",
                f"{found} instead of {by_differences[0]}",
            )
        case.counts["by differences"] += 1
    case.counts["equal"] += 1
    case._known[key] = gradient
    return gradient


def _same(
    case: Case,
    label: str,
    run: Callable[[], Any],
    gradient: list[Any],
    xs: list[Any],
    tol: float = 1e-8,
) -> None:
    tol = tol if all(x.dtype in (np.float64, np.complex128) for x in xs) else 1e-3
    scale = max(1.0, max((float(np.max(np.abs(g), initial=0.0)) for g in gradient), default=1.0))
    got = case.check(label, lambda: [np.asarray(g) for g in run()],
    [np.asarray(g) for g in gradient], xs,
                     rtol=tol, atol=tol * scale, exact=False)  # fmt: skip
    _spoil(got)


def vjp_again(case: Case) -> None:
    """Gradients at every set, in turn, twice: caches must not mix them up."""
    for k in (0, 1, 2, 0, 1):
        gradient = reference(case, k)
        if gradient is None:
            continue
        wrt, xs, weights = setting(case, k)
        nums = tuple(range(len(xs)))
        f = scalar(_partial(case, k, k, wrt), weights)
        _same(case, f"grad {k}", lambda: ft.grad(f, nums)(*xs), gradient, xs)


def forward_mode(case: Case) -> None:
    for k in (0, 1):
        gradient = reference(case, k)
        if gradient is None:
            continue
        wrt, xs, weights = setting(case, k)
        f = scalar(_partial(case, k, k, wrt), weights)
        vs = _directions(xs, 3)
        expected = [np.asarray(_dot(gradient, vs))]
        as_float = lambda y: [np.asarray(np.real(y), np.float64)]
        _same(case, f"jvp {k}", lambda: as_float(ft.jvp(f, tuple(xs), tuple(vs))[1]), expected, xs)
        _same(case, f"linearize {k}", lambda: as_float(ft.linearize(f, *xs)[1](*vs)), expected, xs)
        jitted = ft.jit(lambda a, b: ft.jvp(f, tuple(a), tuple(b))[1])
        for times in range(2):
            _same(case, f"jit of jvp {k} {times}", lambda: as_float(jitted(xs, vs)), expected, xs)


def jit_gradients(case: Case) -> None:
    """jit of grad and grad of jit, one function for all values; literals and what is closed over
    stay.
    """
    gradient = reference(case, 0)
    if gradient is None:
        return
    wrt, xs, weights = setting(case, 0)
    f = scalar(_partial(case, 0, 0, wrt), weights)
    nums = tuple(range(len(xs)))
    jitted, inner = ft.jit(ft.grad(f, nums)), ft.jit(f)
    for times in range(3):
        _same(case, f"jit of grad {times}", lambda: jitted(*xs), gradient, xs)
    for times in range(2):
        _same(case, f"grad of jit {times}", lambda: ft.grad(inner, nums)(*xs), gradient, xs)
    moved = [x * 0.5 for x in xs]
    expected = attempted(lambda: ft.grad(f, nums)(*moved))
    if not isinstance(expected, Raised) and _finite(expected):
        _same(case, "jit of grad, other values", lambda: jitted(*moved), list(expected), moved)
        _same(
            case,
            "grad of jit, other values",
            lambda: ft.grad(inner, nums)(*moved),
            list(expected),
            moved,
        )


def checkpoint_gradients(case: Case) -> None:
    gradient = reference(case, 0)
    if gradient is None:
        return
    wrt, xs, weights = setting(case, 0)
    f = _partial(case, 0, 0, wrt)
    nums = tuple(range(len(xs)))
    for times in range(2):
        _same(
            case,
            f"grad of checkpoint {times}",
            lambda: ft.grad(scalar(ft.checkpoint(f), weights), nums)(*xs),
            gradient,
            xs,
        )
    _same(
        case,
        "grad of checkpoint of scalar",
        lambda: ft.grad(ft.checkpoint(scalar(f, weights)), nums)(*xs),
        gradient,
        xs,
    )
    _same(
        case,
        "jit of grad of checkpoint",
        lambda: ft.jit(ft.grad(scalar(ft.checkpoint(f), weights), nums))(*xs),
        gradient,
        xs,
    )
    chosen = lambda *d: ft.cond(
        np.sum(d[0]).real > -1e300, scalar(f, weights), lambda *d: np.sum(d[0]).real * 0.0, *d
    )
    _same(case, "grad of cond", lambda: ft.grad(chosen, nums)(*xs), gradient, xs)

    def closed(*d: Any) -> Any:
        return ft.checkpoint(lambda: scalar(f, weights)(*d))()

    _same(case, "grad of checkpoint of a closure", lambda: ft.grad(closed, nums)(*xs), gradient, xs)
    _same(
        case,
        "grad of jit of a closure",
        lambda: ft.grad(lambda *d: ft.jit(lambda: scalar(f, weights)(*d))(), nums)(*xs),
        gradient,
        xs,
    )


def mapped_gradients(case: Case) -> None:
    """vmap of grad and grad of vmap, against grad of every example."""
    if reference(case, 0) is None:
        return
    wrt, xs, weights = setting(case, 0)
    f = scalar(_partial(case, 0, 0, wrt), weights)
    nums = tuple(range(len(xs)))
    others = [_chosen(case, k)[1] for k in range(3)]
    batch = [np.stack([row[i] for row in others]) for i in range(len(xs))]
    others = [
        [b[t] for b in batch] for t in range(3)
    ]  # as a loop takes them: scalars of what has one axis
    rows = [attempted(lambda row=row: ft.grad(f, nums)(*row)) for row in others]
    if any(isinstance(row, Raised) or not _finite(row) for row in rows):
        return
    expected = [np.stack([np.asarray(row[i]) for row in rows]) for i in range(len(xs))]
    _same(case, "vmap of grad", lambda: ft.vmap(ft.grad(f, nums))(*batch), expected, batch)
    _same(
        case,
        "grad of vmap",
        lambda: ft.grad(lambda *d: np.sum(ft.vmap(f)(*d)), nums)(*batch),
        expected,
        batch,
    )
    _same(
        case,
        "jit of vmap of grad",
        lambda: ft.jit(ft.vmap(ft.grad(f, nums)))(*batch),
        expected,
        batch,
    )
    if len(xs) > 1:
        first = lambda t, *rest: f(t, *[np.array(x) for x in rest])
        one = [attempted(lambda row=row: ft.grad(first)(row[0], *xs[1:])) for row in others]
        if not any(isinstance(row, Raised) or not _finite(row) for row in one):
            stack = [np.stack([np.asarray(row) for row in one])]
            axes = (0, *(None,) * (len(xs) - 1))
            _same(
                case,
                "vmap of grad of one",
                lambda: [ft.vmap(ft.grad(first), in_axes=axes)(batch[0], *xs[1:])],
                stack,
                batch,
            )
            _same(
                case,
                "grad of vmap of a closure",
                lambda: [
                    ft.grad(lambda d: np.sum(ft.vmap(lambda t: first(t, *xs[1:]))(d)))(batch[0])
                ],
                stack,
                batch,
            )


def second_order(case: Case) -> None:
    gradient = reference(case, 0)
    if gradient is None:
        return
    wrt, xs, weights = setting(case, 0)
    if any(x.dtype != np.float64 for x in xs):
        return
    f = scalar(_partial(case, 0, 0, wrt), weights)
    nums = tuple(range(len(xs)))
    vs, us = _directions(xs, 5), _directions(xs, 6)
    df = ft.grad(f, nums)

    def along(*d: Any) -> Any:
        total: Any = 0.0
        for g, u in zip(df(*d), us):
            total = total + np.sum(g * u)
        return total

    forward = attempted(lambda: [np.asarray(g) for g in ft.jvp(df, tuple(xs), tuple(vs))[1]])
    if isinstance(forward, Raised):
        case.counts["variants"] += 1
        case._raised("jvp of grad", forward.error, None)
        return
    if not _finite(forward):
        return
    by_differences = (
        slope(lambda *d: sum(np.sum(np.asarray(g) * u) for g, u in zip(df(*d), us)), xs, vs)
        if KINDS[case.program.kind].smooth
        else None
    )
    if by_differences is not None:
        found = _dot(forward, us)
        case.counts["variants"] += 1
        if abs(found - by_differences[0]) > 2.0 * by_differences[1]:
            raise Failed(
                "different",
                "jvp of grad against differences",
                f"{found} instead of {by_differences[0]}",
            )
        case.counts["equal"] += 1
        case.counts["by differences"] += 1
    backward = attempted(lambda: [np.asarray(g) for g in ft.grad(along, nums)(*xs)])
    if isinstance(backward, Raised):
        case.counts["variants"] += 1
        case._raised("grad of grad", backward.error, None)
        return
    if not _finite(backward):
        return
    _same(
        case,
        "grad of grad and jvp of grad",
        lambda: [np.asarray(_dot(backward, vs))],
        [np.asarray(_dot(forward, us))],
        xs,
        1e-7,
    )
    _same(case, "jit of grad of grad", lambda: ft.jit(ft.grad(along, nums))(*xs), backward, xs)
    _same(
        case,
        "jit of jvp of grad",
        lambda: ft.jit(lambda a, b: ft.jvp(df, tuple(a), tuple(b))[1])(xs, vs),
        forward,
        xs,
    )
    _same(
        case,
        "grad of jvp",
        lambda: ft.grad(lambda *d: ft.jvp(f, d, tuple(us))[1], nums)(*xs),
        backward,
        xs,
    )
    batch = [np.stack([x, x]) for x in xs]
    if all(x.ndim for x in xs):  # an example of a batch with one axis is a scalar, and no 0-d array
        _same(
            case,
            "vmap of grad of grad",
            lambda: [g[1] for g in ft.vmap(ft.grad(along, nums))(*batch)],
            backward,
            xs,
        )
    _same(
        case,
        "grad of grad of checkpoint",
        lambda: ft.grad(
            lambda *d: sum(np.sum(g * u) for g, u in zip(ft.grad(ft.checkpoint(f), nums)(*d), us)),
            nums,
        )(*xs),
        backward,
        xs,
    )


def pullback_of_outputs(case: Case) -> None:
    """The pullback of all results at once against jvp: the dot test, at every dtype; the pullback
    is called twice.
    """
    for k in (0, 1):
        given = setting(case, k)
        if given is None:
            continue
        wrt, xs, _ = given
        f = _partial(case, k, k, wrt)
        rng = np.random.default_rng(3)

        def run() -> Any:
            value, pullback = ft.vjp(f, *xs)
            leaves, treedef = ft.tree.flatten(value)
            bars = []
            for leaf in leaves:
                y = np.asarray(leaf)
                bar = rng.normal(size=y.shape) + (
                    1j * rng.normal(size=y.shape) if y.dtype.kind == "c" else 0
                )
                bars.append(
                    np.asarray(bar).astype(y.dtype)
                    if y.dtype.kind in "fc"
                    else np.zeros(y.shape, y.dtype)
                )
            first = [np.array(g) for g in pullback(ft.tree.unflatten(treedef, bars))]
            again = [np.array(g) for g in pullback(ft.tree.unflatten(treedef, bars))]
            return bars, first, again

        got = attempted(run)
        case.counts["variants"] += 1
        if isinstance(got, Raised):
            case._raised("pullback", got.error, None)
            continue
        bars, first, again = got
        if not all(
            np.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True) for a, b in zip(first, again)
        ):
            raise Failed("different", "pullback twice", f"{again} instead of {first}")
        vs = _directions(xs, 9)
        tangents = attempted(lambda: ft.tree.flatten(ft.jvp(f, tuple(xs), tuple(vs))[1])[0])
        if isinstance(tangents, Raised):
            case._raised("jvp", tangents.error, None)
            continue
        chosen = [(b, t) for b, t in zip(bars, tangents) if np.asarray(b).dtype.kind in "fc"]
        if not _finite(first) or not _finite([t for _, t in chosen]):
            continue
        left, right = _dot([b for b, _ in chosen], [t for _, t in chosen]), _dot(first, vs)
        low = any(
            np.asarray(t).dtype in (np.float32, np.complex64)
            for t in [*xs, *[b for b, _ in chosen]]
        )
        size = 1.0 + sum(float(np.sum(np.abs(np.asarray(b) * np.asarray(t)))) for b, t in chosen)
        size += sum(float(np.sum(np.abs(np.asarray(b) * np.asarray(t)))) for b, t in zip(first, vs))
        if abs(left - right) > (1e-3 if low else 1e-8) * size:
            raise Failed(
                "different",
                f"dot test {k}",
                f"cotangents of results with tangents {left}, gradients with directions {right}",
            )
        case.counts["equal"] += 1


GRADIENTS: dict[str, Callable[[Case], None]] = {
    f.__name__: f
    for f in (
        vjp_again, forward_mode, jit_gradients, checkpoint_gradients, mapped_gradients,
        second_order, pullback_of_outputs,
    )
}  # fmt: skip
