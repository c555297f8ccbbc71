"""``torch.futures``: results that are set once; what waits for one runs when it is set.

Layer: 9.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, final

__all__ = ["Future", "collect_all", "wait_all"]


@final
class Future:
    """A result that may be set later.

    Example:
        >>> import functrace.torch as torch
        >>> future = torch.futures.Future()
        >>> doubled = future.then(lambda done: 2 * done.value())
        >>> future.set_result(3)
        >>> doubled.wait()
        6
    """

    def __init__(self, *, devices: object = None) -> None:
        self._is_set = threading.Event()
        self._lock = threading.Lock()
        self._result: Any = None
        self._failure: BaseException | None = None
        self._callbacks: list[Callable[[Future], object]] = []

    def done(self) -> bool:
        """Return True if the result is set."""
        return self._is_set.is_set()

    def wait(self) -> Any:
        """Return the result once it is set; raise its error."""
        self._is_set.wait()
        if self._failure is not None:
            raise self._failure
        return self._result

    def value(self) -> Any:
        """Return the result, which must be set; raise its error."""
        if not self.done():
            raise RuntimeError("value() needs a future that is done: call wait()")
        return self.wait()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return the future of ``callback(self)``, which runs when this one is set."""
        made = Future()

        def run(done: Future) -> None:
            try:
                made.set_result(callback(done))
            except Exception as error:
                made.set_exception(error)

        self.add_done_callback(run)
        return made

    def add_done_callback(self, callback: Callable[[Future], object]) -> None:
        """Run a function when this future is set; at once if it is."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: Any) -> None:
        """Set the result.

        Raises:
            RuntimeError: if it is set.
        """
        self._set(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error in place of the result."""
        assert isinstance(result, BaseException), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._set(None, result)

    def _set(self, result: Any, failure: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can "
                    "only be marked completed once."
                )
            self._result, self._failure = result, failure
            self._is_set.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def collect_all(futures: Sequence[Future]) -> Future:
    """Return the future of the list of these, once all are set."""
    made, left = Future(), [len(futures)]
    lock = threading.Lock()

    def count(_done: Future) -> None:
        with lock:
            left[0] -= 1
            is_last = not left[0]
        if is_last:
            made.set_result(list(futures))

    for future in futures:
        future.add_done_callback(count)
    if not futures:
        made.set_result([])
    return made


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """Return the results, once all are set; raise the first error."""
    return [future.wait() for future in collect_all(futures).wait()]
