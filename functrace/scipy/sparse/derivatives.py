"""Sparse Jacobians and Hessians, as SciPy's sparse arrays: `sparse_jacobian`, `sparse_hessian`.

The pattern is detected in the program, its columns (or rows) are coloured, and one sweep per colour
is run, all together. See functrace/transforms/sparsity.

Layer: 9.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, final

import numpy as np
import scipy.sparse

from functrace.api.capture.arguments import (
    check_argnums,
    check_choice,
    function_name,
    normalize_argnums,
)
from functrace.api.capture.record import RecordedCall
from functrace.api.differentiation.gradients import Primals
from functrace.api.differentiation.jacobians import (
    at_arguments,
    check_jacobian_arguments,
    check_jacobian_results,
)
from functrace.errors import ShapeError, entry
from functrace.executor import Runner
from functrace.ir.parts import restrict
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.scipy.sparse.matrices import Sparse
from functrace.scipy.sparse.nodes import as_scipy
from functrace.source import hide_own_frames
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms import grad_program, jvp_program
from functrace.transforms.derivatives import pullback_programs
from functrace.transforms.sparsity import Pattern, dependence
from functrace.transforms.sparsity.colouring import (
    Colouring,
    both_colouring,
    column_colouring,
    row_colouring,
    symmetric_colouring,
)
from functrace.transforms.sparsity.compressed import LinearParts, compressed_elements
from functrace.tree import flatten
from functrace.typing import Array

Mode: TypeAlias = Literal["auto", "forward", "reverse", "both"]
Format: TypeAlias = Literal["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
COLOURINGS: dict[str, Callable[[Pattern], Colouring]] = {
    "forward": column_colouring,
    "reverse": row_colouring,
    "both": both_colouring,
}


@final
class SparsePlan:
    """Pattern of a sparse derivative, and the sweeps that compute it.

    Args:
        name: name of the derivative, for printing.
        pattern: positions of the nonzero elements.
        colouring: groups of columns and rows.
        is_symmetric: True if elements are recovered from mirrored ones, too.

    Example:
        >>> import numpy as np, functrace as ft
        >>> jacobian = ft.sparse_jacobian(lambda x: x[1:] * x[:-1])
        >>> print(jacobian.plan(np.ones(1000)))
        jacobian of <lambda>: 999 x 1000, 1998 elements, 2 sweeps (2 forward, 0 reverse)
    """

    __slots__ = ("_colouring", "_indptr", "_name", "_pattern", "is_symmetric")

    def __init__(
        self, name: str, pattern: Pattern, colouring: Colouring, is_symmetric: bool
    ) -> None:
        self._name, self._pattern, self._colouring = name, pattern, colouring
        self.is_symmetric = is_symmetric
        self._indptr = pattern.starts()

    @property
    def pattern(self) -> scipy.sparse.csr_array:
        """The pattern, as a sparse array of bools; a superset of the nonzero elements."""
        return self.matrix(np.ones(self.nnz, np.bool_))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows (elements of results) and columns (elements of arguments)."""
        return self._pattern.shape

    @property
    def nnz(self) -> int:
        """Number of elements in the pattern."""
        return len(self._pattern.rows)

    @property
    def column_colours(self) -> Array:
        """Colour of every column in the forward sweeps, or -1."""
        return self._colouring.columns.copy()

    @property
    def row_colours(self) -> Array:
        """Colour of every row in the reverse sweeps, or -1."""
        return self._colouring.rows.copy()

    @property
    def forward(self) -> int:
        """Number of forward sweeps: tangents, each with the cost of a jvp."""
        return self._colouring.forward

    @property
    def reverse(self) -> int:
        """Number of reverse sweeps: cotangents, each with the cost of a pullback."""
        return self._colouring.reverse

    @property
    def sweeps(self) -> int:
        """Number of sweeps."""
        return self._colouring.sweeps

    def __repr__(self) -> str:
        rows, columns = self.shape
        return (
            f"{self._name}: {rows} x {columns}, {self.nnz} elements, {self.sweeps} sweeps "
            f"({self.forward} forward, {self.reverse} reverse)"
        )

    def matrix(self, data: Array, format: Format = "csr", *, is_traced: bool | None = None) -> Any:
        """Return the sparse array with some elements, in the order of rows, then of columns.

        Args:
            data: the elements, plain or traced, shape (nnz,).
            format: of the result, by SciPy's names.
            is_traced: True for a `functrace.scipy.sparse.Sparse`, False for SciPy's sparse array; by
                default, the former if the elements are traced.
        """
        pattern = self._pattern.columns, self._indptr, self._pattern.rows
        elements: Any = data if isinstance(data, Tracer) else np.asarray(data)
        made = Sparse(elements, pattern, self.shape, kept_format=format)
        if isinstance(data, Tracer) if is_traced is None else is_traced:
            return made.tocsc() if format == "csc" else made
        return as_scipy(made)


