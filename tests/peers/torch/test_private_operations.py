"""Lazy negations, complex thresholds, private functions of ``unique``, and `lobpcg`, beside
PyTorch's.
"""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
_NEGATIONS = """
z = torch.tensor([1 + 2j, 3 - 4j, 5j], dtype=torch.complex64, requires_grad=True)
n = z._neg_view()
show(n, n.grad_fn.name(), n.is_conj(), n.is_neg(), n.resolve_neg().is_neg(), n.clone().is_neg())
show(n[1:].is_neg(), n._neg_view().is_neg(), n.conj().is_neg(), n.conj().is_conj())
show(n.real.is_neg(), n.imag.is_neg(), n.conj().imag.is_neg(), n.conj().real.is_neg())
show(z.conj().real.is_conj(), z.conj().real.is_neg(), z.conj().imag.is_neg(), n.detach().is_neg())
refused(lambda: n.detach().numpy())
refused(lambda: z.detach().conj().imag.numpy())
refused(lambda: torch.view_as_real(z.conj()))
show(torch.view_as_real(n), torch.view_as_real(n).is_neg())
r = torch.ones(3)
m = r._neg_view()
m.add_(1)
show(r, m, m.is_neg())
r.add_(3)
r.mul_(2)
show(m, torch.arange(3)._neg_view(), m.resolve_neg() is m, r.resolve_neg() is r, torch.is_neg(m))
c = z.detach().clone()
k = c.conj()
kn = k._neg_view()
kn.mul_(2)
show(c, k, kn, kn.is_conj(), kn.is_neg(), kn.imag, kn.imag.is_neg(), kn._neg_view())
c.imag.add_(10.0)
show(k, kn)
a = torch.ones(3, requires_grad=True)
b = a.clone()
v = b._neg_view()
v.mul_(3)
show(b, v)
(b * v).sum().backward()
show(a.grad)
b = a.clone()
v = b._neg_view()
b.mul_(3)
show(v.grad_fn.name())
v.sum().backward()
show(a.grad)
p = torch.ones(2, dtype=torch.complex64)
q = torch.view_as_real(p._neg_view())
q.add_(1)
show(p, q)
p.mul_(2)
show(q)
"""


def test_lazy_negations_share_memory_as_in_pytorch() -> None:
    found = []
    for library in (torch, SHIM):
        shown: list[str] = []

        def show(*values: Any, shown: list[str] = shown) -> None:
            shown.extend(" ".join(str(value).split()) for value in values)

        def refused(function: Any, show: Any = show) -> None:
            with pytest.raises((RuntimeError, NotImplementedError)) as caught:
                function()
            show(caught.type.__name__, str(caught.value))

        exec(_NEGATIONS, {"torch": library, "show": show, "refused": refused})
        found.append(shown)
    assert found[1] == found[0]


@pytest.mark.parametrize("value", [1 + 0j, 1.0, 1, False])
def test_thresholds_are_saved_as_they_are_given(value: Any) -> None:
    found = []
    for library in (torch, SHIM):
        x = library.tensor([0.0, 1.0, 2.0], requires_grad=True)
        y = library.threshold(x, value, 2 + 0j)
        saved = y.grad_fn._saved_threshold
        found.append((y.tolist(), type(saved), saved))
        with pytest.raises(RuntimeError, match="cannot be converted to type float without overf"):
            library.threshold(x, 1j, 0)
    assert found[0] == found[1]


def test_private_functions_of_unique() -> None:
    for order, inverse, counts in itertools.product((True, False), repeat=3):
        found = []
        for library in (torch, SHIM):
            x = library.tensor([3.0, 1.0, 3.0, 2.0], requires_grad=True)
            given = (
                library._unique(x, order, inverse),
                library._unique2(x, order, inverse, counts),
                library._VF.unique_dim(x, 0, order, inverse, counts),
            )
            found.append([
                [(y.tolist(), str(y.dtype), y.requires_grad) for y in results] for results in given
            ])  # fmt: skip
        assert found[0] == found[1]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("sizes, k", [((6, 6), 1), ((2, 9, 9), 3), ((2, 2, 6, 6), 2)])
