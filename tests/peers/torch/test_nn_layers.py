"""Functions of neural networks have PyTorch's values, gradients, second-order gradients, node names
and refusals.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.grid import compare
from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
_TOLERANCE = {"float32": (2e-4, 2e-5), "float64": (1e-7, 1e-10)}


class Run:
    """An expression with one of the libraries: its results and derivatives.

    Args:
        library: PyTorch or the shim.
        expression: a Python expression of the tensors, ``torch`` and ``F``.
        arrays: the tensors by name; floats require grad, unless the name begins with ``_``.
        dtype: the dtype of floats.
    """

    def __init__(
        self, library: ModuleType, expression: str, arrays: dict[str, Any], dtype: str
    ) -> None:
        scope: dict[str, Any] = {"torch": library, "F": library.nn.functional, "np": np}
        wanted = []
        for name, array in arrays.items():
            floats = array.dtype.kind == "f"
            tensor = library.from_numpy((array.astype(dtype) if floats else array).copy())
            if floats and not name.startswith("_"):
                wanted.append(tensor.requires_grad_())
            scope[name] = tensor
        self.names: list[Any] = []
        self.values: list[Any] = []
        self.problem = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = eval(expression, scope)
            made = list(made) if isinstance(made, (tuple, list)) else [made]
            self.values += [x.detach().numpy() for x in made if isinstance(x, library.Tensor)]
            self.names += [x.grad_fn and x.grad_fn.name() for x in made]
            self.values += [scope[name].detach().numpy() for name in arrays if name[:1] == "_"]
            roots = [x for x in made if x.requires_grad]
            if not roots or not wanted:
                return
            total = sum((x * weights(library, x, 3)).sum() for x in roots)
            grads = library.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
            self.values += [None if g is None else g.detach().numpy() for g in grads]
            grads = [g for g in grads if g is not None and g.requires_grad]
            if not grads:
                return
            total = sum((g * weights(library, g, 5)).sum() for g in grads)
            try:
                twice = library.autograd.grad(total, wanted, allow_unused=True)
            except (RuntimeError, NotImplementedError) as error:
                self.problem = str(error)[:100]
                return
            self.values += [
                np.zeros(x.shape, dtype) if g is None else g.detach().numpy()
                for g, x in zip(twice, wanted, strict=True)
            ]


def weights(library: ModuleType, x: Any, seed: int) -> Any:
    """Return the fixed factors of a result in a sum."""
    array = np.random.default_rng(seed).uniform(0.5, 1.5, tuple(x.shape))
    return library.from_numpy(array).to(x.dtype)


def check(expression: str, arrays: dict[str, Any], dtype: str, *, nodes: bool = True) -> None:
    """Compare an expression with both libraries.

    Raises:
        AssertionError: with the first difference.
    """
    expected = Run(torch, expression, arrays, dtype)
    found = Run(SHIM, expression, arrays, dtype)
    if nodes:
        assert found.names == expected.names, (expression, found.names, expected.names)
    if not expected.problem:
        assert not found.problem, (expression, found.problem)
    rtol, atol = _TOLERANCE[dtype]
    for k, (a, b) in enumerate(zip(expected.values, found.values, strict=False)):
        assert (a is None) == (b is None), (expression, dtype, k)
        if a is not None:
            assert a.shape == b.shape and a.dtype == b.dtype, (expression, k, a.dtype, b.dtype)
            np.testing.assert_allclose(b, a, rtol, atol, err_msg=f"{expression} {dtype} {k}")
    if not expected.problem and len(found.values) != len(expected.values):
        rest = expected.values[len(found.values) :]
        assert all(np.all(x == 0) for x in rest), (expression, rest)


def cases(text: str) -> list[str]:
    """Return the expressions of a text, which bars separate."""
    return text.split("|")


def floats(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Any:
    """Return an array of floats."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


# -- activations -----------------------------------------------------------------------------------

