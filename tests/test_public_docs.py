"""The docstring of every public name stands alone: what it does, Args, Returns, Raises, and an
example that runs.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import functrace
from functrace import errors
from functrace.ir.primitive import RuleMarker
from tests.test_docstrings import EXAMPLES

FULL = [
    "functrace", "functrace.compat.autograd", "functrace.compat.autoray", "functrace.compat.pot",
    "functrace.compat.tensorly", "functrace.custom_derivatives", "functrace.debug", "functrace.distributed", "functrace.ir",
    "functrace.nn", "functrace.optim",
    "functrace.passes", "functrace.policies", "functrace.random", "functrace.scipy.fft",
    "functrace.scipy.integrate",
    "functrace.scipy.interpolate", "functrace.scipy.linalg", "functrace.scipy.ndimage",
    "functrace.scipy.optimize",
    "functrace.scipy.signal", "functrace.scipy.sparse", "functrace.scipy.sparse.linalg",
    "functrace.scipy.spatial", "functrace.scipy.spatial.distance", "functrace.scipy.special",
    "functrace.scipy.stats", "functrace.stages", "functrace.testing", "functrace.transforms",
    "functrace.tree",
]  # fmt: skip
"""Namespaces whose docstrings are checked section by section."""

ROWS = ["functrace.errors", "functrace.numpy", "functrace.torch"]
"""Namespaces where one line per name is enough: errors, and functions that NumPy and PyTorch
document.
"""

FOLLOWING = "functrace.scipy."
"""Names that follow SciPy, whose methods it documents."""

EXEMPT: dict[tuple[str, str], str] = {
    (f"functrace.scipy.linalg.{name}", "Example"): "SciPy's own on plain values; traced ones raise"
    for name in ("funm", "hessenberg", "ldl", "null_space", "orth", "schur")
}
"""Sections that a public name does without, with the reason."""

SECTIONS = re.compile(r"^(Args|Returns|Raises|Example|Cost|Source|Yields|Attributes):[ ]*(.*)$")
REFERENCE = re.compile(
    r"\b(as for|as|those of|that of|see) `(?!`)[\w.]+`|\bas ``[\w.]+`` (has|takes) (it|them)"
)
RIDDLE = re.compile(r"^(What|Whether|Of|How|So|Those|That|As|Which|Where|Who|Whose|When)\b")


def _own(namespace: str) -> Iterator[tuple[str, Any]]:
    """The public callables of a namespace that functrace wrote itself, by name."""
    module = importlib.import_module(namespace)
    names = getattr(module, "__all__", None) or dir(module)
    for name in sorted(names):
        found = getattr(module, name, None)
        if name.startswith("_") or not callable(found) or isinstance(found, RuleMarker):
            continue
        if (getattr(found, "__module__", None) or "").startswith("functrace"):
            yield f"{namespace}.{name}", found


def _of(namespace: str, name: str) -> Any:
    """A name of a module; functions may hide modules of the same name in their package."""
    importlib.import_module(namespace)
    return getattr(sys.modules[namespace], name)


PUBLIC: dict[str, Any] = {}
for _namespace in FULL:
    for _name, _found in _own(_namespace):
        if not any(_found is other for other in PUBLIC.values()):
            PUBLIC[_name] = _found

TORCH = {
    "autograd": "Function backward enable_grad grad gradcheck gradgradcheck inference_mode is_grad_enabled no_grad "
    "set_detect_anomaly set_grad_enabled set_multithreading_enabled",
    "autograd.forward_ad": "dual_level enter_dual_level exit_dual_level make_dual unpack_dual",
    "autograd.function": "NestedIOFunction once_differentiable",
    "autograd.functional": "hessian hvp jacobian jvp vhp vjp",
    "autograd.graph": "allow_mutation_on_saved_tensors disable_saved_tensors_hooks get_gradient_edge increment_version "
    "register_multi_grad_hook save_compressed save_on_cpu save_on_disk saved_tensors_hooks GradientEdge Node",
    "func": "functional_call grad grad_and_value hessian jacfwd jacrev jvp linearize stack_module_state vjp vmap",
    "utils.checkpoint": "checkpoint checkpoint_sequential create_selective_checkpoint_contexts noop_context_fn "
    "set_checkpoint_debug_enabled set_checkpoint_early_stop",
}
"""The functions of functrace.torch that are more than rows: derivatives, graphs, hooks,
checkpoints.
"""
PUBLIC["functrace.numpy.lift"] = _of("functrace.numpy", "lift")
PUBLIC["functrace.torch.check_function"] = _of("functrace.torch", "check_function")
for _namespace, _names in TORCH.items():
    for _name in _names.split():
        PUBLIC[f"functrace.torch.{_namespace}.{_name}"] = _of(
            f"functrace.torch.{_namespace}", _name
        )

LINES = {name: found for namespace in ROWS for name, found in _own(namespace)}


def sections(doc: str) -> dict[str, str]:
    """Split a docstring at its headings; the text above the first one is under the name "head"."""
    found = {"head": ""}
    current = "head"
    for line in inspect.cleandoc(doc).splitlines():
        heading = SECTIONS.match(line)
        if heading:
            current = heading[1]
            found[current] = heading[2]
            continue
        if line[:1].strip():  # a paragraph after a section
            current = "head"
        found[current] += "\n" + line
    return {name: textwrap.dedent(text).strip("\n") for name, text in found.items()}


def documented(args: str) -> set[str]:
    """The parameters that a section names: ``x:``, ``x, y:``, ``*args, **kwargs:``."""
    found = re.findall(r"^((?:\*{0,2}\w+, )*\*{0,2}\w+):", args, re.M)
    return {name.lstrip("*") for group in found for name in group.split(", ")}


def parameters(obj: Any) -> list[str]:
    """The names of an object's parameters."""
    if inspect.isclass(obj) and issubclass(obj, BaseException):
        return []
    try:
        signature = inspect.signature(obj)
    except (TypeError, ValueError):
        return []
    names = [name for name in signature.parameters if not name.startswith("_")]
    inherited = (
        inspect.isclass(obj) and obj.__init__ is object.__init__ and obj.__new__ is object.__new__
    )
    return (
        [] if inherited or getattr(obj, "_is_protocol", False) or inspect.isabstract(obj) else names
    )


