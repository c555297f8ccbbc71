"""Residual policies: ``pack`` is called as each residual is saved, ``unpack`` as it is fetched;
what is named is kept.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control import pack_p
from functrace.errors import ArgumentError, DtypeError, FunctraceError, ShapeError
from tests.compositions.functions import BATCH, SCALAR, V, X
from tests.compositions.test_checkpoint import (
    COLUMNS,
    LAYERS,
    ROWS,
    TRANSFORMS,
    assert_equal,
    chain,
    peak,
    pull_once,
    scanned,
    total,
)
from tests.oracles import assert_same
from tests.sampling import on_release

everywhere = pytest.mark.parametrize("transform", TRANSFORMS)


class Log:
    """A policy that packs into numbered boxes, and the log of what it was called with."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.arrays: list[Any] = []
        self.policy = ft.policies.pack(self.pack, self.unpack)

    def pack(self, x: Any) -> Any:
        assert type(x) is np.ndarray
        self.events.append(("pack", len(self.arrays)))
        self.arrays.append(
            np.array(x, order="C")
        )  # in another memory order, by which BLAS rounds: it is put back
        return ("box", len(self.arrays) - 1)

    def unpack(self, held: Any) -> Any:
        word, number = held
        assert word == "box"
        self.events.append(("unpack", number))
        return self.arrays[number]

    def of(self, word: str) -> list[int]:
        return [number for event, number in self.events if event == word]

    def run(self, f: Callable[[], Any]) -> Log:
        self.events.clear()
        self.arrays.clear()
        f()
        return self


def layer(x: Any) -> Any:
    """Its derivative keeps cos(x), x, sin(x) and 1 - tanh^2."""
    return np.tanh(np.sin(x) * x)


# -- counts and order ------------------------------------------------------------------------------


def test_each_residual_is_packed_once_when_computed_and_unpacked_when_needed() -> None:
    log = Log()
    f = ft.checkpoint(layer, policy=log.policy)
    for _ in range(3):  # interpreted, compiled, compiled
        log.run(lambda: ft.grad(lambda x: np.sum(f(x)))(X))
        assert log.of("pack") == [0, 1, 2, 3]
        found = {
            name: k
            for k, a in enumerate(log.arrays)
            for name, v in saved_by_layer().items()
            if np.array_equal(a, v)
        }
        assert len(found) == 4
        assert found["x"] == 0 and found["1 - tanh^2"] == 3, (
            "in the order in which there are values"
        )
        assert sorted(log.of("unpack")) == [0, 1, 2, 3]
        assert log.of("unpack")[0] == 3, "the last operation is pulled back first"
        assert log.events.index(("unpack", 3)) > log.events.index(("pack", 3))


def saved_by_layer() -> dict[str, Any]:
    return {
        "x": X,
        "sin": np.sin(X),
        "cos": np.cos(X),
        "1 - tanh^2": 1.0 - np.tanh(np.sin(X) * X) ** 2,
    }


def test_pack_at_saving_and_unpack_at_every_pullback() -> None:
    log = Log()
    y, pullback = ft.vjp(ft.checkpoint(layer, policy=log.policy), X)
    assert [event for event, _ in log.events] == ["pack"] * 4
    first = pullback(V)
    assert [event for event, _ in log.events] == ["pack"] * 4 + ["unpack"] * 4
    assert_equal(pullback(V), first)
    assert [event for event, _ in log.events] == ["pack"] * 4 + ["unpack"] * 8
    assert_equal((y, first), (layer(X), ft.vjp(layer, X)[1](V)))


def test_nothing_is_packed_without_reverse_mode() -> None:
    log = Log()
    f = ft.checkpoint(layer, policy=log.policy)
    f(X), ft.jvp(f, (X,), (V,)), ft.vmap(f)(BATCH), ft.jit(f)(X)
    assert log.events == []


@pytest.mark.parametrize(
    ("transform", "count"),
    [("vmap of grad", 4), ("grad of vmap", 4), ("jit of grad", 4), ("grad of jit", 4),
    ("jit of vmap of grad", 4),
     ("linearize", 4), ("grad of scan", 16), ("vmap of grad of scan", 16), ("jit of grad of scan",
     16)],
)  # fmt: skip
def test_counts_under_other_transforms(transform: str, count: int) -> None:
    log = Log()
    for _ in range(2):
        log.run(lambda: TRANSFORMS[transform](ft.checkpoint(layer, policy=log.policy)))
        assert (len(log.of("pack")), len(log.of("unpack"))) == (count, count)


