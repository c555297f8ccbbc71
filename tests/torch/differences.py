"""Where the shim is not PyTorch, each with its reason: names that are absent, and behaviour that
differs, with an example.

The page ``docs/torch_coverage.md`` is made of it (coverage.py). Tests run every example: here it
prints what stands under ``here``, on PyTorch what stands under ``pytorch``; a reason for a name
that is there is an error.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Difference:
    """A behaviour that is not PyTorch's, by choice.

    Attributes:
        what: a description of the difference, without its full stop.
        names: what it concerns, as ``area.name`` of coverage.py.
        because: the reason.
        example: Python that prints something else on each side; ``torch`` is there.
        pytorch: what it prints there.
        here: what it prints here.
    """

    what: str
    names: tuple[str, ...]
    because: str
    example: str
    pytorch: str
    here: str


DIFFERENCES = (
    Difference(
        what="Overwriting a part of a saved tensor is noticed",
        names=("torch.autograd.graph.allow_mutation_on_saved_tensors",),
        because="""PyTorch compares addresses of first elements, so a write to `b[1:]` is not seen as a write to `b`, and
            the gradients are those of other values. Here a saved tensor knows who shares its memory.""",
        example="""
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
with torch.autograd.graph.allow_mutation_on_saved_tensors():
    b = x.clone()
    y = (b * b).sum()
    with torch.no_grad():
        b[1:].mul_(2)
    y.backward()
print(x.grad)
""",
        pytorch="tensor([ 2.,  8., 12.])",
        here="tensor([2., 4., 6.])",
    ),
    Difference(
        what="What may not be written to is not written to",
        names=("torch.autograd.inference_mode", "torch.autograd.grad_mode.inference_mode",
        "torch.inference_mode"),
        because="PyTorch writes to an inference tensor outside of inference mode, and raises afterwards.",
        example="""
with torch.inference_mode():
    x = torch.zeros(2)
try:
    x.add_(1)
except RuntimeError:
    print(x)
""",
        pytorch="tensor([1., 1.])",
        here="tensor([0., 0.])",
    ),
    Difference(
        what="One `inference_mode` object may be entered twice",
        names=("torch.autograd.inference_mode", "torch.autograd.grad_mode.inference_mode",
        "torch.inference_mode"),
        because="""In PyTorch the inner entry forgets what the outer one has to restore: the thread stays in inference mode,
            and nothing has a gradient any more.""",
        example="""
mode = torch.inference_mode()
with mode:
    with mode:
        pass
print(torch.is_inference_mode_enabled(), torch.is_grad_enabled())
""",
        pytorch="True False",
        here="False True",
    ),
    Difference(
        what="Operations on leaves that were made in inference mode are recorded",
        names=("torch.autograd.inference_mode", "torch.autograd.grad_mode.inference_mode",
        "torch.inference_mode"),
        because="""PyTorch records an operation only if one of its operands is no inference tensor: `p * 2` is recorded and
            `p.sum()` is not, although `p` wants a gradient. Here both are. What would have to save such a tensor raises.""",
        example="""
with torch.inference_mode():
    p = torch.ones(2, requires_grad=True)
print((p * 2).requires_grad, p.sum().requires_grad)
""",
        pytorch="True False",
        here="True True",
    ),
    Difference(
        what="View replay is chosen when a history is made again",
        names=("torch.autograd._force_original_view_tracking",
        "torch.autograd.is_view_replay_enabled"),
        because="""PyTorch decides when the view is made whether its history is made again by its own operation or by
            `as_strided`; here that is decided when it is made again. The gradients are the same.""",
        example="""
b = torch.ones(3, requires_grad=True).clone()
with torch.autograd._force_original_view_tracking(True):
    v = b.view(3)
b.mul_(2)
print(v.grad_fn.name())
""",
        pytorch="ViewBackward0",
        here="AsStridedBackward0",
    ),
    Difference(
        what="Hooks can read the order of a pass",
        names=("torch._C._current_graph_task_execution_order",),
        because="PyTorch returns it in the hooks of the first node, and fails an assertion of its own later on.",
        example="""
