"""Checkpointing: run a part of the forward pass again in backward, instead of keeping what it saves.

`checkpoint` runs the function under saved-tensor hooks that keep an empty `_Slot` for each tensor. When backward first
unpacks one of them, the region is run again under hooks that collect the tensors, in the order of the first run, and that
stop it by an exception as soon as the last slot has its tensor. Nesting needs nothing more: the inputs of an inner region
are saved tensors, which the hooks of the outer one turn into slots of its own; unpacking them runs the outer region again.

Lifetimes: saved tensors hold slot and region; the region refers to its slots weakly, and to what it collected for a backward
pass only as long as that pass lasts and nobody has taken it. Nothing holds the results of either run.

Floor: 8.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, final

from functrace.api.residuals import checkpoint as checkpoint_traced
from functrace.source import Source, user_source
from functrace.torch import sentences
from functrace.torch.autograd.engine import RUNNING, Task
from functrace.torch.autograd.grad_mode import MODES, enable_grad
from functrace.torch.autograd.hooks import saved_tensors_hooks
from functrace.torch.autograd.saved import SavedTensor
from functrace.torch.func import checkpointed
from functrace.torch.random import get_rng_state, random_numbers_of
from functrace.torch.tensor import Tensor
from functrace.torch.utils.reentrant import CheckpointFunction
from functrace.tracing import Tracer
from functrace.tree import flatten

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

_EARLY_STOP: ContextVar[bool | None] = ContextVar("early_stop", default=None)
_DEBUG: ContextVar[bool | None] = ContextVar("debug", default=None)


class CheckpointError(RuntimeError):
    """The second run of a region did not save what the first one saved."""


class _StopRecomputationError(Exception):
    """Everything that is needed has been computed again; passes through the user's function."""


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing: the default of ``context_fn``."""
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
    """Return ``function(*args, **kwargs)``, keeping its inputs only; backward runs it again.

    Among values that functrace traces, this is `functrace.checkpoint`.

    Args:
        function: What is run once now, and again in each backward pass that needs it. It must do the same every time.
        args: What it is called with. Tensors that stand here themselves are watched for being overwritten.
        use_reentrant: False for what the module describes. True for the older variant, which runs the whole of
            ``function`` again, in a backward pass within the backward pass; None chooses that, and warns.
        context_fn: Returns two contexts, for the run now and for those in backward.
        determinism_check: ``"default"`` compares shapes and dtypes of what the runs save, ``"none"`` only their number.
        debug: Name the lines that saved the tensors, in an error about them.
        early_stop: Stop a second run once everything needed is there; `set_checkpoint_early_stop` wins over it.
        kwargs: Handed on, but for ``preserve_rng_state=True``: random numbers in backward are those of the first run.

    Raises:
        ValueError: The options exclude each other.
        CheckpointError: In backward, if the runs differ.

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
        one more run of ``function`` per backward pass; its inputs are kept, instead of all that it saves.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    leaves = flatten((args, kwargs))[0]
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        return checkpoint_traced(function)(*args, **kwargs)
    if any(isinstance(leaf, Tensor) and isinstance(leaf._array, Tracer) for leaf in leaves):
        return checkpointed(function, args, kwargs)
    if use_reentrant is None:
        warnings.warn(sentences.REENTRANT_UNDECIDED, UserWarning, stacklevel=2)
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError(sentences.unexpected_keywords(list(kwargs)))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(sentences.REENTRANT_OPTIONS)
        return CheckpointFunction.apply(function, preserve, *args)
    if debug and context_fn is not noop_context_fn:
        raise ValueError(sentences.DEBUG_WITH_CONTEXTS)
    if determinism_check not in _DETERMINISM:
        raise ValueError(sentences.determinism_check(_DETERMINISM, determinism_check))
    now, again = context_fn()
    if not MODES.recording:
        return function(*args, **kwargs)
    stops = _EARLY_STOP.get()
    region = _Region(
        _Call(function, args, kwargs, again, preserve),
        stops_early=early_stop if stops is None else stops,
        compares=determinism_check == "default",
        names_lines=debug if _DEBUG.get() is None else bool(_DEBUG.get()),
    )
    with saved_tensors_hooks(region.keep_place, region.unpack), now:
        result = function(*args, **kwargs)
    region.is_complete = True
    return result


