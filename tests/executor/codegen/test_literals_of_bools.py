"""Literals of bools and numbers in one operation, which a parsed text may contain, but no trace."""

from __future__ import annotations

import numpy as np
import pytest

import functrace as ft
from functrace.executor import Runner


@pytest.mark.parametrize(("text", "expected"), [("2.0 True", 2.0), ("True 3", 3), ("2.5 2", 5.0)])
def test_operations_on_a_bool_and_a_number_are_compiled(text, expected):
    dtype = "f64" if isinstance(expected, float) else "i64"
    program = ft.Program.parse(f"f() {{\n  y: {dtype}[] = mul {text}\n  return y\n}}")
    for run in (Runner(program), lambda values: Runner(program).compile()(*values)):
        (found,) = run([])
        assert found == expected and np.asarray(found).dtype == program.outputs[0].aval.dtype
