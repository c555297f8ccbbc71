"""``torch.autograd.profiler``: parts of profiles, without effect; profiles are refused.

Layer: 9.
"""

from functrace.torch.profiler import profile, record_function

__all__ = ["profile", "record_function"]


def _profiler_enabled() -> bool:
    """Return False."""
    return False
