"""Type aliases for arguments and results of SciPy's functions.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Numbers: TypeAlias = Any
"""An array, a traced value or a number; traced values have NumPy's attributes and operators."""
Given: TypeAlias = Any
"""An argument that is forwarded to SciPy: name of a method, tolerance, function, SciPy object."""
Found: TypeAlias = Any
"""A result of SciPy, or of the user's function."""
