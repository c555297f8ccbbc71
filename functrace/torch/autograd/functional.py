"""``torch.autograd.functional``: vector products and matrices of derivatives of functions of
tensors, on the graph.

Each runs the user's function once on inputs that require grad, followed by the necessary backward
passes. They share the parsing of inputs, outputs and ``v`` (`_several`, `_checked_v`), and the
checks of ``strict``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from functrace.torch.autograd.engine import grad
from functrace.torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from functrace.torch.autograd.grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from functrace.torch.func import vmap
from functrace.torch.functions.factories import eye, ones_like, zeros, zeros_like
from functrace.torch.functions.picking import movedim
from functrace.torch.functions.shaping import reshape, stack
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

Tensors: TypeAlias = tuple[Tensor, ...]
OneOrMore: TypeAlias = Tensor | Tensors
Function: TypeAlias = Callable[..., Any]
Strategy: TypeAlias = Literal["forward-mode", "reverse-mode"]

_STRATEGIES = ("forward-mode", "reverse-mode")

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


# -- shared helpers --------------------------------------------------------------------------------


def _several(given: object, what: str, name: str) -> tuple[bool, Tensors]:
    """Return True if the argument is a tuple of tensors, and the tensors as a tuple.

    Raises:
        TypeError: for anything but a tensor or a tuple of tensors.
    """
    if isinstance(given, Tensor):
        return False, (given,)
    wanted = f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the "
    if not isinstance(given, tuple):
        raise TypeError(f"{wanted}given {what} has type {type(given)}.")
    for k, value in enumerate(given):
        if not isinstance(value, Tensor):
            raise TypeError(f"{wanted}value at index {k} has type {type(value)}.")
    return True, given


def _prepared(inputs: Tensors, create_graph: bool) -> Tensors:
    """Return inputs that require grad: views of the caller's tensors in their graph, or new
    leaves.
    """
    made = [x.view(x.shape) if create_graph else x.detach() for x in inputs]
    return tuple([x.requires_grad_() for x in made])


def _run(
    f: Function, inputs: Tensors, name: str, create_graph: bool, strict: bool
) -> tuple[Tensors, bool, Tensors]:
    """Run the function with grad mode on; returns its inputs, True if it returned a tuple, and its
    outputs.
    """
    with enable_grad():
        prepared = _prepared(inputs, create_graph)
        is_tuple, outputs = _several(f(*prepared), "outputs of the user-provided function", name)
    if strict:
        for k, output in enumerate(outputs):
            if not output.requires_grad:
                raise RuntimeError(
                    f"Output {k} of the user-provided function does not require gradients. The "
                    "outputs must be computed in "
                    "a differentiable manner from the input when running in strict mode."
                )
    return prepared, is_tuple, outputs


def _run_scalar(
    f: Function, inputs: Tensors, name: str, create_graph: bool, strict: bool
) -> tuple[Tensors, Tensor]:
    """Run a function that must return one number; returns its inputs and its output."""
    prepared, is_tuple, outputs = _run(f, inputs, name, create_graph, strict)
    _check_scalar(is_tuple, outputs, name)
    return prepared, outputs[0]


def _check_scalar(is_tuple: bool, outputs: Tensors, name: str) -> None:
    if is_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )


def _checked_v(v: object, like: Tensors, is_tuple: bool, of: str, name: str) -> Tensors:
    """Return ``v`` as one tensor per tensor of ``like``; 1 by default, if ``like`` is one number.

    Raises:
        RuntimeError: if number or shapes differ.
    """
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {of} a single Tensor with a single element."
            )
        return (ones_like(like[0].detach()),)
    _, given = _several(v, "v", name)
    given = tuple([x.detach() for x in given]) if not is_grad_enabled() else given
    if len(given) != len(like):
        if is_tuple:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for k, (x, wanted) in enumerate(zip(given, like, strict=True)):
        if x.shape != wanted.shape:
            entry = f"Entry {k} in " if is_tuple else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {wanted.shape} but got {x.shape}."
            )
    return given


def _grads(
    outputs: Sequence[Tensor],
    inputs: Tensors,
    seeds: Sequence[Tensor],
    *,
    create_graph: bool,
    retain_graph: bool | None = None,
) -> list[Tensor | None]:
    """Return gradients of the outputs that require grad; ``None`` where an input is not reached."""
    chosen = [(x, seed) for x, seed in zip(outputs, seeds, strict=True) if x.requires_grad]
    if not chosen:
        return [None] * len(inputs)
    return list(
        grad(
            [x for x, _ in chosen],
            inputs,
            [seed for _, seed in chosen],
            create_graph=create_graph,
            retain_graph=retain_graph,
            allow_unused=True,
        )
    )


def _filled(grads: Sequence[Tensor | None], like: Tensors, strict: bool, refused: str) -> Tensors:
    """Replace missing gradients by zeros; under ``strict``, raise with the message ``refused``
    instead.
    """
    found: list[Tensor] = []
    for k, (gradient, x) in enumerate(zip(grads, like, strict=True)):
        if gradient is None and strict:
            raise RuntimeError(refused.format(k))
        found.append(zeros_like(x.detach()) if gradient is None else gradient)
    return tuple(found)


_OF_OUTPUT = "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
_OF_JACOBIAN = "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode"
_OF_SEED = (
    "The gradient with respect to the input is independent of entry {} in the grad_outputs when "
    "using the double backward "
    "trick to compute forward mode gradients. This is not allowed in strict mode."
)
_OF_SECOND_SEED = (
    "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. "
    "This is not allowed in "
    "strict mode as it prevents from using the double backward trick to replace forward mode AD."
)
_OF_HESSIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with "
    "respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your "
    "function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a "
    "linear function for example)."
)


def _check_depends(results: Sequence[Tensor], strict: bool, refused: str) -> None:
    """Raise under ``strict`` if results do not depend on the inputs."""
    if strict:
        for k, result in enumerate(results):
            if not result.requires_grad:
                raise RuntimeError(refused.format(k))


def _in_graph(create_graph: bool) -> set_grad_enabled:
    """Grad mode of the backward passes."""
    return set_grad_enabled(create_graph or is_grad_enabled())


def _finished(results: Sequence[Tensor], is_tuple: bool, create_graph: bool) -> Any:
    """Return results as a tuple or a tensor, as the inputs were; detached unless
    ``create_graph``.
    """
    kept = tuple(results) if create_graph else tuple([x.detach() for x in results])
    return kept if is_tuple else kept[0]


# -- products --------------------------------------------------------------------------------------


def vjp(
    func: Function,
    inputs: OneOrMore,
    v: OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the outputs of a function, and the product of ``v`` with its Jacobian.

    Args:
        func: a function of tensors that returns a tensor, or a tuple of them.
        inputs: its inputs: a tensor, or a tuple of them.
        v: a tensor like each output; may be left out for one output with one element.
        create_graph: True to record the results, for higher derivatives.
        strict: True to raise if an output does not depend on an input, instead of returning zeros.

    Returns:
        the outputs, and a tensor like each input.

    Raises:
        TypeError: for inputs, outputs or ``v`` that are neither tensors nor tuples of them.
        RuntimeError: if ``v`` does not fit; with ``strict``, if an output does not depend on an
            input.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.functional.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))[1]
        tensor([2., 4.])

    Cost:
        one forward and one backward pass.
    """
    with enable_grad():
        is_tuple, given = _several(inputs, "inputs", "vjp")
        prepared, is_output_tuple, outputs = _run(func, given, "vjp", create_graph, strict)
        seeds = _checked_v(v, outputs, is_output_tuple, "user-provided function returns", "vjp")
    with _in_graph(create_graph):
        found = _filled(
            _grads(outputs, prepared, seeds, create_graph=create_graph),
            prepared,
            strict,
            _OF_OUTPUT,
        )
    _check_depends(found, strict and create_graph, f"{_OF_JACOBIAN} when create_graph=True.")
    return _finished(outputs, is_output_tuple, create_graph), _finished(
        found, is_tuple, create_graph
    )


