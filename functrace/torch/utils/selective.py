"""Selective checkpointing: some operations of a checkpointed function keep their results, and are
not rerun.

Two dispatch modes implement it. `_CachingTorchDispatchMode` is active in the first run: it calls
the policy for every operation, and caches the results to save. `_CachedTorchDispatchMode` is
active in the second run, and returns the cached results of these operations, in call order.

On traced values nothing is rerun: there, `among_traced` names the results that the policy selects,
and `functrace.checkpoint` saves the values with these names.

Layer: 9.
"""

from __future__ import annotations

import enum
import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias, final

from functrace import policies
from functrace.api.residuals.checkpointing import checkpoint, checkpoint_name
from functrace.control.residuals import RECOMPUTE, Policy
from functrace.torch import errors
from functrace.torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch import applying
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.identities import described
from functrace.torch.dispatch.numbers import NUMBERS
from functrace.torch.dispatch.overloads import ops
from functrace.torch.func.calls import checkpointed
from functrace.torch.tensors import views
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.torch.utils._python_dispatch import TorchDispatchMode
from functrace.tracing import Tracer
from functrace.tree import flatten

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointPolicy(enum.Enum):
    """Decision of a policy for an operation: keep its result, or recompute it in backward.

    ``MUST_…`` and ``PREFER_…`` mean the same here. Results to offload to the CPU are there
    already, and are recomputed, as in PyTorch's eager mode.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


@final
class SelectiveCheckpointContext:
    """First argument of a policy, before the operation and its arguments.

    Args:
        is_recompute: False: policies are called in the first run only.
        op_output: the result of the operation.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


PolicyFunction: TypeAlias = Callable[..., CheckpointPolicy | bool]

SAC_IGNORED_OPS = {ops.aten.detach.default, ops.prim.device.default}
"""Operations that policies do not get and that are not cached: aliases, of which the runs make
different numbers.
"""

_RECOMPUTE, _CONSUMED = object(), object()


@final
class _VersionWrapper:
    """A cached result, with its version."""

    __slots__ = ("val", "version")

    def __init__(self, val: Any) -> None:
        self.val = val
        self.version = val._version if isinstance(val, Tensor) else None

    def get_val(self, allow_cache_entry_mutation: bool) -> Any:
        """Return the result.

        Raises:
            RuntimeError: if it was overwritten, unless that is allowed.
        """
        if (
            self.version is not None
            and not allow_cache_entry_mutation
            and self.val._version != self.version
        ):
            raise RuntimeError(errors.CACHED_MUTATED)
        return self.val


def _kept(value: Any) -> _VersionWrapper:
    """Cache a result as an alias, so that the result itself is in no cycle; the version is
    shared.
    """
    return _VersionWrapper(value._alias() if isinstance(value, Tensor) else value)


def _policy_from_bool(b: bool) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if b else CheckpointPolicy.PREFER_RECOMPUTE


class _CachingTorchDispatchMode(TorchDispatchMode):
    """Dispatch mode of the first run: caches the results that the policy selects."""

    def __init__(
        self,
        policy_fn: PolicyFunction,
        storage: dict[Any, dict[int, Any]],
        ac_graph_id: object = None,
    ) -> None:
        super().__init__()
        self.policy_fn, self.storage, self.ac_graph_id = policy_fn, storage, ac_graph_id
        self.func_counter: dict[Any, int] = defaultdict(int)

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: there is no compiler here."""
        return True

    def saves(
        self, func: OpOverload, out: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bool:
        """Return True if the policy saves the result of an operation."""
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        outcome = self.policy_fn(context, func, *args, **kwargs)
        if isinstance(outcome, bool):
            outcome = _policy_from_bool(outcome)
        return outcome in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation, and cache its result if the policy selects it."""
        kwargs = {} if kwargs is None else kwargs
        out = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return out
        place = self.func_counter[func]
        self.func_counter[func] += 1
        self.storage[func][place] = (
            _each(_kept, out) if self.saves(func, out, args, kwargs) else _RECOMPUTE
        )
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """Dispatch mode of the second run: returns cached results."""

    def __init__(
        self,
        policy_fn: object,
        storage: dict[Any, dict[int, Any]],
        allow_cache_entry_mutation: bool = False,
    ) -> None:
        super().__init__()
        self.storage, self.allow_cache_entry_mutation = storage, allow_cache_entry_mutation
        self.func_counter: dict[Any, int] = defaultdict(int)

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: there is no compiler here."""
        return True

    def __enter__(self) -> _CachedTorchDispatchMode:
        self.func_counter.clear()
        return super().__enter__()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the cached result of this call, or rerun the operation.

        Raises:
            RuntimeError: if the first run had no such call, or the cached result was freed or
                overwritten.
        """
        kwargs = {} if kwargs is None else kwargs
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        place = self.func_counter[func]
        self.func_counter[func] += 1
        calls = self.storage.get(func)
        if calls is None:
            raise RuntimeError(errors.not_in_storage(func))
        entry = calls.get(place)
        if entry is None:
            raise RuntimeError(errors.not_in_storage(func, place))
        if entry is _CONSUMED:
            raise RuntimeError(errors.EXTRA_BACKWARD)
        if entry is _RECOMPUTE:
            return func(*args, **kwargs)
        calls[place] = _CONSUMED
        return _each(lambda kept: kept.get_val(self.allow_cache_entry_mutation), entry)


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to a result, or to each of several."""
    if isinstance(value, (tuple, list)):
        return tuple([function(one) for one in value])
    return function(value)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: PolicyFunction | list[OpOverload], allow_cache_entry_mutation: bool = False
) -> Contexts:
    """Make the two contexts for ``checkpoint(context_fn=)`` under which some operations keep their
    results.

    Args:
        policy_fn_or_list: the operations that keep their results (``torch.ops.aten.mm.default``);
            or a function ``policy(ctx, op, *args, **kwargs)``, called for each operation of the
            first run, that returns a `CheckpointPolicy`, or True to save the result.
        allow_cache_entry_mutation: True to allow that kept results are overwritten; derivatives
            then use the new values.

    Returns:
        the pair of contexts.

    Raises:
        ValueError: if an element of the list is not an operation.
        TypeError: for anything else.

    Example:
        >>> import functools
        >>> import functrace.torch as torch
        >>> from functrace.torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
        >>> y = checkpoint(lambda x: torch.mm(x, x).sin(), x, use_reentrant=False, context_fn=contexts)
        >>> y.sum().backward()  # the product of matrices is not recomputed
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, (OpOverload, HigherOrderOperator)):
                raise ValueError(
                    errors.not_an_overload(op, is_packet=isinstance(op, OpOverloadPacket))
                )
        policy: Any = _Listed(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, dict[int, Any]] = defaultdict(dict)
    return (
        _CachingTorchDispatchMode(policy, storage),
        _CachedTorchDispatchMode(None, storage, allow_cache_entry_mutation),
    )


