"""Operations do with every dtype, and with every kind of operand, what PyTorch does: values, dtypes, refusals, warnings."""

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
    "tanh trunc var zeros_like"
)
_SHORT = (
    "-x ~x +x abs(x) bool(x) float(x) int(x) complex(x) len(x) list(x) repr(x) str(x) x.item() x.numpy() x.tolist()"
    " x.double() x.long() x.half() x.float() x.int() x.bool() x.byte() x.short() x.char() x.type() x.cuda()"
    " x.__index__() np.asarray(x) np.exp(x) np.add(x,x) f'{x}' f'{x:.2f}' format(x,'d') x.requires_grad_()"
    " x[0] x[None] x[...] x[True] x[()] x.zero_() x.fill_(2) x.fill_(1.5) x.fill_(1j) x.fill_(True) x.fill_(300)"
    " x.clamp(0,1) x.clamp(0.5) x.clamp(max=1) x.clamp(2,1) x.clamp(1,1) x.clamp(float('nan'),1)"
    " 1-x 2/x 2**x x**2 x**-1 x**0.5 x**2.5 x**0 x**True x**1j 2.5**x 1j**x torch.pow(True,x)"
)
_ALONG = "sum mean prod max min any all argmax logsumexp softmax log_softmax"
_NOWHERE = "sum mean any all"
OF_ONE = [f"torch.{name}(x)" for name in _NAMES.split() if hasattr(SHIM, name)] + [
    *(f"x.{name}(0)" for name in _ALONG.split()),
    *_SHORT.split(),
    *(f"x.{name}(())" for name in _NOWHERE.split()),
    "x.sum(dtype=torch.float32)", "x.mean(dtype=torch.float32)", "x.prod(dtype=torch.int32)", "x.sum(dtype=torch.int16)",
    "torch.tensor(x.tolist())", "torch.full_like(x, 1.5)", "torch.full_like(x, 300)", "torch.full_like(x, True)",
    "F.relu(x)", "F.softmax(x, 0)", "F.mse_loss(x, x)", "torch.stack([x, x])", "x.new_tensor([1.5])", "x.to('cuda')",
    "torch.where(x)", "torch.where(x, x, x)", "torch.where(x > 0, 1, 2.)", "torch.where(x > 0, x, 2.)",
    "torch.where(x != 0, 2, x)", "torch.where(x != 0, 1j, 2)", "torch.where(x > 0, 1, 2)", "torch.zeros(3)[x]",
    "torch.sin(x, out=torch.zeros(3))", "torch.mul(x, x, out=torch.zeros(3, dtype=torch.int64))",
    "torch.mul(x, x, out=torch.empty(0))", "torch.cat([x.reshape(-1)] * 2, out=torch.empty(0, dtype=torch.complex128))",
    "x.dtype.to_complex()", "torch.is_floating_point(x)", "torch.is_complex(x)", "torch.result_type(x, 2)", "x.is_signed()",
    "torch.result_type(x, 1.5)", "torch.promote_types(x.dtype, torch.int32)", "torch.can_cast(x.dtype, torch.int32)", "x.T",
    "isinstance(x, torch.LongTensor)", "torch.LongTensor([1, 2])", "torch.BoolTensor([0, 2])", "x.new([1, 2])", "x.new(0)",
    "torch.Tensor([1, 2])", "torch.Tensor(2, 3).shape", "torch.LongTensor(2, 3).shape", "torch.Tensor(3).shape",
    "torch.complex(x, x)", "torch.isclose(x, x)", "x.real", "x.imag", "x.conj()", "torch.lerp(x, x, 0.5)",
    "x.uniform_().shape",
    "x.normal_().shape", "x.bernoulli_(1.)", "torch.bernoulli(x.abs() * 0)", "x.repeat(2)", "x.flip(0)", "x.cumsum(0)",
    "x.masked_fill(x != 0, 1)", "x.masked_fill(x == 0, 300)", "x.norm()", "x.sort()", "x.split(2)", "x.chunk(2)", "1 in x",
    "torch.finfo(x.dtype).max", "torch.iinfo(x.dtype).min", "torch.outer(x, x)", "torch.einsum('i,i', x, x)",
    "torch.addcmul(x, x, x)",
]  # fmt: skip

_FUNCTIONS = (
    "add sub mul div pow maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift rsub equal allclose clamp floor_divide remainder fmod "
    "atan2 hypot logaddexp copysign dot isin"
)
_OPERATORS = "+ - * / ** // % == != < <= > >= & | ^ << >> @"
_IN_PLACE = "add sub mul div pow copy fill eq bitwise_and remainder floor_divide logical_or"
OF_TWO = [
    *(f"torch.{name}(x, y)" for name in _FUNCTIONS.split() if hasattr(SHIM, name)),
    *(f"x {operator} y" for operator in _OPERATORS.split()), *(f"y {operator} x" for operator in _OPERATORS.split()),
    *(f"x.{name}_(y)" for name in _IN_PLACE.split()),
    "torch.add(x, y, alpha=2)", "torch.add(x, y, alpha=1.5)", "torch.add(x, y, alpha=True)", "torch.sub(x, y, alpha=2)",
    "x.add_(y, alpha=2)", "torch.where(x != 0, x, y)", "torch.where(x.bool(), y, x)", "torch.clamp(x, max=y)",
    "torch.clamp(x, y, y)", "x.__rsub__(y)", "x.__radd__(y)", "x.max(y)", "x.type_as(y)", "torch.stack([x, y])",
    "torch.cat([x.reshape(-1), y.reshape(-1)])", "torch.mm(x.reshape(-1, 1), y.reshape(1, -1))", "F.mse_loss(x, y)",
    "x.clamp_(y)",
]  # fmt: skip


def allowed(expression: str, kind: str, names: tuple[str, ...], expected: Outcome, found: Outcome) -> bool:
    """Whether a difference is known, and why it stays."""
    x, y = (*names, "")[:2]
    return (
        # PyTorch counts the indices first, the shim looks at what they are: either way an IndexError or a TypeError.
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
        # PyTorch has a message of its own where nothing is a tensor; it names a missing attribute.
        or (expression.startswith("F.mse_loss") and isinstance(expected.error, AttributeError))
        or (expression == "F.mse_loss(x, y)" and "'int' object is not callable" in str(expected.error))
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
            report.append(f"{', '.join(names)}: {kind}\n    PyTorch    {expected!r}\n    functrace  {found!r}")
    assert not report, f"{expression}: {len(report)} of {len(cases)} cases differ\n" + "\n".join(report[:20])
