"""Random programs of views, copies and in-place writes, for arrays laid out in every way.

A program is drawn by running it on plain NumPy arrays, so that every step has shapes that fit; it
is a list of steps, functions of an environment (a list of arrays) that return the array they add,
or ``None`` for a write. The same steps then run on traced values. Elements are small whole numbers,
so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Step = Callable[[list[Any]], Any]
LAYOUTS = ("C", "F", "moved", "stepped", "reversed", "broadcast")


def laid_out(a: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """Return the same values in another memory layout."""
    if not a.ndim or layout in "CF":
        return np.array(a, order="F" if layout == "F" else "C")
    if layout == "moved":
        return np.array(np.moveaxis(a, 0, -1), order="C").transpose(
            (a.ndim - 1, *range(a.ndim - 1))
        )
    if layout == "stepped":
        wide = np.zeros(tuple(2 * n for n in a.shape), a.dtype)
        view = wide[tuple(slice(None, None, 2) for _ in a.shape)]
        view[...] = a
        return view
    if layout == "reversed":
        return np.array(a[::-1], order="C")[::-1]
    return np.broadcast_to(a[:1].copy(), a.shape)


def _index(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    parts: list[Any] = []
    for n in shape[: rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(0, 5)
        if kind == 0 and n:
            parts.append(int(rng.integers(-n, n)))
        elif kind == 1:
            parts.append(slice(None, None, -1))
        elif kind == 2:
            parts.append(slice(int(rng.integers(0, n + 1)), None, int(rng.integers(1, 3))))
        else:
            parts.append(slice(None))
    if rng.random() < 0.3:
        parts.append(...)
    if rng.random() < 0.15:
        parts.insert(0, None)
    return tuple(parts)


def _shapes(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    known = {0: [(0,), (2, 0), (0, 3)], 1: [(), (1,), (1, 1)]}
    if size in known:
        return known[size][rng.integers(0, len(known[size]))]
    factors = [n for n in range(1, size + 1) if size % n == 0]
    first = int(factors[rng.integers(0, len(factors))])
    return [(size,), (first, size // first), (1, first, size // first)][rng.integers(0, 3)]


def _order(rng: np.random.Generator, letters: str = "CFAK") -> Any:
    return letters[rng.integers(0, len(letters))]


VIEWS: list[Callable[[np.random.Generator, Any, int], Step]] = []
"""From a generator, the array and its place: a step that adds something that may share its memory.
"""
NEW: list[Callable[[np.random.Generator, Any, int], Step]] = []
"""Likewise, something that does not."""
WRITES: list[Callable[[np.random.Generator, Any, int], Step]] = []
"""Likewise, a write into the array."""


def _in(rows: list[Any]) -> Callable[[Any], Any]:
    def add(make: Any) -> Any:
        rows.append(make)
        return make

    return add


@_in(VIEWS)
def _basic(rng: Any, a: Any, k: int) -> Step:
    index = _index(rng, a.shape)
    return lambda env: env[k][index]


@_in(VIEWS)
def _reshape(rng: Any, a: Any, k: int) -> Step:
    shape, order = _shapes(rng, a.size), _order(rng, "CCFA")
    return (
        (lambda env: env[k].reshape(shape))
        if order == "C"
        else (lambda env: np.reshape(env[k], shape, order=order))
    )


@_in(VIEWS)
def _ravel(rng: Any, a: Any, k: int) -> Step:
    order = _order(rng)
    return lambda env: env[k].ravel(order)


@_in(VIEWS)
def _transpose(rng: Any, a: Any, k: int) -> Step:
    axes = tuple(int(i) for i in rng.permutation(a.ndim))
    return (
        (lambda env: env[k].T) if rng.random() < 0.5 else (lambda env: np.transpose(env[k], axes))
    )


@_in(VIEWS)
def _squeeze(rng: Any, a: Any, k: int) -> Step:
    return lambda env: np.squeeze(env[k])


@_in(VIEWS)
def _grow(rng: Any, a: Any, k: int) -> Step:
    return lambda env: np.expand_dims(env[k], 0) if np.ndim(env[k]) < 3 else env[k].view()


@_in(VIEWS)
def _parts(rng: Any, a: Any, k: int) -> Step:
    return (
        (lambda env: env[k].real)
        if a.dtype.kind != "c" or rng.random() < 0.5
        else (lambda env: env[k].imag)
    )


@_in(VIEWS)
def _flip(rng: Any, a: Any, k: int) -> Step:
    return (lambda env: np.flip(env[k])) if a.ndim != 2 else (lambda env: np.rot90(env[k]))


@_in(VIEWS)
def _einsum(rng: Any, a: Any, k: int) -> Step:
    text = (
        "ii->i"
        if a.ndim == 2 and a.shape[0] == a.shape[1]
        else "...i->i..."
        if a.ndim > 1
        else "...->..."
    )
    return lambda env: np.einsum(text, env[k])


@_in(VIEWS)
def _as_order(rng: Any, a: Any, k: int) -> Step:
    functions = [np.ascontiguousarray, np.asfortranarray, np.asarray, np.atleast_1d, np.atleast_2d]
    function = functions[rng.integers(0, len(functions))]
    return lambda env: _through(function, env[k])


def _through(function: Any, x: Any) -> Any:
    """Conversions do not dispatch on traced values; those of functrace.numpy do."""
    import functrace.numpy as fnp

    return (
        function(x)
        if isinstance(x, np.ndarray | np.generic)
        else getattr(fnp, function.__name__)(x)
    )


@_in(VIEWS)
def _read_only(rng: Any, a: Any, k: int) -> Step:
    if a.ndim >= 2 and rng.random() < 0.5:
        return lambda env: np.diagonal(env[k])
    return lambda env: (
        np.broadcast_to(env[k], (2, *env[k].shape)) if np.ndim(env[k]) < 3 else np.flip(env[k], 0)
    )


@_in(VIEWS)
def _same(rng: Any, a: Any, k: int) -> Step:
    return lambda env: env[k]


@_in(VIEWS)
def _split(rng: Any, a: Any, k: int) -> Step:
    return (lambda env: np.array_split(env[k], 2)[0]) if a.ndim else (lambda env: env[k].squeeze())


@_in(VIEWS)
def _by_traced_integer(rng: Any, a: Any, k: int) -> Step:
    if not a.ndim or not a.shape[0]:
        return lambda env: env[k].T
    n = a.shape[0]
    return lambda env: env[k][np.sum(env[0] != 0) % n] if rng is not None else None


@_in(NEW)
def _copy(rng: Any, a: Any, k: int) -> Step:
    order = _order(rng)
    return (
        (lambda env: env[k].copy(order))
        if rng.random() < 0.5
        else (lambda env: np.copy(env[k], order))
    )


@_in(NEW)
def _flatten(rng: Any, a: Any, k: int) -> Step:
    order = _order(rng)
    return (lambda env: env[k].flatten(order)) if a.ndim else (lambda env: np.copy(env[k]))


@_in(NEW)
def _cast(rng: Any, a: Any, k: int) -> Step:
    order, copy = _order(rng), bool(rng.random() < 0.5)
    return lambda env: env[k].astype(env[k].dtype, order=order, copy=copy)


@_in(NEW)
def _like(rng: Any, a: Any, k: int) -> Step:
    order = _order(rng)
    return lambda env: np.full_like(env[k], 1, order=order)


@_in(NEW)
def _arithmetic(rng: Any, a: Any, k: int) -> Step:
    kind = rng.integers(0, 6)
    if kind == 0:
        return lambda env: env[k] + env[k]
    if kind == 1 and a.ndim >= 2 and a.shape[-1] == a.shape[-2]:
        return lambda env: (
            np.maximum(env[k], np.swapaxes(env[k], -1, -2)) if env[k].dtype.kind != "c" else +env[k]
        )
    if kind == 2 and a.ndim:
        return lambda env: np.where(env[k] == 0, env[k][:1], env[k])
    if kind == 3:
        return lambda env: np.clip(env[k], 0, 1) if env[k].dtype.kind in "fi" else np.abs(env[k])
    return lambda env: np.equal(env[k], 1) | False if env[k].dtype.kind == "b" else env[k] - 1


@_in(NEW)
def _reduce(rng: Any, a: Any, k: int) -> Step:
    if not a.ndim or 0 in a.shape:
        return lambda env: np.sum(env[k])
    axis, keep = int(rng.integers(0, a.ndim)), bool(rng.random() < 0.3)
    function = [np.sum, np.max, np.min, np.any, np.prod][rng.integers(0, 4)]
    if a.dtype.kind == "c":
        function = np.sum
    return lambda env: function(env[k], axis=axis, keepdims=keep)


@_in(NEW)
def _advanced(rng: Any, a: Any, k: int) -> Step:
    if not a.ndim or 0 in a.shape:
        return lambda env: env[k] == env[k]
    axis = int(rng.integers(0, a.ndim))
    rows = rng.integers(0, a.shape[axis], size=2)
    if rng.random() < 0.3:
        return lambda env: np.take(env[k], rows, axis)
    index = (*[slice(None)] * axis, rows)
    return lambda env: env[k][index]


@_in(NEW)
def _joined(rng: Any, a: Any, k: int) -> Step:
    if not a.ndim or a.size > 64:
        return lambda env: np.stack([np.sum(env[k]), np.sum(env[k])])
    axis = int(rng.integers(0, a.ndim))
    return (
        (lambda env: np.concatenate([env[k], env[k]], axis))
        if rng.random() < 0.6
        else (lambda env: np.stack([env[k]], axis))
    )


@_in(NEW)
def _sorted(rng: Any, a: Any, k: int) -> Step:
    return (lambda env: np.sort(env[k])) if a.ndim else (lambda env: np.where(True, env[k], env[k]))


@_in(NEW)
def _product(rng: Any, a: Any, k: int) -> Step:
    if a.ndim < 2 or a.dtype.kind == "b" or a.size > 64:
        return lambda env: np.roll(env[k], 1)
    return lambda env: np.remainder(env[k].real @ np.swapaxes(env[k].real, -1, -2), 3)


def _small(rng: Any, a: Any) -> Any:
    return (
        a.dtype.type(rng.integers(0, 4)).item() if a.dtype.kind != "b" else bool(rng.random() < 0.5)
    )


@_in(WRITES)
def ft_assign(rng: Any, a: Any, k: int) -> Step:
    index, value = _index(rng, a.shape), _small(rng, a)
    return lambda env: env[k].__setitem__(index, value)


@_in(WRITES)
def _assign_all(rng: Any, a: Any, k: int) -> Step:
    value = np.remainder(np.arange(a.size).reshape(a.shape), 3).astype(a.dtype)
    return lambda env: env[k].__setitem__(..., value)


@_in(WRITES)
def _update(rng: Any, a: Any, k: int) -> Step:
    value = _small(rng, a)

    def step(env: list[Any]) -> None:
        x = env[k]
        if x.dtype.kind == "b":
            x |= value
        else:
            x += value
        env[k] = x

    return step


@_in(WRITES)
def _shift(rng: Any, a: Any, k: int) -> Step:
    def step(env: list[Any]) -> None:
        x = env[k]
        if np.ndim(x) and x.dtype.kind != "b":
            x[1:] -= x[:-1]

    return step


@_in(WRITES)
def _out(rng: Any, a: Any, k: int) -> Step:
    return lambda env: _nothing(
        np.maximum(env[k].real, 1, out=env[k]) if env[k].dtype.kind != "c" else None
    )


@_in(WRITES)
def _copyto(rng: Any, a: Any, k: int) -> Step:
    value = _small(rng, a)
    where = np.arange(a.shape[-1]) % 2 == 0 if a.ndim else True
    if a.ndim and rng.random() < 0.5:
        return lambda env: np.copyto(env[k], env[k][..., :1])
    return lambda env: np.copyto(env[k], value, where=where)


@_in(WRITES)
def _methods(rng: Any, a: Any, k: int) -> Step:
    value, kind = _small(rng, a), rng.integers(0, 4)
    if kind == 0 and a.ndim:
        return lambda env: env[k].sort()
    if kind == 1 and a.size:
        return lambda env: env[k].flat.__setitem__(a.size // 2, value)
    if kind == 2 and a.size:
        return lambda env: np.put(env[k], [0, -1], value)
    return lambda env: env[k].fill(value)


@_in(WRITES)
def _functions(rng: Any, a: Any, k: int) -> Step:
    value, kind = _small(rng, a), rng.integers(0, 5)
    if kind == 0 and a.ndim == 2 and min(a.shape):
        return lambda env: np.fill_diagonal(env[k], value)
    if kind == 1 and a.ndim and a.shape[-1]:
        return lambda env: np.put_along_axis(env[k], np.zeros((*a.shape[:-1], 1), int), value, -1)
    if kind == 2:
        mask = (np.arange(a.size).reshape(a.shape) % 2).astype(bool)
        return lambda env: np.putmask(env[k], mask, np.asarray(value, env[k].dtype))
    if kind == 3 and a.ndim and a.shape[0] and a.dtype.kind != "b":
        return lambda env: np.add.at(env[k], [0, 0], value)
    mask = (np.arange(a.size).reshape(a.shape) % 3 == 0).astype(bool)
    return lambda env: np.place(env[k], mask, [value])


def _nothing(_value: Any) -> None:
    return None


def run(steps: Sequence[Step], arrays: Sequence[Any]) -> list[Any]:
    """Run a program; returns the environment."""
    env = list(arrays)
    for step in steps:
        made = step(env)
        if made is not None:
            env.append(made)
    return env


def draw(rng: np.random.Generator, make: Callable[[], list[Any]], length: int) -> list[Step]:
    """Draw a program of about a length that runs on the arrays that ``make`` returns."""
    steps: list[Step] = []
    env = make()
    for _ in range(length):
        rows = (VIEWS, VIEWS, NEW, WRITES, WRITES)[rng.integers(0, 5)]
        place = int(rng.integers(max(0, len(env) - 5), len(env)))
        if not isinstance(env[place], np.ndarray | np.generic) or np.size(env[place]) > 200:
            continue
        if rows is WRITES and isinstance(env[place], np.ndarray) and not env[place].flags.writeable:
            continue  # NumPy raises, except for ufunc.at, which writes
        step = rows[rng.integers(0, len(rows))](rng, np.asarray(env[place]), place)
        try:
            run([*steps, step], make())
        except (ValueError, TypeError, IndexError, AttributeError):
            continue
        steps.append(step)
        env = run(steps, make())
    return steps
