"""The rows of products of matrices, and ``matmul``, which is composed of them.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.errors import FunctraceError
from functrace.executor.parallel.matmul import divided
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import is_linear
from functrace.numpy.functions.products import explicit_subscripts
from functrace.ops import elementwise as ew
from functrace.ops.contraction import einsum as core_einsum
from functrace.ops.contraction import matmul as core_matmul
from functrace.ops.contraction import matmul_p, swap_last
from functrace.ops.shaping import reshape as core_reshape
from functrace.passes.matmul_selection import THREADED
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.promotion import Promotion, arithmetic, check_broadcast
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import picking, reductions, shaping
from functrace.torch.functions.elementwise import dimension, dtype_of, shape_of, tensors_only, to
from functrace.torch.functions.elementwise import mul as multiply
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.orders import laid_by, ordered
from functrace.torch.tensors.tensor import Operand, Tensor, Value, count_write
from functrace.torch.tensors.views import write
from functrace.tracing import bind

ROWS = FunctionTable()


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))


def _mm_details(names: tuple[str, str]) -> Callable[..., dict[str, Any]]:
    def details(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
        return {
            f"{name}_sym_{what}": value
            for name, spec in zip(names, specs[-2:], strict=True)
            for what, value in (("sizes", spec.shape), ("strides", _strides(spec.shape)))
        }

    return details


def product(x: Any, y: Any) -> Any:
    """Return ``x @ y``; a product of arrays never waits for BLAS's own threads (`divided`)."""
    if type(x) is np.ndarray and type(y) is np.ndarray and x.size * y.shape[-1] >= THREADED:
        return divided(x, y)
    return core_matmul(x, y)


def _turned_jvp(primals: Any, _outputs: Any, tangents: Any) -> Any:
    (x, y), (a, b) = primals, tangents
    found = [
        None if a is None else turned_product(a, y),
        None if b is None else turned_product(x, b),
    ]
    return ew.plus(*found)


def _turned_transpose(ct: Any, x: Any, y: Any) -> Any:
    if is_linear(x):
        return core_matmul(ct, swap_last(y)), None
    return None, swap_last(core_matmul(swap_last(ct), x))


turned_product_p = replace(
    matmul_p, name="turned_product", jvp=_turned_jvp, transpose=_turned_transpose
)
"""The product of two matrices of which the second one is a transpose, such as ``weight.T``: so is
its gradient, as in PyTorch, and the weight's is in C order without a copy."""


def turned_product(x: Any, y: Any) -> Any:
    """Return ``x @ y``; see `turned_product_p`."""
    return bind(turned_product_p, (x, y))


def _is_turned(x: Operand) -> bool:
    array = x._array if isinstance(x, Tensor) else x
    return type(array) is np.ndarray and array.flags.f_contiguous and not array.flags.c_contiguous


MM = Op("MmBackward0", product, (("mat2", 1), ("self", 0)), details=_mm_details(("self", "mat2")))
MM_TURNED = replace(MM, derived=turned_product)
BMM = Op("BmmBackward0", product, (("mat2", 1), ("self", 0)))
MV = Op("MvBackward0", product, (("self", 0), ("vec", 1)))
DOT = Op("DotBackward0", core_matmul, (("self", 0), ("tensor", 1)))


def _sum_with_product(bias: Any, x: Any, y: Any) -> Any:
    found = product(x, y)
    if type(found) is type(bias) is np.ndarray and found.dtype == bias.dtype:
        return np.add(bias, found, out=found)
    return ew.add(bias, found)


ADDMM = Op(
    "AddmmBackward0",
    _sum_with_product,
    (("mat1", 1), ("mat2", 2)),
    details=lambda specs, params: (
        {"alpha": 1, "beta": 1} | _mm_details(("mat1", "mat2"))(specs, params)
    ),
)
ADDMM_TURNED = replace(ADDMM, derived=lambda bias, x, y: ew.add(bias, turned_product(x, y)))


_KERNELS = {"mm": "addmm_impl_cpu_", "bmm": "baddbmm_cpu", "mv": "addmv_impl_cpu", "dot": "dot"}


