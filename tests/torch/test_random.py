"""Random numbers are those of PyTorch 2.13 on the CPU: recorded values, the generator's state, and
moments of the distributions. More values: recorded/random_stream.log.
"""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace import torch
from functrace.errors import FunctraceError
from functrace.torch.random.engine import Engine
from functrace.torch.random.filling import kept
from functrace.torch.random.fused import exactly, multiply_add
from functrace.torch.random.numbers import permutation

RECORDED: dict[str, Any] = {
    "torch.rand(4)": [
        0.49625658988952637, 0.7682217955589294, 0.08847743272781372, 0.13203048706054688
    ],
    "torch.rand(2, dtype=torch.float64)": [0.9700530018065531, 0.707819864399788],
    "torch.rand(2, dtype=torch.float16)": [0.496337890625, 0.76806640625],
    "torch.randn(4)": [
        1.5409960746765137, -0.293428897857666, -2.1787893772125244, 0.5684312582015991
    ],
    "torch.randn(3, dtype=torch.float64)": [
        1.5409961082440433, -0.2934289057609464, -2.1787893820745574
    ],
    "torch.randn(17)[[0, 1, 15, 16]]": [
        -1.1258398294448853, -1.6959311962127686, -0.843676745891571, 0.9318265914916992
    ],
    "torch.randn(2, dtype=torch.complex64)": [
        1.0896488428115845 - 0.20748557150363922j, -1.5406367778778076 + 0.40194159746170044j
    ],
    "torch.empty(2, 2).normal_(1, 0.5)": [
        [1.7704980373382568, 0.853285551071167], [-0.08939468860626221, 1.2842156887054443]
    ],
    "torch.randint(100, (4,))": [44, 39, 33, 60],
    "torch.randint(2**40, (2,))": [741280623151, 506137267392],
    "torch.randperm(8)": [4, 0, 7, 3, 2, 5, 1, 6],
    "torch.empty(6).bernoulli_(0.5)": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    "torch.empty(3).uniform_(-1, 1)": [
        -0.007486820220947266, 0.5364435911178589, -0.8230451345443726
    ],
    "torch.empty(3).exponential_()": [3.508326292037964, 1.2303847074508667, 0.615044116973877],
    "torch.empty(3).geometric_(0.2)": [1.0, 2.0, 4.0],
    "torch.empty(3).cauchy_()": [10.597729682922363, 0.7647672891616821, -0.12829934060573578],
    "torch.empty(3).log_normal_()": [59.2634162902832, 1.5115599632263184, 0.03481946140527725],
    "torch.empty((), dtype=torch.int64).random_()": 900450186894289455,
    "torch.multinomial(torch.tensor([1.0, 2, 3, 4]), 3)": [2, 1, 3],
    "torch.multinomial(torch.tensor([1.0, 2, 3, 4]), 5, True)": [3, 3, 2, 3, 3],
    "torch.poisson(torch.tensor([0.5, 5, 50]))": [2.0, 6.0, 49.0],
    "torch.binomial(torch.tensor([9.0, 90]), torch.tensor(0.7))": [3.0, 65.0],
    "torch._standard_gamma(torch.tensor([0.5, 5]))": [0.0007893581641837955, 2.7152750492095947],
    "torch.normal(torch.arange(3.0), 0.1)": [
        0.15409961342811584, 0.9706571102142334, 1.7821210622787476
    ],
}  # fmt: skip
"""Results of PyTorch 2.13.0 after ``torch.manual_seed(0)``."""


@pytest.mark.parametrize("expression", RECORDED)
def test_numbers_are_pytorchs(expression: str) -> None:
    torch.manual_seed(0)
    assert eval(expression, {"torch": torch}).tolist() == RECORDED[expression]


# -- the generator ---------------------------------------------------------------------------------


def test_state_has_pytorchs_format() -> None:
    generator = torch.Generator().manual_seed(2**40 + 5)
    data = generator.get_state().numpy().tobytes()
    assert len(data) == 5056
    assert data[:24] == (
        (2**40 + 5).to_bytes(8, "little") + b"\1\0\0\0\1\0\0\0" + b"\0\0\0\0\0\0\0\0"
    )
    torch.randn(1, generator=generator)  # four words; the second number waits
    data = generator.get_state().numpy().tobytes()
    assert int.from_bytes(data[8:12], "little") == 621
    assert int.from_bytes(data[16:24], "little") == 4
    (waiting,) = np.frombuffer(data[5024:5032])
    assert data[5040] == 1
    assert torch.randn(1, dtype=torch.float64, generator=generator).item() == waiting


