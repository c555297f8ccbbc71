"""Functions at orders one to three, by torch.func and by create_graph: results, and what is saved of them, have the rule."""

from __future__ import annotations

from typing import Any


def run(torch: Any, log: Any) -> None:
    def function(name: str, forward: Any, setup: Any, backward: Any) -> Any:
        rules = {"forward": forward, "setup_context": setup, "backward": backward}
        rules = {word: staticmethod(rule) for word, rule in rules.items()}
        return type(name, (torch.autograd.Function,), {**rules, "generate_vmap_rule": True})

    def saving_inputs(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def saving_output(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    def saving_both(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, *(output if isinstance(output, tuple) else (output,)))

    def product(ctx: Any, g: Any, *_: Any) -> Any:
        for value in ctx.saved_tensors:
            g = g * value
        return g * 1.5

    def weighted(ctx: Any, g: Any, h: Any) -> Any:
        x, a, b = ctx.saved_tensors
        return g * x * a + h * b * 0.7

    straight = function("Straight", lambda x: x.round(), saving_inputs, lambda ctx, g: g * 2.5 * ctx.saved_tensors[0])
    exponential = function("Exponential", lambda x: x.exp(), saving_output, product)
    two = function("Two", lambda x: (x.round(), x * 2), saving_both, weighted)
    view = function("View", lambda x: x.view_as(x), saving_both, product)
    constant = function("Constant", lambda x: torch.ones_like(x), saving_both, product)

    def marked(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    partly = function("Partly", lambda x: (x * x, x.sign() * x), marked, product)
    outer = function(
        "Outer",
        lambda x: exponential.apply(x) * 2,
        saving_inputs,
        lambda ctx, g: g * exponential.apply(ctx.saved_tensors[0]) * straight.apply(ctx.saved_tensors[0]),
    )
    own: Any = function("Own", lambda x: x.round() + x, saving_inputs, lambda ctx, g: g * own.apply(ctx.saved_tensors[0]))

    def without_zeros(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        saving_both(ctx, inputs, output)

    def present(ctx: Any, g: Any, h: Any) -> Any:
        x, a, b = ctx.saved_tensors
        return 0 * x + (0 if g is None else g * a) + (0 if h is None else h * b)

    sparse = function("Sparse", lambda x: (x * 3, x.round()), without_zeros, present)

    def by_number(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.n = inputs[1]

    scaled = function(
        "Scaled",
        lambda x, n: x.round() * n,
        by_number,
        lambda ctx, g: (g * ctx.saved_tensors[0] * ctx.n + g * ctx.saved_tensors[1], None),
    )
    pair = function(
        "Pair",
        lambda x, w: x.round() * w,
        saving_both,
        lambda ctx, g: (g * ctx.saved_tensors[1] * ctx.saved_tensors[2], g * ctx.saved_tensors[0]),
    )

    programs = {
        "straight": lambda x: straight.apply(x) ** 2,
        "straight twice": lambda x: straight.apply(straight.apply(x) * x),
        "saved output": lambda x: exponential.apply(x) ** 2,
        "two outputs": lambda x: two.apply(x)[0] * two.apply(x)[1] ** 2,
        "view": lambda x: view.apply(x) ** 2,
        "constant": lambda x: constant.apply(x) ** 2 * x,
        "partly differentiable": lambda x: partly.apply(x)[0] ** 2 * partly.apply(x)[1],
        "Functions inside": lambda x: outer.apply(x) ** 2,
        "itself inside": lambda x: own.apply(x) ** 2,
        "one of two": lambda x: sparse.apply(x)[0] ** 2,
        "both of two": lambda x: sparse.apply(x)[0] ** 2 * sparse.apply(x)[1],
        "a number": lambda x: scaled.apply(x, 2.5) ** 2,
        "two arguments": lambda x: pair.apply(x, x * x) ** 2,
        "one of two arguments": lambda x: pair.apply(x, torch.tensor([0.9, -0.8], dtype=torch.float64)) ** 2,
    }
    start = torch.tensor([0.7, -0.6], dtype=torch.float64)

    def next_order(f: Any) -> Any:
        return lambda x: (torch.func.grad(f)(x) * x).sum()

    for name, program in programs.items():
        f: Any = lambda x, program=program: program(x).sum()
        x = start.clone().requires_grad_()
        out = f(x)
        for order in (1, 2, 3):
            log(f"{name}, order {order}", torch.func.grad(f)(start))
            log(f"{name}, order {order} of a batch", torch.func.vmap(torch.func.grad(f))(torch.stack([start, start * 1.5])))
            (found,) = torch.autograd.grad(out, x, create_graph=True)
            log(f"{name}, order {order} by create_graph", found.detach())
            f, out = next_order(f), (found * x).sum()