def _product(op: Op, name: str, ranks: tuple[int, int], doc: str) -> Callable[[Any, Any], Any]:
    second = {"mm": "mat2", "bmm": "mat2", "mv": "vec", "dot": "tensor"}[name]

    def function(input: Operand, other: Operand) -> Value:
        if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
            tensors_only(name, **{"input": input, second: other})
        a: Any = shape_of(input)
        b: Any = shape_of(other)
        if (
            (len(a), len(b)) != ranks
            or a[-1] != b[-2 if len(b) > 1 else 0]
            or (len(a) == 3 and a[0] != b[0])
        ):
            raise RuntimeError(errors.product_shapes(name, a, b))
        if name == "bmm" and dtype_of(input) == np.bool_:
            raise NotImplementedError(errors.no_kernel("bmm").format("Bool"))
        if dtype_of(input) != dtype_of(other):
            raise RuntimeError(
                errors.product_dtypes(name, DTYPES[dtype_of(input)], DTYPES[dtype_of(other)])
            )
        if dtype_of(input) == np.bool_:
            raise NotImplementedError(errors.no_kernel(_KERNELS[name]).format("Bool"))
        return apply(MM_TURNED if op is MM and _is_turned(other) else op, (input, other))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return ROWS.function(out=True)(function)


mm = _product(MM, "mm", (2, 2), "Return the product of two matrices.")
bmm = _product(BMM, "bmm", (3, 3), "Return the products of pairs of matrices.")
mv = _product(MV, "mv", (2, 1), "Return the product of a matrix and a vector.")
dot = _product(DOT, "dot", (1, 1), "Return the product of two vectors.")


def _einsum(*given: Any) -> Any:
    *operands, subscripts = given
    result = core_einsum(subscripts, *operands)
    if not isinstance(result, np.ndarray) or result.ndim < 2 or len(operands) < 2:
        return result
    inputs, _, output = subscripts.partition("->")
    *before, last = [
        dict(zip(term, zip(x.shape, x.strides, strict=True), strict=True))
        for term, x in zip(inputs.split(","), operands, strict=True)
    ]
    there = [
        {c for term in terms for c, (n, _) in term.items() if n != 1} for terms in (before, [last])
    ]
    if len(before) == 1 and there[0] | there[1] <= set(output):  # an elementwise product
        return laid_by(
            result, [tuple([term.get(c, (1, 0))[1] for c in output]) for term in (*before, last)]
        )
    # A product of matrices: common letters, rows, columns; these end with the output's last
    # letters.
    if output[-1] in there[0] and output[-1] not in there[1]:
        there.reverse()
    return ordered(
        result,
        sorted(
            range(len(output)), key=lambda k: tuple([output[k] not in letters for letters in there])
        ),
    )


EINSUM = Op(
    "EinsumBackward0",
    _einsum,
    tuple((f"operand{k}", k) for k in range(8)),
    Promotion(broadcasts=False),
)


def _check_contracted(subscripts: str, operands: Sequence[Operand]) -> None:
    """Check the contractions that PyTorch computes by matrix products, pair by pair: their dtypes
    must agree.

    Raises:
        RuntimeError: with PyTorch's message.
        NotImplementedError: for bools.
    """
    inputs, _, output = subscripts.partition("->")
    terms = inputs.split(",")
    left, kind = (
        {c for c, n in zip(terms[0], shape_of(operands[0]), strict=False) if n != 1},
        dtype_of(operands[0]),
    )
    for k, (term, x) in enumerate(zip(terms[1:], operands[1:], strict=True), start=1):
        right = {c for c, n in zip(term, shape_of(x), strict=False) if n != 1}
        if (left & right) - set(output) - set("".join(terms[k + 1 :])):
            if kind == np.bool_:
                raise NotImplementedError(errors.no_kernel("bmm").format("Bool"))
            if dtype_of(x) != kind:
                raise RuntimeError(
                    errors.scalar_types(DTYPES[kind].printed, DTYPES[dtype_of(x)].printed)
                )
        left, kind = (
            left | right,
            arithmetic.dtype([ShapeDtype((1,), kind), ShapeDtype((1,), dtype_of(x))]),
        )


