"""Learning curves by width, and what each width came to."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ctmle.lab.paper.outcomes import (
    episodes_to_success,
    final_scores,
    grouped,
    learning_curves,
    mean_episodes,
    mean_final_score,
    width,
)
from ctmle.lab.report.statistics import Estimate, Samples
from ctmle.lab.sweeps import Result
from ctmle.pictures import draw_estimate, legend_once, mark_never

ByWidth = dict[int, list[Result]]


def plot_widths(results: list[Result]) -> Figure:
    """A line of three panels for each system."""
    systems = grouped(results, lambda c: c.environment)
    size = (14.0, 4.2 * len(systems))
    figure, panels = plt.subplots(len(systems), 3, figsize=size, layout="constrained", squeeze=False)
    for (left, middle, right), (environment, runs) in zip(panels, systems.items(), strict=True):
        by_width = dict(sorted(grouped(runs, width).items()))
        _curves(left, environment, by_width, runs[0].config.evaluation.success)
        _final(middle, by_width)
        _episodes(right, by_width, runs[0].config.episodes + 1)
    return figure


def _curves(axes: Axes, environment: str, by_width: ByWidth, success: float) -> None:
    for (units, runs), colour in zip(by_width.items(), _colours(len(by_width)), strict=True):
        x, scores = np.array(runs[0].episodes), learning_curves(runs)
        mean = scores.mean(axis=0)
        axes.plot(x, mean, color=colour, marker="o", markersize=4, label=f"{units} units ({len(runs)} seeds)")
        if len(runs) > 1:
            error = scores.std(axis=0, ddof=1) / len(runs) ** 0.5
            axes.fill_between(x, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(success, color="grey", linestyle="--", linewidth=1, label="success")
    axes.set(xlabel="episode", ylabel="mean reward after the warm-up")
    axes.set_title(f"{environment}: mean and standard error", fontsize="medium")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")


def _final(axes: Axes, by_width: ByWidth) -> None:
    groups = list(by_width.values())
    _by_width(axes, by_width, [final_scores(runs) for runs in groups], [mean_final_score(runs) for runs in groups])
    axes.set_ylabel("score after the last episode")
    axes.set_title("interquartile mean, 95% interval, and each seed", fontsize="medium")


def _episodes(axes: Axes, by_width: ByWidth, never: int) -> None:
    groups = list(by_width.values())
    _by_width(axes, by_width, [episodes_to_success(runs) for runs in groups], [mean_episodes(runs) for runs in groups])
    mark_never(axes, never)
    axes.set(ylabel="episodes to success", ylim=(0, 1.15 * never))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("mean, 95% interval, and each seed", fontsize="medium")


def _by_width(axes: Axes, by_width: ByWidth, each: Sequence[Samples], found: Sequence[Estimate]) -> None:
    for i, (samples, estimate, colour) in enumerate(zip(each, found, _colours(len(by_width)), strict=True)):
        beside = i + np.linspace(-0.25, 0.25, len(samples) + 2)[1:-1]
        axes.plot(beside, samples, ".", color=colour, alpha=0.5)
        draw_estimate(axes, float(i), estimate, colour)
    axes.set_xticks(range(len(by_width)), [str(units) for units in by_width])
    axes.set_xlabel("units per hidden layer")
    axes.grid(alpha=0.3)
    legend_once(axes)


def _colours(count: int) -> np.ndarray:
    """An ordered scale, for widths are ordered."""
    return plt.get_cmap("viridis")(np.linspace(0.0, 0.85, count))