def test_loop_packs_per_step_and_fetches_the_last_step_first() -> None:
    log = Log()
    inner = ft.checkpoint(np.sin, policy=log.policy)
    ft.grad(lambda x: np.sum(ft.scan(lambda c, y: (inner(c * y), None), x, BATCH)[0]))(X)
    assert log.of("pack") == [0, 1, 2, 3]
    assert log.of("unpack") == [3, 2, 1, 0]
    assert all(a.shape == (3,) for a in log.arrays)


def test_loop_inside_is_packed_as_its_stacks() -> None:
    log = Log()
    f = ft.checkpoint(
        lambda x: np.sum(ft.scan(lambda c, y: (np.sin(c * y), None), x, BATCH)[0]),
        policy=log.policy,
    )
    ft.grad(f)(X)
    assert {a.shape for a in log.arrays} <= {(4, 3), (3,)}
    assert any(a.shape == (4, 3) for a in log.arrays)


def test_only_the_branch_that_runs_packs() -> None:
    log = Log()
    f = ft.checkpoint(layer, policy=log.policy)
    gradient = ft.grad(lambda x: np.sum(ft.cond(x[0] > 0, f, lambda x: x, x)))
    log.run(lambda: gradient(X))
    assert (len(log.of("pack")), len(log.of("unpack"))) == (4, 4)
    log.run(lambda: gradient(-X))
    assert log.events == []


def test_checkpoint_around_packs_in_the_replay_only() -> None:
    log = Log()
    _, pullback = ft.vjp(
        ft.checkpoint(lambda x: np.exp(ft.checkpoint(layer, policy=log.policy)(x))), X
    )
    assert log.events == []
    pullback(V)
    assert (len(log.of("pack")), len(log.of("unpack"))) == (4, 4)


def test_inner_policy_takes_precedence_over_the_outer_one() -> None:
    inner, outer = Log(), Log()
    f = ft.checkpoint(
        lambda x: np.exp(ft.checkpoint(layer, policy=inner.policy)(x)), policy=outer.policy
    )
    gradient = ft.grad(lambda x: np.sum(f(x)))(X)
    assert (len(inner.of("pack")), len(inner.of("unpack"))) == (4, 4)
    assert len(outer.of("pack")) == len(outer.of("unpack")) == 1, (
        "exp(layer(x)); the others are packed already"
    )
    assert_equal(gradient, ft.grad(lambda x: np.sum(np.exp(layer(x))))(X))


# -- meaning ---------------------------------------------------------------------------------------


CHOSEN_PER_EXAMPLE = {"grad of cond under vmap"}
"""There residuals are chosen per example, captured matrices too: BLAS is given other products, and
may round otherwise.
"""


@pytest.mark.sampled(8)
@pytest.mark.bits
@everywhere
@pytest.mark.parametrize("f", [*SCALAR.values(), layer], ids=[*SCALAR, "layer"])
def test_packing_without_loss_changes_nothing(transform: str, f: Any) -> None:
    apply = TRANSFORMS[transform]
    log = Log()
    for _ in range(2):
        exact = transform not in CHOSEN_PER_EXAMPLE
        assert_equal(apply(ft.checkpoint(f, policy=log.policy)), apply(f), 0 if exact else 1e-12)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "F": lambda x: x.T,
    "permuted": lambda x: np.transpose(x.reshape(4, 2, 4), (2, 0, 1)),
    "strided": lambda x: x[::2, 1::3],
    "reversed": lambda x: x[::-1, ::-2],
    "broadcast": lambda x: np.broadcast_to(x[0], (3, 4)),
    "column": lambda x: x[:, 1],
    "one column": lambda x: x[:, 1:2],
    "one row, transposed": lambda x: x[1:2].T,
    "window": lambda x: np.lib.stride_tricks.sliding_window_view(x[0], 2),
    "empty": lambda x: x[:, :0].T,
    "scalar": lambda x: x[0, 0],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.bool_])
def test_unpacked_values_have_the_strides_of_packed_ones(
    layout: Any, order: str, dtype: Any
) -> None:
    x = np.asarray(layout((np.arange(32.0).reshape(8, 4) % 7).astype(dtype)))
    packed = pack_p.eval(x, ft.policies.pack(lambda x: np.array(x, order=order), lambda x: x))
    for _ in range(2):
        found = np.asarray(packed.unpack())
        assert found.strides == x.strides or not x.size
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(np.asarray(packed.transpose(tuple(reversed(range(x.ndim))))), x.T)


