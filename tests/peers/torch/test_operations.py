"""Operations as dispatch modes see them: the overloads that PyTorch dispatches, in its order; and
schemas.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.surface import TABLES
from tests.peers.torch import function_grids, layer_expressions
from tests.peers.torch.harness import VERSION
from tests.peers.torch.schemas import PATH, schemas

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

OTHERWISE = {
    "made of others here": (
        "torch.count_nonzero(x) torch.nansum(x) A.nansum() x.masked_select(b) x.take(i) A.diag() torch.dist(x,y) "
        "x.sum(dtype=torch.float32) A.take_along_dim(i[None],1)"
    ),
    "made of others in PyTorch": (
        "torch.isfinite(x) torch.einsum('ij,jk->ik',A,B) z.real z.imag torch.isclose(x,y) F.nll_loss(C,h)"
    ),
    "a composed function that writes into out": "!torch.matmul(m,n,out=O[:2])",
    "a number beside a tensor is a constant here": "torch.where(b,x,0.) torch.where(b,1.,y)",
    "all axes are everything here": "A.any((0,1))",
    "an operator that has an overload of its own": "k<<1",
}
"""Expressions whose operations are others here, and why."""
_OTHERWISE = {expression for several in OTHERWISE.values() for expression in several.split(" ")} | {
    expression
    for several in layer_expressions.OTHERWISE.values()
    for expression in several.split("; ")
}
_IGNORED = frozenset({"aten.lift_fresh.default", "aten.detach.default"})

EXPRESSIONS = (
    """
