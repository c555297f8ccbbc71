"""Programs for `test_originals`: they run with PyTorch, and with its Python files on
functrace.torch, each in a process of its own.

    python -m tests.peers.torch.loaded pytorch networks results.pickle
    python -m tests.peers.torch.loaded here networks results.pickle

Results are lists of a label and what was computed; tensors become arrays, exceptions their class.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.peers.torch.harness import Log, run, scripts

Results = list[tuple[str, Any]]
SINGLE = "float32: "
"""Start of the labels of results in single precision."""
ROOT = Path(__file__).parents[3]


def plain(value: Any) -> Any:
    """Return a result without tensors of a library."""
    if hasattr(value, "detach"):
        return value.detach().numpy().copy()
    if isinstance(value, (list, tuple)):
        return [plain(x) for x in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return type(value).__name__


def attempt(function: Callable[[], Any]) -> Any:
    """Return what a function returns, or the name of the class of its exception."""
    try:
        return plain(function())
    except Exception as error:
        found = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
        return f"raised {found.__name__}"


# -- networks --------------------------------------------------------------------------------------


def networks(torch: Any) -> Results:
    """Train networks for a few steps, and use them in the ways of scripts."""
    nn, optim = torch.nn, torch.optim
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    results: Results = []

    def train(
        label: str, net: Any, loss: Callable[[], Any], optimizer: Any, steps: int = 4
    ) -> None:
        def closure() -> Any:
            optimizer.zero_grad()
            found = loss()
            found.backward()
            return found

        losses = [optimizer.step(closure) for _ in range(steps)]
        results.append((label, plain([*losses, *net.parameters(), *net.buffers()])))

    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    mlp = nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)
    )
    mse = nn.functional.mse_loss
    train("small network", mlp, lambda: mse(mlp(x), y), optim.Adam(mlp.parameters(), lr=0.01))
    sequences = torch.randn(4, 7, 3)
    lstm = nn.LSTM(3, 5, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
    train(
        "LSTM", lstm, lambda: lstm(sequences)[0].square().mean(),
        optim.SGD(lstm.parameters(), lr=0.1, momentum=0.9),
    )  # fmt: skip
    rnn = nn.utils.rnn
    packed = rnn.pack_padded_sequence(sequences, [7, 2, 5, 3], True, enforce_sorted=False)
    train(
        "LSTM of packed sequences", lstm,
        lambda: rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)[0].square().mean(),
        optim.AdamW(lstm.parameters()),
    )  # fmt: skip
    gru = nn.GRU(3, 5)
    train("GRU", gru, lambda: gru(sequences)[0].square().mean(), optim.RMSprop(gru.parameters()))
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2)
    words = torch.randn(3, 6, 8)
    train(
        "transformer", encoder, lambda: mse(encoder(words), words.flip(1)),
        optim.Adam(encoder.parameters()),
    )  # fmt: skip
    encoder.eval()
    with torch.no_grad():
        results.append(("transformer, evaluated", plain(encoder(words))))
    fit = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    lbfgs = optim.LBFGS(fit.parameters(), max_iter=5, line_search_fn="strong_wolfe")
    train("LBFGS", fit, lambda: mse(fit(x), y), lbfgs, steps=3)
    cnn = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
    )
    images, labels = torch.randn(5, 1, 8, 8), torch.randint(0, 10, (5,))
    entropy = nn.functional.cross_entropy
    train("convolutions", cnn, lambda: entropy(cnn(images), labels), optim.NAdam(cnn.parameters()))
    results.append(("clip_grad_norm_", plain(nn.utils.clip_grad_norm_(cnn.parameters(), 0.1))))
    ways = nn.utils.parametrizations
    ones = torch.ones(2, 3)
    results += [
        (way.__name__, plain(way(nn.Linear(3, 3))(ones)))
        for way in (ways.spectral_norm, ways.weight_norm, ways.orthogonal)
    ]
    func = torch.func
    state = {k: v.detach() for k, v in cnn.named_parameters()}

    def loss_of(given: Any, image: Any, label: Any) -> Any:
        return entropy(func.functional_call(cnn, given, (image[None],)), label[None])

    each = func.vmap(func.grad(loss_of), (None, 0, 0))(state, images, labels)
    results.append(("gradients per sample", plain(each)))
    copied = pickle.loads(pickle.dumps(cnn))
    kinds = isinstance(copied[0].weight, nn.Parameter), type(copied[0].weight).__module__
    results.append(("pickled", plain([copied(images), *kinds])))
    copied.load_state_dict(cnn.float().state_dict())
    results.append(("names and printing", [*cnn.state_dict(), repr(cnn), repr(copied[0].bias)]))
    seen: list[Any] = []
    linear = nn.Linear(4, 2)
    linear.register_full_backward_hook(lambda _m, before, after: seen.append([before, after]))
    linear.register_forward_pre_hook(lambda _m, given: (given[0] * 2,))
    linear(x.clone().requires_grad_()).sum().backward()
    results.append(("hooks", plain(seen)))
    lazy = nn.LazyLinear(3)
    results.append(("lazy", plain([repr(lazy), lazy(x), lazy.weight, repr(lazy)])))
    average = optim.swa_utils.AveragedModel(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    average.update_parameters(average.module)
    optim.swa_utils.update_bn([x], average)
    results.append(("averaged", plain(average.state_dict())))
    return results


# -- optimizers ------------------------------------------------------------------------------------


def optimizers(torch: Any) -> Results:
    """Take five steps with every optimizer in its ways, and with every schedule."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    x, y = torch.randn(16, 4), torch.randn(16, 2)
    kinds = {
        name: kind
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
    }
    del kinds["Optimizer"]

    def network() -> Any:
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))

    def steps(name: str, options: dict[str, Any]) -> Any:
        net = network()
        kind, parameters = kinds[name], list(net.parameters())
        if name == "Muon":
            parameters = [p for p in parameters if p.ndim == 2]
        optimizer = kind(parameters, **options)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            return loss

        losses = [optimizer.step(closure) for _ in range(5)]
        state = optimizer.state_dict()
        again = kind(parameters, **options)
        again.load_state_dict(state)
        again.step(closure)
        return [losses, parameters, sorted(state["state"].get(0, {})), state["param_groups"]]

    ways: list[dict[str, Any]] = [
        {}, {"foreach": True}, {"maximize": True}, {"differentiable": True}, {"weight_decay": 0.1},
        {"amsgrad": True}, {"nesterov": True, "momentum": 0.5}, {"centered": True}, {"max_iter": 3},
        {"lr": -1.0},
    ]  # fmt: skip
    results: Results = []
    for name, options in itertools.product(sorted(kinds), ways):
        accepted = inspect.signature(kinds[name]).parameters
        if all(option in accepted for option in options) and not (name == "LBFGS" and not options):
            label = f"{name} {options}"
            results.append((label, attempt(lambda n=name, o=options: steps(n, o))))  # type: ignore[misc]
    return results + schedules(torch, network)


