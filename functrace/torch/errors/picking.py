"""Messages about indexing, splitting and joining tensors.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence

REPEAT_RANK = (
    "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
)


def split_sizes(size: int, dim: int, sections: Sequence[int]) -> str:
    """Return the message for sizes of pieces that do not add up."""
    return (
        f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at "
        f"dimension {dim}), but got "
        f"split_sizes={list(sections)}"
    )


def mask_dtype(name: str, dtype: str) -> str:
    """Return the message for a mask that is not of bools."""
    if name == "masked_select":
        return "masked_select: expected BoolTensor for mask"
    return f"{name} only supports boolean masks, but got mask with dtype {_C_NAMES.get(dtype, dtype.lower())}"


_C_NAMES = {
    "Byte": "unsigned char", "Char": "signed char", "Short": "short int", "Long": "long int",
    "Half": "c10::Half",
    "ComplexFloat": "c10::complex<float>", "ComplexDouble": "c10::complex<double>",
}  # fmt: skip


def masked_fill_value(ndim: int) -> str:
    """Return the message for filling with a tensor that is not 0-d."""
    return f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {ndim} dimension(s)."


def index_dtype(name: str, dtype: str) -> str:
    """Return the message for positions that are no integers."""
    if name == "index_add":
        return f"index_add_(): Expected dtype int32/int64 for index but got: {dtype}"
    if name == "index_select":
        return "index_select(): Expected dtype int32 or int64 for index"
    return f"{name}(): Expected dtype int32/int64 for index"


def position_range(index: int, dim: int, size: int) -> str:
    """Return the message for an index out of range."""
    return f"index {index} is out of bounds for dimension {dim} with size {size}"


def source_dtype(name: str) -> str:
    """Return the message for a source of another dtype."""
    return f"{name}(): self and source expected to have the same dtype"


def source_size(name: str, count: int, size: int, dim: int) -> str:
    """Return the message for a source whose size is not the number of indices."""
    return f"{name}_(): Number of indices ({count}) should be equal to source.size(dim): ({size}), for dim: {dim}"


def scatter_sizes(
    index: Sequence[int], input: Sequence[int], dim: int, source: Sequence[int]
) -> str:
    """Return the message for more indices than elements."""
    return (
        f"Expected index {list(index)} to be no larger than self {list(input)} apart from "
        f"dimension {dim} and to be no larger "
        f"size than src {list(source)}"
    )


def only_matrices(name: str, ndim: int) -> str:
    """Return the message for a transpose of a tensor that is no matrix."""
    if name == "H":
        return f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor."
    return (
        f"tensor.{name} is only supported on matrices or batches of matrices. Got {ndim}-D tensor."
    )


def einsum_rank(letters: int, ndim: int, position: int) -> str:
    """Return the message for subscripts that do not name every dimension."""
    return (
        f"einsum(): the number of subscripts in the equation ({letters}) does not match the number "
        f"of dimensions ({ndim}) for "
        f"operand {position} and no ellipsis was given"
    )


def index_of_scalar(count: int) -> str:
    """Return the message for several indices of a 0-d tensor."""
    return f"index_select(): Index to scalar can have only 1 value, got {count} value(s)"


def copy_dimensions(given: int, wanted: int) -> str:
    """Return the message for ``index_copy`` of a source of another rank."""
    return (
        "index_copy_(): When source and destination are not scalars, their dimensionality must "
        "match. Source dimensionality "
        f"({given}), destination dimensionality ({wanted})"
    )


def einsum_repeated(letter: str, size: int, before: int) -> str:
    """Return the message for a letter that names two dimensions of different sizes of one
    operand.
    """
    return f"einsum(): subscript {letter} is repeated for operand 0 but the sizes don't match, {size} != {before}"


def contains_kind(kind: type) -> str:
    """Return the message for searching an object other than a number in a tensor."""
    return f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {kind}."


MT_OF_SCALAR = (
    "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases."
)
H_OF_SCALAR = "Tensor.H is deprecated on 0-D tensors. Consider using x.conj()."
T_OF_SCALAR = "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases."
IMAG_OF_REAL = "imag is not implemented for tensors with non-complex dtypes."


DATA_DTYPE = "data set to a tensor that requires gradients must be floating point or complex dtype"


def data_type(kind: str) -> str:
    """Return the message for ``x.data = value`` with an object that is no tensor."""
    return f"Variable data has to be a tensor, but got {kind}"


def norm_of_none(order: float, dim: int | None) -> str:
    """Return the message for the norm of no elements; ``dim``: None for all."""
    what = (
        "an empty tensor because the"
        if dim is None
        else f"the dimension {dim}because this dimension is empty and the"
    )
    return f"linalg.vector_norm cannot compute the {order:g} norm on {what} operation does not have an identity"


def norm_dtype(dtype: str) -> str:
    """Return the message for the norm of integers."""
    return f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {dtype}"


def degrees_of_freedom(name: str) -> str:
    """Return the warning for the variance of too few elements."""
    return (
        f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
        "reduction factor (input numel "
        "divided by output numel)."
    )


def floats_only(name: str) -> str:
    """Return the message for statistics of integers."""
    return f"{name} only support floating point and complex dtypes"
