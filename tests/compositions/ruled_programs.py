"""Random programs of functions with rules of their own, and their derivatives to any order by
truncated power series.

A `Fn` is a sequence of functions: its values, and its first, second, … derivative as the rules say
them. The derivative that
a rule says need not be that of the values: so it shows wherever a rule is dropped. Rules hold
rules: the derivative that a `Ruled` says is a `Fn` again, and so are its values. What the backward
rule does with the cotangent is a `HOLDERS` entry: a multiplication, spelled with sub-programs of
every kind.

The oracle knows neither programs nor transposition: `Nilpotent` numbers (``a + N``, sums of
products of ``e_k`` with ``e_k ** 2 == 0``) go through the same text, and ``f(a + N)`` is ``f(a) +
f'(a) N + f''(a) N**2 / 2 + …``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import numpy as np

Array = Any
Unary = Callable[[Array], Array]


# -- functions and their derivatives ---------------------------------------------------------------


@dataclass(frozen=True)
class Plain:
    """``a sin(b x + c)``, with the derivatives that it has."""

    a: float
    b: float
    c: float

    def derivative(self, order: int, x: Array) -> Array:
        """Return the derivative of an order of the values at plain arrays."""
        return self.a * self.b**order * np.sin(self.b * x + self.c + order * math.pi / 2)


@dataclass(frozen=True)
class Modulus:
    """``c abs(x)`` as the root of a square, whose true derivative at zero is NaN: it needs a rule."""

    c: float

    def derivative(self, order: int, x: Array) -> Array:
        """Return the values; there is no derivative."""
        assert order == 0
        return self.c * np.abs(x)


@dataclass(frozen=True)
class Ruled:
    """A function with a rule.

    Args:
        values: computes its values; of its derivatives nothing is used.
        slope: the derivative that the rule says.
        style: which kind of rule: ``"vjp"``, ``"jvp"``, ``"both"`` or ``"Function"``.
        holder: how the rule multiplies with a tangent or cotangent.
        early: whether a ``vjp`` rule computes the slope in its forward part.
    """

    values: Fn
    slope: Fn
    style: str
    holder: str
    early: bool
    serial: int = field(default_factory=count().__next__)

    def derivative(self, order: int, x: Array) -> Array:
        """Return what the rules say of the derivative of an order."""
        return self.slope.derivative(order - 1, x) if order else self.values.derivative(0, x)


Fn = Plain | Modulus | Ruled


def random_fn(
    rng: Random, depth: int, *, styles: Sequence[str], holders: Sequence[str], early: float = 0.3
) -> Fn:
    """Draw a function, whose rules hold others ``depth`` deep; ``early`` is how often a slope is
    computed ahead.
    """
    if depth == 0:
        return Plain(
            rng.choice((0.6, -0.8, 1.1)), rng.choice((0.5, -0.7, 0.9)), rng.choice((0.2, 0.7, -0.4))
        )
    values: Fn = Modulus(rng.choice((0.7, -0.6)))
    if rng.random() < 0.7:
        values = random_fn(
            rng, rng.choice((0, 0, depth - 1)), styles=styles, holders=holders, early=early
        )
    slope = random_fn(rng, rng.choice((0, depth - 1)), styles=styles, holders=holders, early=early)
    return Ruled(values, slope, rng.choice(styles), rng.choice(holders), rng.random() < early)


# -- the oracle ------------------------------------------------------------------------------------


class Nilpotent:
    """A number ``sum(parts[s] * prod(e_k for k in s))``; the part of the empty set is its value."""

    def __init__(self, parts: dict[frozenset[int], Array]) -> None:
        self.parts = parts

    def __add__(self, other: Any) -> Nilpotent:
        parts = dict(self.parts)
        for s, x in (
            other.parts if isinstance(other, Nilpotent) else {frozenset[int](): other}
        ).items():
            parts[s] = parts[s] + x if s in parts else x
        return Nilpotent(parts)

    def __mul__(self, other: Any) -> Nilpotent:
        if not isinstance(other, Nilpotent):
            return Nilpotent({s: x * other for s, x in self.parts.items()})
        parts: dict[frozenset[int], Array] = {}
        for s, x in self.parts.items():
            for t, y in other.parts.items():
                if not s & t:
                    parts[s | t] = parts.get(s | t, 0.0) + x * y
        return Nilpotent(parts)

    __radd__, __rmul__ = __add__, __mul__

    def through(self, derivative: Callable[[int, Array], Array]) -> Nilpotent:
        """Apply a function given by its derivatives."""
        value = self.parts[frozenset()]
        rest = Nilpotent({s: x for s, x in self.parts.items() if s})
        total, power = Nilpotent({frozenset(): derivative(0, value)}), rest
        for order in range(1, max((len(s) for s in self.parts), default=0) * 3 + 1):
            if not power.parts:
                break
            total, power = (
                total + power * (derivative(order, value) / math.factorial(order)),
                power * rest,
            )
        return total


class Oracle:
    """Runs a program on `Nilpotent` numbers."""

    def apply(self, f: Fn, x: Nilpotent) -> Nilpotent:
        """Apply a function."""
        return x.through(f.derivative)

    def repeated(self, _: str, f: Callable[[Any], Any], x: Any, times: int) -> Any:
        """Apply ``f`` several times."""
        for _k in range(times):
            x = f(x)
        return x


def directional(program: Program, x: Array, directions: Sequence[Array]) -> float:
    """Return the derivative of ``program`` at ``x`` along all of the directions, one order each."""
    parts: dict[frozenset[int], Array] = {frozenset(): x}
    parts.update({frozenset([k]): v for k, v in enumerate(directions)})
    found = program.run(Oracle(), Nilpotent(parts))
    return float(np.sum(found.parts.get(frozenset(range(len(directions))), np.zeros(()))))


# -- programs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """Functions one after the other, mixed with their arguments, in a loop or something else that
    holds a program.
    """

    fns: tuple[Fn, ...]
    mixes: tuple[int, ...]
    around: str
    times: int

    def run(self, lib: Any, x: Any) -> Any:
        """Run it with what ``lib`` has."""

        def step(x: Any) -> Any:
            for f, mix in zip(self.fns, self.mixes, strict=True):
                y = lib.apply(f, x)
                x = (y, y * x + x * 0.5, y * y * 0.5 + y, y + lib.apply(f, y) * 0.5)[mix]
            return x

        return lib.repeated(self.around, step, x, self.times)


def random_program(
    rng: Random,
    *,
    styles: Sequence[str],
    holders: Sequence[str],
    arounds: Sequence[str],
    early: float = 0.3,
) -> Program:
    """Draw a program."""
    fns = tuple(
        [
            random_fn(rng, rng.choice((1, 1, 2, 3)), styles=styles, holders=holders, early=early)
            for _ in range(rng.choice((1, 1, 2)))
        ]
    )
    around = rng.choice(arounds)
    times = rng.choice((1, 2)) if around in LOOPS else 1
    return Program(fns, tuple([rng.randrange(4) for _ in fns]), around, times)


LOOPS = ("scan", "fori_loop", "while_loop", "Python")

# -- libraries -------------------------------------------------------------------------------------


class Library:
    """Runs a program with functrace or JAX.

    Args:
        ft, np, lax: have the transforms, the functions and the control flow.
        calls_itself: whether a rule calls its function for the results, which then have the rule
            again.
        flat: whether there are no sub-programs, which change no derivative.
    """

    def __init__(
        self, ft: Any, np: Any, lax: Any, *, calls_itself: bool = True, flat: bool = False
    ) -> None:
        self.ft, self.np, self.lax, self.calls_itself, self.flat = ft, np, lax, calls_itself, flat
        self.made: dict[int, Any] = {}

    def apply(self, f: Fn, x: Any) -> Any:
        """Apply a function."""
        if isinstance(f, Plain):
            return f.a * self.np.sin(f.b * x + f.c)
        if isinstance(f, Modulus):
            return f.c * self.np.sqrt(x * x)
        if f.serial not in self.made:
            self.made[f.serial] = getattr(self, f.style)(f)
        return self.made[f.serial](x)

    def vjp(self, f: Ruled) -> Unary:
        """Make a ``custom_vjp``."""
        made = self.ft.custom_vjp(lambda x: self.apply(f.values, x))
        value = made if self.calls_itself else lambda x: self.apply(f.values, x)
        if f.early:
            made.defvjp(
                lambda x: (value(x), self.apply(f.slope, x)),
                lambda kept, ct: (self.held(f.holder, lambda x: x, kept, ct),),
            )
        else:
            made.defvjp(
                lambda x: (value(x), x),
                lambda kept, ct: (self.held(f.holder, self.slope(f), kept, ct),),
            )
        return made

    def jvp(self, f: Ruled) -> Unary:
        """Make a ``custom_jvp``."""
        made = self.ft.custom_jvp(lambda x: self.apply(f.values, x))
        value = made if self.calls_itself else lambda x: self.apply(f.values, x)
        made.defjvp(
            lambda primals, tangents: (
                value(*primals),
                self.held(f.holder, self.slope(f), *primals, *tangents),
            )
        )
        return made

    def both(self, f: Ruled) -> Unary:
        """Make a ``custom_vjp`` that has a rule for forward mode, too."""
        made = self.vjp(f)
        made.defjvp(
            lambda primals, tangents: (
                made(*primals),
                self.held(f.holder, self.slope(f), *primals, *tangents),
            )
        )
        return made

    def slope(self, f: Ruled) -> Unary:
        """Return the derivative that a rule says."""
        return lambda x: self.apply(f.slope, x)

    def held(self, holder: str, slope: Unary, x: Any, ct: Any) -> Any:
        """Return ``slope(x) * ct``."""
        return HOLDERS["plain" if self.flat else holder](self, slope, x, ct)

    def repeated(self, around: str, f: Unary, x: Any, times: int) -> Any:
        """Apply ``f`` several times, in a loop or in something else that holds a program."""
        return AROUND["Python" if self.flat else around](self, f, x, times)


def _python(_: Any, f: Unary, x: Any, times: int) -> Any:
    for _k in range(times):
        x = f(x)
    return x


AROUND: dict[str, Callable[[Any, Unary, Any, int], Any]] = {
    "Python": _python,
    "jit": lambda lib, f, x, _: lib.ft.jit(f)(x),
    "checkpoint": lambda lib, f, x, _: lib.ft.checkpoint(f)(x),
    "cond": lambda lib, f, x, _: lib.lax.cond(lib.np.sum(x) < 1e3, f, lambda x: x, x),
    "vmap": lambda lib, f, x, _: lib.ft.vmap(f)(x),
    "map": lambda lib, f, x, _: lib.lax.map(f, x),
    "scan": lambda lib, f, x, n: lib.lax.scan(lambda c, _: (f(c), None), x, None, n)[0],
    "fori_loop": lambda lib, f, x, n: lib.lax.fori_loop(0, n, lambda _, c: f(c), x),
    "while_loop": lambda lib, f, x, n: lib.lax.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, f(s[1])), (0, x)
    )[1],
}


def _both_by_jit(lib: Any, slope: Unary, x: Any, ct: Any) -> Any:
    a, b = lib.ft.jit(lambda x, ct: (slope(x), ct * 2.0))(x, ct)
    return a * b * 0.5


def _both_by_cond(lib: Any, slope: Unary, x: Any, ct: Any) -> Any:
    a, b = lib.lax.cond(
        lib.np.sum(x) < 1e3, lambda x, ct: (slope(x), ct), lambda x, ct: (x, x * ct), x, ct
    )
    return a * b


def _both_by_checkpoint(lib: Any, slope: Unary, x: Any, ct: Any) -> Any:
    a, b = lib.ft.checkpoint(lambda x, ct: (slope(x), ct * slope(x)))(x, ct)
    return (a * ct + b) * 0.5


def _both_by_scan(lib: Any, slope: Unary, x: Any, ct: Any) -> Any:
    (a, _, c), _ = lib.lax.scan(
        lambda s, _: ((slope(s[1]), s[1], s[2] * 1.0), None), (x, x, ct), None, 2
    )
    return a * c


def _both_by_while(lib: Any, slope: Unary, x: Any, ct: Any) -> Any:
    _, a, c = lib.lax.while_loop(
        lambda s: s[0] < 1, lambda s: (s[0] + 1, slope(s[1]), s[2] * 1.0), (0, x, ct)
    )
    return a * c


def _nan_if_rule_is_dropped(lib: Any, x: Any, a: Any, ct: Any) -> Any:
    return lib.np.where(x == 0.0, a * ct, a * (ct * x) / x)


def _by_vjp_rule(
    lib: Any, slope: Unary, x: Any, ct: Any, within: Callable[[Any], Any] = lambda f: f
) -> Any:
    product = lib.ft.custom_vjp(lambda x, a, ct: _nan_if_rule_is_dropped(lib, x, a, ct))
    pull = within(lambda x, a, ct, g: (x * 0.0, g * ct, g * a))
    product.defvjp(lambda x, a, ct: (product(x, a, ct), (x, a, ct)), lambda kept, g: pull(*kept, g))
    return product(x, slope(x), ct)


def _by_jvp_rule(
    lib: Any, slope: Unary, x: Any, ct: Any, within: Callable[[Any], Any] = lambda f: f
) -> Any:
    product = lib.ft.custom_jvp(lambda x, a, ct: _nan_if_rule_is_dropped(lib, x, a, ct))
    push = within(lambda a, ct, a_dot, ct_dot: a_dot * ct + a * ct_dot)
    product.defjvp(lambda p, t: (product(*p), push(*p[1:], *t[1:])))
    return product(x, slope(x), ct)


HOLDERS: dict[str, Callable[[Any, Unary, Any, Any], Any]] = {
    "plain": lambda lib, slope, x, ct: slope(x) * ct,
    "jit": lambda lib, slope, x, ct: lib.ft.jit(lambda x, ct: slope(x) * ct)(x, ct),
    "jit of both": _both_by_jit,
    "checkpoint": lambda lib, slope, x, ct: lib.ft.checkpoint(lambda x, ct: slope(x) * ct)(x, ct),
    "checkpoint of both": _both_by_checkpoint,
    "cond": lambda lib, slope, x, ct: lib.lax.cond(
        lib.np.sum(x) < 1e3, lambda x, ct: slope(x) * ct, lambda x, ct: x * ct, x, ct
    ),
    "cond of both": _both_by_cond,
    "vmap": lambda lib, slope, x, ct: lib.ft.vmap(lambda x, ct: slope(x) * ct)(x,
    ct) if lib.np.ndim(x) else slope(x) * ct,
    "map": lambda lib, slope, x, ct: (
        lib.lax.map(lambda z: slope(z[0]) * z[1], (x, ct)) if lib.np.ndim(x) else slope(x) * ct
    ),
    "scan": lambda lib, slope, x, ct: lib.lax.scan(lambda c, k: (c * slope(x) * k, None), ct,
    np.ones(1))[0],
    "scan of both": _both_by_scan,
    "fori_loop": lambda lib, slope, x, ct: lib.lax.fori_loop(0, 1, lambda _, c: slope(x) * c, ct),
    "while_loop": lambda lib, slope, x, ct: lib.lax.while_loop(
        lambda s: s[0] < 1, lambda s: (s[0] + 1, slope(x) * s[1]), (0, ct)
    )[1],
    "while_loop of both": _both_by_while,
    "custom_vjp": _by_vjp_rule,
    "custom_vjp of jit": lambda lib, slope, x, ct: _by_vjp_rule(lib, slope, x, ct, lib.ft.jit),
    "custom_jvp": _by_jvp_rule,
    "custom_jvp of checkpoint": lambda lib, slope, x, ct: _by_jvp_rule(lib, slope, x, ct,
    lib.ft.checkpoint),
    "jvp": lambda lib, slope, x, ct: lib.ft.jvp(lambda z: z * slope(x), (x,), (ct,))[1],
    "vjp": lambda lib, slope, x, ct: lib.ft.vjp(lambda z: z * slope(x), x)[1](ct)[0],
}  # fmt: skip


# -- PyTorch ---------------------------------------------------------------------------------------


class TorchLibrary(Library):
    """Runs a program on tensors of ``torch``, which is PyTorch or functrace.torch; the rules are
    those of Functions.
    """

    def __init__(self, torch: Any) -> None:
        super().__init__(None, torch, None)
        self.torch = torch

    def held(self, holder: str, slope: Unary, x: Any, ct: Any) -> Any:
        """Return ``slope(x) * ct``."""
        return (
            _by_function(self, slope, x, ct)
            if holder == "Function"
            else super().held(holder, slope, x, ct)
        )

    def Function(self, f: Ruled) -> Unary:
        """Make a Function that has a backward."""
        return self._made(f).apply

    def pushed(self, f: Ruled) -> Unary:
        """Make a Function that has a backward and a jvp."""

        def jvp(ctx: Any, tangent: Any) -> Any:
            return self.held(f.holder, self.slope(f), ctx.saved_tensors[0], tangent)

        return type("Pushed", (self._made(f),), {"jvp": staticmethod(jvp)}).apply

    def joined(self, f: Ruled) -> Unary:
        """Make a Function whose forward takes ``ctx``."""

        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return self.apply(f.values, x)

        def backward(ctx: Any, ct: Any) -> Any:
            return self.held(f.holder, self.slope(f), ctx.saved_tensors[0], ct)

        rules = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type("Joined", (self.torch.autograd.Function,), rules).apply

    def _made(self, f: Ruled) -> Any:
        class Made(self.torch.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x: Any) -> Any:
                return self.apply(f.values, x)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                (x,) = inputs
                ctx.save_for_forward(x)
                ctx.save_for_backward(self.apply(f.slope, x) if f.early else x)

            @staticmethod
            def backward(ctx: Any, ct: Any) -> Any:
                return self.held(
                    f.holder, (lambda x: x) if f.early else self.slope(f), ctx.saved_tensors[0], ct
                )

        return Made


def _by_function(lib: Any, slope: Unary, x: Any, ct: Any) -> Any:
    class Product(lib.torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, a: Any, ct: Any) -> Any:
            return _nan_if_rule_is_dropped(lib, x, a, ct)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, a, ct = ctx.saved_tensors
            return x * 0.0, g * ct, g * a

        @staticmethod
        def jvp(ctx: Any, _: Any, a_dot: Any, ct_dot: Any) -> Any:
            _, a, ct = ctx.saved_tensors
            return a_dot * ct + a * ct_dot

    return Product.apply(x, slope(x), ct)


HOLDERS_OF_TORCH = ("plain", "Function")


def derivative_of_torch(
    torch: Any, program: Program, way: str, x: Array, directions: Sequence[Array], *, mapped: bool
) -> Any:
    """Return the derivative of a program along directions.

    Args:
        torch: PyTorch or functrace.torch.
        way: how each order is taken, the outermost first: P by ``torch.func.jvp``, Q by
            ``torch.func.grad``, C by ``torch.autograd.grad(create_graph=True)``.
        mapped: whether it is taken of a batch.
    """
    lib = TorchLibrary(torch)

    def f(x: Any) -> Any:
        return program.run(lib, x).sum()

    for mode, v in zip(reversed(way), directions, strict=False):
        f = _ALONG[mode](torch, f, torch.tensor(v))
    given = torch.tensor(x)
    found = torch.func.vmap(f)(torch.stack([given * 0.5, given]))[1] if mapped else f(given)
    return found.detach().numpy()


def _pushed(torch: Any, f: Any, v: Any) -> Any:
    return lambda x: torch.func.jvp(f, (x,), (v,))[1]


def _pulled(torch: Any, f: Any, v: Any) -> Any:
    return lambda x: (torch.func.grad(f)(x) * v).sum()


def _by_graph(torch: Any, f: Any, v: Any) -> Any:
    def g(x: Any) -> Any:
        x = x if x.requires_grad else x.clone().requires_grad_()
        return (torch.autograd.grad(f(x), x, create_graph=True)[0] * v).sum()

    return g


_ALONG = {"P": _pushed, "Q": _pulled, "C": _by_graph}
