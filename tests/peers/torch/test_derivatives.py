"""Functions give the values, gradients, second gradients, nodes and saved fields that PyTorch's
give.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.expressions import EXPRESSIONS, SHIM, leaves
from tests.peers.torch.grid import close, first_line, plain
from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

NODES_OF_OUR_OWN = {
    "m.mT", "swap", "dtype=", "dist(",
    "einsum", "nansum", "m.take(", "masked_select", "index_copy", "m.__rsub__",
    "torch.rsub(m, v, alpha=2)", "unsafe_chunk",
    "torch.diag(m", "torch.nansum", "remainder", "%", "fmod", "//", "rsqrt", "tensor_split", "m.H",
    "rsub",
}  # fmt: skip
"""Parts of expressions whose graph is made of other nodes than PyTorch's, or that save more."""


@pytest.fixture(autouse=True)
def _warning_always() -> Iterator[None]:
    for library in (torch, SHIM):
        library.set_warn_always(True)
    yield
    for library in (torch, SHIM):
        library.set_warn_always(False)


def seen(library: ModuleType, expression: str) -> dict[str, Any]:
    """Return what an expression gives: values, the node and what it saved, gradients, and gradients
    of those.
    """
    given = leaves(library)
    try:
        value = eval(expression, {"torch": library, **given})
    except Exception as error:
        return {"refused": error}
    outputs = list(value) if isinstance(value, (tuple, list)) else [value]
    facts: dict[str, Any] = {"value": plain(library, value)}
    tensors = [given[name] for name in ("m", "v", "p", "z", "t")]
    node = getattr(outputs[0], "grad_fn", None)
    if node is None:
        return facts
    facts["node"] = type(node).__name__
    facts["fields"] = {
        name: shown(library, node, name) for name in dir(node) if name.startswith("_saved_")
    }
    facts["next"] = [type(n).__name__ for n, _ in node.next_functions]
    wanted = [y for y in outputs if y.requires_grad and y.dtype.is_floating_point]
    total = sum((y * library.arange(1.0, y.numel() + 1).reshape(y.shape)).sum() for y in wanted)
    try:
        first = library.autograd.grad(total, tensors, create_graph=True, allow_unused=True)
    except RuntimeError as error:
        return facts | {"backward refused": first_line(error)}
    facts["gradients"] = plain(library, [None if g is None else g.detach().clone() for g in first])
    again = sum((g * g).sum() for g in first if g is not None)
    if getattr(again, "requires_grad", False):
        second = library.autograd.grad(again, tensors, allow_unused=True)
        zero = [np.zeros(1).tolist() if g is None else g.detach().clone().tolist() for g in second]
        facts["second gradients"] = [x if np.any(x) else 0 for x in zero]
    return facts


def shown(library: ModuleType, node: Any, name: str) -> Any:
    """Return a saved field: of tensors only that they are some."""
    value = getattr(node, name)
    return "tensor" if isinstance(value, library.Tensor) else plain(library, value)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_differentiate_as_pytorchs(expression: str) -> None:
    expected, found = seen(torch, expression), seen(SHIM, expression)
    if "refused" in expected or "refused" in found:
        error = expected.get("refused")
        assert error is not None and isinstance(found.get("refused"), type(error)), (
            expected,
            found,
        )
        assert isinstance(error, TypeError) or first_line(error) == first_line(found["refused"])
        return
    own = any(part in expression for part in NODES_OF_OUR_OWN)
    for name in ("value", "gradients", "second gradients", "backward refused"):
        if name == "second gradients" and expected.get(name) is None:
            continue
        assert close(expected.get(name), found.get(name), 1e-9), (
            name,
            expected.get(name),
            found.get(name),
        )
    for name in () if own else ("node", "fields", "next"):
        assert expected.get(name) == found.get(name), name
