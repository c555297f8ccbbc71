# ruff: noqa: E501 - broken where the message allows it, not at a column
"""Messages about gradcheck.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence

CHECKS_NOTHING = "Expected at least one of check_forward_ad or check_backward_ad to be True"
BATCHED_WITHOUT_BACKWARD = "Setting check_batched_grad=True requires check_backward_ad to be True"
BATCHED_WITHOUT_FORWARD = (
    "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
)
CHECKS_NOTHING_TWICE = (
    "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
)
UNDEFINED_WITHOUT_REVERSE = (
    "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
)
BATCHED_WITHOUT_REVERSE = "Setting check_batched_grad=True requires check_rev_over_rev to be True"
NOTHING_TO_CHECK = "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
IMAGINARY_PART = "While considering the imaginary part of complex outputs only, "
REAL_PART = "While considering the real part of complex outputs only, "
IMAGINARY_INPUTS = "While considering the imaginary part of complex inputs only, "
REAL_INPUTS = "While considering the real part of complex inputs only, "
TANGENT_OF_OTHER_DTYPE = "Forward AD gradient has dtype mismatch."
NUMERICAL_NOT_ZERO = "Numerical gradient for function expected to be zero"
GRADIENT_OF_OTHER_DTYPE = "Gradient has dtype mismatch"
GRADIENT_OF_OTHER_SIZE = "Analytical gradient has incorrect size"
NOT_MULTIPLIED = "backward not multiplied by grad_output"
_NOTES = (
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)
UNDEFINED_REFUSED = f"Expected backward function to handle undefined output grads. {_NOTES}"
UNDEFINED_NOT_ZERO = f"Expected all input grads to be undefined or zero when all output grads are undefined or zero. {_NOTES}"
UNDEFINED_IS_CHECKED = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by "
    "default, but it may break existing "
    'callers of this function. If this is true for you, you can call this function with "check_undefined_grad=False" to '
    "disable the feature"
)


def not_double(k: int) -> str:
    """Return the warning for an input of single precision."""
    return (
        f"Input #{k} requires gradient and is not a double precision floating point or complex. "
        "This check will likely fail if "
        "all the inputs are not of double precision floating point or complex. "
    )


def overlapping_input(k: int) -> str:
    """Return the message for an input whose elements share memory."""
    return (
        f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are "
        "non-overlapping to be able to "
        "compute the numerical gradients correctly. You should call .contiguous on the input "
        "before passing it to gradcheck."
    )


def not_reentrant(note: str, tolerance: float) -> str:
    """Return the message for backward passes that differ."""
    return f"""{note}Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives \
different values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {tolerance}.

NOTE: If your op relies on non-deterministic operations i.e., it is listed here:
https://pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
this failure might be expected.

If you are adding a new operator, please file an issue and then use one of the
workarounds. The workaround depends on how your test invokes gradcheck/gradgradcheck.
If the test
- manually invokes gradcheck/gradgradcheck, then call gradcheck/gradgradcheck
  with `nondet_tol=<tol>` as a keyword argument.
- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test
  to have `gradcheck_nondet_tol=<tol>`.
- is a Module test (e.g., in common_nn.py), then modify the corresponding
  module_test entry to have `gradcheck_nondet_tol=<tol>`
"""


def slow_mode(numerical: str, analytical: str, largest: float) -> str:
    """Return the Jacobians in full, for the numbers of fast mode."""
    return (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background \n"
        "about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        f"The max per-element difference (slow mode) is: {largest}.\n"
    )


_NEW_OPERATOR = """
If you are adding a new operator, please file an issue and then use one of the
workarounds. The workaround depends on how your test invokes gradcheck/gradgradcheck.
If the test
- manually invokes gradcheck/gradgradcheck, then call gradcheck/gradgradcheck
"""
_FAILED_BATCHED = (
    """
gradcheck or gradgradcheck failed while testing batched gradient computation.
This could have been invoked in a number of ways (via a test that calls
gradcheck/gradgradcheck directly or via an autogenerated test).
"""
    + _NEW_OPERATOR
    + """  with `check_batched_grad=False` as a keyword argument.
- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test
  to have `check_batched_grad=False` and/or `check_batched_gradgrad=False`.

