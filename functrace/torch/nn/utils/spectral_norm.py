"""Weights divided by their largest singular value: a hook that computes them before each call.

The newer form is `functrace.torch.nn.utils.parametrizations.spectral_norm`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch import linalg
from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.parameter import Parameter, is_lazy
from functrace.torch.tensors.tensor import Tensor


def unit(x: Tensor, eps: float) -> Tensor:
    """Return a vector with norm 1."""
    return x / torch.norm(x, 2, 0, keepdim=True).clamp_min(eps)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return a weight as a matrix, whose rows are those of an axis."""
    if dim:
        weight = weight.permute(dim, *[k for k in range(weight.dim()) if k != dim])
    return weight.reshape(weight.size(0), -1)


def random_unit(weight: Tensor, n: int, eps: float) -> Tensor:
    """Return a random vector with norm 1."""
    return unit(torch.empty(n, dtype=weight.dtype).normal_(0, 1), eps)


def check_iterations(n: int) -> None:
    """Refuse a number of iterations that is not positive."""
    if n <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n}"
        )


def default_axis(module: Module) -> int:
    """Return the axis of a weight's outputs."""
    return int(type(module).__name__.startswith("ConvTranspose"))


class SpectralNorm:
    """The hook that computes a weight.

    Args:
        name: name of the weight.
        n_power_iterations: number of iterations in each call in training mode.
        dim: axis of the outputs.
        eps: least norm.
    """

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        check_iterations(n_power_iterations)
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight, after iterations or not."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = (getattr(module, f"{self.name}_{part}") for part in "uv")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(unit(torch.mv(matrix.t(), u), self.eps))
                    u.copy_(unit(torch.mv(matrix, v), self.eps))
                u, v = u.clone(), v.clone()
        return weight / torch.dot(u, torch.mv(matrix, v))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Replace a weight."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            matrix = as_matrix(weight, dim)
            u = random_unit(weight, matrix.size(0), eps)
            v = random_unit(weight, matrix.size(1), eps)
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(_Versions(made))
        module._register_load_state_dict_pre_hook(_Older(made))
        return made

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, False)
        delattr(module, self.name)
        for part in ("u", "v", "orig"):
            delattr(module, f"{self.name}_{part}")
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: object) -> None:
        """Compute the weight."""
        setattr(module, self.name, self.compute_weight(module, module.training))


class _Versions:
    """The hook that notes the version in the metadata of a ``state_dict``."""

    def __init__(self, norm: SpectralNorm) -> None:
        self.norm = norm

    def __call__(
        self, module: Module, state_dict: object, prefix: str, metadata: dict[str, Any]
    ) -> None:
        versions, key = metadata.setdefault("spectral_norm", {}), f"{self.norm.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = 1


class _Older:
    """The hook that computes the right vector of a state from before the first version, which has
    the weight in its place.
    """

    def __init__(self, norm: SpectralNorm) -> None:
        self.norm = norm

    def __call__(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        *rest: object,
    ) -> None:
        norm = self.norm
        key = prefix + norm.name
        if metadata.get("spectral_norm", {}).get(f"{norm.name}.version") is not None:
            return
        if key not in state_dict and all(
            f"{key}_{part}" in state_dict for part in ("orig", "u", "v")
        ):
            return  # a state of this version, without its metadata
        missing = [name for name in (f"{key}_orig", key, f"{key}_u") if name not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        original, u = state_dict[f"{key}_orig"], state_dict[f"{key}_u"]
        with no_grad():
            norm_of_weight = (original / state_dict.pop(key)).mean()
            state_dict[f"{key}_v"] = _right_vector(as_matrix(original, norm.dim), u, norm_of_weight)


def _right_vector(matrix: Tensor, u: Tensor, norm: Tensor) -> Tensor:
    """Return the vector ``v`` for which ``matrix @ v`` is parallel to ``u``, and ``u @ matrix @ v``
    is ``norm``.
    """
    v = torch.mv(linalg.pinv(matrix), u)
    return v * (norm / torch.dot(u, torch.mv(matrix, v)))


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a weight by its largest singular value before each call; returns the module.

    Args:
        module: the module, which is changed.
        name: name of the weight.
        n_power_iterations: number of iterations in each call in training mode.
        eps: least norm.
        dim: axis of the outputs; by default 0, and 1 for transposed convolutions.
    """
    axis = default_axis(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, axis, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make a weight a parameter again; returns the module.

    Raises:
        ValueError: if there is no such hook.
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for number, hook in list(hooks.items()):
            found = getattr(hook, "hook", hook)
            if isinstance(found, (_Versions, _Older)) and found.norm.name == name:
                del hooks[number]
    return module