@final
class SparseDerivative:
    """Function that computes a sparse Jacobian or Hessian, returned by `sparse_jacobian` and
    `sparse_hessian`.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        transform: str,
        argnums: int | Sequence[int],
        mode: str,
        format: Format,
        has_aux: bool,
    ) -> None:
        self._f, self._transform, self._argnums = f, transform, argnums
        self._mode, self._has_aux = mode, has_aux
        self._format: Format = format
        self._owner = f"{transform} of {function_name(f)}"
        functools.update_wrapper(self, f, updated=())

    def __repr__(self) -> str:
        return f"<functrace {self._owner}>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Return the sparse array, or ``(array, aux)`` with ``has_aux``."""
        try:
            plan, data, aux = self._run(args, kwargs)
            # (elements of a constant Jacobian are plain, for traced arguments, too)
            given = (data, *flatten((args, kwargs))[0])
            is_traced = any(isinstance(x, Tracer) for x in given)
            matrix = plan.matrix(data, self._format, is_traced=is_traced)
            return (matrix, aux) if self._has_aux else matrix
        except BaseException as error:
            hide_own_frames(error)
            raise

    def plan(self, *args: object, **kwargs: object) -> SparsePlan:
        """Return the pattern and the sweeps for arguments like these; only shapes matter.

        Args:
            args, kwargs: arguments of the function.
        """
        return self._run(args, kwargs, only_plan=True)[0]

    def _run(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, only_plan: bool = False
    ) -> tuple[SparsePlan, Any, Any]:
        owner = self._owner
        chosen = normalize_argnums(self._argnums, len(args), owner)
        primals = tuple([args[k] for k in chosen])
        check_jacobian_arguments(primals, chosen, owner, False, complex_is_fine=False)
        point = Primals(self._f, primals, {}, owner)
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(
                recording,
                at_arguments(self._f, args, chosen, kwargs),
                point.inputs,
                has_aux=self._has_aux,
            )
            check_jacobian_results(call.out_avals, owner, False, complex_is_fine=False)
            if self._transform == "sparse_hessian":
                _check_scalar(call, owner)
            known = _integers(recording)
            build = functools.partial(self._built, point, call, known)
            key = (
                self._transform,
                self._mode,
                point.active,
                len(call.outputs),
                tuple([x is not None for x in known]),
                _digest(known),
            )
            (plan, runner), arguments = call.transformed(key, build)
            if only_plan:
                return plan, None, None
            flat = runner(arguments, call.lines)
        return plan, flat[-1], call.aux(flat[:-1]) if self._has_aux else None

    def _built(
        self, point: Primals, call: RecordedCall, known: Sequence[Array | None], program: Program
    ) -> tuple[SparsePlan, Runner]:
        """Detect the pattern of a program, colour it, and compile the sweeps."""
        active, auxiliary, count = point.flags(program), call.auxiliary, len(call.outputs)
        is_hessian = self._transform == "sparse_hessian"
        is_symmetric = is_hessian and not program.has_rules
        if is_hessian:
            made = grad_program(program, active, with_value=False)
            outs, count = made.output_ids, sum(active)
            program = restrict(
                made, made.input_ids, [*outs[auxiliary:], *outs[:auxiliary]], keep=True
            ).program
        joint = jvp_program(program, active, count)
        pushed = restrict(joint, joint.input_ids, joint.output_ids[count:], keep=True).program
        start = len(point.avals)
        constants = {
            pushed.input_ids[start + k]: value for k, value in enumerate(known) if value is not None
        }
        moving = [k >= len(program.input_ids) for k in range(len(pushed.input_ids))]
        pattern = dependence(pushed, moving, range(auxiliary, auxiliary + count), known=constants)
        if pattern is None:
            raise _too_dense(self._owner, program, active, count)
        if is_symmetric:
            pattern = pattern.symmetric()
            colouring = symmetric_colouring(pattern)
        else:
            colouring = _chosen(pattern, self._mode)
        parts = LinearParts(pushed)
        if colouring.reverse:
            parts = LinearParts(pushed, *pullback_programs(program, active, count))
        avals = [*point.avals, *[program.avals[i] for i in program.output_ids[:count]]]
        dtype = np.result_type(*[aval.dtype for aval in avals]) if avals else np.dtype(np.float64)
        runner = Runner(compressed_elements(parts, colouring, count, auxiliary, sum(active), dtype))
        name = self._owner.removeprefix("sparse_")
        return SparsePlan(name, pattern, colouring, is_symmetric), runner


