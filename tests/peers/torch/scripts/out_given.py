"""``out=``: tensors that share memory with an operand, of other dtypes, and of other shapes, which are resized."""

import warnings

OF_ONE = """
abs acos asin asinh atan atanh ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 neg reciprocal rsqrt sgn sigmoid sign
sin sinh sqrt tan tanh trunc logical_not signbit
"""
OF_TWO = """
add sub mul div true_divide maximum minimum fmax fmin pow fmod remainder floor_divide atan2 hypot logaddexp eq ne lt le gt ge
logical_and logical_or logical_xor
"""
OF_A_NUMBER = "add sub mul div true_divide pow remainder eq ne lt le gt ge"
REDUCTIONS = "sum mean prod amax amin all any argmax argmin logsumexp"
PAIRS = "max min median sort"
IN_PLACE = [
    *(f"torch.{name}(x, out=o)" for name in OF_ONE.split()),
    *(f"torch.{name}(x, x, out=o)" for name in OF_TWO.split()),
    *(f"torch.{name}(x, 2, out=o)" for name in OF_A_NUMBER.split()),
    *("torch.add(x, x, alpha=2, out=o)", "torch.addcmul(x, x, x, out=o)", "torch.addcdiv(x, x, x, out=o)"),
    *("torch.lerp(x, x, 0.5, out=o)", "torch.clamp(x, 0, 1, out=o)", "torch.clamp(x, x, x, out=o)"),
    "torch.where(x > 2, x, x, out=o)",
]
"""What may compute into its operand."""
BY_ROWS = ["torch.cumsum(x, 0, out=o)", "torch.cumprod(x, 0, out=o)", "torch.tril(x, out=o)", "torch.triu(x, out=o)"]
OTHERS = [
    *(f"torch.{name}(x, 0, out=o)" for name in REDUCTIONS.split()),
    *(f"torch.{name}(x, 0, out=(o, i))" for name in PAIRS.split()),
    *("torch.norm(x, 2, 0, out=o)", "torch.softmax(x, 0, out=o)", "torch.log_softmax(x, 0, out=o)"),
    *("torch.mm(x, x, out=o)", "torch.matmul(x, x, out=o)", "torch.addmm(x, x, x, out=o)", "torch.mv(x, x[0], out=o)"),
    *("torch.bmm(x[None], x[None], out=o)", "torch.cat([x], out=o)"),
    *("torch.stack([x], out=o)", "torch.gather(x, 0, j, out=o)", "torch.index_select(x, 0, j[0], out=o)"),
    *("torch.take(x, j[0], out=o)", "torch.take_along_dim(x, j, 0, out=o)", "torch.topk(x, 1, 0, out=(o, i))"),
]


def matrix(torch):
    return torch.arange(1.0, 10.0, dtype=torch.float64).reshape(3, 3) / 4


def sharing(torch):
    """Yield names, operands, what is written, and what holds the memory."""
    x = matrix(torch)
    yield "itself", x, x, x
    x = matrix(torch)
    yield "an alias", x, x.detach(), x
    x = matrix(torch)
    yield "its transpose", x, x.t(), x
    x = torch.arange(1.0, 13.0, dtype=torch.float64).reshape(4, 3) / 4
    yield "rows further on", x[:-1], x[1:], x
    x = matrix(torch)
    yield "its first row", x, x[0], x
    x = matrix(torch)
    yield "its matrix", x[0:1], x, x
    x = matrix(torch)
    yield "itself, flat", x, x.view(-1), x


def others(torch):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex128):
        o = torch.zeros(3, 3, dtype=dtype)
        yield str(dtype), matrix(torch), o, o
    for name, begin, end in (("the begin of a row", 0, 0), ("a part of a row", 5, 7), ("a row", 0, 30)):
        row = torch.arange(30, dtype=torch.float64)
        yield name, matrix(torch), row[begin:end], row
    row = torch.arange(30, dtype=torch.float64)
    yield "a column", matrix(torch), row.reshape(5, 6)[:, 1:2], row
    for name, shape in (("nothing", (0,)), ("too little", (2,)), ("one number", ())):
        o = torch.zeros(shape, dtype=torch.float64)
        yield name, matrix(torch), o, o


def expanded(torch):
    o = torch.zeros(1, 3, dtype=torch.float64)
    yield "an expanded row", matrix(torch), o.expand(3, 3), o


def weighed(x):
    """Return a number that tells the elements apart."""
    return sum((k + 1) * abs(n) for k, n in enumerate(x.flatten().tolist()) if n == n and abs(n) < 1e9)


def run(torch, log):
    with warnings.catch_warnings(action="ignore"):
        for expressions, cases in (
            (IN_PLACE, sharing),
            (BY_ROWS, lambda torch: [case for case in sharing(torch) if case[0] in ("itself", "an alias")]),
            (IN_PLACE[::5], others),
            (BY_ROWS[2:], others),
            (OTHERS, lambda torch: [case for case in others(torch) if "int64" not in case[0] and "bool" not in case[0]]),
            (IN_PLACE, expanded),
        ):
            for expression in expressions:
                for name, x, o, memory in cases(torch):
                    integers = {"i": torch.empty(0, dtype=torch.int64), "j": torch.zeros(3, 3, dtype=torch.int64)}
                    before = o._version
                    try:
                        eval(expression, {"torch": torch, "x": x, "o": o, **integers})
                        says = f"{tuple(o.shape)} {tuple(o.stride())}"
                    except Exception as error:
                        says = type(error).__name__
                    log(f"{expression} into {name}: {says}", o._version - before, *map(weighed, (o, memory)))
        matrix_ = matrix(torch)
        log.error("an operand is not resized", lambda: torch.add(matrix_[0], matrix_, out=matrix_[0]))
        first = matrix_[0]
        log.error("not itself either", lambda: torch.add(first, matrix_, out=first))
