"""``scipy.spatial`` for traced values: its distances. Other names are SciPy's own.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy.spatial import distance
    >>> points = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> ft.grad(lambda p: distance.pdist(p)[0])(points)
    array([[-0.6, -0.8],
           [ 0.6,  0.8]])

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import scipy.spatial

from functrace.scipy.dispatch import scipys
from functrace.scipy.spatial import distance as distance


def __getattr__(name: str) -> Any:
    return scipys(scipy.spatial, name)


def __dir__() -> list[str]:
    return dir(scipy.spatial)
