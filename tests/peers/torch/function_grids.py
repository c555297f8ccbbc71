"""Expressions of the functions of ``torch``, `Tensor`, ``torch.linalg``, ``torch.special`` and
``torch.fft``, and what is compared of each: results, nodes, gradients and their gradients.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

EXPRESSIONS: dict[str, list[str]] = {
    "special and arithmetic": [
        "x.frac()", "n.frac()", "torch.deg2rad(x)", "torch.rad2deg(x)", "torch.sinc(n)",
        "torch.erf(n)", "torch.erfc(n)", "torch.erfinv(n)", "torch.lgamma(x)", "torch.lgamma(n)",
        "torch.digamma(x)", "torch.digamma(n)", "torch.i0(n)", "torch.logit(x)", "torch.logit(n)",
        "torch.logit(x,0.3)", "torch.nan_to_num(x)", "torch.nan_to_num(x/0)",
        "torch.conj_physical(z)", "torch.square(x)", "torch.conj_physical(x)",
        "torch.copysign(x,n)", "torch.copysign(n,2.)", "torch.copysign(n,-0.)",
        "torch.nextafter(x,y)", "torch.heaviside(n,y)", "torch.heaviside(n*0,y)",
        "torch.xlogy(x,y)", "torch.xlogy(2.,y)", "torch.xlogy(x,2.)", "torch.xlogy(x*0,y)",
        "torch.ldexp(x,y)", "torch.ldexp(x,i)", "torch.ldexp(i,i)", "torch.float_power(x,y)",
        "torch.float_power(x,2)", "torch.float_power(2,x)", "torch.float_power(z,2)",
        "torch.float_power(i,2.5)", "torch.igammac(2.,y)", "torch.logaddexp2(x,y)",
        "torch.frexp(n)", "torch.frexp(i)", "torch.polygamma(1,x)", "torch.polygamma(0,x)",
        "torch.polygamma(3,x)", "torch.polygamma(-1,x)", "x.polygamma(2)",
        "torch.mvlgamma(x+3,2)", "x.mvlgamma(1)", "torch.polar(x,y)", "torch.polar(x,y.float())",
        "torch.polar(i,i)", "torch.view_as_complex(x[:,:2].contiguous())",
        "torch.clamp_min(x,0.4)", "torch.clamp_min(x,y)", "torch.clamp_max(x,0.4)",
        "torch.clamp_max(x,y)", "torch.clip(x,0.3,0.4)", "x.clamp_min(0.5)",
        "x.clone().clamp_min_(.5)", "x.clone().clamp_max_(.5)", "x.clone().clamp_max_(y)",
        "torch.clamp_min(i,1.5)", "torch.clamp_min(i>0,1)", "torch.clamp_min(z,1)",
        "torch.special.airy_ai(x)", "torch.special.bessel_j0(x)", "torch.special.bessel_j1(x)",
        "torch.special.bessel_y0(x)", "torch.special.bessel_y1(x)", "torch.special.entr(x)",
        "torch.special.entr(n)", "torch.special.erfcx(x)", "torch.special.expit(x)",
        "torch.special.i0e(n)", "torch.special.i1(n)", "torch.special.i1e(n)",
        "torch.special.i1(n*0)", "torch.special.log_ndtr(n)", "torch.special.ndtr(n)",
        "torch.special.ndtri(x)", "torch.special.xlog1py(x,y)", "torch.special.xlog1py(x,2.)",
        "torch.special.xlog1py(2.,x)", "torch.special.zeta(2.,y)", "torch.special.zeta(i+2,y)",
        "torch.special.modified_bessel_i0(x)", "torch.special.modified_bessel_i1(x)",
        "torch.special.modified_bessel_k0(x)", "torch.special.modified_bessel_k1(x)",
        "torch.special.chebyshev_polynomial_t(x,2)", "torch.special.spherical_bessel_j0(n)",
        "torch.special.scaled_modified_bessel_k0(x)",
        "torch.special.scaled_modified_bessel_k1(x)", "torch.special.multigammaln(x+3,2)",
        "torch.special.round(x)", "torch.special.round(x,decimals=1)", "torch.special.gammaln(x)",
        "torch.special.log1p(x)", "torch.special.softmax(x,0)", "torch.special.log_softmax(x,0)",
        "torch.special.logsumexp(x,0)", "torch.special.exp2(x)", "torch.special.expm1(x)",
        "torch.special.psi(x)", "torch.special.erf(x)", "torch.special.erfc(x)",
        "torch.special.erfinv(x)", "torch.special.digamma(x)", "torch.special.i0(x)",
        "torch.special.sinc(x)", "torch.special.logit(x,eps=.1)", "torch.special.polygamma(1,x)",
        "torch.special.xlogy(x,y)", "torch.special.gammainc(2*torch.ones(3,3).double(),x)",
        "torch.special.gammaincc(2*torch.ones(3,3).double(),x)",
        "torch.special.hermite_polynomial_h(x,k)", "torch.special.hermite_polynomial_he(x,k)",
        "torch.special.hermite_polynomial_he(n,5)", "torch.special.laguerre_polynomial_l(n,k)",
        "torch.special.legendre_polynomial_p(n,k)", "torch.special.legendre_polynomial_p(n,3)",
        "torch.special.chebyshev_polynomial_u(n,k)", "torch.special.chebyshev_polynomial_v(n,k)",
        "torch.special.chebyshev_polynomial_w(n,k)", "torch.special.chebyshev_polynomial_w(n,4)",
        "torch.special.chebyshev_polynomial_v(n,0)",
        "torch.special.shifted_chebyshev_polynomial_t(x,k)",
        "torch.special.shifted_chebyshev_polynomial_u(x,k)",
        "torch.special.shifted_chebyshev_polynomial_v(x,k)",
        "torch.special.shifted_chebyshev_polynomial_w(x,3)",
        "torch.special.chebyshev_polynomial_t(.3,k)",
        "torch.special.chebyshev_polynomial_t(n,-1)",
        "torch.special.chebyshev_polynomial_t(n*3,7)", "torch.gcd(i,i+4)", "torch.lcm(i,i+4)",
        "torch.gcd(-i,i+4)", "torch.gcd(i,4)", "torch.isposinf(x)", "torch.isneginf(-1/(x*0))",
        "torch.isreal(z)", "torch.isreal(x)", "torch.is_neg(x)", "torch.is_signed(i)",
        "torch.is_same_size(x,y)", "x.is_nonzero()", "torch.exp_(x.clone())",
        "torch.sin_(x.clone())", "torch.abs_(n.clone())", "torch.neg_(n.clone())",
        "torch.clamp_(x.clone(),.3,.4)", "torch.fill(x,2.)", "torch.fill_(x.clone(),2.)",
        "torch.zero_(x.clone())", "torch.fill(x,x[0,0])", "torch.square_(x.clone())",
        "torch.fix_(x.clone())", "torch.round_(x.clone())", "x.clone().erf_()",
        "x.clone().lgamma_()", "x.clone().digamma_()", "x.clone().i0_()", "x.clone().sinc_()",
        "x.clone().erfinv_()", "x.clone().logit_()", "x.clone().logit_(.3)",
        "x.clone().xlogy_(y)", "x.clone().copysign_(n)", "x.clone().igamma_(y.detach())",
        "x.clone().polygamma_(1)", "x.clone().mvlgamma_(1)", "x.clone().heaviside_(y)",
        "x.clone().nextafter_(y)", "x.clone().frac_()", "x.clone().deg2rad_()",
        "x.clone().nan_to_num_()", "x.clone().ldexp_(y)", "x.clone().float_power_(2)",
        "x.float().float_power_(2)", "z.clone().conj_physical_()", "x.clone().square_()",
        "torch.reciprocal_(x.clone())", "x.clone().reciprocal_()",
    ],
    "linear algebra": [
        "torch.linalg.norm(x)", "torch.linalg.norm(x,2)", "torch.linalg.norm(x,1)",
        "torch.linalg.norm(x,'nuc')", "torch.linalg.norm(x,'fro')", "torch.linalg.norm(v,3)",
        "torch.linalg.norm(x,-2)", "torch.linalg.norm(x,float('inf'))", "torch.linalg.norm(x,-1)",
        "torch.linalg.norm(v,0)", "torch.linalg.norm(v,float('-inf'))",
        "torch.linalg.norm(b,2,dim=(0,2))", "torch.linalg.norm(b,1,dim=(2,0),keepdim=True)",
        "torch.linalg.norm(b,'nuc',dim=(2,0),keepdim=True)", "torch.linalg.norm(b,2,dim=1)",
        "torch.linalg.vector_norm(x,3,dim=1)", "torch.linalg.vector_norm(x,1)",
        "torch.linalg.vector_norm(x,float('inf'),keepdim=True)",
        "torch.linalg.vector_norm(x,dim=(0,1))", "torch.linalg.matrix_norm(x)",
        "torch.linalg.matrix_norm(x,-1)", "torch.linalg.matrix_norm(b,float('inf'))",
        "torch.linalg.matrix_norm(b,2,dim=(0,1))", "torch.linalg.matrix_norm(z)",
        "torch.linalg.matrix_norm(z,1)", "torch.linalg.matrix_norm(z,2)",
        "torch.linalg.vector_norm(z,3)", "torch.linalg.norm(b,2)", "torch.linalg.norm(b)",
        "torch.linalg.norm(i)", "torch.linalg.vector_norm(x.float(),dtype=torch.float64)",
        "torch.linalg.det(x)", "torch.linalg.det(B)", "torch.linalg.det(z)",
        "torch.linalg.slogdet(x)", "torch.linalg.slogdet(B)", "torch.linalg.slogdet(z)",
        "torch.linalg.inv(x)", "torch.linalg.inv(B)", "torch.linalg.inv(z)",
        "torch.linalg.inv_ex(x)", "torch.linalg.solve(x,v)", "torch.linalg.solve(x,y)",
        "torch.linalg.solve(B,y)", "torch.linalg.solve(B,c)", "torch.linalg.solve(x,u)",
        "torch.linalg.solve(x,y,left=False)", "torch.linalg.solve(x,r,left=False)",
        "torch.linalg.solve(x,v,left=False)", "torch.linalg.solve(z,z)",
        "torch.linalg.solve_ex(x,y)", "torch.linalg.lstsq(x,y)", "torch.linalg.lstsq(r,r)",
        "torch.linalg.lstsq(u,c)", "torch.linalg.lstsq(r,u.T,driver='gelsd')",
        "torch.linalg.lstsq(r,u.T,driver='gels')", "torch.linalg.lstsq(B,B)",
        "torch.linalg.lstsq(x,v)", "torch.linalg.cholesky(S)",
        "torch.linalg.cholesky(S,upper=True)", "torch.linalg.cholesky_ex(S)",
        "torch.linalg.cholesky_ex(-S)", "torch.linalg.qr(x)", "torch.linalg.qr(B)",
        "torch.linalg.qr(r)", "torch.linalg.qr(u)", "torch.linalg.qr(x,mode='r')[1]",
        "torch.linalg.qr(r,mode='complete')[1]", "torch.linalg.svdvals(x)",
        "torch.linalg.svdvals(r)", "torch.linalg.svdvals(z)", "torch.linalg.svd(x)[1]",
        "torch.linalg.svd(r)[1]", "torch.linalg.svd(r)[0].abs()",
        "torch.linalg.svd(u)[2][:3].abs()", "torch.linalg.svd(r,full_matrices=False)[2].abs()",
        "torch.linalg.eigvalsh(S)", "torch.linalg.eigvalsh(x)",
        "torch.linalg.eigvalsh(x,UPLO='U')", "torch.linalg.eigh(S)[0]",
        "torch.linalg.eigh(S)[1].abs()", "torch.linalg.eigvals(S).abs()",
        "torch.linalg.eigvals(z).abs()", "torch.linalg.eig(x)[0].abs()",
        "torch.linalg.eig(x)[1].abs()", "torch.linalg.eigvals(x).real.abs()",
        "torch.linalg.pinv(x)", "torch.linalg.pinv(r)", "torch.linalg.pinv(B)",
        "torch.linalg.pinv(S,hermitian=True)", "torch.linalg.pinv(r,rtol=.5)",
        "torch.linalg.pinv(r,atol=.5)", "torch.linalg.pinv(r,rcond=.1)", "torch.pinverse(r)",
        "torch.linalg.matrix_rank(x)", "torch.linalg.matrix_rank(r,tol=1.2)",
        "torch.linalg.matrix_rank(B)", "torch.linalg.matrix_rank(S,hermitian=True)",
        "torch.linalg.matrix_rank(B,atol=.5,rtol=.5)", "torch.linalg.matrix_exp(x)",
        "torch.linalg.matrix_exp(B)", "torch.linalg.matrix_power(x,3)", "torch.linalg.cond(x)",
        "torch.linalg.cond(x,2)", "torch.linalg.cond(x,-2)", "torch.linalg.cond(B,1).detach()",
        "torch.linalg.cond(B,'fro').detach()", "torch.linalg.cond(x,'nuc').detach()",
        "torch.linalg.cond(x*0,1).detach()", "torch.linalg.multi_dot([x,y,x])",
        "torch.linalg.multi_dot([v,y,x])", "torch.linalg.multi_dot([x,y])",
        "torch.linalg.multi_dot([c.T,x,y,r.T])", "torch.linalg.multi_dot([v,x,w])",
        "torch.linalg.cross(x,y)", "torch.linalg.cross(b,x[None])",
        "torch.linalg.cross(x,v[None])", "torch.linalg.cross(z,z.conj())",
        "torch.linalg.solve_triangular(x,y,upper=True)",
        "torch.linalg.solve_triangular(x,y,upper=False)",
        "torch.linalg.solve_triangular(x,y,upper=True,left=False)",
        "torch.linalg.solve_triangular(B,y,upper=True,unitriangular=True)",
        "torch.linalg.solve_triangular(x*0,y,upper=True).detach()", "torch.linalg.lu(x)",
        "torch.linalg.lu(B)", "torch.linalg.lu(r)", "torch.linalg.lu(u)",
        "torch.linalg.lu_factor(x)", "torch.linalg.lu_factor(B)", "torch.linalg.lu_factor_ex(x)",
        "torch.linalg.lu_factor_ex(x*0)", "torch.linalg.lu_solve(*torch.linalg.lu_factor(x),y)",
        "torch.linalg.lu_solve(*torch.linalg.lu_factor(x),y,left=False)",
        "torch.linalg.lu_solve(*torch.linalg.lu_factor(x),y,adjoint=True)",
        "torch.linalg.lu_solve(*torch.linalg.lu_factor(B),y,adjoint=True,left=False)",
        "torch.linalg.ldl_factor(S.detach())",
        "torch.linalg.ldl_factor((S-3*torch.eye(3)).detach())",
        "torch.linalg.ldl_factor_ex(B.detach())",
        "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(S.detach()),y.detach())",
        "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(B.detach()),y.detach())",
        "torch.linalg.householder_product(x,v)", "torch.linalg.householder_product(r,v)",
        "torch.linalg.householder_product(r,v[:2])", "torch.linalg.tensorinv(x,1)",
        "torch.linalg.tensorsolve(x,v)", "torch.linalg.vander(v)", "torch.linalg.vander(x,N=4)",
        "torch.linalg.vander(i)", "torch.linalg.vecdot(x,y)", "torch.linalg.vecdot(z,z)",
        "torch.linalg.vecdot(x,y,dim=0)", "torch.linalg.diagonal(b)", "torch.linalg.matmul(x,y)",
        "torch.cholesky(S)", "torch.cholesky(S,True)", "torch.inverse(x)", "torch.det(x)",
        "torch.logdet(S)", "torch.logdet(-S)", "torch.slogdet(x)", "torch.svd(r)[1]",
        "torch.qr(r)", "torch.pinverse(x)", "torch.lu(x)", "torch.lu(x,get_infos=True)",
        "torch.cholesky_inverse(x)", "torch.cholesky_inverse(x,True)",
        "torch.cholesky_solve(y,x)", "torch.cholesky_solve(y,x,True)",
        "torch.cholesky_solve(y,B)", "torch.triangular_solve(y,x)",
        "torch.triangular_solve(y,x,upper=False)", "torch.triangular_solve(y,x,transpose=True)",
        "torch.lu_solve(y,*torch.linalg.lu_factor(x))",
        "torch.lu_unpack(*torch.linalg.lu_factor(x))",
        "torch.lu_unpack(*torch.linalg.lu_factor(r))", "torch.geqrf(r.detach())",
        "torch.geqrf(u.detach())", "torch.orgqr(x,v)", "torch.ormqr(r,v,r)",
        "torch.ormqr(r,v,u,left=False)", "torch.ormqr(r,v,r,transpose=True)",
        "torch.matrix_exp(x)", "torch.matrix_power(x,2)", "torch.matrix_power(x,-2)",
        "torch.matrix_power(x,1)", "torch.matrix_power(x,5)", "torch.matrix_power(x,4)",
        "torch.chain_matmul(x,y,x)", "torch.cross(x,y,dim=1)", "torch.cross(x,y)",
        "torch.adjoint(x)", "torch.adjoint(z)", "x.mH", "z.mH", "x.det()", "x.inverse()",
        "x.logdet()", "x.slogdet()", "x.pinverse()", "x.matrix_exp()", "x.matrix_power(2)",
        "S.cholesky()", "x.qr()", "x.cross(y,1)", "y.cholesky_solve(x)", "x.adjoint()",
        "r.svd()[1]", "x.lu()", "torch.svd(r)[2].abs()", "torch.svd(r,some=False)[0][:,:3].abs()",
    ],
    "arrangements and products": [
        "torch.tensordot(x,y,1)", "torch.tensordot(x,y)", "torch.tensordot(x,y,0)",
        "torch.tensordot(b,x,([1,2],[0,1]))", "torch.tensordot(b,x,([2],[1]))",
        "torch.tensordot(x,y,-1)", "torch.tensordot(x,i,1)", "torch.tensordot(v,w,1)",
        "torch.kron(x,y)", "torch.kron(v,x)", "torch.kron(r,u)",
        "torch.inner(x,y)", "torch.inner(v,w)", "torch.inner(b,x)", "torch.inner(v[0],x)",
        "torch.outer(v,w)", "torch.vdot(v,w)", "torch.vdot(z[0],z[1])", "torch.addbmm(x,b,b)",
        "torch.addbmm(x,b,b,beta=2,alpha=.5)", "torch.baddbmm(b,b,b)",
        "torch.baddbmm(b,b,b,beta=2,alpha=3)", "torch.baddbmm(x,b,b)",
        "torch.baddbmm(b,b,b,beta=0)", "torch.addmv(v,x,w)", "torch.addmv(v,x,w,beta=.5,alpha=2)",
        "torch.addmv(v[0],x,w)", "torch.addr(x,v,w)", "torch.addr(x,v,w,beta=0,alpha=2)",
        "torch.addmm(x,x,y,beta=2,alpha=3)", "torch.addmm(x,x,y)", "torch.addmm(v,x,y,beta=0)",
        "x.addmm(x,y)", "x.clone().addmm_(x,y,alpha=2)", "b.clone().baddbmm_(b,b)",
        "x.clone().addbmm_(b,b)", "v.clone().addmv_(x,w)", "x.clone().addr_(v,w)",
        "torch.block_diag(x,y)", "torch.block_diag(v,c,v[0])", "torch.block_diag(x,i)",
        "torch.cartesian_prod(v,w)", "torch.cartesian_prod(v)", "torch.cartesian_prod(v,w,v)",
        "torch.combinations(v,2)", "torch.combinations(v,3)", "torch.combinations(v,2,True)",
        "torch.combinations(w,1)", "torch.cov(x)", "torch.cov(v)", "torch.cov(x,correction=0)",
        "torch.cov(x,fweights=i+1)", "torch.cov(x,aweights=v)",
        "torch.cov(x,fweights=i+1,aweights=v)", "torch.cov(z)", "torch.corrcoef(x)",
        "torch.corrcoef(v)", "torch.corrcoef(r)", "torch.hstack([x,y])", "torch.hstack([v,w])",
        "torch.hstack([v[0],w[0]])", "torch.vstack([v,w])", "torch.vstack([x,y])",
        "torch.vstack([x,v])", "torch.row_stack([x,v])", "torch.dstack([x,y])",
        "torch.dstack([v,w])", "torch.column_stack([v,x])", "torch.column_stack([v[0],w[0]])",
        "torch.concat([x,y])", "torch.concatenate([x,y],1)", "torch.hsplit(x,3)",
        "torch.hsplit(v,3)", "torch.hsplit(v,[1])", "torch.vsplit(x,3)", "torch.dsplit(b,3)",
        "torch.dsplit(b,[1,2])", "x.hsplit(3)", "x.hsplit([2])", "torch.atleast_1d(x)",
        "torch.atleast_1d(v[0])", "torch.atleast_2d(v)", "torch.atleast_3d(x)",
        "torch.atleast_3d(v)", "torch.atleast_2d(v,x)", "torch.atleast_2d([v,x])",
        "x.broadcast_to(2,3,3)", "torch.broadcast_shapes((2,1),(3,))", "x.unfold(1,2,1)",
        "x.unfold(0,2,2)", "b.unfold(1,3,1)", "v.unfold(0,2,1)", "v[0].unfold(0,1,1)",
        "x.T.unfold(0,2,1)", "torch.rot90(x)", "torch.rot90(x,2)", "torch.rot90(x,3)",
        "torch.rot90(x,-1)", "torch.rot90(b,1,[1,2])", "torch.rot90(r,1,[1,0])", "torch.diff(x)",
        "torch.diff(x,2)", "torch.diff(x,prepend=x)", "torch.diff(x,append=x,dim=0)",
        "torch.diff(x,0)", "torch.diff(x,5)", "torch.diff(x>.5)", "torch.diff(i)",
        "torch.gradient(x)", "torch.gradient(x,spacing=2.)", "torch.gradient(x,edge_order=2)",
        "torch.gradient(v,spacing=(w,))", "torch.gradient(x,spacing=(v,w))",
        "torch.gradient(x,spacing=(v,w),edge_order=2)",
        "torch.gradient(x,spacing=(2.,.5),dim=(0,1))", "torch.gradient(x,dim=1)",
        "torch.gradient(i*1.)", "torch.trapezoid(x)", "torch.trapezoid(x,y)",
        "torch.trapezoid(x,v)", "torch.trapezoid(x,dx=2.)", "torch.trapezoid(x,dim=0)",
        "torch.trapezoid(r,v.new_tensor([1.,2.,4.,5.]),dim=0)", "torch.trapz(x,v)",
        "torch.trapz(x,dx=3)", "torch.cumulative_trapezoid(x)", "torch.cumulative_trapezoid(x,y)",
        "torch.cumulative_trapezoid(x,v,dim=0)", "torch.cumulative_trapezoid(x,dx=2.)",
        "torch.logcumsumexp(x,1)", "torch.logcumsumexp(n,0)", "torch.logcumsumexp(v[0],0)",
        "torch.cummax(n,1)", "torch.cummin(n,0)", "torch.cummax(i,0)", "torch.cummax(j,0)",
        "torch.cummin(j,0)", "torch.cummax(v[0],0)", "torch.cummax(j>1,0)", "x.sum_to_size(1,3)",
        "x.sum_to_size(3)", "b.sum_to_size(3,3)", "b.sum_to_size(1,3,1)", "x.sum_to_size(3,3)",
        "torch.vander(v).detach()", "torch.vander(v,5,True).detach()", "torch.vander(i)",
        "torch.diagflat(v)", "torch.diagflat(x,1)", "torch.nanmean(x)", "torch.nanmean(x/0*0)",
        "torch.nanmean(x,1)", "torch.nanmean(torch.where(x>.5,x,float('nan')),1,True)",
        "torch.unravel_index(i+4,(2,4))", "torch.chain_matmul(x,y)",
    ],
    "searches and statistics": [
        "torch.kthvalue(x,2)", "torch.kthvalue(n,2,0,True)", "torch.kthvalue(v,1)",
        "torch.kthvalue(v[0],1)", "torch.kthvalue(v,4)", "torch.mode(x)", "torch.mode(j)",
        "torch.mode(k,0)", "torch.mode(k,1,True)", "torch.mode(n.round(),0)", "torch.mode(j>1)",
        "torch.msort(x)", "torch.quantile(x,0.3)", "torch.quantile(x,v,dim=1)",
        "torch.quantile(x,v,dim=0,keepdim=True)", "torch.quantile(x,v)",
        "torch.quantile(x,.5,keepdim=True)", "torch.quantile(b,.2,dim=1)",
        "torch.quantile(b,v,dim=1)", "torch.quantile(b,v,dim=0,keepdim=True)",
        "torch.quantile(x,.3,interpolation='lower')",
        "torch.quantile(x,.3,interpolation='higher')",
        "torch.quantile(x,.3,interpolation='midpoint')",
        "torch.quantile(x,.3,interpolation='nearest')",
        "torch.quantile(torch.where(x>.7,float('nan'),x),.3,dim=1)", "torch.nanquantile(x,0.3)",
        "torch.nanquantile(torch.where(x>.5,float('nan'),x),.3,dim=1)",
        "torch.nanquantile(torch.where(x>.5,float('nan'),x),.3)", "torch.quantile(x,1.5)",
        "torch.quantile(i,.5)", "torch.aminmax(x)", "torch.aminmax(x,dim=1)",
        "torch.aminmax(x,dim=0,keepdim=True)", "torch.aminmax(k*1.)", "torch.aminmax(i)",
        "torch.aminmax(v[0])", "torch.histc(n)", "torch.histc(n,4)", "torch.histc(n,4,-.5,.5)",
        "torch.histc(n,3,0,0)", "torch.histc(i*1.,3)", "torch.histogram(n,4)",
        "torch.histogram(n,4,range=(-.5,.5))", "torch.histogram(n,v.detach().sort()[0])",
        "torch.histogram(n,4,weight=x)", "torch.histogram(n,4,density=True)",
        "torch.histogramdd(r.detach(),[2,3,2])", "torch.histogramdd(r.detach(),3)",
        "torch.bincount(i)", "torch.bincount(j)", "torch.bincount(j,minlength=7)",
        "torch.bincount(j,weights=torch.arange(5.))", "torch.bincount(j,weights=j)",
        "torch.bincount(j[:0])", "torch.unique(j)", "torch.unique(j,return_inverse=True)",
        "torch.unique(j,True,True,True)", "torch.unique(k,dim=0)",
        "torch.unique(k,dim=1,return_inverse=True,return_counts=True)", "torch.unique(k)",
        "torch.unique(k,return_inverse=True)", "torch.unique(n.detach())",
        "torch.unique(n.detach()/0*0)", "torch.unique_consecutive(j)",
        "torch.unique_consecutive(j,True,True)",
        "torch.unique_consecutive(k,dim=0,return_inverse=True,return_counts=True)",
        "torch.unique_consecutive(k,True,True)", "torch.searchsorted(v.sort()[0],x)",
        "torch.searchsorted(x.sort()[0],y)", "torch.searchsorted(v.sort()[0],.4)",
        "torch.searchsorted(torch.tensor([0,1,2,3]),j,right=True)",
        "torch.searchsorted(torch.tensor([0,1,2,3]),j,side='right',out_int32=True)",
        "torch.searchsorted(v,x,sorter=v.argsort())", "torch.bucketize(x,v.sort()[0])",
        "torch.bucketize(.4,v.sort()[0],right=True)", "torch.bucketize(j,torch.tensor([1,3]))",
        "torch.argwhere(n>0)", "torch.argwhere(j)", "torch.nonzero_static(j,size=6)",
        "torch.nonzero_static(n>0,size=2,fill_value=7)", "x.kthvalue(1)", "j.unique()",
        "j.bincount()", "n.histc(5)", "x.quantile(.5)", "x.aminmax()", "x.msort()", "j.mode()",
        "j.unique_consecutive()", "n.argwhere()", "torch.kthvalue(x,2,dim=0)[0]",
        "torch.cummax(x,0)[0]",
    ],
    "Fourier transforms": [
        "torch.fft.fft(x)", "torch.fft.fft(x,n=2)", "torch.fft.fft(x,n=5,dim=0,norm='ortho')",
        "torch.fft.ifft(z)", "torch.fft.ifft(x)", "torch.fft.fft(z)", "torch.fft.rfft(x)",
        "torch.fft.rfft(r,n=6,dim=0,norm='forward')", "torch.fft.irfft(z)",
        "torch.fft.irfft(z,n=3,norm='ortho')", "torch.fft.irfft(x)", "torch.fft.hfft(z)",
        "torch.fft.hfft(z,n=5,norm='ortho')", "torch.fft.hfft(z,norm='forward')",
        "torch.fft.ihfft(x)", "torch.fft.ihfft(x,norm='ortho')", "torch.fft.fft2(x)",
        "torch.fft.fft2(z)", "torch.fft.ifft2(z)", "torch.fft.rfft2(b)", "torch.fft.irfft2(z)",
        "torch.fft.irfft2(z,s=(3,3))", "torch.fft.rfftn(x)", "torch.fft.rfftn(b,dim=(0,2))",
        "torch.fft.irfftn(z)", "torch.fft.irfftn(z,s=(2,3))", "torch.fft.hfftn(z)",
        "torch.fft.hfft2(z)", "torch.fft.hfft2(z,s=(4,5),norm='ortho')", "torch.fft.ihfftn(x)",
        "torch.fft.ihfft2(b)", "torch.fft.fftn(b)", "torch.fft.fftn(b,s=(2,2),norm='forward')",
        "torch.fft.fftn(b,s=(2,-1))", "torch.fft.ifftn(z,dim=(1,0))", "torch.fft.fftn(x,dim=())",
        "torch.fft.fft(i)", "torch.fft.fft(x.float())", "torch.fft.fft(x.half())",
        "torch.fft.fft(v[0])", "torch.fft.fft(x,norm='foo')", "torch.fft.fft(x,n=0)",
        "torch.fft.rfft(z)", "torch.fft.rfftn(z)", "torch.fft.fft2(x,s=(2,))",
        "torch.fft.fftn(x,s=(2,2,2))", "torch.fft.fft2(x,dim=(0,0))", "torch.fft.rfftn(x,dim=())",
        "torch.fft.fftshift(x)", "torch.fft.ifftshift(x)", "torch.fft.fftshift(r,dim=0)",
        "torch.fft.ifftshift(r,dim=(0,1))", "torch.fft.fftfreq(5)", "torch.fft.fftfreq(4,.5)",
        "torch.fft.rfftfreq(5,.1)", "torch.fft.fftfreq(6,dtype=torch.float64)",
        "torch.fft.fftfreq(5,dtype=torch.int64)",
        "torch.stft(b.reshape(2,9),4,return_complex=True)",
        "torch.stft(b.reshape(18),4,return_complex=True,hop_length=2)",
        "torch.stft(b.reshape(2,9),4,return_complex=False)",
        "torch.stft(b.reshape(2,9),4,2,3,window=v,return_complex=True)",
        "torch.stft(b.reshape(2,9),4,center=False,normalized=True,onesided=False,return_complex=True)",
        "torch.stft(b.reshape(2,9),4)",
        "torch.stft(b.reshape(2,9),4,pad_mode='constant',return_complex=True)",
        "torch.istft(torch.stft(b.reshape(2,9),4,return_complex=True),4)",
        "torch.istft(torch.stft(b.reshape(2,9),3,1,window=v,return_complex=True),3,1,window=v)",
        "torch.istft(torch.stft(b.reshape(2,9),3,1,window=v,return_complex=True),3,1,window=v,length=9)",
        "torch.istft(torch.stft(b.reshape(2,9),4,onesided=False,normalized=True,return_complex=True),4,normalized=True)",
        "torch.istft(torch.stft(b.reshape(2,9),4,onesided=False,return_complex=True),4,onesided=False,return_complex=True)",
        "torch.istft(torch.stft(b.reshape(18),4,return_complex=True),4,length=12)",
        "torch.istft(torch.stft(b.reshape(18),4,return_complex=True),4,hop_length=9)",
        "b.reshape(18).stft(4,return_complex=True)", "torch.stft(b,4,return_complex=True)",
        "torch.stft(b.reshape(2,9),4,win_length=5,return_complex=True)",
        "torch.stft(b.reshape(2,9),4,window=v,return_complex=True)",
    ],
    "writes at positions": [
        "x.index_put((i,),y)", "x.index_put((i,i),v,accumulate=True)", "x.index_put((i,i),v)",
        "x.index_put((torch.tensor([0,0]),),v)",
        "x.index_put((torch.tensor([0,0,2]),torch.tensor([1,1,2])),v,True)",
        "x.index_put((x>.5,),v[0])", "x.index_put((torch.tensor([5]),),v)",
        "x.index_put((i,),v.float())", "torch.index_put(b,(torch.tensor([1]),i),v)",
        "x.clone().index_put_((i,),y)", "x.clone().index_put_((i,i),v,accumulate=True)",
        "torch.index_put_(x.clone(),(i,),y)", "x.put(k,y)", "x.put(k,y,True)",
        "x.put(torch.tensor([0,0,4]),v)", "x.put(torch.tensor([0,0,4]),v,True)",
        "x.put(torch.tensor([-1]),v[:1])", "x.put(torch.tensor([9]),v[:1])", "x.put(i,v.float())",
        "x.put(i,v[:2])", "x.clone().put_(k,y)", "x.masked_scatter(x>.4,y)",
        "x.masked_scatter(v>.4,y)", "x.masked_scatter(x>0,v)", "x.masked_scatter(i,v)",
        "x.masked_scatter(x<0,v)", "x.clone().masked_scatter_(x>.5,y)",
        "v.masked_scatter(x>.5,y)", "torch.diagonal_scatter(x,v)",
        "torch.diagonal_scatter(x,v[:2],1)", "torch.diagonal_scatter(x,v[:2],-1)",
        "torch.diagonal_scatter(b,x[:2].T,0,1,2)", "torch.diagonal_scatter(x,v[:2])",
        "torch.select_scatter(x,v,0,1)", "torch.select_scatter(x,v,1,-1)",
        "torch.select_scatter(x,v,0,5)", "torch.select_scatter(x,x,0,1)",
        "torch.slice_scatter(x,y[:2],0,0,2)", "torch.slice_scatter(x,x[:2],0,1)",
        "torch.slice_scatter(x,x[:2],0,0,3,2)", "torch.slice_scatter(x,x)",
        "torch.slice_scatter(x,c,1,-2)", "torch.slice_scatter(x,v)",
        "torch.as_strided_scatter(x,v,(3,),(2,))",
        "torch.as_strided_scatter(x,c[:2],(2,2),(3,1),1)",
        "torch.as_strided_scatter(x,x,(3,),(1,))", "x.clone().fill_diagonal_(2.)",
        "torch.zeros(7,3).fill_diagonal_(1.,wrap=True)", "torch.zeros(7,3).fill_diagonal_(1.)",
        "torch.zeros(3,7).fill_diagonal_(1.)", "torch.zeros(8,3).fill_diagonal_(1.,wrap=True)",
        "torch.zeros(4,3).fill_diagonal_(1.,wrap=True)", "torch.zeros(2,3,3).fill_diagonal_(1)",
        "torch.zeros(3,3,3).fill_diagonal_(1)", "v.clone().fill_diagonal_(1)",
        "torch.renorm(x,2,0,1.)", "torch.renorm(x,2,0,.5)", "torch.renorm(x,1,1,.5)",
        "torch.renorm(b,3,2,1.)", "torch.renorm(v,2,0,1)", "torch.renorm(x,-1,0,1)",
        "torch.renorm(i,2,0,1)", "x.clone().renorm_(2,0,.5)",
        "x.detach().clone().apply_(lambda q:q*2)",
        "x.detach().clone().map_(y.detach(),lambda p,q:p*q)", "x.apply_(lambda q:q)",
    ],
}  # fmt: skip
"""Expressions in the tensors of `leaves`, by subject."""

OTHER_NODES = (
    "lstsq", "tensorinv", "triangular_solve", "torch.quantile", "torch.diff(x,0)", "histogram",
    "fft.ifft(x)", "ihfft", "fft2(x)", "fftn", "stft", "masked_scatter(x<0", "cholesky_ex(-S)",
)  # fmt: skip
"""Parts of expressions whose nodes are others than PyTorch's."""
OTHER_VALUES = ("cholesky_ex(-S)", "fft.fft(x.float())")
"""A factor that is not complete is nan; a sum in single precision has another order."""
OTHER_GRADIENTS = (
    "cholesky_inverse", "cholesky_solve", "as_strided_scatter", "mode='r'", "mode='complete'",
    "igamma_", "heaviside_", "histogram", "lu_factor_ex(x*0)", "cholesky_ex(-S)",
)  # fmt: skip
"""Gradients of the triangle that is read, where PyTorch's of the whole matrix are dense; those that
PyTorch refuses; and as_strided_scatter's, of which PyTorch keeps the elements that are written."""
OTHER_SECOND = ("torch.logit(n)", "stft")
"""Second derivatives outside of a domain; those of linear functions, which are not recorded."""