If you're modifying an existing operator that supports batched grad computation,
or wish to make a new operator work with batched grad computation, please read
the following.

To compute batched grads (e.g., jacobians, hessians), we vmap over the backward
computation. The most common failure case is if there is a 'vmap-incompatible
operation' in the backward pass. Please see
NOTE: [How to write vmap-compatible backward formulas]
in the codebase for an explanation of how to fix this."""
)
_FAILED_BATCHED_FORWARD = (
    """

gradcheck failed while testing batched gradient computation with forward-mode AD.
This test is enabled automatically when both `check_batched_grad=True`
and `check_forward_ad=True`, but can be disabled in the following ways
dependong on how the test was invoked (via a test that calls gradcheck
directly or via an autogenerated test).
"""
    + _NEW_OPERATOR
    + """  with `check_batched_forward_grad=False` as a keyword argument.
- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test
  to have `check_batched_forward_grad=False`
"""
)


def batched_tangents_raise(error: Exception) -> str:
    """Return the message for forward mode that fails under ``vmap``."""
    return f"While computing batched gradients, got: {error}\n{_FAILED_BATCHED_FORWARD}"


def batched_gradients_raise(error: Exception) -> str:
    """Return the message for a backward pass that fails under ``vmap``."""
    return f"While computing batched gradients, got: {error}\n{_FAILED_BATCHED}"


def undefined_tangent(
    output: int, given: object, first: object, second: object
) -> tuple[object, ...]:
    """Return the message, in pieces as in PyTorch, for an input whose missing tangent is not
    treated as zero.
    """
    return (
        "Mismatch in tangent values for output with index: ", output, " when input: ", given,
        " has an undefined tangent value. ", " Got: ", first, " but expected: ", second,
    )  # fmt: skip


def batched_mismatch(output: int, place: int, together: str, alone: str) -> str:
    """Return the message for gradients under ``vmap`` that differ from those of a loop."""
    return (
        f"For output {output} and input {place}: gradients under vmap are not those of a "
        f"loop\nunder vmap:\n{together}\n"
        f"in a loop:\n{alone}\n"
    )


REQUIRES_GRAD_IN_FUNC = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using "
    "torch.autograd.functional.* APIs) inside of a function "
    "being transformed by a functorch transform. This is unsupported, please attempt to use the "
    "functorch transforms (e.g. grad, "
    "vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
    "transformed instead."
)
BACKWARD_IN_FUNC = (
    "backward() called inside a functorch transform. This is not supported, please use "
    "functorch.grad or functorch.vjp instead or "
    "call backward() outside of functorch transforms."
)
HOOKS_AMONG_TRACED = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an "
    "issue with your use case. (In "
    "functrace: functrace.checkpoint(f, policy=functrace.policies.pack(pack, unpack)) keeps what "
    "is packed, under every "
    "transform.)"
)
RECORDED_HOOK = "a hook on a traced value is part of what functrace records, and cannot be removed"
HOOK_AFTER_USE = (
    "a hook on a traced value must be registered before the value is used: what was computed from "
    "it so far would pass its "
    "gradient by the hook"
)


def both_vmap_rules(name: str) -> str:
    """Return the message for a Function with both a ``vmap`` rule and ``generate_vmap_rule``."""
    return (
        f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overridden "
        "vmap staticmethod. Please set "
        "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. "
        "For more details, please see "
        "https://pytorch.org/docs/main/notes/extending.func.html"
    )


def vmap_returned(got: str) -> str:
    """Return the message for a ``vmap`` method that did not return outputs and their dimensions."""
    return (
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree "
        "structure compatible with the "
        f"output. {got}"
    )


NO_VMAP = "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
MARK_SHARED_STORAGE = (
    "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. "
    "Note that calls to `set_()` "
    "are not tracked"
)


def resized(sizes: Sequence[int], count: int, given: Sequence[int], elements: int) -> str:
    """Return the message for a shape with another number of elements."""
    shapes = "x".join(map(str, sizes)), "x".join(map(str, given))
    return (
        f"requested resize to {shapes[0]} ({count} elements in total), but the given tensor has a "
        f"size of {shapes[1]} "
        f"({elements} elements). autograd's resize can only change the shape of a given tensor, "
        "while preserving the number of "
        "elements. "
    )
