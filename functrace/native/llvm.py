"""Compile LLVM IR to machine code with llvmlite, for this machine.

llvmlite is imported when the first program is compiled (30 ms). LLVM runs without Python's lock.

Layer: 7.
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from functrace.errors import UnsupportedFunctionError
from functrace.phases import phase


class Machine(NamedTuple):
    """The machine that code is made for.

    Args:
        binding: the module ``llvmlite.binding``.
        cpu: LLVM's name of the processor.
        features: its features, as LLVM writes them.
        version: versions of llvmlite and LLVM, and options that change code.
    """

    binding: Any
    cpu: str
    features: str
    version: str


_OPTIONS = (
    # Vectors of two float32 are padded with lanes that do not exist, which may set floating-point
    # flags; they come from the vectorized rest of a loop.
    "--enable-epilogue-vectorization=false",
    # A division that a select may not choose would be made a branch, and its flags would be lost.
    "--disable-cgp-select2branch",
)
_OLDEST, _NEWEST = (0, 47), (0, 50)
"""Versions of llvmlite that the tests have seen."""


def _check_version(version: str, library: str) -> None:
    """Refuse a version that is too old, or newer than the known ones and without an option of LLVM's
    that is needed: llvmlite would say nothing.

    Args:
        version: of llvmlite.
        library: path of its shared library.

    Raises:
        UnsupportedFunctionError: if so.
    """
    found = tuple(int(part) for part in re.findall("[0-9]+", version)[:2])
    fix = f'pip install "llvmlite>={_OLDEST[0]}.{_OLDEST[1]},<={_NEWEST[0]}.{_NEWEST[1]}"'
    if found < _OLDEST:
        raise UnsupportedFunctionError(
            f'backend="native" needs llvmlite 0.47 or later, but {version} is installed', fix=fix
        )
    missing = [] if found <= _NEWEST else _missing_options(library)
    if missing:
        raise UnsupportedFunctionError(
            f'backend="native" does not work with llvmlite {version}: its LLVM has no option '
            f"{' and no '.join(missing)}",
            fix=fix,
        )


def _missing_options(library: str) -> list[str]:
    """Return the options whose names are not in the library."""
    import mmap

    with open(library, "rb") as file:
        code = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with code:
        return [x for x in _OPTIONS if code.find(x.lstrip("-").partition("=")[0].encode()) < 0]


@functools.lru_cache(maxsize=1)
def machine() -> Machine:
    """Return this machine.

    Raises:
        UnsupportedFunctionError: if llvmlite is not installed, or in a version that does not work.
    """
    try:
        import llvmlite
        import llvmlite.binding as binding
    except ImportError as error:
        raise UnsupportedFunctionError(
            'backend="native" needs llvmlite', fix="pip install functrace-numpy[native]"
        ) from error
    _check_version(llvmlite.__version__, binding.ffi.lib._name)
    for option in _OPTIONS:
        binding.set_option("functrace", option)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    version = ".".join(map(str, binding.llvm_version_info))
    features = binding.get_host_cpu_features().flatten()
    return Machine(
        binding, binding.get_host_cpu_name(), features, f"{llvmlite.__version__} {version} select"
    )


@functools.lru_cache(maxsize=1)
def is_usable() -> bool:
    """Return True if llvmlite is installed, in a version that works."""
    from importlib.util import find_spec

    if find_spec("llvmlite") is None:
        return False
    try:
        machine()
    except UnsupportedFunctionError:
        return False
    return True


def _target(level: int) -> Any:
    here = machine()
    triple = here.binding.Target.from_default_triple()
    return triple.create_target_machine(
        cpu=here.cpu, features=here.features, opt=level, jit=True, reloc="pic"
    )


def vector_widths() -> tuple[int, ...]:
    """Return the bytes of this machine's vectors, for vector forms of kernels."""
    features = machine().features
    return (32, 64) if "+avx512f" in features else (32,) if "+avx2" in features else (16,)


def object_code(text: str, level: int = 2, *, vectorize: bool = True) -> bytes:
    """Return the object code of a module.

    Straight-line code is not vectorized: that takes as long as all else together, and does not pay.

    Args:
        text: the module in LLVM IR.
        level: of optimization, 0 to 3.
        vectorize: True to vectorize loops.
    """
    with phase("llvm"):
        return _object_code(text, level, vectorize)


def _object_code(text: str, level: int, vectorize: bool) -> bytes:
    binding = machine().binding
    target = _target(level)
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = binding.get_process_triple(), str(target.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization, options.slp_vectorization = vectorize, False
    builder = binding.create_pass_builder(target, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    _dispose(passes)
    if vectorize and _is_padded(str(module)):
        return _object_code(text, level, vectorize=False)
    return target.emit_object(module)


def _dispose(passes: object) -> None:
    """Free a pass manager, which llvmlite 0.47 to 0.50 does not: its class inherits the empty method
    of ``ObjectRef`` before that which frees (140 kB of memory per program).
    """
    binding = machine().binding
    held: Any = passes
    kind: Any = type(passes)
    if kind._dispose is binding.ffi.ObjectRef._dispose:
        binding.newpassmanagers.NewPassManager._dispose(held)
        held.detach()


_DIVISIONS = re.compile(r"fdiv <(\d+) x (f|d)|@llvm\.sqrt\.v(\d+)(f32|f64)\(")


def _is_padded(text: str) -> bool:
    """Return True if a division or root is on a vector that the processor has only with more lanes.

    It would compute on lanes that do not exist, which may set floating-point flags.
    """
    for count, kind, of_root, kind_of_root in set(_DIVISIONS.findall(text)):
        lanes = int(count or of_root)
        size = 4 if kind == "f" or kind_of_root == "f32" else 8
        if lanes & (lanes - 1) or lanes * size < 16:
            return True
    return False


def load(code: bytes, names: tuple[str, ...]) -> tuple[Any, tuple[int, ...]]:
    """Link object code into the process.

    Returns:
        an object that keeps the code in memory, and the addresses of functions.
    """
    with phase("llvm"):
        binding = machine().binding
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target(2))
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine, tuple(engine.get_function_address(name) for name in names)
