"""Reader of the pickles in PyTorch's files: it knows tensors, containers, numbers and strings.

A pickle is a program for a small machine. Python's own machine imports and calls what the program
names; this one has no instruction that calls anything but the functions of a fixed table, which
make tensors and containers.

Layer: 9.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, final

from functrace.torch.files.parts import Part
from functrace.torch.tensors.dtypes import NAMES

__all__ = ["Machine", "UnpicklingError"]

UnpicklingError = pickle.UnpicklingError
_KEYS = (str, int, float, bool, bytes, complex, type(None))
_DEPTH = 32
"""Nesting of tuples in keys."""


@final
class Function:
    """A function of the table: what the name of a function in a file stands for."""

    __slots__ = ("call", "is_trusted", "name")

    def __init__(self, name: str, call: Callable[..., Any], is_trusted: bool = False) -> None:
        self.name, self.call, self.is_trusted = name, call, is_trusted

    def __repr__(self) -> str:
        return self.name


@final
class Machine:
    """The machine that runs a pickle.

    Args:
        functions: what may be called or referred to, by module and name, separated by a dot.
        storage: returns the storage that a reference names.
        trusted: classes and functions that the user has declared safe, by name.
    """

    def __init__(
        self,
        functions: dict[str, Any],
        storage: Callable[[Any], Any],
        trusted: dict[str, Any] | None = None,
    ) -> None:
        self.functions = functions
        self.storage = storage
        self.trusted = trusted or {}

    def run(self, data: bytes | memoryview, position: int = 0) -> tuple[Any, int]:
        """Run the pickle that begins at a position.

        Args:
            data: the bytes.
            position: where it begins.

        Returns:
            the object, and the position after the pickle.

        Raises:
            UnpicklingError: if it is damaged, or holds anything but data.
        """
        try:
            return _Run(self, memoryview(data), position).loop()
        except UnpicklingError:
            raise
        except (
            ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError,
            TypeError, UnicodeError, ValueError, struct.error,
        ) as error:  # fmt: skip
            raise UnpicklingError(
                f"the file is damaged, or was not written by torch.save: {error}"
            ) from error

    def named(self, name: str) -> Any:
        """Return what a name of the file stands for.

        Raises:
            UnpicklingError: if it is not in the table.
        """
        found = self.functions.get(name)
        if found is not None:
            return found
        if name in self.trusted:
            return Function(name, self.trusted[name], is_trusted=True)
        if name.startswith("torch.") and name.count(".") == 1:
            known = NAMES.get(name.removeprefix("torch."))
            if known is not None:
                return known
        raise UnpicklingError(
            f"Weights only load failed: the file refers to {name}, which is neither a tensor, a "
            "container nor a number\n"
            "fix: in PyTorch, save a state_dict, without objects of other classes; or, if the file "
            "is yours, declare the class safe: torch.serialization.add_safe_globals([cls])"
        )


@final
class _Run:
    """One run: stack, marks and memo."""

    def __init__(self, machine: Machine, data: memoryview, position: int) -> None:
        self.machine = machine
        self.data = data
        self.at = position
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> memoryview:
        """Return the next bytes."""
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise UnpicklingError("the file is truncated: its pickle ends too early")
        part = self.data[self.at : end]
        self.at = end
        return part

    def number(self, form: str) -> int:
        """Return the next number, of a form of ``struct``."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """Return the next line."""
        end = self.at
        limit = min(len(self.data), end + 4096)
        while end < limit and self.data[end] != 10:
            end += 1
        if end == limit:
            raise UnpicklingError("the file is truncated: its pickle ends too early")
        text = bytes(self.data[self.at : end]).decode("utf-8")
        self.at = end + 1
        return text

    def pop(self) -> Any:
        """Return the top of the stack."""
        if not self.stack or (self.marks and len(self.stack) <= self.marks[-1]):
            raise UnpicklingError("the pickle takes an object from an empty stack")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Return the objects above the last mark."""
        if not self.marks:
            raise UnpicklingError("the pickle has no mark where it needs one")
        place = self.marks.pop()
        found = self.stack[place:]
        del self.stack[place:]
        return found

    def top(self) -> Any:
        """Return the top of the stack, and leave it there."""
        if not self.stack or (self.marks and len(self.stack) <= self.marks[-1]):
            raise UnpicklingError("the pickle reads an object of an empty stack")
        return self.stack[-1]

    def loop(self) -> tuple[Any, int]:
        """Run the instructions up to the last."""
        while True:
            code = self.take(1)[0]
            if code == 0x2E:  # STOP
                return self.pop(), self.at
            instruction = _INSTRUCTIONS.get(code)
            if instruction is None:
                raise UnpicklingError(f"the pickle has the instruction {bytes([code])!r}")
            instruction(self)

    # -- instructions ------------------------------------------------------------------------------

    def protocol(self) -> None:
        """Check the version of the pickle."""
        version = self.number("B")
        if not 2 <= version <= 5:
            raise UnpicklingError(f"the pickle has protocol {version}")

    def mark(self) -> None:
        """Begin a group."""
        self.marks.append(len(self.stack))

    def drop(self) -> None:
        """Drop the top."""
        self.pop()

    def put(self, number: int) -> None:
        """Note the top under a number."""
        self.memo[number] = self.top()

    def get(self, number: int) -> None:
        """Push what was noted."""
        if number not in self.memo:
            raise UnpicklingError(f"the pickle refers to object {number}, which there is not")
        self.stack.append(self.memo[number])

    def name(self) -> None:
        """Push what a name of two lines stands for."""
        module, name = self.line(), self.line()
        self.push_named(module, name)

    def name_of_stack(self) -> None:
        """Push what a name of two strings stands for."""
        name, module = self.pop(), self.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise UnpicklingError("the pickle has a name that is no string")
        self.push_named(module, name)

    def push_named(self, module: str, name: str) -> None:
        """Push what a name stands for."""
        module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
        self.stack.append(self.machine.named(f"{module}.{name}"))

    def refer(self) -> None:
        """Push a storage."""
        self.stack.append(self.machine.storage(self.pop()))

    def call(self) -> None:
        """Call a function of the table."""
        arguments, function = self.pop(), self.pop()
        if type(function) is not Function or type(arguments) is not tuple:
            raise UnpicklingError(f"the pickle calls {type(function).__name__}")
        self.stack.append(function.call(*arguments))

    def make(self) -> None:
        """Make an object of a class that was declared safe, without calling ``__init__``."""
        arguments, function = self.pop(), self.pop()
        if type(function) is not Function or type(arguments) is not tuple:
            raise UnpicklingError(f"the pickle makes an object of {type(function).__name__}")
        if function.is_trusted and isinstance(function.call, type):
            made: Any = function.call
            self.stack.append(made.__new__(made, *arguments))
        else:
            self.stack.append(function.call(*arguments))

    def build(self) -> None:
        """Set the attributes of an object."""
        state: Any = self.pop()
        obj: Any = self.top()
        kind: Any = type(obj)
        if kind is OrderedDict and type(state) is dict:
            for name, value in state.items():
                if not isinstance(name, str) or hasattr(OrderedDict, name):
                    raise UnpicklingError(f"the pickle sets the attribute {name!r} of a dict")
                setattr(obj, name, value)
            return
        if kind not in [x for x in self.machine.trusted.values() if isinstance(x, type)]:
            raise UnpicklingError(f"the pickle sets attributes of {type(obj).__name__}")
        if hasattr(obj, "__setstate__"):
            obj.__setstate__(state)
        else:
            vars(obj).update(state)

    def append(self) -> None:
        """Append to a list."""
        item = self.pop()
        self._list().append(item)

    def extend(self) -> None:
        """Append a group to a list."""
        items = self.pop_to_mark()
        self._list().extend(items)

    def _list(self) -> list[Any]:
        found = self.top()
        if type(found) is not list:
            raise UnpicklingError(f"the pickle appends to {type(found).__name__}")
        return found

    def add(self) -> None:
        """Add a group to a set."""
        items, found = self.pop_to_mark(), self.top()
        if type(found) is not set:
            raise UnpicklingError(f"the pickle adds to {type(found).__name__}")
        for item in items:
            found.add(_key(item))

    def set_item(self) -> None:
        """Set an item of a dict."""
        value, key = self.pop(), self.pop()
        self._dict()[_key(key)] = value

    def set_items(self) -> None:
        """Set a group of items of a dict."""
        items = self.pop_to_mark()
        found = self._dict()
        for key, value in zip(items[::2], items[1::2], strict=True):
            found[_key(key)] = value

    def _dict(self) -> dict[Any, Any]:
        found = self.top()
        if type(found) not in (dict, OrderedDict, Counter):
            raise UnpicklingError(f"the pickle sets an item of {type(found).__name__}")
        return found

    def push_group(self, kind: Callable[[list[Any]], Any]) -> None:
        """Push a container of a group."""
        self.stack.append(kind(self.pop_to_mark()))

    def push_tuple(self, count: int) -> None:
        """Push a tuple of the uppermost objects."""
        items = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def push_text(self, form: str) -> None:
        """Push a string."""
        self.stack.append(str(self.take(self.number(form)), "utf-8", "surrogatepass"))

    def push_bytes(self, form: str) -> None:
        """Push bytes."""
        self.stack.append(bytes(self.take(self.number(form))))

    def push_old_text(self, form: str) -> None:
        """Push a string of Python 2."""
        self.stack.append(str(self.take(self.number(form)), "ascii"))

    def push_long(self) -> None:
        """Push an integer of up to 255 bytes."""
        self.stack.append(int.from_bytes(self.take(self.number("B")), "little", signed=True))