@ROWS.function("function")
def einsum(equation: str, *operands: Any) -> Value:
    """Return a sum of products, specified by dimension letters: ``einsum("ij,jk->ik", a, b)``."""
    given = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    )
    tensors_only("einsum", **{f"operands[{k}]": x for k, x in enumerate(given)})
    text = equation.replace(" ", "")
    for k, (term, x) in enumerate(zip(text.partition("->")[0].split(","), given, strict=False)):
        if "." not in term and len(term) != len(shape_of(x)):
            raise RuntimeError(errors.einsum_rank(len(term), len(shape_of(x)), k))
    try:
        explicit = explicit_subscripts(text, tuple(len(shape_of(x)) for x in given))
        _check_contracted(explicit, given)
    except FunctraceError as error:
        raise RuntimeError(f"einsum(): {error}") from None
    inputs, _, output = explicit.partition("->")
    if len(given) == 1 and set(output) <= set(inputs) and len(set(output)) == len(output):
        return _rearranged(given[0], inputs, output)
    try:
        return apply(EINSUM, tuple(_without_lone(given, inputs.split(","), output)), (explicit,))
    except FunctraceError as error:
        raise RuntimeError(f"einsum(): {error}") from None


def _rearranged(x: Operand, letters: str, output: str) -> Value:
    """Return one operand by letters: a view of it, summed over letters missing in the output."""
    made: Any = x
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            a = letters.index(letter)
            b = letters.index(letter, a + 1)
            if shape_of(made)[a] != shape_of(made)[b]:
                raise RuntimeError(
                    errors.einsum_repeated(letter, shape_of(made)[b], shape_of(made)[a])
                )
            made = picking.diagonal(made, 0, a, b)
            letters = letters[:a] + letters[a + 1 : b] + letters[b + 1 :] + letter
    summed = [c for c in letters if c not in output]
    made = shaping.permute(made, [letters.index(c) for c in (*output, *summed)])
    return reductions.sum(made, list(range(len(output), len(letters)))) if summed else made


def _without_lone(operands: Sequence[Any], terms: Sequence[str], output: str) -> list[Any]:
    """Return integer operands summed over letters that no other operand has, which PyTorch sums
    first, in int64.
    """
    sizes: dict[str, int] = {}
    for x, term in zip(operands, terms, strict=True):
        for c, n in zip(term, shape_of(x), strict=True):
            sizes[c] = sizes.get(c, 0) + (n != 1)
    found = []
    for x, term in zip(operands, terms, strict=True):
        lone = [
            k
            for k, c in enumerate(term)
            if c not in output and sizes[c] == 1 and shape_of(x)[k] != 1
        ]
        is_counted = lone and len(set(term)) == len(term) and dtype_of(x).kind in "bui"
        found.append(reductions.sum(x, lone, True) if is_counted else x)
    return found


@ROWS.function(aliases="ger", out=True)
def outer(input: Operand, vec2: Operand) -> Value:
    """Return the products of all pairs of elements of two vectors."""
    tensors_only("outer", input=input, vec2=vec2)
    for name, x in (("self", input), ("vec2", vec2)):
        if len(shape_of(x)) != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {len(shape_of(x))}-D")
    left: Any = shaping.reshape(input, (-1, 1))
    return left * vec2


