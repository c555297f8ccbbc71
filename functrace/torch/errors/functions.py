# ruff: noqa: E501 - broken where the message allows it, not at a column
"""Messages about ``autograd.Function``, ``torch.func`` and forward mode.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence

# -- autograd.Function -----------------------------------------------------------------------------

NO_FORWARD = "You must implement the forward function for custom autograd.Function."
NO_SETUP_CONTEXT = "setup_context is not implemented."
NO_BACKWARD = "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
NO_JVP = "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
BACKWARD_AND_VJP = "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
CLEARED_ON_ACCESS = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
    "autograd.Function. Either "
    "access saved_tensors only once, or set clear_saved_tensors_on_access=False."
)
LEGACY_FUNCTION = (
    "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
    "autograd function with "
    "static forward method. (Example: "
    "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
)
ONCE_DIFFERENTIABLE = (
    "trying to differentiate twice a function that was marked with @once_differentiable"
)
SAVED_VARIABLES = "'saved_variables' is deprecated; use 'saved_tensors'"
SAVE_FOR_FORWARD = "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
SET_MATERIALIZE_GRADS = "set_materialize_grads received an invalid combination of arguments - got (), but expected (bool)"
MARK_DIRTY = "mark_dirty can only accept variables, but argument "
MARK_NON_DIFFERENTIABLE = "mark_non_differentiable only accepts variable arguments, but got "
DIRTY_NOT_AN_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
    "mutated should be passed to "
    "ctx.mark_dirty()."
)
DIRTY_NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as output. The "
    "inputs that are modified "
    "inplace must all be outputs of the Function."
)
DIRTY_LEAF = "a leaf Variable that requires grad has been used in an in-place operation."
DIRTY_VIEW_OF_MANY = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function "
    "cannot return more than one "
    "Tensor. This is not supported by the current autograd engine. You should either make sure the "
    "input is not a view (using "
    ".clone() for example) or make your Function only return one Tensor (potentially splitting it "
    "into two Functions: one "
    "doing the inplace that returns a single Tensor and a second one that does the other "
    "operations). You can ask on the "
    "forum https://discuss.pytorch.org/ if you need help to do this change."
)


def function_instantiated(function: type) -> str:
    """Return the warning for an instance of a Function."""
    return (
        f"{function} should not be instantiated. Methods on autograd functions are all static, so "
        "you should invoke them on "
        "the class itself. Instantiating an autograd function will raise an error in a future "
        "version of PyTorch."
    )


def unexpected_keyword(name: str) -> str:
    """Return the message for a keyword that forward does not have by position."""
    return f"forward() got an unexpected keyword argument '{name}'"


def multiple_values(name: str) -> str:
    """Return the message for an argument given by position and by keyword."""
    return f"forward() got multiple values for argument '{name}'"


def missing_argument(name: str, place: int) -> str:
    """Return the message for an argument left out before one given by keyword."""
    return f"forward() missing required argument: '{name}' (position {place})"


def saved_non_tensor(place: int, kind: str) -> str:
    """Return the message for an object other than a tensor among those saved for backward."""
    return f"save_for_backward can only save variables, but argument {place} is of type {kind}"


def gradient_count(node: str, expected: int, found: int) -> str:
    """Return the message for too few or too many gradients."""
    return f"function {node} returned an incorrect number of gradients (expected {expected}, got {found})"


def gradient_of_non_tensor(node: str, position: int) -> str:
    """Return the message for a gradient where the argument was not a tensor."""
    return (
        f"function {node} returned a gradient different than None at position {position}, but the "
        "corresponding forward input "
        "was not a Variable"
    )


def gradient_type(kind: str) -> str:
    """Return the message for a gradient that is not a tensor."""
    return f"expected Variable or None (got {kind})"


def gradient_shape(node: str, place: int, found: Sequence[int], expected: Sequence[int]) -> str:
    """Return the message for a gradient whose shape does not fit."""
    return (
        f"{f'Function {node} returned an ' if node else ''}invalid gradient at index {place} - got "
        f"{list(found)} but expected shape compatible "
        f"with {list(expected)}"
    )


def view_of_function(of: str, *, several: bool, through_base: bool) -> str:
    """Return the message for writing into an output of a function that is a view, or reading
    its node after its base was written.

    Args:
        of: the output number and the function; empty for a view without node.
        several: True for a function that returns several views.
        through_base: True if the base was written.
    """
    event = (
        "its base or another view of its base has been modified"
        if through_base
        else "is being modified"
    )
    reason = (
        "This view is the output of a function that returns multiple views. Such functions do not "
        "allow the output views to be "
        "modified inplace. You should replace the inplace operation by an out-of-place one."
        if several
        else "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
        "handle view+inplace would override the custom backward associated with the custom "
        "Function, leading to incorrect "
        "gradients. This behavior is forbidden. You can fix this by cloning the output of the "
        "custom Function."
    )
    if of:
        return f"{of} is a view and {event} inplace. {reason}"
    return (
        f"A view was created in no_grad mode and {event} inplace with grad mode enabled. {reason}"
    )


def argument_type(node: str, position: int, count: int, value: object) -> str:
    """Return the message for an operand that is no tensor, by the name of the operation's node."""
    names = {1: ("input",), 2: ("input", "other")}.get(count)
    where = "" if names is None else f" {names[position]!r} (position {position + 1})"
    return f"{node.partition('Backward')[0].lower()}(): argument{where} must be Tensor, not {kind_of(value)}"


