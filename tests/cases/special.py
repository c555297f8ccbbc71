"""Cases of the ufuncs of scipy.special: one per row of functrace/ops/special, over the domain of
each argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special
from scipy.special import _ufuncs

import functrace as ft
from tests.cases.case import Case

_rng = np.random.default_rng(12)
X = _rng.normal(size=(2, 3))
UNIT = _rng.uniform(0.1, 0.9, (2, 3))
SIGNED = _rng.uniform(-0.9, 0.9, (2, 3))
POSITIVE = _rng.uniform(0.3, 4.0, (2, 3))
SHAPE = _rng.uniform(0.6, 3.0, (2, 3))
OTHER = _rng.uniform(0.7, 2.5, (3,))
AWAY = np.array([[-2.3, -1.4, -0.6], [0.3, 1.7, 2.6]])
Z = X + 1j * SIGNED
ORDER = np.array([[0.0, 1.0, 2.0], [0.5, 1.3, 3.7]])
DEGREE = np.array([[0, 1, 2], [3, 4, 5]])
EVERYWHERE = np.array([-np.inf, -2.5, -1.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan])


def _case(
    ufunc: Callable[..., Any], *args: Any, diff: tuple[int, ...] | None = None, **more: Any
) -> Case:
    """A case with edges: other dtypes, strides, sizes, and everything that is not a usual number."""
    arrays = tuple(np.asarray(a) for a in args)
    flat = [a[..., :1] if a.ndim else a for a in arrays]
    single = tuple(a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays)
    edge: list[tuple[Any, ...]] = [
        single,
        tuple(np.flip(a) for a in arrays),
        tuple(a[..., :0] if a.ndim else a for a in flat),
    ]
    edge.append(tuple(a.ravel()[0] for a in arrays))
    if ufunc is not special.hyp1f1:  # which does not return from infinity
        edge += [(*(a.ravel()[1] for a in arrays[:-1]), EVERYWHERE)]
    name = more.pop("name", f"special/{getattr(ufunc, '__name__', '')}")
    positions = tuple(range(len(args))) if diff is None else diff
    return Case(name, _held(ufunc, positions), args, diff=positions, edge=tuple(edge), **more)


def _held(ufunc: Callable[..., Any], diff: tuple[int, ...]) -> Callable[..., Any]:
    """The function with constants where it has no derivative."""
    return lambda *xs: ufunc(*[x if k in diff else ft.stop_gradient(x) for k, x in enumerate(xs)])


def _complex(
    ufunc: Callable[..., Any], *args: Any, diff: tuple[int, ...] = (0,), **more: Any
) -> Case:
    name = f"special/{getattr(ufunc, '__name__', '')}, complex"
    return Case(name, _held(ufunc, diff), args, diff=diff, **more)


ONE = [
    _case(special.gammaln, POSITIVE), _case(special.loggamma, POSITIVE), _case(special.gamma, AWAY),
    _case(special.rgamma, np.array([[-2.0, -1.4, 0.0], [0.5, 1.0, 2.6]])), _case(special.psi,
    POSITIVE),
    _case(special.psi, AWAY, name="special/psi, negative"), _case(special.gammasgn, AWAY, order=0),
    _case(special.erf, X), _case(special.erfc, X), _case(special.erfi, X), _case(special.erfcx, X),
    _case(special.dawsn, X),
    _case(special.wofz, X), _case(special.erfinv, SIGNED), _case(special.erfcinv, UNIT + 0.3),
    _case(special.ndtr, X),
    _case(special.log_ndtr, 3 * X), _case(special.ndtri, UNIT), _case(special.ndtri_exp, -POSITIVE),
    _case(special.expi, AWAY), _case(special.exp1, POSITIVE), _case(special.spence, POSITIVE),
    _case(special.spence, np.array([1.0, 0.999, 1.2, 0.4]), name="special/spence, near 1"),
    _case(special.sici, POSITIVE), _case(special.shichi, POSITIVE), _case(special.fresnel, X),
    _case(special.airy, X),
    _case(special.expit, X), _case(special.logit, UNIT), _case(special.log_expit, X),
    _case(special.entr, POSITIVE),
    _case(special.exprel, np.array([0.0, 1e-6, -0.3, 2.5, -8.0])), _case(special.expm1, X),
    _case(special.log1p, SIGNED),
    _case(special.exp2, X), _case(special.cbrt, AWAY), _case(special.round, AWAY, order=0),
    _case(special.exp10, SIGNED),
    _case(special.cosm1, X), _case(special.sindg, 50 * X), _case(special.cosdg, 50 * X),
    _case(special.tandg, 20 * X),
    _case(special.cotdg, 20 * AWAY), _case(special.wrightomega, X),
    _case(special.ellipk, np.array([-3.0, -0.4, 0.0, 0.49, 0.7, 0.95])),
    _case(special.ellipe, np.array([-3.0, -0.4, 0.0, 0.49, 0.7, 0.95])),
    _case(special.ellipkm1, np.array([3.0, 1.0, 0.6, 0.4, 0.05])),
    _case(special.j0, X), _case(special.j1, np.array([-2.0, 0.0, 0.7, 4.0])), _case(special.y0,
    POSITIVE),
    _case(special.y1, POSITIVE), _case(special.i0, X), _case(special.i1, np.array([-2.0, 0.0, 0.7,
    4.0])),
    _case(special.i0e, AWAY), _case(special.i1e, AWAY), _case(special.k0, POSITIVE),
    _case(special.k1, POSITIVE),
    _case(special.k0e, POSITIVE), _case(special.k1e, POSITIVE),
]  # fmt: skip

SEVERAL = [
    _case(special.zeta, 2.0 + OTHER, POSITIVE, diff=(1,)), _case(special.zetac, 1.5 + OTHER,
    diff=()),
    _case(_ufuncs._riemann_zeta, 1.5 + OTHER, diff=()),
    _case(special.betaln, POSITIVE, OTHER), _case(special.beta, POSITIVE, OTHER),
    _case(special.binom, 4.0 + SHAPE, OTHER),
    _case(special.poch, POSITIVE, OTHER),
    *[_case(f, SHAPE, OTHER, UNIT) for f in (special.betainc, special.betaincc)],
    *[_case(f, SHAPE, OTHER, UNIT) for f in (special.betaincinv, special.betainccinv)],
    Case("special/btdtria", lambda p, b, x: special.btdtria(p, b, x), (UNIT, OTHER, UNIT[::-1]),
    diff=(0, 1, 2), tol=1e-4),
    Case("special/btdtrib", lambda a, p, x: special.btdtrib(a, p, x), (OTHER, UNIT, UNIT[::-1]),
    diff=(0, 1, 2), tol=1e-4),
    *[_case(f, OTHER, POSITIVE) for f in (special.gammainc, special.gammaincc)],
    *[_case(f, OTHER, UNIT) for f in (special.gammaincinv, special.gammainccinv)],
    *[_case(f, OTHER, POSITIVE) for f in (special.chdtr, special.chdtrc)], _case(special.chdtri,
    OTHER, UNIT),
    *[_case(f, SHAPE, OTHER, POSITIVE) for f in (special.gdtr, special.gdtrc)],
    *[_case(f, DEGREE, POSITIVE, diff=(1,)) for f in (special.pdtr, special.pdtrc)],
    *[_case(f, DEGREE, np.array([7, 8, 9]), UNIT, diff=(2,)) for f in (special.bdtr,
    special.bdtrc)],
    _case(special.stdtr, OTHER, X), _case(special.stdtrit, OTHER, UNIT),
    *[_case(f, SHAPE, OTHER, POSITIVE) for f in (special.fdtr, special.fdtrc)],
    _case(special.fdtri, 1.0 + SHAPE, 1.0 + OTHER, UNIT),
    _case(special.owens_t, X, SIGNED), _case(special.voigt_profile, X, SHAPE, OTHER),
    _case(special.expn, DEGREE, POSITIVE, diff=(1,)),
    _case(special.tklmbda, SIGNED, np.array([0.3, 0.5, -0.2]), diff=(0,)),
    _case(special.radian, AWAY, OTHER, SHAPE), _case(special.xlogy, X, POSITIVE),
    _case(special.xlog1py, X, POSITIVE),
    Case("special/xlogy, 0", lambda x, y: special.xlogy(x, y), (np.zeros(3), OTHER), diff=(0, 1)),
    _case(special.rel_entr, POSITIVE, OTHER), _case(special.kl_div, POSITIVE, OTHER),
    _case(special.boxcox, POSITIVE, np.array([0.0, 0.5, -1.2])), _case(special.boxcox1p, POSITIVE,
    np.array([0.0, 0.5, -1.2])),
    _case(special.inv_boxcox, UNIT, np.array([0.0, 0.5, -0.8])), _case(special.inv_boxcox1p, UNIT,
    np.array([0.0, 0.5, -0.8])),
    _case(special.powm1, POSITIVE, X), _case(special.huber, OTHER, 3 * AWAY),
    _case(special.pseudo_huber, OTHER, AWAY),
    Case("special/lambertw", lambda z: special.lambertw(z), (Z,)),
    Case("special/lambertw, real", lambda z: special.lambertw(z), (np.array([0.0, 0.5, 3.0]),)),
    Case("special/lambertw, branch", lambda z: special.lambertw(z, -1), (Z,)),
    _case(special.hyp0f1, OTHER, X, diff=(1,)), _case(special.hyp1f1, SHAPE, OTHER, X, diff=(2,)),
    Case("special/hyp2f1", _held(special.hyp2f1, (3,)), (SHAPE, OTHER, 1.5 + OTHER, SIGNED),
    diff=(3,), tol=1e-4),
    _case(special.hyperu, SHAPE, OTHER, POSITIVE, diff=(2,)), _case(special.agm, POSITIVE, OTHER),
    _case(special.ellipkinc, X, SIGNED, diff=(0,)), _case(special.ellipeinc, X, SIGNED, diff=(0,)),
    _case(special.ellipj, X, UNIT, diff=(0,)),
    *[_case(f, ORDER, X, diff=(1,)) for f in (special.hankel1, special.hankel1e, special.hankel2,
    special.hankel2e)],
    *[_case(f, ORDER, POSITIVE, diff=(1,)) for f in (special.jv, special.jve, special.yv,
    special.yve, special.iv, special.ive,
                                                     special.kv, special.kve, special.struve,
                                                     special.modstruve)],
    *[_case(f, DEGREE, POSITIVE, diff=(1,)) for f in (special.yn, special.kn)],
    *[_case(f, DEGREE, SIGNED, diff=(1,)) for f in (
        special.eval_legendre, special.eval_chebyt, special.eval_chebyu, special.eval_chebyc,
        special.eval_chebys,
        special.eval_hermite, special.eval_hermitenorm, special.eval_laguerre,
        special.eval_sh_legendre,
        special.eval_sh_chebyt, special.eval_sh_chebyu)],
    _case(special.eval_jacobi, DEGREE, SHAPE, OTHER, SIGNED, diff=(3,)),
    _case(special.eval_gegenbauer, DEGREE, SHAPE, SIGNED, diff=(2,)),
    _case(special.eval_sh_jacobi, DEGREE, 2.0 + SHAPE, OTHER, UNIT, diff=(3,)),
    _case(special.eval_genlaguerre, DEGREE, SHAPE, SIGNED, diff=(2,)),
    Case("special/eval_legendre, ends", lambda x: special.eval_legendre(4, x), (np.array([-1.0,
    0.0, 1.0]),)),
]  # fmt: skip

HOLOMORPHIC = [
    *[_complex(f, Z) for f in (
        special.erf, special.erfc, special.erfi, special.erfcx, special.dawsn, special.wofz,
        special.ndtr, special.log_ndtr,
        special.expm1, special.wrightomega, special.fresnel, special.airy)],
    *[_complex(f, Z + 2.0) for f in (special.expi, special.exp1, special.log1p, special.sici,
    special.shichi)],
    *[_complex(f, Z + 2.0, order=1) for f in (special.gamma, special.loggamma)],
    _complex(special.rgamma, Z, order=1), _complex(special.spence, Z + 2.0),
    _complex(special.xlogy, Z, Z + 3.0, diff=(0, 1)),
    _complex(special.xlog1py, Z, Z + 3.0, diff=(0, 1)), _complex(special.hyp0f1, OTHER, Z,
    diff=(1,)),
    _complex(special.hyp1f1, OTHER, 1.0 + OTHER, Z, diff=(2,)),
    *[_complex(f, ORDER, Z + 1.5, diff=(1,)) for f in (
        special.jv, special.jve, special.yv, special.yve, special.iv, special.ive, special.kv,
        special.kve, special.hankel1,
        special.hankel2, special.hankel1e, special.hankel2e)],
    _complex(special.eval_chebyt, DEGREE, Z, diff=(1,)),
]  # fmt: skip

CASES: list[Case] = ONE + SEVERAL + HOLOMORPHIC