y = torch.ones(2, requires_grad=True).exp()


def hook(grad):
    try:
        print([node.name() for node in torch._C._current_graph_task_execution_order()])
    except RuntimeError as error:
        print("INTERNAL ASSERT" in str(error))


y.register_hook(hook)
with torch.autograd.set_multithreading_enabled(False):
    y.sum().backward()
""",
        pytorch="True",
        here="['SumBackward0', 'ExpBackward0', 'torch::autograd::AccumulateGrad']",
    ),
    Difference(
        what="Nodes of operations may carry attributes",
        names=("node.metadata",),
        because="They are objects of Python here. What is set goes with the node, as its `metadata` does.",
        example="""
y = torch.ones(2, requires_grad=True).exp()
try:
    y.grad_fn.note = "first layer"
    print(y.grad_fn.note)
except AttributeError as error:
    print(error)
""",
        pytorch="'ExpBackward0' object has no attribute 'note'",
        here="first layer",
    ),
    Difference(
        what="The result of a product has no second derivative of its own",
        names=("torch.autograd.grad",),
        because="""PyTorch's second derivative goes through the result that backward reads where its formula does (`prod`);
            `prod`, `cumprod` and the products of `scatter_reduce` divide by the input there. Here their derivatives are
            exact with zeros and read the input alone, so the result is not used, and `grad` says so unless `allow_unused`
            is given. Derivatives by the inputs are the same.""",
        example="""
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.prod()
(gradient,) = torch.autograd.grad(y, x, create_graph=True)
print(torch.autograd.grad(gradient.sum(), y, allow_unused=True, retain_graph=True))
print(torch.autograd.grad(gradient.sum(), x))
""",
        pytorch="(tensor(1.8333),)\n(tensor([5., 4., 3.]),)",
        here="(None,)\n(tensor([5., 4., 3.]),)",
    ),
    Difference(
        what="Inside a Function, `detach` and `no_grad` make no constants for transforms",
        names=("torch.autograd.Function", "torch.func.grad", "torch.func.vjp",
        "torch.func.hessian"),
        because="""A backward that runs its forward again must detach, to have a graph of its own; it says nothing about what
            is constant. A transform differentiates it as the program that it is, so that second derivatives are right.
            `torch.check_function` finds Functions that PyTorch differentiates to something else.""",
        example="""
class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x.detach() * grad


print(torch.func.grad(torch.func.grad(Square.apply))(torch.tensor(3.0)))
""",
        pytorch="tensor(0.)",
        here="tensor(2.)",
    ),
    Difference(
        what="Functions need no `setup_context` under `torch.func`",
        names=("torch.autograd.Function", "torch.func.grad", "torch.func.vmap"),
        because="Tensors that a `forward` with `ctx` saves are determined here when its backward is requested.",
        example="""
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


try:
    print(torch.func.grad(Square.apply)(torch.tensor(3.0)))
except RuntimeError as error:
    print(str(error)[:90])
""",
        pytorch="In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, .",
        here="tensor(6.)",
    ),
    Difference(
        what="Forward mode takes constants for constants",
        names=("torch.func.jvp", "torch.func.jacfwd", "torch.func.linearize"),
        because="""In PyTorch's `torch.func` forward mode goes through `no_grad`, reverse mode does not: the two Jacobians of
            one function differ. Here they are the same.""",
        example="""
def f(x):
    with torch.no_grad():
        scale = x * x
    return scale * x


x = torch.tensor(2.0)
print(torch.func.jacfwd(f)(x), torch.func.jacrev(f)(x))
""",
        pytorch="tensor(12.) tensor(4.)",
        here="tensor(4.) tensor(4.)",
    ),
    Difference(
        what="`vmap` draws numbers for each example only where they do not depend on one another",
        names=("torch.func.vmap", "torch.vmap"),
        because="""A mapped function runs once, on all examples. With `randomness="different"`, factories, functions that
            fill tensors, `bernoulli` and dropout draw as PyTorch does; `multinomial`, `normal`, `poisson` and the like of
            mapped parameters raise: draw outside, one for each example, and map over what is drawn.""",
        example="""
