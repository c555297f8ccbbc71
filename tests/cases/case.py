"""One case record per way of calling NumPy: what drives the generic tests in tests/test_cases.py.

A file of this folder holds ``CASES``, a list of records for one topic. For each, the generic tests
check: eval = NumPy, aval predicts eval, jvp = differences, the dot test (transpose), vmap = loop,
second order, bad input raises its class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A call of a NumPy function.

    Args:
        name: unique, e.g. ``"sum/axis=1"``; the part before ``/`` is the primitive or function.
        call: a function of arrays in plain NumPy, ``lambda x: np.sum(x, axis=1)``. It is called on
            ndarrays (the oracle) and on traced values (the subject).
        args: the arrays; draw them with ``np.random.default_rng(seed)`` inside the domain and away
            from kinks.
        diff: positions in ``args`` to differentiate; ``()`` for functions without derivative.
        order: how many orders of derivative are checked against differences (0, 1 or 2).
        vmap: whether vmap over a leading axis of every argument equals a loop.
        tol: relative and absolute tolerance of derivative checks.
        written: whether its program can be written down; one that holds a rule in Python cannot.
        edge: argument tuples (NaN, inf, empty, 0-d, float32, complex, negative strides …) on which
            only value, dtype and shape are compared with NumPy.
        raises: ``(arguments, exception class)`` pairs of bad input.
    """

    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    diff: tuple[int, ...] = (0,)
    order: int = 2
    vmap: bool = True
    tol: float = 1e-5
    written: bool = True
    edge: tuple[tuple[Any, ...], ...] = ()
    raises: tuple[tuple[tuple[Any, ...], type[Exception]], ...] = ()