def schedules(torch: Any, network: Callable[[], Any]) -> Results:
    """Return the learning rates of every schedule over eight steps."""
    s, swa = torch.optim.lr_scheduler, torch.optim.swa_utils
    made: dict[str, Callable[[Any], Any]] = {
        "StepLR": lambda o: s.StepLR(o, 2),
        "MultiStepLR": lambda o: s.MultiStepLR(o, [2, 4]),
        "ConstantLR": s.ConstantLR,
        "LinearLR": s.LinearLR,
        "ExponentialLR": lambda o: s.ExponentialLR(o, 0.9),
        "PolynomialLR": lambda o: s.PolynomialLR(o, 5),
        "CosineAnnealingLR": lambda o: s.CosineAnnealingLR(o, 5),
        "CosineAnnealingWarmRestarts": lambda o: s.CosineAnnealingWarmRestarts(o, 3),
        "CyclicLR": lambda o: s.CyclicLR(o, 0.01, 0.1, 2),
        "OneCycleLR": lambda o: s.OneCycleLR(o, 0.1, total_steps=10),
        "LambdaLR": lambda o: s.LambdaLR(o, lambda k: 0.9**k),
        "MultiplicativeLR": lambda o: s.MultiplicativeLR(o, lambda k: 0.9),
        "SequentialLR": lambda o: s.SequentialLR(
            o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9)], [3]
        ),
        "ChainedScheduler": lambda o: s.ChainedScheduler(
            [s.ConstantLR(o), s.ExponentialLR(o, 0.9)]
        ),
        "ReduceLROnPlateau": lambda o: s.ReduceLROnPlateau(o, patience=1),
        "SWALR": lambda o: swa.SWALR(o, 0.01),
    }
    public = {
        name
        for name, kind in vars(s).items()
        if isinstance(kind, type) and issubclass(kind, s.LRScheduler) and name[0] != "_"
    } - {"LRScheduler"}
    results: Results = [("schedules without a program", sorted(public - set(made)))]
    for name, make in made.items():
        optimizer = torch.optim.SGD(network().parameters(), lr=0.5, momentum=0.5)
        schedule = make(optimizer)
        rates = []
        for _ in range(8):
            optimizer.step()
            schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            rates.append(optimizer.param_groups[0]["lr"])
        results.append((name, plain([rates, sorted(schedule.state_dict())])))
    return results


