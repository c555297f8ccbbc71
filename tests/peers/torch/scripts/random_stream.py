"""Digests of random numbers, and of the generator's state after them: they are equal bit for bit."""

import hashlib

SIZES = (0, 1, 2, 7, 15, 16, 17, 31, 33, 1000)
FLOATS = ("float16", "float32", "float64", "complex64", "complex128")
FILLS = (
    "uniform_()", "uniform_(-0.3, 0.7)", "normal_()", "normal_(0.3, 0.7)", "bernoulli_()",
    "bernoulli_(0.1)", "exponential_()", "exponential_(2.5)", "geometric_(0.3)",
    "cauchy_(0.3, 2.0)", "log_normal_(0.2, 0.5)", "random_()", "random_(2)", "random_(1, None)",
)  # fmt: skip
LAYOUTS = (
    "torch.empty(4, 6).t()", "torch.empty(2, 3, 8)[:, :, ::2].permute(2, 0, 1)",
    "torch.empty(3, 1, 5).transpose(0, 2)", "torch.empty(48)[::2]",
)  # fmt: skip
SAMPLES = (
    "torch.randint(10, (9,))", "torch.randint(-5, 2**28 - 6, (9,))",
    "torch.randint(-5, 2**28 - 5, (9,))", "torch.randint(2**32, (9,))",
    "torch.randint(-(2**63), 2**63 - 1, (9,))", "torch.randint(7, (9,), dtype=torch.float16)",
    "torch.empty(9, dtype=torch.int64).random_(-(2**63), None)",
    "torch.empty(9).random_(2**24 - 3, 2**24 + 9)",
    "torch.randint_like(torch.empty(4, 6).t(), 5)", "torch.rand_like(torch.empty(4, 6).t())",
    "torch.randn_like(torch.empty(4, 6).t())",
    "torch.randn_like(torch.empty(4, 6).t(), memory_format=torch.contiguous_format)",
    *(f"torch.randperm({n})" for n in (0, 1, 2, 5, 63, 64, 65, 3000)),
    "torch.randperm(9, dtype=torch.int32)", "torch.randn(4, 6, out=torch.empty(6, 4).t())",
    "torch.bernoulli(torch.linspace(0, 1, 40))",
    "torch.bernoulli(torch.linspace(0, 1, 40, dtype=torch.float64).reshape(5, 8).t())",
    "torch.bernoulli(torch.ones(4, 6).t(), 0.3)",
    "torch.empty(4, 6).bernoulli_(torch.linspace(0, 1, 6))",
    "torch.normal(torch.linspace(0, 1, 20), 2.0)", "torch.normal(1.0, torch.linspace(0, 1, 20))",
    "torch.normal(torch.linspace(0, 1, 20), torch.linspace(0, 1, 20, dtype=torch.float64))",
    "torch.normal(0.5, 2.0, (3, 7))", "torch.normal(0.5, 2.0, (3, 7), dtype=torch.float64)",
    "torch.multinomial(torch.linspace(0.1, 1, 40), 1)",
    "torch.multinomial(torch.linspace(0.1, 1, 40).reshape(4, 10), 5)",
    "torch.multinomial(torch.linspace(0.1, 1, 40).reshape(4, 10), 20, True)",
    "torch.poisson(torch.linspace(0, 9, 40))", "torch.poisson(torch.linspace(10, 500, 40))",
    "torch.binomial(torch.full((40,), 12.0), torch.linspace(0, 1, 40))",
    "torch.binomial(torch.full((40,), 500.0), torch.linspace(0, 1, 40))",
    "torch._standard_gamma(torch.linspace(0.1, 5, 40))",
    "torch._standard_gamma(torch.linspace(0.1, 5, 40, dtype=torch.float64))",
    "torch._sample_dirichlet(torch.linspace(0.1, 5, 40).reshape(8, 5))",
    "torch.rand(5, generator=torch.Generator().manual_seed(2**40 + 7))",
    "torch.randn(5, generator=torch.Generator())",
    "torch.empty((), dtype=torch.int64).random_()",
)  # fmt: skip
REFUSED = (
    "torch.empty(3).uniform_(2, 1)", "torch.empty(3).uniform_(-3e38, 3e38)",
    "torch.empty(3).uniform_(0, float('inf'))", "torch.empty(3).normal_(0, -1)",
    "torch.empty(3).exponential_(0)", "torch.empty(3, dtype=torch.int8).exponential_()",
    "torch.empty(3).geometric_(1.5)", "torch.empty(3).cauchy_(0, -1)",
    "torch.empty(3, dtype=torch.int16).cauchy_()", "torch.empty(3).log_normal_(0, 0)",
    "torch.empty(3, dtype=torch.int32).normal_()", "torch.empty(3).bernoulli_(2)",
    "torch.empty(3).bernoulli_(torch.tensor([0.1, 3, 0]))",
    "torch.empty(3).bernoulli_(torch.rand(2))", "torch.bernoulli(torch.tensor([1, 0]))",
    "torch.empty(3).random_(5, 5)", "torch.empty(3, dtype=torch.int16).random_(40000)",
    "torch.empty(3, dtype=torch.complex64).random_(5)", "torch.normal(torch.zeros(2), -1.0)",
    "torch.normal(torch.zeros(2), torch.tensor([1.0, -1]))",
    "torch.normal(torch.zeros(2), torch.ones(3))", "torch.poisson(torch.tensor([-1.0]))",
    "torch.poisson(torch.tensor([1]))", "torch.binomial(torch.tensor([1]), torch.rand(1))",
    "torch.binomial(torch.rand(1), torch.rand(1).double())",
    "torch.multinomial(torch.rand(2), 3)", "torch.multinomial(torch.rand(2), 0)",
    "torch.multinomial(torch.zeros(2), 1)", "torch.multinomial(torch.rand(2) - 2, 1)",
    "torch.multinomial(torch.ones(2, 2, 2), 1)", "torch.multinomial(torch.ones(2).int(), 1)",
    "torch.randperm(300, dtype=torch.int8)", "torch.randperm(3000, dtype=torch.float16)",
    "torch.randperm(3, dtype=torch.bool)", "torch.rand(3, dtype=torch.float64, out=torch.empty(3))",
    "torch.manual_seed(2**64)", "torch.Generator().manual_seed(2.5)",
    "torch.set_rng_state(torch.zeros(3))", "torch.set_rng_state(3)",
    "torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))",
    "torch.set_rng_state(torch.zeros(5056, dtype=torch.uint8))", "torch.Generator().get_offset()",
)  # fmt: skip


