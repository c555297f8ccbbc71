"""Output of ``checkpoint(debug=True)``: the operations of both runs, and their call sites.

Layer: 9.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, final

from functrace.torch import errors
from functrace.torch._ops import OpOverload
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils._python_dispatch import TorchDispatchMode
from functrace.torch.utils.recomputation import CheckpointError

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@final
class LoggingTensorMode(TorchDispatchMode):
    """Logs each operation, as ``$1: f32[3] = torch._ops.aten.sin.default($0)``, with its call
    stack.
    """

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[str] = []
        self.traces: list[list[str]] = []
        self._known: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._count = 0

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation, and log it."""
        kwargs = {} if kwargs is None else kwargs
        made = func(*args, **kwargs)
        given = [self._shown(a) for a in args] + [
            f"{name}={self._shown(value)}" for name, value in kwargs.items()
        ]
        self.logs.append(
            f"{self._shown(made, typed=True)} = "
            f"{func.__module__}.{func.__name__}({', '.join(given)})"
        )
        self.traces.append(list(_lines()))
        return made

    def _number(self, tensor: Tensor) -> int:
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._known[id(tensor)] = weakref.ref(tensor), self._count
            self._count += 1
        return known[1]

    def _shown(self, value: object, *, typed: bool = False) -> str:
        if isinstance(value, (tuple, list)):
            return str(type(value)([self._shown(one, typed=typed) for one in value]))
        if not isinstance(value, Tensor):
            return repr(value)
        number = f"${self._number(value)}"
        return (
            f"{number}: {value.dtype.abbr}[{', '.join(map(str, value.shape))}]" if typed else number
        )


def _lines() -> Iterator[str]:
    """Yield the lines of the call stack, without functrace's own, innermost first."""
    frame = sys._getframe()
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OURS):
            yield f"{frame.f_code.co_filename}:{frame.f_lineno}:{frame.f_code.co_name}"
        frame = frame.f_back


def _get_debug_context_and_cb() -> tuple[
    Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]],
    Callable[[CheckpointError], NoReturn],
]:
    """Return a ``context_fn`` that logs the operations of both runs, and a function that raises
    the error with the logs.
    """
    runs: list[LoggingTensorMode] = [LoggingTensorMode(), LoggingTensorMode()]

    @contextmanager
    def noting(run: int) -> Iterator[LoggingTensorMode]:
        mode = runs[run] = LoggingTensorMode()
        with mode:
            yield mode

    def raise_with_logs(error: CheckpointError) -> NoReturn:
        forward, again = runs
        raise CheckpointError(
            errors.checkpoint_logs(
                _listed("original", forward),
                _listed("recompute", again),
                "\n".join(forward.logs),
                "\n".join(again.logs),
            )
        ) from error

    return lambda: (noting(0), noting(1)), raise_with_logs


def _listed(label: str, mode: LoggingTensorMode) -> str:
    """Return the operations of a run, each with its call stack."""
    parts = []
    for k, (log, lines) in enumerate(zip(mode.logs, mode.traces, strict=True)):
        parts.append(
            f"{log}   ({k + 1} of {len(mode.logs)} in {label})\n\n"
            + "".join(f"{line}\n" for line in lines)
            + "\n\n"
        )
    return "".join(parts)
