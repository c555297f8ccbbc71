"""Operations of PyTorch that return more than the op here, as handlers of dispatch modes see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.utils._python_dispatch import TorchDispatchMode


class Seeing(TorchDispatchMode):
    """Keeps operations and their results."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen.append((str(func).removeprefix("aten."), result))
        return result


def seen(compute: Any) -> list[tuple[str, Any]]:
    """Return the operations of a function."""
    with Seeing() as mode:
        compute()
    return mode.seen


def matrices(*stack: int) -> Any:
    drawn = np.random.default_rng(0).standard_normal((*stack, 3, 3))
    return torch.from_numpy(drawn)


def permuted(pivots: Any, rows: Any) -> np.ndarray:
    """Swap rows as LAPACK's pivots say."""
    out = rows.copy()
    for k, other in enumerate(pivots - 1):
        out[[k, other]] = out[[other, k]]
    return out


@pytest.mark.parametrize(
    ("function", "turned"),
    [(torch.linalg.det, True), (torch.linalg.slogdet, True), (torch.linalg.lu_factor, False)],
)
def test_factors_are_those_of_the_matrix(function: Any, turned: bool) -> None:
    """Determinants show those of the transposed matrix, as PyTorch does for rows in memory."""
    A = matrices()
    (_, results), *_ = seen(lambda: function(A))
    lu, pivots = (x.numpy() for x in results if x.ndim and x.shape[-1] == 3)
    lower, upper = np.tril(lu, -1) + np.eye(3), np.triu(lu)
    expected = A.numpy().T if turned else A.numpy()
    np.testing.assert_allclose(lower @ upper, permuted(pivots, expected), 1e-12, 1e-12)


@pytest.mark.filterwarnings("ignore:torch.triangular_solve:UserWarning")
def test_names_and_shapes_of_results() -> None:
    A, b = matrices(2), torch.ones(2, 3, 1, dtype=torch.float64)
    shapes = {}
    for compute in (
        lambda: torch.linalg.inv(A),
        lambda: torch.linalg.solve(A, b),
        lambda: torch.linalg.eigvalsh(A),
        lambda: torch.linalg.svdvals(A),
        lambda: torch.linalg.qr(A, "r"),
        lambda: torch.triangular_solve(b, A),
        lambda: torch.native_dropout(b, 0.5, True),
    ):
        for name, results in seen(compute):
            if isinstance(results, tuple):
                shapes[name.partition(".")[0]] = [tuple(x.shape) for x in results]
    assert shapes == {
        "linalg_inv_ex": [(2, 3, 3), (2,)],
        "_linalg_solve_ex": [(2, 3, 1), (2, 3, 3), (2, 3), (2,)],
        "_linalg_eigh": [(2, 3), (2, 3, 3)],
        "_linalg_svd": [(2, 3, 3), (2, 3), (2, 3, 3)],
        "linalg_qr": [(0,), (2, 3, 3)],
        "triangular_solve": [(2, 3, 1), (2, 3, 3)],
        "native_dropout": [(2, 3, 1), (2, 3, 1)],
    }


def test_results_of_a_handler_become_those_of_the_function() -> None:
    """The determinant is the one that the handler returns."""

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            results = func(*args, **(kwargs or {}))
            if func is not torch.ops.aten._linalg_det.default:
                return results
            return (results[0] * 2, *results[1:])

    A = matrices().requires_grad_()
    with Doubling():
        made = torch.linalg.det(A)
    np.testing.assert_allclose(made.item(), 2 * np.linalg.det(A.detach().numpy()))
    (gradient,) = torch.autograd.grad(made, A)
    assert gradient.shape == (3, 3)


def test_derivatives_of_several_results_run_under_a_mode() -> None:
    """The backward of singular values applies the decomposition again, which has three results."""
    A = matrices().requires_grad_()
    with Seeing():
        torch.linalg.svdvals(A).sum().backward()
    u, _, vh = np.linalg.svd(A.detach().numpy())
    np.testing.assert_allclose(A.grad.numpy(), u @ vh, 1e-10, 1e-10)


def test_a_singular_matrix_is_refused_under_a_mode_as_without() -> None:
    zero = torch.zeros(2, 2)
    for function in (torch.linalg.inv, torch.linalg.cholesky, lambda x: torch.linalg.solve(x, x)):
        messages = []
        for mode in (Seeing(), None):
            with pytest.raises(RuntimeError) as caught:
                if mode is None:
                    function(zero)
                else:
                    with mode:
                        function(zero)
            messages.append((type(caught.value), str(caught.value)))
        assert messages[0] == messages[1]


def test_checks_of_information_can_be_called() -> None:
    check = torch.ops.aten._linalg_check_errors
    assert check(torch.zeros(2, dtype=torch.int32), "linalg.inv", is_matrix=False) is None
    with pytest.raises(RuntimeError, match=r"Batch element 1.*diagonal element 2 is zero"):
        check(torch.tensor([0, 2], dtype=torch.int32), "linalg.inv", is_matrix=False)


@pytest.mark.filterwarnings("ignore:torch.triangular_solve:UserWarning")
def test_the_copied_coefficient_has_a_derivative() -> None:
    """``triangular_solve`` has one node for the solution and the copy of its operand."""
    A = (matrices().triu() + 3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    b = torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
    solution, copied = torch.triangular_solve(b, A)
    assert solution.grad_fn is copied.grad_fn
    (gradient,) = torch.autograd.grad((copied * copied).sum(), A)
    np.testing.assert_allclose(gradient.numpy(), 2 * A.detach().numpy())


def test_random_masks_belong_to_the_operation() -> None:
    """A handler's mask is the function's: both are those of one draw."""
    torch.manual_seed(1)
    x = torch.ones(50)
    with Seeing() as mode:
        out, mask = torch.native_dropout(x, 0.5, True)
    assert [name for name, _ in mode.seen] == ["native_dropout.default"]
    np.testing.assert_array_equal(out.numpy(), mask.numpy() * np.float32(2))
