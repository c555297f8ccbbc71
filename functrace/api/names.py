"""What names of other libraries are called here: the errors for `functrace.lax` and its kin.

Floor: 7.
"""

from __future__ import annotations

ELSEWHERE = {
    "array": "np.array, or functrace.numpy.array of traced values",
    "checkpoint_policies": "functrace.policies",
    "custom_gradient": "functrace.custom_vjp",
    "device_get": "nothing: arrays are NumPy's own",
    "device_put": "nothing: arrays are NumPy's own",
    "enable_grad": "nothing: derivatives are taken by functrace.grad(f)(x), not by a mode",
    "extend": "functrace.primitive",
    "jacobian": "functrace.jacrev, or functrace.jacfwd",
    "jnp": "NumPy itself: import numpy as np",
    "lax": "functrace.cond, functrace.scan, functrace.while_loop … for control flow; the rest of lax is NumPy",
    "linalg": "np.linalg",
    "make_jaxpr": "functrace.trace",
    "no_grad": "functrace.stop_gradient(x) in a function; functrace.torch.no_grad for PyTorch's tensors",
    "np": "NumPy itself: import numpy as np",
    "pmap": "functrace.vmap: there is one device",
    "remat": "functrace.checkpoint",
    "requires_grad": "nothing: functrace.grad(f)(x) differentiates by arguments",
    "tree_map": "functrace.tree.map",
    "tree_util": "functrace.tree",
    "Tensor": "functrace.torch.Tensor",
}
"""By a name that users of JAX, PyTorch or HIPS autograd look for: what it is called here."""


def unknown_name(name: str) -> AttributeError:
    """Return the error for a name that the package does not have."""
    what = f"module 'functrace' has no attribute {name!r}"
    return AttributeError(f"{what}; here it is {ELSEWHERE[name]}" if name in ELSEWHERE else what, name=name)
