"""``copy.deepcopy`` and ``pickle`` of tensors: views, leaves, gradients, hooks, memory that several share."""

import copy
import pickle


def run(torch, log):
    def shown(label, value):
        flags = (value._is_view(), value.is_leaf, value.is_contiguous())
        log(label, value, value.stride(), flags, value.grad, value._version)

    def pickled(value):
        return pickle.loads(pickle.dumps(value))

    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    base = torch.arange(12.0).reshape(3, 4)
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.tensor([2.0, 3.0])
    tensors = {
        "plain": base,
        "rows": base[1:],
        "columns": base[:, 1:3],
        "steps": base[::2, ::3],
        "transposed": base.t(),
        "a transposed view": base[1:].t(),
        "expanded": base[:1].expand(3, 4),
        "one": base[1, 2],
        "empty": base[:0],
        "integers": torch.tensor([[1, 2], [3, 4]])[:, 0],
        "bools": base > 3,
        "complex": torch.tensor([1 + 2j, 3j]),
        "leaf": leaf,
        "detached": x.detach()[1:],
    }
    for name, value in tensors.items():
        shown(f"{name} copied", copy.deepcopy(value))
        shown(f"{name} pickled", pickled(value))
    for name, value in {"computed": x * 2, "view of a leaf": x[1:]}.items():
        log.error(f"{name} copied", lambda value=value: copy.deepcopy(value))
        shown(f"{name} pickled", pickled(value))
    one, same = copy.deepcopy([base, base])
    log("twice", str(one is same))
    whole, part = copy.deepcopy([base, base[1:]])
    whole.fill_(7.0)
    log("copied together", part, base)
    part, whole = copy.deepcopy([base.t(), base])
    part.mul_(2)
    log("copied together", whole, str(part._version), str(whole._version))
    whole, part = pickled([base, base[1:]])
    whole.fill_(7.0)
    log("pickled together", part)
    again = copy.deepcopy(leaf)
    (again * 3).sum().backward()
    log("apart", again.grad, leaf.grad)
    hooked = torch.ones(2, requires_grad=True)
    hooked.register_hook(len)
    shown("hooked", pickled(hooked))
    log("no hooks", str(not pickled(hooked)._backward_hooks))
    shallow = copy.copy(base[1:])
    shallow[0] = -1.0
    shown("shallow", shallow)
    log("shared", base)
    made = copy.deepcopy(torch.zeros(3))
    log("copied inside", torch.func.grad(lambda y: (copy.deepcopy(made).copy_(y) * y).sum())(torch.ones(3)))
