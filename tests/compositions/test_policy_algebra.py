"""Combined policies under every transform: lossless ones change no bit, and each value is saved,
stored or recomputed as the policy says.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace import policies
from functrace.control import pack_p
from functrace.errors import ArgumentError, DtypeError
from functrace.passes import inline_calls
from functrace.policies import (
    compose,
    compress,
    offload,
    recompute,
    recompute_elementwise,
    save,
    save_by,
    save_dots,
    save_names,
)
from tests.compositions.functions import SCALAR, V, X
from tests.compositions.test_checkpoint import TRANSFORMS, assert_equal, total
from tests.oracles import assert_same

ROUNDS = {"grad of cond under vmap"}
"""There the order of sums, or the product that BLAS is given, depends on what is recomputed."""


def small(value: policies.Candidate) -> bool:
    return value.nbytes < 30


def costly(value: policies.Candidate) -> bool:
    return value.flops > value.aval.size


def negated(x: Any) -> Any:
    return ~x if x.dtype == bool else -x


LOSSLESS: dict[str, Any] = {
    "save_dots": save_dots,
    "recompute_elementwise": recompute_elementwise,
    "save_by": save_by(costly),
    "not dots": ~save_dots,
    "either": save_names("a") | save_by(small),
    "offload": offload(),
    "zlib": compress("zlib"),
    "dots, zlib, offload": compose(save_dots, compress("zlib"), offload()),
    "dots in memory, others in files": save_dots | offload(),
    "elementwise recomputed, others in files": recompute_elementwise & offload(),
    "pack, zlib, offload": policies.pack(negated, negated) & compress("zlib") & offload(),
}
"""Policies that may change no bit."""
each_lossless = pytest.mark.parametrize("policy", LOSSLESS.values(), ids=LOSSLESS)
everywhere = pytest.mark.parametrize("transform", TRANSFORMS)


def named_layers(x: Any) -> Any:
    for _ in range(2):
        a = ft.checkpoint_name(np.sin(np.outer(x, x) @ x), "a")
        x = np.tanh(ft.checkpoint_name(a * np.exp(-x * x), "b")) + np.cos(x)
    return x


@pytest.mark.sampled(16)
@pytest.mark.bits
@everywhere
@each_lossless
@pytest.mark.parametrize("f", [named_layers, SCALAR["network"], SCALAR["in_place"]])
def test_lossless_policies_change_nothing(f: Any, policy: Any, transform: str) -> None:
    apply = TRANSFORMS[transform]
    expected = apply(f)
    for _ in range(2):  # interpreted, then compiled
        found = apply(ft.checkpoint(f, policy=policy))
        assert_equal(found, expected, 1e-12 if transform in ROUNDS else 0.0)


def looped(wrap: Callable[[Any], Any]) -> Any:
    """A checkpoint in a loop in a checkpoint."""

    def body(carry: Any, x: Any) -> Any:
        carry = wrap(lambda c: np.tanh(np.outer(c, x) @ c) + np.sin(x))(carry)
        return carry, np.cos(carry)

    def whole(x: Any) -> Any:
        carry, each = ft.scan(body, x, np.outer(x, [1.0, -0.5, 0.25]).T)
        return carry + np.sum(each, axis=0)

    return wrap(whole)


@pytest.mark.sampled(4)
@pytest.mark.bits
@each_lossless
@pytest.mark.parametrize("transform", ["grad", "vmap of grad", "hessian", "jit of grad", "vjp"])
def test_checkpoint_in_scan_in_checkpoint(policy: Any, transform: str) -> None:
    apply = TRANSFORMS[transform]
    expected = apply(looped(lambda f: f))
    assert_equal(apply(looped(lambda f: ft.checkpoint(f, policy=policy))), expected)


@pytest.mark.sampled(4)
@each_lossless
@pytest.mark.parametrize("kind", ["while_loop", "fori_loop", "cond", "while with most steps"])
def test_loops_and_branches_inside(policy: Any, kind: str) -> None:
    def step(x: Any) -> Any:
        return np.sin(np.outer(x, x) @ x) + 0.5 * x

    f: Any = {
        "while_loop": lambda x: ft.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, step(s[1])), (0, x)
        )[1],
        "while with most steps": lambda x: ft.while_loop(
            lambda s: np.sum(s * s) > 0.01, lambda s: step(s) * 0.5, x, max_steps=20
        ),
        "fori_loop": lambda x: ft.fori_loop(0, 3, lambda k, x: step(x) * (0.25 * k + 0.25), x),
        "cond": lambda x: ft.cond(x[0] > 0, step, lambda x: step(step(x)), x),
    }[kind]
    g = ft.checkpoint(f, policy=policy)
    for x in (X, -X):
        assert_equal(ft.grad(total(g))(x), ft.grad(total(f))(x))
        assert_equal(ft.jit(ft.grad(total(g)))(x), ft.jit(ft.grad(total(f)))(x), 1e-14)
        assert_equal(ft.hessian(total(g))(x), ft.hessian(total(f))(x), 1e-12)


@each_lossless
def test_machine_code(policy: Any) -> None:
    pytest.importorskip("llvmlite")
    expected = ft.jit(ft.grad(total(named_layers)), backend="native")(X)
    gradient = ft.jit(ft.grad(total(ft.checkpoint(named_layers, policy=policy))), backend="native")
    for _ in range(2):
        assert_equal(gradient(X), expected, 1e-14)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", ["reverse", "forward"])
@each_lossless
def test_jvp_of_grad_and_reverse_over_reverse(policy: Any, order: str) -> None:
    g = ft.checkpoint(named_layers, policy=policy)
    gradient, wrapped = (ft.grad(total(f)) for f in (named_layers, g))
    if order == "forward":
        assert_equal(ft.jvp(wrapped, (X,), (V,)), ft.jvp(gradient, (X,), (V,)), 1e-13)
    else:
        expected = ft.vjp(gradient, X)[1](V)
        assert_equal(ft.vjp(wrapped, X)[1](V), expected, 1e-12)


LOSSY = {"float16": 2e-3, "int8": 3e-2}


@pytest.mark.parametrize("method", LOSSY)
@pytest.mark.parametrize("transform", ["grad", "vmap of grad", "hessian", "grad of scan", "vjp"])
def test_lossy_compression_is_as_close_as_its_bits(method: Any, transform: str) -> None:
    f = lambda x: np.sin(np.outer(x, x) @ x) * np.exp(-x * x)
    apply = TRANSFORMS[transform]
    found, expected = apply(ft.checkpoint(f, policy=compress(method))), apply(f)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        assert np.max(np.abs(a - b)) < 20 * LOSSY[method] * max(1.0, np.max(np.abs(b)))


# -- what is saved ---------------------------------------------------------------------------------


def made(policy: Any, f: Any = named_layers, *args: Any) -> list[str]:
    kept = ft.saved_residuals(ft.checkpoint(f, policy=policy))(*(args or (X,)))
    return sorted(row.made for row in kept)


def dot_and_name(x: Any) -> Any:
    product = ft.checkpoint_name(np.outer(x, x) @ x, "product")
    power = np.exp(x)
    return np.sin(np.tanh(product) * ft.checkpoint_name(power, "e"))


X_ONLY = ["argument x"]
PRODUCT, E = "named 'product'", "named 'e'"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (recompute, X_ONLY),
        (save_dots, [*X_ONLY, PRODUCT]),
        (save_names("e"), [*X_ONLY, E]),
        (save_names("e") | save_names("product"), [*X_ONLY, E, PRODUCT]),
        (save_names("e", "product") & save_dots, [*X_ONLY, PRODUCT]),
        (save_names("e", "product") & ~save_dots, [*X_ONLY, E]),
        (recompute_elementwise, [*X_ONLY, PRODUCT]),
        (~~save_dots, [*X_ONLY, PRODUCT]),
        (save_by(lambda v: v.primitive == "exp" and v.name is not None), [*X_ONLY, E]),
        (save_by(lambda v: v.name == "product"), [*X_ONLY, PRODUCT]),
        (
            save_by(lambda v: v.source is not None and "power =" in v.source.expression),
            [*X_ONLY, E],  # (the derivative of exp reads the result, that of mul the name: one array)
        ),
        (compose(save_dots, compress("zlib")), [*X_ONLY, f"{PRODUCT}, compressed by zlib"]),
        (compose(save_dots, offload()), [*X_ONLY, f"{PRODUCT}, offloaded"]),
        (
            compose(save_dots, compress("int8"), offload()),
            [*X_ONLY, f"{PRODUCT}, compressed by int8, offloaded"],
        ),
        (save_names("e") | compose(save_dots, offload()), [*X_ONLY, E, f"{PRODUCT}, offloaded"]),
    ],
    ids=str,
)  # fmt: skip
def test_saved_residuals_lists_what_the_policy_saves(policy: Any, expected: list[str]) -> None:
    f = lambda x: np.sum(dot_and_name(x))
    assert made(policy, f) == sorted(expected)


NAMED_TWICE = [
    policies.save_by(lambda v: v.primitive == "exp"),
    policies.save_by(lambda v: v.name is None),
    save_names("e") | save_dots,
    save_names("also") | save_dots,
    ~save_names("e"),
    ~save_dots,
    recompute_elementwise,
    save,
    save_names("e"),
]


@pytest.mark.parametrize("policy", NAMED_TWICE, ids=str)
@pytest.mark.parametrize("is_result", [False, True])
def test_a_value_and_its_names_are_kept_once(policy: Any, is_result: bool) -> None:
    """The derivatives read the result of exp, and its names; it may be a result, too."""

    def f(x: Any) -> Any:
        power = np.exp(np.outer(x, x) @ x)
        named = ft.checkpoint_name(ft.checkpoint_name(power, "e"), "also")
        y = np.sin(named) * power * named
        return (np.sum(y), named) if is_result else np.sum(y)

    stored: list[Any] = []

    def note(x: Any) -> Any:
        stored.append(x)
        return x

    g = ft.checkpoint(f, policy=policy & policies.pack(note, lambda x: x))
    total = lambda f: lambda x: f(x)[0] if is_result else f(x)
    assert_same(ft.grad(total(g))(X), ft.grad(total(f))(X))
    powers = [x for x in stored if np.array_equal(x, np.exp(np.outer(X, X) @ X))]
    kept = ft.saved_residuals(ft.checkpoint(total(f), policy=policy))(X)
    listed = [row for row in kept if row.made.startswith("named")]
    assert len(powers) <= 1 and len(listed) <= 1
    saves = policy in (save, *NAMED_TWICE[:1], *NAMED_TWICE[2:4], ~save_dots, save_names("e"))
    assert len(listed) == saves
    if policy != save_names("e"):  # (a policy of names alone and one with a storage are two ways)
        assert len(powers) == saves


def test_saving_all_by_a_predicate_saves_what_save_does() -> None:
    assert made(save_by(lambda _: True)) == made(save)
    assert made(save_by(lambda _: False)) == made(recompute)
    assert made(~recompute) == made(save)
    assert made(~save) == made(recompute)


def test_listing_counts_bytes_by_form() -> None:
    f = lambda x: np.sum(dot_and_name(x))
    mixed = save_names("e") | compose(save_dots, offload())
    kept = ft.saved_residuals(ft.checkpoint(f, policy=mixed))(X)
    assert (kept.nbytes, kept.nbytes_packed, kept.nbytes_offloaded) == (48, 0, 24)
    assert str(kept).splitlines()[-1].endswith(", and 24 in files")
    kept = ft.saved_residuals(ft.checkpoint(f, policy=save_dots & compress("int8")))(X)
    assert (kept.nbytes, kept.nbytes_packed, kept.nbytes_offloaded) == (24, 24, 0)
    assert str(kept).splitlines()[-1].endswith(", and 24 before compression")
    assert [row.storage for row in kept if row.is_packed] == ["compressed by int8"]


def test_candidates_describe_values_in_and_outside_of_loops() -> None:
    seen: list[policies.Candidate] = []

    def note(value: policies.Candidate) -> bool:
        seen.append(value)
        return False

    m = np.ones((4, 4))

    def f(x: Any) -> Any:
        y = np.sin(m @ ft.checkpoint_name(np.cos(x), "c"))
        _, ys = ft.scan(lambda c, z: (c, ft.checkpoint_name(np.exp(z) * c, "each")), y, x)
        return np.sum(np.sin(ys))

    gradient = ft.grad(ft.checkpoint(f, policy=save_by(note)))
    x = np.linspace(0.0, 1.0, 12).reshape(4, 3)
    np.testing.assert_array_equal(gradient(x), ft.grad(f)(x))
    by_name = {value.name: value for value in seen if value.name}
    assert by_name["c"].primitive == "cos" and by_name["c"].is_elementwise
    assert by_name["c"].aval is ft.ShapeDtype((4, 3)) and by_name["c"].flops == 12
    products = [value for value in seen if value.primitive == "matmul"]
    assert products and products[0].is_dot and products[0].flops == 2 * 4 * 4 * 3
    assert products[0].nbytes == 96 and "m @" in str(products[0].source)
    operands = [value for value in seen if value.is_operand]
    assert operands and {value.primitive for value in operands} == {"input"}


def test_saved_products_are_computed_once() -> None:
    f = lambda x: np.sum(np.tanh(np.outer(x, x) @ x) * x)

    def count(policy: Any, primitive: str) -> int:
        program = ft.trace(ft.value_and_grad(ft.checkpoint(f, policy=policy)))(X)
        names = [e.primitive.name for e in inline_calls(program).equations]
        return names.count(primitive)

    assert [count(p, "matmul") - count(save, "matmul") for p in (save_dots, recompute)] == [0, 1]
    assert [count(p, "tanh") - count(save, "tanh") for p in (save_dots, recompute)] == [1, 1]


def test_inner_policy_counts_for_its_function() -> None:
    inner = lambda x: np.tanh(np.outer(x, x) @ x)
    f = lambda x: np.sum(np.exp(ft.checkpoint(inner, policy=offload())(x)))
    assert all("offloaded" in word or word.startswith(("argument", "result of exp"))
               for word in made(save, f))  # fmt: skip
    assert made(recompute, f) == X_ONLY
    assert_same(ft.grad(ft.checkpoint(f, policy=recompute))(X), ft.grad(f)(X))


# -- the algebra -----------------------------------------------------------------------------------


def test_policies_print_as_the_expression_that_makes_them() -> None:
    shown = {
        "policies.save": save,
        "policies.recompute": recompute,
        "policies.save_names('a', 'b')": save_names("a", "b"),
        "policies.save_dots | policies.save_names('a')": save_dots | save_names("a"),
        "~policies.save_dots": ~save_dots,
        "(policies.save_dots | policies.recompute_elementwise) & policies.offload('/tmp')": (
            save_dots | recompute_elementwise
        )
        & offload("/tmp"),
        "policies.save_dots & policies.compress('int8') & policies.offload()": compose(
            save_dots, compress("int8"), offload()
        ),
        "policies.save_by(small)": save_by(small),
        "policies.pack(negated, negated)": policies.pack(negated, negated),
    }
    for text, policy in shown.items():
        assert repr(policy) == text
        if "save_by" not in text and "pack" not in text:
            assert eval(text, {"policies": policies}) == policy


def test_policies_compare_and_hash_by_their_parts() -> None:
    same = [
        (save_dots | offload(), save_dots | offload()),
        (compress("int8") & offload("/tmp"), compose(compress("int8"), offload("/tmp"))),
        (save_by(small) | save_dots, save_by(small) | save_dots),
        (save_names("a"), ("recompute", "a")),
    ]
    for a, b in same:
        assert a == b and hash(a) == hash(b)
    different = [
        save, recompute, save_dots, ~save_dots, save_names("a"), recompute_elementwise, offload(),
        offload("/tmp"), compress("int8"), compress("zlib"), save_by(small), save_by(costly),
        save_dots | offload(), save_dots & offload(), offload() | save_dots,
    ]  # fmt: skip
    assert len(set(different)) == len(different)
    for policy in different:
        assert pickle.loads(pickle.dumps(policy)) == policy


def test_programs_with_policies_of_words_have_a_text_that_parses() -> None:
    for policy in (save_dots, ~save_dots & save_names("a"), save_dots | recompute_elementwise):
        program = ft.trace(lambda x, p=policy: ft.checkpoint(np.sin, policy=p)(x))(X)
        again = ft.Program.parse(str(program))
        assert str(again) == str(program)
        assert_same(ft.evaluate(again, X), np.sin(X))


def test_wrong_policies_raise() -> None:
    with pytest.raises(ArgumentError, match="not an existing directory"):
        offload("/nowhere/at/all")
    with pytest.raises(ArgumentError, match="not an existing directory"):
        offload(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"compress: 'int4' is no method"):
        compress("int4")
    with pytest.raises(ArgumentError, match="is no method"):
        compress(None)
    with pytest.raises(ArgumentError, match="not a function"):
        save_by(True)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cannot be composed"):
        compose(save_dots, policies.budget("1 MB"))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="one or more"):
        compose()
    for policies_in_order in ((offload(), compress("int8")), (save_dots, offload(), offload())):
        with pytest.raises(ArgumentError, match="keeps values in files"):
            compose(*policies_in_order)
    with pytest.raises(TypeError):
        save_dots | 3  # type: ignore[operator]
    nested = save_dots & (save_names("a") | offload())
    f = ft.checkpoint(named_layers, policy=nested & compress("zlib"))
    with pytest.raises(ArgumentError, match="keeps values in files"):
        ft.grad(lambda x: np.sum(np.sin(f(x))))(X)  # "a" is a product: saved, in a file, compressed
    with pytest.raises(ArgumentError, match=r"returned 3, not a bool"):
        ft.grad(ft.checkpoint(lambda x: np.sum(np.sin(x)), policy=save_by(lambda _: 3)))(X)  # type: ignore[arg-type,return-value]


def test_pack_before_another_storage_must_return_an_array_or_bytes() -> None:
    as_bytes = policies.pack(
        lambda x: np.ascontiguousarray(x).tobytes(), lambda b: np.frombuffer(b, np.float64)
    )
    f = lambda x: np.sum(np.sin(x) * x)
    for last in (compress("zlib"), offload()):
        assert_same(ft.grad(ft.checkpoint(f, policy=as_bytes & last))(X), ft.grad(f)(X))
        boxed = policies.pack(lambda x: [x], lambda box: box[0])
        with pytest.raises(DtypeError, match="pack returned a list"):
            ft.grad(ft.checkpoint(f, policy=boxed & last))(X)


SELECTIONS = [save, recompute, save_dots, recompute_elementwise, save_names("a"), save_by(small)]


@pytest.mark.draws
@given(st.data())
def test_random_terms_follow_the_laws_of_sets(data: Any) -> None:
    from functrace.control.policies import Candidate, is_policy, plain_policy
    from functrace.control.storages import saved_in

    def term(depth: int) -> Any:
        if depth == 0 or data.draw(st.booleans()):
            return data.draw(st.sampled_from(SELECTIONS))
        head = data.draw(st.sampled_from(["or", "and", "not"]))
        if head == "not":
            return ~term(depth - 1)
        a, b = term(depth - 1), term(depth - 1)
        return a | b if head == "or" else a & b

    p, q = term(3), term(3)
    value = Candidate(
        data.draw(st.sampled_from([None, "a", "b"])),
        "p",
        ft.ShapeDtype((data.draw(st.integers(0, 9)),)),
        data.draw(st.integers(0, 9)),
        None,
        is_elementwise=data.draw(st.booleans()),
        is_dot=data.draw(st.booleans()),
    )
    saves = lambda policy: saved_in(plain_policy(policy), value) is not None
    assert saves(p | q) == (saves(p) or saves(q))
    assert saves(p & q) == (saves(p) and saves(q))
    assert saves(~p) != saves(p)
    assert saves(~(p | q)) == saves(~p & ~q)
    stored = saved_in((p & offload()) | compress("int8"), value)
    assert stored == ((offload(),) if saves(p) else (compress("int8"),))
    assert is_policy(plain_policy(p)) and hash(plain_policy(p)) == hash(p)


def test_values_are_packed_as_soon_as_they_are_computed() -> None:
    order: list[str] = []
    note = policies.pack(lambda x: (order.append("pack"), x)[1], lambda x: x)

    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(np.outer(x, x) @ x)
        return np.sum(x)

    program = ft.trace(ft.grad(ft.checkpoint(f, policy=save_dots & note)))(X)
    names = [e.primitive.name for e in inline_calls(program).equations]
    first = names.index("pack")
    assert names[:first].count("matmul") == 1, "before the second product"
    assert pack_p.name == "pack" and names.count("pack") == 3
