"""Submodules of ``torch``, and functions defined in them, that are imported on first access.

Layer: 9.
"""

MODULES = (
    "accelerator", "amp", "backends", "compiler", "cpu", "cuda", "distributed", "distributions",
    "hub", "jit", "mps", "mtia", "multiprocessing", "overrides", "profiler", "serialization",
    "storage", "testing", "torch_version", "types", "version", "xpu", "_dynamo",
)  # fmt: skip
"""Submodules."""

NAMES = {
    name: module
    for module, names in {
        "amp.autocast_mode": (
            "autocast", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_available",
            "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
        ),
        "amp.grad_scaler": ("GradScaler",),
        "compiler": ("compile",),
        "cuda": ("OutOfMemoryError", "AcceleratorError"),
        "serialization": ("save", "load"),
        "settings": (
            "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
            "get_float32_matmul_precision", "get_num_interop_threads",
            "is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode",
            "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
            "use_deterministic_algorithms",
        ),
        "standing_in": ("stand_in",),
        "storage": ("TypedStorage", "UntypedStorage", "is_storage"),
        "types": ("SymBool", "SymFloat", "SymInt"),
    }.items()
    for name in names
}  # fmt: skip
"""Functions and classes, and the submodule of each."""
