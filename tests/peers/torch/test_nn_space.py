"""Convolutions, pooling, resampling and padding: random calls, and refusals, against PyTorch.

Of each call, values, dtypes, the node's name, gradients and the gradients of gradients are compared;
of refusals, the class and the message (of a `TypeError` only the class).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
CALLS = 40
"""Random calls of one family with one seed."""

Made = tuple[str, dict[str, Any], int]
"""An expression, the arrays that it names, and the order of derivatives that PyTorch has."""


def derivatives(lib: ModuleType, made: Made, dtype: str, seed: int) -> list[tuple[str, Any]]:
    """Evaluate an expression; returns the value, the name of its node and the gradients."""
    expression, arrays, order = made
    rng = np.random.default_rng(seed)
    leaves = {name: lib.tensor(a.astype(dtype), requires_grad=True) for name, a in arrays.items()}
    y = eval(expression, {"F": lib.nn.functional, "torch": lib, **leaves})
    found: list[tuple[str, Any]] = []
    if isinstance(y, tuple):
        y, positions = y
        found.append(("positions", positions.detach().numpy()))
    found += [("value", y.detach().numpy()), ("node", type(y.grad_fn).__name__)]
    wrt = list(leaves.values())
    ct = lib.tensor(rng.normal(size=tuple(y.shape)).astype(dtype), requires_grad=True)
    first = lib.autograd.grad(y, wrt, ct, create_graph=order > 1, allow_unused=True)
    found += [("gradient", None if g is None else g.detach().numpy()) for g in first]
    total: Any = 0.0
    for g in first if order > 1 else ():
        if g is not None and g.requires_grad:
            weights = lib.tensor(rng.normal(size=tuple(g.shape)).astype(dtype))
            total = total + (g * weights).sum()
    if not isinstance(total, float):
        second = lib.autograd.grad(total, [*wrt, ct], allow_unused=True)
        found += [("second", None if g is None else g.detach().numpy()) for g in second]
    return found


def difference(made: Made, dtype: str, seed: int) -> str:
    """Return how the shim differs from PyTorch; empty if it does not."""
    outcomes: list[Any] = []
    for lib in (torch, SHIM):
        try:
            outcomes.append(derivatives(lib, made, dtype, seed))
        except Exception as error:
            outcomes.append(error)
    expected, found = outcomes
    if isinstance(expected, Exception) or isinstance(found, Exception):
        same = isinstance(expected, Exception) and is_same_refusal(expected, found)
        return "" if same else f"{expected!r:.200}, here {found!r:.200}"
    tolerance = 1e-9 if dtype == "float64" else 3e-4
    for (what, a), (_, b) in zip(expected, found, strict=True):
        if isinstance(a, str):
            same = a == b
        elif a is None or b is None:
            same = not np.any(b if a is None else a)
        else:
            same = a.dtype == b.dtype and a.shape == b.shape
            same = same and np.allclose(a, b, tolerance, tolerance)
        if not same:
            return f"{what}: {a!r:.200}, here {b!r:.200}"
    return ""


def is_same_refusal(expected: Exception, found: object) -> bool:
    if isinstance(expected, TypeError):  # these list signatures
        return isinstance(found, TypeError)
    return type(found) is type(expected) and first_line(found) == first_line(expected)


def first_line(error: object) -> str:
    return str(error).partition("\n")[0].replace("functrace.torch", "torch")


# -- random calls ----------------------------------------------------------------------------------


class Draws:
    """Random arguments."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)
        self.numbers = np.random.default_rng(self.rng.randrange(1 << 32))
        self.choice, self.randint = self.rng.choice, self.rng.randint

    def normal(self, *shape: int) -> Any:
        return self.numbers.normal(size=shape)

    def often(self, share: float) -> bool:
        return self.rng.random() < share

    def each(self, axes: int, options: list[int]) -> Any:
        """One number, or one for each axis."""
        if self.often(0.5):
            return self.choice(options)
        return tuple(self.choice(options) for _ in range(axes))

    def sizes(self, axes: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.randint(low, high) for _ in range(axes))


def convolution(d: Draws) -> Made:
    axes, groups = d.choice([1, 2, 2, 3]), d.choice([1, 1, 2, 3])
    channels, per = d.choice([1, 2, 3]), d.choice([1, 2, 4])
    kernel, sizes = d.sizes(axes, 1, 4), d.sizes(axes, 3, 8)
    stride, dilation = d.each(axes, [1, 1, 2, 3]), d.each(axes, [1, 1, 2])
    padding = d.each(axes, [0, 1, 2])
    batch = [d.randint(1, 3)] if d.often(0.8) else []
    arrays = {"x": d.normal(*batch, groups * channels, *sizes)}
    bias = d.often(0.5)
    if d.often(0.4):
        arrays["w"] = d.normal(groups * channels, per, *kernel)
        more = d.each(axes, [0, 0, 1])
        rest = f"{stride}, {padding}, {more}, {groups}, {dilation}"
        name = f"conv_transpose{axes}d"
    else:
        if d.often(0.2):
            padding = d.choice(["'same'", "'valid'"])
        arrays["w"] = d.normal(groups * per, channels, *kernel)
        rest = f"{stride}, {padding}, {dilation}, {groups}"
        name = f"conv{axes}d"
    if bias:
        arrays["b"] = d.normal(groups * per)
    return f"F.{name}(x, w, {'b' if bias else None}, {rest})", arrays, 2


