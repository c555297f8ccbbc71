"""Random programs of random functions draw PyTorch's numbers bit for bit, and leave its state."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

from functrace import torch as shim

torch = pytest.importorskip("torch")
if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
    pytest.skip("PyTorch's normal numbers differ without AVX2", allow_module_level=True)

DTYPES = ("float16", "float32", "float64", "complex64", "complex128", "int32", "int64", "uint8")


def outcome(module: Any, text: str, seed: int | None) -> Any:
    """Return dtype, shape and bytes of a call's result and the state after it, or the error."""
    if seed is not None:
        module.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = eval(text, {"torch": module})
        except Exception as error:
            return type(error).__name__, str(error).split("\n")[0].split(", but expected one of")[0]
    state = module.get_rng_state().numpy().tobytes()
    return str(made.dtype), tuple(made.shape), made.numpy().tobytes(), state


def check(text: str, seed: int | None) -> None:
    """Compare one call."""
    expected, found = outcome(torch, text, seed), outcome(shim, text, seed)
    if expected != found:
        shown = [
            (x[:2], np.frombuffer(x[2], np.uint8)[:16]) if len(x) == 4 else x
            for x in (expected, found)
        ]
        pytest.fail(f"manual_seed({seed}); {text}\nPyTorch: {shown[0]}\nhere:    {shown[1]}")


