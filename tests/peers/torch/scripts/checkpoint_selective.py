"""Selective activation checkpointing: which operations run again, what policies are asked, what is refused."""

import functools
import gc
import weakref


def numbers(tensor):
    return [round(value, 5) for value in tensor.detach().reshape(-1).tolist()]


def run(torch, log):
    documented(torch, log)
    policies(torch, log)
    asked(torch, log)
    views_and_tuples(torch, log)
    extra_backward(torch, log)
    mutated(torch, log)
    differing(torch, log)
    arguments(torch, log)
    nested(torch, log)
    stopping(torch, log)
    saved_in_place(torch, log)
    randomness(torch, log)
    lifetimes(torch, log)
    names(torch, log)


def leaves(torch):
    x = torch.arange(9.0, dtype=torch.float64).reshape(3, 3).div(10).requires_grad_()
    y = torch.arange(9.0, 0.0, -1.0, dtype=torch.float64).reshape(3, 3).div(10).requires_grad_()
    return x, y


def counting(torch, log):
    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "detach" not in str(func) and "lift_fresh" not in str(func):
                self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    return Counting()


def contexts(torch, policy, **options):
    return functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, policy, **options)


class Together:
    """Two contexts, entered one after the other."""

    def __init__(self, *contexts):
        self.contexts = contexts

    def __enter__(self):
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *exception):
        for context in reversed(self.contexts):
            context.__exit__(*exception)


def both(torch, log, function, policy, **options):
    """Run forward and backward, and log what ran in the whole second run, and the gradients."""
    x, y = leaves(torch)
    again = counting(torch, log)

    def around():
        first, second = torch.utils.checkpoint.create_selective_checkpoint_contexts(policy, **options)
        return first, Together(again, second)

    out = torch.utils.checkpoint.checkpoint(function, x, y, use_reentrant=False, context_fn=around, early_stop=False)
    out.sum().backward()
    log("again", again.seen)
    log(x.grad, y.grad)
    return out


def documented(torch, log):
    """The example of PyTorch's documentation, in its three forms."""
    ops = [torch.ops.aten.mm.default]
    policy_class = torch.utils.checkpoint.CheckpointPolicy

    def policy(ctx, op, *args, **kwargs):
        return policy_class.MUST_SAVE if op in ops else policy_class.PREFER_RECOMPUTE

    def function(x, y):
        return torch.sigmoid(torch.matmul(torch.matmul(x, y), y)) * y

    for chosen in (ops, policy, lambda ctx, op, *args, **kwargs: op in ops):
        both(torch, log, function, chosen)


def policies(torch, log):
    for kind in torch.utils.checkpoint.CheckpointPolicy:
        log(str(kind), kind.value)
        both(torch, log, lambda x, y: (x @ y).sin().exp() * x, lambda ctx, op, *args, **kwargs: kind)


def asked(torch, log):
    def policy(ctx, op, *args, **kwargs):
        shapes = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args]
        log("asked", str(op), str(shapes), str(kwargs), ctx.is_recompute, tuple(ctx.op_output.shape))
        return str(op) == "aten.cos.default"

    both(torch, log, lambda x, y: (x.cos() + torch.add(x, y, alpha=2)).sum(0).cos().reshape(3, 1).exp(), policy)


def views_and_tuples(torch, log):
    def everything(ctx, op, *args, **kwargs):
        return True

    both(torch, log, lambda x, y: x.view(9)[2:6].exp().unsqueeze(0).sin(), everything)
    both(torch, log, lambda x, y: x.max(1)[0].exp() * y.sort()[0].sum(0), everything)
    both(torch, log, lambda x, y: torch.cat([p.sin() for p in x.split(1)]).t() @ y, everything)


