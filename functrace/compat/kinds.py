"""What the functions of other libraries take and return, by name; those libraries' own annotations say little more.

Layer: 10.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Values: TypeAlias = Any
"""A number, an array, a traced value, or a container of them."""
Given: TypeAlias = Any
"""What is handed on as it is: arguments of a user's function, an option, an object of the other library."""
