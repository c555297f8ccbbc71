"""Optimization passes: transform a program into an equal program that does less work.

Layer: 6.
"""

from functrace.passes.constant_folding import fold_constants
from functrace.passes.dce import drop_dead_results
from functrace.passes.inlining import inline_calls
from functrace.passes.pipeline import (
    EARLY,
    LAST,
    LATE,
    PIPELINE,
    REORDERING,
    Pass,
    applied,
    optimized,
    without,
)
from functrace.passes.rematerialize import rematerialize_values
from functrace.passes.sink import sink_operations
from functrace.passes.stable_forms import STABLE_FORMS, StableForm, stable
from functrace.passes.user_passes import UserPass, as_passes

__all__ = [
    "EARLY",
    "LAST",
    "LATE",
    "PIPELINE",
    "REORDERING",
    "STABLE_FORMS",
    "Pass",
    "StableForm",
    "UserPass",
    "applied",
    "as_passes",
    "drop_dead_results",
    "fold_constants",
    "inline_calls",
    "optimized",
    "rematerialize_values",
    "sink_operations",
    "stable",
    "without",
]
