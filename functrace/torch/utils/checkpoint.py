"""Checkpointing: rerun a part of the forward pass in backward, instead of keeping its saved
tensors.

`checkpoint` runs a function under hooks that discard its saved tensors, and reruns it when
backward needs them; see recomputation.py. Selective checkpointing is in selective.py, the output
of ``debug=True`` in checkpoint_debug.py, the older variant in reentrant.py.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, final

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.autocasting import with_precision
from functrace.torch.random import get_rng_state, random_numbers_of
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils.checkpoint_debug import (
    _get_debug_context_and_cb as _get_debug_context_and_cb,
)
from functrace.torch.utils.device_states import DefaultDeviceType as DefaultDeviceType
from functrace.torch.utils.device_states import _infer_device_type as _infer_device_type
from functrace.torch.utils.device_states import check_backward_validity as check_backward_validity
from functrace.torch.utils.device_states import detach_variable as detach_variable
from functrace.torch.utils.device_states import get_device_states as get_device_states
from functrace.torch.utils.device_states import set_device_states as set_device_states
from functrace.torch.utils.recomputation import (
    _DEFAULT_DETERMINISM_MODE,
    CheckpointError,
    GraphExecGroup,
    _checkpoint_hook,
    _CheckpointFrame,
)
from functrace.torch.utils.recomputation import (
    _allowed_determinism_checks_to_fns as _allowed_determinism_checks_to_fns,
)
from functrace.torch.utils.recomputation import _recomputation_hook as _recomputation_hook
from functrace.torch.utils.recomputation import _StopRecomputationError as _StopRecomputationError
from functrace.torch.utils.reentrant import CheckpointFunction as CheckpointFunction
from functrace.torch.utils.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    among_traced,
    create_selective_checkpoint_contexts,
)
from functrace.torch.utils.selective import _CachedTorchDispatchMode as _CachedTorchDispatchMode
from functrace.torch.utils.selective import _CachingTorchDispatchMode as _CachingTorchDispatchMode
from functrace.torch.utils.selective import _VersionWrapper as _VersionWrapper
from functrace.tracing import Tracer
from functrace.tree import flatten

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


@final
class _Settings:
    """Overrides for checkpoints made in all threads; None uses the option of each call."""

    early_stop: bool | None = None
    debug: bool | None = None


_SETTINGS = _Settings()


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing: the default of ``context_fn``.

    Returns:
        the pair of contexts.

    Example:
        >>> first, second = noop_context_fn()
        >>> with first, second:
        ...     pass
    """
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Run ``function(*args, **kwargs)`` and keep its inputs only; the backward pass runs it again.

    On values that functrace traces, this is `functrace.checkpoint`.

    Args:
        function: the function to run now, and again in each backward pass that needs it. It must
            do the same every time.
        args: its arguments. Tensors among them (not in containers) are checked for being
            overwritten.
        use_reentrant: False for the variant described in the module. True for the older variant,
            which reruns the whole ``function``, in a backward pass within the backward pass;
            ``None`` selects it, and warns.
        context_fn: a function that returns two contexts, for the first run and for those in
            backward; `create_selective_checkpoint_contexts` makes such a pair.
        determinism_check: ``"default"`` compares shapes and dtypes of the tensors that the runs
            save, ``"none"`` only their number.
        debug: True to list the operations of both runs in errors about saved tensors.
        early_stop: True to stop the second run once everything needed is there;
            `set_checkpoint_early_stop` overrides it.
        kwargs: keyword arguments of ``function``, and ``preserve_rng_state=True``: random numbers
            in backward are then those of the first run.

    Returns:
        the result of ``function``.

    Raises:
        ValueError: if the options exclude each other.
        CheckpointError: in backward, if the runs differ.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.utils.checkpoint import checkpoint
        >>> x = torch.tensor([0.5], requires_grad=True)
        >>> y = checkpoint(lambda x: print("run") or x.sin().exp(), x, use_reentrant=False)
        run
        >>> y.backward()
        run
        >>> x.grad
        tensor([1.4174])

    Cost:
        one more run of ``function`` per backward pass; its inputs are kept, instead of its saved
        tensors.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    leaves = flatten((args, kwargs))[0]
    if any(
        isinstance(leaf._array if isinstance(leaf, Tensor) else leaf, Tracer) for leaf in leaves
    ):
        return among_traced(function, context_fn, args, kwargs)
    if use_reentrant is None:
        warnings.warn(errors.REENTRANT_UNDECIDED, UserWarning, stacklevel=2)
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError(errors.unexpected_keywords(list(kwargs)))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(errors.REENTRANT_OPTIONS)
        return CheckpointFunction.apply(function, preserve, *args)
    around = _checkpoint_without_reentrant_generator(
        function, preserve, context_fn, determinism_check, debug, early_stop, *args, **kwargs
    )
    next(around)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        around.throw(error)
        raise AssertionError("unreachable") from error
    next(around, None)
    return result