@entry
def sparse_jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    mode: Mode = "auto",
    format: Format = "csr",
    has_aux: bool = False,
) -> SparseDerivative:
    """Make a function that computes the Jacobian of ``f`` as a sparse array of SciPy's.

    The pattern is detected from the operations of ``f``, for all values: it is a superset of the
    nonzero elements. Columns without a common row get one colour, and are computed by one tangent;
    likewise rows, by one cotangent.

    Args:
        f: a function of arrays (pytrees of them) to arrays (pytrees of them).
        argnums: position of the argument to differentiate. With a sequence of positions, the
            columns are the elements of all these arguments, in that order.
        mode: ``"forward"`` colours columns, ``"reverse"`` rows; ``"both"`` computes a few dense rows
            or columns in one direction, and all else in the other; ``"auto"`` takes what needs the
            fewest sweeps.
        format: of the result, by SciPy's names: ``"csr"``, ``"csc"``, ``"coo"`` …
        has_aux: True if ``f`` returns ``(result, aux)``; ``aux`` is returned unchanged.

    Returns:
        a function of ``f``'s arguments that returns the sparse array, or ``(array, aux)``: shape
        (elements of the results, elements of the arguments), both in the order of leaves, then in C
        order within each. Its dtype is NumPy's promotion of those of arguments and results, in every
        mode. Its method ``plan`` takes the same arguments, and returns the pattern,
        the colours and the number of sweeps. For traced arguments (inside of `jit`, `vmap`, `grad`)
        the result is a `functrace.scipy.sparse.Sparse`. Where `jit` returns it, it is SciPy's sparse
        array again; where `vmap` does, a `functrace.scipy.sparse.SparseElements`, whose ``.data``
        holds all elements. For float16, which SciPy's sparse arrays do not have, it is always a
        ``Sparse``.

    Raises:
        ArgumentError: if ``mode`` or ``format`` is none of these, or ``argnums`` names an argument
            that the call does not have.
        DtypeError: for integer or complex arguments or results.
        ShapeError: if the Jacobian is too large, and dense as far as the program shows.

    Example:
        >>> import numpy as np
        >>> def residual(u):
        ...     return u[2:] - 2.0 * u[1:-1] + u[:-2] - np.exp(u[1:-1])
        >>> jacobian = sparse_jacobian(residual)
        >>> jacobian(np.zeros(4)).toarray()
        array([[ 1., -3.,  1.,  0.],
               [ 0.,  1., -3.,  1.]])
        >>> jacobian.plan(np.zeros(100_000)).sweeps
        3

    Cost:
        one jvp per forward sweep and one pullback per reverse sweep, all in one mapped run; memory of
        the sweeps times that of ``f``. The plan is made once per program and shapes: detection takes
        about 50 ns per element of the pattern and operation, colouring 2 us per column.

    Source:
        A. R. Curtis, M. J. D. Powell, J. K. Reid (1974); A. H. Gebremedhin, F. Manne, A. Pothen, What
        color is your Jacobian? (2005).
    """
    check_argnums(argnums, "sparse_jacobian")
    check_choice("sparse_jacobian", "mode", mode, ("auto", *COLOURINGS))
    check_choice("sparse_jacobian", "format", format, FORMATS)
    return SparseDerivative(f, "sparse_jacobian", argnums, mode, format, has_aux)