def extra_backward(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    x, y = leaves(torch)
    out = checkpoint(
        lambda x, y: (x.sin() @ y).cos(), x, y, use_reentrant=False, context_fn=contexts(torch, [torch.ops.aten.mm.default])
    )
    out.sum().backward(retain_graph=True)
    log.error("again", lambda: out.sum().backward())
    x, y = leaves(torch)
    out = checkpoint(lambda x, y: (x.sin() @ y).cos(), x, y, use_reentrant=False, context_fn=contexts(torch, []))
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    log(x.grad)


def mutated(torch, log):
    def function(x, y):
        z = x.sin()
        w = z.exp()
        z.mul_(2)
        return w * y

    def overwrites_later(x, y):
        z = x @ y
        return z.exp(), z

    for allow in (False, True):
        log("allowed" if allow else "not allowed")
        log.error(
            "within", lambda: both(torch, log, function, [torch.ops.aten.sin.default], allow_cache_entry_mutation=allow)
        )
        x, y = leaves(torch)
        out, z = torch.utils.checkpoint.checkpoint(
            overwrites_later, x, y, use_reentrant=False,
            context_fn=contexts(torch, [torch.ops.aten.mm.default], allow_cache_entry_mutation=allow),
        )  # fmt: skip
        z.mul_(3)
        log.error("outside", lambda: out.sum().backward())


def differing(torch, log):
    for second in (lambda x: x.tan().exp(), lambda x: x.sin().sin().exp()):
        calls = []

        def function(x, y):
            calls.append(1)
            return (x.sin().exp() if len(calls) == 1 else second(x)) * y

        x, y = leaves(torch)
        out = torch.utils.checkpoint.checkpoint(
            function, x, y, use_reentrant=False, context_fn=contexts(torch, [torch.ops.aten.sin.default])
        )
        log.error("differs", lambda: out.sum().backward())


def arguments(torch, log):
    make = torch.utils.checkpoint.create_selective_checkpoint_contexts
    for given in ([torch.ops.aten.sin], [3], 3, None, (torch.ops.aten.sin.default,)):
        try:
            make(given)
        except Exception as error:
            log(type(error).__name__, str(error).replace("functrace.torch", "torch"))
    log(len(make([])), len(make(lambda ctx, op, *args: True)))
    x, y = leaves(torch)
    checkpoint = torch.utils.checkpoint.checkpoint
    log.error("reentrant", lambda: checkpoint(torch.mm, x, y, use_reentrant=True, context_fn=contexts(torch, [])))
    log.error("debug", lambda: checkpoint(torch.mm, x, y, use_reentrant=False, debug=True, context_fn=contexts(torch, [])))
    with torch.no_grad():
        log(checkpoint(torch.mm, x, y, use_reentrant=False, context_fn=contexts(torch, lambda *a, **k: log("never asked"))))


def nested(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    counts = {"outer": 0, "inner": 0}

    def inner(x):
        counts["inner"] += 1
        return x.sin().exp().cos()

    def outer(x, y):
        counts["outer"] += 1
        z = checkpoint(inner, x @ y, use_reentrant=False, context_fn=contexts(torch, [torch.ops.aten.exp.default]))
        return z.tan()

    both(torch, log, outer, [torch.ops.aten.mm.default])
    log(str(counts))
    counts.update(outer=0, inner=0)
    x, y = leaves(torch)
    checkpoint(outer, x, y, use_reentrant=False).sum().backward()
    log(str(counts), x.grad)


def stopping(torch, log):
    calls = []

    def function(x, y):
        calls.append("begun")
        z = (x @ y).sin()
        calls.append("ended")
        return z * 2

    for early in (True, False):
        calls.clear()
        x, y = leaves(torch)
        with torch.utils.checkpoint.set_checkpoint_early_stop(early):
            out = torch.utils.checkpoint.checkpoint(
                function, x, y, use_reentrant=False, context_fn=contexts(torch, [torch.ops.aten.mm.default])
            )
        out.sum().backward()
        log(early, calls, x.grad)


def saved_in_place(torch, log):
    def function(x, y):
        z = x * 1
        z.exp_()
        return z.sin() * y

    both(torch, log, function, [])
    log.error("saved", lambda: both(torch, log, function, [torch.ops.aten.exp_.default]))


def randomness(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    for listed in ([], [torch.ops.aten.bernoulli.default]):
        x, _ = leaves(torch)
        masks = []

        def function(x):
            mask = torch.full((3, 3), 0.5, dtype=torch.float64).bernoulli()
            masks.append(mask.clone())
            return (x * mask).exp()

        checkpoint(function, x, use_reentrant=False, context_fn=contexts(torch, listed)).sum().backward()
        log(len(masks), bool((masks[0] == masks[1]).all()))


def lifetimes(torch, log):
    kept = []

    def policy(ctx, op, *args, **kwargs):
        kept.append(weakref.ref(ctx.op_output))
        return True

    gc.collect()
    gc.disable()
    x, y = leaves(torch)
    out = torch.utils.checkpoint.checkpoint(
        lambda x, y: (x @ y).sin().exp(), x, y, use_reentrant=False, context_fn=contexts(torch, policy)
    )
    out.sum().backward()
    node = weakref.ref(out)
    del out
    log("alive", [r() is not None for r in kept], node() is not None)
    gc.enable()


def names(torch, log):
    module = torch.utils.checkpoint
    log(str(module.CheckpointPolicy.MUST_SAVE), repr(module.CheckpointPolicy.PREFER_RECOMPUTE), len(module.CheckpointPolicy))
    log(torch.ops.aten.detach.default in module.SAC_IGNORED_OPS, torch.ops.prim.device.default in module.SAC_IGNORED_OPS)
    first, second = module.create_selective_checkpoint_contexts([])
    log(type(first).__name__, type(second).__name__, first.ignore_compile_internals(), first.is_infra_mode())
    mode = torch.utils._python_dispatch._get_current_dispatch_mode
    x, y = leaves(torch)
    modes = []

    def function(x, y):
        modes.append(type(mode()).__name__)
        return (x @ y).sin()

    module.checkpoint(function, x, y, use_reentrant=False, context_fn=contexts(torch, [])).sum().backward()
    log(modes, mode() is None)
    context = module.SelectiveCheckpointContext(is_recompute=False)
    log(context.is_recompute, context.op_output is None)
    log(sorted(module.__all__))
