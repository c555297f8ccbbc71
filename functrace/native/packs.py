"""Vectors of scalars in straight-line code.

Tiny arrays are scalars (`functrace.native.values.Scalars`), so an elementwise operation on one is a
row of equal statements, along the axis of a vmapped function too. Here the statements of a row, and
those that compute their operands, become packs of 8, 4 or 2: one instruction on vectors. LLVM's own
vectorizer of straight-line code begins at stores, does not know the rows, and takes as long as all
else together.

A pack is profitable if its operands are packs, too, or one scalar; otherwise a vector is built of
scalars. Others are dropped, and all of them if they save less than `SHARE` of a block. All lanes of
a vector are used: none sets floating-point flags that the scalars would not set.

Source: S. Larsen, S. Amarasinghe, "Exploiting superword level parallelism with multimedia
instruction sets", PLDI 2000.

Layer: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar, final

from functrace.native.loop_ir import (
    Assign,
    Atom,
    Const,
    Declare,
    For,
    Function,
    Get,
    Let,
    Load,
    Scalar,
    Statement,
    atoms_of,
    blocks_of,
    indices_of,
    walk,
)

OPS: Final = frozenset(("add", "sub", "mul", "neg", "fma"))
"""Ops of packs: cheap ones, whose flags nothing discards."""
BYTES: Final = 32
"""Bytes of the widest pack."""
MOVED: Final = 1.5
"""Cost of putting a scalar into a vector, or of taking it out; that of an instruction is 1."""
FEWEST: Final = 24
"""Instructions that the packs of a block have to save; finding them costs more than fewer save."""
MOST: Final = 4000
"""Statements of a block up to which packs are looked for."""
SHARE: Final = 0.25
"""Share of a block's instructions that its packs have to save. (Kalman filters, 0.22, gain nothing.)"""

Access = TypeVar("Access", Get, Assign)
Names: TypeAlias = tuple[str, ...]


class Operand(NamedTuple):
    """An operand of a pack.

    Args:
        lanes: one atom per lane.
        key: their names, and the texts of numbers.
        is_number: True if all are numbers.
        is_same: True if all are one scalar.
    """

    lanes: tuple[Atom, ...]
    key: Names
    is_number: bool
    is_same: bool


def _operand(lanes: tuple[Atom, ...]) -> Operand:
    key = tuple([repr(x.value) if type(x) is Const else x.name for x in lanes])
    is_number = all(type(x) is Const for x in lanes)
    return Operand(lanes, key, is_number, not is_number and len(set(key)) == 1)


@final
class Pack:
    """Statements that are one instruction on vectors.

    Args:
        statements: one per lane: `Let` of one op, or `Get` or `Assign` of variables.
        memory: of `Get` and `Assign`, the name of the memory of the variables.

    Attributes:
        lanes: number of lanes.
        names: names of the scalars that it computes.
        operands: one for each operand of a statement.
        is_let: True for statements that compute.
    """

    __slots__ = ("is_let", "lanes", "memory", "names", "operands", "statements")

    def __init__(
        self, statements: Sequence[Let] | Sequence[Get] | Sequence[Assign], memory: str = ""
    ) -> None:
        self.statements, self.memory, self.lanes = statements, memory, len(statements)
        self.names: Names = tuple([s.name for s in statements if not isinstance(s, Assign)])
        given = [tuple(atoms_of(s)) for s in statements]
        self.operands = [_operand(lanes) for lanes in zip(*given, strict=True)]
        self.is_let = isinstance(statements[0], Let)


class Place(NamedTuple):
    """Place of a variable in memory that several share.

    Args:
        memory: its name.
        lane, lanes: the place, and how many there are.
    """

    memory: str
    lane: int
    lanes: int


@final
@dataclass(slots=True)
class Packs:
    """The packs of a function.

    Args:
        blocks: by id of a block, its statements in order, in part as packs.
        variables: places of variables that share memory.
        taken_out: names of scalars of packs that are read as scalars, too.
    """

    blocks: dict[int, list[Statement | Pack]] = field(
        default_factory=dict[int, list[Statement | Pack]]
    )
    variables: dict[str, Place] = field(default_factory=dict[str, Place])
    taken_out: set[str] = field(default_factory=set[str])


