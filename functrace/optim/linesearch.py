"""A line search that satisfies the strong Wolfe conditions, by bracketing and zooming.

First the step grows until an interval contains a step that satisfies the conditions; then the
interval shrinks, by cubic and quadratic interpolation. The conditions, with the value f(t) and the
slope f'(t) after the step t: sufficient decrease, ``f(t) <= f(0) + c1 t f'(0)``, and small slope,
``|f'(t)| <= c2 |f'(0)|``. Near a minimum, where differences of values are rounding errors, the
decrease is read off the slopes (Hager and Zhang).

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from functrace.api.capture.arguments import as_value
from functrace.api.control_flow.branches import cond
from functrace.api.control_flow.loops import while_loop
from functrace.api.differentiation.gradients import value_and_grad
from functrace.errors import ArgumentError, ShapeError
from functrace.optim.leaves import Leaf, Number, each, like, real_dtype, typed, vdot, zeros_like
from functrace.optim.transformations import GradientTransformation, check_state, need_params
from functrace.tree import leaves
from functrace.tree import map as tree_map
from functrace.typing import PyTree


class ZoomLinesearchInfo(NamedTuple):
    """Report of a line search: number of evaluations, and by how much the conditions are missed."""

    num_linesearch_steps: Leaf
    decrease_error: Leaf
    curvature_error: Leaf


class ScaleByZoomLinesearchState(NamedTuple):
    """State of `scale_by_zoom_linesearch`: the last step, with the value and gradient there."""

    learning_rate: Leaf
    value: Leaf
    grad: PyTree
    info: ZoomLinesearchInfo


class _Point(NamedTuple):
    """A step along the line, with the value and the slope there."""

    step: Leaf
    value: Leaf
    slope: Leaf


class _Safe(NamedTuple):
    """The best point so far that satisfies the condition on the decrease."""

    step: Leaf
    value: Leaf
    grad: PyTree


class _Search(NamedTuple):
    count: Leaf
    is_bracketed: Leaf
    is_done: Leaf
    has_failed: Leaf
    at: _Point
    grad: PyTree
    decrease_error: Leaf
    curvature_error: Leaf
    low: _Point
    high: _Point
    third: _Point
    safe: _Safe


def _pick(condition: Leaf, one: PyTree, other: PyTree) -> Any:
    return tree_map(lambda a, b: np.where(condition, a, b), one, other)


def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: Number | None = None,
    tol: Number = 0.0,
    increase_factor: Number = 2.0,
    slope_rtol: Number = 1e-4,
    curv_rtol: Number = 0.9,
    approx_dec_rtol: Number | None = 1e-6,
    stepsize_precision: Number = 1e-5,
    initial_guess_strategy: Literal["keep", "one"] = "keep",
) -> GradientTransformation:
    """Scale updates by a step that satisfies the strong Wolfe conditions.

    If no step is found that decreases the value enough, the last one is taken, unless the value is
    infinite or NaN there: the state's ``info.decrease_error`` is then positive.

    Args:
        max_linesearch_steps: largest number of evaluations of the value and its gradient.
        max_learning_rate: largest step; ``None`` for no limit.
        tol: by how much the conditions may be missed.
        increase_factor: growth of the step while no interval has been found.
        slope_rtol: c1, of the condition on the decrease.
        curv_rtol: c2, of the condition on the slope; infinite for none.
        approx_dec_rtol: relative difference of values below which the decrease is read off the
            slopes; ``None`` for never.
        stepsize_precision: length of the interval at which the search ends.
        initial_guess_strategy: the first step: "one", or "keep" for that of the last update, 1 if
            that did not move.

    Returns:
        a transformation. Its ``update(updates, state, params, *, value, grad, value_fn, **others)``
        takes the value and the gradient at the parameters, and the function
        ``value_fn(params, **others)``. Of complex parameters, ``grad`` is the conjugate of what
        ``value_and_grad`` returns, as ``updates`` are.

    Raises:
        ArgumentError: if there is no such strategy, or no step; from ``update``, if an argument is
            missing.
        TreeError, ShapeError: from ``update``, if a structure or a shape differs.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = lambda x: np.sum((x - 3.0) ** 2)
        >>> tx = ft.optim.chain(ft.optim.sgd(1.0), scale_by_zoom_linesearch(20))
        >>> x = np.zeros(2)
        >>> value, grad = ft.value_and_grad(f)(x)
        >>> updates, state = tx.update(grad, tx.init(x), x, value=value, grad=grad, value_fn=f)
        >>> x + updates
        array([3., 3.])

    Cost:
        one value with gradient per step of the search.

    Source:
        Nocedal and Wright, "Numerical optimization", algorithms 3.5 and 3.6; Hager and Zhang,
        "Algorithm 851: CG_DESCENT" (2006); ``optax.scale_by_zoom_linesearch``.
    """
    if initial_guess_strategy not in ("keep", "one"):
        raise ArgumentError(
            f"scale_by_zoom_linesearch: there is no strategy {initial_guess_strategy!r}",
            fix='initial_guess_strategy="keep" or "one"',
        )
    if max_linesearch_steps < 1:
        raise ArgumentError(
            f"scale_by_zoom_linesearch: {max_linesearch_steps} steps", fix="pass at least 1"
        )

    def init(params: PyTree) -> ScaleByZoomLinesearchState:
        dtype = _dtype_of(params)
        infinite = dtype.type(np.inf)
        info = ZoomLinesearchInfo(np.int32(0), infinite, infinite)
        return ScaleByZoomLinesearchState(dtype.type(1.0), infinite, zeros_like(params), info)

    def errors(now: _Point, start: _Point) -> tuple[Leaf, Leaf]:
        """Return by how much the conditions on decrease and slope are missed."""
        c1, c2 = (like(c, now.step) for c in (slope_rtol, curv_rtol))
        decrease = now.value - start.value - c1 * now.step * start.slope
        if approx_dec_rtol is not None:
            change = now.value - start.value
            by_slopes = np.maximum(
                now.slope - (2 * c1 - 1.0) * start.slope,
                change - like(approx_dec_rtol, change) * np.abs(start.value),
            )
            decrease = np.minimum(by_slopes, decrease)
        # An infinite c2 times a slope of 0 is no number.
        bound = np.where(start.slope == 0, start.slope, c2 * np.abs(start.slope))
        curvature = np.abs(now.slope) - bound
        return _positive(decrease), _positive(curvature)

    def update(
        updates: PyTree,
        state: ScaleByZoomLinesearchState,
        params: PyTree = None,
        *,
        value: Number | None = None,
        grad: PyTree = None,
        value_fn: Callable[..., Any] | None = None,
        **others: object,
    ) -> tuple[PyTree, ScaleByZoomLinesearchState]:
        need_params(params, "the line search")
        check_state("the line search", state, ScaleByZoomLinesearchState)
        if value is None or grad is None or value_fn is None:
            raise ArgumentError(
                "the line search: update needs the value, its gradient and its function",
                fix="call tx.update(grads, state, params, value=value, grad=grads, value_fn=f) with "
                "value, grads = functrace.value_and_grad(f)(params)",
            )
        params = tree_map(lambda p: as_value(p, "a parameter"), params)
        dtype = _dtype_of(params)
        differentiate = value_and_grad(value_fn)
        types = tree_map(lambda p: p.dtype, params)
        updates, slopes = each(
            lambda u, p, g: (u, _conjugate(typed(g, p.dtype))),
            updates,
            (params, "the parameters"),
            (grad, "the gradient"),
            results=2,
        )
        if np.shape(value):
            raise ShapeError(
                f"the line search: the value has shape {np.shape(value)}", fix="pass one number"
            )
        zero, no = dtype.type(0.0), np.bool_(False)
        guess = dtype.type(1.0)
        if initial_guess_strategy == "keep":  # (twice a step of 0 is 0)
            guess = np.where(state.learning_rate > 0, state.learning_rate, guess)

        def slope_of(slopes: PyTree) -> Any:
            """Return the derivative by the step: gradients are not conjugated."""
            return vdot(tree_map(_conjugate, slopes), updates)

        start = _Point(
            zero, typed(as_value(value, "the value"), dtype), typed(slope_of(slopes), dtype)
        )
        tolerance = like(tol, start.value)

        def evaluate(step: Leaf) -> tuple[_Point, PyTree]:
            moved = tree_map(lambda p, u: typed(p + like(step, u) * u, p.dtype), params, updates)
            found, slopes = differentiate(moved, **others)
            slopes = tree_map(typed, slopes, types)
            return _Point(step, typed(found, dtype), typed(slope_of(slopes), dtype)), slopes

        def advance(s: _Search) -> _Search:
            larger = np.where(s.count == 0, guess, like(increase_factor, zero) * s.at.step)
            if max_learning_rate is None:
                is_largest = no
            else:
                is_largest = larger >= like(max_learning_rate, zero)
                larger = np.minimum(larger, like(max_learning_rate, zero))
            step = typed(np.where(s.is_bracketed, _inside(s.low, s.high, s.third), larger), dtype)
            now, slopes = evaluate(step)
            decrease, curvature = errors(now, start)
            is_good = np.maximum(decrease, curvature) <= tolerance
            is_last = s.count + 1 >= max_linesearch_steps
            decreases = decrease <= tolerance

            # While no interval has been found:
            is_high = (decrease > 0) | ((now.value >= s.at.value) & (s.count > 0))
            is_low = (now.slope >= 0) & ~is_high
            found_low, found_high = _pick(is_low, (now, s.at), (s.at, now))
            is_found = is_high | is_low | is_good

            # In an interval:
            is_above = (decrease > 0) | (now.value >= s.low.value)
            turns = (now.slope * (s.high.step - s.low.step) >= 0) & ~is_above
            high = _pick(is_above, now, _pick(turns, s.low, s.high))
            low = _pick(is_above, s.low, now)
            third = _pick(is_above | turns, s.high, s.low)
            is_short = np.abs(s.high.step - s.low.step) <= like(stepsize_precision, zero)

            inside = s.is_bracketed
            is_safe = decreases & (~inside | (now.value < s.safe.value))
            safe = _pick(is_safe, _Safe(now.step, now.value, slopes), s.safe)
            is_done = is_good | (~inside & is_largest & ~is_found)
            ends = is_last | (inside & is_short & (safe.step > 0))
            has_failed = ends & ~is_done
            goes_back = has_failed & ((safe.step > 0) | np.isinf(decrease))
            at = _pick(goes_back, _Point(safe.step, safe.value, now.slope), now)
            return _Search(
                count=s.count + 1,
                is_bracketed=inside | is_found,
                is_done=is_done,
                has_failed=has_failed,
                at=at,
                grad=_pick(goes_back, safe.grad, slopes),
                decrease_error=decrease,
                curvature_error=curvature,
                low=_pick(inside, low, found_low),
                high=_pick(inside, high, found_high),
                third=_pick(inside, third, found_low),
                safe=safe,
            )

        infinite = dtype.type(np.inf)
        safe = _Safe(zero, start.value, slopes)
        end = while_loop(
            lambda s: ~(s.is_done | s.has_failed),
            advance,
            _Search(
                np.int32(0),
                no,
                no,
                no,
                start,
                slopes,
                infinite,
                infinite,
                start,
                start,
                start,
                safe,
            ),
        )
        scaled = tree_map(lambda u: like(end.at.step, u) * u, updates)
        info = ZoomLinesearchInfo(end.count, end.decrease_error, end.curvature_error)
        return scaled, ScaleByZoomLinesearchState(end.at.step, end.at.value, end.grad, info)

    return GradientTransformation(init, update)


def _dtype_of(params: PyTree) -> np.dtype[Any]:
    """Return the dtype of values of a function of the parameters."""
    dtypes = [as_value(p, "a parameter").dtype for p in leaves(params)]
    if not dtypes:
        raise ArgumentError("the line search: there are no parameters", fix="pass an array")
    return real_dtype(np.result_type(*dtypes))


def _conjugate(x: Leaf) -> Any:
    return np.conj(x) if x.dtype.kind == "c" else x


def _positive(error: Leaf) -> Any:
    """Return an error, 0 where the condition is satisfied, infinite where it is no number."""
    return np.where(np.isnan(error), np.full_like(error, np.inf), np.maximum(error, 0.0))


def _inside(low: _Point, high: _Point, third: _Point) -> Any:
    """Return a step inside of an interval: the minimum of the cubic through three points, of the
    parabola through two, or the middle.
    """
    length = np.abs(high.step - low.step)
    left, right = np.minimum(high.step, low.step), np.maximum(high.step, low.step)
    b, c = high.step - low.step, third.step - low.step
    is_usual = np.isfinite(low.value) & np.isfinite(high.value) & np.isfinite(low.slope)
    has_third = is_usual & np.isfinite(third.value)

    # Values minus the tangent at the lower point; 0 where a cubic is not used anyway.
    slope = np.where(is_usual, low.slope, 0.0)
    one = np.where(is_usual, high.value, 0.0) - np.where(is_usual, low.value, 0.0) - slope * b
    two = np.where(has_third, third.value, 0.0) - np.where(has_third, low.value, 0.0) - slope * c
    scale = (b * c) ** 2 * (b - c)
    unit = np.where(scale == 0, np.ones_like(scale), scale)
    cubic = (c**2 * one - b**2 * two) / unit
    square = (b**3 * two - c**3 * one) / unit
    radical = square * square - 3.0 * cubic * slope
    is_cubic = has_third & (scale != 0) & (radical >= 0) & (cubic != 0)
    root = np.sqrt(np.where(is_cubic, radical, np.ones_like(radical)))
    by_cubic = low.step + (root - square) / (3.0 * np.where(is_cubic, cubic, np.ones_like(cubic)))
    is_cubic = is_cubic & (by_cubic > left + 0.2 * length) & (by_cubic < right - 0.2 * length)

    bend = one / np.where(b == 0, np.ones_like(b), b) ** 2
    is_square = is_usual & (b != 0) & (bend != 0)
    by_square = low.step - slope / (2.0 * np.where(is_square, bend, np.ones_like(bend)))
    is_square = is_square & (by_square > left + 0.1 * length) & (by_square < right - 0.1 * length)
    middle = (low.step + high.step) / 2.0
    return np.where(is_cubic, by_cubic, np.where(is_square, by_square, middle))


def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Make ``value_and_grad`` of a function that reads both from the state of a line search.

    The line search has computed them at the point where it ended, so each iteration saves one
    evaluation. At the start, and where that value is not finite, they are computed.

    Args:
        value_fn: a function from parameters, and other arguments, to a number. It must not depend
            on anything that changes between steps.

    Returns:
        a function ``(params, *args, state, **kwargs)``, with the value and the gradient.

    Raises:
        ArgumentError: from the function, if the state is not that of a line search.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = lambda x: np.sum((x - 3.0) ** 2)
        >>> tx, x = ft.optim.lbfgs(), np.zeros(2)
        >>> state, value_and_grad = tx.init(x), value_and_grad_from_state(f)
        >>> for _ in range(5):
        ...     value, grad = value_and_grad(x, state=state)
        ...     updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=f)
        ...     x = ft.optim.apply_updates(x, updates)
        >>> np.round(x, 6)
        array([3., 3.])
    """

    def from_state(params: PyTree, *args: object, state: PyTree, **kwargs: object) -> Any:
        found = _line_searches(state)
        if len(found) != 1:
            raise ArgumentError(
                f"value_and_grad_from_state: the state has {len(found)} line searches",
                fix="pass the state of functrace.optim.lbfgs, or of a chain with one "
                "scale_by_zoom_linesearch",
            )
        last = found[0]

        def fresh() -> tuple[Any, Any]:
            value, grad = value_and_grad(value_fn)(params, *args, **kwargs)
            dtype = as_value(last.value, "the value").dtype
            return typed(value, dtype), tree_map(lambda g, p: typed(g, p.dtype), grad, last.grad)

        return cond(
            np.isfinite(last.value), lambda: (last.value, tree_map(np.copy, last.grad)), fresh
        )

    return from_state


def _line_searches(state: PyTree) -> list[ScaleByZoomLinesearchState]:
    """Return the states of line searches in a state."""
    found = leaves(state, is_leaf=lambda x: isinstance(x, ScaleByZoomLinesearchState))
    return [x for x in found if isinstance(x, ScaleByZoomLinesearchState)]