def leaves(library: ModuleType, seed: int, dtype: str = "float64") -> dict[str, Any]:
    """Return the tensors of the expressions."""
    rng = np.random.default_rng(seed)

    def leaf(array: Any) -> Any:
        return library.from_numpy(np.asarray(array).astype(dtype)).requires_grad_()

    found = {
        "x": leaf(rng.uniform(0.2, 0.8, (3, 3))), "y": leaf(rng.uniform(0.3, 0.8, (3, 3))),
        "v": leaf(rng.uniform(0.3, 0.8, 3)), "w": leaf(rng.uniform(0.3, 0.8, 3)),
        "b": leaf(rng.uniform(0.3, 0.8, (2, 3, 3))),
    }  # fmt: skip
    matrix = rng.uniform(-1, 1, (3, 3))
    found |= {
        "n": leaf(matrix), "S": leaf(matrix @ matrix.T + 2 * np.eye(3)),
        "r": leaf(rng.uniform(-1, 1, (4, 3))), "u": leaf(rng.uniform(-1, 1, (3, 4))),
    }  # fmt: skip
    turned = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    wide = "complex128" if dtype == "float64" else "complex64"
    found["z"] = library.from_numpy(turned.astype(wide)).requires_grad_()
    found["B"] = leaf(rng.normal(size=(2, 3, 3)) + 2 * np.eye(3))
    found["c"] = leaf(rng.normal(size=(3, 2)))
    return found | {
        "i": library.tensor([0, 2, 1]),
        "k": library.tensor([[0, 1, 2], [1, 0, 2], [2, 1, 0]]),
        "j": library.tensor([1, 1, 3, 0, 3]),
    }


