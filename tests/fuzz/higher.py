"""Taylor mode, sparse derivatives and residual policies of random programs, each against a route that
shares none of their code.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import functrace as ft
from tests.fuzz.gradients import _directions, _finite, _same, reference, scalar, setting
from tests.fuzz.variants import Case, Raised, _partial, attempted

MOST_ELEMENTS = 40
"""Elements of the arguments up to which dense Jacobians are compared."""


def _functions(case: Case) -> Iterator[tuple[Callable[..., Any], Callable[..., Any], list[Any]]]:
    """The function of its real results, their weighted sum, and its arguments, at two sets of
    values; nothing where there is nothing to differentiate."""
    for k in (0, 1):
        if reference(case, k) is None:
            continue
        wrt, xs, weights = setting(case, k)
        if any(x.dtype != np.float64 for x in xs):
            continue
        f = _partial(case, k, k, wrt)

        def real(*d: Any, f: Any = f, weights: Any = weights) -> Any:
            leaves = ft.tree.flatten(f(*d))[0]
            return [np.real(x) for x, w in zip(leaves, weights) if w is not None]

        yield real, scalar(f, weights), xs


def _found(case: Case, label: str, run: Callable[[], Any]) -> Any:
    """The result of a reference, as arrays; ``None`` if it raises or is not finite."""
    got = attempted(lambda: [np.asarray(x) for x in ft.tree.flatten(run())[0]])
    if isinstance(got, Raised):
        case.counts["variants"] += 1
        case._raised(label, got.error, None)
        return None
    return got if _finite(got) else None


def taylor_mode(case: Case) -> None:
    """`jet` against nested `jvp`; `laplacian` against the sum of second derivatives by them."""
    for f, h, xs in _functions(case):
        vs, us = _directions(xs, 5), _directions(xs, 6)

        def once(*d: Any, f: Any = f, vs: Any = vs) -> Any:
            return ft.jvp(f, d, tuple(vs))[1]

        def twice(*d: Any, once: Any = once, vs: Any = vs) -> Any:
            return ft.jvp(once, d, tuple(vs))[1]

        first = _found(case, "jvp", lambda: once(*xs))
        second = _found(case, "jvp of jvp", lambda: twice(*xs))
        bent = _found(case, "jvp along the second", lambda: ft.jvp(f, tuple(xs), tuple(us))[1])
        if first is None or second is None or bent is None:
            continue
        third = _found(case, "third jvp", lambda: ft.jvp(twice, tuple(xs), tuple(vs))[1])
        expected = [
            x for triple in zip(first, [a + b for a, b in zip(second, bent)]) for x in triple
        ]

        def jet(*d: Any, f: Any = f, vs: Any = vs, us: Any = us) -> Any:
            return ft.jet(f, d, [(v, u) for v, u in zip(vs, us)])[1]

        flat = lambda *d, jet=jet: ft.tree.flatten(jet(*d))[0]
        _same(case, "jet", lambda: flat(*xs), expected, xs)
        _same(case, "jit of jet", lambda: ft.jit(flat)(*xs), expected, xs)
        if third is not None:
            straight = [(v, np.zeros_like(v), None) for v in vs]
            _same(
                case, "third order",
                lambda: [s[2] for s in ft.jet(f, xs, straight)[1]], third, xs,
            )  # fmt: skip
        if sum(x.size for x in xs) > MOST_ELEMENTS:
            continue
        nums = tuple(range(len(xs)))
        hessian = attempted(lambda: ft.jacfwd(ft.jacfwd(f, nums), nums)(*xs))
        if isinstance(hessian, Raised):
            continue
        traces: list[Any] = []
        for blocks in hessian:
            found: Any = 0.0
            for n in nums:
                block = np.asarray(blocks[n][n])
                size = xs[n].size
                outer = block.shape[: block.ndim - 2 * xs[n].ndim]
                found = found + np.trace(block.reshape(*outer, size, size), axis1=-2, axis2=-1)
            traces.append(np.asarray(found))
        if not _finite(traces):
            continue
        laplacian = ft.laplacian(f, nums)
        _same(case, "laplacian", lambda: laplacian(*xs), traces, xs)
        _same(case, "jit of laplacian", lambda: ft.jit(laplacian)(*xs), traces, xs)
        if all(x.ndim for x in xs):
            batch = [np.stack([x, x]) for x in xs]
            _same(
                case, "vmap of laplacian",
                lambda: [x[1] for x in ft.vmap(laplacian)(*batch)], traces, xs,
            )  # fmt: skip
        _same(
            case, "laplacian of checkpoint",
            lambda: ft.laplacian(ft.checkpoint(f), nums)(*xs), traces, xs,
        )  # fmt: skip


def _dense(blocks: Any, f_sizes: list[int], xs: list[Any]) -> Any:
    rows = [
        np.concatenate([np.asarray(b).reshape(size, x.size) for b, x in zip(row, xs)], axis=1)
        for row, size in zip(blocks, f_sizes)
    ]
    return np.concatenate(rows) if rows else np.zeros((0, sum(x.size for x in xs)))


def sparse_derivatives(case: Case) -> None:
    """`sparse_jacobian` and `sparse_hessian` against dense ones, in every mode."""
    for f, h, xs in _functions(case):
        if sum(x.size for x in xs) > MOST_ELEMENTS:
            continue
        nums = tuple(range(len(xs)))
        values = f(*xs)
        sizes = [np.asarray(v).size for v in values]
        expected = attempted(lambda: _dense(ft.jacfwd(f, nums)(*xs), sizes, xs))
        if isinstance(expected, Raised) or not _finite([expected]):
            continue
        for mode in ("auto", "forward", "reverse", "both"):
            jacobian = ft.sparse_jacobian(f, nums, mode=mode)
            _same(
                case, f"sparse_jacobian {mode}",
                lambda: [jacobian(*xs).toarray()], [expected], xs,
            )  # fmt: skip
        _same(
            case, "jit of sparse_jacobian",
            lambda: [ft.jit(jacobian)(*xs).toarray()], [expected], xs,
        )  # fmt: skip
        if all(x.ndim for x in xs):
            other = [x + 0.25 for x in xs]
            again = attempted(lambda: _dense(ft.jacfwd(f, nums)(*other), sizes, xs))
            if not isinstance(again, Raised) and _finite([again]):
                batch = [np.stack(pair) for pair in zip(xs, other)]
                _same(
                    case, "vmap of sparse_jacobian",
                    lambda: list(ft.vmap(lambda *d: jacobian(*d).toarray())(*batch)),
                    [expected, again], xs,
                )  # fmt: skip
        hessian = attempted(
            lambda: _dense(ft.jacfwd(ft.grad(h, nums), nums)(*xs), [x.size for x in xs], xs)
        )
        if isinstance(hessian, Raised) or not _finite([hessian]):
            continue
        _same(
            case, "sparse_hessian",
            lambda: [ft.sparse_hessian(h, nums)(*xs).toarray()], [hessian], xs,
        )  # fmt: skip


def residual_policies(case: Case) -> None:
    """Gradients under random policies: those without a policy."""
    p = ft.policies
    rng = np.random.default_rng([ord(c) for c in case.program.seed])
    parts: list[Any] = [
        p.save, p.recompute, p.save_dots, p.recompute_elementwise, p.compress("zlib"), p.offload(),
        p.pack(lambda x: (x.tobytes(), x.shape, x.dtype),
               lambda t: np.frombuffer(t[0], t[2]).reshape(t[1])),
        p.save_by(lambda c: c.flops > 4 * c.aval.size), p.save_by(lambda c: c.nbytes > 16),
    ]  # fmt: skip

    def term(depth: int) -> Any:
        kind = rng.integers(4) if depth else 0
        if kind == 0:
            return parts[rng.integers(len(parts))]
        if kind == 1:
            return ~term(depth - 1)
        a, b = term(depth - 1), term(depth - 1)
        return a | b if kind == 2 else a & b

    for f, h, xs in _functions(case):
        gradient = attempted(lambda: ft.grad(h, tuple(range(len(xs))))(*xs))
        if isinstance(gradient, Raised):
            continue
        gradient = [np.asarray(g) for g in gradient]
        nums = tuple(range(len(xs)))
        us = _directions(xs, 3)
        along = attempted(
            lambda: [np.asarray(x) for x in ft.jvp(ft.grad(h, nums), tuple(xs), tuple(us))[1]]
        )
        for _ in range(3):
            made = attempted(lambda: term(2))
            if isinstance(made, Raised):
                continue
            g = ft.checkpoint(h, policy=made)
            _same(case, f"grad under {made!r}", lambda: ft.grad(g, nums)(*xs), gradient, xs)
            _same(case, f"jit of grad under {made!r}",
                  lambda: ft.jit(ft.grad(g, nums))(*xs), gradient, xs)  # fmt: skip
            if not isinstance(along, Raised) and _finite(along):
                _same(case, f"jvp of grad under {made!r}",
                      lambda: ft.jvp(ft.grad(g, nums), tuple(xs), tuple(us))[1], along, xs,
                      1e-7)  # fmt: skip
            if all(x.ndim for x in xs):
                batch = [np.stack([x, x]) for x in xs]
                _same(case, f"vmap of grad under {made!r}",
                      lambda: [x[1] for x in ft.vmap(ft.grad(g, nums))(*batch)], gradient, xs)  # fmt: skip
                _same(case, f"grad of vmap under {made!r}",
                      lambda: [x[1] for x in ft.grad(lambda *d: np.sum(ft.vmap(g)(*d)), nums)(*batch)],
                      gradient, xs)  # fmt: skip


HIGHER: dict[str, Callable[[Case], None]] = {
    f.__name__: f
    for f in (taylor_mode, sparse_derivatives, residual_policies)
    if f is not sparse_derivatives or importlib.util.find_spec("scipy")
}
