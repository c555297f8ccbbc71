"""Hypergeometric functions, elliptic integrals, and orthogonal polynomials by degree.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

from scipy import special as sp

from functrace.ir.primitive import Tangents, Values
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import sqrt, square, where
from functrace.ops.special.rows import kept, no_derivative, special, typed
from functrace.tracing.tracer import Value
from functrace.typing import Array

hyp0f1 = special(sp.hyp0f1, "v", lambda v, z, o: hyp0f1(v + 1.0, z) / v, source="DLMF 16.3.1")


def _kummer(a: Array, b: Array, z: Array) -> Any:
    """The derivative of hyp1f1: for a polynomial one of lower degree, even if ``b`` is a pole of
    the coefficients."""
    ends = ew.equal(a, 0)
    some = ew.logical_or(ends, ew.equal(a, -1))
    x, y = ew.where(some, 0.0, a + 1.0), ew.where(some, 1.0, b + 1.0)
    return ew.where(ends, 0.0, a / ew.where(ends, 1.0, b) * hyp1f1(x, y, z))


def _gauss(a: Array, b: Array, c: Array, z: Array) -> Any:
    """The derivative of hyp2f1, likewise; if ``c`` equals ``a`` or ``b``, SciPy uses a power of ``1
    - z``."""
    is_power = ew.logical_or(ew.equal(a, c), ew.equal(b, c))
    ends = ew.logical_or(ew.equal(b, 0), ew.logical_and(ew.logical_not(is_power), ew.equal(a, 0)))
    last = ew.logical_and(ew.logical_not(is_power), ew.logical_or(ew.equal(a, -1), ew.equal(b, -1)))
    some = ew.logical_or(ends, last)
    x, y, w = (
        ew.where(some, 0.0, a + 1.0),
        ew.where(some, 0.0, b + 1.0),
        ew.where(some, 1.0, c + 1.0),
    )
    factor = ew.where(
        is_power, ew.where(ew.equal(a, c), b, a), a * b / ew.where(ew.equal(c, 0), 1.0, c)
    )
    return ew.where(ends, 0.0, factor * hyp2f1(x, y, w, z))


hyp1f1 = special(sp.hyp1f1, "a", "b", lambda a, b, z, o: _kummer(a, b, z), source="DLMF 13.3.15")
hyp2f1 = special(
    sp.hyp2f1, "a", "b", "c", lambda a, b, c, z, o: _gauss(a, b, c, z), source="DLMF 15.5.1"
)
hyperu = special(
    sp.hyperu, "a", "b", lambda a, b, z, o: -a * hyperu(a + 1.0, b + 1.0, z), source="DLMF 13.3.22"
)

# -- elliptic integrals of the parameter m -----------------------------------------------


def _k_by_m(m: Array) -> Any:
    # DLMF 19.4.1; near 0 by the series, whose derivatives are series, too.
    near = abs(m) <= 0.5
    far = kept(ew.logical_not(near), m, 0.75)
    formula = (ellipe(far) - (1.0 - far) * ellipk(far)) / (2.0 * far * (1.0 - far))
    return where(near, math.pi / 8 * hyp2f1(1.5, 1.5, 2.0, kept(near, m, 0.25)), formula)


def _e_by_m(m: Array) -> Any:
    near = abs(m) <= 0.5
    far = kept(ew.logical_not(near), m, 0.75)
    formula = (ellipe(far) - ellipk(far)) / (2.0 * far)
    return where(near, -math.pi / 8 * hyp2f1(0.5, 1.5, 2.0, kept(near, m, 0.25)), formula)


def _k_by_complement(p: Array) -> Any:
    near = abs(1.0 - p) <= 0.5
    far = kept(ew.logical_not(near), p, 0.25)
    formula = (ellipe(1.0 - far) - far * ellipkm1(far)) / (2.0 * far * (1.0 - far))
    return -where(near, math.pi / 8 * hyp2f1(1.5, 1.5, 2.0, 1.0 - kept(near, p, 0.75)), formula)


ellipk = special(sp.ellipk, lambda m, o: _k_by_m(m), source="DLMF 19.4.1, 19.5.1")
ellipe = special(sp.ellipe, lambda m, o: _e_by_m(m), source="DLMF 19.4.2, 19.5.2")
ellipkm1 = special(sp.ellipkm1, lambda p, o: _k_by_complement(p), source="DLMF 19.4.1, 19.5.1")
ellipkinc = special(
    sp.ellipkinc,
    lambda phi, m, o: 1.0 / sqrt(1.0 - m * square(ew.sin(phi))),
    "m",
    source="DLMF 19.2.4",
)
ellipeinc = special(
    sp.ellipeinc, lambda phi, m, o: sqrt(1.0 - m * square(ew.sin(phi))), "m", source="DLMF 19.2.5"
)


def _agm_by_first(a: Array, b: Array, o: Array) -> Any:
    # From agm(a, b) = pi / 4 (a + b) / K(m), m = ((a - b) / (a + b))^2, DLMF 19.8.5
    total = a + b
    part = (a - b) / total
    return (
        o / total * (1.0 - _k_by_m(square(part)) * 16.0 * o * b * part / (math.pi * square(total)))
    )


agm = special(sp.agm, _agm_by_first, lambda a, b, o: _agm_by_first(b, a, o), source="DLMF 19.8.5")


def _jacobi_functions(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (_, m), (sn, cn, dn, _) = primals, outputs
    du, dm = tangents
    if dm is not None:
        no_derivative("ellipj", "m")()
    assert du is not None  # one of them is there
    m = typed(m, sn)
    return du * (cn * dn), du * (-sn * dn), du * (-m * sn * cn), du * dn


ellipj = special(sp.ellipj, jvp=_jacobi_functions, source="DLMF 22.13.1")

# -- orthogonal polynomials: the derivative is one of lower degree ---------------------------------


def _lower(n: Value) -> Any:
    """The degree below; 0 for degree 0, where a factor of the derivative is 0."""
    return max(n - 1, 0) if n.__class__ is int else where(ew.equal(n, 0), 1, n) - 1  # type: ignore[operator]


eval_jacobi = special(
    sp.eval_jacobi,
    "n", "alpha", "beta",
    lambda n, a, b, x, o: where(ew.equal(n, 0), 0.0,
    0.5 * (n + a + b + 1.0) * eval_jacobi(_lower(n), a + 1.0, b + 1.0, x)),
    source="DLMF 18.9.15",
)  # fmt: skip
eval_sh_jacobi = special(
    sp.eval_sh_jacobi,
    "n", "p", "q",
    lambda n, p, q, x, o: n * eval_sh_jacobi(_lower(n), p + 2.0, q + 1.0, x),
    source="DLMF 18.9.15",
)  # fmt: skip
eval_legendre = special(
    sp.eval_legendre,
    "n",
    lambda n, x, o: where(
        ew.equal(n, 0), 0.0, 0.5 * (n + 1.0) * eval_jacobi(_lower(n), 1.0, 1.0, x)
    ),
    source="DLMF 18.9.15",
)
eval_sh_legendre = special(
    sp.eval_sh_legendre,
    "n",
    lambda n, x, o: where(
        ew.equal(n, 0), 0.0, (n + 1.0) * eval_jacobi(_lower(n), 1.0, 1.0, 2.0 * x - 1.0)
    ),
    source="DLMF 18.9.15",
)
eval_gegenbauer = special(
    sp.eval_gegenbauer,
    "n", "alpha",
    lambda n, a, x, o: where(ew.equal(n, 0), 0.0, 2.0 * a * eval_gegenbauer(_lower(n), a + 1.0, x)),
    source="DLMF 18.9.19",
)  # fmt: skip
eval_chebyt = special(
    sp.eval_chebyt, "n", lambda n, x, o: n * eval_chebyu(_lower(n), x), source="DLMF 18.9.21"
)
eval_chebyu = special(
    sp.eval_chebyu,
    "n",
    lambda n, x, o: where(ew.equal(n, 0), 0.0, 2.0 * eval_gegenbauer(_lower(n), 2.0, x)),
    source="DLMF 18.9.19",
)
eval_sh_chebyt = special(
    sp.eval_sh_chebyt,
    "n",
    lambda n, x, o: 2.0 * n * eval_chebyu(_lower(n), 2.0 * x - 1.0),
    source="DLMF 18.9.21",
)
eval_sh_chebyu = special(
    sp.eval_sh_chebyu,
    "n",
    lambda n, x, o: where(
        ew.equal(n, 0), 0.0, 4.0 * eval_gegenbauer(_lower(n), 2.0, 2.0 * x - 1.0)
    ),
    source="DLMF 18.9.19",
)
eval_chebyc = special(
    sp.eval_chebyc, "n", lambda n, x, o: n * eval_chebyu(_lower(n), 0.5 * x), source="DLMF 18.9.21"
)
eval_chebys = special(
    sp.eval_chebys,
    "n",
    lambda n, x, o: where(ew.equal(n, 0), 0.0, eval_gegenbauer(_lower(n), 2.0, 0.5 * x)),
    source="DLMF 18.9.19",
)
eval_hermite = special(
    sp.eval_hermite,
    "n",
    lambda n, x, o: 2.0 * n * eval_hermite(_lower(n), x),
    source="DLMF 18.9.25",
)
eval_hermitenorm = special(
    sp.eval_hermitenorm,
    "n",
    lambda n, x, o: n * eval_hermitenorm(_lower(n), x),
    source="DLMF 18.9.27",
)
eval_genlaguerre = special(
    sp.eval_genlaguerre,
    "n", "alpha",
    lambda n, a, x, o: where(ew.equal(n, 0), 0.0, -eval_genlaguerre(_lower(n), a + 1.0, x)),
    source="DLMF 18.9.23",
)  # fmt: skip
eval_laguerre = special(
    sp.eval_laguerre,
    "n",
    lambda n, x, o: where(ew.equal(n, 0), 0.0, -eval_genlaguerre(_lower(n), 1.0, x)),
    source="DLMF 18.9.23",
)
