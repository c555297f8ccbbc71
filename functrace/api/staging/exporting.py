"""``export``: write a function as C or NumPy source that runs without functrace.

Layer: 8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from functrace.api.capture.arguments import function_name
from functrace.api.capture.programs import evaluate, trace
from functrace.errors import ArgumentError, UnsupportedFunctionError, entry
from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.tree import flatten


@entry
def export(
    f: Callable[..., Any],
    *examples: object,
    language: Literal["c", "numpy"] = "c",
    directory: str | os.PathLike[str] = ".",
    name: str | None = None,
) -> tuple[Path, ...]:
    """Write a function as source files that run without functrace, and without Python in C.

    The files of C99 are standalone: they need nothing but a compiler and ``libm``, allocate no
    memory, have fixed shapes, and may be called by several threads. The header documents the
    arguments. Elementary functions are those of the native backend, with its errors in units in
    the last place. A test program holds the examples and the results that NumPy finds.

    Args:
        f: a function of arrays (pytrees of them); derivatives such as ``grad(f)`` and
            ``jacfwd(f)`` too.
        examples: arguments of ``f``, arrays or `ShapeDtype`; each leaf becomes an argument, whose
            shape and dtype are fixed. With a `ShapeDtype` no test program is written.
        language: ``"c"``, or ``"numpy"`` for a Python module that needs NumPy only.
        directory: directory of the files; it is created if it is missing.
        name: name of the function and of the files; by default the name of ``f``.

    Returns:
        the paths of the files: ``name.c``, ``name.h`` and ``name_test.c``, or ``name.py``.

    Raises:
        ArgumentError: if ``name`` is no identifier, or there is no such language.
        UnsupportedFunctionError: if an operation of ``f`` has no form in C.
        ConcretizationError: if ``f`` reads a concrete value.

    Example:
        >>> import numpy as np, functrace as ft, tempfile
        >>> def rosenbrock(x):
        ...     return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = ft.export(ft.grad(rosenbrock), np.ones(8), directory=folder, name="slope")
        ...     [file.name for file in files]
        ...     print(files[1].read_text().splitlines()[-7])
        ['slope.c', 'slope.h', 'slope_test.c']
        int slope(const double *x, double *result);

    Cost:
        one recording of ``f``; the C of loops is as long as one step of theirs.
    """
    program = trace(f)(*examples)
    wanted = name or re.sub(r"\W+", "_", function_name(f), flags=re.ASCII).strip("_") or "program"
    if not re.fullmatch(r"[A-Za-z]\w*", wanted, flags=re.ASCII):
        raise ArgumentError(
            f"export: {wanted!r} is no name of a C function",
            fix="name= letters, digits and underscores, a letter first",
        )
    leaves, _ = flatten(examples)
    if language == "numpy":
        texts = {f"{wanted}.py": program.as_python(wanted)}
    elif language == "c":
        texts = _c_files(program, wanted, leaves)
    else:
        raise ArgumentError(
            f"export: there is no language {language!r}", fix='language="c", or language="numpy"'
        )
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return tuple(folder / file for file in texts)


def _c_files(program: Program, name: str, leaves: list[Any]) -> dict[str, str]:
    """Return the texts of the C files, by name."""
    from functrace.executor import Runner
    from functrace.executor.plan.planner import planned
    from functrace.executor.policy import Policy
    from functrace.native.c_files import CFunction
    from functrace.native.c_words import RESERVED_FUNCTIONS
    from functrace.native.lowering import NoNativeForm, lower
    from functrace.native.rows import ROWS
    from functrace.native.simplify import simplify

    if name in RESERVED_FUNCTIONS:
        raise ArgumentError(
            f"export: {name!r} is a word of C, or a function of its library",
            fix="choose another name: name=...",
        )
    flat = Runner(program).flat
    try:
        function = lower(planned(flat, Policy()), ROWS, name)
        simplify(function)
        made = CFunction(function, name, program.input_names or (), flat)
    except NoNativeForm as missing:
        raise UnsupportedFunctionError(
            f"export: there is no C for {missing}",
            fix='export that part with language="numpy", or write it with other operations',
        ) from None
    texts = {f"{name}.c": made.source(), f"{name}.h": made.header()}
    if not any(isinstance(leaf, ShapeDtype) for leaf in leaves):
        inputs = [
            np.asarray(leaf, program.avals[i].dtype)
            for leaf, i in zip(leaves, program.input_ids, strict=True)
        ]
        results, moved = (_results(program, given) for given in (inputs, map(_moved, inputs)))
        tolerances = [_tolerance(*pair) for pair in zip(results, moved, strict=True)]
        texts[f"{name}_test.c"] = made.test_program(inputs, results, tolerances)
    return texts


def _results(program: Program, inputs: Iterable[np.ndarray[Any, Any]]) -> list[Any]:
    """Return the results of a program, as arrays."""
    with np.errstate(all="ignore"):
        found = evaluate(program, *[x if x.ndim else x[()] for x in inputs])
    return [np.asarray(y) for y in flatten(found)[0]]


def _moved(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return floats that differ by one unit in the last place, upwards and downwards in turn."""
    if x.dtype.kind not in "fc":
        return x
    factors = 1.0 + np.finfo(x.dtype).eps * np.resize([1.0, -1.0], x.shape)
    with np.errstate(all="ignore"):
        return np.multiply(x, factors, dtype=x.dtype, casting="same_kind")


def _tolerance(result: np.ndarray[Any, Any], moved: np.ndarray[Any, Any]) -> float:
    """Return how far a result may be off: more if rounding errors of the inputs grow in it.

    Args:
        result: the result.
        moved: the result of inputs that differ by one unit in the last place.
    """
    if result.dtype.kind not in "fc":
        return 0.0
    least = float(np.finfo(result.dtype).eps) ** 0.75
    is_finite = np.isfinite(result) & np.isfinite(moved)
    with np.errstate(all="ignore"):
        change = np.max(np.abs(result - moved), where=is_finite, initial=0.0)
        largest = np.max(np.abs(result), where=is_finite, initial=0.0)
    return min(max(least, 100.0 * change / largest if largest else 0.0), 100.0 * least**0.5)
