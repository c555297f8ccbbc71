"""Cost of one recorded operation in each stage, in microseconds: ``python -m benchmarks.stages``.

The work is the first gradient through 1,000 turns of ``x = np.sin(x) * 1.01`` with 3 elements:
2,001 recorded equations. Every figure is the best of several runs with the cycle collector off,
divided by the number of recorded equations; *replay* is a checkpointed value and gradient less the
plain one, *shim* the same chain on tensors of `functrace.torch`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import functrace as ft
from functrace.executor import Runner
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import grad_program

TURNS = 1000
RUNS = 9
X = np.array([0.3, -0.7, 1.1])


def chain(x: Any) -> Any:
    for _ in range(TURNS):
        x = np.sin(x) * 1.01
    return np.sum(x)


def best(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the minimum seconds of several runs, and the last result."""
    seconds, result = [], None
    for _ in range(RUNS):
        gc.collect()
        gc.disable()
        begin = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - begin)
        gc.enable()
    return min(seconds), result


def record() -> ft.Program:
    with ArrayRecording("stages") as recording:
        out = chain(recording.new_input(ft.ShapeDtype(X.shape), X))
        return recording.program((out.ft_variable,))


def forget(program: ft.Program) -> ft.Program:
    """Clear a program's memoized properties, so that every run computes them anew."""
    program.__dict__.pop("schedule", None)
    return program


def main() -> None:
    recorded, program = best(record)
    written, runner = best(lambda: Runner.of_gradient(forget(program), [True], with_value=True))
    taped, derivative = best(lambda: grad_program(forget(program), [True]))
    by_rules, _ = best(lambda: grad_program(forget(program), [True], by_rules=True))
    count = len(program.equations)

    listed, _ = best(lambda: runner([X]))
    interpreted, _ = best(lambda: evaluate_program(derivative, [X]))
    compiled = Runner(derivative).compile()
    ran, _ = best(lambda: compiled(X))

    plain = Runner(ft.trace(ft.value_and_grad(chain))(X)).compile()
    replaying = Runner(ft.trace(ft.value_and_grad(ft.checkpoint(chain)))(X)).compile()
    replayed = best(lambda: replaying(X))[0] - best(lambda: plain(X))[0]

    stages = {
        "record": recorded,
        "write the gradient as an instruction list": written,
        "write the gradient as a program": taped,
        "the same, every operation by its rules": by_rules,
        "run the instruction list": listed,
        "evaluate the gradient by the reference walk": interpreted,
        "run the compiled gradient": ran,
        "replay (checkpointed, compiled, less plain)": replayed,
        **shim(),
    }
    print(
        f"microseconds per recorded equation ({count:,} equations; gradient: "
        f"{len(derivative.equations):,})"
    )
    for name, seconds in stages.items():
        print(f"  {name:<45} {seconds / count * 1e6:6.2f}")


def shim() -> dict[str, float]:
    import functrace.torch as torch

    x = torch.tensor(X, requires_grad=True)

    def forward() -> Any:
        y = x
        for _ in range(TURNS):
            y = y.sin() * 1.01
        return y.sum()

    ahead, _ = best(forward)
    both, _ = best(lambda: forward().backward())
    return {"shim, forward": ahead, "shim, backward": both - ahead}


if __name__ == "__main__":
    main()