def returns_something(obj: Any) -> bool:
    """Return True if a function is annotated to return a value."""
    if inspect.isclass(obj):
        return False
    try:
        found = inspect.signature(obj).return_annotation
    except (TypeError, ValueError):
        return True
    return found not in (None, "None", "NoReturn")


@functools.cache
def _functions(module: str) -> dict[str, ast.AST]:
    """The functions and classes of a module, by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    kinds = ast.FunctionDef, ast.ClassDef
    return {node.name: node for node in tree.body if isinstance(node, kinds)}


def raised(obj: Any, depth: int = 2) -> set[str]:
    """The error classes of functrace that a function raises, itself or in private functions of its
    module.
    """
    module, name = obj.__module__, getattr(obj, "__qualname__", "")
    functions = _functions(module) if module in sys.modules else {}
    found: set[str] = set()
    nodes, done = [name], set()
    for _ in range(depth):
        nodes, now = [], [n for n in nodes if n in functions and n not in done]
        done.update(now)
        for node in (part for n in now for part in ast.walk(functions[n])):
            if (
                isinstance(node, ast.Raise)
                and isinstance(node.exc, ast.Call)
                and isinstance(node.exc.func, ast.Name)
            ):
                found.add(node.exc.func.id)
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id.startswith("_")
            ):
                nodes.append(node.func.id)
    return {name for name in found if hasattr(errors, name)}


def violations(obj: Any) -> list[str]:
    """Everything that the docstring of a public callable lacks."""
    doc = obj.__doc__ or ""
    if not doc.strip():
        return ["no docstring"]
    found = []
    parts = sections(doc)
    first = parts["head"].strip().splitlines()[0] if parts["head"].strip() else ""
    if RIDDLE.match(first) or not first:
        found.append(f"first line: {first!r} is neither an imperative nor a noun phrase")
    missing = set(parameters(obj)) - documented(parts.get("Args", ""))
    if missing:
        found.append(f"Args: nothing about {', '.join(sorted(missing))}")
    extra = documented(parts.get("Args", "")) - set(parameters(obj))
    if extra and not inspect.isclass(obj):
        found.append(f"Args: {', '.join(sorted(extra))} is no parameter")
    if returns_something(obj) and not parts.get("Returns", "").strip():
        found.append("Returns: is missing")
    raises = parts.get("Raises", "")
    unsaid = (
        sorted(name for name in raised(obj) if name not in raises)
        if inspect.isfunction(inspect.unwrap(obj))
        else []
    )
    if unsaid:
        found.append(f"Raises: nothing about {', '.join(unsaid)}")
    unknown = [c for line in re.findall(r"^([\w, ]+):", raises, re.M) for c in line.split(", ")]
    known = {*vars(errors), *vars(builtins), *vars(sys.modules[obj.__module__])}
    known |= {"CheckpointError", "GradcheckError", "LinAlgError"}
    unknown = [c for c in unknown if c not in known]
    if unknown:
        found.append(f"Raises: {', '.join(unknown)} is no error class")
    if all(
        doctest.SKIP in example.options for example in doctest.DocTestParser().get_examples(doc)
    ):
        found.append("Example: is missing")
    for name in ("head", "Args", "Returns", "Raises"):
        other = REFERENCE.search(parts.get(name, ""))
        if other and name != "head":
            found.append(f"{name}: refers to another docstring: {other[0]!r}")
    return found


def place(obj: Any) -> str:
    """The dotted name of the place where an object is defined."""
    return f"{obj.__module__}.{getattr(obj, '__qualname__', type(obj).__qualname__)}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_docstring_stands_alone(name: str) -> None:
    found = [v for v in violations(PUBLIC[name]) if (name, v.partition(":")[0]) not in EXEMPT]
    assert not found, "\n".join([name, *found])


def _methods() -> Iterator[tuple[str, Any]]:
    """The public methods and properties of classes that are not another library's."""
    for name, kind in PUBLIC.items():
        if inspect.isclass(kind) and not name.startswith((FOLLOWING, "functrace.torch.")):
            for key, found in vars(kind).items():
                method = (
                    getattr(found, "__func__", None)
                    or getattr(found, "fget", None)
                    or getattr(found, "func", found)
                )
                if inspect.isfunction(method) and not key.startswith("_"):
                    yield f"{name}.{key}", method