def f(x):
    return torch.multinomial(x, 2)


try:
    print(torch.func.vmap(f, randomness="different")(torch.ones(3, 4)).shape)
except RuntimeError as error:
    print(error)
""",
        pytorch="torch.Size([3, 2])",
        here="vmap: randomness='different' does not reach functions of random numbers here; draw them outside, one for each "
        "example, and map over them",
    ),
    Difference(
        what="A hook on a tensor inside a transform is called when it is registered",
        names=("torch.Tensor.register_hook", "torch.func.grad", "torch.func.vjp"),
        because="""It gets the traced gradient, and what it returns is recorded. So it reads what it closes over as that is
            then, not as it is when a gradient arrives.""",
        example="""
factor = 1.0


def f(x):
    global factor
    y = x * 3
    y.register_hook(lambda grad: grad * factor)
    factor = 2.0
    return y * y


print(torch.func.grad(f)(torch.tensor(1.0)))
""",
        pytorch="tensor(36.)",
        here="tensor(18.)",
    ),
    Difference(
        what="Inside a transform `requires_grad` and `grad_fn` say nothing of the transform",
        names=("torch.Tensor.requires_grad", "torch.Tensor.grad_fn", "torch.func.grad",
        "torch.func.vjp"),
        because="""There is no graph: the function is recorded as a program, which is differentiated
            when it has ended. In PyTorch they are set for the innermost transform alone.""",
        example="""
torch.func.grad(lambda x: (print(x.requires_grad, (x * 2).grad_fn is None), x.sum())[1])(torch.ones(2))
""",
        pytorch="True False",
        here="False True",
    ),
    Difference(
        what="A function that closes over tensors which want gradients runs twice",
        names=("torch.func.grad", "torch.func.vjp", "torch.func.jacrev", "torch.func.hessian"),
        because="""Which tensors a function closes over is known after it has run; then it runs again, with them as inputs,
            so that they get their gradients.""",
        example="""
w, calls = torch.tensor(2.0, requires_grad=True), []


def f(x):
    calls.append(x)
    return x * w


torch.func.grad(f)(torch.tensor(1.0)).backward()
print(w.grad, len(calls))
""",
        pytorch="tensor(1.) 1",
        here="tensor(1.) 2",
    ),
    Difference(
        what="`gradcheck` takes outputs that are no floating-point numbers in every place",
        names=("torch.autograd.gradcheck", "torch.autograd.gradcheck.gradcheck"),
        because="PyTorch's loses count of its outputs if one of them is integer and another is not.",
        example="""
x = torch.ones(2, dtype=torch.float64, requires_grad=True)
try:
    print(torch.autograd.gradcheck(lambda x: (x.long(), x * 2), (x,)))
except IndexError as error:
    print(error)
""",
        pytorch="list index out of range",
        here="True",
    ),
    Difference(
        what="`gradcheck` names what is no tensor",
        names=("torch.autograd.gradcheck", "torch.autograd.gradcheck.gradcheck"),
        because="PyTorch's stops at an attribute that the value does not have.",
        example="""
x = torch.ones(2, dtype=torch.float64, requires_grad=True)
try:
    torch.autograd.gradcheck(lambda x: 3.0, (x,))
except (AttributeError, TypeError) as error:
    print(error)
""",
        pytorch="'float' object has no attribute 'requires_grad'",
        here="gradcheck: the function returned a float, not a tensor",
    ),
    Difference(
        what="A forward traceback of anomaly mode ends at the user's line",
        names=(
            "torch.autograd.detect_anomaly", "torch.autograd.set_detect_anomaly",
            "torch.autograd.anomaly_mode.detect_anomaly",
            "torch.autograd.anomaly_mode.set_detect_anomaly",
        ),
        because="PyTorch shows its own Python lines below it, and the place in its C++ sources.",
        example="""
import warnings

