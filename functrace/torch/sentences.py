# ruff: noqa: E501 - broken where the sentence allows it, not at a column
"""PyTorch's error sentences, word for word: people's own tests match on them.

Constants where nothing varies, functions of the facts otherwise.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functrace.torch.dtypes import dtype

# -- tensors ------------------------------------------------------------------------------------------------

LEAF_IN_PLACE = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF_IN_PLACE = "a view of a leaf Variable that requires grad is being used in an in-place operation."
REQUIRES_GRAD_DTYPE = "only Tensors of floating point dtype can require gradients"
MADE_WITH_GRAD_DTYPE = "Only Tensors of floating point and complex dtype can require gradients"
REQUIRES_GRAD_OFF_NON_LEAF = (
    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
    "doesn't require differentiation use var_no_grad = var.detach()."
)
REQUIRES_GRAD_ON_NON_LEAF = "you can only change requires_grad flags of leaf variables."
NUMPY_OF_REQUIRES_GRAD = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
AMBIGUOUS_BOOL = "Boolean value of Tensor with more than one value is ambiguous"
EMPTY_BOOL = "Boolean value of Tensor with no values is ambiguous"
LEN_OF_SCALAR = "len() of a 0-d tensor"
ITERATION_OVER_SCALAR = "iteration over a 0-d tensor"
DEEPCOPY_NON_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If you were "
    "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
    "https://github.com/pytorch/pytorch/pull/103001"
)
OVERLAPPING_WRITE = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation."
)
OVERLAPPING_OPERAND = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
FILL_BY_BYTES = "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
VIEW_NOT_COMPATIBLE = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
    "subspaces). Use .reshape(...) instead."
)
DETACH_VIEW = (
    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and "
    "gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these "
    "gradients. To fix this error, please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
)
INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked "
    "by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use "
    "`torch.no_grad()` instead of `torch.inference_mode()`."
)
INFERENCE_IN_PLACE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before "
    "doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)
INFERENCE_VERSION = "Inference tensors do not track version counter."
INFERENCE_REQUIRES_GRAD = "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
GRAD_OF_NON_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated "
    "during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use "
    ".retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf "
    "Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information."
)


def item_of_many(count: int) -> str:
    """The sentence of ``.item()`` on a tensor with other than one element."""
    return f"a Tensor with {count} elements cannot be converted to Scalar"


def cannot_broadcast(a: Sequence[int], b: Sequence[int]) -> str:
    """The sentence for shapes that do not broadcast together."""
    for k in range(1, min(len(a), len(b)) + 1):
        if a[-k] != b[-k] and a[-k] != 1 and b[-k] != 1:
            dim = max(len(a), len(b)) - k
            return (
                f"The size of tensor a ({a[-k]}) must match the size of tensor b ({b[-k]}) at non-singleton dimension {dim}"
            )
    return f"shapes {list(a)} and {list(b)} do not broadcast"


def output_shape(out: Sequence[int], broadcast: Sequence[int]) -> str:
    """The sentence for an in-place operation whose result is larger than its tensor."""
    return f"output with shape {list(out)} doesn't match the broadcast shape {list(broadcast)}"


def out_with_grad(name: str) -> str:
    """The sentence for ``out=`` where a gradient would be lost."""
    return (
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires "
        "grad."
    )


def out_resized(shape: Sequence[int], wanted: Sequence[int]) -> str:
    """The warning for a tensor of another shape given as ``out=``."""
    return (
        f"An output with one or more elements was resized since it had shape {list(shape)}, which does not match the required "
        f"output shape {list(wanted)}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized "
        "unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
        "t.resize_(0)."
    )


def result_cast(given: str, wanted: str) -> str:
    """The sentence for an in-place operation whose result has a dtype of a higher kind."""
    return f"result type {given} can't be cast to the desired output type {wanted}"


def dimension_range(dim: int, ndim: int) -> str:
    """The sentence for a dimension that does not exist."""
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"


SCALAR_OF_REQUIRES_GRAD = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using tensor.detach() "
    "first."
)
TRANSPOSED = (
    "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a "
    "future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
    "reverse the dimensions of a tensor."
)
VOLATILE = "volatile was removed (Variable.volatile is always False)"
DECORATED_CLASS = (
    "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or methods. "
    "To preserve the current behavior of class decoration, you can directly decorate the `__init__` method and nothing else."
)


def is_inference_argument(kind: str) -> str:
    """Return what is raised for something else than a tensor."""
    return f"is_inference(): argument 'input' (position 1) must be Tensor, not {kind}"


def no_grad_view(kind: str, of: str = "", through_base: bool = False) -> str:
    """The sentence for writing, under grad mode, to a view that was made without, or to its base; ``of``: to a view of it."""
    event = "its base or another view of its base has been" if through_base else "is being"
    view = f"{of} is a view of a view which was created" if of else "A view was created"
    mode, block = ("normal mode", "inference_mode") if kind == "inference" else ("with grad mode enabled", kind)
    return (
        f"{view} in {kind} mode and {event} modified inplace {'in ' * (kind == 'inference')}{mode}. Given that this use case is "
        "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either "
        f"both inside the {block} block (if you don't want the inplace to be tracked) or both outside (if you want the inplace "
        "to be tracked)."
    )


# -- the graph and the engine ---------------------------------------------------------------------------------

BACKWARD_TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after "
    "calling backward."
)
NON_SCALAR_ROOT = "grad can be implicitly created only for scalar outputs"
INPUT_WITHOUT_GRAD = "One of the differentiated Tensors does not require grad"
MATERIALIZE_WITHOUT_ALLOW = (
    "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
)
MATERIALIZE_EDGE = "materialize_grads cannot be used when the given input is a GradientEdge"
GRADIENT_KIND = (
    "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, but got false.  (Could "
    "this error message be improved?  If so, please report an enhancement request to PyTorch.)"
)
LEAF_MOVED = "leaf variable has been moved into the graph interior"
HOOK_REPLACES_NONE = "can't replace a None gradient with a non-None value"
POST_ACCUMULATE_RESULT = "Tensor post accumulate grad hooks should return None."
HOOK_WITHOUT_GRAD = "cannot register a hook on a tensor that doesn't require gradient"
POST_ACCUMULATE_NON_LEAF = "post accumulate grad hooks cannot be registered on non-leaf tensors"
RETAIN_WITHOUT_GRAD = "can't retain_grad on Tensor that has requires_grad=False"
CREATE_GRAPH_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can "
    "cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
    "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def unused_input(index: int) -> str:
    """The sentence for an input of ``grad`` that the outputs do not depend on."""
    return (
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set allow_unused=True if this "
        "is the desired behavior."
    )


def hook_type(given: str) -> str:
    """The sentence for a tensor hook that returned something else than a tensor."""
    return f"expected Variable, but hook returned '{given}'"


def hook_tuple(given: str) -> str:
    """The sentence for a node hook that returned something else than a tuple."""
    return f"expected tuple, but hook returned '{given}'"


def empty_inputs(function: str) -> str:
    """The sentence for no inputs at all."""
    return f"`inputs` argument to `{function}()` cannot be empty."


def inputs_mapping(function: str, given: str) -> str:
    """The sentence for inputs in a mapping that is no dict."""
    return f"`inputs` argument to `{function}()` must be a dict, not {given}. Other Mapping types are not supported."


def input_type(given: str) -> str:
    """The sentence for an input that is neither tensor nor edge."""
    return f"all inputs have to be Tensors or GradientEdges, but got {given}"


def complex_root(dtype: object) -> str:
    """The sentence for a root that is not real and has no gradient given."""
    return f"grad can be implicitly created only for real scalar outputs but got {dtype}"


def root_gradient_type(given: str) -> str:
    """The sentence for a root's gradient that is no tensor."""
    return f"gradients can be either Tensors or None, but got {given}"


