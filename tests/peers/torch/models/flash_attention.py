"""Attention in tiles, with a Function that recomputes the weights in backward."""

import math

import torch


class Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, tile):
        scale = 1 / math.sqrt(q.shape[-1])
        out = torch.zeros_like(q)
        total = torch.zeros(*q.shape[:-1], 1)
        top = torch.full((*q.shape[:-1], 1), -math.inf)
        for start in range(0, k.shape[-2], tile):
            kj, vj = k[..., start : start + tile, :], v[..., start : start + tile, :]
            s = q @ kj.transpose(-1, -2) * scale
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            shrink = torch.exp(top - new)
            total = total * shrink + p.sum(-1, keepdim=True)
            out = out * shrink + p @ vj
            top = new
        out = out / total
        ctx.save_for_backward(q, k, v, out, top + torch.log(total))
        ctx.tile, ctx.scale = tile, scale
        return out

    @staticmethod
    def backward(ctx, d):
        q, k, v, out, logs = ctx.saved_tensors
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        row = (d * out).sum(-1, keepdim=True)
        for start in range(0, k.shape[-2], ctx.tile):
            part = slice(start, start + ctx.tile)
            kj, vj = k[..., part, :], v[..., part, :]
            p = torch.exp(q @ kj.transpose(-1, -2) * ctx.scale - logs)
            dv[..., part, :] += p.transpose(-1, -2) @ d
            ds = p * (d @ vj.transpose(-1, -2) - row) * ctx.scale
            dq += ds @ kj
            dk[..., part, :] += ds.transpose(-1, -2) @ q
        return dq, dk, dv, None


torch.manual_seed(3)
q, k, v = (torch.randn(2, 3, 17, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
out = Tiled.apply(q, k, v, 5)
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
print(torch.allclose(out, expected), f"{out.sum().item():.6f}")
found = torch.autograd.grad(out.sin().sum(), (q, k, v))
wanted = torch.autograd.grad(expected.sin().sum(), (q, k, v))
print([torch.allclose(a, b) for a, b in zip(found, wanted)])
print([f"{a.norm().item():.6f}" for a in found])
small = [x.detach()[:1, :1, :4, :3].clone().requires_grad_() for x in (q, k, v)]
print(torch.autograd.gradcheck(lambda *x: Tiled.apply(*x, 3), small))
