"""Functions inside random programs, and the transforms that run them: checkpoint, jit, cond, scan,
custom rules, vmap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PRELUDE = """\
    def softplus_jvp(primals, tangents):
        return np.log1p(np.exp(primals[0])), tangents[0] / (1.0 + np.exp(-primals[0]))
    softplus = ft.custom_jvp(lambda t: np.log1p(np.exp(t)))
    softplus.defjvp(softplus_jvp)
    arcsinh = ft.custom_vjp(lambda t: np.log(t + np.sqrt(t * t + 1.0)))
    arcsinh.defvjp(lambda t: (np.log(t + np.sqrt(t * t + 1.0)), t), lambda t, bar: (bar / np.sqrt(t * t + 1.0),))
    scaled = ft.custom_vjp(lambda s, t: s * np.sin(t))
    scaled.defvjp(lambda s, t: (s * np.sin(t), (s, t)), lambda r, bar: (np.sum(bar * np.sin(r[1])), bar * r[0] * np.cos(r[1])))
""".splitlines()


def body(s: Any, draw: Callable[[Any, int], None]) -> bool:
    """Add a function and the transform that runs it."""
    form = s.choice(
        (
            "checkpoint",
            "jit",
            "plain",
            "cond",
            "scan",
            "custom",
            "checkpoint",
            "jit",
            "cond",
            "vmap",
            "scan",
        )
    )
    if form == "custom":
        return _custom(s)
    if form == "scan":
        return _scan(s, draw)
    given = [name for name in (s.array(), s.array()) if name is not None][: s.choice((1, 1, 2, 0))]
    if form == "vmap":
        given = [name for name in given if s.value(name).ndim and len(s.value(name))][:1]
        if not given:
            return False
    values = [s.value(name)[0] if form == "vmap" else s.value(name) for name in given]
    functions = []
    shape = None
    for _ in range(2 if form == "cond" else 1):
        drawn = _function(s, draw, values, shape, same=form == "cond")
        if drawn is None:
            return False
        name, node, shape = drawn
        functions.append((name, node))
    for _, node in functions:
        if not s.attempt(node):
            return False
    result = s.fresh()
    names = ", ".join(given)
    first = functions[0][0]
    if form == "cond":
        x = s.array()
        pred = s.choice(
            (
                f"np.sum({x}).real > 0.1",
                f"np.sum({x}).real > 0.1",
                "True",
                "K[0] > 0.6" if s.literals[0] else "False",
            )
        )
        if s.smooth is False:
            pred = s.choice((f"np.sum({x}) > 0.1", "True"))
        text = f"ft.cond({pred}, {', '.join(name for name, _ in functions)}{', ' if names else ''}{names})"
    elif form == "plain":
        text = f"{first}({names})"
    else:
        text = f"ft.{form}({first})({names})"
    kept = s.attempt(f"{result} = {text}", result)
    if kept and s.chance(0.2) and form in ("checkpoint", "jit", "plain"):
        again = s.fresh()
        s.attempt(f"{again} = {text}", again)
    return kept and _named(s, result)


def _named(s: Any, result: str) -> bool:
    """Name the leaves of a tuple of results."""
    value = s.value(result)
    if isinstance(value, tuple):
        for k, part in enumerate(value):
            if isinstance(part, np.ndarray | np.generic):
                name = s.fresh()
                s.attempt(f"{name} = {result}[{k}]", name)
    return True


def _function(s: Any, draw: Any, values: list[Any], shape: Any, same: bool) -> Any:
    """Draw a function of values; with ``same``, one whose result has a shape that can be drawn
    again.
    """
    name = s.fresh("f")
    params = [s.fresh("p") for _ in values]
    nodes, locals_, env = s.nodes, s.locals, s.env
    count = len(nodes)
    before = list(nodes)
    bound = [f"{p} = {_text(s, v)}" for p, v in zip(params, values)]
    s.nodes = [*before, *bound]
    try:
        s.restart()
    except Exception:
        s.nodes, s.locals, s.env = nodes, locals_, env
        s.restart()
        return None
    s.locals = list(params)
    s.depth += 1
    draw(s, s.choice((1, 2, 2, 3)))
    s.depth -= 1
    inner = s.nodes[count + len(bound) :]
    result, shape = _result(s, params, shape, same)
    s.nodes, s.locals = nodes, locals_
    s.restart()
    return name, (f"def {name}({', '.join(params)}):", [*inner, f"return {result}"]), shape


def _text(s: Any, value: Any) -> str:
    for name, other in s.env.items():
        if other is value:
            return name
    for name, other in s.env.items():
        if (
            isinstance(other, np.ndarray)
            and other.ndim
            and len(other)
            and np.shape(other[0]) == np.shape(value)
        ):
            return f"{name}[0]"
    return "0.5"


def _result(s: Any, params: list[str], shape: Any, same: bool) -> tuple[str, Any]:
    last = (
        s.locals[-1]
        if s.locals and isinstance(s.env.get(s.locals[-1]), np.ndarray | np.generic)
        else s.array()
    )
    if same:
        if shape is None:
            shape = np.shape(s.env[last]) if last else ()
        return (f"np.broadcast_to(np.sum(np.real({last})), {shape}) * 1.0" if last and np.shape(s.env[last]) != shape
                else f"np.real({last}) * 1.0" if last else f"np.ones({shape})"), shape  # fmt: skip
    other = params[0] if params else last
    forms = ["{0}", "{0}", "{0}", "({0}, {1})", "{1}", "({0}, None)", "({0}, 2.5)", "{1}[...]",
    "None", "1.5", "({1}, {1})", "{0}[...]",
             "({0}, {0})", "{0}.T", "np.sin({0})", "({0}, np.sum({0}))"]  # fmt: skip
    if s.avoids("aliases"):
        forms = [
            "{0} * 1.0",
            "np.sin({0})",
            "(np.sin({0}), None)",
            "(np.sin({0}), np.cos({0}))",
            "({0} * 1.0, 2.5)",
        ]
    elif s.smooth:
        forms += ["{0}", "np.sin({0})", "np.tanh({0})"] * 2
    return s.choice(forms).format(last or "1.0", other or "1.0"), shape


def _custom(s: Any) -> bool:
    x, name = s.operand(), s.fresh()
    if x is None:
        return False
    scalar = [
        key
        for key, value in s.env.items()
        if isinstance(value, np.ndarray | np.generic)
        and value.ndim == 0
        and value.dtype.kind == "f"
    ]
    forms = [
        "softplus({0})",
        "arcsinh({0})",
        "ft.checkpoint(softplus)({0})",
        "ft.jit(arcsinh)({0})",
        "ft.jit(lambda: softplus({0}))()",
    ]
    if scalar:
        forms += ["scaled({1}, {0})"] * 2
    return s.attempt(
        f"{name} = {s.choice(forms).format(x, s.choice(scalar) if scalar else '')}", name
    )


def _scan(s: Any, draw: Any) -> bool:
    walked = [
        name
        for name, value in s.env.items()
        if isinstance(value, np.ndarray) and value.ndim and 0 < len(value) < 5
    ]
    carry = s.array()
    if not walked or carry is None:
        return False
    xs = s.choice(walked)
    drawn = _function(
        s, draw, [s.value(carry), s.value(xs)[0]], np.shape(s.value(carry)), same=True
    )
    if drawn is None:
        return False
    name, (header, nodes), _ = drawn
    h, t = header[header.index("(") + 1 : -2].split(", ")
    y = s.choice(("None", h, f"{t} * 2.0", f"np.sum({h})", t, f"({h}, {t})", "1.5"))
    nodes = [*nodes[:-1], f"return {nodes[-1].removeprefix('return ')}, {y}"]
    if not s.attempt((header, nodes)):
        return False
    result = s.fresh()
    text = f"ft.scan({name}, {carry}, {xs}{', reverse=True' if s.chance(0.2) else ''})"
    return s.attempt(f"{result} = {text}", result) and _named(s, result)
