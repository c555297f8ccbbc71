"""`LBFGS`: steps along directions from the last gradients, with a search along each.

Layer: 9.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import namespace as torch
from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import (
    Optimizer,
    ParamsT,
    check_at_least_zero,
    check_tensor_lr,
    loss_of,
    without_recording,
)
from functrace.torch.optim.stepping import hyper
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.typing import Array

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS: the direction of a step comes from the last differences of gradients.

    There can be only one group of parameters. The closure is called several times in one step.

    Args:
        params: the parameters, or parameters with names.
        lr: length of a step, as a multiple of the direction; may be a tensor with one element.
        max_iter: most iterations of one step.
        max_eval: most calls of the closure in one step; by default 1.25 times ``max_iter``.
        tolerance_grad: the step ends when no element of the gradient is larger.
        tolerance_change: the step ends when neither parameters nor loss change by more.
        history_size: number of differences that are kept.
        line_search_fn: ``"strong_wolfe"``, or None for steps of length ``lr``.

    Raises:
        ValueError: for a negative learning rate, or several groups.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([3.0, -2.0], requires_grad=True)
        >>> optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (x - torch.tensor([1.0, 2.0])).square().sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure)
        tensor(20., grad_fn=<SumBackward0>)
        >>> x
        tensor([1.0000, 2.0000], requires_grad=True)

    Source: J. Nocedal, S. J. Wright, Numerical optimization, 2006, algorithms 3.5, 3.6, 7.4.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError(errors.LBFGS_GROUPS)
        self._params: list[Tensor] = self.param_groups[0]["params"]
        self._numel_cache: int | None = None

    def _numel(self) -> int:
        """Return the number of real numbers in all parameters."""
        if self._numel_cache is None:
            self._numel_cache = sum((1 + p.is_complex()) * p.numel() for p in self._params)
        return self._numel_cache

    def _gather_flat_grad(self) -> Any:
        """Return all gradients in one vector, an array."""
        parts = []
        for p in self._params:
            array = np.zeros(p.shape, p._array.dtype) if p.grad is None else p.grad._array
            flat = array.reshape(-1)
            if flat.dtype.kind == "c":
                flat = np.ascontiguousarray(flat).view(flat.real.dtype)
            parts.append(flat)
        return np.concatenate(parts)

    def _add_grad(self, length: float, direction: Array) -> None:
        """Move the parameters along a direction."""
        begin = 0
        for p in self._params:
            real = torch.view_as_real(p) if p.is_complex() else p
            part = direction[begin : begin + real.numel()].reshape(real.shape)
            real.add_(wrap(part.astype(real._array.dtype, copy=False)), alpha=float(length))
            begin += real.numel()

    def _clone_param(self) -> list[Tensor]:
        return [p.clone() for p in self._params]

    def _set_param(self, values: list[Tensor]) -> None:
        for p, value in zip(self._params, values, strict=True):
            p.copy_(value)

    @without_recording
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Search for a minimum, in several iterations.

        Args:
            closure: computes the loss and its gradients.

        Returns:
            the loss before the step.
        """
        assert len(self.param_groups) == 1
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = loss_of(closure)
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if np.abs(grad).max() <= group["tolerance_grad"]:
            return first_loss
        history = History(state, group["history_size"])
        settings = np.geterr()

        def evaluate() -> float:
            with np.errstate(**settings):
                return number_of(loss_of(closure))

        with np.errstate(all="ignore"):
            self._iterate(evaluate, group, state, history, number_of(first_loss), grad)
        history.keep(state)
        return first_loss

    def _iterate(
        self,
        evaluate: Callable[[], float],
        group: dict[str, Any],
        state: dict[str, Any],
        history: History,
        loss: float,
        grad: Any,
    ) -> None:
        """Move the parameters until one of the limits is reached."""
        lr, evaluations = hyper(group["lr"], False), 1
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = history.next_direction(grad, state["n_iter"] == 1)
            history.loss = loss
            length = lr
            if state["n_iter"] == 1:
                length = min(1.0, 1.0 / np.abs(grad).sum()) * lr
            history.length = length
            slope = grad.dot(direction)
            if slope > -group["tolerance_change"]:
                return
            more = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError(errors.LBFGS_SEARCH)
                begin = self._clone_param()

                def probe(
                    length: float, direction: Array = direction, begin: list[Tensor] = begin
                ) -> Probe:
                    self._add_grad(length, direction)
                    found = evaluate()
                    grad = self._gather_flat_grad()
                    self._set_param(begin)
                    return Probe(length, found, grad, grad.dot(direction))

                largest = np.abs(direction).max()
                start = Probe(0, loss, grad, slope)
                found, more = search(
                    probe, start, length, largest, most=group["max_eval"] - evaluations
                )
                loss, grad, length = found.loss, found.grad, found.length
                history.length = length
                self._add_grad(length, direction)
            else:
                self._add_grad(length, direction)
                if iteration != group["max_iter"]:
                    loss = evaluate()
                    grad = self._gather_flat_grad()
                    more = 1
            is_flat = bool(np.abs(grad).max() <= group["tolerance_grad"])
            evaluations += more
            state["func_evals"] += more
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or is_flat
                or np.abs(direction * length).max() <= group["tolerance_change"]
                or abs(loss - history.loss) < group["tolerance_change"]
            ):
                return


