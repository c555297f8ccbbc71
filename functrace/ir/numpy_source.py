"""A program as NumPy source that runs on its own and computes the same numbers.

Each equation becomes one line: the primitive's ``written`` template, a call of the NumPy function
that evaluates it, or a call of a helper defined above the function. Helpers are the primitives' own
``eval`` rules with their dependencies; annotations and docstrings are dropped, and names kept if
they are free. A sub-program becomes a function above its caller, and the ``written`` function of a
primitive with sub-programs spells the equation (`Spelling`).

Note [What a program may bring into source]
    A program can come from an untrusted text. Its names become ASCII identifiers (`ascii_name`)
    that are no keyword, builtin or module; its strings and numbers are spelled by their type, never
    by `str`; and its positions are printable (`functrace.source.printable`), so that a comment
    cannot end before its line does.

Layer: 0.
"""

from __future__ import annotations

import ast
import base64
import builtins
import dis
import functools
import inspect
import keyword
import math
import operator
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from functrace.errors import FunctraceError, ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import WRITTEN_AS, Primitive
from functrace.ir.program import Program
from functrace.ir.serial import array_bytes, constant_array, plain_number, without_repeats
from functrace.ir.text import inline_elements
from functrace.typing import Scalar

if TYPE_CHECKING:
    from types import EllipsisType

    from functrace.ir.aval import Constant
    from functrace.ir.program import Static
    from functrace.typing import Array

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
Spelling = Callable[[Sequence[str], Sequence[str]], list[str]]
"""Result of ``written(writer, operand avals, *params)`` for a primitive with sub-programs: a
function from the names of operands and results to lines of source.

``written`` first reserves the names of all functions and local variables that the lines need
(`SourceWriter.program`, `SourceWriter.expression`, `SourceWriter.local`), so that the program's variables avoid
them."""
_FIX = "give the primitive written=, a NumPy template such as 'np.sum({0}, axis={axes})'"


def program_source(program: Program, name: str | None = None) -> str:
    """Return NumPy source of a function that computes the program.

    Args:
        program: the program.
        name: the function's name; by default the program's.

    Raises:
        ProgramError: if a primitive's eval rule has no source that runs on its own, or a constant
            is a traced value.
    """
    writer = SourceWriter()
    function = writer.function(program, name or program.name)
    imports = ["import numpy as np", *sorted(writer.imports - {"import numpy as np"})]
    imports.sort(key=lambda line: line == "import numpy as np")
    blocks = ["\n".join(imports), *writer.blocks, function]
    return "\n\n\n".join(blocks) + "\n"


def ascii_name(name: str) -> str:
    """Return a name as an identifier in ASCII: ``θ`` as ``theta``, other letters by their
    numbers.
    """
    letters: list[str] = []
    for c in unicodedata.normalize("NFKD", re.sub(r"\W", "_", name.strip("<>"))):
        words = unicodedata.name(c, "").split()
        greek = words[:1] == ["GREEK"] and words[2:3] == ["LETTER"] and len(words) == 4
        if c.isascii():
            letters.append(c)
        elif not unicodedata.combining(c):
            letters.append(words[3].lower() if greek else f"u{ord(c):x}")
    found = "".join(letters)
    if keyword.iskeyword(found):
        found = {"lambda": "function"}.get(found, found + "_")
    return found if found.isidentifier() else f"_{found}"


_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "np"})
"""Names that generated source uses, and that the program's variables must not have."""
_MODULES = frozenset({*sys.stdlib_module_names, "numpy", "scipy"})
"""Modules that generated source may import under their own name."""


Expressed: TypeAlias = "Static | Array | list[Any] | set[Any] | frozenset[Any] | dict[Any, Any]"
"""Values spelled as expressions: params, and globals that functions refer to."""


