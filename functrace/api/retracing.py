"""``f.why_retraced()``: why a jitted function was recorded anew.

Floor: 7.
"""

from __future__ import annotations

import reprlib
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.api.calls import argument_names
from functrace.api.signatures import Signature
from functrace.ir.aval import ShapeDtype
from functrace.source import Source, user_source
from functrace.tree.describing import difference

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

_RECENT = 8
"""How many recordings are remembered."""

_COMPARED = 32
"""With how many signatures a new one is compared."""

_MOST_LISTED = 8
"""How many differences are told."""


class Described(NamedTuple):
    """A signature as messages tell of it.

    Args:
        number: which recording it was, from 1.
        at: the line that called.
        placed: how many arguments stood by position.
        keywords: the others' names.
        leaves: by path: what kind of value.
        statics: by place or name: the key of a static argument, and how it looks.
        tree: the structure.
    """

    number: int
    at: Source | None
    placed: int
    keywords: tuple[str, ...]
    leaves: dict[str, str]
    statics: dict[str, tuple[Any, str]]
    tree: PyTreeSpec


class _Retraced(NamedTuple):
    """One recording: what it was for, what was kept then, and what else is known of the reason."""

    described: Described
    kept: tuple[Described, ...]
    reason: str | None


@final
class Retraces:
    """The last recordings of a jitted function, and why there were any.

    Args:
        name: of the function.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self._recent: deque[_Retraced] = deque(maxlen=_RECENT)

    def describe(self, signature: Signature) -> Described:
        """Describe the call that is being made, for which the function will be recorded."""
        self.count += 1
        words = argument_names(signature.tree)
        statics = {
            f"number {place}" if isinstance(place, int) else place: (key, reprlib.repr(signature.static[place]))
            for place, key in signature.statics
        }
        keywords = (*signature.named, *[key for key in signature.static if isinstance(key, str)])
        return Described(
            self.count, user_source(), len(signature.placed), tuple(sorted(keywords)),
            dict(zip(words, map(_spelled, signature.specs), strict=True)), statics, signature.tree,
        )  # fmt: skip

    def note(self, described: Described, kept: Iterable[Described | None], reason: str | None = None) -> None:
        """Remember a recording.

        Args:
            described: the call.
            kept: signatures of which there were programs; the first ones are compared.
            reason: why, if its own signature is among them.
        """
        known = tuple(islice((one for one in kept if one is not None), _COMPARED))
        self._recent.append(_Retraced(described, known, reason))

    def text(self) -> str:
        """Say why the function was recorded, the last time first."""
        if not self._recent:
            return f"{self.name} has not been recorded"
        times = "once" if self.count == 1 else f"{self.count} times"
        lines = [f"{self.name} has been recorded {times}; the last first:"]
        for one in reversed(self._recent):
            at = "" if one.described.at is None else f", called at {one.described.at}"
            lines.append(f"recording {one.described.number}{at}")
            lines += [f"  {line}" for line in _told(one)]
        return "\n".join(lines)

    def clear(self) -> None:
        """Forget all."""
        self._recent.clear()
        self.count = 0


def _spelled(spec: type | tuple[tuple[int, ...], np.dtype[Any]]) -> str:
    if isinstance(spec, type):
        return f"a Python {spec.__name__}"
    return f"{ShapeDtype(*spec)}{'' if spec[1].isnative else ' in swapped byte order'}"


def _told(one: _Retraced) -> Iterator[str]:
    if one.reason is not None:
        yield one.reason
        return
    if not one.kept:
        yield "it is the first: no program was kept"
        return
    found = [(list(_differences(one.described, other)), other) for other in one.kept]
    differences, nearest = min(found, key=lambda pair: (len(pair[0]), -pair[1].number))
    if not differences:
        yield f"as recording {nearest.number}, whose program is not kept any more"
        return
    yield f"the nearest that was kept is recording {nearest.number}, but"
    yield from [f"  {line}" for line in differences[:_MOST_LISTED]]
    if len(differences) > _MOST_LISTED:
        yield f"  and {len(differences) - _MOST_LISTED} differences more"


def _differences(new: Described, old: Described) -> Iterator[str]:
    """Say in what a call differs from an earlier one."""
    if new.placed != old.placed:
        yield f"{new.placed} arguments stand by position, instead of {old.placed}"
    for word in sorted({*new.keywords} - {*old.keywords}):
        yield f"{word} is passed by keyword"
    for word in sorted({*old.keywords} - {*new.keywords}):
        yield f"{word} is not passed by keyword"
    for word, (key, shown) in new.statics.items():
        if word in old.statics and old.statics[word][0] != key:
            before = old.statics[word][1] if old.statics[word][1] != shown else "one that looks alike"
            yield f"the static argument {word} is {shown}, instead of {before}"
    both = [path for path in new.leaves if path in old.leaves]
    for path in both:
        if new.leaves[path] != old.leaves[path]:
            yield f"{path} is {new.leaves[path]}, instead of {old.leaves[path]}"
    if new.tree != old.tree:
        more = [path for path in new.leaves if path not in old.leaves]
        less = [path for path in old.leaves if path not in new.leaves]
        for path in more:
            yield f"{path} is there: {new.leaves[path]}"
        for path in less:
            yield f"{path} is missing: it was {old.leaves[path]}"
        if not (more or less) and new.keywords == old.keywords:
            path, now, before = difference(new.tree, old.tree)
            place = f"args{path[3:]}" if path.startswith("[0]") else f"kwargs{path[3:]}"
            yield f"the structure is {now} at {place}, instead of {before}"