torch.abs(x); x._neg_view().resolve_neg();
torch.acos(x); torch.acosh(x); torch.all(x); torch.amax(x); torch.amin(x); torch.any(x); torch.argmax(x);
torch.argmin(x); torch.asin(x); torch.asinh(x); torch.atan(x); torch.atanh(x); torch.ceil(x); torch.clone(x);
torch.cos(x); torch.cosh(x); torch.count_nonzero(x); torch.exp(x); torch.exp2(x); torch.expm1(x); torch.floor(x);
torch.isfinite(x); torch.isinf(x); torch.isnan(x); torch.log(x); torch.log10(x); torch.log1p(x); torch.log2(x);
torch.logical_not(x); torch.max(x); torch.mean(x); torch.median(x); torch.min(x); torch.nansum(x); torch.neg(x);
torch.nonzero(x); torch.positive(x); torch.prod(x); torch.reciprocal(x); torch.relu(x); torch.round(x); torch.rsqrt(x);
torch.sgn(x); torch.sigmoid(x); torch.sign(x); torch.signbit(x); torch.sin(x); torch.sinh(x); torch.sqrt(x);
torch.square(x); torch.std(x); torch.sum(x); torch.tan(x); torch.tanh(x); torch.trunc(x); torch.var(x);
torch.zeros_like(x); torch.logsumexp(A,1); torch.softmax(A,1); torch.log_softmax(A,-1); torch.add(x,y); torch.add(x,2);
torch.sub(x,y); torch.sub(x,2); torch.mul(x,y); torch.mul(x,2); torch.div(x,y); torch.div(x,2); torch.pow(x,y);
torch.pow(x,2); torch.maximum(x,y); torch.minimum(x,y); torch.fmax(x,y); torch.fmin(x,y); torch.eq(x,y); torch.eq(x,2);
torch.ne(x,y); torch.ne(x,2); torch.lt(x,y); torch.lt(x,2); torch.le(x,y); torch.le(x,2); torch.gt(x,y); torch.gt(x,2);
torch.ge(x,y); torch.ge(x,2); torch.logical_and(x,y); torch.logical_or(x,y); torch.logical_xor(x,y); torch.rsub(x,y);
torch.rsub(x,2); torch.remainder(x,y); torch.remainder(x,2); torch.fmod(x,y); torch.fmod(x,2); torch.atan2(x,y);
torch.hypot(x,y); torch.logaddexp(x,y); torch.dot(x,y); torch.floor_divide(x,y); torch.floor_divide(x,2); x+y; x+2;
2+x; x-y; x-2; 2-x; x*y; x*2; 2*x; x/y; x/2; 2/x; x**y; x**2; 2**x; x//y; x//2; 2//x; x%y; x%2; 2%x; x==y; x==2; 2==x;
x!=y; x!=2; 2!=x; x<y; x<2; 2<x; x<=y; x<=2; 2<=x; x>y; x>2; 2>x; x>=y; x>=2; 2>=x; x@y; torch.bitwise_and(k,k);
torch.bitwise_and(k,2); torch.bitwise_or(k,k); torch.bitwise_or(k,2); torch.bitwise_xor(k,k); torch.bitwise_xor(k,2);
torch.bitwise_left_shift(k,k); torch.bitwise_left_shift(k,2); torch.bitwise_right_shift(k,k);
torch.bitwise_right_shift(k,2); k&k; k|1; ~k; ~b; k<<1; 1&k; torch.bitwise_not(k); -x; +x; abs(x); x.T; A.T; A.mT;
A.t(); A.transpose(0,1); A.transpose(-1,-2); A.permute(1,0); A.reshape(-1); A.view(6); A.view(-1,2); A.t().reshape(6);
A.t().contiguous(); A.clone().t_(); A.clone().transpose_(0,1); A.clone().transpose_(-1,0); x.clone().unsqueeze_(0);
x.clone().unsqueeze_(-1); C[:1].clone().squeeze_(); C[:1].clone().squeeze_(0); C[:1].clone().squeeze_((0,));
A.as_strided((2,2),(1,2)); A.clone().as_strided_((2,2),(1,2)); x.scatter_reduce(0,i,y,"sum"); A.flatten();
x.scatter_reduce(0,i,y,"amax",include_self=False); x.index_reduce(0,i,y,"prod");
C.flatten(1); x.unsqueeze(0); x.unsqueeze(-1); A.unsqueeze(1);
x.unsqueeze(0).squeeze(); x.unsqueeze(0).squeeze(0); C[:1].squeeze(0); x.expand(2,3); A.expand_as(C[...,0]); x[0];
x[-1]; x[1:]; x[::2]; x[None]; x[...]; x[i]; x[b]; A[0,1]; A[:,1]; A[i[:2]%2]; A[:,i]; A[i[:2]%2,i[:2]]; C[0,...,1];
A[b[:2]]; x.sum(0); A.sum(1); A.sum((0,1)); A.sum(1,keepdim=True); A.sum(-1); A.mean(1); A.mean(0,True); A.prod(1);
A.max(1); A.min(0); A.argmax(1); A.argmin(); A.any(1); A.all(); A.amax(1); A.amin((0,1)); A.var(1); A.std();
A.std(0,unbiased=False); torch.var_mean(A); torch.std_mean(A,1); A.norm(); A.norm(1); A.norm(2,1); A.median(1);
A.median(); A.nanmedian(1); A.sort(); A.sort(0,True); A.argsort(); A.topk(2); A.cumsum(1); A.nanmedian(); A.cumprod(0);
A.logsumexp(1); A.softmax(-1); F.softmax(A,1); F.relu(x); F.log_softmax(A,1); torch.cat([x,y]); torch.cat([A,A],1);
torch.stack([x,y]); torch.stack([x,y],1); A.split(1); A.split([1,2],1); A.chunk(2,1); A.unbind(1); torch.where(b,x,y);
torch.where(b,x,0.); torch.where(b,1.,y); x.clamp(0.2,0.5); x.clamp(min=0.3); x.clamp(max=y); x.clamp(n,y); x.clone();
x.detach(); x.double(); x.float(); x.to(torch.float32); k.double(); x.type_as(k); x.long(); x.masked_fill(b,0.);
x.masked_fill(b,torch.tensor(1.,dtype=torch.float64)); x.masked_select(b); A.gather(1,i[None]); A.index_select(1,i);
x.index_add(0,i,y); x.index_copy(0,i,y); x.index_fill(0,i,2.); x.scatter(0,i,y); x.scatter(0,i,2.);
x.scatter_add(0,i,y); x.take(i); A.take_along_dim(i[None],1); A.diagonal(); A.diag(); x.diag(); S.trace(); S.tril();
S.triu(1); A.flip(0); A.roll(1,0); A.roll(1); A.repeat(2,1); A.tile(2); x.repeat_interleave(2); A.swapaxes(0,1);
C.movedim(0,2); A.ravel(); A.unflatten(1,(3,1)); torch.broadcast_to(x,(2,3)); torch.meshgrid(x,y,indexing='ij'); A@B;
A@x; x@B; C@C.mT; C@x[:2].new_ones(4); torch.mm(A,B); torch.mv(A,x); torch.bmm(C,C.mT); torch.addmm(A[:,:2],A,B);
torch.matmul(C,C[0].t()); torch.einsum('ij,jk->ik',A,B); torch.outer(x,y); F.linear(A,S); F.linear(A,S,x);
F.linear(C,C[0]); F.linear(C,A.mT.reshape(3,2)[:,:1].expand(3,4),x); F.mse_loss(x,y); F.mse_loss(x,y,reduction='sum');
F.nll_loss(A,i[:2]); F.cross_entropy(A,i[:2]); torch.lerp(x,y,0.5); torch.lerp(x,y,n); torch.addcmul(x,y,y);
torch.addcdiv(x,y,y,value=2); torch.complex(n,n); torch.view_as_complex(torch.view_as_real(z));
z.real; z.imag; z.conj(); z.abs(); z.angle(); torch.dist(x,y);
torch.isclose(x,y); torch.equal(x,y); torch.allclose(x,y); torch.isin(k,k); x.round(decimals=1); x.square(); x.rsqrt();
torch.add(x,y,alpha=2); torch.sub(x,y,alpha=2); bool(x[0]>0); float(x[0]); int(k[0]); [r for r in A]; 1. in x; k.sum();
k.sum(0); k.float().mean(); k.prod(); x.sum(dtype=torch.float32); A.select(0,1); A.narrow(1,0,2);
A.select_scatter(x,0,1); A.movedim(0,1); A.unsafe_split(1); A.tensor_split(2,1); !n.sin_(); !n.mul_(2); !n.add_(n);
!n.add_(n,alpha=2); !n.sub_(1); !n.div_(2); !n.pow_(2); !n.copy_(x.detach()); !n.fill_(1); !n.zero_(); !n[0]=1.;
!n[0]=n[1]; !n[b]=0.; !m[:,1]=2.; !m[0]=n; !n.clamp_(0.2,0.5); !n.clamp_(min=0.1); !n.relu_(); !n.masked_fill_(b,0.);
!n.index_add_(0,i,n.clone()); !n.index_fill_(0,i,1.); !n.scatter_(0,i,1.); !n.exp_(); !n+=1; !n*=n; !n-=2; !n/=2;
!n**=2; !n.uniform_(); !n.normal_(); !n.bernoulli_(0.5); !n.eq_(n); !n.lerp_(n,0.5); !n.addcmul_(n,n); !m.tril_();
!torch.sin(n,out=O); !torch.add(n,n,out=O); !torch.mul(n,2,out=O); !torch.sum(m,1,out=O[:2]);
!torch.cat([n[:1],n[1:]],out=O); !torch.max(m,1,out=(O[:2],k[:2])); !torch.matmul(m,n,out=O[:2]); !n.view(3).mul_(2);
!n[0].mul_(2); !n.detach().add_(1); !n.requires_grad_(); !n.logical_not_(); !n.round_(); !n.index_copy_(0,i,n.clone());
!n.detach_(); !n.remainder_(2); !n.floor_divide_(2); !k.bitwise_and_(1); x.sum().item(); !n[i]=y.detach(); x.mul(1);
S.scatter_add(1,j,S); C.mean((0,1)); torch.nonzero(b,as_tuple=True); F.nll_loss(C,h); x.squeeze((0,));
A.unsafe_split_with_sizes([1,2],1); !n.random_(3); !n.exponential_(); x.bernoulli(); A.nansum(); torch.lerp(x,y,y);
A.any((0,1)); A.all(1); torch.cumsum(A,1); torch.zeros(2); torch.zeros((2,3),dtype=torch.float64);
torch.zeros(2,requires_grad=True); torch.ones(2,3); torch.full((2,),1.5); torch.empty(2); torch.tensor([1.,2.]);
torch.as_tensor([1.,2.]); torch.arange(3); torch.arange(1,5); torch.arange(1.,5.,2.); torch.linspace(0,1,3);
torch.logspace(0,1,3); torch.eye(2); torch.eye(2,3); torch.rand(2); torch.randn((2,3)); torch.randperm(3);
torch.randint(3,(2,)); torch.randint(1,3,(2,)); torch.full_like(x,2.); torch.ones_like(x,dtype=torch.float32);
torch.empty_like(x); torch.rand_like(x); torch.randn_like(x); torch.randint_like(x,3); x.new_zeros(2);
x.new_full((2,),1.); x.new_empty(2); x.new_tensor([1.]); torch.empty_strided((2,),(1,)); torch.normal(0.,1.,(2,));
torch.normal(n,n); torch.multinomial(n,1); torch.LongTensor([1]); torch.scalar_tensor(2.); complex(n[0]); n.numpy()
""".strip()
    .replace(";\n", "; ")
    .split("; ")
) + layer_expressions.EXPRESSIONS
"""Functions of the values of `scope`; ``!`` stands before statements."""


def scope(torch: ModuleType) -> dict[str, Any]:
    """Return what the expressions compute with."""

    def leaf(*shape: int, seed: int = 0) -> Any:
        drawn = np.random.default_rng(seed + sum(shape)).uniform(0.1, 0.9, shape)
        return torch.from_numpy(drawn).requires_grad_()

    def constant(values: Any) -> Any:
        return torch.from_numpy(np.array(values))

    return {
        "torch": torch, "F": importlib.import_module(f"{torch.__name__}.nn.functional"),
        "x": leaf(3), "y": leaf(3, seed=1),
        "A": leaf(2, 3), "B": leaf(3, 2), "S": leaf(3, 3), "C": leaf(2, 3, 4),
        "n": leaf(3).detach(),
        "m": leaf(2, 3).detach(), "i": constant([0, 2, 1]), "j": constant([[0, 2, 1]]),
        "h": constant([[0, 2, 1, 0]] * 2), "k": constant([3, 1, 2]),
        "b": constant([True, False, True]), "z": constant([1 + 2j, 2 - 1j, 3j]),
        "O": constant([0.0, 0.0, 0.0]),
    } | layer_expressions.scope(torch)  # fmt: skip


def operations(torch: ModuleType, expression: str) -> tuple[list[str], Exception | None]:
    """Return the operations that a mode sees, and what the expression raises."""
    seen: list[str] = []

    class Seeing(
        importlib.import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
    ):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    names = scope(torch)
    with Seeing():
        try:
            exec(expression[1:], names) if expression[0] == "!" else eval(expression, names)
        except Exception as error:
            return seen, error
    return [name for name in seen if name not in _IGNORED], None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS if e not in _OTHERWISE])
def test_operations_are_those_that_pytorch_dispatches(expression: str) -> None:
    """The same overloads in the same order."""
    expected, error = operations(torch, expression)
    assert error is None
    found, error = operations(importlib.import_module("functrace.torch"), expression)
    assert error is None
    assert found == expected


@pytest.mark.filterwarnings("ignore")
def test_the_others_are_other_operations_of_that_name_space() -> None:
    """Listed operations differ from PyTorch's; none raises, and all are named in ``aten``."""
    for expression in _OTHERWISE & set(EXPRESSIONS):
        expected, _ = operations(torch, expression)
        found, error = operations(importlib.import_module("functrace.torch"), expression)
        assert error is None
        assert found != expected
        assert all(name.startswith("aten.") for name in found)


