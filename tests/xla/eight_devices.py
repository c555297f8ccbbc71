"""Checks of functions on eight devices, which run in a process of their own.

``python -m tests.xla.eight_devices`` runs all functions ``check_*`` and prints, as JSON, the
traceback of each that fails. `test_sharding` starts it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import functrace as ft

DEVICES = 8
EPS = float(np.finfo(float).eps)
TOLERANCE = 100 * EPS
"""Share of the largest value, for other orders of summation."""


def data(rows: int = 64) -> tuple[dict[str, Any], Any, Any]:
    """Return parameters, inputs and labels of a small network."""
    rng = np.random.default_rng(0)
    params = {
        "hidden": (rng.normal(size=(16, 32)) / 4, rng.normal(size=32)),
        "out": {"w": rng.normal(size=(32, 8)) / 6, "b": np.zeros(8)},
    }
    return params, rng.normal(size=(rows, 16)), np.eye(8)[rng.integers(0, 8, rows)]


def loss(params: Any, x: Any, y: Any) -> Any:
    """Return the mean cross entropy of a network with one hidden layer."""
    w, b = params["hidden"]
    z = np.tanh(x @ w + b) @ params["out"]["w"] + params["out"]["b"]
    z = z - np.max(z, axis=-1, keepdims=True)
    return -np.mean(np.sum(y * (z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))), axis=-1))


def close(found: Any, wanted: Any, tolerance: float = TOLERANCE) -> None:
    """Assert that two pytrees are equal up to a share of each array's largest value."""
    (a, one), (b, other) = ft.tree.flatten(found), ft.tree.flatten(wanted)
    assert one == other, (one, other)
    for x, y in zip(a, b, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape and x.dtype == y.dtype, (x.dtype, y.dtype, x.shape, y.shape)
        assert np.max(np.abs(x - y), initial=0.0) <= tolerance * np.max(np.abs(y), initial=EPS)


def shardings(*specs: Any, shape: tuple[int, ...] = (8,), names: Any = "data") -> list[Any]:
    """Return shardings over a mesh, by their partition specs."""
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = ft.distributed.mesh(shape, names)
    return [NamedSharding(mesh, PartitionSpec(*spec)) for spec in specs]


def compiled_text(f: Any, *args: Any, **options: Any) -> str:
    """Return the module of a function as XLA compiled it."""
    from functrace.xla.program import XlaBackend

    shapes: list[Any] = []

    def noted(*args: Any) -> Any:
        shapes.append(result := f(*args))
        return result

    program = ft.trace(noted)(*args)
    tree = ft.tree.structure((args, {}))
    made: Any = XlaBackend(**options).compiled(program, (), tree, ft.tree.structure(shapes[0]))
    return made.staged().compile().as_text()


def count(text: str, kind: str) -> int:
    """Return how often a collective is in a module."""
    return len(re.findall(rf" {kind}(?:-start)?\(", text))


def check_data_parallel_gradients() -> None:
    everywhere, rows = shardings((), ("data",))
    args = data()
    step = ft.value_and_grad(loss)
    options = {"in_shardings": (everywhere, rows, rows), "out_shardings": everywhere}
    found = ft.jit(step, backend="xla", keep_on_device=True, **options)(*args)
    assert all(x.sharding == everywhere for x in ft.tree.leaves(found))
    close(ft.tree.map(np.asarray, found), step(*args))
    assert 1 <= count(compiled_text(step, *args, **options), "all-reduce") <= 5


def check_results_are_numpys_by_default() -> None:
    everywhere, rows = shardings((), ("data",))
    args = data()
    found = ft.jit(ft.grad(loss), backend="xla", in_shardings=(everywhere, rows, rows))(*args)
    assert all(type(x) is np.ndarray for x in ft.tree.leaves(found))
    close(found, ft.grad(loss)(*args))


def check_tensor_parallel_products() -> None:
    """Columns of the first matrix and rows of the second are divided: one sum at the end."""
    everywhere, columns, rows = shardings((), (None, "model"), ("model",), names="model")
    rng = np.random.default_rng(1)
    x, w, v = rng.normal(size=(4, 16)), rng.normal(size=(16, 64)), rng.normal(size=(64, 8))

    def f(x: Any, w: Any, v: Any) -> Any:
        h = np.tanh(x @ w)
        return h @ v, h

    options: dict[str, Any] = {
        "in_shardings": (everywhere, columns, rows),
        "out_shardings": (everywhere, columns),
    }
    found = ft.jit(f, backend="xla", keep_on_device=True, **options)(x, w, v)
    assert [y.sharding for y in found] == [everywhere, columns]
    assert found[1].addressable_shards[0].data.shape == (4, 8)
    close(ft.tree.map(np.asarray, found), f(x, w, v))
    text = compiled_text(f, x, w, v, **options)
    assert count(text, "all-reduce") == 1 and count(text, "all-gather") == 0


def check_two_axes() -> None:
    """Batch over one axis, matrices over the other."""
    params, x, y = data()
    both: dict[str, Any] = {"shape": (4, 2), "names": ("data", "model")}
    everywhere, rows, columns, model = shardings((), ("data",), (None, "model"), ("model",), **both)
    placed = {"hidden": (columns, model), "out": {"w": model, "b": everywhere}}
    step = ft.value_and_grad(loss)
    run = ft.jit(
        step,
        backend="xla",
        in_shardings=(placed, rows, rows),
        out_shardings=(everywhere, placed),
        keep_on_device=True,
    )
    value, slope = run(params, x, y)
    assert ft.tree.map(lambda g: g.sharding, slope) == placed
    close(
        (float(value), ft.tree.map(np.asarray, slope)), ft.tree.map(lambda x: x, step(params, x, y))
    )


def check_per_example_gradients() -> None:
    everywhere, rows = shardings((), ("data",))
    params, x, y = data()
    each = ft.vmap(ft.grad(loss), in_axes=(None, 0, 0))
    options = {"in_shardings": (everywhere, rows, rows), "out_shardings": rows}
    found = ft.jit(each, backend="xla", keep_on_device=True, **options)(params, x, y)
    assert all(g.sharding == rows for g in ft.tree.leaves(found))
    close(ft.tree.map(np.asarray, found), each(params, x, y))
    text = compiled_text(each, params, x, y, **options)
    assert not re.search(r"all-reduce|all-gather|all-to-all|collective-permute", text)


def check_arguments_on_devices_keep_their_shardings() -> None:
    """Without in_shardings, arrays of JAX and NumPy are mixed."""
    _, rows = shardings((), ("data",))
    params, x, y = data()
    on = ft.distributed.global_array({"x": x, "y": y}, rows)
    run = ft.jit(ft.value_and_grad(loss), backend="xla", keep_on_device=True)
    close(
        ft.tree.map(np.asarray, run(params, on["x"], on["y"])),
        ft.value_and_grad(loss)(params, x, y),
    )
    assert run(params, x, y)[0].sharding.num_devices == 1
    assert run.cache_info().misses == 1


def check_constants_and_static_arguments() -> None:
    _, rows = shardings((), ("data",))
    rng = np.random.default_rng(2)
    x, table = rng.normal(size=(8, 64)), rng.normal(size=(64, 64))

    def f(power: int, x: Any) -> Any:
        return (x @ table) ** power

    for given in ((None, rows), (rows,)):
        run = ft.jit(
            f,
            backend="xla",
            static_argnums=0,
            in_shardings=given,
            out_shardings=rows,
            keep_on_device=True,
        )
        for power in (2, 3):
            found = run(power, x)
            assert found.sharding == rows
            close(np.asarray(found), f(power, x))
    table[0] += 1.0  # captured arrays are compared by their contents
    close(np.asarray(run(2, x)), f(2, x))


def check_loops_and_errors() -> None:
    _, rows = shardings((), ("data",))
    x = np.random.default_rng(3).normal(size=(16, 4, 4)) + 4 * np.eye(4)

    def f(x: Any) -> Any:
        return ft.scan(lambda c, _: (np.linalg.solve(x, c), np.sum(c)), x * 0.5, None, length=3)

    run = ft.jit(f, backend="xla", in_shardings=rows, keep_on_device=True)
    close(ft.tree.map(np.asarray, run(x)), f(x), 1e4 * EPS)
    inverse = ft.jit(np.linalg.inv, backend="xla", in_shardings=rows, out_shardings=rows)
    close(inverse(x), np.linalg.inv(x), 1e4 * EPS)
    x[5] = 0.0
    raises(np.linalg.LinAlgError, "Singular", lambda: inverse(x))


def raises(kind: type[Exception], text: str, run: Callable[[], Any]) -> None:
    """Assert that an error is raised, whose message has a text."""
    try:
        run()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def check_wrong_shardings() -> None:
    everywhere, rows = shardings((), ("data",))
    params, x, y = data()
    f = ft.jit(loss, backend="xla", in_shardings=({"no": rows}, rows, rows))
    raises(ft.errors.TreeError, "in_shardings", lambda: f(params, x, y))
    g = ft.jit(loss, backend="xla", in_shardings=(everywhere, rows, rows))
    raises(ft.errors.ArgumentError, "by position", lambda: g(params, x, y=y))
    raises(ValueError, "divide", lambda: g(params, x[:6], y[:6]))
    h = ft.jit(loss, backend="xla", out_shardings=(rows, rows))
    raises(ft.errors.TreeError, "out_shardings", lambda: h(params, x, y))
    raises(ft.errors.ArgumentError, "devices", lambda: ft.distributed.mesh(3))
    raises(ft.errors.ArgumentError, "names", lambda: ft.distributed.mesh((2, 4), "data"))
    raises(ft.errors.ArgumentError, "divide", lambda: ft.distributed.global_array(x[:6], rows))


def check_memory_of_placed_arrays() -> None:
    """An array that was placed in 32 bits has 64 in our programs; and the other way around."""
    import jax

    _, rows = shardings((), ("data",))
    x = np.random.default_rng(4).normal(size=(64, 16))
    run = ft.jit(lambda x: x * 2.0, backend="xla", in_shardings=rows, keep_on_device=True)
    double = jax.jit(lambda x: x * 2)
    for _ in range(3):
        placed = jax.device_put(x, rows)  # of the user
        assert placed.addressable_shards[0].data.nbytes == x.nbytes / 2 / DEVICES
        close(np.asarray(double(placed)), (x * 2).astype(np.float32), 1e-6)
        for found in (run(x), ft.distributed.global_array(x, rows)):
            assert found.dtype == x.dtype
            assert found.addressable_shards[0].data.nbytes == x.nbytes / DEVICES
        close(np.asarray(run(x)), x * 2.0)


def check_report_of_collectives() -> None:
    """Kinds, axes, bytes and runs of compiled programs."""
    both: dict[str, Any] = {"shape": (4, 2), "names": ("data", "model")}
    everywhere, rows, columns, model, grid = shardings(
        (), ("data",), (None, "model"), ("model",), ("data", "model"), **both
    )
    params, x, y = data()
    report = ft.debug.collectives
    step = ft.value_and_grad(loss)
    run = ft.jit(
        step, backend="xla", in_shardings=(everywhere, rows, rows), out_shardings=everywhere
    )
    found = report(run, everywhere.mesh)(params, x, y)
    assert {(r.kind, r.axes, r.runs) for r in found.rows} == {("all-reduce", ("data",), 1)}
    slopes = sum(p.nbytes for p in ft.tree.leaves(params))
    assert slopes <= sum(r.bytes for r in found.rows) <= slopes + 64  # and the loss
    product = report(lambda x, w: x @ w, grid.mesh, in_shardings=(grid, model), out_shardings=rows)
    (row,) = product(np.ones((8, 64)), np.ones((64, 16))).rows
    assert (row.kind, row.axes, row.devices, row.bytes) == ("all-reduce", ("model",), 2, 256)
    assert product(np.ones((8, 64)), np.ones((64, 16))).flops == 2 * 8 * 64 * 16

    def loop(x: Any, w: Any) -> Any:
        return ft.scan(lambda c, _: (np.tanh(c @ w), None), x, None, length=5)[0]

    on = ft.distributed.global_array((np.ones((8, 64)), np.ones((64, 64))), (columns, model))
    found = report(loop, columns.mesh, out_shardings=columns)(*on)
    assert all(r.runs == 5 for r in found.rows)
    assert ("all-reduce", ("model",)) in {(r.kind, r.axes) for r in found.rows}
    moved = report(lambda x: x * 1.0, rows.mesh, in_shardings=rows, out_shardings=everywhere)
    (row,) = moved(np.ones((8, 64))).rows
    assert (row.kind, row.axes, row.bytes) == ("all-gather", ("data",), 4096)
    raises(ft.errors.ArgumentError, "1 devices", lambda: report(loop, rows.mesh)(x, np.eye(16)))


def check_optax_takes_the_results() -> None:
    """Adam over eight devices: as with gradients of NumPy on one."""
    import jax
    import optax

    everywhere, rows = shardings((), ("data",))
    params, x, y = data()
    step = ft.value_and_grad(loss)
    run = ft.jit(
        step,
        backend="xla",
        in_shardings=(everywhere, rows, rows),
        out_shardings=everywhere,
        keep_on_device=True,
    )
    optimizer = optax.adam(1e-2)

    @jax.jit
    def update(params: Any, slope: Any, state: Any) -> Any:
        updates, state = optimizer.update(slope, state)
        return optax.apply_updates(params, updates), state

    with jax.enable_x64(True):
        now, then = ft.distributed.global_array(params, everywhere), params
        state = other = jax.jit(optimizer.init)(now)
        for _ in range(3):
            _, slope = run(now, x, y)
            now, state = update(now, slope, state)
            _, slope = step(then, x, y)
            then, other = ft.tree.map(np.asarray, update(then, slope, other))
    assert all(p.sharding == everywhere for p in ft.tree.leaves(now))
    close(ft.tree.map(np.asarray, now), then, 1e5 * EPS)


def _saved_and_loaded(writer: Any) -> None:
    import jax

    both: dict[str, Any] = {"shape": (4, 2), "names": ("data", "model")}
    everywhere, rows, grid, other = shardings(
        (), ("data",), ("data", "model"), ("model", "data"), **both
    )
    rng = np.random.default_rng(5)
    x, tiny = rng.normal(size=(16, 8)), rng.normal(size=(8, 8)).astype(np.float32)
    make = ft.distributed.global_array
    tree = {
        "grid": make(x, grid),
        "rows": [make(x, rows), make(tiny, everywhere)],
        "counts": make(np.arange(16), rows),
        "host": x[:, ::2],
        "step": 7,
        "rate": 0.1,
        "scalar": make(np.float64(3.5), everywhere),
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "step_7"
        ft.distributed.save(place, tree, writer=writer)
        found = ft.distributed.load(place, tree)
        assert found["step"] == 7 and type(found["step"]) is int and found["rate"] == 0.1
        assert type(found["host"]) is np.ndarray
        for old, new in zip(ft.tree.leaves(tree), ft.tree.leaves(found), strict=True):
            assert type(old) is type(new) and getattr(old, "sharding", 0) == getattr(
                new, "sharding", 0
            )
            assert np.asarray(old).tobytes() == np.asarray(new).tobytes()
            if isinstance(new, jax.Array):
                assert np.asarray(new.addressable_shards[0].data).dtype == old.dtype
        moved = {**tree, "grid": jax.ShapeDtypeStruct((16, 8), np.float64, sharding=other)}
        moved["rows"] = [np.zeros((16, 8)), tree["rows"][1]]
        found = ft.distributed.load(place, moved)
        assert found["grid"].sharding == other and type(found["rows"][0]) is np.ndarray
        assert np.array_equal(found["grid"], x) and np.array_equal(found["rows"][0], x)
        errors = ft.errors
        raises(errors.ArgumentError, "complete", lambda: ft.distributed.save(place, tree))
        raises(errors.ArgumentError, "structure", lambda: ft.distributed.load(place, {"grid": x}))
        narrow = {**tree, "grid": jax.ShapeDtypeStruct((16, 8), np.float32, sharding=grid)}
        raises(errors.ArgumentError, "float64", lambda: ft.distributed.load(place, narrow))
        short = {**tree, "host": x[:2]}
        raises(errors.ArgumentError, "host", lambda: ft.distributed.load(place, short))


def check_orbax_saves_and_loads() -> None:
    _saved_and_loaded("orbax")


def check_files_of_numpy_save_and_load() -> None:
    _saved_and_loaded("npy")


def check_own_checkpoints_of_orbax_take_the_results() -> None:
    """Orbax itself saves results of ours."""
    import jax
    import orbax.checkpoint as ocp

    _, rows = shardings((), ("data",))
    x = np.random.default_rng(6).normal(size=(16, 4))
    run = ft.jit(lambda x: {"y": x * 2.0}, backend="xla", in_shardings=rows, keep_on_device=True)
    with tempfile.TemporaryDirectory() as folder, jax.enable_x64(True):
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(Path(folder) / "own", run(x))
        with ocp.StandardCheckpointer() as checkpointer:
            found = checkpointer.restore(Path(folder) / "own", run(x))
    assert np.array_equal(found["y"], x * 2.0) and found["y"].sharding.num_devices == DEVICES


def main() -> None:
    """Run all checks, or those named in the arguments."""
    found: dict[str, Any] = {}
    for name in sys.argv[1:] or [x for x in globals() if x.startswith("check_")]:
        begin = time.perf_counter()
        try:
            globals()[name]()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
        print(f"{name} {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    main()
