"""Coverage of NumPy on traced values, tried function by function: generates
``docs/numpy_coverage.md``.

    python -m tests.numpy.coverage           # writes the page
    python -m tests.numpy.coverage --check   # fails if the page is out of date

Reverse and forward mode are compared with central differences, a batch with a loop, a jitted call
with NumPy.
"""

from __future__ import annotations

import argparse
import functools
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.fft

import functrace as ft
from functrace.errors import FunctraceError
from functrace.tree import leaves
from tests.oracles import random_like

PAGE = Path(__file__).parents[2] / "docs" / "numpy_coverage.md"

v = np.array([0.31, 0.72, 1.18, 0.57])
w = np.array([0.83, 0.27, 0.46, 0.91])
m = np.array([[0.9, 0.21, 0.33], [0.12, 1.3, 0.44], [0.25, 0.36, 1.7]])
n = np.array([[0.5, 0.61, 0.17], [0.42, 0.8, 0.14], [0.35, 0.26, 0.7]])
s = m @ m.T + np.eye(3)
r = np.array([[0.5, 0.61, 0.17, 0.9], [0.42, 0.8, 0.14, 0.3], [0.35, 0.26, 0.7, 0.2]])
c = v + 1j * w
i = np.array([3, 1, 4, 1])
j = np.array([2, 7, 1, 8])
b = np.array([True, False, True, True])
x = np.array([0.1, 0.4, 0.2, 0.9])
SAMPLES = {
    "v": v,
    "w": w,
    "m": m,
    "n": n,
    "s": s,
    "r": r,
    "c": c,
    "i": i,
    "j": j,
    "b": b,
    "x": x,
    "np": np,
}

