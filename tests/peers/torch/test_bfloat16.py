"""bfloat16 and autocast on the CPU beside PyTorch: values to the last bit where its kernels round as
ours, dtypes, gradients, second derivatives, refusals.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

pytest.importorskip("ml_dtypes")
torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

ours = importlib.import_module("functrace.torch")
importlib.import_module("functrace.torch.nn.functional")

_DRAWS = np.random.default_rng(3)
COUNT = 1024
VALUES = {
    **{name: _DRAWS.normal(size=COUNT) for name in "mnu"},
    **{name: _DRAWS.uniform(0.05, 0.95, size=COUNT) for name in "pq"},
    "X": _DRAWS.normal(size=(64, 32)),
    "S": _DRAWS.normal(size=(2, 32, 32)),
    "B": _DRAWS.normal(size=(2, 3, 8, 8)),
    "K": _DRAWS.normal(size=(4, 3, 3, 3)),
}
LABELS = _DRAWS.integers(0, 32, 64).tolist()

EXACT = """
m+.3; m-.3; .3-m; m*.3; m/.3; .3/m; p**.3; m**2; m**3; m**-2; m**-1; .3**m; p**m; m%.3; m%n; m//.3; torch.fmod(m,.3);
torch.add(m,n,alpha=.3); torch.sub(m,n,alpha=.3); m+n; m*n; m/n; torch.atan2(m,n);
torch.hypot(m,n); torch.logaddexp(m,n); torch.maximum(m,n); m.clamp(-.3,.3); torch.where(m>0,m,.3); torch.nextafter(m,n);
torch.addcdiv(u,m,p,value=.3); torch.xlogy(p,q); torch.xlogy(p,.3); torch.ldexp(m,n); torch.logit(p);
torch.special.entr(p); torch.special.ndtr(m); torch.special.log_ndtr(m); torch.special.ndtri(p); torch.i0(m);
torch.lgamma(p); torch.digamma(p); torch.erfinv(p); torch.sinc(m); torch.exp(m); torch.exp2(m); torch.expm1(m);
torch.log(p); torch.log1p(p); torch.sqrt(p); torch.rsqrt(p); torch.reciprocal(p); torch.sigmoid(m); torch.tanh(m);
torch.sin(m); torch.round(m); torch.floor(m); torch.frac(m); torch.nan_to_num(m); F.mse_loss(m,n,reduction='none');
F.l1_loss(m,n,reduction='none'); F.huber_loss(m,n,reduction='none',delta=.3); F.smooth_l1_loss(m,n,reduction='none');
F.binary_cross_entropy(p,q,reduction='none'); F.kl_div(m,p,reduction='none'); F.cross_entropy(X,L,reduction='none');
F.cross_entropy(X,L); F.nll_loss(X,L,reduction='sum');
F.nll_loss(X,L,ignore_index=3); F.nll_loss(m[:600].view(300,2),(n[:300]>0).long());
F.elu(m,.3); F.selu(m); F.celu(m,.7); F.leaky_relu(m,.3); F.gelu(m); F.silu(m); F.mish(m); F.softplus(m,2.,3.);
F.hardswish(m); F.hardsigmoid(m); F.logsigmoid(m); F.softsign(m); F.tanhshrink(m); F.softshrink(m); F.relu6(m);
F.glu(X); X.log_softmax(1); X.log_softmax(0); X.logsumexp(1); X.mean(1); X.std(1); X.var(1); X.norm(dim=1);
(X*.1+1).prod(1); X.cumsum(1); X.cumprod(1); X.cummax(1).values; X.amax(1); X.sum(0); X.median(1).values; torch.diff(X);
torch.linalg.cross(X[:,:3],X[:,3:6]); torch.addr(X*0,m[:64],n[:32]); torch.kron(X[:4],X[:4]); F.layer_norm(X,(32,));
F.rms_norm(X,(32,)); F.avg_pool2d(B,3); F.max_pool2d(B,2); F.scaled_dot_product_attention(S,S,S); F.dropout(m,.3);
torch.cat([X,X.float()]); X.to(torch.float16); X.half().bfloat16(); X+X.half(); X*1j; X.view(torch.int16); X>.3;
X.int(); X[L[:3]]; X.t()[1:]; torch.randn(100,dtype=X.dtype); torch.rand(100,dtype=X.dtype); X.bernoulli(.3);
torch.linspace(.3,9,500,dtype=X.dtype); torch.arange(0,3,.3,dtype=X.dtype); torch.finfo(X.dtype); m.tolist(); repr(X)
"""
"""Values that are equal to the last bit."""
NEAR = """
X@X.T; F.linear(X,X); torch.bmm(S,S); torch.addmm(X,X,S[0],beta=.3,alpha=.7); torch.einsum('ij,kj->ik',X,X); X.softmax(1);
F.conv2d(B,K,padding=1); F.batch_norm(B,None,None,training=True); F.group_norm(B,3); F.interpolate(B,scale_factor=2);
torch.addcmul(u,m,n,value=.3); torch.lerp(u,m,.3); F.mse_loss(m,n); torch.erf(m); X.sum();
F.cosine_similarity(X,X.flip(0)); F.normalize(X); X.index_add(0,torch.tensor([0,2]),X[:2],alpha=.3); torch.cov(X);
F.gelu(m,approximate='tanh'); F.binary_cross_entropy_with_logits(m,q); F.embedding(L,X);
F.interpolate(B,size=(3,4),mode='bilinear'); torch.renorm(X,2,0,1.); F.adaptive_avg_pool2d(B,3)
"""
REFUSED = """
torch.linalg.inv(S); torch.linalg.svd(S); torch.linalg.qr(S); torch.linalg.eigh(S); torch.fft.fft(X); m&1; ~m;
X@X.T.float(); X.numpy(); torch.complex(m,n); torch.polar(m,n); X.quantile(.3); torch.linalg.solve(S,S); torch.cholesky(S)
"""
UNSTABLE = "torch.sinc(m); m//.3; m.clamp(-.3,.3); torch.erf(m); torch.renorm(X,2,0,1.)"
UNDER_AUTOCAST = """
X@X.T; F.linear(X,X,X[:,0][:64]); torch.mm(X,S[0]); torch.bmm(S,S); torch.baddbmm(S,S,S); torch.addbmm(S[0],S,S);
torch.mv(S[0],X[0]); torch.dot(m,n); torch.outer(m[:5],n[:5]); torch.matmul(S,X[0]); torch.einsum('ij,kj->ik',X,X);
torch.einsum('i,j',X[0],X[0]); torch.inner(X,X); torch.linalg.vecdot(X,X); torch.linalg.multi_dot([X,S[0],S[1]]);
torch.linalg.matrix_power(S,3); F.conv2d(B,K); F.conv_transpose2d(B,K.transpose(0,1)); F.prelu(X,m[:1]);
F.scaled_dot_product_attention(S,S,S); torch.cov(X); F.mse_loss(X,X.bfloat16()); F.cross_entropy(X,L);
F.nll_loss(X,L); F.binary_cross_entropy(p,q); F.kl_div(m,p); F.huber_loss(m,n); F.smooth_l1_loss(m,n);
F.soft_margin_loss(m,n.sign()); F.cosine_embedding_loss(X,X.flip(0),torch.ones(64)); X.prod(1); S[0].trace();
F.grid_sample(B,torch.zeros(2,3,3,2)+.3); F.pad(B,(1,1,1,1),mode='reflect'); F.pad(B,(1,1)); F.interpolate(B,scale_factor=2);
F.avg_pool2d(B,2); torch.linalg.inv(S+5*torch.eye(32)); torch.linalg.svdvals(S); torch.fft.rfft(X); torch.cdist(X,X[:3]);
torch.cat([X,X.bfloat16()]); torch.stack([X.bfloat16(),X.bfloat16()]); torch.cat([X.half(),X.bfloat16()]);
torch.cat([X,X.double()]); torch.stack([X,X.half()]); X.softmax(1); F.layer_norm(X,(32,)); X.double()@S[0].double();
torch.index_copy(X.bfloat16(),0,torch.tensor([0]),X[:1]); F.gelu(X); X.sum(); X.bfloat16()+X; X.int()@S[0].int();
F.linear(X.bfloat16(),X); torch.addmm(X,X,S[0]).relu(); F.group_norm(B.bfloat16(),3)
"""


def split(expressions: str) -> list[str]:
    return [e.strip() for e in expressions.replace("\n", " ").split("; ") if e.strip()]


def scope(lib: ModuleType, dtype: str, requires_grad: bool = False) -> dict[str, Any]:
    """Return what the expressions compute with."""
    lib.manual_seed(0)
    made: dict[str, Any] = {
        name: lib.tensor(x.tolist()).bfloat16().to(getattr(lib, dtype))
        for name, x in VALUES.items()
    }
    if requires_grad:
        made = {name: x.requires_grad_() for name, x in made.items()}
    return made | {"torch": lib, "F": lib.nn.functional, "L": lib.tensor(LABELS)}


def evaluated(lib: ModuleType, expression: str, names: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(expression, names)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def plain(lib: ModuleType, value: Any) -> Any:
    """Return dtype and numbers of a tensor; anything else as text."""
    if isinstance(value, lib.Tensor):
        wide = value.detach()
        wide = wide.to(lib.complex128) if wide.is_complex() else wide.double()
        return str(value.dtype), np.array(wide.tolist())
    return str(value)


def difference(found: Any, wanted: Any) -> float:
    """Return the greatest difference, relative to the greatest number; infinite if structures,
    dtypes or texts differ.
    """
    if isinstance(found, str) or isinstance(wanted, str):
        return 0.0 if found == wanted else np.inf
    if found[0] != wanted[0] or found[1].shape != wanted[1].shape:
        return np.inf
    a, b = found[1], wanted[1]
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    apart = np.abs(np.where(same, 0, a) - np.where(same, 0, b)).max()
    return float(apart / max(np.abs(np.where(np.isfinite(b), b, 0)).max(), 1e-12))


def gradients(lib: ModuleType, expression: str, second: bool) -> Any:
    names = scope(lib, "bfloat16", requires_grad=True)
    made = evaluated(lib, expression, names)
    if not isinstance(made, lib.Tensor) or not made.requires_grad or made.is_complex():
        return {}
    leaves = [names[name] for name in VALUES]
    weights = lib.linspace(0.5, 1.5, made.numel()).reshape(made.shape).to(made.dtype)
    found = lib.autograd.grad(made, leaves, weights, create_graph=second, allow_unused=True)
    if second:
        loss = sum(g.float().pow(2).sum() for g in found if g is not None and g.requires_grad)
        if not isinstance(loss, lib.Tensor):
            return {}
        found = lib.autograd.grad(loss, leaves, allow_unused=True)
    return {n: plain(lib, g) for n, g in zip(VALUES, found, strict=True) if g is not None}


@pytest.mark.parametrize("expression", [*split(EXACT), *split(NEAR)])
def test_values_are_rounded_as_in_pytorch(expression: str) -> None:
    found, wanted = (
        plain(lib, evaluated(lib, expression, scope(lib, "bfloat16"))) for lib in (ours, torch)
    )
    assert difference(found, wanted) <= (0.01 if expression in split(NEAR) else 0.0)


@pytest.mark.parametrize("expression", split(REFUSED))
def test_refusals(expression: str) -> None:
    found, wanted = (
        str(evaluated(lib, expression, scope(lib, "bfloat16"))) for lib in (ours, torch)
    )
    assert found == wanted and "Error" in found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("expression", [*split(EXACT)[:80], *split(NEAR)])
def test_gradients(expression: str) -> None:
    if expression in split(UNSTABLE):
        pytest.skip("PyTorch's formula cancels, or there is no derivative")
    found, wanted = (gradients(lib, expression, False) for lib in (ours, torch))
    assert found.keys() == wanted.keys()
    for name in found:
        assert difference(found[name], wanted[name]) <= 0.02, name


@pytest.mark.parametrize(
    "expression",
    split(
        "m*n; m/p; m**3; p**m; m.sin()*n; torch.tanh(m); torch.sigmoid(m)*n; X@S[0]; (X@S[0]).tanh(); F.gelu(m); "
        "F.silu(m); F.conv2d(B,K); (X*X).sum(1); F.mse_loss(m,n); torch.exp(m)*n; torch.log(p)*q; F.linear(X,X)"
    ),
)
def test_second_derivatives(expression: str) -> None:
    found, wanted = (gradients(lib, expression, True) for lib in (ours, torch))
    assert found.keys() == wanted.keys()
    for name in found:
        assert difference(found[name], wanted[name]) <= 0.03, name


def under_autocast(lib: ModuleType, expression: str, dtype: str) -> Any:
    names = scope(lib, "float32", requires_grad=True)
    with lib.autocast("cpu", dtype=getattr(lib, dtype)):
        made = evaluated(lib, expression, names)
    given: dict[str, Any] = {}
    if isinstance(made, lib.Tensor) and made.requires_grad and made.dtype != lib.complex64:
        weights = lib.linspace(0.5, 1.5, made.numel()).reshape(made.shape).to(made.dtype)
        found = lib.autograd.grad(made, [names[n] for n in VALUES], weights, allow_unused=True)
        given = {n: plain(lib, g) for n, g in zip(VALUES, found, strict=True) if g is not None}
    return plain(lib, made), given


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("expression", split(UNDER_AUTOCAST))
def test_autocast(expression: str, dtype: str) -> None:
    (found, of_ours), (wanted, of_theirs) = (
        under_autocast(lib, expression, dtype) for lib in (ours, torch)
    )
    assert difference(found, wanted) <= 0.01
    assert of_ours.keys() == of_theirs.keys()
    for name in of_ours:
        assert difference(of_ours[name], of_theirs[name]) <= 0.03, name


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam"])
def test_optimizers_on_parameters_of_bfloat16(name: str) -> None:
    def trained(lib: ModuleType) -> Any:
        lib.manual_seed(0)
        layer = lib.nn.Linear(4, 3).bfloat16()
        x = lib.randn(16, 4).bfloat16()
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(lib.optim, name)(layer.parameters(), lr=0.01, **options)
        for _ in range(4):
            optimizer.zero_grad()
            layer(x).pow(2).mean().backward()
            optimizer.step()
        return plain(lib, layer.weight)

    assert difference(trained(ours), trained(torch)) <= 0.004


def test_training_under_autocast() -> None:
    def losses(lib: ModuleType) -> list[float]:
        lib.manual_seed(0)
        model = lib.nn.Sequential(
            lib.nn.Conv2d(1, 4, 3), lib.nn.BatchNorm2d(4), lib.nn.ReLU(), lib.nn.Flatten(),
            lib.nn.Linear(144, 3),
        )  # fmt: skip
        x, labels = lib.randn(8, 1, 8, 8), lib.tensor([0, 1, 2, 0, 1, 2, 0, 1])
        optimizer, scaler = lib.optim.SGD(model.parameters(), lr=0.1), lib.amp.GradScaler("cpu")
        found = []
        for _ in range(4):
            optimizer.zero_grad()
            with lib.autocast("cpu"):
                loss = lib.nn.functional.cross_entropy(model(x), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(ours), losses(torch), rtol=0.02)


def test_capsules() -> None:
    x = ours.tensor([[1.5, 2.0], [3.0, 4.0]]).bfloat16()
    theirs = torch.from_dlpack(x)
    theirs[0, 1] = 9
    assert theirs.dtype is torch.bfloat16 and x.tolist() == [[1.5, 9], [3, 4]]
    back = ours.from_dlpack(theirs.T)
    back[0, 0] = 7
    assert back.dtype is ours.bfloat16 and theirs[0, 0].item() == 7


def test_tensors_of_pytorch_have_no_overrides() -> None:
    class Own(ours.Tensor):  # (from now on, functions look for overrides)
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    assert type(ours.ones(2).as_subclass(Own) + 1) is Own
    for theirs in (torch.ones(2), torch.nn.Parameter(torch.ones(2)).detach()):
        assert ours.from_dlpack(theirs).tolist() == [1, 1]


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_files(writer: str, tmp_path: Any) -> None:
    a, b = (ours, torch) if writer == "ours" else (torch, ours)
    a.manual_seed(0)
    layer = a.nn.Linear(3, 2).bfloat16()
    a.save(layer.state_dict(), tmp_path / "file")
    loaded = b.load(tmp_path / "file")
    assert loaded["weight"].dtype is b.bfloat16
    assert loaded["weight"].tolist() == layer.weight.tolist()