def run(torch, log):
    """Log the numbers of every function, and the refusals."""
    digest = (
        lambda *tensors: hashlib.sha256(
            b"".join([x.detach().contiguous().numpy().tobytes() for x in tensors])
        ).hexdigest()[:16]
    )

    def of(text):
        torch.manual_seed(1234)
        made = eval(text, {"torch": torch})
        log(f"{text}: {made.dtype} {list(made.shape)} {digest(made, torch.get_rng_state())}")

    for size in SIZES:
        for dtype in FLOATS:
            of(f"torch.rand({size}, dtype=torch.{dtype})")
            of(f"torch.randn({size}, dtype=torch.{dtype})")
    for fill in FILLS:
        for dtype in (*FLOATS, "uint8", "int16", "int64", "bool"):
            for size in (3, 40):
                text = f"torch.empty({size}, dtype=torch.{dtype}).{fill}"
                try:
                    of(text)
                except Exception as error:
                    log(f"{text}: {type(error).__name__}: {error}")
        for layout in LAYOUTS:
            of(f"{layout}.{fill}")
    for text in SAMPLES:
        of(text)
    for text in REFUSED:
        log.error(text, lambda text=text: eval(text, {"torch": torch}))
    torch.manual_seed(-1)
    log("initial seed", str(torch.initial_seed()))
    seeded = torch.randn(3), torch.rand(700), torch.randn(1), torch.randn(100)
    log("calls one after another", digest(*seeded, torch.get_rng_state()))
    state = torch.get_rng_state()
    first = torch.randn(5)
    torch.set_rng_state(state)
    log("state restored", str(torch.equal(first, torch.randn(5))))
    with torch.random.fork_rng():
        torch.rand(9)
    log("forked", digest(torch.randn(5)))
    copy = torch.default_generator.clone_state()
    log("cloned", digest(torch.rand(5, generator=copy), torch.rand(5), torch.randn(1)))