def jvp(
    func: Function,
    inputs: OneOrMore,
    v: OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the outputs of a function, and the product of its Jacobian with ``v``.

    Args:
        func: a function of tensors that returns a tensor, or a tuple of them.
        inputs: its inputs: a tensor, or a tuple of them.
        v: a tensor like each input; may be left out for one input with one element.
        create_graph: True to record the results, for higher derivatives.
        strict: True to raise if an output does not depend on an input, instead of returning zeros.

    Returns:
        the outputs, and a tensor like each output.

    Raises:
        TypeError: for inputs, outputs or ``v`` that are neither tensors nor tuples of them.
        RuntimeError: if ``v`` does not fit; with ``strict``, if an output does not depend on an
            input.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.functional.jvp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))[1]
        tensor([2., 4.])

    Cost:
        one forward and two backward passes: the second one differentiates the first by its initial
        gradient.
    """
    with enable_grad():
        is_tuple, given = _several(inputs, "inputs", "jvp")
        if v is not None or len(given) != 1 or given[0].numel() != 1:
            of = "input to the user-provided function is"
            tangents = _checked_v(v, given, is_tuple, of, "jvp")
        else:
            tangents = (ones_like(given[0].detach()),)
        prepared, is_output_tuple, outputs = _run(func, given, "jvp", create_graph, strict)
        seeds = tuple([zeros_like(x.detach()).requires_grad_() for x in outputs])
        pulled = _filled(
            _grads(outputs, prepared, seeds, create_graph=True), prepared, strict, _OF_OUTPUT
        )
    with _in_graph(create_graph):
        found = _filled(
            _grads(pulled, seeds, tangents, create_graph=create_graph), outputs, strict, _OF_SEED
        )
    _check_depends(found, strict and create_graph, f"{_OF_JACOBIAN} when create_graph=True.")
    return _finished(outputs, is_output_tuple, create_graph), _finished(
        found, is_output_tuple, create_graph
    )


def vhp(
    func: Function,
    inputs: OneOrMore,
    v: OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the result of a function that returns one number, and the product of ``v`` with its
    Hessian.

    Args:
        func: a function of tensors that returns a tensor with one element.
        inputs: its inputs: a tensor, or a tuple of them.
        v: a tensor like each input; may be left out for one input with one element.
        create_graph: True to record the results, for higher derivatives.
        strict: True to raise if the result does not depend on an input, instead of returning zeros.

    Returns:
        the result, and a tensor like each input.

    Raises:
        TypeError: for inputs or ``v`` that are neither tensors nor tuples of them.
        RuntimeError: if ``v`` does not fit; with ``strict``, if the result does not depend on an
            input.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))[1]
        tensor([6., 0.])

    Cost:
        one forward and two backward passes.
    """
    with enable_grad():
        is_tuple, given = _several(inputs, "inputs", "vhp")
        seeds = _checked_v(v, given, is_tuple, "input to the user-provided function is", "vhp")
        prepared, output = _run_scalar(func, given, "vhp", create_graph, strict)
        gradients = _gradient(output, prepared, strict)
    with _in_graph(create_graph):
        refused = f"{_OF_JACOBIAN}."
        found = _filled(
            _grads(gradients, prepared, seeds, create_graph=create_graph), prepared, strict, refused
        )
    _check_depends(found, strict and create_graph, _HESSIAN_IN_GRAPH)
    return _finished((output,), False, create_graph), _finished(found, is_tuple, create_graph)


