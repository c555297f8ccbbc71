"""Names of PyTorch's private modules that its own Python files import: what has an effect."""

from __future__ import annotations

import importlib
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import functrace.torch
from functrace.errors import UnsupportedFunctionError
from functrace.torch import _C, _VF, _foreach
from functrace.torch._jit_internal import boolean_dispatch
from functrace.torch._utils import ExceptionWrapper, _rebuild_parameter_with_state
from functrace.torch.lazy import NAMES
from functrace.torch.utils import _foreach_utils

torch: Any = functrace.torch


def tensors(seed: int) -> list[Any]:
    """Two tensors of different shapes and dtypes."""
    rng = np.random.default_rng(seed)
    shapes = ((3,), np.float32), ((2, 2), np.float64)
    return [torch.from_numpy(rng.uniform(0.5, 1.5, s).astype(kind)) for s, kind in shapes]


@pytest.mark.parametrize("name", [*_foreach.OF_ONE, *_foreach.OF_TWO])
def test_lists_are_computed_tensor_by_tensor(name: str) -> None:
    x, y, z = (tensors(k) for k in range(3))
    x = [t / 2 for t in x]
    method = {"maximum": torch.maximum, "minimum": torch.minimum}.get(name)
    others = {1: [], 2: [y]}[1 if name in _foreach.OF_ONE else 2]
    others += [z] if name in ("lerp", "addcmul", "addcdiv") else []
    if name in ("clamp_min", "clamp_max"):
        method = {"clamp_min": torch.maximum, "clamp_max": torch.minimum}[name]
    method = method or getattr(torch.Tensor, name)
    expected = [method(*parts) for parts in zip(x, *others, strict=True)]
    found = getattr(torch, f"_foreach_{name}")(x, *others)
    assert isinstance(found, tuple)
    assert getattr(torch, f"_foreach_{name}_")(x, *others) is x
    for a, b, c in zip(expected, found, x, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b) and torch.equal(a, c)


def test_numbers_and_factors_of_lists() -> None:
    x, y, z = (tensors(k) for k in range(3))
    for a, b, c in zip(
        torch._foreach_addcmul(x, y, z, [0.5, 2.0]),
        torch._foreach_addcmul(x, y, z, scalars=torch.tensor([0.5, 2.0])),
        [x[0] + 0.5 * y[0] * z[0], x[1] + 2.0 * y[1] * z[1]],
        strict=True,
    ):
        assert torch.equal(a, b) and torch.allclose(a, c)
    assert torch.equal(torch._foreach_pow(2.0, x)[0], 2.0 ** x[0])
    assert torch.equal(torch._foreach_maximum(x, 1.0)[1], x[1].clamp_min(1.0))
    assert torch.equal(torch._foreach_add(x, y, alpha=3)[0], x[0] + 3 * y[0])
    assert float(torch._foreach_norm(x, 1)[0]) == pytest.approx(float(x[0].sum()))
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_add([], 1.0)
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(x, y[:1])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_mul(x, [1.0])
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        torch._foreach_add_([torch.ones(2, requires_grad=True)], 1.0)


def test_every_name_that_is_imported_at_its_first_use_exists() -> None:
    for name, module in NAMES.items():
        if module in ("_foreach", "_C._python", "nn.utils.weight_norm"):
            assert hasattr(importlib.import_module(f"functrace.torch.{module}"), name), name


def test_groups_by_dtype() -> None:
    x, y = tensors(0), [None, None]
    (first, second) = _foreach_utils._group_tensors_by_device_and_dtype(
        [[*x, x[0]], [], [*y, 1]], True
    ).items()
    assert first[0][1] == torch.float32 and first[1][1] == [0, 2]
    assert first[1][0][1:] == [[], [None, 1]]
    assert second[0][1] == torch.float64 and second[1][1] == [1]


def test_arguments_of_to() -> None:
    parse = _C._nn._parse_to
    cpu = torch.device("cpu")
    assert parse("cpu") == (cpu, None, False, None)
    assert parse(torch.float64, True) == (None, torch.float64, True, None)
    assert parse("cpu", torch.float16, memory_format=torch.channels_last) == (
        cpu, torch.float16, False, torch.channels_last,
    )  # fmt: skip
    assert parse(torch.ones(2, dtype=torch.int32))[1] == torch.int32
    with pytest.raises((RuntimeError, AssertionError, TypeError)):
        parse("cuda")


