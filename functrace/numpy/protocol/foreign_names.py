"""NumPy equivalents of functions of Python and other libraries, as fixes in error messages.

Layer: 3.
"""

from __future__ import annotations

import numpy as np

_MATH = {
    "acos": "np.arccos",
    "acosh": "np.arccosh",
    "asin": "np.arcsin",
    "asinh": "np.arcsinh",
    "atan": "np.arctan",
    "atan2": "np.arctan2",
    "atanh": "np.arctanh",
    "dist": "np.linalg.norm of the difference",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
    "fsum": "np.sum",
    "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
    "pow": "np.power",
}
_STATISTICS = {
    "fmean": "np.mean",
    "pstdev": "np.std",
    "pvariance": "np.var",
    "stdev": "np.std",
    "variance": "np.var",
}

_BUILTINS = {
    "all": "use np.all(x)",
    "any": "use np.any(x)",
    "complex": "leave complex() out: x + 0j is complex",
    "float": "leave float() out: NumPy's functions take a traced number as it is",
    "int": "use np.floor(x), np.round(x) or x.astype(int), which stay traced",
    "max": "use np.maximum(x, y) of two values, np.max(x) of one array",
    "min": "use np.minimum(x, y) of two values, np.min(x) of one array",
    "round": "use np.round(x)",
    "sorted": "use np.sort(x), or x[np.argsort(key)]",
    "sum": "use np.sum(x)",
}
"""Fixes by name of a Python builtin."""

LIBRARIES = {
    "jax": "JAX",
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "cupy": "CuPy",
    "autograd": "HIPS autograd",
    "mxnet": "MXNet",
    "paddle": "PaddlePaddle",
    "mlx": "MLX",
}
"""Libraries with their own arrays and derivatives, by package name."""

_TRANSFORMS = frozenset({
    "associative_scan", "checkpoint", "cond", "elementwise_grad", "fori_loop", "grad", "hessian",
    "jacfwd", "jacrev", "jit",
    "jvp", "linearize", "pure_callback", "scan", "stop_gradient", "switch", "value_and_grad",
    "vjp", "vmap", "while_loop",
})  # fmt: skip
"""Their functions that functrace has under the same name."""

_NN = frozenset({
    "celu", "dot_product_attention", "elu", "gelu", "glu", "hard_sigmoid", "hard_tanh",
    "layer_norm", "leaky_relu",
    "log_sigmoid", "log_softmax", "logsumexp", "mish", "one_hot", "relu", "relu6", "selu",
    "sigmoid", "silu", "softmax",
    "softplus",
})  # fmt: skip
"""Their functions that `functrace.nn` has under the same name."""

_RENAMED = {
    "cat": "np.concatenate",
    "mm": "np.matmul",
    "bmm": "np.matmul",
    "mv": "np.matmul",
    "norm": "np.linalg.norm",
    "det": "np.linalg.det",
    "inv": "np.linalg.inv",
    "solve": "np.linalg.solve",
    "reduce_max": "np.max",
    "reduce_mean": "np.mean",
    "reduce_min": "np.min",
    "reduce_prod": "np.prod",
    "reduce_sum": "np.sum",
    "sub": "np.subtract",
    "mul": "np.multiply",
    "div": "np.divide",
}
_ITSELF = frozenset(
    {"array", "asarray", "tensor", "as_tensor", "from_numpy", "convert_to_tensor", "Variable"}
)
"""Functions that convert NumPy arrays to their own arrays."""

SAVED = frozenset({"save", "savez", "savez_compressed", "savetxt"})
"""NumPy's functions that write to a file."""

SAVE = (
    "return it from the function, and save what the call returns (has_aux=True carries further "
    "results); "
    "functrace.debug.callback(lambda x: np.save(file, x), x) saves it each time that the program "
    "runs"
)
PRINT = 'functrace.debug.print("{}", x) prints the value each time that the program runs'

_FILES = frozenset({"json", "pickle", "csv", "struct", "marshal", "shelve", "yaml", "h5py"})
"""Modules that write to files."""

_FOREIGN = (
    "functrace.pure_callback calls it on plain values when the program runs, functrace.primitive "
    "gives it a derivative "
    "(docs/foreign_code.md)"
)


def in_numpy(name: str) -> str:
    """Return the fix for a function outside of NumPy, by its dotted name; empty if unknown."""
    name = name.partition("(")[0]
    root, _, _ = name.partition(".")
    module, _, last = name.rpartition(".")
    if name in _BUILTINS:
        return _BUILTINS[name]
    if root == "math":
        return f"use {_MATH.get(last) or f'np.{last}'}, which takes traced values"
    if root == "statistics":
        return f"use {_STATISTICS.get(last) or f'np.{last}'}, which takes traced values"
    if module == "bisect":
        return "use np.searchsorted(a, x)"
    if root in _FILES:
        return SAVE
    if root in LIBRARIES:
        own = _in_functrace(last)
        if root == "torch":
            shim = "functrace.torch (import functrace.torch as torch) has PyTorch's functions, which take traced values"
            return f"{own}; {shim}; {_FOREIGN}"
        return f"{own}; {_FOREIGN}"
    return ""


def _in_functrace(last: str) -> str:
    """Return the fix for a function of another array library."""
    if last in _ITSELF:
        return "leave it out: a traced value is an array already"
    if last in _TRANSFORMS:
        return f"use functrace.{last}"
    if last in _NN:
        return f"use functrace.nn.{last}"
    found = _RENAMED.get(last) or (f"np.{last}" if callable(getattr(np, last, None)) else "")
    return (
        f"use {found}: NumPy's functions take traced values"
        if found
        else "write it in NumPy, which takes traced values"
    )


def library_of(name: str) -> str:
    """Return the library of a function, if it has its own arrays; otherwise empty."""
    return LIBRARIES.get(name.partition(".")[0], "")
