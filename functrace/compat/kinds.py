"""Type aliases for arguments and results of other libraries.

Layer: 10.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Values: TypeAlias = Any
"""A number, an array, a traced value, or a container of them."""
Given: TypeAlias = Any
"""A forwarded value: arguments of a user's function, an option, an object of the other library."""
