"""``torch.distributions``: random numbers, densities, divergences, with gradients.

Samples are PyTorch's after the same seed. The densities are tensor programs, so that they have
derivatives of every order, also by functrace's transforms.

Layer: 9.
"""

from functrace.torch.distributions import constraints, kl, transforms, utils
from functrace.torch.distributions.bernoulli import Bernoulli
from functrace.torch.distributions.beta import Beta
from functrace.torch.distributions.binomial import Binomial
from functrace.torch.distributions.categorical import Categorical
from functrace.torch.distributions.cauchy import Cauchy
from functrace.torch.distributions.chi2 import Chi2
from functrace.torch.distributions.constraint_registry import biject_to, transform_to
from functrace.torch.distributions.dirichlet import Dirichlet
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.exp_family import ExponentialFamily
from functrace.torch.distributions.exponential import Exponential
from functrace.torch.distributions.gamma import Gamma
from functrace.torch.distributions.geometric import Geometric
from functrace.torch.distributions.gumbel import Gumbel
from functrace.torch.distributions.half_cauchy import HalfCauchy
from functrace.torch.distributions.half_normal import HalfNormal
from functrace.torch.distributions.independent import Independent
from functrace.torch.distributions.kl import kl_divergence, register_kl
from functrace.torch.distributions.laplace import Laplace
from functrace.torch.distributions.log_normal import LogNormal
from functrace.torch.distributions.logistic_normal import LogisticNormal
from functrace.torch.distributions.mixture_same_family import MixtureSameFamily
from functrace.torch.distributions.multinomial import Multinomial
from functrace.torch.distributions.multivariate_normal import MultivariateNormal
from functrace.torch.distributions.negative_binomial import NegativeBinomial
from functrace.torch.distributions.normal import Normal
from functrace.torch.distributions.one_hot_categorical import (
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from functrace.torch.distributions.pareto import Pareto
from functrace.torch.distributions.poisson import Poisson
from functrace.torch.distributions.relaxed_bernoulli import RelaxedBernoulli
from functrace.torch.distributions.relaxed_categorical import RelaxedOneHotCategorical
from functrace.torch.distributions.studentT import StudentT
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.transforms import *  # noqa: F403 (the transforms)
from functrace.torch.distributions.uniform import Uniform
from functrace.torch.distributions.weibull import Weibull

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "biject_to",
    "constraints",
    "kl",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    "utils",
]
__all__ += transforms.__all__
