"""``residual_policy``: which policy is in force, and that no cache returns a program of another
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api.residuals.context import policy_in_force
from functrace.api.staging.disabling import ENTERED, ENTERED_COUNT
from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.policies import compress, offload, recompute, save, save_dots
from tests.oracles import assert_same

X = np.linspace(-1.0, 2.0, 300)
V = np.cos(X)


def f(x: Any) -> Any:
    return np.sum(np.tanh(np.sin(x) * x))


LOSSY = ft.residual_policy(compress("int8"))
"""Its derivatives are visibly different, so that a wrong policy shows."""
EXACT = ft.grad(f)(X)
ROUNDED = ft.grad(ft.checkpoint(f, policy=compress("int8")))(X)
assert 1e-4 < np.max(np.abs(EXACT - ROUNDED)) < 0.1


@pytest.fixture(autouse=True)
def no_context_is_left() -> Iterator[None]:
    yield
    assert policy_in_force() is None and not ENTERED and ENTERED_COUNT[0] == 0


def jitted(f: Any) -> Any:
    return ft.jit(f)


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: ft.grad(f)(X),
    "value_and_grad": lambda f: ft.value_and_grad(f)(X),
    "grad with aux": lambda f: ft.grad(lambda x: (f(x), x), has_aux=True)(X),
    "grad of pytree": lambda f: ft.grad(lambda p: f(p["a"]) * p["b"])({"a": X, "b": 2.0}),
    "vjp": lambda f: ft.vjp(f, X)[1](1.0),
    "linearize": lambda f: ft.linearize(f, X)[1](V),
    "jacrev": lambda f: ft.jacrev(lambda x: np.stack([f(x), f(x * x)]))(X),
    "jacrev of elementwise": lambda f: ft.jacrev(lambda x: np.sin(x) * x)(X[:20]),
    "jacrev of scalar": lambda f: ft.jacrev(f)(X),
    "hessian": lambda f: ft.hessian(f)(X[:5]),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(X.reshape(10, 30)),
    "grad of vmap": lambda f: ft.grad(lambda x: np.sum(ft.vmap(f)(x)))(X.reshape(10, 30)),
    "jit of grad": lambda f: ft.jit(lambda x: ft.grad(f)(x))(X),
    "grad of jit": lambda f: ft.grad(jitted(f))(X),
    "grad of grad": lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x) ** 2))(X),
    "grad in scan": lambda f: ft.scan(
        lambda c, x: (c * 0.5 + ft.grad(f)(x), None), X[:30], X.reshape(10, 30)
    )[0],
    "grad of scan": lambda f: ft.grad(lambda x: ft.scan(lambda c, y: (c + f(y), None), 0.0, x)[0])(
        X.reshape(10, 30)
    ),
    "branch on a value": lambda f: ft.grad(lambda x: f(x) if np.sum(x) > 0 else f(-x))(X),
}
everywhere = pytest.mark.parametrize("derive", DERIVATIVES.values(), ids=DERIVATIVES)


@everywhere
@pytest.mark.parametrize("policy", [recompute, save_dots, offload(), compress("zlib"), save])
def test_lossless_policies_change_nothing(derive: Any, policy: Any) -> None:
    expected = derive(f)
    for _ in range(3):
        with ft.residual_policy(policy):
            found = derive(f)
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
            assert_same(a, b, rtol=1e-12, atol=1e-13)


@everywhere
def test_a_derivative_under_a_policy_is_never_that_of_another_one(derive: Any) -> None:
    def leaves() -> list[Any]:
        return ft.tree.leaves(derive(f))

    exact = leaves()
    for _ in range(3):
        with LOSSY:
            lossy = leaves()
            with ft.residual_policy(save):
                for a, b in zip(leaves(), exact, strict=True):
                    assert_same(a, b)
        assert any(not np.array_equal(a, b) for a, b in zip(lossy, exact, strict=True))
        for a, b in zip(leaves(), exact, strict=True):
            assert_same(a, b)


def test_budget_in_a_context() -> None:
    def chain(x: Any) -> Any:
        for _ in range(50):
            x = np.sin(np.cumsum(x) * 1e-3)
        return np.sum(x)

    with ft.residual_policy(ft.policies.budget("60 KB")):
        assert_same(ft.grad(chain)(X), ft.grad(ft.checkpoint(chain, policy=save))(X), rtol=1e-13)
    with pytest.raises(ArgumentError, match="needs"), ft.residual_policy(ft.policies.budget(1000)):
        ft.grad(chain)(X)


def test_forward_mode_keeps_nothing() -> None:
    def fails(_: Any) -> Any:
        raise AssertionError

    with ft.residual_policy(ft.policies.pack(fails, fails)):
        assert_same(ft.jvp(f, (X,), (V,))[1], EXACT @ V, rtol=1e-12)
        ft.jacfwd(np.sin)(X[:3])
        f(X)
        ft.jit(f)(X)


def test_listing_follows_the_context() -> None:
    plain = ft.saved_residuals(f)(X)
    with ft.residual_policy(recompute):
        assert ft.saved_residuals(f)(X).nbytes == X.nbytes
    with ft.residual_policy(offload()):
        kept = ft.saved_residuals(f)(X)
    assert kept.nbytes == 0 and kept.nbytes_offloaded == plain.nbytes == 4 * X.nbytes
    assert {row.made.split(", off")[0] for row in kept} == {row.made for row in plain}


# -- one rule: the innermost counts ----------------------------------------------------------------


def test_innermost_context_counts() -> None:
    with ft.residual_policy(recompute):
        with LOSSY:
            assert policy_in_force() == compress("int8")
            assert_same(ft.grad(f)(X), ROUNDED)
        assert policy_in_force() == recompute
        assert_same(ft.grad(f)(X), EXACT)
        with LOSSY, LOSSY:
            pass
        assert policy_in_force() == recompute


def test_own_policy_of_a_checkpoint_counts() -> None:
    exact = ft.checkpoint(f, policy=recompute)
    rounded = ft.checkpoint(f, policy=compress("int8"))
    with LOSSY:
        assert_same(ft.grad(rounded)(X), ROUNDED)
        found = ft.saved_residuals(exact)(X)
        assert [row.made for row in found] == ["argument x, compressed by int8"], "outside of it"
    with ft.residual_policy(recompute):
        assert_same(ft.grad(exact)(X), EXACT)
        assert not np.array_equal(ft.grad(lambda x: rounded(x) * 1.0)(X), EXACT)


def test_context_may_be_used_again_and_inside_itself() -> None:
    for _ in range(2):
        with LOSSY:
            with LOSSY:
                assert_same(ft.grad(f)(X), ROUNDED)
            assert_same(ft.grad(f)(X), ROUNDED)
        assert_same(ft.grad(f)(X), EXACT)
    assert repr(LOSSY) == "residual_policy(policies.compress('int8'))"


def test_exception_ends_the_context() -> None:
    with pytest.raises(KeyError), LOSSY:
        raise KeyError
    assert_same(ft.grad(f)(X), EXACT)


def test_pullback_keeps_the_policy_of_its_making() -> None:
    with LOSSY:
        _, pullback = ft.vjp(f, X)
    assert_same(pullback(1.0)[0], ROUNDED)
    _, pullback = ft.vjp(f, X)
    with LOSSY:
        assert_same(pullback(1.0)[0], EXACT)


def test_wrong_policies_raise() -> None:
    for policy in (None, "save", 3, ("keep",)):
        with pytest.raises(ArgumentError, match="takes a policy"):
            ft.residual_policy(policy)  # type: ignore[arg-type]


# -- caches of jit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"backend": "numpy"}, {"backend": "native"}, {"guards": True}, {"static_argnums": 1}],
    ids=str,
)
def test_jit_keeps_a_program_per_policy(options: dict[str, Any]) -> None:
    if options.get("backend") == "native":
        pytest.importorskip("llvmlite")
    gradient: Any = ft.jit(lambda x, n=1: ft.grad(f)(x) * n, **options)
    args = (X, 1) if "static_argnums" in options else (X,)
    rtol = 1e-13 if options.get("backend") == "native" else 0.0
    for _ in range(40):  # (machine code takes calls before Python does, once there is some)
        assert_same(gradient(*args), EXACT, rtol=rtol, atol=rtol)
    for _ in range(3):
        with LOSSY:
            assert_same(gradient(*args), ROUNDED, rtol=rtol, atol=1e-13 if rtol else 0.0)
        with ft.residual_policy(recompute):
            assert_same(gradient(*args), EXACT, rtol=rtol, atol=rtol)
        assert_same(gradient(*args), EXACT, rtol=rtol, atol=rtol)
    info = gradient.cache_info()
    assert (info.misses, info.currsize) == (3, 3)
    assert "residual_policy is policies.recompute, instead of" in gradient.why_retraced()
    gradient.cache_clear()
    assert gradient.cache_info().currsize == 0


def test_hot_signatures_stay_apart() -> None:
    gradient = ft.jit(lambda p: ft.grad(lambda x: f(x) * p["b"])(p["a"]))
    tree = {"a": X, "b": 1.0}
    for _ in range(30):
        assert_same(gradient(tree), EXACT)
        with LOSSY:
            assert_same(gradient(tree), ROUNDED)


def test_jit_of_a_function_that_sets_the_policy() -> None:
    def both(x: Any) -> Any:
        with LOSSY:
            rounded = ft.grad(f)(x)
        return rounded, ft.grad(f)(x)

    of_both = ft.jit(both)
    for _ in range(2):
        rounded, exact = of_both(X)
        assert_same(rounded, ROUNDED)
        assert_same(exact, EXACT)


def test_disabled_jit_has_the_policy() -> None:
    gradient = ft.jit(ft.grad(f))
    gradient(X)
    with LOSSY, ft.disable_jit():
        assert_same(gradient(X), ROUNDED)
    with ft.disable_jit(), LOSSY:
        assert_same(gradient(X), ROUNDED)


def test_refusal_of_xla_stays() -> None:
    pytest.importorskip("jax")
    gradient = ft.jit(lambda x: ft.grad(f)(x), backend="xla")
    np.testing.assert_allclose(gradient(X), EXACT, atol=1e-12)
    for policy in (compress("int8"), offload(), save_dots & compress("zlib")):
        with (
            ft.residual_policy(policy),
            pytest.raises(UnsupportedFunctionError, match="checkpoint"),
        ):
            ft.jit(lambda x: ft.grad(lambda x: f(np.outer(x, x) @ x))(x), backend="xla")(X)
    for policy in (recompute, save_dots):
        with ft.residual_policy(policy):
            np.testing.assert_allclose(gradient(X), EXACT, atol=1e-12)


# -- decorators, generators, threads ---------------------------------------------------------------


def test_decorated_function() -> None:
    @LOSSY
    def train(x: Any, scale: float = 1.0) -> Any:
        """Train."""
        return ft.grad(f)(x) * scale

    assert_same(train(X, scale=1.0), ROUNDED)
    assert train.__name__ == "train" and train.__doc__ == "Train."
    staged = ft.jit(train)
    for _ in range(2):
        assert_same(staged(X), ROUNDED)
    assert_same(ft.grad(LOSSY(f))(X), EXACT)  # the derivative is taken outside


def test_decorated_generator_has_the_policy_in_its_steps_only() -> None:
    @LOSSY
    def steps(x: Any) -> Generator[Any, Any, Any]:
        got = yield ft.grad(f)(x)
        try:
            yield ft.grad(f)(got)
        except KeyError:
            yield ft.grad(f)(x)
        return ft.grad(f)(x)

    def outer() -> Generator[Any, Any, Any]:
        return (yield from steps(X))

    generator = outer()
    assert_same(next(generator), ROUNDED)
    assert_same(ft.grad(f)(X), EXACT)
    assert_same(generator.send(X), ROUNDED)
    assert_same(ft.grad(f)(X), EXACT)
    assert_same(generator.throw(KeyError()), ROUNDED)
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert_same(end.value.value, ROUNDED)
    ended: list[str] = []

    @LOSSY
    def closing() -> Generator[int]:
        try:
            yield 1
        finally:
            assert policy_in_force() == compress("int8")
            ended.append("closed")

    started = closing()
    next(started)
    started.close()
    assert ended == ["closed"]


def test_blocks_of_generators_may_end_in_any_order() -> None:
    def waiting(policy: Any) -> Generator[None]:
        with ft.residual_policy(policy):
            yield

    first, second = waiting(recompute), waiting(compress("int8"))
    next(first)
    next(second)
    assert policy_in_force() == compress("int8")
    first.close()
    assert policy_in_force() == compress("int8"), "the innermost that has not ended"
    assert_same(ft.grad(f)(X), ROUNDED)
    second.close()
    assert policy_in_force() is None
    assert_same(ft.grad(f)(X), EXACT)


def test_context_manager_of_a_generator() -> None:
    @contextlib.contextmanager
    def rounded() -> Iterator[None]:
        with LOSSY:
            yield

    with rounded():
        assert_same(ft.grad(f)(X), ROUNDED)
    assert_same(ft.grad(f)(X), EXACT)


def test_asynchronous_tasks_have_their_own_policies() -> None:
    @LOSSY
    async def rounded(both: asyncio.Event, other: asyncio.Event) -> Any:
        both.set()
        await other.wait()
        return ft.grad(f)(X)

    async def exact(both: asyncio.Event, other: asyncio.Event) -> Any:
        await both.wait()
        found = ft.grad(f)(X)
        other.set()
        return found

    @LOSSY
    async def steps() -> AsyncIterator[Any]:
        for _ in range(2):
            yield ft.grad(f)(X)

    async def run() -> list[Any]:
        both, other = asyncio.Event(), asyncio.Event()
        found = list(await asyncio.gather(rounded(both, other), exact(both, other)))
        async for value in steps():
            found += [value, ft.grad(f)(X)]
        return found

    for found, expected in zip(
        asyncio.run(run()), [ROUNDED, EXACT, ROUNDED, EXACT, ROUNDED, EXACT], strict=True
    ):
        assert_same(found, expected)


def test_threads_have_their_own_policies() -> None:
    gradient = ft.jit(ft.grad(f))
    barrier = threading.Barrier(3)
    wrong: list[str] = []

    def work(policy: Any, expected: Any) -> None:
        with contextlib.nullcontext() if policy is None else ft.residual_policy(policy):
            barrier.wait()
            for _ in range(50):
                for found in (gradient(X), ft.grad(f)(X)):
                    try:
                        assert_same(found, expected)
                    except AssertionError:
                        wrong.append(repr(policy))

    threads = [
        threading.Thread(target=work, args=args)
        for args in ((None, EXACT), (compress("int8"), ROUNDED), (recompute, EXACT))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_new_thread_has_no_policy() -> None:
    found: list[Any] = []
    with LOSSY:
        thread = threading.Thread(target=lambda: found.append(ft.grad(f)(X)))
        thread.start()
        thread.join()
    assert_same(found[0], EXACT)


def test_warnings_name_the_users_line_under_a_policy() -> None:
    def overflows(x: Any) -> Any:
        y = np.exp(x * 1000.0)
        return np.sum(np.sin(1.0 / y))

    with (
        ft.residual_policy(save_dots),
        pytest.warns(RuntimeWarning) as found,
        np.errstate(all="warn"),
    ):
        ft.grad(overflows)(X)
    assert all(w.filename == __file__ for w in found)
