"""Batch and instance normalization.

Layer: 9.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from functrace.torch import namespace as torch
from functrace.torch.nn import init
from functrace.torch.nn.modules.lazy import LazyModuleMixin
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor


class _NormBase(Module):
    """The parameters and running statistics of a normalization.

    Args:
        num_features: number of channels, the second axis of the input.
        eps: added to variances.
        momentum: share of a batch in the running statistics; None for their mean.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running statistics.
        device: the CPU.
        dtype: element type of the parameters.
        bias: whether there is a bias.
    """

    _version = 2
    _dims: ClassVar[tuple[int, ...]] = ()
    """Numbers of axes that an input may have."""
    __constants__ = ("track_running_stats", "momentum", "eps", "num_features", "affine")
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats

        def made(kind: Any) -> Any:
            return kind(torch.empty(num_features, device=device, dtype=dtype))

        self.register_parameter("weight", made(Parameter) if affine else None)
        self.register_parameter("bias", made(Parameter) if affine and bias else None)
        tracks = track_running_stats
        zeros, ones = torch.zeros(num_features, dtype=dtype), torch.ones(num_features, dtype=dtype)
        self.register_buffer("running_mean", zeros if tracks else None)
        self.register_buffer("running_var", ones if tracks else None)
        count = torch.tensor(0, dtype=torch.int64) if tracks else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running statistics to those of no batch."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to ones, the bias to zeros, and the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            wanted = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        self._update_state(state_dict, prefix, local_metadata.get("version"), rest)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _update_state(
        self, state_dict: Any, prefix: str, version: int | None, rest: tuple[Any, ...]
    ) -> None:
        """Add the number of batches, which files of version 1 have not."""
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = torch.tensor(0, dtype=torch.int64) if count is None else count


class _BatchNorm(_NormBase):
    """A normalization by the statistics of each channel in a batch."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, normalized.

        Raises:
            ValueError: for an input with another number of axes.
        """
        self._check_input_dim(input)
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                share = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        if by_batch and self.eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {self.eps}")
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if keeps else None, self.running_var if keeps else None,
            self.weight, self.bias, by_batch, share, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Normalize channels of (batch, channels) or (batch, channels, length); see `BatchNorm2d`."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalize channels of images by their statistics in the batch, or by running ones.

    Args:
        num_features: number of channels, the second axis of the input.
        eps: added to variances.
        momentum: share of a batch in the running statistics; None for their mean.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running statistics.
        device: the CPU.
        dtype: element type of the parameters.
        bias: whether there is a bias.
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalize channels of volumes; see `BatchNorm2d`."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """A `BatchNorm2d` of a group of processes: of one, here."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: object = None,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: object = None) -> Any:
        """Return a module with its batch normalizations replaced by synchronized ones."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_NormBase):
    """A normalization by the statistics of each channel of each example."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        """Return the number of axes of an input that is one example."""
        return self._dims[0]

    def _update_state(
        self, state_dict: Any, prefix: str, version: int | None, rest: tuple[Any, ...]
    ) -> None:
        """Refuse running statistics, which files of version 1 may have without use."""
        super()._update_state(state_dict, prefix, version, rest)
        if version is not None or self.track_running_stats:
            return
        names = [f"{prefix}{name}" for name in ("running_mean", "running_var")]
        found = [name for name in names if name in state_dict]
        if found:
            listed = " and ".join(f'"{name}"' for name in found)
            name = type(self).__name__
            rest[3].append(
                f"Unexpected running stats buffer(s) {listed} for {name} with "
                "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, this "
                f"may be expected because {name} does not track running stats by default since "
                "0.4.0. Please remove these keys from state_dict. If the running stats are "
                "actually needed, instead set track_running_stats=True in "
                f"{name} to enable them. See the documentation of {name} for details."
            )
            for key in found:
                state_dict.pop(key)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, normalized.

        Raises:
            ValueError: for an input with another number of axes, or of channels.
        """
        self._check_input_dim(input)
        batched = input.dim() == self._dims[1]
        channels = input.size(1 if batched else 0)
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={1 if batched else 0} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={1 if batched else 0} does not match num_features. You can "
                "silence this warning by not passing in num_features, which is not used because "
                "affine=False",
                stacklevel=3,
            )
        output = F.instance_norm(
            input if batched else input.unsqueeze(0), self.running_mean, self.running_var,
            self.weight, self.bias, self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip
        return output if batched else output.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Normalize each channel of each sequence; see `InstanceNorm2d`."""

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalize each channel of each image.

    Args:
        num_features: number of channels.
        eps: added to variances.
        momentum: share of a batch in the running statistics.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running statistics.
        device: the CPU.
        dtype: element type of the parameters.
        bias: whether there is a bias.
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalize each channel of each volume; see `InstanceNorm2d`."""

    _dims = (4, 5)


class _LazyNormBase(LazyModuleMixin):
    """The part of a lazy normalization that reads the channels from its first input."""

    weight: Any
    bias: Any

    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.int64)

    def reset_parameters(self: Any) -> None:
        """Set the parameters, once they have a shape."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # pyright: ignore[reportAttributeAccessIssue]

    def initialize_parameters(self: Any, input: Tensor) -> None:
        """Give parameters and running statistics their shapes."""
        if not self.has_uninitialized_params():
            return
        axis = 1
        if isinstance(self, _InstanceNorm) and input.dim() == self._dims[0]:
            axis = 0
        self.num_features = input.shape[axis]
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A `BatchNorm1d` whose ``num_features`` are those of its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A `BatchNorm2d` whose ``num_features`` are those of its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A `BatchNorm3d` whose ``num_features`` are those of its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An `InstanceNorm1d` whose ``num_features`` are those of its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An `InstanceNorm2d` whose ``num_features`` are those of its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An `InstanceNorm3d` whose ``num_features`` are those of its first input."""

    cls_to_become = InstanceNorm3d
