"""Phases of first calls: what is counted for which phase, and by whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import functrace as ft
from functrace import phases
from functrace.phases import PHASES, PhaseClock, phase


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every reading of the clock be one second later."""
    times = iter(range(1000))
    monkeypatch.setattr(phases, "perf_counter", lambda: float(next(times)))
    yield


@pytest.mark.usefixtures("ticks")
def test_inner_phases_do_not_count_for_outer_ones() -> None:
    with PhaseClock() as clock:
        with phase("plan"):  # 0
            with phase("passes"):  # 1
                pass  # 2
            with phase("plan"):  # 3
                pass  # 4
        # 5: nothing until the next phase
        with phase("record"):  # 6
            pass  # 7
    assert clock.seconds == {"record": 1.0, "passes": 1.0, "plan": 4.0, "code": 0.0, "llvm": 0.0}


@pytest.mark.usefixtures("ticks")
def test_a_phase_ends_with_an_exception() -> None:
    with PhaseClock() as clock:
        with pytest.raises(ZeroDivisionError), phase("plan"), phase("passes"):
            raise ZeroDivisionError
        with phase("code"):
            pass
    assert clock.seconds == {"record": 0.0, "passes": 1.0, "plan": 2.0, "code": 1.0, "llvm": 0.0}


def test_nothing_is_measured_outside_of_a_clock_or_in_another_thread() -> None:
    def compiled() -> None:
        ft.jit(lambda x: np.sin(x) * 2.0)(1.0)

    compiled()
    with PhaseClock() as outer:
        thread = threading.Thread(target=compiled)
        thread.start()
        thread.join()
        with PhaseClock() as inner:
            compiled()
    assert set(outer.seconds.values()) == {0.0}
    assert [name for name in PHASES if inner.seconds[name]] == ["record", "passes", "plan", "code"]
    assert phase("plan") is phase("code")  # no clock is left


def test_a_call_that_compiles_nothing_has_no_phases() -> None:
    f = ft.jit(lambda x: np.sin(x) * 2.0)
    f(1.0)
    with PhaseClock() as clock:
        f(2.0)
    assert set(clock.seconds.values()) == {0.0}


def test_machine_code_has_all_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite", reason='the extra "native" is not installed')
    monkeypatch.setenv("FUNCTRACE_CACHE", "")
    f = ft.jit(ft.grad(lambda x: np.sum(np.sin(x) ** 2)), backend="native")
    with PhaseClock() as clock:
        f(np.ones(5))
    assert all(clock.seconds[name] > 0.0 for name in PHASES)
