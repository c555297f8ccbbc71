"""A generated family: transforms of transforms of small functions, written once for functrace, JAX
and plain loops.

Every function takes a vector of three numbers and returns one; every transform makes such a
function of such a function, so that they stack to any depth. ``system`` has the transforms under
the names that functrace and JAX share, and ``np``. `Plain` is the third system: differences in
place of derivatives, Python in place of everything else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

Function = Callable[[Any], Any]

X = np.array([0.3, -0.7, 1.1])
W = np.array([0.9, 0.4, -0.6])

# -- functions -------------------------------------------------------------------------------------


def smooth(s: Any, x: Any) -> Any:
    return s.np.sum(s.np.sin(x) * x[::-1]) + x[0] * x[1]


def signs(s: Any, x: Any) -> Any:
    """The derivative of its inner call has no results."""
    return s.np.sum(s.np.tanh(x) * s.jit(s.np.sign)(x))


def nothing(s: Any, x: Any) -> Any:
    """One call without results, and one whose results are none, a constant and its argument."""
    s.jit(lambda x: None)(x)
    _, two, y = s.jit(lambda x: (None, 2.0, x))(x)
    return s.np.sum(s.np.cos(y) * two)


def integers(s: Any, x: Any) -> Any:
    order = s.np.argsort(x)
    return s.np.sum(x**2 * order) + x[order[0]] * s.np.argmax(x)


def complexes(s: Any, x: Any) -> Any:
    return s.np.real(s.np.sum(s.np.exp(1j * x) * (x - 0.5j * x[::-1])))


def holomorphic(s: Any, x: Any) -> Any:
    z = x * (0.5 + 1.0j)
    return s.np.sum(s.np.imag(s.grad(lambda z: s.np.sum(z**3) * z[0], holomorphic=True)(z)))


def chosen(s: Any, x: Any) -> Any:
    return s.cond(x[1] < 0.0, lambda v: s.np.sum(s.np.sin(v * x)), lambda v: v[0], x * 2.0)


def looped(s: Any, x: Any) -> Any:
    c, ys = s.scan(lambda c, v: (s.np.sin(c) * v + x[0], (c * v, None)), x[2], x)
    return c + s.np.sum(ys[0] ** 2)


def with_rules(s: Any, x: Any) -> Any:
    @s.custom_jvp
    def forward(v: Any) -> Any:
        return s.np.sin(v)

    @s.custom_vjp
    def backward(v: Any) -> Any:
        return s.np.exp(v)

    forward.defjvp(lambda p, t: (s.np.sin(p[0]), s.np.cos(p[0]) * t[0]))
    backward.defvjp(lambda v: (s.np.exp(v), v), lambda v, y_bar: (s.np.exp(v) * y_bar,))
    return s.np.sum(forward(x) * backward(x[::-1]))


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    f.__name__: f
    for f in (smooth, signs, nothing, integers, complexes, holomorphic, chosen, looped, with_rules)
}

# -- transforms ------------------------------------------------------------------------------------


def _grad(s: Any, f: Function) -> Function:
    return lambda x: s.np.sum(s.grad(f)(x) * W)


def _value_and_grad_aux(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        (value, aux), gradient = s.value_and_grad(
            lambda x: (f(x), {"x": x * 2.0, "n": None, "k": 3}), has_aux=True
        )(x)
        return value + s.np.sum(gradient * aux["x"]) + aux["k"]

    return g


def _grad_argnums(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        by_b, by_a = s.grad(lambda a, b: f(a["a"]) * s.np.sum(b[0]), argnums=(1, -2))(
            {"a": x}, (x * 0.5,)
        )
        return s.np.sum(by_a["a"] * W) + s.np.sum(by_b[0])

    return g


def _vjp(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        (y, _), pullback, aux = s.vjp(
            lambda x, n: ((f(x), s.np.argmax(x)), (x, n)), x, 2.0, has_aux=True
        )
        bars = pullback((y * 0.5, s.zero))
        return y + s.np.sum(bars[0] * W) + bars[1] + s.np.sum(aux[0]) * aux[1]

    return g


def _jvp(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        (y, k), (y_dot, _), aux = s.jvp(
            lambda x, n: ((f(x) * n, 2.0), x[0]), (x, np.int64(2)), (W * x[1], s.zero), has_aux=True
        )
        return y * y_dot + k + aux

    return g


def _linearize(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        y, push = s.linearize(lambda p: {"y": f(p["x"]), "x": p["x"]}, {"x": x})
        out = push({"x": W})
        return y["y"] + out["y"] + s.np.sum(out["x"] * y["x"])

    return g


def _jacfwd(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        jacobian, aux = s.jacfwd(lambda x: (s.np.stack([f(x), x[0] ** 2]), x * 2.0), has_aux=True)(
            x
        )
        return s.np.sum(jacobian @ W) + aux[1]

    return g


def _jacrev(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        jacobian, aux = s.jacrev(
            lambda c, x: ({"f": f(x) * c, "x": x[:2]}, (c, x)), argnums=(1,), has_aux=True
        )(2.0, x)
        return s.np.sum(jacobian["f"][0] * W) + s.np.sum(jacobian["x"][0]) + s.np.sum(aux[1])

    return g


def _hessian(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        matrix, aux = s.hessian(lambda x: (f(x), x[0]), has_aux=True)(x)
        return W @ matrix @ W + aux

    return g


def _forward_over_reverse(s: Any, f: Function) -> Function:
    return lambda x: s.np.sum(s.jvp(s.grad(f), (x,), (W,))[1] * x)


def _vmap(s: Any, f: Function) -> Function:
    return lambda x: s.np.sum(s.vmap(f)(s.np.stack([x, x * 0.9])))


def _vmap_axes(s: Any, f: Function) -> Function:
    def g(x: Any) -> Any:
        mapped = s.vmap(
            lambda p, c: (f(p["x"]) * c, p["x"], c),
            in_axes=({"x": -1}, None),
            out_axes=(0, 1, None),
        )
        ys, xs, c = mapped({"x": s.np.stack([x, x * 1.1, x - 0.01], axis=1)}, x[0])
        return s.np.sum(ys * W) + s.np.sum(xs[:, 0]) + c

    return g


def _jit(s: Any, f: Function) -> Function:
    return lambda x: s.jit(lambda x, n: f(x) * n)(x, 2)


def _jit_static(s: Any, f: Function) -> Function:
    return lambda x: s.jit(lambda n, x: (f(x) if n == "f" else x, None), static_argnums=0)("f", x)[
        0
    ]


def _checkpoint(s: Any, f: Function) -> Function:
    return lambda x: s.checkpoint(f)(x) + x[0]


def _cond(s: Any, f: Function) -> Function:
    return lambda x: s.cond(x[2] > 0.2, lambda v: f(v) * v[0], lambda v: v[1], x)


def _scan(s: Any, f: Function) -> Function:
    return lambda x: s.scan(lambda c, k: (c + f(x * k), None), x[0], np.array([1.0, 0.9]))[0]


def _custom_jvp(s: Any, f: Function) -> Function:
    g = s.custom_jvp(lambda x: f(x))
    g.defjvp(lambda primals, tangents: s.jvp(f, primals, tangents))
    return lambda x: g(x) * 2.0


def _custom_vjp(s: Any, f: Function) -> Function:
    g = s.custom_vjp(lambda x: f(x))
    g.defvjp(lambda x: (f(x), x), lambda x, y_bar: (s.grad(f)(x) * y_bar,))
    return lambda x: g(x) * 2.0


def _partial(s: Any, f: Function) -> Function:
    return s.jit(functools.partial(lambda c, x: f(x) * c, 0.5))


TRANSFORMS: dict[str, Callable[[Any, Function], Function]] = {
    "grad": _grad, "value_and_grad has_aux": _value_and_grad_aux, "grad argnums": _grad_argnums,
    "vjp": _vjp, "jvp": _jvp,
    "linearize": _linearize, "jacfwd": _jacfwd, "jacrev": _jacrev, "hessian": _hessian,
    "jvp of grad": _forward_over_reverse, "vmap": _vmap, "vmap axes": _vmap_axes, "jit": _jit,
    "jit static": _jit_static,
    "checkpoint": _checkpoint, "cond": _cond, "scan": _scan, "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "jit of partial": _partial,
}  # fmt: skip
ORDERS = {"hessian": 2, "jvp of grad": 2, **dict.fromkeys(
    ("grad", "value_and_grad has_aux", "grad argnums", "vjp", "jvp", "linearize", "jacfwd",
    "jacrev"), 1)}  # fmt: skip
FORWARD = {"jvp", "linearize", "jacfwd", "hessian", "jvp of grad"}


def variant(s: Any, function: str, transforms: Sequence[str]) -> Function:
    """Apply transforms to a function, the first one first."""
    f: Function = functools.partial(FUNCTIONS[function], s)
    for name in transforms:
        f = TRANSFORMS[name](s, f)
    return f


def order(function: str, transforms: Sequence[str]) -> int:
    """The order of differentiation of a variant."""
    return (function == "holomorphic") + sum([ORDERS.get(name, 0) for name in transforms])


def forward_through_backward_rule(function: str, transforms: Sequence[str]) -> bool:
    """Return True if forward mode is applied to a reverse-mode rule, which JAX refuses."""
    last = max([k for k, name in enumerate(transforms) if name == "custom_vjp"], default=-1)
    if function == "with_rules":
        return any(name in FORWARD for name in transforms)
    return last >= 0 and any(
        name in FORWARD for name in transforms[transforms.index("custom_vjp") + 1 :]
    )


def drawn(count: int, seed: int) -> list[tuple[str, tuple[str, ...]]]:
    """Draw variants: pairs and triples of transforms, of all functions in turn."""
    rng = np.random.default_rng(seed)
    names, functions = list(TRANSFORMS), list(FUNCTIONS)
    made: dict[tuple[str, tuple[str, ...]], None] = {}
    while len(made) < count:
        chosen = tuple([names[k] for k in rng.integers(len(names), size=rng.integers(2, 4))])
        function = functions[len(made) % len(functions)]
        if order(function, chosen) <= 3:
            made[function, chosen] = None
    return list(made)


def name_of(case: tuple[str, tuple[str, ...]]) -> str:
    """The test id of a variant."""
    return " of ".join([*reversed(case[1]), case[0]])


# -- the plain system ------------------------------------------------------------------------------

STEP = 2e-3


def _along(f: Callable[[Any], Any], x: Any, v: Any) -> Any:
    """The derivative of a pytree by central differences, with two Richardson steps."""
    from functrace.tree import flatten, tree_map

    def central(h: float) -> Any:
        moved = [f(tree_map(lambda a, b: a + sign * h * b, x, v)) for sign in (1, -1)]
        leaves, tree = flatten(moved[0])
        return tree, [
            (np.asarray(a) - np.asarray(b)) / (2 * h) if np.asarray(a).dtype.kind in "fc" else 0
            for a, b in zip(leaves, flatten(moved[1])[0], strict=True)
        ]

    (tree, a), (_, b), (_, c) = central(STEP), central(STEP / 2), central(STEP / 4)
    rows = [((4 * z - y) / 3, (4 * y - w) / 3) for w, y, z in zip(a, b, c, strict=True)]
    from functrace.tree import unflatten

    return unflatten(tree, [((16 * fine - coarse) / 15)[()] for fine, coarse in rows])


def _jacobian(f: Callable[[Any], Any], x: Any) -> Any:
    """The Jacobian as a pytree like the result; the axes of ``x`` (one array) come last."""
    from functrace.tree import tree_map

    x = np.asarray(x)
    units = [np.eye(x.size, dtype=x.dtype)[k].reshape(x.shape) for k in range(x.size)]
    columns = [_along(f, x, unit) for unit in units]
    return tree_map(
        lambda *parts: np.stack(parts, axis=-1).reshape((*np.shape(parts[0]), *x.shape)), *columns
    )


def _only(f: Any, args: tuple[Any, ...], k: int, has_aux: bool) -> Callable[[Any], Any]:
    return lambda v: (lambda y: y[0] if has_aux else y)(f(*args[:k], v, *args[k + 1 :]))


def _derivative(f: Any, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False) -> Any:
    """jacfwd, jacrev and grad are one thing."""
    from functrace.tree import tree_map

    def wanted(*args: Any) -> Any:
        def one(k: int) -> Any:
            if isinstance(args[k], np.ndarray | np.generic | float):
                return _jacobian(_only(f, args, k % len(args), has_aux), args[k])
            if isinstance(args[k], dict):
                inner = lambda v: _only(f, args, k % len(args), has_aux)({"a": v})
                return {"a": _jacobian(inner, args[k]["a"])}
            return (_jacobian(lambda v: _only(f, args, k % len(args), has_aux)((v,)), args[k][0]),)

        found = one(argnums) if isinstance(argnums, int) else tuple(map(one, argnums))
        if isinstance(argnums, tuple) and len(argnums) == 1:  # a pytree like the result, of tuples
            found = tree_map(lambda leaf: (leaf,), found[0])
        return (found, f(*args)[1]) if has_aux else found

    return wanted


def _plain_vjp(f: Any, *primals: Any, has_aux: bool = False) -> Any:
    out = f(*primals)
    jacobians = [
        _jacobian(lambda v, k=k: _only(f, primals, k, has_aux)(v)[0], x)
        for k, x in enumerate(primals)
    ]
    pullback = lambda ct: tuple([ct[0] * j for j in jacobians])
    return (out[0], pullback, out[1])


def _plain_jvp(f: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    out = f(*primals)
    of_first = lambda v: (lambda y: y[0] if has_aux else y)(f(v, *primals[1:]))
    pushed = _along(of_first, primals[0], tangents[0])
    return (out[0], pushed, out[1]) if has_aux else (out, pushed)


def _plain_vmap(f: Any, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    if in_axes == 0:
        return lambda xs: np.stack([f(x) for x in xs])

    def mapped(p: Any, c: Any) -> Any:
        rows = [f({"x": p["x"][:, k]}, c) for k in range(p["x"].shape[1])]
        return np.stack([r[0] for r in rows]), np.stack([r[1] for r in rows], axis=1), c

    return mapped


def _plain_scan(f: Any, c: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        c, y = f(c, x)
        ys.append(None if y is None else y[0])
    return c, None if ys[0] is None else (np.stack(ys), None)


def _hessian_of(f: Any, has_aux: bool = False) -> Any:
    return lambda x: (_jacobian(lambda v: _jacobian(lambda u: f(u)[0], v), x), f(x)[1])


class _WithRules:
    """A function whose rules are of no consequence: they say what differences say."""

    def __init__(self, f: Function) -> None:
        self.f = f

    def __call__(self, x: Any) -> Any:
        return self.f(x)

    def defjvp(self, _rule: Any) -> None:
        """Forget the rule."""

    def defvjp(self, _forward: Any, _backward: Any) -> None:
        """Forget the rules."""


PLAIN = SimpleNamespace(
    np=np,
    zero=None,
    grad=_derivative,
    jacfwd=_derivative,
    jacrev=_derivative,
    value_and_grad=lambda f, has_aux: lambda x: (f(x), _derivative(lambda v: f(v)[0])(x)),
    vjp=_plain_vjp,
    jvp=_plain_jvp,
    linearize=lambda f, p: (f(p), lambda v: _along(f, p, v)),
    hessian=_hessian_of,
    vmap=_plain_vmap,
    jit=lambda f, static_argnums=(): f,
    checkpoint=lambda f: f,
    cond=lambda p, f, g, *xs: f(*xs) if p else g(*xs),
    scan=_plain_scan,
    custom_jvp=_WithRules,
    custom_vjp=_WithRules,
)
