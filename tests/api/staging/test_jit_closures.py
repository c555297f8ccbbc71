"""Captured arrays of a jitted function: a call reads their current contents, also after in-place
changes.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import CapturedArrayError
from functrace.tracing.capture import ReadSnapshot
from tests.sampling import examples

X = np.array([0.3, -0.7, 1.1])
GLOBAL = np.ones(3)
Reader = tuple[Callable[[Any], Any], np.ndarray[Any, Any]]


class Model:
    shared = np.ones(3)

    def __init__(self, w: Any) -> None:
        self.w = w
        self.layers = [{"w": w}]

    @property
    def weights(self) -> Any:
        return self.w

    def predict(self, x: Any) -> Any:
        return x * self.w

    def by_helper(self, x: Any) -> Any:
        return self.predict(x) + 1.0

    def by_property(self, x: Any) -> Any:
        return x * float(self.weights[0])

    def by_layers(self, x: Any) -> Any:
        return x * self.layers[0]["w"].sum()

    def __call__(self, x: Any) -> Any:
        return x * self.w[0]


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w: Any) -> None:
        self.w = w


def of_global() -> Reader:
    return (lambda x: x * GLOBAL), GLOBAL


def of_class() -> Reader:
    return (lambda x: x * Model.shared.max()), Model.shared


def of_module() -> Reader:
    module = types.ModuleType("surroundings")
    module.__file__ = __file__
    w = module.w = np.ones(3)  # type: ignore[attr-defined]
    return (lambda x: x * float(module.w[1])), w


def with_array(make: Callable[[Any], Callable[[Any], Any]]) -> Callable[[], Reader]:
    def made() -> Reader:
        w = np.ones(3)
        return make(w), w

    return made


def default(w: Any) -> Any:
    def f(x: Any, w: Any = w) -> Any:
        return x * w.sum()

    return lambda x: f(x)


def keyword_default(w: Any) -> Any:
    def f(x: Any, *, w: Any = w) -> Any:
        return x * w.sum()

    return lambda x: f(x)


def by_if(w: Any) -> Any:
    return lambda x: x * 2.0 if w[0] > 0 else -x


def by_loop(w: Any) -> Any:
    def f(x: Any) -> Any:
        for k in w:
            x = x * k
        return x

    return f


def rules(w: Any) -> Any:
    g = ft.custom_vjp(lambda x: x * w)
    g.defvjp(lambda x: (x * w, None), lambda _, ct: (ct * w * 2.0,))
    return lambda x: g(x) + ft.vjp(g, x)[1](np.ones(3))[0]


def inner(w: Any) -> Any:
    g = ft.jit(lambda x: x * w)
    return lambda x: g(x) + g(x)


READERS: dict[str, Callable[[], Reader]] = {
    "global": of_global,
    "class": of_class,
    "module": of_module,
    "closure": with_array(lambda w: lambda x: x * w),
    "computed": with_array(lambda w: lambda x: x * (w * 2.0)),
    "summed": with_array(lambda w: lambda x: x * w.sum()),
    "element": with_array(lambda w: lambda x: x * w[2]),
    "float": with_array(lambda w: lambda x: x * float(w[1])),
    "fancy index": with_array(lambda w: lambda x: x * w[[2, 0, 1]]),
    "if": with_array(by_if),
    "loop": with_array(by_loop),
    "view": with_array(lambda w: lambda x: x[:2] * w[1:]),
    "view made before": with_array(lambda w: functools.partial(lambda v, x: x * v, w[::-1])),
    "list": with_array(lambda w: (lambda held: lambda x: x * held[0][0])([[w]])),
    "dictionary": with_array(
        lambda w: (lambda held: lambda x: x * held["a"]["b"].max())({"a": {"b": w}})
    ),
    "attribute": with_array(
        lambda w: (lambda held: lambda x: x * held.w)(types.SimpleNamespace(w=w))
    ),
    "slot": with_array(lambda w: (lambda held: lambda x: x * float(held.w[0]))(Slotted(w))),
    "default": with_array(default),
    "keyword default": with_array(keyword_default),
    "partial": with_array(lambda w: functools.partial(lambda w, x: x * w.sum(), w)),
    "partial by keyword": with_array(lambda w: functools.partial(lambda x, w: x * w.sum(), w=w)),
    "method": with_array(lambda w: Model(w).predict),
    "method that calls": with_array(lambda w: Model(w).by_helper),
    "property": with_array(lambda w: Model(w).by_property),
    "layers": with_array(lambda w: Model(w).by_layers),
    "called object": with_array(lambda w: Model(w)),
    "object": with_array(
        lambda w: (lambda model: lambda x: model.by_property(x) + model(x))(Model(w))
    ),
    "function": with_array(lambda w: (lambda g: lambda x: g() * x)(lambda: w.mean())),
    "grad": with_array(lambda w: ft.grad(lambda x: np.sum(x * x * w.max()))),
    "vmap": with_array(lambda w: ft.vmap(lambda x: x * w.sum())),
    "scan": with_array(lambda w: lambda x: ft.scan(lambda c, a: (c + a * w, None), x, x)[0]),
    "cond": with_array(lambda w: lambda x: ft.cond(x[0] > 0, lambda x: x * w, lambda x: x - w, x)),
    "checkpoint": with_array(lambda w: ft.checkpoint(lambda x: np.sin(x * w))),
    "rules": with_array(rules),
    "inner jit": with_array(inner),
}


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("guards", [False, True], ids=["", "guards"])
@pytest.mark.parametrize("name", READERS)
def test_in_place_changes_take_effect(name: str, guards: bool) -> None:
    f, w = READERS[name]()
    jitted = ft.jit(f, guards=guards)
    outer = ft.jit(lambda x: jitted(x) * 1.0, guards=guards)
    for number in (1.0, 3.0, -2.0, -2.0):
        w[...] = number
        for x in (X, X + 1.0):
            same(jitted(x), f(x))
            same(outer(x), f(x))
    w[0] += 1.0
    same(outer(X), f(X))  # the outer one first: what the inner one read, it has read
    same(jitted(X), f(X))
    w[...] = 1.0


@examples(60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(READERS) - 1), st.sampled_from(["write", "call", "grad", "map"])
        ),
        max_size=25,
    ),
    st.data(),
)
def test_random_programs_of_writes_and_calls(steps: list[tuple[int, str]], data: Any) -> None:
    made = [(f, w, ft.jit(f)) for f, w in (make() for make in READERS.values())]
    for k, action in steps:
        f, w, jitted = made[k]
        if action == "write":
            w[data.draw(st.integers(0, 2))] = data.draw(st.sampled_from([-1.0, 0.5, 2.0]))
        elif action == "grad":
            same(
                ft.grad(lambda x, jitted=jitted: np.sum(jitted(x)))(X),
                ft.grad(lambda x, f=f: np.sum(f(x)))(X),
            )
        elif action == "map" and f is not made[list(READERS).index("vmap")][0]:
            same(ft.vmap(jitted)(np.stack([X, -X])), ft.vmap(f)(np.stack([X, -X])))
        else:
            same(jitted(X), f(X))
    for _, w, _ in made:
        w[...] = 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool, complex, ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (300, 200)])
def test_dtypes_and_sizes(dtype: Any, shape: tuple[int, ...]) -> None:
    w = np.ones(shape, dtype)
    f = lambda x: x * w + w.sum()
    jitted = ft.jit(f)
    for number in (1, 0, 1):
        w[...] = number
        same(jitted(2.0), f(2.0))
    assert jitted.cache_info().misses == (3 if w.size else 1)


def test_large_views_and_their_owners() -> None:
    data = np.ones((1000, 50))
    f = lambda x: x @ data[10:20] + data.T[3][:50]
    jitted = ft.jit(f)
    x = np.ones(10)
    same(jitted(x), f(x))
    data[15, 3] = 7.0
    same(jitted(x), f(x))
    data.reshape(-1)[15 * 50 + 4] = -1.0
    same(jitted(x), f(x))
    np.frombuffer(data, count=data.size)[3] = 9.0
    same(jitted(x), f(x))


def test_another_shape_of_the_same_array() -> None:
    w = np.arange(6.0).reshape(2, 3)
    f = lambda x: x * w.shape[0] + w.sum(0)[0]
    jitted = ft.jit(f)
    same(jitted(1.0), f(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        w.shape = (3, 2)
    same(jitted(1.0), f(1.0))


def test_changed_captures_are_retraced_but_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from functrace.executor import compilation

    compiled: list[Any] = []
    whole = compilation.planned
    monkeypatch.setattr(
        compilation,
        "planned",
        lambda *args, **kwargs: (compiled.append(args), whole(*args, **kwargs))[1],
    )
    w = np.ones(3)
    jitted = ft.jit(lambda x: np.sin(x) * w)
    for k in range(6):
        w[0] = k
        same(jitted(X), np.sin(X) * w)
    assert jitted.cache_info().misses == 6
    assert len(compiled) == 2  # as a constant, and as an argument


def test_derived_constants_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[ReadSnapshot] = []
    monkeypatch.setattr(ReadSnapshot, "changed", lambda reads: compared.append(reads))
    jitted = ft.jit(ft.grad(lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2)))
    for _ in range(3):
        assert not np.any(jitted(np.ones(3)))
    assert not compared
    w = np.ones(3)
    read = ft.jit(lambda x: x * w)
    for _ in range(3):
        read(w)
    assert len(compared) == 2


def test_nothing_is_compared_where_nothing_is_read() -> None:
    from functrace.api.capture.closures import reachable_objects, reads_of

    unused = np.ones(3)

    def f(x: Any) -> Any:
        return x * 2.0

    assert reads_of(f, "f", ()) is None
    assert reachable_objects(f, np.ndarray) == []
    assert unused.sum() == 3.0


def test_memory_declared_read_only_is_not_compared() -> None:
    w = np.ones(100_000)
    w.flags.writeable = False
    jitted = ft.jit(lambda x: x * w)
    jitted(2.0)
    w.flags.writeable = True
    w[:] = 5.0  # against the declaration
    assert jitted(2.0)[0] == 2.0
    assert jitted.cache_info().misses == 1


def test_replaced_captured_arrays_are_freed() -> None:
    import gc
    import weakref

    def made() -> tuple[Any, Any]:
        w = np.ones(3)
        holder = [w]
        return ft.jit(lambda x: x * holder[0]), holder

    jitted, holder = made()
    jitted(X)
    gone = weakref.ref(holder[0])
    holder[0] = np.ones(3)
    gc.collect()
    assert gone() is None
    same(jitted(X), X)


def test_captured_arrays_too_large_to_compare_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    from functrace.api.capture import closures as surroundings

    monkeypatch.setattr(surroundings, "MOST_COMPARED", 1000)
    data = np.ones(1000)
    with pytest.warns(UserWarning, match=r"names an array \(data\)"):
        ft.jit(lambda x: x * data.sum())(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ft.jit(lambda x: x * data)(1.0)  # captured: it is compared, whatever its size


def test_writes_while_it_is_staged_raise_as_before() -> None:
    count = np.zeros(())

    @ft.jit
    def f(x: Any) -> Any:
        y = x + count
        count[...] += 1.0
        return y

    with pytest.raises(CapturedArrayError):
        f(1.0)


def test_captures_of_an_inner_jitted_function_invalidate_the_outer_one() -> None:
    held = [np.ones(3)]
    g = ft.jit(lambda x: x * getattr(held, "__getitem__")(0))
    g(X)
    table = {"g": g}
    outer = ft.jit(lambda x: dict.get(table, "g")(x))
    same(outer(X), X)
    held[0][1] = 5.0
    same(outer(X), X * held[0])
