"""Results of ``cond`` that may be an operand or a view of one: read and returned anywhere, never
written in silence.
"""

import numpy as np
import pytest

import functrace as ft

X, Y = np.arange(3.0) + 1, np.arange(3.0) + 2


def one_of(p, x, y):
    return ft.cond(p, lambda: x, lambda: y * 2)


def both_ends(x):
    doubled = x * 2
    return doubled, doubled[::-1]


BODIES = {
    "an operand": lambda p, x, y: (one_of(p, x, y), x),
    "two of one": lambda p, x, y: ft.cond(p, lambda: both_ends(x), lambda: (x * 3, x * 4)),
    "an operand, and a view": lambda p, x, y: (one_of(p, x, y)[::-1], y),
    "what the body made": lambda p, x, y: (lambda made: (one_of(p, made, y), made))(x * 2),
    "one of one": lambda p, x, y: (ft.cond(p, lambda r: r, lambda r: y * 3, one_of(p, x, y)), x),
    "the same twice": lambda p, x, y: (lambda r: (r, r))(one_of(p, x, y)),
}


def custom(f):
    @ft.custom_vjp
    def g(p, x, y):
        return f(p, x, y)

    g.defvjp(lambda p, x, y: (f(p, x, y), None), lambda _, bar: (None, bar[0], bar[1]))
    return g


WRAPPERS = {
    "checkpoint": ft.checkpoint,
    "cond": lambda f: (
        lambda p, x, y: ft.cond(x[0] > -1, f, lambda p, x, y: (x * 1, y * 1), p, x, y)
    ),
    "captured": lambda f: lambda p, x, y: ft.checkpoint(lambda: f(p, x, y))(),
    "captured outside": lambda f: (
        lambda p, x, y: (lambda pair: ft.checkpoint(lambda z: pair)(x))(f(p, x, y))
    ),
    "captured view": lambda f: (
        lambda p, x, y: (lambda a, b: (ft.checkpoint(lambda z: a[::-1])(x)[::-1], b))(*f(p, x, y))
    ),
    "custom_vjp": custom,
}
CALLS = {
    "jit": lambda f, p: ft.jit(f)(p, X, Y),
    "vmap": lambda f, p: ft.vmap(f, in_axes=(None, 0, 0))(p, X[None], Y[None])[0],
    "grad": lambda f, p: ft.value_and_grad(f, argnums=(1, 2))(p, X, Y)[0],
    "jit of grad": lambda f, p: ft.jit(ft.value_and_grad(f, argnums=(1, 2)))(p, X, Y)[0],
}


def program(body, written):
    """The sums of two results and two operands, with one of these four written to."""

    def run(p, x, y):
        x, y = x * 1.0, y * 1.0
        values = (*body(p, x, y), x, y)
        if written is not None:
            values[written][0] = 100.0
        return sum(np.sum(value) * 1000.0**k for k, value in enumerate(values))

    return run


@pytest.mark.sampled(4)
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("body", BODIES)
def test_results_that_may_be_shared_are_read_and_returned(body, wrapper):
    for p in (True, False):
        expected = program(BODIES[body], None)(p, X, Y)
        for call in CALLS.values():
            np.testing.assert_allclose(
                call(program(WRAPPERS[wrapper](BODIES[body]), None), p), expected, rtol=1e-14
            )


@pytest.mark.sampled(12)
@pytest.mark.parametrize("written", range(4))
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("body", BODIES)
def test_a_write_to_possibly_shared_memory_is_visible_or_raises(body, wrapper, written):
    for p in (True, False):
        expected = program(BODIES[body], written)(p, X, Y)
        for call in CALLS.values():
            try:
                found = call(program(WRAPPERS[wrapper](BODIES[body]), written), p)
            except ft.errors.CapturedArrayError:
                continue
            np.testing.assert_allclose(found, expected, rtol=1e-14)
