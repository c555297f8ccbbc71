"""`check_function`: run an ``autograd.Function``, and report its errors. As a program: run a script
on functrace.torch, and on PyTorch where it is installed, and report the differences::

    python -m functrace.torch.check FILE [--alone] [--timeout SECONDS] [ARGUMENTS ...]

The exit code is 0 if the script runs and prints the same, otherwise 1; see `check_script`.

It finds errors that tensors do not report themselves: saved memory whose overwrite backward will
not detect, outputs that are not in the graph, gradients that do not fit, rules that disagree, a
second derivative that is silently wrong.

Layer: 9.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

import numpy as np

from functrace.ops.elementwise import real
from functrace.torch.autograd.custom import FunctionBase
from functrace.torch.autograd.engine import backward, grad
from functrace.torch.autograd.function import BackwardCFunction, Function, FunctionCtx
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from functrace.torch.autograd.mapping import VmapInfo
from functrace.torch.func import grad as functional_grad
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.tree import leaves
from functrace.typing import Array

Argument: TypeAlias = object
"""Argument of a Function: a tensor, or any other argument of its forward."""


class Finding(NamedTuple):
    """One error.

    Args:
        rule: its name.
        what: the observation.
        fix: how to correct it.
    """

    rule: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}\n  fix: {self.fix}"


@dataclass(frozen=True)
class Report:
    """Result of `check_function`; it prints its findings, and is true if there are none."""

    name: str
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return not self.findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        if not self.findings:
            return f"{self.name}: nothing found"
        return "\n".join([f"{self.name}: {len(self.findings)} found", *map(str, self.findings)])


def check_function(
    function: type[Function],
    *inputs: Argument,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
) -> Report:
    """Run a Function's rules on some inputs, and report errors.

    Args:
        function: a subclass of ``torch.autograd.Function``.
        inputs: arguments of ``apply``. Tensors of floats are copied in double precision.
        eps: step of the differences that derivatives are compared with.
        atol: absolute tolerance.
        rtol: relative tolerance.

    Returns:
        a report of these findings, by rule: ``kept on ctx``, ``written in place``, ``output in a
        list``, ``number of gradients``, ``type of a gradient``, ``shape of a gradient``, ``dtype
        of a gradient``, ``backward raises``, ``wrong gradient``, ``jvp``, ``vmap``, ``second
        derivative``, ``transforms``.

    Raises:
        TypeError: if ``function`` is no Function, or no input is a tensor of floats.

    Example:
        >>> import functrace.torch as torch
        >>> class Twice(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.x = x
        ...         return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return 3 * g
        >>> [finding.rule for finding in torch.check_function(Twice, torch.ones(2))]
        ['kept on ctx', 'wrong gradient']

    Cost:
        like ``gradcheck`` and ``gradgradcheck``: some runs per element of the inputs and outputs.
    """
    if not (isinstance(function, type) and issubclass(function, Function)):
        raise TypeError(f"check_function takes a subclass of autograd.Function, not {function!r}")
    given = [_copied(x) for x in inputs]
    if not any(isinstance(x, Tensor) and x.requires_grad for x in given):
        raise TypeError(
            "check_function needs a tensor of floats among the inputs: nothing has a derivative"
        )
    check = Check(function, given, eps, atol, rtol)
    check.run()
    return Report(function.__name__, tuple(check.findings))


def _copied(x: Argument) -> Argument:
    """Return a copy of a tensor; of a float tensor, a leaf in double precision that requires
    grad.
    """
    if not isinstance(x, Tensor):
        return x
    kind = x._array.dtype.kind
    array = x._array.astype({"f": np.float64, "c": np.complex128}.get(kind, x._array.dtype))
    return wrap(array).requires_grad_(kind in "fcV")


# -- instrumentation -------------------------------------------------------------------------------


@final
@dataclass
class AppliedFunction:
    """Record of one application of a Function."""

    ctx: BackwardCFunction | None = None
    output: object = None
    kept: list[str] = field(default_factory=list)
    dirty: set[int] = field(default_factory=set)
    returned: object = None


def watched(function: type[Function], seen: AppliedFunction) -> type[Function]:
    """Return a copy of a Function that records the behaviour of its rules."""

    class Watched(function):  # type: ignore[misc, valid-type]
        @classmethod
        def _run(cls, ctx: FunctionBase, args: tuple[Argument, ...]) -> object:
            before = set(vars(ctx))
            output = super()._run(ctx, args)
            own = {
                "to_save",
                "saved_for_forward",
                "dirty_tensors",
                "non_differentiable",
                "_materializes",
            } | before
            seen.kept = [
                name
                for name, value in vars(ctx).items()
                if name not in own and _holds_tensor(value)
            ]
            seen.dirty = {id(x) for x in ctx.dirty_tensors or ()}
            seen.output = output
            return output

        @classmethod
        def _rule(cls) -> Callable[..., object]:
            rule = super()._rule()

            def noted(ctx: BackwardCFunction, *grads: Tensor | None) -> object:
                seen.ctx = ctx
                seen.returned = rule(ctx, *grads)
                return seen.returned

            return noted

    Watched.__name__ = function.__name__
    return Watched


def _holds_tensor(value: object) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in leaves(value))


def _tensors(output: object) -> tuple[Tensor, ...]:
    several = output if isinstance(output, tuple) else (output,)
    return tuple([x for x in several if isinstance(x, Tensor)])


# -- the check -------------------------------------------------------------------------------------


@final
class Check:
    """One call of `check_function`."""

    def __init__(
        self,
        function: type[Function],
        inputs: Sequence[Argument],
        eps: float,
        atol: float,
        rtol: float,
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.tolerances = {"eps": eps, "atol": atol, "rtol": rtol}
        self.findings: list[Finding] = []
        self.numbers = np.random.default_rng(0)

    def found(self, rule: str, what: str, fix: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(rule, what, fix))

    def run(self) -> None:
        """Run all checks; derivatives only if forward and backward run at all."""
        if self._look_at_forward() and self._look_at_backward():
            self._compare_gradients()
            self._compare_jvp()
            self._compare_vmap()
            self._compare_second()
            self._compare_transforms()

    def apply(self, *inputs: Argument) -> object:
        """Apply the Function."""
        return self.function.apply(*inputs)

    def _copies(self) -> list[Argument]:
        """Return inputs that forward may overwrite: computed from the leaves."""
        return [x.clone() if isinstance(x, Tensor) and x.requires_grad else x for x in self.inputs]

    def _look_at_forward(self) -> bool:
        seen = AppliedFunction()
        inputs = self._copies()
        before = [x._array.copy() if isinstance(x, Tensor) else None for x in inputs]
        output = watched(self.function, seen).apply(*inputs)
        for name in seen.kept:
            self.found(
                "kept on ctx",
                f"ctx.{name} holds a tensor: an overwrite is not detected, saved-tensor hooks do "
                "not get it, and an output "
                "makes a cycle",
                f"use ctx.save_for_backward, and read {name} from ctx.saved_tensors",
            )
        for place, (x, array) in enumerate(zip(inputs, before, strict=True)):
            if not isinstance(x, Tensor) or array is None or id(x) in seen.dirty:
                continue
            if not np.array_equal(x._array, array, equal_nan=array.dtype.kind in "fcV"):
                self.found(
                    "written in place",
                    f"forward overwrites argument {place} without mark_dirty: tensors saved from "
                    "it become wrong",
                    "write to a clone, or call ctx.mark_dirty on it and return it",
                )
        several = seen.output if isinstance(seen.output, tuple) else (seen.output,)
        for place, value in enumerate(several):
            if not isinstance(value, Tensor) and _holds_tensor(value):
                self.found(
                    "output in a list",
                    f"output {place} is a {type(value).__name__} of tensors, which are not in the "
                    "graph",
                    "return a tuple of tensors",
                )
        return any(x.requires_grad for x in _tensors(output))

    def _look_at_backward(self) -> bool:
        seen = AppliedFunction()
        outputs = [
            x
            for x in _tensors(watched(self.function, seen).apply(*self._copies()))
            if x.requires_grad
        ]
        wanted = [x for x in self.inputs if isinstance(x, Tensor) and x.requires_grad]
        failure = None
        try:
            grad(outputs, wanted, [self._random(x) for x in outputs], allow_unused=True)
        except Exception as error:
            failure = error
        if seen.ctx is not None and seen.returned is not None:
            before = len(self.findings)
            self._look_at_gradients(seen.returned)
            if len(self.findings) > before:
                return failure is None
        if failure is not None:
            message = f"{type(failure).__name__}: {failure}"
            self.found("backward raises", message, "see the traceback of outputs.backward()")
        return failure is None

    def _look_at_gradients(self, returned: object) -> None:
        """Check the results of backward before they are fitted."""
        found = returned if isinstance(returned, tuple) else (returned,)
        if len(found) != len(self.inputs) and (
            len(found) < len(self.inputs) or any(g is not None for g in found[len(self.inputs) :])
        ):
            self.found(
                "number of gradients",
                f"backward returns {len(found)} for {len(self.inputs)} arguments",
                "return one per argument of forward (without ctx), None for those that are no "
                "tensors",
            )
            return
        for place, (g, x) in enumerate(zip(found, self.inputs, strict=False)):
            if g is None or not isinstance(x, Tensor):
                continue
            if not isinstance(g, Tensor):
                self.found(
                    "type of a gradient",
                    f"gradient {place} is a {type(g).__name__}",
                    "return tensors, or None",
                )
            elif g._array.shape != x._array.shape:
                shapes = f"{tuple(g.shape)}, and argument {place} has {tuple(x.shape)}"
                fix = "sum over the axes that forward has broadcast"
                self.found("shape of a gradient", f"gradient {place} has shape {shapes}", fix)
            elif g._array.dtype != x._array.dtype:
                dtypes = f"{g.dtype}, and argument {place} is {x.dtype}"
                self.found(
                    "dtype of a gradient",
                    f"gradient {place} is {dtypes}",
                    "compute it in the argument's dtype",
                )

    def _random(self, x: Tensor) -> Tensor:
        numbers = self.numbers.uniform(-1, 1, x._array.shape)
        if x._array.dtype.kind == "c":
            numbers = numbers + 1j * self.numbers.uniform(-1, 1, x._array.shape)
        return wrap(numbers.astype(x._array.dtype))

    def _outputs(self, *inputs: Argument) -> tuple[Tensor, ...]:
        """Apply the Function to copies; returns the outputs that have a derivative."""
        copies = [x.clone() if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
        return tuple([x for x in _tensors(self.apply(*copies)) if x.requires_grad])

    def _compare_gradients(self) -> None:
        try:
            gradcheck(self._outputs, tuple(self.inputs), **self.tolerances)  # type: ignore[arg-type]
        except GradcheckError as error:
            self.found(
                "wrong gradient",
                str(error).rstrip(),
                "compare backward with the derivative of forward",
            )

    def _compare_second(self) -> None:
        """Compare the derivative of backward with differences; a backward that refuses
        differentiation is correct.
        """
        if self._refuses_second():
            return
        try:
            gradgradcheck(self._outputs, tuple(self.inputs), **self.tolerances)  # type: ignore[arg-type]
        except GradcheckError as error:
            if not any(finding.rule == "wrong gradient" for finding in self.findings):
                self.found(
                    "second derivative",
                    "the derivative of backward differs from finite differences; "
                    f"{str(error).rstrip()}",
                    "save inputs and outputs only (an intermediate that forward has computed is a "
                    "constant to backward): "
                    "recompute it in backward, or return it as an output; or decorate it with "
                    "once_differentiable",
                )

    def _refuses_second(self) -> bool:
        """Return True if backward raises an error when it is differentiated."""
        outputs = self._outputs(*self.inputs)
        tensors = [x for x in self.inputs if isinstance(x, Tensor) and x.requires_grad]
        seeds = [self._random(x).requires_grad_() for x in outputs]
        found = [
            g
            for g in grad(outputs, tensors, seeds, create_graph=True, allow_unused=True)
            if g is not None
        ]
        try:
            backward(
                [g for g in found if g.requires_grad],
                [self._random(g) for g in found if g.requires_grad],
            )
        except RuntimeError:
            return True
        finally:
            for x in tensors:
                x.grad = None
        return False

    def _compare_jvp(self) -> None:
        """Compare the dot product of a jvp and a cotangent with that of the tangents and a vjp."""
        if self.function.jvp is Function.jvp:
            return
        tensors = [x for x in self.inputs if isinstance(x, Tensor) and x.requires_grad]
        tangents = {id(x): self._random(x) for x in tensors}
        ctx = self.function._backward_cls()
        with no_grad():
            ctx._begin(self.inputs, in_graph=False)
            output = self.function._run(ctx, tuple(self.inputs))
            saved = tuple(ctx.saved_for_forward or ctx.to_save or ())
            pushed = _tensors(
                self.function.jvp(_Forward(ctx, saved), *[tangents.get(id(x)) for x in self.inputs])
            )
        outputs = self._outputs(*self.inputs)
        if len(pushed) < len(outputs):
            self.found(
                "jvp",
                f"jvp returns {len(pushed)} tangents for {len(_tensors(output))} outputs",
                "return one per output",
            )
            return
        cotangents = [self._random(x) for x in outputs]
        pulled = grad(outputs, tensors, cotangents, allow_unused=True)
        forward = sum(_product(c, p) for c, p in zip(cotangents, pushed, strict=False))
        backward = sum(
            _product(g, tangents[id(x)])
            for g, x in zip(pulled, tensors, strict=True)
            if g is not None
        )
        if not np.allclose(forward, backward, self.tolerances["rtol"], self.tolerances["atol"]):
            self.found(
                "jvp",
                f"jvp and backward disagree: v @ jvp(t) is {forward:.6g}, and vjp(v) @ t is "
                f"{backward:.6g}",
                "one of the two is not the derivative of forward; see the other findings",
            )

    def _compare_vmap(self) -> None:
        """Compare the batching rule with a loop."""
        rule = self.function.vmap
        if rule is Function.vmap:
            return
        batches = [
            np.stack([x._array, self._random(x)._array])
            if isinstance(x, Tensor) and x.requires_grad
            else None
            for x in self.inputs
        ]
        in_dims = tuple([None if batch is None else 0 for batch in batches])
        with no_grad():
            given = [x if b is None else wrap(b) for x, b in zip(self.inputs, batches, strict=True)]
            together, out_dims = rule(VmapInfo(2, "error"), in_dims, *given)
            alone = [
                _tensors(
                    self.apply(
                        *[
                            x if b is None else wrap(b[k])
                            for x, b in zip(self.inputs, batches, strict=True)
                        ]
                    )
                )
                for k in range(2)
            ]
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,)
        for place, (whole, dim) in enumerate(zip(_tensors(together), dims, strict=False)):
            expected = [one[place]._array for one in alone]
            found = [whole._array] * 2 if dim is None else list(np.moveaxis(whole._array, dim, 0))
            if not all(
                a.shape == b.shape
                and np.allclose(
                    a, b, self.tolerances["rtol"], self.tolerances["atol"], equal_nan=True
                )
                for a, b in zip(found, expected, strict=True)
            ):
                self.found(
                    "vmap",
                    f"output {place} of the vmap rule differs from a loop",
                    "compare it with a loop",
                )

    def _compare_transforms(self) -> None:
        """Compare the gradient under functrace's transforms with that of the graph."""
        if any(finding.rule == "wrong gradient" for finding in self.findings):
            return
        outputs = self._outputs(*self.inputs)
        weights = [self._random(x).detach() for x in outputs]
        places = [k for k, x in enumerate(self.inputs) if isinstance(x, Tensor) and x.requires_grad]
        tensors: list[Tensor] = [self.inputs[k] for k in places]  # type: ignore[misc]
        expected = grad(outputs, tensors, weights, allow_unused=True)

        def number(*chosen: Tensor) -> Tensor:
            given = list(self.inputs)
            for k, x in zip(places, chosen, strict=True):
                given[k] = x.clone()
            parts = [x for x in _tensors(self.apply(*given)) if x._array.dtype.kind in "fcV"]
            total = sum(
                [
                    (x * wrap(np.conj(w._array))).sum()._array
                    for x, w in zip(parts, weights, strict=False)
                ]
            )
            return wrap(real(total))

        try:
            found = functional_grad(number, tuple(range(len(places))))(
                *[x.detach() for x in tensors]
            )
        except Exception as error:
            message = f"under functrace's transforms it raises {type(error).__name__}: {error}"
            self.found("transforms", message, "see the message")
            return
        for place, a, b in zip(places, found, expected, strict=True):
            wanted = np.zeros_like(a._array) if b is None else b._array
            if not np.allclose(
                a._array, wanted, self.tolerances["rtol"], self.tolerances["atol"], equal_nan=True
            ):
                self.found(
                    "transforms",
                    f"the gradient by argument {place} differs",
                    "report it to functrace",
                )


@final
class _Forward:
    """The ``ctx`` of jvp."""

    def __init__(self, ctx: FunctionCtx, saved: tuple[object, ...]) -> None:
        self.__dict__.update(vars(ctx), saved_tensors=saved, needs_input_grad=ctx.needs_input_grad)


def _product(a: Tensor, b: Tensor) -> float:
    x: Array = a._array
    return float(np.sum(np.conj(x) * b._array).real)


# -- the program -----------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code.

    Args:
        arguments: those of the command line.
    """
    from functrace.torch.comparing import check_script

    parser = argparse.ArgumentParser(
        "python -m functrace.torch.check",
        description="Run a script on functrace.torch, beside PyTorch, and report the differences.",
    )
    parser.add_argument("file", help="the script")
    parser.add_argument("--alone", action="store_true", help="run it on functrace.torch only")
    parser.add_argument("--timeout", type=float, help="seconds after which a run is ended")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    given = parser.parse_args(arguments)
    if not Path(given.file).is_file():
        parser.error(f"there is no file {given.file}")
    try:
        report = check_script(
            given.file, given.arguments, beside=not given.alone, timeout=given.timeout
        )
    except subprocess.TimeoutExpired as error:
        print(f"{given.file}: it runs for more than {error.timeout:g} seconds")
        return 1
    print(report)
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(main())
