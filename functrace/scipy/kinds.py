"""What SciPy's functions take and return, by name; SciPy's own annotations say little more.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Numbers: TypeAlias = Any
"""An array, a traced value or a number; traced values have NumPy's attributes and operators."""
Given: TypeAlias = Any
"""What SciPy takes, and is handed as it is: a name of a method, a tolerance, a function, an object of its own."""
Found: TypeAlias = Any
"""What SciPy, or the user's function, returned."""
