"""A chain larger than memory, through disk
========================================

The derivative of a long simulation keeps values of every step. Here it gets less memory than that
takes: the operating system limits the address space of the process (``resource.setrlimit``).

Bacteria spread and grow on a square dish (the equation of Fisher and KPP). The gradient tells by
how much each place of the initial colony changes the final amount in a corner. It is computed four
times, each in a process of its own: without a limit; under a limit that the values of all steps do
not fit into, which fails; under the same limit with residuals in files
(``functrace.policies.offload``); and with residuals in 8 bits (``functrace.policies.compress``).

The program ends with an error if the gradient through files differs from the first one in any bit,
if files are left, or if 8 bits change the gradient by more than five percent. Next to this file it
saves ``chain_on_disk.png``. Where addresses cannot be limited (only Linux can), nothing fails.

::

    python examples/chain_on_disk.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from jaxtyping import Float

import functrace as ft

SIZE, STEPS = 200, 150
MEGABYTES = 80
"""Memory for the derivative. The residuals of all steps take 240 MB."""
PICTURE = Path(__file__).with_suffix(".png")


def step(u: Float[ft.Array, "n n"]) -> Float[ft.Array, "n n"]:
    """Diffusion and growth during one unit of time."""
    neighbours = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return u + 0.2 * (neighbours - 4.0 * u) + 0.08 * u * (1.0 - u)


def final_amount(u: Float[ft.Array, "n n"]) -> Float[ft.Array, ""]:
    """Amount in a corner at the end."""
    for _ in range(STEPS):
        u = step(u)
    return np.sum(u[: SIZE // 4, : SIZE // 4])


def colony() -> Float[np.ndarray, "n n"]:
    """Two spots, and very little elsewhere."""
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    spots = [((0.3, 0.35), 0.05), ((0.6, 0.2), 0.08)]
    u = np.full((SIZE, SIZE), 1e-4)
    for (a, b), r in spots:
        u += 0.8 * np.exp(-((x - a) ** 2 + (y - b) ** 2) / r**2)
    return u


def limit_memory() -> bool:
    """Limit the address space of this process to what it has and `MEGABYTES`; True if it works."""
    status = Path("/proc/self/status")
    if not status.exists():
        return False
    import resource

    size = next(s for s in status.read_text().splitlines() if s.startswith("VmSize"))
    most = int(size.split()[1]) * 1024 + MEGABYTES * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return True


def run_alone(policy: str, directory: str) -> None:
    """Compute the gradient in this process; save it in the directory, or print the error."""
    policies = {
        "in files": ft.policies.offload(directory),
        "in 8 bits": ft.policies.compress("int8"),
    }
    gradient = ft.grad(final_amount)
    u = colony()
    ft.grad(lambda u: np.sum(step(u)))(u)  # (what every derivative imports is in memory now)
    is_limited = policy != "without limit" and limit_memory()
    try:
        with ft.residual_policy(policies.get(policy, ft.policies.save)):
            found = gradient(u)
    except MemoryError:
        print("MemoryError")
        return
    np.save(Path(directory) / "gradient.npy", found)
    print("limited" if is_limited else "not limited")


def run(policy: str) -> tuple[str, Float[np.ndarray, "n n"] | None, float]:
    """Compute the gradient in another process; return how it ended, the gradient, and seconds."""
    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, __file__, policy, directory],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(f"{policy}: {done.stderr}")
        found = Path(directory) / "gradient.npy"
        gradient = np.load(found) if found.exists() else None
        found.unlink(missing_ok=True)
        if any(Path(directory).iterdir()):
            raise SystemExit(f"{policy}: files are left")
    return done.stdout.strip(), gradient, seconds


def draw(gradient: Float[np.ndarray, "n n"], rows: list[tuple[str, str, float]]) -> None:
    """Draw the colony, the gradient, and how the runs ended."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    left.imshow(colony(), cmap="Greens")
    left.set_title("initial colony")
    middle.imshow(gradient, cmap="magma")
    middle.set_title("gradient of the amount\nin the upper left corner")
    names, ends, seconds = zip(*rows, strict=True)
    colors = ["tab:red" if end == "MemoryError" else "tab:blue" for end in ends]
    right.barh(names[::-1], seconds[::-1], color=colors[::-1])
    right.set_xlabel("seconds (red: MemoryError)")
    right.set_title(f"residuals, with {MEGABYTES} MB")
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> None:
    """Run all four; compare; draw."""
    from tqdm import tqdm

    found = {
        policy: run(policy)
        for policy in tqdm(("without limit", "in memory", "in files", "in 8 bits"), unit="run")
    }
    expected = found["without limit"][1]
    assert expected is not None
    is_limited = found["in files"][0] == "limited"
    print(f"{'residuals':<14} {'end':<12} {'seconds':>7}  largest difference")
    for policy, (end, gradient, seconds) in found.items():
        error = "" if gradient is None else f"{np.max(np.abs(gradient - expected)):.2g}"
        print(f"{policy:<14} {end:<12} {seconds:7.2f}  {error}")
    if is_limited and found["in memory"][0] != "MemoryError":
        raise SystemExit("the values of all steps fit into the limit")
    for policy, most in (("in files", 0.0), ("in 8 bits", 0.05)):
        gradient = found[policy][1]
        if gradient is None or np.max(np.abs(gradient - expected)) > most * np.max(expected):
            raise SystemExit(f"{policy}: the gradient is missing, or wrong")
    draw(expected, [(policy, end, seconds) for policy, (end, _, seconds) in found.items()])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run_alone(*sys.argv[1:])
    else:
        main()
