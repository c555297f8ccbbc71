# ruff: noqa: E501 - broken where the message allows it, not at a column
"""Messages about the graph and the engine.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functrace.torch.tensors.dtypes import dtype

BACKWARD_TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to "
    "access saved tensors after "
    "calling backward."
)
NON_SCALAR_ROOT = "grad can be implicitly created only for scalar outputs"
INPUT_WITHOUT_GRAD = "One of the differentiated Tensors does not require grad"
MATERIALIZE_WITHOUT_ALLOW = "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
MATERIALIZE_EDGE = "materialize_grads cannot be used when the given input is a GradientEdge"
GRADIENT_KIND = (
    "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be "
    "true, but got false.  (Could "
    "this error message be improved?  If so, please report an enhancement request to PyTorch.)"
)
LEAF_MOVED = "leaf variable has been moved into the graph interior"
HOOK_REPLACES_NONE = "can't replace a None gradient with a non-None value"
POST_ACCUMULATE_RESULT = "Tensor post accumulate grad hooks should return None."
HOOK_WITHOUT_GRAD = "cannot register a hook on a tensor that doesn't require gradient"
POST_ACCUMULATE_NON_LEAF = "post accumulate grad hooks cannot be registered on non-leaf tensors"
RETAIN_WITHOUT_GRAD = "can't retain_grad on Tensor that has requires_grad=False"
CREATE_GRAPH_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter "
    "and its gradient which can "
    "cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. "
    "If you have to use this "
    "function, make sure to reset the .grad fields of your parameters to None after use to break "
    "the cycle and avoid the leak."
)


def unused_input(index: int) -> str:
    """Return the message for an input of ``grad`` that the outputs do not depend on."""
    return (
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
        "Set allow_unused=True if this "
        "is the desired behavior."
    )


def hook_type(given: str) -> str:
    """Return the message for a tensor hook that did not return a tensor."""
    return f"expected Variable, but hook returned '{given}'"


def hook_tuple(given: str) -> str:
    """Return the message for a node hook that did not return a tuple."""
    return f"expected tuple, but hook returned '{given}'"


def empty_inputs(function: str) -> str:
    """Return the message for no inputs at all."""
    return f"`inputs` argument to `{function}()` cannot be empty."


def inputs_mapping(function: str, given: str) -> str:
    """Return the message for inputs in a mapping that is no dict."""
    return f"`inputs` argument to `{function}()` must be a dict, not {given}. Other Mapping types are not supported."


def input_type(given: str) -> str:
    """Return the message for an input that is neither tensor nor edge."""
    return f"all inputs have to be Tensors or GradientEdges, but got {given}"


def complex_root(dtype: object) -> str:
    """Return the message for a root that is not real and has no gradient."""
    return f"grad can be implicitly created only for real scalar outputs but got {dtype}"


def root_gradient_type(given: str) -> str:
    """Return the message for a root's gradient that is no tensor."""
    return f"gradients can be either Tensors or None, but got {given}"


def complex_root_gradient(found: tuple[int, int], given: object, wanted: object) -> str:
    """Return the message for a root and its gradient of which only one is complex."""
    return (
        "For complex Tensors, both grad_output and output are required to have the same dtype. "
        "Mismatch in dtype: "
        f"grad_output[{found[0]}] has a dtype of {given} and output[{found[1]}] has a dtype of "
        f"{wanted}."
    )


def gradient_layout(shape: Sequence[int], gradient: Sequence[int], variable: Sequence[int]) -> str:
    """Return the warning for a gradient whose strides differ from those of its leaf."""
    return (
        "grad and param do not obey the gradient layout contract. This is not an error, but may "
        "impair performance.\n"
        f"grad.sizes() = {list(shape)}, strides() = {list(gradient)}\n"
        f"param.sizes() = {list(shape)}, strides() = {list(variable)}"
    )


