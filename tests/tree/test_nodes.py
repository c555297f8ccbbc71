"""Classes as pytrees: dataclasses without registration, registered classes, JAX's and optree's;
under every transform.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import functrace as ft
from functrace.errors import ArgumentError, DtypeError, TreeError
from functrace.tree import nodes

STATIC: Any = {"static": True}


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    name: str = dataclasses.field(default="dense", metadata=STATIC)


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any
    b: Any
    name: str = ft.tree.static(default="dense")


@dataclasses.dataclass(slots=True)
class Slotted:
    w: Any
    b: Any
    name: str = ft.tree.static(default="dense")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ByIdentity:
    w: Any
    b: Any
    name: str = ft.tree.static(default="dense")


@ft.tree.register
class Registered:
    def __init__(self, w: Any, b: Any, name: str = "dense") -> None:
        self.w, self.b, self.name = w, b, name

    def tree_flatten(self) -> Any:
        return (self.w, self.b), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: Any) -> Registered:
        return cls(*children, name)


class ByFunctions:
    def __init__(self, w: Any, b: Any, name: str = "dense") -> None:
        self.w, self.b, self.name = w, b, name


ft.tree.register(
    ByFunctions, lambda x: ([x.w, x.b], x.name), lambda name, parts: ByFunctions(*parts, name)
)


class Optrees(ByFunctions):
    pass


optree.register_pytree_node(  # type: ignore[call-overload]
    Optrees,
    lambda x: ((x.w, x.b), x.name),
    lambda name, parts: Optrees(*parts, name),
    namespace=optree.registry.__GLOBAL_NAMESPACE,
)

KINDS: list[Any] = [Layer, Frozen, Slotted, ByIdentity, Registered, ByFunctions, Optrees]
X = np.array([0.3, -0.7])
W = np.array([[1.0, 2.0], [0.5, -1.0]])
B = np.array([0.1, 0.2])


def loss(net: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ net.w + net.b) ** 2) * (2.0 if net.name == "double" else 1.0)


def by_dict(p: dict[str, Any], x: Any) -> Any:
    return np.sum(np.tanh(x @ p["w"] + p["b"]) ** 2)


def same(found: Any, kind: type, expected: dict[str, Any], name: str = "dense") -> None:
    assert type(found) is kind and found.name == name
    for part in ("w", "b"):
        assert ft.tree.structure(getattr(found, part)) == ft.tree.structure(expected[part])
        for x, y in zip(
            ft.tree.leaves(getattr(found, part)), ft.tree.leaves(expected[part]), strict=True
        ):
            np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-15)


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, p: ft.grad(f)(p, X),
    "value_and_grad": lambda f, p: ft.value_and_grad(f)(p, X)[1],
    "jit of grad": lambda f, p: ft.jit(ft.grad(f))(p, X),
    "grad of jit": lambda f, p: ft.grad(ft.jit(f))(p, X),
    "grad of guarded jit": lambda f, p: ft.grad(ft.jit(f, guards=True))(p, X),
    "checkpoint": lambda f, p: ft.grad(ft.checkpoint(f))(p, X),
    "vjp": lambda f, p: ft.vjp(f, p, X)[1](1.0)[0],
    "linear transpose of jvp": lambda f, p: ft.grad(lambda q: ft.jvp(f, (p, X), (q, None))[1])(p),
    "jacrev": lambda f, p: ft.jacrev(f)(p, X),
    "jacfwd": lambda f, p: ft.jacfwd(f)(p, X),
    "gradients of examples": lambda f, p: ft.tree.map(
        lambda x: np.sum(x, 0), ft.vmap(ft.grad(f), in_axes=(None, 0))(p, np.stack([X, 0 * X]))
    ),
    "scan": lambda f, p: ft.grad(
        lambda p: ft.scan(lambda q, _: (q, f(q, X) / 3), p, None, length=3)[1].sum()
    )(p),
    "fori_loop": lambda f, p: ft.grad(lambda p: f(ft.fori_loop(0, 2, lambda k, q: q, p), X))(p),
    "cond": lambda f, p: ft.grad(
        lambda p: f(ft.cond(np.sum(X) < 9, lambda q: q, lambda q: q, p), X)
    )(p),
    "result of jit": lambda f, p: ft.grad(lambda p: f(ft.jit(lambda q: q)(p), X))(p),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_transform_takes_instances_of_a_pytree_class(kind: Any, transform: str) -> None:
    expected = TRANSFORMS[transform](by_dict, {"w": W, "b": B})
    same(TRANSFORMS[transform](loss, kind(w=W, b=B)), kind, expected)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_second_derivatives_and_batches_of_a_class(kind: Any) -> None:
    found = ft.hessian(loss)(kind(w=W, b=B), X)
    expected = ft.hessian(by_dict)({"w": W, "b": B}, X)
    assert type(found) is type(found.w) is kind
    np.testing.assert_allclose(found.w.b, expected["w"]["b"], rtol=1e-13)
    many = kind(w=np.stack([W, 2 * W]), b=B)
    found = ft.vmap(lambda p: ft.grad(loss)(p, X), in_axes=(kind(w=0, b=None),))(many)
    for k in range(2):
        np.testing.assert_allclose(
            found.w[k], ft.grad(by_dict)({"w": many.w[k], "b": B}, X)["w"], rtol=1e-13
        )
    out = ft.vmap(lambda x: kind(w=x, b=X), out_axes=kind(w=1, b=None))(W)
    np.testing.assert_array_equal(out.w, W.T)
    np.testing.assert_array_equal(out.b, X)
    shapes = ft.eval_shape(lambda p: kind(w=p.b, b=1.0), kind(w=W, b=B))
    assert type(shapes) is kind and shapes.w == ft.ShapeDtype((2,), "float64")
    stacked = ft.scan(lambda c, _: (kind(w=c.w * 2, b=c.b), c), kind(w=1.0, b=B), None, length=3)[1]
    np.testing.assert_array_equal(stacked.w, [1.0, 2.0, 4.0])
    total = ft.associative_scan(lambda a, b: kind(w=a.w + b.w, b=a.b * b.b), kind(w=X, b=X))
    np.testing.assert_allclose(total.b, np.cumprod(X))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_static_fields_belong_to_the_signature(kind: Any) -> None:
    calls: list[str] = []

    @ft.jit
    def f(p: Any) -> Any:
        calls.append(p.name)
        return loss(p, X)

    single, double = kind(w=W, b=B), kind(w=W, b=B, name="double")
    for _ in range(20):
        assert f(double) == 2 * f(single)
    assert calls == ["double", "dense"]
    assert ft.tree.structure(single) != ft.tree.structure(double)
    with pytest.raises(TreeError, match=r"carry(.|\n)*the structure that it has before"):
        ft.scan(
            lambda c, _: (kind(w=c.w, b=c.b, name="other"), None),
            kind(w=1.0, b=2.0),
            None,
            length=2,
        )
    with pytest.raises(TreeError):
        ft.vjp(lambda p: p, single)[1](double)


@pytest.mark.parametrize("pair", [(1, True), (0.0, -0.0), (1, 1.0), ((1, 2), (1, 2.0))], ids=str)
@pytest.mark.parametrize("kind", [Layer, Registered, Frozen], ids=lambda kind: kind.__name__)
def test_static_values_are_the_same_only_exactly(kind: Any, pair: tuple[Any, Any]) -> None:
    first, second = (kind(w=W, b=B, name=value) for value in pair)
    assert first.name == second.name
    assert ft.tree.structure(first) != ft.tree.structure(second)
    seen: list[Any] = []
    f = ft.jit(lambda p: seen.append(p.name))
    for p in (first, second, first, second):
        f(p)
    assert [repr(x) for x in seen] == [repr(x) for x in pair]


@pytest.mark.parametrize("name", [["list"], np.ones(2), {}], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("kind", [Layer, Registered], ids=lambda kind: kind.__name__)
def test_a_static_value_without_hash_is_refused(kind: Any, name: Any) -> None:
    with pytest.raises(
        TreeError,
        match=rf"{kind.__name__}.* static, and is a {type(name).__name__}, which cannot be hashed",
    ):
        ft.jit(lambda p: p.w)(kind(w=W, b=B, name=name))


def test_writes_to_fields_are_local_to_the_function() -> None:
    def f(p: Any) -> Any:
        p.w = p.w * 2.0
        p.b = 5.0
        p.name = "other"
        return np.sum(p.w)

    def again(c: Any, _: Any = None) -> Any:
        f(c)
        return dataclasses.replace(c, name="dense"), None

    transforms: list[Any] = [
        ft.grad(f),
        ft.jit(f),
        ft.vmap(f),
        ft.checkpoint(f),
        ft.jacrev(f),
        ft.trace(f),
    ]
    transforms += [
        lambda p: ft.vjp(f, p),
        lambda p: ft.jvp(f, (p,), (p,)),
        lambda p: ft.eval_shape(f, p),
    ]
    for kind in (Layer, Slotted):
        for transform in transforms:
            p = kind(W.copy(), B.copy())
            transform(p)
            assert p.name == "dense" and isinstance(p.b, np.ndarray)
            np.testing.assert_array_equal(p.w, W)
        p = kind(2.0, 1.0)
        assert (
            ft.scan(again, p, None, length=2)[0].w
            == ft.fori_loop(0, 2, lambda k, c: again(c)[0], p).w
            == 8.0
        )
        assert p == kind(2.0, 1.0)


def test_unflattening_does_not_run_init() -> None:
    @dataclasses.dataclass
    class Checked:
        w: Any
        n: int = dataclasses.field(init=False, metadata=STATIC)

        def __post_init__(self) -> None:
            assert isinstance(self.w, np.ndarray)
            self.n = len(self.w)

    found = ft.grad(lambda p: np.sum(p.w**2) * p.n)(Checked(X))
    np.testing.assert_array_equal(found.w, 4 * X)
    assert found.n == 2
    assert ft.tree.map(lambda x: None, Checked(X)).w is None


def test_a_non_field_attribute_raises_but_cached_properties_are_recomputed() -> None:
    @dataclasses.dataclass
    class Loose:
        w: Any

        @functools.cached_property
        def norm(self) -> Any:
            return np.sum(self.w**2)

    p = Loose(X)
    assert p.norm == np.sum(X**2)
    np.testing.assert_array_equal(ft.grad(lambda p: p.norm)(p).w, 2 * X)
    p.total = 3.0  # type: ignore[attr-defined]
    with pytest.raises(TreeError, match="Loose has the attribute 'total', which is not a field"):
        ft.grad(lambda p: p.norm)(p)

    @dataclasses.dataclass
    class Half:
        w: Any
        b: Any = dataclasses.field(init=False)

    with pytest.raises(TreeError, match="Half has no value for one of its fields"):
        ft.tree.leaves(Half(X))


def test_errors_name_the_leaf_and_the_way_out() -> None:
    nest = {"net": [Layer(1.0, 2.0), Layer(1.0, "high")]}
    path = r"args\[0\]\['net'\]\[1\]\.b is a str"
    for transform in (
        ft.grad,
        ft.value_and_grad,
        ft.jacrev,
        ft.jacfwd,
        ft.hessian,
        ft.jit,
        ft.vmap,
        ft.trace,
    ):
        with pytest.raises((DtypeError, ArgumentError), match=path) as caught:
            transform(lambda p: p["net"][0].w)(nest)
        assert "functrace.tree.partition" in str(caught.value)
    for call in (
        lambda f: ft.vjp(f, nest),
        lambda f: ft.linearize(f, nest),
        lambda f: ft.jvp(f, (nest,), (nest,)),
    ):
        with pytest.raises(DtypeError, match=path):
            call(lambda p: p["net"][0].w)
    with pytest.raises(DtypeError, match=r"carry\['net'\]\[1\]\.b is a str"):
        ft.scan(lambda c, _: (c, None), nest, None, length=2)
    with pytest.raises(DtypeError, match=r"xs\.b is a str"):
        ft.scan(lambda c, x: (c, None), 0.0, Layer(X, "high"))
    for owner in (ft.jit, ft.trace, lambda f: functools.partial(ft.vjp, f), ft.jacrev):
        with pytest.raises(DtypeError, match=r"result\['a'\]\[1\]\.b is a str"):
            owner(lambda x: {"a": [x, Layer(x, "high")]})(X)


@pytest.mark.parametrize(
    "leaf", [3, True, np.arange(2), np.int32(1)], ids=lambda x: type(x).__name__
)
@pytest.mark.parametrize(
    "transform", [ft.grad, ft.value_and_grad, ft.jacrev, ft.jacfwd, ft.hessian]
)
def test_integers_among_parameters_are_named(transform: Any, leaf: Any) -> None:
    with pytest.raises(
        DtypeError, match=r"args\[1\]\.b is .*integers and bools have no derivative"
    ) as caught:
        transform(lambda x, p: np.sum(p.w * x), 1)(X, Layer(X, leaf))
    assert "functrace.tree.partition" in str(caught.value) and "argnums" in str(caught.value)
    assert "\n  at test_nodes.py" in str(caught.value)


def test_allow_int_gives_none_for_integers() -> None:
    p = {"w": X, "steps": 3, "on": True, "table": np.arange(2), "none": None}
    f = lambda p, k: np.sum(p["w"] ** p["steps"]) * k + p["table"][1]
    expected = {"w": 3 * X**2 * 2, "steps": None, "on": None, "table": None, "none": None}
    for transform in (
        ft.grad,
        lambda f, **o: ft.jit(ft.grad(f, **o)),
        lambda f, **o: ft.grad(ft.jit(f), **o),
    ):
        found = transform(f, allow_int=True)(p, 2)
        np.testing.assert_allclose(found.pop("w"), expected["w"])
        assert found == {k: None for k in expected if k != "w"}
    value, (found, none) = ft.value_and_grad(f, (0, 1), allow_int=True)(p, 2)
    np.testing.assert_allclose(value, f(p, 2))
    np.testing.assert_allclose(found["w"], expected["w"])
    assert none is None
    assert ft.grad(lambda n: n * 1.0, allow_int=True)(3) is None
    (found, aux) = ft.grad(
        lambda p: (np.sum(p["w"]), p["steps"] + 1), has_aux=True, allow_int=True
    )(p)
    np.testing.assert_array_equal(found["w"], [1.0, 1.0])
    assert aux == 4
    for bad, path in (
        ({"w": X, "s": "a"}, r"\['s'\] is a str"),
        ({"w": X, "s": np.array(["a"])}, r"\['s'\] has dtype <U1"),
    ):
        with pytest.raises(DtypeError, match=r"args\[0\]" + path):
            ft.grad(lambda p: np.sum(p["w"]), allow_int=True)(bad)
    with pytest.raises(DtypeError, match=r"args\[0\]\['w'\] is f64\[2\]"):
        ft.grad(lambda p: np.sum(p["w"]), holomorphic=True, allow_int=True)({"n": 3, "w": X})


def test_partition_and_combine_of_a_class() -> None:
    net = [Frozen(W, B), Frozen(3, None, "last")]
    arrays, rest = ft.tree.partition(lambda leaf: isinstance(leaf, np.ndarray), net)
    assert (
        arrays[1] == Frozen(None, None, "last")
        and rest[1] == Frozen(3, None, "last")
        and rest[0].w is None
    )
    found = ft.grad(lambda arrays: loss(ft.tree.combine(arrays, rest)[0], X) * rest[1].w)(arrays)
    np.testing.assert_allclose(found[0].b, 3 * ft.grad(by_dict)({"w": W, "b": B}, X)["b"])


def test_paths_and_leaves_of_classes() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    nest = {"n": [Layer(1, Pair(2, 3))], "r": Registered(4, Frozen(5, None))}
    assert ft.tree.paths(nest) == [
        "['n'][0].w",
        "['n'][0].b[0]",
        "['n'][0].b[1]",
        "['r'][0]",
        "['r'][1].w",
    ]
    assert ft.tree.paths(ft.tree.structure(nest)) == ft.tree.paths(nest)
    assert ft.tree.leaves(nest) == [1, 2, 3, 4, 5]
    assert ft.tree.leaves(nest, is_leaf=lambda x: isinstance(x, Layer | Registered)) == [
        nest["n"][0],
        nest["r"],
    ]
    assert ft.tree.leaves_with_path(nest)[0] == (("n", 0, "w"), 1)
    assert ft.tree.map(lambda x, y: x + y, nest, nest)["n"][0] == Layer(2, Pair(4, 6))
    assert ft.tree.map_with_path(lambda keys, x: keys[-1], Layer(1, 2)) == Layer("w", "b")
    outer, inner = ft.tree.structure([0, 0]), ft.tree.structure(Layer(0, 0))
    assert ft.tree.transpose(outer, inner, [Layer(1, 2), Layer(3, 4)]) == Layer([1, 3], [2, 4])
    vector, unravel = ft.tree.ravel(Layer(W, 3.0))
    assert vector.shape == (5,) and unravel(vector * 2).b == 6.0
    assert ft.tree.broadcast(Layer(1, 2), Layer([0, 0], {"a": 0})) == Layer([1, 1], {"a": 2})
    with pytest.raises(TreeError, match="prefix"):
        ft.tree.broadcast(Layer(1, 2, "other"), Layer([0, 0], 0))
    pullback = ft.vjp(lambda p: Layer(p.w * 2, p.b), Layer(X, X))[1]
    same(pickle.loads(pickle.dumps(pullback))(Layer(X, None))[0], Layer, {"w": 2 * X, "b": 0 * X})


def test_a_class_that_cannot_be_a_pytree_raises() -> None:
    class Other:
        pass

    for call, message in (
        (lambda: ft.tree.register(Other), "no dataclass, and has no methods tree_flatten"),
        (lambda: ft.tree.register(Other()), "register takes a class, not a Other"),
        (lambda: ft.tree.register(Other, lambda x: ((), None)), "one of flatten and unflatten"),
        (lambda: ft.tree.register(Registered), "registered already"),
        (
            lambda: ft.tree.register(tuple, lambda x: (x, None), lambda _, x: x),
            "tuple is a pytree node already",
        ),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()
    with pytest.raises(ArgumentError, match=r"args\[0\] is a Other, not an array"):
        ft.jit(lambda x: x)(Other())
    ft.tree.register(Other, lambda x: [1, 2, 3], lambda _, parts: Other())
    with pytest.raises(TreeError, match=r"flatten of Other returned a list, not a pair"):
        ft.tree.leaves(Other())


def test_a_class_may_be_registered_after_its_first_use() -> None:
    @dataclasses.dataclass(frozen=True)
    class Late:
        w: Any

        @ft.jit
        def doubled(self) -> Any:
            return self.w * 2

    assert ft.tree.leaves(Late(1.0)) == [1.0]
    with pytest.raises(TypeError):  # a hashable value without arrays, not a pytree
        ft.jit(lambda p, n: np.zeros(n))(Late(1.0), 2)
    ft.tree.register(Late)
    assert ft.tree.leaves(Late(1.0)) == [1.0]
    assert Late(2.0).doubled() == 4.0 and ft.grad(lambda p: p.doubled())(Late(2.0)).w == 2.0


def test_the_object_of_a_jitted_method() -> None:
    recorded: list[Any] = []

    @dataclasses.dataclass(frozen=True)
    class Model:
        w: Any
        power: int = 2

        @ft.jit
        def apply(self, x: Any) -> Any:
            recorded.append(self)
            return np.sum(self.w * x**self.power)

    for scale in (1.0, 2.0, 1.0):  # a value: one program for each
        assert Model(scale).apply(X) == scale * np.sum(X**2)
    assert len(recorded) == 2
    for scale in (1.0, 2.0, 3.0):  # with arrays, a pytree: one program
        np.testing.assert_allclose(Model(scale * X).apply(X), scale * np.sum(X**3))
    assert len(recorded) == 3
    np.testing.assert_array_equal(ft.grad(lambda m: m.apply(X), allow_int=True)(Model(X)).w, X**2)


def test_others_registries_are_left_alone() -> None:
    @dataclasses.dataclass
    class Own:
        w: Any

    p = Own(X)
    assert ft.tree.leaves(p)[0] is X
    assert optree.tree_leaves(p) == [p]
    if "jax" in sys.modules:
        assert sys.modules["jax"].tree.leaves(p) == [p]


def test_classes_used_in_many_threads_are_registered_once() -> None:
    for _ in range(20):

        @dataclasses.dataclass
        class Fresh:
            w: Any

        found: list[Any] = []
        barrier = threading.Barrier(4)

        def look(found: list[Any] = found, barrier: Any = barrier, kind: Any = Fresh) -> None:
            barrier.wait()
            found.append(ft.tree.leaves([kind(1.0)]))

        threads = [threading.Thread(target=look) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert found == [[1.0]] * 4


def test_repeatedly_defined_classes_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MOST_AT_SIGHT", 3)
    seen: list[Any] = []
    for k in range(30):
        kind = dataclasses.make_dataclass(f"Made{k}", ["w"])
        assert ft.grad(lambda p: p.w**2)(kind(3.0)).w == 6.0
        seen.append(weakref.ref(kind))
    del kind
    ft.clear_caches()
    gc.collect()
    assert sum(ref() is not None for ref in seen) <= 5
    assert len(nodes._at_sight) == 3


def test_jax_is_not_imported_for_it() -> None:
    code = (
        "import sys, dataclasses, functrace as ft\n"
        "P = dataclasses.make_dataclass('P', ['w'])\n"
        "assert ft.grad(lambda p: p.w**2)(P(3.0)).w == 6.0\n"
        "ft.tree.leaves(object())\n"
        "assert not any(name.split('.')[0] in ('jax', 'torch', 'scipy') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@dataclasses.dataclass
class Link:
    w: Any
    other: Any = None


def loops() -> dict[str, Any]:
    link, listed, mapped, registered = Link(X), [X], {"w": X}, Registered(X, None)
    link.other, registered.b = {"back": (link,)}, registered
    listed.append({"q": listed})
    mapped["self"] = mapped
    deep: Any = X
    for _ in range(1500):
        deep = [deep]
    return {
        "dataclass": link,
        "list": listed,
        "dict": mapped,
        "registered": registered,
        "depth": deep,
    }


@pytest.mark.parametrize("name", loops())
def test_an_infinite_pytree_raises(name: str) -> None:
    tree = loops()[name]
    says = "levels deep" if name == "depth" else "contains itself: the object at .* is the"
    for run in (
        ft.tree.leaves, ft.jit(lambda t: X), ft.grad(lambda t: 0.0), ft.vmap(lambda t: X),
        lambda t: ft.jit(lambda: t)(),
        lambda t: ft.scan(lambda c, _: (c, None), t, length=2),
        lambda t: ft.tree.partition(callable, t),
    ):  # fmt: skip
        with pytest.raises(TreeError, match=says):
            run(tree)


def test_shared_subtrees_and_deep_call_stacks_are_no_cycles() -> None:
    shared = [X]
    assert len(ft.tree.leaves([[shared, shared], shared])) == 3

    def at_depth(k: int) -> Any:
        return at_depth(k - 1) if k else ft.tree.leaves([1.0, Link(2.0)])

    for k in range(sys.getrecursionlimit()):
        try:
            assert at_depth(k) == [1.0, 2.0]
        except RecursionError:
            break


class OwnList(list[Any]):
    pass


class OwnTuple(tuple[Any, ...]):
    pass


class OwnDict(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    "made", [OwnList([X, X]), OwnTuple((X, X)), OwnDict(w=X), {1.0}], ids=lambda x: type(x).__name__
)
def test_subclasses_of_containers_are_not_arrays(made: Any) -> None:
    for run in (
        ft.grad(lambda t: 0.0), ft.jit(lambda t: X), ft.vmap(lambda t: X),
        lambda t: ft.jit(lambda: t)(),
        lambda t: ft.scan(lambda c, _: (c, None), t, length=2), lambda t: ft.jvp(lambda t: X, (t,),
        (t,)),
        lambda t: ft.jit(lambda p: ft.cond(p, lambda: X, lambda: t))(True), ft.trace(lambda t: X),
        lambda t: ft.vjp(lambda x: [t], X),
    ):  # fmt: skip
        with pytest.raises(
            (ArgumentError, DtypeError), match=r"(?s)is a|returned a.*functrace\.tree\.register"
        ):
            run([made])
    with pytest.raises(DtypeError, match="not an array or a number"):
        ft.tree.ravel([made])