@pytest.mark.bits
@pytest.mark.parametrize("order", ["C", "F"])
def test_packing_in_another_memory_order_changes_no_bit(order: str) -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(17, 17)) for _ in range(3)]

    def f(x: Any) -> Any:
        for w in weights:
            x = np.tanh(w.T @ x @ w) + (x.T @ w)[::-1]
        return np.sum(np.sin(x[::2]) * x[:9])

    policy = ft.policies.pack(lambda x: np.array(x, order=order), lambda x: x)
    x = rng.normal(size=(17, 17)).T
    packed = ft.checkpoint(f, policy=policy)
    for _ in range(3):
        assert_same(ft.grad(packed)(x), ft.grad(f)(x))
        assert_same(ft.vjp(packed, x)[1](1.0)[0], ft.vjp(f, x)[1](1.0)[0])


def test_loss_of_precision_changes_derivatives_only() -> None:
    halved = ft.policies.pack(lambda x: x.astype(np.float16), lambda h: h.astype(np.float64))
    f = ft.checkpoint(layer, policy=halved)
    assert_equal(f(X), layer(X))
    value, gradient = ft.value_and_grad(lambda x: np.sum(f(x)))(X)
    exact, expected = ft.value_and_grad(lambda x: np.sum(layer(x)))(X)
    assert value == exact
    assert 1e-6 < np.max(np.abs(gradient - expected)) < 1e-2
    x, s, c, t = (v.astype(np.float16).astype(np.float64) for v in saved_by_layer().values())
    np.testing.assert_allclose(gradient, t * s + t * x * c, rtol=1e-14)
    assert_equal(ft.jvp(f, (X,), (V,)), ft.jvp(layer, (X,), (V,)))


def test_second_order_reads_unpacked_values_and_differentiates_the_function() -> None:
    # pack and unpack are the identity to every transform: a policy with loss gives second
    # derivatives with that loss.
    halved = ft.policies.pack(lambda x: x.astype(np.float16), lambda h: h.astype(np.float64))
    f = lambda x: np.sum(layer(x))
    found = [
        ft.hessian(ft.checkpoint(f, policy=halved))(X),
        ft.jacrev(ft.grad(ft.checkpoint(f, policy=halved)))(X),
        ft.jacfwd(ft.grad(ft.checkpoint(f, policy=halved)))(X),
    ]
    expected = ft.hessian(f)(X)
    for hessian in found:
        assert 1e-7 < np.max(np.abs(hessian - expected)) < 2e-2


def test_grad_inside_the_packed_function() -> None:
    log = Log()
    g = lambda x: np.sum(ft.grad(lambda y: np.sum(np.sin(y) * x))(x * x))
    assert_equal(ft.grad(ft.checkpoint(g, policy=log.policy))(X), ft.grad(g)(X))
    assert log.of("pack")


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_dtypes_and_scalars(dtype: Any) -> None:
    log = Log()
    f = lambda x: np.sum(np.real(np.sin(x) * x[0] * np.arange(3)))
    x = X.astype(dtype)
    assert_equal(ft.grad(ft.checkpoint(f, policy=log.policy))(x), ft.grad(f)(x))
    assert {a.dtype for a in log.arrays} >= {np.dtype(dtype)} and () in {
        a.shape for a in log.arrays
    }


def test_integer_residual_is_packed_with_its_dtype() -> None:
    log = Log()
    f = lambda x, k: np.sum(np.sin(x) * np.take(x, k))
    places = np.array([2, 0, 1])
    assert_equal(ft.grad(ft.checkpoint(f, policy=log.policy))(X, places), ft.grad(f)(X, places))


# -- what pack may return --------------------------------------------------------------------------


def test_pack_to_bytes() -> None:
    policy = ft.policies.pack(
        lambda x: zlib.compress(pickle.dumps(x)), lambda held: pickle.loads(zlib.decompress(held))
    )
    assert_equal(ft.grad(ft.checkpoint(total(layer), policy=policy))(X), ft.grad(total(layer))(X))
    assert_equal(
        ft.grad(total(scanned(ft.checkpoint(layer, policy=policy))))(BATCH),
        ft.grad(total(scanned(layer)))(BATCH),
    )