def hvp(
    func: Function,
    inputs: OneOrMore,
    v: OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the result of a function that returns one number, and the product of its Hessian with
    ``v``.

    It equals `vhp`, which takes one backward pass less.

    Args:
        func: a function of tensors that returns a tensor with one element.
        inputs: its inputs: a tensor, or a tuple of them.
        v: a tensor like each input; may be left out for one input with one element.
        create_graph: True to record the results, for higher derivatives.
        strict: True to raise if the result does not depend on an input, instead of returning zeros.

    Returns:
        the result, and a tensor like each input.

    Raises:
        TypeError: for inputs or ``v`` that are neither tensors nor tuples of them.
        RuntimeError: if ``v`` does not fit; with ``strict``, if the result does not depend on an
            input.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))[1]
        tensor([6., 0.])

    Cost:
        one forward and three backward passes.
    """
    with enable_grad():
        is_tuple, given = _several(inputs, "inputs", "hvp")
        tangents = _checked_v(v, given, is_tuple, "input to the user-provided function is", "hvp")
        prepared, output = _run_scalar(func, given, "hvp", create_graph, strict)
        gradients = _gradient(output, prepared, strict)
        seeds = tuple([zeros_like(x.detach()).requires_grad_() for x in prepared])
        pulled = _filled(_grads(gradients, prepared, seeds, create_graph=True), prepared, False, "")
    with _in_graph(create_graph):
        found = _filled(
            _grads(pulled, seeds, tangents, create_graph=create_graph),
            prepared,
            strict,
            _OF_SECOND_SEED,
        )
    _check_depends(found, strict and create_graph, _HESSIAN_IN_GRAPH)
    return _finished((output,), False, create_graph), _finished(found, is_tuple, create_graph)


_HESSIAN_IN_GRAPH = (
    "The hessian of the user-provided function is independent of input {}. This is not allowed in "
    "strict mode when "
    "create_graph=True."
)


def _gradient(output: Tensor, inputs: Tensors, strict: bool) -> Tensors:
    """Return the gradient of a scalar, with its history."""
    found = _filled(
        _grads((output,), inputs, (ones_like(output.detach()),), create_graph=True),
        inputs,
        strict,
        _OF_OUTPUT,
    )
    _check_depends(found, strict, _OF_HESSIAN)
    return found


# -- matrices --------------------------------------------------------------------------------------


def jacobian(
    func: Function,
    inputs: OneOrMore,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: Strategy = "reverse-mode",
) -> Any:
    """Compute the Jacobian of a function: of each output by each input, of shape ``output.shape +
    input.shape``.

    Args:
        func: a function of tensors that returns a tensor, or a tuple of them.
        inputs: its inputs: a tensor, or a tuple of them.
        create_graph: True to record the result, for higher derivatives.
        strict: True to raise if an output does not depend on an input, instead of returning zeros.
        vectorize: True to run one batched backward pass per output, for all of its elements at
            once.
        strategy: ``"reverse-mode"``, one backward pass per element of the outputs;
            ``"forward-mode"``, one forward pass per element of the inputs (with ``vectorize``
            only).

    Returns:
        a tensor; a tuple where inputs or outputs are one (of outputs first).

    Raises:
        TypeError: for inputs or outputs that are neither tensors nor tuples of them.
        RuntimeError: with ``strict``, if an output does not depend on an input; for ``strict`` with
            ``vectorize``.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than '
            'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        _check_forward(create_graph, strict, vectorize)
        return _forward_jacobian(func, inputs)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
            "supported together. Please "
            "either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        is_tuple, given = _several(inputs, "inputs", "jacobian")
        prepared, is_output_tuple, outputs = _run(func, given, "jacobian", create_graph, strict)
    with _in_graph(create_graph):
        rows = [
            _jacobian_at_once(output, prepared, create_graph)
            if vectorize and output.numel() and output.requires_grad
            else _jacobian_of(k, output, prepared, create_graph, strict)
            for k, output in enumerate(outputs)
        ]
    found = tuple([_finished(row, is_tuple, create_graph) for row in rows])
    return found if is_output_tuple else found[0]