def argument_type_in_place(node: str, position: int, count: int, value: object) -> str:
    """Return the same message for an in-place form, whose first operand is not counted."""
    where = f" 'other' (position {position + 1})" if count == 2 else ""
    return f"{node.partition('Backward')[0].lower()}_(): argument{where} must be Tensor, not {kind_of(value)}"


def kind_of(value: object) -> str:
    """Return the name of a value's type, as PyTorch writes it."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


# -- torch.func ------------------------------------------------------------------------------------

JVP_OF_CONSTANT = "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True."
RANDOM_IN_VMAP = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness "
    "flags on vmap or perform the randomness operation out of vmap"
)
RANDOM_IN_OLDER_VMAP = (
    "vmap: We do not yet support calling random operations inside of vmap. Please perform random "
    "operations outside of vmap as a workaround"
)
SAME_OF_BATCHED = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an "
    "issue with functorch"
)
DIFFERENT_IN_VMAP = (
    "vmap: randomness='different' does not reach functions of random numbers here; draw them "
    "outside, one for each example, "
    "and map over them"
)
OTHER_TENSORS_READ = (
    "a function given to torch.func reads other tensors that require grad when it runs again; it "
    "must read the same ones, or "
    "get them as arguments"
)


def must_be_tensor(name: str, argument: str, position: int, kind: str) -> str:
    """Return the message for a number where there must be a tensor."""
    return f"{name}(): argument '{argument}' (position {position + 1}) must be Tensor, not {kind}"


ABS_IN_PLACE = "In-place abs is not supported for complex tensors."


def must_be(name: str, argument: str, position: int, wanted: str, kind: str) -> str:
    """Return the message for an argument of another type."""
    return f"{name}(): argument '{argument}' (position {position + 1}) must be {wanted}, not {kind}"


def must_be_named(name: str, argument: str, wanted: str, kind: str) -> str:
    """Return the message for a keyword argument of another type."""
    return f"{name}(): argument '{argument}' must be {wanted}, not {kind}"


def other_out_dtype(wanted: str, found: str) -> str:
    """Return the message for ``dtype=`` beside ``out=`` of another dtype."""
    return f"dtype {wanted} does not match dtype of out parameter ({found})"


NO_PINNED_MEMORY = "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this system."


def must_be_number(name: str, argument: str, kind: str) -> str:
    """Return the message for an object other than a number."""
    return f"{name}(): argument '{argument}' must be Number, not {kind}"


def fill_dimensions(ndim: int) -> str:
    """Return the message for filling with a tensor that is not 0-d."""
    return f"fill_ only supports 0-dimension value tensor but got tensor with {ndim} dimensions."


def invalid_combination(name: str, values: Sequence[object]) -> str:
    """Return the first line for arguments that fit no form of a function."""
    return f"{name}() received an invalid combination of arguments - got ({', '.join(kind_of(v) for v in values)})"


# -- linearize -------------------------------------------------------------------------------------


def linearize_structure(tangents: str, primals: str) -> str:
    """Return the message for tangents in another pytree than the primals."""
    return f"Expected the tangents {tangents} to have the same argspec as the primals {primals}"


def linearize_tangent(place: int, what: str, given: object, wanted: object) -> str:
    """Return the message for a tangent of another shape or dtype than its primal."""
    return f"tangent:{place} with {what} {given} in flattened pytree doesn't match the {what} {wanted} of the corresponding primal."


# -- forward mode ----------------------------------------------------------------------------------

NO_LEVEL = "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
NESTED_LEVELS = "Nested forward mode AD is not supported at the moment"
EXIT_OTHER_LEVEL = "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
EXIT_NO_LEVEL = "Dual level must be a positive number."
DUAL_OF_DUAL = "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
TANGENT_OF_TANGENT = (
    "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
)
DUAL_AMONG_ARRAYS = (
    "a dual tensor meets a traced value or an array that is no tensor: inside functrace's "
    "transforms, tangents are theirs; "
    "use functrace.jvp around them, or tensors throughout"
)
DUAL_IN_TRANSFORM = "a Function meets a dual tensor among traced values: its tangent would be lost; use torch.func.jvp inside torch.func.vmap"
DUAL_CLOSED_OVER = (
    "a function under torch.func (or another transform of functrace's) closes over a dual tensor, "
    "whose tangent would be "
    "lost: pass the dual tensor as an argument, or use torch.func.jvp"
)
TANGENT_NOT_DEFINED = (
    "(new_grad_base.is_floating_point() || new_grad_base.is_complex()) && "
    "(self_base.is_floating_point() || "
    'self_base.is_complex()) INTERNAL ASSERT FAILED at "/__w/pytorch/pytorch/torch/csrc/autograd/autograd_meta.cpp":159, '
    "please report a bug to PyTorch. Expected both tensor and its forward grad to be floating "
    "point or complex"
)
JVP_NOT_IN_PLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the "
    "forward is modifying an input "
    "inplace, then the jvp function must modify the corresponding gradient inplace."
)
JVP_NOT_AS_IS = (
    "An inplace custom Function is not returning the forward mode gradients as-is. If the forward "
    "is modifying an input "
    "inplace, then the jvp function must modify the gradient inplace and return it as-is."
)
JVP_DIRTY_NOT_AN_INPUT = (
    "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is "
    "no need to pass it to "
    "mark_dirty()."
)
JVP_NOT_A_VIEW = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
JVP_OF_ANOTHER_TENSOR = "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
JVP_OF_ANOTHER_BASE = "A custom Function is returning a view but the jvp is not returning a view of the same base as the given grad input."
JVP_UNDEFINED = "cannot call get_autograd_meta() on undefined tensor"
SET_PURE_VIEW = (
    "set_pure_view received an invalid combination of arguments - got (), but expected (bool)"
)
PURE_VIEW = "Pure view custom Function can only have one input Tensor and one output Tensor. Open an issue if you need to support more."


def dual_dtype(what: str, dtype: object) -> str:
    """Return the message for a dual tensor of integers; ``what``: the primal, or the tangent."""
    return f"Expected {what} to be floating point or complex, but got: {dtype}"


def tangent_size(shape: Sequence[int], given: Sequence[int]) -> str:
    """Return the message for a tangent of another shape."""
    return (
        "Trying to set a forward gradient that has a different size than that of the original "
        "Tensor, this is not supported. "
        f"Tensor is of size {list(shape)} while the given forward gradient is of size "
        f"{list(given)}."
    )


def invalid_level(name: str) -> str:
    """Return the message for a level that does not exist."""
    return f"Invalid level given to {name}"


def forward_of_out(name: str) -> str:
    """Return the message for ``out=`` if a tangent would be lost."""
    return f"Trying to use forward AD with {name}_out that does not support it because it is an out= function"


def no_forward(name: str) -> str:
    """Return the message for a dual tensor in an operation without forward mode."""
    return f"Trying to use forward AD with {name} that does not support it because it has not been implemented yet."


def option_must_be_bool(function: str, name: str, kind: str) -> str:
    """Return the message for an option by keyword that is no bool."""
    return f"{function}(): argument '{name}' must be bool, not {kind}"


def jvp_count(expected: int, given: int) -> str:
    """Return the message for a ``jvp`` that returned another number of tangents."""
    return f"Function's jvp returned an invalid number of forward gradients (expected {expected} but got {given})"


def jvp_type(kind: str, place: int) -> str:
    """Return the message for a ``jvp`` that did not return tensors."""
    return f"expected Variable or None (got {kind}) for grad output {place}."


def jvp_of_constant(place: int) -> str:
    """Return the message for a tangent of an output without derivative."""
    return (
        f"Function's jvp returned a gradient at position {place}, but  the corresponding forward "
        "output is not a differentiable "
        "Tensor.You should return None at that position instead."
    )


# -- Jacobians of older programs -------------------------------------------------------------------


def private_jacobian(name: str) -> str:
    """Return the warning of a function that was private to PyTorch's ``gradcheck``."""
    return (
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are "
        "deprecating it and it will be removed in a future version of PyTorch. If you have a "
        "specific use for this or feature request for this to be a stable API, please file us an "
        "issue at https://github.com/pytorch/pytorch/issues/new"
    )


def jacobian_seed(name: str) -> str:
    """Return the message for a ``grad_out`` other than 1."""
    return f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0."


def jacobian_of_complex(name: str) -> str:
    """Return the message for a complex result."""
    return (
        f"Expected output to be non-complex. {name} no longer supports functions that return "
        "complex outputs."
    )


def perturbed_outputs(what: str, place: tuple[int, ...] | None, eps: float, pair: str) -> str:
    """Return the message for a function whose results have another shape or dtype for other
    values.
    """
    where = "" if place is None else f"on index {place} "
    return (
        f"Expected `func` to return outputs with the same {what} when inputs are perturbed "
        f"{where}by {eps}, but got: {pair}."
    )


def rounding_mode(mode: str) -> str:
    """Return the message for an unknown ``rounding_mode``."""
    return f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"


def rounding_mode_type(kind: str) -> str:
    """Return the message for a ``rounding_mode`` that is no string."""
    return f"div() received an invalid combination of arguments - got (Tensor, Tensor, rounding_mode={kind})"


def underivable(function: str) -> str:
    """Return the message for differentiating an operation whose derivative PyTorch does not have."""
    return f"the derivative for '{function}' is not implemented."
