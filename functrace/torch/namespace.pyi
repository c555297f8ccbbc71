# Written by `python -m functrace.torch.stubs` from the rows: the functions of `torch`, and the methods of `Tensor`.

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch.autograd.graph import RemovableHandle
from functrace.torch.dtypes import DtypeLike, dtype
from functrace.torch.reductions import Dims
from functrace.torch.tensor import Operand, Tensor, Value
from functrace.typing import Array

__all__ = [
    "abs",
    "absolute",
    "add",
    "addmm",
    "all",
    "allclose",
    "any",
    "arange",
    "argmax",
    "argmin",
    "as_tensor",
    "bitwise_and",
    "bitwise_or",
    "bmm",
    "bool",
    "cat",
    "cdouble",
    "ceil",
    "cfloat",
    "clamp",
    "clone",
    "complex128",
    "complex64",
    "cos",
    "div",
    "divide",
    "dot",
    "double",
    "empty",
    "empty_like",
    "eq",
    "equal",
    "exp",
    "eye",
    "flatten",
    "float",
    "float16",
    "float32",
    "float64",
    "floor",
    "from_numpy",
    "full",
    "full_like",
    "gather",
    "ge",
    "get_rng_state",
    "gt",
    "half",
    "initial_seed",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "isfinite",
    "isnan",
    "le",
    "linspace",
    "log",
    "log1p",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logsumexp",
    "long",
    "lt",
    "manual_seed",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mm",
    "mul",
    "multiply",
    "mv",
    "narrow",
    "ne",
    "neg",
    "negative",
    "ones",
    "ones_like",
    "permute",
    "pow",
    "prod",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "reciprocal",
    "relu",
    "reshape",
    "round",
    "select",
    "set_rng_state",
    "short",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "sub",
    "subtract",
    "sum",
    "t",
    "tanh",
    "tensor",
    "transpose",
    "true_divide",
    "uint8",
    "unsqueeze",
    "where",
    "zeros",
    "zeros_like",
]

bool: dtype
uint8: dtype
int8: dtype
int16: dtype
int32: dtype
int64: dtype
float16: dtype
float32: dtype
float64: dtype
complex64: dtype
complex128: dtype
short: dtype
int: dtype
long: dtype
half: dtype
float: dtype
double: dtype
cfloat: dtype
cdouble: dtype

def abs(input: Operand) -> Value:
    """Return the absolute value of each element; the derivative at 0 is 0."""

def absolute(input: Operand) -> Value:
    """Return the absolute value of each element; the derivative at 0 is 0."""

def add(input: Operand, other: Operand, *, alpha: Operand = 1) -> Value:
    """Return ``input + alpha * other``."""

def addmm(input: Operand, mat1: Operand, mat2: Operand) -> Value:
    """Return ``input + mat1 @ mat2``."""

