"""``functional_call`` and ``stack_module_state``: modules with other tensors, tied ones, errors, and what is left behind."""


def run(torch, log):
    func = torch.func
    functional_call = func.functional_call
    Module = getattr(torch.nn, "Module", None) or alike(torch)
    parameter = getattr(torch.nn, "Parameter", None) or (lambda x: x.requires_grad_())

    class Scale(Module):
        def __init__(self, weight):
            super().__init__()
            self.register_parameter("weight", parameter(torch.tensor(weight)))
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x, *, power=1):
            self.count = self.count + 1
            return (self.weight * x) ** power

    class Net(Module):
        def __init__(self, weight=(2.0, 3.0)):
            super().__init__()
            self.first = Scale(list(weight))
            self.register_buffer("shift", torch.tensor([0.5, 0.25]))
            self.register_parameter("none", None)
            self.fails = False

        def forward(self, x, scale=1.0, *, power=1):
            self.shift.mul_(2)
            found = self.first(x, power=power) * scale + self.shift
            if self.fails:
                raise ValueError("as asked")
            return found

    net = Net()
    x = torch.tensor([1.0, -1.0])

    def state():
        return {"first.weight": torch.tensor([10.0, 20.0]), "shift": torch.ones(2), "first.count": torch.tensor(5.0)}

    def shown(label):
        log(label, net.first.weight, net.shift, net.first.count)

    log("call", functional_call(net, state(), x))
    shown("as before")
    weight = net.first.weight
    given = state()
    log("tuple", functional_call(net, given, (x, 3.0), {"power": 2}))
    log("written", given["shift"], given["first.count"], given["first.weight"])
    log("the same", str(net.first.weight is weight))
    parts = ({"first.weight": torch.tensor([1.0, 1.0])}, {"first.count": torch.tensor(7.0)})
    log("dicts", functional_call(net, parts, x))
    log("not written", parts[1]["first.count"])
    shown("one of its own was written")
    log("list", functional_call(net, [{}], (x,)))
    log("nothing", functional_call(net, {}, x))
    log("None stays", str(functional_call(net, {"none": torch.ones(2)}, x) is not None), str(net.none))
    log("an attribute for a while", functional_call(net, {"extra": torch.ones(2)}, x), str(hasattr(net, "extra")))
    log("no arguments", functional_call(Zero(Module, torch), {}))

    # -- errors, after which the module has what it had

    net.fails = True
    given = state()
    log.error("raises", lambda: functional_call(net, given, x))
    log("given after it", given["first.count"], given["shift"])
    net.fails = False
    shown("after it")
    log("the same", str(net.first.weight is weight))
    log.error("strict", lambda: functional_call(net, {"extra": x, "first.other": x}, x, strict=True))
    log.error("strict, missing", lambda: functional_call(net, {"shift": x}, x, strict=True))
    log("strict, all", functional_call(net, {**state()}, x, strict=True))
    log.error("no module", lambda: functional_call(net, {"second.weight": x}, x))
    log.error("through a tensor", lambda: functional_call(net, {"shift.weight": x}, x))
    log.error("no tensor", lambda: functional_call(net, {"first.weight": torch.zeros(2), "shift": 3.0}, x))
    shown("all put back")
    log.error("no tensor before", lambda: functional_call(net, {"fails": x}, x))
    log.error("no name", lambda: functional_call(net, {"first.": x}, x))
    log.error("no dict", lambda: functional_call(net, 3, x))
    log.error("no dicts", lambda: functional_call(net, [3], x))
    log.error("twice", lambda: functional_call(net, ({"shift": x}, {"shift": x, "a": x}), x))
    log.error("too many arguments", lambda: functional_call(net, {}, (x, 1.0, 2.0)))
    shown("still as it was")

    # -- tied

    class Tied(Module):
        def __init__(self):
            super().__init__()
            self.register_parameter("a", parameter(torch.tensor(1.0)))
            self.register_parameter("b", self.a)
            self.inner = Scale(4.0)
            self.inner.register_parameter("c", self.a)

        def forward(self, x):
            return x + self.a * 100 + self.b * 10 + self.inner.c

    tied, zero = Tied(), torch.zeros(())
    two = torch.tensor(2.0)
    log("tied", functional_call(tied, {"a": two}, zero), functional_call(tied, {"inner.c": two}, zero))
    log("not tied", functional_call(tied, {"a": two}, zero, tie_weights=False))
    log("the same for all", functional_call(tied, {"a": two, "b": two, "inner.c": two}, zero))
    several = {"a": two, "b": torch.tensor(3.0), "inner.c": torch.tensor(4.0)}
    log.error("others", lambda: functional_call(tied, several, zero))
    log("others, not tied", functional_call(tied, several, zero, tie_weights=False))
    log.error("two of three", lambda: functional_call(tied, {"a": two, "b": two}, zero))
    log("strict by a tie", functional_call(tied, {"a": two, "inner.weight": two, "inner.count": two}, zero, strict=True))
    only = {"b": two}
    functional_call(tied, only, zero)
    log("names given", ",".join(only))

    # -- under transforms

    def loss(state, x):
        return functional_call(net, state, x).sum()

    parameters = dict(net.named_parameters())
    log("names", ",".join(parameters), ",".join(dict(net.named_buffers())))
    others = {"shift": torch.zeros(2), "first.count": torch.zeros(())}
    found = func.grad(lambda p, x: loss({**p, **{k: v.clone() for k, v in others.items()}}, x))(parameters, x)
    log("grad", found["first.weight"].detach())
    detached = {name: value.detach() for name, value in parameters.items()}
    found = func.grad(lambda p, x: loss({**p, **{k: v.clone() for k, v in others.items()}}, x))(detached, x)
    log("grad, detached", found["first.weight"])
    shown("after grad")
    examples = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def each(p, x):
        return func.grad(lambda p: loss({**p, **{k: v.clone() for k, v in others.items()}}, x))(p)

    log("per example", func.vmap(each, (None, 0))(detached, examples)["first.weight"])
    result = functional_call(net, {"first.weight": parameters["first.weight"] * 2}, x)
    result.sum().backward()
    log("backward", net.first.weight.grad)
    net.first.weight.grad = None
    net.first.weight.register_hook(lambda g: log("hook", g))
    functional_call(net, {}, x).sum().backward()
    log.error("fails under grad", lambda: func.grad(lambda p, x: loss(p, x))({"shift": 3.0}, x))
    log("its own again", str(net.first.weight is weight))

    # -- several at once

    nets = [Net((1.0, 2.0)), Net((3.0, 4.0))]
    stacked, buffers = func.stack_module_state(nets)
    for name, value in (*stacked.items(), *buffers.items()):
        log(name, value, str(value.is_leaf))

    def one(p, b, x):
        return functional_call(nets[0], (p, {k: v.clone() for k, v in b.items()}), x)

    log("ensemble", func.vmap(one, (0, 0, None))(stacked, buffers, x).detach())
    func.vmap(one, (0, 0, None))(stacked, buffers, x).sum().backward()
    log("stacked leaf", stacked["first.weight"].grad, str(nets[0].first.weight.grad))
    log.error("none", lambda: func.stack_module_state([]))
    log.error("classes", lambda: func.stack_module_state([nets[0], tied]))
    nets[1].first.weight.requires_grad_(False)
    log.error("requires_grad", lambda: func.stack_module_state(nets))
    nets[0].first.weight.requires_grad_(False)
    log("constants", func.stack_module_state(nets)[0]["first.weight"])
    nets[1].training = False
    log.error("modes", lambda: func.stack_module_state(nets))

    # -- hooks of modules

    hooks = torch.utils.hooks
    seen = []

    def after(module, grad_input, grad_output):
        log("after", module, grad_input, grad_output)
        return tuple(None if g is None else g * 2 for g in grad_input)

    def before(module, grad_output):
        log("before", module, grad_output)
        return tuple(None if g is None else g * 3 for g in grad_output)

    a = torch.tensor([0.5, 1.0], requires_grad=True)
    constant = torch.ones(2)
    around = hooks.BackwardHook("module", [after], [before])
    inside = around.setup_input_hook((a, 3, constant))
    log("inside", *inside)
    outside = around.setup_output_hook((inside[0] * 3 + inside[2], "text"))
    log("outside", *outside)
    (outside[0] * 2).sum().backward()
    log("grad", a.grad)
    around = hooks.BackwardHook("no inputs", [lambda *given: log("seen", *given)], [])
    around.setup_input_hook((constant,))
    around.setup_output_hook(a * 2).sum().backward()
    around = hooks.BackwardHook("no inputs", [lambda m, i, o: (constant,)], [])
    around.setup_input_hook((constant,))
    log.error("returns something", lambda: around.setup_output_hook(a * 2).sum().backward())
    around = hooks.BackwardHook("count", [lambda m, i, o: (constant, constant)], [])
    (inside,) = around.setup_input_hook((a,))
    log.error("count", lambda: around.setup_output_hook(inside * 2).sum().backward())
    around = hooks.BackwardHook("count", [], [lambda m, o: (constant, constant)])
    (inside,) = around.setup_input_hook((a,))
    log.error("count before", lambda: around.setup_output_hook(inside * 2).sum().backward())
    with torch.no_grad():
        around = hooks.BackwardHook("off", [after], [])
        log("off", around.setup_output_hook(around.setup_input_hook((a,))[0]))

    # -- handles

    class Keys(dict):
        pass

    first, second = Keys(), Keys()
    handle = hooks.RemovableHandle(first, extra_dict=second)
    following = hooks.RemovableHandle(first, extra_dict=[second])
    log("ids", str(following.id - handle.id), str(hooks.RemovableHandle.next_id - following.id))
    for key in (handle.id, following.id):
        first[key] = second[key] = "hook"
    handle.remove()
    handle.remove()
    log("removed", str(len(first)), str(len(second)))
    with following as entered:
        log("entered", str(entered is following))
    log("left", str(len(first)), str(len(second)))
    log.error("a plain dict", lambda: hooks.RemovableHandle({}))
    kept, number, extra = handle.__getstate__()
    log("state", str(kept is first), str(number == handle.id), str(extra[0] is second))
    again = hooks.RemovableHandle(first)
    number = hooks.RemovableHandle.next_id + 5
    again.__setstate__((None, number))
    again.remove()
    log("next", str(hooks.RemovableHandle.next_id - number))
    leaf = torch.ones(2, requires_grad=True)
    result = leaf * 2
    for registered in (
        leaf.register_hook(print),
        leaf.register_post_accumulate_grad_hook(print),
        result.register_hook(print),
        result.grad_fn.register_hook(print),
        result.grad_fn.register_prehook(print),
        torch.autograd.graph.register_multi_grad_hook((leaf,), print),
    ):
        log("handle", str(isinstance(registered, hooks.RemovableHandle)))
        registered.remove()
    noted = torch.ones(2, requires_grad=True)
    noted.register_hook(hooks.unserializable_hook(lambda g: seen.append(g)))
    hooks.warn_if_has_hooks(noted)
    noted.register_hook(len)
    hooks.warn_if_has_hooks(noted)


