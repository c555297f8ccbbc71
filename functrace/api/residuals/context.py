"""``residual_policy``: the policy of all derivatives that are taken in a ``with`` block.

A derivative under a policy is that of a program with one operation: a call of the recorded program,
with the policy (`functrace.control.call`). The policy is part of the keys of all caches: of
transformed programs (`under_policy`), and of jitted functions
(`functrace.api.staging.program_cache`).

Layer: 8.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

from functrace.api.staging.disabling import ENTERED, enter, leave
from functrace.control.call import call_p
from functrace.control.policies import SAVE, Policy, is_policy, plain_policy
from functrace.errors import ArgumentError
from functrace.ir.parts import Assembly, closed_over
from functrace.ir.program import Program

if TYPE_CHECKING:
    from functrace.api.residuals.budget import Budget

F = TypeVar("F", bound=Callable[..., Any])

_entered: ContextVar[tuple[tuple[object, Policy | Budget], ...]] = ContextVar(
    "functrace_residual_policies", default=()
)
"""The contexts entered, with their policies; the innermost is the last."""


@final
class PolicyContext:
    """Context manager and decorator that `residual_policy` returns; it may be used many times."""

    __slots__ = ("policy",)

    def __init__(self, policy: Policy | Budget) -> None:
        self.policy = policy

    def __repr__(self) -> str:
        return f"residual_policy({self.policy!r})"

    def __enter__(self) -> None:
        _entered.set((*_entered.get(), (self, self.policy)))
        enter()

    def __exit__(self, *_: object) -> None:
        contexts = _entered.get()
        for k in range(len(contexts) - 1, -1, -1):
            if contexts[k][0] is self:  # (generators may end in any order)
                _entered.set((*contexts[:k], *contexts[k + 1 :]))
                break
        leave()

    def __call__(self, f: F) -> F:
        """Return the function, whose calls run under the policy; of a generator, every step."""

        def call(*args: object, **kwargs: object) -> Any:
            with self:
                return f(*args, **kwargs)

        async def wait(*args: object, **kwargs: object) -> Any:
            with self:
                return await f(*args, **kwargs)

        def step(*args: object, **kwargs: object) -> Any:
            return self._steps(f(*args, **kwargs))

        def step_async(*args: object, **kwargs: object) -> Any:
            return self._async_steps(f(*args, **kwargs))

        made: Callable[..., Any] = (
            wait if inspect.iscoroutinefunction(f)
            else step_async if inspect.isasyncgenfunction(f)
            else step if inspect.isgeneratorfunction(f)
            else call
        )  # fmt: skip
        return cast("F", functools.wraps(f)(made))

    def _steps(self, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run each step of a generator under the policy."""
        step: Callable[[], Any] = functools.partial(next, generator)
        try:
            while True:
                try:
                    with self:
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = functools.partial(generator.throw, error)
                else:
                    step = functools.partial(generator.send, sent)
        finally:
            with self:
                generator.close()

    async def _async_steps(self, generator: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
        """Run each step of an asynchronous generator under the policy."""
        step: Callable[[], Any] = generator.__anext__
        try:
            while True:
                try:
                    with self:
                        value = await step()
                except StopAsyncIteration:
                    return
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = functools.partial(generator.athrow, error)
                else:
                    step = functools.partial(generator.asend, sent)
        finally:
            with self:
                await generator.aclose()


def residual_policy(policy: Policy | Budget) -> PolicyContext:
    """Set the residual policy of all derivatives that are taken in a ``with`` block, or in calls of
    a decorated function.

    It applies where functrace takes a derivative in reverse mode (`functrace.grad`,
    `functrace.value_and_grad`, `functrace.vjp`, `functrace.jacrev`, `functrace.hessian`) or keeps
    one (`functrace.linearize`), as if the differentiated function were wrapped in
    `functrace.checkpoint` with the policy; `functrace.saved_residuals` lists its residuals. One
    rule decides where there are several policies: the innermost one counts. So a nested context
    replaces the outer one, and the ``policy`` of a `functrace.checkpoint` applies to its function
    under any context. `functrace.policies.save` in a nested context switches the policy off.

    The policy counts when a derivative is built: a pullback keeps its policy after the block, and a
    jitted function keeps a program per policy. Forward mode (`functrace.jvp`, `functrace.jacfwd`)
    keeps nothing, and tensors of ``functrace.torch`` have saved-tensor hooks.

    A context belongs to its thread, and to the asynchronous tasks started in it. A ``with`` block in
    a generator stays in force while the generator waits in it; a decorated generator function, or
    coroutine, runs its own steps under the policy, and nothing else.

    Args:
        policy: one of `functrace.policies`.

    Returns:
        a context manager, which is a decorator, too.

    Raises:
        ArgumentError: if ``policy`` is none.

    Example:
        >>> import numpy as np, functrace as ft
        >>> def f(x):
        ...     return np.sum(np.sin(np.cos(x)))
        >>> with ft.residual_policy(ft.policies.recompute):
        ...     kept, gradient = ft.saved_residuals(f)(np.ones(1000)), ft.grad(f)(np.ones(1000))
        >>> kept.nbytes, ft.saved_residuals(f)(np.ones(1000)).nbytes
        (8000, 16000)

    Cost:
        4 us per block, and 1 us per derivative in it. A call of a jitted function in a block takes
        40 us more; while another thread is in a block, 1 us more.
    """
    from functrace.api.residuals.budget import Budget

    if not (is_policy(policy) or isinstance(cast("object", policy), Budget)):
        raise ArgumentError(
            f"residual_policy takes a policy, not {policy!r}",
            fix="pass one of functrace.policies, such as functrace.policies.save_dots",
        )
    return PolicyContext(plain_policy(policy) if isinstance(policy, tuple) else policy)


def policy_in_force() -> Policy | Budget | None:
    """Return the policy of the innermost context; ``None`` if there is none, or it saves all.

    Callers check ``ENTERED`` first, which is empty while no thread is in a context.
    """
    contexts = _entered.get() if ENTERED else ()
    return None if not contexts or contexts[-1][1] == SAVE else contexts[-1][1]


def under_policy(
    transform: Hashable, build: Callable[[Program], Any], active: int | Sequence[bool]
) -> tuple[Hashable, Callable[[Program], Any]]:
    """Return a transform's cache key and builder under the policy in force.

    Args:
        transform: the key.
        build: the builder.
        active: the first inputs, as a number or as flags, by which the derivative is.
    """
    policy = policy_in_force()
    if policy is None:
        return transform, build
    return (transform, policy), lambda program: build(with_policy(program, policy, active))


def with_policy(program: Program, policy: Policy | Budget, active: int | Sequence[bool]) -> Program:
    """Return an equal program that consists of a call with a residual policy; arguments as those of
    `under_policy`.
    """
    if not is_policy(policy):
        from functrace.api.residuals.budget import within

        chosen = [True] * active if isinstance(active, int) else list(active)
        rest = len(program.input_ids) - len(chosen)
        return within(program, policy, active=[*chosen, *[False] * rest])
    closed, constants = closed_over(program)
    build = Assembly()
    inputs = [build.input(program.avals[i]) for i in program.input_ids]
    captured = [
        build.constant(value, closed.avals[i])
        for value, i in zip(constants, closed.input_ids[len(inputs) :], strict=True)
    ]
    first = build.place(call_p, (*inputs, *captured), (closed.interned(), policy))
    outputs = range(first, first + len(program.output_ids))
    return build.program(outputs, program.name, program.input_names)
