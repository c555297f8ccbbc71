"""Conjugates are views: what is written into either is seen in the other, and in the gradients."""

import numpy as np


def run(torch, log):
    x = torch.tensor([1 + 2j, 3j, 2.0])
    conjugate = x.conj()
    log("facts", conjugate.is_conj(), conjugate._is_view(), conjugate.conj().is_conj(), x.is_conj(), x.resolve_conj() is x)
    log("resolved", conjugate.resolve_conj().is_conj(), conjugate.resolve_conj() is conjugate, x.resolve_neg() is x)
    x.mul_(2)
    log("of what was multiplied", conjugate, conjugate._version)
    conjugate[0] = 5 + 1j
    log("written through it", x, x._version)
    twice = conjugate.conj()
    twice[1] = 1 + 1j
    log("through a conjugate of it", x, conjugate, twice)
    conjugate[1:].mul_(1j)
    log("through a part of it", x, conjugate, twice)
    torch.add(x, 1, out=x)
    log("by out=", x, conjugate, twice, conjugate.detach(), conjugate.detach().is_conj())
    log.error("as an array", lambda: conjugate.numpy())
    conjugate.resolve_conj().mul_(0)
    log("a copy is not written through", x)

    matrix = torch.tensor([[1 + 2j, 3j]])
    matrix.H.add_(1j)
    log("a matrix", matrix, matrix.conj() * matrix, matrix.conj().stride())
    expanded = matrix.expand(2, 2).conj()
    log("expanded", tuple(expanded.stride()), expanded)
    log.error("and not written to", lambda: expanded.add_(1))
    with torch.no_grad():
        matrix.conj().copy_(matrix)
    log("copied from what it is one of", matrix)

    y = torch.tensor([1 + 2j, 3 + 1j], requires_grad=True)
    z = y * 1
    w = z.conj()
    w.mul_(2j)
    log("in a graph", z, w)
    (z * w).abs().sum().backward()
    log("gradient", y.grad)
    y.grad = None
    z = y * 1
    w = z.conj()
    z.mul_(2j)
    log("of what was overwritten", w)
    (w.real * z.imag).sum().backward()
    log("gradient", y.grad)

    array = np.array([1 + 2j, 3j, 2.0])
    x = torch.from_numpy(array)
    conjugate = x.conj()
    part, alias, data, imag = conjugate[1:], conjugate.detach(), conjugate.data, conjugate.imag
    twice, column = conjugate.conj(), x.reshape(3, 1).H
    array[1] = 7 + 7j
    log(
        "written through an array", conjugate, part, alias, data, imag.tolist(), twice, column, conjugate + 1, part[0].item()
    )
    x.numpy()[0] = -1j
    log("through numpy()", conjugate, alias.tolist(), torch.equal(data, x.conj()), conjugate.sum(), twice.is_conj())
    twice.numpy()[2] = 9j
    log("through numpy() of a conjugate of it", x, conjugate)
    conjugate.mul_(2)
    part[0] = 1j
    torch.add(conjugate, 1, out=conjugate)
    array[0] = 11
    log("in turn", x, conjugate, array.tolist(), type(conjugate).__name__)
