"""Derivatives of every order through loops with ``checkpoint=`` have the bits of those through the
plain loop: random bodies, schedules and transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.control.checkpoint_expansion import plain_pairs
from functrace.control.checkpointed_reverse import checkpointed_reverse_p
from functrace.policies import binomial
from tests.oracles import assert_same
from tests.sampling import examples

SIZE = 4
STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: np.sin(a) + 0.5 * b,
    lambda a, b: np.tanh(a * b),
    lambda a, b: a * np.sum(b) * 0.2,
    lambda a, b: np.exp(-a * a) - b,
    lambda a, b: np.where(a > 0.1, a, 0.3 * b),
    lambda a, b: np.sqrt(1.0 + a**2) * np.cos(b),
]
"""Operations of two vectors."""
PRODUCTS: list[Callable[[Any, Any, Any], Any]] = [
    lambda w, m, v: np.tanh(w @ v) + m @ v,
    lambda w, m, v: (w @ m).T @ v * 0.4,
    lambda w, m, v: v @ w * np.sum(m) * 0.2,
]
"""Products of a matrix from outside, a carried matrix and a vector."""


class Body(NamedTuple):
    """A random body: two carried vectors, a carried matrix and an integer; its operations."""

    operations: tuple[tuple[int, int, int], ...]
    product: int
    picks: tuple[int, int, int]

    def __call__(self, carry: Any, x: Any, w: Any) -> Any:
        a, b, m, count = carry
        values = [a, b, x, PRODUCTS[self.product](w, m, a)]
        for kind, one, other in self.operations:
            values.append(
                STEPS[kind % len(STEPS)](values[one % len(values)], values[other % len(values)])
            )
        first, second, y = [values[-1 - k % len(values)] for k in self.picks]
        moved = np.tanh(m.T * 0.9 + np.outer(first, b))
        left = (np.tanh(first) + 0.1 * a, np.tanh(second) - b * (count % 2), moved, count + 1)
        return left, y * 1.0


NUMBERS = st.integers(0, 11)
BODIES = st.builds(
    Body,
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=4).map(tuple),
    st.integers(0, len(PRODUCTS) - 1),
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
)
CHECKPOINTS = st.one_of(st.integers(1, 9), st.just("sqrt"), st.builds(binomial, st.integers(1, 5)))


class Case(NamedTuple):
    """A loop, and arguments of its loss."""

    body: Body
    reverse: bool
    w: Any
    start: tuple[Any, Any, Any]
    xs: Any
    batch: Any

    def loss(self, checkpoint: Any) -> Callable[..., Any]:
        """Return a loss of matrix, start and slices."""

        def f(w: Any, start: Any, xs: Any) -> Any:
            end, ys = ft.scan(
                lambda carry, x: self.body(carry, x, w), (*start, np.int64(0)), xs,
                reverse=self.reverse, checkpoint=checkpoint,
            )  # fmt: skip
            return sum(np.sum(np.sin(e)) for e in end[:3]) + np.sum(ys * ys) * 0.5

        return f


def case(body: Body, steps: int, seed: int, reverse: bool) -> Case:
    """Return a loop with random arguments."""
    rng = np.random.default_rng(seed)
    start = (rng.normal(size=SIZE), rng.normal(size=SIZE), rng.normal(size=(SIZE, SIZE)))
    if seed % 2:
        start = (*start[:2], np.asfortranarray(start[2]))
    w = rng.normal(size=(SIZE, SIZE)) * 0.5
    xs, batch = rng.normal(size=(steps, SIZE)), rng.normal(size=(2, steps, SIZE))
    return Case(body, reverse, w, start, xs, batch)


def squares(tree: Any) -> Any:
    """Return the sum of squares of all leaves."""
    return sum(np.sum(leaf**2) for leaf in ft.tree.leaves(tree))


TRANSFORMS: dict[str, Callable[[Callable[..., Any], Case], Any]] = {
    "grad": lambda f, c: ft.grad(f, (0, 1, 2))(c.w, c.start, c.xs),
    "vmap of grad": lambda f, c: ft.vmap(ft.grad(f, (0, 1, 2)), (None, None, 0))(
        c.w, c.start, c.batch
    ),
    "vmap of grad, by the matrix": lambda f, c: ft.vmap(ft.grad(f, (0, 1, 2)), (0, None, None))(
        np.stack([c.w, c.w.T]), c.start, c.xs
    ),
    "grad of vmap": lambda f, c: ft.grad(
        lambda w: np.sum(ft.vmap(lambda xs: f(w, c.start, xs))(c.batch))
    )(c.w),
    "jvp of grad": lambda f, c: ft.jvp(
        ft.grad(f, (0, 1, 2)), (c.w, c.start, c.xs), (c.w, c.start, c.xs)
    ),
    "jvp of grad, by the matrix": lambda f, c: ft.jvp(
        lambda w: ft.grad(f, (0, 1, 2))(w, c.start, c.xs), (c.w,), (c.w.T,)
    ),
    "hessian": lambda f, c: ft.hessian(f, 2)(c.w, c.start, c.xs),
    "vmap of hessian": lambda f, c: ft.vmap(ft.hessian(f, 1), (None, None, 0))(
        c.w, c.start, c.batch
    ),
    "jvp of hessian": lambda f, c: ft.jvp(
        lambda xs: ft.hessian(f, 2)(c.w, c.start, xs), (c.xs,), (c.batch[0],)
    ),
    "grad of grad": lambda f, c: ft.grad(
        lambda w: squares(ft.grad(f, (0, 1, 2))(w, c.start, c.xs))
    )(c.w),
    "jacrev of grad": lambda f, c: ft.jacrev(ft.grad(f, 2))(c.w, c.start, c.xs),
    "grad of vmap of grad": lambda f, c: ft.grad(
        lambda w: squares(ft.vmap(ft.grad(f, 2), (None, None, 0))(w, c.start, c.batch))
    )(c.w),
    "grad of jvp of grad": lambda f, c: ft.grad(
        lambda xs: squares(
            ft.jvp(lambda w: ft.grad(f)(w, c.start, xs), (c.w,), (c.w.T,))[1]
        )
    )(c.xs),
    "grad of grad of grad": lambda f, c: ft.grad(
        lambda w: squares(ft.grad(lambda w: squares(ft.grad(f, 2)(w, c.start, c.xs)))(w))
    )(c.w),
    "pullback of a pullback": lambda f, c: ft.vjp(
        lambda w: ft.vjp(lambda xs: f(w, c.start, xs), c.xs)[1](1.5)[0], c.w
    )[1](c.xs),
    "two pullbacks of a pullback": lambda f, c: ft.grad(
        lambda w: sum(
            squares(pull(ct))
            for pull in [ft.vjp(lambda xs: f(w, c.start, xs), c.xs)[1]]
            for ct in (1.0, 2.0)
        )
    )(c.w),
}  # fmt: skip


def same(a: Any, b: Any) -> None:
    for x, y in zip(ft.tree.leaves(a), ft.tree.leaves(b), strict=True):
        assert_same(x, y)


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.draws
@examples(16)
@given(BODIES, st.integers(1, 9), NUMBERS, st.booleans(), CHECKPOINTS)
def test_random_loops_have_the_bits_of_the_plain_loop(
    transform: Any, body: Body, steps: int, seed: int, reverse: bool, checkpoint: Any
) -> None:
    one = case(body, steps, seed, reverse)
    same(transform(one.loss(checkpoint), one), transform(one.loss(None), one))


@pytest.mark.parametrize("name", ["grad", "jvp of grad", "grad of grad", "jacrev of grad"])
def test_jitted_derivatives_have_the_same_bits(name: str) -> None:
    """``jit`` computes products of all steps of plain loops at once, which rounds otherwise: a
    reverse pass of a reverse pass has plain loops.
    """
    one = case(Body(((0, 1, 2), (5, 4, 0)), 0, (0, 1, 2)), 7, 1, reverse=False)

    def of(checkpoint: Any) -> Callable[[Any], Any]:
        return lambda w: TRANSFORMS[name](one.loss(checkpoint), one._replace(w=w))

    expected = of(None) if name in ("grad", "jvp of grad") else ft.jit(of(None))
    same(ft.jit(of(binomial(2)))(one.w), expected(one.w))


OTHER_ORDER = {
    "grad of grad", "jacrev of grad", "grad of vmap of grad", "grad of jvp of grad",
    "grad of grad of grad", "pullback of a pullback", "two pullbacks of a pullback", "grad of vmap",
}  # fmt: skip
"""Here, sums under a policy are in another order: see `functrace.checkpoint`."""
POLICIES = [
    ft.policies.recompute,
    ft.policies.save_dots,
    ft.policies.recompute_elementwise,
    ft.policies.offload(),
    ft.policies.compose(~ft.policies.save_dots, ft.policies.compress("zlib")),
]


@pytest.mark.parametrize(
    "transform",
    [TRANSFORMS[name] for name in TRANSFORMS if name not in OTHER_ORDER],
    ids=[name for name in TRANSFORMS if name not in OTHER_ORDER],
)
@pytest.mark.draws
@examples(8)
@given(BODIES, st.integers(1, 3), NUMBERS, st.sampled_from(POLICIES), st.booleans())
def test_random_functions_under_policies(
    transform: Any, body: Body, steps: int, seed: int, policy: Any, whole: bool
) -> None:
    """Python loops, with the policy on the step, or on the function."""
    one = case(body, steps, seed, reverse=False)

    def loss(wrap: Callable[[Any], Any]) -> Callable[..., Any]:
        step = (lambda g: g) if whole else wrap

        def f(w: Any, start: Any, xs: Any) -> Any:
            turn = step(lambda carry, x: body(carry, x, w))
            carry, total = (*start, np.int64(0)), 0.0
            for k in range(steps):
                carry, y = turn(carry, xs[k])
                total = total + np.sum(y * y)
            return sum(np.sum(np.sin(e)) for e in carry[:3]) + total

        return wrap(f) if whole else f

    wrap = lambda g: ft.checkpoint(g, policy=policy)
    same(transform(loss(wrap), one), transform(loss(lambda g: g), one))


def in_while(f: Callable[[Any], Any], x: Any) -> Any:
    step = lambda s: (s[0] + 1, np.sin(f(s[1])))
    return ft.while_loop(lambda s: s[0] < 2, step, (np.int64(0), x))[1]


HOLDERS: dict[str, Callable[[Callable[[Any], Any], Any, Any], Any]] = {
    "scan": lambda f, x, _: np.sum(ft.scan(lambda c, a: (f(c) * a, c), x, FACTORS)[1] ** 2),
    "scan with checkpoint": lambda f, x, k: np.sum(
        ft.scan(lambda c, a: (f(c) * a, c), x, FACTORS, checkpoint=k)[1] ** 2
    ),
    "while_loop": lambda f, x, _: np.sum(in_while(f, x)),
    "cond": lambda f, x, _: np.sum(ft.cond(x[0] > -9.0, f, lambda x: x, x)),
    "checkpoint": lambda f, x, _: np.sum(ft.checkpoint(f)(x)),
    "checkpoint in scan in checkpoint": lambda f, x, _: np.sum(
        ft.checkpoint(lambda x: ft.scan(lambda c, a: (ft.checkpoint(f)(c) * a, c), x, FACTORS)[0])(
            x
        )
    ),
    "jit": lambda f, x, _: np.sum(ft.jit(lambda x: f(x) * 1.5)(x)),
    "vmap": lambda f, x, _: np.sum(ft.vmap(f)(np.stack([x, 2.0 * x])) ** 2),
}
FACTORS = np.array([0.4, -0.9, 0.7])
INNER: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda x, k: (lambda end, ys: end + np.sum(ys, 0))(
        *ft.scan(lambda c, a: (np.sin(c) * a + 0.1 * x, c * c), x, np.arange(1.0, 6.0), checkpoint=k)
    ),
    "while_loop": lambda x, k: ft.while_loop(
        lambda s: s[0] < 5, lambda s: (s[0] + 1, np.sin(s[1]) + 0.1 * x), (np.int64(0), x),
        checkpoint=k,
    )[1],
}  # fmt: skip
POINT = np.array([0.3, -0.8, 1.1])
OF_ONE: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "grad": lambda f: ft.grad(f)(POINT),
    "jvp of grad": lambda f: ft.jvp(ft.grad(f), (POINT,), (POINT,)),
    "hessian": lambda f: ft.hessian(f)(POINT),
    "vmap of hessian": lambda f: ft.vmap(ft.hessian(f))(np.stack([POINT, -POINT])),
    "jvp of hessian": lambda f: ft.jvp(ft.hessian(f), (POINT,), (POINT,)),
    "linearize of grad": lambda f: ft.linearize(ft.grad(f), POINT)[1](POINT),
    "grad of grad": lambda f: ft.grad(lambda x: squares(ft.grad(f)(x)))(POINT),
}


@pytest.mark.parametrize("transform", OF_ONE)
@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_loops_inside_of_others(inner: Any, holder: Any, transform: str) -> None:
    """The operations of a checkpointed loop in the sub-programs of other operations."""

    def of(checkpoint: Any) -> Any:
        return OF_ONE[transform](lambda x: holder(lambda x: inner(x, checkpoint), x, checkpoint))

    expected, found = of(None), of(binomial(2))
    if transform in ("grad of grad", "linearize of grad"):
        for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
    else:
        same(found, expected)


ROWS = np.random.default_rng(1).normal(size=(6, 3))
PER_EXAMPLE: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(ROWS),
    "grad of vmap": lambda f: ft.grad(lambda b: np.sum(ft.vmap(f)(b)))(ROWS),
    "vmap of hessian": lambda f: ft.vmap(ft.hessian(f))(ROWS),
    "jit of vmap of hessian": lambda f: ft.jit(ft.vmap(ft.hessian(f)))(ROWS),
    "vmap of vmap of hessian": lambda f: ft.vmap(ft.vmap(ft.hessian(f)))(ROWS.reshape(2, 3, 3)),
    "vmap of grad of grad": lambda f: ft.vmap(ft.grad(lambda x: squares(ft.grad(f)(x))))(ROWS),
}


@pytest.mark.parametrize("transform", PER_EXAMPLE.values(), ids=PER_EXAMPLE)
@pytest.mark.parametrize("others_loop", [False, True])
def test_examples_that_take_other_branches_and_numbers_of_steps(
    transform: Any, others_loop: bool
) -> None:
    def of(checkpoint: Any) -> Any:
        def loop(scale: float, most: int) -> Callable[[Any], Any]:
            goes_on = lambda s: (s[0] < most) & (np.sum(s[1] ** 2) > 0.01)
            return lambda x: ft.while_loop(
                goes_on, lambda s: (s[0] + 1, np.sin(s[1]) * scale + 0.01 * x), (np.int64(0), x),
                checkpoint=checkpoint,
            )[1]  # fmt: skip

        other = loop(0.7, 9) if others_loop else lambda x: x
        return transform(lambda x: np.sum(ft.cond(x[0] > 0, loop(0.9, 20), other, x) ** 2))

    expected = of(None)
    for slots in (1, 2, 4):
        same(of(binomial(slots)), expected)


def test_a_reverse_pass_without_derivatives_keeps_its_schedule() -> None:
    """Only the reverse passes that are differentiated again keep all residuals."""
    one = case(Body(((0, 1, 2),), 0, (0, 1, 2)), 6, 0, reverse=False)
    f = one.loss(binomial(2))
    product = lambda w, v: np.sum(ft.grad(f)(w, one.start, one.xs) * v)
    program = ft.trace(product)(one.w, one.w)
    assert checkpointed_reverse_p in program.kinds
    assert checkpointed_reverse_p not in plain_pairs(program, [True, False]).kinds
    assert plain_pairs(program, [False, True]) is program
