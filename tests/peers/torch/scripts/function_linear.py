"""A LinearFunction as the tutorial writes it, in both styles, trained for a few steps; double backward; its graph."""


def linear(torch):
    class LinearFunction(torch.autograd.Function):
        @staticmethod
        def forward(input, weight, bias):
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def setup_context(ctx, inputs, output):
            input, weight, bias = inputs
            ctx.save_for_backward(input, weight, bias)

        @staticmethod
        def backward(ctx, grad_output):
            input, weight, bias = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0)
            return grad_input, grad_weight, grad_bias

    class CtxLinear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input, weight, bias=None):
            ctx.save_for_backward(input, weight, bias)
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def backward(ctx, grad_output):
            gradients = LinearFunction.backward(ctx, grad_output)
            return gradients[: len(ctx.needs_input_grad)]

    return LinearFunction, CtxLinear


def run(torch, log):
    for function in linear(torch):
        log(function.__name__)
        x = torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
        w = torch.tensor([[0.1, 0.2, 0.3], [-0.3, 0.2, 0.1]], requires_grad=True)
        b = torch.tensor([0.5, -0.5], requires_grad=True)
        target = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        for _ in range(4):
            out = function.apply(x, w, b)
            loss = ((out - target) ** 2).mean()
            loss.backward()
            log(loss, w.grad, b.grad, x.grad)
            with torch.no_grad():
                for p in (w, b):
                    p -= 0.05 * p.grad
                    p.grad = None
        log("edges", [n if n is None else type(n).__name__ for n, _ in function.apply(x, w, b).grad_fn.next_functions])
        log("no bias", torch.autograd.grad(function.apply(x, w, None).sum(), w))
        x.requires_grad_()
        loss = (function.apply(x, w, b) ** 2).sum()
        gx, gw = torch.autograd.grad(loss, (x, w), create_graph=True)
        log(gx, gw)
        log(torch.autograd.grad((gx**2).sum() + gw.sum(), (x, w, b)))
