# ruff: noqa: E501 - broken where the message allows it, not at a column
"""Messages about linear algebra, and its exception.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final


@final
class LinAlgError(RuntimeError):
    """A matrix is singular, or not positive definite, or an algorithm does not converge."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"

C_NAMES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short int",
    "int32": "int", "int64": "long int", "float16": "c10::Half", "float32": "float",
    "bfloat16": "c10::BFloat16",
    "float64": "double", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
"""C++'s names of dtypes."""

SVD_NOT_FINITE = "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
SVD_DRIVER = "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
UNPACK_PIVOTS = (
    "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
    "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
)
NORM_DIMENSIONS = (
    "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got 3D."
)
TRIANGULAR_SOLVE = (
    "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular"
    "and will be removed in a future PyTorch release.\n"
    "torch.linalg.solve_triangular has its arguments reversed and does not return a copy of one of the inputs.\n"
    "X = torch.triangular_solve(B, A).solution\nshould be replaced with\n"
    "X = torch.linalg.solve_triangular(A, B)."
)
QR = (
    "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\n"
    "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\n"
    "Q, R = torch.qr(A, some)\nshould be replaced with\n"
    "Q, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
)
LU = (
    "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a future PyTorch release.\n"
    "LU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
    "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
    "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
    "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
)
LU_SOLVE = (
    "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release.\n"
    "Note that torch.linalg.lu_solve has its arguments reversed.\n"
    "X = torch.lu_solve(B, LU, pivots)\nshould be replaced with\n"
    "X = torch.linalg.lu_solve(LU, pivots, B)"
)
CHAIN_MATMUL = (
    "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
    "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than multiple parameters."
)
CROSS = (
    "Using torch.cross without specifying the dim arg is deprecated.\n"
    "Please either pass the dim explicitly or simply use torch.linalg.cross.\n"
    "The default value of dim will change to agree with that of linalg.cross in a future release."
)
_REMOVED = "This function was deprecated since version 1.9 and is now removed."
_INSTEAD = {
    "lstsq": " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.",
    "solve": " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments reversed and does not return the LU factorization.",
    "eig": " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking complex tensors.",
    "symeig": " The default behavior has changed from using the upper triangular portion of the matrix by default to using the lower triangular portion.",
}


def removed(name: str) -> str:
    """Return the message for a function that PyTorch has removed."""
    return _REMOVED + _INSTEAD.get(name, "")


def matrix_dimensions(name: str, argument: str) -> str:
    """Return the message for fewer than two dimensions."""
    return f"{name}: The input tensor {argument} must have at least 2 dimensions."


def not_square(name: str, argument: str, shape: Sequence[int]) -> str:
    """Return the message for matrices that are not square."""
    return (
        f"{name}: {argument} must be batches of square matrices, but they are {shape[-2]} by "
        f"{shape[-1]} matrices"
    )


def floats_expected(name: str, dtype: str) -> str:
    """Return the message for integers."""
    return f"{name}: Expected a floating point or complex tensor as input. Got {dtype}"


def singular(name: str, where: str, pivot: int) -> str:
    """Return the message for a singular matrix."""
    return (
        f"{name}: {where}The diagonal element {pivot} is zero, the inversion could not be "
        "completed because the input matrix is singular."
    )


def solver_failed(name: str, where: str) -> str:
    """Return the message for a system with a singular matrix."""
    return f"{name}: {where}The solver failed because the input matrix is singular."


def ldl_singular(where: str, pivot: int) -> str:
    """Return the message for a singular matrix of ``ldl_factor``."""
    return (
        f"torch.linalg.ldl_factor_ex: {where}The diagonal element {pivot} is zero, the "
        "factorization could not be completed because the input matrix is singular."
    )


def not_positive_definite(name: str, where: str, order: int) -> str:
    """Return the message for a matrix that is not positive definite."""
    return (
        f"{name}: {where}The factorization could not be completed because the input is not "
        f"positive-definite (the leading minor of order {order} is not positive-definite)."
    )


def system_dtypes(name: str, first: str, second: str) -> str:
    """Return the message for a system of different dtypes."""
    return (
        f"{name}: Expected A and B to have the same dtype, but found A of type {first} and B of "
        f"type {second} instead"
    )


def system_shapes(name: str, a: Sequence[int], b: Sequence[int], *, left: bool) -> str:
    """Return the message for a system whose shapes do not fit."""
    return (
        f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
        f"({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})"
    )


def incompatible(name: str, a: Sequence[int], b: Sequence[int]) -> str:
    """Return the message for a system of an older function whose shapes do not fit."""
    return (
        f"Incompatible matrix sizes for {name}: each A matrix is {a[-1]} by {a[-1]} but each b "
        f"matrix is {b[-2]} by {b[-1]}"
    )


def lstsq_dtypes(first: str, second: str) -> str:
    """Return the message for different dtypes."""
    return (
        "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's "
        f"dtype {first} and other's dtype {second}"
    )


def pinv_operand(dtype: str, shape: Sequence[int]) -> str:
    """Return the message for an operand without pseudoinverse."""
    return (
        f"linalg.pinv({dtype}{{{list(shape)}}}): expected a tensor with 2 or more dimensions of "
        "float, double, cfloat or cdouble types"
    )


def qr_mode(mode: str) -> str:
    """Return the message for an unknown mode."""
    return (
        f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
        "'complete'"
    )


def lu_dimensions(name: str, shape: Sequence[int]) -> str:
    """Return the message for fewer than two dimensions."""
    return f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(shape)} instead"


def zero_pivot(name: str, where: str, place: int) -> str:
    """Return the message for a pivot that is 0."""
    return (
        f"{name}: {where}U[{place},{place}] is zero and using it on lu_solve would result in a "
        "division by zero. If you still want to perform the factorization, consider calling "
        "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


def multi_dot_dtypes(place: int, first: str, other: str) -> str:
    """Return the message for different dtypes."""
    return (
        f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {first} and tensor "
        f"{place} {other}"
    )


def norm_of_nothing(order: float, axes: Sequence[int] | None) -> str:
    """Return the message for a norm without an identity."""
    if axes is None:
        return (
            f"linalg.vector_norm cannot compute the {order:g} norm on an empty tensor because the "
            "operation does not have an identity"
        )
    return (
        f"linalg.vector_norm cannot compute the {order:g} norm on the dimension {axes[0]} because "
        "this dimension is empty and the operation does not have an identity"
    )


def norm_dims(count: int) -> str:
    """Return the message for a matrix norm of other than two dimensions."""
    return f"linalg.matrix_norm: dim must be a 2-tuple. Got {count} dimensions"


def norm_dims_given(dims: Sequence[int]) -> str:
    """Return the message for a norm of other than one or two dimensions."""
    return (
        "linalg.norm: If dim is specified, it must be of length 1 or 2. Got "
        f"[{', '.join(map(str, dims))}]"
    )
