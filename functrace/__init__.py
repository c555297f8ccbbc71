"""functrace: functional transforms for plain NumPy."""

from functrace.numpy.array import TracedArray as _TracedArray
from functrace.tracing.recording import Recording as _Recording

_Recording.tracer_class = _TracedArray

from functrace.api.differentiate import grad, jvp, linearize, linear_transpose, value_and_grad, vjp  # noqa: E402
from functrace.typing import Array