ARGUMENTS = {
    "v": """
        abs absolute angle append:v,w arcsin:v/2 arccos:v/2 asin:v/2 acos:v/2 arccosh:v+1 acosh:v+1
        arctanh:v/2 atanh:v/2 arcsinh asinh arctan atan arctan2:v,w atan2:v,w argmax argmin argsort argwhere
        argpartition:v,2 all any array_equal:v,w array_equiv:v,w allclose:v,w isclose:v,w around:v,1 round:v,1
        bincount:i,v cbrt choose:i%2,(v,w) clip:v,0.4,0.9 compress:b,v convolve:v,w correlate:v,w
        copysign:v,-w cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum deg2rad degrees
        radians rad2deg delete:v,1 diag diagflat diff ediff1d digitize:v,x[[0,2,1]] divmod:v,w dot:v,w exp
        exp2 expm1 extract:b,v fabs flip fmax:v,w fmin:v,w fmod:v,w frexp geomspace:v,w,5 gradient
        heaviside:v,w histogram:v,3 histogram2d:v,w,3 histogramdd:np.stack([v,w],-1),3 histogram_bin_edges:v,3
        hypot:v,w i0 imag:c real:c conj:c conjugate:c inner:v,w insert:v,1,0.5 interp:v,np.sort(w),x
        intersect1d:v,w isin:v,w kron:v,w ldexp:v,i lexsort:(v,w) linspace:v,w,5 log log10 log1p log2
        logaddexp:v,w logaddexp2:v,w logspace:v,w,5 maximum:v,w minimum:v,w meshgrid:v,w mod:v,w remainder:v,w
        modf nan_to_num nanmax nanmean nanmedian nanmin nanpercentile:v,30 nanprod nanquantile:v,0.3 nanstd
        nansum nanvar nanargmax nanargmin negative nextafter:v,w nonzero flatnonzero outer:v,w partition:v,2
        percentile:v,30 quantile:v,0.3 piecewise:v,[v>0.6,v<=0.6],[np.sin,np.cos] poly polyadd:v,w polyder
        polydiv:v,w[:2] polyfit:x,v,2 polyint polymul:v,w polysub:v,w polyval:v,w positive power:v,w pow:v,w
        float_power:v,w ptp real_if_close reciprocal repeat:v,2 resize:v,6 roll:v,1 roots
        searchsorted:np.sort(w),v select:[v>0.6,v<=0.6],[v,w] setdiff1d:v,w setxor1d:v,w signbit sign sin cos
        tan sinh cosh tanh sinc sort sort_complex spacing sqrt square subtract:v,w add:v,w multiply:v,w
        divide:v,w true_divide:v,w floor_divide:v,w rint floor ceil trunc fix take:v,i%4
        take_along_axis:v,i%4,0 tile:v,2 trapezoid tri:3 trim_zeros union1d:v,w unique unique_values
        unique_all unique_counts unique_inverse unwrap vander vdot:v,w vecdot:v,w where:b,v,w isfinite isinf
        isnan isneginf isposinf isreal iscomplex iscomplexobj isrealobj count_nonzero ndim shape size
        result_type iterable isscalar common_type min_scalar_type copy astype:v,np.complex128 atleast_1d
        atleast_2d atleast_3d broadcast_to:v,(3,4) broadcast_arrays:v,r expand_dims:v,0 stack:[v,w]
        hstack:[v,w] vstack:[v,w] dstack:[v,w] column_stack:[v,w] row_stack:[v,w] concatenate:[v,w]
        concat:[v,w] block:[v,w] split:v,2 array_split:v,3 hsplit:v,2 apply_along_axis:np.cumsum,0,v
        full_like:v,0.5 ones_like zeros_like array:[v[0],1.0] asarray asanyarray ascontiguousarray
        asfortranarray require full:3,v[0] asarray_chkfinite arange:v[0] kaiser:5,v[0]
        fromiter:[v[0],1.0],float isfortran:np.copy(v) fromfunction:lambda_k:k*v[0],(3,)
        shares_memory:v,w may_share_memory:v,w can_cast:v.dtype,np.float32 broadcast_shapes:(4,),(1,) ravel
        reshape:v,(2,2) squeeze:v[None] unstack
    """,
    "m": """
        amax amin max min mean median average std var sum prod corrcoef cov cross:m,n diagonal
        dsplit:m[None],3 einsum:'ij,jk',m,n einsum_path:'ij,jk',m,n fliplr flipud matmul:m,n matrix_transpose
        matvec:m,m[0] vecmat:m[0],m moveaxis:m,0,1 pad:m,1 permute_dims rollaxis:m,1 rot90 swapaxes:m,0,1
        tensordot:m,n trace transpose tril triu vsplit:m,3 apply_over_axes:np.sum,m,(0,)
        linalg.cholesky:s linalg.cond linalg.cross:m,n linalg.det linalg.diagonal linalg.eig linalg.eigvals
        linalg.eigh:s linalg.eigvalsh:s linalg.inv linalg.lstsq:r.T,m[:,0].repeat(2)[:4] linalg.matmul:m,n
        linalg.matrix_norm linalg.matrix_power:m,3 linalg.matrix_rank linalg.matrix_transpose
        linalg.multi_dot:[m,n,r] linalg.norm linalg.outer:v,w linalg.pinv:r linalg.qr linalg.slogdet
        linalg.solve:m,n linalg.svd linalg.svdvals linalg.tensordot:m,n linalg.tensorinv:m.reshape(3,3),1
        linalg.tensorsolve:m,n[0] linalg.trace linalg.vecdot:v,w linalg.vector_norm diag_indices_from
        tril_indices_from triu_indices_from
    """,
    "i": """
        bitwise_and:i,j bitwise_or:i,j bitwise_xor:i,j bitwise_left_shift:i,j bitwise_right_shift:i,j
        left_shift:i,j right_shift:i,j bitwise_invert bitwise_not invert bitwise_count gcd:i,j lcm:i,j
        ravel_multi_index:((i%3,j%3),(3,3))[0],(3,3) unravel_index:i,(3,3) equal:i,j not_equal:i,j greater:v,w
        greater_equal:v,w less:v,w less_equal:v,w logical_and:v,w logical_or:v,w logical_not:v logical_xor:v,w
        ix_
    """,
    "c": """
        fft.fft fft.ifft fft.rfft:v fft.irfft fft.hfft fft.ihfft:v fft.fft2:m fft.ifft2:m fft.rfft2:m
        fft.irfft2:m fft.fftn:m fft.ifftn:m fft.rfftn:m fft.irfftn:m fft.fftshift fft.ifftshift
    """,
}
"""By default argument the functions, each with its arguments where they are others."""

SYMMETRIC = {np.linalg.cholesky, np.linalg.eigh, np.linalg.eigvalsh}
"""Functions that are tried on symmetric matrices only."""

