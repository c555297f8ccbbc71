"""``ft.export``: the C of programs is compiled alone, and finds what NumPy finds."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import functrace as ft
from functrace.native import lowering, rows
from functrace.native.c_text import kernel_text
from functrace.native.c_words import kernel_name, number_text, type_name
from functrace.native.kernels import KERNELS, LARGEST_ANGLE, ULP
from functrace.native.llvm_text import operand_count
from functrace.native.loop_ir import BOOL, INT64
from tests.laws.programs import Recipe, programs, seeds

CC = shutil.which("cc")
needs_compiler = pytest.mark.skipif(CC is None, reason="there is no C compiler")
FLAGS = ("-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
SANITIZERS = (
    *("-std=c99", "-O1", "-g", "-ffp-contract=off", "-fno-sanitize-recover=all"),
    "-fsanitize=address,undefined",
)


def compiled(sources: Sequence[Path], program: Path, flags: Sequence[str] = FLAGS) -> Path:
    """Compile C files with nothing but ``cc`` and ``-lm``."""
    assert CC is not None
    files = [str(source) for source in sources if source.suffix == ".c"]
    done = subprocess.run(
        [CC, *flags, *files, "-o", str(program), "-lm"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return program


def assert_passes(files: Sequence[Path], flags: Sequence[str] = FLAGS) -> None:
    """Compile an exported program and its test, and run it."""
    done = subprocess.run(
        [str(compiled(files, files[0].with_suffix(".out"), flags))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr + files[0].read_text()


def checked(
    folder: Path, f: Callable[..., Any], *examples: Any, flags: Sequence[str] = FLAGS
) -> str:
    """Export a function, run its test; returns the C."""
    files = ft.export(f, *examples, directory=folder, name="made")
    assert [file.name for file in files] == ["made.c", "made.h", "made_test.c"]
    assert_passes(files, flags)
    return files[0].read_text()


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def kalman(noise: Any, observations: Any) -> Any:
    step = np.array([[1.0, 0.1], [0.0, 1.0]])
    seen = np.array([[1.0, 0.0]])

    def update(state: Any, y: Any) -> Any:
        mean, covariance = state
        mean, covariance = step @ mean, step @ covariance @ step.T + noise * np.eye(2)
        total = seen @ covariance @ seen.T + np.eye(1)
        gain = np.linalg.solve(total, seen @ covariance).T
        rest = y - seen @ mean
        state = (mean + gain @ rest, covariance - gain @ seen @ covariance)
        return state, 0.5 * (np.log(total[0, 0]) + rest @ np.linalg.solve(total, rest))

    _, densities = ft.scan(update, (np.zeros(2), np.eye(2)), observations)
    return np.sum(densities)


def newton_root(x: Any) -> Any:
    def goes_on(state: Any) -> Any:
        return np.abs(state[0] ** 2 - x) > 1e-12 * x

    def step(state: Any) -> Any:
        y, count = state
        return 0.5 * (y + x / y), count + 1

    return ft.while_loop(goes_on, step, (x, 0))


RNG = np.random.default_rng(5)
VECTOR = RNG.normal(size=50)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rosenbrock": (ft.grad(rosenbrock), (VECTOR,)),
    "rosenbrock_short": (ft.grad(rosenbrock), (VECTOR[:4],)),
    "hessian_product": (
        lambda x, v: ft.jvp(ft.grad(rosenbrock), (x,), (v,))[1], (VECTOR, VECTOR[::-1].copy()),
    ),
    "jacobian": (ft.jacfwd(lambda x: np.sin(np.outer(x, x)) @ x), (VECTOR[:5],)),
    "kalman": (ft.grad(kalman), (0.1, RNG.normal(size=(30, 1)))),
    "while": (newton_root, (2.0,)),
    "cond": (
        lambda x: ft.cond(x[0] > 0, lambda x: np.sin(x), lambda x: x**2, x), (VECTOR,),
    ),
    "cond_of_numbers": (
        lambda x: ft.cond(x > 0, lambda x: np.sin(x), lambda x: x**2, x), (-1.5,),
    ),
    "float32": (ft.grad(lambda x: np.sum(np.tanh(x) * np.exp(-x * x))), (VECTOR.astype("f4"),)),
    "scan_stack": (
        lambda x: ft.scan(lambda c, y: (c * 0.5 + y, np.cos(c)), 0.0, x), (VECTOR,),
    ),
    "scan_of_arrays": (
        ft.grad(lambda w, x: np.sum(ft.scan(lambda h, y: (np.tanh(w @ h + y), None), x[0], x)[0])),
        (0.1 * RNG.normal(size=(40, 40)), RNG.normal(size=(6, 40))),
    ),
    "reductions": (
        lambda x: (np.max(x, 0), np.argmin(x, 1), np.cumsum(x, 1), np.any(x > 2), np.prod(x)),
        (RNG.normal(size=(7, 8)),),
    ),
    "products": (lambda a, b: (a @ b, b.T @ a.T), (RNG.normal(size=(40, 50)), RNG.normal(size=(50, 60)))),
    "gather": (lambda x, k: (x[k], np.sum(x[k])), (VECTOR, np.array([3, -1, 3, 0] * 20))),
    "specials": (
        lambda x: (np.isnan(x), np.isinf(x), np.maximum(x, 0.0), np.sign(x), np.sqrt(x), x * 2),
        (np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, 5e-324] * 8),),
    ),
    "backwards": (lambda x, y: (x[::-1] + np.maximum(x, 0.1), np.minimum(x, y)), (VECTOR, 0.5)),
    "many_results": (lambda x: tuple(x * k for k in range(9)), (VECTOR,)),
    "pytrees": (
        lambda p, dt: {"a": p["w"] @ p["b"] * dt, "b": (dt, p["b"][0])},
        ({"w": np.eye(3), "b": np.arange(3.0)}, 0.5),
    ),
    "constants": (lambda x: x * VECTOR + np.arange(50), (VECTOR,)),
    "unused": (lambda x, y: x + 1.0, (VECTOR, 2.0)),
    "no_arguments": (lambda: np.arange(3.0), ()),
    "words_of_c": (lambda double, i, main, restrict, v0: double * i + main - restrict * v0, (1.0, 2, VECTOR, 3.0, VECTOR)),
}  # fmt: skip


@pytest.mark.sampled(4)
@needs_compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_equal_numpy(name: str, tmp_path: Path) -> None:
    f, examples = PROGRAMS[name]
    with np.errstate(all="ignore"):
        checked(tmp_path, f, *examples)
        checked(tmp_path, f, *examples, flags=SANITIZERS)


INTEGERS = {
    dtype: np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 3, 100] * 8, dtype)
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
}


@pytest.mark.sampled(4)
@needs_compiler
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype: str, tmp_path: Path) -> None:
    x = INTEGERS[dtype]

    def f(x: Any, y: Any) -> Any:
        return (
            x + y, x - y, x * y, -x, x**3, np.absolute(x), x & y, x | ~y, x ^ y, x < y, x == y,
            np.maximum(x, y), np.sum(x), np.sign(x), x.astype(float), x.astype("i2"),
            x.astype("u4"), x.astype(bool),
        )  # fmt: skip

    checked(tmp_path, f, x, x[::-1].copy(), flags=SANITIZERS)


@needs_compiler
def test_complex_numbers_are_pairs(tmp_path: Path) -> None:
    if np.dtype(complex) not in lowering.DTYPES:
        pytest.skip("complex numbers have no native form")

    def f(z: Any, w: Any, x: Any) -> Any:
        return z * w + x, np.abs(z), z.real, np.conj(z) / (2.0 + w), np.sum(z * (1.0 + 2.0j))

    z = VECTOR + 1j * VECTOR[::-1]
    text = checked(tmp_path, f, z, 1.0 - 2.0j, 0.5, flags=SANITIZERS)
    assert "const double *restrict w, double x" in text


def test_numbers_are_written_exactly() -> None:
    rng = np.random.default_rng(1)
    for x in (*rng.normal(size=50), *np.exp(rng.uniform(-700, 700, 50)), 5e-324, 1e22, -0.0):
        assert float(number_text(x, np.dtype(float))) == x
        with np.errstate(all="ignore"):
            y = np.float32(x)
        text = number_text(y, y.dtype)
        assert text == ("INFINITY" if np.isinf(y) else text)
        assert np.isinf(y) or np.float32(float(text.removesuffix("f"))) == y
    assert number_text(2**63 + 1, np.dtype("u8")) == "9223372036854775809ULL"
    assert number_text(-(2**63), INT64) == "INT64_MIN"
    assert number_text(2**32, INT64) == "0x100000000LL"
    assert number_text(-7, np.dtype("i4")) == "-7"
    assert number_text(True, BOOL) == "true"
    assert number_text(-np.inf, np.dtype(float)) == "-INFINITY"


# -- simplified loops --


def differences(x: Any) -> Any:
    second = x[2:] - 2.0 * x[1:-1] + x[:-2]
    return np.sum(np.sin(second) * x[1:-1]) + np.sum(np.roll(x, 3) * x) + np.sum(x[::2] ** 3)


SLICES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "differences": (ft.grad(differences), (VECTOR,)),
    "twice": (lambda x: ft.jvp(ft.grad(differences), (x,), (np.cos(x),)), (VECTOR,)),
    "padded": (lambda x: np.pad(x, (2, 3)) * 2.0 + np.concatenate([x, x[:5]]), (VECTOR,)),
    "planes": (
        ft.grad(lambda x: np.sum((x[1:] - x[:-1]) ** 2) + np.sum(np.exp(x[:, 1:] * x[:, :-1]))),
        (0.1 * RNG.normal(size=(9, 11)),),
    ),
    "in_a_loop": (
        ft.grad(lambda x: np.sum(ft.scan(
            lambda c, _: (np.concatenate([c[1:] * c[:-1], x[:1]]), c[3]), x, None, length=4
        )[0])),
        (VECTOR,),
    ),
    "heat": (
        lambda x: ft.fori_loop(
            0, 9, lambda _, u: np.concatenate([u[:1], u[1:-1] + 0.1 * np.diff(u, 2), u[-1:]]), x
        ),
        (VECTOR,),
    ),
    "written_twice": (
        lambda x, k: np.where(x > 0, x, 0.0)[k] + np.cumsum(x)[k] * x, (VECTOR, np.arange(50)[::-1].copy()),
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@needs_compiler
@pytest.mark.parametrize("name", SLICES)
def test_simplified_loops_equal_numpy(name: str, tmp_path: Path) -> None:
    f, examples = SLICES[name]
    checked(tmp_path, f, *examples, flags=SANITIZERS)


def test_slices_are_written_in_place(tmp_path: Path) -> None:
    source, *_ = ft.export(ft.grad(rosenbrock), np.ones(1000), directory=tmp_path, name="slope")
    text = source.read_text()
    assert text.count("for (") == 2
    assert re.search(r"work->t\d\[999\] = 0.0;", text)


# -- random programs --


@contextmanager
def arrays_in_memory() -> Generator[None]:
    """Lower small arrays as large ones: to loops over memory, instead of scalars."""
    modules = (lowering, rows.contraction, rows.control, rows.elementwise, rows.layout, rows.reductions)  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            for name in ("TINY", "STRAIGHT"):
                if hasattr(module, name):
                    patch.setattr(module, name, 1)
        yield


def _assert_sanitized(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)

    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        try:
            files = ft.export(pulled, *arguments, directory=folder, name="drawn")
        except ft.errors.UnsupportedFunctionError:
            return
        assert_passes(files, SANITIZERS)


@needs_compiler
@settings(max_examples=6)
@given(programs(), seeds())
def test_random_programs_under_sanitizers(recipe: Recipe, seed: int) -> None:
    _assert_sanitized(recipe, seed)


@needs_compiler
@settings(max_examples=6)
@given(programs(), seeds())
def test_random_programs_as_loops_under_sanitizers(recipe: Recipe, seed: int) -> None:
    with arrays_in_memory():
        _assert_sanitized(recipe, seed)


@needs_compiler
@pytest.mark.full
@pytest.mark.release
@settings(max_examples=500)
@given(programs(), seeds())
def test_many_random_programs_under_sanitizers(recipe: Recipe, seed: int) -> None:
    _assert_sanitized(recipe, seed)


@needs_compiler
@pytest.mark.full
@pytest.mark.release
@settings(max_examples=300)
@given(programs(), seeds())
def test_many_random_programs_as_loops_under_sanitizers(recipe: Recipe, seed: int) -> None:
    with arrays_in_memory():
        _assert_sanitized(recipe, seed)


# -- elementary functions --


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., np.ndarray]:
    """Compile all kernels; returns the function that runs one on arrays."""
    if CC is None:
        pytest.skip("there is no C compiler")
    texts: dict[str, str] = {}
    helpers: dict[str, str] = {}
    for op in KERNELS:
        for dtype in map(np.dtype, ("f8", "f4")):
            text, printer = kernel_text(op, dtype)
            assert not printer.calls
            helpers |= printer.helpers
            kind, count = type_name(dtype), operand_count(KERNELS[op])
            pointers = ", ".join(f"const {kind} *x{k}" for k in range(count))
            values = ", ".join(f"x{k}[i]" for k in range(count))
            name = kernel_name(op, dtype)
            texts[name] = (
                f"{text}\nvoid run_{name}(long n, {kind} *y, {pointers})\n"
                f"{{\n    for (long i = 0; i < n; ++i) y[i] = {name}({values});\n}}\n"
            )
    folder = tmp_path_factory.mktemp("kernels")
    head = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"
    (folder / "kernels.c").write_text("\n".join([head, *helpers.values(), *texts.values()]))
    flags = (*FLAGS, "-shared", "-fPIC")
    library = ctypes.CDLL(str(compiled([folder / "kernels.c"], folder / "kernels.so", flags)))

    def run(op: str, *x: np.ndarray) -> np.ndarray:
        y = np.empty_like(x[0])
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (y, *x)]
        getattr(library, f"run_{kernel_name(op, y.dtype)}")(ctypes.c_long(len(y)), *pointers)
        return y

    return run


KERNEL_CASES = [(op, dtype) for op in KERNELS for dtype in ("f8", "f4")]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("op", "code"), KERNEL_CASES)
def test_kernels_are_as_accurate_as_stated(op: str, code: str, kernels: Any) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
    from tests.native import test_kernels as stated

    dtype = np.dtype(code)
    limit = ULP[op][code == "f4"] + 1e-3
    reference = stated._reference(op, dtype)
    operands = stated._operands(op, dtype, 40 if reference is None else 2000)
    found = kernels(op, *operands)
    if op == "floor_divide":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, np.floor_divide(*operands))
    elif reference is not None:
        wide = np.longdouble if code == "f8" else np.float64
        with np.errstate(all="ignore"):
            exact = reference(*[x.astype(wide) for x in operands])
            unit = stated._unit(op, dtype, exact, operands).astype(wide)
            errors = np.abs(found.astype(wide) - exact) / unit
            assert np.all(errors[np.isfinite(exact.astype(dtype))] <= limit)
    else:
        with mpmath.workprec(150):
            for y, *x in zip(found, *operands, strict=True):
                exact = stated._exact(op, x)
                unit = float(stated._unit(op, dtype, np.float64(float(exact)), np.float64(x)))
                is_large = abs(exact) > float(np.finfo(dtype).max)
                assert is_large or abs(mpmath.mpf(float(y)) - exact) <= limit * unit
    machine = stated.machine(op, dtype)(*operands)
    np.testing.assert_array_equal(found, machine)  # (the same IR, rounded the same)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("op", "code"), KERNEL_CASES)
def test_kernels_have_exact_special_values(op: str, code: str, kernels: Any) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    pytest.importorskip("mpmath", reason="mpmath is not installed")
    from tests.native import test_kernels as stated

    dtype = np.dtype(code)
    columns = [
        np.array(column, dtype) for column in zip(*stated._special_operands(op, dtype), strict=True)
    ]
    with np.errstate(all="ignore"):
        expected = np.array(
            [stated._numpy_result(op, x) for x in zip(*columns, strict=True)], dtype
        )
    found = kernels(op, *columns)
    exact = np.isnan(expected) | np.isinf(expected) | (expected == 0)
    np.testing.assert_array_equal(found[exact], expected[exact])
    kept = exact & ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[kept]), np.signbit(expected[kept]))


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_large_angles_are_those_of_the_library(op: str, kernels: Any) -> None:
    x = np.array([LARGEST_ANGLE, -1e22, 1e300])
    expected = [getattr(math, op)(value) for value in x]
    np.testing.assert_allclose(kernels(op, x), expected, rtol=1e-15)


# -- files --


def test_c_reads_well(tmp_path: Path) -> None:
    source, header, _ = ft.export(ft.grad(rosenbrock), VECTOR[:3], directory=tmp_path, name="slope")
    text = source.read_text()
    assert "int slope(const double *restrict x, double *restrict result)\n{" in text
    assert max(map(len, text.splitlines())) <= 100
    body = text[text.index("int slope(") :]
    assert "x[1]" in body
    assert len(body.splitlines()) < 15
    documented = header.read_text()
    assert re.search(r"in +x +double +shape \(3,\)", documented)
    assert re.search(r"out +result +double +shape \(3,\)", documented)
    assert "malloc" not in text


@needs_compiler
def test_headers_are_those_of_c_plus_plus_too(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    _, header, _ = ft.export(ft.grad(rosenbrock), np.ones(1000), directory=tmp_path, name="slope")
    user = tmp_path / "user.cpp"
    user.write_text(f'#include "{header.name}"\nint main() {{ return slope(0, 0, 0); }}\n')
    subprocess.run([compiler, "-Werror", "-c", user, "-o", tmp_path / "user.o"], check=True)


@needs_compiler
def test_counters_and_conditions(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return ft.while_loop(lambda s: s[0] < 100.0, lambda s: (s[0] * 2.0, s[1] + 1), (x, 0))

    text = checked(tmp_path, f, 1.0)
    assert "while (" in text


@needs_compiler
def test_a_singular_matrix_is_a_status(tmp_path: Path) -> None:
    def f(a: Any, b: Any) -> Any:
        return np.linalg.solve(a, b)

    source, *_ = ft.export(f, np.eye(2), np.ones(2), directory=tmp_path, name="solved")
    flags = (*FLAGS, "-shared", "-fPIC")
    library = ctypes.CDLL(str(compiled([source], tmp_path / "solved.so", flags)))
    a, b, x = np.ones((2, 2)), np.ones(2), np.empty(2)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, x)]
    assert library.solved(*pointers) == 1
    a[0, 0] = 3.0
    assert library.solved(*pointers) == 0
    np.testing.assert_allclose(x, np.linalg.solve(a, b))


@needs_compiler
def test_fast_math_is_refused(tmp_path: Path) -> None:
    source, *_ = ft.export(np.sin, VECTOR, directory=tmp_path, name="made")
    assert CC is not None
    command = [CC, "-Ofast", "-c", str(source), "-o", str(tmp_path / "made.o")]
    if subprocess.run(command, capture_output=True).returncode == 0:
        pytest.skip("this compiler does not say that it has -ffast-math")


def test_shapes_alone_write_no_test(tmp_path: Path) -> None:
    files = ft.export(rosenbrock, ft.ShapeDtype((9,)), directory=tmp_path)
    assert [file.name for file in files] == ["rosenbrock.c", "rosenbrock.h"]


def test_numpy_source_runs(tmp_path: Path) -> None:
    (file,) = ft.export(
        ft.grad(rosenbrock), VECTOR, directory=tmp_path / "new", language="numpy", name="slope"
    )
    assert file == tmp_path / "new" / "slope.py"
    names: dict[str, Any] = {}
    exec(file.read_text(), names)
    np.testing.assert_allclose(names["slope"](VECTOR), ft.grad(rosenbrock)(VECTOR))


def test_bad_arguments_say_what_to_do(tmp_path: Path) -> None:
    for name in ("-", "9", "a-b", "_x", "é", "double", "exp", "gammaf"):
        with pytest.raises(ft.errors.ArgumentError, match="fix: "):
            ft.export(rosenbrock, VECTOR, directory=tmp_path, name=name)
    with pytest.raises(ft.errors.ArgumentError, match='language="c"'):
        ft.export(rosenbrock, VECTOR, directory=tmp_path, language="rust")  # type: ignore[arg-type]
    with pytest.raises(ft.errors.UnsupportedFunctionError, match="svd"):
        ft.export(lambda x: np.linalg.svd(x)[1], np.eye(9), directory=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["INT64_MAX", "size_t", "HUGE_VAL", "uint_fast8_t", "FP_NAN"])
def test_names_of_the_headers_are_not_taken(name: str, tmp_path: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f({name}): return {name} * 2.0", namespace)
    checked(tmp_path, namespace["f"], VECTOR)
    with pytest.raises(ft.errors.ArgumentError, match="a word of C"):
        ft.export(np.sin, VECTOR, directory=tmp_path, name=name)


@pytest.mark.parametrize("size", [3, 8])
def test_determinants_of_singular_matrices_are_zero(size: int, tmp_path: Path) -> None:
    checked(tmp_path, np.linalg.det, np.ones((size, size)))


def test_qr_and_its_derivative(tmp_path: Path) -> None:
    def energy(x: Any) -> Any:
        q, r = np.linalg.qr(x)
        return np.sum(q**3) + np.sum(np.exp(r))

    checked(tmp_path, ft.value_and_grad(energy), np.random.default_rng(0).normal(size=(5, 3)))
