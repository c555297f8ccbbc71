"""Types that custom rules with ``symbolic_zeros=True`` receive: ``SymbolicZero``,
``CustomVJPPrimal``.

Layer: 8 (api).
"""

from functrace.api.custom_rules.rules import CustomVJPPrimal, SymbolicZero

__all__ = ["CustomVJPPrimal", "SymbolicZero"]
