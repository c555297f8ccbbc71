"""``to_jax`` and ``from_jax``: functions between functrace and JAX.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.api.capture.arguments import NUMERIC, as_value, function_name
from functrace.api.capture.record import RecordedCall
from functrace.api.capture.transformed import transformed
from functrace.errors import ArgumentError, DtypeError, TreeError, entry
from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.tracing.capture import own_constants
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten
from functrace.typing import Array, P, PyTree
from functrace.xla.program import check_installed


@entry
def to_jax(f: Callable[P, Any], *, host_callbacks: Sequence[str] = ()) -> Callable[..., Any]:
    """Make a JAX function of a function of NumPy arrays.

    JAX differentiates, maps and compiles it, to any order: ``jax.jit``, ``grad``, ``jvp``, ``vmap``,
    ``hessian``, ``lax.scan``, ``checkpoint``. What has a derivative of its own keeps it: functions
    with `custom_vjp`, `custom_jvp` and `primitive`, `custom_root` and `custom_linear_solve`,
    `stop_gradient`, loops with ``max_steps``; `custom_vmap` keeps its rule for ``jax.vmap``.

    ``f`` is recorded at each call, with the shapes and dtypes of JAX's arrays: inside ``jax.jit``, once.
    In JAX's default mode of 32 bits all of the program is narrowed, as JAX does it: float64 constants
    and results are float32, int64 ones int32. Inside ``jax.enable_x64(True)`` dtypes are NumPy's.

    Args:
        f: a function of arrays (pytrees of them). Its arguments and its result are pytrees of JAX.
        host_callbacks: names of primitives without a form in XLA that may run in NumPy on the host.

    Returns:
        a function of JAX arrays that returns JAX arrays. Called with traced values of functrace, it
        is ``f`` itself.

    Raises:
        UnsupportedFunctionError: if JAX is not installed; if an operation has no form in XLA; for
            random draws in JAX's 32-bit mode.
        ConcretizationError: if ``f`` reads a concrete value (``if x > 0``).
        DtypeError: if an argument is no array; if a constant integer does not fit into 32 bits.
        TreeError: if ``f`` returns a class that is no pytree of JAX.
        ArgumentError: if ``f`` closes over a traced value of functrace.
        NotDifferentiableError: if JAX differentiates what has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> import jax
        >>> loss = ft.to_jax(lambda x: np.sum(np.sin(x) ** 2))
        >>> jax.grad(loss)(jax.numpy.zeros(3))
        Array([0., 0., 0.], dtype=float32)

    Cost:
        recording, per call outside ``jax.jit``: about 0.2 ms for a few operations; inside, nothing.
        XLA compiles the program at the first call. Errors that NumPy raises for values are raised by plain
        calls only: inside of JAX's transforms floats become NaN, and ``jax.experimental.checkify`` reports the message.
    """
    check_installed()
    name, owner = function_name(f), f"to_jax of {function_name(f)}"
    names = frozenset(host_callbacks)

    @transformed("to_jax", f)
    @entry
    def run(*args: PyTree, **kwargs: PyTree) -> Any:
        import jax

        from functrace.xla.bridges.to_jax import applied, aval_of_leaf
        from functrace.xla.lowering import Options

        leaves, treedef = jax.tree.flatten((args, kwargs))
        if any(isinstance(x, Tracer) for x in flatten((args, kwargs))[0]):
            return f(*args, **kwargs)
        avals = [aval_of_leaf(x, owner) for x in leaves]
        program, out_tree = _recorded(f, name, owner, avals, treedef)
        return jax.tree.unflatten(out_tree, applied(program, leaves, Options(names)))

    return run


def _recorded(
    f: Callable[..., Any], name: str, owner: str, avals: Sequence[ShapeDtype], treedef: PyTree
) -> tuple[Program, Any]:
    """Record a function on pytrees of JAX; returns the program, and the result's structure."""
    import jax

    trees: list[Any] = []

    def of_leaves(*leaves: PyTree) -> Any:
        args, kwargs = jax.tree.unflatten(treedef, leaves)
        found, tree = jax.tree.flatten(f(*args, **kwargs))
        trees.append(tree)
        for leaf in found:
            if not isinstance(leaf, NUMERIC):
                raise TreeError(
                    f"{owner} returned a {type(leaf).__name__}, which is no array, and no pytree of JAX",
                    fix="return arrays in pytrees of JAX; jax.tree_util.register_dataclass makes a "
                    "dataclass one",
                )
        return found

    def inputs(recording: Recording) -> tuple[Sequence[Any], dict[str, Any]]:
        return [recording.new_input(aval) for aval in avals], {}

    with ArrayRecording(owner) as recording:
        call = RecordedCall(recording, of_leaves, inputs, reads=())
        program = own_constants(call.program(name))
    if any(isinstance(x, Tracer) for x in program.constant_values.values()):
        raise ArgumentError(
            f"{owner}: it closes over a traced value of functrace, which JAX cannot see",
            fix="pass the value as an argument",
        )
    return program, trees[-1]


