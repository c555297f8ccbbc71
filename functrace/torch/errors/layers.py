"""Messages about functions of neural networks.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence


def softshrink_range(bound: float, dtype: str, most: float) -> str:
    """Return the message for a negative bound of softshrink."""
    name = {"float16": "Half", "float32": "Float", "float64": "Double", "bfloat16": "BFloat16"}.get(
        dtype, dtype
    )
    return f"lambda must be in range [0, {most:.6g}] for input dtype {name}, but found {bound:g}"


def prelu_weight(ndim: int) -> str:
    """Return the message for a matrix of slopes."""
    return f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {ndim}"


def prelu_channels(count: int, channels: int) -> str:
    """Return the message for another number of slopes than of channels."""
    return (
        f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} "
        f"and channel size = {channels}."
    )


def implicit_dim(name: str) -> str:
    """Return the warning for softmax without a dimension."""
    return (
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )


# -- losses ----------------------------------------------------------------------------------------

MULTIPLE_TARGETS = "0D or 1D target tensor expected, multi-target not supported"
KL_MEAN = (
    "reduction: 'mean' divides the total loss by both the batch size and the support size."
    "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
    "'mean' will be changed to behave the same as 'batchmean' in the next major release."
)


def legacy_reduction(word: str) -> str:
    """Return the warning for the older arguments of losses."""
    return (
        f"size_average and reduce args will be deprecated, please use reduction='{word}' instead."
    )


def target_of_row(count: int) -> str:
    """Return the message for several targets of one row."""
    return f"For 1D input, 1D target must have size 1, but got target size: {count}"


def spatial_targets(ndim: int) -> str:
    """Return the message for targets of images with another number of dimensions."""
    return (
        "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
        f"{ndim}"
    )


def class_weights(classes: int, shape: Sequence[int]) -> str:
    """Return the message for another number of weights than of classes."""
    return (
        f"weight tensor should be defined either for all {classes} classes or no classes but got "
        f"weight tensor of shape: {list(shape)}"
    )


def class_probabilities(dtype: str) -> str:
    """Return the message for targets of the input's shape that are no floats."""
    return f"Expected floating point type for target with class probabilities, got {dtype}"


