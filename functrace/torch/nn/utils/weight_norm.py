"""Weights as magnitude times direction: a hook that computes them before each call.

The newer form is `functrace.torch.nn.utils.parametrizations.weight_norm`.

Layer: 9.
"""

from __future__ import annotations

import warnings
from typing import Any

from functrace.ops import elementwise as ew
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import reshape
from functrace.torch import namespace as torch
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.parameter import Parameter, is_lazy
from functrace.torch.tensors.tensor import Tensor
from functrace.typing import Array


def _scaled(v: Array, g: Array, dim: int) -> Any:
    axes = tuple(k for k in range(v.ndim) if k != dim)
    sizes = tuple(1 if k in axes else n for k, n in enumerate(v.shape))
    norm = reshape(ew.sqrt(reduce_sum(ew.mul(v, v), axes)), sizes)
    return ew.mul(v, ew.div(g, norm))


WEIGHT_NORM = Op(
    "WeightNormInterfaceBackward0", _scaled, (("g", 1), ("v", 0)),
    details=lambda specs, params: {"dim": params[0]},
)  # fmt: skip


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return the norms over all axes but one, with sizes 1; over all, as a scalar, for -1."""
    if dim == -1:
        return torch.norm(v, pow)
    return torch.norm(v, pow, [k for k in range(v.ndim) if k != dim], keepdim=True)


def weight_of(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """Return a direction times a magnitude.

    Args:
        v: the direction.
        g: the magnitude, as `norm_except_dim` returns it.
        dim: the axis with a magnitude of its own; -1 for one of all.
    """
    if dim in (0, v.ndim - 1):
        return apply(WEIGHT_NORM, (v, g), (dim,))
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook that computes a weight.

    Args:
        name: name of the weight.
        dim: the axis with a magnitude of its own; None for one of all.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight."""
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return weight_of(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a weight by magnitude and direction."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to "
                "run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        norm = norm_except_dim(weight, 2, made.dim)
        module.register_parameter(f"{name}_g", Parameter(norm.data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, made.compute_weight(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for part in "gv":
            del module._parameters[f"{self.name}_{part}"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: object) -> None:
        """Compute the weight."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replace a weight by its norm and its direction; returns the module.

    Args:
        module: the module, which is changed.
        name: name of the weight.
        dim: the axis with a norm of its own; None for one of all.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make a weight a parameter again; returns the module.

    Raises:
        ValueError: if there is no such hook.
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