@entry
def from_jax(g: Callable[..., Any], *, x64: bool | None = None) -> Callable[..., Any]:
    """Make a function of NumPy arrays of a JAX function, for use under every transform.

    The function becomes one operation. Its derivatives and its batching are those of JAX (``jax.jvp``,
    ``jax.vjp``, ``jax.vmap`` of ``g``), made when a transform needs them, to any order. XLA compiles
    it, also without `jit`; under ``jit(backend="xla")`` and in `to_jax` it is spliced into the program.

    Args:
        g: a JAX function of arrays (pytrees of JAX, which functrace has to know too). It has to be
            pure.
        x64: True to compute in JAX's 64-bit mode, False for its 32-bit mode, which narrows float64.
            By default 64 bits if an argument has 64 bits; Python numbers do not count.

    Returns:
        a function of arrays that returns fresh arrays of NumPy; called with traced values of JAX, it
        is ``g`` itself.

    Raises:
        UnsupportedFunctionError: if JAX is not installed.
        ArgumentError: if ``g`` is no function.
        DtypeError: if an argument or a result is no array of numbers; if ``x64=False``, and an
            argument has 64 bits.
        TypeError, ValueError: those that JAX raises for ``g``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> import jax.numpy as jnp
        >>> norm = ft.from_jax(lambda x: jnp.sqrt(jnp.sum(x * x)))
        >>> ft.grad(norm)(np.array([3.0, 4.0]))
        array([0.6, 0.8])

    Cost:
        arguments whose memory begins at a multiple of 64 bytes are not copied; results are, once. A
        call takes about 0.3 ms. The reverse pass computes ``g`` again.
    """
    check_installed()
    if not callable(g):
        raise ArgumentError(
            f"from_jax takes a function, not a {type(g).__name__}", fix="from_jax(g)(x)"
        )
    owner = f"from_jax of {function_name(g)}"

    @transformed("from_jax", g)
    @entry
    def run(*args: PyTree, **kwargs: PyTree) -> Any:
        import jax

        from functrace.xla.bridges.from_jax import applied
        from functrace.xla.bridges.to_jax import is_traced

        leaves, treedef = jax.tree.flatten((args, kwargs))
        if is_traced(leaves):
            return g(*args, **kwargs)
        numbers = [type(x) in (bool, int, float, complex) for x in leaves]
        values = [
            as_value(np.asarray(x) if isinstance(x, jax.Array) else x, f"{owner}: an argument")
            for x in leaves
        ]
        wide = [x.dtype.itemsize > (8 if x.dtype.kind == "c" else 4) for x in values]
        is_wide = x64
        if is_wide is None:
            is_wide = any(w and not n for w, n in zip(wide, numbers, strict=True)) or all(numbers)
        if not is_wide:
            values = [_narrow(x, n, owner) for x, n in zip(values, numbers, strict=True)]
        found, tree = applied(g, values, treedef, is_wide)
        return jax.tree.unflatten(tree, found)

    return run


_NARROW = {"f": np.float32, "i": np.int32, "u": np.uint32, "c": np.complex64}


def _narrow(value: Array, is_number: bool, owner: str) -> Any:
    """Return an argument for JAX's 32-bit mode.

    Raises:
        DtypeError: if an array has 64 bits.
    """
    kind = value.dtype.kind
    if kind not in _NARROW or value.dtype.itemsize <= np.dtype(_NARROW[kind]).itemsize:
        return value
    if not is_number:
        raise DtypeError(
            f"{owner} computes in 32 bits (x64=False), but an argument is {value.dtype}",
            fix="pass x.astype(np.float32) (or int32), or leave x64 out",
        )
    return _NARROW[kind](value)
