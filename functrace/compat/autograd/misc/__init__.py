"""``autograd.misc``: containers as vectors, optimizers, fixed points.

Layer: 10.
"""

from functrace.compat.autograd.misc.flatten import flatten
from functrace.compat.autograd.misc.tracers import const_graph

__all__ = ["const_graph", "flatten"]
