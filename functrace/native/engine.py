"""Functions of machine code that Python calls.

A compiled program is a builtin function (``METH_FASTCALL``), whose code LLVM has made together with
that of the program: it checks that the arguments are arrays of the right shapes and dtypes in C
order, allocates the results, and runs the program. For any other arguments, and after any status but
0, it calls a Python function instead (the `fallback`). It is made by ctypes alone, from the layout of
NumPy's arrays in memory, which is verified when the module is first used; where that differs (other
implementations of Python), ctypes calls the program.

Note [Floating-point flags]
    NumPy warns of a division by zero, an overflow or an invalid operation. The code clears the
    processor's flags, runs, and reads them: if one is set, it discards its results, and the
    fallback, NumPy's form of the program, computes them with NumPy's own warnings at the user's line.
    Underflow is nearly always ignored, and kernels underflow elsewhere than NumPy's do: where NumPy's
    settings do not ignore it, the fallback runs at once. The entry reads them itself, in a few ns.

Layer: 7.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import platform
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np

from functrace.executor.runner import run_compiled
from functrace.ir.parts import Compiled
from functrace.native import llvm, object_cache
from functrace.native.kernels import KERNELS, OF_ANGLES
from functrace.native.llvm_text import (
    INLINED,
    MINUS_ZEROS,
    RAISED,
    Printer,
    function_text,
    kernels_text,
    passed_constants,
    variants,
    workspace,
)
from functrace.native.loop_ir import DTYPES, DType, Function, Let, walk, work_of
from functrace.ops.blas import routine_address

FLAGGED: Final = 4
"""Status of a run that has set a floating-point flag."""
PATIENCE: Final = 8
"""Runs with flags after which NumPy's form runs at once."""


@final
class _Method(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_FASTCALL, _KEYWORDS = 0x0080, 0x0002


class Layout(NamedTuple):
    """Offsets in an array object, and in a NumPy scalar.

    Args:
        data, ndim, dims, descr, flags: fields of ``PyArrayObject``.
        value: of a scalar.
    """

    data: int = 16
    ndim: int = 24
    dims: int = 32
    descr: int = 56
    flags: int = 64
    value: int = 16


@functools.lru_cache(maxsize=1)
def layout() -> Layout | None:
    """Return the layout of NumPy's objects, or ``None`` if it is not the expected one."""
    if platform.python_implementation() != "CPython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    found = Layout()
    for dtype in ("f8", "f4", "i8", "b1"):
        for shape in ((2, 3, 4), (5,), ()):
            x = np.ones(shape, dtype)
            start = id(x)

            def word(offset: int, kind: type[Any], start: int = start) -> Any:
                return kind.from_address(start + offset).value

            dims: list[int] = []
            if shape:
                place = word(found.dims, ctypes.c_int64)
                dims = list((ctypes.c_int64 * len(shape)).from_address(place))
            if (
                object.__sizeof__(x) < found.flags + 4
                or word(found.data, ctypes.c_int64) != x.ctypes.data
                or word(found.ndim, ctypes.c_int) != x.ndim
                or dims != list(shape)
                or word(found.descr, ctypes.c_int64) != id(x.dtype)
                or word(found.flags, ctypes.c_int) & 0x101 != 0x101
            ):
                return None
        scalar = np.dtype(dtype).type(3)
        size = scalar.dtype.itemsize
        if ctypes.string_at(id(scalar) + found.value, size) != scalar.tobytes():
            return None
    return found


class Symbols(NamedTuple):
    """Addresses of functions and objects that generated code refers to.

    Args:
        array_type: ``numpy.ndarray``.
        new_array: ``PyArray_New``.
        to_scalar: ``PyArray_Scalar``.
        new_tuple, set_item, vectorcall, decref, signals, allocate, free, lock, unlock, leave, enter:
            functions of Python; the last four take and release its lock.
        context, settings: Python's function that reads a context variable, and the variable with
            NumPy's settings for floating-point errors.
    """

    array_type: int
    new_array: int
    to_scalar: int
    new_tuple: int
    set_item: int
    vectorcall: int
    decref: int
    signals: int
    allocate: int
    free: int
    lock: int
    unlock: int
    leave: int
    enter: int
    context: int
    settings: int


@functools.lru_cache(maxsize=1)
def symbols() -> Symbols:
    """Return the addresses."""
    import numpy._core._multiarray_umath as umath  # type: ignore[import-not-found]  # (private)

    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    table_of_numpy: Any = umath
    pointer = api.PyCapsule_GetPointer(table_of_numpy._ARRAY_API, None)
    table = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))

    def of_python(name: str) -> int:
        return ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0

    found = map(
        of_python,
        (
            "PyTuple_New", "PyTuple_SetItem", "PyObject_Vectorcall", "Py_DecRef",
            "PyErr_CheckSignals", "PyMem_RawMalloc", "PyMem_RawFree", "PyGILState_Ensure",
            "PyGILState_Release", "PyEval_SaveThread", "PyEval_RestoreThread",
            "PyContextVar_Get",
        ),
    )  # fmt: skip
    settings = id(table_of_numpy._extobj_contextvar) if are_settings_readable() else 0
    return Symbols._make((id(np.ndarray), table[93] or 0, table[60] or 0, *found, settings))