def complex_root_gradient(found: tuple[int, int], given: object, wanted: object) -> str:
    """The sentence for a root and its gradient of which only one is complex."""
    return (
        "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
        f"grad_output[{found[0]}] has a dtype of {given} and output[{found[1]}] has a dtype of {wanted}."
    )


def gradient_layout(shape: Sequence[int], gradient: Sequence[int], variable: Sequence[int]) -> str:
    """The warning for a gradient that lies in memory in another order than its leaf."""
    return (
        "grad and param do not obey the gradient layout contract. This is not an error, but may impair performance.\n"
        f"grad.sizes() = {list(shape)}, strides() = {list(gradient)}\n"
        f"param.sizes() = {list(shape)}, strides() = {list(variable)}"
    )


def hook_size(hook: str) -> str:
    """The sentence for a hook that returned a tensor of another shape."""
    return f"hook '{hook}' has changed the size of value"


def hook_dtype(hook: str, before: str, given: str) -> str:
    """The sentence for a hook that returned a tensor of another dtype."""
    return f"hook '{hook}' has changed the type of value (was {_c_type(before)} got {_c_type(given)})"


def hook_count(hook: str, given: int, expected: int) -> str:
    """The sentence for a node hook that returned another number of gradients."""
    return f"hook '{hook}' has returned an incorrect number of values (got {given}, but expected {expected})"


def root_without_grad(index: int) -> str:
    """The sentence for a root of ``backward`` that nothing was recorded for."""
    return f"element {index} of tensors does not require grad and does not have a grad_fn"


def modified_in_place(
    dtype: str, shape: Sequence[int], output_nr: int | None, node: str, version: int, expected: int, anomaly_hint: bool
) -> str:
    """The sentence for a saved tensor that was overwritten before backward read it."""
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
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{what} is at version {version}; expected version {expected} instead. Hint: {hint}"
    )


def mismatched_root_gradient(found: tuple[int, int], given: object, expected: object) -> str:
    """The sentence for a gradient handed to ``backward`` with another shape than its tensor's."""
    return f"Mismatch in shape: grad_output[{found[0]}] has a shape of {given} and output[{found[1]}] has a shape of {expected}."


def assigned_gradient_dtype(given: dtype, wanted: dtype) -> str:
    """The sentence for assigning a gradient of another dtype."""
    return (
        f"attempting to assign a gradient with dtype '{_c_name(given)}' to a tensor with grad_dtype '{wanted.printed}'. The "
        "gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype "
        "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a "
        "tensor and its gradient may break downstream systems that assume they match."
    )


def assigned_gradient_shape(given: Sequence[int], wanted: Sequence[int]) -> str:
    """The sentence for assigning a gradient of another shape."""
    return (
        f"attempting to assign a gradient of size '{list(given)}' to a tensor of size '{list(wanted)}'. Please ensure that the "
        "gradient and the tensor are the same size"
    )


def position_among_bools(name: str) -> str:
    """The sentence for ``argmax`` of bools."""
    return f"{name}(): does not support bool input"


def mean_of_integers(dtype: str, given: str = "Input") -> str:
    """The sentence for the mean of integers, or for a mean in integers (``given`` is then "Optional")."""
    return (
        f"mean(): could not infer output dtype. {given} dtype must be either a floating point or complex dtype. Got: {dtype}"
    )


def reduction_of_nothing(name: str, dim: int | None) -> str:
    """The sentence for the extreme of no elements."""
    if dim is not None:
        return f"{name}(): Expected reduction dim {dim} to have non-zero size."
    end = "." if name.startswith("arg") else " Specify the reduction dim with the 'dim' argument."
    return f"{name}(): Expected reduction dim to be specified for input.numel() == 0{'' if end == '.' else '.'}{end}"


def complex_input(name: str) -> str:
    """The sentence for an extreme of complex numbers along a dimension."""
    return f"{name}(): does not support complex input"


def product_shapes(name: str, a: Sequence[int], b: Sequence[int]) -> str:
    """The sentence for operands of a matrix product whose shapes do not fit."""
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
    """The sentence for operands of a matrix product with different dtypes."""
    if name == "dot":
        return f"dot : expected both vectors to have same dtype, but found {a.printed} and {b.printed}"
    if name == "bmm":
        return scalar_types(a.printed, b.printed)
    if name == "mv":
        return f"addmv input tensors must have the same dtype, but got {b.printed}, {a.printed}, and {b.printed}"
    return f"expected m1 and m2 to have the same dtype, but got: {_c_name(a)} != {_c_name(b)}"


def addmm_dtypes(a: str, b: str, *, of_matrices: bool) -> str:
    """The sentence for a product with a summand (or another matrix) of another dtype."""
    return f"{'mat1' if of_matrices else 'self'} and mat2 must have the same dtype, but got {a} and {b}"


def scalar_types(a: str, b: str) -> str:
    """The sentence for a second operand of another dtype."""
    return f"expected scalar type {a} but found {b}"


def lerp_dtype(name: str, wanted: dtype, found: dtype) -> str:
    """The sentence for an end or a weight of another dtype."""
    return f"expected dtype {_c_name(wanted)} for `{name}` but got dtype {_c_name(found)}"


def take_along_ranks(input: int, indices: int) -> str:
    """The sentence for positions of another number of dimensions."""
    return (
        "torch.take_along_dim(): input and indices should have the same number of dimensions, "
        f"but got {input} dimensions for input, and {indices} dimensions for indices"
    )


FILL_WITH_COMPLEX = "index_fill_(): Converting complex Scalar to non-complex type is not supported"
MESHGRID_DTYPES = "meshgrid expects all tensors to have the same dtype"


def _c_type(printed: str) -> str:
    return f"CPU{printed}Type" if printed.startswith("Complex") else f"torch.{printed}Tensor"


def _c_name(dtype: Any) -> str:
    names = {
        "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "float16": "c10::Half",
        "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>",
    }  # fmt: skip
    return names.get(dtype.name, str(dtype.name))


def class_dtype(dtype: str) -> str:
    """The sentence for class positions of another dtype."""
    return f"expected target dtype to be Long or Byte, but got {dtype}"


def target_size(given: Sequence[int], wanted: Sequence[int]) -> str:
    """The warning for a target of another shape."""
    return (
        f"Using a target size (torch.Size({list(wanted)})) that is different to the input size (torch.Size({list(given)})). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
    )


def invalid_shape(shape: Sequence[int], count: int) -> str:
    """The sentence for a shape with another number of elements."""
    return f"shape '{list(shape)}' is invalid for input of size {count}"


def expand_rank(dtype: str, old: Sequence[int], wanted: Sequence[int]) -> str:
    """The sentence for expanding to fewer dimensions."""
    return (
        f"expand({_c_type(dtype)}{{{list(old)}}}, size={list(wanted)}): the number of sizes provided ({len(wanted)}) must be "
        f"greater or equal to the number of dimensions in the tensor ({len(old)})"
    )


def expand_leading(size: int, dim: int) -> str:
    """The sentence for expanding to an unknown size in front."""
    return f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing dimension {dim}"


def permute_rank(rank: int, count: int) -> str:
    """The sentence for an order of another number of dimensions."""
    return (
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
        f"dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {count}"
    )


