"""`AdaptiveLogSoftmaxWithLoss`: a softmax over many classes, frequent ones first.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from functrace.torch import namespace as torch
from functrace.torch.nn.modules.container import ModuleList, Sequential
from functrace.torch.nn.modules.linear import Linear
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log of a softmax in two steps: among frequent classes and clusters, then in a cluster.

    Args:
        in_features: size of the input.
        n_classes: number of classes.
        cutoffs: the first class of each cluster, in order.
        div_value: ratio of the sizes of projections of successive clusters.
        head_bias: whether the first step has a bias.
        device: the CPU.
        dtype: element type of the parameters.

    Raises:
        ValueError: for cutoffs that are not in order.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for k in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (k + 1)))
            classes = self.cutoffs[k + 1] - self.cutoffs[k]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, classes, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw the parameters."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log-likelihood of each target, and the negative mean of them.

        Args:
            input_: (batch, in_features), or one example.
            target_: (batch,) classes.
        """
        if target_.dim() == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError(
                    "Input and target should have the same size in the batch dimension."
                )
            if input_.dim() != 2:
                raise RuntimeError(
                    "1D target tensor expects 2D input tensors, but found inputs with size",
                    input_.size(),
                )
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(
                    "0D target tensor expects 1D input tensors, but found inputs with size",
                    input_.size(),
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        known = (target >= 0) & (target < self.n_classes)
        if not bool(known.all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        output = torch.zeros(target.shape, dtype=input.dtype)
        position = target
        for k, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            logits = F.log_softmax(self.tail[k](input.index_select(0, rows)), dim=1)
            chosen = (target.index_select(0, rows) - low).unsqueeze(1)
            output = output.index_copy(0, rows, logits.gather(1, chosen).squeeze(1))
            position = position.index_fill(0, rows, self.shortlist_size + k)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, position.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-likelihoods of all classes: (batch, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for k, cluster in enumerate(self.tail):
            inner = F.log_softmax(cluster(input), dim=1)
            place = self.shortlist_size + k
            parts.append(inner + head[:, place : place + 1])
        return torch.cat(parts, dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most likely class of each example."""
        return self.log_prob(input).argmax(dim=1)
