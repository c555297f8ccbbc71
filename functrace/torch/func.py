"""``torch.func``: functrace's transforms, for functions of tensors.

A transform of the core runs on arrays. Here the tensors among the arguments become arrays, inside the function the traced
arrays are tensors again, and results are tensors. So they compose, with one another and with the core's.

Note [Beside the graph]
    In PyTorch what ``torch.func`` returns belongs to the graph: a later ``backward()`` reaches arguments that want gradients
    and tensors that the function closes over. So where there are any, the whole call becomes one node (`Applied`). Which
    tensors the function closes over is seen while it runs: it then runs again, with them as inputs (`Lift`).

Note [Constants]
    What is computed under ``no_grad`` inside the function, and what is detached, is a constant for all derivatives. (In
    PyTorch forward mode goes through ``no_grad``; here the modes agree.) A ``no_grad`` around the transform does nothing.

Floor: 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn, Protocol, TypeAlias, final

import numpy as np

from functrace.api.differentiate import jvp as jvp_of_arrays
from functrace.api.differentiate import value_and_grad as value_and_grad_of_arrays
from functrace.api.differentiate import vjp as vjp_of_arrays
from functrace.api.jacobians import jacfwd as jacfwd_of_arrays
from functrace.api.jacobians import jacrev as jacrev_of_arrays
from functrace.api.mapping import vmap as vmap_of_arrays
from functrace.api.programs import evaluate, trace
from functrace.api.residuals import checkpoint as checkpoint_of_arrays
from functrace.api.signatures import Jit
from functrace.control.residuals import RECOMPUTE, Policy
from functrace.errors import LostGradientError
from functrace.ir.primitive import ZERO
from functrace.ir.program import Program
from functrace.numpy.views import owned
from functrace.ops.elementwise import conj
from functrace.torch import sentences
from functrace.torch.aliases import in_grad_mode
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.grad_mode import MODES, enable_grad, restore, state
from functrace.torch.autograd.local import join
from functrace.torch.dual import DUALS, hidden
from functrace.torch.size import Size
from functrace.torch.stateless import functional_call, stack_module_state
from functrace.torch.tensor import Tensor, array_of, fresh, wrap
from functrace.tracing import Tracer
from functrace.transforms import is_differentiable
from functrace.tree import flatten, map_leaves, structure, unflatten
from functrace.typing import Array, PyTree

OfTensors: TypeAlias = Callable[..., Any]
"""A function of nests of tensors that returns one."""
OfArrays: TypeAlias = Callable[..., Any]

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]


# -- calls -------------------------------------------------------------------------------------------------------------


@final
class Call:
    """A call of a function of tensors, for transforms that hand arrays around."""

    def __init__(self, func: OfTensors, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> None:
        self.func = func
        self.leaves, self.tree = flatten((tuple(args), kwargs))
        self.places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self.tensors: list[Tensor] = [self.leaves[k] for k in self.places]

    def arguments(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with arrays for the tensors."""
        leaves = list(self.leaves)
        for k, array in zip(self.places, arrays, strict=True):
            leaves[k] = array
        return unflatten(self.tree, leaves)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Any:
        """Call the function with arguments in which arrays, traced or not, stand for the tensors."""
        return call_on_arrays(self.func, self.places, args, kwargs)

    def run(self, transformed: OfArrays, *, is_functional: bool = True) -> Any:
        """Run a function of the arguments with arrays for the tensors; returns its results with tensors for the arrays."""
        run = lambda *arrays: transformed(*self.arguments(arrays))  # noqa: E731
        return on_tensors(run, self.tensors, is_functional=is_functional)


