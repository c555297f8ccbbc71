"""The examples in docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import sys
import warnings

import pytest

import functrace

NAMES = sorted(found.name for found in pkgutil.walk_packages(functrace.__path__, "functrace."))


OPTIONAL = {
    "jax": ("jax", "distributed", "collectives", "stablehlo"),
    "torch": (">>> import torch", ">>> import numpy as np, functrace as ft, torch"),
}
"""Packages without which some modules cannot be imported, and some examples cannot run: those whose
docstrings have these words."""


def _examples(name: str) -> list[doctest.DocTest]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        return []
    module = sys.modules[name]  # the attribute of that name may be a function
    return [
        test for test in doctest.DocTestFinder(recurse=True).find(module, name) if test.examples
    ]


EXAMPLES = {test.name: test for name in NAMES for test in _examples(name)}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 30


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_its_output(name: str) -> None:
    text = EXAMPLES[name].docstring or ""
    for package, words in OPTIONAL.items():
        if any(word in text for word in words):
            pytest.importorskip(package, reason=f"{package} is not installed")
    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        result = runner.run(EXAMPLES[name], out=told.append, clear_globs=False)
    assert result.attempted and not result.failed, "".join(told)
