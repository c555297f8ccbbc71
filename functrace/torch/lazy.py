"""Submodules of ``torch``, and functions defined in them, that are imported on first access.

Layer: 9.
"""

MODULES = (
    "accelerator", "amp", "backends", "compiler", "cpu", "cuda", "distributed", "distributions",
    "futures", "hub", "jit", "mps", "mtia", "multiprocessing", "originals", "overrides", "profiler",
    "serialization", "storage", "testing", "torch_version", "types", "version", "xpu", "_dynamo",
    "library", "__future__", "_vmap_internals", "_jit_internal", "_utils", "_VF",
)  # fmt: skip
"""Submodules."""

_OF_LISTS = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc add sub mul div pow "
    "clamp_min clamp_max maximum minimum lerp addcmul addcdiv"
)
NAMES = {
    name: module
    for module, names in {
        "amp.autocast_mode": (
            "autocast", "autocast_decrement_nesting", "autocast_increment_nesting",
            "clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_dtype",
            "get_autocast_gpu_dtype", "is_autocast_available", "is_autocast_cache_enabled",
            "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
            "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
            "set_autocast_enabled",
        ),
        "amp.grad_scaler": ("GradScaler",),
        "check": ("check_function",),
        "comparing": ("check_script",),
        "compiler": ("compile",),
        "cuda": ("OutOfMemoryError", "AcceleratorError"),
        "_lobpcg": ("lobpcg",),
        "functions.searching": ("_unique", "_unique2"),
        "nn.utils.weight_norm": ("norm_except_dim",),
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
        "_C._python": (
            "Event", "Stream", "_check_value", "_check_with", "_disable_dynamo",
            "_has_compatible_shallow_copy_type",
            "_is_all_true", "_use_cudnn_rnn_flatten_weight", "_weight_norm", "sym_int",
        ),
        "_foreach": (
            "_foreach_clone", "_foreach_copy_", "_foreach_max", "_foreach_norm", "_foreach_zero_",
            *[f"_foreach_{name}{end}" for name in _OF_LISTS.split() for end in ("", "_")],
        ),
    }.items()
    for name in names
}  # fmt: skip
"""Functions and classes, and the submodule of each."""