# -- distributions ---------------------------------------------------------------------------------


def made_distributions(torch: Any) -> dict[str, Callable[[], Any]]:
    """Return functions that make the distributions of a library, each with leaves of its own."""
    d = torch.distributions

    def t(*values: float) -> Any:
        return torch.tensor(values, requires_grad=True)

    scale, half = torch.tensor([[1.0, 0.2], [0.2, 2.0]]), torch.tensor(0.5)
    return {
        "Bernoulli": lambda: d.Bernoulli(t(0.2, 0.7)),
        "Bernoulli of logits": lambda: d.Bernoulli(logits=t(0.2, -0.7)),
        "Beta": lambda: d.Beta(t(0.5, 2.0), t(1.5, 3.0)),
        "Binomial": lambda: d.Binomial(10, t(0.2, 0.7)),
        "Categorical": lambda: d.Categorical(t(0.2, 0.3, 0.5)),
        "Cauchy": lambda: d.Cauchy(t(0.0, 1.0), t(1.0, 2.0)),
        "Chi2": lambda: d.Chi2(t(1.0, 4.0)),
        "ContinuousBernoulli": lambda: d.ContinuousBernoulli(t(0.2, 0.6)),
        "Dirichlet": lambda: d.Dirichlet(t(0.5, 1.0, 2.0)),
        "Exponential": lambda: d.Exponential(t(0.5, 2.0)),
        "FisherSnedecor": lambda: d.FisherSnedecor(t(3.0, 5.0), t(6.0, 7.0)),
        "Gamma": lambda: d.Gamma(t(0.5, 2.0), t(1.0, 3.0)),
        "GeneralizedPareto": lambda: d.GeneralizedPareto(t(0.0, 0.0), t(1.0, 2.0), t(0.1, 0.2)),
        "Geometric": lambda: d.Geometric(t(0.2, 0.6)),
        "Gumbel": lambda: d.Gumbel(t(0.0, 1.0), t(1.0, 2.0)),
        "HalfCauchy": lambda: d.HalfCauchy(t(1.0, 2.0)),
        "HalfNormal": lambda: d.HalfNormal(t(1.0, 2.0)),
        "Independent": lambda: d.Independent(d.Normal(t(0.0, 1.0), t(1.0, 2.0)), 1),
        "InverseGamma": lambda: d.InverseGamma(t(2.5, 3.0), t(1.0, 2.0)),
        "Kumaraswamy": lambda: d.Kumaraswamy(t(1.0, 2.0), t(2.0, 3.0)),
        "LKJCholesky": lambda: d.LKJCholesky(3, torch.tensor(1.5)),
        "Laplace": lambda: d.Laplace(t(0.0, 1.0), t(1.0, 2.0)),
        "LogNormal": lambda: d.LogNormal(t(0.0, 1.0), t(0.5, 0.2)),
        "LogisticNormal": lambda: d.LogisticNormal(t(0.0, 1.0), t(0.5, 0.2)),
        "LowRankMultivariateNormal": lambda: d.LowRankMultivariateNormal(
            t(0.0, 1.0), torch.tensor([[1.0], [0.5]]), t(0.5, 0.6)
        ),
        "MixtureSameFamily": lambda: d.MixtureSameFamily(
            d.Categorical(t(0.3, 0.7)), d.Normal(t(0.0, 1.0), t(1.0, 2.0))
        ),
        "Multinomial": lambda: d.Multinomial(5, t(0.2, 0.3, 0.5)),
        "MultivariateNormal": lambda: d.MultivariateNormal(t(0.0, 1.0), scale),
        "MultivariateNormal of precision": lambda: d.MultivariateNormal(
            t(0.0, 1.0), precision_matrix=scale
        ),
        "NegativeBinomial": lambda: d.NegativeBinomial(t(3.0, 5.0), t(0.2, 0.6)),
        "Normal": lambda: d.Normal(t(0.0, 1.0), t(1.0, 2.0)),
        "OneHotCategorical": lambda: d.OneHotCategorical(t(0.2, 0.3, 0.5)),
        "OneHotCategoricalStraightThrough": lambda: d.OneHotCategoricalStraightThrough(
            t(0.2, 0.3, 0.5)
        ),
        "Pareto": lambda: d.Pareto(t(1.0, 2.0), t(3.0, 4.0)),
        "Poisson": lambda: d.Poisson(t(1.0, 20.0)),
        "RelaxedBernoulli": lambda: d.RelaxedBernoulli(half, t(0.2, 0.6)),
        "RelaxedOneHotCategorical": lambda: d.RelaxedOneHotCategorical(half, t(0.2, 0.3, 0.5)),
        "StudentT": lambda: d.StudentT(t(3.0, 5.0)),
        "TransformedDistribution": lambda: d.TransformedDistribution(
            d.Normal(t(0.0, 1.0), t(1.0, 2.0)), [d.SigmoidTransform(), d.AffineTransform(1.0, 2.0)]
        ),
        "Uniform": lambda: d.Uniform(t(0.0, 1.0), t(2.0, 3.0)),
        "VonMises": lambda: d.VonMises(t(0.0, 1.0), t(1.0, 2.0)),
        "Weibull": lambda: d.Weibull(t(1.0, 2.0), t(2.0, 3.0)),
        "Wishart": lambda: d.Wishart(torch.tensor(4.0), scale),
    }


