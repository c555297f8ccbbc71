"""The merged tables of rows; importing this module gives `Tensor` its methods.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch import random
from functrace.torch.dispatch import overrides
from functrace.torch.dispatch.overrides import default, is_installed, overridable, prepare
from functrace.torch.dispatch.rows import (
    FFT,
    FUNCTIONAL,
    LINALG,
    NN,
    SPECIAL,
    TENSOR,
    TORCH,
    entries,
)
from functrace.torch.func.calls import called, jitted
from functrace.torch.functions import (
    activations,
    arithmetic,
    arranging,
    attention,
    convolution,
    creation,
    ctc,
    distances,
    dropout,
    embedding,
    factories,
    fourier,
    in_place,
    interchange,
    linear_algebra,
    losses,
    margins,
    methods,
    normalization,
    padding,
    picking,
    pooling,
    products,
    putting,
    recurrent,
    reductions,
    resampling,
    scattering,
    searching,
    shaping,
    shuffling,
    special,
    statistics,
    view_copies,
)
from functrace.torch.functions import elementwise as functions
from functrace.torch.random import factories as random_factories
from functrace.torch.random import filling, sampling
from functrace.torch.tensors import copying, memory, pairs, printing
from functrace.torch.tensors.tensor import Tensor

TABLES = tuple(
    module.ROWS
    for module in (
        functions, reductions, statistics, products, shaping, pairs, picking, in_place, memory,
        methods, printing, creation, factories,
        random, random_factories, filling, sampling,
        convolution, padding, pooling, resampling, shuffling, losses, activations, distances,
        margins, normalization, dropout, embedding, attention, recurrent, ctc, scattering, copying,
        special, arithmetic, linear_algebra, arranging, searching, fourier, putting, interchange,
        view_copies,
    )
)  # fmt: skip
ENTRIES = entries(TABLES)
"""Rows of each namespace: by name, the row and the object."""


def public(place: str) -> dict[str, Any]:
    """Return the functions of a namespace by name; see overrides.py for those with overrides."""
    wrap = overridable if is_installed() else _unchanged
    return {name: wrap(function) for name, (_, function) in ENTRIES[place].items()}


def _unchanged(function: Any) -> Any:
    return function


def install() -> None:
    """Set the methods of the class, and the names by which functions are found (and pickled)."""
    for name, (_, method) in ENTRIES[TENSOR].items():
        setattr(Tensor, name, method)
    overrides.ENTRIES.update(ENTRIES)
    Tensor.__torch_function__ = classmethod(default)
    Tensor._prepare = staticmethod(prepare)
    Tensor.__functrace_call__, Tensor.__functrace_jit__ = staticmethod(called), staticmethod(jitted)
    for place in (NN, SPECIAL, FFT, LINALG, TENSOR, FUNCTIONAL, TORCH):
        for name, (row, function) in ENTRIES[place].items():
            if name.removesuffix("_") == row.name.removesuffix("_") and not isinstance(
                function, property
            ):
                module, qualifier = (TORCH, "Tensor.") if place == TENSOR else (place, "")
                function.__module__, function.__qualname__ = module, qualifier + name


install()