def convolution_in_time(d: Draws) -> Made:
    c, o = d.randint(1, 3), d.randint(1, 3)
    arrays = {
        "x": d.normal(d.randint(3, 6), 2, c),
        "w": d.normal(d.randint(1, 3), c, o),
        "b": d.normal(o),
    }
    return f"F.conv_tbc(x, w, b, {d.randint(0, 2)})", arrays, 2


def pooling(d: Draws) -> Made:
    axes, lead = d.choice([1, 2, 2, 3]), d.choice([1, 2, 2])
    sizes = d.sizes(axes, 3, 8)
    x = d.normal(*d.sizes(lead, 1, 3), *sizes)
    if d.often(0.2):
        x = np.round(x)
    kind = d.choice(["max", "avg", "adaptive_max", "adaptive_avg", "lp", "unpool"])
    kernel = d.each(axes, [1, 2, 3])
    stride = None if d.often(0.5) else d.each(axes, [1, 2, 3])
    padding, ceil = d.each(axes, [0, 0, 1]), d.often(0.4)
    if kind == "max":
        rest = f"{padding}, {d.each(axes, [1, 1, 2])}, {ceil}, {d.often(0.5)}"
        return f"F.max_pool{axes}d(x, {kernel}, {stride}, {rest})", {"x": x}, 2
    if kind == "avg":
        divisor = f", {d.choice([None, 3])}" if axes > 1 else ""
        rest = f"{padding}, {ceil}, {d.often(0.5)}{divisor}"
        return f"F.avg_pool{axes}d(x, {kernel}, {stride}, {rest})", {"x": x}, 2
    if kind == "adaptive_max":
        return f"F.adaptive_max_pool{axes}d(x, {d.each(axes, [1, 2, 3, 5, 9])})", {"x": x}, 2
    if kind == "adaptive_avg":
        return f"F.adaptive_avg_pool{axes}d(x, {d.each(axes, [1, 1, 2, 3, 5])})", {"x": x}, 2
    if kind == "lp":
        kernel = kernel if isinstance(kernel, int) or axes > 1 else kernel[0]
        rest = f"{d.choice([1, 2, 2.5])}, {kernel}, {stride}, {ceil}"
        return f"F.lp_pool{axes}d(x.abs() + 0.5, {rest})", {"x": x}, 2
    pool = f"F.max_pool{axes}d(x, {kernel}, {stride}, {padding}, return_indices=True)"
    rest = f"{kernel}, {stride}, {padding}, output_size={sizes}"
    return f"F.max_unpool{axes}d(*{pool}, {rest})", {"x": x}, 2


def fractional_pooling(d: Draws) -> Made:
    axes, batch = d.choice([2, 2, 3]), d.choice([0, 1, 2])
    sizes, kernel = d.sizes(axes, 4, 8), d.sizes(axes, 1, 3)
    counts = tuple(d.randint(1, n - k) for n, k in zip(sizes, kernel, strict=True))
    x = d.normal(*([batch] if batch else []), 2, *sizes)
    samples = d.numbers.uniform(size=(batch or 1, 2, axes))
    call = f"F.fractional_max_pool{axes}d(x, {kernel}, {counts}, None, True, u.detach())"
    return call, {"x": x, "u": samples}, 2


MODES = {
    1: ["nearest", "nearest-exact", "linear", "area"],
    2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
    3: ["nearest", "nearest-exact", "trilinear", "area"],
}


def interpolation(d: Draws) -> Made:
    axes = d.choice([1, 2, 2, 2, 3])
    mode = d.choice(MODES[axes])
    x = d.normal(d.randint(1, 2), d.randint(1, 3), *d.sizes(axes, 2, 7))
    aligns = mode in ("linear", "bilinear", "bicubic", "trilinear")
    corners = d.choice([None, True, False]) if aligns else None
    # PyTorch's antialiased images are wrong where they become one column wide.
    smooths = mode in ("bilinear", "bicubic") and d.often(0.4)
    if d.often(0.5):
        size = f"size={d.sizes(axes, 2, 11)}"
    else:
        factor = d.choice([2, 1.5, 0.7, 3.3, 0.9, 1.0])
        each_ = tuple(d.choice([2.0, 1.5, 0.6, 3.1]) for _ in range(axes))
        size = f"scale_factor={factor if d.often(0.6) else each_}, "
        size += f"recompute_scale_factor={d.choice([None, True, False])}"
        smooths = smooths and min(x.shape[2:]) > 3
    rest = f"mode={mode!r}, align_corners={corners}, antialias={smooths}"
    return f"F.interpolate(x, {size}, {rest})", {"x": x}, 2


def grid_sampling(d: Draws) -> Made:
    axes = d.choice([2, 2, 3])
    mode = d.choice(["bilinear", "nearest", *(["bicubic"] if axes == 2 else [])])
    x = d.normal(2, d.randint(1, 3), *d.sizes(axes, 1, 6))
    reach = d.choice([0.9, 1.3, 3.0])
    grid = d.numbers.uniform(-reach, reach, (2, *d.sizes(axes, 1, 4), axes))
    if d.often(0.2):
        grid = np.round(grid)
    rest = f"{mode!r}, {d.choice(['zeros', 'border', 'reflection'])!r}, {d.often(0.5)}"
    return f"F.grid_sample(x, g, {rest})", {"x": x, "g": grid}, 1


