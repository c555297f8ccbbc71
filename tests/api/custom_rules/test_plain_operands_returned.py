"""A function with rules of its own returns a plain argument as it is: a write to it is seen as in
NumPy, or refused.
"""

from __future__ import annotations

import numpy as np
import pytest

import functrace as ft
from functrace.errors import CapturedArrayError


def _pair(x, y):
    return x * 1.0, y


def _view(x, y):
    return x * 1.0, y[::-1]


def _closed(x, y):
    return x * 1.0, CLOSED


CLOSED = np.ones(3)


def _custom_vjp(f):
    made = ft.custom_vjp(f)
    made.defvjp(lambda x, y: (f(x, y), None), lambda _, bars: (bars[0], bars[1]))
    return made


def _custom_jvp(f):
    made = ft.custom_jvp(f)
    made.defjvp(lambda primals, tangents: (f(*primals), tuple(tangents)))
    return made


def _custom_vmap(f):
    made = ft.custom_vmap(f)
    made.def_vmap(lambda size, batched, x, y: (f(x, y), (batched[0], False)))
    return made


def _checkpoint(f):
    return ft.checkpoint(f)


def _cond(f):
    return lambda x, y: ft.cond(np.sum(x) > 0.0, f, lambda x, y: (x * 2.0, y), x, y)


TRANSFORMS = {
    "value_and_grad": lambda f: lambda x, y: ft.value_and_grad(f)(x, y)[0],
    "jvp": lambda f: lambda x, y: ft.jvp(lambda x: f(x, y), (x,), (x,))[0],
    "vjp": lambda f: lambda x, y: ft.vjp(lambda x: f(x, y), x)[0],
    "linearize": lambda f: lambda x, y: ft.linearize(lambda x: f(x, y), x)[0],
    "nested": lambda f: lambda x, y: ft.jvp(lambda x: ft.value_and_grad(f)(x, y)[0], (x,), (x,))[0],
    "vmap": lambda f: lambda x, y: ft.vmap(f, in_axes=(0, None))(np.stack([x, x]), y)[0],
    "jit": ft.jit,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("returned", [_pair, _view, _closed])
@pytest.mark.parametrize("written", ["operand", "result", "after", "never"])
@pytest.mark.parametrize("holder", [_custom_vjp, _custom_jvp, _custom_vmap, _checkpoint, _cond])
def test_a_write_is_visible_or_raises(holder, written, returned):
    held = holder(returned)

    def f(x, y):
        a, b = held(x, y)
        if written == "after":
            return np.sum(a) + np.sum(b) * (y.__setitem__(0, 100.0) is None)
        target = b if written == "result" else CLOSED if returned is _closed else y
        if written != "never":
            target[0] = 100.0
        return np.sum(a) + np.sum(b) + np.sum(y)

    CLOSED[:] = 1.0
    expected = f(np.ones(3), np.ones(3))
    for name, transform in TRANSFORMS.items():
        CLOSED[:] = 1.0
        try:
            found = transform(f)(np.ones(3), np.ones(3))
        except CapturedArrayError as error:
            assert written != "never", name
            assert "fix:" in str(error)
            assert "test_plain_operands_returned.py" in str(error)
        else:
            assert found == expected, name