CAPSULE: Final = 16
"""Offset of the pointer in Python's capsule, in which NumPy keeps its settings."""
UNDERFLOW: Final = 6
"""Place of the setting for underflow in the first word of these; three bits."""


@functools.lru_cache(maxsize=1)
def are_settings_readable() -> bool:
    """Return True if NumPy's settings for floating-point errors are where they are expected."""
    import numpy._core._multiarray_umath as umath  # type: ignore[import-not-found]  # (private)

    table: Any = umath
    variable = getattr(table, "_extobj_contextvar", None)
    if layout() is None or variable is None:
        return False
    for bits, word in enumerate(("ignore", "warn", "raise", "call", "print", "log")):
        for others in ("ignore", "raise"):
            with np.errstate(all=others, under=word):
                capsule = variable.get()
                if type(capsule).__name__ != "PyCapsule":
                    return False
                place = ctypes.c_int64.from_address(id(capsule) + CAPSULE).value
                mask = ctypes.c_int.from_address(place).value
            if mask >> UNDERFLOW & 7 != bits:
                return False
    return True


def module_text(function: Function, name: str, is_exact: bool = False) -> str:
    """Return a whole module in LLVM IR: the function, its kernels, and its entry for Python.

    Args:
        function: the program in loop IR.
        name: prefix of the names of functions.
        is_exact: see `NativeFunction`.
    """
    calls = sum(type(s) is Let and s.op in KERNELS for s in walk(function.body))
    widths = llvm.vector_widths() if calls > INLINED else ()
    if widths:
        printer = Printer(1, variants(widths, KERNELS), keeps_flags=True)
    else:
        printer = Printer(keeps_flags=True)
    body = function_text(printer, function, f"{name}_run")
    kernels = kernels_text(printer, KERNELS, widths)
    width = f'"prefer-vector-width"="{8 * llvm.vector_widths()[-1]}"'
    parts = [
        *printer.declarations.values(),
        kernels,
        MINUS_ZEROS,
        _HEAD,
        body,
        _entry(function, name, is_exact),
        f"attributes #0 = {{ noinline nounwind {width} }}",
        f"attributes #1 = {{ nounwind memory(none) willreturn alwaysinline {width} }}",
        f"attributes #2 = {{ nounwind memory(none) willreturn noinline {width} }}",
        *printer.metadata,
    ]
    return "\n".join(parts)


_FIELDS = Symbols._fields
_FALLBACK, _DISABLED, _FLOAT, _OBJECTS = range(len(_FIELDS), len(_FIELDS) + 4)
_COUNT = _OBJECTS + 2 * len(DTYPES)
"""Places in the table: the addresses of `Symbols`, the fallback, a flag, the type ``float``, and by
dtype the dtype and its type of scalars. No address is in the code, so that it can be kept on disk."""


def objects() -> list[int]:
    """Return the addresses of dtypes and of types of scalars, in the order of `DTYPES`."""
    return [id(x) for dtype in DTYPES for x in (np.dtype(dtype.char), dtype.type)]


def _address(name: str) -> str:
    return (
        f"ptr getelementptr ([{_COUNT} x ptr], ptr @functrace_table, i64 0, "
        f"i64 {_FIELDS.index(name)})"
    )