def expand_size(size: int, old_size: int, dim: int, wanted: Sequence[int], old: Sequence[int]) -> str:
    """The sentence for expanding a dimension that has another size than 1."""
    return (
        f"The expanded size of the tensor ({size}) must match the existing size ({old_size}) at non-singleton dimension {dim}.  "
        f"Target sizes: {list(wanted)}.  Tensor sizes: {list(old)}"
    )


def index_put_dtypes(destination: str, source: str) -> str:
    """The sentence for writing elements of another dtype by index tensors."""
    return (
        f"Index put requires the source and destination dtypes match, got {destination} for the destination and {source} for "
        "the source."
    )


def put_shape(given: Sequence[int], wanted: Sequence[int]) -> str:
    """The sentence for values of another shape than what they are written to."""
    return (
        f"shape mismatch: value tensor of shape {list(given)} cannot be broadcast to indexing result of shape {list(wanted)}"
    )


def matmul_of_numbers(a: int, b: int) -> str:
    """The sentence for ``matmul`` with a 0-d operand."""
    return f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"


ONLY_INPUTS = (
    "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts of the "
    "graph, please use torch.autograd.backward."
)
BATCHED_SCALAR = (
    "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor of dimensionality 0 so expected "
    "in_dim to satisfy 0 <= in_dim < 0."
)
LEAF_OF_GRAD = (
    "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is currently not "
    "supported."
)
ORDER_WITH_THREADS = (
    "get_current_graph_task_execution_order expects the current backward to be executed with multithreading disabled, e.g. by "
    "running:\n\n>>> with torch.autograd.set_multithreading_enabled(False):\n...     torch.autograd.grad(...)\n"
)
CALLBACK_OUTSIDE = "Final callbacks can only be installed during backward pass."
MULTI_HOOK_OUTSIDE = "expected this hook to be called inside a backward call"
NO_GRADIENT_FUNCTION = "Expected gradient function to be set"
EDGE_WITHOUT_GRAD = "It is not possible to get the gradient edge for a Tensor that does not require gradients"
INCREMENT_VERSION = "increment_version expect a Iterable[Tensor] as input"
PRESERVED_VERSIONS = "Expected tensors to be a tuple"
CALLED_WITH_KEYWORDS = "keyword arguments are not supported"
BUDGET_OUTSIDE = (
    "torch.autograd.graph.region_activation_memory_budget can only be used inside a torch.compile region; it has no effect in "
    "eager mode."
)


def batch_sizes(sizes: Sequence[int]) -> str:
    """Return what is raised for batches of several sizes."""
    return f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"


def empty_batch(shape: Sequence[int]) -> str:
    """Return what is raised for a batch of no gradients, and for a number."""
    if not shape:
        return "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"  # fmt: skip
    return "index 0 is out of bounds for dimension 0 with size 0"


def mismatched_batch(places: tuple[int, int], shape: object, expected: object) -> str:
    """Return what is raised for a batch of gradients of another shape than their root."""
    return (
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of the "
        "remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
        f"grad_output[{places[0]}] has a shape of {shape} and output[{places[1]}] has a shape of {expected}. If you only want some "
        "tensors in `grad_output` to be considered batched, consider using vmap."
    )


ANOMALY_ENABLED = (
    "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging."
)


def anomaly_flag(name: str, place: int, kind: str) -> str:
    """Return what is raised for a flag of anomaly mode that is no bool."""
    return f"set_anomaly_enabled(): argument '{name}' (position {place}) must be bool, not {kind}"


def no_forward_information(name: str) -> str:
    """Return what is said of a node that failed and was made outside of anomaly mode."""
    return (
        f"Error detected in {name}. No forward pass information available. Enable detect anomaly during forward pass for more "
        "information."
    )


def forward_traceback(name: str, stack: str, *, is_parent: bool) -> str:
    """Return what is said of a node that failed, or of the node that ran when that one was made, and where it was made."""
    if is_parent:
        head = f"\n\nPrevious calculation was induced by {name}. Traceback of forward call that induced the previous calculation:"
    else:
        head = f"Error detected in {name}. Traceback of forward call that caused the error:"
    return f"{head}\n{stack}"


def nan_gradient(name: str, place: int) -> str:
    """Return what is raised for a gradient that is NaN."""
    return f"Function '{name}' returned nan values in its {place}th output."


MUTATION_OUTSIDE = (
    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was originally recorded."
)
MUTATION_NESTED = "allow_mutation_on_saved_tensors contexts cannot be nested"


def outside_of_passes(name: str) -> str:
    """Return what is raised by a question about the present backward pass, where there is none."""
    return f"{name} should only be called during the backward pass"


def not_a_node(kind: str) -> str:
    """Return what is raised by a question about a node, for something else."""
    return f"_will_engine_execute_node expects an grad_fn, but got {kind}"


def multi_grad_mode(mode: object) -> str:
    """Return what is raised for another mode of a hook on several tensors."""
    return f"Expects mode to be one of ('all', 'any') but got {mode}"


def budget_type(kind: str) -> str:
    """Return what is raised for a budget that is no number."""
    return f"torch.autograd.graph.region_activation_memory_budget: expects a float, got {kind}"


def budget_range(budget: float) -> str:
    """Return what is raised for a budget that is no share of the whole."""
    return f"torch.autograd.graph.region_activation_memory_budget: must be in [0, 1], got {budget}"


def flag_type(function: str, kind: str) -> str:
    """Return what is raised for a flag that is no bool."""
    return f"{function}(): argument 'enabled' (position 1) must be bool, not {kind}"


# -- saved tensors and their hooks ------------------------------------------------------------------------------

SAVED_TENSOR_FROM_PYTHON = "Trying to create a SavedTensor object from Python is forbidden."
HOOKS_TWICE = (
    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is allowed at a "
    "time."
)
HOOKS_ON_NONE = "Calling register_hooks on a saved tensor with value None is forbidden"
HOOKS_ON_FREED = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are freed when "
    "you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
    "time or if you need to access saved variables after calling backward."
)
PACK_IN_PLACE = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be modified by "
    "in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to perform in-place "
    "operations on the input to a pack hook."
)
UNPACKED_WITHOUT_NODE = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please use "
    "out-of-place `.detach()` instead"
)


def unpacked_type(name: str) -> str:
    """The sentence for an unpack hook that returned no tensor."""
    return f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {name}"


def register_hooks_arguments(saved: object, hooks: Sequence[Any]) -> str:
    """The sentence for ``register_hooks`` with anything but two callables."""
    return (
        "register_hooks(): incompatible function arguments. The following argument types are supported:\n"
        "    1. (self: torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
        f"Invoked with: {', '.join(repr(argument) for argument in (saved, *hooks))}"
    )


def push_hooks_arguments(*hooks: object) -> str:
    """The sentence for a pair of hooks that are not both callable."""
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
    """The sentence for versions that are set of something else than tensors, or to something else than numbers."""
    return (
        "_unsafe_set_version_counter(): incompatible function arguments. The following argument types are supported:\n"
        "    1. (arg0: collections.abc.Sequence[torch.Tensor], "
        "arg1: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None\n\n"
        f"Invoked with: {', '.join(repr(argument) for argument in given)}"
    )


def set_versions_count(tensors: int, versions: int) -> str:
    """The sentence for another number of versions than of tensors."""
    return f"tensors_len={tensors}, versions_len={versions}"


def negative_version(version: int) -> str:
    """The sentence for a version below zero."""
    return f"Cannot set a version_counter to a value below 0: {version}"


def run_backward_tuple(name: str, kind: str) -> str:
    """The sentence for roots, or their gradients, that are no tuple."""
    return f"{name} argument is expected to be a tuple, but got {kind}"


