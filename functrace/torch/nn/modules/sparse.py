"""Embeddings: rows of a table.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.nn import init
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.nn.parameter import Parameter
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor


class _Table(Module):
    """A table of rows."""

    weight: Any
    padding_idx: int | None

    def _set_table(
        self, rows: int, columns: int, padding_idx: int | None, weight: Any, frozen: bool,
        device: DeviceLike | None, dtype: Dtype | None,
    ) -> None:  # fmt: skip
        self.num_embeddings, self.embedding_dim = rows, columns
        if padding_idx is not None:
            if not -rows <= padding_idx < rows:
                first = "P" if isinstance(self, Embedding) else "p"
                raise AssertionError(f"{first}adding_idx must be within num_embeddings")
            padding_idx %= rows
        self.padding_idx = padding_idx
        if weight is None:
            self.weight = Parameter(
                torch.empty((rows, columns), device=device, dtype=dtype), requires_grad=not frozen
            )
            self.reset_parameters()
        else:
            if list(weight.shape) != [rows, columns]:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(weight, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Draw the rows normally; that of ``padding_idx`` is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Rows of a table, by number.

    Args:
        num_embeddings: number of rows.
        embedding_dim: length of a row.
        padding_idx: a row that is zero, and has no gradient.
        max_norm: rows with a larger norm are scaled to it, in the table.
        norm_type: order of this norm.
        scale_grad_by_freq: whether gradients are divided by how often a row is in the batch.
        sparse: whether the gradient is a sparse tensor.
        _weight: the table; drawn by default.
        _freeze: whether the table has no gradient.
        device: the CPU.
        dtype: element type of the table.

    Example:
        >>> import functrace.torch as torch
        >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 5]])).shape
        torch.Size([2, 2, 3])
    """

    __constants__ = (
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
        "scale_grad_by_freq", "sparse",
    )  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._set_table(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows of the numbers."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the arguments that are not the usual ones."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, usual in (
            ("padding_idx", None), ("max_norm", None), ("norm_type", 2),
            ("scale_grad_by_freq", False), ("sparse", False),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not usual and value != usual:
                text += f", {name}={value}"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        """Return an embedding with a given table.

        Args:
            embeddings: the table.
            freeze: whether it has no gradient.
            padding_idx: a row without gradient.
            max_norm: rows with a larger norm are scaled to it, in the table.
            norm_type: order of this norm.
            scale_grad_by_freq: whether gradients are divided by how often a row is in the batch.
            sparse: whether the gradient is a sparse tensor.
        """
        rows, columns = _table_size(embeddings)
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            embeddings, freeze,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a table.

    Args:
        num_embeddings: number of rows.
        embedding_dim: length of a row.
        max_norm: rows with a larger norm are scaled to it, in the table.
        norm_type: order of this norm.
        scale_grad_by_freq: whether gradients are divided by how often a row is in the batch.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: whether the gradient is a sparse tensor.
        _weight: the table; drawn by default.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: a row that no bag counts.
        device: the CPU.
        dtype: element type of the table.
    """

    __constants__ = (
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode",
        "sparse", "include_last_offset", "padding_idx",
    )  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.mode, self.include_last_offset = mode, include_last_offset
        self._set_table(num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Return a row for each bag.

        Args:
            input: (bags, size) numbers of rows; or all of them in one axis.
            offsets: then, where each bag begins.
            per_sample_weights: factors of the rows, for sums.
        """
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the arguments that are not the usual ones."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Any:
        """Return an embedding bag with a given table.

        Args:
            embeddings: the table.
            freeze: whether it has no gradient.
            max_norm: rows with a larger norm are scaled to it, in the table.
            norm_type: order of this norm.
            scale_grad_by_freq: whether gradients are divided by how often a row is in the batch.
            mode: ``"sum"``, ``"mean"`` or ``"max"``.
            sparse: whether the gradient is a sparse tensor.
            include_last_offset: whether the last offset is the end of the last bag.
            padding_idx: a row that no bag counts.
        """
        rows, columns = _table_size(embeddings)
        made = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        made.weight.requires_grad = not freeze
        return made


def _table_size(embeddings: Tensor) -> Any:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    return embeddings.shape