_HEAD = f"""
@functrace_table = internal global [{_COUNT} x ptr] zeroinitializer
@functrace_dgemm = internal global ptr null
@functrace_sgemm = internal global ptr null
define internal i32 @functrace_signals() noinline {{
  %lock = load ptr, {_address("lock")}
  %signals = load ptr, {_address("signals")}
  %unlock = load ptr, {_address("unlock")}
  %state = call i32 %lock()
  %result = call i32 %signals()
  call void %unlock(i32 %state)
  ret i32 %result
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
LONG: Final = 100_000.0
"""Instructions from which a program runs without Python's lock."""


def _place(dtype: DType) -> int:
    """Return the place of a dtype in the table; its type of scalars follows."""
    return _OBJECTS + 2 * DTYPES.index(dtype)


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _entry(function: Function, name: str, is_exact: bool) -> str:
    """Return the functions around the program: set-up, a call by pointers, a call by objects."""
    inputs, outputs = function.arguments, function.results
    pointers = [f"%p{k}" for k in range(len(inputs) + len(outputs))]
    _, temporary = workspace(function)
    constants = len(passed_constants(function))
    lines = [
        f"""@{name}_constants = internal global [{constants} x ptr] zeroinitializer
define void @{name}_setup(ptr %table, ptr %gemm, ptr %constants) {{
  call void @llvm.memcpy.p0.p0.i64(ptr @functrace_table, ptr %table, i64 {8 * _COUNT}, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr @functrace_dgemm, ptr %gemm, i64 8, i1 false)
  %second = getelementptr i8, ptr %gemm, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr @functrace_sgemm, ptr %second, i64 8, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr @{name}_constants, ptr %constants, i64 {8 * constants}, i1 false)
  ret void
}}""",
        _flagged_run(function, name),
        f"define i32 @{name}_call(ptr %pointers) {{",
    ]
    for k, pointer in enumerate([*pointers, "%workspace"]):
        lines.append(f"  %g{k} = getelementptr i8, ptr %pointers, i64 {8 * k}")
        lines.append(f"  {pointer} = load ptr, ptr %g{k}")
    given = ", ".join(f"ptr {p}" for p in [*pointers, "%workspace"])
    lines += [f"  %status = call i32 @{name}_flagged({given})", "  ret i32 %status", "}"]
    lines.append(_object_entry(function, name, temporary, is_exact))
    return "\n".join(lines)


def _flagged_run(function: Function, name: str) -> str:
    """Return the function that runs the program between two looks at the floating-point flags."""
    count = len(function.arguments) + len(function.results) + 1
    given = ", ".join(f"ptr %p{k}" for k in range(count))
    offsets, _ = workspace(function)
    places = "\n".join(
        f"  %w{k} = getelementptr i8, ptr %p{count - 1}, i64 {offset}"
        for k, offset in enumerate(offsets.values())
    )
    constants = len(passed_constants(function))
    loads = "\n".join(
        f"  %c{k} = load ptr, ptr getelementptr ([{constants} x ptr], ptr @{name}_constants, i64 0, "
        f"i64 {k})"
        for k in range(constants)
    )
    taken = [f"ptr %p{k}" for k in range(count - 1)] + [f"ptr %w{k}" for k in range(len(offsets))]
    taken += [f"ptr %c{k}" for k in range(constants)]
    if _is_x86():
        before = """  %csr = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %csr)
  %old = load i32, ptr %csr
  %clear = and i32 %old, -64
  store i32 %clear, ptr %csr
  call void @llvm.x86.sse.ldmxcsr(ptr %csr)"""
        after = """  call void @llvm.x86.sse.stmxcsr(ptr %csr)
  %new = load i32, ptr %csr
  store i32 %old, ptr %csr
  call void @llvm.x86.sse.ldmxcsr(ptr %csr)
  %found = and i32 %new, 13"""
        declared = (
            "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)"
        )
    else:
        bits = 7 if platform.machine().lower() in ("aarch64", "arm64") else 31
        before = f"  %cleared = call i32 @feclearexcept(i32 {bits})"
        after = f"  %found = call i32 @fetestexcept(i32 {bits})"
        declared = "declare i32 @feclearexcept(i32)\ndeclare i32 @fetestexcept(i32)"
    return f"""{declared}
define internal i32 @{name}_flagged({given}) {{
{before}
{places}
{loads}
  %status = call i32 @{name}_run({", ".join(taken)})
{after}
  %any = icmp ne i32 %found, 0
  %shifted = shl i32 %found, 8
  %flags = or i32 %shifted, {FLAGGED}
  %good = icmp eq i32 %status, 0
  %both = and i1 %any, %good
  %result = select i1 %both, i32 %flags, i32 %status
  ret i32 %result
}}"""


