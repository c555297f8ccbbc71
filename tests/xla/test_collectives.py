"""The report of collectives, from texts of modules; `eight_devices` has compiled programs."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("jax", reason="jax is not installed")

from functrace.errors import ArgumentError
from functrace.xla.collectives import Collectives, collectives_of

MESH = {"data": 4, "model": 2}
MODULE = """HloModule jit_f, num_partitions=8

%body.1 (p: (s64[], f64[4])) -> (s64[], f64[4]) {
  %p = (s64[], f64[4]{0}) parameter(0)
  @LINE
}

%condition.1 (p.1: (s64[], f64[4])) -> pred[] {
  ROOT %c = pred[] compare(%a, %b), direction=LT
}

ENTRY %main (x: f64[4]) -> f64[4] {
  @MAIN
}
"""


def report(line: str, *, loop: str = "", mesh: dict[str, int] = MESH) -> Collectives:
    """Return the report on one line, in the entry or in a loop."""
    inside = f"%w = (s64[], f64[4]) while(%t), condition=%condition.1, body=%body.1{loop}"
    text = MODULE.replace("@LINE", line).replace("@MAIN", inside if loop else line)
    return collectives_of("f", text, mesh, 8000)


@pytest.mark.parametrize(
    ("groups", "axes", "devices"),
    [
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", ("model",), 2),
        ("replica_groups={{0,2,4,6},{1,3,5,7}}", ("data",), 4),
        ("replica_groups=[4,2]<=[8]", ("model",), 2),
        ("replica_groups=[2,4]<=[4,2]T(1,0)", ("data",), 4),
        ("replica_groups=[1,8]<=[8]", ("data", "model"), 8),
        ("replica_groups={}", ("data", "model"), 8),
        ("replica_groups=mesh['a'=4,'b'=2] {'a'}", ("data",), 4),
        ("replica_groups=mesh['a'=4,'b'=2] {'a','b'}", ("data", "model"), 8),
        ("replica_groups=mesh['a'=4,'b'=2] {'a':(2)2}", ("data",), 2),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", ("data",), 4),
        ("replica_groups={{0,2},{4,6},{1,3},{5,7}}", ("data",), 2),
        ("replica_groups={{0,3},{1,2},{4,7},{5,6}}", ("data", "model"), 2),
        ("replica_groups=some_new_form", (), 8),
    ],
)
def test_groups_are_rows_of_the_mesh(groups: str, axes: tuple[str, ...], devices: int) -> None:
    line = f"%a = f64[16]{{0}} all-reduce(%x), channel_id=1, {groups}, use_global_device_ids=true"
    (row,) = report(line).rows
    assert (row.axes, row.devices, row.bytes) == (axes, devices, 128)
    assert row.sent == pytest.approx(2 * 128 * (devices - 1) / devices)


@pytest.mark.parametrize(
    ("kind", "types", "size", "sent"),
    [
        ("all-reduce", "(f64[], f32[4,2]{1,0}, pred[3])", 43, 43.0),
        ("all-gather", "bf16[16,2]", 64, 32.0),
        ("all-gather-start", "(f32[8], f32[16])", 64, 32.0),
        ("reduce-scatter", "f32[8]", 32, 32.0),
        ("all-to-all", "(c128[2], c128[2])", 64, 32.0),
        ("collective-permute-start", "(s4[10], s4[10], u32[], u32[])", 5, 5.0),
    ],
)
def test_bytes_of_kinds(kind: str, types: str, size: int, sent: float) -> None:
    (row,) = report(f"%a = {types} {kind}(%x), replica_groups=[4,2]<=[8]").rows
    assert (row.kind, row.bytes, row.sent) == (kind.removesuffix("-start"), size, sent)


def test_loops_multiply() -> None:
    line = "%a = f64[4] all-reduce(%x), replica_groups=[1,8]<=[8]"
    known = report(line, loop=', backend_config={"known_trip_count":{"n":"5"}}')
    assert known.rows[0].runs == 5 and known.sent == 5 * 2 * 32 * 7 / 8
    assert not known.has_unknown_loops
    unknown = report(line, loop=" ")
    assert unknown.rows[0].runs == 1 and unknown.has_unknown_loops
    assert "unknown length" in unknown.text()


def test_estimate() -> None:
    found = report("%a = f64[16] all-reduce(%x), replica_groups=[1,8]<=[8]")
    assert found.flops_per_device == 1000 and found.balance == 1000 / (2 * 128 * 7 / 8)
    compute, communicate = found.seconds(flops=1e9, network=1e9 / found.balance)
    assert math.isclose(compute, communicate)
    assert report("%a = f64[4] add(%x, %y)").balance == math.inf


def test_other_number_of_devices() -> None:
    with pytest.raises(ArgumentError, match="8 devices, but the mesh has 4"):
        report("", mesh={"data": 4})


def test_text_of_the_report() -> None:
    text = report("%a = f64[1000] all-reduce(%x), replica_groups=[1,8]<=[8]").text()
    assert text.splitlines()[:3] == [
        "f over data=4, model=2: 1 collectives",
        "  kind        axes        devices  runs  bytes  sent per device",
        "  all-reduce  data,model  8        1     8 kB   14 kB",
    ]
