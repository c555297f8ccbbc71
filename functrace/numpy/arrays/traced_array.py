"""`TracedArray`: a tracer with the NumPy API.

It records operators, methods, attributes and indexing of an ndarray as the equivalent NumPy
function. `__array_ufunc__` (NEP 13) and `__array_function__` (NEP 18) dispatch ``np.…`` calls to
the tables of this package.

In-place operations: see Note [In-place operations on traced values] in numpy/arrays/views.py.

Layer: 3.
"""

from __future__ import annotations

import dis
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from functrace.caches import MemoTable
from functrace.errors import (
    ConcretizationError,
    DtypeError,
    LostGradientError,
    ShapeError,
    TracedIndexError,
    UnsupportedFunctionError,
)
from functrace.ir.aval import dtype_name, refuse_subclass, shape_of
from functrace.ir.primitive import Primitive
from functrace.ir.tape import at_sight, inferred
from functrace.numpy.arrays.at import At
from functrace.numpy.arrays.flags import Flags
from functrace.numpy.arrays.indexing import has_array, parse_index, select, store
from functrace.numpy.arrays.instances import class_for_caller
from functrace.numpy.arrays.layout import layout_of
from functrace.numpy.arrays.overlaps import refuse_assignment, refuse_overlap
from functrace.numpy.arrays.view_kinds import FlatView, ImagView, IndexView, RealView, View
from functrace.numpy.arrays.views import (
    copied,
    indexed,
    is_part_of,
    is_scalar,
    linked,
    need_open,
    read_at,
    rebind,
    reshape_in_place,
    snapshot,
    transposed,
)
from functrace.numpy.protocol.conversions import (
    explain_reading,
    lost_in_array,
    lost_in_python,
    unknown_values,
)
from functrace.numpy.protocol.evaluations import EVALUATIONS, refuse_several_polynomials
from functrace.numpy.protocol.foreign_operands import (
    hand_over_function,
    hand_over_ufunc,
    has_operators,
    takes_functions,
)
from functrace.numpy.protocol.operands import (
    Arrayed,
    DtypeLike,
    Index,
    Operand,
    Sizes,
    checked_order,
    full_shape,
    holds_tracer,
    int_tuple,
    without_derivatives,
)
from functrace.numpy.protocol.sparse_operands import is_operator_of_sparse
from functrace.numpy.protocol.tables import FUNCTIONS, LIKE, unsupported_function
from functrace.numpy.protocol.ufuncs import call_ufunc
from functrace.numpy.protocol.without_masks import is_masked, operands_without_masks, without_masks
from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_p
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.source import PACKAGE_PREFIX, SEEN
from functrace.tracing.binding import bind, check_writable
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import has_no_derivative, has_value, is_constant
from functrace.typing import Array

_new = object.__new__
_ndarray = np.ndarray
_ref = weakref.ref
_getframe = sys._getframe


def record_one(primitive: Primitive, x: Arrayed, params: tuple[Any, ...] = ()) -> Any:
    """Apply a primitive to one operand: the unary hot path, with `bind` inlined."""
    if type(x) is not TracedArray:
        return bind(primitive, (x,), params)
    recording = x.ft_recording
    aval = at_sight.get((primitive, x.aval, params))
    if aval is None:
        found = inferred.get((primitive, (x.aval,), params))
        if found is None or primitive.many:
            return bind(primitive, (x,), params)
        aval = at_sight.keep((primitive, x.aval, params), found[0])
    if recording.shadows:
        return bind(primitive, (x,), params)
    primitives = recording.primitives
    first = len(primitives)
    primitives.append(primitive)
    recording.operands.append((x.ft_variable,))
    recording.params.append(params)
    recording.avals.append(aval)
    positions = recording.positions
    if positions is not None:
        frame: Any = _getframe(2)  # skip this function and its caller in functrace
        code = frame.f_code
        while code.co_filename is not SEEN[0]:
            if code.co_filename.startswith(PACKAGE_PREFIX):
                frame = frame.f_back
                code = frame.f_code
            else:
                SEEN[0] = code.co_filename
        positions.append((code, frame.f_lasti))
    tracer = _new(TracedArray)
    tracer.ft_recording = recording
    tracer.ft_variable = first
    tracer.aval = aval
    tracer.ft_view = None
    handles = recording.handles
    if handles is not None and (aval.is_large or handles.of_all):
        handles.append(_ref(tracer))
    return tracer