_DETERMINISM = ("default", "none")


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Apply functions one after the other, in segments that are checkpoints, all but the last.

    Args:
        functions: The parts of the chain.
        segments: How many segments; the last one also takes what is left over.
        input: What the first function is given.
        use_reentrant: Which variant of `checkpoint`.
        preserve_rng_state: Whether random numbers in backward are those of the first run.
        kwargs: None; named for the error that others raise.

    Raises:
        ValueError: There are other keyword arguments, or more segments than functions.
    """
    if use_reentrant is None:
        warnings.warn(sentences.SEQUENTIAL_UNDECIDED, UserWarning, stacklevel=2)
        use_reentrant = True
    if kwargs:
        raise ValueError(sentences.unexpected_keywords(list(kwargs)))
    parts = list(functions)
    size = len(parts) // segments
    if not size:
        raise ValueError(f"{segments} segments of {len(parts)} functions; there must be a function for each")
    last = size * (segments - 1)
    for start in range(0, last, size):
        segment = _Chain(parts[start : start + size])
        input = checkpoint(segment, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return _Chain(parts[last:])(input)


@final
class _Chain:
    """Functions applied one after the other."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[Callable[[Any], Any]]) -> None:
        self._parts = parts

    def __call__(self, value: Any) -> Any:
        for part in self._parts:
            value = part(value)
        return value


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Decide whether the checkpoints that are made within stop their second run early.

    Args:
        enable: Wins over the ``early_stop`` of each call.
    """
    token = _EARLY_STOP.set(enable)
    try:
        yield
    finally:
        _EARLY_STOP.reset(token)


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Decide whether the checkpoints that are made within name lines in their errors.

    Args:
        enabled: Wins over the ``debug`` of each call; None leaves it to them.
    """
    token = _DEBUG.set(enabled)
    try:
        yield
    finally:
        _DEBUG.reset(token)


@final
class _Call:
    """A call that can be repeated. The tensors among its arguments are saved tensors, so outer hooks may pack them."""

    __slots__ = ("_args", "_context", "_function", "_kwargs", "_random", "_saved")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
        preserve: bool,
    ) -> None:
        self._function = function
        self._kwargs = kwargs
        self._context = context
        self._args = [None if isinstance(arg, Tensor) else arg for arg in args]
        self._saved = [(k, SavedTensor(arg)) for k, arg in enumerate(args) if isinstance(arg, Tensor)]
        self._random = get_rng_state() if preserve else None

    def arguments(self) -> list[Any]:
        """Return the positional arguments; tensors are unpacked."""
        args = list(self._args)
        for k, saved in self._saved:
            args[k] = saved.unpack()
        return args

    def repeat(self, args: Sequence[Any]) -> None:
        """Call once more, with the random numbers of the first call; the generator then goes on from where it was."""
        with random_numbers_of(self._random), self._context:
            self._function(*args, **self._kwargs)


@final
class _Slot:
    """What the first run keeps in place of a tensor: which one it was."""

    __slots__ = ("__weakref__", "place")

    def __init__(self, place: int) -> None:
        self.place = place


@final
class _Record:
    """What a run saved, in order: shape and dtype, and the line that did it if that was asked for."""

    __slots__ = ("facts", "lines")

    def __init__(self, names_lines: bool) -> None:
        self.facts: list[tuple[Any, Any]] = []
        self.lines: list[Source | None] | None = [] if names_lines else None

    def add(self, tensor: Tensor) -> None:
        """Note one more tensor."""
        self.facts.append((tensor.shape, tensor.dtype))
        if self.lines is not None:
            self.lines.append(user_source())


