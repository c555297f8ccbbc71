"""``gradcheck`` and ``gradgradcheck``: compare derivatives of the graph with finite differences of
the function.

A Jacobian is an array of shape (elements of the input, elements of the output), by rows as PyTorch
prints them. Complex inputs have complex rows: the derivative along the real axis, plus ``1j``
times the one along the imaginary axis. For complex outputs, the imaginary part is checked first,
then the real part.

In fast mode both Jacobians are multiplied by random unit vectors, so one difference and one
backward pass suffice.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from functrace.api.batching.mapping import vmap
from functrace.errors import FunctraceError
from functrace.torch import errors
from functrace.torch.autograd.delayed import UndefinedGrad
from functrace.torch.autograd.engine import grad
from functrace.torch.autograd.grad_mode import without_random_numbers
from functrace.torch.autograd.gradcheck_forward import check_batched_forward, check_forward
from functrace.torch.autograd.gradcheck_older import (  # noqa: F401 (PyTorch exports them here)
    get_analytical_jacobian,
    get_numerical_jacobian,
)
from functrace.torch.autograd.gradcheck_parts import (
    GradcheckError,
    mismatch,
    random_like,
    returned,
    text_of,
    unit,
)
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.typing import Array

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Tensors: TypeAlias = tuple[Tensor, ...]
OneOrMore: TypeAlias = Tensor | Sequence[Tensor]


def gradcheck(
    func: Callable[..., OneOrMore],
    inputs: OneOrMore,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check gradients of a function against central differences.

    Args:
        func: a function of ``inputs`` that returns a tensor or several.
        inputs: tensors; those that require grad are checked. They should have double precision.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: True to raise an error; otherwise False is returned. Exceptions of
            ``func`` are raised in any case.
        nondet_tol: largest difference of two backward passes.
        check_undefined_grad: True to check that backward accepts undefined gradients (``None``).
        check_grad_dtypes: True to check that gradients have the dtypes of their inputs.
        check_batched_grad: True to check that backward under ``vmap`` equals a loop.
        check_batched_forward_grad: True to check the same for forward mode.
        check_forward_ad: True to check forward mode, too.
        check_backward_ad: True to check reverse mode.
        fast_mode: True to multiply Jacobians by random vectors instead of computing them in full.
        masked: accepted for ported code: tensors here are never sparse.

    Returns:
        True if all derivatives are right.

    Raises:
        GradcheckError: if a derivative is wrong.
        ValueError: if no input requires grad.
        RuntimeError: for inputs whose elements share memory.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.log, (x,))
        True

    Cost:
        two runs of ``func`` per element of the inputs, two backward passes per element of the
        outputs; in fast mode two each per pair of input and output.

    Source:
        central differences: Press et al., Numerical Recipes, 3rd ed., section 5.7.
    """
    assert check_forward_ad or check_backward_ad, errors.CHECKS_NOTHING
    assert not (check_batched_grad and not check_backward_ad), errors.BATCHED_WITHOUT_BACKWARD
    assert not (check_batched_forward_grad and not check_forward_ad), errors.BATCHED_WITHOUT_FORWARD
    check = Check(func, inputs, eps, atol, rtol, nondet_tol, fast_mode)
    try:
        check.run(
            backward=check_backward_ad,
            forward=check_forward_ad,
            undefined=check_undefined_grad,
            dtypes=check_grad_dtypes,
            batched=check_batched_grad,
            batched_forward=check_batched_forward_grad,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., OneOrMore],
    inputs: OneOrMore,
    grad_outputs: OneOrMore | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check second derivatives of a function against central differences, by its inputs and by the
    gradients of its outputs.

    Args:
        func: a function of ``inputs`` that returns a tensor or several.
        inputs: tensors; those that require grad are checked. They should have double precision.
        grad_outputs: gradients of the outputs; random numbers between -1 and 1 by default.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        gen_non_contig_grad_outputs: True for random gradients that are not contiguous.
        raise_exception: True to raise what is wrong; otherwise False is returned.
        nondet_tol: largest difference of two backward passes.
        check_undefined_grad: True to check that backward accepts undefined gradients (``None``).
        check_grad_dtypes: True to check that gradients have the dtypes of their inputs.
        check_batched_grad: True to check that backward under ``vmap`` equals a loop.
        check_fwd_over_rev: True to check forward mode over backward.
        check_rev_over_rev: True to check backward over backward.
        fast_mode: True to multiply Jacobians by random vectors instead of computing them in full.
        masked: accepted for ported code: tensors here are never sparse.

    Returns:
        True if all derivatives are right.

    Raises:
        GradcheckError: if a derivative is wrong.
        ValueError: if no input requires grad.
        RuntimeError: for inputs whose elements share memory.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradgradcheck(torch.log, (x,))
        True
    """
    assert check_fwd_over_rev or check_rev_over_rev, errors.CHECKS_NOTHING_TWICE
    assert not (check_undefined_grad and not check_rev_over_rev), errors.UNDEFINED_WITHOUT_REVERSE
    assert not (check_batched_grad and not check_rev_over_rev), errors.BATCHED_WITHOUT_REVERSE
    given = _as_tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable(returned(func(*given)))
        seeds = tuple([random_like(x, gen_non_contig_grad_outputs) for x in outputs])
    else:
        seeds = _as_tuple(grad_outputs)
    count = len(seeds)

    requires = [isinstance(x, Tensor) and x.requires_grad for x in (*given, *seeds)]

    def gradients(*args: Tensor) -> Tensors:
        inputs = [x.requires_grad_() if flag else x for x, flag in zip(args, requires, strict=True)]
        values, starts = inputs[: len(args) - count], inputs[len(args) - count :]
        wanted = [x for x in values if isinstance(x, Tensor) and x.requires_grad]
        outputs = _differentiable(returned(func(*values)))
        found = grad(outputs, wanted, starts, create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        gradients,
        (*given, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


# -- inputs and outputs ----------------------------------------------------------------------------


def _as_tuple(given: OneOrMore) -> Tensors:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)  # type: ignore[return-value]


def _differentiable(outputs: Tensors) -> Tensors:
    return tuple([x for x in outputs if isinstance(x, Tensor) and x.requires_grad])


def _checked_inputs(given: Tensors) -> list[int]:
    """Return the indices of the inputs to check.

    Raises:
        ValueError: if no input requires grad.
        RuntimeError: if elements of one share memory.
    """
    places = [k for k, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not places:
        raise ValueError(errors.NOTHING_TO_CHECK)
    for k in places:
        array = given[k]._array
        if array.dtype not in (np.float64, np.complex128):
            warnings.warn(errors.not_double(k), UserWarning, stacklevel=5)
        if array.size and any(
            step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True)
        ):
            raise RuntimeError(errors.overlapping_input(k))
    return places


# -- the check -------------------------------------------------------------------------------------

Part: TypeAlias = Callable[[Array], Array]
"""Selects the part of an output to check."""


@final
class Check:
    """One call of `gradcheck`."""

    def __init__(
        self,
        func: Callable[..., OneOrMore],
        inputs: OneOrMore,
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
        fast: bool,
    ) -> None:
        self.func = func
        self.inputs = _as_tuple(inputs)
        self.eps, self.atol, self.rtol, self.nondet_tol, self.fast = (
            eps,
            atol,
            rtol,
            nondet_tol,
            fast,
        )
        self.places = _checked_inputs(self.inputs)
        self.wanted: Tensors = tuple([self.inputs[k] for k in self.places])

    def outputs(self) -> Tensors:
        """Run the function; returns its differentiable outputs."""
        return _differentiable(returned(self.func(*self.inputs)))

    def run(
        self,
        *,
        backward: bool,
        forward: bool,
        undefined: bool,
        dtypes: bool,
        batched: bool,
        batched_forward: bool,
    ) -> None:
        """Run all requested checks."""
        every = returned(self.func(*self.inputs))
        chosen = [k for k, x in enumerate(every) if isinstance(x, Tensor) and x.requires_grad]
        if not chosen:
            self.check_constant(every)
            return
        parts: list[tuple[str, list[int], Part]] = []
        complex_ones = [j for j, k in enumerate(chosen) if every[k]._array.dtype.kind == "c"]
        if complex_ones:
            parts.append((errors.IMAGINARY_PART, complex_ones, np.imag))
            parts.append((errors.REAL_PART, list(range(len(chosen))), np.real))
        else:
            parts.append(("", list(range(len(chosen))), lambda a: a))
        for note, outputs, part in parts if backward else ():
            for i in range(len(self.wanted)):
                if self.fast:
                    self._check_fast(note, i, chosen, outputs, part)
                    continue
                numerical = self.numerical(i, chosen, part)
                for j in outputs:
                    self._compare(note, i, j, numerical[j], part, dtypes)
        if forward:
            check_forward(self, undefined=undefined, dtypes=dtypes)
        if batched_forward:
            check_batched_forward(self)
        if batched:
            self._check_batched()
        if backward:
            self._check_multiplied()
        if undefined and backward:
            self._check_undefined()

    # -- differences -------------------------------------------------------------------------

    def along(
        self, i: int, chosen: Sequence[int], direction: Array, place: tuple[int, ...] | None = None
    ) -> list[Array]:
        """Return the central difference of the chosen outputs along a direction of one input.

        Raises:
            AssertionError: if shapes or dtypes of the outputs depend on the values; it names the
                element at ``place`` that was changed.
        """
        array = self.wanted[i]._array
        before = array.copy()
        found: list[list[Array]] = []
        for sign in (1, -1):
            array[...] = before + sign * self.eps * direction
            try:
                results = returned(self.func(*self.inputs))
                found.append([results[k]._array.copy() for k in chosen])
            finally:
                array[...] = before
        for after, earlier in zip(*found, strict=True):
            if after.shape != earlier.shape:
                pair = f"shapes {Size(earlier.shape)} and {Size(after.shape)}"
                raise AssertionError(errors.perturbed_outputs("shape", place, self.eps, pair))
            if after.dtype != earlier.dtype:
                pair = f"dtypes {DTYPES[earlier.dtype]} and {DTYPES[after.dtype]}"
                raise AssertionError(errors.perturbed_outputs("dtype", place, self.eps, pair))
        return [(a - b) / (2 * self.eps) for a, b in zip(*found, strict=True)]

    def _directions(self, i: int) -> list[tuple[Array, complex]]:
        """Return the directions of one input, and the factor of each derivative in the row of its
        element.
        """
        array = self.wanted[i]._array
        is_complex = array.dtype.kind == "c"
        found: list[tuple[Array, complex]] = []
        for place in range(array.size):
            unit = np.zeros(array.shape, array.dtype)
            unit.flat[place] = 1
            found.append((unit, 1))
            if is_complex:
                found.append((unit * 1j, 1j))
        return found

    def numerical(self, i: int, chosen: Sequence[int], part: Part) -> list[Array]:
        """Return the numerical Jacobians of all chosen outputs by one input."""
        return self.jacobians(
            i,
            len(chosen),
            lambda direction: self.along(
                i, chosen, direction, tuple([int(k) for k in np.argwhere(direction)[0]])
            ),
            part,
        )

    def jacobians(
        self, i: int, count: int, along: Callable[[Array], Sequence[Any]], part: Part
    ) -> list[Array]:
        """Return the Jacobians of outputs by one input, row by row, from derivatives along its
        directions.
        """
        step = 2 if self.wanted[i]._array.dtype.kind == "c" else 1
        found = [(factor, along(direction)) for direction, factor in self._directions(i)]
        made: list[Array] = []
        for j in range(count):
            rows = [
                factor * part(np.asarray(derivatives[j])).reshape(-1)
                for factor, derivatives in found
            ]
            rows = [sum(rows[k : k + step]) for k in range(0, len(rows), step)]
            made.append(np.array(rows) if rows else np.zeros((0, 0)))
        return made

    def check_constant(self, every: Tensors) -> None:
        """Check that a function does not depend on the inputs if no output requires grad."""
        chosen = [
            k for k, x in enumerate(every) if isinstance(x, Tensor) and x._array.dtype.kind in "fcV"
        ]
        for i in range(len(self.wanted)):
            for jacobian in self.numerical(i, chosen, lambda a: a):
                if not np.allclose(jacobian, 0, atol=self.atol):
                    raise GradcheckError(errors.NUMERICAL_NOT_ZERO)

    # -- backward ----------------------------------------------------------------------------

    def _pulled(self, j: int, seed: Array, outputs: Tensors) -> Sequence[Tensor | None]:
        return grad((outputs[j],), self.wanted, (wrap(seed),), retain_graph=True, allow_unused=True)

    def _analytical(self, i: int, j: int, part: Part, dtypes: bool) -> Array:
        """Return the Jacobian of one output by one input, from one backward pass per element of
        the output.
        """
        outputs = self.outputs()
        output, x = outputs[j]._array, self.wanted[i]._array
        factor = _factor(output, part)
        made = np.zeros((x.size, output.size), np.result_type(x.dtype, output.real.dtype))
        for place in range(output.size):
            seed = np.zeros(output.shape, output.dtype)
            seed.flat[place] = factor
            gradient = self._pulled(j, seed, outputs)[i]
            if gradient is None:
                continue
            if dtypes and gradient._array.dtype != x.dtype:
                raise GradcheckError(errors.GRADIENT_OF_OTHER_DTYPE)
            if gradient._array.shape != x.shape:
                raise GradcheckError(errors.GRADIENT_OF_OTHER_SIZE)
            made[:, place] = gradient._array.reshape(-1)
        return made

    def _compare(
        self, note: str, i: int, j: int, numerical: Array, part: Part, dtypes: bool
    ) -> None:
        """Compare the two Jacobians of one output by one input, and two backward passes."""
        analytical, again = (self._analytical(i, j, part, dtypes) for _ in range(2))
        if not np.allclose(analytical, numerical, self.rtol, self.atol):
            raise GradcheckError(mismatch(note + _BACKWARD, i, j, numerical, analytical))
        if not np.allclose(analytical, again, rtol=0, atol=self.nondet_tol):
            raise GradcheckError(errors.not_reentrant(note, self.nondet_tol))

    # -- fast mode ---------------------------------------------------------------------------

    def _check_fast(
        self, note: str, i: int, chosen: Sequence[int], outputs: Sequence[int], part: Part
    ) -> None:
        """Compare Jacobians by one input, multiplied by random vectors from both sides."""
        x = self.wanted[i]._array
        u = unit(x.size).reshape(x.shape).astype(x.dtype)
        sides = [(u, 1), (u * 1j, 1j)] if x.dtype.kind == "c" else [(u, 1)]
        differences = [(factor, self.along(i, chosen, side)) for side, factor in sides]
        for j in outputs:
            numerical = np.sum(
                [factor * part(found[j]).reshape(-1) for factor, found in differences], axis=0
            )
            v = unit(numerical.size)
            tolerance = self.atol * max(1.0, float(len(sides) * np.sum(np.abs(u)) * np.sum(v)))
            analytical = self._short(j, v, part)[i]
            again = self._short(j, v, part)[i]
            pair = complex(numerical @ v), complex(np.sum(np.conj(u) * analytical))
            if not np.allclose(pair[1], pair[0], self.rtol, tolerance):
                self.fail_fast(
                    note + _BACKWARD, i, j, pair, chosen, part, self._analytical(i, j, part, False)
                )
            if not np.allclose(analytical, again, rtol=0, atol=self.nondet_tol):
                raise GradcheckError(errors.not_reentrant(note, self.nondet_tol))

    def _short(self, j: int, v: Array, part: Part) -> list[Array]:
        """Return the gradients of one output, by all inputs, multiplied by a vector."""
        outputs = self.outputs()
        output = outputs[j]._array
        seed = (v.reshape(output.shape) * _factor(output, part)).astype(output.dtype)
        found = self._pulled(j, seed, outputs)
        return [
            np.zeros_like(x._array) if g is None else g._array
            for x, g in zip(self.wanted, found, strict=True)
        ]

    def fail_fast(
        self,
        what: str,
        i: int,
        j: int,
        pair: tuple[Any, Any],
        chosen: Sequence[int],
        part: Part,
        analytical: Array,
    ) -> None:
        """Raise the mismatch found in fast mode, with both Jacobians in full."""
        numerical = self.numerical(i, chosen, part)[j]
        shown = [
            text_of(x)
            if isinstance(x, np.ndarray)
            else x
            if numerical.dtype.kind == "c"
            else x.real
            for x in pair
        ]
        note = errors.slow_mode(
            text_of(numerical), text_of(analytical), np.abs(analytical - numerical).max(initial=0.0)
        )
        where = f"for output {j} with respect to input {i}"
        raise GradcheckError(
            f"{what} {where},\nnumerical:{shown[0]}\nanalytical:{shown[1]}\n{note}"
        )

    def _check_multiplied(self) -> None:
        """Check that gradients of zero are pulled back to zero."""
        outputs = self.outputs()
        zeros = [wrap(np.zeros_like(x._array)) for x in outputs]
        for x, g in zip(
            self.wanted, grad(outputs, self.wanted, zeros, allow_unused=True), strict=True
        ):
            if g is None:
                continue
            if g._array.any():
                raise GradcheckError(errors.NOT_MULTIPLIED)
            if g._array.dtype != x._array.dtype:
                raise GradcheckError(errors.GRADIENT_OF_OTHER_DTYPE)

    def _check_undefined(self) -> None:
        """Check that backward accepts undefined gradients: all of them, and each alone."""
        count = len(self.outputs())
        missing = (
            [range(count)]
            if count == 1
            else [range(count), *[range(k, k + 1) for k in range(count)]]
        )
        for places in missing:
            outputs = [
                UndefinedGrad()(x) if k in places else x for k, x in enumerate(self.outputs())
            ]
            seeds = [wrap(np.zeros_like(x._array)) for x in outputs]
            try:
                found = grad(outputs, self.wanted, seeds, allow_unused=True)
            except RuntimeError as error:
                warnings.warn(errors.UNDEFINED_IS_CHECKED, UserWarning, stacklevel=4)
                raise GradcheckError(errors.UNDEFINED_REFUSED) from error
            if any(g is not None and g._array.any() for g in found):
                warnings.warn(errors.UNDEFINED_IS_CHECKED, UserWarning, stacklevel=4)
                raise GradcheckError(errors.UNDEFINED_NOT_ZERO)

    def _check_batched(self) -> None:
        """Check that backward passes under ``vmap`` equal a loop."""
        outputs = self.outputs()
        for j, output in enumerate(outputs):
            seeds = np.stack([random_like(output, False)._array for _ in range(2)])

            def pulled(seed: Array, j: int = j) -> list[Array]:
                found = self._pulled(j, seed, outputs)
                return [np.zeros_like(x._array) if g is None else g._array
                        for x, g in zip(self.wanted, found, strict=True)]  # fmt: skip

            try:
                with without_random_numbers():
                    mapped = vmap(pulled)(seeds)
            except (RuntimeError, FunctraceError) as error:
                raise GradcheckError(errors.batched_gradients_raise(error)) from error
            for i, (together, alone) in enumerate(
                zip(mapped, zip(*map(pulled, seeds), strict=True), strict=True)
            ):
                if not np.allclose(together, np.stack(alone), self.rtol, self.atol):
                    raise GradcheckError(
                        errors.batched_mismatch(j, i, text_of(together), text_of(np.stack(alone)))
                    )

    # -- for the check of forward mode ---------------------------------------------------------

    def of(self, func: Callable[..., OneOrMore], inputs: Tensors) -> Check:
        """Return the same check of another function."""
        made = object.__new__(Check)
        made.__dict__.update(self.__dict__)
        made.func, made.inputs, made.wanted = func, inputs, tuple([inputs[k] for k in self.places])
        return made

    def returned(self, inputs: Sequence[object]) -> Tensors:
        """Return the results of the function for other inputs."""
        return returned(self.func(*inputs))


_BACKWARD = "Jacobian mismatch"


def _factor(output: Array, part: Part) -> complex:
    """Return the seed that differentiates the selected part of an output."""
    return 1j if output.dtype.kind == "c" and part(np.array([1j]))[0] == 1 else 1