def deprecated_target_size(given: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the message of binary_cross_entropy for a target of another shape."""
    return (
        f"Using a target size (torch.Size({list(wanted)})) that is different to the input size "
        f"(torch.Size({list(given)})) is deprecated. Please ensure they have the same size."
    )


def same_target_size(given: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the message of binary_cross_entropy_with_logits for a target of another shape."""
    return (
        f"Target size (torch.Size({list(wanted)})) must be the same as input size "
        f"(torch.Size({list(given)}))"
    )


def ranking_sizes(first: Sequence[int], second: Sequence[int], target: Sequence[int]) -> str:
    """Return the message of margin_ranking_loss for other numbers of dimensions."""
    return (
        "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
        f"input1: torch.Size({list(first)}), input2: torch.Size({list(second)}), target: "
        f"torch.Size({list(target)}) "
    )


def single_target(first: Sequence[int], second: Sequence[int]) -> str:
    """Return the message of cosine_embedding_loss for batches with one target."""
    return (
        "0D target tensor expects 1D input tensors, but found inputs with sizes "
        f"{list(first)} and {list(second)}."
    )


def several_targets(first: Sequence[int], second: Sequence[int]) -> str:
    """Return the message of cosine_embedding_loss for vectors with several targets."""
    return (
        "1D target tensor expects 2D input tensors, but found inputs with sizes "
        f"{list(first)} and {list(second)}."
    )


def triplet_dimensions(anchor: int, positive: int, negative: int) -> str:
    """Return the message for triplets with different numbers of dimensions."""
    return (
        "The anchor, positive, and negative tensors are expected to have the same number of "
        f"dimensions, but got: anchor {anchor}D, positive {positive}D, and negative {negative}D "
        "inputs"
    )


def margin_target(rows: int, target: Sequence[int], shape: Sequence[int]) -> str:
    """Return the message of multi_margin_loss for another number of targets."""
    return (
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
        f"samples (batch size). Expected target size [{rows}], but got {list(target)}. Input has "
        f"shape {list(shape)}."
    )


def margin_input(shape: Sequence[int]) -> str:
    """Return the message of multi_margin_loss for scores of another shape."""
    return (
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
        f"{list(shape)}"
    )


# -- distances -------------------------------------------------------------------------------------


def cosine_dtype(dtype: str) -> str:
    """Return the message for cosines of integers."""
    return f"expected common dtype to be floating point, yet common dtype is {dtype}"


def norm_kind(dtype: str) -> str:
    """Return the message for the norm of integers."""
    return f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {dtype}"


def cdist_columns(first: int, second: int) -> str:
    """Return the message for points of different dimensions."""
    return f"X1 and X2 must have the same number of columns. X1: {first} X2: {second}"


# -- normalizations --------------------------------------------------------------------------------

NO_NORMALIZED_SHAPE = (
    "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
    "element, but got normalized_shape = []"
)
ONE_RUNNING_STATISTIC = "running_mean and running_var must either both be None or neither be None"
NO_RUNNING_STATISTICS = (
    "Expected running_mean and running_var to be defined when use_input_stats is false"
)


def normalized_parameter(name: str, shape: Sequence[int], sizes: Sequence[int]) -> str:
    """Return the message for a weight or bias of another shape."""
    return (
        f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
        f"{list(shape)} and normalized_shape = {list(sizes)}"
    )


def normalized_shape(sizes: Sequence[int], shape: Sequence[int], separator: str) -> str:
    """Return the message for an input of another shape."""
    listed = ", ".join(str(n) for n in sizes)
    return (
        f"Given normalized_shape={list(sizes)}, expected input with shape [*{separator}{listed}], "
        f"but got input of size{list(shape)}"
    )


SHARED_DTYPE = "mixed dtype (CPU): all inputs must share same datatype."
"""Message for parameters of single precision beside an input of double precision."""
RUNNING_TANGENT = "batch_norm is not differentiable wrt running_mean and running_var"
"""Message for tangents of running statistics."""


def no_statistics(shape: Sequence[int]) -> str:
    """Return the message for statistics of no elements."""
    return f"input tensor must have at least one element, but got input_sizes = {list(shape)}"


def elu_in_place(name: str) -> str:
    """Return the message for the derivative of an activation in place, with a negative slope."""
    return (
        f"In-place {name} backward calculation is triggered with a negative slope which is not "
        "supported. This is caused by calling in-place forward function with a negative slope, "
        "please call out-of-place version instead."
    )


def mixed_dtype(dtype: str) -> str:
    """Return the message for parameters of another precision."""
    return f"mixed dtype (CPU): expect parameter to have scalar type of {dtype}"


def channel_count(name: str, channels: int, count: int) -> str:
    """Return the message for another number of values than of channels."""
    return f"{name} should contain {channels} elements not {count}"


def one_value(shape: Sequence[int], *, listed: bool = False) -> str:
    """Return the message for the statistics of one value."""
    shown = list(shape) if listed else f"torch.Size({list(shape)})"
    return f"Expected more than 1 value per channel when training, got input size {shown}"


def one_spatial_element(shape: Sequence[int]) -> str:
    """Return the message for the statistics of one value in instance_norm."""
    return (
        "Expected more than 1 spatial element when training, got input size "
        f"torch.Size({list(shape)})"
    )


def group_channels(shape: Sequence[int], groups: int) -> str:
    """Return the message for channels that do not divide into groups."""
    return (
        "Expected number of channels in input to be divisible by num_groups, but got input of "
        f"shape {list(shape)} and num_groups={groups}"
    )


def group_dimensions(ndim: int) -> str:
    """Return the message for a vector in group_norm."""
    return f"Expected at least 2 dimensions for input tensor but received {ndim}"


def channel_vector(name: str, given: Sequence[int], shape: Sequence[int]) -> str:
    """Return the message for a weight or bias that is not one number per channel."""
    return (
        f"Expected {name} to be a vector of size equal to the number of channels in input, but got "
        f"{name} of shape {list(given)} and input of shape {list(shape)}"
    )


def response_dimensions(ndim: int) -> str:
    """Return the message for the wrong number of dimensions in local_response_norm."""
    return f"Expected 3D or higher dimensionality {' ' * 24} input (got {ndim} dimensions)"


# -- dropout ---------------------------------------------------------------------------------------

DROPOUT2D_OF_ROWS = (
    "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
    "is desired - input is interpreted as shape (N, C, L), where C is the channel dim. This "
    "behavior will change in a future release to interpret the input as one without a batch "
    "dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please "
    "switch to using dropout1d instead."
)


def dropout1d_dimensions(ndim: int) -> str:
    """Return the message of dropout1d for another number of dimensions."""
    return (
        f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d "
        "exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel "
        "dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
    )


def dropout_dimensions(name: str, ndim: int, spatial: int, accepted: str) -> str:
    """Return the warning of dropout2d and dropout3d for another number of dimensions."""
    return (
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs with "
        f"{spatial} spatial dimensions, a channel dimension, and an optional batch dimension (i.e. "
        f"{accepted} inputs)."
    )


# -- embeddings ------------------------------------------------------------------------------------


def embedding_indices(name: str, dtype: str) -> str:
    """Return the message for positions of another dtype."""
    return (
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
        f"Int; but got torch.{dtype}Tensor instead (while checking arguments for {name})"
    )


def weight_dtype(dtype: str) -> str:
    """Return the message of embedding_bag for a matrix of integers."""
    return (
        "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
        f"BFloat16, Float, Double; but got torch.{dtype}Tensor instead (while checking arguments "
        "for embedding_bag)"
    )


def first_offset(value: int, dtype: str) -> str:
    """Return the message for a first bag that begins late."""
    return (
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
        f"position 0. However, got {value}\n[ torch.{dtype}Tensor{{}} ]"
    )


def last_offset(size: int, value: int) -> str:
    """Return the message for a bag that begins behind the last position."""
    return (
        f"offsets[-1] can not be greater than input's length {size} but got offsets[-1] of {value}"
    )


def bag_index(place: int, value: int, rows: int) -> str:
    """Return the message of embedding_bag for a position out of range."""
    return f"Index {place} of input takes value {value} which is not in the valid range [0, {rows})"


def slow_bag_index(value: int) -> str:
    """Return the message of embedding_bag's slow path for a position out of range."""
    return f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {value}"


def bag_dtypes(weight: str, factors: str) -> str:
    """Return the message of embedding_bag for factors of another dtype than the matrix."""
    return (
        "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
        f"'per_sample_weights'; but type torch.{weight}Tensor does not equal "
        f"torch.{factors}Tensor (while checking arguments for embedding_bag)"
    )


def bag_padding(padding: int, rows: int) -> str:
    """Return the message of embedding_bag for a padding position out of range."""
    return (
        f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
        f"got {padding}"
    )


def linear_scalars(input: int, weight: int) -> str:
    """Return the message of linear for an operand without dimensions."""
    return f"both arguments to linear need to be at least 1D, but they are {input}D and {weight}D"


def bag_weights(given: Sequence[int], shape: Sequence[int]) -> str:
    """Return the message for factors of another shape than the positions."""
    return (
        f"embedding_bag: If per_sample_weights (torch.Size({list(given)})) is not None, then it "
        f"must have the same shape as the input (torch.Size({list(shape)}))"
    )


def bag_offsets(kind: str) -> str:
    """Return the message for offsets of a matrix of positions."""
    return (
        "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
        f"length sequences. However, found offsets of type <class 'torch.{kind}'>"
    )


def bag_mode(mode: str) -> str:
    """Return the message for factors of means and maxima."""
    return (
        "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
        f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
    )


# -- attention -------------------------------------------------------------------------------------

SHARED_HEADS = "Number of heads in key and value must divide the number of heads in "
CAUSAL_HINT = (
    "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
    "`generate_square_subsequent_mask` to create this mask."
)


def bilinear_dtypes(first: str, second: str, weight: str) -> str:
    """Return the message for operands of bilinear with different dtypes."""
    return (
        f"All tensors must have the same dtype, got input1: {first}, input2: {second}, weight: "
        f"{weight}"
    )


def bilinear_dimensions(first: int, second: int) -> str:
    """Return the message for operands of bilinear with different numbers of dimensions."""
    return f"bilinear(): input dimensions do not match: got {first} and {second}"


def bilinear_batch(dim: int, first: int, second: int) -> str:
    """Return the message for operands of bilinear with different sizes."""
    return f"bilinear(): input batch dimensions do not match at dim {dim}: got {first} and {second}"


def bilinear_size(name: str, given: int, wanted: int) -> str:
    """Return the message for an operand of bilinear that does not fit the weight."""
    return f"bilinear(): {name} size does not match weight size: got {given} but expected {wanted}"


def attention_dtypes(query: str, key: str, value: str) -> str:
    """Return the message for operands of attention with different dtypes."""
    return (
        f"Expected query, key, and value to have the same dtype, but got query.dtype: {query} "
        f"key.dtype: {key} and value.dtype: {value} instead."
    )


def attention_dimensions(query: int, key: int, value: int) -> str:
    """Return the message for vectors in attention."""
    return (
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
        f"{query} key.dim: {key} and value.dim: {value} instead."
    )


def attention_mask(mask: str, query: str) -> str:
    """Return the message for a mask of another dtype."""
    return (
        "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
        f"attn_mask.dtype: {mask} and  query.dtype: {query} instead."
    )


def key_rows(key: Sequence[int], value: Sequence[int]) -> str:
    """Return the message for numbers of keys and values that differ."""
    return (
        f"key's sequence and batch dims torch.Size({list(key)}) do not match value's "
        f"torch.Size({list(value)})"
    )


def key_shape(key: Sequence[int], value: Sequence[int]) -> str:
    """Return the message for shapes of keys and values that differ."""
    return f"key shape torch.Size({list(key)}) does not match value shape torch.Size({list(value)})"


def heads_mask(ndim: int, shape: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the message for a mask of another shape."""
    return (
        f"The shape of the {ndim}D attn_mask is torch.Size({list(shape)}), but should be "
        f"{tuple(wanted)}."
    )


def mismatched_masks(name: str, other: str) -> str:
    """Return the warning for masks of different dtypes."""
    return (
        f"Support for mismatched {name} and {other} is deprecated. Use same type for both instead."
    )


def heads_query(ndim: int) -> str:
    """Return the message for a query with another number of dimensions."""
    return f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor"


def heads_key(word: str, wanted: int, key: int, value: int) -> str:
    """Return the message for keys and values with another number of dimensions."""
    return (
        f"For {word} `query`, expected `key` and `value` to be {wanted}-D but found {key}-D and "
        f"{value}-D tensors respectively"
    )


def heads_padding(word: str, wanted: int, ndim: int) -> str:
    """Return the message for a padding mask with another number of dimensions."""
    return (
        f"For {word} `query`, expected `key_padding_mask` to be `None` or {wanted}-D but found "
        f"{ndim}-D tensor instead"
    )


def heads_mask_dimensions(word: str, ndim: int) -> str:
    """Return the message for a mask with another number of dimensions."""
    return (
        f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {ndim}-D "
        "tensor instead"
    )


# -- recurrent layers ------------------------------------------------------------------------------


def recurrent_dtypes(input: str, other: str) -> str:
    """Return the message for states and weights of another dtype."""
    return f"input must have the type torch.{other}, got type torch.{input}"


def cell_input(given: int, wanted: int) -> str:
    """Return the message for an input of another size."""
    return f"input has inconsistent input_size: got {given} expected {wanted}"


def cell_batch(rows: int, name: str, given: int) -> str:
    """Return the message for a state of another batch."""
    return f"Input batch size {rows} doesn't match {name} batch size {given}"


def not_differentiable(name: str, argument: str) -> str:
    """Return the message for an argument that may not require grad."""
    return (
        f"The function '{name}' is not differentiable with respect to argument '{argument}'. This "
        "input cannot have requires_grad True."
    )


# -- alignments ------------------------------------------------------------------------------------

_CHECKING = "(while checking arguments for ctc_loss_allocate_outputs)"


def negative_length(name: str, value: int) -> str:
    """Return the message for a negative length."""
    return f"Expected {name} to have value at least 0, but got value {value} {_CHECKING}"


def input_length(steps: int, value: int) -> str:
    """Return the message for more steps than there are."""
    return (
        f"Expected input_lengths to have value at most {steps}, but got value {value} {_CHECKING}"
    )


def flat_targets(wanted: int, given: int) -> str:
    """Return the message for another number of labels in one row."""
    return (
        f"Expected tensor to have size {wanted} at dimension 0, but got size {given} for argument "
        f"#2 'targets' {_CHECKING}"
    )


def target_rows(wanted: int, given: int) -> str:
    """Return the message for another number of rows of labels."""
    return flat_targets(wanted, given)


def target_columns(wanted: int, given: int) -> str:
    """Return the message for fewer labels than the lengths say."""
    return (
        f"Expected tensor to have size at least {wanted} at dimension 1, but got size {given} for "
        f"argument #2 'targets' {_CHECKING}"
    )
