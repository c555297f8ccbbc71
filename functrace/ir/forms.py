"""The forms of a program, each in a file of its own, loaded when one is first asked for: what `Program`'s methods call.

They know programs; so that programs need not know them, this module is handed to `Program` from outside.

Floor: 0.
"""

from __future__ import annotations

import importlib
from typing import Any

_FILES = {
    "equation_text": "text",
    "program_text": "text",
    "parse_program": "parse",
    "program_to_json": "serial",
    "constant_array": "serial",
    "without_repeats": "serial",
    "save_program": "serial",
    "program_from_json": "load",
    "load_program": "load",
    "program_source": "numpy_source",
    "program_dot": "pictures",
    "program_html": "pictures",
    "table": "pictures",
    "check_program": "check",
    "program_cost": "cost",
}


def __getattr__(name: str) -> Any:
    """Load the function of this name."""
    if name not in _FILES:
        raise AttributeError(f"functrace.ir.forms has no {name}")
    found = globals()[name] = getattr(importlib.import_module(f"functrace.ir.{_FILES[name]}"), name)
    return found
