"""The benchmarks' reports. The figures are made up: times are not compared here."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from benchmarks import jit_compile
from benchmarks.machine import DISTURBING, environment, header, machine
from benchmarks.outcome import (
    Outcome,
    geometric_means,
    means_table,
    show_bytes,
    show_seconds,
    table,
)
from benchmarks.work import BEST, CALLS, NATIVE, OWN_FIRST, SYSTEMS, XLA, Target, Work, check_equal
from benchmarks.works import WORKS


def samples(first: float, later: float) -> dict[str, list[float]]:
    return {
        "first": [first] * 3,
        "second": [2 * later],
        "tenth": [],
        "later": [later / 2, later, later * 9],
    }


def outcome(name: str, targets: tuple[Target, ...] = (), **seconds: float) -> Outcome:
    """A work whose systems take so long, and ten times as long at the first call."""
    work = Work(name, "made up", {}, targets)
    return Outcome(work, {system: samples(10 * later, later) for system, later in seconds.items()})


def test_ratios_are_of_medians_of_the_same_call() -> None:
    found = outcome("jit-a", functrace=2.0, numpy=0.1, jax=4.0, torch=8.0)
    assert (found.best_peer(), found.ratio(BEST), found.ratio("torch")) == ("jax", 0.5, 0.25)
    assert found.ratio("jax", "first") == 0.5
    assert found.ratio("autograd") is None
    assert found.ratio(BEST, "tenth") is None
    assert found.ratio(OWN_FIRST, "second") == 4.0 / 20.0


def test_a_target_is_reached_or_not_or_not_measured() -> None:
    targets = (
        Target(0.5, "jax"),
        Target(0.4, "jax"),
        Target(1.0, "autograd"),
        Target(1.0, OWN_FIRST, "second"),
        Target(1.0, "torch", plus=1.0),
        Target(1.9, None),
    )
    found = outcome("jit-a", targets, functrace=2.0, jax=4.0, torch=1.0)
    assert [met for _, _, met in found.verdicts()] == [True, False, None, True, True, False]
    shown = table([found])
    assert shown.count("NOT MET") == 2
    assert "later less 1 s: 1.00 x torch <= 1: met" in shown


def test_means_are_geometric_by_group_and_peer() -> None:
    found = [
        outcome("jit-a", functrace=1.0, jax=4.0),
        outcome("jit-b", functrace=1.0, jax=1.0, torch=0.5),
        outcome("eager-a", functrace=3.0, torch=1.0),
    ]
    means = geometric_means(found)
    assert means["jit"]["jax"] == (pytest.approx(0.5), 2)
    assert means["jit"]["torch"] == (pytest.approx(2.0), 1)
    assert means["jit"][BEST][0] == pytest.approx(math.sqrt(0.25 * 2.0))
    assert means["eager"] == {"torch": (pytest.approx(3.0), 1), BEST: (pytest.approx(3.0), 1)}
    assert "0.50 of 2" in means_table(found)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (0.0152, "15.2 ms"), (2e-9, "2 ns"), (1500.0, "1500 s")]
)
def test_times_are_shown_in_three_digits(seconds: float | None, text: str) -> None:
    assert show_seconds(seconds) == text
    assert show_bytes(3 << 19) == "1.5 MiB"


def test_systems_that_disagree_are_not_timed() -> None:
    work = Work("jit-a", "made up", {}, rtol=1e-6)
    check_equal(work, {"numpy": (1.0, [2.0]), "jax": [1.0, 2.0 + 1e-9]})
    with pytest.raises(AssertionError, match="jax and numpy compute different numbers"):
        check_equal(work, {"numpy": (1.0, [2.0]), "jax": [1.0, 2.1]})


def test_children_run_without_disturbing_variables_and_the_header_lists_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in DISTURBING:
        monkeypatch.setenv(name, "1")
    assert not set(DISTURBING) & set(environment())
    head = header(machine())
    assert all(f"{name}=1" in head for name in DISTURBING)


def test_works_are_of_known_systems() -> None:
    for name, work in WORKS.items():
        assert name == work.id
        assert "functrace" in work.systems
        assert set(work.systems) <= set(SYSTEMS)
        for target in work.targets:
            assert target.against in (None, BEST, OWN_FIRST, *work.systems)
            assert target.call in CALLS


def calls(total: float, jax: float) -> jit_compile.Found:
    """First calls of all systems: medians are ``total`` and ``jax`` seconds."""
    own = {"record": 0.001, "passes": 0.002, "plan": 0.003, "code": 0.004, "llvm": 0.005}
    other = {"trace": 0.006, "compile": 0.007}
    return {
        NATIVE: [{**own, "total": total * k} for k in (9.0, 1.0, 0.5)],
        XLA: [{**own, "trace": 0.002, "compile": 0.008, "total": 2.0 * total}],
        "jax": [{**other, "total": jax * k} for k in (1.0, 8.0, 0.1)],
    }


def test_first_calls_have_their_phases_and_a_mean() -> None:
    result = {"jit-a": calls(1.0, 4.0), "jit-b": calls(1.0, 1.0), "jit-c": "jax is not installed"}
    assert jit_compile.mean(result) == pytest.approx(0.5)
    shown = jit_compile.show(result)
    row = next(line for line in shown.splitlines() if line.startswith("jit-a"))
    assert " ".join(row.split()) == (
        "jit-a 1 ms 5 ms 4 ms 5 ms 1 s 0.25 1 ms 2 ms 2 ms 8 ms 2 s 6 ms 7 ms 4 s 0.50"
    )
    assert "record and rows: 0.50 x jax's trace <= 0.6: met" in shown
    assert "geometric mean: 0.50 x jax <= 0.5: met" in shown
    assert "skipped: jax is not installed" in shown
    assert "0.51 x jax <= 0.5: NOT MET" in jit_compile.show({"jit-a": calls(0.51, 1.0)})
    assert jit_compile.show({"jit-c": "jax is not installed"}) == "skipped: jax is not installed"


def test_every_work_that_both_systems_jit_has_its_first_call_measured() -> None:
    found = jit_compile.works()
    assert {name for name in WORKS if name.startswith("jit-")} == set(found)
    assert all({NATIVE, "jax"} <= set(work.systems) for work in found.values())


def test_first_calls_compile_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite", reason='the extra "native" is not installed')
    prepare = WORKS["jit-rosen"].systems[NATIVE]
    for variable in (None, "", "elsewhere"):
        if variable is None:
            monkeypatch.delenv("FUNCTRACE_CACHE", raising=False)
        else:
            monkeypatch.setenv("FUNCTRACE_CACHE", variable)
        found = jit_compile.of_functrace(prepare)
        assert min(found.values()) > 0.0
        assert sum(found.values()) <= 2 * found["total"]  # (phases, and the total)
        assert os.environ.get("FUNCTRACE_CACHE") == variable


@pytest.mark.full
def test_first_calls_of_both_systems_are_measured() -> None:
    pytest.importorskip("llvmlite", reason='the extra "native" is not installed')
    pytest.importorskip("jax", reason='the extra "bench" is not installed')
    found = jit_compile.measured(thorough=False, ids=["jit-rosen"])
    first = found["jit-rosen"]
    assert not isinstance(first, str)
    for system, columns in jit_compile.COLUMNS.items():
        assert len(first[system]) == 3
        for call in first[system]:
            assert {name for phases in columns for name in phases} <= set(call)
            assert sum(call.values()) <= 2 * call["total"]
    assert "jit-rosen" in jit_compile.show(found)


@pytest.mark.full
def test_a_report_is_written_with_its_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason='the extra "bench" is not installed')
    from benchmarks import report

    found = outcome("jit-rosen", functrace=1e-5, numpy=2e-5, jax=2e-6, torch=1e-4)
    found.peaks = {"functrace": 1 << 20, "jax": 1 << 24}
    roof = dict.fromkeys(("memory_bytes_per_second", "cache_bytes_per_second"), 1e10)
    roof |= dict.fromkeys(("float32_flops_per_second", "float64_flops_per_second"), 1e11)
    point = {
        "seconds": 1e-3, "watched": 2e-3, "flops": 1000, "bytes": 8000, "peak_bytes": 10,
        "operations": 3,
        "dtype": "float64", "longest": [["mul", 0.5]],
    }  # fmt: skip
    data = {
        "machine": machine(), "works": [found.as_json()], "roofline": {"roof": roof,
        "works": {"jit-rosen": point}},
        "jit-compile": {"jit-rosen": calls(0.1, 0.3)},
        "note": "Made up.",
    }  # fmt: skip
    page = report.write(json.loads(json.dumps(data)), tmp_path / "here")
    text = page.read_text(encoding="utf-8")
    assert "Made up." in text
    assert "geometric mean: 0.33 x jax" in text
    assert "jit-rosen" in text
    pictures = {path.name for path in page.parent.glob("*.png")}
    assert pictures == {"ratios.png", "calls.png", "memory.png", "roofline.png"}
    assert all(f"]({name})" in text for name in pictures)
    before = text
    report.main([str(page.parent)])
    assert page.read_text(encoding="utf-8") == before