def distributions(torch: Any) -> Results:
    """Return samples, densities, gradients, moments and divergences of all distributions."""
    torch.set_default_dtype(torch.float32)
    made = made_distributions(torch)

    def leaves(distribution: Any) -> list[Any]:
        values = [getattr(distribution, name) for name in distribution.arg_constraints]
        return [v for v in values if getattr(v, "is_leaf", False) and v.requires_grad]

    def gradients(distribution: Any, value: Any) -> list[Any]:
        weights = torch.arange(1.0, 1 + value.numel()).reshape(value.shape)
        (value * weights).sum().backward()
        return [leaf.grad for leaf in leaves(distribution)]

    uses: dict[str, Callable[[Any], Any]] = {
        "sample": lambda d: d.sample((3,)),
        "rsample": lambda d: d.rsample((3,)),
        "log_prob": lambda d: d.log_prob(d.sample((2,))),
        "gradients of log_prob": lambda d: gradients(d, d.log_prob(d.sample((2,)))),
        "gradients of rsample": lambda d: gradients(d, d.rsample()),
        "cdf": lambda d: d.cdf(d.sample()),
        "icdf": lambda d: d.icdf(torch.tensor([0.2, 0.6])),
        "entropy": lambda d: d.entropy(),
        "enumerate_support": lambda d: d.enumerate_support(),
        "expand": lambda d: d.expand((2, *d.batch_shape)).sample(),
        "support": lambda d: str(d.support),
        "repr": repr,
        **{
            name: lambda d, name=name: getattr(d, name)
            for name in ("mean", "variance", "mode", "stddev")
        },
    }
    public = {
        name
        for name, kind in vars(torch.distributions).items()
        if isinstance(kind, type) and issubclass(kind, torch.distributions.Distribution)
    } - {"Distribution", "ExponentialFamily"}
    results: Results = [("distributions without a program", sorted(public - set(made)))]
    for (name, make), (use, function) in itertools.product(made.items(), uses.items()):
        torch.manual_seed(3)
        results.append((f"{SINGLE}{use} of {name}", attempt(lambda m=make, f=function: f(m()))))  # type: ignore[misc]
    ready = {name: make() for name, make in made.items()}
    for (p, first), (q, other) in itertools.product(ready.items(), repeat=2):
        torch.manual_seed(1)
        found = attempt(lambda p=first, q=other: torch.distributions.kl_divergence(p, q))  # type: ignore[misc]
        if not (isinstance(found, str) and found == "raised NotImplementedError"):
            results.append((f"{SINGLE}divergence of {p} from {q}", found))
    return results


# -- data ------------------------------------------------------------------------------------------


