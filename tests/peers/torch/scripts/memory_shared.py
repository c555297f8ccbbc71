"""Which results share memory with what they are made of, and how they lie in it: for tensors that lie in many ways."""

import warnings

EXPRESSIONS = (
    """
x.reshape(-1); x.view(-1); x.contiguous(); x.flatten(); x.ravel(); x.t(); x.T; x.mT; x.H; x.transpose(0,-1);
x.swapaxes(0,-1); x.movedim(0,-1); x.squeeze(); x.squeeze(0); x.squeeze(-1); x.unsqueeze(0); x.unsqueeze(-1); x[...]; x[:];
x[0]; x[-1:]; x[::2]; x[None]; x[..., 0]; x.select(0,0); x.narrow(0,0,1); x.diagonal(); x.diagonal(1); x.real; x.imag;
x.conj(); x.expand(2,*x.shape); x.expand(x.shape); x.expand_as(x); torch.broadcast_to(x,(2,*x.shape)); x.chunk(2)[0];
x.split(1)[0]; x.unbind()[0]; x.tensor_split(2)[0]; x.unsafe_chunk(2)[0]; x.unsafe_split(1)[0]; x.detach(); x.data;
x.view_as(x); x.reshape_as(x); x.unflatten(0,(1,-1)); x.permute(tuple(range(x.dim()))); x.resolve_conj(); x.resolve_neg();
torch.view_as_real(x); torch.broadcast_tensors(x,x)[0]; torch.broadcast_tensors(x,x[None])[0];
torch.meshgrid(x,x,indexing='ij')[0]; torch.real(x); torch.imag(x); torch.as_strided(x,(1,),(1,)); x.positive(); +x;
x.to(x.dtype); x.to('cpu'); x.cpu(); x.type(x.dtype); x.type_as(x); x.to(x); x.double(); x.float(); x.long(); x.int();
x.bool(); x.cdouble(); x.to(torch.float64); x.to(x.dtype,copy=True); x.clone(); torch.asarray(x); torch.as_tensor(x);
torch.asarray(x,copy=True); torch.as_tensor(x,dtype=torch.float64); torch.Tensor.requires_grad_(x,False); x.flip(0);
x.roll(0); x.roll(1,0); x.repeat(1); x.tile(1); x.tril(); x.triu(); torch.diag(x); torch.cat([x]); torch.cat([x,x]);
torch.cat([x,x[:0]]); torch.stack([x]); torch.stack([x,x],-1); torch.einsum('...->...',x); torch.einsum('ij->ji',x);
torch.einsum('ij->ij',x); torch.einsum('ii->i',x); torch.einsum('i->i',x); torch.einsum('ij->i',x);
torch.einsum('i,j->ij',x,x); torch.einsum('ij,ij->ij',x,x); x.sum(0); x.sum(0,keepdim=True); x.sum(()); x.sum(-1);
x.sum((0,1)); x.max(-1)[0]; x.argmax(-1); x.logsumexp(-1); x.mean(0); x.mean(-1); x.prod(0); x.amax(0); x.amax(0,True);
x.max(0)[0]; x.max(); x.max(0,True)[1]; x.cumsum(0); x.cumprod(-1); x.sort(0)[0]; x.sort(-1)[1]; x.median(0)[0];
x.softmax(0); x.log_softmax(-1); x.logsumexp(0); x.norm(2,0); x.var(0); x.norm(2,-1); x.amin(-1); x.median(-1)[0];
x.prod(-1); x.std(-1); x.any(0); x.all(-1); x.argmax(0); x.argsort(0); -x; x.abs(); x.sin(); x.exp(); x.sqrt(); x.floor();
x.ceil(); x.round(); x.trunc(); x.sign(); x.sgn(); x.square(); x.relu(); x.sigmoid(); x.logical_not(); ~x; x.isnan();
x.isfinite(); x + 1; x * 1; x - 0; x / 1; x ** 1; x ** 2; x ** 0; x // 1; x % 2; x == x; x > 0; x + x; x * x[:1]; x & x;
x | 1; torch.add(x,x,alpha=2); torch.maximum(x,x); torch.where(x == x,x,x); torch.where(x == x,x,0); x.clamp(0,1);
x.clamp(min=x); x.masked_fill(x == x,0); x.masked_select(x == x); x.nonzero(); x[x == x]; x[[0]]; x[torch.tensor([0])];
x[torch.tensor(0)]; x[[0],[0]]; x.index_select(0,i); x.index_select(-1,i); x.gather(0,j); x.take(i); x.index_add(0,i,x[:1]);
x.index_copy(0,i,x[:1]); x.scatter(0,j,1); x.scatter(0,j,x); x.scatter_add(0,j,x); x.scatter_reduce(0,j,x,'sum');
x.index_reduce(0,i,x[:1],'prod'); x.take_along_dim(j,0); torch.zeros_like(x); torch.ones_like(x); torch.empty_like(x);
torch.full_like(x,1); torch.zeros_like(x,dtype=torch.int32); x.new_zeros(2); x.matmul(x); x @ x.t(); torch.mm(x,x);
torch.outer(x,x); torch.dot(x,x); torch.addmm(x,x,x); torch.lerp(x,x,0.5); torch.addcmul(x,x,x); x.repeat_interleave(2);
x.repeat_interleave(1,0); torch.diag_embed(x); torch.nn.functional.relu(x); torch.complex(x,x); x.fmod(2); torch.atan2(x,x);
x.unbind(-1)[0]; x.split([1],-1)[0]; x.pow(x); 2 ** x
""".replace("\n", " ")
    .strip("; ")
    .split("; ")
)


