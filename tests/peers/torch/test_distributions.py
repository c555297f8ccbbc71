"""Distributions have PyTorch's samples, densities, moments, gradients, divergences and refusals."""

from __future__ import annotations

import importlib
import itertools
import re
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the distributions are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
pytestmark = pytest.mark.filterwarnings("ignore")

MADE = """
    D.Normal(t([0., 1.]), t([1., 2.])) | D.Normal(0., 1.) | D.Normal(t([.5]), 1.) | D.Bernoulli(t([.2, .7]))
    D.Bernoulli(logits=t([.2, -.7])) | D.Categorical(t([.2, .7, .4])) | D.Uniform(t([0., 1.]), t([1., 3.]))
    D.Categorical(logits=t([[.2, .7, -.4], [0., 1., 2.]])) | D.Exponential(t([.5, 2.]))
    D.Gamma(t([.5, 2.]), t([1., 3.])) | D.Beta(t([.5, 2.]), t([1.5, 3.])) | D.Dirichlet(t([.5, 2., 1.]))
    D.Dirichlet(t([[.5, 2., 1.], [3., 1., 1.]])) | D.MultivariateNormal(t([0., 1.]), t([[2., .5], [.5, 1.]]))
    D.MultivariateNormal(t([0., 1.]), precision_matrix=t([[2., .5], [.5, 1.]])) | D.Poisson(t([.5, 12.]))
    D.MultivariateNormal(t([[0., 1.], [1., 2.]]), scale_tril=t([[2., 0.], [.5, 1.]]))
    D.Independent(D.Normal(t([0., 1.]), t([1., 2.])), 1) | D.Laplace(t([0., 1.]), t([1., 2.]))
    D.LogNormal(t([0., 1.]), t([1., .5])) | D.StudentT(t([3., 5.]), t([0., 1.]), t([1., 2.]))
    D.Binomial(5, t([.2, .7])) | D.Binomial(t([30, 40]), logits=t([.2, .7])) | D.OneHotCategorical(t([.2, .7, .4]))
    D.OneHotCategoricalStraightThrough(t([.2, .7, .4])) | D.RelaxedOneHotCategorical(t(.5), t([.2, .7, .4]))
    D.RelaxedBernoulli(t(.5), t([.2, .7])) | D.Cauchy(t([0., 1.]), t([1., 2.])) | D.Chi2(t([1., 4.]))
    D.TransformedDistribution(D.Normal(t([0., 1.]), t([1., 2.])), [D.AffineTransform(1., 2.), D.SigmoidTransform()])
    D.TransformedDistribution(D.Normal(t([0., 1.]), t([1., 2.])), [D.TanhTransform(cache_size=1)])
    D.TransformedDistribution(D.Normal(t([0., 1.]), t([1., 2.])), D.StickBreakingTransform())
    D.Geometric(t([.2, .7])) | D.Gumbel(t([0., 1.]), t([1., 2.])) | D.HalfNormal(t([1., 2.]))
    D.HalfCauchy(t([1., 2.])) | D.Weibull(t([1., 2.]), t([.5, 2.])) | D.Pareto(t([1., 2.]), t([2.5, 3.]))
    D.LogisticNormal(t([0., 1.]), t([1., .5])) | D.Multinomial(5, t([.2, .7, .4]))
    D.NegativeBinomial(t([3., 5.]), t([.2, .7]))
    D.MixtureSameFamily(D.Categorical(t([.3, .7])), D.Normal(t([0., 3.]), t([1., .5])))
    D.MixtureSameFamily(D.Categorical(t([.3, .7])), D.Independent(D.Normal(t([[0., 3.], [1., 2.]]), t([[1.], [2.]])), 1))
"""
DISTRIBUTIONS = [x.strip() for line in MADE.strip().splitlines() for x in line.split("|")]
IMPLICIT = ("Gamma", "Beta", "Dirichlet", "Chi2", "StudentT")
"""Distributions whose samples have derivatives that PyTorch approximates to a few digits."""


def raw(value: Any) -> Any:
    """Return an array of a result, and its dtype."""
    return np.array(value.detach().tolist(), float), str(value.dtype)


