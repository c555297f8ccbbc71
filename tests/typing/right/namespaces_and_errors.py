"""ft.numpy, ft.tree, and errors that one catches."""

import numpy as np

import functrace as ft
import functrace.numpy as fnp
from functrace.errors import ConcretizationError, FunctraceError, ShapeError


def f(x: ft.Array) -> ft.Array:
    pair = fnp.array([x[0], x[1]])
    return fnp.sum(pair) + ft.numpy.linalg.norm(x)


assert ft.grad(f)(np.ones(2)).shape == (2,)
leaves, treedef = ft.tree.flatten({"a": np.ones(2), "b": [1.0]})
assert ft.tree.unflatten(treedef, leaves)["b"] == [1.0]
sizes: dict[str, int] = ft.tree.map(np.size, {"a": np.ones(2)})
assert sizes == {"a": 2} and len(ft.tree.leaves(sizes)) == 1
try:
    ft.jit(lambda x: x if x > 0 else -x)(1.0)
except ConcretizationError as error:
    fix: str | None = error.fix
    assert fix is not None
assert issubclass(ShapeError, FunctraceError) and issubclass(ShapeError, ValueError)
kept = ft.value(np.ones(2))
assert kept.shape == (2,)