class SourceWriter:
    """Collects imports, module-level constants and helpers under unique names."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.blocks: list[str] = []
        self.taken: set[str] = set(_RESERVED)
        self.helpers: dict[int, str] = {}
        self.aliases: dict[str, str] = {}
        self.kept: list[Any] = []
        self.locals: dict[str, str] = {}

    def local(self, wanted: str) -> str:
        """Return a name for a local variable of an equation's lines; always the same one."""
        if wanted not in self.locals:
            self.locals[wanted] = self.free(wanted)
        return self.locals[wanted]

    def free(self, wanted: str) -> str:
        """Reserve and return a free name of the module."""
        name, k = wanted, 1
        while name in self.taken or name in _MODULES:
            k += 1
            name = f"{wanted}_{k}"
        self.taken.add(name)
        return name

    def module(self, module: str) -> str:
        """Import a module of Python, NumPy or SciPy; return its name in expressions."""
        self.imports.add(f"import {module}")
        self.taken.add(module.partition(".")[0])
        return module

    # -- the program -----------------------------------------------------------------------------

    def function(self, program: Program, wanted: str) -> str:
        """Return the source of a program as a function."""
        name = self.free(ascii_name(wanted))
        # Reserve all module-level names before the variables, which avoid them.
        spelled = {k: self.spelling(program, k) for k, _ in program.schedule}
        large = {i: self.large_constant(program, i) for i in program.constant_values}
        names = self.variable_names(program)
        lines: list[str] = []
        used = {i for k, _ in program.schedule for i in program.ops[k][1]} | set(program.output_ids)
        for i, value in program.constant_values.items():
            if i in used:
                lines.append(f"{names[i]} = {large[i] or small_constant(value, names[i])}")
        for k, _ in program.schedule:
            _, operands, _ = program.ops[k]
            inputs = [names[i] if i >= 0 else number_source(program.literals[~i]) for i in operands]
            outputs = [names[k + j] for j in range(program.result_count(k))]
            source = program.source(k)
            comment = "" if source is None else f"  # {source.short}"
            first, *rest = spelled[k](inputs, outputs)
            lines += [first + comment, *rest]
        outputs = [names[i] for i in program.output_ids]
        lines.append("return " + (outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"))
        inputs = [f"{names[i]}: {program.avals[i]}" for i in program.input_ids]
        results = [str(program.avals[i]) for i in program.output_ids]
        shown = results[0] if len(results) == 1 else f"({', '.join(results)})"
        docstring = f'"""({", ".join(inputs)}) -> {shown}"""'
        body = textwrap.indent("\n".join([docstring, *lines]), "    ")
        return f"def {name}({', '.join(names[i] for i in program.input_ids)}):\n{body}"

    def spelling(self, program: Program, variable: int) -> Spelling:
        """Return the function that spells an equation, given its names."""
        primitive, operands, values = program.ops[variable]
        if callable(primitive.written):
            return primitive.written(self, tuple(map(program.spec, operands)), *values)
        evaluator = self.evaluator(primitive)
        params = self.params(program, variable)

        def spelled(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
            left = (
                f"({outputs[0]},)" if primitive.many and len(outputs) == 1 else ", ".join(outputs)
            )
            return [f"{left} = {written_call(primitive, evaluator, inputs, params)}"]

        return spelled

    def variable_names(self, program: Program) -> list[str]:
        """Return the listing's names in ASCII, with an underscore if the module uses the name."""
        listed = [str(var.name) for var in program.variables]
        used = {name for name in listed if name.isascii() and name not in self.taken}
        names: list[str] = []
        for name in listed:
            if name not in used:
                name = ascii_name(name)
                while name in self.taken or name in used:
                    name += "_"
                used.add(name)
            names.append(name)
        return names

    def large_constant(self, program: Program, variable: int) -> str | None:
        """Return the name of a constant that is too large for a line, defined at module level."""
        what = str(program.variables[variable].name)
        whole = constant_array(program.constant_values[variable], what)
        array = without_repeats(whole)
        is_small = inline_elements(array) is not None
        if array.shape != whole.shape:
            distinct = small_constant(array[()], what) if is_small else self.encoded(array, what)
            return f"np.broadcast_to({distinct}, {whole.shape})"
        return None if is_small else self.encoded(array, what)

    def encoded(self, array: Array, what: str) -> str:
        """Define an array at module level; return its name."""
        decode = f"{self.module('base64')}.b64decode"
        name = self.free(f"_{ascii_name(what)}_data")
        data = base64.b64encode(array_bytes(array)).decode("ascii")
        chunks = (
            "\n".join([f'    "{data[k : k + 100]}"' for k in range(0, len(data), 100)]) or '    ""'
        )
        dtype = array.dtype.newbyteorder("<").str
        self.blocks.append(
            f'{name} = np.frombuffer({decode}(\n{chunks}\n), "{dtype}").reshape({array.shape})'
        )
        return name if array.ndim else f"{name}[()]"

    # -- static parameters -------------------------------------------------------------------------

    def params(self, program: Program, variable: int) -> list[tuple[str, str, str]]:
        """Return for each param its name, and its source in templates and in helper calls."""
        primitive, _, params = program.ops[variable]
        found: list[tuple[str, str, str]] = []
        value: Static
        for name, value in zip(primitive.params, params, strict=True):
            in_call = self.expression(value, f"a param of {primitive.name}")
            in_template = in_call
            if isinstance(value, np.dtype):
                in_template = _dtype_source(value)
            elif f"[{{{name}}}]" in str(primitive.written) and isinstance(value, tuple):
                in_template = index_source(value)
            found.append((name, in_template, in_call))
        return found

    def expression(self, value: Expressed, what: str) -> str:
        """Return the source of a static value."""
        if isinstance(value, np.generic):
            value = plain_number(value)
        if isinstance(value, int | float | complex) and not isinstance(value, bool):
            return number_source(value)
        if value is None or isinstance(value, bool | bytes):
            return repr(value)
        if isinstance(value, str):
            return ascii(str(value))
        if value is ...:
            return "..."
        if isinstance(value, type):
            return self.callable_source(value, what)
        if type(value) is tuple:
            inner = [self.expression(v, what) for v in value]
            return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        if type(value) is list:
            return "[" + ", ".join(self.expression(v, what) for v in value) + "]"
        if type(value) is set or type(value) is frozenset:
            return f"{type(value).__name__}([{', '.join(self.expression(v, what) for v in sorted(value))}])"
        if type(value) is dict:
            return (
                "{"
                + ", ".join(
                    f"{self.expression(k, what)}: {self.expression(v, what)}"
                    for k, v in value.items()
                )
                + "}"
            )
        if isinstance(value, np.dtype):
            return f"np.dtype({_dtype_source(value)})"
        if isinstance(value, slice):
            return (
                "slice("
                + ", ".join(self.expression(v, what) for v in (value.start, value.stop, value.step))
                + ")"
            )
        if isinstance(value, np.ndarray):
            return small_constant(value, what)
        if isinstance(value, ShapeDtype):
            return f"np.empty({value.shape}, {_dtype_source(value.dtype)})"
        if isinstance(value, Program):
            return self.program(value)
        return self.callable_source(value, what)

    def program(self, program: Program, wanted: str = "program") -> str:
        """Write a sub-program as a function of the module; return its name.

        Args:
        program: the sub-program. The function returns its output, or a tuple of several.
        wanted: name of the function if the program has none of its own.
        """
        if id(program) not in self.helpers:
            source = self.function(program, wanted if program.name == "program" else program.name)
            self.helpers[id(program)] = source[len("def ") : source.index("(")]
            self.kept.append(program)
            self.blocks.append(source)
        return self.helpers[id(program)]

    def call(self, program: Program) -> Spelling:
        """Spell an operation that runs its sub-program once: call the function of `program`."""
        function = self.program(program)

        def lines(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
            return [
                f"{', '.join(outputs)} = {function}({', '.join(inputs)})" if outputs else "pass"
            ]

        return lines

    # -- functions ---------------------------------------------------------------------------------

    def evaluator(self, primitive: Primitive) -> str | None:
        """Return the call of a primitive's eval rule; ``None`` if it has a template."""
        if primitive.written is not None:
            return None
        try:
            return self.callable_source(
                primitive.eval, f"the eval rule of {primitive.name}", primitive.name
            )
        except RecursionError:
            raise ProgramError(
                f"the eval rule of {primitive.name} refers to itself in a closure", fix=_FIX
            ) from None

    def callable_source(self, function: Any, what: str, wanted: str = "helper") -> str:
        """Return an expression for a function, type or module; Python functions become helpers."""
        function = getattr(function, WRITTEN_AS, function)
        if isinstance(function, ModuleType):
            return self.module(function.__name__)
        library = self.library_name(function)
        if library is not None:
            return library
        if isinstance(function, functools.partial):
            partial = f"{self.module('functools')}.partial"
            parts = [
                self.callable_source(function.func, what),
                *[self.expression(v, what) for v in function.args],
            ]
            parts += [f"{k}={self.expression(v, what)}" for k, v in function.keywords.items()]
            return f"{partial}({', '.join(parts)})"
        wrapped = getattr(function, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            return self.callable_source(wrapped, what, wanted)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, np.ufunc):
            return f"{self.expression(owner, what)}.{function.__name__}"
        if inspect.isclass(function) and issubclass(function, FunctraceError):
            return self.error_class(function)
        if isinstance(function, FunctionType):
            if id(function) not in self.helpers:
                self.helper(function, what, wanted)
            return self.helpers[id(function)]
        raise ProgramError(
            f"{what} is a {type(function).__name__}, which has no NumPy source: {function!r}",
            fix=_FIX,
        )

    def library_name(self, function: object) -> str | None:
        """Return the dotted name of a function or type in NumPy, SciPy or Python itself."""
        name = getattr(function, "__name__", "")
        if getattr(builtins, name, None) is function:
            return name
        for module in (
            "numpy",
            "numpy.linalg",
            "numpy.fft",
            "scipy.special",
            "scipy.special._ufuncs",
            "scipy.linalg",
            "math",
        ):
            found = sys.modules.get(module)
            if found is not None and getattr(found, name, None) is function:
                return f"{module.replace('numpy', 'np') if module.startswith('numpy') else self.module(module)}.{name}"
        if isinstance(function, type | BuiltinFunctionType | FunctionType):
            module = str(getattr(function, "__module__", "")).partition(".")[0]
            if (
                module in sys.stdlib_module_names
                and getattr(sys.modules.get(function.__module__), name, None) is function
            ):
                return f"{self.module(function.__module__)}.{name}"
        return None

    def error_class(self, error: type[FunctraceError]) -> str:
        """Write a stand-in for an error class of functrace, with its builtin base class."""
        if id(error) not in self.helpers:
            bases = [
                b.__name__
                for b in error.__mro__
                if getattr(builtins, b.__name__, None) is b and b is not object
            ]
            self.helpers[id(error)] = name = self.free(error.__name__)
            self.blocks.append(
                f"class {name}({bases[0]}):\n    def __init__(self, what, **_tooltip):\n        "
                "super().__init__(what)"
            )
        return self.helpers[id(error)]

    def helper(self, function: FunctionType, what: str, wanted: str) -> None:
        """Write a Python function, after its dependencies."""
        tree = _function_tree(function, what)
        own = function.__name__ if function.__name__ != "<lambda>" else f"_{ascii_name(wanted)}"
        name = self.free(own)
        self.helpers[id(function)] = name
        self.kept.append(function)
        for node in ast.walk(tree):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if any(module.partition(".")[0] == __name__.partition(".")[0] for module in modules):
                raise ProgramError(
                    f"{what} imports {', '.join(modules)}, so it does not run on its own", fix=_FIX
                )
        renamed: dict[str, str] = {}
        for used in sorted(_global_names(function.__code__)):
            if used in function.__globals__:
                renamed[used] = self.reference(used, function.__globals__[used], what)
        closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        held = [f"{k}={self.expression(cell.cell_contents, what)}" for k, cell in closure.items()]
        tree.name = name if not held else own
        source = ast.unparse(_RenameModule(renamed).visit(tree))
        if held:
            maker = self.free(f"_make{name if name.startswith('_') else '_' + name}")
            lines = textwrap.indent("\n".join([source, "", f"return {own}"]), "    ")
            # Defaults are evaluated outside: a captured name may equal the helper's own name.
            source = f"def {maker}({', '.join(held)}):\n{lines}\n\n\n{name} = {maker}()"
        self.blocks.append(source)

    def reference(self, name: str, value: Any, what: str) -> str:
        """Return the name in the generated module for a global of a helper."""
        value = getattr(value, WRITTEN_AS, value)
        if isinstance(value, ModuleType):
            if value is np:
                return "np"
            module = value.__name__
            if module == name:
                return self.module(module)
            if module not in self.aliases:
                self.aliases[module] = self.free(name)
                self.imports.add(f"import {module} as {self.aliases[module]}")
            return self.aliases[module]
        if id(value) in self.helpers and any(value is kept for kept in self.kept):
            return self.helpers[id(value)]
        expression = self.expression(value, f"{name}, which {what} refers to,")
        if callable(value) or isinstance(value, bool | int | str) or expression.isidentifier():
            return expression
        self.kept.append(value)
        self.helpers[id(value)] = constant = self.free(name)
        self.blocks.append(f"{constant} = {expression}")
        return constant


class _RenameModule(ast.NodeTransformer):
    """Replaces the names of a helper's module by those of the generated module."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name that is read."""
        new = self.names.get(node.id, node.id)
        if new == node.id or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.parse(new, mode="eval").body, node)


class _StripAnnotations(ast.NodeTransformer):
    """Removes annotations and docstrings."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Drop a parameter's annotation."""
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """Replace an annotated assignment by a plain one."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Drop decorators, the annotation of the result and the docstring."""
        self.generic_visit(node)
        node.returns, node.decorator_list = None, []
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node


def _function_tree(function: FunctionType, what: str) -> ast.FunctionDef:
    """Return a function's syntax tree as a ``def``."""
    try:
        lines, _ = inspect.findsource(function)
        module = ast.parse("".join(lines))
    except (OSError, SyntaxError, TypeError):
        raise ProgramError(
            f"the source of {what} ({function.__name__}) is not at hand", fix=_FIX
        ) from None
    code = function.__code__
    found: list[ast.FunctionDef] = []
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if first == code.co_firstlineno:
                found.append(node)
        elif (
            isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and _is_body_of(node, code)
        ):
            body = ast.Return(node.body)
            found.append(
                ast.FunctionDef("helper", node.args, [body], [], None, None, lineno=1, col_offset=0)
            )
    if len(found) != 1:
        raise ProgramError(
            f"the source of {what} ({function.__name__}) cannot be told apart", fix=_FIX
        )
    return _StripAnnotations().visit(ast.fix_missing_locations(found[0]))


def _is_body_of(node: ast.Lambda, code: CodeType) -> bool:
    """Return True if a lambda's instructions span its body."""
    if node.lineno != code.co_firstlineno:
        return False
    places = [(a, c, b, d) for a, b, c, d in code.co_positions() if None not in (a, b, c, d) and d]
    start = min((a, c) for a, c, _, _ in places)
    end = max((b, d) for _, _, b, d in places)
    body = node.body
    return start == (body.lineno, body.col_offset) and end == (body.end_lineno, body.end_col_offset)


def _global_names(code: CodeType) -> set[str]:
    names = {str(i.argval) for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names


# -- expressions -----------------------------------------------------------------------------------


def written_call(
    primitive: Primitive,
    evaluator: str | None,
    inputs: Sequence[str],
    params: list[tuple[str, str, str]],
) -> str:
    """Return the expression of one equation: the filled template, or a call of the evaluator."""
    if evaluator is not None or not isinstance(primitive.written, str):
        return f"{evaluator}({', '.join([*inputs, *(in_call for _, _, in_call in params)])})"
    template = primitive.written
    by_name = {name: in_template for name, in_template, _ in params}

    def fill(match: re.Match[str]) -> str:
        word = match.group(1)
        if not word.isdigit():
            return by_name[word]
        value = inputs[int(word)]
        before, after = (
            template[: match.start()].rstrip()[-1:],
            template[match.end() :].lstrip()[:1],
        )
        alone = before in ("(", ",") and after in (")", ",")
        return value if alone or value.isidentifier() else f"({value})"

    return _PLACEHOLDER.sub(fill, template)


def number_source(value: Scalar) -> str:
    """Return a Python number as source; infinities and NaN by ``float(...)``."""
    if isinstance(value, bool):
        return repr(value)
    if isinstance(value, float):
        text = float.__repr__(value)
        return text if math.isfinite(value) else f'float("{text}")'
    if isinstance(value, complex):
        # repr is not source for these: 1-0j is 1+0j, and inf is a name.
        return f"complex({number_source(value.real)}, {number_source(value.imag)})"
    return int.__repr__(value)


def index_source(index: tuple[Any, ...]) -> str:
    """Return a static index as source between brackets: ``1:, ::-1, None``."""

    def bound(value: SupportsIndex | None) -> str:
        return "" if value is None else int.__repr__(operator.index(value))

    parts: list[str] = []
    k: tuple[SupportsIndex | None, ...] | SupportsIndex | EllipsisType | None
    for k in index:
        if isinstance(k, tuple):
            start, stop, step = map(bound, k)
            parts.append(f"{start}:{stop}" + (f":{step}" if step else ""))
        else:
            parts.append("..." if k is ... else bound(k) or "None")
    return ", ".join(parts) if parts else "()"


_NestedList: TypeAlias = "Scalar | np.generic | list[_NestedList]"


def small_constant(value: Constant, what: str) -> str:
    """Return a constant of few elements as source."""
    array = constant_array(value, what)
    kind = _dtype_source(array.dtype)

    def listed(values: _NestedList) -> str:
        return (
            "[" + ", ".join(map(listed, values)) + "]"
            if isinstance(values, list)
            else element(values)
        )

    def element(item: Scalar | np.generic) -> str:
        if type(item) is np.longdouble:
            return f'np.longdouble("{item!s}")'
        if type(item) is np.clongdouble:
            return number_source(complex(item))
        return number_source(item.item() if isinstance(item, np.generic) else item)

    if array.ndim == 0:
        return f"{kind}({element(array.item())})"
    if array.size == 0:
        return f"np.empty({array.shape}, {kind})"
    return f"np.array({listed(array.tolist())}, {kind})"


def _dtype_source(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "V":
        return f"np.dtype({dtype.name!r})"
    return "np.bool_" if dtype.kind == "b" else f"np.{dtype.type.__name__}"
