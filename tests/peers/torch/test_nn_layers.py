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
            self.values += [raw(x) for x in made if isinstance(x, library.Tensor)]
            self.names += [x.grad_fn and x.grad_fn.name() for x in made]
            self.values += [raw(scope[name]) for name in arrays if name[:1] == "_"]
            roots = [x for x in made if x.requires_grad]
            if not roots or not wanted:
                return
            total = sum((x * weights(library, x, 3)).sum() for x in roots)
            grads = library.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
            self.values += [None if g is None else raw(g) for g in grads]
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
                np.zeros(x.shape, dtype) if g is None else raw(g)
                for g, x in zip(twice, wanted, strict=True)
            ]


def raw(x: Any) -> Any:
    """Return the array of a tensor; PyTorch has tensors of zeros without memory."""
    try:
        return x.detach().numpy()
    except RuntimeError:
        return x.detach().numpy(force=True)


def weights(library: ModuleType, x: Any, seed: int) -> Any:
    """Return the fixed factors of a result in a sum."""
    array = np.random.default_rng(seed).uniform(0.5, 1.5, tuple(x.shape))
    return library.from_numpy(array).to(x.dtype)


def check(
    expression: str, arrays: dict[str, Any], dtype: str, *, nodes: bool = True, loose: float = 1
) -> None:
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
    rtol, atol = (loose * x for x in _TOLERANCE[dtype])
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


# -- losses ----------------------------------------------------------------------------------------

LABELS = {"i": np.array([0, 3, 1]), "j": np.array([0, -100, 1])}
CLASSES = {
    "x": floats(3, 4), "_p": floats(3, 4, low=0.1, high=0.9), "_w": floats(4, low=0.2, high=2.0),
    "a": floats(3, 4, 2), "_k": np.array([[0, 1], [2, 3], [-100, 0]]), "b": floats(3, 4, 2, 2),
    "_m": np.arange(12).reshape(3, 2, 2) % 4, "_q": floats(3, 4, 2, low=0.1, high=0.9),
} | LABELS  # fmt: skip
REDUCTIONS = ("mean", "sum", "none")
OF_CLASSES = cases(
    "F.cross_entropy(x, i, R)|F.cross_entropy(x, j, R)|F.cross_entropy(x, i, _w, R)"
    "|F.cross_entropy(x, j, _w, label_smoothing=0.2, R)|F.cross_entropy(x, i, ignore_index=1, R)"
    "|F.cross_entropy(x, i, label_smoothing=0.1, R)|F.cross_entropy(x, _p, R)"
    "|F.cross_entropy(x, _p, _w, label_smoothing=0.3, R)|F.cross_entropy(x[0], i[1], R)"
    "|F.cross_entropy(a, _k, _w, R)|F.cross_entropy(a, _k, label_smoothing=0.1, R)"
    "|F.cross_entropy(b, _m, R)|F.cross_entropy(a, _q, R)|F.cross_entropy(x[0], _p[0], R)"
    "|F.nll_loss(x, i, R)|F.nll_loss(x, j, _w, R)|F.nll_loss(b, _m, _w, R)"
    "|F.nll_loss(x, i, ignore_index=3, R)"
    "|F.multi_margin_loss(x, i, R)|F.multi_margin_loss(x, i, 2, 0.7, _w, R)"
    "|F.multi_margin_loss(x[0], i[0], R)|F.multi_margin_loss(x[0], i[:1], R)"
    "|F.multilabel_soft_margin_loss(x, _p, R)|F.multilabel_soft_margin_loss(x, _p, _w, R)"
    "|F.multilabel_margin_loss(x, _m.reshape(3, 4) - 1, R)"
    "|F.multilabel_margin_loss(x[1], _m.reshape(3, 4)[0], R)"
)
PAIRS = {
    "x": floats(3, 4), "y": floats(3, 4, seed=1), "p": floats(3, 4, seed=2, low=0.05, high=0.95),
    "_w": floats(3, 4, seed=3, low=0.2, high=1.0), "v": floats(4, seed=4),
    "_s": np.array([1.0, -1.0, 1.0]), "_t": np.sign(floats(3, 4, seed=6)),
}  # fmt: skip
OF_PAIRS = cases(
    "F.mse_loss(x, y, R)|F.mse_loss(x, y, weight=_w, R)|F.mse_loss(x, v, R)|F.l1_loss(x, y, R)"
    "|F.l1_loss(x, y, weight=_w, R)|F.smooth_l1_loss(x, y, R)|F.smooth_l1_loss(x, y, beta=0.3, R)"
    "|F.smooth_l1_loss(x, y, beta=0., R)|F.huber_loss(x, y, R)|F.huber_loss(x, y, delta=0.4, R)"
    "|F.huber_loss(x, y, weight=_w, R)|F.kl_div(x, p, R)|F.kl_div(x, y, log_target=True, R)"
    "|F.binary_cross_entropy(p, _w, R)|F.binary_cross_entropy(p, _w, _w, R)"
    "|F.binary_cross_entropy(p, _w, v.detach().abs(), R)|F.huber_loss(x, v, R)"
    "|F.binary_cross_entropy_with_logits(x, p, R)"
    "|F.binary_cross_entropy_with_logits(x, p, _w, R)"
    "|F.binary_cross_entropy_with_logits(x, p, pos_weight=_w[0], R)"
    "|F.binary_cross_entropy_with_logits(x, p, _w[:1], pos_weight=_w[0], R)"
    "|F.poisson_nll_loss(x, p * 4, R)|F.poisson_nll_loss(p, p * 4, False, R)"
    "|F.poisson_nll_loss(x, p * 4, full=True, R)|F.gaussian_nll_loss(x, y, p, R)"
    "|F.gaussian_nll_loss(x, y, p, True, R)|F.gaussian_nll_loss(x, y, p[:, 0], R)"
    "|F.gaussian_nll_loss(x, y, p[:, :1], R)|F.gaussian_nll_loss(x, y, 1.5, R)"
    "|F.hinge_embedding_loss(x, _t, R)|F.hinge_embedding_loss(x, _t, 0.5, R)"
    "|F.margin_ranking_loss(x[:, 0], x[:, 1], _s, R)|F.margin_ranking_loss(x, y, _t, 0.5, R)"
    "|F.cosine_embedding_loss(x, y, _s, R)|F.cosine_embedding_loss(x, y, _s, 0.2, R)"
    "|F.cosine_embedding_loss(x[0], y[0], _s[1], R)|F.triplet_margin_loss(x, y, p, R)"
    "|F.triplet_margin_loss(x, y, p, 2.0, 1., swap=True, R)|F.triplet_margin_loss(x[0], y[0], p[0], R)"
    "|F.triplet_margin_with_distance_loss(x, y, p, R)|F.soft_margin_loss(x, _t, R)"
    "|F.triplet_margin_with_distance_loss(x, y, p, swap=True, margin=3., R)"
    "|F.triplet_margin_with_distance_loss(x, y, p, distance_function=lambda a, b: (a - b).abs().sum(-1), R)"
)
PLAIN = cases(
    "torch._C._nn.mse_loss(x, y)|torch._C._nn.l1_loss(x, y, 1)|torch._C._nn.huber_loss(x, y, 2, .5)"
    "|torch._C._nn.smooth_l1_loss(x, y, 1, .5)|torch._C._nn.soft_margin_loss(x, _t, 1)"
    "|torch._C._nn.binary_cross_entropy(p, _w, None, 1)|torch.kl_div(x, p)|F.linear(x, y, v[:3])"
    "|torch.binary_cross_entropy_with_logits(x, p, None, _w, 1)|torch.kl_div(x, y, 1, log_target=True)"
    "|torch.poisson_nll_loss(x, p, True, False, 1e-8, 1)|torch.hinge_embedding_loss(x, _t, .5, 2)"
    "|torch.margin_ranking_loss(x, y, _t, .1, 1)|torch.cosine_embedding_loss(x, y, _s, .1, 1)"
    "|torch.triplet_margin_loss(x, y, p, 1., 2., 1e-6, False, 1)|F.linear(x[None], y)"
    "|F.mse_loss(x, y, False)|F.mse_loss(x, y, reduce=False)|F.l1_loss(x, y, True, True)"
    "|F.mse_loss(x.detach(), y)|F.huber_loss(x.detach(), y)|F.smooth_l1_loss(x.detach(), y)"
    "|F.binary_cross_entropy(_w, p)"
    "|torch._C._nn.linear(x, y)|F.kl_div(x, p, reduction='batchmean')|F.linear(x[0], y, v[:3])"
    "|F.binary_cross_entropy(_w.round().requires_grad_(), p.detach().round())"
)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("expression", [*OF_CLASSES, *OF_PAIRS])
def test_losses(expression: str, reduction: str) -> None:
    given = CLASSES if expression in OF_CLASSES else PAIRS
    check(
        expression.replace(" R)", f" reduction='{reduction}')"),
        given,
        "float64",
        nodes=reduction != "none",
    )