@final
class _Listed:
    """The policy of a list of operations."""

    def __init__(self, listed: Sequence[OpOverload]) -> None:
        self._listed = listed

    def __call__(
        self, ctx: SelectiveCheckpointContext, op: OpOverload, *args: object, **kwargs: object
    ) -> CheckpointPolicy:
        return (
            CheckpointPolicy.MUST_SAVE if op in self._listed else CheckpointPolicy.PREFER_RECOMPUTE
        )


# -- on traced values ------------------------------------------------------------------------------

_NAME = "selected by a checkpoint's policy"


@final
class _Naming:
    """Names the results of operations on traced values that a policy selects; used in place of a
    `ThreadModes`.
    """

    is_beneath = is_passive = False
    modes = ()

    def __init__(self, mode: _CachingTorchDispatchMode) -> None:
        self._mode = mode

    def apply(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op, and name its result if the policy selects it."""
        return self._named(
            op, operands, params, lambda: applying.apply(op, operands, params), in_place=False
        )

    def write(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Tensor:
        """Apply an op in place; the tensor's new value is named if the policy selects it."""
        tensor = operands[0]
        self._named(op, operands, params, lambda: views.write(op, operands, params), in_place=True)
        return tensor

    def put_out(self, name: str, args: tuple[Any, ...], out: Any, run: Callable[[], Any]) -> Any:
        """Refuse: policies do not apply to writes into tensors from outside.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(errors.SELECTED_OUT)

    def make(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Run an operation without derivative."""
        return self._without(run)

    def call_custom(
        self,
        overload: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        """Run a custom operator, whose operations are selected one by one."""
        return run()

    def detach(self, tensor: Tensor, types: tuple[type, ...] = ()) -> Tensor:
        """Return an alias without history."""
        return tensor._alias()

    def lift(self, constant: Tensor) -> Tensor:
        """Return an assigned number as a tensor."""
        return constant

    def _without(self, run: Callable[[], Any]) -> Any:
        MODES.dispatch = None
        try:
            return run()
        finally:
            MODES.dispatch = self

    def _named(
        self,
        op: Op,
        operands: tuple[Any, ...],
        params: tuple[Any, ...],
        run: Callable[[], Any],
        *,
        in_place: bool,
    ) -> Any:
        shown = tuple(
            [x if isinstance(x, Tensor) or type(x) in NUMBERS else wrap(x) for x in operands]
        )
        func, args, kwargs = described(op, shown, params, in_place=in_place)
        out = self._without(run)
        is_traced = any(isinstance(x, Tensor) and isinstance(x._array, Tracer) for x in shown)
        if not is_traced or func in SAC_IGNORED_OPS:
            return out
        if not self._without(lambda: self._mode.saves(func, out, args, kwargs)):
            return out
        return tuple(map(_name, out)) if isinstance(out, tuple) else _name(out)


def _name(value: Any) -> Any:
    """Name a result: a tensor over a traced value, or a traced value."""
    if not isinstance(value, Tensor):
        return checkpoint_name(value, _NAME)
    value._array = checkpoint_name(value._array, _NAME)
    return value


def among_traced(
    function: Callable[..., Any],
    context_fn: Callable[[], Contexts],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function of traced values under `functrace.checkpoint`; results that a policy selects
    are saved by name.

    Raises:
        NotImplementedError: for contexts that are not those of
            `create_selective_checkpoint_contexts`.
    """
    now, again = context_fn()
    if isinstance(now, nullcontext) and isinstance(again, nullcontext):
        return _checkpointed(function, args, kwargs, RECOMPUTE)
    if not isinstance(now, _CachingTorchDispatchMode) or not isinstance(
        again, _CachedTorchDispatchMode
    ):
        raise NotImplementedError(errors.CONTEXTS_AMONG_TRACED)

    @functools.wraps(function)
    def selecting(*args: object, **kwargs: object) -> Any:
        before = MODES.dispatch
        MODES.dispatch = _Naming(now)
        try:
            return function(*args, **kwargs)
        finally:
            MODES.dispatch = before

    return _checkpointed(selecting, args, kwargs, policies.save_names(_NAME))


def _checkpointed(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], policy: Policy
) -> Any:
    """Call a function of traced values, or of tensors over them, under `functrace.checkpoint`."""
    if any(isinstance(leaf, Tracer) for leaf in flatten((args, kwargs))[0]):
        return checkpoint(function, policy=policy)(*args, **kwargs)
    return checkpointed(function, args, kwargs, policy)