def tensors(torch):
    """Return tensors by how they lie."""
    row = torch.arange(1, 13, dtype=torch.float64)
    matrix = row[:6].clone().reshape(2, 3)
    square = row[:4].clone().reshape(2, 2)
    return {
        "row": row.clone(),
        "every second": row.clone()[::2],
        "matrix": matrix.clone(),
        "turned": matrix.clone().t(),
        "columns": row.clone().reshape(3, 4)[:, 1:3],
        "columns turned": row.clone().reshape(3, 4)[:, 1:3].t(),
        "square": square.clone(),
        "square turned": square.clone().t(),
        "expanded": row[:2].clone().expand(2, 2),
        "expanded turned": row[:2].clone().expand(3, 2).t(),
        "one row": row[:3].clone().reshape(1, 3),
        "one column": row[:3].clone().reshape(3, 1),
        "one column expanded": row[:1].clone().reshape(1, 1).expand(2, 1),
        "one": row[:1].clone(),
        "one by one": row[:1].clone().reshape(1, 1),
        "number": row[2].clone(),
        "none": row[:0].clone(),
        "cube": row.clone().reshape(2, 3, 2),
        "cube turned": row.clone().reshape(2, 3, 2).permute(2, 0, 1),
        "cube half turned": row.clone().reshape(2, 3, 2).transpose(0, 1),
        "complex": torch.complex(square, square * 2),
        "complex turned": torch.complex(matrix, matrix).t(),
        "integers": square.long(),
        "integers turned": matrix.int().t(),
        "bools": square > 2,
        "float32": square.float(),
    }


def storage(torch, x):
    return x.__array_interface__["data"][0] if not isinstance(x, torch.Tensor) else x.untyped_storage().data_ptr()


def shown(torch, expression, x):
    names = {"torch": torch, "x": x, "i": torch.tensor([0])}
    names["j"] = torch.zeros(x.shape, dtype=torch.int64)
    try:
        made = eval(expression, names)
    except Exception:
        return "raises"
    if made is x:
        return "itself"
    if not isinstance(made, torch.Tensor):
        return "shares" if storage(torch, made) == x.data_ptr() else "copies"
    says = "shares" if made.numel() and storage(torch, made) == storage(torch, x) else "copies"
    lies = [f"{n}:{step}" if n > 1 and made.numel() else str(n) for n, step in zip(made.shape, made.stride())]
    return f"{says} {str(made.dtype).removeprefix('torch.')} [{', '.join(lies)}]" + (" view" if made._is_view() else "")


def run(torch, log):
    with warnings.catch_warnings(action="ignore"):
        for name, x in tensors(torch).items():
            found = {}
            for expression in EXPRESSIONS:
                found.setdefault(shown(torch, expression, x), []).append(expression)
            for says, expressions in sorted(found.items()):
                log(f"{name}: {says}: {'; '.join(expressions)}")
