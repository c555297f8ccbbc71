"""A row says everything of a function: its forms, its operators, what type checkers see."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.ops import elementwise as ew
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import arithmetic, floating
from functrace.torch.dispatch.rows import (
    FUNCTIONAL,
    NN,
    PLACES,
    TENSOR,
    TORCH,
    FunctionSpec,
    FunctionTable,
    Run,
    entries,
)
from functrace.torch.dispatch.surface import ENTRIES, TABLES
from functrace.torch.functions.elementwise import EVERY, SELF
from tests.torch.stubs import main, stubs

HERE = Path(torch.__file__).parent
OWNERS: dict[str, Any] = {
    NN: torch._C._nn,
    TORCH: torch,
    TENSOR: torch.Tensor,
    FUNCTIONAL: torch.nn.functional,
}


# -- what is there ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", OWNERS)
def test_forms_of_rows_are_defined_in_their_namespaces(place: str) -> None:
    assert ENTRIES[place]
    for name, (row, value) in ENTRIES[place].items():
        found = inspect.getattr_static(OWNERS[place], name)
        assert found == value or isinstance(value, property), name  # (see overrides.py)
        assert (found.fget if isinstance(found, property) else found).__doc__ or name.startswith(
            "__"
        ), name
        assert {name, name.strip("_")} & {row.name, *row.aliases, *row.operators}


def test_functions_and_dtypes_are_pickled_by_their_public_names() -> None:
    for place in OWNERS:
        for name in ENTRIES[place]:
            value = inspect.getattr_static(OWNERS[place], name)
            if not isinstance(value, property) and not name.startswith("__"):
                if place != TENSOR or value.__qualname__.startswith("Tensor."):
                    assert pickle.loads(pickle.dumps(value)) is value, name
                assert (
                    value.__module__.startswith("functrace.torch")
                    and "<locals>" not in value.__qualname__
                )
    for name in ("bool", "float32", "int64", "cdouble"):
        dtype = getattr(torch, name)
        assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype


def test_in_place_forms_and_methods_come_from_the_same_row() -> None:
    for name, (row, _) in ENTRIES[TENSOR].items():
        if name.endswith("_") and "in_place" in row.forms:
            assert name.startswith("__") or ENTRIES[TENSOR][name[:-1]][0] is row


def test_nothing_but_rows_and_the_class_itself_gives_tensors_methods() -> None:
    tree = ast.parse((HERE / "tensors" / "tensor.py").read_text())
    (tensor,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor"
    ]
    written = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    given = {
        name
        for name, value in vars(torch.Tensor).items()
        if callable(value) or isinstance(value, property)
    }
    others = {
        "__functrace_call__", "__functrace_jit__", "__torch_function__", "_make_wrapper_subclass",
        "_prepare",
    }  # fmt: skip
    assert given - written - others == set(ENTRIES[TENSOR])  # see `install`
    assert not written & set(ENTRIES[TENSOR])


OPS = [row for table in TABLES for row in table if row.op is not None]


def difference(
    function: Callable[..., Any], operands: list[Any], k: int, step: float = 1e-6
) -> Any:
    """The derivative by operand ``k``, element by element."""
    ends = [
        function(*(x + sign * step if i == k else x for i, x in enumerate(operands)))
        for sign in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("row", OPS, ids=lambda row: row.name)
def test_every_form_of_an_op_computes_and_differentiates_the_same(row: FunctionSpec) -> None:
    count = len(
        [p for p in inspect.signature(row.function).parameters if p not in ("alpha", "out")]
    )
    kind = np.int64 if row.name.startswith(("bitwise", "gcd", "lcm")) else np.float64
    first = (
        [0.3, 0.4, -0.7, 0.1]
        if row.name in ("asin", "acos", "atanh")
        else [1.3, 1.1 if row.name == "acosh" else 0.4, 2.7, 5.1]
    )
    arrays = [np.array(first).astype(kind), np.array([0.7, 1.6, 1.2, 3.4]).astype(kind)][:count]
    tensors = [torch.from_numpy(a) for a in arrays]
    raw = row.function(*arrays)
    assert isinstance(raw, np.ndarray)
    forms = [
        (name, form)
        for there in ENTRIES.values()
        for name, (owner, form) in there.items()
        if owner is row
    ]
    for name, form in forms:
        reflected = name[:3] == "__r" and name[3:-2] in row.operators
        first, *others = (torch.from_numpy(a.copy()) for a in arrays)
        result = form(others[0], first) if reflected else form(first, *others)
        np.testing.assert_allclose(result.numpy(), raw, rtol=1e-15)
        assert (result is first) == (form is row.in_place)
    if tensors[0].is_floating_point() and raw.dtype.kind == "f":
        wanted = [t.requires_grad_() for t in tensors]
        got = torch.autograd.grad(row.function(*wanted).sum(), wanted, allow_unused=True)
        for k, gradient in enumerate(got):
            assert gradient is not None
            np.testing.assert_allclose(
                gradient.numpy(), difference(row.function, arrays, k), rtol=1e-6, atol=1e-8
            )


# -- what type checkers see ------------------------------------------------------------------------


def test_stubs_match_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out
    assert sorted(HERE.rglob("*.pyi")) == sorted(stubs())


def declared(place: str) -> dict[str, ast.FunctionDef]:
    """The functions that a stub declares, read from the file."""
    files = {FUNCTIONAL: "nn/functional.pyi", NN: "_C/_nn.pyi"}
    tree = ast.parse((HERE / files.get(place, "namespace.pyi")).read_text())
    body: list[ast.stmt] = tree.body
    if place == TENSOR:
        (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def parameters_of(node: ast.FunctionDef) -> list[tuple[str, str, Any]]:
    """Name, kind and default of the parameters of a declaration."""
    a, missing = node.args, inspect.Parameter.empty
    defaults: list[Any] = [missing] * (len(a.args) - len(a.defaults)) + [
        ast.literal_eval(d) for d in a.defaults
    ]
    found = [(x.arg, "POSITIONAL_OR_KEYWORD", d) for x, d in zip(a.args, defaults, strict=True)]
    found += [(a.vararg.arg, "VAR_POSITIONAL", missing)] if a.vararg else []
    found += [
        (x.arg, "KEYWORD_ONLY", missing if d is None else ast.literal_eval(d))
        for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)
    ]
    return found + ([(a.kwarg.arg, "VAR_KEYWORD", missing)] if a.kwarg else [])


@pytest.mark.parametrize("place", OWNERS)
def test_functions_have_the_signatures_of_the_stubs(place: str) -> None:
    there = declared(place)
    assert set(there) == set(ENTRIES[place])
    for name, node in there.items():
        value = inspect.getattr_static(OWNERS[place], name)
        assert isinstance(value, property) == bool(node.decorator_list)
        function = value.fget if isinstance(value, property) else value
        actual = [
            (p.name, p.kind.name, p.default)
            for p in inspect.signature(function).parameters.values()
        ]
        expected = parameters_of(node)
        if place == TENSOR:
            assert expected[0][0] == "self"
            actual, expected = actual[1:], expected[1:]
        assert actual == expected, name


# -- a row of one's own ----------------------------------------------------------------------------


def scratch(rows: FunctionTable) -> tuple[dict[str, Callable[..., Any]], type[Any]]:
    """A namespace of functions and a class of tensors with what rows give."""
    found = entries([rows])
    functions = {name: function for name, (_, function) in found[TORCH].items()}
    return functions, type(
        "Scratch", (torch.Tensor,), {name: value for name, (_, value) in found[TENSOR].items()}
    )


def of_class(kind: type[Any], values: list[float], requires_grad: bool = False) -> Any:
    made = kind(torch.tensor(values, dtype=torch.float64))
    return made.requires_grad_() if requires_grad else made


X = [0.5, -1.25, 2.0]


def test_one_row_is_a_function_a_method_an_in_place_form_and_an_alias() -> None:
    rows = FunctionTable()
    returned = rows.op(
        "my_op", ew.sinh, SELF, floating, forms=EVERY, aliases="mine", doc="Return sinh."
    )
    functions, kind = scratch(rows)
    assert functions == {"my_op": returned, "mine": returned}
    assert returned.__name__ == "my_op" and returned.__doc__ == "Return sinh."
    assert {"my_op", "mine", "my_op_", "mine_"} <= set(vars(kind))
    assert (
        str(inspect.signature(returned))
        == "(input: 'Operand', *, out: 'Tensor | None' = None) -> 'Value'"
    )

    x = of_class(kind, X, requires_grad=True)
    for y in (functions["my_op"](x), x.my_op(), x.mine()):
        assert type(y.grad_fn).__name__ == "MyOpBackward0"
        assert np.array_equal(y.grad_fn._saved_self.numpy(force=True), X)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert np.allclose(g.numpy(force=True), np.cosh(X))
        (second,) = torch.autograd.grad(g.sum(), x)
        assert np.allclose(second.numpy(), np.sinh(X))

    z = of_class(kind, X)
    assert z.my_op_() is z and np.allclose(z.numpy(), np.sinh(X)) and z._version == 1
    kept = of_class(kind, X, requires_grad=True)
    y = kept * 1.0
    kind.my_op_(y)
    y.sum().backward()
    assert np.allclose(kept.grad.numpy(), np.cosh(X))
    assert functions["my_op"](of_class(kind, X).to(torch.float32)).dtype is torch.float32
    assert functions["my_op"](torch.tensor([1, 2])).dtype is torch.float32  # `floating`
    assert np.allclose(ft.grad(lambda a: np.sum(functions["my_op"](a)))(np.array(X)), np.cosh(X))


def test_operators_of_a_row() -> None:
    rows = FunctionTable()
    rows.op(
        "plus",
        ew.add,
        (),
        arithmetic,
        forms=EVERY,
        operators="xor rxor ixor",
        commutes=True,
        doc="Return the sum.",
    )
    rows.op("minus", ew.sub, (), arithmetic, operators="mod rmod", doc="Return the difference.")
    rows.op("turned", ew.neg, operators="invert", doc="Return the negative.")
    _, kind = scratch(rows)
    x = of_class(kind, X, requires_grad=True)
    assert (x ^ 2).tolist() == (2 ^ x).tolist() == [2.5, 0.75, 4.0]
    assert type((2 ^ x).grad_fn).__name__ == "PlusBackward0"
    assert (x % 2).tolist() == [-1.5, -3.25, 0.0] and (2 % x).tolist() == [1.5, 3.25, 0.0]
    assert (~x).tolist() == [-0.5, 1.25, -2.0]
    with torch.no_grad():
        before = x
        x ^= 1
    assert x is before and x.tolist() == [1.5, -0.25, 3.0]
    with pytest.raises(TypeError):
        x ^ "text"


def test_a_family_is_defined_once() -> None:
    double, triple = (
        Op("TwiceBackward0", lambda x: ew.mul(x, 2.0)),
        Op("ThriceBackward0", lambda x: ew.mul(x, 3.0)),
    )
    rows = FunctionTable()

    @rows.family(operators="pos")
    def times(run: Run) -> Callable[..., Any]:
        """Return a multiple."""

        def function(input: Any, three: bool = False) -> Any:
            return run(triple if three else double, (input,))

        return function

    functions, kind = scratch(rows)
    assert functions["times"] is times and times.__doc__ == "Return a multiple."
    x = of_class(kind, [1.0, 2.0], requires_grad=True)
    assert type(x.times().grad_fn).__name__ == "TwiceBackward0" and (+x).tolist() == [2.0, 4.0]
    y = x * 1.0
    kind.times_(y, three=True)
    y.sum().backward()
    assert y.tolist() == [3.0, 6.0] and x.grad.tolist() == [3.0, 3.0]


def test_a_function_is_exported_unchanged() -> None:
    rows = FunctionTable()

    @rows.function("function property", name="half")
    def halved(self: Any) -> Any:
        """The half."""
        return apply(Op("HalfBackward0", lambda x: ew.mul(x, 0.5)), (self,))

    functions, kind = scratch(rows)
    assert functions == {"half": halved}
    assert of_class(kind, [1.0, 3.0]).half.tolist() == [0.5, 1.5]


def test_wrong_rows_are_refused() -> None:
    with pytest.raises(
        ValueError, match=f"my_op: there is no form 'inplace'; there are {', '.join(PLACES)}"
    ):
        FunctionTable().op("my_op", ew.sinh, forms="function inplace", doc="")
    with pytest.raises(ValueError, match="no in-place form"):
        FunctionTable().function("in_place")(lambda input: input)
    with pytest.raises(ValueError, match="no in-place form"):
        FunctionTable().op("my_op", ew.add, operators="xor ixor", doc="")
    first, second = FunctionTable(), FunctionTable()
    first.op("my_op", ew.sinh, doc="")
    second.op("mine", ew.cosh, aliases="my_op", doc="")
    with pytest.raises(ValueError, match=r"functrace.torch.my_op is claimed by two rows"):
        entries([first, second])


def test_an_op_that_is_named_like_one_of_ours_is_not_taken_for_it() -> None:
    rows = FunctionTable()
    leap = rows.op(
        "leap",
        lambda x: ew.mul(x, 1.5),
        (),
        floating,
        forms="function method in_place",
        doc="Leap.",
    )
    row = next(iter(rows))
    assert leap(torch.tensor([1, 2])).tolist() == [1.5, 3.0]
    assert row.in_place is not None
    with pytest.raises(
        RuntimeError, match="can't be cast"
    ):  # not a comparison, as ``Le`` and ``Lt`` are
        row.in_place(torch.tensor([1, 2]))
    square = rows.op(
        "square_", ew.square, (("self", 0),), floating, node="TanhBackward0", doc="Square."
    )
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    (slope,) = torch.autograd.grad(square(x).sum(), x, create_graph=True)
    assert "BackwardBackward" not in type(slope.grad_fn).__name__
    assert torch.autograd.grad(slope.sum(), x)[0].tolist() == [2.0, 2.0]
