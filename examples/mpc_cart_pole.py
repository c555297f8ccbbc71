"""A controller in C
=================

A controller that swings up a pole on a cart, written in NumPy and exported to C.

At every step of 1/25 s the controller improves its plan for the next two seconds, and applies the
first force of it (model predictive control). It is the iterative LQR of Li & Todorov (2004), *ICINCO*,
with the Gauss-Newton Hessian of the costs: linearize the motion along the plan, by `ft.jacfwd` of one
Runge-Kutta step, solve the Riccati recursion backwards, and try five step sizes forwards. All of it,
loops and derivatives, is one function; `ft.export` writes that as C without allocations, which a
microcontroller could run. The C compiler makes a library of it, alone; without a compiler, `ft.jit`
runs the same function.

The cart on which it is tested is 10 % heavier than in the controller's model, has friction, and is
pushed after six seconds. The motion is that of Florian (2007), *Correct equations for the dynamics
of the cart-pole system*. Next to this file the program leaves ``mpc_cart_pole.png``.

::

    python examples/mpc_cart_pole.py
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from tqdm import tqdm

import functrace as ft

GRAVITY, HALF_LENGTH, POLE = 9.81, 0.5, 0.2  # m / s^2, m, kg
CART, HEAVIER, FRICTION = 1.0, 1.1, 0.1  # kg, kg, N s / m
STRONGEST = 15.0  # N
STEP, HORIZON, ITERATIONS = 0.04, 50, 4  # s, steps, improvements of the plan in a step
SECONDS, PUSH_AT, PUSH = 10.0, 6.0, 1.5  # s, s, m / s
# position, sine and height of the angle, velocity, angular velocity, force
WEIGHTS = np.array([1.0, 0.3, 3.0, 0.1, 0.1, 0.1])
PICTURE = Path(__file__).with_suffix(".png")


def acceleration(state, force, cart, friction):
    """Return the derivative of (position, angle from upright, velocity, angular velocity)."""
    _, angle, velocity, turning = state
    sine, cosine = np.sin(angle), np.cos(angle)
    total = cart + POLE
    push = (force - friction * velocity + POLE * HALF_LENGTH * turning**2 * sine) / total
    bottom = HALF_LENGTH * (4.0 / 3.0 - POLE * cosine**2 / total)
    spin = (GRAVITY * sine - cosine * push) / bottom
    return np.stack([velocity, turning, push - POLE * HALF_LENGTH * spin * cosine / total, spin])


def move(state, plan, cart=CART, friction=0.0):
    """Return the state one step later (Runge-Kutta); the plan is a force before its limitation."""
    force = STRONGEST * np.tanh(plan / STRONGEST)
    first = acceleration(state, force, cart, friction)
    second = acceleration(state + 0.5 * STEP * first, force, cart, friction)
    third = acceleration(state + 0.5 * STEP * second, force, cart, friction)
    fourth = acceleration(state + STEP * third, force, cart, friction)
    return state + STEP / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)


def residuals(state, plan):
    """Return the weighted deviations from standing upright in the middle; costs are their squares."""
    position, angle, velocity, turning = state
    upright = np.stack(
        [position, np.sin(angle), 1.0 - np.cos(angle), velocity, turning, 0.1 * plan]
    )
    return WEIGHTS * upright


def controller(
    state: Float[ft.Array, "4"],
    plan: Float[ft.Array, "t"],
    states: Float[ft.Array, "t 4"],
    gains: Float[ft.Array, "t 4"],
) -> tuple[Float[ft.Array, "t"], Float[ft.Array, "t 4"], Float[ft.Array, "t 4"]]:
    """Improve a plan; returns it, the states that it leads to, and how forces are to change if the
    cart is elsewhere.
    """

    def follow(plan, gains, states, changes, size):
        """Return plan, states and cost of a step size; the gains hold the cart near the plan."""

        def step(now, given):
            force, gain, expected, change = given
            force = force + size * change + gain @ (now - expected)
            cost = 0.5 * np.sum(residuals(now, force) ** 2)
            return move(now, force), (force, now, cost)

        last, (forces, passed, costs) = ft.scan(step, state, (plan, gains, states, changes))
        return forces, passed, np.sum(costs) + 20.0 * np.sum(residuals(last, 0.0) ** 2), last

    def backwards(value, given):
        """Return one step of the Riccati recursion, and the change of the force and its gain."""
        slope, curvature = value
        a, b, r, r_state, r_force = given
        from_state, from_force = r_state.T @ r + a.T @ slope, r_force @ r + b @ slope
        state_state = r_state.T @ r_state + a.T @ curvature @ a
        force_state = r_force @ r_state + b @ curvature @ a
        force_force = r_force @ r_force + b @ curvature @ b + 1e-6
        change, gain = -from_force / force_force, -force_state / force_force
        slope = from_state + from_force * gain
        curvature = state_state + np.outer(force_state, gain)
        return (slope, 0.5 * (curvature + curvature.T)), (change, gain)

    def improve(_, carried):
        plan, states, cost, last, _ = carried
        of_state, of_force = ft.vmap(ft.jacfwd(move, (0, 1)))(states, plan)
        deviations = ft.vmap(residuals)(states, plan)
        r_state, r_force = ft.vmap(ft.jacfwd(residuals, (0, 1)))(states, plan)
        end, r_end = residuals(last, 0.0), ft.jacfwd(residuals)(last, 0.0)
        final = (40.0 * r_end.T @ end, 40.0 * r_end.T @ r_end)
        rows = (of_state, of_force, deviations, r_state, r_force)
        _, (changes, gains) = ft.scan(backwards, final, rows, reverse=True)
        sizes = np.array([1.0, 0.5, 0.2, 0.05, 0.01])
        plans, passed, costs, lasts = ft.vmap(
            lambda size: follow(plan, gains, states, changes, size)
        )(sizes)
        best = np.argmin(costs)
        is_better = costs[best] < cost
        return (
            np.where(is_better, plans[best], plan),
            np.where(is_better, passed[best], states),
            np.where(is_better, costs[best], cost),
            np.where(is_better, lasts[best], last),
            gains,
        )

    start = (*follow(plan, gains, states, 0.0 * plan, 0.0), gains)
    plan, states, _, _, gains = ft.fori_loop(0, ITERATIONS, improve, start)
    return plan, states, gains


MEMORY = (HORIZON,), (HORIZON, 4), (HORIZON, 4)
"""Shapes of plan, states and gains."""


def compiled(folder: Path):
    """Return the controller as a function of a C library, and the sizes of C and machine code; None
    without a compiler.
    """
    start = [np.zeros(shape) for shape in MEMORY]
    source, _, checks = ft.export(
        controller, np.array([0.0, 3.0, 0.0, 0.0]), *start, directory=folder
    )
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    flags, code = ["-std=c99", "-O2", "-ffp-contract=off", "-fPIC"], str(folder / "controller.o")
    test, library = folder / "test", folder / "controller.so"
    subprocess.run([compiler, *flags, "-c", str(source), "-o", code], check=True)
    subprocess.run([compiler, code, str(checks), "-o", str(test), "-lm"], check=True)
    subprocess.run([str(test)], check=True)
    subprocess.run([compiler, "-shared", code, "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).controller
    work = np.empty(1 << 20)

    def run(*arguments):
        results = [np.empty(shape) for shape in MEMORY]
        arrays = (*map(np.ascontiguousarray, arguments), *results, work)
        status = function(*[ctypes.c_void_p(array.ctypes.data) for array in arrays])
        assert status == 0
        return results

    return run, source.read_text().count("\n"), library.stat().st_size


def drive(control):
    """Return states, forces, seconds per call, arguments and results of the closed loop."""
    state = np.array([0.0, np.pi, 0.0, 0.0])  # hanging
    plan, *memory = [np.zeros(shape) for shape in MEMORY]
    plan += np.sin(np.arange(HORIZON))  # a plan of no forces is a saddle point of the cost
    states, forces, durations, calls = [state], [], [], []
    for k in tqdm(range(int(SECONDS / STEP)), desc="steps", unit="step"):
        if k == int(PUSH_AT / STEP):
            state = state + np.array([0.0, 0.0, PUSH, 0.0])
        arguments = (state, plan, *memory)
        started = time.perf_counter()
        plan, *memory = results = control(*arguments)
        durations.append(time.perf_counter() - started)
        calls.append((arguments, results))
        forces.append(STRONGEST * np.tanh(plan[0] / STRONGEST))
        state = move(state, plan[0], HEAVIER, FRICTION)
        states.append(state)
        plan, *memory = [np.concatenate([x[1:], x[-1:]]) for x in (plan, *memory)]
    return np.array(states), np.array(forces), np.array(durations), calls


def draw(states, forces, predictions):
    times = STEP * np.arange(len(states))
    figure, (film, angles, pushes) = plt.subplots(
        3, 1, figsize=(10, 7), layout="constrained", height_ratios=[0.9, 1, 1]
    )
    metres = 2.0  # to a second
    for k in range(0, len(states), 5):
        x, angle = metres * times[k] + states[k, 0], states[k, 1]
        tip = x + 2 * HALF_LENGTH * np.sin(angle), 2 * HALF_LENGTH * np.cos(angle)
        color = plt.get_cmap("twilight_shifted")(angle / (2 * np.pi) % 1)
        film.plot([x, tip[0]], [0, tip[1]], color=color, linewidth=1.5)
        film.plot(*tip, "o", color=color, markersize=5)
        film.plot(x, 0, "s", color="0.3", markersize=4)
    film.axhline(0, color="0.8", zorder=0)
    film.set(aspect="equal", xlim=(-1.5, metres * SECONDS + 0.5), ylim=(-1.2, 1.2), yticks=[])
    film.set_xticks(metres * np.arange(0, SECONDS + 1, 2), [])
    film.set_title("cart and pole every 0.2 seconds: swung up, pushed over, swung up again")
    for k in range(0, len(predictions), 12):
        ahead = STEP * (k + np.arange(HORIZON))
        label = "plans" if k == 0 else None
        path = np.degrees(predictions[k][:, 1])
        angles.plot(ahead, path, color="0.75", linewidth=0.8, label=label)
    angles.plot(times, np.degrees(states[:, 1]), color="tab:blue", label="angle")
    angles.set(ylabel="degrees from upright", xlim=(0, SECONDS), yticks=range(-360, 361, 180))
    angles.legend(frameon=False, loc="lower left")
    angles.grid(alpha=0.4)
    pushes.step(times[:-1], forces, where="post", color="tab:orange", label="force, N")
    pushes.plot(times, 10 * states[:, 0], color="tab:green", label="position, dm")
    pushes.axvline(PUSH_AT, color="0.6", linestyle=":", label="push")
    pushes.set(xlabel="seconds", xlim=(0, SECONDS), ylim=(-18, 24))
    pushes.legend(frameon=False, loc="upper center", ncols=3)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    jitted = ft.jit(controller)
    with tempfile.TemporaryDirectory() as folder:
        made = compiled(Path(folder))
        control = jitted
        if made is not None:
            control, lines, size = made
            print(f"{lines} lines of C, {size / 1024:.0f} KiB of machine code")
        states, forces, durations, calls = drive(control)
    print(f"a step of the controller takes {1e3 * np.median(durations):.2f} ms of {1e3 * STEP:.0f}")
    off = 0.0
    if made is not None:
        for arguments, (found, *_) in calls[::25]:
            expected, *_ = jitted(*arguments)
            off = max(off, np.max(np.abs(found - expected)) / STRONGEST)
        print(f"forces of C and of NumPy differ by at most {off:.1e} of the strongest")
    draw(states, forces, [predicted for _, (_, predicted, _) in calls])

    angle = np.angle(np.exp(1j * states[:, 1]))
    up = STEP * np.argmax(np.abs(angle) < 0.1)
    print(f"upright after {up:.1f} s, at the end {np.degrees(abs(angle[-1])):.2f} degrees off")
    if abs(angle[-1]) > 0.05 or abs(states[-1, 0]) > 0.3 or off > 1e-6 or up > 4.0:
        print("the pole does not stand, or C and NumPy differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
