"""Expressions of layers, linear algebra, special functions and transforms, for the test of what
dispatch modes see; and the tensors that they are of.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

OTHERWISE = {
    "made of others in PyTorch": (
        "F.pad(I,(1,1,1,1),mode='circular'); "
        "torch.isreal(x); "
        "torch.isreal(z); "
        "F.one_hot(k); "
        "F.one_hot(k,5); "
        "torch.special.ndtr(x); "
        "torch.linalg.vander(x); "
        "torch.linalg.matrix_power(S,0)"
    ),
    "made of others here: counts, lengths and masks are computed from arrays": (
        "F.ctc_loss(C.log_softmax(2),k[None,:2].expand(3,2),(2,2,2),(1,1,1)); "
        "torch.linalg.matrix_rank(P); "
        "F.gaussian_nll_loss(x,n,y); "
        "F.cross_entropy(A,i[:2],label_smoothing=0.1); "
        "torch.istft(torch.view_as_complex(T[0,:,:,:2].contiguous()),4)"
    ),
    "PyTorch converts a number or reserves memory first": (
        "torch.logdet(P); "
        "F.batch_norm(C,n,n,training=True); "
        "F.batch_norm(C,n,n); "
        "F.batch_norm(I,None,None,U,U,training=True); "
        "F.instance_norm(I); "
        "F.binary_cross_entropy(x,n,n); "
        "F.cosine_similarity(A,B.t())"
    ),
    "PyTorch resolves its lazy conjugate": (
        "torch.fft.hfft(z); torch.fft.hfft2(A); torch.fft.hfftn(A)"
    ),
    "PyTorch writes in place where a result is its own": (
        "F.rms_norm(C,(4,)); "
        "F.rms_norm(C,(4,),U); "
        "F.poisson_nll_loss(x,n,log_input=False,full=True); "
        "F.margin_ranking_loss(x,y,sgn[0]); "
        "F.cosine_embedding_loss(A,B.t(),sgn[:,0]); "
        "F.hinge_embedding_loss(A,sgn); "
        "F.gumbel_softmax(A,hard=True); "
        "torch.linalg.cond(S,1); "
        "torch.stft(Q[0,0],4,return_complex=True)"
    ),
    "PyTorch views a tensor in its own shape": (
        "F.cross_entropy(C,h); torch.linalg.tensorsolve(S,x)"
    ),
}
"""Expressions whose operations are others here, and why."""
_DIFFERENT = [e for several in OTHERWISE.values() for e in several.split("; ")]

EXPRESSIONS = [
    *_DIFFERENT,
    *"""
