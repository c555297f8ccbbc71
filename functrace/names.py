"""Unknown names: equivalents of names in other libraries, and suggestions for misspelt ones.

Imported only when an unknown name is looked up.

Layer: b (base).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ONE_DEVICE = "nothing: there is one device"
_ARRAYS = "nothing: arrays are NumPy's own"

ELSEWHERE: dict[str, dict[str, str]] = {
    "functrace": {
        "CustomVJPPrimal": "functrace.custom_derivatives.CustomVJPPrimal",
        "GradientTape": "functrace.grad(f)(x), or functrace.vjp(f, x)",
        "Jitted": "functrace.stages.Jitted",
        "ShapeDtypeStruct": "functrace.ShapeDtype",
        "SymbolicZero": "functrace.custom_derivatives.SymbolicZero",
        "Tensor": "functrace.torch.Tensor",
        "Variable": "functrace.torch.tensor(..., requires_grad=True); functrace.grad(f)(x) differentiates by arguments",
        "array": "np.array, or functrace.numpy.array of traced values",
        "asarray": "np.asarray, or functrace.numpy.asarray of traced values",
        "autograd": "functrace.torch.autograd; functrace.grad, functrace.vjp for functions of arrays",
        "backward": "functrace.grad(f)(x); tensors of functrace.torch have backward()",
        "block_until_ready": _ARRAYS,
        "check_grads": "functrace.testing.check_grads",
        "checkpoint_policies": "functrace.policies",
        "compile": "functrace.jit",
        "custom_gradient": "functrace.custom_vjp",
        "defjvp": "a method of what functrace.primitive and functrace.custom_jvp return: f.defjvp(rule)",
        "defvjp": "a method of what functrace.primitive and functrace.custom_vjp return: f.defvjp(rule)",
        "device_get": _ARRAYS,
        "device_put": _ARRAYS,
        "devices": _ONE_DEVICE,
        "enable_grad": "nothing: derivatives are taken by functrace.grad(f)(x), not by a mode",
        "extend": "functrace.primitive",
        "flatten": "functrace.tree.flatten, or functrace.tree.ravel for one vector; np.ravel for an array",
        "function": "functrace.jit",
        "grad_and_aux": "functrace.grad(f, has_aux=True)",
        "gradcheck": "functrace.testing.check_grads; functrace.torch.autograd.gradcheck for PyTorch's tensors",
        "hessian_vector_product": "functrace.hvp",
        "holomorphic_grad": "functrace.grad(f, holomorphic=True)",
        "jacobian": "functrace.jacrev, or functrace.jacfwd",
        "jnp": "NumPy itself: import numpy as np",
        "lax": "functrace.cond, functrace.scan, functrace.while_loop, functrace.fori_loop, functrace.switch for control "
        "flow (also map, associative_scan, stop_gradient, custom_root); the rest of lax is NumPy",
        "linalg": "np.linalg",
        "make_hvp": "functrace.hvp",
        "make_jaxpr": "functrace.trace",
        "make_jvp": "functrace.jvp, or functrace.linearize",
        "make_vjp": "functrace.vjp(f, x), which returns the result and the pullback",
        "named_call": "functrace.jit",
        "njit": "functrace.jit",
        "no_grad": "functrace.stop_gradient(x) in a function; functrace.torch.no_grad for PyTorch's tensors",
        "np": "NumPy itself: import numpy as np",
        "optax": "functrace.optim, whose functions have optax's names",
        "optimizers": "functrace.optim",
        "pmap": "functrace.vmap: there is one device",
        "ravel_pytree": "functrace.tree.ravel",
        "remat": "functrace.checkpoint",
        "requires_grad": "nothing: functrace.grad(f)(x) differentiates by arguments",
        "tensor": "np.array; functrace.torch.tensor for PyTorch's tensors",
        "tree_map": "functrace.tree.map",
        "tree_util": "functrace.tree",
        "unflatten": "functrace.tree.unflatten",
        "vector_jacobian_product": "functrace.vjp",
        "vectorize": "functrace.vmap, or functrace.numpy.vectorize",
    },
    "functrace.random": {
        "PRNGKey": "functrace.random.key",
        "default_rng": "functrace.random.key(seed), which every draw takes; np.random.default_rng outside of functions",
        "key_data": "nothing: keys are arrays",
        "rand": "functrace.random.uniform(key, shape)",
        "randn": "functrace.random.normal(key, shape)",
        "random": "functrace.random.uniform(key, shape)",
        "seed": "functrace.random.key(seed), which every draw takes: there is no state",
        "shuffle": "functrace.random.permutation",
        "standard_normal": "functrace.random.normal",
        "wrap_key_data": "nothing: keys are arrays",
    },
    "functrace.tree": {
        "ravel_pytree": "functrace.tree.ravel",
        "register_dataclass": "functrace.tree.register",
        "register_pytree_node": "functrace.tree.register",
        "register_pytree_node_class": "functrace.tree.register",
        "tree_map_with_path": "functrace.tree.map_with_path",
        "tree_reduce": "functrace.tree.reduce",
    },
    "functrace.policies": {
        "checkpoint_dots": "functrace.policies.save_dots",
        "dots_saveable": "functrace.policies.save_dots",
        "dots_with_no_batch_dims_saveable": "functrace.policies.save_dots",
        "everything_saveable": "functrace.policies.save",
        "nothing_saveable": "functrace.policies.recompute",
        "offload_dot_with_no_batch_dims": "functrace.policies.compose(save_dots, offload())",
        "save_and_offload_only_these_names": "functrace.policies.compose(save_names(...), offload())",
        "save_anything_except_these_names": "~functrace.policies.save_names(...)",
        "save_from_both_policies": "functrace.policies: p | q",
        "save_only_these_names": "functrace.policies.save_names",
    },
    "functrace.nn": {
        "standardise": "functrace.nn.standardize",
    },
    "functrace.optim": {
        "Adam": "functrace.optim.adam",
        "GradientTransformationExtraArgs": "functrace.optim.GradientTransformation",
        "SGD": "functrace.optim.sgd",
        "multi_transform": "functrace.optim.chain of functrace.optim.masked",
        "nadam": "functrace.optim.adam(..., nesterov=True)",
        "partition": "functrace.optim.chain of functrace.optim.masked",
        "scale_by_backtracking_linesearch": "functrace.optim.scale_by_zoom_linesearch",
    },
    "functrace.debug": {
        "visualize_array_sharding": _ONE_DEVICE,
    },
    "functrace.testing": {
        "assert_allclose": "np.testing.assert_allclose",
        "gradcheck": "functrace.testing.check_grads",
    },
    "functrace.config": {
        "update": "an assignment: functrace.config.threads = 2. Dtypes are NumPy's: 64 bits need no switch",
        "jax_enable_x64": "nothing: dtypes are NumPy's, and float64 is as good as float32",
    },
}
"""By module or object, and by the name that users of JAX, PyTorch or HIPS autograd expect there:
functrace's name."""

_WHERE = {"functrace.torch": "; docs/torch_coverage.md lists the supported names of PyTorch"}


def unknown_name(place: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for an unknown name.

    Args:
        place: the dotted name of the module, or of the object, of the lookup.
        name: the name.
        known: the existing names.
    """
    what = f"{'' if place == 'functrace.config' else 'module '}{place!r} has no attribute {name!r}"
    if name.startswith("__"):
        return AttributeError(what, name=name)
    found = ELSEWHERE.get(place, {}).get(name)
    if found is not None:
        return AttributeError(f"{what}; here it is {found}", name=name)
    close = difflib.get_close_matches(name, list(known), n=1)
    if close:
        return AttributeError(f"{what}. Did you mean {close[0]!r}?", name=name)
    return AttributeError(f"{what}{_WHERE.get(place, '')}", name=name)