@final
class _Region:
    """One checkpointed call: how to repeat it, the slots of what it saved, and what backward passes have filled in."""

    __slots__ = ("_call", "_compares", "_filled", "_record", "_slots", "_stops_early", "is_complete", "may_differ")

    def __init__(self, call: _Call, *, stops_early: bool, compares: bool, names_lines: bool) -> None:
        self._call = call
        self._stops_early = stops_early
        self._compares = compares
        self._slots: list[weakref.ref[_Slot]] = []
        self._record = _Record(names_lines)
        self._filled: weakref.WeakKeyDictionary[Task, dict[int, Tensor]] | None = None
        self.is_complete = False
        self.may_differ = False
        """Whether a gradient was taken within the region, when it was not yet known how much it would save."""

    def keep_place(self, tensor: Tensor) -> _Slot:
        """Pack, in the first run: keep an empty slot."""
        slot = _Slot(len(self._slots))
        self._slots.append(weakref.ref(slot))
        self._record.add(tensor)
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        """Unpack: run again, unless this was done for the running backward pass, and take what belongs into this slot.

        Raises:
            CheckpointError: it was taken before, or the second run saved something else than the first one.
        """
        task = RUNNING.task
        if task is None:
            return self._run_again()[slot.place]
        if self._filled is None:
            self._filled = weakref.WeakKeyDictionary()
        tensors = self._filled.get(task)
        if tensors is None:
            tensors = self._filled[task] = self._run_again()
        if slot.place not in tensors:
            raise CheckpointError(sentences.UNPACKED_TWICE)
        return tensors.pop(slot.place)

    def _run_again(self) -> dict[int, Tensor]:
        """Repeat the call; returns what it saves, by place, where somebody may still ask for it."""
        tensors: dict[int, Tensor] = {}
        record = _Record(self._record.lines is not None)

        def put(tensor: Tensor) -> Tensor:
            return self._put(tensors, record, tensor)

        args = self._call.arguments()
        try:
            with saved_tensors_hooks(put, _itself), enable_grad():
                self._call.repeat(args)
        except _StopRecomputationError:
            pass
        self._compare(record)
        return tensors

    def _put(self, tensors: dict[int, Tensor], record: _Record, tensor: Tensor) -> Tensor:
        """Pack, in a second run: put a tensor into its place; stop if it was the last one."""
        place = len(record.facts)
        record.add(tensor)
        if tensor.requires_grad:
            tensor = tensor.detach()
        if place >= len(self._slots):
            if self._stops_early:
                raise AssertionError(sentences.SAVED_AFTER_STOP)
            if self.is_complete:
                raise self._error(sentences.SAVED_MORE, record)
            self.may_differ = True
            return tensor
        if self._slots[place]() is not None:
            tensors[place] = tensor
        if self._stops_early and place + 1 == len(self._slots):
            raise _StopRecomputationError
        return tensor

    def _compare(self, record: _Record) -> None:
        """Check that a second run has saved what the first one did."""
        if self.may_differ:
            return
        first, second = self._record.facts, record.facts
        if len(first) != len(second):
            raise self._error(sentences.saved_fewer(len(first), len(second)), record)
        if self._compares and first != second:
            pairs = zip(self._slots, first, second, strict=True)
            cases = [(k, a, b) for k, (slot, a, b) in enumerate(pairs) if a != b and slot() is not None]
            if cases:
                raise self._error(sentences.saved_differently(cases), record)

    def _error(self, sentence: str, record: _Record) -> CheckpointError:
        """Return an error that names the lines of both runs, or says how to learn them."""
        first, second = self._record.lines, record.lines
        if first is None or second is None:
            return CheckpointError(f"{sentence}\n\n{sentences.CHECKPOINT_TIP}")
        return CheckpointError(f"{sentence}\n\n{sentences.checkpoint_lines(_listed(first), _listed(second))}")


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _listed(lines: Sequence[Source | None]) -> list[str]:
    return ["?" if line is None else f"{line.file}:{line.line}: {line.expression}" for line in lines]
