"""``torch.nn.utils.parametrizations``: orthogonal weights, and normalized ones.

Layer: 9.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.utils import parametrize
from functrace.torch.nn.utils.spectral_norm import (
    as_matrix,
    check_iterations,
    default_axis,
    unit,
)
from functrace.torch.nn.utils.weight_norm import norm_except_dim, weight_of
from functrace.torch.tensors.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

MAPS = ("matrix_exp", "cayley", "householder")


def _linalg() -> Any:
    return importlib.import_module("functrace.torch.linalg")


def _orthogonalized(matrix: Tensor) -> Tensor:
    """Return the orthogonal factor of a matrix whose triangular one has a positive diagonal."""
    q, r = np.linalg.qr(matrix.detach().numpy())
    return torch.from_numpy(q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :])


def _is_orthogonal(matrix: Tensor) -> bool:
    n, k = matrix.size(-2), matrix.size(-1)
    eps = 10.0 * n * float(np.finfo(matrix.detach().numpy().dtype).eps)
    return torch.allclose(matrix.mT @ matrix, torch.eye(k, dtype=matrix.dtype), atol=eps)


class _Orthogonal(Module):
    """An orthogonal matrix, as a function of any matrix.

    Args:
        weight: the matrix, or a batch of them.
        orthogonal_map: one of `MAPS`.
        use_trivialization: whether the function is a change of a matrix that was assigned.
    """

    base: Any

    def __init__(
        self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """Return an orthogonal matrix."""
        wide = X.size(-2) < X.size(-1)
        x: Any = X.mT if wide else X
        n, k = x.size(-2), x.size(-1)
        if self.orthogonal_map == "householder":
            lower = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (lower * lower).sum(dim=-2))
            signs = x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
            q = _linalg().householder_product(lower, tau) * signs
        else:
            x = x.tril()
            if n != k:
                zeros = torch.zeros((*x.shape[:-2], n, n - k), dtype=x.dtype)
                x = torch.cat([x, zeros], dim=-1)
            skew = x - x.mT.conj()
            if self.orthogonal_map == "matrix_exp":
                q = _linalg().matrix_exp(skew)
            else:
                one = torch.eye(n, dtype=skew.dtype)
                q = _linalg().solve(one - 0.5 * skew, one + 0.5 * skew)
            if n != k:
                q = q[..., :k]
        if "base" in self._buffers:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return the matrix of which an orthogonal one is the function.

        Raises:
            ValueError: for another shape.
            NotImplementedError: for ``matrix_exp`` and ``cayley`` without a trivialization.
        """
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        q: Any = Q.mT if wide else Q
        n, k = q.size(-2), q.size(-1)
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            found = torch.from_numpy(_reflections(q.detach().numpy()))
            return found.mT if wide else found
        if n == k:
            self.base = q.detach().clone() if _is_orthogonal(q) else _orthogonalized(q)
        else:
            drawn = torch.randn((*q.shape[:-2], n, n - k), dtype=q.dtype)
            self.base = _orthogonalized(torch.cat([q.detach(), drawn], dim=-1))
        if "base" not in self._buffers:
            raise AssertionError("base is a buffer")
        made = torch.zeros(Q.shape, dtype=Q.dtype)
        made.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return made


def _reflections(matrix: Any) -> Any:
    """Return the vectors of the reflections whose product is a matrix, below its signs."""
    raw, tau = np.linalg.qr(matrix, mode="raw")
    found = np.ascontiguousarray(np.swapaxes(raw, -1, -2)).astype(matrix.dtype)
    rows = np.arange(matrix.shape[-1])
    diagonal = np.sign(found[..., rows, rows])
    found[..., rows, rows] = np.where(tau == 0, -diagonal, diagonal)
    return found


def orthogonal(
    module: object,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Make a weight orthogonal; returns the module.

    Args:
        module: the module, which is changed.
        name: name of the weight: a matrix, or a batch of them.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; by default the first
            for square matrices, and the last for others.
        use_trivialization: whether an orthogonal matrix can be assigned.

    Raises:
        ValueError: for an unknown name or map, and for a vector.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """A weight, as a function of magnitude and direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return the weight."""
        return weight_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return magnitude and direction of a weight."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Compute a weight from its norm and its direction; returns the module.

    Args:
        module: the module, which is changed.
        name: name of the weight.
        dim: the axis with a norm of its own; None for one of all.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *rest: object) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for k, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{k}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value."""

    _u: Any
    _v: Any

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        n = weight.ndim
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{n}, {n - 1}] but got {dim})"
            )
        check_iterations(n_power_iterations)
        self.dim, self.eps = dim % n, eps
        if n > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            u = torch.empty(matrix.size(0), dtype=matrix.dtype).normal_(0, 1)
            v = torch.empty(matrix.size(1), dtype=matrix.dtype).normal_(0, 1)
            self.register_buffer("_u", unit(u, eps))
            self.register_buffer("_v", unit(v, eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, n: int) -> None:
        with no_grad():
            for _ in range(n):
                self._u.copy_(unit(torch.mv(matrix, self._v), self.eps))
                self._v.copy_(unit(torch.mv(matrix.mT.conj(), self._u), self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight, divided."""
        if weight.ndim == 1:
            return unit(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a weight by its largest singular value; returns the module.

    Args:
        module: the module, which is changed.
        name: name of the weight.
        n_power_iterations: number of iterations in each call in training mode.
        eps: least norm.
        dim: axis of the outputs; by default 0, and 1 for transposed convolutions.

    Raises:
        ValueError: for an unknown name.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    axis = default_axis(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, axis, eps)
    return parametrize.register_parametrization(module, name, made)
