"""Settings of the whole test suite: which tests a run takes, and how many examples a law draws.

===============================================  ===================================  ========
command                                          takes                                examples
===============================================  ===================================  ========
``pytest -m quick``                              folders in ``QUICK``, a case per     3
                                                 row
``pytest``                                       all but ``full``: samples of grids   10
``pytest -m "(full or draws) and not release"``  larger samples, and laws once more   25
``pytest -m ""``                                 everything; before a release         40
===============================================  ===================================  ========

A test of many parameters says how many of them the default run takes; the others are ``full``. Of
these, CI takes `CI_SHARE` times as many as the default run; what is left is marked ``release``::

    @pytest.mark.sampled(8)            # one in 8; in CI one in 5
    @pytest.mark.sampled(per="name")   # one for each value of the parameter `name`; in CI all

The choice depends on the parameters' ids only, so it is the same in every process. A quick run
takes one.

``--native`` compiles every program to machine code. Its results are NumPy's up to rounding: the
comparisons of `tests.oracles` then allow for it. Tests that are about NumPy's source are marked
``numpy_source`` and left out. LLVM makes such a run ten times as long; ``--one-in 20`` takes one test
in 20, chosen by its id.
"""

from __future__ import annotations

import gc
import math
import os
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.sampling import MOST_EXAMPLES

TESTS = Path(__file__).parent
QUICK = ("ir", "tracing", "transforms", "laws")
"""Folders whose tests are quick; in ``ALSO_QUICK``, those that are marked by hand."""
ALSO_QUICK = ("test_cases.py",)
CI_SHARE = 1.5
"""Size of CI's sample of a grid, in default samples."""
EXAMPLES = {"quick": 3, "not full": 10, "(full or draws) and not release": 25}
"""Number of examples per law, by the expression of ``-m``; otherwise ``MOST_EXAMPLES``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--native``: programs are compiled to machine code; and ``--one-in``: a sample."""
    parser.addoption("--native", action="store_true", help="compile programs to machine code")
    parser.addoption(
        "--one-in", type=int, default=1, metavar="N", help="take one test in N, chosen by its id"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the one hypothesis profile, which is reproducible; keep object code out of the user's
    directories.
    """
    os.environ["FUNCTRACE_CACHE"] = ""
    if config.getoption("native"):
        compile_everything()
    settings.register_profile(
        "functrace",
        derandomize=True,
        deadline=None,
        max_examples=EXAMPLES.get(config.option.markexpr, MOST_EXAMPLES),
        database=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
        ],
    )
    settings.load_profile("functrace")


def compile_everything() -> None:
    """Compile every ``jit`` without a backend, and every un-jitted transform before its first run."""
    from functrace.api.staging import background, jitted
    from functrace.executor import config, runner

    chosen = jitted.chosen_backend
    jitted.chosen_backend = lambda name, *rest, **options: chosen(
        name or "native", *rest, **options
    )
    config.CONFIG.native, runner.OFTEN = True, 1
    background.COMPILER.submit = lambda job: job()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing else for the quick tests."""
    if config.option.markexpr != "quick" or TESTS not in collection_path.parents:
        return None
    return collection_path.relative_to(TESTS).parts[0] not in QUICK + ALSO_QUICK or None


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no items of what no quick run takes."""
    if collector.config.option.markexpr == "quick" and collector.path.name in ALSO_QUICK:
        marks = getattr(obj, "pytestmark", [])
        return None if any(mark.name == "quick" for mark in marks) else []
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark ``full``, ``release``, ``quick`` and ``draws``, by which pytest selects afterwards."""
    groups: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if is_marked(item, "sampled") and not is_marked(item, "full"):
            assert isinstance(item, pytest.Function) and hasattr(item, "callspec"), item.nodeid
            groups[item.nodeid.partition("[")[0]].append(item)
    for group in groups.values():
        kept = group[:1] if config.option.markexpr == "quick" else sample(group)
        for item in set(group).difference(kept):
            item.add_marker(pytest.mark.full)
        for item in set(group).difference(kept, sample(group, CI_SHARE)):
            item.add_marker(pytest.mark.release)
    for item in items:
        if is_marked(item, "release"):
            item.add_marker(pytest.mark.full)
        if item.path.relative_to(TESTS).parts[0] in QUICK:
            item.add_marker(pytest.mark.quick)
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker(pytest.mark.draws)
    if config.option.markexpr == "quick":
        items[:] = [item for item in items if not is_marked(item, "full")]
    if config.getoption("native"):
        items[:] = [item for item in items if not is_marked(item, "numpy_source")]
    interval = config.getoption("one_in")
    if interval > 1:
        items[:] = [x for x in items if zlib.crc32(x.nodeid.encode()) % interval == 0]


def is_marked(item: pytest.Item, name: str) -> bool:
    return item.get_closest_marker(name) is not None


def sample(group: list[pytest.Function], share: float = 1) -> list[pytest.Function]:
    """Return the items of one test function in a run, as its marker ``sampled`` says; ``share``
    times as many as in the default run.
    """
    marker = group[0].get_closest_marker("sampled")
    assert marker is not None
    ordered = sorted(group, key=lambda item: zlib.crc32(item.callspec.id.encode()))
    if marker.args:
        (interval,) = marker.args
        return ordered[: math.ceil(share * len(group) / interval)]
    if share > 1:
        return group
    first = {item.callspec.indices[marker.kwargs["per"]]: item for item in reversed(ordered)}
    return list(first.values())


def pytest_collection_finish() -> None:
    """Take what there is (some ten thousand tests) out of the garbage collector's sight: many tests
    call it.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _kept_in_caches() -> Iterator[None]:
    """Likewise for what the tests of a file leave behind."""
    yield
    gc.collect()
    gc.freeze()
