# ruff: noqa: E501 - broken where the message allows it, not at a column
"""Messages about tensors: creation, indexing, memory layout, and unsupported dtypes.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence

# -- tensors ---------------------------------------------------------------------------------------

LEAF_IN_PLACE = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF_IN_PLACE = (
    "a view of a leaf Variable that requires grad is being used in an in-place operation."
)
REQUIRES_GRAD_DTYPE = "only Tensors of floating point dtype can require gradients"
MADE_WITH_GRAD_DTYPE = "Only Tensors of floating point and complex dtype can require gradients"
REQUIRES_GRAD_OFF_NON_LEAF = (
    "you can only change requires_grad flags of leaf variables. If you want to use a computed "
    "variable in a subgraph that "
    "doesn't require differentiation use var_no_grad = var.detach()."
)
REQUIRES_GRAD_ON_NON_LEAF = "you can only change requires_grad flags of leaf variables."
NUMPY_OF_REQUIRES_GRAD = (
    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
)
AMBIGUOUS_BOOL = "Boolean value of Tensor with more than one value is ambiguous"
EMPTY_BOOL = "Boolean value of Tensor with no values is ambiguous"
LEN_OF_SCALAR = "len() of a 0-d tensor"
ITERATION_OVER_SCALAR = "iteration over a 0-d tensor"
DEEPCOPY_NON_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
    "the moment.  If you were "
    "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
    "see "
    "https://github.com/pytorch/pytorch/pull/103001"
)
OVERLAPPING_WRITE = (
    "unsupported operation: more than one element of the written-to tensor refers to a single "
    "memory location. Please "
    "clone() the tensor before performing the operation."
)
OVERLAPPING_OPERAND = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory location. "
    "Please clone() the tensor before performing the operation."
)
NUMPY_OF_CONJUGATE = "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead."
PAIRS_OF_CONJUGATE = (
    "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so "
    "you can view it as real, use self.resolve_conj(); however, be warned that the resulting tensor "
    "will NOT alias the original."
)
NUMPY_OF_NEGATIVE = "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead."
FILL_BY_BYTES = "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
VIEW_NOT_COMPATIBLE = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans "
    "across two contiguous "
    "subspaces). Use .reshape(...) instead."
)
DETACH_VIEW = (
    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel "
    "(DDP) for training, and "
    "gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
    "detach_() cannot be called on these "
    "gradients. To fix this error, please refer to the Optimizer.zero_grad() function in "
    "torch/optim/optimizer.py as the solution."
)
INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked "
    "by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use "
    "`torch.no_grad()` instead of `torch.inference_mode()`."
)
INFERENCE_IN_PLACE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone "
    "to get a normal tensor before "
    "doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)
INFERENCE_VERSION = "Inference tensors do not track version counter."
INFERENCE_REQUIRES_GRAD = (
    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
)
GRAD_OF_NON_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated "
    "during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
    "Tensor, use "
    ".retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make "
    "sure you access the leaf "
    "Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information."
)


def item_of_many(count: int) -> str:
    """Return the message for ``.item()`` on a tensor that does not have one element."""
    return f"a Tensor with {count} elements cannot be converted to Scalar"


def cannot_broadcast(a: Sequence[int], b: Sequence[int]) -> str:
    """Return the message for shapes that do not broadcast together."""
    for k in range(1, min(len(a), len(b)) + 1):
        if a[-k] != b[-k] and a[-k] != 1 and b[-k] != 1:
            dim = max(len(a), len(b)) - k
            return f"The size of tensor a ({a[-k]}) must match the size of tensor b ({b[-k]}) at non-singleton dimension {dim}"
    return f"shapes {list(a)} and {list(b)} do not broadcast"


def output_shape(out: Sequence[int], broadcast: Sequence[int]) -> str:
    """Return the message for an in-place operation whose result is larger than its tensor."""
    return f"output with shape {list(out)} doesn't match the broadcast shape {list(broadcast)}"


def out_with_grad(name: str) -> str:
    """Return the message for ``out=`` if a gradient would be lost."""
    return (
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
        "one of the arguments requires "
        "grad."
    )


def out_resized(shape: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the warning for an ``out=`` tensor of another shape."""
    return (
        f"An output with one or more elements was resized since it had shape {list(shape)}, which "
        "does not match the required "
        f"output shape {list(wanted)}. This behavior is deprecated, and in a future PyTorch "
        "release outputs will not be resized "
        "unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, "
        "inplace, to zero elements with "
        "t.resize_(0)."
    )