COPIED_OTHERWISE = {
    "refused: the arguments here are alignments, and no lengths": (
        "F.ctc_loss(C.log_softmax(2),k[None,:2].expand(3,2),(2,2,2),(1,1,1))"
    ),
}
"""Expressions that a handler cannot repeat with copies of the arguments, and why."""
_DRAWN = re.compile(
    r"rand|empty|normal|multinomial|bernoulli|exponential|gumbel|drop|poisson|gamma\(|^!|numpy"
)
"""Expressions that draw random numbers anew, and statements."""


@pytest.mark.filterwarnings("ignore")
def test_a_handler_that_passes_copies_gets_the_same_results() -> None:
    """The arguments that a handler gets describe the operation completely: it runs with equal ones."""
    shim = importlib.import_module("functrace.torch")
    differ = {e for several in COPIED_OTHERWISE.values() for e in several.split("; ")}
    found = set()
    for expression in EXPRESSIONS:
        if not _DRAWN.search(expression):
            expected = eval(expression, scope(shim))
            try:
                with copying(shim):
                    made = eval(expression, scope(shim))
            except (NotImplementedError, RuntimeError):
                found.add(expression)
                continue
            if not alike(made, expected):
                found.add(expression)
    assert found == differ


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subject", function_grids.EXPRESSIONS)
def test_copies_give_the_same_results_for_the_grids_of_functions(subject: str) -> None:
    """Options reach the handler, too: rounding, sorting, accumulation, bounds, information."""
    shim = importlib.import_module("functrace.torch")
    names = {"torch": shim, "F": importlib.import_module("functrace.torch.nn.functional")}
    differ = []
    for expression in function_grids.EXPRESSIONS[subject]:
        try:
            expected = eval(expression, names | function_grids.leaves(shim, 0))
        except Exception:  # (a refusal)
            continue
        if _DRAWN.search(expression) or "istft" in expression:
            continue
        with copying(shim):
            made = eval(expression, names | function_grids.leaves(shim, 0))
        if not alike(made, expected):
            differ.append(expression)
    assert differ == []


