"""The rows of products of matrices, and ``matmul``, which is composed of them.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.errors import FunctraceError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.functions.products import explicit_subscripts
from functrace.ops import elementwise as ew
from functrace.ops.contraction import einsum as core_einsum
from functrace.ops.contraction import matmul as core_matmul
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import Promotion, arithmetic, check_broadcast
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import picking, reductions, shaping
from functrace.torch.functions.elementwise import dtype_of, shape_of, tensors_only
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.orders import laid_by, ordered
from functrace.torch.tensors.tensor import Operand, Tensor, Value, count_write

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


MM = Op(
    "MmBackward0", core_matmul, (("mat2", 1), ("self", 0)), details=_mm_details(("self", "mat2"))
)
BMM = Op("BmmBackward0", core_matmul, (("mat2", 1), ("self", 0)))
MV = Op("MvBackward0", core_matmul, (("self", 0), ("vec", 1)))
DOT = Op("DotBackward0", core_matmul, (("self", 0), ("tensor", 1)))
ADDMM = Op(
    "AddmmBackward0",
    lambda bias, x, y: ew.add(bias, core_matmul(x, y)),
    (("mat1", 1), ("mat2", 2)),
    details=lambda specs, params: (
        {"alpha": 1, "beta": 1} | _mm_details(("mat1", "mat2"))(specs, params)
    ),
)


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
        return apply(op, (input, other))

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


@ROWS.function(aliases="ger")
def outer(input: Operand, vec2: Operand) -> Value:
    """Return the products of all pairs of elements of two vectors."""
    for name, x in (("self", input), ("vec2", vec2)):
        if len(shape_of(x)) != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {len(shape_of(x))}-D")
    left: Any = shaping.reshape(input, (-1, 1))
    return left * vec2


@ROWS.function("function", out=True)
def addmm(input: Operand, mat1: Operand, mat2: Operand) -> Value:
    """Return ``input + mat1 @ mat2``."""
    a, b = shape_of(mat1), shape_of(mat2)
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise RuntimeError(errors.product_shapes("addmm", a, b))
    wanted = a[0], b[1]
    if np.broadcast_shapes(shape_of(input), wanted) != wanted:
        shaping.expand(input, wanted)
    kinds = [dtype_of(x) for x in (input, mat1, mat2)]
    names = [DTYPES[kind].printed for kind in kinds]
    if kinds[0] != kinds[2]:
        raise RuntimeError(errors.addmm_dtypes(names[0], names[2], of_matrices=False))
    if kinds[1] != kinds[2]:
        raise RuntimeError(errors.addmm_dtypes(names[1], names[2], of_matrices=True))
    if kinds[0] == np.bool_:
        raise NotImplementedError(errors.no_kernel(_KERNELS["mm"]).format("Bool"))
    return apply(ADDMM, (input, mat1, mat2))


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
