"""Reward error against episodes, beside 1/sqrt(N)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ctmle.lab.paper.errors import Errors
from ctmle.pictures import COLOURS

TICKS = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100)


def plot_errors(errors: Sequence[Errors]) -> Figure:
    """A line of two panels for each system: the last policy, and one drawn from all so far."""
    size = (11.0, 4.6 * len(errors))
    figure, panels = plt.subplots(len(errors), 2, figsize=size, layout="constrained", squeeze=False, sharey="row")
    for (left, right), found in zip(panels, errors, strict=True):
        _draw(left, found, found.each, COLOURS[0])
        _draw(right, found, found.so_far, COLOURS[1])
        left.set_ylabel(f"reward error: what the score lacks to {found.optimum:.3g}")
        lowest = _smallest(found.each)
        left.set_ylim(0.4 * lowest, 2.5 * max(lowest, found.each.max()))
        left.set_title(f"{found.environment}: policy of episode N", fontsize="medium")
        right.set_title("policy drawn from the first N episodes", fontsize="medium")
    return figure


def _draw(axes: Axes, errors: Errors, each: Float[np.ndarray, "seeds episodes"], colour: str) -> None:
    n, mean, floor = errors.episodes, each.mean(axis=0), 0.1 * _smallest(each)
    axes.set(xscale="log", yscale="log", xlabel="episodes N")
    for line in each:
        axes.plot(n, np.maximum(line, floor), color=colour, alpha=0.25, linewidth=0.8)
    axes.plot(n, np.maximum(mean, floor), color=colour, marker="o", markersize=4, label=f"mean of {len(each)} seeds")
    if len(each) > 1:
        error = each.std(axis=0, ddof=1) / len(each) ** 0.5
        low, high = np.maximum(mean - error, floor), np.maximum(mean + error, floor)
        axes.fill_between(n, low, high, color=colour, alpha=0.2, linewidth=0, label="standard error")
    _lines(axes, errors, each)
    ticks = [tick for tick in TICKS if tick <= n[-1]]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower left")


def _lines(axes: Axes, errors: Errors, each: Float[np.ndarray, "seeds episodes"]) -> None:
    """The power law that fits best, and 1/sqrt(N), both through the middle of the points."""
    power, mean = errors.exponent(each), each.mean(axis=0)
    if power.value is None:
        return
    n, positive = errors.episodes, mean > 0
    across, up = np.log(errors.episodes[positive]).mean(), np.log(mean[positive]).mean()
    interval = "interval not known" if power.interval is None else f"{power.interval[0]:.2f} to {power.interval[1]:.2f}"
    fit = f"fit $N^{{{power.value:.2f}}}$ ({interval})"
    axes.plot(n, np.exp(up + power.value * (np.log(n) - across)), color="black", linewidth=1.2, label=fit)
    reference = np.exp(up - 0.5 * (np.log(n) - across))
    axes.plot(n, reference, color="black", linestyle=":", linewidth=1.8, label=r"$1/\sqrt{N}$")


def _smallest(each: Float[np.ndarray, "seeds episodes"]) -> float:
    """The smallest mean error that a logarithmic axis can show; errors below a tenth of it are drawn there."""
    mean = each.mean(axis=0)
    return float(mean[mean > 0].min(initial=1.0))
