"""The check whether a call has a signature that is known, written out for it.

A nest of arguments is flattened by optree in about 0.25 us per leaf, and its key is built and hashed again in every call.
For a signature that comes often the check is generated instead: lines that take just this nest apart, and compare what they
find with what the staged program was made for. It answers ``None`` for every other call, also for those that have the same
key in another way; these take the long way.

Floor: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from functrace.numpy.number import DTYPES
from functrace.tree import PyTreeSpec

Check = Callable[[tuple[Any, ...], dict[str, Any]], list[Any] | None]
"""Returns the operands of a staged program, if a call's arguments are such as it was made for."""

OFTEN = 16
"""Calls of one signature after which its check is written out: by then it has cost less than they did."""

MOST_CHECKS = 4
"""Signatures of one jitted function that are checked in this way, one after the other."""

KNOWN = frozenset({np.ndarray, *DTYPES, *[np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG"]})
"""What the leaves of arguments may be."""

MOST_LEAVES = 512
"""Of a nest with more leaves the array work is larger than what is saved."""


def written_check(tree: PyTreeSpec, leaves: Sequence[object]) -> Check | None:
    """Return the check of calls like one; ``None`` for a nest that holds other things than are known here.

    Args:
        tree: the structure of its ``(args, kwargs)``: of tuples, lists, dicts with words as keys and ``None``.
        leaves: of its arguments: arrays, and numbers of Python's and NumPy's. The key of a call, and so the check, is about
            types, shapes and dtypes only.

    Cost:
        of making it 0.3 ms and 10 us per leaf; of a check 0.1 us per leaf.
    """
    kinds = [type(leaf) for leaf in leaves]
    if len(kinds) > MOST_LEAVES or not KNOWN.issuperset(kinds):
        return None
    specs = [leaf for leaf in leaves if type(leaf) is np.ndarray]
    if not all(leaf.ndim for leaf in specs):  # of no axes, it stands for a scalar
        return None
    lines: list[str] = []
    bound: dict[str, Any] = {}
    if not _taken_apart(tree, ["args", "kwargs"], lines, bound):
        return None
    names = [f"leaf{k}" for k in range(len(kinds))]
    arrays = [k for k, kind in enumerate(kinds) if kind is np.ndarray]
    bound |= {
        "kinds": kinds, "shape": attrgetter("shape"), "shapes": [leaf.shape for leaf in specs],
        "dtype": attrgetter("dtype"), "dtypes": [leaf.dtype for leaf in specs],
        **{f"as_{kind.__name__}": dtype.type for kind, dtype in DTYPES.items()},
    }  # fmt: skip
    values = [f"as_{kind.__name__}({name})" if kind in DTYPES else name for name, kind in zip(names, kinds, strict=True)]
    lines += [
        f"leaves = [{', '.join(names)}]",
        "if [*map(type, leaves)] != kinds: return None",
        *([f"arrays = [{', '.join(names[k] for k in arrays)}]"] if len(arrays) < len(names) else ["arrays = leaves"]),
        "if [*map(shape, arrays)] != shapes or [*map(dtype, arrays)] != dtypes: return None",
        *(
            ["return leaves"]
            if values == names
            else [f"try: return [{', '.join(values)}]", "except OverflowError: return None"]
        ),
    ]
    source = "def check(args, kwargs):\n" + "".join(f"    {line}\n" for line in lines)
    exec(compile(source, "<check of a signature>", "exec"), bound)
    return bound["check"]


def _taken_apart(tree: PyTreeSpec, roots: Sequence[str], lines: list[str], bound: dict[str, Any]) -> bool:
    """Write the lines that take a nest apart, of which the first level is there under names; whether all of it is known."""
    nodes = list(zip(roots, tree.children(), strict=True))[::-1]
    count = made = 0
    while nodes:
        name, node = nodes.pop()
        kind, children = node.type, node.children()
        if node.is_leaf():
            lines.append(f"leaf{count} = {name}")
            count += 1
            continue
        if kind is type(None):
            lines.append(f"if {name} is not None: return None")
            continue
        if kind not in (tuple, list, dict):
            return False
        lines.append(f"if type({name}) is not {kind.__name__} or len({name}) != {len(children)}: return None")
        parts = [f"part{made + k}" for k in range(len(children))]
        made += len(children)
        if not parts:
            continue
        if kind is not dict:
            lines.append(f"{', '.join(parts)}, = {name}")
        else:
            keys = node.entries()
            if not all(type(key) is str for key in keys):
                return False
            bound[f"of_{name}"] = itemgetter(*keys)
            lines.append(f"try: {', '.join(parts)} = of_{name}({name})")
            lines.append("except KeyError: return None")
        nodes += zip(parts[::-1], children[::-1], strict=True)
    return True