def copying(library: ModuleType) -> Any:
    """Return a mode whose handler runs operations with copies of the tensors that they only read."""
    pytree = importlib.import_module("functrace").tree
    module = importlib.import_module(f"{library.__name__}.utils._python_dispatch")

    class Copying(module.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if all(argument.alias_info is None for argument in func._schema.arguments):
                copied = lambda x: x.clone() if isinstance(x, library.Tensor) else x
                args, kwargs = pytree.map(copied, (args, kwargs))
            return func(*args, **kwargs)

    return Copying()


def alike(a: Any, b: Any) -> bool:
    """Return True if results are equal, to rounding."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(alike, a, b))
    if not hasattr(a, "detach"):
        return a == b
    first, second = (x.detach().resolve_conj().numpy() for x in (a, b))
    same = (first.shape, first.dtype) == (second.shape, second.dtype)
    return same and np.allclose(first, second, 1e-9, 1e-9, equal_nan=True)


UNREACHED = {"SearchsortedBackward0": "it searches among traced values only"}
"""Ops that no expression applies, and why."""


@pytest.mark.filterwarnings("ignore")
def test_every_op_of_a_row_is_among_the_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each op that a function applies is applied by an expression, and is an overload of ``aten``."""
    shim = importlib.import_module("functrace.torch")
    dispatch = importlib.import_module("functrace.torch.dispatch.modes")
    applied: dict[str, str] = {}
    described = dispatch.described

    def noting(op: Op, *given: Any, **options: Any) -> Any:
        found = described(op, *given, **options)
        applied[op.node] = str(found[0])
        return found

    monkeypatch.setattr(dispatch, "described", noting)
    for expression in EXPRESSIONS:
        operations(shim, expression)
    assert {name for name in applied.values() if not name.startswith("aten.")} == set()
    missing = {op.node for op in ops_of_rows()} - set(applied)
    assert missing == set(UNREACHED)


def ops_of_rows() -> Iterator[Op]:
    """Yield the ops that the functions of rows apply, as far as they hold them."""
    for row in (row for table in TABLES for row in table):
        for function in (row.function, row.in_place):
            cells = getattr(function, "__closure__", None) or ()
            named = getattr(function, "__code__", None)
            names = () if named is None else named.co_names
            found = [cell.cell_contents for cell in cells] + [
                getattr(function, "__globals__", {}).get(name) for name in names
            ]
            yield from (one for one in (row.op, *found) if isinstance(one, Op))


def test_schemas_are_those_of_pytorch() -> None:
    """The lines are what the installed PyTorch says."""
    assert PATH.read_text().splitlines() == list(schemas())


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sum",
        "mul_",
        "max",
        "index",
        "split",
        "to",
        "pow",
        "empty",
        "clone",
        "var",
        "embedding",
    ],
)
def test_schemas_are_read_as_pytorch_reads_them(name: str) -> None:
    """Names, types, defaults and aliases of arguments and results."""
    ours, theirs = (
        getattr(m.ops.aten, name) for m in (importlib.import_module("functrace.torch"), torch)
    )
    for overload in ours.overloads():
        facts = [
            [
                [
                    (
                        a.name,
                        str(a.type),
                        a.default_value,
                        a.has_default_value(),
                        a.kwarg_only,
                        a.is_out,
                    )
                    + (
                        (a.alias_info.is_write, set(a.alias_info.before_set))
                        if a.alias_info is not None
                        else ()
                    )
                    for a in arguments
                ]
                for arguments in (schema.arguments, schema.returns)
            ]
            for schema in (getattr(packet, overload)._schema for packet in (ours, theirs))
        ]
        assert facts[0] == facts[1]