RUN_BACKWARD_INPUTS = "inputs to run_backward must be a tuple"
RUN_BACKWARD_NOTHING = (
    'accumulate_grad || !outputs.empty() INTERNAL ASSERT FAILED at "/__w/pytorch/pytorch/torch/csrc/autograd/engine.cpp":1321, '
    "please report a bug to PyTorch. grad requires non-empty inputs."
)


def run_backward_count(tensors: int, gradients: int) -> str:
    """The sentence for another number of gradients than of roots."""
    return f"got {tensors} tensors and {gradients} gradients"


def root_type(place: int) -> str:
    """The sentence for a root that is neither a tensor nor an edge."""
    return f"element {place} of tensors tuple is neither a Tensor nor a GradientEdge"


def root_gradient_missing(place: int) -> str:
    """The sentence for a root that wants a gradient and has none."""
    return f"element {place} of gradients tuple is None, but the corresponding Tensor requires grad"


def root_gradient_kind(place: int) -> str:
    """The sentence for a gradient of a root that is no tensor."""
    return f"element {place} of gradients tuple is not a Tensor or None"


VOLATILE_VARIABLE = "volatile was removed and now has no effect. Use `with torch.no_grad():` instead."
VOLATILE_WITH_GRAD = "Variable can't be volatile and require_grad at the same time!"


def variable_data(kind: str) -> str:
    """The sentence for a ``Variable`` of something else than a tensor."""
    return f"Variable data has to be a tensor, but got {kind}"


def generator_seed(kind: str) -> str:
    """The sentence for a seed that is no integer."""
    return f"manual_seed expected a long, but got {kind}"


PAIRS_OF_REAL = "view_as_real is only supported for complex tensors"
COMPLEX_OF_SCALAR = "Input tensor must have one or more dimensions"
COMPLEX_LAST_SIZE = "Tensor must have a last dimension of size 2"
COMPLEX_LAST_STRIDE = "Tensor must have a last dimension with stride 1"
COMPLEX_STRIDE = "Tensor must have a stride divisible by 2 for all but last dimension"
COMPLEX_OFFSET = "Tensor must have a storage_offset divisible by 2"


def complex_of_kind(kind: str) -> str:
    """The sentence for numbers that are no parts of complex ones."""
    return f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {kind}"


UNFLATTEN_EMPTY = "unflatten: sizes must be non-empty"


def unflatten_sizes(sizes: Sequence[int], dim: int, size: int) -> str:
    """The sentence for sizes that do not make up that of the dimension which is taken apart."""
    return f"unflatten: Provided sizes {sizes} don't multiply up to the size of dim {dim} ({size}) in the input tensor"


def forward_enabled_type(kind: str) -> str:
    """The sentence for forward mode that is switched by something else than a bool."""
    return f"enabled must be a bool (got {kind})"


INCREMENT_OF_NO_TENSOR = "increment_version expects each element of the iterable to be a tensor"


def not_a_variable(place: int) -> str:
    """The sentence for an operand of ``DelayedError`` or ``UndefinedGrad`` that is no tensor."""
    return f"argument {place} is not a Variable"


def operand_count(expected: int, got: int) -> str:
    """The sentence for another number of them."""
    return f"expected {expected} arguments, got {got} instead"


# -- checkpoint -----------------------------------------------------------------------------------------------

REENTRANT_UNDECIDED = (
    "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
    "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need to preserve "
    "the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the differences between "
    "the two variants."
)
SEQUENTIAL_UNDECIDED = (
    "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In version 2.9 "
    "we will raise an exception if use_reentrant is not passed. use_reentrant=False is recommended, but if you need to "
    "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
    "differences between the two variants."
)
REENTRANT_OPTIONS = "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
REENTRANT_WITHOUT_INPUTS = "None of the inputs have requires_grad=True. Gradients will be None"
REENTRANT_PRUNED = (
    "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
    ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without passing the "
    "`inputs` argument."
)
REENTRANT_WITHOUT_OUTPUTS = "none of output has requires_grad=True, this checkpoint() is not necessary"
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
    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward pass.\n"
    + CHECKPOINT_TIP
)
SAVED_AFTER_STOP = "Unexpected state: target_frame.early_stop is set"
CONTEXT_SUPPRESSED = (
    "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during the checkpointed "
    "forward. This is not supported because checkpoint cannot return a value for a failed forward."
)
CONTEXTS_AMONG_TRACED = (
    "checkpoint among traced values: context_fn may return the contexts of create_selective_checkpoint_contexts; others would not "
    "be entered again, since functrace does not call the function a second time. Use functrace.checkpoint with a residual policy."
)
SELECTED_OUT = "selective checkpointing among traced values: out= writes where no policy is asked; use the function's result"
NO_OTHER_DEVICE = "set_device_states: there is no device but the CPU, whose generator torch.set_rng_state sets"
CACHED_MUTATED = "Tensor cached during selective activation checkpoint has been mutated"
EXTRA_BACKWARD = (
    "Trying to backward an extra time. You are only allowed to backward once on any region computed under selective activation "
    "checkpoint."
)


def nested_groups(group: object) -> str:
    """The sentence for a ``GraphExecGroup`` within another."""
    return f"GraphExecGroup contexts cannot be nested. Already inside group {group}"


def not_in_storage(func: object, place: int | None = None) -> str:
    """The sentence for an operation of a second run that was not in the first."""
    told = "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that changed "
    if place is None:
        return f"{func} encountered during backward but not found in storage. {told}between forward and backward."
    return f"{func} invocation index {place} encountered during backward but not found in storage. {told}between forward and backward."


def not_an_overload(op: object, *, is_packet: bool) -> str:
    """The sentence for what stands in a list of operations and is none."""
    told = (
        "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have `torch.ops.aten.mm`, change it to "
        "`torch.ops.aten.mm.default`."
    )
    kind = f"<class 'torch._ops.{type(op).__name__}'>" if is_packet else str(type(op))
    return f"Expected op in `op_list` to be an OpOverload but got: {op} of type {kind}. {told if is_packet else ''}"


def unpacked_twice(*, in_group: bool) -> str:
    """The sentence for a tensor of a checkpoint that is read twice in one backward pass."""
    group = (
        "Performing two backward calls that overlap (i.e. require the same saved activation in order to compute gradients) is not "
        "allowed while under the torch.utils.checkpoint.GraphExecGroup context. "
    )
    return (
        "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
        f"{group if in_group else ''}If you are calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise "
        "please open an issue with details on your use case."
    )


def saved_fewer(before: int, now: int) -> str:
    """The sentence for a recompute that saved another number of tensors."""
    return (
        "torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
        f"Number of tensors saved during forward: {before}\nNumber of tensors saved during recomputation: {now}.\n{CHECKPOINT_TIP}"
    )


def saved_differently(cases: Sequence[tuple[int, object, object]]) -> str:
    """The sentence for a recompute that saved other tensors: position, and what is compared of both."""
    lines = "".join(
        f"tensor at position {k}:\nsaved metadata: {saved}\nrecomputed metadata: {again}\n" for k, saved, again in cases
    )
    return (
        "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward "
        f"pass.\n{lines}.\n{CHECKPOINT_TIP}"
    )


def checkpoint_logs(forward_traces: str, recompute_traces: str, forward_ops: str, recompute_ops: str) -> str:
    """What ``debug=True`` tells of both runs."""
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
    """The sentence for an unknown ``determinism_check``."""
    return f"determinism_check should be one of {list(allowed)}, but got {given}"


def unexpected_keywords(names: Sequence[str]) -> str:
    """The sentence for keyword arguments that the reentrant variant cannot pass on."""
    return f"Unexpected keyword arguments: {','.join(names)}"