def Zero(Module, torch):
    class Constant(Module):
        def forward(self):
            return torch.zeros(2)

    return Constant()


def alike(torch):
    """A module of the script's own, where there is no ``nn.Module``."""

    class Module:
        def __init__(self):
            self.__dict__.update(_parameters={}, _buffers={}, _modules={}, training=True)

        def register_parameter(self, name, value):
            self._parameters[name] = value

        def register_buffer(self, name, value):
            self._buffers[name] = value

        def __getattr__(self, name):
            for place in ("_parameters", "_buffers", "_modules"):
                if name in self.__dict__.get(place, ()):
                    return self.__dict__[place][name]
            raise AttributeError(name)

        def __setattr__(self, name, value):
            place = self._buffers if name in self._buffers else self.__dict__
            (self._modules if isinstance(value, Module) else place)[name] = value

        def _all(self, place, seen, prefix=""):
            for name, value in getattr(self, place).items():
                if value is not None and not any(value is x for x in seen or ()):
                    if seen is not None:
                        seen.append(value)
                    yield prefix + name, value
            for name, module in self._modules.items():
                yield from module._all(place, seen, f"{prefix}{name}.")

        def named_parameters(self, *, remove_duplicate=True):
            return self._all("_parameters", [] if remove_duplicate else None)

        def named_buffers(self, *, remove_duplicate=True):
            return self._all("_buffers", [] if remove_duplicate else None)

        def __call__(self, *args, **kwargs):
            return self.forward(*args, **kwargs)

    return Module