def number_of(loss: Tensor | float) -> float:
    """Return a loss as a number."""
    return loss.item() if isinstance(loss, Tensor) else float(loss)


class History:
    """The differences of parameters and gradients that approximate the inverse Hessian.

    Args:
        state: the optimizer's state, with what `keep` has stored there.
        size: number of differences that are kept.
    """

    def __init__(self, state: dict[str, Any], size: int) -> None:
        self.size = size
        self.direction = _array(state.get("d"))
        self.length = _array(state.get("t"))
        self.grads = [_array(x) for x in state.get("old_dirs") or ()]
        self.moves = [_array(x) for x in state.get("old_stps") or ()]
        self.inverses = [_array(x) for x in state.get("ro") or ()]
        self.scale = _array(state.get("H_diag"))
        self.grad = _array(state.get("prev_flat_grad"))
        self.loss = state.get("prev_loss")
        self.factors: list[Any] = [None] * size

    def keep(self, state: dict[str, Any]) -> None:
        """Store everything as tensors in the optimizer's state."""
        if state["n_iter"] > 1:
            state["al"] = [_tensor(x) for x in self.factors]
        state["d"] = _tensor(self.direction)
        state["t"] = _tensor(self.length)
        state["old_dirs"] = [_tensor(x) for x in self.grads]
        state["old_stps"] = [_tensor(x) for x in self.moves]
        state["ro"] = [_tensor(x) for x in self.inverses]
        state["H_diag"] = _tensor(self.scale)
        state["prev_flat_grad"] = _tensor(self.grad)
        state["prev_loss"] = self.loss

    def next_direction(self, grad: Array, is_first: bool) -> Any:
        """Return the direction at a gradient, and keep the difference to the one before."""
        if is_first:
            self.grads, self.moves, self.inverses, self.scale = [], [], [], 1
            self.direction = np.negative(grad)
        else:
            self._add(grad - self.grad, self.direction * self.length)
            self.direction = self._product(np.negative(grad))
        self.grad = grad.copy()
        return self.direction

    def _add(self, change: Array, move: Array) -> None:
        curvature = change.dot(move)
        if not curvature > 1e-10:
            return
        if len(self.grads) == self.size:
            del self.grads[0], self.moves[0], self.inverses[0]
        self.grads.append(change)
        self.moves.append(move)
        self.inverses.append(1.0 / curvature)
        self.scale = curvature / change.dot(change)

    def _product(self, vector: Array) -> Any:
        """Multiply a vector by the approximate inverse Hessian: the two-loop recursion."""
        factors = self.factors
        for k in reversed(range(len(self.grads))):
            factors[k] = self.moves[k].dot(vector) * self.inverses[k]
            vector = vector + self.grads[k] * -factors[k]
        vector = vector * self.scale
        for k in range(len(self.grads)):
            factor = self.grads[k].dot(vector) * self.inverses[k]
            vector = vector + self.moves[k] * (factors[k] - factor)
        return vector