def _object_entry(function: Function, name: str, temporary: int, is_exact: bool) -> str:
    """Return the function that Python calls: ``PyObject *(self, args, nargs)``."""
    where = layout() or Layout()
    inputs, outputs = function.arguments, function.results
    lines: list[str] = []
    numbers = itertools.count()

    def new() -> str:
        return f"%y{next(numbers)}"

    def value(text: str) -> str:
        made = new()
        lines.append(f"  {made} = {text}")
        return made

    def field(pointer: str, offset: int, kind: str) -> str:
        return value(f"load {kind}, ptr {value(f'getelementptr i8, ptr {pointer}, i64 {offset}')}")

    def symbol(key: str | int) -> str:
        place = key if isinstance(key, int) else _FIELDS.index(key)
        return value(
            f"load ptr, ptr getelementptr ([{_COUNT} x ptr], ptr @functrace_table, i64 0, i64 {place})"
        )

    blocks = itertools.count()

    def need(condition: str) -> None:
        block = f"ok{next(blocks)}"
        lines.append(f"  br i1 {condition}, label %{block}, label %other")
        lines.append(f"{block}:")

    head = [
        f"define internal ptr @{name}_checked(ptr %args, i64 %count, ptr %names, ptr %fallback, ptr %front) {{",
        "entry:",
    ]
    slots: list[str] = []
    is_front = value("icmp ne ptr %front, null")
    off = value(f"ptrtoint ptr {symbol(_DISABLED)} to i64")
    need(value(f"icmp eq i64 {off}, 0"))
    if are_settings_readable():
        slots.append("  %settings = alloca ptr")
        value(f"call i32 {symbol('context')}(ptr {symbol('settings')}, ptr null, ptr %settings)")
        capsule = value("load ptr, ptr %settings")
        mask = field(field(capsule, CAPSULE, "ptr"), 0, "i32")
        lines.append(f"  call void {symbol('decref')}(ptr {capsule})")
        need(value(f"icmp eq i32 {value(f'and i32 {mask}, {7 << UNDERFLOW}')}, 0"))
        if is_exact:  # no error raises: no setting is 2
            fields = sum(1 << 3 * k for k in range(4))
            low = value(f"shl i32 {value(f'and i32 {mask}, {fields}')}, 1")
            high = value(f"and i32 {mask}, {2 * fields}")
            raising = value(f"and i32 {high}, {value(f'xor i32 {low}, -1')}")
            need(value(f"icmp eq i32 {raising}, 0"))
    need(value(f"icmp eq i64 %count, {len(inputs)}"))
    array_type = symbol("array_type") if inputs else ""
    data: list[str] = []
    for k, (buffer, shape) in enumerate(inputs):
        x = field("%args", 8 * k, "ptr")
        kind = field(x, 8, "ptr")
        if not shape:
            # a NumPy scalar of the dtype, a float for float64, or an array without axes
            # (for the front a float only: other scalars have other signatures)
            is_scalar = value(f"icmp eq ptr {kind}, {symbol(_place(buffer.dtype) + 1)}")
            is_scalar = value(f"select i1 {is_front}, i1 false, i1 {is_scalar}")
            if buffer.dtype == np.float64:
                is_float = value(f"icmp eq ptr {kind}, {symbol(_FLOAT)}")
                is_scalar = value(f"or i1 {is_scalar}, {is_float}")
            inner, array, end = (f"{w}{next(blocks)}" for w in ("scalar", "array", "end"))
            lines.append(f"  br i1 {is_scalar}, label %{inner}, label %{array}")
            lines.append(f"{inner}:")
            first = value(f"getelementptr i8, ptr {x}, i64 {where.value}")
            lines.append(f"  br label %{end}")
            lines.append(f"{array}:")
            need(value(f"xor i1 {is_front}, true"))
            second = _checked_array(value, field, need, symbol, x, kind, array_type, buffer.dtype, shape, where)  # fmt: skip
            last = next(line[:-1] for line in reversed(lines) if line.endswith(":"))
            lines.append(f"  br label %{end}")
            lines.append(f"{end}:")
            data.append(value(f"phi ptr [{first}, %{inner}], [{second}, %{last}]"))
            continue
        data.append(_checked_array(value, field, need, symbol, x, kind, array_type, buffer.dtype, shape, where))  # fmt: skip

    def scalar(k: int) -> str:
        descr = symbol(_place(outputs[k][0].dtype))
        return value(f"call ptr {symbol('to_scalar')}(ptr {targets[k]}, ptr {descr}, ptr null)")

    # results
    dims_text: list[str] = []
    results: list[str] = []
    targets: list[str] = []
    for k, (buffer, shape) in enumerate(outputs):
        if not shape:
            slot = f"%slot{k}"
            slots.append(f"  {slot} = alloca [2 x i64], align 16")
            targets.append(slot)
            results.append("")
            continue
        dims = f"@{name}_dims{k}"
        dims_text.append(
            f"{dims} = internal constant [{len(shape)} x i64] [{', '.join(f'i64 {n}' for n in shape)}]"
        )
        made = value(
            f"call ptr {symbol('new_array')}(ptr {symbol('array_type')}, i32 {len(shape)}, ptr {dims}, "
            f"i32 {buffer.dtype.num}, ptr null, ptr null, i32 0, i32 0, ptr null)"
        )
        is_there = value(f"icmp ne ptr {made}, null")
        block = f"ok{next(blocks)}"
        lines.append(f"  br i1 {is_there}, label %{block}, label %failed{k}")
        lines.append(f"{block}:")
        results.append(made)
        targets.append(field(made, where.data, "ptr"))
    if temporary:
        memory = value(f"call ptr {symbol('allocate')}(i64 {temporary + 64})")
        block = f"ok{next(blocks)}"
        lines.append(
            f"  br i1 {value(f'icmp ne ptr {memory}, null')}, label %{block}, label %release"
        )
        lines.append(f"{block}:")
        place = value(f"ptrtoint ptr {memory} to i64")
        aligned = value(f"and i64 {value(f'add i64 {place}, 63')}, -64")
        work = value(f"inttoptr i64 {aligned} to ptr")
    else:
        memory, work = "", "null"
    given = ", ".join(f"ptr {p}" for p in [*data, *targets, work])
    is_long = work_of(function.body) >= LONG
    thread = value(f"call ptr {symbol('leave')}()") if is_long else ""
    status = value(f"call i32 @{name}_flagged({given})")
    if is_long:
        lines.append(f"  call void {symbol('enter')}(ptr {thread})")
    if temporary:
        lines.append(f"  call void {symbol('free')}(ptr {memory})")
    lines.append(f"  br i1 {value(f'icmp eq i32 {status}, 0')}, label %good, label %failed")
    lines.append("good:")
    lines.append(f"  br i1 {is_front}, label %hit, label %several")
    lines.append("hit:")
    hits = value(f"getelementptr i8, ptr %front, i64 {8 * _HITS}")
    count = value(f"load i64, ptr {hits}")
    lines.append(f"  store i64 {value(f'add i64 {count}, 1')}, ptr {hits}")
    if len(outputs) == 1:
        single = field("%front", 8 * _SINGLE, "i64")
        lines.append(f"  br i1 {value(f'icmp ne i64 {single}, 0')}, label %alone, label %several")
        lines.append("alone:")
        lines.append(f"  ret ptr {results[0] or scalar(0)}")
    else:
        lines.append("  br label %several")
    lines.append("several:")
    made_tuple = value(f"call ptr {symbol('new_tuple')}(i64 {len(outputs)})")
    lines.append(f"  br i1 {value(f'icmp ne ptr {made_tuple}, null')}, label %full, label %empty")

    def discard(label: str, end: str, made: Sequence[str] = results) -> None:
        """Release results, and leave the function."""
        lines.append(f"{label}:")
        for one in filter(None, made):
            lines.append(f"  call void {symbol('decref')}(ptr {one})")
        lines.append(f"  {end}")

    discard("empty", "ret ptr null")
    lines.append("full:")
    set_item = symbol("set_item") if outputs else ""
    for k in range(len(outputs)):
        made = results[k] or scalar(k)
        lines.append(f"  call i32 {set_item}(ptr {made_tuple}, i64 {k}, ptr {made})")
    lines.append(f"  ret ptr {made_tuple}")
    # discard the results, and let the fallback run, unless Python has raised
    lines += ["failed:", f"  %raised = icmp eq i32 {status}, {RAISED}"]
    lines.append("  br i1 %raised, label %empty, label %release")
    discard("release", "br label %other")
    for k in reversed(range(len(outputs))):  # (each releases one result, and goes on to the next)
        discard(
            f"failed{k}", f"br label %failed{k - 1}" if k else "ret ptr null", results[k - 1 : k]
        )
    lines.append("other:")
    result = value(
        f"call ptr {symbol('vectorcall')}(ptr %fallback, ptr %args, i64 %count, ptr %names)"
    )
    lines.append(f"  ret ptr {result}")
    return "\n".join([*dims_text, *head, *slots, *lines, "}", _ends_of_entry(name, where)])


