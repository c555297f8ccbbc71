"""Expressions in tensors that tests compare with PyTorch, and the tensors that they are of.

What stands here is read where PyTorch is not installed, too.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

SHIM = importlib.import_module("functrace.torch")

OF_ONE = (
    "acos asin atan asinh atanh cosh sinh tan exp exp2 expm1 log log2 log10 log1p rsqrt sqrt reciprocal sigmoid tanh relu "
    "abs sign sgn floor ceil trunc round square neg positive angle conj resolve_conj signbit isfinite isinf logical_not"
)
EXPRESSIONS = [
    # lazy negations
    "m._neg_view()", "z._neg_view()", "z._neg_view().imag",
    # pieces
    "m.split(2, 1)", "m.split([1, 3], 1)", "m.split(3)", "m.split(2, -1)", "m.split(5, 1)",
    "m.split([1, 1], 1)",
    "m.split(-1)",
    "m.chunk(2, 1)", "m.chunk(3, 1)", "m.chunk(0)", "m.unbind(1)", "m.unbind()", "z.unbind()",
    "m.unsafe_split(2, 1)",
    "m.unsafe_chunk(2)", "m.split_with_sizes([1, 3], 1)", "torch.tensor_split(m, 3, 1)",
    "m.tensor_split((1, 2), 1)",
    "m.split(2, 1)[1].split(1, 1)",
    # repeating, turning, triangles, diagonals
    "m.repeat(2, 1)", "m.repeat(2, 1, 3)", "m.repeat(2)", "m.tile(2)", "m.repeat_interleave(2, 1)",
    "m.repeat_interleave(2)",
    "m.flip(0)", "m.flip([0, 1])", "m.flip(0, 0)", "m.flip(2)", "torch.fliplr(m)",
    "torch.flipud(m)", "m.roll(1, 0)",
    "m.roll(1)", "m.roll((1, 2), (0, 1))", "m.roll((1, 2))", "m.tril()", "m.tril(-1)", "m.triu(1)",
    "v.tril()",
    "m.diagonal()",
    "m.diagonal(1)", "m.diagonal(-1, 1, 0)", "m.diagonal(0, 0, 0)", "torch.diag(m, 1)",
    "torch.diag(v)",
    "torch.diag(v, -1)",
    "torch.diag_embed(m)", "torch.trace(m)", "torch.trace(v)", "m.swapdims(0, 1)",
    "m.swapaxes(0, -1)", "m.movedim(0, 1)",
    "m.ravel()", "m.unflatten(1, (2, 2))", "m.unflatten(1, (2, -1))",
    "torch.broadcast_to(v, (2, 4))",
    "torch.broadcast_tensors(v, m)", "torch.meshgrid(v, v, indexing='ij')",
    "torch.meshgrid(v, m[0], indexing='xy')",
    "m.unflatten(1, (3, -1))", "m.unflatten(1, (2, 3))", "m.unflatten(-1, ())",
    "m.unflatten(0, (0, -1))",
    "m.T", "m.mT", "v.mT", "m.H",
    # masks and positions
    "m.masked_fill(m > 1, 0.)", "m.masked_fill(m > 1, z)", "m.masked_fill(m > 1, v)",
    "m.masked_fill(i, 0.)",
    "m.masked_fill(m[:1] > 1, 2)", "m.masked_select(m > 1)", "m.masked_select(m[0] > 1)",
    "m.index_select(1, i)",
    "m.index_select(0, torch.tensor([5]))", "m.index_select(0, v)", "m.index_add(1, i, m[:, :2])",
    "m.index_add(1, i, m[:, :2], alpha=2)", "m.index_add(1, i, m)", "m.index_copy(1, i, m[:, :2])",
    "m.index_fill(1, i, 2.)",
    "m.gather(1, ij)", "m.gather(1, ij + 5)", "m.gather(1, i)", "m.scatter(1, ij, 1.)",
    "m.scatter(1, ij, m[:1, :2])",
    "m.scatter(0, ij, m)", "m.scatter(1, ij + 5, m)", "m.scatter_add(1, ij, m[:1, :2])",
    "m.take(i)",
    "torch.take_along_dim(m, ij, 1)", "m.cumsum(0)", "m.cumsum(1)", "m.cumprod(1)", "m.cumsum(2)",
    "m.cumsum(0, dtype=torch.float32)",
    # statistics
    "m.var()", "m.var(1)", "m.var(1, unbiased=False)", "m.var(dim=1, correction=0, keepdim=True)",
    "m.var((0, 1))",
    "m.std()",
    "m.std(1)", "m.std(0, keepdim=True)", "torch.var_mean(m, dim=1, keepdim=True)",
    "torch.std_mean(m)", "i.var()",
    "m.median()", "m.median(1)", "m.median(0, True)", "m.nanmedian()", "m.nanmedian(1)",
    "t.median()", "m.amax(1)",
    "m.amax()",
    "m.amin((0, 1))", "t.amax()", "t.amin()", "m.amax(1, True)", "m.sort()",
    "m.sort(1, descending=True)", "m.sort(0)",
    "m.topk(2)", "m.topk(2, 0, False)", "m.topk(9)", "m.argsort()", "m.norm()", "m.norm(2, 1)",
    "m.norm(1)", "m.norm(1, 1)",
    "m.norm(float('inf'))", "m.norm(3)", "m.norm(p=2, dim=1, keepdim=True)", "m.norm('fro')",
    "i.norm()",
    "torch.dist(v, m[0])", "torch.nansum(m)", "torch.count_nonzero(m)",
    # products
    "torch.einsum('ij,kj->ik', m, m)", "torch.einsum('ij->ji', m)", "torch.einsum('ij', m)",
    "torch.einsum('i,j', v, v)",
    "torch.einsum('...j,j', m, v)", "torch.einsum('ij,ij->', [m, m])", "torch.outer(v, v)",
    # elementwise, of one
    *(f"torch.{name}(p)" for name in OF_ONE.split()),
    "torch.acosh(p + 1.5)", "torch.round(m, decimals=1)", "torch.atan2(v, m)", "torch.hypot(v, m)",
    "torch.logaddexp(v, m)",
    "torch.fmax(v, m)", "torch.fmin(v, m)", "torch.remainder(m, v)", "m % 2", "torch.fmod(m, v)",
    "m.fmod(1.5)", "2 % m",
    "m // 2", "2 // m", "torch.rsub(m, v)", "torch.rsub(m, v, alpha=2)", "m.rsub(2.)",
    "m.__rsub__(2.)", "m.__rsub__(v)",
    "m.clamp(v, v)",
    "m.clamp(v, v + 1)", "m.clamp(v + 1, v)", "m.clamp(min=v)", "m.clamp(max=v)", "m.clamp(0.5, 1)",
    "torch.sub(m, v, alpha=3)",
    "torch.where(m > 1, m, 2)", "torch.where(m > 1, v, m)", "torch.where(m > 1, z.float(), m)",
    "m.pow(v)", "2 ** m",
    "m ** 3",
    # of three, and into given tensors
    "torch.lerp(m, v, v)", "m.lerp(v, 0.3)", "torch.addcmul(m, v, v, value=2)",
    "torch.addcdiv(m, v, v)",
    "torch.sin(m, out=torch.zeros(3, 4))", "torch.add(v, 1, out=torch.zeros(4))",
    "torch.sin(i, out=v)", "m.mul_(m)",
    "torch.cat([m, m], out=torch.empty(0))", "torch.sin(i, out=torch.zeros(2))",
    "torch.sin(i, out=i)",
    # in place
    "m.clone().masked_fill_(m > 1, 0.)", "m.clone().index_add_(1, i, m[:, :2])",
    "m.clone().scatter_(1, ij, 2.)",
    "m.sin().tril_()",
    "m.clone().remainder_(2.)", "m.clone().clamp_(0.5, 1.)", "m.clone().index_fill_(1, i, 3.)",
    "m.clone().floor_()",
    "m.clone().eq_(1.)", "m.clone().atan2_(v)", "m.clone().scatter_add_(1, ij, m[:1, :2])",
]  # fmt: skip


def leaves(library: ModuleType) -> dict[str, Any]:
    """Return the tensors of the expressions."""
    rng = np.random.default_rng(3)
    made = {
        "m": rng.uniform(0.3, 2.7, (3, 4)), "v": rng.uniform(0.6, 1.9, 4), "p": rng.uniform(0.1,
        0.9, (2, 3)),
        "z": np.array(1.25), "t": np.array([1.0, 2.0, 2.0, 1.0, 3.0, 2.0, 3.0]),
    }  # fmt: skip
    found = {name: library.from_numpy(array).requires_grad_() for name, array in made.items()}
    return found | {"i": library.tensor([2, 0]), "ij": library.tensor([[1, 3]])}