@pytest.mark.parametrize("before", [0, 1, 3, 623, 624, 625, 2000])
def test_state_is_restored(before: int) -> None:
    torch.manual_seed(4)
    torch.rand(before)
    torch.randn(3)
    state = torch.get_rng_state()
    expected = torch.randn(2).tolist(), torch.rand(700).tolist(), torch.randn(40).tolist()
    torch.set_rng_state(state)
    assert torch.equal(torch.get_rng_state(), state)
    assert (torch.randn(2).tolist(), torch.rand(700).tolist(), torch.randn(40).tolist()) == expected


@pytest.mark.parametrize("form", ["clone", "copy", "deepcopy", "pickle"])
def test_copies_of_a_generator_draw_the_same(form: str) -> None:
    generator = torch.Generator().manual_seed(1)
    torch.randn(3, generator=generator)
    other = {
        "clone": lambda: generator.clone_state(),
        "copy": lambda: copy.copy(generator),
        "deepcopy": lambda: copy.deepcopy(generator),
        "pickle": lambda: pickle.loads(pickle.dumps(generator)),
    }[form]()
    first = torch.randn(5, generator=generator)
    assert torch.equal(first, torch.randn(5, generator=other))
    assert other.initial_seed() == 1


def test_only_the_lowest_bits_of_a_seed_count() -> None:
    torch.manual_seed(2**40 + 5)
    first = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(first, torch.rand(3))
    assert torch.manual_seed(-1).initial_seed() == 2**64 - 1
    assert torch.random.manual_seed(3) is torch.default_generator


def test_a_seed_is_drawn() -> None:
    seeds = {torch.seed(), torch.seed(), torch.Generator().seed()}
    assert len(seeds) == 3
    assert torch.initial_seed() in seeds


def test_fork_restores_the_generator() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng():
        inside = torch.randn(3)
    assert torch.equal(inside, torch.randn(3))
    with torch.random.fork_rng(enabled=False):
        inside = torch.randn(3)
    assert not torch.equal(inside, torch.randn(3))


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (lambda: torch.zeros(3), TypeError, "must be a torch.ByteTensor"),
        (lambda: 3, TypeError, "expected a torch.ByteTensor, but got int"),
        (lambda: torch.zeros(3, dtype=torch.uint8), RuntimeError, "size 5056"),
        (lambda: torch.zeros(5056, dtype=torch.uint8), RuntimeError, "Invalid mt19937 state"),
    ],
)
def test_other_states_are_refused(state: Any, error: type[Exception], message: str) -> None:
    before = torch.get_rng_state()
    with pytest.raises(error, match=message):
        torch.set_rng_state(state())
    assert torch.equal(torch.get_rng_state(), before)


# -- arithmetic ------------------------------------------------------------------------------------


def test_multiply_add_rounds_once() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(500)
    for factor, summand in ((0.3, 0.2), (-1.7e5, 3.1), (1.0, 1e-17), (1e300, -1e307), (0.1, 0.0)):
        from fractions import Fraction

        exact = [float(Fraction(v) * Fraction(factor) + Fraction(summand)) for v in x.tolist()]
        assert multiply_add(x, factor, summand).tolist() == exact
    single = x.astype(np.float32)
    a, b = np.float32(0.3), np.float32(0.2)
    exact = [np.float32(float(v) * float(a) + float(b)) for v in single]
    assert multiply_add(single, 0.3, 0.2).tolist() == exact
    assert np.signbit(multiply_add(np.array([-0.0]), 1.0, 0.0)).tolist() == [False]


@pytest.mark.parametrize("name", ["log", "log1p", "sin", "cos", "tan", "exp"])
def test_functions_have_the_bits_of_the_c_library(name: str) -> None:
    x = np.random.default_rng(1).random((50, 40))
    expected = [getattr(math, name)(v) for v in x.ravel().tolist()]
    assert exactly(name, x).ravel().tolist() == expected


@pytest.mark.parametrize("count", [2, 3, 10, 63, 64, 65, 100, 5000])
def test_permutation_is_that_of_swaps_in_turn(count: int) -> None:
    for seed in range(5):
        expected = list(range(count))
        drawn = Engine(seed).words(count - 1).tolist()
        for k, word in enumerate(drawn):
            place = k + word % (count - k)
            expected[k], expected[place] = expected[place], expected[k]
        assert permutation(Engine(seed), count).tolist() == expected


def test_single_normals_are_close_to_double_ones() -> None:
    # The same uniform numbers, by NumPy's functions in float64.
    torch.manual_seed(3)
    found = torch.randn(1 << 16).numpy().reshape(-1, 16)
    uniform = Engine(3).floats(1 << 16).astype(np.float64).reshape(-1, 16)
    radius = np.sqrt(-2 * np.log(1 - uniform[:, :8]))
    angle = 2 * np.pi * uniform[:, 8:]
    expected = np.hstack([radius * np.cos(angle), radius * np.sin(angle)])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6)