# -- autograd.Function ----------------------------------------------------------------------------------------

NO_FORWARD = "You must implement the forward function for custom autograd.Function."
NO_SETUP_CONTEXT = "setup_context is not implemented."
NO_BACKWARD = (
    "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
)
NO_JVP = "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
BACKWARD_AND_VJP = (
    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
)
CLEARED_ON_ACCESS = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. Either "
    "access saved_tensors only once, or set clear_saved_tensors_on_access=False."
)
LEGACY_FUNCTION = (
    "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with "
    "static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
)
ONCE_DIFFERENTIABLE = "trying to differentiate twice a function that was marked with @once_differentiable"
SAVED_VARIABLES = "'saved_variables' is deprecated; use 'saved_tensors'"
SAVE_FOR_FORWARD = "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
SET_MATERIALIZE_GRADS = "set_materialize_grads received an invalid combination of arguments - got (), but expected (bool)"
MARK_DIRTY = "mark_dirty can only accept variables, but argument "
MARK_NON_DIFFERENTIABLE = "mark_non_differentiable only accepts variable arguments, but got "
DIRTY_NOT_AN_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be passed to "
    "ctx.mark_dirty()."
)
DIRTY_NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
    "inplace must all be outputs of the Function."
)
DIRTY_LEAF = "a leaf Variable that requires grad has been used in an in-place operation."
DIRTY_VIEW_OF_MANY = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one "
    "Tensor. This is not supported by the current autograd engine. You should either make sure the input is not a view (using "
    ".clone() for example) or make your Function only return one Tensor (potentially splitting it into two Functions: one "
    "doing the inplace that returns a single Tensor and a second one that does the other operations). You can ask on the "
    "forum https://discuss.pytorch.org/ if you need help to do this change."
)


def function_instantiated(function: type) -> str:
    """The warning for an instance of a Function."""
    return (
        f"{function} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on "
        "the class itself. Instantiating an autograd function will raise an error in a future version of PyTorch."
    )


def unexpected_keyword(name: str) -> str:
    """The sentence for a keyword that forward does not have by position."""
    return f"forward() got an unexpected keyword argument '{name}'"


def multiple_values(name: str) -> str:
    """The sentence for an argument given by position and by keyword."""
    return f"forward() got multiple values for argument '{name}'"


def missing_argument(name: str, place: int) -> str:
    """The sentence for an argument left out before one given by keyword."""
    return f"forward() missing required argument: '{name}' (position {place})"


def saved_non_tensor(place: int, kind: str) -> str:
    """The sentence for something else than a tensor among those saved for backward."""
    return f"save_for_backward can only save variables, but argument {place} is of type {kind}"


def gradient_count(node: str, expected: int, found: int) -> str:
    """The sentence for too few or too many gradients."""
    return f"function {node} returned an incorrect number of gradients (expected {expected}, got {found})"


def gradient_of_non_tensor(node: str, position: int) -> str:
    """The sentence for a gradient where the argument was not a tensor."""
    return (
        f"function {node} returned a gradient different than None at position {position}, but the corresponding forward input "
        "was not a Variable"
    )


def gradient_type(kind: str) -> str:
    """The sentence for a gradient that is not a tensor."""
    return f"expected Variable or None (got {kind})"


def gradient_shape(node: str, place: int, found: Sequence[int], expected: Sequence[int]) -> str:
    """The sentence for a gradient whose shape does not fit."""
    return (
        f"{f'Function {node} returned an ' if node else ''}invalid gradient at index {place} - got {list(found)} but expected shape compatible "
        f"with {list(expected)}"
    )


def view_of_function(output_nr: int, function: str, *, several: bool, through_base: bool) -> str:
    """The sentence for writing into an output of a Function that is a view, or reading its node after its base was written."""
    event = "its base or another view of its base has been modified" if through_base else "is being modified"
    reason = (
        "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be "
        "modified inplace. You should replace the inplace operation by an out-of-place one."
        if several
        else "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
        "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
        "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
    )
    return f"Output {output_nr} of {function} is a view and {event} inplace. {reason}"


def argument_type(node: str, position: int, count: int, value: object) -> str:
    """What is said of an operand that is no tensor, by the name of the operation's node."""
    names = {1: ("input",), 2: ("input", "other")}.get(count)
    where = "" if names is None else f" {names[position]!r} (position {position + 1})"
    return f"{node.partition('Backward')[0].lower()}(): argument{where} must be Tensor, not {kind_of(value)}"


def argument_type_in_place(node: str, position: int, count: int, value: object) -> str:
    """The same of an in-place form, whose first operand is not counted."""
    where = f" 'other' (position {position + 1})" if count == 2 else ""
    return f"{node.partition('Backward')[0].lower()}_(): argument{where} must be Tensor, not {kind_of(value)}"