@dataclass
class Facts:
    """The results and derivatives of an expression with one of the libraries."""

    error: tuple[str, str] | None = None
    values: list[tuple[str, Any]] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    gradients: list[Any] | str | None = None
    second: list[Any] | str | None = None


def flat(value: Any) -> Iterator[Any]:
    """Yield the parts of nested tuples."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from flat(part)
    else:
        yield value


def _plain(tensor: Any) -> Any:
    return None if tensor is None else np.array(tensor.detach().clone().resolve_conj().numpy())


def _real(library: ModuleType, tensor: Any) -> Any:
    return library.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def facts(name: str, expression: str, seed: int, dtype: str = "float64") -> Facts:
    """Evaluate an expression with a library, and its first and second derivatives."""
    library = importlib.import_module(name)
    given = leaves(library, seed, dtype)
    try:
        results = list(flat(eval(expression, {"torch": library, **given})))
    except Exception as error:
        return Facts(error=(type(error).__name__, str(error).partition("\n")[0]))
    found = Facts()
    total: Any = None
    for result in results:
        if not isinstance(result, library.Tensor):
            found.values.append(("python", result))
            continue
        found.values.append((str(result.dtype).rpartition(".")[2], _plain(result)))
        node = result.grad_fn
        found.nodes.append(str(result.requires_grad) if node is None else type(node).__name__)
        if result.requires_grad:
            parts = _real(library, result).double()
            weights = np.cos(np.arange(parts.numel()) + 1.0).reshape(tuple(parts.shape))
            own = (parts * library.from_numpy(weights)).sum()
            total = own if total is None else total + own
    if total is None:
        return found
    wanted = [x for x in given.values() if x.requires_grad]
    try:
        first = library.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
    except Exception as error:
        found.gradients = type(error).__name__
        return found
    found.gradients = [_plain(g) for g in first]
    again = [(_real(library, g) ** 2).sum() for g in first if g is not None and g.requires_grad]
    if again:
        try:
            second = library.autograd.grad(sum(again), wanted, allow_unused=True)
        except Exception as error:
            found.second = type(error).__name__
        else:
            found.second = [_plain(g) for g in second]
    return found


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Return True if two arrays are equal up to rounding; None is 0."""
    if a is None or b is None:
        return not np.any(b if a is None else a)
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    return a.shape == b.shape and np.allclose(
        a, b, rtol=tolerance, atol=10 * tolerance, equal_nan=True
    )