METHODS = dict(_methods())


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_a_public_class_is_documented(name: str) -> None:
    doc = METHODS[name].__doc__ or ""
    first = doc.strip().partition("\n")[0]
    assert first and not RIDDLE.match(first), (
        f"{name}: {first!r} is neither an imperative nor a noun phrase"
    )
    if not name.startswith(
        "functrace.ir.Builder."
    ):  # a writer of tapes, for passes: its methods have a line each
        missing = (
            {*parameters(METHODS[name])}
            - {"self", "cls"}
            - documented(sections(doc).get("Args", ""))
        )
        assert not missing, f"{name}: nothing about {', '.join(sorted(missing))}"


@pytest.mark.parametrize("name", [name for name in LINES if name not in PUBLIC])
def test_a_function_of_another_library_has_a_summary_line(name: str) -> None:
    first = (LINES[name].__doc__ or "").strip().partition("\n")[0]
    assert first, f"{name} has no docstring"
    assert not RIDDLE.match(first), f"{name}: {first!r} is neither an imperative nor a noun phrase"


OTHERS = [name for name, obj in PUBLIC.items() if place(obj) not in EXAMPLES]


@pytest.mark.parametrize("name", OTHERS)
def test_an_example_that_no_module_lists_runs(name: str) -> None:
    """Functions that are made by a factory are not found by `doctest` in their module."""
    doc = PUBLIC[name].__doc__ or ""
    test = doctest.DocTestParser().get_doctest(doc, {}, name, None, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
        test, out=report.append
    )
    assert not result.failed, "".join(report)


# -- the check itself ------------------------------------------------------------------------------


def complete(x: float, *args: float) -> float:
    """Add numbers.

    Args:
        x: the first number.
        *args: the others.

    Returns:
        their sum.

    Raises:
        ShapeError: never.

    Example:
        >>> 1 + 1
        2
    """
    return _checked(x) + sum(args)


def _checked(x: float) -> float:
    if x != x:
        raise errors.ShapeError("not a number")
    return x


def test_a_complete_docstring_passes() -> None:
    assert violations(complete) == []


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("Add numbers.", "What adds numbers.", "first line"),
        ("Add numbers.", "Whether numbers add up.", "first line"),
        ("    x: the first number.\n", "", "Args: nothing about x"),
        ("    *args: the others.\n", "", "Args: nothing about args"),
        ("*args: the others.", "*args, y: the others.", "Args: y is no parameter"),
        ("the first number.", "as for `grad`.", "Args: refers"),
        ("their sum.", "see `grad`.", "Returns: refers"),
        ("Returns:\n    their sum.\n", "", "Returns: is missing"),
        ("ShapeError: never.", "NoError: never.", "Raises: NoError is no error class"),
        ("    >>> 1 + 1\n    2", "    1 + 1", "Example: is missing"),
    ],
)
def test_an_incomplete_docstring_fails(before: str, after: str, kind: str) -> None:
    def changed(x: float, *args: float) -> float:
        return x

    text = inspect.getdoc(complete)
    assert text is not None and before in text
    changed.__doc__ = text.replace(before, after)
    found = violations(changed)
    assert [v for v in found if v.startswith(kind)], found


def test_an_error_that_is_raised_is_documented() -> None:
    assert "ArgumentError" in raised(functrace.jit)
    assert "TreeError" in raised(functrace.scan), "raised by a private function that it calls"


def test_no_exemption_is_out_of_date() -> None:
    for name, section in EXEMPT:
        assert [v for v in violations(PUBLIC[name]) if v.startswith(section)], (
            f"{name} has {section}"
        )