class Failing:
    """A data set with an item that cannot be loaded."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, k: int) -> float:
        if k == 2:
            raise KeyError("item 2")
        return float(k)


def data(torch: Any) -> Results:
    """Load batches in all ways, in this process and in others."""
    u = torch.utils.data
    torch.manual_seed(0)
    items = u.TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))
    options: list[dict[str, Any]] = [
        {"batch_size": 3},
        {"batch_size": 3, "shuffle": True},
        {"batch_size": 4, "drop_last": True, "shuffle": True},
        {"batch_size": None},
        {"batch_size": 2, "shuffle": True, "generator": torch.Generator().manual_seed(3)},
        {"sampler": u.WeightedRandomSampler(torch.ones(10), 6)},
        {"batch_sampler": u.BatchSampler(u.RandomSampler(items), 4, False)},
        {"batch_size": 2, "sampler": u.SubsetRandomSampler([1, 5, 7])},
        {"batch_size": 3, "num_workers": 2},
        {"batch_size": 3, "num_workers": 2, "shuffle": True, "persistent_workers": True},
    ]
    results: Results = []
    for given in options:
        loader = u.DataLoader(items, **given)
        label = ", ".join(f"{k}={v}" for k, v in given.items() if isinstance(v, int)) or str(
            [*given]
        )
        results += [(f"epoch {k}: {label}", plain(list(loader))) for k in range(2)]
    split = [part.indices for part in u.random_split(items, [0.7, 0.3])]
    results.append(("random_split", split))
    results.append(("failing", attempt(lambda: list(u.DataLoader(Failing(), num_workers=1)))))
    mappings = [{"a": k, "b": torch.full((2,), float(k)), "c": "word"} for k in range(2)]
    results.append(("default_collate", plain(u.default_collate(mappings))))
    arrays = [np.arange(3.0), np.ones(3)]
    results.append(("arrays", plain(list(u.DataLoader(arrays, batch_size=2)))))
    sampler = u.DistributedSampler(items, num_replicas=2, rank=1, seed=3)
    results.append(("DistributedSampler", list(sampler)))
    pipe = u.datapipes.iter.IterableWrapper(range(10)).map(lambda x: x * 2).batch(3)
    results.append(("pipes", plain([list(batch) for batch in pipe])))
    return results


# -- PyTorch's table of modules --------------------------------------------------------------------


def packed(value: Any) -> Any:
    """Return an argument of a module as something that needs no PyTorch.

    Raises:
        TypeError: for other kinds of objects.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return "tensor", value.detach().numpy().copy(), value.requires_grad
    if isinstance(value, (torch.dtype, torch.device)):
        return type(value).__name__, str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value).__name__, [packed(x) for x in value]
    if isinstance(value, dict):
        return "dict", {k: packed(x) for k, x in value.items()}
    if callable(value) and getattr(torch, getattr(value, "__name__", ""), None) is value:
        return "function", value.__name__
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return "value", value
    raise TypeError(f"{type(value)} cannot be passed to another process")


def unpacked(torch: Any, given: tuple[Any, ...]) -> Any:
    """Return an argument as an object of a library."""
    kind, value = given[:2]
    if kind == "tensor":
        return torch.from_numpy(value.copy()).requires_grad_(given[2])
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](unpacked(torch, x) for x in value)
    if kind == "dict":
        return {k: unpacked(torch, x) for k, x in value.items()}
    if kind in ("dtype", "function"):
        return getattr(torch, value)
    return torch.device(value) if kind == "device" else value


def samples(interval: int) -> Iterator[tuple[str, Any]]:
    """Yield the inputs of PyTorch's table of modules: a label, the class, the mode, the arguments.

    Samples with arguments of other kinds are left out.

    Args:
        interval: each module's first sample is taken, and then one in so many.
    """
    sys.modules.setdefault("expecttest", ModuleType("expecttest")).__dict__.setdefault(
        "TestCase", object
    )
    import torch
    from torch.testing._internal.common_modules import module_db

    torch.manual_seed(0)
    for info in module_db:
        for training in (True, False):
            inputs = info.module_inputs_func(info, "cpu", torch.float64, True, training)
            for k, given in enumerate(inputs):
                if k % interval:
                    continue
                made, called = given.constructor_input, given.forward_input
                try:
                    arguments = [
                        packed(x) for x in (made.args, made.kwargs, called.args, called.kwargs)
                    ]
                except TypeError:
                    continue
                place = f"{info.module_cls.__module__}.{info.module_cls.__qualname__}"
                yield f"{info.name} {k} {'train' if training else 'eval'}", (
                    place, training, arguments,
                )  # fmt: skip