def hook_size(hook: str) -> str:
    """Return the message for a hook that returned a tensor of another shape."""
    return f"hook '{hook}' has changed the size of value"


def hook_dtype(hook: str, before: str, given: str) -> str:
    """Return the message for a hook that returned a tensor of another dtype."""
    return (
        f"hook '{hook}' has changed the type of value (was {_c_type(before)} got {_c_type(given)})"
    )


def hook_count(hook: str, given: int, expected: int) -> str:
    """Return the message for a node hook that returned another number of gradients."""
    return f"hook '{hook}' has returned an incorrect number of values (got {given}, but expected {expected})"


def root_without_grad(index: int) -> str:
    """Return the message for a root of ``backward`` that does not require grad."""
    return f"element {index} of tensors does not require grad and does not have a grad_fn"


def modified_in_place(
    dtype: str,
    shape: Sequence[int],
    output_nr: int | None,
    node: str,
    version: int,
    expected: int,
    anomaly_hint: bool,
) -> str:
    """Return the message for a saved tensor that was overwritten before backward read it."""
    what = f"[{_c_type(dtype)} {list(shape)}]"
    if output_nr is not None:
        what += f", which is output {output_nr} of {node},"
    hint = (
        "enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
        if anomaly_hint
        else "the backtrace further above shows the operation that failed to compute its gradient. The variable in question was "
        "changed in there or anywhere later. Good luck!"
    )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: "
        f"{what} is at version {version}; expected version {expected} instead. Hint: {hint}"
    )


def mismatched_root_gradient(found: tuple[int, int], given: object, expected: object) -> str:
    """Return the message for a gradient passed to ``backward`` with another shape than its
    tensor's.
    """
    return f"Mismatch in shape: grad_output[{found[0]}] has a shape of {given} and output[{found[1]}] has a shape of {expected}."


def assigned_gradient_dtype(given: dtype, wanted: dtype) -> str:
    """Return the message for assigning a gradient of another dtype."""
    return (
        f"attempting to assign a gradient with dtype '{name_in_c(given)}' to a tensor with "
        f"grad_dtype '{wanted.printed}'. The "
        "gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set "
        "the tensor's grad_dtype "
        "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. "
        "Diverging the dtypes of a "
        "tensor and its gradient may break downstream systems that assume they match."
    )


def grad_dtype_of_no_leaf(use: str) -> str:
    """Return the message for ``grad_dtype`` of a computed tensor; ``use`` is accessed or set."""
    return f"grad_dtype can only be {use} on leaf tensors."


def grad_dtype_type(kind: str) -> str:
    """Return the message for a ``grad_dtype`` that is no dtype."""
    return f"grad_dtype must be a torch.dtype or None, but got {kind}"


def grad_dtype_of_gradient(wanted: dtype, given: dtype) -> str:
    """Return the message for a ``grad_dtype`` that differs from that of ``.grad``."""
    return (
        f"Cannot set grad_dtype to '{wanted.printed}' because there is already a gradient with "
        f"dtype 'c10::{given.printed}'. Please clear the gradient (.grad = None) before changing "
        "grad_dtype, or ensure the new grad_dtype matches the existing gradient's dtype."
    )


REQUIRES_GRAD_TYPE = "requires_grad must be a bool"
DELETED_DATA = "Deleting tensor data is not allowed. Delete tensor instead!"
DELETED_GRAD_FN = "Deletion of _grad_fn not allowed. Detach tensor instead!"
ASSIGNED_GRAD_FN = "_grad_fn can be only set to None"
DELETED_HOOKS = "Deletion of _backwards_hooks not allowed!"