def test_packed_sequences_and_padding() -> None:
    padded = torch.tensor([[1, 2, 3], [4, 5, 0], [6, 0, 0]])
    data, sizes = _VF._pack_padded_sequence(padded, torch.tensor([3, 2, 1]), True)
    assert data.tolist() == [1, 4, 6, 2, 5, 3] and sizes.tolist() == [3, 2, 1]
    again, lengths = _VF._pad_packed_sequence(data, sizes, True, 0.0, 3)
    assert again.tolist() == padded.tolist() and lengths.tolist() == [3, 2, 1]
    assert _C._nn.pad_sequence([data[:2], data[:1]], True, 9).tolist() == [[1, 4], [1, 9]]
    assert _C._infer_size((2, 1), (3,)) == (2, 3)


@pytest.mark.parametrize("dims", [(-2, -1), (0, 1), (0, 2), (2, 0), (1, 0), (-1, 0), (1, 2)])
@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_diag_embed_in_any_dimensions(offset: int, dims: tuple[int, int]) -> None:
    x = torch.arange(1.0, 7.0).reshape(2, 3).requires_grad_()
    made = torch.diag_embed(x, offset, *dims)
    assert torch.equal(torch.diagonal(made, offset, *dims), x)
    assert float(made.detach().abs().sum()) == 21.0
    weights = torch.arange(float(made.numel())).reshape(made.shape)
    (made * weights).sum().backward()
    assert torch.equal(x.grad, torch.diagonal(weights, offset, *dims))
    with pytest.raises(RuntimeError, match="cannot be identical"):
        torch.diag_embed(x, 0, 1, 1)


def test_exceptions_of_workers_are_raised_again() -> None:
    found: list[ExceptionWrapper] = []

    def work() -> None:
        try:
            raise KeyError("item 2")
        except KeyError:
            found.append(ExceptionWrapper(where="in worker 0"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with pytest.raises(KeyError) as caught:
        pickle.loads(pickle.dumps(found[0])).reraise()
    assert str(caught.value).startswith("Caught KeyError in worker 0.\nOriginal Traceback")
    assert "item 2" in str(caught.value)


def test_parameters_are_restored_with_attributes() -> None:
    made = _rebuild_parameter_with_state(torch.ones(2), False, None, {"note": "kept"})
    assert isinstance(made, torch.nn.Parameter) and made.note == "kept" and not made.requires_grad


def test_a_flag_decides_between_two_functions() -> None:
    chosen = boolean_dispatch(
        "both", 1, False, lambda x, both: (x, x), lambda x, both=False: x, "m", "f"
    )
    assert (chosen(1), chosen(1, True), chosen(1, both=True)) == (1, (1, 1), (1, 1))
    assert (chosen.__module__, chosen.__name__) == ("m", "f")


def test_operators_of_triton_are_refused() -> None:
    with pytest.raises(UnsupportedFunctionError, match=r"torch\.autograd\.Function"):
        torch.library.triton_op("a::b", mutates_args=())
    with pytest.raises(AttributeError, match=r"'torch\._C' has no attribute '_no_such'"):
        _C._no_such


def test_the_standard_basis_of_several_tensors_is_the_identity_in_parts() -> None:
    tensors = (torch.zeros(2, 1), torch.zeros((), dtype=torch.float64))
    parts = torch.autograd.functional._construct_standard_basis_for(tensors, (2, 1))
    assert [x.dtype for x in parts] == [torch.float32, torch.float64]
    assert torch.cat([x.double() for x in parts], dim=1).tolist() == np.eye(3).tolist()
    with pytest.raises(AssertionError, match="Expected at least one tensor"):
        torch.autograd.functional._construct_standard_basis_for((), ())
    with pytest.raises(AssertionError, match="but got 2 and 1"):
        torch.autograd.functional._construct_standard_basis_for(tensors, (2,))
