"""Names of the C++ half that PyTorch's own Python stands on: functions that are only nodes, stacks of hooks, versions."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    nodes_alone(torch, log)
    classes(torch, log)
    hooks(torch, log)
    versions(torch, log)
    engine(torch, log)
    variables(torch, log)


def nodes_alone(torch: Any, log: Any) -> None:
    """Aliases whose node raises, or passes nothing on."""
    delayed, undefined = torch._C._functions.DelayedError, torch._C._functions.UndefinedGrad
    x = torch.ones(3, requires_grad=True)
    constant = torch.arange(3.0)
    for message in ("text", b"bytes"):
        y = delayed(message, 1)(x)
        log("alias", y, y.grad_fn.name(), len(y.grad_fn.next_functions), y.data_ptr() == x.data_ptr())
        log.error("differentiated", y.sum().backward)
    a, b = delayed("two", 2)(x, constant)
    log("several", a, b, a.grad_fn is b.grad_fn, a.output_nr, b.output_nr)
    log("edges", [(type(n).__name__ if n is not None else None, k) for n, k in a.grad_fn.next_functions])
    log.error("second", lambda: torch.autograd.grad(b.sum(), x))
    log("constant", delayed("c", 1)(constant), delayed("c", 1)(torch.tensor([1, 2])), delayed("c", 1)(None))
    log("with none", delayed("c", 2)(x, None))
    log.error("too many", lambda: delayed("c", 1)(x, x))
    log.error("too few", lambda: delayed("c", 1)())
    log.error("number", lambda: delayed("c", 1)(3))
    with torch.no_grad():
        log("no_grad", delayed("c", 1)(x), undefined()(x))

    y = undefined()(x * 2)
    log("undefined", y, y.grad_fn.name(), [type(n).__name__ for n, _ in y.grad_fn.next_functions])
    log("gradient", torch.autograd.grad(y, x, torch.ones(3), allow_unused=True))
    log("constant", undefined()(constant))
    log.error("two", lambda: undefined()(x, x))
    log.error("number", lambda: undefined()("a"))
    (undefined()(x) + x).sum().backward()
    log("beside another way", x.grad)


def classes(torch: Any, log: Any) -> None:
    """Nodes of one name are of one class, which is found by its name."""
    functions = torch._C._functions
    x = torch.ones(3, requires_grad=True)
    for y in (x * 2, x * x, x[0], x[:1], x.select(0, 1), x.clone(), x.clamp(0), x.clamp(0, 1), x + 1, x - x, x.view_as(x)):
        node = y.grad_fn
        log(type(node).__name__, getattr(functions, type(node).__name__) is type(node))
    log("leaf", (x * 2).grad_fn.next_functions[0][0].__class__ is functions.AccumulateGrad)
    log("another", hasattr(functions, "NoSuchBackward0"))

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    node = torch.autograd.graph.Node
    found = (Twice, torch.autograd.Function, Twice._backward_cls, torch._C._FunctionBase, type((x * 2).grad_fn), int, node)
    log("classes of nodes", [issubclass(c, node) for c in found], isinstance(Twice.apply(x).grad_fn, node))
    log("floor", issubclass(Twice, torch._C._FunctionBase), issubclass(Twice._backward_cls, torch._C._FunctionBase))


def hooks(torch: Any, log: Any) -> None:
    """The stack of pairs of saved-tensor hooks, and how pushing is refused."""
    floor = torch._C._autograd
    x = torch.ones(2, requires_grad=True)
    log.error("no functions", lambda: floor._push_saved_tensors_default_hooks(3, 4))
    log.error("as a context", torch.autograd.graph.saved_tensors_hooks(3, 4).__enter__)
    log.error("empty", floor._pop_saved_tensors_default_hooks)
    log("enabled", floor._saved_tensors_hooks_is_enabled(), floor._saved_tensors_hooks_get_disabled_error_message())
    floor._push_saved_tensors_default_hooks(lambda t: log("pack", t) or t.detach(), lambda t: log("unpack", t) or t)
    (x * x).sum().backward()
    log.error("refused over hooks", lambda: floor._saved_tensors_hooks_disable("not now"))
    log("enabled", floor._saved_tensors_hooks_is_enabled())
    floor._saved_tensors_hooks_disable("from now on", fail_if_non_empty=False)
    log("enabled", floor._saved_tensors_hooks_is_enabled(), floor._saved_tensors_hooks_get_disabled_error_message())
    floor._pop_saved_tensors_default_hooks()
    (x * x).sum().backward()
    log.error("push", lambda: floor._push_saved_tensors_default_hooks(id, id))
    floor._saved_tensors_hooks_disable("otherwise")
    log.error("push", lambda: floor._push_saved_tensors_default_hooks(id, id))
    log.error("as a context", torch.autograd.graph.saved_tensors_hooks(id, id).__enter__)
    floor._saved_tensors_hooks_enable()
    log("enabled", floor._saved_tensors_hooks_is_enabled(), floor._saved_tensors_hooks_get_disabled_error_message())


def versions(torch: Any, log: Any) -> None:
    """Version counters that are set, and sequence numbers."""
    floor = torch._C._autograd
    x, y = torch.ones(2), torch.ones(2)
    floor._unsafe_set_version_counter((x, y), (7, 3))
    log("set", x._version, y._version)
    log.error("below", lambda: floor._unsafe_set_version_counter((x,), (-1,)))
    log.error("count", lambda: floor._unsafe_set_version_counter((x,), (1, 2)))
    log.error("no sequence", lambda: floor._unsafe_set_version_counter(x, 3))
    log.error("no numbers", lambda: floor._unsafe_set_version_counter([x], ["a"]))
    for given in ((x,), [x, x], iter([y])):
        torch._C._increment_version(given)
        log("incremented", x._version, y._version)
    log.error("no tensor", lambda: torch._C._increment_version((x, 3)))
    log("incremented", x._version)
    leaf = torch.ones(2, requires_grad=True)
    before = leaf.exp()
    saved = before * 1
    before.add_(1)
    log.error("overwritten", before.sum().backward)
    floor._unsafe_set_version_counter((before,), (0,))
    log("now unnoticed", before._version, saved)
    first = floor._get_sequence_nr()
    node = (leaf * 2).grad_fn
    log("sequence", floor._get_sequence_nr() - first, node._sequence_nr() - first)


def engine(torch: Any, log: Any) -> None:
    """What backward passes are run by."""
    run = torch.autograd.Variable._execution_engine.run_backward
    x, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y, one = x * 2, torch.ones(2)
    edge = torch.autograd.graph.get_gradient_edge
    log.error("nothing wanted", lambda: run((y,), (one,), False, False))
    log.error("no tuple", lambda: run(y, (one,), False, False))
    log.error("list", lambda: run((y,), [one], False, False))
    log.error("list of inputs", lambda: run((y,), (one,), False, False, [x]))
    log("returned", run((y,), (one,), True, False, (x,)))
    log("edges", run((edge(y),), (one,), True, False, (edge(x),)))
    log("accumulated", run((y,), (one,), True, False, (x, y), True, True), x.grad, y.grad)
    log("leaves", run((y,), (one,), True, False, (), True, True), x.grad)
    log("by name", run(tensors=(y,), grad_tensors=(one,), keep_graph=True, create_graph=False, inputs=(x,)))
    log.error("count", lambda: run((y,), (one, one), True, False, (x,)))
    for gradient in (one.double(), one.long(), one * 1j, torch.ones(3), torch.ones(1, 2), None, 3):
        log.error("gradient", lambda gradient=gradient: run((y,), (gradient,), True, False, (x,)))
    log.error("constant root", lambda: run((one,), (None,), True, False, (x,)))
    log.error("root", lambda: run((3,), (None,), True, False, (x,)))
    log.error("input", lambda: run((y,), (one,), True, False, (3,)))
    log.error("constant input", lambda: run((y,), (one,), True, False, (one,)))
    log.error("not reached", lambda: run((y,), (one,), True, False, (x, other)))
    log("allowed", run((y,), (one,), True, False, (x, other), True))


def variables(torch: Any, log: Any) -> None:
    """``Variable`` makes leaves over the memory of tensors."""
    make = torch.autograd.Variable
    x = torch.ones(2, requires_grad=True)
    for label, attempt in {
        "nothing": make, "constant": lambda: make(x), "leaf": lambda: make(x.detach(), True), "list": lambda: make([1.0]),
        "of computed": lambda: make(x * 2, requires_grad=True), "integers": lambda: make(torch.tensor([1]), True),
        "volatile": lambda: make(x, volatile=True), "both": lambda: make(x, True, True), "named": lambda: make(data=x),
    }.items():  # fmt: skip
        log.error(label, attempt)
    log("instances", isinstance(x, make), isinstance(3, make), make(x).data_ptr() == x.data_ptr())