class Calls:
    """Random calls.

    Args:
        seed: seed of the choices.
    """

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)

    def tensor(self) -> tuple[str, list[int]]:
        """Return an expression of an empty tensor in some memory layout, and its shape."""
        pick = self.choices
        shape = [pick.choice([1, 2, 3, 5]) for _ in range(pick.randint(0, 4))]
        text = f"torch.empty({shape}, dtype=torch.{pick.choice(DTYPES)})"
        if pick.random() < 0.5:
            order = pick.sample(range(len(shape)), len(shape))
            text, shape = f"{text}.permute({order})", [shape[k] for k in order]
        if shape and pick.random() < 0.5:
            axis = pick.randrange(len(shape))
            text += f"[{':, ' * axis}::2]"
            shape[axis] = -(-shape[axis] // 2)
        return text, shape

    def fill(self) -> str:
        """Return a tensor filled in place."""
        pick = self.choices
        text, shape = self.tensor()
        a, b = round(pick.uniform(-3, 3), 2), round(pick.uniform(0, 4), 2)
        call = pick.choice([
            "uniform_()", f"uniform_({a}, {a + b})", "normal_()", f"normal_({a}, {b})",
            "random_()", f"random_({pick.randint(1, 300)})", f"random_({2**40 + 3})",
            "bernoulli_()", f"bernoulli_({b / 4})", f"bernoulli_(torch.rand({shape}))",
            f"bernoulli_(torch.rand({shape[-1:]}).double())",
            f"bernoulli_(torch.rand({shape[::-1]}).permute({list(range(len(shape)))[::-1]}))",
            f"exponential_({b})", f"geometric_({b / 4})", f"cauchy_({a}, {b})",
            f"log_normal_({a}, {b})",
        ])  # fmt: skip
        return f"{text}.{call}"

    def sample(self) -> str:
        """Return a tensor made by a function."""
        pick = self.choices
        text, shape = self.tensor()
        like = f"{text}.fill_({pick.choice([0.3, 1, 30])})"
        count = pick.choice([0, 1, 3, 15, 16, 17, 40, 300])
        dtype = pick.choice(DTYPES)
        return pick.choice([
            f"torch.rand_like({text})", f"torch.randn_like({text})",
            f"torch.randint_like({text}, {pick.randint(1, 200)})",
            f"torch.randn_like({text}, memory_format=torch.contiguous_format)",
            f"torch.rand_like({text}, dtype=torch.float64)",
            f"torch.rand({shape}, out={text})", f"torch.randn({shape}, out={text})",
            f"torch.bernoulli({like})", f"torch.bernoulli({text}, 0.4)",
            f"torch.normal({like}, 2.0)", f"torch.normal(1.0, {like})",
            f"torch.normal({like}, {like})", f"torch.normal(2.0, 0.5, {shape})",
            f"torch.poisson({like})", f"torch.binomial({like}, {text}.fill_(0.4))",
            f"torch._standard_gamma({like})", f"torch._sample_dirichlet({like})",
            f"torch.multinomial({like}, 1)", f"torch.multinomial({like}, 2, True)",
            f"torch.randperm({count})", f"torch.rand({count}, dtype=torch.{dtype})",
            f"torch.randn({count}, dtype=torch.{dtype})",
            f"torch.randint({pick.getrandbits(40) + 1}, ({count},))",
            f"torch.randn({count}, generator=torch.Generator().manual_seed({count}))",
        ])  # fmt: skip

    def integers(self) -> str:
        """Return random integers between bounds near those of a dtype."""
        pick = self.choices
        digits = {"float16": 16, "float32": 40, "float64": 62, "int8": 8, "uint8": 9, "int16": 16,
                  "int32": 32, "int64": 63, "bool": 2}  # fmt: skip
        dtype = pick.choice(list(digits))
        low = pick.choice([0, 1, -1]) * pick.getrandbits(pick.randint(1, digits[dtype]))
        high = low + pick.getrandbits(pick.randint(1, digits[dtype]))
        tensor = f"torch.empty(20, dtype=torch.{dtype})"
        return pick.choice([
            f"{tensor}.random_({low}, {high})", f"{tensor}.random_({low}, None)",
            f"torch.randint({low}, {high}, (7,), dtype=torch.{dtype})",
            f"torch.randint_like({tensor}, {low}, {high})",
        ])  # fmt: skip


@pytest.mark.parametrize("kind", ["fill", "sample", "integers"])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_and_states_are_equal(kind: str, seed: int) -> None:
    calls = Calls(seed)
    for _ in range(150):
        check(getattr(calls, kind)(), calls.choices.getrandbits(40))


@pytest.mark.parametrize("seed", range(4))
def test_calls_one_after_another_are_equal(seed: int) -> None:
    calls = Calls(100 + seed)
    torch.manual_seed(seed)
    shim.manual_seed(seed)
    for _ in range(80):
        check(calls.choices.choice([calls.fill, calls.sample])(), None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_numbers_are_equal(dtype: str) -> None:
    count = 1_000_003 if dtype == "float32" else 100_003
    for text in ("torch.randn(N)", "torch.rand(N)", "torch.empty(N).normal_(0.3, 0.02)",
                 "torch.empty(N).uniform_(-0.3, 0.7)", "torch.empty(N).exponential_(2.0)",
                 "torch.multinomial(torch.rand(N // 50), N // 50 - 3)",
                 "torch.multinomial(torch.rand(N // 50), N, True)"):  # fmt: skip
        named = text.replace("(N)", f"(N, dtype=torch.{dtype})").replace("N", str(count))
        check(named, 11)


@pytest.mark.parametrize("calls", [0, 1, 5, 700])
def test_states_are_interchangeable(calls: int) -> None:
    torch.manual_seed(9)
    torch.rand(calls)
    torch.randn(3)
    shim.set_rng_state(shim.tensor(torch.get_rng_state().numpy()))
    assert shim.randn(40).tolist() == torch.randn(40).tolist()
    shim.rand(calls)
    shim.randn(5)
    torch.set_rng_state(torch.from_numpy(shim.get_rng_state().numpy().copy()))
    assert shim.randn(3).tolist() == torch.randn(3).tolist()
    assert shim.rand(900).tolist() == torch.rand(900).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_gamma_numbers_are_close(dtype: str) -> None:
    found = []
    for module in (torch, shim):
        module.manual_seed(2)
        a = module.linspace(0.05, 40, 200, dtype=getattr(module, dtype)).requires_grad_()
        made = module._standard_gamma(a)
        found.append(module.autograd.grad(made.sum(), a)[0].numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=2e-3)  # PyTorch's is an approximation


@pytest.mark.parametrize("shuffles", [1, 3])
def test_the_order_of_a_shuffled_loader_is_equal(shuffles: int) -> None:
    """The steps of PyTorch's sampler, with the functions of either side."""
    orders = []
    for module in (torch, shim):
        module.manual_seed(5)
        for _ in range(shuffles):
            module.empty((), dtype=module.int64).random_().item()  # the iterator's base seed
            seed = int(module.empty((), dtype=module.int64).random_().item())
            generator = module.Generator()
            generator.manual_seed(seed)
        orders.append(module.randperm(500, generator=generator).tolist())
    data = torch.utils.data.TensorDataset(torch.arange(500))
    torch.manual_seed(5)
    loader = torch.utils.data.DataLoader(data, shuffle=True, batch_size=50)
    for _ in range(shuffles):
        real = [n for (batch,) in loader for n in batch.tolist()]
    assert orders[0] == orders[1] == real


@pytest.mark.parametrize("bounds", ["-2.0, 2.0", "1.0, 1.5", "-8.0, -7.0", "-0.1, 5.0"])
@pytest.mark.parametrize("tensor", ["torch.empty(30, 20)", "torch.empty(30, 20).t()",
                                    "torch.empty(9, dtype=torch.float64)"])  # fmt: skip
def test_truncated_normal_numbers_are_equal(tensor: str, bounds: str) -> None:
    check(f"torch.nn.init.trunc_normal_({tensor}, 0.1, 1.0, {bounds})", 3)


@pytest.mark.parametrize("dtype", [*DTYPES, "bool", "int8"])
def test_tensors_made_for_tests_are_equal(dtype: str) -> None:
    for options in ("", ", noncontiguous=True", ", exclude_zero=True", ", low=1, high=3"):
        for shape in ("(2, 30)", "4", "()"):
            if dtype != "bool" or "low" not in options:
                made = f"torch.testing.make_tensor({shape}, device='cpu', dtype=torch.{dtype}"
                check(f"{made}{options})", 3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_many_numbers_of_strided_tensors_are_equal(dtype: str) -> None:
    for fill in ("uniform_(-0.3, 0.7)", "normal_()", "normal_(0.3, 0.7)", "exponential_(0.7)",
                 "geometric_(0.01)", "cauchy_(0.1, 0.2)", "log_normal_()", "bernoulli_(0.3)",
                 "random_()", "random_(3, 5000)"):  # fmt: skip
        check(f"torch.empty(100_000, dtype=torch.{dtype})[::2].{fill}", 8)
        check(f"torch.empty(30_000, dtype=torch.{dtype}).{fill}", 8)
