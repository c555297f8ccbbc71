"""`functrace.tree`: flatten and unflatten pytrees of plain and of traced values; `eval_shape`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, ShapeError, TreeError

TREE = {
    "w": [np.arange(6.0).reshape(2, 3), np.float32(2.0)],
    "n": None,
    "b": (3.0, np.zeros((0, 2))),
}


def same(a: Any, b: Any) -> None:
    assert ft.tree.structure(a) == ft.tree.structure(b)
    for x, y in zip(ft.tree.leaves(a), ft.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)
        assert np.asarray(x).dtype == np.asarray(y).dtype


def test_ravel_and_back() -> None:
    vector, unravel = ft.tree.ravel(TREE)
    assert vector.shape == (8,) and vector.dtype == np.float64
    same(unravel(vector), TREE)
    with pytest.raises(ShapeError, match=r"pass shape \(8,\)"):
        unravel(vector[1:])
    assert ft.tree.ravel({})[0].shape == (0,)


def test_ravel_under_transforms() -> None:
    def loss(tree: Any) -> Any:
        vector, unravel = ft.tree.ravel(tree)
        return np.sum(vector**3) + np.sum(unravel(vector * 2.0)["w"][0])

    tree = {"w": [np.arange(4.0).reshape(2, 2), 1.5]}
    for transform in (ft.grad(loss), ft.jit(ft.grad(loss))):
        same(transform(tree), {"w": [3 * tree["w"][0] ** 2 + 2, np.float64(3 * 1.5**2)]})
    vector, unravel = ft.tree.ravel(tree)
    np.testing.assert_array_equal(
        ft.grad(lambda v: loss(unravel(v)))(vector), ft.tree.ravel(ft.grad(loss)(tree))[0]
    )


def test_partition_and_combine() -> None:
    tree = {"w": np.ones(2), "layers": [{"k": 3, "name": "a"}, None], "x": (np.zeros(1), 2.0)}
    arrays, rest = ft.tree.partition(lambda leaf: isinstance(leaf, np.ndarray), tree)
    assert arrays["layers"] == [{"k": None, "name": None}, None] and arrays["x"][1] is None
    assert rest["w"] is None and rest["layers"] == tree["layers"] and rest["x"] == (None, 2.0)
    same(ft.tree.combine(arrays, rest)["x"], tree["x"])
    assert ft.tree.combine(arrays, rest)["layers"] == tree["layers"]
    gradient = ft.grad(lambda a: np.sum(ft.tree.combine(a, rest)["w"] ** 2))(arrays)
    assert gradient["w"].tolist() == [2.0, 2.0] and gradient["layers"] == arrays["layers"]
    with pytest.raises(TreeError, match="parts of one pytree"):
        ft.tree.combine({"a": 1}, {"b": 1})


def test_paths_folds_and_transposition() -> None:
    found, treedef = ft.tree.flatten_with_path(TREE)
    assert [keys for keys, _ in found] == [("b", 0), ("b", 1), ("w", 0), ("w", 1)]
    same(ft.tree.unflatten(treedef, [leaf for _, leaf in found]), TREE)
    assert ft.tree.map_with_path(lambda keys, x: (keys[0], x), {"a": 1, "b": [2]}) == {
        "a": ("a", 1),
        "b": [("b", 2)],
    }
    assert ft.tree.reduce(lambda a, b: a + b, [1, (2, 3)]) == 6
    assert ft.tree.reduce(lambda a, b: a + b, [], 5) == 5
    outer, inner = ft.tree.structure([0, 0]), ft.tree.structure({"a": 0, "b": 0})
    assert ft.tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]) == {
        "a": [1, 3],
        "b": [2, 4],
    }


def test_swapped_function_and_tree_arguments_raise() -> None:
    keep = lambda leaf: isinstance(leaf, np.ndarray)
    for name in ("partition", "map", "map_with_path", "reduce", "reduce_associative"):
        with pytest.raises(
            ArgumentError, match=f"{name}: the first argument is a dict, not a function of leaves"
        ) as caught:
            getattr(ft.tree, name)(TREE, keep)
        assert f"{name}(function, tree)" in str(caught.value)

    class Model:
        def __call__(self, x: Any) -> Any:
            return x

    with pytest.raises(ArgumentError, match="the first argument is a Model"):
        ft.tree.partition(Model(), keep)


def test_all_broadcast_and_balanced_folds() -> None:
    assert (
        ft.tree.all({"a": np.True_, "b": (1, "x")})
        and not ft.tree.all([1, [0]])
        and ft.tree.all(None)
    )
    assert ft.tree.all([(), []], is_leaf=lambda x: x == ()) is False
    assert ft.tree.broadcast((1, {"a": 2}), ([0, 0], {"a": (0, None)})) == (
        [1, 1],
        {"a": (2, None)},
    )
    for prefix in ((1,), (1, {"b": 2}), [1, 2]):
        with pytest.raises(TreeError, match="is not a prefix of"):
            ft.tree.broadcast(prefix, ([0, 0], {"a": 0}))
    found = ft.tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcde"))
    assert found == "(((ab)(cd))e)"
    assert ft.tree.reduce_associative(max, [], identity=3) == 3
    with pytest.raises(ArgumentError, match="has no leaves"):
        ft.tree.reduce_associative(max, {})
    pairs = ft.tree.leaves_with_path({"a": (1, 2)}, is_leaf=lambda x: isinstance(x, tuple))
    assert pairs == [(("a",), (1, 2))]


def test_eval_shape() -> None:
    def f(x: Any, *, k: Any) -> Any:
        return {"y": x @ k, "z": (np.sum(x), 1.0)}

    found = ft.eval_shape(f, ft.ShapeDtype((2, 3), "float32"), k=np.ones((3, 4), np.float32))
    assert found["y"] == ft.ShapeDtype((2, 4), "float32")
    assert found["z"] == (ft.ShapeDtype((), "float32"), ft.ShapeDtype((), "float64"))
