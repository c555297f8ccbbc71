"""``f.why_retraced()``: the reasons why a jitted function was recorded again.

Layer: 8.
"""

from __future__ import annotations

import reprlib
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.api.capture.arguments import argument_names
from functrace.api.staging.signatures import Signature
from functrace.control.policies import described, is_policy
from functrace.ir.aval import ShapeDtype
from functrace.locks import Lock
from functrace.source import Source, user_source
from functrace.tree.describing import difference

if TYPE_CHECKING:
    from functrace.specialize import Guard
    from functrace.tree import PyTreeSpec

_RECENT = 8
"""Number of recordings remembered."""

_COMPARED = 32
"""Number of signatures that a new one is compared with."""

_MOST_LISTED = 8
"""Number of differences reported."""

_NONE_KEPT = "it is the first: no program was kept"


class SignatureDescription(NamedTuple):
    """A signature, described for messages.

    Args:
        number: of the recording, from 1.
        at: the calling line.
        placed: number of positional arguments.
        keywords: names of the others.
        leaves: by path: the kind of value.
        statics: by position or name: the key and representation of a static argument.
        tree: the structure.
        policy: the residual policy in force, if any.
    """

    number: int
    at: Source | None
    placed: int
    keywords: tuple[str, ...]
    leaves: dict[str, str]
    statics: dict[str, tuple[Any, str]]
    tree: PyTreeSpec
    policy: Any = None


@final
class SignatureGuard:
    """Guard: the signature of a call, by its key.

    Args:
        name: of the function.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        """Number of calls described so far."""
        self._described: OrderedDict[Hashable, SignatureDescription] = OrderedDict()
        self._lock = Lock(self.clear)

    def outcome(self, call: Signature) -> Hashable:
        """Return the key."""
        return call.key

    def describe(self, signature: Signature) -> SignatureDescription:
        """Describe a call for which the function will be recorded."""
        words = argument_names(signature.tree)
        statics = {
            f"number {place}" if isinstance(place, int) else place: (
                key,
                reprlib.repr(signature.static[place]),
            )
            for place, key in signature.statics
        }
        keywords = (*signature.named, *[key for key in signature.static if isinstance(key, str)])
        with self._lock.now:
            self.count += 1
            made = self._described[signature.key] = SignatureDescription(
                self.count, user_source(), len(signature.placed), tuple(sorted(keywords)),
                dict(zip(words, map(_spelled, signature.specs), strict=True)), statics,
                signature.tree, signature.policy,
            )  # fmt: skip
            self._described.move_to_end(signature.key)
            while len(self._described) > _COMPARED:
                self._described.popitem(last=False)
        return made

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Describe how a call differs from the nearest one with a kept program."""
        with self._lock.now:
            new = self._described.get(now)
            others = [
                other
                for key in kept
                if key != now and (other := self._described.get(key)) is not None
            ]
        if new is None:  # another thread has cleared the cache meanwhile
            return _NONE_KEPT
        return self.difference(new, others)

    def difference(self, new: SignatureDescription, kept: Sequence[SignatureDescription]) -> str:
        """Describe how a call differs from the nearest of some others."""
        if not kept:
            return _NONE_KEPT
        found = [([*_differences(new, other)], other) for other in kept]
        differences, nearest = min(found, key=lambda pair: (len(pair[0]), -pair[1].number))
        if not differences:
            return f"as recording {nearest.number}, whose program is not kept any more"
        lines = [f"the nearest that was kept is recording {nearest.number}, but"]
        lines += [f"  {line}" for line in differences[:_MOST_LISTED]]
        if len(differences) > _MOST_LISTED:
            lines.append(f"  and {len(differences) - _MOST_LISTED} differences more")
        return "\n".join(lines)

    def merged(self, other: Guard[Any]) -> SignatureGuard | None:
        """Return itself: the guard is unique."""
        return self if other is self else None

    def clear(self) -> None:
        """Drop all calls."""
        with self._lock.now:
            self._described.clear()
            self.count = 0


@final
class RetraceLog:
    """The last recordings of a jitted function, with their reasons.

    Args:
        name: of the function.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self._recent: deque[tuple[SignatureDescription, str]] = deque(maxlen=_RECENT)

    def note(self, described: SignatureDescription, reason: str) -> None:
        """Remember a recording and its reason."""
        self.count += 1
        self._recent.append((described, reason))

    def text(self) -> str:
        """Return the reasons for the recordings, the last one first."""
        if not self._recent:
            return f"{self.name} has not been recorded"
        times = "once" if self.count == 1 else f"{self.count} times"
        lines = [f"{self.name} has been recorded {times}; the last first:"]
        for recorded, reason in reversed([*self._recent]):  # (other threads may add)
            at = "" if recorded.at is None else f", called at {recorded.at}"
            lines.append(f"recording {recorded.number}{at}")
            lines += [f"  {line}" for line in reason.splitlines()]
        return "\n".join(lines)

    def clear(self) -> None:
        """Drop all recordings."""
        self._recent.clear()
        self.count = 0


def _spelled(spec: type | tuple[tuple[int, ...], np.dtype[Any]]) -> str:
    if isinstance(spec, type):
        return f"a Python {spec.__name__}"
    return f"{ShapeDtype(*spec)}{'' if spec[1].isnative else ' in swapped byte order'}"


def _differences(new: SignatureDescription, old: SignatureDescription) -> Iterator[str]:
    """Describe how a call differs from an earlier one."""
    if new.policy != old.policy:
        shown = [
            "none" if p is None else described(p) if is_policy(p) else repr(p)
            for p in (new.policy, old.policy)
        ]
        yield f"the policy of residual_policy is {shown[0]}, instead of {shown[1]}"
    if new.placed != old.placed:
        yield f"{new.placed} positional arguments, instead of {old.placed}"
    for word in sorted({*new.keywords} - {*old.keywords}):
        yield f"{word} is passed by keyword"
    for word in sorted({*old.keywords} - {*new.keywords}):
        yield f"{word} is not passed by keyword"
    for word, (key, shown) in new.statics.items():
        if word in old.statics and old.statics[word][0] != key:
            before = (
                old.statics[word][1] if old.statics[word][1] != shown else "one that looks alike"
            )
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