def out_dtype(wanted: str, given: str) -> str:
    """Return the message for an ``out=`` tensor of another dtype, for a function that does not
    convert its result.
    """
    return f"Found dtype {given} but expected {wanted}"


def out_of_bools(name: str, given: str) -> str:
    """Return the message for an ``out=`` tensor of a function with bool results."""
    if name == "signbit":
        return "signbit does not support non-boolean outputs."
    return f"{name} only supports bool tensor for result, got: {given}"


def result_cast(given: str, wanted: str) -> str:
    """Return the message for an in-place operation whose result has a dtype of a higher kind."""
    return f"result type {given} can't be cast to the desired output type {wanted}"


def dimension_range(dim: int, ndim: int) -> str:
    """Return the message for a dimension that does not exist."""
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"


SCALAR_OF_REQUIRES_GRAD = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
    "behavior.\nConsider using tensor.detach() "
    "first."
)
TRANSPOSED = (
    "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated "
    "and it will throw an error in a "
    "future release. Consider `x.mT` to transpose batches of matrices or "
    "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
    "reverse the dimensions of a tensor."
)
VOLATILE = "volatile was removed (Variable.volatile is always False)"
DECORATED_CLASS = (
    "Decorating classes is deprecated and will be disabled in future versions. You should only "
    "decorate functions or methods. "
    "To preserve the current behavior of class decoration, you can directly decorate the "
    "`__init__` method and nothing else."
)


def is_inference_argument(kind: str) -> str:
    """Return the message for an object other than a tensor."""
    return f"is_inference(): argument 'input' (position 1) must be Tensor, not {kind}"


def no_grad_view(kind: str, of: str = "", through_base: bool = False) -> str:
    """Return the message for writing in grad mode to a view made without, or to its base; ``of``:
    to a view of it.
    """
    event = "its base or another view of its base has been" if through_base else "is being"
    view = f"{of} is a view of a view which was created" if of else "A view was created"
    mode, block = (
        ("normal mode", "inference_mode")
        if kind == "inference"
        else ("with grad mode enabled", kind)
    )
    return (
        f"{view} in {kind} mode and {event} modified inplace "
        f"{'in ' * (kind == 'inference')}{mode}. Given that this use case is "
        "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the "
        "view and the inplace either "
        f"both inside the {block} block (if you don't want the inplace to be tracked) or both "
        "outside (if you want the inplace "
        "to be tracked)."
    )


# -- unsupported dtypes and kinds ------------------------------------------------------------------

COMPLEX_HALF = "functrace.torch has no complex32 ('ComplexHalf'), which half precision becomes beside complex numbers"
INTEGER_TOO_BIG = "int too big to convert"
SUBTRACTING_BOOLS = "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
SUBTRACTING_A_BOOL = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
    "invert a mask, use the `~` or "
    "`logical_not()` operator instead."
)
NEGATING_BOOLS = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
    "mask, use the `~` or "
    "`logical_not()` operator instead."
)
POSITIVE_BOOLS = "The `+` operator, on a bool tensor is not supported."
ALPHA_BOOL = "Boolean alpha only supported for Boolean results."
ALPHA_FLOAT = "For integral input tensors, argument alpha must not be a floating point number."
ALPHA_COMPLEX = "For non-complex input tensors, argument alpha must not be a complex number."
INVERT_KINDS = "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
ADDCDIV_OF_INTEGERS = (
    "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will "
    "perform a true division of "
    "tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
    "torch.trunc(tensor1 / "
    "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
    "float inputs. The future "
    "addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for "
    "all dtypes."
)
SORT_OF_COMPLEX = " Sort does not support complex dtypes on CPU"
NEGATIVE_POWER = "Integers to negative integer powers are not allowed."
RELU_OF_BOOLS = "Boolean inputs not supported for relu"
SIGN_OF_COMPLEX = "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
SIGNBIT_OF_COMPLEX = "signbit is not implemented for complex tensors."
CLAMP_OF_COMPLEX = "clamp is not supported for complex types"
WHERE_OF_BYTES = (
    "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a "
    "future version of PyTorch. "
    "Use a boolean condition instead."
)
SHAPE_FROM_VALUES = "the shape of the result depends on values, which are not known while a functional transform records"