def differences(expression: str, seed: int, dtype: str = "float64") -> list[str]:
    """Return the differences between PyTorch and the shim."""
    expected, found = (
        facts(name, expression, seed, dtype) for name in ("torch", "functrace.torch")
    )
    if expected.error is not None or found.error is not None:
        if expected.error == found.error:
            return []
        kinds = [None if e is None else e[0] for e in (expected.error, found.error)]
        return [] if kinds == ["TypeError"] * 2 else [f"{expected.error} {found.error}"]
    tolerance = 1e-7 if dtype == "float64" else 3e-4
    report = []
    for (kind, a), (other, b) in zip(expected.values, found.values, strict=True):
        exact = kind == other and (str(a) == str(b) if kind == "python" else same(a, b, tolerance))
        if not exact and not _among(expression, OTHER_VALUES):
            report.append(f"value {kind} {a} {other} {b}")
    if expected.nodes != found.nodes and not _among(expression, OTHER_NODES):
        report.append(f"nodes {expected.nodes} {found.nodes}")
    if not _among(expression, OTHER_GRADIENTS):
        report += _compared("gradient", expected.gradients, found.gradients, tolerance)
        if dtype == "float64" and not _among(expression, OTHER_SECOND):
            report += _compared("second", expected.second, found.second, 10 * tolerance)
    return report


def _among(expression: str, parts: tuple[str, ...]) -> bool:
    return any(part in expression for part in parts)


def _compared(what: str, expected: Any, found: Any, tolerance: float) -> list[str]:
    if isinstance(expected, str) or isinstance(found, str):
        return [] if expected == found else [f"{what} {expected} {found}"]
    pairs = zip(expected or [None] * 12, found or [None] * 12, strict=False)
    return [f"{what} {k}: {a} {b}" for k, (a, b) in enumerate(pairs) if not same(a, b, tolerance)]