def test_lobpcg_has_the_eigenpairs_and_gradients_of_pytorch(
    sizes: tuple[int, ...], k: int, largest: bool
) -> None:
    random = np.random.default_rng(0)
    half = random.random(sizes)
    weights = random.random((*sizes[:-1], k))
    found = []
    for library in (torch, SHIM):
        a = library.tensor(half @ np.swapaxes(half, -1, -2), requires_grad=True)
        options = {"tol": 1e-14, "niter": 300} if library is torch else {}
        values, vectors = library.lobpcg(a, k, largest=largest, **options)
        signs = vectors.gather(-2, vectors.abs().max(-2, keepdim=True)[1]).sign()
        vectors = vectors * signs
        ((vectors * library.tensor(weights)).sum() + (values**2).sum()).backward()
        found.append([x.detach().numpy() for x in (values, vectors, a.grad)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_lobpcg_of_generalized_problems_and_wrong_arguments() -> None:
    half = np.random.default_rng(0).random((9, 9))
    a, b = half @ half.T, half.T @ half + np.eye(9)
    (theirs, _), (ours, vectors) = (
        library.lobpcg(library.tensor(a), 2, B=library.tensor(b)) for library in (torch, SHIM)
    )
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)
    x = vectors.numpy()
    np.testing.assert_allclose(a @ x, b @ x * ours.numpy(), atol=1e-10)
    np.testing.assert_allclose(x.T @ b @ x, np.eye(2), atol=1e-10)
    for library in (torch, SHIM):
        with pytest.raises(ValueError, match="smaller than 3 x the number of requested"):
            library.lobpcg(library.tensor(a), 4)
        with pytest.raises(AssertionError, match="A must be square"):
            library.lobpcg(library.tensor(a[:8]), 1)
        values, _ = library.lobpcg(library.tensor(a, requires_grad=True), 2, B=library.tensor(b))
        with pytest.raises(ValueError, match="does not support backward with B != I"):
            values.sum().backward()


def test_convolution_backward_with_second_derivatives() -> None:
    random = np.random.default_rng(0)
    for args in ([2, 2], [1, 1], [1, 1], False, [0, 0], 2), ([2], [1], [1], True, [1], 1):
        transposed = args[3]
        x = random.standard_normal((2, 4, 6, 6))
        w = random.standard_normal((4, 6, 3, 3) if transposed else (6, 2, 3, 3))
        shape = torch.ops.aten.convolution(torch.tensor(x), torch.tensor(w), None, *args).shape
        g = random.standard_normal(shape)
        for mask in itertools.product((True, False), repeat=3):
            found = []
            for library in (torch, SHIM):
                given = [library.tensor(value, requires_grad=True) for value in (g, x, w)]
                made = library.ops.aten.convolution_backward(*given, [6], *args, mask)
                results = [None if y is None else y.detach().numpy() for y in made]
                if any(mask):
                    total = sum((y**2).sum() for y in made if y is not None)
                    second = library.autograd.grad(total, given, allow_unused=True)
                    results += [None if y is None else y.numpy() for y in second]
                found.append(results)
            for theirs, ours in zip(*found, strict=True):
                assert (theirs is None) == (ours is None)
                if ours is not None:
                    np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_gradcheck_refuses_random_numbers_under_vmap() -> None:
    messages = []
    for library in (torch, SHIM):

        class Noisy(library.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any, library: Any = library) -> Any:
                library.rand(2)
                return g * 2

            @staticmethod
            def jvp(ctx: Any, g: Any, library: Any = library) -> Any:
                library.randn_like(g)
                return g * 2

        x = library.rand(2, dtype=library.double, requires_grad=True)
        for options in (
            {"check_batched_grad": True},
            {"check_forward_ad": True, "check_batched_forward_grad": True},
        ):
            with pytest.raises(RuntimeError) as caught:
                library.autograd.gradcheck(Noisy.apply, x, **options)
            messages.append(str(caught.value))
            assert not library.autograd.gradcheck(Noisy.apply, x, raise_exception=False, **options)
    assert messages[:2] == messages[2:]
