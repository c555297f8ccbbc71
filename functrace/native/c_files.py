"""C files of a program: a source, a header that documents the arguments, and a program that tests it.

Layer: 7.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np

from functrace.errors import FunctraceError
from functrace.ir.program import Program
from functrace.native.c_text import WIDTH, Printer, kernels_text
from functrace.native.c_words import RESERVED, number_text, type_name
from functrace.native.loop_ir import Buffer, Function, Load, MatrixProduct, walk

ON_STACK: Final = 4096
"""Bytes up to which a temporary is a local array."""
MOST_ON_STACK: Final = 16 * 1024
"""Bytes of all local arrays; other temporaries are in the workspace."""
LONGEST_TEXT: Final = 60
"""Lines up to which the program in NumPy is a comment of the source."""

STATUSES: Final = """\
0, or else a status; results are then not to be used:
  1: a matrix is singular, an index is out of range, a loop has taken its largest number of steps,
     or another condition of the function does not hold;
  3: a number does not fit into an integer type.
Nothing else is an error: a division by zero gives an infinity or NaN, as in NumPy.
"""


@final
class Parameter(NamedTuple):
    """A parameter of a C function.

    Args:
        buffer: its memory in the loop IR.
        name: its name in C.
        shape: of the array.
        is_result: True for a result.
    """

    buffer: Buffer
    name: str
    shape: tuple[int, ...]
    is_result: bool

    @property
    def is_by_value(self) -> bool:
        """True for a real argument without axes: it is passed by value."""
        return not self.shape and not self.is_result and self.buffer.dtype.kind != "c"

    @property
    def size(self) -> int:
        """Number of elements in C."""
        return _size(self.buffer)

    def declaration(self, qualifier: str = "") -> str:
        """Return its declaration, with a qualifier of its pointer."""
        kind = type_name(self.buffer.dtype)
        if self.is_by_value:
            return f"{kind} {self.name}"
        return f"{'' if self.is_result else 'const '}{kind} *{qualifier}{self.name}"


@final
class CFunction:
    """A function in C.

    Args:
        function: the function in loop IR.
        name: its name.
        argument_names: names of its arguments, as the user wrote them.
        program: the program, for comments.

    Attributes:
        name: its name.
        parameters: its parameters, results last.
        workspace: temporaries that are members of the workspace, by member name.

    Raises:
        NoNativeForm: if an operation has no form in C.
    """

    def __init__(
        self, function: Function, name: str, argument_names: Sequence[str | None], program: Program
    ) -> None:
        self.name, self._program = name, program
        taken = {name, f"{name}_workspace"}
        self.parameters = [
            Parameter(buffer, _free(wanted or "x", taken), shape, False)
            for (buffer, shape), wanted in zip(function.arguments, argument_names, strict=True)
        ]
        count = len(function.results)
        for k, (buffer, shape) in enumerate(function.results):
            wanted = "result" if count == 1 else f"result{k}"
            self.parameters.append(Parameter(buffer, _free(wanted, taken), shape, True))
        names = {p.buffer.name: p.name for p in self.parameters}
        self.workspace: dict[str, Buffer] = {}
        local: list[Buffer] = []
        self._tables: list[Buffer] = []
        left = MOST_ON_STACK
        for buffer in function.buffers:
            if buffer.role == "constant":
                names[buffer.name] = _free("table", taken, number=True)
                self._tables.append(buffer)
            elif buffer.role == "temporary":
                member = _free("t", taken, number=True)
                size = buffer.size * buffer.dtype.itemsize
                if size > min(ON_STACK, left):
                    self.workspace[member] = buffer
                    names[buffer.name] = f"work->{member}"
                else:
                    left -= size
                    local.append(buffer)
                    names[buffer.name] = member
        self._names = names
        self._printer = Printer(
            names, taken, [p.buffer.name for p in self.parameters if p.is_by_value]
        )
        head: list[str] = []
        for kind in dict.fromkeys(type_name(b.dtype) for b in local):
            arrays = [f"{names[b.name]}[{_size(b)}]" for b in local if type_name(b.dtype) == kind]
            head += _wrapped(f"    {kind} ", arrays, ";").splitlines()
        self._printer.function(function.body)
        used = _buffers_read(function)
        head += [
            f"    (void){p.name};"
            for p in self.parameters
            if not p.is_result and p.buffer.name not in used
        ]
        self._body = [*head, *([""] if head else []), *self._printer.lines]

    def _signature(self, *, is_header: bool) -> str:
        qualifier = "" if is_header else "restrict "
        given = [p.declaration(qualifier) for p in self.parameters]
        if self.workspace:
            given.append(f"{self.name}_workspace *{qualifier}work")
        return _wrapped(f"int {self.name}(", given or ["void"], ")")

    def source(self) -> str:
        """Return the text of the source file."""
        name, program = self.name, self._program
        about = [
            f"{name}: compiled by functrace from a NumPy function. Needs nothing but the C library:",
            "",
            f"    cc -std=c99 -O2 -ffp-contract=off -c {name}.c          (link with -lm)",
            "",
            "Add -march=native, or -mfma: fma() is then one instruction. Results do not depend on it.",
        ]
        lines = _python_lines(program)
        if lines:
            about += ["", "The program in NumPy, with the lines that it was recorded from:", ""]
            about += [f"    {line}" for line in lines]
        tables = [
            f"static const {type_name(b.dtype)} {self._names[b.name]}[{_size(b)}] = "
            f"{_elements(b.value)};\n"
            for b in self._tables
        ]
        parts = [
            _comment(about),
            f'#include "{name}.h"\n\n#include <float.h>\n#include <math.h>\n#include <string.h>\n',
            _CHECKS,
            *kernels_text(self._printer),
            *tables,
            "\n".join([self._signature(is_header=False), "{", *self._body, "}", ""]),
        ]
        return "\n".join(parts)

    def header(self) -> str:
        """Return the text of the header."""
        guard = f"{self.name.upper()}_H"
        rows = [
            ("out" if p.is_result else "in", p.name, type_name(p.buffer.dtype), _shape_text(p))
            for p in self.parameters
        ]
        if self.workspace:
            rows.append(
                ("work", "work", f"{self.name}_workspace", "memory that the function writes over")
            )
        widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
        about = [
            "Arrays are in C order: the last index varies fastest. They must not overlap.",
            "",
            *[
                "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False))
                + f"  {row[3]}"
                for row in rows
            ],
            "",
            *("Returns " + STATUSES).splitlines(),
            "Several threads may call it at once, with results (and work) of their own.",
        ]
        struct = ""
        if self.workspace:
            members = [
                f"    {type_name(b.dtype)} {member}[{_size(b)}];"
                for member, b in self.workspace.items()
            ]
            total = sum(b.size * b.dtype.itemsize for b in self.workspace.values())
            struct = "\n".join(
                [
                    f"/* Memory for temporary arrays, {total} bytes; a static one will do. */",
                    "typedef struct {",
                    *members,
                    f"}} {self.name}_workspace;\n\n",
                ]
            )
        return (
            f"#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stdint.h>\n\n"
            '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
            f"{struct}{_comment(about)}{self._signature(is_header=True)};\n\n"
            "#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
        )

    def test_program(
        self,
        inputs: Sequence[np.ndarray[Any, Any]],
        expected: Sequence[np.ndarray[Any, Any]],
        tolerances: Sequence[float],
    ) -> str:
        """Return the text of a program that runs the function, and compares its results.

        Args:
            inputs: the arguments.
            expected: the results, computed by NumPy.
            tolerances: by result, how far elements may be off, as a part of the largest one.
        """
        given = [p for p in self.parameters if not p.is_result]
        results = [p for p in self.parameters if p.is_result]
        about = [
            f"Test of {self.name}: returns 0 if it finds the results that NumPy found. Run it with",
            "",
            f"    cc -std=c99 -O2 -ffp-contract=off {self.name}.c {self.name}_test.c -lm && ./a.out",
        ]
        lines: list[str] = []
        for p, value in zip(given, inputs, strict=True):
            kind = type_name(p.buffer.dtype)
            size = "" if p.is_by_value else f"[{p.size}]"
            text = number_text(value.item(), p.buffer.dtype) if p.is_by_value else _elements(value)
            lines.append(f"static const {kind} in_{p.name}{size} = {text};")
        for p, value in zip(results, expected, strict=True):
            size = f"[{p.size}]"
            kind = type_name(p.buffer.dtype)
            lines.append(f"static const {kind} expected_{p.name}{size} = {_elements(value)};")
            lines.append(f"static {kind} out_{p.name}{size};")
        if self.workspace:
            lines.append(f"static {self.name}_workspace work;")
        arguments = [f"{'out' if p.is_result else 'in'}_{p.name}" for p in self.parameters]
        call = _wrapped(
            f"    const int status = {self.name}(",
            [*arguments, *(["&work"] if self.workspace else [])],
            ");",
        )
        kinds = sorted({type_name(p.buffer.dtype) for p in results})
        compare = [_compare_text(kind) for kind in kinds]
        checks = [
            f'    failures += compare_{type_name(p.buffer.dtype)}("{p.name}", out_{p.name}, '
            f"expected_{p.name}, {p.size}{f', {tolerance:.0e}' if p.buffer.dtype.kind in 'fc' else ''});"
            for p, tolerance in zip(results, tolerances, strict=True)
        ]
        main = [
            "int main(void)",
            "{",
            call,
            '    if (status) {\n        printf("status %d\\n", status);\n        return 1;\n    }',
            "    int failures = 0;",
            *checks,
            f'    printf("{self.name}: %d numbers differ\\n", failures);',
            "    return failures != 0;",
            "}",
            "",
        ]
        head = f'#include "{self.name}.h"\n\n#include <math.h>\n#include <stdio.h>\n'
        return "\n".join([_comment(about), head, *lines, "", *compare, *main])


_CHECKS: Final = """\
#ifdef __FAST_MATH__
#error "compile without -ffast-math: infinities, NaN and rounding errors matter here"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "numbers must not have excess precision: compile with -msse2 -mfpmath=sse"
#endif
#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
"""


def _compare_text(kind: str) -> str:
    """Return the function that counts the elements of a type that differ."""
    text = _COMPARE_FLOATS if kind in ("double", "float") else _COMPARE
    return text.replace("TYPE", kind)


_COMPARE: Final = """\
static int compare_TYPE(const char *name, const TYPE *x, const TYPE *y, long n)
{
    int failures = 0;
    for (long i = 0; i < n; ++i) {
        if (x[i] == y[i]) continue;
        ++failures;
        printf("%s[%ld] = %.17g, expected %.17g\\n", name, i, (double)x[i], (double)y[i]);
    }
    return failures;
}
"""
_COMPARE_FLOATS: Final = """\
/* The tolerance is a part of the largest number: sums are in another order than NumPy's. */
static int compare_TYPE(const char *name, const TYPE *x, const TYPE *y, long n, double tolerance)
{
    double largest = 0;
    int failures = 0;
    for (long i = 0; i < n; ++i) {
        if (isfinite(y[i])) largest = fmax(largest, fabs((double)y[i]));
    }
    for (long i = 0; i < n; ++i) {
        if (x[i] == y[i] || fabs((double)x[i] - y[i]) <= tolerance * largest) continue;
        if (isnan(x[i]) && isnan(y[i])) continue;
        ++failures;
        printf("%s[%ld] = %.17g, expected %.17g\\n", name, i, (double)x[i], (double)y[i]);
    }
    return failures;
}
"""


def _size(buffer: Buffer) -> int:
    """Return the number of elements of an array in C: a complex number has two, and there is one at
    least.
    """
    return max(buffer.size, 1) * (2 if buffer.dtype.kind == "c" else 1)


def _buffers_read(function: Function) -> set[str]:
    """Return the names of the buffers that a function reads."""
    found: set[str] = set()
    for statement in walk(function.body):
        if type(statement) is Load:
            found.add(statement.buffer.name)
        elif type(statement) is MatrixProduct:
            found.update((statement.a[0].name, statement.b[0].name))
    return found


def _python_lines(program: Program) -> list[str]:
    """Return the lines of a short program in NumPy, without imports and large constants."""
    try:
        lines = program.as_python().splitlines()
    except FunctraceError:
        return []
    starts = [k for k, line in enumerate(lines) if line.startswith("def ")]
    for first in (starts[0], starts[-1]):
        if len(lines) - first <= LONGEST_TEXT and all(len(x) <= WIDTH for x in lines[first:]):
            return lines[first:]
    return []


def _free(wanted: str, taken: set[str], *, number: bool = False) -> str:
    """Return a name that is not taken, and take it."""
    base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)
    base = base.lstrip("_") or "x"
    base = f"x{base}" if base[0].isdigit() else base
    found, count = (f"{base}0" if number else base), 0
    while found in taken or found in RESERVED or found.startswith("ft_"):
        count += 1
        found = f"{base}{count}" if number else f"{base}_{count}"
    taken.add(found)
    return found


def _shape_text(p: Parameter) -> str:
    comma = "," if len(p.shape) == 1 else ""
    shape = f"shape ({', '.join(map(str, p.shape))}{comma})" if p.shape else "one number"
    if p.buffer.dtype.kind == "c":
        return f"{shape}, complex: real and imaginary part of each element"
    return "a number" if p.is_by_value else shape


def _comment(lines: Iterable[str]) -> str:
    kept = [line.replace("*/", "* /").replace("/*", "/ *").rstrip() for line in lines]
    return "\n".join(["/*", *[f" * {line}".rstrip() for line in kept], " */", ""])


def _elements(value: np.ndarray[Any, Any] | None) -> str:
    """Return the initializer of an array, in lines."""
    assert value is not None
    if value.dtype.kind == "c":
        value = np.ascontiguousarray(value).ravel().view(value.real.dtype)
    texts = [number_text(x, value.dtype) for x in value.ravel().tolist()] or ["0"]
    whole = "{" + ", ".join(texts) + "}"
    if len(whole) < WIDTH - 40:
        return whole
    body = textwrap.fill(", ".join(texts), WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "{\n" + body + "\n}"


def _wrapped(before: str, parts: Sequence[str], after: str) -> str:
    """Join arguments with commas, in lines."""
    whole = f"{before}{', '.join(parts)}{after}"
    if len(whole) <= WIDTH:
        return whole
    indent = " " * (len(before) - len(before.lstrip()) + 4)
    lines = [indent + parts[0]]
    for part in parts[1:]:
        lines[-1] += ","
        if len(lines[-1]) + len(part) + len(after) < WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(indent + part)
    return "\n".join([before.rstrip(), *lines]) + after
