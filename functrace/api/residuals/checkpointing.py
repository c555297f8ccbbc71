"""``checkpoint`` and ``checkpoint_name``: what a function keeps for its derivative.

Layer: 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from functrace.api.capture.arguments import check_argnums, function_name, normalize_argnums
from functrace.api.capture.record import Operands, stage
from functrace.api.capture.results import whole_result
from functrace.api.capture.transformed import transformed
from functrace.api.control_flow.checkpoints import Binomial
from functrace.api.residuals.budget import Budget, within
from functrace.control.call import call_program
from functrace.control.policies import RECOMPUTE, SAVE, Policy, is_policy, plain_policy
from functrace.errors import ArgumentError, entry
from functrace.numpy.arrays.traced_number import as_number
from functrace.numpy.arrays.views import View, linked
from functrace.ops.naming import named
from functrace.tracing.tracer import Tracer
from functrace.tree import leaves, map_leaves, unflatten
from functrace.typing import P, R, T


@overload
def checkpoint(
    f: Callable[P, R],
    *,
    policy: Policy | Budget | Binomial = ...,
    static_argnums: int | Sequence[int] = ...,
) -> Callable[P, R]: ...
@overload
def checkpoint(
    f: None = None,
    *,
    policy: Policy | Budget | Binomial = ...,
    static_argnums: int | Sequence[int] = ...,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@entry
def checkpoint(
    f: Callable[..., Any] | None = None,
    *,
    policy: Policy | Budget | Binomial = RECOMPUTE,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """Make a function that recomputes residuals of ``f`` in the reverse pass, by a policy.

    By default all residuals are recomputed: ``f`` itself is called once, and the reverse pass
    replays the part of its recorded program that the derivative depends on. Values and derivatives
    are the same, bit for bit, to any order and in every mode. Last bits may differ in these cases.
    Without ``jit``, `cond` outside of ``f`` runs the branch taken, and ``np.linalg`` computes at
    once, but both are recorded in ``f``: second derivatives in reverse mode may sum in another
    order. The same holds for a loop with ``checkpoint=`` in ``f``. Under `vmap`, the derivative by a
    value which ``f`` closes over is that of one call for all examples. With ``binomial``, the
    cotangents of a value which a step reads more than once are summed by step. In the body of a
    `scan` whose initial carry is not in C order (in Fortran order, or broadcast by `vmap`), the
    first step runs again in C order, in which products may round otherwise.

    Args:
        f: any function; it may close over traced values. Left out, ``checkpoint`` is a decorator
            with arguments.
        policy: one of `functrace.policies`, or a combination of them by ``|``, ``&`` and ``~``:
            ``recompute`` (the default), ``save``, ``save_names(...)``, ``save_dots``,
            ``save_by(...)``, ``recompute_elementwise``, ``pack(...)``, ``compress(...)``,
            ``offload(...)``; or ``budget(...)``; or ``binomial(slots)``: equal steps of Python loops
            in ``f`` become loops whose reverse pass keeps ``slots`` carries each, and other
            residuals are saved. It applies under any `functrace.residual_policy`.
        static_argnums: positions of arguments that are passed to ``f`` unchanged, arrays too; they
            must not be traced. Leaves that are no arrays are passed unchanged in any case.

    Returns:
        a function with the results of ``f``, under any composition of transforms. On plain arrays
        it calls ``f`` itself.

    Raises:
        ArgumentError: if ``policy`` is not one; from the function, if it is ``binomial``, and ``f``
            has no equal steps; if a static argument is missing from the call, or
            is traced.
        CapturedArrayError: from the function, if ``f`` writes into a traced argument, or into a
            value that it closes over.

    Example:
        >>> import numpy as np, functrace as ft
        >>> def f(x):
        ...     return np.sum(np.sin(np.cos(x)))
        >>> x = np.ones(1000)
        >>> ft.saved_residuals(f)(x).nbytes, ft.saved_residuals(ft.checkpoint(f))(x).nbytes
        (16000, 8000)
        >>> bool(np.all(ft.grad(ft.checkpoint(f))(x) == ft.grad(f)(x)))
        True

    Cost:
        up to one more run of ``f`` in the derivative. Memory: the operands of ``f`` are kept,
        instead of one or more values per operation. Reverse mode over reverse mode also runs the
        reverse pass of ``f`` once more, and keeps its operands; in the body of a loop it keeps the
        cotangents of residuals of all steps instead (forward mode over reverse mode does not).

    Source:
        Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000), on trading recomputation
        for memory.
    """
    _check_policy(policy)
    if f is None:
        return functools.partial(checkpoint, policy=policy, static_argnums=static_argnums)
    name = function_name(f)
    static = check_argnums(static_argnums, "checkpoint", "static_argnums")

    @transformed("checkpoint", f)
    @entry
    def checkpointed(*args: object, **kwargs: object) -> Any:
        called = f
        if static:
            called, args = _with_static(f, static, args)
        operands = Operands(args, kwargs).if_traced()
        staged = stage(called, operands, f"checkpoint of {name}", name, computed_only=True)
        program = staged.program.interned()
        chosen = SAVE if isinstance(policy, Budget | Binomial) else plain_policy(policy)
        if isinstance(policy, Budget) and program.output_ids:
            from functrace.api.residuals.batches import batches_of, traced

            given = [*operands.values, *staged.captured]
            program = within(program, policy, batches_of(given), traced(given))
        if isinstance(policy, Binomial) and program.output_ids:
            from functrace.api.residuals.python_loops import checkpoint_python_loops

            schedule = policy.schedule()
            program = checkpoint_python_loops(program, schedule, f"checkpoint of {name}")
        computed = (
            call_program(program, [*operands.forwarded(), *staged.captured], chosen)
            if program.output_ids or program.keeps
            else []
        )
        results = whole_result(staged.origins, computed, operands.given, program.name)
        return unflatten(staged.out_tree, map(as_number, results, staged.numbers))

    return checkpointed


def _with_static(
    f: Callable[..., Any], static: tuple[int, ...], args: tuple[object, ...]
) -> tuple[Callable[..., Any], tuple[object, ...]]:
    """Return a function with its static arguments bound, and the arguments with ``None`` in their
    places."""
    owner = f"checkpoint of {function_name(f)}"
    fixed = {k: args[k] for k in normalize_argnums(static, len(args), owner, "static_argnums")}
    for k, value in fixed.items():
        if any(isinstance(leaf, Tracer) for leaf in leaves(value)):
            raise ArgumentError(
                f"{owner}: the static argument {k} is traced",
                fix=f"remove {k} from static_argnums: it carries a derivative",
            )

    def called(*rest: object, **kwargs: object) -> Any:
        return f(*[fixed.get(k, x) for k, x in enumerate(rest)], **kwargs)

    return called, tuple([None if k in fixed else x for k, x in enumerate(args)])


def _check_policy(policy: Any) -> None:
    given: object = policy
    if not (is_policy(policy) or isinstance(policy, Budget | Binomial)):
        raise ArgumentError(
            "checkpoint: policy is "
            f"{repr(policy) if isinstance(given, tuple) else f'a {type(policy).__name__}'}",
            fix="pass functrace.policies.recompute, functrace.policies.save_names(...), "
            "save_dots, offload(), compress(...), pack(...) or budget(...)",
        )


def checkpoint_name(x: T, name: str) -> T:
    """Name traced values, for policies that choose residuals by name
    (`functrace.policies.save_names`).

    Args:
        x: an array, or a pytree of arrays.
        name: the name.

    Returns:
        ``x`` with the name; plain arrays are returned unchanged.

    Raises:
        ArgumentError: if ``name`` is not a string.

    Example:
        >>> import numpy as np, functrace as ft
        >>> layer = lambda x: np.sin(ft.checkpoint_name(np.cos(x), "hidden"))
        >>> ft.grad(ft.checkpoint(layer, policy=ft.policies.save_names("hidden")))(0.0)
        np.float64(-0.0)
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' code
        raise ArgumentError(
            f"checkpoint_name: the name is a {type(name).__name__}", fix="pass a string"
        )
    return map_leaves(
        lambda leaf: linked(named(leaf, name), View(leaf)) if isinstance(leaf, Tracer) else leaf, x
    )
