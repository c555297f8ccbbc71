"""Packages that import PyTorch print the same on functrace.torch, under `stand_in`.

Each script runs in two processes, by `functrace.torch.check_script`; a package that is not
installed is skipped. The extra `shelf` brings all of them; install the pinned PyTorch first, as
`.ci/run` does.
"""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import pytest

from functrace.torch.comparing import check_script
from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the numbers are those of torch {VERSION}", allow_module_level=True)

START = "import torch, torch.nn as nn, torch.nn.functional as F\ntorch.manual_seed(0)\n"

SCRIPTS = {
    "einops": """
        from einops import rearrange, reduce, repeat, einsum, pack, unpack
        from einops.layers.torch import Rearrange, Reduce, EinMix
        x = torch.randn(2, 4, 6, 3, requires_grad=True)
        print(rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=3).shape)
        print(reduce(x, "b h w c -> b c", "mean"), reduce(x, "b h w c -> c", "max"))
        print(repeat(x[0, 0, 0], "c -> c k", k=2), einsum(x, x, "b h w c, b h w d -> c d").detach())
        packed, shapes = pack([x[..., 0], x[..., :1, 0]], "b h *")
        print(packed.shape, shapes, [y.shape for y in unpack(packed, shapes, "b h *")])
        net = nn.Sequential(
            Rearrange("b h w c -> b c h w"), nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(),
            Reduce("b c (h 2) (w 2) -> b c h w", "max"), Rearrange("b c h w -> b (c h w)"),
            nn.Linear(24, 2),
        )
        print(net)
        loss = net(x).square().sum() + reduce(x.sin(), "b h w c -> ", "sum")
        loss.backward()
        print(loss, x.grad[0, 0], net[1].weight.grad[0])
        mix = EinMix("b h w c -> b h w d", weight_shape="c d", bias_shape="d", c=3, d=5)
        print(mix, mix(x).shape)
    """,
    "torchdiffeq": """
        from torchdiffeq import odeint, odeint_adjoint, odeint_event
        class Field(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
            def forward(self, t, y):
                return self.net(y**3)
        field, y0, t = Field(), torch.tensor([[2.0, 0.0]]), torch.linspace(0, 1, 5)
        for solve in (odeint, odeint_adjoint):
            for method in ("dopri5", "rk4", "euler", "midpoint", "adaptive_heun", "bosh3", "explicit_adams"):
                field.zero_grad()
                y = solve(field, y0, t, method=method, rtol=1e-4, atol=1e-5)
                y[-1].pow(2).sum().backward()
                print(solve.__name__, method, y[-1].detach(), field.net[0].bias.grad[:3])
        optimizer = torch.optim.Adam(field.parameters(), lr=0.05)
        for k in range(3):
            optimizer.zero_grad()
            loss = (odeint_adjoint(field, y0, t) - 1).abs().mean()
            loss.backward()
            optimizer.step()
            print(k, loss.item())
        fall = lambda t, y: torch.stack([y[1], torch.tensor(-9.8)])
        time, states = odeint_event(
            fall, torch.tensor([1.0, 0.0]), torch.tensor(0.0), event_fn=lambda t, y: y[0],
            odeint_interface=odeint, rtol=1e-6, atol=1e-6,
        )
        print(f"{time.item():.4f} {states[-1][1].item():.3f}")
    """,
    "torchsde": """
        import torchsde
        class Brownian(nn.Module):
            noise_type, sde_type = "diagonal", "ito"
            def __init__(self):
                super().__init__()
                self.mu = nn.Linear(3, 3)
                self.sigma = nn.Linear(3, 3)
            def f(self, t, y):
                return self.mu(y)
            def g(self, t, y):
                return torch.sigmoid(self.sigma(y))
        sde, y0, ts = Brownian(), torch.full((4, 3), 0.1), torch.linspace(0, 1, 4)
        for method in ("euler", "milstein", "srk"):
            motion = torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=7, levy_area_approximation="space-time")
            sde.zero_grad()
            ys = torchsde.sdeint(sde, y0, ts, bm=motion, method=method, dt=0.1)
            ys[-1].sum().backward()
            print(method, ys[-1][:2].detach(), sde.mu.bias.grad)
        sde.zero_grad()
        sde.sde_type = "stratonovich"
        motion = torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=7)
        ys = torchsde.sdeint_adjoint(sde, y0, ts, bm=motion, method="midpoint", dt=0.1)
        ys[-1].sum().backward()
        print(ys[-1][0].detach(), sde.sigma.bias.grad)
    """,
    "torch_optimizer": """
        import torch_optimizer
        names = sorted(n for n in torch_optimizer.__dict__ if isinstance(getattr(torch_optimizer, n), type))
        x, y = torch.randn(20, 3), torch.randn(20, 1)
        for name in names:
            kind = getattr(torch_optimizer, name)
            if not issubclass(kind, torch.optim.Optimizer) or name in ("Optimizer", "Lookahead", "Shampoo"):
                continue
            torch.manual_seed(1)
            net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
            options = {"num_samples": 4} if name == "A2GradExp" and False else {}
            optimizer = kind(net.parameters(), lr=1e-2) if not name.startswith("A2Grad") else kind(net.parameters())
            for k in range(4):
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward(create_graph=name == "Adahessian")
                optimizer.step()
            print(name, f"{loss.item():.5f}", net[0].weight[0].detach())
        net = nn.Linear(3, 1)
        optimizer = torch_optimizer.Lookahead(torch_optimizer.Yogi(net.parameters(), lr=0.1), k=2)
        for k in range(4):
            optimizer.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizer.step()
        print(net.weight.detach())
    """,
    "higher": """
        import higher
        net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        meta = torch.optim.Adam(net.parameters(), lr=1e-2)
        inner = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for task in range(3):
            x, y = torch.randn(10, 2), torch.randn(10, 1)
            meta.zero_grad()
            with higher.innerloop_ctx(net, inner, copy_initial_weights=False) as (fnet, diffopt):
                for k in range(3):
                    diffopt.step(F.mse_loss(fnet(x), y))
                loss = F.mse_loss(fnet(x + 0.1), y)
                loss.backward()
            meta.step()
            print(task, loss.item(), net[0].weight.grad[0], net[2].bias.detach())
        adam = torch.optim.Adam(net.parameters(), lr=0.05)
        with higher.innerloop_ctx(net, adam) as (fnet, diffopt):
            start = list(fnet.parameters(time=0))
            for k in range(2):
                diffopt.step(F.mse_loss(fnet(x), y))
            grads = torch.autograd.grad(F.mse_loss(fnet(x), y), start)
            print([round(g.sum().item(), 4) for g in grads])
    """,
    "torchmetrics": """
        import torchmetrics
        from torchmetrics.functional import accuracy, mean_squared_error, pairwise_cosine_similarity
        preds, target = torch.randn(40, 5).softmax(-1), torch.randint(5, (40,))
        metrics = torchmetrics.MetricCollection({
            "accuracy": torchmetrics.classification.MulticlassAccuracy(5),
            "f1": torchmetrics.classification.MulticlassF1Score(5, average="weighted"),
            "confusion": torchmetrics.classification.MulticlassConfusionMatrix(5),
            "auroc": torchmetrics.classification.MulticlassAUROC(5),
            "precision": torchmetrics.classification.MulticlassPrecision(5, average=None),
        })
        for part in range(0, 40, 10):
            metrics.update(preds[part : part + 10], target[part : part + 10])
        for name, value in sorted(metrics.compute().items()):
            print(name, value)
        a, b = torch.randn(30), torch.randn(30)
        for kind in ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "SpearmanCorrCoef",
                     "ExplainedVariance", "CosineSimilarity"):
            metric = getattr(torchmetrics, kind)()
            if kind == "CosineSimilarity":
                print(kind, metric(a[None], b[None]))
            else:
                metric.update(a[:15], b[:15]), metric.update(a[15:], b[15:])
                print(kind, metric.compute(), metric.state_dict())
        mean = torchmetrics.MeanMetric()
        mean.update(1.0), mean.update(torch.tensor([2.0, 3.0]))
        print(mean.compute(), mean)
        x = torch.randn(10, 3, requires_grad=True)
        loss = mean_squared_error(x, torch.zeros(10, 3)) + pairwise_cosine_similarity(x).sum()
        loss.backward()
        print(loss, x.grad[0], accuracy(preds, target, task="multiclass", num_classes=5))
    """,
    "safetensors": """
        import os, tempfile
        from safetensors.torch import load, load_file, load_model, safe_open, save, save_file, save_model
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "model.safetensors")
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        save_file(net.state_dict(), path, {"note": "x"})
        found = load_file(path)
        print(sorted((k, v.dtype, tuple(v.shape)) for k, v in found.items()))
        print(all(torch.equal(v, found[k]) for k, v in net.state_dict().items()))
        save_model(net, path)
        other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        print(load_model(other, path), other[0].weight)
        print(sorted(load(save({"x": torch.arange(3), "z": torch.ones(2).double()})).items()))
        with safe_open(path, "pt") as file:
            print(sorted(file.keys()), file.get_tensor("0.bias"), file.get_slice("0.weight")[:2])
    """,
    "geotorch": """
        import geotorch
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6))
        geotorch.orthogonal(net[0], "weight")
        geotorch.skew(net[2], "weight")
        net[0].weight = torch.eye(6, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(8, 4)
        for k in range(4):
            optimizer.zero_grad()
            loss = (net(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            print(k, loss.item())
        weight = net[0].weight
        print((weight.T @ weight - torch.eye(4)).abs().max().item() < 1e-5)
        print((net[2].weight + net[2].weight.T).abs().max().item() < 1e-6)
        layer = nn.Linear(3, 3)
        geotorch.positive_definite(layer, "weight")
        print(bool((torch.linalg.eigvalsh(layer.weight) > 0).all()))
    """,
}


@pytest.mark.parametrize("package", SCRIPTS)
def test_a_package_prints_the_same(package: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    path = tmp_path / f"use_{package}.py"
    path.write_text(START + textwrap.dedent(SCRIPTS[package]))
    report = check_script(path, timeout=120)
    assert report and not report.failure, str(report)
