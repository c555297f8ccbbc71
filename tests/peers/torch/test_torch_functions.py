"""The functions of ``torch``, `Tensor`, ``torch.linalg``, ``torch.special`` and ``torch.fft`` have
PyTorch's values, nodes, first and second derivatives, and refusals.
"""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

from tests.peers.torch.function_grids import EXPRESSIONS, differences
from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)
pytest.importorskip("scipy")

SHIM = importlib.import_module("functrace.torch")
_CASES = [(subject, e) for subject, listed in EXPRESSIONS.items() for e in listed]
_IN_SINGLE = [e for _, e in _CASES if not any(
    part in e for part in (
        "double", "arange(5.)", "lu_", ".lu(", "ormqr", "float", "cond(", "geqrf", "cholesky_",
        "matrix_power(x,-2)", "pinv", "inv", "lstsq", "solve", "ldl", "kron", "new_tensor",
    )
)]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("expression", [e for _, e in _CASES])
def test_values_and_derivatives(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in (0, 1):
            report = differences(expression, seed)
            assert not report, f"{expression}\n" + "\n".join(report)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("expression", _IN_SINGLE)
def test_in_single_precision(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = differences(expression, 0, "float32")
    assert not report, f"{expression}\n" + "\n".join(report)


@pytest.mark.parametrize("name", ["linalg", "special", "fft"])
def test_namespaces_are_complete(name: str) -> None:
    own = importlib.import_module(f"functrace.torch.{name}")
    there = getattr(torch, name)
    missing = [
        n for n in dir(there)
        if not n.startswith("_") and callable(getattr(there, n)) and n[0].islower()
        and n not in dir(own)
    ]  # fmt: skip
    assert not missing


def _refusal(library: object, code: str, given: dict[str, object]) -> tuple[str, str]:
    try:
        eval(code, {"torch": library, **given})
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]
    return "", ""


_REFUSED = [
    f"torch.linalg.{name}({operand})"
    for name in (
        "det", "slogdet", "inv", "cholesky", "qr", "svd", "svdvals", "eigh", "eigvalsh", "eig",
        "eigvals", "pinv", "matrix_rank", "cond", "lu", "lu_factor", "matrix_norm", "vector_norm",
        "matrix_exp", "ldl_factor",
    )
    for operand in ("r", "v", "i", "q")
] + [
    "torch.linalg.inv(s)", "torch.linalg.inv(p)", "torch.linalg.inv_ex(p,check_errors=True)",
    "torch.linalg.solve(s,v)", "torch.linalg.solve(p,p)", "torch.linalg.solve(x,r)",
    "torch.linalg.solve(r,x)", "torch.linalg.solve(x,i)", "torch.linalg.cholesky(-x@x.T)",
    "torch.cholesky(-x@x.T)", "torch.linalg.cholesky_ex(-x@x.T,check_errors=True)",
    "torch.linalg.lstsq(x,r)", "torch.linalg.lstsq(x,i)", "torch.linalg.lstsq(x,x,driver='a')",
    "torch.linalg.qr(x,mode='a')", "torch.linalg.svd(x,driver='gesvd')",
    "torch.linalg.matrix_norm(x,'a')", "torch.linalg.matrix_norm(x,3)",
    "torch.linalg.matrix_norm(x,2,dim=(0,0))", "torch.linalg.norm(v,'nuc')",
    "torch.linalg.cond(x,'a')", "torch.linalg.cond(r,1)", "torch.linalg.multi_dot([x])",
    "torch.linalg.multi_dot([x,r])", "torch.linalg.multi_dot([x,i])",
    "torch.linalg.multi_dot([x,p,x])", "torch.linalg.matrix_power(r,2)",
    "torch.linalg.matrix_power(s,-1)", "torch.linalg.cross(x,r)", "torch.linalg.cross(x,v)",
    "torch.cross(torch.rand(2,2),torch.rand(2,2))", "torch.linalg.solve_triangular(x,r,upper=True)",
    "torch.linalg.solve_triangular(x,v,upper=True)", "torch.linalg.householder_product(r,v)",
    "torch.linalg.tensorinv(x,0)", "torch.linalg.tensorsolve(x,r)", "torch.linalg.vander(q)",
    "torch.linalg.vecdot(x,i)", "torch.linalg.lu(r,pivot=False)", "torch.linalg.lu_factor(s)",
    "torch.lstsq(x,x)", "torch.solve(x,x)", "torch.eig(x)", "torch.symeig(x)", "x.symeig()",
    "torch.matrix_rank(x)", "torch.cholesky_inverse(r)", "torch.cholesky_solve(r,x)",
    "torch.ormqr(x,v,r)", "torch.linalg.eigh(x,UPLO='A')", "torch.matrix_power(v,2)",
    "torch.vander(q)", "torch.tensordot(x,r,1)", "torch.tensordot(x,x,dims=([0,1],[0]))",
    "torch.tensordot(x,x,3)", "torch.inner(x,r)[9]", "torch.vdot(v,x)", "torch.vdot(v,v[:2])",
    "torch.baddbmm(p,p,x)", "torch.addmv(v,r,v)", "torch.addmv(v,x,x)", "torch.addr(x,x,v)",
    "torch.block_diag(p)", "torch.cartesian_prod(x,v)", "torch.combinations(x)",
    "torch.combinations(v,-1)", "torch.cov(p)", "torch.cov(x,fweights=v)", "torch.hstack([x,v])",
    "torch.hstack([])", "torch.hsplit(q,2)", "torch.hsplit(v,2)", "torch.vsplit(v,3)",
    "torch.dsplit(x,3)", "torch.broadcast_shapes((2,),(3,))", "x.unfold(0,4,1)", "x.unfold(0,2,0)",
    "torch.rot90(v)", "torch.rot90(x,1,[0])", "torch.rot90(x,1,[0,0])", "torch.diff(q)",
    "torch.diff(x,n=-1)", "torch.diff(x,prepend=v)", "torch.gradient(x,spacing=(1.,2.,3.))",
    "torch.gradient(x,edge_order=3)", "torch.gradient(v[:1])", "torch.trapezoid(q)",
    "torch.trapezoid(x,v[:2])", "torch.logcumsumexp(i,0)", "torch.cummax(x,5)",
    "torch.kthvalue(v,5)", "torch.kthvalue(i>0,1)", "torch.mode(torch.rand(0))",
    "torch.quantile(v,1.5)", "torch.quantile(i,.5)", "torch.quantile(v,.5,interpolation='a')",
    "torch.quantile(torch.rand(0),.5)", "torch.nanmean(i)", "torch.aminmax(torch.rand(0))",
    "torch.unique(x,dim=5)", "torch.searchsorted(x,v)", "torch.searchsorted(v,x,side='a')",
    "torch.searchsorted(v,x,right=True,side='left')", "torch.searchsorted(q,x)",
    "torch.bucketize(x,x)", "torch.bincount(v)", "torch.bincount(-i[0])", "torch.bincount(i)",
    "torch.bincount(i[0],minlength=-1)", "torch.histc(v,0)", "torch.histc(v,4,3,1)",
    "torch.histc(i)", "torch.unravel_index(v,(2,3))", "x.put(i[0],v[:2])", "x.put(i[0]*20,v)",
    "x.put(v,v)", "x.masked_scatter(x>0,v)", "x.masked_scatter(i,v)",
    "torch.diagonal_scatter(x,v[:2])", "torch.select_scatter(x,v,0,5)",
    "torch.slice_scatter(x,v)", "torch.zeros(2,3,3).fill_diagonal_(1)",
    "v.clone().fill_diagonal_(1)", "torch.renorm(v,2,0,1)", "torch.renorm(x,-1,0,1)",
    "torch.tril_indices(-1,3)", "torch.hann_window(-1)", "torch.fft.fft(x.half())",
    "torch.fft.fft(q)", "torch.fft.fft(x,n=0)", "torch.fft.fft(x,norm='a')",
    "torch.fft.fft2(x,s=(2,))", "torch.fft.fft2(x,dim=(0,0))", "torch.fft.rfftn(x,dim=())",
    "torch.stft(v,2)", "torch.stft(v,2,return_complex=True,hop_length=0)", "torch.istft(x,4)",
    "torch.polygamma(-1,x)", "torch.heaviside(x,x.float())", "torch.frexp(i)", "torch.polar(i,i)",
    "torch.igamma(i,i)", "torch.gcd(x,x)", "torch.nextafter(i,i)", "torch.frac(i)",
    "torch.special.ndtri(x.half())", "torch.erf(x+0j)", "torch.deg2rad(x+0j)",
    "x.clone(memory_format=torch.channels_last)",
]  # fmt: skip


@pytest.mark.parametrize("code", _REFUSED)
def test_refusals(code: str) -> None:
    """Refusals are of PyTorch's classes, with its messages (those of TypeErrors list signatures)."""
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.uniform(0.2, 0.9, (3, 3)), "r": rng.uniform(0.2, 0.9, (2, 3)),
        "v": rng.uniform(0.2, 0.9, 3), "s": np.zeros((3, 3)), "q": np.array(1.0),
        "i": np.ones((3, 3), np.int64),
    }  # fmt: skip
    arrays["p"] = np.stack([arrays["x"], arrays["s"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, found = (
            _refusal(library, code, {k: library.from_numpy(a.copy()) for k, a in arrays.items()})
            for library in (torch, SHIM)
        )
    assert found[0] == expected[0]
    if expected[0] != "TypeError":
        assert found[1] == expected[1]


def test_numpys_names_of_arguments() -> None:
    array = np.arange(12.0).reshape(3, 4)
    for code in (
        "torch.sum(x, axis=0, keepdims=True)", "x.mean(axis=(0, 1))", "torch.max(x, axis=1)[1]",
        "torch.cat([x, x], axis=1)", "torch.softmax(x, axis=0)", "x.cumsum(axis=1)",
        "torch.argmax(x, axis=1)", "torch.std(x, axis=0)", "torch.unbind(x, axis=1)[2]",
    ):  # fmt: skip
        expected, found = (
            eval(code, {"torch": library, "x": library.from_numpy(array)}).numpy()
            for library in (torch, SHIM)
        )
        np.testing.assert_allclose(found, expected)


def test_memory_formats() -> None:
    for code in (
        "x.clone(memory_format=torch.channels_last)", "x.contiguous(memory_format=torch.channels_last)",
        "c.clone()", "c.clone(memory_format=torch.contiguous_format)", "p.clone()", "c.double()",
        "p.clone(memory_format=torch.contiguous_format)", "x.to(memory_format=torch.channels_last)",
        "torch.empty_like(x, memory_format=torch.channels_last)", "torch.zeros_like(p)",
        "torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)", "c.contiguous()",
        "p.double(memory_format=torch.contiguous_format)", "torch.empty_permuted((2, 3), (1, 0))",
        "x.new_empty_strided((2, 3), (1, 2))",
    ):  # fmt: skip
        strides = []
        for library in (torch, SHIM):
            x = library.arange(120.0).reshape(2, 3, 4, 5)
            c = x.contiguous(memory_format=library.channels_last)
            scope = {"torch": library, "x": x, "c": c, "p": x.permute(3, 1, 0, 2)}
            made = eval(code, scope)
            strides.append((made.stride(), tuple(made.shape), str(made.dtype)))
        assert strides[0] == strides[1], code
