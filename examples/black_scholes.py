"""Greeks of options
=================

Greeks of options: sensitivities of a price are derivatives, so every Greek is a transform of the
pricing function.

European calls and their Greeks have closed formulas (Hull, *Options, Futures, and Other
Derivatives*, chapter 19); the program compares a thousand contracts with them. An American put has
none: it is priced by a binomial tree (Cox, Ross & Rubinstein 1979), and differentiated through all
steps and exercise decisions. Next to this file the program saves ``black_scholes.png``.

::

    python examples/black_scholes.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr
from tqdm import tqdm

import functrace as ft

STRIKE, RATE, VOLATILITY, MATURITY, STEPS = 100.0, 0.04, 0.25, 1.0, 200
PICTURE = Path(__file__).with_suffix(".png")
Number = Float[ft.Array | float, ""]


def call(
    spot: Number, volatility: Number, maturity: Number, rate: Number, strike: float = STRIKE
) -> Number:
    """Return the price of a European call (Black & Scholes 1973)."""
    total = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + rate * maturity) / total + 0.5 * total
    return spot * ndtr(d1) - strike * np.exp(-rate * maturity) * ndtr(d1 - total)


def by(argument, function):
    """Return the derivative of a price by one of its arguments: 0 spot, 1 volatility, 2 maturity, 3
    rate.
    """
    return ft.grad(function, argument)


GREEKS = {
    "delta": by(0, call),
    "vega": by(1, call),
    "theta": lambda *contract: -by(2, call)(*contract),
    "rho": by(3, call),
    "gamma": by(0, by(0, call)),
    "vanna": by(1, by(0, call)),
    "volga": by(1, by(1, call)),
    "speed": by(0, by(0, by(0, call))),
}


def closed_forms(spot, volatility, maturity, rate, strike=STRIKE):
    """Return the same Greeks by the textbook formulas."""
    total = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + rate * maturity) / total + 0.5 * total
    d2, discounted = d1 - total, strike * np.exp(-rate * maturity)
    density = np.exp(-0.5 * d1**2) / np.sqrt(2 * np.pi)
    vega, gamma = spot * density * np.sqrt(maturity), density / (spot * total)
    return {
        "delta": ndtr(d1),
        "vega": vega,
        "theta": -spot * density * volatility / (2 * np.sqrt(maturity))
        - rate * discounted * ndtr(d2),
        "rho": discounted * maturity * ndtr(d2),
        "gamma": gamma,
        "vanna": -density * d2 / volatility,
        "volga": vega * d1 * d2 / volatility,
        "speed": -gamma / spot * (d1 / total + 1),
    }


def american_put(spot: Number, volatility: Number, maturity: Number, rate: Number) -> Number:
    """Return the price of an American put, by backward induction on a binomial tree."""
    step = maturity / STEPS
    up = np.exp(volatility * np.sqrt(step))
    chance = (np.exp(rate * step) - 1 / up) / (up - 1 / up)
    discount = np.exp(-rate * step)
    nodes = np.arange(-STEPS, STEPS + 1, 2)
    value = np.maximum(STRIKE - spot * up**nodes, 0.0)
    for count in range(STEPS, 0, -1):
        kept = discount * (chance * value[1:] + (1 - chance) * value[:-1])
        value = np.maximum(kept, STRIKE - spot * up ** np.arange(-count + 1, count, 2))
    return value[0]


def worst_of_european(rng, count=1000):
    """Return the largest relative difference of a Greek from its formula, over random contracts."""
    contracts = (
        rng.uniform(50, 200, count),
        rng.uniform(0.1, 0.6, count),
        rng.uniform(0.1, 3.0, count),
        rng.uniform(0.0, 0.1, count),
    )
    wanted = closed_forms(*contracts)
    worst = {}
    for name, greek in tqdm(GREEKS.items(), desc="European calls", unit="Greek"):
        found = ft.vmap(greek)(*contracts)
        worst[name] = float(np.max(np.abs(found - wanted[name])) / np.max(np.abs(wanted[name])))
    return worst


def draw(spots, prices, deltas, vegas):
    """Save the Greeks of the call, and the American put with its exercise value."""
    figure, axes = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
    grid = np.meshgrid(np.linspace(60, 150, 91), np.linspace(0.1, 2.0, 60))
    contracts = [grid[0].ravel(), grid[1].ravel()]
    for panel, name in zip(
        axes.flat, ["delta", "gamma", "vega", "theta", "vanna", "volga"], strict=False
    ):
        surface = ft.vmap(lambda s, t, greek=GREEKS[name]: greek(s, VOLATILITY, t, RATE))(
            *contracts
        )
        drawn = panel.pcolormesh(
            *grid, surface.reshape(grid[0].shape), shading="auto", cmap="viridis"
        )
        figure.colorbar(drawn, ax=panel)
        panel.set(title=f"{name} of the call", xlabel="spot", ylabel="years")
    price, sensitivity = axes.flat[6:]
    price.plot(spots, prices, label="American put")
    price.plot(
        spots, np.maximum(STRIKE - spots, 0), color="0.5", linestyle=":", label="exercised now"
    )
    price.set(title="American put", xlabel="spot", ylabel="price")
    price.legend(frameon=False)
    sensitivity.plot(spots, deltas, label="delta")
    sensitivity.plot(spots, np.asarray(vegas) / 100, label="vega / 100")
    sensitivity.set(title="derivatives through the tree", xlabel="spot")
    sensitivity.legend(frameon=False)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    worst = worst_of_european(np.random.default_rng(0))
    for name, difference in worst.items():
        print(f"  {name:<6} differs from its formula by at most {difference:.1e}")

    value_and_greeks = ft.jit(ft.value_and_grad(american_put, (0, 1, 2, 3)))
    spots = np.linspace(60, 140, 41)
    prices, deltas, vegas = [], [], []
    for spot in tqdm(spots, desc="American put", unit="spot"):
        price, (delta, vega, _, _) = value_and_greeks(spot, VOLATILITY, MATURITY, RATE)
        prices.append(price), deltas.append(delta), vegas.append(vega)
    contract = np.array([97.3, VOLATILITY, MATURITY, RATE])
    _, found = value_and_greeks(*contract)
    off = []
    for k, greek in enumerate(found):
        h = 1e-6 * contract[k]
        up, down = contract.copy(), contract.copy()
        up[k], down[k] = up[k] + h, down[k] - h
        off.append(abs((american_put(*up) - american_put(*down)) / (2 * h) - greek) / abs(greek))
    print(
        f"American put at {contract[0]}: price {american_put(*contract):.4f}, delta "
        f"{found[0]:.4f}, vega {found[1]:.3f}"
    )
    print(f"  its derivatives differ from differences of prices by at most {max(off):.1e}")
    draw(spots, prices, deltas, vegas)

    exercised = spots <= 64
    at_once = np.allclose(np.asarray(deltas)[exercised], -1.0) and np.allclose(
        np.asarray(vegas)[exercised], 0.0
    )
    if max(worst.values()) > 1e-10 or max(off) > 1e-5 or not at_once:
        print(
            "a Greek is wrong, or a put deep in the money is not exercised at once", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
