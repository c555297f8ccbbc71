"""The orbit of Mars
=================

The orbit of Mars from its directions in the sky: a differential equation fitted to observations.

Tycho Brahe measured the direction of Mars to a minute of arc; Kepler needed six years to find its
ellipse from that. Here, the positions are from the ephemeris of Standish (1992, JPL), seen from the
Earth on 120 nights of four years, with Tycho's errors. The unknowns are position and velocity of
Mars on the first night; Newton's law is integrated by `functrace.scipy.integrate.solve_ivp`, and
`ft.jacfwd` of it gives SciPy's least squares the Jacobian. The size, eccentricity and tilt of the
ellipse, with errors by the same Jacobian, are compared with the ephemeris. Next to this file the
program leaves ``orbit.png``.

::

    python examples/orbit.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares
from tqdm import tqdm

import functrace as ft
from functrace.scipy.integrate import solve_ivp

GRAVITY = 4 * np.pi**2  # of the Sun, AU^3 / year^2
NIGHTS, YEARS, MINUTE = 120, 4.0, np.pi / (180 * 60)
PICTURE = Path(__file__).with_suffix(".png")

# Semi-major axis (AU), eccentricity, inclination, longitudes at J2000: mean, of perihelion, of the
# ascending node (degrees); degrees of mean longitude in a year.
MARS = (1.52371034, 0.09339410, 1.84969142, -4.55343205, -23.94362959, 49.55953891, 191.4030268)
EARTH = (1.00000261, 0.01671123, 0.0, 100.46457166, 102.93768193, 0.0, 359.9937245)


def place(planet, times):
    """Return where a planet of the ephemeris is, shape (n, 3), AU, at times in years."""
    size, eccentricity, *degrees, motion = planet
    tilt, longitude, perihelion, node = np.radians(degrees)
    mean = longitude - perihelion + np.radians(motion) * times
    anomaly = mean
    for _ in range(20):  # Newton's method on Kepler's equation
        anomaly = anomaly - (anomaly - eccentricity * np.sin(anomaly) - mean) / (
            1 - eccentricity * np.cos(anomaly)
        )
    x = size * (np.cos(anomaly) - eccentricity)
    y = size * np.sqrt(1 - eccentricity**2) * np.sin(anomaly)
    around = perihelion - node
    u, v = x * np.cos(around) - y * np.sin(around), x * np.sin(around) + y * np.cos(around)
    return np.stack(
        [
            u * np.cos(node) - v * np.sin(node) * np.cos(tilt),
            u * np.sin(node) + v * np.cos(node) * np.cos(tilt),
            v * np.sin(tilt),
        ],
        axis=1,
    )


def newton(_, state: Float[ft.Array, "6"]) -> Float[ft.Array, "6"]:
    """Return the derivative of a planet's place and motion."""
    position, motion = state[:3], state[3:]
    return np.concatenate([motion, -GRAVITY * position / np.sum(position**2) ** 1.5])


def orbit(start: Float[ft.Array, "6"], times: Float[ft.Array, "n"]) -> Float[ft.Array, "n 3"]:
    """Return positions on the orbit with initial position and velocity ``start``."""
    found = solve_ivp(
        newton,
        (0.0, times[-1]),
        start,
        t_eval=times,
        method="DOP853",
        rtol=1e-9,
        atol=1e-9,
        gradient="direct",
    )
    return found.y[:3].T


def angles(places: Float[ft.Array, "n 3"], earth: Float[ft.Array, "n 3"]) -> Float[ft.Array, "n 2"]:
    """Return ecliptic longitude and latitude of places seen from the Earth."""
    x, y, z = (places - earth).T
    return np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=1)


def ellipse(start: Float[ft.Array, "6"]) -> Float[ft.Array, "3"]:
    """Return size (AU), eccentricity and tilt (degrees) of the orbit with this initial state."""
    position, motion = start[:3], start[3:]
    distance = np.linalg.norm(position)
    size = 1 / (2 / distance - motion @ motion / GRAVITY)
    moment = np.cross(position, motion)
    eccentricity = np.linalg.norm(np.cross(motion, moment) / GRAVITY - position / distance)
    return np.stack([size, eccentricity, np.degrees(np.arccos(moment[2] / np.linalg.norm(moment)))])


