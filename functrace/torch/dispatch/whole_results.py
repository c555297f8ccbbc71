"""Operations of PyTorch that return more than the op here: dispatch modes see all of it.

PyTorch's operation of a determinant, ``_linalg_det``, also returns the factors by which it computed
it. The op here returns the determinant alone. While a mode is active, `WHOLE` completes its results
for the handler, and takes from what the handler returns those that the op has.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrace.torch.functions import attention
from functrace.torch.functions.linear_algebra import solving, spectra
from functrace.torch.functions.linear_algebra.checks import eliminated, failed
from functrace.torch.tensors.tensor import Tensor, wrap


class Whole(NamedTuple):
    """Completion of the results of an op.

    Args:
        complete: all results of the overload, from those of the op, its operands and its
            parameters.
        own: which of them are the op's (one number if it has one result), or what computes the op's
            from them.
    """

    complete: Callable[..., tuple[Any, ...]]
    own: int | tuple[int, ...] | Callable[..., Any]

    def chosen(self, results: tuple[Any, ...]) -> Any:
        """Return the op's results among those of a handler."""
        if isinstance(self.own, int):
            return results[self.own]
        if callable(self.own):
            return self.own(*results)
        return tuple([results[k] for k in self.own])


def _lu(A: Tensor, *, turned: bool) -> tuple[Tensor, Tensor]:
    """Return factors and pivots; of the transposed matrices where PyTorch takes those."""
    array = A._array
    if turned and array.flags.c_contiguous and array.dtype.kind != "c":
        array = array.swapaxes(-1, -2)
    lu, pivots, _ = eliminated(array)
    return wrap(lu), wrap(pivots)


def _info(A: Tensor) -> Tensor:
    return wrap(np.zeros(A._array.shape[:-2], np.int32))


def _lu_info(lu: Tensor) -> Tensor:
    """Return 0, or the position of the first zero on the diagonal of each matrix."""
    zero = np.diagonal(lu._array, 0, -2, -1) == 0
    first = np.argmax(zero, -1) + 1 if zero.shape[-1] else np.zeros(zero.shape[:-1], np.int32)
    return wrap(np.where(zero.any(-1), first, 0).astype(np.int32))


def _with_order(lu: Tensor, pivots: Tensor, _info: Tensor) -> tuple[Tensor, ...]:
    """Return factors, pivots, and the order of rows that the pivots make."""
    swaps = pivots._array.astype(np.int64) - 1
    order = np.broadcast_to(
        np.arange(lu._array.shape[-2]), (*swaps.shape[:-1], lu._array.shape[-2])
    )
    order = order.copy()
    for k in range(swaps.shape[-1]):
        other = swaps[..., k : k + 1]
        held = np.take_along_axis(order, other, -1)
        np.put_along_axis(order, other, order[..., k : k + 1].copy(), -1)
        order[..., k : k + 1] = held
    return lu, pivots, wrap(order)


def _least_squares(made: tuple[Tensor, ...], A: Tensor, *_: Any) -> tuple[Tensor, ...]:
    """Return solution and rank, with empty residuals and singular values between and after."""
    empty = np.zeros(0, A._array.dtype)
    return made[0], wrap(empty), made[1], wrap(empty.copy())


def attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Return attention, and the logarithms of the sums that divide the weights."""
    out = attention.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale
    )
    factor = query._array.shape[-1] ** -0.5 if scale is None else scale
    masks = () if attn_mask is None else (attn_mask,)
    return _log_sums(out, query, key, value, *masks, factor, is_causal, False)  # type: ignore[arg-type]


def _log_sums(out: Tensor, query: Tensor, key: Tensor, _value: Tensor, *rest: Any) -> Any:
    """Return attention, and the logarithms of the sums that divide the weights."""
    *masks, scale, causal, _ = rest
    mask = masks[0]._array if masks else None
    scores = attention._scores(query._array, key._array, mask, scale, causal)
    most = scores.max(-1)
    safe = np.where(most == -np.inf, 0, most)
    return out, wrap(np.log(np.exp(scores - safe[..., None]).sum(-1)) + safe)


def _bags(out: Tensor, _weight: Tensor, _indices: Tensor, bags: Tensor, *rest: Any) -> Any:
    """Return sums of rows, the bag of each, and the sizes of the bags."""
    count = rest[2]
    counted = np.bincount(bags._array, minlength=count).astype(np.int64)
    return out, bags, wrap(counted), wrap(counted.copy())


def _largest_bags(made: Any, _weight: Tensor, _places: Tensor, there: Tensor, *_: Any) -> Any:
    """Return maxima of rows, the bag of each position, the sizes of the bags, and positions."""
    sizes = there._array.sum(1).astype(np.int64)
    return made[0], wrap(np.repeat(np.arange(len(sizes)), sizes)), wrap(sizes), made[1]


WHOLE: dict[str, Whole] = {
    "linalg_inv": Whole(lambda x, A: (x, _info(A)), 0),
    "linalg_cholesky": Whole(lambda x, A, upper: (x, _info(A)), 0),
    "linalg_solve": Whole(
        lambda x, A, B, *_: (x, *_lu(A, turned=False), _info(A)), 0
    ),
    "LinalgDetBackward0": Whole(lambda x, A: (x, *_lu(A, turned=True)), 0),
    "LinalgSlogdetBackward0": Whole(lambda x, A: (*x, *_lu(A, turned=True)), (0, 1)),
    "linalg_eigvalsh": Whole(lambda x, A, uplo: (x, spectra.eigh(A, uplo)[1]), 0),
    "linalg_svdvals": Whole(lambda x, A: spectra.linalg_svd(A, False), 1),
    "linalg_qr_triangle": Whole(
        lambda x, A, mode: (wrap(np.zeros(0, A._array.dtype)), x), 1
    ),
    "ScaledDotProductFlashAttentionForCpuBackward0": Whole(_log_sums, 0),
    "embedding_sum": Whole(_bags, 0),
    "embedding_weighted_sum": Whole(_bags, 0),
    "EmbeddingBagBackward0": Whole(_largest_bags, (0, 3)),
    "fractional_max_pool2d": Whole(lambda x, given, places, *_: (x, places), 0),
    "fractional_max_pool3d": Whole(lambda x, given, places, *_: (x, places), 0),
    "LinalgLuFactorExBackward0": Whole(lambda x, A: (x[0], x[1], _lu_info(x[0])), _with_order),
    "LinalgLstsqBackward0": Whole(_least_squares, (0, 2)),
}  # fmt: skip
"""By PyTorch's name of the operation, or of the node."""


# -- functions of the overloads, for handlers that change the arguments ----------------------------


def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """Return the inverse, and 0 or the position of a zero pivot."""
    return tuple(solving.inv_ex(A, check_errors=check_errors))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return the solution, the factors of ``A``, their pivots, and 0 or the place of a zero."""
    x, info = solving.solve_ex(A, B, left=left, check_errors=check_errors)
    return x, *_lu(A, turned=False), info


def det(A: Tensor) -> Any:
    """Return the determinant, and the factors."""
    return solving.det(A), *_lu(A, turned=True)


def slogdet(A: Tensor) -> Any:
    """Return sign and logarithm of the determinant, and the factors."""
    return *solving.linalg_slogdet(A), *_lu(A, turned=True)


def svd(A: Tensor, full_matrices: bool = False, compute_uv: bool = True, **given: Any) -> Any:
    """Return singular vectors and values; without ``compute_uv``, empty vectors."""
    if compute_uv:
        return tuple(spectra.linalg_svd(A, full_matrices, **given))
    empty = wrap(np.zeros(0, A._array.dtype))
    return empty, spectra.svdvals(A, **given), empty


def eigh(A: Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:
    """Return eigenvalues and eigenvectors; without ``compute_v``, empty vectors."""
    if compute_v:
        return tuple(spectra.eigh(A, UPLO))
    return spectra.eigvalsh(A, UPLO), wrap(np.zeros(0, A._array.dtype))


def check_errors(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    """Raise if a matrix was singular, or not positive definite.

    Raises:
        RuntimeError: for an information other than 0.
    """
    if info._array.any():
        raise failed(api_name, info._array)
