"""Writing into outputs of a Function that are views: refusals by how the view was made, pure views, and views of
arguments with tangents."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    written(torch, log)
    overwritten(torch, log)
    pure(torch, log)
    invalid(torch, log)
    tangents(torch, log)


def functions(torch: Any) -> dict[str, Any]:
    """Functions that return a view of their argument, a part of it, a view and another tensor, and the argument."""

    def made(name: str, forward: Any) -> Any:
        return type(
            name,
            (torch.autograd.Function,),
            {
                "forward": staticmethod(forward),
                "backward": staticmethod(lambda ctx, *grads: grads[0]),
            },
        )

    return {
        "whole": made("Whole", lambda ctx, x: x.view_as(x)),
        "part": made("Part", lambda ctx, x: x[:1]),
        "several": made("Several", lambda ctx, x: (x.view_as(x), x * 2)),
        "same": made("Same", lambda ctx, x: x),
    }


def written(torch: Any, log: Any) -> None:
    """Write into the outputs, with and without a gradient."""
    other = torch.ones(1, requires_grad=True)
    writes = {
        "tensor": lambda v: v.add_(other),
        "number": lambda v: v.add_(1),
        "copy": lambda v: v.copy_(other),
    }
    for name, function in functions(torch).items():
        for source in ("plain", "leaf", "computed"):
            for recorded in (True, False):
                for write in (*writes, None):
                    x = torch.ones(2, requires_grad=source == "leaf")
                    if source == "computed":
                        x = torch.ones(2, requires_grad=True) * 2
                    with torch.set_grad_enabled(recorded):
                        view = function.apply(x)
                    view = view[0] if isinstance(view, tuple) else view
                    label = f"{name} {source} {recorded} {write}"
                    if write is None:
                        log(label, repr(view), view._is_view(), view.requires_grad)
                    else:
                        attempt(
                            log,
                            label,
                            lambda view=view, write=write: writes[write](view).sum().item(),
                        )
    x = torch.ones(2)
    log.error("unbind", lambda: x.unbind()[0].copy_(other[0]))
    log.error("chunk", lambda: x.chunk(2)[0].add_(other))
    log("split", x.split(1)[0].add_(1))


def overwritten(torch: Any, log: Any) -> None:
    """Mark tensors that are no arguments, and arguments that are views, as overwritten."""

    def made(name: str, forward: Any) -> Any:
        return type(
            name,
            (torch.autograd.Function,),
            {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, *g: g[0])},
        )

    def own_view(ctx: Any, x: Any) -> Any:
        result = x.clone().view_as(x)
        ctx.mark_dirty(result)
        return result

    def own_view_and_more(ctx: Any, x: Any) -> Any:
        return own_view(ctx, x), x * 2

    def argument(ctx: Any, x: Any) -> Any:
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    for name, forward in (("own", own_view), ("more", own_view_and_more)):
        for source in (
            torch.ones(2),
            torch.ones(2, requires_grad=True),
            torch.ones(2, requires_grad=True) * 2,
        ):
            attempt(log, name, lambda f=made("Own", forward), x=source: f.apply(x))
    function = made("Argument", argument)
    leaf, computed = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 2
    with torch.no_grad():
        unrecorded = computed.view_as(computed)
    whole = functions(torch)["whole"]
    for label, x in (
        ("split", computed.split(1)[0]), ("unbind", computed.unbind()[0]), ("split of leaf", leaf.split(1)[0]),
        ("view of leaf", leaf.view_as(leaf)), ("unrecorded", unrecorded), ("function", whole.apply(computed)),
        ("leaf", leaf),
    ):  # fmt: skip
        log.error(label, lambda x=x: function.apply(x))


def pure(torch: Any, log: Any) -> None:
    """Say that forward only takes a view: it is taken again after a write."""

    def made(name: str, forward: Any, backward: Any) -> Any:
        return type(
            name,
            (torch.autograd.Function,),
            {"forward": staticmethod(forward), "backward": staticmethod(backward)},
        )

    def declared(take: Any) -> Any:
        def forward(ctx: Any, *args: Any) -> Any:
            ctx._is_pure_view = True
            return take(*args)

        return forward

    part = made("Part", declared(lambda x: x.narrow(0, 0, 2)), lambda ctx, g: torch.cat((g, g * 0)))
    copied = made("Copied", declared(lambda x: x.clone()), lambda ctx, g: g)
    inner = made(
        "Inner", declared(lambda x: x.clone().select(0, 0)), lambda ctx, g: g * torch.ones(4)
    )
    two = made("Two", declared(lambda x, y: x.narrow(0, 0, 2)), lambda ctx, g: (None, None))
    many = made("Many", declared(lambda x: (x.narrow(0, 0, 2), x * 2)), lambda ctx, g, h: None)
    leaf = torch.ones(4, requires_grad=True)
    for label, function in (("part", part), ("copied", copied), ("inner", inner)):
        x = leaf.clone()
        view = function.apply(x)
        log(label, type(view.grad_fn).__name__, view._is_view())
        attempt(log, f"{label} written", lambda view=view: view.mul_(3))
        attempt(log, f"{label} gradient", lambda view=view: torch.autograd.grad(view.sum(), leaf))
        x = leaf.clone()
        view = function.apply(x)
        x.mul_(2)
        attempt(
            log, f"{label} base written", lambda view=view: torch.autograd.grad(view.sum(), leaf)
        )
    for x in (torch.ones(4), leaf):
        log.error("two", lambda x=x: two.apply(x, x))
        log.error("many", lambda x=x: many.apply(x))

    def read(ctx: Any, x: Any) -> Any:
        log("readable", hasattr(ctx, "_is_pure_view"))
        return x * 1

    made("Read", read, lambda ctx, g: g).apply(leaf)


def invalid(torch: Any, log: Any) -> None:
    """Views made without recording, whose base was overwritten."""
    leaf = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        view = leaf[:]
        view *= 2
    computed = torch.ones(2, requires_grad=True) * 1
    with torch.no_grad():
        part = computed[:1]
    computed.add_(1)
    with torch.inference_mode():
        later = computed[:1]
    computed.add_(1)
    for label, x in (("leaf", view), ("computed", part), ("inference", later)):
        log(label, repr(x), x.requires_grad)
        log.error("is_leaf", lambda x=x: x.is_leaf)
        log.error("grad_fn", lambda x=x: x.grad_fn)
        log.error("product", lambda x=x: x * 2)
        log.error("written", lambda x=x: x.add_(1))


def tangents(torch: Any, log: Any) -> None:
    """Tangents of outputs that are views of arguments."""
    forward_ad = torch.autograd.forward_ad

    class Viewed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, how: str, part: bool) -> Any:
            ctx.how, ctx.part = how, part
            return x.narrow(0, 0, 2) if part else x

        @staticmethod
        def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
            seen = tangent.narrow(0, 0, 2) if ctx.part else tangent.view_as(tangent)
            made = {
                "view": seen,
                "copy": seen.clone(),
                "same": tangent,
                "detached": seen.detach(),
                "nothing": None,
            }
            return seen.clone().view_as(seen) if ctx.how == "other" else made[ctx.how]

    for how in ("view", "copy", "other", "same", "detached", "nothing"):
        for part in (True, False):
            for nested in range(3):
                if how == "nothing" and not part:
                    continue
                with forward_ad.dual_level():
                    x = forward_ad.make_dual(torch.ones(4), torch.ones(4))
                    if nested == 1:
                        x = x.view_as(x)
                    if nested == 2:
                        x = forward_ad.make_dual(torch.ones(2, 4), torch.ones(2, 4))[0]
                    label = f"{how} {part} {nested}"
                    attempt(
                        log,
                        label,
                        lambda x=x, how=how, part=part: (
                            forward_ad.unpack_dual(Viewed.apply(x, how, part)).tangent
                        ),
                    )


def attempt(log: Any, label: str, function: Any) -> None:
    """Log a result, or the error."""
    try:
        log(label, function())
    except Exception as error:
        log(label, type(error).__name__, str(error))