def call_on_arrays(func: OfTensors, places: Sequence[int], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Any:
    """Call a function with tensors for the leaves in these places, which are arrays, traced or not."""
    leaves, tree = flatten((args, kwargs))
    for k in places:
        leaves[k] = wrap(leaves[k])
    placed, named = unflatten(tree, leaves)
    return func(*placed, **named)


def checkpointed(func: OfTensors, args: Sequence[PyTree], kwargs: dict[str, PyTree], policy: Policy = RECOMPUTE) -> Any:
    """Return ``func(*args, **kwargs)`` of tensors among which some hold traced values, as `functrace.checkpoint`."""
    call = Call(func, args, kwargs)
    whole = checkpoint_of_arrays(lambda *args, **kwargs: arrays_of(call(*args, **kwargs)), policy=policy)
    return call.run(lambda args, kwargs: whole(*args, **kwargs), is_functional=False)


def jitted(jit: Jit, func: OfTensors, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> Any:
    """Return what a jitted function returns for arguments with tensors among them (`BoxedArrays`)."""
    call = Call(func, args, kwargs)
    places = tuple(call.places)

    @functools.wraps(func)
    def of_arrays(*args: PyTree, **kwargs: PyTree) -> Any:
        before, MODES.lift = MODES.lift, _refuse_outside
        try:
            return arrays_of(call_on_arrays(func, places, args, kwargs))
        finally:
            MODES.lift = before

    whole = jit((call.tree, places, bool(MODES.recording)), of_arrays)  # under no_grad it may hold what gradients flow to
    return call.run(lambda args, kwargs: whole(*args, **kwargs), is_functional=False)


def _refuse_outside(tensor: Tensor) -> NoReturn:
    """Refuse to read a tensor that wants gradients and is no argument: the program would hold its value, and no gradient."""
    raise LostGradientError(
        f"a jitted function reads a tensor of shape {tuple(tensor.shape)} that requires grad and is no argument",
        fix="pass it as an argument; or read tensor.detach() for its value at the first call",
    )


def called(f: OfArrays, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> Any:
    """Return what a function of arrays returns for arguments with tensors among them, as tensors."""
    return Call(f, args, kwargs).run(lambda args, kwargs: f(*args, **kwargs), is_functional=False)


Tensor.__functrace_jit__ = staticmethod(jitted)
Tensor.__functrace_call__ = staticmethod(called)


def arrays_of(nest: PyTree) -> Any:
    """Return a nest with the arrays of its tensors."""
    return map_leaves(lambda leaf: array_of(leaf) if isinstance(leaf, Tensor) else leaf, nest)


def _wrapped(leaf: Any) -> Any:
    """Return a tensor of an array; one of a traced array that is a constant, where ``no_grad`` says so."""
    return fresh(in_grad_mode(leaf) if isinstance(leaf, Tracer) else leaf) if _is_array(leaf) else leaf


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (Tracer, np.ndarray, np.generic))


def on_tensors(run: OfArrays, tensors: Sequence[Tensor], *, is_functional: bool = True) -> Any:
    """Run a function of arrays on those of tensors; returns tensors, with a place in the graph where one is wanted.

    Args:
        run: the function.
        tensors: its arguments.
        is_functional: whether a transform of ``torch.func`` is at work, which refuses some things.
    """
    arrays = [x._array for x in tensors]
    if is_functional:
        run = functionally(run)
    if any(isinstance(a, Tracer) for a in arrays) and MODES.recording and any(x.requires_grad for x in tensors):
        return _in_local_graph(run, tensors)
    duals = [] if DUALS.level is None else [x for x in tensors if DUALS.level.concerns((x,))]
    inside = MODES.lift is not None or any(isinstance(a, Tracer) for a in arrays)
    if inside or not (MODES.recording or duals):
        return map_leaves(_wrapped, run(*arrays))
    seen = Lift()
    with seen.lifting():
        leaves, tree = flatten(run(*arrays))
    wanting = [x for x in (*tensors, *seen.tensors) if x.requires_grad and x._array.dtype.kind in "fc"]
    wanted = list({id(x): x for x in (*wanting, *duals)}.values())
    chosen = [k for k, leaf in enumerate(leaves) if _is_array(leaf) and leaf.dtype.kind in "fc"]
    leaves = [fresh(leaf) if _is_array(leaf) else leaf for leaf in leaves]
    if wanted and chosen:

        def whole(*given: Array | Tracer) -> list[Any]:
            values = {id(x): value for x, value in zip(wanted, given, strict=True)}
            with enable_grad(), hidden(False), Lift([values.get(id(x), x._array) for x in seen.tensors]).lifting():
                found, _ = flatten(run(*[values.get(id(x), x._array) for x in tensors]))
            return [found[k] for k in chosen]

        for k, result in zip(chosen, Applied.apply(whole, *wanted), strict=True):
            leaves[k] = result
    return unflatten(tree, leaves)


def functionally(run: OfArrays) -> OfArrays:
    """Return a function that notes, while it runs, that ``torch.func`` is at work."""

    def noted(*arrays: Array | Tracer) -> Any:
        before = MODES.functional, MODES.begun
        MODES.functional, MODES.begun = True, None
        try:
            return run(*arrays)
        finally:
            MODES.functional, MODES.begun = before

    return noted


def _in_local_graph(run: OfArrays, tensors: Sequence[Tensor]) -> Any:
    """Run a function of traced arrays that is one operation of a graph of traced values."""
    leaves, tree = flatten(run(*[x._array for x in tensors]))
    chosen = [k for k, leaf in enumerate(leaves) if _is_array(leaf) and leaf.dtype.kind in "fc"]
    leaves = [wrap(leaf) if _is_array(leaf) else leaf for leaf in leaves]

    def whole(*given: Array | Tracer) -> list[Any]:
        found, _ = flatten(run(*given))
        return [found[k] for k in chosen]

    join(whole, tensors, [wrap(owned(x._array)) for x in tensors], [leaves[k] for k in chosen])
    return unflatten(tree, leaves)


@final
class Lift:
    """What stands for tensors that a function closes over and that want gradients; see Note [Beside the graph].

    Args:
        values: one for each of them, in the order in which they are met; by default their own arrays.
    """

    def __init__(self, values: Sequence[Any] | None = None) -> None:
        self.values = values
        self.tensors: list[Tensor] = []

    def __call__(self, tensor: Tensor) -> Any:
        """Return the value that stands for a tensor."""
        place = next((k for k, x in enumerate(self.tensors) if x is tensor), len(self.tensors))
        if place == len(self.tensors):
            self.tensors.append(tensor)
        if self.values is None:
            return tensor._array
        if place >= len(self.values) or np.shape(self.values[place]) != tensor._array.shape:
            raise RuntimeError(sentences.OTHER_TENSORS_READ)
        return self.values[place]

    @contextmanager
    def lifting(self) -> Generator[None]:
        """Let these values stand for the tensors."""
        before, MODES.lift = MODES.lift, self
        try:
            yield
        finally:
            MODES.lift = before
        if self.values is not None and len(self.tensors) < len(self.values):
            raise RuntimeError(sentences.OTHER_TENSORS_READ)


class _Context(Protocol):
    """What `Applied` keeps."""

    whole: OfArrays
    pull: OfArrays
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...

    def save_for_forward(self, *tensors: Tensor) -> None: ...


class Applied(Function):
    """A function of arrays as one node: its backward is the core's pullback, of any order."""

    @staticmethod
    def forward(ctx: _Context, whole: OfArrays, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run it."""
        values, ctx.pull = vjp_of_arrays(whole, *[x._array for x in tensors])
        ctx.whole = whole
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        return tuple(map(wrap, values))

    @staticmethod
    def jvp(ctx: _Context, _whole: None, *tangents: Tensor) -> tuple[Tensor, ...]:
        """Push tangents forward, by the core."""
        tensors = ctx.saved_tensors
        count, whole = len(tensors), ctx.whole

        def pushed(*given: Array | Tracer) -> list[Any]:
            return jvp_of_arrays(whole, given[:count], given[count:])[1]

        return tuple(on_tensors(pushed, (*tensors, *tangents)))

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Pull gradients back; as a function of the tensors too, where the pass itself is recorded."""
        tensors = ctx.saved_tensors
        if not MODES.recording:
            found = ctx.pull([_conjugate(g._array) for g in grads])
            return None, *[wrap(_conjugate(x)) for x in found]
        count, whole = len(tensors), ctx.whole

        def pulled(*given: Array | Tracer) -> list[Any]:
            _, pull = vjp_of_arrays(whole, *given[:count])
            return [_conjugate(x) for x in pull([_conjugate(g) for g in given[count:]])]

        return None, *on_tensors(pulled, (*tensors, *grads))


def _conjugate(x: Array | Tracer) -> Any:
    """PyTorch's gradients of complex numbers are conjugates of the core's."""
    return conj(x) if x.dtype.kind == "c" else x


@contextmanager
def _recording() -> Generator[None]:
    """Run a function whose gradient is computed with recording on, as PyTorch does; what is constant outside stays so."""
    before = state()
    MODES.recording = None if MODES.recording is None else True
    try:
        yield
    finally:
        restore(before)


# -- gradients ---------------------------------------------------------------------------------------------------------

Argnums: TypeAlias = int | tuple[int, ...]


def _checked_argnums(argnums: Argnums, count: int) -> Argnums:
    """Return positions counted from the front.

    Raises:
        RuntimeError: if there is none such, or one is named twice.
    """
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    if not given:
        raise RuntimeError("argnums must be non-empty")
    for k in given:
        if not isinstance(k, int):
            raise RuntimeError(f"argnum must be int, got: {type(k)}")
        if not -count <= k < count:
            raise RuntimeError(f"Got argnum={k}, but only {count} positional inputs")
    found = tuple([k % count for k in given])
    if len(set(found)) < len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return found if isinstance(argnums, tuple) else found[0]


def _check_differentiable(args: Sequence[Any], argnums: Argnums) -> None:
    """Check that what is differentiated is tensors of floats."""
    for leaf in flatten([args[k] for k in (argnums if isinstance(argnums, tuple) else (argnums,))])[0]:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        if leaf._array.dtype.kind not in "fc":
            raise RuntimeError(sentences.REQUIRES_GRAD_DTYPE)


def _split(result: PyTree, has_aux: bool, owner: str) -> tuple[Any, Any]:
    """Return what a function returned, and its auxiliary data."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{owner}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def grad_and_value(func: OfTensors, argnums: Argnums = 0, has_aux: bool = False) -> OfTensors:
    """Return a function that computes the gradient of ``func``, and its value: ``(gradient, value)``.

    Args:
        func: a function of tensors (nests of them) that returns a tensor without axes.
        argnums: which positional arguments to differentiate; a tuple gives a tuple of gradients.
        has_aux: ``func`` returns ``(output, aux)``; then the result is ``(gradient, (value, aux))``.

    Raises:
        RuntimeError: if it does not return one number.
        ValueError: if an argument to differentiate is no tensor.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.grad_and_value(lambda x: (x ** 2).sum())(torch.tensor([1.0, 2.0]))
        (tensor([2., 4.]), tensor(5.))

    Cost:
        2 to 4 times ``func``; twice that where the result has a place in the graph.
    """

    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        chosen = _checked_argnums(argnums, len(args))
        _check_differentiable(args, chosen)
        call = Call(func, args, kwargs)

        @_called_as(func)
        def number(*args: PyTree, **kwargs: PyTree) -> tuple[Any, Any]:
            with _recording():
                value, aux = _split(call(*args, **kwargs), has_aux, "grad_and_value(f)(*args)")
            if not isinstance(value, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
            if value.dim():
                raise RuntimeError(
                    f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {value.dim()} "
                    "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            return array_of(value), arrays_of(aux)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            (value, aux), gradient = value_and_grad_of_arrays(number, argnums=chosen, has_aux=True)(*args, **kwargs)
            return map_leaves(_conjugate, gradient), value, aux

        gradient, value, aux = call.run(run)
        return gradient, (value, aux) if has_aux else value

    return wrapper


def grad(func: OfTensors, argnums: Argnums = 0, has_aux: bool = False) -> OfTensors:
    """Return a function that computes the gradient of ``func``; with ``has_aux``, ``(gradient, aux)``.

    Arguments, errors and cost are those of `grad_and_value`.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.vmap(torch.func.grad(torch.sin))(torch.zeros(3))
        tensor([1., 1., 1.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def _called_as(func: OfTensors) -> Callable[[OfArrays], OfArrays]:
    """Give a function the name by which messages call the user's."""

    def rename(made: OfArrays) -> OfArrays:
        made.__name__ = getattr(func, "__name__", type(func).__name__)
        return made

    return rename


def _returned(result: PyTree, owner: str) -> Any:
    """Return the arrays of what a function returned, which must be tensors."""
    for leaf in flatten(result)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{owner} to return only tensors, got unsupported type {type(leaf)}")
    return arrays_of(result)


def vjp(func: OfTensors, *primals: PyTree, has_aux: bool = False) -> tuple[Any, ...]:
    """Return ``func(*primals)``, and a function from cotangents, like it, to those of the primals.

    The latter returns a tuple, one cotangent per primal. With ``has_aux``, ``func`` returns ``(output, aux)``, and
    ``aux`` is returned third.

    Raises:
        RuntimeError: if the function does not return tensors; from the pullback, if cotangents do not fit the outputs.
    """
    call = Call(func, primals, {})
    _check_differentiable(primals, tuple(range(len(primals)))) if primals else None

    @_called_as(func)
    def outputs(*args: PyTree) -> tuple[Any, Any]:
        with _recording():
            value, aux = _split(call(*args), has_aux, "vjp(f, *primals)")
        return _returned(value, "vjp(f, *primals): expected f(*primals)"), arrays_of(aux)

    def values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        found, _, aux = vjp_of_arrays(outputs, *args, has_aux=True)  # traced, as it will be in the pullback
        return found, aux

    output, aux = call.run(values)

    def pullback(cotangents: PyTree, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        if structure(cotangents) != structure(output):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {_shown(cotangents)}, primal output: {_shown(output)}"
            )
        for k, (given, wanted) in enumerate(zip(flatten(cotangents)[0], flatten(output)[0], strict=True)):
            if given.shape != wanted.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {Size(given.shape)} and output[{k}] has a shape of "
                    f"{Size(wanted.shape)}."
                )
        both = Call(func, (primals, cotangents), {})

        def run(args: tuple[Any, Any], kwargs: dict[str, Any]) -> Any:
            given, seeds = args
            _, pull, _ = vjp_of_arrays(outputs, *given, has_aux=True)
            return map_leaves(_conjugate, pull(map_leaves(_conjugate, seeds)))

        return both.run(run)

    return (output, pullback, aux) if has_aux else (output, pullback)


def _shown(nest: PyTree) -> str:
    return str(structure(nest)).removeprefix("PyTreeSpec(").removesuffix(")")


def jvp(
    func: OfTensors, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> Any:
    """Return ``func(*primals)``, and its derivative along ``tangents``, which are like the primals.

    Args:
        func: a function of tensors that returns tensors; with ``has_aux`` ``(output, aux)``, and ``aux`` is returned third.
        primals: where.
        tangents: in which direction.
        strict: refuse outputs that do not depend on the primals, in place of zeros.
        has_aux: whether ``func`` returns auxiliary data.

    Raises:
        RuntimeError: if primals and tangents do not fit each other, and what ``strict`` refuses.

    Cost:
        2 to 3 times ``func``.
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to be a tuple. E.g. it should be valid to call f(*primals)."
            )
    if structure(primals) != structure(tangents):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if "
            "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{_shown(primals)} and tangents with structure {_shown(tangents)}"
        )
    for x, t in zip(flatten(primals)[0], flatten(tangents)[0], strict=True):
        if x.shape != t.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                f"supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size {list(t.shape)}."
            )
    alone = Call(func, primals, {})

    @_called_as(func)
    def outputs(*args: PyTree) -> tuple[Any, Any]:
        value, aux = _split(alone(*args), has_aux, "jvp(f, primals, tangents)")
        return _returned(value, "jvp(f, primals, tangents): expected f(*primals)"), arrays_of(aux)

    def run(args: tuple[Any, Any], kwargs: dict[str, Any]) -> Any:
        if strict and not all(depends(trace(lambda *xs: outputs(*xs)[0])(*args[0]))):
            raise RuntimeError(sentences.JVP_OF_CONSTANT)
        return jvp_of_arrays(outputs, *args, has_aux=True)

    output, tangent, aux = Call(func, (primals, tangents), {}).run(run)
    return (output, tangent, aux) if has_aux else (output, tangent)


def depends(program: Program) -> list[bool]:
    """Say which outputs of a program depend on its inputs by operations that have derivatives."""
    active = {i for i in program.input_ids if is_differentiable(program.avals[i])}
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        if primitive.jvp is not ZERO and not active.isdisjoint(operands):
            results = range(k, k + (program.result_count(k) if primitive.many else 1))
            active.update([i for i in results if is_differentiable(program.avals[i])])
    return [i in active for i in program.output_ids]


def linearize(func: OfTensors, *primals: PyTree) -> tuple[Any, OfTensors]:
    """Return ``func(*primals)``, and the linear function from tangents of the primals to tangents of the output.

    Cost:
        of the latter: 2 to 3 times ``func`` where the primals want gradients, otherwise one to two times.
    """
    call = Call(func, primals, {})
    arrays = [x._array for x in call.tensors]

    @_called_as(func)
    def outputs(*args: PyTree) -> Any:
        return _returned(call(*args), "linearize(f, *primals): expected f(*primals)")

    if MODES.recording and any(x.requires_grad for x in call.tensors):
        return func(*primals), lambda *tangents: jvp(func, primals, tangents)[1]
    args = call.arguments(arrays)[0]
    pair: list[PyTree] = []

    def pushed(*tangents: PyTree) -> Any:
        pair.extend(jvp_of_arrays(outputs, args, tangents))
        return pair[1]

    # Recorded as a function of the tangents alone: a Function's own `jvp` is in it, where it has one.
    program = trace(functionally(pushed))(*args)
    output, tree = map_leaves(wrap, pair[0]), structure(pair[1])

    def push(*tangents: PyTree) -> Any:
        if structure(tangents) != structure(primals):
            raise RuntimeError(sentences.linearize_structure(_shown(tangents), _shown(primals)))
        for k, (t, x) in enumerate(zip(flatten(tangents)[0], flatten(primals)[0], strict=True)):
            for what, given, wanted in (("shape", t.shape, x.shape), ("dtype", t.dtype, x.dtype)):
                if given != wanted:
                    raise RuntimeError(sentences.linearize_tangent(k, what, given, wanted))
        return Call(func, tangents, {}).run(lambda args, kwargs: unflatten(tree, _results(program, flatten(args)[0])))

    return output, push


def _results(program: Program, arguments: Sequence[Array | Tracer]) -> list[Any]:
    found = evaluate(program, *arguments)
    return list(found) if isinstance(found, tuple) else [found]


# -- Jacobians ---------------------------------------------------------------------------------------------------------


def _jacobian(name: str, transform: Callable[..., Any], func: OfTensors, argnums: Argnums, has_aux: bool) -> OfTensors:
    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        chosen = _checked_argnums(argnums, len(args))
        _check_differentiable(args, chosen)
        call = Call(func, args, kwargs)

        @_called_as(func)
        def outputs(*args: PyTree, **kwargs: PyTree) -> tuple[Any, Any]:
            with _recording() if name == "jacrev" else nullcontext():
                value, aux = _split(call(*args, **kwargs), has_aux, f"{name}(f)(*args)")
            return _returned(value, f"{name}(f)(*args): expected f(*args)"), arrays_of(aux)

        found, aux = call.run(lambda args, kwargs: transform(outputs, argnums=chosen, has_aux=True)(*args, **kwargs))
        return (found, aux) if has_aux else found

    return wrapper


def jacrev(
    func: OfTensors,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> OfTensors:
    """Return a function that computes the Jacobian of ``func`` by reverse mode, of shape ``output.shape + argument.shape``.

    Args:
        func: a function of tensors that returns tensors; with ``has_aux`` ``(output, aux)``.
        argnums: which positional arguments to differentiate; a tuple gives a tuple.
        has_aux: whether ``func`` returns auxiliary data; then so does the result.
        chunk_size: taken as PyTorch takes it; the result is the same.

    Cost:
        one backward pass, batched over the elements of the output.
    """
    _check_chunk(chunk_size, "jacrev")
    return _jacobian("jacrev", jacrev_of_arrays, func, argnums, has_aux)


def jacfwd(func: OfTensors, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> OfTensors:
    """Return a function that computes the Jacobian of ``func`` by forward mode; see `jacrev`.

    Cost:
        one forward pass, batched over the elements of the arguments.
    """
    _check_randomness(randomness)
    return _jacobian("jacfwd", jacfwd_of_arrays, func, argnums, has_aux)


def hessian(func: OfTensors, argnums: Argnums = 0) -> OfTensors:
    """Return a function that computes the Hessian of ``func``: forward mode over reverse mode; see `jacrev`."""
    return jacfwd(jacrev(func, argnums), argnums)


# -- vmap --------------------------------------------------------------------------------------------------------------


def _check_chunk(chunk_size: int | None, name: str) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be greater than 0.")


def _check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def vmap(
    func: OfTensors, in_dims: PyTree = 0, out_dims: PyTree = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> OfTensors:
    """Return a function that maps ``func`` over an axis of its arguments.

    Args:
        func: a function of tensors (nests of them) that returns tensors.
        in_dims: which axis of each argument to map over: an int, or a nest of ints and ``None`` (not mapped) like the
            arguments, or a prefix of it. Keyword arguments are mapped over their first axis.
        out_dims: where the axis stands in the results.
        randomness: what functions of random numbers do inside: ``"error"`` or ``"same"`` (one draw for all).
        chunk_size: taken as PyTorch takes it; the result is the same.

    Raises:
        ValueError: if dimensions, sizes or arguments do not fit, or ``func`` returns something else than tensors.
        RuntimeError: for a function of random numbers inside, unless ``randomness="same"``.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
        tensor([3., 3.])
    """
    _check_randomness(randomness)
    _check_chunk(chunk_size, "vmap")
    name = getattr(func, "__name__", type(func).__name__)

    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        call = Call(func, args, kwargs)
        what = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
        if not isinstance(in_dims, (int, tuple, list)):
            raise ValueError(
                f"{what}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
                f"got: {type(in_dims)}."
            )
        if not call.leaves:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
                "function with no inputs. The latter is unsupported."
            )
        _check_dims(call, args, in_dims, what)

        @_called_as(func)
        def outputs(*args: PyTree, **kwargs: PyTree) -> Any:
            result = call(*args, **kwargs)
            for leaf in flatten(result)[0]:
                if not isinstance(leaf, Tensor):
                    raise ValueError(
                        f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you mean to set "
                        "out_dims= to None for output?"
                    )
            return arrays_of(result)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            before, MODES.randomness = MODES.randomness, randomness
            try:
                return vmap_of_arrays(outputs, in_dims, out_dims, max_paths=0)(*args, **kwargs)
            finally:
                MODES.randomness = before

        return call.run(run)

    return wrapper


def _check_dims(call: Call, args: tuple[Any, ...], in_dims: PyTree, what: str) -> None:
    """Check that ``in_dims`` fits the arguments, in PyTorch's words."""
    if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
        raise ValueError(
            f"{what}: in_dims is not compatible with the structure of `inputs`. in_dims has structure {_shown(in_dims)} but "
            f"inputs has structure {_shown(args)}."
        )
    sizes: list[int] = []
    pairs = zip(in_dims if isinstance(in_dims, (tuple, list)) else [in_dims] * len(args), args, strict=True)
    for dim, argument in pairs:
        if dim is not None and not isinstance(dim, int):
            return  # a nest: the core looks at it
        for leaf in flatten(argument)[0]:
            if dim is None:
                continue
            if not isinstance(leaf, Tensor):
                raise ValueError(
                    f"{what}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                    "non-Tensor arguments, please use None as the respective in_dim"
                )
            if not -leaf.dim() <= dim < leaf.dim():
                raise ValueError(
                    f"{what}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
                    f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
                )
            sizes.append(leaf.shape[dim])
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension"
        )
