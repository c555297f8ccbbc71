"""The copies of views: values, layouts, nodes and their fields, derivatives, ``out=``, refusals."""


def run(torch, log):
    values(torch, log)
    rules(torch, log)


def calls(torch, x, z):
    return {
        "alias": lambda: torch.alias_copy(x), "as_strided": lambda: torch.as_strided_copy(x, (2, 2), (1, 2), 1),
        "diagonal": lambda: torch.diagonal_copy(x), "diagonal 1": lambda: torch.diagonal_copy(x, 1, 1, 0),
        "expand": lambda: torch.expand_copy(x, (2, 3, 4)), "narrow": lambda: torch.narrow_copy(x, 1, 1, 2),
        "narrow method": lambda: x.narrow_copy(0, 1, 2), "permute": lambda: torch.permute_copy(x, (1, 0)),
        "select": lambda: torch.select_copy(x, 0, -1), "slice": lambda: torch.slice_copy(x, 1, 0, 4, 2),
        "slice all": lambda: torch.slice_copy(x), "split": lambda: torch.split_copy(x, 2),
        "split 1": lambda: torch.split_copy(x, 3, dim=-1), "sizes": lambda: torch.split_with_sizes_copy(x, (1, 2)),
        "squeeze": lambda: torch.squeeze_copy(x), "squeeze 0": lambda: torch.squeeze_copy(x, 0),
        "squeeze dims": lambda: torch.squeeze_copy(x, (0, 1)), "t": lambda: torch.t_copy(x),
        "transpose": lambda: torch.transpose_copy(x, 0, 1), "unbind": lambda: torch.unbind_copy(x),
        "unbind 1": lambda: torch.unbind_copy(x, 1), "unfold": lambda: torch.unfold_copy(x, 1, 2, 1),
        "unsqueeze": lambda: torch.unsqueeze_copy(x, -1), "view_as_real": lambda: torch.view_as_real_copy(z),
        "view": lambda: torch.view_copy(x, (2, 6)), "view -1": lambda: torch.view_copy(x, (-1,)),
    }  # fmt: skip


def values(torch, log):
    for turned in (False, True):
        x = torch.arange(12.0).reshape(3, 4)
        x = (x.reshape(4, 3).t() if turned else x).detach().requires_grad_()
        z = torch.complex(x.detach(), -x.detach()).requires_grad_()
        for name, call in calls(torch, x, z).items():
            found = call()
            several = found if isinstance(found, (tuple, list)) else (found,)
            log(
                name,
                type(found).__name__,
                len(several),
                several[-1],
                several[-1].stride(),
                several[-1]._is_view(),
            )
            node = several[-1].grad_fn
            log(node.name(), several[-1].output_nr)
            leaf = z if name == "view_as_real" else x
            (g,) = torch.autograd.grad(sum((p * p).sum() for p in several), leaf, create_graph=True)
            log(g.detach())
            if not g.is_complex():
                log(torch.autograd.grad(g.sum(), leaf)[0])
            with torch.no_grad():
                several[-1].mul_(0)
            log(float(x.sum()))


def rules(torch, log):
    x = torch.arange(12.0).reshape(3, 4)
    node = torch.select_copy(x.clone().requires_grad_(), 0, 1).grad_fn
    log(node._saved_dim, node._saved_index, node._saved_self_sym_sizes)
    out = torch.empty(0)
    log(torch.t_copy(x, out=out) is out, out)
    log(torch.view_copy(x, (12,), out=torch.empty(12)))
    log(torch.view_copy(x, torch.int32), torch.view_copy(x, dtype=torch.int32).dtype)
    log(torch.view_copy(x, size=(12,)), torch.view_copy(x.t(), (12,)))
    log(torch.t_copy(x[0]), torch.t_copy(torch.tensor(1.0)))
    log(torch.view_as_complex_copy(x.reshape(3, 2, 2)))
    log.error("complex", lambda: torch.view_as_complex_copy(x.reshape(3, 2, 2).requires_grad_()))
    log.error("pairs", lambda: torch.view_as_complex_copy(x))
    log.error("real", lambda: torch.view_as_real_copy(x))
    log.error("size", lambda: torch.view_copy(x, (5,)))
    log.error("select", lambda: torch.select_copy(x, 0, 5))
    log.error("permute", lambda: torch.permute_copy(x, (0, 0)))
    log.error("t", lambda: torch.t_copy(torch.ones(2, 2, 2)))
    log.error("number", lambda: torch.t_copy(3))
    log.error("split", lambda: torch.split_copy(x, (1, 2)))
    log.error("narrow", lambda: torch.narrow_copy(x, 0, 2, 2))
    with torch.inference_mode():
        log(torch.t_copy(x), torch.unbind_copy(x)[0], torch.t_copy(x).is_inference())
    log(
        torch.func.jvp(
            lambda x: torch.t_copy(x) * torch.view_copy(x, (4, 3)), (x,), (torch.ones(3, 4),)
        )[1]
    )
    log(torch.func.vmap(lambda x: torch.view_copy(x, (2, 2)).sum(0))(x))
    log(torch.func.grad(lambda x: (torch.unbind_copy(x)[1] ** 2).sum())(x))