class Run:
    """A distribution of one library: its results by name.

    Args:
        library: PyTorch or the shim.
        expression: a Python expression of ``D`` and ``t``, which makes a parameter.
        dtype: dtype of the parameters.
    """

    def __init__(self, library: ModuleType, expression: str, dtype: str) -> None:
        self.library, self.dtype = library, getattr(library, dtype)
        self.leaves: list[Any] = []
        self.found: dict[str, Any] = {}
        made = eval(expression, {"D": library.distributions, "t": self.parameter})
        self.found["repr"] = repr(made), tuple(made.batch_shape), tuple(made.event_shape)
        self.found["kind"] = repr(made.support), made.has_rsample, made.has_enumerate_support
        library.manual_seed(3)
        self.note("sample", made.sample)
        drawn = self.note("samples", lambda: made.sample((3, 2)))
        self.note("many", lambda: made.sample((40,)))
        moved = self.note("rsample", lambda: made.rsample((4,)))
        self.note("next", lambda: library.rand(2))
        for name in ("mean", "mode", "variance", "stddev"):
            self.note(name, lambda name=name: getattr(made, name))
        for name in ("entropy", "perplexity", "enumerate_support"):
            self.note(name, lambda name=name: getattr(made, name)())
        density = self.note("log_prob", lambda: made.log_prob(drawn))
        self.note("cdf", lambda: made.cdf(drawn))
        self.note("icdf", lambda: made.icdf(library.tensor(0.3, dtype=self.dtype)))
        self.note("invalid", lambda: made.log_prob(drawn * float("nan")))
        self.note("shape", lambda: made.log_prob(library.ones(7, 9, dtype=self.dtype)))
        wide = made.expand((2, *made.batch_shape))
        self.found["wide"] = repr(wide), tuple(wide.batch_shape), tuple(wide.event_shape)
        library.manual_seed(1)
        again = self.note("wide sample", wide.sample)
        self.note("wide log_prob", lambda: wide.log_prob(again))
        self.note("wide mean", lambda: wide.mean)
        for name, value in (("d rsample", moved), ("d log_prob", density)):
            if value is not None and value.requires_grad:
                self.differentiate(name, value)

    def parameter(self, value: Any) -> Any:
        """Return a parameter."""
        made = self.library.tensor(value)
        if made.is_floating_point():
            made = made.to(self.dtype).requires_grad_()
            self.leaves.append(made)
        return made

    def note(self, name: str, attempt: Any) -> Any:
        """Note a result, or the exception."""
        try:
            value = attempt()
        except (NotImplementedError, ValueError, RuntimeError) as error:
            text = re.sub(r"functrace\.|\(Triggered.*", "", str(error))
            self.found[name] = type(error).__name__, text
            return None
        self.found[name] = raw(value)
        return value

    def differentiate(self, name: str, value: Any) -> None:
        """Note the gradient, and the gradient of its sum."""
        options = {"create_graph": True, "allow_unused": True}
        first = self.library.autograd.grad((value * value).sum(), self.leaves, **options)
        self.found[name] = [None if g is None else raw(g) for g in first]
        sums = [g.sum() for g in first if g is not None and g.requires_grad]
        if not sums:
            return
        try:
            second = self.library.autograd.grad(
                sum(sums), self.leaves, allow_unused=True, retain_graph=True
            )
        except (RuntimeError, NotImplementedError):
            return  # PyTorch's gamma numbers have no second derivative
        self.found[f"d {name}"] = [None if g is None else raw(g) for g in second]


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Return True for results that are close."""
    if isinstance(a, (list, tuple)):
        return (
            type(a) is type(b) and len(a) == len(b) and all(map(same, a, b, [tolerance] * len(a)))
        )
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(b, a, tolerance, 10 * tolerance, equal_nan=True)
    if a is None or b is None:  # a gradient that is zero may be left out
        rest = b if a is None else a
        return rest is None or not np.any(rest[0])
    return a == b


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("expression", DISTRIBUTIONS)
def test_a_distribution_is_that_of_pytorch(expression: str, dtype: str) -> None:
    expected, found = (Run(library, expression, dtype).found for library in (torch, SHIM))
    is_implicit = any(name in expression for name in IMPLICIT)
    for key, value in expected.items():
        tolerance = 3e-5 if dtype == "float32" or "t(" not in expression else 1e-8
        if "rsample" in key and is_implicit and key != "rsample":
            tolerance = 2e-3
        assert same(value, found[key], tolerance), (key, value, found[key])


PAIRS = {
    "Bernoulli": "D.Bernoulli(t([{a} * .1, .7]))", "Beta": "D.Beta(t([{a}, 2.]), t([1.5, 3.]))",
    "Binomial": "D.Binomial(5, t([.1 * {a}, .7]))", "Categorical": "D.Categorical(t([{a}, .7, .4]))",
    "Cauchy": "D.Cauchy(t([0., {a}]), t([1., 2.]))", "Dirichlet": "D.Dirichlet(t([{a}, 2., 1.]))",
    "Exponential": "D.Exponential(t([{a}, 2.]))", "Gamma": "D.Gamma(t([{a}, 2.]), t([1., 3.]))",
    "Geometric": "D.Geometric(t([{a} * .1, .7]))", "Gumbel": "D.Gumbel(t([0., {a}]), t([1., 2.]))",
    "HalfNormal": "D.HalfNormal(t([1., {a}]))", "Laplace": "D.Laplace(t([0., {a}]), t([1., 2.]))",
    "Independent": "D.Independent(D.Normal(t([0., {a}]), t([1., 2.])), 1)",
    "LogNormal": "D.LogNormal(t([0., {a}]), t([1., .5]))", "Chi2": "D.Chi2(t([{a}, 3.]))",
    "MultivariateNormal": "D.MultivariateNormal(t([0., {a}]), t([[2., .5], [.5, 1.]]))",
    "Normal": "D.Normal(t([0., {a}]), t([1., 2.]))", "OneHot": "D.OneHotCategorical(t([{a}, .7, .4]))",
    "Pareto": "D.Pareto(t([1., 2.]), t([2.5, {a} + 1]))", "Poisson": "D.Poisson(t([{a}, 12.]))",
    "Uniform": "D.Uniform(t([0.1, .2]), t([{a}, .9]))", "StudentT": "D.StudentT(t([{a}, 3.]))",
}  # fmt: skip


def divergence(library: ModuleType, p: str, q: str) -> Any:
    """Return a divergence and its gradients, or the exception."""
    leaves: list[Any] = []

    def t(value: Any) -> Any:
        leaves.append(library.tensor(value, dtype=library.float64).requires_grad_())
        return leaves[-1]

    scope = {"D": library.distributions, "t": t}
    try:
        found = library.distributions.kl_divergence(
            eval(PAIRS[p].format(a=1.3), scope), eval(PAIRS[q].format(a=1.8), scope)
        )
    except NotImplementedError as error:
        return str(error)
    grads = [None] * len(leaves)
    if found.requires_grad:
        grads = library.autograd.grad(found.sum(), leaves, allow_unused=True)
    return [raw(found), [None if g is None else raw(g) for g in grads]]


@pytest.mark.parametrize("p", PAIRS)
def test_divergences_are_those_of_pytorch(p: str) -> None:
    for q in PAIRS:
        expected, found = divergence(torch, p, q), divergence(SHIM, p, q)
        assert same(expected, found, 1e-7), (p, q, expected, found)


TRANSFORMS = (
    "D.ExpTransform()", "D.SigmoidTransform()", "D.TanhTransform()", "D.SoftplusTransform()", "D.AbsTransform()",
    "D.AffineTransform(1., -2.)", "D.AffineTransform(t(1.), t([2., 3., -1.]), event_dim=1)",
    "D.PowerTransform(t(2.))", "D.SoftmaxTransform()", "D.StickBreakingTransform()", "D.CorrCholeskyTransform()",
    "D.ComposeTransform([D.TanhTransform(), D.AffineTransform(0.5, 2.)])", "D.ExpTransform().inv",
    "D.IndependentTransform(D.ExpTransform(), 1)", "D.ReshapeTransform((3,), (3, 1))", "D.identity_transform",
    "D.CatTransform([D.ExpTransform(), D.TanhTransform()], dim=-1, lengths=[1, 2])",
    "D.StackTransform([D.ExpTransform(), D.identity_transform, D.TanhTransform()], dim=-1)",
    "D.CumulativeDistributionTransform(D.Normal(0., 1.))",
    *(f"D.{f}(D.constraints.{c})" for f in ("biject_to", "transform_to") for c in (
        "real", "positive", "unit_interval", "simplex", "real_vector", "greater_than(1.)", "less_than(2.)",
        "interval(-1., 3.)", "nonnegative", "independent(D.constraints.positive, 1)", "corr_cholesky", "boolean",
        "cat([D.constraints.real, D.constraints.positive], -1, [1, 2])")),
)  # fmt: skip


def transformed(library: ModuleType, expression: str, dtype: str) -> Any:
    """Return everything that a transform computes, or the exception."""

    def t(value: Any) -> Any:
        return library.tensor(value, dtype=getattr(library, dtype))

    try:
        made = eval(expression, {"D": library.distributions, "t": t})
        x = t([[0.3, 1.2, 0.7], [2.0, 0.1, 0.5]]).requires_grad_()
        y = made(x)
        found = [repr(made), raw(y), raw(made.inv(y)), made.bijective]
        found += [repr(made.domain), repr(made.codomain), tuple(made.forward_shape(x.shape))]
        found.append(tuple(made.inverse_shape(y.shape)))
        (grad,) = library.autograd.grad(y.sin().sum(), x)
        found.append(raw(grad))
    except NotImplementedError as error:
        return str(error)
    for name in ("log_abs_det_jacobian", "sign"):
        try:
            given = (x, y) if name != "sign" else ()
            value = getattr(made, name)
            value = value(*given) if given else value
            found.append(raw(value) if hasattr(value, "tolist") else value)
        except NotImplementedError:
            found.append(None)
    return found


@pytest.mark.parametrize("expression", TRANSFORMS)
def test_transforms_are_those_of_pytorch(expression: str) -> None:
    for dtype in ("float32", "float64"):
        expected, found = (transformed(library, expression, dtype) for library in (torch, SHIM))
        assert same(expected, found, {"float32": 2e-5, "float64": 1e-9}[dtype]), (expected, found)


REFUSED = """
    D.Normal(0., -1.) | D.Normal(t([0., 0.]), t([1., 1., 1.])) | D.Normal("a", 1.)
    D.Bernoulli() | D.Bernoulli(probs=t(1.5)) | D.Bernoulli(probs=.5, logits=.5) | D.Bernoulli(.5).log_prob(t(.5))
    D.Categorical(t(1.)) | D.Categorical(t([-1., 2.])) | D.Categorical(t([1., 1.])).log_prob(t(3.)) | D.Uniform(1., 0.)
    D.Uniform(0., 1.).log_prob(t(2.)) | D.MultivariateNormal(t([0., 0.])) | D.MultivariateNormal(t(0.), t([[1.]]))
    D.MultivariateNormal(t([0., 0.]), -t([[1., 0.], [0., 1.]])) | D.Independent(D.Normal(t([0.]), 1.), 2)
    D.Bernoulli(.5).rsample() | D.Poisson(1.).entropy() | D.Poisson(1.).cdf(t(1.)) | D.Distribution().sample()
    D.Distribution(validate_args=False).mode | D.Normal(0., 1.).log_prob(1.0) | D.Normal(t([0., 0.]), 1.).expand((3,))
    D.Distribution.set_default_validate_args(3) | D.Gamma(-1., 1.) | D.Beta(0., 1.) | D.Dirichlet(t(1.))
    D.Binomial(5, t(.5)).log_prob(t(6.)) | D.Binomial(-1, t(.5)) | D.Geometric(0.) | D.Poisson(-1.) | D.StudentT(-1.)
    D.TransformedDistribution(D.Normal(0., 1.), 3) | D.TransformedDistribution(D.Normal(0., 1.), D.StickBreakingTransform())
    D.OneHotCategorical(t([.5, .5])).log_prob(t([.5, .5])) | D.RelaxedOneHotCategorical(t(1.), t([1.])).log_prob(t([2.]))
    D.kl_divergence(D.Normal(0., 1.), D.Bernoulli(.5)) | D.kl_divergence(D.StudentT(1.), D.Normal(0., 1.))
    D.constraints.dependent.check(t(1.)) | D.Uniform(0., 1., validate_args=False).log_prob(t(2.)) | D.ExpTransform(3)
    D.Multinomial(t(3.), t([.5])) | D.MixtureSameFamily(3, D.Normal(0., 1.))