@pytest.mark.parametrize("expression", [*OF_CLASSES, *OF_PAIRS])
def test_losses_in_single_precision(expression: str) -> None:
    given = CLASSES if expression in OF_CLASSES else PAIRS
    check(expression.replace(", R)", ")"), given, "float32")


@pytest.mark.parametrize("expression", PLAIN)
def test_losses_by_number_and_by_older_words(expression: str) -> None:
    check(expression, PAIRS, "float64")


REFUSED_LOSSES = cases(
    "F.cross_entropy(x,t([0,1]))|F.cross_entropy(x,t([0,1,4]))|F.cross_entropy(x[0],t([1]))"
    "|F.cross_entropy(x,t([0,1,2]),label_smoothing=1.5)|F.cross_entropy(x,y[:2])"
    "|F.cross_entropy(x,torch.zeros(3,4).long())|F.cross_entropy(x,y,ignore_index=2)"
    "|F.cross_entropy(x,t([0,1,2]),torch.ones(3))|F.cross_entropy(x,y,torch.ones(3))"
    "|F.cross_entropy(x,t([0,1,2]).int())|F.cross_entropy(x,t([0,1,2]).double())"
    "|F.cross_entropy(x,t([0,1,2]),torch.ones(4).double())|F.cross_entropy(x,y,reduction='foo')"
    "|F.cross_entropy(x[:,:,None],t([[0,1],[0,1],[1,2]]))|F.cross_entropy(x[0,0],t(0))"
    "|F.nll_loss(x[0],t([1,2]))|F.nll_loss(x[:,:,None,None],t([0,1,2])[:,None])"
    "|F.nll_loss(x,t([0,1,2])[:,None])|F.nll_loss(x,t([0,1,2]),torch.ones(5))"
    "|F.mse_loss(x,y[:2])|F.mse_loss(x,y,weight=y[:1])|F.mse_loss(x.long(),y.long())"
    "|F.l1_loss(x.long(),y.long())|F.l1_loss(x,y,weight=y[:1])|F.smooth_l1_loss(x,y,beta=-1.)"
    "|F.smooth_l1_loss(x.long(),y.long())|F.huber_loss(x,y,delta=0.)|F.huber_loss(x,y,delta=-1.)"
    "|F.huber_loss(x,y,weight=y[:1])|F.kl_div(x,y,reduction='foo')|F.binary_cross_entropy(x-9,y)"
    "|F.binary_cross_entropy(x.sigmoid(),y[:1])|F.binary_cross_entropy(x.sigmoid(),y.long())"
    "|F.binary_cross_entropy(x.sigmoid(),y.double())|F.soft_margin_loss(x,y[:2])"
    "|F.binary_cross_entropy_with_logits(x,y[:1])|F.gaussian_nll_loss(x,y,-torch.ones(3,4))"
    "|F.binary_cross_entropy_with_logits(x,y.long())|F.gaussian_nll_loss(x,y,torch.ones(2,2))"
    "|F.gaussian_nll_loss(x,y,-2.)|F.gaussian_nll_loss(x,y,torch.ones(1))"
    "|F.gaussian_nll_loss(x,y,y*y,reduction='z')"
    "|F.margin_ranking_loss(x,y,t([1.,1.,1.]))|F.cosine_embedding_loss(x,y,t(1.))"
    "|F.cosine_embedding_loss(x,y[:2],t([1.,1.,1.]))|F.cosine_embedding_loss(x,y,torch.ones(3,1))"
    "|F.triplet_margin_loss(x,y,y[0])|F.triplet_margin_loss(x,y,y,margin=-1)"
    "|F.triplet_margin_with_distance_loss(x,y,y,margin=-1)|F.multi_margin_loss(x,t([0,1,4]))"
    "|F.multi_margin_loss(x,t([0,1]))|F.multi_margin_loss(x,t([0,1,2]),p=3)"
    "|F.multi_margin_loss(x,t([0,1,2]),weight=torch.ones(3))"
    "|F.multilabel_margin_loss(x,t([[0,1,2,3]]))|F.multilabel_margin_loss(x,t([[0,5,2,3]]*3))"
    "|F.poisson_nll_loss(x,y,reduction='foo')|F.cosine_embedding_loss(x[0],y[0],t([1.]))"
)