def number_overflow(dtype: str) -> str:
    """Return the message for a number that does not fit a dtype."""
    names = {
        "float32": "float",
        "float64": "double",
        "float16": "c10::Half",
        "bfloat16": "c10::BFloat16",
        "bool": "bool",
        "int32": "int",
        "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>",
    }
    return f"value cannot be converted to type {names.get(dtype, dtype + '_t')} without overflow"


def no_kernel(name: str) -> str:
    """Return the message for an unsupported dtype, which replaces ``{}``."""
    return f"\"{name}\" not implemented for '{{}}'"


def not_of_complex(name: str) -> str:
    """Return the message for complex numbers in an operation that rounds."""
    return f"{name} is not supported for complex inputs"


def of_complex_tensors(name: str) -> str:
    """Return the message for complex numbers in an operation that needs an order."""
    return f"{name} not implemented for complex tensors."


def no_derivative(name: str) -> str:
    """Return the message for a gradient that reaches an operation without derivative."""
    return f"derivative for aten::{name} is not implemented"


def where_condition(dtype: str) -> str:
    """Return the message for a condition that is no tensor of bools."""
    return f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtype}"


# -- making tensors --------------------------------------------------------------------------------

COPY_OF_TENSOR = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
)
INTEGER_OVERFLOW = "Overflow when unpacking long long"
ONE_ELEMENT = "only one element tensors can be converted to Python scalars"
ARANGE_SIGN = "upper bound and lower bound inconsistent with step sign"
ARANGE_STEP = "step must be nonzero"


def no_dtype_of(kind: str) -> str:
    """Return the message for data that is no number."""
    return f"Could not infer dtype of {kind}"


def ragged(expected: int, dim: int, found: int) -> str:
    """Return the message for nested lists of different lengths."""
    return f"expected sequence of length {expected} at dim {dim} (got {found})"


def array_dtype(kind: str, package: str = "numpy") -> str:
    """Return the message for an array whose dtype tensors do not support."""
    return (
        f"can't convert np.ndarray of type {package}.{kind}. The only supported types are: float64, "
        "float32, float16, complex64, "
        "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
    )


# -- indices ---------------------------------------------------------------------------------------

INDEX_OF_SCALAR = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
    "to convert a 0-dim tensor to "
    "a number"
)
INDEX_DTYPE = "tensors used as indices must be long, int, byte or bool tensors"
INDEX_OF_BYTES = (
    "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
)
INDEX_OF_LISTS = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in "
    "pytorch 2.9; use "
    "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
    "x[torch.tensor(seq)], which "
    "will result either in an error or a different result"
)


def index_kind(kind: str) -> str:
    """Return the message for an invalid index."""
    return f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {kind})"


# -- devices ---------------------------------------------------------------------------------------

DEVICE_KINDS = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
    "mps, meta, hpu, mtia, "
    "privateuseone"
)
NO_CUDA = "Torch not compiled with CUDA enabled"
NO_ACCELERATOR = "Cannot access accelerator device when none is available."


def unknown_device(text: str) -> str:
    """Return the message for a device of an unknown kind."""
    return f"Expected one of {DEVICE_KINDS} device type at start of device string: {text}"


def device_absent(kind: str) -> str:
    """Return the message for a device that is not available."""
    return f"PyTorch is not linked with support for {kind} devices"


PROBABILITY = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
    "improved?  If so, please report an "
    "enhancement request to PyTorch.)"
)


# -- memory ----------------------------------------------------------------------------------------

TYPED_STORAGE = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the "
    "only storage class. This "
    "should only matter to you if you are using storages directly.  To access UntypedStorage "
    "directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)


NEGATIVE_STRIDES_OF_ARRAY = (
    "At least one stride in the given numpy array is negative, and tensors with negative strides "
    "are not currently supported. "
    "(You can probably work around this by making a copy of your array  with array.copy().) "
)


def legacy_data(value: object) -> str:
    """Return the message for invalid arguments of the older constructors."""
    numpy = type(value).__module__ == "numpy"
    return f"new(): data must be a sequence (got {'numpy.' if numpy else ''}{type(value).__name__})"