def _scaled(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return ``beta * bias + alpha * product(x, y)``; a bias times 0 is not read."""

    def function(bias: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
        found = product(x, y)
        kind = found.dtype
        if alpha != 1:
            found = ew.mul(found, kind.type(alpha))
        if beta == 0:
            return found
        return ew.add(bias if beta == 1 else ew.mul(bias, kind.type(beta)), found)

    return function


def _scale_details(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"beta": params[0], "alpha": params[1]}


ADDMM_SCALED = Op(
    "AddmmBackward0",
    _scaled(core_matmul),
    (("mat1", 1), ("mat2", 2)),
    details=lambda specs, params: (
        _scale_details(specs, params) | _mm_details(("mat1", "mat2"))(specs, params)
    ),
)


def _check_sum(name: str, input: Operand, first: Operand, second: Operand) -> None:
    """Check the dtypes of ``input + first @ second``."""
    kinds = [dtype_of(x) for x in (input, first, second)]
    names = [DTYPES[kind].printed for kind in kinds]
    if kinds[0] != kinds[2]:
        raise RuntimeError(errors.addmm_dtypes(names[0], names[2], of_matrices=False))
    if kinds[1] != kinds[2]:
        raise RuntimeError(errors.addmm_dtypes(names[1], names[2], of_matrices=True))
    if kinds[0] == np.bool_:
        raise NotImplementedError(errors.no_kernel(name).format("Bool"))


def _older(run: Run, name: str, names: str, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tensors and factors of an older form: factors are before what they multiply.

    Raises:
        TypeError: if the arguments are not in this form.
    """
    tensors = [x for x in given if type(number_of(x)) not in NUMBERS]
    factors = [number_of(x) for x in given if type(number_of(x)) in NUMBERS]
    places = [k for k, x in enumerate(given) if type(number_of(x)) in NUMBERS]
    if len(tensors) != 3 or places not in ([0], [1], [0, 2], [1, 2]):
        raise TypeError(f"{name}() takes 3 positional arguments but {len(given)} were given")
    called = f"{name}_" if run is write else name
    first, second = (f"Tensor {x}" for x in names.split())
    words = ["Tensor input", first, second]
    for k, factor in zip(places, ("beta", "alpha"), strict=False):
        words.insert(k, f"Number {factor}")
    kept, new = ["Tensor input", first, second], "*, Number beta = 1, Number alpha = 1"
    if places[0] == 1:  # a method
        words, kept = words[1:], kept[1:]
    else:
        words, new = [*words, "*, Tensor out = None"], f"{new}, Tensor out = None"
    warn_once(
        f"This overload of {called} is deprecated:\n\t{called}({', '.join(words)})\nConsider using "
        f"one of the following signatures instead:\n\t{called}({', '.join([*kept, new])})"
    )
    return (*tensors, *factors, *(1,) * (2 - len(factors)))


@ROWS.family("function method in_place", out=True)
def addmm(run: Run) -> Callable[..., Value]:
    """Return ``beta * input + alpha * mat1 @ mat2``."""

    def function(
        input: Operand,
        mat1: Operand,
        mat2: Operand,
        *older: Operand,
        beta: Any = 1,
        alpha: Any = 1,
    ) -> Value:
        if older:
            given = (input, mat1, mat2, *older)
            input, mat1, mat2, beta, alpha = _older(run, "addmm", "mat1 mat2", given)
        a, b = shape_of(mat1), shape_of(mat2)
        if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
            raise RuntimeError(errors.product_shapes("addmm", a, b))
        wanted = a[0], b[1]
        if np.broadcast_shapes(shape_of(input), wanted) != wanted:
            shaping.expand(input, wanted)
        _check_sum(_KERNELS["mm"], input, mat1, mat2)
        if type(beta) is int and type(alpha) is int and beta == 1 and alpha == 1:
            return run(ADDMM_TURNED if _is_turned(mat2) else ADDMM, (input, mat1, mat2))
        return run(ADDMM_SCALED, (input, mat1, mat2), (beta, alpha))

    return function


BADDBMM = Op(
    "BaddbmmBackward0",
    _scaled(core_matmul),
    (("batch1", 1), ("batch2", 2)),
    details=_scale_details,
)
ADDBMM = Op(
    "AddbmmBackward0",
    _scaled(lambda x, y: core_einsum("bij,bjk->ik", x, y)),
    (("batch1", 1), ("batch2", 2)),
    details=lambda specs, params: (
        _scale_details(specs, params)
        | {
            "batch1_sym_argsize_0": specs[1].shape[0],
            "batch1_sym_argsize_1": specs[1].shape[1],
            "batch2_sym_argsize_2": specs[2].shape[2],
        }
    ),
)
ADDMV = Op("AddmvBackward0", _scaled(core_matmul), (("mat", 1), ("vec", 2)), details=_scale_details)
ADDR = Op(
    "AddrBackward0",
    _scaled(lambda x, y: ew.mul(core_reshape(x, (*x.shape, 1)), y)),
    (("vec1", 1), ("vec2", 2)),
    details=_scale_details,
)


def _check_batches(name: str, first: Operand, second: Operand) -> tuple[int, int, int]:
    """Return the sizes of the products of stacks of matrices."""
    a, b = shape_of(first), shape_of(second)
    for k, shape in enumerate((a, b), start=1):
        if len(shape) != 3:
            if name == "baddbmm":
                dimension(2, len(shape))
            if len(shape) < 3:
                dimension(2, len(shape))
            raise RuntimeError(f"batch{k} must be a 3D tensor")
    if a[0] != b[0] or a[2] != b[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but "
            f"got: [{b[0]}, {b[1]}]."
        )
    return a[0], a[1], b[2]


@ROWS.family("function method in_place", out=True)
def baddbmm(run: Run) -> Callable[..., Value]:
    """Return ``beta * input + alpha * batch1 @ batch2`` for stacks of matrices."""

    def function(
        input: Operand,
        batch1: Operand,
        batch2: Operand,
        *older: Operand,
        beta: Any = 1,
        alpha: Any = 1,
    ) -> Value:
        if older:
            given = (input, batch1, batch2, *older)
            input, batch1, batch2, beta, alpha = _older(run, "baddbmm", "batch1 batch2", given)
        wanted = _check_batches("baddbmm", batch1, batch2)
        if shape_of(input) != wanted:
            shaping.expand(input, wanted)
        _check_batch_dtypes("baddbmm", input, batch1, batch2)
        return run(BADDBMM, (input, batch1, batch2), (beta, alpha))

    return function


@ROWS.family("function method in_place", out=True)
def addbmm(run: Run) -> Callable[..., Value]:
    """Return ``beta * input + alpha * sum(batch1 @ batch2)``, the sum over stacks of matrices."""

    def function(
        input: Operand,
        batch1: Operand,
        batch2: Operand,
        *older: Operand,
        beta: Any = 1,
        alpha: Any = 1,
    ) -> Value:
        if older:
            given = (input, batch1, batch2, *older)
            input, batch1, batch2, beta, alpha = _older(run, "addbmm", "batch1 batch2", given)
        wanted = _check_batches("addbmm", batch1, batch2)[1:]
        if shape_of(input) != wanted:
            shaping.expand(input, wanted)
        _check_batch_dtypes("addbmm", input, batch1, batch2)
        return run(ADDBMM, (input, batch1, batch2), (beta, alpha))

    return function


def _check_batch_dtypes(name: str, input: Operand, first: Operand, second: Operand) -> None:
    kinds = [dtype_of(x) for x in (input, first, second)]
    if len(set(kinds)) > 1:
        names = [DTYPES[kind].printed for kind in kinds]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: "
            f"{names[2]}"
        )
    if kinds[0] == np.bool_:
        raise NotImplementedError(errors.no_kernel("baddbmm_cpu").format("Bool"))