def kind_of(value: object) -> str:
    """The name of a value's type, as PyTorch writes it."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


# -- torch.func --------------------------------------------------------------------------------------------------

JVP_OF_CONSTANT = "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True."
RANDOM_IN_VMAP = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
    "flags on vmap or perform the randomness operation out of vmap"
)
DIFFERENT_IN_VMAP = (
    "vmap: randomness='different' does not reach functions of random numbers here; draw them outside, one for each example, "
    "and map over them"
)
OTHER_TENSORS_READ = (
    "a function given to torch.func reads other tensors that require grad when it runs again; it must read the same ones, or "
    "get them as arguments"
)


def must_be_tensor(name: str, argument: str, position: int, kind: str) -> str:
    """The sentence for a number where there must be a tensor."""
    return f"{name}(): argument '{argument}' (position {position + 1}) must be Tensor, not {kind}"


def must_be(name: str, argument: str, position: int, wanted: str, kind: str) -> str:
    """The sentence for an argument of another type."""
    return f"{name}(): argument '{argument}' (position {position + 1}) must be {wanted}, not {kind}"


def must_be_named(name: str, argument: str, wanted: str, kind: str) -> str:
    """The sentence for a keyword argument of another type."""
    return f"{name}(): argument '{argument}' must be {wanted}, not {kind}"


NO_PINNED_MEMORY = (
    "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this system."
)


def must_be_number(name: str, argument: str, kind: str) -> str:
    """The sentence for something else than a number."""
    return f"{name}(): argument '{argument}' must be Number, not {kind}"


def fill_dimensions(ndim: int) -> str:
    """The sentence for filling with a tensor that is not 0-d."""
    return f"fill_ only supports 0-dimension value tensor but got tensor with {ndim} dimensions."


def invalid_combination(name: str, values: Sequence[object]) -> str:
    """The first line for arguments that no form of a function takes."""
    return f"{name}() received an invalid combination of arguments - got ({', '.join(kind_of(v) for v in values)})"


# -- dtypes and kinds that are not computed with ---------------------------------------------------------------------

COMPLEX_HALF = "functrace.torch has no complex32 ('ComplexHalf'), which half precision becomes beside complex numbers"
INTEGER_TOO_BIG = "int too big to convert"
SUBTRACTING_BOOLS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
)
SUBTRACTING_A_BOOL = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
    "`logical_not()` operator instead."
)
NEGATING_BOOLS = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
    "`logical_not()` operator instead."
)
POSITIVE_BOOLS = "The `+` operator, on a bool tensor is not supported."
ALPHA_BOOL = "Boolean alpha only supported for Boolean results."
ALPHA_FLOAT = "For integral input tensors, argument alpha must not be a floating point number."
ALPHA_COMPLEX = "For non-complex input tensors, argument alpha must not be a complex number."
INVERT_KINDS = "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
ADDCDIV_OF_INTEGERS = (
    "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of "
    "tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / "
    "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future "
    "addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes."
)
SORT_OF_COMPLEX = " Sort does not support complex dtypes on CPU"
NEGATIVE_POWER = "Integers to negative integer powers are not allowed."
RELU_OF_BOOLS = "Boolean inputs not supported for relu"
SIGN_OF_COMPLEX = "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
SIGNBIT_OF_COMPLEX = "signbit is not implemented for complex tensors."
CLAMP_OF_COMPLEX = "clamp is not supported for complex types"
WHERE_OF_BYTES = (
    "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. "
    "Use a boolean condition instead."
)
SHAPE_FROM_VALUES = "the shape of the result depends on values, which are not known while a functional transform records"


def number_overflow(dtype: str) -> str:
    """The sentence for a number that a dtype does not hold."""
    names = {"float32": "float", "float64": "double", "float16": "c10::Half", "bool": "bool", "int32": "int"}
    return f"value cannot be converted to type {names.get(dtype, dtype + '_t')} without overflow"


def no_kernel(name: str) -> str:
    """The sentence for a dtype that an operation does not compute with, which stands for ``{}``."""
    return f"\"{name}\" not implemented for '{{}}'"


def not_of_complex(name: str) -> str:
    """The sentence for complex numbers where only real ones can be rounded."""
    return f"{name} is not supported for complex inputs"


def of_complex_tensors(name: str) -> str:
    """The sentence for complex numbers where order matters."""
    return f"{name} not implemented for complex tensors."


def no_derivative(name: str) -> str:
    """The sentence for a gradient that reaches an operation without derivative."""
    return f"derivative for aten::{name} is not implemented"


def where_condition(dtype: str) -> str:
    """The sentence for a condition that is no tensor of bools."""
    return f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtype}"


# -- what is picked --------------------------------------------------------------------------------------------------

REPEAT_RANK = "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"


def split_sizes(size: int, dim: int, sections: Sequence[int]) -> str:
    """The sentence for sizes of pieces that do not add up."""
    return (
        f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but got "
        f"split_sizes={list(sections)}"
    )


def mask_dtype(name: str, dtype: str) -> str:
    """The sentence for a mask that is not of bools."""
    if name == "masked_select":
        return "masked_select: expected BoolTensor for mask"
    return f"{name} only supports boolean masks, but got mask with dtype {_C_NAMES.get(dtype, dtype.lower())}"


_C_NAMES = {
    "Byte": "unsigned char", "Char": "signed char", "Short": "short int", "Long": "long int", "Half": "c10::Half",
    "ComplexFloat": "c10::complex<float>", "ComplexDouble": "c10::complex<double>",
}  # fmt: skip


def masked_fill_value(ndim: int) -> str:
    """The sentence for filling with a tensor that is not 0-d."""
    return f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {ndim} dimension(s)."


def index_dtype(name: str, dtype: str) -> str:
    """The sentence for positions that are no integers."""
    if name == "index_add":
        return f"index_add_(): Expected dtype int32/int64 for index but got: {dtype}"
    if name == "index_select":
        return "index_select(): Expected dtype int32 or int64 for index"
    return f"{name}(): Expected dtype int32/int64 for index"


def position_range(index: int, dim: int, size: int) -> str:
    """The sentence for a position that there is not."""
    return f"index {index} is out of bounds for dimension {dim} with size {size}"


def source_dtype(name: str) -> str:
    """The sentence for a source of another dtype."""
    return f"{name}(): self and source expected to have the same dtype"


def source_size(name: str, count: int, size: int, dim: int) -> str:
    """The sentence for a source of another size than there are positions."""
    return f"{name}_(): Number of indices ({count}) should be equal to source.size(dim): ({size}), for dim: {dim}"


def scatter_sizes(index: Sequence[int], input: Sequence[int], dim: int, source: Sequence[int]) -> str:
    """The sentence for more positions than there are elements."""
    return (
        f"Expected index {list(index)} to be no larger than self {list(input)} apart from dimension {dim} and to be no larger "
        f"size than src {list(source)}"
    )


def only_matrices(name: str, ndim: int) -> str:
    """The sentence for a transpose of what is no matrix."""
    if name == "H":
        return f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor."
    return f"tensor.{name} is only supported on matrices or batches of matrices. Got {ndim}-D tensor."


def einsum_rank(letters: int, ndim: int, position: int) -> str:
    """The sentence for subscripts that do not name every dimension."""
    return (
        f"einsum(): the number of subscripts in the equation ({letters}) does not match the number of dimensions ({ndim}) for "
        f"operand {position} and no ellipsis was given"
    )


def contains_kind(kind: type) -> str:
    """The sentence for looking for something else than a number in a tensor."""
    return f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {kind}."


T_OF_SCALAR = "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases."
IMAG_OF_REAL = "imag is not implemented for tensors with non-complex dtypes."


DATA_DTYPE = "data set to a tensor that requires gradients must be floating point or complex dtype"


def data_type(kind: str) -> str:
    """The sentence for ``x.data = value`` with what is no tensor."""
    return f"Variable data has to be a tensor, but got {kind}"


def norm_of_none(order: float, dim: int | None) -> str:
    """The sentence for the norm of no elements; ``dim``: None of all."""
    what = "an empty tensor because the" if dim is None else f"the dimension {dim}because this dimension is empty and the"
    return f"linalg.vector_norm cannot compute the {order:g} norm on {what} operation does not have an identity"


def norm_dtype(dtype: str) -> str:
    """The sentence for the norm of integers."""
    return f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {dtype}"


def degrees_of_freedom(name: str) -> str:
    """The warning for the variance of too few elements."""
    return (
        f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel "
        "divided by output numel)."
    )


def floats_only(name: str) -> str:
    """The sentence for statistics of integers."""
    return f"{name} only support floating point and complex dtypes"


# -- devices ---------------------------------------------------------------------------------------------------------

DEVICE_KINDS = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)
NO_CUDA = "Torch not compiled with CUDA enabled"
NO_ACCELERATOR = "Cannot access accelerator device when none is available."


def unknown_device(text: str) -> str:
    """The sentence for a device of an unknown kind."""
    return f"Expected one of {DEVICE_KINDS} device type at start of device string: {text}"


def device_absent(kind: str) -> str:
    """The sentence for a device that cannot be computed on."""
    return f"PyTorch is not linked with support for {kind} devices"


PROBABILITY = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please report an "
    "enhancement request to PyTorch.)"
)


# -- making tensors --------------------------------------------------------------------------------------------------

COPY_OF_TENSOR = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
)
INTEGER_OVERFLOW = "Overflow when unpacking long long"
ONE_ELEMENT = "only one element tensors can be converted to Python scalars"
ARANGE_SIGN = "upper bound and lower bound inconsistent with step sign"
ARANGE_STEP = "step must be nonzero"


def no_dtype_of(kind: str) -> str:
    """The sentence for data that is no number."""
    return f"Could not infer dtype of {kind}"


def ragged(expected: int, dim: int, found: int) -> str:
    """The sentence for nested lists of different lengths."""
    return f"expected sequence of length {expected} at dim {dim} (got {found})"


def array_dtype(kind: str) -> str:
    """The sentence for an array whose dtype tensors do not have."""
    return (
        f"can't convert np.ndarray of type numpy.{kind}. The only supported types are: float64, float32, float16, complex64, "
        "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
    )


# -- indices ---------------------------------------------------------------------------------------------------------

INDEX_OF_SCALAR = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to "
    "a number"
)
INDEX_DTYPE = "tensors used as indices must be long, int, byte or bool tensors"
INDEX_OF_BYTES = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
INDEX_OF_LISTS = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
    "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which "
    "will result either in an error or a different result"
)


def index_kind(kind: str) -> str:
    """The sentence for an index that is none."""
    return f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {kind})"


# -- gradcheck ---------------------------------------------------------------------------------------------------

CHECKS_NOTHING = "Expected at least one of check_forward_ad or check_backward_ad to be True"
BATCHED_WITHOUT_BACKWARD = "Setting check_batched_grad=True requires check_backward_ad to be True"
BATCHED_WITHOUT_FORWARD = "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
CHECKS_NOTHING_TWICE = "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
UNDEFINED_WITHOUT_REVERSE = "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
BATCHED_WITHOUT_REVERSE = "Setting check_batched_grad=True requires check_rev_over_rev to be True"
NOTHING_TO_CHECK = (
    "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
)
IMAGINARY_PART = "While considering the imaginary part of complex outputs only, "
REAL_PART = "While considering the real part of complex outputs only, "
IMAGINARY_INPUTS = "While considering the imaginary part of complex inputs only, "
REAL_INPUTS = "While considering the real part of complex inputs only, "
TANGENT_OF_OTHER_DTYPE = "Forward AD gradient has dtype mismatch."
NUMERICAL_NOT_ZERO = "Numerical gradient for function expected to be zero"
GRADIENT_OF_OTHER_DTYPE = "Gradient has dtype mismatch"
GRADIENT_OF_OTHER_SIZE = "Analytical gradient has incorrect size"
NOT_MULTIPLIED = "backward not multiplied by grad_output"
_NOTES = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
UNDEFINED_REFUSED = f"Expected backward function to handle undefined output grads. {_NOTES}"
UNDEFINED_NOT_ZERO = (
    f"Expected all input grads to be undefined or zero when all output grads are undefined or zero. {_NOTES}"
)
UNDEFINED_IS_CHECKED = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break existing "
    'callers of this function. If this is true for you, you can call this function with "check_undefined_grad=False" to '
    "disable the feature"
)


def not_double(k: int) -> str:
    """The warning for an input of single precision."""
    return (
        f"Input #{k} requires gradient and is not a double precision floating point or complex. This check will likely fail if "
        "all the inputs are not of double precision floating point or complex. "
    )


def overlapping_input(k: int) -> str:
    """The sentence for an input whose elements share memory."""
    return (
        f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to "
        "compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck."
    )


def not_reentrant(told: str, tolerance: float) -> str:
    """The sentence for backward passes that differ."""
    return f"""{told}Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives \
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
    """What is told beside numbers of fast mode."""
    return (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background \n"
        "about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        f"The max per-element difference (slow mode) is: {largest}.\n"
    )