_basic = MemoTable("avals and params of slices and elements, for hot paths", 20_000)
"""By aval and index: one shared tuple of params, so that comparing tapes compares identities."""
BINARY: dict[np.ufunc, Callable[[Any, Any], Any]] = {}
"""Binary ufuncs as operators; filled, like the next, in functrace/numpy/arrays/arithmetic.py."""
REFLECTED: dict[np.ufunc, Callable[[Any, Any], Any]] = {}
QUICK: set[type] = set()
"""Operand types that these operators accept."""
_UNARY = {
    ufunc: primitive for ufunc, primitive in ew.UFUNCS.items() if ufunc.nin == 1 and ufunc.nout == 1
}


class TracedArray(Tracer):
    """Traced value: behaves like an ndarray, refers to a variable of a recording.

    Shape and dtype are always available. Values are concrete under `functrace.grad`,
    `functrace.vjp`, `functrace.jvp` …, where ``if``, ``int``, ``print`` can read them; they are
    abstract under `functrace.vmap` and `functrace.trace`.
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type:
            return class_for_caller(self, _getframe(1))

        @__class__.setter
        def __class__(self, kind: type) -> None:
            object.__dict__["__class__"].__set__(self, kind)

    if (
        TYPE_CHECKING
    ):  # for type checkers: operators are set in functrace/numpy/arrays/arithmetic.py

        def __neg__(self) -> Any: ...
        def __pos__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __add__(self, other: Operand) -> Any: ...
        def __radd__(self, other: Operand) -> Any: ...
        def __sub__(self, other: Operand) -> Any: ...
        def __rsub__(self, other: Operand) -> Any: ...
        def __mul__(self, other: Operand) -> Any: ...
        def __rmul__(self, other: Operand) -> Any: ...
        def __truediv__(self, other: Operand) -> Any: ...
        def __rtruediv__(self, other: Operand) -> Any: ...
        def __floordiv__(self, other: Operand) -> Any: ...
        def __rfloordiv__(self, other: Operand) -> Any: ...
        def __mod__(self, other: Operand) -> Any: ...
        def __rmod__(self, other: Operand) -> Any: ...
        def __pow__(self, other: Operand) -> Any: ...
        def __rpow__(self, other: Operand) -> Any: ...
        def __matmul__(self, other: Operand) -> Any: ...
        def __rmatmul__(self, other: Operand) -> Any: ...
        def __and__(self, other: Operand) -> Any: ...
        def __rand__(self, other: Operand) -> Any: ...
        def __or__(self, other: Operand) -> Any: ...
        def __ror__(self, other: Operand) -> Any: ...
        def __xor__(self, other: Operand) -> Any: ...
        def __rxor__(self, other: Operand) -> Any: ...
        def __lshift__(self, other: Operand) -> Any: ...
        def __rlshift__(self, other: Operand) -> Any: ...
        def __rshift__(self, other: Operand) -> Any: ...
        def __rrshift__(self, other: Operand) -> Any: ...
        def __lt__(self, other: Operand) -> Any: ...
        def __le__(self, other: Operand) -> Any: ...
        def __gt__(self, other: Operand) -> Any: ...
        def __ge__(self, other: Operand) -> Any: ...

    # -- NumPy's dispatch protocols ------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__":
            primitive = _UNARY.get(ufunc)
            if primitive is not None:
                return record_one(primitive, self)
            primitive = ew.UFUNCS.get(ufunc)
            if primitive is not None:
                if len(inputs) == 2 and type(inputs[0]) in QUICK and type(inputs[1]) in QUICK:
                    operator = (BINARY if self is inputs[0] else REFLECTED).get(ufunc)
                    if operator is not None:  # SciPy's ufuncs are registered later
                        x, y = inputs
                        return operator(self, y if x is self else x)
                for x in inputs:
                    kind = type(x)
                    if kind is _ndarray or kind in QUICK:
                        continue
                    if is_masked(kind):
                        inputs = operands_without_masks(primitive, inputs)
                        break
                    if has_operators(kind):
                        handed = hand_over_ufunc(ufunc, method, inputs, kwargs)
                        if handed is not NotImplemented:
                            return handed
                        break
                if type(inputs[0]) is _ndarray and _getframe(1).f_code.co_name in EVALUATIONS:
                    refuse_several_polynomials(_getframe(1))
                return bind(primitive, inputs)
        handed = hand_over_ufunc(ufunc, method, inputs, kwargs)
        return call_ufunc(ufunc, method, inputs, kwargs) if handed is NotImplemented else handed

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        for kind in types:
            if kind is TracedArray or kind is _ndarray:
                continue
            if issubclass(kind, np.ndarray):
                if not is_masked(kind):
                    refuse_subclass(kind)
                args, kwargs = without_masks((args, kwargs))
            elif takes_functions(kind):
                return hand_over_function(func, types, args, kwargs)
        try:
            implementation = FUNCTIONS[func]
        except KeyError:
            implementation = None
        if implementation is None:
            creation = LIKE.get(func)
            if creation is None:
                plain = without_derivatives((args, kwargs))
                if plain is None:
                    raise unsupported_function(func) from None
                return func(*plain[0], **plain[1])
            return creation(self, *args, **kwargs)
        return implementation(*args, **kwargs)

    def __array__(self, dtype: DtypeLike = None, copy: bool | None = None) -> Any:
        if is_operator_of_sparse(_getframe(1)):
            operand = np.empty((), object)
            operand[()] = self
            return operand
        if self._has_no_derivative:  # T[i] of a plain T
            try:
                values = self.ft_concrete()
            except ConcretizationError as error:
                raise unknown_values(self, error) from error
            if not copy and (dtype is None or dtype == self.dtype):
                return snapshot(self, values)
            if copy is False:
                raise ValueError(
                    f"np.array(…, copy=False): {self.aval} becomes {np.dtype(dtype)} by a copy only"
                )
            return np.array(values, dtype)
        raise lost_in_array(self)

    def __dlpack__(self, **options: Any) -> Any:
        if not is_constant(self):
            raise lost_in_array(self)
        return np.array(self.ft_concrete()).__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return np.empty(0).__dlpack_device__()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Array API namespace: `functrace.numpy`, whose API is larger than the standard."""
        np.empty(0).__array_namespace__(api_version=api_version)  # type: ignore[attr-defined]  # refuses unknown versions
        return sys.modules["functrace.numpy"]

    # -- attributes ----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes by axis; assignment reshapes in place."""
        return self.aval.shape

    @shape.setter
    def shape(self, sizes: Sizes) -> None:
        reshape_in_place(self, full_shape(int_tuple(sizes), self.aval.size))

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each axis, in NumPy's memory layout."""
        layout = layout_of(self)
        if layout is None:
            raise UnsupportedFunctionError(
                f"the strides of a traced array ({self.aval}) depend on arguments, and are unknown",
                fix="read the strides of a copy, which has C order: x.copy().strides",
            )
        return layout.strides

    @property
    def flags(self) -> Flags:
        """Flags of the memory layout that NumPy would choose, and ``writeable``."""
        return Flags(self)

    @property
    def device(self) -> str:
        """Device of the array API: ``"cpu"``."""
        return "cpu"

    @property
    def data(self) -> memoryview:
        """Memory of the concrete values; raises for a value that depends on an input."""
        if not is_constant(self):
            raise AttributeError(
                f"a traced value ({self.aval}) has no memory; functrace.value(x) has"
            )
        return np.asarray(self).data

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return transposed(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Any:
        """The array with its last two axes swapped."""
        if self.ndim < 2:
            raise ShapeError(
                f"matrix transpose needs at least 2 axes, got {self.aval}",
                fix="use .T, or add an axis",
            )
        return FUNCTIONS[np.swapaxes](self, -1, -2)

    @property
    def real(self) -> Any:
        """Real part."""
        if self.dtype.kind != "c":
            return linked(self, View(self))
        return linked(ew.real(self), RealView(self))

    @real.setter
    def real(self, value: Operand) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """Imaginary part; zeros for a real array."""
        if self.dtype.kind != "c":
            return broadcast_to(np.zeros((), self.dtype), self.shape)
        return linked(ew.imag(self), ImagView(self))

    @imag.setter
    def imag(self, value: Operand) -> None:
        if self.dtype.kind != "c":
            raise DtypeError(
                f"a real array ({self.aval}) has no imaginary part to set",
                fix="use .astype(complex) first",
            )
        self.imag[...] = value

    @property
    def flat(self) -> Any:
        """Elements in C order: writes change the array, reads return copies."""
        made = linked(reshape(self, (self.size,)), FlatView(self, (self.size,)))
        if type(made) is TracedArray:
            made.__class__ = TracedFlat
        return made

    @flat.setter
    def flat(self, value: Operand) -> None:
        refuse_overlap(self, value, "x.flat = values", lambda t, v: setattr(t, "flat", v))
        self.flat[...] = FUNCTIONS[np.resize](value, (self.size,)) if np.ndim(value) else value

    @property
    def at(self) -> Any:
        """Functional updates: ``x.at[i].set(v)``, ``.add``, ``.multiply`` … return new arrays."""
        return At(self)

    # -- indexing ------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        # The hot path of tracing, with `bind` inlined; `indexed` is the readable equivalent.
        kind = type(index)
        aval = self.aval
        if kind is slice:
            start, stop, step = index.start, index.stop, index.step
            if not (
                (start is None or type(start) is int)
                and (stop is None or type(stop) is int)
                and (step is None or type(step) is int)
            ):
                return self._read(index)
            key: Any = (aval, start, stop, step)
        elif kind is int:
            key = (aval, index)
        else:
            return self._read(index)
        recording = self.ft_recording
        known = _basic.get(key)
        if known is None:
            params: tuple[Any, ...] = (((start, stop, step),),) if kind is slice else ((index,),)
            found = inferred.get((index_p, (aval,), params))
            if found is None:
                return indexed(self, params[0])
            known = _basic.keep(key, (found[0], params))
        made, params = known
        if recording.shadows:
            return indexed(self, params[0])
        primitives = recording.primitives
        first = len(primitives)
        primitives.append(index_p)
        recording.operands.append((self.ft_variable,))
        recording.params.append(params)
        aval = made
        recording.avals.append(aval)
        positions = recording.positions
        if positions is not None:
            frame: Any = _getframe(1)
            code = frame.f_code
            while code.co_filename is not SEEN[0]:
                if code.co_filename.startswith(PACKAGE_PREFIX):
                    frame = frame.f_back
                    code = frame.f_code
                else:
                    SEEN[0] = code.co_filename
            positions.append((code, frame.f_lasti))
        tracer = _new(TracedArray)
        tracer.ft_recording = recording
        tracer.ft_variable = first
        tracer.aval = aval
        if aval.shape:
            view = _new(IndexView)
            view.base = self
            view.index = params[0]
            tracer.ft_view = view
            views = recording._views or recording.views
            references = views.references
            count = len(references)
            if count > 63 and not count & (count - 1):
                views.watch(tracer)
            else:
                references.append(_ref(tracer))
            handles = recording.handles
            if handles is not None and (aval.is_large or handles.of_all):
                handles.append(_ref(tracer))
        else:
            tracer.ft_view = None
        return tracer

    def _read(self, index: Index) -> Any:
        """Read any index: a view if the index is basic, a copy if it contains arrays or masks."""
        selected = select(self, index)
        if selected is not None:
            return selected
        template, arrays = parse_index(self, index)
        return read_at(self, template, arrays, has_array(index))

    def __setitem__(self, index: Index, value: Operand) -> None:
        if type(index) is int and type(value) is TracedArray and type(value.ft_view) is IndexView:
            self._refuse_shuffle(value)
        if type(value) is TracedArray and (value.ft_view is not None or self.ft_view is not None):
            if is_part_of(self, value, lambda: parse_index(self, index)):
                return
            refuse_assignment(self, index, value)
        self.ft_assign(store(self, index, value), "assignment", fresh=True)

    def _refuse_shuffle(self, row: TracedArray) -> None:
        """Raise if NumPy shuffles this array: it swaps rows in place, and reads overwritten ones.

        Its compiled code looks like Python's ``x[i] = row``; only the current instruction differs.
        """
        frame = _getframe(2)
        code = frame.f_code
        if row.ft_view.base is self and not dis.opname[code.co_code[frame.f_lasti]].startswith(
            "STORE_SUBSCR"
        ):
            raise UnsupportedFunctionError(
                "shuffling a traced array in place (Generator.shuffle, numpy.random.shuffle) has "
                "no implementation",
                fix="permute an index instead: x = x[rng.permutation(len(x))]",
            )

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise UnsupportedFunctionError("iteration over a 0-d array", fix="use the value itself")
        return (self[k] for k in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.shape:
            raise UnsupportedFunctionError(
                "len() of unsized object: a 0-d array has no length", fix="use .size"
            )
        return self.shape[0]

    def __contains__(self, value: Operand) -> bool:
        found: Any = self == value
        return bool(found.any())

    # -- in place ------------------------------------------------------------------------------

    def ft_assign(self, result: Arrayed, what: str, *, fresh: bool = False) -> Any:
        """Rebind this handle to a new value, as NumPy's in-place operations do.

        ``fresh``: the result was recorded for this assignment, so that no other handle names it.
        """
        if not self.aval.shape and self.ft_view is None and is_scalar(self):
            raise DtypeError(
                f"in-place {what}: a NumPy scalar ({self.aval}) never changes, and neither does a "
                "traced one",
                fix="write x = x + y, or make it a 0-d array first: x = np.copy(x)",
            )
        if shape_of(result) != self.shape:
            raise ShapeError(
                f"in-place {what}: a result of shape {shape_of(result)} does not fit into "
                f"{self.aval}",
                fix="write x = x + y instead of x += y to let x grow",
            )
        if result.dtype != self.dtype:
            if not np.can_cast(result.dtype, self.dtype, "same_kind"):
                raise DtypeError(
                    f"in-place {what}: cannot cast {dtype_name(result.dtype)} to "
                    f"{dtype_name(self.dtype)}",
                    fix="convert first with x = x.astype(...), or write x = x + y",
                )
            result = convert(result, self.dtype)
        self._replace(result, fresh=fresh)
        return self

    def _replace(self, result: Arrayed, *, fresh: bool) -> None:
        if self.ft_view is None or self.ft_view.base is None:
            check_writable(self)
        if type(result) is TracedFlat:
            result = result.copy()
        traced = (
            result
            if type(result) is TracedArray
            else self.ft_recording.handle(self.ft_recording.capture(result))
        )
        rebind(self, traced, fresh=fresh)

    # -- conversions to Python -----------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._read_by_python())

    def __int__(self) -> int:
        if not self._has_no_derivative:
            raise lost_in_python(self, "int(x)")
        return int(self._read_by_python())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TracedIndexError(
                f"only integers can be used as an index, not {self.aval}", fix="use .astype(int)"
            )
        if self.aval.shape:
            raise DtypeError(
                f"only a 0-d integer is a Python index, not {self.aval}",
                fix="use functrace.numpy.take(T, i) for T[i]",
            )
        try:
            return int(self.ft_concrete())
        except ConcretizationError as error:
            raise unknown_values(self, error) from error

    def __float__(self) -> float:
        if not self._has_no_derivative:
            raise lost_in_python(self, "float(x)")
        return float(self._read_by_python())

    def __complex__(self) -> complex:
        if not self._has_no_derivative:
            raise lost_in_python(self, "complex(x)")
        return complex(self._read_by_python())

    def _read_by_python(self) -> Any:
        """Return the concrete value for Python or compiled code; errors name the reader."""
        try:
            return self.ft_concrete()
        except ConcretizationError as error:
            explain_reading(error)
            raise

    @property
    def _has_no_derivative(self) -> bool:
        """True if Python or compiled code can read the value without losing a derivative."""
        return has_no_derivative(self)

    def item(self, *args: SupportsIndex | tuple[SupportsIndex, ...]) -> Any:
        """Return the element as a Python number; raises for floats that depend on an input."""
        if not self._has_no_derivative:
            raise lost_in_python(self, "x.item()")
        return self._read_by_python().item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested lists; raises for floats that depend on an input."""
        if not self._has_no_derivative:
            raise lost_in_python(self, "x.tolist()")
        return np.asarray(self._read_by_python()).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """Return the elements as bytes; raises for floats that depend on an input."""
        if not self._has_no_derivative:
            raise lost_in_python(self, "x.tobytes()")
        return np.asarray(self._read_by_python()).tobytes(order)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        if self.aval.shape or is_scalar(self) is False:
            raise DtypeError(
                f"unhashable type: a traced array ({self.aval}), like an ndarray",
                fix="use a number, a tuple of numbers, or id(x)",
            )
        if not self._has_no_derivative:
            raise LostGradientError(
                f"hash(x) of a traced value ({self.aval}): a dict, set or functools.cache may find "
                "an "
                "equal value with another derivative",
                made=self.ft_recording.source(self.ft_variable),
                fix="use a key that is not traced: a name, an index, or functrace.value(x)",
            )
        return hash(self.ft_concrete())

    def __repr__(self) -> str:
        if self.ft_recording.closed:
            return f"TracedArray({self.aval}, of {self.ft_recording.owner}, which has ended)"
        if not has_value(self):
            return f"TracedArray({self.aval}, in {self.ft_recording.owner})"
        try:
            value = self.ft_concrete()
        except Exception:
            return f"TracedArray({self.aval}, in {self.ft_recording.owner})"
        return f"TracedArray({self.aval}, value={np.array2string(np.asarray(value), threshold=20)})"

    def __format__(self, spec: str) -> str:
        return format(self._read_by_python(), spec) if spec else str(self)

    def __str__(self) -> str:
        return repr(self)

    def __copy__(self) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        if is_constant(self):
            return np.array(self.ft_concrete()).__reduce__()
        raise UnsupportedFunctionError(
            f"a traced value ({self.aval}) cannot be pickled, nor sent to another process "
            "(multiprocessing, joblib): it is "
            f"part of {self.ft_recording.owner}, which runs here",
            fix="to write it to a file: return it, and pickle what the call returns; to work on "
            "parts of it: map with "
            "functrace.vmap, or in threads",
        )

    def __deepcopy__(self, memo: object) -> Any:
        return self.copy()

    # -- operators: more are set in functrace/numpy/arrays/arithmetic.py -----------------------

    def __divmod__(self, other: Arrayed) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Arrayed) -> Any:
        return other // self, other % self

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.shape or is_scalar(self) is False or self.dtype.kind not in "iuf":
            raise UnsupportedFunctionError(
                f"Python's round() takes numbers, not {self.aval} (an array, a bool or complex)",
                fix="use np.round(x)",
            )
        return (
            round(self._read_by_python()) if ndigits is None else FUNCTIONS[np.round](self, ndigits)
        )

    def __trunc__(self) -> int:
        return math.trunc(self._read_by_python())

    # -- methods: more are set from the rows, in functrace/numpy/arrays/methods.py -------------

    def to_device(self, device: str, /, *, stream: None = None) -> Any:
        """Return the array itself, by the array API: there is one device."""
        np.empty(0).to_device(device, stream=stream)  # type: ignore[attr-defined]  # refuses others
        need_open(self)
        return self

    def copy(self, order: str = "C") -> Any:
        """Return a copy, unaffected by later in-place changes of the original, and vice versa."""
        return copied(self, checked_order(order, "copy"))


if not TYPE_CHECKING:
    Array.register(TracedArray)


class TracedFlat(TracedArray):
    """``x.flat``: slices of it are copies, as for NumPy's iterator."""

    __slots__ = ()

    def __setitem__(self, index: Index, value: Operand) -> None:
        write = None if holds_tracer(index) else lambda t, v: t.flat.__setitem__(index, v)
        refuse_overlap(self, value, "x.flat[index] = values", write)
        self.ft_assign(store(self, index, value), "assignment", fresh=True)

    def __getitem__(self, index: Index) -> Any:
        part = super().__getitem__(index)
        return part.copy() if isinstance(part, TracedArray) and part.aval.shape else part
