"""Type aliases for arguments and results of SciPy's functions.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Numbers: TypeAlias = Any
"""An array, a traced value or a number; traced values have NumPy's attributes and operators."""
Given: TypeAlias = Any
"""An argument that is forwarded to SciPy: name of a method, tolerance, function, SciPy object."""
Found: TypeAlias = Any
"""A result of SciPy, or of the user's function."""

# NumPy's own types say nothing about operands that may be traced values.
where: Callable[[Any, Any, Any], Any] = np.where
"""``numpy.where`` of three operands."""
cholesky: Callable[[Any], Any] = np.linalg.cholesky
"""``numpy.linalg.cholesky``."""
searchsorted: Callable[[Any, Any], Any] = np.searchsorted
"""``numpy.searchsorted`` from the left."""
np_linalg: Any = np.linalg
"""``numpy.linalg``."""
