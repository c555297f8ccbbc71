"""Submodules of ``torch``, and functions defined in them, that are imported on first access.

Layer: 9.
"""

MODULES = (
    "accelerator", "amp", "backends", "compiler", "cpu", "cuda", "distributed", "distributions",
    "hub", "jit", "mps", "mtia", "multiprocessing", "overrides", "profiler", "serialization",
    "storage", "testing", "torch_version", "types", "version", "xpu", "_dynamo",
    "library", "__future__", "_jit_internal", "_utils", "_VF",
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
        "check": ("check_function",),
        "comparing": ("check_script",),
        "compiler": ("compile",),
        "cuda": ("OutOfMemoryError", "AcceleratorError"),
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
            "Event", "Stream", "_check_value", "_check_with", "_disable_dynamo", "_has_compatible_shallow_copy_type",
            "_is_all_true", "_use_cudnn_rnn_flatten_weight", "_weight_norm", "sym_int",
        ),
        "_foreach": (
            "_foreach_abs", "_foreach_abs_", "_foreach_add", "_foreach_add_", "_foreach_addcdiv",
            "_foreach_addcdiv_", "_foreach_addcmul", "_foreach_addcmul_", "_foreach_clamp_max",
            "_foreach_clamp_max_", "_foreach_clamp_min", "_foreach_clamp_min_", "_foreach_clone",
            "_foreach_copy_", "_foreach_div", "_foreach_div_", "_foreach_exp", "_foreach_exp_",
            "_foreach_lerp", "_foreach_lerp_", "_foreach_log", "_foreach_max", "_foreach_maximum",
            "_foreach_maximum_", "_foreach_minimum", "_foreach_minimum_", "_foreach_mul",
            "_foreach_mul_", "_foreach_neg", "_foreach_neg_", "_foreach_norm", "_foreach_pow",
            "_foreach_pow_", "_foreach_reciprocal", "_foreach_reciprocal_", "_foreach_round",
            "_foreach_round_", "_foreach_rsqrt", "_foreach_rsqrt_", "_foreach_sigmoid",
            "_foreach_sigmoid_", "_foreach_sign", "_foreach_sign_", "_foreach_sqrt",
            "_foreach_sqrt_", "_foreach_sub", "_foreach_sub_", "_foreach_tanh", "_foreach_tanh_",
            "_foreach_trunc", "_foreach_zero_",
        ),
    }.items()
    for name in names
}  # fmt: skip
"""Functions and classes, and the submodule of each."""
