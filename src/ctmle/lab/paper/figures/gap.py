"""Optimal gap and episodes to success against the noise level, and the whole grid behind them."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, NullLocator

from ctmle.lab.paper.grid import Grid
from ctmle.lab.report.statistics import Estimate
from ctmle.pictures import COLOURS, draw_estimate, legend_once, mark_never

GAP_COLOUR, EPISODES_COLOUR = COLOURS[:2]


def plot_gaps(grids: Sequence[Grid]) -> Figure:
    """A line of three panels for each system."""
    size = (14.0, 4.2 * len(grids))
    figure, panels = plt.subplots(
        len(grids), 3, figsize=size, layout="constrained", squeeze=False, width_ratios=(1, 1, 1.4)
    )
    for (left, middle, right), grid in zip(panels, grids, strict=True):
        _optimal_gaps(left, grid)
        _episodes(middle, grid)
        _heat_map(figure, right, grid)
    return figure


def _optimal_gaps(axes: Axes, grid: Grid) -> None:
    found = [grid.optimal_gap(sigma) for sigma in grid.sigmas]
    _estimates(axes, grid.sigmas, found, GAP_COLOUR)
    axes.set_yscale("log", base=2)
    axes.set_ylim(grid.gaps[-1] / 1.5, grid.gaps[0] * 1.5)
    axes.set_yticks(grid.gaps, [_gap(gap) for gap in grid.gaps])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set(xlabel=r"noise level $\sigma$", ylabel=r"optimal gap $\Delta_\sigma$ in seconds", xticks=grid.sigmas)
    axes.set_title(f"{grid.environment}: largest gap with the fewest episodes", fontsize="medium")
    axes.grid(alpha=0.3)


def _episodes(axes: Axes, grid: Grid) -> None:
    found = [grid.fewest_episodes(sigma) for sigma in grid.sigmas]
    _estimates(axes, grid.sigmas, found, EPISODES_COLOUR)
    never = grid.budget + 1
    mark_never(axes, never)
    highest = max((estimate.interval or (0.0, estimate.value or 0.0))[1] for estimate in found)
    axes.set_ylim(0, min(1.12 * never, max(4.0, 1.5 * highest)))
    axes.set(xlabel=r"noise level $\sigma$", ylabel=r"episodes to success at $\Delta_\sigma$", xticks=grid.sigmas)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"mean over seeds, 95% interval ({never}: no success)", fontsize="medium")
    axes.grid(alpha=0.3)


def _estimates(axes: Axes, x: Sequence[float], found: Sequence[Estimate], colour: str) -> None:
    values = [np.nan if estimate.value is None else estimate.value for estimate in found]
    axes.plot(x, values, color=colour, linewidth=1.5)
    for at, estimate in zip(x, found, strict=True):
        draw_estimate(axes, at, estimate, colour)
    legend_once(axes)


def _heat_map(figure: Figure, axes: Axes, grid: Grid) -> None:
    means = grid.means().T
    image = axes.imshow(means, cmap="viridis_r", vmin=1, vmax=grid.budget + 1, aspect="auto")
    figure.colorbar(image, ax=axes, label=f"episodes ({grid.budget + 1}: no success)")
    for i, best in enumerate(grid.optima):
        for j in range(len(grid.gaps)):
            _cell(axes, i, j, means[j, i], grid.succeeded[i * len(grid.gaps) + j], grid.budget)
        if best is not None:
            axes.add_patch(
                Rectangle((i - 0.46, best - 0.46), 0.92, 0.92, fill=False, edgecolor=EPISODES_COLOUR, linewidth=2.5)
            )
    axes.set_xticks(range(len(grid.sigmas)), [f"{sigma:g}" for sigma in grid.sigmas])
    axes.set_yticks(range(len(grid.gaps)), [_gap(gap) for gap in grid.gaps])
    axes.set(xlabel=r"noise level $\sigma$", ylabel=r"gap $\Delta$ in seconds")
    axes.set_title("mean episodes to success (runs with success); framed: optimal", fontsize="medium")


def _cell(axes: Axes, x: int, y: int, mean: float, succeeded: str, budget: int) -> None:
    if np.isnan(mean):
        axes.text(x, y, "failed", ha="center", va="center", fontsize="small")
        return
    done, of = succeeded.split(" of ")
    sign = "" if done == of else r"$\geq$"
    dark = mean > 0.6 * (budget + 1)
    axes.text(
        x,
        y,
        f"{sign}{mean:.2g} ({done}/{of})",
        ha="center",
        va="center",
        fontsize="small",
        color="white" if dark else "black",
    )


def _gap(gap: float) -> str:
    return f"1/{round(1 / gap)}" if gap < 1 else f"{gap:g}"