@entry
def sparse_hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    format: Format = "csr",
    has_aux: bool = False,
) -> SparseDerivative:
    """Make a function that computes the Hessian of ``f`` as a sparse array of SciPy's.

    The pattern is detected from the operations of the gradient, for all values: it is a superset of
    the nonzero elements. Columns are coloured by a star colouring, which uses symmetry: an element
    is recovered from its column or from its row. (Where ``f`` has custom derivatives, whose Hessian
    need not be symmetric, columns are coloured alone.)

    Args:
        f: a function of arrays (pytrees of them) that returns one real number.
        argnums: position of the argument to differentiate twice. With a sequence of positions, rows
            and columns are the elements of all these arguments, in that order.
        format: of the result, by SciPy's names: ``"csr"``, ``"csc"``, ``"coo"`` …
        has_aux: True if ``f`` returns ``(number, aux)``; ``aux`` is returned unchanged.

    Returns:
        a function of ``f``'s arguments that returns the sparse array, or ``(array, aux)``; see
        `sparse_jacobian` for the order of elements, for traced arguments, and for ``plan``.

    Raises:
        ArgumentError: if ``format`` is none of these, or ``argnums`` names an argument that the call
            does not have.
        DtypeError: for integer or complex arguments or results.
        ShapeError: if ``f`` does not return a scalar; if the Hessian is too large, and dense as far
            as the program shows.

    Example:
        >>> import numpy as np
        >>> def energy(x):  # an arrowhead: every element is coupled with the first
        ...     return np.sum(x[0] * x[1:] ** 2)
        >>> hessian = sparse_hessian(energy)
        >>> hessian(np.ones(3)).toarray()
        array([[0., 2., 2.],
               [2., 2., 0.],
               [2., 0., 2.]])
        >>> hessian.plan(np.ones(1000)).sweeps
        2

    Cost:
        one Hessian-vector product (4 to 8 ``f``) per sweep, all in one mapped run. The plan is made
        once per program and shapes; colouring takes about 10 us per column.

    Source:
        T. F. Coleman, J. J. Moré (1984); A. H. Gebremedhin et al., New acyclic and star coloring
        algorithms with application to computing Hessians (2007).
    """
    check_argnums(argnums, "sparse_hessian")
    check_choice("sparse_hessian", "format", format, FORMATS)
    return SparseDerivative(f, "sparse_hessian", argnums, "forward", format, has_aux)


def _check_scalar(call: RecordedCall, owner: str) -> None:
    avals = call.out_avals
    if len(avals) != 1 or avals[0].shape:
        shown = ", ".join(map(repr, avals))
        raise ShapeError(
            f"{owner}: the function returned {shown or 'nothing'}, and only a scalar has a Hessian",
            fix="reduce it (np.sum), or use functrace.sparse_jacobian of its gradient",
        )


def _integers(recording: Recording) -> list[Array | None]:
    """Return the captured arrays of integers and bools, in order, ``None`` for others."""
    return [
        np.asarray(value)
        if not isinstance(value, Tracer) and np.asarray(value).dtype.kind in "iub"
        else None
        for value in recording.constants.values()
    ]


def _digest(values: Sequence[Array | None]) -> bytes:
    """Return a digest of arrays that the pattern depends on."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        if value is not None:
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
    return digest.digest()


def _chosen(pattern: Pattern, mode: str) -> Colouring:
    """Return the colouring of a mode; ``"auto"`` takes the fewest sweeps, forward ones on a tie."""
    if mode != "auto":
        return COLOURINGS[mode](pattern)
    forward = column_colouring(pattern)
    if forward.sweeps <= 2:
        return forward
    return min((forward, both_colouring(pattern)), key=lambda found: found.sweeps)


def _too_dense(owner: str, program: Program, active: Sequence[bool], count: int) -> ShapeError:
    rows = sum([program.avals[i].size for i in program.output_ids[:count]])
    columns = sum([
        program.avals[i].size for i, flag in zip(program.input_ids, active, strict=True) if flag
    ])  # fmt: skip
    return ShapeError(
        f"{owner}: the matrix of {rows} x {columns} elements is dense, as far as the program shows",
        fix="use products instead (functrace.jvp, vjp, hvp; scipy.sparse.linalg.LinearOperator); "
        "write positions as constant arrays or slices, since positions computed from arguments "
        "count as dense",
    )