@ROWS.family("function method in_place function_in_place", out=True)
def addmv(run: Run) -> Callable[..., Value]:
    """Return ``beta * input + alpha * mat @ vec``."""

    def function(
        input: Operand,
        mat: Operand,
        vec: Operand,
        *older: Operand,
        beta: Any = 1,
        alpha: Any = 1,
    ) -> Value:
        if older:
            given = (input, mat, vec, *older)
            input, mat, vec, beta, alpha = _older(run, "addmv", "mat vec", given)
        a, b, own = shape_of(mat), shape_of(vec), shape_of(input)
        if len(a) != 2 or len(b) != 1 or len(own) > 1:
            raise RuntimeError(
                f"vector + matrix @ vector expected, got {len(own)}, {len(a)}, {len(b)}"
            )
        if a[1] != b[0] or (own and own[0] not in (1, a[0])):
            raise RuntimeError(
                f"size mismatch, got input ({own[0] if own else 1}), mat ({a[0]}x{a[1]}), vec "
                f"({b[0]})"
            )
        _check_sum("addmv_impl_cpu", input, mat, vec)
        return run(ADDMV, (input, mat, vec), (beta, alpha))

    return function


@ROWS.family("function method in_place", out=True)
def addr(run: Run) -> Callable[..., Value]:
    """Return ``beta * input + alpha * outer(vec1, vec2)``."""

    def function(
        input: Operand,
        vec1: Operand,
        vec2: Operand,
        *older: Operand,
        beta: Any = 1,
        alpha: Any = 1,
    ) -> Value:
        if older:
            given = (input, vec1, vec2, *older)
            input, vec1, vec2, beta, alpha = _older(run, "addr", "vec1 vec2", given)
        for name, x in (("vec1", vec1), ("vec2", vec2)):
            if len(shape_of(x)) != 1:
                raise RuntimeError(
                    f"addr: Expected 1-D argument {name}, but got {len(shape_of(x))}-D"
                )
        wanted = shape_of(vec1)[0], shape_of(vec2)[0]
        if shape_of(input) != wanted:
            shaping.expand(input, wanted)
        given = [input, vec1, vec2]
        common = arithmetic.dtype([ShapeDtype((1,), dtype_of(x)) for x in given])
        if run is apply:
            given = [to(x, common) for x in given]
        return run(ADDR, tuple(given), (beta, alpha))

    return function


