"""Figures of the calculators."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ctmle.theory import quadratic
from ctmle.theory.complexity import Problem, episode_complexity, minimising_gap, total_complexity


def plot_trade_off(problem: Problem, chosen: float) -> Figure:
    """Plot episodes, looks and lambda-total cost against the gap, and mark the chosen gap."""
    p = problem
    smallest = min(chosen, minimising_gap(p) or chosen) / 30
    gaps = np.geomspace(min(smallest, p.horizon / 100), p.horizon, 300)
    episodes = np.array([episode_complexity(p, gap) for gap in gaps])
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(gaps, episodes, "--", label="episodes N")
    axes.plot(gaps, episodes * p.looks_per_gap * p.horizon / gaps, "--", label="looks in all")
    cost = [total_complexity(p, gap) for gap in gaps]
    axes.plot(gaps, cost, linewidth=2.5, label=rf"cost $(1-\lambda)N + \lambda\,$looks, $\lambda$ = {p.look_price:g}")
    axes.plot(chosen, total_complexity(p, chosen), "ko", label=f"plan: gap {chosen:.3g} s")
    axes.set(xscale="log", yscale="log", xlabel=r"gap $\Delta$ in seconds", ylabel="number, up to constants and logs")
    axes.set_title(f"Var {p.variance:g}, T {p.horizon:g} s, epsilon {p.epsilon:g}, d {p.dimension:g}")
    axes.legend(fontsize="small")
    return figure


def plot_quadratic(times: Float[np.ndarray, " times"], samples: Float[np.ndarray, "times samples"]) -> Figure:
    """Plot histograms of simulated samples and the exact density at each time."""
    columns = min(len(times), 4)
    lines = -(-len(times) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.9 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
    y = np.linspace(-3, 3, 600)
    for axes, t, seen in zip(panels.ravel(), times, samples, strict=False):
        axes.hist(seen, bins=np.linspace(-3, 3, 81).tolist(), density=True, alpha=0.4, label="simulated")
        axes.plot(y, quadratic.density(y, float(t)), label="density")
        axes.axvline(-0.5 / np.tan(t), color="k", linestyle=":", linewidth=1, label="node")
        axes.set(xlabel="y", title=f"t = {t:g}", xlim=(-3, 3))
    for axes in panels.ravel()[len(times) :]:
        axes.set_visible(False)
    panels[0, 0].set_ylabel("density")
    panels[0, 0].legend(fontsize="x-small")
    return figure