def _jacobian_of(
    place: int, output: Tensor, inputs: Tensors, create_graph: bool, strict: bool
) -> list[Tensor]:
    """Return the Jacobians of one output by all inputs."""
    columns: list[list[Tensor]] = [[] for _ in inputs]
    refused = (
        f"Output {place} of the user-provided function is independent of input {{}}. "
        "This is not allowed in strict mode."
    )
    for k in range(output.numel()):
        seed = zeros(output.numel(), dtype=output.dtype)
        seed._array[k] = 1
        grads = _grads(
            (output,),
            inputs,
            (reshape(seed, output.shape),),
            create_graph=create_graph,
            retain_graph=True,
        )
        found = _filled(grads, inputs, strict, refused)
        _check_depends(found, strict and create_graph, f"{_OF_JACOBIAN} when create_graph=True.")
        for column, gradient in zip(columns, found, strict=True):
            column.append(gradient)
    return [
        reshape(stack(column), Size((*output.shape, *x.shape)))
        if column
        else zeros((*output.shape, *x.shape), dtype=output.dtype)
        for column, x in zip(columns, inputs, strict=True)
    ]


def _jacobian_at_once(output: Tensor, inputs: Tensors, create_graph: bool) -> list[Tensor]:
    """Return the Jacobians of one output by one pass over a batch of gradients."""
    seeds = reshape(eye(output.numel(), dtype=output.dtype), (output.numel(), *output.shape))
    grads = grad(
        output,
        inputs,
        seeds,
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
        is_grads_batched=True,
    )
    shapes = [(*output.shape, *x.shape) for x in inputs]
    return [
        zeros(shape, dtype=x.dtype) if g is None else reshape(g, shape)
        for g, x, shape in zip(grads, inputs, shapes, strict=True)
    ]