def assigned_gradient_shape(given: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the message for assigning a gradient of another shape."""
    return (
        f"attempting to assign a gradient of size '{list(given)}' to a tensor of size "
        f"'{list(wanted)}'. Please ensure that the "
        "gradient and the tensor are the same size"
    )


def position_among_bools(name: str) -> str:
    """Return the message for ``argmax`` of bools."""
    return f"{name}(): does not support bool input"


def mean_of_integers(dtype: str, given: str = "Input") -> str:
    """Return the message for the mean of integers, or for a mean in integers (``given`` is then
    "Optional").
    """
    return f"mean(): could not infer output dtype. {given} dtype must be either a floating point or complex dtype. Got: {dtype}"


def reduction_of_nothing(name: str, dim: int | None) -> str:
    """Return the message for the extreme of no elements."""
    if dim is not None:
        return f"{name}(): Expected reduction dim {dim} to have non-zero size."
    end = "." if name.startswith("arg") else " Specify the reduction dim with the 'dim' argument."
    return f"{name}(): Expected reduction dim to be specified for input.numel() == 0{'' if end == '.' else '.'}{end}"


def complex_input(name: str) -> str:
    """Return the message for an extreme of complex numbers along a dimension."""
    return f"{name}(): does not support complex input"


def product_shapes(name: str, a: Sequence[int], b: Sequence[int]) -> str:
    """Return the message for operands of a matrix product whose shapes do not fit."""
    if name in ("mm", "addmm") and len(a) == len(b) == 2:
        return f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})"
    if name == "mm":
        return "self must be a matrix" if len(a) != 2 else "mat2 must be a matrix"
    if name == "mv" and len(a) == 2 and len(b) == 1:
        return f"size mismatch, got input ({a[0]}), mat ({a[0]}x{a[1]}), vec ({b[0]})"
    if name == "dot" and len(a) == len(b) == 1:
        return f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of elements, but got {a[0]} and {b[0]} elements respectively"
    if name == "dot":
        return f"1D tensors expected, but got {len(a)}D and {len(b)}D tensors"
    if name == "bmm" and len(a) == len(b) == 3:
        return f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: [{b[0]}, {b[1]}]."
    return f"{name}: the operands have {len(a)} and {len(b)} dimensions"


def product_dtypes(name: str, a: dtype, b: dtype) -> str:
    """Return the message for operands of a matrix product with different dtypes."""
    if name == "dot":
        return (
            f"dot : expected both vectors to have same dtype, but found {a.printed} and {b.printed}"
        )
    if name == "bmm":
        return scalar_types(a.printed, b.printed)
    if name == "mv":
        return f"addmv input tensors must have the same dtype, but got {b.printed}, {a.printed}, and {b.printed}"
    return f"expected m1 and m2 to have the same dtype, but got: {name_in_c(a)} != {name_in_c(b)}"


def addmm_dtypes(a: str, b: str, *, of_matrices: bool) -> str:
    """Return the message for a product with a summand (or another matrix) of another dtype."""
    return f"{'mat1' if of_matrices else 'self'} and mat2 must have the same dtype, but got {a} and {b}"


def scalar_types(a: str, b: str) -> str:
    """Return the message for a second operand of another dtype."""
    return f"expected scalar type {a} but found {b}"


def lerp_dtype(name: str, wanted: dtype, found: dtype) -> str:
    """Return the message for an end or a weight of another dtype."""
    return f"expected dtype {name_in_c(wanted)} for `{name}` but got dtype {name_in_c(found)}"


def take_along_ranks(input: int, indices: int) -> str:
    """Return the message for positions of another number of dimensions."""
    return (
        "torch.take_along_dim(): input and indices should have the same number of dimensions, "
        f"but got {input} dimensions for input, and {indices} dimensions for indices"
    )


FILL_WITH_COMPLEX = "index_fill_(): Converting complex Scalar to non-complex type is not supported"
MESHGRID_DTYPES = "meshgrid expects all tensors to have the same dtype"


def _c_type(printed: str) -> str:
    return f"CPU{printed}Type" if printed.startswith("Complex") else f"torch.{printed}Tensor"


def name_in_c(dtype: Any) -> str:
    """Return the name of a dtype in C++."""
    names = {
        "float32": "float", "float64": "double", "int64": "long int", "int32": "int",
        "float16": "c10::Half", "bfloat16": "c10::BFloat16",
        "uint8": "unsigned char", "int8": "signed char", "int16": "short int",
        "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>",
    }  # fmt: skip
    return names.get(dtype.name, str(dtype.name))


def integer_out_of_bounds(bound: str, dtype: Any) -> str:
    """Return the message for a bound of random integers that the dtype does not hold."""
    return f"{bound} is out of bounds for {name_in_c(dtype)}"


def integer_loses_digits(bound: str, dtype: Any, digits: int) -> str:
    """Return the warning for a bound of random integers beyond the exact integers of a dtype."""
    return (
        f"{bound} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
        f"{name_in_c(dtype)} can support discrete uniform distribution only within this range. This "
        "warning will become an error in version 1.7 release, please fix the code in advance"
    )


def class_dtype(dtype: str) -> str:
    """Return the message for class positions of another dtype."""
    return f"expected target dtype to be Long or Byte, but got {dtype}"


def target_size(given: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the warning for a target of another shape."""
    return (
        f"Using a target size (torch.Size({list(wanted)})) that is different to the input size "
        f"(torch.Size({list(given)})). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have "
        "the same size."
    )


def invalid_shape(shape: Sequence[int], count: int) -> str:
    """Return the message for a shape with another number of elements."""
    return f"shape '{list(shape)}' is invalid for input of size {count}"


def expand_rank(dtype: str, old: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the message for expanding to fewer dimensions."""
    return (
        f"expand({_c_type(dtype)}{{{list(old)}}}, size={list(wanted)}): the number of sizes "
        f"provided ({len(wanted)}) must be "
        f"greater or equal to the number of dimensions in the tensor ({len(old)})"
    )


def expand_leading(size: int, dim: int) -> str:
    """Return the message for expanding to an unknown leading size."""
    return f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing dimension {dim}"


def permute_rank(rank: int, count: int) -> str:
    """Return the message for an order of another number of dimensions."""
    return (
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
        "of the desired ordering of "
        f"dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {count}"
    )


def expand_size(
    size: int, old_size: int, dim: int, wanted: Sequence[int], old: Sequence[int]
) -> str:
    """Return the message for expanding a dimension that has another size than 1."""
    return (
        f"The expanded size of the tensor ({size}) must match the existing size ({old_size}) at "
        f"non-singleton dimension {dim}.  "
        f"Target sizes: {list(wanted)}.  Tensor sizes: {list(old)}"
    )


def index_put_dtypes(destination: str, source: str) -> str:
    """Return the message for writing elements of another dtype by index tensors."""
    return (
        f"Index put requires the source and destination dtypes match, got {destination} for the "
        f"destination and {source} for "
        "the source."
    )


def put_shape(given: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the message for values whose shape is not that of the target."""
    return f"shape mismatch: value tensor of shape {list(given)} cannot be broadcast to indexing result of shape {list(wanted)}"


def matmul_of_numbers(a: int, b: int) -> str:
    """Return the message for ``matmul`` with a 0-d operand."""
    return f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"


ONLY_INPUTS = (
    "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate "
    "gradient for other parts of the "
    "graph, please use torch.autograd.backward."
)
BATCHED_SCALAR = (
    "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor "
    "of dimensionality 0 so expected "
    "in_dim to satisfy 0 <= in_dim < 0."
)
LEAF_OF_GRAD = (
    "A leaf node was passed to _will_engine_execute_node but we are currently running "
    "autograd.grad(). This is currently not "
    "supported."
)
ORDER_WITH_THREADS = (
    "get_current_graph_task_execution_order expects the current backward to be executed with "
    "multithreading disabled, e.g. by "
    "running:\n\n>>> with torch.autograd.set_multithreading_enabled(False):\n...     "
    "torch.autograd.grad(...)\n"
)
CALLBACK_OUTSIDE = "Final callbacks can only be installed during backward pass."
MULTI_HOOK_OUTSIDE = "expected this hook to be called inside a backward call"
NO_GRADIENT_FUNCTION = "Expected gradient function to be set"
EDGE_WITHOUT_GRAD = (
    "It is not possible to get the gradient edge for a Tensor that does not require gradients"
)
INCREMENT_VERSION = "increment_version expect a Iterable[Tensor] as input"
PRESERVED_VERSIONS = "Expected tensors to be a tuple"
CALLED_WITH_KEYWORDS = "keyword arguments are not supported"
BUDGET_OUTSIDE = (
    "torch.autograd.graph.region_activation_memory_budget can only be used inside a torch.compile "
    "region; it has no effect in "
    "eager mode."
)


def batch_sizes(sizes: Sequence[int]) -> str:
    """Return the message for batches of several sizes."""
    return f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"


def empty_batch(shape: Sequence[int]) -> str:
    """Return the message for a batch of no gradients, and for a number."""
    if not shape:
        return "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"  # fmt: skip
    return "index 0 is out of bounds for dimension 0 with size 0"


def mismatched_batch(places: tuple[int, int], shape: object, expected: object) -> str:
    """Return the message for a batch of gradients of another shape than their root."""
    return (
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
        "batch dimension. The sizes of the "
        "remaining dimensions are expected to match the shape of corresponding output, but a "
        "mismatch was detected: "
        f"grad_output[{places[0]}] has a shape of {shape} and output[{places[1]}] has a shape of "
        f"{expected}. If you only want some "
        "tensors in `grad_output` to be considered batched, consider using vmap."
    )


ANOMALY_ENABLED = "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging."


def anomaly_flag(name: str, place: int, kind: str) -> str:
    """Return the message for a flag of anomaly mode that is no bool."""
    return f"set_anomaly_enabled(): argument '{name}' (position {place}) must be bool, not {kind}"


def no_forward_information(name: str) -> str:
    """Return the warning for a node that failed and was made outside of anomaly mode."""
    return (
        f"Error detected in {name}. No forward pass information available. Enable detect anomaly "
        "during forward pass for more "
        "information."
    )


def forward_traceback(name: str, stack: str, *, is_parent: bool) -> str:
    """Return the warning with the origin of a node that failed, or of the node that ran when that
    one was made.
    """
    if is_parent:
        head = f"\n\nPrevious calculation was induced by {name}. Traceback of forward call that induced the previous calculation:"
    else:
        head = f"Error detected in {name}. Traceback of forward call that caused the error:"
    return f"{head}\n{stack}"


def nan_gradient(name: str, place: int) -> str:
    """Return the message for a gradient that is NaN."""
    return f"Function '{name}' returned nan values in its {place}th output."


MUTATION_OUTSIDE = "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was originally recorded."
MUTATION_NESTED = "allow_mutation_on_saved_tensors contexts cannot be nested"


def outside_of_passes(name: str) -> str:
    """Return the message for a query of the running backward pass if there is none."""
    return f"{name} should only be called during the backward pass"


def not_a_node(kind: str) -> str:
    """Return the message for a query about an object that is no node."""
    return f"_will_engine_execute_node expects an grad_fn, but got {kind}"


def multi_grad_mode(mode: object) -> str:
    """Return the message for an invalid mode of a hook on several tensors."""
    return f"Expects mode to be one of ('all', 'any') but got {mode}"


def budget_type(kind: str) -> str:
    """Return the message for a budget that is no number."""
    return f"torch.autograd.graph.region_activation_memory_budget: expects a float, got {kind}"


def budget_range(budget: float) -> str:
    """Return the message for a budget outside [0, 1]."""
    return f"torch.autograd.graph.region_activation_memory_budget: must be in [0, 1], got {budget}"


def flag_type(function: str, kind: str) -> str:
    """Return the message for a flag that is no bool."""
    return f"{function}(): argument 'enabled' (position 1) must be bool, not {kind}"