with warnings.catch_warnings(record=True) as caught, torch.autograd.set_detect_anomaly(True):
    warnings.simplefilter("always")
    x = torch.tensor([float("nan")], requires_grad=True)
    try:
        torch.nn.functional.softmax(x, dim=0).backward()
    except RuntimeError as error:
        print(error)
print("functional.py" in str(caught[-1].message), "Triggered internally" in str(caught[-1].message))
""",
        pytorch="Function 'SoftmaxBackward0' returned nan values in its 0th output.\nTrue True",
        here="Function 'SoftmaxBackward0' returned nan values in its 0th output.\nFalse False",
    ),
    Difference(
        what="A Function without `jvp` has a forward mode",
        names=("torch.autograd.Function", "torch.func.jvp", "torch.func.jacfwd"),
        because="Its backward is linear in the gradient, and the transpose of that is the forward mode.",
        example="""
class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


try:
    print(torch.func.jvp(Square.apply, (torch.tensor(3.0),), (torch.tensor(1.0),)))
except RuntimeError as error:
    print(str(error)[:66])
""",
        pytorch="You must implement the jvp function for custom autograd.Function t",
        here="(tensor(9.), tensor(6.))",
    ),
    Difference(
        what="The `jvp` of a Function may be differentiated",
        names=("torch.autograd.Function", "torch.func.jvp"),
        because="""PyTorch takes what a `jvp` reads from `ctx` for constants, so that its second derivative in forward mode
            is zero. Here it goes through the values that were saved.""",
        example="""
class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent


def slope(x):
    return torch.func.jvp(Square.apply, (x,), (torch.tensor(1.0),))[1]


print(torch.func.jvp(slope, (torch.tensor(3.0),), (torch.tensor(1.0),)))
""",
        pytorch="(tensor(6.), tensor(0.))",
        here="(tensor(6.), tensor(2.))",
    ),
    Difference(
        what="`vmap` maps Functions that bring no rule",
        names=("torch.autograd.Function", "torch.func.vmap", "torch.vmap"),
        because="""Forward and backward are programs here, which are mapped as they are, without `generate_vmap_rule`. A
            static method `vmap` is called where there is one.""",
        example="""
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


try:
    print(torch.func.vmap(Twice.apply)(torch.ones(2)))
except RuntimeError as error:
    print(str(error)[:63])
""",
        pytorch="You tried to vmap over Twice, but it does not have vmap support",
        here="tensor([2., 2.])",
    ),
    Difference(
        what="`NestedIOFunction` works",
        names=("torch.autograd.NestedIOFunction", "torch.autograd.function.NestedIOFunction"),
        because="PyTorch's has raised since the context of a Function is another object than the Function.",
        example="""
class Product(torch.autograd.function.NestedIOFunction):
    def forward_extended(self, pair):
        return pair[0] * pair[1]


x = torch.ones(2)
try:
    print(Product.apply((x, x)))
except AttributeError as error:
    print(error)
""",
        pytorch="'ProductBackward' object has no attribute '_nested_input'",
        here="tensor([1., 1.])",
    ),
    Difference(
        what="A dual tensor may be overwritten by a function of itself",
        names=("torch.autograd.forward_ad.make_dual", "torch.Tensor.mul_"),
        because="PyTorch reads the new value where the derivative wants the old one.",
        example="""
forward_ad = torch.autograd.forward_ad
with forward_ad.dual_level():
    x = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    x.mul_(x)
    print(forward_ad.unpack_dual(x).tangent)
""",
        pytorch="tensor(12.)",
        here="tensor(6.)",
    ),
    Difference(
        what="What is constant piece by piece has a tangent",
        names=("torch.autograd.forward_ad.make_dual", "torch.func.jvp"),
        because="PyTorch has no rule of forward mode for `//` and some others; here every operation has one.",
        example="""