def affine_grids(d: Draws) -> Made:
    axes = d.choice([2, 3])
    size = (2, 3, *d.sizes(axes, 1, 5))
    return f"F.affine_grid(t, {size}, {d.often(0.5)})", {"t": d.normal(2, axes, axes + 1)}, 2


def shuffling(d: Draws) -> Made:
    r = d.choice([1, 2, 3])
    x = d.normal(2, r * r * d.randint(1, 2), r * d.randint(1, 2), r * d.randint(1, 3))
    name = d.choice(["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
    return f"F.{name}(x, {r})", {"x": x}, 2


def columns(d: Draws) -> Made:
    kernel, dilation = d.sizes(2, 1, 3), d.sizes(2, 1, 2)
    padding, stride, sizes = d.sizes(2, 0, 1), d.sizes(2, 1, 3), d.sizes(2, 5, 7)
    batch = [2] if d.often(0.7) else []
    rest = f"{kernel}, {dilation}, {padding}, {stride}"
    if d.often(0.5):
        return f"F.unfold(x, {rest})", {"x": d.normal(*batch, d.randint(1, 3), *sizes)}, 2
    count = 1
    for n, k, e, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True):
        count *= (n + 2 * p - e * (k - 1) - 1) // s + 1
    x = d.normal(*batch, d.randint(1, 3) * kernel[0] * kernel[1], count)
    return f"F.fold(x, {sizes}, {rest})", {"x": x}, 2


def padding(d: Draws) -> Made:
    mode = d.choice(["constant", "constant", "reflect", "replicate", "circular"])
    axes = d.choice([1, 2, 3])
    lead = d.choice([0, 1, 2]) if mode == "constant" else d.choice([1, 2])
    # With other modes, PyTorch reads memory without values where padding is negative.
    least = -1 if mode == "constant" else 0
    x = d.normal(*d.sizes(axes + lead, 2, 5))
    pad = tuple(d.randint(least, 3) for _ in range(2 * axes))
    value = ", 2.5" if mode == "constant" and d.often(0.5) else ""
    return f"F.pad(x, {pad}, {mode!r}{value})", {"x": x}, 2


FAMILIES: list[Callable[[Draws], Made]] = [
    convolution,
    convolution_in_time,
    pooling,
    fractional_pooling,
    interpolation,
    grid_sampling,
    affine_grids,
    shuffling,
    columns,
    padding,
]


def cases() -> Iterator[Any]:
    for family in FAMILIES:
        for seed in range(4):
            yield pytest.param(family, seed, id=f"{family.__name__}-{seed}")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("family", "seed"), list(cases()))
def test_random_calls_are_as_in_pytorch(family: Callable[[Draws], Made], seed: int) -> None:
    draws = Draws(f"{family.__name__}:{seed}")
    wrong: list[str] = []
    for k in range(CALLS):
        made = family(draws)
        dtype = draws.choice(["float64", "float64", "float32"])
        found = difference(made, dtype, k)
        if found:
            shapes = {name: a.shape for name, a in made[1].items()}
            wrong.append(f"{made[0]} of {shapes}, {dtype}: {found}")
    assert not wrong, "\n".join(wrong)


# -- one call each ---------------------------------------------------------------------------------

