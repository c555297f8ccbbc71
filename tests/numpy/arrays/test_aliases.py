"""Functions that return views in NumPy do so on traced values: writes to a result show in its
operand, and vice versa.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError

EXPRESSIONS = (
    "x.conj()", "x.conjugate()", "np.conjugate(x)", "np.real_if_close(x)", "np.asarray(x)",
    "np.asanyarray(x)",
    "np.ascontiguousarray(x)", "np.require(x)", "np.real(x)", "np.atleast_1d(x)",
    "np.atleast_2d(x)",
    "np.atleast_3d(x)", "x.astype(float)", "x.astype(float,copy=False)",
    "np.astype(x,float,copy=False)",
    "np.array(x,copy=None)", "np.trim_zeros(x)", "np.rot90(x.reshape(2,2),0)", "np.squeeze(x)",
    "np.nan_to_num(x,copy=False)", "np.broadcast_arrays(x,x)[0]", "np.unstack(x.reshape(2,2))[0]",
    "np.array_split(x,2)[0]", "np.lib.stride_tricks.sliding_window_view(x,2,writeable=True)",
    "np.split(x,2)[0]",
    "np.expand_dims(x,0)", "np.diagonal(x.reshape(2,2))", "x.reshape(2,2).diagonal()",
    "np.diag(x.reshape(2,2))",
    "np.linalg.diagonal(x.reshape(2,2))", "np.ravel(x)", "x.ravel()", "x.flatten()",
    "np.transpose(x)",
    "np.matrix_transpose(x.reshape(2,2))", "x.real", "x.T", "x.mT if x.ndim>1 else x", "x.view()",
    "x[()]", "x[...]",
    "x[:]", "x[None]", "x[True]", "x[[0,1,2,3]]", "x.squeeze()", "x.swapaxes(0,0)",
    "np.swapaxes(x,0,0)",
    "np.moveaxis(x,0,0)", "np.rollaxis(x,0)", "np.roll(x,0)", "np.reshape(x,(2,2))", "x.repeat(1)",
    "np.repeat(x,1)",
    "np.tile(x,1)", "np.resize(x,4)", "np.pad(x,0)", "np.triu(x.reshape(2,2),-5)", "np.sort(x)",
    "np.cumsum(x)",
    "np.take(x,[0,1])", "np.concatenate([x])", "np.hstack([x])", "np.vstack([x])",
    "np.column_stack([x])",
    "np.stack([x])", "np.append(x,[])", "np.delete(x,[])", "np.insert(x,[],[])",
    "np.where(True,x,x)",
    "np.select([True],[x])", "np.choose(0,[x])", "np.clip(x,None,None)", "x.clip(-100,100)",
    "x.round()",
    "np.round(x,3)", "np.around(x)", "np.fix(x)", "+x", "abs(x)", "np.positive(x)", "np.copy(x)",
    "x.copy()",
    "np.flip(x)", "np.fliplr(x.reshape(2,2))", "np.einsum('i->i',x)",
    "np.einsum('ij->ji',x.reshape(2,2))",
    "np.einsum('ij',x.reshape(2,2))", "np.block([x])", "np.meshgrid(x,x,copy=False)[0]",
    "np.meshgrid(x,x,sparse=True,copy=False)[0]", "np.ix_(np.arange(2))[0]*x[0]",
    "np.extract(x>-9,x)",
    "np.compress([True]*4,x)", "x.compress([True]*4)", "np.squeeze(x[None])", "np.trapezoid(x)*x",
    "max(x,x,key=lambda t:0)", "np.vsplit(x.reshape(2,2),1)[0]", "np.dsplit(x.reshape(1,2,2),1)[0]",
    "np.apply_along_axis(lambda t:t,0,x)", "np.vectorize(lambda t:t)(x)", "np.sum(x[None],axis=0)",
    "np.sum(x,axis=())", "np.max(x,axis=())", "x.sum(axis=())", "np.mean(x,axis=())",
    "np.asfortranarray(x)",
    "np.broadcast_to(x,(4,))", "np.nan_to_num(x)", "np.piecewise(x,[x>-9],[lambda t:t])",
    "np.interp(x,x,x)",
    "x.astype(float,order='F')", "np.linalg.matrix_power(x.reshape(2,2),1)",
    "np.linalg.multi_dot([x.reshape(2,2),np.eye(2)])", "np.tensordot(x,1.0,0)", "np.dot(x,1.0)",
    "np.diff(x,0)",
    "np.unwrap(x)", "np.sinc(x)", "np.heaviside(x,x)", "np.partition(x,0)",
    "np.atleast_1d(x,x)[0]", "np.gradient(x)",
    "np.permute_dims(x)", "np.rollaxis(x.reshape(2,2),1)", "np.hsplit(x,1)[0]", "np.ediff1d(x)",
    "np.kron(x,1.0)",
    "np.cross(x[:3],x[:3])", "np.outer(x,1.0)", "np.average(x[None],axis=0)",
    "np.cumulative_sum(x)", "x.take([0])",
    "np.concatenate([x],out=None)", "x.flat[:]", "np.diff(x, n=0, axis=0)", "np.convolve(x,[1.0])",
    "np.angle(x)",
    "np.imag(x)", "x.imag",
)  # fmt: skip
"""Of ``x``, an array of 4 numbers."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("direction", ["through", "seen"])
@pytest.mark.parametrize("dtype", ["f8", "i8", "?"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_share_memory_where_numpys_do(expression: str, dtype: str, direction: str) -> None:
    code = compile(expression, "<expression>", "eval")

    def f(x: Any) -> Any:
        y = eval(code, {"np": np, "x": x})
        if direction == "through":
            y[...] = 7.0
            return x * 1.0
        x[...] = 7.0
        return y * 1.0

    x = np.array([1, 2, 0, 4], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = f(x.copy())
        except (ValueError, TypeError):  # read-only views, and results that are no arrays
            with pytest.raises((FunctraceError, ValueError, TypeError)):
                ft.vjp(f, x)
            return
        try:
            value, _ = ft.vjp(f, x)
        except FunctraceError:
            return
    np.testing.assert_array_equal(value, expected)
