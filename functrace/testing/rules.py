"""``check_rules``: check all rules of a user-defined operation.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functrace.api.batching.mapping import vmap
from functrace.api.capture.arguments import NUMERIC
from functrace.api.capture.programs import trace
from functrace.api.custom_rules.derivatives import custom_jvp, custom_vjp
from functrace.api.differentiation.gradients import vjp
from functrace.api.staging.jitted import jit
from functrace.errors import ArgumentError, CheckError
from functrace.ir.primitive import Primitive
from functrace.testing.grads import check_grads
from functrace.testing.points import (
    OPERANDS,
    CheckedCall,
    aval,
    directions,
    errors,
    is_inexact,
    settings,
)
from functrace.tracing.binding import bind
from functrace.tree import flatten, paths, unflatten
from functrace.tree.describing import difference
from functrace.typing import PyTree

Call = Callable[..., Any]
_CUSTOM: tuple[type[Any], ...] = (custom_vjp, custom_jvp)


def check_rules(
    function: Callable[..., object] | Primitive,
    *args: PyTree,
    order: int = 2,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    staged: bool = True,
    params: Sequence[Hashable] = (),
) -> None:
    """Check all rules of a custom operation at ``args``.

    It checks the value under a plain call, recording, differentiation and `jit`; the predicted
    shapes and dtypes of results and cotangents; the derivatives against differences, forward mode
    against reverse mode, to the given order; `vmap` of the operation and of its pullback against a
    loop, over each argument and over all of them.

    Args:
        function: an operation with rules of its own: `functrace.custom_vjp`,
            `functrace.custom_jvp`, `functrace.primitive`, a `functrace.ir.Primitive`; or any
            function that calls one.
        args: arguments of the function: pytrees. For `vmap`, arrays get a leading axis.
        order: order of derivatives to check.
        atol: absolute tolerance of derivatives; by default from the precision of the dtypes.
        rtol: relative tolerance of derivatives; by default from the precision of the dtypes.
        eps: step of the differences; by default from the precision of the dtypes.
        staged: True to check it with abstract values (`trace`, `jit`, `vmap`), too.
        params: static parameters of a `functrace.ir.Primitive`.

    Raises:
        CheckError: if a rule is wrong; the message names the rule and the argument.
        ArgumentError: if ``function`` or ``params`` is unsuitable.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> @ft.custom_jvp
        ... def log1pexp(x):
        ...     return np.log1p(np.exp(x))
        >>> log1pexp.defjvps(lambda x_dot, y, x: (1.0 - 1.0 / (1.0 + np.exp(x))) * x_dot)
        >>> ft.testing.check_rules(log1pexp, np.array([-1.0, 0.5]))

    Cost:
        about a hundred calls for small arrays.
    """
    f, name, given = _of_arrays(function, args, tuple(params))
    found = flatten(f(*given))[0]
    inexact: list[Any] = [
        leaf for leaf in flatten(given)[0] if isinstance(leaf, NUMERIC) and is_inexact(leaf)
    ]
    chosen = settings([*inexact, *filter(is_inexact, found)] or [1.0], eps, None, atol, rtol)

    def compare(what: str, values: PyTree, expected: PyTree, fix: str) -> None:
        _compare(f"{what} of {name}", values, expected, chosen.exact, fix)

    plain = f(*given)
    if staged:
        _check_avals(f, given, plain, name)
        compare(
            "jit",
            jit(f)(*given),
            plain,
            "a program of it runs with the same values; does it depend on anything else?",
        )
    has_derivative = bool(inexact) and any(map(is_inexact, found))
    if has_derivative and order > 0:
        value, pullback = vjp(f, *given)
        compare(
            "the value under a derivative",
            value,
            plain,
            "let its rules return the function's result",
        )
        _check_cotangents(pullback(_bars(plain)), given, name)
        check_grads(f, given, order, atol=atol, rtol=rtol, eps=eps)
    if not staged:
        return
    calls: list[tuple[str, Call]] = [("vmap", f)]
    if has_derivative and order > 0:
        bars = _bars(plain)
        pulled: Call = lambda *xs: vjp(f, *xs)[1](bars)  # noqa: E731
        compare(
            "jit of the pullback",
            jit(pulled)(*given),
            pulled(*given),
            "fix its rules: they depend on more than values",
        )
        calls.append(("vmap of the pullback", pulled))
    for what, call in calls:
        for axes in _axes(given):
            batch, rows = _examples(given, axes)
            shown = ", ".join(f"{k}" for k, axis in enumerate(axes) if axis == 0)
            compare(
                f"{what} over argument {shown}",
                vmap(call, in_axes=axes)(*batch),
                _stacked([call(*row) for row in rows]),
                "fix its batch rule: its result must equal a loop over the examples",
            )


def _of_arrays(
    function: Call | Primitive, args: tuple[Any, ...], params: tuple[Hashable, ...]
) -> tuple[Call, str, Any]:
    """Return a traceable function, its name, and its arguments."""
    if isinstance(function, Primitive):

        def applied(*operands: object) -> Any:
            return bind(function, operands, params)

        applied.__name__ = function.name
        return applied, function.name, tuple(map(_array, args))
    if params:
        raise ArgumentError(
            "check_rules: params are those of a functrace.ir.Primitive",
            fix="pass it, or omit params",
        )
    point = CheckedCall(function, args, "check_rules")
    own: Any = function
    if not isinstance(own, _CUSTOM) or not own.nondiff_argnums:
        return function, point.name, args
    fixed = {k % len(args) for k in own.nondiff_argnums}

    def of_others(*others: object) -> Any:
        left = iter(others)
        return function(*[x if k in fixed else next(left) for k, x in enumerate(args)])

    of_others.__name__ = point.name
    return of_others, point.name, tuple([x for k, x in enumerate(args) if k not in fixed])


def _array(value: PyTree) -> Any:
    return value if isinstance(value, OPERANDS) else np.asarray(value)[()]


def _compare(what: str, values: PyTree, expected: PyTree, tolerance: float, fix: str) -> None:
    (found, tree), (wanted, structure) = flatten(values), flatten(expected)
    if tree != structure:
        path, one, another = difference(tree, structure)
        place = f" at {path}" if path else ""
        raise CheckError(
            f"{what} has the structure of {one}{place}, and should have that of {another}", fix=fix
        )
    for path, a, b in zip(paths(expected), found, wanted, strict=True):
        if aval(a) is not aval(b):
            raise CheckError(
                f"{what} is {aval(a)}, and should be {aval(b)}{path and f' at {path}'}", fix=fix
            )
        (off,) = errors([a], [b], tolerance, tolerance)
        if off.size and off.max() > 1:
            place = np.unravel_index(int(np.argmax(off)), off.shape)
            shown = "".join(f"[{k}]" for k in map(int, place))
            raise CheckError(
                f"{what} is {np.asarray(a)[place]:.10g}, and should be "
                f"{np.asarray(b)[place]:.10g}, at result{path}{shown}",
                fix=fix,
            )


def _check_avals(f: Call, given: Sequence[Any], plain: PyTree, name: str) -> None:
    program = trace(f)(*given).check()
    for var, leaf in zip(program.outputs, flatten(plain)[0], strict=True):
        if var.aval is not aval(leaf):
            raise CheckError(
                f"{name} is predicted to return {var.aval}, and returns {aval(leaf)}",
                fix="fix its aval rule, or results=",
            )


def _check_cotangents(found: Sequence[Any], given: Sequence[Any], name: str) -> None:
    for k, (cotangent, argument) in enumerate(zip(found, given, strict=True)):
        for path, ct, leaf in zip(
            paths(argument), flatten(cotangent)[0], flatten(argument)[0], strict=False
        ):
            if isinstance(leaf, NUMERIC) and is_inexact(leaf) and aval(ct) is not aval(leaf):
                raise CheckError(
                    f"the cotangent of {name} for args[{k}]{path} is {aval(ct)}, but that is "
                    f"{aval(leaf)}",
                    fix="fix the transpose rule, or vjp",
                )


def _bars(result: PyTree) -> Any:
    """Return a random cotangent of a result."""
    leaves, tree = flatten(result)
    drawn = directions(
        np.random.default_rng(1), [leaf if is_inexact(leaf) else 0.0 for leaf in leaves]
    )
    return unflatten(
        tree, [ct if is_inexact(leaf) else None for ct, leaf in zip(drawn, leaves, strict=True)]
    )


def _axes(given: Sequence[Any]) -> list[tuple[int | None, ...]]:
    """Return the choices of mapped arguments: each by itself, and all."""
    places = [
        k
        for k, x in enumerate(given)
        if flatten(x)[0] and all(isinstance(y, NUMERIC) for y in flatten(x)[0])
    ]
    chosen = {tuple(places), *((k,) for k in places)}
    return [
        tuple([0 if k in some else None for k in range(len(given))])
        for some in sorted(chosen)
        if some
    ]


def _examples(
    given: Sequence[Any], axes: Sequence[int | None]
) -> tuple[list[Any], list[list[Any]]]:
    """Return three slightly different examples of arguments: batched, and as a list."""
    rng = np.random.default_rng(2)

    def moved(leaf: PyTree) -> Any:
        if not is_inexact(leaf):
            return leaf
        factor = 1.0 + 1e-3 * rng.uniform(-1.0, 1.0, aval(leaf).shape)
        return np.asarray(leaf * factor, aval(leaf).dtype)[()]

    rows: list[Any] = []
    for example in range(3):
        change = moved if example == 1 else _array
        rows.append(
            [_mapped(change, x) if axis == 0 else x for x, axis in zip(given, axes, strict=True)]
        )
    batch = [
        _stacked([row[k] for row in rows]) if axis == 0 else given[k] for k, axis in enumerate(axes)
    ]
    return batch, rows


def _mapped(change: Callable[[Any], Any], tree: PyTree) -> Any:
    leaves, treedef = flatten(tree)
    return unflatten(treedef, map(change, leaves))


def _stacked(rows: Sequence[Any]) -> Any:
    flat = [flatten(row)[0] for row in rows]
    return unflatten(flatten(rows[0])[1], [np.stack(column) for column in zip(*flat, strict=True)])