REFUSALS = """
F.conv2d(T(2,3,9,9),T(4,2,3,3))
F.conv2d(T(2,3,9,9),T(4,3,3))
F.conv2d(T(2,9),T(4,3,3,3))
F.conv2d(T(9),T(4,3,3,3))
F.conv1d(T(2,3,9,9),T(4,3,3))
F.conv2d(T(2,3,2,2),T(4,3,3,3))
F.conv2d(T(2,3,9,9),T(4,3,3,3),T(5))
F.conv2d(T(2,3,9,9),T(4,3,3,3),stride=0)
F.conv2d(T(2,3,9,9),T(4,3,3,3),stride=-1)
F.conv2d(T(2,3,9,9),T(4,3,3,3),padding=-1)
F.conv2d(T(2,3,9,9),T(4,3,3,3),dilation=0)
F.conv2d(T(2,3,9,9),T(4,3,3,3),groups=0)
F.conv2d(T(2,3,9,9),T(4,3,3,3),groups=2)
F.conv2d(T(2,4,9,9),T(3,2,3,3),groups=2)
F.conv2d(T(2,3,9,9),T(4,3,3,3),stride=(1,1,1))
F.conv2d(T(2,3,9,9),T(4,3,3,3),stride=(2,))
F.conv2d(T(2,3,9,9),T(4,3,3,3),padding="full")
F.conv2d(T(2,3,9,9),T(4,3,3,3),padding="same",stride=2)
F.conv2d(T(2,3,9,9),T(4,3,3,3,dt="float32"))
F.conv2d(T(2,3,9,9,dt="float32"),T(4,3,3,3))
F.conv2d(T(2,3,9,9,dt="float32"),T(4,3,3,3,dt="float32"),T(4))
F.conv2d(T(2,3,9,9,dt="int64"),T(4,3,3,3,dt="int64"))
F.conv2d(T(2,3,9,9,dt="int32"),T(4,3,3,3,dt="int32"))
F.conv2d(T(2,3,9,9,dt="bool"),T(4,3,3,3,dt="bool"))
F.conv2d(T(2,3,9,9,dt="float16"),T(4,3,3,3,dt="float16"))
F.conv2d(T(2,3,9,9,dt="complex64"),T(4,3,3,3,dt="complex64"))
F.conv1d(T(2,3,9,dt="int64"),T(4,3,3,dt="int64"))
F.conv3d(T(2,3,9,9,9,dt="int64"),T(4,3,3,3,3,dt="int64"))
F.conv_transpose2d(T(2,3,9,9,dt="int64"),T(3,4,3,3,dt="int64"))
F.conv2d(T(0,3,9,9),T(4,3,3,3))
F.conv2d(T(2,3,0,9),T(4,3,3,3),padding=2)
F.conv2d(T(2,3,9,9),T(0,3,3,3))
F.conv2d(T(2,3,9,9),[1])
F.conv2d(T(2,3,9,9),T(4,3,3,3),stride=1.5)
F.conv2d(T(2,3,9,9),T(4,3,3,3),stride="a")
F.conv2d(T(2,3,9,9),T(4,3,3,3),foo=1)
F.conv2d(input=T(2,3,9,9),weight=T(4,3,3,3))
F.conv_transpose2d(T(2,3,9,9),T(4,3,3,3))
F.conv_transpose2d(T(2,3,9,9),T(3,4,3,3),output_padding=1)
F.conv_transpose2d(T(2,3,9,9),T(3,4,3,3),output_padding=1,stride=2)
F.conv_transpose2d(T(2,3,9,9),T(3,4,3,3),output_padding=1,dilation=2)
F.conv_transpose2d(T(2,3,9,9),T(3,4,3,3),output_padding=2,stride=2)
F.conv_transpose2d(T(2,3,9,9),T(3,4,3,3),padding=20)
F.conv_transpose2d(T(2,3,9,9),T(3,4,3,3),T(3))
F.conv_transpose2d(T(2,4,9,9),T(4,3,3,3),groups=3)
F.conv_transpose2d(T(3,9,9),T(3,4,3,3))
F.conv_transpose2d(T(2,3,9,9),T(3,4,3,3),None,1,0,0,1,(1,1))
F.conv_tbc(T(9,2,3),T(3,4,4),T(4))
F.conv_tbc(T(9,2,3),T(3,3,4),T(5))
F.conv_tbc(T(9,2),T(3,3,4),T(5))
torch.conv2d(T(2,3,9,9),T(4,3,3,3),None,1,"same")
torch.conv1d(T(2,3,9),T(4,3,3))
torch.conv_transpose2d(T(2,3,9,9),T(3,4,3,3))
torch.conv_tbc(T(9,2,3),T(3,3,4),T(4),1)
F.max_pool2d(T(2,9),2)
F.max_pool2d(T(2,3,9,9,9),2)
F.max_pool2d(T(2,3,9,9),2,padding=2)
F.max_pool2d(T(2,3,9,9),2,padding=-1)
F.max_pool2d(T(2,3,9,9),2,stride=0)
F.max_pool2d(T(2,3,9,9),0)
F.max_pool2d(T(2,3,9,9),2,dilation=0)
F.max_pool2d(T(2,3,1,1),2)
F.max_pool2d(T(2,3,0,4),2)
F.max_pool2d(T(0,3,4,4),2)
F.max_pool2d(T(2,0,4,4),2)
F.max_pool2d(T(2,3,9,9),(2,2,2))
F.max_pool2d(T(2,3,9,9),2,stride=(1,1,1))
F.max_pool2d(T(2,3,9,9,dt="int64"),2)
F.max_pool2d(T(2,3,9,9,dt="int32"),2,return_indices=True)
F.max_pool2d(T(2,3,9,9,dt="bool"),2)
F.max_pool2d(T(2,3,9,9,dt="uint8"),2)
F.max_pool2d(T(2,3,9,9,dt="complex64"),2)
F.max_pool2d(T(2,3,9,9,dt="float16"),2)
F.max_pool1d(T(2,9),2)
F.max_pool1d(T(9),2)
F.max_pool1d(T(2,3,9,9),2)
F.max_pool1d(T(2,3,9),2,padding=2)
F.max_pool1d(T(2,3,9),2,stride=0)
F.max_pool1d(T(2,3,9),0)
F.max_pool1d(T(2,3,9,g=True),2,padding=2)
F.max_pool1d(T(2,3,9,g=True),2,stride=0)
F.max_pool1d(T(2,3,1),2)
F.max_pool1d(T(2,3,9),2,dilation=0)
F.max_pool1d(T(2,3,9,g=True),2,dilation=0)
F.max_pool1d(T(2,3,9,g=True),0)
F.max_pool1d(T(2,3,1,g=True),2)
F.max_pool1d(T(2,3,9,dt="int64"),2)
F.max_pool1d(T(2,3,9),2,ceil_mode=True)
F.max_pool1d(T(2,3,9),(2,))
F.max_pool3d(T(2,3,9),2)
F.max_pool3d(T(2,3,9,9,9),2,padding=2)
F.max_pool3d(T(2,3,1,9,9),2)
F.max_pool3d(T(2,3,9,9,9,dt="int64"),2)
F.max_pool2d(T(2,3,9,9),2,return_indices=True)
F.max_pool2d_with_indices(T(2,3,9,9),2)
torch.max_pool2d(T(2,3,9,9),2)
torch.max_pool1d_with_indices(T(2,3,9),2)
torch.max_pool1d(T(2,3,9),2)
torch.max_pool3d(T(2,3,9,9,9),2)
F.avg_pool2d(T(2,9),2)
F.avg_pool2d(T(2,3,9,9),2,padding=2)
F.avg_pool2d(T(2,3,9,9),2,stride=0)
F.avg_pool2d(T(2,3,9,9),0)
F.avg_pool2d(T(2,3,1,1),2)
F.avg_pool2d(T(2,3,9,9),2,divisor_override=0)
F.avg_pool2d(T(2,3,9,9,dt="int64"),2)
F.avg_pool2d(T(2,3,9,9,dt="int32"),2)
F.avg_pool2d(T(2,3,9,9,dt="bool"),2)
F.avg_pool2d(T(2,3,9,9,dt="complex64"),2)
F.avg_pool2d(T(0,3,9,9),2)
F.avg_pool2d(T(2,0,9,9),2)
F.avg_pool2d(T(2,3,9,9),(2,2,2))
F.avg_pool1d(T(2,9),2)
F.avg_pool1d(T(9),2)
F.avg_pool1d(T(2,3,9),2,padding=2)
F.avg_pool1d(T(2,3,9),2,stride=0)
F.avg_pool1d(T(2,3,9),0)
F.avg_pool1d(T(2,3,9,dt="int64"),2)
F.avg_pool1d(T(2,3,1),2)
F.avg_pool3d(T(2,3,9),2)
F.avg_pool3d(T(2,3,9,9,9),2,padding=2)
F.avg_pool3d(T(2,3,9,9,9),2,divisor_override=0)
F.avg_pool3d(T(2,3,1,9,9),2)
F.avg_pool3d(T(2,3,9,9,9,dt="int64"),2)
F.adaptive_avg_pool2d(T(2,3,9,9),(2,2,2))
F.adaptive_avg_pool2d(T(2,3,9,9),(None,2))
F.adaptive_avg_pool2d(T(9,9),2)
F.adaptive_avg_pool2d(T(2,3,0,9),2)
F.adaptive_avg_pool2d(T(0,3,9,9),2)
F.adaptive_avg_pool2d(T(2,3,9,9,dt="int64"),2)
F.adaptive_avg_pool2d(T(2,3,9,9),-1)
F.adaptive_avg_pool2d(T(2,3,9,9),0)
F.adaptive_avg_pool1d(T(9),2)
F.adaptive_avg_pool1d(T(2,9),2)
F.adaptive_avg_pool3d(T(2,9),2)
F.adaptive_avg_pool3d(T(2,3,9,9,9,dt="int64"),2)
F.adaptive_max_pool2d(T(2,3,9,9),(2,2,2))
F.adaptive_max_pool2d(T(2,3,9,9),(None,2))
F.adaptive_max_pool2d(T(9,9),2)
F.adaptive_max_pool2d(T(2,3,0,9),2)
F.adaptive_max_pool2d(T(2,3,9,9,dt="int64"),2)
F.adaptive_max_pool1d(T(9),2)
F.adaptive_max_pool1d(T(2,3,9),2,return_indices=True)
F.adaptive_max_pool1d(T(2,9),2)
F.adaptive_max_pool3d(T(2,9),2)
F.adaptive_max_pool3d(T(2,3,9,9,9,dt="int64"),2)
F.lp_pool2d(T(2,3,9,9),2,2,stride=1)
F.lp_pool2d(T(2,3,9,9),2,(2,3),ceil_mode=True)
F.lp_pool1d(T(2,3,9),2,2,ceil_mode=True)
F.lp_pool1d(T(2,3,9),float("inf"),2)
F.lp_pool2d(T(2,3,9,9,dt="int64"),2,2)
F.max_unpool2d(T(2,3,4,4),torch.zeros(2,3,4,4,dtype=torch.int64),2)
F.max_unpool2d(T(2,3,4,4),torch.full((2,3,4,4),64),2)
F.max_unpool2d(T(2,3,4,4),torch.full((2,3,4,4),-1),2)
F.max_unpool2d(T(2,3,4,4),torch.zeros(2,3,4,4,dtype=torch.int32),2)
F.max_unpool2d(T(2,3,4,4),torch.zeros(2,3,4,3,dtype=torch.int64),2)
F.max_unpool2d(T(4,4),torch.zeros(4,4,dtype=torch.int64),2)
F.max_unpool2d(T(2,3,4,4),torch.zeros(2,3,4,4,dtype=torch.int64),2,output_size=(9,9))
F.max_unpool2d(T(2,3,4,4),torch.zeros(2,3,4,4,dtype=torch.int64),2,output_size=(2,3,9,9))
F.max_unpool2d(T(2,3,4,4),torch.zeros(2,3,4,4,dtype=torch.int64),2,output_size=(10,10))
F.max_unpool2d(T(2,3,4,4),torch.zeros(2,3,4,4,dtype=torch.int64),2,output_size=(9,9,9))
F.max_unpool1d(T(2,3,4),torch.zeros(2,3,4,dtype=torch.int64),2,output_size=(9,))
F.max_unpool1d(T(2,3,4),torch.zeros(2,3,4,dtype=torch.int64),2,output_size=(12,))
F.max_unpool1d(T(3,4),torch.zeros(3,4,dtype=torch.int64),2,stride=1)
F.max_unpool1d(T(2,3,4),torch.full((2,3,4),9),2)
F.max_unpool3d(T(2,3,4,4,4),torch.zeros(2,3,4,4,4,dtype=torch.int64),2)
F.max_unpool3d(T(2,3,4,4,4),torch.full((2,3,4,4,4),10**4),2)
F.max_unpool3d(T(3,4,4,4),torch.zeros(3,4,4,4,dtype=torch.int64),2)
F.max_unpool3d(T(2,3,4,4,4),torch.zeros(2,3,4,4,3,dtype=torch.int64),2)
F.fractional_max_pool2d(T(2,3,9,9),2,output_size=4,_random_samples=T(2,3,2)*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,output_ratio=0.5,_random_samples=T(2,3,2)*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,output_ratio=1.5,_random_samples=T(2,3,2)*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,_random_samples=T(2,3,2)*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,output_size=9,_random_samples=T(2,3,2)*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,output_size=4,_random_samples=T(2,2,2)*0.5)
F.fractional_max_pool2d(T(3,9,9),2,output_size=4,_random_samples=T(1,3,2)*0.5)
F.fractional_max_pool2d(T(9,9),2,output_size=4,_random_samples=T(1,3,2)*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,output_size=4,_random_samples=T(2,3,2,dt="float32")*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,output_size=4,return_indices=True,_random_samples=T(2,3,2)*0.5)
F.fractional_max_pool2d(T(2,3,9,9),2,output_size=4,output_ratio=.5,_random_samples=T(2,3,2)*0.5)
F.fractional_max_pool3d(T(2,3,9,9,9),2,output_size=4,_random_samples=T(2,3,3)*0.5)
F.fractional_max_pool3d(T(3,9,9,9),2,output_ratio=.5,_random_samples=T(1,3,3)*0.5)
F.unfold(T(2,3,9),2)
F.unfold(T(9,9),2)
F.unfold(T(2,3,9,9),10)
F.unfold(T(2,3,9,9),2,stride=0)
F.unfold(T(2,3,9,9),0)
F.unfold(T(2,3,9,9),2,dilation=0)
F.unfold(T(2,3,9,9),2,padding=-1)
F.unfold(T(2,3,9,9),(2,2,2))
F.unfold(T(2,3,9,9,dt="int64"),2)
F.unfold(T(2,3,9,9,dt="bool"),2)
F.unfold(T(0,3,9,9),2)
F.unfold(T(2,0,9,9),2)
F.unfold(T(2,3,9,9),2,padding=1,stride=(2,1))
F.fold(T(2,12,64),(9,9),2)
F.fold(T(2,12,60),(9,9),2)
F.fold(T(2,13,64),(9,9),2)
F.fold(T(12,64),(9,9),2)
F.fold(T(2,3,12,64),(9,9),2)
F.fold(T(2,12,64),(9,9),2,stride=0)
F.fold(T(2,12,64),9,2)
F.fold(T(2,12,64),(1,1),2)
F.fold(T(2,12,64,dt="int64"),(9,9),2)
F.fold(T(2,12,64,dt="bool"),(9,9),2)
F.interpolate(T(2,3,9),2)
F.interpolate(T(2,3,9))
F.interpolate(T(2,3,9),2,2)
F.interpolate(T(2,3,9),(2,2))
F.interpolate(T(2,3,9),scale_factor=(2,2))
F.interpolate(T(2,9),2)
F.interpolate(T(2,3,9),2,mode="bilinear")
F.interpolate(T(2,3,9,9),2,mode="linear")
F.interpolate(T(2,3,9,9),2,mode="trilinear")
F.interpolate(T(2,3,9),2,mode="bicubic")
F.interpolate(T(2,3,9,9,9),2,mode="bicubic")
F.interpolate(T(2,3,9,9),2,mode="foo")
F.interpolate(T(2,3,9,9),2,align_corners=True)
F.interpolate(T(2,3,9,9),2,align_corners=False)
F.interpolate(T(2,3,9,9),scale_factor=2,mode="area",align_corners=False)
F.interpolate(T(2,3,9,9),0)
F.interpolate(T(2,3,9,9),-1)
F.interpolate(T(2,3,9,9),scale_factor=0.01)
F.interpolate(T(2,3,0,9),2)
F.interpolate(T(0,3,9,9),2)
F.interpolate(T(2,0,9,9),2)
F.interpolate(T(2,3,9,9,dt="int64"),2)
F.interpolate(T(2,3,9,9,dt="uint8"),2)
F.interpolate(T(2,3,9,9,dt="bool"),2)
F.interpolate(T(2,3,9,9,dt="int64"),2,mode="bilinear")
F.interpolate(T(2,3,9,9),size=4,recompute_scale_factor=True)
F.interpolate(T(2,3,9,9),scale_factor=0.7,recompute_scale_factor=True)
F.interpolate(T(2,3,9,9),scale_factor=0.7,mode="bilinear",recompute_scale_factor=False)
F.interpolate(T(2,3,9,9),scale_factor=0.7,mode="bilinear",antialias=True)
F.interpolate(T(2,3,9),scale_factor=0.7,mode="linear",antialias=True)
F.interpolate(T(2,3,9,9),scale_factor=0.7,antialias=True)
F.interpolate(T(2,3,9,9),scale_factor=(2.0,0.5))
F.interpolate(T(2,3,9,9),size=torch.Size([3,4]))
F.interpolate(T(2,3,9,9),size=3.5)
F.interpolate(T(2,3,9,9),size=(3.5,2))
F.interpolate(T(2,3,9,9),size=[3,4],mode="area")
F.interpolate(T(2,3,9),size=4,mode="area")
F.interpolate(T(2,3,9,9,9),size=4,mode="area")
F.upsample(T(2,3,9,9),scale_factor=2)
F.upsample_nearest(T(2,3,9,9),scale_factor=2)
F.upsample_bilinear(T(2,3,9,9),scale_factor=2)
F.grid_sample(T(2,3,9,9),T(2,4,4,3))
F.grid_sample(T(2,3,9,9),T(1,4,4,2))
F.grid_sample(T(2,3,9,9),T(2,4,4,4,3))
F.grid_sample(T(2,3,9,9),T(2,4,4,2,dt="float32"))
F.grid_sample(T(2,3,9,9),T(2,4,4,2),mode="foo")
F.grid_sample(T(2,3,9,9),T(2,4,4,2),padding_mode="foo")
F.grid_sample(T(2,3,9,9,9),T(2,4,4,4,3),mode="bicubic")
F.grid_sample(T(2,3,0,9),T(2,4,4,2))
F.grid_sample(T(3,9,9),T(4,4,2))
F.grid_sample(T(0,3,9,9),T(0,4,4,2))
F.grid_sample(T(2,3,9,9,dt="int64"),T(2,4,4,2,dt="int64"))
F.grid_sample(T(2,3,9,9),T(2,0,4,2))
F.affine_grid(T(2,2,3),(2,3,4,4))
F.affine_grid(T(2,2,3),(3,3,4,4))
F.affine_grid(T(2,2,3),(2,3,4,4,4))
F.affine_grid(T(2,3,4),(2,3,4,4))
F.affine_grid(T(2,2,3),(2,3,4))
F.affine_grid(T(2,2,3),(2,3,4,0))
F.affine_grid(T(2,2,3,dt="int64"),(2,3,4,4))
F.affine_grid(T(2,2,3),(2,3,1,1),align_corners=True)
F.pixel_shuffle(T(2,4,3,3),2)
F.pixel_shuffle(T(2,3,3,3),2)
F.pixel_shuffle(T(2,3),2)
F.pixel_shuffle(T(4,3,3),2)
F.pixel_shuffle(T(2,5,4,3,3),2)
F.pixel_shuffle(T(2,4,3,3),0)
F.pixel_unshuffle(T(2,4,3,3),2)
F.pixel_unshuffle(T(2,4,4,3),2)
F.pixel_unshuffle(T(4,3),2)
F.pixel_unshuffle(T(4,4,4),0)
F.channel_shuffle(T(2,4,3,3),2)
F.channel_shuffle(T(2,4,3,3),3)
F.channel_shuffle(T(2,4,3,3),0)
F.channel_shuffle(T(4,3),2)
F.channel_shuffle(T(2,4),2)
F.pad(T(2,3),(1,1,1,1,1,1))
F.pad(T(2,3),(1,))
F.pad(T(2,3),(-2,-2))
F.pad(T(2,3),(1,-4))
F.pad(T(2,3),(1,1),value=2)
F.pad(T(2,3),(1,1),value=2.5)
F.pad(T(2,3,dt="int64"),(1,1),value=2.5)
F.pad(T(2,3,dt="bool"),(1,1),value=1)
F.pad(T(2,3),(1,1),"foo")
F.pad(T(2,3),(1,1),"reflect")
F.pad(T(2,3),(3,1),"reflect")
F.pad(T(3),(1,1),"reflect")
F.pad(T(2,3,4),(1,1,1,1),"reflect")
F.pad(T(2,3,4,5),(1,1),"reflect")
F.pad(T(2,3,4,5),(1,1,1,1,1,1),"reflect")
F.pad(T(2,3,4,5,6),(1,1,1,1),"reflect")
F.pad(T(2,3,4),(4,1),"reflect")
F.pad(T(2,3,4,5),(1,1,4,1),"reflect")
F.pad(T(2,3,4),(-1,1),"reflect")
F.pad(T(2,3,4),(-1,1),"replicate")
F.pad(T(2,3,4),(-3,-3),"replicate")
F.pad(T(2,3,4),(5,1),"circular")
F.pad(T(2,3,4),(-1,1),"circular")
F.pad(T(2,3,4),(4,4),"circular")
F.pad(T(2,3,4),(1,1),"reflect",value=1)
F.pad(T(2,3,4),(1,1),"reflect",value=0)
F.pad(T(2,3,4,dt="int64"),(1,1),"reflect")
F.pad(T(2,3,4,dt="bool"),(1,1),"reflect")
F.pad(T(2,3,4,dt="int64"),(1,1),"replicate")
F.pad(T(2,3,4,dt="bool"),(1,1),"replicate")
F.pad(T(2,3,4,dt="complex64"),(1,1),"replicate")
F.pad(T(2,3,0),(1,1),"reflect")
F.pad(T(2,3,0),(1,1),"replicate")
F.pad(T(0,3,4),(1,1),"replicate")
F.pad(T(2,0,4),(1,1),"replicate")
F.pad(T(2,3,0),(1,1))
F.pad(T(2,3),[])
F.pad(T(2,3),(0,0))
F.pad(T(2,3),1)
F.pad(T(2,3),(1.5,1))
torch.constant_pad_nd(T(2,3),(1,1),5)
torch.constant_pad_nd(T(2,3),(1,1,1))
F.pad(T(2,3,4,4,4),(1,1,1,1,1,1),"circular")
F.pad(T(2,3,4),(1,1,1,1),"circular")
F.pad(T(2,3,4,4),(1,1),"circular")
torch.pixel_shuffle(T(2,4,3,3),2)
torch.pixel_unshuffle(T(2,4,4,4),2)
torch.channel_shuffle(T(2,4,3,3),2)
torch.grid_sampler(T(2,3,9,9),T(2,4,4,2),0,0,False)
torch.affine_grid_generator(T(2,2,3),(2,3,4,4),False)
torch.adaptive_avg_pool1d(T(2,3,9),2)
torch.adaptive_max_pool1d(T(2,3,9),2)
torch.avg_pool1d(T(2,3,9),2)
"""
"""Calls that PyTorch accepts or refuses; ``T`` makes a tensor of ones."""