# -- order and layout ------------------------------------------------------------------------------


def test_numbers_follow_memory() -> None:
    for fill in ("uniform_", "exponential_", "random_"):
        torch.manual_seed(0)
        turned = getattr(torch.empty(4, 6).t(), fill)()
        torch.manual_seed(0)
        plain = getattr(torch.empty(4, 6), fill)()
        assert torch.equal(turned, plain.t())


def test_normal_numbers_come_in_blocks_if_contiguous() -> None:
    torch.manual_seed(0)
    blocks = torch.empty(4, 6).normal_()
    torch.manual_seed(0)
    pairs = torch.empty(4, 6).t().normal_()
    torch.manual_seed(0)
    strided = torch.empty(48)[::2].normal_()
    assert not torch.equal(blocks, pairs.t())
    assert torch.equal(pairs.t().reshape(-1), strided)


def test_out_gets_its_own_order() -> None:
    out = torch.empty(6, 4).t()
    torch.manual_seed(0)
    assert torch.randn(4, 6, out=out) is out
    torch.manual_seed(0)
    assert torch.equal(out, torch.empty(6, 4).t().normal_())
    with pytest.raises(RuntimeError, match="dtype Double does not match dtype of out parameter"):
        torch.rand(3, dtype=torch.float64, out=torch.empty(3))


def test_mask_of_dropout_is_that_of_bernoulli() -> None:
    x = torch.ones(5, 7).t()
    torch.manual_seed(0)
    mask = kept("dropout", x, 0.7)
    torch.manual_seed(0)
    assert mask.tolist() == (torch.empty_like(x).bernoulli_(0.7) == 1).tolist()


def test_a_write_to_shared_memory_is_refused() -> None:
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.empty(1, 2).expand(2, 2).normal_()


# -- derivatives -----------------------------------------------------------------------------------


def test_filling_cuts_the_graph() -> None:
    names = {
        "uniform_()": "UniformBackward0", "normal_()": "NormalBackward0",
        "random_()": "RandomBackward2", "random_(3)": "RandomBackward1",
        "random_(1, 3)": "RandomBackward0", "bernoulli_()": "BernoulliBackward2",
        "bernoulli_(torch.ones(3))": "BernoulliBackward1", "cauchy_()": "CauchyBackward0",
        "geometric_(0.5)": "GeometricBackward0", "log_normal_()": "LogNormalBackward0",
        "exponential_()": "ExponentialBackward0",
    }  # fmt: skip
    for call, name in names.items():
        x = torch.ones(3, requires_grad=True)
        y = eval(f"x.clone().{call}", {"torch": torch, "x": x})
        assert type(y.grad_fn).__name__ == name
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_samples_without_derivative_raise_in_backward() -> None:
    for call in ("bernoulli(x, 0.3)", "binomial(x, torch.ones(3))", "_sample_dirichlet(x)"):
        x = torch.ones(3, requires_grad=True)
        y = eval(f"torch.{call}", {"torch": torch, "x": x})
        with pytest.raises(RuntimeError, match=r"derivative for aten::.* is not implemented"):
            y.sum().backward()


