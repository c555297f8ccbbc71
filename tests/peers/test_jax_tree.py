"""Pytrees against JAX: classes that are registered there, and results of the functions of
`jax.tree`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import functrace as ft

jax = pytest.importorskip("jax")
X = np.array([0.3, -0.7])
B = np.array([0.1, 0.2])


@jax.tree_util.register_pytree_node_class
class ByClass:
    def __init__(self, w: Any, b: Any, power: int = 2) -> None:
        self.w, self.b, self.power = w, b, power

    def tree_flatten(self) -> Any:
        return (self.w, {"b": self.b, "none": None}), self.power

    @classmethod
    def tree_unflatten(cls, power: int, children: Any) -> ByClass:
        return cls(children[0], children[1]["b"], power)


class ByFunctions(ByClass):
    pass


jax.tree_util.register_pytree_node(
    ByFunctions, lambda x: ((x.w, x.b), x.power), lambda power, parts: ByFunctions(*parts, power)
)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["power"])
@dataclasses.dataclass
class ByNames:
    w: Any
    b: Any
    power: int = 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class ByFields:
    w: Any
    b: Any
    power: int = dataclasses.field(default=2, metadata={"static": True})


@dataclasses.dataclass
class AtSight:
    w: Any
    b: Any
    power: int = jax.tree.static(default=2)


KINDS: list[Any] = [ByClass, ByFunctions, ByNames, ByFields, AtSight]


def loss(p: Any) -> Any:
    return ((p.w * p.b) ** p.power).sum()


@pytest.mark.parametrize("power", [2, 3])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_classes_registered_with_jax_are_pytrees(kind: Any, power: int) -> None:
    p = kind(X, B, power)
    known = p if kind is not AtSight else ByFields(X, B, power)
    with jax.enable_x64(True):
        expected = jax.grad(loss)(known)
    recorded: list[int] = []

    def f(p: Any) -> Any:
        recorded.append(p.power)
        return loss(p)

    jitted = ft.jit(ft.grad(f))
    for transform in (
        ft.grad(loss),
        jitted,
        jitted,
        ft.grad(ft.checkpoint(loss)),
        lambda p: ft.vjp(loss, p)[1](1.0)[0],
    ):
        found = transform(p)
        assert type(found) is kind and found.power == power
        np.testing.assert_allclose(found.w, expected.w, rtol=1e-14)
        np.testing.assert_allclose(found.b, expected.b, rtol=1e-14)
    assert recorded == [power]
    jitted(kind(X, B, power + 1))
    assert recorded == [power, power + 1]
    assert ft.vmap(loss)(kind(np.stack([X, X]), np.stack([B, B]), power)).shape == (2,)
    assert [len(ft.tree.leaves(t)) for t in (p, kind(1.0, None))] == [
        len(jax.tree.leaves(known)),
        1,
    ]


NEST = {"w": [1.0, (2.0, None)], "b": ByFields(3.0, [4.0, 5.0]), "a": ()}
FUNCTIONS: dict[str, Any] = {
    "leaves": lambda t: t.leaves(NEST),
    "is_leaf": lambda t: t.leaves(NEST, is_leaf=lambda x: isinstance(x, list)),
    "map": lambda t: t.map(lambda x, y: x * y, NEST, NEST),
    "reduce": lambda t: t.reduce(lambda a, b: a - b, NEST),
    "reduce from": lambda t: t.reduce(lambda a, b: a - b, NEST, 10.0),
    "reduce_associative": lambda t: t.reduce_associative(lambda a, b: a + b, NEST),
    "all": lambda t: [t.all(NEST), t.all({"x": 0.0}), t.all([])],
    "broadcast": lambda t: t.broadcast({"w": [1, 2], "b": 3, "a": ()}, NEST),
    "unflatten": lambda t: t.unflatten(t.structure(NEST), range(5)),
    "flatten": lambda t: t.flatten(NEST)[0],
    "transpose": lambda t: t.transpose(
        t.structure([0, 0]), t.structure(ByFields(0, 0)), [ByFields(1, 2), ByFields(3, 4)]
    ),
    "static": lambda t: dict(t.static(default=3).metadata),
    "leaves_with_path": lambda t: [leaf for _, leaf in t.leaves_with_path(NEST)],
    "map_with_path": lambda t: t.map_with_path(lambda path, x: (len(path), x), NEST),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tree_functions_equal_jaxs(name: str) -> None:
    assert FUNCTIONS[name](ft.tree) == FUNCTIONS[name](jax.tree)


def test_every_function_of_jax_tree_is_there() -> None:
    assert {name for name in dir(jax.tree) if not name.startswith("_")} <= set(dir(ft.tree))


def test_none_takes_the_place_of_float0() -> None:
    f = lambda p: (p["w"] ** 2).sum() * p["n"]
    found = ft.grad(f, allow_int=True)({"w": X, "n": 3})
    with jax.enable_x64(True):
        expected = jax.grad(f, allow_int=True)({"w": X, "n": 3})
    np.testing.assert_allclose(found["w"], expected["w"])
    assert found["n"] is None and expected["n"].dtype == jax.dtypes.float0
