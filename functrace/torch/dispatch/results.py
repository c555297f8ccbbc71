"""``out=``: write results into the caller's tensors.

A tensor of another shape is resized first, within its storage if that is large enough: other data
there is overwritten, as in PyTorch. Overlap of memory that is read and written is refused where
PyTorch refuses it, or where PyTorch's result is undefined.

Layer: 9.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.autocasting import suspended
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.promotion import RANK
from functrace.torch.dispatch.signatures import LateSignature, parameter_names
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.geometry import memory_of, resize
from functrace.torch.tensors.mirrors import MIRRORS, refresh
from functrace.torch.tensors.tensor import Tensor, count_write, is_expanded
from functrace.torch.tensors.views import lies_alike, writable
from functrace.tracing import Tracer
from functrace.typing import Array

_OF_OTHER_PLACES = frozenset({
    "sum", "mean", "prod", "amax", "amin", "all", "any", "argmax", "argmin", "argsort", "norm",
    "logsumexp", "mm", "matmul",
    "addmm", "mv", "dot", "bmm", "cat", "stack", "gather", "index_select", "take",
    "take_along_dim", "sort", "topk",
    "median", "nanmedian",
})  # fmt: skip
"""Functions whose elements depend on elements at other positions: none of them computes into its
own operand.
"""
_EXACT = _OF_OTHER_PLACES - {"sum", "mean", "prod", "logsumexp", "cat", "stack"} | {
    "abs", "absolute", "ceil", "floor", "fix", "neg", "negative", "sgn", "sign", "trunc", "clamp",
    "clip", "where",
    "softmax", "log_softmax", "tril", "triu", "bitwise_not",
}  # fmt: skip
"""Functions that do not convert their results."""
_OF_BOOLS = {"signbit": "bool", "all": "bool uint8", "any": "bool uint8"}
"""Output dtypes allowed for functions with bool results, if not all are."""


def taking_out(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that accepts ``out=``: a tensor (or a tuple of them) for the result."""
    names = parameter_names(function)
    if "out" in names:
        return function

    @functools.wraps(function)
    def computed(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        return put_out(out, name, (*args, *kwargs.values()), lambda: function(*args, **kwargs))

    vars(computed)["__signature__"] = LateSignature((*names, "out"), lambda: _with_out(function))
    return computed


def _with_out(function: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(function)
    place = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    return signature.replace(parameters=[*signature.parameters.values(), place])


def put_out(out: Any, name: str, given: Sequence[Any], compute: Callable[[], Any]) -> Any:
    """Write a result into the tensors of ``out=``, which are resized if they have another shape.

    Args:
        out: the tensor, or a tuple of them.
        name: name of the function.
        given: its arguments.
        compute: computes the result.

    Raises:
        TypeError: for an object that is no tensor.
        RuntimeError: if a gradient would be lost, the result has a higher kind, or input and
            output memory overlap.
        UnsupportedFunctionError: for traced values, and for a tensor that must grow in memory
            shared with another object.
    """
    if MODES.dispatch is not None and MODES.dispatch.is_beneath:
        return MODES.dispatch.put_out(name, given, out, lambda: put_out(out, name, given, compute))
    targets = out if isinstance(out, tuple) else (out,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(
                f"{name}(): argument 'out' must be Tensor, not {errors.kind_of(target)}"
            )
    listed = [x for item in given for x in (item if isinstance(item, (tuple, list)) else (item,))]
    if MODES.recording and any(
        isinstance(x, Tensor) and x.requires_grad for x in (*listed, *targets)
    ):
        raise RuntimeError(errors.out_with_grad(name))
    if DUALS.level is not None and DUALS.level.concerns((*listed, *targets)):
        raise NotImplementedError(errors.forward_of_out(name))
    if MODES.dispatch is not None:
        return MODES.dispatch.put_out(name, given, out, lambda: put_out(out, name, given, compute))
    if MODES.autocast is None:
        made = compute()
    else:
        with suspended():  # nothing is cast
            made = compute()
    results = [x._array for x in (made if isinstance(out, tuple) else (made,))]
    for result in results:
        if isinstance(result, Tracer):
            if MODES.recording and result.dtype.kind in "fcV":
                raise RuntimeError(errors.out_with_grad(name))
            raise UnsupportedFunctionError(
                f"{name}(out=) of traced values",
                fix=f"use the result of {name}(), or copy_ it",
            )
    moves = isinstance(out, tuple) or name in _OF_OTHER_PLACES
    bounded = name in ("clamp", "clip") and any(isinstance(x, Tensor) for x in listed[1:])
    converts = bounded or (name not in _EXACT and not isinstance(out, tuple))
    for target, result in zip(targets, results, strict=True):
        check_dtypes(name, target._array.dtype, result.dtype, converts=converts)
        check_apart(target._array, listed, moves=moves)
        if target._array.shape != result.shape:
            if not moves and any(x is target for x in listed):
                raise RuntimeError(errors.output_shape(target._array.shape, result.shape))
            check_apart(
                memory_of(target), listed, moves=True
            )  # resized in memory that operands may share
    for target, result in zip(targets, results, strict=True):
        if target._array.shape == result.shape:
            count_write(target)
        else:
            if target._array.size:
                warn(errors.out_resized(target._array.shape, result.shape))
            is_turned = result.size > 0 and not result.flags.c_contiguous
            resize(
                target,
                result.shape,
                tuple([n // result.itemsize for n in result.strides]) if is_turned else None,
            )
        array = target._array
        writable(array)[...] = result
        if MIRRORS:
            refresh(array)
    return type(made)(*out) if isinstance(made, tuple) else out


def check_dtypes(
    name: str, target: np.dtype[Any], result: np.dtype[Any], *, converts: bool
) -> None:
    """Check that a result can be written into a tensor of some dtype.

    Raises:
        RuntimeError: if it has a higher kind, or the function does not convert it.
    """
    if target == result:
        return
    printed = DTYPES[result].printed, DTYPES[target].printed
    if name in _OF_BOOLS and DTYPES[target].name not in _OF_BOOLS[name]:
        raise RuntimeError(errors.out_of_bools(name, printed[1]))
    if not converts and name not in _OF_BOOLS:
        raise RuntimeError(errors.out_dtype(*printed))
    if RANK[result.kind] > RANK[target.kind]:
        raise RuntimeError(errors.result_cast(*printed))


def check_apart(target: Array, operands: Sequence[Any], *, moves: bool) -> None:
    """Refuse to write into elements that share memory, or into an overlapping operand of another
    layout.

    Args:
        target: the array to write.
        operands: the arrays to read.
        moves: True if elements depend on elements at other positions.

    Raises:
        RuntimeError: with PyTorch's errors.
    """
    if is_expanded(target) and target.size:
        raise RuntimeError(errors.OVERLAPPING_WRITE)
    for x in operands:
        array = x._array if isinstance(x, Tensor) else None
        if not isinstance(array, np.ndarray) or not np.may_share_memory(target, array):
            continue
        if (moves or not lies_alike(target, array)) and np.shares_memory(target, array):
            raise RuntimeError(errors.OVERLAPPING_OPERAND)