def _array(value: object) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value._array if value.ndim else value._array[()]


def _tensor(value: object) -> Any:
    return wrap(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


# -- line search -----------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Probe:
    """A point on a line.

    Args:
        length: its distance from the first point, in multiples of the direction.
        loss: the loss there.
        grad: the gradient there.
        slope: the derivative of the loss by the length.
    """

    length: Any
    loss: float
    grad: Any
    slope: Any


def minimum_between(a: Probe, b: Probe, low: float | None = None, high: float | None = None) -> Any:
    """Return the length at which the cubic through two points is smallest, within bounds.

    Args:
        a: one point.
        b: another one.
        low: smallest length; by default, that of the nearer point.
        high: largest length; by default, that of the farther point.
    """
    nearest, farthest = sorted((a.length, b.length))
    lower: Any = nearest if low is None else low
    upper: Any = farthest if high is None else high
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    square = bend**2 - a.slope * b.slope
    if not square >= 0:
        return (lower + upper) / 2.0
    root = np.sqrt(square)
    near, far = (a, b) if a.length <= b.length else (b, a)
    part = (far.slope + root - bend) / (far.slope - near.slope + 2 * root)
    return min(max(far.length - (far.length - near.length) * part, lower), upper)


def search(
    probe: Callable[[Any], Probe],
    start: Probe,
    length: Any,
    largest: Any,
    *,
    most: int,
    decrease: float = 1e-4,
    flatness: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[Probe, int]:
    """Find a length that satisfies the strong Wolfe conditions.

    Args:
        probe: evaluates a length.
        start: the point of length 0.
        length: the first to try.
        largest: the largest element of the direction.
        most: number of lengths to try.
        decrease: part of the first slope by which the loss has to fall.
        flatness: part of the first slope that may be left.
        tolerance: the search ends when the interval, times ``largest``, is shorter.

    Returns:
        the point found, and the number of lengths tried.
    """

    def is_high(point: Probe) -> bool:
        return point.loss > start.loss + decrease * point.length * start.slope

    def is_flat(point: Probe) -> bool:
        return abs(point.slope) <= -flatness * start.slope

    before, point, tried = start, probe(length), 0
    ends: list[Probe] = []
    while tried < most:
        if is_high(point) or (tried > 1 and point.loss >= before.loss):
            ends = [before, point]
            break
        if is_flat(point):
            return point, tried + 1
        if point.slope >= 0:
            ends = [before, point]
            break
        low = point.length + 0.01 * (point.length - before.length)
        length = minimum_between(before, point, low, point.length * 10)
        before, point = point, probe(length)
        tried += 1
    if tried == most:
        ends = [start, point]
    stalled = False
    best, worst = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    while tried < most:
        low, high = sorted((ends[0].length, ends[1].length))
        if (high - low) * largest < tolerance:
            break
        length = minimum_between(ends[0], ends[1])
        margin = 0.1 * (high - low)
        if min(high - length, length - low) < margin:
            if stalled or length >= high or length <= low:
                nearer_high = abs(length - high) < abs(length - low)
                length = high - margin if nearer_high else low + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        point = probe(length)
        tried += 1
        if is_high(point) or point.loss >= ends[best].loss:
            ends[worst] = point
            best, worst = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        done = is_flat(point)
        if not done and point.slope * (ends[worst].length - ends[best].length) >= 0:
            ends[worst] = ends[best]
        ends[best] = point
        if done:
            break
    return ends[best], tried + 1