def outcome(lib: ModuleType, call: str) -> Any:
    def ones(*shape: int, dt: str = "float64", g: bool = False) -> Any:
        made = lib.ones(*shape, dtype=getattr(lib, dt))
        return made.requires_grad_() if g else made

    try:
        y = eval(call, {"F": lib.nn.functional, "torch": lib, "T": ones})
    except Exception as error:
        return error
    every = y if isinstance(y, tuple) else (y,)
    return [(tuple(v.shape), str(v.dtype).rpartition(".")[2], v.tolist()) for v in every]


def test_calls_are_accepted_and_refused_as_in_pytorch() -> None:
    wrong: list[str] = []
    for call in REFUSALS.strip().splitlines():
        expected, found = outcome(torch, call), outcome(SHIM, call)
        if isinstance(expected, Exception):
            same = is_same_refusal(expected, found)
        else:
            same = not isinstance(found, Exception) and _are_close(expected, found)
        if not same:
            wrong.append(f"{call}: {expected!r:.200}, here {found!r:.200}")
    assert not wrong, "\n".join(wrong)


def _are_close(expected: Any, found: Any) -> bool:
    return len(expected) == len(found) and all(
        a[:2] == b[:2] and np.allclose(a[2], b[2], 1e-3 if a[1] == "float16" else 1e-5)
        for a, b in zip(expected, found, strict=True)
    )


