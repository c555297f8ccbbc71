"""The statements of random programs: expressions, writes, views, aliases, drawn for the values that
there are.

Every maker takes the `Scope` (generate.py), which knows the values so far, and returns Python text,
or ``None`` where the values at hand do not fit. A text that NumPy refuses is dropped by the
generator, so that makers need not know all rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Maker = Callable[[Any], str | None]

# Smooth everywhere, of moderate size and slope: differences are a fair oracle.
SMOOTH_UNARY = (
    "np.sin({0})", "np.cos({0})", "np.tanh({0})", "np.arctan({0})", "np.exp(-np.square({0}))",
    "np.log1p({0} ** 2)",
    "np.sqrt({0} * {0} + 1.0)", "1.0 / ({0} ** 2 + 2.0)", "-{0}", "0.5 * {0}",
    "np.logaddexp({0}, 0.5)", "{0} ** 2",
    "np.square({0})", "np.expm1(0.5 * {0})", "np.arcsinh({0})", "np.reciprocal(2.0 + np.sin({0}))",
    "{0} - 0.25",
    "np.power(2.0 + np.cos({0}), {0})", "{0}.conj()", "+{0}", "2 * {0}", "{0} / 2", "1 - {0}",
    "{0} ** 3", "2.0 ** {0}",
    "np.positive({0})", "np.negative({0})", "np.conjugate({0})", "np.hypot({0}, 1.5)",
    "np.where({0} > 0.3, {0}, 0.5 * {0})",
    "np.maximum({0}, 0.1)", "abs({0})", "np.clip({0}, -0.8, 0.9)", "np.sign({0}) * {0}",
    "np.minimum({0}, 0.3) * {0}",
)  # fmt: skip
SMOOTH_BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} * np.tanh({1})", "{0} / (1.5 + {1} ** 2)",
    "np.hypot({0}, np.cos({1}) + 2.0)",
    "np.add({0}, {1})", "np.multiply({0}, {1})", "np.arctan2({0}, np.cos({1}) + 2.0)",
    "np.maximum({0}, {1})",
    "np.where({0} > {1}, {0}, {1} * 0.5)", "np.logaddexp({0}, {1})",
    "np.power(np.square({0}) + 1.0, {1})",
    "np.divide({0}, 2.0 + np.sin({1}))", "np.subtract({0}, {1})", "np.minimum({0}, {1})",
    "np.float_power(1.0 + {0} * {0}, {1})",
)  # fmt: skip
WILD_UNARY = [
    "negative",
    "positive",
    "absolute",
    "sign",
    "floor",
    "ceil",
    "rint",
    "trunc",
    "sqrt",
    "square",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "cbrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "isnan",
    "isfinite",
    "isinf",
    "signbit",
    "logical_not",
    "invert",
    "conjugate",
    "fabs",
    "deg2rad",
    "rad2deg",
    "real",
    "imag",
    "angle",
    "nan_to_num",
    "round",
    "fix",
    "sinc",
    "i0",
    "isreal",
    "iscomplex",
    "spacing",
    "bitwise_count",
    "isneginf",
]
WILD_UNARY_FORMS = ("-{0}", "+{0}", "~{0}", "abs({0})", "{0}.conj()", "{0}.round(1)", "{0} ** 2",
"{0} ** 2.0", "{0} ** -1",
                    "{0} ** 0.5", "{0} ** 0", "2 ** {0}", "np.round({0}, 1)",
                    "np.nan_to_num({0}, nan=1.5)", "np.frexp({0})[0]",
                    "np.modf({0})[1]", "np.clip({0}, 0, 1)", "{0}.clip(-0.5, 0.5)",
                    "np.square({0}, dtype=np.float64)",
                    "{0}.astype(np.float32)", "{0}.astype(np.int64)", "{0}.astype(complex)",
                    "{0}.astype(bool)",
                    "np.astype({0}, np.uint8)", "np.clip({0}, None, 0.5)", "np.copy({0})",
                    "{0}.copy()", "np.array({0}, copy=True)",
                    "np.zeros_like({0})", "np.ones_like({0})", "np.full_like({0}, 2)",
                    "np.full_like({0}, 0.75)")  # fmt: skip
WILD_BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "mod",
    "power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "arctan2",
    "hypot",
    "copysign",
    "nextafter",
    "logaddexp",
    "logaddexp2",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "float_power",
    "fmod",
    "heaviside",
    "ldexp",
    "isclose",
]
OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "!=",
    "&",
    "|",
    "^",
    "<<",
    ">>",
]
CASTS = ("np.float32", "np.float64", "complex", "int", "bool", "np.uint8", "np.int8")


def unary(s: Any) -> str | None:
    x = s.operand()
    if x is None:
        return None
    if s.smooth:
        return s.choice(SMOOTH_UNARY).format(x)
    return (
        s.choice(WILD_UNARY_FORMS).format(x) if s.chance(0.4) else f"np.{s.choice(WILD_UNARY)}({x})"
    )


def binary(s: Any) -> str | None:
    x = s.operand()
    y = s.partner(x)
    if x is None or y is None:
        return None
    if s.smooth:
        return s.choice(SMOOTH_BINARY).format(x, y)
    if s.chance(0.3):
        x, y = y, x
    roll = s.random()
    if roll < 0.5:
        return f"{x} {s.choice(OPERATORS)} {y}"
    if roll < 0.55:
        return f"np.divmod({x}, {y})[{s.choice((0, 1))}]"
    if roll < 0.6:
        return f"np.{s.choice(('add', 'multiply', 'maximum', 'arctan2'))}.outer({x}, {y})"
    return f"np.{s.choice(WILD_BINARY)}({x}, {y})"


def choosing(s: Any) -> str | None:
    x = s.operand()
    y, z = s.partner(x), s.partner(x)
    if x is None or y is None or z is None:
        return None
    forms = ["np.where({0} > {1}, {0}, {2})", "np.where({1} > 0, {0}, {2})",
    "np.clip({0}, {1}, {2})",
             "np.select([{0} > 0.5, {0} < -0.5], [{1}, {0}], {2})",
             "np.select([{0} > 0.5, {1} < 0.5], [{0}, {2}])",
             "np.where(np.isfinite({0}), {0}, {1})", "np.choose(({0} > 0).astype(int), [{1}, {0}])",
             "np.maximum(np.minimum({0}, {1}), {2})",
             "np.piecewise({0}, [{0} < 0, {0} >= 0], [lambda t: -t, lambda t: t * 2])",
             "np.nan_to_num({0}) + {1}",
             "np.interp({0}, np.array([-1.0, 0.0, 1.5]), np.array([2.0, -1.0, 3.0])) * {1}"]  # fmt: skip
    return s.choice(forms).format(x, y, z)


def reduction(s: Any) -> str | None:
    x = s.array()
    if x is None:
        return None
    names = ["sum", "mean", "prod", "max", "min", "var", "std"]
    if not s.smooth:
        names += ["any", "all", "argmax", "argmin", "ptp", "median", "count_nonzero", "nansum",
        "nanmax", "nanmean", "average",
                  "cumsum", "cumprod", "nanprod", "nanstd", "amax"]  # fmt: skip
    name = s.choice(names)
    axis = s.axis(x, none=True)
    options = "" if axis is None else f", axis={axis}"
    if name not in ("cumsum", "cumprod") and s.chance(0.25):
        options += ", keepdims=True"
    if name in ("sum", "prod", "max", "min") and s.chance(0.15):
        options += ", initial=" + s.literal("number")
    if name in ("sum", "mean", "max", "any", "prod") and s.chance(0.1):
        options += f", where={x} > 0" + (", initial=0.5" if name == "max" else "")
    if name in ("var", "std") and s.chance(0.3):
        options += ", ddof=1"
    if name in ("sum", "prod", "mean", "cumsum") and not s.smooth and s.chance(0.15):
        options += f", dtype={s.choice(CASTS)}"
    if name in (
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "std",
        "argmax",
        "cumsum",
        "any",
        "all",
    ) and s.chance(0.4):
        return f"{x}.{name}({options[2:]})"
    if name == "sum" and s.chance(0.2):
        return f"np.{s.choice(('add', 'multiply', 'maximum', 'logical_or'))}.reduce({x}{options.split(', where')[0]})"
    return f"np.{name}({x}{options})"


def scanning(s: Any) -> str | None:
    x = s.array(least=1)
    if x is None:
        return None
    axis = s.axis(x)
    forms = ["np.cumsum({0}, axis={1})", "np.cumprod({0}, axis={1})", "np.diff({0}, axis={1})",
    "np.add.accumulate({0}, axis={1})",
             "np.multiply.accumulate({0}, {1})", "np.maximum.accumulate({0}, axis={1})",
             "np.cumsum({0})", "np.gradient({0}, axis={1})",
             "np.trapezoid({0}, axis={1})", "np.ediff1d({0})",
             "np.convolve({0}, np.array([1.0, 0.5]))", "np.diff({0}, 2, axis={1})"]  # fmt: skip
    return s.choice(forms).format(x, axis)


def shaping(s: Any) -> str | None:
    x = s.array()
    if x is None:
        return None
    value = s.value(x)
    axis = s.axis(x)
    forms = ["np.reshape({0}, -1)", "{0}.T", "np.transpose({0})", "np.ravel({0})", "{0}.flatten()",
    "{0}[None]", "np.squeeze({0})",
             "np.atleast_1d({0})", "np.atleast_2d({0})", "np.broadcast_to({0}, (2, *{0}.shape))",
             "np.tile({0}, 2)",
             "np.expand_dims({0}, 0)", "np.repeat({0}, 2)", "np.stack([{0}, {0}])",
             "{0}.reshape({0}.shape[::-1])", "np.flip({0})",
             "np.append({0}, 1.5)", "{0}.copy()"]  # fmt: skip
    if value.ndim:
        forms += ["np.roll({0}, 1, axis={1})", "np.flip({0}, {1})", "np.repeat({0}, 2, axis={1})",
        "np.swapaxes({0}, 0, {1})",
                  "np.moveaxis({0}, 0, {1})", "np.concatenate([{0}, {0}], axis={1})",
                  "np.expand_dims({0}, {1})",
                  "np.split({0}, {0}.shape[{1}], axis={1})[0]", "np.pad({0}, 1)",
                  "np.pad({0}, ((1, 0),) * {0}.ndim, mode='edge')",
                  "np.delete({0}, 0, axis={1})", "np.insert({0}, 0, 0.5, axis={1})",
                  "np.take({0}, [0, 0], axis={1})",
                  "np.array_split({0}, 2, axis={1})[1]", "np.roll({0}, -2)",
                  "np.resize({0}, (2, 3))", "np.hstack([{0}, {0}])",
                  "np.vstack([{0}, {0}])", "np.pad({0}, 1, constant_values=0.5)",
                  "np.delete({0}, [], axis={1})"]  # fmt: skip
    if value.ndim >= 2:
        forms += ["np.rot90({0})", "np.tril({0})", "np.triu({0}, 1)", "np.diagonal({0})",
        "np.trace({0})", "np.fliplr({0})", "{0}.mT",
                  "np.rollaxis({0}, 1)", "np.column_stack([{0}, {0}])",
                  "{0}.reshape(-1, {0}.shape[0])", "{0}.swapaxes(0, 1)"]  # fmt: skip
    if value.ndim == 1:
        forms += [
            "np.diag({0})",
            "np.outer({0}, {0})",
            "np.vander({0}, 3)",
            "np.meshgrid({0}, {0})[0]",
            "np.tri(3) @ np.resize({0}, 3)",
        ]
    if s.layouts:
        forms += ["np.ravel({0}, order='F')", "{0}.reshape(-1, order='F')",
        "{0}.flatten(order='F')", "{0}.ravel('K')",
                  "{0}.reshape(-1, order='A')", "np.asfortranarray({0})",
                  "np.copy({0}, order='F')"]  # fmt: skip
    return s.choice(forms).format(x, axis)


def joining(s: Any) -> str | None:
    x = s.array()
    if x is None:
        return None
    y = s.array(like=x) or x
    forms = ["np.stack([{0}, {1}])", "np.stack([{0}, {1}], axis=-1)", "np.hstack([{0}, {1}])",
    "np.concatenate([{0}, {1}], axis=None)",
             "np.concatenate([{0}, {1}])", "np.concatenate([{0}, {1}], axis={2})",
             "np.vstack([{0}, {1}])", "np.dstack([{0}, {1}])",
             "np.append({0}, {1})", "np.block([{0}, {1}])", "np.column_stack([{0}, {1}])",
             "np.broadcast_arrays({0}, {1})[1]"]  # fmt: skip
    return s.choice(forms).format(x, y, s.axis(x))


def sorting(s: Any) -> str | None:
    x = s.array(least=1)
    if x is None:
        return None
    forms = ["np.sort({0}, axis={1})",
    "np.take_along_axis({0}, np.argsort({0}, axis={1}, kind='stable'), axis={1})",
             "np.partition({0}, 0, axis={1}).take(0, axis={1})", "np.median({0}, axis={1})",
             "np.quantile({0}, 0.3)", "np.percentile({0}, 40, axis={1})"]  # fmt: skip
    if not s.smooth:
        forms += ["np.argsort({0}, axis={1}, kind='stable')", "np.argmax({0}, axis={1})",
        "np.argmin({0}, axis={1}, keepdims=True)",
                  "np.searchsorted(np.sort({0}, axis=None), {0})", "np.nanmedian({0})",
                  "np.flatnonzero({0} > 0).sum()",
                  "np.digitize({0}, np.array([-0.5, 0.5]))", "np.unique({0})",
                  "np.count_nonzero({0}, axis={1})", "np.lexsort(({0}, {0}))"]  # fmt: skip
    return s.choice(forms).format(x, s.axis(x))


def algebra(s: Any) -> str | None:
    x = s.array(least=1)
    if x is None:
        return None
    y = s.array(least=1) or x
    forms = ["{0} @ {1}", "np.dot({0}, {1})", "np.matmul({0}, {1})", "np.inner({0}, {1})",
    "np.outer({0}, {1})", "np.vdot({0}, {1})",
             "np.tensordot({0}, {1}, 1)", "np.einsum('...i,...i->...', {0}, {1})",
             "np.einsum('ij,jk->ik', {0}, {1})",
             "np.einsum('i,j->ij', {0}, {1})", "np.einsum('ij->ji', {0})", "np.kron({0}, {1})",
             "{0}.dot({1})", "{0} @ {0}.T",
             "np.linalg.norm({0})", "np.cross({0}, {1})", "np.linalg.norm({0}, axis={2})",
             "np.einsum('ii->i', {0}[:min({0}.shape), :min({0}.shape)])",
             "np.linalg.multi_dot([{0}, {0}.T, {0}])", "np.trace({0})",
             "np.einsum('ij,ij->', {0}, {0})", "np.tensordot({0}, {1}, 0)"]  # fmt: skip
    square = s.array(square=True)
    if square is not None:
        # What is not finite, or too large, would keep LAPACK's svd busy for ever.
        safe = square if s.smooth else f"np.tanh(np.nan_to_num({square}.real))"
        m = f"(0.1 * {safe} + 2.0 * np.eye({square}.shape[-1]))"
        spd = f"({safe} @ {safe}.conj().T * 0.1 + 2.0 * np.eye({square}.shape[-1]))"
        forms += [f"np.linalg.solve({m}, {{0}})", f"np.linalg.inv({m})", f"np.linalg.det({m})",
        f"np.linalg.slogdet({m})[1]",
                  f"np.linalg.cholesky({spd})", f"np.linalg.eigh({spd})[0]",
                  f"np.linalg.matrix_power({safe}, 2)",
                  f"np.linalg.svd({m})[1]", f"np.linalg.pinv({m})", f"np.linalg.qr({m})[1]",
                  f"np.linalg.eigvalsh({spd})",
                  f"np.linalg.norm({m}, 'nuc')"] * 2  # fmt: skip
    return s.choice(forms).format(x, y, s.axis(x))


def indexing(s: Any) -> str | None:
    x = s.array(least=1)
    if x is None:
        return None
    roll = s.random()
    if roll < 0.8:
        return f"{x}[{s.index(x)}]"
    forms = ["np.take({0}, np.array([0, -1]))", "np.take({0}, 0, axis={1})",
    "np.compress([True], {0}, axis={1})", "{0}.take([0, 1])",
             "np.extract({0} > 0, {0})", "{0}.item(0)", "np.nonzero({0} > 0)[0]", "{0}.flat[0]",
             "{0}.flat[::2]", "np.argwhere({0} > 0)",
             "{0}[np.ix_(*[[0]] * {0}.ndim)]", "np.where({0} > 0)[0]",
             "{0}[{0}.argmax(axis=0)] if {0}.ndim == 1 else {0}[0]"]  # fmt: skip
    return s.choice(forms).format(x, s.axis(x))


def with_literal(s: Any) -> str | None:
    """An operation of a value and a Python scalar from the list of literals that change between
    calls.
    """
    x = s.operand()
    if x is None:
        return None
    k = s.literal()
    roll = s.random()
    if roll < 0.6:
        op = s.choice(("+", "-", "*", "/", "**")) if s.smooth else s.choice(OPERATORS)
        return f"{x} {op} {k}" if s.chance(0.7) else f"{k} {op} {x}"
    if roll < 0.8 and not s.smooth:
        name = s.choice(WILD_BINARY)
        return f"np.{name}({x}, {k})" if s.chance(0.7) else f"np.{name}({k}, {x})"
    forms = ["np.where({0} > {1}, {0}, {1})", "np.clip({0}, {1}, 1.5)", "np.full_like({0}, {1})",
    "np.maximum({0}, {1})",
             "np.append({0}, {1})", "{0} * {1} + {1}", "np.add({0}, {1})",
             "np.sum({0}, initial={1})", "np.round({0} * {1}, 3)",
             "np.power({0} * {0} + 1.0, {1})", "np.stack([{0}, np.full_like({0}, {1})])",
             "np.select([{0} > {1}], [{0}], {1})"]  # fmt: skip
    return s.choice(forms).format(x, k)


VIEWS = ("{0}[...]", "{0}[:]", "{0}.T", "{0}.reshape(-1)", "{0}.ravel()", "{0}[None]",
"{0}[..., None]", "{0}.view()", "{0}.real",
         "{0}.swapaxes(0, -1)", "np.squeeze({0})", "np.atleast_2d({0})", "np.asarray({0})",
         "{0}[::-1]", "{0}[::2]", "{0}[1:]",
         "{0}[:-1]", "{0}[0]", "{0}[-1:]", "np.transpose({0})", "np.moveaxis({0}, 0, -1)",
         "np.flip({0})", "np.diagonal({0})",
         "np.expand_dims({0}, 0)", "{0}[..., 0]", "{0}[:, 0]", "{0}[0, 1:]", "np.rot90({0})",
         "np.ravel({0})", "{0}.imag",
         "np.split({0}, {0}.shape[0])[0]", "{0}[()]", "{0}[0, ...]",
         "np.reshape({0}, {0}.shape[::-1])", "{0}.squeeze()", "{0}",
         "np.broadcast_to({0}, (2, *{0}.shape))", "np.atleast_1d({0})", "{0}.reshape(1, -1)",
         "{0}.mT", "np.flip({0}, 0)",
         "np.broadcast_arrays({0}, {0})[0]", "np.rollaxis({0}, -1)", "np.real({0})",
         "np.ascontiguousarray({0})", "{0}[0:0]",
         "{0}.transpose()", "{0}.diagonal()", "np.array_split({0}, 2)[0]",
         "np.swapaxes({0}, 0, 1)", "{0}.flatten()", "{0}.copy()",
         "np.einsum('ij->ji', {0})", "np.einsum('ii->i', {0}[:min({0}.shape), :min({0}.shape)])",
         "list({0})[0]", "{0}[np.newaxis, ...]", "np.hsplit({0}, 1)[0]",
         "{0}[{0} > 0]", "{0}[[0]]", "np.meshgrid({0}, {0}, copy=False)[0]", "np.triu({0})",
         "np.array({0}, copy=False)",
         "np.array({0})", "np.unstack({0})[0]", "np.permute_dims({0})", "np.linalg.diagonal({0})",
         "np.lib.stride_tricks.sliding_window_view({0}, 1)")  # fmt: skip


def viewing(s: Any) -> str | None:
    x = s.array(least=1 if s.avoids("scalars") else 0)
    return None if x is None else s.choice(VIEWS).format(x)


IN_PLACE = ("+=", "-=", "*=", "/=", "**=", "//=", "%=", "+=", "*=", "-=", "&=", "|=", "@=", "<<=")
SMOOTH_IN_PLACE = ("+=", "-=", "*=", "/=", "+=", "*=", "-=")


def writing(s: Any) -> str | None:
    """A write into a value, or into a part of it."""
    x = s.array(least=0 if s.chance(0.1) else 1)
    if x is None:
        return None
    op = s.choice(SMOOTH_IN_PLACE if s.smooth else IN_PLACE)
    y = s.partner(x)
    if y is None:
        return None
    if s.smooth and op == "/=":
        y = f"(2.0 + np.sin({y}))"
    elif s.smooth and s.chance(0.5):
        y = f"np.sin({y})"
    roll = s.random()
    if roll < 0.3 and s.is_local(x):
        return f"{x} {op} {y}"
    index = s.index(x) if s.value(x).ndim else "..."
    part = s.fitting(f"{x}[{index}]")
    if roll < 0.6:
        return f"{x}[{index}] = {part}"
    if roll < 0.75:
        return f"{x}[{index}] {op} {part}"
    forms = ["np.copyto({0}, {1})", "np.add({0}, {1}, out={0})", "np.multiply({1}, {0}, out={0})",
    "np.sin({0}, out={0})", "{0}.fill({2})",
             "{0}.sort()", "{0}.sort(axis=0)", "np.add.at({0}, [0, 0], 1.5)",
             "np.put({0}, [0, -1], {2})", "np.putmask({0}, {0} > 0, {1})",
             "np.place({0}, {0} > 0, [0.5, 1.5])", "np.fill_diagonal({0}, {2})",
             "{0}.flat[0] = {2}", "{0}.flat[::2] = 0.5",
             "{0}.T[...] = {1}", "{0}.real = {1}", "{0}.imag = 0.5", "{0}.T[0] += 1.0",
             "np.copyto({0}, {1}, where={0} > 0)",
             "{0}.reshape(-1)[0] = {2}", "{0}.ravel()[-1:] *= 2.0", "{0}[::-1] += {0}",
             "{0}[1:] = {0}[:-1]", "{0}[:-1] -= {0}[1:]",
             "np.maximum({0}, {1}, out={0})",
             "np.put_along_axis({0}, np.argmax({0}, axis=0, keepdims=True), 0.5, axis=0)",
             "np.clip({0}, -0.5, 0.5, out={0})", "{0}[{0} > 0.2] *= 2.0",
             "np.subtract.at({0}, 0, {2})", "{0}.put(0, {2})",
             "np.cumsum({0}, axis=0, out={0})", "np.tanh({0}, out={0}, where={0} > 0)",
             "{0}[[0, 0]] += 1.0",
             "{0}.itemset(0)" if s.chance(0.01) else "{0}[...] = {2}",
             "np.sum({0}, axis=0, out={0}[0])", "np.negative({0}, {0})",
             "np.matmul({0}, {0}, out={0})", "{0}.resize(3)",
             "np.random.default_rng(0).shuffle({0})",
             "{0}.shape = (-1,)", "np.dot({0}, {0}, out={0})",
             "np.concatenate([{0}, {0}], out=np.zeros_like(np.concatenate([{0}, {0}])))",
             "{0}.byteswap(True)", "{0}.setflags(write=False)", "np.nan_to_num({0}, copy=False)",
             "np.take({0}, [0], axis=0, out={0}[:1])",
             "np.round({0}, 1, out={0})", "{0}.clip(-0.5, 0.5, {0})",
             "np.multiply.at({0}, ([0, 0],), 2.0)"]  # fmt: skip
    return s.choice(forms).format(x, y, s.literal("number"))


EXPRESSIONS: dict[str, Maker] = {
    "unary": unary, "binary": binary, "choosing": choosing, "reduction": reduction,
    "scanning": scanning, "shaping": shaping,
    "joining": joining, "sorting": sorting, "algebra": algebra, "indexing": indexing,
    "literal": with_literal, "viewing": viewing,
}  # fmt: skip

INDICES_1D = ("0", "-1", "1:", ":-1", "::2", "::-1", "...", "None", ":0", "[0, -1]", "[0, 0]",
"np.array([0, -1])", "1", "2:0:-1",
              "np.array([True])", "0, ...", "..., 0", "()", "-1:", "..., None", "np.int64(0)",
              "[True]", "[]", "slice(0, 1)",
              "np.array(0)", "..., 0:1", "np.array([[0], [0]])", "True")  # fmt: skip
INDICES_2D = ("0, 0", "0, 1:", ":, 0", "1:, :-1", "..., 0", "::-1, ::2", ":, None, 0",
"[0, 0], [0, -1]", ":, [0, 0]", "0, [0, -1]",
              "None, ..., 0", "[0], :", "np.array([0, -1]), 0", ":, ::-1", "..., 1:",
              "np.ix_([0], [0, -1])", "-1, -1:",
              "[[0], [0]], [0, -1]", ":, np.array([0])", "[0], None, [0]", ":, -1:, None",
              "[0], ..., [0]")  # fmt: skip
INDICES_3D = ("0, 0, 0", "0, :, 0", ":, 0", "..., 0, :", "[0], :, [0]", "0, [0], :", ":, [0], [0]",
"[0], 0, :", "0, ..., [0]",
              ":, :, -1", "0, 0", "[0, 0], :, 0", "::2, ..., ::-1",
              "None, 0, ..., None")  # fmt: skip


def index_of(s: Any, name: str) -> str:
    """Draw an index that may fit the value of a name."""
    value = np.asarray(s.value(name))
    if s.chance(0.15) and value.size and value.dtype.kind in "fiub":
        return f"{name} > {s.choice(('0', '0.2', '-0.5'))}"
    pool = (
        INDICES_1D
        if value.ndim < 2 or s.chance(0.3)
        else INDICES_2D
        if value.ndim == 2 or s.chance(0.4)
        else INDICES_3D
    )
    return s.choice(pool)
