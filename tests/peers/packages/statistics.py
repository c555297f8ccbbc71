"""Learning, survival, economics and graphs: lifelines, networkx, numpy-financial, pyswarms,
quantecon, scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.peers.packages.rows import Package, Row, imported

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 2))
Y = np.sin(X[:, 0])

TIMES = RNG.weibull(1.5, 40) * 10 + 0.5
EVENTS = (RNG.random(40) < 0.8).astype(int)
COVARIATE = RNG.normal(size=40)
UNIVARIATE: dict[str, tuple[Any, ...]] = {
    "WeibullFitter": (),
    "ExponentialFitter": (),
    "LogNormalFitter": (),
    "LogLogisticFitter": (),
    "SplineFitter": ([2.0, 6.0, 12.0],),
}
REGRESSIONS: dict[str, dict[str, Any]] = {
    "WeibullAFTFitter": {},
    "LogNormalAFTFitter": {},
    "CoxPHFitter": {},
}


def _fitted(lifelines: Any, name: str) -> Any:
    """Parameters and their variances, in one vector."""
    import pandas as pd

    if name in UNIVARIATE:
        fit = getattr(lifelines, name)(*UNIVARIATE[name]).fit(TIMES, EVENTS)
        found = fit._fitted_parameters_
    else:
        table = pd.DataFrame({"T": TIMES, "E": EVENTS, "x": COVARIATE})
        fit = getattr(lifelines, name)(**REGRESSIONS[name]).fit(table, "T", "E")
        found = fit.params_
    return np.concatenate([np.ravel(found), np.ravel(fit.variance_matrix_), [fit.log_likelihood_]])


def _lifelines() -> Sequence[Row]:
    ours, theirs = [
        imported("lifelines", "autograd_gamma", on=on) for on in ("functrace", "autograd")
    ]
    assert ours is not theirs
    fits = [
        Row(
            f"{name}.fit", lambda name=name: _fitted(ours, name),
            expected=lambda name=name: _fitted(theirs, name), rtol=1e-7,
        )
        for name in (*UNIVARIATE, *REGRESSIONS)
    ]  # fmt: skip

    def survival(fitter: Any, x: Any) -> Any:
        return np.sum(fitter._survival_function(x, TIMES[:5]) ** 2)

    return [
        *fits,
        Row(
            "WeibullFitter, survival by parameters",
            lambda x: survival(ours.WeibullFitter(), x),
            [6.0, 1.3],
        ),
        Row(
            "LogNormalFitter, survival by parameters",
            lambda x: survival(ours.LogNormalFitter(), x),
            [1.5, 0.8],
        ),
    ]


def _sklearn() -> Sequence[Row]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as k
    from sklearn.metrics import mean_squared_error, pairwise
    from sklearn.neural_network import MLPRegressor

    process = GaussianProcessRegressor(k.RBF(0.7), optimizer=None, alpha=1e-2).fit(X, Y)
    network = MLPRegressor(hidden_layer_sizes=(3,), max_iter=1, random_state=0).fit(X, Y)

    def by_parameters(x: Any) -> Any:
        return np.sum(np.sin((k.ConstantKernel(x[0]) * k.RBF(x[1]) + k.WhiteKernel(x[1]))(X)))

    return [
        Row("gaussian_process.kernels.RBF", lambda x: np.sum(np.sin(k.RBF(0.7)(x))), X),
        Row("ConstantKernel * RBF + WhiteKernel, by parameters", by_parameters, [0.7, 0.4]),
        Row("kernels.Matern", lambda x: np.sum(np.sin(k.Matern(0.7, nu=1.5)(x, X + 1.0))), X),
        Row(
            "RationalQuadratic + DotProduct",
            lambda x: np.sum(np.sin((k.RationalQuadratic() + k.DotProduct())(x))),
            X,
        ),
        Row(
            "GaussianProcessRegressor.predict",
            lambda x: np.sum(process.predict(x) ** 2),
            X[:2] + 0.1,
        ),
        Row(
            "GaussianProcessRegressor.log_marginal_likelihood",
            process.log_marginal_likelihood,
            [0.1],
        ),
        Row(
            "metrics.pairwise.rbf_kernel",
            lambda x: np.sum(pairwise.rbf_kernel(x, X, gamma=0.5) ** 2),
            X + 0.1,
        ),
        Row("metrics.mean_squared_error", lambda y: mean_squared_error(Y, y), 1.1 * Y + 0.2),
        Row("neural_network.MLPRegressor.predict", lambda x: np.sum(network.predict(x) ** 2), X),
    ]


def _pyswarms() -> Sequence[Row]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "logging.config.dictConfig", lambda config: None
        )  # pyswarms logs for all, into ./report.log
        from pyswarms.backend import operators
        from pyswarms.backend.handlers import VelocityHandler
        from pyswarms.backend.swarms import Swarm
        from pyswarms.utils.functions import single_obj

        handler = VelocityHandler("unmodified")

    def velocity(x: Any) -> Any:
        state = np.random.get_state()  # noqa: NPY002
        np.random.seed(0)  # noqa: NPY002  # pyswarms draws from the global generator
        options = {"c1": 0.5, "c2": 0.3, "w": 0.9}
        swarm = Swarm(
            position=x, velocity=x * 0.1, pbest_pos=x + 1.0, best_pos=x[0], options=options
        )
        found = operators.compute_velocity(swarm, None, handler, None)
        np.random.set_state(state)  # noqa: NPY002
        return np.sum(found**2)

    return [
        *[
            Row(
                f"utils.functions.single_obj.{name}",
                lambda x, f=getattr(single_obj, name): np.sum(f(x)),
                0.5 * X,
            )
            for name in ("ackley", "rastrigin", "rosenbrock", "sphere")
        ],
        Row("backend.operators.compute_velocity", velocity, X),
    ]


A, B = np.array([[0.0, 0.5], [-1.0, -0.25]]), np.array([[0.0], [1.0]])


def _quantecon() -> Sequence[Row]:
    import quantecon as qe

    def regulator(x: Any) -> Any:
        P, F, _ = qe.LQ(np.eye(1) * x[1], np.eye(2) * x[0], A, B, beta=0.95).stationary_values()
        return np.sum(P**2) + np.sum(F)

    def filtered(x: Any) -> Any:
        filter = qe.Kalman(
            qe.LinearStateSpace(np.eye(2) * x[0], np.eye(2) * x[1], np.eye(2), np.eye(2) * 0.3),
            np.zeros(2),
            np.eye(2),
        )
        filter.update(np.ones(2))
        return np.sum(filter.x_hat**2) + np.sum(filter.Sigma)

    def moments(x: Any) -> Any:
        return np.sum(
            qe.LinearStateSpace(
                np.eye(2) * x[0], np.eye(2) * x[1], np.eye(2)
            ).stationary_distributions()[2]
            ** 2
        )

    def chain(x: Any) -> Any:
        return np.sum(
            qe.MarkovChain(np.array([[1 - x[0], x[0]], [x[1], 1 - x[1]]])).stationary_distributions
            ** 2
        )

    def riccati(x: Any) -> Any:
        return np.sum(qe.solve_discrete_riccati(A, B, np.eye(2) * x[0], np.eye(1) * x[1]) ** 2)

    def lyapunov(x: Any) -> Any:
        return np.sum(qe.solve_discrete_lyapunov(A, np.eye(2) * x[0] + x[1]) ** 2)

    return [
        Row("solve_discrete_riccati", riccati, [2.0, 0.5]),
        Row(
            "solve_discrete_lyapunov",
            lambda x: np.sum(qe.solve_discrete_lyapunov(A, np.eye(2) * x[0] + x[1]) ** 2),
            [2.0, 0.5],
        ),
        Row("LQ.stationary_values", regulator, [2.0, 0.5]),
        Row("Kalman.update", filtered, [0.4, 0.5]),
        Row("LinearStateSpace.stationary_distributions", moments, [0.4, 0.5]),
        Row("MarkovChain.stationary_distributions", chain, [0.4, 0.5]),
    ]


def _numpy_financial() -> Sequence[Row]:
    import numpy_financial as m

    loan = [0.05, 10.0, 1000.0]
    return [
        Row("fv", lambda x: m.fv(x[0], x[1], x[2], x[3]), [0.05, 10.0, -100.0, -1000.0]),
        Row("pmt", lambda x: m.pmt(x[0], x[1], x[2]), loan),
        Row("pv", lambda x: m.pv(x[0], x[1], x[2], x[3]), [0.05, 10.0, -100.0, 100.0]),
        Row("nper", lambda x: m.nper(x[0], x[1], x[2]), [0.005, -150.0, 8000.0]),
        Row("ipmt", lambda x: np.sum(m.ipmt(x[0], np.arange(1, 4), x[1], x[2])), loan),
        Row("ppmt", lambda x: np.sum(m.ppmt(x[0], np.arange(1, 4), x[1], x[2])), loan),
        Row("npv", lambda x: m.npv(x[0], x[1:]), [0.05, -100.0, 30.0, 40.0, 60.0]),
        Row("mirr", lambda x: m.mirr(x[2:], x[0], x[1]), [0.05, 0.07, -100.0, 30.0, 40.0, 60.0]),
        Row("rate", lambda x: m.rate(10, x[0], x[1], x[2]), [-150.0, 1000.0, 100.0]),
        Row("irr", m.irr, [-100.0, 39.0, 59.0, 55.0, 20.0]),
    ]


def _networkx() -> Sequence[Row]:
    import networkx as nx

    plain = nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)])

    def weighted(x: Any) -> Any:
        made = nx.DiGraph()
        made.add_weighted_edges_from([(0, 1, x[0]), (1, 2, x[1]), (0, 2, x[2]), (2, 0, x[3])])
        return made

    def ranked(x: Any) -> Any:
        ranks = nx.pagerank(plain)
        return np.sum(np.array([ranks[k] for k in range(4)]) * x**2)

    def ranked_by_weights(x: Any) -> Any:
        ranks = nx.pagerank(weighted(x), tol=1e-12)
        return ranks[0] * 2 + ranks[1] ** 2

    weights = [0.4, 0.5, 1.0, 2.0]
    return [
        Row("pagerank beside a traced value", ranked, weights),
        Row(
            "laplacian_matrix by a traced vector",
            lambda x: x @ (nx.laplacian_matrix(nx.path_graph(4)) @ x) ** 2,
            weights,
        ),
        Row(
            "to_numpy_array of traced weights",
            lambda x: np.sum(nx.to_numpy_array(weighted(x)) ** 2),
            weights,
        ),
        Row(
            "shortest_path_length by weights",
            lambda x: nx.shortest_path_length(weighted(x), 0, 2, weight="weight"),
            weights,
        ),
        Row(
            "maximum_flow_value by weights",
            lambda x: nx.maximum_flow_value(weighted(x), 0, 2, capacity="weight"),
            weights,
        ),
        Row("pagerank by weights", ranked_by_weights, weights),
    ]


LIFELINES = Package("lifelines", "lifelines", _lifelines, on="autograd's names")
NETWORKX = Package("networkx", "networkx", _networkx)
NUMPY_FINANCIAL = Package("numpy-financial", "numpy_financial", _numpy_financial)
PYSWARMS = Package("pyswarms", "pyswarms", _pyswarms)
QUANTECON = Package("quantecon", "quantecon", _quantecon)
SKLEARN = Package("scikit-learn", "sklearn", _sklearn)
