"""Parameters as one vector, and back.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterable

from functrace.torch import namespace as torch
from functrace.torch.functions.constants import typename
from functrace.torch.tensors.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters in one axis."""
    return torch.cat([parameter.view(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make parameters parts of a vector.

    Args:
        vec: the elements of all parameters, in their order.
        parameters: the parameters.

    Raises:
        TypeError: if ``vec`` is no tensor.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    first = 0
    for parameter in parameters:
        last = first + parameter.numel()
        parameter.data = vec[first:last].view_as(parameter).data
        first = last
