"""Forward-mode checks of `gradcheck`: compare tangents of dual tensors with differences of the
function.

Complex inputs are checked in two steps: as a function of their imaginary parts, then of their real
parts, with the other part constant. Outputs may be complex.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from functrace.api.batching.mapping import vmap
from functrace.errors import FunctraceError
from functrace.torch import errors
from functrace.torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from functrace.torch.autograd.grad_mode import without_random_numbers
from functrace.torch.autograd.gradcheck_parts import (
    GradcheckError,
    mismatch,
    random_like,
    text_of,
    unit,
)
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.torch.autograd.gradcheck import Check

Tensors: TypeAlias = tuple[Tensor, ...]
Duals: TypeAlias = list[Any]
"""The arguments of the function: dual tensors for the inputs to check."""


def check_forward(check: Check, *, undefined: bool, dtypes: bool) -> None:
    """Check the tangents of a function's outputs.

    Args:
        check: the check; its inputs may be complex.
        undefined: True to check inputs without tangent.
        dtypes: True to check that tangents of real outputs are real.

    Raises:
        GradcheckError: if a tangent is wrong.
    """
    complex_places = [
        k
        for k, x in enumerate(check.inputs)
        if isinstance(x, Tensor) and x._array.dtype.kind == "c"
    ]
    if not complex_places:
        parts = [("", check)]
    else:
        parts = [
            (errors.IMAGINARY_INPUTS, of_part(check, complex_places, imaginary=True)),
            (errors.REAL_INPUTS, of_part(check, complex_places, imaginary=False)),
        ]
    for note, part in parts:
        _check_tangents(
            part, [note if k in complex_places else "" for k in range(len(part.wanted))], dtypes
        )
    for _, part in parts if undefined else ():
        _check_undefined(part)


def of_part(check: Check, places: Sequence[int], *, imaginary: bool) -> Check:
    """Return the check of a function of the real, or imaginary, parts of its complex inputs."""

    def of_parts(*inputs: Tensor) -> Any:
        given = list(inputs)
        for k in places:
            held: Any = check.inputs[k]
            given[k] = held.real + given[k] * 1j if imaginary else given[k] + held.imag * 1j
        return check.func(*given)

    chosen: list[Any] = list(check.inputs)
    for k in places:
        x = check.inputs[k]
        chosen[k] = x.imag if imaginary else x.real  # type: ignore[attr-defined]
    return check.of(of_parts, tuple(chosen))


def _duals(check: Check) -> tuple[Duals, list[Tensor]]:
    """Return the arguments with dual tensors for the inputs to check, and their tangents, which
    are zero.
    """
    duals: Duals = list(check.inputs)
    for k in check.places:
        x = check.inputs[k]
        duals[k] = make_dual(x.detach(), wrap(np.zeros_like(x._array)))
    return duals, [_tangent(duals[k]) for k in check.places]


def _tangent(dual: Tensor) -> Any:
    return unpack_dual(dual).tangent


def _pushed(check: Check, duals: Duals, chosen: Sequence[int], dtypes: bool) -> list[Array]:
    """Return the tangents of the chosen outputs; zeros where there is none."""
    found: list[Array] = []
    for k, x in enumerate(check.returned(duals)):
        if k not in chosen:
            continue
        tangent = _tangent(x)
        if (
            dtypes
            and tangent is not None
            and (tangent._array.dtype.kind == "c") != (x._array.dtype.kind == "c")
        ):
            raise GradcheckError(errors.TANGENT_OF_OTHER_DTYPE)
        found.append(np.zeros_like(x._array) if tangent is None else tangent._array.copy())
    return found


def _check_tangents(check: Check, note: Sequence[str], dtypes: bool) -> None:
    """Compare tangents with differences."""
    every = check.returned(check.inputs)
    chosen = [k for k, x in enumerate(every) if isinstance(x, Tensor) and x.requires_grad]
    if not chosen:
        check.check_constant(every)
        return
    inputs = range(len(check.wanted))
    if check.fast:
        _check_fast(check, note, chosen, dtypes)
        return
    numerical = [check.numerical(i, chosen, _whole) for i in inputs]
    analytical = _jacobians(check, chosen, dtypes)
    for j in range(len(chosen)):
        for i in inputs:
            if not np.allclose(analytical[i][j], numerical[i][j], check.rtol, check.atol):
                raise GradcheckError(
                    mismatch(note[i] + _MISMATCH, i, j, numerical[i][j], analytical[i][j])
                )


_MISMATCH = "Jacobian computed with forward mode mismatch"


def _whole(array: Array) -> Array:
    return array


def _jacobians(check: Check, chosen: Sequence[int], dtypes: bool) -> list[list[Array]]:
    """Return, by input and output, the Jacobians from one run of the function per number of the
    inputs.
    """
    with dual_level():
        duals, tangents = _duals(check)
        made: list[list[Array]] = []
        for i, tangent in enumerate(tangents):

            def along(direction: Array, tangent: Tensor = tangent) -> list[Array]:
                tangent._array[...] = direction
                found = _pushed(check, duals, chosen, dtypes)
                tangent._array[...] = 0
                return found

            made.append(check.jacobians(i, len(chosen), along, _whole))
    return made


def _check_fast(check: Check, note: Sequence[str], chosen: Sequence[int], dtypes: bool) -> None:
    """Compare along one random direction of each input."""
    directions = [
        unit(x._array.size).reshape(x._array.shape).astype(x._array.dtype) for x in check.wanted
    ]
    numerical = [check.along(i, chosen, u) for i, u in enumerate(directions)]
    analytical: list[list[Array]] = []
    with dual_level():
        duals, tangents = _duals(check)
        for tangent, u in zip(tangents, directions, strict=True):
            tangent._array[...] = u
            analytical.append(_pushed(check, duals, chosen, dtypes))
            tangent._array[...] = 0
    for i, u in enumerate(directions):
        tolerance = check.atol * max(1.0, float(np.sum(np.abs(u))))
        for j in range(len(chosen)):
            pair = numerical[i][j].reshape(-1), analytical[i][j].reshape(-1)
            if not np.allclose(pair[1], pair[0], check.rtol, tolerance):
                slow = _jacobians(check, chosen, dtypes)[i][j]
                check.fail_fast(note[i] + _MISMATCH, i, j, pair, chosen, _whole, slow)


def _check_undefined(check: Check) -> None:
    """Check that an input without tangent is treated as one with a zero tangent."""
    with dual_level():
        duals, tangents = _duals(check)
        for tangent, x in zip(tangents, check.wanted, strict=True):
            tangent._array[...] = unit(x._array.size).reshape(x._array.shape)
        for k in check.places:
            x, kept = check.inputs[k], duals[k]
            duals[k] = make_dual(x.detach(), wrap(np.zeros_like(x._array)))
            first = [_tangent(y) for y in check.returned(duals)]
            duals[k] = x.detach()
            second = [_tangent(y) for y in check.returned(duals)]
            duals[k] = kept
            for j, (a, b) in enumerate(zip(first, second, strict=True)):
                if (
                    a is not None
                    and b is not None
                    and not np.allclose(a._array, b._array, 1e-5, 1e-8)
                ):
                    raise GradcheckError(*errors.undefined_tangent(j, x, a, b))


def check_batched_forward(check: Check) -> None:
    """Check that forward mode under ``vmap`` equals a loop."""
    for k in check.places:
        current = check.inputs[k]

        def push(direction: Any, k: int = k) -> list[Any]:
            with dual_level():
                given: list[Any] = [
                    x.detach() if isinstance(x, Tensor) else x for x in check.inputs
                ]
                given[k] = make_dual(given[k], wrap(direction))
                outputs = [x for x in check.returned(given) if x is not None]
                tangents = [_tangent(x) for x in outputs]
                return [
                    np.zeros(x._array.shape, x._array.dtype) if t is None else t._array
                    for x, t in zip(outputs, tangents, strict=True)
                ]

        directions = np.stack([random_like(current, False)._array for _ in range(2)])
        alone = [np.stack(found) for found in zip(*map(push, directions), strict=True)]
        try:
            with without_random_numbers():
                together = vmap(push)(directions)
        except (RuntimeError, FunctraceError) as error:
            raise GradcheckError(errors.batched_tangents_raise(error)) from error
        for j, (a, b) in enumerate(zip(together, alone, strict=True)):
            if not np.allclose(a, b, 1e-5, 1e-8):
                raise GradcheckError(errors.batched_mismatch(j, j, text_of(a), text_of(b)))