def legacy_options(wanted: str, given: str) -> str:
    """Return the message for a tensor of another dtype than the one that an older constructor
    makes.
    """
    wanted, given = (
        {"float32": "float", "float64": "double"}.get(name, name) for name in (wanted, given)
    )
    says = (
        "TensorOptions(dtype={}, device=cpu, layout=Strided, requires_grad=false (default), "
        "pinned_memory=false (default), "
        "memory_format=(nullopt))"
    )
    return f"expected {says.format(wanted)} (got {says.format(given)})"


def assigned_data(kind: str, wanted: str) -> str:
    """Return the message for assigning to a part of a tensor an object that is neither a tensor
    nor a number.
    """
    return f"can't assign a {kind} to a {wanted}"


ASARRAY_REQUIRES_GRAD = (
    "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. "
    "Pass requires_grad=False "
    "explicitly to get the old behavior and silence this warning."
)
ALIASED_SEQUENCE = "can't alias arbitrary sequence into a tensor."


def cannot_alias(given: str, wanted: str) -> str:
    """Return the message for sharing data as another dtype."""
    return f"can't alias tensor with dtype '{given}' into dtype '{wanted}'."


def negative_strides(strides: Sequence[int]) -> str:
    """Return the message for negative strides."""
    return f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"


def storage_bounds(
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int,
    itemsize: int,
    needed: int,
    there: int,
) -> str:
    """Return the message for strides that exceed a storage; the last two arguments in bytes."""
    return (
        f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and "
        f"itemsize {itemsize} requiring "
        f"a storage size of {needed} are out of bounds for storage of size {there}"
    )


def set_dtypes(given: str, wanted: str) -> str:
    """Return the message for ``set_`` of another dtype, by the names in C."""
    called = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}
    return f"Could not set tensor of type {called.get(given, given)} to a tensor of type {called.get(wanted, wanted)}"


def index_vector(name: str, printed: str, shape: Sequence[int]) -> str:
    """Return the message for an index with several dimensions."""
    return f"{name}(): Index is supposed to be a vector, but got dim: {len(shape)} with type: {printed} and size: {list(shape)}"


def index_reduce_shapes(shape: Sequence[int], source: Sequence[int]) -> str:
    """Return the message for slices of another shape."""
    return (
        "source tensor shape must match self tensor shape, excluding the specified dimension. "
        f"Got self.shape = {list(shape)} source.shape = {list(source)}"
    )


def index_count(name: str, count: int, size: int, axis: int) -> str:
    """Return the message for another number of positions than slices."""
    return f"{name}(): Number of indices ({count}) should be equal to source.size(dim): ({size}), for dim: {axis}"


# -- threads ---------------------------------------------------------------------------------------

THREAD_COUNT = "set_num_threads expects a positive integer"


def thread_count_type(kind: str) -> str:
    """Return the message for a number of threads that is no integer."""
    return f"set_num_threads expects an int, but got {kind}"


# -- subclasses, parameters ------------------------------------------------------------------------

NO_SUBCLASS = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. "
    "Make sure your class inherits from Tensor."
)
UNINITIALIZED_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
    "`forward` to initialize the parameters before accessing their attributes."
)
UNINITIALIZED_SHARED = (
    "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
    "parameters before calling `module.share_memory()`."
)


def uninitialized(function: str) -> str:
    """Return the message for a function of a parameter without a shape."""
    return (
        f"Attempted to use an uninitialized parameter in {function}. "
        "This error happens when you are using a `LazyModule` or "
        "explicitly manipulating `torch.nn.parameter.UninitializedParameter` objects. When using "
        "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling "
        "torch functions"
    )


def make_subclass_data(kind: str) -> str:
    """Message for data of another type."""
    return f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {kind}"


def subclass_dispatch(kind: str) -> str:
    """Return the message for a subclass with a ``__torch_dispatch__``."""
    return (
        f"{kind}.__torch_dispatch__ would not be called: functrace.torch forwards operations to the "
        "__torch_function__ of subclasses, and to the __torch_dispatch__ of modes "
        "(torch.utils._python_dispatch.TorchDispatchMode) and of wrapper subclasses "
        "(Tensor._make_wrapper_subclass); use one of them"
    )