def _ends_of_entry(name: str, where: Layout) -> str:
    """Return the two functions that Python calls: for arguments as `jit` passes them, and `jit`'s
    front, which looks at them itself (see `Front`).
    """

    def symbol(place: int) -> str:
        return f"ptr getelementptr ([{_COUNT} x ptr], ptr @functrace_table, i64 0, i64 {place})"

    return f"""define ptr @{name}_entry(ptr %self, ptr %args, i64 %count) {{
  %fallback = load ptr, {symbol(_FALLBACK)}
  %result = call ptr @{name}_checked(ptr %args, i64 %count, ptr null, ptr %fallback, ptr null)
  ret ptr %result
}}
define ptr @{name}_front(ptr %self, ptr %args, i64 %count, ptr %names) {{
  %place = getelementptr i8, ptr %self, i64 {where.data}
  %words = load ptr, ptr %place
  %fallback = load ptr, ptr %words
  %gate.at = getelementptr i8, ptr %words, i64 {8 * _GATE}
  %gate = load ptr, ptr %gate.at
  %closed = load i64, ptr %gate
  %off.at = getelementptr i8, ptr %words, i64 {8 * _OFF}
  %off = load i64, ptr %off.at
  %named = ptrtoint ptr %names to i64
  %either = or i64 %closed, %off
  %any = or i64 %either, %named
  %stop = icmp ne i64 %any, 0
  br i1 %stop, label %slow, label %fast
fast:
  %result = call ptr @{name}_checked(ptr %args, i64 %count, ptr null, ptr %fallback, ptr %words)
  ret ptr %result
slow:
  %vectorcall = load ptr, {symbol(_FIELDS.index("vectorcall"))}
  %other = call ptr %vectorcall(ptr %fallback, ptr %args, i64 %count, ptr %names)
  ret ptr %other
}}"""