def _checkpoint_without_reentrant_generator(
    fn: Callable[..., Any],
    preserve_rng_state: bool = True,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = _DEFAULT_DETERMINISM_MODE,
    debug: bool = False,
    early_stop: bool = True,
    *args: object,
    **kwargs: object,
) -> Generator[None]:
    """Wrap a call to checkpoint: prepare it before the one yield, and complete it afterwards."""
    callback = None
    if debug if _SETTINGS.debug is None else _SETTINGS.debug:
        if context_fn is not noop_context_fn:
            raise ValueError(errors.DEBUG_WITH_CONTEXTS)
        context_fn, callback = _get_debug_context_and_cb()
    compares = _allowed_determinism_checks_to_fns.get(determinism_check)
    if compares is None:
        raise ValueError(
            errors.determinism_check(list(_allowed_determinism_checks_to_fns), determinism_check)
        )
    now, again = context_fn()
    if not MODES.recording:
        yield
        return
    repeat = _Call(fn, kwargs, again, preserve_rng_state)
    stops = early_stop if _SETTINGS.early_stop is None else _SETTINGS.early_stop
    frame = _CheckpointFrame(repeat, stops, callback, compares)
    frame.save_inputs(*args)
    has_failed = False
    with _checkpoint_hook(frame), now:
        try:
            yield
        except BaseException:
            has_failed = True
            raise
    if has_failed:
        raise RuntimeError(errors.CONTEXT_SUPPRESSED)
    frame.forward_completed = True


@final
class _Call:
    """A repeatable call, with the random numbers of the first run."""

    __slots__ = ("_context", "_function", "_kwargs", "_precision", "_random")

    def __init__(
        self,
        function: Callable[..., Any],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
        preserve: bool,
    ) -> None:
        self._function, self._kwargs, self._context = function, kwargs, context
        self._random = get_rng_state() if preserve else None
        self._precision = MODES.autocast

    def __call__(self, *args: object) -> None:
        """Repeat the call, and resume the generator."""
        with random_numbers_of(self._random), with_precision(self._precision), self._context:
            self._function(*args, **self._kwargs)


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Apply functions one after the other, in segments; all segments but the last are checkpoints.

    Args:
        functions: the functions.
        segments: number of segments; the last one also takes the remainder.
        input: argument of the first function.
        use_reentrant: variant of `checkpoint`.
        preserve_rng_state: True to repeat random numbers in backward.
        kwargs: must be empty; other keyword arguments raise.

    Returns:
        the result of the last function.

    Raises:
        ValueError: for other keyword arguments, or more segments than functions.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.utils.checkpoint import checkpoint_sequential
        >>> x = torch.tensor([0.5], requires_grad=True)
        >>> checkpoint_sequential([torch.sin, torch.exp], 2, x, use_reentrant=False).backward()
        >>> x.grad
        tensor([1.4174])
    """
    if use_reentrant is None:
        warnings.warn(errors.SEQUENTIAL_UNDECIDED, UserWarning, stacklevel=2)
        use_reentrant = True
    if kwargs:
        raise ValueError(errors.unexpected_keywords(list(kwargs)))
    parts = list(functions)
    size = len(parts) // segments
    if not size:
        raise ValueError(
            f"{segments} segments of {len(parts)} functions; each needs at least one function"
        )
    last = size * (segments - 1)
    for start in range(0, last, size):
        segment = _Chain(parts[start : start + size])
        input = checkpoint(
            segment, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return _Chain(parts[last:])(input)


@final
class _Chain:
    """Functions applied in sequence."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[Callable[[Any], Any]]) -> None:
        self._parts = parts

    def __call__(self, value: Any) -> Any:
        for part in self._parts:
            value = part(value)
        return value


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Override the ``early_stop`` option of all checkpoints that are made inside of a ``with``
    block.

    Args:
        enable: True to stop the second run once everything needed is there.

    Returns:
        a context manager.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
        >>> with set_checkpoint_early_stop(False):
        ...     checkpoint(torch.sin, torch.zeros(1), use_reentrant=False)
        tensor([0.])
    """
    before, _SETTINGS.early_stop = _SETTINGS.early_stop, enable
    try:
        yield
    finally:
        _SETTINGS.early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Override the ``debug`` option of all checkpoints that are made inside of a ``with`` block.

    Args:
        enabled: True or False; ``None`` leaves the option of each call.

    Returns:
        a context manager.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.utils.checkpoint import checkpoint, set_checkpoint_debug_enabled
        >>> with set_checkpoint_debug_enabled(True):
        ...     checkpoint(torch.sin, torch.zeros(1), use_reentrant=False)
        tensor([0.])
    """
    before, _SETTINGS.debug = _SETTINGS.debug, enabled
    try:
        yield
    finally:
        _SETTINGS.debug = before
