"""`generate(seed, kind)`: a random program, drawn statement by statement while it runs on plain
NumPy.

A statement that NumPy refuses is dropped (now and then it stays, as the last one: then the error is
what is compared), so every program runs, and what it computes is known while it is drawn. Bodies of
functions are drawn the same way.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from tests.fuzz.bodies import PRELUDE, body
from tests.fuzz.grammar import EXPRESSIONS, index_of, writing
from tests.fuzz.plain import Plain

AVOIDED: set[str] = set()
"""Classes of programs that are left out: ``literals`` that change where there are bodies,
``writes`` in bodies, ``aliases`` as results of bodies, ``scalars`` that are viewed, and the keys of
`AVOIDABLE`."""

AVOIDABLE = {
    "flat": r"flat\[",
    "delete": r"np\.delete\(.*\[\]",
    "einsum": r"np\.einsum\('i[ij]->",
    "meshgrid": r"meshgrid",
    "initial": r"initial=K",
    "complex": r"complex\((nan|0\.0, inf)",
}
"""Statements (or literals) that are left out, by the name of their class."""

SETS = 3
"""Number of sets of values, and of literals, that a program is called with."""

Node = Any
"""A line, or a block: a header and the nodes under it."""


@dataclass(frozen=True)
class Kind:
    """The parameters of a kind of program: weights of statements, dtypes, and switches."""

    dtypes: tuple[str, ...]
    expressions: dict[str, int]
    smooth: bool = False
    layouts: bool = False
    writes: int = 3
    views: int = 2
    bodies: int = 0
    control: int = 1
    raising: float = 0.0
    least: int = 1
    statements: tuple[int, int] = (2, 9)


_ALL = {"unary": 3, "binary": 3, "choosing": 1, "reduction": 2, "scanning": 1, "shaping": 3,
"joining": 1, "sorting": 1,
        "algebra": 2, "indexing": 2, "literal": 2, "viewing": 1}  # fmt: skip
_MIXED = ("float64", "float64", "float64", "float32", "complex128", "int64", "bool", "uint8")
_REAL = ("float64",)

KINDS: dict[str, Kind] = {
    "values": Kind(_MIXED, _ALL, writes=2, raising=0.05),
    "writes": Kind(_MIXED, _ALL, writes=8, views=6, raising=0.03),
    "layouts": Kind(_MIXED, _ALL, writes=5, views=5, layouts=True),
    "literals": Kind(
        _MIXED, {"literal": 1}, writes=1, views=0, control=0, raising=0.05, statements=(1, 3)
    ),
    "smooth": Kind((*_REAL, *_REAL, "complex128"), _ALL, smooth=True, writes=3, views=3),
    "bodies": Kind(
        _REAL, {**_ALL, "algebra": 1}, smooth=True, writes=2, views=2, bodies=7, statements=(2, 6)
    ),
    "wild_bodies": Kind(_MIXED, _ALL, writes=3, views=2, bodies=6, statements=(2, 6)),
    "pure": Kind(
        _REAL, _ALL, smooth=True, writes=0, views=0, control=0, bodies=0, statements=(1, 5)
    ),
    "pure_bodies": Kind(
        _REAL,
        {**_ALL, "algebra": 1},
        smooth=True,
        writes=0,
        views=0,
        control=0,
        bodies=5,
        statements=(1, 4),
    ),
}


@dataclass
class Program:
    """A random program as text, and what it is called with.

    Args:
        names: of its array arguments; a last one, ``K``, is the list of literals.
        nodes: the body of the function.
        arrays: by set of values, the array arguments, as Python text.
        closed: by set of values, the arrays that it closes over, as Python text.
        literals: by set of literals, Python text.
    """

    seed: str
    kind: str
    names: list[str]
    nodes: list[Node]
    arrays: list[list[str]]
    closed: list[list[str]]
    literals: list[list[str]] = field(default_factory=lambda: [[] for _ in range(SETS)])

    def source(self) -> str:
        """The text of ``make(np, ft, C)``, which returns the function."""
        head = f"    def f({', '.join([*self.names, 'K'])}):"
        lines = lines_of(self.nodes, "        ")
        return "\n".join(["def make(np, ft, C):", *PRELUDE, head, *lines, "    return f", ""])


def lines_of(nodes: Sequence[Node], indent: str) -> list[str]:
    """The lines of nodes."""
    lines: list[str] = []
    for node in nodes:
        if isinstance(node, str):
            lines.append(indent + node)
        else:
            lines += [
                indent + node[0],
                *(lines_of(node[1], indent + "    ") or [indent + "    pass"]),
            ]
    return lines


def evaluated(text: str) -> Any:
    """The value of the text of an argument."""
    return eval(text, {"np": np, "nan": np.nan, "inf": np.inf})


@final
class Scope:
    """The values so far, and what the makers ask for."""

    def __init__(
        self, rng: random.Random, kind: Kind, start: Callable[[], dict[str, Any]], layouts: bool
    ) -> None:
        self.rng, self.kind, self.start = rng, kind, start
        self.smooth, self.layouts = kind.smooth, layouts
        self.random, self.choice = rng.random, rng.choice
        self.nodes: list[Node] = []
        self.env = start()
        self.locals = [name for name, value in self.env.items() if isinstance(value, np.ndarray)]
        self.counter = [0]
        self.literals: list[list[str]] = [[] for _ in range(SETS)]
        self.depth = 0

    def avoids(self, word: str) -> bool:
        return word in AVOIDED

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def value(self, name: str) -> Any:
        return self.env[name]

    def is_local(self, name: str) -> bool:
        return name in self.locals

    def fresh(self, letter: str = "v") -> str:
        self.counter[0] += 1
        return f"{letter}{self.counter[0]}"

    # -- values ----------------------------------------------------------------------------------

    def array(
        self, *, least: int | None = None, like: str | None = None, square: bool = False
    ) -> str | None:
        """A name of an array; late ones are likelier."""
        least = 0 if least is None else least
        found = []
        for name, value in self.env.items():
            if (
                isinstance(value, np.ndarray | np.generic)
                and value.ndim >= least
                and value.ndim < 5
            ):
                if like is not None and self.env[like].shape != value.shape:
                    continue
                if square and not (
                    value.ndim == 2
                    and 0 < value.shape[0] == value.shape[1]
                    and value.dtype.kind in "fc"
                ):
                    continue
                found.append(name)
        if not found:
            return None
        return found[max(self.rng.randrange(len(found)) for _ in range(3))]

    def operand(self) -> str | None:
        roll = self.rng.random()
        if roll < 0.06 and self.array(least=1):
            name = self.array(least=1)
            return f"{name}[{self.choice(('0', '-1', '...', '1:', '::-1'))}]"
        if roll < 0.09:
            return self.choice(("C[0]", "C[1]"))
        return self.array()

    def partner(self, x: str | None) -> str | None:
        """Something that broadcasts with ``x``: a name, a number, a literal."""
        roll = self.rng.random()
        if x is None or roll < 0.12:
            return self.literal()
        if roll < 0.2:
            return self.choice(("0.5", "2", "1.5", "-1", "2.0", "3"))
        shape = np.shape(self.env[x]) if x in self.env else None
        found = [name for name, value in self.env.items() if isinstance(value,
        np.ndarray | np.generic)
                 and shape is not None and _broadcasts(shape, value.shape)]  # fmt: skip
        return self.choice(found) if found else self.array()

    def fitting(self, target: str) -> str:
        """Something that can be written into a target."""
        try:
            shape = np.shape(eval(target, dict(self.env)))
        except Exception:
            return "0.5"
        roll = self.rng.random()
        found = [name for name, value in self.env.items() if isinstance(value,
        np.ndarray | np.generic)
                 and _fits(value.shape, shape)]  # fmt: skip
        if found and roll < 0.6:
            name = self.choice(found)
            return self.choice(("{0}", "np.sin({0})", "{0} * 0.5", "{0}", "-{0}")).format(name)
        return self.literal() if roll < 0.8 else self.choice(("0.5", "-1.0", "2", "0"))

    def axis(self, x: str, *, none: bool = False) -> Any:
        rank = np.ndim(self.env[x]) if x in self.env else 1
        if none and self.chance(0.4):
            return None
        if none and rank >= 2 and self.chance(0.1):
            return (0, -1)
        return self.choice(range(-rank, rank)) if rank else 0

    def index(self, x: str) -> str:
        return index_of(self, x)

    def literal(self, family: str = "any") -> str:
        """A place in the list of literals; each set of literals has its own number there."""
        place = len(self.literals[0])
        first = _number(self, family)
        for k in range(SETS):
            same = k == 0 or self.chance(0.2) or ("literals" in AVOIDED and self.kind.bodies)
            self.literals[k].append(first if same else _number(self, family))
        self.env["K"].append(eval(first, {"inf": np.inf, "nan": np.nan, "np": np}))
        return f"K[{place}]"

    # -- statements ------------------------------------------------------------------------------

    def restart(self) -> None:
        """Run what there is from the start: after a statement that failed, or that must not be
        seen.
        """
        self.env = self.start()
        self.env["K"][:] = [evaluated(text) for text in self.literals[0]]
        text = "\n".join(lines_of(self.nodes, ""))
        exec(compile(text, "<drawn>", "exec"), self.env)

    def attempt(self, node: Node, name: str | None = None) -> bool:
        """Keep a node, if plain NumPy runs it and what comes out is of moderate size."""
        text = "\n".join(lines_of([node], ""))
        if any(word in AVOIDED and re.search(pattern, text) for word, pattern in AVOIDABLE.items()):
            return False
        try:
            exec(compile(text, "<drawn>", "exec"), self.env)
        except Exception:
            self.restart()
            return False
        if not self._moderate(name):
            self.restart()
            return False
        self.nodes.append(node)
        if name is not None and name not in self.locals:
            self.locals.append(name)
        return True

    def _moderate(self, name: str | None) -> bool:
        names = [name] if name is not None else list(self.env)
        for key in names:
            value = self.env.get(key)
            if isinstance(value, np.ndarray | np.generic):
                if value.size > 60 or value.ndim > 4 or value.dtype.kind not in "biufc":
                    return False
                if (
                    self.smooth
                    and value.dtype.kind in "fc"
                    and value.size
                    and not np.max(np.abs(value)) < 50.0
                ):
                    return False
        return True


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(reversed(a), reversed(b), strict=False))


def _fits(part: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(part) <= len(shape) and all(
        m in (1, n) for m, n in zip(reversed(part), reversed(shape), strict=False)
    )


def _number(s: Scope, family: str) -> str:
    if s.smooth or family == "number":
        return s.choice(("0.5", "1.25", "-0.75", "2", "1", "0.25", "1.5", "3"))
    if s.chance(0.5):
        return s.choice(("0.5", "2", "-1.5", "1", "3", "2.0", "1.0", "0", "0.0"))
    return s.choice(("-0.0", "inf", "-inf", "nan", "True", "False", "1j", "2-0.0j",
    "complex(-0.0, -0.0)", "300", "-1", "256",
                     "2**31", "2**53 + 1", "2**63 - 1", "2**63", "-2**63", "2**64", "1e300",
                     "1e-300", "1e40", "5e-324",
                     "complex(nan, 1.0)", "complex(0.0, inf)", "255", "-129", "np.float32(0.1)",
                     "np.float64(0.3)", "np.int8(5)",
                     "np.uint8(200)", "np.bool_(True)", "np.complex64(1+2j)", "np.float32(-0.0)",
                     "np.int64(-3)", "0.1")
                    [: 26 if s.avoids("complex") else None])  # fmt: skip


SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (3,),
    (2, 3),
    (3, 3),
    (2,),
    (3, 1),
    (1, 3),
    (1,),
    (2, 1, 3),
    (0,),
    (2, 0),
    (4,),
    (2, 2, 2),
    (3, 2),
)
SOLID: tuple[tuple[int, ...], ...] = (
    (),
    (3,),
    (2, 3),
    (3, 3),
    (2,),
    (3, 1),
    (1, 3),
    (4,),
    (2, 2, 2),
    (3, 2),
    (2, 2),
)
FEW: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3), (3, 3))
"""Shapes of programs that JAX runs too: few, so that what it compiles for an operation is found
again.
"""


def _elements(rng: random.Random, dtype: str, size: int, smooth: bool) -> list[str]:
    def one() -> str:
        if dtype == "bool":
            return rng.choice(("True", "False"))
        if dtype == "uint8":
            return str(rng.choice((0, 1, 2, 3, 5, 200, 255)))
        if dtype == "int64":
            return str(rng.randrange(-4, 5))
        if smooth:
            return f"{rng.uniform(-1.5, 1.5):.4f}"
        if rng.random() < 0.03:
            return rng.choice(("nan", "inf", "-inf", "-0.0", "1e200", "0.0"))
        return str(rng.randrange(-8, 9) / 4)

    if dtype.startswith("complex"):  # finite: what inf means in a complex product depends on BLAS
        smooth = smooth or rng.random() < 0.3
        return [
            f"complex({one()}, {one()})".replace("inf", "1.0")
            .replace("nan", "2.0")
            .replace("1e200", "0.5")
            for _ in range(size)
        ]
    return [one() for _ in range(size)]


LAYOUTS = ("{0}", "{0}", "np.asfortranarray({0})", "np.ascontiguousarray(({0}).T).T",
"np.repeat({0}, 2, axis=-1)[..., ::2]",
           "({0})[..., ::-1][..., ::-1]", "np.ascontiguousarray(({0})[::-1])[::-1]",
           "np.pad({0}, 1)[tuple(slice(1, -1) for _ in ({0}).shape)]")  # fmt: skip


def array_text(
    rng: random.Random, dtype: str, shape: tuple[int, ...], kind: Kind, *, layout: bool = False
) -> str:
    """The text of an array."""
    size = int(np.prod(shape))
    text = f"np.array([{', '.join(_elements(rng, dtype, size, kind.smooth))}], np.{dtype})"
    if shape != (size,):
        text += f".reshape({shape})"
    if layout and shape:
        text = rng.choice(LAYOUTS).format(text)
    return text


def generate(seed: str, kind_name: str) -> Program:
    """Draw a program; the same seed and kind give the same program."""
    rng = random.Random(seed + kind_name)
    kind = KINDS[kind_name]
    pool = FEW if kind_name.startswith("pure") else SOLID if kind.smooth else SHAPES
    count = rng.choice((1, 2, 2, 3))
    names = ["x", "y", "z"][:count]
    shapes = [rng.choice(pool) for _ in names]
    dtypes = [rng.choice(kind.dtypes) for _ in names]
    arrays = [
        [array_text(rng, d, shape, kind, layout=kind.layouts) for d, shape in zip(dtypes, shapes)]
        for _ in range(SETS)
    ]
    closed_shapes = [rng.choice(pool), shapes[0]]
    closed = [
        [array_text(rng, kind.dtypes[0], shape, kind) for shape in closed_shapes]
        for _ in range(SETS)
    ]
    program = Program(seed, kind_name, names, [], arrays, closed)

    def start() -> dict[str, Any]:
        env: dict[str, Any] = {
            "np": np,
            "ft": Plain(),
            "C": [evaluated(text) for text in closed[0]],
            "K": [],
        }
        env.update({name: evaluated(text) for name, text in zip(names, arrays[0])})
        exec(_PRELUDE, env)
        return env

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        scope = Scope(rng, kind, start, kind.layouts)
        draw(scope, rng.randint(*kind.statements))
        last = _raising(scope) if kind.raising and scope.chance(kind.raising) else None
        program.nodes = [*scope.nodes, *([last] if last else []), f"return {returned(scope)}"]
    program.literals = scope.literals
    return program


_PRELUDE = compile("\n".join(line[4:] for line in PRELUDE), "<prelude>", "exec")


def draw(scope: Scope, count: int) -> None:
    """Add up to ``count`` statements."""
    tries = 0
    kept = 0
    while kept < count and tries < 4 * count:
        tries += 1
        kept += statement(scope)


def statement(s: Scope) -> bool:
    """Add one statement; False if what was drawn did not fit."""
    kind = s.kind
    weights = {"expression": 8, "write": 0 if s.depth and "writes" in AVOIDED else kind.writes,
    "view": kind.views, "alias": 1 if kind.views else 0,
               "control": kind.control, "body": kind.bodies if s.depth < 2 else 0}  # fmt: skip
    chosen = s.rng.choices(list(weights), list(weights.values()))[0]
    if chosen == "body":
        return body(s, draw)
    if chosen == "control":
        return _control(s)
    if chosen == "write":
        text = writing(s)
        return text is not None and s.attempt(text)
    if chosen == "alias":
        return _alias(s)
    name = s.fresh()
    if chosen == "view":
        text = EXPRESSIONS["viewing"](s)
    else:
        maker = s.rng.choices(list(kind.expressions), list(kind.expressions.values()))[0]
        text = EXPRESSIONS[maker](s)
    if text is None:
        return False
    if s.chance(0.06) and s.locals and kind.views:
        name = s.choice(s.locals)
    return s.attempt(f"{name} = {text}", name)


def _alias(s: Scope) -> bool:
    x, y = s.array(), s.array()
    if x is None or y is None:
        return False
    name = s.fresh()
    forms = [
        f"{name} = {x}",
        f"{name} = [{x}, {y}][0]",
        f"{name} = {{'a': {x}}}['a']",
        f"{name}, _ = {y}, {x}",
    ]
    if s.is_local(x) and s.is_local(y):
        forms.append(f"{x}, {y} = {y}, {x}")
    if s.value(x).ndim:
        forms += [f"{name}, *_ = {x}", f"{name} = [t for t in {x}][-1]", f"{name} = sum({x})",
        f"{name} = max({x}.tolist())" if s.chance(0.05) else f"{name} = [*{x}][0]"]  # fmt: skip
    text = s.choice(forms)
    return s.attempt(text, name if text.startswith(name) else None)


def _control(s: Scope) -> bool:
    """A block of Python's own control flow, with one or two statements in it."""
    x = s.array()
    if x is None:
        return False
    i = s.fresh("i")
    forms = [f"for {i} in range(2):", f"for {i} in range(3):", f"if np.sum({x}).real > 0.1:",
    f"for {i} in {x}:", "if True:",
             f"if {x}.ndim > 1:", f"for {i} in (0.5, 1.5):", "try:"]  # fmt: skip
    header = s.choice(forms)
    before, known = list(s.nodes), list(s.locals)
    opening = [f"{header} break"] if header.startswith("for") else []
    if opening:
        try:
            exec(opening[0], s.env)
        except Exception:
            s.restart()
            return False
        s.nodes += opening
        s.locals.append(i)
    for _ in range(s.rng.randint(1, 2)):
        statement(s)
    inner = s.nodes[len(before) + len(opening) :]
    s.nodes[:], s.locals[:] = before, known
    s.restart()
    if not inner:
        return False
    return _tried(s, inner) if header == "try:" else s.attempt((header, inner))