def hessian(
    func: Function,
    inputs: OneOrMore,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: Strategy = "reverse-mode",
) -> Any:
    """Compute the Hessian of a function that returns one number.

    Args:
        func: a function of tensors that returns a tensor with one element.
        inputs: its inputs: a tensor, or a tuple of them.
        create_graph: True to record the result, for higher derivatives.
        strict: True to raise if the result does not depend on an input, instead of returning zeros.
        vectorize: True to run batched passes.
        outer_jacobian_strategy: ``"reverse-mode"`` or ``"forward-mode"`` (with ``vectorize`` only)
            for the outer derivative.

    Returns:
        a tensor of shape ``input.shape + input.shape``; for several inputs, a tuple of tuples, one
        tensor per pair of inputs.

    Raises:
        AssertionError: for another strategy.
        TypeError: for inputs that are neither tensors nor tuples of them.
        RuntimeError: if the result has more than one element; with ``strict``, if it does not
            depend on an input.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    is_tuple, given = _several(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*xs: Tensor) -> Tensor:
        is_output_tuple, outputs = _several(
            func(*xs), "outputs of the user-provided function", "hessian"
        )
        _check_scalar(is_output_tuple, outputs, "hessian")
        if strict and not outputs[0].requires_grad:
            raise RuntimeError(
                "Output 0 of the user-provided function does not require gradients. The outputs "
                "must be computed in a "
                "differentiable manner from the input when running in strict mode."
            )
        return outputs[0].reshape(())

    is_forward = outer_jacobian_strategy == "forward-mode"

    def gradient(*xs: Tensor) -> Tensors:
        if is_forward:
            for x in xs:
                x._requires = (
                    x._requires or x._node is None
                )  # `requires_grad_` is not available inside `vmap`
        output = scalar(*xs)
        found = _filled(
            _grads((output,), xs, (ones_like(output.detach()),), create_graph=True), xs, False, ""
        )
        _check_depends(found, strict, _OF_HESSIAN)
        return found

    found = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if is_tuple else found[0][0]


# -- forward mode ----------------------------------------------------------------------------------


def _check_forward(create_graph: bool, strict: bool, vectorize: bool) -> None:
    """Check arguments that forward mode does not support, as in PyTorch."""
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together '
            '(yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly "
            "implemented for `vectorize=True`."
        )
    if create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported '
            'together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )


def _construct_standard_basis_for(
    tensors: Sequence[Tensor], tensor_numels: Sequence[int]
) -> Tensors:
    """Return the standard basis of the space of several flat tensors, side by side: for each
    tensor, a matrix of one row per element of all tensors and one column per element of its own.
    """
    assert len(tensors) == len(tensor_numels), (
        "Expected tensors and tensor_numels to have the same length, "
        f"but got {len(tensors)} and {len(tensor_numels)}"
    )
    assert tensors, "Expected at least one tensor"
    total, start = sum(tensor_numels), 0
    basis: list[Tensor] = []
    for x, count in zip(tensors, tensor_numels, strict=True):
        directions = zeros(total, count, dtype=x.dtype)
        directions._array[start : start + count] = np.eye(count)
        basis.append(directions)
        start += count
    return tuple(basis)


def _forward_jacobian(func: Function, inputs: OneOrMore) -> Any:
    """Return the Jacobian by forward mode: one run of the function on dual tensors, mapped over the
    inputs' elements.
    """
    is_tuple, given = _several(inputs, "inputs", "jacobian")
    counts = [x.numel() for x in given]
    starts = [sum(counts[:k]) for k in range(len(counts))]
    basis = [
        reshape(directions, Size((sum(counts), *x.shape)))
        for x, directions in zip(given, _construct_standard_basis_for(given, counts), strict=True)
    ]
    is_output_tuple, shapes = False, list[Size]()

    def pushed(*tangents: Tensor) -> Tensors:
        nonlocal is_output_tuple
        with dual_level():
            duals = [make_dual(x, t) for x, t in zip(given, tangents, strict=True)]
            is_output_tuple, outputs = _several(
                func(*duals), "outputs of the user-provided function", "jacobian"
            )
            shapes[:] = [x.shape for x in outputs]
            return tuple(
                [zeros_like(x) if (t := unpack_dual(x).tangent) is None else t for x in outputs]
            )

    rows: list[list[Tensor]] = []
    for columns, shape in zip(vmap(pushed)(*basis), shapes, strict=True):
        parts = [
            reshape(movedim(columns[start : start + count], 0, -1), Size((*shape, *x.shape)))
            for x, count, start in zip(given, counts, starts, strict=True)
        ]
        rows.append(parts)
    if is_tuple:  # lists, as in PyTorch
        return rows if is_output_tuple else rows[0]
    return tuple([row[0] for row in rows]) if is_output_tuple else rows[0][0]
