"""Containers of modules and of parameters.

Layer: 9.
"""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from functrace.torch.functions.constants import typename
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.parameter import Parameter
from functrace.torch.tensors.tensor import Tensor

T = TypeVar("T")


class Container(Module):
    """Modules by name, given as keywords: the older `ModuleDict`, deprecated."""

    def __init__(self, **kwargs: Module) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _place(length: int, index: Any) -> int:
    """Return an index that may be negative as one that is not."""
    k = operator.index(index)
    if not -length <= k < length:
        raise IndexError(f"index {k} is out of range")
    return k % length


class Sequential(Module):
    """Modules that are called one after the other.

    Args:
        args: the modules, or one ordered dict of them.

    Example:
        >>> import functrace.torch as torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> model(torch.ones(2, 4)).shape, len(model), model[-1]
        (torch.Size([2, 8]), 2, ReLU())
    """

    _modules: dict[str, Any]

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(str(name), module)

    def _name_at(self, index: object) -> str:
        return list(self._modules)[_place(len(self), index)]

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(k): module for k, module in enumerate(modules)}

    def __getitem__(self, index: slice | int) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: slice | int) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._name_at(index)]:
            delattr(self, name)
        self._renumber(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __add__(self, other: object) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: object) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        _check_factor(other)
        return Sequential(*itertools.chain.from_iterable([self] * other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Any:
        _check_factor(other)
        given = list(self)
        return self.extend(itertools.chain.from_iterable([given] * (other - 1)))

    def append(self, module: Module) -> Any:
        """Add a module at the end; returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Add modules at the end; returns the container."""
        for module in list(sequential):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before the one at an index; returns the container.

        The modules behind it must be named by their numbers; those in front keep their names.

        Raises:
            KeyError: for another name behind the index.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        start = index + n if index < 0 else index
        for k in reversed(range(start, n)):
            self._modules[str(k + 1)] = self._modules[str(k)]
        self._modules[str(start)] = module
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove the module at an index; returns it."""
        found = self[key]
        del self[key]
        return found

    def forward(self, input: object) -> Any:
        """Call the modules one after the other."""
        for module in self._modules.values():
            input = module(input)
        return input


def _check_factor(other: object) -> None:
    if not isinstance(other, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(other)}")
    if other <= 0:
        raise ValueError(f"Non-positive multiplication factor {other} for {Sequential}")


def _no_forward(self: object, *args: object) -> Any:
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class ModuleList(Module):
    """A list of modules.

    Args:
        modules: the modules.

    Example:
        >>> import functrace.torch as torch
        >>> layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
        >>> layers
        ModuleList(
          (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
        )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _name_at(self, index: object) -> str:
        return str(_place(len(self), index))

    def __getitem__(self, index: slice | int) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: slice | int) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._name_at(index)]:
            delattr(self, name)
        self._renumber(self._modules.values())

    def _renumber(self, modules: Iterable[Any]) -> None:
        self._modules = {str(k): module for k, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __repr__(self) -> str:
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        lines, first = [], 0
        for _, same in itertools.groupby(texts):
            n = len(list(same))
            text = texts[first].replace("\n", "\n  ")
            last = first + n - 1
            lines.append(f"({first}-{last}): {n} x {text}" if n > 1 else f"({first}): {text}")
            first += n
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at an index."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Module | None) -> Any:
        """Add a module at the end; returns the list."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove the module at an index; returns it."""
        found = self[key]
        del self[key]
        return found

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end; returns the list."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        n = len(self)
        for k, module in enumerate(modules):
            self.add_module(str(n + k), module)
        return self

    forward: Callable[..., Any] = _no_forward


class ModuleDict(Module):
    """A dict of modules.

    Args:
        modules: names and modules.

    Example:
        >>> import functrace.torch as torch
        >>> choices = torch.nn.ModuleDict({"relu": torch.nn.ReLU(), "tanh": torch.nn.Tanh()})
        >>> choices["relu"], "tanh" in choices
        (ReLU(), True)
    """

    def __init__(self, modules: object = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove the module of a name; returns it."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: object) -> None:
        """Add modules, from a mapping or from pairs.

        Raises:
            TypeError: for anything else.
            ValueError: for an element that is no pair.
        """
        for name, module in _pairs(modules, "ModuleDict"):
            self[name] = module

    forward: Callable[..., Any] = _no_forward


def _pairs(given: object, kind: str) -> Iterator[tuple[str, Any]]:
    """Yield names and values of a mapping, or of an iterable of pairs."""
    if not isinstance(given, Iterable):
        plural = "ParametersDict" if kind == "ParameterDict" else kind
        raise TypeError(
            f"{plural}.update should be called with an iterable of key/value pairs, but got "
            f"{type(given).__name__}"
        )
    if isinstance(given, (Mapping, ModuleDict, ParameterDict)):
        yield from given.items()
        return
    for k, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{kind} update sequence element #{k} should be Iterable; is{type(pair).__name__}"
            )
        several: Any = list(pair)
        if len(several) != 2:
            raise ValueError(
                f"{kind} update sequence element #{k} has length {len(several)}; 2 is required"
            )
        yield several[0], several[1]


def _as_parameter(value: object) -> Any:
    """Return a tensor as a parameter, and anything else as it is."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters; tensors become parameters, and other values are kept as they are.

    Args:
        values: the values.

    Example:
        >>> import functrace.torch as torch
        >>> torch.nn.ParameterList([torch.ones(2), torch.ones(2, 3)])
        ParameterList(
            (0): Parameter containing: [torch.float32 of size 2]
            (1): Parameter containing: [torch.float32 of size 2x3]
        )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _name_at(self, index: object) -> str:
        return str(_place(len(self), index))

    def __getitem__(self, index: slice | int) -> Any:
        if isinstance(index, slice):
            made = type(self)()
            for k in range(*index.indices(len(self))):
                made.append(self[k])
            return made
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: int, value: object) -> None:
        setattr(self, self._name_at(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: object) -> Any:
        """Add a value at the end; returns the list."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add values at the end; returns the list.

        Raises:
            TypeError: if ``values`` is no iterable, or is a tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return the values, a line each."""
        return _shown_values(enumerate(self), lambda x: x.dtype)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Raise: a list is not called."""
        raise RuntimeError("ParameterList should not be called.")


def _shown_values(items: Iterable[tuple[Any, Any]], kind: Callable[[Tensor], Any]) -> str:
    """Return values of a container, a line each."""
    lines = []
    for name, value in items:
        if isinstance(value, Tensor):
            size = "x".join(map(str, value.size()))
            first = "Parameter" if isinstance(value, Parameter) else "Tensor"
            text = f"{first} containing: [{kind(value)} of size {size}]"
        else:
            text = f"Object of type: {type(value).__name__}"
        lines.append(f"  ({name}): {text}")
    return "\n".join(lines)


class ParameterDict(Module):
    """A dict of parameters; tensors become parameters, and other values are kept as they are.

    Args:
        parameters: names and values.

    Example:
        >>> import functrace.torch as torch
        >>> weights = torch.nn.ParameterDict({"w": torch.ones(2)})
        >>> weights["w"].requires_grad, list(weights)
        (True, ['w'])
    """

    def __init__(self, parameters: object = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: object) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type "
                f"is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: object) -> None:
        name = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another dict with the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: object = None) -> Any:
        """Return the value of a key, after setting it to a default if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove a key; returns its value."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Remove the newest key; returns it and its value."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: object = None) -> Any:
        """Return the value of a key, or a default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """Return another dict with keys that share a value."""
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Any:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return keys and values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: object) -> None:
        """Add values, from a mapping or from pairs.

        Raises:
            TypeError: for anything else.
            ValueError: for an element that is no pair.
        """
        items = _pairs(parameters, "ParameterDict")
        if isinstance(parameters, dict) and not isinstance(parameters, OrderedDict):
            items = iter(sorted(items))
        for key, value in items:
            self[key] = value

    def extra_repr(self) -> str:
        """Return the values, a line each."""
        return _shown_values(self.items(), typename)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Raise: a dict is not called."""
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        made = other.copy()
        made.update(self)
        return made

    def __ior__(self, other: ParameterDict) -> Any:
        self.update(other)
        return self
