# ruff: noqa: E501 - broken where the message allows it, not at a column
"""Messages about saved tensors, their hooks, and checkpoint.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# -- saved tensors and their hooks -----------------------------------------------------------------

SAVED_TENSOR_FROM_PYTHON = "Trying to create a SavedTensor object from Python is forbidden."
HOOKS_TWICE = (
    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one "
    "pair of hooks is allowed at a "
    "time."
)
HOOKS_ON_NONE = "Calling register_hooks on a saved tensor with value None is forbidden"
HOOKS_ON_FREED = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values "
    "of the graph are freed when "
    "you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
    "through the graph a second "
    "time or if you need to access saved variables after calling backward."
)
PACK_IN_PLACE = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack "
    "hook cannot be modified by "
    "in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
    "need to perform in-place "
    "operations on the input to a pack hook."
)
UNPACKED_WITHOUT_NODE = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is "
    "not supported, please use "
    "out-of-place `.detach()` instead"
)


def unpacked_type(name: str) -> str:
    """Return the message for an unpack hook that returned no tensor."""
    return (
        f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {name}"
    )


def register_hooks_arguments(saved: object, hooks: Sequence[Any]) -> str:
    """Return the message for ``register_hooks`` with anything but two callables."""
    return (
        "register_hooks(): incompatible function arguments. The following argument types are "
        "supported:\n"
        "    1. (self: torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: "
        "collections.abc.Callable) -> None\n\n"
        f"Invoked with: {', '.join(repr(argument) for argument in (saved, *hooks))}"
    )


def push_hooks_arguments(*hooks: object) -> str:
    """Return the message for a pair of hooks that are not both callable."""
    return (
        "_push_saved_tensors_default_hooks(): incompatible function arguments. "
        "The following argument types are supported:\n"
        "    1. (arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
        f"Invoked with: {', '.join(repr(hook) for hook in hooks)}"
    )


NO_HOOKS_TO_POP = (
    'is_initialized && !tls.stack.empty() INTERNAL ASSERT FAILED at "/__w/pytorch/pytorch/aten/src/ATen/SavedTensorHooks.cpp"'
    ":69, please report a bug to PyTorch. "
)


def set_versions_arguments(*given: object) -> str:
    """Return the message for setting versions with arguments that are no tensors, or no numbers."""
    return (
        "_unsafe_set_version_counter(): incompatible function arguments. The following argument "
        "types are supported:\n"
        "    1. (arg0: collections.abc.Sequence[torch.Tensor], "
        "arg1: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None\n\n"
        f"Invoked with: {', '.join(repr(argument) for argument in given)}"
    )


def set_versions_count(tensors: int, versions: int) -> str:
    """Return the message for another number of versions than of tensors."""
    return f"tensors_len={tensors}, versions_len={versions}"


def negative_version(version: int) -> str:
    """Return the message for a negative version."""
    return f"Cannot set a version_counter to a value below 0: {version}"


def run_backward_tuple(name: str, kind: str) -> str:
    """Return the message for roots, or their gradients, that are no tuple."""
    return f"{name} argument is expected to be a tuple, but got {kind}"


RUN_BACKWARD_INPUTS = "inputs to run_backward must be a tuple"
RUN_BACKWARD_NOTHING = (
    'accumulate_grad || !outputs.empty() INTERNAL ASSERT FAILED at "/__w/pytorch/pytorch/torch/csrc/autograd/engine.cpp":1321, '
    "please report a bug to PyTorch. grad requires non-empty inputs."
)


def run_backward_count(tensors: int, gradients: int) -> str:
    """Return the message for another number of gradients than of roots."""
    return f"got {tensors} tensors and {gradients} gradients"


def root_type(place: int) -> str:
    """Return the message for a root that is neither a tensor nor an edge."""
    return f"element {place} of tensors tuple is neither a Tensor nor a GradientEdge"


def root_gradient_missing(place: int) -> str:
    """Return the message for a root that needs a gradient and has none."""
    return f"element {place} of gradients tuple is None, but the corresponding Tensor requires grad"


def root_gradient_kind(place: int) -> str:
    """Return the message for a gradient of a root that is no tensor."""
    return f"element {place} of gradients tuple is not a Tensor or None"


VOLATILE_VARIABLE = (
    "volatile was removed and now has no effect. Use `with torch.no_grad():` instead."
)
VOLATILE_WITH_GRAD = "Variable can't be volatile and require_grad at the same time!"


def variable_data(kind: str) -> str:
    """Return the message for a ``Variable`` of something else than a tensor."""
    return f"Variable data has to be a tensor, but got {kind}"


def generator_seed(kind: str) -> str:
    """Return the message for a seed that is no integer."""
    return f"manual_seed expected a long, but got {kind}"


PAIRS_OF_REAL = "view_as_real is only supported for complex tensors"
COMPLEX_OF_SCALAR = "Input tensor must have one or more dimensions"
COMPLEX_LAST_SIZE = "Tensor must have a last dimension of size 2"
COMPLEX_LAST_STRIDE = "Tensor must have a last dimension with stride 1"
COMPLEX_STRIDE = "Tensor must have a stride divisible by 2 for all but last dimension"
COMPLEX_OFFSET = "Tensor must have a storage_offset divisible by 2"


def complex_of_kind(kind: str) -> str:
    """Return the message for dtypes that cannot be parts of complex numbers."""
    return f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {kind}"


UNFLATTEN_EMPTY = "unflatten: sizes must be non-empty"


def unflatten_sizes(sizes: Sequence[int], dim: int, size: int) -> str:
    """Return the message for sizes whose product is not the size of the dimension to split."""
    return f"unflatten: Provided sizes {sizes} don't multiply up to the size of dim {dim} ({size}) in the input tensor"


def forward_enabled_type(kind: str) -> str:
    """Return the message for a forward-mode flag that is no bool."""
    return f"enabled must be a bool (got {kind})"


INCREMENT_OF_NO_TENSOR = "increment_version expects each element of the iterable to be a tensor"


def not_a_variable(place: int) -> str:
    """Return the message for an operand of ``DelayedError`` or ``UndefinedGrad`` that is no
    tensor.
    """
    return f"argument {place} is not a Variable"


def operand_count(expected: int, got: int) -> str:
    """Return the message for another number of operands."""
    return f"expected {expected} arguments, got {got} instead"


# -- checkpoint ------------------------------------------------------------------------------------

REENTRANT_UNDECIDED = (
    "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in "
    "PyTorch 2.9, calling "
    "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, "
    "but if you need to preserve "
    "the current default behavior, you can pass use_reentrant=True. Refer to docs for more details "
    "on the differences between "
    "the two variants."
)
SEQUENTIAL_UNDECIDED = (
    "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed "
    "explicitly. In version 2.9 "
    "we will raise an exception if use_reentrant is not passed. use_reentrant=False is "
    "recommended, but if you need to "
    "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for "
    "more details on the "
    "differences between the two variants."
)
REENTRANT_OPTIONS = "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
REENTRANT_WITHOUT_INPUTS = "None of the inputs have requires_grad=True. Gradients will be None"
REENTRANT_PRUNED = (
    "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
    "`inputs` parameter to "
    ".backward(). To resolve this error, you can either set use_reentrant=False, or call "
    ".backward() without passing the "
    "`inputs` argument."
)
REENTRANT_WITHOUT_OUTPUTS = (
    "none of output has requires_grad=True, this checkpoint() is not necessary"
)
DEBUG_WITH_CONTEXTS = "debug=True is incompatible with non-default context_fn"
CHECKPOINT_TIP = """
Tip: To see a more detailed error message, either pass `debug=True` to
`torch.utils.checkpoint.checkpoint(...)` or wrap the code block
with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to
enable checkpoint\u2011debug mode globally.

