"""Detached aliases lie in the storage of what they are an alias of: offsets, strided parts, and what is written there."""


def run(torch, log):
    aliases = {
        "detached": lambda x: x[2:].detach(),
        "data": lambda x: x[2:].data,
        "turned": lambda x: x.view(2, 3).t().detach(),
        "of an alias": lambda x: x[1:].detach()[2:].detach(),
        "part": lambda x: x.unsafe_chunk(2)[1],
        "part of the alias": lambda x: x[2:].detach()[1:],
        "whole": lambda x: x.detach(),
        "of an array": lambda x: torch.from_numpy(x.numpy()[2:]),
    }
    for name, alias in aliases.items():
        x = torch.arange(6.0)
        y = alias(x)
        same = y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        log(name, y, y.storage_offset(), tuple(y.stride()), same, y.untyped_storage().nbytes())
        log("  from the begin", y.as_strided((2,), (1,), 0))
        y.as_strided((2,), (1,), 0).fill_(7.0)
        log("  filled there", x, y)
        torch.neg(torch.ones(2), out=y[:0])
        log("  written where it begins", x, y)
        z = torch.zeros(3)
        z.data = y.flatten()[:1].detach()
        log("  as data", z, z.storage_offset())