def batched_tangents_raise(error: Exception) -> str:
    """The sentence for forward mode that fails under ``vmap``."""
    return f"While computing batched gradients, got: {error}\n"


def undefined_tangent(output: int, given: object, first: object, second: object) -> tuple[object, ...]:
    """What is told, in pieces as PyTorch has it, of an input whose missing tangent does not count as zero."""
    return (
        "Mismatch in tangent values for output with index: ", output, " when input: ", given,
        " has an undefined tangent value. ", " Got: ", first, " but expected: ", second,
    )  # fmt: skip


def batched_mismatch(output: int, place: int, together: str, alone: str) -> str:
    """The sentence for gradients under ``vmap`` that are not those of a loop."""
    return (
        f"For output {output} and input {place}: gradients under vmap are not those of a loop\nunder vmap:\n{together}\n"
        f"in a loop:\n{alone}\n"
    )


REQUIRES_GRAD_IN_FUNC = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of a function "
    "being transformed by a functorch transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, "
    "vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being transformed instead."
)
BACKWARD_IN_FUNC = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead or "
    "call backward() outside of functorch transforms."
)
HOOKS_AMONG_TRACED = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case. (In "
    "functrace: functrace.checkpoint(f, policy=functrace.policies.pack(pack, unpack)) keeps what is packed, under every "
    "transform.)"
)
RECORDED_HOOK = "a hook on a traced value is part of what functrace records, and cannot be removed"
HOOK_AFTER_USE = (
    "a hook on a traced value must be registered before the value is used: what was computed from it so far would pass its "
    "gradient by the hook"
)


def both_vmap_rules(name: str) -> str:
    """The sentence for a Function that brings a rule for vmap and asks for one to be made."""
    return (
        f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please set "
        "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. For more details, please see "
        "https://pytorch.org/docs/main/notes/extending.func.html"
    )


def vmap_returned(got: str) -> str:
    """The sentence for a vmap static method that returned something else than outputs and their dimensions."""
    return (
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with the "
        f"output. {got}"
    )


NO_VMAP = (
    "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
)
MARK_SHARED_STORAGE = (
    "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that calls to `set_()` "
    "are not tracked"
)


def resized(sizes: Sequence[int], count: int, given: Sequence[int], elements: int) -> str:
    """The sentence for a shape with another number of elements."""
    shapes = "x".join(map(str, sizes)), "x".join(map(str, given))
    return (
        f"requested resize to {shapes[0]} ({count} elements in total), but the given tensor has a size of {shapes[1]} "
        f"({elements} elements). autograd's resize can only change the shape of a given tensor, while preserving the number of "
        "elements. "
    )


# -- forward mode --------------------------------------------------------------------------------------------------------

NO_LEVEL = "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
NESTED_LEVELS = "Nested forward mode AD is not supported at the moment"
EXIT_OTHER_LEVEL = "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
EXIT_NO_LEVEL = "Dual level must be a positive number."
DUAL_OF_DUAL = (
    "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
)
TANGENT_OF_TANGENT = "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
DUAL_AMONG_ARRAYS = (
    "a dual tensor meets a traced value or an array that is no tensor: inside functrace's transforms, tangents are theirs; "
    "use functrace.jvp around them, or tensors throughout"
)
DUAL_IN_TRANSFORM = "a Function meets a dual tensor among traced values: its tangent would be lost; use torch.func.jvp inside torch.func.vmap"
DUAL_CLOSED_OVER = (
    "a function under torch.func (or another transform of functrace's) closes over a dual tensor, whose tangent would be "
    "lost: pass the dual tensor as an argument, or use torch.func.jvp"
)
TANGENT_NOT_DEFINED = (
    "(new_grad_base.is_floating_point() || new_grad_base.is_complex()) && (self_base.is_floating_point() || "
    'self_base.is_complex()) INTERNAL ASSERT FAILED at "/__w/pytorch/pytorch/torch/csrc/autograd/autograd_meta.cpp":159, '
    "please report a bug to PyTorch. Expected both tensor and its forward grad to be floating point or complex"
)
JVP_NOT_IN_PLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an input "
    "inplace, then the jvp function must modify the corresponding gradient inplace."
)
JVP_NOT_AS_IS = (
    "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is modifying an input "
    "inplace, then the jvp function must modify the gradient inplace and return it as-is."
)
JVP_DIRTY_NOT_AN_INPUT = (
    "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no need to pass it to "
    "mark_dirty()."
)
JVP_NOT_A_VIEW = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."


def dual_dtype(what: str, dtype: object) -> str:
    """The sentence for a dual tensor of integers; ``what``: the primal, or the tangent."""
    return f"Expected {what} to be floating point or complex, but got: {dtype}"


def tangent_size(shape: Sequence[int], given: Sequence[int]) -> str:
    """The sentence for a tangent of another shape."""
    return (
        "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
        f"Tensor is of size {list(shape)} while the given forward gradient is of size {list(given)}."
    )