forward_ad = torch.autograd.forward_ad
with forward_ad.dual_level():
    x = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    try:
        print(forward_ad.unpack_dual(x // 2).tangent)
    except RuntimeError as error:
        print(str(error)[:53])
""",
        pytorch="Trying to use forward AD with aten::floor_divide that",
        here="tensor(0.)",
    ),
    Difference(
        what="The incomplete gamma functions have a derivative by their shape",
        names=("torch.igamma",),
        because="PyTorch has none.",
        example="""
a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
try:
    print(torch.autograd.grad(torch.igamma(a, torch.tensor(1.5, dtype=torch.float64)), a)[0])
except NotImplementedError as error:
    print(error)
""",
        pytorch="the derivative for 'igamma: input' is not implemented.",
        here="tensor(-0.3135, dtype=torch.float64)",
    ),
    Difference(
        what="A dispatch mode does not see the constructor `torch.Tensor`",
        names=("torch.utils.checkpoint.create_selective_checkpoint_contexts",),
        because="Its object stands already. Modes see `torch.tensor`, and every other function that makes tensors.",
        example="""
from importlib import import_module

Mode = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode


class Names(Mode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func)
        return func(*args, **(kwargs or {}))


with Names():
    (torch.Tensor([1.0, 2.0]) * torch.ones(2)).sum().item()
""",
        pytorch="aten.lift_fresh.default\naten.ones.default\naten.mul.Tensor\naten.sum.default\naten._local_scalar_dense.default",
        here="aten.ones.default\naten.mul.Tensor\naten.sum.default\naten._local_scalar_dense.default",
    ),
)  # fmt: skip

ABSENT: Mapping[str, tuple[str, ...]] = {
    "deprecated, in favour of `grad_tensors`": ("torch.autograd.backward(grad_variables=)",),
    "there is no device but the CPU, no stream, and no layout of gradients that a device would need": (
        "torch.autograd.enforce_grad_layout_policy",
        "torch.autograd.grad_mode.enforce_grad_layout_policy",
        "torch._C._is_grad_layout_enforcement_enabled", "torch._C._register_py_class_for_device",
        "torch._C._set_grad_layout_enforcement_enabled",
        "torch._C._set_override_stale_capture_stream",
        "torch._C._set_warn_on_accumulate_grad_stream_mismatch",
    ),
    "nothing compiles graphs, and there is no TorchScript": (
        "node of a Function._autograd_function_id",
        "node of a Function._compiled_autograd_backward_state",
        "node of a Function._compiled_autograd_key",
        "node of a Function._get_compiled_autograd_symints",
        "node of a Function._get_user_fn", "torch._C.Value", "torch._C._dynamo",
    ),
    "a helper of PyTorch's own Python code, which is other code here": (
        "torch.autograd._make_grads",
        "torch.autograd.function._iter_tensors",
        "torch.autograd.function._nested_map",
        "node of a Function._register_hook",
    ),
    "deprecated, and of no use but in PyTorch's own `gradcheck`": (
        "torch.autograd.gradcheck.get_numerical_jacobian_wrt_specific_input",
    ),
    "what it sets up is made by `import` here": (
        "torch._C._autograd_init",
        "torch._C._debug_only_display_vmap_fallback_warnings",
        "torch._C._profiler",
    ),
    "states of threads are Python's here": ("torch._C._remove_obj_from_tls",
    "torch._C._stash_obj_in_tls"),
    "there are no dispatch keys": ("torch._C.DispatchKey", "torch._C._SetExcludeDispatchKeyGuard"),
    "there are no layers here: PyTorch looks for its own batch norms": ("torch.func.replace_all_batch_norm_modules_",),
    "it removes writes for a compiler: nothing here needs that": ("torch.func.functionalize",),
    "traced values show what they are when they are printed": ("torch.func.debug_unwrap",),
    "first-class dimensions are not there": ("torch.func.rearrange",),
    "it is for subclasses that print themselves": ("torch.Tensor.__repr__(tensor_contents=)",),
    "dispatch modes stand in a list of Python's": ("torch._C._TorchDispatchModeKey",
    "torch._C._get_dispatch_mode"),
    "`clear_saved_tensors_on_access` of the class does it": ("ctx.maybe_clear_saved_tensors",),
}  # fmt: skip
"""Reason by reason the names that are not here, as ``area.name`` of coverage.py."""