def test_saved_fields_are_those_of_pytorch() -> None:
    calls = (
        "F.conv2d(T(2,3,9,9,g=True),T(4,3,3,3),T(4),2,1)",
        "F.conv_transpose1d(T(2,3,9,g=True),T(3,4,3))",
        "F.max_pool2d(T(2,3,9,9,g=True),2)",
        "F.max_pool3d(T(2,3,9,9,9,g=True),2,1,1)",
        "F.avg_pool2d(T(2,3,9,9,g=True),3,2,1,True,False)",
        "F.adaptive_max_pool2d(T(2,3,9,9,g=True),2)",
        "F.unfold(T(2,3,9,9,g=True),2)",
        "F.fold(T(2,12,64,g=True),(9,9),2)",
        "F.interpolate(T(2,3,9,g=True),scale_factor=2)",
        "F.interpolate(T(2,3,9,9,g=True),size=(4,5),mode='bilinear')",
        "F.grid_sample(T(2,3,9,9,g=True),T(2,4,4,2),'nearest','border',True)",
        "F.affine_grid(T(2,2,3,g=True),(2,3,4,4))",
        "F.pixel_shuffle(T(2,4,3,3,g=True),2)",
        "F.pad(T(2,3,9,g=True),(-1,1))",
        "F.pad(T(2,3,9,g=True),(1,1),'reflect')",
    )
    for call in calls:
        fields: list[dict[str, Any]] = []
        for lib in (torch, SHIM):

            def ones(*shape: int, g: bool = False, lib: ModuleType = lib) -> Any:
                return lib.ones(*shape, requires_grad=g)

            node = eval(call, {"F": lib.nn.functional, "T": ones}).grad_fn
            names = [name for name in dir(node) if name.startswith("_saved_")]
            values = {name: getattr(node, name) for name in names}
            fields.append({
                name: tuple(v.shape) if isinstance(v, lib.Tensor) else v
                for name, v in values.items()
            })  # fmt: skip
        assert fields[0] == fields[1], call
