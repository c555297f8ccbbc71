"""``torch.nn.utils.rnn``: sequences of several lengths, padded or packed.

Packed sequences have the elements of all of them, step by step: those of the first step, then those
of the second, without padding. Sequences are in order of their lengths, longest first.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.ops.indexing import gather
from functrace.torch import namespace as torch
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.nn.modules.converting import parse_to
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


PACK = Op(
    "PackPaddedSequenceBackward0",
    lambda x, step, place: gather(x, ("array", "array"), (step, place)),
    (("step", 1), ("place", 2)),
    edges=(0,),
)


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of several lengths, step by step; made by `pack_padded_sequence`.

    Args:
        data: the elements of all sequences.
        batch_sizes: the number of sequences that have a step, by step.
        sorted_indices: the order of the sequences, longest first; None if they were in order.
        unsorted_indices: the inverse order.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: object,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Any:
        """Make packed sequences."""
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)  # type: ignore[arg-type]

    def to(self, *args: object, **kwargs: object) -> PackedSequence:
        """Convert the elements."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        parse_to(*args, **kwargs)  # refuses an argument that says whether to copy
        return type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def cpu(self, *args: object, **kwargs: object) -> PackedSequence:
        """Convert the elements, which are on the CPU."""
        return self.to(*args, **kwargs)

    def cuda(self, *args: object, **kwargs: Any) -> PackedSequence:
        """Raise as a build for the CPU does."""
        return self.to(*args, **{**kwargs, "device": "cuda"})

    def double(self) -> PackedSequence:
        """Convert the elements to float64."""
        return self.to(dtype=torch.double)

    def float(self) -> PackedSequence:
        """Convert the elements to float32."""
        return self.to(dtype=torch.float)

    def half(self) -> PackedSequence:
        """Convert the elements to float16."""
        return self.to(dtype=torch.half)

    def long(self) -> PackedSequence:
        """Convert the elements to int64."""
        return self.to(dtype=torch.long)

    def int(self) -> PackedSequence:
        """Convert the elements to int32."""
        return self.to(dtype=torch.int)

    def short(self) -> PackedSequence:
        """Convert the elements to int16."""
        return self.to(dtype=torch.short)

    def char(self) -> PackedSequence:
        """Convert the elements to int8."""
        return self.to(dtype=torch.int8)

    def byte(self) -> PackedSequence:
        """Convert the elements to uint8."""
        return self.to(dtype=torch.uint8)

    def pin_memory(self) -> PackedSequence:
        """Return the sequences."""
        return self

    @property
    def is_cuda(self) -> bool:
        """False: the CPU is the only device."""
        return False

    def is_pinned(self) -> bool:
        """Return False."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation; None for None."""
    if permutation is None:
        return None
    return torch.empty_like(permutation).scatter_(0, permutation, torch.arange(permutation.numel()))


def _steps(lengths: Any) -> Any:
    """Return the number of sequences that have each step; lengths are in descending order."""
    return np.sum(lengths[None, :] > np.arange(lengths[0])[:, None], axis=1)


def _places(sizes: Any) -> tuple[Any, Any]:
    """Return the step and the sequence of each element of packed sequences."""
    step = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum(sizes) - sizes
    return step, np.arange(int(np.sum(sizes))) - first[step]


def pack_padded_sequence(
    input: Tensor,
    lengths: Any,
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack sequences that are padded to the same length.

    Args:
        input: (steps, batch, *), or (batch, steps, *) if ``batch_first``.
        lengths: the length of each sequence.
        batch_first: whether the batch is the first axis.
        enforce_sorted: whether lengths must be in descending order.

    Raises:
        RuntimeError: for lengths that are not positive, or not in order.

    Example:
        >>> import functrace.torch as torch
        >>> padded = torch.tensor([[1, 2, 0], [3, 4, 5]])
        >>> torch.nn.utils.rnn.pack_padded_sequence(padded, [2, 3], True, enforce_sorted=False).data
        tensor([3, 1, 4, 2, 5])
    """
    if not isinstance(lengths, Tensor):
        lengths = torch.as_tensor(list(lengths), dtype=torch.int64)
    order = None
    if not enforce_sorted:
        lengths, order = torch.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    counts = lengths.numpy()
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if len(counts) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} "
            f"(batch_size={input.size(1)})"
        )
    if counts[-1] <= 0 or (counts <= 0).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if (np.diff(counts) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if counts[0] > input.size(0):
        raise RuntimeError(
            f"Length of all samples has to be at most {input.size(0)}, the number of steps of the "
            f"input, but found {counts[0]} in 'lengths'"
        )
    sizes = _steps(counts)
    step, place = (torch.from_numpy(x) for x in _places(sizes))
    data = apply(PACK, (input, step, place))
    return PackedSequence(data, torch.from_numpy(sizes), order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return packed sequences, padded to the same length, and their lengths.

    Args:
        sequence: the packed sequences.
        batch_first: whether the batch is the first axis of the result.
        padding_value: value of the padding.
        total_length: length of the result; by default that of the longest sequence.

    Raises:
        ValueError: for a total length that is too small.
    """
    data, batch_sizes, _, back = sequence
    sizes = batch_sizes.numpy()
    longest = len(sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    batch = int(sizes[0])
    step, place = _places(sizes)
    lengths = torch.from_numpy(np.sum(np.arange(batch)[:, None] < sizes[None, :], axis=1))
    padded = torch.full((longest, batch, *data.shape[1:]), padding_value, dtype=data.dtype)
    padded[torch.from_numpy(step), torch.from_numpy(place)] = data
    if batch_first:
        padded = padded.transpose(0, 1)
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back]
    return padded, lengths


def pad_sequence(
    sequences: object,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences as one tensor, padded to the same length.

    Args:
        sequences: tensors whose axes but the first have the same sizes.
        batch_first: whether the batch is the first axis of the result.
        padding_value: value of the padding.
        padding_side: ``"right"`` or ``"left"``.

    Raises:
        RuntimeError: if ``sequences`` is no iterable, is empty, or for another side.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    given: Sequence[Any] = (
        sequences.unbind(0) if isinstance(sequences, Tensor) else tuple(sequences)
    )
    if not given:
        raise RuntimeError("received an empty list of sequences")
    longest = max(x.size(0) for x in given)
    rows = []
    for x in given:
        n = longest - x.size(0)
        if n:
            filled = torch.full((n, *x.shape[1:]), padding_value, dtype=x.dtype)
            x = torch.cat([filled, x] if padding_side == "left" else [x, filled])
        rows.append(x)
    return torch.stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded tensor.

    Args:
        padded_sequences: (steps, batch, *), or (batch, steps, *) if ``batch_first``.
        lengths: the length of each sequence.
        batch_first: whether the batch is the first axis.
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [x[: int(n)] for x, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors whose axes but the first have the same sizes.

    Args:
        sequences: the tensors.
        enforce_sorted: whether lengths must be in descending order.
    """
    lengths = torch.as_tensor([x.size(0) for x in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of packed ones."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