torch.nan_to_num(x/0,1.,2.,3.); x.index_put((i,),y,accumulate=True);
torch.searchsorted(n,n,right=True,out_int32=True);
torch.div(x,y,rounding_mode='floor'); torch.div(x,y,rounding_mode=None); torch.div(x,2,rounding_mode='trunc');
F.kl_div(x,y); F.kl_div(x,n,log_target=True); F.poisson_nll_loss(x,n); F.poisson_nll_loss(x,n,log_input=False);
torch.addbmm(S,C,C.mT); torch.addbmm(S,C,C.mT,beta=2,alpha=3); torch.addmv(x[:2],A,y); torch.addr(S,x,y);
F.affine_grid(T[:1,:2,:3,0],(1,2,3,3)); torch.aminmax(x); torch.aminmax(A,dim=1);
torch.as_strided_scatter(A,x[:2],(2,),(3,)); torch.baddbmm(C@C.mT,C,C.mT); !n.bernoulli_(n); torch.block_diag(A,B);
torch.cdist(A,S); torch.cdist(A,S,1.); F.celu(x); torch.celu(x,2.); F.channel_shuffle(I,2); torch.linalg.cholesky(P);
torch.cholesky(P); torch.cholesky_inverse(L); torch.cholesky_solve(S,L); torch.clamp_max(x,2); torch.clamp_max(x,y);
torch.clamp_min(x,2); torch.clamp_min(x,y); F.fold(C.reshape(1,6,4)[:,:4],(3,3),2); torch.conj_physical(z);
torch.conj_physical(x); z.resolve_conj(); F.pad(A,(1,1)); F.pad(A,(1,1),value=2.); F.pad(I,(1,1,1,1),mode='reflect');
F.pad(I,(1,1,1,1),mode='replicate'); torch.conv_tbc(C,Wt,U); torch.copysign(x,y); torch.copysign(x,-1.);
torch.cummax(x,0); torch.cummin(A,1); torch.deg2rad(x); torch.rad2deg(x); torch.diagonal_scatter(S,x);
torch.digamma(x); F.elu(x); F.selu(x); F.embedding(i,E); F.embedding_bag(h,E); F.embedding_bag(i,E,k[:1]*0);
torch.erf(x); torch.erfc(x); torch.erfinv(x); torch.special.erf(x); torch.fill(x,2.); torch.fill(x,y[0]);
torch.frac(x); torch.frexp(x); torch.gcd(k,k); torch.geqrf(S); F.glu(C,2); F.hardshrink(x); F.hardsigmoid(x);
F.hardswish(x); F.hardtanh(x); F.relu6(x); F.huber_loss(x,y); F.smooth_l1_loss(x,y); torch.i0(x);
torch.special.gammainc(x,y); torch.special.gammaincc(x,y); torch.igamma(x,y); F.unfold(I,3); x.index_fill(0,i,y[0]);
torch.isneginf(x); torch.isposinf(x); torch.kthvalue(x,2); torch.lcm(k,k); torch.ldexp(x,k); F.leaky_relu(x);
torch.lgamma(x); torch.linalg.cholesky_ex(P); torch.linalg.cross(x,y); torch.cross(x,y); torch.linalg.det(S);
torch.det(S); torch.slogdet(S); torch.linalg.slogdet(S); torch.linalg.eigh(P); torch.linalg.eigvalsh(P);
torch.linalg.eig(S); torch.linalg.eigvals(S); torch.linalg.householder_product(S,x); torch.orgqr(S,x);
torch.linalg.inv(S); torch.inverse(S); torch.linalg.inv_ex(S); torch.linalg.lstsq(S,B); torch.linalg.lu(S);
torch.linalg.lu_solve(*torch.linalg.lu_factor(P),B); torch.linalg.lu_factor(S); torch.linalg.lu_factor_ex(S);
torch.linalg.matrix_exp(S); torch.matrix_exp(S); torch.linalg.qr(S); torch.qr(S); torch.linalg.qr(S,'r');
torch.linalg.solve(S,B); torch.linalg.solve_ex(S,B); torch.linalg.solve(S,x);
torch.linalg.solve_triangular(L,B,upper=False); torch.triangular_solve(B,L,upper=False); F.logsigmoid(x);
torch.logaddexp2(x,y); torch.logcumsumexp(A,1); torch.logit(x); torch.logit(x,0.1); torch.special.expit(x);
torch.lu_unpack(*torch.linalg.lu_factor(S)); x.masked_scatter(b,y); F.mish(x); torch.mode(x); x.mul(2);
F.multilabel_margin_loss(A,h[:,:3]); F.multi_margin_loss(A,i[:2]); torch.mvlgamma(x+2,2);
torch.special.multigammaln(x+2,2); torch.nan_to_num(x); F.dropout(x,0.5); F.dropout(x,0.5,False);
torch.native_dropout(x,0.5,True); torch.dropout(x,0.5,True); F.alpha_dropout(x,0.5,True); F.dropout2d(I,0.5);
torch.nextafter(x,y); A.norm(3,1); A.norm(3); torch.ormqr(S,x,S); F.pdist(A); F.pixel_shuffle(I,2);
F.pixel_unshuffle(T,2); torch.poisson(n); torch.polar(x,y); F.prelu(x,y[:1]); F.prelu(I,U); x.put(i,y);
torch.renorm(A,2,0,1.); torch.rot90(A); torch.searchsorted(n,n); torch.bucketize(n,n); F.silu(x); torch.sinc(x);
torch.special.sinc(x); torch.slice_scatter(x,y[:2],0,0,2); F.soft_margin_loss(A,sgn); F.softplus(x); F.softshrink(x);
torch.special.entr(x); torch.special.erfcx(x); torch.special.i0e(x); torch.special.i1(x); torch.special.i1e(x);
torch.special.log_ndtr(x); torch.special.ndtri(x); torch._standard_gamma(n+1); torch._standard_gamma(x+1);
F.threshold(x,0.1,0.); F.bilinear(A,S[:2],Vb); A.unfold(1,2,1); torch.vdot(x,y); torch.xlogy(x,y); torch.xlogy(x,2.);
torch.xlogy(2.,x); torch.special.xlog1py(x,y); torch.polygamma(1,x); F.conv1d(C,W[:,:3,:,0]); F.conv2d(I,W);
F.conv2d(I,W,y[:2],padding=1); F.conv2d(I,W,padding='same'); F.conv3d(Y,W3); F.conv_transpose1d(Q,W1);
F.conv_transpose2d(I,V); F.conv_transpose3d(Y,V3); F.max_pool1d(C,2); F.max_pool2d(I,2);
F.max_pool2d(I,2,return_indices=True); F.max_pool3d(Y,2); F.avg_pool1d(C,2); F.avg_pool2d(I,2); F.avg_pool3d(Y,2);
F.adaptive_avg_pool1d(C,2); F.adaptive_avg_pool2d(I,2); F.adaptive_avg_pool2d(I,1); F.adaptive_avg_pool3d(Y,1);
F.adaptive_avg_pool3d(Y,2); F.adaptive_max_pool1d(C,2); F.adaptive_max_pool2d(I,2); F.adaptive_max_pool3d(Y,2);
F.lp_pool1d(C,2,2); F.lp_pool2d(I,2,2); F.fractional_max_pool2d(I,2,2);
F.max_unpool1d(*F.max_pool1d(C,2,return_indices=True),2); F.layer_norm(C,(4,)); F.layer_norm(C,(4,),U,U);
F.group_norm(I,2); F.group_norm(I,2,U,U); F.local_response_norm(I,2); F.normalize(A); F.interpolate(I,scale_factor=2);
F.interpolate(I,size=(3,3),mode='bilinear'); F.interpolate(I,scale_factor=2,mode='bicubic');
F.interpolate(C,scale_factor=2); F.interpolate(C,scale_factor=2.,mode='linear');
F.interpolate(Y,scale_factor=2,mode='trilinear'); F.interpolate(I,size=(3,3),mode='area');
F.interpolate(I,scale_factor=2,mode='nearest-exact'); F.interpolate(I,size=(3,3),mode='bilinear',antialias=True);
F.interpolate(I,size=(3,3),mode='bicubic',antialias=True); F.interpolate(Y,scale_factor=2);
F.grid_sample(I,T[:1,:2,:3,:2]); F.upsample(I,scale_factor=2); F.l1_loss(x,y); F.l1_loss(x,y,reduction='none');
F.mse_loss(x,y,reduction='none'); F.binary_cross_entropy(x,n); F.binary_cross_entropy_with_logits(x,n);
F.binary_cross_entropy_with_logits(x,n,n,pos_weight=n); F.multilabel_soft_margin_loss(A,m);
F.triplet_margin_loss(A,A*2,A*3); F.triplet_margin_with_distance_loss(A,A*2,A*3); F.pairwise_distance(A,B.t());
F.cross_entropy(A,m.softmax(1)); F.nll_loss(A,i[:2],n); F.huber_loss(x,y,reduction='none',delta=0.5); F.gelu(x);
F.gelu(x,approximate='tanh'); F.relu(n,True); F.rrelu(x); F.rrelu(x,training=True); F.softsign(x); F.softmin(A,1);
F.tanhshrink(x); F.tanh(x); F.sigmoid(x); F.gumbel_softmax(A); F.hardtanh(n,inplace=True);
torch._masked_softmax(A,A>0,1);
F.leaky_relu(n,inplace=True); F.elu(n,inplace=True); F.threshold(n,0.1,0.,True);
F.scaled_dot_product_attention(T,T,T); F.scaled_dot_product_attention(T,T,T,is_causal=True);
F.embedding(i,E,padding_idx=0); F.embedding(i,E.detach(),max_norm=0.5); F.bilinear(A,B.t(),Vb,y[:2]); F.dropout2d(I);
F.dropout1d(C); F.dropout3d(Y); F.feature_alpha_dropout(I,0.5,True); F.native_channel_shuffle(I,2);
F.unfold(I,(2,2),stride=2); F.pad(C,(1,0),mode='reflect'); F.pad(C,(1,0),'replicate');
F.pad(Y,(1,1,1,1,1,1),'replicate'); F.celu(n,inplace=True); F.selu(n,inplace=True); F.mish(n,True);
F.hardswish(n,True); F.hardsigmoid(n,True); F.relu6(n,True); F.glu(A[:,:2]); torch.fft.fft(x); torch.fft.ifft(z);
torch.fft.rfft(x); torch.fft.irfft(z); torch.fft.ihfft(x); torch.fft.fft2(A); torch.fft.ifft2(A); torch.fft.rfft2(A);
torch.fft.irfft2(A); torch.fft.fftn(A); torch.fft.ifftn(A); torch.fft.rfftn(A); torch.fft.irfftn(A);
torch.fft.ihfft2(A); torch.fft.ihfftn(A); torch.fft.fftshift(x); torch.fft.ifftshift(x); torch.fft.fftfreq(3);
torch.fft.rfftfreq(3); torch.fft.fft(x,5); torch.fft.fft(x,2); torch.fft.fft(x,norm='ortho'); torch.fft.rfft(A,dim=0);
torch.special.airy_ai(n); torch.special.bessel_j0(n); torch.special.bessel_j1(n); torch.special.bessel_y0(n);
torch.special.bessel_y1(n); torch.special.modified_bessel_i0(n); torch.special.modified_bessel_i1(n);
torch.special.modified_bessel_k0(n); torch.special.modified_bessel_k1(n); torch.special.scaled_modified_bessel_k0(n);
torch.special.scaled_modified_bessel_k1(n); torch.special.spherical_bessel_j0(n);
torch.special.chebyshev_polynomial_t(n,k); torch.special.chebyshev_polynomial_u(n,2);
torch.special.hermite_polynomial_h(n,k); torch.special.hermite_polynomial_he(n,2);
torch.special.laguerre_polynomial_l(n,k); torch.special.legendre_polynomial_p(n,k);
torch.special.shifted_chebyshev_polynomial_t(n,k); torch.special.digamma(x); torch.special.psi(x);
torch.special.exp2(x); torch.special.expm1(x); torch.special.gammaln(x); torch.special.i0(x); torch.special.log1p(x);
torch.special.log_softmax(A,1); torch.special.softmax(A,1); torch.special.logit(x); torch.special.logsumexp(A,1);
torch.special.round(x); torch.special.polygamma(1,x); torch.special.xlogy(x,y); torch.special.xlog1py(x,2.);
torch.special.xlog1py(2.,x); torch.special.zeta(n,n); torch.special.zeta(n,2.); torch.special.zeta(2.,n);
torch.special.erfc(x); torch.special.erfinv(x); torch.linalg.cond(S); torch.linalg.diagonal(S);
torch.linalg.matrix_norm(S); torch.linalg.matrix_norm(S,2); torch.linalg.matrix_norm(S,'nuc');
torch.linalg.matrix_norm(S,1); torch.linalg.vector_norm(x); torch.linalg.vector_norm(A,1,1); torch.linalg.norm(x);
torch.linalg.norm(S); torch.linalg.norm(S,2); torch.linalg.matrix_power(S,3); torch.linalg.matrix_power(S,-1);
torch.linalg.matmul(A,B); torch.linalg.multi_dot([A,B,A]); torch.linalg.multi_dot([x,S,S,x]); torch.linalg.pinv(A);
torch.linalg.pinv(P,hermitian=True); torch.linalg.svd(A); torch.linalg.svd(A,full_matrices=False);
torch.linalg.svdvals(A); torch.svd(A); torch.linalg.tensorinv(S.reshape(3,3),1); torch.linalg.vecdot(A,B.t());
torch.linalg.ldl_factor(P); torch.linalg.ldl_solve(*torch.linalg.ldl_factor(p),m.t()); torch.linalg.lu(S,pivot=True);
torch.lu(S); torch.linalg.eigvals(p); torch.chain_matmul(A,B); torch.cholesky(P,True);
torch.linalg.cholesky(P,upper=True); torch.tensordot(A,B,1); torch.cumulative_trapezoid(x); torch.diff(x);
torch.heaviside(n,n); torch.float_power(x,2); torch.true_divide(x,y); torch.histc(n); torch.bincount(k);
torch.unique(k); torch.unique_consecutive(k); torch.cartesian_prod(x,y); torch.hstack([x,y]); torch.vstack([x,y]);
torch.dstack([x,y]); torch.column_stack([x,y]); torch.atleast_2d(x); torch.msort(x); torch.ger(x,y);
torch.clip(x,0.,1.); torch.absolute(x); torch.arccos(x); torch.bucketize(n,n,right=True);
torch.select_scatter(A,x,0,1); torch.index_put(x,(i,),y); torch.renorm(A,1,0,0.1); torch.sgn(z);
torch.softmax(x,0,torch.float32); torch.pairwise_distance(A,B.t()); torch.rrelu(x);
torch.special.zeta(n+1,y.detach()); torch._standard_gamma_grad(n+1,n); z.clone().conj_physical_()
""".strip()
    .replace(";\n", "; ")
    .split("; "),
]
"""Functions of the values of `scope`, and of those of test_operations.py."""


def scope(torch: ModuleType) -> dict[str, Any]:
    """Return what the expressions compute with, beside vectors and matrices."""

    def leaf(*shape: int) -> Any:
        drawn = np.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape)
        return torch.from_numpy(drawn).requires_grad_()

    def constant(values: Any) -> Any:
        return torch.from_numpy(np.array(values))

    drawn = np.random.default_rng(3).uniform(0.1, 0.9, (3, 3))
    positive = drawn @ drawn.T + 3 * np.eye(3)
    return {
        "I": leaf(1, 4, 5, 5), "T": leaf(2, 3, 4, 4), "Q": leaf(1, 2, 6), "Y": leaf(1, 4, 2, 2, 2),
        "W": leaf(2, 4, 3, 3), "V": leaf(4, 2, 3, 3), "W1": leaf(2, 3, 2),
        "W3": leaf(2, 4, 1, 2, 2), "V3": leaf(4, 2, 1, 2, 2), "Wt": leaf(2, 4, 4),
        "Vb": leaf(2, 3, 3), "E": leaf(5, 3), "U": leaf(4),
        "P": constant(positive).requires_grad_(), "p": constant(positive),
        "L": constant(np.linalg.cholesky(positive)).requires_grad_(),
        "sgn": constant([[1.0, -1, 1], [-1, 1, 1]]),
        "Wi": leaf(8, 4), "Wh": leaf(8, 2), "bi": leaf(8),
    }  # fmt: skip