def all(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Value:
    """Return whether all elements are true, in all or along dimensions."""

def allclose(
    input: Tensor,
    other: Tensor,
    rtol: builtins.float = 1e-05,
    atol: builtins.float = 1e-08,
    equal_nan: builtins.bool = False,
) -> builtins.bool:
    """Return whether all elements are close: ``|input - other| <= atol + rtol * |other|``."""

def any(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Value:
    """Return whether any elements are true, in all or along dimensions."""

def arange(
    *bounds: Any, dtype: DtypeLike | None = None, device: builtins.str | None = None, requires_grad: builtins.bool = False
) -> Tensor:
    """Return numbers at equal steps, the end left out."""

def argmax(input: Operand, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Value:
    """Return the position of the maximum, in all or along a dimension."""

def argmin(input: Operand, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Value:
    """Return the position of the minimum, in all or along a dimension."""

def as_tensor(data: Any, dtype: DtypeLike | None = None, device: builtins.str | None = None) -> Tensor:
    """Return ``data`` as a tensor: itself if it is one, a sharing one of an array, otherwise a copy."""

def bitwise_and(input: Operand, other: Operand) -> Value:
    """Return the bits that both have."""

def bitwise_or(input: Operand, other: Operand) -> Value:
    """Return the bits that one or both have."""

def bmm(input: Operand, other: Operand) -> Value:
    """Return the products of pairs of matrices."""

def cat(tensors: Sequence[Operand], dim: builtins.int = 0) -> Value:
    """Return tensors joined along a dimension."""

def ceil(input: Operand) -> Value:
    """Return the smallest integer that is not below each element."""

def clamp(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    """Return each element, or the bound that it is beyond; on a bound the derivative is 1."""

def clone(input: Operand) -> Value:
    """Return a copy, through which gradients flow."""

def cos(input: Operand) -> Value:
    """Return the cosine of each element."""

def div(input: Operand, other: Operand) -> Value:
    """Return ``input / other``; integers divide to floats."""

def divide(input: Operand, other: Operand) -> Value:
    """Return ``input / other``; integers divide to floats."""

def dot(input: Operand, other: Operand) -> Value:
    """Return the product of two vectors."""

def empty(
    *size: builtins.int | Sequence[builtins.int],
    dtype: DtypeLike | None = None,
    device: builtins.str | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a tensor whose elements are whatever the memory held."""

def empty_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return a tensor of another one's shape and dtype, whose elements are whatever the memory held."""

def eq(input: Operand, other: Operand) -> Value:
    """Return where ``input`` is equal to ``other``, element by element."""

def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Return whether two tensors have the same shape and elements."""

def exp(input: Operand) -> Value:
    """Return the exponential of each element."""

def eye(
    n: builtins.int, m: builtins.int | None = None, *, dtype: DtypeLike | None = None, requires_grad: builtins.bool = False
) -> Tensor:
    """Return ones on the diagonal."""

def flatten(input: Operand, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Value:
    """Return the tensor with dimensions merged into one."""

def floor(input: Operand) -> Value:
    """Return the largest integer that is not above each element."""

def from_numpy(array: Array) -> Tensor:
    """Return a tensor that shares the array's memory."""

def full(
    size: builtins.int | Sequence[builtins.int],
    fill_value: builtins.complex,
    *,
    dtype: DtypeLike | None = None,
    device: builtins.str | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a tensor filled with a number, whose kind gives the dtype."""

def full_like(
    input: Tensor, fill_value: builtins.complex, *, dtype: DtypeLike | None = None, requires_grad: builtins.bool = False
) -> Tensor:
    """Return a tensor of another one's shape and dtype, filled with a number."""

def gather(input: Operand, dim: builtins.int, index: Operand) -> Value:
    """Return elements picked by position along a dimension."""

def ge(input: Operand, other: Operand) -> Value:
    """Return where ``input`` is at least ``other``, element by element."""

def get_rng_state() -> Tensor:
    """Return the state of the generator, as a tensor of bytes."""

def gt(input: Operand, other: Operand) -> Value:
    """Return where ``input`` is greater than ``other``, element by element."""

def initial_seed() -> builtins.int:
    """Return the number that the running sequence was begun with."""

def isfinite(input: Operand) -> Value:
    """Return whether each element is finite."""

def isnan(input: Operand) -> Value:
    """Return whether each element is not a number."""

def le(input: Operand, other: Operand) -> Value:
    """Return where ``input`` is at most ``other``, element by element."""

def linspace(
    start: builtins.float,
    end: builtins.float,
    steps: builtins.int,
    *,
    dtype: DtypeLike | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return ``steps`` numbers at equal distances, both ends included."""

def log(input: Operand) -> Value:
    """Return the natural logarithm of each element."""

def log1p(input: Operand) -> Value:
    """Return ``log(1 + input)``, accurate near 0."""

def log_softmax(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the log of the softmax along a dimension."""

def logical_and(input: Operand, other: Operand) -> Value:
    """Return where both are different from zero."""

def logical_not(input: Operand) -> Value:
    """Return whether each element is zero."""

def logical_or(input: Operand, other: Operand) -> Value:
    """Return where one or both are different from zero."""

def logsumexp(input: Operand, dim: Dims, keepdim: builtins.bool = False) -> Value:
    """Return ``log(sum(exp(input)))`` along dimensions, without overflow."""

def lt(input: Operand, other: Operand) -> Value:
    """Return where ``input`` is less than ``other``, element by element."""

def manual_seed(seed: builtins.int) -> np.random.Generator:
    """Begin the sequence that belongs to a number; returns the generator."""

def matmul(input: Operand, other: Operand) -> Value:
    """Return the product of matrices, vectors, or stacks of matrices, as PyTorch composes it of simpler ones."""

def max(input: Operand, dim: Operand | None = None, keepdim: builtins.bool = False) -> Any:
    """Return the maximum: of all, along a dimension (with indices), of two tensors."""

def maximum(input: Operand, other: Operand) -> Value:
    """Return the larger element of each pair; a tie splits the gradient evenly."""

def mean(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None) -> Value:
    """Return the mean of all elements, or along dimensions."""

def min(input: Operand, dim: Operand | None = None, keepdim: builtins.bool = False) -> Any:
    """Return the minimum: of all, along a dimension (with indices), of two tensors."""

def minimum(input: Operand, other: Operand) -> Value:
    """Return the smaller element of each pair; a tie splits the gradient evenly."""

def mm(input: Operand, other: Operand) -> Value:
    """Return the product of two matrices."""

def mul(input: Operand, other: Operand) -> Value:
    """Return ``input * other``."""

def multiply(input: Operand, other: Operand) -> Value:
    """Return ``input * other``."""

def mv(input: Operand, other: Operand) -> Value:
    """Return the product of a matrix and a vector."""

def narrow(input: Operand, dim: builtins.int, start: builtins.int, length: builtins.int) -> Value:
    """Return a view of ``length`` positions along a dimension."""

def ne(input: Operand, other: Operand) -> Value:
    """Return where ``input`` is different from ``other``, element by element."""

def neg(input: Operand) -> Value:
    """Return ``-input``."""

def negative(input: Operand) -> Value:
    """Return ``-input``."""

def ones(
    *size: builtins.int | Sequence[builtins.int],
    dtype: DtypeLike | None = None,
    device: builtins.str | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return ones."""

def ones_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return ones of a tensor's shape and dtype."""

def permute(input: Operand, *dims: builtins.int | Sequence[builtins.int]) -> Value:
    """Return a view with dimensions in another order."""

def pow(input: Operand, exponent: Operand) -> Value:
    """Return ``input ** exponent``; either may be a number."""

def prod(
    input: Operand, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None
) -> Value:
    """Return the product of all elements, or along a dimension; integers multiply to int64."""

def rand(
    *size: builtins.int | Sequence[builtins.int], dtype: DtypeLike | None = None, requires_grad: builtins.bool = False
) -> Tensor:
    """Return numbers uniform in [0, 1)."""

def rand_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return numbers uniform in [0, 1) in a tensor's shape and dtype."""

def randint(*bounds_and_size: Any, dtype: DtypeLike | None = None) -> Tensor:
    """Return integers: ``randint(high, size)`` or ``randint(low, high, size)``."""

def randn(
    *size: builtins.int | Sequence[builtins.int], dtype: DtypeLike | None = None, requires_grad: builtins.bool = False
) -> Tensor:
    """Return standard normal numbers."""

def randn_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return standard normal numbers in a tensor's shape and dtype."""

def reciprocal(input: Operand) -> Value:
    """Return ``1 / input``."""

def relu(input: Operand) -> Value:
    """Return each element, or 0 if it is negative; the derivative at 0 is 0."""

def reshape(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Value:
    """Return a view with another shape, or a copy where the memory does not lie so."""

def round(input: Operand) -> Value:
    """Return the nearest integer; halves go to the even one."""

def select(input: Operand, dim: builtins.int, index: builtins.int) -> Value:
    """Return a view of one position along a dimension."""

def set_rng_state(new_state: Tensor) -> None:
    """Put the generator into a state that `get_rng_state` returned."""

def sigmoid(input: Operand) -> Value:
    """Return ``1 / (1 + exp(-input))``."""

def sign(input: Operand) -> Value:
    """Return the sign of each element."""

def sin(input: Operand) -> Value:
    """Return the sine of each element."""

def softmax(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the softmax along a dimension."""

def sqrt(input: Operand) -> Value:
    """Return the square root of each element."""

def square(input: Operand) -> Value:
    """Return ``input ** 2``."""

def squeeze(input: Operand, dim: builtins.int | Sequence[builtins.int] | None = None) -> Value:
    """Return a view without dimensions of size 1."""

def stack(tensors: Sequence[Operand], dim: builtins.int = 0) -> Value:
    """Return tensors joined along a new dimension."""

def sub(input: Operand, other: Operand, *, alpha: Operand = 1) -> Value:
    """Return ``input - alpha * other``."""

def subtract(input: Operand, other: Operand, *, alpha: Operand = 1) -> Value:
    """Return ``input - alpha * other``."""

def sum(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None) -> Value:
    """Return the sum of all elements, or along dimensions; integers sum to int64."""

def t(input: Operand) -> Value:
    """Return the transpose of a matrix (a vector or a number is left as it is)."""

def tanh(input: Operand) -> Value:
    """Return the hyperbolic tangent of each element."""

def tensor(
    data: Any, *, dtype: DtypeLike | None = None, device: builtins.str | None = None, requires_grad: builtins.bool = False
) -> Tensor:
    """Return a leaf tensor with a copy of ``data``: numbers, nested lists, an array or a tensor."""

def transpose(input: Operand, dim0: builtins.int, dim1: builtins.int) -> Value:
    """Return a view with two dimensions swapped."""

def true_divide(input: Operand, other: Operand) -> Value:
    """Return ``input / other``; integers divide to floats."""

def unsqueeze(input: Operand, dim: builtins.int) -> Value:
    """Return a view with one more dimension, of size 1."""

def where(condition: Operand, input: Operand, other: Operand) -> Value:
    """Return ``input`` where the condition holds, ``other`` elsewhere."""

def zeros(
    *size: builtins.int | Sequence[builtins.int],
    dtype: DtypeLike | None = None,
    device: builtins.str | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return zeros."""

def zeros_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return zeros of a tensor's shape and dtype."""

class Methods:
    """What the rows give to `Tensor`."""

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions in reverse order, a view."""

    def __abs__(self) -> Tensor:
        """Return the absolute value of each element; the derivative at 0 is 0."""

    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __eq__(self, other: builtins.object) -> Any: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor:
        """Return ``input[index]``: a view, one step per dimension; a copy where tensors, lists or masks stand in the index."""

    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """`add`, in place."""

    def __imul__(self, other: Operand) -> Tensor:
        """`mul`, in place."""

    def __invert__(self) -> Tensor:
        """Return whether each element is zero."""

    def __ipow__(self, exponent: Operand) -> Tensor:
        """`pow`, in place."""

    def __isub__(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """`sub`, in place."""

    def __itruediv__(self, other: Operand) -> Tensor:
        """`div`, in place."""

    def __le__(self, other: Operand) -> Tensor: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __matmul__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __ne__(self, other: builtins.object) -> Any: ...
    def __neg__(self) -> Tensor:
        """Return ``-input``."""

    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """Return the tensor itself."""

    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __repr__(self) -> builtins.str:
        """Return ``tensor([1., 2.], grad_fn=<MulBackward0>)``."""

    def __rmatmul__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __setitem__(self, index: Any, value: Operand) -> None:
        """Write ``self[index] = value``: through a view, or element by element where tensors or masks stand in the index."""

    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def _recorded_copy(self) -> Tensor:
        """Return a copy as ``.grad`` holds it under ``create_graph``."""

    def abs(self) -> Tensor:
        """Return the absolute value of each element; the derivative at 0 is 0."""

    def abs_(self) -> Tensor:
        """`abs`, in place."""

    def absolute(self) -> Tensor:
        """Return the absolute value of each element; the derivative at 0 is 0."""

    def absolute_(self) -> Tensor:
        """`abs`, in place."""

    def add(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """Return ``input + alpha * other``."""

    def add_(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """`add`, in place."""

    def all(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return whether all elements are true, in all or along dimensions."""

    def any(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return whether any elements are true, in all or along dimensions."""

    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the position of the maximum, in all or along a dimension."""

    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the position of the minimum, in all or along a dimension."""

    def backward(
        self,
        gradient: Any = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to the ``.grad`` of leaves; see `functrace.torch.autograd.backward`."""

    def bitwise_and(self, other: Operand) -> Tensor:
        """Return the bits that both have."""

    def bitwise_or(self, other: Operand) -> Tensor:
        """Return the bits that one or both have."""

    def bmm(self, other: Operand) -> Tensor:
        """Return the products of pairs of matrices."""

    def ceil(self) -> Tensor:
        """Return the smallest integer that is not below each element."""

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Return each element, or the bound that it is beyond; on a bound the derivative is 1."""

    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """`clamp`, in place."""

    def clamp_max(self, max: Operand) -> Tensor:
        """Return each element, or the bound that it is above."""

    def clamp_min(self, min: Operand) -> Tensor:
        """Return each element, or the bound that it is below."""

    def clone(self) -> Tensor:
        """Return a copy, through which gradients flow."""

    def contiguous(self) -> Tensor:
        """Return the tensor itself if its elements lie in order, a copy otherwise."""

    def copy_(self, src: Operand, non_blocking: builtins.bool = False) -> Tensor:
        """Overwrite with another tensor's elements, broadcast and converted."""

    def cos(self) -> Tensor:
        """Return the cosine of each element."""

    def cos_(self) -> Tensor:
        """`cos`, in place."""

    def cpu(self) -> Tensor:
        """Return the tensor itself: it lives there."""

    def detach_(self) -> Tensor:
        """Forget the history, in place."""

    def div(self, other: Operand) -> Tensor:
        """Return ``input / other``; integers divide to floats."""

    def div_(self, other: Operand) -> Tensor:
        """`div`, in place."""

    def divide(self, other: Operand) -> Tensor:
        """Return ``input / other``; integers divide to floats."""

    def divide_(self, other: Operand) -> Tensor:
        """`div`, in place."""

    def dot(self, other: Operand) -> Tensor:
        """Return the product of two vectors."""

    def double(self) -> Tensor:
        """Return the tensor as torch.float64."""

    def eq(self, other: Operand) -> Tensor:
        """Return where ``input`` is equal to ``other``, element by element."""

    def exp(self) -> Tensor:
        """Return the exponential of each element."""

    def exp_(self) -> Tensor:
        """`exp`, in place."""

    def expand(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view that repeats dimensions of size 1; -1 leaves a size as it is."""

    def expand_as(self, other: Operand) -> Tensor:
        """Return a view expanded to another tensor's shape."""

    def fill_(self, value: Operand) -> Tensor:
        """Overwrite every element with a number."""

    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Return the tensor with dimensions merged into one."""

    def float(self) -> Tensor:
        """Return the tensor as torch.float32."""

    def floor(self) -> Tensor:
        """Return the largest integer that is not above each element."""

    def gather(self, dim: builtins.int, index: Operand) -> Tensor:
        """Return elements picked by position along a dimension."""

    def ge(self, other: Operand) -> Tensor:
        """Return where ``input`` is at least ``other``, element by element."""

    @property
    def grad_fn(self) -> Any:
        """The node that computed this tensor; made again if it is a view whose base was overwritten."""

    def gt(self, other: Operand) -> Tensor:
        """Return where ``input`` is greater than ``other``, element by element."""

    def half(self) -> Tensor:
        """Return the tensor as torch.float16."""

    def int(self) -> Tensor:
        """Return the tensor as torch.int32."""

    def isfinite(self) -> Tensor:
        """Return whether each element is finite."""

    def isnan(self) -> Tensor:
        """Return whether each element is not a number."""

    def le(self, other: Operand) -> Tensor:
        """Return where ``input`` is at most ``other``, element by element."""

    def log(self) -> Tensor:
        """Return the natural logarithm of each element."""

    def log1p(self) -> Tensor:
        """Return ``log(1 + input)``, accurate near 0."""

    def log_(self) -> Tensor:
        """`log`, in place."""

    def log_softmax(self, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the log of the softmax along a dimension."""

    def logical_and(self, other: Operand) -> Tensor:
        """Return where both are different from zero."""

    def logical_not(self) -> Tensor:
        """Return whether each element is zero."""

    def logical_or(self, other: Operand) -> Tensor:
        """Return where one or both are different from zero."""

    def logsumexp(self, dim: Dims, keepdim: builtins.bool = False) -> Tensor:
        """Return ``log(sum(exp(input)))`` along dimensions, without overflow."""

    def long(self) -> Tensor:
        """Return the tensor as torch.int64."""

    def lt(self, other: Operand) -> Tensor:
        """Return where ``input`` is less than ``other``, element by element."""

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions swapped, a view."""

    def matmul(self, other: Operand) -> Tensor:
        """Return the product of matrices, vectors, or stacks of matrices, as PyTorch composes it of simpler ones."""

    def max(self, dim: Operand | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the maximum: of all, along a dimension (with indices), of two tensors."""

    def maximum(self, other: Operand) -> Tensor:
        """Return the larger element of each pair; a tie splits the gradient evenly."""

    def mean(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the mean of all elements, or along dimensions."""

    def min(self, dim: Operand | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the minimum: of all, along a dimension (with indices), of two tensors."""

    def minimum(self, other: Operand) -> Tensor:
        """Return the smaller element of each pair; a tie splits the gradient evenly."""

    def mm(self, other: Operand) -> Tensor:
        """Return the product of two matrices."""

    def mul(self, other: Operand) -> Tensor:
        """Return ``input * other``."""

    def mul_(self, other: Operand) -> Tensor:
        """`mul`, in place."""

    def multiply(self, other: Operand) -> Tensor:
        """Return ``input * other``."""

    def multiply_(self, other: Operand) -> Tensor:
        """`mul`, in place."""

    def mv(self, other: Operand) -> Tensor:
        """Return the product of a matrix and a vector."""

    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """Return a view of ``length`` positions along a dimension."""

    def ne(self, other: Operand) -> Tensor:
        """Return where ``input`` is different from ``other``, element by element."""

    def neg(self) -> Tensor:
        """Return ``-input``."""

    def neg_(self) -> Tensor:
        """`neg`, in place."""

    def negative(self) -> Tensor:
        """Return ``-input``."""

    def negative_(self) -> Tensor:
        """`neg`, in place."""

    def new_ones(self, *size: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return ones of this dtype."""

    def new_tensor(self, data: Any) -> Tensor:
        """Return a tensor of ``data`` of this dtype."""

    def new_zeros(self, *size: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return zeros of this dtype."""

    def permute(self, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view with dimensions in another order."""

    def pow(self, exponent: Operand) -> Tensor:
        """Return ``input ** exponent``; either may be a number."""

    def pow_(self, exponent: Operand) -> Tensor:
        """`pow`, in place."""

    def prod(
        self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None
    ) -> Tensor:
        """Return the product of all elements, or along a dimension; integers multiply to int64."""

    def reciprocal(self) -> Tensor:
        """Return ``1 / input``."""

    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Call ``hook(grad)`` whenever the gradient of this tensor is known; a tensor that it returns takes its place."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(leaf)`` after a gradient has been added to ``leaf.grad``."""

    def relu(self) -> Tensor:
        """Return each element, or 0 if it is negative; the derivative at 0 is 0."""

    def relu_(self) -> Tensor:
        """`relu`, in place."""

    def reshape(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view with another shape, or a copy where the memory does not lie so."""

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return this tensor in another one's shape."""

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in ``.grad``, as leaves do."""

    def round(self) -> Tensor:
        """Return the nearest integer; halves go to the even one."""

    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return a view of one position along a dimension."""

    def sigmoid(self) -> Tensor:
        """Return ``1 / (1 + exp(-input))``."""

    def sigmoid_(self) -> Tensor:
        """`sigmoid`, in place."""

    def sign(self) -> Tensor:
        """Return the sign of each element."""

    def sin(self) -> Tensor:
        """Return the sine of each element."""

    def sin_(self) -> Tensor:
        """`sin`, in place."""

    def softmax(self, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the softmax along a dimension."""

    def sqrt(self) -> Tensor:
        """Return the square root of each element."""

    def sqrt_(self) -> Tensor:
        """`sqrt`, in place."""

    def square(self) -> Tensor:
        """Return ``input ** 2``."""

    def squeeze(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Return a view without dimensions of size 1."""

    def sub(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """Return ``input - alpha * other``."""

    def sub_(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """`sub`, in place."""

    def subtract(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """Return ``input - alpha * other``."""

    def subtract_(self, other: Operand, *, alpha: Operand = 1) -> Tensor:
        """`sub`, in place."""

    def sum(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the sum of all elements, or along dimensions; integers sum to int64."""

    def t(self) -> Tensor:
        """Return the transpose of a matrix (a vector or a number is left as it is)."""

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent of each element."""

    def tanh_(self) -> Tensor:
        """`tanh`, in place."""

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the tensor in another dtype, or in another tensor's; devices are accepted, there is one."""

    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Return a view with two dimensions swapped."""

    def true_divide(self, other: Operand) -> Tensor:
        """Return ``input / other``; integers divide to floats."""

    def true_divide_(self, other: Operand) -> Tensor:
        """`div`, in place."""

    def type_as(self, other: Tensor) -> Tensor:
        """Return the tensor in another one's dtype."""

    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """Return a view with one more dimension, of size 1."""

    def view(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view with another shape."""

    def view_as(self, other: Tensor) -> Tensor:
        """Return a view of another tensor's shape."""

    def where(self, condition: Operand, other: Operand) -> Tensor:
        """Return this where the condition holds, ``other`` elsewhere."""

    def zero_(self) -> Tensor:
        """Overwrite every element with 0."""
