"""Identities of operations: names, equality, schemas, calls."""

from __future__ import annotations

import copy
import pickle

import pytest

import functrace.torch as torch
from functrace.torch._ops import (
    FunctionSchema,
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    schema_lines,
)

aten = torch.ops.aten


def test_an_overload_is_one_object() -> None:
    """However it is reached; it hashes, prints and pickles."""
    op = aten.sin.default
    assert op is aten.sin.default is getattr(torch.ops.aten, "sin").default
    assert op in {op} and aten.cos.default not in {op}
    assert (str(op), repr(op), op.name()) == (
        "aten.sin.default",
        "<OpOverload(op='aten.sin', overload='default')>",
        "aten::sin",
    )
    assert copy.deepcopy(op) is op is pickle.loads(pickle.dumps(op))
    assert pickle.loads(pickle.dumps(aten.sin)) is aten.sin is op.overloadpacket
    assert isinstance(op, OpOverload) and isinstance(aten.sin, OpOverloadPacket)


def test_every_schema_is_read() -> None:
    """Each line gives arguments and results, and is what it was read from."""
    for name, overloads in schema_lines().items():
        for overload, text in overloads.items():
            schema = FunctionSchema(text)
            assert str(schema) == text and schema.name == f"aten::{name}"
            assert schema.overload_name == ("" if overload == "default" else overload)
            assert schema.is_mutable == ("!" in text)
            assert all(a.name for a in schema.arguments)


def test_schemas_describe_aliases() -> None:
    """Aliases of in-place, view and out overloads."""
    written, shown = (
        aten.mul_.Tensor._schema.arguments[0].alias_info,
        aten.view.default._schema.arguments[0].alias_info,
    )
    assert written is not None and written.is_write and shown is not None and not shown.is_write
    assert (
        aten.view.default.is_view and not aten.mul_.Tensor.is_view and not aten.mul.Tensor.is_view
    )
    out = aten.sin.out._schema.arguments[-1]
    assert out.is_out and out.kwarg_only and out.alias_info is not None and out.alias_info.is_write


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        (lambda x: aten.mul.Tensor(x, 2), [2.0, 4.0]),
        (lambda x: aten.add.Tensor(x, other=x, alpha=3), [4.0, 8.0]),
        (lambda x: aten.pow.Tensor_Scalar(x, 2), [1.0, 4.0]),
        (lambda x: aten.pow.Scalar(2, x), [2.0, 4.0]),
        (lambda x: aten.slice.Tensor(x, 0, 1, 9223372036854775807), [2.0]),
        (lambda x: aten.index.Tensor(x, [torch.tensor([1, 0])]), [2.0, 1.0]),
        (lambda x: aten.select.int(x, 0, 1), 2.0),
        (lambda x: aten.sum(x), 3.0),
        (lambda x: aten.sum(x, [0], True), [3.0]),
        (lambda x: aten.max.dim(x, 0).values, 2.0),
        (lambda x: aten.clamp.default(x, None, 1.5), [1.0, 1.5]),
        (lambda x: aten.linalg_vector_norm.default(x, 1), 3.0),
        (lambda x: aten._to_copy.default(x, dtype=torch.float64) * 1, [1.0, 2.0]),
        (lambda x: aten._unsafe_view.default(x, [2, 1]).reshape(-1), [1.0, 2.0]),
    ],
)
def test_an_overload_computes_and_is_recorded(called: object, expected: object) -> None:
    """Outside of modes an overload is a function like any other."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    made = called(x)  # type: ignore[operator]
    assert made.tolist() == expected
    assert made.requires_grad


def test_in_place_overloads_write() -> None:
    """Their result is the tensor."""
    x = torch.ones(2)
    assert aten.mul_.Tensor(x, 3) is x and x.tolist() == [3.0, 3.0]
    assert aten.sin.out(x * 0, out=x) is x and x.tolist() == [0.0, 0.0]


def test_missing_operations_raise() -> None:
    """Names, overloads, and functions that the shim does not have."""
    with pytest.raises(AttributeError, match="has no overload name 'nope'"):
        _ = aten.sin.nope
    with pytest.raises(
        AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nope'"
    ):
        _ = aten.nope
    with pytest.raises(
        AttributeError, match="'_OpNamespace' 'mine' object has no attribute 'nope'"
    ):
        _ = torch.ops.mine.nope
    flash = aten._scaled_dot_product_flash_attention.default  # a name for policies
    with pytest.raises(NotImplementedError, match="named here but cannot be called"):
        flash(torch.ones(1))
    with pytest.raises(TypeError, match="no overload takes these arguments"):
        aten.sin("text")
    with pytest.raises(NotImplementedError):
        HigherOrderOperator()