def test_pack_to_files(tmp_path: Path) -> None:
    def save(x: Any) -> str:
        name = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
        np.save(name, x)
        return str(name)

    f = ft.checkpoint(layer, policy=ft.policies.pack(save, np.load))
    _, pullback = ft.vjp(f, X)
    assert len(list(tmp_path.iterdir())) == 4
    assert_equal(pullback(V), ft.vjp(layer, X)[1](V))
    assert_equal(ft.vmap(ft.grad(total(f)))(BATCH), ft.vmap(ft.grad(total(layer)))(BATCH))


@pytest.mark.parametrize("held", [None, (), {}, "text", 3])
def test_pack_may_return_anything(held: Any) -> None:
    f = ft.checkpoint(
        np.sin,
        policy=ft.policies.pack(lambda x: held, lambda got: np.cos(X) if got is held else None),
    )
    np.testing.assert_array_equal(ft.vjp(f, X)[1](V)[0], V * np.cos(X))


def test_packed_values_are_freed_with_the_pullback() -> None:
    import weakref

    class Box:
        def __init__(self, x: Any) -> None:
            self.x = x

    boxes: list[Any] = []

    def pack(x: Any) -> Box:
        box = Box(x)
        boxes.append(weakref.ref(box))
        return box

    f = ft.checkpoint(layer, policy=ft.policies.pack(pack, lambda box: box.x))
    _, pullback = ft.vjp(f, X)
    pullback(V)
    assert len(boxes) == 4 and all(box() is not None for box in boxes)
    del pullback
    assert all(box() is None for box in boxes)
    ft.grad(total(f))(X)
    assert len(boxes) == 8 and all(box() is None for box in boxes)


@pytest.mark.full
@pytest.mark.parametrize("differentiate", [ft.grad, *on_release(pull_once)])
def test_packing_into_fewer_bits_lowers_the_peak(differentiate: Any) -> None:
    halved = ft.policies.pack(lambda x: x.astype(np.float16), lambda h: h.astype(np.float64))
    h = np.random.default_rng(1).normal(size=(ROWS, COLUMNS))
    plain, packed = chain(lambda f: f), chain(lambda f: ft.checkpoint(f, policy=halved))
    for _ in range(3):
        most, least = peak(lambda: differentiate(plain)(h)), peak(lambda: differentiate(packed)(h))
        assert least <= 6 * LAYERS / 4 + 12, f"{least:.1f} arrays"
        assert least <= 0.65 * most, f"{least:.1f} arrays, {most:.1f} without"


# -- errors ----------------------------------------------------------------------------------------


class OwnError(Exception):
    pass


def raising(*_: Any) -> Any:
    raise OwnError("mine")


@pytest.mark.sampled(6)
@everywhere
@pytest.mark.parametrize("word", ["pack", "unpack"])
def test_exceptions_of_pack_and_unpack_pass_and_leave_nothing_behind(
    transform: str, word: str
) -> None:
    same = lambda x: x
    policy = ft.policies.pack(raising, same) if word == "pack" else ft.policies.pack(same, raising)
    apply = TRANSFORMS[transform]
    log = Log()
    apply(ft.checkpoint(layer, policy=log.policy))
    for _ in range(3):
        if log.events:
            with pytest.raises(OwnError, match="mine"):
                apply(ft.checkpoint(layer, policy=policy))
        else:
            apply(ft.checkpoint(layer, policy=policy))
    assert_equal(apply(ft.checkpoint(layer, policy=log.policy)), apply(layer), 1e-12)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (np.zeros(4), ShapeError, ("unpack returned f64[4]", "f64[3] was packed")),
        (np.zeros((1, 3)), ShapeError, ("unpack returned f64[1,3]", "f64[3] was packed")),
        (np.zeros(3, np.float32), ShapeError, ("unpack returned f32[3]", "f64[3] was packed")),
        ([1.0, 2.0], ShapeError, ("unpack returned f64[2]", "f64[3] was packed")),
        (None, DtypeError, ("unpack returned a NoneType",)),
        (object(), DtypeError, ("unpack returned a object",)),
    ],
    ids=["size", "rank", "dtype", "list", "none", "object"],
)
def test_wrong_results_of_unpack_raise(
    answer: Any, error: type[Exception], words: tuple[str, ...]
) -> None:
    f = ft.checkpoint(layer, policy=ft.policies.pack(lambda x: x, lambda x: answer))
    for gradient in (ft.grad(total(f)), ft.jit(ft.grad(total(f)))):
        for _ in range(3):
            with pytest.raises(error) as caught:
                gradient(X)
            assert isinstance(caught.value, FunctraceError)
            for word in (*words, "fix: "):
                assert word in str(caught.value)