def packs_in(function: Function) -> Packs:
    """Return the packs of a function, which stays as it is."""
    found = Packs()
    if function.rows:
        _look_into(function.body, function.rows, found)
    return found


def _look_into(block: list[Statement], rows: Sequence[Names], found: Packs) -> None:
    """Look for packs in the inner blocks that LLVM does not vectorize, and in a block itself."""
    for statement in block:
        if not (isinstance(statement, For) and (statement.independent or statement.lanes)):
            for inner in blocks_of(statement):
                _look_into(inner, rows, found)
    count = sum(isinstance(s, Let) for s in block)
    if count < FEWEST or count > MOST:
        return
    least = max(FEWEST, SHARE * count)
    # Rows are noted axis by axis: where two of them share scalars, the first one has its packs.
    tries = [_BlockPacks(block, order, found.variables) for order in (rows, rows[::-1])]
    tries = [packs for packs in tries if packs.most() >= least]
    if not tries:
        return
    best = max(tries, key=_BlockPacks.saved)
    if best.saved() < 0.0:  # (finding the profitable ones costs more than they save)
        return
    best.drop_unprofitable()
    order = best.order() if best.saved() >= least else []
    if best.saved() < least:
        return
    found.blocks[id(block)] = order
    found.taken_out |= best.taken_out()
    for pack in best.packs:
        for lane, s in enumerate(pack.statements):
            if isinstance(s, Get):
                found.variables[s.variable] = Place(pack.memory, lane, pack.lanes)


def _reads(statement: Statement) -> Iterator[str]:
    """Yield the names of the scalars that a statement reads, in its inner blocks too."""
    for s in walk((statement,)):
        for atom in atoms_of(s):
            if type(atom) is Scalar:
                yield atom.name
        for index in indices_of(s):
            for name, _ in index.terms:
                yield name


def _scalars(maker: Let | Pack) -> Iterator[str]:
    """Yield the names of the scalars that a statement or a pack reads."""
    given = [x.lanes for x in maker.operands] if isinstance(maker, Pack) else [maker.operands]
    for lanes in given:
        for atom in lanes:
            if type(atom) is Scalar:
                yield atom.name


