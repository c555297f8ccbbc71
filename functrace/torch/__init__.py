"""PyTorch's face: ``import functrace.torch as torch``.

Eager tensors over NumPy arrays with PyTorch 2.13's observable behaviour: ``backward``, graph nodes and hooks,
``autograd.Function``, saved-tensor hooks, checkpoint. Every derivative is a program that functrace's core derived.

Floor: 8.
"""

# ruff: noqa: F401
from functrace.torch import (
    _C,
    autograd,
    methods,  # gives Tensor its operators and methods
    nn,
    utils,
)
from functrace.torch.autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from functrace.torch.creation import (
    allclose,
    arange,
    as_tensor,
    empty,
    empty_like,
    equal,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    tensor,
    zeros,
    zeros_like,
)  # fmt: skip
from functrace.torch.dtypes import (
    bool_ as bool,
)  # fmt: skip
from functrace.torch.dtypes import (
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    int8,
    int16,
    int32,
    int64,
    long,
    set_default_dtype,
    short,
    uint8,
)
from functrace.torch.dtypes import (
    float_ as float,
)
from functrace.torch.dtypes import (
    int_ as int,
)
from functrace.torch.functions import (
    abs,
    add,
    ceil,
    clamp,
    clone,
    cos,
    div,
    eq,
    exp,
    floor,
    ge,
    gt,
    isfinite,
    isnan,
    le,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    pow,
    reciprocal,
    relu,
    round,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    sub,
    tanh,
    where,
)  # fmt: skip
from functrace.torch.products import addmm, bmm, dot, matmul, mm, mv
from functrace.torch.random import get_rng_state, initial_seed, manual_seed, set_rng_state
from functrace.torch.reductions import all, any, argmax, argmin, log_softmax, logsumexp, max, mean, min, prod, softmax, sum
from functrace.torch.shaping import (
    cat,
    flatten,
    gather,
    narrow,
    permute,
    reshape,
    select,
    squeeze,
    stack,
    t,
    transpose,
    unsqueeze,
)  # fmt: skip
from functrace.torch.size import Size
from functrace.torch.tensor import Tensor, is_tensor
