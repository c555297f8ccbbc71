"""Operations do with every dtype, and with every kind of operand, what PyTorch does: values,
dtypes, refusals, warnings.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

from tests.peers.torch.grid import Outcome, compare, operands, others
from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
_NAMES = (
    "abs acos acosh all amax amin any argmax argmin asin asinh atan atanh bitwise_not ceil clone cos cosh count_nonzero "
    "deg2rad exp exp2 expm1 floor frac isfinite isinf isnan log log10 log1p log2 logical_not max mean median min nansum neg "
    "nonzero positive prod rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinh sqrt square std sum tan "
    "tanh trunc var zeros_like "
    "aminmax angle argwhere conj_physical cummax cummin diff digamma erf erfc erfinv exp2 fix frexp i0 isneginf isposinf "
    "isreal lgamma logcumsumexp logdet logit mode msort nan_to_num nanmean nanmedian nanquantile positive quantile sinc "
    "square std_mean unique var_mean det inverse pinverse atleast_1d atleast_2d atleast_3d diagflat vander "
    "special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr special.ndtri "
    "special.bessel_j0 special.bessel_y1 special.modified_bessel_k0 special.spherical_bessel_j0 special.airy_ai "
    "special.expit special.gammaln special.psi special.logit special.round "
    "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2 fft.rfftn fft.fftshift "
    "linalg.vector_norm linalg.norm linalg.vander linalg.det linalg.inv linalg.svdvals linalg.pinv linalg.matrix_rank"
)
_SHORT = (
    "-x ~x +x abs(x) bool(x) float(x) int(x) complex(x) len(x) list(x) repr(x) str(x) x.item() x.numpy() x.tolist()"
    " x.double() x.long() x.half() x.float() x.int() x.bool() x.byte() x.short() x.char() x.type() x.cuda()"
    " x.__index__() np.asarray(x) np.exp(x) np.add(x,x) f'{x}' f'{x:.2f}' format(x,'d') x.requires_grad_()"
    " x[0] x[None] x[...] x[True] x[()] x.zero_() x.fill_(2) x.fill_(1.5) x.fill_(1j) x.fill_(True) x.fill_(300)"
    " x.clamp(0,1) x.clamp(0.5) x.clamp(max=1) x.clamp(2,1) x.clamp(1,1) x.clamp(float('nan'),1)"
    " 1-x 2/x 2**x x**2 x**-1 x**0.5 x**2.5 x**0 x**True x**1j 2.5**x 1j**x torch.pow(True,x)"
)


def _exists(name: str) -> bool:
    place, _, last = name.rpartition(".")
    return hasattr(importlib.import_module(f"functrace.torch.{place}".removesuffix(".")), last)


_ALONG = "sum mean prod max min any all argmax logsumexp softmax log_softmax"
_NOWHERE = "sum mean any all"
OF_ONE = [f"torch.{name}(x)" for name in _NAMES.split() if _exists(name)] + [
    *(f"x.{name}(0)" for name in _ALONG.split()),
    *_SHORT.split(),
    *(f"x.{name}(())" for name in _NOWHERE.split()),
    "x.sum(dtype=torch.float32)", "x.mean(dtype=torch.float32)", "x.prod(dtype=torch.int32)",
    "x.sum(dtype=torch.int16)",
    "torch.tensor(x.tolist())", "torch.full_like(x, 1.5)", "torch.full_like(x, 300)",
    "torch.full_like(x, True)",
    "F.relu(x)", "F.softmax(x, 0)", "F.mse_loss(x, x)", "torch.stack([x, x])",
    "x.new_tensor([1.5])", "x.to('cuda')",
    "torch.where(x)", "torch.where(x, x, x)", "torch.where(x > 0, 1, 2.)",
    "torch.where(x > 0, x, 2.)",
    "torch.where(x != 0, 2, x)", "torch.where(x != 0, 1j, 2)", "torch.where(x > 0, 1, 2)",
    "torch.zeros(3)[x]",
    "torch.sin(x, out=torch.zeros(3))", "torch.mul(x, x, out=torch.zeros(3, dtype=torch.int64))",
    "torch.mul(x, x, out=torch.empty(0))",
    "torch.cat([x.reshape(-1)] * 2, out=torch.empty(0, dtype=torch.complex128))",
    "x.dtype.to_complex()", "torch.is_floating_point(x)", "torch.is_complex(x)",
    "torch.result_type(x, 2)", "x.is_signed()",
    "torch.result_type(x, 1.5)", "torch.promote_types(x.dtype, torch.int32)",
    "torch.can_cast(x.dtype, torch.int32)", "x.T",
    "isinstance(x, torch.LongTensor)", "torch.LongTensor([1, 2])", "torch.BoolTensor([0, 2])",
    "x.new([1, 2])", "x.new(0)",
    "torch.Tensor([1, 2])", "torch.Tensor(2, 3).shape", "torch.LongTensor(2, 3).shape",
    "torch.Tensor(3).shape",
    "torch.complex(x, x)", "torch.isclose(x, x)", "x.real", "x.imag", "x.conj()",
    "torch.lerp(x, x, 0.5)",
    "x.uniform_().shape",
    "x.normal_().shape", "x.bernoulli_(1.)", "torch.bernoulli(x.abs() * 0)", "x.repeat(2)",
    "x.flip(0)", "x.cumsum(0)",
    "x.masked_fill(x != 0, 1)", "x.masked_fill(x == 0, 300)", "x.norm()", "x.sort()", "x.split(2)",
    "x.chunk(2)", "1 in x",
    "torch.finfo(x.dtype).max", "torch.iinfo(x.dtype).min", "torch.outer(x, x)",
    "torch.einsum('i,i', x, x)",
    "torch.addcmul(x, x, x)",
    "x.logcumsumexp(0)", "x.cummax(0)", "x.kthvalue(1)", "x.mode()", "x.aminmax(dim=0)", "x.quantile(0.3)",
    "x.polygamma(2)", "x.mvlgamma(1)", "x.clamp_min(1)", "x.clamp_max(1.5)", "x.float_power(2)",
    "x.renorm(2, 0, 1.)", "torch.special.zeta(x, 2.)", "torch.special.xlog1py(x, 2)",
    "torch.special.chebyshev_polynomial_t(x, 2)", "torch.special.legendre_polynomial_p(x, 3)",
    "torch.hstack([x, x])", "torch.vstack([x, x])", "torch.dstack([x, x])", "torch.column_stack([x, x])",
    "torch.block_diag(x, x)", "torch.combinations(x)", "torch.cartesian_prod(x, x)", "torch.trapezoid(x)",
    "torch.cumulative_trapezoid(x)", "torch.gradient(x)", "torch.cov(x)", "torch.corrcoef(x)",
    "torch.histc(x, 3)", "torch.histogram(x, 3)", "torch.bincount(x)", "torch.unique(x, return_counts=True)",
    "torch.unique_consecutive(x)", "torch.searchsorted(x.sort()[0], x)", "torch.bucketize(x, x.sort()[0])",
    "x.index_put((torch.tensor([0, 2]),), x[:2])", "x.put(torch.tensor([0, 2]), x[:2])",
    "x.masked_scatter(x != 0, x)", "torch.select_scatter(x, x[0], 0, 1)", "torch.slice_scatter(x, x[:2], 0, 1)",
    "x.unfold(0, 2, 1)", "x.square_()", "x.exp_()", "x.erf_()", "x.sinc_()", "x.frac_()", "x.deg2rad_()",
    "x.nan_to_num_()", "x.clamp_min_(1)", "x.clamp_max_(1)", "x.cumsum_(0)", "x.cumprod_(0)", "torch.sin_(x)",
    "torch.reciprocal_(x)", "torch.fill(x, 2)", "torch.fill_(x, 2)", "torch.zero_(x)", "torch.clone(x)",
    "torch.is_signed(x)", "torch.is_neg(x)", "x.to_dense()", "x.dim_order()", "x.is_cpu", "x.mH",
]  # fmt: skip

_FUNCTIONS = (
    "add sub mul div pow maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift rsub equal allclose clamp floor_divide remainder fmod "
    "atan2 hypot logaddexp copysign dot isin float_power gcd heaviside lcm logaddexp2 nextafter xlogy vdot inner "
    "kron outer clamp_min clamp_max igamma igammac"
)
_OPERATORS = "+ - * / ** // % == != < <= > >= & | ^ << >> @"
_IN_PLACE = "add sub mul div pow copy fill eq bitwise_and remainder floor_divide logical_or"
OF_TWO = [
    *(f"torch.{name}(x, y)" for name in _FUNCTIONS.split() if hasattr(SHIM, name)),
    *(f"x {operator} y" for operator in _OPERATORS.split()),
    *(f"y {operator} x" for operator in _OPERATORS.split()),
    *(f"x.{name}_(y)" for name in _IN_PLACE.split()),
    "torch.add(x, y, alpha=2)", "torch.add(x, y, alpha=1.5)", "torch.add(x, y, alpha=True)",
    "torch.sub(x, y, alpha=2)",
    "x.add_(y, alpha=2)", "torch.where(x != 0, x, y)", "torch.where(x.bool(), y, x)",
    "torch.clamp(x, max=y)",
    "torch.clamp(x, y, y)", "x.__rsub__(y)", "x.__radd__(y)", "x.max(y)", "x.type_as(y)",
    "torch.stack([x, y])",
    "torch.cat([x.reshape(-1), y.reshape(-1)])", "torch.mm(x.reshape(-1, 1), y.reshape(1, -1))",
    "F.mse_loss(x, y)",
    "x.clamp_(y)",
]  # fmt: skip


_BESIDE = {
    "i": lambda torch: torch.tensor([0, 2, 1]),
    "M": lambda torch: lambda x: x.reshape(-1, 1).expand(3, 3).clone(),
}
OF_TENSORS = [
    "torch.einsum('i,i', x, y)", "torch.einsum('i,i->i', x, y)", "torch.einsum('i,j', x, y)",
    "torch.lerp(x, y, 0.5)",
    "torch.lerp(x, x, y)", "x.lerp(y, y)", "x.clone().lerp_(y, 0.5)", "torch.addcdiv(x, y, y)",
    "torch.addcdiv(x, x, y)",
    "torch.addcmul(x, x, y)", "x.index_fill(0, i, y[0])", "x.index_add(0, i, y)",
    "x.index_copy(0, i, y)", "x.take(y)",
    "x.scatter(0, i, y)", "x.scatter_add(0, i, y)", "x.scatter_reduce(0, i, y, 'sum')",
    "x.gather(0, y)",
    "x.index_select(0, y)",
    "torch.take_along_dim(x, y, 0)", "torch.take_along_dim(x, y)", "x.masked_select(y)",
    "x.masked_fill(y, 1)",
    "x.index_add(0, y, x)", "x.scatter(0, y, x)", "x.scatter(0, y, 1)",
    "x.masked_fill(x > 0, y[0])", "torch.dot(x, y)",
    "torch.meshgrid(x, y, indexing='ij')", "torch.broadcast_tensors(x, y)", "x.where(y, x)",
    "torch.outer(x, y)",
    "F.linear(M(x), M(y))", "F.linear(M(x), M(x), y)", "torch.mm(M(x), M(y))",
    "torch.bmm(M(x)[None], M(y)[None])",
    "torch.mv(M(x), y)", "torch.addmm(M(x), M(y), M(y))", "torch.addmm(M(x), M(x), M(y))",
    "torch.addmm(M(x), M(y), M(x))",
    "torch.matmul(M(x), y)", "F.nll_loss(M(x), i, weight=y)", "torch.dist(x, y)",
    "torch.clamp(x, y, y)",
    "torch.clamp(x, x, y)",
    "torch.xlogy(x, y)", "torch.special.xlog1py(x, y)", "torch.special.zeta(x, y)", "torch.ldexp(x, y)",
    "torch.heaviside(x, y)", "torch.vdot(x, y)", "torch.inner(x, y)", "torch.kron(x, y)", "torch.tensordot(x, y, 1)",
    "torch.addmv(x, M(x), y)", "torch.addr(M(x), x, y)", "torch.baddbmm(M(x)[None], M(y)[None], M(y)[None])",
    "torch.cross(x, y, dim=0)", "torch.linalg.cross(x, y)", "torch.linalg.vecdot(x, y)",
    "torch.linalg.solve(torch.diag(x + 9), y)",
    "torch.hstack([x, y])", "torch.vstack([x, y])", "torch.block_diag(x, y)", "torch.trapezoid(x, y)",
    "torch.searchsorted(x, y)", "torch.bucketize(x, y)", "x.masked_scatter(x != 0, y)", "x.index_put((i,), y)",
    "x.put(i, y)", "torch.select_scatter(M(x), y, 0, 1)", "torch.diagonal_scatter(M(x), y)",
    "torch.slice_scatter(x, y)", "torch.gcd(x, y)", "torch.special.chebyshev_polynomial_u(x, y)",
]  # fmt: skip
"""Expressions in two vectors; what positions are there is no matter, so that only dtypes are
refused.
"""
_OF_POSITIONS = ("gather", "take", "index_select", "(0, y,")


@pytest.mark.parametrize("expression", OF_TENSORS)
def test_two_tensors_of_every_dtype(expression: str) -> None:
    """The shim refuses what PyTorch refuses, and has its values and dtypes otherwise."""
    report = []
    for a, x in operands([(3,)]):
        for b, y in operands([(3,)], second=True):
            if any(part in expression for part in _OF_POSITIONS):
                y = lambda torch, b=b: torch.tensor([0, 1, 1]).to(
                    getattr(torch, b.partition("[")[0])
                )
            kind, expected, found = compare(expression, {"x": x, "y": y} | _BESIDE, sentences=False)
            if kind and not (kind == "refuses" and "logaddexp" in expression):
                report.append(
                    f"{a}, {b}: {kind}\n    PyTorch    {expected!r}\n    functrace  {found!r}"
                )
    assert not report, f"{expression}: {len(report)} cases differ\n" + "\n".join(report[:20])


SHAPES = [
    "x.unflatten(0, (3, 2))", "x.unflatten(5, (3, 2))", "x.unflatten(1, ())",
    "x.unflatten(1, (-1, 2))", "x.unflatten(1, 3)",
    "x.unflatten(1, (-1, -1))", "x.unflatten(1, (0, -1))", "x.unflatten(1, (3, -2))",
    "x[0, 0].unflatten(0, (1,))",
    "torch.take_along_dim(x, i, 0)", "torch.take_along_dim(x, i[:0], 0)",
    "torch.take_along_dim(x, k[:, :2], 0)",
    "torch.take_along_dim(x, k, 5)", "torch.take_along_dim(x, i[0], 0)",
    "torch.take_along_dim(x, i + 9)",
    "torch.tensor_split(x[0], i[1:])", "torch.tensor_split(x[0], i[1])",
    "torch.tensor_split(x[0], k)",
    "torch.tensor_split(x[0], 0)", "torch.tensor_split(x[0], 1.5)",
    "torch.tensor_split(x[0, 0], 2)", "x[0].take(i + 5)",
    "x.repeat_interleave(i[:2])", "x[0].repeat_interleave(i - 1)",
    "x[0].repeat_interleave(i[None])", "torch.bmm(x, x)",
    "torch.mv(x, x)", "torch.mv(x, x[0, :2])", "torch.dot(x[0], x[0, :2])", "torch.mm(x, x)",
    "torch.einsum('ij,jk', x, x)",
    "torch.einsum('ij,jk->iz', x, x)", "torch.einsum('ij', x, x)", "torch.einsum('ij->iij', x)",
    "torch.einsum('ii', x)",
    "x.gather(0, i)", "x.scatter(0, i, x)", "x.index_select(2, i)", "x.index_select(0, i)",
    "x.index_add(0, i, x)",
    "x.index_copy(1, i, x[:, :2])", "x.index_fill(3, i, 1.)", "x.narrow(1, 2, 3)",
    "x.select(0, 4)", "x.split(0, 0)",
    "x.chunk(0)", "x.cumsum(2)", "x.sum((0, 0))", "x.sum(4)",
    "x.expand(2, 2)", "x.expand(3)", "x.view(4)", "x.view(-1, -1)", "x.reshape(5)",
    "x.permute(0, 0)", "x.permute(0)",
    "x.transpose(0, 2)", "x.squeeze(3)", "x.unsqueeze(4)", "x.flatten(1, 0)", "x.diagonal(0, 0, 0)",
    "x.repeat(2)", "x.tile(2)", "x.roll(1, 3)", "x.flip(0, 0)", "x.movedim(0, 3)", "x.topk(5)",
    "x.sort(3)", "x.norm(2, 4)",
    "torch.cat([x, x[0]])", "torch.cat([x, x[:, :1]])", "torch.stack([x, x[0]])",
    "torch.where(x > 0, x, x[:, :2])",
    "x.masked_fill(x[:, :2] > 0, 1.)", "x.masked_select(x[:, :2] > 0)", "F.mse_loss(x, x[:, :2])",
    "F.linear(x, x[:, :2])",
    "F.nll_loss(x, i)", "F.nll_loss(x, i[0])", "F.cross_entropy(x, i[0])", "F.softmax(x, 3)",
    "torch.meshgrid(x, x)",
    "torch.broadcast_to(x, (3, 3))", "x.tril(1.5)", "torch.addmm(x, x, x)",
    "x.clamp(x[:, :2])",
    "torch.outer(x, x)", "x.lerp(x[:, :2], 0.5)", "torch.complex(x, x[:, :2])",
]  # fmt: skip


@pytest.mark.parametrize("expression", SHAPES)
def test_shapes_and_dimensions_that_are_refused(expression: str) -> None:
    """Refusals are of PyTorch's classes: no error of NumPy's, and none of ours, comes through."""
    given = {
        "x": lambda torch: torch.ones(2, 3), "i": lambda torch: torch.tensor([0, 2, 1]),
        "k": lambda torch: torch.zeros(2, 3, dtype=torch.int64),
    }  # fmt: skip
    kind, expected, found = compare(expression, given, sentences=False)
    assert not kind, (kind, expected, found)


def allowed(
    expression: str, kind: str, names: tuple[str, ...], expected: Outcome, found: Outcome
) -> bool:
    """Return True if a difference is intended; the comments say why."""
    x, y = (*names, "")[:2]
    return (
        # PyTorch counts the indices first, the shim looks at what they are: either way an
        # IndexError or a TypeError.
        (expression == "torch.zeros(3)[x]" and kind == "sentence")
        # PyTorch refuses these with the name of another C type, or another spelling of one.
        or (kind == "sentence" and expression in ("x.fill_(1j)", "x.fill_(y)") and "float16" in x)
        or (kind in ("sentence", "class") and expression == "x.clamp_(y)")
        # Which of two reasons to refuse comes first.
        or (kind == "sentence" and "ZeroDivisionError" in str(found.error))
        # NumPy has no logaddexp of complex numbers. None stands for "all dimensions".
        or (kind == "refuses" and expression == "torch.logaddexp(x, y)")
        or (expression == "x.max(y)" and y == "None")
        # In single precision, as PyTorch, but its products of complex numbers round otherwise.
        or (expression == "y / x" and x.startswith("complex64") and y.startswith("ndarray"))
        # PyTorch spells this dtype as in C++.
        or (kind == "sentence" and expression in ("x.clamp_min_(1)", "x.clamp_max_(1)"))
        # PyTorch has a message of its own where nothing is a tensor; it names a missing attribute.
        or (expression.startswith("F.mse_loss") and isinstance(expected.error, AttributeError))
        or (
            expression == "F.mse_loss(x, y)"
            and "'int' object is not callable" in str(expected.error)
        )
    )


@pytest.fixture(autouse=True)
def _warning_always() -> Iterator[None]:
    for library in (torch, SHIM):
        library.set_warn_always(True)
    yield
    for library in (torch, SHIM):
        library.set_warn_always(False)


@pytest.mark.parametrize("expression", OF_ONE)
def test_one_operand_of_every_dtype(expression: str) -> None:
    check(expression, [((name,), {"x": make}) for name, make in operands()])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("expression", OF_TWO)
def test_two_operands_of_every_kind(expression: str) -> None:
    cases = [((a, b), {"x": x, "y": y}) for a, x in operands() for b, y in others()]
    check(expression, cases)


def check(expression: str, cases: list[tuple[tuple[str, ...], dict[str, object]]]) -> None:
    """Compare all cases of an expression; fails with a list of those that differ."""
    report = []
    for names, given in cases:
        kind, expected, found = compare(expression, given)
        if kind and not allowed(expression, kind, names, expected, found):
            report.append(
                f"{', '.join(names)}: {kind}\n    PyTorch    {expected!r}\n    functrace  {found!r}"
            )
    assert not report, f"{expression}: {len(report)} of {len(cases)} cases differ\n" + "\n".join(
        report[:20]
    )