_GATE, _OFF, _SINGLE, _HITS = range(1, 5)
"""Words of a `Front`, after the address of its fallback."""


@final
class Front(np.ndarray[tuple[int], np.dtype[np.int64]]):
    """The state of a builtin function that takes the place of a jitted one; its code reads the
    words of this array.

    Attributes:
        kept: the objects that the words and the code refer to.
    """

    kept: tuple[object, ...]

    @property
    def hits(self) -> int:
        """Number of calls whose results machine code computed."""
        return int(self[_HITS])

    def close(self) -> None:
        """Let the fallback take all further calls."""
        self[_OFF] = 1

    def forget(self) -> None:
        """Count hits from 0 on."""
        self[_HITS] = 0


def _checked_array(
    value: Callable[[str], str],
    field: Callable[[str, int, str], str],
    need: Callable[[str], None],
    symbol: Callable[[str | int], str],
    x: str,
    kind: str,
    array_type: str,
    dtype: DType,
    shape: Sequence[int],
    where: Layout,
) -> str:
    """Write the checks of an array; returns the pointer to its elements."""
    need(value(f"icmp eq ptr {kind}, {array_type}"))
    descr = field(x, where.descr, "ptr")
    need(value(f"icmp eq ptr {descr}, {symbol(_place(dtype))}"))
    need(value(f"icmp eq i32 {field(x, where.ndim, 'i32')}, {len(shape)}"))
    flags = value(f"and i32 {field(x, where.flags, 'i32')}, 257")
    need(value(f"icmp eq i32 {flags}, 257"))
    if shape:
        dims = field(x, where.dims, "ptr")
        for k, size in enumerate(shape):
            need(value(f"icmp eq i64 {field(dims, 8 * k, 'i64')}, {size}"))
    return field(x, where.data, "ptr")


