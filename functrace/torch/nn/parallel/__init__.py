"""``torch.nn.parallel``: on a CPU, a parallel module calls the module that it has.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from functrace.torch.nn.modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """A module for several devices: without any, a call of the module.

    Args:
        module: the module, which becomes an attribute.
        device_ids: the devices; there are none.
        output_device: that of the output.
        dim: the axis that would be split.
    """

    module: Any

    def __init__(
        self,
        module: Module,
        device_ids: object = None,
        output_device: object = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        self.output_device, self.dim = output_device, dim

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(DataParallel):
    """A module for a group of processes: of one, here; a call of the module."""

    def __init__(self, module: Module, *unused: object, **settings: object) -> None:
        super().__init__(module)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do nothing: gradients are those of this process."""
        yield


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: object = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
