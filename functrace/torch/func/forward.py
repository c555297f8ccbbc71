"""``torch.func.jvp`` and ``linearize``: derivatives along tangents.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrace.api.capture.programs import evaluate, trace
from functrace.api.differentiation.gradients import jvp as jvp_of_arrays
from functrace.ir.primitive import ZERO
from functrace.ir.program import Program
from functrace.torch import errors
from functrace.torch.func.calls import Call, OfTensors
from functrace.torch.func.checks import arrays_and_aux, called_as, returned_arrays, shown
from functrace.torch.func.nodes import functionally
from functrace.tracing import Tracer
from functrace.transforms import is_differentiable
from functrace.tree import flatten, structure, unflatten
from functrace.typing import Array, PyTree

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec


def jvp(
    func: OfTensors,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Compute ``func(*primals)`` and its derivative in the direction of ``tangents``.

    Args:
        func: a function of tensors that returns tensors; with ``has_aux`` ``(output, aux)``.
        primals: tuple of its arguments.
        tangents: tuple of tensors like the primals.
        strict: True to raise if an output does not depend on the primals, instead of returning
            zeros.
        has_aux: True if ``func`` returns auxiliary data.

    Returns:
        ``(output, tangent)``, or ``(output, tangent, aux)`` with ``has_aux``.

    Raises:
        RuntimeError: if primals and tangents do not fit; with ``strict``, if an output does not
            depend on the primals.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))
        (tensor([0.]), tensor([1.]))

    Cost:
        2 to 3 times ``func``.
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to be a tuple. E.g. it should be "
                "valid to call f(*primals)."
            )
    if structure(primals) != structure(tangents):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            "structure. For example, if "
            "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{shown(primals)} and tangents with structure {shown(tangents)}"
        )
    for x, t in zip(flatten(primals)[0], flatten(tangents)[0], strict=True):
        if x.shape != t.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the "
                "original Tensor, this is not "
                f"supported. Tensor is of size {list(x.shape)} while the given forward gradient is "
                f"of size {list(t.shape)}."
            )
    alone = Call(func, primals, {})

    @called_as(func)
    def outputs(*args: PyTree) -> tuple[Any, Any]:
        return arrays_and_aux(alone(*args), has_aux, "jvp(f, primals, tangents)", "f(*primals)")

    def run(args: tuple[Any, Any], kwargs: dict[str, Any]) -> Any:
        if strict and not all(depends(trace(lambda *xs: outputs(*xs)[0])(*args[0]))):
            raise RuntimeError(errors.JVP_OF_CONSTANT)
        return jvp_of_arrays(outputs, *args, has_aux=True)

    output, tangent, aux = Call(func, (primals, tangents), {}).run(run)
    return (output, tangent, aux) if has_aux else (output, tangent)


def depends(program: Program) -> list[bool]:
    """Return, for each output of a program, if it depends on the inputs by differentiable
    operations.
    """
    active = {i for i in program.input_ids if is_differentiable(program.avals[i])}
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        if primitive.jvp is not ZERO and not active.isdisjoint(operands):
            results = range(k, k + (program.result_count(k) if primitive.many else 1))
            active.update([i for i in results if is_differentiable(program.avals[i])])
    return [i in active for i in program.output_ids]


def linearize(func: OfTensors, *primals: PyTree) -> tuple[Any, OfTensors]:
    """Compute ``func(*primals)``, and the linear function from tangents of the primals to tangents
    of the output.

    The output is attached to the graph: gradients flow to primals, and to tensors captured by
    ``func``. As in PyTorch, gradients flow through the linear function only to its tangents; its
    coefficients are constants.

    Args:
        func: a function of tensors that returns tensors.
        primals: its arguments.

    Returns:
        ``(output, f_jvp)``; ``f_jvp(*tangents)`` returns the tangent of the output.

    Raises:
        RuntimeError: if ``func`` returns other objects than tensors; from the linear function, if
            tangents do not fit.

    Example:
        >>> import functrace.torch as torch
        >>> output, f_jvp = torch.func.linearize(torch.sin, torch.zeros(1))
        >>> f_jvp(torch.ones(1))
        tensor([1.])

    Cost:
        the linear function takes one to two times ``func``.
    """
    call = Call(func, primals, {})
    args = call.arguments([x._array for x in call.tensors])[0]
    trees: list[PyTreeSpec] = []

    @called_as(func)
    def outputs(*args: PyTree) -> Any:
        return returned_arrays(call(*args), "linearize(f, *primals): expected f(*primals)")

    def pushed(*tangents: PyTree) -> Any:
        found = jvp_of_arrays(outputs, args, tangents)[1]
        trees.append(structure(found))
        return found

    output = func(*primals)
    # Recorded as a function of the tangents alone; it contains a Function's own `jvp`, if there is
    # one.
    program = trace(functionally(pushed))(*args)

    def push(*tangents: PyTree) -> Any:
        if structure(tangents) != structure(primals):
            raise RuntimeError(errors.linearize_structure(shown(tangents), shown(primals)))
        for k, (t, x) in enumerate(zip(flatten(tangents)[0], flatten(primals)[0], strict=True)):
            for what, given, wanted in (("shape", t.shape, x.shape), ("dtype", t.dtype, x.dtype)):
                if given != wanted:
                    raise RuntimeError(errors.linearize_tangent(k, what, given, wanted))
        return Call(func, tangents, {}).run(
            lambda args, kwargs: unflatten(trees[0], _results(program, flatten(args)[0]))
        )

    return output, push


def _results(program: Program, arguments: Sequence[Array | Tracer]) -> list[Any]:
    found = evaluate(program, *arguments)
    return list(found) if isinstance(found, tuple) else [found]
