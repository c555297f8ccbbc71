"""Dispatch modes: operations are forwarded to the mode's ``__torch_dispatch__`` instead of being
run.

While a mode is active, ``MODES.dispatch`` is a `ThreadModes`: the modes, innermost last, and the
state of the handler. `apply` and `write` (applying.py, views.py) forward their op, operands and
parameters to it. It finds the overload (identities.py), calls the innermost mode beneath autograd,
and makes the node on the mode's result. As in PyTorch, the mode gets the original operands,
nothing it does is recorded, and its result becomes the operation's.

Note [Meaning of func in a handler]
    If a handler calls ``func`` with the arguments it got, the original operation runs: the same op
    with the same parameters, and with the random numbers already drawn. With other arguments, the
    function of that name runs (overloads.py); if there is none, the original op, if the arguments
    differ only in tensors of the same shapes and dtypes.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

from functrace.torch import errors
from functrace.torch._ops import OpOverload
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.hooks import refuse_hooks
from functrace.torch.dispatch import applying, recording
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.identities import described
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.overloads import ops, out_overload, overload_for
from functrace.torch.dispatch.plans import OpPlan
from functrace.torch.functions.constants import preserve_format
from functrace.torch.tensors import views
from functrace.torch.tensors.storageless import KINDS, StoragelessArray
from functrace.torch.tensors.tensor import UNVERSIONED, Tensor, view_of
from functrace.tracing import Tracer


@final
class ForwardedCall:
    """An operation forwarded to the modes: their arguments, and the function to run if they do not
    change it.
    """

    __slots__ = ("again", "args", "kwargs", "overload", "run", "types")

    def __init__(
        self,
        overload: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[[], Any],
        types: tuple[type, ...] = (),
        again: Callable[..., Any] | None = None,
    ) -> None:
        self.again = again
        self.overload, self.args, self.kwargs, self.run, self.types = (
            overload,
            args,
            kwargs,
            run,
            types,
        )

    def run_on(self, overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operation on other arguments than those of this call.

        Raises:
            NotImplementedError: if there is no function of its name, and the op of this call does
                not take the arguments.
        """
        try:
            function = overload._function
        except NotImplementedError:
            if self.again is None or overload is not self.overload:
                raise
            found: dict[int, Any] = {}
            if not (matched(args, self.args, found) and matched(kwargs, self.kwargs, found)):
                raise
            result = self.again(found)
            if result is NotImplemented:
                raise
            return result
        return function(*args, **kwargs)

    def is_for(self, overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return True if an operation and its arguments are those of this call."""
        return (
            overload is self.overload and is_same(args, self.args) and is_same(kwargs, self.kwargs)
        )


def is_same(given: object, before: object) -> bool:
    """Return True if arguments are the same: identical tensors, equal numbers."""
    if given is before:
        return True
    if isinstance(given, (tuple, list)) and isinstance(before, (tuple, list)):
        return len(given) == len(before) and all(map(is_same, given, before))
    if isinstance(given, dict) and isinstance(before, dict):
        return given.keys() == before.keys() and all(is_same(given[k], before[k]) for k in given)
    return type(given) is type(before) and not isinstance(given, Tensor) and bool(given == before)


def matched(given: Any, before: Any, found: dict[int, Any]) -> bool:
    """Return True if arguments are the same, but for tensors of the same shapes and dtypes, which
    are added to ``found`` by the identity of the former ones.
    """
    if isinstance(given, Tensor) and isinstance(before, Tensor):
        x, y = given._array, before._array
        is_alike = x.shape == y.shape and x.dtype == y.dtype
        return is_alike and found.setdefault(id(before), given) is given
    if isinstance(given, (tuple, list)) and isinstance(before, (tuple, list)):
        return len(given) == len(before) and all(
            matched(x, y, found) for x, y in zip(given, before, strict=True)
        )
    if isinstance(given, dict) and isinstance(before, dict):
        return given.keys() == before.keys() and all(
            matched(given[k], before[k], found) for k in given
        )
    return is_same(given, before)


@final
class ThreadModes:
    """The modes of the current thread.

    Args:
        modes: the modes, innermost last.
        is_beneath: True while a mode's handler runs: nothing is recorded then, and versions do not
            count.
        call: the operation that the handler was called for.
    """

    __slots__ = ("call", "is_beneath", "modes")
    is_passive = False
    """False: operations are replaced; True for the observer of a profile (profiling.py)."""

    def __init__(
        self, modes: tuple[Any, ...], *, is_beneath: bool = False, call: ForwardedCall | None = None
    ) -> None:
        self.modes, self.is_beneath, self.call = modes, is_beneath, call

    # -- from applying.py and views.py -------------------------------------------------------------

    def apply(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op, as `functrace.torch.dispatch.applying.apply` does."""
        run = lambda: applying.apply(op, operands, params)  # noqa: E731
        if not self.modes:
            return beneath(run)
        operands = checked(op, operands)
        overload, args, kwargs = described(op, operands, params)
        plan = None if self.is_beneath else plan_for(op, operands, params)
        saves = MODES.pairs and plan is not None and plan.derivation is not None
        prepared = recording.prepare(plan, operands) if saves and plan is not None else None
        whole = whole_of(op)
        shown = run if whole is None else lambda: whole.complete(run(), *operands, *params)

        def again(found: dict[int, Any]) -> Any:
            tensors = [x for x in operands if isinstance(x, Tensor)]
            if whole is not None or not all(id(x) in found for x in tensors):
                return NotImplemented
            return applying.apply(op, tuple([found.get(id(x), x) for x in operands]), params)

        result = self.add_result(ForwardedCall(overload, args, kwargs, shown, again=again))
        returns = overload._schema.returns
        many = len(returns) > 1 or returns[0].type.startswith("List")
        if overload.namespace != "aten":  # (its schema does not tell how many results it has)
            many = isinstance(result, (tuple, list))
        made = results_of(result, many=many)
        if whole is not None:
            made = whole.chosen(made)
        return made if plan is None else placed(plan, operands, params, made, prepared)

    def write(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Tensor:
        """Apply an op in place, as `functrace.torch.tensors.views.write` does."""
        tensor = operands[0]
        run = lambda: views.write(op, operands, params)  # noqa: E731
        if not self.modes:
            return beneath(run, writes=(tensor,))
        operands = checked(op, operands)
        overload, args, kwargs = described(op, operands, params, in_place=True)

        def overwrite() -> None:
            results_of(self.add_result(ForwardedCall(overload, args, kwargs, run)), many=False)

        if self.is_beneath:
            overwrite()
            return tensor
        return views.write(op, operands, params, overwrite)

    def put_out(
        self,
        name: str,
        args: tuple[Any, ...],
        out: Tensor | tuple[Tensor, ...],
        run: Callable[[], Any],
    ) -> Any:
        """Compute into ``out`` tensors, as `functrace.torch.dispatch.results.put_out` does."""
        targets = out if isinstance(out, tuple) else (out,)
        if not self.modes:
            return beneath(run, writes=targets)
        overload, kwargs = out_overload(name, args, targets)
        result = self.add_result(ForwardedCall(overload, args, kwargs, run))
        results_of(result, many=isinstance(out, tuple))
        if not self.is_beneath:
            for target in targets:
                if target._counter is not UNVERSIONED:
                    target._counter[0] += 1
        return out

    def make(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Run an operation that is no op and is not in the graph: a query, a constant."""
        if not self.modes:
            return beneath(run)
        return self.add_result(
            ForwardedCall(overload_for(getattr(ops.aten, name), args, kwargs), args, kwargs, run)
        )

    def call_custom(
        self,
        overload: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        """Run a custom operator."""
        if not self.modes:
            return beneath(run)
        return self.add_result(ForwardedCall(overload, args, kwargs, run))

    def detach(self, tensor: Tensor, types: tuple[type, ...] = ()) -> Tensor:
        """Return an alias without history; it shares the version counter."""
        if not self.modes:
            return tensor._alias()
        made = results_of(
            self.add_result(
                ForwardedCall(ops.aten.detach.default, (tensor,), {}, tensor._alias, types)
            ),
            many=False,
        )
        if not self.is_beneath:
            made._counter = tensor._counter
        return made

    def seed(self, output: object, ones: Tensor) -> Any:
        """Return the default gradient of a root."""
        kwargs = {"pin_memory": False, "memory_format": preserve_format}
        return self.make("ones_like", (output,), kwargs, lambda: ones)

    def lift(self, constant: Tensor) -> Any:
        """Return an assigned number as a tensor."""
        return self.make("lift_fresh", (constant,), {}, lambda: constant)

    # -- the modes ---------------------------------------------------------------------------------

    def add_result(self, call: ForwardedCall) -> Any:
        """Call the handler of the innermost mode.

        Raises:
            TypeError: if no mode handles the operation.
        """
        mode = self.modes[-1]
        before = MODES.forward
        MODES.dispatch, MODES.forward = (
            ThreadModes(self.modes[:-1], is_beneath=True, call=call),
            False,
        )
        try:
            result = mode.__torch_dispatch__(call.overload, call.types, call.args, call.kwargs)
        finally:
            MODES.dispatch, MODES.forward = self, before
        if result is NotImplemented:
            raise TypeError(errors.not_dispatched(call.overload, mode))
        return result

    def run(self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a handler's call; see Note [Meaning of func in a handler]."""
        known = self.call
        if known is None or not known.is_for(overload, args, kwargs):
            former = known
            run = (
                (lambda: overload._function(*args, **kwargs))
                if former is None
                else (lambda: former.run_on(overload, args, kwargs))
            )
            known = ForwardedCall(overload, args, kwargs, run)
        known.types = ()
        if self.modes:
            return self.add_result(known)
        written = [
            value
            for argument, value in bound(overload, args, kwargs)
            if argument.alias_info is not None
            and argument.alias_info.is_write
            and isinstance(value, Tensor)
        ]
        return beneath(known.run, writes=written)


def bound(
    overload: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """Yield the schema's arguments that the call passes, each with its value."""
    for k, argument in enumerate(overload._schema.arguments):
        if k < len(args):
            yield argument, args[k]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def beneath(run: Callable[[], Any], writes: Sequence[Any] = ()) -> Any:
    """Run a function beneath autograd: no graph, no tracking of view bases, no version counting.

    In inference mode it stays on.
    """
    before = MODES.dispatch, MODES.recording
    counters = [
        (tensor._counter, tensor._counter[0])
        for tensor in writes
        if tensor._counter is not UNVERSIONED
    ]
    MODES.dispatch, MODES.recording = None, MODES.recording and False
    try:
        result = run()
    finally:
        MODES.dispatch, MODES.recording = before
        for counter, count in counters:
            counter[0] = count
    for made in result if isinstance(result, (tuple, list)) else (result,):
        if (
            isinstance(made, Tensor)
            and made._view is not None
            and not any(made is x for x in writes)
        ):
            made._view = None
            made._counter = made._counter if made._counter is UNVERSIONED else [0]
    return result


def checked(op: Op, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands as modes get them: tensors and Python numbers.

    Raises:
        NotImplementedError: for traced values.
        TypeError: for anything else.
    """
    for x in operands:
        if isinstance(x._array if isinstance(x, Tensor) else x, Tracer):
            if MODES.pairs:
                refuse_hooks()
            raise NotImplementedError(errors.MODE_AMONG_TRACED)
    plain = tuple([number_of(x) for x in operands])
    for k, x in enumerate(plain):
        if not isinstance(x, Tensor) and type(x) not in NUMBERS:
            raise TypeError(errors.argument_type(op.node, k, len(operands), x))
    return plain


def results_of(result: object, *, many: bool) -> Any:
    """Check the result of a handler: a tensor (or None), or a tuple of tensors.

    Raises:
        RuntimeError: for anything else.
    """
    if not many:
        if result is not None and not isinstance(result, Tensor):
            raise RuntimeError(f"Unable to cast {result} to Tensor")
        return result
    if not isinstance(result, (tuple, list)):
        raise RuntimeError(
            f"Object of type '{type(result).__name__}' is not an instance of 'sequence'"
        )
    for one in result:
        results_of(one, many=False)
    return tuple(result)


def plan_for(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> OpPlan:
    """Return the plan of an operation that is recorded if an operand requires grad."""
    mask = 0
    if MODES.recording:
        for k, x in enumerate(operands):
            mask |= (isinstance(x, Tensor) and x.requires_grad) << k
    plan = views.find_plan(op, operands, params, mask)
    assert plan is not None
    return plan


def placed(
    plan: OpPlan,
    operands: tuple[Any, ...],
    params: tuple[Any, ...],
    made: Tensor | tuple[Any, ...] | None,
    prepared: recording.Prepared | None,
) -> Any:
    """Attach the results of a mode to the graph, as the operation's results.

    Args:
        plan: of the operation.
        operands, params: of the operation.
        made: the results.
        prepared: its node, if that was made before.

    Raises:
        NotImplementedError: if their shapes and dtypes are not those of the derivative.
    """
    if made is None:
        return None
    op = plan.case.op
    if op.is_view and isinstance(made, Tensor) and type(made._array) is not StoragelessArray:
        shown = view_of(operands[0], made._array, (op.function, params, op))
        made._view, made._counter = shown._view, shown._counter
        if made._counter is UNVERSIONED:  # views of inference tensors have no history
            return made
    if plan.derivation is not None:
        outputs = made if isinstance(made, tuple) else (made,)
        for aval, one in zip(plan.outputs, outputs, strict=True):
            if one is None or one._array.shape != aval.shape or one._array.dtype != aval.dtype:
                raise NotImplementedError(errors.dispatched_otherwise(op.node, aval, one))
        arrays = [x._array if isinstance(x, Tensor) else x for x in operands]
        node = recording.record(plan, operands, arrays, made, prepared)
        if KINDS and any(type(x._array) is StoragelessArray for x in outputs if x is not None):
            node._is_storageless = True
    return made


def whole_of(op: Op) -> Any:
    """Return how the results of an op are completed, if PyTorch's operation has more."""
    from functrace.torch.dispatch.whole_results import WHOLE

    return WHOLE.get(op.called or op.node)


# -- the stack -------------------------------------------------------------------------------------


def active() -> tuple[Any, ...]:
    """Return the active modes, innermost last."""
    return () if MODES.dispatch is None else MODES.dispatch.modes


def activate(modes: tuple[Any, ...]) -> None:
    """Activate these modes in the current thread; the calls of a handler stay beneath autograd."""
    now = MODES.dispatch
    beneath_autograd = now is not None and now.is_beneath
    call = None if now is None else now.call
    made = (
        ThreadModes(modes, is_beneath=beneath_autograd, call=call)
        if modes or beneath_autograd
        else None
    )
    if now is not None and now.is_passive:
        now.inner = made
    else:
        MODES.dispatch = made


@contextmanager
def without_modes() -> Iterator[list[Any]]:
    """Deactivate all modes; yields the former ones, innermost first."""
    before = active()
    activate(())
    try:
        yield list(reversed(before))
    finally:
        activate(before)
