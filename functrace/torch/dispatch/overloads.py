"""Overload resolution, and the function that an overload runs.

An overload runs the function, method or in-place method of its name; `FUNCTIONS` lists the
exceptions.

Layer: 9.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functrace.torch import errors
from functrace.torch._ops import (
    REGISTERED,
    Argument,
    Calls,
    OpOverload,
    OpOverloadPacket,
    Ops,
    schema_lines,
)
from functrace.torch.dispatch import applying
from functrace.torch.dispatch.numbers import NUMBERS
from functrace.torch.dispatch.rows import FFT, FUNCTIONAL, LINALG, NN, SPECIAL, TENSOR, TORCH
from functrace.torch.dispatch.surface import ENTRIES
from functrace.torch.functions import (
    activations,
    aten_only,
    attention,
    distances,
    fourier,
    in_place,
    losses,
    margins,
    padding,
    searching,
    shaping,
)
from functrace.torch.functions import elementwise as functions
from functrace.torch.tensors.tensor import Tensor

# -- from arguments to an overload -----------------------------------------------------------------


def overload_for(
    packet: OpOverloadPacket, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> OpOverload:
    """Return the first overload whose schema fits the arguments.

    Raises:
        TypeError: if there is none.
    """
    if packet._namespace in REGISTERED:  # (its own check has PyTorch's messages)
        return getattr(packet, packet.overloads()[0])
    for strict in (True, False):
        for name in sorted(packet.overloads(), key=lambda name: name != "default"):
            overload = getattr(packet, name)
            if fits(overload._schema.arguments, args, kwargs, strict=strict):
                return overload
    raise TypeError(errors.no_fitting_overload(str(packet), packet.overloads()))


def out_overload(
    name: str, args: Sequence[Any], targets: Sequence[Tensor]
) -> tuple[OpOverload, dict[str, Any]]:
    """Return the overload of a function that writes into tensors, and these by keyword.

    Raises:
        NotImplementedError: if there is none.
    """
    texts = schema_lines().get(name, {})
    for overload in sorted(texts, key=lambda overload: overload != "out"):
        found_ = getattr(getattr(ops.aten, name), overload)
        arguments = found_._schema.arguments
        outs = [a.name for a in arguments if a.is_out]
        kwargs = dict(zip(outs, targets, strict=False))
        if len(outs) == len(targets) and fits(arguments, args, kwargs, strict=False):
            return found_, kwargs
    raise NotImplementedError(errors.no_out_overload(name))


def fits(
    arguments: Sequence[Argument], args: Sequence[Any], kwargs: Mapping[str, Any], *, strict: bool
) -> bool:
    """Return True if arguments fit a schema; unless ``strict``, numbers are accepted as tensors,
    and one int as a list.
    """
    positional = [a for a in arguments if not a.kwarg_only]
    if len(args) > len(positional) or any(
        name not in {a.name for a in arguments} for name in kwargs
    ):
        return False
    given = {a.name: value for a, value in zip(positional, args, strict=False)} | dict(kwargs)
    return all(
        _fits(a.type, given[a.name], strict) if a.name in given else a.has_default
        for a in arguments
    )


def _fits(kind: str, value: object, strict: bool) -> bool:
    if kind.startswith("Optional["):
        return value is None or _fits(kind[9:-1], value, strict)
    if kind.startswith("List["):
        if isinstance(value, (tuple, list)):
            return all(_fits(kind[5:-1], one, strict) for one in value)
        return not strict and kind == "List[int]" and type(value) is int
    if kind == "Tensor":
        return isinstance(value, Tensor) or (not strict and type(value) in NUMBERS)
    if kind == "number":
        return type(value) in NUMBERS
    if kind == "int":
        return type(value) is int or (
            not strict and not isinstance(value, (Tensor, tuple, list, float, str, bool))
        )
    return kind not in _CLASSES or isinstance(value, _CLASSES[kind])


_CLASSES: dict[str, Any] = {"bool": bool, "float": (int, float), "str": str}


# -- the function of an overload -------------------------------------------------------------------


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_softmax": lambda x, dim, half_to_float: x.softmax(dim),
    "_log_softmax": lambda x, dim, half_to_float: x.log_softmax(dim),
    "_to_copy": lambda x, *, dtype=None, **rest: x.clone() if dtype in (None,
    x.dtype) else x.to(dtype),
    "_unsafe_view": lambda x, size: applying.apply(
        shaping.UNSAFE_VIEW, (x,), (shaping.completed(tuple(size), x._array.shape),)
    ),
    "_reshape_alias": lambda x, size, stride: applying.apply(shaping.RESHAPE_ALIAS, (x,),
    (tuple(size),)),
    "_conj": functions.conj,
    "alias": lambda x: applying.apply(shaping.ALIAS, (x,), ((...,),)),
    "detach": lambda x: x.detach(),
    "lift_fresh": lambda x: x,
    "slice": lambda x, dim=0, start=None, end=None, step=1: shaping.getitem(
        x, (slice(None),) * functions.dimension(dim, x.ndim) + (slice(start, end, step),)
    ),
    "index": lambda x, indices: shaping.getitem(x,
    tuple(slice(None) if k is None else k for k in indices)),
    "index_put_": lambda x, indices, values, accumulate=False: (
        x.index_put_(tuple(indices), values, True) if accumulate else
        in_place.setitem(x, tuple(slice(None) if k is None else k for k in indices), values) or x
    ),
    "std": lambda x, dim=None, *, correction=None, keepdim=False: x.std(dim, correction=correction,
    keepdim=keepdim),
    "var": lambda x, dim=None, *, correction=None, keepdim=False: x.var(dim, correction=correction,
    keepdim=keepdim),
    "_cdist_forward": lambda x1, x2, p, compute_mode: distances.cdist(x1, x2, p),
    "_local_scalar_dense": lambda x: x.item(),
    "convolution_backward": aten_only.convolution_backward,
    "_new_zeros_with_same_feature_meta": aten_only.new_zeros_like_features,
    "_unique2": lambda x, sorted=True, *_, **__: searching.unique(x, sorted, True, True),
    "unique_dim": lambda x, dim, *_, **__: searching.unique(x, True, True, True, dim),
    "unique_consecutive": lambda x, return_inverse=False, return_counts=False, dim=None:
        searching.unique_consecutive(x, True, True, dim),
    "_pdist_forward": lambda x, p=2.0: distances.pdist(x, p),
    "_trilinear": lambda x, weight, y, *_: applying.apply(attention.TRILINEAR, (x, weight, y)),
    "_scaled_dot_product_flash_attention_for_cpu":
        lambda *given, **named: _whole("attention_for_cpu")(*given, **named),
    "log_sigmoid_forward": lambda x: applying.apply(activations.LOG_SIGMOID, (x,)),
    "multilabel_margin_loss_forward": lambda x, target, reduction: applying.apply(
        margins.MULTILABEL_MARGIN, (x, target), (reduction,)),
    "nll_loss_forward": lambda *given: losses._nll_of(*given),
    "nll_loss2d_forward": lambda *given: losses._nll_of(*given),
    "_pad_circular": lambda x, pad: padding.pad(x, pad, "circular"),
    "block_diag": lambda tensors: ENTRIES[TORCH]["block_diag"][1](*tensors),
    "_fft_r2c": lambda x, dim, normalization, onesided: applying.apply(fourier.R2C, (x,),
    (tuple(dim), normalization, onesided)),
    "_fft_c2c": lambda x, dim, normalization, forward: applying.apply(fourier.C2C, (x,),
    (tuple(dim), normalization, forward)),
    "_fft_c2r": lambda x, dim, normalization, last_dim_size: applying.apply(fourier.C2R, (x,),
    (tuple(dim), normalization, last_dim_size)),
    "_conj_physical": lambda x: x.conj_physical(),
    "_prelu_kernel": lambda x, weight: applying.apply(activations.PRELU, (x, weight)),
    "_linalg_det": lambda A: _whole("det")(A), "_linalg_slogdet": lambda A: _whole("slogdet")(A),
    "_linalg_eigh": lambda *given, **named: _whole("eigh")(*given, **named),
    "_linalg_svd": lambda *given, **named: _whole("svd")(*given, **named),
    "_linalg_solve_ex": lambda *given, **named: _whole("solve_ex")(*given, **named),
    "_linalg_check_errors": lambda *given, **named: _whole("check_errors")(*given, **named),
    "linalg_vector_norm": lambda x, ord=2, dim=None, keepdim=False, *, dtype=None: x.norm(ord, dim,
    keepdim, dtype),
}  # fmt: skip
"""Functions of the operations that have no function of their name."""


def _whole(name: str) -> Callable[..., Any]:
    """Return a function of whole_results.py, which imports linear algebra."""
    from functrace.torch.dispatch import whole_results

    return getattr(whole_results, name)


def function_of(overload: OpOverload) -> Callable[..., Any]:
    """Return the function of an overload: the function, method or in-place method of its name.

    Raises:
        NotImplementedError: if there is none here.
    """
    name = overload._opname
    if name in REGISTERED.get(overload.namespace, ()):
        return REGISTERED[overload.namespace][name].call
    function = FUNCTIONS.get(name)
    for place in (TORCH, TENSOR, NN, FUNCTIONAL):
        if function is None and name in ENTRIES[place]:
            function = ENTRIES[place][name][1]
    for start, place in (("linalg_", LINALG), ("special_", SPECIAL), ("fft_", FFT)):
        if function is None and name.startswith(start):
            function = ENTRIES[place].get(name.removeprefix(start), (None, None))[1]
    if function is None or isinstance(function, property) or overload.namespace != "aten":
        raise NotImplementedError(errors.no_such_operation(str(overload)))
    arguments = overload._schema.arguments
    names = [argument.name for argument in arguments]
    # PyTorch's functions in Python do not reduce by default; its overloads return the mean.
    place = names.index("reduction") if "reduction" in names else None
    accepted = inspect.signature(function).parameters
    ours = list(accepted)

    @functools.wraps(function)
    def called(*args: object, **kwargs: object) -> Any:
        renamed = {
            ours[names.index(key)]
            if key not in accepted and key in names and names.index(key) < len(ours)
            else key: value
            for key, value in kwargs.items()
        }
        if place is not None and len(args) <= place and "reduction" not in renamed:
            renamed["reduction"] = arguments[place].default_value
        return function(*args, **renamed)

    return called


def found(namespace: str, *names: str) -> Any:
    """Return an operation by its names."""
    return functools.reduce(getattr, names, getattr(ops, namespace))


ops = Ops(Calls(function_of, overload_for, found))
