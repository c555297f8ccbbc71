"""``to_torch``: functions of NumPy arrays as functions of PyTorch's tensors.

Layer: 8.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, final

import numpy as np

from functrace.api.batching.mapping import vmap
from functrace.api.capture.arguments import function_name
from functrace.api.capture.transformed import transformed
from functrace.api.differentiation.gradients import jvp, vjp
from functrace.api.staging.jitted import jit
from functrace.errors import DtypeError, TreeError, UnsupportedFunctionError, entry
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, unflatten
from functrace.typing import P, PyTree

Tensor: TypeAlias = Any
"""A tensor of PyTorch, which is imported when it is used."""
Value: TypeAlias = Any
"""An array or a number, traced or not."""
Context: TypeAlias = Any
"""An argument that PyTorch passes to the rules of an operation."""


@entry
def to_torch(f: Callable[P, Any]) -> Callable[..., Any]:
    """Make a function of PyTorch's tensors of a function of NumPy arrays.

    PyTorch differentiates and maps it, to any order: ``backward``, ``torch.autograd.grad`` with
    ``create_graph``, ``torch.func.grad``, ``vjp``, ``jvp``, ``vmap``, ``hessian``. The derivatives are
    functrace's, so custom rules are kept. (This is the real PyTorch, not `functrace.torch`.)

    Args:
        f: a function of arrays (pytrees of them). It is jitted.

    Returns:
        a function of tensors on the CPU, in the same pytrees, that returns tensors. Arguments that
        are no tensors are passed to ``f`` unchanged. Called with traced values of functrace, it is
        ``f`` itself.

    Raises:
        UnsupportedFunctionError: if PyTorch is not installed; if a tensor is on another device, or is
            sparse or quantized.
        DtypeError: if NumPy does not have the dtype of a tensor (bfloat16).
        TreeError: if ``f`` returns something else than arrays.
        NotDifferentiableError: if PyTorch differentiates what has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> import torch
        >>> norm = ft.to_torch(lambda x: np.sqrt(np.sum(x * x)))
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> norm(x).backward()
        >>> x.grad
        tensor([0.6000, 0.8000])

    Cost:
        tensors and arrays share memory, nothing is copied. The backward pass computes ``f`` again,
        from its arguments, which are all that is saved. About 50 us per call.
    """
    if importlib.util.find_spec("torch") is None:
        raise UnsupportedFunctionError("to_torch needs PyTorch", fix="pip install torch")
    owner = f"to_torch of {function_name(f)}"
    flat: dict[Any, _FlatFunction] = {}

    @transformed("to_torch", f)
    @entry
    def run(*args: PyTree, **kwargs: PyTree) -> Any:
        import torch

        leaves, tree = flatten((args, kwargs))
        if any(isinstance(x, Tracer) for x in leaves):
            return f(*args, **kwargs)
        places = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        others = tuple([None if k in places else _key(x) for k, x in enumerate(leaves)])
        key = tree, others
        function = flat.get(key)
        if function is None:
            if len(flat) >= MOST_FORMS:
                flat.clear()
            function = flat[key] = _flattened(f, leaves, places, tree, owner)
        results = _operation().apply(function, *[leaves[k] for k in places])
        return unflatten(function.tree, results)

    return run


MOST_FORMS = 64
"""Number of structures and other arguments for which a function is kept."""


def _key(x: object) -> Any:
    """Return a key for an argument that is no tensor."""
    try:
        hash(x)
    except TypeError:
        return type(x), id(x)
    return type(x), x


@final
class _FlatFunction:
    """A function of flat arrays to a tuple of arrays, and its transforms of the same kind.

    Args:
        function: the function.
        owner: the transform and its function, for messages.
        kept: what keeps the ids of other arguments valid.
    """

    def __init__(self, function: Callable[..., Any], owner: str, kept: object = None) -> None:
        self.function, self.owner, self.kept = function, owner, kept
        self.run = jit(function)
        self.tree: Any = None
        self._made: dict[Any, _FlatFunction] = {}

    def _derived(self, key: Hashable, make: Callable[[], Callable[..., Any]]) -> _FlatFunction:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = _FlatFunction(make(), self.owner)
        return found

    def pulled(self, active: Sequence[bool], smooth: Sequence[bool]) -> _FlatFunction:
        """Return the function from arguments and cotangents to the cotangents of active arguments.

        Args:
            active: a flag per argument.
            smooth: a flag per result: True if it has a cotangent.
        """
        count = len(active)

        def make() -> Callable[..., Any]:
            def pull(*both: Value) -> tuple[Any, ...]:
                xs, cts = both[:count], both[count:]
                function, chosen = self._at(active, smooth, xs)
                # PyTorch's gradients of complex numbers are the conjugates of cotangents
                found = vjp(function, *chosen)[1](tuple(map(_conjugate, cts)))
                return tuple(map(_conjugate, found))

            return pull

        return self._derived(("pulled", tuple(active), tuple(smooth)), make)

    def pushed(self, active: Sequence[bool], smooth: Sequence[bool]) -> _FlatFunction:
        """Return the function from arguments and tangents of active ones to tangents."""
        count = len(active)

        def make() -> Callable[..., Any]:
            def push(*both: Value) -> tuple[Any, ...]:
                function, chosen = self._at(active, smooth, both[:count])
                return tuple(jvp(function, chosen, both[count:])[1])

            return push

        return self._derived(("pushed", tuple(active), tuple(smooth)), make)

    def mapped(self, flags: Sequence[bool], size: int) -> _FlatFunction:
        """Return the function of arguments of which some have a batch axis in front."""

        def make() -> Callable[..., Any]:
            axes = tuple([0 if flag else None for flag in flags])
            if any(flags):
                return vmap(self.function, in_axes=axes)
            return lambda *xs: tuple([np.stack([y] * size) for y in self.function(*xs)])

        return self._derived(("mapped", tuple(flags), size if not any(flags) else 0), make)

    def _at(
        self, active: Sequence[bool], smooth: Sequence[bool], xs: Sequence[Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        def function(*values: Value) -> tuple[Any, ...]:
            rest = iter(values)
            args = [next(rest) if flag else x for flag, x in zip(active, xs, strict=True)]
            results = self.function(*args)
            return tuple([y for y, flag in zip(results, smooth, strict=True) if flag])

        return function, tuple([x for x, flag in zip(xs, active, strict=True) if flag])


def _conjugate(x: Value) -> Any:
    return np.conj(x) if np.iscomplexobj(x) else x


def _flattened(
    f: Callable[..., Any], leaves: Sequence[Any], places: Sequence[int], tree: PyTree, owner: str
) -> _FlatFunction:
    """Return a function of the arrays at ``places`` only."""
    others = [None if k in places else x for k, x in enumerate(leaves)]

    def of_arrays(*arrays: Value) -> tuple[Any, ...]:
        whole = list(others)
        for k, x in zip(places, arrays, strict=True):
            whole[k] = x
        args, kwargs = unflatten(tree, whole)
        found, made.tree = flatten(f(*args, **kwargs))
        for leaf in found:
            if not isinstance(leaf, (Tracer, np.ndarray, np.generic, bool, int, float, complex)):
                raise TreeError(
                    f"{owner} returned a {type(leaf).__name__}, not an array", fix="return arrays"
                )
        return tuple(found)

    of_arrays.__name__ = function_name(f)
    made = _FlatFunction(of_arrays, owner, others)
    return made


def _to_array(tensor: Tensor, owner: str) -> Any:
    """Return a tensor's array, which shares its memory.

    Raises:
        UnsupportedFunctionError, DtypeError: if there is none.
    """
    import torch

    if tensor.device.type != "cpu":
        raise UnsupportedFunctionError(
            f"{owner}: a tensor is on {tensor.device}, and functrace computes on the CPU",
            fix="pass x.cpu(); on GPUs, functrace.to_jax(f) runs through JAX",
        )
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise UnsupportedFunctionError(
            f"{owner}: a tensor of layout {tensor.layout} is no array", fix="pass x.to_dense()"
        )
    if tensor.dtype is torch.bfloat16 or tensor.dtype.itemsize < 1:
        raise DtypeError(
            f"{owner}: NumPy has no {tensor.dtype}", fix="pass x.float(), and convert the result"
        )
    try:
        return tensor.detach().resolve_conj().resolve_neg().numpy()
    except TypeError as error:
        raise DtypeError(
            f"{owner}: {error}", fix="pass x.float(), and convert the result"
        ) from None


def _to_tensor(y: Value) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.from_numpy(np.asarray(y))


@lru_cache(maxsize=1)
def _operation() -> Any:
    """Return the autograd function of all functions."""
    torch: Any = importlib.import_module("torch")

    class FunctraceFunction(torch.autograd.Function):
        """A function of functrace; the first argument is a `_FlatFunction`."""

        @staticmethod
        def forward(function: _FlatFunction, *tensors: Tensor) -> Any:
            arrays = [_to_array(x, function.owner) for x in tensors]
            return tuple(
                [_to_tensor(y) for y in function.run(*[x if x.ndim else x[()] for x in arrays])]
            )

        @staticmethod
        def setup_context(ctx: Context, inputs: Context, output: Context) -> None:
            ctx.function, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.smooth = [y.is_floating_point() or y.is_complex() for y in output]
            ctx.mark_non_differentiable(
                *[y for y, flag in zip(output, ctx.smooth, strict=True) if not flag]
            )

        @staticmethod
        def backward(ctx: Context, *cts: Tensor) -> Any:
            active = list(ctx.needs_input_grad[1:])
            pulled = ctx.function.pulled(active, ctx.smooth)
            given = [ct for ct, flag in zip(cts, ctx.smooth, strict=True) if flag]
            found = iter(operation.apply(pulled, *ctx.saved_tensors, *given))
            return None, *[next(found) if flag else None for flag in active]

        @staticmethod
        def jvp(ctx: Context, _function: object, *tangents: Tensor) -> Any:
            active = [t is not None for t in tangents]
            pushed = ctx.function.pushed(active, ctx.smooth)
            moving = [t for t in tangents if t is not None]
            found = iter(operation.apply(pushed, *ctx.saved_tensors, *moving))
            return tuple([next(found) if flag else None for flag in ctx.smooth])

        @staticmethod
        def vmap(info: Context, in_dims: Context, function: _FlatFunction, *tensors: Tensor) -> Any:
            flags = [axis is not None for axis in in_dims[1:]]
            moved = [
                x if axis is None else x.movedim(axis, 0)
                for x, axis in zip(tensors, in_dims[1:], strict=True)
            ]
            results = operation.apply(function.mapped(flags, info.batch_size), *moved)
            return results, tuple([0] * len(results))

    operation: Any = FunctraceFunction
    return operation