UNREACHED = {
    "array",
    "asarray",
    "asanyarray",
    "ascontiguousarray",
    "asfortranarray",
    "require",
    "full",
    "arange",
    "asarray_chkfinite",
    "fromiter",
    "kaiser",
}
"""Functions that NumPy's protocols do not dispatch: use `functrace.numpy` or
`functrace.numpy.lift`.
"""


@dataclass
class Row:
    """The result of trying one function.

    Args:
        name: as in ``numpy.<name>``.
        marks: by column, what stands there.
        note: what an error said.
    """

    name: str
    marks: dict[str, str]
    note: str


def cases() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Yield name, function and arguments."""
    for default, listed in ARGUMENTS.items():
        for token in listed.split():
            name, _, given = token.partition(":")
            text = (given or default).replace("lambda_", "lambda ")
            try:
                function = operator.attrgetter(name)(np)
            except AttributeError:  # row_stack is gone in NumPy 2.5
                continue
            arguments = eval(f"({text},)", dict(SAMPLES))
            yield name, function, arguments
            if name in UNREACHED:
                yield f"functrace.numpy.{name}", getattr(ft.numpy, name), arguments
                plain = eval(
                    f"lambda *given: np.{name}(*given)", {"np": np}
                )  # as code reads it: attrgetter is compiled
                yield f"{name}, under lift", ft.numpy.lift(plain), arguments


def is_float(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.inexact, ft.Tracer)) and value.dtype.kind in "fc"


def _floats(arguments: tuple[Any, ...]) -> tuple[list[Any], Callable[[list[Any]], tuple[Any, ...]]]:
    """Return the arrays of floats in arguments, and how arguments are made of others."""
    found, structure = ft.tree.flatten(arguments)
    places = [k for k, leaf in enumerate(found) if is_float(leaf)]

    def arguments_of(values: list[Any]) -> tuple[Any, ...]:
        return ft.tree.unflatten(
            structure,
            [values[places.index(k)] if k in places else leaf for k, leaf in enumerate(found)],
        )

    return [found[k] for k in places], arguments_of


def _arrays(result: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in leaves(result) if leaf is not None]


def _same(found: Any, expected: Any, rtol: float) -> None:
    a, b = _arrays(found), _arrays(expected)
    assert len(a) == len(b), f"{len(a)} results in place of {len(b)}"
    for one, other in zip(a, b, strict=True):
        assert one.dtype == other.dtype, f"{one.dtype} in place of {other.dtype}"
        if one.dtype.kind in "USO":
            assert np.array_equal(one, other)
            continue
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def _along(function: Callable[..., Any], values: list[Any], directions: list[Any]) -> list[Any]:
    """The derivative along a direction, by central differences with one step of Richardson's."""

    def difference(step: float) -> list[Any]:
        ends = [
            _arrays(
                function(*[a + sign * step * d for a, d in zip(values, directions, strict=True)])
            )
            for sign in (1, -1)
        ]
        return [(p - q) / (2 * step) for p, q in zip(*ends, strict=True) if p.dtype.kind in "fc"]

    return [
        (4 * fine - rough) / 3
        for fine, rough in zip(difference(1e-4), difference(2e-4), strict=True)
    ]