VDOT = Op(
    "VdotBackward0",
    lambda x, y: core_matmul(ew.conj(x) if x.dtype.kind == "c" else x, y),
    (("other", 1), ("self", 0)),
)


@ROWS.function(out=True)
def vdot(input: Operand, other: Operand) -> Value:
    """Return the product of two vectors, the first conjugated."""
    tensors_only("vdot", input=input, other=other)
    a, b = shape_of(input), shape_of(other)
    if len(a) != 1 or len(b) != 1:
        raise RuntimeError(f"1D tensors expected, but got {len(a)}D and {len(b)}D tensors")
    kinds = dtype_of(input), dtype_of(other)
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{DTYPES[kinds[0]].printed} and {DTYPES[kinds[1]].printed}"
        )
    if kinds[0] == np.bool_:
        raise NotImplementedError(errors.no_kernel("dot").format("Bool"))
    if a != b:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same "
            f"number of elements, but got {a[0]} and {b[0]} elements respectively"
        )
    return apply(VDOT, (input, other))


@ROWS.function(out=True)
def inner(input: Operand, other: Operand) -> Value:
    """Return the products of all vectors along the last dimensions."""
    tensors_only("inner", input=input, other=other)
    a, b = shape_of(input), shape_of(other)
    if not a or not b:
        return multiply(input, other)
    if a[-1] != b[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a)} and {list(b)}"
        )
    return tensordot(input, other, ([-1], [-1]))


