"""What a Function's forward and backward see: grad mode, requires_grad, needs_input_grad, the ctx that is the node."""


def run(torch, log):
    Function = torch.autograd.Function

    class Mul(Function):
        @staticmethod
        def forward(ctx, a, b, k):
            log("forward grad mode", torch.is_grad_enabled(), "requires", a.requires_grad, b.requires_grad)
            t = a * b
            log("intermediate requires", t.requires_grad, t.grad_fn)
            log("needs in forward", ctx.needs_input_grad, "saved in forward")
            log("is node", isinstance(ctx, torch.autograd.graph.Node), type(ctx).__name__, ctx.name())
            ctx.save_for_backward(a, b)
            log("saved tensors inside forward", ctx.saved_tensors)
            ctx.k = k
            return t * k

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            log("backward grad mode", torch.is_grad_enabled(), "g requires", g.requires_grad)
            log("needs in backward", ctx.needs_input_grad)
            log("k", ctx.k)
            return g * b * ctx.k, g * a * ctx.k, None

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.tensor([3.0, 4.0])
    out = Mul.apply(x, y, 3)
    log("out", out, type(out.grad_fn).__name__, out.grad_fn.k, out.output_nr)
    log("next", [(type(n).__name__ if n is not None else None, i) for n, i in out.grad_fn.next_functions])
    out.sum().backward()
    log("x.grad", x.grad, "y.grad", y.grad)
    log("attribute survives", out.grad_fn.k)

    # Nothing requires grad: forward has a ctx all the same.
    out = Mul.apply(y, y, 2)
    log("no grad wanted", out, out.grad_fn)
    with torch.no_grad():
        out = Mul.apply(x, y, 2)
    log("no_grad", out, out.grad_fn, out.is_leaf)

    # create_graph: backward's grad mode, and a graph through it.
    z = torch.tensor([5.0, 6.0], requires_grad=True)
    out = Mul.apply(x, z, 2)
    (gx, gz) = torch.autograd.grad(out.sum(), (x, z), create_graph=True)
    log("first", gx, gz)
    log("second", torch.autograd.grad(gx.sum(), z))

    # backward(inputs=) leaves needs_input_grad as it was.
    out = Mul.apply(x, z, 2)
    x.grad = None
    out.sum().backward(inputs=[x])
    log("only x", x.grad, z.grad)

    class Node(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.note = "kept"
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log("same ctx", ctx.note)
            ctx.note = "changed"
            return g * 2

    out = Node.apply(x)
    log("repr", "NodeBackward" in repr(out), str(type(out.grad_fn).__mro__[0].__name__))
    out.sum().backward()
    log("note", out.grad_fn.note)
    log("mro has Node", torch.autograd.graph.Node in type(out.grad_fn).__mro__)