def modules(torch: Any, given: Iterable[tuple[str, Any]]) -> Results:
    """Return outputs and gradients of modules for samples."""
    return [(label, attempt(lambda s=sample: _module(torch, *s))) for label, sample in given]  # type: ignore[misc]


def _tensors(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [t for x in value for t in _tensors(torch, x)] if isinstance(value, (list, tuple)) else []
    )


def _module(torch: Any, place: str, training: bool, arguments: list[Any]) -> Any:
    args, kwargs, called, options = [unpacked(torch, x) for x in arguments]
    torch.manual_seed(5)
    module = getattr(sys.modules[place.rpartition(".")[0]], place.rpartition(".")[2])(
        *args, **kwargs
    )
    module.to(torch.float64).train(training)
    result = module(*called, **options)
    results = _tensors(torch, result)
    inputs = [t for t in _tensors(torch, [called, options]) if t.requires_grad]
    leaves = [*inputs, *(p for p in module.parameters() if p.requires_grad)]
    wanting = [t for t in results if t.requires_grad and t.is_floating_point()]
    gradients: Any = []
    if wanting and leaves:
        loss = sum(
            (t * torch.linspace(0.5, 1.5, t.numel()).reshape(t.shape)).sum() for t in wanting
        )
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [results, list(gradients), list(module.buffers()), sorted(module.state_dict())]


# -- parity scripts ---------------------------------------------------------------------------------


class _Named(ModuleType):
    """functrace.torch under the name ``torch``, by which scripts import submodules."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("functrace.torch"), name)


def logs(_torch: Any) -> Results:
    """Return what the parity scripts of ``torch.nn`` log."""
    found: Results = []
    torch = _Named("torch")
    for script in scripts():
        if script.stem.startswith("nn_"):
            log = Log(torch)
            try:
                run(script, torch, log)
            except Exception as error:
                log(f"stopped: {type(error).__name__}: {error}")
            found.append((script.stem, log.lines))
    return found


# -- processes -------------------------------------------------------------------------------------

JOBS: dict[str, tuple[str, ...]] = {
    "optimizers": ("torch.optim",),
    "modules": ("torch.nn",),
    "logs": ("torch.nn",),
    "everything": ("torch.nn", "torch.optim", "torch.distributions", "torch.utils.data"),
}
"""Programs, and the packages that come from PyTorch's files for them."""


def everything(torch: Any) -> Results:
    """Run all programs in one process."""
    return [*data(torch), *distributions(torch), *networks(torch), *optimizers(torch)]


def results(side: str, job: str, given: Any = None) -> Results:
    """Return the results of a program, run in a process of its own.

    Args:
        side: ``"pytorch"``, or ``"here"`` for PyTorch's files on functrace.torch.
        job: one of `JOBS`, or ``"samples"``.
        given: what the program needs.
    """
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "results.pickle"
        place.write_bytes(pickle.dumps(given))
        command = [sys.executable, "-m", "tests.peers.torch.loaded", side, job, str(place)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert not done.returncode, done.stderr[-4000:]
        return pickle.loads(place.read_bytes())


def _leave_out_compiler(torch: Any) -> None:
    """Replace the functions of the compiler that are called without it: its import takes long."""
    compiler: Any = ModuleType("torch._dynamo")
    compiler.graph_break = lambda: None
    compiler.disable = lambda function, *_unused, **_options: function
    compiler.compiled_autograd = SimpleNamespace(_disable=nullcontext)
    sys.modules["torch._dynamo"] = torch._dynamo = compiler


def main(side: str, job: str, file: str) -> None:
    """Run one program, and write its results to a file."""
    warnings.simplefilter("ignore")
    place = Path(file)
    given: Any = pickle.loads(place.read_bytes()) if place.exists() else None
    torch: Any
    if job == "samples":
        place.write_bytes(pickle.dumps(list(samples(given))))
        return
    if side == "here":
        from functrace.torch import originals

        torch = originals.use(*JOBS[job]).__enter__()
        for package in JOBS[job]:
            assert "site-packages" in str(sys.modules[package].__file__), package
    else:
        import torch
        import torch.utils.data

        torch.set_num_threads(1)
        _leave_out_compiler(torch)
    function = globals()[job]
    place.write_bytes(
        pickle.dumps(function(torch, given) if given is not None else function(torch))
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