@ROWS.function("function", out=True)
def tensordot(a: Operand, b: Operand, dims: Any = 2) -> Value:
    """Return sums of products over pairs of dimensions.

    Args:
        dims: how many of the last dimensions of ``a`` are paired with the first ones of ``b``; or
            two lists of dimensions.
    """
    tensors_only("tensordot", a=a, b=b)
    first, second = shape_of(a), shape_of(b)
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(len(first), len(second)):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        pairs = list(range(-dims, 0)), list(range(dims))
    else:
        pairs = tuple([k] if isinstance(k, int) else list(k) for k in dims)  # type: ignore[assignment]
    if len(pairs[0]) != len(pairs[1]):
        raise RuntimeError("both dimension lists should have same length")
    if dtype_of(a) != dtype_of(b):
        raise RuntimeError("both inputs should have same dtype")
    axes = [
        [dimension(k, len(shape)) for k in listed]
        for shape, listed in ((first, pairs[0]), (second, pairs[1]))
    ]
    left: Any = a
    right: Any = b
    for k, (i, j) in enumerate(zip(*axes, strict=True)):
        if first[i] == 1 and second[j] != 1:
            right = reductions.sum(right, j, True)
        elif second[j] == 1 and first[i] != 1:
            left = reductions.sum(left, i, True)
        elif first[i] != second[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {first[i]} in dim "
                f"{pairs[0][k]} and second has size {second[j]} in dim {pairs[1][k]}"
            )
    first, second = shape_of(left), shape_of(right)
    rest = [
        [k for k in range(len(shape)) if k not in listed]
        for shape, listed in ((first, axes[0]), (second, axes[1]))
    ]
    count = math.prod(first[k] for k in axes[0])
    sizes = [first[k] for k in rest[0]], [second[k] for k in rest[1]]
    if not rest[0] and not rest[1] and len(first) == len(second) == 1:
        return shaping.view(dot(left, right), ())
    rows = shaping.reshape(
        shaping.permute(left, (*rest[0], *axes[0])), (math.prod(sizes[0]), count)
    )
    columns = shaping.reshape(
        shaping.permute(right, (*axes[1], *rest[1])), (count, math.prod(sizes[1]))
    )
    return shaping.view(mm(rows, columns), (*sizes[0], *sizes[1]))


@ROWS.function(out=True)
def kron(input: Operand, other: Operand) -> Value:
    """Return the Kronecker product: all products of elements, in blocks."""
    tensors_only("kron", input=input, other=other)
    count = max(len(shape_of(input)), len(shape_of(other)))
    a, b = ((1,) * (count - len(s)) + s for s in (shape_of(input), shape_of(other)))
    left = shaping.view(shaping.contiguous(input), tuple(n for size in a for n in (size, 1)))
    right = shaping.view(shaping.contiguous(other), tuple(n for size in b for n in (1, size)))
    full = tuple(n * m for n, m in zip(a, b, strict=True))
    return apply(shaping.UNSAFE_VIEW, (multiply(left, right),), (full,))


@ROWS.function(operators="matmul rmatmul", out=True)
def matmul(input: Operand, other: Operand) -> Value:
    """Return the product of matrices, vectors, or stacks of matrices, composed as in PyTorch."""
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        tensors_only("matmul", input=input, other=other)
    a: Any = shape_of(input)
    b: Any = shape_of(other)
    if min(len(a), len(b)) == 0:
        raise RuntimeError(errors.matmul_of_numbers(len(a), len(b)))
    if len(a) == 1 and len(b) == 1:
        return dot(input, other)
    if len(a) == 2 and len(b) == 2:
        return mm(input, other)
    if len(a) == 2 and len(b) == 1:
        return mv(input, other)
    if len(a) == 1 and len(b) == 2:
        made = apply(
            shaping.SQUEEZE_OF_PRODUCT, (mm(shaping.unsqueeze(input, 0), other),), ((b[1],),)
        )
        if isinstance(made, Tensor):
            count_write(made)  # PyTorch squeezes in place
        return made
    if len(a) >= 3 and len(b) <= 2:
        flat = shaping.reshape(
            input, (math.prod(a[:-1]), a[-1])
        )  # (-1 is ambiguous for an empty tensor)
        if len(b) == 1:
            return apply(shaping.UNSAFE_VIEW, (mv(flat, other),), (a[:-1],))
        return apply(shaping.UNSAFE_VIEW, (mm(flat, other),), ((*a[:-1], b[1]),))
    if len(a) == 1:
        return shaping.squeeze(matmul(shaping.unsqueeze(input, 0), other), -2)
    left, right = a[:-2], b[:-2]
    check_broadcast(left, right)
    batch = np.broadcast_shapes(left, right)
    count = math.prod(batch)
    x = shaping.reshape(shaping.expand(input, (*batch, *a[-2:])), (count, *a[-2:]))
    y = shaping.reshape(shaping.expand(other, (*batch, *b[-2:])), (count, *b[-2:]))
    return apply(shaping.UNSAFE_VIEW, (bmm(x, y),), ((*batch, a[-2], b[-1]),))