"""


@pytest.mark.parametrize(
    "expression", [x.strip() for x in REFUSED.replace("\n", "|").split("|") if x.strip()]
)
def test_refusals_are_those_of_pytorch(expression: str) -> None:
    results = []
    for library in (torch, SHIM):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(
                    repr(eval(expression, {"D": library.distributions, "t": library.tensor}))
                )
        except Exception as error:
            text = re.sub(r"functrace\.|torch\.tensors\.\w+\.|0x\w+", "", str(error))
            text = re.sub(r"torch\.distributions\.\w+\.", "", text)
            results.append(f"{type(error).__name__}: {text}")
    assert results[1] == results[0]


def test_random_mixtures_of_batches_and_events() -> None:
    rng = np.random.default_rng(0)
    shapes = [(), (2,), (3, 1), (2, 3)]
    for k, (a, b) in enumerate(itertools.product(shapes, shapes)):
        try:
            shape = np.broadcast_shapes(a, b)
        except ValueError:
            continue
        first, second = rng.uniform(0.3, 2.0, a), rng.uniform(0.3, 2.0, b)
        values = rng.uniform(0.1, 0.9, (2, *shape))
        for name in ("Normal", "Laplace", "Gamma", "Beta", "LogNormal", "Weibull", "Gumbel"):
            results = []
            for library in (torch, SHIM):
                library.manual_seed(k)
                kind = getattr(library.distributions, name)
                made = kind(library.tensor(first), library.tensor(second))
                if shape:
                    made = library.distributions.Independent(
                        made, 1 + k % len(shape) if k % 2 else 0
                    )
                log_prob = made.log_prob(library.tensor(values))
                results.append([raw(made.sample((2,))), raw(log_prob), raw(made.mean)])
            assert same(*results, 1e-9), (name, a, b, results)