_METHODS: list[_Method] = []
"""The descriptions of all builtin functions. They stay: such a function reads its own where it is
freed, when the garbage collector may have freed its owner."""


def _builtin(method: _Method, owner: object) -> Callable[..., Any]:
    """Return a builtin function, which holds its owner."""
    _METHODS.append(method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = make(ctypes.addressof(method), owner, None)
    return function


@final
class NativeFunction:
    """A program as machine code.

    Args:
        function: the program in loop IR.
        plain: makes NumPy's form of the program, when it is first needed; None to return None in its
            place.
        is_exact: True to run NumPy's form on arrays that are not in C order, since its sums may be in
            another order; and where errors raise: machine code does not compute what no result
            depends on, so it does not report all.

    Attributes:
        call: the function that Python calls.
        call_unlocked: the function of the address of pointers to arguments, results and
            ``temporary`` bytes, which returns a status; without Python's lock.
        fallbacks: how many calls ran NumPy's form.
    """

    def __init__(
        self, function: Function, plain: Callable[[], Compiled] | None, *, is_exact: bool = False
    ) -> None:
        self._function, self._is_exact = function, is_exact
        self._make_plain = plain
        self._plain: Compiled | None = None
        self.fallbacks = 0
        self._has_angles = any(type(s) is Let and s.op in OF_ANGLES for s in walk(function.body))
        name = "functrace"
        code = object_cache.code_of(module_text(function, name, is_exact))
        self._engine, (setup, call, entry, front) = llvm.load(
            code, (f"{name}_setup", f"{name}_call", f"{name}_entry", f"{name}_front")
        )
        self._call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)
        self.call_unlocked = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)
        self.temporary = workspace(function)[1]
        self._table = (ctypes.c_void_p * _COUNT)(
            *symbols(), id(self._fallback_method()), None, id(float), *objects()
        )
        self._setup_at = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(setup)
        constants = [buffer.value for buffer in passed_constants(function)]
        self._constants = (ctypes.c_void_p * len(constants))(
            *[value.ctypes.data for value in constants if value is not None]
        )
        # (programs without products by BLAS do not need them)
        self._gemm = (ctypes.c_void_p * 2)(routine_address("dgemm"), routine_address("sgemm"))
        self._setup()
        if layout() is None:
            self.call: Any = self._fallback
        else:
            self._method = _Method(b"native", entry, _FASTCALL, None)
            self._front = _Method(b"native", front, _FASTCALL | _KEYWORDS, None)
            # (the builtin holds this object, whose table and code it uses)
            self.call = _builtin(self._method, self)

    def front(
        self,
        fallback: Callable[..., object],
        gate: np.ndarray[Any, np.dtype[np.int64]],
        is_single: bool,
    ) -> tuple[Callable[..., object], Front] | None:
        """Return a function that may be called in the place of a jitted one, and its state.

        It runs machine code if all arguments are positional, and arrays (not of zero axes) or
        floats as the program's. It returns None without a known layout of arrays.

        Args:
            fallback: called for all other arguments, and if the machine code fails.
            gate: one integer; while it is not zero, the fallback is called.
            is_single: True to return the only result, not a tuple of results.
        """
        if layout() is None:
            return None
        state = np.zeros(5, np.int64).view(Front)
        state.kept = (self, fallback, gate)
        state[:] = id(fallback), gate.ctypes.data, 0, is_single, 0
        return _builtin(self._front, state), state

    def _setup(self) -> None:
        """Copy the addresses that the code uses into its module."""
        self._setup_at(*map(ctypes.addressof, (self._table, self._gemm, self._constants)))

    def _fallback_method(self) -> Any:
        import weakref

        owner = weakref.ref(self)

        def fallback(*arguments: object) -> tuple[Any, ...] | None:
            native = owner()
            assert native is not None  # the builtin holds it
            return native._fallback(*arguments)

        self._kept = fallback
        return fallback

    def _run_plain(self, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run NumPy's form, if there is one."""
        if self._make_plain is None:
            return None
        if self._plain is None:
            self._plain = self._make_plain()
        return tuple(run_compiled(self._plain, arguments))

    def _fallback(self, *arguments: object) -> tuple[Any, ...] | None:
        """Run with arguments that the entry does not take, or NumPy's form of the program."""
        settings = np.geterr()
        if self._table[_DISABLED] or settings["under"] != "ignore":
            return self._run_plain(arguments)
        if self._is_exact and "raise" in settings.values():
            return self._run_plain(arguments)
        given = self._arranged(arguments)
        if given is None:
            return self._run_plain(arguments)
        if layout() is not None:
            if any(x is not y for x, y in zip(given, arguments, strict=True)):
                return self.call(*given)
            if all(settings[kind] != "ignore" for kind in ("divide", "over", "invalid")):
                return self._by_numpy(arguments)
        results = self.run(given)
        return self._by_numpy(arguments) if results is None else results

    def run(self, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run machine code through ctypes, as NumPy's settings for errors say.

        Returns:
            the results, or ``None`` if NumPy's form has to run.
        """
        arrays = [np.ascontiguousarray(x) for x in arguments]
        outputs = [np.empty(shape, buffer.dtype) for buffer, shape in self._function.results]
        work = np.empty(self.temporary + 64, np.uint8)
        start = -(-work.ctypes.data // 64) * 64
        pointers = (ctypes.c_void_p * (len(arrays) + len(outputs) + 1))(
            *[x.ctypes.data for x in (*arrays, *outputs)], start
        )
        status = self._call(ctypes.addressof(pointers))
        if status and not self.is_ignored(status):
            return None
        return tuple([x if x.ndim else x[()] for x in outputs])

    def is_ignored(self, status: int) -> bool:
        """Return True if a status says floating-point flags only, NumPy's settings ignore them all,
        and results with flags are NumPy's.
        """
        flags = status >> 8
        if status & 0xFF != FLAGGED:
            return False
        if flags & _INVALID and self._has_angles:
            return False
        settings = np.geterr()
        return all(settings[name] == "ignore" for bit, name in _NAMES.items() if flags & bit)  # type: ignore[literal-required]

    def _by_numpy(self, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run NumPy's form after machine code has failed; from now on at once, if that is often."""
        self.fallbacks += 1
        if self.fallbacks == PATIENCE:
            self._table[_DISABLED] = 1
            self._setup()
        return self._run_plain(arguments)

    def _arranged(self, arguments: Sequence[Any]) -> list[Any] | None:
        """Return the arguments as the entry takes them; ``None`` if they are other arrays than the
        program's.
        """
        if len(arguments) != len(self._function.arguments):
            return None
        found: list[Any] = []
        for x, (buffer, shape) in zip(arguments, self._function.arguments, strict=True):
            dtype = np.dtype(buffer.dtype.char)
            if (type(x) is float and dtype == np.float64) or (type(x) is int and dtype == np.int64):
                x = dtype.type(x)
            if np.shape(x) != shape or getattr(x, "dtype", None) != dtype:
                return None
            if not shape:
                found.append(x if type(x) in (dtype.type, np.ndarray) else np.asarray(x, dtype)[()])
            elif (
                type(x) is np.ndarray
                and x.dtype is dtype
                and x.flags.c_contiguous
                and x.flags.aligned
            ):
                found.append(x)
            elif self._is_exact and len(shape) > 1 and not np.asarray(x).flags.c_contiguous:
                return None
            else:
                found.append(np.require(np.asarray(x, dtype), requirements=("C", "A")))
        return found


_INVALID: Final = 1
_NAMES = {1: "invalid", 4: "divide", 8: "over"} if _is_x86() else {1: "invalid", 2: "divide", 4: "over"}  # fmt: skip
