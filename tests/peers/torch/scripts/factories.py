"""A grid of factory calls: sizes, dtypes, ranges and options, passed by position and by name."""

import itertools
import warnings

SIZES = (
    "2, 3; (2,); [0, 2]; (); 0; size=(2,); size=[1, 2]; size=(); -1; (2, -1); True; (True,); "
    "None; 2.0; 'a'; (2,), 3; 2, size=(2,)"
)
OPTIONS = (
    "dtype=torch.float64; dtype=torch.int32; dtype=bool; dtype=3; device='cpu'; device=3.5; "
    "layout=torch.strided; layout=3; "
    "pin_memory=False; pin_memory=1; requires_grad=True; requires_grad=1; requires_grad='x'; "
    "requires_grad=None; foo=1; "
    "requires_grad=True, dtype=torch.int64"
)
DTYPES = "uint8 int8 int32 int64 float16 float32 float64 complex64 bool"
FILLS = (
    "1; 1.5; True; 2j; -1; -1.5; -0.5; 255.5; 256; 300; 1e40; float('nan'); float('inf'); -0.0; "
    "2**31; torch.tensor(2); "
    "torch.tensor(2.0, requires_grad=True); None; 'a'; torch.tensor([2.0])"
)
RANGES = (
    "5; 2.5; 0, 10, 3; 10, 0, -3; 10, 0, -0.3; 0, 9, 0.7; -1, 1, 0.25; 0, 10, -1; 0, 5, 0; "
    "1, 1; 0, float('nan'); "
    "float('inf'); 0, 5, float('inf'); 0, 5, float('nan'); torch.tensor(3); "
    "torch.tensor([1, 2]); 1e30; "
    "1, end=3; 0, 4, 2.0; 0.25, 2, 0.5; torch.tensor(3.0, requires_grad=True)"
)
SPACES = (
    "0, 1, 5; 0, 1, 1; 0, 1, 0; 0, 1, -1; 5, -5, 4; 0, 10, 11; 1j, 2, 3; 1, 2j, 3; "
    "torch.tensor(0.0), 1, 3; 0, torch.tensor(2), 3; "
    "'a', 1, 3; 0, float('inf'), 3; 0, 1, True; float('nan'), 1, 3; 3, 3.5, 7; 0, 1, 2.0; "
    "start=0, end=1, steps=3; 0, 1, None"
)
BOUNDS = (
    "5, (2,); 2, 5, (2,); (2,); 5, 2, (2,); 0, (2,); high=5, size=(2,); "
    "low=1, high=5, size=(2,); 5, size=(2,); 1, high=5, size=(2,); "
    "5.0, (2,); 5, (-1,); 5, (True,); torch.tensor(5), (2,); None, (2,); 1, 2, 3, (4,); "
    "size=(2,); 256, (2,); 257, (2,); -5, 3, (2,)"
)
LIKE = (
    "5; 2, 5; 5, 2; high=5; low=1, high=5; 2, high=5; 5.0; 1, 2, 3; 257; -1, 1; 5, generator=None"
)
INPUTS = (
    "torch.ones(2, 3); torch.ones(2, 3).t(); torch.ones(2, dtype=torch.int64); "
    "torch.ones(1, 3).expand(2, 3); torch.ones(()); "
    "torch.ones(2, 3, 4).permute(2, 0, 1); torch.ones(2, requires_grad=True); 3; None"
)


def split(text):
    return [part.strip() for part in text.split(";")]


def expressions():
    dtypes = [f"dtype=torch.{name}" for name in DTYPES.split()]
    for name in ("zeros", "ones", "empty", "rand", "randn"):
        yield from (f"torch.{name}({size})" for size in split(SIZES))
        yield from (f"torch.{name}(2, {option})" for option in split(OPTIONS))
    for name in ("new_zeros", "new_ones", "new_empty"):
        yield from (f"torch.ones(2, dtype=torch.int32).{name}({size})" for size in split(SIZES))
    for fill in split(FILLS):
        yield f"torch.full((2,), {fill})"
        yield from (f"torch.full((2,), {fill}, {dtype})" for dtype in dtypes)
        yield f"torch.full_like(torch.ones(2, dtype=torch.uint8), {fill})"
        yield f"torch.ones(2, dtype=torch.uint8).new_full((2,), {fill})"
        if "tensor" not in fill:
            yield f"torch.ones(2, dtype=torch.uint8).fill_({fill})"
    for name, given in (("arange", RANGES), ("linspace", SPACES), ("logspace", SPACES)):
        for arguments, dtype in itertools.product(split(given), ["", *dtypes]):
            # The last digits of half precision and of complex powers depend on the processor.
            if name == "linspace" or not ("16" in dtype or "complex" in dtype or "j" in arguments):
                yield f"torch.{name}({arguments}, {dtype})"
    for arguments, dtype in itertools.product(split(BOUNDS), ["", *dtypes]):
        yield f"torch.randint({arguments}, {dtype})"
    for argument, dtype in itertools.product(split(LIKE), dtypes):
        yield f"torch.randint_like(torch.ones(2, 3, {dtype}).t(), {argument})"
    for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"):
        yield from (f"torch.{name}({given})" for given in split(INPUTS))
        yield f"torch.{name}(torch.ones(2), memory_format=3)"
        yield f"torch.{name}(torch.ones(2), generator=3)"
    yield from (f"torch.randperm({n})" for n in ("5", "-1", "5.0", "torch.tensor(3)"))
    yield from (f"torch.randn(2, generator={g})" for g in ("3", "None", "torch.Generator()"))


def run(torch, log):
    with warnings.catch_warnings(action="ignore"):
        for expression in expressions():
            try:
                made = eval(expression, {"torch": torch})
            except Exception as error:
                log(expression, type(error).__name__)
                continue
            if "rand" in expression or "empty" in expression:
                log(expression, tuple(made.shape), made.dtype, made.stride(), made.requires_grad)
            else:
                log(expression, made, made.stride())