def tried(function: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Callable[[], str]]:
    """Return, by column, what tries it: returns the mark, or raises."""
    values, arguments_of = _floats(arguments)
    if function in SYMMETRIC:
        plain, function = function, lambda a: plain((a + a.T) / 2)
    generator = np.random.default_rng(0)
    directions = [random_like(generator, a) for a in values]

    def call(*given: Any) -> Any:
        return function(*arguments_of(list(given)))

    def inexact(*given: Any) -> list[Any]:
        return [leaf for leaf in leaves(call(*given)) if is_float(leaf)]

    expected = call(*values)
    if any(
        not isinstance(leaf, (np.ndarray, np.generic, int, float, complex))
        for leaf in leaves(expected)
    ):
        return tried_facts(call, values, expected)
    slopes = _along(call, values, directions) if values and inexact(*values) else []
    is_flat = not any(np.any(slope) for slope in slopes)

    def forward() -> str:
        if not values or not slopes:
            _same(
                ft.jvp(call, tuple(values), tuple(directions))[0] if values else call(),
                expected,
                1e-12,
            )
            return "–"
        _, tangents = ft.jvp(lambda *given: inexact(*given), tuple(values), tuple(directions))
        for found, slope in zip(tangents, slopes, strict=True):
            np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)
        return "0" if is_flat else "✓"

    def reverse() -> str:
        if not values or not slopes:
            return forward()
        outputs, pullback = ft.vjp(lambda *given: inexact(*given), *values)
        weights = [random_like(generator, y) for y in outputs]
        found = sum(
            np.sum(np.real(d * g)) for d, g in zip(directions, pullback(weights), strict=True)
        )
        wanted = sum(
            np.sum(np.real(weight * slope)) for weight, slope in zip(weights, slopes, strict=True)
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
        return "0" if is_flat else "✓"

    def batch() -> str:
        if not values:
            return "–"
        batches = [np.stack([a, a * 1.01]) for a in values]
        found = ft.vmap(call)(*batches)
        for k in range(2):
            _same([leaf[k] for leaf in leaves(found)], call(*[a[k] for a in batches]), 1e-9)
        return "✓"

    def staged() -> str:
        if not values:
            return "–"
        _same(ft.jit(call)(*values), expected, 1e-12)
        return "✓"

    return {"reverse": reverse, "forward": forward, "vmap": batch, "jit": staged}


def tried_facts(
    call: Callable[..., Any], values: list[Any], expected: object
) -> dict[str, Callable[[], str]]:
    """Return, by column, the trials of a function whose result is no array (a shape, a dtype): the
    result on traced values has to be equal.
    """

    def asked(transform: Callable[..., Any]) -> Callable[[], str]:
        def ask() -> str:
            answers: list[object] = []

            def function(*given: Any) -> Any:
                answers.append(call(*given))
                return given[0] * 1

            transform(function)
            assert answers and all(answer == expected for answer in answers), (
                f"{answers} in place of {expected}"
            )
            return "–"

        return ask

    batches = [np.stack([a, a]) for a in values]
    return {
        "reverse": asked(lambda f: ft.vjp(f, *values)),
        "forward": asked(lambda f: ft.jvp(f, tuple(values), tuple(values))),
        "vmap": asked(lambda f: ft.vmap(f)(*batches)),
        "jit": asked(lambda f: ft.jit(f)(*values)),
    }


def row(name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Row:
    """Try one function."""
    marks: dict[str, str] = {}
    notes: dict[str, list[str]] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for column, attempt in tried(function, arguments).items():
            try:
                marks[column] = attempt()
            except AssertionError as error:
                marks[column] = "wrong"
                notes.setdefault(
                    (str(error).strip() or "other results").splitlines()[0], []
                ).append(column)
            except Exception as error:
                marks[column] = "raises" if isinstance(error, FunctraceError) else "breaks"
                notes.setdefault(str(error).splitlines()[0].partition(";")[0], []).append(column)
    return Row(
        name, marks, "; ".join(f"{', '.join(columns)}: {note}" for note, columns in notes.items())
    )


@functools.lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """Try all functions."""
    return tuple(sorted([row(*case) for case in cases()], key=lambda found: found.name))


COLUMNS = ("reverse", "forward", "vmap", "jit")
HEAD = """# NumPy coverage

Written by `python -m tests.numpy.coverage`, which calls every function of `numpy`, `numpy.linalg` and `numpy.fft` that
computes with arrays. Reverse and forward mode are compared with central differences, `vmap` with a loop, `jit` with NumPy.

* ✓: right. 0: right, and the derivative is 0 wherever there is one. –: there is nothing to differentiate.
* raises: the error says what to do; what it says first stands on the right.
* {unreached}:
  no protocol of NumPy's reaches these. The error names the [ways out](numpy.md), which have rows of their own:
  the same function of `functrace.numpy`, and `functrace.numpy.lift`.

| function | reverse | forward | vmap | jit | |
|---|---|---|---|---|---|
"""


def table(found: Iterable[Row]) -> str:
    """Return rows as text."""
    lines = [
        f"| `{one.name}` | {' | '.join(one.marks[column] for column in COLUMNS)} | {one.note.replace('|', '/')} |"
        for one in found
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page."""
    return HEAD.format(unreached=", ".join(f"`{name}`" for name in sorted(UNREACHED))) + table(
        rows()
    )


def main(arguments: list[str], path: Path, made: Callable[[], str], module: str) -> int:
    """Write a page, or say whether it is what was found."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args(arguments).check:
        path.write_text(made(), encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != made():
        print(f"{path} is not what was found: run `python -m {module}`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], PAGE, page, "tests.numpy.coverage"))