def fit(times, observed, earth, guess):
    """Return SciPy's fit, and the residuals (in minutes of arc) as they fell."""
    fell = []

    def residuals(start: Float[ft.Array, "6"]) -> Float[ft.Array, "misfits"]:
        off = angles(orbit(start, times), earth) - observed
        return np.ravel((off + np.pi) % (2 * np.pi) - np.pi) / MINUTE

    with tqdm(desc="orbits", unit="orbit") as bar:

        def counted(start):
            bar.update()
            fell.append(np.sqrt(np.mean(residuals(start) ** 2)))
            return residuals(start)

        found = least_squares(counted, guess, jac=ft.jacfwd(residuals), x_scale="jac", max_nfev=60)
    return found, fell, residuals


def draw(times, earth, guess, found, fell):
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    whole = np.linspace(0.0, 2.2, 300)
    for start, label, style in [(guess, "guess", "0.7"), (found.x, "fitted", "tab:red")]:
        x, y, _ = orbit(start, whole).T
        axes[0].plot(x, y, color=style, label=label)
    axes[0].plot(*place(MARS, times)[:, :2].T, ".", color="k", markersize=2, label="Mars")
    axes[0].plot(*earth[:, :2].T, ".", color="tab:blue", markersize=2, label="Earth")
    axes[0].plot(0, 0, "o", color="gold")
    axes[0].set(aspect="equal", xlabel="AU", title="the ecliptic, from above")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].semilogy(fell, ".-")
    axes[1].axhline(1.0, color="0.7")
    axes[1].set(title="misfit, minutes of arc", xlabel="orbit")
    longitude, latitude = np.reshape(found.fun, (-1, 2)).T
    axes[2].plot(times, longitude, ".", label="longitude")
    axes[2].plot(times, latitude, ".", label="latitude")
    axes[2].set(title="what remains, minutes of arc", xlabel="year")
    axes[2].legend(frameon=False)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    rng = np.random.default_rng(1609)
    times = np.sort(rng.uniform(0, YEARS, NIGHTS))
    earth = place(EARTH, times)
    observed = angles(place(MARS, times), earth) + MINUTE * rng.normal(size=(NIGHTS, 2))

    direction = np.array([1.0, -0.15, 0.0])  # a circle of a size that is a guess
    guess = np.concatenate([1.6 * direction, np.sqrt(GRAVITY / 1.6) * np.array([0.15, 1.0, 0.0])])
    found, fell, residuals = fit(times, observed, earth, guess)

    covariance = np.linalg.inv(found.jac.T @ found.jac)
    slopes = ft.jacrev(ellipse)(found.x)
    errors = np.sqrt(np.diag(slopes @ covariance @ slopes.T))
    values = ellipse(found.x)
    print(f"misfit {fell[0]:.0f} -> {fell[-1]:.2f} minutes of arc in {len(fell)} orbits")
    for name, value, error, known in zip(
        ["size", "eccentricity", "tilt"], values, errors, MARS, strict=False
    ):
        print(f"  {name:<12} {value:.5f} ± {error:.5f}, ephemeris {known:.5f}")

    step = 1e-6 * rng.normal(size=6)
    difference = (residuals(found.x + step) - residuals(found.x - step)) / 2
    off = np.max(np.abs(found.jac @ step - difference)) / np.max(np.abs(difference))
    print(f"the Jacobian differs from a difference of orbits by {off:.1e}")
    draw(times, earth, guess, found, fell)

    away = np.abs(values - MARS[:3]) / errors
    if not 0.85 < fell[-1] < 1.15 or np.max(away) > 4 or off > 1e-5:
        print("the orbit is not that of Mars, or its derivative is wrong", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