def test_bad_policies_are_refused_at_once() -> None:
    for policy in ("recompute", None, 3, [], np.sin, ("recompute", 3), ("keep",), ("save", "a")):
        with pytest.raises(ArgumentError, match="policy"):
            ft.checkpoint(layer, policy=policy)  # type: ignore[arg-type]
    for arguments in ((), (3,), ("a", None)):
        with pytest.raises(ArgumentError, match="save_names"):
            ft.policies.save_names(*arguments)  # type: ignore[arg-type]
    for functions in ((None, np.sin), (np.sin, "x")):
        with pytest.raises(ArgumentError, match="not a function"):
            ft.policies.pack(*functions)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="checkpoint_name"):
        ft.checkpoint_name(X, 3)  # type: ignore[arg-type]


def test_policies_save_and_recompute_by_name_of_the_constant() -> None:
    kept = {
        p: len(ft.saved_residuals(ft.checkpoint(layer, policy=p))(X))
        for p in (ft.policies.save, ft.policies.recompute)
    }
    assert kept == {ft.policies.save: 4, ft.policies.recompute: 1}


# -- names -----------------------------------------------------------------------------------------


def named_layer(x: Any) -> Any:
    a = ft.checkpoint_name(np.sin(x), "a")
    b = ft.checkpoint_name(np.exp(a), "b")
    return np.tanh(b * a)


def made(f: Any, *args: Any) -> set[str]:
    return {r.made for r in ft.saved_residuals(f)(*args)}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a",), {"argument x", "named 'a'"}),
        (("b",), {"argument x", "named 'b'"}),
        (("a", "b"), {"argument x", "named 'a'", "named 'b'"}),
        (("nobody",), {"argument x"}),
        (("nobody", "b"), {"argument x", "named 'b'"}),
    ],
)
def test_named_values_are_saved_and_the_rest_rematerialized(
    names: tuple[str, ...], expected: set[str]
) -> None:
    assert made(ft.checkpoint(named_layer, policy=ft.policies.save_names(*names)), X) == expected


@pytest.mark.sampled(5)
@everywhere
@pytest.mark.parametrize("names", [("a",), ("b",), ("a", "b"), ("nobody",)])
def test_keeping_names_changes_nothing(transform: str, names: tuple[str, ...]) -> None:
    apply = TRANSFORMS[transform]
    f = ft.checkpoint(named_layer, policy=ft.policies.save_names(*names))
    assert_equal(apply(f), apply(named_layer))


def test_names_inside_functions_that_are_jitted_or_checkpointed() -> None:
    for wrap in (ft.jit, lambda f: ft.checkpoint(f, policy=ft.policies.save)):
        f = ft.checkpoint(
            lambda x, wrap=wrap: np.cos(wrap(named_layer)(x)), policy=ft.policies.save_names("b")
        )
        assert made(f, X) == {"argument x", "named 'b'"}
        assert_equal(ft.grad(total(f))(X), ft.grad(total(lambda x: np.cos(named_layer(x))))(X))


def test_names_change_nothing_without_checkpoint() -> None:
    plain = lambda x: np.tanh(np.exp(np.sin(x)) * np.sin(x))
    assert_equal(named_layer(X), plain(X))
    assert_equal(ft.grad(total(named_layer))(X), ft.grad(total(plain))(X), 1e-13)


def test_names_on_pytrees_and_on_plain_arrays() -> None:
    tree = {"a": X, "b": (V, None, 3.0)}
    assert ft.checkpoint_name(tree, "tree")["a"] is X
    f = ft.checkpoint(
        lambda x: sum(
            np.sum(np.sin(y))
            for y in ft.checkpoint_name((np.cos(x), {"h": np.exp(x)}), "both")[0:1]
        ),
        policy=ft.policies.save_names("both"),
    )
    assert "named 'both'" in made(f, X)


def test_named_values_are_computed_once() -> None:
    seen: list[str] = []
    spy = ft.policies.pack(lambda x: (seen.append("run"), x)[1], lambda x: x)

    def f(x: Any) -> Any:
        return np.exp(ft.checkpoint_name(ft.checkpoint(np.sin, policy=spy)(x), "a"))

    for policy, runs in ((ft.policies.save_names("a"), 1), (ft.policies.recompute, 1)):
        seen.clear()
        _, pullback = ft.vjp(ft.checkpoint(f, policy=policy), X)
        pullback(V)
        assert len(seen) == runs