def invalid_level(name: str) -> str:
    """The sentence for a level that there is not."""
    return f"Invalid level given to {name}"


def forward_of_out(name: str) -> str:
    """The sentence for ``out=`` where a tangent would be lost."""
    return f"Trying to use forward AD with {name}_out that does not support it because it is an out= function"


def jvp_count(expected: int, given: int) -> str:
    """The sentence for a ``jvp`` that returned another number of tangents."""
    return f"Function's jvp returned an invalid number of forward gradients (expected {expected} but got {given})"


def jvp_type(kind: str, place: int) -> str:
    """The sentence for a ``jvp`` that returned something else than tensors."""
    return f"expected Variable or None (got {kind}) for grad output {place}."


def jvp_of_constant(place: int) -> str:
    """The sentence for a tangent of an output without derivative."""
    return (
        f"Function's jvp returned a gradient at position {place}, but  the corresponding forward output is not a differentiable "
        "Tensor.You should return None at that position instead."
    )


# -- operations and dispatch modes -----------------------------------------------------------------------------------


def no_overload(packet: str, overload: str) -> str:
    """The sentence for an overload that a name does not have."""
    return f"The underlying op of '{packet}' has no overload name '{overload}'"


def not_dispatched(overload: object, mode: object) -> str:
    """The sentence for an operation that no mode handled."""
    return (
        f"Multiple dispatch failed for 'torch._ops.{overload}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
        f"  - mode object {mode!r}\n\nFor more information, try re-running with TORCH_LOGS=not_implemented"
    )


def dispatched_otherwise(node: str, aval: object, made: object) -> str:
    """The sentence for what a mode returned for an operation whose derivative is for something else."""
    return (
        f"{node}: a dispatch mode returned {made} where the operation has {aval}, so its derivative would not fit. Return that shape "
        "and dtype, or run the operation under torch.no_grad()."
    )


def no_fitting_overload(packet: str, overloads: object) -> str:
    """The sentence for arguments that no overload takes."""
    return f"{packet}: no overload takes these arguments; there are {overloads}"


def no_out_overload(name: str) -> str:
    """The sentence for ``out=`` under a mode, of a function that PyTorch composes of others."""
    return f"{name}(out=) within a dispatch mode: there is no operation of that name that writes into a tensor; use copy_"


def no_such_operation(overload: str) -> str:
    """The sentence for calling an operation that is only named here."""
    return (
        f"{overload} is named here but cannot be called with these arguments: functrace.torch has no function for it. Within a "
        "dispatch mode it runs with the arguments that the mode was given."
    )


MODE_AMONG_TRACED = (
    "a TorchDispatchMode does not see what functrace's transforms trace: enter the mode around the transform's result, not inside, "
    "or give functrace.checkpoint a residual policy"
)


# -- memory ----------------------------------------------------------------------------------------------------------

TYPED_STORAGE = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. This "
    "should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)


def negative_strides(strides: Sequence[int]) -> str:
    """The sentence for strides that go backwards."""
    return f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"


def storage_bounds(shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int, needed: int, there: int) -> str:
    """The sentence for what would reach out of a storage; the last two in bytes."""
    return (
        f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and itemsize {itemsize} requiring "
        f"a storage size of {needed} are out of bounds for storage of size {there}"
    )


def set_dtypes(given: str, wanted: str) -> str:
    """The sentence for ``set_`` of another dtype, as C calls them."""
    called = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}
    return f"Could not set tensor of type {called.get(given, given)} to a tensor of type {called.get(wanted, wanted)}"


def index_vector(name: str, printed: str, shape: Sequence[int]) -> str:
    """The sentence for an index with several dimensions."""
    return (
        f"{name}(): Index is supposed to be a vector, but got dim: {len(shape)} with type: {printed} and size: {list(shape)}"
    )


def index_reduce_shapes(shape: Sequence[int], source: Sequence[int]) -> str:
    """The sentence for slices of another shape."""
    return (
        "source tensor shape must match self tensor shape, excluding the specified dimension. "
        f"Got self.shape = {list(shape)} source.shape = {list(source)}"
    )


def index_count(name: str, count: int, size: int, axis: int) -> str:
    """The sentence for another number of positions than slices."""
    return f"{name}(): Number of indices ({count}) should be equal to source.size(dim): ({size}), for dim: {axis}"


# -- modules ---------------------------------------------------------------------------------------------------------


def hook_not_kept(hook: object) -> str:
    """The warning for a hook of a tensor that is pickled."""
    return (
        f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the function with "
        "@torch.utils.hooks.unserializable_hook to suppress this warning"
    )


def module_hook_count(hook: str, what: str, got: int, wanted: int) -> str:
    """The sentence for a module's hook that returns another number of gradients."""
    return f"{hook} returned an invalid number of {what}, got {got}, but expected {wanted}"


MODULE_HOOK_WITHOUT_INPUTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require gradients. "
    "See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more "
    "details."
)
MODULE_HOOK_RETURNED = (
    "Backward hook for Modules where no input requires gradient should always return None or None for all gradients."
)
NO_MODELS = "stack_module_state: Expected at least one model, got 0."
MODELS_MODE = "stack_module_state: Expected all models to have the same training/eval mode."
MODELS_CLASS = "stack_module_state: Expected all models to be of the same class."


def models_requires_grad(name: str) -> str:
    """The sentence for models that disagree about which parameters want gradients."""
    return f"Expected {name} from each model to have the same .requires_grad"


STATE_DICTS = "Expected all elements of parameter_and_buffer_dicts to be dictionaries"


def repeated_names(names: Sequence[str]) -> str:
    """The sentence for names that stand in several dicts."""
    return f"{list(names)} appeared in multiple dictionaries; behavior of functional call is ambiguous"


def state_type(given: type) -> str:
    """The sentence for a module's state that is no dict."""
    return f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {given}"


def tied_values(names: Sequence[str]) -> str:
    """The sentence for one tensor of several names, whose values differ."""
    return f"functional_call got multiple values for keys {list(names)}, which are tied. Consider using tie_weights=False"


def state_names(module: str, unexpected: Sequence[str], missing: Sequence[str]) -> str:
    """The sentence for names that a module does not have, and such that were not given."""
    parts = [("Unexpected", unexpected), ("Missing", missing)]
    lines = [f"{what} key(s): {', '.join(map(repr, names))}." for what, names in parts if names]
    return f"Error(s) in reparametrizing for {module}:\n\t" + "\n\t".join(lines)


def no_attribute(module: str, name: str) -> str:
    """The sentence for a module that is not there."""
    return f"{module} has no attribute `{name}`"


def not_an_instance(what: object, kind: str) -> str:
    """The sentence for something else than a module, or a tensor."""
    return f"{what} is not an instance of torch.{kind}"


# -- linearize -------------------------------------------------------------------------------------------------------


def linearize_structure(tangents: str, primals: str) -> str:
    """The sentence for tangents in another nest than the primals."""
    return f"Expected the tangents {tangents} to have the same argspec as the primals {primals}"


def linearize_tangent(place: int, what: str, given: object, wanted: object) -> str:
    """The sentence for a tangent of another shape or dtype than its primal."""
    return f"tangent:{place} with {what} {given} in flattened pytree doesn't match the {what} {wanted} of the corresponding primal."


# -- threads ---------------------------------------------------------------------------------------------------------

THREAD_COUNT = "set_num_threads expects a positive integer"


def thread_count_type(kind: str) -> str:
    """The sentence for a number of threads that is no integer."""
    return f"set_num_threads expects an int, but got {kind}"