If this error occurs under torch.compile with automatic_dynamic_shapes enabled,
it may be because the recomputation selected a different compiled graph than the
forward pass (e.g., a dynamic graph instead of the original static graph).
To fix this, either:
  - Use torch._dynamo.mark_dynamic() to explicitly mark varying dimensions as
    dynamic upfront, avoiding the static-to-dynamic transition.
  - Call torch._C._dynamo.eval_frame._set_lru_cache(False) to disable LRU cache
    reordering, which can change which graph is checked first between forward
    and recompute.
See https://github.com/pytorch/pytorch/issues/166926 for more details and
workaround examples.
"""
SAVED_MORE = (
    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
    "original forward pass.\n" + CHECKPOINT_TIP
)
SAVED_AFTER_STOP = "Unexpected state: target_frame.early_stop is set"
CONTEXT_SUPPRESSED = (
    "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception "
    "raised during the checkpointed "
    "forward. This is not supported because checkpoint cannot return a value for a failed forward."
)
CONTEXTS_AMONG_TRACED = (
    "checkpoint among traced values: context_fn may return the contexts of "
    "create_selective_checkpoint_contexts; others would not "
    "be entered again, since functrace does not call the function a second time. Use "
    "functrace.checkpoint with a residual policy."
)
SELECTED_OUT = "selective checkpointing among traced values: out= writes where no policy is called; use the function's result"
NO_OTHER_DEVICE = (
    "set_device_states: there is no device but the CPU, whose generator torch.set_rng_state sets"
)
CACHED_MUTATED = "Tensor cached during selective activation checkpoint has been mutated"
EXTRA_BACKWARD = (
    "Trying to backward an extra time. You are only allowed to backward once on any region "
    "computed under selective activation "
    "checkpoint."
)


def nested_groups(group: object) -> str:
    """Return the message for a nested ``GraphExecGroup``."""
    return f"GraphExecGroup contexts cannot be nested. Already inside group {group}"


def not_in_storage(func: object, place: int | None = None) -> str:
    """Return the message for an operation of a rerun that the first run did not have."""
    hint = "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that changed "
    if place is None:
        return f"{func} encountered during backward but not found in storage. {hint}between forward and backward."
    return f"{func} invocation index {place} encountered during backward but not found in storage. {hint}between forward and backward."


def not_an_overload(op: object, *, is_packet: bool) -> str:
    """Return the message for an element of a list of operations that is none."""
    hint = (
        "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
        "`torch.ops.aten.mm`, change it to "
        "`torch.ops.aten.mm.default`."
    )
    kind = f"<class 'torch._ops.{type(op).__name__}'>" if is_packet else str(type(op))
    return f"Expected op in `op_list` to be an OpOverload but got: {op} of type {kind}. {hint if is_packet else ''}"


def unpacked_twice(*, in_group: bool) -> str:
    """Return the message for a checkpoint's tensor that is read twice in one backward pass."""
    group = (
        "Performing two backward calls that overlap (i.e. require the same saved activation in "
        "order to compute gradients) is not "
        "allowed while under the torch.utils.checkpoint.GraphExecGroup context. "
    )
    return (
        "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked "
        "once. "
        f"{group if in_group else ''}If you are calling ctx.saved_tensors in backward, make sure "
        "to do so only once. Otherwise "
        "please open an issue with details on your use case."
    )


