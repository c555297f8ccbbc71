"""Every primitive has a native form, or is run by NumPy for a reason that is given here."""

from __future__ import annotations

import subprocess
import sys

import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native.rows import ROWS

NAMES = """
absolute add add_along_axis along angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh
argmax argmin argsort bitwise_and bitwise_count bitwise_or bitwise_xor broadcast_to cbrt ceil
cholesky clamp clip clip_above clip_below cofactor complex complex_reciprocal concatenate cond
conj convert convolve convolve_grids copysign cos cosh cummax cummin cumprod cumsum deg2rad det diagonal div dot
einsum embed embed_diagonal equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin
fmod gather greater greater_equal heaviside hypot imag index inv inv_or_nan invert is_last_write
isfinite isinf isnan left_shift lerp less less_equal linear_recurrence log log10 log1p log2
log_softmax logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logsumexp matmul
matmul_in_parts maximum minimum mul name neg norm not_equal plain_absolute plain_arccosh
plain_hypot plain_logaddexp plain_power positive power put_flat qr qr_complete rad2deg real
reciprocal reduce_all reduce_any reduce_max reduce_min reduce_prod reduce_sum relu remainder require required reshape
returned reverse_only right_shift rint roll round rsqrt same scan scatter_add scatter_each
scatter_set searchsorted sgn shared sigmoid sign signbit signed_remainder sin sinc sinh slogdet
softmax solve solve_triangular sort sqrt sqrt_of_square square stack stop_gradient sub
take_along_axis take_flat tan tanh transpose trunc trunc_divide undifferentiated variance
vector_norm walk where while_loop
"""
NATIVE = frozenset(NAMES.split())
"""Names of the primitives that have a native form."""

HOST = {
    "it calls a function of the user": """
        callback custom_batch custom_derivative custom_jvp custom_vjp linear_solve observe pack
        pushforward root unpack
    """,
    "it always raises": "refused",
    "inlining drops it, with the calls": "derivative_only with_derivative",
    "its schedule runs step by step in Python": """
        checkpointed_forward checkpointed_loop checkpointed_reverse checkpointed_tangents
    """,
    "comparisons and plain products take its place before it is lowered": """
        strong_both strong_contraction strong_div strong_mul strong_zero
    """,
    "its numbers are those of NumPy's generators": """
        draw fold_key random_binomial random_bits random_exponential random_integers
        random_loggamma random_multinomial random_normal random_poisson random_uniform random_wald
        seed_key split_key
    """,
    "LAPACK computes it iteratively": """
        cofactor_change eig eigh eigvals eigvalsh lstsq pinv svd svdvals
    """,
    "SciPy computes it by a library of its own": """
        cosines fft frechet ifft irfft lu matrix_function quantile_of_integers recur rfft
        solve_banded sparse_matmul sparse_solve spline_coefficients sylvester
    """,
    "no lowering is written": """
        argpartition call cholesky_change cholesky_pullback col2im complex_power
        correlate correlate_filters correlate_input frexp gamma_integral gcd i0 im2col
        lcm ldexp lexsort map_axis matching max_windows modf multiply_triangular nextafter
        permutation_of_pivots polygamma qr_raw scaled_bessel sinc_derivative
        solve_congruence spacing sum_segments
    """,
}
"""By reason, names of the primitives that NumPy runs."""


def test_every_primitive_is_native_or_declared() -> None:
    # (In a process of its own: functrace.scipy and tests add primitives. Those of SciPy's functions
    # are run by SciPy, unless they are rows of functrace/native/rows/special.py.)
    command = [sys.executable, "-c", "import functrace as ft; print(*ft.Program.primitives)"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    names = set(found.stdout.split())
    hosts = [name for text in HOST.values() for name in text.split()]
    assert len(hosts) == len(set(hosts))
    assert not set(hosts) & NATIVE
    missing = {n for n in names - set(hosts) - NATIVE if not n.startswith("test")}
    assert not missing


def test_listed_primitives_have_rows() -> None:
    primitives = ft.Program.primitives
    rows = {primitive.name for primitive in ROWS}
    assert NATIVE <= rows
    assert not rows - NATIVE
    for text in HOST.values():
        for name in text.split():
            assert name in primitives