@pytest.mark.parametrize("expression", REFUSED_LOSSES)
def test_refused_arguments_of_losses(expression: str) -> None:
    given = {
        "x": lambda t: t.arange(12.0).reshape(3, 4), "y": lambda t: t.arange(12.0).reshape(3, 4) / 2,
        "t": lambda t: t.tensor,
    }  # fmt: skip
    difference, expected, found = compare(expression, given)
    assert not difference, (expression, expected, found)


# -- distances -------------------------------------------------------------------------------------

DISTANCES = cases(
    "F.pairwise_distance(x, y)|F.pairwise_distance(x, y, 1.)|F.pairwise_distance(x, y, 3., 0.1, True)"
    "|F.pairwise_distance(x, y[:1])|F.pairwise_distance(x[0], y[0])|torch.pairwise_distance(x, v)"
    "|F.cosine_similarity(x, y)|F.cosine_similarity(x, y, 0)|F.cosine_similarity(x, v, -1)"
    "|F.cosine_similarity(x * 1e-12, y)|F.normalize(x)|F.normalize(x, 1., 0)|F.normalize(x, dim=-1)"
    "|F.normalize(x, 3.0, eps=9.)|F.normalize(x * 0, 2.0)|F.pdist(x)|F.pdist(x, 1.)|F.pdist(x, 3.)"
    "|F.pdist(x, float('inf'))|torch.pdist(x, 2.)|torch.cdist(x, y)|torch.cdist(x, y, 1.)"
    "|torch.cdist(x, y, 3.)|torch.cdist(x, y, float('inf'))|torch.cdist(x[:2], y)|torch.cdist(x, y, 0.)"
    "|torch.cdist(x[None], torch.stack([x, y]))|torch.cdist(x, x)|F.normalize(x, dim=(0, 1))"
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("expression", DISTANCES)
def test_distances(expression: str, dtype: str) -> None:
    check(expression, PAIRS, dtype, nodes="cosine" not in expression)


@pytest.mark.parametrize("expression", cases(
    "F.pdist(x[0])|torch.cdist(x, x[:, :2])|F.normalize(x, dim=5)|F.cosine_similarity(x, x[:2])"
    "|torch.cdist(x, x, p=-1)|torch.cdist(x, x[0])|F.pdist(x.long())|torch.cdist(x.long(), x)"
    "|F.cosine_similarity(x.long(), x.long())|F.normalize(x.long())|F.pdist(x, -1.)"
    "|F.cosine_similarity(x, x, 7)"
))  # fmt: skip
def test_refused_arguments_of_distances(expression: str) -> None:
    difference, expected, found = compare(expression, {"x": lambda t: t.ones(3, 4)})
    assert not difference, (expression, expected, found)


# -- normalizations --------------------------------------------------------------------------------

NORMED = {
    "x": floats(3, 4), "w": floats(4, seed=1), "b": floats(4, seed=2), "i": floats(2, 4, 3),
    "m": floats(2, 4, 3, 2), "u": floats(2, 4, 3, 2, seed=3), "_rm": floats(4, seed=4),
    "_rv": floats(4, seed=5, low=0.5, high=2.0), "v": floats(3, seed=6),
}  # fmt: skip
NORMS = cases(
    "F.layer_norm(x, (4,))|F.layer_norm(x, [4], w)|F.layer_norm(x, (4,), w, b, 0.1)"
    "|F.layer_norm(x, (4,), None, b)|F.layer_norm(x, (3, 4), x)|F.layer_norm(i, (3,), v, v)"
    "|torch.layer_norm(x, (4,), w, b)|torch.native_layer_norm(i, (4, 3), None, None, 1e-3)"
    "|F.batch_norm(x, None, None, training=True)|F.batch_norm(x, _rm, _rv, w, b)"
    "|F.batch_norm(x, _rm, _rv, w, b, True)|F.batch_norm(i, _rm, _rv, w, b, True, 0.3, 1e-2)"
    "|F.batch_norm(m, _rm, _rv)|F.batch_norm(m, _rm, _rv, None, b, True, 0.0)"
    "|F.batch_norm(m, None, None, w, None, True)|F.batch_norm(m, _rm, _rv, w, b, True, 1.0)"
    "|torch.batch_norm(x, w, b, _rm, _rv, True, .1, 1e-5, True)"
    "|torch.native_batch_norm(x, w, b, _rm, _rv, True, .1, 1e-5)"
    "|torch.native_batch_norm(x, w, b, _rm, _rv, False, .1, 1e-5)"
    "|F.group_norm(i, 2)|F.group_norm(m, 2, w, b)|F.group_norm(i, 4, w)"
    "|torch.group_norm(i, 1)|torch.native_group_norm(m, w, b, 2, 4, 6, 2, 1e-3)"
    "|F.instance_norm(i)|F.instance_norm(m, None, None, w, b)|F.instance_norm(m, _rm, _rv, w, b)"
    "|F.instance_norm(m, _rm, _rv, w, b, False)|F.instance_norm(m, _rm, _rv, momentum=0.4)"
    "|torch.instance_norm(m, w, b, None, None, True, .1, 1e-5, False)"
    "|F.rms_norm(x, (4,))|F.rms_norm(x, (4,), w, 0.1)|F.rms_norm(m, (3, 2))|torch.rms_norm(x, [4], w)"
    "|F.local_response_norm(i, 2)|F.local_response_norm(m, 3, 0.5, 0.6, 2.0)"
    "|F.local_response_norm(m, 5, 1.)"
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("expression", NORMS)
def test_normalizations(expression: str, dtype: str) -> None:
    check(expression, NORMED, dtype)


@pytest.mark.parametrize("expression", cases(
    "F.layer_norm(x,(5,))|F.layer_norm(x,())|F.layer_norm(x,(4,),torch.ones(3))"
    "|F.layer_norm(x,(4,),torch.ones(4),torch.ones(3))|F.layer_norm(x,4)"
    "|F.layer_norm(x,(4,),torch.ones(4).double())|F.layer_norm(x.half(),(4,),torch.ones(4))"
    "|F.layer_norm(x.long(),(4,))|F.batch_norm(x[:1],None,None,training=True)"
    "|F.batch_norm(x,None,None)|F.batch_norm(x,torch.zeros(3),torch.ones(4))"
    "|F.batch_norm(x,torch.zeros(4),torch.ones(3))|F.batch_norm(x,torch.zeros(4),None)"
    "|F.batch_norm(x,torch.zeros(4),torch.ones(4),torch.ones(3))"
    "|F.batch_norm(x,torch.zeros(4),torch.ones(4),torch.ones(4),torch.ones(3))"
    "|F.batch_norm(x[0],torch.zeros(4),torch.ones(4),training=True)"
    "|F.batch_norm(x,torch.zeros(4),torch.ones(4),training=True,momentum=None)"
    "|F.batch_norm(x,None,torch.ones(4),training=True)|F.batch_norm(x.long(),None,None,training=True)"
    "|F.batch_norm(x,torch.zeros(4).double(),torch.ones(4).double(),training=True)"
    "|F.batch_norm(torch.zeros(0,4),None,None,training=True)"
    "|F.batch_norm(torch.zeros(0,4),torch.zeros(4),torch.ones(4))"
    "|F.instance_norm(x)|F.instance_norm(x[None,:,:1])|F.instance_norm(x[None],use_input_stats=False)"
    "|F.instance_norm(x[None],torch.zeros(2),torch.ones(3))|F.instance_norm(x[None],weight=torch.ones(2))"
    "|F.group_norm(x,3)|F.group_norm(x[0],2)|F.group_norm(x,2,torch.ones(3))|F.group_norm(x,0)"
    "|F.group_norm(x,2,torch.ones(4),torch.ones(3))|F.group_norm(x,2,torch.ones(2,2))"
    "|F.rms_norm(x,(5,))|F.rms_norm(x,(4,),torch.ones(3))|F.local_response_norm(x,2)"
    "|F.rms_norm(x.half(),(4,))|F.batch_norm(x.half(),None,None,training=True)"
))  # fmt: skip
def test_refused_arguments_of_normalizations(expression: str) -> None:
    difference, expected, found = compare(
        expression, {"x": lambda t: t.arange(12.0).view(3, 4).sin()}
    )
    assert not difference, (expression, expected, found)


# -- embeddings, dropout ---------------------------------------------------------------------------

ROWS = {
    "w": floats(5, 3), "_i": np.array([[0, 1, 4], [1, 1, 2]]), "_f": np.array([0, 1, 4, 1, 1, 2, 0]),
    "_o": np.array([0, 2, 2, 5]), "s": floats(7, seed=1), "q": floats(2, 3, seed=2),
    "_u": floats(5, 3, seed=3) * 3,
}  # fmt: skip
# scale_grad_by_freq of embedding_bag: PyTorch divides by frequencies of other positions, unless
# there is one position.
EMBEDDINGS = cases(
    "F.embedding(_i, w)|F.embedding(_i, w, 1)|F.embedding(_i, w, -1)|F.embedding(_f, w, scale_grad_by_freq=True)"
    "|F.embedding(_i, w, 1, scale_grad_by_freq=True)|torch.embedding(w, _i)|torch.embedding(w, _i[0, 0])"
    "|F.embedding(_i, _u, max_norm=1.)|F.embedding(_i, _u, max_norm=1., norm_type=1.)"
    "|F.embedding(_i.int(), w)|torch.embedding(w, _i, 4)|F.embedding(_i[:0], w)"
    "|torch.embedding_renorm_(_u, _f, 0.5, 2.)"
    "|F.embedding_bag(_i, w)|F.embedding_bag(_i, w, mode='sum')|F.embedding_bag(_i, w, mode='max')"
    "|F.embedding_bag(_f, w, _o)|F.embedding_bag(_f, w, _o, mode='sum')|F.embedding_bag(_f, w, _o, mode='max')"
    "|F.embedding_bag(_f, w, _o, padding_idx=1)|F.embedding_bag(_f, w, _o, padding_idx=-5, mode='sum')"
    "|F.embedding_bag(_f, w, _o, padding_idx=1, mode='max')|F.embedding_bag(_f, w, _o, include_last_offset=True)"
    "|F.embedding_bag(_f, w, _o, mode='sum', per_sample_weights=s)"
    "|F.embedding_bag(_i, w, mode='sum', per_sample_weights=q)"
    "|F.embedding_bag(_f, w, _o, mode='sum', per_sample_weights=s, padding_idx=1)"
    "|F.embedding_bag(_o[1:3] // 2, w, _o[:2], scale_grad_by_freq=True, mode='sum')"
    "|F.embedding_bag(_f, _u, _o, 1., mode='sum')|torch.embedding_bag(w, _f, _o)"
    "|torch.embedding_bag(w, _f, _o, False, 1)|torch.embedding_bag(w, _f, _o, False, 2)"
    "|torch._embedding_bag(w, _f, _o, False, 2)"
)


@pytest.mark.parametrize("expression", EMBEDDINGS)
def test_embeddings(expression: str) -> None:
    check(expression, ROWS, "float64", nodes="torch._" not in expression)


DROPOUTS = cases(
    "F.dropout(x)|F.dropout(x, 0.2)|F.dropout(x, 0.)|F.dropout(x, 1.)|F.dropout(x, training=False)"
    "|F.dropout1d(x)|F.dropout1d(x[0], 0.3)|F.dropout2d(x[..., None])|F.dropout2d(x)"
    "|F.dropout3d(x[..., None, None])|F.dropout3d(x[..., None])|F.alpha_dropout(x, 0.4, True)"
    "|F.alpha_dropout(x)|F.feature_alpha_dropout(x, 0.3, True)|torch.dropout(x, 0.7, True)"
    "|torch.feature_dropout(x, 0.5, True)|torch.alpha_dropout(x, 0.5, True)"
    "|torch.feature_alpha_dropout(x, 0.5, True)|F.dropout(x.transpose(0, 1), 0.4)"
    "|F.dropout(x * 1., 0.5, True, True)|torch.dropout_(x * 1., 0.5, True)|F.dropout1d(x * 1., inplace=True)"
    "|F.alpha_dropout(x * 1., 0.3, True, True)|torch.native_dropout(x, 0.3, True)[0]"
    "|F.rrelu(x, training=True)|F.gumbel_softmax(x)|F.gumbel_softmax(x, 0.5, True, dim=1)"
)


@pytest.mark.parametrize("expression", DROPOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_functions_draw_the_same_numbers(expression: str, dtype: str) -> None:
    given = {"x": floats(3, 4, 5)}
    if expression.startswith("F.rrelu"):
        given = {"x": -np.abs(given["x"])}
    check(f"[torch.manual_seed(3), {expression}][1]", given, dtype)


@pytest.mark.parametrize("expression", cases(
    "F.one_hot(t([1,2]))|F.one_hot(t([1,2]),2)|F.one_hot(t([-1,2]))|F.one_hot(t([1,2]).int())"
    "|F.one_hot(t([]).long())|F.one_hot(t([]).long(),3)|F.one_hot(t([1]),0)|F.one_hot(t(1),3)"
    "|F.one_hot(t([[1,2],[0,0]]),4)|F.embedding(t([0,5]),x)|F.embedding(t([0.,1]),x)"
    "|F.embedding(t([0,1]),x[0])|F.embedding(t([0,1]),x,padding_idx=3)|F.embedding(t([0,-1]),x)"
    "|F.embedding(t([0,1]),x,padding_idx=-4)|F.embedding_bag(t([0,5]),x,t([0]))"
    "|F.embedding_bag(t([0,1]),x)|F.embedding_bag(t([[0,1]]),x,t([0]))|F.embedding_bag(t([0,1]),x,t([1]))"
    "|F.embedding_bag(t([0,1]),x,t([0,5]))|F.embedding_bag(t([0,1]),x,t([0]),mode='foo')"
    "|F.embedding_bag(t([0,1]),x,t([0]),per_sample_weights=torch.ones(2))"
    "|F.embedding_bag(t([0,1]),x,t([0]),mode='sum',per_sample_weights=torch.ones(3))"
    "|F.embedding_bag(t([0,1]),x,t([0]),mode='max',scale_grad_by_freq=True)"
    "|F.embedding_bag(t([0,1]),x,t([[0]]))|F.embedding_bag(t([0.,1]),x,t([0]))"
    "|torch.dropout(x,1.5,True)|F.dropout(x,1.5)|F.dropout(x,-.1)|F.alpha_dropout(x,2.)"
    "|F.dropout1d(x[0])|F.dropout2d(x,0.)|F.dropout3d(x,0.)|F.dropout2d(x[None],0.)"
    "|F.feature_alpha_dropout(x[0],training=True)|F.dropout(x.long())|torch.native_dropout(x,0.,True)"
))  # fmt: skip
def test_refused_arguments_of_embeddings_and_dropout(expression: str) -> None:
    given = {"x": lambda t: t.arange(12.0).view(3, 4), "t": lambda t: t.tensor}
    difference, expected, found = compare(expression, given)
    assert not difference, (expression, expected, found)


# -- attention -------------------------------------------------------------------------------------

HEADS = {
    "q": floats(2, 4, 5, 3), "k": floats(2, 4, 6, 3, seed=1), "v": floats(2, 4, 6, 3, seed=2),
    "_m": floats(5, 6, seed=3), "a": floats(5, 6, seed=4), "u": floats(2, 2, 6, 3, seed=5),
    "x": floats(3, 4), "y": floats(3, 5), "w": floats(2, 4, 5), "b": floats(2),
    "e": floats(2, 4, 6, 7, seed=6),
}  # fmt: skip
ATTENTIONS = cases(
    "S(q, k, v)|S(q, k, v, _m)|S(q, k, v, a)|S(q, k, v, _m > 0)|S(q, k, v, scale=0.3)"
    "|S(q, k, v, is_causal=True)|S(q, k, v, _m > 9)|S(q, k, v, (_m > 0)[None, None])"
    "|S(q, u, u, enable_gqa=True)|S(q[0], k[0], v[0])|S(q[0, 0], k[0, 0], v[0, 0])"
    "|S(q[0], k[0], v[0], _m > 0)|S(q[0], k[0], v[0], is_causal=True)|S(q, k, e)"
    "|S(q[0], k[0], v[0], a)|S(q, k, v, (_m > 0)[:1])|S(q, k[:, :1], v[:, :1])"
    "|S(q[:, :, None], k[:, :, None], v[:, :, None])|S(k, k, k, is_causal=True)"
    "|F.bilinear(x, y, w)|F.bilinear(x, y, w, b)|F.bilinear(x[0], y[0], w, b)|torch.bilinear(x[None], y[None], w)"
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("expression", ATTENTIONS)
def test_attention(expression: str, dtype: str) -> None:
    expression = expression.replace("S(", "F.scaled_dot_product_attention(")
    check(
        expression,
        HEADS,
        dtype,
        nodes="[0]" not in expression
        and "bil" not in expression
        and "None" not in expression
        and "e)" not in expression,
    )


PROJECTED = {
    "q": floats(5, 2, 8), "k": floats(6, 2, 8, seed=1), "v": floats(6, 2, 8, seed=2), "w": floats(24, 8),
    "b": floats(24), "o": floats(8, 8), "p": floats(8), "_m": floats(5, 6, seed=3), "h": floats(1, 1, 8),
    "_n": floats(4, 5, 6), "_d": floats(2, 6), "g": floats(8, 8, seed=4), "s": floats(4, 7, 4),
}  # fmt: skip
SEPARATE = "q_proj_weight=o, k_proj_weight=g, v_proj_weight=g"
CAUSAL = "attn_mask=torch.ones(5, 5).triu(1).bool(), is_causal=True"
PLAIN_HEADS = "F.multi_head_attention_forward({}, 8, 2, w, b, {}, {}, 0.0, o, p, {})"
MULTI_HEADS = [
    PLAIN_HEADS.format(operands, bias, zero, rest)
    for operands, bias, zero, rest in (
        ("q, k, v", "None, None", "False", "True"), ("q, q, q", "None, None", "False", "True"),
        ("q, k, v", "h, h * 2", "False", "True"), ("q, k, v", "h, h", "True", "True"),
        ("q, k, v", "None, None", "True", "key_padding_mask=_d > 0.5"),
        ("q, k, v", "h, h", "True", "key_padding_mask=_d > 0.5, attn_mask=_m > 1"),
        ("q, k, v", "None, None", "False", "attn_mask=_m"), ("q, k, v", "h, h", "False", "attn_mask=_n"),
        ("q, k, v", "None, None", "False", "attn_mask=_m, need_weights=False"),
        ("q, k, v", "None, None", "False", "attn_mask=_n, need_weights=False"),
        ("q, q, q", "None, None", "False", "need_weights=False, " + CAUSAL),
        ("q, k, v", "None, None", "False", "key_padding_mask=_d, attn_mask=_m, need_weights=False"),
        ("q, k, v", "None, None", "False", "average_attn_weights=False"),
        ("q[:, 0], k[:, 0], v[:, 0]", "None, None", "False", "attn_mask=_m > 1, key_padding_mask=_d[0] > 1"),
        ("q, k, v", "None, None", "False", "use_separate_proj_weight=True, " + SEPARATE),
        ("q, k, v", "None, None", "False", "static_k=s, static_v=s"),
    )
]  # fmt: skip


@pytest.mark.parametrize("expression", MULTI_HEADS)
def test_multi_head_attention(expression: str) -> None:
    expression = f"[x for x in {expression} if x is not None]"
    check(expression, PROJECTED, "float64", nodes=False)


@pytest.mark.parametrize("expression", cases(
    "S(x,x,x.double())|S(x[0,0,0],x,x)|S(x,x,x,torch.ones(4,4).long())|S(x,x,x,torch.ones(4,4).double())"
    "|S(x,x,x,dropout_p=1.5)|S(x,torch.cat([x,x],1)[:,:2],x[:,:2],enable_gqa=True)"
    "|S(x,x,x,is_causal=True,attn_mask=torch.ones(4,4).bool())|M()|M(E=4)|M(H=3)|M(q=q[0,0])|M(k=q[:,:1])|M(k=q[:3])"
    "|M(is_causal=True)|M(attn_mask=torch.ones(5,4).bool())|M(attn_mask=torch.ones(3,5,5).bool())"
    "|M(attn_mask=torch.ones(5,5).long())|M(attn_mask=torch.zeros(5,5),key_padding_mask=torch.zeros(2,5).bool())"
    "|M(key_padding_mask=torch.zeros(2,4).bool())|M(bk=torch.ones(1,1,8))|M(W=None)|M(W=None,use_separate_proj_weight=True)"
    "|M(key_padding_mask=torch.zeros(2,5).bool(), q=q[:,0])|M(static_k=torch.ones(4,5,3))"
    "|F.bilinear(q,q,torch.ones(2,8,3))|F.bilinear(q,q[:2],torch.ones(2,8,8))|F.bilinear(q,q,torch.ones(2,8,8).double())"
    "|F.bilinear(q,q,torch.ones(2,8,8),torch.ones(3))"
))  # fmt: skip
def test_refused_arguments_of_attention(expression: str) -> None:
    def heads(library: Any) -> Any:
        ones = library.ones(5, 2, 8)

        def call(
            q: Any = ones, k: Any = ones, v: Any = ones, E: int = 8, H: int = 2,
            W: Any = library.ones(24, 8), bk: Any = None, bv: Any = None, **rest: Any,
        ) -> Any:  # fmt: skip
            given = (q, k, v, E, H, W, None, bk, bv, False, 0.0, library.ones(8, 8), None)
            return library.nn.functional.multi_head_attention_forward(*given, **rest)

        return call

    given = {
        "x": lambda t: t.ones(2, 3, 4, 8), "q": lambda t: t.ones(5, 2, 8), "M": heads,
        "S": lambda t: t.nn.functional.scaled_dot_product_attention,
    }  # fmt: skip
    difference, expected, found = compare(expression, given)
    assert not difference, (expression, expected, found)


# -- recurrent layers ------------------------------------------------------------------------------

STEPS, BATCH, FEATURES, SIZE = 5, 4, 3, 6
PACKED_SIZES = [4, 4, 3, 1, 1]
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def recurrent(
    library: ModuleType, kind: str, form: str, layers: int, directions: int, bias: bool, dtype: str
) -> list[Any]:
    """Return outputs, gradients and second-order gradients of a layer."""
    rng = np.random.default_rng(1)
    wanted: list[Any] = []

    def tensor(*shape: int) -> Any:
        made = library.from_numpy(rng.uniform(-1, 1, shape).astype(dtype)).requires_grad_()
        wanted.append(made)
        return made

    projected = 2 if form == "projected" else 0
    rows, width = GATES[kind] * SIZE, projected or SIZE
    x = {
        "packed": lambda: tensor(sum(PACKED_SIZES), FEATURES),
        "batch_first": lambda: tensor(BATCH, STEPS, FEATURES),
    }.get(form, lambda: tensor(STEPS, BATCH, FEATURES))()
    params = []
    for layer in range(layers):
        for _ in range(directions):
            params += [tensor(rows, width * directions if layer else FEATURES), tensor(rows, width)]
            params += [tensor(rows), tensor(rows)] if bias else []
            params += [tensor(projected, SIZE)] if projected else []
    h = tensor(layers * directions, BATCH, width)
    hx = (h, tensor(layers * directions, BATCH, SIZE)) if kind == "lstm" else h
    settings = (bias, layers, 0.0, False, directions == 2)
    run = getattr(library._VF, kind) if library is SHIM else getattr(library, kind)
    if form == "packed":
        out = run(x, library.tensor(PACKED_SIZES), hx, params, *settings)
    else:
        out = run(x, hx, params, *settings, form == "batch_first")
    twice = dtype == "float64"  # PyTorch's layers in single precision have one derivative
    total = sum((o * weights(library, o, 3)).sum() for o in out)
    grads = library.autograd.grad(total, wanted, create_graph=twice)
    found = [*out, *grads]
    if twice:
        found += library.autograd.grad(sum((g * g).sum() for g in grads), wanted)
    return [raw(x) for x in found]


@pytest.mark.parametrize("form", ["padded", "batch_first", "packed", "projected"])
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_layers(kind: str, form: str, layers: int) -> None:
    if form == "projected" and kind != "lstm":
        return
    importlib.import_module("functrace.torch._VF")
    for directions, bias, dtype in (
        (1, True, "float64"),
        (2, False, "float64"),
        (2, True, "float32"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = (
                recurrent(library, kind, form, layers, directions, bias, dtype)
                for library in (torch, SHIM)
            )
        tolerance = 1e-8 if dtype == "float64" else 2e-5
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(b, a, tolerance, tolerance)


CELLS = {
    "x": floats(4, 3), "h": floats(4, 2, seed=1), "c": floats(4, 2, seed=2), "w": floats(8, 3),
    "v": floats(8, 2, seed=3), "b": floats(8, seed=4),
}  # fmt: skip


@pytest.mark.parametrize("expression", cases(
    "torch.lstm_cell(x, (h, c), w, v, b, b)|torch.lstm_cell(x, (h, c), w, v)"
    "|torch.gru_cell(x, h, w[:6], v[:6], b[:6], b[2:])|torch.gru_cell(x, h, w[:6], v[:6])"
    "|torch.rnn_tanh_cell(x, h, w[:2], v[:2], b[:2], b[2:4])|torch.rnn_relu_cell(x, h, w[:2], v[:2])"
))  # fmt: skip
def test_recurrent_cells(expression: str) -> None:
    check(expression, CELLS, "float64", nodes=False)


def test_dropout_between_recurrent_layers_draws_the_same_masks() -> None:
    for kind in ("lstm", "gru", "rnn_tanh"):
        results = []
        for library in (torch, SHIM):
            rng = np.random.default_rng(0)
            make = lambda *shape, l=library, r=rng: l.from_numpy(r.uniform(-1, 1, shape))  # noqa: E741
            rows = GATES[kind] * SIZE
            params = [make(rows, FEATURES), make(rows, SIZE), make(rows, SIZE), make(rows, SIZE)]
            h = make(2, BATCH, SIZE)
            hx = (h, h) if kind == "lstm" else h
            library.manual_seed(5)
            run = getattr(library, kind)
            results.append(
                run(make(STEPS, BATCH, FEATURES), hx, params, False, 2, 0.4, True, False, False)[0]
            )
        np.testing.assert_allclose(results[1].numpy(), results[0].numpy(), 1e-8, 1e-8)


# -- alignments ------------------------------------------------------------------------------------

SPOKEN = {
    "x": floats(7, 3, 5), "_t": np.array([[1, 2, 2, 4], [3, 3, 1, 4], [4, 1, 2, 3]]), "_f": np.array([1, 2, 2, 3, 1, 4]),
    "_s": np.array([7, 5, 7]), "_n": np.array([3, 1, 2]), "_z": np.array([0, 1, 2]),
}  # fmt: skip
ALIGNED = cases(
    "L(x, _t, _s, _n)|L(x, _t, (7, 7, 7), (3, 4, 1), reduction='none')|L(x, _f, _s, _n, reduction='sum')"
    "|L(x, _t, _s, _n, 0, 'none')|L(x, _t, _s, _n * 0 + 4, reduction='none', zero_infinity=True)"
    "|L(x, _t, (7, 4, 1), (3, 4, 3), reduction='none', zero_infinity=True)|L(x[:, 0], _t[0, :3], (7,), (3,))"
    "|L(x[:, 0], _t[0, :3], _s[0], _n[0], reduction='none')|L(x, _t, _s, _n, blank=4, reduction='none')"
    "|L(x, _t, _s, _z, reduction='none')|L(x, _t, _s, _n, reduction='none', zero_infinity=True)"
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("expression", ALIGNED)
def test_losses_of_alignments(expression: str, dtype: str) -> None:
    expression = expression.replace("L(x", "F.ctc_loss(x").replace(
        ", _t", ".log_softmax(-1), _t", 1
    )
    expression = (
        expression if "_t" in expression else expression.replace(", _f", ".log_softmax(-1), _f", 1)
    )
    check(expression, SPOKEN, dtype, nodes="x[" not in expression, loose=20)


@pytest.mark.parametrize("expression", cases(
    "L(x,t([[1]]),t([4]),t([1]))|L(x,t([[1]]),t([3]),t([2]))|L(x,t([[1]]),t([3]),t([1]),blank=5)"
    "|L(x,t([[1,1]]),t([2]),t([2]))|L(x,t([[1,1]]),t([2]),t([2]),zero_infinity=True)"
    "|L(x,t([1,1]),(2,),(2,))|L(x,t([1,1]),(2,1),(2,))|L(x,t([[1]]),t([3]),t([0]))|L(x,t([1,1]),(2,),(1,))"
    "|L(x,t([[1]]),t([3.]),t([1]))|torch.ctc_loss(x,t([[1]]),t([3]),t([1]))|L(x,t([1,1]),(-2,),(1,))"
))  # fmt: skip
def test_refused_arguments_of_alignments(expression: str) -> None:
    given = {
        "x": lambda t: t.arange(12.0).view(3, 1, 4).log_softmax(-1), "t": lambda t: t.tensor,
        "L": lambda t: t.nn.functional.ctc_loss,
    }  # fmt: skip
    difference, expected, found = compare(expression, given)
    assert not difference, (expression, expected, found)