def _tried(s: Scope, inner: list[Node]) -> bool:
    x = s.array(least=1)
    if x is None:
        return False
    failing = s.choice((f"{x}[100] = 1.0", f"{x} + np.ones(7)",
    f"np.linalg.cholesky(-{x} @ {x}.T - np.eye(3))", f"{x}.reshape(7, 13)",
                        f"np.linalg.inv({x} * 0)", f"{x}[99]",
                        f"np.concatenate([{x}, {x}[None, None]])"))  # fmt: skip
    text = ("try:", [failing, "raise ZeroDivisionError"])
    handler = ("except (ValueError, IndexError, TypeError, np.linalg.LinAlgError):", inner)
    return s.attempt(("if True:", [text, handler]))


def _raising(s: Scope) -> Node | None:
    """A statement that NumPy refuses, if one is found."""
    for _ in range(6):
        text = writing(s) if s.chance(0.5) else EXPRESSIONS[s.choice(list(s.kind.expressions))](s)
        if text is None:
            continue
        line = f"bad = {text}"
        if "=" in text and not text.startswith("np."):
            line = text
        try:
            exec(compile(line, "<drawn>", "exec"), s.env)
        except Exception as error:
            s.restart()
            if not isinstance(error, SyntaxError | NameError):
                return line
        else:
            s.restart()
    return None


def returned(s: Scope) -> str:
    """The return expression of a function: mostly last values, some views, constants, pytrees."""
    x = s.array() or "0.5"
    y = s.array() or "1.0"
    z = (
        s.locals[-1]
        if s.locals and isinstance(s.env.get(s.locals[-1]), np.ndarray | np.generic)
        else x
    )
    forms = ["{2}", "{2}", "({2}, {0})", "({2}, {0})", "{{'a': {2}, 'b': {1}}}", "[{0}, {2}]",
    "({2}, None)", "({2}, 1.5)", "({0}, {0}, {2})",
             "({2}, ({0}, {1}))", "({2}, {0}.T)", "np.sum({2}), {0}"]  # fmt: skip
    return s.choice(forms).format(x, y, z)
