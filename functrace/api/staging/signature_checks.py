"""Generated code that checks whether a call has a given signature.

optree flattens the pytree of arguments in about 0.25 us per leaf, and each call would build and
hash its key again. For a hot signature, generated code unpacks this pytree instead, and compares
its leaves with those that the program was staged for. The check returns ``None`` for every other
call, also for those with the same key in another way; these take the slow path.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import TreeError
from functrace.numpy.arrays.traced_number import DTYPES
from functrace.tree import unflatten
from functrace.tree.nodes import Static, fields_of

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

Check = Callable[[tuple[Any, ...], dict[str, Any]], list[Any] | None]
"""Returns the operands of a staged program if the arguments match its signature, else ``None``."""

OFTEN = 16
"""Calls of one signature after which its check is generated: by then its cost is amortized."""

MOST_CHECKS = 4
"""Number of generated checks per jitted function, tried in sequence."""

KNOWN = frozenset({np.ndarray, *DTYPES, *[np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG"]})
"""Supported types of leaves."""

IMMUTABLE = frozenset({str, bytes, int, float, bool, complex, type(None), type})
"""Types of static fields that may be compared by identity first."""

MOST_LEAVES = 512
"""Limit on leaves: in larger pytrees the array work outweighs the savings."""


def written_check(
    tree: PyTreeSpec, leaves: Sequence[object], device_arrays: Set[type] = frozenset()
) -> Check | None:
    """Return the check of calls with a given signature; ``None`` for unsupported pytrees.

    Args:
        tree: the structure of its ``(args, kwargs)``: tuples, lists, dicts with names as keys,
            dataclasses that are flattened by their fields, and ``None``.
        leaves: of its arguments: arrays, and Python's and NumPy's numbers. Keys and checks depend
            on types, shapes and dtypes only.
        device_arrays: further types of arrays.

    Cost:
        generation 0.3 ms and 10 us per leaf; a check 0.1 us per leaf.
    """
    kinds = [type(leaf) for leaf in leaves]
    if len(kinds) > MOST_LEAVES or not KNOWN.issuperset(set(kinds) - device_arrays):
        return None
    # a 0-d array of NumPy has the signature of a scalar
    if not all(leaf.ndim for leaf in leaves if type(leaf) is np.ndarray):
        return None
    specs: list[Any] = [x for x in leaves if type(x) is np.ndarray or type(x) in device_arrays]
    lines: list[str] = []
    bound: dict[str, Any] = {}
    if not _taken_apart(tree, ["args", "kwargs"], lines, bound):
        return None
    names = [f"leaf{k}" for k in range(len(kinds))]
    arrays = [k for k, kind in enumerate(kinds) if kind is np.ndarray or kind in device_arrays]
    bound |= {
        "kinds": kinds, "shape": attrgetter("shape"), "shapes": [leaf.shape for leaf in specs],
        "dtype": attrgetter("dtype"), "dtypes": [leaf.dtype for leaf in specs],
        **{f"as_{kind.__name__}": dtype.type for kind, dtype in DTYPES.items()},
    }  # fmt: skip
    values = [
        f"as_{kind.__name__}({name})" if kind in DTYPES else name
        for name, kind in zip(names, kinds, strict=True)
    ]
    lines += [
        f"leaves = [{', '.join(names)}]",
        "if [*map(type, leaves)] != kinds: return None",
        *(
            [f"arrays = [{', '.join(names[k] for k in arrays)}]"]
            if len(arrays) < len(names)
            else ["arrays = leaves"]
        ),
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


def _taken_apart(
    tree: PyTreeSpec, roots: Sequence[str], lines: list[str], bound: dict[str, Any]
) -> bool:
    """Generate lines that unpack a pytree whose first level has names; return False if
    unsupported."""
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
        parts = [f"part{made + k}" for k in range(len(children))]
        made += len(children)
        fields = fields_of(kind)
        if fields is not None:
            _fields_apart(node, name, parts, fields, lines, bound)
            nodes += zip(parts[::-1], children[::-1], strict=True)
            continue
        if kind not in (tuple, list, dict):
            return False
        lines.append(
            f"if type({name}) is not {kind.__name__} or len({name}) != {len(children)}: return None"
        )
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


def _fields_apart(
    node: PyTreeSpec,
    name: str,
    parts: list[str],
    fields: tuple[tuple[str, ...], tuple[str, ...]],
    lines: list[str],
    bound: dict[str, Any],
) -> None:
    """Generate lines that unpack a dataclass as `functrace.tree.nodes` does."""
    kind, (names, fixed) = node.type, fields
    assert kind is not None
    bound |= {f"kind_{name}": kind, f"fields_{name}": fields, "fields_of": fields_of}
    lines.append(
        f"if type({name}) is not kind_{name} or fields_of(kind_{name}) != fields_{name}: return "
        "None"
    )
    if kind.__dictoffset__:  # its instances may have further attributes
        lines.append(f"if len({name}.__dict__) > {len(names) + len(fixed)}: return None")
    if fixed:
        like = unflatten(node, [0] * node.num_leaves)
        bound |= {"Static": Static, f"names_{name}": fixed, "TreeError": TreeError}
        known = [getattr(like, word) for word in fixed]
        bound[f"held_{name}"] = Static(kind, fixed, tuple(known))
        values = [f"{name}.{word}" for word in fixed]
        same = "False"
        if IMMUTABLE.issuperset(map(type, known)):  # identical objects are equal
            bound |= {f"known{k}_{name}": value for k, value in enumerate(known)}
            same = " and ".join([f"{value} is known{k}_{name}" for k, value in enumerate(values)])
        lines.append(
            f"try: held = held_{name} if {same} else Static(kind_{name}, names_{name}, "
            f"({', '.join(values)},))"
        )
        lines.append("except (AttributeError, TreeError): return None")
        lines.append(f"if held is not held_{name} and held != held_{name}: return None")
    if parts:
        bound[f"of_{name}"] = attrgetter(*names)
        lines.append(f"try: {', '.join(parts)} = of_{name}({name})")
        lines.append("except AttributeError: return None")
