"""`torch.distributions` without PyTorch: densities integrate to 1, gradients are differences, seeded
samples are those recorded from PyTorch 2.13.0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch import distributions as D


def close(a: Any, b: Any, tolerance: float = 1e-6) -> None:
    """Check that two results are close."""
    np.testing.assert_allclose(np.array(a.tolist()), np.array(b), tolerance, tolerance)


def double(*values: float) -> torch.Tensor:
    """Return a tensor in double precision."""
    return torch.tensor(values, dtype=torch.float64)


CONTINUOUS = {
    "normal": (lambda: D.Normal(double(0.5), double(2.0)), -30.0, 30.0),
    "laplace": (lambda: D.Laplace(double(0.5), double(2.0)), -80.0, 80.0),
    "student": (lambda: D.StudentT(double(5.0), double(0.5)), -400.0, 400.0),
    "uniform": (lambda: D.Uniform(double(0.5), double(2.0)), 0.5, 2.0 - 1e-12),
    "exponential": (lambda: D.Exponential(double(1.5)), 1e-9, 40.0),
    "gamma": (lambda: D.Gamma(double(2.5), double(1.5)), 1e-9, 60.0),
    "beta": (lambda: D.Beta(double(2.5), double(1.5)), 1e-9, 1 - 1e-9),
    "gumbel": (lambda: D.Gumbel(double(0.5), double(1.5)), -20.0, 60.0),
    "log normal": (lambda: D.LogNormal(double(0.2), double(0.5)), 1e-9, 60.0),
    "weibull": (lambda: D.Weibull(double(1.5), double(2.5)), 1e-9, 20.0),
    "half normal": (lambda: D.HalfNormal(double(1.5)), 0.0, 30.0),
    "chi2": (lambda: D.Chi2(double(4.0)), 1e-9, 100.0),
    "mixture": (
        lambda: D.MixtureSameFamily(
            D.Categorical(double(1.0, 3.0)), D.Normal(double(0.0, 3.0), double(1.0, 0.5))
        ),
        -20.0,
        20.0,
    ),
    "squashed": (
        lambda: D.TransformedDistribution(
            D.Normal(double(0.2), double(0.7)), [D.TanhTransform(), D.AffineTransform(1.0, 2.0)]
        ),
        -1 + 1e-7,
        3 - 1e-7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_have_the_moments(name: str) -> None:
    make, low, high = CONTINUOUS[name]
    made = make()
    nodes, weights = np.polynomial.legendre.leggauss(60)
    ends = np.linspace(low, high, 400)
    x = ((ends[1:] - ends[:-1])[:, None] / 2 * nodes + (ends[1:] + ends[:-1])[:, None] / 2).ravel()
    w = ((ends[1:] - ends[:-1])[:, None] / 2 * weights).ravel()
    at = torch.tensor(x) if not made.batch_shape else torch.tensor(x)[:, None]
    log_density = np.array(made.log_prob(at).tolist()).ravel()
    density = np.exp(log_density)
    assert abs(np.sum(w * density) - 1) < 2e-4
    try:
        mean, variance = made.mean, made.variance
    except NotImplementedError:
        return
    assert abs(np.sum(w * density * x) - mean.item()) < 2e-3
    assert abs(np.sum(w * density * (x - mean.item()) ** 2) - variance.item()) < 3e-2
    try:
        entropy = made.entropy()
    except NotImplementedError:
        return
    terms = np.where(density > 0, density * log_density, 0)
    assert abs(-np.nansum(w * terms) - entropy.item()) < 2e-3


def test_probabilities_sum_to_one() -> None:
    for made in (
        D.Bernoulli(double(0.3)), D.Binomial(7, double(0.3)), D.Categorical(double(1.0, 2.0, 3.0)),
        D.OneHotCategorical(double(1.0, 2.0, 3.0)),
    ):  # fmt: skip
        assert abs(made.log_prob(made.enumerate_support()).exp().sum().item() - 1) < 1e-12
    counts = torch.arange(60.0, dtype=torch.float64)[:, None]
    for made in (
        D.Poisson(double(4.0)),
        D.Geometric(double(0.4)),
        D.NegativeBinomial(double(3.0), double(0.4)),
    ):
        probabilities = made.log_prob(counts).exp()
        assert abs(probabilities.sum().item() - 1) < 1e-9
        assert abs((probabilities * counts).sum().item() - made.mean.item()) < 1e-7
    made = D.Multinomial(2, double(1.0, 3.0))
    points = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    close(made.log_prob(points).exp(), [1 / 16, 6 / 16, 9 / 16])


def test_seeded_samples_are_those_of_pytorch() -> None:
    torch.manual_seed(0)
    close(D.Normal(0.0, 1.0).sample((2,)), [1.5409960746765137, -0.293428897857666])
    torch.manual_seed(0)
    assert (
        D.Categorical(torch.tensor([1.0, 2.0, 3.0])).sample((6,)).tolist()
        == RECORDED["categorical"]
    )
    torch.manual_seed(0)
    close(D.Gamma(torch.tensor([0.5, 2.0]), 1.0).sample(), RECORDED["gamma"])
    torch.manual_seed(0)
    close(D.Dirichlet(torch.tensor([0.5, 2.0, 1.0])).sample(), RECORDED["dirichlet"])
    torch.manual_seed(0)
    close(
        D.RelaxedOneHotCategorical(torch.tensor(0.5), torch.ones(3)).rsample(), RECORDED["relaxed"]
    )
    torch.manual_seed(0)
    close(D.Laplace(0.0, 1.0).sample((3,)), RECORDED["laplace"], 1e-5)


RECORDED: dict[str, Any] = {
    "categorical": [2, 2, 1, 2, 2, 2],
    "gamma": [0.0007893581641837955, 0.6315405964851379],
    "dirichlet": [0.0005486574955284595, 0.43896353244781494, 0.5604878067970276],
    "relaxed": [0.1227807104587555, 0.8669693470001221, 0.010249939747154713],
    "laplace": [-0.007514926604926586, 0.7688271999359131, -1.7318599224090576],
}


def test_samples_have_gradients() -> None:
    loc, scale = double(0.3).requires_grad_(), double(1.7).requires_grad_()
    for kind in (D.Normal, D.Laplace, D.Gumbel, D.LogNormal, D.Cauchy):

        def moved(a: Any, b: Any, kind: Any = kind) -> Any:
            torch.manual_seed(4)
            return kind(a, b).rsample((3,))

        assert torch.autograd.gradcheck(moved, (loc, scale))
    shape = double(1.3, 0.4).requires_grad_()
    total = torch.zeros(2, dtype=torch.float64)
    for _ in range(400):
        (grad,) = torch.autograd.grad(D.Gamma(shape, 2.0).rsample().sum(), shape)
        total += grad
    close(total / 400, [0.5, 0.5], 0.15)  # the mean is shape / rate
    concentration = double(1.0, 2.0, 3.0).requires_grad_()
    point = D.Dirichlet(concentration).rsample()
    (grad,) = torch.autograd.grad(point[0], concentration)
    assert grad[0] > 0 > grad[1]


def test_densities_are_programs_of_transforms() -> None:
    x = np.array([0.3, 0.9])

    def log_prob(loc: Any) -> Any:
        return D.Normal(loc, 2.0).log_prob(torch.tensor(x)).sum()

    found = torch.func.grad(log_prob)(torch.tensor(0.5, dtype=torch.float64))
    close(found, np.sum((x - 0.5) / 4))
    second = torch.func.hessian(log_prob)(torch.tensor(0.5, dtype=torch.float64))
    close(second, -0.5)


def test_divergences_are_means_over_samples() -> None:
    torch.manual_seed(0)
    for p, q in (
        (D.Normal(0.0, 1.0), D.Normal(1.0, 2.0)), (D.Gamma(2.0, 1.0), D.Gamma(3.0, 2.0)),
        (D.Beta(2.0, 3.0), D.Beta(1.5, 1.5)), (D.Laplace(0.0, 1.0), D.Normal(0.5, 2.0)),
        (D.Poisson(3.0), D.Poisson(4.0)), (D.Bernoulli(0.3), D.Bernoulli(0.6)),
        (D.MultivariateNormal(torch.zeros(2), torch.eye(2)),
         D.MultivariateNormal(torch.ones(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]]))),
        (D.Dirichlet(torch.tensor([1.0, 2.0])), D.Dirichlet(torch.tensor([2.0, 2.0]))),
    ):  # fmt: skip
        x = p.sample((2000,))
        differences = p.log_prob(x) - q.log_prob(x)
        error = 5 * differences.std().item() / math.sqrt(2000)
        assert abs(differences.mean().item() - D.kl_divergence(p, q).item()) < error + 1e-3
    assert D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)).item() == math.inf


def test_transforms_invert_and_have_jacobians() -> None:
    x = torch.tensor([0.3, -1.2, 0.7], dtype=torch.float64)
    for made in (
        D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform(), D.SoftplusTransform(),
        D.AffineTransform(1.0, -2.0), D.ComposeTransform([D.TanhTransform(), D.ExpTransform()]),
    ):  # fmt: skip
        y = made(x)
        close(made.inv(y), x.tolist(), 1e-9)
        jacobian = torch.autograd.functional.jacobian(made, x).diagonal()
        close(made.log_abs_det_jacobian(x, y), jacobian.abs().log().tolist(), 1e-9)
    made = D.StickBreakingTransform()
    y = made(x)
    assert abs(y.sum().item() - 1) < 1e-12
    close(made.inv(y), x.tolist(), 1e-9)
    jacobian = torch.autograd.functional.jacobian(made, x)[:3]
    close(made.log_abs_det_jacobian(x, y), jacobian.det().abs().log().item(), 1e-9)
    torch.manual_seed(0)
    lower = D.transform_to(D.constraints.lower_cholesky)(torch.randn(3, 3))
    assert D.constraints.lower_cholesky.check(lower)
    correlation = D.transform_to(D.constraints.corr_cholesky)(torch.randn(3))
    assert D.constraints.corr_cholesky.check(correlation)


def test_parameters_and_values_are_checked() -> None:
    with pytest.raises(ValueError, match=r"parameter scale .* GreaterThan\(lower_bound=0.0\)"):
        D.Normal(0.0, -1.0)
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    with pytest.raises(ValueError, match="within the support"):
        D.Exponential(1.0).log_prob(torch.tensor(-1.0))
    with pytest.raises(ValueError, match="not broadcastable"):
        D.Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3))
    with pytest.raises(NotImplementedError):
        D.Bernoulli(0.5).rsample()

    class Own(D.Normal):
        def __init__(self, loc: Any) -> None:
            super().__init__(loc, 1.0)

    with pytest.raises(NotImplementedError, match=r"must also define a custom \.expand"):
        Own(torch.zeros(1)).expand((3, 1))
    with pytest.raises(NotImplementedError, match="KL"):
        D.kl_divergence(D.StudentT(1.0), D.Normal(0.0, 1.0))