def _key(key: Part, depth: int = 0) -> Any:
    """Return a key of a dict or set.

    Raises:
        UnpicklingError: for objects that cannot be one, and for tuples nested too deeply to hash.
    """
    if type(key) is tuple and depth < _DEPTH:
        for part in key:
            _key(part, depth + 1)
    elif not isinstance(key, _KEYS) and type(key).__module__.partition(".")[0] != "functrace":
        raise UnpicklingError(f"the pickle has a key of {type(key).__name__}")
    return key


def _dict_of(items: list[Any]) -> dict[Any, Any]:
    return {_key(k): v for k, v in zip(items[::2], items[1::2], strict=True)}


_INSTRUCTIONS: dict[int, Callable[[_Run], object]] = {
    0x80: _Run.protocol,
    0x95: lambda run: run.take(8),  # FRAME
    0x28: _Run.mark,
    0x30: _Run.drop,
    0x31: _Run.pop_to_mark,
    0x71: lambda run: run.put(run.number("<B")),
    0x72: lambda run: run.put(run.number("<I")),
    0x94: lambda run: run.put(len(run.memo)),
    0x68: lambda run: run.get(run.number("<B")),
    0x6A: lambda run: run.get(run.number("<I")),
    0x63: _Run.name,
    0x93: _Run.name_of_stack,
    0x51: _Run.refer,
    0x52: _Run.call,
    0x81: _Run.make,
    0x62: _Run.build,
    0x4E: lambda run: run.stack.append(None),
    0x88: lambda run: run.stack.append(True),
    0x89: lambda run: run.stack.append(False),
    0x4A: lambda run: run.stack.append(run.number("<i")),
    0x4B: lambda run: run.stack.append(run.number("<B")),
    0x4D: lambda run: run.stack.append(run.number("<H")),
    0x8A: _Run.push_long,
    0x47: lambda run: run.stack.append(run.number(">d")),
    0x58: lambda run: run.push_text("<I"),
    0x8C: lambda run: run.push_text("<B"),
    0x8D: lambda run: run.push_text("<Q"),
    0x54: lambda run: run.push_old_text("<i"),
    0x55: lambda run: run.push_old_text("<B"),
    0x43: lambda run: run.push_bytes("<B"),
    0x42: lambda run: run.push_bytes("<I"),
    0x8E: lambda run: run.push_bytes("<Q"),
    0x5D: lambda run: run.stack.append([]),
    0x7D: lambda run: run.stack.append({}),
    0x8F: lambda run: run.stack.append(set()),
    0x29: lambda run: run.stack.append(()),
    0x6C: lambda run: run.push_group(list),
    0x74: lambda run: run.push_group(tuple),
    0x64: lambda run: run.push_group(_dict_of),
    0x85: lambda run: run.push_tuple(1),
    0x86: lambda run: run.push_tuple(2),
    0x87: lambda run: run.push_tuple(3),
    0x61: _Run.append,
    0x65: _Run.extend,
    0x90: _Run.add,
    0x73: _Run.set_item,
    0x75: _Run.set_items,
}
"""The instructions of pickles that files of tensors have, by their code."""