def saved_fewer(before: int, now: int) -> str:
    """Return the message for a rerun that saved another number of tensors."""
    return (
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        "forward and recomputation.\n"
        f"Number of tensors saved during forward: {before}\nNumber of tensors saved during "
        f"recomputation: {now}.\n{CHECKPOINT_TIP}"
    )


def saved_differently(cases: Sequence[tuple[int, object, object]]) -> str:
    """Return the message for a rerun that saved other tensors: position, and compared properties
    of both.
    """
    lines = "".join(
        f"tensor at position {k}:\nsaved metadata: {saved}\nrecomputed metadata: {again}\n"
        for k, saved, again in cases
    )
    return (
        "torch.utils.checkpoint: Recomputed values for the following tensors have different "
        "metadata than during the forward "
        f"pass.\n{lines}.\n{CHECKPOINT_TIP}"
    )


def checkpoint_logs(
    forward_traces: str, recompute_traces: str, forward_ops: str, recompute_ops: str
) -> str:
    """Return the output of ``debug=True`` for both runs."""
    wave, line = f"+{'~' * 78}+", f"+{'-' * 78}+"
    titles = [
        "        1. Stack traces of the operators that ran in the original forward     ",
        "        2. Stack traces of the operators that ran during recomputation        ",
        "       3. Log of operators in the original forward and recomputation          ",
    ]
    heads = [f"{wave}\n|{title}|\n{line}\n" for title in titles]
    return (
        " An error happened while unpacking tensors; dumping logs of latest computation\n"
        "because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.\n"
        "Scroll all the way down for guidance on how to navigate these logs.\n\n"
        f"{heads[0]}\n{forward_traces}\n{heads[1]}\n{recompute_traces}\n{heads[2]}"
        "(Scroll up to correlate stack traces with each operation listed below. This\n"
        " helps identify their source in the code.)\n\n"
        'IMPORTANT: Differences in "detach" calls between the original forward and the\n'
        "           recomputation are expected. They are introduced by the checkpointing\n"
        "           mechanism and can be ignored.\n\n"
        f"Operations executed during the original forward:\n\n{forward_ops}\n\n"
        f"Operations executed during recomputation:\n\n{recompute_ops}\n\n{line}\n{_GUIDANCE}"
    )


_GUIDANCE = """\
 ERROR: Detected non-determinism while running activation checkpointing

 You are seeing this error because you passed `debug=True` to checkpoint and
 tensors to be saved during the original forward and differ between those saved
 during recomputation. This can happen if different operators were ran in the
 original forward and in the recomputation.

 To identify where the mismatch may be coming from, you can do the following:

 1) Compare the operators ran during original forward and recomputation to
    see where they differ. These operators are printed above in the order they
    were executed.

 2) Review the stack trace for each operator to locate its invocation source.
    Each operator's stack trace is printed in their execution order.

 Note that the logs can be quite long. Here's how they are structured:
 (Tip: you can Ctrl-f for these headers)

 1. Stack traces of the operators that ran in the original forward
 2. Stack traces of the operators that ran during recomputation
 3. Log of operators in the original forward and recomputation
 4. Error message                                             <--- You are here
--------------------------------------------------------------------------------
"""


def determinism_check(allowed: Sequence[str], given: str) -> str:
    """Return the message for an unknown ``determinism_check``."""
    return f"determinism_check should be one of {list(allowed)}, but got {given}"


def unexpected_keywords(names: Sequence[str]) -> str:
    """Return the message for keyword arguments that the reentrant variant does not support."""
    return f"Unexpected keyword arguments: {','.join(names)}"
