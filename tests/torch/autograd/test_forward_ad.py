"""Dual tensors: lifetimes, and where they meet functrace's transforms."""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import functrace.torch as torch
import functrace.torch.autograd.forward_ad as forward_ad
from functrace.torch.dispatch.dual import DUALS


@pytest.fixture(autouse=True)
def _level_is_left() -> Iterator[None]:
    yield
    assert DUALS.level is None


def tangent(x: torch.Tensor) -> torch.Tensor | None:
    return forward_ad.unpack_dual(x).tangent


def values(x: torch.Tensor | None) -> list[float]:
    assert x is not None
    return x.tolist()


def test_forward_ad_frees_tangents_with_their_tensors() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2)) * 2
        held = weakref.ref(tangent(dual))
        del dual
        assert held() is None


def test_forward_ad_frees_tangents_with_the_level() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2)) * 2
        held = weakref.ref(tangent(dual))
    assert held() is None
    assert "tangent" not in repr(dual)


def test_forward_ad_leaves_the_level_when_something_raises() -> None:
    with pytest.raises(KeyError), forward_ad.dual_level():
        raise KeyError
    assert forward_ad._current_level == -1


def test_forward_ad_level_applies_in_other_threads() -> None:
    found = []
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        thread = threading.Thread(target=lambda: found.append(values(tangent(dual * 3))))
        thread.start()
        thread.join()
    assert found == [[3.0, 3.0]]


def test_forward_ad_pickles_duals_without_tangent() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2)) * 1
        loaded = pickle.loads(pickle.dumps(dual))
        assert tangent(loaded) is None
        assert loaded.tolist() == [1.0, 1.0]


def test_forward_ad_composes_with_torch_func() -> None:
    x = torch.tensor([0.5, 1.5], dtype=torch.float64)
    direction = torch.tensor([1.0, -2.0], dtype=torch.float64)
    gradient = torch.func.grad(lambda x: (x.sin() * x).sum())
    with forward_ad.dual_level():
        found = values(tangent(gradient(forward_ad.make_dual(x, direction))))
    step = 1e-6
    ahead, behind = gradient(x + step * direction), gradient(x - step * direction)
    assert np.allclose(found, ((ahead - behind) / (2 * step)).tolist())


def test_forward_ad_refuses_duals_that_transforms_close_over() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(NotImplementedError, match="closes over a dual tensor"):
            torch.func.grad(lambda x: (x * dual).sum())(torch.ones(2))
        with pytest.raises(NotImplementedError, match="closes over a dual tensor"):
            torch.func.vmap(lambda x: dual.mul_(x))(torch.ones(3))


def test_forward_ad_inside_vmap_maps_tangents() -> None:
    x = torch.tensor([1.0, 2.0])

    def pushed(direction: torch.Tensor) -> torch.Tensor | None:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, direction) * 2
            dual.mul_(x)
            dual[0] = dual[1] * 3
            return tangent(dual)

    found = torch.func.vmap(pushed)(torch.eye(2))
    assert found.tolist() == [values(pushed(row)) for row in torch.eye(2)]


def test_forward_ad_inside_grad_is_differentiated() -> None:
    def pushed(x: torch.Tensor) -> torch.Tensor:
        with forward_ad.dual_level():
            found = tangent(forward_ad.make_dual(x, torch.ones(2)) ** 3)
            assert found is not None
            return found.sum()

    assert torch.func.grad(pushed)(torch.tensor([1.0, 2.0])).tolist() == [6.0, 12.0]


def test_an_inference_tensor_becomes_dual() -> None:
    with torch.inference_mode():
        a = torch.ones(2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, torch.tensor([1.0, 2.0]))
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [1.0, 2.0]
        assert (
            forward_ad.unpack_dual(torch.sin(dual)).tangent.tolist()
            == (torch.tensor([1.0, 2.0]) * torch.cos(torch.ones(2))).tolist()
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.special.bessel_j0(x),
        lambda x: torch.special.modified_bessel_k1(x),
        lambda x: torch.special.chebyshev_polynomial_t(x, torch.tensor([1, 2])),
        lambda x: torch.special.laguerre_polynomial_l(x, 2),
    ],
)
def test_functions_without_gradient_have_no_tangent(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """As in PyTorch 2.13, where neither mode differentiates them."""
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.tensor([1.5, 2.0]), torch.ones(2))
        assert tangent(function(x)) is None
        assert tangent(x) is not None


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("igamma", lambda x, y: torch.igamma(x, y)),
        ("igamma", lambda x, y: torch.special.gammainc(x, y)),
        ("igamma_", lambda x, y: x.clone().igamma_(y)),
        ("igammac", lambda x, y: x.igammac(y)),
        ("special_zeta", lambda x, y: torch.special.zeta(x, y)),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_functions_without_forward_mode_refuse_dual_tensors(
    name: str, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], place: int
) -> None:
    """As in PyTorch 2.13, which differentiates them in reverse mode only."""
    operands = [torch.tensor([1.5, 2.0]), torch.tensor([1.0, 3.0])]
    function(*operands)
    with forward_ad.dual_level():
        operands[place] = forward_ad.make_dual(operands[place], torch.ones(2))
        with pytest.raises(NotImplementedError, match=f"use forward AD with {name} that does not"):
            function(*operands)


@pytest.mark.parametrize("conjugates", [(False, True), (True, False), (True, True)])
def test_a_tangent_is_copied_if_only_one_of_the_two_is_conjugate(
    conjugates: tuple[bool, bool],
) -> None:
    """As in PyTorch 2.13."""
    x, t = [
        (y.conj() if conjugate else y)
        for conjugate in conjugates
        for y in (torch.tensor([1 + 2j, 3 - 1j]),)
    ]
    with forward_ad.dual_level():
        found = tangent(forward_ad.make_dual(x, t))
        assert (found is t) == (conjugates[0] == conjugates[1])
        assert found is not None
        assert found.tolist() == t.tolist()
