"""Agents side by side, as a table and as a picture."""

from collections.abc import Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.box import SIMPLE
from rich.table import Table

from ctmle.lab.report.compare import Panel
from ctmle.pictures import COLOURS


def comparison_table(panel: Panel) -> Table:
    """The last score of each agent on one task (mean over seeds, standard error).

    Then how many seeds succeeded, after how many episodes and looks in the mean over those that did.
    """
    table = Table(title=f"{panel.environment}, sigma = {panel.sigma:g}", title_justify="left", box=SIMPLE)
    table.add_column("agent", overflow="fold", min_width=12)
    for name in ("episode", "looks", "score", "success", "episodes", "looks"):
        table.add_column(name, justify="right", no_wrap=True)
    for curve in panel.curves:
        error = "" if curve.score_se is None else f" +- {curve.score_se[-1]:.3f}"
        score = f"{curve.score[-1]:.3f}{error}"
        table.add_row(
            curve.agent,
            str(curve.episodes[-1]),
            f"{curve.looks[-1]:.0f}",
            f"[green]{score}[/green]" if curve.score[-1] >= panel.success_at else score,
            f"{curve.succeeded} of {len(curve.seeds)}",
            "-" if curve.episodes_to_success is None else f"{curve.episodes_to_success:.1f}",
            "-" if curve.looks_to_success is None else f"{curve.looks_to_success:.0f}",
        )
    return table


def plot_comparison(panels: Sequence[Panel]) -> Figure:
    """A column for each task: the score against episodes above and against looks below, with standard errors."""
    agents = list(dict.fromkeys(curve.agent for panel in panels for curve in panel.curves))
    colours = dict(zip(agents, cycle(COLOURS), strict=False))
    size = (max(4.6 * len(panels), 6.0), 7.0)
    figure, grid = plt.subplots(2, len(panels), figsize=size, layout="constrained", squeeze=False)
    for column, panel in enumerate(panels):
        _draw(grid[0, column], panel, "episodes", colours)
        _draw(grid[1, column], panel, "looks", colours)
        grid[0, column].set_title(f"{panel.environment}, sigma = {panel.sigma:g}")
        grid[0, column].xaxis.set_major_locator(MaxNLocator(integer=True))
        grid[0, 0].set_ylabel(f"mean reward after {panel.warm_up:g} s")
        grid[1, 0].set_ylabel(f"mean reward after {panel.warm_up:g} s")
    handles = {label: line for axes in grid.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    columns = min(len(handles), 1 + len(panels))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns, fontsize="small")
    return figure


def _draw(axes: Axes, panel: Panel, against: str, colours: dict[str, str]) -> None:
    for curve in panel.curves:
        x, score = np.asarray(getattr(curve, against), float), np.asarray(curve.score)
        axes.plot(x, score, color=colours[curve.agent], marker="o", markersize=3, label=curve.agent)
        if curve.score_se is not None:
            error = np.asarray(curve.score_se)
            axes.fill_between(x, score - error, score + error, color=colours[curve.agent], alpha=0.2, linewidth=0)
    axes.axhline(panel.success_at, color="grey", linewidth=1, linestyle="--", label="success")
    axes.set_xlabel("episode" if against == "episodes" else "looks spent")
    axes.set_ylim(min(-0.05, *(min(curve.score) for curve in panel.curves)), 1.02)
    axes.grid(alpha=0.3)