KINKS = np.array([[-7.0, -3.0, -1.0, -0.5], [0.0, 0.5, 1.0, 3.0], [6.0, 7.0, -0.3, 21.0]])
ACTIVATIONS = cases(
    "F.relu(x)|F.relu6(x)|F.elu(x)|F.elu(x, 0.5)|F.selu(x)|F.celu(x)|F.celu(x, 2.0)|F.gelu(x)"
    "|F.gelu(x, approximate='tanh')|F.silu(x)|F.mish(x)|F.hardtanh(x)|F.hardtanh(x, -0.5, 3.0)"
    "|F.hardswish(x)|F.hardsigmoid(x)|F.hardshrink(x)|F.hardshrink(x, 1.0)|F.softshrink(x)"
    "|F.softshrink(x, 1.0)|F.tanhshrink(x)|F.softplus(x)|F.softplus(x, 2.0, 5.5)|F.softsign(x)"
    "|F.softmin(x, 1)|F.softmin(x)|F.softmax(x)|F.log_softmax(x)|F.softmax(x, 0, 3, torch.float64)"
    "|F.leaky_relu(x)|F.leaky_relu(x, 0.2)|F.leaky_relu(x, -0.2)|F.rrelu(x)|F.glu(x)|F.glu(x, 1)"
    "|F.logsigmoid(x)|F.threshold(x, 0.5, 9.0)|F.threshold(x, -1.0, 0)|F.sigmoid(x)|F.tanh(x)"
    "|torch.selu(x)|torch.celu(x, 0.7)|torch.threshold(x, 1.0, 2.0)|torch.hardshrink(x)"
    "|x.hardshrink(1.0)|torch._C._nn.elu(x, 2.0, 3.0, 0.5)|torch._C._nn.gelu(x)|torch.rrelu(x)"
    "|torch._C._nn.log_sigmoid(x)|torch._C._nn.relu6(x)|torch._C._nn.softplus(x)"
    "|torch.softmax(x, -1, torch.float64)|torch._C._nn.hardtanh(x, -2, 2)"
)
IN_PLACE = cases(
    "F.relu(y, inplace=True)|F.relu_(y)|F.relu6(y, True)|F.elu(y, inplace=True)|F.elu_(y, 0.5)"
    "|F.selu(y, True)|F.selu_(y)|F.celu(y, 0.5, True)|F.celu_(y)|F.silu(y, True)|F.mish(y, True)"
    "|F.hardtanh(y, -1, 1, True)|F.hardtanh_(y)|F.hardswish(y, True)|F.hardsigmoid(y, True)"
    "|F.leaky_relu(y, 0.1, True)|F.leaky_relu_(y)|F.threshold(y, 0.5, 2, True)|torch.relu_(y)"
    "|F.threshold_(y, 0.5, 3.0)|F.rrelu(y, inplace=True)|F.rrelu_(y)|torch._C._nn.gelu_(y)"
    "|torch._C._nn.silu_(y)|torch._C._nn.relu6_(y)|torch.selu_(y)|torch.celu_(y)|torch.sigmoid_(y)"
    "|torch.tanh_(y)|torch.threshold_(y, 0.1, 0.2)"
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("expression", ACTIVATIONS)
def test_activations(expression: str, dtype: str) -> None:
    check(expression, {"x": KINKS}, dtype)
    check(expression, {"x": floats(2, 4, 3) if "glu" not in expression else floats(2, 4)}, dtype)


@pytest.mark.parametrize("expression", IN_PLACE)
def test_activations_in_place(expression: str) -> None:
    check(f"[y for y in [x * 1.0] if {expression} is y]", {"x": KINKS}, "float64")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,)])
def test_prelu(shape: tuple[int, ...]) -> None:
    for x in (floats(), floats(4), floats(2, 3), floats(2, 3, 4), KINKS + 0.1):
        expression = "F.prelu(x, w)"
        try:
            Run(torch, expression, {"x": x, "w": floats(*shape)}, "float64")
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as found:
                Run(SHIM, expression, {"x": x, "w": floats(*shape)}, "float64")
            assert str(found.value) == str(error)
        else:
            check(expression, {"x": x, "w": floats(*shape)}, "float64")


@pytest.mark.parametrize("name", ["relu", "relu6", "elu", "gelu", "silu", "mish", "hardtanh",
    "hardswish", "hardsigmoid", "softplus", "softsign", "leaky_relu", "glu", "logsigmoid", "selu",
    "softshrink", "hardshrink", "tanhshrink", "celu"])  # fmt: skip
def test_activations_of_other_dtypes(name: str) -> None:
    for kind in ("bool", "uint8", "int64", "float16", "complex64"):
        given = {"x": lambda t, kind=kind: t.tensor([[0, 1, 2, 3]]).to(getattr(t, kind))}
        difference, expected, found = compare(f"F.{name}(x)", given)
        assert not difference, (name, kind, expected, found)


REFUSED = cases(
    "F.celu(x, 0.)|F.glu(x[:, :3])|F.softshrink(x, -1.)|F.prelu(x, torch.ones(3))|F.glu(x, 5)"
    "|F.prelu(x, torch.ones(2, 2))|F.rrelu(x, .5, .1)|F.gelu(x, approximate='foo')|F.elu(1.0)"
    "|F.hardtanh(x, 1, -1)|F.relu6(x.bool())|F.hardtanh(x.to(torch.uint8))|F.leaky_relu(x.bool())"
    "|F.threshold(x.bool(), 1, 1)|F.prelu(x, torch.ones(4).double())|F.softmax(x, 4)"
)


@pytest.mark.parametrize("expression", REFUSED)
def test_refused_arguments_of_activations(expression: str) -> None:
    difference, expected, found = compare(expression, {"x": lambda t: t.ones(3, 4)})
    assert not difference, (expected, found)