def test_gamma_numbers_have_all_derivatives() -> None:
    # Of shape 1, the sample is -log(1 - P): dx/da from the equation P(a, x) = constant.
    special = pytest.importorskip("scipy.special")
    a = torch.tensor([0.3, 1.0, 4.5, 40.0], dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    x = torch._standard_gamma(a)
    (first,) = torch.autograd.grad(x.sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), a)
    p = special.gammainc(a.detach().numpy(), x.detach().numpy())
    step = 1e-4
    near = [special.gammaincinv(a.detach().numpy() + d, p) for d in (-step, 0, step)]
    np.testing.assert_allclose(first.detach().numpy(), (near[2] - near[0]) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(
        second.numpy(), (near[2] - 2 * near[1] + near[0]) / step**2, rtol=1e-3, atol=1e-5
    )


def test_gradient_of_dirichlet_is_that_of_the_beta_quantile() -> None:
    special = pytest.importorskip("scipy.special")
    x, a, total = np.array([0.1, 0.7]), np.array([0.5, 3.0]), np.array([1.0, 9.0])
    p = special.betainc(a, total - a, x)
    step = 1e-5
    high, low = (special.betaincinv(a + d, total - a, p) for d in (step, -step))
    found = torch._dirichlet_grad(*map(torch.tensor, (x, a, total)))
    np.testing.assert_allclose(found.numpy(), (high - low) / (2 * step) / (1 - x), rtol=1e-5)


# -- transforms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["poisson", "binomial", "_standard_gamma", "normal"])
def test_vmap_refuses_random_numbers(function: str) -> None:
    def draw(x: Any) -> Any:
        ones = torch.ones(3)
        return x * getattr(torch, function)(*(ones, ones)[: 1 + (function == "binomial")])

    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(draw)(torch.ones(4))
    same = torch.func.vmap(draw, randomness="same")(torch.ones(4))
    assert torch.equal(same[0], same[3])


def test_a_jitted_function_draws_like_the_eager_one() -> None:
    def draw(x: Any) -> Any:
        return torch.rand_like(x) * x

    torch.manual_seed(0)
    expected = draw(torch.ones(3))
    torch.manual_seed(0)
    found = ft.vmap(lambda x: draw(torch.ones(3))._array * x)(np.ones((1, 3)))
    np.testing.assert_array_equal(found[0], expected.numpy())


def test_draws_become_constants_of_a_staged_function_with_a_warning() -> None:
    def draw(x: Any) -> Any:
        return x * torch.rand(3)

    with pytest.warns(UserWarning, match="rand draws random numbers while jit of draw is staged"):
        first = ft.jit(draw)(torch.ones(3))
    assert first.shape == (3,)
    with pytest.warns(UserWarning, match="bernoulli_ draws"):
        ft.jit(lambda x: x.clone().bernoulli_(0.5))(torch.ones(3))


@pytest.mark.parametrize(
    "call",
    [
        "bernoulli(x)", "poisson(x)", "normal(x, 1.0)", "normal(1.0, x)", "multinomial(x, 2)",
        "binomial(x, x)", "_standard_gamma(x)", "_sample_dirichlet(x)", "zeros(3).bernoulli_(x)",
    ],
)  # fmt: skip
def test_parameters_that_vmap_maps_over_are_refused(call: str) -> None:
    draw = eval(f"lambda x: torch.{call}", {"torch": torch})
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor"):
        torch.func.vmap(draw, randomness="same")(torch.full((2, 3), 0.5))


@pytest.mark.parametrize("call", ["bernoulli(x)", "poisson(x)", "normal(x, 1.0)", "normal(x, x)"])
def test_gradients_of_samples_are_zero_and_their_values_those_of_eager_calls(call: str) -> None:
    draw = eval(f"lambda x: torch.{call}", {"torch": torch})
    x = torch.full((3,), 0.5)
    torch.manual_seed(2)
    expected = draw(x)
    torch.manual_seed(2)
    gradient, found = torch.func.grad(lambda x: (draw(x).sum(), draw(x * 0 + 1)), has_aux=True)(x)
    assert gradient.tolist() == [0.0, 0.0, 0.0]
    torch.manual_seed(2)
    _, again = torch.func.grad(lambda x: (x.sum(), draw(x)), has_aux=True)(x)
    assert torch.equal(again, expected)
    assert found.shape == expected.shape


@pytest.mark.parametrize("call", ["binomial(x, x)", "_sample_dirichlet(x)"])
def test_transforms_refuse_samples_without_derivative(call: str) -> None:
    draw = eval(f"lambda x: torch.{call}.sum()", {"torch": torch})
    with pytest.raises(FunctraceError, match=r"derivative of .* is not implemented"):
        torch.func.grad(draw)(torch.full((3,), 0.5))


# -- distributions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "mean", "variance"),
    [
        ("torch.rand(N)", 0.5, 1 / 12),
        ("torch.randn(N)", 0.0, 1.0),
        ("torch.randn(N, dtype=torch.float16)", 0.0, 1.0),
        ("torch.empty(N).exponential_(2.0)", 0.5, 0.25),
        ("torch.empty(N).geometric_(0.25)", 4.0, 12.0),
        ("torch.empty(N).log_normal_(0.0, 0.5)", math.exp(0.125), 0.3646958),
        ("torch.poisson(torch.full((N,), 3.5))", 3.5, 3.5),
        ("torch.poisson(torch.full((N,), 80.0))", 80.0, 80.0),
        ("torch.binomial(torch.full((N,), 12.0), torch.full((N,), 0.6))", 7.2, 2.88),
        ("torch.binomial(torch.full((N,), 200.0), torch.full((N,), 0.3))", 60.0, 42.0),
        ("torch._standard_gamma(torch.full((N,), 0.7))", 0.7, 0.7),
        ("torch._standard_gamma(torch.full((N,), 9.0))", 9.0, 9.0),
        ("torch.multinomial(torch.tensor([1.0, 2, 1]), N, True)", 1.0, 0.5),
        ("torch.randperm(N)", 4999.5, 10_000**2 / 12),
    ],
)
def test_moments(expression: str, mean: float, variance: float) -> None:
    count = 10_000
    torch.manual_seed(7)
    found = eval(expression, {"torch": torch, "N": count}).numpy().astype(np.float64)
    assert abs(found.mean() - mean) < 4 * math.sqrt(variance / count)
    assert abs(found.var() - variance) < 0.12 * variance