@final
class _BlockPacks:
    """The packs of a block, and what they save.

    Args:
        block: the block.
        rows: names of scalars and variables that are computed alike.
        placed: variables that have their place already.
    """

    def __init__(
        self, block: Sequence[Statement], rows: Iterable[Names], placed: Iterable[str]
    ) -> None:
        self._block = block
        self._lets = {s.name: s for s in block if isinstance(s, Let)}
        self._gets = _accesses(block, Get, placed)
        self._assigns = _accesses(block, Assign, placed)
        self.packs: dict[Pack, None] = {}
        self._pack_of: dict[str, Pack] = {}
        self._partners: dict[Pack, Pack] = {}
        """By pack of `Get`, that of `Assign`, and the other way round."""
        for row in rows:
            self._add_row(row)
        self._by_names = {pack.names: pack for pack in self.packs if pack.names}
        self._readers: Counter[str] = Counter()
        """By name, how many scalar statements read it."""
        self._counts: Counter[Names] = Counter()
        """By key, how many packs have an operand."""
        self._operands: dict[Names, Operand] = {}
        """The operands of packs, by key."""
        packed = {id(s) for pack in self.packs for s in pack.statements}
        for statement in block:
            if id(statement) not in packed:
                self._readers.update(set(_reads(statement)))
        for pack in self.packs:
            for operand in pack.operands:
                self._counts[operand.key] += 1
                self._operands[operand.key] = operand

    # -- packs --

    def _add_row(self, row: Names) -> None:
        lets = [self._lets.get(name) for name in row]
        known = next((let for let in lets if let is not None), None)
        if known is not None:
            for start, stop in _cuts(len(row), BYTES // known.dtype.itemsize):
                pack = self._add(lets[start:stop])
                if pack is not None:
                    self._extend(pack)
            return
        if not all(name in self._gets and name in self._assigns for name in row):
            return
        gets = [self._gets[name] for name in row]
        for start, stop in _cuts(len(row), BYTES // gets[0].dtype.itemsize):
            own = gets[start:stop]
            if gets[0].dtype.kind != "f" or any(get.name in self._pack_of for get in own):
                continue
            first = Pack(own, f"{own[0].variable}.row")
            second = Pack([self._assigns[get.variable] for get in own], first.memory)
            self._partners |= {first: second, second: first}
            self._keep(first)
            self._keep(second)
            self._extend(second)

    def _keep(self, pack: Pack) -> None:
        self.packs[pack] = None
        self._pack_of.update(dict.fromkeys(pack.names, pack))

    def _add(self, lets: Sequence[Let | None]) -> Pack | None:
        """Return a new pack of statements, if they can be one."""
        first = lets[0]
        if first is None or first.op not in OPS or first.dtype.kind != "f":
            return None
        own = [let for let in lets if let is not None and let.op == first.op]
        own = [let for let in own if let.dtype == first.dtype and let.name not in self._pack_of]
        if len(own) < len(lets) or len({let.name for let in own}) < len(lets):
            return None
        pack = Pack(own)
        self._keep(pack)
        return pack

    def _extend(self, pack: Pack) -> None:
        """Add packs of the operands of a pack."""
        left = [pack]
        while left:
            for operand in left.pop().operands:
                added = self._add([self._lets.get(name) for name in operand.key])
                left += [] if added is None else [added]

    # -- costs --

    def most(self) -> int:
        """Return how many instructions the packs save at most."""
        return sum(pack.lanes - 1 for pack in self.packs if pack.is_let)

    def _price(self, operand: Operand) -> float:
        """Return the cost of the vector of an operand."""
        if operand.is_number or operand.key in self._by_names:
            return 0.0
        return 1.0 if operand.is_same else MOVED * len(operand.key)

    def saved(self) -> float:
        """Return how many instructions the packs save."""
        taken_out = sum(self._readers[name] > 0 for name in self._pack_of)
        return self.most() - MOVED * taken_out - sum(map(self._price, self._operands.values()))

    def _gain(self, pack: Pack) -> float:
        """Return how many instructions dropping a pack saves."""
        found = 1.0 - pack.lanes if pack.is_let else 0.0
        for operand in pack.operands:
            if self._counts[operand.key] == 1:
                found += self._price(operand)
            for name in {*operand.key}:
                if name in self._pack_of and not self._readers[name]:
                    found -= MOVED
        found += MOVED * sum(self._readers[name] > 0 for name in pack.names)
        if pack.names in self._operands:
            found -= MOVED * pack.lanes
        return found

    def _drop(self, pack: Pack) -> None:
        del self.packs[pack]
        for name in pack.names:
            del self._pack_of[name]
        self._by_names.pop(pack.names, None)
        for operand in pack.operands:
            self._counts[operand.key] -= 1
            if not self._counts[operand.key]:
                del self._operands[operand.key]
        for s in pack.statements:
            self._readers.update(set(_reads(s)))
        partner = self._partners.pop(pack, None)
        if partner is not None:
            del self._partners[partner]
            self._drop(partner)

    def drop_unprofitable(self) -> None:
        """Drop packs until each of them is profitable."""
        changed = True
        while changed:
            changed = False
            for pack in list(self.packs):
                if pack in self.packs:
                    partner = self._partners.get(pack)
                    gain = self._gain(pack) + (0.0 if partner is None else self._gain(partner))
                    if gain > 0.0:
                        self._drop(pack)
                        changed = True

    def taken_out(self) -> set[str]:
        """Return the names of scalars of packs that are read as scalars, or into other vectors."""
        found = {name for name in self._pack_of if self._readers[name]}
        for key in self._operands:
            if key not in self._by_names:
                found |= {name for name in key if name in self._pack_of}
        return found

    # -- order --

    def order(self) -> list[Statement | Pack]:
        """Return the statements and packs in an order in which each comes after what it reads. Drops
        packs for which there is none.
        """
        while True:
            found = self._ordered()
            if not isinstance(found, Pack):
                return found
            self._drop(found)
            self.drop_unprofitable()

    def _ordered(self) -> list[Statement | Pack] | Pack:
        """Return the order, or a pack that has to be dropped.

        Everything but `Let` stays in its order; a `Let` comes before its first reader.
        """
        makers: dict[str, Let | Pack] = {**self._lets}
        later = {s.name for s in self._block if isinstance(s, Load | Get | Declare)}
        at: dict[int, Pack] = {}
        """By id of the first `Get` or the last `Assign`, its pack."""
        others: set[int] = set()
        position = {id(s): k for k, s in enumerate(self._block)}
        for pack in self.packs:
            if pack.is_let:
                makers.update(dict.fromkeys(pack.names, pack))
                continue
            ids = sorted([id(s) for s in pack.statements], key=position.__getitem__)
            at[ids[0] if pack.names else ids[-1]] = pack
            others.update(ids[1:] if pack.names else ids[:-1])
        schedule = _Schedule(makers, later)
        for s in self._block:
            if isinstance(s, Let) or id(s) in others:
                continue
            pack = at.get(id(s))
            bad = schedule.need(_reads(s) if pack is None else _scalars(pack))
            if bad is not None:
                return bad
            schedule.add(s if pack is None else pack)
        return schedule.need(self._lets) or schedule.order


@final
class _Schedule:
    """An order of statements and packs, while it is made.

    Args:
        makers: by name, the `Let` or the pack of them that computes it.
        later: names that other statements of the block make, which are not in the order yet.
    """

    def __init__(self, makers: dict[str, Let | Pack], later: set[str]) -> None:
        self._makers, self._later = makers, later
        self._done: set[str] = set()
        self.order: list[Statement | Pack] = []

    def add(self, statement: Statement | Pack) -> None:
        """Add a statement."""
        self.order.append(statement)
        if isinstance(statement, Pack):
            made = statement.names
        else:
            made = (statement.name,) if isinstance(statement, Let | Load | Get | Declare) else ()
        self._done.update(made)
        self._later.difference_update(made)

    def need(self, names: Iterable[str]) -> Pack | None:
        """Add what computes names; returns a pack that cannot be computed here."""
        stack: list[tuple[Let | Pack, list[str]]] = []
        open_: set[int] = set()
        goals = list(names)
        while True:
            while goals:
                name = goals[-1]
                maker = self._makers.get(name)
                if name in self._done or (maker is None and name not in self._later):
                    goals.pop()
                    continue
                if maker is None or id(maker) in open_:
                    return next(x for x, _ in reversed(stack) if isinstance(x, Pack))
                open_.add(id(maker))
                stack.append((maker, goals))
                goals = [*_scalars(maker)]
            if not stack:
                return None
            maker, goals = stack.pop()
            open_.discard(id(maker))
            self.add(maker)


def _cuts(size: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a row's packs: powers of two from ``most`` down to 2."""
    start = 0
    while most > 1:
        while size - start >= most:
            yield start, start + most
            start += most
        most //= 2


def _accesses(
    block: Sequence[Statement], kind: type[Access], placed: Iterable[str]
) -> dict[str, Access]:
    """Return the statements of a kind, by variables that a block accesses once by it, and that
    nothing inside the block accesses.
    """
    own = [s for s in block if isinstance(s, kind)]
    counts = Counter([s.variable for s in own])
    taken = {
        s.variable
        for outer in block
        for inner in blocks_of(outer)
        for s in walk(inner)
        if isinstance(s, Get | Assign)
    }
    taken.update(placed)
    return {s.variable: s for s in own if counts[s.variable] == 1 and s.variable not in taken}
