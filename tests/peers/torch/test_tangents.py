"""Functions give the tangents that PyTorch's forward mode gives, and gradients of those tangents."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.expressions import EXPRESSIONS, SHIM, leaves
from tests.peers.torch.grid import close, plain
from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the tangents are those of torch {VERSION}", allow_module_level=True)

MORE = [
    "(m @ m.T).exp()", "torch.matmul(m, v)", "m.softmax(1)", "m.log_softmax(1)", "m.logsumexp(0)",
    "m.max(1)", "m.min()",
    "torch.cat([m, m * 2], 1)", "torch.stack([v, v * v])", "m.sum(0)", "m.mean()", "m.prod()",
    "m.prod(1)", "m * v + z",
    "m - v", "m / v", "torch.where(m > 1, m * 2, v)", "m[1:, ::2] * 3", "m[i] * 2", "m[m > 1] * 2",
    "v.expand(3, 4) * m",
    "m.double().sin()", "m.float() * 2", "m.t().reshape(-1)", "m.clone().mul_(v)",
    "m.clone().add_(z).sin_()",
    "torch.nn.functional.relu(m - 1)", "torch.addmm(m, m, torch.eye(4).double())",
    "m.view(4, 3)[0].exp() * m[0, :3]", "torch.complex(m, m * 2).abs()",
    "torch.complex(m, m * 2) * 1j", "m.clone().zero_()",
    "torch.complex(m, m).real * 2", "m.clone().fill_(z)", "v.cumsum(0) * v",
]  # fmt: skip
OF_OUR_OWN = {
    "m.mul_(m)": "PyTorch overwrites the factor before it reads it: the tangent is wrong there",
    "m.clamp(v, v)": "where both bounds are one, PyTorch's two modes differ; ours are its backward",
    **dict.fromkeys(("2 % m", "m // 2", "2 // m"), "PyTorch has no tangent of it"),
}  # fmt: skip
NO_GRADIENT_THERE = {
    "m.softmax(1)",
    "m.log_softmax(1)",
    "m.logsumexp(0)",
    "m.norm(1)",
    "m.norm(1, 1)",
}
"""Expressions on whose tangents PyTorch's backward fails: it has overwritten what it saved."""

pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit", "ignore:Attempted to insert a get_attr Node"
)
"""PyTorch's own affairs: it compiles some tangents when forward mode is used first."""


def seen(library: ModuleType, expression: str, *, requires_grad: bool) -> dict[str, Any]:
    """Return the tangents of an expression at random tangents of its leaves, and gradients of the
    former by the latter.
    """
    forward_ad = importlib.import_module(f"{library.__name__}.autograd.forward_ad")
    rng = np.random.default_rng(5)
    given = {name: x.detach() for name, x in leaves(library).items()}
    floats = ("m", "v", "p", "z", "t")
    with forward_ad.dual_level():
        values = {name: given[name].requires_grad_(requires_grad) for name in floats}
        tangents = {
            name: library.from_numpy(rng.normal(size=x.shape)).requires_grad_(requires_grad)
            for name, x in values.items()
        }
        duals = {name: forward_ad.make_dual(values[name], tangents[name]) for name in floats}
        try:
            made = eval(expression, {"torch": library, **given, **duals})
        except Exception as error:
            return {"refused": error}
        outputs = [
            x
            for x in (made if isinstance(made, (tuple, list)) else [made])
            if isinstance(x, library.Tensor)
        ]
        found = [forward_ad.unpack_dual(x).tangent for x in outputs]
        facts: dict[str, Any] = {
            "tangents": [None if x is None else plain(library, x.detach().clone()) for x in found]
        }
        wanted = [
            x for x in found if x is not None and x.requires_grad and x.dtype.is_floating_point
        ]
        if wanted:
            total = sum(
                (x * library.arange(1.0, x.numel() + 1).reshape(x.shape)).sum() for x in wanted
            )
            by = [*values.values(), *tangents.values()]
            grads = library.autograd.grad(total, by, allow_unused=True)
            zeros = [
                np.zeros(1).tolist() if g is None else g.detach().clone().tolist() for g in grads
            ]
            facts["gradients"] = [x if np.any(x) else 0 for x in zeros]
    return facts


@pytest.fixture(autouse=True)
def _levels_are_left() -> Iterator[None]:
    yield
    for library in (torch, SHIM):
        forward_ad = importlib.import_module(f"{library.__name__}.autograd.forward_ad")
        if forward_ad._current_level >= 0:
            forward_ad.exit_dual_level()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("expression", [x for x in (*EXPRESSIONS, *MORE) if x not in OF_OUR_OWN])
def test_functions_have_the_tangents_of_pytorchs(expression: str, requires_grad: bool) -> None:
    requires_grad = requires_grad and expression not in NO_GRADIENT_THERE
    expected, found = (
        seen(library, expression, requires_grad=requires_grad) for library in (torch, SHIM)
    )
    if "refused" in expected or "refused" in found:
        error = expected.get("refused")
        assert error is not None and isinstance(found.get("refused"), type(error)), (
            expected,
            found,
        )
        return
    for name in ("tangents", "gradients"):
        assert close(expected.get(name), found.get(name), 1e-9), (
            name,
            expected.get(name),
            found.get(name),
        )
