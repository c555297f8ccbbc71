"""The direction of imports: a package imports only those of lower layers, inside functions too;
importing functrace is fast.

Layers, lowest first. Imports inside one package are free. ``functrace/__init__.py`` may import all
packages.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "functrace"
BASE = {
    "caches", "distribution", "errors", "keys", "lazy", "locks", "names", "phases", "saving", "source", "specialize",
    "threads", "tree", "typing",
}  # fmt: skip
LAYERS = [
    {"base"}, {"ir"}, {"tracing"}, {"ops"}, {"numpy"}, {"transforms"}, {"control"}, {"passes"},
    {"diagnostics"}, {"executor"}, {"native", "xla"}, {"api", "distributed"},
    {"scipy", "torch"}, {"compat"},
]  # fmt: skip
API_FILES = {
    "cache",
    "custom_derivatives",
    "testing",
    "debug",
    "nn",
    "optim",
    "viz",
    "random",
    "policies",
    "stages",
}
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
HEAVY = (
    "scipy",
    "jax",
    "torch",
    "sklearn",
    "matplotlib",
    "autograd",
    "pytest",
    "hypothesis",
    "pandas",
    "tqdm",
)


def package_of(module: str) -> str:
    """The package of a dotted name below ``functrace``."""
    first = module.split(".")[1]
    if first in BASE:
        return "base"
    return "api" if first in API_FILES else first


@cache
def statements_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all statements of a file, without their expressions."""
    found: list[ast.AST] = []
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        found.append(node)
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, name, ())
            left.extend(inner if isinstance(inner, list) else ())
    return tuple(found)


def imports_in(node: ast.AST) -> set[ast.AST]:
    """Return the imports in a statement."""
    return {n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)}


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Every import of a functrace module in a file, wherever it stands: line and dotted name."""
    package = ["functrace", *path.relative_to(PACKAGE).parts[:-1]]
    for node in statements_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "functrace":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "functrace":
                for alias in node.names:
                    yield node.lineno, f"functrace.{alias.name}"
            elif module.split(".")[0] == "functrace":
                yield node.lineno, module


@cache
def type_checking_lines(path: Path) -> frozenset[int]:
    """The lines that stand under ``if TYPE_CHECKING:``, which never run."""
    lines: set[int] = set()
    for node in statements_of(path):
        if (
            isinstance(node, ast.If)
            and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING"
        ):
            lines.update(range(node.body[0].lineno, (node.body[-1].end_lineno or node.lineno) + 1))
    return frozenset(lines)


def test_imports_point_downwards() -> None:
    """In one test: each process would parse all files again."""
    wrong = [line for path in FILES for line in wrong_imports(path)]
    assert not wrong, "\n".join(wrong)


def wrong_imports(path: Path) -> Iterator[str]:
    """Yield the imports of a file that its layer does not allow."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    own = package_of(".".join(["functrace", *parts]))
    where = "/".join(parts) + ".py"
    if own not in LAYER:
        yield f"{where} stands in a package that has no layer: name it in LAYERS"
        return
    for line, module in imports_of(path):
        if module == "functrace":
            yield f"{where}:{line} imports functrace as a whole, all layers at once"
            continue
        if line in type_checking_lines(path):
            continue
        other = package_of(module)
        if other not in LAYER:
            yield f"{where}:{line} imports {module}, which is in no package"
        elif other != own and LAYER[other] >= LAYER[own]:
            yield (
                f"{where}:{line} (package {own}) imports {module} (package {other}), which is not "
                "below it"
            )


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(["functrace", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
        ".__init__"
    )


def test_no_file_imports_in_a_circle() -> None:
    """Inside packages and inside functions neither: whatever a file uses can be read before it.

    The exception is `Program`, whose methods import the forms that they stand for; see the note in
    ir/program.py.
    """
    modules = {module_of(path) for path in FILES}
    graph: dict[str, set[str]] = {}
    for path in FILES:
        nodes = statements_of(path)
        left_out: list[ast.AST] = [
            n for n in nodes if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)
        ]
        if path == PACKAGE / "ir" / "program.py":
            left_out.extend(n for n in nodes if isinstance(n, ast.FunctionDef))
        never_run = {inner for node in left_out for inner in imports_in(node)}
        named = graph[module_of(path)] = set()
        for node in nodes:
            if isinstance(node, ast.Import) and node not in never_run:
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node not in never_run:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                named.update(parts & modules or {node.module})
        named.intersection_update(modules - {module_of(path)})
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_import_is_light() -> None:
    code = "import sys, functrace; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    loaded = set(found.stdout.split())
    assert "functrace" in loaded
    assert not loaded.intersection(HEAVY)


def test_rarely_needed_modules_are_imported_lazily() -> None:
    code = (
        "import sys, numpy as np, functrace as ft; "
        "later = lambda: ' '.join(sorted({'optree', 'functrace.executor.plan.planner', 'json'} & {*sys.modules})) or '-'; "
        "before = later(); ft.grad(np.sum)(np.ones(2)); between = later(); ft.jit(np.sin)(np.ones(2)); "
        "print(before, between, later(), ft.tree.PyTreeSpec.__module__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert found.stdout.split() == ["-", "-", "functrace.executor.plan.planner", "optree", "optree"]


def test_the_shim_is_imported_lazily() -> None:
    code = (
        "import sys, functrace as ft; before = 'functrace.torch' in sys.modules; "
        "print(before, ft.torch is sys.modules['functrace.torch'], hasattr(ft, 'no_such_name'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert found.stdout.split() == ["False", "True", "False"]
